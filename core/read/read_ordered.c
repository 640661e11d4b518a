/* read_ordered.c: the rows of a request in an order of dimensions, whatever the order of its tiles and cells.
 *
 * Key ranges. The request is cut into key ranges along the first dimension of the order. An inner reader reads a key
 * range like any request; its rows are copied into a row block, sorted, and given out as one batch; then comes the next
 * key range. Key ranges begin small, since the caller may take few rows, and grow to what the budget allows, and to
 * whole space tiles.
 *
 * Too many rows. If a key range turns out to have too many rows, the rows that were read tell where it can be cut: it
 * is read again, up to one of their values. If a single value of the dimension has too many rows, the key range is cut
 * along the next dimension of the order: the next *level*. If the rows have a single value in all dimensions of the
 * order, any sequence of them is in order, and they are streamed: given out as the inner reader gives them. Rows and
 * the tiles that the inner reader has in memory share one budget; if it ends, key ranges are made smaller, too. So an
 * ordered read works in any budget in which the same tiles can be read without an order.
 *
 * Streams of dense arrays. In a dense array the cells of one value often come in order as they are, for example those
 * of one value of the slowest dimension. Then each value is streamed, and nothing is copied, as long as the cache keeps
 * the tiles until the next value needs them.
 *
 * Distinct rows. If one of equal rows is enough (in a sparse array), repeats are dropped as they come, and again when
 * the rows are sorted. All rows with the same values in the order's dimensions lie in one key range. If these are too
 * many rows, they are streamed like any others, and only the first one is taken.
 *
 * Terms. "Directed" keys are order keys, complemented if the order descends, so that they always ascend along the
 * order. NaNs lie in no span: they are a key range of their own, before all numbers. A column that is first read after
 * the key range was copied is added by reading the key range again: its rows come in the same sequence.
 */
#include "read/read_ordered.h"

#include <stdatomic.h>
#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/cache.h"
#include "array/snapshot.h"
#include "read/tile_starts.h"
#include "read/covers.h"
#include "read/row_block.h"
#include "read/reader.h"

#define ROWS_FIRST      4096u /* rows of the first key range, if the request has no limit */
#define ROWS_MIN        256u /* rows that the first key range of a sparse array is meant to have, at least */
#define ROWS_SPARE      16384u /* rows that a key range may always have, even if fewer were expected */
#define ROWS_MAX        (UINT64_C(1) << 20) /* rows of any key range, except for a dense array's row of space tiles */
#define TILES_MAX       (UINT64_C(1) << 22) /* cells of such a row of space tiles, at most */
#define ROWS_GROWTH     4u /* factor by which key ranges grow, and shrink if memory ends */
#define ROWS_FEW        64u /* a key range with less than this part of its target has few rows */
#define ROWS_FLOOR      256u /* if memory ends with so many rows, the tiles are too large, ... */
#define FLOOR_PART      64u /* ... provided that the rows take less than this part of the budget */
#define TEXT_GUESS      40u /* expected bytes of a variable value */
#define COVER_STEPS_MAX 64u /* steps from cover to cover for one key range */
#define STREAM_CELLS    256u /* cells of one value that are worth a start of the inner reader for a stream */

typedef struct level { /* a dimension of the order: what is left of it, and its present key range */
  uint32_t dimension;
  bool descending, text;
  /* what is left: */
  bool nans; /* NaNs are still to come */
  bool numbers; /* numbers, or strings, are still to come */
  uint64_t from; /* numbers: the first directed key; the last one is UINT64_MAX */
  tsr_buffer at; /* strings: the first one in the order's direction */
  bool at_set, at_exclusive; /* false: all strings are left; `at` itself is not left */
  /* the key range, which begins at `from` or `at`: */
  bool nan; /* it has the NaNs */
  bool single; /* it has one value, `end` or `end_text`, and is cut along the next level */
  uint64_t end; /* numbers: the last directed key, inclusive */
  tsr_buffer end_text; /* strings: the last one in the order's direction */
  bool end_set, end_exclusive; /* false: it reaches to the end; `end_text` itself is not in it */
  tsr_tile_starts starts; /* sparse: of the tiles that may hold the single values of the levels above */
} level;

typedef struct ordered_key_range { /* the present key range, and how large the next one should be */
  tsr_arena arena; /* memory of `spans` */
  tsr_spans *spans; /* by dimension */
  unsigned restarts; /* how often the present key range has been cut */
  uint64_t target, rows_max; /* rows that the next key range should have; that any key range may have */
  uint64_t overestimate; /* sparse: factor by which the tile starts predict more rows than come */
} ordered_key_range;

typedef struct ordered_rows { /* the sequence in which the block's rows are given out */
  tsr_buffer *keys; /* by level: uint64_t directed keys of the block's rows; none for strings */
  tsr_buffer order; /* uint32_t: rows of the block, sorted */
  tsr_buffer pairs; /* scratch of sorting */
  uint64_t at, count; /* in `order`: the next row to be given out; the number of rows */
} ordered_rows;

typedef struct ordered_stream { /* rows that come in order from the inner reader and are not sorted */
  bool active; /* rows are given out as the inner reader gives them */
  bool distinct_given; /* a distinct read has given out one row of the present stream, which is enough */
  uint64_t given; /* rows of the present stream so far */
} ordered_stream;

typedef struct ordered_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader, *inner; /* inner: owned; its budget lies within the reader's */
  uint32_t level_count, depth; /* depth: the level along which key ranges are cut now */
  level *levels; /* room for all dimensions */
  tsr_row_block block; /* the key range's rows, in the sequence in which they came */
  ordered_key_range key_range;
  ordered_rows rows;
  ordered_stream stream;
  tsr_buffer distinct_cells; /* scratch: the rows of a batch without repeats */
  bool cached; /* dense: the tiles that hold one value of the slowest dimension stay in the cache */
  bool given_unwritten; /* the rows of the present batch were never written */
} ordered_iterator;

static const tsr_schema *read_ordered_schema_of(const ordered_iterator *it) { return it->reader->snapshot->schema; }

static const tsr_field *read_ordered_field_of(const ordered_iterator *it, const level *v) {
  return &read_ordered_schema_of(it)->fields[v->dimension];
}

static uint64_t read_ordered_directed(const level *v, uint64_t key) { return v->descending ? ~key : key; }

static const uint64_t *as_u64(const tsr_buffer *buffer) { return (const uint64_t *)(const void *)buffer->data; }

static int set_text(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error) {
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, size + 1, error)); /* the bytes of an empty string must not be NULL, either */
  return tsr__buffer_append(buffer, bytes, size, error);
}

