/* reader.c: readers as callers see them, and what both kinds of reading share: pinned tiles, columns, windows.
 *
 * A reader keeps its memory from start to start: its arenas keep their largest block, tiles in hand come from a free
 * list, so that a join can start it for each outer row.
 */
#include "read/reader.h"

#include <stdatomic.h>
#include <string.h>

#include "model/datatype.h"
#include "format/fragment_slot.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/snapshot.h"
#include "read/covers.h"
#include "read/predicate.h"
#include "read/read_dense.h"
#include "read/read_ordered.h"
#include "read/read_point.h"
#include "read/read_sparse.h"

#define READER_DEFAULT_MEMORY     (UINT64_C(1) << 30)
#define READER_TILES_FOR_A_THREAD 4 /* in the largest window */
#define KEPT_PART                 8 /* of the budget: tiles that are kept from start to start */
#define FREE_BYTES                                                                                                     \
  (UINT64_C(16)                                                                                                        \
   << 20) /* of the budget, and half of it, are left to the present window where there is one ahead of it */

static uint32_t reader_field_count(const tsr_schema *schema) {
  return schema->dimension_count + schema->attribute_count;
}

/* ---- Open and close ---------------------------------------------------------------------------------------------- */

/* The columns of fields that a fragment lacks, and of cells that were never written. */
static void make_fills(tsr_reader *reader) {
  const tsr_schema *schema = reader->snapshot->schema;
  for (uint32_t f = schema->dimension_count; f < reader_field_count(schema); f++) {
    const tsr_field *field = &schema->fields[f];
    tsr_column *c = &reader->fills[f];
    c->values = field->fill;
    c->constant = c->unwritten = true;
    if (field->nullable) c->validity = &field->fill_validity;
    if (field->values_per_cell == TSR_VARIABLE) {
      reader->fill_offsets[f][1] = field->fill_size;
      c->offsets = reader->fill_offsets[f];
    } else {
      c->cell_size = field->cell_size;
    }
  }
}

static int reader_allocate(tsr_reader *reader, tsr_error *error) {
  const uint32_t n = reader_field_count(reader->snapshot->schema);
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->fields, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->column_ready, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->columns, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->fills, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, n, &reader->fill_offsets, error));
  TSR_TRY(TSR_ALLOC_ARRAY(&reader->memory, reader->snapshot->schema->dimension_count, &reader->values, error));
  for (uint32_t d = 0; d < reader->snapshot->schema->dimension_count; d++) reader->values[d].memory = &reader->memory;
  return TSR_OK;
}

/* Lets go of the oldest until no more than `bytes` are kept. */
static void forget_kept(tsr_reader *reader, uint64_t bytes) {
  uint32_t i = 0;
  for (; i < reader->kept_count && reader->kept_bytes > bytes; i++) {
    reader->kept_bytes -= reader->kept[i].tile->bytes;
    tsr__tile_return(reader->kept[i].tile, &reader->memory);
  }
  reader->kept_count -= i;
  memmove(reader->kept, reader->kept + i, reader->kept_count * sizeof reader->kept[0]);
}

void tsr__reader_forget(tsr_reader *reader) {
  forget_kept(reader, 0);
  tsr__read_ordered_forget(reader);
}

static bool reader_relieve(void *argument) {
  tsr_reader *reader = argument;
  const bool some = reader->kept_count > 0;
  forget_kept(reader, 0);
  return some;
}

int tsr_reader_open(tsr_snapshot *snapshot, tsr_reader **reader, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__reader_open_within(snapshot, &snapshot->array->memory, reader, error);
}

