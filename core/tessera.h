/* tessera.h: arrays in the TileDB format, read and written from C.
 *
 * Rules for all functions:
 *  - A function that returns int returns TSR_OK (0) on success, a positive value if its contract names one, or a
 *    negative code of TSR_CODES. On an error, the caller's tsr_error says what was requested, what is wrong and where.
 *    The error pointer may be NULL. Out-parameters are set only on success.
 *  - One thread at a time may use an environment and everything that was opened from it. Worker threads never call the
 *    caller's functions, except `reallocate`, which must be thread-safe if any request uses more than one thread.
 *  - A "borrowed" pointer is valid until the call that its contract names. The caller never frees it.
 *  - Sizes are in bytes, counts in cells, both as uint64_t. Times are in milliseconds since 1970-01-01 UTC.
 *  - No file is trusted before it is validated: damage is an error (TSR_CORRUPT), never a crash.
 *  - Close objects in the reverse order of opening. Every _close function also takes NULL.
 *
 * Order of use: environment -> array -> snapshot (the cells visible between two times) -> reader -> batches of columns.
 * This header and those that it includes are the stable interface, for programs. tessera_host.h and tessera_path.h are
 * for the extension; no promise is made for them.
 *
 * docs/c-api.md shows complete programs, docs/format.md describes the format, docs/design.md the design.
 */
#ifndef TESSERA_H
#define TESSERA_H

#include "tessera_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ----------------------------------------------------------------------------------------------------- */

/* The version of this header. Everything else that shows a version takes it from here. */
#define TSR_VERSION "0.2.0"

#define TSR_VERSION_MAJOR 0
#define TSR_VERSION_MINOR 2
#define TSR_VERSION_PATCH 0

/* one number that grows with the version: 1002003 for "1.2.3" */
#define TSR_VERSION_NUMBER (TSR_VERSION_MAJOR * 1000000 + TSR_VERSION_MINOR * 1000 + TSR_VERSION_PATCH)

/* Returns TSR_VERSION of the library that the program runs with, which can be newer than the header. */
TSR_API const char *tsr_version(void);

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* name, code, meaning */
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
  X(BUDGET, -19, "past the memory budget that was set (memory_mb); there may be more memory")                          \
  X(DENIED, -20, "a server refuses: keys, rights or clock are wrong")                                                  \
  X(UNREACHABLE, -21, "a server does not answer, or with nothing that can be used; it may later")                      \
  X(CHECK, -22, "a cell breaks a CHECK constraint")

typedef enum tsr_code {
#define X(name, code, text) TSR_##name = code,
  TSR_CODES(X)
#undef X
} tsr_code;

#define TSR_MESSAGE_SIZE 1020

/* Owned by the caller; `= {0}` means no error. The message is UTF-8 and begins with the outermost context ("array PATH:
 * ..."). If it is too long, "..." replaces its middle. */
typedef struct tsr_error {
  int code;
  char message[TSR_MESSAGE_SIZE];
  uint32_t subject; /* internal: what the error is about (base/error.h) */
} tsr_error;

/* Returns the name of a code, for example "CORRUPT" for TSR_CORRUPT; "UNKNOWN" if there is no such code. */
TSR_API const char *tsr_code_name(int code);

/* ---- Options ----------------------------------------------------------------------------------------------------- */

/* Option structures (tsr_..._options) and requests (tsr_request, tsr_..._request, tsr_query) may get more fields at
 * their ends in later versions. `size` tells the library which version of a structure it is given: set it to sizeof the
 * structure. A library that is newer takes 0 for the fields that the structure lacks; one that is older ignores fields
 * that are 0, and refuses others with TSR_UNSUPPORTED. With a size of 0, as in `= {0}`, only the fields of version 0.2
 * count. All other structures keep the fields that they have.
 *
 *   tsr_writer_options options = {.size = sizeof options, .threads = 2}; */

/* ---- Environment ------------------------------------------------------------------------------------------------- */

typedef struct tsr_environment tsr_environment;

typedef struct tsr_environment_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  /* Works as realloc does; size 0 frees the block. NULL: the C library's realloc. */
  void *(*reallocate)(void *argument, void *pointer, uint64_t size);
  void *reallocate_argument;
  /* size in bytes of the largest block that `reallocate` can give: larger requests fail with TSR_BUDGET; 0: no limit */
  uint64_t largest_block;
  /* Called on the caller's thread during all long work. If it returns true, the work stops with TSR_INTERRUPT. */
  bool (*interrupted)(void *argument);
  void *interrupted_argument;
  bool single_threaded; /* never start a worker thread */
  /* Called with the path of each directory before the directory is opened or made. A negative code refuses the path.
   * NULL: all paths are allowed. */
  int (*permits)(void *argument, const char *path, tsr_error *error);
  void *permits_argument;
} tsr_environment_options;

/* Opens an environment. `options` may be NULL. The caller closes it after everything that was opened from it. */
TSR_API int tsr_environment_open(const tsr_environment_options *options, tsr_environment **environment,
                                 tsr_error *error);
TSR_API void tsr_environment_close(tsr_environment *environment);

/* Confines the environment to a directory until it is closed: from now on it reads and writes arrays and groups,
 * including those already open, only below this directory. Within it, no symbolic link is followed, and no file with
 * several hard links is read. A later call can choose a narrower directory. TSR_PERM: the directory is not below the
 * current one. Paths outside of the bound then fail with TSR_PERM. Stores of the host (tessera_host.h) are not
 * confined. */
TSR_API int tsr_environment_confine(tsr_environment *environment, const char *directory, tsr_error *error);

/* Counters since the last reset, in this order. tiles_read, tiles_cached and tiles_ahead count a tile once for each of
 * its fields, the other counters once. tiles_ahead counts the tiles among tiles_read that were loaded before they were
 * needed.
 */
/* clang-format off */
#define TSR_COUNTERS(X) \
  X(files_opened) X(fragments_considered) X(fragments_skipped) X(tiles_considered) \
  X(tiles_skipped_by_domain) X(tiles_skipped_by_value) X(tiles_read) X(tiles_cached) \
  X(bytes_read) X(bytes_decoded) X(cells_decoded) X(rows_returned) \
  X(commits_listed) X(directories_listed) X(tiles_ahead) \
  X(fragments_listed) \
  X(store_gets) X(store_heads) X(store_lists) X(store_puts) X(store_deletes) X(store_retries) \
  X(store_round_trips) X(store_bytes_sent) \
  X(cells_computed) X(cells_around) X(cells_paired) X(coordinates_evaluated) X(groups_made) X(parts_by_columns) \
  X(parts_by_rows) X(auto_merges) X(auto_merge_ms) \
  X(keys_compared) X(changes_found) X(commits_late)
/* clang-format on */
typedef struct tsr_counters {
#define X(name) uint64_t name;
  TSR_COUNTERS(X)
#undef X
} tsr_counters;
TSR_API void tsr_environment_counters(const tsr_environment *environment, tsr_counters *counters);
TSR_API void tsr_environment_reset_counters(tsr_environment *environment);

/* ---- Object stores ----------------------------------------------------------------------------------------------- */

/* A path that begins with "s3://", "azure://" (or "az://") or "gcs://" (or "gs://") names objects in a bucket of S3 or
 * of a server that speaks its protocol, in a container of Azure Blob Storage, or in a bucket of Google Cloud Storage.
 * Every function that takes a path accepts such paths once a scope has been declared for them; before that, nothing is
 * sent. libcurl is loaded at run time; without it, such a path fails with TSR_UNSUPPORTED. */

typedef enum tsr_url_style {
  TSR_URL_AUTO, /* virtual on AWS unless the bucket's name has a dot, else path */
  TSR_URL_PATH, /* https://endpoint/bucket/key */
  TSR_URL_VIRTUAL /* https://bucket.endpoint/key */
} tsr_url_style;

/* The options of a scope. `= {0}` is the default; all strings are borrowed, and "" means NULL, but keys that are all ""
 * are an error unless `provider` is set. An option that another kind of server has is an error. */
