/* store_bucket.c: a store in a bucket. The file at a path is the object "PREFIX/PATH".
 *
 * Objects appear whole, never change and cannot be renamed. So:
 *
 *   reading       Opening a file reads its last 64 KiB, in one request that also reports its size; if the caller knows
 *                 the size, opening sends no request. Whatever callers announce is prefetched (prefetch.h). The last
 *                 small files that this store has uploaded are kept, so a writer does not fetch what it has just
 *                 written.
 *   directories   Do not exist. A listing shows what lies below a prefix; an empty one is missing. Only the root is
 *                 created: an object ".created" claims it, so that only one of two processes makes an array there.
 *   provisional   Files below a provisional directory stay on this machine (staging.h). A rename gives them their final
 *                 names; before the next step that others can see, all of them are uploaded together.
 *   new files     One conditional request, which fails if the object exists. If the creator of a large file promises to
 *                 sync it, it is sent in parts while it is being written; the object appears with the sync.
 *   renames       A file is read and written again by a conditional request, and then the old object is removed. For a
 *                 directory all files are copied, deepest first, before the first one is removed.
 *   stamps        Digests of a listing.
 *   locks         None.
 *
 * Workers may read. Everything else happens on the environment's thread.
 */
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "crypto/crypto.h"
#include "store/prefetch.h"
#include "store/upload.h"
#include "store/staging.h"
#include "tessera_host.h"

#define TAIL         (UINT64_C(64) << 10) /* bytes of a file that opening it reads */
#define S3_KEY_MAX   1024 /* bytes of a key, the protocol's limit */
#define MOVED_MAX    (UINT64_C(1) << 30) /* largest file, in bytes, that a rename copies through this machine */
#define TREE_MAX     10000000u /* objects below a directory */
#define HINTS_ONCE   256u
#define DELETED_ONCE UINT64_C(4096)

typedef struct provisional { /* a provisional directory, or one that this store has made */
  struct provisional *next;
  char path[];
} provisional;

typedef struct bucket_store {
  tsr_store base;
  tsr_bucket *client;
  tsr_staging *staging;
  tsr_bucket_prefetch *ahead;
  const char *prefix; /* of keys, without a '/' at its end; borrowed from the client */
  pthread_mutex_t mutex; /* guards `provisionals`, which only the environment's thread changes */
  provisional *provisionals; /* owned */
  provisional *made; /* directories that this store has made, owned */
  bool named; /* some staged files have got their names and must be uploaded */
} bucket_store;

typedef struct bucket_file {
  tsr_file base;
  tsr_staged *staged; /* a file on this machine, held; NULL: an object */
  bool loose; /* a new file outside provisional directories: tsr__store_sync uploads it */
  bool created; /* this handle has created the file */
  tsr_bucket_stream *stream; /* a large loose file whose upload has begun; owned */
  uint64_t streamed; /* bytes that have been sent and are no longer staged */
  tsr_buffer tail; /* the last bytes of an object, or nothing */
} bucket_file;

typedef struct bucket_key {
  char text[S3_KEY_MAX + 2];
} bucket_key;

static bucket_store *bucket_of(tsr_store *store) { return (bucket_store *)store; }

/* Makes the key of a path plus `suffix`. */
static int key_of(const bucket_store *s, const char *path, const char *suffix, bucket_key *key, tsr_error *error) {
  const char *slash = *s->prefix && *path ? "/" : "";
  const int size = snprintf(key->text, sizeof key->text, "%s%s%s%s", s->prefix, slash, path, suffix);
  if (size >= 0 && size <= S3_KEY_MAX) return TSR_OK;
  return tsr__fail(error, TSR_NOT_FOUND, "the key has more than %d bytes", S3_KEY_MAX);
}

/* Makes the prefix of all keys below a directory. */
static int prefix_of(const bucket_store *s, const char *path, bucket_key *key, tsr_error *error) {
  return key_of(s, path, *s->prefix || *path ? "/" : "", key, error);
}

/* Runs one call. store.c prepends the path to its message. */
static int one_call(bucket_store *s, tsr_bucket_call *call, tsr_error *error) {
  call->unnamed = true;
  return tsr__bucket_run_one(s->client, call, error);
}

/* ---- Provisional directories ------------------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *directory) {
  const size_t length = strlen(directory);
  return strncmp(path, directory, length) == 0 && (path[length] == '/' || !path[length]);
}

/* Returns the provisional directory that a path is or lies in, or NULL. Workers may only test the result for NULL: the
 * environment's thread may end the directory at any time. */
static const provisional *provisional_of(bucket_store *s, const char *path) {
  pthread_mutex_lock(&s->mutex);
  const provisional *p = s->provisionals;
  while (p && !is_below(path, p->path)) p = p->next;
  pthread_mutex_unlock(&s->mutex);
  return p;
}

static int bucket_make_provisional(tsr_store *store, const char *path, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  const size_t length = strlen(path) + 1;
  provisional *p;
  TSR_TRY(TSR_ALLOC_BYTES(store->memory, sizeof *p + length, &p, error));
  memcpy(p->path, path, length);
  pthread_mutex_lock(&s->mutex);
  p->next = s->provisionals;
  s->provisionals = p;
  pthread_mutex_unlock(&s->mutex);
  return TSR_OK;
}

static void end_provisional(bucket_store *s, const provisional *ended) {
  pthread_mutex_lock(&s->mutex);
  provisional **link = &s->provisionals;
  while (*link != ended) link = &(*link)->next;
  provisional *p = *link;
  *link = p->next;
  pthread_mutex_unlock(&s->mutex);
  tsr__free(p);
}

