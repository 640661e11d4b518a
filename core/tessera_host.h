/* tessera_host.h: what a host needs that makes arrays part of its own transactions, as the extension in SQLite does.
 *
 * No promise: every release may change or remove anything in this header. The stable interface is tessera.h with the
 * headers that it includes: tessera_format.h, tessera_query.h, tessera_arrow.h and tessera_ingest.h. tessera.h does not
 * include this header. The rules at the beginning of tessera.h hold here, too.
 */
#ifndef TESSERA_HOST_H
#define TESSERA_HOST_H

#include <stdarg.h>

#include "tessera.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Paths ------------------------------------------------------------------------------------------------------- */

/* Returns 1 if `path` is `directory` or is below it, else 0. Symbolic links and ".." are resolved; if a path does not
 * exist, its existing part is resolved. */
TSR_API int tsr_path_lies_below(tsr_environment *environment, const char *path, const char *directory,
                                tsr_error *error);

/* Reads up to `room` bytes from the beginning of a regular file into `bytes`. *size: the number of bytes read. The
 * environment's bound and `permits` apply. */
TSR_API int tsr_file_read(tsr_environment *environment, const char *path, void *bytes, uint64_t room, uint64_t *size,
                          tsr_error *error);

/* Returns TSR_OK if `permits` and the environment's bound allow the path, else their error. Paths of a host's store are
 * always allowed. */
TSR_API int tsr_path_permitted(tsr_environment *environment, const char *path, tsr_error *error);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Tells the system that a new block of the host's will be filled, so that a large one may get huge pages. */
TSR_API void tsr_memory_advise(void *block, uint64_t size);

/* Returns the hash of bytes and their number, mixed into a seed or into the hash of what precedes them. All its bits are
 * equally good, so a table may take the lowest. Keys that strangers choose may be crafted to collide, unless the seed
 * is an address or a random number. */
TSR_API uint64_t tsr_hash(uint64_t seed, const void *bytes, uint64_t size);

/* ---- Counters and progress --------------------------------------------------------------------------------------- */

/* Adds to rows_returned, for hosts that hand out rows themselves. */
TSR_API void tsr_environment_count_rows(tsr_environment *environment, uint64_t rows);
/* Adds to coordinates_evaluated, for hosts that fill in value tables and key numbers. */
TSR_API void tsr_environment_count_coordinates(tsr_environment *environment, uint64_t coordinates);
/* Adds to keys_compared and changes_found, for hosts that compare two states. */
TSR_API void tsr_environment_count_changes(tsr_environment *environment, uint64_t compared, uint64_t found);
/* Counts one part of a statement that was evaluated over columns, or else by rows. */
TSR_API void tsr_environment_count_part(tsr_environment *environment, bool by_columns);

/* An operation of the host, listed by tsr_progress_list. The caller provides the structure and must not move it between
 * tsr_work_begin and tsr_work_end. Each begin needs its end. Operations of one environment nest: one that begins inside
 * another ends before it. tsr_work_done adds `more` to the innermost operation. */
typedef struct tsr_work {
  struct tsr_work *outer;
  int slot; /* -1: not shown */
  uint64_t serial;
} tsr_work;
TSR_API void tsr_work_begin(tsr_environment *environment, tsr_work *work, const char *operation, const char *path,
                            uint64_t total);
TSR_API void tsr_work_done(tsr_environment *environment, uint64_t more);
TSR_API void tsr_work_end(tsr_environment *environment, tsr_work *work);

/* ---- Upkeep ------------------------------------------------------------------------------------------------------ */

typedef enum tsr_upkeep_vacuum {
  TSR_UPKEEP_VACUUM_NEVER,
  TSR_UPKEEP_VACUUM_HARMLESS, /* unless it takes states of the past away (tsr_array_keeps_times) */
  TSR_UPKEEP_VACUUM_ALWAYS
} tsr_upkeep_vacuum;

typedef struct tsr_upkeep_options { /* `= {0}` merges everything that is worth it, and removes nothing */
  uint64_t fanout; /* neighbours of about the same size that become one fragment; 0: 16 */
  uint64_t max_fragment_bytes; /* no larger fragments are made; 0: 1 GiB */
  uint64_t memory_bytes; /* limit of working memory; 0: 1 GiB */
  unsigned threads; /* 0: the array's */
  uint64_t most_bytes; /* limit of the stored bytes that are read; 0: none */
  uint64_t most_merges; /* 0: no limit */
  uint64_t milliseconds; /* after which no merge begins, except the first; 0: no limit */
  bool files; /* with a vacuum: join the files of commits, and footers, even if few, and past the limits above */
  bool automatic; /* count the merges as auto_merges, the time as auto_merge_ms */
  bool count_only; /* change nothing: `left` counts all merges */
  tsr_upkeep_vacuum vacuum;
  uint64_t grace, most_removed; /* of the vacuum (tsr_vacuum_options) */
} tsr_upkeep_options;

typedef struct tsr_upkeep {
  uint64_t merges, merged, removed; /* merges; fragments that they replaced; files that the vacuum removed */
  uint64_t left; /* merges that a limit, or another process that has the lease, has kept from being done */
} tsr_upkeep;

/* Merges neighbours of about the same size, in tiers, so that an array has few fragments although each commit adds one;
 * then removes what was replaced. Holds the lease of the array meanwhile (tsr_lease): if another environment has it,
 * nothing is merged. Each merge is one commit: if the call fails, *result says what was done. No writer of the array
 * may be open. */
