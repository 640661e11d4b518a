/* transaction_view.c: makes snapshots with a writer's uncommitted changes on top.
 *
 * Cells in memory become sorted runs: sparse fragments whose decoded tiles are in memory. To make a run, the cells are
 * sorted and cut into tiles, and the MBRs of the tiles are computed. A new snapshot needs only a run of the cells
 * appended since the last one. If the later of two adjacent runs is not much smaller than the earlier, they are
 * replaced by one run of both, so that each cell is sorted a logarithmic number of times. The reader does the rest:
 * runs are last in the list of fragments, and the numbers of cells are their times. */
#include "write/writer.h"

#include <string.h>

#include "format/fragment_metadata.h"
#include "array/array.h"

/* A tile of a run has one cell for each LIMIT_PER_CELL bytes of the budget: merging holds a tile of each spilled run.
 */
#define LIMIT_PER_CELL 65536u

int tsr__run_schema(tsr_writer *writer, tsr_error *error) {
  const tsr_schema *schema = writer->schema;
  const tsr_pipeline none = {.max_chunk_size = 65536};
  if (writer->runs.schema) return TSR_OK;
  tsr_schema *made;
  TSR_TRY(TSR_ARENA_COPY(&writer->arena, schema, sizeof *schema, &made, error));
  TSR_TRY(
      TSR_ARENA_COPY(&writer->arena, schema->fields, writer->field_count * sizeof(tsr_field), &made->fields, error));
  for (uint32_t f = 0; f < writer->field_count; f++) made->fields[f].filters = none;
  made->coords_filters = made->offsets_filters = made->validity_filters = none;
  made->allows_duplicates = true;
  made->capacity = TSR_MIN(made->dense ? TSR_RUN_CAPACITY : schema->capacity, TSR_RUN_CAPACITY);
  made->capacity = TSR_MAX(TSR_MIN(made->capacity, writer->memory.limit / LIMIT_PER_CELL), 1);
  writer->runs.schema = made;
  return TSR_OK;
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

typedef struct making { /* a run under construction */
  const tsr_writer *writer;
  tsr_fragment *fragment;
  const tsr_column *columns; /* its cells */
  const uint32_t *order;
  uint64_t first, count; /* number of its first cell; number of cells */
} making;

static int new_tile(tsr_memory *memory, uint64_t cells, uint64_t cell_size, uint64_t values, bool nullable,
                    tsr_tile **tile, tsr_error *error) {
  const uint64_t offsets = cell_size ? 0 : (cells + 1) * sizeof(uint64_t), whole = (values + 7) / 8 * 8;
  const uint64_t bytes = sizeof(tsr_tile) + offsets + whole + (nullable ? cells : 0);
  tsr_tile *t;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(memory, bytes, &t, error));
  uint8_t *at = (uint8_t *)(t + 1);
  *t = (tsr_tile){.references = 1, .cells = cells, .bytes = bytes, .cell_size = cell_size, .values_size = values};
  if (!cell_size) t->offsets = (uint64_t *)(void *)at;
  t->values = at + offsets;
  if (nullable) t->validity = at + offsets + whole;
  *tile = t;
  return TSR_OK;
}

#define TRANSACTION_VIEW_GATHER(type)                                                                                  \
  for (uint64_t i = 0; i < count; i++) ((type *)(void *)to)[i] = ((const type *)(const void *)from)[order[i]];

static void gather_runs(const uint8_t *from, uint64_t size, const uint32_t *order, uint64_t count, uint8_t *to) {
  switch (size) {
  case 1: TRANSACTION_VIEW_GATHER(uint8_t) break;
  case 2: TRANSACTION_VIEW_GATHER(uint16_t) break;
  case 4: TRANSACTION_VIEW_GATHER(uint32_t) break;
  case 8: TRANSACTION_VIEW_GATHER(uint64_t) break;
  default:
    for (uint64_t i = 0; i < count; i++) memcpy(to + i * size, from + order[i] * size, size);
  }
}

