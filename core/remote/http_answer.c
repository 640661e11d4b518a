/* http_answer.c: the head of an HTTP answer, line by line (RFC 9110, RFC 9112). Names of headers are compared without
 * case. Nothing here fails: what is not understood counts as missing, and the caller checks what it needs. */
#include "remote/http_answer.h"

#include <string.h>

#include "base/arithmetic.h"
#include "remote/http_time.h"

typedef struct head_text {
  const char *at;
  uint64_t size;
} head_text;

void tsr__http_answer_clear(tsr_http_answer *answer) {
  *answer = (tsr_http_answer){.date = INT64_MIN, .last_modified = INT64_MIN};
}

static char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

/* `name` is in lower case. */
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

/* Copies a text that fits and has no control characters; otherwise the copy is empty. */
static void head_copy(head_text text, char *out, uint64_t room) {
  out[0] = 0;
  if (text.size >= room) return;
  for (uint64_t i = 0; i < text.size; i++)
    if ((uint8_t)text.at[i] < 0x20 || text.at[i] == 0x7f) return;
  memcpy(out, text.at, text.size);
  out[text.size] = 0;
}

/* Reads digits from the beginning of the text and removes them. Returns false without any, or past 2^64 - 2. */
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

/* "bytes 0-99/1234", "bytes 0-99" and an asterisk for an unknown size, "bytes" and an asterisk for no range */
static bool read_range(head_text text, tsr_http_answer *answer) {
  uint64_t first = UINT64_MAX, last = UINT64_MAX, size = UINT64_MAX;
  if (text.size < 6 || !head_is((head_text){text.at, 5}, "bytes") || text.at[5] != ' ') return false;
  text = head_trim((head_text){text.at + 6, text.size - 6});
  if (!head_char(&text, '*') &&
      !(head_number(&text, &first) && head_char(&text, '-') && head_number(&text, &last) && first <= last))
    return false;
  if (!head_char(&text, '/') || (!head_char(&text, '*') && !head_number(&text, &size)) || text.size > 0) return false;
  if (first != UINT64_MAX && last >= size) return false;
  answer->range_first = first;
  answer->range_last = last;
  answer->range_size = size;
  return true;
}

static int64_t read_date(head_text text) {
  char copy[64];
  int64_t ms;
  head_copy(text, copy, sizeof copy);
  return tsr__http_time_parse(copy, &ms) ? ms : INT64_MIN;
}

static void read_known_header(tsr_http_answer *answer, head_text name, head_text value) {
  head_text number = value;
  uint64_t count;
  if (head_is(name, "content-length")) {
    answer->has_length = head_number(&number, &count) && number.size == 0;
    answer->content_length = answer->has_length ? count : 0;
  } else if (head_is(name, "content-range")) answer->has_range = read_range(value, answer);
  else if (head_is(name, "retry-after")) {
    if (head_number(&number, &count) && number.size == 0) answer->retry_after = (uint32_t)TSR_MIN(count, UINT32_MAX);
  } else if (head_is(name, "date")) answer->date = read_date(value);
  else if (head_is(name, "last-modified")) answer->last_modified = read_date(value);
  else if (head_is(name, "etag")) head_copy(value, answer->etag, sizeof answer->etag);
  else if (head_is(name, "content-type")) head_copy(value, answer->content_type, sizeof answer->content_type);
  else if (head_is(name, "x-amz-request-id")) head_copy(value, answer->request_id, sizeof answer->request_id);
  else if (head_is(name, "x-amz-bucket-region")) head_copy(value, answer->bucket_region, sizeof answer->bucket_region);
}

void tsr__http_answer_line(tsr_http_answer *answer, const void *line, uint64_t size) {
  const head_text text = {line, size};
  uint32_t status;
  if (read_status(text, &status)) {
    tsr__http_answer_clear(answer);
    answer->status = status;
    return;
  }
  const char *colon = size > 0 ? memchr(line, ':', size) : NULL;
  if (!colon) return;
  const uint64_t name = (uint64_t)(colon - text.at);
  read_known_header(answer, (head_text){text.at, name}, head_trim((head_text){colon + 1, size - name - 1}));
}
