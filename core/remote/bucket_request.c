/* bucket_request.c: the requests of a call: what to send, what a response means, and whether and when to retry.
 *
 * What becomes of a response, whose meaning the dialect knows (tsr_meaning):
 *
 *   TRANSIENT, reset, stall, short body                back off with jitter and retry, signed again
 *   EXISTS                                             the object exists: see "Whose object it is"
 *   EXPIRED                                            ask the provider for new keys, once
 *   ELSEWHERE                                          on AWS retry once in the region named; else fail and name it
 *   SKEWED                                             correct our clock by the response's Date, once
 *   DENIED                                             TSR_DENIED, never "absent"
 *   MISSING                                            TSR_NOT_FOUND, or an error if it is the bucket
 *
 * The response to a HEAD has no body, so its 400 and 403 may be any of these: we check its Date and its region, and
 * refresh keys that can be refreshed, once.
 *
 * Order: judging responses and planning retries; GET, which can resume; responses of the other kinds; making
 * and signing requests.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <inttypes.h>
#include <stdlib.h>

#include "remote/bucket.h"
#include "base/always.h"
#include "base/arithmetic.h"
#include "base/clock.h"
#include "tessera_host.h"

#define PAUSE_MIN   50u /* milliseconds; doubles with each try */
#define PAUSE_MAX   5000u
#define RETRY_AFTER 30u /* seconds; we wait no longer, whatever the server asks for */
#define EMPTY_PAGES 100u /* at most in succession */
#define SKEW_MS     300000 /* if the Date differs by more, the clock may be why a HEAD was refused */

static const char *name_of_kind(const tsr_bucket_state *state) {
  static const char *const names[] = {"GET",
                                      "HEAD",
                                      "LIST",
                                      "PUT",
                                      "DELETE",
                                      "DELETE",
                                      "COPY",
                                      "upload",
                                      "part",
                                      "completion of an upload",
                                      "abort of an upload",
                                      "list of uploads"};
  return names[state->call->kind];
}

/* Copies a server's text into a message: letters, digits and a few other characters. */
static void copy_word(char to[72], const char *from) {
  size_t size = 0;
  for (; from && *from && size < 71; from++)
    if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=.", *from)) to[size++] = *from;
  to[size] = 0;
}

tsr_bucket_outcome tsr__bucket_fail(tsr_bucket_state *state, int rc, const char *code, const char *format, ...) {
  const tsr_http_response *response = &state->http.response;
  char what[400], word[72], id[72], about[240] = "";
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  copy_word(word, code);
  copy_word(id, response->request_id);
  if (response->status)
    (void)snprintf(about, sizeof about, " (status %u%s%s%s%s)", response->status, *word ? " " : "", word,
                   *id ? ", request " : "", id);
  const char *key = state->call->key ? state->call->key : "";
  tsr__error_clear(&state->call->error);
  if (state->call->unnamed) (void)tsr__fail(&state->call->error, rc, "%s: %s%s", name_of_kind(state), what, about);
  else
    (void)tsr__fail(&state->call->error, rc, "%s://%s%s%.300s: %s: %s%s", state->scope->dialect->scheme,
                    state->scope->bucket, *key ? "/" : "", key, name_of_kind(state), what, about);
  return TSR_BUCKET_FAILED;
}

/* ---- What can be corrected ------------------------------------------------------------------- */

static tsr_bucket_outcome renew_keys(tsr_bucket_state *state, const char *code) {
  (void)tsr__bucket_fail(state, TSR_DENIED, code,
                         state->http.response.status == 401 /* for both reasons */
                             ? "the server does not accept the token: it has expired, or is wrong"
                             : "the keys have expired, and there are no newer ones");
  if (state->tries.renewed) return TSR_BUCKET_FAILED;
  state->tries.renewed = true;
  state->tries.refused = state->made.key_number;
  return TSR_BUCKET_SOON;
}

static tsr_bucket_outcome move_region(tsr_bucket_state *state, const tsr_answer_failure *failure, const char *code) {
  const char *region = failure && *failure->region ? failure->region : state->http.response.bucket_region;
  char word[72];
  copy_word(word, region);
  if (*word)
    (void)tsr__bucket_fail(state, TSR_ERROR, code,
                           "the bucket is in the region '%.63s', the request was for '%s': set the option region", word,
                           state->made.region);
  else
    (void)tsr__bucket_fail(state, TSR_ERROR, code, "the server sends this request elsewhere: look at the option%s",
                           state->scope->dialect == &tsr__dialect_s3 ? "s endpoint and region" : " endpoint");
  if (state->tries.moved || !state->scope->endpoint.aws ||
      !tsr__bucket_scope_learn_region(state->scope, word, state->made.region))
    return TSR_BUCKET_FAILED;
  state->tries.moved = true;
  return TSR_BUCKET_SOON;
}

static tsr_bucket_outcome correct_clock(tsr_bucket_state *state, const char *code) {
  const int64_t date = state->http.response.date;
  (void)tsr__bucket_fail(state, TSR_DENIED, code, "the clock of this machine differs too much from the server's");
  if (state->tries.dated || date == INT64_MIN) return TSR_BUCKET_FAILED;
  state->tries.dated = true;
  atomic_store(&state->scope->clocks.skew, date - tsr__bucket_clock());
  return TSR_BUCKET_SOON;
}

/* A HEAD was refused: guess why. */
static tsr_bucket_outcome guess_reason(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  const int64_t dated = tsr__bucket_clock() + atomic_load(&state->scope->clocks.skew);
  if (!state->tries.moved && *response->bucket_region && strcmp(response->bucket_region, state->made.region) != 0)
    return move_region(state, NULL, "");
  if (!state->tries.dated && response->date != INT64_MIN &&
      (response->date > dated + SKEW_MS || response->date < dated - SKEW_MS))
    return correct_clock(state, "");
  (void)tsr__bucket_fail(state, TSR_DENIED, "", "refused");
  if (state->tries.renewed || state->scope->provider.kind == TSR_PROVIDER_KEYS ||
      state->scope->provider.kind == TSR_PROVIDER_ANONYMOUS)
    return TSR_BUCKET_FAILED;
  state->tries.renewed = true;
  state->tries.refused = state->made.key_number;
  return TSR_BUCKET_SOON;
}

