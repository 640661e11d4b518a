/* ordered.h: rows of many batches, copied into columns of their own. */
#ifndef TSR_READ_ORDERED_H
#define TSR_READ_ORDERED_H

#include "base/memory.h"
#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

typedef struct tsr_row_block_column {
  bool ready; /* holds all rows of the block; tsr__row_block_append adds to ready columns. Set by the user */
  bool variable, nulls; /* has offsets; has a validity byte for each row */
  uint64_t cell_size; /* in bytes; 0 if variable */
  tsr_buffer values, offsets, validity;
} tsr_row_block_column;

typedef struct tsr_row_block {
  const tsr_schema *schema; /* borrowed */
  bool fill_unwritten; /* as in a request; false: cells that were never written are null */
  tsr_row_block_column *columns; /* by field */
  uint64_t rows;
  bool written, unwritten; /* the block holds rows of written cells; of cells that were never written */
  tsr_buffer rowids, times, flags; /* by row: int64_t; uint64_t; a byte, 1 if the cell was written */
} tsr_row_block;

/* Makes an empty block whose memory is charged to `memory`. Borrows the schema. tsr__row_block_release may be called
 * after a failure, too. */
int tsr__row_block_init(tsr_row_block *block, const tsr_schema *schema, tsr_memory *memory, tsr_error *error);
void tsr__row_block_release(tsr_row_block *block);

/* Removes all rows, and makes no column ready. Keeps the memory for the next rows. */
void tsr__row_block_clear(tsr_row_block *block);

/* Removes all rows and gives back their memory. */
void tsr__row_block_empty(tsr_row_block *block);

/* Gives back the memory of all columns but one. */
void tsr__row_block_drop_others(tsr_row_block *block, uint32_t field);

/* Appends the rows of the iterator's present batch to the ready columns. After a failure block->rows is unchanged. */
int tsr__row_block_append(tsr_row_block *block, tsr_batch_iterator *iterator, const tsr_batch *batch, tsr_error *error);

/* Appends one column of the iterator's present batch, of whose rows `before` have been appended to this column already.
 * For columns that are read after the block was filled. */
int tsr__row_block_append_column(tsr_row_block *block, tsr_batch_iterator *iterator, uint32_t field, uint64_t before,
                                 const tsr_batch *batch, tsr_error *error);

/* Returns a column of the block, borrowed until rows are added or removed. The caller sets its `unwritten`. */
tsr_column tsr__row_block_column(const tsr_row_block *block, uint32_t field);

/* The rows of a request in an order of dimensions, whatever the order of its tiles and cells. */

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over the rows of reader->plan, in an order of `count` dimensions. `limit` is a hint as in a
 * request: how many rows are likely to be taken, 0: all. The iterator belongs to the reader, which reuses it at its
 * next start: closing it gives back tiles only; tsr__read_ordered_free frees it. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader); /* does nothing if the reader has never been ordered */

/* Gives back the tiles that the inner reader keeps from start to start. */
void tsr__read_ordered_forget(tsr_reader *reader);

#endif
