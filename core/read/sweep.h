/* sweep.h: sparse tiles that overlap: one version of each coordinate. */
#ifndef TSR_SWEEP_H
#define TSR_SWEEP_H

#include "read/plan.h"

typedef struct tsr_held tsr_held;

typedef struct tsr_sparse_tile { /* in hand */
  tsr_plan_tile plan;
  tsr_held *held;
  uint32_t *cells; /* those that count; NULL: all */
  uint64_t count;
} tsr_sparse_tile;

typedef struct tsr_sweep tsr_sweep;

/* Which tiles of the plan may be given as they come, and which hold coordinates that others may hold, too: `order` has
 * their indices, `streams` that may come first, then those of the sweep, which is NULL where there are none. */
int tsr__sweep_open(tsr_reader *reader, uint64_t **order, uint64_t *streams, tsr_sweep **sweep, tsr_error *error);

/* Gives the sweep the next tiles in order; the coordinates of those with cells, and their cell times where they have
 * some, are loaded. `cells` are copied. If it succeeds the tiles are the sweep's. */
int tsr__sweep_add(tsr_sweep *sweep, const tsr_sparse_tile *tiles, uint64_t count, tsr_error *error);

typedef enum tsr_sweep_result { TSR_SWEEP_END, TSR_SWEEP_TILE, TSR_SWEEP_NEEDS } tsr_sweep_result;

/* A tile of which all is known: its cells are those that won; the caller takes it, its cells live until the next call.
 * Or it needs the next tile first. */
int tsr__sweep_next(tsr_sweep *sweep, tsr_sparse_tile *tile, tsr_error *error);
void tsr__sweep_close(tsr_sweep *sweep); /* NULL is fine; its own memory is the reader's arena's */

#endif
