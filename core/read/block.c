/* block.c: reads a box of a dense array into one block of memory: the values of an attribute, row-major. Alternatively
 * it hands the cells, tile by tile, to a function, without a copy where a single decoded tile has all of the cells.
 *
 * Where a single fragment has all cells of a space tile, and its tile would not stay in memory, the cells are copied
 * while they are decoded, chunk by chunk (tsr_tile_sink).
 *
 * The box is read space tile by space tile, in windows of several. For each space tile, the tiles of all fragments with
 * cells in it are decoded and copied row by row, oldest fragment first, so that the newest value of each cell remains.
 * Fragments older than one that covers the requested part of the space tile are not read. Cells that were never
 * written, and nulls, get the fill value.
 *
 * Up to format version 10 dense arrays may have sparse fragments with single cells. If one of these overlaps the box,
 * the cells come from the batches of a reader instead.
 *
 * Sections: copying; windows; single cells; the entry points.
 */
#include "read/block.h"

#include <string.h>

#include "model/datatype.h"
#include "array/array.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "format/fragment_metadata.h"
#include "read/reader.h"
#include "store/store.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define READ_BLOCK_TILES_FOR_A_THREAD 8 /* space tiles of a window, for each thread, */
/* and where no tile stays in memory, nor its stored bytes: threads wait for each other less often */
#define READ_BLOCK_SINKS_FOR_A_THREAD 32
#define READ_BLOCK_DEFAULT_MEMORY     (UINT64_C(1) << 30)
/* Bytes of a block that the processor's caches would not keep until the caller reads it. */
#define READ_BLOCK_LARGE (UINT64_C(16) << 20)

typedef struct block_copy { /* one copy: a fragment's part of a space tile */
  uint64_t request; /* index in the window's requests; NO_TILE: write fill values */
  bool written; /* false: no fragment wrote the cells */
  uint64_t *low, *high; /* ordinals, inclusive */
} block_copy;
#define NO_TILE UINT64_MAX

typedef struct space { /* a space tile of the window */
  uint64_t *start; /* ordinals of its first cell */
  block_copy *copies; /* in the order of execution, oldest fragment first */
  uint32_t count;
} space;

typedef struct block_out { /* where the cells go */
  uint8_t *values;
  uint8_t *states; /* tsr_cell_state of each cell; NULL: not requested */
  const uint64_t *low; /* ordinals of the first cell */
  const uint64_t *stride; /* in cells */
} block_out;

typedef struct block_box { /* the box that is read; by dimension */
  uint64_t *low, *high; /* ordinals, inclusive */
  uint64_t *stride; /* in `out`, in cells */
  uint64_t *tile_stride; /* in a tile, in cells */
} block_box;

typedef struct block_window { /* the space tiles that are read together */
  tsr_arena arena; /* memory of `spaces` */
  space *spaces;
  uint64_t count;
  tsr_buffer requests; /* tsr_tile_request */
} block_window;

typedef struct block_read {
  tsr_snapshot *snapshot;
  tsr_environment *environment;
  const tsr_grid *grid;
  const tsr_field *field;
  uint32_t field_index, dimensions;
  tsr_memory memory;
  tsr_arena arena;
  unsigned threads;
  tsr_plan plan;
  block_box box;
  block_out out; /* the caller's memory; not used with `take` */
  bool large; /* `out` has at least READ_BLOCK_LARGE bytes */
  bool once; /* the decoded tiles of the box do not fit into the cache together */
  tsr_block_take take; /* NULL, or the function that gets the cells */
  void *argument; /* of `take` */
  uint64_t *at; /* the next space tile: coordinates in the tile grid */
  bool ended; /* there is no next space tile */
  block_window window;
} block_read;

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

static void fill_row(const block_read *b, uint8_t *to, uint64_t count) {
  const uint64_t size = b->field->cell_size;
  for (uint64_t i = 0; i < count; i++) memcpy(to + i * size, b->field->fill, size);
}