static int make_field_tile(const making *m, const tsr_field *field, const tsr_column *column, const uint32_t *order,
                           uint64_t count, tsr_tile **tile, tsr_error *error) {
  tsr_memory *memory = m->fragment->metadata.arena.memory;
  uint64_t size = count * field->cell_size, at = 0;
  for (uint64_t i = 0; !field->cell_size && i < count; i++)
    size += column->offsets[order[i] + 1] - column->offsets[order[i]];
  TSR_TRY(new_tile(memory, count, field->cell_size, size, field->nullable, tile, error));
  if (field->cell_size) {
    gather_runs(column->values, field->cell_size, order, count, (*tile)->values);
  } else {
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t from = column->offsets[order[i]], n = column->offsets[order[i] + 1] - from;
      (*tile)->offsets[i] = at;
      if (n) memcpy((*tile)->values + at, (const uint8_t *)column->values + from, n);
      at += n;
    }
    (*tile)->offsets[count] = at;
  }
  if (field->nullable) gather_runs(column->validity, 1, order, count, (*tile)->validity);
  return TSR_OK;
}

static int make_tiles(const making *m, uint64_t number, tsr_error *error) {
  tsr_fragment_metadata *metadata = &m->fragment->metadata;
  const uint64_t capacity = metadata->schema->capacity, from = number * capacity;
  const uint64_t count = TSR_MIN(capacity, m->count - from);
  const uint32_t *order = m->order + from;
  tsr_tile *times;
  for (uint32_t f = 0; f < m->writer->field_count; f++) {
    const int64_t slot = tsr__fragment_slot(metadata, f);
    TSR_TRY(make_field_tile(m, &metadata->schema->fields[f], &m->columns[f], order, count,
                            &m->fragment->run.tiles[(uint64_t)slot * metadata->tile_count + number], error));
  }
  TSR_TRY(new_tile(metadata->arena.memory, count, sizeof(uint64_t), count * sizeof(uint64_t), false, &times, error));
  uint64_t *values = (uint64_t *)(void *)times->values;
  for (uint64_t i = 0; i < count; i++) values[i] = TSR_UNCOMMITTED_TIMES + m->first + order[i];
  m->fragment->run
      .tiles[(uint64_t)tsr__fragment_system_slot(metadata, TSR_SLOT_TIMES) * metadata->tile_count + number] = times;
  return TSR_OK;
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

static const tsr_tile *tile_of(const making *m, uint32_t dimension, uint64_t number) {
  const tsr_fragment_metadata *metadata = &m->fragment->metadata;
  return m->fragment->run.tiles[(uint64_t)tsr__fragment_slot(metadata, dimension) * metadata->tile_count + number];
}

static void find_ends(tsr_datatype datatype, const tsr_tile *tile, uint64_t *low, uint64_t *high) {
  const uint64_t size = tile->cell_size;
  uint64_t keys[256];
  *low = UINT64_MAX;
  *high = 0;
  for (uint64_t done = 0, n; done < tile->cells; done += n) {
    n = TSR_MIN(tile->cells - done, 256);
    tsr__keys(datatype, tile->values + done * size, n, keys);
    for (uint64_t i = 0; i < n; i++) {
      *low = TSR_MIN(*low, keys[i]);
      *high = TSR_MAX(*high, keys[i]);
    }
  }
}

/* Finds the cells with the least and the greatest string. */
static void find_text_ends(const tsr_tile *tile, uint64_t *low, uint64_t *high) {
  const uint64_t *o = tile->offsets;
  *low = *high = 0;
  for (uint64_t i = 1; i < tile->cells; i++) {
    const uint8_t *text = tile->values + o[i];
    const uint64_t size = o[i + 1] - o[i];
    if (tsr__bytes_compare(text, size, tile->values + o[*low], o[*low + 1] - o[*low]) < 0) *low = i;
    if (tsr__bytes_compare(text, size, tile->values + o[*high], o[*high + 1] - o[*high]) > 0) *high = i;
  }
}

static int append_text(tsr_buffer *text, const tsr_tile *tile, uint64_t cell, uint64_t *key, uint64_t *size,
                       tsr_error *error) {
  *key = text->size;
  *size = tile->offsets[cell + 1] - tile->offsets[cell];
  return tsr__buffer_append(text, tile->values + tile->offsets[cell], *size, error);
}

/* Fills in the leaves of the R-tree: the box of each tile. */
static int find_leaves(const making *m, uint64_t *keys, uint64_t *sizes, tsr_buffer *text, tsr_error *error) {
  const tsr_schema *schema = m->fragment->metadata.schema;
  for (uint64_t t = 0; t < m->fragment->metadata.tile_count; t++)
    for (uint32_t d = 0; d < schema->dimension_count; d++) {
      const uint64_t at = (t * schema->dimension_count + d) * 2;
      const tsr_tile *tile = tile_of(m, d, t);
      uint64_t low, high;
      if (tile->cell_size) {
        find_ends(schema->fields[d].datatype, tile, &keys[at], &keys[at + 1]);
        continue;
      }
      find_text_ends(tile, &low, &high);
      TSR_TRY(append_text(text, tile, low, &keys[at], &sizes[at], error));
      TSR_TRY(append_text(text, tile, high, &keys[at + 1], &sizes[at + 1], error));
    }
  return TSR_OK;
}

static int make_rtree(const making *m, tsr_error *error) {
  tsr_fragment_metadata *metadata = &m->fragment->metadata;
  const tsr_schema *schema = metadata->schema;
  const uint32_t n = schema->dimension_count;
  tsr_buffer text = {.memory = metadata->arena.memory};
  uint64_t *keys = NULL;
  uint64_t *sizes = NULL;
  uint8_t *bytes = NULL;
  tsr_rtree *room;
  bool texts = false;
  for (uint32_t d = 0; d < n; d++) texts |= !schema->fields[d].cell_size;
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, metadata->tile_count * n * 2, &keys, error));
  if (texts) TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, metadata->tile_count * n * 2, &sizes, error));
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, 1, &room, error));
  int rc = find_leaves(m, keys, sizes, &text, error);
  if (rc >= 0) rc = TSR_ARENA_COPY(&metadata->arena, text.data ? text.data : (uint8_t *)"", text.size, &bytes, error);
  tsr__buffer_release(&text);
  TSR_TRY(rc);
  metadata->rtree = room;
  TSR_TRY(tsr__rtree_build(schema, metadata->tile_count, keys, sizes, bytes, &metadata->arena, room, error));
  TSR_TRY(TSR_ARENA_ARRAY(&metadata->arena, n, &metadata->non_empty_domain, error));
  tsr__rtree_domain(room, schema, metadata->non_empty_domain);
  return TSR_OK;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

