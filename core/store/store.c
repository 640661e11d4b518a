/* store.c: what all kinds of stores have in common. The functions of store.h check paths and ranges, call the store's
 * method (or do the same with simpler methods if it is NULL), count files and bytes, sort listings, and prepend the
 * full path to error messages. */
#include "store/store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/sort.h"
#include "crypto/crypto.h"
#include "store/store_bounds.h"
#include "base/system.h"
#include "tessera_host.h"

#define MANY_ENTRIES      64u /* of a directory: from here on sorting by keys is faster than comparing names */
#define SYNCED_MAX        16u /* files and directories that are synced concurrently */
#define STORE_STAGED_SIZE 34 /* bytes for a staged file's path: '.', 32 hex digits, NUL */
#define STORE_DEPTH_MAX   64u /* nested directories of a tree that is removed */

/* ---- For the kinds of stores ----------------------------------------------------------------- */

int tsr__store_allocate(const tsr_store_methods *methods, tsr_memory *memory, const char *name, uint64_t size,
                        void **store, tsr_error *error) {
  const size_t length = strlen(name);
  tsr_store *s;
  TSR_TRY(TSR_ALLOC_BYTES(memory, size + length + 1, &s, error));
  s->methods = methods;
  s->memory = memory;
  s->name = (char *)s + size;
  memcpy(s->name, name, length + 1);
  *store = s;
  return TSR_OK;
}

const char *tsr__store_place(const tsr_store *store) { return store->place ? store->place : "directory"; }

int tsr__file_allocate(tsr_store *store, const char *path, uint64_t size, void **file, tsr_error *error) {
  size_t length = strlen(path);
  tsr_file *f;
  TSR_TRY(TSR_ALLOC_BYTES(store->memory, size + length + 1, &f, error));
  f->store = store;
  f->path = (char *)f + size;
  memcpy(f->path, path, length + 1);
  *file = f;
  return TSR_OK;
}

static int add_entry(tsr_listing *listing, const char *name, const tsr_entry *entry, tsr_error *error) {
  uint64_t count = listing->count;
  if ((count & (count - 1)) == 0) { /* at 0, 1, 2, 4, ... entries the array is full: double it */
    TSR_TRY(TSR_REALLOC_ARRAY(listing->memory, TSR_MAX(2 * count, 1), &listing->entries, error));
  }
  char *copy;
  listing->names.memory = listing->memory;
  TSR_TRY(TSR_ARENA_COPY(&listing->names, name, strlen(name), &copy, error));
  listing->entries[listing->count] = *entry;
  listing->entries[listing->count++].name = copy;
  return TSR_OK;
}

int tsr_listing_add(tsr_listing *listing, const char *name, tsr_entry_kind kind, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return add_entry(listing, name, &(tsr_entry){.kind = kind}, error);
}

int tsr__listing_add_file(tsr_listing *listing, const char *name, uint64_t size, uint64_t modified, tsr_error *error) {
  const tsr_entry entry = {.kind = TSR_ENTRY_FILE, .known = true, .size = size, .modified = modified};
  return add_entry(listing, name, &entry, error);
}

void tsr__listing_release(tsr_listing *listing) {
  tsr__arena_release(&listing->names);
  tsr__free(listing->entries);
  *listing = (tsr_listing){0};
}

/* ---- Paths and errors ------------------------------------------------------------------------ */

/* Appends a text to the path, truncated if there is no room. */
static void path_append(tsr_path *path, size_t *at, const char *text, size_t size) {
  const size_t room = sizeof path->text - 1 - *at;
  if (size > room) size = room;
  memcpy(path->text + *at, text, size);
  *at += size;
}

tsr_path tsr__path_of(const char *directory, const char *name, const char *suffix) {
  const size_t length = strlen(directory);
  tsr_path path;
  size_t at = 0;
  path_append(&path, &at, directory, length);
  if (length && directory[length - 1] != '/') path_append(&path, &at, "/", 1);
  path_append(&path, &at, name, strlen(name));
  path_append(&path, &at, suffix, strlen(suffix));
  path.text[at] = 0;
  return path;
}

