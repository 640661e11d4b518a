/* test_infer.c: rows without coordinates get the numbers behind the last row, the current domain grows until it has
 * the rows, and two who append rows at one time do not give them the same numbers. */

#include <stdio.h>
#include <string.h>

#include "disk_test.h"

static const tsr_ingest_column columns[] = {{.name = "v", .typed = true, .datatype = TSR_INT64, .values_per_cell = 1}};

/* An ingest of rows without dimensions, with the values from `first` on, whose schema is made. */
static tsr_ingest *rows_of(int64_t first, int count, const tsr_schema **schema) {
  const tsr_ingest_options options = {.columns = columns, .column_count = 1, .row_grows = true};
  tsr_ingest *ingest = NULL;
  ok(tsr_ingest_open(environment, &options, &ingest, &error));
  for (int i = 0; i < count; i++) {
    ok(tsr_ingest_set_integer(ingest, 0, first + i, &error));
    ok(tsr_ingest_end_row(ingest, &error));
  }
  ok(tsr_ingest_schema(ingest, schema, &error));
  return ingest;
}

/* Makes an array of two rows. */
static tsr_array *make(void) {
  tsr_array *array = NULL;
  const tsr_schema *schema;
  const tsr_create_options options = {.unsynced = true};
  uint64_t written = 0;
  new_path();
  tsr_ingest *ingest = rows_of(10, 2, &schema);
  ok(tsr_array_create(environment, path, schema, &options, &error));
  ok(tsr_array_open(environment, path, NULL, &array, &error));
  ok(tsr_ingest_write(ingest, array, true, &written, &error));
  assert_int_equal(written, 2);
  tsr_ingest_close(ingest);
  return array;
}

/* Checks the last row of the cells and of the current domain. */
static void expect_last(tsr_array *array, int64_t cells, int64_t current) {
  tsr_snapshot *snapshot = NULL;
  const tsr_interval *filled = NULL;
  int64_t last[2];
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  assert_int_equal(tsr_snapshot_non_empty_domain(snapshot, &filled, &error), 1);
  memcpy(&last[0], filled[0].high, 8);
  memcpy(&last[1], tsr_snapshot_schema(snapshot)->current_domain[0].high, 8);
  assert_int_equal(last[0], cells);
  assert_int_equal(last[1], current);
  tsr_snapshot_close(snapshot);
}

static void test_rows_go_on(void **state) {
  const tsr_schema *schema;
  tsr_array *array = make();
  expect_last(array, 1, 1);
  tsr_ingest *ingest = rows_of(20, 3, &schema);
  ok(tsr_ingest_fit(ingest, array, &error));
  expect_last(array, 1, 4);
  ok(tsr_ingest_write(ingest, array, false, NULL, &error));
  expect_last(array, 4, 4);
  tsr_ingest_close(ingest);
  tsr_array_close(array);
}

static void test_two_append_at_one_time(void **state) {
  const tsr_schema *schema;
  tsr_array *array = make();
  tsr_ingest *slow = rows_of(20, 3, &schema), *fast = rows_of(30, 2, &schema);
  ok(tsr_ingest_fit(slow, array, &error));
  ok(tsr_ingest_fit(fast, array, &error));
  ok(tsr_ingest_write(fast, array, false, NULL, &error));
  refused(tsr_ingest_write(slow, array, false, NULL, &error), TSR_BUSY, "append them again");
  expect_last(array, 3, 4);
  ok(tsr_ingest_fit(slow, array, &error));
  ok(tsr_ingest_write(slow, array, false, NULL, &error));
  expect_last(array, 6, 6);
  tsr_ingest_close(slow);
  tsr_ingest_close(fast);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_go_on), cmocka_unit_test(test_two_append_at_one_time)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
