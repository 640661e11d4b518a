/* http_answer.h: the head of an HTTP answer: its status, and the few headers that matter. */
#ifndef TSR_HTTP_ANSWER_H
#define TSR_HTTP_ANSWER_H

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

#endif
