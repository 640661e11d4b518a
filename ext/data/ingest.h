/* ingest.h: what tessera_create_as, tessera_create_csv and tessera_create_stream have in common: the options, and
 * the array that is made, or appended to, at the end.
 *
 * Order of use: tsx_ingest_begin, tsx_ingest_name_column for each column of the source, tsx_ingest_options,
 * tsx_ingest_open, then the rows, tsx_ingest_finish, tsx_ingest_end. */
#ifndef TSX_DATA_INGEST_H
#define TSX_DATA_INGEST_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "definition/define.h"
#include "call/function.h"

typedef enum tsx_ingest_exists { TSX_INGEST_FAIL, TSX_INGEST_APPEND, TSX_INGEST_REPLACE } tsx_ingest_exists;

#define TSX_INGEST_LINES 20 /* skipped rows that the result names */

typedef struct tsx_ingest_source { /* where the rows come from; by column, in the order of the source */
  uint32_t count;
  char **names;
  int *kept; /* the column of the ingest, or -1 */
  bool is_csv; /* the options of CSV are known, too */
  bool is_rows; /* of tessera_rows: there is no array, few options, and columns may have one name */
} tsx_ingest_source;

typedef struct tsx_ingest_labels { /* columns that are labels of dimensions */
  uint32_t *columns; /* those that the option `labels` names, in its order */
  uint32_t count;
  tsr_label_index **indexes; /* open labels of the array to which rows are appended */
  uint32_t index_count;
} tsx_ingest_labels;

typedef struct tsx_ingest_given { /* what the caller asks for, beside the schema */
  uint64_t options; /* that were read: bits */
  tsx_ingest_exists if_exists;
  bool skip, explain, grow_row; /* grow_row: `grow` names the dimension of rows without dimensions */
  sqlite3_value *metadata; /* owned; NULL: none */
} tsx_ingest_given;

typedef struct tsx_ingest_array { /* the array that gets the rows */
  const char *path; /* as it was given; borrowed */
  tsx_address address; /* of the path, without an array; has_key: of the array that is made */
  tsx_target target; /* the array to append to */
  bool append, replace; /* the array exists, and rows are appended, or a new one takes its place */
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

/* Begins a call for `count` columns of a source; `path` is NULL for rows that become no array. TSR_TOOBIG: there
 * are more columns than an array may have. The caller calls tsx_ingest_end, after an error, too. */
int tsx_ingest_begin(tsx_ingest_call *call, const char *path, uint32_t count, tsr_error *error);

/* Names a column of the source, which may be NULL unless the caller or the options say otherwise. The name is copied. */
int tsx_ingest_name_column(tsx_ingest_call *call, uint32_t column, const char *name, tsr_error *error);

/* Checks that no two columns have one name, reads the options (NULL: none), finds out whether `path`, the call's path, leads to an array to which rows are
 * appended. */
int tsx_ingest_options(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error);

/* Returns the name of the dimension that rows without dimensions get: `row`, unless it is that of a column. */
const char *tsx_ingest_row_name(const tsx_ingest_call *call);

/* Opens call->ingest: all columns have their types, as far as they are known. */
int tsx_ingest_open(tsx_ingest_call *call, tsr_error *error);

/* Ends a row of which `code` says whether its values could be set. `what` and `number` name it in messages: row 5. With
 * on_error skip a row that does not fit is left out. */
int tsx_ingest_end_row(tsx_ingest_call *call, int code, const char *what, uint64_t number, tsr_error *error);

/* Makes the array, or appends to it, and sets the function's result. */
int tsx_ingest_finish(tsx_ingest_call *call, sqlite3_context *context, tsr_error *error);
void tsx_ingest_end(tsx_ingest_call *call);

/* The array of an ingest: made, made in the place of another one, or appended to. */

/* Columns of tessera_create_as and its kin that are labels of dimensions. */

/* Makes a column the label of a new dimension, which no other column may be called. */
int tsx_ingest_label(tsx_ingest_call *call, tsr_ingest_column *column, const char *dimension, tsr_error *error);

/* Makes the dimensions of all labels dimensions of the array, behind those that the options name. */
void tsx_ingest_label_dimensions(tsx_ingest_call *call);

/* Reads the options of tessera_create_as and its kin. */

/* Reads the options into a call whose columns have their names; `json` may be NULL, or an SQL NULL. */
int tsx_ingest_options_read(tsx_ingest_call *call, sqlite3_value *json, tsr_error *error);

/* Fails if options ask for another array than the one to which rows are added, whose types the columns have: what an
 * append cannot honour is refused. */
int tsx_ingest_options_agree(tsx_ingest_call *call, sqlite3_value *json, const tsr_schema *schema, tsr_error *error);

#endif
