/* http_response.h: the head of an HTTP answer: its status, and the few headers that matter. */
#ifndef TSR_REMOTE_HTTP_RESPONSE_H
#define TSR_REMOTE_HTTP_RESPONSE_H

#include "tessera.h"

/* Texts are empty if the header is missing or longer than its room. */
typedef struct tsr_http_answer {
  uint32_t status; /* 0: no status line arrived */
  bool has_length, has_range; /* content_length; range_* are known */
  uint64_t content_length; /* in bytes */
  uint64_t range_first, range_last; /* of Content-Range, both inclusive; UINT64_MAX both if no byte fits ("*") */
  uint64_t range_size; /* of the whole object; UINT64_MAX: not known */
  uint32_t retry_after; /* in seconds; 0: none */
  int64_t date, last_modified; /* in milliseconds since 1970; INT64_MIN: none */
  char etag[136]; /* with its quotes */
  char content_type[96];
  char request_id[136]; /* x-amz-request-id */
  char bucket_region[64]; /* x-amz-bucket-region */
} tsr_http_answer;

/* Makes an answer of which nothing has arrived. */
void tsr__http_answer_clear(tsr_http_answer *answer);

/* Reads one line of the head, as it came: with or without its line end. A status line begins the answer anew, because
 * interim answers (100 Continue) come before the real one. Other lines that mean nothing here are ignored, and so are
 * values that make no sense, such as a length that is not a number. */
void tsr__http_answer_line(tsr_http_answer *answer, const void *line, uint64_t size);

/* Instants as HTTP, XML and JSON answers write them, and as signatures need them. */

/* Reads a time: "Sun, 06 Nov 1994 08:49:37 GMT" of HTTP headers, or ISO 8601 as "2026-11-22T10:20:30Z", with a fraction
 * of seconds of any length and "Z", "+hh:mm" or "-hh:mm" behind it. Returns false, and leaves *ms as it is, if `text`
 * is neither, or lies outside the years 1 to 9999. *ms: milliseconds since 1970-01-01 UTC, rounded down. */
bool tsr__http_time_parse(const char *text, int64_t *ms);

#define TSR_HTTP_STAMP_SIZE 17

/* Writes the time as "20261122T102030Z" and a NUL byte. Times outside the years 1 to 9999 become the nearest one. */
void tsr__http_time_stamp(int64_t ms, char stamp[TSR_HTTP_STAMP_SIZE]);

#endif