/* ---- Judgement ------------------------------------------------------------------------------- */

static tsr_bucket_outcome judge_missing(tsr_bucket_state *state, const char *code) {
  const tsr_bucket_kind kind = state->call->kind;
  if (kind == TSR_BUCKET_DELETE || (kind == TSR_BUCKET_DELETE_MANY && strcmp(state->http.method, "DELETE") == 0))
    return TSR_BUCKET_DONE; /* of DELETE_MANY one key: read_refusal continues with the next */
  if (kind == TSR_BUCKET_UPLOAD_ABORT) return TSR_BUCKET_DONE;
  if (kind == TSR_BUCKET_LIST || kind == TSR_BUCKET_UPLOAD_LIST || kind == TSR_BUCKET_PUT ||
      kind == TSR_BUCKET_UPLOAD_CREATE || kind == TSR_BUCKET_DELETE_MANY)
    return tsr__bucket_fail(state, TSR_ERROR, code, "no such %s, and tessera makes none", state->scope->dialect->noun);
  return tsr__bucket_fail(state, TSR_NOT_FOUND, code, "no such object");
}

/* Returns true if a GET asks for more of an object that it has seen: the object must still be the same. */
static bool asks_for_rest(const tsr_bucket_state *state) {
  return state->step == TSR_BUCKET_STEP_CALL && state->call->kind == TSR_BUCKET_GET &&
         (state->got.sized || (state->got.placed && state->got.have > 0));
}

/* Returns true if the request creates an object, or a part of one. */
static bool creates(const tsr_bucket_state *state) {
  switch (state->call->kind) {
  case TSR_BUCKET_PUT:
  case TSR_BUCKET_COPY:
  case TSR_BUCKET_UPLOAD_CREATE:
  case TSR_BUCKET_UPLOAD_PART:
  case TSR_BUCKET_UPLOAD_COMPLETE: return state->step == TSR_BUCKET_STEP_CALL;
  default: return false;
  }
}

/* The server says that a condition does not hold: of a request that creates an object, that there is none yet; of a
 * request for more of an object, that it is still the same. */
static tsr_bucket_outcome judge_condition(tsr_bucket_state *state, const char *code) {
  if (creates(state)) return tsr__bucket_fail(state, TSR_EXISTS, code, "it exists already");
  if (asks_for_rest(state))
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, code, "the object was replaced while it was read");
  return tsr__bucket_fail(
      state, TSR_ERROR, code,
      "the server says that a condition is not met, but the request has none; a proxy may have added one");
}

/* Judges an unsuccessful response, or an <Error> behind status 200. `failure`: the <Error>, or NULL. */
tsr_bucket_outcome tsr__bucket_judge(tsr_bucket_state *state, const tsr_answer_failure *failure) {
  const char *code = failure && *failure->code ? failure->code : state->http.response.error_code;
  const uint32_t status = state->http.response.status;
  const bool mute = !*code && strcmp(state->http.method, "HEAD") == 0;
  if (mute && (status == 400 || status == 403)) return guess_reason(state);
  switch (state->scope->dialect->judge(state, code)) {
  case TSR_MEANS_TRANSIENT:
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, code, "the server cannot carry it out now");
  case TSR_MEANS_EXPIRED: return renew_keys(state, code);
  case TSR_MEANS_ELSEWHERE: return move_region(state, failure, code);
  case TSR_MEANS_SKEWED: return correct_clock(state, code);
  case TSR_MEANS_MISSING: return judge_missing(state, code);
  case TSR_MEANS_NO_BUCKET:
    return tsr__bucket_fail(state, TSR_ERROR, code, "no such %s, and tessera makes none", state->scope->dialect->noun);
  case TSR_MEANS_NO_UPLOAD:
    if (state->call->kind == TSR_BUCKET_UPLOAD_ABORT) return TSR_BUCKET_DONE;
    return tsr__bucket_fail(state, TSR_NOT_FOUND, code, "no such upload");
  case TSR_MEANS_DENIED: return tsr__bucket_fail(state, TSR_DENIED, code, "refused");
  case TSR_MEANS_EXISTS: return judge_condition(state, code);
  case TSR_MEANS_RANGE: return tsr__bucket_fail(state, TSR_CORRUPT, code, "the range is outside the object");
  case TSR_MEANS_REFUSED: break;
  }
  if (status == 400 && *state->http.response.bucket_region &&
      strcmp(state->http.response.bucket_region, state->made.region) != 0)
    return move_region(state, failure, code);
  return tsr__bucket_fail(state, TSR_ERROR, code, "the server refuses it");
}

/* Judges a request without a complete response. */
static tsr_bucket_outcome judge_transport(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const int rc = TSR_ALWAYS(http->rc < 0) ? http->rc : TSR_UNREACHABLE;
  (void)tsr__bucket_fail(state, rc, "", "%s", http->error.message);
  switch (http->failure) {
  case TSR_HTTP_STALLED:
  case TSR_HTTP_CUT:
    state->tries.fresh = true; /* other kept connections may be dead, too */
    return TSR_BUCKET_AGAIN;
  case TSR_HTTP_UNREACHED: return TSR_BUCKET_AGAIN;
  default: return TSR_BUCKET_FAILED;
  }
}

