/* walk.h: the space tiles of a dense plan. */
#ifndef TSR_WALK_H
#define TSR_WALK_H

#include "model/domain.h"

typedef struct tsr_plan tsr_plan;

typedef struct tsr_walk {
  const tsr_plan *plan;
  const tsr_grid *grid;
  bool ended;
  bool gaps; /* tiles that no cover meets are walked, too */
  uint64_t *at, *first; /* by dimension: the tile; the first span of its side that meets it */
  uint32_t **lists, *list_counts; /* the last one has the plan's boxes that meet the tile, oldest first */
  uint32_t **covers, *cover_counts; /* the same of the plan's covers; NULL: not needed */
  uint32_t gap_at; /* of the gap that was found */
  uint64_t gap_end;
} tsr_walk;

/* Stands on the first tile, or has ended. `offered`: gaps will be asked for. What it needs of the plan's covers is there. */
int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool offered, tsr_arena *arena,
                   tsr_walk *walk, tsr_error *error);
void tsr__walk_next(tsr_walk *walk);

/* From the present tile on, a box of tiles that no cover meets and of which all between low and high is wanted: true, how many
 * cells these are (UINT64_MAX: that many or more), and the walk may be put behind them. */
bool tsr__walk_gap(tsr_walk *walk, uint64_t *low, uint64_t *high, uint64_t *cells);
void tsr__walk_pass(tsr_walk *walk);

#endif
