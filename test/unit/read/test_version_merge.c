/* Tests of the version merge: which tiles are merged together, and which version of each coordinate is left. */

#include <string.h>

#include "read/reader.h"
#include "made_array.h"

/* Adds a fragment of cells on a line from `low` on, `step` apart. */
static void add_line(made_array *m, uint64_t start, int32_t low, int32_t step, int count, bool times) {
  made_cell cells[64];
  for (int i = 0; i < count; i++)
    cells[i] = (made_cell){.at = {low + step * i}, .value = (int32_t)start * 1000 + i, .time = start};
  made_sparse(m, start, start, cells, (uint64_t)count, times, false);
}

static uint64_t count_streams(made_array *m, uint64_t *merged) {
  tsr_reader *reader;
  tsr_version_merge *merge;
  uint64_t *order, streams, seen = 0;
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  assert_int_equal(tsr__version_merge_open(reader, &order, &streams, &merge, NULL), TSR_OK);
  *merged = reader->plan.tile_count - streams;
  assert_int_equal(merge != NULL, *merged > 0);
  for (uint64_t i = 0; i < reader->plan.tile_count; i++) { /* each tile once */
    assert_true(order[i] < reader->plan.tile_count && order[i] < 64);
    assert_false(seen >> order[i] & 1);
    seen |= UINT64_C(1) << order[i];
  }
  tsr__version_merge_close(merge);
  tsr_reader_close(reader);
  return streams;
}

static void test_tiles_that_share_no_coordinate_are_streams(void **state) {
  (void)state;
  made_array m;
  uint64_t merged;
  made_open(&m, false, 1, false, 0, 999, NULL);
  m.schema.capacity = 4;
  add_line(&m, 1, 0, 1, 40, false); /* tiles 0-3, 4-7, ... 36-39 */
  assert_int_equal(count_streams(&m, &merged), 10);
  add_line(&m, 2, 100, 1, 8, false);
  assert_int_equal(count_streams(&m, &merged), 12);
  add_line(&m, 3, 13, 1, 4, false); /* 13-16 meets 12-15 and 16-19 */
  assert_int_equal(count_streams(&m, &merged), 10);
  assert_int_equal(merged, 3);
  add_line(&m, 4, 104, 2, 2, true); /* cell times: merged even if it is alone */
  assert_int_equal(count_streams(&m, &merged), 9);
  add_line(&m, 5, 500, 1, 4, true);
  assert_int_equal(count_streams(&m, &merged), 9);
  assert_int_equal(merged, 6);
  m.schema.allows_duplicates = true;
  assert_int_equal(count_streams(&m, &merged), 15);
  made_close(&m);
}

/* The full range of int32 in up to three dimensions. */
static void test_coordinates_that_do_not_fit_one_key_are_merged(void **state) {
  (void)state;
  static made_row rows[100];
  const int32_t ends[3] = {INT32_MIN, 0, INT32_MAX - 1};
  for (uint32_t n = 1; n <= 3; n++) {
    made_array m;
    made_cell cells[27];
    uint64_t count = 1;
    for (uint32_t d = 0; d < n; d++) count *= 3;
    made_open(&m, false, n, false, INT32_MIN, INT32_MAX - 1, NULL);
    for (uint64_t f = 0; f < 2; f++) {
      for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = f ? i : count - 1 - i; /* the second fragment backwards */
        cells[i] = (made_cell){.value = (int32_t)(1000 * f + rest)};
        for (uint32_t d = n; d-- > 0; rest /= 3) cells[i].at[d] = ends[rest % 3];
      }
      made_sparse(&m, f + 1, f + 1, cells, count - f, false, false);
    }
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, 100, NULL), count);
    for (uint64_t i = 0; i < count; i++) {
      uint64_t number = 0;
      for (uint32_t d = 0; d < n; d++) number = number * 3 + (uint64_t)(rows[i].cell.at[d] / (INT32_MAX - 1) + 1);
      assert_int_equal(rows[i].cell.value, number == count - 1 ? number : 1000 + number);
    }
    tsr_reader_close(reader);
    made_close(&m);
  }
}

/* The cells of a tile are in no order: the radix sort, and ties that keys do not decide. */
static void test_unsorted_tiles_with_equal_keys_are_merged(void **state) {
  (void)state;
  enum { CELLS = 60, FRAGMENTS = 12 };
  static made_row rows[CELLS * FRAGMENTS];
  for (int text = 0; text < 2; text++) {
    made_array m;
    made_cell cells[CELLS];
    made_open(&m, false, 2, text, 0, 1000, NULL);
    m.schema.capacity = 64;
    for (uint64_t f = 0; f < FRAGMENTS; f++) {
      for (int i = 0; i < CELLS; i++) {
        const int32_t k = (i * 37) % CELLS;
        cells[i] = (made_cell){.at = {text ? 0 : k / 6, k}, .value = (int32_t)f * 100 + k};
        memcpy(cells[i].text, "aaaaaaa", 7); /* strings that differ after their first bytes */
        cells[i].text[6] = (char)('a' + k / 6);
        if (k % 12 == 0) cells[i].at[1] = 100 + (int32_t)f; /* a coordinate that other fragments lack */
      }
      made_sparse(&m, f + 1, f + 1, cells, CELLS, false, false);
    }
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, CELLS * FRAGMENTS, NULL), CELLS - 5 + 5 * FRAGMENTS);
    for (int i = 0; i < CELLS - 5 + 5 * FRAGMENTS; i++)
      if (rows[i].cell.at[1] < 100) assert_int_equal(rows[i].cell.value / 100, FRAGMENTS - 1);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_that_share_no_coordinate_are_streams),
      cmocka_unit_test(test_coordinates_that_do_not_fit_one_key_are_merged),
      cmocka_unit_test(test_unsorted_tiles_with_equal_keys_are_merged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
