/* fragment.h: what the array knows of its fragments; their files. */
#ifndef TSR_FRAGMENT_H
#define TSR_FRAGMENT_H

#include "model/name.h"
#include "format/rtree.h"
#include "format/tile.h"

typedef struct tsr_committed tsr_committed;

typedef struct tsr_fragment {
  char *name;
  tsr_name parsed;
  bool old_layout; /* lies in the array's directory rather than in __fragments */
  uint32_t references; /* the array's registry and snapshots */
  uint64_t id; /* unique within the environment's life: the cache's key */
  tsr_fragment_metadata metadata;
  struct tsr_open_file **files; /* [slot * TSR_PART_COUNT + part], the last one the metadata file; NULL if not open */
  tsr_file *kept; /* the metadata file, where it is small: in memory, never opened again; or NULL */
  tsr_grid grid; /* dense arrays: of its own schema */
  uint64_t *box_low, *box_high; /* dense: its non-empty domain in ordinals, clipped to the domain */
  uint64_t *tile_low, *tile_count; /* dense: first tile coordinate and number of tiles of each dimension */
  int64_t row_base; /* rowid of its cell 0; cell = tile * cells per tile + index in tile */
  uint64_t cells_per_tile;
  /* of a run, cells that a writer has in hand (ops_writer.h), which is in no registry */
  bool own; /* it is one: the times of its cells are their numbers plus TSR_OWN_TIMES */
  bool provisional; /* its files go when nobody holds it any more */
  tsr_tile **tiles; /* in memory: [slot * tile count + tile]; NULL: it has files */
  uint32_t *positions; /* where each of its cells stands, by number; NULL until it is asked for */
} tsr_fragment;

#define TSR_OWN_TIMES (UINT64_C(1) << 63)

/* The registry: a fragment by name, made and loaded if it is new (footer from `footer` where a consolidated file has
 * it); a reference for the caller. */
int tsr__array_fragment(tsr_array *array, const tsr_committed *item, const uint8_t *footer, uint64_t footer_size,
                        tsr_fragment **fragment, tsr_error *error);

/* The same ahead for several that are not in the registry and have no consolidated footer: their files are read by all
 * threads, where the store allows that. What is wrong with one is said when it is asked for; a host that says stop is
 * heard: TSR_INTERRUPT. */
int tsr__array_fragments_read(tsr_array *array, const tsr_committed *const *items, uint64_t count, tsr_error *error);
void tsr__array_fragment_drop(tsr_array *array, tsr_fragment *fragment);

/* One with one reference, that is in no registry, all but its name to be filled in; drop frees it at any time. */
int tsr__array_fragment_new(tsr_array *array, const char *name, tsr_fragment **fragment, tsr_error *error);

/* Its files, of a footer that has been decoded. */
int tsr__fragment_make_files(tsr_fragment *fragment, tsr_error *error);

/* Removes a fragment's directory and its files, as far as they are there. */
int tsr__fragment_remove(tsr_store *store, const char *directory, tsr_error *error);

/* Takes out of the registry what is listed no more. */
void tsr__array_fragments_prune(tsr_array *array);

/* Its open files, of the size that the footer says at least; NOT_FOUND becomes TSR_ABORT "vacuumed during this
 * statement" where the fragment is not listed any more. Borrowed until tsr__array_files_done, which closes the least
 * recently used past TSR_FILES_KEPT: to be called when no file is in use (before or after each window of tiles).
 * Caller's thread only. */
#define TSR_FILES_KEPT        128
#define TSR_FILES_KEPT_IN_ALL 256 /* of all arrays of an environment */
int tsr__fragment_metadata_file(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error);
int tsr__fragment_file(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_part_kind part, tsr_file **file,
                       tsr_error *error);
void tsr__array_files_done(tsr_array *array);

/* Closes all that are only kept, of the environment's other arrays, too: the process may not be allowed to open more.
 * False
 * if there were none. */
bool tsr__array_files_make_room(tsr_array *array);

/* A file that was given out stays open until it is dropped as often as it was held: workers are reading it. */
void tsr__fragment_file_hold(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);
void tsr__fragment_file_drop(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);

/* Lazy parts, loaded once. */
int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error);
int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error);
int tsr__fragment_processed(tsr_array *array, tsr_fragment *fragment, tsr_error *error);

/* The time of a fragment's cells where they have none of their own: its end. */
static inline uint64_t tsr__fragment_time(const tsr_fragment *fragment) { return fragment->parsed.end; }

#endif
