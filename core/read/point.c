/* point.c: some neighbouring cells of a dense array: one, as look-ups and joins request it, or those around a point.
 *
 * A request for a box of at most POINT_CELLS cells within one tile needs neither a plan nor a window. If the newest
 * fragment that meets the box has all of it, that one owns the cells; the tile and the positions in it follow from the
 * fragment's grid. The tile loads when one of its columns is read. dense.c handles the rest: cells that were never
 * written, or by several fragments, arrays with sparse fragments, and requests with predicates or an order.
 */
#include "read/reader.h"

#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "environment/environment.h"

#define POINT_CELLS 64u
#define POINT_SPAN  65536u /* from the first to the last of them in the tile, at most */

typedef struct point_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  tsr_pinned_tile *pinned; /* owned */
  bool given; /* the one batch has been handed out */
  uint32_t count;
  uint32_t *cells; /* [count]: their indices from the first one on */
  uint64_t *low, *high; /* by dimension: ordinals */
} point_iterator;

/* Equal bytes are equal values; of floats others may be, too. Both ends of a range are often the same pointer. */
static bool is_same_value(const tsr_field *field, const void *a, uint64_t a_size, const void *b, uint64_t b_size) {
  if (a == b && a_size == b_size) return true;
  if (!field->cell_size) return tsr__bytes_compare(a, a_size, b, b_size) == 0;
  return memcmp(a, b, field->cell_size) == 0 || (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT &&
                                                 tsr__key(field->datatype, a) == tsr__key(field->datatype, b));
}

const tsr_range *tsr__single_value(const tsr_field *field, const tsr_ranges *ranges) {
  const tsr_range *value = NULL;
  for (; ranges; ranges = ranges->also) { /* all of them must hold */
    if (ranges->all) continue;
    const tsr_range *range = ranges->ranges;
    if (ranges->count != 1 || !range->low || !range->high || range->low_exclusive || range->high_exclusive) return NULL;
    if (!is_same_value(field, range->low, range->low_size, range->high, range->high_size)) return NULL;
    if (value && !is_same_value(field, value->low, value->low_size, range->low, range->low_size)) return NULL;
    value = range;
  }
  return value;
}

/* Returns the range of a dimension that a request selects, if it is one with two ends that belong to it; else NULL. */
static const tsr_range *closed_range(const tsr_field *field, const tsr_ranges *ranges) {
  while (ranges->all && ranges->also) ranges = ranges->also; /* as a table's only term on the dimension comes */
  const tsr_range *range = ranges->ranges;
  if (ranges->also) return tsr__single_value(field, ranges);
  if (ranges->all || ranges->count != 1 || !range->low || !range->high || range->low_exclusive || range->high_exclusive)
    return NULL;
  return range;
}

/* Finds the ordinals of the requested box, and counts its cells. Returns false if there are too many, or it is no box
 * within one tile and the array's non-empty domain. */
static bool find_box(const tsr_snapshot *snapshot, const tsr_ranges *dimensions, point_iterator *it) {
  const tsr_grid *grid = &snapshot->grid;
  it->count = 1;
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    const tsr_field *field = &snapshot->schema->fields[d];
    const tsr_range *range = closed_range(field, &dimensions[d]);
    if (!range) return false;
    /* a key below the domain wraps to an ordinal above every box */
    const uint64_t low = tsr__key(field->datatype, range->low) - grid->low_key[d];
    const uint64_t high = range->high == range->low ? low : tsr__key(field->datatype, range->high) - grid->low_key[d];
    if (low > high || low < snapshot->domain.box_low[d] || high > snapshot->domain.box_high[d]) return false;
    it->low[d] = low;
    it->high[d] = high;
    if (low == high) continue;
    if (high - low >= POINT_CELLS || low / grid->extent[d] != high / grid->extent[d]) return false;
    it->count *= (uint32_t)(high - low + 1);
    if (it->count > POINT_CELLS) return false;
  }
  return true;
}

/* Finds the newest fragment that wrote any of the cells. If it wrote all, counts fragments and tiles as a plan would,
 * and returns true; returns false if it did not, there is none, or a sparse fragment might own a cell. */
static bool find_owner(const tsr_snapshot *snapshot, const point_iterator *it, uint32_t *owner) {
  const uint32_t dimensions = snapshot->grid.dimensions;
  uint64_t met = 0, tiles = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    const tsr_fragment *fragment = item->fragment;
    if (fragment->metadata.empty_domain) continue;
    if (!fragment->metadata.dense || fragment->run.uncommitted) return false;
    bool meets = true;
    for (uint32_t d = 0; d < dimensions && meets; d++)
      meets = it->high[d] >= item->box_low[d] && it->low[d] <= item->box_high[d];
    if (!meets) continue;
    if (!tsr__fragment_fits(snapshot, fragment)) return false; /* the plan reports what is wrong */
    *owner = (uint32_t)f;
    tiles += fragment->metadata.tile_count;
    met++;
  }
  if (met == 0) return false;
  const tsr_snapshot_fragment *newest = &snapshot->fragments[*owner];
  for (uint32_t d = 0; it->count > 1 && d < dimensions; d++)
    if (it->low[d] < newest->box_low[d] || it->high[d] > newest->box_high[d]) return false;
  tsr_environment *environment = snapshot->array->environment;
  tsr__count(environment, TSR_COUNT_tiles_considered, tiles);
  tsr__count(environment, TSR_COUNT_tiles_skipped_by_domain, tiles - met);
  tsr__count(environment, TSR_COUNT_fragments_considered, snapshot->fragment_count);
  tsr__count(environment, TSR_COUNT_fragments_skipped, snapshot->fragment_count - met);
  return true;
}

