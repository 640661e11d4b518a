/* key_range.c: cuts an ordered request into key ranges (ordered.c says why).
 *
 * A key range should have about `target` rows. In a dense array the number of rows is that of the selected cells, or of
 * those within the written boxes if cells that were never written are left out; the range ends at a space tile's border
 * if it can. In a sparse array the number of rows is predicted from where the tiles of the plan begin. A value that
 * alone has too many cells, or is better streamed, is cut along the next level: the next dimension of the order.
 *
 * Tile starts. For numbers, cells are assumed to be spread evenly over their tile's MBR, so a key range gets a slice of
 * the rows of each tile that it meets. If that is wrong, key ranges have more rows or fewer; nothing else depends on
 * it. For strings, a key range ends where a tile begins. If a single value has many more rows, ordered.c cuts along the
 * next dimension, for which tile_starts_within collects the tiles that may hold this value.
 *
 * "Directed" keys are order keys, complemented if the order descends, so that they always ascend along the order.
 * "Begin" and "end" follow the direction of the order, too.
 *
 * Sections: tile starts (strings, numbers, collecting); levels; key ranges of dense arrays, of sparse arrays; the next
 * key range; targets and levels; a request.
 */
#include "read/reader.h"

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "base/sort.h"
#include "environment/cache.h"

static uint64_t tile_starts_directed(const tsr_tile_starts *starts, uint64_t key) {
  return starts->descending ? ~key : key;
}

static const tsr_fragment_metadata *metadata_of(const tsr_tile_starts *starts, const tsr_pair *tile_start) {
  return &starts->reader->snapshot->fragments[starts->reader->plan.tiles[tile_start->cell].fragment].fragment->metadata;
}

static uint64_t tile_starts_cells_of(const tsr_tile_starts *starts, const tsr_pair *tile_start) {
  return tsr__fragment_tile_cells(metadata_of(starts, tile_start), starts->reader->plan.tiles[tile_start->cell].tile);
}

/* Returns the index, in the arrays of the R-tree's leaves, of the bound at which a tile begins, or ends (`end`). */
static uint64_t tile_starts_place_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end) {
  const uint64_t tile = starts->reader->plan.tiles[tile_start->cell].tile;
  return (tile * metadata_of(starts, tile_start)->rtree->dimensions + starts->dimension) * 2 +
         (starts->descending != end);
}

static uint64_t key_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end) {
  const tsr_rtree *rtree = metadata_of(starts, tile_start)->rtree;
  return tile_starts_directed(starts, rtree->keys[rtree->levels - 1][tile_starts_place_of(starts, tile_start, end)]);
}

/* ---- Tile starts: strings --------------------------------------------------------------------------------------- */

static const uint8_t *tile_starts_text_of(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end,
                                          uint64_t *size) {
  const tsr_rtree *rtree = metadata_of(starts, tile_start)->rtree;
  const uint64_t at = tile_starts_place_of(starts, tile_start, end);
  *size = rtree->sizes[rtree->levels - 1][at];
  return rtree->text + rtree->keys[rtree->levels - 1][at];
}

static int tile_starts_compare_text(const tsr_tile_starts *starts, const tsr_pair *tile_start, bool end,
                                    const uint8_t *bytes, uint64_t size) {
  uint64_t own_size;
  const uint8_t *own = tile_starts_text_of(starts, tile_start, end, &own_size);
  const int order = tsr__bytes_compare(own, own_size, bytes, size);
  return starts->descending ? -order : order;
}

static int tile_starts_compare(const void *argument, uint32_t a, uint32_t b) {
  uint64_t size;
  const tsr_pair one = {.cell = a}, other = {.cell = b};
  const uint8_t *bytes = tile_starts_text_of(argument, &other, false, &size);
  return tile_starts_compare_text(argument, &one, false, bytes, size);
}

/* For a dimension of strings: returns the string before which a key range should end that begins at `from` (after it,
 * if `exclusive`; NULL: at the first tile). This is the start of the next tile after tiles with at least `rows` cells;
 * NULL: the key range should be open-ended. If the tiles that hold nothing but the first string of the key range have
 * more than `many` cells, returns that string instead and sets *single. The string is borrowed from the R-tree. */
