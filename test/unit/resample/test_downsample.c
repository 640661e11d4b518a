/* test_downsample.c: pictures of random dense and sparse arrays, with random boxes and grids, are compared with the
 * rows of the same read; threads share large batches; wrong requests are refused; budgets hold; every allocation may
 * fail. */
#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "read/reader.h"
#include "made_array.h"

#define ROWS_MAX   70000
#define SIDE_MAX   40
#define BIG_EXTENT 256

static uint64_t place(int32_t value, int32_t low, int32_t high, uint64_t places) {
  return (uint64_t)(value - low) * places / (uint64_t)(high - low + 1);
}

/* `ends` are the low and high ends of the dimensions x and y. */
static void check(made_array *m, const int32_t ends[2][2], uint64_t height, uint64_t width, unsigned threads,
                  bool skip_fill) {
  static made_row rows[ROWS_MAX];
  static double sums[SIDE_MAX][SIDE_MAX];
  static uint64_t counts[SIDE_MAX][SIDE_MAX];
  tsr_error error = {0};
  tsr_reader *reader;
  tsr_downsample *downsample;
  tsr_interval box[2] = {0};
  tsr_range range[2];
  tsr_ranges ranges[2];
  for (uint32_t d = 0; d < 2; d++) {
    made_set32(box[d].low, ends[d][0]);
    made_set32(box[d].high, ends[d][1]);
    range[d] = (tsr_range){.low = box[d].low, .high = box[d].high};
    ranges[d] = (tsr_ranges){.ranges = &range[d], .count = 1};
  }
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, &error), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, &(tsr_request){.dimensions = ranges}, &error), TSR_OK);
  const int64_t n = made_read(reader, m, rows, ROWS_MAX, &error);
  assert_true(n >= 0);
  tsr_reader_close(reader);

  const uint64_t h = TSR_MIN(height, (uint64_t)(ends[0][1] - ends[0][0] + 1));
  const uint64_t w = TSR_MIN(width, (uint64_t)(ends[1][1] - ends[1][0] + 1));
  uint64_t cells = 0, most = 0;
  double min = INFINITY, max = -INFINITY;
  memset(sums, 0, sizeof sums);
  memset(counts, 0, sizeof counts);
  for (int64_t i = 0; i < n; i++) {
    const int32_t value = rows[i].cell.value;
    if (!rows[i].written || (skip_fill && value == made_fill)) continue;
    const uint64_t y = place(rows[i].cell.at[0], ends[0][0], ends[0][1], h);
    const uint64_t x = place(rows[i].cell.at[1], ends[1][0], ends[1][1], w);
    sums[y][x] += value;
    counts[y][x]++;
    cells++;
    most = TSR_MAX(most, counts[y][x]);
    min = TSR_MIN(min, value), max = TSR_MAX(max, value);
  }
  const tsr_downsample_request ask = {.box = box,
                                      .field = 2,
                                      .row = 0,
                                      .column = 1,
                                      .height = height,
                                      .width = width,
                                      .skip_fill = skip_fill,
                                      .threads = threads};
  if (tsr_downsample_open(&m->snapshot, &ask, &downsample, &error) != TSR_OK) fail_msg("%s", error.message);
  assert_int_equal(downsample->height, h);
  assert_int_equal(downsample->width, w);
  assert_int_equal(downsample->cells, cells);
  assert_int_equal(downsample->most, most);
  assert_true(downsample->min == min && downsample->max == max);
  for (uint64_t y = 0; y < h; y++)
    for (uint64_t x = 0; x < w; x++) {
      const double mean = downsample->means[y * w + x];
      assert_true(counts[y][x] ? mean == sums[y][x] / (double)counts[y][x] : isnan(mean));
    }
  tsr_downsample_close(downsample);
}

static void check_some(made_array *m, int32_t most) {
  for (unsigned round = 0; round < 10; round++) {
    int32_t ends[2][2];
    for (uint32_t d = 0; d < 2; d++) {
      ends[d][0] = (int32_t)made_random((uint32_t)most + 1);
      ends[d][1] = ends[d][0] + (int32_t)made_random((uint32_t)(most - ends[d][0]) + 1);
    }
    check(m, (const int32_t(*)[2])ends, 1 + made_random(SIDE_MAX), 1 + made_random(SIDE_MAX), 1 + made_random(3),
          made_random(2));
  }
}

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)(start * 100 + ordinals[0] * 20 + ordinals[1]) % 97 -
         30; /* -30..66, with the fill value among them */
}

