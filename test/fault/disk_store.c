/* disk_store.c: the store of the disk in memory, for the core. The linker replaces tsr__store_directory_open by
 * __wrap_tsr__store_directory_open (--wrap), so that every directory that the engine opens below DISK_ROOT is on this
 * disk. The other system calls that the engine makes (realpath, the clock, random bytes) are replaced here, too.
 */

#include <stdio.h>

#include "store/store.h"
#include "disk.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <zstd.h>

typedef struct disk_store {
  tsr_store base;
  char *root; /* without a slash at its end */
} disk_store;

typedef struct disk_file {
  tsr_file base;
  int node;
} disk_file;

typedef struct full_path {
  char text[2000];
} full_path;

/* Gives the same error message as store_posix.c. */
static int fail_system(int number, const char *what, tsr_error *error) {
  int code = number == ENOSPC                          ? TSR_FULL
             : number == ENOENT || number == ENOTDIR   ? TSR_NOT_FOUND
             : number == EEXIST || number == ENOTEMPTY ? TSR_EXISTS
                                                       : TSR_IO;
  return tsr__fail(error, code, "%s: %s", what, strerror(number));
}

static full_path join(const tsr_store *store, const char *path) {
  full_path full;
  snprintf(full.text, sizeof full.text, "%s%s%s", ((const disk_store *)store)->root, *path ? "/" : "", path);
  return full;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static int file_new(tsr_store *store, const char *path, int number, tsr_file **file, tsr_error *error) {
  void *memory;
  TSR_TRY(tsr__file_allocate(store, path, sizeof(disk_file), &memory, error));
  disk_file *f = memory;
  f->node = number;
  f->base.size = disk_size(disk_now, number);
  disk_files_open++;
  *file = &f->base;
  return TSR_OK;
}

static int open_file(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  bool directory;
  int found = disk_look();
  if (found == 0) found = disk_find(disk_now, join(store, path).text, &directory);
  if (found < 0) return fail_system(-found, "opening", error);
  if (directory) return tsr__fail(error, TSR_NOT_FOUND, "is a directory, not a file");
  return file_new(store, path, found, file, error);
}

static int create_exclusive(tsr_store *store, const char *path, tsr_file **file, tsr_error *error) {
  int made = disk_make(disk_now, join(store, path).text, false);
  if (made < 0) return fail_system(-made, "creating", error);
  int rc = file_new(store, path, made, file, error);
  if (rc < 0) disk_remove(disk_now, join(store, path).text);
  return rc;
}

static void close_file(tsr_file *file) {
  disk_lock *lock = disk_lock_of(disk_now, ((disk_file *)file)->node);
  if (lock->array == file) lock->array = NULL;
  disk_files_open--;
  tsr__free(file);
}

static int read_at(tsr_file *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error) {
  int code = disk_read(disk_now, ((disk_file *)file)->node, offset, buffer, size, false);
  if (code == -ENODATA)
    return tsr__fail(error, TSR_CORRUPT, "the file ends at byte %llu, it had %llu bytes when it was opened",
                     (unsigned long long)offset, (unsigned long long)file->size);
  return code < 0 ? fail_system(-code, "reading", error) : TSR_OK;
}

static int append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *error) {
  int code = disk_write(disk_now, ((disk_file *)file)->node, file->size, bytes, size);
  if (code < 0) return fail_system(-code, "writing", error);
  file->size += size;
  return TSR_OK;
}

static int sync_file(tsr_file *file, tsr_error *error) {
  int code = disk_sync(disk_now, ((disk_file *)file)->node);
  return code < 0 ? fail_system(-code, "syncing", error) : TSR_OK;
}

static int lock_file(tsr_file *file, tsr_error *error) {
  const int looked = disk_look(); /* others may act before it, and it may fail */
  if (looked < 0) return fail_system(-looked, "locking", error);
  disk_lock *lock = disk_lock_of(disk_now, ((disk_file *)file)->node);
  if (lock->array && lock->array != file) return tsr__fail(error, TSR_BUSY, "another process has locked it");
  lock->array = file;
  return TSR_OK;
}