static const uint8_t *tile_starts_next_text(tsr_tile_starts *starts, const tsr_buffer *from, bool exclusive,
                                            uint64_t rows, uint64_t many, uint64_t *size, bool *single) {
  uint64_t cells = 0, equal = 0, first_size;
  *single = false;
  for (; from && starts->at < starts->count; starts->at++) {
    const int order = tile_starts_compare_text(starts, &starts->tiles[starts->at], false, from->data, from->size);
    if (order > 0 || (order == 0 && !exclusive)) break;
  }
  if (starts->at == starts->count) return NULL;
  const uint8_t *first = tile_starts_text_of(starts, &starts->tiles[starts->at], false, &first_size);
  /* true if the key range begins at the start of this tile, so that it holds all cells with that string */
  const bool begins = !from || (!exclusive && tile_starts_compare_text(starts, &starts->tiles[starts->at], false,
                                                                       from->data, from->size) == 0);
  for (uint64_t i = starts->at; i < starts->count; i++) {
    const tsr_pair *tile_start = &starts->tiles[i];
    if (begins && tile_starts_compare_text(starts, tile_start, false, first, first_size) == 0) {
      if (tile_starts_compare_text(starts, tile_start, true, first, first_size) == 0)
        equal += tile_starts_cells_of(starts, tile_start);
      if (equal > many) {
        *single = true;
        *size = first_size;
        return first;
      }
    } else if (cells >= rows) {
      return tile_starts_text_of(starts, tile_start, false, size);
    }
    cells += tile_starts_cells_of(starts, tile_start);
  }
  return NULL;
}

/* ---- Tile starts: numbers --------------------------------------------------------------------------------------- */

static double tile_starts_float_of(const tsr_tile_starts *starts, uint64_t key) {
  uint8_t value[sizeof(double)];
  float narrow;
  double wide;
  tsr__key_value(starts->field->datatype, tile_starts_directed(starts, key), value);
  memcpy(&narrow, value, sizeof narrow);
  memcpy(&wide, value, sizeof wide);
  return starts->field->datatype == TSR_FLOAT32 ? (double)narrow : wide;
}

/* Returns the fraction of low..high that lies in from..end. The two must meet. */
static double part_of(const tsr_tile_starts *starts, uint64_t low, uint64_t high, uint64_t from, uint64_t end) {
  from = TSR_MAX(low, from);
  end = TSR_MIN(high, end);
  if (from == low && end == high) return 1;
  if (tsr_datatype_kind(starts->field->datatype) == TSR_KIND_FLOAT) {
    const double width = fabs(tile_starts_float_of(starts, high) - tile_starts_float_of(starts, low));
    if (isfinite(width) && width > 0)
      return fabs(tile_starts_float_of(starts, end) - tile_starts_float_of(starts, from)) / width;
  }
  return ((double)(end - from) + 1) / ((double)(high - low) + 1);
}

/* Returns the expected number of rows in from..end, from the tiles that have begun and the next `ahead` tiles. */
static double expected_rows(const tsr_tile_starts *starts, uint64_t ahead, uint64_t from, uint64_t end) {
  double rows = 0;
  for (uint64_t i = starts->first; i < starts->at + ahead && starts->tiles[i].key <= end; i++) {
    const double part = part_of(starts, starts->tiles[i].key, key_of(starts, &starts->tiles[i], true), from, end);
    rows += part * (double)tile_starts_cells_of(starts, &starts->tiles[i]);
  }
  return rows;
}

/* Steps to `from`: adds the tiles that have begun by then, and forgets those that have ended. */
static void tile_starts_pass(tsr_tile_starts *starts, uint64_t from) {
  while (starts->at < starts->count && starts->tiles[starts->at].key <= from) starts->at++;
  uint64_t kept = starts->at;
  for (uint64_t i = starts->at; i-- > starts->first;)
    if (key_of(starts, &starts->tiles[i], true) >= from) starts->tiles[--kept] = starts->tiles[i];
  starts->first = kept;
}

/* Returns the first directed key, from `from` on, that may have rows. */
static uint64_t tile_starts_begin(tsr_tile_starts *starts, uint64_t from) {
  tile_starts_pass(starts, from);
  return starts->first < starts->at || starts->at == starts->count ? from : starts->tiles[starts->at].key;
}

/* Returns the directed key up to which, from `from` on, about `rows` rows are expected; UINT64_MAX if fewer are
 * left. */