/* Removes the staged files at or below a path. */
static void unstage_tree(bucket_store *s, const char *path) {
  uint64_t at = 0;
  tsr_staged *file;
  (void)tsr__staging_remove(s->staging, path);
  while ((file = tsr__staging_next(s->staging, path, &at)) != NULL) {
    char name[S3_KEY_MAX + 2];
    snprintf(name, sizeof name, "%s", tsr__staged_path(file));
    (void)tsr__staging_remove(s->staging, name);
    at = 0; /* the table has changed */
  }
}

/* ---- Uploads ----------------------------------------------------------------------------------------------------- */

typedef struct named_files { /* staged files that have got their names, and their keys */
  bool growing; /* others are still being written and will be uploaded later */
  tsr_buffer uploads; /* tsr_staged_upload */
  tsr_arena keys;
} named_files;

static int collect_named(bucket_store *s, named_files *all, tsr_error *error) {
  uint64_t at = 0;
  tsr_staged *file;
  bucket_key key;
  while ((file = tsr__staging_next(s->staging, "", &at)) != NULL) {
    char *copy;
    if (provisional_of(s, tsr__staged_path(file))) continue;
    if (tsr__staged_grows(file)) {
      all->growing = true;
      continue;
    }
    TSR_TRY(key_of(s, tsr__staged_path(file), "", &key, error));
    TSR_TRY(TSR_ARENA_COPY(&all->keys, key.text, strlen(key.text), &copy, error));
    const tsr_staged_upload one = {.file = file, .key = copy};
    TSR_TRY(tsr__buffer_append(&all->uploads, &one, sizeof one, error));
  }
  return TSR_OK;
}

static int bucket_prove(bucket_store *s, tsr_error *error) {
  bucket_key key;
  TSR_TRY(prefix_of(s, "", &key, error));
  return tsr__bucket_prove(s->client, key.text, error);
}

/* Keeps the bytes of a small file that was uploaded: readers of a new fragment start with its metadata. */
static void keep_uploaded(bucket_store *s, const tsr_staged_upload *upload) {
  tsr_buffer bytes = {.memory = s->base.memory};
  const uint64_t size = tsr__staged_size(upload->file);
  if (size == 0 || size > TAIL || tsr__buffer_reserve_exactly(&bytes, size, NULL) < 0) return;
  bytes.size = size;
  if (tsr__staged_read(upload->file, 0, bytes.data, size, NULL) >= 0)
    tsr__bucket_prefetch_keep(s->ahead, upload->key, &bytes);
  else tsr__buffer_release(&bytes);
}

/* Uploads all staged files that have got their names. Every step that others can see starts with this. */
static int flush_named(bucket_store *s, tsr_error *error) {
  named_files all = {.uploads = {.memory = s->base.memory}};
  if (!s->named) return TSR_OK;
  TSR_TRY(bucket_prove(s, error));
  tsr__arena_init(&all.keys, s->base.memory);
  int rc = collect_named(s, &all, error);
  const tsr_staged_upload *uploads = (const tsr_staged_upload *)(const void *)all.uploads.data;
  const uint64_t count = all.uploads.size / sizeof *uploads;
  if (rc >= 0) rc = tsr__bucket_upload(s->client, s->base.memory, uploads, count, error);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    char name[S3_KEY_MAX + 2];
    keep_uploaded(s, &uploads[i]);
    snprintf(name, sizeof name, "%s", tsr__staged_path(uploads[i].file));
    (void)tsr__staging_remove(s->staging, name);
  }
  if (rc >= 0) s->named = all.growing;
  tsr__arena_release(&all.keys);
  tsr__buffer_release(&all.uploads);
  return rc;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int new_handle(tsr_store *store, const char *path, bucket_file **file, tsr_error *error) {
  void *block;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(bucket_file), &block, error));
  *file = block;
  (*file)->tail.memory = store->memory;
  return TSR_OK;
}

static void bucket_close_file(tsr_file *file) {
  bucket_file *f = (bucket_file *)file;
  if (f->stream && f->loose) (void)tsr__staging_remove(bucket_of(file->store)->staging, file->path); /* incomplete */
  tsr__bucket_stream_close(f->stream);
  if (f->created) tsr__staged_complete(f->staged);
  if (f->staged) tsr__staged_release(f->staged);
  tsr__buffer_release(&f->tail);
  tsr__free(f);
}

/* Reads the tail of an object, which also yields the object's size. */
static int read_tail(bucket_store *s, const char *key, tsr_buffer *tail, uint64_t *size, tsr_error *error) {
  const int rc = tsr__bucket_prefetch_tail(s->ahead, key, tail, size, error);
  if (rc != 0) return rc < 0 ? rc : TSR_OK;
  tsr_bucket_call call = {.kind = TSR_BUCKET_GET,
                          .key = key,
                          .get.range = TSR_BUCKET_SUFFIX,
                          .get.size = TAIL,
                          .get.most = TAIL,
                          .get.buffer = tail};
  TSR_TRY(one_call(s, &call, error));
  *size = call.result.object_size;
  return TSR_OK;
}

