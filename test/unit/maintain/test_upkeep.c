/* test_upkeep.c: which neighbours tsr_array_upkeep merges: tiers, their bounds, and what it costs to keep them. The
 * linker replaces tsr__moment (--wrap), so that no cost depends on how busy the machine is. */
#include <math.h>
#include <string.h>

#include "maintain/maintain.h"
#include "small_array.h"

#define MANY 20000

static tsr_tier_fragment list[MANY];
static uint64_t count;

/* Makes the list of fragments; each has as many bytes as cells. */
#define LIST(...)                                                                                                      \
  do {                                                                                                                 \
    const uint64_t cells[] = {__VA_ARGS__};                                                                            \
    count = sizeof cells / sizeof *cells;                                                                              \
    for (uint64_t i = 0; i < count; i++) list[i] = (tsr_tier_fragment){cells[i], cells[i]};                            \
  } while (0)

static tsr_tier_rules rules_of(uint64_t fanout) {
  return (tsr_tier_rules){.fanout = fanout, .max_fragment_bytes = UINT64_MAX};
}

/* Returns the end of the run that is chosen, 0 if there is none; *waits: the runs that were skipped. */
static uint64_t choose(const tsr_tier_rules *rules, uint64_t *waits) {
  uint64_t end = count;
  *waits = 0;
  return tsr__tier_choose(list, count, rules, &end, waits) ? end : 0;
}

static void the_newest_full_tier_is_chosen(void **state) {
  const tsr_tier_rules four = rules_of(4);
  uint64_t waits;
  LIST(1, 1, 1);
  assert_int_equal(choose(&four, &waits), 0);
  LIST(1, 1, 1, 1);
  assert_int_equal(choose(&four, &waits), 4);
  LIST(1, 1, 1, 1, 1, 1); /* the newest four */
  assert_int_equal(choose(&four, &waits), 6);
  LIST(4, 4, 4, 4, 1, 1, 1); /* the newest tier has too few */
  assert_int_equal(choose(&four, &waits), 4);
  LIST(16, 4, 4, 4, 1, 1, 1);
  assert_int_equal(choose(&four, &waits), 0);
  LIST(1, 3, 2, 3); /* about the same size: less than a factor of four */
  assert_int_equal(choose(&four, &waits), 4);
  LIST(1, 4, 2, 3);
  assert_int_equal(choose(&four, &waits), 0);
  LIST(1, 5, 1, 5, 1, 5, 1, 5); /* two tiers have at most six: then no fragment may have most of the cells */
  assert_int_equal(choose(&four, &waits), 8);
  LIST(1, 9, 1, 1, 1, 9, 1, 1);
  assert_int_equal(choose(&four, &waits), 0);
  for (count = 0; count < 64; count++) { /* of any four one has most of the cells: 1 4 1 16 1 4 1 64 ... */
    list[count] = (tsr_tier_fragment){1, 1};
    for (uint64_t n = count + 1; n % 2 == 0; n /= 2) list[count].cells *= 4;
  }
  assert_int_equal(choose(&four, &waits), 63); /* twice as many as the tiers allow: the fewest cells */
  count = 40;
  assert_int_equal(choose(&four, &waits), 0);
  LIST(100, 1, 1, 1);
  assert_int_equal(choose(&four, &waits), 0);
  LIST(0, 0, 0, 0); /* fragments without cells count as one */
  assert_int_equal(choose(&four, &waits), 4);
}

static void large_runs_wait(void **state) {
  tsr_tier_rules rules = rules_of(4);
  uint64_t waits;
  rules.bytes_limited = true;
  rules.bytes = 8;
  LIST(1, 1, 1, 1, 4, 4, 4, 4, 40, 50, 60, 70);
  assert_int_equal(choose(&rules, &waits), 4);
  assert_int_equal(waits, 2);
  rules.bytes = 16;
  assert_int_equal(choose(&rules, &waits), 8);
  assert_int_equal(waits, 1);
  rules.bytes_limited = false;
  assert_int_equal(choose(&rules, &waits), 12);
  rules.max_fragment_bytes = 16; /* larger fragments are not wanted, so they do not wait either */
  assert_int_equal(choose(&rules, &waits), 8);
  assert_int_equal(waits, 0);
}

