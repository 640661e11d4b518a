/* tessera_ingest.h: makes a new array from rows of any source, inferring its schema from their values. Programs include
 * tessera.h, which includes this header at its end.
 *
 * Order of use: tsr_ingest_open, then for each row the setters and tsr_ingest_end_row, then tsr_ingest_schema,
 * tsr_creation_prepare with this schema, tsr_ingest_write, tsr_creation_publish, tsr_ingest_close. The rows are kept in
 * memory as columns, and move to an unnamed temporary file once they take half of the budget.
 */
#ifndef TESSERA_INGEST_H
#define TESSERA_INGEST_H

#include "tessera_arrow.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tsr_ingest_declared { /* what an untyped column becomes if all its values are such text */
                                   TSR_INGEST_AS_IT_IS,
                                   TSR_INGEST_DATES, /* DATETIME_DAY */
                                   TSR_INGEST_INSTANTS /* DATETIME_DAY, SEC, MS, US or NS: the coarsest that fits */
} tsr_ingest_declared;

typedef struct tsr_ingest_column { /* `= {.name = ...}` is a column whose type is inferred */
  const char *name;
  bool typed; /* the column has the datatype below; else INT64, FLOAT64, UTF8 or BLOB, inferred from its values */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  tsr_ingest_declared declared;
  /* for tsr_ingest_stream: an untyped column without values has the datatype `empty`; false: Arrow's null type */
  bool has_empty;
  tsr_datatype empty;
  bool duration; /* with `typed`, of a TIME datatype: tsr_field's */
  bool nullable; /* nullable even if no value is null; without it, a column is nullable if a value is null */
  bool not_null; /* a null is an error */
  bool refuses_null; /* a null is an error, since the existing array does not allow it in this column */
  bool labels; /* text: an enumeration, with its labels in order of first appearance */
  bool ordered; /* with `labels`: the enumeration is ordered */
  const tsr_enumeration *enumeration; /* with `labels`: one whose labels come first, in order; or NULL */
  const tsr_pipeline *filters; /* NULL: chosen by the datatype */
  const char *zone; /* the time zone of an Arrow column of instants, informational; NULL: none */
  /* The name of a new dimension that this column labels: an INT64 dimension that numbers the distinct values 0, 1, ...
   * in ascending order, or in descending order if the rows arrive so. The column must be among the dimensions. NULL:
   * not a label. */
  const char *label_of;
  const tsr_label_index *label; /* with `label_of`: the existing array's label; NULL: the array is new */
  tsr_datatype label_datatype; /* with `label`: the datatype of its dimension */
  /* for dimensions */
  bool has_domain, has_extent, grow; /* grow: the domain is as wide as possible, the current domain that of the rows */
  /* As in tsr_field; for the dimension of a label, INT64. For an untyped column, the ends are INT64, or FLOAT64 if
   * `real`, and the extent is UINT64, or FLOAT64 if `real_extent`; they are converted to the inferred datatype. */
  uint8_t low[8], high[8], extent[8];
  bool real, real_extent;
  /* for an untyped column: this end is above INT64_MAX, and holds the bits of a UINT64 */
  bool low_unsigned, high_unsigned;
  bool ends_untyped; /* a typed column whose ends and extent are represented like those of an untyped one */
} tsr_ingest_column;

typedef enum tsr_ingest_kind {
  TSR_INGEST_BY_VALUES, /* dense if the dimensions are integers or datetimes and the rows fill their box; else sparse */
  TSR_INGEST_DENSE,
  TSR_INGEST_SPARSE
} tsr_ingest_kind;