static _Atomic uint64_t process_changes;

void tsr__store_changed(tsr_store *store) {
  store->changes++;
  process_changes++;
}

uint64_t tsr__store_process_changes(void) { return process_changes; }

/* Returns true for an error that concerns the whole store and not one file: the database is read-only or busy. */
static bool concerns_all_files(const tsr_store *store, int rc) {
  return store->is_one_file && (rc == TSR_READONLY || rc == TSR_BUSY);
}

/* Hashes a path, so that errors about different files have different subjects. */
static uint32_t path_number(const char *path) { return (uint32_t)tsr__hash_text(0, path); }

/* Returns true if a message begins with the name of an object below `path`, as those of buckets do. */
static bool names_object_below(const tsr_store *store, const char *path, const char *message) {
  const size_t root = strlen(store->name), size = strlen(path);
  if (!store->place || strncmp(message, store->name, root) != 0 || message[root] != '/') return false;
  return size == 0 || (strncmp(message + root + 1, path, size) == 0 && message[root + 1 + size] == '/');
}

/* Prepends the full path to the message, makes the path the error's subject, and returns `rc`, which is an argument
 * because `error` may be NULL. */
static int store_wrap(const tsr_store *store, const char *path, int rc, tsr_error *error) {
  if (rc >= 0 || concerns_all_files(store, rc)) return rc;
  size_t length = strlen(store->name);
  bool slash = *path && length > 0 && store->name[length - 1] != '/';
  if (!error || !names_object_below(store, path, error->message))
    tsr__wrap(error, "%s%s%s", store->name, slash ? "/" : "", path);
  tsr__error_about(error, path_number(path));
  return rc;
}

bool tsr__store_path_valid(const char *path) {
  if (!*path) return true;
  for (;;) {
    size_t length = strcspn(path, "/");
    if (length == 0 || (length <= 2 && memcmp(path, "..", length) == 0)) return false;
    if (!path[length]) return true;
    path += length + 1;
  }
}

static int check_path(const tsr_store *store, const char *path, tsr_error *error) {
  if (tsr__store_path_valid(path)) return TSR_OK;
  int rc = tsr__fail(error, TSR_PERM, "'%s' is not a path within an array: parts may not be empty, '.' or '..'", path);
  return store_wrap(store, "", rc, error);
}

/* Checks a path that must not be the root. */
static int check_path_below_root(const tsr_store *store, const char *path, tsr_error *error) {
  if (!*path)
    return store_wrap(store, path, tsr__fail(error, TSR_PERM, "the path is empty: it must name a file below the root"),
                      error);
  return check_path(store, path, error);
}

/* ---- Stores and files ------------------------------------------------------------------------ */

void tsr__store_close(tsr_store *store) {
  if (store) store->methods->close(store);
}

static int file_opened(tsr_store *store, const char *path, int rc, tsr_error *error) {
  if (rc < 0) return store_wrap(store, path, rc, error);
  atomic_fetch_add_explicit(&store->files_opened, 1, memory_order_relaxed);
  return TSR_OK;
}

int tsr__store_open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  TSR_TRY(check_path_below_root(store, path, error));
  return file_opened(store, path, store->methods->open_file(store, path, file, error), error);
}

int tsr__store_open_sized(tsr_store *store, const char *path, uint64_t size, tsr_file **file, tsr_error *error) {
  if (!store->methods->open_sized) return tsr__store_open_file(store, path, file, error);
  TSR_TRY(check_path_below_root(store, path, error));
  return file_opened(store, path, store->methods->open_sized(store, path, size, file, error), error);
}

bool tsr__store_doubt(tsr_store *store) {
  if (!store->methods->doubt) return false;
  store->methods->doubt(store);
  return true;
}

bool tsr__store_prefetches(const tsr_store *store) { return store->methods->prefetch != NULL; }