bool tsr__bucket_plan_retry(tsr_bucket_state *state, tsr_bucket_outcome outcome) {
  const tsr_http_response *response = &state->http.response;
  state->tries.due = tsr__ticks();
  if (outcome == TSR_BUCKET_SOON) return true; /* at most once for each reason */
  if (outcome == TSR_BUCKET_LATER) {
    state->tries.due += TSR_MIN((uint64_t)PAUSE_MIN << TSR_MIN(state->tries.waited, 16), PAUSE_MAX);
    state->tries.waited++;
    return true;
  }
  if (state->tries.failed >= state->scope->options.retries) return false;
  const uint64_t most = TSR_MIN((uint64_t)PAUSE_MIN << TSR_MIN(state->tries.failed, 16), PAUSE_MAX);
  uint64_t chance = 0;
  (void)tsr__random(&chance, sizeof chance, NULL); /* if that fails, retry without jitter */
  state->tries.due += most / 2 + chance % (most / 2 + 1);
  if (state->http.failure == TSR_HTTP_WHOLE && response->retry_after > 0)
    state->tries.due += UINT64_C(1000) * TSR_MIN(response->retry_after, RETRY_AFTER);
  state->tries.failed++;
  return true;
}

/* ---- GET -------------------------------------------------------------------------------------
 *
 * Which bytes to request, and whether the response has them.
 *
 * A response that was cut short is not lost: the next request asks for the rest, on condition that the object is still
 * the same (If-Match). Content-Range is checked against the request: if a server ignores the range, or answers with
 * another one, none of its bytes reach the caller.
 */

#define ADVANCE (UINT64_C(1) << 20) /* bytes of progress from which on a cut response does not count as a failed try */

/* The largest number of bytes that the call accepts. */
static uint64_t limit_of_get(const tsr_bucket_call *call) {
  uint64_t limit = call->get.most > 0 ? call->get.most : UINT64_MAX;
  if (call->get.into) limit = TSR_MIN(limit, call->get.room);
  if (call->get.range != TSR_BUCKET_WHOLE) limit = TSR_MIN(limit, call->get.size);
  return limit;
}

static bool is_ranged(const tsr_bucket_state *state) {
  return (state->got.placed && state->got.have > 0) ||
         (state->call->get.range != TSR_BUCKET_WHOLE && !state->got.unranged);
}

/* Returns true if the request is the first of two for a suffix, to a server that cannot serve suffixes. It asks for as
 * many bytes from the beginning. They are the whole object if that is small; otherwise Content-Range tells its size. */
static bool asks_for_beginning(const tsr_bucket_state *state) {
  return state->call->get.range == TSR_BUCKET_SUFFIX && !state->scope->dialect->suffixes && !state->got.sized &&
         is_ranged(state);
}

/* Writes the Range header of the next request, or "". */
static void write_range(const tsr_bucket_state *state, char range[64]) {
  const tsr_bucket_call *call = state->call;
  *range = 0;
  if (state->got.placed && state->got.have > 0 && state->got.end == UINT64_MAX)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-", state->got.first + state->got.have);
  else if (state->got.placed && state->got.have > 0)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, state->got.first + state->got.have, state->got.end - 1);
  else if (asks_for_beginning(state)) (void)snprintf(range, 64, "bytes=0-%" PRIu64, call->get.size - 1);
  else if (state->got.sized)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, state->got.tail, state->got.total - 1);
  else if (is_ranged(state) && call->get.range == TSR_BUCKET_SUFFIX)
    (void)snprintf(range, 64, "bytes=-%" PRIu64, call->get.size);
  else if (is_ranged(state))
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, call->get.offset, call->get.offset + call->get.size - 1);
}

/* Directs the body to its destination. Errors: TSR_TOOBIG if that has no room for the requested range. */
static int prepare_get(tsr_bucket_state *state, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  const uint64_t limit = limit_of_get(call);
  uint64_t last;
  if (call->get.range != TSR_BUCKET_WHOLE && call->get.size > limit)
    return tsr__fail(error, TSR_TOOBIG, "%" PRIu64 " bytes requested, room for %" PRIu64, call->get.size, limit);
  if (call->get.range != TSR_BUCKET_WHOLE && call->get.size == 0)
    return tsr__fail(error, TSR_RANGE, "a range of 0 bytes");
  if (call->get.range == TSR_BUCKET_RANGE && !tsr__add(call->get.offset, call->get.size, &last))
    return tsr__fail(error, TSR_CORRUPT, "the range is outside the object");
  state->http.most = limit - state->got.have;
  if (call->get.into) {
    state->http.into = (uint8_t *)call->get.into + state->got.have;
    state->http.received = state->response;
    return TSR_OK;
  }
  call->get.buffer->size = state->got.base + state->got.have;
  if (limit < UINT64_MAX && call->get.range != TSR_BUCKET_WHOLE)
    TSR_TRY(tsr__buffer_reserve_exactly(call->get.buffer, limit - state->got.have, error));
  state->http.received = *call->get.buffer; /* returned by tsr__bucket_get_return */
  call->get.buffer->data = NULL;
  call->get.buffer->size = call->get.buffer->capacity = 0;
  return TSR_OK;
}

void tsr__bucket_get_return(tsr_bucket_state *state) {
  tsr_bucket_call *call = state->call;
  if (call->get.into) {
    state->response = state->http.received;
  } else {
    *call->get.buffer = state->http.received;
    call->get.buffer->size = TSR_MIN(call->get.buffer->size, state->got.base + state->got.have);
  }
  state->http.received = (tsr_buffer){.memory = state->memory};
}

/* Starts over from the first byte. */
static void restart_get(tsr_bucket_state *state) {
  state->got.have = 0;
  state->got.placed = false;
}

/* ---- Where the bytes of an answer belong ----------------------------------------------------- */