int tsr__reader_open_within(tsr_snapshot *snapshot, tsr_memory *memory, tsr_reader **reader, tsr_error *error) {
  tsr_reader *r;
  TSR_TRY(TSR_ALLOC(memory, &r, error));
  r->snapshot = snapshot;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&r->memory, memory, READER_DEFAULT_MEMORY, "memory_mb");
  r->memory.relieve = reader_relieve;
  r->memory.relieve_argument = r;
  tsr__arena_init(&r->arena, &r->memory);
  tsr__arena_init(&r->window, &r->memory);
  tsr__arena_init(&r->ahead.arena, &r->memory);
  r->ahead.requests.memory = r->requests.memory = r->selection.memory = r->owners.memory = r->sorted.memory =
      r->numbers.memory = &r->memory;
  r->chosen.memory = &r->memory;
  r->done = true;
  for (uint64_t f = 0; f < snapshot->fragment_count; f++)
    r->slot_count = TSR_MAX(r->slot_count, snapshot->fragments[f].fragment->metadata.slot_count);
  if (reader_allocate(r, error) < 0) {
    tsr_reader_close(r);
    return tsr__wrap(error, "%s", snapshot->array->path);
  }
  make_fills(r);
  *reader = r;
  return TSR_OK;
}

static void close_source(tsr_reader *reader) {
  if (reader->iterator) reader->iterator->close(reader->iterator);
  reader->iterator = NULL;
  reader->done = true;
}

uint64_t tsr_reader_rest(tsr_reader *reader, bool forget) {
  close_source(reader);
  if (forget) tsr__reader_forget(reader);
  return atomic_load_explicit(&reader->memory.used, memory_order_relaxed) - reader->kept_bytes;
}

