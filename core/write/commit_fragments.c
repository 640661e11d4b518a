/* commit_fragments.c: writes the cells of a commit as fragments under provisional names.
 *
 * The cells of a sparse array become one fragment, from memory or merged from runs on disk. The cells of a dense array
 * become one fragment for each box that they form (dense_boxes.c), and the caller may append whole boxes. commit.c
 * renames them later.
 *
 * The sections: a sparse fragment from sorted cells; a dense fragment from a box; provisional directories; the list of
 * the commit's fragments, and how the cells of sparse and dense arrays become fragments. */
#include <string.h>
#include <stdio.h>

#include "write/writer.h"
#include "base/arithmetic.h"
#include "write/fragment_writer.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "read/reader.h"
#include "write/dense_boxes.h"

#define BLOCK_CELLS 262144u /* approximate number of cells passed to the fragment writer at a time */

static int write_cells(tsr_fragment_writer *writer, const tsr_column *columns, const uint32_t *order, uint64_t count,
                       uint64_t *block, uint64_t most, tsr_error *error) {
  for (uint64_t done = 0; done < count;) {
    uint64_t n = TSR_MIN(count - done, most);
    for (uint64_t i = 0; i < n; i++) block[i] = order[done + i];
    TSR_TRY(tsr__fragment_writer_add(writer, columns, block, n, error));
    done += n;
  }
  return tsr__fragment_writer_finish(writer, error);
}

int tsr__write_ordered(const tsr_fragment_target *target, const tsr_column *columns, const uint32_t *order,
                       uint64_t count, tsr_error *error) {
  uint64_t *block = NULL;
  tsr_fragment_writer *writer = NULL;
  tsr_fragment_target bulk = *target;
  bulk.in_bulk = true;
  TSR_TRY(tsr__fragment_writer_open(&bulk, &writer, error));
  const uint64_t window = tsr__fragment_writer_window(writer);
  const uint64_t most = TSR_MIN(count, window < BLOCK_CELLS ? BLOCK_CELLS / window * window : BLOCK_CELLS);
  int rc = TSR_ALLOC_RAW(target->memory, most, &block, error);
  if (rc >= 0) rc = write_cells(writer, columns, order, count, block, most, error);
  tsr__fragment_writer_close(writer);
  tsr__free(block);
  return rc;
}

/* ---- A dense fragment from a box --------------------------------------------------------------------------------- */

/* Writes every tile that the box touches, in tile order, each complete. Where a tile reaches beyond the box, its cells
 * are padding. The cells come in row-major order of the box or in the array's cell order (which may be column-major),
 * or a callback supplies them tile by tile. */

typedef struct tiled_box {
  const tsr_grid *grid;
  /* of the box: ordinals; cells; by how much a step on a dimension changes a cell's position in it */
  uint64_t *low, *count, *stride;
  uint64_t *tile_low, *tile_count, *tile, *at; /* tiles that it touches; the current tile; a cell in that tile */
} tiled_box;

