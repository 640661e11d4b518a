/* reader_find.c: one row by its rowid.
 *
 * Rowids say where a cell stands: each fragment has a range, tile by tile; cells of a dense array that were never
 * written have theirs by ordinal; a writer's own have their numbers, and their runs know where each stands. So one
 * tile of each field that is asked for is decoded.
 */
#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "array/array.h"
#include "array/snapshot.h"
#include "read/reader.h"

typedef struct found_source {
  tsr_batch_iterator base;
  tsr_reader *reader;
  tsr_pinned_tile *pinned; /* NULL: never written */
  uint64_t cell;
  uint64_t *ordinals; /* in dense arrays */
} found_source;

/* ---- Columns -------------------------------------------------------------------------------- */

static int ordinal_column(const found_source *s, uint32_t d, tsr_column *column, tsr_error *error) {
  const tsr_field *field = &s->reader->snapshot->schema->fields[d];
  tsr_buffer *buffer = &s->reader->values[d];
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, sizeof(uint64_t), error));
  tsr__key_value(field->datatype, s->reader->snapshot->grid.low_key[d] + s->ordinals[d], buffer->data);
  *column = (tsr_column){.values = buffer->data, .cell_size = field->cell_size, .constant = true};
  return TSR_OK;
}

static int reader_find_column_of(tsr_batch_iterator *iterator, uint32_t field, tsr_column *column, tsr_error *error) {
  const found_source *s = (found_source *)iterator;
  if (s->ordinals && field < s->reader->snapshot->schema->dimension_count)
    return ordinal_column(s, field, column, error);
  if (s->pinned) return tsr__reader_column(s->reader, s->pinned, field, 0, column, error);
  *column = s->reader->fills[field];
  return TSR_OK;
}

static int no_more(tsr_batch_iterator *iterator, tsr_batch *batch, tsr_error *error) {
  (void)iterator, (void)batch, (void)error;
  return 0;
}

static void close_found(tsr_batch_iterator *iterator) {
  found_source *s = (found_source *)iterator;
  tsr__reader_drop(s->reader, s->pinned);
}

/* ---- Where it is ---------------------------------------------------------------------------- */

/* Ordinals of a cell of a dense fragment's tile; false where it is padding. */
static bool reader_find_find_ordinals(const tsr_fragment *fragment, uint64_t tile, uint64_t cell, uint64_t *ordinals) {
  const tsr_grid *grid = &fragment->grid;
  const uint32_t n = grid->dimensions;
  for (uint32_t k = n; k-- > 0;) {
    const uint32_t d = grid->col_major_tiles ? n - 1 - k : k;
    ordinals[d] = (fragment->tile_low[d] + tile % fragment->tile_count[d]) * grid->extent[d];
    tile /= fragment->tile_count[d];
  }
  for (uint32_t k = n; k-- > 0;) {
    const uint32_t d = grid->col_major_cells ? n - 1 - k : k;
    ordinals[d] += cell % grid->extent[d];
    cell /= grid->extent[d];
  }
  for (uint32_t d = 0; d < n; d++)
    if (ordinals[d] < fragment->box_low[d] || ordinals[d] > fragment->box_high[d]) return false;
  return true;
}

static int hold_cell(found_source *s, uint32_t f, uint64_t at, tsr_error *error) {
  const tsr_fragment *fragment = s->reader->snapshot->fragments[f].fragment;
  const uint64_t tile = at / fragment->cells_per_tile;
  s->cell = at % fragment->cells_per_tile;
  if (fragment->metadata.dense) {
    if (!reader_find_find_ordinals(fragment, tile, s->cell, s->ordinals)) return 0;
  } else {
    s->ordinals = NULL;
  }
  TSR_TRY(tsr__reader_hold(s->reader, f, tile, tsr__fragment_tile_cells(&fragment->metadata, tile), &s->pinned, error));
  s->reader->batch.time = tsr__fragment_time(fragment);
  return 1;
}

static int find_committed(found_source *s, int64_t row, tsr_error *error) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_fragment *fragment = snapshot->fragments[f].fragment;
    const tsr_fragment_metadata *m = &fragment->metadata;
    if (fragment->uncommitted || m->tile_count == 0 || row < fragment->row_base) continue;
    const uint64_t at = (uint64_t)(row - fragment->row_base);
    const uint64_t last = m->dense ? fragment->cells_per_tile : m->last_tile_cells;
    if (at < (m->tile_count - 1) * fragment->cells_per_tile + last) return hold_cell(s, (uint32_t)f, at, error);
  }
  return 0;
}

static int find_unwritten(found_source *s, int64_t row) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  const tsr_grid *grid = &snapshot->grid;
  if (!snapshot->schema->dense || snapshot->unwritten_row_base < 0 || row < snapshot->unwritten_row_base) return 0;
  uint64_t left = (uint64_t)(row - snapshot->unwritten_row_base);
  for (uint32_t d = grid->dimensions; d-- > 0;) {
    const uint64_t values = grid->last[d] + 1; /* not the whole of 2^64: such domains have no base */
    s->ordinals[d] = left % values;
    left /= values;
  }
  s->reader->batch.written = false;
  return left == 0;
}

static int find_own(found_source *s, int64_t row, tsr_error *error) {
  const tsr_snapshot *snapshot = s->reader->snapshot;
  const uint64_t number = (uint64_t)(-2 - row);
  if (!snapshot->writer || row > -2) return 0;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++) {
    const tsr_snapshot_fragment *run = &snapshot->fragments[f];
    uint64_t at;
    if (!run->fragment->uncommitted || number >= run->run_end || number < run->run_first) continue;
    TSR_TRY(
        snapshot->view->position(snapshot->array, run->fragment, run->run_first, number - run->run_first, &at, error));
    return hold_cell(s, (uint32_t)f, at, error);
  }
  return 0;
}

static int reader_find_find(tsr_reader *reader, int64_t row, tsr_error *error) {
  tsr_snapshot *snapshot = reader->snapshot;
  uint64_t *memory;
  if (snapshot->view && snapshot->view->hides(snapshot->writer, row, snapshot->removed)) return 0;
  TSR_TRY(tsr__reader_start_nothing(reader, error));
  found_source *s;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, 1, &s, error));
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, snapshot->schema->dimension_count, &memory, error));
  s->base = (tsr_batch_iterator){.next = no_more, .column = reader_find_column_of, .close = close_found};
  s->reader = reader;
  s->ordinals = snapshot->schema->dense ? memory : NULL;
  reader->batch = (tsr_batch){.count = 1, .row_base = row, .written = true, .fragment = TSR_FRAGMENT_NONE};
  int rc = row < 0 ? find_own(s, row, error) : find_committed(s, row, error);
  if (rc == 0 && row >= 0) rc = find_unwritten(s, row);
  if (rc <= 0) return rc;
  if (s->pinned) reader->batch.first = s->cell; /* other columns are of one value */
  reader->batch.row_base = row - (int64_t)reader->batch.first;
  reader->iterator = &s->base;
  reader->done = false;
  return 1;
}

int tsr_reader_find(tsr_reader *reader, int64_t row, const tsr_batch **batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const int rc = reader_find_find(reader, row, error);
  if (rc < 0) return tsr__wrap(error, "%s", reader->snapshot->array->path);
  if (rc > 0) *batch = &reader->batch;
  return rc;
}
