/* reader.c: the public functions of readers, and what all iterators share: pinned tiles, columns, windows.
 *
 * * Starting a reader makes its predicates and its plan, and opens the iterator that fits the request. An iterator pins
 * the tiles of a window (tsr__reader_pin), requests their slots, loads all requests at once (tsr__reader_load), and
 * hands out batches. While the caller takes them, the next window may already be loading on the workers.
 *
 * * A join restarts its reader for each outer row, so a reader keeps its memory across starts: its arenas keep their
 * largest block, and pinned tiles come from a free list. From the second start on it also keeps the decoded tiles that
 * it unpinned last.
 *
 * * Sections: open and close; batches (start, next, column); pinned tiles; windows; the next window. */
#include "read/reader.h"

#include <stdatomic.h>
#include <string.h>

#include "base/options.h"
#include "store/store.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "format/layout.h"
#include "array/array.h"
#include "environment/environment.h"

#define READER_DEFAULT_MEMORY     (UINT64_C(1) << 30)
#define READER_TILES_FOR_A_THREAD 4 /* tiles of the largest window, for each thread */
/* Window sizes if the store prefetches: there, waiting once more costs more than reading a few tiles too many. The
 * first window has one tile, unless the fields to be read are already known; the second has PREFETCH_TILES, and each
 * later one twice as many as the one before. */
#define PREFETCH_TILES     32
#define PREFETCH_TILES_MAX 256
#define KEPT_PART          8 /* kept tiles take at most 1/KEPT_PART of the budget */
#define FREE_BYTES         (UINT64_C(16) << 20) /* loading ahead leaves this much, and half of the budget, free */

static uint32_t field_count(const tsr_schema *schema) { return schema->dimension_count + schema->attribute_count; }

/* ---- Open and close --------------------------------------------------------------------------------------------- */

/* Makes the constant columns for attributes that a fragment lacks, and for cells that were never written. */
static void init_fill_columns(tsr_reader *reader) {
  const tsr_schema *schema = reader->snapshot->schema;
  for (uint32_t f = schema->dimension_count; f < field_count(schema); f++) {
    const tsr_field *field = &schema->fields[f];
    tsr_column *c = &reader->columns.fills[f];
    c->values = field->fill;
    c->constant = c->unwritten = true;
    if (field->nullable) c->validity = &field->fill_validity;
    if (field->values_per_cell == TSR_VARIABLE) {
      reader->columns.fill_offsets[f][1] = field->fill_size;
      c->offsets = reader->columns.fill_offsets[f];
    } else {
      c->cell_size = field->cell_size;
    }
  }
}

static int allocate(tsr_reader *reader, tsr_error *error) {
  const uint32_t n = field_count(reader->snapshot->schema);
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->request.fields, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->columns.ready, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->columns.current, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->columns.fills, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->columns.fill_offsets, error));
  TSR_TRY(
      TSR_ALLOC_ARRAY(&reader->memory, reader->snapshot->schema->dimension_count, &reader->dense.coordinates, error));
  for (uint32_t d = 0; d < reader->snapshot->schema->dimension_count; d++)
    reader->dense.coordinates[d].memory = &reader->memory;
  return TSR_OK;
}

/* Releases kept tiles, oldest first, until the others take at most `bytes` bytes. */
static void forget_kept(tsr_reader *reader, uint64_t bytes) {
  tsr_kept_tiles *kept = &reader->tiles.kept;
  uint32_t i = 0;
  for (; i < kept->count && kept->bytes > bytes; i++) {
    kept->bytes -= kept->tiles[i].tile->bytes;
    tsr__tile_return(kept->tiles[i].tile, &reader->memory);
  }
  if (i == 0) return;
  kept->count -= i;
  memmove(kept->tiles, kept->tiles + i, kept->count * sizeof kept->tiles[0]);
}

void tsr__reader_forget(tsr_reader *reader) {
  forget_kept(reader, 0);
  tsr__read_ordered_forget(reader);
}

/* Releases the kept tiles if memory runs out; returns true if there were any. A worker must not: the reader's own
 * thread may be using the list. */
static bool relieve_memory(void *argument) {
  tsr_reader *reader = argument;
  if (tsr__on_worker()) return false;
  const bool some = reader->tiles.kept.count > 0;
  forget_kept(reader, 0);
  return some;
}

int tsr_reader_open(tsr_snapshot *snapshot, tsr_reader **reader, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__reader_open_as(snapshot, &snapshot->array->memory, NULL, reader, error);
}

