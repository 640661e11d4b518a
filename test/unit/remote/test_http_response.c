/* test_http_response.c: the head of an answer, and the forms of time: what is read, and what is not understood. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "remote/http_response.h"

static tsr_http_response answer;

static void begin(void) {
  tsr__http_response_clear(&answer);
  tsr__http_response_line(&answer, "HTTP/1.1 200 OK\r\n", 17);
}

static void line(const char *text) { tsr__http_response_line(&answer, text, strlen(text)); }

static void test_status_lines(void **state) {
  static const struct {
    const char *line;
    uint32_t status;
  } cases[] = {{"HTTP/1.1 200 OK\r\n", 200}, {"HTTP/1.0 404\r\n", 404},  {"HTTP/2 503 \r\n", 503},
               {"HTTP/1.1 99 X", 0},         {"HTTP/1.1 1000 X", 0},     {"HTTP/1.1", 0},
               {"HTTP/1.1 abc", 0},          {"HTTP 200 OK", 0},         {"", 0},
               {"HTTP/1.1 20", 0},           {"HTTP/1.1    206 x", 206}, {"HTTP/1.1 18446744073709551816 x", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr__http_response_clear(&answer);
    line(cases[i].line);
    assert_int_equal(answer.status, cases[i].status);
  }
  begin();
  line("ETag: \"interim\"");
  line("HTTP/1.1 206 Partial Content"); /* begins anew */
  assert_int_equal(answer.status, 206);
  assert_string_equal(answer.etag, "");
}