static uint64_t tile_starts_next(tsr_tile_starts *starts, uint64_t from, uint64_t rows) {
  uint64_t ahead = 1, low = from, high = UINT64_MAX;
  tile_starts_pass(starts, from);
  const uint64_t left = starts->count - starts->at;
  while (ahead < left && expected_rows(starts, ahead, from, starts->tiles[starts->at + ahead].key) < (double)rows)
    ahead *= 2;
  if (ahead < left) high = starts->tiles[starts->at + ahead].key;
  else if (expected_rows(starts, left, from, high) <= (double)rows) return high;
  while (low < high) { /* binary search for the first key with so many rows */
    const uint64_t middle = low + (high - low) / 2;
    if (expected_rows(starts, TSR_MIN(ahead, left), from, middle) < (double)rows) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Returns true if more than `rows` rows are expected at the single directed key `key`, to which tile_starts_next has
 * advanced. */
static bool tile_starts_exceed(const tsr_tile_starts *starts, uint64_t key, uint64_t rows) {
  return expected_rows(starts, starts->count - starts->at, key, key) > (double)rows;
}

/* ---- Tile starts: collecting ------------------------------------------------------------------------------------ */

static void tile_starts_add(tsr_tile_starts *starts, uint32_t tile) {
  tsr_pair *tile_start = &starts->tiles[starts->count++];
  uint64_t size;
  tile_start->cell = tile;
  if (starts->field->values_per_cell == TSR_VARIABLE) {
    const uint8_t *bytes = tile_starts_text_of(starts, tile_start, false, &size);
    tile_start->key = tile_starts_directed(starts, tsr__text_prefix(bytes, size));
  } else {
    tile_start->key = key_of(starts, tile_start, false);
  }
}

static void tile_starts_sort(tsr_tile_starts *starts) {
  const bool text = starts->field->values_per_cell == TSR_VARIABLE;
  tsr__pairs_sort_ties(starts->tiles, starts->tiles + starts->count, starts->count, text ? tile_starts_compare : NULL,
                       starts);
}

/* Makes room for `count` tiles, and for sorting them. Doubles, since the arena does not take the old array back.
 * Returns false if memory runs out. */
static bool tile_starts_reserve(tsr_tile_starts *starts, uint64_t count) {
  const uint64_t capacity = TSR_MIN(TSR_MAX(count, 2 * starts->capacity), starts->reader->plan.tile_count);
  tsr_pair *memory;
  if (count <= starts->capacity) return true;
  if (TSR_ARENA_ARRAY(&starts->reader->arena, 2 * capacity, &memory, NULL) < 0) return false;
  starts->tiles = memory;
  starts->capacity = capacity;
  return true;
}

/* Collects the tiles of the reader's plan, in memory that lasts until the reader's next start. If memory runs out, the
 * result is not `known`. */
static void tile_starts_make(tsr_reader *reader, uint32_t dimension, bool descending, tsr_tile_starts *starts) {
  const tsr_plan *plan = &reader->plan;
  const tsr_field *field = &reader->snapshot->schema->fields[dimension];
  *starts = (tsr_tile_starts){.reader = reader, .field = field, .dimension = dimension, .descending = descending};
  if (reader->snapshot->schema->dense || plan->lossy || plan->tile_count >= UINT32_MAX) return;
  if (!(starts->known = tile_starts_reserve(starts, plan->tile_count))) return;
  for (uint32_t i = 0; i < plan->tile_count; i++) tile_starts_add(starts, i);
  tile_starts_sort(starts);
}

/* Relates a tile to a value of the outer dimension: 0 if its MBR contains the value, 1 if it begins after it, -1 if it
 * ends before it. */
static int tile_starts_relate(const tsr_tile_starts *outer, const tsr_pair *tile_start, uint64_t key,
                              const tsr_buffer *text) {
  if (outer->field->values_per_cell != TSR_VARIABLE)
    return key_of(outer, tile_start, false) > key ? 1 : -(key_of(outer, tile_start, true) < key);
  return tile_starts_compare_text(outer, tile_start, false, text->data, text->size) > 0
             ? 1
             : -(tile_starts_compare_text(outer, tile_start, true, text->data, text->size) < 0);
}

/* Collects, along another dimension, the tiles of `outer` whose MBRs contain one value of outer's dimension: a directed
 * key or a string. `starts` must be zeroed, or made by an earlier call for the same dimension; then its memory is
 * reused. */
static void tile_starts_within(const tsr_tile_starts *outer, uint64_t key, const tsr_buffer *text, uint32_t dimension,
                               bool descending, tsr_tile_starts *starts) {
  uint64_t count = 0, end = outer->first;
  starts->reader = outer->reader;
  starts->field = &starts->reader->snapshot->schema->fields[dimension];
  starts->dimension = dimension;
  starts->descending = descending;
  for (int where; end < outer->count && (where = tile_starts_relate(outer, &outer->tiles[end], key, text)) <= 0; end++)
    count += where == 0;
  starts->count = starts->first = starts->at = 0;
  if (!(starts->known = tile_starts_reserve(starts, count))) return;
  for (uint64_t i = outer->first; i < end; i++)
    if (tile_starts_relate(outer, &outer->tiles[i], key, text) == 0) tile_starts_add(starts, outer->tiles[i].cell);
  tile_starts_sort(starts);
}

/* ---- Key ranges ------------------------------------------------------------------------------------------------- */

#define ROWS_FIRST      4096u /* rows of the first key range, if the request has no limit */
#define ROWS_MIN        256u /* least target of the first key range of a sparse array */
#define ROWS_MAX        (UINT64_C(1) << 20) /* most rows of a key range, except a dense array's row of space tiles */
#define TILES_MAX       (UINT64_C(1) << 22) /* most cells of such a row of space tiles */
#define ROWS_GROWTH     4u /* factor by which key ranges grow, and shrink if memory runs out */
#define ROWS_FEW        64u /* a key range with less than 1/ROWS_FEW of its target has few rows */
#define TEXT_GUESS      40u /* expected bytes of a variable value */
#define BOXES_STEPS_MAX 64u /* most steps from one written box to the next for one key range */
#define STREAM_CELLS    256u /* a value needs so many cells to be worth a stream, which starts the inner reader */

static const tsr_schema *schema_of(const tsr_key_ranges *r) { return r->reader->snapshot->schema; }

static const tsr_field *field_of(const tsr_key_ranges *r, const tsr_key_level *v) {
  return &schema_of(r)->fields[v->dimension];
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

int tsr__key_text_set(tsr_buffer *buffer, const void *bytes, uint64_t size, tsr_error *error) {
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, size + 1, error)); /* not NULL even for an empty string */
  return tsr__buffer_append(buffer, bytes, size, error);
}

static void begin_level(tsr_key_ranges *r, uint32_t k) {
  tsr_key_level *v = &r->levels[k];
  const tsr_field *field = field_of(r, v);
  v->text = field->values_per_cell == TSR_VARIABLE;
  v->nans = r->reader->plan.spans[v->dimension].all && tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
  v->numbers = true;
  v->from = tsr__directed_key(v, v->descending ? tsr__key_max(field->datatype) : tsr__key_min(field->datatype));
  v->at_set = v->nan = v->single = false;
}

int tsr__key_ranges_pass(tsr_key_ranges *r, tsr_error *error) {
  tsr_key_level *v = &r->levels[r->depth];
  v->single = false;
  if (v->nan) {
    v->nan = v->nans = false;
  } else if (v->text) {
    v->numbers = v->end_set;
    if (v->end_set) TSR_TRY(tsr__key_text_set(&v->at, v->end_text.data, v->end_text.size, error));
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
static int clip(tsr_key_ranges *r, const tsr_key_level *v, tsr_spans *out, tsr_error *error) {
  const tsr_field *field = field_of(r, v);
  const tsr_spans *all = &r->reader->plan.spans[v->dimension];
  if (v->nan) {
    *out = (tsr_spans){.floats = true, .nans = true};
    return TSR_OK;
  }
  if (!v->text) {
    const uint64_t from = v->single ? v->end : v->from;
    const uint64_t low = v->descending ? ~v->end : from, high = v->descending ? ~from : v->end;
    return tsr__spans_clip(field, all, low, high, &r->arena, out, error);
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
  return tsr__spans_clip_text(field, all, &range, &r->arena, out, error);
}

int tsr__key_ranges_spans(tsr_key_ranges *r, uint32_t levels, tsr_error *error) {
  const uint32_t n = schema_of(r)->dimension_count;
  tsr__arena_reset(&r->arena);
  TSR_TRY(TSR_ARENA_ARRAY(&r->arena, n, &r->spans, error));
  memcpy(r->spans, r->reader->plan.spans, n * sizeof(tsr_spans));
  for (uint32_t k = 0; k < levels; k++) TSR_TRY(clip(r, &r->levels[k], &r->spans[r->levels[k].dimension], error));
  return TSR_OK;
}

/* ---- Key ranges of dense arrays ---------------------------------------------------------------------------------- */

/* Returns the number of selected cells that have one value on the current level and on each level above. */
static uint64_t cells_of_value(const tsr_key_ranges *r) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < schema_of(r)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= r->depth; k++) fixed |= r->levels[k].dimension == d;
    if (!fixed) cells = tsr__mul_sat(cells, tsr__dimension_selection_values(&r->reader->plan.selections[d]));
  }
  return cells;
}

/* Returns the rank of a dimension in cell order, 0 for the slowest; tile order must be the same. */
static uint32_t place_of(const tsr_key_ranges *r, uint32_t d) {
  const tsr_grid *grid = &r->reader->snapshot->grid;
  return grid->col_major_cells ? grid->dimensions - 1 - d : d;
}

/* Returns true if, within single values of the levels before `from`, cells come in the order of the other levels
 * without sorting. The single values must belong to the slowest dimensions, and only the slowest of the others may span
 * several tiles. */
static bool comes_in_order(const tsr_key_ranges *r, uint32_t from) {
  const tsr_grid *grid = &r->reader->snapshot->grid;
  const tsr_plan *plan = &r->reader->plan;
  if (from == r->level_count) return true;
  if (!schema_of(r)->dense || grid->col_major_cells != grid->col_major_tiles || plan->box_count != 1 ||
      plan->boxes[0].sparse)
    return false;
  for (uint32_t k = 0; k < r->level_count; k++)
    if (k < from ? place_of(r, r->levels[k].dimension) >= from
                 : place_of(r, r->levels[k].dimension) != k || r->levels[k].descending)
      return false;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &plan->selections[d];
    const uint64_t low = selected->spans[0].low, high = selected->spans[selected->count - 1].high;
    if (low < plan->boxes[0].low[d] || high > plan->boxes[0].high[d]) return false;
    if (place_of(r, d) > from && low / grid->extent[d] != high / grid->extent[d]) return false;
  }
  return true;
}

