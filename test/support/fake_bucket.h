/* fake_bucket.h: the client of remote/bucket.h over a bucket in memory, in place of the real one. A test that includes this
 * file defines these functions itself, so the linker takes none of remote/bucket.c. The bucket counts and writes down each
 * request, and fails where the test wants it. Requests that were started are carried out when they are finished, or
 * at once with `answers_at_once`. */
#ifndef FAKE_BUCKET_H
#define FAKE_BUCKET_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "remote/bucket.h"

#define FAKE_OBJECTS 4096
#define FAKE_LOG     65536

typedef struct fake_object {
  char *key; /* owned, NULL: no object */
  uint8_t *bytes; /* owned */
  uint64_t size;
  uint64_t number; /* of the request that put it: its ETag and its time */
} fake_object;

typedef struct fake_part {
  char *key; /* of the object; owned, NULL: no part */
  uint64_t upload;
  uint32_t part; /* 0: the upload itself */
  uint8_t *bytes; /* owned */
  uint64_t size;
} fake_part;

struct tsr_bucket {
  char prefix[1100];
};

typedef struct fake_bucket {
  pthread_mutex_t mutex;
  struct tsr_bucket client;
  fake_object objects[FAKE_OBJECTS];
  fake_part parts[FAKE_OBJECTS];
  uint64_t part_size;
  uint32_t parallel;
  bool answers_at_once; /* what was started is answered before anybody waits for it */
  uint64_t requests, trips; /* requests; groups of requests that ran together */
  uint64_t fail_at; /* the number of the request that fails, from 1; 0: none */
  int fail_rc;
  bool fail_done; /* it is carried out all the same: its answer is lost */
  bool fail_on; /* so do all later ones: the server is gone */
  uint64_t under_way, most_under_way; /* started and neither finished nor cancelled */
  uint64_t cancelled;
  char log[FAKE_LOG]; /* "GET key 0+65536\n" */
} fake_bucket;

static fake_bucket fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .part_size = 8 << 20, .parallel = 16};

/* Empties the bucket and forgets its requests and failures. */
static inline void fake_clear(void) {
  for (int i = 0; i < FAKE_OBJECTS; i++) {
    free(fake.objects[i].key);
    free(fake.objects[i].bytes);
    free(fake.parts[i].key);
    free(fake.parts[i].bytes);
  }
  const struct tsr_bucket client = fake.client;
  fake = (fake_bucket){.mutex = PTHREAD_MUTEX_INITIALIZER, .part_size = 8 << 20, .parallel = 16, .client = client};
}

static inline void fake_forget_requests(void) {
  fake.requests = fake.trips = fake.fail_at = 0;
  *fake.log = 0;
}

/* ---- The bucket -------------------------------------------------------------------------------------------------- */

static inline fake_object *fake_find(const char *key) {
  for (int i = 0; i < FAKE_OBJECTS; i++)
    if (fake.objects[i].key && strcmp(fake.objects[i].key, key) == 0) return &fake.objects[i];
  return NULL;
}

static inline void fake_drop(fake_object *o) {
  free(o->key);
  free(o->bytes);
  *o = (fake_object){0};
}

static inline uint8_t *fake_copy(const void *bytes, uint64_t size) {
  uint8_t *copy = malloc(size + 1);
  if (!copy) abort();
  if (size) memcpy(copy, bytes, size);
  return copy;
}

/* Puts an object in place of one of the same key. `bytes` come from malloc. */
static inline void fake_store(const char *key, uint8_t *bytes, uint64_t size) {
  fake_object *o = fake_find(key);
  if (o) fake_drop(o);
  for (o = fake.objects; o->key; o++) {}
  *o = (fake_object){(char *)fake_copy(key, strlen(key) + 1), bytes, size, fake.requests + 1};
}

static inline void fake_put(const char *key, const void *bytes, uint64_t size) {
  fake_store(key, fake_copy(bytes, size), size);
}