static int bucket_open_sized(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  bucket_key key;
  bucket_file *f;
  TSR_TRY(key_of(s, path, "", &key, error));
  tsr_staged *staged = tsr__staging_find(s->staging, path);
  if (!staged && provisional_of(s, path)) return tsr__fail(error, TSR_NOT_FOUND, "no such file");
  int rc = new_handle(store, path, &f, error);
  if (rc < 0) {
    if (staged) tsr__staged_release(staged);
    return rc;
  }
  f->staged = staged;
  f->base.size = staged ? tsr__staged_size(staged) : size;
  if (!staged && size == TSR_SIZE_UNKNOWN) rc = read_tail(s, key.text, &f->tail, &f->base.size, error);
  if (rc < 0) return bucket_close_file(&f->base), rc;
  *file = &f->base;
  return TSR_OK;
}

static int bucket_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  return bucket_open_sized(store, path, TSR_SIZE_UNKNOWN, file, error);
}

/* Reads a range by separate requests, a large one in parts that run concurrently. */
static int read_directly(bucket_store *s, const char *key, uint64_t offset, uint8_t *to, uint64_t size,
                         tsr_error *error) {
  const uint64_t part = tsr__bucket_part_size(s->client), count = (size + part - 1) / part;
  tsr_bucket_call *calls;
  TSR_TRY(TSR_ALLOC_ARRAY(s->base.memory, count, &calls, error));
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t at = i * part, bytes = TSR_MIN(part, size - at);
    calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_GET,
                                 .key = key,
                                 .get.range = TSR_BUCKET_RANGE,
                                 .get.offset = offset + at,
                                 .get.size = bytes,
                                 .get.into = to + at,
                                 .get.room = bytes};
  }
  int rc = tsr__bucket_run(s->client, calls, count, error);
  for (uint64_t i = 0; rc >= 0 && i < count; i++)
    if (calls[i].result.received < calls[i].get.size)
      rc = tsr__fail(error, TSR_CORRUPT, "%llu bytes are needed at byte %llu, but the object has %llu bytes",
                     (unsigned long long)size, (unsigned long long)offset,
                     (unsigned long long)calls[i].result.object_size);
  tsr__free(calls);
  return rc;
}

static int bucket_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  bucket_store *s = bucket_of(file->store);
  bucket_file *f = (bucket_file *)file;
  bucket_key key;
  if (f->streamed > 0) return tsr__fail(error, TSR_ERROR, "the file is being uploaded and cannot be read yet");
  if (f->staged) return tsr__staged_read(f->staged, offset, buffer, size, error);
  const uint64_t tail_from = file->size - TSR_MIN(file->size, f->tail.size);
  if (f->tail.size > 0 && offset >= tail_from) {
    memcpy(buffer, f->tail.data + (offset - tail_from), size);
    return TSR_OK;
  }
  TSR_TRY(key_of(s, file->path, "", &key, error));
  const int rc = tsr__bucket_prefetch_read(s->ahead, key.text, file->size, offset, buffer, size, error);
  return rc != 0 ? TSR_MIN(rc, TSR_OK) : read_directly(s, key.text, offset, buffer, size, error);
}

static void bucket_prefetch(tsr_store *store, const tsr_read_hint *hints, uint64_t count) {
  bucket_store *s = bucket_of(store);
  tsr_bucket_part parts[HINTS_ONCE];
  bucket_key *keys;
  if (tsr__bucket_parallel(s->client) == 1) return; /* a prefetch would run in parallel with the caller's own request */
  if (TSR_ALLOC_RAW(store->memory, TSR_MIN(count, HINTS_ONCE), &keys, NULL) < 0) return;
  for (uint64_t i = 0; i < count;) {
    uint64_t n = 0;
    for (; i < count && n < HINTS_ONCE; i++) {
      const bool tail = hints[i].tail || hints[i].size == TSR_WHOLE;
      if (key_of(s, hints[i].path, "", &keys[n], NULL) < 0 || provisional_of(s, hints[i].path)) continue;
      parts[n] = (tsr_bucket_part){keys[n].text, hints[i].offset, tail ? TAIL : hints[i].size, tail};
      n++;
    }
    tsr__bucket_prefetch_start(s->ahead, parts, n);
  }
  tsr__free(keys);
}

/* ---- Listings ---------------------------------------------------------------------------------------------------- */

/* Mixes bytes into a stamp: two hashes with different seeds. */
static void stamp_mix(tsr_stamp *stamp, const void *bytes, uint64_t size) {
  stamp->a = tsr__hash_bytes(stamp->a, bytes, size);
  stamp->b = tsr__hash_bytes(stamp->b, bytes, size);
}

static tsr_stamp stamp_of(const tsr_bucket_objects *entries) {
  tsr_stamp stamp = {.known = true, .c = entries->count};
  if (entries->count == 0) return stamp;
  stamp.a = UINT64_C(0xcbf29ce484222325);
  stamp.b = UINT64_C(0x84222325cbf29ce4);
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_bucket_object *e = &entries->at[i];
    stamp_mix(&stamp, e->key, strlen(e->key) + 1);
    if (e->is_prefix) continue;
    stamp_mix(&stamp, &e->size, sizeof e->size);
    if (e->etag) stamp_mix(&stamp, e->etag, strlen(e->etag) + 1);
  }
  return stamp;
}

/* Adds the entries of an answer to a listing, without the prefix and without the '/' of directories. Skips the object
 * whose key is the prefix itself: some programs create it for an empty directory. Skips directories that no
 * path can name, too: nobody could open them. */
