/* test_datetime.c: datetimes and times as text, and back, compared with a table of numpy's and with a slow calendar. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/datatype.h"
#include "tessera_host.h"

/* numpy's str(datetime64(value, unit)), with a blank instead of T, and with minutes where numpy prints only hours */
static const struct {
  tsr_datatype datatype;
  int64_t value;
  const char *text;
} numpy[] = {
    {TSR_DATETIME_YEAR, INT64_C(0), "1970"},
    {TSR_DATETIME_YEAR, INT64_C(-1), "1969"},
    {TSR_DATETIME_YEAR, INT64_C(1), "1971"},
    {TSR_DATETIME_YEAR, INT64_C(-1970), "0000"},
    {TSR_DATETIME_YEAR, INT64_C(8029), "9999"},
    {TSR_DATETIME_YEAR, INT64_C(5441), "7411"},
    {TSR_DATETIME_YEAR, INT64_C(7201), "9171"},
    {TSR_DATETIME_YEAR, INT64_C(5659), "7629"},
    {TSR_DATETIME_MONTH, INT64_C(0), "1970-01"},
    {TSR_DATETIME_MONTH, INT64_C(-1), "1969-12"},
    {TSR_DATETIME_MONTH, INT64_C(1), "1970-02"},
    {TSR_DATETIME_MONTH, INT64_C(-23640), "0000-01"},
    {TSR_DATETIME_MONTH, INT64_C(96359), "9999-12"},
    {TSR_DATETIME_MONTH, INT64_C(35582), "4935-03"},
    {TSR_DATETIME_MONTH, INT64_C(42923), "5546-12"},
    {TSR_DATETIME_MONTH, INT64_C(88432), "9339-05"},
    {TSR_DATETIME_WEEK, INT64_C(0), "1970-01-01"},
    {TSR_DATETIME_WEEK, INT64_C(-1), "1969-12-25"},
    {TSR_DATETIME_WEEK, INT64_C(1), "1970-01-08"},
    {TSR_DATETIME_WEEK, INT64_C(-102789), "0000-01-06"},
    {TSR_DATETIME_WEEK, INT64_C(418985), "9999-12-30"},
    {TSR_DATETIME_WEEK, INT64_C(205169), "5902-02-20"},
    {TSR_DATETIME_WEEK, INT64_C(-3226), "1908-03-05"},
    {TSR_DATETIME_WEEK, INT64_C(-5974), "1855-07-05"},
    {TSR_DATETIME_DAY, INT64_C(0), "1970-01-01"},
    {TSR_DATETIME_DAY, INT64_C(-1), "1969-12-31"},
    {TSR_DATETIME_DAY, INT64_C(1), "1970-01-02"},
    {TSR_DATETIME_DAY, INT64_C(-719528), "0000-01-01"},
    {TSR_DATETIME_DAY, INT64_C(2932896), "9999-12-31"},
    {TSR_DATETIME_DAY, INT64_C(2652274), "9231-09-06"},
    {TSR_DATETIME_DAY, INT64_C(1427572), "5878-07-24"},
    {TSR_DATETIME_DAY, INT64_C(1275967), "5463-06-25"},
    {TSR_DATETIME_HR, INT64_C(0), "1970-01-01 00:00"},
    {TSR_DATETIME_HR, INT64_C(-1), "1969-12-31 23:00"},
    {TSR_DATETIME_HR, INT64_C(1), "1970-01-01 01:00"},
    {TSR_DATETIME_HR, INT64_C(-17268672), "0000-01-01 00:00"},
    {TSR_DATETIME_HR, INT64_C(70389527), "9999-12-31 23:00"},
    {TSR_DATETIME_HR, INT64_C(67272755), "9644-06-09 11:00"},
    {TSR_DATETIME_HR, INT64_C(65135487), "9400-08-15 15:00"},
    {TSR_DATETIME_HR, INT64_C(7719137), "2850-08-05 17:00"},
    {TSR_DATETIME_MIN, INT64_C(0), "1970-01-01 00:00"},
    {TSR_DATETIME_MIN, INT64_C(-1), "1969-12-31 23:59"},
    {TSR_DATETIME_MIN, INT64_C(1), "1970-01-01 00:01"},
    {TSR_DATETIME_MIN, INT64_C(-1036120320), "0000-01-01 00:00"},
    {TSR_DATETIME_MIN, INT64_C(4223371679), "9999-12-31 23:59"},
    {TSR_DATETIME_MIN, INT64_C(-631863149), "0768-08-16 03:31"},
    {TSR_DATETIME_MIN, INT64_C(266978177), "2477-08-11 12:17"},
    {TSR_DATETIME_MIN, INT64_C(3648273957), "8906-07-21 13:57"},
    {TSR_DATETIME_SEC, INT64_C(0), "1970-01-01 00:00:00"},
    {TSR_DATETIME_SEC, INT64_C(-1), "1969-12-31 23:59:59"},
    {TSR_DATETIME_SEC, INT64_C(1), "1970-01-01 00:00:01"},
    {TSR_DATETIME_SEC, INT64_C(-62167219200), "0000-01-01 00:00:00"},
    {TSR_DATETIME_SEC, INT64_C(253402300799), "9999-12-31 23:59:59"},
    {TSR_DATETIME_SEC, INT64_C(156799634228), "6938-10-13 13:57:08"},
    {TSR_DATETIME_SEC, INT64_C(186789519800), "7889-02-14 17:43:20"},
    {TSR_DATETIME_SEC, INT64_C(-25538100554), "1160-09-24 03:10:46"},
    {TSR_DATETIME_MS, INT64_C(0), "1970-01-01 00:00:00.000"},
    {TSR_DATETIME_MS, INT64_C(-1), "1969-12-31 23:59:59.999"},
    {TSR_DATETIME_MS, INT64_C(1), "1970-01-01 00:00:00.001"},
    {TSR_DATETIME_MS, INT64_C(-62167219200000), "0000-01-01 00:00:00.000"},
    {TSR_DATETIME_MS, INT64_C(253402300799999), "9999-12-31 23:59:59.999"},
    {TSR_DATETIME_MS, INT64_C(-42096581255725), "0636-01-06 01:12:24.275"},
    {TSR_DATETIME_MS, INT64_C(121517639731374), "5820-09-28 03:55:31.374"},
    {TSR_DATETIME_MS, INT64_C(47791856741869), "3484-06-18 11:45:41.869"},
    {TSR_DATETIME_US, INT64_C(0), "1970-01-01 00:00:00.000000"},
    {TSR_DATETIME_US, INT64_C(-1), "1969-12-31 23:59:59.999999"},
    {TSR_DATETIME_US, INT64_C(1), "1970-01-01 00:00:00.000001"},
    {TSR_DATETIME_US, INT64_C(-62167219200000000), "0000-01-01 00:00:00.000000"},
    {TSR_DATETIME_US, INT64_C(253402300799999999), "9999-12-31 23:59:59.999999"},
    {TSR_DATETIME_US, INT64_C(72520320322261344), "4268-01-29 13:25:22.261344"},
    {TSR_DATETIME_US, INT64_C(107399617109502029), "5373-05-11 02:58:29.502029"},
    {TSR_DATETIME_US, INT64_C(-59519090542632407), "0083-11-30 15:17:37.367593"},
    {TSR_DATETIME_NS, INT64_C(0), "1970-01-01 00:00:00.000000000"},
    {TSR_DATETIME_NS, INT64_C(-1), "1969-12-31 23:59:59.999999999"},
    {TSR_DATETIME_NS, INT64_C(1), "1970-01-01 00:00:00.000000001"},
    {TSR_DATETIME_NS, INT64_C(-9223372036854775807), "1677-09-21 00:12:43.145224193"},
    {TSR_DATETIME_NS, INT64_C(9223372036854775807), "2262-04-11 23:47:16.854775807"},
    {TSR_DATETIME_NS, INT64_C(-7655606033488393488), "1727-05-28 10:46:06.511606512"},
    {TSR_DATETIME_NS, INT64_C(2855586249401668152), "2060-06-27 18:24:09.401668152"},
    {TSR_DATETIME_NS, INT64_C(-1719628823073018083), "1915-07-05 21:19:36.926981917"},
    {TSR_DATETIME_PS, INT64_C(0), "1970-01-01 00:00:00.000000000000"},
    {TSR_DATETIME_PS, INT64_C(-1), "1969-12-31 23:59:59.999999999999"},
    {TSR_DATETIME_PS, INT64_C(1), "1970-01-01 00:00:00.000000000001"},
    {TSR_DATETIME_PS, INT64_C(-9223372036854775807), "1969-09-16 05:57:07.963145224193"},
    {TSR_DATETIME_PS, INT64_C(9223372036854775807), "1970-04-17 18:02:52.036854775807"},
    {TSR_DATETIME_PS, INT64_C(945722777475114378), "1970-01-11 22:42:02.777475114378"},
    {TSR_DATETIME_PS, INT64_C(7963186850748016051), "1970-04-03 03:59:46.850748016051"},
    {TSR_DATETIME_PS, INT64_C(-7688538832633307685), "1969-10-04 00:17:41.167366692315"},
    {TSR_DATETIME_FS, INT64_C(0), "1970-01-01 00:00:00.000000000000000"},
    {TSR_DATETIME_FS, INT64_C(-1), "1969-12-31 23:59:59.999999999999999"},
    {TSR_DATETIME_FS, INT64_C(1), "1970-01-01 00:00:00.000000000000001"},
    {TSR_DATETIME_FS, INT64_C(-9223372036854775807), "1969-12-31 21:26:16.627963145224193"},
    {TSR_DATETIME_FS, INT64_C(9223372036854775807), "1970-01-01 02:33:43.372036854775807"},
    {TSR_DATETIME_FS, INT64_C(-4537996028834282755), "1969-12-31 22:44:22.003971165717245"},
    {TSR_DATETIME_FS, INT64_C(4759076386708521469), "1970-01-01 01:19:19.076386708521469"},
    {TSR_DATETIME_FS, INT64_C(237679754525500007), "1970-01-01 00:03:57.679754525500007"},
    {TSR_DATETIME_AS, INT64_C(0), "1970-01-01 00:00:00.000000000000000000"},
    {TSR_DATETIME_AS, INT64_C(-1), "1969-12-31 23:59:59.999999999999999999"},
    {TSR_DATETIME_AS, INT64_C(1), "1970-01-01 00:00:00.000000000000000001"},
    {TSR_DATETIME_AS, INT64_C(-9223372036854775807), "1969-12-31 23:59:50.776627963145224193"},
    {TSR_DATETIME_AS, INT64_C(9223372036854775807), "1970-01-01 00:00:09.223372036854775807"},
    {TSR_DATETIME_AS, INT64_C(-8674546022015400527), "1969-12-31 23:59:51.325453977984599473"},
    {TSR_DATETIME_AS, INT64_C(1164769082000157377), "1970-01-01 00:00:01.164769082000157377"},
    {TSR_DATETIME_AS, INT64_C(-7232471837929934479), "1969-12-31 23:59:52.767528162070065521"},
};