/* Returns true if each value of the current level is better streamed separately. */
static bool is_streamed(const tsr_key_ranges *r) {
  if (!r->cached || r->depth + 1 == schema_of(r)->dimension_count || cells_of_value(r) < STREAM_CELLS) return false;
  for (uint32_t k = 0; k <= r->depth; k++)
    if (place_of(r, r->levels[k].dimension) > r->depth) return false;
  return comes_in_order(r, r->depth + 1);
}

/* Returns true if the tiles that one value of the slowest dimension needs take at most half of the cache. */
static bool fits_cache(const tsr_key_ranges *r) {
  const tsr_schema *schema = schema_of(r);
  const tsr_array *array = r->reader->snapshot->array;
  const tsr_grid *grid = &r->reader->snapshot->grid;
  uint64_t bytes = 0;
  if (!schema->dense || array->uncached || grid->col_major_cells != grid->col_major_tiles) return false;
  for (uint32_t f = schema->dimension_count; f < schema->dimension_count + schema->attribute_count; f++)
    bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  bytes = tsr__mul_sat(tsr__mul_sat(bytes, grid->tile_cells), TSR_MAX(1, r->reader->plan.box_count));
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_dimension_selection *selected = &r->reader->plan.selections[d];
    const uint64_t tiles =
        selected->spans[selected->count - 1].high / grid->extent[d] - selected->spans[0].low / grid->extent[d];
    if (place_of(r, d) > 0) bytes = tsr__mul_sat(bytes, tiles + 1);
  }
  return bytes <= tsr__cache_limit(array->cache) / 2;
}