static int take_entries(const bucket_store *s, const tsr_bucket_objects *entries, uint64_t prefix, tsr_listing *listing,
                        tsr_error *error) {
  listing->missing = entries->count == 0;
  for (uint64_t i = 0; i < entries->count; i++) {
    const tsr_bucket_object *e = &entries->at[i];
    char name[S3_KEY_MAX + 2];
    const uint64_t length = strlen(e->key), end = e->is_prefix && length > prefix ? length - 1 : length;
    if (end <= prefix || end - prefix >= sizeof name) continue;
    memcpy(name, e->key + prefix, end - prefix);
    name[end - prefix] = 0;
    if (e->is_prefix && !tsr__bucket_can_name(s->client, name)) continue;
    if (e->is_prefix) TSR_TRY(tsr_listing_add(listing, name, TSR_ENTRY_DIRECTORY, error));
    else TSR_TRY(tsr__listing_add_file(listing, name, e->size, e->modified < 0 ? 0 : (uint64_t)e->modified, error));
  }
  return TSR_OK;
}

typedef struct listing_work { /* the requests that list several directories */
  tsr_bucket_call *calls;
  bucket_key *keys;
  tsr_bucket_objects *objects;
  uint64_t count;
} listing_work;

static void listing_work_release(listing_work *w) {
  for (uint64_t i = 0; w->objects && i < w->count; i++) tsr__bucket_objects_release(&w->objects[i]);
  tsr__free(w->objects);
  tsr__free(w->keys);
  tsr__free(w->calls);
}

/* Lists directories: with the delimiter '/' their entries, with 0 all objects below them. */
static int listing_work_run(bucket_store *s, const char *const *paths, uint64_t count, char delimiter, listing_work *w,
                            tsr_error *error) {
  w->count = count;
  TSR_TRY(TSR_ALLOC_ARRAY(s->base.memory, count, &w->calls, error));
  TSR_TRY(TSR_ALLOC_RAW(s->base.memory, count, &w->keys, error));
  TSR_TRY(TSR_ALLOC_ARRAY(s->base.memory, count, &w->objects, error));
  for (uint64_t i = 0; i < count; i++) {
    w->objects[i].memory = s->base.memory;
    TSR_TRY(prefix_of(s, paths[i], &w->keys[i], error));
    w->calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_LIST,
                                    .key = w->keys[i].text,
                                    .list.delimiter = delimiter,
                                    .list.most = TREE_MAX,
                                    .list.objects = &w->objects[i]};
  }
  return tsr__bucket_run(s->client, w->calls, count, error);
}

/* Makes a stamp, and a listing if `listing` is not NULL, from the answer for one directory. */
static int take_answer(bucket_store *s, const tsr_bucket_objects *objects, const char *path, tsr_listing *listing,
                       tsr_stamp *stamp, tsr_error *error) {
  bucket_key key;
  TSR_TRY(prefix_of(s, path, &key, error));
  *stamp = stamp_of(objects);
  if (!*key.text) stamp->c++; /* the bucket exists even if it is empty */
  if (!listing) return TSR_OK;
  TSR_TRY(take_entries(s, objects, strlen(key.text), listing, error));
  listing->missing &= *key.text != 0;
  return TSR_OK;
}

static int bucket_list_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                            tsr_stamp *stamps, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  listing_work w = {0};
  int rc = listing_work_run(s, paths, count, '/', &w, error);
  for (uint64_t i = 0; rc >= 0 && i < count; i++)
    rc = take_answer(s, &w.objects[i], paths[i], listings ? &listings[i] : NULL, &stamps[i], error);
  listing_work_release(&w);
  return rc;
}

static int bucket_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  tsr_stamp stamp;
  TSR_TRY(bucket_list_many(store, &path, 1, listing, &stamp, error));
  return listing->missing ? tsr__fail(error, TSR_NOT_FOUND, "nothing exists under this prefix") : TSR_OK;
}

static int bucket_stamp_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps,
                             tsr_error *error) {
  return bucket_list_many(store, paths, count, NULL, stamps, error);
}

static int bucket_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  return bucket_stamp_many(store, &path, 1, stamp, error);
}

/* Lists all objects below a directory. The caller releases the entries, even after a failure. */
static int list_tree(bucket_store *s, const char *path, tsr_bucket_objects *entries, tsr_error *error) {
  bucket_key key;
  *entries = (tsr_bucket_objects){.memory = s->base.memory};
  TSR_TRY(prefix_of(s, path, &key, error));
  tsr_bucket_call call = {.kind = TSR_BUCKET_LIST, .key = key.text, .list.most = TREE_MAX, .list.objects = entries};
  return one_call(s, &call, error);
}

/* A directory's time is the time of the newest object below it. */
static int bucket_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  bucket_key key;
  tsr_bucket_objects entries;
  tsr_error one;
  TSR_TRY(key_of(s, path, "", &key, error));
  tsr_bucket_call call = {.kind = TSR_BUCKET_HEAD, .key = key.text};
  int rc = *path ? one_call(s, &call, &one) : TSR_NOT_FOUND;
  int64_t newest = call.result.modified;
  if (rc == TSR_NOT_FOUND) {
    rc = list_tree(s, path, &entries, &one);
    if (rc >= 0 && entries.count == 0) rc = tsr__fail(&one, TSR_NOT_FOUND, "no such object");
    newest = 0;
    for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) newest = TSR_MAX(newest, entries.at[i].modified);
    tsr__bucket_objects_release(&entries);
  }
  if (rc >= 0) *milliseconds = newest < 0 ? 0 : (uint64_t)newest;
  else if (error) *error = one;
  return rc;
}

