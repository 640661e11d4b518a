/* test_map.c: maps: get, put, replace, remove within chains that wrap around the table, and a budget that ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/map.h"
#include "base/memory.h"

#define NAMES 5000
static char names[NAMES][24];

static void make_names(void) {
  for (int i = 0; i < NAMES; i++) snprintf(names[i], sizeof names[i], "name %d", i);
}

static void test_an_empty_map_has_no_keys(void **state) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_map map = {.memory = &memory};
  assert_null(tsr__map_get(&map, "a"));
  assert_null(tsr__map_remove(&map, "a"));
  tsr__map_release(&map);
  assert_int_equal(memory.used, 0);
}

static void test_put_of_an_equal_key_replaces_key_and_value(void **state) {
  tsr_memory memory;
  int one, two;
  char other[] = "a"; /* an equal key at another address */
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_map map = {.memory = &memory};
  assert_int_equal(tsr__map_put(&map, "a", &one, NULL), TSR_OK);
  assert_int_equal(tsr__map_put(&map, other, &two, NULL), TSR_OK);
  assert_int_equal(map.count, 1);
  assert_ptr_equal(tsr__map_get(&map, "a"), &two);
  assert_null(tsr__map_get(&map, ""));
  assert_int_equal(tsr__map_put(&map, "", &one, NULL), TSR_OK);
  assert_ptr_equal(tsr__map_get(&map, ""), &one);
  tsr__map_release(&map);
}

static void test_many_keys_are_found_until_they_are_removed(void **state) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_map map = {.memory = &memory};
  for (int i = 0; i < NAMES; i++) assert_int_equal(tsr__map_put(&map, names[i], names[i], NULL), TSR_OK);
  assert_int_equal(map.count, NAMES);
  for (int i = 0; i < NAMES; i += 3) assert_ptr_equal(tsr__map_remove(&map, names[i]), names[i]);
  for (int i = 0; i < NAMES; i++) assert_ptr_equal(tsr__map_get(&map, names[i]), i % 3 ? names[i] : NULL);
  for (int i = 0; i < NAMES; i++) assert_ptr_equal(tsr__map_remove(&map, names[i]), i % 3 ? names[i] : NULL);
  assert_int_equal(map.count, 0);
  for (uint64_t i = 0; i <= map.index.mask; i++) assert_int_equal(map.index.slots[i], 0);
  tsr__map_release(&map);
  assert_int_equal(memory.used, 0);
}

static void test_entries_are_dense_and_the_last_one_fills_a_gap(void **state) {
  tsr_memory memory;
  tsr__memory_init_root(&memory, NULL, NULL);
  tsr_map map = {.memory = &memory};
  for (int i = 0; i < 100; i++) assert_int_equal(tsr__map_put(&map, names[i], names[i], NULL), TSR_OK);
  for (int i = 0; i < 100; i++) assert_ptr_equal(map.entries[i].key, names[i]);
  tsr__map_remove(&map, names[10]);
  tsr__map_remove(&map, names[98]);
  assert_int_equal(map.count, 98);
  for (int i = 0; i < 98; i++) assert_ptr_equal(map.entries[i].key, names[i == 10 ? 99 : i]);
  assert_ptr_equal(tsr__map_get(&map, names[99]), names[99]);
  tsr__map_release(&map);
}

static void test_put_without_memory_leaves_the_map_unchanged(void **state) {
  tsr_memory root, memory;
  tsr_error error = {0};
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&memory, &root, 2000, "test");
  tsr_map map = {.memory = &memory};
  int rc = TSR_OK, put = 0;
  while (put < NAMES && rc == TSR_OK) {
    rc = tsr__map_put(&map, names[put], names[put], &error);
    put += rc == TSR_OK;
  }
  assert_int_equal(rc, TSR_BUDGET);
  assert_int_equal(map.count, put);
  for (int i = 0; i < put; i++) assert_ptr_equal(tsr__map_get(&map, names[i]), names[i]);
  tsr__map_release(&map);
}

int main(void) {
  make_names();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_empty_map_has_no_keys),
      cmocka_unit_test(test_put_of_an_equal_key_replaces_key_and_value),
      cmocka_unit_test(test_many_keys_are_found_until_they_are_removed),
      cmocka_unit_test(test_entries_are_dense_and_the_last_one_fills_a_gap),
      cmocka_unit_test(test_put_without_memory_leaves_the_map_unchanged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