typedef struct tsr_ingest_options {
  size_t size; /* sizeof the structure, or 0: see "Options" in tessera.h */
  const tsr_ingest_column *columns; /* borrowed, with everything they point to, until tsr_ingest_close */
  uint32_t column_count;
  const uint32_t *dimensions; /* column numbers, in the order of the dimensions */
  uint32_t dimension_count; /* 0: one dense dimension `row`, INT64, with the values 0, 1, ... */
  bool row_grows; /* with dimension_count 0: like `grow` of a column */
  tsr_ingest_kind kind;
  bool has_cell_order, has_tile_order;
  tsr_order cell_order, tile_order;
  uint64_t capacity; /* 0 = 10,000 */
  bool duplicates; /* allow rows with equal coordinates in a sparse array */
  /* If not NULL, tsr_ingest_schema drops rows that have the coordinates of an earlier row. It calls this for each of
   * them, in order, with the row's number (tsr_ingest_number_row); `where` is the coordinates as text for the first
   * dropped row, and NULL for the others. */
  void (*left_out)(void *argument, uint64_t number, const char *where);
  void *left_out_argument;
  /* If not NULL, tsr_ingest_write leaves out rows that break a CHECK of the array. It calls this for each of them, in
   * order, with the row's number; `message` says what is wrong with the first row of a block; NULL for others. */
  void (*broken)(void *argument, uint64_t number, const char *message);
  void *broken_argument;
  uint32_t version; /* 0 = TSR_FORMAT_WRITE_MAX */
  uint64_t memory_bytes; /* 0 = 1 GiB */
  /* If not NULL, tsr_ingest_arrow leaves out rows that the setters or tsr_ingest_end_row refuse, and calls this for
   * each of them, in order, with the row's number in the stream, from 1. */
  void (*refused)(void *argument, uint64_t number, const char *message);
  void *refused_argument;
} tsr_ingest_options;

typedef struct tsr_ingest tsr_ingest;

/* Opens an ingest without rows. TSR_CONSTRAINT: the options contradict each other. */
TSR_API int tsr_ingest_open(tsr_environment *environment, const tsr_ingest_options *options, tsr_ingest **ingest,
                            tsr_error *error);
TSR_API void tsr_ingest_close(tsr_ingest *ingest);

/* Set the value of a column in the current row, at most once. A column that is not set is null. In columns of datetimes
 * and times, text is ISO-8601; in columns of integers, decimal; bytes that are not text are the values of a cell.
 * TSR_MISMATCH, TSR_RANGE: the value does not fit the column's datatype, or the values before it; the message names the
 * column. */
TSR_API int tsr_ingest_set_integer(tsr_ingest *ingest, uint32_t column, int64_t value, tsr_error *error);
TSR_API int tsr_ingest_set_real(tsr_ingest *ingest, uint32_t column, double value, tsr_error *error);
TSR_API int tsr_ingest_set_bytes(tsr_ingest *ingest, uint32_t column, bool is_text, const void *bytes, uint64_t size,
                                 tsr_error *error);

/* Sets the number of the current row, for example its line number, for `left_out` of the options. Rows without one are
 * counted from 1. */
TSR_API void tsr_ingest_number_row(tsr_ingest *ingest, uint64_t number);
/* Ends the current row and begins the next one. TSR_CONSTRAINT: a dimension is null or NaN, or a column is null that
 * must not be. TSR_RANGE: a coordinate is outside of its domain, or the array's label lacks the value. After an error
 * of this function or a setter, tsr_ingest_drop_row discards what was set in the row. */
TSR_API int tsr_ingest_end_row(tsr_ingest *ingest, tsr_error *error);
TSR_API void tsr_ingest_drop_row(tsr_ingest *ingest);

/* Infers the schema from the rows so far, borrowed until the ingest is closed; no row may be added after it.
 * TSR_MISMATCH: a column has no value from which to infer its type; TSR_CONSTRAINT: the rows do not fit the requested
 * kind of array. */
TSR_API int tsr_ingest_schema(tsr_ingest *ingest, const tsr_schema **schema, tsr_error *error);

/* Prepares an existing array for the rows, before tsr_ingest_write: numbers rows without dimensions after the array's
 * last row, and expands the current domain if necessary, which others see at once. The expansion remains even if the
 * rows are not written. TSR_RANGE: the array's domain ends before the last row. */
