/* tessera.h: arrays in the TileDB format, read and written from C.
 *
 * Caveats first.
 *  - Functions return TSR_OK (0), a positive answer where that is said, or a negative code; then the caller's tsr_error
 *    says what was asked, what is wrong and where. An error pointer may be NULL. Out-parameters are set only on success.
 *  - An environment and all that is opened from it belong to one thread at a time. Worker threads never call back into
 *    the caller, but for `reallocate`, which must be thread-safe if any request asks for more than one thread.
 *  - Whatever is "borrowed" is valid until the call that is named, and is never freed by the caller.
 *  - Sizes and counts are bytes and cells in uint64_t. Times are milliseconds since 1970-01-01 UTC.
 *  - Files are hostile until validated: damage is an error (TSR_CORRUPT), never a crash.
 *
 * Order of use: environment -> array -> snapshot (what is visible between two times) -> reader -> batches of columns.
 * The format is described in docs/format.md, the design in docs/design.md.
 */
#ifndef TESSERA_H
#define TESSERA_H

#include "tessera_format.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_VERSION "0.1.0"

/* ---- Errors -------------------------------------------------------------------------------------------------- */

/* name, code, what it means */
#define TSR_CODES(X)                                                                                                   \
  X(OK, 0, "no error")                                                                                                 \
  X(ERROR, -1, "a request that cannot be carried out, said in the message")                                            \
  X(NOMEM, -2, "the machine, or the host, has no more memory")                                                         \
  X(CORRUPT, -3, "damaged data")                                                                                       \
  X(NOT_FOUND, -4, "a path or an object that does not exist")                                                          \
  X(IO, -5, "the store failed")                                                                                        \
  X(FULL, -6, "the store is full")                                                                                     \
  X(AUTH, -7, "the key is missing or wrong")                                                                           \
  X(MISMATCH, -8, "a value of the wrong kind")                                                                         \
  X(RANGE, -9, "a value outside its limits")                                                                           \
  X(CONSTRAINT, -10, "a rule of the schema is broken")                                                                 \
  X(TOOBIG, -11, "a result past a limit of the host")                                                                  \
  X(READONLY, -12, "the object cannot be written")                                                                     \
  X(INTERRUPT, -13, "the host asked to stop")                                                                          \
  X(ABORT, -14, "the array changed underneath: vacuumed during this statement")                                        \
  X(PERM, -15, "the path is not allowed")                                                                              \
  X(EXISTS, -16, "something is already there")                                                                         \
  X(UNSUPPORTED, -17, "a format version or filter that this library does not know")                                    \
  X(BUSY, -18, "somebody else holds a lock")                                                                           \
  X(BUDGET, -19, "past the memory budget that was set (memory_mb); there may be more memory")

typedef enum tsr_code {
#define X(name, code, text) TSR_##name = code,
  TSR_CODES(X)
#undef X
} tsr_code;

#define TSR_MESSAGE_SIZE 1024

/* Owned by the caller; `= {0}` is empty. The message is UTF-8, the newest context stands first; what is too long has
 * "..." in its middle. */
typedef struct tsr_error {
  int code;
  char message[TSR_MESSAGE_SIZE];
  uint64_t subject; /* used by the library alone: what the error is about (base/error.h) */
} tsr_error;

/* The name of a code, "CORRUPT" for TSR_CORRUPT; "UNKNOWN" for others. */
TSR_API const char *tsr_code_name(int code);

/* ---- Environment --------------------------------------------------------------------------------------------- */

typedef struct tsr_environment tsr_environment;

typedef struct tsr_environment_options { /* `= {0}` is the default */
  void *(*reallocate)(void *argument, void *pointer,
                      uint64_t size); /* as realloc; size 0 frees. NULL: the C library's */
  void *reallocate_argument;
  uint64_t largest_block; /* bytes that `reallocate` gives at once, at most: more are TSR_BUDGET; 0: any */
  bool (*interrupted)(
      void *argument); /* asked on the caller's thread in all long work; true stops it with TSR_INTERRUPT */
  void *interrupted_argument;
  bool single_threaded; /* never start a worker */
  /* Asked before a directory is opened or made, with its path: an error code (< 0) refuses it. NULL: all are fine */
  int (*permits)(void *argument, const char *path, tsr_error *error);
  void *permits_argument;
} tsr_environment_options;

/* Allocates an environment; close it after everything that was opened from it. */
TSR_API int tsr_environment_open(const tsr_environment_options *options, tsr_environment **environment,
                                 tsr_error *error);
TSR_API void tsr_environment_close(tsr_environment *environment);
/* Binds the environment to a directory, for good: from now on its arrays and groups, those that are open too, are read
 * and written below it only. Within them no symbolic link is followed, and no file is read that has several names (hard
 * links). It can be bound to a narrower directory later. TSR_PERM: what is refused then, and a directory that is not
 * below the last. Trees of the host's are not bound. */
TSR_API int tsr_environment_confine(tsr_environment *environment, const char *directory, tsr_error *error);
/* Does a path lead below a directory, or to it? 1, 0. Links and ".." are resolved, of what is not there yet as far as
 * it is. */
TSR_API int tsr_path_lies_below(tsr_environment *environment, const char *path, const char *directory,
                                tsr_error *error);
/* Reads a file of the system's, at most `room` bytes of it, within the environment's bound. *size: so many were read. */
TSR_API int tsr_file_read(tsr_environment *environment, const char *path, void *bytes, uint64_t room, uint64_t *size,
                          tsr_error *error);
/* What `permits` and the environment's bound say of a path; TSR_OK for those of a host's store. */
TSR_API int tsr_path_permitted(tsr_environment *environment, const char *path, tsr_error *error);

/* Counters since the last reset, in this order; a tile counts once for each field in tiles_read, tiles_cached and
 * tiles_ahead (those of tiles_read that were begun before they were wanted), once in the others. */
/* clang-format off */
#define TSR_COUNTERS(X) \
  X(files_opened) X(fragments_considered) X(fragments_skipped) X(tiles_considered) \
  X(tiles_skipped_by_domain) X(tiles_skipped_by_value) X(tiles_read) X(tiles_cached) \
  X(bytes_read) X(bytes_decoded) X(cells_decoded) X(rows_returned) \
  X(commits_listed) X(tiles_ahead)
/* clang-format on */
typedef struct tsr_counters {
#define X(name) uint64_t name;
  TSR_COUNTERS(X)
#undef X
} tsr_counters;
TSR_API void tsr_environment_counters(const tsr_environment *environment, tsr_counters *counters);
TSR_API void tsr_environment_reset_counters(tsr_environment *environment);
/* For hosts that hand out rows themselves. */
TSR_API void tsr_environment_count_rows(tsr_environment *environment, uint64_t rows);

/* ---- Progress -------------------------------------------------------------------------------------------------- */

/* What this process is at: consolidate, vacuum, check, export, import, copy, commit, write, read, aggregate, draw. Done
 * and total are in units of the work (cells, files, bytes); total is 0 as long as it is not known, and may grow. */