static int parse(tsr_datatype datatype, const char *text, int64_t *value) {
  tsr_error error = {0};
  int code = tsr_datetime_parse(datatype, text, strlen(text), value, &error);
  assert_int_equal(code, error.code);
  return code;
}

static void check(tsr_datatype datatype, const char *text, int64_t expected) {
  int64_t value = expected ^ 1;
  if (parse(datatype, text, &value) != TSR_OK || value != expected)
    fail_msg("'%s' as %s: %" PRId64 ", not %" PRId64, text, tsr_datatype_name(datatype), value, expected);
}

static void refuse(tsr_datatype datatype, const char *text, int code) {
  int64_t value = 77;
  int found = parse(datatype, text, &value);
  if (found != code) fail_msg("'%s' as %s: %d, not %d", text, tsr_datatype_name(datatype), found, code);
  assert_int_equal(value, 77);
}

static void test_texts_match_those_of_numpy(void **state) {
  char text[48];
  for (size_t i = 0; i < sizeof numpy / sizeof *numpy; i++) {
    assert_int_equal(tsr_datetime_print(numpy[i].datatype, numpy[i].value, text), strlen(numpy[i].text));
    assert_string_equal(text, numpy[i].text);
    check(numpy[i].datatype, numpy[i].text, numpy[i].value);
  }
}

