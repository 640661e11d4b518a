/* find_row.c: finds a row by its rowid (tsr_reader_find), as UPDATE and DELETE request it.
 *
 * A rowid encodes where its cell is. Each committed fragment has a range of rowids, tile by tile. Cells of a dense
 * array that were never written come after them, by row-major ordinal. Negative rowids number a transaction's own
 * cells, and its uncommitted fragments know the position of each number. So there is nothing to search and nothing to
 * plan, and one tile of each requested field is decoded.
 */
#include "read/reader.h"

#include <string.h>

#include "array/array.h"
#include "environment/environment.h"
#include "format/fragment_metadata.h"
#include "model/datatype.h"

typedef struct found_iterator {
  tsr_batch_iterator base;
  tsr_reader *reader;
  tsr_pinned_tile *pinned; /* NULL: the cell was never written */
  uint64_t cell; /* index in the tile */
  uint64_t *ordinals; /* by dimension; NULL if the cell is in a sparse fragment */
} found_iterator;

/* ---- Its columns ------------------------------------------------------------------------------------------------- */

static int ordinal_column(const found_iterator *it, uint32_t d, tsr_column *column, tsr_error *error) {
  const tsr_field *field = &it->reader->snapshot->schema->fields[d];
  tsr_buffer *buffer = &it->reader->dense.coordinates[d];
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, sizeof(uint64_t), error));
  tsr__key_value(field->datatype, it->reader->snapshot->grid.low_key[d] + it->ordinals[d], buffer->data);
  *column = (tsr_column){.values = buffer->data, .cell_size = field->cell_size, .constant = true};
  return TSR_OK;
}

static int found_column(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  const found_iterator *it = (found_iterator *)iterator;
  if (it->ordinals && field < it->reader->snapshot->schema->dimension_count)
    return ordinal_column(it, field, column, error);
  if (it->pinned) return tsr__pinned_column(it->reader, it->pinned, field, 0, column, error);
  *column = it->reader->columns.fills[field];
  return TSR_OK;
}

static int no_more(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  (void)iterator, (void)batch, (void)error;
  return 0;
}

static void close_found(tsr_batch_iterator *iterator) {
  found_iterator *it = (found_iterator *)iterator;
  tsr__reader_unpin(it->reader, it->pinned);
}

/* ---- The position of its cell ------------------------------------------------------------------------------------ */

/* Computes the ordinals of a cell of a dense fragment's tile. Returns false if the cell is padding, outside the
 * fragment's box. */
static bool find_ordinals(const tsr_fragment *fragment, uint64_t tile, uint64_t cell, uint64_t *ordinals) {
  const tsr_grid *grid = &fragment->dense.grid;
  const uint32_t n = grid->dimensions;
  for (uint32_t k = n; k-- > 0;) {
    const uint32_t d = grid->col_major_tiles ? n - 1 - k : k;
    ordinals[d] = (fragment->dense.tile_low[d] + tile % fragment->dense.tile_count[d]) * grid->extent[d];
    tile /= fragment->dense.tile_count[d];
  }
  for (uint32_t k = n; k-- > 0;) {
    const uint32_t d = grid->col_major_cells ? n - 1 - k : k;
    ordinals[d] += cell % grid->extent[d];
    cell /= grid->extent[d];
  }
  for (uint32_t d = 0; d < n; d++)
    if (ordinals[d] < fragment->dense.box_low[d] || ordinals[d] > fragment->dense.box_high[d]) return false;
  return true;
}

static int pin_cell(found_iterator *it, uint32_t f, uint64_t at, tsr_error *error) {
  const tsr_fragment *fragment = it->reader->snapshot->fragments[f].fragment;
  const uint64_t tile = at / fragment->cells_per_tile;
  it->cell = at % fragment->cells_per_tile;
  if (fragment->metadata.dense) {
    if (!find_ordinals(fragment, tile, it->cell, it->ordinals)) return 0;
  } else {
    it->ordinals = NULL;
  }
  TSR_TRY(
      tsr__reader_pin(it->reader, f, tile, tsr__fragment_tile_cells(&fragment->metadata, tile), &it->pinned, error));
  it->reader->batch.time = tsr__fragment_time(fragment);
  return 1;
}

