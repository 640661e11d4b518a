/* write_dense.c: writes the cells of a box as a dense fragment: every tile that the box touches, in tile order, each
 * complete. Where a tile reaches beyond the box, its cells are padding.
 *
 * The cells come in row-major order of the box or in the array's cell order (which may be column-major), or a function
 * gives them tile by tile. */
#include "write/write_dense.h"

#include <string.h>

#include "model/datatype.h"
#include "model/domain.h"
#include "write/fragment_writer.h"

typedef struct write_dense_box {
  const tsr_grid *grid;
  uint64_t *low, *count,
      *stride; /* of the box: ordinals; cells; by how much a step on a dimension changes a cell's place in it */
  uint64_t *tile_low, *tile_count, *tile, *at; /* tiles that it touches; the present tile; a cell in that tile */
} write_dense_box;

static int write_dense_make_box(const tsr_schema *schema, const tsr_grid *grid, const tsr_interval *intervals,
                                bool row_major, tsr_arena *arena, write_dense_box *b, tsr_error *error) {
  uint32_t n = grid->dimensions;
  uint64_t *numbers;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 7 * (uint64_t)n, &numbers, error));
  *b = (write_dense_box){
      grid, numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n, numbers + 5 * n, numbers + 6 * n};
  for (uint32_t d = 0; d < n; d++) {
    const tsr_field *field = &schema->fields[d];
    uint64_t low = tsr__key(field->datatype, intervals[d].low), high = tsr__key(field->datatype, intervals[d].high);
    if (low > high || low < grid->low_key[d] || high - grid->low_key[d] > grid->last[d])
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is no part of the domain", field->name);
    b->low[d] = low - grid->low_key[d];
    b->count[d] = high - low + 1;
    b->tile_low[d] = b->low[d] / grid->extent[d];
    b->tile_count[d] = (high - grid->low_key[d]) / grid->extent[d] - b->tile_low[d] + 1;
  }
  uint64_t stride = 1;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d = row_major ? n - 1 - i : i;
    b->stride[d] = stride;
    if (!tsr__mul(stride, b->count[d], &stride))
      return tsr__fail(error, TSR_TOOBIG, "the box has more cells than 64 bits can count");
  }
  return TSR_OK;
}

/* Moves to the next coordinates, the last dimension fastest, or the first if `col_major`. Returns false after the last
 * ones. */
static bool write_dense_step(uint64_t *at, const uint64_t *count, uint32_t n, bool col_major, uint32_t but) {
  for (uint32_t i = but; i < n; i++) {
    uint32_t d = col_major ? i : n - 1 - i;
    if (++at[d] < count[d]) return true;
    at[d] = 0;
  }
  return false;
}

/* Sets order[cell of the present tile] to the cell's place in the box. */
static void find_order(const write_dense_box *b, uint64_t *order) {
  const tsr_grid *grid = b->grid;
  uint32_t n = grid->dimensions, fast = grid->col_major_cells ? 0 : n - 1;
  memset(b->at, 0, n * sizeof *b->at);
  uint64_t row = grid->extent[fast], base = (b->tile_low[fast] + b->tile[fast]) * row;
  uint64_t begin = b->low[fast] > base ? b->low[fast] - base : 0;
  uint64_t end = TSR_MIN(b->low[fast] + b->count[fast] - base, row);
  do {
    uint64_t place = 0;
    bool inside = true;
    for (uint32_t d = 0; d < n && inside; d++) {
      if (d == fast) continue;
      uint64_t ordinal = (b->tile_low[d] + b->tile[d]) * grid->extent[d] + b->at[d];
      inside = ordinal >= b->low[d] && ordinal - b->low[d] < b->count[d];
      place += (ordinal - b->low[d]) * b->stride[d];
    }
    for (uint64_t i = 0; i < row; i++) order[i] = TSR_NO_CELL;
    for (uint64_t i = begin; i < end && inside; i++) order[i] = place + (base + i - b->low[fast]) * b->stride[fast];
    order += row;
  } while (write_dense_step(b->at, grid->extent, n, grid->col_major_cells, 1));
}

static int write_dense_write_tiles(const tsr_fragment_target *target, write_dense_box *b, tsr_tile_filler fill,
                                   void *argument, uint64_t *absolute, uint64_t *order, tsr_error *error) {
  tsr_fragment_writer *writer = NULL;
  int rc = tsr__fragment_writer_open(target, &writer, error);
  do {
    const tsr_column *columns = NULL;
    if (rc < 0) break;
    for (uint32_t d = 0; d < b->grid->dimensions; d++) absolute[d] = b->tile_low[d] + b->tile[d];
    rc = fill(argument, absolute, order, &columns, error);
    if (rc >= 0) rc = tsr__fragment_writer_add(writer, columns, order, b->grid->tile_cells, error);
  } while (write_dense_step(b->tile, b->tile_count, b->grid->dimensions, b->grid->col_major_tiles, 0));
  if (rc >= 0) rc = tsr__fragment_writer_finish(writer, error);
  tsr__fragment_writer_close(writer);
  return rc;
}

typedef struct whole { /* a box whose cells are all in columns */
  write_dense_box *box;
  const tsr_column *columns;
} whole;

static int fill_whole(void *argument, const uint64_t *tile, uint64_t *order, const tsr_column **columns,
                      tsr_error *error) {
  whole *w = argument;
  find_order(w->box, order);
  *columns = w->columns;
  return TSR_OK;
}

/* Takes the cells from `fill`, or all from `columns` if it is NULL. */
static int write_dense_write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns,
                                   tsr_tile_filler fill, void *argument, tsr_error *error) {
  tsr_arena arena;
  tsr_grid grid;
  write_dense_box b;
  uint64_t *order = NULL;
  uint64_t *absolute = NULL;
  tsr__arena_init(&arena, target->memory);
  int rc = tsr__grid_make(target->schema, &arena, &grid, error);
  bool row_major = !array_order || !grid.col_major_cells;
  if (rc >= 0) rc = write_dense_make_box(target->schema, &grid, target->box, row_major, &arena, &b, error);
  if (rc >= 0) rc = TSR_ARENA_ARRAY(&arena, grid.dimensions, &absolute, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(target->memory, grid.tile_cells, &order, error);
  if (rc >= 0) {
    whole all = {&b, columns};
    rc = write_dense_write_tiles(target, &b, fill ? fill : fill_whole, fill ? argument : &all, absolute, order, error);
  }
  tsr__free(order);
  tsr__arena_release(&arena);
  return rc;
}

int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error) {
  return write_dense_write_dense(target, array_order, columns, NULL, NULL, error);
}

int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error) {
  return write_dense_write_dense(target, false, NULL, fill, argument, error);
}

int tsr__box_cells(const tsr_schema *schema, const tsr_interval *intervals, tsr_memory *memory, uint64_t *cells,
                   tsr_error *error) {
  tsr_arena arena;
  tsr_grid grid;
  write_dense_box b;
  tsr__arena_init(&arena, memory);
  int rc = tsr__grid_make(schema, &arena, &grid, error);
  if (rc >= 0) rc = write_dense_make_box(schema, &grid, intervals, true, &arena, &b, error);
  if (rc >= 0) *cells = b.stride[0] * b.count[0];
  tsr__arena_release(&arena);
  return rc;
}