/* ---- Comparing rows of the block --------------------------------------------------------------------------------- */

static tsr_slice read_ordered_text_of(const ordered_iterator *it, const level *v, uint64_t row) {
  const tsr_row_block_column *c = &it->block.columns[v->dimension];
  const uint64_t *offsets = as_u64(&c->offsets);
  return (tsr_slice){c->values.data + offsets[row], offsets[row + 1] - offsets[row]};
}

static uint64_t prefix_key(const level *v,
                           tsr_slice text) { /* strings with equal keys may differ after their first bytes */
  return read_ordered_directed(v, tsr__text_prefix(text.bytes, text.size));
}

static int read_ordered_compare_text(const level *v, tsr_slice a, tsr_slice b) {
  const int c = tsr__bytes_compare(a.bytes, a.size, b.bytes, b.size);
  return v->descending ? -c : c;
}

static int read_ordered_compare_rows(const ordered_iterator *it, uint32_t from, uint64_t a, uint64_t b) {
  for (uint32_t k = from; k < it->level_count; k++) {
    const level *v = &it->levels[k];
    int c;
    if (v->text) {
      c = read_ordered_compare_text(v, read_ordered_text_of(it, v, a), read_ordered_text_of(it, v, b));
    } else {
      const uint64_t *keys = as_u64(&it->rows.keys[k]);
      c = keys[a] < keys[b] ? -1 : keys[a] > keys[b];
    }
    if (c) return c;
  }
  return 0;
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

static void begin_level(ordered_iterator *it, uint32_t k) {
  level *v = &it->levels[k];
  const tsr_field *field = read_ordered_field_of(it, v);
  v->text = field->values_per_cell == TSR_VARIABLE;
  v->nans = it->reader->plan.spans[v->dimension].all && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
  v->numbers = true;
  v->from = read_ordered_directed(v, v->descending ? tsr__key_max(field->datatype) : tsr__key_min(field->datatype));
  v->at_set = v->nan = v->single = false;
}

/* Steps past the present key range of a level. */
static int pass_key_range(level *v, tsr_error *error) {
  v->single = false;
  if (v->nan) {
    v->nan = v->nans = false;
  } else if (v->text) {
    v->numbers = v->end_set;
    if (v->end_set) TSR_TRY(set_text(&v->at, v->end_text.data, v->end_text.size, error));
    v->at_set = v->end_set;
    v->at_exclusive = !v->end_exclusive;
  } else if (v->end == UINT64_MAX) {
    v->numbers = false;
  } else {
    v->from = v->end + 1;
  }
  return TSR_OK;
}

/* Makes the spans of a level's key range in its dimension. */
static int read_ordered_clip(ordered_iterator *it, const level *v, tsr_spans *out, tsr_error *error) {
  const tsr_field *field = read_ordered_field_of(it, v);
  const tsr_spans *all = &it->reader->plan.spans[v->dimension];
  if (v->nan) {
    *out = (tsr_spans){.floats = true, .nans = true};
    return TSR_OK;
  }
  if (!v->text) {
    const uint64_t from = v->single ? v->end : v->from;
    const uint64_t low = v->descending ? ~v->end : from, high = v->descending ? ~from : v->end;
    return tsr__spans_clip(field, all, low, high, &it->key_range.arena, out, error);
  }
  tsr_range begin = {0}, range;
  if (v->single) {
    begin.low = v->end_text.data;
    begin.low_size = v->end_text.size;
  } else if (v->at_set) {
    begin.low = v->at.data;
    begin.low_size = v->at.size;
    begin.low_exclusive = v->at_exclusive;
  }
  if (v->end_set) {
    begin.high = v->end_text.data;
    begin.high_size = v->end_text.size;
    begin.high_exclusive = v->end_exclusive;
  }
  range = begin;
  if (v->descending)
    range = (tsr_range){.low = begin.high,
                        .low_size = begin.high_size,
                        .low_exclusive = begin.high_exclusive,
                        .high = begin.low,
                        .high_size = begin.low_size,
                        .high_exclusive = begin.low_exclusive};
  return tsr__spans_clip_text(field, all, &range, &it->key_range.arena, out, error);
}

/* Makes the spans of the present key range: the key ranges of the first `levels` levels, and all that the request
 * selects in the other dimensions. */
static int read_ordered_make_spans(ordered_iterator *it, uint32_t levels, tsr_error *error) {
  const uint32_t n = read_ordered_schema_of(it)->dimension_count;
  tsr__arena_reset(&it->key_range.arena);
  TSR_TRY(TSR_ARENA_ARRAY(&it->key_range.arena, n, &it->key_range.spans, error));
  memcpy(it->key_range.spans, it->reader->plan.spans, n * sizeof(tsr_spans));
  for (uint32_t k = 0; k < levels; k++)
    TSR_TRY(read_ordered_clip(it, &it->levels[k], &it->key_range.spans[it->levels[k].dimension], error));
  return TSR_OK;
}

/* ---- Key ranges of dense arrays ---------------------------------------------------------------------------------- */

/* Returns the number of selected cells that have one value of the present level, and of the levels above. */
static uint64_t cells_of_value(const ordered_iterator *it) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < read_ordered_schema_of(it)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= it->depth; k++) fixed |= it->levels[k].dimension == d;
    if (!fixed) cells = tsr__mul_sat(cells, tsr__dimension_selection_values(&it->reader->plan.selections[d]));
  }
  return cells;
}

/* Returns the rank of a dimension in the order of cells, 0 for the slowest, if the order of tiles is the same. */
static uint32_t read_ordered_place_of(const ordered_iterator *it, uint32_t d) {
  const tsr_grid *grid = &it->reader->snapshot->grid;
  return grid->col_major_cells ? grid->dimensions - 1 - d : d;
}

/* Returns true if, within single values of the levels before `from`, cells come in the order of the other levels
 * without sorting. The single values must be those of the slowest dimensions, and only the next slower dimension may
 * cross tiles. */
static bool comes_in_order(const ordered_iterator *it, uint32_t from) {
  const tsr_grid *grid = &it->reader->snapshot->grid;
  const tsr_plan *plan = &it->reader->plan;
  if (from == it->level_count) return true;
  if (!read_ordered_schema_of(it)->dense || grid->col_major_cells != grid->col_major_tiles || plan->box_count != 1 ||
      plan->boxes[0].sparse)
    return false;
  for (uint32_t k = 0; k < it->level_count; k++)
    if (k < from ? read_ordered_place_of(it, it->levels[k].dimension) >= from
                 : read_ordered_place_of(it, it->levels[k].dimension) != k || it->levels[k].descending)
      return false;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &plan->selections[d];
    const uint64_t low = selected->spans[0].low, high = selected->spans[selected->count - 1].high;
    if (low < plan->boxes[0].low[d] || high > plan->boxes[0].high[d]) return false;
    if (read_ordered_place_of(it, d) > from && low / grid->extent[d] != high / grid->extent[d]) return false;
  }
  return true;
}

