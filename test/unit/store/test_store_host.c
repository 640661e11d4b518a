/* test_store_host.c: an array in a store that the host keeps is created, written, read and checked by its path alone,
 * and nothing but the caller's thread enters the host.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#include "store/store.h"
#include "store_memory.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/writer.h"

/* ---- A host: a tree in memory, which counts its open files ------------------------------------------------------- */

static tsr_store *tree;
static tsr_memory memory;
static pthread_t caller;
static int trees, files, appends_left = -1, looks_left = -1;

static void enter(void) { assert_true(pthread_equal(pthread_self(), caller)); }

static int open_tree(void *argument, const char *path, void **out, tsr_error *error) {
  enter();
  assert_ptr_equal(argument, &trees);
  if (strcmp(path, "here:it") != 0) return tsr__fail(error, TSR_NOT_FOUND, "no such tree");
  trees++;
  *out = tree;
  return TSR_OK;
}

static void close_tree(void *it) {
  enter();
  trees--;
}

static int open_file(void *it, const char *path, void **file, uint64_t *size, tsr_error *error) {
  enter();
  tsr_file *opened;
  TSR_TRY(tsr__store_open_file(it, path, &opened, error));
  *size = opened->size;
  *file = opened;
  files++;
  return TSR_OK;
}

static int create_exclusive(void *it, const char *path, void **file, tsr_error *error) {
  enter();
  tsr_file *created;
  TSR_TRY(tsr__store_create_exclusive(it, path, &created, error));
  *file = created;
  files++;
  return TSR_OK;
}

static void close_file(void *file) {
  enter();
  tsr__store_close_file(file);
  files--;
}

static int read_at(void *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  enter();
  return tsr__store_read_at(file, offset, buffer, size, error);
}

static int append(void *file, const void *bytes, uint64_t size, tsr_error *error) {
  enter();
  if (appends_left == 0) return tsr__fail(error, TSR_FULL, "no room");
  if (appends_left > 0) appends_left--;
  return tsr__store_append(file, bytes, size, error);
}

static int sync_file(void *file, tsr_error *error) {
  enter();
  return tsr__store_sync(file, error);
}

static int list(void *it, const char *path, tsr_listing *listing, tsr_error *error) {
  enter();
  tsr_listing found = {0};
  TSR_TRY(tsr__store_list(it, path, &found, error));
  int code = TSR_OK;
  for (uint64_t i = found.count; i-- > 0 && code >= 0;)
    code = tsr_listing_add(listing, found.entries[i].name, found.entries[i].kind, error);
  tsr__listing_release(&found);
  return code;
}

static int stamp(void *it, const char *path, uint64_t *number, tsr_error *error) {
  enter();
  tsr_stamp stamped;
  if (looks_left >= 0 && looks_left-- == 0) return tsr__fail(error, TSR_IO, "the disk does not tell");
  TSR_TRY(tsr__store_stamp(it, path, &stamped, error));
  *number = stamped.a;
  return TSR_OK;
}

static int modified(void *it, const char *path, uint64_t *milliseconds, tsr_error *error) {
  enter();
  return tsr__store_modified(it, path, milliseconds, error);
}

static int rename_either(void *it, const char *from, const char *to, bool exclusive, tsr_error *error) {
  enter();
  return exclusive ? tsr__store_rename_exclusive(it, from, to, error) : tsr__store_rename(it, from, to, error);
}

static int remove_path(void *it, const char *path, tsr_error *error) {
  enter();
  return *path ? tsr__store_remove(it, path, error) : TSR_OK;
}

static int make_directory(void *it, const char *path, tsr_error *error) {
  enter();
  tsr_listing found = {0};
  if (*path) return tsr__store_make_directory(it, path, error);
  TSR_TRY(tsr__store_list(it, "", &found, error));
  bool empty = found.count == 0;
  tsr__listing_release(&found);
  return empty ? TSR_OK : tsr__fail(error, TSR_EXISTS, "something is already there");
}