/* Copies bytes past the processor's caches: a store that goes through them first reads what it replaces. */
#if defined(__SSE2__)
#define PAST_LEAST 256u /* a shorter copy has too few whole cache lines */
static void copy_past_caches(uint8_t *to, const uint8_t *from, uint64_t size) {
  const uint64_t before = size < PAST_LEAST ? size : (64 - (uintptr_t)to % 64) % 64;
  memcpy(to, from, before);
  uint64_t at = before;
  for (; at + 64 <= size; at += 64) {
    __m128i line[4];
    memcpy(line, from + at, sizeof line);
    for (unsigned i = 0; i < 4; i++) _mm_stream_si128((__m128i *)(void *)(to + at) + i, line[i]);
  }
  memcpy(to + at, from + at, size - at);
}
/* Orders these copies before everything that follows. */
static void end_past_caches(void) { _mm_sfence(); }
#else
static void copy_past_caches(uint8_t *to, const uint8_t *from, uint64_t size) { memcpy(to, from, size); }
static void end_past_caches(void) {}
#endif

/* Copies adjacent values. Where `again`, the copy itself is changed at once. */
static void copy_values(const block_read *b, uint8_t *to, const uint8_t *from, uint64_t count, bool again) {
  const uint64_t size = count * b->field->cell_size;
  if (b->large && !again) copy_past_caches(to, from, size);
  else memcpy(to, from, size);
}

#define COPY_STRIDED(type)                                                                                             \
  for (uint64_t i = 0; i < count; i++) {                                                                               \
    type value;                                                                                                        \
    memcpy(&value, from + i * stride * sizeof value, sizeof value);                                                    \
    memcpy(to + i * sizeof value, &value, sizeof value);                                                               \
  }

/* Copies `count` values that are `stride` cells apart in `from`, and adjacent in `to`. */
static void copy_row(const block_read *b, const uint8_t *from, uint64_t stride, uint8_t *to, uint64_t count,
                     bool again) {
  const uint64_t size = b->field->cell_size;
  if (stride == 1) {
    copy_values(b, to, from, count, again);
    return;
  }
  switch (size) {
  case 1: COPY_STRIDED(uint8_t) break;
  case 2: COPY_STRIDED(uint16_t) break;
  case 4: COPY_STRIDED(uint32_t) break;
  case 8: COPY_STRIDED(uint64_t) break;
  default:
    for (uint64_t i = 0; i < count; i++) memcpy(to + i * size, from + i * stride * size, size);
  }
}

/* Replaces null cells by the fill value. */
static void null_row(const block_read *b, const uint8_t *validity, uint64_t stride, uint8_t *to, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (!validity[i * stride]) fill_row(b, to + i * b->field->cell_size, 1);
}

static void set_states(const uint8_t *validity, uint64_t stride, uint8_t *to, uint64_t count) {
  if (!validity) {
    memset(to, TSR_CELL_VALUE, count);
    return;
  }
  for (uint64_t i = 0; i < count; i++) to[i] = validity[i * stride] ? TSR_CELL_VALUE : TSR_CELL_NULL;
}

/* Makes one copy, row by row along the last dimension. `tile` NULL: writes fill values. */
static void write_copy(const block_read *b, const block_out *out, const space *s, const block_copy *c,
                       const tsr_tile *tile) {
  const uint32_t last = b->dimensions - 1;
  const uint64_t size = b->field->cell_size, count = c->high[last] - c->low[last] + 1;
  const uint64_t missing = tile && tile->end > 0 ? tile->first : 0; /* cells of which the tile has no values */
  uint64_t from = 0, to = 0;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    from += (c->low[d] - s->start[d]) * b->box.tile_stride[d];
    to += (c->low[d] - out->low[d]) * out->stride[d];
  }
  uint64_t row[TSR_MAX_DIMENSIONS];
  memcpy(row, c->low, b->dimensions * sizeof *row);
  while (true) {
    if (!tile) {
      fill_row(b, out->values + to * size, count);
      if (out->states) memset(out->states + to, c->written ? TSR_CELL_NULL : TSR_CELL_UNWRITTEN, count);
    } else {
      copy_row(b, tile->values + (from - missing) * size, b->box.tile_stride[last], out->values + to * size, count,
               tile->validity);
      if (tile->validity)
        null_row(b, tile->validity + (from - missing), b->box.tile_stride[last], out->values + to * size, count);
      if (out->states)
        set_states(tile->validity ? tile->validity + (from - missing) : NULL, b->box.tile_stride[last],
                   out->states + to, count);
    }
    uint32_t d = last;
    while (d-- > 0) {
      if (row[d]++ < c->high[d]) {
        from += b->box.tile_stride[d];
        to += out->stride[d];
        break;
      }
      const uint64_t back = c->high[d] - c->low[d];
      row[d] = c->low[d];
      from -= back * b->box.tile_stride[d];
      to -= back * out->stride[d];
    }
    if (d == UINT32_MAX) return;
  }
}

