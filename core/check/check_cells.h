/* check_cells.h: decodes every tile of a fragment and checks every cell. check_fragment.c calls it when the fragment's
 * metadata has been read. */
#ifndef TSR_CHECK_CELLS_H
#define TSR_CHECK_CELLS_H

#include "tessera.h"

typedef struct tsr_fragment_check tsr_fragment_check;

/* Checks the tiles whose places in their files are known (slot_sound), and puts the boxes and statistics of the cells
 * into cell_boxes and summaries. A quick check only takes the stored statistics for true. */
int tsr__check_cells(tsr_fragment_check *f);

#endif