/* If the key range meets several space tiles, shortens it to end with a tile. */
static void end_with_tile(const tsr_key_ranges *r, tsr_key_level *v) {
  const tsr_grid *grid = &r->reader->snapshot->grid;
  const uint64_t base = grid->low_key[v->dimension], extent = grid->extent[v->dimension];
  const uint64_t a = tsr__directed_key(v, v->from) - base, b = tsr__directed_key(v, v->end) - base; /* ordinals */
  if (!v->descending && b / extent > a / extent && (b + 1) % extent != 0)
    v->end = tsr__directed_key(v, base + b / extent * extent - 1);
  if (v->descending && a / extent > b / extent && b % extent != 0)
    v->end = tsr__directed_key(v, base + (b / extent + 1) * extent);
}

/* Makes a key range of the next `values` selected values from v->from on, rounded down to whole tiles if it meets
 * several. Returns false if none is left. */
static bool take_values(const tsr_key_ranges *r, tsr_key_level *v, uint64_t values) {
  const tsr_grid *grid = &r->reader->snapshot->grid;
  const tsr_dimension_selection *selected = &r->reader->plan.selections[v->dimension];
  const uint64_t base = grid->low_key[v->dimension];
  uint64_t first = 0, end = 0;
  bool any = false;
  for (uint64_t i = 0; i < selected->count && values > 0; i++) {
    const tsr_span *span = &selected->spans[v->descending ? selected->count - 1 - i : i];
    const uint64_t low = base + span->low, high = base + span->high; /* keys */
    uint64_t from = tsr__directed_key(v, v->descending ? high : low),
             to = tsr__directed_key(v, v->descending ? low : high);
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
  end_with_tile(r, v);
  return true;
}

/* Returns true if a written box contains the single values of the levels above. */
static bool meets_single_values(const tsr_key_ranges *r, const tsr_written_box *written) {
  for (uint32_t k = 0; k < r->depth; k++) {
    const tsr_key_level *v = &r->levels[k];
    const uint64_t ordinal = tsr__directed_key(v, v->end) - r->reader->snapshot->grid.low_key[v->dimension];
    if (ordinal < written->low[v->dimension] || ordinal > written->high[v->dimension]) return false;
  }
  return true;
}

/* Returns the number of selected cells that a written box has for one value of the current level. */
static uint64_t cells_of_written_box(const tsr_key_ranges *r, const tsr_written_box *written) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < schema_of(r)->dimension_count; d++) {
    bool fixed = false;
    for (uint32_t k = 0; k <= r->depth; k++) fixed |= r->levels[k].dimension == d;
    if (!fixed)
      cells = tsr__mul_sat(cells, tsr__dimension_selection_values_within(&r->reader->plan.selections[d],
                                                                         written->low[d], written->high[d]));
  }
  return cells;
}

