/* block.h: reads a box of a dense array, and tells of each cell whether it has a value, is null or was never written.
 */
#ifndef TSR_READ_BLOCK_H
#define TSR_READ_BLOCK_H

#include "tessera.h"

typedef enum tsr_cell_state {
  TSR_CELL_UNWRITTEN, /* never written: a table has no row for it */
  TSR_CELL_VALUE,
  TSR_CELL_NULL /* null, or the cell's fragment lacks the attribute */
} tsr_cell_state;

/* The same as tsr_block_read, but `states`, unless NULL, also gets the tsr_cell_state of each cell: one byte a cell. */
int tsr__block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, void *out, uint64_t size, uint8_t *states, tsr_error *error);

typedef struct tsr_block_tile { /* the cells of a box that lie in one space tile; arrays are by dimension */
  const uint64_t *low, *high; /* ordinals in the domain, inclusive */
  const uint64_t *stride; /* distance between neighbours, in cells; 1 on the last dimension */
  const uint8_t *values; /* starting at the first cell */
  const uint8_t *states; /* tsr_cell_state of the cells; NULL: all have values */
} tsr_block_tile;

/* Takes the cells of a space tile, on a worker thread. The tile and its arrays are borrowed for the call. */
typedef int (*tsr_block_take)(void *argument, const tsr_block_tile *tile, tsr_error *error);

/* Passes the cells of a box to `take` tile by tile, several at a time, including cells that were never written. Returns
 * 1, or 0 if fragments of single cells meet the box: then it never called `take`, and only tsr__block_read can read the
 * box. */
int tsr__block_each(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, tsr_block_take take, void *argument, tsr_error *error);

#endif
