/* dialect_s3.c: the requests and answers of S3. Google's servers copied most of them, with other names for headers:
 * tsr_s3_words. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "remote/bucket.h"
#include "base/arithmetic.h"
#include "tessera_host.h"
#include "crypto/crypto.h"
#include "remote/s3_response.h"

#define UNSIGNED_BYTES 65536u /* larger bodies are not hashed if TLS protects them */

static const tsr_s3_words *words_of(const tsr_bucket_state *state) { return state->scope->dialect->words; }

/* ---- What answers mean ----------------------------------------------------------------------- */

static tsr_meaning meaning_of_code(const char *code) {
  static const struct {
    const char *code;
    tsr_meaning meaning;
  } codes[] = {
      {"SlowDown", TSR_MEANS_TRANSIENT},
      {"InternalError", TSR_MEANS_TRANSIENT},
      {"ServiceUnavailable", TSR_MEANS_TRANSIENT},
      {"RequestTimeout", TSR_MEANS_TRANSIENT},
      {"OperationAborted", TSR_MEANS_TRANSIENT},
      {"ConditionalRequestConflict", TSR_MEANS_TRANSIENT},
      {"Throttling", TSR_MEANS_TRANSIENT},
      {"ThrottlingException", TSR_MEANS_TRANSIENT},
      {"RequestLimitExceeded", TSR_MEANS_TRANSIENT},
      {"RequestThrottled", TSR_MEANS_TRANSIENT},
      {"BandwidthLimitExceeded", TSR_MEANS_TRANSIENT},
      /* a byte was corrupted in transit */
      {"BadDigest", TSR_MEANS_TRANSIENT},
      {"XAmzContentSHA256Mismatch", TSR_MEANS_TRANSIENT},
      {"IncompleteBody", TSR_MEANS_TRANSIENT},
      {"ExpiredToken", TSR_MEANS_EXPIRED},
      {"ExpiredTokenException", TSR_MEANS_EXPIRED},
      {"TokenRefreshRequired", TSR_MEANS_EXPIRED},
      {"AuthorizationHeaderMalformed", TSR_MEANS_ELSEWHERE},
      {"PermanentRedirect", TSR_MEANS_ELSEWHERE},
      {"TemporaryRedirect", TSR_MEANS_ELSEWHERE},
      {"IllegalLocationConstraintException", TSR_MEANS_ELSEWHERE},
      {"RequestTimeTooSkewed", TSR_MEANS_SKEWED},
      {"NoSuchBucket", TSR_MEANS_NO_BUCKET},
      {"NoSuchUpload", TSR_MEANS_NO_UPLOAD},
      {"NoSuchKey", TSR_MEANS_MISSING},
      {"PreconditionFailed", TSR_MEANS_EXISTS},
      {"InvalidRange", TSR_MEANS_RANGE},
      /* an unknown access key, which versitygw reports with status 404 */
      {"XAdminUserNotFound", TSR_MEANS_DENIED},
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(code, codes[i].code) == 0) return codes[i].meaning;
  return TSR_MEANS_REFUSED;
}

tsr_meaning tsr__s3_judge(const tsr_bucket_state *state, const char *code) {
  const tsr_meaning by_code = meaning_of_code(code);
  if (by_code != TSR_MEANS_REFUSED) return by_code;
  const uint32_t status = state->http.response.status;
  switch (status) {
  case 301:
  case 307:
  case 308: return TSR_MEANS_ELSEWHERE;
  case 401:
  case 403: return TSR_MEANS_DENIED;
  case 404: return TSR_MEANS_MISSING;
  case 408:
  case 409:
  case 429: return TSR_MEANS_TRANSIENT;
  case 412: return TSR_MEANS_EXISTS;
  case 416: return TSR_MEANS_RANGE;
  case 501: return TSR_MEANS_REFUSED;
  default: return status >= 500 ? TSR_MEANS_TRANSIENT : TSR_MEANS_REFUSED;
  }
}

/* ---- Making requests ------------------------------------------------------------------------- */