/* Returns true if each value of the present level is better streamed by itself. */
static bool is_streamed(const ordered_iterator *it) {
  if (!it->cached || it->depth + 1 == read_ordered_schema_of(it)->dimension_count || cells_of_value(it) < STREAM_CELLS)
    return false;
  for (uint32_t k = 0; k <= it->depth; k++)
    if (read_ordered_place_of(it, it->levels[k].dimension) > it->depth) return false;
  return comes_in_order(it, it->depth + 1);
}

/* Returns true if the tiles that one value of the slowest dimension needs take at most half of the cache. */
static bool fits_cache(const ordered_iterator *it) {
  const tsr_schema *schema = read_ordered_schema_of(it);
  const tsr_array *array = it->reader->snapshot->array;
  const tsr_grid *grid = &it->reader->snapshot->grid;
  uint64_t bytes = 0;
  if (!schema->dense || array->uncached || grid->col_major_cells != grid->col_major_tiles) return false;
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++)
    bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  bytes = tsr__mul_sat(tsr__mul_sat(bytes, grid->tile_cells), TSR_MAX(1, it->reader->plan.box_count));
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &it->reader->plan.selections[d];
    const uint64_t tiles =
        selected->spans[selected->count - 1].high / grid->extent[d] - selected->spans[0].low / grid->extent[d];
    if (read_ordered_place_of(it, d) > 0) bytes = tsr__mul_sat(bytes, tiles + 1);
  }
  return bytes <= tsr__cache_limit(array->cache) / 2;
}

/* If the key range meets more than one space tile, shortens it so that it ends with a tile. */
static void end_with_tile(const ordered_iterator *it, level *v) {
  const tsr_grid *grid = &it->reader->snapshot->grid;
  const uint64_t base = grid->low_key[v->dimension], extent = grid->extent[v->dimension];
  const uint64_t a = read_ordered_directed(v, v->from) - base,
                 b = read_ordered_directed(v, v->end) - base; /* ordinals */
  if (!v->descending && b / extent > a / extent && (b + 1) % extent != 0)
    v->end = read_ordered_directed(v, base + b / extent * extent - 1);
  if (v->descending && a / extent > b / extent && b % extent != 0)
    v->end = read_ordered_directed(v, base + (b / extent + 1) * extent);
}

/* Makes a key range of the next `values` selected values from v->from on, rounded down to whole tiles if it meets more
 * than one. Returns false if none is left. */
static bool read_ordered_take_values(const ordered_iterator *it, level *v, uint64_t values) {
  const tsr_grid *grid = &it->reader->snapshot->grid;
  const tsr_dimension_selection *selected = &it->reader->plan.selections[v->dimension];
  const uint64_t base = grid->low_key[v->dimension];
  uint64_t first = 0, end = 0;
  bool any = false;
  for (uint64_t i = 0; i < selected->count && values > 0; i++) {
    const tsr_span *span = &selected->spans[v->descending ? selected->count - 1 - i : i];
    const uint64_t low = base + span->low, high = base + span->high; /* keys */
    uint64_t from = read_ordered_directed(v, v->descending ? high : low),
             to = read_ordered_directed(v, v->descending ? low : high);
    if (to < v->from) continue;
    from = TSR_MAX(from, v->from);
    if (!any) first = from;
    any = true;
    end = TSR_MIN(to, tsr__add_sat(from, values - 1));
    values -= end - from + 1;
  }
  if (!any) return false;
  v->from = first;
  v->end = end;
  end_with_tile(it, v);
  return true;
}

/* Returns true if a cover contains the single values of the levels above. */
static bool meets_single_values(const ordered_iterator *it, const tsr_cover *cover) {
  for (uint32_t k = 0; k < it->depth; k++) {
    const level *v = &it->levels[k];
    const uint64_t ordinal = read_ordered_directed(v, v->end) - it->reader->snapshot->grid.low_key[v->dimension];
    if (ordinal < cover->low[v->dimension] || ordinal > cover->high[v->dimension]) return false;
  }
  return true;
}

/* Returns the number of selected cells that a cover has of one value of the present level. */
static uint64_t cells_of_cover(const ordered_iterator *it, const tsr_cover *cover) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < read_ordered_schema_of(it)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= it->depth; k++) fixed |= it->levels[k].dimension == d;
    if (!fixed)
      cells = tsr__mul_sat(cells, tsr__dimension_selection_values_within(&it->reader->plan.selections[d], cover->low[d],
                                                                         cover->high[d]));
  }
  return cells;
}

/* What the covers hold of the present level, from a directed key on. */
typedef struct covered {
  bool any; /* some cover holds this key, or a later one */
  uint64_t next; /* the first directed key that a cover holds */
  uint64_t cells; /* cells that covers hold of one value, at the given key */
  uint64_t until; /* `cells` is the same up to this directed key */
} covered;

static covered read_ordered_find_covered(const ordered_iterator *it, const level *v, uint64_t at) {
  const tsr_plan *plan = &it->reader->plan;
  const uint64_t base = it->reader->snapshot->grid.low_key[v->dimension];
  covered found = {.next = UINT64_MAX, .until = UINT64_MAX};
  for (uint64_t i = 0; i < plan->cover_count; i++) {
    const tsr_cover *cover = &plan->covers[i];
    const uint64_t low = base + cover->low[v->dimension], high = base + cover->high[v->dimension];
    const uint64_t from = read_ordered_directed(v, v->descending ? high : low),
                   to = read_ordered_directed(v, v->descending ? low : high);
    if (to < at || !meets_single_values(it, cover)) continue;
    found.any = true;
    found.next = TSR_MIN(found.next, TSR_MAX(from, at));
    found.until = TSR_MIN(found.until, from > at ? from - 1 : to);
    if (from <= at) found.cells = tsr__add_sat(found.cells, cells_of_cover(it, cover));
  }
  found.cells = TSR_MIN(found.cells, cells_of_value(it)); /* covers may overlap */
  return found;
}

/* Returns the last directed key of a key range that begins at `at` and has about key_range.target rows, at most
 * v->end. */
