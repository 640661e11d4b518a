/* map.c: a hash map from strings to pointers: a dense array of entries, and an index of their hashes.
 *
 * The address of the map seeds the hashes, because keys come from files: a crafted file must not be able to make all
 * its names collide. */
#include "base/map.h"

#include "base/arithmetic.h"

static uint64_t map_hash_of(const tsr_map *map, const char *key) { return tsr__hash_text((uintptr_t)map, key); }

static uint64_t map_hash_at(const void *map, uint64_t entry) { return ((const tsr_map *)map)->entries[entry].hash; }

/* Finds the key's entry and the slot that refers to it. Returns false, with the free slot where the key belongs, if the
 * key is not in the map, which must have slots. */
static bool map_find(const tsr_map *map, const char *key, uint64_t hash, uint64_t *slot, uint32_t *entry) {
  for (*slot = tsr__hash_slot(&map->index, hash); tsr__hash_item(&map->index, *slot, entry);
       *slot = tsr__hash_next(&map->index, *slot))
    if (map->entries[*entry].hash == hash && strcmp(map->entries[*entry].key, key) == 0) return true;
  return false;
}

void *tsr__map_get(const tsr_map *map, const char *key) {
  uint64_t slot;
  uint32_t entry;
  if (map->count == 0 || !map_find(map, key, map_hash_of(map, key), &slot, &entry)) return NULL;
  return map->entries[entry].value;
}

/* Makes room for one more entry. */
static int map_grow(tsr_map *map, tsr_error *error) {
  if (map->count == map->capacity) {
    const uint64_t capacity = TSR_MAX(2 * map->capacity, 8);
    TSR_TRY(TSR_REALLOC_ARRAY(map->memory, capacity, &map->entries, error));
    map->capacity = capacity;
  }
  return tsr__hash_reserve(&map->index, map->memory, map->count + 1, map->count, map_hash_at, map, error);
}

int tsr__map_put(tsr_map *map, const char *key, void *value, tsr_error *error) {
  TSR_TRY(map_grow(map, error));
  const uint64_t hash = map_hash_of(map, key);
  uint64_t slot;
  uint32_t entry;
  if (!map_find(map, key, hash, &slot, &entry)) {
    entry = (uint32_t)map->count++;
    tsr__hash_set(&map->index, slot, entry);
  }
  map->entries[entry] = (tsr_map_entry){hash, key, value};
  return TSR_OK;
}

void *tsr__map_remove(tsr_map *map, const char *key) {
  uint64_t slot, last_slot;
  uint32_t entry, last;
  if (map->count == 0 || !map_find(map, key, map_hash_of(map, key), &slot, &entry)) return NULL;
  void *value = map->entries[entry].value;
  tsr__hash_remove(&map->index, slot, map_hash_at, map);
  const tsr_map_entry moved = map->entries[map->count - 1];
  if (entry != map->count - 1 && map_find(map, moved.key, moved.hash, &last_slot, &last)) {
    map->entries[entry] = moved;
    tsr__hash_set(&map->index, last_slot, entry);
  }
  map->count--;
  return value;
}

void tsr__map_release(tsr_map *map) {
  tsr__free(map->entries);
  tsr__hash_release(&map->index);
  map->entries = NULL;
  map->count = map->capacity = 0;
}
