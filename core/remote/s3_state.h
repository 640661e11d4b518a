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

#define TSR_S3_MARK_SIZE 72u

typedef struct tsr_s3_state {
  tsr_s3_call *call; /* borrowed */
  tsr_memory *memory; /* borrowed */
  tsr_s3_scope *scope; /* a reference */
  tsr_s3_phase phase;
  tsr_s3_step step;
  uint64_t due; /* when to send, by tsr__s3_ticks */
  uint32_t tries; /* that failed since the call last advanced */
  bool again; /* the next request repeats the last one */
  bool renewed, moved, dated; /* keys, region and clock were corrected; each at most once */
  bool fresh; /* use a new connection */
  uint64_t refused; /* the keys with this number have expired */

  /* GET: `have` bytes are in place, the first of which is byte `first` of the object; `end` is behind the last one */
  uint64_t base; /* size of the caller's buffer before */
  uint64_t have, first, end, total; /* valid if `placed`; UINT64_MAX: not known */
  bool placed, unranged; /* unranged: the whole object in place of a suffix that is longer */
  tsr_etag etag;

  tsr_buffer token, token_id; /* LIST: the next page; UPLOAD_LIST: its markers. Size 0: the first page */
  uint64_t at, batch; /* DELETE_MANY: the first key of this request, and how many it has */
  tsr_error met; /* STEP_LOOK and _COMPARE: what the server answered to the call itself */
  bool singly; /* DELETE_MANY: the server refuses requests with many keys */
  char mark[TSR_S3_MARK_SIZE]; /* PUT with new_only: a Content-Type that no other request has */

  tsr_http_request http;
  tsr_s3_signed made;
  tsr_buffer body; /* of a request, if the call has none itself */
  tsr_buffer answer; /* what the server sent, unless it goes to the caller */
  tsr_arena arena; /* texts of the answer */
} tsr_s3_state;

/* Makes and signs the present request. Errors: of the keys; TSR_TOOBIG. */
int tsr__s3_request_make(tsr_s3_state *state, tsr_error *error);

/* Takes the answer of a finished request. Sets call->error unless the verdict is DONE or NEXT. */
tsr_s3_verdict tsr__s3_take(tsr_s3_state *state);

/* ---- GET (s3_get.c) -------------------------------------------------------------------------- */

/* Writes the Range that the next request has, or "". `end` is behind the most bytes that the answer may have. */
void tsr__s3_get_range(const tsr_s3_state *state, char range[64]);

/* Lets the body go to its place. Errors: TSR_TOOBIG if the place has no room for what is requested. */
int tsr__s3_get_prepare(tsr_s3_state *state, tsr_error *error);

/* Takes an answer with status 200 or 206, also one that was cut. */
tsr_s3_verdict tsr__s3_get_take(tsr_s3_state *state);

/* Gives the caller's buffer back, with `have` bytes of the object in it. */
void tsr__s3_get_return(tsr_s3_state *state);

/* Begins anew. */
void tsr__s3_get_restart(tsr_s3_state *state);

/* ---- Failures (s3_retry.c) ------------------------------------------------------------------- */

/* Sets call->error: "s3://bucket/key: GET: what (status 403 AccessDenied, request 17)". Returns FAILED. */
tsr_s3_verdict tsr__s3_fail(tsr_s3_state *state, int rc, const char *code, const char *format, ...) TSR_PRINTF(4, 5);

/* The same for what may be mended by trying again: returns AGAIN. */
#define TSR_S3_FAIL_AGAIN(...) (tsr__s3_fail(__VA_ARGS__), TSR_S3_AGAIN)

/* Judges an answer that is not one of success, or that is behind status 200: `failure` is its <Error>, or NULL. */
tsr_s3_verdict tsr__s3_judge(tsr_s3_state *state, const tsr_s3_failure *failure);

/* Judges a request without a whole answer. */
tsr_s3_verdict tsr__s3_judge_transport(tsr_s3_state *state);

/* Plans the next try: sets `due`. Returns false if there were enough. */
bool tsr__s3_plan_retry(tsr_s3_state *state, tsr_s3_verdict verdict);

uint64_t tsr__s3_ticks(void); /* milliseconds of a clock that is never set */

#endif
