/* s3_request.c: the HTTP requests of calls, signed. */
#include "remote/s3_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "remote/s3_get.h"

#define LIST_ANSWER_MAX (UINT64_C(16) << 20) /* a page of 1,000 keys whose characters are all entities has less */
#define MANY_MAX        1000u /* keys that one request deletes */

/* A request before it is signed. */
typedef struct draft {
  const char *method, *key;
  tsr_sigv4_pair query[8], headers[12];
  uint32_t query_count, header_count;
  const void *body;
  uint64_t body_size;
  char range[64], number[16], digest[32];
  tsr_buffer source; /* of a copy */
} draft;

static void draft_query(draft *d, const char *name, const char *value) {
  d->query[d->query_count++] = (tsr_sigv4_pair){name, value};
}

static void draft_header(draft *d, const char *name, const char *value) {
  if (value && *value) d->headers[d->header_count++] = (tsr_sigv4_pair){name, value};
}

/* The headers of requests that make an object. */
static void add_new_object(draft *d, const tsr_s3_options *options) {
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

/* XML has no way to write most control characters. */
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

/* DELETE_MANY: takes as many of the next keys as one request may have; one, if it has to go alone. */
static int make_deletion(tsr_s3_state *state, draft *d, tsr_error *error) {
  const tsr_s3_call *call = state->call;
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

static int make_completion(tsr_s3_state *state, draft *d, tsr_error *error) {
  const tsr_s3_call *call = state->call;
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

static void draft_put(tsr_s3_state *state, draft *d) {
  const tsr_s3_call *call = state->call;
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

static void draft_list(const tsr_s3_state *state, draft *d) {
  const tsr_s3_call *call = state->call;
  d->key = "";
  draft_query(d, "prefix", call->key);
  if (call->kind == TSR_S3_UPLOAD_LIST) {
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

static int draft_copy(tsr_s3_state *state, draft *d, tsr_error *error) {
  d->method = "PUT";
  TSR_TRY(tsr__buffer_printf(&d->source, error, "/%s/", state->scope->bucket));
  TSR_TRY(tsr__sigv4_encode(state->call->source, true, &d->source, error));
  draft_header(d, "x-amz-copy-source", (const char *)d->source.data);
  add_new_object(d, &state->scope->options);
  return TSR_OK;
}

static int draft_call(tsr_s3_state *state, draft *d, tsr_error *error) {
  const tsr_s3_call *call = state->call;
  switch (call->kind) {
  case TSR_S3_GET:
    tsr__s3_get_range(state, d->range);
    draft_header(d, "range", d->range);
    if (state->got.placed && state->got.have > 0) draft_header(d, "if-match", state->got.etag.text);
    return TSR_OK;
  case TSR_S3_HEAD: d->method = "HEAD"; return TSR_OK;
  case TSR_S3_LIST:
  case TSR_S3_UPLOAD_LIST: draft_list(state, d); return TSR_OK;
  case TSR_S3_PUT: draft_put(state, d); return TSR_OK;
  case TSR_S3_DELETE: d->method = "DELETE"; return TSR_OK;
  case TSR_S3_DELETE_MANY: return make_deletion(state, d, error);
  case TSR_S3_COPY: return draft_copy(state, d, error);
  case TSR_S3_UPLOAD_CREATE:
    d->method = "POST";
    draft_query(d, "uploads", "");
    add_new_object(d, &state->scope->options);
    return TSR_OK;
  case TSR_S3_UPLOAD_PART:
    d->method = "PUT";
    (void)snprintf(d->number, sizeof d->number, "%" PRIu32, call->upload.part);
    draft_query(d, "partNumber", d->number);
    draft_query(d, "uploadId", call->upload.id);
    d->body = call->put.bytes;
    d->body_size = call->put.size;
    return TSR_OK;
  case TSR_S3_UPLOAD_COMPLETE: return make_completion(state, d, error);
  case TSR_S3_UPLOAD_ABORT:
    d->method = "DELETE";
    draft_query(d, "uploadId", call->upload.id);
    return TSR_OK;
  }
  return tsr__fail(error, TSR_ERROR, "no such kind of call: %d", (int)call->kind);
}

/* ---- Making ---------------------------------------------------------------------------------- */

/* Where the body of the answer goes. */
static int prepare_answer(tsr_s3_state *state, tsr_error *error) {
  const tsr_s3_call *call = state->call;
  tsr_http_request *http = &state->http;
  state->answer.size = 0;
  if (state->step == TSR_S3_STEP_CALL && call->kind == TSR_S3_GET) return tsr__s3_get_prepare(state, error);
  http->most = LIST_ANSWER_MAX;
  if (state->step == TSR_S3_STEP_COMPARE) http->most = call->put.size;
  if (state->step == TSR_S3_STEP_COMPARE) TSR_TRY(tsr__buffer_reserve_exactly(&state->answer, call->put.size, error));
  http->received = state->answer;
  state->answer = (tsr_buffer){.memory = state->memory};
  return TSR_OK;
}

static int sign_draft(tsr_s3_state *state, draft *d, tsr_error *error) {
  if (state->scope->options.requester_pays) draft_header(d, "x-amz-request-payer", "requester");
  tsr_sigv4_request request = {.method = d->method,
                               .query = d->query,
                               .query_count = d->query_count,
                               .headers = d->headers,
                               .header_count = d->header_count};
  TSR_TRY(tsr__s3_scope_sign(state->scope, state->memory, d->key, &request, d->body, d->body_size, state->tries.refused,
                             &state->made, error));
  if (state->tries.refused && state->tries.refused == state->made.key_number) {
    if (error) *error = state->call->error; /* the keys are the same: what the server said of them stands */
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

int tsr__s3_request_make(tsr_s3_state *state, tsr_error *error) {
  draft d = {.method = "GET", .key = state->call->key, .source = {.memory = state->memory}};
  int rc = TSR_OK;
  if (state->step == TSR_S3_STEP_LOOK) d.method = "HEAD";
  if (state->step == TSR_S3_STEP_CALL) rc = draft_call(state, &d, error);
  if (rc >= 0) rc = sign_draft(state, &d, error);
  tsr__buffer_release(&d.source);
  return rc;
}
