/* environment.c: state that all arrays of a host share: memory, cancellation, counters, stores, bounds, rowids, commit
 * times and progress.
 *
 * Rowids. Every fragment (and the never-written cells of a dense array) gets the next free range of 63-bit rowids when
 * it is first seen. Ranges are remembered by array path and fragment name until the environment is closed, so a cell
 * keeps its rowid while arrays are closed and opened again. No range is reused.
 *
 * Sections: open and close; bounds (of the host, a directory, a bucket); stores; counters; rowids and time; progress.
 */
#include "environment/environment.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pthread.h>
#include <stdio.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "base/uri.h"
#include "base/pool.h"
#include "base/system.h"
#include "store/store_bounds.h"
#include "store/store.h"
#include "filter/compressors.h"

#define FIRST_ROW        1
#define FILES_KEPT_PART  16u /* one environment keeps 1/16 of the process's file limit open while idle, within: */
#define FILES_KEPT_LEAST 2u
#define FILES_KEPT_MOST  64u
#define FILES_USED_PART  8u /* one load of tiles has 1/8 of the limit open at the same time, within: */
#define FILES_USED_LEAST 8u
#define FILES_USED_MOST  1024u
#define LAST_ROW         ((uint64_t)INT64_MAX)

typedef struct row_range {
  int64_t first;
  uint64_t rows;
  char key[]; /* path, newline, name */
} row_range;

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

static void *reallocate_environment(const tsr_environment_options *options, void *pointer, uint64_t size) {
  if (options->reallocate) return options->reallocate(options->reallocate_argument, pointer, size);
  if (size > 0) return realloc(pointer, size);
  free(pointer);
  return NULL;
}

/* Each environment takes only a small part of the process's open-file limit: there may be many connections, and the
 * host needs files, too. */
static void find_file_limits(tsr_environment *environment) {
  const uint64_t limit = tsr__open_files_limit();
  environment->files_kept = TSR_MIN(TSR_MAX(limit / FILES_KEPT_PART, FILES_KEPT_LEAST), FILES_KEPT_MOST);
  environment->files_used = TSR_MIN(TSR_MAX(limit / FILES_USED_PART, FILES_USED_LEAST), FILES_USED_MOST);
}

int tsr_environment_open(const tsr_environment_options *options, tsr_environment **environment, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_environment_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_environment_options, permits_argument, options, &own, error));
  options = &own;
  /* this block is in no budget: the root tsr_memory is inside it */
  tsr_environment *e = reallocate_environment(options, NULL, sizeof *e);
  if (!e) return tsr__fail(error, TSR_NOMEM, "%zu bytes of memory requested for an environment", sizeof *e);
  memset(e, 0, sizeof *e);
  tsr__memory_init_root(&e->memory, options->reallocate, options->reallocate_argument);
  if (options->largest_block) e->memory.largest = options->largest_block;
  e->memory.cancel.requested = options->interrupted;
  e->memory.cancel.argument = options->interrupted_argument;
  e->memory.contexts = &e->contexts;
  tsr__spare_blocks_init(&e->spares, tsr__huge_pages());
  e->memory.spares = &e->spares;
  e->single_threaded = options->single_threaded;
  e->permits = options->permits;
  e->permits_argument = options->permits_argument;
  find_file_limits(e);
  e->next_row = FIRST_ROW;
  e->next_fragment = 1;
  e->row_ranges.memory = &e->memory;
  for (size_t i = 0; i < sizeof e->counters / sizeof e->counters[0]; i++) atomic_init(&e->counters[i], 0);
  *environment = e;
  return TSR_OK;
}

