/* read_ordered.c: the rows of a request in an order of dimensions, whatever the order of tiles and cells is.
 *
 * The request is cut into key ranges along the first dimension of the order. An inner reader reads a key range as it reads any
 * request; its rows are gathered, sorted and given out as one batch of columns; then comes the next key range. Key ranges begin
 * small, since the caller may want few rows, and grow to what the budget takes, and to whole tiles.
 *
 * Where a key range has too many rows after all, those that were gathered tell where it can be cut: it is read again, up to
 * one of their values. Where a single value of the dimension has too many, the key range is cut along the next dimension of
 * the order; where all of them have one value, rows may come as they are. Rows and the tiles that the inner reader holds for
 * them share one budget: where it ends key ranges are made smaller, too. So any order is kept in any budget in which the same
 * tiles can be read without.
 *
 * In a dense array the cells of one value often come in order as they are: of its slowest dimension, say. Then each value
 * is read by itself, and nothing is gathered, as long as the cache holds the tiles until the next value wants them.
 *
 * Where one of equal rows is enough (a sparse array's distinct rows), repeats are dropped as they come, and again when they are
 * sorted; all rows of a tuple of the order's values lie in one key range. A tuple with too many rows comes to the end of the
 * order's dimensions as any other does, and there its first row is taken.
 *
 * In what follows "directed" keys are order keys, complemented where the order descends: they always ascend. NaNs, which
 * lie in no span, are key ranges of their own: before all numbers. Columns that were not known to be wanted are gathered by
 * reading the key range again: its rows come as before.
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

#define ROWS_FIRST       4096u /* of the first key range, where it is not known how many are wanted */
#define ROWS_MIN         256u /* that the first key range of a sparse array is meant to have */
#define ROWS_SPARE       16384u /* that may come where fewer were expected */
#define ROWS_MAX         (UINT64_C(1) << 20) /* of any key range, but for a dense array's row of tiles */
#define TILES_MAX        (UINT64_C(1) << 22) /* cells of that */
#define ROWS_GROWTH      4u
#define ROWS_FEW         64u /* a key range has few rows where it has less than this part of what it was meant to have */
#define ROWS_FLOOR       256u /* where memory ends with key ranges of so many, their tiles are too large, not they, ... */
#define FLOOR_PART       64u /* ... if what there is of them is less than this part of the budget */
#define TEXT_GUESS       40u /* bytes of a variable value, for the budget */
#define COVERS_LOOKED_AT 64u /* for a key range, at most */
#define STREAM_CELLS     256u /* of one value, in a dense array, that are worth a start of the inner reader */

typedef struct level { /* a dimension of the order, and what is left of it */
  uint32_t dimension;
  bool descending, text;
  bool nans; /* still to come */
  bool numbers; /* still to come, or strings: */
  uint64_t from; /* directed; the last is UINT64_MAX */
  tsr_buffer at; /* strings: they begin here ... */
  bool at_set, at_exclusive; /* ... or behind it, in the order's direction; not set: all */
  /* the key range */
  bool nan; /* of NaNs */
  bool single; /* of one value, and cut along the next dimension */
  uint64_t end; /* directed, inclusive */
  tsr_buffer end_text;
  bool end_set, end_exclusive;
  tsr_tile_starts corners; /* of the tiles that may hold the single values of the levels above */
} level;

typedef struct ordered_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader, *inner; /* inner: within the reader's memory */
  tsr_arena key_range; /* of the present key range's spans */
  tsr_spans *spans;
  uint32_t level_count, depth; /* depth: the level along which key ranges are cut now */
  level *levels; /* room for all dimensions */
  tsr_buffer *keys; /* [level]: directed keys of the rows; not of strings */
  tsr_row_block block; /* the key range's rows */
  uint64_t target, most; /* rows that the next key range is meant to have, that any key range may have */
  uint64_t excess; /* sparse: how many times more rows the tiles' corners promise than have come */
  unsigned restarts; /* of the present key range */
  bool streaming; /* rows are given out as the inner reader gives them */
  uint64_t streamed; /* so many */
  bool given_one; /* of them, which is enough */
  bool cached; /* dense: the tiles that hold one value of the slowest dimension stay in the cache */
  uint64_t row_at, row_count; /* of the key range's rows, in order */
  tsr_buffer kept; /* of a batch, where repeats are dropped */
  bool given_unwritten; /* those given out last are */
  tsr_buffer order, pairs;
} ordered_iterator;

static const tsr_schema *read_ordered_schema_of(const ordered_iterator *s) { return s->reader->snapshot->schema; }

static const tsr_field *read_ordered_field_of(const ordered_iterator *s, const level *v) {
  return &read_ordered_schema_of(s)->fields[v->dimension];
}

static uint64_t read_ordered_directed(const level *v, uint64_t key) { return v->descending ? ~key : key; }

static const uint64_t *words(const tsr_buffer *buffer) { return (const uint64_t *)(const void *)buffer->data; }

static int set_text(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error) {
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, size + 1, error)); /* never without memory: the empty string is one */
  return tsr__buffer_append(buffer, bytes, size, error);
}

/* ---- Values of gathered strings ---------------------------------------------------------------------------------- */

static tsr_slice read_ordered_text_of(const ordered_iterator *s, const level *v, uint64_t row) {
  const tsr_row_block_column *c = &s->block.columns[v->dimension];
  const uint64_t *offsets = words(&c->offsets);
  return (tsr_slice){c->values.data + offsets[row], offsets[row + 1] - offsets[row]};
}

static uint64_t text_key(const level *v, tsr_slice text) { /* its first bytes: equal ones are to be looked into */
  return read_ordered_directed(v, tsr__text_prefix(text.bytes, text.size));
}

