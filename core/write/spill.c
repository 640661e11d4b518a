/* spill.c: an external merge sort: writes cells that do not fit into memory to disk as sorted runs, and merges the runs
 * into fragments.
 *
 * A run is a fragment under a provisional name: unfiltered, encrypted if the array is, with all versions of a
 * coordinate, the oldest first, and with the numbers of its cells as their times. One extra file maps rowids to cells:
 *
 *   positions    u32 each: the position in the run of the cell that was appended as number i of it
 *
 * The merge holds one tile of each run in memory. A heap yields the cells in global order, with equal coordinates in
 * the order of their numbers. If the array does not allow duplicates, the last of equal cells wins.
 *
 * If a tile of each run does not fit into memory, groups of runs are merged first, in passes. A group becomes a
 * sequence of parts: fragments like runs, but without positions; several of them, since memory limits the metadata of a
 * single one. Parts are deleted with the merge. The runs stay, since snapshots and rewinding need them. */
#include "write/writer.h"

#include <stdio.h>

#include "base/heap.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"

#define POSITIONS      "positions"
#define SORT_BYTES     80u /* approximate bytes of a cell while it is sorted and written */
#define FIXED_BYTES    (UINT64_C(1) << 20) /* bytes that codecs need, however few cells there are */
#define SOURCES_WANTED 8u /* number of sources worth merging at once */
#define CELLS_MIN      1024u /* minimum number of cells in memory for a run */
#define BATCH_CELLS    4096u /* merged cells passed to the fragment writer at a time */
#define TILES_MIN      512u /* memory_mb holds at least this many tiles of a part */
#define TILE_BYTES     64u /* approximate bytes of metadata for each field of a tile */

/* ---- Spilling ---------------------------------------------------------------------------------------------------- */

static tsr_store *run_store(const tsr_writer *w) {
  return w->runs.scratch.store ? w->runs.scratch.store : w->array->store;
}

static int write_positions(tsr_writer *w, const char *directory, const uint32_t *order, uint64_t count,
                           tsr_error *error) {
  char path[200];
  uint32_t *positions;
  tsr_file *file = NULL;
  TSR_TRY(TSR_ALLOC_RAW(&w->memory, count, &positions, error));
  for (uint64_t i = 0; i < count; i++) positions[order[i]] = (uint32_t)i;
  snprintf(path, sizeof path, "%.160s/" POSITIONS, directory);
  int rc = tsr__store_create_exclusive(run_store(w), path, &file, error);
  if (rc >= 0) rc = tsr__store_append(file, positions, count * sizeof(uint32_t), error);
  tsr__store_close_file(file);
  tsr__free(positions);
  return rc;
}

typedef struct run_path {
  char text[160];
} run_path;

static run_path path_of(const tsr_fragment *fragment) {
  run_path path;
  snprintf(path.text, sizeof path.text, "%s%.120s", tsr__fragment_parent(fragment), fragment->name);
  return path;
}

static tsr_fragment_target run_target(tsr_writer *w, const tsr_schema *schema, const char *directory) {
  tsr_fragment_target target = tsr__provisional_target(w, directory, NULL);
  target.store = run_store(w);
  target.metadata_name = TSR_FILE_FRAGMENT_METADATA;
  target.schema = schema;
  target.version = TSR_RUN_VERSION;
  target.has_times = true;
  target.durable = false;
  return target;
}