void tsr_environment_close(tsr_environment *environment) {
  if (!environment) return;
  while (environment->schemes) {
    tsr_scheme *scheme = environment->schemes;
    environment->schemes = scheme->next;
    tsr__free(scheme);
  }
  for (uint64_t i = 0; i < environment->row_ranges.count; i++) tsr__free(environment->row_ranges.entries[i].value);
  tsr__map_release(&environment->row_ranges);
  tsr__bucket_scopes_close(environment->scopes);
  tsr__free(environment->bucket_bound);
  tsr__bounds_release(&environment->bounds);
  tsr__context_pool_release(&environment->memory);
  atomic_flag_clear(&environment->spares.regions.busy); /* a fork may have left the thread behind that held it */
  tsr__spare_blocks_release(&environment->memory);
  environment->memory.reallocate(environment->memory.argument, environment, 0);
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------ */

/* Returns true if the path is `bound` or below it, comparing whole components. At least one of them is a URI. */
static bool uri_lies_below(const char *path, const char *bound) {
  const char *scheme = tsr__uri_scheme(path, &path), *other = tsr__uri_scheme(bound, &bound);
  if (!scheme || !other || strcmp(scheme, other) != 0) return false;
  size_t length = strlen(bound);
  while (length > 0 && bound[length - 1] == '/') length--;
  return strncmp(path, bound, length) == 0 && (!path[length] || path[length] == '/');
}

static int environment_scopes(tsr_environment *environment, tsr_bucket_scopes **scopes, tsr_error *error) {
  if (!environment->scopes) TSR_TRY(tsr__bucket_scopes_open(&environment->memory, &environment->scopes, error));
  *scopes = environment->scopes;
  return TSR_OK;
}

static int confine_to_bucket(tsr_environment *environment, const char *uri, tsr_error *error) {
  tsr_bucket_scopes *scopes;
  char *copy;
  TSR_TRY(tsr__uri_unsigned(uri, error));
  if (tsr__bounds_get(&environment->bounds))
    return tsr__fail(error, TSR_PERM, "%s: the connection is bound to a directory", uri);
  if (environment->bucket_bound && !uri_lies_below(uri, environment->bucket_bound))
    return tsr__fail(error, TSR_PERM, "%s is not below %s", uri, environment->bucket_bound);
  TSR_TRY(environment_scopes(environment, &scopes, error));
  TSR_TRY(tsr__uri_copy(&environment->memory, uri, &copy, error));
  const int rc = tsr__bucket_scopes_confine(scopes, uri, error);
  if (rc < 0) return tsr__free(copy), rc;
  tsr__free(environment->bucket_bound);
  environment->bucket_bound = copy;
  return TSR_OK;
}

int tsr__environment_permits(tsr_environment *environment, const char *path, tsr_error *error) {
  const bool remote = tsr__is_remote(path);
  if (environment->permits) TSR_TRY(environment->permits(environment->permits_argument, path, error));
  if (environment->bucket_bound && (!remote || !uri_lies_below(path, environment->bucket_bound)))
    return tsr__fail(error, TSR_PERM, "%s is outside %s, to which tessera_restrict has bound this connection", path,
                     environment->bucket_bound);
  const tsr_bound *bound = tsr__bounds_get(&environment->bounds);
  if (!remote) return tsr__bound_permits(bound, &environment->memory, path, NULL, error);
  return bound ? tsr__fail(error, TSR_PERM, "%s: tessera_restrict has bound this connection to a directory", path)
               : TSR_OK;
}

int tsr_environment_configure(tsr_environment *environment, const char *scope, const tsr_scope_options *options,
                              tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_bucket_scopes *scopes;
  tsr_scope_options own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_scope_options, refresh_ms, options, &own, error));
  TSR_TRY(environment_scopes(environment, &scopes, error));
  return options ? tsr__bucket_scopes_set(scopes, scope, &own, error) : tsr__bucket_scopes_forget(scopes, scope, error);
}

int tsr_environment_confine(tsr_environment *environment, const char *directory, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *resolved = NULL;
  if (tsr__is_remote(directory)) return confine_to_bucket(environment, directory, error);
  if (environment->bucket_bound)
    return tsr__fail(error, TSR_PERM, "%s: the connection is bound to %s", directory, environment->bucket_bound);
  if (!*directory) return tsr__fail(error, TSR_NOT_FOUND, "no such directory: ''");
  TSR_TRY(tsr_path_permitted(environment, directory, error)); /* before touching the file system */
  int rc = tsr__path_resolve(&environment->memory, directory, &resolved, error);
  if (rc >= 0) rc = tsr_path_permitted(environment, resolved, error);
  if (rc >= 0) rc = tsr__bounds_set(&environment->bounds, &environment->memory, resolved, error);
  if (rc == TSR_NOT_FOUND) (void)tsr__fail(error, rc, "no such directory: %s", directory);
  tsr__free(resolved);
  return rc;
}

int tsr_path_lies_below(tsr_environment *environment, const char *path, const char *directory, tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *inner = NULL, *outer = NULL;
  if (tsr__is_remote(path) || tsr__is_remote(directory)) return uri_lies_below(path, directory);
  TSR_TRY(tsr_path_permitted(environment, directory, error));
  int rc = tsr__path_resolve(&environment->memory, path, &inner, error);
  if (rc >= 0) rc = tsr__path_resolve(&environment->memory, directory, &outer, error);
  if (rc >= 0) rc = tsr__path_is_below(inner, outer);
  tsr__free(inner);
  tsr__free(outer);
  return rc;
}

