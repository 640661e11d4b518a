/* test_open_group.c: members from files of both versions, between two times; kinds of members; damage, lack of
 * memory. */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "store_memory.h"
#include "array/array.h"
#include "inside_test.h"

typedef struct member {
  const char *uri, *name; /* name NULL: unnamed */
  bool relative, is_array, deleted;
} member;

static void put_file(const char *name, uint32_t version, const member *members) {
  tsr_buffer b = {.memory = &own};
  char path[128];
  uint64_t count = 0;
  while (members[count].uri) count++;
  tiny_u32(&b, version);
  tiny_u64(&b, count);
  for (; members->uri; members++) {
    tiny_u32(&b, version);
    tiny_u8(&b, members->is_array ? 2 : 1);
    tiny_u8(&b, members->relative);
    tiny_u64(&b, strlen(members->uri));
    tiny_bytes(&b, members->uri, strlen(members->uri));
    tiny_u8(&b, members->name != NULL);
    if (members->name) {
      tiny_u64(&b, strlen(members->name));
      tiny_bytes(&b, members->name, strlen(members->name));
    }
    if (version == 2) tiny_u8(&b, members->deleted);
  }
  snprintf(path, sizeof path, "__group/%s", name);
  tiny_put_generic(store, path, &b);
  tsr__buffer_release(&b);
}

static tsr_group *group; /* it has the store */
static int setup_group(void **state) {
  if (setup(state)) return 1;
  if (tsr__store_make_directory(store, "__group", NULL) < 0) return 1;
  return tsr__group_open_store(environment, store, "tiny", NULL, &group, &error);
}
static int teardown_group(void **state) {
  tsr_group_close(group);
  tsr_environment_close(environment);
  return counted.blocks;
}

/* "name:kind:path ..." */
static const char *shown(uint64_t since, uint64_t as_of) {
  static const char *const kinds[] = {"missing", "array", "group"};
  static char text[1024];
  tsr_group_members *members = NULL;
  if (tsr_group_members_open(group, since, as_of, &members, &error) < 0) return error.message;
  text[0] = '\0';
  for (uint64_t i = 0; i < members->count; i++) {
    const tsr_group_member *m = &members->members[i];
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%s:%s", i ? " " : "", m->name ? m->name : "-",
             kinds[m->kind], m->path);
  }
  tsr_group_members_close(members);
  return text;
}

#define END                                                                                                            \
  { NULL, NULL, false, false, false }

/* All files take effect in order; the last entry with a name counts. */
static void test_files_take_effect_in_order(void **state) {
  assert_string_equal(shown(0, TSR_TIME_NOW), "");
  put_file("__10_10" U "_2", 2, (const member[]){{"a", "m", true, true, false}, {"b", NULL, true, false, false}, END});
  put_file("__9_9" U "_2", 2, (const member[]){{"z", "m", true, true, false}, {"z", "n", true, true, false}, END});
  put_file("__20_20" U "_2", 2,
           (const member[]){{"z", "n", true, true, true},
                            {"b", NULL, true, false, true},
                            {"c", "o", true, true, false},
                            {"gone", "never", true, true, true},
                            END});
  put_file("__30_30" U "_2", 2, (const member[]){{"b", NULL, true, false, false}, END});
  assert_string_equal(shown(0, 9), "m:missing:tiny/z n:missing:tiny/z");
  assert_string_equal(shown(0, 10), "-:missing:tiny/b m:missing:tiny/a n:missing:tiny/z");
  assert_string_equal(shown(0, 20), "m:missing:tiny/a o:missing:tiny/c");
  assert_string_equal(shown(0, TSR_TIME_NOW), "-:missing:tiny/b m:missing:tiny/a o:missing:tiny/c");
  assert_string_equal(shown(10, 20), "m:missing:tiny/a o:missing:tiny/c");
  assert_string_equal(shown(20, 30), "-:missing:tiny/b o:missing:tiny/c");
}

/* The newest file of version 1 lists all members; a newer file of version 2 adds to them. */
static void test_newest_full_list_stands_alone(void **state) {
  put_file("__1_1" U, 1, (const member[]){{"a", "a", true, true, false}, {"b", "b", true, true, false}, END});
  put_file("__2_2" U, 1, (const member[]){{"b", "b", true, true, false}, END});
  assert_string_equal(shown(0, 1), "a:missing:tiny/a b:missing:tiny/b");
  assert_string_equal(shown(0, 2), "b:missing:tiny/b");
}

/* The kind of a member is what lies at its path, but paths outside of the group are not looked at. */
static void test_kinds_of_members(void **state) {
  tiny_text(store, "a/__schema/x", "");
  tiny_text(store, "old/__array_schema.tdb", "");
  tiny_text(store, "g/__tiledb_group.tdb", "");
  tiny_text(store, "g/h/__group/x", "");
  tiny_text(store, "none/file", "");
  put_file("__1_1" U "_2", 2,
           (const member[]){{"a", "1", true, false, false},
                            {"old", "2", true, false, false},
                            {"g", "3", true, true, false},
                            {"g/h", "4", true, true, false},
                            {"none", "5", true, true, false},
                            {"../a", "6", true, false, false},
                            {"file:///x%20y", "7", false, true, false},
                            {"s3://bucket/x", "8", false, false, false},
                            {"file:///tiny/a", "9", false, false, false},
                            END});
  assert_string_equal(shown(0, 1), "1:array:tiny/a 2:array:tiny/old 3:group:tiny/g 4:group:tiny/g/h 5:missing:tiny/none"
                                   " 6:group:tiny/../a 7:array:/x%20y 8:group:s3://bucket/x 9:group:/tiny/a");
}