/* Makes `commits` fragments of sizes that `size_of` says, one after the other, and merges whatever is chosen. *written:
 * all cells that merges have written. Returns the most fragments that there were after a commit. */
static uint64_t grow(const tsr_tier_rules *rules, uint64_t commits, uint64_t (*size_of)(uint64_t), uint64_t *cells,
                     uint64_t *written) {
  uint64_t most = 0;
  count = *cells = *written = 0;
  for (uint64_t i = 0; i < commits; i++) {
    list[count++] = (tsr_tier_fragment){size_of(i), size_of(i)};
    *cells += size_of(i);
    for (uint64_t waits, end; (end = choose(rules, &waits)) > 0;) {
      const uint64_t first = end - rules->fanout;
      for (uint64_t k = first + 1; k < end; k++) {
        list[first].cells += list[k].cells;
        list[first].bytes += list[k].bytes;
      }
      *written += list[first].cells;
      memmove(&list[first + 1], &list[end], (count - end) * sizeof *list);
      count -= rules->fanout - 1;
    }
    if (count > most) most = count;
  }
  return most;
}

static uint64_t equal(uint64_t i) {
  (void)i;
  return 100;
}
static uint64_t by_turns(uint64_t i) { return i % 2 ? 1 : 5000; }
static uint64_t anything(uint64_t i) { return 1 + i * 2654435761u % 4294967296u % 3000 * (i % 7) * (i % 3); }
static uint64_t rising(uint64_t i) { return i + 1; }
static uint64_t falling(uint64_t i) { return MANY - i; }

static void few_fragments_stay_for_a_bounded_cost(void **state) {
  uint64_t (*const sizes[])(uint64_t) = {equal, by_turns, anything, rising, falling};
  static const uint64_t fanouts[] = {4, 16, 64};
  for (unsigned f = 0; f < 3; f++)
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      const tsr_tier_rules rules = rules_of(fanouts[f]);
      uint64_t cells, written;
      const uint64_t most = grow(&rules, 10000, sizes[s], &cells, &written);
      const double base = log((double)fanouts[f]), tiers = ceil(log((double)cells) / base) + 1;
      if ((double)most > (double)fanouts[f] * tiers * (s == 0 ? 1 : 2))
        fail_msg("fanout %d, sizes %u: %d fragments", (int)fanouts[f], s, (int)most);
      if ((double)written > (double)cells * (s == 0 ? ceil(log(10000.0) / base) : 14))
        fail_msg("fanout %d, sizes %u: each cell is written %.1f times", (int)fanouts[f], s,
                 (double)written / (double)cells);
    }
}

/* ---- What it costs to merge them --------------------------------------------------------------------------------- */

static uint64_t moment, leap; /* ms that each look at the clock takes */

uint64_t __wrap_tsr__moment(void);
uint64_t __wrap_tsr__moment(void) { return moment += leap; }

/* No stamp proves that a directory has not changed, as if each change were a moment ago. */
static int unknown_stamp(tsr_store *store, const char *directory, tsr_stamp *stamp, tsr_error *e) {
  *stamp = (tsr_stamp){.known = false};
  return TSR_OK;
}

/* Writes 64 fragments, merges them (16 merges, then 4, then 1), and joins the files of their commits. Returns the
 * readings of directories that this took; *names: the entries of __commits that were read. */