static int read_file(tsr_store *store, const char *name, void *bytes, uint64_t room, uint64_t *size, tsr_error *error) {
  tsr_file *file;
  TSR_TRY(tsr__store_open_file(store, name, &file, error));
  const uint64_t found = TSR_MIN(file->size, room);
  const int rc = tsr__store_read_at(file, 0, bytes, found, error);
  if (rc >= 0) *size = found;
  tsr__store_close_file(file);
  return rc;
}

int tsr_file_read(tsr_environment *environment, const char *path, void *bytes, uint64_t room, uint64_t *size,
                  tsr_error *error) {
  TSR_OWN_ERROR(error);
  char *resolved = NULL, *directory = NULL;
  tsr_store *store;
  TSR_TRY(tsr_path_permitted(environment, path, error)); /* before touching the file system */
  /* resolve links, so that the file itself is checked and opened */
  int rc = tsr__path_resolve(&environment->memory, path, &resolved, error);
  if (rc >= 0) rc = tsr_path_permitted(environment, resolved, error);
  if (rc >= 0) rc = tsr__bounds_text(&environment->memory, resolved, "", "", &directory, error);
  const char *name = rc >= 0 ? strrchr(resolved, '/') : NULL;
  if (name) directory[TSR_MAX((size_t)(name - resolved), tsr__path_root(resolved))] = 0;
  if (rc >= 0) rc = tsr__directory_open(environment, directory, &store, error);
  if (rc >= 0) {
    rc = read_file(store, name + 1, bytes, room, size, error);
    tsr__store_close(store);
  }
  tsr__free(directory);
  tsr__free(resolved);
  return rc;
}

/* ---- Stores ------------------------------------------------------------------------------------------------------ */

int tsr_environment_add_store(tsr_environment *environment, const char *scheme, const tsr_host_store *store,
                              void *argument, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_scheme *added;
  TSR_TRY(TSR_ALLOC(&environment->memory, &added, error));
  *added = (tsr_scheme){environment->schemes, scheme, store, argument};
  environment->schemes = added;
  return TSR_OK;
}

bool tsr__path_is_directory(const tsr_environment *environment, const char *path) {
  return !tsr__environment_scheme(environment, path) && !tsr__is_remote(path);
}

const tsr_scheme *tsr__environment_scheme(const tsr_environment *environment, const char *path) {
  for (const tsr_scheme *scheme = environment->schemes; scheme; scheme = scheme->next) {
    size_t length = strlen(scheme->name);
    if (strncmp(path, scheme->name, length) == 0 && path[length] == ':') return scheme;
  }
  return NULL;
}

/* ---- Counters ---------------------------------------------------------------------------------------------------- */

void tsr_environment_counters(const tsr_environment *environment, tsr_counters *counters) {
  uint64_t values[sizeof environment->counters / sizeof environment->counters[0]];
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
    values[i] = atomic_load_explicit(&environment->counters[i], memory_order_relaxed);
  for (const tsr_store_counted *c = environment->stores; c; c = c->next) {
    values[TSR_COUNT_files_opened] += c->store->files_opened - c->files;
    values[TSR_COUNT_bytes_read] += c->store->bytes_read - c->bytes;
    values[TSR_COUNT_directories_listed] += c->store->directories_listed - c->directories;
  }
  if (environment->scopes) {
    const tsr_bucket_counters *c = tsr__bucket_scopes_counters(environment->scopes);
    values[TSR_COUNT_store_gets] = c->gets;
    values[TSR_COUNT_store_heads] = c->heads;
    values[TSR_COUNT_store_lists] = c->lists;
    values[TSR_COUNT_store_puts] = c->puts;
    values[TSR_COUNT_store_deletes] = c->deletes;
    values[TSR_COUNT_store_retries] = c->retries;
    values[TSR_COUNT_store_round_trips] = c->round_trips;
    values[TSR_COUNT_store_bytes_sent] = c->bytes_sent;
  }
#define X(name) counters->name = values[TSR_COUNT_##name];
  TSR_COUNTERS(X)
#undef X
}

void tsr__count_store(tsr_environment *environment, tsr_store_counted *counted, const tsr_store *store) {
  *counted = (tsr_store_counted){environment->stores, store, store->files_opened, store->bytes_read,
                                 store->directories_listed};
  environment->stores = counted;
}

