/* test_error.c: codes and their names, context in front, printable UTF-8 whatever goes in. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "base.h"

static void test_names(void **state) {
  assert_string_equal(tsr_code_name(TSR_OK), "OK");
  assert_string_equal(tsr_code_name(TSR_CORRUPT), "CORRUPT");
  assert_string_equal(tsr_code_name(-17), "UNSUPPORTED");
  assert_string_equal(tsr_code_name(-18), "UNKNOWN");
  assert_string_equal(tsr_code_name(1), "UNKNOWN");
}

static void test_fail(void **state) {
  tsr_error error = {0};
  assert_int_equal(tsr__fail(&error, TSR_RANGE, "%d of %s", 7, "ten"), TSR_RANGE);
  assert_int_equal(error.code, TSR_RANGE);
  assert_string_equal(error.message, "7 of ten");
  assert_int_equal(tsr__fail(&error, TSR_IO, "again: %s", error.message), TSR_IO);
  assert_string_equal(error.message, "again: 7 of ten");
  assert_int_equal(tsr__fail(NULL, TSR_FULL, "nobody listens"), TSR_FULL);
  assert_int_equal(tsr__fail(&error, 0, "no code"), TSR_ERROR); /* never success, never positive */
  assert_int_equal(error.code, TSR_ERROR);
  assert_int_equal(tsr__fail(&error, 5, "no code"), TSR_ERROR);
}

static void test_wrap(void **state) {
  tsr_error error = {0};
  tsr__fail(&error, TSR_CORRUPT, "byte %d", 3);
  assert_int_equal(tsr__wrap(&error, "field '%s'", "a"), TSR_CORRUPT);
  assert_int_equal(tsr__wrap(&error, "/data/x"), TSR_CORRUPT);
  assert_string_equal(error.message, "/data/x: field 'a': byte 3");
  assert_int_equal(error.code, TSR_CORRUPT);
  assert_int_equal(tsr__wrap(NULL, "x"), TSR_ERROR);
  tsr_error empty = {0};
  assert_int_equal(tsr__wrap(&empty, "context"), TSR_ERROR);
  assert_string_equal(empty.message, "context");
}

static void test_printable(void **state) {
  static const struct {
    const char *in, *out;
  } cases[] = {
      {"tab\tline\nescape\x1b[2J\x7f", "tab?line?escape?[2J?"},
      {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\x80"},
      {"\xc3", "?"},
      {"\xc3(", "?("},
      {"a\x80z", "a?z"},
      {"\xc0\xaf", "??"}, /* more bytes than it takes */
      {"\xe0\x80\xaf", "???"},
      {"\xed\xa0\x80", "???"}, /* half of a pair */
      {"\xf4\x90\x80\x80", "????"}, /* past the last character */
      {"\xf8\x88\x80\x80\x80", "?????"},
      {"\xff\xfe", "??"},
      {"\xc2\x9b", "??"}, /* a control of 8 bits */
      {"\xc2\xa0", "\xc2\xa0"},
      {"\xef\xbf\xbf", "\xef\xbf\xbf"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_error error = {0};
    tsr__fail(&error, TSR_ERROR, "%s", cases[i].in);
    assert_string_equal(error.message, cases[i].out);
    tsr__wrap(&error, "%s", cases[i].in);
    char both[200];
    snprintf(both, sizeof both, "%s%s%s", cases[i].out, *cases[i].out ? ": " : "", cases[i].out);
    assert_string_equal(error.message, both);
  }
}

/* Cut at every place of a text of characters of 1 to 4 bytes: only whole characters stay. */
static void test_cut(void **state) {
  static const char cycle[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80"; /* 10 bytes */
  char text[3000];
  for (size_t i = 0; i < sizeof text - 1; i++) text[i] = cycle[i % 10];
  text[2990] = 0;
  static const size_t whole[10] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6}; /* bytes of whole characters in n of the cycle's */
  for (unsigned lead = 0; lead < 20; lead++) {
    tsr_error error = {0};
    tsr__fail(&error, TSR_ERROR, "%.*s%s", (int)lead, "....................", text);
    size_t room = TSR_MESSAGE_SIZE - 1 - lead;
    assert_int_equal(strlen(error.message), lead + room / 10 * 10 + whole[room % 10]);

    tsr__fail(&error, TSR_ERROR, "%.1000s", text);
    tsr__wrap(&error, "%.*s", (int)lead + 1, ".....................");
    size_t left = TSR_MIN(TSR_MESSAGE_SIZE - 1 - lead - 1 - 2, 1000u); /* the context stays, the end goes */
    assert_int_equal(strlen(error.message), lead + 1 + 2 + left / 10 * 10 + whole[left % 10]);
    assert_memory_equal(error.message + lead + 1, ": a\xc3\xa4", 5);
  }
  tsr_error error = {0};
  tsr__fail(&error, TSR_IO, "inner");
  tsr__wrap(&error, "%s", text); /* a context that fills all */
  assert_int_equal(error.code, TSR_IO);
  assert_int_equal(strlen(error.message), 1023 / 10 * 10 + whole[1023 % 10]);
}

/* Every context length around the message's size. */
static void test_wrap_edges(void **state) {
  char context[1100];
  memset(context, 'c', sizeof context);
  for (int length = 1010; length < 1030; length++) {
    tsr_error error = {0};
    tsr__fail(&error, TSR_IO, "inner");
    tsr__wrap(&error, "%.*s", length, context);
    size_t size = strlen(error.message);
    assert_true(size < TSR_MESSAGE_SIZE);
    size_t kept = TSR_MIN((size_t)length, TSR_MESSAGE_SIZE - 1u);
    assert_memory_equal(error.message, context, kept);
    if (length + 7 < TSR_MESSAGE_SIZE) assert_string_equal(error.message + length, ": inner");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),     cmocka_unit_test(test_fail), cmocka_unit_test(test_wrap),
      cmocka_unit_test(test_printable), cmocka_unit_test(test_cut),  cmocka_unit_test(test_wrap_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
