/* domain_boxes.h: sets of boxes that are apart from each other. */
#ifndef TSR_DOMAIN_BOXES_H
#define TSR_DOMAIN_BOXES_H

#include "base/memory.h"

typedef struct tsr_box_set { /* `= {0}`, dimensions and memory set */
  uint32_t dimensions;
  tsr_buffer ends; /* u64, for each box: low and high of each dimension, ordinals */
} tsr_box_set;

static inline uint64_t tsr__box_set_count(const tsr_box_set *set) {
  return set->ends.size / (2 * sizeof(uint64_t) * set->dimensions);
}

/* Adds what is not there yet of the box low..high, and joins boxes that make one. */
int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* Takes what lies in the box low..high out of the set: 1; 0 if nothing did. After an error the set is of no use. */
int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);
uint64_t tsr__box_set_cells(const tsr_box_set *set); /* at most UINT64_MAX */

#endif
