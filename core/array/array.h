/* array.h: open arrays and groups: from a directory to a snapshot that readers can plan on.
 *
 * An open array (array.c) owns its store, its log (which commits it has) and its cache. It decodes schemas,
 * enumerations, fragment metadata and delete conditions when they are first needed, and keeps them. A reader opens a
 * snapshot (snapshot.c): the fragments and delete conditions in view between two times, immutable and shared. The
 * snapshot takes its fragments from the array's registry (fragment.c), which loads each fragment's footer once and its
 * other metadata on demand.
 *
 *   tsr_array  -> log.listing: committed names     (log/)
 *              -> schemas: name -> schema
 *              -> registry: name -> tsr_fragment   <- references -  tsr_snapshot -> fragments, oldest first
 *              -> open_files: LRU of data files
 *
 * One thread at a time uses an environment and everything opened from it (tessera.h). Worker threads only read.
 *
 * The sections below follow the source files: array.c, group.c, metadata.c, fragment.c, kept.c, seen.c, snapshot.c.
 * inspect.c, which describes fragments and tiles for the host, and history.c, which lists commits, have public
 * functions.
 */
#ifndef TSR_ARRAY_ARRAY_H
#define TSR_ARRAY_ARRAY_H

#include <stdatomic.h>

#include "base/map.h"
#include "crypto/crypto.h"
#include "model/domain.h"
#include "format/generic_tile.h"
#include "environment/environment.h"
#include "log/log.h"
#include "store/store.h"
#include "format/group.h"
#include "model/name.h"
#include "format/layout.h"
#include "format/rtree.h"
#include "format/tile.h"
#include "format/condition.h"

/* ---- array.c: open arrays, schemas, enumerations ----------------------------------------------------------------- */

typedef struct tsr_cache tsr_cache;

typedef struct tsr_array_key {
  bool given; /* false: the array is not encrypted */
  uint8_t bytes[TSR_KEY_SIZE];
} tsr_array_key;

typedef struct tsr_array_schemas { /* array.c loads them when they are first needed */
  tsr_map by_name; /* -> schema_entry; kept until the array is closed */
} tsr_array_schemas;

typedef struct tsr_registry { /* loaded fragments that are still listed (fragment.c) */
  tsr_map fragments; /* name -> tsr_fragment */
  _Atomic uint64_t kept_bytes; /* size of the fragments' metadata files in memory, in bytes */
  /* Bytes that one fragment's metadata file and its decoded metadata took: an estimate for the other fragments. */
  _Atomic uint64_t kept_room;
  uint64_t metadata_room;
} tsr_registry;

typedef struct tsr_open_files { /* data files of fragments, most recently used first (fragment.c) */
  struct tsr_open_file *newest, *oldest;
  uint64_t count;
  uint64_t epoch; /* incremented when no file is in use */
} tsr_open_files;

#define TSR_SNAPSHOTS_KEPT 4 /* snapshots that an array keeps for sharing */

/* If listing costs a request to a server, the listing made when the array was opened serves the first reader, too. */
typedef struct tsr_array_opening {
  uint64_t schemas, commits; /* tsr__moment of that listing, until its schemas or its commits are used; else 0 */
  uint64_t changes; /* tsr__store_process_changes before the listing */
  bool extended; /* `commits` was renewed once after an estimate, which may have opened many fragments */
} tsr_array_opening;

typedef struct tsr_array_snapshots { /* snapshots kept for sharing, and their delete conditions (snapshot.c) */
  tsr_snapshot *recent[TSR_SNAPSHOTS_KEPT]; /* snapshots that may be shared; newest first */
  uint64_t pruned; /* listing generation up to which outdated snapshots and fragments have been dropped */
  tsr_map conditions; /* name -> condition_entry; decoded when first needed, kept until the array is closed */
  uint64_t frozen_generation; /* generation of the listing when the array was frozen */
} tsr_array_snapshots;

struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* in environment->arrays */
  tsr_store *store; /* owned */
  char *path; /* for messages and rowids */
  tsr_log log; /* which commits it has */
  tsr_cache *cache;
  bool uncached; /* decoded tiles bypass the cache: each is needed only once */
  unsigned threads; /* most threads that work for one statement, including the caller's */
  tsr_memory memory; /* budget of everything that the array keeps */
  tsr_store_counted counted;
  tsr_array_key key;
  tsr_array_schemas schemas;
  tsr_registry registry;
  tsr_open_files open_files;
  tsr_array_snapshots snapshots;
  tsr_array_opening opening;
  tsr_stamp unconstrained; /* of __meta when it had no CHECK constraint (write/constraints.c); not known: it may have */
};

/* Returns the key, or NULL if the array is not encrypted. */
static inline const uint8_t *tsr__array_key(const tsr_array *array) {
  return array->key.given ? array->key.bytes : NULL;
}

/* Opens the array in a store, and takes ownership of the store even on an error. `path` appears in messages and
 * identifies the array's rowids. */
int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error);

/* Returns true if the listing that was made at `moment`, when the array was opened, still counts as up to date: it is
 * younger than 100 ms, and this process has changed nothing since. */
bool tsr__array_just_opened(const tsr_array *array, uint64_t moment);

/* Opens the array of a dimension label, which is in a directory below an open array and has that array's key. `below`
 * is the directory's path within the array. The caller closes *out with tsr_array_close. */
int tsr__array_open_below(const tsr_array *array, const char *below, tsr_array **out, tsr_error *error);

/* Gives the schema in the schema file `name`, loading it on the first call. Borrowed until the array is closed. */
int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error);

/* Gives the grid of space tiles of a dense schema, borrowed until the array is closed. */
int tsr__array_grid(tsr_array *array, const tsr_schema *schema, const tsr_grid **grid, tsr_error *error);

/* Gives the directory of schemas and enumerations: __schema, or its provisional name until the creation of the array is
 * published. */
int tsr__array_schema_directory(const tsr_array *array, char path[160], tsr_error *error);

/* Returns TSR_ERROR if the creation of the array is not published yet. */
int tsr__array_committed(const tsr_array *array, tsr_error *error);

/* Gives the schema in force at the time `as_of`, in milliseconds since 1970, according to the last listing. */
int tsr__array_schema_at(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);

/* Returns TSR_OK if the last listing has the schema; TSR_ERROR if not, because another array has replaced this one. */
int tsr__array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);

/* ---- group.c: groups, kinds of directories ----------------------------------------------------------------------- */

struct tsr_group {
  tsr_environment *environment;
  tsr_store *store;
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
};

/* Returns the key, or NULL if the group is not encrypted. */
const uint8_t *tsr__group_key(const tsr_group *group);

/* Returns the string that identifies a member in its group: its name, or its URI if it has no name. */
const char *tsr__member_key(const tsr_member *member);

/* Fills `map` (tsr__member_key -> tsr_member) with the members after applying all `files` of __group. If the newest
 * file lists all members (version 1), *alone is true and older files are not read, unless `all` is true. `arena` owns
 * the members. */
int tsr__group_apply(tsr_group *group, const tsr_timestamped_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error);

/* Opens the group in a store, and takes ownership of the store even on an error. `path` is for messages. */
int tsr__group_open_store(tsr_environment *environment, tsr_store *store, const char *path, const uint8_t *key,
                          tsr_group **group, tsr_error *error);

/* ---- metadata.c: metadata of an array or a group between two times ----------------------------------------------- */

/* Reads the metadata in the store's __meta: applies all files in view in the order of their times. `listed`: what
 * __meta has, or NULL, to list it. `since` and `as_of` are inclusive, in milliseconds since 1970. The caller frees
 * *metadata with tsr_metadata_close. */
int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, const tsr_listing *listed,
                       uint64_t since, uint64_t as_of, tsr_metadata **metadata, tsr_error *error);