TSR_API int tsr_array_upkeep(tsr_array *array, const tsr_upkeep_options *options, tsr_upkeep *result, tsr_error *error);

/* Returns 1 if merged fragments keep the times of all cells, so that a vacuum takes no state of the past away; else 0:
 * dense arrays, and format versions below 15. */
TSR_API int tsr_array_keeps_times(tsr_array *array, tsr_error *error);

/* ---- Stores of the host ------------------------------------------------------------------------------------------ */

/* A host can keep arrays somewhere other than in directories. It registers a store under a scheme; paths that begin
 * with the scheme and a colon then lead to that store. Every function that takes a path accepts such paths.
 *
 * A store has trees of files. Within a tree, a path consists of parts separated by '/'; "" is the root.
 * create_exclusive creates a file, append extends it, sync completes it; after that it never changes.
 *
 * Callbacks run on the caller's thread only, never on workers. They must not use the environment. They return TSR_OK,
 * or a negative code that they also set in `error`, with a message that says only what is wrong: the library prefixes
 * the path. */
typedef struct tsr_listing tsr_listing;
typedef enum tsr_entry_kind { TSR_ENTRY_FILE, TSR_ENTRY_DIRECTORY, TSR_ENTRY_OTHER } tsr_entry_kind;
/* Adds an entry to a listing; called by the callback `list`, in any order. The name is copied. */
TSR_API int tsr_listing_add(tsr_listing *listing, const char *name, tsr_entry_kind kind, tsr_error *error);

typedef struct tsr_host_store {
  /* Opens the tree at `path`, the complete path with its scheme. A tree that does not exist opens as an empty one. */
  int (*open)(void *argument, const char *path, void **tree, tsr_error *error);
  void (*close)(void *tree); /* called after all files of the tree are closed */
  /* Opens a file for reading and gives its size in bytes; TSR_NOT_FOUND if it does not exist. */
  int (*open_file)(void *tree, const char *path, void **file, uint64_t *size, tsr_error *error);
  /* Creates an empty file; TSR_EXISTS if anything has this path. */
  int (*create_exclusive)(void *tree, const char *path, void **file, tsr_error *error);
  void (*close_file)(void *file);
  /* Reads exactly `size` bytes at `offset`; the range lies within the file. TSR_ABORT if the file has been removed
   * since it was opened and its bytes are gone; it must never read bytes of another file. */
  int (*read_at)(void *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error);
  int (*append)(void *file, const void *bytes, uint64_t size, tsr_error *error);
  int (*sync)(void *file, tsr_error *error);
  /* Calls tsr_listing_add for each entry of a directory; TSR_NOT_FOUND if the directory does not exist. */
  int (*list)(void *tree, const char *path, tsr_listing *listing, tsr_error *error);
  /* Gives a number that changes whenever an entry of the directory is added or removed; 0 if the directory does not
   * exist. */
  int (*stamp)(void *tree, const char *path, uint64_t *stamp, tsr_error *error);
  /* Gives the time of the file's last change, in milliseconds since 1970; TSR_NOT_FOUND if it does not exist. */
  int (*modified)(void *tree, const char *path, uint64_t *milliseconds, tsr_error *error);
  /* Renames a file, or a directory with everything in it. If `exclusive`, TSR_EXISTS if anything has the path `to`;
   * otherwise a file or an empty directory at that path is replaced. */
  int (*rename)(void *tree, const char *from, const char *to, bool exclusive, tsr_error *error);
  /* Removes a file or an empty directory; TSR_EXISTS if the directory is not empty. */
  int (*remove)(void *tree, const char *path, tsr_error *error);
  /* Makes a directory; TSR_EXISTS if anything has this path. The root may exist, but then it must be empty. */
  int (*make_directory)(void *tree, const char *path, tsr_error *error);
} tsr_host_store;

/* Registers a store under a scheme, which consists of letters. Store and scheme are borrowed until the environment is
 * closed; `argument` is passed to the store's `open`. */
TSR_API int tsr_environment_add_store(tsr_environment *environment, const char *scheme, const tsr_host_store *store,
                                      void *argument, tsr_error *error);

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

/* tsr_array_schema among the schemas listed already, for example by the newest snapshot: does not access the store. */
TSR_API int tsr_array_schema_listed(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);
/* Returns 1 if every listed schema has this attribute, with the same type and not nullable, so that each cell of a
 * sparse array has a value for it. Otherwise returns 0, as it does for arrays with more than `most` schemas. Reads the
 * schemas that have not been read yet, a file each. */
TSR_API int tsr_array_always_has(tsr_array *array, const tsr_field *attribute, uint64_t most, tsr_error *error);
/* Bounds the codes of an enumerated attribute in a sparse array: *end is greater than the code of each committed cell
 * of the snapshot. UINT64_MAX: a code is negative, or the fragments' statistics prove nothing. Fragments that lack the
 * attribute do not count (tsr_array_always_has). Reads the statistics of fragments that are new. `field`: of the schema
 * with which the snapshot was opened. */
TSR_API int tsr_snapshot_codes_end(tsr_snapshot *snapshot, uint32_t field, uint64_t *end, tsr_error *error);
/* The same for the cells of all snapshots, of any time, that can be opened at present. Also UINT64_MAX if the array has
 * more than `most` fragments, or is in a bucket, where reading their statistics takes requests. */
TSR_API int tsr_array_codes_end(tsr_array *array, const tsr_field *attribute, uint64_t most, uint64_t *end,
                                tsr_error *error);
