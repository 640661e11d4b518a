/* test_prepared_late.c: records of late publications: their paths and contents, and files that are no records. */

#include <stdio.h>
#include <string.h>

#include "log/log.h"
#include "array/array.h"
#include "open_array.h"

static int setup(void **state) {
  if (setup_store() < 0) return 1;
  tiny_schema(store, "__schema/__1_1" U, false, 1, a_only);
  return setup_array(NULL);
}

static void test_paths_of_records(void **state) {
  static const char *const good[][2] = {
      {"__commits/__5_5" U "_22.wrt", "__commits/.__5_5" U "_22.late"},
      {"__commits/__5_6" U "_22.con", "__commits/.__5_6" U "_22.late"},
      {"__5_5" U "_9.ok", ".__5_5" U "_9.late"},
      {"__5_5" U "/__fragment_metadata.tdb", ".__5_5" U ".late"},
  };
  char found[TSR_COMMIT_PATH];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(tsr__late_path(good[i][0], found));
    assert_string_equal(found, good[i][1]);
  }
  assert_false(tsr__late_path("", found));
  assert_false(tsr__late_path("__commits/../x.wrt", found));
  assert_false(tsr__late_path("__5_5" U "_22.late", found));
}

static void test_records_are_written_and_read(void **state) {
  static const char commit[] = "__commits/__5_5" U "_22.wrt";
  tsr_late record = {.commit = "__commits/__9_9" U "_22.con", .dropped = 3, .total = 7}, read;
  tiny_put(store, "__commits/x", "", 0);
  assert_int_equal(tsr__late_read(store, commit, &read, &error), 0);
  assert_int_equal(tsr__late_write(store, commit, &record, &error), TSR_OK);
  assert_int_equal(tsr__late_write(store, commit, &record, &error), TSR_EXISTS);
  assert_int_equal(tsr__late_read(store, commit, &read, &error), 1);
  assert_string_equal(read.commit, record.commit);
  assert_int_equal(read.dropped, 3);
  assert_int_equal(read.total, 7);
  assert_int_equal(tsr__late_remove(store, commit, &error), TSR_OK);
  assert_int_equal(tsr__late_remove(store, commit, &error), TSR_OK);
  record = (tsr_late){.dropped = UINT64_MAX, .total = UINT64_MAX};
  assert_int_equal(tsr__late_write(store, commit, &record, &error), TSR_OK);
  assert_int_equal(tsr__late_read(store, commit, &read, &error), 1);
  assert_string_equal(read.commit, "");
  assert_true(read.dropped == UINT64_MAX && read.total == UINT64_MAX);
  assert_int_equal(tsr__late_write(store, "x", &record, &error), TSR_ERROR);
}

/* An incomplete record is ignored. */
static void test_incomplete_records_say_nothing(void **state) {
  static const char text[] = "__commits/__9_9" U "_22.con\n12 of 345\nend\n";
  static const char *const bad[] = {
      "\n1 of 2\nend\n", "x\n1 of 2\nend\n",   "-\n-1 of 2\nend\n", "-\n1 of\nend\n",
      "-\n1 of 2\nend",  "-\n1 of 2\nend\n\n", "-\n1 of 2 \nend\n", "__commits/../../x.wrt\n1 of 2\nend\n"};
  tsr_late read;
  char file[40];
  for (size_t size = 0; size < sizeof text; size++) {
    snprintf(file, sizeof file, "r%zu", size);
    tiny_put(store, file, text, size);
    assert_int_equal(tsr__late_read_file(store, file, &read, &error), size == sizeof text - 1);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    snprintf(file, sizeof file, "b%zu", i);
    tiny_put(store, file, bad[i], strlen(bad[i]));
    assert_int_equal(tsr__late_read_file(store, file, &read, &error), 0);
  }
  tiny_put(store, "nul", "-\n1 of 2\nend\n\0", 14);
  assert_int_equal(tsr__late_read_file(store, "nul", &read, &error), 0);
}

static void test_merged_fragments_span_times(void **state) {
  const tsr_name merged = {.start = 10, .end = 20, .version = 14}, timed = {.start = 10, .end = 20, .version = 15},
                 one = {.start = 10, .end = 10, .version = 14};
  static const struct {
    uint64_t time;
    bool spans;
  } times[] = {{9, false}, {10, true}, {19, true}, {20, false}, {21, false}};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    assert_int_equal(tsr__late_spans(&merged, times[i].time, false), times[i].spans);
    assert_int_equal(tsr__late_spans(&timed, times[i].time, true), times[i].spans);
    assert_false(tsr__late_spans(&timed, times[i].time, false));
    assert_false(tsr__late_spans(&one, times[i].time, true));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_paths_of_records, setup, teardown),
      cmocka_unit_test_setup_teardown(test_records_are_written_and_read, setup, teardown),
      cmocka_unit_test_setup_teardown(test_incomplete_records_say_nothing, setup, teardown),
      cmocka_unit_test(test_merged_fragments_span_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