int tsr__reader_open_as(tsr_snapshot *snapshot, tsr_memory *memory, const tsr_reader_mode *mode, tsr_reader **reader,
                        tsr_error *error) {
  tsr_reader *r;
  TSR_TRY(TSR_ALLOC(memory, &r, error));
  if (mode) r->mode = *mode;
  r->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&r->memory, memory, READER_DEFAULT_MEMORY, "memory_mb");
  r->memory.relieve = relieve_memory;
  r->memory.relieve_argument = r;
  tsr__arena_init(&r->arena, &r->memory);
  tsr__arena_init(&r->window.arena, &r->memory);
  tsr__arena_init(&r->window.ahead.arena, &r->memory);
  r->window.ahead.requests.memory = r->window.requests.memory = r->dense.selection.memory = r->dense.owners.memory =
      r->dense.sorted.memory = r->columns.rowids.memory = &r->memory;
  r->predicates.passing.memory = &r->memory;
  r->done = true;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++)
    r->tiles.slot_count = TSR_MAX(r->tiles.slot_count, snapshot->fragments[f].fragment->metadata.slot_count);
  if (allocate(r, error) < 0) {
    tsr_reader_close(r);
    return tsr__wrap(error, "%s", snapshot->array->path);
  }
  init_fill_columns(r);
  *reader = r;
  return TSR_OK;
}

static void close_iterator(tsr_reader *reader) {
  if (reader->iterator) reader->iterator->close(reader->iterator);
  reader->iterator = NULL;
  reader->done = true;
}

uint64_t tsr_reader_reset(tsr_reader *reader, bool forget) {
  close_iterator(reader);
  if (forget) tsr__reader_forget(reader);
  return atomic_load_explicit(&reader->memory.used, memory_order_relaxed) - reader->tiles.kept.bytes;
}

void tsr_reader_close(tsr_reader *reader) {
  if (!reader) return;
  close_iterator(reader);
  forget_kept(reader, 0);
  tsr__read_ordered_free(reader);
  tsr__read_expected_free(reader);
  while (reader->tiles.free) {
    tsr_pinned_tile *pinned = reader->tiles.free;
    reader->tiles.free = pinned->next;
    tsr__free(pinned);
  }
  for (uint32_t d = 0; reader->dense.coordinates && d < reader->snapshot->schema->dimension_count; d++)
    tsr__buffer_release(&reader->dense.coordinates[d]);
  tsr__free(reader->dense.coordinates);
  tsr__buffer_release(&reader->window.requests);
  tsr__buffer_release(&reader->window.ahead.requests);
  tsr__buffer_release(&reader->dense.selection);
  tsr__buffer_release(&reader->dense.owners);
  tsr__buffer_release(&reader->dense.sorted);
  tsr__buffer_release(&reader->columns.rowids);
  tsr__buffer_release(&reader->predicates.passing);
  tsr__free(reader->request.fields);
  tsr__free(reader->columns.ready);
  tsr__free(reader->columns.current);
  tsr__free(reader->columns.fills);
  tsr__free(reader->columns.fill_offsets);
  tsr__arena_release(&reader->window.arena);
  tsr__arena_release(&reader->window.ahead.arena);
  tsr__arena_release(&reader->arena);
  tsr_snapshot *snapshot = reader->snapshot;
  tsr__free(reader);
  tsr_snapshot_close(snapshot);
}

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

/* Adds the fields that predicates read to the fields to decode. Sets has_other_fields if there are others: these are
 * not loaded before it is known which tiles have cells that pass. */
static void decode_predicate_fields(tsr_reader *reader) {
  const tsr_schema *schema = reader->snapshot->schema;
  for (uint32_t i = 0; i < reader->predicates.count; i++)
    reader->request.fields[reader->predicates.list[i].field] = false;
  reader->predicates.has_other_fields = false;
  for (uint32_t f = schema->dense ? schema->dimension_count : 0; f < field_count(schema); f++)
    reader->predicates.has_other_fields |= reader->request.fields[f];
  for (uint32_t i = 0; i < reader->predicates.count; i++)
    reader->request.fields[reader->predicates.list[i].field] = true;
}

void tsr__reader_rewind(tsr_reader *reader) {
  close_iterator(reader);
  reader->tiles.kept.restarted = reader->tiles.kept.started;
  reader->tiles.kept.started = true;
  tsr__arena_reset(&reader->window.arena);
  tsr__arena_reset(&reader->arena);
  reader->window.requests.size = 0;
  reader->progress.window_tiles = 1;
  reader->progress.given = 0;
  reader->request.distinct = false;
  reader->predicates.marked_tiles = reader->predicates.marked = reader->predicates.spared = 0;
}

/* Makes written boxes if the reader can skip space tiles without any written cell: because the request does not ask for
 * unwritten cells, or because the whole-tile shortcut takes them as boxes. */
