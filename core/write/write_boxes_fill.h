/* write_boxes_fill.h: writes the boxes of a dense commit as fragments, tile by tile. */
#ifndef TSR_WRITE_BOXES_FILL_H
#define TSR_WRITE_BOXES_FILL_H

#include "tessera.h"

typedef struct tsr_boxes tsr_boxes;
typedef struct tsr_fragment_target tsr_fragment_target;

/* Writes box `index` as one fragment. target->box is that box. */
int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error);

#endif