/* Gives a snapshot from the last listing, without checking whether the array has changed since: for estimates. Returns
 * 1 and a snapshot, which the caller closes; 0 if there is none, or if checking is so cheap that the caller should use
 * tsr_snapshot_open. */
TSR_API int tsr_snapshot_recent(tsr_array *array, const tsr_schema *schema, uint64_t since, uint64_t as_of,
                                tsr_snapshot **snapshot);
/* Returns the last time whose commits the snapshot shows, in milliseconds since 1970: its as_of, or the clock's time
 * when it was made. *next: the first later time at which something that was committed by then comes into view;
 * UINT64_MAX: there is none. At present such commits are ahead of the clock. */
TSR_API uint64_t tsr_snapshot_time(const tsr_snapshot *snapshot, uint64_t *next);
/* Returns how many fragments in view have a single time, as those that no merge has made; `most` if there are more. */
TSR_API uint64_t tsr_snapshot_unmerged(const tsr_snapshot *snapshot, uint64_t most);
/* Returns the largest number of delete conditions that are evaluated for the cells of any one fragment. */
TSR_API uint64_t tsr_snapshot_condition_count(const tsr_snapshot *snapshot);
/* Returns the largest number of comparisons in these conditions for any one fragment. */
TSR_API uint64_t tsr_snapshot_comparison_count(const tsr_snapshot *snapshot);

/* ---- History ----------------------------------------------------------------------------------------------------- */

typedef enum tsr_history_kind {
  TSR_HISTORY_WRITE,
  TSR_HISTORY_DELETE,
  TSR_HISTORY_BOTH,
  TSR_HISTORY_MERGE
} tsr_history_kind;
typedef struct tsr_history_entry { /* all commits of one time; a merge is an entry of its own */
  tsr_history_kind kind;
  uint64_t start, time; /* first and last time, in milliseconds since 1970; they differ only in merges */
  uint64_t fragments, cells; /* cells: as in tsr_fragment_info */
  const tsr_interval *box; /* one for each dimension of the newest schema; NULL: no cells */
  const char *condition; /* of the first delete, as SQL, cut at 1,000 bytes; NULL: no delete */
  const char *name; /* of the first fragment or delete */
  int whole; /* 1: the states from `start` to `time` can be read as a whole; 0: not; -1: nobody can tell */
} tsr_history_entry;
typedef struct tsr_history tsr_history;
/* Lists the commits between two times, inclusive, oldest first, from metadata only. Merged fragments are listed beside
 * their sources until a vacuum removes these. The caller closes the history before the array. */
TSR_API int tsr_history_open(tsr_array *array, uint64_t since, uint64_t as_of, tsr_history **history, tsr_error *error);
TSR_API void tsr_history_close(tsr_history *history);
/* Returns the entries, borrowed until the history is closed. */
TSR_API const tsr_history_entry *tsr_history_entries(const tsr_history *history, uint64_t *count);

/* ---- What changed ------------------------------------------------------------------------------------------------ */

/* A token names the commits that a reader has seen, so that it can ask later for what is new (array/seen.c). */
typedef struct tsr_token tsr_token;
/* Makes a token of the commits in view at present; lists the array first. Commits that are prepared and not published
 * are left out. The caller closes the token, at any time. */
TSR_API int tsr_token_make(tsr_array *array, tsr_token **token, tsr_error *error);
/* Reads a token's text of `size` bytes. TSR_MISMATCH: it is not a token. The caller closes the token before the
 * environment. */
TSR_API int tsr_token_read(tsr_environment *environment, const char *text, uint64_t size, tsr_token **token,
                           tsr_error *error);
TSR_API void tsr_token_close(tsr_token *token);
/* Returns the text of a token that tsr_token_make has made, and its size in bytes. Borrowed from the token. */
TSR_API const char *tsr_token_text(const tsr_token *token, uint64_t *size);
/* Fails with TSR_ERROR if the token is of another array. */
TSR_API int tsr_token_check(tsr_array *array, const tsr_token *token, tsr_error *error);
TSR_API uint64_t tsr_token_time(const tsr_token *token); /* of the newest of its commits; 0: it has none */

typedef enum tsr_changed_kind {
  TSR_CHANGED_WRITTEN, /* the cells that commits have written; with `seen`, also those that were deleted or replaced */
  /* The newest version of each cell that deletes have dropped. Its time is that of the first such delete; 0: the cell
   * was written at that time, so that only states can tell when the coordinates lost their cell. Sparse arrays only. */
  TSR_CHANGED_DROPPED
} tsr_changed_kind;
typedef struct tsr_changed { /* which commits count, up to the snapshot's as_of */
  tsr_changed_kind kind;
  const tsr_token *seen; /* those that the token lacks; or NULL: */
  uint64_t since; /* those from this time on */
} tsr_changed;
/* Opens a snapshot of cells that commits have touched. It may have more cells than those, never fewer: merged fragments
 * do not always tell which of their cells are new. A writer's changes can be put on top if `seen` is NULL. TSR_ERROR if
 * the token is of another array, or if it cannot tell what is new. The caller closes the snapshot. */
TSR_API int tsr_snapshot_changed(tsr_array *array, const tsr_schema *schema, const tsr_changed *changed, uint64_t as_of,
                                 tsr_snapshot **snapshot, tsr_error *error);

/* Places: coordinates of cells of a sparse array. A caller who is about to look up many cells, by a request for each,
 * can say so before: then the reader reads them together, and decodes each tile once. */
typedef struct tsr_places tsr_places;
/* Makes an empty set for arrays with the dimensions of this schema, which is not borrowed. The caller closes it after
 * the readers that expect it, and before the environment. */