static int read_ordered_compare_text(const level *v, tsr_slice a, tsr_slice b) {
  const int c = tsr__bytes_compare(a.bytes, a.size, b.bytes, b.size);
  return v->descending ? -c : c;
}

static int read_ordered_compare_rows(const ordered_iterator *s, uint32_t from, uint64_t a, uint64_t b) {
  for (uint32_t k = from; k < s->level_count; k++) {
    const level *v = &s->levels[k];
    int c;
    if (v->text) {
      c = read_ordered_compare_text(v, read_ordered_text_of(s, v, a), read_ordered_text_of(s, v, b));
    } else {
      const uint64_t *keys = words(&s->keys[k]);
      c = keys[a] < keys[b] ? -1 : keys[a] > keys[b];
    }
    if (c) return c;
  }
  return 0;
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

static void begin_level(ordered_iterator *s, uint32_t k) {
  level *v = &s->levels[k];
  const tsr_field *field = read_ordered_field_of(s, v);
  v->text = field->values_per_cell == TSR_VARIABLE;
  v->nans = s->reader->plan.spans[v->dimension].all && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
  v->numbers = true;
  v->from = read_ordered_directed(v, v->descending ? tsr__key_max(field->datatype) : tsr__key_min(field->datatype));
  v->at_set = v->nan = v->single = false;
}

/* Steps behind the present key range of a level. */
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

/* What a level's key range holds of its dimension. */
static int read_ordered_clip(ordered_iterator *s, const level *v, tsr_spans *out, tsr_error *error) {
  const tsr_field *field = read_ordered_field_of(s, v);
  const tsr_spans *all = &s->reader->plan.spans[v->dimension];
  if (v->nan) {
    *out = (tsr_spans){.floats = true, .nans = true};
    return TSR_OK;
  }
  if (!v->text) {
    const uint64_t from = v->single ? v->end : v->from;
    const uint64_t low = v->descending ? ~v->end : from, high = v->descending ? ~from : v->end;
    return tsr__spans_clip(field, all, low, high, &s->key_range, out, error);
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
  return tsr__spans_clip_text(field, all, &range, &s->key_range, out, error);
}

/* The spans of the present key range: single values of the levels above, a part of this one's, all of the others'. */
static int read_ordered_make_spans(ordered_iterator *s, uint32_t levels, tsr_error *error) {
  const uint32_t n = read_ordered_schema_of(s)->dimension_count;
  tsr__arena_reset(&s->key_range);
  TSR_TRY(TSR_ARENA_ARRAY(&s->key_range, n, &s->spans, error));
  memcpy(s->spans, s->reader->plan.spans, n * sizeof(tsr_spans));
  for (uint32_t k = 0; k < levels; k++)
    TSR_TRY(read_ordered_clip(s, &s->levels[k], &s->spans[s->levels[k].dimension], error));
  return TSR_OK;
}

/* ---- Key ranges of dense arrays --------------------------------------------------------------------------------------- */

/* Cells that one value of the present level has. */
static uint64_t cells_of_value(const ordered_iterator *s) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < read_ordered_schema_of(s)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= s->depth; k++) fixed |= s->levels[k].dimension == d;
    if (!fixed) cells = tsr__mul_sat(cells, tsr__dimension_selection_values(&s->reader->plan.selections[d]));
  }
  return cells;
}

/* The place of a dimension in the order of cells, where that of tiles is the same. */
static uint32_t read_ordered_place_of(const ordered_iterator *s, uint32_t d) {
  const tsr_grid *grid = &s->reader->snapshot->grid;
  return grid->col_major_cells ? grid->dimensions - 1 - d : d;
}

/* Within single values of the levels before `from`: do cells come in the order of the others as they are? Those single
 * values must be of the slowest dimensions, and past the next one no other may cross tiles. */
static bool is_natural(const ordered_iterator *s, uint32_t from) {
  const tsr_grid *grid = &s->reader->snapshot->grid;
  const tsr_plan *plan = &s->reader->plan;
  if (from == s->level_count) return true;
  if (!read_ordered_schema_of(s)->dense || grid->col_major_cells != grid->col_major_tiles || plan->box_count != 1 ||
      plan->boxes[0].sparse)
    return false;
  for (uint32_t k = 0; k < s->level_count; k++)
    if (k < from ? read_ordered_place_of(s, s->levels[k].dimension) >= from
                 : read_ordered_place_of(s, s->levels[k].dimension) != k || s->levels[k].descending)
      return false;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &plan->selections[d];
    const uint64_t low = selected->spans[0].low, high = selected->spans[selected->count - 1].high;
    if (low < plan->boxes[0].low[d] || high > plan->boxes[0].high[d]) return false;
    if (read_ordered_place_of(s, d) > from && low / grid->extent[d] != high / grid->extent[d]) return false;
  }
  return true;
}

/* Is each value of the present level better read by itself? */
static bool is_streamed(const ordered_iterator *s) {
  if (!s->cached || s->depth + 1 == read_ordered_schema_of(s)->dimension_count || cells_of_value(s) < STREAM_CELLS)
    return false;
  for (uint32_t k = 0; k <= s->depth; k++)
    if (read_ordered_place_of(s, s->levels[k].dimension) > s->depth) return false;
  return is_natural(s, s->depth + 1);
}

/* Do the tiles that one value of the slowest dimension needs fit into the cache, with room for others? */
static bool fits_cache(const ordered_iterator *s) {
  const tsr_schema *schema = read_ordered_schema_of(s);
  const tsr_array *array = s->reader->snapshot->array;
  const tsr_grid *grid = &s->reader->snapshot->grid;
  uint64_t bytes = 0;
  if (!schema->dense || array->uncached || grid->col_major_cells != grid->col_major_tiles) return false;
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++)
    bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  bytes = tsr__mul_sat(tsr__mul_sat(bytes, grid->tile_cells), TSR_MAX(1, s->reader->plan.box_count));
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &s->reader->plan.selections[d];
    const uint64_t tiles =
        selected->spans[selected->count - 1].high / grid->extent[d] - selected->spans[0].low / grid->extent[d];
    if (read_ordered_place_of(s, d) > 0) bytes = tsr__mul_sat(bytes, tiles + 1);
  }
  return bytes <= tsr__cache_limit(array->cache) / 2;
}

