/* environment.h: state that all arrays of a host share: allocator, cancellation, counters, stores, the bound of
 * directories, ranges of rowids, and times of commits. */
#ifndef TSR_ENVIRONMENT_H
#define TSR_ENVIRONMENT_H

#include <stdatomic.h>

#include "base/map.h"
#include "base/pool.h"
#include "remote/s3.h"
#include "store/store.h"
#include "filter/compressors.h"
#include "filter/filter.h"

#define TSR_HOLDER_SIZE 33 /* bytes: 32 hex digits and a NUL */

struct tsr_environment {
  tsr_memory memory; /* root of all memory budgets */
  tsr_context_pool contexts; /* idle codec contexts; `memory` points here */
  bool single_threaded; /* no worker threads are used */
  int (*permits)(void *argument, const char *path, tsr_error *error);
  void *permits_argument;
  _Atomic uint64_t counters[sizeof(tsr_counters) / sizeof(uint64_t)];
  uint64_t files_kept; /* files that stay open while no one uses them, of all arrays together */
  uint64_t files_used; /* files that one load of tiles keeps open at one time */
  uint64_t next_row; /* first rowid that belongs to no fragment; less than 2^63 */
  tsr_map row_ranges; /* array path and fragment name -> its range of rowids; kept until the environment is closed */
  uint64_t next_fragment; /* the next tsr_fragment.id */
  uint64_t last_commit; /* time of the last prepared commit, in milliseconds since 1970; the next one's is later */
  struct tsr_scheme *schemes; /* the host's stores */
  tsr_bounds bounds; /* the directory that stores may not leave, if there is one */
  tsr_s3_scopes *scopes; /* of buckets, owned; NULL: none was declared */
  char *bucket_bound; /* "s3://..." that stores may not leave, owned; NULL: no such bound */
  tsr_array *arrays; /* open arrays: their stores count files and bytes */
  char lease_holder[TSR_HOLDER_SIZE]; /* names this environment in leases; "" until it is needed */
  struct tsr_turn *turns; /* that writers have (write_turn.h) */
  tsr_work *work; /* innermost operation whose progress is reported, or NULL (progress.c) */
};

typedef struct tsr_scheme { /* a store of the host's, for paths that begin with NAME: */
  struct tsr_scheme *next;
  const char *name; /* borrowed */
  const tsr_host_store *host;
  void *argument;
} tsr_scheme;

/* Returns the scheme with which a path begins, or NULL. */
const tsr_scheme *tsr__environment_scheme(const tsr_environment *environment, const char *path);

/* Fails with TSR_PERM if the host or a bound does not permit to open `path`: a plain path of a directory, or an s3://
 * path. */
int tsr__environment_permits(tsr_environment *environment, const char *path, tsr_error *error);

/* Returns true if a path leads to a directory of the file system, not to a store of the host or to a bucket. */
bool tsr__path_is_directory(const tsr_environment *environment, const char *path);

typedef enum tsr_counter {
#define X(name) TSR_COUNT_##name,
  TSR_COUNTERS(X)
#undef X
} tsr_counter;

static inline void tsr__count(tsr_environment *environment, tsr_counter counter, uint64_t n) {
  atomic_fetch_add_explicit(&environment->counters[counter], n, memory_order_relaxed);
}

/* Gives the first of `rows` rowids for the fragment `name` of the array at `path`. The range is the same as long as the
 * environment lives, and no other fragment ever gets a rowid in it. Returns TSR_RANGE when all 63-bit rowids are used
 * up. */
int tsr__environment_rows(tsr_environment *environment, const char *path, const char *name, uint64_t rows,
                          int64_t *first, tsr_error *error);
uint64_t tsr__environment_now(void); /* milliseconds since 1970 */

#define TSR_TIME_AHEAD 2000 /* ms; a time that is further ahead comes from before the clock was set back */

/* Returns the present as readers see it: the clock, or the time of the last commit of this environment if that is less
 * than two seconds ahead. So a clock that is set back a little does not hide that commit. */
uint64_t tsr__environment_present(const tsr_environment *environment);

/* Gives a time for a commit: the present, but later than `after` and than all times that this function has given
 * before. Waits until the clock has reached it. The `more` milliseconds after that time belong to the commit, too.
 * Times are in milliseconds since 1970; one that is two seconds or more ahead of the clock is not respected. */
int tsr__environment_time(tsr_environment *environment, uint64_t after, uint64_t more, uint64_t *time,
                          tsr_error *error);

#endif
