/* merge_dense.h: writes one box of cells of several dense fragments as a new fragment. Consolidation splits the written
 * cells into such boxes; recover_late.c writes what is left of a prepared commit with it. */
#ifndef TSR_MERGE_DENSE_H
#define TSR_MERGE_DENSE_H

#include "write/fragment_writer.h"

typedef struct tsr_merge_plan tsr_merge_plan;

/* Writes the box low..high (ordinals, inclusive, one per dimension) to the fragment `target`, whose `box` is the same
 * box in values. The plan's fragments must cover every cell of the box; each cell is taken from the newest of them. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

#endif