void tsr__store_prefetch(tsr_store *store, const tsr_read_hint *hints, uint64_t count) {
  if (!store->methods->prefetch || count == 0) return;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t end;
    if (!*hints[i].path || !tsr__store_path_valid(hints[i].path)) return;
    if (!hints[i].tail && hints[i].size != TSR_WHOLE && !tsr__add(hints[i].offset, hints[i].size, &end)) return;
  }
  store->methods->prefetch(store, hints, count);
}

void tsr__store_prefetch_files(tsr_store *store, const char *const *paths, uint64_t count) {
  tsr_read_hint *hints;
  if (!tsr__store_prefetches(store) || count == 0 || TSR_ALLOC_ARRAY(store->memory, count, &hints, NULL) < 0) return;
  for (uint64_t i = 0; i < count; i++) hints[i] = (tsr_read_hint){.path = paths[i], .size = TSR_WHOLE};
  tsr__store_prefetch(store, hints, count);
  tsr__free(hints);
}

int tsr__store_create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  TSR_TRY(check_path_below_root(store, path, error));
  return file_opened(store, path, store->methods->create_exclusive(store, path, file, error), error);
}

void tsr__store_close_file(tsr_file *file) {
  if (file && file->in_arena) return;
  if (file && file->kept) tsr__free(file);
  else if (file) file->store->methods->close_file(file);
}

int tsr__file_allocate_kept(tsr_store *store, const char *path, uint64_t size, tsr_arena *arena, tsr_file **file,
                            uint8_t **bytes, tsr_error *error) {
  const size_t length = strlen(path) + 1;
  uint64_t all;
  tsr_file *f;
  if (!tsr__add(sizeof(tsr_file) + length, size, &all))
    return tsr__fail(error, TSR_TOOBIG, "a file of %llu bytes", (unsigned long long)size);
  if (arena) TSR_TRY(TSR_ARENA_RAW_BYTES(arena, all, &f, error));
  else TSR_TRY(TSR_ALLOC_RAW_BYTES(store->memory, all, &f, error));
  *f = (tsr_file){.store = store, .path = (char *)(f + 1), .size = size, .in_arena = arena != NULL};
  memcpy(f->path, path, length);
  *bytes = (uint8_t *)f->path + length;
  f->kept = *bytes;
  *file = f;
  return TSR_OK;
}

int tsr__store_open_small(tsr_store *store, const char *path, uint64_t most, tsr_arena *arena, tsr_file **file,
                          tsr_error *error) {
  tsr_file *opened = NULL;
  if (store->methods->read_small && most > 0) {
    TSR_TRY(check_path_below_root(store, path, error));
    const int rc = store->methods->read_small(store, path, most, arena, &opened, error);
    if (rc < 0) return store_wrap(store, path, rc, error);
  }
  if (opened) {
    atomic_fetch_add_explicit(&store->files_opened, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&store->bytes_read, opened->size, memory_order_relaxed);
  } else {
    TSR_TRY(tsr__store_open_sized(store, path, TSR_SIZE_UNKNOWN, &opened, error));
    const int rc = opened->size <= most ? tsr__store_keep_file(&opened, arena, error) : TSR_OK;
    if (rc < 0) {
      tsr__store_close_file(opened);
      return rc;
    }
  }
  *file = opened;
  return TSR_OK;
}

int tsr__store_keep_file(tsr_file **file, tsr_arena *arena, tsr_error *error) {
  const tsr_file *from = *file;
  uint8_t *bytes = NULL;
  tsr_file *to = NULL;
  TSR_TRY(tsr__file_allocate_kept(from->store, from->path, from->size, arena, &to, &bytes, error));
  int rc = tsr__store_read_at(*file, 0, bytes, from->size, error);
  if (rc < 0) {
    tsr__store_close_file(to);
    return rc;
  }
  tsr__store_close_file(*file);
  *file = to;
  return TSR_OK;
}

