/* walk.h: the space tiles of a dense plan, one after the other in tile order.
 *
 * A dense plan may select far more space tiles than any fragment meets. The walk therefore can skip tiles that no cover
 * meets (covers.h), or offer all tiles between two covers as one box: a gap.
 */
#ifndef TSR_WALK_H
#define TSR_WALK_H

#include "model/domain.h"

typedef struct tsr_plan tsr_plan;

typedef struct tsr_walk {
  const tsr_plan *plan; /* borrowed */
  const tsr_grid *grid; /* borrowed */
  bool ended;
  bool gaps; /* walk tiles that no cover meets, too */
  uint64_t *at, *first; /* by dimension: the tile's coordinates; the first span of the selection that meets the tile */
  /* Lists of plan->boxes, as indices. lists[k] has the boxes that meet the tile in the k slowest dimensions; the last
   * list has the boxes that meet the tile, oldest fragment first. */
  uint32_t **lists, *list_counts;
  uint32_t **covers, *cover_counts; /* the same lists of plan->covers; NULL if the walk needs no covers */
  uint32_t gap_at; /* of the last gap: the dimension, in tile order, along which it ends */
  uint64_t gap_end; /* the last ordinal of the gap in that dimension */
} tsr_walk;

/* Places the walk on the first tile, or ends it. `gaps`: walk tiles that no cover meets, too. `gaps_offered`: the
 * caller will call tsr__walk_gap. The plan must have covers if `gaps` is false or `gaps_offered` is true. All memory
 * comes from `arena`. */
int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool gaps_offered, tsr_arena *arena,
                   tsr_walk *walk, tsr_error *error);

/* Steps to the next tile, or ends the walk. */
void tsr__walk_next(tsr_walk *walk);

/* Returns true if a gap begins at the present tile: a box low..high (ordinals by dimension, inclusive) of fully
 * selected cells in tiles that no cover meets. *cells is their number; UINT64_MAX: that many or more. The caller may
 * then call tsr__walk_pass. */
bool tsr__walk_gap(tsr_walk *walk, uint64_t *low, uint64_t *high, uint64_t *cells);

/* Steps to the first tile after the gap that tsr__walk_gap returned last. */
void tsr__walk_pass(tsr_walk *walk);

#endif
