/* test_merge_conflict.c: what a consolidation does about merges of the same fragments: it cancels a rival or gives way
 * to it (tsr__merge_conflict_cancel), decides that it commits itself (tsr__merge_conflict_decide), and completes a
 * merge that was decided and whose process has died (tsr__merge_conflict_finish). The tests leave the files of another
 * merge in a directory. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "maintain/maintain.h"
#include "write/writer.h"
#include "small_array.h"

#define VERSION 22

#define LESS    "__20_20_00000000000000000000000000000000_22" /* a name before that of any other merge */
#define GREATER "__99_99_ffffffffffffffffffffffffffffffff_22" /* and one behind it */

static char merged[128]; /* the name of the merge */

static void leave_file(const char *suffix, const char *text) {
  char name[1200];
  snprintf(name, sizeof name, "%s/__commits/.%s%s", path, merged, suffix);
  FILE *f = fopen(name, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
  assert_int_equal(fclose(f), 0);
}

/* Returns the files of the merge in __commits: "." followed by the suffix for staged ones. */
static const char *left_of_merge(void) {
  static const char *const suffixes[] = {"", ".vac.new", ".decided", ".wrt", ".con", ".vac"};
  static char found[200];
  char name[1200];
  *found = 0;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    snprintf(name, sizeof name, "%s/__commits/%s%s%s", path, i < 3 ? "." : "", merged, suffixes[i]);
    if (access(name, F_OK) == 0) snprintf(found + strlen(found), 40, "%s%s ", i < 3 ? "staged" : "", suffixes[i]);
  }
  return found;
}

/* Makes an array of two fragments, and what a merge of them had left when it had written `decided`, or nothing yet. */
static tsr_array *make_dead_merge(const char *staged, const char *decided) {
  tsr_array *array = make_small(VERSION, false, false);
  char first[128], second[128], vacuum[400];
  write_small(array, 10, 0, 9, first);
  write_small(array, 20, 5, 14, second);
  tsr_writer_close(prepare_small(array, 20, 0, 14, NULL, merged));
  snprintf(vacuum, sizeof vacuum, "__fragments/%s\n__fragments/%s\n", first, second);
  if (staged) leave_file("", staged);
  leave_file(".vac.new", vacuum);
  if (decided) leave_file(".decided", decided);
  return array;
}

static void finish(tsr_array *array) {
  array->store->renames_in_steps = true;
  ok(tsr__merge_conflict_finish(array, &environment->memory, VERSION, &error));
}

/* Checks the value of cell 0, of which only the merge says 2000, and closes the array. */
static void check_merge(tsr_array *array, bool committed) {
  tsr_array *other = open_small();
  assert_ptr_equal(strstr(cells_of(other, TSR_TIME_NOW), committed ? "0=2000 1=2001 " : "0=1000 1=1001 "),
                   cells_of(other, TSR_TIME_NOW));
  assert_non_null(strstr(cells_of(other, TSR_TIME_NOW), "14=2014 "));
  tsr_array_close(other);
  tsr_array_close(array);
  remove_tree(path);
}

static void test_decided_merge_is_committed(void **state) {
  tsr_array *array = make_dead_merge("", "commit\n");
  finish(array);
  assert_string_equal(left_of_merge(), ".wrt .vac ");
  finish(array); /* a second time there is nothing to do */
  assert_string_equal(left_of_merge(), ".wrt .vac ");
  check_merge(array, true);
}

/* A merge of several fragments has staged a list. */
static void test_decided_list_is_committed(void **state) {
  tsr_array *array = make_dead_merge("", "commit\n");
  char list[200];
  snprintf(list, sizeof list, "__fragments/%s\n", merged);
  leave_file("", list);
  finish(array);
  assert_string_equal(left_of_merge(), ".con .vac ");
  tsr_array_close(array);
  remove_tree(path);
}

/* Nothing is committed that was cancelled, or whose decision was cut short, or that another store decides by
 * renames. */
static void test_other_decisions_commit_nothing(void **state) {
  static const char *const texts[] = {"cancel\n", "commi", "", "commit\n and more"};
  for (int i = 0; i < 4; i++) {
    tsr_array *array = make_dead_merge("", texts[i]);
    finish(array);
    assert_string_equal(left_of_merge(), "staged staged.vac.new staged.decided ");
    check_merge(array, false);
  }
  tsr_array *array = make_dead_merge("", "commit\n");
  ok(tsr__merge_conflict_finish(array, &environment->memory, VERSION, &error));
  assert_string_equal(left_of_merge(), "staged staged.vac.new staged.decided ");
  check_merge(array, false);
}

/* The process of the merge was not dead: it has renamed its commit. What is left is its to finish. */
static void test_merge_that_has_committed_itself(void **state) {
  tsr_array *array = make_dead_merge(NULL, "commit\n");
  finish(array);
  assert_string_equal(left_of_merge(), "staged.vac.new ");
  check_merge(array, false);
}

