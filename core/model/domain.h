/* domain.h: ranges, extents, dense geometry in ordinals. */
#ifndef TSR_DOMAIN_H
#define TSR_DOMAIN_H

#include "base/memory.h"

#define TSR_MAX_DIMENSIONS 1024 /* more is refused when a schema is decoded */

/* One dimension's side of a query: sorted, disjoint, closed. Fixed-size dimensions: keys; strings: bytes, where high ==
 * NULL is open. */
typedef struct tsr_span {
  uint64_t low, high;
} tsr_span;

typedef struct tsr_text_span {
  const uint8_t *low, *high;
  uint64_t low_size, high_size;
  bool high_open, high_exclusive;
} tsr_text_span;

typedef struct tsr_spans {
  bool text; /* which of the two */
  bool all; /* the whole dimension, NaNs with it */
  bool floats; /* keys of floats */
  bool nans; /* NaNs, and nothing else: count is 0 then */
  uint64_t count; /* 0 and not all: nothing */
  tsr_span *spans;
  tsr_text_span *texts; /* low exclusive is written as low + "\0" */
} tsr_spans;

/* Normalises public ranges of a field: sorts, merges, makes bounds closed. Allocates from `arena` (strings are copied).
 */
int tsr__spans_make(const tsr_field *field, const tsr_ranges *ranges, tsr_arena *arena, tsr_spans *spans,
                    tsr_error *error);

/* What of the spans of a fixed-size dimension lies in low..high, in keys; NaNs are left out. Of strings: in low (NULL: no
 * bound) to high, the bounds themselves too unless they are exclusive. The result may borrow from all arguments. */
int tsr__spans_clip(const tsr_field *field, const tsr_spans *spans, uint64_t low, uint64_t high, tsr_arena *arena,
                    tsr_spans *out, tsr_error *error);
int tsr__spans_clip_text(const tsr_field *field, const tsr_spans *spans, const tsr_range *range, tsr_arena *arena,
                         tsr_spans *out, tsr_error *error);

typedef enum tsr_relation {
  TSR_OUTSIDE,
  TSR_OVERLAP,
  TSR_INSIDE
} tsr_relation; /* INSIDE: all of [low, high] lies in one span. A box of floats may hide NaNs, which no span holds, so
                   it is INSIDE only where all are; one with a NaN or low > high as a bound says nothing: OVERLAP */

tsr_relation tsr__spans_relate(const tsr_spans *spans, uint64_t low, uint64_t high);
tsr_relation tsr__spans_relate_text(const tsr_spans *spans, const uint8_t *low, uint64_t low_size, const uint8_t *high,
                                    uint64_t high_size);
bool tsr__spans_contain_text(const tsr_spans *spans, const uint8_t *value, uint64_t size);

/* Copies selection[0..count), or 0..count-1 where it is NULL; returns count. */
uint64_t tsr__select_all(const uint32_t *selection, uint64_t count, uint32_t *out);

/* Keeps of selection[0..count) those cells whose value lies in the spans; returns how many. Typed loops on the values
 * as they stand in a tile. selection == NULL with `identity` cells: all of 0..count-1 are looked at, and written to
 * out. */
uint64_t tsr__spans_select(const tsr_spans *spans, tsr_datatype datatype, const void *values, const uint32_t *selection,
                           uint64_t count, uint32_t *out);
uint64_t tsr__spans_select_text(const tsr_spans *spans, const uint8_t *values, const uint64_t *offsets,
                                const uint32_t *selection, uint64_t count, uint32_t *out);

/* The geometry of a dense array: everything in ordinals. Allocated in the schema's user's arena. */
typedef struct tsr_grid {
  uint32_t dimensions;
  bool col_major_cells, col_major_tiles;
  uint64_t *last; /* the domain is 0..last in each dimension */
  uint64_t *extent; /* cells of a tile side; the last tile of a side may overhang the domain */
  uint64_t *low_key; /* order key of ordinal 0: key = low_key + ordinal for all integer and time types */
  uint64_t tile_cells; /* product of extents; less than 2^32 or the schema is refused for reading */
} tsr_grid;

int tsr__grid_make(const tsr_schema *schema, tsr_arena *arena, tsr_grid *grid, tsr_error *error);

/* The dimension that is number k of the order of tiles, the slowest first. */
static inline uint32_t tsr__grid_slowest(const tsr_grid *grid, uint32_t k) {
  return grid->col_major_tiles ? grid->dimensions - 1 - k : k;
}

/* The first and the last ordinal of a tile on a dimension; the domain may end before the tile does. */
static inline uint64_t tsr__grid_start(const tsr_grid *grid, const uint64_t *tile, uint32_t d) {
  return tile[d] * grid->extent[d];
}
static inline uint64_t tsr__grid_end(const tsr_grid *grid, const uint64_t *tile, uint32_t d) {
  const uint64_t start = tile[d] * grid->extent[d];
  return grid->last[d] - start < grid->extent[d] ? grid->last[d] : start + grid->extent[d] - 1;
}

/* Where a cell at ordinals o stands within its tile, in cell order. */
uint64_t tsr__grid_cell(const tsr_grid *grid, const uint64_t *ordinals);

#endif
