/* subtile.h: parts of a space tile, small enough for selections and maps of owners. */
#ifndef TSR_SUBTILE_H
#define TSR_SUBTILE_H

#include "model/domain.h"

typedef struct tsr_dimension_selection tsr_dimension_selection;

#define TSR_SUBTILE_CELLS 65536u /* wanted cells of a piece, usually */
#define TSR_SUBTILE_REACH (UINT64_C(1) << 20) /* from its first to its last cell, where it has more than one row */

typedef struct tsr_axis { /* of a tile; axes stand from the slowest to the fastest in cell order */
  uint32_t dimension;
  uint64_t base; /* ordinal of the tile's first value */
  uint64_t extent, stride;
  uint64_t count; /* wanted values */
  uint64_t span_count;
  tsr_span *spans; /* wanted values, counted from base */
} tsr_axis;

typedef struct tsr_subtile { /* the product of its axes */
  uint32_t dimensions;
  tsr_axis *axes;
  uint64_t cells, origin, reach; /* origin: its first cell's index in the tile; indices below count from there */
  uint64_t *values, *at; /* scratch of the walk over its rows */
} tsr_subtile;

typedef struct tsr_subtiles { /* what is wanted of a tile, piece by piece */
  tsr_axis *whole;
  tsr_subtile subtile; /* the present one */
  uint32_t split; /* axes before it have one value in a piece, it has some, those behind have all */
  uint64_t rows_max; /* values of the split axis in a piece */
  uint64_t width_max; /* and how far apart */
  bool started;
  uint64_t *span_at, *value; /* where the next piece begins on the axes to `split` */
} tsr_subtiles;

/* The tile at `tile` (coordinates by dimension) in pieces of at most `most` cells; `first` is the first span of each side that
 * meets it. All of it lies in `arena`. */
int tsr__subtiles_init(const tsr_grid *grid, const tsr_dimension_selection *selections, const uint64_t *tile,
                       const uint64_t *first, uint64_t most, tsr_arena *arena, tsr_subtiles *subtiles,
                       tsr_error *error);
bool tsr__subtiles_next(tsr_subtiles *subtiles);
void tsr__subtiles_rewind(tsr_subtiles *subtiles);

/* Are its cells one run in the tile? */
bool tsr__subtile_is_contiguous(const tsr_subtile *subtile);

/* The indices of its cells, in cell order. */
void tsr__subtile_select(const tsr_subtile *subtile, uint32_t *cells);

/* owners[position] = owner where it is `none` and the cell lies in the box low..high (ordinals by dimension); returns
 * how many. Positions are those of tsr__subtile_select. */
uint64_t tsr__subtile_own(const tsr_subtile *subtile, const uint64_t *low, const uint64_t *high, uint32_t owner,
                          uint32_t none, uint32_t *owners);

/* The position of the cell at these ordinals; -1 if it is not of the piece. */
int64_t tsr__subtile_find(const tsr_subtile *subtile, const uint64_t *ordinals);

/* values[index] of each cell: what the axis's ordinal stands for in a datatype of `size` bytes, whose ordinal 0 is
 * `low`. */
void tsr__subtile_values(const tsr_subtile *subtile, uint32_t axis, const uint8_t *low, uint64_t size, void *values);

/* values[index] = base + the cell's row-major ordinal in a domain of these strides (by dimension) */
void tsr__subtile_numbers(const tsr_subtile *subtile, const uint64_t *strides, int64_t base, int64_t *numbers);

#endif