typedef struct tsr_scope_options {
  size_t size; /* sizeof the structure, or 0: see "Options" */
  /* keys, env, profile, anonymous, auto; NULL: `keys` if any of its options is set, else `auto` */
  const char *provider;

  /* For the provider `keys`. S3: the first three. Google: key_id and secret (HMAC keys), or one of token,
   * service_account (JSON) and service_account_file. Azure: one of key, sas, token, and the last three together. */
  const char *key_id, *secret, *session_token;
  const char *service_account, *service_account_file;
  const char *token;
  const char *key, *sas;
  const char *tenant_id, *client_id, *client_secret;

  const char *account; /* Azure; NULL: of the endpoint or the environment */
  const char *region; /* S3; NULL: the provider's, or us-east-1 */
  bool requester_pays; /* S3 */
  const char *user_project; /* Google: the project that pays for requests */
  const char *endpoint; /* "http://127.0.0.1:9000", "https://minio.example"; NULL: the maker's */
  bool plain_http; /* allow http:// to hosts other than loopback; tokens are never sent so */
  tsr_url_style url_style; /* S3 */
  const char *ca_file; /* trusted certificates, PEM; NULL: the system's */
  const char *proxy; /* "http://host:port"; NULL: none; environment variables such as https_proxy are never used */
  const char *sse; /* S3: "AES256", "aws:kms"; NULL: the bucket's default */
  const char *kms_key_id; /* S3, Google */
  const char *encryption_scope; /* Azure */
  const char *storage_class; /* Azure calls it access tier */
  uint32_t connect_ms; /* 0: 5,000 */
  uint32_t stall_ms; /* give up after this long without receiving a byte; 0: 15,000 */
  uint32_t retries; /* of one request, 0: 6; TSR_NO_RETRIES: none */
  uint32_t parallel; /* requests in flight, 0: 32 */
  uint32_t part_mb; /* size of the parts of large objects, 0: 8; at least 5, the minimum of S3 and Google */
  uint32_t refresh_ms; /* how long a listing counts as fresh */
} tsr_scope_options;

#define TSR_NO_RETRIES UINT32_MAX

/* Declares the options for "s3://bucket" or "s3://bucket/prefix" (or a URI of another store), replacing those declared
 * earlier for the same scope. The longest scope that contains a path applies. Sends nothing. `options` are copied; NULL
 * forgets the scope and wipes its keys. Returns 1 if it has forgotten a scope; 0 if there was none to forget, or after
 * a declaration. Errors: TSR_ERROR: the scope or an option is invalid; TSR_PERM: tsr_environment_confine forbids it. */
TSR_API int tsr_environment_configure(tsr_environment *environment, const char *scope, const tsr_scope_options *options,
                                      tsr_error *error);

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

#define TSR_PROGRESS_MAX 64 /* operations listed at one time; more than that are not listed */

/* An operation that this process is carrying out: consolidate, vacuum, check, export, import, copy, commit, write,
 * read, aggregate, regrid or draw. `done` and `total` are in the operation's own unit (cells, files or bytes). */
typedef struct tsr_progress {
  char operation[24], path[256]; /* "..." replaces the beginning of a longer path */
  uint64_t done, total; /* done <= total; total is 0 while it is unknown, and may grow */
  uint64_t started; /* time */
} tsr_progress;
/* Copies up to `room` running operations, the oldest first, and returns their number. Any thread may call it. */
TSR_API uint64_t tsr_progress_list(tsr_progress *entries, uint64_t room);

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

typedef struct tsr_array tsr_array;

typedef struct tsr_array_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const uint8_t *key; /* 32 bytes (AES-256), copied; NULL if the array is not encrypted */
  uint64_t cache_bytes; /* limit of the cache of decoded tiles; 0 = 256 MiB */
  unsigned threads; /* for reading and decoding; 0 = the number of cores, at most 8 */
  /* NULL, or an array that is prepared and not yet published ("Writing"). This handle treats the array as existing: it
   * can be written to, and the handle stays valid when the array is published. */
  const struct tsr_creation *creation;
  const struct tsr_array_host *host; /* NULL, or what only hosts set (tessera_host.h) */
} tsr_array_options;

/* Opens the array in the directory `path` (a path, or a file:// URI, whose percent-escapes are decoded). `options` may
 * be NULL. Reads the array's schemas, not its fragments. TSR_NOT_FOUND: there is no array; TSR_AUTH: the key is missing
 * or wrong. */
TSR_API int tsr_array_open(tsr_environment *environment, const char *path, const tsr_array_options *options,
                           tsr_array **array, tsr_error *error);
TSR_API void tsr_array_close(tsr_array *array); /* after its snapshots, readers and writers */
/* Changes the limit of the cache, in bytes. Tiles over the limit are evicted at once; 0: the cache keeps none. */
TSR_API void tsr_array_set_cache(tsr_array *array, uint64_t cache_bytes);
/* Returns the path as passed to tsr_array_open, without file://. Borrowed until the array is closed. */
TSR_API const char *tsr_array_path(const tsr_array *array);

/* The times to pass for "unbounded". */
#define TSR_TIME_BEGIN 0
#define TSR_TIME_NOW   UINT64_MAX

/* Gives the schema in force at `as_of`: the last by name of the schemas that are not later. Looks for new schemas
 * first. Borrowed until the array is closed. */
TSR_API int tsr_array_schema(tsr_array *array, uint64_t as_of, const tsr_schema **schema, tsr_error *error);

/* Gives the enumeration `name` of `schema`, with its labels loaded. Borrowed until the array is closed. */
TSR_API int tsr_array_enumeration(tsr_array *array, const tsr_schema *schema, const char *name,
                                  const tsr_enumeration **enumeration, tsr_error *error);

/* ---- Snapshots: what is visible between two times ---------------------------------------------------------------- */

typedef struct tsr_snapshot tsr_snapshot;

/* Opens a snapshot: the cells that were written between two times, both inclusive. A snapshot never changes.
 *
 * `schema` is the schema of this array (tsr_array_schema) whose fields readers return; NULL: the one in force at
 * `as_of`. If a fragment lacks one of its attributes, the attribute reads as the fill value there, marked unwritten.
 *
 * Lists the array's directories only if they have changed since the last listing, and opens the fragments in view
 * (reads their footers) unless they are open already. The caller closes the snapshot after its readers, before the
 * array. */
TSR_API int tsr_snapshot_open(tsr_array *array, const tsr_schema *schema, uint64_t since, uint64_t as_of,
                              tsr_snapshot **snapshot, tsr_error *error);
TSR_API void tsr_snapshot_close(tsr_snapshot *snapshot);
TSR_API const tsr_schema *tsr_snapshot_schema(const tsr_snapshot *snapshot); /* borrowed until it is closed */
/* Gives the box around all written cells, one interval for each dimension, borrowed until the snapshot is closed.
 * Returns 1; 0 if the snapshot is empty. TSR_ERROR: the snapshot lacks cells of the past (tsr_snapshot_open). */
TSR_API int tsr_snapshot_non_empty_domain(tsr_snapshot *snapshot, const tsr_interval **intervals, tsr_error *error);

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* A range of values of one field, in its datatype. NULL is an open end. A range with low > high is empty, not an error.
 */
typedef struct tsr_range {
  const void *low, *high;
  uint64_t low_size, high_size; /* in bytes; for strings only */
  bool low_exclusive, high_exclusive;
} tsr_range;

typedef struct tsr_ranges { /* the union of ranges of one field, in any order; they may overlap */
  const tsr_range *ranges;
  uint64_t count;
  bool all; /* all values; `ranges` and `count` are ignored */
  const struct tsr_ranges *also; /* another union to intersect this one with; or NULL */
} tsr_ranges;

/* A condition on an attribute. Null here means: a null cell, a NaN, or an unwritten cell (see fill_unwritten). */
typedef enum tsr_predicate_kind {
  /* The value is not null and lies in the ranges. For attributes with one number, datetime or time per cell, and for
   * strings of CHAR, ASCII and UTF8. */
  TSR_PREDICATE_WITHIN,
  TSR_PREDICATE_IS_NULL,
  TSR_PREDICATE_NOT_NULL
} tsr_predicate_kind;
typedef struct tsr_predicate {
  uint32_t field;
  tsr_predicate_kind kind;
  bool negated; /* inverts the result: with WITHIN, "null, or outside the ranges" */
  bool nat_is_null; /* datetimes and times: NaT (the least int64) counts as null, too */
  tsr_ranges ranges; /* WITHIN: values of the attribute's datatype; "not equal" is two exclusive ranges */
} tsr_predicate;

typedef struct tsr_sort { /* sorts rows by the values of a dimension; NaN sorts before all numbers */
  uint32_t dimension;
  bool descending;
} tsr_sort;

typedef struct tsr_request { /* `= {0}` is everything */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const tsr_ranges *dimensions; /* one for each dimension; NULL: everything */
  /* One for each field of the snapshot's schema: true if the reader is to decode the field ahead, in parallel. NULL:
   * none. tsr_reader_column decodes the other fields on demand. */
  const bool *fields;
  /* One for each field, or NULL: true if the caller will probably read the field. A store where every read is a request
   * (S3) fetches it together with the fields above; other stores ignore this. */
  const bool *likely;
  const tsr_predicate *predicates; /* all of them must hold */
  uint32_t predicate_count;
  bool fill_unwritten; /* predicates see unwritten cells as the fill value; false: as null */
  const tsr_sort *order; /* order of the rows, most significant dimension first; equal rows come in any order */
  uint32_t order_count; /* 0: the cheapest order */
  /* Of the rows that are equal in all dimensions of `order`, only one must be returned. `fields` and `predicates` may
   * then name no other field. */
  bool distinct;
  bool times; /* fill in the times of cells (tsr_batch.time, tsr_batch.times) */
  uint64_t limit; /* expected number of rows that the caller will take; 0: all. Only a hint: more may be read */
  uint64_t memory_bytes; /* limit of working memory; 0 = 1 GiB */
  unsigned threads; /* 0: the array's */
} tsr_request;

