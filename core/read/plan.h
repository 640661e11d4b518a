/* plan.h: which fragments and tiles a request can find cells in.
 *
 * The reader executes a plan; the estimate for SQLite's planner (tsr_request_estimate) is made by the same code. A
 * sparse plan lists tiles. A dense plan lists the selected ordinals of each dimension and the boxes of the fragments
 * that meet them; dense.c enumerates its space tiles.
 */
#ifndef TSR_READ_PLAN_H
#define TSR_READ_PLAN_H

#include "array/fragment.h"
#include "base/memory.h"

typedef struct tsr_plan_tile { /* a tile of a sparse fragment */
  uint32_t fragment; /* index in the snapshot */
  bool inside; /* the tile's MBR lies within the spans: no cell needs to be compared with them */
  uint64_t tile; /* number in the fragment */
} tsr_plan_tile;

typedef struct tsr_dimension_selection { /* the ordinals of one dimension that a dense request selects */
  uint64_t count;
  tsr_span *spans; /* ordinals, inclusive; within the array's non-empty domain; sorted and disjoint */
} tsr_dimension_selection;

typedef struct tsr_plan_box { /* a fragment of a dense array whose box meets the request */
  uint32_t fragment; /* index in the snapshot */
  bool sparse; /* a sparse fragment: it owns single cells of the box (format versions up to 10 wrote such fragments) */
  bool excluded; /* the fragment's statistics say that no cell of it satisfies the predicates */
  const uint64_t *low, *high; /* ordinals by dimension, inclusive */
} tsr_plan_box;

typedef struct tsr_cover { /* a box that holds written cells (plan.h) */
  const uint64_t *low, *high; /* ordinals by dimension, inclusive */
} tsr_cover;

typedef struct tsr_plan {
  bool empty; /* no cell can satisfy the request */
  bool lossy; /* a filter changes stored coordinates, so MBRs do not tell where cells lie */
  tsr_spans *spans; /* one per dimension */
  /* sparse arrays: tiles that may hold cells of the request, by fragment, then by tile number */
  uint64_t tile_count;
  tsr_plan_tile *tiles;
  /* dense arrays: */
  tsr_dimension_selection *selections; /* one per dimension */
  uint64_t box_count;
  tsr_plan_box *boxes; /* oldest fragment first */
  uint64_t cover_count;
  tsr_cover *covers; /* set by tsr__covers_make */
} tsr_plan;

/* Makes the plan for ranges of the dimensions (one per dimension, or NULL: all cells). All of its memory comes from
 * `arena`. Loads R-trees, and adds to the counters of considered and skipped fragments and tiles. */
int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error);

/* Makes a plan for spans (one per dimension), which the plan borrows. For parts of a request whose fragments and tiles
 * were counted by tsr__plan_make: this function leaves the counters alone. */
int tsr__plan_make_within(tsr_snapshot *snapshot, tsr_spans *spans, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Returns true if a dense fragment has the same space tiles and cell order as the snapshot's schema. */
bool tsr__fragment_fits(const tsr_snapshot *snapshot, const tsr_fragment *fragment);

/* Returns the number of selected values, UINT64_MAX if there are more. */
uint64_t tsr__dimension_selection_values(const tsr_dimension_selection *selected);

/* Returns how many tiles of `extent` values the selected ordinals between low and high, both inclusive, lie in. */
uint64_t tsr__dimension_selection_tiles(const tsr_dimension_selection *selected, uint64_t extent, uint64_t low,
                                        uint64_t high);

/* Boxes of a dense array that together hold every cell that was ever written.
 *
 * A plan for a dense array gets covers where a reader need not look at the space tiles without any written cell. The
 * walk over space tiles (space_tiles.h) and the key ranges of an ordered read (ordered.c) then skip what lies between
 * covers.
 */

typedef struct tsr_plan tsr_plan;
typedef struct tsr_dimension_selection tsr_dimension_selection;

/* Sets plan->covers: each cell that a fragment of the plan wrote lies in at least one of them. Covers may overlap. They
 * live in `arena`. Loads the R-trees of sparse fragments. */
int tsr__covers_make(tsr_snapshot *snapshot, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Returns how many selected values lie between the ordinals low and high, both inclusive. */
uint64_t tsr__dimension_selection_values_within(const tsr_dimension_selection *selected, uint64_t low, uint64_t high);

#endif
