/* array.h: an open array: its schemas, its listing, its fragments, its cache of tiles; and snapshots of it.
 *
 * Fragments never change, so what is known of one (footer, R-tree, offsets, decoded tiles) is kept by the array for as
 * long as the fragment is listed or a snapshot holds it. A snapshot is an immutable list of fragments and delete
 * conditions. All of it belongs to the caller's thread.
 */
#ifndef TSR_ARRAY_H
#define TSR_ARRAY_H

#include "format.h"

/* ---- map.c: names -> pointers. `= {.memory = m}`; release frees the table, not what it points to ---- */
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

/* ---- environment.c ---- */
struct tsr_environment {
  tsr_memory memory;
  tsr_spares spares; /* its memory's */
  bool single_threaded;
  int (*permits)(void *argument, const char *path, tsr_error *error);
  void *permits_argument;
  _Atomic uint64_t counters[sizeof(tsr_counters) / sizeof(uint64_t)];
  uint64_t next_row; /* the 63-bit counter that gives each fragment its range of rowids */
  tsr_map row_ranges; /* array path and fragment name -> first rowid: kept as long as the environment */
  uint64_t next_fragment; /* the next tsr_fragment.id */
  uint64_t last_commit; /* the time of the last commit that was prepared: the next one's is later */
  struct tsr_scheme *schemes; /* of the host's stores */
  tsr_array *arrays; /* those that are open: their stores count files and bytes */
  tsr_work *work; /* what it is at: the innermost, or NULL (progress.c) */
};
typedef struct tsr_scheme {
  struct tsr_scheme *next;
  const char *name;
  const tsr_host_store *host;
  void *argument;
} tsr_scheme;
/* The one with which a path begins, or NULL. */
const tsr_scheme *tsr__environment_scheme(const tsr_environment *environment, const char *path);
typedef enum tsr_counter {
#define X(name) TSR_COUNT_##name,
  TSR_COUNTERS(X)
#undef X
} tsr_counter;
static inline void tsr__count(tsr_environment *environment, tsr_counter counter, uint64_t n) {
  atomic_fetch_add_explicit(&environment->counters[counter], n, memory_order_relaxed);
}
/* ---- progress.c: tsr_work_begin, _done, _end, and: ---- */
void tsr__work_more(tsr_environment *environment, uint64_t total); /* the innermost has so much more to do */
void tsr__work_reach(tsr_environment *environment, uint64_t done); /* so much is done, at least */
/* TSR_INTERRUPT if the host asks to stop (tsr__stopped): at least once every 4 MiB decoded or 65,536 rows. */
int tsr__interrupted(tsr_environment *environment, tsr_error *error);
/* The first of `rows` rowids that belong to `name` of the array at `path`: always the same as long as the environment
 * lives, never those of another. TSR_RANGE when 63 bits are used up. */
int tsr__environment_rows(tsr_environment *environment, const char *path, const char *name, uint64_t rows,
                          int64_t *first, tsr_error *error);
uint64_t tsr__environment_now(void); /* milliseconds since 1970 */
/* The same for who reads: the own last commit is not in the future because the clock has been set back a little. */
uint64_t tsr__environment_present(const tsr_environment *environment);
/* A time for a commit: the present, but later than `after` and than every other that this gave; waits for the clock. As
 * many milliseconds as `more` says behind it are the commit's, too. */
int tsr__environment_time(tsr_environment *environment, uint64_t after, uint64_t more, uint64_t *time,
                          tsr_error *error);

/* ---- cache.c: decoded tiles, least recently used go first ---- */
typedef struct tsr_cache tsr_cache;
int tsr__cache_open(tsr_memory *memory, uint64_t limit, tsr_cache **cache, tsr_error *error);
void tsr__cache_close(tsr_cache *cache);
void tsr__cache_set_limit(tsr_cache *cache, uint64_t limit);
uint64_t tsr__cache_limit(const tsr_cache *cache);
/* The tile, held for the caller (tsr__tile_drop), or NULL. Called on the caller's thread only, as all of the cache. */
tsr_tile *tsr__cache_get(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t tile);
/* Offers a tile; the cache holds its own reference if it keeps it, so the tile's memory must be the array's. */
void tsr__cache_put(tsr_cache *cache, uint64_t fragment, uint32_t slot, uint64_t number, tsr_tile *tile);
void tsr__cache_forget(tsr_cache *cache, uint64_t fragment);

