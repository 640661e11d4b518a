/* column.h: collects the values of one column of a batch in Arrow's layout. */
#ifndef TSR_ARROW_COLUMN_H
#define TSR_ARROW_COLUMN_H

#include "arrow/type.h"

typedef struct tsr_arrow_column {
  const tsr_arrow_type *type; /* borrowed */
  uint64_t rows, room, nulls; /* `room`: rows for which memory has been reserved */
  uint64_t items; /* values in all lists */
  tsr_buffer values; /* converted values, bits, or the bytes of strings */
  tsr_buffer offsets; /* rows + 1 of them; strings and large lists */
  tsr_buffer validity; /* a bit for each row; empty until the first null */
} tsr_arrow_column;

/* Which cells of a tsr_column are appended: the rows of a batch. */
typedef struct tsr_arrow_rows {
  uint64_t count, first;
  const uint32_t *selection; /* indices; NULL: first..first+count-1 */
  bool null; /* all rows are null */
} tsr_arrow_rows;

/* Begins a column. Its memory is the process's, since it is given away. */
void tsr__arrow_column_begin(const tsr_arrow_type *type, tsr_arrow_column *column);

/* Reserves memory for so many rows, so that appending does not copy. */
int tsr__arrow_column_reserve(tsr_arrow_column *column, uint64_t rows, tsr_error *error);

/* Appends cells. May run on any thread. Errors: TSR_MISMATCH: text that is not UTF-8; TSR_RANGE: a date past 32 bits or
 * a time past a day; TSR_TOOBIG: strings past the offsets; after an error the column can only be dropped. */
int tsr__arrow_column_append(tsr_arrow_column *column, const tsr_column *cells, const tsr_arrow_rows *rows,
                             tsr_error *error);

/* Appends rows without nulls to a column of one plain number each (TSR_ARROW_COPY): the caller writes their values to
 * *values. */
int tsr__arrow_column_extend(tsr_arrow_column *column, uint64_t rows, uint8_t **values, tsr_error *error);

/* Makes *out the array of the column, which has no values then. A dictionary's labels are copied. */
int tsr__arrow_column_finish(tsr_arrow_column *column, const tsr_arrow_options *options, struct ArrowArray *out,
                             tsr_error *error);

void tsr__arrow_column_drop(tsr_arrow_column *column);

/* Makes *out a struct of `count` arrays of `rows` rows, which it takes over: also after an error. */
int tsr__arrow_struct_make(struct ArrowArray *children, uint32_t count, uint64_t rows, struct ArrowArray *out,
                           tsr_error *error);

#endif