/* Tells whether a directory of a store is an array or a group (group.c). `path` "" is the store's root. An I/O failure
 * is an error, not TSR_OBJECT_NONE. */
int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error);

/* ---- fragment.c: the registry of fragments, their geometry, their open files ------------------------------------- */

/* Snapshots take fragments from the registry; readers ask a fragment for its files and for those parts of its metadata
 * that are loaded on demand. Sorted runs of uncommitted cells are fragments, too, outside the registry. */

/* The place of a dense fragment in its array. */
typedef struct tsr_fragment_grid {
  tsr_grid grid; /* of the fragment's own schema */
  uint64_t *box_low, *box_high; /* the non-empty domain in ordinals, inclusive, clipped to the domain */
  uint64_t *tile_low, *tile_count; /* of each dimension: first tile coordinate, number of tiles */
} tsr_fragment_grid;

/* Members of a sorted run: a fragment of a writer's uncommitted cells, outside the registry. */
typedef struct tsr_fragment_run {
  bool uncommitted; /* the fragment is a run: the times of its cells are their numbers plus TSR_UNCOMMITTED_TIMES */
  tsr_store *scratch; /* the store whose root has the fragment's directory; NULL: the array's store has it */
  bool provisional; /* dropping the last reference removes the fragment's files */
  tsr_tile **tiles; /* run in memory: [slot * tile count + tile], owned; NULL: the tiles are in files */
  uint32_t *positions; /* cell number -> index in the run; NULL until it is needed */
} tsr_fragment_run;

typedef struct tsr_fragment {
  const char *name; /* allocated after this structure and the room for its metadata */
  uint8_t *room; /* lent to metadata.arena; NULL: none */
  uint64_t room_size; /* in bytes */
  struct tsr_fragment_slab *slab; /* the block that the fragment shares with others; NULL: it has one of its own */
  tsr_arena kept_arena; /* of `kept` */
  tsr_name parsed; /* the parts of the name */
  bool old_layout; /* the fragment is in the array's own directory, not in __fragments */
  uint32_t references; /* held by the registry and by snapshots */
  uint64_t id; /* unique in an environment; part of the cache's key */
  tsr_fragment_metadata metadata;
  struct tsr_open_file **files; /* [slot * TSR_PART_COUNT + part]; the last one is the metadata file; NULL: not open */
  tsr_file *kept; /* a small metadata file, read into memory and never opened again; else NULL */
  tsr_fragment_grid dense; /* of a dense array */
  int64_t row_base; /* rowid of cell 0; cell number = tile * cells_per_tile + index in the tile */
  uint64_t cells_per_tile;
  tsr_fragment_run run;
} tsr_fragment;

/* Returns the store that has the fragment's directory. */
static inline tsr_store *tsr__fragment_store(const tsr_array *array, const tsr_fragment *fragment) {
  return fragment->run.scratch ? fragment->run.scratch : array->store;
}

/* Returns the parent of the fragment's directory in that store: "", or a path that ends in '/'. */
static inline const char *tsr__fragment_parent(const tsr_fragment *fragment) {
  return fragment->old_layout || fragment->run.scratch ? "" : TSR_DIR_FRAGMENTS "/";
}

#define TSR_UNCOMMITTED_TIMES (UINT64_C(1) << 63) /* later than every time of a committed cell */

/* Gives a committed fragment, with a reference for the caller, loading it into the registry if necessary. `footer`: the
 * fragment's footer from a consolidated file, `footer_size` bytes; NULL: read it from the fragment's own metadata
 * file. */
int tsr__array_fragment(tsr_array *array, const tsr_committed *item, const uint8_t *footer, uint64_t footer_size,
                        tsr_fragment **fragment, tsr_error *error);

/* Loads several fragments into the registry, reading their metadata files on all threads; does nothing if the store
 * does not allow that. None of them may be in the registry or have a consolidated footer. Skips fragments that cannot
 * be loaded: tsr__array_fragment reports the error when the fragment is needed. The only errors here are lack of memory
 * and cancellation (TSR_INTERRUPT). */