/* Of more than one tile whole ones are taken. */
static void end_with_tile(const ordered_iterator *s, level *v) {
  const tsr_grid *grid = &s->reader->snapshot->grid;
  const uint64_t base = grid->low_key[v->dimension], extent = grid->extent[v->dimension];
  const uint64_t a = read_ordered_directed(v, v->from) - base,
                 b = read_ordered_directed(v, v->end) - base; /* ordinals */
  if (!v->descending && b / extent > a / extent && (b + 1) % extent != 0)
    v->end = read_ordered_directed(v, base + b / extent * extent - 1);
  if (v->descending && a / extent > b / extent && b % extent != 0)
    v->end = read_ordered_directed(v, base + (b / extent + 1) * extent);
}

/* Takes `values` wanted values from v->from on; whole tiles, if it is more than one. False where none is left. */
static bool read_ordered_take_values(const ordered_iterator *s, level *v, uint64_t values) {
  const tsr_grid *grid = &s->reader->snapshot->grid;
  const tsr_dimension_selection *selected = &s->reader->plan.selections[v->dimension];
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
  end_with_tile(s, v);
  return true;
}

/* Does a cover hold cells of the single values of the levels above? */
static bool is_met(const ordered_iterator *s, const tsr_cover *cover) {
  for (uint32_t k = 0; k < s->depth; k++) {
    const level *v = &s->levels[k];
    const uint64_t ordinal = read_ordered_directed(v, v->end) - s->reader->snapshot->grid.low_key[v->dimension];
    if (ordinal < cover->low[v->dimension] || ordinal > cover->high[v->dimension]) return false;
  }
  return true;
}

/* Cells that a cover has of one value of the present level. */
static uint64_t cells_of_cover(const ordered_iterator *s, const tsr_cover *cover) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < read_ordered_schema_of(s)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= s->depth; k++) fixed |= s->levels[k].dimension == d;
    if (!fixed)
      cells = tsr__mul_sat(
          cells, tsr__dimension_selection_values_within(&s->reader->plan.selections[d], cover->low[d], cover->high[d]));
  }
  return cells;
}

/* What covers have at a place on the present level. */
typedef struct covered {
  bool any; /* there is a place, it or one behind it, that a cover has: */
  uint64_t next; /* directed: the first */
  uint64_t cells; /* of one value */
  uint64_t until; /* directed: so many up to here */
} covered;

static covered read_ordered_find_covered(const ordered_iterator *s, const level *v, uint64_t at) {
  const tsr_plan *plan = &s->reader->plan;
  const uint64_t base = s->reader->snapshot->grid.low_key[v->dimension];
  covered found = {.next = UINT64_MAX, .until = UINT64_MAX};
  for (uint64_t i = 0; i < plan->cover_count; i++) {
    const tsr_cover *cover = &plan->covers[i];
    const uint64_t low = base + cover->low[v->dimension], high = base + cover->high[v->dimension];
    const uint64_t from = read_ordered_directed(v, v->descending ? high : low),
                   to = read_ordered_directed(v, v->descending ? low : high);
    if (to < at || !is_met(s, cover)) continue;
    found.any = true;
    found.next = TSR_MIN(found.next, TSR_MAX(from, at));
    found.until = TSR_MIN(found.until, from > at ? from - 1 : to);
    if (from <= at) found.cells = tsr__add_sat(found.cells, cells_of_cover(s, cover));
  }
  found.cells = TSR_MIN(found.cells, cells_of_value(s)); /* they overlap */
  return found;
}

/* From `at` on, the last place of a key range of about s->target rows, but not behind v->end. */
static uint64_t find_end(const ordered_iterator *s, const level *v, uint64_t at) {
  uint64_t rows = 0, end = at;
  for (uint32_t steps = 0; steps < COVERS_LOOKED_AT; steps++) {
    const covered here = read_ordered_find_covered(s, v, at);
    const uint64_t fit = here.cells > 0 ? (s->target - rows) / here.cells : UINT64_MAX;
    if (!here.any || fit == 0) break;
    end = TSR_MIN(here.until, tsr__add_sat(at, fit - 1));
    rows = tsr__add_sat(rows, tsr__mul_sat(end - at + 1, here.cells));
    if (end < here.until || end >= v->end || rows >= s->target) break;
    at = end + 1;
  }
  return TSR_MIN(end, v->end);
}

/* The next key range where nothing is wanted of what was never written: as choose_key_range. */
static int choose_covered(const ordered_iterator *s, level *v) {
  covered here;
  do {
    here = read_ordered_find_covered(s, v, v->from);
    v->from = here.next;
    if (!here.any || !read_ordered_take_values(s, v, UINT64_MAX)) return 0;
  } while (v->from != here.next); /* what is wanted begins behind it */
  if (read_ordered_find_covered(s, v, v->from).cells > s->target) {
    v->end = v->from;
    return 2;
  }
  v->end = find_end(s, v, v->from);
  end_with_tile(s, v);
  return 1;
}

/* ---- Key ranges of sparse arrays -------------------------------------------------------------------------------------- */

