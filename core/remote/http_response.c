/* http_response.c: parses the head of an HTTP response line by line (RFC 9110, RFC 9112), and times. Header names are
 * compared case-insensitively. Nothing here fails: what cannot be parsed counts as missing, and the caller checks that
 * it has what it needs. */
#include "remote/http_response.h"

#include <string.h>
#include <stdio.h>

#include "base/arithmetic.h"

typedef struct head_text {
  const char *at;
  uint64_t size;
} head_text;

void tsr__http_response_clear(tsr_http_response *response) {
  *response = (tsr_http_response){.date = INT64_MIN, .last_modified = INT64_MIN};
}

static char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

/* Compares case-insensitively; `name` is in lower case. */
static bool head_is(head_text text, const char *name) {
  const uint64_t size = strlen(name);
  if (text.size != size) return false;
  for (uint64_t i = 0; i < size; i++)
    if (lower_ascii(text.at[i]) != name[i]) return false;
  return true;
}

static head_text head_trim(head_text text) {
  while (text.size > 0 && strchr(" \t\r\n", text.at[0]) && text.at[0]) text.at++, text.size--;
  while (text.size > 0 && text.at[text.size - 1] && strchr(" \t\r\n", text.at[text.size - 1])) text.size--;
  return text;
}

/* Copies a text if it fits and has no control characters; otherwise the copy is empty. */
static void head_copy(head_text text, char *out, uint64_t room) {
  out[0] = 0;
  if (text.size >= room) return;
  for (uint64_t i = 0; i < text.size; i++)
    if ((uint8_t)text.at[i] < 0x20 || text.at[i] == 0x7f) return;
  memcpy(out, text.at, text.size);
  out[text.size] = 0;
}

/* Reads and removes leading digits. Returns false if there are none, or past 2^64 - 2. */
static bool head_number(head_text *text, uint64_t *value) {
  uint64_t sum = 0, digits = 0;
  while (text->size > 0 && *text->at >= '0' && *text->at <= '9') {
    if (!tsr__mul(sum, 10, &sum) || !tsr__add(sum, (uint64_t)(*text->at - '0'), &sum)) return false;
    text->at++, text->size--, digits++;
  }
  *value = sum;
  return digits > 0 && sum < UINT64_MAX;
}

static bool head_char(head_text *text, char wanted) {
  if (text->size == 0 || *text->at != wanted) return false;
  text->at++, text->size--;
  return true;
}

/* "HTTP/1.1 206 Partial Content" */
static bool read_status(head_text line, uint32_t *status) {
  uint64_t number;
  if (line.size < 5 || memcmp(line.at, "HTTP/", 5) != 0) return false;
  const char *space = memchr(line.at, ' ', line.size);
  if (!space) return false;
  head_text rest = head_trim((head_text){space, line.size - (uint64_t)(space - line.at)});
  if (!head_number(&rest, &number) || number < 100 || number > 999) return false;
  *status = (uint32_t)number;
  return true;
}

/* "bytes 0-99/1234"; an asterisk after '/' means an unknown size, an asterisk before it an unsatisfied range */
static bool read_range(head_text text, tsr_http_response *response) {
  uint64_t first = UINT64_MAX, last = UINT64_MAX, size = UINT64_MAX;
  if (text.size < 6 || !head_is((head_text){text.at, 5}, "bytes") || text.at[5] != ' ') return false;
  text = head_trim((head_text){text.at + 6, text.size - 6});
  if (!head_char(&text, '*') &&
      !(head_number(&text, &first) && head_char(&text, '-') && head_number(&text, &last) && first <= last))
    return false;
  if (!head_char(&text, '/') || (!head_char(&text, '*') && !head_number(&text, &size)) || text.size > 0) return false;
  if (first != UINT64_MAX && last >= size) return false;
  response->range_first = first;
  response->range_last = last;
  response->range_size = size;
  return true;
}

static int64_t read_date(head_text text) {
  char copy[64];
  int64_t ms;
  head_copy(text, copy, sizeof copy);
  return tsr__http_time_parse(copy, &ms) ? ms : INT64_MIN;
}

/* The last coding is the one that tells where the body ends. */
static bool ends_chunked(head_text codings) {
  const uint64_t size = strlen("chunked");
  return codings.size >= size && head_is((head_text){codings.at + codings.size - size, size}, "chunked");
}

