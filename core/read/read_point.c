/* read_point.c: one cell of a dense array, as lookups and joins ask for it.
 *
 * Where each dimension is to have one value, no plan is made and no window: the newest fragment whose box holds the cell
 * owns it, and says which tile it is in and where. A tile is looked for when a column of it is asked for. Cells that were
 * never written, arrays with sparse fragments and predicates are left to read_dense.c.
 */
#include "read/read_point.h"

#include "model/datatype.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/reader.h"

typedef struct point_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  tsr_pinned_tile *pinned;
  bool given;
  uint64_t ordinals[]; /* by dimension */
} point_iterator;

/* The one range of a dimension that is one value, or NULL. */
static const tsr_range *single_range(const tsr_ranges *ranges) {
  if (ranges->all) ranges = ranges->also;
  if (!ranges || ranges->all || ranges->also || ranges->count != 1) return NULL;
  const tsr_range *range = ranges->ranges;
  if (!range->low || !range->high || range->low_exclusive || range->high_exclusive) return NULL;
  return range;
}

/* 1 and the cell's ordinals; 0 where it is not one cell; -1 where it lies outside of all that has been written. */
static int read_point_find_ordinals(const tsr_snapshot *snapshot, const tsr_ranges *dimensions, uint64_t *ordinals) {
  bool outside = !snapshot->has_domain;
  for (uint32_t d = 0; d < snapshot->grid.dimensions; d++) {
    const tsr_range *range = single_range(&dimensions[d]);
    if (!range) return 0;
    const tsr_datatype datatype = snapshot->schema->fields[d].datatype;
    const uint64_t key = tsr__key(datatype, range->low);
    if (key != tsr__key(datatype, range->high)) return 0;
    ordinals[d] = key - snapshot->grid.low_key[d]; /* below the domain: wraps, and lies above every box */
    outside = outside || ordinals[d] < snapshot->box_low[d] || ordinals[d] > snapshot->box_high[d];
  }
  return outside ? -1 : 1;
}

/* 1 and the newest fragment that has the cell, counted as a plan would; 0 where there is none, or read_dense.c is
 * wanted. */
static int read_point_find_owner(const tsr_snapshot *snapshot, const uint64_t *ordinals, uint32_t *owner) {
  uint64_t met = 0, tiles = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    const tsr_fragment *fragment = item->fragment;
    if (fragment->metadata.empty_domain) continue;
    if (!fragment->metadata.dense || fragment->uncommitted) return 0;
    bool meets = true;
    for (uint32_t d = 0; d < snapshot->grid.dimensions && meets; d++)
      meets = ordinals[d] >= item->box_low[d] && ordinals[d] <= item->box_high[d];
    if (!meets) continue;
    if (!tsr__fragment_fits(snapshot, fragment)) return 0; /* which says what is wrong */
    *owner = (uint32_t)f;
    tiles += fragment->metadata.tile_count;
    met++;
  }
  if (met == 0) return 0;
  tsr_environment *environment = snapshot->array->environment;
  tsr__count(environment, TSR_COUNT_tiles_considered, tiles);
  tsr__count(environment, TSR_COUNT_tiles_skipped_by_domain, tiles - met);
  tsr__count(environment, TSR_COUNT_fragments_considered, snapshot->fragment_count);
  tsr__count(environment, TSR_COUNT_fragments_skipped, snapshot->fragment_count - met);
  return 1;
}

static int read_point_next(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  point_iterator *s = (point_iterator *)iterator;
  (void)error;
  if (s->given) return 0;
  const tsr_fragment *fragment = s->reader->snapshot->fragments[s->pinned->fragment].fragment;
  s->given = true;
  batch->count = 1;
  batch->row_base = fragment->row_base + (int64_t)(s->pinned->number * fragment->cells_per_tile + s->pinned->first);
  batch->written = true;
  batch->fragment = s->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  return 1;
}

static int read_point_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  point_iterator *s = (point_iterator *)iterator;
  const tsr_snapshot *snapshot = s->reader->snapshot;
  if (field < snapshot->grid.dimensions) {
    const tsr_field *f = &snapshot->schema->fields[field];
    tsr_buffer *buffer = &s->reader->values[field];
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, sizeof(uint64_t), error));
    tsr__key_value(f->datatype, snapshot->grid.low_key[field] + s->ordinals[field], buffer->data);
    *column = (tsr_column){.values = buffer->data, .cell_size = f->cell_size, .constant = true};
    return TSR_OK;
  }
  const int64_t slot = snapshot->fragments[s->pinned->fragment].slots[field];
  if (slot >= 0 && !s->pinned->tiles[slot])
    TSR_TRY(tsr__reader_request_fields(s->reader, s->pinned, error)); /* all at once */
  return tsr__reader_column(s->reader, s->pinned, field, s->pinned->first, column, error);
}

static void close_point(tsr_batch_iterator *iterator) {
  point_iterator *s = (point_iterator *)iterator;
  tsr__reader_drop(s->reader, s->pinned);
  s->pinned = NULL;
}

int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error) {
  const tsr_snapshot *snapshot = reader->snapshot;
  const tsr_grid *grid = &snapshot->grid;
  point_iterator *s;
  uint32_t owner = 0;
  if (!snapshot->schema->dense || !request->dimensions || reader->test_count > 0 || reader->take) return 0;
  if (!single_range(&request->dimensions[0])) return 0;
  TSR_TRY(TSR_ARENA_RAW_BYTES(&reader->arena, sizeof(point_iterator) + grid->dimensions * sizeof(uint64_t), &s, error));
  *s = (point_iterator){.base = {.next = read_point_next, .column = read_point_column_of, .close = close_point},
                        .reader = reader};
  if (read_point_find_ordinals(snapshot, request->dimensions, s->ordinals) <= 0 ||
      !read_point_find_owner(snapshot, s->ordinals, &owner))
    return 0;
  const tsr_fragment *fragment = snapshot->fragments[owner].fragment;
  uint64_t number = 0;
  for (uint32_t k = 0; k < grid->dimensions; k++) {
    const uint32_t d = grid->col_major_tiles ? grid->dimensions - 1 - k : k;
    number = number * fragment->tile_count[d] + (s->ordinals[d] / grid->extent[d] - fragment->tile_low[d]);
  }
  TSR_TRY(tsr__reader_hold(reader, owner, number, grid->tile_cells, &s->pinned, error));
  s->pinned->first = tsr__grid_cell(grid, s->ordinals);
  s->pinned->end = s->pinned->first + 1;
  *iterator = &s->base;
  return 1;
}