static int write_run(tsr_writer *w, const char *directory, tsr_column *columns, tsr_error *error) {
  uint64_t count = tsr__writer_in_memory(w);
  uint32_t *order = NULL;
  uint64_t *times = NULL;
  tsr_fragment_target target = run_target(w, w->runs.schema, directory);
  int rc = TSR_ALLOC_RAW(&w->memory, count, &order, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(&w->memory, count, &times, error);
  for (uint64_t i = 0; rc >= 0 && i < count; i++) times[i] = TSR_UNCOMMITTED_TIMES + w->cells.first + i;
  columns[w->field_count] = (tsr_column){.values = times, .cell_size = sizeof(uint64_t)};
  tsr_work work;
  tsr_work_begin(w->array->environment, &work, "spill", w->array->path, count);
  const tsr_sorted_blocks sorted = tsr__background_sort_blocks(w);
  if (rc >= 0) rc = tsr__order_cells(w->runs.schema, columns, &w->memory, w->threads, &sorted, order, &count, error);
  tsr__background_sort_rewind(w, 0);
  if (rc >= 0) rc = tsr__write_ordered(&target, columns, order, count, error);
  tsr_work_end(w->array->environment, &work);
  if (rc >= 0) rc = write_positions(w, directory, order, count, error);
  tsr__free(times);
  tsr__free(order);
  return rc;
}

static int find_schema(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  (void)name, (void)error;
  *schema = *(const tsr_schema **)argument;
  return TSR_OK;
}

/* Opens a run that has been written. Its schema belongs to the writer, which lives as long as the snapshots with the
 * run. */
static int open_run(tsr_writer *w, const tsr_schema *schema, const char *directory, tsr_fragment *fragment,
                    tsr_error *error) {
  char path[200];
  tsr_file *file = NULL;
  snprintf(path, sizeof path, "%.160s/" TSR_FILE_FRAGMENT_METADATA, directory);
  TSR_TRY(tsr__store_open_file(run_store(w), path, &file, error));
  const int rc = tsr__fragment_metadata_read(file, TSR_RUN_VERSION, tsr__array_key(w->array), find_schema, &schema,
                                             tsr__arena(&w->array->memory), &fragment->metadata, error);
  tsr__store_close_file(file);
  TSR_TRY(rc);
  fragment->cells_per_tile = schema->capacity;
  return tsr__fragment_make_files(fragment, error);
}

/* Makes a run without cells, with its directory. */
static int new_run(tsr_writer *w, tsr_fragment **fragment, tsr_error *error) {
  char name[128];
  if (w->runs.scratch.host && !w->runs.scratch.store)
    TSR_TRY(tsr__store_host_open(&w->array->memory, w->runs.scratch.host, w->runs.scratch.argument, "scratch", NULL,
                                 &w->runs.scratch.store, error));
  TSR_TRY(tsr__provisional_directory(w, w->runs.scratch.store, name, error));
  TSR_TRY(tsr__array_fragment_new(w->array, name, fragment, error));
  (*fragment)->run.scratch = w->runs.scratch.store;
  (*fragment)->run.uncommitted = (*fragment)->run.provisional = true;
  (*fragment)->old_layout = !layout_has_commits_folder(w->version);
  (*fragment)->parsed.start = (*fragment)->parsed.end = UINT64_MAX;
  return TSR_OK;
}

static int make_run(tsr_writer *w, tsr_column *columns, tsr_fragment *fragment, tsr_error *error) {
  const run_path directory = path_of(fragment);
  for (uint32_t f = 0; f < w->field_count; f++)
    columns[f] = tsr__buffered_column(&w->schema->fields[f], &w->cells.columns[f], 0);
  TSR_TRY(write_run(w, directory.text, columns, error));
  return open_run(w, w->runs.schema, directory.text, fragment, error);
}

static int spill(tsr_writer *writer, tsr_error *error) {
  tsr_writer *w = writer;
  tsr_column *columns;
  tsr_sorted_run run = {.first = w->cells.first, .end = w->cells.count, .stored = tsr__writer_in_memory(w)};
  if (run.stored == 0) return TSR_OK;
  TSR_TRY(tsr__run_schema(w, error));
  tsr__transaction_view_rewind(w, 0); /* runs in memory are not needed any more */
  tsr__index_release(w);
  TSR_TRY(tsr__buffer_reserve(&w->runs.list, sizeof run, error));
  TSR_TRY(tsr__commit_budget_reserve(w, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&w->memory, w->field_count + 1, &columns, error));
  int rc = new_run(w, &run.fragment, error);
  if (rc >= 0) {
    rc = make_run(w, columns, run.fragment, error);
    if (rc < 0) tsr__array_fragment_drop(w->array, run.fragment);
  }
  tsr__free(columns);
  if (rc < 0) return tsr__wrap(error, "writing cells that memory_mb has no room for");
  (void)tsr__buffer_append(&w->runs.list, &run, sizeof run, error); /* cannot fail: the memory is reserved */
  w->runs.spilled++;
  tsr__commit_budget_spilled(w);
  for (uint32_t f = 0; f < w->field_count; f++) tsr__buffered_truncate(&w->schema->fields[f], &w->cells.columns[f], 0);
  w->cells.first = w->cells.count;
  return TSR_OK;
}

/* A statement that spills may use as much memory as a commit: cells that need more could not be committed anyway. */
int tsr__spill(tsr_writer *writer, tsr_error *error) {
  const bool lent = writer->memory.lent > 0;
  if (!lent) tsr__commit_budget_lend(writer, true);
  const int rc = spill(writer, error);
  if (!lent) tsr__commit_budget_lend(writer, false);
  return rc;
}

int tsr__spill_if_full(tsr_writer *writer, tsr_error *error) {
  const tsr_writer *w = writer;
  const uint64_t cells = tsr__writer_in_memory(w), limit = w->memory.limit;
  uint64_t bytes = 0, room = tsr__background_sort_bytes(w);
  for (uint32_t f = 0; f < w->field_count; f++) {
    const tsr_buffered *c = &w->cells.columns[f];
    bytes += c->values.size + c->offsets.size + c->validity.size;
    room += tsr__buffered_bytes(c);
  }
  if (w->cells.kept || (cells < CELLS_MIN && bytes < limit / 64)) return TSR_OK;
  const uint64_t used = w->memory.used, other = used - TSR_MIN(used, room);
  const uint64_t needed = tsr__add_sat(tsr__add_sat(bytes / 2 * 5, cells * SORT_BYTES), other);
  return needed > limit / 4 * 3 - TSR_MIN(limit / 2, FIXED_BYTES) ? tsr__spill(writer, error) : TSR_OK;
}

void tsr__spill_rewind(tsr_writer *writer, uint64_t count) {
  if (count >= writer->cells.first) return;
  tsr__finder_close(writer);
  while (writer->runs.spilled > 0) {
    tsr_sorted_run *last = tsr__run_at(&writer->runs, writer->runs.spilled - 1);
    if (last->first < count) {
      last->end = TSR_MIN(last->end, count);
      return;
    }
    tsr__array_fragment_drop(writer->array, last->fragment);
    tsr__commit_budget_drop_run(writer);
    writer->runs.list.size -= sizeof(tsr_sorted_run); /* runs in memory were dropped before */
    writer->runs.spilled--;
  }
}

int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error) {
  char path[200];
  uint8_t bytes[sizeof(uint32_t)];
  tsr_file *file;
  snprintf(path, sizeof path, "%s%.120s/" POSITIONS, tsr__fragment_parent(run), run->name);
  TSR_TRY(tsr__store_open_file(tsr__fragment_store(array, run), path, &file, error));
  const int rc = tsr__store_read_at(file, at * sizeof bytes, bytes, sizeof bytes, error);
  tsr__store_close_file(file);
  if (rc >= 0) *position = tsr__load32(bytes);
  return rc;
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */

typedef struct run_cursor { /* a source, and its tile in memory */
  const tsr_sorted_run *run, *stop; /* the run that it is in; the end of the source's runs */
  uint64_t tile, cells, at;
  tsr_tile_request *requests; /* by field, then of the cells' numbers */
  tsr_column *columns;
  uint64_t *lists; /* [list * cells + cell]: numbers to sort by (tsr__order_list) */
  uint64_t capacity; /* capacity of `lists`, in cells */
} run_cursor;

typedef run_cursor *heap_item; /* in the heap */

typedef struct growing_part { /* the part that is being written, if there is no target */
  tsr_buffer *list; /* tsr_sorted_run of each part that is complete */
  tsr_sorted_run run; /* the current one; without a fragment, it has no cells yet */
  const tsr_schema *schema;
  run_path path;
  uint64_t cells, max; /* cells in it; cells at which it is complete */
} growing_part;

typedef struct merged_cells { /* merged cells that are not written yet */
  tsr_buffered *columns; /* by slot */
  tsr_column *views; /* what `columns` point to, while they are written */
  uint64_t *last; /* [list]: numbers of the last of these cells */
  uint64_t count, written; /* cells here; cells written so far */
  bool last_removed; /* the last of these cells was removed by the writer */
} merged_cells;

/* A merge of sources. A source is a run, or the sequence of parts that a group of runs was merged into; the parts of
 * one group have the same `first`. */
typedef struct run_merge {
  tsr_writer *w;
  const tsr_sorted_run *runs; /* of all sources */
  uint64_t run_count;
  const tsr_fragment_target *target; /* the fragment to write; NULL: parts are written */
  uint32_t list_count, slots, kept; /* slots: fields and numbers; kept: number of leading slots to write */
  uint32_t *dimensions; /* [list]: the dimension whose coordinates it holds, or the number of dimensions */
  run_cursor *cursors; /* by source */
  heap_item *heap; /* cursors that have a cell */
  uint64_t cursor_count, heap_count;
  tsr_fragment_writer *writer; /* of the target or the current part; NULL: none */
  growing_part part;
  merged_cells out;
} run_merge;

static const tsr_field *field_at(const run_merge *m, uint32_t slot) {
  static const tsr_field numbers = {.datatype = TSR_UINT64, .values_per_cell = 1, .cell_size = sizeof(uint64_t)};
  return slot < m->w->field_count ? &m->w->schema->fields[slot] : &numbers;
}

static uint32_t slot_number(const tsr_writer *w, const tsr_fragment_metadata *metadata, uint32_t slot) {
  if (slot < w->field_count) return (uint32_t)tsr__fragment_slot(metadata, slot);
  return (uint32_t)tsr__fragment_system_slot(metadata, TSR_SLOT_TIMES);
}

static uint64_t count_sources(const tsr_sorted_run *runs, uint64_t count) {
  uint64_t sources = 0;
  for (uint64_t i = 0; i < count; i++) sources += i == 0 || runs[i].first != runs[i - 1].first;
  return sources;
}

static void drop_tile(run_merge *m, run_cursor *c) {
  for (uint32_t i = 0; i < m->slots; i++) {
    tsr__tile_return(c->requests[i].tile, &m->w->memory);
    c->requests[i].tile = NULL;
  }
}

static int load_lists(run_merge *m, run_cursor *c, tsr_error *error) {
  if (c->cells > c->capacity) {
    uint64_t *lists;
    TSR_TRY(TSR_ALLOC_RAW(&m->w->memory, c->cells * m->list_count, &lists, error));
    tsr__free(c->lists);
    c->lists = lists;
    c->capacity = c->cells;
  }
  for (uint32_t k = 0; k < m->list_count; k++)
    TSR_TRY(
        tsr__order_list(m->w->runs.schema, k, c->columns, c->cells, c->lists + k * c->cells, &m->dimensions[k], error));
  return TSR_OK;
}

/* Loads the next tile. Returns 1, or 0 after the last one. */
static int load_tile(run_merge *m, run_cursor *c, tsr_error *error) {
  drop_tile(m, c);
  if (c->tile == c->run->fragment->metadata.tile_count) {
    if (c->run + 1 == c->stop) return 0;
    c->run++;
    c->tile = 0;
  }
  tsr_fragment *fragment = c->run->fragment;
  const tsr_fragment_metadata *metadata = &fragment->metadata;
  TSR_TRY(tsr__cancelled(&m->w->array->environment->memory, error));
  for (uint32_t i = 0; i < m->slots; i++)
    c->requests[i] =
        (tsr_tile_request){.fragment = fragment, .slot = slot_number(m->w, metadata, i), .number = c->tile};
  TSR_TRY(tsr__tiles_load(m->w->array, m->w->threads, c->requests, m->slots, &m->w->memory, error));
  c->cells = tsr__fragment_tile_cells(metadata, c->tile++);
  c->at = 0;
  for (uint32_t i = 0; i < m->slots; i++) {
    const tsr_tile *tile = c->requests[i].tile;
    c->columns[i] = (tsr_column){
        .values = tile->values, .offsets = tile->offsets, .validity = tile->validity, .cell_size = tile->cell_size};
  }
  TSR_TRY(load_lists(m, c, error));
  return 1;
}

static uint64_t number_at(const run_merge *m, const run_cursor *c) {
  return ((const uint64_t *)c->columns[m->w->field_count].values)[c->at] - TSR_UNCOMMITTED_TIMES;
}

/* Advances to the next cell that was not rewound. Returns 1, or 0 at the end. */
static int skip_rewound(run_merge *m, run_cursor *c, tsr_error *error) {
  for (;; c->at++) {
    if (c->at == c->cells) {
      const int rc = load_tile(m, c, error);
      if (rc <= 0) return rc;
    }
    if (number_at(m, c) < c->run->end) return 1;
  }
}

static int compare_text(const tsr_column *a, uint64_t i, const tsr_column *b, uint64_t j) {
  return tsr__bytes_compare((const uint8_t *)a->values + a->offsets[i], a->offsets[i + 1] - a->offsets[i],
                            (const uint8_t *)b->values + b->offsets[j], b->offsets[j + 1] - b->offsets[j]);
}

static bool is_text(const run_merge *m, uint32_t list) {
  const uint32_t d = m->dimensions[list];
  return d < m->w->schema->dimension_count && !m->w->schema->fields[d].cell_size;
}

static int compare_cursors(const run_merge *m, const run_cursor *a, const run_cursor *b) {
  for (uint32_t k = 0; k < m->list_count; k++) {
    const uint64_t x = a->lists[k * a->cells + a->at], y = b->lists[k * b->cells + b->at];
    const uint32_t d = m->dimensions[k];
    const int c = is_text(m, k) ? compare_text(&a->columns[d], a->at, &b->columns[d], b->at) : x < y ? -1 : x > y;
    if (c) return c;
  }
  return a->run->first < b->run->first ? -1 : 1; /* runs have consecutive numbers */
}

static bool comes_before(const run_merge *m, run_cursor *const *a, run_cursor *const *b) {
  return compare_cursors(m, *a, *b) < 0;
}
TSR_DEFINE_HEAP(cursor_heap, run_merge, heap_item, comes_before)

static bool equals_last(const run_merge *m, const run_cursor *c) {
  if (m->out.count == 0 || m->w->schema->allows_duplicates) return false;
  for (uint32_t k = m->list_count; k-- > 0;) {
    const uint32_t d = m->dimensions[k];
    if (!is_text(m, k)) {
      if (m->out.last[k] != c->lists[k * c->cells + c->at]) return false;
      continue;
    }
    const tsr_column last = tsr__buffered_column(&m->w->schema->fields[d], &m->out.columns[d], 0);
    if (compare_text(&last, m->out.count - 1, &c->columns[d], c->at) != 0) return false;
  }
  return true;
}

/* ---- Output ------------------------------------------------------------------------------------------------------ */

/* Drops the last cell of the output. */
static void drop_last(run_merge *m) {
  m->out.count--;
  for (uint32_t f = 0; f < m->kept; f++) tsr__buffered_truncate(field_at(m, f), &m->out.columns[f], m->out.count);
}

static int open_part(run_merge *m, tsr_error *error) {
  TSR_TRY(new_run(m->w, &m->part.run.fragment, error));
  m->part.path = path_of(m->part.run.fragment);
  const tsr_fragment_target target = run_target(m->w, m->part.schema, m->part.path.text);
  return tsr__fragment_writer_open(&target, &m->writer, error);
}

static int end_part(run_merge *m, tsr_error *error) {
  TSR_TRY(tsr__fragment_writer_finish(m->writer, error));
  tsr__fragment_writer_close(m->writer);
  m->writer = NULL;
  TSR_TRY(open_run(m->w, m->part.schema, m->part.path.text, m->part.run.fragment, error));
  TSR_TRY(tsr__buffer_append(m->part.list, &m->part.run, sizeof m->part.run, error));
  m->part.run.fragment = NULL;
  m->part.cells = 0;
  return TSR_OK;
}

static int write_out(run_merge *m, tsr_error *error) {
  if (m->out.count == 0) return TSR_OK;
  if (!m->writer) TSR_TRY(open_part(m, error));
  for (uint32_t f = 0; f < m->kept; f++) m->out.views[f] = tsr__buffered_column(field_at(m, f), &m->out.columns[f], 0);
  TSR_TRY(tsr__fragment_writer_add(m->writer, m->out.views, NULL, m->out.count, error));
  m->out.written += m->out.count;
  m->part.cells += m->out.count;
  m->out.count = 1;
  drop_last(m); /* all cells are written */
  return m->part.list && m->part.cells >= m->part.max ? end_part(m, error) : TSR_OK;
}

static bool is_full(const run_merge *m) {
  uint64_t bytes = 0;
  for (uint32_t f = 0; f < m->kept; f++) bytes += m->out.columns[f].values.size + m->out.columns[f].offsets.size;
  return m->out.count == BATCH_CELLS || bytes > m->w->memory.limit / 32;
}

/* Adds the cell at a cursor to the output, and drops the one before it if their coordinates are equal. A removed cell
 * hides the cells before it, so it is dropped only in the merge into the final fragment. */
static int add_cell(run_merge *m, const run_cursor *c, tsr_error *error) {
  const uint32_t cell = (uint32_t)c->at;
  const bool again = equals_last(m, c);
  if (m->out.count > 0 && (again || m->out.last_removed)) drop_last(m);
  if (!again && is_full(m)) TSR_TRY(write_out(m, error));
  for (uint32_t f = 0; f < m->kept; f++)
    TSR_TRY(tsr__buffered_append(field_at(m, f), &m->out.columns[f], &c->columns[f], &cell, 1, error));
  m->out.count++;
  for (uint32_t k = 0; k < m->list_count; k++) m->out.last[k] = c->lists[k * c->cells + c->at];
  m->out.last_removed = m->target && m->w->removed.own > 0 &&
                        tsr__removed_has(&m->w->removed, tsr__uncommitted_rowid(number_at(m, c)), m->w->removed.count);
  return TSR_OK;
}

/* ---- One merge --------------------------------------------------------------------------------------------------- */

static int open_cursors(run_merge *m, tsr_error *error) {
  const tsr_sorted_run *run = m->runs, *end = m->runs + m->run_count;
  for (uint64_t i = 0; i < m->cursor_count; i++) {
    run_cursor *c = &m->cursors[i];
    c->run = run;
    while (run < end && run->first == c->run->first) run++;
    c->stop = run;
    TSR_TRY(TSR_ALLOC_ARRAY(&m->w->memory, m->slots, &c->requests, error));
    TSR_TRY(TSR_ALLOC_ARRAY(&m->w->memory, m->slots, &c->columns, error));
    const int rc = skip_rewound(m, c, error);
    if (rc < 0) return rc;
    if (rc > 0) m->heap[m->heap_count++] = c;
  }
  cursor_heap_build(m, m->heap, m->heap_count);
  return TSR_OK;
}

static int merge_all(run_merge *m, tsr_error *error) {
  TSR_TRY(open_cursors(m, error));
  if (m->target) TSR_TRY(tsr__fragment_writer_open(m->target, &m->writer, error));
  while (m->heap_count > 0) {
    run_cursor *top = m->heap[0];
    TSR_TRY(add_cell(m, top, error));
    top->at++;
    const int rc = skip_rewound(m, top, error);
    if (rc < 0) return rc;
    if (rc == 0) top = m->heap[--m->heap_count];
    cursor_heap_sink(m, m->heap, m->heap_count, 0, top);
  }
  if (m->out.count > 0 && m->out.last_removed) drop_last(m);
  TSR_TRY(write_out(m, error));
  if (m->target) return tsr__fragment_writer_finish(m->writer, error);
  return m->writer ? end_part(m, error) : TSR_OK;
}

static int allocate(run_merge *m, tsr_error *error) {
  tsr_memory *memory = &m->w->memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->list_count, &m->dimensions, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->list_count, &m->out.last, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->cursor_count, &m->heap, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->kept, &m->out.views, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->kept, &m->out.columns, error));
  for (uint32_t f = 0; f < m->kept; f++) tsr__buffered_init(&m->out.columns[f], memory);
  TSR_TRY(TSR_ALLOC_ARRAY(memory, m->cursor_count, &m->cursors, error));
  return TSR_OK;
}

