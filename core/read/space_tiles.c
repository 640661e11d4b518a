/* space_tiles.c: visits the space tiles in which a dense request selects cells, and cuts each into subtiles.
 *
 * The walk is an odometer of tile coordinates, in tile order. The fragments whose boxes meet the current tile are known
 * from lists that are narrowed dimension by dimension: when a digit of the odometer turns, only the lists after it are
 * rebuilt.
 *
 * There may be 10^10 tiles that no fragment meets, too many to visit. If the request excludes cells that were never
 * written, the walk jumps from one tile that a written box meets (plan.c) to the next. If such cells can be taken at
 * once, the tiles between two written boxes are offered as boxes: gaps.
 *
 * Invariants: k numbers the dimensions in tile order, 0 being the slowest. lists[k] has the boxes that meet the tile in
 * the dimensions before k. first[d] is the first span of the selection that meets the tile in dimension d.
 *
 * Sections: the walk; gaps; splitting a tile into subtiles; the rows of a subtile; coordinates of its cells.
 */
#include "read/reader.h"

#include "base/arithmetic.h"

static int open_lists(uint64_t count, uint32_t dimensions, tsr_arena *arena, uint32_t ***lists, uint32_t **counts,
                      tsr_error *error) {
  TSR_TRY(TSR_ARENA_ARRAY(arena, dimensions + 1, counts, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, dimensions + 1, lists, error));
  for (uint32_t k = 0; k <= dimensions; k++) { TSR_TRY(TSR_ARENA_RAW(arena, count, &(*lists)[k], error)); }
  for (uint32_t i = 0; i < count; i++) (*lists)[0][i] = i;
  (*counts)[0] = (uint32_t)count;
  return TSR_OK;
}

/* Makes list k + 1 from list k: keeps the boxes, and written boxes, that meet the current tile in dimension k. */
static void walk_narrow(tsr_walk *walk, uint32_t k) {
  const tsr_plan *plan = walk->plan;
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const uint64_t low = tsr__grid_start(walk->grid, walk->at, d), high = tsr__grid_end(walk->grid, walk->at, d);
  uint32_t n = 0;
  for (uint32_t i = 0; i < walk->list_counts[k]; i++) {
    const uint32_t box = walk->lists[k][i];
    if (plan->boxes[box].low[d] <= high && plan->boxes[box].high[d] >= low) walk->lists[k + 1][n++] = box;
  }
  walk->list_counts[k + 1] = n;
  if (!walk->written_boxes) return;
  n = 0;
  for (uint32_t i = 0; i < walk->written_box_counts[k]; i++) {
    const uint32_t written = walk->written_boxes[k][i];
    if (plan->written_boxes[written].low[d] <= high && plan->written_boxes[written].high[d] >= low)
      walk->written_boxes[k + 1][n++] = written;
  }
  walk->written_box_counts[k + 1] = n;
}

/* Returns the first ordinal of dimension k, from `from` on, that lies in a written box of list k; UINT64_MAX if none
 * does. */
static uint64_t next_covered(const tsr_walk *walk, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  uint64_t next = UINT64_MAX;
  for (uint32_t i = 0; i < walk->written_box_counts[k]; i++) {
    const tsr_written_box *written = &walk->plan->written_boxes[walk->written_boxes[k][i]];
    if (written->high[d] >= from) next = TSR_MIN(next, TSR_MAX(written->low[d], from));
  }
  return next;
}

/* Moves dimension k to the first tile, from the ordinal `from` on, in which the request selects values, and which a
 * written box meets if the walk skips gaps. Returns false if there is none. */
static bool seek(tsr_walk *walk, uint32_t k, uint64_t from) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const tsr_dimension_selection *selected = &walk->plan->selections[d];
  const uint64_t extent = walk->grid->extent[d];
  for (;;) {
    while (walk->first[d] < selected->count && selected->spans[walk->first[d]].high < from) walk->first[d]++;
    if (walk->first[d] == selected->count) return false;
    walk->at[d] = TSR_MAX(selected->spans[walk->first[d]].low, from) / extent;
    if (walk->gaps) return true;
    const uint64_t covered_at = next_covered(walk, k, walk->at[d] * extent);
    if (covered_at == UINT64_MAX) return false;
    if (covered_at / extent == walk->at[d]) return true;
    from = covered_at / extent * extent;
  }
}