/* What the written boxes hold on the current level, from a directed key on. */
typedef struct written_cells {
  bool any; /* some written box holds this key, or a later one */
  uint64_t next; /* the first such key that a written box holds */
  uint64_t cells; /* cells that the written boxes hold at the starting key */
  uint64_t until; /* `cells` is the same up to this directed key */
} written_cells;

static written_cells find_written(const tsr_key_ranges *r, const tsr_key_level *v, uint64_t at) {
  const tsr_plan *plan = &r->reader->plan;
  const uint64_t base = r->reader->snapshot->grid.low_key[v->dimension];
  written_cells found = {.next = UINT64_MAX, .until = UINT64_MAX};
  for (uint64_t i = 0; i < plan->written_box_count; i++) {
    const tsr_written_box *written = &plan->written_boxes[i];
    const uint64_t low = base + written->low[v->dimension], high = base + written->high[v->dimension];
    const uint64_t from = tsr__directed_key(v, v->descending ? high : low),
                   to = tsr__directed_key(v, v->descending ? low : high);
    if (to < at || !meets_single_values(r, written)) continue;
    found.any = true;
    found.next = TSR_MIN(found.next, TSR_MAX(from, at));
    found.until = TSR_MIN(found.until, from > at ? from - 1 : to);
    if (from <= at) found.cells = tsr__add_sat(found.cells, cells_of_written_box(r, written));
  }
  found.cells = TSR_MIN(found.cells, cells_of_value(r)); /* written boxes may overlap */
  return found;
}

/* Returns the last directed key of a key range that begins at `at` and has about r->target rows; at most v->end. */
static uint64_t find_end(const tsr_key_ranges *r, const tsr_key_level *v, uint64_t at) {
  uint64_t rows = 0, end = at;
  for (uint32_t steps = 0; steps < BOXES_STEPS_MAX; steps++) {
    const written_cells here = find_written(r, v, at);
    const uint64_t fit = here.cells > 0 ? (r->target - rows) / here.cells : UINT64_MAX;
    if (!here.any || fit == 0) break;
    end = TSR_MIN(here.until, tsr__add_sat(at, fit - 1));
    rows = tsr__add_sat(rows, tsr__mul_sat(end - at + 1, here.cells));
    if (end < here.until || end >= v->end || rows >= r->target) break;
    at = end + 1;
  }
  return TSR_MIN(end, v->end);
}