static void release(run_merge *m) {
  tsr__fragment_writer_close(m->writer);
  for (uint64_t i = 0; m->cursors && i < m->cursor_count; i++) {
    run_cursor *c = &m->cursors[i];
    if (c->requests) drop_tile(m, c);
    tsr__free(c->requests);
    tsr__free(c->columns);
    tsr__free(c->lists);
  }
  for (uint32_t f = 0; m->out.columns && f < m->kept; f++) tsr__buffered_release(&m->out.columns[f]);
  tsr__free(m->cursors);
  tsr__free(m->out.columns);
  tsr__free(m->out.views);
  tsr__free(m->heap);
  tsr__free(m->out.last);
  tsr__free(m->dimensions);
  if (m->part.run.fragment) tsr__array_fragment_drop(m->w->array, m->part.run.fragment);
}

typedef struct sources { /* sources of a merge, in the order of their numbers */
  tsr_writer *w;
  tsr_schema *part_schema; /* the schema of runs with the tile capacity for this merge */
  tsr_buffer runs; /* tsr_sorted_run, with a reference to each fragment that is not NULL */
} sources;

static tsr_sorted_run *run_at(const sources *s, uint64_t i) { return (tsr_sorted_run *)(void *)s->runs.data + i; }
static uint64_t count_runs(const sources *s) { return s->runs.size / sizeof(tsr_sorted_run); }