/* With `begin`, steps to the first tile that has the current coordinates in the dimensions before k; without it, to the
 * first tile after all of those. */
static void walk_step(tsr_walk *walk, uint32_t k, bool begin) {
  while (!begin || k < walk->grid->dimensions) {
    if (begin) {
      walk->first[tsr__grid_slowest(walk->grid, k)] = 0;
      begin = seek(walk, k, 0);
      if (begin) walk_narrow(walk, k++);
    } else if (k > 0) {
      const uint32_t d = tsr__grid_slowest(walk->grid, k - 1);
      const uint64_t end = tsr__grid_end(walk->grid, walk->at, d);
      begin = end < walk->grid->last[d] && seek(walk, k - 1, end + 1);
      if (begin) walk_narrow(walk, k - 1);
      else k--;
    } else {
      walk->ended = true;
      return;
    }
  }
}

int tsr__walk_open(const tsr_plan *plan, const tsr_grid *grid, bool gaps, bool gaps_offered, tsr_arena *arena,
                   tsr_walk *walk, tsr_error *error) {
  *walk = (tsr_walk){.plan = plan, .grid = grid, .gaps = gaps};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * grid->dimensions, &walk->at, error));
  walk->first = walk->at + grid->dimensions;
  TSR_TRY(open_lists(plan->box_count, grid->dimensions, arena, &walk->lists, &walk->list_counts, error));
  if (!gaps || gaps_offered)
    TSR_TRY(open_lists(plan->written_box_count, grid->dimensions, arena, &walk->written_boxes,
                       &walk->written_box_counts, error));
  walk_step(walk, 0, true);
  return TSR_OK;
}

void tsr__walk_next(tsr_walk *walk) { walk_step(walk, walk->grid->dimensions, false); }

/* ---- Gaps ------------------------------------------------------------------------------------------------------- */

/* Finds the gap's range in dimension k: the request's values from the current tile up to the last tile before the next
 * written box. Returns false if they do not form one range. */
static bool find_gap(const tsr_walk *walk, uint32_t k, uint64_t *low, uint64_t *high) {
  const uint32_t d = tsr__grid_slowest(walk->grid, k);
  const tsr_dimension_selection *selected = &walk->plan->selections[d];
  const uint64_t extent = walk->grid->extent[d], start = tsr__grid_start(walk->grid, walk->at, d),
                 covered_at = next_covered(walk, k, start);
  const tsr_span *span = &selected->spans[walk->first[d]],
                 *next = walk->first[d] + 1 < selected->count ? span + 1 : NULL;
  *low = TSR_MAX(span->low, start);
  *high = covered_at == UINT64_MAX ? span->high : TSR_MIN(span->high, covered_at / extent * extent - 1);
  if (next && next->low / extent == *high / extent) { /* the next span selects more of the last tile */
    if (*high / extent == *low / extent) return false;
    *high = *high / extent * extent - 1;
  }
  return true;
}

bool tsr__walk_gap(tsr_walk *walk, uint64_t *low, uint64_t *high, uint64_t *cells) {
  const uint32_t n = walk->grid->dimensions;
  uint32_t k = 0;
  while (k < n && walk->written_box_counts[k + 1] > 0) k++;
  if (k == n) return false;
  *cells = 1;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t d = tsr__grid_slowest(walk->grid, i);
    const tsr_dimension_selection *selected = &walk->plan->selections[d];
    const tsr_span *span = &selected->spans[walk->first[d]];
    const uint64_t end = tsr__grid_end(walk->grid, walk->at, d);
    if (i == k) {
      if (!find_gap(walk, k, &low[d], &high[d])) return false;
    } else if (i < k) {
      if (walk->first[d] + 1 < selected->count && span[1].low <= end) return false;
      low[d] = TSR_MAX(span->low, tsr__grid_start(walk->grid, walk->at, d));
      high[d] = TSR_MIN(span->high, end);
    } else {
      if (selected->count > 1 || walk->at[d] != span->low / walk->grid->extent[d])
        return false; /* the walk has already passed some of these tiles */
      low[d] = span->low;
      high[d] = span->high;
    }
    *cells = tsr__mul_sat(*cells, tsr__add_sat(high[d] - low[d], 1));
  }
  walk->gap_at = k;
  walk->gap_end = high[tsr__grid_slowest(walk->grid, k)];
  return true;
}