static int fill_run(making *m, tsr_error *error) {
  tsr_fragment_metadata *metadata = &m->fragment->metadata;
  metadata->version = TSR_RUN_VERSION;
  metadata->schema = m->writer->runs.schema;
  metadata->has_times = true;
  metadata->tile_count = (m->count + metadata->schema->capacity - 1) / metadata->schema->capacity;
  metadata->last_tile_cells = m->count - (metadata->tile_count - 1) * metadata->schema->capacity;
  TSR_TRY(tsr__fragment_metadata_make_slots(metadata, error));
  for (uint32_t slot = 0; slot < metadata->slot_count; slot++) {
    tsr_system_column system_column = TSR_SLOT_TIMES;
    metadata->slots[slot].present =
        tsr__fragment_slot_field(metadata, slot, &system_column) >= 0 || system_column == TSR_SLOT_TIMES;
  }
  TSR_TRY(tsr__fragment_make_files(m->fragment, error));
  TSR_TRY(TSR_ALLOC_ARRAY(metadata->arena.memory, metadata->slot_count * metadata->tile_count, &m->fragment->run.tiles,
                          error));
  for (uint64_t t = 0; t < metadata->tile_count; t++) TSR_TRY(make_tiles(m, t, error));
  return make_rtree(m, error);
}