/* Returns the server's id of an upload, without our mark. */
static const char *upload_id(const tsr_bucket_state *state) {
  const char *id = state->call->upload.id;
  const bool marked = state->scope->dialect->marks_uploads && strlen(id) >= TSR_BUCKET_UPLOAD_MARK;
  return id + (marked ? TSR_BUCKET_UPLOAD_MARK : 0);
}

/* Adds the headers of requests that create an object. */
static void add_new_object(tsr_draft *d, const tsr_bucket_scope *scope) {
  tsr__draft_header(d, "x-amz-server-side-encryption", scope->options.sse);
  tsr__draft_header(d, scope->dialect->words->kms_key, scope->options.kms_key_id);
  tsr__draft_header(d, scope->dialect->words->storage_class, scope->options.storage_class);
}

/* Returns false for a key with control characters that XML cannot represent. */
static bool fits_xml(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' && !strchr("\t\n\r", *text)) return false;
  return true;
}

/* DELETE_MANY: puts as many of the next keys as possible into one request; a key that XML cannot represent goes
 * alone. */
static int make_deletion(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_buffer *body = &state->body;
  uint8_t md5[TSR_MD5_SIZE];
  body->size = 0;
  state->deleted.batch = 0;
  while (!state->deleted.singly && state->deleted.batch < state->scope->dialect->deletion_keys &&
         state->deleted.at + state->deleted.batch < call->key_count) {
    const char *key = call->keys[state->deleted.at + state->deleted.batch];
    if (!fits_xml(key)) break;
    TSR_TRY(tsr__bucket_body_text(
        body, state->deleted.batch ? "<Object><Key>" : "<Delete><Quiet>true</Quiet><Object><Key>", error));
    TSR_TRY(tsr__bucket_body_escaped(body, key, error));
    TSR_TRY(tsr__bucket_body_text(body, "</Key></Object>", error));
    state->deleted.batch++;
  }
  if (state->deleted.batch == 0) {
    state->deleted.batch = 1;
    d->method = "DELETE";
    d->key = call->keys[state->deleted.at];
    return TSR_OK;
  }
  TSR_TRY(tsr__bucket_body_text(body, "</Delete>", error));
  TSR_TRY(tsr__md5(body->data, body->size, md5, error));
  (void)tsr_base64_write(TSR_BASE64, md5, sizeof md5, d->digest);
  d->method = "POST";
  d->key = "";
  tsr__draft_query(d, "delete", "");
  tsr__draft_header(d, "content-md5", d->digest);
  tsr__draft_header(d, "content-type", "application/xml");
  d->body = body->data;
  d->body_size = body->size;
  return TSR_OK;
}

static int make_completion(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_buffer *body = &state->body;
  body->size = 0;
  TSR_TRY(tsr__bucket_body_text(body, "<CompleteMultipartUpload>", error));
  for (uint32_t i = 0; i < call->upload.part_count; i++) {
    TSR_TRY(tsr__buffer_printf(body, error, "<Part><PartNumber>%" PRIu32 "</PartNumber><ETag>", i + 1));
    TSR_TRY(tsr__bucket_body_escaped(body, call->upload.etags[i].text, error));
    TSR_TRY(tsr__bucket_body_text(body, "</ETag></Part>", error));
  }
  TSR_TRY(tsr__bucket_body_text(body, "</CompleteMultipartUpload>", error));
  d->method = "POST";
  tsr__draft_query(d, "uploadId", upload_id(state));
  if (state->scope->dialect->conditional_completions)
    tsr__draft_header(d, words_of(state)->condition, call->put.new_only ? words_of(state)->absent : NULL);
  tsr__draft_header(d, "content-type", "application/xml");
  d->body = body->data;
  d->body_size = body->size;
  return TSR_OK;
}

static void draft_put(tsr_bucket_state *state, tsr_draft *d) {
  const tsr_bucket_call *call = state->call;
  d->method = "PUT";
  d->body = call->put.bytes;
  d->body_size = call->put.size;
  add_new_object(d, state->scope);
  if (!call->put.new_only) return;
  tsr__draft_header(d, words_of(state)->condition, words_of(state)->absent);
  tsr__draft_header(d, "content-type", tsr__bucket_mark(state));
}

