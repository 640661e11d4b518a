/* regrid.h: reduces blocks of cells in memory to one cell each. */
#ifndef TSR_REGRID_REDUCE_H
#define TSR_REGRID_REDUCE_H

#include "base/memory.h"
#include "model/datatype.h"
#include "model/domain.h"

typedef struct tsr_reduction { /* from a box of cells to a box of blocks; by dimension where pointers */
  tsr_regrid_method method;
  const tsr_field *from, *to; /* the attribute, and the new one */
  uint32_t dimensions;
  const uint64_t *factors;
  const uint64_t *cells, *blocks; /* the lengths of the two boxes; a last block may be cut off */
  const uint64_t *stride, *out_stride; /* from a cell or block to its neighbour; 1 on the last dimension */
  const uint8_t *values, *states; /* of the cells; states are tsr_cell_state; NULL: all have values */
  uint8_t *out, *out_states; /* of the blocks: a value is that of `to`; the state is UNWRITTEN if no cell was written */
  tsr_memory *memory;
} tsr_reduction;

#endif