/* Merges runs of a list into a fragment or, without a target, into parts that are appended to `parts`. */
static int merge_sources(const sources *s, uint64_t first, uint64_t count, const tsr_fragment_target *target,
                         tsr_buffer *parts, uint64_t *cells, tsr_error *error) {
  tsr_writer *w = s->w;
  const tsr_sorted_run *runs = run_at(s, first);
  run_merge m = {.w = w, .runs = runs, .run_count = count, .target = target};
  m.slots = w->field_count + 1;
  m.kept = target ? w->field_count : m.slots;
  m.list_count = tsr__order_lists(w->runs.schema);
  m.cursor_count = count_sources(runs, count);
  m.part = (growing_part){.list = parts,
                          .run = {.first = runs[0].first, .end = runs[count - 1].end},
                          .schema = s->part_schema,
                          .max = w->memory.limit / 16 / ((uint64_t)TILE_BYTES * m.slots) * s->part_schema->capacity};
  int rc = allocate(&m, error);
  if (rc >= 0) rc = merge_all(&m, error);
  if (rc >= 0) *cells = m.out.written;
  release(&m);
  return rc;
}

/* ---- Passes ------------------------------------------------------------------------------------------------------ */

static void drop_sources(sources *s) {
  for (uint64_t i = 0; i < count_runs(s); i++)
    if (run_at(s, i)->fragment) tsr__array_fragment_drop(s->w->array, run_at(s, i)->fragment);
  tsr__buffer_release(&s->runs);
}