static void draft_list(const tsr_bucket_state *state, tsr_draft *d) {
  const tsr_bucket_call *call = state->call;
  d->key = "";
  tsr__draft_query(d, "prefix", call->key);
  if (call->kind == TSR_BUCKET_UPLOAD_LIST) {
    tsr__draft_query(d, "uploads", "");
    if (state->page.token.size > 0) tsr__draft_query(d, "key-marker", (const char *)state->page.token.data);
    if (state->page.token.size > 0) tsr__draft_query(d, "upload-id-marker", (const char *)state->page.token_id.data);
    return;
  }
  tsr__draft_query(d, "list-type", "2");
  if (call->list.delimiter) {
    d->number[0] = call->list.delimiter;
    tsr__draft_query(d, "delimiter", d->number);
  }
  if (state->page.token.size > 0) tsr__draft_query(d, "continuation-token", (const char *)state->page.token.data);
}

static int draft_copy(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  d->method = "PUT";
  TSR_TRY(tsr__buffer_printf(&d->text, error, "/%s/", state->scope->bucket));
  TSR_TRY(tsr__sigv4_encode(state->call->source, true, &d->text, error));
  tsr__draft_header(d, words_of(state)->copy_source, (const char *)d->text.data);
  add_new_object(d, state->scope);
  return TSR_OK;
}

int tsr__s3_draft(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  switch (call->kind) {
  case TSR_BUCKET_GET:
    tsr__draft_header(d, "range", tsr__draft_range(state, d));
    if (state->got.placed && state->got.have > 0) tsr__draft_header(d, "if-match", state->got.etag.text);
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
    tsr__draft_query(d, "uploads", "");
    if (state->scope->dialect->marks_uploads) {
      tsr__draft_header(d, "content-type", tsr__bucket_mark(state));
      if (!*state->owner.mark) /* take_created makes it a part of the id */
        return tsr__fail(error, TSR_IO, "no random bytes for the mark of an upload");
    }
    add_new_object(d, state->scope);
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_PART:
    d->method = "PUT";
    (void)snprintf(d->number, sizeof d->number, "%" PRIu32, call->upload.part);
    tsr__draft_query(d, "partNumber", d->number);
    tsr__draft_query(d, "uploadId", upload_id(state));
    d->body = call->put.bytes;
    d->body_size = call->put.size;
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_COMPLETE: return make_completion(state, d, error);
  case TSR_BUCKET_UPLOAD_ABORT:
    d->method = "DELETE";
    tsr__draft_query(d, "uploadId", upload_id(state));
    return TSR_OK;
  }
  return tsr__fail(error, TSR_ERROR, "no such kind of call: %d", (int)call->kind);
}

/* ---- Taking answers -------------------------------------------------------------------------- */

/* Makes the id by which calls know an upload that the server has listed. Its mark is not known: it is written as
 * zeros. */
static int listed_id(tsr_bucket_state *state, const char *id, const char **listed, tsr_error *error) {
  const size_t mark = state->scope->dialect->marks_uploads ? TSR_BUCKET_UPLOAD_MARK : 0, size = strlen(id) + 1;
  char *made;
  TSR_TRY(TSR_ARENA_RAW(&state->arena, mark + size, &made, error));
  memset(made, '0', mark);
  memcpy(made + mark, id, size);
  *listed = made;
  return TSR_OK;
}

static int add_uploads(tsr_bucket_state *state, const tsr_s3_uploads *page, tsr_error *error) {
  for (uint64_t i = 0; i < page->upload_count; i++) {
    const tsr_s3_upload *u = &page->uploads[i];
    tsr_bucket_object object = {.key = u->key, .modified = u->initiated == INT64_MIN ? 0 : u->initiated};
    TSR_TRY(listed_id(state, u->upload_id, &object.etag, error));
    TSR_TRY(tsr__bucket_add_listed(state->call, &object, error));
  }
  if (!page->next_key) return TSR_OK;
  const char *id = page->next_upload_id ? page->next_upload_id : "";
  if (page->upload_count == 0 ||
      (state->page.token.size > 0 && strcmp((const char *)state->page.token.data, page->next_key) == 0 &&
       strcmp((const char *)state->page.token_id.data, id) == 0))
    return tsr__fail(error, TSR_CORRUPT, "a page that does not advance");
  TSR_TRY(tsr__bucket_keep_token(&state->page.token, page->next_key, error));
  TSR_TRY(tsr__bucket_keep_token(&state->page.token_id, id, error));
  return 1;
}