static const tsr_tile *tile_of(const block_read *b, const block_copy *c) {
  const tsr_tile_request *requests = (const tsr_tile_request *)(const void *)b->window.requests.data;
  return c->request == NO_TILE ? NULL : requests[c->request].tile;
}

static void write_copies(const block_read *b, const block_out *out, const space *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    const tsr_tile *tile = tile_of(b, &s->copies[i]);
    if (tile || s->copies[i].request == NO_TILE) write_copy(b, out, s, &s->copies[i], tile);
  } /* else the sink has written the cells */
  if (b->large) end_past_caches();
}

typedef struct block_sink { /* where the cells of a tile go while they are decoded */
  tsr_tile_sink base;
  const block_read *b; /* borrowed */
  const uint64_t *start, *low, *high; /* ordinals of the tile's first cell; of the requested cells, inclusive */
} block_sink;

/* Copies those of `count` cells of a tile, from cell `first` on, that are in the box. Cells are row-major. */
static int sink_cells(void *argument, uint64_t first, uint64_t count, const uint8_t *values, const uint8_t *validity,
                      tsr_error *error) {
  const block_sink *sink = argument;
  const block_read *b = sink->b;
  const block_out *out = &b->out;
  const uint32_t last = b->dimensions - 1;
  const uint64_t size = b->field->cell_size, *extent = b->grid->extent;
  const uint64_t low = sink->low[last] - sink->start[last], end = sink->high[last] - sink->start[last] + 1;
  for (uint64_t done = 0, row_end; done < count; done = row_end) {
    const uint64_t cell = first + done, column = cell % extent[last];
    const uint64_t from = TSR_MAX(column, low), to = TSR_MIN(column + (count - done), TSR_MIN(extent[last], end));
    uint64_t row = cell / extent[last], at = (sink->start[last] + from - out->low[last]) * out->stride[last];
    row_end = TSR_MIN(count, done + (extent[last] - column));
    bool within = from < to;
    for (uint32_t d = last; d-- > 0 && within; row /= extent[d]) {
      const uint64_t ordinal = sink->start[d] + row % extent[d];
      within = ordinal >= sink->low[d] && ordinal <= sink->high[d];
      at += (ordinal - out->low[d]) * out->stride[d];
    }
    if (!within) continue;
    const uint64_t begin = done + (from - column);
    const uint8_t *valid = validity ? validity + begin : NULL;
    copy_values(b, out->values + at * size, values + begin * size, to - from, valid);
    if (valid) null_row(b, valid, 1, out->values + at * size, to - from);
    if (out->states) set_states(valid, 1, out->states + at, to - from);
  }
  if (b->large) end_past_caches();
  return TSR_OK;
}

/* Passes the requested part of a space tile to `take`: the decoded tile if it has all of these cells, else a copy. */
static int give_space(block_read *b, const space *s, tsr_error *error) {
  const uint32_t n = b->dimensions;
  const uint64_t *low = s->start + n, *high = low + n, size = b->field->cell_size;
  const tsr_tile *tile = tile_of(b, &s->copies[0]);
  const uint64_t missing = tile && tile->end > 0 ? tile->first : 0;
  uint64_t stride[TSR_MAX_DIMENSIONS], cells = 1, from = 0, span = 1;
  for (uint32_t d = 0; d < n; d++) {
    from += (low[d] - s->start[d]) * b->box.tile_stride[d];
    span += (high[d] - low[d]) * b->box.tile_stride[d];
  }
  if (s->count == 1 && tile && b->box.tile_stride[n - 1] == 1 &&
      (!tile->validity || !memchr(tile->validity + (from - missing), 0, span))) {
    const tsr_block_tile part = {low, high, b->box.tile_stride, tile->values + (from - missing) * size, NULL};
    return b->take(b->argument, &part, error);
  }
  for (uint32_t d = n; d-- > 0; cells *= high[d] - low[d] + 1) stride[d] = cells;
  uint8_t *memory;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&b->memory, tsr__mul_sat(cells, size + 1), &memory, error));
  const block_out out = {memory, memory + cells * size, low, stride};
  const tsr_block_tile part = {low, high, stride, out.values, out.states};
  write_copies(b, &out, s);
  const int rc = b->take(b->argument, &part, error);
  tsr__free(memory);
  return rc;
}