TSR_API int tsr_ingest_fit(tsr_ingest *ingest, tsr_array *array, tsr_error *error);

/* Writes the rows into an array whose fields have the columns' names, in one commit. With `new_array`, the array was
 * created with the inferred schema and nobody else has written to it: rows with equal coordinates are then
 * TSR_CONSTRAINT, unless duplicates are allowed, and the caller must abandon the array. TSR_BUSY: tsr_ingest_fit
 * numbered rows without dimensions, and another process has appended rows meanwhile. */
TSR_API int tsr_ingest_write(tsr_ingest *ingest, tsr_array *array, bool new_array, uint64_t *rows, tsr_error *error);

/* Makes *out an Arrow stream of the rows, from the first one on. Any number of streams can be made and read
 * concurrently on several threads, but the first must have been made before another thread makes one. No row may be
 * added after it. The ingest must be closed after its streams. `fields` and `request` of the options are ignored.
 * Columns have the types that tsr_ingest_schema would infer, but none is a dimension, and several columns may have the
 * same name. */
TSR_API int tsr_ingest_stream(tsr_ingest *ingest, const tsr_arrow_options *options, struct ArrowArrayStream *out,
                              tsr_error *error);

/* ---- Comma-separated values -------------------------------------------------------------------------------------- */

typedef struct tsr_csv_options {
  size_t size; /* sizeof the structure, or 0: see "Options" in tessera.h */
  /* Reads up to `size` bytes; *got is the number read, 0 at the end. On an error it sets `error` and returns its code.
   */
  int (*read)(void *argument, void *bytes, uint64_t size, uint64_t *got, tsr_error *error);
  void *argument;
  char delimiter; /* 0: a comma */
  bool skip_empty; /* empty lines are not records; in files with one column they are records with an empty field */
} tsr_csv_options;

typedef struct tsr_csv_field {
  const char *bytes; /* without quotes; not NUL-terminated */
  uint64_t size;
  bool quoted;
  uint64_t offset; /* internal */
} tsr_csv_field;

/* Reads records of RFC 4180: lines end with LF or CR LF; a quoted field may contain line ends, and two quotes for one.
 * A byte order mark is skipped. */
typedef struct tsr_csv tsr_csv;
TSR_API int tsr_csv_open(tsr_environment *environment, const tsr_csv_options *options, tsr_csv **csv, tsr_error *error);
TSR_API void tsr_csv_close(tsr_csv *csv);
/* Gives the fields of the next record, borrowed until the next call, and the line at which it begins, from 1. Returns
 * 1; 0 at the end. TSR_MISMATCH: the record is malformed; *line is set in this case, too, and the next call continues
 * on the line after it. TSR_UNSUPPORTED, by the first call: the file is UTF-16. */
TSR_API int tsr_csv_next(tsr_csv *csv, const tsr_csv_field **fields, uint32_t *count, uint64_t *line, tsr_error *error);

/* ---- Arrow ------------------------------------------------------------------------------------------------------- */

/* Describes the columns of an Arrow stream; `columns` has room for schema->n_children of them. Names are borrowed from
 * the schema. A dictionary-encoded text column has `labels` set. TSR_UNSUPPORTED: an Arrow type that no datatype
 * matches. */
TSR_API int tsr_arrow_columns(const struct ArrowSchema *schema, tsr_ingest_column *columns, tsr_error *error);

/* Appends the rows of a batch. kept[i] is the ingest's column for column i of the stream, or -1. Values are copied; the
 * caller releases the batch. TSR_CORRUPT: the structures contradict each other. After an error the ingest can only be
 * closed. */
TSR_API int tsr_ingest_arrow(tsr_ingest *ingest, const struct ArrowSchema *schema, const struct ArrowArray *batch,
                             const int *kept, tsr_error *error);

#ifdef __cplusplus
}
#endif

#endif