/* It has died between the steps of its rename: the commit exists under both names. */
static void test_merge_that_died_in_its_rename(void **state) {
  tsr_array *array = make_dead_merge("", "commit\n");
  char name[1200];
  snprintf(name, sizeof name, "%s/__commits/%s.wrt", path, merged);
  FILE *f = fopen(name, "w");
  assert_non_null(f);
  fclose(f);
  finish(array);
  assert_string_equal(left_of_merge(), ".wrt .vac ");
  check_merge(array, true);
}

/* Another process has finished its vacuum file, too, or has removed it already. */
static void test_merge_whose_vacuum_file_is_not_staged(void **state) {
  for (int renamed = 0; renamed < 2; renamed++) {
    tsr_array *array = make_dead_merge("", "commit\n");
    char from[1200], to[1200];
    snprintf(from, sizeof from, "%s/__commits/.%s.vac.new", path, merged);
    snprintf(to, sizeof to, "%s/__commits/%s.vac", path, merged);
    assert_int_equal(renamed ? rename(from, to) : remove(from), 0);
    finish(array);
    assert_string_equal(left_of_merge(), renamed ? ".wrt .vac " : ".wrt ");
    check_merge(array, true);
  }
}

/* It has gone on, and its fragment was merged and vacuumed: nothing commits the name again. */
static void test_merge_whose_fragment_is_gone(void **state) {
  tsr_array *array = make_dead_merge("", "commit\n");
  char name[1200];
  snprintf(name, sizeof name, "%s/__fragments/%s", path, merged);
  remove_tree(name);
  finish(array);
  assert_string_equal(left_of_merge(), "staged.vac.new ");
  check_merge(array, false);
}

/* ---- Merges of processes that live ------------------------------------------------------------------------------- */

static bool cancelled; /* somebody has removed the staged commit of the merge that calls tsr__merge_conflict_cancel */

static void stage_own(const char *name) {
  char staged[1200];
  snprintf(staged, sizeof staged, "%s/__commits/.%s", path, name);
  const int file = open(staged, O_CREAT | O_WRONLY, 0666);
  assert_true(file >= 0);
  close(file);
}

/* Calls tsr__merge_conflict_cancel for a merge with a name, of the fragment `source` or, if that is NULL, of the first
 * one. */
static int cancel_rivals(tsr_array *array, const char *name, const char *source) {
  static char names[1][128];
  tsr_fragment fragment = {0};
  const tsr_fragment *const sources[] = {&fragment};
  tsr_replacement r = {.array = array,
                       .memory = &environment->memory,
                       .version = VERSION,
                       .names = names,
                       .source_count = 1,
                       .sources = (const tsr_fragment **)(uintptr_t)sources};
  snprintf(names[0], sizeof names[0], "%s", name);
  snprintf(r.staged, sizeof r.staged, "__commits/.%s", name);
  if (!cancelled) stage_own(name);
  ok(tsr__log_list(&array->log, true, true, &error));
  fragment.name = (char *)(uintptr_t)(source ? source : array->log.listing->fragments.items[0].name);
  tsr_replacement *one = &r;
  bool outdated;
  return tsr__merge_conflict_cancel(&(tsr_merges){1, &one}, &outdated, &error);
}

static bool rival_has_fragment(void) {
  char name[1200];
  snprintf(name, sizeof name, "%s/__fragments/%s", path, merged);
  return access(name, F_OK) == 0;
}

