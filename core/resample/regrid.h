/* regrid.h: a reduction: blocks of cells in memory become one cell each. */
#ifndef TSR_RESAMPLE_REGRID_H
#define TSR_RESAMPLE_REGRID_H

#include "base/memory.h"
#include "model/datatype.h"
#include "model/domain.h"

typedef struct tsr_reduction { /* from a box of cells to a box of blocks; arrays are by dimension */
  tsr_regrid_method method;
  const tsr_field *from, *to; /* the source's attribute, and the new array's */
  uint32_t dimensions;
  const uint64_t *factors;
  const uint64_t *cells, *blocks; /* the side lengths of both boxes; the last block of a side may be shorter */
  const uint64_t *stride, *out_stride; /* distance between neighbouring cells, or blocks; 1 on the last dimension */
  const uint8_t *values, *states; /* of the cells; states are tsr_cell_state; NULL: all cells have values */
  uint8_t *out, *out_states; /* of the blocks: values of `to`; the state is UNWRITTEN if no cell was written */
  tsr_memory *memory;
} tsr_reduction;

#endif
