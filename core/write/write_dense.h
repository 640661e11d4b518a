/* write_dense.h: the cells of an exact box become a dense fragment: every tile that the box touches, in tile order,
 * each whole; where a tile reaches beyond the box, its cells are padding. */
#ifndef TSR_WRITE_DENSE_H
#define TSR_WRITE_DENSE_H

#include "base/memory.h"
#include "write/write_sparse.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* The cells of target->box in row-major (or the array's own) cell order of the box. */
int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error);
int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error);

/* How many cells a box has. TSR_RANGE where it is no box within the domain. */
int tsr__box_cells(const tsr_schema *schema, const tsr_interval *box, tsr_memory *memory, uint64_t *cells,
                   tsr_error *error);

#endif