/* The expected cost of a request. Fragments and tiles are selected by the same code that the reader uses. */
typedef struct tsr_estimate {
  double rows;
  double written; /* upper bound of the written rows: in dense arrays it may be less than `rows` */
  double tiles; /* tiles to read, counted for each field */
  double cells; /* cells to decode */
  uint64_t fragments;
} tsr_estimate;
/* Estimates the cost of a request. May read R-trees. */
TSR_API int tsr_request_estimate(tsr_snapshot *snapshot, const tsr_request *request, tsr_estimate *estimate,
                                 tsr_error *error);

/* The values of one field for the cells of a batch. tsr_batch_index gives the index i of a row; j = constant ? 0 : i.
 *   fixed size:      the value is at (uint8_t *)values + j * cell_size
 *   variable size:   the value is the bytes values[offsets[j]] to values[offsets[j + 1] - 1]
 * Borrowed until the next call of tsr_reader_next, tsr_reader_find, tsr_reader_start or tsr_reader_reset. */
typedef struct tsr_column {
  const void *values;
  const uint64_t *offsets; /* in bytes; variable size only */
  const uint8_t *validity; /* one byte for each cell, at index j; 0: null. NULL: no cell is null */
  uint64_t cell_size; /* in bytes; 0: variable */
  bool constant; /* all cells have one value */
  bool unwritten; /* the cells were never written, or their fragment lacks the attribute: the value is the fill value */
} tsr_column;

/* Cells of one tile, or gathered from several. A row r has 0 <= r < count; its values are at index i = selection ?
 * selection[r] : first + r of the columns. */
typedef struct tsr_batch {
  uint64_t count; /* rows */
  const uint32_t *selection;
  uint64_t first;
  int64_t row_base; /* the rowid of index i is rowids ? rowids[i] : row_base + i */
  const int64_t *rowids;
  bool written; /* false: these cells of a dense array were never written */
  uint64_t time; /* index i was written at times ? times[i] : time */
  const uint64_t *times;
  /* number of the fragment that holds the cells, as in tsr_fragment_describe; TSR_FRAGMENT_NONE: several fragments, or
   * none */
  uint64_t fragment;
} tsr_batch;
#define TSR_FRAGMENT_NONE UINT64_MAX
/* Returns the index of a row. */
static inline uint64_t tsr_batch_index(const tsr_batch *batch, uint64_t row) {
  return batch->selection ? batch->selection[row] : batch->first + row;
}
/* Returns the rowid of an index. */
static inline int64_t tsr_batch_rowid(const tsr_batch *batch, uint64_t index) {
  return batch->rowids ? batch->rowids[index] : batch->row_base + (int64_t)index;
}

typedef struct tsr_reader tsr_reader;

/* Opens a reader over a snapshot. It can be started many times, for example for each outer row of a join, and reuses
 * its memory from start to start. The caller closes it before the snapshot. */
TSR_API int tsr_reader_open(tsr_snapshot *snapshot, tsr_reader **reader, tsr_error *error);
TSR_API void tsr_reader_close(tsr_reader *reader);
/* Ends the current request. If `forget` is false, a reader that has been started repeatedly keeps its most recently
 * used tiles, within its budget, for the next start. Returns how many bytes of other memory it keeps. */
TSR_API uint64_t tsr_reader_reset(tsr_reader *reader, bool forget);
/* Ends the current request and starts a new one. `request` is copied; NULL: everything. */
TSR_API int tsr_reader_start(tsr_reader *reader, const tsr_request *request, tsr_error *error);
/* Gives the next batch, which has at least one row. It is borrowed until the next call on this reader other than
 * tsr_reader_column. Returns 1; 0 at the end. */
TSR_API int tsr_reader_next(tsr_reader *reader, const tsr_batch **batch, tsr_error *error);
/* Ends the current request and finds the row with a rowid. Returns 1 and a batch of one row, whose columns
 * tsr_reader_column gives; 0 if the snapshot has no such row. */
TSR_API int tsr_reader_find(tsr_reader *reader, int64_t row, const tsr_batch **batch, tsr_error *error);
/* Gives the column of a field for the current batch. Decodes the field now unless the request named it. */
TSR_API int tsr_reader_column(tsr_reader *reader, uint32_t field, const tsr_column **column, tsr_error *error);

/* ---- Blocks: boxes of dense arrays as memory --------------------------------------------------------------------- */

/* Counts the cells of a box (one interval for each dimension). *cells: their number; `counts`: the number of
 * coordinates on each dimension, may be NULL. TSR_RANGE: the box is not within the domain; TSR_ERROR: the array is
 * sparse. */
TSR_API int tsr_block_cells(const tsr_snapshot *snapshot, const tsr_interval *box, uint64_t *counts, uint64_t *cells,
                            tsr_error *error);
/* Reads the values of an attribute of fixed length in a box into `out`, row-major (the last dimension varies fastest).
 * `size` is the size of `out` in bytes: cells times cell_size. Null and unwritten cells read as the fill value.
 * `memory_bytes` limits the working memory in addition to `out` (0 = 1 GiB); threads 0: the array's. */
TSR_API int tsr_block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                           unsigned threads, void *out, uint64_t size, tsr_error *error);
/* The same, and sets nulls[i] to 1 where cell i is null or was never written, else to 0. `nulls` has a byte for each
 * cell. */
TSR_API int tsr_block_read_nulls(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                                 unsigned threads, void *out, uint64_t size, uint8_t *nulls, tsr_error *error);

/* ---- Aggregates -------------------------------------------------------------------------------------------------- */

/* Count, sum, minimum and maximum of a field over a box: of all cells together, or of each group of cells with equal
 * values on some dimensions. Computed in parallel, and from the statistics of tiles instead of their cells where the
 * statistics can be trusted. Nulls here are null cells, NaN, and unwritten cells. */
#define TSR_BY_MAX 3
typedef struct tsr_aggregate_request {
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const tsr_ranges *dimensions; /* one for each dimension; NULL: everything */
  uint32_t field; /* must have one number, BOOL, datetime or time per cell */
  const uint32_t *by; /* dimensions that form the groups, at most TSR_BY_MAX */
  uint32_t by_count; /* 0: one group */
  bool read_all; /* use no statistics */
  uint64_t memory_bytes; /* limit of working memory and groups; 0 = 1 GiB */
  unsigned threads; /* 0: the array's */
} tsr_aggregate_request;
typedef struct tsr_aggregate_row { /* one group */
  const void *keys[TSR_BY_MAX]; /* the value of each dimension in `by`; borrowed until the next tsr_aggregate_get */
  uint64_t key_sizes[TSR_BY_MAX]; /* in bytes */
  uint64_t count, nulls; /* cells that are not null, and cells that are */
  bool fits; /* integers: the sum fits into a signed integer of 64 bits */
  int64_t sum; /* integers: the sum if it fits, else 0 */
  double real_sum; /* the sum, rounded */
  uint8_t min[8], max[8]; /* in the field's datatype; zeros if count is 0 */
} tsr_aggregate_row;
typedef struct tsr_aggregate tsr_aggregate;
/* Computes the aggregate. TSR_BUDGET, naming memory_mb: the groups exceed memory_bytes. The caller closes it before the
 * snapshot. */
TSR_API int tsr_aggregate_open(tsr_snapshot *snapshot, const tsr_aggregate_request *request, tsr_aggregate **aggregate,
                               tsr_error *error);
TSR_API void tsr_aggregate_close(tsr_aggregate *aggregate);
/* Returns the number of groups that have cells; 1 without `by`, also if there are no cells. */
TSR_API uint64_t tsr_aggregate_count(const tsr_aggregate *aggregate);
/* Gives group number `index`; groups are in the order of their keys. */
TSR_API void tsr_aggregate_get(tsr_aggregate *aggregate, uint64_t index, tsr_aggregate_row *row);

/* ---- Dimension labels: the coordinates of a dimension by other values ---------------------------------------------
 */

/* The values of a dimension label: those of a declared label strictly increase or decrease along the dimension. A cell
 * of the index is one value; cells are numbered in the order of their coordinates, from the first written value on.
 * Values that were never written, and NaN, NaT and null, have no order: searches do not find them. */
