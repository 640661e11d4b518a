/* test_array.c: opening arrays: paths, directories that are no arrays, keys, schemas by time, enumerations. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "environment/cache.h"
#include "store_memory.h"
#include "array/array.h"
#include "environment/environment.h"
#include "tiny_array.h"

static const tiny_attribute a_only[] = {{"a", TSR_INT32, false, NULL}};
static tsr_environment *environment;
static tsr_error error;

static int setup(void **state) {
  error = (tsr_error){0};
  return tsr_environment_open(NULL, &environment, NULL);
}
static int teardown(void **state) {
  int left = environment->memory.used != 0;
  tsr_environment_close(environment);
  return left;
}

static tsr_store *new_store(void) {
  tsr_store *store;
  assert_int_equal(tsr__store_memory_open(&environment->memory, "tiny", &store, NULL), TSR_OK);
  return store;
}

static void expect_open(const char *path, int code, const char *begin, const char *part) {
  tsr_array *array;
  assert_int_equal(tsr_array_open(environment, path, NULL, &array, &error), code);
  if (code == TSR_OK) tsr_array_close(array);
  else {
    if (strncmp(error.message, begin, strlen(begin)) != 0) fail_msg("'%s' for '%s'", error.message, path);
    if (!strstr(error.message, part)) fail_msg("'%s' for '%s'", error.message, path);
    assert_int_equal(error.code, code);
    assert_true(tsr_array_open(environment, path, NULL, &array, NULL) < 0);
  }
}

static void test_paths_and_uris(void **state) {
  char root[] = "tessera_test_XXXXXX", path[256], text[1024];
  char here[512];
  assert_non_null(mkdtemp(root));
  assert_non_null(getcwd(here, sizeof here));
  snprintf(path, sizeof path, "%s/a b%%", root);
  tsr_store *store;
  assert_int_equal(tsr__store_directory_open(&environment->memory, path, &store, NULL), TSR_OK);
  (void)tsr__store_make_directory(store, "", NULL);
  tiny_schema(store, "__schema/__1_1_00000000000000000000000000000001", false, 1, a_only);

  expect_open(path, TSR_OK, "", "");
  snprintf(text, sizeof text, "%s///", path);
  expect_open(text, TSR_OK, "", "");
  snprintf(text, sizeof text, "%s/%s", here, path);
  expect_open(text, TSR_OK, "", "");
  snprintf(text, sizeof text, "file://%s/%s/a%%20b%%25", here, root);
  expect_open(text, TSR_OK, "", "");
  snprintf(text, sizeof text, "file://localhost%s/%s/a%%20b%%25/", here, root);
  expect_open(text, TSR_OK, "", "");
  snprintf(text, sizeof text, "file:%s/%s/a%%20b%%25", here, root);
  expect_open(text, TSR_OK, "", "");

  snprintf(text, sizeof text, "file://%s/%s/a%%20b%%", here, root);
  expect_open(text, TSR_ERROR, "array file://", "%25");
  snprintf(text, sizeof text, "file://%s/%s/a%%00", here, root);
  expect_open(text, TSR_ERROR, "array file://", "%25");
  expect_open("file://elsewhere/x", TSR_NOT_FOUND, "array not found: file://elsewhere/x", "host");
  static const char *const schemes[] = {"hdfs", "x-y", "x+y", "x.y", "h2"}; /* all that RFC 3986 lets a scheme have */
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    snprintf(text, sizeof text, "%s://bucket/x", schemes[i]);
    expect_open(text, TSR_UNSUPPORTED, "array ", "file://");
  }
  expect_open("x_y://bucket/x", TSR_NOT_FOUND, "array not found: x_y:", ""); /* directories, whatever their names */
  expect_open("://bucket/x", TSR_NOT_FOUND, "array not found: :/", "");
  expect_open("gs:/bucket/x", TSR_NOT_FOUND, "array not found: gs:/", "");
  expect_open("s3://bucket/x", TSR_NOT_FOUND, "no scope for s3://bucket/x", "tessera_configure");
  expect_open("", TSR_NOT_FOUND, "array not found: ", "empty");
  snprintf(text, sizeof text, "%s/nothing", root);
  expect_open(text, TSR_NOT_FOUND, "array not found: tessera_test_", "nothing");
  snprintf(text, sizeof text, "%s/__schema/__1_1_00000000000000000000000000000001", path);
  expect_open(text, TSR_NOT_FOUND, "array not found: tessera_test_", ": it is not a directory");
  expect_open(root, TSR_NOT_FOUND, "array not found: tessera_test_", "holds no schema");

  assert_int_equal(tsr__store_remove(store, "__schema/__1_1_00000000000000000000000000000001", NULL), TSR_OK);
  expect_open(path, TSR_NOT_FOUND, "array not found: ", "__schema holds no schema");
  assert_int_equal(tsr__store_remove(store, "__schema", NULL), TSR_OK);
  tiny_text(store, "__tiledb_group.tdb", "");
  expect_open(path, TSR_NOT_FOUND, "array not found: ", "it is a group");
  assert_int_equal(tsr__store_remove(store, "__tiledb_group.tdb", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(store, "", NULL), TSR_OK);
  tsr__store_close(store);
  assert_int_equal(rmdir(root), 0);
}