TSR_API int tsr_places_open(tsr_environment *environment, const tsr_schema *schema, tsr_places **places,
                            tsr_error *error);
TSR_API void tsr_places_close(tsr_places *places); /* NULL is fine */
TSR_API void tsr_places_clear(tsr_places *places);
/* Says that all places are added before the first look-up, and that look-ups come in the order of coordinates. Other
 * sets are for look-ups that follow each batch, in its order. */
TSR_API void tsr_places_gather(tsr_places *places);
/* Adds the places of a reader's present batch. A set that is not gathered forgets earlier batches now and then. If
 * memory is lacking, places are left out: the set is a hint. */
TSR_API int tsr_places_add(tsr_places *places, tsr_reader *reader, const tsr_batch *batch, tsr_error *error);
/* Says that requests for single places of the set will follow. The set is borrowed until another call; NULL: nothing is
 * expected any more. It may grow meanwhile. Ends the present request if the set is another one. Dense arrays find cells
 * without it, and ignore it. */
TSR_API int tsr_reader_expect(tsr_reader *reader, tsr_places *places, tsr_error *error);

/* Compares the cells of a dense array that a reader gives with an earlier state of the array. */
typedef struct tsr_unchanged tsr_unchanged;
/* `after`: NULL, or the state whose cells are compared in place of those that the reader gives, if those may be hidden
 * by newer ones. `compared`: one for each field of the schema, which all snapshots must share; true: the attribute is
 * compared. `memory_bytes` limits each reader of these states; 0 = 1 GiB. TSR_ERROR if the array is sparse. The caller
 * closes it before the snapshots. */
TSR_API int tsr_unchanged_open(tsr_snapshot *before, tsr_snapshot *after, const bool *compared, uint64_t memory_bytes,
                               tsr_unchanged **unchanged, tsr_error *error);
TSR_API void tsr_unchanged_close(tsr_unchanged *unchanged); /* NULL is fine */
/* tsr_reader_next on `reader`, without cells that the earlier state shows with the same bytes in the compared
 * attributes: few such cells in a batch, and cells for which memory is lacking, do come. Counts the cells that it
 * leaves out in keys_compared. The batch is borrowed until the next call for the reader, or for `unchanged`. */
TSR_API int tsr_unchanged_next(tsr_unchanged *unchanged, tsr_reader *reader, const tsr_batch **batch, tsr_error *error);

/* ---- Transactions ------------------------------------------------------------------------------------------------ */

/* Tells an array whose store has moved to another path, and follows it there, that path: messages name it, and the arrays
 * of labels are opened below it. `path` is copied. */
TSR_API int tsr_array_moved(tsr_array *array, const char *path, tsr_error *error);

/* Freezes the array, or unfreezes it. While it is frozen, all its snapshots show the state and the clock of the moment
 * of freezing, as one transaction needs. If other processes have merged fragments of that state with later commits and
 * vacuumed them, opening a snapshot fails with TSR_ABORT. tsr_writer_prepare still relists the array if it has changed.
 */
TSR_API int tsr_array_freeze(tsr_array *array, bool frozen, tsr_error *error);
/* Fails with TSR_ERROR if the last listing lacks this schema. Schemas are never removed, so another array must have
 * replaced the schema's array at the same path. */
TSR_API int tsr_array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);
/* Returns true if tsr_array_recover may have something to do, as far as the last listing of the array shows: prepared
 * commits, merges that died before they took effect, vacuum files that were not checked yet for cells that exist
 * twice. Reads no file, except a schema that is not loaded yet. */
TSR_API bool tsr_array_needs_recovery(tsr_array *array);

/* ---- Writers whose changes can be read and undone ---------------------------------------------------------------- */

/* A position in a writer's changes, for tsr_writer_rewind. */
typedef struct tsr_mark {
  uint64_t cells, removed, boxes;
} tsr_mark;
/* While `keep` is true, all cells stay in memory until prepare; TSR_BUDGET: they do not fit. For hosts whose savepoints
 * may roll back files in the store but not the writer's cells. A host that provides a `scratch` store does not need
 * this. */
TSR_API void tsr_writer_keep(tsr_writer *writer, bool keep);
/* Tells whether tsr_array_add_constraint would succeed after tsr_array_add_attribute, and writes nothing. */
TSR_API int tsr_array_try_constraint(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                                     const char *name, const char *text, tsr_error *error);

/* While `trust` is true, cells are not tested against the array's CHECK constraints: the host has tested them, or puts
 * back what was there. */
TSR_API void tsr_writer_trust(tsr_writer *writer, bool trust);
/* Tests the cell at index 0 of the columns as tsr_writer_append does, but only with the constraints that read a changed
 * field, as an UPDATE in SQLite does. `changed`: one for each field; NULL: all have changed. TSR_CHECK: it breaks
 * one. */
TSR_API int tsr_writer_test(tsr_writer *writer, const tsr_column *columns, const bool *changed, tsr_error *error);
TSR_API tsr_mark tsr_writer_mark(const tsr_writer *writer);
/* Undoes all changes since a mark of this writer. */
TSR_API int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error);
/* Looks for a cell with the coordinates at `index`, in `base` with the writer's changes on top. A cell of a dense array
 * exists if it was written. Returns 1 and its rowid, or 0. */
TSR_API int tsr_writer_find(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index,
                            int64_t *row, tsr_error *error);