static int make_written_boxes(tsr_reader *reader, tsr_error *error) {
  tsr_plan *plan = &reader->plan;
  if (!reader->snapshot->schema->dense || plan->empty || (reader->request.gives_unwritten && !reader->mode.take))
    return TSR_OK;
  TSR_TRY(tsr__written_boxes_make(reader->snapshot, &reader->arena, plan, error));
  plan->empty = plan->written_box_count == 0 && !reader->request.gives_unwritten;
  return TSR_OK;
}

static int open_iterator(tsr_reader *reader, tsr_error *error) {
  if (reader->snapshot->schema->dense) return tsr__read_dense_open(reader, &reader->iterator, error);
  return tsr__read_sparse_open(reader, &reader->iterator, error);
}

int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *parent, tsr_spans *spans, tsr_error *error) {
  tsr__reader_rewind(reader);
  reader->request.is_part = true;
  reader->threads = parent->threads;
  reader->progress.limit = 0;
  reader->request.times = parent->request.times;
  reader->predicates.fill_unwritten = parent->predicates.fill_unwritten;
  reader->request.gives_unwritten = parent->request.gives_unwritten;
  reader->predicates.list = parent->predicates.list;
  reader->predicates.count = parent->predicates.count;
  decode_predicate_fields(reader);
  TSR_TRY(tsr__plan_make_within(reader->snapshot, spans, &reader->arena, &reader->plan, error));
  TSR_TRY(make_written_boxes(reader, error));
  if (!reader->plan.empty) TSR_TRY(open_iterator(reader, error));
  reader->done = reader->plan.empty;
  return TSR_OK;
}

int tsr__reader_start_at(tsr_reader *reader, const tsr_reader *parent, const tsr_place_window *window,
                         tsr_error *error) {
  tsr__reader_rewind(reader);
  reader->memory.limit = parent->memory.limit;
  reader->threads = parent->threads;
  reader->progress.limit = 0;
  reader->request.times = true;
  reader->predicates.fill_unwritten = parent->predicates.fill_unwritten;
  reader->predicates.count = 0;
  decode_predicate_fields(reader);
  TSR_TRY(tsr__plan_make_at(reader->snapshot, window, &reader->arena, &reader->plan, error));
  if (!reader->plan.empty) TSR_TRY(open_iterator(reader, error));
  reader->done = reader->plan.empty;
  return TSR_OK;
}

/* Returns true if the cells come in the requested order without sorting: one dense fragment must cover the whole
 * selection, and only the slowest dimension with more than one selected value may span several tiles. */
static bool is_ordered(const tsr_reader *reader, const tsr_request *request) {
  const tsr_grid *grid = &reader->snapshot->grid;
  const tsr_plan *plan = &reader->plan;
  if (!reader->snapshot->schema->dense || grid->col_major_cells != grid->col_major_tiles ||
      request->order_count > grid->dimensions || plan->box_count != 1 || plan->boxes[0].sparse)
    return false;
  bool single = true; /* the request selects one value of each dimension before this one */
  uint32_t matched = 0;
  for (uint32_t k = 0; k < grid->dimensions; k++) {
    const uint32_t d = grid->col_major_cells ? grid->dimensions - 1 - k : k;
    const uint64_t low = plan->selections[d].spans[0].low,
                   high = plan->selections[d].spans[plan->selections[d].count - 1].high;
    const bool is_next = matched < request->order_count && request->order[matched].dimension == d;
    if (matched < request->order_count && low != high && (!is_next || request->order[matched].descending)) return false;
    matched += is_next;
    if (!single && low / grid->extent[d] != high / grid->extent[d]) return false;
    single = single && low == high;
    if (low < plan->boxes[0].low[d] || high > plan->boxes[0].high[d]) return false;
  }
  if (matched < request->order_count) return false;
  return true;
}

/* Narrows a distinct request on a dense array: every combination of coordinates has a cell, so one value of each
 * dimension that is not in the order is enough. */
static int narrow_plan(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  const tsr_snapshot *snapshot = reader->snapshot;
  const uint32_t n = snapshot->schema->dimension_count;
  tsr_plan *plan = &reader->plan;
  tsr_spans *spans;
  TSR_TRY(TSR_ARENA_ARRAY(&reader->arena, n, &spans, error));
  for (uint32_t d = 0; d < n; d++) {
    const uint64_t key = snapshot->grid.low_key[d] + plan->selections[d].spans[0].low;
    bool ordered = false;
    for (uint32_t i = 0; i < request->order_count && !ordered; i++) ordered = request->order[i].dimension == d;
    spans[d] = plan->spans[d];
    if (!ordered)
      TSR_TRY(
          tsr__spans_clip(&snapshot->schema->fields[d], &plan->spans[d], key, key, &reader->arena, &spans[d], error));
  }
  return tsr__plan_make_within(reader->snapshot, spans, &reader->arena, plan, error);
}