/* Goes day by day through all years that have a text, counting the days of each month. */
static void test_every_day_matches_a_slow_calendar(void **state) {
  static const int months[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t day = -719528;
  char text[48], expected[64];
  for (int year = 0; year < 10000; year++) {
    bool leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
    for (int month = 1; month <= 12; month++) {
      int days = months[month - 1] + (month == 2 && leap);
      for (int d = 1; d <= days; d++, day++) {
        /* In later years the first and last day of a month are enough. */
        if (d > 1 && d < days && year % 100 > 4) continue;
        snprintf(expected, sizeof expected, "%04d-%02d-%02d", year, month, d);
        assert_int_equal(tsr_datetime_print(TSR_DATETIME_DAY, day, text), 10);
        assert_string_equal(text, expected);
        int64_t back;
        assert_int_equal(tsr_datetime_parse(TSR_DATETIME_DAY, text, 10, &back, NULL), TSR_OK);
        assert_true(back == day);
      }
    }
  }
  assert_int_equal(day, 2932897);
}

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

static void test_values_come_back_from_their_text(void **state) {
  uint64_t random = 88172645463325252u;
  for (int datatype = TSR_DATETIME_YEAR; datatype <= TSR_TIME_AS; datatype++) {
    int printed = 0;
    for (int i = 0; i < 20000; i++) {
      int64_t value = (int64_t)next(&random) >> (next(&random) % 64), back;
      char text[48];
      int size = tsr_datetime_print(datatype, value, text);
      assert_int_equal(size, strlen(text));
      if (size == 0) continue;
      printed++;
      assert_int_equal(tsr_datetime_parse(datatype, text, (uint64_t)size, &back, NULL), TSR_OK);
      assert_true(back == value);
    }
    assert_true(printed > 100);
  }
}

static void test_times_of_day_are_printed_and_parsed(void **state) {
  static const struct {
    tsr_datatype datatype;
    int64_t value;
    const char *text;
  } times[] = {{TSR_TIME_HR, 5, "05:00"},
               {TSR_TIME_HR, 23, "23:00"},
               {TSR_TIME_MIN, 306, "05:06"},
               {TSR_TIME_SEC, 0, "00:00:00"},
               {TSR_TIME_SEC, 18367, "05:06:07"},
               {TSR_TIME_MS, 18367123, "05:06:07.123"},
               {TSR_TIME_MS, 86399999, "23:59:59.999"},
               {TSR_TIME_US, 1, "00:00:00.000001"},
               {TSR_TIME_NS, 86399999999999, "23:59:59.999999999"},
               {TSR_TIME_PS, 86399999999999999, "23:59:59.999999999999"},
               {TSR_TIME_FS, 1000000000000001, "00:00:01.000000000000001"},
               {TSR_TIME_FS, INT64_MAX, "02:33:43.372036854775807"},
               {TSR_TIME_AS, INT64_MAX, "00:00:09.223372036854775807"}};
  char text[48];
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    assert_int_equal(tsr_datetime_print(times[i].datatype, times[i].value, text), strlen(times[i].text));
    assert_string_equal(text, times[i].text);
    check(times[i].datatype, times[i].text, times[i].value);
  }
  check(TSR_TIME_SEC, "05:06", 18360);
  check(TSR_TIME_HR, "05:00:00.000Z", 5);
  check(TSR_TIME_MS, "05:06:07.1", 18367100);
  refuse(TSR_TIME_HR, "05:06", TSR_MISMATCH);
  refuse(TSR_TIME_MIN, "05:06:07", TSR_MISMATCH);
  refuse(TSR_TIME_SEC, "05", TSR_MISMATCH);
  refuse(TSR_TIME_SEC, "24:00", TSR_MISMATCH);
  refuse(TSR_TIME_SEC, "T05:06", TSR_MISMATCH);
  refuse(TSR_TIME_SEC, "2024-01-31 05:06", TSR_MISMATCH);
  refuse(TSR_TIME_AS, "00:00:09.223372036854775808", TSR_RANGE);
  refuse(TSR_TIME_AS, "23:59:59.999999999999999999", TSR_RANGE);
}