int tsr__store_read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  tsr_store *store = file->store;
  uint64_t end;
  int rc = TSR_OK;
  if (!tsr__add(offset, size, &end) || end > file->size)
    rc = tsr__fail(error, TSR_CORRUPT, "%llu bytes are needed at byte %llu, but the file has %llu bytes",
                   (unsigned long long)size, (unsigned long long)offset, (unsigned long long)file->size);
  else if (file->kept) return size > 0 ? (void)memcpy(buffer, file->kept + offset, size), TSR_OK : TSR_OK;
  else if (size > 0) rc = store->methods->read_at(file, offset, buffer, size, error);
  if (rc < 0) return store_wrap(store, file->path, rc, error);
  atomic_fetch_add_explicit(&store->bytes_read, size, memory_order_relaxed);
  return TSR_OK;
}

static int read_opened(tsr_file *file, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  const uint64_t size = file->size;
  if (size > most) {
    int rc = tsr__fail(error, TSR_TOOBIG, "the file has %llu bytes, at most %llu are allowed here",
                       (unsigned long long)size, (unsigned long long)most);
    return store_wrap(file->store, file->path, rc, error);
  }
  TSR_TRY(store_wrap(file->store, file->path, tsr__buffer_reserve(buffer, size, error), error));
  TSR_TRY(tsr__store_read_at(file, 0, size > 0 ? buffer->data + buffer->size : NULL, size, error));
  buffer->size += size;
  return TSR_OK;
}

int tsr__store_read_all(tsr_store *store, const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  if (store->methods->read_whole) {
    const uint64_t before = buffer->size;
    TSR_TRY(check_path_below_root(store, path, error));
    TSR_TRY(file_opened(store, path, store->methods->read_whole(store, path, most, buffer, error), error));
    atomic_fetch_add_explicit(&store->bytes_read, buffer->size - before, memory_order_relaxed);
    return TSR_OK;
  }
  tsr_file *file;
  TSR_TRY(tsr__store_open_file(store, path, &file, error));
  const int rc = read_opened(file, most, buffer, error);
  tsr__store_close_file(file);
  return rc;
}

static int compare_entries(const void *a, const void *b) {
  return strcmp(((const tsr_entry *)a)->name, ((const tsr_entry *)b)->name);
}

static int compare_names(const void *entries, uint32_t a, uint32_t b) {
  return strcmp(((const tsr_entry *)entries)[a].name, ((const tsr_entry *)entries)[b].name);
}

/* Returns the length of the names' longest common prefix. */
static uint64_t common_bytes(const tsr_listing *listing) {
  const char *first = listing->entries[0].name;
  uint64_t common = strlen(first);
  for (uint64_t i = 1; i < listing->count && common > 0; i++)
    for (uint64_t at = 0; at < common; at++)
      if (listing->entries[i].name[at] != first[at]) common = at;
  return common;
}

/* Packs the next bytes of a name, after the common prefix, into a number that sorts as they do. */
static uint64_t key_behind(const char *name, uint64_t common) {
  uint64_t key = 0;
  for (int i = 0; i < 8; i++) {
    key = key << 8 | (uint8_t)name[common];
    common += name[common] != 0;
  }
  return key;
}

/* Sorts many entries by the first bytes in which their names differ. Returns false if it is out of memory. */
static bool sort_by_keys(tsr_listing *listing) {
  const uint64_t count = listing->count, common = common_bytes(listing);
  tsr_pair *pairs;
  tsr_entry *sorted;
  if (count > UINT32_MAX || TSR_ALLOC_RAW(listing->memory, 2 * count, &pairs, NULL) < 0) return false;
  if (TSR_ALLOC_RAW(listing->memory, count, &sorted, NULL) < 0) return tsr__free(pairs), false;
  for (uint64_t i = 0; i < count; i++) pairs[i] = (tsr_pair){key_behind(listing->entries[i].name, common), (uint32_t)i};
  tsr__pairs_sort_ties(pairs, pairs + count, count, compare_names, listing->entries);
  for (uint64_t i = 0; i < count; i++) sorted[i] = listing->entries[pairs[i].cell];
  tsr__free(listing->entries);
  tsr__free(pairs);
  listing->entries = sorted;
  return true;
}