/* Opens a snapshot of `base`, a snapshot of the current state, with the writer's changes so far on top. Cell number n
 * of the writer (0, 1, ... in the order of appending) has the rowid -2 - n and the time UINT64_MAX. Returns the same
 * snapshot again if nothing has changed since the last call. The caller closes it before the writer. */
TSR_API int tsr_snapshot_with(tsr_snapshot *base, tsr_writer *writer, tsr_snapshot **snapshot, tsr_error *error);
/* Writes the state `old` over the state `now`, within `dimensions` (one for each dimension; NULL: everything). Both
 * snapshots have the writer's schema, and `now` shows the writer's changes so far. Only cells whose bytes differ are
 * written or removed. `touched`: NULL, or for sparse arrays two snapshots, of the cells that were written and of those
 * that were dropped since `old` (tsr_snapshot_changed), with the writer's changes on top: few such cells are visited
 * one by one, instead of boxes around them. A cell of a dense array that is not in `old` becomes null, or where it
 * cannot be null, the fill value; so do attributes that `old` did not have. `memory_bytes` limits each of two readers;
 * 0 = 1 GiB. *changed: the number of cells that were written or removed. On an error nothing has changed. */
TSR_API int tsr_writer_revert(tsr_writer *writer, tsr_snapshot *now, tsr_snapshot *old, tsr_snapshot *const *touched,
                              const tsr_ranges *dimensions, uint64_t memory_bytes, uint64_t *changed, tsr_error *error);
/* Gives one field of those appended cells that are in memory, as a column borrowed until the writer is changed. */
TSR_API void tsr_writer_column(const tsr_writer *writer, uint32_t field, tsr_column *column);
/* After prepare: the path, relative to the array, of the file that publishes the commit. Borrowed until the writer is
 * changed. */
TSR_API const char *tsr_writer_commit(const tsr_writer *writer);
/* After prepare, for a writer without an owner: the host's own commit has happened, but tsr_writer_publish failed. From
 * now on readers of this tsr_array count the commit as committed, as they count one that a host's record names. That
 * ends when the commit is published or abandoned, or the writer is closed. Does nothing if the commit has an owner. */
TSR_API void tsr_writer_count_prepared(tsr_writer *writer);
/* Reopens the writer for more changes in two situations: after prepare, if the host's own commit has failed and its
 * transaction continues; and after publish, if the transaction of the store is still open, so that nobody else has seen
 * the commit. The next prepare makes a commit with a new time, even if nothing has changed. That prepare, or
 * tsr_writer_abandon, withdraws the old commit. */
TSR_API void tsr_writer_reopen(tsr_writer *writer);

/* ---- Rows of a query that become an array ------------------------------------------------------------------------ */

/* Appends rows of a query's block to an ingest, as tsr_ingest_set_integer, tsr_ingest_set_real and tsr_ingest_end_row
 * would: columns[i] is the ingest's column i, of type INTEGER, REAL or NULL; a NaN is a null. Takes rows from `first`
 * on, at most `rows`, and sets *taken to their number. 0: a value among them may need more than to be stored, so the
 * caller sets the row `first` by itself, which then has the right error. Values are copied. */
TSR_API int tsr_ingest_block(tsr_ingest *ingest, const tsr_query_column *columns, uint64_t first, uint64_t rows,
                             uint64_t *taken, tsr_error *error);

/* ---- Arrays that were prepared and not published ----------------------------------------------------------------- */

/* Returns the name of the schema file, borrowed until the creation is closed. A host can record it and pass it to
 * tsr_creation_find later. */
TSR_API const char *tsr_creation_schema_name(const tsr_creation *creation);
/* Finds an array that a process prepared at `path` but did not publish, because it died or gave up. `schema_name` is
 * the name that tsr_creation_schema_name returned. Returns 1 and the creation, 0 if there is no such prepared array.
 * Writes nothing: tsr_array_options.creation reads the array as it is, tsr_creation_publish publishes it.
 * tsr_creation_abandon does nothing to it. The caller closes the creation. */
TSR_API int tsr_creation_find(tsr_environment *environment, const char *path, const char *schema_name,
                              tsr_creation **creation, tsr_error *error);

/* ---- Options of hosts -------------------------------------------------------------------------------------------- */

typedef struct tsr_array_host { /* tsr_array_options.host */
  /* Decides whether a prepared, unpublished commit counts as committed; `commit` is the path that tsr_writer_commit
   * returned. Returns 1 if it counts, 0 if not, or a negative code if that cannot be determined: the read then fails
   * with this error. Called on the caller's thread for each prepared commit, and again until it returns 1. NULL: none
   * counts. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *committed_argument;
} tsr_array_host;

typedef struct tsr_writer_host { /* tsr_writer_options.host */
  /* The id of the owner that decides about the prepared commit after a crash: at most 64 printable bytes without
   * spaces. NULL: the commit has no owner. */
  const char *owner;
  /* With `owner`: path of the owner's database file, for messages. Its directory is synced before the commit is
   * published. Or NULL. */
  const char *owner_file;
  /* NULL, or a store for cells that do not fit into memory, to use instead of the array's own store. For arrays in a
   * store of the host whose savepoints may roll back files but not the writer's cells; ignored for arrays in
   * directories. The writer opens the tree "scratch" when it first needs it, and closes it in tsr_writer_close. */
  const tsr_host_store *scratch;
  void *scratch_argument;
} tsr_writer_host;

/* ---- Commits that were prepared and not published ---------------------------------------------------------------- */

