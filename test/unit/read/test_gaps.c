/* test_gaps.c: the cells of random dense arrays that were never written, against every cell of the domain. */
#include <string.h>

#include "array/array.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

#define WIDTH  12
#define HEIGHT 10
#define LOW    (-3) /* of both dimensions */

static bool written[HEIGHT][WIDTH];

static tsr_interval interval_of(int32_t low, int32_t high) {
  tsr_interval interval = {{0}, {0}, NULL, NULL, 0, 0};
  memcpy(interval.low, &low, sizeof low);
  memcpy(interval.high, &high, sizeof high);
  return interval;
}

static int32_t end_of(const uint8_t *bytes) {
  int32_t value;
  memcpy(&value, bytes, sizeof value);
  return value - LOW;
}

/* Makes a dense array of HEIGHT times WIDTH cells. `current`: its current domain, or NULL. */
static tsr_array *make_plane(tsr_interval *current) {
  static tsr_field fields[3];
  fields[0] = int32_dimension((char *)"y", LOW, LOW + HEIGHT - 1, 4);
  fields[1] = int32_dimension((char *)"x", LOW, LOW + WIDTH - 1, 3);
  fields[2] = (tsr_field){.name = (char *)"a", .datatype = TSR_INT32, .values_per_cell = 1};
  const tsr_schema schema = {
      .dense = true, .dimension_count = 2, .attribute_count = 1, .fields = fields, .current_domain = current};
  const tsr_create_options options = {.unsynced = true};
  const tsr_array_options one = {.threads = 1};
  tsr_array *array = NULL;
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  ok(tsr_array_open(environment, path, &one, &array, &error));
  memset(written, 0, sizeof written);
  return array;
}

static void write_box(tsr_array *array, const int32_t low[2], const int32_t high[2]) {
  static const int32_t values[HEIGHT * WIDTH];
  const tsr_writer_options options = {.unsynced = true};
  const tsr_column columns[3] = {[2] = {.values = values}};
  const tsr_interval box[2] = {interval_of(low[0] + LOW, high[0] + LOW), interval_of(low[1] + LOW, high[1] + LOW)};
  tsr_writer *writer;
  ok(tsr_writer_open(array, &options, &writer, &error));
  ok(tsr_writer_append_box(writer, box, false, columns, &error));
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  for (int32_t y = low[0]; y <= high[0]; y++)
    for (int32_t x = low[1]; x <= high[1]; x++) written[y][x] = true;
}

static void random_ends(int32_t low[2], int32_t high[2]) {
  for (int d = 0; d < 2; d++) {
    const int32_t size = d ? WIDTH : HEIGHT, one = (int32_t)chance((uint64_t)size),
                  two = (int32_t)chance((uint64_t)size);
    low[d] = one < two ? one : two;
    high[d] = one < two ? two : one;
  }
}

/* Returns true if two boxes form one: they are equal on one dimension, and touch on the other. */
static bool form_one(const tsr_gap *a, const tsr_gap *b) {
  for (int d = 0; d < 2; d++) {
    const tsr_interval *p = &a->box[d], *q = &b->box[d], *r = &a->box[1 - d], *s = &b->box[1 - d];
    const bool equal = end_of(p->low) == end_of(q->low) && end_of(p->high) == end_of(q->high);
    if (equal && (end_of(r->high) + 1 == end_of(s->low) || end_of(s->high) + 1 == end_of(r->low))) return true;
  }
  return false;
}

/* Checks the gaps within low..high against what was written. */
static void check_boxes(const tsr_gaps *gaps, const int32_t low[2], const int32_t high[2]) {
  int found[HEIGHT][WIDTH] = {{0}};
  for (uint64_t i = 0; i < gaps->count; i++) {
    const tsr_interval *box = gaps->gaps[i].box;
    uint64_t cells = 0;
    for (int32_t y = end_of(box[0].low); y <= end_of(box[0].high); y++)
      for (int32_t x = end_of(box[1].low); x <= end_of(box[1].high); x++, cells++) found[y][x]++;
    assert_int_equal(gaps->gaps[i].cells, cells);
    for (uint64_t k = 0; k < i; k++) assert_false(form_one(&gaps->gaps[k], &gaps->gaps[i]));
    if (i == 0) continue;
    const tsr_interval *last = gaps->gaps[i - 1].box;
    assert_true(end_of(last[0].low) < end_of(box[0].low) ||
                (end_of(last[0].low) == end_of(box[0].low) && end_of(last[1].low) < end_of(box[1].low)));
  }
  for (int32_t y = 0; y < HEIGHT; y++)
    for (int32_t x = 0; x < WIDTH; x++) {
      const bool within = y >= low[0] && y <= high[0] && x >= low[1] && x <= high[1];
      if (found[y][x] != (within && !written[y][x])) fail_msg("y %d, x %d: %d", (int)y, (int)x, found[y][x]);
    }
}