/* The dimensions from the slowest to the fastest, in the order of a tile's cells. */
static uint32_t dimension_of(const tsr_grid *grid, uint32_t k) {
  return grid->col_major_cells ? grid->dimensions - 1 - k : k;
}

/* Numbers the cells of the box in the tile, from the first one on, ascending. */
static void number_cells(const tsr_grid *grid, const point_iterator *it) {
  for (uint32_t i = 0; i < it->count; i++) {
    uint64_t left = i, stride = 1, index = 0;
    for (uint32_t k = grid->dimensions; k-- > 0;) {
      const uint32_t d = dimension_of(grid, k);
      const uint64_t extent = it->high[d] - it->low[d] + 1;
      index += left % extent * stride;
      left /= extent;
      stride *= grid->extent[d];
    }
    it->cells[i] = (uint32_t)index;
  }
}

static int next_batch(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  point_iterator *it = (point_iterator *)iterator;
  (void)error;
  if (it->given) return 0;
  const tsr_fragment *fragment = it->reader->snapshot->fragments[it->pinned->fragment].fragment;
  it->given = true;
  batch->count = it->count;
  if (it->count > 1) batch->selection = it->cells;
  batch->row_base = fragment->row_base + (int64_t)(it->pinned->number * fragment->cells_per_tile + it->pinned->first);
  batch->written = true;
  batch->fragment = it->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  return 1;
}

/* Makes the column of a dimension. */
static int dimension_column(const point_iterator *it, uint32_t dimension, tsr_column *column, tsr_error *error) {
  const tsr_grid *grid = &it->reader->snapshot->grid;
  const tsr_field *field = &it->reader->snapshot->schema->fields[dimension];
  const uint64_t size = field->cell_size, count = it->high[dimension] - it->low[dimension] + 1;
  const uint64_t cells = count > 1 ? it->pinned->end - it->pinned->first : 1;
  uint64_t repeats = 1; /* so many consecutive cells have one coordinate */
  tsr_buffer *buffer = &it->reader->dense.coordinates[dimension];
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, (cells - 1) * size + sizeof(uint64_t), error));
  for (uint32_t k = grid->dimensions; k-- > 0 && dimension_of(grid, k) != dimension;)
    repeats *= it->high[dimension_of(grid, k)] - it->low[dimension_of(grid, k)] + 1;
  for (uint32_t i = 0; i < (count > 1 ? it->count : 1); i++)
    tsr__key_value(field->datatype, grid->low_key[dimension] + it->low[dimension] + i / repeats % count,
                   buffer->data + (count > 1 ? it->cells[i] : 0) * size);
  *column = (tsr_column){.values = buffer->data, .cell_size = size, .constant = count == 1};
  return TSR_OK;
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  point_iterator *it = (point_iterator *)iterator;
  const tsr_snapshot *snapshot = it->reader->snapshot;
  if (field < snapshot->grid.dimensions) return dimension_column(it, field, column, error);
  const int64_t slot = snapshot->fragments[it->pinned->fragment].slots[field];
  if (slot >= 0 && !it->pinned->tiles[slot])
    TSR_TRY(tsr__reader_request_fields(it->reader, it->pinned, error)); /* all requested fields at once, in parallel */
  return tsr__pinned_column(it->reader, it->pinned, field, it->pinned->first, column, error);
}

static void close_point(tsr_batch_iterator *iterator) {
  point_iterator *it = (point_iterator *)iterator;
  tsr__reader_unpin(it->reader, it->pinned);
  it->pinned = NULL;
}

int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error) {
  const tsr_snapshot *snapshot = reader->snapshot;
  const tsr_grid *grid = &snapshot->grid;
  point_iterator *it;
  uint32_t owner = 0;
  if (!snapshot->schema->dense || !request->dimensions || reader->predicates.count > 0 || reader->mode.take ||
      !snapshot->domain.exists)
    return 0;
  TSR_TRY(TSR_ARENA_RAW_BYTES(&reader->arena, sizeof(point_iterator) + 2 * grid->dimensions * sizeof(uint64_t), &it,
                              error));
  *it = (point_iterator){.base = {.next = next_batch, .column = column_of, .close = close_point}, .reader = reader};
  it->low = (uint64_t *)(void *)(it + 1);
  it->high = it->low + grid->dimensions;
  if (!find_box(snapshot, request->dimensions, it) || (it->count > 1 && request->order_count > 0)) return 0;
  const uint64_t first = tsr__grid_cell(grid, it->low);
  const uint64_t end = (it->count == 1 ? first : tsr__grid_cell(grid, it->high)) + 1;
  if (end - first > POINT_SPAN || !find_owner(snapshot, it, &owner)) return 0;
  if (it->count > 1) {
    TSR_TRY(TSR_ARENA_RAW(&reader->arena, it->count, &it->cells, error));
    number_cells(grid, it);
  }
  const tsr_fragment *fragment = snapshot->fragments[owner].fragment;
  uint64_t number = 0;
  for (uint32_t k = 0; k < grid->dimensions; k++) {
    const uint32_t d = grid->col_major_tiles ? grid->dimensions - 1 - k : k;
    number = number * fragment->dense.tile_count[d] + (it->low[d] / grid->extent[d] - fragment->dense.tile_low[d]);
  }
  TSR_TRY(tsr__reader_pin(reader, owner, number, grid->tile_cells, &it->pinned, error));
  it->pinned->first = first;
  it->pinned->end = end;
  *iterator = &it->base;
  return 1;
}