/* Makes all copies of a space tile, on a worker thread. Space tiles do not overlap in `out`. */
static int write_space(void *argument, uint64_t index, tsr_error *error) {
  block_read *b = argument;
  if (b->take) return give_space(b, &b->window.spaces[index], error);
  write_copies(b, &b->out, &b->window.spaces[index]);
  return TSR_OK;
}

/* ---- Windows ----------------------------------------------------------------------------------------------------- */

/* Returns the dimension of rank k in tile order; the slowest has rank 0. */
static uint32_t dimension_at(const block_read *b, uint32_t k) {
  return b->grid->col_major_tiles ? b->dimensions - 1 - k : k;
}

static void advance(block_read *b) {
  for (uint32_t k = b->dimensions; k-- > 0;) {
    const uint32_t d = dimension_at(b, k);
    if (b->at[d]++ < b->box.high[d] / b->grid->extent[d]) return;
    b->at[d] = b->box.low[d] / b->grid->extent[d];
  }
  b->ended = true;
}

/* Returns the number, within a fragment, of the tile at b->at. */
static uint64_t tile_number(const block_read *b, const tsr_fragment *fragment) {
  uint64_t number = 0;
  for (uint32_t k = 0; k < b->dimensions; k++) {
    const uint32_t d = dimension_at(b, k);
    number = number * fragment->dense.tile_count[d] + (b->at[d] - fragment->dense.tile_low[d]);
  }
  return number;
}

/* Sets the copy's box to the intersection of low..high and low2..high2. Returns false if it is empty. Sets *all if it
 * is the whole of low..high. */
static bool meet(const block_read *b, const uint64_t *low, const uint64_t *high, const uint64_t *low2,
                 const uint64_t *high2, block_copy *c, bool *all) {
  *all = true;
  for (uint32_t d = 0; d < b->dimensions; d++) {
    c->low[d] = TSR_MAX(low[d], low2[d]);
    c->high[d] = TSR_MIN(high[d], high2[d]);
    if (c->low[d] > c->high[d]) return false;
    *all = *all && c->low[d] == low[d] && c->high[d] == high[d];
  }
  return true;
}

static int new_copy(block_read *b, block_copy *c, tsr_error *error) {
  uint64_t *memory;
  TSR_TRY(TSR_ARENA_RAW(&b->window.arena, 2 * b->dimensions, &memory, error));
  *c = (block_copy){.request = NO_TILE, .low = memory, .high = memory + b->dimensions};
  return TSR_OK;
}

static int request_tile(block_read *b, const tsr_plan_box *box, block_copy *c, uint64_t *cost, tsr_error *error) {
  const tsr_snapshot_fragment *f = &b->snapshot->fragments[box->fragment];
  const int64_t slot = f->slots[b->field_index];
  uint64_t bytes;
  c->written = true;
  if (slot < 0) return TSR_OK; /* the fragment lacks the attribute: fill values */
  tsr_tile_request request = {
      .fragment = f->fragment, .slot = (uint32_t)slot, .number = tile_number(b, f->fragment), .end = 1};
  for (uint32_t d = 0; d < b->dimensions; d++) {
    request.first += (c->low[d] - b->at[d] * b->grid->extent[d]) * b->box.tile_stride[d];
    request.end += (c->high[d] - b->at[d] * b->grid->extent[d]) * b->box.tile_stride[d];
  }
  TSR_TRY(tsr__tile_cost(b->snapshot->array, request.fragment, request.slot, request.number, &bytes, error));
  c->request = b->window.requests.size / sizeof request;
  *cost = tsr__add_sat(*cost, bytes);
  return tsr__buffer_append(&b->window.requests, &request, sizeof request, error);
}

/* Lets the cells of the only copy of a space tile be copied while they are decoded. */
static int add_sink(block_read *b, const space *s, tsr_error *error) {
  const block_copy *c = &s->copies[0];
  block_sink *sink;
  if (c->request == NO_TILE || b->take || b->grid->col_major_cells) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&b->window.arena, 1, &sink, error));
  *sink = (block_sink){{sink_cells, sink, b->once}, b, s->start, c->low, c->high};
  ((tsr_tile_request *)(void *)b->window.requests.data)[c->request].sink = &sink->base;
  return TSR_OK;
}

