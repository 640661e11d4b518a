/* covers.h: where cells of a dense plan have been written. */
#ifndef TSR_COVERS_H
#define TSR_COVERS_H

#include "base/memory.h"

typedef struct tsr_plan tsr_plan;
typedef struct tsr_dimension_selection tsr_dimension_selection;

/* Makes plan->covers: each cell that a fragment of the plan has lies in one of them. They may overlap. */
int tsr__covers_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* How many values of a side lie between low and high. */
uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high);

#endif