void tsr__walk_pass(tsr_walk *walk) {
  const uint32_t d = tsr__grid_slowest(walk->grid, walk->gap_at);
  walk->at[d] = walk->gap_end / walk->grid->extent[d];
  walk_step(walk, walk->gap_at + 1, false);
}

/* ---- Splitting a tile into subtiles ----------------------------------------------------------------------------- */
/* A subtile is a product of spans, one set of spans per axis. A tile may have 2^32 - 1 cells; a subtile has a bounded
 * number of selected cells, so that its selection and its map of owners stay small. From its first to its last cell it
 * is no longer than TSR_SUBTILE_REACH, since columns of coordinates are indexed by the distance from the first cell.
 *
 * One axis is split: on the faster axes a subtile has all selected values, on the slower axes one value. A row is a
 * combination of values on all axes but the fastest ones; its cells are found without arithmetic per cell.
 */

static void finish_axis(tsr_axis *axis) {
  axis->count = 0;
  for (uint64_t i = 0; i < axis->span_count; i++) axis->count += axis->spans[i].high - axis->spans[i].low + 1;
}

static uint64_t subtile_width(const tsr_axis *axis) {
  return axis->spans[axis->span_count - 1].high - axis->spans[0].low;
}

/* Sets the axis to the selection within the tile that begins at axis->base. `first` is the first span that meets the
 * tile. */
static int make_axis(const tsr_grid *grid, const tsr_dimension_selection *selected, uint64_t first, tsr_arena *arena,
                     tsr_axis *axis, tsr_error *error) {
  const uint64_t last = TSR_MIN(tsr__add_sat(axis->base, axis->extent - 1), grid->last[axis->dimension]);
  uint64_t end = first;
  while (end < selected->count && selected->spans[end].low <= last) end++;
  TSR_TRY(TSR_ARENA_RAW(arena, end - first, &axis->spans, error));
  axis->span_count = end - first;
  for (uint64_t i = first; i < end; i++)
    axis->spans[i - first] = (tsr_span){TSR_MAX(selected->spans[i].low, axis->base) - axis->base,
                                        TSR_MIN(selected->spans[i].high, last) - axis->base};
  finish_axis(axis);
  return TSR_OK;
}

/* Chooses the axis to split: a subtile can hold all selected values of the faster axes. */
static void choose_split(tsr_subtiles *subtiles, uint64_t cells_max) {
  uint64_t cells = 1, reach = 0;
  for (uint32_t i = subtiles->subtile.dimensions; i-- > 0;) {
    const tsr_axis *axis = &subtiles->tile_axes[i];
    const uint64_t width = subtile_width(axis) * axis->stride; /* less than the tile's cells */
    if (axis->count <= cells_max / cells && (width < TSR_SUBTILE_REACH - reach || axis->count == 1)) {
      cells *= axis->count;
      reach += width;
      continue;
    }
    subtiles->split = i;
    subtiles->rows_max = TSR_MAX(1, cells_max / cells);
    subtiles->width_max = (TSR_SUBTILE_REACH - 1 - reach) / axis->stride;
    return;
  }
  subtiles->split = 0; /* the tile is one subtile */
  subtiles->rows_max = subtiles->width_max = UINT64_MAX;
}

