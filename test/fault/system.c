/* system.c: the store for directories when system calls are interrupted (EINTR), transfer fewer bytes than requested,
 * fail, or meet the end of a file that was longer before. The linker replaces the system calls by the functions here
 * (--wrap).
 */
#define _GNU_SOURCE /* off64_t */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#include <string.h>

#include "store/store.h"

#define SIZE 100000

static unsigned calls, fail_at; /* the number of the call that fails, from 1; 0: none */
static int fail_with; /* the errno of that call; 0: it transfers no bytes */
static bool nervous; /* every other call is interrupted, the others transfer a part */

static bool interrupted(void) {
  calls++;
  if (!nervous || calls % 2) return false;
  errno = EINTR;
  return true;
}

static bool fails(void) {
  if (calls != fail_at) return false;
  errno = fail_with;
  return true;
}

static size_t part(size_t size) { return nervous && size > 1 ? 1 + calls * 7919 % (size < 5000 ? size : 5000) : size; }

ssize_t __real_pread64(int descriptor, void *buffer, size_t size, off64_t offset);
ssize_t __wrap_pread64(int descriptor, void *buffer, size_t size, off64_t offset);
ssize_t __wrap_pread64(int descriptor, void *buffer, size_t size, off64_t offset) {
  if (interrupted()) return -1;
  if (fails()) return fail_with ? -1 : 0;
  return __real_pread64(descriptor, buffer, part(size), offset);
}

ssize_t __real_pwrite64(int descriptor, const void *buffer, size_t size, off64_t offset);
ssize_t __wrap_pwrite64(int descriptor, const void *buffer, size_t size, off64_t offset);
ssize_t __wrap_pwrite64(int descriptor, const void *buffer, size_t size, off64_t offset) {
  if (interrupted()) return -1;
  if (fails()) return fail_with ? -1 : 0;
  return __real_pwrite64(descriptor, buffer, part(size), offset);
}

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __wrap_fsync(int descriptor) { return interrupted() || fails() ? -1 : __real_fsync(descriptor); }

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...) {
  return interrupted() || fails() ? -1 : __real_open64(path, flags, 0666);
}