static uint64_t bucket_now(tsr_store *store) { return tsr__bucket_now(bucket_of(store)->client); }

/* ---- New files --------------------------------------------------------------------------------------------------- */

static int put_object(bucket_store *s, const char *path, const void *bytes, uint64_t size, tsr_error *error) {
  bucket_key key;
  TSR_TRY(key_of(s, path, "", &key, error));
  TSR_TRY(bucket_prove(s, error));
  tsr__store_changed(&s->base);
  tsr_bucket_call call = {
      .kind = TSR_BUCKET_PUT, .key = key.text, .put.bytes = bytes, .put.size = size, .put.new_only = true};
  return one_call(s, &call, error);
}

static int bucket_put_new(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable,
                          tsr_error *error) {
  (void)durable; /* an object is durable once its request is answered */
  TSR_TRY(flush_named(bucket_of(store), error));
  return put_object(bucket_of(store), path, bytes, size, error);
}

static int bucket_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  bucket_file *f;
  TSR_TRY(new_handle(store, path, &f, error));
  const int rc = tsr__staging_create(s->staging, path, &f->staged, error);
  if (rc < 0) return bucket_close_file(&f->base), rc;
  f->created = true;
  f->loose = !provisional_of(s, path);
  s->named |= f->loose;
  *file = &f->base;
  return TSR_OK;
}

/* Sends the first parts of a large loose file. */
static int stream_file(bucket_store *s, bucket_file *f, tsr_error *error) {
  bucket_key key;
  uint64_t sent = 0;
  if (!f->stream) {
    if (tsr__staged_size(f->staged) < tsr__bucket_stream_from(s->client)) return TSR_OK;
    TSR_TRY(key_of(s, f->base.path, "", &key, error));
    TSR_TRY(bucket_prove(s, error));
    TSR_TRY(tsr__bucket_stream_open(s->client, s->base.memory, key.text, &f->stream, error));
  }
  TSR_TRY(tsr__bucket_stream_send(f->stream, f->staged, &sent, error));
  f->streamed += sent;
  return TSR_OK;
}

static int bucket_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  bucket_file *f = (bucket_file *)file;
  TSR_TRY(tsr__staged_append(f->staged, bytes, size, error));
  file->size += size;
  return f->loose && file->syncs ? stream_file(bucket_of(file->store), f, error) : TSR_OK;
}

/* Uploads a loose file. Unless its first parts were streamed, it stays staged for this handle, so it can still be
 * read. */
static int bucket_sync(tsr_file *file, tsr_error *error) {
  bucket_store *s = bucket_of(file->store);
  bucket_file *f = (bucket_file *)file;
  bucket_key key;
  if (!f->loose) return TSR_OK;
  TSR_TRY(key_of(s, file->path, "", &key, error));
  TSR_TRY(bucket_prove(s, error));
  const tsr_staged_upload one = {.file = f->staged, .key = key.text, .new_only = true};
  TSR_TRY(f->stream ? tsr__bucket_stream_end(f->stream, f->staged, error)
                    : tsr__bucket_upload(s->client, s->base.memory, &one, 1, error));
  if (f->stream) f->streamed = file->size;
  else keep_uploaded(s, &one);
  tsr__store_changed(&s->base);
  (void)tsr__staging_remove(s->staging, file->path);
  f->loose = false;
  return TSR_OK;
}

static int bucket_sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  (void)path;
  return flush_named(bucket_of(store), error);
}

/* Remembers a new directory, so that the rename of it need not look for a file first. */
static int note_made(bucket_store *s, const char *path, tsr_error *error) {
  const size_t length = strlen(path) + 1;
  provisional *p;
  if (provisional_of(s, path)) return TSR_OK;
  TSR_TRY(TSR_ALLOC_BYTES(s->base.memory, sizeof *p + length, &p, error));
  memcpy(p->path, path, length);
  p->next = s->made;
  s->made = p;
  return TSR_OK;
}

static bool was_made(const bucket_store *s, const char *path) {
  const provisional *p = s->made;
  while (p && strcmp(p->path, path) != 0) p = p->next;
  return p;
}

/* Returns true for the key of an object with which a process tests the server. It does not prevent a new array. */
static bool is_proof(const bucket_key *prefix, const char *key) {
  const size_t length = strlen(prefix->text);
  return !strncmp(key, prefix->text, length) && tsr__bucket_is_proof(key + length);
}

/* Claims the root, if nothing lies below it. Other directories do not exist as objects and are only remembered. */
static int bucket_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  bucket_key key;
  uint8_t random[16];
  char text[33];
  if (*path) return note_made(s, path, error);
  tsr_bucket_objects entries = {.memory = store->memory};
  TSR_TRY(prefix_of(s, "", &key, error));
  tsr_bucket_call call = {
      .kind = TSR_BUCKET_LIST, .key = key.text, .list.delimiter = '/', .list.most = TREE_MAX, .list.objects = &entries};
  int rc = one_call(s, &call, error);
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++)
    if (!is_proof(&key, entries.at[i].key))
      rc = tsr__fail(error, TSR_EXISTS, "something already exists under this prefix");
  tsr__bucket_objects_release(&entries);
  if (rc >= 0) rc = tsr__random(random, sizeof random, error);
  if (rc >= 0) tsr_hex_write(random, sizeof random, text);
  return rc < 0 ? rc : put_object(s, TSR_BUCKET_CLAIM, text, 32, error);
}

/* ---- Renames ----------------------------------------------------------------------------------------------------- */