static int make_box(const tsr_schema *schema, const tsr_grid *grid, const tsr_interval *intervals, bool row_major,
                    tsr_arena *arena, tiled_box *b, tsr_error *error) {
  uint32_t n = grid->dimensions;
  uint64_t *numbers;
  TSR_TRY(TSR_ARENA_ARRAY(arena, 7 * (uint64_t)n, &numbers, error));
  *b = (tiled_box){
      grid, numbers, numbers + n, numbers + 2 * n, numbers + 3 * n, numbers + 4 * n, numbers + 5 * n, numbers + 6 * n};
  for (uint32_t d = 0; d < n; d++) {
    const tsr_field *field = &schema->fields[d];
    uint64_t low = tsr__key(field->datatype, intervals[d].low), high = tsr__key(field->datatype, intervals[d].high);
    if (low > high || low < grid->low_key[d] || high - grid->low_key[d] > grid->last[d])
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is not inside the domain", field->name);
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

/* Advances to the next coordinates, with the last dimension fastest, or the first if `col_major`; leaves the `but`
 * fastest ones alone. Returns false after the last coordinates. */
static bool step_coordinates(uint64_t *at, const uint64_t *count, uint32_t n, bool col_major, uint32_t but) {
  for (uint32_t i = but; i < n; i++) {
    uint32_t d = col_major ? i : n - 1 - i;
    if (++at[d] < count[d]) return true;
    at[d] = 0;
  }
  return false;
}

/* Sets order[cell of the current tile] to the cell's position in the box. */
static void find_order(const tiled_box *b, uint64_t *order) {
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
  } while (step_coordinates(b->at, grid->extent, n, grid->col_major_cells, 1));
}

typedef struct cell_source { /* where the cells of a dense fragment come from */
  const tsr_column *columns; /* of all of them; NULL: from `fill` */
  tsr_tile_filler fill;
  void *argument; /* of `fill` */
} cell_source;

/* Writes the tiles by the order of their cells. */
static int write_tiles_by_order(tsr_fragment_writer *writer, tiled_box *b, const cell_source *source,
                                tsr_memory *memory, tsr_arena *arena, tsr_error *error) {
  const tsr_grid *grid = b->grid;
  uint64_t *order = NULL;
  uint64_t *absolute;
  TSR_TRY(TSR_ARENA_ARRAY(arena, grid->dimensions, &absolute, error));
  int rc = TSR_ALLOC_RAW(memory, grid->tile_cells, &order, error);
  do {
    const tsr_column *columns = source->columns;
    if (rc < 0) break;
    for (uint32_t d = 0; d < grid->dimensions; d++) absolute[d] = b->tile_low[d] + b->tile[d];
    if (columns) find_order(b, order);
    else rc = source->fill(source->argument, absolute, order, &columns, error);
    if (rc >= 0) rc = tsr__fragment_writer_add(writer, columns, order, grid->tile_cells, error);
  } while (step_coordinates(b->tile, b->tile_count, grid->dimensions, grid->col_major_tiles, 0));
  tsr__free(order);
  return rc;
}

/* ---- Rows of a box ----------------------------------------------------------------------------------------------- */

/* Shorter rows are not worth their descriptions, which take 16 bytes each. */
#define ROW_MIN 16u

/* Returns true if cells from `first` on, or outside of the box if that is TSR_NO_CELL, continue a row. */
static bool continues(const tsr_cell_range *row, uint64_t first) {
  if (first == TSR_NO_CELL || row->first == TSR_NO_CELL) return row->first == first;
  return row->first + row->count == first;
}

static int add_row(tsr_buffer *rows, uint64_t first, uint64_t count, tsr_error *error) {
  const tsr_cell_range row = {first, count};
  if (count == 0) return TSR_OK;
  if (rows->size > 0) {
    tsr_cell_range *last = (tsr_cell_range *)(void *)(rows->data + rows->size) - 1;
    if (continues(last, first)) {
      last->count += count;
      return TSR_OK;
    }
  }
  return tsr__buffer_append(rows, &row, sizeof row, error);
}

/* Finds the rows of the current tile, as tsr__fragment_writer_add_rows takes them: one after another along the fastest
 * dimension, on which adjacent cells of the box are next to each other. */
static int find_rows(const tiled_box *b, tsr_buffer *rows, tsr_error *error) {
  const tsr_grid *grid = b->grid;
  const uint32_t n = grid->dimensions, fast = grid->col_major_cells ? 0 : n - 1;
  const uint64_t row = grid->extent[fast], base = (b->tile_low[fast] + b->tile[fast]) * row;
  const uint64_t begin = b->low[fast] > base ? b->low[fast] - base : 0;
  const uint64_t end = TSR_MIN(b->low[fast] + b->count[fast] - base, row);
  memset(b->at, 0, n * sizeof *b->at);
  rows->size = 0;
  do {
    uint64_t place = base + begin - b->low[fast];
    bool inside = true;
    for (uint32_t d = 0; d < n && inside; d++) {
      if (d == fast) continue;
      const uint64_t ordinal = (b->tile_low[d] + b->tile[d]) * grid->extent[d] + b->at[d];
      inside = ordinal >= b->low[d] && ordinal - b->low[d] < b->count[d];
      place += (ordinal - b->low[d]) * b->stride[d];
    }
    TSR_TRY(add_row(rows, TSR_NO_CELL, inside ? begin : row, error));
    if (!inside) continue;
    TSR_TRY(add_row(rows, place, end - begin, error));
    TSR_TRY(add_row(rows, TSR_NO_CELL, row - end, error));
  } while (step_coordinates(b->at, grid->extent, n, grid->col_major_cells, 1));
  return TSR_OK;
}

/* Returns true if the tiles can be written as rows. */
static bool has_rows(const tsr_fragment_writer *writer, const tiled_box *b, const cell_source *source) {
  const uint32_t fast = b->grid->col_major_cells ? 0 : b->grid->dimensions - 1;
  return source->columns && b->stride[fast] == 1 && b->grid->extent[fast] >= ROW_MIN &&
         tsr__fragment_writer_takes_rows(writer);
}

static int write_tiles_by_rows(tsr_fragment_writer *writer, tiled_box *b, const tsr_column *columns, tsr_memory *memory,
                               tsr_error *error) {
  tsr_buffer rows = {.memory = memory};
  int rc;
  do {
    rc = find_rows(b, &rows, error);
    if (rc >= 0)
      rc = tsr__fragment_writer_add_rows(writer, columns, (const tsr_cell_range *)(const void *)rows.data,
                                         rows.size / sizeof(tsr_cell_range), error);
  } while (rc >= 0 && step_coordinates(b->tile, b->tile_count, b->grid->dimensions, b->grid->col_major_tiles, 0));
  tsr__buffer_release(&rows);
  return rc;
}

/* ---- The fragment ------------------------------------------------------------------------------------------------ */

static int write_dense(const tsr_fragment_target *target, bool array_order, const cell_source *source,
                       tsr_error *error) {
  tsr_arena arena;
  tsr_grid grid;
  tiled_box b;
  tsr_fragment_writer *writer = NULL;
  tsr__arena_init(&arena, target->memory);
  int rc = tsr__grid_make(target->schema, &arena, &grid, error);
  bool row_major = !array_order || !grid.col_major_cells;
  if (rc >= 0) rc = make_box(target->schema, &grid, target->box, row_major, &arena, &b, error);
  if (rc >= 0) rc = tsr__fragment_writer_open(target, &writer, error);
  if (rc >= 0)
    rc = has_rows(writer, &b, source) ? write_tiles_by_rows(writer, &b, source->columns, target->memory, error)
                                      : write_tiles_by_order(writer, &b, source, target->memory, &arena, error);
  if (rc >= 0) rc = tsr__fragment_writer_finish(writer, error);
  tsr__fragment_writer_close(writer);
  tsr__arena_release(&arena);
  return rc;
}

int tsr__write_dense(const tsr_fragment_target *target, bool array_order, const tsr_column *columns, tsr_error *error) {
  return write_dense(target, array_order, &(cell_source){.columns = columns}, error);
}

int tsr__write_dense_tiles(const tsr_fragment_target *target, tsr_tile_filler fill, void *argument, tsr_error *error) {
  return write_dense(target, false, &(cell_source){.fill = fill, .argument = argument}, error);
}

/* Sets *cells to the number of cells in a box. Errors: TSR_RANGE if it is not a box within the domain; TSR_TOOBIG if
 * the number does not fit into 64 bits. */
static int box_cells(const tsr_schema *schema, const tsr_interval *intervals, tsr_memory *memory, uint64_t *cells,
                     tsr_error *error) {
  tsr_arena arena;
  tsr_grid grid;
  tiled_box b;
  tsr__arena_init(&arena, memory);
  int rc = tsr__grid_make(schema, &arena, &grid, error);
  if (rc >= 0) rc = make_box(schema, &grid, intervals, true, &arena, &b, error);
  if (rc >= 0) *cells = b.stride[0] * b.count[0];
  tsr__arena_release(&arena);
  return rc;
}

/* ---- Provisional directories ------------------------------------------------------------------------------------- */

/* bytes of memory_mb for each encoding thread, since codecs need memory */
#define THREAD_BYTES (UINT64_C(2) << 20)

int tsr__provisional_folder(tsr_writer *writer, const char *folder, tsr_error *error) {
  tsr_error one;
  const int rc = tsr__store_make_directory(writer->array->store, folder, &one);
  if (rc >= 0 && writer->commit.options.durable) return tsr__store_sync_directory(writer->array->store, "", error);
  if (rc < 0 && rc != TSR_EXISTS) {
    *error = one;
    return rc;
  }
  return TSR_OK;
}

int tsr__provisional_name(char name[128], tsr_error *error) {
  uint8_t random[16];
  tsr_name made;
  TSR_TRY(tsr__random(random, sizeof random, error));
  TSR_TRY(tsr__name_new(0, 0, 0, &made, random));
  snprintf(name, 128, ".%s", made.uuid);
  return TSR_OK;
}

int tsr__provisional_directory(tsr_writer *writer, tsr_store *scratch, char name[128], tsr_error *error) {
  if (scratch) {
    TSR_TRY(tsr__provisional_name(name, error));
    return tsr__store_make_provisional(scratch, name, error);
  }
  if (layout_has_commits_folder(writer->version)) {
    TSR_TRY(tsr__provisional_folder(writer, TSR_DIR_FRAGMENTS, error));
    TSR_TRY(tsr__provisional_folder(writer, TSR_DIR_COMMITS, error));
  }
  TSR_TRY(tsr__provisional_name(name, error));
  const tsr_path p = tsr__writer_path(writer, name);
  return tsr__store_make_provisional(writer->array->store, p.text, error);
}

tsr_fragment_target tsr__provisional_target(tsr_writer *writer, const char *directory, const tsr_interval *box) {
  const uint64_t limit = writer->memory.limit;
  return (tsr_fragment_target){.environment = writer->array->environment,
                               .store = writer->array->store,
                               .directory = directory,
                               .metadata_name = !layout_has_commit_files(writer->version) ? TSR_FILE_STAGED_METADATA
                                                                                          : TSR_FILE_FRAGMENT_METADATA,
                               .schema = writer->schema,
                               .version = writer->version,
                               .key = tsr__array_key(writer->array),
                               .box = box,
                               .memory = &writer->memory,
                               .window_bytes = limit / 16,
                               .threads = (unsigned)TSR_MIN(writer->threads, TSR_MAX(limit / THREAD_BYTES, 1)),
                               .durable = writer->commit.options.durable};
}

/* ---- The commit's fragments -------------------------------------------------------------------------------------- */

/* If memory is short, the cells in memory are spilled first, and everything is written from runs on disk.
 *
 * Invariant: each fragment in the list has a directory on disk, so that it is removed if anything fails. */

/* Makes a directory and lists it in `fragments`, so that it is removed if anything fails. */
static int new_fragment(tsr_writer *w, tsr_commit_fragment **made, tsr_error *error) {
  tsr_commit_fragment one = {.name = "."};
  TSR_TRY(tsr__buffer_reserve(&w->commit.fragments, sizeof one, error));
  TSR_TRY(tsr__provisional_directory(w, NULL, one.name, error));
  TSR_TRY(tsr__buffer_append(&w->commit.fragments, &one, sizeof one, error));
  *made = tsr__commit_fragment_at(&w->commit, tsr__commit_fragment_count(&w->commit) - 1);
  return TSR_OK;
}

int tsr__commit_fragments_remove(tsr_writer *writer, uint64_t from, tsr_error *error) {
  tsr_writer *w = writer;
  while (tsr__commit_fragment_count(&w->commit) > from) {
    const tsr_commit_fragment *last = tsr__commit_fragment_at(&w->commit, tsr__commit_fragment_count(&w->commit) - 1);
    tsr_path p = tsr__writer_path(w, last->name);
    TSR_TRY(tsr__store_remove_tree(w->array->store, p.text, error));
    w->commit.fragments.size -= sizeof(tsr_commit_fragment);
  }
  return TSR_OK;
}

/* ---- Cells of a sparse array ------------------------------------------------------------------------------------ */

/* Drops removed cells from the order; returns the number of cells left. */
static uint64_t leave_out_removed(const tsr_writer *w, uint32_t *order, uint64_t count) {
  uint64_t kept = 0;
  if (w->removed.own == 0) return count;
  for (uint64_t i = 0; i < count; i++) {
    order[kept] = order[i];
    kept += !tsr__removed_has(&w->removed, tsr__uncommitted_rowid(w->cells.first + order[i]), w->removed.count);
  }
  return kept;
}

static int write_cells_in_memory(tsr_writer *w, const tsr_column *columns, const uint32_t *order, uint64_t count,
                                 tsr_error *error) {
  tsr_commit_fragment *made = NULL;
  TSR_TRY(new_fragment(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, NULL);
  int rc = tsr__write_ordered(&target, columns, order, count, error);
  if (rc < 0) {
    tsr_error ignored;
    (void)tsr__commit_fragments_remove(w, tsr__commit_fragment_count(&w->commit) - 1, &ignored);
  }
  return rc;
}

/* Merges the runs on disk, after spilling the cells in memory as one more run. */
static int write_spilled(tsr_writer *w, tsr_error *error) {
  tsr_commit_fragment *made = NULL;
  uint64_t cells = 0;
  TSR_TRY(tsr__spill(w, error));
  TSR_TRY(new_fragment(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, NULL);
  /* after an error the files are removed with the other fragments */
  TSR_TRY(tsr__spill_merge(w, &target, &cells, error));
  return cells > 0 ? TSR_OK : tsr__commit_fragments_remove(w, tsr__commit_fragment_count(&w->commit) - 1, error);
}

static int write_from_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns = NULL;
  uint32_t *order = NULL;
  uint64_t count = tsr__writer_in_memory(w);
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) {
    tsr_writer_column(w, f, columns + f);
    /* where no cell is null, the fragment writer need not look at each */
    if (columns[f].validity && !memchr(columns[f].validity, 0, count)) columns[f].validity = NULL;
  }
  int rc = TSR_ALLOC_RAW(&w->memory, count, &order, error);
  if (rc >= 0) {
    const tsr_sorted_blocks sorted = tsr__background_sort_blocks(w);
    rc = tsr__order_cells(w->schema, columns, &w->memory, w->threads, &sorted, order, &count, error);
    if (rc < 0) rc = tsr__wrap(error, "sorting cells");
  }
  if (rc >= 0) tsr__background_sort_rewind(w, 0); /* frees memory for writing */
  if (rc >= 0) count = leave_out_removed(w, order, count);
  if (rc >= 0 && count > 0) rc = write_cells_in_memory(w, columns, order, count, error);
  tsr__free(order);
  tsr__free(columns);
  return rc;
}

static int write_sparse_fragments(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (w->runs.spilled) return write_spilled(w, error);
  if (w->cells.count == w->cells.first) return TSR_OK;
  const int rc = write_from_memory(w, &trouble);
  if (rc == TSR_BUDGET) return write_spilled(w, error); /* the cells themselves may leave memory */
  if (rc < 0) *error = trouble;
  return rc;
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static int check_box(const tsr_writer *w, const tsr_interval *box, tsr_error *error) {
  if (w->cells.count > 0) return tsr__fail(error, TSR_ERROR, "a commit has boxes or single cells, not both");
  if (w->commit.boxes && !layout_has_commits_folder(w->version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u commits one box at a time", w->version);
  for (uint32_t d = 0; d < w->schema->dimension_count; d++) {
    const tsr_field *field = &w->schema->fields[d];
    const tsr_column low = {.values = box[d].low, .constant = true}, high = {.values = box[d].high, .constant = true};
    TSR_TRY(tsr__check_coordinates(w->schema, d, &low, NULL, 1, error));
    TSR_TRY(tsr__check_coordinates(w->schema, d, &high, NULL, 1, error));
    if (tsr__key(field->datatype, box[d].low) > tsr__key(field->datatype, box[d].high))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is empty", field->name);
  }
  for (uint64_t i = 0; i < w->commit.boxes; i++) {
    bool meet = true;
    for (uint32_t d = 0; d < w->schema->dimension_count && meet; d++) {
      tsr_datatype datatype = w->schema->fields[d].datatype;
      const tsr_interval *other = &tsr__commit_fragment_at(&w->commit, i)->box[d];
      meet = tsr__key(datatype, box[d].low) <= tsr__key(datatype, other->high) &&
             tsr__key(datatype, box[d].high) >= tsr__key(datatype, other->low);
    }
    if (meet) return tsr__fail(error, TSR_ERROR, "the box overlaps another one of the same commit");
  }
  return TSR_OK;
}

static int write_appended_box(tsr_writer *w, const tsr_interval *box, bool array_order, const tsr_column *columns,
                              tsr_error *error) {
  uint64_t cells = 0;
  tsr_interval *copy;
  tsr_commit_fragment *made = NULL;
  TSR_TRY(check_box(w, box, error));
  TSR_TRY(box_cells(w->schema, box, &w->memory, &cells, error));
  for (uint32_t f = w->schema->dimension_count; f < w->field_count; f++) {
    TSR_TRY(tsr__check_nulls(&w->schema->fields[f], &columns[f], NULL, cells, error));
    TSR_TRY(tsr__check_scaled(w->schema, f, &columns[f], NULL, cells, error));
  }
  const tsr_constraint_cells tested = {.columns = columns, .count = cells, .box = box, .array_order = array_order};
  TSR_TRY(tsr__writer_test(w, &tested, NULL, error));
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_fragment(w, &made, error));
  made->box = copy;
  tsr__commit_mark_dirty(&w->commit);
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, copy);
  tsr_work work;
  tsr_work_begin(w->array->environment, &work, "write", w->array->path, cells);
  int rc = tsr__write_dense(&target, array_order, columns, error);
  tsr_work_end(w->array->environment, &work);
  if (rc < 0) {
    tsr_error ignored;
    (void)tsr__commit_fragments_remove(w, tsr__commit_fragment_count(&w->commit) - 1, &ignored);
  } else {
    w->commit.boxes++;
  }
  return rc;
}

int tsr__commit_fragments_add_box(tsr_writer *writer, const tsr_interval *box, tsr_box_writer write, void *argument,
                                  tsr_error *error) {
  tsr_writer *w = writer;
  tsr_interval *copy;
  tsr_commit_fragment *made = NULL;
  TSR_TRY(TSR_ARENA_COPY(&w->arena, box, w->schema->dimension_count * sizeof *box, &copy, error));
  TSR_TRY(new_fragment(w, &made, error));
  made->box = copy;
  tsr__commit_mark_dirty(&w->commit);
  tsr_path p = tsr__writer_path(w, made->name);
  const tsr_fragment_target target = tsr__provisional_target(w, p.text, copy);
  TSR_TRY(write(argument, &target, error)); /* after an error the files are removed with the other fragments */
  w->commit.boxes++;
  return TSR_OK;
}

int tsr_writer_append_box(tsr_writer *writer, const tsr_interval *box, bool array_order, const tsr_column *columns,
                          tsr_error *error) {
  TSR_OWN_ERROR(error);
  int rc = tsr__writer_check_open(writer, error);
  if (rc >= 0 && !writer->schema->dense) rc = tsr__fail(error, TSR_ERROR, "boxes can be appended to dense arrays only");
  if (rc >= 0) rc = write_appended_box(writer, box, array_order, columns, error);
  return tsr__writer_wrap(writer, rc, error);
}

/* ---- The array's current state ----------------------------------------------------------------------------------- */

/* The listing is not frozen, so that the commit's time is chosen later than everything in the snapshot. */
int tsr__writer_open_current(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  tsr_writer *w = argument;
  const uint64_t frozen = w->array->log.frozen;
  w->array->log.frozen = 0;
  int rc = tsr__log_list(&w->array->log, true, true, error);
  if (rc >= 0) rc = tsr_snapshot_open(w->array, w->schema, TSR_TIME_BEGIN, TSR_TIME_NOW, snapshot, error);
  w->array->log.frozen = frozen;
  return rc;
}

/* ---- Cells of a dense array -------------------------------------------------------------------------------------- */

typedef struct spilled_cells { /* spilled cells that are being divided into boxes */
  tsr_writer *w;
  tsr_buffer runs; /* tsr_sorted_run in the array's order, with each coordinate once */
} spilled_cells;

static const tsr_sorted_run *runs_of(const spilled_cells *s) {
  return (const tsr_sorted_run *)(const void *)s->runs.data;
}
static uint64_t sorted_run_count(const spilled_cells *s) { return s->runs.size / sizeof(tsr_sorted_run); }

/* Opens the current state with the spilled cells on top. */
static int open_with_spilled(void *argument, tsr_snapshot **snapshot, tsr_error *error) {
  const spilled_cells *s = argument;
  tsr_snapshot *present;
  TSR_TRY(tsr__writer_open_current(s->w, &present, error));
  const int rc = tsr__transaction_view_stack(s->w, present, false, runs_of(s), sorted_run_count(s), snapshot, error);
  tsr_snapshot_close(present);
  return rc;
}

static int write_found_box(tsr_writer *w, tsr_boxes *boxes, uint64_t index, tsr_error *error) {
  const tsr_interval *box = tsr__boxes_box(boxes, index);
  tsr_commit_fragment *made = NULL;
  TSR_TRY(new_fragment(w, &made, error));
  tsr_path p = tsr__writer_path(w, made->name);
  tsr_fragment_target target = tsr__provisional_target(w, p.text, box);
  /* after an error the files are removed with the other fragments */
  return tsr__boxes_write(boxes, index, &target, error);
}

/* Writes the boxes of the cells in memory, or of spilled cells. */
static int write_found_boxes(tsr_writer *w, const tsr_column *columns, spilled_cells *s, tsr_snapshot *alone,
                             tsr_error *error) {
  tsr_boxes *boxes = NULL;
  const tsr_boxes_source source = {.schema = w->schema,
                                   .columns = columns,
                                   .count = w->cells.count,
                                   .spilled = alone,
                                   .most = !layout_has_commits_folder(w->version) ? 1 : TSR_BOXES_MAX,
                                   .open_snapshot = w->commit.options.part ? NULL
                                                    : alone                ? open_with_spilled
                                                                           : tsr__writer_open_current,
                                   .argument = alone ? (void *)s : w,
                                   .memory = &w->memory,
                                   .threads = w->threads};
  int rc = tsr__boxes_open(&source, &boxes, error);
  for (uint64_t i = 0; rc >= 0 && i < tsr__boxes_count(boxes); i++) rc = write_found_box(w, boxes, i, error);
  tsr__boxes_close(boxes);
  return rc;
}

static int write_boxes_in_memory(tsr_writer *w, tsr_error *error) {
  tsr_column *columns;
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  for (uint32_t f = 0; f < w->field_count; f++) tsr_writer_column(w, f, columns + f);
  const int rc = write_found_boxes(w, columns, NULL, NULL, error);
  tsr__free(columns);
  return rc;
}

/* Writes the boxes of runs on disk, which are first merged into one order. The cells in memory become one more run. */
static int write_boxes_from_disk(tsr_writer *w, tsr_error *error) {
  spilled_cells s = {.w = w, .runs.memory = &w->memory};
  tsr_snapshot *present = NULL, *alone = NULL;
  TSR_TRY(tsr__spill(w, error));
  int rc = tsr__spill_join(w, &s.runs, error);
  if (rc >= 0) rc = tsr__writer_open_current(w, &present, error);
  if (rc >= 0) rc = tsr__transaction_view_stack(w, present, true, runs_of(&s), sorted_run_count(&s), &alone, error);
  if (rc >= 0) rc = write_found_boxes(w, NULL, &s, alone, error);
  tsr_snapshot_close(alone);
  tsr_snapshot_close(present);
  for (uint64_t i = 0; i < sorted_run_count(&s); i++) tsr__array_fragment_drop(w->array, runs_of(&s)[i].fragment);
  tsr__buffer_release(&s.runs);
  return rc;
}

static int write_dense_fragments(tsr_writer *w, tsr_error *error) {
  tsr_error trouble = {0};
  if (!w->cells.count) return TSR_OK;
  if (w->runs.spilled) return write_boxes_from_disk(w, error);
  const int rc = write_boxes_in_memory(w, &trouble);
  if (rc != TSR_BUDGET) {
    if (rc < 0) *error = trouble;
    return rc;
  }
  TSR_TRY(tsr__commit_fragments_remove(w, w->commit.boxes, error)); /* the cells themselves may leave memory */
  return write_boxes_from_disk(w, error);
}

int tsr__commit_fragments_write(tsr_writer *writer, tsr_error *error) {
  return writer->schema->dense ? write_dense_fragments(writer, error) : write_sparse_fragments(writer, error);
}
