/* test_kept.c: a state of the past whose cells were merged with later ones, and whose sources are gone, is an error that
 * says which cells and times are lost. */
#include "maintain/maintain.h"
#include "small_array.h"

#define AT "1970-01-01 00:00:00.0" /* and milliseconds below 100 */

/* Makes a dense array whose three commits are merged and vacuumed. */
static tsr_array *make_merged(void) {
  uint64_t removed;
  tsr_array *array = make_small(22, true, false);
  write_small(array, 10, 0, 9, NULL);
  write_small(array, 20, 10, 19, NULL);
  write_small(array, 30, 0, 4, NULL);
  assert_int_equal(merge_small(array), 3);
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error));
  write_small(array, 40, 50, 50, NULL);
  return array;
}

/* Returns the error of a state, or the number of fragments that it shows. */
static const char *state_of(tsr_array *array, uint64_t since, uint64_t as_of) {
  static char text[TSR_MESSAGE_SIZE];
  const tsr_interval *intervals;
  tsr_snapshot *snapshot;
  ok(tsr_snapshot_open(array, NULL, since, as_of, &snapshot, &error));
  const int rc = tsr_snapshot_non_empty_domain(snapshot, &intervals, &error);
  if (rc < 0) assert_int_equal(rc, TSR_ERROR);
  if (rc < 0) snprintf(text, sizeof text, "%s", error.message);
  else snprintf(text, sizeof text, "%llu", (unsigned long long)snapshot->fragment_count);
  tsr_snapshot_close(snapshot);
  return text;
}

#define LOST                                                                                                           \
  " is lost: cells of {\"x\":[0,19]} were merged over " AT "10 to " AT "30, and their sources are vacuumed; from " AT  \
  "30 on the past is whole"

static void lost_states_are_named(void **state) {
  tsr_array *array = make_merged();
  assert_string_equal(state_of(array, 0, TSR_TIME_NOW), "2");
  assert_string_equal(state_of(array, 0, 9), "0");
  assert_string_equal(state_of(array, 0, 10), "the state at " AT "10" LOST);
  assert_string_equal(state_of(array, 0, 29), "the state at " AT "29" LOST);
  assert_string_equal(state_of(array, 0, 30), "1");
  assert_string_equal(state_of(array, 10, 30), "1");
  assert_string_equal(state_of(array, 11, 30), "what was written since " AT "11" LOST);
  assert_string_equal(state_of(array, 11, 29), "the state at " AT "29" LOST);
  assert_string_equal(state_of(array, 11, 35), "what was written since " AT "11" LOST);
  assert_string_equal(state_of(array, 30, 40), "what was written since " AT "30" LOST);
  assert_string_equal(state_of(array, 31, 40), "1");
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lost_states_are_named)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