typedef struct weight { /* of all runs */
  uint64_t cells, bytes; /* decoded bytes */
  uint64_t largest; /* bytes needed to merge one run: its largest tile and its structures */
} weight;

/* Adds the weight of a run, from the tile sizes in its metadata. */
static int weigh_run(tsr_writer *w, const tsr_sorted_run *run, weight *sum, tsr_error *error) {
  const tsr_fragment_metadata *metadata = &run->fragment->metadata;
  const uint64_t beside = sizeof(tsr_tile_request) + sizeof(tsr_column) + sizeof(run_cursor);
  TSR_TRY(tsr__cancelled(&w->array->environment->memory, error));
  for (uint64_t t = 0; t < metadata->tile_count; t++) {
    const uint64_t cells = tsr__fragment_tile_cells(metadata, t);
    uint64_t bytes = cells * tsr__order_lists(w->runs.schema) * sizeof(uint64_t);
    sum->cells += cells;
    for (uint32_t i = 0; i <= w->field_count; i++) {
      uint64_t one;
      TSR_TRY(tsr__tile_cost(w->array, run->fragment, slot_number(w, metadata, i), t, &one, error));
      sum->bytes = tsr__add_sat(sum->bytes, one);
      bytes = tsr__add_sat(bytes, tsr__add_sat(one, beside));
    }
    sum->largest = TSR_MAX(sum->largest, bytes);
  }
  return TSR_OK;
}