void tsr__count_store_end(tsr_environment *environment, tsr_store_counted *counted) {
  tsr_store_counted **link = &environment->stores;
  while (*link && *link != counted) link = &(*link)->next;
  if (*link) *link = counted->next;
  tsr__count(environment, TSR_COUNT_files_opened, counted->store->files_opened - counted->files);
  tsr__count(environment, TSR_COUNT_bytes_read, counted->store->bytes_read - counted->bytes);
  tsr__count(environment, TSR_COUNT_directories_listed, counted->store->directories_listed - counted->directories);
}

void tsr_environment_reset_counters(tsr_environment *environment) {
  for (size_t i = 0; i < sizeof environment->counters / sizeof environment->counters[0]; i++)
    atomic_store_explicit(&environment->counters[i], 0, memory_order_relaxed);
  for (tsr_store_counted *c = environment->stores; c; c = c->next) {
    c->files = c->store->files_opened;
    c->bytes = c->store->bytes_read;
    c->directories = c->store->directories_listed;
  }
  if (!environment->scopes) return;
  tsr_bucket_counters *c = tsr__bucket_scopes_counters(environment->scopes);
#define X(name) atomic_store_explicit(&c->name, 0, memory_order_relaxed);
  TSR_BUCKET_COUNTERS(X)
#undef X
}

void tsr_environment_count_rows(tsr_environment *environment, uint64_t rows) {
  tsr__count(environment, TSR_COUNT_rows_returned, rows);
}

void tsr_environment_count_changes(tsr_environment *environment, uint64_t compared, uint64_t found) {
  tsr__count(environment, TSR_COUNT_keys_compared, compared);
  tsr__count(environment, TSR_COUNT_changes_found, found);
}

void tsr_environment_count_part(tsr_environment *environment, bool by_columns) {
  tsr__count(environment, by_columns ? TSR_COUNT_parts_by_columns : TSR_COUNT_parts_by_rows, 1);
}

/* ---- Rowids and time --------------------------------------------------------------------------------------------- */

int tsr__environment_rows(tsr_environment *environment, const char *path, const char *name, uint64_t rows,
                          int64_t *first, tsr_error *error) {
  uint64_t path_size = strlen(path), name_size = strlen(name);
  row_range *range;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&environment->memory, sizeof(row_range) + path_size + name_size + 2, &range, error));
  memcpy(range->key, path, path_size);
  range->key[path_size] = '\n';
  memcpy(range->key + path_size + 1, name, name_size + 1);

  int rc = TSR_OK;
  row_range *known = tsr__map_get(&environment->row_ranges, range->key);
  if (known && known->rows >= rows) {
    *first = known->first;
    tsr__free(range);
    return TSR_OK;
  }
  /* unknown, or a known fragment that has grown: then another array has replaced the one at this path */
  range->first = (int64_t)environment->next_row;
  range->rows = rows;
  if (rows > LAST_ROW - environment->next_row)
    rc = tsr__fail(error, TSR_RANGE, "no rowids are left for %llu cells", (unsigned long long)rows);
  else rc = tsr__map_put(&environment->row_ranges, range->key, range, error);
  if (rc < 0) {
    tsr__free(range);
    return rc;
  }
  tsr__free(known);
  environment->next_row += rows;
  *first = range->first;
  return TSR_OK;
}

uint64_t tsr__environment_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t tsr__environment_present(const tsr_environment *environment) {
  const uint64_t now = tsr__environment_now(), last = environment->last_commit;
  return last > now && last < now + TSR_TIME_AHEAD ? last : now;
}

int tsr__environment_time(tsr_environment *environment, uint64_t after, uint64_t more, uint64_t *time,
                          tsr_error *error) {
  uint64_t now = tsr__environment_now(), chosen = now;
  if (after >= chosen && after < now + TSR_TIME_AHEAD) chosen = after + 1;
  if (environment->last_commit >= chosen && environment->last_commit < now + TSR_TIME_AHEAD)
    chosen = environment->last_commit + 1;
  for (uint64_t seen = now; now < chosen + more && now >= seen;) { /* stop if the clock is set back meanwhile */
    const struct timespec moment = {.tv_nsec = 200000};
    nanosleep(&moment, NULL);
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    seen = now;
    now = tsr__environment_now();
  }
  environment->last_commit = chosen + more;
  *time = chosen;
  return TSR_OK;
}

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

/* The process-wide registry of running operations, for tessera_progress; its size is fixed.
 *
 * An operation has a slot from its beginning to its end. Slots are taken, released and read under the mutex. Only the
 * operation's thread writes `done` and `total`, without the mutex, once per window of tiles or block of bytes. After a
 * fork the child starts with an empty registry, since the parent's operations continue in the parent.
 * Invariant: the `serial` of a slot is 0 or that of the operation that has it; serials are never reused.
 */