/* Puts an object whose byte at each offset i is i * 7 + i / 251. */
static inline void fake_put_pattern(const char *key, uint64_t size) {
  uint8_t *bytes = fake_copy(NULL, 0);
  bytes = realloc(bytes, size + 1);
  for (uint64_t i = 0; i < size; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
  fake_store(key, bytes, size);
}

static inline uint64_t fake_count(void) {
  uint64_t count = 0;
  for (int i = 0; i < FAKE_OBJECTS; i++) count += fake.objects[i].key != NULL;
  return count;
}

static inline uint64_t fake_uploads(void) {
  uint64_t count = 0;
  for (int i = 0; i < FAKE_OBJECTS; i++) count += fake.parts[i].key != NULL;
  return count;
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static inline int fake_fail(tsr_bucket_call *call, int rc) {
  return tsr__fail(&call->error, rc, "%s: %s", call->key ? call->key : "",
                   rc == TSR_NOT_FOUND ? "no such object"
                   : rc == TSR_EXISTS  ? "it exists already"
                                       : "refused");
}

static inline int fake_get(tsr_bucket_call *call) {
  const fake_object *o = fake_find(call->key);
  if (!o) return fake_fail(call, TSR_NOT_FOUND);
  uint64_t from = 0, size = o->size;
  if (call->get.range == TSR_BUCKET_RANGE) {
    from = call->get.offset;
    if (from >= o->size) return fake_fail(call, TSR_CORRUPT);
    size = TSR_MIN(call->get.size, o->size - from);
  }
  if (call->get.range == TSR_BUCKET_SUFFIX) {
    size = TSR_MIN(call->get.size, o->size);
    from = o->size - size;
  }
  if (size > (call->get.most ? call->get.most : call->get.into ? call->get.room : UINT64_MAX))
    return fake_fail(call, TSR_TOOBIG);
  if (call->get.into) memcpy(call->get.into, o->bytes + from, size);
  else if (tsr__buffer_append(call->get.buffer, o->bytes + from, size, &call->error) < 0) return TSR_NOMEM;
  call->result.received = size;
  call->result.object_size = o->size;
  call->result.modified = (int64_t)o->number;
  return TSR_OK;
}

static inline int fake_order(const void *a, const void *b) {
  return strcmp(((const tsr_bucket_object *)a)->key, ((const tsr_bucket_object *)b)->key);
}

static inline int fake_add(tsr_bucket_objects *list, tsr_bucket_object one) {
  tsr_error error;
  char *key, *etag = NULL;
  if (list->count == list->capacity) {
    tsr_bucket_object *at;
    const uint64_t room = list->capacity ? 2 * list->capacity : 16;
    TSR_TRY(TSR_ALLOC_ARRAY(list->memory, room, &at, &error));
    if (list->count) memcpy(at, list->at, list->count * sizeof *at);
    tsr__free(list->at);
    list->at = at;
    list->capacity = room;
  }
  if (!list->count) tsr__arena_init(&list->texts, list->memory);
  TSR_TRY(TSR_ARENA_COPY(&list->texts, one.key, strlen(one.key), &key, &error));
  if (one.etag) TSR_TRY(TSR_ARENA_COPY(&list->texts, one.etag, strlen(one.etag), &etag, &error));
  one.key = key;
  one.etag = etag;
  list->at[list->count++] = one;
  return TSR_OK;
}

static inline int fake_list(tsr_bucket_call *call) {
  const size_t head = strlen(call->key);
  for (int i = 0; i < FAKE_OBJECTS; i++) {
    const fake_object *o = &fake.objects[i];
    char key[1100], etag[40];
    bool known = false;
    if (!o->key || strncmp(o->key, call->key, head) != 0) continue;
    const char *cut = call->list.delimiter ? strchr(o->key + head, call->list.delimiter) : NULL;
    snprintf(key, sizeof key, "%.*s", cut ? (int)(cut + 1 - o->key) : 1099, o->key);
    for (uint64_t k = 0; k < call->list.objects->count; k++) known |= strcmp(call->list.objects->at[k].key, key) == 0;
    if (known) continue;
    snprintf(etag, sizeof etag, "\"%llu\"", (unsigned long long)o->number);
    const tsr_bucket_object one = {key, cut ? 0 : o->size, (int64_t)o->number, cut ? NULL : etag, cut != NULL};
    if (fake_add(call->list.objects, one) < 0) return fake_fail(call, TSR_NOMEM);
  }
  if (call->list.objects->count)
    qsort(call->list.objects->at, call->list.objects->count, sizeof *call->list.objects->at, fake_order);
  return TSR_OK;
}

static inline int fake_list_uploads(tsr_bucket_call *call) {
  for (int i = 0; i < FAKE_OBJECTS; i++) {
    const fake_part *p = &fake.parts[i];
    char id[40];
    if (!p->key || p->part > 0 || strncmp(p->key, call->key, strlen(call->key)) != 0) continue;
    snprintf(id, sizeof id, "%llu", (unsigned long long)p->upload);
    if (fake_add(call->list.objects, (tsr_bucket_object){p->key, 0, (int64_t)p->upload, id, false}) < 0)
      return fake_fail(call, TSR_NOMEM);
  }
  return TSR_OK;
}

static inline fake_part *fake_find_part(uint64_t upload, uint32_t part) {
  for (int i = 0; i < FAKE_OBJECTS; i++)
    if (fake.parts[i].key && fake.parts[i].upload == upload && fake.parts[i].part == part) return &fake.parts[i];
  return NULL;
}

static inline void fake_add_part(const char *key, uint64_t upload, uint32_t part, const void *bytes, uint64_t size) {
  fake_part *p = fake.parts;
  while (p->key) p++;
  *p = (fake_part){(char *)fake_copy(key, strlen(key) + 1), upload, part, fake_copy(bytes, size), size};
}

static inline void fake_drop_upload(uint64_t upload) {
  for (int i = 0; i < FAKE_OBJECTS; i++)
    if (fake.parts[i].key && fake.parts[i].upload == upload) {
      free(fake.parts[i].key);
      free(fake.parts[i].bytes);
      fake.parts[i] = (fake_part){0};
    }
}

static inline int fake_complete(tsr_bucket_call *call, uint64_t upload) {
  uint64_t size = 0;
  if (!fake_find_part(upload, 0)) return fake_fail(call, TSR_NOT_FOUND);
  if (call->put.new_only && fake_find(call->key)) return fake_fail(call, TSR_EXISTS);
  for (uint32_t i = 1; i <= call->upload.part_count; i++) {
    const fake_part *p = fake_find_part(upload, i);
    if (!p || (i < call->upload.part_count && p->size < fake.part_size)) return fake_fail(call, TSR_ERROR);
    size += p->size;
  }
  uint8_t *bytes = fake_copy(NULL, 0), *all = realloc(bytes, size + 1);
  uint64_t at = 0;
  for (uint32_t i = 1; i <= call->upload.part_count; i++) {
    const fake_part *p = fake_find_part(upload, i);
    memcpy(all + at, p->bytes, p->size);
    at += p->size;
  }
  fake_store(call->key, all, size);
  fake_drop_upload(upload);
  return TSR_OK;
}

static inline int fake_head_or_copy(tsr_bucket_call *call) {
  fake_object *o = fake_find(call->kind == TSR_BUCKET_COPY ? call->source : call->key);
  if (!o) return fake_fail(call, TSR_NOT_FOUND);
  call->result.object_size = o->size;
  call->result.modified = (int64_t)o->number;
  if (call->kind == TSR_BUCKET_COPY) fake_put(call->key, o->bytes, o->size);
  return TSR_OK;
}

static inline int fake_delete(const char *key) {
  fake_object *o = fake_find(key);
  if (o) fake_drop(o);
  return TSR_OK;
}

static inline int fake_answer(tsr_bucket_call *call) {
  const uint64_t upload = call->upload.id ? strtoull(call->upload.id, NULL, 10) : 0;
  switch (call->kind) {
  case TSR_BUCKET_GET: return fake_get(call);
  case TSR_BUCKET_HEAD:
  case TSR_BUCKET_COPY: return fake_head_or_copy(call);
  case TSR_BUCKET_LIST: return fake_list(call);
  case TSR_BUCKET_UPLOAD_LIST: return fake_list_uploads(call);
  case TSR_BUCKET_PUT:
    if (call->put.new_only && fake_find(call->key)) return fake_fail(call, TSR_EXISTS);
    return fake_put(call->key, call->put.bytes, call->put.size), TSR_OK;
  case TSR_BUCKET_DELETE: return fake_delete(call->key);
  case TSR_BUCKET_DELETE_MANY:
    for (uint64_t i = 0; i < call->key_count; i++) (void)fake_delete(call->keys[i]);
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_CREATE:
    snprintf(call->result.id, sizeof call->result.id, "%llu", (unsigned long long)fake.requests);
    return fake_add_part(call->key, fake.requests, 0, NULL, 0), TSR_OK;
  case TSR_BUCKET_UPLOAD_PART:
    if (!fake_find_part(upload, 0)) return fake_fail(call, TSR_NOT_FOUND);
    return fake_add_part(call->key, upload, call->upload.part, call->put.bytes, call->put.size), TSR_OK;
  case TSR_BUCKET_UPLOAD_COMPLETE: return fake_complete(call, upload);
  case TSR_BUCKET_UPLOAD_ABORT: return fake_drop_upload(upload), TSR_OK;
  }
  return TSR_ERROR;
}

/* Carries out one request. The caller holds the mutex. */
static inline void fake_request(tsr_bucket_call *call) {
  static const char *const kinds[] = {"GET",  "HEAD",   "LIST", "PUT",      "DELETE", "DELETE_MANY",
                                      "COPY", "CREATE", "PART", "COMPLETE", "ABORT",  "UPLOADS"};
  const size_t at = strlen(fake.log);
  fake.requests++;
  snprintf(fake.log + at, sizeof fake.log - at, "%s %s", kinds[call->kind], call->key ? call->key : "");
  if (call->kind == TSR_BUCKET_GET && call->get.range == TSR_BUCKET_RANGE)
    snprintf(fake.log + strlen(fake.log), sizeof fake.log - strlen(fake.log), " %llu+%llu",
             (unsigned long long)call->get.offset, (unsigned long long)call->get.size);
  if (strlen(fake.log) + 2 < sizeof fake.log) strcat(fake.log, "\n");
  const bool fails = fake.requests == fake.fail_at || (fake.fail_on && fake.fail_at && fake.requests > fake.fail_at);
  call->rc = !fails || fake.fail_done ? fake_answer(call) : TSR_OK;
  if (fails) call->rc = fake_fail(call, fake.fail_rc);
}

static inline int fake_result(const tsr_bucket_call *call, tsr_error *error) {
  if (call->rc < 0 && error) *error = call->error;
  return TSR_MIN(call->rc, TSR_OK);
}

/* ---- The functions of remote/bucket.h -------------------------------------------------------------------------------- */

int tsr__bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_bucket **client,
                     tsr_error *error) {
  const char *slash = strchr(uri + strlen("s3://"), '/');
  snprintf(fake.client.prefix, sizeof fake.client.prefix, "%s", slash ? slash + 1 : "");
  *client = &fake.client;
  return TSR_OK;
}

void tsr__bucket_close(tsr_bucket *client) {}
const char *tsr__bucket_name(const tsr_bucket *client) { return "bucket"; }
const char *tsr__bucket_prefix(const tsr_bucket *client) { return client->prefix; }
bool tsr__bucket_can_name(const tsr_bucket *client, const char *name) { return strcmp(name, "..") != 0; }
bool tsr__bucket_deletes_singly(const tsr_bucket *client) { return false; }
uint64_t tsr__bucket_part_size(const tsr_bucket *client) { return fake.part_size; }
uint32_t tsr__bucket_parallel(const tsr_bucket *client) { return fake.parallel; }
uint32_t tsr__bucket_refresh_ms(const tsr_bucket *client) { return 0; }
uint64_t tsr__bucket_now(const tsr_bucket *client) { return fake.requests; }
int tsr__bucket_prove(tsr_bucket *client, const char *key_prefix, tsr_error *error) { return TSR_OK; }

int tsr__bucket_run(tsr_bucket *client, tsr_bucket_call *calls, uint64_t count, tsr_error *error) {
  int rc = TSR_OK;
  pthread_mutex_lock(&fake.mutex);
  fake.trips += count > 0;
  for (uint64_t i = 0; i < count; i++) {
    fake_request(&calls[i]);
    if (rc >= 0) rc = fake_result(&calls[i], error);
  }
  pthread_mutex_unlock(&fake.mutex);
  return rc;
}

int tsr__bucket_run_one(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error) {
  return tsr__bucket_run(client, call, 1, error);
}

void tsr__bucket_start(tsr_bucket *client, tsr_bucket_call *call) {
  pthread_mutex_lock(&fake.mutex);
  fake.under_way++;
  fake.most_under_way = TSR_MAX(fake.most_under_way, fake.under_way);
  call->rc = 1; /* not carried out yet */
  if (fake.answers_at_once) fake_request(call);
  pthread_mutex_unlock(&fake.mutex);
}

int tsr__bucket_finish(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error) {
  pthread_mutex_lock(&fake.mutex);
  if (call->rc == 1) fake_request(call);
  fake.under_way--;
  pthread_mutex_unlock(&fake.mutex);
  return fake_result(call, error);
}

void tsr__bucket_cancel(tsr_bucket *client, tsr_bucket_call *call) {
  pthread_mutex_lock(&fake.mutex);
  fake.under_way--;
  fake.cancelled++;
  pthread_mutex_unlock(&fake.mutex);
}

bool tsr__bucket_answered(const tsr_bucket_call *call) { return call->rc != 1; }

void tsr__bucket_objects_release(tsr_bucket_objects *objects) {
  if (objects->capacity) {
    tsr__free(objects->at);
    tsr__arena_release(&objects->texts);
  }
  *objects = (tsr_bucket_objects){.memory = objects->memory};
}

#endif
