/* test_sync.c: a sync whose source changes all the time, and one whose source is broken. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "environment/environment.h"
#include "small_array.h"

static unsigned moves; /* how often the link has had another name */

static void link_name(unsigned number, char name[700]) {
  snprintf(name, 700, "%s/__commits/__1_%u_0123456789abcdef0123456789abcdef_22.vac", path, number + 1);
}

/* The host is asked before each attempt. The file that the last one missed is not listed any more, and another one is
 * gone. */
static bool move_link(void *argument) {
  char from[700], to[700];
  link_name(moves++, from);
  link_name(moves, to);
  assert_int_equal(rename(from, to), 0);
  return false;
}

static void sync_with_broken_link(bool moving, int expected) {
  char link[700], copy[600];
  moves = 0;
  tsr_array *array = make_small(22, true, false);
  write_small(array, 10, 0, 19, NULL);
  link_name(0, link);
  snprintf(copy, sizeof copy, "%s-copy", path);
  assert_int_equal(symlink("/nowhere/at/all", link), 0);
  if (moving) environment->memory.cancel.requested = move_link;
  const int rc = tsr_array_sync(environment, path, copy, NULL, NULL, &error);
  environment->memory.cancel.requested = NULL;
  if (rc != expected) fail_msg("%d: %s", rc, error.message);
  if (access(copy, F_OK) == 0) remove_tree(copy);
  tsr_array_close(array);
  remove_tree(path);
}

static void test_a_source_that_keeps_changing_is_busy(void **state) {
  sync_with_broken_link(true, TSR_BUSY);
  assert_int_equal(strncmp(error.message, path, strlen(path)), 0);
  assert_non_null(strstr(error.message, " keeps changing while it is synced"));
  assert_non_null(strstr(error.message, "try again"));
  assert_true(moves >= 7);
}

static void test_a_broken_link_is_not_a_change(void **state) {
  sync_with_broken_link(false, TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, ".vac"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_source_that_keeps_changing_is_busy),
                                     cmocka_unit_test(test_a_broken_link_is_not_a_change)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