#define TSR_PROGRESS_MAX 64 /* at once; more are not shown */
typedef struct tsr_progress {
  char operation[24], path[256]; /* a path that is longer begins with "..." */
  uint64_t done, total; /* done <= total */
  uint64_t started; /* time */
} tsr_progress;
/* Copies at most `room` of them, the oldest first; returns how many. From any thread. */
TSR_API uint64_t tsr_progress_list(tsr_progress *entries, uint64_t room);

/* For work of the host's own. It lies with the caller, from begin to end, which every begin needs; what begins within it
 * on the same environment ends before it. What is done is added to the innermost. */
typedef struct tsr_work {
  struct tsr_work *outer;
  int slot; /* -1: it is not shown */
  uint64_t serial;
} tsr_work;
TSR_API void tsr_work_begin(tsr_environment *environment, tsr_work *work, const char *operation, const char *path,
                            uint64_t total);
TSR_API void tsr_work_done(tsr_environment *environment, uint64_t more);
TSR_API void tsr_work_end(tsr_environment *environment, tsr_work *work);

/* ---- Stores of the host -------------------------------------------------------------------------------------- */

/* Arrays lie in directories, and wherever else the host says: paths that begin with a SCHEME and a colon lead to trees of
 * files that are its own. Every function that takes a path takes such paths.
 *
 * Within a tree a path has parts separated by '/'; "" is the root. Callbacks run on the caller's thread only, never on
 * workers. They return TSR_OK, or a code that stands in `error` too, with a message that says only what is
 * wrong: paths are put before it. They may not use the environment. Files appear by create_exclusive, grow by append, are whole after sync,
 * and never change again. */
typedef struct tsr_listing tsr_listing;
typedef enum tsr_entry_kind { TSR_ENTRY_FILE, TSR_ENTRY_DIRECTORY, TSR_ENTRY_OTHER } tsr_entry_kind;
/* One more entry of a listing, in any order; the name is copied. */
TSR_API int tsr_listing_add(tsr_listing *listing, const char *name, tsr_entry_kind kind, tsr_error *error);

typedef struct tsr_host_store {
  /* `path` as it was given, with its scheme. What is not there may be opened; then nothing is found in it. */
  int (*open)(void *argument, const char *path, void **tree, tsr_error *error);
  void (*close)(void *tree); /* after its files */
  int (*open_file)(void *tree, const char *path, void **file, uint64_t *size, tsr_error *error); /* or NOT_FOUND */
  int (*create_exclusive)(void *tree, const char *path, void **file, tsr_error *error); /* or TSR_EXISTS */
  void (*close_file)(void *file);
  int (*read_at)(void *file, uint64_t offset, void *buffer, uint64_t size, tsr_error *error); /* within its size */
  int (*append)(void *file, const void *bytes, uint64_t size, tsr_error *error);
  int (*sync)(void *file, tsr_error *error);
  int (*list)(void *tree, const char *path, tsr_listing *listing, tsr_error *error); /* or TSR_NOT_FOUND */
  /* A number that is another whenever the entries of the directory are others; 0 where it does not exist. */
  int (*stamp)(void *tree, const char *path, uint64_t *stamp, tsr_error *error);
  int (*modified)(void *tree, const char *path, uint64_t *milliseconds, tsr_error *error); /* since 1970; NOT_FOUND */
  /* A file or directory with all in it. Replaces a file, or an empty directory; if exclusive, TSR_EXISTS. */
  int (*rename)(void *tree, const char *from, const char *to, bool exclusive, tsr_error *error);
  int (*remove)(void *tree, const char *path, tsr_error *error); /* a file, or an empty directory (else TSR_EXISTS) */
  int (*make_directory)(void *tree, const char *path, tsr_error *error); /* TSR_EXISTS; of the root: if not empty */
} tsr_host_store;

/* The store and its scheme (letters) are borrowed as long as the environment lives. */
TSR_API int tsr_environment_add_store(tsr_environment *environment, const char *scheme, const tsr_host_store *store,
                                      void *argument, tsr_error *error);

/* ---- Arrays -------------------------------------------------------------------------------------------------- */

typedef struct tsr_array tsr_array;

typedef struct tsr_array_options {
  const uint8_t *key; /* 32 bytes (AES-256), copied; NULL if the array is not encrypted */
  uint64_t cache_bytes; /* decoded tiles kept, at most; 0 = 256 MiB */
  unsigned threads; /* that read and decode; 0 = the number of cores, at most 8 */
  const struct tsr_creation *creation; /* NULL, or a prepared array ("Writing"), opened before it is published: for
                                          this handle it is there already, can be written to, and stays the same when
                                          it appears */
  /* Is a commit that was prepared and not published (`commit` is its tsr_writer_commit) to count as committed? 1, 0, or
   * why that cannot be known, which is what the reader is told. Asked on the caller's thread for each of them, and until
   * the answer is yes; NULL: it is not. */
  int (*committed)(void *argument, const char *commit, tsr_error *error);
  void *committed_argument;
} tsr_array_options;

/* Opens the array in the directory `path` (a path, or a file:// URI; percent-escapes of a URI are decoded). Reads its
 * schemas, not its fragments. TSR_NOT_FOUND where no array is; TSR_AUTH for a missing or wrong key. */
TSR_API int tsr_array_open(tsr_environment *environment, const char *path, const tsr_array_options *options,
                           tsr_array **array, tsr_error *error);
TSR_API void tsr_array_close(tsr_array *array); /* after its snapshots and readers; NULL is fine */
TSR_API void tsr_array_set_cache(tsr_array *array, uint64_t cache_bytes);
TSR_API const char *tsr_array_path(const tsr_array *array); /* borrowed: as given, without file:// */

/* Times that mean "not given". */
#define TSR_TIME_BEGIN 0
#define TSR_TIME_NOW   UINT64_MAX

/* The schema in force at `as_of`: the last by name among those not later. Borrowed until the array is closed. */
TSR_API int tsr_array_schema(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);
/* The same of what the last look at the directories has found, that of the newest snapshot, say. */
TSR_API int tsr_array_schema_listed(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);
/* Has the last look found it, too? Schemas are never removed: one that was there, and is not now, belonged to another
 * array, and the error says so. */
TSR_API int tsr_array_has_schema(const tsr_array *array, const tsr_schema *schema, tsr_error *error);

/* The enumeration `name` of `schema`, loaded. Borrowed until the array is closed. */
TSR_API int tsr_array_enumeration(tsr_array *array, const tsr_schema *schema, const char *name,
                                  const tsr_enumeration **enumeration, tsr_error *error);

/* ---- Snapshots: what is visible between two times ------------------------------------------------------------- */

typedef struct tsr_snapshot tsr_snapshot;

/* `schema` is whose fields readers show, one of this array (tsr_array_schema); NULL: the one in force at `as_of`. An
 * attribute that a fragment lacks reads as its fill value, unwritten.
 *
 * The state of the array between two times, both inclusive. Lists the array's directories only where they have changed
 * since the last listing; fragments that are known are not read again. Fragments are opened (their footers read) here.
 */