static void test_options_are_taken(void **state) {
  tsr_store *store = new_store();
  tiny_schema(store, "__schema/__1_1_00000000000000000000000000000001", false, 1, a_only);
  tsr_array_options options = {.threads = 3, .cache_bytes = 100};
  tsr_array *array;
  tsr_counters counters;
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", &options, &array, &error), TSR_OK);
  assert_int_equal(array->threads, 3);
  assert_string_equal(tsr_array_path(array), "tiny");
  assert_null(tsr__array_key(array));
  assert_int_equal(tsr__cache_limit(array->cache), 100);
  tsr_array_set_cache(array, 0);
  assert_int_equal(tsr__cache_limit(array->cache), 0);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 1);
  assert_true(counters.bytes_read > 50);
  tsr_environment_reset_counters(environment);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 0);
  tsr_array_close(array);
  tsr_environment_counters(environment, &counters); /* nothing is counted twice when the array goes */
  assert_int_equal(counters.files_opened, 0);
  assert_int_equal(counters.bytes_read, 0);
  tsr_array_close(NULL);
}

static void test_schema_in_force_by_time(void **state) {
  static const tiny_attribute ab[] = {{"a", TSR_INT32, false, NULL}, {"b", TSR_FLOAT64, true, NULL}};
  tsr_store *store = new_store();
  tiny_schema(store, "__schema/__10_10_00000000000000000000000000000001", false, 1, a_only);
  tiny_schema(store, "__schema/__20_20_00000000000000000000000000000002", false, 2, ab);
  tiny_schema(store, "__schema/__5_5_00000000000000000000000000000003", false, 1, ab + 1); /* last in text order */
  tiny_text(store, "__schema/notes.txt", "no schema");
  tsr_array *array;
  const tsr_schema *schema, *again;
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", NULL, &array, &error), TSR_OK);
  assert_int_equal(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error), TSR_OK);
  assert_string_equal(schema->name, "__5_5_00000000000000000000000000000003");
  assert_int_equal(tsr_array_schema(array, 4, &schema, &error), TSR_OK); /* before all: the first */
  assert_string_equal(schema->name, "__10_10_00000000000000000000000000000001");
  assert_int_equal(tsr_array_schema(array, 7, &schema, &error), TSR_OK);
  assert_string_equal(schema->name, "__5_5_00000000000000000000000000000003");
  assert_int_equal(schema->time, 5);

  /* one that appears while the array is open; what was given stays valid */
  tiny_schema(store, "__schema/__6_6_00000000000000000000000000000004", false, 2, ab);
  assert_int_equal(tsr_array_schema(array, 7, &again, &error), TSR_OK);
  assert_string_equal(again->name, "__6_6_00000000000000000000000000000004");
  assert_int_equal(tsr__store_remove(store, "__schema/__5_5_00000000000000000000000000000003", NULL), TSR_OK);
  assert_int_equal(tsr_array_schema(array, 5, &again, &error), TSR_OK);
  assert_string_equal(again->name, "__10_10_00000000000000000000000000000001");
  assert_string_equal(schema->fields[1].name, "b");
  tsr_array_close(array);
}

