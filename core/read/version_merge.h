/* version merge.h: sparse tiles that overlap: one version of each coordinate. */
#ifndef TSR_VERSION_MERGE_H
#define TSR_VERSION_MERGE_H

#include "read/plan.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_sparse_tile { /* in hand */
  tsr_plan_tile plan;
  tsr_pinned_tile *pinned;
  uint32_t *cells; /* those that count; NULL: all */
  uint64_t count;
} tsr_sparse_tile;

typedef struct tsr_version_merge tsr_version_merge;

/* Which tiles of the plan may be given as they come, and which hold coordinates that others may hold, too: `order` has
 * their indices, `streams` that may come first, then those of the version merge, which is NULL where there are none. */
int tsr__version_merge_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_version_merge **merge,
                            tsr_error *error);

/* Gives the version merge the next tiles in order; the coordinates of those with cells, and their cell times where they have
 * some, are loaded. `cells` are copied. If it succeeds the tiles are the version merge's. */
int tsr__version_merge_add(tsr_version_merge *merge, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error);

typedef enum tsr_version_merge_result {
  TSR_VERSION_MERGE_END,
  TSR_VERSION_MERGE_TILE,
  TSR_VERSION_MERGE_NEEDS
} tsr_version_merge_result;

/* A tile of which all is known: its cells are those that won; the caller takes it, its cells live until the next call.
 * Or it needs the next tile first. */
int tsr__version_merge_next(tsr_version_merge *merge, tsr_sparse_tile *tile, tsr_error *error);
void tsr__version_merge_close(tsr_version_merge *merge); /* NULL is fine; its own memory is the reader's arena's */

#endif