/* Copies a large object within the server. Servers offer no conditional copy, so the target must be a new name. */
static int copy_large(bucket_store *s, const char *from, const char *to, tsr_error *error) {
  tsr_bucket_call copy = {.kind = TSR_BUCKET_COPY, .source = from, .key = to};
  return one_call(s, &copy, error);
}

/* Returns true if an object has exactly these bytes. */
static bool has_bytes(bucket_store *s, const char *key, const tsr_buffer *bytes) {
  tsr_buffer there = {.memory = s->base.memory};
  tsr_bucket_call get = {.kind = TSR_BUCKET_GET, .key = key, .get.most = MOVED_MAX, .get.buffer = &there};
  const bool same = one_call(s, &get, NULL) >= 0 && there.size == bytes->size &&
                    (there.size == 0 || !memcmp(there.data, bytes->data, there.size));
  tsr__buffer_release(&there);
  return same;
}

/* Copies an object of at most MOVED_MAX bytes. `again`: a target with the same bytes is left over from an interrupted
 * move and counts as success. */
static int copy_object(bucket_store *s, const char *from, const char *to, bool exclusive, bool again,
                       tsr_error *error) {
  tsr_buffer bytes = {.memory = s->base.memory};
  tsr_bucket_call get = {.kind = TSR_BUCKET_GET, .key = from, .get.most = MOVED_MAX, .get.buffer = &bytes};
  uint64_t size;
  int rc = tsr__bucket_prefetch_tail(s->ahead, from, &bytes, &size, error);
  if (rc >= 0 && (rc == 0 || bytes.size < size)) {
    bytes.size = 0;
    rc = one_call(s, &get, error);
  }
  if (rc >= 0) {
    tsr_bucket_call put = {
        .kind = TSR_BUCKET_PUT, .key = to, .put.bytes = bytes.data, .put.size = bytes.size, .put.new_only = exclusive};
    tsr_error refused;
    rc = one_call(s, &put, &refused);
    if (rc == TSR_EXISTS && again && has_bytes(s, to, &bytes)) rc = TSR_OK;
    if (rc < 0 && error) *error = refused;
  }
  if (rc >= 0 && bytes.size > 0 && bytes.size <= TAIL) tsr__bucket_prefetch_keep(s->ahead, to, &bytes);
  tsr__buffer_release(&bytes);
  return rc;
}

/* Removes an object that has been copied. */
static int remove_moved(bucket_store *s, const char *from, tsr_error *error) {
  tsr_bucket_call remove = {.kind = TSR_BUCKET_DELETE, .key = from};
  tsr__bucket_prefetch_forget(s->ahead, from);
  return one_call(s, &remove, error);
}

static int by_depth(const void *a, const void *b) {
  const tsr_bucket_object *x = a, *y = b;
  int depth = 0;
  for (const char *p = x->key; *p; p++) depth -= *p == '/';
  for (const char *p = y->key; *p; p++) depth += *p == '/';
  return depth ? depth : strcmp(x->key, y->key);
}

/* Moves the objects below a directory: copies all, deepest first, so that a schema appears after its enumerations, and
 * then removes all. So at every moment one of the two directories is whole, whenever the process dies. From the first
 * removal on, `from` may be incomplete, also if the server has not answered it: then the move has succeeded, and what
 * cannot be removed is left behind. If that were an error, the caller would go on with `from`. Once the server gives no
 * answer, the other files are left behind, too: each would wait through all its tries, and COMMIT with it. */
static int move_tree(bucket_store *s, const char *from, const char *to, bool exclusive, tsr_error *error) {
  tsr_bucket_objects entries;
  bucket_key source, target;
  TSR_TRY(prefix_of(s, from, &source, error));
  TSR_TRY(prefix_of(s, to, &target, error));
  const size_t head = strlen(source.text), room = sizeof target.text - strlen(target.text);
  char *tail = target.text + strlen(target.text);
  int rc = list_tree(s, from, &entries, error);
  if (rc >= 0 && entries.count == 0) rc = tsr__fail(error, TSR_NOT_FOUND, "no such object");
  if (rc >= 0) qsort(entries.at, entries.count, sizeof *entries.at, by_depth);
  for (uint64_t i = 0; rc >= 0 && i < entries.count; i++) {
    const char *rest = entries.at[i].key + head;
    if (strlen(rest) >= room) rc = tsr__fail(error, TSR_ERROR, "the key has more than %d bytes", S3_KEY_MAX);
    else {
      strcpy(tail, rest);
      rc = entries.at[i].size > tsr__bucket_part_size(s->client)
               ? copy_large(s, entries.at[i].key, target.text, error)
               : copy_object(s, entries.at[i].key, target.text, exclusive, true, error);
    }
  }
  bool removes = rc >= 0;
  for (uint64_t i = 0; removes && i < entries.count; i++) {
    const int removed = remove_moved(s, entries.at[i].key, i == 0 ? error : NULL);
    if (i == 0 && removed == TSR_DENIED) rc = removed; /* nothing is removed: `from` is whole */
    removes = rc >= 0 && removed != TSR_UNREACHABLE && removed != TSR_INTERRUPT;
  }
  tsr__bucket_objects_release(&entries);
  return rc;
}

/* Gives a provisional directory its final name. Its files are uploaded before the next step that others can see. */
static int name_provisional(bucket_store *s, const provisional *p, const char *to, tsr_error *error) {
  TSR_TRY(tsr__staging_rename(s->staging, p->path, to, error));
  end_provisional(s, p);
  s->named = true;
  return TSR_OK;
}

