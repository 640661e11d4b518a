/* tessera_ingest.h: rows of any source become a new array: their values decide its schema. Programs include tessera.h,
 * which includes this header at its end.
 *
 * Order of use: tsr_ingest_open, then for each row the setters and tsr_ingest_end_row, then tsr_ingest_schema,
 * tsr_creation_prepare with this schema, tsr_ingest_write, tsr_creation_publish, tsr_ingest_close. The rows are kept as
 * columns in memory, and in a temporary file without a name once they take half of the budget.
 */
#ifndef TESSERA_INGEST_H
#define TESSERA_INGEST_H

#include "tessera_arrow.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tsr_ingest_declared { /* what an untyped column becomes if all of its values are such text */
                                   TSR_INGEST_AS_IT_IS,
                                   TSR_INGEST_DATES, /* DATETIME_DAY */
                                   TSR_INGEST_INSTANTS /* DATETIME_DAY, SEC, MS, US or NS: the coarsest that has all values */
} tsr_ingest_declared;

typedef struct tsr_ingest_column { /* `= {.name = ...}` is a column whose type its values decide */
  const char *name;
  bool typed; /* the column has the datatype below; else INT64, FLOAT64, UTF8 or BLOB, by its values */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  tsr_ingest_declared declared;
  bool has_empty; /* for tsr_ingest_stream: an untyped column without values is of `empty`; without: of Arrow's null */
  tsr_datatype empty;
  bool nullable; /* may be null although no value is; without it a column is nullable if a value is null */
  bool not_null; /* a null is an error */
  bool refuses_null; /* a null is an error, since the array that exists takes none in this column */
  bool labels; /* text: an enumeration, whose labels stand in the order in which they came */
  bool ordered; /* with `labels`: their order means something */
  const tsr_enumeration *enumeration; /* with `labels`: its labels come first, in their order; or NULL */
  const tsr_pipeline *filters; /* NULL: by the datatype */
  const char *zone; /* of an Arrow column of instants: its time zone, for the caller to keep; NULL: none */
  /* The name of a new dimension of which this column is the label: INT64, 0, 1, ... for the different values in their
   * order, which falls if the values come falling. The column is among the dimensions. NULL: the column is no label. */
  const char *label_of;
  const tsr_label_index *label; /* with `label_of`: the values that the array's label has; NULL: the array is new */
  tsr_datatype label_datatype; /* with `label`: of its dimension */
  /* of dimensions */
  bool has_domain, has_extent, grow; /* grow: the domain is as wide as it can be, the current domain that of the rows */
  /* as in tsr_field; the dimension of a label has INT64. Of an untyped column the ends are INT64, or FLOAT64 if `real`, and
   * the extent UINT64, or FLOAT64 if `real_extent`: they are converted to what the column becomes. */
  uint8_t low[8], high[8], extent[8];
  bool real, real_extent;
  bool low_unsigned, high_unsigned; /* of an untyped column: this end is past INT64, and has the bits of UINT64 */
  bool ends_untyped; /* a typed column: its ends and its extent are as those of an untyped one */
} tsr_ingest_column;

typedef enum tsr_ingest_kind {
  TSR_INGEST_BY_VALUES, /* dense if the dimensions are integers or datetimes and the rows fill their box; else sparse */
  TSR_INGEST_DENSE,
  TSR_INGEST_SPARSE
} tsr_ingest_kind;

typedef struct tsr_ingest_options {
  const tsr_ingest_column *columns; /* all of them with what they point to are borrowed until tsr_ingest_close */
  uint32_t column_count;
  const uint32_t *dimensions; /* numbers of columns, in the order of the dimensions */
  uint32_t dimension_count; /* 0: one dense dimension `row`, INT64, with the values 0, 1, ... */
  bool row_grows; /* with dimension_count 0: as `grow` of a column */
  tsr_ingest_kind kind;
  bool has_cell_order, has_tile_order;
  tsr_order cell_order, tile_order;
  uint64_t capacity; /* 0 = 10,000 */
  bool duplicates; /* a sparse array may have rows with equal coordinates */
  /* Not NULL: tsr_ingest_schema leaves out the rows at the coordinates of an earlier row. It calls this for each of them,
   * in their order, with its number (tsr_ingest_number_row); `where` is the text of the coordinates of the first one, and
   * NULL for those after it. */
  void (*left_out)(void *argument, uint64_t number, const char *where);
  void *left_out_argument;
  uint32_t version; /* 0 = TSR_FORMAT_WRITE_MAX */
  uint64_t memory_bytes; /* 0 = 1 GiB */
} tsr_ingest_options;

typedef struct tsr_ingest tsr_ingest;

/* Opens an ingest without rows. TSR_CONSTRAINT: the options contradict each other. */
TSR_API int tsr_ingest_open(tsr_environment *environment, const tsr_ingest_options *options, tsr_ingest **ingest,
                            tsr_error *error);
TSR_API void tsr_ingest_close(tsr_ingest *ingest);

/* Set the value of a column in the present row, at most once. A column that is not set is null. Text in columns of
 * datetimes and times is ISO-8601, in columns of integers decimal; bytes that are not text are the values of a cell.
 * TSR_MISMATCH, TSR_RANGE: the value does not fit the column, or those before it; the message names the column. */
