/* test_infer.c: rows without coordinates get the numbers behind the last row, the current domain grows until it has
 * the rows, and two who append rows at one time do not give them the same numbers. Blocks of a query's rows are taken as
 * rows are, or not at all. */
#include <math.h>

#include <stdio.h>
#include <string.h>

#include "disk_test.h"
#include "tessera_host.h"

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

/* Gives a block of three values to an ingest of one column. Returns how many it takes; the schema tells whether the column
 * is nullable then. */
static uint64_t take(tsr_ingest_column column, const tsr_query_column *values, bool *nullable) {
  const tsr_ingest_options options = {.columns = &column, .column_count = 1};
  const tsr_schema *schema;
  tsr_ingest *ingest = NULL;
  uint64_t taken;
  column.name = "v";
  ok(tsr_ingest_open(environment, &options, &ingest, &error));
  ok(tsr_ingest_block(ingest, values, 0, 3, &taken, &error));
  if (taken == 3) ok(tsr_ingest_schema(ingest, &schema, &error));
  if (taken == 3) *nullable = schema->fields[1].nullable;
  tsr_ingest_close(ingest);
  return taken;
}

static void test_blocks_are_taken_as_rows(void **state) {
  static const int64_t small[3] = {-128, 0, 127}, wide[3] = {1, 128, 3}, past[3] = {1, (INT64_C(1) << 53) + 1, 3};
  static const double reals[3] = {1, 0.5, -2}, gap[3] = {1, NAN, 2}, huge[3] = {1, 1e300, 2};
  static const uint8_t null[3] = {0, 0, 1};
  const tsr_query_column integers = {.type = TSR_VALUE_INTEGER, .as.integers = small},
                         holed = {.type = TSR_VALUE_INTEGER, .as.integers = wide, .nulls = null},
                         wider = {.type = TSR_VALUE_INTEGER, .as.integers = wide},
                         exact = {.type = TSR_VALUE_INTEGER, .as.integers = past},
                         numbers = {.type = TSR_VALUE_REAL, .as.reals = reals},
                         nan = {.type = TSR_VALUE_REAL, .as.reals = gap},
                         much = {.type = TSR_VALUE_REAL, .as.reals = huge}, text = {.type = TSR_VALUE_TEXT};
  const tsr_ingest_column any = {0}, full = {.not_null = true},
                          bytes = {.typed = true, .datatype = TSR_INT8, .values_per_cell = 1},
                          floats = {.typed = true, .datatype = TSR_FLOAT32, .values_per_cell = 1};
  const struct {
    const tsr_ingest_column *column;
    const tsr_query_column *values;
    bool taken, nullable;
  } cases[] = {{&any, &integers, true, false},    {&any, &numbers, true, false},    {&any, &nan, true, true},
               {&any, &holed, true, true},        {&any, &exact, true, false},      {&any, &text, false, false},
               {&full, &integers, true, false},   {&full, &nan, false, false},      {&full, &holed, false, false},
               {&bytes, &integers, true, false},  {&bytes, &wider, false, false},   {&bytes, &numbers, false, false},
               {&floats, &integers, true, false}, {&floats, &numbers, true, false}, {&floats, &nan, true, true},
               {&floats, &much, false, false},    {&floats, &exact, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool nullable = false;
    assert_int_equal(take(*cases[i].column, cases[i].values, &nullable), cases[i].taken ? 3 : 0);
    assert_int_equal(nullable, cases[i].nullable);
  }
}

static void test_later_blocks_meet_the_class_of_the_first(void **state) {
  static const int64_t past[1] = {(INT64_C(1) << 53) + 1}, few[1] = {4};
  static const double reals[1] = {0.5};
  const tsr_query_column wide = {.type = TSR_VALUE_INTEGER, .as.integers = past},
                         integers = {.type = TSR_VALUE_INTEGER, .as.integers = few},
                         numbers = {.type = TSR_VALUE_REAL, .as.reals = reals};
  const tsr_ingest_column column = {.name = "v"};
  const tsr_ingest_options options = {.columns = &column, .column_count = 1};
  tsr_ingest *ingest = NULL;
  uint64_t taken;
  ok(tsr_ingest_open(environment, &options, &ingest, &error));
  ok(tsr_ingest_block(ingest, &wide, 0, 1, &taken, &error));
  assert_int_equal(taken, 1);
  ok(tsr_ingest_block(ingest, &numbers, 0, 1, &taken, &error));
  assert_int_equal(taken, 0);
  refused(tsr_ingest_set_real(ingest, 0, 0.5, &error), TSR_MISMATCH, "an integer past 2^53 (row 1)");
  tsr_ingest_close(ingest);
  ok(tsr_ingest_open(environment, &options, &ingest, &error));
  ok(tsr_ingest_block(ingest, &numbers, 0, 1, &taken, &error));
  ok(tsr_ingest_block(ingest, &integers, 0, 1, &taken, &error));
  assert_int_equal(taken, 1);
  ok(tsr_ingest_block(ingest, &wide, 0, 1, &taken, &error));
  assert_int_equal(taken, 0);
  tsr_ingest_close(ingest);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks_are_taken_as_rows),
                                     cmocka_unit_test(test_later_blocks_meet_the_class_of_the_first),
                                     cmocka_unit_test(test_rows_go_on), cmocka_unit_test(test_two_append_at_one_time)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