/* Merges runs of several sources into one source. */
static int merge_group(const sources *from, uint64_t first, uint64_t count, sources *to, tsr_error *error) {
  const tsr_array *array = from->w->array;
  uint64_t cells;
  tsr_work work;
  tsr_work_begin(array->environment, &work, "spill", array->path,
                 run_at(from, first + count - 1)->end - run_at(from, first)->first);
  const int rc = merge_sources(from, first, count, NULL, &to->runs, &cells, error);
  tsr_work_end(array->environment, &work);
  return rc;
}

/* Merges groups of at most `most` sources, and only as many groups as needed to have no more than `most` sources left.
 */
static int merge_groups(sources *from, uint64_t most, sources *to, tsr_error *error) {
  uint64_t left = count_sources(run_at(from, 0), count_runs(from)), made = 0;
  for (uint64_t i = 0, end; i < count_runs(from); i = end, made++) {
    const uint64_t over = TSR_MAX(made + left, most) - most;
    const uint64_t group = TSR_MIN(TSR_MIN(over + 1, most), left);
    uint64_t passed = 0;
    for (end = i; end < count_runs(from); end++) {
      passed += end == i || run_at(from, end)->first != run_at(from, end - 1)->first;
      if (passed > group) break;
    }
    left -= group;
    if (group > 1) {
      TSR_TRY(merge_group(from, i, end - i, to, error));
      continue;
    }
    TSR_TRY(tsr__buffer_append(&to->runs, run_at(from, i), (end - i) * sizeof(tsr_sorted_run), error));
    for (uint64_t k = i; k < end; k++) run_at(from, k)->fragment = NULL;
  }
  return TSR_OK;
}