typedef struct tsr_label_index tsr_label_index;
/* Opens the array of label number `label` of a schema of `array`, with that array's key, without reading its values.
 * memory_bytes limits the memory for values (0: no limit). The index is independent of `array` from then on; the caller
 * closes it before the environment. TSR_CORRUPT: the label's array does not fit the label's declaration; TSR_NOT_FOUND:
 * it is missing; TSR_UNSUPPORTED: it is outside of the labelled array, or its values have no order. */
TSR_API int tsr_label_open(tsr_array *array, const tsr_schema *schema, uint32_t label, uint64_t memory_bytes,
                           tsr_label_index **index, tsr_error *error);

typedef struct tsr_label_fields { /* which fields of an array with one dimension are a label */
  const tsr_schema *schema; /* of that array; borrowed until the index is closed */
  /* numbers of two fields: the coordinates, which are the dimension (0) or an attribute of integers; and the values */
  uint32_t coordinate, value;
} tsr_label_fields;
/* Returns true if an attribute can be the values of a label: one number or time in each cell, or text. */
TSR_API bool tsr_label_suits(const tsr_field *attribute);
/* Opens an attribute of an array as the label of dimension number `dimension` of a schema, although no schema declares
 * it. The array is dense or sparse, with one dimension; its coordinates are of the labelled dimension's datatype, or
 * both are integers. The values may be in any order, and equal; no two rows may have one coordinate, else reading them
 * fails with TSR_CONSTRAINT. `values` is borrowed: the caller closes it after the index. TSR_MISMATCH: the array has
 * several dimensions, or other coordinates; TSR_CORRUPT: the attribute has several values in a cell; TSR_UNSUPPORTED:
 * the labelled dimension has floats or strings. */
TSR_API int tsr_label_open_array(tsr_array *values, const tsr_label_fields *fields, const tsr_schema *schema,
                                 uint32_t dimension, uint64_t memory_bytes, tsr_label_index **index, tsr_error *error);
TSR_API void tsr_label_close(tsr_label_index *index);
/* Returns the attribute that has the values. Borrowed until the index is closed, as is everything below up to
 * tsr_label_read. */
TSR_API const tsr_field *tsr_label_field(const tsr_label_index *index);
/* Returns the schema of the label's array; it can be used as the `array` of a label in another schema. */
TSR_API const tsr_schema *tsr_label_schema(const tsr_label_index *index);
/* Makes the index show the values that were written between two times, inclusive. Reads them only if they differ from
 * those of the last call. TSR_CORRUPT: they do not increase or decrease as the label's array promises. After an error
 * the index has no values. */
TSR_API int tsr_label_read(tsr_label_index *index, uint64_t since, uint64_t as_of, tsr_error *error);
/* tsr_label_read in two steps. tsr_label_set_times says which times the index shows, and reads no values; until
 * tsr_label_load, only tsr_label_find and tsr_label_nearest may be called. */
TSR_API int tsr_label_set_times(tsr_label_index *index, uint64_t since, uint64_t as_of, tsr_error *error);
TSR_API int tsr_label_load(tsr_label_index *index, tsr_error *error);
/* Returns true if all coordinates from `low` to `high` have values. */
TSR_API bool tsr_label_covers(const tsr_label_index *index, const void *low, const void *high);
TSR_API const tsr_column *tsr_label_cells(const tsr_label_index *index);
/* Gives the cell of a coordinate (one value of the dimension's datatype). Returns false if the coordinate has no value.
 */
TSR_API bool tsr_label_cell(const tsr_label_index *index, const void *coordinate, uint64_t *cell);
/* Writes the coordinate of a cell. */
TSR_API void tsr_label_coordinate(const tsr_label_index *index, uint64_t cell, uint8_t coordinate[8]);
/* Gives the intervals of coordinates whose values are in the ranges, at most `limit` (TSR_RANGE if there are more). An
 * interval may contain coordinates without a value, unless `exact` is set. If the label has many numeric values and
 * they are not loaded, only the tiles in which the interval begins and ends are read. TSR_CORRUPT: as for
 * tsr_label_read. */
TSR_API int tsr_label_find(tsr_label_index *index, const tsr_ranges *ranges, bool exact, uint64_t limit,
                           tsr_interval *intervals, uint64_t *count, tsr_error *error);
/* Finds the coordinate that has a value (`size` bytes if it is a string). Returns 1; 0 if there is none. */
TSR_API int tsr_label_coordinate_of(const tsr_label_index *index, const void *value, uint64_t size,
                                    uint8_t coordinate[8], tsr_error *error);
/* Gives the coordinate whose value is nearest to `value` (`size` bytes if it is a string), and that value, unless it is
 * a string. An equal value always wins; otherwise `side` selects the next smaller value (-1), the nearer of the two
 * neighbours (0; if they are equally near, the one with the lower coordinate) or the next greater value (1). Returns 1;
 * 0 if there is none. If the label has many numeric values and they are not loaded, only the tiles of the two
 * neighbours are read. TSR_MISMATCH: side is 0 and the values are strings. TSR_CORRUPT: as for tsr_label_read. */
TSR_API int tsr_label_nearest(tsr_label_index *index, const void *value, uint64_t size, int side, uint8_t coordinate[8],
                              uint8_t found_value[8], tsr_error *error);

/* Writes the values of `count` coordinates from `first` on (one value of the dimension's datatype) into the label's
 * array, as a separate commit. `values` are cells as tsr_label_field describes them; NaN and NaT mean that a coordinate
 * has no value. Reads the label's current values first. TSR_CONSTRAINT: the values would not strictly increase or
 * decrease; the message names the coordinate. TSR_RANGE: the coordinates reach beyond the domain. */
TSR_API int tsr_label_write(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                            tsr_error *error);
/* Writes all values that `from` has read into the array of `to`, an empty label with the same datatype and domain, as a
 * separate commit. Coordinates without a value remain without one. */
TSR_API int tsr_label_copy(const tsr_label_index *from, tsr_label_index *to, tsr_error *error);

/* ---- Downsampling: two dimensions as a picture ------------------------------------------------------------------- */

/* Reduces a box to a grid of places, each the mean of its cells, batch by batch and in parallel. A dimension of n
 * values is spread over p <= n places: value number i falls into place i * p / n. On a dimension of floats, the places
 * divide the box into equal intervals. */
typedef struct tsr_downsample_request {
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const tsr_interval *box; /* one for each dimension */
  uint32_t field; /* an attribute with one number, BOOL, datetime or time per cell */
  uint32_t row, column; /* two dimensions that are not strings */
  uint64_t height, width; /* places, at least 1; dimensions of integers get no more places than the box has values */
  const struct tsr_downsample_side *rows, *columns; /* tessera_host.h: places of another kind; both, or both NULL */
  bool skip_fill; /* ignore cells that have the attribute's fill value, as nulls are */
  uint64_t memory_bytes; /* limit of working memory and places; 0 = 1 GiB */
  unsigned threads; /* 0: the array's */
} tsr_downsample_request;
typedef struct tsr_downsample {
  uint64_t height, width; /* of `means` */
  const double *means; /* row-major, both dimensions ascending; NaN: the place has no cell */
  uint64_t cells; /* cells averaged: not null, NaN, NaT or unwritten */
  uint64_t most; /* the largest number of these cells in one place */
  double min, max; /* of the finite values; min > max if there are none */
} tsr_downsample;
/* Computes the grid. TSR_BUDGET, naming memory_mb: the places exceed memory_bytes. The caller closes it; it may outlive
 * the snapshot. */
TSR_API int tsr_downsample_open(tsr_snapshot *snapshot, const tsr_downsample_request *request,
                                tsr_downsample **downsample, tsr_error *error);
TSR_API void tsr_downsample_close(tsr_downsample *downsample);

/* ---- Partitions: slices of about equal work ---------------------------------------------------------------------- */

#define TSR_CUT_TEXT 64 /* longest string at which slices are cut, in bytes */
/* The ends of a slice on one dimension. */
typedef struct tsr_cut {
  bool has_low, has_high; /* false: the slice is not cut at this end */
  tsr_interval values; /* the ends where the slice is cut, inclusive (but see low_after) */
  bool low_after; /* strings: the low end is exclusive */
  uint8_t next[8]; /* floats, if has_high: low end of the next slice; this slice has the values below it */
} tsr_cut;
typedef struct tsr_partition { /* a slice; borrowed until the partitions are closed */
  const tsr_cut *cuts; /* one for each dimension */
  uint64_t tiles; /* tiles to read, of all fragments, counted for each field */
  uint64_t cells; /* dense: the slice's rows; sparse: an estimate */
  uint64_t bytes; /* estimated stored size of these tiles */
} tsr_partition;
typedef struct tsr_partitions {
  uint64_t count;
  const tsr_partition *partitions;
} tsr_partitions;
/* Divides the cells that `dimensions` select (one for each dimension; NULL: everything) into at most `count` slices
 * that share no cell. If a dimension of floats is cut, no slice contains cells with a NaN coordinate. Dense arrays are
 * cut between space tiles into about equal numbers of cells; sparse arrays are cut where the fewest tiles straddle the
 * cut. An empty array has no slices. The caller closes the partitions before the snapshot. */
