/* cache.c: the LRU cache of an array's decoded tiles, bounded in bytes.
 *
 * Entries are in one growing table and refer to each other by index. An entry with a tile is in three lists:
 *   - its tile's hash bucket, singly linked by `chain`, for lookups;
 *   - its fragment's hash bucket, doubly linked by `next` and `previous`, so that forgetting a fragment does not scan
 *     the whole cache;
 *   - the ring in order of use, doubly linked by `newer` and `older`, whose head is entry 0.
 * Buckets are chains and no hash index (hash.h): a fragment has many tiles, and evictions must not move entries.
 * Unused entries are in the free list that begins at `free`, linked by `chain`.
 *
 * A tile that a reader still uses may be evicted: it lives until its last reference is dropped. A tile that is larger
 * than the limit, or for which memory is lacking, is not kept; that is no error. Caller's thread only.
 */
#include "environment/cache.h"

#include "base/arithmetic.h"
#include "base/hash.h"

#define CACHE_NONE 0 /* no entry: entry 0 is the ring's head and never in a bucket */

typedef struct entry {
  uint64_t fragment, number;
  uint32_t slot, chain; /* chain: next entry in the bucket or in the list of unused entries */
  uint32_t newer, older; /* neighbours in the ring */
  uint32_t next, previous; /* neighbours in the fragment's bucket, or CACHE_NONE */
  tsr_tile *tile;
} entry;

struct tsr_cache {
  tsr_memory *memory;
  uint64_t limit, used;
  entry *entries;
  uint32_t capacity, fresh, free; /* entries from `fresh` on have never been used */
  uint32_t *buckets; /* first entry of each bucket: [bucket_count] by tile, then [bucket_count] by fragment */
  uint32_t bucket_count; /* a power of two, at least capacity */
};

int tsr__cache_open(tsr_memory *memory, uint64_t limit, tsr_cache **cache, tsr_error *error) {
  tsr_cache *c;
  TSR_TRY(TSR_ALLOC(memory, &c, error));
  c->memory = memory;
  c->limit = limit;
  *cache = c;
  return TSR_OK;
}

static uint32_t *bucket_of(const tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number) {
  const uint64_t h = tsr__hash_mix(tsr__hash_mix(tsr__hash_mix(0, fragment), slot), number);
  return &cache->buckets[h & (cache->bucket_count - 1)];
}

static uint32_t *bucket_of_fragment(const tsr_cache *cache, uint64_t fragment) {
  return &cache->buckets[cache->bucket_count + (tsr__hash_mix(0, fragment) & (cache->bucket_count - 1))];
}

static uint64_t cost_of(const tsr_tile *tile) {
  return tsr__add_sat(tile->bytes, sizeof(entry) + 2 * sizeof(uint32_t));
}

/* Inserts an entry into the buckets of its tile and of its fragment. */
static void enter_buckets(tsr_cache *cache, uint32_t i) {
  entry *e = &cache->entries[i];
  uint32_t *tiles = bucket_of(cache, e->fragment, e->slot, e->number), *same = bucket_of_fragment(cache, e->fragment);
  e->chain = *tiles;
  *tiles = i;
  e->next = *same;
  e->previous = CACHE_NONE;
  if (e->next != CACHE_NONE) cache->entries[e->next].previous = i;
  *same = i;
}

static void leave_buckets(tsr_cache *cache, uint32_t i) {
  const entry *e = &cache->entries[i];
  uint32_t *link = bucket_of(cache, e->fragment, e->slot, e->number);
  while (*link != i) link = &cache->entries[*link].chain;
  *link = e->chain;
  if (e->next != CACHE_NONE) cache->entries[e->next].previous = e->previous;
  if (e->previous != CACHE_NONE) cache->entries[e->previous].next = e->next;
  else *bucket_of_fragment(cache, e->fragment) = e->next;
}

static void leave_ring(tsr_cache *cache, uint32_t i) {
  entry *e = cache->entries;
  e[e[i].newer].older = e[i].older;
  e[e[i].older].newer = e[i].newer;
}

static void enter_ring(tsr_cache *cache, uint32_t i) { /* as the newest */
  entry *e = cache->entries;
  e[i].newer = 0;
  e[i].older = e[0].older;
  e[e[0].older].newer = i;
  e[0].older = i;
}

