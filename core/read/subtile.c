/* subtile.c: what is wanted of a space tile, in pieces: products of spans on each axis, small enough that a selection, a
 * map of owners and columns of coordinates can be made of them.
 *
 * A tile may have 2^32 - 1 cells. A piece has at most as many wanted cells as are asked for, and from its first to its last
 * cell it is no longer than TSR_SUBTILE_REACH, since columns of coordinates are indexed as the tile's cells are.
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

/* What a side wants of the tile that begins at axis->base. */
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

/* How far the fastest axes go into one piece. */
static void choose_split(tsr_subtiles *subtiles, uint64_t most) {
  uint64_t cells = 1, reach = 0;
  for (uint32_t i = subtiles->subtile.dimensions; i-- > 0;) {
    const tsr_axis *axis = &subtiles->whole[i];
    const uint64_t far = subtile_width(axis) * axis->stride; /* less than the tile's cells */
    if (axis->count <= most / cells && (far < TSR_SUBTILE_REACH - reach || axis->count == 1)) {
      cells *= axis->count;
      reach += far;
      continue;
    }
    subtiles->split = i;
    subtiles->rows_max = TSR_MAX(1, most / cells);
    subtiles->width_max = (TSR_SUBTILE_REACH - 1 - reach) / axis->stride;
    return;
  }
  subtiles->split = 0; /* all in one */
  subtiles->rows_max = subtiles->width_max = UINT64_MAX;
}

int tsr__subtiles_init(const tsr_grid *grid, const tsr_dimension_selection *selections, const uint64_t *tile,
                       const uint64_t *first, uint64_t most, tsr_arena *arena, tsr_subtiles *subtiles,
                       tsr_error *error) {
  const uint32_t n = grid->dimensions;
  tsr_span *memory;
  *subtiles = (tsr_subtiles){.subtile = {.dimensions = n}};
  TSR_TRY(TSR_ARENA_ARRAY(arena, 2 * n, &subtiles->whole, error));
  subtiles->subtile.axes = subtiles->whole + n;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 4 * n, &subtiles->subtile.values, error));
  subtiles->subtile.at = subtiles->subtile.values + n;
  subtiles->span_at = subtiles->subtile.at + n;
  subtiles->value = subtiles->span_at + n;
  uint64_t stride = 1;
  for (uint32_t i = n; i-- > 0;) {
    const uint32_t d = grid->col_major_cells ? n - 1 - i : i;
    tsr_axis *axis = &subtiles->whole[i];
    *axis = (tsr_axis){.dimension = d, .extent = grid->extent[d], .stride = stride};
    axis->base = tile[d] * grid->extent[d];
    TSR_TRY(make_axis(grid, &selections[d], first[d], arena, axis, error));
    stride *= grid->extent[d];
  }
  choose_split(subtiles, most);
  for (uint32_t i = 0; i < n; i++) {
    tsr_axis *axis = &subtiles->subtile.axes[i];
    const uint64_t spans = i <= subtiles->split ? subtiles->whole[i].span_count : 0;
    *axis = subtiles->whole[i];
    if (spans == 0) continue;
    TSR_TRY(TSR_ARENA_RAW(arena, spans, &memory, error)); /* of their own, since they change */
    axis->spans = memory;
  }
  tsr__subtiles_rewind(subtiles);
  return TSR_OK;
}

void tsr__subtiles_rewind(tsr_subtiles *subtiles) {
  subtiles->started = false;
  for (uint32_t i = 0; i <= subtiles->split; i++) {
    subtiles->span_at[i] = 0;
    subtiles->value[i] = subtiles->whole[i].spans[0].low;
  }
}

/* Steps axis i to the value after `value`; false, and back at the first one, where there is none. */
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

/* Fills the split axis of the piece from where it stands, and steps behind what it took. */
static bool subtile_take_rows(tsr_subtiles *subtiles) {
  const uint32_t k = subtiles->split;
  const tsr_axis *whole = &subtiles->whole[k];
  tsr_axis *axis = &subtiles->subtile.axes[k];
  uint64_t span = subtiles->span_at[k], from = subtiles->value[k], left = subtiles->rows_max;
  const uint64_t last = tsr__add_sat(from, subtiles->width_max);
  axis->span_count = 0;
  for (; span < whole->span_count && left > 0; span++) {
    const uint64_t low = TSR_MAX(from, whole->spans[span].low), end = whole->spans[span].high;
    if (low > last) break;
    const uint64_t high = TSR_MIN(TSR_MIN(end, last), tsr__add_sat(low, left - 1));
    axis->spans[axis->span_count++] = (tsr_span){low, high};
    left -= high - low + 1;
    subtiles->span_at[k] = span;
    subtiles->value[k] = high;
    if (high < end) break;
  }
  finish_axis(axis);
  return subtile_step(whole, &subtiles->span_at[k], &subtiles->value[k]);
}

bool tsr__subtiles_next(tsr_subtiles *subtiles) {
  tsr_subtile *subtile = &subtiles->subtile;
  const uint32_t k = subtiles->split;
  if (subtiles->started && subtiles->span_at[k] == 0 && subtiles->value[k] == subtiles->whole[k].spans[0].low) {
    uint32_t i = k; /* the split axis has come round */
    while (i > 0 && !subtile_step(&subtiles->whole[i - 1], &subtiles->span_at[i - 1], &subtiles->value[i - 1])) i--;
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

/* ---- Walking a piece -------------------------------------------------------------------------------------------- */

/* The axis along which runs lie: those behind it are wanted whole. */
static uint32_t run_axis(const tsr_subtile *subtile) {
  uint32_t i = subtile->dimensions - 1;
  while (i > 0 && subtile->axes[i].count == subtile->axes[i].extent) i--;
  return i;
}

bool tsr__subtile_is_contiguous(const tsr_subtile *subtile) { return subtile->cells == subtile->reach; }

/* Rows: combinations of the values of the first `outer` axes. row_start gives the index at value 0 of the other axes,
 * modulo 2^64. */
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

uint64_t tsr__subtile_own(const tsr_subtile *subtile, const uint64_t *low, const uint64_t *high, uint32_t owner,
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
    const uint64_t value = ordinals[axis->dimension] - axis->base; /* a lower one wraps and is in no span */
    uint64_t rank = 0, s = 0;
    for (; s < axis->span_count && axis->spans[s].high < value; s++)
      rank += axis->spans[s].high - axis->spans[s].low + 1;
    if (s == axis->span_count || axis->spans[s].low > value) return -1;
    position = position * axis->count + rank + (value - axis->spans[s].low);
  }
  return (int64_t)position;
}

/* ---- Values of its cells ---------------------------------------------------------------------------------------- */

/* Along the fastest axis values rise by one, on the others a row has one value. */
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
