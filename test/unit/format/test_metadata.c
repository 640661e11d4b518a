/* test_metadata.c: keys with and without values, deletions, damage. */

#include <string.h>

#include "format/metadata.h"
#include "format_test.h"

static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_metadata_entries entries;
  return tsr__metadata_decode(&in, arena, &entries, error);
}

static bytes build(void) {
  bytes b = {0};
  put_text32(&b, "pi"), put8(&b, 0), put8(&b, TSR_FLOAT64), put32(&b, 2),
      put_hex(&b, "182d4454fb210940000000000000f03f");
  put_text32(&b, "gone"), put8(&b, 1);
  put_text32(&b, ""), put8(&b, 0), put8(&b, TSR_UTF8), put32(&b, 3), put_text(&b, "abc");
  put32(&b, 3), put(&b, "a\0b", 3), put8(&b, 0), put8(&b, TSR_INT32), put32(&b, 0);
  return b;
}

static void test_entries_decode(void **state) {
  bytes b = build();
  room r;
  room_open(&r, UINT64_MAX);
  tsr_input in = tsr__input(b.data, b.size);
  tsr_metadata_entries all;
  assert_int_equal(tsr__metadata_decode(&in, &r.arena, &all, NULL), TSR_OK);
  drop(&b); /* nothing is borrowed */
  assert_int_equal(all.count, 4);
  const tsr_metadata_entry *e = all.entries;
  assert_string_equal(e[0].key, "pi");
  assert_int_equal(e[0].datatype, TSR_FLOAT64);
  assert_int_equal(e[0].count, 2);
  assert_int_equal(e[0].value_size, 16);
  double one;
  memcpy(&one, e[0].value + 8, 8);
  assert_true(one == 1);
  assert_string_equal(e[1].key, "gone");
  assert_true(e[1].deleted && !e[0].deleted);
  assert_int_equal(e[2].key_size, 0);
  assert_memory_equal(e[2].value, "abc", 3);
  assert_int_equal(e[3].key_size, 3);
  assert_memory_equal(e[3].key, "a\0b", 4);
  assert_int_equal(e[3].count, 0);
  assert_int_equal(e[3].value_size, 0);
  room_close(&r);
}

/* Encoding gives the bytes that were decoded. */
static void test_encoded_entries_decode(void **state) {
  bytes b = build();
  room r;
  room_open(&r, UINT64_MAX);
  tsr_input in = tsr__input(b.data, b.size);
  tsr_metadata_entries all;
  tsr_buffer out = {.memory = &r.memory};
  assert_int_equal(tsr__metadata_decode(&in, &r.arena, &all, NULL), TSR_OK);
  for (uint64_t i = 0; i < all.count; i++) assert_int_equal(tsr__metadata_encode(&all.entries[i], &out, NULL), TSR_OK);
  assert_int_equal(out.size, b.size);
  assert_memory_equal(out.data, b.data, b.size);
  tsr__buffer_release(&out);
  drop(&b);
  room_close(&r);
}

static void test_broken_entries_are_refused(void **state) {
  bytes b = {0};
  put(&b, "", 0);
  assert_accepted(decode, &b);
  put_text32(&b, "k"), put8(&b, 0), put8(&b, 44), put32(&b, 1), put64(&b, 1);
  assert_refused(decode, &b, TSR_CORRUPT, "datatype 44");
  b.data[6] = TSR_UINT64;
  assert_accepted(decode, &b);
  memset(b.data + 7, 255, 4);
  assert_refused(decode, &b, TSR_CORRUPT, "metadata entry 0 at byte 0: it ends early");
  drop(&b);
}

static void test_damaged_metadata_is_refused_or_harmless(void **state) {
  bytes b = build();
  uint64_t whole[] = {0, 28, 37, 50, b.size};
  tsr_error error;
  for (uint64_t size = 0; size <= b.size; size++) {
    bool boundary = false;
    for (int i = 0; i < 5; i++) boundary = boundary || size == whole[i];
    assert_int_equal(decode_once(decode, b.data, size, UINT64_MAX, &error), boundary ? TSR_OK : TSR_CORRUPT);
  }
  survive_flips(decode, &b);
  assert_budgets(decode, &b);
  drop(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries_decode),
                                     cmocka_unit_test(test_encoded_entries_decode),
                                     cmocka_unit_test(test_broken_entries_are_refused),
                                     cmocka_unit_test(test_damaged_metadata_is_refused_or_harmless)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
