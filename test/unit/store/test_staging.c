/* test_staging.c: staged files keep their bytes through interleaved appends, renames and removals, vanish with the last
 * holder, and survive a lack of memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "store/staging.h"

static void files_written_in_turns_keep_their_bytes(void **state) {
  (void)state;
  tsr_memory root;
  tsr_staging *staging;
  tsr_staged *files[3];
  uint8_t bytes[300], read[900];
  tsr_error error;
  tsr__memory_init_root(&root, NULL, NULL);
  assert_int_equal(tsr__staging_open(&root, &staging, &error), TSR_OK);
  const char *paths[] = {".a/x", ".a/y", ".b/x"};
  for (int f = 0; f < 3; f++) assert_int_equal(tsr__staging_create(staging, paths[f], &files[f], &error), TSR_OK);
  tsr_staged *again;
  assert_int_equal(tsr__staging_create(staging, ".a/x", &again, &error), TSR_EXISTS);
  for (int turn = 0; turn < 3; turn++)
    for (int f = 0; f < 3; f++) {
      memset(bytes, 10 * f + turn, sizeof bytes);
      assert_int_equal(tsr__staged_append(files[f], bytes, 100 + (uint64_t)f * 100, &error), TSR_OK);
    }
  for (int f = 0; f < 3; f++) {
    assert_true(tsr__staged_grows(files[f]));
    tsr__staged_complete(files[f]);
    assert_false(tsr__staged_grows(files[f]));
    const uint64_t part = 100 + (uint64_t)f * 100;
    assert_int_equal(tsr__staged_size(files[f]), 3 * part);
    assert_int_equal(tsr__staged_read(files[f], 1, read, 3 * part - 1, &error), TSR_OK);
    for (uint64_t i = 1; i < 3 * part; i++) assert_int_equal(read[i - 1], 10 * f + (int)(i / part));
    assert_int_equal(tsr__staged_read(files[f], 1, read, 3 * part, &error), TSR_CORRUPT);
    tsr__staged_release(files[f]);
  }
  tsr__staging_close(staging);
  assert_int_equal(root.used, 0);
}

static void a_rename_moves_all_files_of_a_directory_and_no_others(void **state) {
  (void)state;
  tsr_memory root;
  tsr_staging *staging;
  tsr_staged *file;
  tsr_error error;
  char path[40], read[40];
  tsr__memory_init_root(&root, NULL, NULL);
  assert_int_equal(tsr__staging_open(&root, &staging, &error), TSR_OK);
  for (int i = 0; i < 100; i++) {
    snprintf(path, sizeof path, "%s/%d", i % 2 ? ".a" : ".ab", i);
    assert_int_equal(tsr__staging_create(staging, path, &file, &error), TSR_OK);
    assert_int_equal(tsr__staged_append(file, path, strlen(path) + 1, &error), TSR_OK);
    tsr__staged_release(file);
  }
  assert_int_equal(tsr__staging_rename(staging, ".a", "named", &error), TSR_OK);
  for (int i = 0; i < 100; i++) {
    snprintf(path, sizeof path, "%s/%d", i % 2 ? "named" : ".ab", i);
    assert_non_null(file = tsr__staging_find(staging, path));
    assert_string_equal(tsr__staged_path(file), path);
    assert_int_equal(tsr__staged_read(file, 0, read, tsr__staged_size(file), &error), TSR_OK);
    snprintf(path, sizeof path, "%s/%d", i % 2 ? ".a" : ".ab", i);
    assert_string_equal(read, path);
    tsr__staged_release(file);
  }
  uint64_t at = 0, count = 0;
  while (tsr__staging_next(staging, "named", &at)) count++;
  assert_int_equal(count, 50);
  tsr__staging_close(staging);
  assert_int_equal(root.used, 0);
}

static void a_removed_file_can_be_read_by_those_who_hold_it(void **state) {
  (void)state;
  tsr_memory root;
  tsr_staging *staging;
  tsr_staged *file;
  tsr_error error;
  char read[5];
  tsr__memory_init_root(&root, NULL, NULL);
  assert_int_equal(tsr__staging_open(&root, &staging, &error), TSR_OK);
  assert_int_equal(tsr__staging_create(staging, "f", &file, &error), TSR_OK);
  assert_int_equal(tsr__staged_append(file, "bytes", 5, &error), TSR_OK);
  assert_true(tsr__staging_remove(staging, "f"));
  assert_false(tsr__staging_remove(staging, "f"));
  assert_null(tsr__staging_find(staging, "f"));
  assert_int_equal(tsr__staged_read(file, 0, read, 5, &error), TSR_OK);
  assert_memory_equal(read, "bytes", 5);
  tsr__staged_release(file);
  tsr__staging_close(staging);
  assert_int_equal(root.used, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_written_in_turns_keep_their_bytes),
      cmocka_unit_test(a_rename_moves_all_files_of_a_directory_and_no_others),
      cmocka_unit_test(a_removed_file_can_be_read_by_those_who_hold_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
