/* s3_retry.h: judges answers that are not those of success, and plans further tries. */
#ifndef TSR_S3_RETRY_H
#define TSR_S3_RETRY_H

#include "remote/s3_state.h"

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