void tsr_reader_close(tsr_reader *reader) {
  if (!reader) return;
  close_source(reader);
  forget_kept(reader, 0);
  tsr__read_ordered_free(reader);
  while (reader->free) {
    tsr_pinned_tile *pinned = reader->free;
    reader->free = pinned->next;
    tsr__free(pinned);
  }
  for (uint32_t d = 0; reader->values && d < reader->snapshot->schema->dimension_count; d++)
    tsr__buffer_release(&reader->values[d]);
  tsr__free(reader->values);
  tsr__buffer_release(&reader->requests);
  tsr__buffer_release(&reader->ahead.requests);
  tsr__buffer_release(&reader->selection);
  tsr__buffer_release(&reader->owners);
  tsr__buffer_release(&reader->sorted);
  tsr__buffer_release(&reader->numbers);
  tsr__buffer_release(&reader->chosen);
  tsr__free(reader->fields);
  tsr__free(reader->column_ready);
  tsr__free(reader->columns);
  tsr__free(reader->fills);
  tsr__free(reader->fill_offsets);
  tsr__arena_release(&reader->window);
  tsr__arena_release(&reader->ahead.arena);
  tsr__arena_release(&reader->arena);
  tsr_snapshot *snapshot = reader->snapshot;
  tsr__free(reader);
  tsr_snapshot_close(snapshot);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* The tests' fields are decoded ahead, too: first of all. */
static void note_fields(tsr_reader *reader) {
  const tsr_schema *schema = reader->snapshot->schema;
  for (uint32_t i = 0; i < reader->test_count; i++) reader->fields[reader->tests[i].field] = false;
  reader->others = false;
  for (uint32_t f = schema->dense ? schema->dimension_count : 0; f < reader_field_count(schema); f++)
    reader->others |= reader->fields[f];
  for (uint32_t i = 0; i < reader->test_count; i++) reader->fields[reader->tests[i].field] = true;
}

static void rewind_reader(tsr_reader *reader) {
  close_source(reader);
  reader->again = reader->started;
  reader->started = true;
  tsr__arena_reset(&reader->window);
  tsr__arena_reset(&reader->arena);
  reader->requests.size = 0;
  reader->window_tiles = 1;
  reader->given = 0;
  reader->distinct = false;
}

/* What was never written is not looked at where nothing of it is wanted, or all of it at once. */
static int make_covers(tsr_reader *reader, tsr_error *error) {
  tsr_plan *plan = &reader->plan;
  if (!reader->snapshot->schema->dense || plan->empty || (reader->passes_unwritten && !reader->take)) return TSR_OK;
  TSR_TRY(tsr__covers_make(reader->snapshot, &reader->arena, plan, error));
  plan->empty = plan->cover_count == 0 && !reader->passes_unwritten;
  return TSR_OK;
}

static int open_source(tsr_reader *reader, tsr_error *error) {
  if (reader->snapshot->schema->dense) return tsr__read_dense_open(reader, &reader->iterator, error);
  return tsr__read_sparse_open(reader, &reader->iterator, error);
}

int tsr__reader_start_part(tsr_reader *reader, const tsr_reader *whole, tsr_spans *spans, tsr_error *error) {
  rewind_reader(reader);
  reader->part = true;
  reader->threads = whole->threads;
  reader->limit = 0;
  reader->times = whole->times;
  reader->fill_unwritten = whole->fill_unwritten;
  reader->passes_unwritten = whole->passes_unwritten;
  reader->tests = whole->tests;
  reader->test_count = whole->test_count;
  note_fields(reader);
  TSR_TRY(tsr__plan_make_within(reader->snapshot, spans, &reader->arena, &reader->plan, error));
  TSR_TRY(make_covers(reader, error));
  if (!reader->plan.empty) TSR_TRY(open_source(reader, error));
  reader->done = reader->plan.empty;
  return TSR_OK;
}

int tsr__reader_start_nothing(tsr_reader *reader, tsr_error *error) {
  rewind_reader(reader);
  memset(reader->column_ready, 0, reader_field_count(reader->snapshot->schema) * sizeof(bool));
  reader->test_count = 0;
  reader->limit = 0;
  reader->times = false;
  if (reader->threads == 0) reader->threads = 1;
  return tsr__environment_cancelled(reader->snapshot->array->environment, error);
}

/* Does the plain order of a dense array serve? One fragment, tiles one after the other along the slowest dimension
 * that has more than one value. */
static bool is_ordered(const tsr_reader *reader, const tsr_request *request) {
  const tsr_grid *grid = &reader->snapshot->grid;
  const tsr_plan *plan = &reader->plan;
  if (!reader->snapshot->schema->dense || grid->col_major_cells != grid->col_major_tiles ||
      request->order_count > grid->dimensions || plan->box_count != 1 || plan->boxes[0].sparse)
    return false;
  bool single = true; /* so far the request has one value of each dimension */
  uint32_t asked = 0;
  for (uint32_t k = 0; k < grid->dimensions; k++) {
    const uint32_t d = grid->col_major_cells ? grid->dimensions - 1 - k : k;
    const uint64_t low = plan->selections[d].spans[0].low,
                   high = plan->selections[d].spans[plan->selections[d].count - 1].high;
    const bool is_next = asked < request->order_count && request->order[asked].dimension == d;
    if (asked < request->order_count && low != high && (!is_next || request->order[asked].descending)) return false;
    asked += is_next;
    if (!single && low / grid->extent[d] != high / grid->extent[d]) return false;
    single = single && low == high;
    if (low < plan->boxes[0].low[d] || high > plan->boxes[0].high[d]) return false;
  }
  if (asked < request->order_count) return false;
  return true;
}

/* In a dense array each combination of values has a cell: for those of some dimensions, one value of the others is
 * enough. */
static int reader_narrow(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
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

/* What `distinct` allows: of a dense array a smaller plan, of a sparse one repeats are dropped by read_ordered.c. */
static int start_distinct(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  if (reader->test_count > 0) return TSR_OK; /* which look at more than the dimensions */
  reader->distinct = !reader->snapshot->schema->dense;
  return reader->distinct ? TSR_OK : reader_narrow(reader, request, error);
}

int tsr_reader_start(tsr_reader *reader, const tsr_request *request, tsr_error *error) {
  TSR_OWN_ERROR(error);
  static const tsr_request everything = {0};
  if (!request) request = &everything;
  tsr_snapshot *snapshot = reader->snapshot;
  rewind_reader(reader);
  reader->memory.limit = request->memory_bytes ? request->memory_bytes : READER_DEFAULT_MEMORY;
  reader->threads = TSR_MAX(1, request->threads ? request->threads : snapshot->array->threads);
  reader->limit = request->limit;
  reader->times = request->times;
  const uint32_t n = reader_field_count(snapshot->schema);
  if (request->fields) memcpy(reader->fields, request->fields, n * sizeof(bool));
  else memset(reader->fields, 0, n * sizeof(bool));
  int rc = tsr__tests_make(reader, request, error);
  reader->passes_unwritten = rc >= 0 && !reader->written_only && tsr__tests_pass_unwritten(reader);
  note_fields(reader);
  if (rc >= 0 && (rc = tsr__read_point_open(reader, request, &reader->iterator, error)) > 0) {
    reader->plan = (tsr_plan){0};
    reader->done = false;
    return TSR_OK;
  }
  if (rc >= 0) rc = tsr__plan_make(snapshot, request->dimensions, &reader->arena, &reader->plan, error);
  for (uint32_t i = 0; rc >= 0 && i < reader->test_count; i++) reader->plan.empty |= reader->tests[i].never;
  if (rc >= 0 && request->distinct && request->order_count > 0 && !reader->plan.empty)
    rc = start_distinct(reader, request, error);
  if (rc >= 0) rc = make_covers(reader, error);
  if (rc >= 0 && !reader->plan.empty)
    rc = request->order_count == 0 || is_ordered(reader, request)
             ? open_source(reader, error)
             : tsr__read_ordered_open(reader, request->order, request->order_count, request->limit, &reader->iterator,
                                      error);
  if (rc < 0) return tsr__wrap(error, "%s", snapshot->array->path);
  reader->done = reader->plan.empty;
  return TSR_OK;
}

int tsr_reader_next(tsr_reader *reader, const tsr_batch **batch, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (reader->done) return 0;
  memset(reader->column_ready, 0, reader_field_count(reader->snapshot->schema) * sizeof(bool));
  reader->batch = (tsr_batch){.fragment = TSR_FRAGMENT_NONE};
  const int rc = reader->iterator->next(reader->iterator, &reader->batch, error);
  reader->done = rc <= 0;
  if (rc < 0) return tsr__wrap(error, "%s", reader->snapshot->array->path);
  if (rc > 0) *batch = &reader->batch;
  return rc;
}

int tsr_reader_column(tsr_reader *reader, uint32_t field, const tsr_column **column, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (field >= reader_field_count(reader->snapshot->schema))
    return tsr__fail(error, TSR_ERROR, "%s: field %u asked for, it has %u", reader->snapshot->array->path, field,
                     reader_field_count(reader->snapshot->schema));
  if (reader->done) return tsr__fail(error, TSR_ERROR, "a column asked for where there is no batch");
  if (!reader->column_ready[field]) {
    tsr_column c = {0};
    if (reader->iterator->column(reader->iterator, field, &c, error) < 0)
      return tsr__wrap(error, "%s", reader->snapshot->array->path);
    reader->columns[field] = c;
    reader->column_ready[field] = true;
    reader->fields[field] = true; /* and the next windows decode it ahead */
  }
  *column = &reader->columns[field];
  return TSR_OK;
}

uint64_t tsr__reader_cells(const tsr_reader *reader) {
  const tsr_plan *plan = &reader->plan;
  const tsr_schema *schema = reader->snapshot->schema;
  uint64_t cells = 1;
  if (plan->empty) return 0;
  if (!schema->dense) return tsr__mul_sat(plan->tile_count, schema->capacity);
  if (!plan->selections) return 1; /* a single cell, for which there is no plan: read_point.c */
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
#define GATHER(bytes)                                                                                                  \
  case bytes:                                                                                                          \
    for (uint64_t r = 0; r < count; r++) memcpy(block + r * (bytes), values + (uint64_t)cells[r] * (bytes), (bytes));  \
    break;
      GATHER(1)
      GATHER(2)
      GATHER(4)
      GATHER(8)
#undef GATHER
    }
    values = block;
  } else {
    values += (batch->first + from) * size;
  }
  tsr__keys(datatype, values, count, keys);
}