int tsr__array_fragments_read(tsr_array *array, const tsr_committed *const *items, uint64_t count, tsr_error *error);

/* Prefetches the metadata files of these fragments, if the store can. */
void tsr__array_fragments_prefetch(tsr_array *array, const tsr_committed *const *items, uint64_t count);

/* Prefetches the R-trees and tile offsets of these fragments, if the store can. Fragments whose metadata are in memory
 * cost nothing. */
void tsr__fragments_prefetch(tsr_array *array, tsr_fragment *const *fragments, uint64_t count);

/* Drops a reference; the last one frees the fragment. */
void tsr__array_fragment_drop(tsr_array *array, tsr_fragment *fragment);

/* Makes a fragment with one reference, outside the registry. The caller fills in everything but the name and the id.
 * tsr__array_fragment_drop may free it at any stage. */
int tsr__array_fragment_new(tsr_array *array, const char *name, tsr_fragment **fragment, tsr_error *error);

/* Allocates the array of open files, all closed. The footer must have been decoded. */
int tsr__fragment_make_files(tsr_fragment *fragment, tsr_error *error);

/* Call it when the array's data is inconsistent: cells contradict their metadata, or either contradicts the schema. If
 * the bytes may have been corrupted in transit from a server, the array forgets everything it has decoded, so that the
 * next statement fetches it again. */
void tsr__array_doubt(tsr_array *array);

/* Removes fragments from the registry that the last listing lacks. */
void tsr__array_fragments_prune(tsr_array *array);

/* Give an open file of a fragment, opening it if needed. A file that is smaller than the footer says is TSR_CORRUPT. If
 * a file is missing, the array is listed again: TSR_ABORT if the fragment was vacuumed during this statement, else
 * TSR_CORRUPT. The file is borrowed until tsr__array_files_done. Not for worker threads. */
int tsr__fragment_metadata_file(tsr_array *array, tsr_fragment *fragment, tsr_file **file, tsr_error *error);
int tsr__fragment_file(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_part_kind part, tsr_file **file,
                       tsr_error *error);

/* *exists: whether a committed fragment has its metadata file. One that is in the registry may have lost it since. */
int tsr__fragment_find(tsr_array *array, const tsr_committed *item, bool *exists, tsr_error *error);

/* *whole: whether a listed fragment has all of its files. */
int tsr__fragment_is_whole(tsr_array *array, const tsr_committed *item, bool *whole, tsr_error *error);

/* Fails with TSR_CORRUPT if a listed fragment, whose files are gone, is one of tsr__log_outlived; the message says what
 * to do. Else returns TSR_OK. */
int tsr__fragment_fail_outlived(const tsr_array *array, const char *name, tsr_error *error);

/* Fails for a missing file of a listed fragment; on entry `error` says what is missing. Lists the array again:
 * TSR_ABORT if the fragment was vacuumed meanwhile, TSR_ERROR if a vacuum that was cut off has begun to remove it,
 * TSR_CORRUPT otherwise. */
int tsr__fragment_fail_missing(tsr_array *array, const tsr_fragment *fragment, tsr_error *error);

/* Ends the use of all files that were given out, except pinned ones (tsr__fragment_file_hold), and closes the least
 * recently used files beyond the environment's `files_kept`. Call it before or after each window of tiles. Not for
 * worker threads. */
void tsr__array_files_done(tsr_array *array);

/* Closes all open files of the environment's arrays that are not in use (tsr_environment.make_room). Returns false on a
 * worker thread, and if there is nothing to close. */
bool tsr__arrays_make_room(tsr_environment *environment);

/* Pin and unpin a file that was given out. It stays open, so that worker threads can read it, until each hold is
 * dropped. */
void tsr__fragment_file_hold(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);
void tsr__fragment_file_drop(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);

/* Load parts of a fragment's metadata on demand: R-tree, tile offsets of a slot, processed conditions. */
int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error);
int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error);
int tsr__fragment_processed(tsr_array *array, tsr_fragment *fragment, tsr_error *error);

