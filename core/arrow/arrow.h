/* arrow.h: what the files of this folder share, and core/ingest/ uses: Arrow types of fields, columns in Arrow's
 * layout, and streams over any source of columns.
 *
 * Sections, named after the files that implement them: type.c, column.c, stream.c. */
#ifndef TSR_ARROW_ARROW_H
#define TSR_ARROW_ARROW_H

#include "base/memory.h"
#include "tessera.h"
#include "tessera_arrow.h"

/* ---- type.c: the Arrow type of each field, and Arrow schemas ----------------------------------------------------- */

/* docs/reference/functions/arrow.md has the table of types. */

typedef enum tsr_arrow_form { /* how one value of a cell is converted */
                              TSR_ARROW_COPY, /* unchanged */
                              TSR_ARROW_BITS, /* BOOL: eight in a byte */
                              TSR_ARROW_DAYS, /* years, months, weeks, days: the first day, as int32 */
                              TSR_ARROW_SCALED, /* int64, multiplied by `factor` */
                              TSR_ARROW_CLOCK32, /* a time within one day, multiplied by `factor`, as int32 */
                              TSR_ARROW_CLOCK64, /* a time within one day, as int64 */
                              TSR_ARROW_WIDEN, /* a number, as the wider type of `format` */
                              TSR_ARROW_NULLS, /* all values are null, and have no type */
                              TSR_ARROW_BYTES, /* a string or bytes, unchanged */
                              TSR_ARROW_TEXT, /* a string of UTF-8, which is checked */
                              TSR_ARROW_WIDE_TEXT /* a string of UTF-16 or UTF-32, as UTF-8 */
} tsr_arrow_form;

typedef enum tsr_arrow_list { TSR_ARROW_ONE, TSR_ARROW_FIXED_LIST, TSR_ARROW_LARGE_LIST } tsr_arrow_list;

typedef struct tsr_arrow_type {
  const char *name; /* of the column; borrowed */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  tsr_arrow_form form;
  tsr_arrow_list list; /* cells with several numbers */
  bool narrow; /* strings: 32-bit offsets */
  bool views; /* strings: views instead of offsets; narrow is set, too */
  bool nullable;
  bool integer_datetimes;
  uint8_t width; /* bytes of one converted value; 0 for strings and bits */
  int64_t factor, day; /* SCALED, CLOCK: the factor; CLOCK: the number of units in a day */
  char format[24], item[8]; /* Arrow's format strings, of the column and of a list's values */
  const char *extension; /* "geoarrow.wkb" and so on; NULL: none */
  const tsr_enumeration *labels; /* the enumeration of the column; NULL: it has none, or is shown as plain codes */
  bool decoded; /* the column has labels instead of codes: the other members describe a label */
} tsr_arrow_type;

/* Chooses the type of a field. `labels`: the field's enumeration, loaded; NULL if it has none. `dense`: the array may
 * have cells that were never written. */
void tsr__arrow_type_choose(const tsr_field *field, const tsr_enumeration *labels, bool dense,
                            const tsr_arrow_options *options, tsr_arrow_type *type);

/* Chooses the type of an enumeration's labels, which are a column of their own in a dictionary. */
void tsr__arrow_type_labels(const tsr_enumeration *labels, const tsr_arrow_options *options, tsr_arrow_type *type);

/* Changes a type to that of a column in which all values are null. */
void tsr__arrow_type_nulls(tsr_arrow_type *type);

/* Changes the types to those of a schema that a consumer requests, if the names match and each column can be cast
 * without loss: to a wider number, another layout of strings, a finer unit of instants, a duration instead of a time of
 * day, or labels instead of a dictionary. Returns false, and changes nothing, if some column cannot. */
bool tsr__arrow_types_request(tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                              const struct ArrowSchema *requested);

/* Makes *out the schema of a batch with these columns: a struct. The caller must call out->release. */
int tsr__arrow_schema_make(const tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                           struct ArrowSchema *out, tsr_error *error);