/* Owners of prepared commits. An owner's id belongs to one database file in one place; copies of the file have other
 * ids.
 *
 * tsr_file_identity gives the place of a file, which distinguishes the file from its copies: a digest of device, inode,
 * birth time, absolute path, host name and the machine's boot. Returns 1; 0 if there is no file at this absolute path,
 * so that it has no place; an error if the system does not provide the information.
 *
 * tsr_owner_next gives the id of a file that had the id `owner` (any string) and is now at `place`. The same owner and
 * place always give the same id. Nobody can compute it without knowing both. */
#define TSR_OWNER_SIZE 33 /* 32 hex digits and NUL */
TSR_API int tsr_file_identity(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error);
TSR_API int tsr_owner_next(const char *owner, const char *place, char next[TSR_OWNER_SIZE], tsr_error *error);

typedef enum tsr_writer_state { TSR_WRITER_UNKNOWN, TSR_WRITER_LIVES, TSR_WRITER_GONE } tsr_writer_state;
typedef struct tsr_prepared { /* a prepared commit, from its marker; borrowed during the call */
  const char *commit; /* as tsr_writer_commit gave it */
  const char *marker; /* path in the array */
  const char *owner; /* NULL: an earlier version of tessera wrote the marker, with `file` only */
  const char *host, *file; /* where it was prepared, for messages; host may be NULL */
  uint64_t fragment_count;
  const char *const *fragments; /* their names */
  tsr_writer_state writer; /* UNKNOWN if the store has no locks */
  bool published; /* tsr_array_prepared only: the commit is published, and only its marker is left */
  uint64_t age; /* tsr_array_prepared only: of the marker, in milliseconds */
} tsr_prepared;

typedef enum tsr_recover_action { TSR_RECOVER_LEAVE, TSR_RECOVER_PUBLISH, TSR_RECOVER_UNDO } tsr_recover_action;

/* Settles the commits that writers with an owner have prepared and neither published nor abandoned, because their
 * process died or publishing failed. Calls `decide` for each of them, unless its writer is known to be alive, or a file
 * of the array shows that the commit was published. `decide` may return UNDO only for commits of its own owner, and
 * only while no other process of that owner can be between prepare and publish. `file`: path of the owner's database
 * (tsr_writer_host.owner_file), or NULL. Adds the number of settled commits to *changed; `changed` may be NULL.
 * TSR_CORRUPT: the files of a commit that must be published are gone. */
TSR_API int tsr_array_recover(tsr_array *array, const char *file,
                              tsr_recover_action (*decide)(void *argument, const tsr_prepared *prepared),
                              void *argument, uint64_t *changed, tsr_error *error);
/* Removes prepared commits whose owner is gone, and publishes nothing. `decide` returns PUBLISH for a commit that the
 * caller's own record names: it is removed only if its files are gone already. `decide` returns UNDO for any other
 * commit that may be removed. Commits that are less than 24 hours old or whose writer is alive stay; TSR_BUSY reports
 * them after everything else is done. `changed` as for tsr_array_recover. */
TSR_API int tsr_array_drop_orphans(tsr_array *array,
                                   tsr_recover_action (*decide)(void *argument, const tsr_prepared *prepared),
                                   void *argument, uint64_t *changed, tsr_error *error);
/* Returns 1 if the commit with this path has a marker: it is prepared, and neither published nor withdrawn; else 0.
 * TSR_RANGE: not the path of a commit (tsr_writer_commit). */
TSR_API int tsr_array_has_marker(tsr_array *array, const char *commit, tsr_error *error);
/* Calls `show` for each prepared commit and changes nothing. A negative code from `show` ends the call with that code.
 */
TSR_API int tsr_array_prepared(tsr_array *array, int (*show)(void *argument, const tsr_prepared *prepared),
                               void *argument, tsr_error *error);

/* ---- Polygons over grids ----------------------------------------------------------------------------------------- */

/* Polygons as they were read: rings of points in the units of the axes. */
typedef struct tsr_geometry tsr_geometry;
/* Reads a POLYGON or MULTIPOLYGON: with `text`, from GeoJSON (a geometry or a Feature), WKT or EWKT; else from WKB,
 * EWKB or the blob of a GeoPackage. Z, M and SRIDs are skipped. `bytes` may hold anything. memory_bytes limits the
 * points (0: 1 GiB). TSR_MISMATCH: it is something else, or damaged; the message says what is wrong and, if known, at
 * which byte. TSR_BUDGET: too many points. The caller closes the geometry before the environment. */
TSR_API int tsr_geometry_read(tsr_environment *environment, const void *bytes, uint64_t size, bool text,
                              uint64_t memory_bytes, tsr_geometry **geometry, tsr_error *error);
TSR_API void tsr_geometry_close(tsr_geometry *geometry);

/* The cells of a dimension, as intervals of an axis without gaps. */
typedef struct tsr_grid_axis tsr_grid_axis;
/* Makes an axis of cells by the values at their centres: `coordinates` rise, `centres` are finite and rise or fall
 * strictly. Edges lie midway between neighbours; the outermost cell is as wide beyond its centre as before it. `name`
 * is for messages. TSR_MISMATCH: fewer than two values, or values that neither rise nor fall, or are not finite. The
 * caller closes the axis before the environment. */
TSR_API int tsr_grid_axis_of_centres(tsr_environment *environment, const char *name, uint64_t count,
                                     const int64_t *coordinates, const double *centres, tsr_grid_axis **axis,
                                     tsr_error *error);
/* Makes an axis of `count` equal cells, whose first coordinate is `first`: it spans `origin` to origin + step. `step`
 * may be negative. TSR_MISMATCH: numbers that are not finite, or a step that gives cells no width. TSR_RANGE: no cells,
 * or more than 2^53. */