/* Chooses the next key range if cells that were never written are left out. Returns as tsr__key_ranges_choose does. */
static int choose_covered(const tsr_key_ranges *r, tsr_key_level *v) {
  written_cells here;
  do {
    here = find_written(r, v, v->from);
    v->from = here.next;
    if (!here.any || !take_values(r, v, UINT64_MAX)) return 0;
  } while (v->from != here.next); /* the request selects nothing there: go on from its next value */
  if (find_written(r, v, v->from).cells > r->target) {
    v->end = v->from;
    return 2;
  }
  v->end = find_end(r, v, v->from);
  end_with_tile(r, v);
  return 1;
}

/* ---- Key ranges of sparse arrays --------------------------------------------------------------------------------- */

/* Steps v->from to the first value that the request selects. */
static void skip_unselected(const tsr_key_ranges *r, tsr_key_level *v) {
  const tsr_spans *spans = &r->reader->plan.spans[v->dimension];
  for (uint64_t i = 0; !spans->all && i < spans->count; i++) {
    const tsr_span *span = &spans->spans[v->descending ? spans->count - 1 - i : i];
    if (tsr__directed_key(v, v->descending ? span->low : span->high) < v->from) continue;
    v->from = TSR_MAX(v->from, tsr__directed_key(v, v->descending ? span->high : span->low));
    return;
  }
}

/* Chooses a key range of about r->target rows by the tile starts. Returns as tsr__key_ranges_choose does. */
static int choose_by_tile_starts(tsr_key_ranges *r, tsr_key_level *v, tsr_error *error) {
  const uint64_t rows = tsr__mul_sat(r->target, r->overestimate), many = tsr__mul_sat(rows, ROWS_GROWTH);
  uint64_t size = 0;
  bool single;
  if (!v->text) {
    v->from = tile_starts_begin(&v->starts, v->from);
    skip_unselected(r, v);
    v->end = tile_starts_next(&v->starts, v->from, rows);
    return v->end == v->from && tile_starts_exceed(&v->starts, v->end, many) ? 2 : 1;
  }
  const uint8_t *text =
      tile_starts_next_text(&v->starts, v->at_set ? &v->at : NULL, v->at_exclusive, rows, many, &size, &single);
  v->end_set = text != NULL;
  v->end_exclusive = text && !single;
  if (text) TSR_TRY(tsr__key_text_set(&v->end_text, text, size, error));
  return single ? 2 : 1;
}

void tsr__key_ranges_note(tsr_key_ranges *r, uint64_t rows) {
  if (r->restarts == 0 && !r->levels[r->depth].nan && (rows == 0 || rows < r->target / ROWS_FEW))
    r->overestimate = tsr__mul_sat(r->overestimate, ROWS_GROWTH);
}

/* ---- The next key range ------------------------------------------------------------------------------------------ */

/* Returns the largest target. In sparse arrays the number of rows is a guess, so this leaves a margin. */
static uint64_t largest_target(const tsr_key_ranges *r) {
  return schema_of(r)->dense ? r->rows_max : r->rows_max - r->rows_max / 4;
}

int tsr__key_ranges_choose(tsr_key_ranges *r, tsr_error *error) {
  tsr_key_level *v = &r->levels[r->depth];
  v->nan = v->nans && (!v->descending || !v->numbers);
  if (v->nan) return 1;
  if (!v->numbers) return 0;
  v->end = UINT64_MAX;
  v->end_set = v->end_exclusive = false;
  if (schema_of(r)->dense) {
    const uint64_t cells = cells_of_value(r);
    const bool streamed = is_streamed(r), single = cells > r->target || streamed;
    if (!r->reader->request.gives_unwritten && !streamed) {
      const int rc = choose_covered(r, v);
      if (rc != 0) return rc;
    } else if (take_values(r, v, single ? 1 : r->target / TSR_MAX(1, cells))) {
      return single ? 2 : 1;
    }
    v->numbers = false;
    return 0;
  }
  return v->starts.known ? choose_by_tile_starts(r, v, error) : 1;
}

/* ---- Targets and levels ------------------------------------------------------------------------------------------ */

void tsr__key_ranges_shrink(tsr_key_ranges *r) {
  r->target = r->rows_max = TSR_MAX(1, TSR_MIN(r->rows_max, r->target) / ROWS_GROWTH);
}

