/* write_dense.h: writes the cells of a box as a dense fragment: every tile that the box touches, in tile order, each
 * complete. Where a tile reaches beyond the box, its cells are padding. */
#ifndef TSR_WRITE_DENSE_H
#define TSR_WRITE_DENSE_H

#include "base/memory.h"
#include "write/write_sparse.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes the cells of target->box, all in `columns`: in row-major order of the box or, if `array_order`, in the array's
 * cell order. */
int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error);
int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error);

/* Sets *cells to the number of cells of a box. Errors: TSR_RANGE if it is no box within the domain; TSR_TOOBIG if 64
 * bits cannot count them. */
int tsr__box_cells(const tsr_schema *schema, const tsr_interval *box, tsr_memory *memory, uint64_t *cells,
                   tsr_error *error);

#endif