static const tsr_host_store host = {
    .open = open_tree,
    .close = close_tree,
    .open_file = open_file,
    .create_exclusive = create_exclusive,
    .close_file = close_file,
    .read_at = read_at,
    .append = append,
    .sync = sync_file,
    .list = list,
    .stamp = stamp,
    .modified = modified,
    .rename = rename_either,
    .remove = remove_path,
    .make_directory = make_directory,
};

/* ---- Tests ----------------------------------------------------------------------------------------------------- */

static tsr_environment *environment;
static tsr_error error;

static int setup(void **state) {
  caller = pthread_self();
  tsr__memory_init_root(&memory, NULL, NULL);
  if (tsr__store_memory_open(&memory, "tree", &tree, &error) < 0) return 1;
  if (tsr_environment_open(NULL, &environment, &error) < 0) return 1;
  return tsr_environment_add_store(environment, "here", &host, &trees, &error);
}

static int teardown(void **state) {
  assert_int_equal(trees, 0);
  assert_int_equal(files, 0);
  tsr_environment_close(environment);
  tsr__store_close(tree);
  return memory.used != 0;
}

static void ok(int code) {
  if (code < 0) fail_msg("%s: %s", tsr_code_name(code), error.message);
}

#define CELLS 20000
static int32_t xs[CELLS];
static int64_t values[CELLS];

static void create(void) {
  tsr_field fields[2] = {
      {.name = "x", .datatype = TSR_INT32, .values_per_cell = 1, .has_domain = true, .has_extent = true},
      {.name = "v", .datatype = TSR_INT64, .values_per_cell = 1}};
  const int32_t high = CELLS - 1, extent = 100;
  memcpy(fields[0].high, &high, 4);
  memcpy(fields[0].extent, &extent, 4);
  const tsr_schema schema = {.tile_order = TSR_ORDER_ROW,
                             .cell_order = TSR_ORDER_ROW,
                             .capacity = 100,
                             .dimension_count = 1,
                             .attribute_count = 1,
                             .fields = fields};
  ok(tsr_array_create(environment, "here:it", &schema, NULL, &error));
  assert_int_equal(tsr_array_create(environment, "here:it", &schema, NULL, &error), TSR_EXISTS);
  assert_non_null(strstr(error.message, "here:it"));
}

static int write_all(tsr_array *array) {
  tsr_writer *writer = NULL;
  for (int32_t i = 0; i < CELLS; i++) {
    xs[i] = i;
    values[i] = (int64_t)i * i;
  }
  const tsr_writer_options options = {.threads = 4};
  const tsr_column columns[2] = {{.values = xs, .cell_size = 4}, {.values = values, .cell_size = 8}};
  ok(tsr_writer_open(array, &options, &writer, &error));
  ok(tsr_writer_append(writer, columns, NULL, CELLS, &error));
  int code = tsr_writer_prepare(writer, &error);
  if (code >= 0) code = tsr_writer_publish(writer, &error);
  else ok(tsr_writer_abandon(writer, NULL));
  tsr_writer_close(writer);
  return code;
}

static uint64_t read_all(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_batch *batch;
  const tsr_column *column;
  const bool fields[2] = {true, true};
  const tsr_request request = {.fields = fields, .threads = 4};
  uint64_t rows = 0;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, &request, &error));
  for (int code; (code = tsr_reader_next(reader, &batch, &error)) != 0; rows += batch->count) {
    ok(code);
    ok(tsr_reader_column(reader, 1, &column, &error));
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t i = batch->selection ? batch->selection[r] : batch->first + r;
      assert_int_equal(((const int64_t *)column->values)[i], (int64_t)(rows + r) * (int64_t)(rows + r));
    }
  }
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  return rows;
}

static int found(void *argument, const tsr_finding *finding) {
  if (finding->severity != TSR_SEVERITY_NOTE) fail_msg("%s: %s", finding->file, finding->message);
  return TSR_OK;
}