TSR_API int tsr_snapshot_open(tsr_array *array, const tsr_schema *schema, uint64_t since, uint64_t as_of,
                              tsr_snapshot **snapshot, tsr_error *error);
TSR_API void tsr_snapshot_close(tsr_snapshot *snapshot); /* after its readers; NULL is fine */
/* While frozen, snapshots of the array come from the listing and the clock of this moment: one state for a transaction.
 * What others have merged with later commits, and vacuumed, cannot be seen so any more: TSR_ABORT. tsr_writer_prepare
 * lists by itself. */
TSR_API int tsr_array_freeze(tsr_array *array, bool frozen, tsr_error *error);
TSR_API const tsr_schema *tsr_snapshot_schema(const tsr_snapshot *snapshot); /* borrowed */
/* 1 and the box around all that has been written, one interval per dimension (borrowed until the snapshot is closed); 0
 * if empty. */
TSR_API int tsr_snapshot_non_empty_domain(tsr_snapshot *snapshot, const tsr_interval **intervals, tsr_error *error);

/* ---- Reading --------------------------------------------------------------------------------------------------- */

/* One range of a dimension, values in the dimension's datatype; NULL is an open end. low > high is empty, not an error.
 */
typedef struct tsr_range {
  const void *low, *high;
  uint64_t low_size, high_size; /* bytes; for strings only */
  bool low_exclusive, high_exclusive;
} tsr_range;

typedef struct tsr_ranges { /* of one dimension: their union, in any order */
  const tsr_range *ranges;
  uint64_t count;
  bool all; /* the whole dimension; then ranges and count are not looked at */
  const struct tsr_ranges *also; /* another union that must hold too, or NULL */
} tsr_ranges;

/* What must hold of an attribute. NULLs: null cells, NaN of floats, and what is unwritten (but see fill_unwritten). */
typedef enum tsr_predicate_kind {
  TSR_PREDICATE_WITHIN, /* it is no null, and lies in the ranges: attributes of one number, datetime or time in a cell,
                           and strings of CHAR, ASCII and UTF8 */
  TSR_PREDICATE_IS_NULL,
  TSR_PREDICATE_NOT_NULL
} tsr_predicate_kind;
typedef struct tsr_predicate {
  uint32_t field;
  tsr_predicate_kind kind;
  bool negated; /* what would not pass does, and the reverse: "null, or outside of the ranges" */
  bool nat_is_null; /* datetimes and times: NaT (the least int64) is null, too */
  tsr_ranges ranges; /* values in the attribute's datatype; "not equal" is two exclusive ranges */
} tsr_predicate;

typedef struct tsr_sort { /* rows by a dimension's values; NaN is less than all numbers */
  uint32_t dimension;
  bool descending;
} tsr_sort;

typedef struct tsr_request {
  const tsr_ranges *dimensions; /* one per dimension, or NULL: everything */
  const bool *fields; /* one per field of the snapshot's schema: decoded ahead, in parallel; NULL: none. Others are
                         decoded when asked for */
  const tsr_predicate *predicates; /* all of them must hold */
  uint32_t predicate_count;
  bool fill_unwritten; /* predicates see the fill value where there is no other; false: null */
  const tsr_sort *order; /* rows come in this order, the first dimension first; equal ones in any */
  uint32_t order_count; /* 0: in whatever order is cheapest */
  bool distinct; /* of rows that are equal in all dimensions of the order, one is enough: others may be left out. No
                    other field may be asked for, nor in the predicates */
  bool times; /* cell times are wanted (tsr_batch.times) */
  uint64_t limit; /* how many rows are likely to be taken; 0 = all. A hint: rows go on after it */
  uint64_t memory_bytes; /* working memory, at most; 0 = 1 GiB */
  unsigned threads; /* 0 = the array's */
} tsr_request;

/* What a request is likely to cost; the same code that the reader uses selects fragments and tiles. Reads R-trees if it
 * must. */
typedef struct tsr_estimate {
  double rows;
  double written; /* of these, at most so many were written: less than all in dense arrays alone */
  double tiles; /* tiles that would be read, for each field */
  double cells; /* cells that would be decoded */
  uint64_t fragments;
} tsr_estimate;
TSR_API int tsr_request_estimate(tsr_snapshot *snapshot, const tsr_request *request, tsr_estimate *estimate,
                                 tsr_error *error);

/* The values of one field for the cells of a batch. A cell's index i is said by the batch; j = constant ? 0 : i.
 *   fixed size:      the value is at (uint8_t *)values + j * cell_size
 *   variable size:   the bytes values[offsets[j] .. offsets[j + 1])
 * Borrowed until the next tsr_reader_next. */
typedef struct tsr_column {
  const void *values;
  const uint64_t *offsets;
  const uint8_t *validity; /* NULL: no nulls; else a byte per cell (at index 0 if constant), 0 = null */
  uint64_t cell_size; /* 0 if variable */
  bool constant; /* one value for all cells */
  bool unwritten; /* never written, or an attribute that the cells' fragment lacks: the value is the fill value */
} tsr_column;

/* Cells of one tile, or gathered from several. Row r (0 <= r < count) has index i = selection ? selection[r] : first +
 * r. */
typedef struct tsr_batch {
  uint64_t count;
  const uint32_t *selection;
  uint64_t first;
  int64_t row_base; /* the rowid of index i is rowids ? rowids[i] : row_base + i */
  const int64_t *rowids;
  bool written; /* false: cells of a dense array that were never written */
  uint64_t time; /* when they were written: times ? times[i] : time */
  const uint64_t *times;
  uint64_t
      fragment; /* whose cells they are, in the order of tsr_fragment_describe; TSR_FRAGMENT_NONE: of several, or of none */
} tsr_batch;
#define TSR_FRAGMENT_NONE UINT64_MAX
/* Row r's index i, and the rowid of index i. */
static inline uint64_t tsr_batch_index(const tsr_batch *batch, uint64_t row) {
  return batch->selection ? batch->selection[row] : batch->first + row;
}
static inline int64_t tsr_batch_rowid(const tsr_batch *batch, uint64_t index) {
  return batch->rowids ? batch->rowids[index] : batch->row_base + (int64_t)index;
}

typedef struct tsr_reader tsr_reader;

/* A reader over a snapshot, to be started and started again (a join starts it for each outer row; it keeps its memory).
 */
TSR_API int tsr_reader_open(tsr_snapshot *snapshot, tsr_reader **reader, tsr_error *error);
TSR_API void tsr_reader_close(tsr_reader *reader); /* NULL is fine */
/* Ends what it was started for. A reader that is started again and again keeps the tiles that it used last, within its
 * budget, unless it is to `forget` them. Returns how many bytes it keeps beside these for the next start. */