/* Plans the copies of the space tile at b->at. They are found newest first, until one covers the whole requested part,
 * and then reversed. */
static int plan_space(block_read *b, space *s, uint64_t *cost, tsr_error *error) {
  const uint32_t n = b->dimensions;
  TSR_TRY(TSR_ARENA_RAW(&b->window.arena, 3 * n, &s->start, error));
  uint64_t *low = s->start + n, *high = low + n;
  for (uint32_t d = 0; d < n; d++) {
    s->start[d] = b->at[d] * b->grid->extent[d];
    low[d] = TSR_MAX(s->start[d], b->box.low[d]);
    high[d] = TSR_MIN(tsr__add_sat(s->start[d], b->grid->extent[d] - 1), b->box.high[d]);
  }
  TSR_TRY(TSR_ARENA_ARRAY(&b->window.arena, b->plan.box_count + 1, &s->copies, error));
  s->count = 0;
  bool all = false;
  for (uint64_t i = b->plan.box_count; i-- > 0 && !all;) {
    const tsr_plan_box *box = &b->plan.boxes[i];
    block_copy *c = &s->copies[s->count];
    if (!c->low) TSR_TRY(new_copy(b, c, error));
    if (!meet(b, low, high, box->low, box->high, c, &all)) {
      all = false;
      continue;
    }
    TSR_TRY(request_tile(b, box, c, cost, error));
    s->count++;
  }
  if (all && s->count == 1) TSR_TRY(add_sink(b, s, error));
  if (!all) s->copies[s->count++] = (block_copy){.request = NO_TILE, .low = low, .high = high};
  for (uint32_t i = 0; i < s->count / 2; i++) {
    const block_copy c = s->copies[i];
    s->copies[i] = s->copies[s->count - 1 - i];
    s->copies[s->count - 1 - i] = c;
  }
  return TSR_OK;
}

/* Returns how many cells were decoded for a request. */
static uint64_t decoded_cells(const tsr_tile_request *r) {
  if (!r->decoded) return 0;
  if (!r->tile) return tsr__fragment_tile_cells(&r->fragment->metadata, r->number);
  return r->tile->decoded;
}

/* Makes the copies of a space tile with one decoded tile in memory at a time. */
static int copy_each(block_read *b, const block_out *out, const space *s, tsr_error *error) {
  tsr_tile_request *requests = (tsr_tile_request *)(void *)b->window.requests.data;
  for (uint32_t i = 0; i < s->count; i++) {
    const block_copy *c = &s->copies[i];
    tsr_tile_request *r = c->request == NO_TILE ? NULL : &requests[c->request];
    if (r) TSR_TRY(tsr__tiles_load(b->snapshot->array, b->threads, r, 1, &b->memory, error));
    write_copy(b, out, s, c, r ? r->tile : NULL);
    if (!r) continue;
    tsr__count(b->environment, TSR_COUNT_cells_decoded, decoded_cells(r));
    tsr__tile_return(r->tile, &b->memory);
  }
  if (b->large) end_past_caches();
  return TSR_OK;
}

/* Reads the only space tile of a window whose tiles do not fit into memory together. */
static int load_space(block_read *b, tsr_error *error) {
  const space *s = b->window.spaces;
  const uint64_t *low = s->start + b->dimensions, *high = low + b->dimensions, size = b->field->cell_size;
  uint64_t stride[TSR_MAX_DIMENSIONS], cells = 1;
  uint8_t *memory = NULL;
  block_out out = b->out;
  if (b->take) {
    for (uint32_t d = b->dimensions; d-- > 0; cells *= high[d] - low[d] + 1) stride[d] = cells;
    TSR_TRY(TSR_ALLOC_RAW_BYTES(&b->memory, tsr__mul_sat(cells, size + 1), &memory, error));
    out = (block_out){memory, memory + cells * size, low, stride};
  }
  int rc = copy_each(b, &out, s, error);
  const tsr_block_tile part = {low, high, stride, out.values, out.states};
  if (rc >= 0 && b->take) rc = b->take(b->argument, &part, error);
  tsr__free(memory);
  tsr__array_files_done(b->snapshot->array);
  return rc;
}

