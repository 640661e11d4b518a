/* check_statistics.h: minima, maxima, sums and null counts against the cells; the fragment's own against its tiles'. */
#ifndef TSR_CHECK_STATISTICS_H
#define TSR_CHECK_STATISTICS_H

#include "format/tile.h"

typedef struct tsr_fragment_check tsr_fragment_check;

typedef struct tsr_check_summary tsr_check_summary;
int tsr__check_summaries(tsr_fragment_check *f); /* before all else: makes them, empty */

/* Compares a tile's cells with what the metadata says of them, and adds what is true to the slot's summary. `mask`: one
 * byte per cell, 0 = outside of a dense fragment's box; NULL: all are inside. tile NULL: it is not known, what stands
 * in the metadata is taken for true. */
int tsr__check_tile_statistics(tsr_fragment_check *f, uint32_t slot, uint64_t number, const tsr_tile *tile,
                               const uint8_t *mask);

/* The fragment's own statistics against the summaries. */
int tsr__check_fragment_statistics(tsr_fragment_check *f);

#endif