static void sort_listing(tsr_listing *listing) {
  if (listing->count >= MANY_ENTRIES && sort_by_keys(listing)) return;
  if (listing->count > 1) qsort(listing->entries, listing->count, sizeof *listing->entries, compare_entries);
}

int tsr__store_list_any(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  tsr_listing found = {.memory = store->memory};
  store->directories_listed++;
  int rc = store->methods->list(store, path, &found, error);
  if (rc < 0) {
    tsr__listing_release(&found);
    return store_wrap(store, path, rc, error);
  }
  sort_listing(&found);
  *listing = found;
  return TSR_OK;
}

/* Fails if the listing has a symbolic link that we may not follow. */
static int check_links(const tsr_store *store, const char *path, const tsr_listing *listing, tsr_error *error) {
  if (!listing->link) return TSR_OK;
  const int rc = tsr__fail(error, TSR_PERM,
                           "%s in it is a symbolic link; tessera_restrict has bound this connection, and it follows "
                           "none within arrays",
                           listing->link);
  return store_wrap(store, path, rc, error);
}

int tsr__store_list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  tsr_listing found;
  TSR_TRY(tsr__store_list_any(store, path, &found, error));
  const int rc = check_links(store, path, &found, error);
  if (rc < 0) tsr__listing_release(&found);
  else *listing = found;
  return rc;
}

/* Lists directories one by one; each stamp is taken before its listing. */
static int list_each(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                     tsr_stamp *stamps, tsr_error *error) {
  for (uint64_t i = 0; i < count; i++) {
    TSR_TRY(tsr__store_stamp(store, paths[i], &stamps[i], error));
    const int rc = tsr__store_list(store, paths[i], &listings[i], error);
    listings[i].missing = rc == TSR_NOT_FOUND;
    if (rc < 0 && rc != TSR_NOT_FOUND) return rc;
  }
  return TSR_OK;
}

static int list_together(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                         tsr_stamp *stamps, tsr_error *error) {
  for (uint64_t i = 0; i < count; i++) TSR_TRY(check_path(store, paths[i], error));
  store->directories_listed += count;
  TSR_TRY(store_wrap(store, "", store->methods->list_many(store, paths, count, listings, stamps, error), error));
  for (uint64_t i = 0; i < count; i++) {
    sort_listing(&listings[i]);
    TSR_TRY(check_links(store, paths[i], &listings[i], error));
  }
  return TSR_OK;
}

int tsr__store_list_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_listing *listings,
                         tsr_stamp *stamps, tsr_error *error) {
  for (uint64_t i = 0; i < count; i++) listings[i] = (tsr_listing){.memory = store->memory};
  const int rc = (store->methods->list_many ? list_together : list_each)(store, paths, count, listings, stamps, error);
  for (uint64_t i = 0; rc < 0 && i < count; i++) tsr__listing_release(&listings[i]);
  return rc;
}

const tsr_entry *tsr__listing_find(const tsr_listing *listing, const char *name) {
  for (uint64_t a = 0, b = listing->count; a < b;) {
    uint64_t middle = a + (b - a) / 2;
    int order = strcmp(listing->entries[middle].name, name);
    if (order == 0) return &listing->entries[middle];
    if (order < 0) a = middle + 1;
    else b = middle;
  }
  return NULL;
}

bool tsr__listing_has(const tsr_listing *listing, const char *name) { return tsr__listing_find(listing, name); }

int tsr__store_stamp(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  return store_wrap(store, path, store->methods->stamp(store, path, stamp, error), error);
}

int tsr__store_stamp_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_stamp *stamps,
                          tsr_error *error) {
  if (!store->methods->stamp_many) {
    for (uint64_t i = 0; i < count; i++) TSR_TRY(tsr__store_stamp(store, paths[i], &stamps[i], error));
    return TSR_OK;
  }
  for (uint64_t i = 0; i < count; i++) TSR_TRY(check_path(store, paths[i], error));
  return store_wrap(store, "", store->methods->stamp_many(store, paths, count, stamps, error), error);
}

