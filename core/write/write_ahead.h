/* write_ahead.h: the Hilbert order of cells in memory, found block by block while others come. */
#ifndef TSR_WRITE_AHEAD_H
#define TSR_WRITE_AHEAD_H

#include "write/write_order.h"

void tsr__ahead_open(tsr_writer *writer);
void tsr__ahead_release(tsr_writer *writer);
void tsr__ahead_more(tsr_writer *writer); /* there are ahead.next cells in memory, or more */
void tsr__ahead_rewind(tsr_writer *writer, uint64_t cells); /* those in memory from there on go */

/* What is sorted, when all is: of cells in memory, from the first on. */
tsr_order_ahead tsr__ahead_blocks(tsr_writer *writer);
uint64_t tsr__ahead_bytes(const tsr_writer *writer);

#endif