TSR_API int tsr_grid_axis_affine(tsr_environment *environment, const char *name, uint64_t count, int64_t first,
                                 double origin, double step, tsr_grid_axis **axis, tsr_error *error);
TSR_API void tsr_grid_axis_close(tsr_grid_axis *axis);

typedef enum tsr_sample_method { /* how the value at a point between cells follows from the cells around it */
                                 TSR_SAMPLE_LINEAR, /* two cells, by the distances to their centres */
                                 TSR_SAMPLE_NEAREST, /* of two equally near cells that of the lower coordinate */
                                 TSR_SAMPLE_CUBIC /* four cells, by cubic convolution with a = -0.5; beside an end, where there are no four, linear */
} tsr_sample_method;
#define TSR_WEIGHTS_MAX 4
typedef struct tsr_weights { /* the cells around a point, along one dimension; the weights sum to 1 */
  uint32_t count; /* at least 1; exactly 1 if the point is at the centre of a cell */
  uint64_t cells[TSR_WEIGHTS_MAX];
  double weights[TSR_WEIGHTS_MAX];
} tsr_weights;
/* Weighs cells 0 to `last` around the point that is a share `part`, 0 or above and below 1, of the way from cell
 * `index` to the next one. `index` UINT64_MAX: the cell before cell 0. Returns 1; 0 if the point is outside: beyond the
 * centres of the outermost cells, with NEAREST by more than half a cell. */
TSR_API int tsr_cells_weigh(tsr_sample_method method, uint64_t index, double part, uint64_t last, tsr_weights *weights);
/* The same for a value on an axis: `cells` then are coordinates; of UINT64 and signed dimensions their bits. With
 * `wrap` above 0 the value counts at every multiple of it, and if the axis is as long as that, its ends are neighbours.
 * CUBIC is for even axes. */
TSR_API int tsr_grid_axis_weigh(const tsr_grid_axis *axis, tsr_sample_method method, double value, double wrap,
                                tsr_weights *weights);
/* Returns true if the centres of all cells are equally far from their neighbours, within a hundredth. */
TSR_API bool tsr_grid_axis_is_even(const tsr_grid_axis *axis);

typedef enum tsr_cover_rule {
  TSR_COVER_FRACTION, /* the share of the cell's area that the polygon has */
  TSR_COVER_CENTRE, /* 1 for cells whose centre it contains */
  TSR_COVER_TOUCHED /* 1 for cells whose interior it meets */
} tsr_cover_rule;
typedef struct tsr_cover_request {
  const tsr_geometry *geometry; /* this and the axes: borrowed until the cover is closed */
  const tsr_grid_axis *y, *x;
  tsr_cover_rule rule;
  double wrap; /* the geometry is repeated along x at this distance; 0: not */
  uint64_t memory_bytes; /* 0: 1 GiB */
} tsr_cover_request;
typedef struct tsr_cover_run { /* cells of one y, from x_from to x_to, of equal coverage above 0 */
  int64_t y, x_from, x_to; /* coordinates; of UINT64 dimensions their bits */
  double coverage; /* at most 1 */
} tsr_cover_run;
typedef struct tsr_cover tsr_cover;
/* Cuts polygons into maximal runs of cells. A ring covers the points around which it winds at least once, in either
 * direction; a polygon is its first ring less its others; parts add up, to 1 at most. TSR_MISMATCH: `wrap` is not
 * finite or below 0. TSR_BUDGET: the sides, or those that cross one row of cells, exceed memory_bytes. */
TSR_API int tsr_cover_open(tsr_environment *environment, const tsr_cover_request *request, tsr_cover **cover,
                           tsr_error *error);
/* Gives the next run, by ascending y, then x. Returns 1; 0 at the end. */
TSR_API int tsr_cover_next(tsr_cover *cover, tsr_cover_run *run, tsr_error *error);
TSR_API void tsr_cover_close(tsr_cover *cover);

/* Returns true if a filter changes coordinates of a sparse array: scale_float rounds. Non-empty domains and MBRs are
 * made before the filter runs, so they can neither exclude cells nor spare a look at them. */
TSR_API bool tsr_coordinates_lossy(const tsr_schema *schema);

/* Returns true if the field has a DEFAULT. A schema does not say whether its fill value was declared, but one other
 * than TileDB's default must have been. */
TSR_API bool tsr_field_has_default(const tsr_field *field);

/* ---- Web map tiles ----------------------------------------------------------------------------------------------- */

/* What the pixels of one side of a picture show, for tsr_downsample_open. A place is a set of coordinates, and a pixel
 * is the mean of the cells of one place or several. A cell may be in several pixels, and a pixel may have no cells. */
typedef struct tsr_downsample_run { /* coordinates low to high are of the place; of UINT64 dimensions their bits */
  int64_t low, high;
  uint32_t place;
} tsr_downsample_run;
typedef struct tsr_downsample_side {
  /* [run_count], in any order, of tsr_web_side_open by ascending places; no two overlap */
  const tsr_downsample_run *runs;
  uint64_t run_count;
  uint32_t places, pixels;
  const uint32_t *shown; /* the places of pixel i are shown[ends[i - 1]] to shown[ends[i] - 1]; ends[-1] is 0 */
  const uint64_t *ends; /* [pixels] */
} tsr_downsample_side;

