/* http_response.h: the head of an HTTP response (its status, and the few headers that matter), and times. */
#ifndef TSR_REMOTE_HTTP_RESPONSE_H
#define TSR_REMOTE_HTTP_RESPONSE_H

#include "tessera.h"

/* Strings are empty if the header is missing or does not fit. */
typedef struct tsr_http_response {
  uint32_t status; /* 0: no status line arrived */
  bool has_length, has_range; /* content_length is known; range_* are known */
  bool is_chunked; /* the body tells its own end */
  uint64_t content_length; /* in bytes */
  uint64_t range_first, range_last; /* of Content-Range, inclusive; both UINT64_MAX for an unsatisfied range ("*") */
  uint64_t range_size; /* of the whole object; UINT64_MAX: not known */
  uint32_t retry_after; /* in seconds; 0: none */
  int64_t date, last_modified; /* in milliseconds since 1970; INT64_MIN: none */
  char etag[136]; /* with its quotes */
  char content_type[96];
  char request_id[136]; /* x-amz-request-id, x-ms-request-id */
  char error_code[72]; /* x-ms-error-code: a HEAD has no body that says it */
  char copy_status[16]; /* x-ms-copy-status */
  char metadata_flavor[16]; /* metadata-flavor: of Google's service for instances */
  char bucket_region[64]; /* x-amz-bucket-region */
} tsr_http_response;

/* Resets the response to empty. */
void tsr__http_response_clear(tsr_http_response *response);

/* Reads one line of the head, with or without its line end. A status line resets the response, because interim
 * responses (100 Continue) precede the final one. Other lines are ignored, and so are malformed values, such as a
 * length that is not a number. */
void tsr__http_response_line(tsr_http_response *response, const void *line, uint64_t size);

/* ---- Times in HTTP, XML and JSON, and as signatures need them ---- */

/* Reads a time: "Sun, 06 Nov 1994 08:49:37 GMT" in HTTP headers, or ISO 8601 like "2026-11-22T10:20:30Z", with optional
 * fractional seconds of any length, followed by "Z", "+hh:mm" or "-hh:mm". Returns false, and leaves *ms as it is, if
 * `text` is neither, or lies outside the years 1 to 9999. *ms: milliseconds since 1970-01-01 UTC, rounded down. */
bool tsr__http_time_parse(const char *text, int64_t *ms);

#define TSR_HTTP_STAMP_SIZE 17

/* Writes the time as "20261122T102030Z" and a NUL byte. Times outside the years 1 to 9999 are clamped. */
void tsr__http_time_stamp(int64_t ms, char stamp[TSR_HTTP_STAMP_SIZE]);

#define TSR_HTTP_DATE_SIZE 30

/* Writes the time as "Sun, 06 Nov 1994 08:49:37 GMT" and a NUL byte, clamped likewise. */
void tsr__http_date(int64_t ms, char date[TSR_HTTP_DATE_SIZE]);

#endif