bool tsr__same_stamp(const tsr_stamp *a, const tsr_stamp *b) {
  return a->known && b->known && a->a == b->a && a->b == b->b && a->c == b->c;
}

int tsr__store_modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  return store_wrap(store, path, store->methods->modified(store, path, milliseconds, error), error);
}

int tsr__store_look(tsr_store *store, const char *path, tsr_look *look, tsr_error *error) {
  if (!store->methods->look) return 0;
  TSR_TRY(check_path(store, path, error));
  const int rc = store->methods->look(store, path, look, error);
  return rc < 0 ? store_wrap(store, path, rc, error) : 1;
}

int tsr__store_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  if (size == 0) return TSR_OK;
  return store_wrap(file->store, file->path, file->store->methods->append(file, bytes, size, error), error);
}

int tsr__store_sync(tsr_file *file, tsr_error *error) {
  return store_wrap(file->store, file->path, file->store->methods->sync(file, error), error);
}

static int no_locks(tsr_error *error) { return tsr__fail(error, TSR_UNSUPPORTED, "this store has no locks"); }

bool tsr__store_has_locks(const tsr_store *store) { return store->methods->lock != NULL; }

int tsr__store_lock(tsr_file *file, tsr_error *error) {
  const tsr_store_methods *methods = file->store->methods;
  return store_wrap(file->store, file->path, methods->lock ? methods->lock(file, error) : no_locks(error), error);
}

int tsr__store_locked(tsr_file *file, bool *locked, tsr_error *error) {
  const tsr_store_methods *methods = file->store->methods;
  return store_wrap(file->store, file->path, methods->locked ? methods->locked(file, locked, error) : no_locks(error),
                    error);
}

int tsr__store_end_uploads(tsr_store *store, uint64_t before, tsr_error *error) {
  if (!store->methods->end_uploads) return TSR_OK;
  const int rc = store->methods->end_uploads(store, before, error);
  return store_wrap(store, "", rc, error);
}

uint64_t tsr__store_unsent(tsr_store *store) { return store->methods->unsent ? store->methods->unsent(store) : 0; }

uint64_t tsr__store_now(tsr_store *store) {
  struct timespec now;
  if (store->methods->now) return store->methods->now(store);
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int tsr__store_sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  return store_wrap(store, path, store->methods->sync_directory(store, path, error), error);
}

typedef struct syncing {
  tsr_store *store;
  tsr_file *const *files;
  uint64_t file_count;
  const char *const *directories;
} syncing;

static int sync_one(void *argument, uint64_t index, tsr_error *error) {
  const syncing *s = argument;
  if (index < s->file_count) return tsr__store_sync(s->files[index], error);
  return tsr__store_sync_directory(s->store, s->directories[index - s->file_count], error);
}

int tsr__store_sync_all(tsr_store *store, tsr_file *const *files, uint64_t file_count, const char *const *directories,
                        uint64_t directory_count, unsigned threads, tsr_error *error) {
  syncing s = {store, files, file_count, directories};
  const uint64_t count =
      file_count + directory_count; /* one thread each: the threads wait for the disk, not for a core */
  return tsr__parallel_for(threads > 1 && store->workers_may_sync ? (unsigned)TSR_MIN(count, SYNCED_MAX) : 1, count,
                           sync_one, &s, error);
}

/* Renames by either method, after checking that a directory is not moved into itself. */
static int store_move(tsr_store *store, const char *from, const char *to, tsr_error *error,
                      int (*method)(tsr_store *, const char *, const char *, tsr_error *)) {
  TSR_TRY(check_path_below_root(store, from, error));
  TSR_TRY(check_path_below_root(store, to, error));
  size_t length = strlen(from);
  int rc;
  if (strncmp(from, to, length) == 0 && to[length] == '/')
    rc = tsr__fail(error, TSR_ERROR, "a directory cannot be moved into itself");
  else rc = method(store, from, to, error);
  if (rc == TSR_OK) return rc;
  if (!concerns_all_files(store, rc)) tsr__wrap(error, "renaming to '%s'", to);
  return store_wrap(store, from, rc, error);
}

