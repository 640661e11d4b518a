/* test_rivals.c: what the next consolidation does about a merge that was decided and whose process has died, in a store
 * whose renames take several steps (tsr__rivals_finish). The test leaves the files of such a merge in a directory. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/store.h"
#include "array/array.h"
#include "array/environment.h"
#include "maintain/rivals.h"
#include "write/writer.h"
#include "small_array.h"

#define VERSION 22

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

/* Makes an array of two fragments, and what a merge of them had left when it had written `decided`. */
static tsr_array *make_dead_merge(const char *staged, const char *decided) {
  tsr_array *array = make_small(VERSION, false, false);
  char first[128], second[128], vacuum[400];
  write_small(array, 10, 0, 9, first);
  write_small(array, 20, 5, 14, second);
  tsr_writer_close(prepare_small(array, 20, 0, 14, NULL, merged));
  snprintf(vacuum, sizeof vacuum, "__fragments/%s\n__fragments/%s\n", first, second);
  if (staged) leave_file("", staged);
  leave_file(".vac.new", vacuum);
  leave_file(".decided", decided);
  return array;
}

static void finish(tsr_array *array) {
  array->store->renames_in_steps = true;
  ok(tsr__rivals_finish(array, &environment->memory, VERSION, &error));
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

/* Nothing is committed that was cancelled, or whose decision was cut short, or that another store decides by renames. */
static void test_other_decisions_commit_nothing(void **state) {
  static const char *const texts[] = {"cancel\n", "commi", "", "commit\n and more"};
  for (int i = 0; i < 4; i++) {
    tsr_array *array = make_dead_merge("", texts[i]);
    finish(array);
    assert_string_equal(left_of_merge(), "staged staged.vac.new staged.decided ");
    check_merge(array, false);
  }
  tsr_array *array = make_dead_merge("", "commit\n");
  ok(tsr__rivals_finish(array, &environment->memory, VERSION, &error));
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decided_merge_is_committed),     cmocka_unit_test(test_decided_list_is_committed),
      cmocka_unit_test(test_other_decisions_commit_nothing), cmocka_unit_test(test_merge_that_has_committed_itself),
      cmocka_unit_test(test_merge_that_died_in_its_rename),  cmocka_unit_test(test_merge_whose_fragment_is_gone)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
