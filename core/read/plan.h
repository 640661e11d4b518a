/* plan.h: the planner and the reader use the same code. */
#ifndef TSR_PLAN_H
#define TSR_PLAN_H

#include "array/fragment.h"

typedef struct tsr_plan_tile {
  uint32_t fragment; /* index in the snapshot */
  bool inside; /* its box lies within the spans */
  uint64_t tile;
} tsr_plan_tile;

typedef struct
    tsr_dimension_selection { /* of a dense request, on one dimension: ordinals within the non-empty domain, sorted, apart
                           */
  uint64_t count;
  tsr_span *spans;
} tsr_dimension_selection;

typedef struct tsr_plan_box { /* dense: a fragment whose box meets the request */
  uint32_t fragment;
  bool sparse; /* its cells own single cells of the array (formats to 10 wrote such fragments) */
  bool excluded; /* none of its cells satisfies the predicates, by its statistics */
  const uint64_t *low, *high; /* ordinals */
} tsr_plan_box;

typedef struct tsr_cover { /* ordinals */
  const uint64_t *low, *high;
} tsr_cover;

typedef struct tsr_plan {
  bool empty; /* nothing can be found */
  bool lossy; /* coordinates go through a filter that changes them: boxes say nothing of them */
  tsr_spans *spans; /* one per dimension */
  /* sparse: tiles that may hold cells of the request, by fragment, then tile */
  uint64_t tile_count;
  tsr_plan_tile *tiles;
  /* dense: what the request wants of each dimension, fragments oldest first; tiles are enumerated by read_dense.c */
  tsr_dimension_selection *selections;
  uint64_t box_count;
  tsr_plan_box *boxes;
  uint64_t cover_count; /* covers.c */
  tsr_cover *covers;
} tsr_plan;

/* All memory comes from `arena`. Loads R-trees. */
int tsr__plan_make(tsr_snapshot *snapshot, const tsr_ranges *dimensions, tsr_arena *arena, tsr_plan *plan,
                   tsr_error *error);

/* The same of spans, which the plan borrows: a part of another plan, and not counted again. */
int tsr__plan_make_within(tsr_snapshot *snapshot, tsr_spans *spans, tsr_arena *arena, tsr_plan *plan, tsr_error *error);

/* Has a dense fragment the tiles of the snapshot's schema? */
bool tsr__fragment_fits(const tsr_snapshot *snapshot, const tsr_fragment *fragment);

/* How many values the sides hold, and how many tiles of `extent` they meet, counted from `low` to `high`. */
uint64_t tsr__dimension_selection_values(const tsr_dimension_selection *selected);
uint64_t tsr__dimension_selection_tiles(const tsr_dimension_selection *selected, uint64_t extent, uint64_t low,
                                        uint64_t high);

#endif
