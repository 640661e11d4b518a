/* test_dropped.c: which tiles delete conditions may have dropped cells from, by their MBRs alone: exactly those that have
 * room for such a cell. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "array/array.h"
#include "environment/environment.h"
#include "format/condition.h"
#include "format/rtree.h"
#include "model/domain.h"
#include "model/datatype.h"
#include "read/reader.h"

#define TILES 3

/* A sparse array of one dimension "x" and an attribute "a", with one fragment of three tiles. */
static tsr_field fields[2];
static tsr_schema schema = {.dimension_count = 1, .attribute_count = 1, .fields = fields};
static uint64_t keys[2 * TILES], sizes[2 * TILES], *levels[1] = {keys}, *size_levels[1] = {sizes};
static tsr_rtree rtree = {.dimensions = 1, .levels = 1, .keys = levels};
static tsr_fragment fragment;
static tsr_snapshot_fragment item = {.fragment = &fragment};
static tsr_snapshot snapshot = {.schema = &schema, .fragments = &item, .fragment_count = 1};

static void set_dimension(tsr_datatype datatype, bool text) {
  fields[0] = (tsr_field){.name = (char *)"x", .is_dimension = true, .datatype = datatype, .values_per_cell = 1};
  fields[1] = (tsr_field){.name = (char *)"a", .datatype = TSR_INT32, .values_per_cell = 1};
  if (text) fields[0].values_per_cell = TSR_VARIABLE;
  rtree.sizes = text ? size_levels : NULL;
  fragment.metadata.rtree = &rtree;
}

static const int32_t boxes[TILES][2] = {{3, 6}, {5, 5}, {-2, 0}};

static void set_numbers(void) {
  set_dimension(TSR_INT32, false);
  for (int i = 0; i < TILES; i++)
    for (int end = 0; end < 2; end++) keys[2 * i + end] = tsr__key(TSR_INT32, &boxes[i][end]);
}

static bool may_drop(const tsr_condition_node *root, uint64_t tile) {
  const tsr_condition condition = {.root = *root}, *list[1] = {&condition};
  return tsr__any_may_drop(&snapshot, 0, tile, list, 1);
}

/* Returns true if a cell satisfies the comparison, so that it is kept. */
static bool keeps(unsigned op, int32_t cell, int32_t value) {
  switch (op) {
  case TSR_LT: return cell < value;
  case TSR_LE: return cell <= value;
  case TSR_GT: return cell > value;
  case TSR_GE: return cell >= value;
  case TSR_EQ: return cell == value;
  default: return cell != value;
  }
}

static bool has_room(unsigned op, int tile, int32_t value) {
  for (int32_t cell = boxes[tile][0]; cell <= boxes[tile][1]; cell++)
    if (!keeps(op, cell, value)) return true;
  return false;
}

static tsr_condition_node comparison(uint8_t op, const int32_t *value) {
  return (tsr_condition_node){
      .op = op, .field = (char *)"x", .value = (const uint8_t *)value, .value_size = sizeof *value};
}

static void test_comparisons_meet_tiles_with_room(void **state) {
  set_numbers();
  for (uint8_t op = TSR_LT; op <= TSR_NE; op++)
    for (int32_t value = -4; value < 9; value++)
      for (int tile = 0; tile < TILES; tile++) {
        const tsr_condition_node one = comparison(op, &value);
        if (may_drop(&one, (uint64_t)tile) != has_room(op, tile, value))
          fail_msg("operator %d, %d, tile %d", op, (int)value, tile);
      }
}

static void test_sets_meet_tiles_with_one_of_their_values(void **state) {
  static const int32_t values[] = {1, 4, 7};
  static const uint64_t offsets[] = {0, 4, 8, 12};
  const tsr_condition_node none_of = {.op = TSR_NOT_IN,
                                      .field = (char *)"x",
                                      .value = (const uint8_t *)values,
                                      .value_size = sizeof values,
                                      .value_offsets = offsets,
                                      .value_count = 3};
  tsr_condition_node one_of = none_of;
  one_of.op = TSR_IN;
  set_numbers();
  assert_true(may_drop(&none_of, 0));
  assert_false(may_drop(&none_of, 1));
  assert_false(may_drop(&none_of, 2));
  for (uint64_t tile = 0; tile < TILES; tile++) assert_true(may_drop(&one_of, tile));
  one_of.value += sizeof *values; /* 4 alone */
  one_of.value_size = sizeof *values;
  one_of.value_count = 1;
  for (uint64_t tile = 0; tile < TILES; tile++) assert_true(may_drop(&one_of, tile));
}

