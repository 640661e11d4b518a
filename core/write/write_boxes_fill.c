/* write_boxes_fill.c: writes the boxes of a dense commit as fragments, tile by tile.
 *
 * If the cells are in memory and fill a tile of the box, the fragment's writer takes them from their columns. Else the
 * tile's values are gathered: from the cells in memory or, if cells are spilled, by a reader over these alone; then, in
 * gaps over which boxes were joined, from the present state. */
#include "write/write_boxes_fill.h"

#include "base/arithmetic.h"
#include "read/reader.h"
#include "write/fragment_writer.h"
#include "write/write_boxes.h"
#include "write/write_dense.h"

typedef struct filler {
  tsr_boxes *boxes;
  uint64_t *box;
} filler;

/* Sets `order` to the numbers of the cells in memory that lie in this tile and in the box; returns how many there
 * are. */
static uint64_t place_cells(const filler *f, const uint64_t *tile, uint64_t *order) {
  const tsr_boxes *b = f->boxes;
  uint64_t number = tsr__boxes_find_tile(b, tile), placed = 0;
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) order[i] = TSR_NO_CELL;
  if (number == b->cells.tile_count) return 0;
  bool all = true;
  for (uint32_t d = 0; d < b->dimensions; d++)
    all = all && tsr__box_low(f->box)[d] <= tile[d] * b->grid.extent[d] &&
          tsr__box_high(b, f->box)[d] - tile[d] * b->grid.extent[d] >= b->grid.extent[d] - 1;
  for (uint64_t i = b->cells.tile_first[number]; i < b->cells.tile_first[number + 1]; i++) {
    bool inside = true;
    if (!all) {
      tsr__boxes_ordinals(b, tile, tsr__boxes_place(b, i), b->scratch);
      for (uint32_t d = 0; d < b->dimensions; d++)
        inside = inside && b->scratch[d] >= tsr__box_low(f->box)[d] && b->scratch[d] <= tsr__box_high(b, f->box)[d];
    }
    if (inside) order[tsr__boxes_place(b, i)] = b->cells.pairs[i].cell;
    placed += inside;
  }
  return placed;
}

/* Appends a cell of a column to the values of the tile. */
static int copy_cell(tsr_boxes *b, uint32_t f, const tsr_column *column, uint64_t index, tsr_error *error) {
  const tsr_field *field = &b->source.schema->fields[f];
  const uint8_t *values = column->values;
  if (column->constant) index = 0;
  if (field->cell_size)
    TSR_TRY(tsr__buffer_append(&b->fill.values[f], values + index * field->cell_size, field->cell_size, error));
  else {
    uint64_t at = column->offsets[index];
    TSR_TRY(tsr__buffer_append(&b->fill.values[f], values + at, column->offsets[index + 1] - at, error));
    TSR_TRY(tsr__buffer_append_u64(&b->fill.offsets[f], b->fill.values[f].size, error));
  }
  if (!field->nullable) return TSR_OK;
  return tsr__buffer_append_u8(&b->fill.validity[f], !column->validity || column->validity[index], error);
}

static int write_boxes_fill_copy_cells(tsr_boxes *b, const tsr_column *columns, uint64_t index, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t f = n; f < fields; f++) TSR_TRY(copy_cell(b, f, &columns[f], index, error));
  return TSR_OK;
}

/* Takes the rows of a batch at places that have no cell yet: their indices go to `taken`, and `order` numbers them from
 * *next on. */
static int write_boxes_fill_take_rows(tsr_boxes *b, tsr_reader *reader, const tsr_batch *batch, uint64_t *order,
                                      uint64_t *next, tsr_error *error) {
  const tsr_column *coordinates[TSR_MAX_DIMENSIONS];
  TSR_TRY(tsr__boxes_coordinates(b, reader, coordinates, error));
  b->fill.taken.size = 0;
  for (uint64_t r = 0; r < batch->count; r++) {
    uint64_t place, index = tsr_batch_index(batch, r);
    tsr__boxes_locate(b, coordinates, index, b->scratch, &place);
    if (order[place] != TSR_NO_CELL) continue;
    order[place] = (*next)++;
    TSR_TRY(tsr__buffer_append_u64(&b->fill.taken, index, error));
  }
  return TSR_OK;
}

/* Adds the rows that a reader gives between the corners in `scratch`, at places that have no cell yet. */
static int write_boxes_fill_add_rows(tsr_boxes *b, tsr_reader *reader, uint64_t *order, uint64_t *next,
                                     tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  TSR_TRY(tsr__boxes_read(b, reader, b->scratch + 2 * n, b->scratch + 3 * n, true, error));
  for (;;) {
    const tsr_batch *batch;
    const tsr_column *column;
    int rc = tsr_reader_next(reader, &batch, error);
    if (rc <= 0) return rc;
    TSR_TRY(write_boxes_fill_take_rows(b, reader, batch, order, next, error));
    for (uint32_t f = n; f < fields && b->fill.taken.size; f++) {
      TSR_TRY(tsr_reader_column(reader, f, &column, error));
      for (uint64_t at = 0; at < b->fill.taken.size; at += 8)
        TSR_TRY(copy_cell(b, f, column, tsr__load64(b->fill.taken.data + at), error));
    }
  }
}

