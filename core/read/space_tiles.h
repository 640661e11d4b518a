/* space_tiles.h: the space tiles of a dense plan, one after the other in tile order.
 *
 * A dense plan may select far more space tiles than any fragment meets. The walk therefore can skip tiles that no cover
 * meets (plan.h), or offer all tiles between two covers as one box: a gap.
 */
#ifndef TSR_READ_SPACE_TILES_H
#define TSR_READ_SPACE_TILES_H

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

/* Parts of a space tile, small enough for a selection, a map of owners and columns of coordinates.
 *
 * The cells that a dense request selects in a space tile are the product of one set of spans per dimension.
 * tsr__subtiles_init divides this product into subtiles, products as well, and tsr__subtiles_next steps through them.
 * The cells of a subtile have two numbers: the index is the distance from the subtile's first cell in the tile's cell
 * order (with gaps where cells are not selected); the position counts selected cells alone.
 */

typedef struct tsr_dimension_selection tsr_dimension_selection;

#define TSR_SUBTILE_CELLS 65536u /* selected cells of a subtile, usually at most */
#define TSR_SUBTILE_REACH (UINT64_C(1) << 20) /* indices of a subtile, at most, if it has more than one row */

typedef struct tsr_axis { /* a dimension of a tile; axes stand from the slowest to the fastest in cell order */
  uint32_t dimension;
  uint64_t base; /* ordinal of the tile's first value */
  uint64_t extent; /* values in the tile */
  uint64_t stride; /* distance in cells between two neighbours along this axis */
  uint64_t count; /* selected values */
  uint64_t span_count;
  tsr_span *spans; /* selected values, counted from base, inclusive */
} tsr_axis;

typedef struct tsr_subtile { /* the product of its axes */
  uint32_t dimensions;
  tsr_axis *axes;
  uint64_t cells; /* selected cells */
  uint64_t origin; /* number in the tile of the first selected cell, which has index 0 */
  uint64_t reach; /* number of indices: the last selected cell's index plus 1 */
  uint64_t *values, *at; /* scratch of the walk over rows: value, and its span, by axis */
} tsr_subtile;

typedef struct tsr_subtiles { /* the subtiles of one tile */
  tsr_axis *tile_axes; /* of all that is selected in the tile */
  tsr_subtile subtile; /* the present one */
  uint32_t split; /* a subtile has one value on each axis before this one, some on this one, all on those after it */
  uint64_t rows_max; /* selected values of the split axis in a subtile, at most */
  uint64_t width_max; /* the largest distance between two values of the split axis in a subtile */
  bool started; /* `subtile` is valid */
  uint64_t *span_at, *value; /* by axis up to `split`: where the next subtile begins */
} tsr_subtiles;

/* Prepares the subtiles of the tile at coordinates `tile` (by dimension), of at most `cells_max` selected cells each.
 * first[d] is the first span of selections[d] that meets the tile. All memory comes from `arena`. */
int tsr__subtiles_init(const tsr_grid *grid, const tsr_dimension_selection *selections, const uint64_t *tile,
                       const uint64_t *first, uint64_t cells_max, tsr_arena *arena, tsr_subtiles *subtiles,
                       tsr_error *error);

/* Steps to the next subtile, in cell order of the split axes; false after the last one. */
bool tsr__subtiles_next(tsr_subtiles *subtiles);

/* Returns true if all indices of the subtile are selected: its cells follow each other in the tile. */
bool tsr__subtile_is_contiguous(const tsr_subtile *subtile);

/* Writes the indices of the subtile's cells, in cell order. `cells` has room for subtile->cells. */
void tsr__subtile_select(const tsr_subtile *subtile, uint32_t *cells);

/* Sets owners[position] to `owner` for each cell that has the owner `none` so far and lies in the box low..high
 * (ordinals by dimension, inclusive). Returns how many cells these are. */
uint64_t tsr__subtile_claim(const tsr_subtile *subtile, const uint64_t *low, const uint64_t *high, uint32_t owner,
                            uint32_t none, uint32_t *owners);

/* Returns the position of the cell at these ordinals (by dimension); -1 if the subtile does not select it. */
int64_t tsr__subtile_find(const tsr_subtile *subtile, const uint64_t *ordinals);

/* Sets values[index] of each cell to its coordinate on an axis, in an integer datatype of `size` bytes. `low` is the
 * coordinate with ordinal 0. `values` has room for subtile->reach values; those of cells that are not selected stay as
 * they are. */
void tsr__subtile_values(const tsr_subtile *subtile, uint32_t axis, const uint8_t *low, uint64_t size, void *values);

/* Sets numbers[index] of each cell to base + sum of ordinal * strides[dimension]: its row-major ordinal in a domain of
 * these strides. `numbers` has room for subtile->reach numbers. */
void tsr__subtile_numbers(const tsr_subtile *subtile, const uint64_t *strides, int64_t base, int64_t *numbers);

#endif
