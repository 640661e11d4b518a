/* covers.h: boxes of a dense array that together hold every cell that was ever written.
 *
 * A plan for a dense array gets covers where a reader need not look at the space tiles without any written cell. The
 * walk over space tiles (walk.h) and the key ranges of an ordered read (read_ordered.c) then skip what lies between
 * covers.
 */
#ifndef TSR_COVERS_H
#define TSR_COVERS_H

#include "base/memory.h"

typedef struct tsr_plan tsr_plan;
typedef struct tsr_dimension_selection tsr_dimension_selection;

/* Sets plan->covers: each cell that a fragment of the plan wrote lies in at least one of them. Covers may overlap. They
 * live in `arena`. Loads the R-trees of sparse fragments. */
int tsr__covers_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Returns how many selected values lie between the ordinals low and high, both inclusive. */
uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high);

#endif