/* Returns the number of a fragment's cells, deleted and replaced ones included (inspect.c). */
uint64_t tsr__fragment_cells(const tsr_fragment *fragment);

/* Returns the time of all cells in a fragment without times of cells: the end of its time range. */
static inline uint64_t tsr__fragment_time(const tsr_fragment *fragment) { return fragment->parsed.end; }

/* ---- kept.c: which states of the past are whole ------------------------------------------------------------------ */

typedef enum tsr_loss_kind {
  TSR_LOSS_MERGED, /* cells were merged, do not record which of them are older, and their sources are vacuumed */
  TSR_LOSS_PURGED /* a merge dropped deleted cells */
} tsr_loss_kind;

typedef struct tsr_loss { /* something that states of the past lack */
  tsr_loss_kind kind;
  tsr_fragment *fragment; /* a reference; its non-empty domain has the lost cells. NULL: they may be anywhere */
  uint64_t from, until; /* the states of from <= time < until lack them */
} tsr_loss;

#define TSR_PURGED_KEY "tessera.purged" /* metadata of the array: two UINT64, `from` and `until` of all purges */

/* *all: whether all sources of a merged fragment are still listed, and none is among the `missing`: names of fragments
 * that are committed and gone, because a vacuum was cut off; or NULL. False if it has no vacuum file. */
int tsr__sources_kept(tsr_array *array, const tsr_committed *merged, const tsr_map *missing, bool *all,
                      tsr_error *error);

/* Sets *time to the time of the newest delete that a merge of timed cells has processed and that is within the merged
 * fragment's time range, or to 0; *purged: whether the merge has dropped what it deleted. Reads metadata only if such a
 * delete is listed. */
int tsr__merged_delete(tsr_array *array, const tsr_committed *merged, uint64_t *time, bool *purged, tsr_error *error);

/* Appends to `losses` (tsr_loss) what a state with the cells written from `since` to `as_of`, both inclusive, lacks;
 * from TSR_TIME_BEGIN to TSR_TIME_NOW: what any state lacks. `missing` as above. Reads the last listing, and metadata
 * of merged fragments only. The caller calls tsr__losses_drop, also after an error. */
int tsr__losses_find(tsr_array *array, bool dense, uint64_t since, uint64_t as_of, const tsr_map *missing,
                     tsr_buffer *losses, tsr_error *error);
void tsr__losses_drop(tsr_array *array, tsr_buffer *losses);

/* Gives the range that purges have noted. Returns false if there is no such note. */
bool tsr__purge_noted(const tsr_metadata *metadata, uint64_t range[2]);

/* Fails with TSR_ERROR: the snapshot lacks cells that the caller has asked for. Says which, and from when on the past
 * is whole. */
int tsr__loss_fail(tsr_snapshot *snapshot, const tsr_loss *loss, tsr_error *error);

/* ---- seen.c: which commits are new ------------------------------------------------------------------------------- */

typedef struct tsr_fresh { /* a byte for each entry of the last listing: 1 if it is new */
  uint8_t *fragments, *deletes;
} tsr_fresh;

/* Finds the fragments and deletes of the last listing that are new. `gone`: the files of listed fragments may be
 * missing. `arena` owns the result. TSR_ERROR: the token is of another array, or it cannot tell what is new. */
int tsr__fresh_find(tsr_array *array, const tsr_changed *changed, bool dense, bool gone, tsr_arena *arena,
                    tsr_fresh *fresh, tsr_error *error);

/* ---- snapshot.c: what is visible between two times --------------------------------------------------------------- */

/* A snapshot has the fragments and delete conditions of an array that are visible between two times. It is immutable
 * and shared by reference count. Readers plan on it; a transaction view (write/transaction_view.c) puts uncommitted
 * changes on top. */

/* Gives a delete condition, decoding it on the first call. It is kept until the array is closed. */
int tsr__array_condition(tsr_array *array, const tsr_committed *item, const tsr_condition **condition,
                         tsr_error *error);

