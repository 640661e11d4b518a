/* test_sort.c: sorted cells are in global order, by the definition of that order, comparison by comparison. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "model/datatype.h"
#include "model/domain.h"
#include "format/fragment_metadata.h"
#include "write/writer.h"
#include "chance.h"

#define MAX 3000

typedef struct cells { /* up to three dimensions of any datatype */
  tsr_field fields[3];
  tsr_schema schema;
  tsr_column columns[3];
  uint8_t values[3][MAX * 40];
  uint64_t offsets[3][MAX + 1];
  uint64_t count;
} cells;
static cells c;

static const void *value_of(uint32_t d, uint64_t i, uint64_t *size) {
  const tsr_column *column = &c.columns[d];
  uint64_t at = column->constant ? 0 : i;
  if (c.fields[d].cell_size) {
    *size = c.fields[d].cell_size;
    return (const uint8_t *)column->values + at * *size;
  }
  *size = c.offsets[d][at + 1] - c.offsets[d][at];
  return c.values[d] + c.offsets[d][at];
}

static int compare_dimension(uint32_t d, uint64_t a, uint64_t b) {
  uint64_t a_size, b_size;
  const void *x = value_of(d, a, &a_size), *y = value_of(d, b, &b_size);
  if (!c.fields[d].cell_size) return tsr__bytes_compare(x, a_size, y, b_size);
  uint64_t k = tsr__key(c.fields[d].datatype, x), l = tsr__key(c.fields[d].datatype, y);
  return k < l ? -1 : k > l;
}

static uint64_t hilbert_of(uint64_t i) {
  const void *values[3];
  uint64_t sizes[3];
  for (uint32_t d = 0; d < c.schema.dimension_count; d++) values[d] = value_of(d, i, &sizes[d]);
  return tsr__hilbert_code(&c.schema, values, sizes);
}

/* The definition of global order. */
static int compare_cells(uint64_t a, uint64_t b) {
  uint32_t n = c.schema.dimension_count;
  uint64_t size;
  if (c.schema.cell_order == TSR_ORDER_HILBERT) {
    uint64_t x = hilbert_of(a), y = hilbert_of(b);
    if (x != y) return x < y ? -1 : 1;
  }
  for (uint32_t i = 0; i < n && c.schema.cell_order != TSR_ORDER_HILBERT; i++) {
    uint32_t d = c.schema.tile_order == TSR_ORDER_COL ? n - 1 - i : i;
    if (!c.fields[d].has_extent) continue;
    uint64_t x = tsr__tile_number(&c.fields[d], value_of(d, a, &size));
    uint64_t y = tsr__tile_number(&c.fields[d], value_of(d, b, &size));
    if (x != y) return x < y ? -1 : 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    int order = compare_dimension(c.schema.cell_order == TSR_ORDER_COL ? n - 1 - i : i, a, b);
    if (order) return order;
  }
  return 0;
}

static void make_dimension(uint32_t d) {
  static const tsr_datatype kinds[] = {TSR_INT8,    TSR_UINT8,   TSR_INT32, TSR_UINT64, TSR_INT64,
                                       TSR_FLOAT32, TSR_FLOAT64, TSR_ASCII, TSR_ASCII,  TSR_DATETIME_MS};
  tsr_datatype datatype = kinds[chance(10)];
  tsr_field *f = &c.fields[d];
  *f = (tsr_field){.name = "d", .is_dimension = true, .datatype = datatype, .values_per_cell = 1};
  c.columns[d] = (tsr_column){.values = c.values[d], .constant = chance(10) == 0};
  if (datatype == TSR_ASCII) {
    f->values_per_cell = TSR_VARIABLE;
    c.columns[d].offsets = c.offsets[d];
    uint64_t longest = 1 + chance(chance(2) ? 3 : 39), letters = 1 + chance(3), at = 0;
    bool high = chance(2);
    for (uint64_t i = 0; i < c.count; i++) {
      c.offsets[d][i] = at;
      for (uint64_t n = chance(2) ? longest : chance(longest + 1); n > 0; n--)
        c.values[d][at++] = (uint8_t)(chance(letters + 1) + (high && chance(8) == 0 ? 200 : 0));
    }
    c.offsets[d][c.count] = at;
    return;
  }
  uint64_t size = tsr_datatype_size(datatype), width = 1 + chance(chance(2) ? 5 : 120);
  f->cell_size = size;
  f->has_domain = true;
  f->has_extent = chance(3) > 0;
  for (uint64_t i = 0; i < c.count + 3; i++) { /* the last three: low, high, extent */
    uint8_t *to = i < c.count ? c.values[d] + i * size : i == c.count ? f->low : i == c.count + 1 ? f->high : f->extent;
    uint64_t n = i < c.count ? chance(width + 1) : i == c.count ? 0 : i == c.count + 1 ? width : 1 + chance(width);
    if (datatype == TSR_FLOAT32) {
      float v = (float)n * 0.3f;
      memcpy(to, &v, 4);
    } else if (datatype == TSR_FLOAT64) {
      double v = (double)n * 0.1;
      memcpy(to, &v, 8);
    } else {
      int64_t v = (int64_t)n;
      if (tsr_datatype_kind(datatype) == TSR_KIND_SIGNED && i <= c.count + 1) v -= (int64_t)width / 2;
      memcpy(to, &v, size);
    }
  }
}

