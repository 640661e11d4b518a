/* test_error.c: the version is one, codes have names, tsr__wrap puts context in front, and messages are printable UTF-8 for any input. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"

static void test_every_code_has_its_name(void **state) {
  assert_string_equal(tsr_code_name(TSR_OK), "OK");
  assert_string_equal(tsr_code_name(TSR_CORRUPT), "CORRUPT");
  assert_string_equal(tsr_code_name(-17), "UNSUPPORTED");
  assert_string_equal(tsr_code_name(-18), "BUSY");
  assert_string_equal(tsr_code_name(-19), "BUDGET");
  assert_string_equal(tsr_code_name(-20), "DENIED");
  assert_string_equal(tsr_code_name(-21), "UNREACHABLE");
  assert_string_equal(tsr_code_name(-22), "CHECK");
  assert_string_equal(tsr_code_name(-23), "UNKNOWN");
  assert_string_equal(tsr_code_name(1), "UNKNOWN");
}

static void test_text_and_numbers_are_one_version(void **state) {
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TSR_VERSION_MAJOR, TSR_VERSION_MINOR, TSR_VERSION_PATCH);
  assert_string_equal(TSR_VERSION, text);
  assert_string_equal(tsr_version(), text);
  int major = TSR_VERSION_NUMBER / 1000000, minor = TSR_VERSION_NUMBER / 1000 % 1000, patch = TSR_VERSION_NUMBER % 1000;
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
  assert_string_equal(TSR_VERSION, text);
}

static void test_fail_sets_code_and_message(void **state) {
  tsr_error error = {0};
  assert_int_equal(tsr__fail(&error, TSR_RANGE, "%d of %s", 7, "ten"), TSR_RANGE);
  assert_int_equal(error.code, TSR_RANGE);
  assert_string_equal(error.message, "7 of ten");
  assert_int_equal(tsr__fail(&error, TSR_IO, "again: %s", error.message), TSR_IO);
  assert_string_equal(error.message, "again: 7 of ten");
  assert_int_equal(tsr__fail(NULL, TSR_FULL, "nobody listens"), TSR_FULL);
  assert_int_equal(tsr__fail(&error, 0, "no code"), TSR_ERROR); /* a failure has a negative code */
  assert_int_equal(error.code, TSR_ERROR);
  assert_int_equal(tsr__fail(&error, 5, "no code"), TSR_ERROR);
}

static void test_wrap_puts_the_context_in_front(void **state) {
  tsr_error error = {0};
  tsr__fail(&error, TSR_CORRUPT, "byte %d", 3);
  assert_int_equal(tsr__wrap(&error, "field '%s'", "a"), TSR_CORRUPT);
  assert_int_equal(tsr__wrap(&error, "/data/x"), TSR_CORRUPT);
  assert_string_equal(error.message, "/data/x: field 'a': byte 3");
  assert_int_equal(tsr__wrap(&error, "/data/x"), TSR_CORRUPT); /* the message says this already */
  assert_string_equal(error.message, "/data/x: field 'a': byte 3");
  tsr__wrap(&error, "/data");
  assert_string_equal(error.message, "/data: /data/x: field 'a': byte 3");
  assert_int_equal(error.code, TSR_CORRUPT);
  assert_int_equal(tsr__wrap(NULL, "x"), TSR_ERROR);
  tsr_error empty = {0};
  assert_int_equal(tsr__wrap(&empty, "context"), TSR_ERROR);
  assert_string_equal(empty.message, "context");
}

static void test_the_subject_lasts_until_the_next_failure(void **state) {
  tsr_error error = {0};
  tsr__fail(&error, TSR_CORRUPT, "byte %d", 3);
  tsr__error_about(&error, 7);
  tsr__wrap(&error, "field '%s'", "a");
  assert_int_equal(error.subject, 7);
  tsr__fail(&error, TSR_CORRUPT, "another");
  assert_int_equal(error.subject, 0);
  tsr__error_about(NULL, 7); /* is allowed */
}

