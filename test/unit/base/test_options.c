/* test_options.c: option structures of older and newer callers. Those of older callers are on the heap, so that
 * AddressSanitizer sees a read past their ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

typedef struct grown { /* a structure that has got a field since version 0.2 */
  size_t size;
  uint64_t first;
  bool last;
  uint64_t since_03;
} grown;

static int take(const void *given, grown *own, tsr_error *error) {
  return TSR_TAKE_OPTIONS(grown, last, given, own, error);
}

static void test_fields_that_a_structure_lacks_are_zero(void **state) {
  const grown given = {.first = 7, .last = true, .since_03 = 9};
  grown own;
  assert_int_equal(take(NULL, &own, NULL), TSR_OK);
  assert_int_equal(own.first, 0);
  assert_int_equal(own.size, sizeof own);
  assert_int_equal(take(&given, &own, NULL), TSR_OK); /* size 0: a caller of 0.2 */
  assert_int_equal(own.first, 7);
  assert_true(own.last);
  assert_int_equal(own.since_03, 0);
  grown *old = malloc(offsetof(grown, last));
  *(size_t *)old = offsetof(grown, last);
  memcpy((char *)old + offsetof(grown, first), &given.first, sizeof given.first);
  assert_int_equal(take(old, &own, NULL), TSR_OK);
  assert_int_equal(own.first, 7);
  assert_false(own.last);
  free(old);
}

static void test_unknown_fields_must_be_zero(void **state) {
  struct {
    grown known;
    uint64_t unknown;
  } newer = {{.size = sizeof newer, .first = 7, .since_03 = 9}, 0};
  grown own;
  tsr_error error = {0};
  assert_int_equal(take(&newer, &own, &error), TSR_OK);
  assert_int_equal(own.since_03, 9);
  assert_int_equal(own.size, sizeof own); /* it may be taken once more */
  newer.unknown = 1;
  assert_int_equal(take(&newer, &own, &error), TSR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "this version of the library"));
}

static void test_sizes_that_no_structure_has_are_refused(void **state) {
  grown given = {.size = sizeof(size_t) - 1}, own;
  tsr_error error = {0};
  assert_int_equal(take(&given, &own, &error), TSR_RANGE);
  given.size = (size_t)0xABABABABABAB;
  assert_int_equal(take(&given, &own, &error), TSR_RANGE);
  assert_non_null(strstr(error.message, "grown.size is"));
}

static bool stop(void *argument) { return true; }

static void test_an_older_caller_opens_an_environment(void **state) {
  const size_t size = offsetof(tsr_environment_options, single_threaded);
  tsr_environment_options *old = calloc(1, size);
  tsr_environment *environment;
  tsr_error error = {0};
  *(size_t *)old = size;
  memcpy((char *)old + offsetof(tsr_environment_options, interrupted), &(bool (*)(void *)){stop}, sizeof(void *));
  assert_int_equal(tsr_environment_open(old, &environment, &error), TSR_OK);
  tsr_environment_close(environment);
  *(size_t *)old = 3;
  assert_int_equal(tsr_environment_open(old, &environment, &error), TSR_RANGE);
  free(old);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields_that_a_structure_lacks_are_zero),
      cmocka_unit_test(test_unknown_fields_must_be_zero),
      cmocka_unit_test(test_sizes_that_no_structure_has_are_refused),
      cmocka_unit_test(test_an_older_caller_opens_an_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
