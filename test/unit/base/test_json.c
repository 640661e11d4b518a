/* test_json.c: values are skipped to their ends and no further, damage has its place, and strings are decoded in place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tessera_host.h"

/* Skips the value in `text`, which has no NUL at its end. Returns how many bytes it has, or -1. */
static long skip_value(const char *text, tsr_error *error) {
  const size_t size = strlen(text);
  char *exact = malloc(size ? size : 1);
  memcpy(exact, text, size);
  tsr_text in = {"JSON", exact, exact, exact + size};
  const int code = tsr__json_skip(&in, error);
  const long used = code < 0 ? -1 : (long)(in.at - exact);
  free(exact);
  return used;
}

static void test_values_are_skipped(void **state) {
  static const char *const values[] = {"null",
                                       "true",
                                       "-1.5e3",
                                       "\"a\\\"b\"",
                                       "[]",
                                       "{}",
                                       "[1,[2,{\"a\":\"]\"}]]",
                                       "{\"a\":{\"b\":[null]},\"c\":\"}\"}"};
  tsr_error error = {0};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char text[64];
    assert_int_equal(skip_value(values[i], &error), strlen(values[i]));
    strcat(strcpy(text, values[i]), ",7");
    assert_int_equal(skip_value(text, &error), strlen(values[i]));
  }
}

static void test_damage_has_its_place(void **state) {
  static const char *const cases[][2] = {
      {"", "the JSON ends early (byte 1)"},           {"\"a", "the JSON ends early (byte 3)"},
      {"\"a\\", "the JSON ends early (byte 4)"},      {"[1,", "the JSON ends early (byte 4)"},
      {"[1}", "the JSON is damaged at byte 3"},       {"{1:2}", "the JSON is damaged at byte 2"},
      {"{\"a\" 2}", "the JSON is damaged at byte 6"}, {"[,]", "the JSON is damaged at byte 2"},
      {"nul", "the JSON is damaged at byte 1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_error error = {0};
    assert_int_equal(skip_value(cases[i][0], &error), -1);
    assert_int_equal(error.code, TSR_MISMATCH);
    assert_memory_equal(error.message, cases[i][1], strlen(cases[i][1]));
  }
}

static void test_levels_are_limited(void **state) {
  char text[1200];
  tsr_error error = {0};
  memset(text, '[', 512);
  memset(text + 512, ']', 512);
  text[1024] = 0;
  assert_int_equal(skip_value(text, &error), 1024);
  memset(text, '[', 513);
  memset(text + 513, ']', 513);
  text[1026] = 0;
  assert_int_equal(skip_value(text, &error), -1);
  assert_string_equal(error.message, "the JSON has more than 512 levels");
}

static void test_strings_are_decoded_in_place(void **state) {
  char good[] = "\"a\\n\\u00e4\\ud83d\\ude80\\u0000z\",1", *text;
  uint64_t size;
  const char *end = tsr_json_unescape(good, &text, &size);
  assert_non_null(end);
  assert_string_equal(end, ",1");
  assert_int_equal(size, 10);
  assert_memory_equal(text, "a\n\xc3\xa4\xf0\x9f\x9a\x80\0z", 11);
  static const char *const bad[] = {"a",           "\"a",         "\"\\x\"", "\"\\u12g4\"",
                                    "\"\\ud83d\"", "\"\\udc00\"", "\"\\",    "\"\n\""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char copy[16];
    assert_null(tsr_json_unescape(strcpy(copy, bad[i]), &text, &size));
    assert_true(text >= copy && text <= copy + strlen(bad[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_skipped),
      cmocka_unit_test(test_damage_has_its_place),
      cmocka_unit_test(test_levels_are_limited),
      cmocka_unit_test(test_strings_are_decoded_in_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