static uint64_t find_end(const ordered_iterator *it, const level *v, uint64_t at) {
  uint64_t rows = 0, end = at;
  for (uint32_t steps = 0; steps < COVER_STEPS_MAX; steps++) {
    const covered here = read_ordered_find_covered(it, v, at);
    const uint64_t fit = here.cells > 0 ? (it->key_range.target - rows) / here.cells : UINT64_MAX;
    if (!here.any || fit == 0) break;
    end = TSR_MIN(here.until, tsr__add_sat(at, fit - 1));
    rows = tsr__add_sat(rows, tsr__mul_sat(end - at + 1, here.cells));
    if (end < here.until || end >= v->end || rows >= it->key_range.target) break;
    at = end + 1;
  }
  return TSR_MIN(end, v->end);
}

/* Chooses the next key range if cells that were never written are not given out. Returns as choose_key_range does. */
static int choose_covered(const ordered_iterator *it, level *v) {
  covered here;
  do {
    here = read_ordered_find_covered(it, v, v->from);
    v->from = here.next;
    if (!here.any || !read_ordered_take_values(it, v, UINT64_MAX)) return 0;
  } while (v->from != here.next); /* the request selects nothing there: its next value lies further on */
  if (read_ordered_find_covered(it, v, v->from).cells > it->key_range.target) {
    v->end = v->from;
    return 2;
  }
  v->end = find_end(it, v, v->from);
  end_with_tile(it, v);
  return 1;
}

/* ---- Key ranges of sparse arrays --------------------------------------------------------------------------------- */

/* Steps v->from to the first value that the request selects. */
static void skip_unselected(const ordered_iterator *it, level *v) {
  const tsr_spans *spans = &it->reader->plan.spans[v->dimension];
  for (uint64_t i = 0; !spans->all && i < spans->count; i++) {
    const tsr_span *span = &spans->spans[v->descending ? spans->count - 1 - i : i];
    if (read_ordered_directed(v, v->descending ? span->low : span->high) < v->from) continue;
    v->from = TSR_MAX(v->from, read_ordered_directed(v, v->descending ? span->high : span->low));
    return;
  }
}

/* Chooses a key range of about key_range.target rows by the starts of tiles. Returns as choose_key_range does. */
static int choose_by_tile_starts(ordered_iterator *it, level *v, tsr_error *error) {
  const uint64_t rows = tsr__mul_sat(it->key_range.target, it->key_range.overestimate),
                 many = tsr__mul_sat(rows, ROWS_GROWTH);
  uint64_t size = 0;
  bool single;
  if (!v->text) {
    v->from = tsr__tile_starts_begin(&v->starts, v->from);
    skip_unselected(it, v);
    v->end = tsr__tile_starts_next(&v->starts, v->from, rows);
    return v->end == v->from && tsr__tile_starts_expect(&v->starts, v->end, many) ? 2 : 1;
  }
  const uint8_t *text =
      tsr__tile_starts_next_text(&v->starts, v->at_set ? &v->at : NULL, v->at_exclusive, rows, many, &size, &single);
  v->end_set = text != NULL;
  v->end_exclusive = text && !single;
  if (text) TSR_TRY(set_text(&v->end_text, text, size, error));
  return single ? 2 : 1;
}

/* Notes that a complete key range had so many rows. If these are few, the tiles have fewer cells than their schema
 * says, or deletes and tests drop most of them, and the next key ranges are made wider. Else a damaged schema that
 * claims any number of cells would make a key range of each value. */
static void update_overestimate(ordered_iterator *it, uint64_t rows) {
  if (it->key_range.restarts == 0 && !it->levels[it->depth].nan &&
      (rows == 0 || rows < it->key_range.target / ROWS_FEW))
    it->key_range.overestimate = tsr__mul_sat(it->key_range.overestimate, ROWS_GROWTH);
}

/* ---- The next key range ------------------------------------------------------------------------------------------ */

/* Returns the largest target. In sparse arrays the number of rows is a guess, so the target leaves a margin. */
static uint64_t largest_target(const ordered_iterator *it) {
  return read_ordered_schema_of(it)->dense ? it->key_range.rows_max
                                           : it->key_range.rows_max - it->key_range.rows_max / 4;
}

/* Chooses the next key range of the present level. Returns 1; 0 if nothing is left of the level; 2 if the key range is
 * a single value that is to be cut along the next level, since it has too many cells or is better streamed. */
static int choose_key_range(ordered_iterator *it, tsr_error *error) {
  level *v = &it->levels[it->depth];
  v->nan = v->nans && (!v->descending || !v->numbers);
  if (v->nan) return 1;
  if (!v->numbers) return 0;
  v->end = UINT64_MAX;
  v->end_set = v->end_exclusive = false;
  if (read_ordered_schema_of(it)->dense) {
    const uint64_t cells = cells_of_value(it);
    const bool streamed = is_streamed(it), single = cells > it->key_range.target || streamed;
    if (!it->reader->request.gives_unwritten && !streamed) {
      const int rc = choose_covered(it, v);
      if (rc != 0) return rc;
    } else if (read_ordered_take_values(it, v, single ? 1 : it->key_range.target / TSR_MAX(1, cells))) {
      return single ? 2 : 1;
    }
    v->numbers = false;
    return 0;
  }
  return v->starts.known ? choose_by_tile_starts(it, v, error) : 1;
}

/* ---- Reading a key range ----------------------------------------------------------------------------------------- */

static void clear_rows(ordered_iterator *it) {
  tsr__row_block_clear(&it->block);
  it->rows.at = it->rows.count = 0;
  for (uint32_t d = 0; d < read_ordered_schema_of(it)->dimension_count; d++) it->rows.keys[d].size = 0;
}

/* Removes all rows and gives back their memory. */
static void release_rows(ordered_iterator *it) {
  tsr__row_block_empty(&it->block);
  tsr__buffer_release(&it->rows.order);
  tsr__buffer_release(&it->rows.pairs);
  for (uint32_t d = 0; it->rows.keys && d < read_ordered_schema_of(it)->dimension_count; d++)
    tsr__buffer_release(&it->rows.keys[d]);
  it->rows.at = it->rows.count = 0;
}

static int append_keys(ordered_iterator *it, uint32_t k, const tsr_batch *batch, tsr_error *error) {
  const level *v = &it->levels[k];
  const tsr_datatype datatype = read_ordered_field_of(it, v)->datatype;
  tsr_column column = {0};
  TSR_TRY(it->inner->iterator->column(it->inner->iterator, v->dimension, &column, error));
  TSR_TRY(tsr__buffer_reserve(&it->rows.keys[k], tsr__mul_sat(batch->count, 8), error));
  uint64_t *out = (uint64_t *)(void *)(it->rows.keys[k].data + it->rows.keys[k].size);
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t j = column.constant ? 0 : tsr_batch_index(batch, r);
    const uint64_t key = tsr__key(datatype, (const uint8_t *)column.values + j * column.cell_size);
    out[r] = read_ordered_directed(v, key == TSR_KEY_NAN && tsr_datatype_kind(datatype) == TSR_KIND_FLOAT ? 0 : key);
  }
  it->rows.keys[k].size += batch->count * 8;
  return TSR_OK;
}