TSR_API uint64_t tsr_reader_rest(tsr_reader *reader, bool forget);
TSR_API int tsr_reader_start(tsr_reader *reader, const tsr_request *request, tsr_error *error); /* copies the request */
/* 1 and the next batch, with at least one row (borrowed until the next call on this reader); 0 at the end. */
TSR_API int tsr_reader_next(tsr_reader *reader, const tsr_batch **batch, tsr_error *error);
/* The row of this rowid: 1 and a batch of one row (columns by tsr_reader_column); 0 if the snapshot has none. Ends what
 * the reader was started for. */
TSR_API int tsr_reader_find(tsr_reader *reader, int64_t row, const tsr_batch **batch, tsr_error *error);
/* The column of a field for the current batch, decoded now if it was not asked for. */
TSR_API int tsr_reader_column(tsr_reader *reader, uint32_t field, const tsr_column **column, tsr_error *error);

/* ---- Blocks: boxes of dense arrays as memory ----------------------------------------------------------------------- */

/* How many cells a box has (one interval for each dimension), and on each dimension (`counts`, or NULL). TSR_RANGE where
 * it is not within the domain, TSR_ERROR for sparse arrays. */
TSR_API int tsr_block_cells(const tsr_snapshot *snapshot, const tsr_interval *box, uint64_t *counts, uint64_t *cells,
                            tsr_error *error);
/* The values of an attribute of fixed length in a box, row-major (the last dimension is the fastest), into `out`: cells
 * times cell_size bytes. Null, and what was never written, is the fill value. Working memory is at most `memory_bytes`
 * (0: 1 GiB); threads 0: the array's. */
TSR_API int tsr_block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                           unsigned threads, void *out, uint64_t size, tsr_error *error);

/* ---- Aggregates ------------------------------------------------------------------------------------------------- */

/* Count, sum, minimum and maximum of a field over a box, all together or for each value of some dimensions: in
 * parallel, over columns, and from the statistics of tiles where they can be believed, without reading these.
 * Nulls are null cells, NaN, and what was never written. */
#define TSR_BY_MAX 3
typedef struct tsr_aggregate_request {
  const tsr_ranges *dimensions; /* one per dimension, or NULL: everything */
  uint32_t field; /* one number, BOOL, datetime or time in a cell */
  const uint32_t *by; /* dimensions; the groups come in the order of their values */
  uint32_t by_count;
  bool read_all; /* nothing is taken from statistics */
  uint64_t memory_bytes; /* working memory and groups, at most; 0 = 1 GiB */
  unsigned threads; /* 0 = the array's */
} tsr_aggregate_request;
typedef struct tsr_aggregate_row {
  const void *keys[TSR_BY_MAX]; /* a value of each dimension in `by` */
  uint64_t key_sizes[TSR_BY_MAX]; /* bytes */
  uint64_t count, nulls; /* cells that are no null, and those that are */
  bool fits; /* integers: the sum fits into 64 bits, signed */
  int64_t sum; /* integers, if it fits; else 0 */
  double real_sum; /* the sum, rounded */
  uint8_t min[8], max[8]; /* in the field's datatype; zeros where count is 0 */
} tsr_aggregate_row;
typedef struct tsr_aggregate tsr_aggregate;
/* All is read here. TSR_BUDGET, naming memory_mb, where there are more groups than fit. Closed by the caller, before the
 * snapshot. */
TSR_API int tsr_aggregate_open(tsr_snapshot *snapshot, const tsr_aggregate_request *request, tsr_aggregate **aggregate,
                               tsr_error *error);
TSR_API void tsr_aggregate_close(tsr_aggregate *aggregate); /* NULL is fine */
/* Groups that have cells, in the order of their keys; without `by` there is one, with cells or without. */
TSR_API uint64_t tsr_aggregate_count(const tsr_aggregate *aggregate);
/* Its keys are borrowed until the next call. */
TSR_API void tsr_aggregate_get(tsr_aggregate *aggregate, uint64_t index, tsr_aggregate_row *row);

/* ---- Rasters: two dimensions as a picture ------------------------------------------------------------------------- */

/* A box as a grid of places, each the mean of the cells that lie in it; read batch by batch, in parallel. A dimension of
 * n values is spread over p <= n places: value i lies in place i * p / n. Of floats, places are equal parts of the box. */
typedef struct tsr_downsample_request {
  const tsr_interval *box; /* one per dimension */
  uint32_t field; /* an attribute of one number, BOOL, datetime or time in a cell */
  uint32_t row, column; /* two dimensions, no strings */
  uint64_t height, width; /* places, at least 1; of integers no more are made than the box has values */
  bool skip_fill; /* cells that hold the attribute's fill value are left out, as nulls are */
  uint64_t memory_bytes; /* working memory and places, at most; 0 = 1 GiB */
  unsigned threads; /* 0 = the array's */
} tsr_downsample_request;
typedef struct tsr_downsample {
  uint64_t height, width;
  const double *means; /* row after row, low ends first; NaN where no cell lies */
  uint64_t cells; /* that were averaged: neither null, NaN, NaT nor unwritten */
  uint64_t most; /* of them in one place */
  double min, max; /* of their values that are finite; min > max where there are none */
} tsr_downsample;
/* TSR_BUDGET, naming memory_mb, where there are more places than fit. Closed by the caller; needs no snapshot then. */
TSR_API int tsr_downsample_open(tsr_snapshot *snapshot, const tsr_downsample_request *request,
                                tsr_downsample **downsample, tsr_error *error);
TSR_API void tsr_downsample_close(tsr_downsample *downsample); /* NULL is fine */

/* ---- Partitions: slices of about equal work ----------------------------------------------------------------------- */

#define TSR_CUT_TEXT 64 /* bytes of a string at which slices are cut, at most */
/* Where a slice was cut off on a dimension. */
typedef struct tsr_cut {
  bool has_low, has_high; /* false: it goes to the end */
  tsr_interval values; /* the ends that it has, inclusive */
  bool low_after; /* strings: the slice begins behind this low end, not with it */
  uint8_t next[8]; /* floats, if has_high: the next slice's low end, of which nothing belongs to this one */
} tsr_cut;
typedef struct tsr_partition { /* borrowed until the partitions are closed */
  const tsr_cut *cuts; /* one per dimension */
  uint64_t tiles; /* of all fragments, for each field, that are read for it */
  uint64_t cells; /* dense: its rows; sparse: about so many cells */
  uint64_t bytes; /* stored, of these tiles: about */
} tsr_partition;
typedef struct tsr_partitions {
  uint64_t count;
  const tsr_partition *partitions;
} tsr_partitions;
/* At most `count` slices that share no cell and hold all that `dimensions` (one per dimension, or NULL) ask for, but for
 * NaN coordinates where a dimension of floats is cut. Dense arrays are cut between space tiles, into equal numbers of
 * cells; sparse ones where the fewest tiles lie on both sides. None for an empty array. Closed by the caller, before the
 * snapshot. */
TSR_API int tsr_partitions_open(tsr_snapshot *snapshot, const tsr_ranges *dimensions, uint64_t count,
                                tsr_partitions **partitions, tsr_error *error);
TSR_API void tsr_partitions_close(tsr_partitions *partitions); /* NULL is fine */

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

