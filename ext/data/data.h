/* data.h: data in and out: blocks of dense arrays as NPY files, queries as grids, dimension labels, Arrow streams, and
 * arrays from SELECTs, CSV files and streams. ingest.h has what the last three share. */
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

/* ---- npy.c: tessera_npy and tessera_write_npy, blocks of dense arrays as NPY files ------------------------------- */

/* Reads an NPY file with one axis as cells of a field with one value per cell. *cells is borrowed from `value`, or it
 * is *copy, from sqlite3_malloc. The caller frees *copy, also after a failure. TSR_MISMATCH: the file has another type
 * or shape. */
int tsx_npy_vector(sqlite3_value *value, const tsr_field *field, const void **cells, uint64_t *count, uint8_t **copy,
                   tsr_error *error);

void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- query_grid.c: the rows of a columnar query as a grid of numbers, for tessera_npy and pictures --------------- */

/* The axes of the grid are the terms of GROUP BY; for a query over cells, the dimensions that its columns name, or all
 * dimensions if they name none. One other column supplies the numbers. FROM may have a tessera_query: the axes are then
 * the keys or dimensions that its columns show. */

typedef struct tsx_grid_axis {
  char *name; /* the column's name, or its source text */
  tsr_value_type type; /* INTEGER: consecutive values from `low`; REAL, TEXT: the distinct values, sorted */
  uint64_t count;
  int64_t low;
  const double *reals; /* [count] */
  const char **texts; /* [count] */
} tsx_grid_axis;

typedef struct tsx_grid { /* `= {0}` may be released, and is what a call begins with */
  tsx_arena arena;
  char *name; /* of the column with the numbers */
  uint32_t axis_count;
  tsx_grid_axis axes[TSR_QUERY_KEYS];
  /* both set before. gaps: integers that do not fill all places become doubles with NaN between them; else that fails */
  bool gaps;
  bool within; /* the places, too, are within the memory_mb of the query */
  bool whole; /* every place has an INTEGER: `places` are int64_t, else double */
  uint64_t count; /* of places: the product of the axes' counts */
  void *places; /* [count], row-major; a double without a number is NaN. TSX_GRID_HEAD bytes are free before them */
} tsx_grid;

#define TSX_GRID_HEAD 512u /* a file's header fits in front of the numbers, with a word to spare */

/* Returns true if an argument is a query rather than a path: it begins with the word SELECT. */
bool tsx_is_query(sqlite3_value *value);

/* Copies a statement without trailing blanks and semicolons. The caller frees the copy. NULL: no memory, or too
 * long. */
char *tsx_statement_copy(const char *text);

/* Runs a query and makes its grid. `column` names the column with the numbers; NULL: the only one that is not a key.
 * The places may take at most `limit` bytes. The caller calls tsx_grid_release, also after an error. */
int tsx_grid_make(tsx_connection *connection, const char *text, const char *column, uint64_t limit, tsx_grid *grid,
                  tsr_error *error);
void tsx_grid_release(tsx_grid *grid);

/* Takes the places, with `head` bytes before them, from the grid: to be freed with tsx_grid_file_free. `head` is a
 * multiple of 8, below TSX_GRID_HEAD. */
uint8_t *tsx_grid_file(tsx_grid *grid, uint64_t head);
void tsx_grid_file_free(void *file);

/* ---- grid_source.c: the tessera_query that a grid reads ---------------------------------------------------------- */

typedef struct tsx_grid_column {
  char *name;
  int key; /* its number among the keys, or of the dimension that it shows; -1: it is no key */
  bool one; /* a slice sets it to one value */
} tsx_grid_column;

typedef struct tsx_grid_source { /* a tessera_query table; `= {0}` may be released */
  tsx_arena arena;
  char *schema, *name, *text;
  uint64_t memory_bytes; /* 0: not given, as are the threads */
  unsigned threads;
  tsx_grid_column *columns;
  uint32_t column_count;
} tsx_grid_source;

