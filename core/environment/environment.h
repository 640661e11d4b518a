/* environment.h: state that all arrays of a host share: memory, cancellation, counters, stores, bounds, rowids, commit
 * times, progress. A host opens one environment (each SQLite connection has its own), and opens arrays and groups from
 * it. One thread at a time uses it; worker threads only allocate memory and increment counters.
 *
 * Sections: environment.c; path.c, which opens the store that a path names. cache.h has the cache of decoded tiles. */
#ifndef TSR_ENVIRONMENT_ENVIRONMENT_H
#define TSR_ENVIRONMENT_ENVIRONMENT_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/pool.h"
#include "remote/bucket.h"
#include "store/store.h"
#include "filter/compressors.h"
#include "filter/filter.h"
#include "tessera_host.h"

#define TSR_HOLDER_SIZE 33 /* bytes: 32 hex digits and a NUL */

/* ---- environment.c: the environment ------------------------------------------------------------------------------ */

/* A store that keeps its own counters: their values when they were last added to the environment's, or reset. */
typedef struct tsr_store_counted {
  struct tsr_store_counted *next; /* in environment->stores */
  const tsr_store *store;
  uint64_t files, bytes, directories;
} tsr_store_counted;

struct tsr_environment {
  tsr_memory memory; /* root of all memory budgets */
  tsr_context_pool contexts; /* idle codec contexts; `memory` points here */
  tsr_spare_blocks spares; /* freed blocks that wait for their next use; `memory` points here */
  bool single_threaded; /* never use worker threads */
  int (*permits)(void *argument, const char *path, tsr_error *error); /* asks the host; NULL: all paths are permitted */
  void *permits_argument;
  _Atomic uint64_t counters[sizeof(tsr_counters) / sizeof(uint64_t)];
  uint64_t files_kept; /* most idle files that stay open, of all arrays together */
  uint64_t files_used; /* most files that one load of tiles has open at the same time */
  uint64_t next_row; /* first rowid that belongs to no fragment; less than 2^63 */
  tsr_map row_ranges; /* array path and fragment name -> its range of rowids; kept until the environment is closed */
  uint64_t next_fragment; /* the next tsr_fragment.id */
  uint64_t metadata_changes; /* of arrays, by this environment: CHECK constraints that a writer has read may be stale */
  uint64_t last_commit; /* time of the last prepared commit, in milliseconds since 1970; the next one must be later */
  struct tsr_scheme *schemes; /* the host's stores */
  tsr_bounds bounds; /* the directory that stores may not leave, if any */
  tsr_bucket_scopes *scopes; /* of buckets, owned; NULL: none was declared */
  char *bucket_bound; /* "s3://..." that stores may not leave, owned; NULL: no such bound */
  tsr_array *arrays; /* open arrays; array/ maintains this list */
  bool (*make_room)(
      tsr_environment *environment); /* set by array/: closes idle files; false: there are none. NULL: no array yet */
  tsr_store_counted *stores; /* of open arrays; they count files and bytes themselves */
  char lease_holder[TSR_HOLDER_SIZE]; /* names this environment in leases; "" until it is needed */
  struct tsr_turn *turns; /* turns held by writers (log.h) */
  tsr_work *work; /* innermost operation whose progress is reported, or NULL (environment.c) */
};

typedef struct tsr_scheme { /* a store of the host's, for paths that begin with NAME: */
  struct tsr_scheme *next;
  const char *name; /* borrowed */
  const tsr_host_store *host;
  void *argument;
} tsr_scheme;

/* Returns the scheme with which a path begins, or NULL. */
const tsr_scheme *tsr__environment_scheme(const tsr_environment *environment, const char *path);

/* Fails with TSR_PERM if the host or a bound forbids opening `path`: a plain path of a directory, or an s3:// path. */
int tsr__environment_permits(tsr_environment *environment, const char *path, tsr_error *error);

/* Returns true if a path names a directory of the file system, not a store of the host or a bucket. */
bool tsr__path_is_directory(const tsr_environment *environment, const char *path);

typedef enum tsr_counter {
#define X(name) TSR_COUNT_##name,
  TSR_COUNTERS(X)
#undef X
} tsr_counter;

static inline void tsr__count(tsr_environment *environment, tsr_counter counter, uint64_t n) {
  atomic_fetch_add_explicit(&environment->counters[counter], n, memory_order_relaxed);
}

/* Gives the first of `rows` rowids for the fragment `name` of the array at `path`. The range stays the same until the
 * environment is closed, and no other fragment ever gets a rowid in it. Returns TSR_RANGE when all 63-bit rowids are
 * used up. */
int tsr__environment_rows(tsr_environment *environment, const char *path, const char *name, uint64_t rows,
                          int64_t *first, tsr_error *error);
uint64_t tsr__environment_now(void); /* milliseconds since 1970 */

#define TSR_TIME_AHEAD 2000 /* ms; ignore times further ahead: the clock has been set back since */

/* Returns the present as readers see it: the clock, or the time of this environment's last commit if that is less than
 * two seconds ahead. So a clock that is set back a little does not hide that commit. */
uint64_t tsr__environment_present(const tsr_environment *environment);

/* Gives a time for a commit: the present, but later than `after` and than all times given before. Waits until the clock
 * has reached *time + more: the `more` milliseconds after that time belong to the commit, too. Times are in
 * milliseconds since 1970; an earlier time that is two seconds or more ahead of the clock is ignored. */
int tsr__environment_time(tsr_environment *environment, uint64_t after, uint64_t more, uint64_t *time,
                          tsr_error *error);

/* Progress of the environment's innermost operation. The public functions are tsr_work_begin, tsr_work_done and
 * tsr_work_end of tessera_host.h, and tsr_progress_list of tessera.h. */

/* Adds `total` to the amount of work of the innermost operation. */
void tsr__work_more(tsr_environment *environment, uint64_t total);

/* Raises the innermost operation's completed work, counted from its beginning, to at least `done`. */
void tsr__work_reach(tsr_environment *environment, uint64_t done);

/* Includes the store's counters in the environment's, from their present values on, until tsr__count_store_end. */
void tsr__count_store(tsr_environment *environment, tsr_store_counted *counted, const tsr_store *store);
void tsr__count_store_end(tsr_environment *environment, tsr_store_counted *counted);

/* ---- path.c: opens the store that a path names ------------------------------------------------------------------- */

/* Opens the store that `text` names: a directory (a path, or a file:// URI, whose percent-escapes are decoded), a
 * bucket (s3://), or a tree of one of the host's stores. *path: the directory or tree, without URI syntax and without
 * trailing slashes; the caller frees it (tsr__free) and closes the store. `noun` names the object in messages:
 * "array". */
int tsr__path_open(tsr_environment *environment, const char *noun, const char *text, char **path, tsr_store **store,
                   tsr_error *error);

/* Opens the store of a directory, confined to the environment's bound. */
int tsr__directory_open(tsr_environment *environment, const char *directory, tsr_store **store, tsr_error *error);

/* Opens the store of a directory below an array at `path`, and sets `full`, which must be empty, to that directory's
 * path with a NUL. TSR_PERM: `below` is not a path within the array. */
int tsr__store_open_below(tsr_environment *environment, const char *path, const char *below, tsr_buffer *full,
                          tsr_store **store, tsr_error *error);

#endif