static void evict(tsr_cache *cache, uint32_t i) {
  entry *e = &cache->entries[i];
  leave_buckets(cache, i);
  leave_ring(cache, i);
  cache->used -= cost_of(e->tile);
  tsr__tile_drop(e->tile);
  e->tile = NULL;
  e->chain = cache->free;
  cache->free = i;
}

/* entries[0].older is the newest tile, entries[0].newer the oldest. */
static void cache_shrink(tsr_cache *cache, uint64_t limit) {
  while (cache->used > limit) evict(cache, cache->entries[0].newer);
}

void tsr__cache_close(tsr_cache *cache) {
  if (!cache) return;
  cache_shrink(cache, 0);
  tsr__free(cache->entries);
  tsr__free(cache->buckets);
  tsr__free(cache);
}

void tsr__cache_set_limit(tsr_cache *cache, uint64_t limit) {
  cache->limit = limit;
  cache_shrink(cache, limit);
}

uint64_t tsr__cache_limit(const tsr_cache *cache) { return cache->limit; }

bool tsr__cache_takes(const tsr_cache *cache, uint64_t bytes) { return bytes <= cache->limit; }

static uint32_t cache_find(const tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number) {
  if (cache->used == 0) return CACHE_NONE;
  uint32_t i = *bucket_of(cache, fragment, slot, number);
  for (; i != CACHE_NONE; i = cache->entries[i].chain) {
    const entry *e = &cache->entries[i];
    if (e->fragment == fragment && e->number == number && e->slot == slot) break;
  }
  return i;
}

tsr_tile *tsr__cache_get(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t tile) {
  uint32_t i = cache_find(cache, fragment, slot, tile);
  if (i == CACHE_NONE) return NULL;
  leave_ring(cache, i);
  enter_ring(cache, i);
  tsr__tile_hold(cache->entries[i].tile);
  return cache->entries[i].tile;
}

static bool cache_grow(tsr_cache *cache) {
  if (cache->capacity > UINT32_MAX / 2) return false;
  uint32_t capacity = cache->capacity ? cache->capacity * 2 : 64;
  uint32_t *buckets;
  if (TSR_ALLOC_ARRAY(cache->memory, (uint64_t)capacity * 2, &buckets, NULL) < 0) return false;
  if (TSR_REALLOC_ARRAY(cache->memory, capacity, &cache->entries, NULL) < 0) {
    tsr__free(buckets);
    return false;
  }
  tsr__free(cache->buckets);
  cache->buckets = buckets;
  cache->bucket_count = capacity;
  if (cache->capacity == 0) {
    cache->entries[0] = (entry){0};
    cache->fresh = 1;
  }
  cache->capacity = capacity;
  for (uint32_t i = cache->entries[0].older; i != 0; i = cache->entries[i].older) enter_buckets(cache, i);
  return true;
}

void tsr__cache_put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, tsr_tile *tile) {
  uint64_t cost = cost_of(tile);
  if (cost > cache->limit) return;
  uint32_t i = cache_find(cache, fragment, slot, number);
  if (i != CACHE_NONE) evict(cache, i);
  cache_shrink(cache, cache->limit - cost);
  if (cache->free == CACHE_NONE && cache->fresh >= cache->capacity && !cache_grow(cache)) return;
  if (cache->free != CACHE_NONE) {
    i = cache->free;
    cache->free = cache->entries[i].chain;
  } else i = cache->fresh++;

  cache->entries[i] = (entry){.fragment = fragment, .number = number, .slot = slot, .tile = tile};
  enter_buckets(cache, i);
  enter_ring(cache, i);
  cache->used += cost;
  tsr__tile_hold(tile);
}

uint64_t tsr__cache_forget(tsr_cache *cache, uint64_t fragment) {
  uint64_t looked_at = 0;
  if (cache->used == 0) return 0;
  for (uint32_t i = *bucket_of_fragment(cache, fragment), next; i != CACHE_NONE; i = next, looked_at++) {
    next = cache->entries[i].next;
    if (cache->entries[i].fragment == fragment) evict(cache, i);
  }
  return looked_at;
}