/* Reads the space tiles of the window, whose decoded tiles take `cost` bytes. */
static int load_window(block_read *b, uint64_t cost, tsr_error *error) {
  tsr_tile_request *requests = (tsr_tile_request *)(void *)b->window.requests.data;
  const uint64_t count = b->window.requests.size / sizeof *requests;
  if (b->window.count == 1 && count > 1 && cost > b->memory.limit / 2) return load_space(b, error);
  TSR_TRY(tsr__tiles_load(b->snapshot->array, b->threads, requests, count, &b->memory, error));
  uint64_t cells = 0;
  for (uint64_t i = 0; i < count; i++) cells += decoded_cells(&requests[i]);
  tsr__count(b->environment, TSR_COUNT_cells_decoded, cells);
  int rc = tsr__parallel_for(b->threads, b->window.count, write_space, b, error);
  for (uint64_t i = 0; i < count; i++) tsr__tile_return(requests[i].tile, &b->memory);
  tsr__array_files_done(b->snapshot->array);
  return rc;
}

/* Adds the space tile at b->at to the window. Returns 1; 0 if it is left to the next window, since the tiles would not
 * fit into memory together. */
static int add_space(block_read *b, uint64_t *cost, tsr_error *error) {
  const uint64_t requests = b->window.requests.size, before = *cost;
  TSR_TRY(plan_space(b, &b->window.spaces[b->window.count], cost, error));
  if (b->window.count > 0 && *cost > b->memory.limit / 2) {
    b->window.requests.size = requests;
    *cost = before;
    return 0;
  }
  b->window.count++;
  return 1;
}

/* Reads the next window: at least one space tile, more as the budget allows. */
static int read_window(block_read *b, tsr_error *error) {
  const tsr_array *array = b->snapshot->array;
  const bool sinks = !b->take && array->store->uses_descriptors && (b->once || array->uncached);
  const uint64_t tile_max = b->threads * (sinks ? READ_BLOCK_SINKS_FOR_A_THREAD : READ_BLOCK_TILES_FOR_A_THREAD),
                 budget = b->memory.limit / 4;
  uint64_t cost = 0;
  TSR_TRY(tsr__cancelled(&b->environment->memory, error));
  tsr__arena_reset(&b->window.arena);
  b->window.requests.size = 0;
  TSR_TRY(TSR_ARENA_ARRAY(&b->window.arena, tile_max, &b->window.spaces, error));
  b->window.count = 0;
  while (!b->ended && b->window.count < tile_max && cost <= budget) {
    const int added = add_space(b, &cost, error);
    if (added < 0) return added;
    if (added == 0) break;
    advance(b);
  }
  TSR_TRY(load_window(b, cost, error));
  tsr_work_done(b->environment, b->window.count);
  return TSR_OK;
}

/* ---- Single cells ------------------------------------------------------------------------------------------------ */

/* Copies the cells of a batch to their positions in the block. */
static int write_batch(block_read *b, tsr_reader *reader, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *values, *column;
  const tsr_schema *schema = b->snapshot->schema;
  const uint64_t size = b->field->cell_size;
  TSR_TRY(tsr_reader_column(reader, b->field_index, &values, error));
  tsr__arena_reset(&b->window.arena);
  uint64_t *to;
  TSR_TRY(TSR_ARENA_ARRAY(&b->window.arena, batch->count, &to, error));
  memset(to, 0, batch->count * sizeof *to);
  for (uint32_t d = 0; d < b->dimensions; d++) {
    const tsr_field *f = &schema->fields[d];
    TSR_TRY(tsr_reader_column(reader, d, &column, error));
    for (uint64_t r = 0; r < batch->count; r++) {
      const uint64_t i = column->constant ? 0 : batch->selection ? batch->selection[r] : batch->first + r;
      const uint64_t key = tsr__key(f->datatype, (const uint8_t *)column->values + i * f->cell_size);
      to[r] += (key - b->grid->low_key[d] - b->box.low[d]) * b->box.stride[d];
    }
  }
  for (uint64_t r = 0; r < batch->count; r++) {
    const uint64_t i = values->constant ? 0 : batch->selection ? batch->selection[r] : batch->first + r;
    const bool null = values->validity && !values->validity[i];
    if (b->out.states) b->out.states[to[r]] = null || values->unwritten ? TSR_CELL_NULL : TSR_CELL_VALUE;
    memcpy(b->out.values + to[r] * size, null ? b->field->fill : (const uint8_t *)values->values + i * size, size);
  }
  return TSR_OK;
}