/* ---- array.c: open and close, schemas, enumerations ---- */
#define TSR_SNAPSHOTS_KEPT 4
struct tsr_array {
  tsr_environment *environment;
  tsr_array *next; /* environment->arrays */
  uint64_t counted_files, counted_bytes; /* of the store's counters: before the last reset */
  tsr_memory memory;
  tsr_store *store;
  char *path;
  char *pending; /* the schema's name, of an array that was opened before it was published; else NULL */
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
  unsigned threads;
  bool uncached; /* decoded tiles are not kept: each is needed once */
  tsr_cache *cache;
  tsr_map schemas; /* name -> struct tsr_schema_entry, each loaded when first needed, kept until the end */
  tsr_map conditions; /* name -> struct tsr_condition_entry, the same */
  tsr_map files; /* path -> tsr_commit_file: what has been decoded of __commits and of consolidated footers */
  struct tsr_commit_file *outdated; /* read anew since; the last listing points into them */
  uint64_t fresh_until; /* tsr__moment until which lists that were just read are looked at by each statement */
  struct tsr_commit_listing *listing; /* the last one */
  tsr_map fragments; /* name -> tsr_fragment: those that are listed and have been needed */
  struct tsr_open_file *newest_file, *oldest_file; /* fragment.c: open files, most recently used first */
  uint64_t open_files, file_epoch;
  _Atomic uint64_t kept_bytes; /* of metadata files in memory */
  uint64_t pruned; /* the listing's generation when the registry was last pruned */
  int (*committed)(void *argument, const char *commit, tsr_error *error); /* asked of prepared commits, or NULL */
  void *committed_argument;
  uint64_t frozen; /* the clock of the moment at which snapshots stand still; 0: they do not */
  uint64_t frozen_generation; /* of the listing then */
  tsr_snapshot *recent[TSR_SNAPSHOTS_KEPT]; /* for the next who asks for the same; newest first */
};
static inline const uint8_t *tsr__array_key(const tsr_array *array) { return array->has_key ? array->key : NULL; }
/* The store that `text` means: a directory (a path, or a file:// URI whose percent-escapes are decoded), or a tree of the
 * host's. `path` is the same without what only URIs have and without a slash at its end; for tsr__free. `noun` is what
 * is looked for there: "array". */
int tsr__path_open(tsr_environment *environment, const char *noun, const char *text, char **path, tsr_store **store,
                   tsr_error *error);
/* Opens the array in a store, which it closes, also if it fails. `path` is for messages and rowids. */
int tsr__array_open_store(tsr_environment *environment, tsr_store *store, const char *path,
                          const tsr_array_options *options, tsr_array **array, tsr_error *error);
/* A schema by its file's name, loaded once; borrowed until the array is closed. */
int tsr__array_schema_by_name(tsr_array *array, const char *name, const tsr_schema **schema, tsr_error *error);
/* The geometry of a dense schema; borrowed as long. */
int tsr__array_grid(tsr_array *array, const tsr_schema *schema, const tsr_grid **grid, tsr_error *error);
/* The directory of schemas and enumerations: not __schema yet, as long as the array is pending. */
int tsr__array_schema_directory(const tsr_array *array, char path[160], tsr_error *error);
/* TSR_ERROR for an array whose creation is not published yet. */
int tsr__array_committed(const tsr_array *array, tsr_error *error);
/* The format version of a schema that has been decoded; 0: it has not. */
uint32_t tsr__array_schema_version(const tsr_array *array, const char *name);
/* The schema in force at `as_of` by the last listing. */
int tsr__array_schema_at(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);
/* Is that schema among the last listing's? If not, another array stands at the path. */
int tsr__array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);
/* A file that is one generic tile: appends its content. One that TileDB may still be writing is waited for (patience.c). */
int tsr__read_tile(tsr_store *store, const uint8_t *key, const char *path, uint64_t most, tsr_buffer *content,
                   tsr_generic_tile *header, tsr_error *error);
int tsr__array_read_tile(tsr_array *array, const char *path, uint64_t most, tsr_buffer *content,
                         tsr_generic_tile *header, tsr_error *error);
/* The key has been proven when the array was opened: a tag that fails later is damage. Gives TSR_CORRUPT for TSR_AUTH,
 * else `code`. */
int tsr__array_damage(int code, tsr_error *error);

