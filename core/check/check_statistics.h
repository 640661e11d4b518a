/* check_statistics.h: checks minima, maxima, sums and null counts of tiles against their cells, and those of a fragment
 * against its tiles. check_cells.c gives the tiles one by one; check_fragment.c calls the other two functions. */
#ifndef TSR_CHECK_STATISTICS_H
#define TSR_CHECK_STATISTICS_H

#include "format/tile.h"

typedef struct tsr_fragment_check tsr_fragment_check;

typedef struct tsr_check_summary tsr_check_summary;

/* Makes empty summaries, f->summaries. Must be called before the other two. */
int tsr__check_summaries(tsr_fragment_check *f);

/* Compares the stored statistics of one tile with its cells, and adds the tile to the slot's summaries. `mask` has one
 * byte per cell, 0 for cells outside of a dense fragment's box; NULL: all cells are inside. If `tile` is NULL, its
 * cells are not known and the stored statistics are taken for true. */
int tsr__check_tile_statistics(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile,
                               const uint8_t *mask);

/* Compares the statistics of the whole fragment with the summaries of its tiles. */
int tsr__check_fragment_statistics(tsr_fragment_check *f);

#endif
