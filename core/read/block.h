/* block.h: reads a box of a dense array with what each of its cells is: a value, a null, or never written. */
#ifndef TSR_READ_BLOCK_H
#define TSR_READ_BLOCK_H

#include "tessera.h"

typedef enum tsr_cell_state {
  TSR_CELL_UNWRITTEN, /* no row of a table */
  TSR_CELL_VALUE,
  TSR_CELL_NULL /* null, or the cell's fragment lacks the attribute */
} tsr_cell_state;

/* Does what tsr_block_read does. `states` has room for a byte for each cell, which gets its tsr_cell_state; NULL: they
 * are not needed. */
int tsr__block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, void *out, uint64_t size, uint8_t *states, tsr_error *error);

typedef struct tsr_block_tile { /* the cells of a box that lie in one space tile; by dimension where arrays */
  const uint64_t *low, *high; /* ordinals in the domain, inclusive */
  const uint64_t *stride; /* from a cell to its neighbour, in cells; 1 on the last dimension */
  const uint8_t *values; /* from the first cell on */
  const uint8_t *states; /* tsr_cell_state of the cells; NULL: all have values */
} tsr_block_tile;

/* Gets the cells of a space tile, on a worker thread. What it points to is borrowed for the call. */
typedef int (*tsr_block_take)(void *argument, const tsr_block_tile *tile, tsr_error *error);

/* Gives the cells of a box to `take`, tile by tile, several at a time: cells that were never written, too. Returns 1, or
 * 0 if fragments of single cells meet the box: then `take` was not called, and only tsr__block_read reads the box. */
int tsr__block_each(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, tsr_block_take take, void *argument, tsr_error *error);

#endif
