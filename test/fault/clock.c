/* clock.c: commits and readers while the system's clock is set back, during a commit or after it, or leaps ahead. The
 * linker replaces clock_gettime and nanosleep by the functions here (--wrap), so time passes in nanosleep only.
 */
#include "array/array.h"
#include "environment/environment.h"
#include "small_array.h"

#include <time.h>

#define START UINT64_C(1700000000000) /* milliseconds */
#define YEAR  (UINT64_C(365) * 86400 * 1000)

static uint64_t now; /* microseconds */
static uint64_t sleeps, set_at, set_to; /* the clock is set to `set_to` at the sleep number `set_at`; 0: never */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
  (void)clock;
  *time = (struct timespec){(time_t)(now / 1000000), (long)(now % 1000000 * 1000)};
  return 0;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left) {
  (void)left;
  now += (uint64_t)wanted->tv_nsec / 1000;
  if (++sleeps == set_at) now = set_to * 1000;
  assert_true(sleeps < 20000); /* 4 seconds: a longer wait is a fault */
  return 0;
}

static void set_clock(uint64_t milliseconds) {
  now = milliseconds * 1000;
  sleeps = set_at = 0;
}

/* Writes cells at the clock's time. Returns the commit's time. */
static uint64_t write_now(tsr_array *array, int32_t first, int32_t last) {
  char name[128];
  unsigned long long time = 0;
  write_small(array, 0, first, last, name);
  assert_int_equal(sscanf(name, "__%llu_", &time), 1);
  return time;
}

static tsr_array *make_at(uint64_t time) {
  set_clock(time);
  return make_small(TSR_FORMAT_WRITE_MAX, false, false);
}

/* A second commit within a millisecond waits for the next millisecond. If the clock is set back by a year meanwhile, the
 * commit does not wait for it. */
static void test_set_back_while_a_commit_waits(void **state) {
  tsr_array *array = make_at(START);
  assert_int_equal(write_now(array, 0, 0), START);
  set_at = 2;
  set_to = START - YEAR;
  assert_int_equal(write_now(array, 1, 1), START + 1);
  assert_int_equal(sleeps, 2);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), ""); /* both are a year ahead */
  assert_int_equal(write_now(array, 2, 2), START - YEAR);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "2=2 ");
  set_clock(START + 1);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 1=1 2=2 ");
  tsr_array_close(array);
}

/* The clock is set back by less than two seconds: the connection's next commit takes a time after its own last one, which
 * it sees; other connections do not see it yet. */
static void test_set_back_after_a_commit(void **state) {
  tsr_array *array = make_at(START);
  tsr_environment *other;
  assert_int_equal(write_now(array, 0, 1), START);
  set_clock(START - 1500);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 1=1 ");
  ok(tsr_environment_open(NULL, &other, &error));
  tsr_environment *own = environment;
  environment = other;
  tsr_array *seen = open_small();
  environment = own;
  assert_string_equal(cells_of(seen, TSR_TIME_NOW), "");
  assert_int_equal(write_now(array, 1, 2), START + 1);
  assert_int_equal(now / 1000, START + 1);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 1=1 2=2 ");
  assert_string_equal(cells_of(seen, TSR_TIME_NOW), "0=0 1=1 2=2 ");
  tsr_array_close(seen);
  tsr_environment_close(other);
  tsr_array_close(array);
}

static uint64_t metadata_of(tsr_array *array) {
  tsr_metadata *metadata;
  ok(tsr_array_metadata(array, TSR_TIME_BEGIN, TSR_TIME_NOW, &metadata, &error));
  const uint64_t count = metadata->count;
  tsr_metadata_close(metadata);
  return count;
}

static void test_metadata_and_transactions(void **state) {
  tsr_array *array = make_at(START);
  const int32_t value = 1;
  const tsr_metadatum entry = {"k", 1, TSR_INT32, 1, &value, sizeof value};
  ok(tsr_array_set_metadata(array, &entry, &error));
  assert_int_equal(write_now(array, 0, 0), START + 1);
  set_clock(START - 1000);
  assert_int_equal(metadata_of(array), 1);
  ok(tsr_array_freeze(array, true, &error));
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 ");
  ok(tsr_array_freeze(array, false, &error));
  set_clock(START - YEAR);
  assert_int_equal(metadata_of(array), 0);
  tsr_array_close(array);
}

/* Commits that were written while the clock was a year ahead keep their times; a commit after the clock was corrected does
 * not wait for these times. */
static void test_a_leap_ahead(void **state) {
  tsr_array *array = make_at(START);
  set_clock(START + YEAR);
  assert_int_equal(write_now(array, 0, 0), START + YEAR);
  set_clock(START + 5);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "");
  assert_int_equal(write_now(array, 1, 1), START + 5);
  assert_int_equal(sleeps, 0);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "1=1 ");
  assert_string_equal(cells_of(array, START + YEAR), "0=0 1=1 ");
  tsr_array_close(array);
}

/* A merge of a fragment with one that is ahead of the clock. Once its sources are vacuumed, the present of a dense array
 * is lost until the clock has caught up: an error, and no empty array. */
static void merge_ahead(bool dense) {
  uint64_t removed = 0;
  set_clock(START);
  tsr_array *array = make_small(TSR_FORMAT_WRITE_MAX, dense, false);
  write_now(array, 0, 0);
  set_clock(START + YEAR);
  write_now(array, 1, 1);
  assert_int_equal(merge_small(array), 2);
  set_clock(START + 5);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 ");
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
  assert_true(removed > 0);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), dense ? "lost" : "0=0 ");
  assert_string_equal(cells_of(array, START + 5), dense ? "lost" : "0=0 ");
  set_clock(START + YEAR);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 1=1 ");
  tsr_array_close(array);
}

static void test_a_merge_that_ends_ahead(void **state) { merge_ahead(true); }

static void test_a_timed_merge_that_ends_ahead(void **state) { merge_ahead(false); }

/* A schema of the present would be in force only until the clock has reached one that is a year ahead: it is refused. */
static void test_a_schema_ahead(void **state) {
  const tsr_schema *schema;
  tsr_array *array = make_at(START + YEAR);
  set_clock(START);
  assert_int_equal(tsr_array_drop_attribute(array, "n", &error), TSR_ERROR);
  assert_non_null(strstr(error.message, "ahead of this machine's clock"));
  assert_int_equal(write_now(array, 0, 0), START);
  tsr_array_close(array);
  set_clock(START + YEAR + 10);
  array = open_small();
  ok(tsr_array_drop_attribute(array, "n", &error));
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  assert_int_equal(schema->attribute_count, 1);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=0 ");
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_set_back_while_a_commit_waits, setup, teardown),
      cmocka_unit_test_setup_teardown(test_set_back_after_a_commit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_metadata_and_transactions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_leap_ahead, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_merge_that_ends_ahead, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_timed_merge_that_ends_ahead, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_schema_ahead, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