static void test_values_outside_the_years_have_no_text(void **state) {
  char text[48];
  for (int datatype = TSR_DATETIME_YEAR; datatype <= TSR_TIME_AS; datatype++)
    assert_int_equal(tsr_datetime_print(datatype, INT64_MIN, text), 0);
  static const struct {
    tsr_datatype datatype;
    int64_t value;
  } none[] = {{TSR_DATETIME_YEAR, -1971},
              {TSR_DATETIME_YEAR, 8030},
              {TSR_DATETIME_YEAR, INT64_MAX},
              {TSR_DATETIME_MONTH, -23641},
              {TSR_DATETIME_MONTH, 96360},
              {TSR_DATETIME_WEEK, -102790},
              {TSR_DATETIME_WEEK, 418986},
              {TSR_DATETIME_WEEK, INT64_MAX},
              {TSR_DATETIME_DAY, -719529},
              {TSR_DATETIME_DAY, 2932897},
              {TSR_DATETIME_DAY, INT64_MIN + 1},
              {TSR_DATETIME_HR, INT64_MAX},
              {TSR_DATETIME_SEC, INT64_MIN + 1},
              {TSR_DATETIME_MS, INT64_MAX},
              {TSR_DATETIME_US, INT64_MAX},
              {TSR_TIME_HR, 24},
              {TSR_TIME_HR, -1},
              {TSR_TIME_HR, INT64_MAX},
              {TSR_TIME_SEC, 86400},
              {TSR_TIME_NS, 86400000000000},
              {TSR_TIME_AS, -1},
              {TSR_INT32, 5},
              {TSR_UTF8, 5},
              {(tsr_datatype)99, 5}};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    text[0] = 'x';
    assert_int_equal(tsr_datetime_print(none[i].datatype, none[i].value, text), 0);
    assert_int_equal(text[0], 0);
  }
}

static void test_shorter_texts_are_accepted(void **state) {
  check(TSR_DATETIME_DAY, "2024-01", 19723);
  check(TSR_DATETIME_DAY, "2024", 19723);
  check(TSR_DATETIME_MS, "2024", 1704067200000);
  check(TSR_DATETIME_MS, "2024-01-31T05", 1706677200000);
  check(TSR_DATETIME_MS, "2024-01-31T05:06Z", 1706677560000);
  check(TSR_DATETIME_MS, "2024-01-31 05:06:07.1", 1706677567100);
  check(TSR_DATETIME_MS, "2024-01-31Z", 1706659200000);
  check(TSR_DATETIME_NS, "1969-12-31 23:59:59.999999999", -1);
  check(TSR_DATETIME_AS, "1969-12-31 23:59:59.999999999999999999", -1);
}

static void test_texts_finer_than_the_unit_are_refused(void **state) {
  check(TSR_DATETIME_DAY, "2024-01-31 00:00:00", 19753);
  check(TSR_DATETIME_DAY, "2024-01-31T00:00:00.000000000000000000000Z", 19753);
  check(TSR_DATETIME_YEAR, "2024-01-01 00:00", 54);
  check(TSR_DATETIME_MONTH, "2024-03-01", 650);
  check(TSR_DATETIME_HR, "2024-01-31 05:00:00", 19753 * 24 + 5);
  check(TSR_DATETIME_MS, "1970-01-01 00:00:00.001000", 1);
  check(TSR_DATETIME_AS, "1970-01-01 00:00:00.0000000000000000010", 1);
  refuse(TSR_DATETIME_DAY, "2024-01-31 00:00:01", TSR_MISMATCH);
  refuse(TSR_DATETIME_DAY, "2024-01-31 00:00:00.0000000000000000001", TSR_MISMATCH);
  refuse(TSR_DATETIME_YEAR, "2024-02", TSR_MISMATCH);
  refuse(TSR_DATETIME_YEAR, "2024-01-02", TSR_MISMATCH);
  refuse(TSR_DATETIME_YEAR, "2024-01-01 00:01", TSR_MISMATCH);
  refuse(TSR_DATETIME_MONTH, "2024-03-02", TSR_MISMATCH);
  refuse(TSR_DATETIME_MONTH, "2024-03-01 00:00:00.0000000000000000001", TSR_MISMATCH);
  refuse(TSR_DATETIME_HR, "2024-01-31 05:06", TSR_MISMATCH);
  refuse(TSR_DATETIME_MS, "1970-01-01 00:00:00.0001", TSR_MISMATCH);
  refuse(TSR_DATETIME_AS, "1970-01-01 00:00:00.0000000000000000001", TSR_MISMATCH);
  check(TSR_DATETIME_WEEK, "1970-01-08", 1);
  check(TSR_DATETIME_WEEK, "1969-12-25 00:00", -1);
  refuse(TSR_DATETIME_WEEK, "1970-01-07", TSR_MISMATCH);
  check(TSR_DATETIME_WEEK, "1970", 0);
  refuse(TSR_DATETIME_WEEK, "1971", TSR_MISMATCH);
  refuse(TSR_DATETIME_WEEK, "1970-01-08 00:00:01", TSR_MISMATCH);
}