static void test_schemas_in_the_arrays_directory(void **state) {
  tsr_store *store = new_store();
  tiny_schema(store, "__array_schema.tdb", true, 1, a_only);
  tsr_array *array;
  const tsr_schema *schema;
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", NULL, &array, &error), TSR_OK);
  assert_int_equal(tsr_array_schema(array, 0, &schema, &error), TSR_OK);
  assert_string_equal(schema->name, "__array_schema.tdb");
  tiny_schema(store, "__schema/__9_9_00000000000000000000000000000001", true, 1, a_only);
  assert_int_equal(tsr_array_schema(array, 8, &schema, &error), TSR_OK);
  assert_string_equal(schema->name, "__array_schema.tdb");
  assert_int_equal(tsr_array_schema(array, 9, &schema, &error), TSR_OK);
  assert_string_equal(schema->name, "__9_9_00000000000000000000000000000001");
  assert_int_equal(tsr__array_schema_by_name(array, "../x", &schema, &error), TSR_CORRUPT);
  assert_int_equal(tsr__array_schema_by_name(array, "", &schema, &error), TSR_CORRUPT);
  assert_int_equal(tsr__array_schema_by_name(array, "__1_1_none", &schema, &error), TSR_NOT_FOUND);
  tsr_array_close(array);
}

static void test_wrong_and_missing_keys_are_told(void **state) {
  static const uint8_t key[TSR_KEY_SIZE] = {1};
  const tsr_array_options with_key = {.key = key};
  uint8_t bytes[4096];
  tsr_array *array;
  tsr_store *store = new_store();
  tiny_schema(store, "__array_schema.tdb", true, 1, a_only);
  tsr_file *file;
  assert_int_equal(tsr__store_open_file(store, "__array_schema.tdb", &file, NULL), TSR_OK);
  uint64_t size = file->size;
  assert_int_equal(tsr__store_read_at(file, 0, bytes, size, NULL), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", &with_key, &array, &error), TSR_AUTH);
  assert_non_null(strstr(error.message, "the key does not fit array tiny"));
  assert_non_null(strstr(error.message, "not encrypted"));

  bytes[29] = 1; /* now it says that it is */
  store = new_store();
  tiny_put(store, "__array_schema.tdb", bytes, size);
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", NULL, &array, &error), TSR_AUTH);
  assert_non_null(strstr(error.message, "a key is needed"));
  assert_int_equal(tsr__damage(TSR_AUTH, &error), TSR_CORRUPT);
  assert_int_equal(error.code, TSR_CORRUPT);
  assert_int_equal(tsr__damage(TSR_BUDGET, NULL), TSR_BUDGET);
  assert_int_equal(tsr__damage(TSR_AUTH, NULL), TSR_CORRUPT);
}

static void test_enumerations_load_once(void **state) {
  static const tiny_attribute with[] = {{"a", TSR_INT32, false, "colours"}, {"b", TSR_INT32, false, "none"}};
  static const uint64_t offsets[] = {0, 3};
  tsr_store *store = new_store();
  tsr_buffer b = {.memory = &environment->memory};
  tiny_schema(store, "__schema/__1_1_00000000000000000000000000000001", false, 2, with);
  tiny_u32(&b, 0);
  tiny_name(&b, "colours");
  tiny_name(&b, "colours_0");
  tiny_u8(&b, TSR_ASCII);
  tiny_u32(&b, TSR_VARIABLE);
  tiny_u8(&b, 0);
  tiny_u64(&b, 7);
  tiny_bytes(&b, "redblue", 7);
  tiny_u64(&b, sizeof offsets);
  tiny_bytes(&b, offsets, sizeof offsets);
  tiny_put_generic(store, "__schema/__enumerations/colours_0", &b);
  tsr__buffer_release(&b);

  tsr_array *array;
  const tsr_schema *schema;
  const tsr_enumeration *e, *again;
  assert_int_equal(tsr__array_open_store(environment, store, "tiny", NULL, &array, &error), TSR_OK);
  assert_int_equal(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error), TSR_OK);
  assert_false(schema->enumerations[0].loaded);
  assert_int_equal(tsr_array_enumeration(array, schema, "colours", &e, &error), TSR_OK);
  assert_true(e->loaded);
  assert_int_equal(e->count, 2);
  assert_memory_equal(e->data + e->offsets[1], "blue", 4);
  assert_int_equal(tsr_array_enumeration(array, schema, "colours", &again, &error), TSR_OK);
  assert_ptr_equal(e, again);
  assert_int_equal(tsr_array_enumeration(array, schema, "colour", &e, &error), TSR_ERROR);
  assert_int_equal(tsr_array_enumeration(array, schema, "none", &e, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "none_0"));
  tsr_array_close(array);
}