/* Places the first response with a Content-Range. */
static bool place_range(tsr_bucket_state *state) {
  const tsr_http_response *a = &state->http.response;
  const tsr_bucket_call *call = state->call;
  if (!a->has_range && call->get.range == TSR_BUCKET_SUFFIX && a->has_length && a->content_length == 0) {
    state->got.first = state->got.end = state->got.total = 0; /* minio's response for an empty object */
    return true;
  }
  if (!a->has_range || a->range_first > a->range_last || a->range_last == UINT64_MAX) return false;
  if (a->range_size != UINT64_MAX && a->range_last >= a->range_size) return false;
  state->got.first = a->range_first;
  state->got.total = a->range_size;
  if (asks_for_beginning(state)) {
    if (state->got.total == UINT64_MAX || a->range_first != 0) return false;
    state->got.end = TSR_MIN(call->get.size, state->got.total);
    return a->range_last < state->got.end;
  }
  if (call->get.range == TSR_BUCKET_SUFFIX) {
    if (state->got.total == UINT64_MAX ||
        a->range_first != state->got.total - TSR_MIN(call->get.size, state->got.total))
      return false;
    state->got.end = state->got.total;
    return true;
  }
  if (call->get.range != TSR_BUCKET_RANGE || a->range_first != call->get.offset) return false;
  state->got.end = TSR_MIN(call->get.offset + call->get.size, state->got.total);
  return a->range_last < state->got.end;
}

/* Checks the response to a request for the rest. */
static bool place_rest(const tsr_bucket_state *state) {
  const tsr_http_response *a = &state->http.response;
  return a->status == 206 && a->has_range && a->range_first == state->got.first + state->got.have &&
         a->range_last >= a->range_first && a->range_last < state->got.end &&
         strcmp(a->etag, state->got.etag.text) == 0 &&
         (a->range_size == UINT64_MAX || state->got.total == UINT64_MAX || a->range_size == state->got.total);
}

/* Places a first response that has the whole object. */
static bool place_whole(tsr_bucket_state *state) {
  const tsr_http_response *a = &state->http.response;
  const tsr_bucket_call *call = state->call;
  if (is_ranged(state) && (!a->has_length || a->content_length > call->get.size ||
                           (call->get.range == TSR_BUCKET_RANGE && call->get.offset > 0)))
    return false;
  state->got.first = 0;
  state->got.end = state->got.total = a->has_length ? a->content_length : UINT64_MAX;
  return true;
}

/* Finds out which bytes of the object the response has. Returns false if these are not the ones requested. */
static bool place_response(tsr_bucket_state *state) {
  const tsr_http_response *a = &state->http.response;
  if (state->got.placed && state->got.have > 0) {
    if (!place_rest(state)) return false;
    if (state->got.end == UINT64_MAX) state->got.end = state->got.total = a->range_size;
    return true;
  }
  if (!(a->status == 206 ? place_range(state) : place_whole(state))) return false;
  (void)snprintf(state->got.etag.text, sizeof state->got.etag.text, "%s", a->etag);
  state->call->result.modified = a->last_modified == INT64_MIN ? 0 : a->last_modified;
  state->got.placed = true;
  return true;
}

static tsr_bucket_outcome get_is_done(tsr_bucket_state *state) {
  tsr_bucket_call *call = state->call;
  call->result.received = state->got.have;
  call->result.object_size = state->got.total;
  call->result.etag = state->got.etag;
  return TSR_BUCKET_DONE;
}

/* The response was cut short, or has fewer bytes than it promised. Keeps what has arrived if the rest can be
 * requested. */
static tsr_bucket_outcome keep_partial(tsr_bucket_state *state, uint64_t got) {
  if (state->http.failure != TSR_HTTP_WHOLE) (void)judge_transport(state);
  else (void)tsr__bucket_fail(state, TSR_UNREACHABLE, "", "the answer has fewer bytes than the object");
  if (state->http.failure == TSR_HTTP_NO_MEMORY || state->http.failure == TSR_HTTP_CANCELLED) return TSR_BUCKET_FAILED;
  if (!*state->got.etag.text || state->got.etag.text[0] == 'W') {
    restart_get(state); /* equal weak ETags do not mean equal bytes */
    return TSR_BUCKET_AGAIN;
  }
  if (got >= ADVANCE && state->tries.failed > 0) state->tries.failed--;
  return TSR_BUCKET_AGAIN;
}

/* Takes a response with status 200 or 206, even one that was cut short. */
static tsr_bucket_outcome read_get(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const bool ranged = is_ranged(state), rest = state->got.placed && state->got.have > 0;
  const uint64_t before = state->got.have;
  if (http->failure == TSR_HTTP_TOO_LARGE && !ranged)
    return tsr__bucket_fail(state, TSR_TOOBIG, "", "the object has more than %" PRIu64 " bytes",
                            limit_of_get(state->call));
  if (http->failure == TSR_HTTP_TOO_LARGE || !place_response(state)) {
    if (rest || state->got.sized) restart_get(state);
    state->got.sized = false;
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "",
                                 "the server answered other bytes than the range that was requested");
  }
  state->got.have = before + http->size;
  if (http->failure != TSR_HTTP_WHOLE) return keep_partial(state, http->size);
  if (state->got.end == UINT64_MAX && !http->response.is_chunked && !http->response.has_range) {
    restart_get(state); /* it may have been cut */
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer does not tell where it ends");
  }
  if (state->got.end == UINT64_MAX) state->got.end = state->got.total = state->got.first + state->got.have;
  if (state->got.first + state->got.have < state->got.end) return keep_partial(state, http->size);
  if (!asks_for_beginning(state) || state->got.total <= state->call->get.size) return get_is_done(state);
  state->got.sized = true;
  state->got.tail = state->got.total - state->call->get.size;
  restart_get(state);
  return TSR_BUCKET_NEXT;
}

/* ---- Taking responses ------------------------------------------------------------------------ */

static void keep_etag(tsr_etag *etag, const char *text) { (void)snprintf(etag->text, sizeof etag->text, "%s", text); }

static const uint8_t *answer_bytes(const tsr_bucket_state *state) { return state->http.received.data; }