/* Steps over what the request leaves out. */
static void skip_gap(const ordered_iterator *s, level *v) {
  const tsr_spans *spans = &s->reader->plan.spans[v->dimension];
  for (uint64_t i = 0; !spans->all && i < spans->count; i++) {
    const tsr_span *span = &spans->spans[v->descending ? spans->count - 1 - i : i];
    if (read_ordered_directed(v, v->descending ? span->low : span->high) < v->from) continue;
    v->from = TSR_MAX(v->from, read_ordered_directed(v, v->descending ? span->high : span->low));
    return;
  }
}

/* A key range of about so many rows: 1; 2: of one value, which has many more. */
static int choose_by_tile_starts(ordered_iterator *s, level *v, tsr_error *error) {
  const uint64_t rows = tsr__mul_sat(s->target, s->excess), many = tsr__mul_sat(rows, ROWS_GROWTH);
  uint64_t size = 0;
  bool single;
  if (!v->text) {
    v->from = tsr__tile_starts_begin(&v->corners, v->from);
    skip_gap(s, v);
    v->end = tsr__tile_starts_next(&v->corners, v->from, rows);
    return v->end == v->from && tsr__tile_starts_expect(&v->corners, v->end, many) ? 2 : 1;
  }
  const uint8_t *text =
      tsr__tile_starts_next_text(&v->corners, v->at_set ? &v->at : NULL, v->at_exclusive, rows, many, &size, &single);
  v->end_set = text != NULL;
  v->end_exclusive = text && !single;
  if (text) TSR_TRY(set_text(&v->end_text, text, size, error));
  return single ? 2 : 1;
}

/* A key range is complete. Where it has few rows, the tiles have fewer than their schema says, or deletes and tests drop most, and the
 * key ranges that follow are wider: or else a damaged schema that claims any number of cells would be walked value by value. */
static void learn(ordered_iterator *s, uint64_t rows) {
  if (s->restarts == 0 && !s->levels[s->depth].nan && (rows == 0 || rows < s->target / ROWS_FEW))
    s->excess = tsr__mul_sat(s->excess, ROWS_GROWTH);
}

/* ---- The next key range ----------------------------------------------------------------------------------------------- */

/* Of sparse arrays it is a guess how many rows come: rather fewer than are too many. */
static uint64_t largest_target(const ordered_iterator *s) {
  return read_ordered_schema_of(s)->dense ? s->most : s->most - s->most / 4;
}

/* Chooses a key range of the present level: 1; 0 where nothing is left of it; 2: of one value, which has too many cells, or is
 * better read by itself. */
static int choose_key_range(ordered_iterator *s, tsr_error *error) {
  level *v = &s->levels[s->depth];
  v->nan = v->nans && (!v->descending || !v->numbers);
  if (v->nan) return 1;
  if (!v->numbers) return 0;
  v->end = UINT64_MAX;
  v->end_set = v->end_exclusive = false;
  if (read_ordered_schema_of(s)->dense) {
    const uint64_t cells = cells_of_value(s);
    const bool streamed = is_streamed(s), single = cells > s->target || streamed;
    if (!s->reader->passes_unwritten && !streamed) {
      const int rc = choose_covered(s, v);
      if (rc != 0) return rc;
    } else if (read_ordered_take_values(s, v, single ? 1 : s->target / TSR_MAX(1, cells))) {
      return single ? 2 : 1;
    }
    v->numbers = false;
    return 0;
  }
  return v->corners.known ? choose_by_tile_starts(s, v, error) : 1;
}

/* ---- Gathering --------------------------------------------------------------------------------------------------- */

static void clear_rows(ordered_iterator *s) {
  tsr__row_block_clear(&s->block);
  s->row_at = s->row_count = 0;
  for (uint32_t d = 0; d < read_ordered_schema_of(s)->dimension_count; d++) s->keys[d].size = 0;
}

/* With their memory. */
static void release_rows(ordered_iterator *s) {
  tsr__row_block_empty(&s->block);
  tsr__buffer_release(&s->order);
  tsr__buffer_release(&s->pairs);
  for (uint32_t d = 0; s->keys && d < read_ordered_schema_of(s)->dimension_count; d++) tsr__buffer_release(&s->keys[d]);
  s->row_at = s->row_count = 0;
}

static int read_ordered_gather_keys(ordered_iterator *s, uint32_t k, const tsr_batch *batch, tsr_error *error) {
  const level *v = &s->levels[k];
  const tsr_datatype datatype = read_ordered_field_of(s, v)->datatype;
  tsr_column column = {0};
  TSR_TRY(s->inner->iterator->column(s->inner->iterator, v->dimension, &column, error));
  TSR_TRY(tsr__buffer_reserve(&s->keys[k], tsr__mul_sat(batch->count, 8), error));
  uint64_t *out = (uint64_t *)(void *)(s->keys[k].data + s->keys[k].size);
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t j = column.constant ? 0 : tsr_batch_index(batch, r);
    const uint64_t key = tsr__key(datatype, (const uint8_t *)column.values + j * column.cell_size);
    out[r] = read_ordered_directed(v, key == TSR_KEY_NAN && tsr_datatype_kind(datatype) == TSR_KIND_FLOAT ? 0 : key);
  }
  s->keys[k].size += batch->count * 8;
  return TSR_OK;
}

static int gather_batch(ordered_iterator *s, const tsr_batch *batch, tsr_error *error) {
  for (uint32_t k = 0; k < s->level_count; k++)
    if (!s->levels[k].text) TSR_TRY(read_ordered_gather_keys(s, k, batch, error));
  return tsr__row_block_append(&s->block, s->inner->iterator, batch, error);
}

/* Notes where a row differs from the one before it. */
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