/* Prepares a distinct request: a dense array gets a smaller plan; of a sparse one, ordered.c drops repeated rows. */
static int start_distinct(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  if (reader->predicates.count > 0)
    return TSR_OK; /* of two equal rows, one may satisfy the predicates and the other not */
  reader->request.distinct = !reader->snapshot->schema->dense;
  return reader->request.distinct ? TSR_OK : narrow_plan(reader, request, error);
}

/* Sets up everything of a request but its ranges, of which start_plan makes the plan. */
static int set_request(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  const tsr_snapshot *snapshot = reader->snapshot;
  const uint32_t n = field_count(snapshot->schema);
  tsr__memory_set_limit(&reader->memory, request->memory_bytes ? request->memory_bytes : READER_DEFAULT_MEMORY);
  reader->threads = TSR_MAX(1, request->threads ? request->threads : snapshot->array->threads);
  reader->progress.limit = request->limit;
  reader->request.times = request->times;
  if (request->fields) memcpy(reader->request.fields, request->fields, n * sizeof(bool));
  else memset(reader->request.fields, 0, n * sizeof(bool));
  for (uint32_t f = 0; request->likely && f < n && tsr__store_prefetches(snapshot->array->store); f++)
    reader->request.fields[f] |= request->likely[f];
  TSR_TRY(tsr__predicates_make(reader, request, error));
  const bool written_only = reader->mode.written_only || snapshot->shows != TSR_SHOWS_CELLS;
  reader->request.gives_unwritten = !written_only && tsr__predicates_pass_unwritten(reader);
  decode_predicate_fields(reader);
  return TSR_OK;
}

/* Makes the plan of a request, and opens the iterator that fits it. */
static int start_plan(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  tsr_plan *plan = &reader->plan;
  TSR_TRY(tsr__plan_make(reader->snapshot, request->dimensions, &reader->arena, plan, error));
  for (uint32_t i = 0; i < reader->predicates.count; i++) plan->empty |= reader->predicates.list[i].never;
  if (request->distinct && request->order_count > 0 && !plan->empty) TSR_TRY(start_distinct(reader, request, error));
  TSR_TRY(make_written_boxes(reader, error));
  reader->done = plan->empty;
  if (plan->empty) return TSR_OK;
  if (request->order_count == 0 || is_ordered(reader, request)) return open_iterator(reader, error);
  return tsr__read_ordered_open(reader, request->order, request->order_count, request->limit, &reader->iterator, error);
}

static int start_request(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  TSR_TRY(set_request(reader, request, error));
  int without_plan = 0; /* 1: the request is a look-up that needs no plan */
  if (reader->snapshot->losses.size ==
      0) /* else only the plan finds out whether the request needs cells that are lost */
    TSR_TRY(without_plan = reader->expected ? tsr__read_expected_open(reader, request, &reader->iterator, error)
                                            : tsr__read_point_open(reader, request, &reader->iterator, error));
  if (without_plan == 0) return start_plan(reader, request, error);
  reader->plan = (tsr_plan){0};
  reader->done = false;
  return TSR_OK;
}

int tsr_reader_start(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_request own;
  tsr_array *array = reader->snapshot->array;
  int rc = TSR_OK;
  tsr__reader_rewind(reader);
  if (!request || !TSR_OPTIONS_ARE_OWN(tsr_request, threads, request)) { /* look-ups start often: copy only if needed */
    rc = TSR_TAKE_OPTIONS(tsr_request, threads, request, &own, error);
    request = &own;
  }
  if (rc >= 0) rc = start_request(reader, request, error);
  if (rc >= 0) return TSR_OK;
  reader->done = true;
  if (rc == TSR_CORRUPT) tsr__array_doubt(array);
  return tsr__wrap(error, "%s", array->path);
}

int tsr_reader_next(tsr_reader *reader, const tsr_batch **batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (reader->done) return 0;
  memset(reader->columns.ready, 0, field_count(reader->snapshot->schema) * sizeof(bool));
  reader->batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
  const int rc = reader->iterator->next(reader->iterator, &reader->batch, error);
  reader->done = rc <= 0;
  if (rc == TSR_CORRUPT) tsr__array_doubt(reader->snapshot->array);
  if (rc < 0) return tsr__wrap(error, "%s", reader->snapshot->array->path);
  if (rc > 0) *batch = &reader->batch;
  return rc;
}