/* A schema for a new array is a tsr_schema that the caller fills in, and keeps until the call returns:
 *   kind, orders, capacity (sparse), duplicates, filters, dimensions and attributes in `fields`, enumerations with
 *   their labels (loaded = true; offsets of all labels, count + 1), current domain
 *   version: 0 = TSR_FORMAT_WRITE_MAX; 3 and 12 to 22 can be asked for. values_per_cell: TSR_VARIABLE for strings
 *   and the like. is_dimension, cell_size, name, time and the enumerations' files need not be set
 *   a pipeline's max_chunk_size 0 = 65,536, but where it is `uncut`. fill NULL = the datatype's default, null where the attribute is nullable
 * Schemas of open arrays can be given as they are: so arrays are made that are like others. */

/* Would tsr_array_create take it? TSR_CONSTRAINT, TSR_RANGE or TSR_UNSUPPORTED, naming the field and the rule. */
TSR_API int tsr_schema_check(tsr_environment *environment, const tsr_schema *schema, tsr_error *error);

/* The same of one pipeline alone, whatever the format version. */
TSR_API int tsr_filters_check(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell,
                              bool is_dimension, tsr_error *error);

typedef struct tsr_create_options {
  const uint8_t *key; /* 32 bytes: the array is to be encrypted (AES-256-GCM); NULL: not */
  uint64_t time; /* of the schema; 0 = now */
  bool unsynced; /* nothing is forced to disk */
  const char *owner; /* the path of a database file whose commit comes first; NULL: none */
} tsr_create_options;

/* Creates an array: nothing may be at `path` (TSR_EXISTS); missing parents are made. It appears at once, and nothing of
 * it is left where that fails. */
TSR_API int tsr_array_create(tsr_environment *environment, const char *path, const tsr_schema *schema,
                             const tsr_create_options *options, tsr_error *error);

/* The same in two steps: prepare does all that is likely to fail, publish makes the array appear. Until then its
 * directory is nobody's array. Where a writer's commit is published before, the array appears with its cells. */
typedef struct tsr_creation tsr_creation;
TSR_API int tsr_creation_prepare(tsr_environment *environment, const char *path, const tsr_schema *schema,
                                 const tsr_create_options *options, tsr_creation **creation, tsr_error *error);
TSR_API int tsr_creation_publish(tsr_creation *creation, tsr_error *error);
/* Removes what was prepared, with the cells that were written into it; of a published one nothing. Then close it. */
TSR_API int tsr_creation_abandon(tsr_creation *creation, tsr_error *error);
/* Borrowed: its schema file's. Kept elsewhere, the creation is known again by it. */
TSR_API const char *tsr_creation_schema_name(const tsr_creation *creation);
/* What was prepared at `path` under this name, by a process that died or gave up before it published: 1 and it is
 * published now; 0 where there is no such thing. */
TSR_API int tsr_creation_recover(tsr_environment *environment, const char *path, const char *schema_name,
                                 tsr_error *error);
TSR_API void tsr_creation_close(tsr_creation *creation); /* NULL is fine; leaves on disk what is there */

/* Copies an array as it is, file by file and byte for byte, into a directory or a store of the host's where nothing is
 * yet (TSR_EXISTS). It appears at once, and nothing of it is left where that fails. Needs no key. `files`, or NULL:
 * how many. */
TSR_API int tsr_array_copy_files(tsr_environment *environment, const char *from, const char *to, bool unsynced,
                                 uint64_t *files, tsr_error *error);

/* A writer gathers the cells of one commit. Order of use: append..., prepare, publish, close; or abandon at any time.
 * Prepare can be repeated, after more has been appended too: then it replaces what was prepared. Until publish nobody
 * sees anything; publish is one exclusive create or rename. */
typedef struct tsr_writer tsr_writer;

typedef struct tsr_writer_options {
  uint64_t time; /* of the commit; 0 = now, chosen when it is prepared: later than all that is visible, never in the
                    future (prepare waits for the clock) */
  uint64_t memory_bytes; /* buffered cells and working memory, at most; 0 = 1 GiB */
  unsigned threads; /* 0 = the array's */
  bool unsynced; /* nothing is forced to disk */
  const char *owner; /* the id of who decides on it after a crash (tsr_owner_next; printable, no spaces, at most 64
                        bytes); NULL: nobody does */
  const char *owner_file; /* with an owner: the path of its database file, for messages, whose directory is forced to
                             disk before the commit is published; or NULL */
  const tsr_schema *schema; /* NULL: the newest; or one of tsr_array_schema_without: then cells are appended, no more */
  const struct tsr_host_store
      *scratch; /* NULL, or where cells go that memory has no room for, instead of to the array's
                                           store: of arrays in a store of the host's, whose savepoints may take back
                                           what is written there, and not the cells. A tree of it is opened with the
                                           path "scratch" when the first cells go there, and closed with the writer */
  void *scratch_argument;
} tsr_writer_options;

/* Writes by the array's newest schema, or the one that is given, in its format version where that is 3 or 7 to 22, else in 22; TSR_READONLY for
 * newer ones. To be closed before the array. */
TSR_API int tsr_writer_open(tsr_array *array, const tsr_writer_options *options, tsr_writer **writer, tsr_error *error);
TSR_API const tsr_schema *tsr_writer_schema(const tsr_writer *writer); /* borrowed: whose fields columns are */

/* Appends the cells selection[0..count) of `columns` (NULL: the first `count`), one column for each field. A column's
 * values, offsets and validity are as in tsr_column; `constant` columns are taken. Values are copied. Cells may come in
 * any order; of equal coordinates the last counts, but where the array has duplicates. TSR_RANGE for a coordinate
 * outside the domain, TSR_CONSTRAINT for null in an attribute that cannot be null; then nothing was added. */
TSR_API int tsr_writer_append(tsr_writer *writer, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                              tsr_error *error);
/* Dense arrays: writes the cells of a box (one interval for each dimension), in row-major order of the box, or in the
 * array's cell order. Columns of dimensions are not looked at. Boxes of one writer may not overlap; below format
 * version 12 there is one. The box is written to its (invisible) files at once, nothing of it stays in memory. */
TSR_API int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order,
                                  const tsr_column *columns, tsr_error *error);
/* Sparse arrays of format version 16 and later: removes a row that a reader gave, one of the writer's own (< 0) or a
 * committed one. `coordinates`: one column for each dimension, at `index` those of the row. An own row is just dropped;
 * a committed one becomes part of a delete condition, unless an own cell that stays has its coordinates. */
TSR_API int tsr_writer_remove(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index,
                              tsr_error *error);
/* How far a writer has come. Rewind drops what came after a mark that it has given. */
typedef struct tsr_mark {
  uint64_t cells, removed, boxes;
} tsr_mark;
/* While `keep` is true, all cells stay in memory until prepare, however many they are: for hosts whose savepoints may
 * take back what is written to the store, and not the cells. Cells that do not fit are TSR_BUDGET. A host that gives a
 * `scratch` store does not need it. */
