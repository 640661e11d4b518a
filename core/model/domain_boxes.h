/* domain_boxes.h: sets of disjoint boxes of a dense domain. Writers and readers use them to find the cells that several
 * boxes cover, or that are not covered yet. */
#ifndef TSR_DOMAIN_BOXES_H
#define TSR_DOMAIN_BOXES_H

#include "base/memory.h"

/* A set of boxes that do not overlap. Set `dimensions` and `ends.memory` of an empty one; release `ends` at the end.
 * Bounds of boxes are ordinals, inclusive, one `low` and one `high` for each dimension. */
typedef struct tsr_box_set {
  uint32_t dimensions;
  tsr_buffer ends; /* of uint64_t: for each box low and high of each dimension */
} tsr_box_set;

static inline uint64_t tsr__box_set_count(const tsr_box_set *set) {
  return set->ends.size / (2 * sizeof(uint64_t) * set->dimensions);
}

/* Adds the parts of a box that the set does not contain yet, and joins boxes that together are a box. After an error
 * the set must not be used any more. */
int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* Removes a box's cells from the set. Returns 1 if the set had any of them, and 0 if not. After an error the set must
 * not be used any more. */
int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* Returns the number of cells in all boxes, at most UINT64_MAX. */
uint64_t tsr__box_set_cells(const tsr_box_set *set);

#endif