static int read_cells(block_read *b, const tsr_ranges *ranges, tsr_error *error) {
  tsr_reader *reader = NULL;
  const tsr_batch *batch;
  const tsr_request request = {.dimensions = ranges, .memory_bytes = b->memory.limit, .threads = b->threads};
  uint64_t cells = 1;
  for (uint32_t d = 0; d < b->dimensions; d++) cells *= b->box.high[d] - b->box.low[d] + 1;
  fill_row(b, b->out.values, cells);
  if (b->out.states) memset(b->out.states, TSR_CELL_UNWRITTEN, cells);
  TSR_TRY(tsr_reader_open(b->snapshot, &reader, error));
  int rc = tsr_reader_start(reader, &request, error);
  while (rc >= 0 && (rc = tsr_reader_next(reader, &batch, error)) > 0)
    if (batch->written) rc = write_batch(b, reader, batch, error);
  tsr_reader_close(reader);
  return rc;
}

/* ---- Entry ------------------------------------------------------------------------------------------------------- */

int tsr_block_cells(const tsr_snapshot *snapshot, const tsr_interval *box, uint64_t *counts, uint64_t *cells,
                    tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_schema *schema = snapshot->schema;
  uint64_t product = 1;
  if (!schema->dense)
    return tsr__fail(error, TSR_ERROR, "array %s is sparse: only dense ones have blocks", snapshot->array->path);
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_field *f = &schema->fields[d];
    const uint64_t low = tsr__key(f->datatype, box[d].low), high = tsr__key(f->datatype, box[d].high);
    if (low > high || low < tsr__key(f->datatype, f->low) || high > tsr__key(f->datatype, f->high))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box is not within the domain", f->name);
    if (high - low == UINT64_MAX || !tsr__mul(product, high - low + 1, &product))
      return tsr__fail(error, TSR_TOOBIG, "the box has more than 2^64 cells");
    if (counts) counts[d] = high - low + 1;
  }
  *cells = product;
  return TSR_OK;
}

static int prepare(block_read *b, const tsr_interval *box, uint64_t size, tsr_ranges *ranges, tsr_range *range,
                   tsr_error *error) {
  const tsr_schema *schema = b->snapshot->schema;
  const uint32_t n = b->dimensions;
  uint64_t cells, bytes;
  uint64_t *memory;
  TSR_TRY(TSR_ARENA_RAW(&b->arena, 6 * n, &memory, error));
  b->box.low = memory;
  b->box.high = b->box.low + n;
  b->box.stride = b->box.high + n;
  b->box.tile_stride = b->box.stride + n;
  b->at = b->box.tile_stride + n;
  TSR_TRY(tsr_block_cells(b->snapshot, box, b->at + n, &cells, error));
  if (!b->take && (!tsr__mul(cells, b->field->cell_size, &bytes) || bytes != size))
    return tsr__fail(error, TSR_RANGE, "the block has %llu cells of %llu bytes, the memory %llu bytes",
                     (unsigned long long)cells, (unsigned long long)b->field->cell_size, (unsigned long long)size);
  for (uint32_t d = 0; d < n; d++) {
    const tsr_field *f = &schema->fields[d];
    b->box.low[d] = tsr__key(f->datatype, box[d].low) - b->grid->low_key[d];
    b->box.high[d] = tsr__key(f->datatype, box[d].high) - b->grid->low_key[d];
    b->at[d] = b->box.low[d] / b->grid->extent[d];
    range[d] = (tsr_range){.low = box[d].low, .high = box[d].high};
    ranges[d] = (tsr_ranges){.ranges = &range[d], .count = 1};
  }
  b->out.low = b->box.low;
  b->out.stride = b->box.stride;
  uint64_t out = 1, tile = 1;
  for (uint32_t i = n; i-- > 0; out *= b->box.high[i] - b->box.low[i] + 1) b->box.stride[i] = out;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t d = b->grid->col_major_cells ? i : n - 1 - i;
    b->box.tile_stride[d] = tile;
    tile *= b->grid->extent[d];
  }
  return TSR_OK;
}

