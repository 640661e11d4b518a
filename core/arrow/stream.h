/* stream.h: an Arrow stream over any source of columns. stream.c also makes one over the cells of a snapshot. */
#ifndef TSR_ARROW_STREAM_H
#define TSR_ARROW_STREAM_H

#include "arrow/column.h"

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