int tsr__subtiles_init(const tsr_grid *grid, const tsr_dimension_selection *selections, const uint64_t *tile,
                       const uint64_t *first, uint64_t cells_max, tsr_arena *arena, tsr_subtiles *subtiles,
                       tsr_error *error) {
  const uint32_t n = grid->dimensions;
  tsr_span *memory;
  *subtiles = (tsr_subtiles){.subtile = {.dimensions = n}};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * n, &subtiles->tile_axes, error));
  subtiles->subtile.axes = subtiles->tile_axes + n;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 4 * n, &subtiles->subtile.values, error));
  subtiles->subtile.at = subtiles->subtile.values + n;
  subtiles->span_at = subtiles->subtile.at + n;
  subtiles->value = subtiles->span_at + n;
  uint64_t stride = 1;
  for (uint32_t i = n; i-- > 0;) {
    const uint32_t d = grid->col_major_cells ? n - 1 - i : i;
    tsr_axis *axis = &subtiles->tile_axes[i];
    *axis = (tsr_axis){.dimension = d, .extent = grid->extent[d], .stride = stride};
    axis->base = tile[d] * grid->extent[d];
    TSR_TRY(make_axis(grid, &selections[d], first[d], arena, axis, error));
    stride *= grid->extent[d];
  }
  choose_split(subtiles, cells_max);
  for (uint32_t i = 0; i < n; i++) {
    tsr_axis *axis = &subtiles->subtile.axes[i];
    const uint64_t spans = i <= subtiles->split ? subtiles->tile_axes[i].span_count : 0;
    *axis = subtiles->tile_axes[i];
    if (spans == 0) continue;
    /* the subtile needs its own spans on these axes, since they change from subtile to subtile */
    TSR_TRY(TSR_ARENA_RAW(arena, spans, &memory, error));
    axis->spans = memory;
  }
  subtiles->started = false;
  for (uint32_t i = 0; i <= subtiles->split; i++) {
    subtiles->span_at[i] = 0;
    subtiles->value[i] = subtiles->tile_axes[i].spans[0].low;
  }
  return TSR_OK;
}

/* Steps to the next selected value of an axis. After the last value, wraps to the first one and returns false. */
static bool subtile_step(const tsr_axis *axis, uint64_t *span, uint64_t *value) {
  if (*value < axis->spans[*span].high) {
    ++*value;
    return true;
  }
  if (*span + 1 < axis->span_count) {
    *value = axis->spans[++*span].low;
    return true;
  }
  *span = 0;
  *value = axis->spans[0].low;
  return false;
}

/* Sets the spans of the split axis for the next subtile, and steps to the first value after them. Returns false if that
 * was the last value. */
static bool subtile_take_rows(tsr_subtiles *subtiles) {
  const uint32_t k = subtiles->split;
  const tsr_axis *tile_axis = &subtiles->tile_axes[k];
  tsr_axis *axis = &subtiles->subtile.axes[k];
  uint64_t span = subtiles->span_at[k], from = subtiles->value[k], left = subtiles->rows_max;
  const uint64_t last = tsr__add_sat(from, subtiles->width_max);
  axis->span_count = 0;
  for (; span < tile_axis->span_count && left > 0; span++) {
    const uint64_t low = TSR_MAX(from, tile_axis->spans[span].low), end = tile_axis->spans[span].high;
    if (low > last) break;
    const uint64_t high = TSR_MIN(TSR_MIN(end, last), tsr__add_sat(low, left - 1));
    axis->spans[axis->span_count++] = (tsr_span){low, high};
    left -= high - low + 1;
    subtiles->span_at[k] = span;
    subtiles->value[k] = high;
    if (high < end) break;
  }
  finish_axis(axis);
  return subtile_step(tile_axis, &subtiles->span_at[k], &subtiles->value[k]);
}