/* What the MBR does not tell counts as possible: attributes, fields that the array lacks, nulls, other sizes. */
static void test_what_is_not_known_may_drop(void **state) {
  static const int32_t value = 100;
  static const int64_t wide = 100;
  tsr_condition_node one = comparison(TSR_LT, &value);
  set_numbers();
  assert_false(may_drop(&one, 0));
  one.field = (char *)"a";
  assert_true(may_drop(&one, 0));
  one.field = (char *)"gone";
  assert_true(may_drop(&one, 0));
  one = comparison(TSR_LT, &value);
  one.value = NULL;
  assert_true(may_drop(&one, 0));
  one.value = (const uint8_t *)&wide;
  one.value_size = sizeof wide;
  assert_true(may_drop(&one, 0));
  one.op = TSR_ALWAYS_TRUE;
  assert_false(may_drop(&one, 0));
  one.op = TSR_ALWAYS_FALSE;
  assert_true(may_drop(&one, 0));
}

/* Keys tell -0.0 from 0.0, and have an order for NaN: with these values the MBR proves nothing. */
static void test_zeros_and_nan_prove_nothing(void **state) {
  static const float singles[] = {0.0F, -0.0F, 2.5F, -1.0F}, box[] = {1.0F, 2.0F};
  set_dimension(TSR_FLOAT32, false);
  for (int end = 0; end < 2; end++) keys[end] = tsr__key(TSR_FLOAT32, &box[end]);
  for (int i = 0; i < 4; i++) {
    const tsr_condition_node one = {
        .op = TSR_NE, .field = (char *)"x", .value = (const uint8_t *)&singles[i], .value_size = sizeof(float)};
    assert_int_equal(may_drop(&one, 0), i < 2);
  }
  static const uint8_t nan_bytes[] = {0, 0, 0xc0, 0x7f};
  const tsr_condition_node one = {.op = TSR_NE, .field = (char *)"x", .value = nan_bytes, .value_size = 4};
  assert_true(may_drop(&one, 0));
  static const double wide[] = {1.0, 2.0}, inside = 1.5, outside = 3;
  set_dimension(TSR_FLOAT64, false);
  for (int end = 0; end < 2; end++) keys[end] = tsr__key(TSR_FLOAT64, &wide[end]);
  tsr_condition_node other = {.op = TSR_NE, .field = (char *)"x", .value = (const uint8_t *)&inside, .value_size = 8};
  assert_true(may_drop(&other, 0));
  other.value = (const uint8_t *)&outside;
  assert_false(may_drop(&other, 0));
}

static void test_texts_are_compared_by_bytes(void **state) {
  static uint8_t text[] = "bbdcc"; /* "b" to "bd" and, in the second tile, "cc" alone */
  static const struct {
    const char *value;
    bool first, second;
  } cases[] = {{"a", false, false},  {"b", true, false},  {"bc", true, false}, {"bd", true, false},
               {"be", false, false}, {"c", false, false}, {"cc", false, true}, {"ccc", false, false}};
  set_dimension(TSR_ASCII, true);
  rtree.text = text;
  const uint64_t begin[] = {0, 1, 3, 3}, size[] = {1, 2, 2, 2};
  memcpy(keys, begin, sizeof begin);
  memcpy(sizes, size, sizeof size);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_condition_node one = {.op = TSR_NE,
                                    .field = (char *)"x",
                                    .value = (const uint8_t *)cases[i].value,
                                    .value_size = strlen(cases[i].value)};
    if (may_drop(&one, 0) != cases[i].first || may_drop(&one, 1) != cases[i].second) fail_msg("'%s'", cases[i].value);
  }
}

