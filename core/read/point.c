/* point.c: one cell of a dense array, as lookups and joins request it.
 *
 * If the request has a single value on each dimension, it needs neither a plan nor a window. The newest fragment whose
 * box contains the cell owns it; the tile and the position in it follow from the fragment's grid. The tile loads when
 * one of its columns is read. dense.c handles the rest: cells that were never written, arrays with sparse fragments,
 * and requests with predicates.
 */
#include "read/reader.h"

#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "environment/environment.h"

typedef struct point_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  tsr_pinned_tile *pinned; /* owned */
  bool given; /* the one batch has been handed out */
  uint64_t ordinals[]; /* by dimension */
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

/* Computes the ordinals of the requested cell. `first`: its value on the first dimension. Returns false if the request
 * is not for a single cell within the array's non-empty domain. */
static bool find_ordinals(const tsr_snapshot *snapshot, const tsr_ranges *dimensions, const tsr_range *first,
                          uint64_t *ordinals) {
  if (!snapshot->domain.exists) return false;
  for (uint32_t d = 0; d < snapshot->grid.dimensions; d++) {
    const tsr_range *value = d == 0 ? first : tsr__single_value(&snapshot->schema->fields[d], &dimensions[d]);
    if (!value) return false;
    const uint64_t key = tsr__key(snapshot->schema->fields[d].datatype, value->low);
    ordinals[d] = key - snapshot->grid.low_key[d]; /* a key below the domain wraps to an ordinal above every box */
    if (ordinals[d] < snapshot->domain.box_low[d] || ordinals[d] > snapshot->domain.box_high[d]) return false;
  }
  return true;
}

/* Finds the newest fragment that wrote the cell. If there is one, counts fragments and tiles as a plan would, and
 * returns true; returns false if there is none, or if a sparse fragment might own the cell. */
static bool find_owner(const tsr_snapshot *snapshot, const uint64_t *ordinals, uint32_t *owner) {
  uint64_t met = 0, tiles = 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    const tsr_fragment *fragment = item->fragment;
    if (fragment->metadata.empty_domain) continue;
    if (!fragment->metadata.dense || fragment->run.uncommitted) return false;
    bool meets = true;
    for (uint32_t d = 0; d < snapshot->grid.dimensions && meets; d++)
      meets = ordinals[d] >= item->box_low[d] && ordinals[d] <= item->box_high[d];
    if (!meets) continue;
    if (!tsr__fragment_fits(snapshot, fragment)) return false; /* the plan reports what is wrong */
    *owner = (uint32_t)f;
    tiles += fragment->metadata.tile_count;
    met++;
  }
  if (met == 0) return false;
  tsr_environment *environment = snapshot->array->environment;
  tsr__count(environment, TSR_COUNT_tiles_considered, tiles);
  tsr__count(environment, TSR_COUNT_tiles_skipped_by_domain, tiles - met);
  tsr__count(environment, TSR_COUNT_fragments_considered, snapshot->fragment_count);
  tsr__count(environment, TSR_COUNT_fragments_skipped, snapshot->fragment_count - met);
  return true;
}

static int next_batch(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  point_iterator *it = (point_iterator *)iterator;
  (void)error;
  if (it->given) return 0;
  const tsr_fragment *fragment = it->reader->snapshot->fragments[it->pinned->fragment].fragment;
  it->given = true;
  batch->count = 1;
  batch->row_base = fragment->row_base + (int64_t)(it->pinned->number * fragment->cells_per_tile + it->pinned->first);
  batch->written = true;
  batch->fragment = it->pinned->fragment;
  batch->time = tsr__fragment_time(fragment);
  return 1;
}

static int column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  point_iterator *it = (point_iterator *)iterator;
  const tsr_snapshot *snapshot = it->reader->snapshot;
  if (field < snapshot->grid.dimensions) {
    const tsr_field *f = &snapshot->schema->fields[field];
    tsr_buffer *buffer = &it->reader->dense.coordinates[field];
    buffer->size = 0;
    TSR_TRY(tsr__buffer_reserve(buffer, sizeof(uint64_t), error));
    tsr__key_value(f->datatype, snapshot->grid.low_key[field] + it->ordinals[field], buffer->data);
    *column = (tsr_column){.values = buffer->data, .cell_size = f->cell_size, .constant = true};
    return TSR_OK;
  }
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
  if (!snapshot->schema->dense || !request->dimensions || reader->predicates.count > 0 || reader->mode.take) return 0;
  const tsr_range *first = tsr__single_value(&snapshot->schema->fields[0], &request->dimensions[0]);
  if (!first) return 0; /* the usual case: nothing is allocated for it */
  TSR_TRY(
      TSR_ARENA_RAW_BYTES(&reader->arena, sizeof(point_iterator) + grid->dimensions * sizeof(uint64_t), &it, error));
  *it = (point_iterator){.base = {.next = next_batch, .column = column_of, .close = close_point}, .reader = reader};
  if (!find_ordinals(snapshot, request->dimensions, first, it->ordinals) || !find_owner(snapshot, it->ordinals, &owner))
    return 0;
  const tsr_fragment *fragment = snapshot->fragments[owner].fragment;
  uint64_t number = 0;
  for (uint32_t k = 0; k < grid->dimensions; k++) {
    const uint32_t d = grid->col_major_tiles ? grid->dimensions - 1 - k : k;
    number = number * fragment->dense.tile_count[d] + (it->ordinals[d] / grid->extent[d] - fragment->dense.tile_low[d]);
  }
  TSR_TRY(tsr__reader_pin(reader, owner, number, grid->tile_cells, &it->pinned, error));
  it->pinned->first = tsr__grid_cell(grid, it->ordinals);
  it->pinned->end = it->pinned->first + 1;
  *iterator = &it->base;
  return 1;
}
