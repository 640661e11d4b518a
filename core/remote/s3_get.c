/* s3_get.c: the GET of a call: which bytes are requested, and whether the answer has them.
 *
 * An answer that is cut is not lost. The next request is for the rest, on the condition that the object is still the
 * same (If-Match). Content-Range is checked against what was requested: a server that ignores the range, or answers
 * another one, gives no bytes to the caller.
 */
#include "remote/s3_get.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "remote/s3_retry.h"

#define ADVANCE (UINT64_C(1) << 20) /* bytes after which a cut answer counts as no failed try */

/* The most bytes that the call takes. */
static uint64_t limit_of_get(const tsr_s3_call *call) {
  uint64_t limit = call->get.most > 0 ? call->get.most : UINT64_MAX;
  if (call->get.into) limit = TSR_MIN(limit, call->get.room);
  if (call->get.range != TSR_S3_WHOLE) limit = TSR_MIN(limit, call->get.size);
  return limit;
}

static bool is_ranged(const tsr_s3_state *state) {
  return (state->got.placed && state->got.have > 0) || (state->call->get.range != TSR_S3_WHOLE && !state->got.unranged);
}

void tsr__s3_get_range(const tsr_s3_state *state, char range[64]) {
  const tsr_s3_call *call = state->call;
  *range = 0;
  if (state->got.placed && state->got.have > 0 && state->got.end == UINT64_MAX)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-", state->got.first + state->got.have);
  else if (state->got.placed && state->got.have > 0)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, state->got.first + state->got.have, state->got.end - 1);
  else if (is_ranged(state) && call->get.range == TSR_S3_SUFFIX)
    (void)snprintf(range, 64, "bytes=-%" PRIu64, call->get.size);
  else if (is_ranged(state))
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, call->get.offset, call->get.offset + call->get.size - 1);
}

int tsr__s3_get_prepare(tsr_s3_state *state, tsr_error *error) {
  const tsr_s3_call *call = state->call;
  const uint64_t limit = limit_of_get(call);
  uint64_t last;
  if (call->get.range != TSR_S3_WHOLE && call->get.size > limit)
    return tsr__fail(error, TSR_TOOBIG, "%" PRIu64 " bytes requested, room for %" PRIu64, call->get.size, limit);
  if (call->get.range != TSR_S3_WHOLE && call->get.size == 0) return tsr__fail(error, TSR_RANGE, "a range of 0 bytes");
  if (call->get.range == TSR_S3_RANGE && !tsr__add(call->get.offset, call->get.size, &last))
    return tsr__fail(error, TSR_CORRUPT, "the range lies outside the object");
  state->http.most = limit - state->got.have;
  if (call->get.into) {
    state->http.into = (uint8_t *)call->get.into + state->got.have;
    state->http.received = state->answer;
    return TSR_OK;
  }
  call->get.buffer->size = state->got.base + state->got.have;
  if (limit < UINT64_MAX && call->get.range != TSR_S3_WHOLE)
    TSR_TRY(tsr__buffer_reserve_exactly(call->get.buffer, limit - state->got.have, error));
  state->http.received = *call->get.buffer; /* given back by tsr__s3_get_return */
  call->get.buffer->data = NULL;
  call->get.buffer->size = call->get.buffer->capacity = 0;
  return TSR_OK;
}

void tsr__s3_get_return(tsr_s3_state *state) {
  tsr_s3_call *call = state->call;
  if (call->get.into) {
    state->answer = state->http.received;
  } else {
    *call->get.buffer = state->http.received;
    call->get.buffer->size = TSR_MIN(call->get.buffer->size, state->got.base + state->got.have);
  }
  state->http.received = (tsr_buffer){.memory = state->memory};
}

void tsr__s3_get_restart(tsr_s3_state *state) {
  state->got.have = 0;
  state->got.placed = false;
}

/* ---- Where the bytes of an answer belong ----------------------------------------------------- */