static int append_batch(ordered_iterator *it, const tsr_batch *batch, tsr_error *error) {
  for (uint32_t k = 0; k < it->level_count; k++)
    if (!it->levels[k].text) TSR_TRY(append_keys(it, k, batch, error));
  return tsr__row_block_append(&it->block, it->inner->iterator, batch, error);
}

/* Sets differs[r] for rows whose value differs from that of the row before. */
static void note_changes(const tsr_batch *batch, const tsr_column *column, uint8_t *differs) {
  const uint8_t *values = column->values;
  for (uint64_t r = 1; r < batch->count && !column->constant; r++) {
    const uint64_t a = tsr_batch_index(batch, r - 1), b = tsr_batch_index(batch, r);
    if (differs[r]) continue;
    if (column->offsets) {
      const uint64_t *at = column->offsets, size = at[b + 1] - at[b];
      differs[r] = at[a + 1] - at[a] != size || (size > 0 && memcmp(values + at[a], values + at[b], size) != 0);
    } else {
      differs[r] = memcmp(values + a * column->cell_size, values + b * column->cell_size, column->cell_size) != 0;
    }
  }
}

/* Keeps the first of neighbouring rows that are equal in all levels. */
static int drop_repeats(ordered_iterator *it, tsr_batch *batch, tsr_error *error) {
  tsr_column column = {0};
  uint64_t count = 0;
  it->distinct_cells.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->distinct_cells, tsr__mul_sat(batch->count, sizeof(uint32_t) + 1), error));
  uint32_t *cells = (uint32_t *)(void *)it->distinct_cells.data;
  uint8_t *differs = it->distinct_cells.data + batch->count * sizeof(uint32_t);
  memset(differs, 0, batch->count);
  differs[0] = 1;
  for (uint32_t k = 0; k < it->level_count; k++) {
    TSR_TRY(it->inner->iterator->column(it->inner->iterator, it->levels[k].dimension, &column, error));
    note_changes(batch, &column, differs);
  }
  for (uint64_t r = 0; r < batch->count; r++)
    if (differs[r]) cells[count++] = (uint32_t)tsr_batch_index(batch, r);
  batch->selection = cells;
  batch->count = count;
  return TSR_OK;
}

static int start_inner(ordered_iterator *it, tsr_error *error) {
  it->inner->memory.limit = it->reader->memory.limit;
  return tsr__reader_start_part(it->inner, it->reader, it->key_range.spans, error);
}

static int next_inner(ordered_iterator *it, tsr_batch *batch, tsr_error *error) {
  *batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
  return it->inner->done ? 0 : it->inner->iterator->next(it->inner->iterator, batch, error);
}

/* Reads the rows of the key range into the block. Returns 1; 0 if there are too many rows: the block has some of
 * them. */
static int read_rows(ordered_iterator *it, tsr_error *error) {
  const tsr_schema *schema = read_ordered_schema_of(it);
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  const uint64_t most = TSR_MIN(it->key_range.rows_max, TSR_MAX(ROWS_SPARE, tsr__mul_sat(2, it->key_range.target)));
  tsr_batch batch;
  clear_rows(it);
  for (uint32_t f = 0; f < n; f++)
    it->block.columns[f].ready = it->inner->request.fields[f] = it->reader->request.fields[f];
  for (uint32_t k = 0; k < it->level_count; k++) {
    const uint32_t d = it->levels[k].dimension;
    it->inner->request.fields[d] = true;
    if (it->levels[k].text || it->reader->request.distinct) it->block.columns[d].ready = true;
  }
  TSR_TRY(start_inner(it, error));
  for (;;) {
    const int rc = next_inner(it, &batch, error);
    if (rc <= 0) return rc < 0 ? rc : 1;
    if (it->reader->request.distinct) TSR_TRY(drop_repeats(it, &batch, error));
    if (it->block.rows > 0 && it->block.rows + batch.count > most) return 0;
    const bool large = batch.count > it->key_range.rows_max; /* then some of its rows tell where to cut */
    if (large) batch.count = it->key_range.rows_max;
    TSR_TRY(append_batch(it, &batch, error));
    if (large) return 0;
  }
}

/* Adds a column to the block by reading the present key range again. */
static int read_late_column(ordered_iterator *it, uint32_t field, tsr_error *error) {
  const uint32_t n = read_ordered_schema_of(it)->dimension_count + read_ordered_schema_of(it)->attribute_count;
  const uint64_t *rowids = as_u64(&it->block.rowids);
  uint64_t rows = 0;
  tsr_batch batch;
  for (uint32_t f = 0; f < n; f++) it->inner->request.fields[f] = f == field;
  tsr__buffer_release(&it->rows.pairs); /* sorting is done: give back its memory */
  TSR_TRY(start_inner(it, error));
  for (;;) {
    const int rc = next_inner(it, &batch, error);
    if (rc < 0) return rc;
    if (rc == 0) break;
    const uint64_t last = tsr_batch_index(&batch, batch.count - 1);
    if (batch.count > it->block.rows - rows ||
        rowids[rows + batch.count - 1] != (uint64_t)tsr_batch_rowid(&batch, last))
      return tsr__fail(error, TSR_ERROR, "a key range that was read again has other rows");
    TSR_TRY(tsr__row_block_append_column(&it->block, it->inner->iterator, field, rows, &batch, error));
    rows += batch.count;
  }
  if (rows != it->block.rows) return tsr__fail(error, TSR_ERROR, "a key range that was read again has fewer rows");
  it->block.columns[field].ready = true;
  return TSR_OK;
}

/* ---- Key ranges that are too large ------------------------------------------------------------------------------- */

typedef struct read_ordered_tie_context {
  const ordered_iterator *iterator;
  const level *level;
} read_ordered_tie_context;

static int compare_values(const void *argument, uint32_t a, uint32_t b) {
  const read_ordered_tie_context *c = argument;
  return read_ordered_compare_text(c->level, read_ordered_text_of(c->iterator, c->level, a),
                                   read_ordered_text_of(c->iterator, c->level, b));
}

