/* read_block.h: reads a box of a dense array with what each of its cells is: a value, a null, or never written. */
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

#endif