/* Returns how many sources can be merged at once, with memory left for a tile of the fragment, which is gathered,
 * filtered and written. */
static uint64_t sources_within(const tsr_writer *w, const weight *sum, uint64_t limit) {
  const uint64_t cells = TSR_MAX(sum->cells, 1), tile = TSR_MIN(w->schema->capacity, cells);
  const uint64_t fragment = tsr__mul_sat(4, tsr__mul_sat(tile, sum->bytes / cells + 1));
  const uint64_t taken = tsr__add_sat(tsr__add_sat(fragment, FIXED_BYTES / 2), w->memory.used);
  const uint64_t room = TSR_MAX((limit - TSR_MIN(limit, taken)) / 2, limit / 32);
  return TSR_MAX(room / TSR_MAX(sum->largest, 1), 2);
}

/* Merging few sources at a time takes many passes, so a commit may use part of its loan for more sources. */
static uint64_t most_sources(const tsr_writer *w, const weight *sum) {
  const uint64_t most = sources_within(w, sum, w->memory.limit);
  if (most >= SOURCES_WANTED) return most;
  return TSR_MIN(sources_within(w, sum, tsr__add_sat(w->memory.limit, w->memory.lent / 2)), SOURCES_WANTED);
}

static int weigh_all(const sources *s, weight *sum, tsr_error *error) {
  *sum = (weight){0};
  for (uint64_t i = 0; i < count_runs(s); i++) TSR_TRY(weigh_run(s->w, run_at(s, i), sum, error));
  return TSR_OK;
}