typedef struct progress_slot {
  uint64_t serial; /* 0: free */
  tsr_progress entry; /* except done and total */
  _Atomic uint64_t done, total;
} progress_slot;

static struct {
  _Atomic uint64_t state;
  pthread_mutex_t mutex;
  uint64_t serial; /* the last one given */
  progress_slot slots[TSR_PROGRESS_MAX];
} progress_registry;

static void progress_lock(void) {
  if (tsr__process_enter(&progress_registry.state)) {
    pthread_mutex_init(&progress_registry.mutex, NULL);
    for (int i = 0; i < TSR_PROGRESS_MAX; i++) progress_registry.slots[i].serial = 0;
    tsr__process_made(&progress_registry.state);
  }
  pthread_mutex_lock(&progress_registry.mutex);
}

static void progress_unlock(void) { pthread_mutex_unlock(&progress_registry.mutex); }

/* Returns the slot of an operation, or NULL. Needs no mutex: only the operation's own thread changes the serial, or the
 * child after a fork. */
static progress_slot *progress_slot_of(const tsr_work *work) {
  return work && work->slot >= 0 && progress_registry.slots[work->slot].serial == work->serial
             ? &progress_registry.slots[work->slot]
             : NULL;
}

static void set_path(tsr_progress *entry, const char *path) {
  const size_t size = strlen(path), most = sizeof entry->path - 1;
  const char *from = path;
  if (size > most) { /* keep the end of the path, starting at a UTF-8 character */
    from = path + (size - (most - 3));
    while ((*from & 0xC0) == 0x80) from++;
  }
  snprintf(entry->path, sizeof entry->path, "%s%s", from == path ? "" : "...", from);
}

void tsr_work_begin(tsr_environment *environment, tsr_work *work, const char *operation, const char *path,
                    uint64_t total) {
  *work = (tsr_work){.outer = environment->work, .slot = -1};
  environment->work = work;
  progress_lock();
  for (int i = 0; i < TSR_PROGRESS_MAX && work->slot < 0; i++) {
    progress_slot *s = &progress_registry.slots[i];
    if (s->serial) continue;
    work->slot = i;
    s->serial = work->serial = ++progress_registry.serial;
    s->entry = (tsr_progress){.started = tsr__environment_now()};
    snprintf(s->entry.operation, sizeof s->entry.operation, "%s", operation);
    set_path(&s->entry, path);
    atomic_store_explicit(&s->done, 0, memory_order_relaxed);
    atomic_store_explicit(&s->total, total, memory_order_relaxed);
  }
  progress_unlock();
}

void tsr_work_end(tsr_environment *environment, tsr_work *work) {
  environment->work = work->outer;
  if (work->slot < 0) return;
  progress_lock();
  progress_slot *s = progress_slot_of(work);
  if (s) s->serial = 0;
  progress_unlock();
}

void tsr__work_reach(tsr_environment *environment, uint64_t done) {
  progress_slot *s = progress_slot_of(environment->work);
  if (s && done > atomic_load_explicit(&s->done, memory_order_relaxed))
    atomic_store_explicit(&s->done, done, memory_order_relaxed);
}

void tsr_work_done(tsr_environment *environment, uint64_t more) {
  const progress_slot *s = progress_slot_of(environment->work);
  if (s) tsr__work_reach(environment, tsr__add_sat(atomic_load_explicit(&s->done, memory_order_relaxed), more));
}

void tsr__work_more(tsr_environment *environment, uint64_t total) {
  progress_slot *s = progress_slot_of(environment->work);
  if (s)
    atomic_store_explicit(&s->total, tsr__add_sat(atomic_load_explicit(&s->total, memory_order_relaxed), total),
                          memory_order_relaxed);
}

uint64_t tsr_progress_list(tsr_progress *entries, uint64_t room) {
  uint64_t count = 0, last = 0;
  progress_lock();
  while (count < room) { /* in the order in which the operations began */
    const progress_slot *next = NULL;
    for (int i = 0; i < TSR_PROGRESS_MAX; i++) {
      const progress_slot *s = &progress_registry.slots[i];
      if (s->serial > last && (!next || s->serial < next->serial)) next = s;
    }
    if (!next) break;
    last = next->serial;
    entries[count] = next->entry;
    entries[count].total = atomic_load_explicit(&next->total, memory_order_relaxed);
    entries[count].done = atomic_load_explicit(&next->done, memory_order_relaxed);
    if (entries[count].done > entries[count].total) entries[count].done = entries[count].total;
    count++;
  }
  progress_unlock();
  return count;
}