static int is_locked(tsr_file *file, bool *locked, tsr_error *error) {
  const disk_lock *lock = disk_lock_of(disk_now, ((disk_file *)file)->node);
  *locked = lock->array && lock->array != file;
  return TSR_OK;
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static int find_directory(tsr_store *store, const char *path) {
  bool directory;
  int found = disk_find(disk_now, join(store, path).text, &directory);
  return found >= 0 && !directory ? -ENOTDIR : found;
}

static int list(tsr_store *store, const char *path, tsr_listing *listing, tsr_error *error) {
  int found = disk_look();
  if (found == 0) found = find_directory(store, path);
  if (found < 0) return fail_system(-found, "listing", error);
  const char *name;
  bool directory;
  int rc = TSR_OK;
  for (unsigned i = 0; rc == TSR_OK && disk_entry(disk_now, found, i, &name, &directory); i++)
    rc = tsr_listing_add(listing, name, directory ? TSR_ENTRY_DIRECTORY : TSR_ENTRY_FILE, error);
  return rc;
}

static int stamp_directory(tsr_store *store, const char *path, tsr_stamp *stamp, tsr_error *error) {
  int found = disk_look();
  if (found == 0) found = find_directory(store, path);
  if (found < 0 && found != -ENOENT && found != -ENOTDIR) return fail_system(-found, "looking at the directory", error);
  *stamp = (tsr_stamp){.known = true, .a = found < 0 ? 0 : 1 + (uint64_t)found};
  if (found >= 0) stamp->b = disk_changes(disk_now, found);
  return TSR_OK;
}

static int modified(tsr_store *store, const char *path, uint64_t *milliseconds, tsr_error *error) {
  int found = disk_look();
  if (found == 0) found = disk_find(disk_now, join(store, path).text, NULL);
  if (found < 0) return fail_system(-found, "looking at the file", error);
  *milliseconds = disk_modified(disk_now, found);
  return TSR_OK;
}

static int sync_directory(tsr_store *store, const char *path, tsr_error *error) {
  int found = find_directory(store, path);
  if (found >= 0) found = disk_sync(disk_now, found);
  return found < 0 ? fail_system(-found, "syncing the directory", error) : TSR_OK;
}

/* Makes the missing parents, and syncs the parent of each, as store_posix.c does. */
static int make_root(char *text) {
  int code = 0;
  for (char *slash = strchr(text + 1, '/'); code >= 0; slash = strchr(slash + 1, '/')) {
    if (slash) *slash = 0;
    code = slash && disk_find(disk_now, text, NULL) >= 0 ? -EEXIST : disk_make(disk_now, text, true);
    if (code >= 0) {
      char *last = strrchr(text, '/');
      *last = 0;
      code = disk_sync(disk_now, disk_find(disk_now, text, NULL));
      *last = '/';
    }
    if (!slash) break;
    if (code == -EEXIST) code = 0;
    *slash = '/';
  }
  return code;
}

static int make_directory(tsr_store *store, const char *path, tsr_error *error) {
  full_path full = join(store, path);
  int code = *path ? disk_make(disk_now, full.text, true) : make_root(full.text);
  return code < 0 ? fail_system(-code, "making the directory", error) : TSR_OK;
}

static int remove_path(tsr_store *store, const char *path, tsr_error *error) {
  int code = disk_remove(disk_now, join(store, path).text);
  return code < 0 ? fail_system(-code, "removing", error) : TSR_OK;
}

static int move(tsr_store *store, const char *from, const char *to, bool exclusive, tsr_error *error) {
  int code = disk_rename(disk_now, join(store, from).text, join(store, to).text, exclusive);
  return code < 0 ? fail_system(-code, "renaming", error) : TSR_OK;
}

static int rename_path(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return move(store, from, to, false, error);
}

static int rename_exclusive(tsr_store *store, const char *from, const char *to, tsr_error *error) {
  return move(store, from, to, true, error);
}

static int exchange_paths(tsr_store *store, const char *one, const char *other, tsr_error *error) {
  int code = disk_exchange(disk_now, join(store, one).text, join(store, other).text);
  return code < 0 ? fail_system(-code, "exchanging", error) : TSR_OK;
}

/* ---- The store --------------------------------------------------------------------------------------------------- */

static void close_store(tsr_store *store) { tsr__free(store); }

#define METHODS                                                                                                        \
  .close = close_store, .open_file = open_file, .close_file = close_file, .read_at = read_at, .list = list,            \
  .stamp = stamp_directory, .modified = modified, .create_exclusive = create_exclusive, .append = append,              \
  .sync = sync_file, .sync_directory = sync_directory, .rename = rename_path, .rename_exclusive = rename_exclusive,    \
  .exchange = exchange_paths, .remove = remove_path, .make_directory = make_directory
static const tsr_store_methods disk_methods = {METHODS};
static const tsr_store_methods locking_methods = {METHODS, .lock = lock_file, .locked = is_locked};

int __real_tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);
int __wrap_tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error);
int __wrap_tsr__store_directory_open(tsr_memory *memory, const char *path, tsr_store **store, tsr_error *error) {
  if (!disk_is_path(path)) return __real_tsr__store_directory_open(memory, path, store, error);
  size_t size = strlen(path) + 1;
  void *block;
  TSR_TRY(tsr__alloc_zero(memory, sizeof(disk_store) + 2 * size, &block, error));
  disk_store *s = block;
  s->base.methods = disk_machines_now && disk_machines_now->locks ? &locking_methods : &disk_methods;
  s->base.memory = memory;
  s->base.workers_may_read = true;
  s->base.name = (char *)(s + 1);
  s->root = s->base.name + size;
  memcpy(s->base.name, path, size);
  memcpy(s->root, path, size);
  for (size_t length = size - 1; length > 0 && s->root[length - 1] == '/';) s->root[--length] = 0;
  *store = &s->base;
  return TSR_OK;
}