static void test_order_agrees_with_its_definition(void **state) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  for (int round = 0; round < 400; round++) {
    uint32_t order[MAX];
    c.count = chance(4) ? 1 + chance(100) : 1 + chance(MAX);
    c.schema = (tsr_schema){.fields = c.fields, .dimension_count = 1 + (uint32_t)chance(3)};
    c.schema.tile_order = chance(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    c.schema.cell_order = chance(3) == 0 ? TSR_ORDER_HILBERT : chance(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    c.schema.allows_duplicates = chance(2);
    for (uint32_t d = 0; d < c.schema.dimension_count; d++) make_dimension(d);
    uint64_t count = c.count;
    tsr_error error;
    assert_int_equal(tsr__order_cells(&c.schema, c.columns, &memory, 1, NULL, order, &count, &error), TSR_OK);
    bool seen[MAX] = {false};
    for (uint64_t i = 0; i < count; i++) {
      assert_true(order[i] < c.count && !seen[order[i]]);
      seen[order[i]] = true;
      if (i == 0) continue;
      int compared = compare_cells(order[i - 1], order[i]);
      if (compared > 0 || (compared == 0 && (!c.schema.allows_duplicates || order[i - 1] > order[i])))
        fail_msg("round %d: cells %u and %u at %llu", round, order[i - 1], order[i], (unsigned long long)i);
    }
    if (c.schema.allows_duplicates) assert_int_equal(count, c.count);
    /* a cell that is left out has an equal cell with a greater number that stayed */
    for (uint64_t i = 0; i < c.count && !c.schema.allows_duplicates; i++) {
      if (seen[i]) continue;
      bool later = false;
      for (uint64_t j = i + 1; j < c.count && !later; j++) later = seen[j] && compare_cells(i, j) == 0;
      assert_true(later);
    }
  }
  assert_int_equal(memory.used, 0);
}

/* No cells and one cell are sorted; with too small a budget the error is TSR_BUDGET, and all memory is released. */
static void test_no_cell_one_cell_and_small_budgets(void **state) {
  tsr_memory memory, small;
  uint32_t order[MAX];
  tsr__memory_init_root(&memory, NULL, NULL);
  c.count = 1000;
  c.schema = (tsr_schema){.fields = c.fields, .dimension_count = 2};
  for (uint32_t d = 0; d < 2; d++) make_dimension(d);
  uint64_t count = 0;
  tsr_error error;
  assert_int_equal(tsr__order_cells(&c.schema, c.columns, &memory, 1, NULL, order, &count, &error), TSR_OK);
  assert_int_equal(count, 0);
  count = 1;
  assert_int_equal(tsr__order_cells(&c.schema, c.columns, &memory, 1, NULL, order, &count, &error), TSR_OK);
  assert_int_equal(count, 1);
  assert_int_equal(order[0], 0);
  bool worked = false;
  for (uint64_t limit = 0; !worked; limit += 4096) {
    tsr__memory_init(&small, &memory, limit, "test");
    count = 1000;
    int code = tsr__order_cells(&c.schema, c.columns, &small, 1, NULL, order, &count, &error);
    worked = code == TSR_OK;
    if (!worked) assert_int_equal(code, TSR_BUDGET);
    assert_int_equal(small.used, 0);
  }
}

/* Cells whose order takes several words are sorted by their highest bits where these mostly differ, and by all words
 * elsewhere: with tiles or without, ties next to each other or everywhere, and equal cells. */
static void test_many_cells_of_long_keys(void **state) {
  enum { COUNT = 20000 };
  static double values[2][COUNT];
  static uint32_t order[COUNT];
  static bool seen[COUNT];
  tsr_memory memory;
  (void)state;
  tsr__memory_init_root(&memory, NULL, NULL);
  for (int round = 0; round < 48; round++) {
    const int kind =
        round % 6; /* all differ; some ties; ties beside the sample; few values; tiles of one value; equal */
    const double step = kind == 4 ? 1e-7 : 40.0;
    c.count = COUNT - chance(1000);
    c.schema = (tsr_schema){.fields = c.fields, .dimension_count = 2, .allows_duplicates = round / 6 % 2};
    c.schema.tile_order = round / 12 % 2 ? TSR_ORDER_COL : TSR_ORDER_ROW;
    c.schema.cell_order = round / 24 % 2 ? TSR_ORDER_COL : TSR_ORDER_ROW;
    for (uint64_t i = 0; i < c.count; i++) {
      for (uint32_t d = 0; d < 2; d++)
        values[d][i] = (double)chance(UINT64_C(1) << 31) / 1e7 + (double)chance(UINT64_C(1) << 31) / 1e17 - 100;
      const uint32_t slow = c.schema.cell_order == TSR_ORDER_COL;
      if ((kind == 1 && i % 50 == 3) || (kind == 2 && i % 4 != 0)) values[slow][i] = values[slow][i - 1];
      if (kind == 3) values[slow][i] = (double)chance(100);
      if (kind == 5 && i % 100 == 1) values[0][i] = values[0][i - 1], values[1][i] = values[1][i - 1];
    }
    for (uint32_t d = 0; d < 2; d++) {
      tsr_field *f = &c.fields[d];
      const double low = -1000, high = 1000;
      *f = (tsr_field){.name = "d", .is_dimension = true, .datatype = TSR_FLOAT64, .values_per_cell = 1};
      f->cell_size = 8;
      f->has_domain = true;
      f->has_extent = kind != 0 || d == 1;
      memcpy(f->low, &low, 8);
      memcpy(f->high, &high, 8);
      memcpy(f->extent, &step, 8);
      c.columns[d] = (tsr_column){.values = values[d]};
    }
    uint64_t count = c.count;
    tsr_error error;
    assert_int_equal(tsr__order_cells(&c.schema, c.columns, &memory, 1 + round % 2, NULL, order, &count, &error),
                     TSR_OK);
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < count; i++) {
      assert_true(order[i] < c.count && !seen[order[i]]);
      seen[order[i]] = true;
      const int compared = i ? compare_cells(order[i - 1], order[i]) : -1;
      if (compared > 0 || (compared == 0 && (!c.schema.allows_duplicates || order[i - 1] > order[i])))
        fail_msg("round %d: cells %u and %u at %llu", round, order[i - 1], order[i], (unsigned long long)i);
    }
    const uint64_t equal = kind == 5 && !c.schema.allows_duplicates ? (c.count + 98) / 100 : 0;
    assert_int_equal(count, c.count - equal);
    for (uint64_t i = 0; i < c.count && equal; i++) assert_int_equal(seen[i], i % 100 != 0 || i + 1 == c.count);
  }
  assert_int_equal(memory.used, 0);
}

