/* column.h: collects the values of one column of a batch in Arrow's layout, and makes Arrow arrays of them. */
#ifndef TSR_ARROW_COLUMN_H
#define TSR_ARROW_COLUMN_H

#include "arrow/type.h"
#include "tessera_arrow.h"

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

#endif
