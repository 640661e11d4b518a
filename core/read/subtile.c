/* subtile.c: divides the selected cells of a space tile into subtiles: products of spans, one set of spans on each
 * axis.
 *
 * A tile may have 2^32 - 1 cells. A subtile has a bounded number of selected cells, so that its selection and its map
 * of owners are small. From its first to its last cell it is no longer than TSR_SUBTILE_REACH, since columns of
 * coordinates are indexed by the distance from the first cell.
 *
 * The division: one axis is split. On the faster axes a subtile has all selected values, on the slower axes one value.
 * A row is a combination of values on all axes but the fastest ones; its cells are found without arithmetic per cell.
 */
#include "read/subtile.h"

#include "base/arithmetic.h"
#include "read/plan.h"

/* ---- Splitting a tile ------------------------------------------------------------------------------------------- */

static void finish_axis(tsr_axis *axis) {
  axis->count = 0;
  for (uint64_t i = 0; i < axis->span_count; i++) axis->count += axis->spans[i].high - axis->spans[i].low + 1;
}

static uint64_t subtile_width(const tsr_axis *axis) {
  return axis->spans[axis->span_count - 1].high - axis->spans[0].low;
}

/* Sets the axis to what a selection has of the tile that begins at axis->base. `first` is its first span that meets the
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

/* Chooses the axis to be split: the axes that are faster fit into one subtile with all of their selected values. */
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

/* Steps to the next selected value of an axis. After the last one, returns to the first one: false. */
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
    uint32_t i = k; /* the split axis has returned to its first value: step the slower ones */
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
  subtile->reach = 1;
  for (uint32_t i = 0; i < subtile->dimensions; i++) {
    const tsr_axis *axis = &subtile->axes[i];
    subtile->cells *= axis->count;
    subtile->origin += axis->spans[0].low * axis->stride;
    subtile->reach += subtile_width(axis) * axis->stride;
  }
  return true;
}

/* ---- Walking the rows of a subtile ------------------------------------------------------------------------------- */

/* Returns the axis along which consecutive cells lie: on all faster axes every value of the tile is selected. */
static uint32_t run_axis(const tsr_subtile *subtile) {
  uint32_t i = subtile->dimensions - 1;
  while (i > 0 && subtile->axes[i].count == subtile->axes[i].extent) i--;
  return i;
}

bool tsr__subtile_is_contiguous(const tsr_subtile *subtile) { return subtile->cells == subtile->reach; }

/* Steps to the first row: a row is a combination of values on the first `outer` axes. Returns the index that the row
 * would have at value 0 of the other axes, modulo 2^64. */
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