static uint64_t merge_many(uint64_t *names) {
  tsr_counters counters;
  tsr_upkeep result;
  const tsr_upkeep_options options = {.fanout = 4, .vacuum = TSR_UPKEEP_VACUUM_NEVER};
  tsr_array *array = make_small(22, false, false);
  tsr_store_methods methods = *array->store->methods;
  char before[4096];
  methods.stamp = unknown_stamp;
  array->store->methods = &methods;
  for (int32_t i = 0; i < 64; i++) write_small(array, 10 + (uint64_t)i, i, i, NULL);
  snprintf(before, sizeof before, "%s", cells_of(array, TSR_TIME_NOW));
  tsr_environment_reset_counters(environment);
  ok(tsr_array_upkeep(array, &options, &result, &error));
  tsr_environment_counters(environment, &counters);
  assert_int_equal(result.merges, 21);
  assert_int_equal(result.merged, 84);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), before);
  tsr_array_close(array);
  *names = counters.commits_listed;
  return counters.directories_listed;
}

/* Merges of one pass are committed together, which reads the array a few times for all of them. One that has waited for
 * a quarter of a second is committed with those that there are: the slower the machine, the more readings. */
static void many_merges_are_committed_together(void **state) {
  uint64_t names, slow_names;
  moment = 1;
  leap = 0;
  const uint64_t directories = merge_many(&names);
  leap = 1000; /* each merge has waited for too long */
  const uint64_t slow_directories = merge_many(&slow_names);
  leap = 0;
  if (directories > 124 || names > 1494 || slow_directories < 2 * directories || slow_names < 2 * names)
    fail_msg("%d readings of directories, %d names; slow: %d, %d", (int)directories, (int)names, (int)slow_directories,
             (int)slow_names);
}

/* Merges the fragments of some commits as a COMMIT does, or by hand. Returns how many directories were read. */
static uint64_t keep_up_small(int32_t commits, bool automatic, uint64_t most_bytes, tsr_upkeep *result) {
  tsr_counters counters;
  const tsr_upkeep_options options = {
      .fanout = 4, .vacuum = TSR_UPKEEP_VACUUM_NEVER, .automatic = automatic, .most_bytes = most_bytes};
  tsr_array *array = make_small(22, false, false);
  for (int32_t i = 0; i < commits; i++) write_small(array, 10 + (uint64_t)i, i, i, NULL);
  tsr_environment_reset_counters(environment);
  ok(tsr_array_upkeep(array, &options, result, &error));
  tsr_environment_counters(environment, &counters);
  tsr_array_close(array);
  return counters.directories_listed;
}

/* A COMMIT looks at the array once more only if a merge has completed the next tier: each look reads all names. */
static void a_commit_does_not_look_for_nothing(void **state) {
  tsr_upkeep done, by_hand;
  leap = 0;
  const uint64_t once = keep_up_small(4, true, 0, &done), twice = keep_up_small(4, false, 0, &by_hand);
  assert_int_equal(done.merges, 1);
  assert_int_equal(by_hand.merges, 1);
  assert_true(once + 3 <= twice);
  (void)keep_up_small(16, true, 0, &done); /* four merges, and one of what they made */
  assert_int_equal(done.merges, 5);
  assert_int_equal(done.left, 0);
  (void)keep_up_small(16, false, 0, &by_hand);
  assert_int_equal(by_hand.merges, 5);
  /* what waits is the same: the runs for which the bytes no longer suffice, also one that this call has completed */
  for (uint64_t bytes = 1; bytes < 40000; bytes += 1 + bytes / 8) {
    (void)keep_up_small(16, true, bytes, &done);
    (void)keep_up_small(16, false, bytes, &by_hand);
    assert_int_equal(done.merges, by_hand.merges);
    assert_int_equal(done.left, by_hand.left);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_commit_does_not_look_for_nothing),
      cmocka_unit_test(the_newest_full_tier_is_chosen),
      cmocka_unit_test(large_runs_wait),
      cmocka_unit_test(few_fragments_stay_for_a_bounded_cost),
      cmocka_unit_test(many_merges_are_committed_together),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
