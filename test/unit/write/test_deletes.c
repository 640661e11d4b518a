/* test_deletes.c: removed coordinates become conditions. Evaluated on all coordinates around, they delete exactly
 * the removed ones, with no more nodes than necessary. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "format/condition.h"
#include "format/generic_tile.h"
#include "write/writer.h"
#include "chance.h"

#define MAX        20000 /* cells */
#define DIMENSIONS 3

static tsr_memory memory;
static tsr_error error;

typedef struct cells {
  uint64_t count;
  tsr_column columns[DIMENSIONS];
  uint8_t values[DIMENSIONS][MAX * 8];
  uint64_t offsets[DIMENSIONS][MAX + 1];
} cells;
static tsr_field fields[DIMENSIONS];
static tsr_schema schema;
static cells removed, around;

static int setup(void **state) {
  tsr__memory_init_root(&memory, NULL, NULL);
  return 0;
}
static int teardown(void **state) { return memory.used != 0; }

static void ok(int code) {
  if (code < 0) fail_msg("%s: %s", tsr_code_name(code), error.message);
}

static void make_schema(uint32_t dimensions, const tsr_datatype *datatypes) {
  static char *const names[] = {"x", "time", "__z"};
  schema = (tsr_schema){.dimension_count = dimensions, .fields = fields, .version = 22};
  for (uint32_t d = 0; d < dimensions; d++)
    fields[d] = (tsr_field){.name = names[d],
                            .is_dimension = true,
                            .datatype = datatypes[d],
                            .values_per_cell = datatypes[d] == TSR_ASCII ? TSR_VARIABLE : 1,
                            .cell_size = datatypes[d] == TSR_ASCII ? 0 : tsr_datatype_size(datatypes[d])};
  removed.count = around.count = 0;
}

/* Makes value n of a dimension: integers around zero, halves, strings of letters. */
static uint64_t value_of(uint32_t d, uint64_t n, uint8_t *value) {
  tsr_datatype datatype = fields[d].datatype;
  int64_t number = (int64_t)n - 20;
  double f64 = n == 7 ? -0.0 : (double)number / 2 + 6.5; /* 7: 0.0 */
  float f32 = (float)f64;
  switch (datatype) {
  case TSR_ASCII:
    if (n % 5 == 1)
      return (uint64_t)snprintf((char *)value, 8, "%c%c", 'a' + (char)(n / 26 % 26), 'a' + (char)(n % 26));
    return n == 0 ? 0 : (uint64_t)snprintf((char *)value, 8, "%llu", (unsigned long long)n);
  case TSR_FLOAT64: memcpy(value, &f64, 8); return 8;
  case TSR_FLOAT32: memcpy(value, &f32, 4); return 4;
  case TSR_UINT64:
    n += UINT64_MAX - 400;
    memcpy(value, &n, 8);
    return 8;
  case TSR_UINT8: *value = (uint8_t)n; return 1;
  default: memcpy(value, &number, fields[d].cell_size); return fields[d].cell_size;
  }
}

static void add(cells *c, const uint64_t *numbers) {
  for (uint32_t d = 0; d < schema.dimension_count; d++) {
    c->offsets[d][0] = 0;
    uint64_t at = fields[d].cell_size ? c->count * fields[d].cell_size : c->offsets[d][c->count];
    uint64_t size = value_of(d, numbers[d], c->values[d] + at);
    c->offsets[d][c->count + 1] = at + size;
    c->columns[d] = (tsr_column){.values = c->values[d], .offsets = c->offsets[d], .cell_size = fields[d].cell_size};
  }
  c->count++;
  assert_true(c->count < MAX);
}

/* ---- What a condition keeps ---- */

static int field_column(void *argument, const char *field, const tsr_field **description, const tsr_column **column,
                        tsr_error *e) {
  for (uint32_t d = 0; d < schema.dimension_count; d++)
    if (!strcmp(field, fields[d].name)) {
      *description = &fields[d];
      *column = &around.columns[d];
      return TSR_OK;
    }
  return tsr__fail(e, TSR_CORRUPT, "field %s", field);
}