static void read_known_header(tsr_http_response *response, head_text name, head_text value) {
  head_text number = value;
  uint64_t count;
  if (head_is(name, "content-length")) {
    response->has_length = head_number(&number, &count) && number.size == 0;
    response->content_length = response->has_length ? count : 0;
  } else if (head_is(name, "transfer-encoding")) response->is_chunked = ends_chunked(value);
  else if (head_is(name, "content-range")) response->has_range = read_range(value, response);
  else if (head_is(name, "retry-after")) {
    if (head_number(&number, &count) && number.size == 0) response->retry_after = (uint32_t)TSR_MIN(count, UINT32_MAX);
  } else if (head_is(name, "date")) response->date = read_date(value);
  else if (head_is(name, "last-modified")) response->last_modified = read_date(value);
  else if (head_is(name, "etag")) head_copy(value, response->etag, sizeof response->etag);
  else if (head_is(name, "content-type")) head_copy(value, response->content_type, sizeof response->content_type);
  else if (head_is(name, "x-ms-error-code")) head_copy(value, response->error_code, sizeof response->error_code);
  else if (head_is(name, "x-ms-copy-status")) head_copy(value, response->copy_status, sizeof response->copy_status);
  else if (head_is(name, "metadata-flavor"))
    head_copy(value, response->metadata_flavor, sizeof response->metadata_flavor);
  else if (head_is(name, "x-amz-request-id") || head_is(name, "x-ms-request-id"))
    head_copy(value, response->request_id, sizeof response->request_id);
  else if (head_is(name, "x-amz-bucket-region"))
    head_copy(value, response->bucket_region, sizeof response->bucket_region);
}

void tsr__http_response_line(tsr_http_response *response, const void *line, uint64_t size) {
  const head_text text = {line, size};
  uint32_t status;
  if (read_status(text, &status)) {
    tsr__http_response_clear(response);
    response->status = status;
    return;
  }
  const char *colon = size > 0 ? memchr(line, ':', size) : NULL;
  if (!colon) return;
  const uint64_t name = (uint64_t)(colon - text.at);
  read_known_header(response, (head_text){text.at, name}, head_trim((head_text){colon + 1, size - name - 1}));
}

/* ---- Times -----------------------------------------------------------------------------------
 *
 * Days are counted in the proleptic Gregorian calendar, as <time.h> does, but independently of the process's locale and
 * time zone. */

#define DAY_MS INT64_C(86400000)

/* A time that is being parsed. */
typedef struct http_clock {
  int64_t year, month, day, hour, minute, second;
  int64_t ms; /* to add: the fraction of a second, minus the offset from UTC */
} http_clock;

/* Days from 1970-01-01 to a date. Years start in March, so that a leap day is the last day of its year. */
static int64_t count_days(int64_t year, int64_t month, int64_t day) {
  const int64_t y = year - (month <= 2), m = (month + 9) % 12;
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719468;
}

static bool clock_is_valid(const http_clock *c) {
  static const int8_t days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (c->year < 1 || c->month < 1 || c->month > 12 || c->day < 1 || c->day > days[c->month - 1]) return false;
  const bool leap = c->year % 4 == 0 && (c->year % 100 != 0 || c->year % 400 == 0);
  return (c->month != 2 || c->day < 29 || leap) && c->hour < 24 && c->minute < 60 && c->second <= 60;
}

/* Reads exactly `count` digits. */
static bool take_time_digits(const char **at, int count, int64_t *value) {
  *value = 0;
  for (int i = 0; i < count; i++, (*at)++) {
    if (**at < '0' || **at > '9') return false;
    *value = *value * 10 + (**at - '0');
  }
  return true;
}

static bool take_char(const char **at, char wanted) {
  if (**at != wanted) return false;
  (*at)++;
  return true;
}

static bool take_http_clock(const char **at, http_clock *c) {
  return take_time_digits(at, 2, &c->hour) && take_char(at, ':') && take_time_digits(at, 2, &c->minute) &&
         take_char(at, ':') && take_time_digits(at, 2, &c->second);
}

/* Reads "Z", "+hh:mm" or "-hh:mm". */
static bool take_zone(const char **at, http_clock *c) {
  int64_t hours, minutes;
  const char sign = **at;
  if (take_char(at, 'Z')) return true;
  if (sign != '+' && sign != '-') return false;
  (*at)++;
  if (!take_time_digits(at, 2, &hours) || !take_char(at, ':') || !take_time_digits(at, 2, &minutes)) return false;
  if (hours > 23 || minutes > 59) return false;
  c->ms += (sign == '+' ? -1 : 1) * (hours * 60 + minutes) * 60000;
  return true;
}

