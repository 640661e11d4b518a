/* map.h: a hash map from strings to pointers. `= {.memory = memory}` is an empty map. It borrows keys and values: the
 * caller must keep each key alive and unchanged while it is in the map. Not thread-safe. */
#ifndef TSR_MAP_H
#define TSR_MAP_H

#include "base/hash.h"

typedef struct tsr_map_entry {
  uint64_t hash;
  const char *key;
  void *value;
} tsr_map_entry;

typedef struct tsr_map {
  tsr_memory *memory; /* borrowed */
  /* owned; `count` of them, which callers may iterate over: in the order of insertion until a key is removed, whose
   * place the last entry takes */
  tsr_map_entry *entries;
  uint64_t count, capacity; /* in entries */
  tsr_hash_index index; /* of the entries */
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
