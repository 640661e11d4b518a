/* tile_loader.h: decoded tiles of fragments, from the cache or the store. */
#ifndef TSR_TILE_LOADER_H
#define TSR_TILE_LOADER_H

#include "base/pool.h"
#include "array/fragment.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_tile_request {
  tsr_fragment *fragment;
  uint32_t slot;
  uint64_t number;
  uint64_t first, end; /* cells whose values are wanted; end 0: all */
  tsr_tile *tile; /* out: held */
  bool decoded; /* out: it was not in the cache */
  tsr_pinned_tile *pinned; /* for whom */
} tsr_tile_request;

/* Loads all, in parallel, or none; each is held for the caller, and its bytes charged to `memory`: give both back with
 * tsr__tile_return. Wants of one slot with consecutive numbers that stand together are read together. */
int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_tile_request *requests, uint64_t count, tsr_memory *memory,
                    tsr_error *error);
void tsr__tile_return(tsr_tile *tile, tsr_memory *memory);

/* Has a tile that is in memory the values that are wanted? If not, all of them are, from now on. */
bool tsr__tile_request_fits(tsr_tile_request *request, const tsr_tile *tile);

/* The same in two parts, between which workers are at it: each load that was started is finished or cancelled, and stays
 * where it is, as do its wants. `ahead`: before the tiles are wanted; that is counted, and the caller has something else to
 * do. What a cancelled load has decoded by then goes into the cache, its wants get nothing. */
typedef struct tsr_load {
  tsr_array *array;
  tsr_memory *memory;
  tsr_tile_request *requests;
  uint64_t count, found; /* found: in the cache */
  bool ahead;
  struct tsr_fetch *fetches;
  struct tsr_fetch_group *runs;
  uint64_t fetch_count, run_count;
  tsr_job job;
} tsr_load;

int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_tile_request *requests,
                    uint64_t count, tsr_memory *memory, tsr_error *error);
int tsr__load_finish(tsr_load *load, tsr_error *error);
void tsr__load_cancel(tsr_load *load);

/* Bytes in memory of a tile of a slot, before it is decoded. */
int tsr__tile_cost(tsr_array *array, tsr_fragment *fragment, uint32_t slot, uint64_t number, uint64_t *bytes,
                   tsr_error *error);

#endif