/* ---- column.c: the values of one column of a batch in Arrow's layout, and arrays of them ------------------------- */

typedef struct tsr_arrow_column {
  const tsr_arrow_type *type; /* borrowed */
  uint64_t rows, room, nulls; /* `room`: number of rows for which memory is reserved */
  uint64_t items; /* values in all lists */
  tsr_buffer values; /* converted values, bits, or the bytes of strings */
  tsr_buffer offsets; /* rows + 1 offsets, for strings and large lists */
  tsr_buffer validity; /* a bit for each row; empty until the first null */
} tsr_arrow_column;

/* Which cells of a tsr_column to append: the rows of a batch. */
typedef struct tsr_arrow_rows {
  uint64_t count, first;
  const uint32_t *selection; /* indices; NULL: first..first+count-1 */
  bool null; /* all rows are null */
} tsr_arrow_rows;

/* Begins a column. Its memory is the process's, since it will be given to the consumer. */
void tsr__arrow_column_begin(const tsr_arrow_type *type, tsr_arrow_column *column);

/* Reserves memory for so many rows in total, so that appending need not copy. */
int tsr__arrow_column_reserve(tsr_arrow_column *column, uint64_t rows, tsr_error *error);

/* Appends cells. May run on any thread. Errors: TSR_MISMATCH for text that is not UTF-8; TSR_RANGE for a date past 32
 * bits or a time past a day; TSR_TOOBIG for strings past 32-bit offsets. After an error the column can only be
 * dropped. */
int tsr__arrow_column_append(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                             tsr_error *error);

/* The same for a column of a label: `coordinates` are cells of its dimension. A coordinate without a value is null. */
int tsr__arrow_column_append_label(tsr_arrow_column *column, const tsr_arrow_label *label,
                                   const tsr_column *coordinates, const tsr_arrow_rows *rows, tsr_error *error);

/* Appends rows without nulls to a column of plain numbers, one per row (TSR_ARROW_COPY). The caller writes the values
 * to *values. */
int tsr__arrow_column_extend(tsr_arrow_column *column, uint64_t rows, uint8_t **values, tsr_error *error);

/* Moves the column's values into the array *out; the column is then empty. A dictionary's labels are copied. */
int tsr__arrow_column_finish(tsr_arrow_column *column, const tsr_arrow_options *options, struct ArrowArray *out,
                             tsr_error *error);

void tsr__arrow_column_drop(tsr_arrow_column *column);

/* Makes *out a struct of `count` arrays with `rows` rows each. Takes the arrays over, even on error. */
int tsr__arrow_struct_make(struct ArrowArray *children, uint32_t count, uint64_t rows, struct ArrowArray *out,
                           tsr_error *error);

/* ---- stream.c: a stream over any source of columns, such as the cells of a snapshot ------------------------------ */

#define TSR_ARROW_BATCH_ROWS 131072u /* rows of a batch, unless the options set it */

/* Where the rows of a stream come from. The functions run one at a time, on any thread. */
typedef struct tsr_arrow_source {
  void *argument;
  /* Appends the rows of a batch to the columns, which have been begun and are empty, and sets *rows to their number.
   * Returns 1; 0 if these are the last rows. */
  int (*collect)(void *argument, tsr_arrow_column *columns, uint64_t *rows, tsr_error *error);
  void (*close)(void *argument);
} tsr_arrow_source;

/* Makes *out a stream whose columns have these types. On success it owns the source and `types` (which may have any
 * memory); after an error it has taken neither. */
int tsr__arrow_stream_make(const tsr_arrow_source *source, tsr_arrow_type *types, uint32_t count,
                           const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error);

/* Returns true if the columns have enough rows, or bytes, for a batch. */
bool tsr__arrow_is_full(const tsr_arrow_column *columns, uint32_t count, uint64_t rows, uint64_t batch_rows);

#endif
