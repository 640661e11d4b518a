/* domain.h: the geometry of an array: the spans that a query selects on a dimension, the tile grid of a dense array,
 * sets of boxes, and the global order of sparse cells. No function has global state.
 *
 * A request's ranges on a dimension become spans: sorted, disjoint, closed intervals. R-trees, tiles and cells are
 * compared with them. The coordinate of a dense dimension is its ordinal, the distance from the low end of the domain
 * as uint64; all dense arithmetic is done in ordinals. */
#ifndef TSR_MODEL_DOMAIN_H
#define TSR_MODEL_DOMAIN_H

#include "base/memory.h"
#include "tessera.h"

#define TSR_HILBERT_DIMENSIONS_MAX 16 /* of a schema whose cells are in Hilbert order */
#define TSR_MAX_DIMENSIONS         1024 /* a schema with more is rejected when it is decoded */

/* ---- domain.c: spans ---- */

/* An interval of a fixed-size dimension, as order keys, inclusive. */
typedef struct tsr_span {
  uint64_t low, high;
} tsr_span;

/* An interval of strings. `low` is inclusive: an exclusive bound is stored with a NUL byte appended, which gives the
 * least string above it. */
typedef struct tsr_text_span {
  const uint8_t *low, *high; /* borrowed from the arena */
  uint64_t low_size, high_size; /* in bytes */
  bool high_open, high_exclusive; /* open: no upper bound, `high` is unused */
} tsr_text_span;

/* The selected values of one dimension. */
typedef struct tsr_spans {
  bool text; /* strings: uses `texts` instead of `spans` */
  bool all; /* every value of the dimension, including NaNs; `count` is unused */
  bool floats; /* the keys are those of floats */
  bool nans; /* only NaNs; `count` is 0 */
  uint64_t count; /* 0: no value is selected, unless `all` or `nans` is set */
  tsr_span *spans;
  tsr_text_span *texts;
} tsr_spans;

/* Makes spans from the public ranges of a field: sorts and merges the ranges and makes their bounds inclusive.
 * Allocates from `arena`, and copies strings into it. */
int tsr__spans_make(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                    tsr_error *error);

/* Intersects the spans of a fixed-size dimension with the keys from `low` to `high`, inclusive, without NaNs. The
 * second function does the same for strings, with one public range. The result may borrow from all arguments. */
int tsr__spans_clip(const tsr_field *field, const tsr_spans *spans, uint64_t low, uint64_t high, tsr_arena *arena,
                    tsr_spans *out, tsr_error *error);
int tsr__spans_clip_text(const tsr_field *field, const tsr_spans *spans, const tsr_range *range, tsr_arena *arena,
                         tsr_spans *out, tsr_error *error);

typedef enum tsr_relation {
  TSR_OUTSIDE, /* no value of the interval is selected */
  TSR_OVERLAP, /* some values may be selected */
  TSR_INSIDE /* every value of the interval is selected */
} tsr_relation;

/* Relate the spans to the interval from `low` to `high`, inclusive, such as one side of an MBR. An interval of floats
 * may also stand for NaNs, which no span contains, so it is INSIDE only if `all` is set. An interval with a NaN as a
 * bound, or with low > high, is OVERLAP. */
tsr_relation tsr__spans_relate(const tsr_spans *spans, uint64_t low, uint64_t high);
tsr_relation tsr__spans_relate_text(const tsr_spans *spans, const uint8_t *low, uint64_t low_size, const uint8_t *high,
                                    uint64_t high_size);

/* Returns true if the string is selected. */
bool tsr__spans_contain_text(const tsr_spans *spans, const uint8_t *value, uint64_t size);

/* Writes all cells of a selection to `out`: the `count` indexes in `selection`, or 0 to count - 1 if it is NULL.
 * Returns `count`. */
uint64_t tsr__select_all(const uint32_t *selection, uint64_t count, uint32_t *out);

/* Write to `out` those cells of a selection (see tsr__select_all) whose values the spans contain, and return their
 * number. `values` is the tile's data; for strings, `offsets` has one element more than there are cells. `out` may be
 * `selection`. */
uint64_t tsr__spans_select(const tsr_spans *spans, tsr_datatype datatype, const void *values, const uint32_t *selection,
                           uint64_t count, uint32_t *out);
uint64_t tsr__spans_select_text(const tsr_spans *spans, const uint8_t *values, const uint64_t *offsets,
                                const uint32_t *selection, uint64_t count, uint32_t *out);

#define TSR_JOINT_MAX 16

typedef struct tsr_select_column { /* a column of a tile, and what is selected of it; all borrowed */
  const tsr_spans *spans; /* tsr__spans_are_one */
  tsr_datatype datatype;
  const void *values; /* not strings */
} tsr_select_column;

/* Returns true if the spans are one interval of numbers, as tsr__select_joint requires. */
bool tsr__spans_are_one(const tsr_spans *spans);

/* Writes to `out` those of the cells 0 to cells - 1 whose values the spans of all columns contain, and returns their
 * number. `count`: columns, at most TSR_JOINT_MAX. They are tested together, block by block: in a tile that spans many
 * space tiles nearly each block has a cell that one of them selects. */
