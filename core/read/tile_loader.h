/* tile_loader.h: loads decoded tiles of fragments from the cache or from the store.
 *
 * tsr__tiles_load loads a list of requests at once. tsr__load_start and tsr__load_finish do the same in two steps,
 * between which workers read and decode while the caller does something else.
 */
#ifndef TSR_TILE_LOADER_H
#define TSR_TILE_LOADER_H

#include "base/pool.h"
#include "array/fragment.h"

typedef struct tsr_pinned_tile tsr_pinned_tile;

typedef struct tsr_tile_request { /* one slot of one tile */
  tsr_fragment *fragment;
  uint32_t slot;
  uint64_t number; /* of the tile in the fragment */
  uint64_t first, end; /* only the values of the cells first..end-1 are needed; end 0: of all cells */
  tsr_tile *tile; /* out: the caller's reference */
  bool decoded; /* out: the tile was not in the cache */
  tsr_pinned_tile *pinned; /* of the reader that made the request; not used here */
} tsr_tile_request;

/* Loads all requests on up to `threads` threads, or none of them. Each tile is referenced for the caller, and its bytes
 * are charged to `memory`: give both back with tsr__tile_return. Requests of one slot for consecutive tiles share reads
 * of the file. */
int tsr__tiles_load(tsr_array *array, unsigned threads, tsr_tile_request *requests, uint64_t count, tsr_memory *memory,
                    tsr_error *error);
void tsr__tile_return(tsr_tile *tile, tsr_memory *memory);

/* Tells the store that these tiles will be loaded soon, so that it may fetch them at one time; nothing is charged. The
 * requests are valid. Returns the bytes that the store may fetch for them. */
uint64_t tsr__tiles_expect(tsr_array *array, const tsr_tile_request *requests, uint64_t count);

/* Returns true if a decoded tile has the values that the request needs. Else extends the request to all cells: a tile
 * that is needed in parts for the second time is worth decoding as a whole. */
bool tsr__tile_request_fits(tsr_tile_request *request, const tsr_tile *tile);

/* A load that has been started. It is finished or cancelled exactly once; until then neither it nor its requests may
 * move. The fields are the loader's own. */
typedef struct tsr_load {
  tsr_array *array;
  tsr_memory *memory;
  tsr_tile_request *requests;
  uint64_t count, cached_count; /* requests; those whose tiles are in the cache */
  bool ahead;
  struct tsr_fetch *fetches; /* of the tiles that are not in the cache */
  struct tsr_fetch_group *groups;
  uint64_t fetch_count, group_count;
  tsr_job job;
} tsr_load;

/* Starts to load the requests with up to `workers` workers beside the caller. `ahead`: the tiles are not needed yet, so
 * the caller's thread does not join in before the finish; the loaded tiles count as tiles_ahead. After a failure there
 * is nothing to finish or to cancel. */
int tsr__load_start(tsr_load *load, tsr_array *array, unsigned workers, bool ahead, tsr_tile_request *requests,
                    uint64_t count, tsr_memory *memory, tsr_error *error);

/* Does what is left of the load and waits for the workers. After a failure no request has a tile. */
int tsr__load_finish(tsr_load *load, tsr_error *error);

/* Ends the load. Tiles that have been decoded by then go into the cache; no request gets a tile. */
void tsr__load_cancel(tsr_load *load);

/* Sets *bytes to the memory that a slot of a tile takes when decoded. Reads the sizes from the metadata only. */
int tsr__tile_cost(tsr_array *array, tsr_fragment *fragment, uint32_t slot, uint64_t number, uint64_t *bytes,
                   tsr_error *error);

#endif