/* Merges in passes until the remaining sources can be merged at once, into the target's fragment or into parts. */
static int merge_in_passes(sources *s, const tsr_fragment_target *target, tsr_buffer *parts, uint64_t *cells,
                           tsr_error *error) {
  weight sum;
  for (uint64_t i = 0; i < s->w->runs.spilled; i++) {
    TSR_TRY(tsr__buffer_append(&s->runs, tsr__run_at(&s->w->runs, i), sizeof(tsr_sorted_run), error));
    run_at(s, i)->fragment->references++;
  }
  TSR_TRY(weigh_all(s, &sum, error));
  const uint64_t fit = s->w->memory.limit / TILES_MIN / (sum.bytes / TSR_MAX(sum.cells, 1) + 1);
  s->part_schema->capacity = TSR_MAX(TSR_MIN(fit, TSR_RUN_CAPACITY), 1);
  for (;;) {
    const uint64_t most = most_sources(s->w, &sum);
    if (count_sources(run_at(s, 0), count_runs(s)) <= most)
      return merge_sources(s, 0, count_runs(s), target, parts, cells, error);
    sources next = {.w = s->w, .part_schema = s->part_schema, .runs.memory = &s->w->memory};
    const int rc = merge_groups(s, most, &next, error);
    drop_sources(s);
    *s = next;
    TSR_TRY(rc);
    TSR_TRY(weigh_all(s, &sum, error));
  }
}

static int merge_runs(tsr_writer *writer, const tsr_fragment_target *target, tsr_buffer *parts, uint64_t *cells,
                      tsr_error *error) {
  if (!writer->runs.part_schema)
    TSR_TRY(TSR_ARENA_COPY(&writer->arena, writer->runs.schema, sizeof(tsr_schema), &writer->runs.part_schema, error));
  sources s = {.w = writer, .part_schema = writer->runs.part_schema, .runs.memory = &writer->memory};
  for (uint32_t f = 0; f < writer->field_count; f++) { /* empty columns still have their memory */
    tsr__buffer_release(&writer->cells.columns[f].values);
    tsr__buffer_release(&writer->cells.columns[f].offsets);
    tsr__buffer_release(&writer->cells.columns[f].validity);
    tsr__buffered_init(&writer->cells.columns[f], &writer->memory);
  }
  int rc = merge_in_passes(&s, target, parts, cells, error);
  if (rc < 0) rc = tsr__wrap(error, "merging %llu runs of cells", (unsigned long long)writer->runs.spilled);
  drop_sources(&s);
  return rc;
}

int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error) {
  return merge_runs(writer, target, NULL, cells, error);
}

int tsr__spill_join(tsr_writer *writer, tsr_buffer *runs, tsr_error *error) {
  uint64_t cells;
  return merge_runs(writer, NULL, runs, &cells, error);
}
