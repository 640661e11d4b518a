/* fragment.h: open fragments: the array's registry of fragments, their geometry, and their open files. Snapshots take
 * fragments from the registry; readers ask a fragment for its files and for the parts of its metadata that are loaded
 * on demand. Sorted runs of uncommitted cells are fragments, too, outside the registry.
 */
#ifndef TSR_FRAGMENT_H
#define TSR_FRAGMENT_H

#include "model/name.h"
#include "format/layout.h"
#include "format/rtree.h"
#include "format/tile.h"
#include "array/array.h"

typedef struct tsr_committed tsr_committed;

/* The place of a dense fragment in its array. */
typedef struct tsr_fragment_grid {
  tsr_grid grid; /* of the fragment's own schema */
  uint64_t *box_low, *box_high; /* the non-empty domain in ordinals, inclusive, clipped to the domain */
  uint64_t *tile_low, *tile_count; /* of each dimension: first tile coordinate, number of tiles */
} tsr_fragment_grid;

/* What only a sorted run of a writer's uncommitted cells has. A run is a fragment in no registry. */
typedef struct tsr_fragment_run {
  bool uncommitted; /* the fragment is a run: the times of its cells are their numbers plus TSR_UNCOMMITTED_TIMES */
  tsr_store *scratch; /* the store in whose root the fragment's directory lies; NULL: the array's store has it */
  bool provisional; /* the fragment's files are removed together with its last reference */
  tsr_tile **tiles; /* run in memory: [slot * tile count + tile], owned; NULL: the tiles are in files */
  uint32_t *positions; /* by cell number: where the cell stands in the run; NULL until it is needed */
} tsr_fragment_run;

typedef struct tsr_fragment {
  const char *name; /* behind this structure and the room for its metadata */
  uint8_t *room; /* for metadata.arena; NULL: none */
  uint64_t room_size; /* in bytes */
  tsr_arena kept_arena; /* of `kept` */
  tsr_name parsed; /* the parts of the name */
  bool old_layout; /* the fragment lies in the array's directory, not in __fragments */
  uint32_t references; /* of the registry and of snapshots */
  uint64_t id; /* never used twice in an environment; the cache's key */
  tsr_fragment_metadata metadata;
  struct tsr_open_file **files; /* [slot * TSR_PART_COUNT + part]; the last one is the metadata file; NULL: not open */
  tsr_file *kept; /* a small metadata file, read into memory and never opened again; else NULL */
  tsr_fragment_grid dense; /* of a dense array */
  int64_t row_base; /* rowid of cell 0; cell number = tile * cells_per_tile + index in the tile */
  uint64_t cells_per_tile;
  tsr_fragment_run run;
} tsr_fragment;

/* Returns the store in which the fragment's directory lies. */
static inline tsr_store *tsr__fragment_store(const tsr_array *array, const tsr_fragment *fragment) {
  return fragment->run.scratch ? fragment->run.scratch : array->store;
}

/* Returns the directory above the fragment's in that store: "", or a path that ends in '/'. */
static inline const char *tsr__fragment_parent(const tsr_fragment *fragment) {
  return fragment->old_layout || fragment->run.scratch ? "" : TSR_DIR_FRAGMENTS "/";
}

#define TSR_UNCOMMITTED_TIMES (UINT64_C(1) << 63) /* later than every time of a committed cell */

/* Gives a committed fragment, with a reference for the caller. If it is not in the registry yet, it is loaded and
 * added. `footer`: the fragment's footer from a consolidated file, `footer_size` bytes; NULL: the footer is read from
 * the fragment's own metadata file. */
int tsr__array_fragment(tsr_array *array, const tsr_committed *item, const uint8_t *footer, uint64_t footer_size,
                        tsr_fragment **fragment, tsr_error *error);

/* Loads several fragments into the registry, reading their metadata files with all threads, if the store allows that.
 * None of them may be in the registry or have a consolidated footer. A fragment that cannot be loaded is left out:
 * tsr__array_fragment reports the error when the fragment is needed. The only errors here are lack of memory and
 * cancellation (TSR_INTERRUPT). */
int tsr__array_fragments_read(tsr_array *array, const tsr_committed *const *items, uint64_t count, tsr_error *error);

/* Tells the store that the metadata files of these fragments will be read soon. */
void tsr__array_fragments_expect(tsr_array *array, const tsr_committed *const *items, uint64_t count);

/* Tells the store that the R-trees and tile offsets of these fragments will be read soon. Fragments whose metadata are
 * in memory cost nothing. */
void tsr__fragments_expect(tsr_array *array, tsr_fragment *const *fragments, uint64_t count);

/* Removes a reference; the last one frees the fragment. */
void tsr__array_fragment_drop(tsr_array *array, tsr_fragment *fragment);

/* Makes a fragment with one reference, outside the registry. The caller fills in everything but the name and the id.
 * tsr__array_fragment_drop frees it at any time. */
int tsr__array_fragment_new(tsr_array *array, const char *name, tsr_fragment **fragment, tsr_error *error);

/* Allocates the array of open files, all closed. The footer must have been decoded. */
int tsr__fragment_make_files(tsr_fragment *fragment, tsr_error *error);

/* Call it when what was read of an array cannot be right: its cells contradict its metadata, or either the schema. If the
 * bytes may have been changed on their way from a server, the array forgets all that it has decoded, so that the next
 * statement asks for them again. */
void tsr__array_doubt(tsr_array *array);

/* Removes the fragments from the registry that the last listing does not have. */
void tsr__array_fragments_prune(tsr_array *array);

/* Give an open file of a fragment, opening it if needed. A file that is smaller than the footer says is TSR_CORRUPT. If
 * a file is missing, the array is listed again: TSR_ABORT if the fragment has been vacuumed during this statement, else
 * TSR_CORRUPT. The file is borrowed until tsr__array_files_done. For the caller's thread only. */
int tsr__fragment_metadata_file(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error);
int tsr__fragment_file(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_part_kind part, tsr_file **file,
                       tsr_error *error);

/* Fails for a missing file of a committed fragment, which the array's listing shows; `error` says what is missing. It
 * lists the array again: TSR_ABORT if the fragment has been vacuumed meanwhile, TSR_CORRUPT if it is still listed. */
int tsr__fragment_fail_missing(tsr_array *array, const tsr_fragment *fragment, tsr_error *error);

/* Ends the use of all files that were given out, except pinned ones (tsr__fragment_file_hold), and closes the least
 * recently used files beyond the environment's `files_kept`. Call it before or after each window of tiles. For the caller's thread
 * only. */
void tsr__array_files_done(tsr_array *array);

/* Closes all files of a tsr_environment's arrays that are open but not in use (tsr_environment.make_room). On a worker thread,
 * and if there is nothing to close, it returns false. */
bool tsr__arrays_make_room(tsr_environment *environment);

/* Pin a file that was given out, and undo that. The file stays open while worker threads read it, until each hold has
 * been dropped. */
void tsr__fragment_file_hold(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);
void tsr__fragment_file_drop(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);

/* Load parts of a fragment's metadata on demand: R-tree, tile offsets of a slot, processed conditions. */
int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error);
int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error);
int tsr__fragment_processed(tsr_array *array, tsr_fragment *fragment, tsr_error *error);

/* Returns the time of cells in a fragment that stores no times of cells: the end of its time range. */
static inline uint64_t tsr__fragment_time(const tsr_fragment *fragment) { return fragment->parsed.end; }

#endif