int tsr_reader_column(tsr_reader *reader, uint32_t field, const tsr_column **column, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (field >= field_count(reader->snapshot->schema))
    return tsr__fail(error, TSR_ERROR, "%s: no field %u: the array has %u fields", reader->snapshot->array->path, field,
                     field_count(reader->snapshot->schema));
  if (reader->done) return tsr__fail(error, TSR_ERROR, "a column was requested while there is no batch");
  if (!reader->columns.ready[field]) {
    tsr_column c = {0};
    if (reader->iterator->column(reader->iterator, field, &c, error) < 0)
      return tsr__wrap(error, "%s", reader->snapshot->array->path);
    reader->columns.current[field] = c;
    reader->columns.ready[field] = true;
    reader->request.fields[field] = true; /* the next windows decode it in parallel */
    bool loaded_first = field < reader->snapshot->schema->dimension_count && reader->snapshot->schema->dense;
    for (uint32_t i = 0; i < reader->predicates.count; i++) loaded_first |= reader->predicates.list[i].field == field;
    reader->predicates.has_other_fields |= !loaded_first;
  }
  *column = &reader->columns.current[field];
  return TSR_OK;
}

uint64_t tsr__reader_cells(const tsr_reader *reader) {
  const tsr_plan *plan = &reader->plan;
  const tsr_schema *schema = reader->snapshot->schema;
  uint64_t cells = 1;
  if (plan->empty) return 0;
  if (!schema->dense) return tsr__mul_sat(plan->tile_count, schema->capacity);
  if (!plan->selections) return 1; /* point.c reads a single cell without a plan */
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    cells = tsr__mul_sat(cells, tsr__dimension_selection_values(&plan->selections[d]));
  return cells;
}

void tsr__batch_keys(const tsr_batch *batch, const tsr_column *column, tsr_datatype datatype, uint64_t from,
                     uint64_t count, uint64_t *keys) {
  const uint8_t *values = column->values;
  const uint64_t size = column->cell_size;
  uint8_t block[TSR_KEYS_MAX * sizeof(uint64_t)];
  if (column->constant) {
    const uint64_t key = tsr__key(datatype, values);
    for (uint64_t r = 0; r < count; r++) keys[r] = key;
    return;
  }
  if (batch->selection) {
    const uint32_t *cells = batch->selection + from;
    switch (size) {
#define COPY_CELLS(bytes)                                                                                              \
  case bytes:                                                                                                          \
    for (uint64_t r = 0; r < count; r++) memcpy(block + r * (bytes), values + (uint64_t)cells[r] * (bytes), (bytes));  \
    break;
      COPY_CELLS(1)
      COPY_CELLS(2)
      COPY_CELLS(4)
      COPY_CELLS(8)
#undef COPY_CELLS
    }
    values = block;
  } else {
    values += (batch->first + from) * size;
  }
  tsr__keys(datatype, values, count, keys);
}

/* ---- Pinned tiles ------------------------------------------------------------------------------------------------ */

int tsr__reader_pin(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_pinned_tile **pinned,
                    tsr_error *error) {
  tsr_pinned_tile *tile = reader->tiles.free;
  if (tile) {
    reader->tiles.free = tile->next;
  } else {
    TSR_TRY(TSR_ALLOC_BYTES(&reader->memory, sizeof *tile + reader->tiles.slot_count * sizeof tile->tiles[0], &tile,
                            error));
  }
  tile->fragment = fragment;
  tile->number = number;
  tile->cells = tile->end = cells;
  tile->first = 0;
  tile->needed = NULL;
  tile->counted = false;
  tile->next = NULL;
  *pinned = tile;
  return TSR_OK;
}

static tsr_tile_request *requests_of(const tsr_buffer *buffer, uint64_t *count) {
  *count = buffer->size / sizeof(tsr_tile_request);
  return (tsr_tile_request *)(void *)buffer->data;
}

/* Keeps a tile that is being unpinned for the next start. A reader that restarts again and again is likely to read the
 * same tiles, so it keeps them even if the cache has no room, until something else needs the memory (relieve_memory).
 * Returns false if the tile is not kept: then it still belongs to the caller. */
static bool keep_tile(tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t slot) {
  tsr_kept_tiles *kept = &reader->tiles.kept;
  const tsr_fragment *fragment = reader->snapshot->fragments[pinned->fragment].fragment;
  tsr_tile *tile = pinned->tiles[slot];
  const uint64_t max_bytes = reader->memory.limit / KEPT_PART;
  if (!kept->restarted || fragment->run.tiles || tile->bytes > max_bytes) return false;
  forget_kept(reader, max_bytes - tile->bytes);
  if (kept->count == TSR_KEPT_MAX) forget_kept(reader, kept->bytes - kept->tiles[0].tile->bytes);
  kept->tiles[kept->count++] = (tsr_kept_tile){fragment->id, slot, pinned->number, tile};
  kept->bytes += tile->bytes;
  return true;
}