static void test_dense_pictures_equal_their_rows(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    const int32_t extents[3] = {1 + (int32_t)made_random(6), 1 + (int32_t)made_random(6)};
    made_open(&m, true, 2, false, 0, 23, extents);
    m.schema.cell_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    made_finish_grid(&m);
    for (uint64_t f = 0, fragments = 1 + made_random(3); f < fragments; f++) {
      uint64_t low[2], high[2];
      for (uint32_t d = 0; d < 2; d++) {
        low[d] = made_random(16);
        high[d] = low[d] + made_random((uint32_t)(24 - low[d]));
      }
      made_dense(&m, f + 1, low, high, value_of);
    }
    made_finish_dense(&m);
    check_some(&m, 23);
    made_close(&m);
  }
}

static void test_sparse_pictures_equal_their_rows(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    made_open(&m, false, 2, false, 0, 63, NULL);
    m.schema.capacity = 4;
    m.schema.allows_duplicates = round % 4 == 3;
    for (uint64_t f = 0, fragments = 1 + made_random(3); f < fragments; f++) {
      made_cell cells[60];
      const int32_t from = (int32_t)made_random(20);
      uint64_t count = 0;
      for (int32_t i = 0; i < 60; i++)
        if (made_random(3) > 0)
          cells[count++] = (made_cell){.at = {from + i / 6, i % 6}, .value = (int32_t)(f * 10) + i - 9};
      if (count > 0) made_sparse(&m, f + 1, f + 1, cells, count, false, false);
    }
    check_some(&m, 29);
    made_close(&m);
  }
}

/* Four threads share a batch of 65,536 cells. */
static void test_threads_share_large_batches(void **state) {
  (void)state;
  made_array m;
  const int32_t extents[3] = {BIG_EXTENT, BIG_EXTENT}, ends[2][2] = {{0, BIG_EXTENT - 1}, {0, BIG_EXTENT - 1}};
  const uint64_t low[2] = {0, 0}, high[2] = {BIG_EXTENT - 1, BIG_EXTENT - 1};
  made_open(&m, true, 2, false, 0, BIG_EXTENT - 1, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_finish_dense(&m);
  for (unsigned threads = 1; threads < 9; threads += 3) {
    check(&m, ends, 40, 33, threads, false);
    check(&m, ends, 1, 1, threads, true);
  }
  made_close(&m);
}

static void test_wrong_requests_and_failing_allocations(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_downsample *downsample = NULL;
  const made_cell cells[3] = {{.at = {1, 1}, .value = 7}, {.at = {2, 1}, .value = 8}, {.at = {2, 3}, .value = 9}};
  tsr_interval box[2] = {0};
  made_set32(box[0].high, 9);
  made_set32(box[1].high, 9);
  made_open(&m, false, 2, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, cells, 3, false, false);
  const tsr_downsample_request good = {
      .box = box, .field = 2, .row = 0, .column = 1, .height = 10, .width = 10, .threads = 1};
  tsr_downsample_request ask = good;
  ask.field = 3; /* a string */
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_ERROR);
  ask.field = 1; /* a dimension */
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_ERROR);
  ask.field = 9;
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_ERROR);
  ask = good, ask.row = 2; /* an attribute */
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_ERROR);
  ask = good, ask.height = 0;
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_RANGE);
  ask = good, ask.width = UINT64_MAX;
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_RANGE);
  ask = good, ask.memory_bytes = 4000; /* half of it is for the places, and 100 places take 2,400 bytes */
  assert_int_equal(tsr_downsample_open(&m.snapshot, &ask, &downsample, &error), TSR_BUDGET);
  assert_non_null(strstr(error.message, "memory_mb"));
  assert_null(downsample);
  int code = TSR_NOMEM;
  long allocations = 0;
  for (; code == TSR_NOMEM; allocations++) {
    m.memory.left = allocations;
    code = tsr_downsample_open(&m.snapshot, &good, &downsample, &error);
    m.memory.left = -1;
  }
  assert_int_equal(code, TSR_OK);
  assert_true(allocations > 3);
  assert_true(downsample->cells == 3 && downsample->means[11] == 7 && downsample->means[23] == 9 &&
              isnan(downsample->means[0]));
  tsr_downsample_close(downsample);
  tsr_downsample_close(NULL);
  made_set32(box[0].low, 10); /* the low end above the high end */
  assert_int_equal(tsr_downsample_open(&m.snapshot, &good, &downsample, &error), TSR_RANGE);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense_pictures_equal_their_rows),
      cmocka_unit_test(test_sparse_pictures_equal_their_rows),
      cmocka_unit_test(test_threads_share_large_batches),
      cmocka_unit_test(test_wrong_requests_and_failing_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