TSR_API int tsr_partitions_open(tsr_snapshot *snapshot, const tsr_ranges *dimensions, uint64_t count,
                                tsr_partitions **partitions, tsr_error *error);
TSR_API void tsr_partitions_close(tsr_partitions *partitions);

/* ---- Gaps: cells of a dense array that were never written -------------------------------------------------------- */

#define TSR_GAPS_MAX   1000000u /* boxes, at most */
#define TSR_GAPS_BOXES UINT32_MAX /* `by`: not by one dimension */
typedef struct tsr_gap {
  const tsr_interval *box; /* one interval for each dimension; borrowed until the gaps are closed */
  uint64_t cells; /* of the box, saturated at UINT64_MAX */
} tsr_gap;
typedef struct tsr_gaps {
  uint64_t count;
  const tsr_gap *gaps; /* by their low ends, those of the first dimension first */
} tsr_gaps;
/* Finds the cells of a box that no fragment of the snapshot has written, within the current domain, or else the domain.
 * `within` has one interval for each dimension, NULL: everything. The boxes found are disjoint, and no two of them form one. With a
 * dimension as `by`, they are instead the maximal intervals of that dimension at which the box has no written cell, and
 * reach over all of `within` on the others. Reads metadata only, except in arrays of format versions up to 10, where
 * dense arrays may have sparse fragments. memory_bytes 0: 1 GiB. TSR_ERROR: the array is sparse; TSR_RANGE: `within` is
 * not in the domain; TSR_TOOBIG: more than TSR_GAPS_MAX boxes. The caller closes the gaps. */
TSR_API int tsr_gaps_open(tsr_snapshot *snapshot, const tsr_interval *within, uint32_t by, uint64_t memory_bytes,
                          tsr_gaps **gaps, tsr_error *error);
TSR_API void tsr_gaps_close(tsr_gaps *gaps);

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* A schema for a new array is a tsr_schema that the caller fills in and keeps until the call returns:
 *  - The caller sets: dense, orders, capacity (sparse arrays), allows_duplicates, filters, dimensions and attributes in
 *    `fields`, enumerations with their labels (loaded = true, count + 1 offsets), current_domain.
 *  - version: 0 = TSR_FORMAT_WRITE_MAX; 3 and 12 to 22 can be chosen.
 *  - values_per_cell: TSR_VARIABLE for strings and other fields of variable length.
 *  - max_chunk_size of a pipeline: 0 = 65,536, unless `uncut` is set.
 *  - fill: NULL = the datatype's default; null if the attribute is nullable.
 *  - labels: name, dimension and `array`, the schema of the label's array: dense, with one dimension that has the
 *    domain of the labelled dimension, and one attribute with a data_order.
 *  - is_dimension, cell_size, name, time, and the files of enumerations need not be set.
 * The schema of an open array without labels can be passed as is, to make an array like it. */

/* Makes the schema of a label's array, as TileDB would make it, for a dimension of a schema that is being filled in.
 * `values` has the datatype, values_per_cell, data_order and filters. The schema points to `fields` and to the filters.
 */
TSR_API void tsr_label_array_schema(const tsr_schema *labelled, uint32_t dimension, const tsr_field *values,
                                    tsr_field fields[2], tsr_schema *schema);

/* Checks whether tsr_array_create would accept a schema. If not, it fails with TSR_CONSTRAINT, TSR_RANGE or
 * TSR_UNSUPPORTED, and the message names the field and the rule. */
TSR_API int tsr_schema_check(tsr_environment *environment, const tsr_schema *schema, tsr_error *error);

/* Checks one pipeline of filters in the same way, independent of the format version. */
TSR_API int tsr_filters_check(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell,
                              bool is_dimension, tsr_error *error);

typedef struct tsr_create_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const uint8_t *key; /* 32 bytes, copied: encrypt the array (AES-256-GCM); NULL: do not */
  uint64_t time; /* of the schema; 0 = now */
  bool unsynced; /* do not sync files and directories to disk */
  /* Path of a database file whose commit must be on disk before the array is published; or NULL. */
  const char *owner_file;
} tsr_create_options;

/* Creates an array at `path`, and missing parent directories. The array appears in one step; if the call fails, it
 * leaves nothing behind. `options` may be NULL. TSR_EXISTS: something is at this path already. */
TSR_API int tsr_array_create(tsr_environment *environment, const char *path, const tsr_schema *schema,
                             const tsr_create_options *options, tsr_error *error);

/* Creates an array in two steps. tsr_creation_prepare does everything that is likely to fail; the directory is not an
 * array for any reader yet. tsr_creation_publish makes the array appear. Cells that a writer has published in between
 * (tsr_array_options.creation) appear with it. */
typedef struct tsr_creation tsr_creation;
TSR_API int tsr_creation_prepare(tsr_environment *environment, const char *path, const tsr_schema *schema,
                                 const tsr_create_options *options, tsr_creation **creation, tsr_error *error);
TSR_API int tsr_creation_publish(tsr_creation *creation, tsr_error *error);
/* Removes the prepared array with the cells written into it. Does nothing after tsr_creation_publish. The caller still
 * closes the creation. */
TSR_API int tsr_creation_abandon(tsr_creation *creation, tsr_error *error);
TSR_API void tsr_creation_close(tsr_creation *creation); /* changes nothing on disk */

/* Copies an array file by file, byte for byte, from one directory or store to another. The copy appears in one step; if
 * the call fails, it leaves nothing behind. Needs no key. *files: the number of files copied; `files` may be NULL.
 * TSR_EXISTS: something is at `to` already. */
TSR_API int tsr_array_copy_files(tsr_environment *environment, const char *from, const char *to, bool unsynced,
                                 uint64_t *files, tsr_error *error);

typedef struct tsr_sync_options { /* `= {0}`: the copy has no commits of its own */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  bool merge; /* keep the copy's own commits, so that it becomes the union of both */
  bool verify; /* also compare the bytes of what both sides have: TSR_CORRUPT if they differ */
  uint64_t as_of; /* milliseconds since 1970: copy only commits and metadata up to then. 0: all */
  /* Texts by which a later sync knows both places again; NULL: the paths. Borrowed during the call. */
  const char *from_identity, *to_identity;
} tsr_sync_options;

typedef struct tsr_sync_result { /* what a sync did, also if it failed */
  uint64_t copied; /* files */
  uint64_t removed; /* files, and fragments as one each */
  uint64_t bytes; /* in the copied files */
} tsr_sync_result;

/* Makes the array `to` the same as `from`, with all states and times, by copying the commits, metadata and schemas that
 * it lacks; and removes the fragments that a vacuum has removed from `from`. An empty place gets a whole copy. Only
 * what is new travels, new commits of format version 12 or later appear in one step, and a sync that was cut off goes
 * on in the next one. Needs no key. `options` and `result` may be NULL. TSR_NOT_FOUND: there is no array at `from`.
 * TSR_EXISTS: `to` is another array, or something else. TSR_ERROR: `to` has commits of its own, or with `merge` one
 * side has merged over times in which the other has commits of its own, or over `as_of`; nothing is changed then. */
TSR_API int tsr_array_sync(tsr_environment *environment, const char *from, const char *to,
                           const tsr_sync_options *options, tsr_sync_result *result, tsr_error *error);

/* A writer collects the cells and deletes of one commit. Order of use: append and remove any number of times, prepare,
 * publish, close; tsr_writer_abandon at any time before publish. More cells can be appended after prepare; the next
 * prepare then replaces the prepared commit. No reader sees any of a commit before publish, and every reader sees all
 * of it afterwards: publish is one exclusive create, or one rename. */
typedef struct tsr_writer tsr_writer;

typedef struct tsr_writer_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  /* Time of the commit. 0: tsr_writer_prepare chooses the current time, but later than everything visible; it waits for
   * the clock, so that the time is never in the future. */
  uint64_t time;
  uint64_t memory_bytes; /* limit of buffered cells and working memory; 0 = 1 GiB */
  unsigned threads; /* 0: the array's */
  bool unsynced; /* do not sync files and directories to disk */
  /* NULL: the newest schema. Else one of tsr_array_schema_without; the writer then only appends cells. */
  const tsr_schema *schema;
  const struct tsr_writer_host *host; /* NULL, or what only hosts set (tessera_host.h) */
} tsr_writer_options;

