/* gather.h: rows of many batches as columns of their own. */
#ifndef TSR_GATHER_H
#define TSR_GATHER_H

#include "base/memory.h"

typedef struct tsr_source tsr_source;

typedef struct tsr_gathered_column {
  bool ready; /* it has all rows; batches that come are added to it */
  bool variable, nulls;
  uint64_t cell_size;
  tsr_buffer values, offsets, validity;
} tsr_gathered_column;

typedef struct tsr_gathered {
  const tsr_schema *schema;
  bool fill_unwritten; /* as in a request: false: what was never written is null */
  tsr_gathered_column *columns; /* [field] */
  uint64_t rows;
  bool written, unwritten; /* some of the rows are */
  tsr_buffer rowids, times, flags; /* by row; flags: a byte, was it written? */
} tsr_gathered;

/* The schema is borrowed. After a failure, too, release is fine. */
int tsr__gathered_init(tsr_gathered *gathered, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
void tsr__gathered_release(tsr_gathered *gathered);

/* No rows, and no column is ready; memory is kept. */
void tsr__gathered_clear(tsr_gathered *gathered);
void tsr__gathered_empty(tsr_gathered *gathered); /* and neither */

/* Gives back the memory of all columns but one. */
void tsr__gathered_drop_others(tsr_gathered *gathered, uint32_t field);

/* The source's batch goes behind the rows that are there. After a failure `rows` is what it was. */
int tsr__gather_batch(tsr_gathered *gathered, tsr_source *source, const tsr_batch *batch, tsr_error *error);

/* One column of a batch, `before` rows of which came already. */
int tsr__gather_column(tsr_gathered *gathered, tsr_source *source, uint32_t field, uint64_t before,
                       const tsr_batch *batch, tsr_error *error);

/* Borrowed until rows are added or cleared; `unwritten` is left to the caller. */
tsr_column tsr__gathered_column(const tsr_gathered *gathered, uint32_t field);

#endif