static int read_block(block_read *b, const tsr_interval *box, uint64_t size, tsr_error *error) {
  tsr_ranges *ranges;
  tsr_range *range;
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, b->dimensions, &ranges, error));
  TSR_TRY(TSR_ARENA_ARRAY(&b->arena, b->dimensions, &range, error));
  TSR_TRY(prepare(b, box, size, ranges, range, error));
  TSR_TRY(tsr__plan_make(b->snapshot, ranges, &b->arena, &b->plan, error));
  if (b->plan.empty) b->plan.box_count = 0;
  for (uint64_t i = 0; i < b->plan.box_count; i++)
    if (b->plan.boxes[i].sparse) return b->take ? 0 : read_cells(b, ranges, error);
  uint64_t spaces = 1;
  for (uint32_t d = 0; d < b->dimensions; d++)
    spaces = tsr__mul_sat(spaces, b->box.high[d] / b->grid->extent[d] - b->box.low[d] / b->grid->extent[d] + 1);
  const uint64_t bytes = tsr__mul_sat(tsr__mul_sat(spaces, b->grid->tile_cells), b->field->cell_size);
  b->large = !b->take && size >= READ_BLOCK_LARGE;
  b->once = bytes > tsr__cache_limit(b->snapshot->array->cache);
  tsr__work_more(b->environment, spaces);
  while (!b->ended) TSR_TRY(read_window(b, error));
  return 1;
}

int tsr_block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                   unsigned threads, void *out, uint64_t size, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__block_read(snapshot, field, box, memory_bytes, threads, out, size, NULL, error);
}

int tsr_block_read_nulls(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                         unsigned threads, void *out, uint64_t size, uint8_t *nulls, tsr_error *error) {
  TSR_OWN_ERROR(error);
  TSR_TRY(tsr__block_read(snapshot, field, box, memory_bytes, threads, out, size, nulls, error));
  const uint64_t cells = size / snapshot->schema->fields[field].cell_size;
  for (uint64_t i = 0; i < cells; i++) nulls[i] = nulls[i] != TSR_CELL_VALUE;
  return TSR_OK;
}

/* Reads a box into `out` or for `take`; the other one is NULL. Returns 0 if there are single cells, which `take` cannot
 * have. */
static int run(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes, unsigned threads,
               const block_out *out, uint64_t size, tsr_block_take take, void *argument, tsr_error *error) {
  tsr_array *array = snapshot->array;
  const uint32_t fields = snapshot->schema->dimension_count + snapshot->schema->attribute_count;
  if (field >= fields)
    return tsr__fail(error, TSR_ERROR, "array %s: there is no field %u, the schema has %u", array->path, field, fields);
  block_read b = {.snapshot = snapshot,
                  .environment = array->environment,
                  .grid = &snapshot->grid,
                  .field = &snapshot->schema->fields[field],
                  .field_index = field,
                  .dimensions = snapshot->schema->dimension_count,
                  .take = take,
                  .argument = argument};
  if (out) b.out = *out;
  if (b.field->is_dimension || !b.field->cell_size)
    return tsr__fail(error, TSR_ERROR, "array %s: '%s' is not an attribute of fixed length", array->path,
                     b.field->name);
  tsr__memory_init(&b.memory, &array->environment->memory, memory_bytes ? memory_bytes : READ_BLOCK_DEFAULT_MEMORY,
                   "memory_mb");
  tsr__arena_init(&b.arena, &b.memory);
  tsr__arena_init(&b.window.arena, &b.memory);
  b.window.requests.memory = &b.memory;
  b.threads = TSR_MAX(1, threads && !array->environment->single_threaded ? threads : array->threads);
  tsr_work work;
  tsr_work_begin(b.environment, &work, "read", array->path, 0);
  const int rc = read_block(&b, box, size, error);
  tsr_work_end(b.environment, &work);
  tsr__buffer_release(&b.window.requests);
  tsr__arena_release(&b.window.arena);
  tsr__arena_release(&b.arena);
  return rc < 0 ? tsr__wrap(error, "%s", array->path) : rc;
}

int tsr__block_read(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, void *out, uint64_t size, uint8_t *states, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const block_out to = {.values = out, .states = states};
  const int rc = run(snapshot, field, box, memory_bytes, threads, &to, size, NULL, NULL, error);
  return rc < 0 ? rc : TSR_OK;
}

int tsr__block_each(tsr_snapshot *snapshot, uint32_t field, const tsr_interval *box, uint64_t memory_bytes,
                    unsigned threads, tsr_block_take take, void *argument, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return run(snapshot, field, box, memory_bytes, threads, NULL, 0, take, argument, error);
}