static int compare_end(const ordered_iterator *it, const level *v, const tsr_pair *pair) {
  if (!v->text) return pair->key < v->end ? -1 : pair->key > v->end;
  if (!v->end_set || v->end_exclusive) return -1;
  return read_ordered_compare_text(v, read_ordered_text_of(it, v, pair->cell),
                                   (tsr_slice){v->end_text.data, v->end_text.size});
}

static bool begins_at_end(const level *v) {
  if (!v->text) return v->from == v->end;
  return v->at_set && !v->at_exclusive && v->end_set && !v->end_exclusive && v->at.size == v->end_text.size &&
         memcmp(v->at.data, v->end_text.data, v->at.size) == 0;
}

/* Returns true if a row of the block lies in the key range of a level. */
static bool lies_in_key_range(const ordered_iterator *it, uint32_t k, uint64_t row) {
  const level *v = &it->levels[k];
  if (v->nan) return true;
  if (!v->text) {
    const uint64_t key = as_u64(&it->rows.keys[k])[row];
    return key >= (v->single ? v->end : v->from) && key <= v->end;
  }
  const tsr_slice text = read_ordered_text_of(it, v, row), at = {v->at.data, v->at.size},
                  end = {v->end_text.data, v->end_text.size};
  const int low = v->single   ? read_ordered_compare_text(v, text, end)
                  : v->at_set ? read_ordered_compare_text(v, text, at)
                              : 1;
  const int high = v->end_set ? read_ordered_compare_text(v, text, end) : -1;
  return low >= (!v->single && v->at_exclusive) && high <= -(int)v->end_exclusive;
}

/* Returns TSR_CORRUPT if a row does not lie in the key range. The inner reader does not look at the coordinates in a
 * tile whose MBR lies within the key range; if that MBR is wrong, the cells may lie anywhere. A key range that is cut
 * at such a cell would begin again before itself, or become shorter by one value at a time. */
static int check_row(const ordered_iterator *it, uint32_t k, uint64_t row, tsr_error *error) {
  if (lies_in_key_range(it, k, row)) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "cells lie outside the boxes that R-trees have of their tiles on dimension %s",
                   read_ordered_field_of(it, &it->levels[k])->name);
}

/* Cuts the present key range at a value of the rows that were read, sorted. Returns 1; 0 if all rows have a single
 * value. */
static int cut_key_range(ordered_iterator *it, const tsr_pair *pairs, tsr_error *error) {
  level *v = &it->levels[it->depth];
  uint64_t i = it->block.rows >> TSR_MIN(it->key_range.restarts, 63);
  for (i = TSR_MIN(i, it->block.rows - 1); i > 0 && compare_end(it, v, &pairs[i]) >= 0;) i--;
  const int order = compare_end(it, v, &pairs[i]);
  if (order >= 0 && begins_at_end(v)) return 0;
  if (!v->text) {
    v->end = order < 0 ? pairs[i].key : v->end - 1;
    return 1;
  }
  if (order >= 0) { /* all rows have the key range's last value: first read what lies before it */
    v->end_exclusive = true;
    return 1;
  }
  const tsr_slice text = read_ordered_text_of(it, v, pairs[i].cell);
  v->end_set = true;
  v->end_exclusive = false;
  TSR_TRY(set_text(&v->end_text, text.bytes, text.size, error));
  return 1;
}

/* Makes the key range smaller, which has too many rows. Returns 1; 0 if it has a single value. */
static int read_ordered_shrink(ordered_iterator *it, tsr_error *error) {
  const level *v = &it->levels[it->depth];
  const read_ordered_tie_context context = {it, v};
  if (v->nan) return 0;
  tsr__row_block_drop_others(&it->block, v->dimension); /* makes room for the pairs */
  it->rows.pairs.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->rows.pairs, tsr__mul_sat(2 * it->block.rows, sizeof(tsr_pair)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)it->rows.pairs.data;
  for (uint64_t i = 0; i < it->block.rows; i++)
    pairs[i] = (tsr_pair){.key = v->text ? prefix_key(v, read_ordered_text_of(it, v, i))
                                         : as_u64(&it->rows.keys[it->depth])[i],
                          .cell = (uint32_t)i};
  tsr__pairs_sort_ties(pairs, pairs + it->block.rows, it->block.rows, v->text ? compare_values : NULL, &context);
  TSR_TRY(check_row(it, it->depth, pairs[0].cell, error));
  TSR_TRY(check_row(it, it->depth, pairs[it->block.rows - 1].cell, error));
  it->key_range.restarts++;
  return cut_key_range(it, pairs, error);
}

/* Steps to the next level, within a single value of this one, or starts a stream if the rows come in order without
 * sorting. */
static int descend(ordered_iterator *it, tsr_error *error) {
  level *v = &it->levels[it->depth];
  v->single = true;
  it->key_range.restarts = 0;
  it->depth++;
  if (!comes_in_order(it, it->depth)) {
    level *next = &it->levels[it->depth];
    begin_level(it, it->depth);
    next->starts.known = false;
    if (v->starts.known && !v->nan)
      tsr__tile_starts_within(&v->starts, v->end, &v->end_text, next->dimension, next->descending, &next->starts);
    return TSR_OK;
  }
  TSR_TRY(read_ordered_make_spans(it, it->depth, error));
  memcpy(it->inner->request.fields, it->reader->request.fields,
         read_ordered_schema_of(it)->dimension_count + read_ordered_schema_of(it)->attribute_count);
  it->stream.active = true;
  it->stream.given = 0;
  TSR_TRY(start_inner(it, error));
  /* the caller takes rows as the inner reader gives them */
  it->inner->progress.limit = it->reader->request.distinct ? 1 : it->reader->progress.limit;
  return TSR_OK;
}

/* ---- Sorting ----------------------------------------------------------------------------------------------------- */

typedef struct sorting {
  const ordered_iterator *iterator;
  uint32_t from; /* the first level that the keys of the pairs do not hold */
} sorting;

static int read_ordered_compare_ties(const void *argument, uint32_t a, uint32_t b) {
  const sorting *t = argument;
  return read_ordered_compare_rows(t->iterator, t->from, a, b);
}