static void test_texts_outside_the_type_are_out_of_range(void **state) {
  refuse(TSR_DATETIME_AS, "9999", TSR_RANGE);
  refuse(TSR_DATETIME_AS, "0000", TSR_RANGE);
  refuse(TSR_DATETIME_NS, "2262-04-11 23:47:16.854775808", TSR_RANGE);
  check(TSR_DATETIME_NS, "2262-04-11 23:47:16.854775807", INT64_MAX);
  check(TSR_DATETIME_NS, "1677-09-21 00:12:43.145224193", INT64_MIN + 1);
  refuse(TSR_DATETIME_NS, "1677-09-21 00:12:43.145224192", TSR_RANGE); /* NaT */
  check(TSR_DATETIME_AS, "1969-12-31 23:59:50.776627963145224193", INT64_MIN + 1);
  check(TSR_DATETIME_US, "9999-12-31 23:59:59.999999", 253402300799999999);
}

static void check_offset(tsr_datatype datatype, const char *text, int code, int64_t expected) {
  int64_t value = 77;
  const int found = tsr_datetime_parse(datatype, text, strlen(text), &value, NULL);
  if (found != code || value != (code == TSR_OK ? expected : 77))
    fail_msg("'%s' as %s: %d, %" PRId64, text, tsr_datatype_name(datatype), found, value);
}

static void test_offsets_are_subtracted(void **state) {
  static const struct {
    const char *text;
    int64_t expected;
  } right[] = {{"1970-01-01T01:00+01:00", 0},
               {"1970-01-01 01:00:00 +0100", 0},
               {"1969-12-31T22:30:00-01:30", 0},
               {"1970-01-01T01+01", 0},
               {"1970-01-01T00:00-00:00", 0},
               {"1970-01-01T00:00Z", 0},
               {"1970-01-01T00:00:01.000+23:59", -86339},
               {"1970-01-01", 0},
               {"1970", 0}};
  for (size_t i = 0; i < sizeof right / sizeof *right; i++)
    check_offset(TSR_DATETIME_SEC, right[i].text, TSR_OK, right[i].expected);
  static const char *wrong[] = {"1970-01-01T00:00+24:00", "1970-01-01T00:00+01:60",  "1970-01-01T00:00+1",
                                "1970-01-01T00:00+01:",   "1970-01-01T00:00+01:00Z", "1970-01-01T00:00+01:00:00",
                                "1970-01-01T00:00  +01",  "1970-01-01T00:00 ",       "1970-01-01T00:00+",
                                "1970-01-01+01:00",       "1970-01+01:00",           "1970-01-01T00:00 Z",
                                "1970-01-01T00:00Z+01",   "1970-01-01T00:00++01"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) check_offset(TSR_DATETIME_SEC, wrong[i], TSR_MISMATCH, 0);
  check_offset(TSR_DATETIME_DAY, "1970-01-02T01:00+01:00", TSR_OK, 1);
  check_offset(TSR_DATETIME_DAY, "1970-01-02T00:00+01:00", TSR_MISMATCH, 0);
  check_offset(TSR_DATETIME_MONTH, "1970-01-01T01:00+01:00", TSR_OK, 0);
  check_offset(TSR_DATETIME_MONTH, "1970-01-01T00:00+01:00", TSR_MISMATCH, 0);
  check_offset(TSR_DATETIME_MONTH, "1972-02-29T22:00-02:00", TSR_OK, 26);
  check_offset(TSR_DATETIME_MONTH, "1972-02-28T22:00-02:00", TSR_MISMATCH, 0);
  check_offset(TSR_DATETIME_YEAR, "1970-12-31T22:00:00-02:00", TSR_OK, 1);
  check_offset(TSR_DATETIME_YEAR, "9999-12-31T22:00-02:00", TSR_RANGE, 0);
  check_offset(TSR_DATETIME_MONTH, "0000-01-01T00:00+00:01", TSR_RANGE, 0);
  check_offset(TSR_DATETIME_SEC, "0000-01-01T00:59+01:00", TSR_RANGE, 0);
  check_offset(TSR_DATETIME_SEC, "0000-01-01T01:00+01:00", TSR_OK, -62167219200);
  check_offset(TSR_DATETIME_SEC, "9999-12-31T23:00-01:00", TSR_RANGE, 0);
  check_offset(TSR_DATETIME_SEC, "9999-12-31T22:59:59-01:00", TSR_OK, 253402300799);
  check_offset(TSR_DATETIME_AS, "1970-01-01T01:00:00.000000000000000001+01:00", TSR_OK, 1);
  check_offset(TSR_TIME_SEC, "01:00+01:00", TSR_MISMATCH, 0);
}

