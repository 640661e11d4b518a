/* map.h: names -> pointers. `= {.memory = m}`; release frees the table, not what it points to. */
#ifndef TSR_MAP_H
#define TSR_MAP_H

#include "tessera.h"

typedef struct tsr_memory tsr_memory;

typedef struct tsr_map_entry {
  uint64_t hash;
  const char *key;
  void *value;
} tsr_map_entry;

typedef struct tsr_map {
  tsr_memory *memory;
  uint64_t count, capacity; /* capacity: 0 or a power of two */
  tsr_map_entry *entries; /* all of 0..capacity-1; key NULL where there is none */
} tsr_map;

void *tsr__map_get(const tsr_map *map, const char *key); /* NULL if there is none */

/* The key is borrowed until it is removed; the value is not NULL. An equal key is replaced. */
int tsr__map_put(tsr_map *map, const char *key, void *value, tsr_error *error);
void *tsr__map_remove(tsr_map *map, const char *key); /* the value it had, or NULL */
void tsr__map_release(tsr_map *map);

#endif
