/* stream.h: an Arrow stream over any source of columns. */
#ifndef TSR_ARROW_STREAM_H
#define TSR_ARROW_STREAM_H

#include "arrow/column.h"

#define TSR_ARROW_BATCH_ROWS 131072u /* that a batch has, if the options do not say it */

/* Where the rows of a stream come from. The functions run one at a time, on any thread. */
typedef struct tsr_arrow_source {
  void *argument;
  /* Appends the rows of a batch to the columns, which are begun and have no rows; *rows is their number. Returns 1; 0 if
   * no rows come after these. */
  int (*collect)(void *argument, tsr_arrow_column *columns, uint64_t *rows, tsr_error *error);
  void (*close)(void *argument);
} tsr_arrow_source;

/* Makes *out a stream whose columns have these types. It takes over the source and `types`, of
 * any memory; after an error it has taken nothing. */
int tsr__arrow_stream_make(const tsr_arrow_source *source, tsr_arrow_type *types, uint32_t count,
                           const tsr_arrow_options *options, struct ArrowArrayStream *out, tsr_error *error);

/* Whether the columns have so many rows, or bytes, that they are a batch. */
bool tsr__arrow_is_full(const tsr_arrow_column *columns, uint32_t count, uint64_t rows, uint64_t batch_rows);

#endif