/* ---- patience.c: files that another program may still be writing ---- */
typedef struct tsr_patience { /* `= {0}` before the first try */
  bool begun, changed; /* the file was looked at; it has changed between two looks */
  uint64_t since; /* tsr__moment of the first look */
  tsr_look look; /* the last one */
} tsr_patience;
/* After a try to read and decode the file `path` that gave `code`, with its error. Returns 1: try again; else the result:
 * `code`, but for TSR_CORRUPT of a file that is too young to be called damaged TSR_BUSY, and TSR_NOT_FOUND where it has gone
 * meanwhile. Waits 100 ms at most, of all calls together; any thread. */
int tsr__patience(tsr_patience *patience, tsr_store *store, const char *path, int code, tsr_error *error);
bool tsr__is_young(const tsr_look *look); /* was it changed so late that its writer may still be at it? */
bool tsr__same_look(const tsr_look *a, const tsr_look *b);
uint64_t tsr__moment(void); /* milliseconds of a clock that is never set */

/* ---- array_create.c ---- */
/* What becomes __schema, or __array_schema.tdb, when an array is published: a name that nobody looks at. */
#define TSR_PENDING_PATH 160 /* bytes for it */
void tsr__pending_path(const char *schema_name, char path[TSR_PENDING_PATH]);
/* A schema as a caller filled it in (tessera.h), completed: all that may be left out is set. Memory from `arena`; the
 * rest is borrowed. */
int tsr__schema_complete(const tsr_schema *given, tsr_arena *arena, tsr_schema *schema, tsr_error *error);
/* TSR_EXISTS, and what is there where a new array was to be: an array that nobody has finished can be deleted. */
int tsr__creation_in_the_way(tsr_store *store, tsr_error *error);

/* ---- pending.c: commits that are prepared and not published ---- */
#define TSR_PENDING_SUFFIX ".pending"
#define TSR_PENDING_FILE   ".pending" /* before version 12, in the fragment's directory */
#define TSR_COMMIT_PATH    224 /* bytes for a path of these */
typedef struct tsr_pending { /* what a marker says */
  const char *commit; /* the path that publishes it: __commits/NAME.wrt, .con or .del, NAME.ok,
                         NAME/__fragment_metadata.tdb */
  uint64_t fragment_count;
  const char **fragments; /* names */
  const char *owner; /* its id; NULL: an earlier version wrote the marker, which says no more than the database's path */
  bool locked; /* the writer keeps the marker locked as long as it lives */
  const char *host, *file; /* the machine, or NULL, and the database's path: for messages */
} tsr_pending;
#define TSR_OWNER_MOST 64 /* bytes of an owner's id: printable, without spaces */
bool tsr__pending_owner_valid(const char *owner);
/* Where the marker of a commit lies; where what is renamed to the commit lies until then, "" for those without
 * content. False if `commit` is no such path. */
bool tsr__pending_paths(const char *commit, char marker[TSR_COMMIT_PATH], char staged[TSR_COMMIT_PATH]);
/* Writes a marker; `host` and `locked` of `pending` are not looked at. *lock: the marker, locked until the caller closes
 * it; NULL where there are no locks. */
int tsr__pending_mark(tsr_store *store, const char *marker, const tsr_pending *pending, bool durable, unsigned threads,
                      tsr_file **lock, tsr_error *error);
/* Says whether a marker's writer holds its lock. TSR_UNSUPPORTED: nobody can tell; TSR_NOT_FOUND. */
int tsr__pending_is_locked(tsr_store *store, const char *marker, bool *locked, tsr_error *error);
/* 1; 0 if it is gone, or was not written to its end. */
int tsr__pending_read(tsr_store *store, const char *marker, tsr_arena *arena, tsr_pending *pending, tsr_error *error);
/* The owner of a commit, a database file, says that it has committed: forces the names beside it to the disk before
 * anything is published. SQLite leaves it to chance (but with synchronous=EXTRA) whether its journal comes back after a
 * loss of power, and takes its commit back then. */
int tsr__pending_settle(tsr_memory *memory, const char *owner, tsr_error *error);
int tsr__pending_published(tsr_store *store, const char *commit, tsr_error *error); /* has it a file of its own? 1 or 0 */
/* The error of a commit that cannot be published any more, though its database has committed. */
int tsr__pending_fail_gone(const char *commit, tsr_error *error);
/* Is all there that publishing needs: what is staged, and the metadata of each fragment? 1 or 0. */
int tsr__pending_whole(tsr_store *store, const tsr_pending *pending, tsr_error *error);
int tsr__pending_unmark(tsr_store *store, const char *marker, tsr_error *error); /* gone already: fine */
/* Publishes a prepared commit: 1; 0 if it is published already, or there is nothing to publish. */
int tsr__pending_publish(tsr_store *store, const char *commit, bool durable, tsr_error *error);
/* Takes a published commit back, as far as it is there; its fragments stay. For stores with transactions. */
int tsr__pending_withdraw(tsr_store *store, const char *commit, tsr_error *error);