static tsr_bucket_outcome take_uploads(tsr_bucket_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_s3_uploads page;
  tsr_answer_failure failure;
  tsr_error error = {0};
  int rc =
      tsr__s3_response_uploads(state->http.received.data, state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return tsr__bucket_judge(state, &failure);
  if (rc >= 0) rc = add_uploads(state, &page, &error);
  return tsr__bucket_end_page(state, rc, from, &error);
}

static tsr_bucket_outcome take_copied(tsr_bucket_state *state) {
  const bool copy = state->call->kind == TSR_BUCKET_COPY;
  tsr_answer_failure failure;
  tsr_error error = {0};
  const char *etag;
  int64_t modified;
  const uint8_t *bytes = state->http.received.data;
  const int rc =
      copy ? tsr__s3_response_copied(bytes, state->http.size, &state->arena, &etag, &modified, &failure, &error)
           : tsr__s3_response_completed(bytes, state->http.size, &state->arena, &etag, &failure, &error);
  if (rc > 0) return tsr__bucket_judge(state, &failure);
  if (rc < 0) return tsr__bucket_unread(state, rc, &error);
  (void)snprintf(state->call->result.etag.text, sizeof state->call->result.etag.text, "%s", etag);
  return TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_created(tsr_bucket_state *state) {
  tsr_answer_failure failure;
  tsr_error error = {0};
  const char *id;
  const int rc =
      tsr__s3_response_upload(state->http.received.data, state->http.size, &state->arena, &id, &failure, &error);
  if (rc > 0) return tsr__bucket_judge(state, &failure);
  if (rc < 0) return tsr__bucket_unread(state, rc, &error);
  const bool marked = state->scope->dialect->marks_uploads;
  const char *mark = state->owner.mark + strlen(state->owner.mark) - (marked ? TSR_BUCKET_UPLOAD_MARK : 0);
  const size_t room = sizeof state->call->result.id;
  if (strlen(id) + TSR_BUCKET_UPLOAD_MARK >= room)
    return tsr__bucket_fail(state, TSR_UNREACHABLE, "", "the upload's id is too long");
  (void)snprintf(state->call->result.id, room, "%s%s", marked ? mark : "", id);
  return TSR_BUCKET_DONE;
}

static tsr_bucket_outcome take_deleted(tsr_bucket_state *state) {
  tsr_s3_deletion deletion;
  tsr_answer_failure failure;
  tsr_error error = {0};
  const int rc = tsr__s3_response_deletion(state->http.received.data, state->http.size, &state->arena, &deletion,
                                           &failure, &error);
  if (rc > 0) return tsr__bucket_judge(state, &failure);
  if (rc < 0) return tsr__bucket_unread(state, rc, &error);
  for (uint64_t i = 0; i < deletion.failure_count; i++) {
    if (strcmp(deletion.failures[i].code, "NoSuchKey") == 0) continue;
    if (strcmp(deletion.failures[i].code, "AccessDenied") == 0)
      return tsr__bucket_fail(state, TSR_DENIED, "AccessDenied", "refused for %.200s", deletion.failures[i].key);
    return TSR_BUCKET_FAIL_AGAIN(state, TSR_UNREACHABLE, deletion.failures[i].code, "failed for %.200s",
                                 deletion.failures[i].key);
  }
  return tsr__bucket_advance_deletion(state);
}

tsr_bucket_outcome tsr__s3_read_answer(tsr_bucket_state *state) {
  switch (state->call->kind) {
  case TSR_BUCKET_UPLOAD_LIST: return take_uploads(state);
  case TSR_BUCKET_UPLOAD_CREATE: return take_created(state);
  case TSR_BUCKET_DELETE_MANY: return take_deleted(state);
  default: return take_copied(state);
  }
}

/* ---- Signing --------------------------------------------------------------------------------- */

/* Makes the host, the path and the beginning of the URL. */
static int locate(const tsr_bucket_scope *scope, const char *key, const char *region, tsr_buffer *host,
                  tsr_buffer *path, tsr_buffer *url, tsr_error *error) {
  const bool path_style = scope->endpoint.path_style;
  if (!path_style) TSR_TRY(tsr__buffer_printf(host, error, "%s.", scope->bucket));
  if (scope->endpoint.aws)
    TSR_TRY(tsr__buffer_printf(host, error, "s3.%s.amazonaws.com%s", region, strncmp(region, "cn-", 3) ? "" : ".cn"));
  else TSR_TRY(tsr__buffer_printf(host, error, "%s", scope->endpoint.host));
  TSR_TRY(tsr__buffer_printf(path, error, "%s%s%s%s%s", scope->endpoint.base, path_style ? "/" : "",
                             path_style ? scope->bucket : "", *key || !path_style ? "/" : "", key));
  url->size = 0;
  return tsr__buffer_printf(url, error, "%s://%s", scope->endpoint.scheme, (const char *)host->data);
}

/* Returns a copy of the signing key, which is derived once a day. */
static int signing_key(tsr_bucket_scope *scope, const tsr_credentials *credentials, int64_t now, const char *region,
                       tsr_sigv4_key *key, tsr_error *error) {
  int rc = TSR_OK;
  pthread_mutex_lock(&scope->signing.mutex);
  const tsr_s3_words *words = scope->dialect->words;
  if (scope->signing.key_number != credentials->number ||
      !tsr__sigv4_key_fits(&scope->signing.key, now, region, words->service)) {
    rc = tsr__sigv4_key_make(&scope->signing.key, words->signature, credentials->secret, now, region, words->service,
                             error);
    scope->signing.key_number = rc >= 0 ? credentials->number : 0;
  }
  *key = scope->signing.key;
  if (atomic_load(&scope->forgotten)) tsr__wipe(&scope->signing.key, sizeof scope->signing.key);
  pthread_mutex_unlock(&scope->signing.mutex);
  return rc;
}

static int sign_located(tsr_bucket_scope *scope, const tsr_credentials *credentials, tsr_sigv4_request *request,
                        const void *body, uint64_t body_size, tsr_bucket_signed *made, tsr_error *error) {
  uint8_t digest[TSR_SHA256_SIZE];
  TSR_TRY(tsr__sigv4_target(request, &made->url, error));
  if (credentials->form != TSR_KEYS_SIGN) return tsr__sigv4_sign(request, NULL, &made->lines, error);
  const bool tls = strcmp(scope->endpoint.scheme, "https") == 0;
  if (!tls || body_size <= UNSIGNED_BYTES) {
    TSR_TRY(tsr__sha256(body, body_size, digest, error));
    request->payload_sha256 = digest;
  }
  tsr_sigv4_key key;
  const int64_t now = tsr__bucket_clock() + atomic_load(&scope->clocks.skew);
  TSR_TRY(signing_key(scope, credentials, now, made->region, &key, error));
  const tsr_sigv4_signer signer = {.key_id = credentials->key_id,
                                   .key = &key,
                                   .now = now,
                                   .session_token = *credentials->token ? credentials->token : NULL};
  const int rc = tsr__sigv4_sign(request, &signer, &made->lines, error);
  tsr__wipe(&key, sizeof key);
  request->payload_sha256 = NULL;
  return rc;
}

static void choose_region(tsr_bucket_scope *scope, const tsr_credentials *credentials, char region[64]) {
  pthread_mutex_lock(&scope->signing.mutex);
  const char *found = *scope->signing.region  ? scope->signing.region
                      : scope->options.region ? scope->options.region
                      : *credentials->region  ? credentials->region
                                              : scope->dialect->words->region;
  (void)snprintf(region, 64, "%s", found);
  pthread_mutex_unlock(&scope->signing.mutex);
}

int tsr__s3_sign(tsr_bucket_state *state, tsr_draft *d, const tsr_credentials *credentials, tsr_error *error) {
  tsr_bucket_scope *scope = state->scope;
  tsr_bucket_signed *made = &state->made;
  tsr_buffer host = {.memory = state->memory}, path = {.memory = state->memory}, bearer = {.memory = state->memory};
  if (scope->options.requester_pays) tsr__draft_header(d, "x-amz-request-payer", "requester");
  tsr__draft_header(d, "x-goog-user-project", scope->options.user_project);
  made->form = credentials->form;
  choose_region(scope, credentials, made->region);
  int rc = locate(scope, d->key, made->region, &host, &path, &made->url, error);
  if (rc >= 0 && credentials->form == TSR_KEYS_BEARER) {
    rc = tsr__bucket_append_bearer(&bearer, credentials->token, error);
    if (rc >= 0) tsr__draft_header(d, "authorization", (const char *)bearer.data);
  }
  tsr_sigv4_request request = {.method = d->method,
                               .host = (const char *)host.data,
                               .path = (const char *)path.data,
                               .query = d->query,
                               .query_count = d->query_count,
                               .headers = d->headers,
                               .header_count = d->header_count};
  if (rc >= 0) rc = sign_located(scope, credentials, &request, d->body, d->body_size, made, error);
  if (bearer.data) tsr__wipe(bearer.data, bearer.capacity);
  tsr__buffer_release(&bearer);
  tsr__buffer_release(&host);
  tsr__buffer_release(&path);
  return rc;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

static int configure(tsr_bucket_scope *scope, tsr_error *error) {
  const tsr_scope_options *o = &scope->options;
  if (o->region && !tsr__bucket_text_has_only(o->region, "-", sizeof scope->signing.region - 1))
    return tsr__fail(error, TSR_ERROR, "'%.64s' is not a region", o->region);
  if (o->sse && strcmp(o->sse, "AES256") && strcmp(o->sse, "aws:kms"))
    return tsr__fail(error, TSR_ERROR, "sse: '%.64s' is neither 'AES256' nor 'aws:kms'", o->sse);
  if (o->kms_key_id && (!o->sse || strcmp(o->sse, "aws:kms")))
    return tsr__fail(error, TSR_ERROR, "kms_key_id is for \"sse\": \"aws:kms\"");
  scope->endpoint.aws = !o->endpoint;
  scope->endpoint.scheme = "https";
  scope->endpoint.base = scope->endpoint.host = "";
  if (o->endpoint) TSR_TRY(tsr__bucket_scope_endpoint(scope, o->endpoint, error));
  if (strstr(scope->endpoint.host, "googleapis.com"))
    scope->advice = "; the paths of Google Cloud Storage that can be written begin with gcs://";
  scope->endpoint.path_style = o->url_style == TSR_URL_PATH ||
                               (o->url_style == TSR_URL_AUTO && (!scope->endpoint.aws || strchr(scope->bucket, '.')));
  return TSR_OK;
}

static int keys_of(const tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_provider_options *options,
                   tsr_error *error) {
  options->key_id = given->key_id;
  options->secret = given->secret;
  options->session_token = given->session_token;
  if (!tsr__bucket_is_set(given->key_id) || !tsr__bucket_is_set(given->secret))
    return tsr__fail(error, TSR_ERROR, "the key id or the secret is empty");
  return TSR_OK;
}

static const tsr_s3_words words = {.condition = "if-none-match",
                                   .absent = "*",
                                   .copy_source = "x-amz-copy-source",
                                   .kms_key = "x-amz-server-side-encryption-aws-kms-key-id",
                                   .storage_class = "x-amz-storage-class",
                                   .signature = &tsr__sigv4_aws,
                                   .service = "s3",
                                   .region = "us-east-1"};

const tsr_dialect tsr__dialect_s3 = {.scheme = "s3",
                                     .noun = "bucket",
                                     .condition = "If-None-Match",
                                     .suffixes = true,
                                     .begins_uploads = true,
                                     .conditional_completions = true,
                                     .deletion_keys = 1000,
                                     .words = &words,
                                     .keys = "key_id and secret",
                                     .configure = configure,
                                     .keys_of = keys_of,
                                     .find_keys = tsr__keys_aws,
                                     .draft = tsr__s3_draft,
                                     .sign = tsr__s3_sign,
                                     .listing = tsr__s3_response_listing,
                                     .judge = tsr__s3_judge,
                                     .read_answer = tsr__s3_read_answer};
