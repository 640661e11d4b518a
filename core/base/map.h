/* map.h: a hash map from strings to pointers. `= {.memory = memory}` is an empty map. It borrows keys and values: the
 * caller must keep each key alive and unchanged while it is in the map. Not thread-safe. */
#ifndef TSR_MAP_H
#define TSR_MAP_H

#include "tessera.h"

typedef struct tsr_memory tsr_memory;

typedef struct tsr_map_entry {
  uint64_t hash;
  const char *key; /* NULL: the entry is free */
  void *value;
} tsr_map_entry;

typedef struct tsr_map {
  tsr_memory *memory; /* borrowed */
  uint64_t count, capacity; /* in entries; the capacity is 0 or a power of two */
  tsr_map_entry *entries; /* owned; `capacity` of them; callers may iterate over them */
} tsr_map;

/* Returns the key's value, or NULL if the key is not in the map. */
void *tsr__map_get(const tsr_map *map, const char *key);

/* Adds a key with its value, which must not be NULL. Replaces an equal key together with its value. */
int tsr__map_put(tsr_map *map, const char *key, void *value, tsr_error *error);

/* Removes a key and returns its value, or NULL if the key is not in the map. */
void *tsr__map_remove(tsr_map *map, const char *key);

/* Frees the table. The map is then empty and can be used again. */
void tsr__map_release(tsr_map *map);

#endif