/* Checks the gaps by a dimension: the maximal intervals without a written cell, over all of low..high on the other. */
static void check_intervals(const tsr_gaps *gaps, uint32_t by, const int32_t low[2], const int32_t high[2]) {
  uint64_t next = 0;
  for (int32_t at = low[by]; at <= high[by]; at++) {
    int32_t end = at;
    for (; end <= high[by]; end++) {
      bool any = false;
      for (int32_t other = low[1 - by]; other <= high[1 - by]; other++)
        any |= by ? written[other][end] : written[end][other];
      if (any) break;
    }
    if (end == at) continue;
    assert_true(next < gaps->count);
    const tsr_gap *gap = &gaps->gaps[next++];
    assert_int_equal(end_of(gap->box[by].low), at);
    assert_int_equal(end_of(gap->box[by].high), end - 1);
    assert_int_equal(end_of(gap->box[1 - by].low), low[1 - by]);
    assert_int_equal(end_of(gap->box[1 - by].high), high[1 - by]);
    assert_int_equal(gap->cells, (end - at) * (high[1 - by] - low[1 - by] + 1));
    at = end;
  }
  assert_int_equal(next, gaps->count);
}

static void check_within(tsr_array *array, const tsr_interval *within, const int32_t low[2], const int32_t high[2]) {
  tsr_snapshot *snapshot;
  tsr_gaps *gaps;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_gaps_open(snapshot, within, TSR_GAPS_BOXES, 0, &gaps, &error));
  check_boxes(gaps, low, high);
  tsr_gaps_close(gaps);
  for (uint32_t by = 0; by < 2; by++) {
    ok(tsr_gaps_open(snapshot, within, by, 0, &gaps, &error));
    check_intervals(gaps, by, low, high);
    tsr_gaps_close(gaps);
  }
  tsr_snapshot_close(snapshot);
}

static void gaps_are_what_was_not_written(void **state) {
  static const int32_t all_low[2] = {0, 0}, all_high[2] = {HEIGHT - 1, WIDTH - 1};
  for (unsigned round = 0; round < rounds_of(12); round++) {
    tsr_array *array = make_plane(NULL);
    check_within(array, NULL, all_low, all_high);
    for (int i = 0; i < 5; i++) {
      int32_t low[2], high[2];
      random_ends(low, high);
      for (int d = 0; d < 2; d++) high[d] = low[d] + (high[d] - low[d]) / 2;
      write_box(array, low, high);
      check_within(array, NULL, all_low, all_high);
      for (int k = 0; k < 4; k++) {
        random_ends(low, high);
        const tsr_interval within[2] = {interval_of(low[0] + LOW, high[0] + LOW),
                                        interval_of(low[1] + LOW, high[1] + LOW)};
        check_within(array, within, low, high);
      }
    }
    tsr_array_close(array);
  }
}

static void gaps_end_at_the_current_domain(void **state) {
  static const int32_t low[2] = {2, 1}, high[2] = {7, 8}, one[2] = {3, 3};
  tsr_interval current[2] = {interval_of(low[0] + LOW, high[0] + LOW), interval_of(low[1] + LOW, high[1] + LOW)};
  tsr_array *array = make_plane(current);
  check_within(array, NULL, low, high);
  write_box(array, one, one);
  check_within(array, NULL, low, high);
  tsr_array_close(array);
}

static void what_is_no_box_of_the_domain_is_refused(void **state) {
  tsr_array *array = make_plane(NULL);
  tsr_snapshot *snapshot;
  tsr_gaps *gaps;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  const tsr_interval whole = interval_of(LOW, LOW + WIDTH - 1);
  const tsr_interval bad[][2] = {{interval_of(0, -1), whole},
                                 {interval_of(LOW - 1, 0), whole},
                                 {interval_of(0, LOW + HEIGHT), whole},
                                 {interval_of(0, 0), interval_of(0, LOW + WIDTH)},
                                 {interval_of(LOW + HEIGHT, LOW + HEIGHT + 1), whole}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refused(tsr_gaps_open(snapshot, bad[i], TSR_GAPS_BOXES, 0, &gaps, &error), TSR_RANGE, "outside of the domain");
  refused(tsr_gaps_open(snapshot, NULL, 2, 0, &gaps, &error), TSR_RANGE, "there is no dimension 2");
  refused(tsr_gaps_open(snapshot, NULL, 3, 0, &gaps, &error), TSR_RANGE, "there is no dimension 3");
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gaps_are_what_was_not_written),
      cmocka_unit_test(gaps_end_at_the_current_domain),
      cmocka_unit_test(what_is_no_box_of_the_domain_is_refused),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