bool tsr__subtiles_next(tsr_subtiles *subtiles) {
  tsr_subtile *subtile = &subtiles->subtile;
  const uint32_t k = subtiles->split;
  if (subtiles->started && subtiles->span_at[k] == 0 && subtiles->value[k] == subtiles->tile_axes[k].spans[0].low) {
    uint32_t i = k; /* the split axis has wrapped to its first value: step the slower ones */
    while (i > 0 && !subtile_step(&subtiles->tile_axes[i - 1], &subtiles->span_at[i - 1], &subtiles->value[i - 1])) i--;
    if (i == 0) return false;
  }
  subtiles->started = true;
  for (uint32_t i = 0; i < k; i++) {
    subtile->axes[i].spans[0] = (tsr_span){subtiles->value[i], subtiles->value[i]};
    subtile->axes[i].span_count = subtile->axes[i].count = 1;
  }
  subtile_take_rows(subtiles);
  subtile->cells = 1;
  subtile->origin = 0;
  subtile->index_count = 1;
  for (uint32_t i = 0; i < subtile->dimensions; i++) {
    const tsr_axis *axis = &subtile->axes[i];
    subtile->cells *= axis->count;
    subtile->origin += axis->spans[0].low * axis->stride;
    subtile->index_count += subtile_width(axis) * axis->stride;
  }
  return true;
}

/* ---- Walking the rows of a subtile ------------------------------------------------------------------------------- */

/* Returns the axis along which runs of adjacent cells extend: on all faster axes every value of the tile is
 * selected. */
static uint32_t run_axis(const tsr_subtile *subtile) {
  uint32_t i = subtile->dimensions - 1;
  while (i > 0 && subtile->axes[i].count == subtile->axes[i].extent) i--;
  return i;
}

bool tsr__subtile_is_contiguous(const tsr_subtile *subtile) { return subtile->cells == subtile->index_count; }

/* Steps to the first row: a row is a combination of values on the first `outer` axes. Returns the index that the row
 * would have at value 0 on the other axes, modulo 2^64. */
static uint64_t rows_begin(const tsr_subtile *subtile, uint32_t outer) {
  uint64_t start = 0 - subtile->origin;
  for (uint32_t i = 0; i < outer; i++) {
    subtile->at[i] = 0;
    subtile->values[i] = subtile->axes[i].spans[0].low;
    start += subtile->values[i] * subtile->axes[i].stride;
  }
  return start;
}

static bool rows_step(const tsr_subtile *subtile, uint32_t outer, uint64_t *start) {
  for (uint32_t i = outer; i-- > 0;) {
    const uint64_t before = subtile->values[i];
    const bool more = subtile_step(&subtile->axes[i], &subtile->at[i], &subtile->values[i]);
    *start += (subtile->values[i] - before) * subtile->axes[i].stride;
    if (more) return true;
  }
  return false;
}

void tsr__subtile_select(const tsr_subtile *subtile, uint32_t *cells) {
  const uint32_t outer = run_axis(subtile);
  const tsr_axis *axis = &subtile->axes[outer];
  uint64_t start = rows_begin(subtile, outer);
  do {
    for (uint64_t s = 0; s < axis->span_count; s++) {
      uint32_t at = (uint32_t)(start + axis->spans[s].low * axis->stride);
      const uint64_t n = (axis->spans[s].high - axis->spans[s].low + 1) * axis->stride;
      for (uint64_t i = 0; i < n; i++) cells[i] = at++;
      cells += n;
    }
  } while (rows_step(subtile, outer, &start));
}

uint64_t tsr__subtile_claim(const tsr_subtile *subtile, const uint64_t *low, const uint64_t *high, uint32_t owner,
                            uint32_t none, uint32_t *owners) {
  const uint32_t outer = subtile->dimensions - 1;
  const tsr_axis *axis = &subtile->axes[outer];
  uint64_t owned = 0, start = rows_begin(subtile, outer);
  do {
    bool inside = true;
    for (uint32_t i = 0; i < outer && inside; i++) {
      const uint64_t ordinal = subtile->axes[i].base + subtile->values[i];
      inside = ordinal >= low[subtile->axes[i].dimension] && ordinal <= high[subtile->axes[i].dimension];
    }
    const uint64_t from = low[axis->dimension], to = high[axis->dimension];
    for (uint64_t s = 0; s < axis->span_count; s++) {
      const uint64_t a = axis->base + axis->spans[s].low, b = axis->base + axis->spans[s].high;
      if (inside && from <= b && to >= a)
        for (uint64_t p = TSR_MAX(from, a) - a, end = TSR_MIN(to, b) - a; p <= end; p++)
          if (owners[p] == none) {
            owners[p] = owner;
            owned++;
          }
      owners += b - a + 1;
    }
  } while (rows_step(subtile, outer, &start));
  return owned;
}