int tsr__store_rename(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return store_move(store, from, to, error, store->methods->rename);
}

int tsr__store_find(tsr_store *store, const char *path, bool *exists, tsr_error *error) {
  tsr_file *file;
  int rc = tsr__store_open_file(store, path, &file, error);
  if (rc < 0 && rc != TSR_NOT_FOUND) return rc;
  *exists = rc >= 0;
  if (rc >= 0) tsr__store_close_file(file);
  return TSR_OK;
}

int tsr__directory_find(tsr_store *store, const char *path, bool *exists, tsr_error *error) {
  tsr_stamp stamp;
  TSR_TRY(tsr__store_stamp(store, path, &stamp, error));
  *exists = !stamp.known || stamp.a || stamp.b || stamp.c; /* the stamp of a missing directory is known and all zeros */
  return TSR_OK;
}

/* Returns true if it is certain that a file or directory with this path exists (`there`) or that none exists (not
 * `there`). */
static bool is_known(tsr_store *store, const char *path, bool there) {
  bool file = false, directory = false;
  return tsr__store_find(store, path, &file, NULL) >= 0 && tsr__directory_find(store, path, &directory, NULL) >= 0 &&
         (file || directory) == there;
}

/* A failing disk or network may report an error for a rename that did take place. A caller that then removed the target
 * would damage the array, so the function checks both paths before it believes the error. */
int tsr__store_rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  tsr_error one;
  const int rc = store_move(store, from, to, &one, store->methods->rename_exclusive);
  const bool doubtful = rc == TSR_IO || rc == TSR_UNREACHABLE;
  if (rc >= 0 || (doubtful && is_known(store, from, false) && is_known(store, to, true))) return TSR_OK;
  if (error) *error = one;
  return rc;
}

int tsr__store_exchange(tsr_store *store, const char *one, const char *other, tsr_error *error) {
  if (!store->methods->exchange)
    return tsr__fail(error, TSR_UNSUPPORTED, "directories cannot be exchanged in %s", store->name);
  return store_move(store, one, other, error, store->methods->exchange);
}

int tsr__store_remove(tsr_store *store, const char *path, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  return store_wrap(store, path, store->methods->remove(store, path, error), error);
}

int tsr__store_make_directory(tsr_store *store, const char *path, tsr_error *error) {
  TSR_TRY(check_path(store, path, error));
  return store_wrap(store, path, store->methods->make_directory(store, path, error), error);
}

int tsr__store_make_provisional(tsr_store *store, const char *path, tsr_error *error) {
  if (!store->methods->make_provisional) return tsr__store_make_directory(store, path, error);
  TSR_TRY(check_path_below_root(store, path, error));
  return store_wrap(store, path, store->methods->make_provisional(store, path, error), error);
}

int tsr__store_own(tsr_store *store, const char *path, tsr_error *error) {
  TSR_TRY(check_path_below_root(store, path, error));
  if (!store->methods->is_link || !store->methods->is_link(store, path)) return TSR_OK;
  return store_wrap(store, path,
                    tsr__fail(error, TSR_PERM, "it is a symbolic link, and nothing behind a link is removed"), error);
}

bool tsr__store_exists(tsr_store *store, const char *path) {
  bool exists = false;
  return tsr__store_find(store, path, &exists, NULL) >= 0 && exists;
}

/* ---- New files and removals, composed of the calls above ------------------------------------- */

static int write_new_file(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable,
                          tsr_error *error) {
  tsr_file *file = NULL;
  TSR_TRY(tsr__store_create_exclusive(store, path, &file, error));
  int rc = tsr__store_append(file, bytes, size, error);
  if (rc >= 0 && durable && size > 0) rc = tsr__store_sync(file, error);
  tsr__store_close_file(file);
  if (rc < 0) (void)tsr__store_remove(store, path, NULL);
  return rc;
}

/* Chooses the path of a staged file: '.' and 32 hex digits in the root, where readers ignore it. A vacuum removes the
 * staged files of writers that died. */