/* Packs the keys of as many levels as fit into the keys of the pairs. Returns the number of levels. */
static uint32_t pack_keys(const ordered_iterator *it, tsr_pair *pairs) {
  unsigned bits = 0;
  uint32_t k = 0;
  for (uint64_t i = 0; i < it->block.rows; i++) pairs[i] = (tsr_pair){.cell = (uint32_t)i};
  for (; k < it->level_count && !it->levels[k].text; k++) {
    const uint64_t *keys = as_u64(&it->rows.keys[k]);
    uint64_t low = UINT64_MAX, high = 0;
    for (uint64_t i = 0; i < it->block.rows; i++) {
      low = TSR_MIN(low, keys[i]);
      high = TSR_MAX(high, keys[i]);
    }
    const unsigned wide = high > low ? 64 - (unsigned)__builtin_clzll(high - low) : 0;
    if (bits + wide > 64) break;
    bits += wide;
    for (uint64_t i = 0; i < it->block.rows && wide > 0; i++)
      pairs[i].key = (wide < 64 ? pairs[i].key << wide : 0) | (keys[i] - low);
  }
  if (k == 0)
    for (uint64_t i = 0; i < it->block.rows; i++)
      pairs[i].key = prefix_key(&it->levels[0], read_ordered_text_of(it, &it->levels[0], i));
  return k;
}

static int sort_rows(ordered_iterator *it, tsr_error *error) {
  it->rows.pairs.size = it->rows.order.size = 0;
  TSR_TRY(tsr__buffer_reserve(&it->rows.pairs, tsr__mul_sat(2 * it->block.rows, sizeof(tsr_pair)), error));
  TSR_TRY(tsr__buffer_reserve(&it->rows.order, tsr__mul_sat(it->block.rows, sizeof(uint32_t)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)it->rows.pairs.data;
  uint32_t *order = (uint32_t *)(void *)it->rows.order.data;
  const sorting how = {it, pack_keys(it, pairs)};
  const tsr_tie_breaker ties = how.from < it->level_count ? read_ordered_compare_ties : NULL;
  uint64_t i = 1;
  while (i < it->block.rows &&
         (pairs[i - 1].key < pairs[i].key ||
          (pairs[i - 1].key == pairs[i].key && (!ties || ties(&how, pairs[i - 1].cell, pairs[i].cell) <= 0))))
    i++;
  if (i < it->block.rows) tsr__pairs_sort_ties(pairs, pairs + it->block.rows, it->block.rows, ties, &how);
  it->rows.count = 0;
  for (i = 0; i < it->block.rows; i++) {
    const uint32_t row = pairs[i].cell;
    if (!it->reader->request.distinct || i == 0 ||
        read_ordered_compare_rows(it, 0, order[it->rows.count - 1], row) != 0)
      order[it->rows.count++] = row;
  }
  for (uint32_t k = 0; k <= it->depth; k++) { /* sorted, so all rows between these two lie there, too */
    TSR_TRY(check_row(it, k, order[0], error));
    TSR_TRY(check_row(it, k, order[it->rows.count - 1], error));
  }
  return TSR_OK;
}

/* ---- The iterator ------------------------------------------------------------------------------------------------ */

/* Makes the key range smaller after memory has ended while it was read. Returns 1; 0 if it has a single value, which is
 * to be cut along the next level; < 0 if the memory is not taken by rows, but by tiles: then the error of the read
 * stands. */
static int shrink_for_memory(ordered_iterator *it, tsr_error *error) {
  const uint64_t inner = atomic_load_explicit(&it->inner->memory.used, memory_order_relaxed),
                 rows = atomic_load_explicit(&it->reader->memory.used, memory_order_relaxed) - inner;
  if (it->key_range.rows_max <= ROWS_FLOOR &&
      (it->key_range.rows_max == 1 || rows < it->reader->memory.limit / FLOOR_PART))
    return TSR_BUDGET;
  tsr_reader_rest(it->inner, true);
  it->key_range.target = it->key_range.rows_max =
      TSR_MAX(1, TSR_MIN(it->key_range.rows_max, it->key_range.target) / ROWS_GROWTH);
  int rc = 1;
  if (it->block.rows < 2) it->key_range.restarts = 0; /* choose_key_range chooses it again, by the smaller target */
  else rc = read_ordered_shrink(it, error);
  release_rows(it);
  return rc;
}

/* Reads the next key range that has rows, or starts a stream (stream.active): 1; 0 at the end; < 0: error. */
static int read_key_range(ordered_iterator *it, tsr_error *error) {
  for (;;) {
    tsr_error failure = {0};
    TSR_TRY(tsr__cancelled(&it->reader->snapshot->array->environment->memory, error));
    int rc = it->key_range.restarts > 0 ? 1 : choose_key_range(it, error);
    TSR_TRY(rc);
    if (rc == 0) {
      if (it->depth == 0) return 0;
      it->depth--;
      TSR_TRY(pass_key_range(&it->levels[it->depth], error));
      continue;
    }
    if (rc == 1) {
      TSR_TRY(read_ordered_make_spans(it, it->depth + 1, error));
      rc = read_rows(it, &failure);
      if (rc == 1 && it->block.rows > 0 && sort_rows(it, &failure) < 0) rc = failure.code;
      if (rc == 1) {
        update_overestimate(it, it->block.rows);
        it->key_range.restarts = 0;
        it->key_range.target = TSR_MIN(tsr__mul_sat(it->key_range.target, ROWS_GROWTH), largest_target(it));
        TSR_TRY(pass_key_range(&it->levels[it->depth], error));
        if (it->block.rows > 0) return 1;
        continue;
      }
      it->key_range.overestimate = 1;
      rc = tsr__lacks_memory(rc) ? shrink_for_memory(it, NULL) : rc == 0 ? read_ordered_shrink(it, &failure) : rc;
      if (rc < 0) {
        if (error) *error = failure;
        return failure.code;
      }
    } else {
      rc = 0;
    }
    if (rc == 0) TSR_TRY(descend(it, error));
    if (it->stream.active) return 1;
  }
}

/* Fills a batch with the next rows that were all written, or all never written. */
static void fill_ordered_batch(ordered_iterator *it, tsr_batch *batch) {
  const uint32_t *order = (const uint32_t *)(const void *)it->rows.order.data + it->rows.at;
  const bool written = it->block.flags.data[order[0]];
  uint64_t count = it->rows.count - it->rows.at;
  if (it->block.written && it->block.unwritten)
    for (uint64_t i = 0; i < count; i++)
      if (it->block.flags.data[order[i]] != written) count = i;
  batch->count = count;
  batch->selection = order;
  batch->rowids = (const int64_t *)(const void *)it->block.rowids.data;
  batch->written = written;
  batch->fragment = TSR_FRAGMENT_NONE;
  it->given_unwritten = !written;
  if (written) batch->times = as_u64(&it->block.times);
  it->rows.at += count;
}

static int read_ordered_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  ordered_iterator *it = (ordered_iterator *)iterator;
  for (;;) {
    if (it->stream.active) {
      const int rc = it->stream.distinct_given ? 0 : next_inner(it, batch, error);
      if (rc > 0 && it->reader->request.distinct) { /* all rows of the stream are equal in the order */
        batch->count = 1;
        it->stream.distinct_given = true;
      }
      if (rc > 0) it->stream.given += batch->count;
      if (rc != 0) return rc;
      it->depth--;
      if (!it->stream.distinct_given) update_overestimate(it, it->stream.given);
      it->stream.active = it->stream.distinct_given = false;
      TSR_TRY(pass_key_range(&it->levels[it->depth], error));
      it->block.rows = it->rows.at = it->rows.count = 0;
    }
    if (it->rows.at == it->rows.count) {
      const int rc = read_key_range(it, error);
      if (rc <= 0) return rc;
      if (it->stream.active) continue;
    }
    fill_ordered_batch(it, batch);
    return 1;
  }
}

static int read_ordered_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  ordered_iterator *it = (ordered_iterator *)iterator;
  if (it->stream.active) return it->inner->iterator->column(it->inner->iterator, field, column, error);
  if (!it->block.columns[field].ready && it->reader->request.distinct)
    return tsr__fail(error, TSR_ERROR, "field %u was requested of distinct rows, which are not ordered by it", field);
  if (!it->block.columns[field].ready) TSR_TRY(read_late_column(it, field, error));
  *column = tsr__row_block_column(&it->block, field);
  column->unwritten = it->given_unwritten && field >= read_ordered_schema_of(it)->dimension_count;
  return TSR_OK;
}