static int sort_run(tsr_writer *w, making *m, tsr_error *error) {
  uint64_t count = m->count;
  uint32_t *order;
  TSR_TRY(TSR_ALLOC_RAW(&w->memory, count, &order, error));
  int rc = tsr__order_cells(w->runs.schema, m->columns, &w->memory, w->threads, NULL, order, &count, error);
  m->order = order;
  if (rc >= 0) rc = tsr__array_fragment_new(w->array, "(cells to be committed)", &m->fragment, error);
  if (rc >= 0) {
    m->fragment->run.uncommitted = true;
    m->fragment->parsed.start = m->fragment->parsed.end = UINT64_MAX;
    m->fragment->cells_per_tile = w->runs.schema->capacity;
    tsr__arena_init(&m->fragment->metadata.arena, &w->memory);
    rc = fill_run(m, error);
    if (rc < 0) tsr__array_fragment_drop(w->array, m->fragment);
  }
  tsr__free(order);
  return rc;
}

/* Makes a run in memory from the cells first..end. */
static int make_run(tsr_writer *w, uint64_t first, uint64_t end, tsr_fragment **fragment, tsr_error *error) {
  tsr_column *columns;
  TSR_TRY(tsr__run_schema(w, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count, &columns, error));
  making m = {.writer = w, .columns = columns, .first = first, .count = end - first};
  for (uint32_t f = 0; f < w->field_count; f++)
    columns[f] = tsr__buffered_column(&w->schema->fields[f], &w->cells.columns[f], first - w->cells.first);
  const int rc = sort_run(w, &m, error);
  tsr__free(columns);
  if (rc >= 0) *fragment = m.fragment;
  return rc;
}

/* Sets *position to the position of a cell in a run in memory. `first` is the number of the run's first cell, `first +
 * at` the number of the cell. */
static int position_in_memory(tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position, tsr_error *error) {
  const tsr_fragment_metadata *m = &run->metadata;
  if (!run->run.positions) {
    tsr_tile *const *times = run->run.tiles + (uint64_t)tsr__fragment_system_slot(m, TSR_SLOT_TIMES) * m->tile_count;
    const uint64_t cells = (m->tile_count - 1) * run->cells_per_tile + m->last_tile_cells;
    uint32_t place = 0;
    TSR_TRY(TSR_ALLOC_RAW(m->arena.memory, cells, &run->run.positions, error));
    for (uint64_t t = 0; t < m->tile_count; t++) {
      const uint64_t *numbers = (const uint64_t *)(const void *)times[t]->values;
      for (uint64_t i = 0; i < times[t]->cells; i++)
        run->run.positions[numbers[i] - TSR_UNCOMMITTED_TIMES - first] = place++;
    }
  }
  *position = run->run.positions[at];
  return TSR_OK;
}

static void drop_runs(tsr_writer *w, uint64_t from) {
  while (tsr__run_count(&w->runs) > from) {
    tsr__array_fragment_drop(w->array, tsr__run_at(&w->runs, tsr__run_count(&w->runs) - 1)->fragment);
    w->runs.list.size -= sizeof(tsr_sorted_run);
  }
}