/* Serves requests from the kept tiles, and removes those requests from the list. */
static void serve_kept(tsr_reader *reader) {
  tsr_kept_tiles *kept = &reader->tiles.kept;
  uint64_t count, left = 0, found = 0;
  tsr_tile_request *requests = requests_of(&reader->window.requests, &count);
  for (uint64_t i = 0; i < count; i++) {
    tsr_tile_request *request = &requests[i];
    uint32_t k = kept->count;
    while (k > 0 && (kept->tiles[k - 1].number != request->number || kept->tiles[k - 1].slot != request->slot ||
                     kept->tiles[k - 1].fragment != request->fragment->id))
      k--;
    if (k > 0 && tsr__tile_request_fits(request, kept->tiles[k - 1].tile)) {
      request->pinned->tiles[request->slot] = kept->tiles[k - 1].tile;
      kept->bytes -= kept->tiles[k - 1].tile->bytes;
      memmove(&kept->tiles[k - 1], &kept->tiles[k], (--kept->count - (k - 1)) * sizeof kept->tiles[0]);
      found++;
    } else {
      requests[left++] = *request;
    }
  }
  reader->window.requests.size = left * sizeof(tsr_tile_request);
  tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_cached, found);
}

void tsr__reader_unpin(tsr_reader *reader, tsr_pinned_tile *pinned) {
  if (!pinned) return;
  const uint32_t slots = reader->snapshot->fragments[pinned->fragment].fragment->metadata.slot_count;
  for (uint32_t s = 0; s < slots; s++) {
    if (pinned->tiles[s] && !keep_tile(reader, pinned, s)) tsr__tile_return(pinned->tiles[s], &reader->memory);
    pinned->tiles[s] = NULL;
  }
  pinned->next = reader->tiles.free;
  reader->tiles.free = pinned;
}

/* Narrows the request to the blocks from the first to the last that is needed. */
static void narrow_request(tsr_tile_request *request) {
  uint64_t first = request->first / TSR_NEEDED_CELLS, last = (request->end - 1) / TSR_NEEDED_CELLS;
  while (first < last && !request->needed[first]) first++;
  while (first < last && !request->needed[last]) last--;
  request->first = TSR_MAX(request->first, first * TSR_NEEDED_CELLS);
  request->end = TSR_MIN(request->end, (last + 1) * TSR_NEEDED_CELLS);
}

int tsr__reader_request(tsr_reader *reader, tsr_pinned_tile *pinned, int64_t slot, tsr_error *error) {
  if (slot < 0 || pinned->tiles[slot]) return TSR_OK;
  const tsr_tile_request *requests = (const tsr_tile_request *)(const void *)reader->window.requests.data;
  for (uint64_t i = reader->window.requests.size / sizeof(tsr_tile_request); i > 0 && requests[i - 1].pinned == pinned;
       i--)
    if (requests[i - 1].slot == (uint32_t)slot) return TSR_OK;
  tsr_tile_request request = {.fragment = reader->snapshot->fragments[pinned->fragment].fragment,
                              .slot = (uint32_t)slot,
                              .number = pinned->number,
                              .first = pinned->first,
                              .end = pinned->end,
                              .needed = pinned->needed,
                              .pinned = pinned};
  if (request.needed) narrow_request(&request);
  return tsr__buffer_append(&reader->window.requests, &request, sizeof request, error);
}

/* Returns the first field that has a slot: a dense fragment stores no coordinates. */
static uint32_t first_stored(const tsr_reader *reader, uint32_t fragment) {
  return reader->snapshot->fragments[fragment].fragment->metadata.dense ? reader->snapshot->schema->dimension_count : 0;
}

int tsr__reader_request_fields(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error) {
  const int64_t *slots = reader->snapshot->fragments[pinned->fragment].slots;
  for (uint32_t f = first_stored(reader, pinned->fragment); f < field_count(reader->snapshot->schema); f++)
    if (reader->request.fields[f]) TSR_TRY(tsr__reader_request(reader, pinned, slots[f], error));
  return TSR_OK;
}

/* Hands the tiles of loaded requests to their pinned tiles. */
static void pin_tiles(tsr_reader *reader, const tsr_tile_request *requests, uint64_t count) {
  uint64_t cells = 0;
  for (uint64_t i = 0; i < count; i++) {
    tsr_pinned_tile *pinned = requests[i].pinned;
    pinned->tiles[requests[i].slot] = requests[i].tile;
    if (requests[i].decoded && !pinned->counted) {
      pinned->counted = true;
      cells += requests[i].tile->decoded;
    }
  }
  tsr__count(reader->snapshot->array->environment, TSR_COUNT_cells_decoded, cells);
}

