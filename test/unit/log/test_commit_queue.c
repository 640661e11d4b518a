/* test_commit_queue.c: writers of several environments take turns: the times of their commits differ and rise in the
 * order of publication. The store of a directory plays one in which they must.
 */
#include <time.h>

#include "log/log.h"
#include "moved_calendar.h"
#include "small_array.h"

static tsr_environment *other;
static tsr_array *ours, *theirs;

static void two_writers(void) {
  char directory[1200];
  ours = make_small(22, false, false);
  snprintf(directory, sizeof directory, "mkdir '%s/.turns'", path);
  assert_int_equal(system(directory), 0);
  ok(tsr_environment_open(NULL, &other, &error));
  const tsr_array_options options = {.threads = 1};
  ok(tsr_array_open(other, path, &options, &theirs, &error));
  ours->store->commits_in_turns = theirs->store->commits_in_turns = true;
}

static void no_writers(void) {
  tsr_array_close(ours);
  tsr_array_close(theirs);
  tsr_environment_close(other);
}

/* Returns the names of the claims, in the order of a listing, with the times replaced by their order. */
static const char *claims(void) {
  static char text[200];
  tsr_listing listing = {0};
  size_t size = 0;
  uint64_t last = 0, number = 0;
  *text = 0;
  ok(tsr__store_list(ours->store, ".turns", &listing, &error));
  for (uint64_t i = 0; i < listing.count; i++) {
    unsigned long long time, generation;
    assert_int_equal(sscanf(listing.entries[i].name, "%llu_%llu", &time, &generation), 2);
    number += time != last;
    last = time;
    size += (size_t)snprintf(text + size, sizeof text - size, "%llu_%llu ", (unsigned long long)number, generation);
  }
  tsr__listing_release(&listing);
  return text;
}