/* Sets the corners in `scratch` to the part of the box in a tile; returns how many cells it has. */
static uint64_t find_corners(const filler *f, const uint64_t *tile) {
  const tsr_boxes *b = f->boxes;
  uint64_t *low = b->scratch + 2 * (uint64_t)b->dimensions, *high = low + b->dimensions, cells = 1;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const uint64_t base = tile[d] * b->grid.extent[d], end = tsr__box_high(b, f->box)[d];
    low[d] = TSR_MAX(tsr__box_low(f->box)[d], base);
    high[d] = end - base < b->grid.extent[d] ? end : base + b->grid.extent[d] - 1;
    cells *= high[d] - low[d] + 1;
  }
  return cells;
}

/* Reserves the part of a tile's size that is known: growing buffers would take half as much again. */
static int reserve_known(tsr_boxes *b, uint64_t cells, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = n; i < fields; i++) {
    const tsr_field *field = &b->source.schema->fields[i];
    const uint64_t size = tsr__mul_sat(cells, field->cell_size ? field->cell_size : sizeof(uint64_t));
    TSR_TRY(tsr__buffer_reserve_exactly(field->cell_size ? &b->fill.values[i] : &b->fill.offsets[i], size, error));
    if (field->nullable) TSR_TRY(tsr__buffer_reserve_exactly(&b->fill.validity[i], cells, error));
  }
  return TSR_OK;
}

static int begin_values(tsr_boxes *b, uint64_t cells, tsr_error *error) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = 0; i < 3 * fields; i++) b->fill.values[i].size = 0;
  for (uint32_t i = n; i < fields; i++)
    if (!b->source.schema->fields[i].cell_size) TSR_TRY(tsr__buffer_append_u64(&b->fill.offsets[i], 0, error));
  return reserve_known(b, cells, error);
}

static const tsr_column *end_values(tsr_boxes *b) {
  const uint32_t n = b->dimensions, fields = n + b->source.schema->attribute_count;
  for (uint32_t i = n; i < fields; i++)
    b->fill.columns[i] =
        (tsr_column){.values = b->fill.values[i].data ? b->fill.values[i].data : (const uint8_t *)"",
                     .offsets = (const uint64_t *)(const void *)b->fill.offsets[i].data,
                     .validity = b->source.schema->fields[i].nullable ? b->fill.validity[i].data : NULL,
                     .cell_size = b->source.schema->fields[i].cell_size};
  return b->fill.columns;
}

static int fill_tile(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                     tsr_error *error) {
  filler *f = argument;
  tsr_boxes *b = f->boxes;
  const uint64_t placed = place_cells(f, tile, order), wanted = find_corners(f, tile);
  uint64_t next = 0;
  *columns = b->source.columns;
  if (placed == wanted) return TSR_OK;
  TSR_TRY(begin_values(b, wanted, error));
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) {
    if (order[i] == TSR_NO_CELL) continue;
    TSR_TRY(write_boxes_fill_copy_cells(b, b->source.columns, order[i], error));
    order[i] = next++;
  }
  TSR_TRY(tsr__boxes_present(b, error));
  TSR_TRY(write_boxes_fill_add_rows(b, b->reader, order, &next, error));
  *columns = end_values(b);
  return TSR_OK;
}

/* The same for spilled cells. */
static int fill_spilled(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                        tsr_error *error) {
  filler *f = argument;
  tsr_boxes *b = f->boxes;
  const uint64_t wanted = find_corners(f, tile);
  uint64_t next = 0;
  for (uint64_t i = 0; i < b->grid.tile_cells; i++) order[i] = TSR_NO_CELL;
  TSR_TRY(begin_values(b, wanted, error));
  TSR_TRY(write_boxes_fill_add_rows(b, b->spilled, order, &next, error));
  if (next < wanted) {
    TSR_TRY(tsr__boxes_present(b, error));
    TSR_TRY(write_boxes_fill_add_rows(b, b->reader, order, &next, error));
  }
  *columns = end_values(b);
  return TSR_OK;
}

int tsr__boxes_write(tsr_boxes *boxes, uint64_t index, const tsr_fragment_target *target, tsr_error *error) {
  filler f = {boxes, tsr__box_at(&boxes->boxes, index)};
  if (boxes->in_order) return tsr__write_dense(target, false, boxes->source.columns, error);
  return tsr__write_dense_tiles(target, boxes->source.spilled ? fill_spilled : fill_tile, &f, error);
}