/* Opens a writer. The commit has the format version of the schema if that is 3 or 7 to 22, else 22. `options` may be
 * NULL. TSR_READONLY: the schema's version is newer than 22. The caller closes the writer before the array. */
TSR_API int tsr_writer_open(tsr_array *array, const tsr_writer_options *options, tsr_writer **writer, tsr_error *error);
/* Returns the schema whose fields correspond to the columns of tsr_writer_append. Borrowed until the writer is closed.
 */
TSR_API const tsr_schema *tsr_writer_schema(const tsr_writer *writer);

/* Appends cells. `columns` has one column for each field, with values, offsets, validity and constant as in tsr_column;
 * the values are copied. The cells are at the indexes selection[0] to selection[count - 1] of the columns, or at 0 to
 * count - 1 if `selection` is NULL. Cells may be in any order. Of several cells with the same coordinates, the last one
 * wins, unless the array allows duplicates. TSR_RANGE: a coordinate outside the domain; TSR_CONSTRAINT: null in an
 * attribute that is not nullable; TSR_CHECK: a cell breaks a CHECK constraint of the array (tsr_array_constraints).
 * On an error no cell was added. */
TSR_API int tsr_writer_append(tsr_writer *writer, const tsr_column *columns, const uint32_t *selection, uint64_t count,
                              tsr_error *error);
/* Dense arrays: writes all cells of a box (one interval for each dimension) straight to the commit's files, which stay
 * invisible until publish; no cell stays in memory. The cells are in row-major order of the box or, if `array_order` is
 * true, in the array's cell order. Columns of dimensions are ignored. Boxes of one writer may not overlap; below format
 * version 12 a writer takes one box only. */
TSR_API int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order,
                                  const tsr_column *columns, tsr_error *error);
/* Sparse arrays of format version 16 and later: removes a row. `row` is its rowid: negative for an uncommitted cell of
 * this writer, else a committed one. `coordinates` has one column for each dimension, with the row's values at `index`.
 * An uncommitted cell is dropped. A committed one becomes part of a delete condition, unless an uncommitted cell with
 * the same coordinates remains. */
TSR_API int tsr_writer_remove(tsr_writer *writer, int64_t row, const tsr_column *coordinates, uint64_t index,
                              tsr_error *error);

TSR_API bool tsr_writer_changed(const tsr_writer *writer); /* true if there is anything to commit */
/* Writes the commit completely, but invisibly. Everything that is likely to fail happens here. */
TSR_API int tsr_writer_prepare(tsr_writer *writer, tsr_error *error);
/* After prepare: the number of the commit's fragments (0 if no cell was appended), the name of each, and the commit's
 * time. Borrowed until the writer is changed. */
TSR_API uint64_t tsr_writer_fragment_count(const tsr_writer *writer);
TSR_API const char *tsr_writer_fragment(const tsr_writer *writer, uint64_t index);
TSR_API uint64_t tsr_writer_time(const tsr_writer *writer);
/* Makes the prepared commit visible. TSR_NOT_FOUND: the prepared files are gone. */
TSR_API int tsr_writer_publish(tsr_writer *writer, tsr_error *error);
/* Removes everything that the writer has written but not published. The caller still closes the writer. */
TSR_API int tsr_writer_abandon(tsr_writer *writer, tsr_error *error);
/* A prepared, unpublished commit stays on disk, invisible; the files of an unprepared one are removed. */
TSR_API void tsr_writer_close(tsr_writer *writer);

/* ---- Maintenance ------------------------------------------------------------------------------------------------- */

/* Kinds of files that maintenance handles. Arrays have all of them; groups have only metadata. */
typedef enum tsr_maintenance {
  TSR_MAINTAIN_FRAGMENTS = 1,
  TSR_MAINTAIN_COMMITS = 2,
  TSR_MAINTAIN_FRAGMENT_META = 4,
  TSR_MAINTAIN_METADATA = 8,
  TSR_MAINTAIN_ALL = 15
} tsr_maintenance;

typedef struct tsr_consolidate_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  uint64_t since, as_of; /* only objects within these times; as_of 0 = now */
  const char *const *fragments; /* names of fragments: merge exactly these */
  uint64_t fragment_count; /* 0: any fragments */
  uint64_t max_fragment_bytes; /* limit of the total size of fragments that are merged into one; 0: none */
  uint64_t memory_bytes; /* limit of working memory; 0 = 1 GiB */
  unsigned threads; /* 0: the array's */
  bool purge_deleted; /* drop deleted cells, also for readers of earlier times */
} tsr_consolidate_options;

/* Consolidates one kind of files (not TSR_MAINTAIN_ALL). Fragments: merges fragments that follow each other in time,
 * provided that no reader's view changes. Commits, footers of fragments, metadata: joins many files into one. The
 * replaced files stay until a vacuum. *merged: the number of files or fragments that were merged. Each merge is one
 * commit: if the call fails, completed merges remain. The arrays of dimension labels are consolidated after the array,
 * unless `fragments` are named. No writer of the array may be open. `options` may be NULL, here and below. */
TSR_API int tsr_array_consolidate(tsr_array *array, tsr_maintenance what, const tsr_consolidate_options *options,
                                  uint64_t *merged, tsr_error *error);
/* Counts the fragments that the first pass of consolidation would merge now, and changes nothing. The result is also 0
 * for arrays that cannot be merged at all. Writers may be open. */
TSR_API int tsr_array_mergeable(tsr_array *array, const tsr_consolidate_options *options, uint64_t *fragments,
                                tsr_error *error);
/* Removes replaced files of all kinds in `what`, a union of tsr_maintenance. With TSR_MAINTAIN_FRAGMENTS, it also
 * removes files that unfinished writes left behind at least a day ago, except those of a prepared commit
 * (tsr_writer_host.owner), and aborts multipart uploads to a bucket that were begun at least a day ago. The arrays
 * of dimension labels are vacuumed after the array. *removed: the number of files and fragments removed. */
typedef struct tsr_vacuum_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  uint64_t grace; /* in milliseconds: files replaced more recently than this stay, for readers that have listed them */
  uint64_t most; /* about so many replaced fragments are removed, those of whole merges, the rest stays; 0: all */
} tsr_vacuum_options;
TSR_API int tsr_array_vacuum(tsr_array *array, tsr_maintenance what, const tsr_vacuum_options *options,
                             uint64_t *removed, tsr_error *error);
/* The same for the metadata of a group. */
typedef struct tsr_group tsr_group;
TSR_API int tsr_group_consolidate(tsr_group *group, const tsr_consolidate_options *options, uint64_t *merged,
                                  tsr_error *error);
TSR_API int tsr_group_vacuum(tsr_group *group, const tsr_vacuum_options *options, uint64_t *removed, tsr_error *error);
/* Takes, renews or releases the advisory lease on an array or a group, for example before a consolidation. Returns 1 if
 * this environment holds the lease afterwards: nobody else held it, or it had expired. No other environment gets it for
 * `seconds` (1 to TSR_LEASE_MAX) by the clock of the store. 0 seconds release it. Returns 0 if another environment
 * holds it, or after a release. A lease stops nobody who does not ask for it. It leaves a small file ".lease_N" in the
 * array. TSR_RANGE: too many seconds; TSR_NOT_FOUND: there is no array and no group. */
#define TSR_LEASE_MAX 86400
TSR_API int tsr_lease(tsr_environment *environment, const char *path, uint64_t seconds, tsr_error *error);

/* ---- Looking inside ---------------------------------------------------------------------------------------------- */

/* The times `since` and `as_of` below are inclusive, as for snapshots; TSR_TIME_BEGIN and TSR_TIME_NOW mean no limit.
 */

/* Kind of a directory: an array if it has __schema or __array_schema.tdb, else a group if it has __group or
 * __tiledb_group.tdb. */
typedef enum tsr_object_kind { TSR_OBJECT_NONE, TSR_OBJECT_ARRAY, TSR_OBJECT_GROUP } tsr_object_kind;
/* Gives the kind of the directory `path`; TSR_OBJECT_NONE also if nothing exists there. */
TSR_API int tsr_object_find(tsr_environment *environment, const char *path, tsr_object_kind *kind, tsr_error *error);

typedef struct tsr_object {
  const char *path; /* begins with the path passed to tsr_objects_open */
  tsr_object_kind kind; /* array or group */
} tsr_object;
typedef struct tsr_objects {
  uint64_t count;
  const tsr_object *objects; /* sorted by path, as bytes */
} tsr_objects;
/* Finds all arrays and groups below a directory, without the directory itself. Does not look into arrays. Follows
 * symbolic links, visits each directory once, and skips directories that cannot be read. The caller closes the result.
 */
TSR_API int tsr_objects_open(tsr_environment *environment, const char *path, tsr_objects **objects, tsr_error *error);
TSR_API void tsr_objects_close(tsr_objects *objects);

