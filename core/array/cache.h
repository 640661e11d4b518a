/* cache.h: decoded tiles, least recently used go first. */
#ifndef TSR_CACHE_H
#define TSR_CACHE_H

#include "format/tile.h"

typedef struct tsr_cache tsr_cache;
int tsr__cache_open(tsr_memory *memory, uint64_t limit, tsr_cache **cache, tsr_error *error);
void tsr__cache_close(tsr_cache *cache);
void tsr__cache_set_limit(tsr_cache *cache, uint64_t limit);
uint64_t tsr__cache_limit(const tsr_cache *cache);

/* The tile, held for the caller (tsr__tile_drop), or NULL. Called on the caller's thread only, as all of the cache. */
tsr_tile *tsr__cache_get(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t tile);

/* Offers a tile; the cache holds its own reference if it keeps it, so the tile's memory must be the array's. */
void tsr__cache_put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, tsr_tile *tile);
void tsr__cache_forget(tsr_cache *cache, uint64_t fragment);

#endif
