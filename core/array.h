/* array.h: an open array: its schemas, its listing, its fragments, its cache of tiles; and snapshots of it.
 *
 * Fragments never change, so what is known of one (footer, R-tree, offsets, decoded tiles) is kept by the array for as
 * long as the fragment is listed or a snapshot holds it. A snapshot is an immutable list of fragments and delete
 * conditions.
 */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "format.h"

struct tsr_environment {
  tsr_memory memory;
  bool (*interrupted)(void *argument);
  void *interrupted_argument;
  bool single_threaded;
  _Atomic uint64_t counters[sizeof(tsr_counters) / sizeof(uint64_t)];
  uint64_t next_row; /* the 63-bit counter that gives each fragment its range of rowids */
  struct tsr_row_range *row_ranges; /* (array path, fragment name) -> first rowid: kept as long as the environment */
};
typedef enum tsr_counter {
#define X(name) TSR_COUNT_##name,
  TSR_COUNTERS(X)
#undef X
} tsr_counter;
static inline void tsr__count(tsr_environment *environment, tsr_counter counter, uint64_t n) {
  atomic_fetch_add_explicit(&environment->counters[counter], n, memory_order_relaxed);
}
/* TSR_INTERRUPT if the host asks to stop. Only on the caller's thread; at least once every 4 MiB decoded or 65,536
 * rows. */
int tsr__interrupted(tsr_environment *environment, tsr_error *error);

/* A fragment that the array knows. */
typedef struct tsr_fragment {
  char *name;
  tsr_name parsed;
  bool old_layout; /* lies in the array's directory rather than in __fragments */
  uint32_t references; /* the array's registry and snapshots */
  uint64_t id; /* unique within the environment's life: the cache's key */
  bool loaded; /* metadata is there */
  tsr_fragment_metadata metadata;
  tsr_file *metadata_file; /* open once needed */
  tsr_file **files; /* [slot * TSR_PART_COUNT + part], opened when needed */
  tsr_grid grid; /* dense: of its own schema */
  uint64_t *box_low, *box_high; /* dense: its non-empty domain in ordinals, clipped to the domain */
  uint64_t *tile_low, *tile_count; /* dense: first tile coordinate and number of tiles of each dimension */
  int64_t row_base; /* rowid of its cell 0; cell = tile * cells per tile + index in tile */
  uint64_t cells_per_tile;
  int64_t *fields; /* field of the array's newest schema is mapped per snapshot: see tsr_snapshot_fragment */
} tsr_fragment;

/* ---- cache.c: decoded tiles, least recently used go first ---- */
typedef struct tsr_cache tsr_cache;
int tsr__cache_open(tsr_memory *memory, uint64_t limit, tsr_cache **cache, tsr_error *error);
void tsr__cache_close(tsr_cache *cache);
void tsr__cache_set_limit(tsr_cache *cache, uint64_t limit);
/* The tile, held for the caller (tsr__tile_drop), or NULL. Called on the caller's thread only, as all of the cache. */
tsr_tile *tsr__cache_get(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t tile);
/* Offers a tile; the cache holds its own reference if it keeps it. */
void tsr__cache_put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, tsr_tile *tile);
void tsr__cache_forget(tsr_cache *cache, uint64_t fragment);

/* ---- array.c ---- */
struct tsr_array {
  tsr_environment *environment;
  tsr_memory memory;
  tsr_store *store;
  char *path;
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
  unsigned threads;
  tsr_cache *cache;
  struct tsr_schema_entry *schemas;
  uint64_t schema_count; /* by name, each loaded when first needed */
  struct tsr_listing_state *listing; /* snapshot.c's: the last listing, its stamps, what was decoded of it */
  struct tsr_fragment_registry *fragments;
};
static inline const uint8_t *tsr__array_key(const tsr_array *array) { return array->has_key ? array->key : NULL; }
/* A schema by its file's name, loaded once; borrowed until the array is closed. */
int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error);
/* The registry: a fragment by name, made and loaded if it is new (footer from `footer` where a consolidated file has
 * it); a reference for the caller. */
int tsr__array_fragment(tsr_array *array, const char *name, const tsr_name *parsed, bool old_layout,
                        const uint8_t *footer, uint64_t footer_size, tsr_fragment **fragment, tsr_error *error);
void tsr__array_fragment_drop(tsr_array *array, tsr_fragment *fragment);
/* Its open files; NOT_FOUND becomes TSR_ABORT "vacuumed during this statement" where the fragment is not listed any
 * more. Caller's thread only. */
int tsr__fragment_metadata_file(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error);
int tsr__fragment_file(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_part_kind part, tsr_file **file,
                       tsr_error *error);
/* Lazy parts, loaded once. */
int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error);
int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error);

/* ---- snapshot.c ---- */
typedef struct tsr_snapshot_fragment {
  tsr_fragment *fragment;
  int64_t *slots; /* [field of the snapshot's schema] -> slot of the fragment, -1 where it lacks the field */
  uint32_t condition_count; /* conditions that its cells have not been through (by time and by its processed list) */
  const tsr_condition **conditions;
} tsr_snapshot_fragment;
struct tsr_snapshot {
  tsr_array *array;
  uint32_t references;
  uint64_t since, as_of; /* as_of: what was asked, or the clock when it was opened */
  const tsr_schema *schema;
  tsr_arena arena;
  tsr_grid grid; /* dense arrays */
  uint64_t fragment_count;
  tsr_snapshot_fragment *fragments; /* oldest first: by (start time, name); the later wins */
  bool has_domain;
  tsr_interval *non_empty_domain; /* union over the fragments */
  uint64_t *box_low, *box_high; /* dense: the same in ordinals */
  int64_t unwritten_row_base; /* rowids of never-written dense cells; -1: numbered on demand */
};

#endif
