/* bucket_request.c: the requests of a call: what to send, what a response means, and whether and when to retry.
 *
 * How responses are judged:
 *
 *   5xx, SlowDown, reset, stall, short body, 409       back off with jitter and retry, signed again
 *   412                                                the object exists: see "Whose object it is"
 *   ExpiredToken                                       ask the provider for new keys, once
 *   another region                                     on AWS retry once in the region named; else fail and name it
 *   RequestTimeTooSkewed                               correct our clock by the response's Date, once
 *   403                                                TSR_DENIED, never "absent"
 *   404                                                TSR_NOT_FOUND, or an error if it is the bucket
 *
 * The response to a HEAD has no body, so its 400 and 403 may be any of these: we check its Date and its region, and
 * refresh keys that can be refreshed, once.
 *
 * Order: judging responses and planning retries; GET, which can resume; taking the responses of the other kinds; making
 * and signing requests.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <inttypes.h>
#include <stdlib.h>

#include "remote/bucket.h"
#include "base/arithmetic.h"

#define PAUSE_MIN   50u /* milliseconds; doubles with each try */
#define PAUSE_MAX   5000u
#define RETRY_AFTER 30u /* seconds; we wait no longer, whatever the server asks for */
#define SKEW_MS     300000 /* if the Date differs by more, the clock may be why a HEAD was refused */

uint64_t tsr__bucket_ticks(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

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
    (void)tsr__fail(&state->call->error, rc, "s3://%s%s%.300s: %s: %s%s", state->scope->bucket, *key ? "/" : "", key,
                    name_of_kind(state), what, about);
  return TSR_BUCKET_FAILED;
}

/* ---- Meanings -------------------------------------------------------------------------------- */

typedef enum meaning {
  MEANS_REFUSED,
  MEANS_TRANSIENT,
  MEANS_EXPIRED,
  MEANS_ELSEWHERE,
  MEANS_SKEWED,
  MEANS_MISSING,
  MEANS_NO_BUCKET,
  MEANS_NO_UPLOAD,
  MEANS_DENIED,
  MEANS_MET,
  MEANS_RANGE
} meaning;

static meaning meaning_of_code(const char *code) {
  static const struct {
    const char *code;
    meaning meaning;
  } codes[] = {
      {"SlowDown", MEANS_TRANSIENT},
      {"InternalError", MEANS_TRANSIENT},
      {"ServiceUnavailable", MEANS_TRANSIENT},
      {"RequestTimeout", MEANS_TRANSIENT},
      {"OperationAborted", MEANS_TRANSIENT},
      {"ConditionalRequestConflict", MEANS_TRANSIENT},
      {"Throttling", MEANS_TRANSIENT},
      {"ThrottlingException", MEANS_TRANSIENT},
      {"RequestLimitExceeded", MEANS_TRANSIENT},
      {"RequestThrottled", MEANS_TRANSIENT},
      {"BandwidthLimitExceeded", MEANS_TRANSIENT},
      /* a byte was corrupted in transit */
      {"BadDigest", MEANS_TRANSIENT},
      {"XAmzContentSHA256Mismatch", MEANS_TRANSIENT},
      {"IncompleteBody", MEANS_TRANSIENT},
      {"ExpiredToken", MEANS_EXPIRED},
      {"ExpiredTokenException", MEANS_EXPIRED},
      {"TokenRefreshRequired", MEANS_EXPIRED},
      {"AuthorizationHeaderMalformed", MEANS_ELSEWHERE},
      {"PermanentRedirect", MEANS_ELSEWHERE},
      {"TemporaryRedirect", MEANS_ELSEWHERE},
      {"IllegalLocationConstraintException", MEANS_ELSEWHERE},
      {"RequestTimeTooSkewed", MEANS_SKEWED},
      {"NoSuchBucket", MEANS_NO_BUCKET},
      {"NoSuchUpload", MEANS_NO_UPLOAD},
      {"NoSuchKey", MEANS_MISSING},
      {"PreconditionFailed", MEANS_MET},
      {"InvalidRange", MEANS_RANGE},
      /* an unknown access key, which versitygw reports with status 404 */
      {"XAdminUserNotFound", MEANS_DENIED},
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(code, codes[i].code) == 0) return codes[i].meaning;
  return MEANS_REFUSED;
}

static meaning meaning_of(uint32_t status, const char *code) {
  const meaning by_code = meaning_of_code(code);
  if (by_code != MEANS_REFUSED) return by_code;
  switch (status) {
  case 301:
  case 307:
  case 308: return MEANS_ELSEWHERE;
  case 401:
  case 403: return MEANS_DENIED;
  case 404: return MEANS_MISSING;
  case 408:
  case 409:
  case 429: return MEANS_TRANSIENT;
  case 412: return MEANS_MET;
  case 416: return MEANS_RANGE;
  case 501: return MEANS_REFUSED;
  default: return status >= 500 ? MEANS_TRANSIENT : MEANS_REFUSED;
  }
}

