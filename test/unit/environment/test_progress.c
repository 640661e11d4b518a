/* test_progress.c: the registry of operations: progress grows and ends; nested operations; more operations than slots;
 * long paths; threads; a child of a fork. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <math.h>
#include <string.h>

#include "environment/environment.h"

static tsr_progress entries[TSR_PROGRESS_MAX + 1];

static tsr_environment *environment_new(void) {
  tsr_environment *environment;
  assert_int_equal(tsr_environment_open(NULL, &environment, NULL), TSR_OK);
  return environment;
}

static void assert_entry(uint64_t index, const char *operation, uint64_t done, uint64_t total) {
  assert_string_equal(entries[index].operation, operation);
  assert_int_equal(entries[index].done, done);
  assert_int_equal(entries[index].total, total);
}

static void test_one_operation(void **state) {
  (void)state;
  tsr_environment *e = environment_new();
  tsr_work work;
  tsr_work_done(e, 3); /* nothing is at work: nothing happens */
  const uint64_t before = tsr__environment_now();
  tsr_work_begin(e, &work, "copy", "data/a", 10);
  tsr_work_done(e, 4);
  assert_int_equal(tsr_progress_list(entries, 9), 1);
  assert_entry(0, "copy", 4, 10);
  assert_string_equal(entries[0].path, "data/a");
  assert_true(entries[0].started >= before && entries[0].started <= tsr__environment_now());
  tsr__work_reach(e, 2); /* never back */
  tsr_work_done(e, UINT64_MAX); /* never past the total */
  assert_int_equal(tsr_progress_list(entries, 9), 1);
  assert_entry(0, "copy", 10, 10);
  tsr__work_more(e, 5);
  assert_int_equal(tsr_progress_list(entries, 9), 1);
  assert_entry(0, "copy", 15, 15);
  assert_int_equal(tsr_progress_list(entries, 0), 0);
  tsr_work_end(e, &work);
  assert_int_equal(tsr_progress_list(entries, 9), 0);
  tsr_environment_close(e);
}

static void test_operations_nest(void **state) {
  (void)state;
  tsr_environment *e = environment_new(), *other = environment_new();
  tsr_work outer, inner, elsewhere;
  tsr_work_begin(e, &outer, "copy", "a", 100);
  tsr_work_begin(other, &elsewhere, "check", "b", 0);
  tsr_work_begin(e, &inner, "commit", "c", 7);
  tsr_work_done(e, 2); /* of the innermost */
  tsr__work_reach(other, 9); /* a total that is not known */
  assert_int_equal(tsr_progress_list(entries, 9), 3);
  assert_entry(0, "copy", 0, 100);
  assert_entry(1, "check", 0, 0);
  assert_entry(2, "commit", 2, 7);
  assert_int_equal(tsr_progress_list(entries, 2), 2);
  tsr_work_end(e, &inner);
  tsr_work_done(e, 1);
  tsr_work_end(other, &elsewhere);
  tsr_work_begin(other, &elsewhere, "vacuum", "d", 1); /* in the slot of another, and yet the last */
  assert_int_equal(tsr_progress_list(entries, 9), 2);
  assert_entry(0, "copy", 1, 100);
  assert_entry(1, "vacuum", 0, 1);
  tsr_work_end(other, &elsewhere);
  tsr_work_end(e, &outer);
  assert_int_equal(tsr_progress_list(entries, 9), 0);
  tsr_environment_close(other);
  tsr_environment_close(e);
}

static void test_more_operations_than_slots(void **state) {
  (void)state;
  tsr_environment *e = environment_new();
  static tsr_work works[TSR_PROGRESS_MAX + 3];
  for (int i = 0; i < TSR_PROGRESS_MAX + 3; i++) tsr_work_begin(e, &works[i], "check", "a", 1);
  tsr_work_done(e, 1); /* of one that is not shown */
  assert_int_equal(tsr_progress_list(entries, TSR_PROGRESS_MAX + 1), TSR_PROGRESS_MAX);
  assert_entry(TSR_PROGRESS_MAX - 1, "check", 0, 1);
  for (int i = TSR_PROGRESS_MAX + 3; i-- > 0;) tsr_work_end(e, &works[i]);
  assert_int_equal(tsr_progress_list(entries, 9), 0);
  tsr_environment_close(e);
}

static void test_long_paths_are_shortened(void **state) {
  (void)state;
  tsr_environment *e = environment_new();
  tsr_work work;
  char path[600];
  for (size_t size = sizeof entries->path - 3; size < 300; size++) {
    memset(path, 'x', size);
    memcpy(path + size - sizeof entries->path + 3, "\xC3\xBC\xC3\xBC", 4); /* it is cut here */
    memcpy(path + size - 3, "end", 4);
    tsr_work_begin(e, &work, "an operation whose name is far too long", path, 1);
    assert_int_equal(tsr_progress_list(entries, 9), 1);
    assert_string_equal(entries[0].path + strlen(entries[0].path) - 3, "end");
    if (size < sizeof entries->path) assert_string_equal(entries[0].path, path);
    else assert_true(memcmp(entries[0].path, "...", 3) == 0 && (entries[0].path[3] & 0xC0) != 0x80);
    tsr_work_end(e, &work);
  }
  tsr_environment_close(e);
}

static void *work_hard(void *argument) {
  tsr_environment *e = environment_new();
  for (int round = 0; round < 300; round++) {
    tsr_work work;
    tsr_work_begin(e, &work, "check", "a", 50);
    for (int i = 0; i < 50; i++) tsr_work_done(e, 1);
    tsr_work_end(e, &work);
  }
  tsr_environment_close(e);
  return argument;
}

static void test_threads_share_the_registry(void **state) {
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, work_hard, NULL), 0);
  for (int round = 0; round < 2000; round++) {
    const uint64_t count = tsr_progress_list(entries, TSR_PROGRESS_MAX);
    assert_true(count <= 4);
    for (uint64_t i = 0; i < count; i++) assert_true(entries[i].done <= 50 && entries[i].total == 50);
  }
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(tsr_progress_list(entries, 9), 0);
}

static void test_child_of_a_fork_starts_empty(void **state) {
  (void)state;
  tsr_environment *e = environment_new();
  tsr_work work, own;
  tsr_work_begin(e, &work, "check", "a", 50);
  const pid_t child = fork();
  if (child == 0) { /* the child does not see its parent's work, and its own work is shown beside it */
    bool good = tsr_progress_list(entries, 9) == 0;
    tsr_environment *mine = environment_new();
    tsr_work_begin(mine, &own, "vacuum", "b", 2);
    tsr_work_done(e, 40);
    tsr_work_end(e, &work);
    good = good && tsr_progress_list(entries, 9) == 1 && entries[0].done == 0 && entries[0].total == 2;
    _exit(good ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(tsr_progress_list(entries, 9), 1);
  tsr_work_end(e, &work);
  tsr_environment_close(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_operation),
      cmocka_unit_test(test_operations_nest),
      cmocka_unit_test(test_more_operations_than_slots),
      cmocka_unit_test(test_long_paths_are_shortened),
      cmocka_unit_test(test_threads_share_the_registry),
      cmocka_unit_test(test_child_of_a_fork_starts_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