/* Opens the group in a directory. `key`: 32 bytes, copied, or NULL. TSR_NOT_FOUND: there is no group. The caller closes
 * the group. */
TSR_API int tsr_group_open(tsr_environment *environment, const char *path, const uint8_t *key, tsr_group **group,
                           tsr_error *error);
TSR_API void tsr_group_close(tsr_group *group);

typedef struct tsr_group_member {
  const char *name; /* NULL: the member has none */
  const char *path; /* of its directory; a URI if it is in another kind of store */
  /* the actual kind of the directory; if it is outside the group's directory, the kind that the group recorded */
  tsr_object_kind kind;
} tsr_group_member;
typedef struct tsr_group_members {
  uint64_t count;
  const tsr_group_member *members; /* sorted by name; members without one by their path in the group */
} tsr_group_members;
/* Gives the members of a group between two times. Does not look at anything outside the group's directory. The caller
 * closes the result, which may outlive the group. */
TSR_API int tsr_group_members_open(tsr_group *group, uint64_t since, uint64_t as_of, tsr_group_members **members,
                                   tsr_error *error);
TSR_API void tsr_group_members_close(tsr_group_members *members);

typedef struct tsr_metadatum {
  const char *key; /* NUL-terminated; may contain other NULs */
  uint64_t key_size; /* in bytes, without the terminator */
  tsr_datatype datatype;
  uint64_t count; /* values; 0: a key without a value */
  const void *value; /* may be unaligned */
  uint64_t value_size; /* in bytes */
} tsr_metadatum;
typedef struct tsr_metadata {
  uint64_t count;
  const tsr_metadatum *entries; /* sorted by key, as bytes */
} tsr_metadata;
/* Give the metadata of an array or a group between two times. The caller closes the result, which may outlive the array
 * or group. */
TSR_API int tsr_array_metadata(tsr_array *array, uint64_t since, uint64_t as_of, tsr_metadata **metadata,
                               tsr_error *error);
TSR_API int tsr_group_metadata(tsr_group *group, uint64_t since, uint64_t as_of, tsr_metadata **metadata,
                               tsr_error *error);
TSR_API void tsr_metadata_close(tsr_metadata *metadata);

typedef struct tsr_fragment_info { /* borrowed until the snapshot is closed */
  const char *name;
  uint64_t start, end; /* times */
  uint32_t version; /* format version */
  bool dense;
  const tsr_schema *schema; /* with which the fragment was written */
  uint64_t cells; /* whatever the times of the snapshot; without the padding of tiles */
  uint64_t tiles; /* per field */
  uint64_t bytes; /* of its files */
  const tsr_interval *non_empty_domain; /* one for each dimension; NULL: the fragment is empty */
} tsr_fragment_info;
/* Returns the number of fragments in view. They are numbered from 0, the oldest first. */
TSR_API uint64_t tsr_fragment_count(const tsr_snapshot *snapshot);
/* Gives the times of the first and the last write in view, fragments and deletes. Returns false if there is none. */
TSR_API bool tsr_snapshot_written(const tsr_snapshot *snapshot, uint64_t *first, uint64_t *last);
/* Returns the number of merges whose sources have not been vacuumed. */
TSR_API uint64_t tsr_snapshot_replaced_count(const tsr_snapshot *snapshot);
/* Describes a fragment by its number. TSR_RANGE: there is no such fragment. */
TSR_API int tsr_fragment_describe(tsr_snapshot *snapshot, uint64_t fragment, tsr_fragment_info *info, tsr_error *error);
/* Returns true if a fragment has this attribute of the snapshot's schema. If it lacks the attribute, its cells read as
 * the fill value, marked unwritten. */
TSR_API bool tsr_fragment_has(const tsr_snapshot *snapshot, uint64_t fragment, uint32_t field);

typedef struct tsr_tile_info { /* borrowed until the next call for these tiles */
  uint64_t cells; /* without padding */
  uint64_t bytes; /* stored: offsets, values, validity */
  uint64_t decoded_bytes; /* the same in memory, with padding */
  const tsr_interval *box; /* one for each dimension. Dense: the written part of the space tile; sparse: the MBR */
  const void *min, *max; /* as stored; NULL: not stored */
  uint64_t min_size, max_size; /* in bytes */
  bool has_sum, has_null_count;
  uint8_t sum[8]; /* a double for floats, a uint64_t for unsigned values and BOOL, else an int64_t */
  uint64_t null_count;
} tsr_tile_info;
typedef struct tsr_tiles tsr_tiles;
/* Opens the tiles of one fragment. The caller closes them before the snapshot. */
TSR_API int tsr_tiles_open(tsr_snapshot *snapshot, uint64_t fragment, tsr_tiles **tiles, tsr_error *error);
TSR_API void tsr_tiles_close(tsr_tiles *tiles);
/* Returns how many dimensions and attributes have tiles of their own. Dimensions of dense fragments have none. */
TSR_API uint32_t tsr_tiles_fields(const tsr_tiles *tiles);
/* Returns the number, in the fragment's schema, of field `index` among these; -1: __coords, which has the coordinates
 * of all dimensions (below format version 5). */
TSR_API int64_t tsr_tiles_field(const tsr_tiles *tiles, uint32_t index);
/* Describes a tile of field `index`. */
TSR_API int tsr_tiles_describe(tsr_tiles *tiles, uint32_t index, uint64_t tile, tsr_tile_info *info, tsr_error *error);

/* ---- Changing metadata, schemas and groups ----------------------------------------------------------------------- */

/* Each of these functions writes one file, which appears atomically and durably and is newer than everything before it.
 * Everyone who opens the array or group afterwards sees the change. On an error nothing has changed. */

/* Set or delete one key. The value may be unaligned; count 0 stores a key without a value. Deleting a missing key is
 * not an error. */
TSR_API int tsr_array_set_metadata(tsr_array *array, const tsr_metadatum *entry, tsr_error *error);
TSR_API int tsr_array_delete_metadata(tsr_array *array, const char *key, uint64_t key_size, tsr_error *error);
TSR_API int tsr_group_set_metadata(tsr_group *group, const tsr_metadatum *entry, tsr_error *error);
TSR_API int tsr_group_delete_metadata(tsr_group *group, const char *key, uint64_t key_size, tsr_error *error);

/* The next four change the schema of an array of format version 12 to 22. Fragments keep the schema with which they
 * were written; an attribute that a fragment lacks reads as its fill value. */

/* Adds an attribute. The attribute and its enumeration (NULL: none) are filled in as for a new array. */
TSR_API int tsr_array_add_attribute(tsr_array *array, const tsr_field *attribute, const tsr_enumeration *enumeration,
                                    tsr_error *error);
TSR_API int tsr_array_drop_attribute(tsr_array *array, const char *name, tsr_error *error);
/* Writes a schema for cells that never had some of the newest schema's attributes. It lacks the attributes with
 * lacking[field] = true and is never in force; pass it in tsr_writer_options. A dense array needs an attribute: if all
 * are lacking, the schema has a dummy attribute under another name. Borrowed until the array is closed. */
TSR_API int tsr_array_schema_without(tsr_array *array, const bool *lacking, const tsr_schema **schema,
                                     tsr_error *error);
/* Appends the labels of `more` to the enumeration named more->name, with the same datatype and values per label.
 * TSR_CONSTRAINT: the enumeration has one of the labels already. */
TSR_API int tsr_array_extend_enumeration(tsr_array *array, const tsr_enumeration *more, tsr_error *error);
/* Expands the current domain. `domain` has one interval for each dimension, which must contain the present one. */
TSR_API int tsr_array_expand_domain(tsr_array *array, const tsr_interval *domain, tsr_error *error);

/* A CHECK constraint: a condition that each cell written through this library must not make false; null passes. It is
 * kept as metadata, so it can be added to arrays of format version 4 and later, and TileDB ignores it. */
typedef struct tsr_constraint {
  const char *name, *text; /* the text is as it was given */
  const char *fault; /* why this version cannot read it, so that writers refuse all cells; NULL: it can */
} tsr_constraint;
typedef struct tsr_constraints {
  uint64_t count;
  const tsr_constraint *constraints; /* sorted by name, as bytes */
} tsr_constraints;
/* Gives the constraints of the array as they are now. The caller closes the result before the array. */
TSR_API int tsr_array_constraints(tsr_array *array, tsr_constraints **constraints, tsr_error *error);
TSR_API void tsr_constraints_close(tsr_constraints *constraints);
/* Adds a constraint. The text is a condition as SQL has it, over the array's dimensions and attributes: operators,
 * CASE, IN, BETWEEN, LIKE, GLOB, CAST, functions of numbers. Reads all cells first, unless `untested`. TSR_CHECK: a
 * cell breaks it; TSR_EXISTS: the array has one of this name; TSR_ERROR: the text is no such condition. */