static int load_requests(tsr_reader *reader, tsr_buffer *buffer, tsr_error *error) {
  uint64_t count;
  tsr_tile_request *requests = requests_of(buffer, &count);
  if (count == 0) return TSR_OK;
  buffer->size = 0;
  TSR_TRY(tsr__tiles_load(reader->snapshot->array, reader->threads, requests, count, &reader->memory, error));
  pin_tiles(reader, requests, count);
  return TSR_OK;
}

static void cancel_ahead(tsr_reader *reader) {
  if (reader->window.ahead.loading) tsr__load_cancel(&reader->window.ahead.load);
  reader->window.ahead.loading = false;
}

int tsr__reader_load(tsr_reader *reader, tsr_error *error) {
  if (reader->tiles.kept.count > 0) serve_kept(reader);
  const uint64_t size = reader->window.requests.size;
  const int rc = load_requests(reader, &reader->window.requests, error);
  if (!tsr__lacks_memory(rc) || !reader->window.ahead.loading) return rc;
  cancel_ahead(reader); /* the current window needs the memory more */
  reader->window.requests.size = size;
  return load_requests(reader, &reader->window.requests, error);
}

/* Returns the offset of a dimension's coordinates in a tile, in bytes: before format version 5 one slot holds the
 * coordinates of all dimensions, one dimension after the other. */
static uint64_t coordinates_at(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                               int64_t slot) {
  const tsr_fragment *fragment = reader->snapshot->fragments[pinned->fragment].fragment;
  if (!field->is_dimension || layout_has_dimension_files(fragment->metadata.version)) return 0;
  return (uint64_t)(field - reader->snapshot->schema->fields) * pinned->tiles[slot]->cells * field->cell_size;
}

/* Returns a pointer to cell number `first` of a tile. `cells` begins at tile->first, the first cell that is decoded; if
 * `first` is before it, the pointer is only computed with, and nobody reads there. `size` is that of a cell, in
 * bytes. */
static const uint8_t *cells_from(const uint8_t *cells, const tsr_tile *tile, uint64_t first, uint64_t size) {
  return (const uint8_t *)((uintptr_t)cells + (uintptr_t)((first - tile->first) * size));
}

void tsr__reader_slot_column(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                             int64_t slot, uint64_t first, tsr_column *column) {
  const tsr_tile *tile = pinned->tiles[slot];
  *column = (tsr_column){.values = tile->values,
                         .validity = tile->validity ? cells_from(tile->validity, tile, first, 1) : NULL};
  if (field->values_per_cell == TSR_VARIABLE) {
    column->offsets = tile->offsets + first;
  } else {
    column->values =
        cells_from(tile->values + coordinates_at(reader, pinned, field, slot), tile, first, field->cell_size);
    column->cell_size = field->cell_size;
  }
}

int tsr__pinned_column(tsr_reader *reader, tsr_pinned_tile *pinned, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error) {
  const int64_t slot = reader->snapshot->fragments[pinned->fragment].slots[field];
  if (slot < 0) {
    *column = reader->columns.fills[field];
    return TSR_OK;
  }
  if (!pinned->tiles[slot]) {
    TSR_TRY(tsr__reader_request(reader, pinned, slot, error));
    TSR_TRY(tsr__reader_load(reader, error));
  }
  tsr__reader_slot_column(reader, pinned, &reader->snapshot->schema->fields[field], slot, first, column);
  return TSR_OK;
}

tsr_coordinates tsr__pinned_coordinates(const tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t dimension) {
  tsr_column column;
  tsr__reader_slot_column(reader, pinned, &reader->snapshot->schema->fields[dimension],
                          reader->snapshot->fragments[pinned->fragment].slots[dimension], 0, &column);
  return (tsr_coordinates){.values = column.values, .offsets = column.offsets};
}

int tsr__uncommitted_rowids(tsr_reader *reader, const tsr_pinned_tile *pinned, const uint32_t *cells, uint64_t count,
                            tsr_batch *batch, tsr_error *error) {
  const tsr_fragment_metadata *m = &reader->snapshot->fragments[pinned->fragment].fragment->metadata;
  const tsr_tile *tile = pinned->tiles[tsr__fragment_system_slot(m, TSR_SLOT_TIMES)];
  const uint64_t *times = (const uint64_t *)(const void *)tile->values;
  tsr_buffer *buffer = &reader->columns.rowids;
  buffer->size = 0;
  TSR_TRY(tsr__buffer_reserve(buffer, tsr__mul_sat(pinned->cells, sizeof(int64_t)), error));
  int64_t *rows = (int64_t *)(void *)buffer->data;
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t cell = cells ? cells[i] : (uint32_t)i;
    rows[cell] = tsr__uncommitted_rowid(times[cell] - TSR_UNCOMMITTED_TIMES);
  }
  batch->rowids = rows;
  return TSR_OK;
}