TSR_API void tsr_writer_keep(tsr_writer *writer, bool keep);
TSR_API tsr_mark tsr_writer_mark(const tsr_writer *writer);
TSR_API int tsr_writer_rewind(tsr_writer *writer, tsr_mark mark, tsr_error *error);
TSR_API bool tsr_writer_changed(const tsr_writer *writer); /* is there anything to commit? */
/* Is there a cell at these coordinates, in `base` with the writer's changes: 1 and its rowid, 0 if not. In dense arrays
 * a cell is there if it has been written. */
TSR_API int tsr_writer_find(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index,
                            int64_t *row, tsr_error *error);
/* `base`, a snapshot of the present, with the writer's changes on top: an own cell number n (0, 1, ... as they were
 * appended) is the row -2 - n, its time is UINT64_MAX. Where nothing changed since the last call it is the same one.
 * Later changes of the writer are not seen; to be closed before the writer. */
TSR_API int tsr_snapshot_with(tsr_snapshot *base, tsr_writer *writer, tsr_snapshot **snapshot, tsr_error *error);
/* A field of the cells that have been appended, as far as they are in memory; borrowed until the writer is changed. */
TSR_API void tsr_writer_column(const tsr_writer *writer, uint32_t field, tsr_column *column);

TSR_API int tsr_writer_prepare(tsr_writer *writer, tsr_error *error);
/* After prepare: the fragments of the commit (none: nothing was appended), their time, and the file that publishes
 * them, relative to the array. Borrowed until the writer is changed. */
TSR_API uint64_t tsr_writer_fragment_count(const tsr_writer *writer);
TSR_API const char *tsr_writer_fragment(const tsr_writer *writer, uint64_t index);
TSR_API uint64_t tsr_writer_time(const tsr_writer *writer);
TSR_API const char *tsr_writer_commit(const tsr_writer *writer);
TSR_API int tsr_writer_publish(tsr_writer *writer, tsr_error *error);
/* After prepare, where the host's own commit has failed and its transaction goes on; and after publish, where the store's own
 * transaction is still open and others have not seen it. The next prepare makes a commit of a new time, also where nothing
 * has changed; that and abandon take the old one back. */
TSR_API void tsr_writer_reopen(tsr_writer *writer);
/* Removes what is not published. Then close it. */
TSR_API int tsr_writer_abandon(tsr_writer *writer, tsr_error *error);
/* NULL is fine. What was prepared and not published stays on disk, invisible; what was not prepared goes. */
TSR_API void tsr_writer_close(tsr_writer *writer);

/* Whose a prepared commit is. An owner's id belongs to one database file at one place; copies of the file have others.
 *
 * tsr_place_find tells a file from its copies: by device, inode, time of birth, absolute path, host name and the boot of
 * the machine. 1; 0 where there is no such file, so that nothing can tell it from others; an error where the system does
 * not say. tsr_owner_next gives the id of a file that was known by `owner` (any text) and is at `place` now. The same
 * owner and place give the same id; nobody who does not know both can make it. */
#define TSR_OWNER_SIZE 33 /* 32 hex digits and NUL */
TSR_API int tsr_place_find(const char *file, char place[TSR_OWNER_SIZE], tsr_error *error);
TSR_API int tsr_owner_next(const char *owner, const char *place, char next[TSR_OWNER_SIZE], tsr_error *error);

typedef enum tsr_writer_state { TSR_WRITER_UNKNOWN, TSR_WRITER_LIVES, TSR_WRITER_GONE } tsr_writer_state;
typedef struct tsr_prepared { /* a commit that was prepared, as its marker says; borrowed */
  const char *commit; /* as tsr_writer_commit gives it */
  const char *marker; /* its path in the array */
  const char *owner; /* NULL: an earlier version of tessera wrote the marker, and says no more than `file` */
  const char *host, *file; /* where it was prepared, for messages; host may be NULL */
  uint64_t fragment_count; /* their names: */
  const char *const *fragments;
  tsr_writer_state writer; /* UNKNOWN where there are no locks */
  bool published; /* tsr_array_prepared alone: it has been, and only the marker is left */
  uint64_t age; /* tsr_array_prepared alone: of the marker, in milliseconds */
} tsr_prepared;

/* What writers with an owner have prepared and neither published nor abandoned: their process died, or publishing
 * failed. `decide` is asked for each of them whose writer is not known to live, and that no file of the array says to
 * be published. It may say UNDO only of the owner's own, and only while no other process of that owner can be between
 * prepare and publish. `file`, or NULL, is the database's (tsr_writer_options.owner_file). `changed`, which may be NULL,
 * counts up. TSR_CORRUPT: what is to be published is gone. */
typedef enum tsr_verdict { TSR_VERDICT_LEAVE, TSR_VERDICT_PUBLISH, TSR_VERDICT_UNDO } tsr_verdict;
TSR_API int tsr_array_recover(tsr_array *array, const char *file,
                              tsr_verdict (*decide)(void *argument, const tsr_prepared *prepared), void *argument,
                              uint64_t *changed, tsr_error *error);
/* For owners that are gone: removes what nobody can commit any more, and publishes nothing. `decide` says PUBLISH of what
 * the caller's own record names: that goes only where its fragment is gone already; UNDO of all else that may go. What
 * is younger than 24 hours, or has a writer that lives, is left, and TSR_BUSY says so when all else is done. */
TSR_API int tsr_array_disown(tsr_array *array, tsr_verdict (*decide)(void *argument, const tsr_prepared *prepared),
                             void *argument, uint64_t *changed, tsr_error *error);
/* 1 while a commit of this path is prepared: it has a marker, which goes when the commit is published or taken back. 0: not.
 * TSR_RANGE: the path is none that tsr_writer_commit gives. */
TSR_API int tsr_array_has_marker(tsr_array *array, const char *commit, tsr_error *error);
/* Shows each of them. Nothing is changed. What `show` returns below 0 ends it. */
TSR_API int tsr_array_prepared(tsr_array *array, int (*show)(void *argument, const tsr_prepared *prepared),
                               void *argument, tsr_error *error);

/* ---- Maintenance -------------------------------------------------------------------------------------------------- */

/* What is looked after. Arrays have all of these, groups metadata only. */
typedef enum tsr_maintenance {
  TSR_MAINTAIN_FRAGMENTS = 1,
  TSR_MAINTAIN_COMMITS = 2,
  TSR_MAINTAIN_FRAGMENT_META = 4,
  TSR_MAINTAIN_METADATA = 8,
  TSR_MAINTAIN_ALL = 15
} tsr_maintenance;

typedef struct tsr_consolidate_options { /* `= {0}` is the default */
  uint64_t since, as_of; /* only what lies within these times; as_of 0 = now */
  const char *const *fragments; /* their names; only these are merged, and all of them */
  uint64_t fragment_count; /* 0: all */
  uint64_t max_fragment_bytes; /* of what is merged into one; 0: no limit */
  uint64_t memory_bytes; /* working memory, at most; 0 = 1 GiB */
  unsigned threads; /* 0 = the array's */
  bool purge_deleted; /* deleted cells are dropped: earlier states lose them, too */
} tsr_consolidate_options;

