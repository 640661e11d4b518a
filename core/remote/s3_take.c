/* s3_take.c: what the answers of the kinds of calls mean.
 *
 * A lost answer. When the answer of `PUT If-None-Match: *` is lost, the request is sent again, and a server that has
 * carried out the first one answers 412: the object is ours, and yet "it exists". libcurl may have sent the first one
 * twice, too. So each such PUT has a Content-Type with a random part, and after a 412 a HEAD tells whose object it is.
 * If a server does not keep the type, the bytes decide, provided that there are any.
 * A completion of an upload that is repeated is answered with success, or with NoSuchUpload (minio), or with 412. Then
 * the ETag decides: that of an object in parts is made of those of its parts.
 */
#include "remote/s3_take.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "remote/s3_get.h"
#include "remote/s3_retry.h"

static void keep_etag(tsr_etag *etag, const char *text) { (void)snprintf(etag->text, sizeof etag->text, "%s", text); }

static const uint8_t *answer_bytes(const tsr_s3_state *state) { return state->http.received.data; }

/* An answer that cannot be read: bytes were changed on the way, or the server is none. */
static tsr_s3_verdict fail_unread(tsr_s3_state *state, int rc, const tsr_error *error) {
  if (rc != TSR_CORRUPT) return tsr__s3_fail(state, rc, "", "%s", error->message);
  return TSR_S3_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer cannot be read: %s", error->message);
}

/* ---- Listings -------------------------------------------------------------------------------- */

void tsr__s3_objects_release(tsr_s3_objects *objects) {
  tsr__free(objects->at);
  tsr__arena_release(&objects->texts);
  *objects = (tsr_s3_objects){.memory = objects->memory};
}