static bool take_iso_time(const char *at, http_clock *c) {
  if (!take_time_digits(&at, 4, &c->year) || !take_char(&at, '-') || !take_time_digits(&at, 2, &c->month) ||
      !take_char(&at, '-') || !take_time_digits(&at, 2, &c->day) || !take_char(&at, 'T') || !take_http_clock(&at, c))
    return false;
  if (take_char(&at, '.')) {
    int64_t unit = 100;
    if (*at < '0' || *at > '9') return false;
    for (; *at >= '0' && *at <= '9'; at++, unit /= 10) c->ms += unit * (*at - '0');
  }
  return take_zone(&at, c) && *at == 0;
}

static bool take_imf_time(const char *at, http_clock *c) {
  static const char days[] = "Mon Tue Wed Thu Fri Sat Sun ", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  char name[4];
  if (strlen(at) != strlen("Sun, 06 Nov 1994 08:49:37 GMT") || at[3] != ',' || at[4] != ' ') return false;
  memcpy(name, at, 3);
  name[3] = 0;
  if (!strstr(days, name)) return false;
  at += 5;
  if (!take_time_digits(&at, 2, &c->day) || !take_char(&at, ' ')) return false;
  for (c->month = 1; c->month <= 12 && memcmp(at, months + 3 * (c->month - 1), 3) != 0;) c->month++;
  at += 3;
  return take_char(&at, ' ') && take_time_digits(&at, 4, &c->year) && take_char(&at, ' ') && take_http_clock(&at, c) &&
         strcmp(at, " GMT") == 0;
}

bool tsr__http_time_parse(const char *text, int64_t *ms) {
  http_clock c = {0};
  const bool digit = *text >= '0' && *text <= '9';
  if (!(digit ? take_iso_time(text, &c) : take_imf_time(text, &c)) || !clock_is_valid(&c)) return false;
  *ms = count_days(c.year, c.month, c.day) * DAY_MS + ((c.hour * 60 + c.minute) * 60 + c.second) * 1000 + c.ms;
  return true;
}

/* The date that is `days` after 1970-01-01; the inverse of count_days. */
static void find_date(int64_t days, int64_t *year, int64_t *month, int64_t *day) {
  const int64_t since = days + 719468; /* since 0000-03-01 */
  const int64_t era = since / 146097, of_era = since - era * 146097;
  const int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;
  *day = of_year - (153 * m + 2) / 5 + 1;
  *month = m < 10 ? m + 3 : m - 9;
  *year = y + era * 400 + (*month <= 2);
}

/* The parts of a time, which is clamped to the years 1 to 9999. */
static http_clock clock_of(int64_t ms, int *weekday) {
  const int64_t first = count_days(1, 1, 1) * DAY_MS, last = count_days(10000, 1, 1) * DAY_MS - 1;
  http_clock c = {0};
  ms = ms < first ? first : ms > last ? last : ms;
  int64_t days = ms / DAY_MS, rest = ms % DAY_MS;
  if (rest < 0) days--, rest += DAY_MS;
  find_date(days, &c.year, &c.month, &c.day);
  rest /= 1000;
  c.hour = rest / 3600;
  c.minute = rest / 60 % 60;
  c.second = rest % 60;
  *weekday = (int)(((days + 3) % 7 + 7) % 7); /* 1970-01-01 was a Thursday; Monday is 0 */
  return c;
}

void tsr__http_time_stamp(int64_t ms, char stamp[TSR_HTTP_STAMP_SIZE]) {
  int weekday;
  const http_clock c = clock_of(ms, &weekday);
  char text[64];
  snprintf(text, sizeof text, "%04d%02d%02dT%02d%02d%02dZ", (int)c.year, (int)c.month, (int)c.day, (int)c.hour,
           (int)c.minute, (int)c.second);
  memcpy(stamp, text, TSR_HTTP_STAMP_SIZE - 1);
  stamp[TSR_HTTP_STAMP_SIZE - 1] = 0;
}

void tsr__http_date(int64_t ms, char date[TSR_HTTP_DATE_SIZE]) {
  static const char days[] = "MonTueWedThuFriSatSun", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  int weekday;
  const http_clock c = clock_of(ms, &weekday);
  char text[96];
  snprintf(text, sizeof text, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * weekday, (int)c.day,
           months + 3 * (c.month - 1), (int)c.year, (int)c.hour, (int)c.minute, (int)c.second);
  memcpy(date, text, TSR_HTTP_DATE_SIZE - 1);
  date[TSR_HTTP_DATE_SIZE - 1] = 0;
}