/* Merges fragments that follow each other in time, where no reader's view changes by it; or puts commits, footers of
 * fragments, metadata into one file. What was replaced stays until it is vacuumed. `merged` says how many were taken
 * up. Each merge is one commit: what stops it leaves the array as it was, or as merges before it have made it. One
 * thing at a time (not TSR_MAINTAIN_ALL). No writer of the array may be open. */
TSR_API int tsr_array_consolidate(tsr_array *array, tsr_maintenance what, const tsr_consolidate_options *options,
                                  uint64_t *merged, tsr_error *error);
/* How many fragments that would merge, at first, as the array is: 0 also where such arrays are never merged. Nothing is
 * changed, and writers may be open. */
TSR_API int tsr_array_mergeable(tsr_array *array, const tsr_consolidate_options *options, uint64_t *fragments,
                                tsr_error *error);
/* Removes what was replaced, and with TSR_MAINTAIN_FRAGMENTS what unfinished writes left behind a day ago and longer,
 * but what a pending marker names (writer options, `owner`). `what` is any of them together. */
TSR_API int tsr_array_vacuum(tsr_array *array, tsr_maintenance what, uint64_t *removed, tsr_error *error);
typedef struct tsr_group tsr_group;
TSR_API int tsr_group_consolidate(tsr_group *group, const tsr_consolidate_options *options, uint64_t *merged,
                                  tsr_error *error);
TSR_API int tsr_group_vacuum(tsr_group *group, uint64_t *removed, tsr_error *error);

/* ---- Looking inside ---------------------------------------------------------------------------------------------- */

/* Times here are as for snapshots: since..as_of, both inclusive, TSR_TIME_BEGIN and TSR_TIME_NOW where not given. */

/* What a directory is: an array if it holds __schema or __array_schema.tdb, else a group if it holds __group or
 * __tiledb_group.tdb. */
typedef enum tsr_object_kind { TSR_OBJECT_NONE, TSR_OBJECT_ARRAY, TSR_OBJECT_GROUP } tsr_object_kind;
/* TSR_OBJECT_NONE also where nothing is. */
TSR_API int tsr_object_find(tsr_environment *environment, const char *path, tsr_object_kind *kind, tsr_error *error);

typedef struct tsr_object {
  const char *path; /* begins with the directory's as it was given */
  tsr_object_kind kind; /* array or group */
} tsr_object;
typedef struct tsr_objects {
  uint64_t count;
  const tsr_object *objects; /* by path, as bytes */
} tsr_objects;
/* All arrays and groups below a directory, itself left out; what is inside arrays is not looked at. Symbolic links are
 * followed, each directory is visited once, what may not be read is passed over. Closed by the caller. */
TSR_API int tsr_objects_open(tsr_environment *environment, const char *path, tsr_objects **objects, tsr_error *error);
TSR_API void tsr_objects_close(tsr_objects *objects); /* NULL is fine */

/* The group in a directory; `key` as for arrays. TSR_NOT_FOUND where no group is. Closed by the caller. */
TSR_API int tsr_group_open(tsr_environment *environment, const char *path, const uint8_t *key, tsr_group **group,
                           tsr_error *error);
TSR_API void tsr_group_close(tsr_group *group); /* NULL is fine */

typedef struct tsr_group_member {
  const char *name; /* NULL if it has none */
  const char *path; /* of its directory; of another kind of store: its URI */
  tsr_object_kind kind; /* what is there; where its path leaves the group's directory: what the group says of it */
} tsr_group_member;
typedef struct tsr_group_members {
  uint64_t count;
  const tsr_group_member *members; /* by name, or path within the group */
} tsr_group_members;
/* The group's members between two times. Nothing outside of the group's directory is looked at. Closed by the caller,
 * lives longer than the group. */
TSR_API int tsr_group_members_open(tsr_group *group, uint64_t since, uint64_t as_of, tsr_group_members **members,
                                   tsr_error *error);
TSR_API void tsr_group_members_close(tsr_group_members *members); /* NULL is fine */

typedef struct tsr_metadatum {
  const char *key; /* NUL-terminated, may hold other NULs */
  uint64_t key_size;
  tsr_datatype datatype;
  uint64_t count; /* values; 0: a key without a value */
  const void *value; /* unaligned */
  uint64_t value_size; /* bytes */
} tsr_metadatum;
typedef struct tsr_metadata {
  uint64_t count;
  const tsr_metadatum *entries; /* by key, as bytes */
} tsr_metadata;
/* The metadata of an array or group between two times. Closed by the caller, lives longer than array and group. */
TSR_API int tsr_array_metadata(tsr_array *array, uint64_t since, uint64_t as_of, tsr_metadata **metadata,
                               tsr_error *error);
TSR_API int tsr_group_metadata(tsr_group *group, uint64_t since, uint64_t as_of, tsr_metadata **metadata,
                               tsr_error *error);
TSR_API void tsr_metadata_close(tsr_metadata *metadata); /* NULL is fine */

typedef struct tsr_fragment_info { /* borrowed from the snapshot */
  const char *name;
  uint64_t start, end; /* times */
  uint32_t version; /* format version */
  bool dense;
  const tsr_schema *schema; /* its own */
  uint64_t cells; /* without those that only fill up tiles; of all times that it holds */
  uint64_t tiles; /* of each of its fields */
  uint64_t bytes; /* of its files */
  const tsr_interval *non_empty_domain; /* one per dimension; NULL if it is empty */
} tsr_fragment_info;
/* The fragments in view, oldest first. */
TSR_API uint64_t tsr_fragment_count(const tsr_snapshot *snapshot);
/* Deletes that are evaluated when cells of some fragment are read. */
TSR_API uint64_t tsr_snapshot_condition_count(const tsr_snapshot *snapshot);
/* The same of the comparisons in them. */
TSR_API uint64_t tsr_snapshot_comparison_count(const tsr_snapshot *snapshot);
/* When the first and the last of the fragments and deletes in view were written; false where there is none. */
TSR_API bool tsr_snapshot_written(const tsr_snapshot *snapshot, uint64_t *first, uint64_t *last);
/* Merges whose sources have not been vacuumed. */
TSR_API uint64_t tsr_snapshot_replaced_count(const tsr_snapshot *snapshot);
TSR_API int tsr_fragment_describe(tsr_snapshot *snapshot, uint64_t fragment, tsr_fragment_info *info, tsr_error *error);
/* Has the fragment this attribute of the snapshot's schema? Where it lacks it, its cells read as the fill value, unwritten. */
TSR_API bool tsr_fragment_has(const tsr_snapshot *snapshot, uint64_t fragment, uint32_t field);

