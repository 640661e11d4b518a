/* environment.h: what all arrays of a host share: its allocator, its wish to stop, counters, and who has which
 * rowids. */
#ifndef TSR_ENVIRONMENT_H
#define TSR_ENVIRONMENT_H

#include <stdatomic.h>

#include "base/map.h"
#include "store/store_bounds.h"
#include "filter/filter.h"

struct tsr_environment {
  tsr_memory memory;
  tsr_context_pool contexts; /* its memory's */
  bool single_threaded;
  int (*permits)(void *argument, const char *path, tsr_error *error);
  void *permits_argument;
  _Atomic uint64_t counters[sizeof(tsr_counters) / sizeof(uint64_t)];
  uint64_t next_row; /* the 63-bit counter that gives each fragment its range of rowids */
  tsr_map row_ranges; /* array path and fragment name -> first rowid: kept as long as the environment */
  uint64_t next_fragment; /* the next tsr_fragment.id */
  uint64_t last_commit; /* the time of the last commit that was prepared: the next one's is later */
  struct tsr_scheme *schemes; /* of the host's stores */
  tsr_bounds bounds; /* what directories may not leave */
  tsr_array *arrays; /* those that are open: their stores count files and bytes */
  tsr_work *work; /* what it is at: the innermost, or NULL (progress.c) */
};

typedef struct tsr_scheme {
  struct tsr_scheme *next;
  const char *name;
  const tsr_host_store *host;
  void *argument;
} tsr_scheme;

/* The one with which a path begins, or NULL. */
const tsr_scheme *tsr__environment_scheme(const tsr_environment *environment, const char *path);

typedef enum tsr_counter {
#define X(name) TSR_COUNT_##name,
  TSR_COUNTERS(X)
#undef X
} tsr_counter;

static inline void tsr__count(tsr_environment *environment, tsr_counter counter, uint64_t n) {
  atomic_fetch_add_explicit(&environment->counters[counter], n, memory_order_relaxed);
}

/* TSR_INTERRUPT if the host asks to stop (tsr__cancelled): at least once every 4 MiB decoded or 65,536 rows. */
int tsr__environment_cancelled(tsr_environment *environment, tsr_error *error);

/* The first of `rows` rowids that belong to `name` of the array at `path`: always the same as long as the environment
 * lives, never those of another. TSR_RANGE when 63 bits are used up. */
int tsr__environment_rows(tsr_environment *environment, const char *path, const char *name, uint64_t rows,
                          int64_t *first, tsr_error *error);
uint64_t tsr__environment_now(void); /* milliseconds since 1970 */

/* The same for who reads: the own last commit is not in the future because the clock has been set back a little. */
uint64_t tsr__environment_present(const tsr_environment *environment);

/* A time for a commit: the present, but later than `after` and than every other that this gave; waits for the clock. As
 * many milliseconds as `more` says behind it are the commit's, too. */
int tsr__environment_time(tsr_environment *environment, uint64_t after, uint64_t more, uint64_t *time,
                          tsr_error *error);

#endif