static uint64_t nodes, sets, conditions;
static void count_nodes(const tsr_condition_node *node, bool root) {
  if (!node->expression) {
    nodes++;
    sets += node->op == TSR_NOT_IN;
    assert_true(node->op != TSR_IN && node->op != TSR_EQ);
    return;
  }
  assert_true(node->child_count >= 2);
  for (uint32_t i = 0; i < node->child_count; i++) count_nodes(&node->children[i], false);
}

/* Makes conditions of the cells in `removed` and evaluates on `around` which cells they keep. */
static void evaluate(uint32_t version, const uint8_t *key, const uint32_t *selection, uint64_t count, uint8_t *keep) {
  tsr_deletes deletes = {0};
  ok(tsr__deletes_make(&schema, version, key, removed.columns, selection, count, &memory, &deletes, &error));
  memset(keep, 1, around.count);
  nodes = sets = 0;
  conditions = deletes.count;
  assert_int_equal(deletes.ends.size, 8 * deletes.count);
  for (uint64_t i = 0, at = 0, end; i < deletes.count; i++, at = end) {
    static uint8_t one[MAX];
    end = tsr__load64(deletes.ends.data + 8 * i);
    tsr_buffer content = {.memory = &memory};
    tsr_generic_tile header;
    uint64_t consumed;
    ok(tsr__generic_tile_decode(deletes.bytes.data + at, end - at, key, UINT64_MAX, &content, &header, &consumed,
                                &error));
    assert_int_equal(consumed, end - at);
    assert_int_equal(header.version, version);
    assert_int_equal(header.encrypted, key != NULL);
    tsr_arena arena;
    tsr__arena_init(&arena, &memory);
    tsr_input in = tsr__input(content.data, content.size);
    tsr_condition condition;
    ok(tsr__condition_decode(&in, "d", 1, &arena, &condition, &error));
    assert_true(condition.depth <= 6);
    count_nodes(&condition.root, true);
    ok(tsr__condition_evaluate(&condition, field_column, NULL, NULL, around.count, one, &memory, &error));
    for (uint64_t c = 0; c < around.count; c++) keep[c] &= one[c];
    tsr__arena_release(&arena);
    tsr__buffer_release(&content);
  }
  tsr__deletes_release(&deletes);
  if (version < 20) assert_int_equal(sets, 0);
}

/* Checks all cells of a grid of `sides` values: the cells that `choose` names are removed, some of them twice. */
static uint8_t expected[MAX];
static void run(const uint64_t *sides, bool (*choose)(const uint64_t *numbers), uint32_t version, const uint8_t *key) {
  static uint8_t keep[MAX];
  static uint32_t selection[MAX];
  uint64_t all = 1, selected = 0;
  for (uint32_t d = 0; d < schema.dimension_count; d++) all *= sides[d];
  removed.count = around.count = 0;
  for (uint64_t i = 0; i < all; i++) {
    uint64_t numbers[DIMENSIONS], rest = i;
    for (uint32_t d = schema.dimension_count; d-- > 0; rest /= sides[d]) numbers[d] = rest % sides[d];
    expected[i] = !choose(numbers);
    add(&around, numbers);
    if (!expected[i] || chance(3) == 0) { /* cells that are not selected stand between */
      if (!expected[i]) selection[selected++] = (uint32_t)removed.count;
      if (!expected[i] && chance(10) == 0) selection[selected++] = (uint32_t)removed.count;
      add(&removed, numbers);
    }
  }
  for (uint64_t i = selected; i > 1; i--) { /* in any order */
    uint64_t other = chance(i);
    uint32_t swap = selection[i - 1];
    selection[i - 1] = selection[other];
    selection[other] = swap;
  }
  evaluate(version, key, selection, selected, keep);
  for (uint64_t i = 0; i < all; i++)
    if (keep[i] != expected[i])
      fail_msg("cell %llu of %llu: kept %d", (unsigned long long)i, (unsigned long long)all, keep[i]);
}

