/* write_sparse.h: writes cells in global order as a sparse fragment. */
#ifndef TSR_WRITE_SPARSE_H
#define TSR_WRITE_SPARSE_H

#include "tessera.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes cells order[0..count) of `columns`, which are in global order. */
int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error);

/* Gives the cells of a dense fragment tile by tile. The writer calls it for each tile that the box touches, in tile
 * order, with the tile's coordinates in units of tiles. It sets *columns and order[cells of a tile] as
 * tsr__fragment_writer_add takes them. */
typedef int (*tsr_tile_filler)(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                               tsr_error *error);

#endif
