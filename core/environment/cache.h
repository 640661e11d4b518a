/* cache.h: the LRU cache of an array's decoded tiles, bounded in bytes. The key of a tile is the fragment's id
 * (tsr_fragment.id), the slot and the number of the tile. All functions are for the caller's thread only. */
#ifndef TSR_CACHE_H
#define TSR_CACHE_H

#include "format/tile.h"

typedef struct tsr_cache tsr_cache;

int tsr__cache_open(tsr_memory *memory, uint64_t limit, tsr_cache **cache, tsr_error *error);
void tsr__cache_close(tsr_cache *cache);
void tsr__cache_set_limit(tsr_cache *cache, uint64_t limit); /* in bytes; evicts surplus tiles at once */
uint64_t tsr__cache_limit(const tsr_cache *cache);
bool tsr__cache_takes(const tsr_cache *cache, uint64_t bytes); /* a tile of so many bytes would be kept */

/* Returns the tile, with a reference for the caller (tsr__tile_drop); NULL if the cache does not have it. */
tsr_tile *tsr__cache_get(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t tile);

/* Adds a tile, replacing one with the same key. The cache takes its own reference. It does not keep a tile that is
 * larger than the limit, or if memory is lacking. The tile must be allocated from the array's memory, since it may
 * outlive the statement. */
void tsr__cache_put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, tsr_tile *tile);

/* Removes all tiles of a fragment. Returns how many tiles it visited: the fragment's own and few others, independently
 * of the size of the cache. */
uint64_t tsr__cache_forget(tsr_cache *cache, uint64_t fragment);

#endif