int64_t tsr__subtile_find(const tsr_subtile *subtile, const uint64_t *ordinals) {
  uint64_t position = 0;
  for (uint32_t i = 0; i < subtile->dimensions; i++) {
    const tsr_axis *axis = &subtile->axes[i];
    const uint64_t value = ordinals[axis->dimension] - axis->base; /* wraps before the tile: in no span */
    uint64_t rank = 0, s = 0;
    for (; s < axis->span_count && axis->spans[s].high < value; s++)
      rank += axis->spans[s].high - axis->spans[s].low + 1;
    if (s == axis->span_count || axis->spans[s].low > value) return -1;
    position = position * axis->count + rank + (value - axis->spans[s].low);
  }
  return (int64_t)position;
}

/* ---- Coordinates of the cells ------------------------------------------------------------------------------------ */

/* Defines tsr__subtile_values for one type. Along the fastest axis values rise by one; on the others a row has one
 * value. */
#define DEFINE_VALUES(type)                                                                                            \
  static void values_##type(const tsr_subtile *subtile, uint32_t axis, type low, type *values) {                       \
    const uint32_t outer = subtile->dimensions - 1;                                                                    \
    const tsr_axis *fast = &subtile->axes[outer];                                                                      \
    const uint64_t base = subtile->axes[axis].base;                                                                    \
    uint64_t start = rows_begin(subtile, outer);                                                                       \
    do {                                                                                                               \
      for (uint64_t s = 0; s < fast->span_count; s++) {                                                                \
        const uint64_t n = fast->spans[s].high - fast->spans[s].low + 1;                                               \
        type *out = values + (start + fast->spans[s].low);                                                             \
        if (axis == outer) {                                                                                           \
          const type v = (type)(low + (type)(base + fast->spans[s].low));                                              \
          for (uint64_t i = 0; i < n; i++) out[i] = (type)(v + (type)i);                                               \
        } else {                                                                                                       \
          const type v = (type)(low + (type)(base + subtile->values[axis]));                                           \
          for (uint64_t i = 0; i < n; i++) out[i] = v;                                                                 \
        }                                                                                                              \
      }                                                                                                                \
    } while (rows_step(subtile, outer, &start));                                                                       \
  }
DEFINE_VALUES(uint8_t)
DEFINE_VALUES(uint16_t)
DEFINE_VALUES(uint32_t)
DEFINE_VALUES(uint64_t)

void tsr__subtile_values(const tsr_subtile *subtile, uint32_t axis, const uint8_t *low, uint64_t size, void *values) {
  switch (size) {
  case 1: values_uint8_t(subtile, axis, *low, values); break;
  case 2: values_uint16_t(subtile, axis, tsr__load16(low), values); break;
  case 4: values_uint32_t(subtile, axis, tsr__load32(low), values); break;
  default: values_uint64_t(subtile, axis, tsr__load64(low), values); break;
  }
}

void tsr__subtile_numbers(const tsr_subtile *subtile, const uint64_t *strides, int64_t base, int64_t *numbers) {
  const uint32_t outer = subtile->dimensions - 1;
  const tsr_axis *fast = &subtile->axes[outer];
  const uint64_t by = strides[fast->dimension];
  uint64_t start = rows_begin(subtile, outer);
  do {
    uint64_t row = (uint64_t)base;
    for (uint32_t i = 0; i < outer; i++)
      row += (subtile->axes[i].base + subtile->values[i]) * strides[subtile->axes[i].dimension];
    for (uint64_t s = 0; s < fast->span_count; s++) {
      uint64_t number = row + (fast->base + fast->spans[s].low) * by;
      for (uint64_t v = fast->spans[s].low; v <= fast->spans[s].high; v++, number += by)
        numbers[start + v] = (int64_t)number;
    }
  } while (rows_step(subtile, outer, &start));
}