/* ---- Windows ---------------------------------------------------------------------------------------------------- */

static bool prefetches(const tsr_reader *reader) {
  return reader->progress.limit == 0 && tsr__store_prefetches(reader->snapshot->array->store);
}

uint64_t tsr__reader_window(tsr_reader *reader) {
  const bool prefetching = prefetches(reader);
  const uint64_t most =
      TSR_MAX((uint64_t)READER_TILES_FOR_A_THREAD * reader->threads, prefetching ? PREFETCH_TILES_MAX : 1);
  uint64_t n = reader->progress.window_tiles;
  if (prefetching && n < PREFETCH_TILES && memchr(reader->request.fields, true, field_count(reader->snapshot->schema)))
    n = PREFETCH_TILES;
  if (reader->progress.limit > 0 &&
      reader->progress.given >=
          reader->progress.limit) /* the caller has read past its limit: expect it to read as much again */
    reader->progress.limit = tsr__mul_sat(2, reader->progress.given);
  reader->progress.window_tiles = TSR_MIN(TSR_MAX(2 * n, prefetching ? PREFETCH_TILES : 1), most);
  return n;
}

bool tsr__reader_suffices(const tsr_reader *reader, uint64_t cells) {
  return reader->progress.limit > 0 && tsr__add_sat(reader->progress.given, cells) >= reader->progress.limit;
}

/* ---- The next window --------------------------------------------------------------------------------------------- */

bool tsr__reader_may_load_ahead(const tsr_reader *reader) {
  return reader->threads > 1 && !reader->snapshot->array->environment->single_threaded &&
         reader->progress.window_tiles > (prefetches(reader) ? PREFETCH_TILES : 2) && !tsr__reader_suffices(reader, 0);
}

int tsr__reader_load_ahead(tsr_reader *reader, uint64_t bytes, tsr_error *error) {
  tsr_read_ahead *ahead = &reader->window.ahead;
  const tsr_buffer requests = ahead->requests;
  const uint64_t used = tsr__add_sat(atomic_load_explicit(&reader->memory.used, memory_order_relaxed), bytes);
  uint64_t count;
  ahead->requests = reader->window.requests;
  reader->window.requests = requests;
  reader->window.requests.size = 0;
  ahead->loading = false;
  if (used > reader->memory.limit / 2 || reader->memory.limit - used < FREE_BYTES) return TSR_OK;
  tsr_tile_request *list = requests_of(&ahead->requests, &count);
  if (count == 0) return TSR_OK;
  tsr_error ignored; /* tsr__reader_finish_ahead tries again, and reports errors that persist */
  const int rc = tsr__load_start(&ahead->load, reader->snapshot->array, reader->threads - 1, true, list, count,
                                 &reader->memory, &ignored);
  ahead->loading = rc >= 0;
  return tsr__only_cancelled(rc, &ignored, error);
}

int tsr__reader_finish_ahead(tsr_reader *reader, tsr_error *error) {
  tsr_read_ahead *ahead = &reader->window.ahead;
  const tsr_arena arena = reader->window.arena;
  tsr_error ignored;
  uint64_t count;
  int rc = TSR_ERROR;
  reader->window.arena = ahead->arena;
  ahead->arena = arena;
  if (ahead->loading) {
    ahead->loading = false;
    rc = tsr__load_finish(&ahead->load, &ignored);
    TSR_TRY(tsr__only_cancelled(rc, &ignored, error));
  }
  if (rc < 0) /* the load did not start, or failed: do it now, and report errors */
    return load_requests(reader, &ahead->requests, error);
  const tsr_tile_request *requests = requests_of(&ahead->requests, &count);
  pin_tiles(reader, requests, count);
  ahead->requests.size = 0;
  return TSR_OK;
}

void tsr__reader_cancel_ahead(tsr_reader *reader) {
  cancel_ahead(reader);
  reader->window.ahead.requests.size = 0;
}

unsigned tsr__reader_threads(const tsr_reader *reader) {
  return reader->window.ahead.loading && tsr__job_has_tasks(&reader->window.ahead.load.job) ? 1 : reader->threads;
}

int tsr__reader_cost(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t *bytes, tsr_error *error) {
  const tsr_snapshot_fragment *f = &reader->snapshot->fragments[fragment];
  uint64_t sum = 0;
  for (uint32_t i = first_stored(reader, fragment); i < field_count(reader->snapshot->schema); i++) {
    uint64_t cost;
    if (!reader->request.fields[i] || f->slots[i] < 0) continue;
    TSR_TRY(tsr__tile_cost(reader->snapshot->array, f->fragment, (uint32_t)f->slots[i], number, &cost, error));
    sum = tsr__add_sat(sum, cost);
  }
  *bytes = sum;
  return TSR_OK;
}
