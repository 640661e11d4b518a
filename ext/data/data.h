/* data.h: tessera_npy and tessera_write_npy, which read and write blocks of dense arrays as NPY files (numpy's formats 1.0
 * to 3.0). */
#ifndef TSX_DATA_DATA_H
#define TSX_DATA_DATA_H

#include <stdbool.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "query/query_internal.h"
#include "connection/connection.h"
#include "sql/options.h"
#include "table/table.h"
#include "values/slice.h"
#include "data/ingest.h"

/* Reads an NPY file with one axis as cells of a field with one value in a cell. *cells is borrowed from `value`, or it is
 * *copy, of sqlite3_malloc, which the caller frees, after a failure too. TSR_MISMATCH: the file has another type or
 * shape. */
int tsx_npy_vector(sqlite3_value *value, const tsr_field *field, const void **cells, uint64_t *count, uint8_t **copy,
                   tsr_error *error);

void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values);

/* The rows of a columnar query as a grid of numbers, for tessera_npy and pictures.
 *
 * The axes of the grid are the terms of GROUP BY; of a query over cells they are the dimensions that its columns name, or
 * all. One other column gives the numbers. */

typedef struct tsx_grid_axis {
  char *name; /* of the column, or its words */
  tsr_value_type type; /* INTEGER: from `low` on, without gaps; REAL, TEXT: the different values, sorted */
  uint64_t count;
  int64_t low;
  const double *reals; /* [count] */
  const char **texts; /* [count] */
} tsx_grid_axis;

typedef struct tsx_grid { /* `= {0}`, then tsx_grid_release is safe */
  tsx_arena arena;
  char *name; /* of the column with the numbers */
  uint32_t axis_count;
  tsx_grid_axis axes[TSR_QUERY_KEYS];
  bool whole; /* all numbers are INTEGER, and each place has one: they are `integers`, else `reals` */
  uint64_t count; /* places: the product of the axes' counts, in row-major order */
  void *places; /* [count] int64_t or double; a place without a number is a NaN */
} tsx_grid;

/* Returns true if an argument is a query, and not a path: it begins with the word SELECT. */
bool tsx_is_query(sqlite3_value *value);

/* Runs a query. `column` names the column with the numbers; it may be NULL if all others are keys. The places have at most
 * `limit` bytes. The caller calls tsx_grid_release, also after an error. */
int tsx_grid_make(tsx_connection *connection, const char *text, const char *column, uint64_t limit, tsx_grid *grid,
                  tsr_error *error);
void tsx_grid_release(tsx_grid *grid);

/* Tessera_write_label. */

/* tessera_write_label(path, label, values[, origin]), as an SQL function. */
void tsx_write_label(sqlite3_context *context, int count, sqlite3_value **values);

/* The options memory_mb, cache_mb and threads of a read: of tessera_stream and tessera_npy. */

/* The three stand next to each other in a list of options. */
#define TSX_READ_LIMIT_SPECS TSX_SPEC_MEMORY_MB, TSX_SPEC_CACHE_MB, TSX_SPEC_THREADS
typedef enum tsx_read_option { TSX_READ_MEMORY_MB, TSX_READ_CACHE_MB, TSX_READ_THREADS } tsx_read_option;

typedef struct tsx_read_limits { /* `= {0}`: none is given */
  uint64_t memory_bytes, cache_bytes;
  unsigned threads;
  bool cache_given; /* a cache of 0 bytes is one that keeps nothing */
} tsx_read_limits;

void tsx_read_limits_take(tsx_read_limits *limits, tsx_read_option option, const tsx_option_value *value);

/* Gives the array the cache that was asked for. */
void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array);

/* One stream of the rows of several. */

/* Streams that wait for somebody to take them. Each has a token, by which it is taken once. */

#define TSX_STREAM_TOKENS_MAX 256 /* streams of one owner that wait */

/* Keeps a stream, which is moved: its `release` becomes NULL. `owner` is compared only; NULL: C put it in. Returns
 * TSR_TOOBIG if too many streams of the owner wait, TSR_NOMEM; the stream stays the caller's then. */
int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error);

/* What a connection shares with the streams that it has made: it tells them whether it is still open. */

typedef struct tsx_stream_link {
  pthread_mutex_t lock;
  _Atomic uint32_t references; /* of the connection, its streams, and running calls */
  tsx_connection *connection; /* NULL: it was closed */
  struct lent_stream *streams; /* of arrays: all that are open */
} tsx_stream_link;

/* Makes a link with one reference; NULL: no memory. */
tsx_stream_link *tsx_stream_link_make(tsx_connection *connection);
void tsx_stream_link_drop(tsx_stream_link *link);

/* Takes the link, and the connection's mutex if it is open: 1. Returns 0 with the link alone if the connection was
 * closed, or -1 with neither if another thread has the mutex and the caller does not want to wait. */
int tsx_stream_link_enter(tsx_stream_link *link, bool wait);

/* The arguments of tessera_stream: which cells, which columns, in which Arrow types. */

#define TSX_STREAM_CONDITIONS 64

typedef struct tsx_stream_condition { /* the values of an attribute that a condition lets through */
  uint64_t count, room;
  tsr_range *ranges; /* owned */
  uint8_t **values; /* owned, each too: what the range points to */
} tsx_stream_condition;

typedef struct tsx_stream_request { /* `= {0}` may be released */
  sqlite3 *db;
  const char *array; /* as the user gave it, for messages; borrowed */
  tsr_array *core; /* borrowed */
  const tsr_schema *schema;
  bool shows_codes; /* of enumerations, in the place of labels */
  char **names; /* of the schema's fields, as SQL shows them */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  uint32_t *fields;
  tsr_sort *order;
  tsr_predicate *predicates;
  tsx_stream_condition *conditions;
  sqlite3_value *key, *since, *as_of, *seen; /* owned; NULL: not given. `seen`: the option schema */
  tsx_read_limits limits;
  tsr_request request; /* points to the above */
  tsr_arrow_options options; /* points to `request` and `fields` */
} tsx_stream_request;

/* Tessera_stream and tessera_library, and tessera_api, by which C and Python take Arrow streams. */

/* Registers tessera_stream and tessera_library for a connection; returns SQLite's code. When the connection is closed,
 * its streams end. */
int tsx_register_streams(tsx_connection *connection);

/* The SQL function tessera_create_stream. */

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values);

/* The SQL function tessera_rows, and its streams. */

/* tessera_rows(select[, options]). Its user data is the connection's tsx_stream_link. */
void tsx_rows_stream(sqlite3_context *context, int count, sqlite3_value **values);

/* tessera_functions.again: makes *out another stream of the rows of a stream that tessera_rows gave. */
bool tsx_rows_again(const struct ArrowArrayStream *stream, struct ArrowArrayStream *out);

/* tessera_functions.request, for a stream that may be one of tessera_rows. */
bool tsx_rows_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested);

/* The rows of a SELECT for an ingest. */

/* Prepares one statement that gives rows, changes nothing, and has no parameters. The caller finalizes it. */
int tsx_select_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, tsr_error *error);

/* Names the columns of a call that was begun, and gives those their types that are columns of tables. The keys of GROUP BY
 * of a tessera_query become its dimensions, unless the options name others. */
int tsx_select_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* Runs the statement, and takes all rows into the call's ingest. */
int tsx_select_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* The SQL function tessera_create_as. */

void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values);

/* The SQL function tessera_create_csv. */

void tsx_create_csv(sqlite3_context *context, int count, sqlite3_value **values);

#endif