TSR_API int tsr_ingest_set_integer(tsr_ingest *ingest, uint32_t column, int64_t value, tsr_error *error);
TSR_API int tsr_ingest_set_real(tsr_ingest *ingest, uint32_t column, double value, tsr_error *error);
TSR_API int tsr_ingest_set_bytes(tsr_ingest *ingest, uint32_t column, bool is_text, const void *bytes, uint64_t size,
                                 tsr_error *error);

/* Ends the present row and begins the next one. TSR_CONSTRAINT: a dimension is null or NaN, or a column null that must
 * not be. TSR_RANGE: a dimension lies outside of its domain, or the array's label lacks the value. After an error of this function or a setter, tsr_ingest_drop_row takes back what was set of the row. */
/* Gives the present row a number, as that of its line: for `left_out` of the options. Rows without one are counted from 1. */
TSR_API void tsr_ingest_number_row(tsr_ingest *ingest, uint64_t number);
TSR_API int tsr_ingest_end_row(tsr_ingest *ingest, tsr_error *error);
TSR_API void tsr_ingest_drop_row(tsr_ingest *ingest);

/* Gives the schema for the rows so far, borrowed until the ingest is closed; no row comes after it. TSR_MISMATCH: a
 * column has no value that decides its type; TSR_CONSTRAINT: the rows do not have the kind that was asked for. */
TSR_API int tsr_ingest_schema(tsr_ingest *ingest, const tsr_schema **schema, tsr_error *error);

/* Prepares an array that exists for the rows, before tsr_ingest_write: gives rows without dimensions the numbers behind the
 * last one, and makes a current domain large enough, which others see at once. It stays so if the rows are not written.
 * TSR_RANGE: the array's domain ends before the last row. */
TSR_API int tsr_ingest_fit(tsr_ingest *ingest, tsr_array *array, tsr_error *error);

/* Writes the rows into an array whose fields have the columns' names, in one commit. With `new_array` the array is the
 * one that was made with the schema, and nobody else has written to it: rows with equal coordinates are TSR_CONSTRAINT
 * then, unless duplicates are allowed, and the array is to be abandoned. TSR_BUSY: rows without dimensions were numbered by
 * tsr_ingest_fit, and another process has appended rows meanwhile. */
TSR_API int tsr_ingest_write(tsr_ingest *ingest, tsr_array *array, bool new_array, uint64_t *rows, tsr_error *error);

/* Makes *out an Arrow stream of the rows, from the first one; any number of streams can be made, and be read at once on
 * several threads; the first one must have been made before another thread makes one. No row comes after it. The ingest
 * must be closed after its streams. Of the options, `fields` and
 * `request` are ignored. Columns have the types that tsr_ingest_schema would decide, but none is a dimension, and
 * columns may have one name. */
TSR_API int tsr_ingest_stream(tsr_ingest *ingest, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                              tsr_error *error);

/* ---- Comma-separated values -------------------------------------------------------------------------------------- */

typedef struct tsr_csv_options {
  /* Reads up to `size` bytes; *got is their number, 0 at the end. On an error it sets `error` and returns its code. */
  int (*read)(void *argument, void *bytes, uint64_t size, uint64_t *got, tsr_error *error);
  void *argument;
  char delimiter; /* 0: a comma */
  bool skip_empty; /* lines without a byte are no records; of files with one column they are, with an empty field */
} tsr_csv_options;

typedef struct tsr_csv_field {
  const char *bytes; /* without its quotes; not terminated */
  uint64_t size;
  bool quoted;
  uint64_t offset; /* used by the library alone */
} tsr_csv_field;

/* Reads records as RFC 4180 has them: lines end with LF or CR LF, a field in quotes may contain line ends, and two quotes
 * for one. A byte order mark is skipped. */
typedef struct tsr_csv tsr_csv;
TSR_API int tsr_csv_open(tsr_environment *environment, const tsr_csv_options *options, tsr_csv **csv, tsr_error *error);
TSR_API void tsr_csv_close(tsr_csv *csv);
/* Gives the fields of the next record, borrowed until the next call, and the line at which it begins, from 1. Returns 1;
 * 0 at the end. TSR_MISMATCH: the record, of which *line is set, too, is not such a one; the next call goes on with the
 * line after it. TSR_UNSUPPORTED, by the first call: the file is UTF-16. */
TSR_API int tsr_csv_next(tsr_csv *csv, const tsr_csv_field **fields, uint32_t *count, uint64_t *line, tsr_error *error);

/* ---- Arrow ------------------------------------------------------------------------------------------------------- */

/* Describes the columns of an Arrow stream; `columns` has room for schema->n_children of them. Names stay borrowed from
 * the schema. A column with a dictionary of text has `labels`. TSR_UNSUPPORTED: an Arrow type that no datatype matches. */
TSR_API int tsr_arrow_columns(const struct ArrowSchema *schema, tsr_ingest_column *columns, tsr_error *error);

/* Takes the rows of a batch. kept[i] is the ingest's column for column i of the stream, or -1. Values are copied; the
 * caller releases the batch. TSR_CORRUPT: the structures contradict each other. After an error the ingest is closed. */
TSR_API int tsr_ingest_arrow(tsr_ingest *ingest, const struct ArrowSchema *schema, const struct ArrowArray *batch,
                             const int *kept, tsr_error *error);

#ifdef __cplusplus
}
#endif

#endif