/* Of neighbours that are equal in all levels keeps the first. */
static int drop_repeats(ordered_iterator *s, tsr_batch *batch, tsr_error *error) {
  tsr_column column = {0};
  uint64_t count = 0;
  s->kept.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->kept, tsr__mul_sat(batch->count, sizeof(uint32_t) + 1), error));
  uint32_t *cells = (uint32_t *)(void *)s->kept.data;
  uint8_t *differs = s->kept.data + batch->count * sizeof(uint32_t);
  memset(differs, 0, batch->count);
  differs[0] = 1;
  for (uint32_t k = 0; k < s->level_count; k++) {
    TSR_TRY(s->inner->iterator->column(s->inner->iterator, s->levels[k].dimension, &column, error));
    note_changes(batch, &column, differs);
  }
  for (uint64_t r = 0; r < batch->count; r++)
    if (differs[r]) cells[count++] = (uint32_t)tsr_batch_index(batch, r);
  batch->selection = cells;
  batch->count = count;
  return TSR_OK;
}

static int start_inner(ordered_iterator *s, tsr_error *error) {
  s->inner->memory.limit = s->reader->memory.limit;
  return tsr__reader_start_part(s->inner, s->reader, s->spans, error);
}

static int next_inner(ordered_iterator *s, tsr_batch *batch, tsr_error *error) {
  *batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
  return s->inner->done ? 0 : s->inner->iterator->next(s->inner->iterator, batch, error);
}

/* The rows of the key range: 1; 0: there are more than that are wanted together. */
static int read_ordered_gather(ordered_iterator *s, tsr_error *error) {
  const tsr_schema *schema = read_ordered_schema_of(s);
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  const uint64_t most = TSR_MIN(s->most, TSR_MAX(ROWS_SPARE, tsr__mul_sat(2, s->target)));
  tsr_batch batch;
  clear_rows(s);
  for (uint32_t f = 0; f < n; f++) s->block.columns[f].ready = s->inner->fields[f] = s->reader->fields[f];
  for (uint32_t k = 0; k < s->level_count; k++) {
    const uint32_t d = s->levels[k].dimension;
    s->inner->fields[d] = true;
    if (s->levels[k].text || s->reader->distinct) s->block.columns[d].ready = true;
  }
  TSR_TRY(start_inner(s, error));
  for (;;) {
    const int rc = next_inner(s, &batch, error);
    if (rc <= 0) return rc < 0 ? rc : 1;
    if (s->reader->distinct) TSR_TRY(drop_repeats(s, &batch, error));
    if (s->block.rows > 0 && s->block.rows + batch.count > most) return 0;
    const bool large = batch.count > s->most; /* then some of its rows say where to cut */
    if (large) batch.count = s->most;
    TSR_TRY(gather_batch(s, &batch, error));
    if (large) return 0;
  }
}

/* One more column of the present key range. */
static int gather_again(ordered_iterator *s, uint32_t field, tsr_error *error) {
  const uint32_t n = read_ordered_schema_of(s)->dimension_count + read_ordered_schema_of(s)->attribute_count;
  const uint64_t *rowids = words(&s->block.rowids);
  uint64_t rows = 0;
  tsr_batch batch;
  for (uint32_t f = 0; f < n; f++) s->inner->fields[f] = f == field;
  tsr__buffer_release(&s->pairs); /* they are sorted */
  TSR_TRY(start_inner(s, error));
  for (;;) {
    const int rc = next_inner(s, &batch, error);
    if (rc < 0) return rc;
    if (rc == 0) break;
    const uint64_t last = tsr_batch_index(&batch, batch.count - 1);
    if (batch.count > s->block.rows - rows || rowids[rows + batch.count - 1] != (uint64_t)tsr_batch_rowid(&batch, last))
      return tsr__fail(error, TSR_ERROR, "a slab read again has other rows");
    TSR_TRY(tsr__row_block_append_column(&s->block, s->inner->iterator, field, rows, &batch, error));
    rows += batch.count;
  }
  if (rows != s->block.rows) return tsr__fail(error, TSR_ERROR, "a slab read again has fewer rows");
  s->block.columns[field].ready = true;
  return TSR_OK;
}

/* ---- Key ranges that are too large ------------------------------------------------------------------------------------ */

typedef struct read_ordered_tie_context {
  const ordered_iterator *iterator;
  const level *level;
} read_ordered_tie_context;

static int compare_values(const void *argument, uint32_t a, uint32_t b) {
  const read_ordered_tie_context *c = argument;
  return read_ordered_compare_text(c->level, read_ordered_text_of(c->iterator, c->level, a),
                                   read_ordered_text_of(c->iterator, c->level, b));
}

static int compare_end(const ordered_iterator *s, const level *v, const tsr_pair *pair) {
  if (!v->text) return pair->key < v->end ? -1 : pair->key > v->end;
  if (!v->end_set || v->end_exclusive) return -1;
  return read_ordered_compare_text(v, read_ordered_text_of(s, v, pair->cell),
                                   (tsr_slice){v->end_text.data, v->end_text.size});
}

static bool begins_at_end(const level *v) {
  if (!v->text) return v->from == v->end;
  return v->at_set && !v->at_exclusive && v->end_set && !v->end_exclusive && v->at.size == v->end_text.size &&
         memcmp(v->at.data, v->end_text.data, v->at.size) == 0;
}

/* Does a row lie in what the key range has of a level? */
static bool lies_in_key_range(const ordered_iterator *s, uint32_t k, uint64_t row) {
  const level *v = &s->levels[k];
  if (v->nan) return true;
  if (!v->text) {
    const uint64_t key = words(&s->keys[k])[row];
    return key >= (v->single ? v->end : v->from) && key <= v->end;
  }
  const tsr_slice text = read_ordered_text_of(s, v, row), at = {v->at.data, v->at.size},
                  end = {v->end_text.data, v->end_text.size};
  const int low = v->single   ? read_ordered_compare_text(v, text, end)
                  : v->at_set ? read_ordered_compare_text(v, text, at)
                              : 1;
  const int high = v->end_set ? read_ordered_compare_text(v, text, end) : -1;
  return low >= (!v->single && v->at_exclusive) && high <= -(int)v->end_exclusive;
}