/* ---- What can be corrected ------------------------------------------------------------------- */

static tsr_bucket_outcome renew_keys(tsr_bucket_state *state, const char *code) {
  (void)tsr__bucket_fail(state, TSR_DENIED, code, "the keys have expired, and there are no newer ones");
  if (state->tries.renewed) return TSR_BUCKET_FAILED;
  state->tries.renewed = true;
  state->tries.refused = state->made.key_number;
  return TSR_BUCKET_SOON;
}

static tsr_bucket_outcome move_region(tsr_bucket_state *state, const tsr_s3_failure *failure, const char *code) {
  const char *region = failure && *failure->region ? failure->region : state->http.response.bucket_region;
  char word[72];
  copy_word(word, region);
  if (*word)
    (void)tsr__bucket_fail(state, TSR_ERROR, code,
                           "the bucket is in the region '%.63s', the request was for '%s': set the option region", word,
                           state->made.region);
  else
    (void)tsr__bucket_fail(state, TSR_ERROR, code,
                           "the server sends this request elsewhere: look at the options endpoint and region");
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
  if (kind == TSR_BUCKET_DELETE || kind == TSR_BUCKET_DELETE_MANY)
    return TSR_BUCKET_DONE; /* of DELETE_MANY one key: take_refusal continues with the next */
  if (kind == TSR_BUCKET_UPLOAD_ABORT) return TSR_BUCKET_DONE;
  if (kind == TSR_BUCKET_LIST || kind == TSR_BUCKET_UPLOAD_LIST || kind == TSR_BUCKET_PUT ||
      kind == TSR_BUCKET_UPLOAD_CREATE)
    return tsr__bucket_fail(state, TSR_ERROR, code, "no such bucket");
  return tsr__bucket_fail(state, TSR_NOT_FOUND, code, "no such object");
}

/* Judges an unsuccessful response, or an <Error> behind status 200. `failure`: the <Error>, or NULL. */
static tsr_bucket_outcome bucket_judge(tsr_bucket_state *state, const tsr_s3_failure *failure) {
  const char *code = failure ? failure->code : "";
  const uint32_t status = state->http.response.status;
  const bool mute = !*code && strcmp(state->http.method, "HEAD") == 0;
  if (mute && (status == 400 || status == 403)) return guess_reason(state);
  switch (meaning_of(status, code)) {
  case MEANS_TRANSIENT:
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, code, "the server cannot carry it out now");
  case MEANS_EXPIRED: return renew_keys(state, code);
  case MEANS_ELSEWHERE: return move_region(state, failure, code);
  case MEANS_SKEWED: return correct_clock(state, code);
  case MEANS_MISSING: return judge_missing(state, code);
  case MEANS_NO_BUCKET: return tsr__bucket_fail(state, TSR_ERROR, code, "no such bucket");
  case MEANS_NO_UPLOAD:
    if (state->call->kind == TSR_BUCKET_UPLOAD_ABORT) return TSR_BUCKET_DONE;
    return tsr__bucket_fail(state, TSR_NOT_FOUND, code, "no such upload");
  case MEANS_DENIED: return tsr__bucket_fail(state, TSR_DENIED, code, "refused");
  case MEANS_MET: return tsr__bucket_fail(state, TSR_EXISTS, code, "it exists already");
  case MEANS_RANGE: return tsr__bucket_fail(state, TSR_CORRUPT, code, "the range is outside the object");
  case MEANS_REFUSED: break;
  }
  if (status == 400 && *state->http.response.bucket_region &&
      strcmp(state->http.response.bucket_region, state->made.region) != 0)
    return move_region(state, failure, code);
  return tsr__bucket_fail(state, TSR_ERROR, code, "the server refuses it");
}

/* Judges a request without a complete response. */
static tsr_bucket_outcome bucket_judge_transport(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const int rc = http->rc < 0 ? http->rc : TSR_UNREACHABLE;
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

bool tsr__bucket_plan_retry(tsr_bucket_state *state, tsr_bucket_outcome verdict) {
  const tsr_http_response *response = &state->http.response;
  state->tries.due = tsr__bucket_ticks();
  if (verdict == TSR_BUCKET_SOON) return true; /* at most once for each reason */
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

/* Writes the Range header of the next request, or "". */
static void bucket_get_range(const tsr_bucket_state *state, char range[64]) {
  const tsr_bucket_call *call = state->call;
  *range = 0;
  if (state->got.placed && state->got.have > 0 && state->got.end == UINT64_MAX)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-", state->got.first + state->got.have);
  else if (state->got.placed && state->got.have > 0)
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, state->got.first + state->got.have, state->got.end - 1);
  else if (is_ranged(state) && call->get.range == TSR_BUCKET_SUFFIX)
    (void)snprintf(range, 64, "bytes=-%" PRIu64, call->get.size);
  else if (is_ranged(state))
    (void)snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, call->get.offset, call->get.offset + call->get.size - 1);
}