/* ---- Tiles in hand ----------------------------------------------------------------------------------------------- */

int tsr__reader_hold(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t cells, tsr_pinned_tile **pinned,
                     tsr_error *error) {
  tsr_pinned_tile *h = reader->free;
  if (h) {
    reader->free = h->next;
  } else {
    TSR_TRY(TSR_ALLOC_BYTES(&reader->memory, sizeof *h + reader->slot_count * sizeof h->tiles[0], &h, error));
  }
  h->fragment = fragment;
  h->number = number;
  h->cells = h->end = cells;
  h->first = 0;
  h->counted = false;
  h->next = NULL;
  *pinned = h;
  return TSR_OK;
}

static tsr_tile_request *requests_of(const tsr_buffer *buffer, uint64_t *count) {
  *count = buffer->size / sizeof(tsr_tile_request);
  return (tsr_tile_request *)(void *)buffer->data;
}

/* A reader that is started again and again is likely to want the same tiles: they stay, whatever the cache has room
 * for, as
 * long as nothing else wants their memory. False: the tile is the caller's still. */
static bool keep_tile(tsr_reader *reader, const tsr_pinned_tile *pinned, uint32_t slot) {
  const tsr_fragment *fragment = reader->snapshot->fragments[pinned->fragment].fragment;
  tsr_tile *tile = pinned->tiles[slot];
  const uint64_t most = reader->memory.limit / KEPT_PART;
  if (!reader->again || fragment->tiles || tile->bytes > most) return false;
  forget_kept(reader, most - tile->bytes);
  if (reader->kept_count == TSR_KEPT_MAX) forget_kept(reader, reader->kept_bytes - reader->kept[0].tile->bytes);
  reader->kept[reader->kept_count++] = (tsr_kept_tile){fragment->id, slot, pinned->number, tile};
  reader->kept_bytes += tile->bytes;
  return true;
}

