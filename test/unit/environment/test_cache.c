/* test_cache.c: the cache of tiles: limits, order of use, replacement, growth, tiles that are in use when they leave
 * the cache. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "environment/cache.h"

static tsr_memory memory;

static tsr_tile *new_tile(uint64_t bytes) {
  void *block;
  assert_int_equal(tsr__alloc_zero(&memory, sizeof(tsr_tile), &block, NULL), TSR_OK);
  tsr_tile *tile = block;
  atomic_init(&tile->references, 1);
  tile->bytes = bytes;
  return tile;
}

static void put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, uint64_t bytes) {
  tsr_tile *tile = new_tile(bytes);
  tsr__cache_put(cache, fragment, slot, number, tile);
  tsr__tile_drop(tile);
}

static bool has(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number) {
  tsr_tile *tile = tsr__cache_get(cache, fragment, slot, number);
  tsr__tile_drop(tile);
  return tile != NULL;
}

static int setup(void **state) {
  tsr__memory_init_root(&memory, NULL, NULL);
  return 0;
}
static int teardown(void **state) { return memory.used != 0; } /* every tile and table is gone */

static void test_tiles_are_found_by_key(void **state) {
  tsr_cache *cache;
  assert_int_equal(tsr__cache_open(&memory, 1 << 20, &cache, NULL), TSR_OK);
  assert_false(has(cache, 1, 2, 3));
  put(cache, 1, 2, 3, 100);
  assert_true(has(cache, 1, 2, 3));
  assert_false(has(cache, 2, 1, 3));
  assert_false(has(cache, 1, 3, 2));
  assert_false(has(cache, 1, 2, UINT64_MAX));
  put(cache, UINT64_MAX, UINT32_MAX, UINT64_MAX, 0);
  assert_true(has(cache, UINT64_MAX, UINT32_MAX, UINT64_MAX));
  tsr__cache_close(cache);
}

static void test_least_recently_used(void **state) {
  tsr_cache *cache;
  assert_int_equal(tsr__cache_open(&memory, 10 * 1200, &cache, NULL), TSR_OK); /* room for 10, not for 12 */
  for (uint64_t i = 0; i < 10; i++) put(cache, 1, 0, i, 1000);
  for (uint64_t i = 0; i < 10; i++) assert_true(has(cache, 1, 0, i));
  assert_true(has(cache, 1, 0, 0)); /* tile 1 is the oldest now */
  put(cache, 1, 0, 100, 2000);
  put(cache, 1, 0, 101, 1000);
  assert_true(has(cache, 1, 0, 0));
  assert_false(has(cache, 1, 0, 1));
  assert_true(has(cache, 1, 0, 9));
  assert_true(has(cache, 1, 0, 100));
  tsr__cache_close(cache);
}

static void test_limits_hold(void **state) {
  tsr_cache *cache;
  assert_int_equal(tsr__cache_open(&memory, 5000, &cache, NULL), TSR_OK);
  put(cache, 1, 0, 0, 1000);
  /* larger than the limit together with its entry: it is not kept, and no other tile leaves for it */
  put(cache, 1, 0, 1, 5000);
  assert_true(has(cache, 1, 0, 0));
  assert_false(has(cache, 1, 0, 1));
  put(cache, 1, 0, 2, UINT64_MAX);
  assert_false(has(cache, 1, 0, 2));
  tsr__cache_set_limit(cache, 0);
  assert_false(has(cache, 1, 0, 0));
  put(cache, 1, 0, 0, 0);
  assert_false(has(cache, 1, 0, 0));
  tsr__cache_set_limit(cache, 5000);
  put(cache, 1, 0, 0, 0);
  assert_true(has(cache, 1, 0, 0));
  tsr__cache_close(cache);
}

static void test_removed_tiles_live_while_referenced(void **state) {
  tsr_cache *cache;
  assert_int_equal(tsr__cache_open(&memory, 5000, &cache, NULL), TSR_OK);
  put(cache, 1, 0, 0, 4000);
  tsr_tile *tile = tsr__cache_get(cache, 1, 0, 0);
  assert_int_equal(tile->references, 2);
  put(cache, 1, 0, 1, 4000);
  assert_false(has(cache, 1, 0, 0));
  assert_int_equal(tile->references, 1);
  assert_int_equal(tile->bytes, 4000);
  tsr__cache_put(cache, 1, 0, 0, tile); /* again, twice */
  tsr__cache_put(cache, 1, 0, 0, tile);
  assert_int_equal(tile->references, 2);
  tsr__cache_close(cache);
  assert_int_equal(tile->references, 1);
  tsr__tile_drop(tile);
}