/* With a schema file that is cut or changed anywhere, opening gives an error or an array, and all memory is freed. */
static void test_damaged_schemas_leak_nothing(void **state) {
  uint8_t bytes[4096], changed[4096];
  tsr_store *source = new_store();
  tsr_file *file;
  tiny_schema(source, "s", false, 1, a_only);
  assert_int_equal(tsr__store_open_file(source, "s", &file, NULL), TSR_OK);
  uint64_t size = file->size;
  assert_int_equal(tsr__store_read_at(file, 0, bytes, size, NULL), TSR_OK);
  tsr__store_close_file(file);
  tsr__store_close(source);
  for (uint64_t i = 0; i < 2 * size; i++) {
    tsr_store *store = new_store();
    tsr_array *array;
    memcpy(changed, bytes, size);
    if (i >= size) changed[i - size] ^= 0xff;
    tiny_put(store, "__array_schema.tdb", changed, i < size ? i : size);
    int rc = tsr__array_open_store(environment, store, "tiny", NULL, &array, &error);
    if (i < size) assert_true(rc < 0);
    if (rc >= 0) tsr_array_close(array);
  }
}

static void test_no_memory(void **state) {
  int rc = TSR_BUDGET;
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 64) {
    tsr_store *store = new_store();
    tsr_array *array;
    tiny_schema(store, "__array_schema.tdb", false, 1, a_only);
    environment->memory.limit = environment->memory.used + limit;
    rc = tsr__array_open_store(environment, store, "tiny", NULL, &array, &error);
    environment->memory.limit = UINT64_MAX;
    if (rc == TSR_OK) tsr_array_close(array);
    else assert_int_equal(rc, TSR_BUDGET);
    assert_int_equal(environment->memory.used, 0);
    assert_true(limit < 1 << 20);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_paths_and_uris, setup, teardown),
      cmocka_unit_test_setup_teardown(test_options_are_taken, setup, teardown),
      cmocka_unit_test_setup_teardown(test_schema_in_force_by_time, setup, teardown),
      cmocka_unit_test_setup_teardown(test_schemas_in_the_arrays_directory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_wrong_and_missing_keys_are_told, setup, teardown),
      cmocka_unit_test_setup_teardown(test_enumerations_load_once, setup, teardown),
      cmocka_unit_test_setup_teardown(test_damaged_schemas_leak_nothing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