/* The first answer with a Content-Range. */
static bool place_range(tsr_s3_state *state) {
  const tsr_http_answer *a = &state->http.answer;
  const tsr_s3_call *call = state->call;
  if (!a->has_range && call->get.range == TSR_S3_SUFFIX && a->has_length && a->content_length == 0) {
    state->got.first = state->got.end = state->got.total = 0; /* an empty object, as minio answers */
    return true;
  }
  if (!a->has_range || a->range_first > a->range_last || a->range_last == UINT64_MAX) return false;
  if (a->range_size != UINT64_MAX && a->range_last >= a->range_size) return false;
  state->got.first = a->range_first;
  state->got.total = a->range_size;
  if (call->get.range == TSR_S3_SUFFIX) {
    if (state->got.total == UINT64_MAX ||
        a->range_first != state->got.total - TSR_MIN(call->get.size, state->got.total))
      return false;
    state->got.end = state->got.total;
    return true;
  }
  if (call->get.range != TSR_S3_RANGE || a->range_first != call->get.offset) return false;
  state->got.end = TSR_MIN(call->get.offset + call->get.size, state->got.total);
  return a->range_last < state->got.end;
}

/* The answer of a request for the rest. */
static bool place_rest(const tsr_s3_state *state) {
  const tsr_http_answer *a = &state->http.answer;
  return a->status == 206 && a->has_range && a->range_first == state->got.first + state->got.have &&
         a->range_last >= a->range_first && a->range_last < state->got.end &&
         strcmp(a->etag, state->got.etag.text) == 0 &&
         (a->range_size == UINT64_MAX || state->got.total == UINT64_MAX || a->range_size == state->got.total);
}

/* The first answer, with the whole object. */
static bool place_whole(tsr_s3_state *state) {
  const tsr_http_answer *a = &state->http.answer;
  const tsr_s3_call *call = state->call;
  if (is_ranged(state) && (!a->has_length || a->content_length > call->get.size ||
                           (call->get.range == TSR_S3_RANGE && call->get.offset > 0)))
    return false;
  state->got.first = 0;
  state->got.end = state->got.total = a->has_length ? a->content_length : UINT64_MAX;
  return true;
}

static bool place(tsr_s3_state *state) {
  const tsr_http_answer *a = &state->http.answer;
  if (state->got.placed && state->got.have > 0) return place_rest(state);
  if (!(a->status == 206 ? place_range(state) : place_whole(state))) return false;
  (void)snprintf(state->got.etag.text, sizeof state->got.etag.text, "%s", a->etag);
  state->call->result.modified = a->last_modified == INT64_MIN ? 0 : a->last_modified;
  state->got.placed = true;
  return true;
}

static tsr_s3_verdict get_is_done(tsr_s3_state *state) {
  tsr_s3_call *call = state->call;
  call->result.received = state->got.have;
  call->result.object_size = state->got.total;
  call->result.etag = state->got.etag;
  return TSR_S3_DONE;
}

/* The answer was cut, or the server gave less than it said. What has come is kept if the rest can be requested. */
static tsr_s3_verdict go_on(tsr_s3_state *state, uint64_t got) {
  if (state->http.failure != TSR_HTTP_WHOLE) (void)tsr__s3_judge_transport(state);
  else (void)tsr__s3_fail(state, TSR_UNREACHABLE, "", "the answer has fewer bytes than the object");
  if (state->http.failure == TSR_HTTP_NO_MEMORY || state->http.failure == TSR_HTTP_CANCELLED) return TSR_S3_FAILED;
  if (!*state->got.etag.text || state->got.etag.text[0] == 'W') {
    tsr__s3_get_restart(state); /* a weak ETag does not say that bytes are the same */
    return TSR_S3_AGAIN;
  }
  if (got >= ADVANCE && state->tries.failed > 0) state->tries.failed--;
  return TSR_S3_AGAIN;
}

tsr_s3_verdict tsr__s3_get_take(tsr_s3_state *state) {
  const tsr_http_request *http = &state->http;
  const bool ranged = is_ranged(state), rest = state->got.placed && state->got.have > 0;
  const uint64_t before = state->got.have;
  if (http->failure == TSR_HTTP_TOO_LARGE && !ranged)
    return tsr__s3_fail(state, TSR_TOOBIG, "", "the object has more than %" PRIu64 " bytes", limit_of_get(state->call));
  if (http->failure == TSR_HTTP_TOO_LARGE || !place(state)) {
    if (rest) tsr__s3_get_restart(state);
    return TSR_S3_FAIL_AGAIN(state, TSR_UNREACHABLE, "",
                             "the server answered other bytes than the range that was requested");
  }
  state->got.have = before + http->size;
  if (http->failure != TSR_HTTP_WHOLE) return go_on(state, http->size);
  if (state->got.end == UINT64_MAX) state->got.end = state->got.total = state->got.first + state->got.have;
  if (state->got.first + state->got.have < state->got.end) return go_on(state, http->size);
  return get_is_done(state);
}