static void written_and_read(void **state) {
  tsr_array *array = NULL;
  tsr_object_kind kind;
  const tsr_array_options options = {.threads = 4};
  ok(tsr_object_find(environment, "here:it", &kind, &error));
  assert_int_equal(kind, TSR_OBJECT_NONE);
  assert_int_equal(tsr_array_open(environment, "here:it", NULL, &array, &error), TSR_NOT_FOUND);
  create();
  ok(tsr_object_find(environment, "here:it", &kind, &error));
  assert_int_equal(kind, TSR_OBJECT_ARRAY);
  ok(tsr_array_open(environment, "here:it", &options, &array, &error));
  assert_string_equal(tsr_array_path(array), "here:it");
  assert_int_equal(read_all(array), 0);
  int allowed = 0;
  /* A failure leaves nothing behind. */
  for (appends_left = 0; write_all(array) < 0; appends_left = allowed = 2 * allowed + 1) {
    assert_int_equal(error.code, TSR_FULL);
    assert_non_null(strstr(error.message, "here:it/"));
    assert_int_equal(read_all(array), 0);
  }
  appends_left = -1;
  assert_int_equal(read_all(array), CELLS);
  tsr_array_close(array);
  const tsr_check_options check = {.threads = 4};
  ok(tsr_array_check(environment, "here:it", &check, found, NULL, &error));
}

/* Returns true if the operation fails, which must be for the disk's error. */
static bool is_blind(int code) {
  looks_left = -1;
  if (code >= 0) return false;
  assert_int_equal(code, TSR_IO);
  assert_non_null(strstr(error.message, "the disk does not tell"));
  return true;
}

/* A file that the disk cannot read is an error, not a missing file. */
static void looks_that_fail(void **state) {
  tsr_array *array = NULL;
  tsr_object_kind kind;
  char folder[] = P_tmpdir "/tessera-host-XXXXXX", copy[64];
  unsigned blind[3] = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(copy, sizeof copy, "%s/copy", folder);
  create();
  ok(tsr_array_open(environment, "here:it", NULL, &array, &error));
  ok(write_all(array));
  tsr_array_close(array);
  for (int n = 0; n < 20; n++) {
    looks_left = n;
    if (is_blind(tsr_object_find(environment, "here:it", &kind, &error))) blind[0]++;
    else assert_int_equal(kind, TSR_OBJECT_ARRAY);
    looks_left = n;
    if (is_blind(tsr_array_copy_files(environment, "here:it", copy, true, NULL, &error))) {
      blind[1]++;
      continue;
    }
    ok(tsr_array_open(environment, copy, NULL, &array, &error));
    assert_int_equal(read_all(array), CELLS);
    tsr_array_close(array);
    ok(tsr_array_drop(environment, copy, &error));
  }
  for (int n = 0;; n++) {
    looks_left = n;
    if (!is_blind(tsr_array_drop(environment, "here:it", &error))) break;
    blind[2]++;
  }
  looks_left = 0;
  assert_int_equal(tsr_array_drop(environment, "here:it", &error), TSR_IO);
  looks_left = -1;
  assert_int_equal(tsr_array_drop(environment, "here:it", &error), TSR_NOT_FOUND);
  assert_true(blind[0] && blind[1] > 1 && blind[2]);
  assert_int_equal(rmdir(folder), 0);
}

static void other_paths(void **state) {
  tsr_array *array = NULL;
  assert_int_equal(tsr_array_open(environment, "here:else", NULL, &array, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_array_open(environment, "hereit", NULL, &array, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_array_open(environment, "there:it", NULL, &array, &error), TSR_NOT_FOUND); /* a directory */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(written_and_read, setup, teardown),
      cmocka_unit_test_setup_teardown(looks_that_fail, setup, teardown),
      cmocka_unit_test_setup_teardown(other_paths, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
