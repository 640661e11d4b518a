/* write_hilbert.h: sorts cells into Hilbert order in blocks, on many threads. */
#ifndef TSR_WRITE_HILBERT_H
#define TSR_WRITE_HILBERT_H

#include "base/memory.h"
#include "base/sort.h"

typedef struct tsr_order_ahead tsr_order_ahead;

/* Makes a pair of code and number for each of `count` cells from `first` on, sorted by code. `number` is the first
 * cell's number. `spare` is room for as many pairs. */
void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare);

/* As tsr__order_cells, from blocks that were sorted ahead. Returns 1; or 0, with nothing done, if too many codes are
 * equal for sorting by codes. */
int tsr__order_blocks(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                      const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

#endif