/* Parses a SELECT, and finds the tessera_query in its FROM. Returns 1; 0 if there is something else, or the text cannot
 * be parsed. The caller frees both, also after an error. */
int tsx_grid_source_find(tsx_connection *connection, const char *statement, tsx_select *select, tsx_grid_source *source,
                         tsr_error *error);
void tsx_grid_source_release(tsx_grid_source *source);

/* Returns the SELECT with the text of the tessera_query as a subquery in FROM; from sqlite3_malloc, or NULL. */
char *tsx_grid_source_within(const tsx_select *select, const tsx_grid_source *source);

/* Returns the key that an item of a compiled query shows or, of cells, the dimension, which a label shows, too; or
 * -1. */
int tsx_grid_key(const tsx_query *query, const tsx_item *item);

/* Fails if the open transaction has rows for the array. */
int tsx_grid_committed(const tsx_query *query, tsr_error *error);

/* If a path names a tessera_query, 'db:NAME', writes the SELECT of its column and its keys within a slice, which may be
 * NULL. `draws`: for a picture, which has two axes: keys that the slice sets to one value are left out as long as there
 * are others. Returns 1 with *statement, from sqlite3_malloc; 0 if it is a path of something else. */
int tsx_grid_path(tsx_connection *connection, sqlite3_value *path, const char *column, sqlite3_value *slice, bool draws,
                  char **statement, tsr_error *error);

/* ---- write_label.c: tessera_write_label -------------------------------------------------------------------------- */

