/* ingest.h: what tessera_create_as, tessera_create_csv and tessera_create_stream share: their options, and making the
 * array or appending to it.
 *
 * Order of calls: tsx_ingest_begin, tsx_ingest_name_column for each column of the source, tsx_ingest_options,
 * tsx_ingest_open, the rows (tsx_ingest_end_row after each), tsx_ingest_finish, tsx_ingest_end. */
#ifndef TSX_DATA_INGEST_H
#define TSX_DATA_INGEST_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "definition/define.h"
#include "call/function.h"

/* ---- ingest.c: one call, from the names of the columns to the array ---------------------------------------------- */

typedef enum tsx_ingest_exists { TSX_INGEST_FAIL, TSX_INGEST_APPEND, TSX_INGEST_REPLACE } tsx_ingest_exists;

#define TSX_INGEST_LINES 20 /* skipped rows whose numbers the result lists */

typedef struct tsx_ingest_source { /* where the rows come from */
  uint32_t count; /* of columns */
  char **names; /* [count] */
  int *kept; /* [count]: the column of the ingest that this becomes, or -1 if the option `columns` omits it */
  bool is_csv; /* accept the options of CSV, too */
  bool is_rows; /* of tessera_rows: no array, few options, and several columns may have the same name */
} tsx_ingest_source;

typedef struct tsx_ingest_labels { /* columns that are dimension labels */
  uint32_t *columns; /* [count]: those that the option `labels` names, in its order */
  uint32_t count;
  tsr_label_index **indexes; /* [index_count]: open labels of the array to append to */
  uint32_t index_count;
} tsx_ingest_labels;

typedef struct tsx_ingest_given { /* the options that do not describe the schema */
  uint64_t options; /* bit mask of the options that were given */
  tsx_ingest_exists if_exists;
  bool skip, explain, grow_row; /* grow_row: the option `grow` names the row-number dimension (tsx_ingest_row_name) */
  sqlite3_value *metadata; /* owned; NULL: none */
} tsx_ingest_given;

typedef struct tsx_ingest_array { /* the array that gets the rows */
  const char *path; /* the argument; borrowed */
  tsx_address address; /* of the path, with no array open; its key is that of the new array */
  tsx_target target; /* the array to append to */
  bool append, replace; /* the array exists: append the rows to it, or replace it by a new array */
} tsx_ingest_array;

typedef struct tsx_ingest_result {
  uint64_t rows, skipped, lines[TSX_INGEST_LINES];
  tsr_error first; /* why the first row was skipped */
} tsx_ingest_result;

typedef struct tsx_ingest_call {
  tsx_connection *connection;
  tsx_definition memory; /* owns names, lists and filters */
  tsx_ingest_source source;
  tsx_ingest_labels labels;
  tsx_ingest_given given;
  tsx_ingest_array array;
  tsr_ingest_options options;
  tsr_ingest_column *columns; /* of the ingest; options.columns */
  uint32_t *dimensions; /* options.dimensions */
  tsr_ingest *ingest;
  tsx_ingest_result result;
} tsx_ingest_call;

/* Begins a call for a source with `count` columns; `path` is NULL if the rows do not become an array. TSR_TOOBIG: more
 * columns than an array may have. The caller calls tsx_ingest_end, also after an error. */
int tsx_ingest_begin(tsx_ingest_call *call, const char *path, uint32_t count, tsr_error *error);

/* Names a column of the source. It is nullable unless the caller or the options say otherwise. The name is copied. */
int tsx_ingest_name_column(tsx_ingest_call *call, uint32_t column, const char *name, tsr_error *error);

/* Checks that column names are unique, reads the options (NULL: none), and applies if_exists: finds out whether the
 * rows are appended to an array at `path`, the argument that gave the call's path. */
int tsx_ingest_options(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error);

/* Returns the name of the row-number dimension that rows without dimensions get: "row", unless a column has that
 * name. */
const char *tsx_ingest_row_name(const tsx_ingest_call *call);

/* Opens call->ingest. Column types must be set by now, as far as they are known. */
int tsx_ingest_open(tsx_ingest_call *call, tsr_error *error);

/* Ends a row. `code` is an error if one of its values could not be set; `what` and `number` name the row in messages,
 * as in "row 5". With on_error skip, a row that does not fit is dropped and counted. */
int tsx_ingest_end_row(tsx_ingest_call *call, int code, const char *what, uint64_t number, tsr_error *error);

/* Makes the array, or appends to it, and sets the function's result. */
int tsx_ingest_finish(tsx_ingest_call *call, sqlite3_context *context, tsr_error *error);

/* Releases what the call has. `code`: how it ended; *error may get a hint. */
void tsx_ingest_end(tsx_ingest_call *call, int code, tsr_error *error);

/* Makes a column the label of a new dimension, whose name no column may have. */
int tsx_ingest_label(tsx_ingest_call *call, tsr_ingest_column *column, const char *dimension, tsr_error *error);

/* Appends the dimensions of all labels to the dimensions that the options name. */
void tsx_ingest_label_dimensions(tsx_ingest_call *call);

/* ---- ingest_options.c: the options of tessera_create_as, tessera_create_csv, tessera_create_stream, tessera_rows - */

/* Reads the options, after the columns have been named; `json` may be NULL, or an SQL NULL. */
int tsx_ingest_options_read(tsx_ingest_call *call, sqlite3_value *json, tsr_error *error);

/* For an append: fails if an option contradicts the existing array. The columns already have the types of its
 * fields. */
int tsx_ingest_options_agree(tsx_ingest_call *call, sqlite3_value *json, const tsr_schema *schema, tsr_error *error);

#endif