static void test_other_datatypes_have_no_such_text(void **state) {
  static const char *const none[] = {"",
                                     " ",
                                     "2",
                                     "202",
                                     "20245",
                                     "2024-",
                                     "2024-1",
                                     "2024-00",
                                     "2024-13",
                                     "2024-01-",
                                     "2024-01-0",
                                     "2024-01-00",
                                     "2024-01-32",
                                     "2024-02-30",
                                     "2023-02-29",
                                     "1900-02-29",
                                     "2024-04-31",
                                     "2024-01-31 ",
                                     "2024-01-31T",
                                     "2024-01-31  05:06",
                                     "2024-01-31 5:06",
                                     "2024-01-31 24:00",
                                     "2024-01-31 05:60",
                                     "2024-01-31 05:06:60",
                                     "2024-01-31 05:",
                                     "2024-01-31 05:06:",
                                     "2024-01-31 05:06:07.",
                                     "2024-01-31 05:06:07,1",
                                     "2024-01-31+01:00",
                                     "2024-01-31 05:06:07ZZ",
                                     "2024-01-31 05:06:07 Z",
                                     "2024-01-31t05:06",
                                     " 2024",
                                     "2024 ",
                                     "+2024",
                                     "-2024",
                                     "2024/01/31",
                                     "20240131",
                                     "31-01-2024",
                                     "2024-01T05:06",
                                     "2024 05:06",
                                     "2024-W05",
                                     "now",
                                     "2024-01-31T05:06:07.1.2",
                                     "\xd9\xa2\xd9\xa0\xd9\xa2\xd9\xa4"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) refuse(TSR_DATETIME_AS, none[i], TSR_MISMATCH);
  check(TSR_DATETIME_DAY, "2024-02-29", 19782);
  check(TSR_DATETIME_DAY, "2000-02-29", 11016);
  int64_t value;
  assert_int_equal(tsr_datetime_parse(TSR_DATETIME_DAY, "2024\0-01", 8, &value, NULL), TSR_MISMATCH);
  /* The size bounds the text. */
  assert_int_equal(tsr_datetime_parse(TSR_DATETIME_DAY, "2024-01-31x", 10, &value, NULL), TSR_OK);
  assert_int_equal(tsr_datetime_parse(TSR_INT64, "2024", 4, &value, NULL), TSR_MISMATCH);
  assert_int_equal(tsr_datetime_parse((tsr_datatype)77, "2024", 4, &value, NULL), TSR_MISMATCH);
}

/* Cuts the text at every position and changes each byte. Nothing is read past the end, and a text that is accepted is
 * printed again as it was. */
static void test_damaged_texts_are_refused(void **state) {
  const char whole[] = "2024-02-29T23:59:58.123456Z";
  for (size_t size = 0; size < sizeof whole; size++) {
    char *copy = test_malloc(size + 1); /* of exact size, so that the sanitizer reports a read past it */
    memcpy(copy, whole, size);
    for (size_t i = 0; i <= size; i++) {
      for (int c = 1; c < 256; c++) {
        if (i < size) copy[i] = (char)c;
        int64_t value, again;
        char text[48];
        if (tsr_datetime_parse(TSR_DATETIME_US, copy, size, &value, NULL) != TSR_OK) continue;
        int length = tsr_datetime_print(TSR_DATETIME_US, value, text);
        assert_int_equal(tsr_datetime_parse(TSR_DATETIME_US, text, (uint64_t)length, &again, NULL), TSR_OK);
        assert_true(again == value);
      }
      if (i < size) copy[i] = whole[i];
    }
    test_free(copy);
  }
}

static void test_messages_say_what_is_wrong(void **state) {
  tsr_error error = {0};
  int64_t value;
  tsr_datetime_parse(TSR_DATETIME_DAY, "2023-02-29", 10, &value, &error);
  assert_string_equal(error.message, "'2023-02-29' is not a valid DATETIME_DAY: the month has no such day");
  tsr_datetime_parse(TSR_DATETIME_WEEK, "2024-01-31", 10, &value, &error);
  assert_string_equal(
      error.message,
      "'2024-01-31' is not a valid DATETIME_WEEK: it is not on the grid of weeks, which begin on Thursdays");
  tsr_datetime_parse(TSR_DATETIME_WEEK, "2024-01-31 00:00:00.5", 21, &value, &error);
  assert_string_equal(error.message, "'2024-01-31 00:00:00.5' is not a valid DATETIME_WEEK: it is finer than the unit");
  tsr_datetime_parse(TSR_DATETIME_WEEK, "2024-01-31 00:00:01", 19, &value, &error);
  assert_string_equal(error.message, "'2024-01-31 00:00:01' is not a valid DATETIME_WEEK: it is finer than the unit");
  tsr_datetime_parse(TSR_DATETIME_WEEK, "2024-01-31 00:00:00.0000000000000000001", 39, &value, &error);
  assert_string_equal(
      error.message,
      "'2024-01-31 00:00:00.0000000000000000001' is not a valid DATETIME_WEEK: it is finer than the unit");
  tsr_datetime_parse(TSR_DATETIME_AS, "9999", 4, &value, &error);
  assert_string_equal(error.message, "'9999' is not a valid DATETIME_AS: it is outside the range of the type");
  char longer[200];
  memset(longer, 'x', sizeof longer);
  memcpy(longer + 63, "\xc3\xa9", 2); /* a character that begins before the 64th byte and ends behind it */
  tsr_datetime_parse(TSR_TIME_SEC, longer, sizeof longer, &value, &error);
  assert_string_equal(error.message,
                      "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...' is not a valid TIME_SEC: "
                      "the hour is not 00 to 23");
}