/* tessera_write_label(path, label, values[, origin]), as an SQL function. */
void tsx_write_label(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- read_limits.c: the options memory_mb, cache_mb and threads of tessera_stream and tessera_npy ---------------- */

/* The three are adjacent in a list of options. */
#define TSX_READ_LIMIT_SPECS TSX_SPEC_MEMORY_MB, TSX_SPEC_CACHE_MB, TSX_SPEC_THREADS
typedef enum tsx_read_option { TSX_READ_MEMORY_MB, TSX_READ_CACHE_MB, TSX_READ_THREADS } tsx_read_option;

typedef struct tsx_read_limits { /* `= {0}`: none was given */
  uint64_t memory_bytes, cache_bytes;
  unsigned threads;
  bool cache_given; /* 0 is a valid size: no cache */
} tsx_read_limits;

void tsx_read_limits_take(tsx_read_limits *limits, tsx_read_option option, const tsx_option_value *value);

/* Sets the array's cache to the requested size. */
void tsx_read_limits_apply(const tsx_read_limits *limits, tsr_array *array);

/* ---- streams.c: Arrow streams that pass between SQL and C: tokens, links, tessera_stream, tessera_create_stream -- */

#define TSX_STREAM_TOKENS_MAX 256 /* waiting streams of one owner */

/* Keeps a stream until its token is redeemed, once. The stream is moved: its `release` becomes NULL. `owner` is an
 * identity for comparison only; NULL: the stream came from C. On failure the caller keeps the stream; TSR_TOOBIG: too
 * many streams of this owner wait. */
int tsx_tokens_put(struct ArrowArrayStream *stream, const void *owner, char token[TESSERA_TOKEN_SIZE],
                   tsr_error *error);

typedef struct tsx_stream_link { /* shared by a connection and its streams: tells them whether the connection is open */
  pthread_mutex_t lock;
  _Atomic uint32_t references; /* held by the connection, its streams, and running calls */
  tsx_connection *connection; /* NULL once it was closed */
  struct lent_stream *streams; /* all open streams of arrays */
} tsx_stream_link;

/* Makes a link with one reference; NULL if memory is exhausted. */
tsx_stream_link *tsx_stream_link_make(tsx_connection *connection);
void tsx_stream_link_drop(tsx_stream_link *link);

/* Locks the link, and the connection's mutex if the connection is open. Returns 1 with both; 0 with only the link if
 * the connection was closed; -1 with neither if a lock is taken and `wait` is false. */
int tsx_stream_link_enter(tsx_stream_link *link, bool wait);

#define TSX_STREAM_CONDITIONS 64

typedef struct tsx_stream_condition { /* the values of an attribute that a condition accepts */
  uint64_t count, room;
  tsr_range *ranges; /* owned */
  uint8_t **values; /* owned, as is each element: the memory that the range points to */
} tsx_stream_condition;

typedef struct tsx_stream_labels { /* dimension labels that are columns; `= {0}` may be freed */
  tsr_arrow_label *list; /* owned, as are the indexes that `argument` points to */
  uint32_t count;
} tsx_stream_labels;

typedef struct tsx_stream_request { /* the arguments of tessera_stream; `= {0}` may be released */
  sqlite3 *db;
  const char *array; /* as the user gave it, for messages; borrowed */
  tsr_array *core; /* borrowed */
  const tsr_schema *schema;
  bool shows_codes; /* of enumerations, instead of labels */
  char **names; /* of the schema's fields, as SQL shows them */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  uint32_t *fields;
  tsr_sort *order;
  tsr_predicate *predicates;
  tsx_stream_condition *conditions;
  sqlite3_value *key, *since, *as_of, *seen; /* owned; NULL: not given. `seen` is the option "array_schema" */
  tsx_read_limits limits;
  tsr_request request; /* points into the members above */
  tsr_arrow_options options; /* points to `request`, `fields` and `labels` */
  tsx_label_source source; /* of the labels */
  tsx_stream_labels labels;
} tsx_stream_request;

/* Registers tessera_stream, tessera_rows and tessera_library for a connection; returns SQLite's code. Closing the
 * connection ends the streams of its arrays. */
int tsx_register_streams(tsx_connection *connection);

/* tessera_create_stream(path, token[, options]) */
void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- rows.c: tessera_rows, the rows of a SELECT as Arrow streams ------------------------------------------------- */

/* tessera_rows(select[, options]). Its user data is the connection's tsx_stream_link. */
void tsx_rows_stream(sqlite3_context *context, int count, sqlite3_value **values);

/* tessera_functions.again: makes *out another stream over the rows of a stream of tessera_rows. Returns false for other
 * streams, or if memory is exhausted. */
bool tsx_rows_again(const struct ArrowArrayStream *stream, struct ArrowArrayStream *out);

/* tessera_functions.request, for streams of tessera_rows. Returns false for other streams, after an error, and if the
 * request cannot be honoured. */
bool tsx_rows_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested);

/* ---- cells.c: cells of a query that go to an ingest in blocks ---------------------------------------------------- */

/* If the statement, which stands at its first row, only selects columns of a tessera_query of cells, adds all rows to
 * the call's ingest, and returns 1: the statement can then only be reset. 0: take it row by row. */
int tsx_cells_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* ---- create.c: the rows of a SELECT for an ingest, tessera_create_as, tessera_create_csv ------------------------- */

/* Prepares a single statement that returns rows and changes nothing, and binds copies of the values to its parameters,
 * of which it has as many. The caller finalizes it. */
int tsx_select_prepare(sqlite3 *db, const char *sql, int count, sqlite3_value *const *values, sqlite3_stmt **statement,
                       tsr_error *error);

/* After tsx_ingest_begin: names the call's columns, and gives exact types to those that are columns of tessera tables.
 * If the rows are those of a tessera_query, its GROUP BY keys become the dimensions, unless the options name others. */
int tsx_select_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* Returns true if a value of this type of SQLite's is converted before it is set in the column. */
bool tsx_select_converts(const tsr_ingest_column *column, int type);

/* Runs the statement, and adds all rows to the call's ingest. */
int tsx_select_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error);

/* tessera_create_as(path, select[, options]) */
void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values);

/* tessera_create_csv(path, file[, options]) */
void tsx_create_csv(sqlite3_context *context, int count, sqlite3_value **values);

#endif