/* Gives back tiles. Buffers stay for the next start. */
static void close_ordered(tsr_batch_iterator *iterator) {
  tsr_reader_rest(((ordered_iterator *)iterator)->inner, false);
}

static void read_ordered_release(ordered_iterator *it) {
  const tsr_schema *schema = read_ordered_schema_of(it);
  release_rows(it);
  tsr__row_block_release(&it->block);
  tsr__buffer_release(&it->distinct_cells);
  for (uint32_t d = 0; it->levels && d < schema->dimension_count; d++) {
    tsr__buffer_release(&it->levels[d].at);
    tsr__buffer_release(&it->levels[d].end_text);
  }
  tsr__free(it->levels);
  tsr__free(it->rows.keys);
  tsr__arena_release(&it->key_range.arena);
  tsr_reader_close(it->inner);
  tsr__free(it);
}

void tsr__read_ordered_forget(tsr_reader *reader) {
  if (reader->ordered) tsr__reader_forget(((ordered_iterator *)reader->ordered)->inner);
}

void tsr__read_ordered_free(tsr_reader *reader) {
  if (reader->ordered) read_ordered_release((ordered_iterator *)reader->ordered);
  reader->ordered = NULL;
}

static int make_ordered(tsr_reader *reader, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  ordered_iterator *it;
  TSR_TRY(TSR_ALLOC(&reader->memory, &it, error));
  it->base = (tsr_batch_iterator){.next = read_ordered_next, .column = read_ordered_column_of, .close = close_ordered};
  it->reader = reader;
  tsr__arena_init(&it->key_range.arena, &reader->memory);
  it->rows.order.memory = it->rows.pairs.memory = it->distinct_cells.memory = &reader->memory;
  int rc = TSR_ALLOC_ARRAY(&reader->memory, n, &it->levels, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(&reader->memory, n, &it->rows.keys, error);
  if (rc >= 0) rc = tsr__row_block_init(&it->block, schema, &reader->memory, error);
  if (rc >= 0) rc = tsr__reader_open_within(reader->snapshot, &reader->memory, &it->inner, error);
  if (rc < 0) {
    read_ordered_release(it);
    return rc;
  }
  for (uint32_t d = 0; d < n; d++)
    it->levels[d].at.memory = it->levels[d].end_text.memory = it->rows.keys[d].memory = &reader->memory;
  reader->ordered = &it->base;
  return TSR_OK;
}

/* Chooses how many rows a key range may have, and how many the first one should have. */
static void choose_target(ordered_iterator *it, uint64_t limit) {
  const tsr_reader *reader = it->reader;
  const tsr_schema *schema = read_ordered_schema_of(it);
  uint64_t bytes = 3 * sizeof(uint64_t) + 2 * sizeof(tsr_pair) + it->level_count * sizeof(uint64_t), most = ROWS_MAX;
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    const bool wanted = reader->request.fields[f] || f >= schema->dimension_count; /* any attribute may be read later */
    if (wanted) bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  }
  if (schema->dense) {
    const uint64_t row = tsr__mul_sat(cells_of_value(it), reader->snapshot->grid.extent[it->levels[0].dimension]);
    if (row > most && row <= TILES_MAX) most = row;
  }
  it->key_range.rows_max = TSR_MAX(1, TSR_MIN(most, reader->memory.limit / 4 / bytes));
  it->key_range.target = ROWS_FIRST;
  if (limit > 0)
    it->key_range.target =
        schema->dense && reader->tests.count == 0 ? limit : TSR_MAX(ROWS_MIN, tsr__mul_sat(limit, 4));
  it->key_range.target = TSR_MIN(TSR_MAX(it->key_range.target, 16), largest_target(it));
}

int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  if (!reader->ordered) TSR_TRY(make_ordered(reader, error));
  ordered_iterator *it = (ordered_iterator *)reader->ordered;
  it->level_count = it->depth = it->key_range.restarts = 0;
  it->key_range.overestimate = 1;
  it->stream.active = it->stream.distinct_given = false;
  for (uint32_t i = 0; i < count; i++) {
    bool repeated = false;
    if (order[i].dimension >= schema->dimension_count)
      return tsr__fail(error, TSR_ERROR, "an order by field %u, which is not a dimension", order[i].dimension);
    for (uint32_t k = 0; k < it->level_count; k++) repeated |= it->levels[k].dimension == order[i].dimension;
    if (repeated) continue;
    it->levels[it->level_count].dimension = order[i].dimension;
    it->levels[it->level_count++].descending = order[i].descending;
  }
  clear_rows(it);
  it->block.fill_unwritten = reader->tests.fill_unwritten;
  for (uint32_t k = 0; k < it->level_count; k++) begin_level(it, k);
  for (uint32_t k = 0; k < it->level_count; k++) it->levels[k].starts = (tsr_tile_starts){0};
  tsr__tile_starts_make(reader, it->levels[0].dimension, it->levels[0].descending, &it->levels[0].starts);
  it->cached = reader->tests.count == 0 && fits_cache(it);
  choose_target(it, limit);
  *iterator = &it->base;
  return TSR_OK;
}