int __real_openat64(int directory, const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, ...);
int __wrap_openat64(int directory, const char *path, int flags, ...) {
  return interrupted() || fails() ? -1 : __real_openat64(directory, path, flags, 0666);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static char folder[] = P_tmpdir "/tessera-system-XXXXXX";
static tsr_memory memory;
static tsr_store *store;
static uint8_t wanted[SIZE], got[SIZE];

static int setup(void **state) {
  tsr__memory_init_root(&memory, NULL, NULL);
  for (unsigned i = 0; i < SIZE; i++) wanted[i] = (uint8_t)(i * 31 + i / 251);
  return mkdtemp(folder) ? tsr__store_directory_open(&memory, folder, &store, NULL) : 1;
}

static int teardown(void **state) {
  tsr__store_close(store);
  return rmdir(folder);
}

static void arm(bool nerves, unsigned at, int number) {
  calls = 0;
  nervous = nerves;
  fail_at = at;
  fail_with = number;
}

static tsr_file *create(void) {
  tsr_file *file;
  tsr_error error;
  assert_int_equal(tsr__store_create_exclusive(store, "f", &file, &error), TSR_OK);
  return file;
}

/* Reads and writes succeed however often calls are interrupted, and however few bytes each call transfers. */
static void test_interrupted_and_short(void **state) {
  tsr_file *file;
  arm(true, 0, 0);
  calls = 1; /* the first call, open, is interrupted */
  file = create();
  assert_int_equal(tsr__store_append(file, wanted, SIZE / 3, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, wanted + SIZE / 3, SIZE - SIZE / 3, NULL), TSR_OK);
  for (unsigned i = 0; i < 4; i++) assert_int_equal(tsr__store_sync(file, NULL), TSR_OK);
  assert_int_equal(tsr__store_sync_directory(store, "", NULL), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__store_open_file(store, "f", &file, NULL), TSR_OK);
  assert_int_equal(file->size, SIZE);
  assert_int_equal(tsr__store_read_at(file, 0, got, SIZE, NULL), TSR_OK);
  assert_memory_equal(got, wanted, SIZE);
  assert_int_equal(tsr__store_read_at(file, 12345, got, 777, NULL), TSR_OK);
  assert_memory_equal(got, wanted + 12345, 777);
  tsr__store_close_file(file);
  assert_true(calls > 80);
  arm(false, 0, 0);
  assert_int_equal(tsr__store_remove(store, "f", NULL), TSR_OK);
}

/* A write that fails, also after a part of it, leaves the file as it was, and the next write continues from there. */
static void test_failed_writes(void **state) {
  static const struct {
    int number, code;
  } cases[] = {{EIO, TSR_IO}, {ENOSPC, TSR_FULL}, {EDQUOT, TSR_FULL}, {0, TSR_IO}};
  for (unsigned i = 0; i < 4; i++)
    for (unsigned at = 1; at < 20; at += 2) {
      tsr_error error = {0};
      arm(false, 0, 0);
      tsr_file *file = create();
      assert_int_equal(tsr__store_append(file, wanted, 1000, NULL), TSR_OK);
      arm(true, at, cases[i].number);
      assert_int_equal(tsr__store_append(file, wanted + 1000, SIZE - 1000, &error), cases[i].code);
      assert_non_null(strstr(error.message, "writing"));
      assert_int_equal(file->size, 1000);
      arm(false, 0, 0);
      assert_int_equal(tsr__store_append(file, wanted + 1000, 5000, NULL), TSR_OK);
      tsr__store_close_file(file);
      assert_int_equal(tsr__store_open_file(store, "f", &file, NULL), TSR_OK);
      assert_int_equal(file->size, 6000);
      assert_int_equal(tsr__store_read_at(file, 0, got, 6000, NULL), TSR_OK);
      assert_memory_equal(got, wanted, 6000);
      tsr__store_close_file(file);
      assert_int_equal(tsr__store_remove(store, "f", NULL), TSR_OK);
    }
}

static void test_failed_reads(void **state) {
  tsr_error error = {0};
  arm(false, 0, 0);
  tsr_file *file = create();
  assert_int_equal(tsr__store_append(file, wanted, SIZE, NULL), TSR_OK);
  for (unsigned at = 1; at < 20; at += 2) {
    arm(true, at, EIO);
    assert_int_equal(tsr__store_read_at(file, 0, got, SIZE, &error), TSR_IO);
    assert_non_null(strstr(error.message, "reading"));
    arm(true, at, 0); /* as if the file had been truncated */
    assert_int_equal(tsr__store_read_at(file, 0, got, SIZE, &error), TSR_CORRUPT);
    assert_non_null(strstr(error.message, "the file ends at byte"));
  }
  arm(false, 1, EIO);
  assert_int_equal(tsr__store_sync(file, &error), TSR_IO);
  arm(false, 2, EIO); /* after open */
  assert_int_equal(tsr__store_sync_directory(store, "", &error), TSR_IO);
  arm(false, 1, EACCES); /* no error: a directory that may not be opened cannot be synced */
  assert_int_equal(tsr__store_sync_directory(store, "", &error), TSR_OK);
  arm(false, 1, EMFILE);
  assert_int_equal(tsr__store_sync_directory(store, "", &error), TSR_IO);
  tsr__store_close_file(file);
  arm(false, 1, EMFILE);
  assert_int_equal(tsr__store_open_file(store, "f", &file, &error), TSR_IO);
  arm(false, 1, EROFS); /* the message names the file; a database that is read-only has another message */
  assert_int_equal(tsr__store_create_exclusive(store, "__commits", &file, &error), TSR_READONLY);
  assert_non_null(strstr(error.message, "__commits: creating: "));
  arm(false, 0, 0);
  assert_int_equal(tsr__store_remove(store, "f", NULL), TSR_OK);
}

static int free_descriptor(void) {
  const int descriptor = dup(2);
  close(descriptor);
  return descriptor;
}

/* Each open on the path from a bound's directory to a file is interrupted, and fails, which leaves no descriptor
 * open. */
static void test_a_bound(void **state) {
  tsr_bounds bounds = {0};
  tsr_store *bound;
  tsr_file *file;
  tsr_listing listing;
  char path[100];
  tsr_error error = {0};
  arm(false, 0, 0);
  const int first = free_descriptor();
  snprintf(path, sizeof path, "%s/deep/array", folder);
  assert_int_equal(tsr__bounds_set(&bounds, &memory, folder, NULL), TSR_OK);
  assert_int_equal(tsr__store_directory_open(&memory, path, &bound, NULL), TSR_OK);
  bound->bounds = &bounds;
  arm(true, 0, 0);
  calls = 1;
  assert_int_equal(tsr__store_make_directory(bound, "", &error), TSR_OK);
  assert_int_equal(tsr__store_make_directory(bound, "d", &error), TSR_OK);
  assert_int_equal(tsr__store_create_exclusive(bound, "d/f", &file, &error), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__store_open_file(bound, "d/f", &file, &error), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__store_list(bound, "d", &listing, &error), TSR_OK);
  assert_int_equal(listing.count, 1);
  tsr__listing_release(&listing);
  const int before = free_descriptor();
  for (unsigned at = 1; at <= 4; at++) { /* the parts of the path: deep, array, d, f */
    arm(false, at, EMFILE);
    assert_int_equal(tsr__store_open_file(bound, "d/f", &file, &error), TSR_IO);
    assert_int_equal(free_descriptor(), before);
    arm(false, at, EMFILE);
    assert_int_equal(tsr__store_rename(bound, "d/f", at == 4 ? "e" : "d/g", &error), TSR_IO);
    assert_int_equal(free_descriptor(), before);
  }
  arm(false, 0, 0);
  assert_int_equal(tsr__store_remove(bound, "d/f", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(bound, "d", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(bound, "", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(store, "deep", NULL), TSR_OK);
  tsr__store_close(bound);
  tsr__bounds_release(&bounds);
  assert_int_equal(free_descriptor(), first);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_interrupted_and_short), cmocka_unit_test(test_failed_writes),
                                     cmocka_unit_test(test_failed_reads), cmocka_unit_test(test_a_bound)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