/* ---- listing.c: directories -> committed names ---- */
#define TSR_STAGED_VACUUM ".vac.new" /* .NAME.vac.new is NAME.vac as soon as NAME is committed */
/* A decoded .con, .ign, .vac or .meta. They never change once they are written; TileDB writes them in place, and a list that
 * is cut between two lines cannot be told from a whole one. So lists are looked at again whenever the array is listed anew,
 * and for 2 seconds after they were read also where no directory has changed. */
typedef struct tsr_commit_file {
  struct tsr_commit_file *next; /* of those that have been read anew since */
  char *path;
  tsr_look look; /* of a list: before it was read; zeros where the store has no looks */
  uint64_t generation; /* of the last listing that had it */
  tsr_arena arena;
  tsr_buffer content; /* kept where the rest points into it */
  tsr_commits commits; /* .con; none where it is cut: it counts as not written yet */
  tsr_commits rest; /* .con that is cut: the entries before its end */
  tsr_names names; /* .ign, .vac */
  tsr_footers footers; /* .meta */
  tsr_map footers_by_name; /* .meta: name -> tsr_footer */
} tsr_commit_file;
typedef struct tsr_committed {
  const char *name; /* without suffix */
  tsr_name parsed;
  bool old_layout; /* a fragment in the array's directory rather than in __fragments */
  const char *path; /* of the file: .vac, .meta, .del, or the .con that holds the delete */
  const uint8_t *bytes; /* a delete in a .con: its generic tile; else NULL */
  uint64_t size;
} tsr_committed;
typedef struct tsr_commit_list {
  tsr_committed *items;
  uint64_t count, capacity;
} tsr_commit_list;
typedef struct tsr_commit_listing {
  tsr_arena arena;
  uint64_t generation; /* 1, 2, ... */
  bool complete; /* else of schemas only */
  tsr_stamp stamps[3]; /* of the array's directory, __schema, __commits */
  bool old_layout; /* names that are committed lie in the array's directory itself */
  bool new_layout; /* neither that, nor can there be: it need not be looked at */
  tsr_commit_list fragments; /* by (start time, name) */
  tsr_commit_list deletes; /* by (start time, name) */
  tsr_commit_list vacuums; /* .vac */
  tsr_commit_list footers; /* .meta, the newest first */
  tsr_commit_list schemas; /* in text order, __array_schema.tdb first; path is the file's */
  tsr_commit_list pending; /* version 3 and 4: fragments that get committed without a change in a listed directory */
  tsr_map names; /* fragments by name -> tsr_committed */
  tsr_commit_list prepared; /* markers of prepared commits: `path` is the marker's, `name` the commit's path */
  bool undecided; /* some of these do not count yet: they are asked for again */
  tsr_commit_list unfinished; /* .con files that are cut, without which nothing is lost (unfinished.c): `path` */
} tsr_commit_listing;
/* Renews array->listing if a directory in which commits show has changed since, or always if `force`: the schemas, and if `commits` all else.
 * While the array is frozen a complete listing is renewed by force only.
 * TSR_NOT_FOUND "array not found: PATH" where there is none. */
int tsr__array_list(tsr_array *array, bool commits, bool force, tsr_error *error);
void tsr__array_listing_release(tsr_array *array);
/* A .con, .ign, .vac or .meta by its path, decoded once; borrowed until the listing is renewed. */
int tsr__array_commit_file(tsr_array *array, const char *path, const tsr_commit_file **file, tsr_error *error);

/* ---- unfinished.c: what others have begun and not finished: vacuums, .con files ---- */
typedef struct tsr_replacing { /* a vacuum file, and the merged fragment that it belongs to */
  const char *name;
  const tsr_names *names;
} tsr_replacing;
/* Adds to `covered` (the key: a name; its value: that of the merged fragment) the fragments whose cells a committed fragment
 * has: those that a vacuum file names whose merged fragment is committed, or is covered itself: a vacuum has removed it.
 * Names are borrowed from the files. */
