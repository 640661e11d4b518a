/* write_sparse.h: cells in global order become a sparse fragment. */
#ifndef TSR_WRITE_SPARSE_H
#define TSR_WRITE_SPARSE_H

#include "tessera.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* Cells order[0..count), which are in global order. */
int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error);

/* The same, tile by tile: `fill` is called for each tile that the box touches (its coordinates, absolute), in tile order,
 * and gives columns and order[cells of a tile] for tsr__fragment_writer_add. */
typedef int (*tsr_tile_filler)(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                               tsr_error *error);

#endif
