/* test_environment.c: environments: the host's allocator, cancellation, counters, ranges of rowids. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "environment/environment.h"

static int blocks;
static void *count_blocks(void *argument, void *pointer, uint64_t size) {
  assert_ptr_equal(argument, &blocks);
  if (size == 0) {
    blocks -= pointer != NULL;
    free(pointer);
    return NULL;
  }
  blocks += pointer == NULL;
  return realloc(pointer, size);
}
static void *refuse(void *argument, void *pointer, uint64_t size) { return NULL; }

static void test_hosts_allocator_is_used(void **state) {
  tsr_environment *environment;
  int64_t first;
  tsr_environment_options options = {.reallocate = count_blocks, .reallocate_argument = &blocks};
  assert_int_equal(tsr_environment_open(&options, &environment, NULL), TSR_OK);
  assert_int_equal(blocks, 1);
  assert_int_equal(tsr__environment_rows(environment, "p", "n", 1, &first, NULL), TSR_OK);
  assert_true(blocks > 1);
  tsr_environment_close(environment);
  assert_int_equal(blocks, 0);
  options.reallocate = refuse;
  tsr_error error = {0};
  assert_int_equal(tsr_environment_open(&options, &environment, &error), TSR_NOMEM);
  assert_int_equal(error.code, TSR_NOMEM);
  tsr_environment_close(NULL);
}

static bool stop(void *argument) { return *(bool *)argument; }

static void test_host_cancels(void **state) {
  tsr_environment *environment;
  bool flag = false;
  tsr_error error = {0};
  tsr_environment_options options = {.interrupted = stop, .interrupted_argument = &flag};
  assert_int_equal(tsr_environment_open(&options, &environment, NULL), TSR_OK);
  assert_int_equal(tsr__cancelled(&environment->memory, &error), TSR_OK);
  flag = true;
  assert_int_equal(tsr__cancelled(&environment->memory, &error), TSR_INTERRUPT);
  assert_int_equal(error.code, TSR_INTERRUPT);
  tsr_environment_close(environment);
  assert_int_equal(tsr_environment_open(NULL, &environment, NULL), TSR_OK);
  assert_int_equal(tsr__cancelled(&environment->memory, &error), TSR_OK);
  tsr_environment_close(environment);
}

static int permits(void *argument, const char *path, tsr_error *error) {
  return strcmp(path, argument) ? TSR_OK : tsr__fail(error, TSR_PERM, "no entry");
}

static void test_host_permits_paths(void **state) {
  tsr_environment *environment;
  tsr_error error = {0};
  char hidden[] = "/a/hidden";
  const tsr_environment_options options = {.permits = permits, .permits_argument = hidden};
  assert_int_equal(tsr_environment_open(&options, &environment, NULL), TSR_OK);
  assert_int_equal(tsr__environment_permits(environment, "/a/open", &error), TSR_OK);
  assert_int_equal(tsr__environment_permits(environment, hidden, &error), TSR_PERM);
  assert_string_equal(error.message, "no entry");
  tsr_environment_close(environment);
}

static void test_counters_count(void **state) {
  tsr_environment *environment;
  tsr_counters counters;
  assert_int_equal(tsr_environment_open(NULL, &environment, NULL), TSR_OK);
  tsr__count(environment, TSR_COUNT_tiles_read, 3);
  tsr_environment_count_rows(environment, 7);
  tsr_environment_count_rows(environment, 1);
  tsr_environment_count_part(environment, true);
  tsr_environment_count_part(environment, false);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.tiles_read, 3);
  assert_int_equal(counters.rows_returned, 8);
  assert_int_equal(counters.parts_by_columns, 1);
  assert_int_equal(counters.parts_by_rows, 1);
  assert_int_equal(counters.files_opened, 0);
  tsr_environment_reset_counters(environment);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.tiles_read, 0);
  assert_int_equal(counters.rows_returned, 0);
  tsr_environment_close(environment);
}

static void test_rowids_are_never_given_twice(void **state) {
  tsr_environment *environment;
  int64_t a, b, c, d;
  tsr_error error = {0};
  assert_int_equal(tsr_environment_open(NULL, &environment, NULL), TSR_OK);
  assert_int_equal(tsr__environment_rows(environment, "p", "a", 100, &a, NULL), TSR_OK);
  assert_int_equal(tsr__environment_rows(environment, "p", "b", 1, &b, NULL), TSR_OK);
  assert_int_equal(tsr__environment_rows(environment, "q", "a", 10, &c, NULL), TSR_OK);
  assert_true(a > 0);
  assert_true(b >= a + 100);
  assert_true(c >= b + 1);
  assert_int_equal(tsr__environment_rows(environment, "p", "a", 100, &d, NULL), TSR_OK);
  assert_int_equal(d, a);
  /* larger than before: another array has replaced the first, whose rowids must not be used again */
  assert_int_equal(tsr__environment_rows(environment, "p", "a", 101, &d, NULL), TSR_OK);
  assert_true(d >= c + 10);
  /* the end of the counter */
  assert_int_equal(tsr__environment_rows(environment, "p", "huge", UINT64_MAX, &d, &error), TSR_RANGE);
  assert_int_equal(tsr__environment_rows(environment, "p", "huge", INT64_MAX, &d, &error), TSR_RANGE);
  assert_int_equal(
      tsr__environment_rows(environment, "p", "rest", (uint64_t)INT64_MAX - environment->next_row, &d, NULL), TSR_OK);
  assert_int_equal(environment->next_row, INT64_MAX);
  assert_int_equal(tsr__environment_rows(environment, "p", "one", 1, &d, &error), TSR_RANGE);
  assert_int_equal(tsr__environment_rows(environment, "p", "none", 0, &d, &error), TSR_OK);
  assert_int_equal(tsr__environment_rows(environment, "p", "b", 1, &d, NULL), TSR_OK);
  assert_int_equal(d, b);
  tsr_environment_close(environment);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hosts_allocator_is_used),
      cmocka_unit_test(test_host_cancels),
      cmocka_unit_test(test_host_permits_paths),
      cmocka_unit_test(test_counters_count),
      cmocka_unit_test(test_rowids_are_never_given_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