static void test_damaged_files_are_refused(void **state) {
  put_file("__1_1" U "_2", 2, (const member[]){{"a", "a", true, true, false}, END});
  put_file("__2_2" U "_2", 3, (const member[]){END});
  put_file("__3_3" U "_2", 2, (const member[]){END});
  assert_non_null(strstr(shown(0, 3), "group tiny: __group/__2_2" U "_2: group: version 3 is unknown"));
  assert_string_equal(shown(0, 1), "a:missing:tiny/a");
  assert_string_equal(shown(3, 3), "");
}

static void test_no_group_is_told(void **state) {
  tsr_group *none;
  tsr_store *other;
  assert_int_equal(tsr__store_memory_open(&own, "other", &other, NULL), TSR_OK);
  assert_int_equal(tsr__group_open_store(environment, other, "other", NULL, &none, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_memory_open(&own, "other", &other, NULL), TSR_OK);
  tiny_text(other, "__schema/x", "");
  tiny_text(other, "__group/x", "");
  assert_int_equal(tsr__group_open_store(environment, other, "other", NULL, &none, &error), TSR_NOT_FOUND);
  assert_string_equal(error.message, "group not found: other: it is an array");
  assert_int_equal(tsr_group_open(environment, "/nowhere/at/all", NULL, &none, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_group_open(environment, "s3://bucket", NULL, &none, &error), TSR_NOT_FOUND);
  tsr_group_close(NULL);
  tsr_group_members_close(NULL);
}

static void test_no_memory(void **state) {
  put_file("__1_1" U "_2", 2, (const member[]){{"a", "a", true, true, false}, {"b", NULL, true, true, false}, END});
  put_file("__2_2" U "_2", 2, (const member[]){{"a", "a", true, true, true}, END});
  tsr_group_members *members;
  int before = counted.blocks;
  for (long n = 0;; n++) {
    counted.left = n;
    int code = tsr_group_members_open(group, 0, 9, &members, &error);
    counted.left = -1;
    if (code == TSR_OK) {
      assert_true(n > 2);
      break;
    }
    assert_int_equal(code, TSR_NOMEM);
    assert_int_equal(counted.blocks, before);
  }
  assert_int_equal(members->count, 1);
  tsr_group_members_close(members);
}

/* Each change is written to a file of its own. The first one after a file that lists all members repeats all of
 * them. */
static void test_changes_are_written(void **state) {
  put_file("__1_1" U "_1", 1, (const member[]){{"a", "a", true, true, false}, {"b", "b", true, true, false}, END});
  put_file("__2_2" U "_1", 1, (const member[]){{"a", "a", true, true, false}, {"c", NULL, true, false, false}, END});
  assert_string_equal(shown(0, TSR_TIME_NOW), "a:missing:tiny/a -:missing:tiny/c");
  assert_int_equal(tsr_group_add(group, "d", "d", true, TSR_OBJECT_ARRAY, &error), TSR_OK);
  assert_string_equal(shown(0, TSR_TIME_NOW), "a:missing:tiny/a -:missing:tiny/c d:missing:tiny/d");
  assert_int_equal(tsr_group_remove(group, "c", &error), TSR_OK);
  assert_int_equal(tsr_group_add(group, "b", "e", true, TSR_OBJECT_ARRAY, &error), TSR_OK);
  assert_string_equal(shown(0, TSR_TIME_NOW), "a:missing:tiny/a b:missing:tiny/e d:missing:tiny/d");
  assert_string_equal(shown(0, 2), "a:missing:tiny/a -:missing:tiny/c");
  assert_int_equal(tsr_group_add(group, "d", "x", true, TSR_OBJECT_ARRAY, &error), TSR_EXISTS);
  assert_int_equal(tsr_group_remove(group, "c", &error), TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, "it has no member 'c'"));
}

/* A change that is refused leaves no file. */
static void test_refused_changes_leave_nothing(void **state) {
  tsr_listing before = {0}, after = {0};
  const tsr_metadatum entry = {
      .key = "k", .key_size = 1, .datatype = TSR_INT32, .count = 2, .value = "1234", .value_size = 4};
  assert_int_equal(tsr__store_list(store, "", &before, NULL), TSR_OK);
  assert_int_equal(tsr_group_set_metadata(group, &entry, &error), TSR_RANGE);
  assert_int_equal(tsr__store_list(store, "", &after, NULL), TSR_OK);
  assert_int_equal(after.count, before.count);
  tsr__listing_release(&before);
  tsr__listing_release(&after);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_files_take_effect_in_order, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_newest_full_list_stands_alone, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_kinds_of_members, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_damaged_files_are_refused, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_no_group_is_told, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_no_memory, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_changes_are_written, setup_group, teardown_group),
      cmocka_unit_test_setup_teardown(test_refused_changes_leave_nothing, setup_group, teardown_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