/* ---- Tests ---- */

static bool none(const uint64_t *n) { return false; }
static bool every(const uint64_t *n) { return true; }
static bool first(const uint64_t *n) { return !n[0] && !n[1]; }
static bool checkered(const uint64_t *n) { return (n[0] + n[1]) % 2; }
static bool inner(const uint64_t *n) { return n[0] > 2 && n[0] < 9 && n[1] > 3 && n[1] < 11; }
static bool columns_of_some(const uint64_t *n) { return n[1] % 3 == 1; }
static uint64_t one_of = 2;
static bool by_chance(const uint64_t *n) { return chance(one_of) == 0; }

static void no_cells_make_no_condition(void **state) {
  make_schema(2, (tsr_datatype[]){TSR_INT32, TSR_INT32});
  run((uint64_t[]){4, 4}, none, 22, NULL);
  assert_int_equal(conditions, 0);
}

static void conditions_have_few_nodes(void **state) {
  make_schema(2, (tsr_datatype[]){TSR_INT32, TSR_INT64});
  run((uint64_t[]){14, 14}, first, 22, NULL);
  assert_int_equal(nodes, 2);
  run((uint64_t[]){14, 14}, inner, 22, NULL); /* x < 3 OR x > 8 OR y < 4 OR y > 10 */
  assert_int_equal(nodes, 4);
  run((uint64_t[]){14, 14}, inner, 16, NULL);
  assert_int_equal(nodes, 4);
  run((uint64_t[]){14, 14}, every, 16, NULL);
  assert_int_equal(nodes, 4);
  run((uint64_t[]){14, 14}, columns_of_some, 16, NULL); /* all x; y not 1, 4, 7, 10, 13 */
  assert_int_equal(nodes, 2 + 5);
  run((uint64_t[]){14, 14}, checkered, 16, NULL); /* odd x, even y; even x, odd y */
  assert_int_equal(nodes, 28);
  run((uint64_t[]){60, 60}, checkered, 20, NULL);
  assert_int_equal(nodes, 4 * 30);
  run((uint64_t[]){130, 130}, checkered, 20, NULL);
  assert_int_equal(nodes, 4);
  assert_int_equal(sets, 4);
  run((uint64_t[]){14, 200}, columns_of_some, 20, NULL);
  assert_int_equal(nodes, 3);
  assert_int_equal(sets, 1);
  assert_int_equal(conditions, 1);
  run((uint64_t[]){14, 200}, columns_of_some, 19, NULL);
  assert_int_equal(nodes, 2 + 67);
}

static void exact_cells_go_in_one_dimension(void **state) {
  static const tsr_datatype all[] = {TSR_INT8,   TSR_UINT8,   TSR_INT16,   TSR_INT32, TSR_INT64,
                                     TSR_UINT64, TSR_FLOAT32, TSR_FLOAT64, TSR_ASCII, TSR_DATETIME_MS};
  for (uint64_t i = 0; i < sizeof all / sizeof *all; i++)
    for (uint32_t version = 16; version <= 22; version += 3) {
      make_schema(1, all + i);
      for (one_of = 1; one_of < 40; one_of += 4) run((uint64_t[]){140}, by_chance, version, NULL);
    }
  make_schema(1, (tsr_datatype[]){TSR_INT32});
  run((uint64_t[]){9000}, every, 22, NULL);
  assert_int_equal(nodes, 2);
}