/* The place of texts of any precision among the values of a unit. */
static void test_a_text_between_two_values_has_a_place(void **state) {
  static const struct {
    tsr_datatype datatype;
    const char *text;
    tsr_instant_place place;
    int64_t value;
  } cases[] = {
      {TSR_DATETIME_DAY, "2024-01-31", TSR_INSTANT_AT, 19753},
      {TSR_DATETIME_DAY, "2024-01-31 00:00:00.000Z", TSR_INSTANT_AT, 19753},
      {TSR_DATETIME_DAY, "2024-01-31T00:00:00.0000000000000000000001", TSR_INSTANT_BEFORE, 19754},
      {TSR_DATETIME_DAY, "2024-02", TSR_INSTANT_AT, 19754},
      {TSR_DATETIME_DAY, "1969-12-31T23", TSR_INSTANT_BEFORE, 0},
      {TSR_DATETIME_DAY, "1969-12-31 00:00", TSR_INSTANT_AT, -1},
      {TSR_DATETIME_WEEK, "1970-01-01", TSR_INSTANT_AT, 0},
      {TSR_DATETIME_WEEK, "1970-01-02", TSR_INSTANT_BEFORE, 1},
      {TSR_DATETIME_WEEK, "1969-12-31", TSR_INSTANT_BEFORE, 0},
      {TSR_DATETIME_MONTH, "1970-02-01", TSR_INSTANT_AT, 1},
      {TSR_DATETIME_MONTH, "1970-02-01 00:01", TSR_INSTANT_BEFORE, 2},
      {TSR_DATETIME_YEAR, "1969-12-31", TSR_INSTANT_BEFORE, 0},
      {TSR_DATETIME_YEAR, "1969-01", TSR_INSTANT_AT, -1},
      {TSR_DATETIME_NS, "1969-12-31 23:59:59.9999999995", TSR_INSTANT_BEFORE, 0},
      {TSR_DATETIME_NS, "2262-04-11 23:47:16.854775807", TSR_INSTANT_AT, INT64_MAX},
      {TSR_DATETIME_NS, "2262-04-11 23:47:16.854775808", TSR_INSTANT_END, INT64_MAX},
      {TSR_DATETIME_NS, "1677-09-21 00:12:43.145224193", TSR_INSTANT_AT, INT64_MIN + 1},
      {TSR_DATETIME_NS, "1677-09-21 00:12:43.145224192", TSR_INSTANT_BEFORE, INT64_MIN + 1},
      {TSR_DATETIME_AS, "0000", TSR_INSTANT_BEFORE, INT64_MIN + 1},
      {TSR_DATETIME_AS, "9999", TSR_INSTANT_END, INT64_MAX},
      {TSR_DATETIME_DAY, "2024-01-31T01:00+01:00", TSR_INSTANT_AT, 19753},
      {TSR_DATETIME_DAY, "2024-01-31T00:00+01:00", TSR_INSTANT_BEFORE, 19753},
      {TSR_DATETIME_DAY, "2024-01-31T23:00 -0100", TSR_INSTANT_AT, 19754},
      {TSR_DATETIME_MONTH, "1970-01-31T22:30-01:30", TSR_INSTANT_AT, 1},
      {TSR_DATETIME_YEAR, "1970-01-01T00:00+00:01", TSR_INSTANT_BEFORE, 0},
      {TSR_DATETIME_SEC, "0000-01-01T00:00+00:01", TSR_INSTANT_NONE, 0},
      {TSR_DATETIME_SEC, "9999-12-31T23:59-00:01", TSR_INSTANT_NONE, 0},
      {TSR_DATETIME_DAY, "2024-01-31+01:00", TSR_INSTANT_NONE, 0},
      {TSR_TIME_MIN, "05:06+01:00", TSR_INSTANT_NONE, 0},
      {TSR_TIME_MIN, "05:06", TSR_INSTANT_AT, 306},
      {TSR_TIME_MIN, "05:06:00.5", TSR_INSTANT_BEFORE, 307},
      {TSR_TIME_SEC, "2024-01-01", TSR_INSTANT_NONE, 0},
      {TSR_DATETIME_DAY, "2024-01-0", TSR_INSTANT_NONE, 0},
      {TSR_DATETIME_DAY, "2024-02-30", TSR_INSTANT_NONE, 0},
      {TSR_DATETIME_DAY, "", TSR_INSTANT_NONE, 0},
      {TSR_INT64, "2024", TSR_INSTANT_NONE, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t value;
    if (tsr_datetime_place(cases[i].datatype, cases[i].text, strlen(cases[i].text), &value) != cases[i].place ||
        (cases[i].place != TSR_INSTANT_NONE && value != cases[i].value))
      fail_msg("%s among %s: %lld", cases[i].text, tsr_datatype_name(cases[i].datatype), (long long)value);
  }
}

/* Days since 1970 for Arrow's date32, at both ends of what each unit has. */
static void test_values_have_a_day(void **state) {
  (void)state;
  static const struct {
    tsr_datatype datatype;
    int64_t value;
    bool has_day;
    int32_t day;
  } cases[] = {
      {TSR_DATETIME_YEAR, -1971, false, 0},
      {TSR_DATETIME_YEAR, -1970, true, -719528},
      {TSR_DATETIME_YEAR, -1, true, -365},
      {TSR_DATETIME_YEAR, 0, true, 0},
      {TSR_DATETIME_YEAR, 8029, true, 2932532},
      {TSR_DATETIME_YEAR, 8030, false, 0},
      {TSR_DATETIME_YEAR, INT64_MIN, false, 0},
      {TSR_DATETIME_MONTH, -23641, false, 0},
      {TSR_DATETIME_MONTH, -23640, true, -719528},
      {TSR_DATETIME_MONTH, -1, true, -31},
      {TSR_DATETIME_MONTH, 1, true, 31},
      {TSR_DATETIME_MONTH, 96359, true, 2932866},
      {TSR_DATETIME_MONTH, 96360, false, 0},
      {TSR_DATETIME_MONTH, INT64_MAX, false, 0},
      {TSR_DATETIME_WEEK, INT32_MIN / 7 - 1, false, 0},
      {TSR_DATETIME_WEEK, INT32_MIN / 7, true, INT32_MIN / 7 * 7},
      {TSR_DATETIME_WEEK, -1, true, -7},
      {TSR_DATETIME_WEEK, INT32_MAX / 7, true, INT32_MAX / 7 * 7},
      {TSR_DATETIME_WEEK, INT32_MAX / 7 + 1, false, 0},
      {TSR_DATETIME_WEEK, INT64_MAX, false, 0},
      {TSR_DATETIME_DAY, INT64_C(-2147483649), false, 0},
      {TSR_DATETIME_DAY, INT32_MIN, true, INT32_MIN},
      {TSR_DATETIME_DAY, INT32_MAX, true, INT32_MAX},
      {TSR_DATETIME_DAY, INT64_C(2147483648), false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int32_t day = 0;
    if (tsr__datetime_day(cases[i].datatype, cases[i].value, &day) != cases[i].has_day ||
        (cases[i].has_day && day != cases[i].day))
      fail_msg("%lld of %s: day %d", (long long)cases[i].value, tsr_datatype_name(cases[i].datatype), (int)day);
  }
}

static void test_an_instant_is_a_part_of_the_unit_behind_a_value(void **state) {
  (void)state;
  static const struct {
    tsr_datatype datatype;
    const char *text;
    double part;
  } cases[] = {
      {TSR_DATETIME_DAY, "2024-01-01", 0},
      {TSR_DATETIME_DAY, "1969-12-31 18:00", 0.75},
      {TSR_DATETIME_WEEK, "1970-01-02 12:00", 1.5 / 7},
      {TSR_DATETIME_MONTH, "2024-02-15 12:00", 0.5},
      {TSR_DATETIME_MONTH, "2023-12-16 12:00", 0.5},
      {TSR_DATETIME_YEAR, "2024-07-02", 0.5},
      {TSR_DATETIME_SEC, "1969-12-31 23:59:59.25", 0.25},
      {TSR_DATETIME_US, "1600-01-01 00:00:00.0000005", 0.5},
      {TSR_TIME_MIN, "05:06:15", 0.25},
      {TSR_TIME_NS, "05:06:15.00000000075", 0.75},
      {TSR_TIME_SEC, "nonsense", 0},
      {TSR_INT64, "2024", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const double part = tsr_datetime_part(cases[i].datatype, cases[i].text, strlen(cases[i].text));
    if (part < cases[i].part - 1e-12 || part > cases[i].part + 1e-12)
      fail_msg("%s in %s: %g", cases[i].text, tsr_datatype_name(cases[i].datatype), part);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts_match_those_of_numpy),
                                     cmocka_unit_test(test_a_text_between_two_values_has_a_place),
                                     cmocka_unit_test(test_values_have_a_day),
                                     cmocka_unit_test(test_an_instant_is_a_part_of_the_unit_behind_a_value),
                                     cmocka_unit_test(test_every_day_matches_a_slow_calendar),
                                     cmocka_unit_test(test_values_come_back_from_their_text),
                                     cmocka_unit_test(test_times_of_day_are_printed_and_parsed),
                                     cmocka_unit_test(test_values_outside_the_years_have_no_text),
                                     cmocka_unit_test(test_shorter_texts_are_accepted),
                                     cmocka_unit_test(test_texts_finer_than_the_unit_are_refused),
                                     cmocka_unit_test(test_texts_outside_the_type_are_out_of_range),
                                     cmocka_unit_test(test_offsets_are_subtracted),
                                     cmocka_unit_test(test_other_datatypes_have_no_such_text),
                                     cmocka_unit_test(test_damaged_texts_are_refused),
                                     cmocka_unit_test(test_messages_say_what_is_wrong)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