/* The identity of a database file on this disk survives a crash. */
int __real_tsr_file_identity(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error);
int __wrap_tsr_file_identity(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error);
int __wrap_tsr_file_identity(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error) {
  if (!disk_is_path(file)) return __real_tsr_file_identity(file, place, error);
  const int code = tsr_owner_next(file, "disk", place, error);
  return code < 0 ? code : 1;
}

/* ---- The system -------------------------------------------------------------------------------------------------- */

char *__real_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved);
char *__wrap_realpath(const char *path, char *resolved) {
  if (!disk_is_path(path)) return __real_realpath(path, resolved);
  if (disk_find(disk_now, path, NULL) >= 0) return strdup(path); /* there are no links on this disk */
  errno = ENOENT;
  return NULL;
}

static _Atomic int64_t nanoseconds;
void disk_clock_set(int64_t milliseconds) { nanoseconds = milliseconds * 1000000; }

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
  const int64_t now = disk_machines_now ? disk_machines_now->clock(clock != CLOCK_REALTIME)
                                        : atomic_fetch_add(&nanoseconds, 1000) + 1000;
  *time = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
  return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest) {
  const int64_t passed = time->tv_sec * 1000000000 + time->tv_nsec;
  if (disk_machines_now) disk_machines_now->sleep(passed);
  else nanoseconds += passed;
  return 0;
}

static _Atomic uint64_t random_state;
void disk_random_seed(uint64_t seed) { random_state = seed; }

void disk_random(void *bytes, size_t size) {
  uint8_t *to = bytes;
  for (size_t i = 0; i < size; i++) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    to[i] = (uint8_t)(random_state >> 56);
  }
}

int __wrap_tsr__random(void *bytes, uint64_t size, tsr_error *error);
int __wrap_tsr__random(void *bytes, uint64_t size, tsr_error *error) {
  disk_random(bytes, size);
  return TSR_OK;
}

/* zstd executes CPUID whenever a decoder is made. On virtual machines that takes longer than decoding most tiles, so
 * decoders are reused here. */
static struct {
  pthread_mutex_t mutex;
  ZSTD_DCtx *spare[16];
  unsigned count;
} decoders = {.mutex = PTHREAD_MUTEX_INITIALIZER};

ZSTD_DCtx *__real_ZSTD_createDCtx(void);
size_t __real_ZSTD_freeDCtx(ZSTD_DCtx *decoder);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void) {
  pthread_mutex_lock(&decoders.mutex);
  ZSTD_DCtx *decoder = decoders.count ? decoders.spare[--decoders.count] : NULL;
  pthread_mutex_unlock(&decoders.mutex);
  return decoder ? decoder : __real_ZSTD_createDCtx();
}

size_t __wrap_ZSTD_freeDCtx(ZSTD_DCtx *decoder);
size_t __wrap_ZSTD_freeDCtx(ZSTD_DCtx *decoder) {
  if (!decoder) return 0;
  ZSTD_DCtx_reset(decoder, ZSTD_reset_session_and_parameters);
  pthread_mutex_lock(&decoders.mutex);
  const bool kept = decoders.count < sizeof decoders.spare / sizeof *decoders.spare;
  if (kept) decoders.spare[decoders.count++] = decoder;
  pthread_mutex_unlock(&decoders.mutex);
  return kept ? 0 : __real_ZSTD_freeDCtx(decoder);
}