/* Both zeros of a float are deleted, in sets, too. */
static void both_zeros_go(void **state) {
  for (int kind = 0; kind < 2; kind++) {
    make_schema(1, kind ? (tsr_datatype[]){TSR_FLOAT32} : (tsr_datatype[]){TSR_FLOAT64});
    for (uint64_t side = 8; side < 300; side += 200) {
      run((uint64_t[]){side}, every, 22, NULL);
      uint8_t keep[400];
      removed.count = around.count = 0;
      for (uint64_t n = 0; n < side; n++) add(&removed, &n);
      for (uint64_t n = 0; n < side; n++) add(&around, &n);
      around.values[0][7 * fields[0].cell_size + fields[0].cell_size - 1] ^= 0x80;
      evaluate(22, NULL, NULL, removed.count, keep);
      for (uint64_t n = 0; n < side; n++) assert_int_equal(keep[n], 0);
      assert_int_equal(sets, side > 100);
    }
  }
}

static void exact_cells_go_in_any_dimensions(void **state) {
  static const tsr_datatype kinds[] = {TSR_INT8, TSR_INT32, TSR_UINT64, TSR_FLOAT64, TSR_ASCII, TSR_DATETIME_DAY};
  static const uint8_t key[TSR_KEY_SIZE] = {1, 2, 3};
  for (int round = 0; round < 150; round++) {
    tsr_datatype datatypes[DIMENSIONS];
    uint64_t sides[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; d++) {
      datatypes[d] = kinds[chance(6)];
      sides[d] = 1 + chance(chance(4) ? 8 : 120);
    }
    uint32_t dimensions = 1 + (uint32_t)chance(3);
    if (dimensions == 3)
      for (int d = 0; d < 2; d++) sides[d] = 1 + sides[d] % 9;
    make_schema(dimensions, datatypes);
    one_of = 1 + chance(chance(2) ? 4 : 100);
    run(sides, chance(5) ? by_chance : every, 16 + (uint32_t)chance(7), chance(4) ? NULL : key);
  }
}

/* A condition that is too large becomes several. */
static void large_conditions_are_cut(void **state) {
  const uint64_t count = 2500000;
  make_schema(1, (tsr_datatype[]){TSR_INT64});
  int64_t *values = malloc(count * 8);
  for (uint64_t i = 0; i < count; i++) values[i] = 3 * (int64_t)i;
  removed.columns[0] = (tsr_column){.values = values, .cell_size = 8};
  for (uint64_t n = 0; n < 250; n++) add(&around, &n);
  uint8_t keep[250];
  evaluate(22, NULL, NULL, count, keep);
  assert_int_equal(sets, 3);
  assert_int_equal(nodes, 3);
  assert_int_equal(conditions, 2);
  for (int64_t n = 0; n < 250; n++) assert_int_equal(keep[n], n < 20 || (n - 20) % 3 != 0);
  free(values);
}

/* With too little memory the only error is TSR_BUDGET, and all memory is released. */
static void too_little_memory_is_an_error(void **state) {
  tsr_memory small;
  make_schema(2, (tsr_datatype[]){TSR_ASCII, TSR_INT32});
  for (uint64_t i = 0; i < 500; i++) add(&removed, (uint64_t[]){chance(100), chance(100)});
  int code = TSR_BUDGET;
  for (uint64_t limit = 0; code < 0; limit += 1000) {
    tsr_deletes deletes = {0};
    tsr__memory_init(&small, &memory, limit, "memory_mb");
    code = tsr__deletes_make(&schema, 22, NULL, removed.columns, NULL, removed.count, &small, &deletes, &error);
    if (code < 0) assert_int_equal(code, TSR_BUDGET);
    tsr__deletes_release(&deletes);
    assert_int_equal(small.used, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_cells_make_no_condition),       cmocka_unit_test(conditions_have_few_nodes),
      cmocka_unit_test(exact_cells_go_in_one_dimension),  cmocka_unit_test(both_zeros_go),
      cmocka_unit_test(exact_cells_go_in_any_dimensions), cmocka_unit_test(large_conditions_are_cut),
      cmocka_unit_test(too_little_memory_is_an_error),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