TSR_API int tsr_array_add_constraint(tsr_array *array, const char *name, const char *text, bool untested,
                                     tsr_error *error);
/* Drops a constraint. TSR_ERROR: none has this name. */
TSR_API int tsr_array_drop_constraint(tsr_array *array, const char *name, tsr_error *error);

/* Turns a directory into a group. Creates the directory and its parents if they are missing. TSR_EXISTS: it is a group
 * or an array already. */
TSR_API int tsr_group_create(tsr_environment *environment, const char *path, tsr_error *error);
/* Adds a member. `name` may be NULL; `uri` is relative to the group's directory if `relative` is true, else absolute.
 * TSR_EXISTS: the group has a member of this name, or, without a name, of this URI. */
TSR_API int tsr_group_add(tsr_group *group, const char *name, const char *uri, bool relative, tsr_object_kind kind,
                          tsr_error *error);
/* Removes a member by its name; a member without a name by its URI. */
TSR_API int tsr_group_remove(tsr_group *group, const char *name, tsr_error *error);

/* Deletes the directory of an array with everything in it. TSR_NOT_FOUND: there is no array. TSR_PERM: the path is a
 * symbolic link. */
TSR_API int tsr_array_drop(tsr_environment *environment, const char *path, tsr_error *error);
/* Deletes a group: its list of members and its metadata, and its directory if nothing else is in it. Its members stay.
 * TSR_NOT_FOUND: there is no group. TSR_PERM: the path is a symbolic link. */
TSR_API int tsr_group_drop(tsr_environment *environment, const char *path, tsr_error *error);

/* Atomically exchanges the directories of two arrays in the same parent directory: at every moment both paths name an
 * array. TSR_UNSUPPORTED: the file system has no such call, or the paths are in a bucket or a store of the host. */
TSR_API int tsr_array_exchange(tsr_environment *environment, const char *path, const char *other, tsr_error *error);

/* ---- Regridding: blocks of cells as an array --------------------------------------------------------------------- */

typedef enum tsr_regrid_method {
  TSR_REGRID_MEAN, /* FLOAT64; of FLOAT32: FLOAT32 */
  TSR_REGRID_SUM, /* INT64; of floats: FLOAT64 */
  TSR_REGRID_MIN,
  TSR_REGRID_MAX,
  TSR_REGRID_COUNT, /* UINT64: cells that are not null */
  TSR_REGRID_NEAREST, /* the cell at index factor / 2 on each dimension; in a shorter block at most its last cell */
  TSR_REGRID_MODE /* the most frequent value; the least of several equally frequent ones */
} tsr_regrid_method;

/* Reduces blocks of a dense array to the cells of a coarser dense array. Block k of a dimension with the factor n > 1
 * has the coordinates low + k n to low + k n + n - 1, where low is the low end of the domain; the new dimension has the
 * coordinates k, from 0. A dimension with the factor 1 stays as it is. The last block may be shorter. Nulls, NaN and
 * NaT are ignored. A block without a value becomes null or, if the attribute is not nullable, NaN or NaT; a block
 * without a written cell is not written. */
typedef struct tsr_regrid_request {
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const uint64_t *factors; /* one for each dimension, at least 1 */
  tsr_regrid_method method;
  const bool *fields; /* one for each field: true for the attributes to take; NULL: all */
  bool narrow; /* means of integers of 8 and 16 bits are FLOAT32 */
  bool quick; /* zstd, gzip and bzip2 compress at their fastest level instead of the array's */
  /* ignore cells that have the attribute's fill value, as nulls are ignored; for one-byte datatypes only if the fill
   * value is not the datatype's default, which is too common as data */
  bool skip_fill;
  const tsr_interval *box; /* NULL, or: write only blocks that intersect this box of the source */
  uint64_t memory_bytes; /* limit of working memory; 0 = 1 GiB */
  unsigned threads; /* 0: the array's; the result does not depend on the number */
} tsr_regrid_request;

/* Returns true if a method can be applied to an attribute: mean and sum take numbers, min and max also datetimes and
 * times, mode also enumerated attributes; count and nearest take all attributes of fixed length. */
TSR_API bool tsr_regrid_suits(tsr_regrid_method method, const tsr_field *attribute);

/* Order of use: tsr_regrid_open, then tsr_array_create or tsr_creation_prepare with tsr_regrid_schema,
 * tsr_regrid_write, tsr_regrid_close. `request` is copied, but `box` is borrowed. TSR_ERROR: the array is sparse, or
 * the method cannot be applied to one of the selected attributes. The caller closes it before the snapshot. */
typedef struct tsr_regrid tsr_regrid;
TSR_API int tsr_regrid_open(tsr_snapshot *snapshot, const tsr_regrid_request *request, tsr_regrid **regrid,
                            tsr_error *error);
/* Returns the schema of the new array, borrowed until tsr_regrid_close. */
TSR_API const tsr_schema *tsr_regrid_schema(const tsr_regrid *regrid);
/* Computes the blocks and writes them into an array whose dimensions and attributes are those of the schema, in several
 * commits if they do not fit into memory at once. *cells: the number of cells that were written; may be NULL.
 * TSR_RANGE: a sum does not fit into 64 bits. */
TSR_API int tsr_regrid_write(tsr_regrid *regrid, tsr_array *target, uint64_t *cells, tsr_error *error);
TSR_API void tsr_regrid_close(tsr_regrid *regrid);

/* ---- Checking ---------------------------------------------------------------------------------------------------- */

typedef enum tsr_severity {
  TSR_SEVERITY_NOTE, /* normal in the life of an array, for example leftovers of an unfinished write */
  TSR_SEVERITY_WARNING, /* does not belong here, or could not be checked; every read still gives the right cells */
  TSR_SEVERITY_ERROR /* data is lost, cannot be read, or would be read wrongly */
} tsr_severity;

typedef struct tsr_finding { /* borrowed during the call */
  tsr_severity severity;
  const char *file; /* relative to the array's directory */
  const char *message;
} tsr_finding;

/* Called on the caller's thread for each finding. A negative code ends the check with that code. */
typedef int (*tsr_check_report)(void *argument, const tsr_finding *finding);

typedef struct tsr_check_options { /* `= {0}` is the default */
  size_t size; /* sizeof the structure, or 0: see "Options" */
  const uint8_t *key; /* 32 bytes; NULL if the array is not encrypted */
  uint64_t memory_bytes; /* limit of working memory; 0 = 1 GiB. Objects that need more are reported as not checked */
  unsigned threads; /* 0 = the number of cores, at most 8 */
  bool quick; /* check the structure only: decode no tile */
} tsr_check_options;

/* Reports everything that is wrong with the array in the directory `path`, for all times and any format version:
 * missing and stray files, sizes, offsets, checksums and tags, tiles that cannot be decoded, cells out of order or
 * outside their box or the domain, statistics, commits without fragments and fragments without commits. A fault never
 * ends the check. An array is sound if the check reports nothing but notes. `options` may be NULL. TSR_NOT_FOUND: there
 * is no array; TSR_AUTH: the key is missing or wrong. */
TSR_API int tsr_array_check(tsr_environment *environment, const char *path, const tsr_check_options *options,
                            tsr_check_report report, void *argument, tsr_error *error);

/* ---- Dates and times as text ------------------------------------------------------------------------------------- */

/* Writes a DATETIME_* or TIME_* value as ISO-8601 text, as precise as its unit. `text` has room for 48 bytes. Returns
 * the length without the NUL; 0 if the value has no such text: a year outside 0000-9999, a time outside one day, or
 * NaT. */
TSR_API int tsr_datetime_print(tsr_datatype datatype, int64_t value, char *text);
/* Parses ISO-8601 text. A short form means its first instant; `T` or a blank separates date and time. At the end is
 * nothing, `Z`, or behind a date and a time of day an offset from UTC, such as +02:00, +0200 or +02, with or without a
 * blank before it; *value is in UTC. TSR_MISMATCH: not ISO-8601, or finer than the unit; TSR_RANGE: outside the datatype,
 * or of the years 0000 to 9999. */
TSR_API int tsr_datetime_parse(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value,
                               tsr_error *error);
/* Converts a string of `size` bytes in the datatype's encoding to UTF-8 in `out`, and returns the number of bytes
 * written. UTF-16 and UTF-32 need room for 4 bytes for each unit, and 4 more: an invalid unit, and an incomplete unit
 * at the end, become U+FFFD. Other strings need `size` bytes, and are copied. */
TSR_API uint64_t tsr_text_to_utf8(tsr_datatype datatype, const void *bytes, uint64_t size, uint8_t *out);

#include "tessera_arrow.h"
#include "tessera_ingest.h"
#include "tessera_query.h"

#ifdef __cplusplus
}
#endif
#endif
