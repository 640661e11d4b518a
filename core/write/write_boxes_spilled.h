/* write_boxes_spilled.h: finds parts of boxes among spilled cells, in bounded memory. */
#ifndef TSR_WRITE_BOXES_SPILLED_H
#define TSR_WRITE_BOXES_SPILLED_H

#include "tessera.h"

typedef struct tsr_boxes tsr_boxes;

/* Fills boxes->parts from the cells of source.spilled. Errors: TSR_FULL if more parts are left than memory has room
 * for. */
int tsr__boxes_find_spilled(tsr_boxes *boxes, tsr_error *error);

#endif
