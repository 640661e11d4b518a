/* test_owner.c: owners of prepared commits: places distinguish files from their copies, and ids follow from places. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/log.h"

static char directory[200];
static tsr_error error;

static const char *file_at(const char *name) {
  static char paths[4][300];
  static int next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof *paths, "%s/%s", directory, name);
  return path;
}

static void put(const char *path) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fclose(file);
}

static int setup(void **state) {
  snprintf(directory, sizeof directory, "%s/tessera-owner-XXXXXX", P_tmpdir);
  return mkdtemp(directory) == NULL;
}

static int teardown(void **state) {
  unlink(file_at("a"));
  unlink(file_at("b"));
  return rmdir(directory);
}

static void place(const char *path, char text[TSR_OWNER_SIZE]) {
  if (tsr_file_identity(path, text, &error) != 1) fail_msg("%s: %s", path, error.message);
  assert_int_equal(strlen(text), TSR_OWNER_SIZE - 1);
  assert_int_equal(strspn(text, "0123456789abcdef"), TSR_OWNER_SIZE - 1);
}

static void test_copies_have_other_places(void **state) {
  char a[TSR_OWNER_SIZE], b[TSR_OWNER_SIZE], again[TSR_OWNER_SIZE];
  put(file_at("a"));
  put(file_at("b"));
  place(file_at("a"), a);
  place(file_at("b"), b);
  assert_string_not_equal(a, b);
  FILE *file = fopen(file_at("a"), "w"); /* its content does not matter */
  assert_non_null(file);
  fputs("more", file);
  fclose(file);
  place(file_at("a"), again);
  assert_string_equal(a, again);
  assert_int_equal(rename(file_at("b"), file_at("a")), 0); /* another file of this name */
  place(file_at("a"), again);
  assert_string_not_equal(a, again);
  assert_string_not_equal(b, again);
}

static void test_missing_files_have_no_place(void **state) {
  char text[TSR_OWNER_SIZE], lengthy[6000];
  memset(lengthy, '/', sizeof lengthy);
  memset(lengthy + 1, 'a', sizeof lengthy - 2);
  lengthy[sizeof lengthy - 1] = 0;
  const char *const none[] = {"", "a.db", "memory:", "/nowhere/a.db", lengthy};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_int_equal(tsr_file_identity(none[i], text, &error), 0);
}

/* A file that cannot be there for another reason has none either; that is no error of a disk. */
static void test_paths_that_lead_nowhere_have_no_place(void **state) {
  char text[TSR_OWNER_SIZE], inside[310];
  put(file_at("a"));
  snprintf(inside, sizeof inside, "%s/a.db", file_at("a")); /* a is no directory */
  assert_int_equal(tsr_file_identity(inside, text, &error), 0);
  assert_int_equal(symlink(file_at("b"), file_at("b")), 0);
  assert_int_equal(tsr_file_identity(file_at("b"), text, &error), 0);
}

static void test_ids_follow_from_places(void **state) {
  char one[TSR_OWNER_SIZE], two[TSR_OWNER_SIZE];
  static const char *const pairs[][2] = {{"a", "b"}, {"b", "a"}, {"ab", ""}, {"", "ab"}, {"a", "bc"}, {"ab", "c"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    assert_int_equal(tsr_owner_next(pairs[i][0], pairs[i][1], one, &error), TSR_OK);
    assert_true(tsr__prepared_owner_valid(one));
    assert_int_equal(strlen(one), TSR_OWNER_SIZE - 1);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
      assert_int_equal(tsr_owner_next(pairs[k][0], pairs[k][1], two, &error), TSR_OK);
      assert_int_equal(strcmp(one, two) == 0, i == k);
    }
  }
  assert_false(tsr__prepared_owner_valid(""));
  assert_false(tsr__prepared_owner_valid("a b"));
  assert_false(tsr__prepared_owner_valid("a\n"));
  char text[TSR_OWNER_MAX + 2];
  memset(text, 'a', sizeof text);
  text[TSR_OWNER_MAX] = 0;
  assert_true(tsr__prepared_owner_valid(text));
  text[TSR_OWNER_MAX] = 'a';
  text[TSR_OWNER_MAX + 1] = 0;
  assert_false(tsr__prepared_owner_valid(text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_copies_have_other_places, setup, teardown),
      cmocka_unit_test(test_missing_files_have_no_place),
      cmocka_unit_test_setup_teardown(test_paths_that_lead_nowhere_have_no_place, setup, teardown),
      cmocka_unit_test(test_ids_follow_from_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
