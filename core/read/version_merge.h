/* version_merge.h: merges sparse tiles that overlap, so that one version of each coordinate is left.
 *
 * tsr__version_merge_open says in which order the tiles of the plan are to be loaded. The caller loads the merged ones
 * in that order and passes them in with tsr__version_merge_add; tsr__version_merge_next returns them with the cells
 * that won, or says that it needs the next tile first.
 */
#ifndef TSR_VERSION_MERGE_H
#define TSR_VERSION_MERGE_H

#include "read/plan.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_sparse_tile { /* a loaded tile, and a selection of its cells */
  tsr_plan_tile plan;
  tsr_pinned_tile *pinned; /* owned */
  uint32_t *cells; /* the selected ones; NULL: all */
  uint64_t count;
} tsr_sparse_tile;

typedef struct tsr_version_merge tsr_version_merge;

/* Divides the tiles of the reader's plan. *order gets their indices in the plan, first *streams tiles that share no
 * coordinate with any other tile and need no merge, then those of the version merge. *merge is NULL if there are none
 * of the latter. The results live in the reader's arena. */
int tsr__version_merge_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_version_merge **merge,
                            tsr_error *error);

/* Passes the next tiles in. All of their coordinates are loaded, and the cell times of tiles with selected cells if the
 * fragment has some. The selections are copied. On success the tiles belong to the version merge. */
int tsr__version_merge_add(tsr_version_merge *merge, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error);

typedef enum tsr_version_merge_result {
  TSR_VERSION_MERGE_END, /* all tiles have been returned */
  TSR_VERSION_MERGE_TILE, /* *tile is the caller's; its cells are the ones that won, and live until the next call */
  TSR_VERSION_MERGE_NEEDS /* call tsr__version_merge_add first */
} tsr_version_merge_result;

/* Returns a tsr_version_merge_result, or < 0: error. A tile is returned when all of its cells are decided. */
int tsr__version_merge_next(tsr_version_merge *merge, tsr_sparse_tile *tile, tsr_error *error);

/* Gives back the tiles that it has. NULL is fine. The memory of the version merge itself is the reader's arena's. */
void tsr__version_merge_close(tsr_version_merge *merge);

#endif