/* The inner reader does not look at the cells of a tile whose box lies within the key range. If that box is not true, its cells may lie
 * anywhere: a key range that is cut at such a cell would begin again before itself, or become shorter by one value at a time. */
static int check_row(const ordered_iterator *s, uint32_t k, uint64_t row, tsr_error *error) {
  if (lies_in_key_range(s, k, row)) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "cells lie outside the boxes that R-trees have of their tiles on dimension %s",
                   read_ordered_field_of(s, &s->levels[k])->name);
}

/* Cuts the present key range by the values of the rows gathered, sorted: 1; 0: it cannot be cut, all have one value. */
static int cut_key_range(ordered_iterator *s, const tsr_pair *pairs, tsr_error *error) {
  level *v = &s->levels[s->depth];
  uint64_t i = s->block.rows >> TSR_MIN(s->restarts, 63);
  for (i = TSR_MIN(i, s->block.rows - 1); i > 0 && compare_end(s, v, &pairs[i]) >= 0;) i--;
  const int order = compare_end(s, v, &pairs[i]);
  if (order >= 0 && begins_at_end(v)) return 0;
  if (!v->text) {
    v->end = order < 0 ? pairs[i].key : v->end - 1;
    return 1;
  }
  if (order >= 0) { /* all that came are the key range's last value: what lies before it comes first */
    v->end_exclusive = true;
    return 1;
  }
  const tsr_slice text = read_ordered_text_of(s, v, pairs[i].cell);
  v->end_set = true;
  v->end_exclusive = false;
  TSR_TRY(set_text(&v->end_text, text.bytes, text.size, error));
  return 1;
}

/* After an overflow: a smaller key range, 1, or 0. */
static int read_ordered_shrink(ordered_iterator *s, tsr_error *error) {
  const level *v = &s->levels[s->depth];
  const read_ordered_tie_context context = {s, v};
  if (v->nan) return 0;
  tsr__row_block_drop_others(&s->block, v->dimension); /* room for the pairs */
  s->pairs.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->pairs, tsr__mul_sat(2 * s->block.rows, sizeof(tsr_pair)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)s->pairs.data;
  for (uint64_t i = 0; i < s->block.rows; i++)
    pairs[i] = (tsr_pair){.key = v->text ? text_key(v, read_ordered_text_of(s, v, i)) : words(&s->keys[s->depth])[i],
                          .cell = (uint32_t)i};
  tsr__pairs_sort_ties(pairs, pairs + s->block.rows, s->block.rows, v->text ? compare_values : NULL, &context);
  TSR_TRY(check_row(s, s->depth, pairs[0].cell, error));
  TSR_TRY(check_row(s, s->depth, pairs[s->block.rows - 1].cell, error));
  s->restarts++;
  return cut_key_range(s, pairs, error);
}

/* To the next level, within one value of this one; where rows come in order as they are, they may. */
static int descend(ordered_iterator *s, tsr_error *error) {
  level *v = &s->levels[s->depth];
  v->single = true;
  s->restarts = 0;
  s->depth++;
  if (!is_natural(s, s->depth)) {
    level *next = &s->levels[s->depth];
    begin_level(s, s->depth);
    next->corners.known = false;
    if (v->corners.known && !v->nan)
      tsr__tile_starts_within(&v->corners, v->end, &v->end_text, next->dimension, next->descending, &next->corners);
    return TSR_OK;
  }
  TSR_TRY(read_ordered_make_spans(s, s->depth, error));
  memcpy(s->inner->fields, s->reader->fields,
         read_ordered_schema_of(s)->dimension_count + read_ordered_schema_of(s)->attribute_count);
  s->streaming = true;
  s->streamed = 0;
  TSR_TRY(start_inner(s, error));
  s->inner->limit = s->reader->distinct ? 1 : s->reader->limit; /* rows are given out as they come */
  return TSR_OK;
}

/* ---- Sorting ----------------------------------------------------------------------------------------------------- */

typedef struct sorting {
  const ordered_iterator *iterator;
  uint32_t from; /* the first level that keys do not decide */
} sorting;

static int read_ordered_compare_ties(const void *argument, uint32_t a, uint32_t b) {
  const sorting *t = argument;
  return read_ordered_compare_rows(t->iterator, t->from, a, b);
}

/* One key for as many levels as fit into it. */
static uint32_t pack_keys(const ordered_iterator *s, tsr_pair *pairs) {
  unsigned bits = 0;
  uint32_t k = 0;
  for (uint64_t i = 0; i < s->block.rows; i++) pairs[i] = (tsr_pair){.cell = (uint32_t)i};
  for (; k < s->level_count && !s->levels[k].text; k++) {
    const uint64_t *keys = words(&s->keys[k]);
    uint64_t low = UINT64_MAX, high = 0;
    for (uint64_t i = 0; i < s->block.rows; i++) {
      low = TSR_MIN(low, keys[i]);
      high = TSR_MAX(high, keys[i]);
    }
    const unsigned wide = high > low ? 64 - (unsigned)__builtin_clzll(high - low) : 0;
    if (bits + wide > 64) break;
    bits += wide;
    for (uint64_t i = 0; i < s->block.rows && wide > 0; i++)
      pairs[i].key = (wide < 64 ? pairs[i].key << wide : 0) | (keys[i] - low);
  }
  if (k == 0)
    for (uint64_t i = 0; i < s->block.rows; i++)
      pairs[i].key = text_key(&s->levels[0], read_ordered_text_of(s, &s->levels[0], i));
  return k;
}