/* Many pairs are sorted, by many threads, too; pairs with equal keys keep their order. */
static void test_many_pairs_are_sorted_stably(void **state) {
  enum { COUNT = 100000 };
  static tsr_pair pairs[COUNT], spare[COUNT];
  static const struct {
    uint64_t values, factor;
  } kinds[] = {{UINT64_C(1) << 62, 1}, {1000, 1}, {1, 1}, {2, UINT64_C(1) << 63}, {COUNT, 1}, {50, UINT64_C(1) << 40}};
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (unsigned threads = 1; threads <= 3; threads++)
      for (int shape = 0; shape < 4; shape++) { /* random; a few keys far from the others; sorted; sorted but for one */
        const uint64_t count = chance(3) ? COUNT : 30000 + chance(5000);
        for (uint64_t i = 0; i < count; i++) {
          uint64_t key = (chance(UINT64_C(1) << 31) << 31 | chance(UINT64_C(1) << 31)) % kinds[k].values;
          if (shape == 1 && i % 10000 == 7) key = UINT64_MAX - chance(3);
          if (shape >= 2) key = i * kinds[k].values / count;
          pairs[i] = (tsr_pair){key * kinds[k].factor, (uint32_t)i};
        }
        if (shape == 3) pairs[count - 1].key = 0;
        assert_int_equal(tsr__pairs_sort_many(pairs, spare, count, threads, NULL, NULL), TSR_OK);
        uint64_t sum = 0;
        for (uint64_t i = 0; i < count; i++) {
          sum += pairs[i].cell;
          if (i == 0) continue;
          const tsr_pair *a = &pairs[i - 1], *b = &pairs[i];
          if (a->key > b->key || (a->key == b->key && a->cell >= b->cell))
            fail_msg("kind %zu, shape %d: pair %llu", k, shape, (unsigned long long)i);
        }
        assert_int_equal(sum, count * (count - 1) / 2);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_agrees_with_its_definition),
                                     cmocka_unit_test(test_no_cell_one_cell_and_small_budgets),
                                     cmocka_unit_test(test_many_cells_of_long_keys),
                                     cmocka_unit_test(test_many_pairs_are_sorted_stably)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