/* Makes runs that cover all cells in memory. */
static int make_runs(tsr_writer *w, tsr_error *error) {
  uint64_t kept = tsr__run_count(&w->runs);
  uint64_t first = kept > w->runs.spilled ? tsr__run_at(&w->runs, kept - 1)->end : w->cells.first;
  tsr_sorted_run run = {.end = w->cells.count, .stored = 0};
  if (first == w->cells.count) return TSR_OK;
  while (kept > w->runs.spilled) {
    const tsr_sorted_run *last = tsr__run_at(&w->runs, kept - 1);
    if (last->end - last->first >= 2 * (w->cells.count - first)) break;
    first = last->first;
    kept--;
  }
  run.first = first;
  run.stored = run.end - run.first;
  TSR_TRY(tsr__buffer_reserve(&w->runs.list, sizeof run, error));
  TSR_TRY(make_run(w, first, w->cells.count, &run.fragment, error));
  drop_runs(w, kept);
  return tsr__buffer_append(&w->runs.list, &run, sizeof run, error);
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

int tsr__transaction_view_stack(tsr_writer *writer, tsr_snapshot *base, bool alone, const tsr_sorted_run *own,
                                uint64_t count, tsr_snapshot **snapshot, tsr_error *error) {
  tsr_snapshot_run *runs;
  TSR_TRY(TSR_ALLOC_ARRAY(&writer->memory, count, &runs, error));
  for (uint64_t i = 0; i < count; i++)
    runs[i] = (tsr_snapshot_run){.fragment = own[i].fragment,
                                 .first = own[i].first,
                                 .end = own[i].end,
                                 .cut = own[i].end - own[i].first < own[i].stored};
  const int rc = tsr__snapshot_stack(base, alone, runs, count, snapshot, error);
  tsr__free(runs);
  return rc;
}

static int stack(tsr_writer *w, tsr_snapshot *base, uint64_t count, tsr_snapshot **snapshot, tsr_error *error) {
  return tsr__transaction_view_stack(w, base, false, tsr__run_at(&w->runs, 0), count, snapshot, error);
}

int tsr__transaction_view_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error) {
  if (writer->runs.spilled) return stack(writer, base, writer->runs.spilled, snapshot, error);
  tsr__snapshot_hold(base);
  *snapshot = base;
  return TSR_OK;
}

static void drop_view(tsr_writer *w) {
  tsr_snapshot *view = w->view.snapshot;
  w->view.snapshot = NULL;
  tsr_snapshot_close(view);
}

static int view_position(tsr_array *array, tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position,
                         tsr_error *error) {
  if (run->run.tiles) return position_in_memory(run, first, at, position, error);
  return tsr__spill_position(array, run, at, position, error);
}

static bool view_hides(const tsr_writer *writer, int64_t row, uint64_t removed) {
  return tsr__removed_has(&writer->removed, row, removed);
}

static bool view_hides_some(const tsr_writer *writer, int64_t low, int64_t high) {
  return tsr__removed_may_overlap(&writer->removed, low, high);
}

static const tsr_writer_view writer_view = {
    .hides = view_hides, .hides_some = view_hides_some, .position = view_position, .release = tsr__writer_drop};

static bool is_same(tsr_mark a, tsr_mark b) { return a.cells == b.cells && a.removed == b.removed; }

static int make_view(tsr_writer *w, tsr_snapshot *base, tsr_mark mark, tsr_snapshot **snapshot, tsr_error *error) {
  TSR_TRY(make_runs(w, error));
  drop_view(w);
  TSR_TRY(stack(w, base, tsr__run_count(&w->runs), &w->view.snapshot, error));
  w->view.snapshot->view.writer = w;
  w->references++;
  w->view.snapshot->view.removed = mark.removed;
  w->view.snapshot->view.functions = &writer_view;
  w->view.mark = mark;
  *snapshot = w->view.snapshot;
  return TSR_OK;
}

int tsr_snapshot_with(tsr_snapshot *base, tsr_writer *writer, tsr_snapshot **snapshot, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_mark mark = tsr_writer_mark(writer);
  if (mark.cells == 0 && mark.removed == 0) {
    *snapshot = base;
  } else if (writer->view.snapshot && writer->view.snapshot->view.base == base && is_same(mark, writer->view.mark)) {
    *snapshot = writer->view.snapshot;
  } else if (make_view(writer, base, mark, snapshot, error) < 0) {
    return tsr__wrap(error, "array %s", writer->array->path);
  }
  tsr__snapshot_hold(*snapshot);
  return TSR_OK;
}

void tsr__transaction_view_rewind(tsr_writer *writer, uint64_t count) {
  drop_view(writer);
  uint64_t kept = tsr__run_count(&writer->runs);
  while (kept > writer->runs.spilled && tsr__run_at(&writer->runs, kept - 1)->end > count) kept--;
  drop_runs(writer, kept);
}

void tsr__transaction_view_release(tsr_writer *writer) {
  drop_view(writer);
  drop_runs(writer, 0);
}
