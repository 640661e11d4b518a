/* test_name.c: names with timestamps, of all format versions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/name.h"

static const char uuid[] = "4420c1f3c1444542afd4d33558189d61";

static bool parse(const char *text, tsr_name *name) { return tsr__name_parse(text, strlen(text), name); }

static void check(const char *text, uint64_t start, uint64_t end, uint32_t version) {
  tsr_name name = {.version = 99};
  assert_true(parse(text, &name));
  assert_true(name.start == start && name.end == end);
  assert_int_equal(name.version, version);
  assert_string_equal(name.uuid, uuid);
}

static void test_all_forms_are_parsed(void **state) {
  check("__10_20_4420c1f3c1444542afd4d33558189d61_22", 10, 20, 22);
  check("__10_20_4420c1f3c1444542afd4d33558189d61", 10, 20, 0);
  check("__0_18446744073709551615_4420c1f3c1444542afd4d33558189d61_4294967295", 0, UINT64_MAX, UINT32_MAX);
  check("__20_10_4420c1f3c1444542afd4d33558189d61_9", 20, 10, 9); /* the parser does not compare the times */
  check("__4420c1f3c1444542afd4d33558189d61_1795232080236", 1795232080236, 1795232080236, 0);
  check("__4420c1f3c1444542afd4d33558189d61_1795232086594_1795232086588", 1795232086588, 1795232086588, 0);
}

static void test_other_texts_are_refused(void **state) {
  static const char *const none[] = {"",
                                     "_",
                                     "__",
                                     "___",
                                     "__10",
                                     "__10_",

                                     "__10_20_",
                                     "__10__u",
                                     "__10_20_u_",
                                     "__10_20_u_22_1",
                                     "_10_20_u_22",
                                     "x__10_20_u",
                                     "__10_20_u/x_22",
                                     "__10_20_u\n_22",
                                     "__10_20_u u_22",
                                     "__10_20_u_22.wrt",
                                     "__10_20_u_v",
                                     "__10_20_u_4294967296",
                                     "__18446744073709551616_20_u_22",
                                     "__10_18446744073709551616_u_22",
                                     "__10_20_0123456789012345678901234567890123456789_22",
                                     "__-10_20_u_22",
                                     "__+1_20_u_22",
                                     "__u_10_x",
                                     "__u_x_10",
                                     "__u_v_10_20",
                                     "__fragments",
                                     "__fragment_meta",
                                     "__array_schema.tdb",
                                     "__fragment_metadata.tdb"};
  tsr_name name = {.start = 7};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_false(parse(none[i], &name));
  assert_true(parse("__10_20", &name) && name.start == 20); /* the UUID is "10", the time 20 */
  name.start = 7;
  assert_false(tsr__name_parse("__10_20_u\0_22", 13, &name));
  assert_int_equal(name.start, 7); /* unchanged */
  assert_true(tsr__name_parse("__10_20_u_22", 9, &name)); /* the size bounds the text */
  assert_int_equal(name.version, 0);
}

/* Cuts texts at every byte and changes each byte. No text may be read past its size. */
static void test_no_text_is_read_past_its_size(void **state) {
  const char text[] = "__1795231923460_1795231923500_4420c1f3c1444542afd4d33558189d61_22";
  for (size_t size = 0; size < sizeof text; size++) {
    char *copy = test_malloc(size + 1);
    memcpy(copy, text, size);
    tsr_name name;
    tsr__name_parse(copy, size, &name);
    for (size_t i = 0; i < size; i++) {
      for (int c = 0; c < 256; c += 5) {
        copy[i] = (char)c;
        if (tsr__name_parse(copy, size, &name)) assert_true(strlen(name.uuid) > 0 && strlen(name.uuid) < 40);
      }
      copy[i] = text[i];
    }
    test_free(copy);
  }
}

static void test_printed_names_are_parsed_again(void **state) {
  char text[128];
  tsr_name name = {.start = 10, .end = 20, .uuid = "ab-C9", .version = 0};
  tsr__name_print(&name, text);
  assert_string_equal(text, "__10_20_ab-C9");
  name = (tsr_name){.start = UINT64_MAX, .end = UINT64_MAX, .version = UINT32_MAX};
  memset(name.uuid, 'f', 39);
  tsr__name_print(&name, text);
  assert_string_equal(text,
                      "__18446744073709551615_18446744073709551615_fffffffffffffffffffffffffffffffffffffff_4294967295");
  tsr_name back;
  assert_true(parse(text, &back));
  assert_memory_equal(&back, &name, sizeof name);
}

static void test_new_names_have_32_hex_digits(void **state) {
  uint8_t random[16];
  for (int i = 0; i < 16; i++) random[i] = (uint8_t)(i * 17);
  tsr_name name;
  char text[128];
  assert_int_equal(tsr__name_new(5, 6, 22, &name, random), TSR_OK);
  tsr__name_print(&name, text);
  assert_string_equal(text, "__5_6_00112233445566778899aabbccddeeff_22");
}

static void test_suffixes_are_found(void **state) {
  uint64_t stem = 99;
  assert_false(tsr__name_suffix("__1_1_u.ok", ".wrt", &stem));
  assert_false(tsr__name_suffix("rt", ".wrt", &stem));
  assert_int_equal(stem, 99);
  assert_true(tsr__name_suffix("__1_1_u_22.wrt", ".wrt", &stem));
  assert_int_equal(stem, 10);
  assert_true(tsr__name_suffix(".wrt", ".wrt", &stem));
  assert_int_equal(stem, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_forms_are_parsed),          cmocka_unit_test(test_other_texts_are_refused),
      cmocka_unit_test(test_no_text_is_read_past_its_size), cmocka_unit_test(test_printed_names_are_parsed_again),
      cmocka_unit_test(test_new_names_have_32_hex_digits),  cmocka_unit_test(test_suffixes_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