/* What is wanted and was kept is in hand again. */
static void take_kept(tsr_reader *reader) {
  uint64_t count, left = 0, found = 0;
  tsr_tile_request *requests = requests_of(&reader->requests, &count);
  for (uint64_t i = 0; i < count; i++) {
    tsr_tile_request *w = &requests[i];
    uint32_t k = reader->kept_count;
    while (k > 0 && (reader->kept[k - 1].number != w->number || reader->kept[k - 1].slot != w->slot ||
                     reader->kept[k - 1].fragment != w->fragment->id))
      k--;
    if (k > 0 && tsr__tile_request_fits(w, reader->kept[k - 1].tile)) {
      w->pinned->tiles[w->slot] = reader->kept[k - 1].tile;
      reader->kept_bytes -= reader->kept[k - 1].tile->bytes;
      memmove(&reader->kept[k - 1], &reader->kept[k], (--reader->kept_count - (k - 1)) * sizeof reader->kept[0]);
      found++;
    } else {
      requests[left++] = *w;
    }
  }
  reader->requests.size = left * sizeof(tsr_tile_request);
  tsr__count(reader->snapshot->array->environment, TSR_COUNT_tiles_cached, found);
}

void tsr__reader_drop(tsr_reader *reader, tsr_pinned_tile *pinned) {
  if (!pinned) return;
  const uint32_t slots = reader->snapshot->fragments[pinned->fragment].fragment->metadata.slot_count;
  for (uint32_t s = 0; s < slots; s++) {
    if (pinned->tiles[s] && !keep_tile(reader, pinned, s)) tsr__tile_return(pinned->tiles[s], &reader->memory);
    pinned->tiles[s] = NULL;
  }
  pinned->next = reader->free;
  reader->free = pinned;
}

int tsr__reader_request(tsr_reader *reader, tsr_pinned_tile *pinned, int64_t slot, tsr_error *error) {
  if (slot < 0 || pinned->tiles[slot]) return TSR_OK;
  const tsr_tile_request *requests = (const tsr_tile_request *)(const void *)reader->requests.data;
  for (uint64_t i = reader->requests.size / sizeof(tsr_tile_request); i > 0 && requests[i - 1].pinned == pinned; i--)
    if (requests[i - 1].slot == (uint32_t)slot) return TSR_OK;
  const tsr_tile_request request = {.fragment = reader->snapshot->fragments[pinned->fragment].fragment,
                                    .slot = (uint32_t)slot,
                                    .number = pinned->number,
                                    .first = pinned->first,
                                    .end = pinned->end,
                                    .pinned = pinned};
  return tsr__buffer_append(&reader->requests, &request, sizeof request, error);
}