static int choose_staged(char staged[STORE_STAGED_SIZE], tsr_error *error) {
  uint8_t random[16];
  TSR_TRY(tsr__random(random, sizeof random, error));
  *staged = '.';
  tsr_hex_write(random, sizeof random, staged + 1);
  return TSR_OK;
}

/* An empty file is complete as soon as it is created, and in a store that is one file everything appears with that
 * file's commit. Other files are written under a staged name and then renamed. */
int tsr__store_put_new(tsr_store *store, const char *path, const void *bytes, uint64_t size, bool durable,
                       tsr_error *error) {
  char staged[STORE_STAGED_SIZE];
  TSR_TRY(check_path_below_root(store, path, error));
  if (store->methods->put_new)
    return store_wrap(store, path, store->methods->put_new(store, path, bytes, size, durable, error), error);
  if (store->is_one_file || size == 0) return write_new_file(store, path, bytes, size, durable, error);
  TSR_TRY(choose_staged(staged, error));
  TSR_TRY(write_new_file(store, staged, bytes, size, durable, error));
  const int rc = tsr__store_rename_exclusive(store, staged, path, error);
  if (rc < 0) (void)tsr__store_remove(store, staged, NULL);
  return rc;
}

/* Like tsr__store_remove, but a missing path is not an error. */
static int remove_if_there(tsr_store *store, const char *path, tsr_error *error) {
  tsr_error one;
  const int rc = tsr__store_remove(store, path, &one);
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  if (error) *error = one;
  return rc;
}

int tsr__store_remove_many(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error) {
  if (!store->methods->remove_many) {
    for (uint64_t i = 0; i < count; i++) TSR_TRY(remove_if_there(store, paths[i], error));
    return TSR_OK;
  }
  for (uint64_t i = 0; i < count; i++) TSR_TRY(check_path_below_root(store, paths[i], error));
  return store_wrap(store, "", store->methods->remove_many(store, paths, count, error), error);
}

static int remove_below(tsr_store *store, const char *path, unsigned depth, tsr_error *error) {
  tsr_listing entries;
  tsr_error unseen;
  int rc = tsr__store_remove(store, path, &unseen); /* removes a link to a directory, not its target */
  if (rc >= 0 || rc == TSR_NOT_FOUND) return TSR_OK;
  rc = tsr__store_list_any(store, path, &entries, error);
  /* A file that cannot be removed, whose error the second call repeats; or another process has removed the directory
   * since the first call, for which it had files. */
  if (rc == TSR_NOT_FOUND) return remove_if_there(store, path, error);
  if (rc < 0) return rc;
  if (depth == STORE_DEPTH_MAX)
    rc = store_wrap(store, path, tsr__fail(error, TSR_TOOBIG, "its directories are nested too deeply"), error);
  tsr_buffer below = {.memory = store->memory};
  for (uint64_t i = 0; i < entries.count && rc >= 0; i++) {
    below.size = 0;
    rc = tsr__buffer_printf(&below, error, "%s/%s", path, entries.entries[i].name);
    if (rc >= 0) rc = tsr__buffer_append_u8(&below, 0, error);
    if (rc >= 0) rc = remove_below(store, (const char *)below.data, depth + 1, error);
  }
  tsr__buffer_release(&below);
  tsr__listing_release(&entries);
  return rc < 0 ? rc : remove_if_there(store, path, error);
}

int tsr__store_remove_trees(tsr_store *store, const char *const *paths, uint64_t count, tsr_error *error) {
  for (uint64_t i = 0; i < count; i++) TSR_TRY(check_path_below_root(store, paths[i], error));
  if (store->methods->remove_trees)
    return store_wrap(store, count == 1 ? paths[0] : "", store->methods->remove_trees(store, paths, count, error),
                      error);
  for (uint64_t i = 0; i < count; i++) TSR_TRY(remove_below(store, paths[i], 0, error));
  return TSR_OK;
}

int tsr__store_remove_tree(tsr_store *store, const char *path, tsr_error *error) {
  return tsr__store_remove_trees(store, &path, 1, error);
}