static void test_messages_are_printable_utf8(void **state) {
  static const struct {
    const char *in, *out;
  } cases[] = {
      {"tab\tline\r\nescape\x1b[2J\x7f", "tab line  escape?[2J?"},
      {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\x80"},
      {"\xc3", "?"},
      {"\xc3(", "?("},
      {"a\x80z", "a?z"},
      {"\xc0\xaf", "??"}, /* an overlong encoding */
      {"\xe0\x80\xaf", "???"},
      {"\xed\xa0\x80", "???"}, /* half of a surrogate pair */
      {"\xf4\x90\x80\x80", "????"}, /* past the last code point */
      {"\xf8\x88\x80\x80\x80", "?????"},
      {"\xff\xfe", "??"},
      {"\xc2\x9b", "??"}, /* a control character above 0x7f */
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

/* A text that a precision shortens ends with a whole character; bytes that were damaged before stay visible. */
static void test_texts_are_cut_between_characters(void **state) {
  tsr_error error = {0};
  tsr__fail(&error, TSR_ERROR, "'%.4s'", "abc\xc3\xa4");
  assert_string_equal(error.message, "'abc'");
  tsr__fail(&error, TSR_ERROR, "'%.5s'", "abc\xc3\xa4");
  assert_string_equal(error.message, "'abc\xc3\xa4'");
  tsr__fail(&error, TSR_ERROR, "'%.*s' %d%% '%-.3s'", 2, "\xe2\x82\xac", 7, "\xf0\x9f\x9a\x80");
  assert_string_equal(error.message, "'' 7% ''");
  tsr__fail(&error, TSR_ERROR, "'%.3s' '%s'", "K\xe4se", "\xc3");
  assert_string_equal(error.message, "'K?s' '?'");
  tsr__fail(&error, TSR_ERROR, "%.2f %.3s", 1.5, "\xc3(\xe2\x82\xac");
  assert_string_equal(error.message, "1.50 ?(");
  tsr__wrap(&error, "%.2s", "a\xc3\xa4");
  assert_string_equal(error.message, "a: 1.50 ?(");
}

/* The message of a host's callback may be any bytes, without an end. */
static void test_messages_of_hosts_become_printable(void **state) {
  tsr_error error = {.code = TSR_IO, .message = "bell\x07 \xff"};
  assert_int_equal(tsr__wrap(&error, "store"), TSR_IO);
  assert_string_equal(error.message, "store: bell? ?");
  error = (tsr_error){.code = TSR_IO};
  memset(error.message, 'x', sizeof error.message);
  tsr__wrap(&error, "store");
  assert_in_range(strlen(error.message), TSR_MESSAGE_SIZE - 10, TSR_MESSAGE_SIZE - 1);
  assert_memory_equal(error.message, "store: xxx", 10);
}

/* Returns true if the text consists of whole characters of `cycle`, except for the "..." in its middle. */
static void check_cut(const char *message, const char *text, size_t size) {
  size_t length = strlen(message), front = 0;
  while (message[front] == text[front]) front++;
  const char *gap = strstr(message + front - TSR_MIN(front, 3u), "...");
  assert_non_null(gap);
  assert_in_range(length, TSR_MESSAGE_SIZE - 10, TSR_MESSAGE_SIZE - 1);
  size_t kept = (size_t)(gap - message), end = length - kept - 3;
  assert_in_range(kept, TSR_MESSAGE_SIZE / 2 - 8, TSR_MESSAGE_SIZE / 2);
  assert_memory_equal(message, text, kept);
  assert_memory_equal(gap + 3, text + size - end, end);
  assert_null(strchr(message, '?'));
}

/* A text of characters of 1 to 4 bytes is shortened at every position: only whole characters are left. */
static void test_long_messages_lose_whole_characters_in_the_middle(void **state) {
  static const char cycle[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x80"; /* 10 bytes */
  char text[3030], both[4200];
  for (unsigned lead = 0; lead < 20; lead++) {
    tsr_error error = {0};
    memset(text, ',', lead);
    for (size_t i = 0; i < 3000; i++) text[lead + i] = cycle[i % 10];
    text[lead + 3000] = 0;
    tsr__fail(&error, TSR_IO, "%s", text);
    check_cut(error.message, text, strlen(text));

    tsr__fail(&error, TSR_IO, "inner");
    assert_int_equal(tsr__wrap(&error, "%s", text), TSR_IO); /* a context that fills the message */
    assert_string_equal(error.message + strlen(error.message) - 7, ": inner");
    assert_memory_equal(error.message, text, 500);

    tsr__fail(&error, TSR_IO, "%.1000s", text + lead);
    tsr__wrap(&error, "%.*s", (int)lead + 1000, text);
    snprintf(both, sizeof both, "%.*s: %.1000s", (int)lead + 1000, text, text + lead);
    check_cut(error.message, both, strlen(both));
  }
}

/* Messages of every length near TSR_MESSAGE_SIZE. */
static void test_messages_of_every_length_near_the_limit_fit(void **state) {
  char context[2000], whole[2100];
  memset(context, 'c', sizeof context);
  for (int length = 990; length < 2000; length += length < 1040 ? 1 : 100) {
    tsr_error error = {0};
    tsr__fail(&error, TSR_IO, "inner");
    tsr__wrap(&error, "%.*s", length, context);
    assert_in_range(strlen(error.message), 990, TSR_MESSAGE_SIZE - 1);
    assert_string_equal(error.message + strlen(error.message) - 7, ": inner");
    snprintf(whole, sizeof whole, "%.*s: inner", length, context);
    assert_int_equal(strcmp(error.message, whole) == 0, length + 7 < TSR_MESSAGE_SIZE);
  }
  char enormous[20000];
  memset(enormous, 'e', sizeof enormous);
  tsr_error error = {0};
  tsr__fail(&error, TSR_IO, "%.*s", (int)sizeof enormous, enormous);
  assert_in_range(strlen(error.message), 990, TSR_MESSAGE_SIZE - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_code_has_its_name),
      cmocka_unit_test(test_text_and_numbers_are_one_version),
      cmocka_unit_test(test_fail_sets_code_and_message),
      cmocka_unit_test(test_wrap_puts_the_context_in_front),
      cmocka_unit_test(test_the_subject_lasts_until_the_next_failure),
      cmocka_unit_test(test_messages_are_printable_utf8),
      cmocka_unit_test(test_texts_are_cut_between_characters),
      cmocka_unit_test(test_messages_of_hosts_become_printable),
      cmocka_unit_test(test_long_messages_lose_whole_characters_in_the_middle),
      cmocka_unit_test(test_messages_of_every_length_near_the_limit_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
