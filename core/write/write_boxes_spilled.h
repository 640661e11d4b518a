/* write_boxes_spilled.h: parts of boxes from spilled cells, as they come in the array's order, in bounded memory. */
#ifndef TSR_WRITE_BOXES_SPILLED_H
#define TSR_WRITE_BOXES_SPILLED_H

#include "tessera.h"

typedef struct tsr_boxes tsr_boxes;

int tsr__boxes_find_spilled(tsr_boxes *boxes, tsr_error *error); /* parts, of spilled cells */

#endif
