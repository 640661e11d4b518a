/* disk_test.h: the fixture for tests of arrays on disk: a temporary directory (`top`), an environment, an error, and
 * the path of the test's current array (`path`). */
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

#include "store/store.h"
#include "environment/environment.h"
#include "chance.h"

static char top[256], path[512];
static tsr_environment *environment;
static tsr_error error;
static unsigned arrays;

static inline int setup_with(const tsr_environment_options *options) {
  const char *folder = getenv("TMPDIR");
  snprintf(top, sizeof top, "%s/tessera-test-XXXXXX", folder && *folder ? folder : P_tmpdir);
  return mkdtemp(top) ? tsr_environment_open(options, &environment, &error) : 1;
}
static inline int setup(void **state) { return setup_with(NULL); }

static inline tsr_store *open_store(const char *directory) {
  tsr_store *store;
  assert_int_equal(tsr__store_directory_open(&environment->memory, directory, &store, NULL), TSR_OK);
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
/* Removes a directory and everything in it. */
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

/* The teardown for tests that remove all of their files themselves: fails if the directory is not empty. */
static inline int teardown_empty(void **state) {
  tsr_environment_close(environment);
  return rmdir(top);
}

/* Sets `path` to a path at which no array exists yet. */
static inline void new_path(void) { snprintf(path, sizeof path, "%s/a%u", top, arrays++); }

/* Fails the test, with the error's message, unless the code is a success. */
static inline void ok(int code) {
  if (code < 0) fail_msg("%s: %s", tsr_code_name(code), error.message);
}

/* Fails the test unless the code is `expected` and the error's message contains `says`. */
static inline void refused(int code, int expected, const char *says) {
  if (code != expected || !strstr(error.message, says))
    fail_msg("%s \"%s\" instead of %s with \"%s\"", tsr_code_name(code), error.message, tsr_code_name(expected), says);
}

/* Returns a dimension of INT32; extent 0: without a tile extent. */
static inline tsr_field int32_dimension(char *name, int32_t low, int32_t high, uint8_t extent) {
  tsr_field field = {.name = name, .datatype = TSR_INT32, .values_per_cell = 1, .has_domain = true};
  memcpy(field.low, &low, sizeof low);
  memcpy(field.high, &high, sizeof high);
  field.has_extent = extent > 0;
  field.extent[0] = extent;
  return field;
}

/* An initializer for an enumeration with text labels: `texts` is all labels in one string, the last arguments are the
 * offsets at which each label begins and the last one ends. */
#define LABELS(of, type, texts, ...)                                                                                   \
  {                                                                                                                    \
    .name = (of), .loaded = true, .datatype = (type), .values_per_label = TSR_VARIABLE,                                \
    .count = sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t) - 1, .data = (uint8_t *)(texts),                     \
    .data_size = sizeof(texts) - 1, .offsets = (uint64_t[]) {                                                          \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  }

/* Returns the number of entries in a directory of the array. With `hidden` it counts the names that begin with a dot,
 * which are provisional files. */
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
