/* s3_state.h: a call of s3.h while it runs. A call consists of one request or several: pages of a listing, parts of an
 * object after an answer that was cut, tries. s3.c drives the calls, s3_request.c makes their requests, s3_take.c and
 * s3_get.c take their answers, s3_retry.c judges them. */
#ifndef TSR_S3_STATE_H
#define TSR_S3_STATE_H

#include "remote/s3_answer.h"
#include "remote/s3_scope.h"

typedef enum tsr_s3_phase { TSR_S3_WAITS, TSR_S3_FLIES, TSR_S3_ENDED } tsr_s3_phase;

/* What the present request is for. The last two settle whose object it is that a conditional PUT has met. */
typedef enum tsr_s3_step {
  TSR_S3_STEP_CALL, /* the call itself */
  TSR_S3_STEP_LOOK, /* a HEAD */
  TSR_S3_STEP_COMPARE /* a GET of the object, to compare its bytes */
} tsr_s3_step;

/* What comes after an answer. */
typedef enum tsr_s3_verdict {
  TSR_S3_DONE, /* the call has succeeded */
  TSR_S3_NEXT, /* the call has advanced: send its next request */
  TSR_S3_SOON, /* something was mended: try again without a pause */
  TSR_S3_AGAIN, /* try again after a pause; call->error says what was wrong */
  TSR_S3_FAILED /* call->error is set */
} tsr_s3_verdict;

/* When the next request leaves, and what was corrected since the call began. s3_retry.c decides it. */
typedef struct tsr_s3_tries {
  uint64_t due; /* when to send, by tsr__s3_ticks */
  uint32_t failed; /* since the call last advanced */
  bool again; /* the next request repeats the last one */
  bool fresh; /* use a new connection */
  bool renewed, moved, dated; /* keys, region and clock were corrected; each at most once */
  uint64_t refused; /* the keys with this number have expired */
} tsr_s3_tries;

/* What a GET has so far: `have` bytes are in place, the first of which is byte `first` of the object; `end` is behind
 * the last one that it wants. For s3_get.c. */
typedef struct tsr_s3_got {
  uint64_t base; /* size of the caller's buffer before */
  uint64_t have, first, end, total; /* valid if `placed`; UINT64_MAX: not known */
  bool placed, unranged; /* unranged: the whole object in place of a suffix that is longer */
  tsr_etag etag;
} tsr_s3_got;

/* LIST, UPLOAD_LIST: where the next page begins. Size 0: the first page. */
typedef struct tsr_s3_page {
  tsr_buffer token, token_id; /* of UPLOAD_LIST: its markers */
} tsr_s3_page;

/* DELETE_MANY: how far it is. */
typedef struct tsr_s3_deleted {
  uint64_t at, batch; /* the first key of this request, and how many it has */
  bool singly; /* the server refuses requests with many keys */
} tsr_s3_deleted;

#define TSR_S3_MARK_SIZE 72u

/* A conditional PUT or completion: whose object it is that stands in its way. For s3_take.c. */
typedef struct tsr_s3_owner {
  tsr_error met; /* STEP_LOOK and _COMPARE: what the server answered to the call itself */
  char mark[TSR_S3_MARK_SIZE]; /* PUT with new_only: a Content-Type that no other request has */
} tsr_s3_owner;

typedef struct tsr_s3_state {
  tsr_s3_call *call; /* borrowed */
  tsr_memory *memory; /* borrowed */
  tsr_s3_scope *scope; /* a reference */
  tsr_s3_phase phase;
  tsr_s3_step step;
  tsr_s3_tries tries;

  tsr_s3_got got;
  tsr_s3_page page;
  tsr_s3_deleted deleted;
  tsr_s3_owner owner;

  tsr_http_request http;
  tsr_s3_signed made;
  tsr_buffer body; /* of a request, if the call has none itself */
  tsr_buffer answer; /* what the server sent, unless it goes to the caller */
  tsr_arena arena; /* texts of the answer */
} tsr_s3_state;

#endif