int tsr__covered(const tsr_replacing *files, uint64_t count, const tsr_map *committed, tsr_map *covered, tsr_error *error);
/* The same of all vacuum files of a listing; borrowed until they are read anew. */
int tsr__array_covered(tsr_array *array, const tsr_commit_listing *listing, tsr_map *covered, tsr_error *error);
typedef struct tsr_unfinished { /* what else says what is committed */
  tsr_store *store;
  tsr_memory *memory;
  const tsr_map *fragments; /* committed by something else, by name */
  const tsr_map *deletes; /* the same */
  const tsr_map *settled; /* not committed, and no .con does it: named by markers, .ign and .vac files */
  const tsr_listing *root; /* the array's directory */
} tsr_unfinished;
/* Would something be lost if the file `con`, which is cut (`rest`: the entries before its end), counted as not written? 0; 1,
 * with TSR_CORRUPT in `error`, which says what and what to do, and `path`, the file whose age tells how young that doubt is. */
int tsr__unfinished_loses(const tsr_unfinished *known, const char *con, const tsr_commits *rest, tsr_path *path,
                          tsr_error *error);
/* ---- committed.c: what has ever been published ---- */
typedef struct tsr_published {
  tsr_array *array;
  tsr_arena arena;
  tsr_map names; /* of fragments and deletes; those that the listing has as fragments are not in it */
} tsr_published;
/* Lists the array anew, without what is prepared: to be listed again afterwards. What cannot be read is an error. */
int tsr__published_open(tsr_array *array, tsr_published *published, tsr_error *error);
/* Does any file of the array say that the commit has been published? 1 or 0. As long as the listing is that of open. */
int tsr__published_has(const tsr_published *published, const tsr_pending *pending, tsr_error *error);
void tsr__published_release(tsr_published *published);
/* Of a commit that is not there any more: does the listing have its fragments, or merged ones that span their times?
 * Sources of a merge leave no other trace once they are removed. Of deletes alone: does it have deletes of that time? */
bool tsr__listing_took_up(const tsr_commit_listing *listing, const tsr_pending *pending);

/* ---- fragment.c: what the array knows of its fragments; their files ---- */
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
/* Closes all that are only kept, of the environment's other arrays, too: the process may not be allowed to open more. False
 * if there were none. */
bool tsr__array_files_make_room(tsr_array *array);
/* A file that was given out stays open until it is dropped as often as it was held: workers are reading it. */
void tsr__fragment_file_hold(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);
void tsr__fragment_file_drop(tsr_fragment *fragment, uint32_t slot, tsr_part_kind part);
/* Lazy parts, loaded once. */
int tsr__fragment_rtree(tsr_array *array, tsr_fragment *fragment, const tsr_rtree **rtree, tsr_error *error);
int tsr__fragment_load_slot(tsr_array *array, tsr_fragment *fragment, uint32_t slot, tsr_error *error);
int tsr__fragment_processed(tsr_array *array, tsr_fragment *fragment, tsr_error *error);

/* ---- snapshot.c ---- */
void tsr__array_conditions_release(tsr_array *array);
typedef struct tsr_snapshot_fragment {
  tsr_fragment *fragment;
  /* [field of the snapshot's schema] -> slot of the fragment; -1 where it lacks the field, or has one of that name with
   * another datatype or number of values per cell, which is another attribute. Nullability may differ. */
  int64_t *slots;
  /* The snapshot's times cut its own: only cells of times within since..as_of count. Where the fragment has no cell
   * times all of its cells do, as in TileDB. */
  bool cut;
  /* Conditions that some of its cells have not been through (by its start time and its processed list), by time. Where
   * the fragment has cell times, a condition is for cells of its time or older only. */
  uint32_t condition_count;
  const tsr_condition **conditions;
  uint64_t own_first, own_end; /* of a run: numbers of its cells; `cut` for those that are not before the end */
} tsr_snapshot_fragment;
/* What a field that one of its conditions names is to its cells: the fragment's own and its slot, or slot -1 and one that it
 * lacks. NULL: no schema has it. `present` is the schema that is asked first. */
int tsr__condition_field(tsr_array *array, const tsr_schema *present, const tsr_fragment *fragment,
                         const tsr_condition *condition, const char *name, const tsr_field **field, int64_t *slot,
                         tsr_error *error);