/* Renames a file or a directory inside a provisional directory. */
static int rename_unsent(bucket_store *s, const char *from, const char *to, bool exclusive, tsr_error *error) {
  tsr_staged *there = tsr__staging_find(s->staging, to);
  if (there) tsr__staged_release(there);
  if (there && exclusive) return tsr__fail(error, TSR_EXISTS, "it exists already");
  if (there && strcmp(from, to) != 0) (void)tsr__staging_remove(s->staging, to);
  return strcmp(from, to) == 0 ? TSR_OK : tsr__staging_rename(s->staging, from, to, error);
}

static int rename_either(tsr_store *store, const char *from, const char *to, bool exclusive, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  const provisional *p = provisional_of(s, from);
  bucket_key source, target;
  if (p && strcmp(p->path, from) == 0) return name_provisional(s, p, to, error);
  if (p) return rename_unsent(s, from, to, exclusive, error);
  TSR_TRY(flush_named(s, error));
  TSR_TRY(key_of(s, from, "", &source, error));
  TSR_TRY(key_of(s, to, "", &target, error));
  TSR_TRY(bucket_prove(s, error));
  tsr__store_changed(&s->base);
  tsr_error one;
  int rc = was_made(s, from) ? TSR_NOT_FOUND : copy_object(s, source.text, target.text, exclusive, false, &one);
  if (rc == TSR_NOT_FOUND) return move_tree(s, from, to, exclusive, error);
  if (rc >= 0) rc = remove_moved(s, source.text, &one);
  if (rc < 0 && error) *error = one;
  return rc;
}

static int bucket_rename(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return rename_either(store, from, to, false, error);
}
static int bucket_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return rename_either(store, from, to, true, error);
}

/* ---- Removals ---------------------------------------------------------------------------------------------------- */

/* Deletes keys by a request for each, many at a time. */
static int delete_each(bucket_store *s, const char *const *keys, uint64_t count, tsr_error *error) {
  tsr_bucket_call *calls = NULL;
  const uint64_t most = TSR_MIN(count, DELETED_ONCE);
  int rc = TSR_ALLOC_ARRAY(s->base.memory, most, &calls, error);
  for (uint64_t at = 0; rc >= 0 && at < count; at += most) {
    const uint64_t n = TSR_MIN(most, count - at);
    for (uint64_t i = 0; i < n; i++) calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_DELETE, .key = keys[at + i]};
    rc = tsr__bucket_run(s->client, calls, n, error);
  }
  tsr__free(calls);
  return rc;
}

static int delete_keys(bucket_store *s, const char *const *keys, uint64_t count, tsr_error *error) {
  if (count == 0) return TSR_OK;
  tsr_bucket_call call = {.kind = TSR_BUCKET_DELETE_MANY, .keys = keys, .key_count = count};
  if (count == 1) call = (tsr_bucket_call){.kind = TSR_BUCKET_DELETE, .key = keys[0]};
  for (uint64_t i = 0; i < count; i++) tsr__bucket_prefetch_forget(s->ahead, keys[i]);
  tsr__store_changed(&s->base);
  if (count > 1 && tsr__bucket_deletes_singly(s->client)) return delete_each(s, keys, count, error);
  return one_call(s, &call, error);
}

static int bucket_remove_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  tsr_arena arena;
  const char **keys;
  bucket_key key;
  uint64_t n = 0;
  tsr__arena_init(&arena, store->memory);
  int rc = TSR_ARENA_ARRAY(&arena, count, &keys, error);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) {
    if (tsr__staging_remove(s->staging, paths[i]) || provisional_of(s, paths[i])) continue;
    if ((rc = key_of(s, paths[i], "", &key, error)) < 0) break;
    rc = TSR_ARENA_COPY(&arena, key.text, strlen(key.text), &keys[n++], error);
  }
  if (rc >= 0) rc = delete_keys(s, keys, n, error);
  tsr__arena_release(&arena);
  return rc;
}

/* Removes an object. S3 does not say whether it existed. */
static int bucket_remove(tsr_store *store, const char *path, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  const provisional *p = provisional_of(s, path);
  if (p && strcmp(p->path, path) == 0) {
    uint64_t at = 0;
    if (tsr__staging_next(s->staging, path, &at)) return tsr__fail(error, TSR_EXISTS, "the directory is not empty");
    end_provisional(s, p);
    return TSR_OK;
  }
  const char *removed = *path ? path : TSR_BUCKET_CLAIM; /* removing the root gives up the claim */
  return bucket_remove_many(store, &removed, 1, error);
}

/* Removes staged files at or below a path. Returns true if no object can exist there. */
static bool remove_staged_tree(bucket_store *s, const char *path) {
  const provisional *p = provisional_of(s, path);
  unstage_tree(s, path);
  if (p && strcmp(p->path, path) == 0) end_provisional(s, p);
  return p;
}