static int add_object(tsr_s3_objects *objects, const tsr_s3_object *object, tsr_error *error) {
  tsr_s3_object copy = *object;
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

/* Adds what a server listed. It may be hostile: keys outside the prefix, or those of earlier pages, are refused. */
static int add_listed(const tsr_s3_call *call, const tsr_s3_object *object, tsr_error *error) {
  tsr_s3_objects *objects = call->list.objects;
  if (strncmp(object->key, call->key, strlen(call->key)) != 0)
    return tsr__fail(error, TSR_CORRUPT, "a key outside the prefix");
  if (call->list.start_after && strcmp(object->key, call->list.start_after) <= 0 && !object->is_prefix)
    return tsr__fail(error, TSR_CORRUPT, "a key before those that were requested");
  if (call->list.most > 0 && objects->count >= call->list.most)
    return tsr__fail(error, TSR_TOOBIG, "more than %" PRIu64 " entries", call->list.most);
  return add_object(objects, object, error);
}

static int compare_objects(const void *a, const void *b) {
  return strcmp(((const tsr_s3_object *)a)->key, ((const tsr_s3_object *)b)->key);
}

/* Keeps the token of the next page with its NUL byte. */
static int keep_token(tsr_buffer *token, const char *text, tsr_error *error) {
  token->size = 0;
  return tsr__buffer_append(token, text, strlen(text) + 1, error);
}

/* Compares the last key of the earlier pages with the keys of this one, from `from` on: a list that gives the same keys
 * again would never end. */
static int check_pages(const tsr_s3_objects *objects, uint64_t from, tsr_error *error) {
  if (from == 0) return TSR_OK;
  const char *last = objects->at[from - 1].key; /* the greatest of its page: pages are sorted as they come */
  for (uint64_t i = from; i < objects->count; i++)
    if (strcmp(objects->at[i].key, last) <= 0)
      return tsr__fail(error, TSR_CORRUPT, "a key of an earlier page once more");
  return TSR_OK;
}

static int add_page(tsr_s3_state *state, const tsr_s3_listing *page, tsr_error *error) {
  tsr_s3_objects *objects = state->call->list.objects;
  const uint64_t from = objects->count;
  for (uint64_t i = 0; i < page->entry_count; i++) {
    const tsr_s3_entry *e = &page->entries[i];
    const tsr_s3_object object = {
        .key = e->key, .size = e->size, .etag = e->etag, .modified = e->modified == INT64_MIN ? 0 : e->modified};
    TSR_TRY(add_listed(state->call, &object, error));
  }
  for (uint64_t i = 0; i < page->prefix_count; i++) {
    const tsr_s3_object object = {.key = page->prefixes[i], .etag = "", .is_prefix = true};
    TSR_TRY(add_listed(state->call, &object, error));
  }
  if (objects->count > from) qsort(objects->at + from, objects->count - from, sizeof *objects->at, compare_objects);
  TSR_TRY(check_pages(objects, from, error));
  if (!page->next) return TSR_OK;
  if (objects->count == from && state->page.token.size > 0) /* pages without keys exist, but not one after the other */
    return tsr__fail(error, TSR_CORRUPT, "an empty page that is not the last one");
  TSR_TRY(keep_token(&state->page.token, page->next, error));
  return 1;
}

/* Takes back what a page that cannot be read has added. */
static tsr_s3_verdict end_page(tsr_s3_state *state, int rc, uint64_t from, const tsr_error *error) {
  if (rc < 0) state->call->list.objects->count = from;
  if (rc < 0) return fail_unread(state, rc, error);
  return rc > 0 ? TSR_S3_NEXT : TSR_S3_DONE;
}

static tsr_s3_verdict take_listing_page(tsr_s3_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_s3_listing page;
  tsr_s3_failure failure;
  tsr_error error = {0};
  int rc = tsr__s3_answer_listing(answer_bytes(state), state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return tsr__s3_judge(state, &failure);
  if (rc >= 0) rc = add_page(state, &page, &error);
  return end_page(state, rc, from, &error);
}

static int add_uploads(tsr_s3_state *state, const tsr_s3_uploads *page, tsr_error *error) {
  for (uint64_t i = 0; i < page->upload_count; i++) {
    const tsr_s3_upload *u = &page->uploads[i];
    const tsr_s3_object object = {
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

static tsr_s3_verdict take_uploads(tsr_s3_state *state) {
  const uint64_t from = state->call->list.objects->count;
  tsr_s3_uploads page;
  tsr_s3_failure failure;
  tsr_error error = {0};
  int rc = tsr__s3_answer_uploads(answer_bytes(state), state->http.size, &state->arena, &page, &failure, &error);
  if (rc > 0) return tsr__s3_judge(state, &failure);
  if (rc >= 0) rc = add_uploads(state, &page, &error);
  return end_page(state, rc, from, &error);
}

/* ---- Whose object it is ---------------------------------------------------------------------- */

/* Returns true if an ETag is the one of an object that was made of the call's parts: the MD5 of their MD5s. */
static bool is_etag_of_parts(const tsr_s3_call *call, const char *etag, tsr_memory *memory) {
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

static tsr_s3_verdict begin_step(tsr_s3_state *state, tsr_s3_step step) {
  if (state->step == TSR_S3_STEP_CALL) state->owner.met = state->call->error;
  state->step = step;
  return TSR_S3_NEXT;
}

/* It is somebody else's. */
static tsr_s3_verdict concede(tsr_s3_state *state) {
  state->call->error = state->owner.met;
  state->step = TSR_S3_STEP_CALL;
  return TSR_S3_FAILED;
}

static tsr_s3_verdict take_look(tsr_s3_state *state) {
  tsr_s3_call *call = state->call;
  const tsr_http_answer *answer = &state->http.answer;
  const bool put = call->kind == TSR_S3_PUT;
  if (answer->status == 404 && put) { /* what stood in the way is gone */
    state->step = TSR_S3_STEP_CALL;
    return TSR_S3_AGAIN;
  }
  if (answer->status == 404) return concede(state);
  if (answer->status != 200) return tsr__s3_judge(state, NULL);
  keep_etag(&call->result.etag, answer->etag);
  if (put && *state->owner.mark && strcmp(answer->content_type, state->owner.mark) == 0) return TSR_S3_DONE;
  if (!put) return is_etag_of_parts(call, answer->etag, state->memory) ? TSR_S3_DONE : concede(state);
  const bool has_mark = strstr(answer->content_type, "; put=") != NULL; /* another one's */
  if (has_mark || call->put.size == 0 || !answer->has_length || answer->content_length != call->put.size)
    return concede(state);
  return begin_step(state, TSR_S3_STEP_COMPARE);
}

static tsr_s3_verdict take_compared(tsr_s3_state *state) {
  const tsr_s3_call *call = state->call;
  if (state->http.failure == TSR_HTTP_TOO_LARGE) return concede(state);
  if (state->http.answer.status != 200) return tsr__s3_judge(state, NULL);
  const bool same =
      state->http.size == call->put.size && memcmp(answer_bytes(state), call->put.bytes, call->put.size) == 0;
  return same ? TSR_S3_DONE : concede(state);
}

/* ---- The other kinds ------------------------------------------------------------------------- */

static tsr_s3_verdict take_head(tsr_s3_state *state) {
  const tsr_http_answer *answer = &state->http.answer;
  tsr_s3_call *call = state->call;
  if (!answer->has_length) return TSR_S3_FAIL_AGAIN(state, TSR_UNREACHABLE, "", "the answer has no size");
  call->result.object_size = answer->content_length;
  call->result.modified = answer->last_modified == INT64_MIN ? 0 : answer->last_modified;
  keep_etag(&call->result.etag, answer->etag);
  return TSR_S3_DONE;
}

static tsr_s3_verdict take_copied(tsr_s3_state *state) {
  const bool copy = state->call->kind == TSR_S3_COPY;
  tsr_s3_failure failure;
  tsr_error error = {0};
  const char *etag;
  int64_t modified;
  const uint8_t *bytes = answer_bytes(state);
  const int rc = copy
                     ? tsr__s3_answer_copied(bytes, state->http.size, &state->arena, &etag, &modified, &failure, &error)
                     : tsr__s3_answer_completed(bytes, state->http.size, &state->arena, &etag, &failure, &error);
  if (rc > 0) return tsr__s3_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  keep_etag(&state->call->result.etag, etag);
  return TSR_S3_DONE;
}

static tsr_s3_verdict take_created(tsr_s3_state *state) {
  tsr_s3_failure failure;
  tsr_error error = {0};
  const char *id;
  const int rc = tsr__s3_answer_upload(answer_bytes(state), state->http.size, &state->arena, &id, &failure, &error);
  if (rc > 0) return tsr__s3_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  if (strlen(id) >= sizeof state->call->result.id)
    return tsr__s3_fail(state, TSR_UNREACHABLE, "", "the upload's id is too long");
  memcpy(state->call->result.id, id, strlen(id) + 1);
  return TSR_S3_DONE;
}

/* Goes on with the next keys. */
static tsr_s3_verdict advance_deletion(tsr_s3_state *state) {
  state->deleted.at += state->deleted.batch;
  return state->deleted.at < state->call->key_count ? TSR_S3_NEXT : TSR_S3_DONE;
}

static tsr_s3_verdict take_deleted(tsr_s3_state *state) {
  tsr_s3_deletion deletion;
  tsr_s3_failure failure;
  tsr_error error = {0};
  if (strcmp(state->http.method, "DELETE") == 0) return advance_deletion(state);
  const int rc =
      tsr__s3_answer_deletion(answer_bytes(state), state->http.size, &state->arena, &deletion, &failure, &error);
  if (rc > 0) return tsr__s3_judge(state, &failure);
  if (rc < 0) return fail_unread(state, rc, &error);
  for (uint64_t i = 0; i < deletion.failure_count; i++) {
    if (strcmp(deletion.failures[i].code, "NoSuchKey") == 0) continue;
    if (strcmp(deletion.failures[i].code, "AccessDenied") == 0)
      return tsr__s3_fail(state, TSR_DENIED, "AccessDenied", "refused for %.200s", deletion.failures[i].key);
    return TSR_S3_FAIL_AGAIN(state, TSR_UNREACHABLE, deletion.failures[i].code, "failed for %.200s",
                             deletion.failures[i].key);
  }
  return advance_deletion(state);
}

static tsr_s3_verdict take_success(tsr_s3_state *state) {
  switch (state->call->kind) {
  case TSR_S3_GET: return tsr__s3_get_take(state);
  case TSR_S3_HEAD: return take_head(state);
  case TSR_S3_LIST: return take_listing_page(state);
  case TSR_S3_UPLOAD_LIST: return take_uploads(state);
  case TSR_S3_DELETE_MANY: return take_deleted(state);
  case TSR_S3_COPY:
  case TSR_S3_UPLOAD_COMPLETE: return take_copied(state);
  case TSR_S3_UPLOAD_CREATE: return take_created(state);
  case TSR_S3_PUT:
  case TSR_S3_UPLOAD_PART: keep_etag(&state->call->result.etag, state->http.answer.etag); return TSR_S3_DONE;
  case TSR_S3_DELETE:
  case TSR_S3_UPLOAD_ABORT: break;
  }
  return TSR_S3_DONE;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Takes an answer that is no success, and tries what its kind of call may still do. */
static tsr_s3_verdict take_refusal(tsr_s3_state *state, const tsr_s3_failure *failure) {
  const uint32_t status = state->http.answer.status;
  const tsr_s3_call *call = state->call;
  const tsr_s3_verdict verdict = tsr__s3_judge(state, failure);
  if (call->kind == TSR_S3_GET && status == 416 && call->get.range == TSR_S3_SUFFIX && !state->got.unranged) {
    state->got.unranged = true; /* rclone answers so if the object is shorter */
    tsr__s3_get_restart(state);
    return TSR_S3_NEXT;
  }
  if (call->kind == TSR_S3_GET && state->got.placed && state->got.have > 0 && (status == 412 || status == 416)) {
    tsr__s3_get_restart(state); /* the object is another one now */
    return TSR_S3_AGAIN;
  }
  if (call->kind == TSR_S3_DELETE_MANY && verdict == TSR_S3_DONE) return advance_deletion(state);
  if (call->kind == TSR_S3_DELETE_MANY && !state->deleted.singly && strcmp(state->http.method, "POST") == 0 &&
      (status == 400 || status == 405 || status == 501) && verdict == TSR_S3_FAILED) {
    state->deleted.singly = true;
    return TSR_S3_NEXT;
  }
  const int code = call->error.code;
  if (call->kind == TSR_S3_PUT && call->put.new_only && code == TSR_EXISTS) return begin_step(state, TSR_S3_STEP_LOOK);
  if (call->kind == TSR_S3_UPLOAD_COMPLETE && (code == TSR_EXISTS || code == TSR_NOT_FOUND))
    return begin_step(state, TSR_S3_STEP_LOOK);
  return verdict;
}

static tsr_s3_verdict take_status(tsr_s3_state *state) {
  const tsr_http_request *http = &state->http;
  const uint64_t before = http->received.size - TSR_MIN(http->received.size, http->size);
  tsr_s3_failure failure = {.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  tsr_error ignored = {0};
  if (state->step == TSR_S3_STEP_LOOK) return take_look(state);
  const bool success = http->answer.status >= 200 && http->answer.status < 300;
  if (state->step == TSR_S3_STEP_COMPARE) return take_compared(state);
  if (success) return take_success(state);
  if (http->received.size > before && tsr__s3_answer_failure(http->received.data + before, http->received.size - before,
                                                             &state->arena, &failure, &ignored) < 0)
    failure = (tsr_s3_failure){.code = "", .message = "", .request_id = "", .region = "", .endpoint = "", .key = ""};
  return take_refusal(state, &failure);
}

tsr_s3_verdict tsr__s3_take(tsr_s3_state *state) {
  const tsr_http_request *http = &state->http;
  const bool get = state->step == TSR_S3_STEP_CALL && state->call->kind == TSR_S3_GET;
  tsr_s3_verdict verdict;
  if (get && (http->answer.status == 200 || http->answer.status == 206) && http->failure != TSR_HTTP_REFUSED)
    verdict = tsr__s3_get_take(state);
  else if (http->failure == TSR_HTTP_WHOLE ||
           (http->failure == TSR_HTTP_TOO_LARGE && state->step == TSR_S3_STEP_COMPARE))
    verdict = take_status(state);
  else verdict = tsr__s3_judge_transport(state);
  if (get) tsr__s3_get_return(state);
  else state->answer = state->http.received;
  if (!get) state->http.received = (tsr_buffer){.memory = state->memory};
  tsr__arena_reset(&state->arena);
  return verdict;
}
