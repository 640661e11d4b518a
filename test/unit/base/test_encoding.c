/* test_encoding.c: base64 in both forms is that of RFC 4648, texts that are not base64 are refused, and the characters of UTF-8 have their sizes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tessera_host.h"

static void test_base64_of_the_rfc(void **state) {
  static const char *const cases[][3] = {{"", "", ""},
                                         {"f", "Zg==", "Zg"},
                                         {"fo", "Zm8=", "Zm8"},
                                         {"foo", "Zm9v", "Zm9v"},
                                         {"foob", "Zm9vYg==", "Zm9vYg"},
                                         {"\xfb\xef\xff", "++//", "--__"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int form = 0; form < 2; form++) {
      char text[16], back[16];
      uint64_t size;
      const uint64_t written = tsr_base64_write((tsr_base64)form, cases[i][0], strlen(cases[i][0]), text);
      assert_string_equal(text, cases[i][1 + form]);
      assert_int_equal(written, strlen(text));
      assert_true(tsr_base64_read((tsr_base64)form, text, written, back, &size));
      assert_int_equal(size, strlen(cases[i][0]));
      assert_memory_equal(back, cases[i][0], size);
    }
}

static void test_padding_may_be_missing(void **state) {
  char back[4];
  uint64_t size;
  assert_true(tsr_base64_read(TSR_BASE64, "Zm8", 3, back, &size));
  assert_int_equal(size, 2);
}

static void test_other_texts_are_refused(void **state) {
  static const struct {
    tsr_base64 form;
    const char *text;
  } cases[] = {{TSR_BASE64, "Z"},        {TSR_BASE64, "Zm9vY"},   {TSR_BASE64, "Zm-_"}, {TSR_BASE64, "Zm8 "},
               {TSR_BASE64, "===="},     {TSR_BASE64, "Z==="},    {TSR_BASE64, "Zg="},  {TSR_BASE64, "Zg==Zg=="},
               {TSR_BASE64_URL, "Zg=="}, {TSR_BASE64_URL, "++//"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const uint64_t length = strlen(cases[i].text);
    char *text = malloc(length), back[8]; /* no NUL: reading ends where the text ends */
    uint64_t size;
    memcpy(text, cases[i].text, length);
    assert_false(tsr_base64_read(cases[i].form, text, length, back, &size));
    free(text);
  }
  char back[4];
  uint64_t size;
  assert_false(tsr_base64_read(TSR_BASE64, "Zg\0\0", 4, back, &size));
}

static void test_characters_are_not_cut(void **state) {
  static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80", damaged[] = "\x80\x80\x80\x80\x80\x80";
  static const uint64_t shown[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10};
  for (uint64_t most = 0; most < sizeof shown / sizeof *shown; most++)
    assert_int_equal(tsr_utf8_cut(text, strlen(text), most), shown[most]);
  for (uint64_t most = 0; most <= 6; most++) assert_int_equal(tsr_utf8_cut(damaged, 6, most), most);
  assert_int_equal(tsr_utf8_size((const uint8_t *)"\xf0\x9f\x9a\x80", 4), 4);
  assert_int_equal(tsr_utf8_size((const uint8_t *)"\xf0\x9f\x9a\x80", 3), 0);
}

static void test_hex_digits(void **state) {
  assert_int_equal(tsr_hex_digit('0'), 0);
  assert_int_equal(tsr_hex_digit('f'), 15);
  assert_int_equal(tsr_hex_digit('A'), 10);
  assert_int_equal(tsr_hex_digit('g'), -1);
  assert_int_equal(tsr_hex_digit(0), -1);
  char text[7];
  uint8_t bytes[3];
  tsr_hex_write("\x00\xab\xff", 3, text);
  assert_string_equal(text, "00abff");
  assert_true(tsr_hex_read("00AbfF", 3, bytes));
  assert_memory_equal(bytes, "\x00\xab\xff", 3);
  assert_false(tsr_hex_read("00a", 3, bytes));
  assert_false(tsr_hex_read("0x0000", 3, bytes));
  assert_false(tsr_hex_read(" 00000", 3, bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_base64_of_the_rfc),
      cmocka_unit_test(test_padding_may_be_missing),
      cmocka_unit_test(test_other_texts_are_refused),
      cmocka_unit_test(test_characters_are_not_cut),
      cmocka_unit_test(test_hex_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