#define TSR_WEB_ZOOM_MAX 30
typedef struct tsr_web_request { /* one side of an XYZ tile of Web Mercator, in degrees */
  const tsr_grid_axis *axis; /* longitudes of the columns, or latitudes of the rows */
  bool rows; /* pixels go from north to south; else from west to east, and longitudes repeat every 360 degrees */
  bool nearest; /* a pixel shows the cell around its centre, even if it has centres of others */
  unsigned zoom; /* at most TSR_WEB_ZOOM_MAX */
  uint64_t number; /* x or y of the tile, below 2^zoom */
  uint32_t pixels; /* 1 to 4096 */
  /* of an overview: its cell k has the coordinates from `low` + k * 2^shift on; its coordinates begin at 0 */
  unsigned shift;
  int64_t low; /* the lowest coordinate of the dimension that an overview halves */
} tsr_web_request;
typedef struct tsr_web_side {
  tsr_downsample_side side;
  uint64_t cells; /* how many cells have their centres within the tile */
  uint32_t filled; /* how many pixels show a cell */
} tsr_web_side;
/* Finds the cells of each pixel: those whose centres it has, from its southern or western edge on; if it has none, the
 * cell around its own centre. TSR_MISMATCH: longitudes that span more than 540 degrees. The caller closes the side
 * before the environment; it does not need the axis any more. */
TSR_API int tsr_web_side_open(tsr_environment *environment, const tsr_web_request *request, tsr_web_side **side,
                              tsr_error *error);
TSR_API void tsr_web_side_close(tsr_web_side *side);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Sets an error's code and message, with the subject 0, and returns the code. The message becomes valid UTF-8 without
 * control characters; texts that `%.64s` shortens lose whole characters. An argument may be the error's own message.
 * With a NULL error it only returns the code. A code that is not negative counts as TSR_ERROR. */
TSR_API int tsr_error_set(tsr_error *error, int code, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* ---- Bytes as text ----------------------------------------------------------------------------------------------- */

TSR_API int tsr_hex_digit(char c); /* the digit's value, or -1 */
/* Writes two lowercase digits for each byte, and a NUL. */
TSR_API void tsr_hex_write(const void *bytes, uint64_t size, char *text);
/* Reads `size` bytes of two digits each. Returns false at the first character that is not a digit, and reads none
 * behind it: so `text` may be a shorter one that ends with a NUL. */
TSR_API bool tsr_hex_read(const char *text, uint64_t size, void *bytes);

/* Returns the size in bytes of the UTF-8 character at p, or 0 if the bytes there are not valid UTF-8. Reads at most
 * `left` bytes; `left` is at least 1. */
TSR_API unsigned tsr_utf8_size(const uint8_t *p, uint64_t left);
/* Returns how many bytes of a text, at most `most`, to show, so that no character is cut. */
TSR_API uint64_t tsr_utf8_cut(const void *text, uint64_t size, uint64_t most);

/* Base64 (RFC 4648). */
typedef enum tsr_base64 {
  TSR_BASE64, /* with '+' and '/', and '=' up to a multiple of 4 characters */
  TSR_BASE64_URL /* with '-' and '_', and without '=' */
} tsr_base64;
/* Writes 4 characters for each 3 bytes or part of them, and a NUL. Returns the number of characters, without the
 * NUL. */
TSR_API uint64_t tsr_base64_write(tsr_base64 form, const void *bytes, uint64_t size, char *text);
/* Reads base64, with or without the '=' at its end. `bytes` has room for 3 bytes for each 4 characters or part of them.
 * Returns false if the text is not base64. */
TSR_API bool tsr_base64_read(tsr_base64 form, const char *text, uint64_t size, void *bytes, uint64_t *count);

/* Decodes a JSON string in place, from its first quote on; a string without its escapes is never longer than with them.
 * *text is the string, *size its bytes, some of which may be NUL, and a NUL follows. Returns the character after the
 * last quote. If it is not a valid string, returns NULL, and *text is where reading ended. `json` is NUL-terminated. */
TSR_API char *tsr_json_unescape(char *json, char **text, uint64_t *size);

/* ---- Numbers and instants as text -------------------------------------------------------------------------------- */

#define TSR_REAL_SIZE 40 /* bytes for a number of tsr_real_print, with its NUL */
/* Writes a number with `digits` significant digits, at most 17, like printf's %.*g, but with a point in every locale.
 * Others are "inf", "-inf" and "nan". Returns the number of bytes written, without the NUL. */
TSR_API int tsr_real_print(double value, int digits, char text[TSR_REAL_SIZE]);
#define TSR_REAL_TEXT 4096 /* most bytes of a number that tsr_real_parse reads */
/* Reads a number as strtod does, but with a point in every locale. The text need not be NUL-terminated. Sets *value,
 * and *single unless it is NULL: each is rounded once. Returns false if the text is not a number, or too long. */
TSR_API bool tsr_real_parse(const char *text, uint64_t size, double *value, float *single);

/* Where an instant is among the values of a datatype. */
typedef enum tsr_instant_place {
  TSR_INSTANT_NONE, /* the text is not ISO-8601 */
  TSR_INSTANT_AT, /* it is *value */
  TSR_INSTANT_BEFORE, /* between *value and the value before it */
  TSR_INSTANT_END /* after all values */
} tsr_instant_place;
/* Locates the first instant of ISO-8601 text of any precision. */
TSR_API tsr_instant_place tsr_datetime_place(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value);
/* Returns how far that instant is past the last value not after it, as a fraction of the unit: at least 0, less than 1.
 * For noon in days it is 0.5. 0 also if the text is not ISO-8601. */
TSR_API double tsr_datetime_part(tsr_datatype datatype, const char *text, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