tsr_bucket_outcome tsr__bucket_unread(tsr_bucket_state *state, int rc, const tsr_error *error) {
  if (rc != TSR_CORRUPT) return tsr__bucket_fail(state, rc, "", "%s", error->message);
  return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer cannot be read: %s", error->message);
}

/* ---- Listings -------------------------------------------------------------------------------- */

void tsr__bucket_objects_release(tsr_bucket_objects *objects) {
  tsr__free(objects->at);
  tsr__arena_release(&objects->texts);
  *objects = (tsr_bucket_objects){.memory = objects->memory};
}

static int add_object(tsr_bucket_objects *objects, const tsr_bucket_object *object, tsr_error *error) {
  tsr_bucket_object copy = *object;
  char *key, *etag;
  if (objects->count == objects->capacity) {
    const uint64_t capacity = TSR_MAX(64, objects->capacity * 2);
    TSR_TRY(TSR_REALLOC_ARRAY(objects->memory, capacity, &objects->at, error));
    objects->capacity = capacity;
  }
  TSR_TRY(TSR_ARENA_COPY(&objects->texts, object->key, strlen(object->key), &key, error));
  TSR_TRY(TSR_ARENA_COPY(&objects->texts, object->etag, strlen(object->etag), &etag, error));
  copy.key = key;
  copy.etag = etag;
  objects->at[objects->count++] = copy;
  return TSR_OK;
}

/* The server may be hostile: keys outside the prefix are errors. */
int tsr__bucket_add_listed(const tsr_bucket_call *call, const tsr_bucket_object *object, tsr_error *error) {
  tsr_bucket_objects *objects = call->list.objects;
  if (strncmp(object->key, call->key, strlen(call->key)) != 0)
    return tsr__fail(error, TSR_CORRUPT, "a key outside the prefix");
  if (call->list.most > 0 && objects->count >= call->list.most)
    return tsr__fail(error, TSR_TOOBIG, "more than %" PRIu64 " entries", call->list.most);
  return add_object(objects, object, error);
}

static int compare_objects(const void *a, const void *b) {
  return strcmp(((const tsr_bucket_object *)a)->key, ((const tsr_bucket_object *)b)->key);
}

int tsr__bucket_keep_token(tsr_buffer *token, const char *text, tsr_error *error) {
  token->size = 0;
  return tsr__buffer_append(token, text, strlen(text) + 1, error);
}

/* Compares the last key of the earlier pages with the keys of this page, which begins at `from`: a server that repeats
 * keys would never end the listing. */
static int check_pages(const tsr_bucket_objects *objects, uint64_t from, tsr_error *error) {
  if (from == 0) return TSR_OK;
  const char *last = objects->at[from - 1].key; /* the greatest of its page: each page is sorted on arrival */
  for (uint64_t i = from; i < objects->count; i++)
    if (strcmp(objects->at[i].key, last) <= 0)
      return tsr__fail(error, TSR_CORRUPT, "the listing repeated a key from an earlier page");
  return TSR_OK;
}

static int add_page(tsr_bucket_state *state, const tsr_answer_listing *page, tsr_error *error) {
  tsr_bucket_objects *objects = state->call->list.objects;
  const uint64_t from = objects->count;
  for (uint64_t i = 0; i < page->entry_count; i++) {
    const tsr_answer_entry *e = &page->entries[i];
    const tsr_bucket_object object = {
        .key = e->key, .size = e->size, .etag = e->etag, .modified = e->modified == INT64_MIN ? 0 : e->modified};
    TSR_TRY(tsr__bucket_add_listed(state->call, &object, error));
  }
  for (uint64_t i = 0; i < page->prefix_count; i++) {
    const tsr_bucket_object object = {.key = page->prefixes[i], .etag = "", .is_prefix = true};
    TSR_TRY(tsr__bucket_add_listed(state->call, &object, error));
  }
  if (objects->count > from) qsort(objects->at + from, objects->count - from, sizeof *objects->at, compare_objects);
  TSR_TRY(check_pages(objects, from, error));
  if (!page->next) return TSR_OK;
  const bool same = state->page.token.size > 0 && strcmp((const char *)state->page.token.data, page->next) == 0;
  state->page.empty = objects->count == from ? state->page.empty + 1 : 0;
  if (state->page.empty > 0 && (same || state->page.empty > EMPTY_PAGES)) /* servers do send empty pages */
    return tsr__fail(error, TSR_CORRUPT, "an empty page that is not the last one");
  TSR_TRY(tsr__bucket_keep_token(&state->page.token, page->next, error));
  return 1;
}

/* If the page was unparseable, removes the entries that it has added. */
tsr_bucket_outcome tsr__bucket_end_page(tsr_bucket_state *state, int rc, uint64_t from, const tsr_error *error) {
  if (rc < 0) state->call->list.objects->count = from;
  if (rc < 0) return tsr__bucket_unread(state, rc, error);
  return rc > 0 ? TSR_BUCKET_NEXT : TSR_BUCKET_DONE;
}

