/* s3_retry.c: what an answer means, and whether and when a request is sent again.
 *
 *   5xx, SlowDown, reset, stall, short body, 409       try again with jitter, signed again
 *   412                                                it exists: see s3_take.c
 *   ExpiredToken                                       ask the provider of keys once more
 *   another region                                     once more in the region named, on AWS; else an error that names it
 *   RequestTimeTooSkewed                               correct by the answer's Date, once
 *   403                                                TSR_DENIED, never "absent"
 *   404                                                TSR_NOT_FOUND, or an error if it is the bucket
 *
 * A HEAD has no body, so its 400 and 403 may be any of these: its Date and its region are looked at, and keys that can
 * be refreshed are refreshed once.
 */
#include "remote/s3_retry.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"

#define PAUSE_MIN   50u /* milliseconds; doubled with each try */
#define PAUSE_MAX   5000u
#define RETRY_AFTER 30u /* seconds: more is not waited for */
#define SKEW_MS     300000 /* a Date that differs by more may be why a HEAD was refused */

uint64_t tsr__s3_ticks(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const char *name_of_kind(const tsr_s3_state *state) {
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

/* Copies what a server may say into a message: letters, digits and a few signs. */
static void copy_word(char to[72], const char *from) {
  size_t size = 0;
  for (; from && *from && size < 71; from++)
    if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=.", *from)) to[size++] = *from;
  to[size] = 0;
}

tsr_s3_verdict tsr__s3_fail(tsr_s3_state *state, int rc, const char *code, const char *format, ...) {
  const tsr_http_answer *answer = &state->http.answer;
  char what[400], word[72], id[72], about[240] = "";
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  copy_word(word, code);
  copy_word(id, answer->request_id);
  if (answer->status)
    (void)snprintf(about, sizeof about, " (status %u%s%s%s%s)", answer->status, *word ? " " : "", word,
                   *id ? ", request " : "", id);
  const char *key = state->call->key ? state->call->key : "";
  tsr__error_clear(&state->call->error);
  if (state->call->unnamed) (void)tsr__fail(&state->call->error, rc, "%s: %s%s", name_of_kind(state), what, about);
  else
    (void)tsr__fail(&state->call->error, rc, "s3://%s%s%.300s: %s: %s%s", state->scope->bucket, *key ? "/" : "", key,
                    name_of_kind(state), what, about);
  return TSR_S3_FAILED;
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
      /* a byte was changed on the way */
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
      /* an unknown access key: versitygw says it with status 404 */
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

/* ---- What can be mended ---------------------------------------------------------------------- */

static tsr_s3_verdict renew_keys(tsr_s3_state *state, const char *code) {
  (void)tsr__s3_fail(state, TSR_DENIED, code, "the keys have expired, and there are no newer ones");
  if (state->tries.renewed) return TSR_S3_FAILED;
  state->tries.renewed = true;
  state->tries.refused = state->made.key_number;
  return TSR_S3_SOON;
}

static tsr_s3_verdict move_region(tsr_s3_state *state, const tsr_s3_failure *failure, const char *code) {
  const char *region = failure && *failure->region ? failure->region : state->http.answer.bucket_region;
  char word[72];
  copy_word(word, region);
  if (*word)
    (void)tsr__s3_fail(state, TSR_ERROR, code,
                       "the bucket is in the region '%.63s', the request was for '%s': set the option region", word,
                       state->made.region);
  else
    (void)tsr__s3_fail(state, TSR_ERROR, code,
                       "the server sends this request elsewhere: look at the options endpoint and region");
  if (state->tries.moved || !state->scope->endpoint.aws ||
      !tsr__s3_scope_learn_region(state->scope, word, state->made.region))
    return TSR_S3_FAILED;
  state->tries.moved = true;
  return TSR_S3_SOON;
}

static tsr_s3_verdict correct_clock(tsr_s3_state *state, const char *code) {
  const int64_t date = state->http.answer.date;
  (void)tsr__s3_fail(state, TSR_DENIED, code, "the clock of this machine differs too much from the server's");
  if (state->tries.dated || date == INT64_MIN) return TSR_S3_FAILED;
  state->tries.dated = true;
  atomic_store(&state->scope->clocks.skew, date - tsr__s3_clock());
  return TSR_S3_SOON;
}

/* A HEAD was refused, without a reason. */
static tsr_s3_verdict guess_reason(tsr_s3_state *state) {
  const tsr_http_answer *answer = &state->http.answer;
  const int64_t dated = tsr__s3_clock() + atomic_load(&state->scope->clocks.skew);
  if (!state->tries.moved && *answer->bucket_region && strcmp(answer->bucket_region, state->made.region) != 0)
    return move_region(state, NULL, "");
  if (!state->tries.dated && answer->date != INT64_MIN &&
      (answer->date > dated + SKEW_MS || answer->date < dated - SKEW_MS))
    return correct_clock(state, "");
  (void)tsr__s3_fail(state, TSR_DENIED, "", "refused");
  if (state->tries.renewed || state->scope->provider.kind == TSR_PROVIDER_KEYS ||
      state->scope->provider.kind == TSR_PROVIDER_ANONYMOUS)
    return TSR_S3_FAILED;
  state->tries.renewed = true;
  state->tries.refused = state->made.key_number;
  return TSR_S3_SOON;
}

/* ---- Judgement ------------------------------------------------------------------------------- */

static tsr_s3_verdict judge_missing(tsr_s3_state *state, const char *code) {
  const tsr_s3_kind kind = state->call->kind;
  if (kind == TSR_S3_DELETE || kind == TSR_S3_DELETE_MANY) return TSR_S3_DONE; /* one key of many: s3_take.c goes on */
  if (kind == TSR_S3_UPLOAD_ABORT) return TSR_S3_DONE;
  if (kind == TSR_S3_LIST || kind == TSR_S3_UPLOAD_LIST || kind == TSR_S3_PUT || kind == TSR_S3_UPLOAD_CREATE)
    return tsr__s3_fail(state, TSR_ERROR, code, "no such bucket");
  return tsr__s3_fail(state, TSR_NOT_FOUND, code, "no such object");
}

tsr_s3_verdict tsr__s3_judge(tsr_s3_state *state, const tsr_s3_failure *failure) {
  const char *code = failure ? failure->code : "";
  const uint32_t status = state->http.answer.status;
  const bool mute = !*code && strcmp(state->http.method, "HEAD") == 0;
  if (mute && (status == 400 || status == 403)) return guess_reason(state);
  switch (meaning_of(status, code)) {
  case MEANS_TRANSIENT: return TSR_S3_FAIL_AGAIN(state, TSR_UNREACHABLE, code, "the server cannot carry it out now");
  case MEANS_EXPIRED: return renew_keys(state, code);
  case MEANS_ELSEWHERE: return move_region(state, failure, code);
  case MEANS_SKEWED: return correct_clock(state, code);
  case MEANS_MISSING: return judge_missing(state, code);
  case MEANS_NO_BUCKET: return tsr__s3_fail(state, TSR_ERROR, code, "no such bucket");
  case MEANS_NO_UPLOAD:
    if (state->call->kind == TSR_S3_UPLOAD_ABORT) return TSR_S3_DONE;
    return tsr__s3_fail(state, TSR_NOT_FOUND, code, "no such upload");
  case MEANS_DENIED: return tsr__s3_fail(state, TSR_DENIED, code, "refused");
  case MEANS_MET: return tsr__s3_fail(state, TSR_EXISTS, code, "it exists already");
  case MEANS_RANGE: return tsr__s3_fail(state, TSR_CORRUPT, code, "the range lies outside the object");
  case MEANS_REFUSED: break;
  }
  if (status == 400 && *state->http.answer.bucket_region &&
      strcmp(state->http.answer.bucket_region, state->made.region) != 0)
    return move_region(state, failure, code);
  return tsr__s3_fail(state, TSR_ERROR, code, "the server refuses it");
}

tsr_s3_verdict tsr__s3_judge_transport(tsr_s3_state *state) {
  const tsr_http_request *http = &state->http;
  const int rc = http->rc < 0 ? http->rc : TSR_UNREACHABLE;
  (void)tsr__s3_fail(state, rc, "", "%s", http->error.message);
  switch (http->failure) {
  case TSR_HTTP_STALLED:
  case TSR_HTTP_CUT:
    state->tries.fresh = true; /* other kept connections may be dead, too */
    return TSR_S3_AGAIN;
  case TSR_HTTP_UNREACHED: return TSR_S3_AGAIN;
  default: return TSR_S3_FAILED;
  }
}

bool tsr__s3_plan_retry(tsr_s3_state *state, tsr_s3_verdict verdict) {
  const tsr_http_answer *answer = &state->http.answer;
  state->tries.due = tsr__s3_ticks();
  if (verdict == TSR_S3_SOON) return true; /* each reason counts once */
  if (state->tries.failed >= state->scope->options.retries) return false;
  const uint64_t most = TSR_MIN((uint64_t)PAUSE_MIN << TSR_MIN(state->tries.failed, 16), PAUSE_MAX);
  uint64_t chance = 0;
  (void)tsr__random(&chance, sizeof chance, NULL); /* without jitter if that fails */
  state->tries.due += most / 2 + chance % (most / 2 + 1);
  if (state->http.failure == TSR_HTTP_WHOLE && answer->retry_after > 0)
    state->tries.due += UINT64_C(1000) * TSR_MIN(answer->retry_after, RETRY_AFTER);
  state->tries.failed++;
  return true;
}