/* Widens `hull` so that it includes `box`; borrows the strings. */
void tsr__interval_widen(const tsr_field *dimension, tsr_interval *hull, const tsr_interval *box);

/* Frees the array's decoded delete conditions. */
void tsr__array_conditions_release(tsr_array *array);

typedef struct tsr_snapshot_fragment {
  tsr_fragment *fragment; /* the snapshot has a reference */
  /* [field of the snapshot's schema] -> slot of the fragment. -1: the fragment lacks the field. A field of the same
   * name with another datatype or number of values per cell is a different attribute. Nullability may differ. */
  int64_t *slots;
  /* Dense: the visible part of the fragment's box, in ordinals, inclusive. If a merge has spanned a prepared fragment,
   * only parts of its box may be visible, each an item of its own (spanned.c). */
  const uint64_t *box_low, *box_high;
  bool prepared; /* tsr_committed.prepared */
  /* sparse: the time that orders versions if the fragment has no times of cells: its start, or later if the fragment
   * was moved behind a prepared one (spanned.c) */
  uint64_t time;
  /* The fragment's time range extends beyond the snapshot's: only cells with times within since..as_of count. If the
   * fragment has no times of cells, all of its cells count, as in TileDB. */
  bool cut;
  /* Delete conditions that may apply to the fragment's cells, by time: neither older than its start nor in its list of
   * processed conditions. If the fragment has times of cells, a condition applies only to cells of its own time or
   * older. */
  uint32_t condition_count;
  const tsr_condition **conditions;
  /* sorted run: the numbers of its visible cells are run_first to run_end - 1; if `cut`, it has more cells after
   * them */
  uint64_t run_first, run_end;
} tsr_snapshot_fragment;

/* Resolves a `name` in a delete condition for a fragment's cells. *field, *slot: the fragment's own field and its slot;
 * slot -1: the fragment lacks the attribute, and *field is from another schema, or NULL if no schema has the name.
 * `present`: the schema to search first after the fragment's own. */
int tsr__condition_field(tsr_array *array, const tsr_schema *present, const tsr_fragment *fragment,
                         const tsr_condition *condition, const char *name, const tsr_field **field, int64_t *slot,
                         tsr_error *error);

/* Callbacks to the writer whose uncommitted changes a snapshot shows; write/transaction_view.c implements them. */
typedef struct tsr_writer_view {
  /* Returns true if the row is among the first `removed` rows that the writer has removed. */
  bool (*hides)(const struct tsr_writer *writer, int64_t row, uint64_t removed);
  /* Returns false only if the writer has removed no row of low..high, both inclusive. */
  bool (*hides_some)(const struct tsr_writer *writer, int64_t low, int64_t high);
  /* Finds the index of cell number `at` in a sorted run. `first`: the number of the run's first cell. */
  int (*position)(tsr_array *array, tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position,
                  tsr_error *error);
  /* Drops the snapshot's reference to the writer. */
  void (*release)(struct tsr_writer *writer);
} tsr_writer_view;

/* The fragments of snapshots that were made one from another: each shows the first ones, and only the latest of them
 * may append. So what a snapshot shows never changes, and a snapshot costs what was added since the one before. */
typedef struct tsr_snapshot_list {
  uint32_t references; /* held by snapshots */
  tsr_snapshot_fragment *items; /* each has a reference to its fragment; in the arena */
  uint64_t count, capacity; /* of `items` */
  tsr_arena arena; /* also of the items' slots, boxes and conditions */
} tsr_snapshot_list;

typedef enum tsr_snapshot_shows {
  TSR_SHOWS_CELLS, /* the newest version of each cell that is not deleted */
  TSR_SHOWS_ALL, /* the same, and the deleted cells: the snapshot has no conditions */
  TSR_SHOWS_DROPPED /* the newest version of each cell that the snapshot's conditions delete */
} tsr_snapshot_shows;