typedef struct tsr_tile_info { /* borrowed until the next call for these tiles */
  uint64_t cells; /* without padding */
  uint64_t bytes; /* stored: offsets, values, validity */
  uint64_t decoded_bytes; /* the same in memory, with padding */
  const tsr_interval *box; /* one per dimension. Dense: cut to what was written; sparse: as stored (MBR) */
  const void *min, *max; /* as stored; NULL where there is none */
  uint64_t min_size, max_size; /* bytes */
  bool has_sum, has_null_count;
  uint8_t sum[8]; /* of floats a double, of unsigned values and BOOL a uint64_t, else an int64_t */
  uint64_t null_count;
} tsr_tile_info;
typedef struct tsr_tiles tsr_tiles;
/* The tiles of one fragment. To be closed before the snapshot. */
TSR_API int tsr_tiles_open(tsr_snapshot *snapshot, uint64_t fragment, tsr_tiles **tiles, tsr_error *error);
TSR_API void tsr_tiles_close(tsr_tiles *tiles); /* NULL is fine */
/* How many attributes and dimensions have tiles of their own, and which field of the fragment's schema each is; -1 is
 * __coords, all dimensions together (below version 5). Dimensions of dense fragments have no tiles. */
TSR_API uint32_t tsr_tiles_fields(const tsr_tiles *tiles);
TSR_API int64_t tsr_tiles_field(const tsr_tiles *tiles, uint32_t index);
TSR_API int tsr_tiles_describe(tsr_tiles *tiles, uint32_t index, uint64_t tile, tsr_tile_info *info, tsr_error *error);

/* ---- Changing what describes data ---------------------------------------------------------------------------------- */

/* Each of these is one file that appears at once and is durable: later than what is there, for all who open the array
 * or group after it. On failure everything is as it was. */

/* One key: set (unaligned value; count 0: a key without a value), or deleted (no error if it is not there). */
TSR_API int tsr_array_set_metadata(tsr_array *array, const tsr_metadatum *entry, tsr_error *error);
TSR_API int tsr_array_delete_metadata(tsr_array *array, const char *key, uint64_t key_size, tsr_error *error);
TSR_API int tsr_group_set_metadata(tsr_group *group, const tsr_metadatum *entry, tsr_error *error);
TSR_API int tsr_group_delete_metadata(tsr_group *group, const char *key, uint64_t key_size, tsr_error *error);

/* The schema of an array of format version 12 to 22 changes. Fragments that are there read an attribute that they lack
 * as its fill value. The attribute and its enumeration (NULL: none) are filled in as for a new array. */
TSR_API int tsr_array_add_attribute(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                                    tsr_error *error);
TSR_API int tsr_array_drop_attribute(tsr_array *array, const char *name, tsr_error *error);
/* For cells that never had some attributes of the newest schema: writes one that lacks them (`lacking`: by field), which is in
 * force at no time; tsr_writer_options takes it. Dense arrays keep one attribute at least: where all are lacking, it has one of
 * another name. Borrowed until the array is closed. */
TSR_API int tsr_array_schema_without(tsr_array *array, const bool *lacking, const tsr_schema **schema,
                                     tsr_error *error);
/* Appends labels to the enumeration of more->name: its datatype and values per label are the same. TSR_CONSTRAINT for a
 * label that is there already. */
TSR_API int tsr_array_extend_enumeration(tsr_array *array, const tsr_enumeration *more, tsr_error *error);
/* One interval for each dimension; it holds all of the present one. */
TSR_API int tsr_array_expand_domain(tsr_array *array, const tsr_interval *domain, tsr_error *error);

/* Makes a directory a group, and the directory and its parents if they are missing. TSR_EXISTS where a group or array
 * is. */
TSR_API int tsr_group_create(tsr_environment *environment, const char *path, tsr_error *error);
/* `name` may be NULL; `uri` is relative to the group's directory or absolute. TSR_EXISTS for a name (of members without
 * one: a URI) that it has. */
TSR_API int tsr_group_add(tsr_group *group, const char *name, const char *uri, bool relative, tsr_object_kind kind,
                          tsr_error *error);
TSR_API int tsr_group_remove(tsr_group *group, const char *name, tsr_error *error); /* or the URI of one without */

/* Deletes an array's directory with all that is in it. TSR_NOT_FOUND for what is no array. */
TSR_API int tsr_array_drop(tsr_environment *environment, const char *path, tsr_error *error);

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

typedef enum tsr_severity {
  TSR_SEVERITY_NOTE, /* normal in the life of an array: what a write left that did not finish */
  TSR_SEVERITY_WARNING, /* does not belong here, or could not be checked; what is read is right */
  TSR_SEVERITY_ERROR /* data is lost, cannot be read, or would be read wrongly */
} tsr_severity;

typedef struct tsr_finding { /* borrowed during the call */
  tsr_severity severity;
  const char *file; /* relative to the array's directory */
  const char *message;
} tsr_finding;

/* Called on the caller's thread for each finding; an error code (< 0) ends the check with that code. */
typedef int (*tsr_check_report)(void *argument, const tsr_finding *finding);

typedef struct tsr_check_options { /* `= {0}` is the default */
  const uint8_t *key; /* 32 bytes; NULL if the array is not encrypted */
  uint64_t memory_bytes; /* working memory, at most; 0 = 1 GiB. What needs more is told of as not checked */
  unsigned threads; /* 0 = the number of cores, at most 8 */
  bool quick; /* structure only: no tile is decoded */
} tsr_check_options;

/* Looks for everything that is wrong with the array in the directory `path`, at all times at once, whatever its
 * version: missing and stray files, sizes, offsets, checksums and tags, tiles that do not decode, cells out of order or
 * outside of box or domain, statistics, commits without fragments and the reverse. Never stops at a fault. An array is
 * sound if nothing but notes comes. TSR_NOT_FOUND where no array is; TSR_AUTH for a missing or wrong key. */
TSR_API int tsr_array_check(tsr_environment *environment, const char *path, const tsr_check_options *options,
                            tsr_check_report report, void *argument, tsr_error *error);

/* ---- Text of values (also for hosts that show them) -------------------------------------------------------------- */

/* ISO-8601 text of a DATETIME_* or TIME_* value, as precise as its unit: returns its length without the NUL; 0 where it
 * cannot be written so (years outside 0000-9999, times outside one day, NaT). `text` holds 48 bytes. */
TSR_API int tsr_datetime_print(tsr_datatype datatype, int64_t value, char *text);
/* The value of ISO-8601 text. TSR_MISMATCH if it is no such text or finer than the unit; TSR_RANGE past the datatype. A
 * short form means its first instant; `T` or a blank before the hours; `Z` or nothing at the end. */
TSR_API int tsr_datetime_parse(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value,
                               tsr_error *error);
/* Where the first instant of ISO-8601 text, of any precision, stands among the values of the type. */
typedef enum tsr_place {
  TSR_PLACE_NONE, /* it is no such text */
  TSR_PLACE_AT, /* *value is that instant */
  TSR_PLACE_BEFORE, /* it is before *value, and behind those before it */
  TSR_PLACE_END /* it is behind all values */
} tsr_place;
TSR_API tsr_place tsr_datetime_place(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value);

#ifdef __cplusplus
}
#endif
#endif
