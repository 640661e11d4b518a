/* merge_dense.h: dense fragments become boxes of written cells, and each box one fragment. */
#ifndef TSR_MERGE_DENSE_H
#define TSR_MERGE_DENSE_H

#include "write/fragment_writer.h"

typedef struct tsr_merge_plan tsr_merge_plan;

/* Writes one box; its cells all come from the plan's fragments. target->box is that box. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

#endif