uint64_t tsr__select_joint(const tsr_select_column *columns, uint32_t count, uint64_t cells, uint32_t *out);

/* ---- domain.c: the tile grid of a dense array ---- */

/* All coordinates are ordinals. Arrays have one element per dimension. */
typedef struct tsr_grid {
  uint32_t dimensions;
  bool col_major_cells, col_major_tiles; /* cell order and tile order; false: row-major */
  uint64_t *last; /* the greatest ordinal of the domain, which begins at 0 */
  uint64_t *extent; /* the tile extent in cells; the last tile may extend beyond the domain */
  uint64_t *low_key; /* order key of ordinal 0; any other ordinal's key is low_key + ordinal */
  uint64_t tile_cells; /* cells of a tile, the product of the extents; below 2^32 */
} tsr_grid;

/* Makes the grid of a dense schema, with its arrays in `arena`. Fails if a tile would have 2^32 cells or more. */
int tsr__grid_make(const tsr_schema *schema, tsr_arena *arena, tsr_grid *grid, tsr_error *error);

/* Returns the k-th dimension in tile order, beginning with the slowest. */
static inline uint32_t tsr__grid_slowest(const tsr_grid *grid, uint32_t k) {
  return grid->col_major_tiles ? grid->dimensions - 1 - k : k;
}

/* Return the first and the last ordinal of a tile in dimension d. The last one is clipped to the domain. */
static inline uint64_t tsr__grid_start(const tsr_grid *grid, const uint64_t *tile, uint32_t d) {
  return tile[d] * grid->extent[d];
}
static inline uint64_t tsr__grid_end(const tsr_grid *grid, const uint64_t *tile, uint32_t d) {
  const uint64_t start = tile[d] * grid->extent[d];
  return grid->last[d] - start < grid->extent[d] ? grid->last[d] : start + grid->extent[d] - 1;
}

/* Returns the position of a cell within its tile, in cell order. */
uint64_t tsr__grid_cell(const tsr_grid *grid, const uint64_t *ordinals);

/* ---- domain.c: sets of disjoint boxes of a dense domain ----
 *
 * Writers and readers use them to find cells that several boxes cover, or that no box covers yet. */

/* A set of disjoint boxes. To start, set `dimensions` and `ends.memory`; at the end, release `ends`. Bounds of boxes
 * are ordinals, inclusive, one `low` and one `high` per dimension. */
typedef struct tsr_box_set {
  uint32_t dimensions;
  tsr_buffer ends; /* of uint64_t: for each box, low and high of each dimension */
} tsr_box_set;

static inline uint64_t tsr__box_set_count(const tsr_box_set *set) {
  return set->ends.size / (2 * sizeof(uint64_t) * set->dimensions);
}

/* Adds those parts of a box that the set does not contain yet, and joins boxes whose union is a box. After an error the
 * set must not be used any more. */
int tsr__box_set_add(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* Removes a box's cells from the set. Returns 1 if the set had any of them, else 0. After an error the set must not be
 * used any more. */
int tsr__box_set_cut(tsr_box_set *set, const uint64_t *low, const uint64_t *high, tsr_error *error);

/* Returns the number of cells in all boxes, saturated at UINT64_MAX. */
uint64_t tsr__box_set_cells(const tsr_box_set *set);

/* ---- order.c: tile numbers and Hilbert codes, for the global order of sparse cells (format.md, "Orders") ---- */

/* Returns the number of the space tile that contains `value` on this dimension: (value - low) / extent, truncated,
 * computed in the dimension's own type (FLOAT32 in float). */
uint64_t tsr__tile_number(const tsr_field *dimension, const void *value);

typedef struct tsr_point_column { /* the coordinates of a tile in one dimension, and the one that is looked for */
  uint32_t dimension;
  const uint8_t *values;
  const uint64_t *offsets; /* strings; else NULL */
  const void *sought;
  uint64_t sought_size; /* strings */
} tsr_point_column;

/* Finds a cell of a tile by binary search in the global order of a row-major or column-major array. `columns`: those of
 * all dimensions in which the cells differ, in the order of the dimensions, at most TSR_JOINT_MAX. Sets *cell, below
 * `cells`, and returns true; false if there is none where it belongs, so that a tile whose cells are in another order
 * must be searched whole. */
bool tsr__global_order_find(const tsr_schema *schema, const tsr_point_column *columns, uint32_t count, uint64_t cells,
                            uint32_t *cell);

/* Returns the Hilbert code of a cell. values[d] is the cell's value in dimension d, sizes[d] its size in bytes if it is
 * a string; `sizes` may be NULL if no dimension is of strings. Each dimension contributes floor(63 / dimensions)
 * bits. */
uint64_t tsr__hilbert_code(const tsr_schema *schema, const void *const *values, const uint64_t *sizes);

/* Sets the Hilbert codes of `count` cells of a schema without string dimensions. values[d] are the values of all cells
 * in dimension d. */
void tsr__hilbert_codes(const tsr_schema *schema, const void *const *values, uint64_t count, uint64_t *codes);

#endif