void tsr__key_ranges_grow(tsr_key_ranges *r) {
  r->restarts = 0;
  r->target = TSR_MIN(tsr__mul_sat(r->target, ROWS_GROWTH), largest_target(r));
}

bool tsr__key_ranges_descend(tsr_key_ranges *r) {
  tsr_key_level *v = &r->levels[r->depth];
  v->single = true;
  r->restarts = 0;
  r->depth++;
  if (comes_in_order(r, r->depth)) return true;
  tsr_key_level *next = &r->levels[r->depth];
  begin_level(r, r->depth);
  next->starts.known = false;
  if (v->starts.known && !v->nan)
    tile_starts_within(&v->starts, v->end, &v->end_text, next->dimension, next->descending, &next->starts);
  return false;
}

/* ---- A request --------------------------------------------------------------------------------------------------- */

/* Chooses how many rows a key range may have, and how many the first one should have. */
static void choose_target(tsr_key_ranges *r, uint64_t limit) {
  const tsr_reader *reader = r->reader;
  const tsr_schema *schema = schema_of(r);
  uint64_t bytes = 3 * sizeof(uint64_t) + 2 * sizeof(tsr_pair) + r->level_count * sizeof(uint64_t), most = ROWS_MAX;
  for (uint32_t f = 0; f < schema->dimension_count + schema->attribute_count; f++) {
    const bool counts = reader->request.fields[f] || f >= schema->dimension_count; /* any attribute may be read later */
    if (counts) bytes = tsr__add_sat(bytes, schema->fields[f].cell_size ? schema->fields[f].cell_size : TEXT_GUESS);
  }
  if (schema->dense) {
    const uint64_t row = tsr__mul_sat(cells_of_value(r), reader->snapshot->grid.extent[r->levels[0].dimension]);
    if (row > most && row <= TILES_MAX) most = row;
  }
  r->rows_max = TSR_MAX(1, TSR_MIN(most, reader->memory.limit / 4 / bytes));
  r->target = ROWS_FIRST;
  if (limit > 0)
    r->target = schema->dense && reader->predicates.count == 0 ? limit : TSR_MAX(ROWS_MIN, tsr__mul_sat(limit, 4));
  r->target = TSR_MIN(TSR_MAX(r->target, 16), largest_target(r));
}

int tsr__key_ranges_init(tsr_key_ranges *r, tsr_reader *reader, tsr_error *error) {
  const uint32_t n = reader->snapshot->schema->dimension_count;
  *r = (tsr_key_ranges){.reader = reader};
  tsr__arena_init(&r->arena, &reader->memory);
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &r->levels, error));
  for (uint32_t d = 0; d < n; d++) r->levels[d].at.memory = r->levels[d].end_text.memory = &reader->memory;
  return TSR_OK;
}

void tsr__key_ranges_release(tsr_key_ranges *r) {
  for (uint32_t d = 0; r->levels && d < schema_of(r)->dimension_count; d++) {
    tsr__buffer_release(&r->levels[d].at);
    tsr__buffer_release(&r->levels[d].end_text);
  }
  tsr__free(r->levels);
  tsr__arena_release(&r->arena);
}

int tsr__key_ranges_begin(tsr_key_ranges *r, const tsr_sort *order, uint32_t count, uint64_t limit, tsr_error *error) {
  r->level_count = r->depth = r->restarts = 0;
  r->overestimate = 1;
  for (uint32_t i = 0; i < count; i++) {
    bool repeated = false;
    if (order[i].dimension >= schema_of(r)->dimension_count)
      return tsr__fail(error, TSR_ERROR, "an order by field %u, which is not a dimension", order[i].dimension);
    for (uint32_t k = 0; k < r->level_count; k++) repeated |= r->levels[k].dimension == order[i].dimension;
    if (repeated) continue;
    r->levels[r->level_count].dimension = order[i].dimension;
    r->levels[r->level_count++].descending = order[i].descending;
  }
  for (uint32_t k = 0; k < r->level_count; k++) begin_level(r, k);
  for (uint32_t k = 0; k < r->level_count; k++) r->levels[k].starts = (tsr_tile_starts){0};
  tile_starts_make(r->reader, r->levels[0].dimension, r->levels[0].descending, &r->levels[0].starts);
  r->cached = r->reader->predicates.count == 0 && fits_cache(r);
  choose_target(r, limit);
  return TSR_OK;
}
