/* test_sort_hilbert.c: Hilbert order from blocks that are sorted already, all of them, some or none, is the same as without
 * blocks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <math.h>

#include "write/writer.h"
#include "chance.h"

#define MAX (4 * TSR_ORDER_BLOCK)

static int32_t x[MAX];
static int64_t y[MAX];
static tsr_field fields[2];
static tsr_schema schema;
static const tsr_column columns[2] = {{.values = x, .cell_size = 4}, {.values = y, .cell_size = 8}};
static tsr_pair pairs[4][TSR_ORDER_BLOCK], spare[TSR_ORDER_BLOCK];
static uint32_t order[MAX], wanted[MAX];

/* Shapes: 0 scattered; 1 with some equal cells; 2 with many equal codes, so that codes alone do not suffice; 3 all
 * close together; 4 in order. */
static void make(int shape, uint64_t count) {
  const int32_t low = -1000000, high = 1000000;
  const int64_t wide = shape == 3 ? INT64_C(1) << 50 : high;
  for (int d = 0; d < 2; d++)
    fields[d] = (tsr_field){.name = d ? "y" : "x",
                            .is_dimension = true,
                            .datatype = d ? TSR_INT64 : TSR_INT32,
                            .values_per_cell = 1,
                            .cell_size = d ? 8 : 4,
                            .has_domain = true};
  memcpy(fields[0].low, &low, 4);
  memcpy(fields[0].high, &high, 4);
  memcpy(fields[1].low, &(int64_t){-wide}, 8);
  memcpy(fields[1].high, &wide, 8);
  schema = (tsr_schema){.fields = fields, .dimension_count = 2, .cell_order = TSR_ORDER_HILBERT};
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t side = shape == 1 ? 2000 : shape == 2 ? 100 : 2000000;
    x[i] = (int32_t)(chance(side) - 1000);
    y[i] = (int64_t)chance(shape == 3 ? 1000000 : side) - 1000;
    if (shape == 4) x[i] = (int32_t)(i / 100), y[i] = (int64_t)(i % 100);
    if (x[i] > high) x[i] = high;
  }
}

static void test_blocks_give_the_same_order(void **state) {
  tsr_memory memory;
  tsr_error error;
  (void)state;
  tsr__memory_init_root(&memory, NULL, NULL);
  for (int shape = 0; shape < 5; shape++)
    for (unsigned round = 0; round < 6; round++) {
      const uint64_t count = round == 5 ? MAX : TSR_ORDER_BLOCK + chance(MAX - TSR_ORDER_BLOCK);
      make(shape, count);
      schema.allows_duplicates = round % 2;
      tsr_pair *blocks[4];
      tsr_sorted_blocks sorted = {.blocks = blocks, .count = count / TSR_ORDER_BLOCK};
      for (uint64_t b = 0; b < sorted.count; b++) {
        const uint64_t first = b * TSR_ORDER_BLOCK;
        blocks[b] = round > 1 && chance(3) == 0 ? NULL : pairs[b];
        tsr__order_block(&schema, columns, first, TSR_ORDER_BLOCK, first, pairs[b], spare);
      }
      uint64_t left = count, found = count;
      assert_int_equal(tsr__order_cells(&schema, columns, &memory, 1, NULL, wanted, &left, &error), TSR_OK);
      assert_int_equal(tsr__order_cells(&schema, columns, &memory, 1 + round % 3, &sorted, order, &found, &error),
                       TSR_OK);
      assert_int_equal(found, left);
      assert_memory_equal(order, wanted, left * sizeof *order);
      if (schema.allows_duplicates) assert_int_equal(found, count);
      else assert_true(shape == 4 ? found == count : shape != 2 || found <= 10000);
    }
  assert_int_equal(memory.used, 0);
}

/* With too small a budget the error is TSR_BUDGET, and all memory is released. */
static void test_small_budget_is_an_error(void **state) {
  tsr_memory memory, small;
  tsr_error error;
  bool worked = false;
  const uint64_t count = 3 * TSR_ORDER_BLOCK + 7;
  tsr_pair *blocks[] = {pairs[0], NULL, pairs[2]};
  const tsr_sorted_blocks sorted = {.blocks = blocks, .count = 3};
  (void)state;
  make(0, count);
  for (uint64_t b = 0; b < 3; b++)
    tsr__order_block(&schema, columns, b * TSR_ORDER_BLOCK, TSR_ORDER_BLOCK, b * TSR_ORDER_BLOCK, pairs[b], spare);
  tsr__memory_init_root(&memory, NULL, NULL);
  for (uint64_t limit = 0; !worked; limit += limit / 8 + 512) {
    uint64_t found = count;
    tsr__memory_init(&small, &memory, limit, "test");
    const int code = tsr__order_cells(&schema, columns, &small, 2, &sorted, order, &found, &error);
    worked = code == TSR_OK;
    if (!worked) assert_int_equal(code, TSR_BUDGET);
    assert_int_equal(small.used, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks_give_the_same_order),
                                     cmocka_unit_test(test_small_budget_is_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
