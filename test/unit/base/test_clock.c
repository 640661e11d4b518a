/* The two clocks: one counts sleep, and the other does not. A kernel or a sandbox may lack the first one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

#ifdef CLOCK_BOOTTIME

static bool lacks_boottime, lacks_all;

int clock_gettime(clockid_t which, struct timespec *time) {
  if (lacks_all || (lacks_boottime && which == CLOCK_BOOTTIME)) {
    errno = EINVAL;
    return -1;
  }
  *time = which == CLOCK_BOOTTIME    ? (struct timespec){4000, 7999999}
          : which == CLOCK_MONOTONIC ? (struct timespec){400, 999000000}
                                     : (struct timespec){1700000000, 0};
  return 0;
}

static void test_sleep(void **state) {
  assert_true(tsr__moment() == 4000007);
  assert_true(tsr__ticks() == 400999);
  lacks_boottime = true;
  assert_true(tsr__moment() == 400999);
  assert_true(tsr__ticks() == 400999);
  lacks_all = true;
  assert_true(tsr__moment() == 0 && tsr__ticks() == 0);
}

#else

static void test_sleep(void **state) { assert_true(tsr__moment() - tsr__ticks() < 1000); }

#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sleep)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