/* The first field that has data: a dense fragment has none of dimensions. */
static uint32_t first_stored(const tsr_reader *reader, uint32_t fragment) {
  return reader->snapshot->fragments[fragment].fragment->metadata.dense ? reader->snapshot->schema->dimension_count : 0;
}

int tsr__reader_request_fields(tsr_reader *reader, tsr_pinned_tile *pinned, tsr_error *error) {
  const int64_t *slots = reader->snapshot->fragments[pinned->fragment].slots;
  for (uint32_t f = first_stored(reader, pinned->fragment); f < reader_field_count(reader->snapshot->schema); f++)
    if (reader->fields[f]) TSR_TRY(tsr__reader_request(reader, pinned, slots[f], error));
  return TSR_OK;
}

/* The tiles of wants that were loaded are held. */
static void hold_tiles(tsr_reader *reader, const tsr_tile_request *requests, uint64_t count) {
  uint64_t cells = 0;
  for (uint64_t i = 0; i < count; i++) {
    tsr_pinned_tile *pinned = requests[i].pinned;
    pinned->tiles[requests[i].slot] = requests[i].tile;
    if (requests[i].decoded && !pinned->counted) {
      pinned->counted = true;
      cells += requests[i].tile->end > 0 ? requests[i].tile->end - requests[i].tile->first : pinned->cells;
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
  hold_tiles(reader, requests, count);
  return TSR_OK;
}

static void cancel_ahead(tsr_reader *reader) {
  if (reader->ahead.loading) tsr__load_cancel(&reader->ahead.load);
  reader->ahead.loading = false;
}

int tsr__reader_load(tsr_reader *reader, tsr_error *error) {
  if (reader->kept_count > 0) take_kept(reader);
  const uint64_t size = reader->requests.size;
  const int rc = load_requests(reader, &reader->requests, error);
  if (!tsr__lacks_memory(rc) || !reader->ahead.loading) return rc;
  cancel_ahead(reader); /* what is wanted now goes before what will be */
  reader->requests.size = size;
  return load_requests(reader, &reader->requests, error);
}

/* Below version 5 one slot holds all dimensions, one after the other. */
static uint64_t coordinates_at(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                               int64_t slot) {
  const tsr_fragment *fragment = reader->snapshot->fragments[pinned->fragment].fragment;
  if (!field->is_dimension || layout_has_dimension_files(fragment->metadata.version)) return 0;
  return (uint64_t)(field - reader->snapshot->schema->fields) * pinned->tiles[slot]->cells * field->cell_size;
}

void tsr__reader_slot_column(const tsr_reader *reader, const tsr_pinned_tile *pinned, const tsr_field *field,
                             int64_t slot, uint64_t first, tsr_column *column) {
  const tsr_tile *tile = pinned->tiles[slot];
  *column = (tsr_column){.values = tile->values, .validity = tile->validity ? tile->validity + first : NULL};
  if (field->values_per_cell == TSR_VARIABLE) {
    column->offsets = tile->offsets + first;
  } else {
    column->values =
        tile->values + coordinates_at(reader, pinned, field, slot) + (first - tile->first) * field->cell_size;
    column->cell_size = field->cell_size;
  }
}

int tsr__reader_column(tsr_reader *reader, tsr_pinned_tile *pinned, uint32_t field, uint64_t first, tsr_column *column,
                       tsr_error *error) {
  const int64_t slot = reader->snapshot->fragments[pinned->fragment].slots[field];
  if (slot < 0) {
    *column = reader->fills[field];
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
  tsr_buffer *buffer = &reader->numbers;
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

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

uint64_t tsr__reader_window(tsr_reader *reader) {
  const uint64_t n = reader->window_tiles;
  if (reader->limit > 0 && reader->given >= reader->limit) /* more is taken than was likely: as much once more */
    reader->limit = tsr__mul_sat(2, reader->given);
  reader->window_tiles = TSR_MIN(2 * n, (uint64_t)READER_TILES_FOR_A_THREAD * reader->threads);
  return n;
}

bool tsr__reader_suffices(const tsr_reader *reader, uint64_t cells) {
  return reader->limit > 0 && tsr__add_sat(reader->given, cells) >= reader->limit;
}

/* ---- The window behind the present one --------------------------------------------------------------------------- */

bool tsr__reader_may_ahead(const tsr_reader *reader) {
  return reader->threads > 1 && !reader->snapshot->array->environment->single_threaded && reader->window_tiles > 2 &&
         !tsr__reader_suffices(reader, 0);
}

int tsr__reader_load_ahead(tsr_reader *reader, uint64_t bytes, tsr_error *error) {
  tsr_read_ahead *ahead = &reader->ahead;
  const tsr_buffer requests = ahead->requests;
  const uint64_t used = tsr__add_sat(atomic_load_explicit(&reader->memory.used, memory_order_relaxed), bytes);
  uint64_t count;
  ahead->requests = reader->requests;
  reader->requests = requests;
  reader->requests.size = 0;
  ahead->loading = false;
  if (used > reader->memory.limit / 2 || reader->memory.limit - used < FREE_BYTES) return TSR_OK;
  tsr_tile_request *list = requests_of(&ahead->requests, &count);
  if (count == 0) return TSR_OK;
  tsr_error trouble; /* which the take meets again, if it lasts */
  const int rc = tsr__load_start(&ahead->load, reader->snapshot->array, reader->threads - 1, true, list, count,
                                 &reader->memory, &trouble);
  ahead->loading = rc >= 0;
  return rc == TSR_INTERRUPT ? tsr__fail(error, rc, "%s", trouble.message) : TSR_OK;
}

int tsr__reader_take_ahead(tsr_reader *reader, tsr_error *error) {
  tsr_read_ahead *ahead = &reader->ahead;
  const tsr_arena arena = reader->window;
  tsr_error trouble;
  uint64_t count;
  int rc = TSR_ERROR;
  reader->window = ahead->arena;
  ahead->arena = arena;
  if (ahead->loading) rc = tsr__load_finish(&ahead->load, &trouble);
  ahead->loading = false;
  if (rc == TSR_INTERRUPT) return tsr__fail(error, rc, "%s", trouble.message);
  if (rc < 0)
    return load_requests(reader, &ahead->requests, error); /* it was not begun, or it failed: now it may say why */
  const tsr_tile_request *requests = requests_of(&ahead->requests, &count);
  hold_tiles(reader, requests, count);
  ahead->requests.size = 0;
  return TSR_OK;
}

void tsr__reader_drop_ahead(tsr_reader *reader) {
  cancel_ahead(reader);
  reader->ahead.requests.size = 0;
}

unsigned tsr__reader_threads(const tsr_reader *reader) {
  return reader->ahead.loading && tsr__job_has_tasks(&reader->ahead.load.job) ? 1 : reader->threads;
}

int tsr__reader_cost(tsr_reader *reader, uint32_t fragment, uint64_t number, uint64_t *bytes, tsr_error *error) {
  const tsr_snapshot_fragment *f = &reader->snapshot->fragments[fragment];
  uint64_t sum = 0;
  for (uint32_t i = first_stored(reader, fragment); i < reader_field_count(reader->snapshot->schema); i++) {
    uint64_t cost;
    if (!reader->fields[i] || f->slots[i] < 0) continue;
    TSR_TRY(tsr__tile_cost(reader->snapshot->array, f->fragment, (uint32_t)f->slots[i], number, &cost, error));
    sum = tsr__add_sat(sum, cost);
  }
  *bytes = sum;
  return TSR_OK;
}