static void test_tiles_of_a_fragment_leave(void **state) {
  tsr_cache *cache;
  assert_int_equal(tsr__cache_open(&memory, 1 << 20, &cache, NULL), TSR_OK);
  tsr__cache_forget(cache, 1);
  for (uint64_t i = 0; i < 300; i++) put(cache, i % 3, (uint32_t)(i % 7), i, 10);
  tsr__cache_forget(cache, 1);
  for (uint64_t i = 0; i < 300; i++) assert_int_equal(has(cache, i % 3, (uint32_t)(i % 7), i), i % 3 != 1);
  tsr__cache_close(cache);
}

/* A vacuum drops thousands of fragments at once: each costs what it has in the cache, not what others have. */
static void test_forgetting_looks_at_few_tiles(void **state) {
  enum { FRAGMENTS = 2000, TILES = 3 };
  tsr_cache *cache;
  uint64_t looked_at = 0;
  assert_int_equal(tsr__cache_open(&memory, 1 << 20, &cache, NULL), TSR_OK);
  for (uint64_t i = 0; i < FRAGMENTS * TILES; i++) put(cache, i % FRAGMENTS, 0, i, 10);
  for (uint64_t f = 0; f < FRAGMENTS; f += 2) looked_at += tsr__cache_forget(cache, f);
  assert_in_range(looked_at, FRAGMENTS / 2 * TILES, FRAGMENTS * TILES * 2);
  for (uint64_t i = 0; i < FRAGMENTS * TILES; i++) assert_int_equal(has(cache, i % FRAGMENTS, 0, i), i % 2);
  tsr__cache_close(cache);
}

/* Compares the cache with a plain list of keys in the order of their use. */
static void test_cache_agrees_with_a_list(void **state) {
  enum { KEYS = 400, ROOM = 97 };
  static uint64_t order[KEYS];
  uint64_t count = 0;
  tsr_cache *cache;
  uint64_t before = memory.used;
  assert_int_equal(tsr__cache_open(&memory, UINT64_MAX, &cache, NULL), TSR_OK);
  put(cache, 0, 0, 0, 936);
  tsr__cache_forget(cache, 0);
  tsr__cache_set_limit(cache, (uint64_t)ROOM * 1000 - 1); /* entries take 64 bytes or less: at least ROOM fit */
  srand(1);
  for (int step = 0; step < 20000; step++) {
    uint64_t key = (uint64_t)rand() % KEYS, at = 0;
    while (at < count && order[at] != key) at++;
    bool known = has(cache, key % 5, (uint32_t)(key % 11), key);
    if (known) assert_true(at < count);
    if (at < ROOM / 2 && at < count) assert_true(known); /* what was used a short while ago is there */
    if (at == count) count++;
    for (; at > 0; at--) order[at] = order[at - 1];
    order[0] = key;
    if (!known) put(cache, key % 5, (uint32_t)(key % 11), key, 936);
    assert_true(memory.used - before < (uint64_t)ROOM * 1000 * 2);
  }
  tsr__cache_close(cache);
}

static void test_no_memory(void **state) {
  tsr_memory small;
  tsr_cache *cache;
  tsr__memory_init(&small, &memory, 400, "test");
  assert_int_equal(tsr__cache_open(&small, 1 << 20, &cache, NULL), TSR_OK);
  put(cache, 1, 0, 0, 10); /* no room for the table: not kept, and no error */
  assert_false(has(cache, 1, 0, 0));
  tsr__cache_close(cache);
  tsr__memory_init(&small, &memory, 10, "test");
  assert_int_equal(tsr__cache_open(&small, 1 << 20, &cache, NULL), TSR_BUDGET);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_tiles_are_found_by_key, setup, teardown),
      cmocka_unit_test_setup_teardown(test_least_recently_used, setup, teardown),
      cmocka_unit_test_setup_teardown(test_limits_hold, setup, teardown),
      cmocka_unit_test_setup_teardown(test_removed_tiles_live_while_referenced, setup, teardown),
      cmocka_unit_test_setup_teardown(test_tiles_of_a_fragment_leave, setup, teardown),
      cmocka_unit_test_setup_teardown(test_forgetting_looks_at_few_tiles, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cache_agrees_with_a_list, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
