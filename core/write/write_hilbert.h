/* write_hilbert.h: Hilbert order from blocks. */
#ifndef TSR_WRITE_HILBERT_H
#define TSR_WRITE_HILBERT_H

#include "base/memory.h"
#include "base/sort.h"

typedef struct tsr_order_ahead tsr_order_ahead;

/* Cells from `first` on, `count` of them, as pairs of code and number, sorted; the first one's number is `number`. */
void tsr__order_block(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t number, tsr_pair *pairs, tsr_pair *spare);

/* As tsr__order_cells: 1; 0 and nothing if too many codes are equal. */
int tsr__order_blocks(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                      const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

#endif