static tsr_bucket_outcome read_listing_page(tsr_bucket_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_answer_listing page;
  tsr_answer_failure failure;
  tsr_error error = {0};
  int rc =
      state->scope->dialect->listing(answer_bytes(state), state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return tsr__bucket_judge(state, &failure);
  if (rc >= 0) rc = add_page(state, &page, &error);
  return tsr__bucket_end_page(state, rc, from, &error);
}

/* ---- Whose object it is ----------------------------------------------------------------------
 *
 * If the response to `PUT If-None-Match: *` is lost, the request is sent again, and a server that has carried out the
 * first one answers 412: the object is ours, and yet it "exists". libcurl may also have sent the first request twice.
 * So each such PUT has a Content-Type with a random part, and after a 412 a HEAD tells whose object it is. If the
 * server does not store the type, the bytes decide, unless the object is empty.
 * A repeated completion of an upload is answered with success, NoSuchUpload (minio) or 412. In the last two cases the
 * ETag decides: that of a multipart object is computed from those of its parts.
 */

/* Returns true if an ETag is that of an object made of the call's parts: the MD5 of their MD5s. */
static bool is_etag_of_parts(const tsr_bucket_call *call, const char *etag, tsr_memory *memory) {
  tsr_buffer digests = {.memory = memory};
  uint8_t digest[TSR_MD5_SIZE];
  char digits[2 * TSR_MD5_SIZE + 1], expected[64];
  int rc = TSR_OK;
  for (uint32_t i = 0; i < call->upload.part_count && rc >= 0; i++) {
    const char *text = call->upload.etags[i].text + (call->upload.etags[i].text[0] == '"');
    if (!tsr_hex_read(text, sizeof digest, digest)) rc = TSR_ERROR;
    else rc = tsr__buffer_append(&digests, digest, sizeof digest, NULL);
  }
  if (rc >= 0) rc = tsr__md5(digests.data, digests.size, digest, NULL);
  tsr__buffer_release(&digests);
  if (rc < 0) return false;
  tsr_hex_write(digest, sizeof digest, digits);
  (void)snprintf(expected, sizeof expected, "\"%s-%" PRIu32 "\"", digits, call->upload.part_count);
  return strcmp(expected, etag) == 0;
}

static tsr_bucket_outcome begin_step(tsr_bucket_state *state, tsr_bucket_step step) {
  if (state->step == TSR_BUCKET_STEP_CALL) state->owner.refusal = state->call->error;
  state->step = step;
  return TSR_BUCKET_NEXT;
}

/* It is somebody else's object: reports the original error. */
static tsr_bucket_outcome concede(tsr_bucket_state *state) {
  state->call->error = state->owner.refusal;
  state->step = TSR_BUCKET_STEP_CALL;
  return TSR_BUCKET_FAILED;
}

/* Takes the HEAD before a completion. */
static tsr_bucket_outcome read_absent(tsr_bucket_state *state) {
  const uint32_t status = state->http.response.status;
  if (status == 200) return tsr__bucket_fail(state, TSR_EXISTS, "", "it exists already");
  if (status != 404) return tsr__bucket_judge(state, NULL);
  state->step = TSR_BUCKET_STEP_CALL;
  return TSR_BUCKET_NEXT;
}

/* Takes the HEAD of the target of a copy. */
static tsr_bucket_outcome read_copying(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  if (response->status != 200) return tsr__bucket_judge(state, NULL);
  if (strcmp(response->copy_status, "pending") == 0) {
    state->tries.failed = 0;
    (void)tsr__bucket_fail(state, TSR_UNREACHABLE, "", "the copy goes on");
    return TSR_BUCKET_LATER;
  }
  if (strcmp(response->copy_status, "success") != 0)
    return tsr__bucket_fail(state, TSR_ERROR, response->copy_status, "the server has not completed the copy");
  keep_etag(&state->call->result.etag, response->etag);
  return TSR_BUCKET_DONE;
}

static tsr_bucket_outcome read_owner(tsr_bucket_state *state) {
  tsr_bucket_call *call = state->call;
  const tsr_http_response *response = &state->http.response;
  const bool put = call->kind == TSR_BUCKET_PUT;
  if (response->status == 404 && put) { /* the object in our way is gone */
    state->step = TSR_BUCKET_STEP_CALL;
    return TSR_BUCKET_AGAIN;
  }
  if (response->status == 404) return concede(state);
  if (response->status != 200) return tsr__bucket_judge(state, NULL);
  keep_etag(&call->result.etag, response->etag);
  if (put && *state->owner.mark && strcmp(response->content_type, state->owner.mark) == 0) return TSR_BUCKET_DONE;
  if (!put && state->scope->dialect->marks_uploads) {
    if (strcmp(response->content_type, tsr__bucket_mark(state)) == 0) return TSR_BUCKET_DONE;
    if (call->put.new_only && state->owner.refusal.code != TSR_EXISTS)
      (void)tsr__fail(&state->owner.refusal, TSR_EXISTS, "it exists already, and not from this upload");
    return concede(state);
  }
  if (!put) return is_etag_of_parts(call, response->etag, state->memory) ? TSR_BUCKET_DONE : concede(state);
  const bool has_mark = strstr(response->content_type, "; put=") != NULL; /* another call's mark */
  if (has_mark || call->put.size == 0 || !response->has_length || response->content_length != call->put.size)
    return concede(state);
  return begin_step(state, TSR_BUCKET_STEP_COMPARE);
}

static tsr_bucket_outcome read_compared(tsr_bucket_state *state) {
  const tsr_bucket_call *call = state->call;
  if (state->http.failure == TSR_HTTP_TOO_LARGE) return concede(state);
  if (state->http.response.status != 200) return tsr__bucket_judge(state, NULL);
  const bool same =
      state->http.size == call->put.size && memcmp(answer_bytes(state), call->put.bytes, call->put.size) == 0;
  return same ? TSR_BUCKET_DONE : concede(state);
}

/* ---- The other kinds ------------------------------------------------------------------------- */

static tsr_bucket_outcome read_head(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  tsr_bucket_call *call = state->call;
  if (!response->has_length) return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer has no size");
  call->result.object_size = response->content_length;
  call->result.modified = response->last_modified == INT64_MIN ? 0 : response->last_modified;
  keep_etag(&call->result.etag, response->etag);
  return TSR_BUCKET_DONE;
}

tsr_bucket_outcome tsr__bucket_advance_deletion(tsr_bucket_state *state) {
  state->deleted.at += state->deleted.batch;
  return state->deleted.at < state->call->key_count ? TSR_BUCKET_NEXT : TSR_BUCKET_DONE;
}

static tsr_bucket_outcome read_success(tsr_bucket_state *state) {
  switch (state->call->kind) {
  case TSR_BUCKET_GET: return read_get(state);
  case TSR_BUCKET_HEAD: return read_head(state);
  case TSR_BUCKET_LIST: return read_listing_page(state);
  case TSR_BUCKET_DELETE_MANY:
    if (strcmp(state->http.method, "DELETE") == 0) return tsr__bucket_advance_deletion(state);
    return state->scope->dialect->read_answer(state);
  case TSR_BUCKET_UPLOAD_LIST:
  case TSR_BUCKET_COPY:
  case TSR_BUCKET_UPLOAD_COMPLETE:
  case TSR_BUCKET_UPLOAD_CREATE: return state->scope->dialect->read_answer(state);
  case TSR_BUCKET_PUT:
  case TSR_BUCKET_UPLOAD_PART: keep_etag(&state->call->result.etag, state->http.response.etag); return TSR_BUCKET_DONE;
  case TSR_BUCKET_DELETE:
  case TSR_BUCKET_UPLOAD_ABORT: break;
  }
  return TSR_BUCKET_DONE;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* The suffix of an empty object: the server answers that the range cannot be satisfied. */
static tsr_bucket_outcome empty_is_done(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  state->got.have = state->got.total = 0;
  state->call->result.modified = response->last_modified == INT64_MIN ? 0 : response->last_modified;
  keep_etag(&state->got.etag, response->etag);
  return get_is_done(state);
}

/* Looks whose object it is that has made the call fail, if it may be the call's own: after a lost answer. */
static tsr_bucket_outcome check_if_ours(tsr_bucket_state *state, tsr_bucket_outcome outcome) {
  const tsr_bucket_call *call = state->call;
  const int code = call->error.code;
  if (outcome != TSR_BUCKET_FAILED) return outcome;
  if (call->kind == TSR_BUCKET_PUT && call->put.new_only && code == TSR_EXISTS)
    return begin_step(state, TSR_BUCKET_STEP_OWNER);
  if (call->kind == TSR_BUCKET_UPLOAD_COMPLETE && (code == TSR_EXISTS || code == TSR_NOT_FOUND))
    return begin_step(state, TSR_BUCKET_STEP_OWNER);
  return outcome;
}

/* Judges an unsuccessful response, and tries the alternatives that this kind of call has. */
static tsr_bucket_outcome read_refusal(tsr_bucket_state *state, const tsr_answer_failure *failure) {
  const uint32_t status = state->http.response.status;
  const tsr_bucket_call *call = state->call;
  const tsr_bucket_outcome outcome = tsr__bucket_judge(state, failure);
  if (call->kind == TSR_BUCKET_GET && status == 416 && call->get.range == TSR_BUCKET_SUFFIX &&
      state->http.response.has_range && state->http.response.range_size == 0)
    return empty_is_done(state);
  if (call->kind == TSR_BUCKET_GET && status == 416 && call->get.range == TSR_BUCKET_SUFFIX && !state->got.unranged &&
      !state->got.sized) {
    state->got.unranged = true; /* rclone answers so if the object is shorter than the suffix */
    restart_get(state);
    return TSR_BUCKET_NEXT;
  }
  if (asks_for_rest(state) && (status == 412 || status == 416)) {
    state->got.sized = false;
    restart_get(state); /* the object has been replaced */
    return TSR_BUCKET_AGAIN;
  }
  if (call->kind == TSR_BUCKET_DELETE_MANY && outcome == TSR_BUCKET_DONE) return tsr__bucket_advance_deletion(state);
  if (call->kind == TSR_BUCKET_DELETE_MANY && !state->deleted.singly && strcmp(state->http.method, "POST") == 0 &&
      (status == 400 || status == 404 || status == 405 || status == 501) && outcome == TSR_BUCKET_FAILED &&
      call->error.code == TSR_ERROR) {
    state->deleted.singly = true;
    return TSR_BUCKET_NEXT;
  }
  return check_if_ours(state, outcome);
}

static tsr_bucket_outcome read_status(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const uint64_t before = http->received.size - TSR_MIN(http->received.size, http->size);
  tsr_answer_failure failure = {.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  tsr_error ignored = {0};
  if (state->step == TSR_BUCKET_STEP_OWNER) return read_owner(state);
  if (state->step == TSR_BUCKET_STEP_ABSENT) return read_absent(state);
  if (state->step == TSR_BUCKET_STEP_COPYING) return read_copying(state);
  const bool success = http->response.status >= 200 && http->response.status < 300;
  if (state->step == TSR_BUCKET_STEP_COMPARE) return read_compared(state);
  if (success) return check_if_ours(state, read_success(state)); /* a completion may fail behind status 200 */
  if (http->received.size > before && tsr__answer_failure(http->received.data + before, http->received.size - before,
                                                          &state->arena, &failure, &ignored) < 0)
    failure =
        (tsr_answer_failure){.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  return read_refusal(state, &failure);
}

tsr_bucket_outcome tsr__bucket_read_response(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const bool get = state->step == TSR_BUCKET_STEP_CALL && state->call->kind == TSR_BUCKET_GET;
  tsr_bucket_outcome outcome;
  if (get && (http->response.status == 200 || http->response.status == 206) && http->failure != TSR_HTTP_REFUSED)
    outcome = read_get(state);
  else if (http->failure == TSR_HTTP_WHOLE ||
           (http->failure == TSR_HTTP_TOO_LARGE && state->step == TSR_BUCKET_STEP_COMPARE))
    outcome = read_status(state);
  else outcome = judge_transport(state);
  if (get) tsr__bucket_get_return(state);
  else state->response = state->http.received;
  if (!get) state->http.received = (tsr_buffer){.memory = state->memory};
  tsr__arena_reset(&state->arena);
  return outcome;
}

/* ---- Making requests ------------------------------------------------------------------------- */

/* More than a page of Azure: 5,000 keys whose characters are all entities. */
#define LIST_ANSWER_MAX (UINT64_C(48) << 20)

void tsr__draft_query(tsr_draft *draft, const char *name, const char *value) {
  draft->query[draft->query_count++] = (tsr_sigv4_pair){name, value};
}

void tsr__draft_header(tsr_draft *draft, const char *name, const char *value) {
  if (value && *value) draft->headers[draft->header_count++] = (tsr_sigv4_pair){name, value};
}

const char *tsr__draft_range(const tsr_bucket_state *state, tsr_draft *draft) {
  write_range(state, draft->range);
  return draft->range;
}

const char *tsr__bucket_mark(tsr_bucket_state *state) {
  const tsr_bucket_call *call = state->call;
  uint8_t chance[16];
  char *mark = state->owner.mark;
  int at = *mark ? 0 : snprintf(mark, TSR_BUCKET_MARK_SIZE, "application/octet-stream; put=");
  if (at == 0) return mark;
  if (call->kind == TSR_BUCKET_UPLOAD_PART || call->kind == TSR_BUCKET_UPLOAD_COMPLETE) {
    (void)snprintf(mark + at, TSR_BUCKET_MARK_SIZE - (size_t)at, "%.*s", (int)TSR_BUCKET_UPLOAD_MARK, call->upload.id);
    return mark;
  }
  if (tsr__random(chance, sizeof chance, NULL) < 0) *mark = 0; /* the bytes decide then whose object it is */
  else tsr_hex_write(chance, sizeof chance, mark + at);
  return mark;
}

int tsr__bucket_body_text(tsr_buffer *body, const char *text, tsr_error *error) {
  return tsr__buffer_append(body, text, strlen(text), error);
}

int tsr__bucket_append_secret(tsr_buffer *buffer, const char *before, const char *secret, tsr_error *error) {
  TSR_TRY(tsr__bucket_body_text(buffer, before, error));
  TSR_TRY(tsr__buffer_append(buffer, secret, strlen(secret) + 1, error));
  buffer->size--;
  return TSR_OK;
}

int tsr__bucket_append_bearer(tsr_buffer *authorization, const char *token, tsr_error *error) {
  TSR_TRY(tsr__buffer_reserve_exactly(authorization, strlen(token) + 8, error)); /* it must not grow */
  return tsr__bucket_append_secret(authorization, "Bearer ", token, error);
}

int tsr__bucket_body_escaped(tsr_buffer *body, const char *text, tsr_error *error) {
  for (; *text; text++) {
    const char *escape = *text == '&'    ? "&amp;"
                         : *text == '<'  ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\r' ? "&#13;"
                                         : NULL;
    TSR_TRY(escape ? tsr__bucket_body_text(body, escape, error) : tsr__buffer_append(body, text, 1, error));
  }
  return TSR_OK;
}

/* Directs the body of the response to its destination. */
static int prepare_answer(tsr_bucket_state *state, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_http_request *http = &state->http;
  state->response.size = 0;
  if (state->step == TSR_BUCKET_STEP_CALL && call->kind == TSR_BUCKET_GET) return prepare_get(state, error);
  http->most = LIST_ANSWER_MAX;
  if (state->step == TSR_BUCKET_STEP_COMPARE) http->most = call->put.size;
  if (state->step == TSR_BUCKET_STEP_COMPARE)
    TSR_TRY(tsr__buffer_reserve_exactly(&state->response, call->put.size, error));
  http->received = state->response;
  state->response = (tsr_buffer){.memory = state->memory};
  return TSR_OK;
}

/* Signs a draft with the current keys of the scope. */
static int sign_draft(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  tsr_credentials credentials = {0};
  if (tsr__credentials_get(&state->scope->provider, state->tries.refused, &credentials, error) < 0)
    return tsr__wrap(error, "keys for %s", state->scope->name);
  int rc = TSR_OK;
  state->made.key_number = credentials.number;
  if ((credentials.form == TSR_KEYS_BEARER || credentials.form == TSR_KEYS_QUERY) &&
      !tsr__bucket_scope_is_private(state->scope))
    rc = tsr__fail(error, TSR_DENIED, "%s: a token in the clear could be used by others: use an https:// endpoint",
                   state->scope->name);
  if (rc >= 0) rc = state->scope->dialect->sign(state, d, &credentials, error);
  tsr__credentials_release(&credentials);
  TSR_TRY(rc);
  if (state->tries.refused && state->tries.refused == state->made.key_number) {
    if (error) *error = state->call->error; /* the provider has no newer keys: report the server's refusal */
    return TSR_ALWAYS(state->call->error.code < 0) ? state->call->error.code : TSR_DENIED;
  }
  state->tries.refused = 0;
  return TSR_OK;
}

/* Fills in the HTTP request from the signed draft. */
static int prepare_http(tsr_bucket_state *state, const tsr_draft *d, tsr_error *error) {
  state->http = (tsr_http_request){.method = d->method,
                                   .url = (const char *)state->made.url.data,
                                   .headers = state->made.lines.lines,
                                   .header_count = state->made.lines.count,
                                   .fresh = state->tries.fresh,
                                   .transport = &state->scope->transport,
                                   .body = d->body,
                                   .body_size = d->body_size};
  state->http.received.memory = state->memory;
  return prepare_answer(state, error);
}

int tsr__bucket_request_make(tsr_bucket_state *state, tsr_error *error) {
  tsr_draft d = {.method = "GET", .key = state->call->key, .text = {.memory = state->memory}};
  int rc = TSR_OK;
  if (state->step == TSR_BUCKET_STEP_CALL) rc = state->scope->dialect->draft(state, &d, error);
  else if (state->step != TSR_BUCKET_STEP_COMPARE) d.method = "HEAD";
  if (rc >= 0) rc = sign_draft(state, &d, error);
  if (rc >= 0) rc = prepare_http(state, &d, error);
  if (d.text.data) tsr__wipe(d.text.data, d.text.capacity); /* the source of a copy may have a token in it */
  tsr__buffer_release(&d.text);
  return rc;
}