/* Says that the rival staged its files a minute ago. */
static void age_rival(void) {
  char name[1200];
  const struct timespec times[2] = {{time(NULL) - 60, 0}, {time(NULL) - 60, 0}};
  snprintf(name, sizeof name, "%s/__commits/.%s.vac.new", path, merged);
  assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

/* Of two merges the one with the lesser name goes first, and cancels the other at once. */
static void test_lesser_name_cancels(void **state) {
  for (int steps = 0; steps < 2; steps++) {
    tsr_array *array = make_dead_merge("", NULL);
    array->store->renames_in_steps = steps;
    ok(cancel_rivals(array, LESS, NULL));
    assert_string_equal(left_of_merge(), "");
    assert_false(rival_has_fragment());
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* The one with the greater name waits for the other, and cancels it when it must be dead. */
static void test_greater_name_waits(void **state) {
  tsr_array *array = make_dead_merge("", NULL);
  const uint64_t begun = tsr__moment();
  ok(cancel_rivals(array, GREATER, NULL));
  assert_true(tsr__moment() - begun >= 300);
  assert_string_equal(left_of_merge(), "");
  tsr_array_close(array);
  remove_tree(path);
  array = make_dead_merge("", NULL);
  age_rival();
  array->store->renames_in_steps = true;
  const uint64_t again = tsr__moment();
  ok(cancel_rivals(array, GREATER, NULL));
  assert_true(tsr__moment() - again < 300);
  assert_string_equal(left_of_merge(), "");
  assert_false(rival_has_fragment());
  tsr_array_close(array);
  remove_tree(path);
}

/* A merge that is decided is not cancelled, whichever name it has; the other one gives way. */
static void test_decided_rival_goes_first(void **state) {
  static const char *const names[] = {LESS, GREATER};
  for (int i = 0; i < 2; i++) {
    tsr_array *array = make_dead_merge("", "commit\n");
    array->store->renames_in_steps = true;
    assert_int_equal(cancel_rivals(array, names[i], NULL), TSR_ABORT);
    assert_string_equal(left_of_merge(), "staged staged.vac.new staged.decided ");
    assert_true(rival_has_fragment());
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* A merge that another rival has cancelled and not yet removed is removed. */
static void test_cancelled_rival_is_removed(void **state) {
  tsr_array *array = make_dead_merge("", "cancel\n");
  array->store->renames_in_steps = true;
  ok(cancel_rivals(array, GREATER, NULL));
  assert_string_equal(left_of_merge(), "staged.decided "); /* the file is that rival's */
  assert_false(rival_has_fragment());
  tsr_array_close(array);
  remove_tree(path);
}

/* A merge that was cancelled gives way: whoever cancelled it lives. */
static void test_cancelled_merge_cancels_nobody(void **state) {
  static const char *const names[] = {LESS, GREATER};
  cancelled = true;
  for (int i = 0; i < 4; i++) {
    tsr_array *array = make_dead_merge("", NULL);
    array->store->renames_in_steps = i / 2;
    age_rival();
    assert_int_equal(cancel_rivals(array, names[i % 2], NULL), TSR_ABORT);
    assert_string_equal(left_of_merge(), "staged staged.vac.new ");
    assert_true(rival_has_fragment());
    tsr_array_close(array);
    remove_tree(path);
  }
  cancelled = false;
}

/* Merges of other fragments, and one whose vacuum file is not complete yet, are no rivals. */
static void test_others_are_no_rivals(void **state) {
  tsr_array *array = make_dead_merge("", NULL);
  ok(cancel_rivals(array, LESS, "__1_1_0123456789abcdef0123456789abcdef_22"));
  assert_string_equal(left_of_merge(), "staged staged.vac.new ");
  leave_file(".vac.new", "__fragm");
  ok(cancel_rivals(array, LESS, NULL));
  assert_string_equal(left_of_merge(), "staged staged.vac.new ");
  assert_true(rival_has_fragment());
  tsr_array_close(array);
  remove_tree(path);
}

/* Only one decides about a merge; a store that renames in one step needs no decision. */
static void test_one_decides(void **state) {
  static char names[1][128];
  tsr_array *array = make_dead_merge("", NULL);
  tsr_replacement r = {.array = array, .memory = &environment->memory, .version = VERSION, .names = names};
  snprintf(names[0], sizeof names[0], "%s", merged);
  ok(tsr__merge_conflict_decide(&r, &error));
  assert_string_equal(left_of_merge(), "staged staged.vac.new ");
  assert_string_equal(r.decided, "");
  array->store->renames_in_steps = true;
  ok(tsr__merge_conflict_decide(&r, &error));
  assert_string_equal(left_of_merge(), "staged staged.vac.new staged.decided ");
  assert_non_null(strstr(r.decided, ".decided"));
  tsr_replacement second = {.array = array, .memory = &environment->memory, .version = VERSION, .names = names};
  assert_int_equal(tsr__merge_conflict_decide(&second, &error), TSR_ABORT);
  assert_string_equal(second.decided, ""); /* it removes no file of another one's */
  assert_int_equal(cancel_rivals(array, LESS, NULL), TSR_ABORT);
  tsr_array_close(array);
  remove_tree(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_decided_merge_is_committed),
                                     cmocka_unit_test(test_decided_list_is_committed),
                                     cmocka_unit_test(test_other_decisions_commit_nothing),
                                     cmocka_unit_test(test_merge_that_has_committed_itself),
                                     cmocka_unit_test(test_merge_that_died_in_its_rename),
                                     cmocka_unit_test(test_merge_whose_vacuum_file_is_not_staged),
                                     cmocka_unit_test(test_merge_whose_fragment_is_gone),
                                     cmocka_unit_test(test_lesser_name_cancels),
                                     cmocka_unit_test(test_greater_name_waits),
                                     cmocka_unit_test(test_decided_rival_goes_first),
                                     cmocka_unit_test(test_cancelled_rival_is_removed),
                                     cmocka_unit_test(test_cancelled_merge_cancels_nobody),
                                     cmocka_unit_test(test_others_are_no_rivals),
                                     cmocka_unit_test(test_one_decides)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
