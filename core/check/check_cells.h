/* check_cells.h: every tile, every cell. */
#ifndef TSR_CHECK_CELLS_H
#define TSR_CHECK_CELLS_H

#include "tessera.h"

typedef struct tsr_fragment_check tsr_fragment_check;

int tsr__check_cells(tsr_fragment_check *f);

#endif