/* An AND fails if one of its children does, an OR if all of them do. */
static void test_trees_join_their_children(void **state) {
  static const int32_t four = 4, ninety = 90;
  tsr_condition_node children[] = {comparison(TSR_NE, &four), comparison(TSR_NE, &ninety)};
  tsr_condition_node root = {.expression = true, .op = TSR_JOIN_AND, .child_count = 2, .children = children};
  set_numbers();
  assert_true(may_drop(&root, 0));
  assert_false(may_drop(&root, 1));
  root.op = TSR_JOIN_OR;
  assert_false(may_drop(&root, 0));
  children[1] = comparison(TSR_LE, &four);
  assert_true(may_drop(&root, 0));
  root.op = TSR_JOIN_AND;
  assert_true(may_drop(&root, 1)); /* by its second child */
  assert_false(may_drop(&root, 2));
}

/* Of many deletes of single cells those are left that meet the tile, if they are few. */
static void test_many_deletes_are_narrowed(void **state) {
  enum { MANY = 200 };
  static int32_t values[MANY];
  static tsr_condition_node children[MANY];
  tsr_environment *environment;
  tsr_arena arena;
  tsr_condition condition = {.root = {.expression = true, .op = TSR_JOIN_AND, .children = children}}, narrowed;
  const tsr_condition *list[1] = {&condition};
  tsr_error error;
  set_numbers();
  snapshot.conditions = list;
  snapshot.condition_count = 1;
  assert_int_equal(tsr_environment_open(NULL, &environment, &error), TSR_OK);
  tsr__arena_init(&arena, &environment->memory);
  static const struct {
    uint32_t count;
    int32_t first;
    uint32_t meet; /* children that meet the first tile, 3 to 6, at most 64 */
  } cases[] = {{2, 10, 0}, {2, 6, 1}, {2, 2, 1}, {MANY, -20, 4}, {4, 5, 2}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (uint32_t c = 0; c < cases[i].count; c++) {
      values[c] = cases[i].first + (int32_t)c;
      children[c] = comparison(TSR_NE, &values[c]);
    }
    condition.root.child_count = cases[i].count;
    assert_int_equal(tsr__may_drop(&snapshot, 0, 0, 0, &arena, &narrowed, &error), cases[i].meet > 0);
    if (cases[i].meet == 1) {
      assert_false(narrowed.root.expression);
      assert_in_range(*(const int32_t *)(const void *)narrowed.root.value, 3, 6);
    }
    if (cases[i].meet < 2) continue;
    assert_int_equal(narrowed.root.child_count, cases[i].meet);
    for (uint32_t c = 0; c < cases[i].meet; c++)
      assert_in_range(*(const int32_t *)(const void *)narrowed.root.children[c].value, 3, 6);
  }
  for (uint32_t count = 64; count <= 65; count++) { /* more are evaluated by the index of the whole */
    for (uint32_t c = 0; c < count; c++) {
      values[c] = 3 + (int32_t)(c % 4);
      children[c] = comparison(TSR_NE, &values[c]);
    }
    children[count] = children[0];
    values[count] = 50;
    children[count].value = (const uint8_t *)&values[count];
    condition.root.child_count = count + 1;
    assert_int_equal(tsr__may_drop(&snapshot, 0, 0, 0, &arena, &narrowed, &error), 1);
    assert_int_equal(narrowed.root.child_count, count == 64 ? 64 : 66);
  }
  tsr__arena_release(&arena);
  tsr_environment_close(environment);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_comparisons_meet_tiles_with_room),
      cmocka_unit_test(test_sets_meet_tiles_with_one_of_their_values),
      cmocka_unit_test(test_what_is_not_known_may_drop),
      cmocka_unit_test(test_zeros_and_nan_prove_nothing),
      cmocka_unit_test(test_texts_are_compared_by_bytes),
      cmocka_unit_test(test_trees_join_their_children),
      cmocka_unit_test(test_many_deletes_are_narrowed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
