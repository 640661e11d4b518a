/* test_group.c: members of both versions decode; each rule of the format is broken once. */

#include <string.h>

#include "format/group.h"
#include "format_test.h"

static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_members members;
  return tsr__group_decode(&in, arena, &members, error);
}

static void put_member(bytes *b, uint32_t version, uint8_t type, uint8_t relative, const char *uri, const char *name,
                       uint8_t deleted) {
  put32(b, version), put8(b, type), put8(b, relative), put_text64(b, uri), put8(b, name != NULL);
  if (name) put_text64(b, name);
  if (version >= 2) put8(b, deleted);
}

static bytes build(uint32_t version) {
  bytes b = {0};
  put32(&b, version), put64(&b, 3);
  put_member(&b, version, 2, 1, "array one", "one", 0);
  put_member(&b, version, 1, 0, "file:///groups/%41", NULL, 1);
  put_member(&b, version, 2, 1, "x", "", 1);
  return b;
}

static void test_members_decode(void **state) {
  for (uint32_t version = 1; version <= 2; version++) {
    bytes b = build(version);
    room r;
    room_open(&r, UINT64_MAX);
    tsr_input in = tsr__input(b.data, b.size);
    tsr_members all;
    assert_int_equal(tsr__group_decode(&in, &r.arena, &all, NULL), TSR_OK);
    drop(&b); /* nothing is borrowed */
    assert_int_equal(all.version, version);
    assert_int_equal(all.count, 3);
    const tsr_member *m = all.members;
    assert_true(m[0].is_array && m[0].relative && m[0].named && !m[0].deleted);
    assert_string_equal(m[0].uri, "array one");
    assert_string_equal(m[0].name, "one");
    assert_true(!m[1].is_array && !m[1].relative && !m[1].named);
    assert_int_equal(m[1].deleted, version == 2);
    assert_string_equal(m[1].uri, "file:///groups/%41");
    assert_string_equal(m[1].name, "");
    assert_true(m[2].named);
    assert_string_equal(m[2].name, "");
    room_close(&r);
  }
}

/* Encoding gives the bytes that were decoded. */
static void test_encoded_members_decode(void **state) {
  bytes b = build(2);
  room r;
  room_open(&r, UINT64_MAX);
  tsr_input in = tsr__input(b.data, b.size);
  tsr_members all;
  tsr_buffer out = {.memory = &r.memory};
  assert_int_equal(tsr__group_decode(&in, &r.arena, &all, NULL), TSR_OK);
  assert_int_equal(tsr__group_encode(&all, &out, NULL), TSR_OK);
  assert_int_equal(out.size, b.size);
  assert_memory_equal(out.data, b.data, b.size);
  tsr__buffer_release(&out);
  drop(&b);
  room_close(&r);
}

static void test_broken_members_are_refused(void **state) {
  bytes b = {0};
  put32(&b, 2), put64(&b, 0);
  assert_accepted(decode, &b);
  put8(&b, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "1 bytes follow its end");
  b.data[0] = 3;
  assert_refused(decode, &b, TSR_UNSUPPORTED, "version 3");
  drop(&b);
  static const struct {
    uint64_t at, width, value;
    int code;
    const char *says;
  } cases[] = {
      {4, 8, UINT64_MAX, TSR_CORRUPT, "do not fit into"},
      {4, 8, 2, TSR_CORRUPT, "follow its end"},
      {12, 4, 3, TSR_UNSUPPORTED, "member 0: version 3"},
      {12, 4, 0, TSR_UNSUPPORTED, "version 0"},
      {16, 1, 0, TSR_CORRUPT, "type 0"},
      {16, 1, 3, TSR_CORRUPT, "type 3"},
      {18, 8, UINT64_MAX, TSR_CORRUPT, "ends early"},
      {26, 1, 0, TSR_CORRUPT, "NUL"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    b = build(2);
    memcpy(b.data + cases[i].at, &cases[i].value, cases[i].width);
    assert_refused(decode, &b, cases[i].code, cases[i].says);
    drop(&b);
  }
  put32(&b, 2), put64(&b, 1), put_member(&b, 2, 1, 1, "", NULL, 0);
  assert_refused(decode, &b, TSR_CORRUPT, "URI is empty");
  drop(&b);
}

static void test_damaged_groups_are_refused_or_harmless(void **state) {
  for (uint32_t version = 1; version <= 2; version++) {
    bytes b = build(version);
    assert_truncation_refused(decode, &b);
    survive_flips(decode, &b);
    assert_budgets(decode, &b);
    drop(&b);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_members_decode), cmocka_unit_test(test_encoded_members_decode),
      cmocka_unit_test(test_broken_members_are_refused), cmocka_unit_test(test_damaged_groups_are_refused_or_harmless)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