static int sort_rows(ordered_iterator *s, tsr_error *error) {
  s->pairs.size = s->order.size = 0;
  TSR_TRY(tsr__buffer_reserve(&s->pairs, tsr__mul_sat(2 * s->block.rows, sizeof(tsr_pair)), error));
  TSR_TRY(tsr__buffer_reserve(&s->order, tsr__mul_sat(s->block.rows, sizeof(uint32_t)), error));
  tsr_pair *pairs = (tsr_pair *)(void *)s->pairs.data;
  uint32_t *order = (uint32_t *)(void *)s->order.data;
  const sorting how = {s, pack_keys(s, pairs)};
  const tsr_tie_breaker ties = how.from < s->level_count ? read_ordered_compare_ties : NULL;
  uint64_t i = 1;
  while (i < s->block.rows &&
         (pairs[i - 1].key < pairs[i].key ||
          (pairs[i - 1].key == pairs[i].key && (!ties || ties(&how, pairs[i - 1].cell, pairs[i].cell) <= 0))))
    i++;
  if (i < s->block.rows) tsr__pairs_sort_ties(pairs, pairs + s->block.rows, s->block.rows, ties, &how);
  s->row_count = 0;
  for (i = 0; i < s->block.rows; i++) {
    const uint32_t row = pairs[i].cell;
    if (!s->reader->distinct || i == 0 || read_ordered_compare_rows(s, 0, order[s->row_count - 1], row) != 0)
      order[s->row_count++] = row;
  }
  for (uint32_t k = 0; k <= s->depth; k++) { /* the rows between these two lie there, too */
    TSR_TRY(check_row(s, k, order[0], error));
    TSR_TRY(check_row(s, k, order[s->row_count - 1], error));
  }
  return TSR_OK;
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

/* Memory has ended while the present key range was read: a smaller one, 1; 0: of one value, which is cut along the next dimension.
 * < 0 where it is not for the rows that there is too little: what has failed says why. */
static int lower(ordered_iterator *s, tsr_error *error) {
  const uint64_t inner = atomic_load_explicit(&s->inner->memory.used, memory_order_relaxed),
                 rows = atomic_load_explicit(&s->reader->memory.used, memory_order_relaxed) - inner;
  if (s->most <= ROWS_FLOOR && (s->most == 1 || rows < s->reader->memory.limit / FLOOR_PART)) return TSR_BUDGET;
  tsr_reader_rest(s->inner, true);
  s->target = s->most = TSR_MAX(1, TSR_MIN(s->most, s->target) / ROWS_GROWTH);
  int rc = 1;
  if (s->block.rows < 2) s->restarts = 0; /* it is chosen anew */
  else rc = read_ordered_shrink(s, error);
  release_rows(s);
  return rc;
}

/* Reads the next key range that has rows: 1 (or streaming, where it is none to be sorted), 0 at the end. */
static int read_key_range(ordered_iterator *s, tsr_error *error) {
  for (;;) {
    tsr_error trouble = {0};
    TSR_TRY(tsr__environment_cancelled(s->reader->snapshot->array->environment, error));
    int rc = s->restarts > 0 ? 1 : choose_key_range(s, error);
    TSR_TRY(rc);
    if (rc == 0) {
      if (s->depth == 0) return 0;
      s->depth--;
      TSR_TRY(pass_key_range(&s->levels[s->depth], error));
      continue;
    }
    if (rc == 1) {
      TSR_TRY(read_ordered_make_spans(s, s->depth + 1, error));
      rc = read_ordered_gather(s, &trouble);
      if (rc == 1 && s->block.rows > 0 && sort_rows(s, &trouble) < 0) rc = trouble.code;
      if (rc == 1) {
        learn(s, s->block.rows);
        s->restarts = 0;
        s->target = TSR_MIN(tsr__mul_sat(s->target, ROWS_GROWTH), largest_target(s));
        TSR_TRY(pass_key_range(&s->levels[s->depth], error));
        if (s->block.rows > 0) return 1;
        continue;
      }
      s->excess = 1;
      rc = tsr__lacks_memory(rc) ? lower(s, NULL) : rc == 0 ? read_ordered_shrink(s, &trouble) : rc;
      if (rc < 0) {
        if (error) *error = trouble;
        return trouble.code;
      }
    } else {
      rc = 0;
    }
    if (rc == 0) TSR_TRY(descend(s, error));
    if (s->streaming) return 1;
  }
}

/* Rows of the key range that were all written, or none of them. */
static void give(ordered_iterator *s, tsr_batch *batch) {
  const uint32_t *order = (const uint32_t *)(const void *)s->order.data + s->row_at;
  const bool written = s->block.flags.data[order[0]];
  uint64_t count = s->row_count - s->row_at;
  if (s->block.written && s->block.unwritten)
    for (uint64_t i = 0; i < count; i++)
      if (s->block.flags.data[order[i]] != written) count = i;
  batch->count = count;
  batch->selection = order;
  batch->rowids = (const int64_t *)(const void *)s->block.rowids.data;
  batch->written = written;
  batch->fragment = TSR_FRAGMENT_NONE;
  s->given_unwritten = !written;
  if (written) batch->times = words(&s->block.times);
  s->row_at += count;
}

static int read_ordered_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  ordered_iterator *s = (ordered_iterator *)iterator;
  for (;;) {
    if (s->streaming) {
      const int rc = s->given_one ? 0 : next_inner(s, batch, error);
      if (rc > 0 && s->reader->distinct) { /* all rows of the stream are equal */
        batch->count = 1;
        s->given_one = true;
      }
      if (rc > 0) s->streamed += batch->count;
      if (rc != 0) return rc;
      s->depth--;
      if (!s->given_one) learn(s, s->streamed);
      s->streaming = s->given_one = false;
      TSR_TRY(pass_key_range(&s->levels[s->depth], error));
      s->block.rows = s->row_at = s->row_count = 0;
    }
    if (s->row_at == s->row_count) {
      const int rc = read_key_range(s, error);
      if (rc <= 0) return rc;
      if (s->streaming) continue;
    }
    give(s, batch);
    return 1;
  }
}