/* Removes the objects in the listings of directories. A path with nothing below it may itself be a file. */
static int delete_listed(bucket_store *s, const listing_work *w, const char *const *paths, tsr_error *error) {
  tsr_buffer keys = {.memory = s->base.memory};
  tsr_arena arena;
  int rc = TSR_OK;
  tsr__arena_init(&arena, s->base.memory);
  for (uint64_t i = 0; rc >= 0 && i < w->count; i++) {
    const char *copy;
    bucket_key own;
    for (uint64_t k = 0; rc >= 0 && k < w->objects[i].count; k++)
      rc = tsr__buffer_append(&keys, &w->objects[i].at[k].key, sizeof(char *), error);
    if (rc < 0 || w->objects[i].count > 0) continue;
    rc = key_of(s, paths[i], "", &own, error);
    if (rc >= 0) rc = TSR_ARENA_COPY(&arena, own.text, strlen(own.text), &copy, error);
    if (rc >= 0) rc = tsr__buffer_append(&keys, &copy, sizeof copy, error);
  }
  if (rc >= 0) rc = delete_keys(s, (const char *const *)(const void *)keys.data, keys.size / sizeof(char *), error);
  tsr__arena_release(&arena);
  tsr__buffer_release(&keys);
  return rc;
}

static int bucket_remove_trees(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  listing_work w = {0};
  const char **left;
  uint64_t n = 0;
  TSR_TRY(TSR_ALLOC_ARRAY(store->memory, count, &left, error));
  for (uint64_t i = 0; i < count; i++)
    if (!remove_staged_tree(s, paths[i])) left[n++] = paths[i];
  int rc = n > 0 ? listing_work_run(s, left, n, 0, &w, error) : TSR_OK;
  if (rc >= 0) rc = delete_listed(s, &w, left, error);
  listing_work_release(&w);
  tsr__free(left);
  return rc;
}

static uint64_t bucket_unsent(tsr_store *store) {
  uint64_t at = 0, size = 0;
  const tsr_staged *file;
  while ((file = tsr__staging_next(bucket_of(store)->staging, "", &at)) != NULL) size += tsr__staged_size(file);
  return size;
}

/* Aborts the uploads below the root that began before a time. */
static int bucket_end_uploads(tsr_store *store, uint64_t before, tsr_error *error) {
  bucket_store *s = bucket_of(store);
  tsr_bucket_objects uploads = {.memory = store->memory};
  bucket_key key;
  TSR_TRY(prefix_of(s, "", &key, error));
  tsr_bucket_call list = {
      .kind = TSR_BUCKET_UPLOAD_LIST, .key = key.text, .list.most = TREE_MAX, .list.objects = &uploads};
  int rc = one_call(s, &list, error);
  for (uint64_t i = 0; rc >= 0 && i < uploads.count; i++) {
    const tsr_bucket_object *u = &uploads.at[i];
    if (u->modified <= 0 || (uint64_t)u->modified >= before) continue; /* 0: the server does not report the time */
    tsr_bucket_call end = {.kind = TSR_BUCKET_UPLOAD_ABORT, .key = u->key, .upload.id = u->etag};
    rc = one_call(s, &end, error);
  }
  tsr__bucket_objects_release(&uploads);
  return rc;
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

static void bucket_close(tsr_store *store) {
  bucket_store *s = bucket_of(store);
  while (s->provisionals) end_provisional(s, s->provisionals);
  while (s->made) {
    provisional *next = s->made->next;
    tsr__free(s->made);
    s->made = next;
  }
  tsr__bucket_prefetch_close(s->ahead);
  tsr__staging_close(s->staging);
  tsr__bucket_close(s->client);
  pthread_mutex_destroy(&s->mutex);
  tsr__free(s);
}

static void bucket_doubt(tsr_store *store) { tsr__bucket_prefetch_doubt(bucket_of(store)->ahead); }

static const tsr_store_methods bucket_methods = {
    .close = bucket_close,
    .open_file = bucket_open_file,
    .close_file = bucket_close_file,
    .read_at = bucket_read_at,
    .list = bucket_list,
    .stamp = bucket_stamp,
    .modified = bucket_modified,
    .now = bucket_now,
    .create_exclusive = bucket_create_exclusive,
    .append = bucket_append,
    .sync = bucket_sync,
    .sync_directory = bucket_sync_directory,
    .rename = bucket_rename,
    .rename_exclusive = bucket_rename_exclusive,
    .remove = bucket_remove,
    .make_directory = bucket_make_directory,
    .open_sized = bucket_open_sized,
    .doubt = bucket_doubt,
    .prefetch = bucket_prefetch,
    .list_many = bucket_list_many,
    .stamp_many = bucket_stamp_many,
    .put_new = bucket_put_new,
    .make_provisional = bucket_make_provisional,
    .remove_many = bucket_remove_many,
    .unsent = bucket_unsent,
    .end_uploads = bucket_end_uploads,
    .remove_trees = bucket_remove_trees,
};

int tsr__store_bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store,
                           tsr_error *error) {
  void *block;
  TSR_TRY(tsr__store_allocate(&bucket_methods, memory, uri, sizeof(bucket_store), &block, error));
  bucket_store *s = block;
  pthread_mutex_init(&s->mutex, NULL);
  s->base.workers_may_read = true;
  s->base.listings_are_states = s->base.stamps_are_listings = s->base.renames_in_steps = true;
  s->base.commits_in_turns = true;
  int rc = tsr__bucket_open(scopes, memory, uri, &s->client, error);
  if (rc >= 0) {
    s->prefix = tsr__bucket_prefix(s->client);
    s->base.place = *s->prefix ? "prefix" : "bucket";
    s->base.refresh_ms = tsr__bucket_refresh_ms(s->client);
  }
  if (rc >= 0) rc = tsr__staging_open(memory, &s->staging, error);
  if (rc >= 0) rc = tsr__bucket_prefetch_open(memory, s->client, &s->ahead, error);
  if (rc < 0) return bucket_close(&s->base), rc;
  *store = &s->base;
  return TSR_OK;
}