struct tsr_snapshot {
  tsr_array *array;
  uint32_t references;
  uint64_t since, as_of; /* as_of: what was asked, or the clock when it was opened */
  uint64_t asked, generation, next_change; /* when it may be shared: see snapshot.c */
  const tsr_schema *asked_schema; /* NULL: the one in force at its end */
  const tsr_schema *schema; /* whose fields it shows */
  tsr_arena arena;
  tsr_grid grid; /* dense arrays */
  uint64_t fragment_count;
  tsr_snapshot_fragment *fragments; /* oldest first: by (start time, name); the later wins */
  const tsr_condition **conditions; /* in view, by time; fragments share it */
  uint64_t condition_count;
  bool has_domain;
  tsr_interval *non_empty_domain; /* around all fragments */
  uint64_t *box_low, *box_high; /* dense: the same in ordinals */
  int64_t unwritten_row_base; /* rowids of never-written dense cells, by row-major ordinal; -1: numbered on demand */
  /* with a writer's changes on top (overlay.c): */
  tsr_snapshot *base;
  struct tsr_writer *writer; /* NULL: there are none */
  uint64_t removed; /* how many of its removed rows are hidden */
  void (*release)(tsr_snapshot *snapshot); /* lets go of the writer */
};
/* A snapshot of `base`, which it holds, with runs on top, the later ones last, which it holds, too. */
typedef struct tsr_snapshot_run {
  tsr_fragment *fragment;
  uint64_t first, end; /* numbers of its cells; those from `end` on do not count */
  bool cut; /* there are some */
} tsr_snapshot_run;
int tsr__snapshot_stack(tsr_snapshot *base, const tsr_snapshot_run *runs, uint64_t count, tsr_snapshot **snapshot,
                        tsr_error *error);
static inline void tsr__snapshot_hold(tsr_snapshot *snapshot) { snapshot->references++; }

/* ---- timed_files.c: the files of __meta and __group that are in view between two times ---- */
typedef struct tsr_timed_files {
  uint64_t count;
  const char **paths; /* by (start time, name): the later wins */
} tsr_timed_files;
/* Of a directory of timestamped names: those whose whole range lies in since..as_of (TSR_TIME_NOW is the clock), less
 * those that a .vac file within the same times names. None where the directory is missing. Memory comes from `arena`.
 */
int tsr__timed_files(const tsr_environment *environment, tsr_store *store, const char *directory, uint64_t since,
                     uint64_t as_of, tsr_arena *arena, tsr_timed_files *files, tsr_error *error);

/* ---- objects.c ---- */
/* What lies at a path of a store, "" for its root. What the disk does not tell is an error, not nothing. */
int tsr__object_kind(tsr_store *store, const char *path, tsr_object_kind *kind, tsr_error *error);

/* ---- metadata_open.c ---- */
int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint64_t since,
                       uint64_t as_of, tsr_metadata **metadata, tsr_error *error);

/* ---- timed_write.c ---- */
#define TSR_STAGED_SIZE 41
/* Writes a generic tile to a new name in the root, durable, which nobody takes for anything: `.` and 32 hex digits. */
int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error);
/* Writes bytes to a path of the root, visible only when they are whole; TSR_EXISTS if something is there. */
int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error);
/* Writes a generic tile to DIRECTORY/NAME, durable, visible only when it is whole. The directory is made if missing. */
int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error);
/* The same under a new timestamped name: the present, later than `after`. `name_version` 0: the name has none. `written`:
 * the name, or NULL. */
int tsr__write_timed(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                     uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                     char written[128], tsr_error *error);
/* The newest time of the names of a directory that does not lie in the future; 0 if there is none. */
int tsr__timed_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error);

/* ---- evolve_publish.c ---- */
/* Writes a schema that was made from `base`, the newest one's name; `name` is its own. 0 if others have been first. */
int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error);

/* ---- metadata_write.c ---- */
int tsr__metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                        const tsr_metadata_entry *entry, tsr_error *error);

/* ---- group_open.c, group_write.c ---- */
struct tsr_group {
  tsr_environment *environment;
  tsr_store *store;
  bool has_key;
  uint8_t key[TSR_KEY_SIZE];
};
const uint8_t *tsr__group_key(const tsr_group *group);
const char *tsr__member_key(const tsr_member *member); /* its name, or its URI if it has none */
/* The members that files of __group make, by key; `all`: also what stands before a newest file that counts alone
 * (*alone says that there is one). Memory comes from `arena`. */
int tsr__group_apply(tsr_group *group, const tsr_timed_files *files, bool all, tsr_arena *arena, tsr_map *map,
                     bool *alone, tsr_error *error);
int tsr__group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error);
/* Opens the group in a store, which it closes, also if it fails. */
int tsr__group_open_store(tsr_environment *environment, tsr_store *store, const char *path, const uint8_t *key,
                          tsr_group **group, tsr_error *error);

#endif