static void test_lengths(void **state) {
  static const struct {
    const char *line;
    bool known;
    uint64_t length;
  } cases[] = {{"Content-Length: 0", true, 0},
               {"content-length:  123 \r\n", true, 123},
               {"CONTENT-LENGTH:18446744073709551614", true, UINT64_MAX - 1},
               {"Content-Length: 18446744073709551615", false, 0},
               {"Content-Length: 18446744073709551616", false, 0},
               {"Content-Length: 99999999999999999999999", false, 0},
               {"Content-Length: -1", false, 0},
               {"Content-Length: +1", false, 0},
               {"Content-Length: 12x", false, 0},
               {"Content-Length:", false, 0},
               {"Content-Length : 12", false, 0},
               {"X-Content-Length: 12", false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    line(cases[i].line);
    assert_int_equal(answer.has_length, cases[i].known);
    assert_int_equal(answer.content_length, cases[i].length);
  }
}

static void test_ranges(void **state) {
  static const struct {
    const char *line;
    bool known;
    uint64_t first, last, size;
  } cases[] = {{"Content-Range: bytes 0-0/1", true, 0, 0, 1},
               {"content-range: BYTES 5-9/10", true, 5, 9, 10},
               {"Content-Range: bytes 5-9/*", true, 5, 9, UINT64_MAX},
               {"Content-Range: bytes */10", true, UINT64_MAX, UINT64_MAX, 10},
               {"Content-Range: bytes 5-10/10", false, 0, 0, 0},
               {"Content-Range: bytes 9-5/10", false, 0, 0, 0},
               {"Content-Range: bytes -5/10", false, 0, 0, 0},
               {"Content-Range: bytes 5-/10", false, 0, 0, 0},
               {"Content-Range: bytes 5-9", false, 0, 0, 0},
               {"Content-Range: bytes 5-9/", false, 0, 0, 0},
               {"Content-Range: bytes 5-9/10 ", true, 5, 9, 10},
               {"Content-Range: bytes 5-9/10x", false, 0, 0, 0},
               {"Content-Range: lines 5-9/10", false, 0, 0, 0},
               {"Content-Range: bytes", false, 0, 0, 0},
               {"Content-Range: bytes 18446744073709551615-18446744073709551615/*", false, 0, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    line(cases[i].line);
    assert_int_equal(answer.has_range, cases[i].known);
    if (!cases[i].known) continue;
    assert_int_equal(answer.range_first, cases[i].first);
    assert_int_equal(answer.range_last, cases[i].last);
    assert_int_equal(answer.range_size, cases[i].size);
  }
}

static void test_texts_fit_or_are_missing(void **state) {
  char text[400] = "ETag: ";
  begin();
  line("ETag:\t \"a b\" \r\n");
  assert_string_equal(answer.etag, "\"a b\"");
  memset(text + 6, 'x', 135);
  line(text);
  assert_int_equal(strlen(answer.etag), 135);
  text[6 + 135] = 'x';
  line(text);
  assert_string_equal(answer.etag, "");
  line("ETag: a\x01"
       "b");
  assert_string_equal(answer.etag, "");
  tsr__http_response_line(&answer, "x-amz-request-id: a\0b", 21);
  assert_string_equal(answer.request_id, "");
  line("x-amz-request-id: a1");
  assert_string_equal(answer.request_id, "a1");
  line("x-ms-request-id: b2");
  assert_string_equal(answer.request_id, "b2");
  line("Retry-After: 120");
  assert_int_equal(answer.retry_after, 120);
  line("Retry-After: 99999999999");
  assert_int_equal(answer.retry_after, UINT32_MAX);
  line("no header");
  line(": nothing");
  tsr__http_response_line(&answer, NULL, 0);
  assert_int_equal(answer.status, 200);
}

static void test_times_are_read(void **state) {
  static const struct {
    const char *text;
    int64_t ms;
  } cases[] = {{"1970-01-01T00:00:00Z", 0},
               {"2026-11-22T10:20:30Z", 1795342830000},
               {"2026-11-22T10:20:30.000Z", 1795342830000},
               {"2026-11-22T10:20:30.1Z", 1795342830100},
               {"2026-11-22T10:20:30.123456789Z", 1795342830123},
               {"2026-11-22T12:20:30+02:00", 1795342830000},
               {"2026-11-22T09:50:30.5-00:30", 1795342830500},
               {"2000-02-29T23:59:59Z", 951868799000},
               {"0001-01-01T00:00:00Z", -62135596800000},
               {"9999-12-31T23:59:59.999Z", 253402300799999},
               {"1969-12-31T23:59:59.250Z", -750},
               {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777000},
               {"Thu, 29 Feb 2024 00:00:00 GMT", 1709164800000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t ms = 1;
    assert_true(tsr__http_time_parse(cases[i].text, &ms));
    assert_int_equal(ms, cases[i].ms);
  }
}

static void test_other_texts_are_no_times(void **state) {
  static const char *const texts[] = {"",
                                      "2026-11-22",
                                      "2026-11-22T10:20:30",
                                      "2026-11-22 10:20:30Z",
                                      "2026-11-22T10:20:30.Z",
                                      "2026-13-22T10:20:30Z",
                                      "2026-02-29T10:20:30Z",
                                      "1900-02-29T10:20:30Z",
                                      "2026-00-22T10:20:30Z",
                                      "2026-11-00T10:20:30Z",
                                      "2026-11-31T10:20:30Z",
                                      "2026-11-22T24:20:30Z",
                                      "2026-11-22T10:60:30Z",
                                      "2026-11-22T10:20:61Z",
                                      "0000-11-22T10:20:30Z",
                                      "2026-11-22T10:20:30Z ",
                                      "2026-11-22T10:20:30+2:00",
                                      "2026-11-22T10:20:30+24:00",
                                      "20261-11-22T10:20:30Z",
                                      "Sun, 06 Nov 1994 08:49:37 UTC",
                                      "Sun, 06 Nop 1994 08:49:37 GMT",
                                      "Sux, 06 Nov 1994 08:49:37 GMT",
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Sunday, 06-Nov-94 08:49:37 GMT",
                                      "Sun Nov  6 08:49:37 1994",
                                      "Sun, 06 nov 1994 08:49:37 GMT"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int64_t ms = 17;
    assert_false(tsr__http_time_parse(texts[i], &ms));
    assert_int_equal(ms, 17);
  }
}

static void test_stamps_are_written(void **state) {
  static const struct {
    int64_t ms;
    const char *stamp;
  } cases[] = {{0, "19700101T000000Z"},
               {-1, "19691231T235959Z"},
               {1795342830999, "20261122T102030Z"},
               {951868799000, "20000229T235959Z"},
               {-62135596800000, "00010101T000000Z"},
               {INT64_MIN, "00010101T000000Z"},
               {253402300799999, "99991231T235959Z"},
               {INT64_MAX, "99991231T235959Z"}};
  char stamp[TSR_HTTP_STAMP_SIZE];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr__http_time_stamp(cases[i].ms, stamp);
    assert_string_equal(stamp, cases[i].stamp);
  }
  for (int64_t day = -719162; day < 2932897; day += 13) { /* back and forth through all years */
    char text[40];
    int64_t ms;
    tsr__http_time_stamp(day * 86400000 + 3723000, stamp);
    snprintf(text, sizeof text, "%.4s-%.2s-%.2sT01:02:03Z", stamp, stamp + 4, stamp + 6);
    assert_true(tsr__http_time_parse(text, &ms));
    assert_int_equal(ms, day * 86400000 + 3723000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_status_lines),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_texts_fit_or_are_missing),
      cmocka_unit_test(test_times_are_read),
      cmocka_unit_test(test_other_texts_are_no_times),
      cmocka_unit_test(test_stamps_are_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
