/* disk_test.h: for tests of arrays on disk: a directory of their own, an environment, an error; and the path of the array
 * in hand. */
#ifndef DISK_TEST_H
#define DISK_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"

static char top[256], path[512];
static tsr_environment *environment;
static tsr_error error;
static unsigned arrays;

static inline int setup_with(const tsr_environment_options *options) {
  snprintf(top, sizeof top, "%s/tessera-test-XXXXXX", P_tmpdir);
  return mkdtemp(top) ? tsr_environment_open(options, &environment, &error) : 1;
}
static inline int setup(void **state) { return setup_with(NULL); }

static inline tsr_store *open_store(const char *directory) {
  tsr_store *store;
  assert_int_equal(tsr__store_posix_open(&environment->memory, directory, &store, NULL), TSR_OK);
  return store;
}

static inline void remove_within(tsr_store *store, const char *directory) {
  tsr_listing entries = {0};
  if (tsr__store_list(store, directory, &entries, NULL) < 0) return;
  for (uint64_t i = 0; i < entries.count; i++) {
    char name[600];
    const int size = snprintf(name, sizeof name, "%s%s%s", directory, *directory ? "/" : "", entries.entries[i].name);
    assert_true(size < (int)sizeof name);
    if (entries.entries[i].kind == TSR_ENTRY_DIRECTORY) remove_within(store, name);
    else assert_int_equal(tsr__store_remove(store, name, NULL), TSR_OK);
  }
  tsr__listing_release(&entries);
  assert_int_equal(tsr__store_remove(store, directory, NULL), TSR_OK);
}
/* A directory with all in it. */
static inline void remove_tree(const char *directory) {
  tsr_store *store = open_store(directory);
  remove_within(store, "");
  tsr__store_close(store);
}

static inline int teardown(void **state) {
  remove_tree(top);
  tsr_environment_close(environment);
  return 0;
}

/* The same where the tests have removed all that they made. */
static inline int teardown_empty(void **state) {
  tsr_environment_close(environment);
  return rmdir(top);
}

/* `path` is that of an array which is not there yet. */
static inline void new_path(void) { snprintf(path, sizeof path, "%s/a%u", top, arrays++); }

static inline void ok(int code) {
  if (code < 0) fail_msg("%s: %s", tsr_code_name(code), error.message);
}

static inline void refused(int code, int expected, const char *says) {
  if (code != expected || !strstr(error.message, says))
    fail_msg("%s \"%s\" instead of %s with \"%s\"", tsr_code_name(code), error.message, tsr_code_name(expected), says);
}

/* A number below n, by chance: each test sets the seed that it wants. */
static uint64_t seed = 1;
static inline uint64_t chance(uint64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* How many entries a directory of the array has; or how many that begin with a dot: what is provisional. */
static inline uint64_t count_entries(const char *directory, bool hidden) {
  tsr_store *store = open_store(path);
  tsr_listing entries = {0};
  uint64_t count = 0;
  if (tsr__store_list(store, directory, &entries, NULL) < 0) entries.count = 0;
  for (uint64_t i = 0; i < entries.count; i++) count += !hidden || *entries.entries[i].name == '.';
  tsr__listing_release(&entries);
  tsr__store_close(store);
  return count;
}
static inline uint64_t entries_of(const char *directory) { return count_entries(directory, false); }
static inline uint64_t hidden_entries(const char *directory) { return count_entries(directory, true); }

#endif
