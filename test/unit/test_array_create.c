/* test_array_create.c: arrays that are prepared and not yet published: nobody's, but open to who made them; published,
 * abandoned, recovered.
 */
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

static void ok(int code) {
  if (code < 0) fail_msg("%s: %s", tsr_code_name(code), error.message);
}

static int setup(void **state) {
  snprintf(top, sizeof top, "%s/tessera-create-XXXXXX", P_tmpdir);
  return mkdtemp(top) ? tsr_environment_open(NULL, &environment, &error) : 1;
}

static void remove_tree(tsr_store *store, const char *directory) {
  tsr_listing entries = {0};
  if (tsr__store_list(store, directory, &entries, NULL) < 0) return;
  for (uint64_t i = 0; i < entries.count; i++) {
    char name[600];
    snprintf(name, sizeof name, "%s%s%s", directory, *directory ? "/" : "", entries.entries[i].name);
    if (entries.entries[i].kind == TSR_ENTRY_DIRECTORY) remove_tree(store, name);
    else assert_int_equal(tsr__store_remove(store, name, NULL), TSR_OK);
  }
  tsr__listing_release(&entries);
  assert_int_equal(tsr__store_remove(store, directory, NULL), TSR_OK);
}

static int teardown(void **state) {
  tsr_store *store;
  assert_int_equal(tsr__store_posix_open(&environment->memory, top, &store, NULL), TSR_OK);
  remove_tree(store, "");
  tsr__store_close(store);
  tsr_environment_close(environment);
  return 0;
}

static tsr_object_kind kind(void) {
  tsr_object_kind found;
  ok(tsr_object_find(environment, path, &found, &error));
  return found;
}

/* A dimension x and an enumerated attribute a; below version 20 it is a plain one. */
static tsr_creation *prepare(uint32_t version) {
  static tsr_field fields[2];
  static uint64_t offsets[] = {0, 3, 6};
  static tsr_enumeration labels;
  const int32_t low = 1, high = 100;
  fields[0] = (tsr_field){.name = "x", .datatype = TSR_INT32, .values_per_cell = 1, .has_domain = true};
  memcpy(fields[0].low, &low, 4);
  memcpy(fields[0].high, &high, 4);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_UINT8, .values_per_cell = 1};
  labels = (tsr_enumeration){.name = "e",
                             .loaded = true,
                             .datatype = TSR_ASCII,
                             .values_per_label = TSR_VARIABLE,
                             .count = 2,
                             .data = (uint8_t *)"onetwo",
                             .data_size = 6,
                             .offsets = offsets};
  tsr_schema schema = {
      .version = version, .capacity = 10, .dimension_count = 1, .attribute_count = 1, .fields = fields};
  if (version >= 20) {
    schema.enumerations = &labels;
    schema.enumeration_count = 1;
    fields[1].enumeration = "e";
  }
  tsr_creation *creation = NULL;
  const tsr_create_options options = {.unsynced = true};
  snprintf(path, sizeof path, "%s/a%u", top, arrays++);
  ok(tsr_creation_prepare(environment, path, &schema, &options, &creation, &error));
  return creation;
}

static uint64_t count_cells(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  ok(tsr_snapshot_open(array, NULL, TSR_TIME_BEGIN, TSR_TIME_NOW, &snapshot, &error));
  uint64_t count = tsr_fragment_count(snapshot);
  tsr_snapshot_close(snapshot);
  return count;
}

static void test_pending(void **state) {
  static const uint32_t versions[] = {3, 12, 22};
  for (int v = 0; v < 3; v++) {
    tsr_creation *creation = prepare(versions[v]);
    tsr_array *other = NULL, *array = NULL;
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(tsr_array_open(environment, path, NULL, &other, &error), TSR_NOT_FOUND);
    const tsr_array_options options = {.creation = creation};
    ok(tsr_array_open(environment, path, &options, &array, &error));
    const tsr_schema *schema = NULL, *again = NULL;
    const tsr_enumeration *labels = NULL;
    ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
    assert_string_equal(schema->name, tsr_creation_schema_name(creation));
    assert_int_equal(schema->version, versions[v]);
    assert_int_equal(count_cells(array), 0);
    ok(tsr_creation_publish(creation, &error));
    assert_int_equal(kind(), TSR_OBJECT_ARRAY);
    ok(tsr_array_schema(array, TSR_TIME_NOW, &again, &error)); /* the handle goes on */
    assert_ptr_equal(again, schema);
    if (versions[v] >= 20) { /* first asked for after it has moved */
      ok(tsr_array_enumeration(array, schema, "e", &labels, &error));
      assert_int_equal(labels->count, 2);
    }
    ok(tsr_array_open(environment, path, NULL, &other, &error));
    tsr_array_close(other);
    tsr_array_close(array);
    tsr_creation_close(creation);
  }
}

static void test_pending_enumeration(void **state) {
  tsr_creation *creation = prepare(22);
  const tsr_array_options options = {.creation = creation};
  tsr_array *array = NULL;
  const tsr_schema *schema = NULL;
  const tsr_enumeration *labels = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  ok(tsr_array_enumeration(array, schema, "e", &labels, &error));
  assert_memory_equal(labels->data, "onetwo", 6);
  ok(tsr_creation_abandon(creation, &error));
  tsr_array *other = NULL;
  assert_int_equal(tsr_array_open(environment, path, &options, &other, &error), TSR_NOT_FOUND);
  tsr_array_close(array);
  tsr_creation_close(creation);
  assert_int_equal(access(path, F_OK), -1);
}

/* What is closed without publishing is left, keeps others out, and can be published by its name. */
static void test_recover(void **state) {
  static const uint32_t versions[] = {3, 22};
  for (int v = 0; v < 2; v++) {
    char name[128];
    tsr_creation *creation = prepare(versions[v]);
    snprintf(name, sizeof name, "%s", tsr_creation_schema_name(creation));
    tsr_creation_close(creation);
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(tsr_creation_recover(environment, path, "__1_1_00000000000000000000000000000000", &error), 0);
    assert_int_equal(kind(), TSR_OBJECT_NONE);
    assert_int_equal(tsr_creation_recover(environment, path, name, &error), 1);
    assert_int_equal(kind(), TSR_OBJECT_ARRAY);
    assert_int_equal(tsr_creation_recover(environment, path, name, &error), 0);
    tsr_array *array = NULL;
    ok(tsr_array_open(environment, path, NULL, &array, &error));
    tsr_array_close(array);
  }
  assert_int_equal(tsr_creation_recover(environment, "/nowhere", "__array_schema.tdb", &error), 0);
  static const char *const bad[] = {"", "../x", "__schema", "__1_1_ab/cd", "x"};
  for (int i = 0; i < 5; i++) assert_int_equal(tsr_creation_recover(environment, path, bad[i], &error), TSR_CORRUPT);
}

/* Two processes publish one creation: the second finds nothing to do, or an error, and harms nothing. */
static void test_published_elsewhere(void **state) {
  tsr_creation *creation = prepare(22);
  assert_int_equal(tsr_creation_recover(environment, path, tsr_creation_schema_name(creation), &error), 1);
  assert_true(tsr_creation_publish(creation, &error) < 0);
  tsr_creation_close(creation);
  assert_int_equal(kind(), TSR_OBJECT_ARRAY);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pending),
      cmocka_unit_test(test_pending_enumeration),
      cmocka_unit_test(test_recover),
      cmocka_unit_test(test_published_elsewhere),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
