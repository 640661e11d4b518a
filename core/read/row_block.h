/* row_block.h: rows of many batches as columns of their own. */
#ifndef TSR_ROW_BLOCK_H
#define TSR_ROW_BLOCK_H

#include "base/memory.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

typedef struct tsr_row_block_column {
  bool ready; /* it has all rows; batches that come are added to it */
  bool variable, nulls;
  uint64_t cell_size;
  tsr_buffer values, offsets, validity;
} tsr_row_block_column;

typedef struct tsr_row_block {
  const tsr_schema *schema;
  bool fill_unwritten; /* as in a request: false: what was never written is null */
  tsr_row_block_column *columns; /* [field] */
  uint64_t rows;
  bool written, unwritten; /* some of the rows are */
  tsr_buffer rowids, times, flags; /* by row; flags: a byte, was it written? */
} tsr_row_block;

/* The schema is borrowed. After a failure, too, release is fine. */
int tsr__row_block_init(tsr_row_block *block, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
void tsr__row_block_release(tsr_row_block *block);

/* No rows, and no column is ready; memory is kept. */
void tsr__row_block_clear(tsr_row_block *block);
void tsr__row_block_empty(tsr_row_block *block); /* and neither */

/* Gives back the memory of all columns but one. */
void tsr__row_block_drop_others(tsr_row_block *block, uint32_t field);

/* The source's batch goes behind the rows that are there. After a failure `rows` is what it was. */
int tsr__row_block_append(tsr_row_block *block, tsr_batch_iterator *iterator, const tsr_batch *batch, tsr_error *error);

/* One column of a batch, `before` rows of which came already. */
int tsr__row_block_append_column(tsr_row_block *block, tsr_batch_iterator *iterator, uint32_t field, uint64_t before,
                                 const tsr_batch *batch, tsr_error *error);

/* Borrowed until rows are added or cleared; `unwritten` is left to the caller. */
tsr_column tsr__row_block_column(const tsr_row_block *block, uint32_t field);

#endif