static int read_ordered_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  ordered_iterator *s = (ordered_iterator *)iterator;
  if (s->streaming) return s->inner->iterator->column(s->inner->iterator, field, column, error);
  if (!s->block.columns[field].ready && s->reader->distinct)
    return tsr__fail(error, TSR_ERROR, "field %u asked of distinct rows, which are not ordered by it", field);
  if (!s->block.columns[field].ready) TSR_TRY(gather_again(s, field, error));
  *column = tsr__row_block_column(&s->block, field);
  column->unwritten = s->given_unwritten && field >= read_ordered_schema_of(s)->dimension_count;
  return TSR_OK;
}

/* The tiles in hand go back; buffers stay for the next start. */
static void close_ordered(tsr_batch_iterator *iterator) {
  tsr_reader_rest(((ordered_iterator *)iterator)->inner, false);
}

static void read_ordered_release(ordered_iterator *s) {
  const tsr_schema *schema = read_ordered_schema_of(s);
  release_rows(s);
  tsr__row_block_release(&s->block);
  tsr__buffer_release(&s->kept);
  for (uint32_t d = 0; s->levels && d < schema->dimension_count; d++) {
    tsr__buffer_release(&s->levels[d].at);
    tsr__buffer_release(&s->levels[d].end_text);
  }
  tsr__free(s->levels);
  tsr__free(s->keys);
  tsr__arena_release(&s->key_range);
  tsr_reader_close(s->inner);
  tsr__free(s);
}

void tsr__read_ordered_forget(tsr_reader *reader) {
  if (reader->ordered) tsr__reader_forget(((ordered_iterator *)reader->ordered)->inner);
}

void tsr__read_ordered_free(tsr_reader *reader) {
  if (reader->ordered) read_ordered_release((ordered_iterator *)reader->ordered);
  reader->ordered = NULL;
}

static int make_source(tsr_reader *reader, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  ordered_iterator *s;
  TSR_TRY(TSR_ALLOC(&reader->memory, &s, error));
  s->base = (tsr_batch_iterator){.next = read_ordered_next, .column = read_ordered_column_of, .close = close_ordered};
  s->reader = reader;
  tsr__arena_init(&s->key_range, &reader->memory);
  s->order.memory = s->pairs.memory = s->kept.memory = &reader->memory;
  int rc = TSR_ALLOC_ARRAY(&reader->memory, n, &s->levels, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(&reader->memory, n, &s->keys, error);
  if (rc >= 0) rc = tsr__row_block_init(&s->block, schema, &reader->memory, error);
  if (rc >= 0) rc = tsr__reader_open_within(reader->snapshot, &reader->memory, &s->inner, error);
  if (rc < 0) {
    read_ordered_release(s);
    return rc;
  }
  for (uint32_t d = 0; d < n; d++)
    s->levels[d].at.memory = s->levels[d].end_text.memory = s->keys[d].memory = &reader->memory;
  reader->ordered = &s->base;
  return TSR_OK;
}

/* How many rows a key range may have, and how many the first shall have. */
static void choose_target(ordered_iterator *s, uint64_t limit) {
  const tsr_reader *reader = s->reader;
  const tsr_schema *schema = read_ordered_schema_of(s);
  uint64_t bytes = 3 * sizeof(uint64_t) + 2 * sizeof(tsr_pair) + s->level_count * sizeof(uint64_t), most = ROWS_MAX;
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    const bool wanted = reader->fields[f] || f >= schema->dimension_count; /* what is not known yet may be asked for */
    if (wanted) bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  }
  if (schema->dense) {
    const uint64_t row = tsr__mul_sat(cells_of_value(s), reader->snapshot->grid.extent[s->levels[0].dimension]);
    if (row > most && row <= TILES_MAX) most = row;
  }
  s->most = TSR_MAX(1, TSR_MIN(most, reader->memory.limit / 4 / bytes));
  s->target = ROWS_FIRST;
  if (limit > 0)
    s->target = schema->dense && reader->test_count == 0 ? limit : TSR_MAX(ROWS_MIN, tsr__mul_sat(limit, 4));
  s->target = TSR_MIN(TSR_MAX(s->target, 16), largest_target(s));
}

int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  if (!reader->ordered) TSR_TRY(make_source(reader, error));
  ordered_iterator *s = (ordered_iterator *)reader->ordered;
  s->level_count = s->depth = s->restarts = 0;
  s->excess = 1;
  s->streaming = s->given_one = false;
  for (uint32_t i = 0; i < count; i++) {
    bool again = false;
    if (order[i].dimension >= schema->dimension_count)
      return tsr__fail(error, TSR_ERROR, "an order by field %u, which is no dimension", order[i].dimension);
    for (uint32_t k = 0; k < s->level_count; k++) again |= s->levels[k].dimension == order[i].dimension;
    if (again) continue;
    s->levels[s->level_count].dimension = order[i].dimension;
    s->levels[s->level_count++].descending = order[i].descending;
  }
  clear_rows(s);
  s->block.fill_unwritten = reader->fill_unwritten;
  for (uint32_t k = 0; k < s->level_count; k++) begin_level(s, k);
  for (uint32_t k = 0; k < s->level_count; k++) s->levels[k].corners = (tsr_tile_starts){0};
  tsr__tile_starts_make(reader, s->levels[0].dimension, s->levels[0].descending, &s->levels[0].corners);
  s->cached = reader->test_count == 0 && fits_cache(s);
  choose_target(s, limit);
  *iterator = &s->base;
  return TSR_OK;
}