typedef struct tsr_snapshot_request { /* which requests may share the snapshot, and until when (snapshot.c) */
  uint64_t as_of; /* may be TSR_TIME_NOW */
  const tsr_schema *schema; /* NULL: the schema in force at as_of */
  uint64_t generation; /* of the listing from which the snapshot was made */
  uint64_t listed; /* number of fragments in that listing */
  bool grows; /* a snapshot of a longer listing may be made from this one */
  uint64_t next_change; /* first time after the snapshot's as_of at which a committed name comes into view */
} tsr_snapshot_request;

typedef struct tsr_snapshot_domain { /* the non-empty domain of all fragments together */
  bool exists; /* false: no fragment has cells */
  tsr_interval *intervals; /* by dimension */
  uint64_t *box_low, *box_high; /* dense: the same in ordinals, inclusive */
} tsr_snapshot_domain;

typedef struct tsr_snapshot_view { /* the uncommitted changes of a transaction view (write/transaction_view.c) */
  tsr_snapshot *base; /* the snapshot below, held by this one; NULL: this is not a transaction view */
  struct tsr_writer *writer; /* NULL: shows no writer's changes */
  const tsr_writer_view *functions; /* of the writer; NULL if there is none */
  uint64_t removed; /* hides the first `removed` rows that the writer has removed */
} tsr_snapshot_view;

struct tsr_snapshot {
  tsr_array *array;
  uint32_t references;
  uint64_t since, as_of; /* inclusive, in milliseconds since 1970; as_of: of the clock if TSR_TIME_NOW was requested */
  uint64_t deleted_until; /* cells that a merge has marked as deleted up to here are deleted: as_of, or what was before
                           * a commit whose conditions are older than as_of and whose cells are younger */
  const tsr_schema *schema; /* whose fields the snapshot shows */
  tsr_snapshot_shows shows;
  tsr_snapshot_list *list; /* the snapshot has a reference */
  uint64_t fragment_count;
  /* the items of `list`, oldest first: by (start time, name); at equal coordinates the last one wins */
  tsr_snapshot_fragment *fragments;
  tsr_arena arena;
  tsr_grid grid; /* dense arrays */
  const tsr_condition **conditions; /* delete conditions in view, by time; fragments share the array */
  uint64_t condition_count;
  int64_t unwritten_row_base; /* rowids of never-written dense cells, by row-major ordinal; -1: numbered on demand */
  tsr_snapshot_request request;
  tsr_snapshot_domain domain;
  tsr_buffer losses; /* tsr_loss: what the snapshot lacks; a transaction view borrows those of its base */
  tsr_snapshot_view view;
};

typedef struct tsr_snapshot_run { /* a sorted run of a transaction view */
  tsr_fragment *fragment;
  uint64_t first, end; /* numbers of the cells that count: first to end - 1 */
  bool cut; /* the run has cells from `end` on */
} tsr_snapshot_run;

/* Makes a snapshot of `base` with sorted runs on top, the latest last; if `alone` is true, of the runs only. The
 * snapshot takes references to `base` and to the runs. */
int tsr__snapshot_stack(tsr_snapshot *base, bool alone, const tsr_snapshot_run *runs, uint64_t count,
                        tsr_snapshot **snapshot, tsr_error *error);

static inline void tsr__snapshot_hold(tsr_snapshot *snapshot) { snapshot->references++; }

/* Returns the present, or the moment at which the array was frozen. Call it after listing the array, so that a merged
 * fragment in the listing, whose sources may be gone, is not in the future. */
uint64_t tsr__array_present(const tsr_array *array);

/* ---- spanned.c: prepared commits whose time a merged fragment spans ---------------------------------------------- */

/* Places the prepared fragments of a snapshot under construction: a merged fragment that spans the time of a prepared
 * one counts as newer in all its cells. */
int tsr__snapshot_place_prepared(tsr_snapshot *snapshot, tsr_error *error);

/* Returns true if a merged fragment without times of cells spans `time`, so that it may have older and newer cells but
 * does not record which. `dense`: the array is dense. */
bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense);

#endif