static int find_committed(found_iterator *it, int64_t row, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_fragment *fragment = snapshot->fragments[f].fragment;
    const tsr_fragment_metadata *m = &fragment->metadata;
    if (fragment->run.uncommitted || m->tile_count == 0 || row < fragment->row_base) continue;
    const uint64_t at = (uint64_t)(row - fragment->row_base);
    const uint64_t last = m->dense ? fragment->cells_per_tile : m->last_tile_cells;
    if (at < (m->tile_count - 1) * fragment->cells_per_tile + last) return pin_cell(it, (uint32_t)f, at, error);
  }
  return 0;
}

static int find_unwritten(found_iterator *it, int64_t row) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  const tsr_grid *grid = &snapshot->grid;
  if (!snapshot->schema->dense || snapshot->unwritten_row_base < 0 || row < snapshot->unwritten_row_base) return 0;
  uint64_t left = (uint64_t)(row - snapshot->unwritten_row_base);
  for (uint32_t d = grid->dimensions; d-- > 0;) {
    const uint64_t values = grid->last[d] + 1; /* not 0: domains of 2^64 values have no unwritten_row_base */
    it->ordinals[d] = left % values;
    left /= values;
  }
  it->reader->batch.written = false;
  return left == 0;
}

static int find_uncommitted(found_iterator *it, int64_t row, tsr_error *error) {
  const tsr_snapshot *snapshot = it->reader->snapshot;
  const uint64_t number = (uint64_t)(-2 - row);
  if (!snapshot->view.writer || row > -2) return 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[f];
    uint64_t at;
    if (!item->fragment->run.uncommitted || number >= item->run_end || number < item->run_first) continue;
    TSR_TRY(snapshot->view.functions->position(snapshot->array, item->fragment, item->run_first,
                                               number - item->run_first, &at, error));
    return pin_cell(it, (uint32_t)f, at, error);
  }
  return 0;
}

/* Ends the current request without starting another. Returns TSR_INTERRUPT if the host cancels. */
static int start_nothing(tsr_reader *reader, tsr_error *error) {
  const tsr_schema *schema = reader->snapshot->schema;
  tsr__reader_rewind(reader);
  memset(reader->columns.ready, 0, (schema->dimension_count + schema->attribute_count) * sizeof(bool));
  reader->predicates.count = 0;
  reader->progress.limit = 0;
  reader->request.times = false;
  if (reader->threads == 0) reader->threads = 1;
  return tsr__cancelled(&reader->snapshot->array->environment->memory, error);
}

static int find_row_by_id(tsr_reader *reader, int64_t row, tsr_error *error) {
  tsr_snapshot *snapshot = reader->snapshot;
  uint64_t *memory;
  if (snapshot->view.functions && snapshot->view.functions->hides(snapshot->view.writer, row, snapshot->view.removed))
    return 0;
  TSR_TRY(start_nothing(reader, error));
  found_iterator *it;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &it, error));
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, snapshot->schema->dimension_count, &memory, error));
  it->base = (tsr_batch_iterator){.next = no_more, .column = found_column, .close = close_found};
  it->reader = reader;
  it->ordinals = snapshot->schema->dense ? memory : NULL;
  reader->batch = (tsr_batch){.count = 1, .row_base = row, .written = true, .fragment = TSR_FRAGMENT_NONE};
  int rc = row < 0 ? find_uncommitted(it, row, error) : find_committed(it, row, error);
  if (rc == 0 && row >= 0) rc = find_unwritten(it, row);
  if (rc <= 0) return rc;
  if (it->pinned) reader->batch.first = it->cell; /* columns of the tile are indexed by cell; others are constant */
  reader->batch.row_base = row - (int64_t)reader->batch.first;
  reader->iterator = &it->base;
  reader->done = false;
  return 1;
}

int tsr_reader_find(tsr_reader *reader, int64_t row, const tsr_batch **batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const int rc = find_row_by_id(reader, row, error);
  if (rc < 0) return tsr__wrap(error, "%s", reader->snapshot->array->path);
  if (rc > 0) *batch = &reader->batch;
  return rc;
}