static void publish(tsr_writer *writer) {
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void each_commit_claims_the_turn_after_the_last_one(void **state) {
  two_writers();
  publish(prepare_small(ours, 0, 1, 1, NULL, NULL));
  publish(prepare_small(ours, 0, 2, 2, NULL, NULL));
  assert_string_equal(claims(), "0_0 1_0 ");
  publish(prepare_small(theirs, 0, 3, 3, NULL, NULL)); /* it lists the array at its commit */
  assert_string_equal(claims(), "0_0 1_0 2_0 ");
  publish(prepare_small(ours, 5, 4, 4, NULL, NULL)); /* a given time needs no turn */
  assert_string_equal(claims(), "0_0 1_0 2_0 ");
  no_writers();
}

static void a_writer_with_an_old_listing_learns_of_later_commits(void **state) {
  tsr_turn *turn;
  uint64_t after, published;
  two_writers();
  ok(tsr__log_list(&theirs->log, true, true, &error));
  tsr_writer *writer = prepare_small(ours, 0, 1, 1, NULL, NULL);
  published = tsr_writer_time(writer);
  publish(writer);
  ok(tsr__turn_take(&theirs->log, &turn, &after, &error)); /* with the listing from before */
  assert_true(after == published);
  assert_string_equal(claims(), "0_0 1_0 ");
  tsr__turn_release(&turn, theirs->store);
  assert_string_equal(claims(), "0_0 ");
  no_writers();
}

static bool stop(void *argument) { return true; }

/* A writer whose listing is ten minutes old lists again before it claims a turn, which the host may stop, or a store
 * that fails. Then it has no turn. */
static void a_writer_with_a_very_old_listing_looks_before_it_claims(void **state) {
  tsr_turn *turn;
  uint64_t after, published;
  two_writers();
  tsr_writer *writer = prepare_small(ours, 0, 1, 1, NULL, NULL);
  published = tsr_writer_time(writer);
  publish(writer);
  ok(tsr__log_list(&theirs->log, true, true, &error));
  theirs->log.listing->moment.listed -= 600001;
  other->memory.cancel.requested = stop;
  refused(tsr__turn_take(&theirs->log, &turn, &after, &error), TSR_INTERRUPT, "");
  assert_null(turn);
  assert_string_equal(claims(), "0_0 ");
  other->memory.cancel.requested = NULL;
  ok(tsr__turn_take(&theirs->log, &turn, &after, &error));
  assert_true(after == published);
  assert_string_equal(claims(), "0_0 1_0 ");
  tsr__turn_release(&turn, theirs->store);
  no_writers();
}

/* The others have not slept: they have published, and have taken the turn away. */
static void a_machine_that_slept_has_an_old_listing_and_no_turn(void **state) {
  tsr_turn *turn;
  uint64_t after;
  two_writers();
  publish(prepare_small(ours, 0, 1, 1, NULL, NULL));
  ok(tsr__log_list(&theirs->log, true, true, &error));
  machine_slept = 601;
  other->memory.cancel.requested = stop;
  refused(tsr__turn_take(&theirs->log, &turn, &after, &error), TSR_INTERRUPT, "");
  other->memory.cancel.requested = NULL;
  assert_string_equal(claims(), "0_0 ");
  tsr_writer *writer = prepare_small(ours, 0, 2, 2, NULL, NULL);
  assert_string_equal(claims(), "0_0 1_0 ");
  machine_slept += 60;
  ok(tsr_writer_abandon(writer, &error));
  assert_string_equal(claims(), "0_0 1_0 "); /* it may be somebody else's by now */
  tsr_writer_close(writer);
  machine_slept = 0;
  no_writers();
}

static void writers_of_one_environment_share_a_turn(void **state) {
  two_writers();
  tsr_writer *one = prepare_small(ours, 0, 1, 1, NULL, NULL), *two = prepare_small(ours, 0, 2, 2, NULL, NULL);
  assert_true(tsr_writer_time(one) < tsr_writer_time(two));
  assert_string_equal(claims(), "0_0 ");
  ok(tsr_writer_abandon(two, &error));
  tsr_writer_close(two);
  assert_string_equal(claims(), "0_0 "); /* the other one still has it */
  publish(one);
  two = prepare_small(ours, 0, 3, 3, NULL, NULL);
  assert_string_equal(claims(), "0_0 1_0 ");
  ok(tsr_writer_abandon(two, &error)); /* nobody has to wait for it */
  tsr_writer_close(two);
  assert_string_equal(claims(), "0_0 ");
  no_writers();
}

static void a_turn_whose_writer_has_died_is_taken_over(void **state) {
  two_writers();
  tsr_writer *lost = prepare_small(ours, 0, 1, 1, NULL, NULL);
  const uint64_t begin = now();
  tsr_writer *writer = prepare_small(theirs, 0, 2, 2, NULL, NULL);
  assert_true(now() - begin >= 4900);
  assert_true(tsr_writer_time(writer) > tsr_writer_time(lost));
  assert_string_equal(claims(), "0_0 0_1 ");
  ok(tsr_writer_abandon(lost, &error)); /* too late to give the turn back */
  assert_string_equal(claims(), "0_0 0_1 ");
  tsr_writer_close(lost);
  publish(writer);
  no_writers();
}

static void claims_that_are_old_hold_nobody_up_and_are_vacuumed(void **state) {
  uint64_t removed;
  two_writers();
  tsr_writer *lost = prepare_small(ours, 0, 1, 1, NULL, NULL);
  age(".turns");
  const uint64_t begin = now();
  publish(prepare_small(theirs, 0, 2, 2, NULL, NULL));
  assert_true(now() - begin < 4000);
  assert_string_equal(claims(), "0_0 0_1 ");
  tsr_writer_close(lost);
  ok(tsr_array_vacuum(ours, TSR_MAINTAIN_ALL, NULL, &removed, &error));
  assert_string_equal(claims(), "0_1 ");
  no_writers();
}

/* Also if the order of names is not that of generations: 10 stands before 2. */
static void several_dead_claims_are_taken_over(void **state) {
  static const unsigned dead[] = {1, 10};
  for (size_t i = 0; i < sizeof dead / sizeof *dead; i++) {
    char name[64];
    bool exists;
    tsr_listing listing = {0};
    two_writers();
    tsr_writer *lost = prepare_small(ours, 0, 1, 1, NULL, NULL);
    ok(tsr__store_list(ours->store, ".turns", &listing, &error));
    assert_int_equal(listing.count, 1);
    const unsigned long long after = strtoull(listing.entries[0].name, NULL, 10);
    tsr__listing_release(&listing);
    for (unsigned generation = 1; generation <= dead[i]; generation++) {
      snprintf(name, sizeof name, ".turns/%llu_%u", after, generation);
      ok(tsr__store_put_new(ours->store, name, "x", 1, false, &error));
    }
    age(".turns");
    publish(prepare_small(theirs, 0, 2, 2, NULL, NULL));
    snprintf(name, sizeof name, ".turns/%llu_%u", after, dead[i] + 1);
    ok(tsr__store_find(ours->store, name, &exists, &error));
    assert_true(exists);
    tsr_writer_close(lost);
    no_writers();
    remove_tree(path);
  }
}

static void names_of_no_claim_are_ignored(void **state) {
  static const char *const behind[] = {"_5x", "_", "_ 5", "_+5", "x_5", "_1000000000", "_18446744073709551616", ""};
  char name[64];
  bool exists;
  tsr_listing listing = {0};
  two_writers();
  tsr_writer *lost = prepare_small(ours, 0, 1, 1, NULL, NULL);
  ok(tsr__store_list(ours->store, ".turns", &listing, &error));
  const unsigned long long after = strtoull(listing.entries[0].name, NULL, 10);
  tsr__listing_release(&listing);
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
    snprintf(name, sizeof name, ".turns/%llu%s", after, behind[i]);
    ok(tsr__store_put_new(ours->store, name, "x", 1, false, &error));
  }
  age(".turns");
  publish(prepare_small(theirs, 0, 2, 2, NULL, NULL));
  snprintf(name, sizeof name, ".turns/%llu_1", after);
  ok(tsr__store_find(ours->store, name, &exists, &error));
  assert_true(exists);
  tsr_writer_close(lost);
  no_writers();
  remove_tree(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_commit_claims_the_turn_after_the_last_one),
      cmocka_unit_test(a_writer_with_an_old_listing_learns_of_later_commits),
      cmocka_unit_test(a_writer_with_a_very_old_listing_looks_before_it_claims),
      cmocka_unit_test(a_machine_that_slept_has_an_old_listing_and_no_turn),
      cmocka_unit_test(writers_of_one_environment_share_a_turn),
      cmocka_unit_test(a_turn_whose_writer_has_died_is_taken_over),
      cmocka_unit_test(claims_that_are_old_hold_nobody_up_and_are_vacuumed),
      cmocka_unit_test(several_dead_claims_are_taken_over),
      cmocka_unit_test(names_of_no_claim_are_ignored),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
