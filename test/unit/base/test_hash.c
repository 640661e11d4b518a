/* test_hash.c: hash indexes: add, find, remove within runs of slots that wrap around, growth, and a budget that
 * ends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"

#define ITEMS 3000

/* Few hashes for many items, so that runs of slots are long. */
static uint64_t hash_of(const void *items, uint64_t item) { return ((const uint64_t *)items)[item] % 50; }

static bool find(const tsr_hash_index *index, const uint64_t *items, uint64_t key, uint64_t *slot, uint32_t *item) {
  for (*slot = tsr__hash_slot(index, key % 50); tsr__hash_item(index, *slot, item);
       *slot = tsr__hash_next(index, *slot))
    if (items[*item] == key) return true;
  return false;
}

static void test_items_are_found_until_they_are_removed(void **state) {
  tsr_memory memory;
  tsr_hash_index index = {0};
  uint64_t items[ITEMS], slot;
  uint32_t item;
  tsr__memory_init_root(&memory, NULL, NULL);
  for (uint64_t i = 0; i < ITEMS; i++) {
    assert_int_equal(tsr__hash_reserve(&index, &memory, i + 1, i, hash_of, items, NULL), TSR_OK);
    assert_false(find(&index, items, 7 * i, &slot, &item));
    items[i] = 7 * i;
    tsr__hash_set(&index, slot, i);
  }
  assert_true(tsr__hash_slot_count(&index) >= 2 * ITEMS);
  for (uint64_t i = 0; i < ITEMS; i += 3) {
    assert_true(find(&index, items, 7 * i, &slot, &item));
    tsr__hash_remove(&index, slot, hash_of, items);
  }
  for (uint64_t i = 0; i < ITEMS; i++) {
    assert_int_equal(find(&index, items, 7 * i, &slot, &item), i % 3 != 0);
    if (i % 3) assert_int_equal(item, i);
  }
  tsr__hash_clear(&index);
  for (uint64_t i = 0; i < ITEMS; i++) assert_false(find(&index, items, 7 * i, &slot, &item));
  tsr__hash_release(&index);
  assert_int_equal(memory.used, 0);
}

static void test_reserve_without_memory_leaves_the_index_unchanged(void **state) {
  tsr_memory root, memory;
  tsr_hash_index index = {0};
  uint64_t items[4] = {1, 2, 3, 4}, slot;
  uint32_t item;
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&memory, &root, 1000, "test");
  assert_int_equal(tsr__hash_reserve(&index, &memory, 4, 0, hash_of, items, NULL), TSR_OK);
  for (uint64_t i = 0; i < 4; i++) tsr__hash_add(&index, items[i], i);
  assert_int_equal(tsr__hash_reserve(&index, &memory, 1000, 4, hash_of, items, NULL), TSR_BUDGET);
  assert_int_equal(tsr__hash_reserve(&index, &memory, UINT64_MAX, 4, hash_of, items, NULL), TSR_TOOBIG);
  for (uint64_t i = 0; i < 4; i++) assert_true(find(&index, items, items[i], &slot, &item) && item == i);
  tsr__hash_release(&index);
}

static void test_hashes_differ_in_seed_size_and_bytes(void **state) {
  const uint8_t zeros[17] = {0}, other[17] = {[16] = 1};
  for (uint64_t size = 0; size < 17; size++)
    assert_int_not_equal(tsr__hash_bytes(0, zeros, size), tsr__hash_bytes(0, zeros, size + 1));
  assert_int_not_equal(tsr__hash_bytes(0, zeros, 17), tsr__hash_bytes(0, other, 17));
  assert_int_not_equal(tsr__hash_bytes(0, zeros, 17), tsr__hash_bytes(1, zeros, 17));
  assert_int_equal(tsr__hash_text(5, "some text"), tsr__hash_bytes(5, "some text", 9));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_items_are_found_until_they_are_removed),
      cmocka_unit_test(test_reserve_without_memory_leaves_the_index_unchanged),
      cmocka_unit_test(test_hashes_differ_in_seed_size_and_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