/* Directs the body to its destination. Errors: TSR_TOOBIG if that has no room for the requested range. */
static int bucket_get_prepare(tsr_bucket_state *state, tsr_error *error) {
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
static void bucket_get_restart(tsr_bucket_state *state) {
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

static bool place(tsr_bucket_state *state) {
  const tsr_http_response *a = &state->http.response;
  if (state->got.placed && state->got.have > 0) return place_rest(state);
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
static tsr_bucket_outcome go_on(tsr_bucket_state *state, uint64_t got) {
  if (state->http.failure != TSR_HTTP_WHOLE) (void)bucket_judge_transport(state);
  else (void)tsr__bucket_fail(state, TSR_UNREACHABLE, "", "the answer has fewer bytes than the object");
  if (state->http.failure == TSR_HTTP_NO_MEMORY || state->http.failure == TSR_HTTP_CANCELLED) return TSR_BUCKET_FAILED;
  if (!*state->got.etag.text || state->got.etag.text[0] == 'W') {
    bucket_get_restart(state); /* equal weak ETags do not mean equal bytes */
    return TSR_BUCKET_AGAIN;
  }
  if (got >= ADVANCE && state->tries.failed > 0) state->tries.failed--;
  return TSR_BUCKET_AGAIN;
}

/* Takes a response with status 200 or 206, even one that was cut short. */
static tsr_bucket_outcome bucket_get_take(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const bool ranged = is_ranged(state), rest = state->got.placed && state->got.have > 0;
  const uint64_t before = state->got.have;
  if (http->failure == TSR_HTTP_TOO_LARGE && !ranged)
    return tsr__bucket_fail(state, TSR_TOOBIG, "", "the object has more than %" PRIu64 " bytes",
                            limit_of_get(state->call));
  if (http->failure == TSR_HTTP_TOO_LARGE || !place(state)) {
    if (rest) bucket_get_restart(state);
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "",
                                 "the server answered other bytes than the range that was requested");
  }
  state->got.have = before + http->size;
  if (http->failure != TSR_HTTP_WHOLE) return go_on(state, http->size);
  if (state->got.end == UINT64_MAX) state->got.end = state->got.total = state->got.first + state->got.have;
  if (state->got.first + state->got.have < state->got.end) return go_on(state, http->size);
  return get_is_done(state);
}

/* ---- Taking responses ------------------------------------------------------------------------ */

static void keep_etag(tsr_etag *etag, const char *text) { (void)snprintf(etag->text, sizeof etag->text, "%s", text); }

static const uint8_t *answer_bytes(const tsr_bucket_state *state) { return state->http.received.data; }

/* Unparseable reply: corrupted in transit, or not an S3 server. */
static tsr_bucket_outcome fail_unread(tsr_bucket_state *state, int rc, const tsr_error *error) {
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

/* Adds an entry of a listing. The server may be hostile: keys outside the prefix, or before `start_after`, are
 * errors. */
static int add_listed(const tsr_bucket_call *call, const tsr_bucket_object *object, tsr_error *error) {
  tsr_bucket_objects *objects = call->list.objects;
  if (strncmp(object->key, call->key, strlen(call->key)) != 0)
    return tsr__fail(error, TSR_CORRUPT, "a key outside the prefix");
  if (call->list.start_after && strcmp(object->key, call->list.start_after) <= 0 && !object->is_prefix)
    return tsr__fail(error, TSR_CORRUPT, "a key before those that were requested");
  if (call->list.most > 0 && objects->count >= call->list.most)
    return tsr__fail(error, TSR_TOOBIG, "more than %" PRIu64 " entries", call->list.most);
  return add_object(objects, object, error);
}

static int compare_objects(const void *a, const void *b) {
  return strcmp(((const tsr_bucket_object *)a)->key, ((const tsr_bucket_object *)b)->key);
}

/* Keeps the token of the next page, including its NUL byte. */
static int keep_token(tsr_buffer *token, const char *text, tsr_error *error) {
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

static int add_page(tsr_bucket_state *state, const tsr_s3_listing *page, tsr_error *error) {
  tsr_bucket_objects *objects = state->call->list.objects;
  const uint64_t from = objects->count;
  for (uint64_t i = 0; i < page->entry_count; i++) {
    const tsr_s3_entry *e = &page->entries[i];
    const tsr_bucket_object object = {
        .key = e->key, .size = e->size, .etag = e->etag, .modified = e->modified == INT64_MIN ? 0 : e->modified};
    TSR_TRY(add_listed(state->call, &object, error));
  }
  for (uint64_t i = 0; i < page->prefix_count; i++) {
    const tsr_bucket_object object = {.key = page->prefixes[i], .etag = "", .is_prefix = true};
    TSR_TRY(add_listed(state->call, &object, error));
  }
  if (objects->count > from) qsort(objects->at + from, objects->count - from, sizeof *objects->at, compare_objects);
  TSR_TRY(check_pages(objects, from, error));
  if (!page->next) return TSR_OK;
  if (objects->count == from && state->page.token.size > 0) /* servers send empty pages, but not two in a row */
    return tsr__fail(error, TSR_CORRUPT, "an empty page that is not the last one");
  TSR_TRY(keep_token(&state->page.token, page->next, error));
  return 1;
}

/* Ends a page. If it was unparseable, removes the entries that it has added. */
static tsr_bucket_outcome end_page(tsr_bucket_state *state, int rc, uint64_t from, const tsr_error *error) {
  if (rc < 0) state->call->list.objects->count = from;
  if (rc < 0) return fail_unread(state, rc, error);
  return rc > 0 ? TSR_BUCKET_NEXT : TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_listing_page(tsr_bucket_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_s3_listing page;
  tsr_s3_failure failure;
  tsr_error error = {0};
  int rc = tsr__s3_response_listing(answer_bytes(state), state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return bucket_judge(state, &failure);
  if (rc >= 0) rc = add_page(state, &page, &error);
  return end_page(state, rc, from, &error);
}

static int add_uploads(tsr_bucket_state *state, const tsr_s3_uploads *page, tsr_error *error) {
  for (uint64_t i = 0; i < page->upload_count; i++) {
    const tsr_s3_upload *u = &page->uploads[i];
    const tsr_bucket_object object = {
        .key = u->key, .etag = u->upload_id, .modified = u->initiated == INT64_MIN ? 0 : u->initiated};
    TSR_TRY(add_listed(state->call, &object, error));
  }
  if (!page->next_key) return TSR_OK;
  const char *id = page->next_upload_id ? page->next_upload_id : "";
  if (page->upload_count == 0 ||
      (state->page.token.size > 0 && strcmp((const char *)state->page.token.data, page->next_key) == 0 &&
       strcmp((const char *)state->page.token_id.data, id) == 0))
    return tsr__fail(error, TSR_CORRUPT, "a page that does not advance");
  TSR_TRY(keep_token(&state->page.token, page->next_key, error));
  TSR_TRY(keep_token(&state->page.token_id, id, error));
  return 1;
}

static tsr_bucket_outcome take_uploads(tsr_bucket_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_s3_uploads page;
  tsr_s3_failure failure;
  tsr_error error = {0};
  int rc = tsr__s3_response_uploads(answer_bytes(state), state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return bucket_judge(state, &failure);
  if (rc >= 0) rc = add_uploads(state, &page, &error);
  return end_page(state, rc, from, &error);
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
  char expected[64];
  int rc = TSR_OK;
  for (uint32_t i = 0; i < call->upload.part_count && rc >= 0; i++) {
    const char *text = call->upload.etags[i].text + (call->upload.etags[i].text[0] == '"');
    for (int j = 0; j < TSR_MD5_SIZE && rc >= 0; j++) {
      unsigned value;
      if (sscanf(text + 2 * j, "%2x", &value) != 1) rc = TSR_ERROR;
      else rc = tsr__buffer_append_u8(&digests, (uint8_t)value, NULL);
      if (rc >= 0 && (!text[2 * j] || !text[2 * j + 1])) rc = TSR_ERROR;
    }
  }
  if (rc >= 0) rc = tsr__md5(digests.data, digests.size, digest, NULL);
  tsr__buffer_release(&digests);
  if (rc < 0) return false;
  int at = snprintf(expected, sizeof expected, "\"");
  for (int i = 0; i < TSR_MD5_SIZE; i++) at += snprintf(expected + at, sizeof expected - (size_t)at, "%02x", digest[i]);
  (void)snprintf(expected + at, sizeof expected - (size_t)at, "-%" PRIu32 "\"", call->upload.part_count);
  return strcmp(expected, etag) == 0;
}

static tsr_bucket_outcome begin_step(tsr_bucket_state *state, tsr_bucket_step step) {
  if (state->step == TSR_BUCKET_STEP_CALL) state->owner.met = state->call->error;
  state->step = step;
  return TSR_BUCKET_NEXT;
}

/* It is somebody else's object: reports the original error. */
static tsr_bucket_outcome concede(tsr_bucket_state *state) {
  state->call->error = state->owner.met;
  state->step = TSR_BUCKET_STEP_CALL;
  return TSR_BUCKET_FAILED;
}

static tsr_bucket_outcome take_look(tsr_bucket_state *state) {
  tsr_bucket_call *call = state->call;
  const tsr_http_response *response = &state->http.response;
  const bool put = call->kind == TSR_BUCKET_PUT;
  if (response->status == 404 && put) { /* the object in our way is gone */
    state->step = TSR_BUCKET_STEP_CALL;
    return TSR_BUCKET_AGAIN;
  }
  if (response->status == 404) return concede(state);
  if (response->status != 200) return bucket_judge(state, NULL);
  keep_etag(&call->result.etag, response->etag);
  if (put && *state->owner.mark && strcmp(response->content_type, state->owner.mark) == 0) return TSR_BUCKET_DONE;
  if (!put) return is_etag_of_parts(call, response->etag, state->memory) ? TSR_BUCKET_DONE : concede(state);
  const bool has_mark = strstr(response->content_type, "; put=") != NULL; /* another call's mark */
  if (has_mark || call->put.size == 0 || !response->has_length || response->content_length != call->put.size)
    return concede(state);
  return begin_step(state, TSR_BUCKET_STEP_COMPARE);
}

static tsr_bucket_outcome take_compared(tsr_bucket_state *state) {
  const tsr_bucket_call *call = state->call;
  if (state->http.failure == TSR_HTTP_TOO_LARGE) return concede(state);
  if (state->http.response.status != 200) return bucket_judge(state, NULL);
  const bool same =
      state->http.size == call->put.size && memcmp(answer_bytes(state), call->put.bytes, call->put.size) == 0;
  return same ? TSR_BUCKET_DONE : concede(state);
}

/* ---- The other kinds ------------------------------------------------------------------------- */

static tsr_bucket_outcome take_head(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  tsr_bucket_call *call = state->call;
  if (!response->has_length) return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer has no size");
  call->result.object_size = response->content_length;
  call->result.modified = response->last_modified == INT64_MIN ? 0 : response->last_modified;
  keep_etag(&call->result.etag, response->etag);
  return TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_copied(tsr_bucket_state *state) {
  const bool copy = state->call->kind == TSR_BUCKET_COPY;
  tsr_s3_failure failure;
  tsr_error error = {0};
  const char *etag;
  int64_t modified;
  const uint8_t *bytes = answer_bytes(state);
  const int rc =
      copy ? tsr__s3_response_copied(bytes, state->http.size, &state->arena, &etag, &modified, &failure, &error)
           : tsr__s3_response_completed(bytes, state->http.size, &state->arena, &etag, &failure, &error);
  if (rc > 0) return bucket_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  keep_etag(&state->call->result.etag, etag);
  return TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_created(tsr_bucket_state *state) {
  tsr_s3_failure failure;
  tsr_error error = {0};
  const char *id;
  const int rc = tsr__s3_response_upload(answer_bytes(state), state->http.size, &state->arena, &id, &failure, &error);
  if (rc > 0) return bucket_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  if (strlen(id) >= sizeof state->call->result.id)
    return tsr__bucket_fail(state, TSR_UNREACHABLE, "", "the upload's id is too long");
  memcpy(state->call->result.id, id, strlen(id) + 1);
  return TSR_BUCKET_DONE;
}

/* Continues with the next keys. */
static tsr_bucket_outcome advance_deletion(tsr_bucket_state *state) {
  state->deleted.at += state->deleted.batch;
  return state->deleted.at < state->call->key_count ? TSR_BUCKET_NEXT : TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_deleted(tsr_bucket_state *state) {
  tsr_s3_deletion deletion;
  tsr_s3_failure failure;
  tsr_error error = {0};
  if (strcmp(state->http.method, "DELETE") == 0) return advance_deletion(state);
  const int rc =
      tsr__s3_response_deletion(answer_bytes(state), state->http.size, &state->arena, &deletion, &failure, &error);
  if (rc > 0) return bucket_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  for (uint64_t i = 0; i < deletion.failure_count; i++) {
    if (strcmp(deletion.failures[i].code, "NoSuchKey") == 0) continue;
    if (strcmp(deletion.failures[i].code, "AccessDenied") == 0)
      return tsr__bucket_fail(state, TSR_DENIED, "AccessDenied", "refused for %.200s", deletion.failures[i].key);
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, deletion.failures[i].code, "failed for %.200s",
                                 deletion.failures[i].key);
  }
  return advance_deletion(state);
}

static tsr_bucket_outcome take_success(tsr_bucket_state *state) {
  switch (state->call->kind) {
  case TSR_BUCKET_GET: return bucket_get_take(state);
  case TSR_BUCKET_HEAD: return take_head(state);
  case TSR_BUCKET_LIST: return take_listing_page(state);
  case TSR_BUCKET_UPLOAD_LIST: return take_uploads(state);
  case TSR_BUCKET_DELETE_MANY: return take_deleted(state);
  case TSR_BUCKET_COPY:
  case TSR_BUCKET_UPLOAD_COMPLETE: return take_copied(state);
  case TSR_BUCKET_UPLOAD_CREATE: return take_created(state);
  case TSR_BUCKET_PUT:
  case TSR_BUCKET_UPLOAD_PART: keep_etag(&state->call->result.etag, state->http.response.etag); return TSR_BUCKET_DONE;
  case TSR_BUCKET_DELETE:
  case TSR_BUCKET_UPLOAD_ABORT: break;
  }
  return TSR_BUCKET_DONE;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Takes an unsuccessful response, and tries the alternatives that this kind of call has. */
static tsr_bucket_outcome take_refusal(tsr_bucket_state *state, const tsr_s3_failure *failure) {
  const uint32_t status = state->http.response.status;
  const tsr_bucket_call *call = state->call;
  const tsr_bucket_outcome verdict = bucket_judge(state, failure);
  if (call->kind == TSR_BUCKET_GET && status == 416 && call->get.range == TSR_BUCKET_SUFFIX && !state->got.unranged) {
    state->got.unranged = true; /* rclone answers so if the object is shorter than the suffix */
    bucket_get_restart(state);
    return TSR_BUCKET_NEXT;
  }
  if (call->kind == TSR_BUCKET_GET && state->got.placed && state->got.have > 0 && (status == 412 || status == 416)) {
    bucket_get_restart(state); /* the object has been replaced */
    return TSR_BUCKET_AGAIN;
  }
  if (call->kind == TSR_BUCKET_DELETE_MANY && verdict == TSR_BUCKET_DONE) return advance_deletion(state);
  if (call->kind == TSR_BUCKET_DELETE_MANY && !state->deleted.singly && strcmp(state->http.method, "POST") == 0 &&
      (status == 400 || status == 405 || status == 501) && verdict == TSR_BUCKET_FAILED) {
    state->deleted.singly = true;
    return TSR_BUCKET_NEXT;
  }
  const int code = call->error.code;
  if (call->kind == TSR_BUCKET_PUT && call->put.new_only && code == TSR_EXISTS)
    return begin_step(state, TSR_BUCKET_STEP_LOOK);
  if (call->kind == TSR_BUCKET_UPLOAD_COMPLETE && (code == TSR_EXISTS || code == TSR_NOT_FOUND))
    return begin_step(state, TSR_BUCKET_STEP_LOOK);
  return verdict;
}

static tsr_bucket_outcome take_status(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const uint64_t before = http->received.size - TSR_MIN(http->received.size, http->size);
  tsr_s3_failure failure = {.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  tsr_error ignored = {0};
  if (state->step == TSR_BUCKET_STEP_LOOK) return take_look(state);
  const bool success = http->response.status >= 200 && http->response.status < 300;
  if (state->step == TSR_BUCKET_STEP_COMPARE) return take_compared(state);
  if (success) return take_success(state);
  if (http->received.size > before &&
      tsr__s3_response_failure(http->received.data + before, http->received.size - before, &state->arena, &failure,
                               &ignored) < 0)
    failure = (tsr_s3_failure){.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  return take_refusal(state, &failure);
}

tsr_bucket_outcome tsr__bucket_take(tsr_bucket_state *state) {
  const tsr_http_request *http = &state->http;
  const bool get = state->step == TSR_BUCKET_STEP_CALL && state->call->kind == TSR_BUCKET_GET;
  tsr_bucket_outcome verdict;
  if (get && (http->response.status == 200 || http->response.status == 206) && http->failure != TSR_HTTP_REFUSED)
    verdict = bucket_get_take(state);
  else if (http->failure == TSR_HTTP_WHOLE ||
           (http->failure == TSR_HTTP_TOO_LARGE && state->step == TSR_BUCKET_STEP_COMPARE))
    verdict = take_status(state);
  else verdict = bucket_judge_transport(state);
  if (get) tsr__bucket_get_return(state);
  else state->response = state->http.received;
  if (!get) state->http.received = (tsr_buffer){.memory = state->memory};
  tsr__arena_reset(&state->arena);
  return verdict;
}

/* ---- Making requests ------------------------------------------------------------------------- */

#define LIST_ANSWER_MAX (UINT64_C(16) << 20) /* more than a page of 1,000 keys whose characters are all entities */
#define MANY_MAX        1000u /* keys per request of a DELETE_MANY */

/* A request before it is signed. */
typedef struct draft {
  const char *method, *key;
  tsr_sigv4_pair query[8], headers[12];
  uint32_t query_count, header_count;
  const void *body;
  uint64_t body_size;
  char range[64], number[16], digest[32];
  tsr_buffer source; /* for a copy */
} draft;

static void draft_query(draft *d, const char *name, const char *value) {
  d->query[d->query_count++] = (tsr_sigv4_pair){name, value};
}

static void draft_header(draft *d, const char *name, const char *value) {
  if (value && *value) d->headers[d->header_count++] = (tsr_sigv4_pair){name, value};
}

/* Adds the headers of requests that create an object. */
static void add_new_object(draft *d, const tsr_scope_options *options) {
  draft_header(d, "x-amz-server-side-encryption", options->sse);
  draft_header(d, "x-amz-server-side-encryption-aws-kms-key-id", options->kms_key_id);
  draft_header(d, "x-amz-storage-class", options->storage_class);
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

static int append_body_text(tsr_buffer *body, const char *text, tsr_error *error) {
  return tsr__buffer_append(body, text, strlen(text), error);
}

static int append_escaped(tsr_buffer *body, const char *text, tsr_error *error) {
  for (; *text; text++) {
    const char *escape = *text == '&'    ? "&amp;"
                         : *text == '<'  ? "&lt;"
                         : *text == '>'  ? "&gt;"
                         : *text == '"'  ? "&quot;"
                         : *text == '\r' ? "&#13;"
                                         : NULL;
    TSR_TRY(escape ? append_body_text(body, escape, error) : tsr__buffer_append(body, text, 1, error));
  }
  return TSR_OK;
}

/* Returns false for a key with control characters that XML cannot represent. */
static bool fits_xml(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' && !strchr("\t\n\r", *text)) return false;
  return true;
}

static void write_base64(const uint8_t *bytes, size_t size, char *text) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    const uint32_t left = (uint32_t)(size - i), word = (uint32_t)bytes[i] << 16 |
                                                       (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                                                       (left > 2 ? bytes[i + 2] : 0);
    for (uint32_t j = 0; j < 4; j++) *text++ = j <= left ? digits[word >> (18 - 6 * j) & 63] : '=';
  }
  *text = 0;
}

/* DELETE_MANY: puts as many of the next keys as possible into one request; a key that XML cannot represent goes
 * alone. */
static int make_deletion(tsr_bucket_state *state, draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_buffer *body = &state->body;
  uint8_t md5[TSR_MD5_SIZE];
  body->size = 0;
  state->deleted.batch = 0;
  while (!state->deleted.singly && state->deleted.batch < MANY_MAX &&
         state->deleted.at + state->deleted.batch < call->key_count) {
    const char *key = call->keys[state->deleted.at + state->deleted.batch];
    if (!fits_xml(key)) break;
    TSR_TRY(append_body_text(body, state->deleted.batch ? "<Object><Key>" : "<Delete><Quiet>true</Quiet><Object><Key>",
                             error));
    TSR_TRY(append_escaped(body, key, error));
    TSR_TRY(append_body_text(body, "</Key></Object>", error));
    state->deleted.batch++;
  }
  if (state->deleted.batch == 0) {
    state->deleted.batch = 1;
    d->method = "DELETE";
    d->key = call->keys[state->deleted.at];
    return TSR_OK;
  }
  TSR_TRY(append_body_text(body, "</Delete>", error));
  TSR_TRY(tsr__md5(body->data, body->size, md5, error));
  write_base64(md5, sizeof md5, d->digest);
  d->method = "POST";
  d->key = "";
  draft_query(d, "delete", "");
  draft_header(d, "content-md5", d->digest);
  draft_header(d, "content-type", "application/xml");
  d->body = body->data;
  d->body_size = body->size;
  return TSR_OK;
}

static int make_completion(tsr_bucket_state *state, draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_buffer *body = &state->body;
  body->size = 0;
  TSR_TRY(append_body_text(body, "<CompleteMultipartUpload>", error));
  for (uint32_t i = 0; i < call->upload.part_count; i++) {
    TSR_TRY(tsr__buffer_printf(body, error, "<Part><PartNumber>%" PRIu32 "</PartNumber><ETag>", i + 1));
    TSR_TRY(append_escaped(body, call->upload.etags[i].text, error));
    TSR_TRY(append_body_text(body, "</ETag></Part>", error));
  }
  TSR_TRY(append_body_text(body, "</CompleteMultipartUpload>", error));
  d->method = "POST";
  draft_query(d, "uploadId", call->upload.id);
  draft_header(d, "if-none-match", call->put.new_only ? "*" : NULL);
  draft_header(d, "content-type", "application/xml");
  d->body = body->data;
  d->body_size = body->size;
  return TSR_OK;
}

/* ---- The kinds of calls ---------------------------------------------------------------------- */

static void draft_put(tsr_bucket_state *state, draft *d) {
  const tsr_bucket_call *call = state->call;
  uint8_t chance[16];
  d->method = "PUT";
  d->body = call->put.bytes;
  d->body_size = call->put.size;
  add_new_object(d, &state->scope->options);
  if (!call->put.new_only) return;
  if (!*state->owner.mark && tsr__random(chance, sizeof chance, NULL) >= 0) {
    int at = snprintf(state->owner.mark, sizeof state->owner.mark, "application/octet-stream; put=");
    for (size_t i = 0; i < sizeof chance; i++)
      at += snprintf(state->owner.mark + at, sizeof state->owner.mark - (size_t)at, "%02x", chance[i]);
  }
  draft_header(d, "if-none-match", "*");
  draft_header(d, "content-type", state->owner.mark);
}

static void draft_list(const tsr_bucket_state *state, draft *d) {
  const tsr_bucket_call *call = state->call;
  d->key = "";
  draft_query(d, "prefix", call->key);
  if (call->kind == TSR_BUCKET_UPLOAD_LIST) {
    draft_query(d, "uploads", "");
    if (state->page.token.size > 0) draft_query(d, "key-marker", (const char *)state->page.token.data);
    if (state->page.token.size > 0) draft_query(d, "upload-id-marker", (const char *)state->page.token_id.data);
    return;
  }
  draft_query(d, "list-type", "2");
  if (call->list.delimiter) {
    d->number[0] = call->list.delimiter;
    draft_query(d, "delimiter", d->number);
  }
  if (state->page.token.size > 0) draft_query(d, "continuation-token", (const char *)state->page.token.data);
  else if (call->list.start_after) draft_query(d, "start-after", call->list.start_after);
}

static int draft_copy(tsr_bucket_state *state, draft *d, tsr_error *error) {
  d->method = "PUT";
  TSR_TRY(tsr__buffer_printf(&d->source, error, "/%s/", state->scope->bucket));
  TSR_TRY(tsr__sigv4_encode(state->call->source, true, &d->source, error));
  draft_header(d, "x-amz-copy-source", (const char *)d->source.data);
  add_new_object(d, &state->scope->options);
  return TSR_OK;
}

static int draft_call(tsr_bucket_state *state, draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  switch (call->kind) {
  case TSR_BUCKET_GET:
    bucket_get_range(state, d->range);
    draft_header(d, "range", d->range);
    if (state->got.placed && state->got.have > 0) draft_header(d, "if-match", state->got.etag.text);
    return TSR_OK;
  case TSR_BUCKET_HEAD: d->method = "HEAD"; return TSR_OK;
  case TSR_BUCKET_LIST:
  case TSR_BUCKET_UPLOAD_LIST: draft_list(state, d); return TSR_OK;
  case TSR_BUCKET_PUT: draft_put(state, d); return TSR_OK;
  case TSR_BUCKET_DELETE: d->method = "DELETE"; return TSR_OK;
  case TSR_BUCKET_DELETE_MANY: return make_deletion(state, d, error);
  case TSR_BUCKET_COPY: return draft_copy(state, d, error);
  case TSR_BUCKET_UPLOAD_CREATE:
    d->method = "POST";
    draft_query(d, "uploads", "");
    add_new_object(d, &state->scope->options);
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_PART:
    d->method = "PUT";
    (void)snprintf(d->number, sizeof d->number, "%" PRIu32, call->upload.part);
    draft_query(d, "partNumber", d->number);
    draft_query(d, "uploadId", call->upload.id);
    d->body = call->put.bytes;
    d->body_size = call->put.size;
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_COMPLETE: return make_completion(state, d, error);
  case TSR_BUCKET_UPLOAD_ABORT:
    d->method = "DELETE";
    draft_query(d, "uploadId", call->upload.id);
    return TSR_OK;
  }
  return tsr__fail(error, TSR_ERROR, "no such kind of call: %d", (int)call->kind);
}

/* ---- Signing --------------------------------------------------------------------------------- */

/* Directs the body of the response to its destination. */
static int prepare_answer(tsr_bucket_state *state, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_http_request *http = &state->http;
  state->response.size = 0;
  if (state->step == TSR_BUCKET_STEP_CALL && call->kind == TSR_BUCKET_GET) return bucket_get_prepare(state, error);
  http->most = LIST_ANSWER_MAX;
  if (state->step == TSR_BUCKET_STEP_COMPARE) http->most = call->put.size;
  if (state->step == TSR_BUCKET_STEP_COMPARE)
    TSR_TRY(tsr__buffer_reserve_exactly(&state->response, call->put.size, error));
  http->received = state->response;
  state->response = (tsr_buffer){.memory = state->memory};
  return TSR_OK;
}

static int sign_draft(tsr_bucket_state *state, draft *d, tsr_error *error) {
  if (state->scope->options.requester_pays) draft_header(d, "x-amz-request-payer", "requester");
  tsr_sigv4_request request = {.method = d->method,
                               .query = d->query,
                               .query_count = d->query_count,
                               .headers = d->headers,
                               .header_count = d->header_count};
  TSR_TRY(tsr__bucket_scope_sign(state->scope, state->memory, d->key, &request, d->body, d->body_size,
                                 state->tries.refused, &state->made, error));
  if (state->tries.refused && state->tries.refused == state->made.key_number) {
    if (error) *error = state->call->error; /* the provider has no newer keys: what the server said of them stands */
    return state->call->error.code < 0 ? state->call->error.code
                                       : tsr__fail(error, TSR_DENIED, "the keys have expired");
  }
  state->tries.refused = 0;
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
  draft d = {.method = "GET", .key = state->call->key, .source = {.memory = state->memory}};
  int rc = TSR_OK;
  if (state->step == TSR_BUCKET_STEP_LOOK) d.method = "HEAD";
  if (state->step == TSR_BUCKET_STEP_CALL) rc = draft_call(state, &d, error);
  if (rc >= 0) rc = sign_draft(state, &d, error);
  tsr__buffer_release(&d.source);
  return rc;
}
