/* map.c: a hash map with open addressing and linear probing, at most three quarters full.
 *
 * A removal moves later entries of the same chain back into the gap, so the table needs no tombstones. The address of
 * the map seeds the hashes, because keys come from files: a crafted file must not be able to make all its names
 * collide. */
#include "base/map.h"

#include <string.h>

#include "base/memory.h"

/* Mixes eight bytes into a hash. Each step is a bijection of `hash`, so no bit of the seed is lost. */
static uint64_t map_mix(uint64_t hash, uint64_t bytes) {
  hash = (hash ^ bytes) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

static uint64_t map_hash_of(const tsr_map *map, const char *key) {
  uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)map, size = strlen(key), bytes;
  for (; size >= sizeof bytes; size -= sizeof bytes, key += sizeof bytes) {
    memcpy(&bytes, key, sizeof bytes);
    h = map_mix(h, bytes);
  }
  bytes = 0;
  memcpy(&bytes, key, size);
  return map_mix(map_mix(h, bytes ^ size << 56), 0);
}

/* Returns the index of the key's entry, or of the free entry where it would be inserted. */
static uint64_t map_index_of(const tsr_map *map, const char *key, uint64_t hash) {
  uint64_t mask = map->capacity - 1, i = hash & mask;
  while (map->entries[i].key && (map->entries[i].hash != hash || strcmp(map->entries[i].key, key) != 0))
    i = (i + 1) & mask;
  return i;
}

void *tsr__map_get(const tsr_map *map, const char *key) {
  if (map->count == 0) return NULL;
  return map->entries[map_index_of(map, key, map_hash_of(map, key))].value;
}

static int map_grow(tsr_map *map, tsr_error *error) {
  uint64_t capacity = map->capacity ? map->capacity * 2 : 16;
  tsr_map_entry *table;
  TSR_TRY(TSR_ALLOC_ARRAY(map->memory, capacity, &table, error));
  tsr_map_entry *old = map->entries;
  uint64_t old_capacity = map->capacity;
  map->entries = table;
  map->capacity = capacity;
  for (uint64_t i = 0; i < old_capacity; i++)
    if (old[i].key) map->entries[map_index_of(map, old[i].key, old[i].hash)] = old[i];
  tsr__free(old);
  return TSR_OK;
}

int tsr__map_put(tsr_map *map, const char *key, void *value, tsr_error *error) {
  if (map->count >= map->capacity / 4 * 3) TSR_TRY(map_grow(map, error));
  uint64_t hash = map_hash_of(map, key), i = map_index_of(map, key, hash);
  map->count += map->entries[i].key == NULL;
  map->entries[i] = (tsr_map_entry){hash, key, value};
  return TSR_OK;
}

void *tsr__map_remove(tsr_map *map, const char *key) {
  if (map->count == 0) return NULL;
  uint64_t mask = map->capacity - 1, hole = map_index_of(map, key, map_hash_of(map, key));
  void *value = map->entries[hole].value;
  if (!map->entries[hole].key) return NULL;
  map->count--;
  for (uint64_t i = (hole + 1) & mask; map->entries[i].key; i = (i + 1) & mask) {
    uint64_t home = map->entries[i].hash & mask;
    if (((i - home) & mask) < ((i - hole) & mask)) continue; /* a lookup of this entry does not cross the hole */
    map->entries[hole] = map->entries[i];
    hole = i;
  }
  map->entries[hole] = (tsr_map_entry){0, NULL, NULL};
  return value;
}

void tsr__map_release(tsr_map *map) {
  tsr__free(map->entries);
  map->entries = NULL;
  map->count = map->capacity = 0;
}
