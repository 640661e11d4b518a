/* made_array.h: makes arrays with cells for the tests of core/read. The schema has up to three dimensions (int32, the first
 * may be ASCII) and the attributes "a" (int32) and "s" (nullable UTF8, derived from the value of a). The fragments' metadata
 * are structures in memory, their tiles lie, without filters, in a store in memory. */
#ifndef MADE_ARRAY_H
#define MADE_ARRAY_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "store_memory.h"
#include "model/datatype.h"
#include "format/fragment_metadata.h"
#include "array/array.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "counted_memory.h"

#define MADE_DIMENSIONS 3
#define MADE_ATTRIBUTES 2
#define MADE_TILE       512u /* the maximum number of cells in a tile */

/* ---- The array ---- */
typedef struct made_array {
  counted_memory memory;
  tsr_environment *environment;
  tsr_array array;
  tsr_field fields[MADE_DIMENSIONS + MADE_ATTRIBUTES];
  tsr_schema schema;
  tsr_snapshot snapshot;
  tsr_snapshot_fragment fragments[64];
  tsr_condition conditions[4];
  const tsr_condition *condition_list[4];
  int64_t slots[MADE_DIMENSIONS + MADE_ATTRIBUTES];
  char names[MADE_DIMENSIONS][2];
  uint64_t chunk; /* bytes of a chunk, a multiple of the cell size; 0: each tile is one chunk */
  tsr_buffer parts[(MADE_ATTRIBUTES + 1 + MADE_DIMENSIONS + 3) * TSR_PART_COUNT]; /* of the fragment being made */
} made_array;

static int32_t made_fill = -5;

static inline void made_set32(uint8_t *to, int32_t value) { tsr__store32(to, (uint32_t)value); }

/* Opens an array. If `text` is set, the first dimension is a string. The domain of each int32 dimension is low..high; a
 * dense array has tiles of `extents`. */
static inline void made_open(made_array *m, bool dense, uint32_t dimensions, bool text, int32_t low, int32_t high,
                             const int32_t *extents) {
  memset(m, 0, sizeof *m);
  m->memory.left = -1;
  const tsr_environment_options options = {.reallocate = counted_reallocate, .reallocate_argument = &m->memory};
  assert_int_equal(tsr_environment_open(&options, &m->environment, NULL), TSR_OK);
  tsr_array *a = &m->array;
  a->environment = m->environment;
  tsr__memory_init(&a->memory, &m->environment->memory, UINT64_MAX, "array");
  assert_int_equal(tsr__store_memory_open(&a->memory, "made", &a->store, NULL), TSR_OK);
  assert_int_equal(tsr__store_make_directory(a->store, "__fragments", NULL), TSR_OK);
  assert_int_equal(tsr__cache_open(&a->memory, 1 << 20, &a->cache, NULL), TSR_OK);
  a->path = "made";
  a->threads = 2;
  for (uint32_t d = 0; d < dimensions; d++) {
    tsr_field *f = &m->fields[d];
    m->names[d][0] = (char)('x' + d);
    *f = (tsr_field){.name = m->names[d], .is_dimension = true, .datatype = TSR_INT32, .values_per_cell = 1};
    f->cell_size = 4;
    f->has_domain = f->has_extent = true;
    made_set32(f->low, low);
    made_set32(f->high, high);
    made_set32(f->extent, extents ? extents[d] : 1);
  }
  if (text)
    m->fields[0] =
        (tsr_field){.name = m->names[0], .is_dimension = true, .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  tsr_field *attributes = m->fields + dimensions;
  attributes[0] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4};
  attributes[0].fill = (uint8_t *)&made_fill;
  attributes[0].fill_size = 4;
  attributes[1] = (tsr_field){.name = "s", .datatype = TSR_UTF8, .values_per_cell = TSR_VARIABLE, .nullable = true};
  attributes[1].fill = (uint8_t *)"none";
  attributes[1].fill_size = 4;
  m->schema = (tsr_schema){.dimension_count = dimensions,
                           .attribute_count = MADE_ATTRIBUTES,
                           .fields = m->fields,
                           .capacity = 8,
                           .dense = dense,
                           .version = 22};
  m->schema.coords_filters.max_chunk_size = m->schema.offsets_filters.max_chunk_size = 65536;
  m->schema.validity_filters.max_chunk_size = 65536;
  for (uint32_t f = 0; f < dimensions + MADE_ATTRIBUTES; f++) m->fields[f].filters.max_chunk_size = 65536;

  tsr_snapshot *s = &m->snapshot;
  s->array = a;
  s->references = 1;
  s->as_of = s->deleted_until = 1000;
  s->schema = &m->schema;
  s->fragments = m->fragments;
  tsr__arena_init(&s->arena, &a->memory);
  s->unwritten_row_base = -1;
}

static inline void made_finish_grid(made_array *m) {
  assert_int_equal(tsr__grid_make(&m->schema, &m->snapshot.arena, &m->snapshot.grid, NULL), TSR_OK);
}

static inline void made_close(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++)
    tsr__array_fragment_drop(&m->array, m->snapshot.fragments[f].fragment);
  tsr__arena_release(&m->snapshot.arena);
  tsr__cache_close(m->array.cache);
  tsr__store_close(m->array.store);
  assert_int_equal(m->array.memory.used, 0);
  tsr_environment_close(m->environment);
  assert_int_equal(m->memory.blocks, 0);
}

/* ---- Fragments ---- */
typedef struct made_cell {
  int32_t at[MADE_DIMENSIONS];
  char text[8]; /* the coordinate in place of at[0], if the first dimension is a string */
  int32_t value; /* of a; s is null if it is divisible by 5, else a letter for value % 7, repeated value % 4 times */
  uint64_t time, deleted;
} made_cell;

static inline void *made_array_of(tsr_fragment *f, uint64_t count, uint64_t size) {
  void *memory;
  assert_int_equal(tsr__arena_array(&f->metadata.arena, count, size, &memory, NULL), TSR_OK);
  return memory;
}

/* Adds a fragment of `tiles` tiles without data, with the time range start..end. */
static inline tsr_fragment *made_fragment(made_array *m, uint64_t start, uint64_t end, uint64_t tiles, bool dense,
                                          bool times, bool deletes) {
  const uint32_t n = m->schema.dimension_count;
  void *memory;
  char name[64];
  snprintf(name, sizeof name, "__%d_%d_%u_22", (int)start, (int)end, (unsigned)m->snapshot.fragment_count);
  assert_int_equal(tsr__alloc_zero(&m->array.memory, sizeof(tsr_fragment) + sizeof name, &memory, NULL), TSR_OK);
  tsr_fragment *f = memory;
  f->name = memcpy(f + 1, name, sizeof name);
  f->references = 1;
  f->id = m->environment->next_fragment++;
  f->parsed.start = start;
  f->parsed.end = end;
  tsr_fragment_metadata *d = &f->metadata;
  tsr__arena_init(&d->arena, &m->array.memory);
  d->version = 22;
  d->schema = &m->schema;
  d->schema_name = "schema";
  d->dense = dense;
  d->tile_count = d->sparse_tile_count = tiles;
  d->has_times = times;
  d->has_delete_metadata = deletes;
  d->slot_count = MADE_ATTRIBUTES + 1 + n + times + 2 * deletes;
  d->slots = made_array_of(f, d->slot_count, sizeof(tsr_slot));
  for (uint32_t s = 0; s < d->slot_count; s++) {
    d->slots[s].present = s < MADE_ATTRIBUTES || (s > MADE_ATTRIBUTES && (!dense || s > MADE_ATTRIBUTES + n));
    if (!d->slots[s].present) continue;
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) d->slots[s].offsets[p] = made_array_of(f, tiles + 1, 8);
    d->slots[s].var_sizes = made_array_of(f, tiles, 8);
  }
  d->non_empty_domain = made_array_of(f, n, sizeof(tsr_interval));
  f->files = made_array_of(f, (uint64_t)d->slot_count * TSR_PART_COUNT + 1, sizeof(void *));
  char path[96];
  snprintf(path, sizeof path, "__fragments/%s", name);
  assert_int_equal(tsr__store_make_directory(m->array.store, path, NULL), TSR_OK);
  tsr_snapshot_fragment *sf = &m->fragments[m->snapshot.fragment_count++];
  *sf = (tsr_snapshot_fragment){.fragment = f, .slots = m->slots, .time = start};
  sf->cut = start < m->snapshot.since || end > m->snapshot.as_of;
  for (uint32_t i = 0; i < n; i++) m->slots[i] = dense ? -1 : MADE_ATTRIBUTES + 1 + (int64_t)i;
  for (uint32_t i = 0; i < MADE_ATTRIBUTES; i++) m->slots[n + i] = i;
  assert_int_equal(tsr__environment_rows(m->environment, "made", f->name, tiles << 32, &f->row_base, NULL), TSR_OK);
  return f;
}

/* Appends one part of tile `number` of a slot, in chunks of m->chunk bytes. Tiles are added in order. */
static inline void made_part(made_array *m, tsr_fragment *f, uint32_t slot, tsr_part_kind part, uint64_t number,
                             const void *bytes, uint64_t size) {
  tsr_buffer *b = &m->parts[slot * TSR_PART_COUNT + part];
  b->memory = &m->array.memory;
  const uint64_t chunk = m->chunk && size ? m->chunk : TSR_MAX(1, size), chunks = size ? (size + chunk - 1) / chunk : 1;
  assert_int_equal(tsr__buffer_append_u64(b, chunks, NULL), TSR_OK);
  for (uint64_t i = 0; i < chunks; i++) {
    const uint64_t here = TSR_MIN(chunk, size - i * chunk);
    assert_int_equal(tsr__buffer_append_u32(b, (uint32_t)here, NULL), TSR_OK);
    assert_int_equal(tsr__buffer_append_u32(b, (uint32_t)here, NULL), TSR_OK);
    assert_int_equal(tsr__buffer_append_u32(b, 0, NULL), TSR_OK);
    assert_int_equal(tsr__buffer_append(b, (const uint8_t *)bytes + i * chunk, here, NULL), TSR_OK);
  }
  f->metadata.slots[slot].file_size[part] = f->metadata.slots[slot].offsets[part][number + 1] = b->size;
}

/* Writes the parts to the fragment's files. */
static inline void made_flush(made_array *m, tsr_fragment *f) {
  for (uint32_t i = 0; i < f->metadata.slot_count * TSR_PART_COUNT; i++) {
    char path[160];
    char *name;
    tsr_file *file;
    tsr_arena arena;
    if (m->parts[i].size == 0) continue;
    tsr__arena_init(&arena, &m->array.memory);
    assert_int_equal(tsr__fragment_file_name(&f->metadata, i / TSR_PART_COUNT, i % TSR_PART_COUNT, &arena, &name, NULL),
                     TSR_OK);
    snprintf(path, sizeof path, "__fragments/%s/%s", f->name, name);
    assert_int_equal(tsr__store_create_exclusive(m->array.store, path, &file, NULL), TSR_OK);
    assert_int_equal(tsr__store_append(file, m->parts[i].data, m->parts[i].size, NULL), TSR_OK);
    tsr__store_close_file(file);
    tsr__arena_release(&arena);
    tsr__buffer_release(&m->parts[i]);
  }
}

static inline uint64_t made_string(int32_t value, char *out) {
  const uint64_t n = (uint64_t)(value % 4 + 4) % 4;
  memset(out, 'a' + (value % 7 + 7) % 7, n);
  return n;
}
static inline bool made_null(int32_t value) { return value % 5 == 0; }

/* Appends the attributes of a tile. */
static inline void made_attributes(made_array *m, tsr_fragment *f, uint64_t number, const int32_t *values,
                                   uint64_t count) {
  uint64_t *offsets = calloc(count, 8), size = 0;
  char *bytes = calloc(count, 4);
  uint8_t *validity = calloc(count, 1);
  for (uint64_t i = 0; i < count; i++) {
    offsets[i] = size;
    validity[i] = !made_null(values[i]);
    size += made_string(values[i], bytes + size);
  }
  made_part(m, f, 0, TSR_PART_FIXED, number, values, count * 4);
  made_part(m, f, 1, TSR_PART_FIXED, number, offsets, count * 8);
  made_part(m, f, 1, TSR_PART_VARIABLE, number, bytes, size);
  made_part(m, f, 1, TSR_PART_VALIDITY, number, validity, count);
  f->metadata.slots[1].var_sizes[number] = size;
  free(offsets);
  free(bytes);
  free(validity);
}

/* Adds a sparse fragment of these cells, `capacity` in each tile. Its R-tree has one level. */
static inline tsr_fragment *made_sparse(made_array *m, uint64_t start, uint64_t end, const made_cell *cells,
                                        uint64_t count, bool times, bool deletes) {
  const uint32_t n = m->schema.dimension_count;
  const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
  const uint64_t capacity = m->schema.capacity, tiles = (count + capacity - 1) / capacity;
  tsr_fragment *f = made_fragment(m, start, end, tiles, false, times, deletes);
  tsr_fragment_metadata *d = &f->metadata;
  d->last_tile_cells = count - (tiles - 1) * capacity;
  f->cells_per_tile = capacity;
  tsr_rtree *rtree = d->rtree = made_array_of(f, 1, sizeof(tsr_rtree));
  *rtree = (tsr_rtree){.dimensions = n, .fanout = 10, .levels = 1};
  rtree->counts = made_array_of(f, 1, 8);
  rtree->counts[0] = tiles;
  rtree->keys = made_array_of(f, 1, sizeof(uint64_t *));
  rtree->keys[0] = made_array_of(f, tiles * n * 2, 8);
  if (text) {
    rtree->sizes = made_array_of(f, 1, sizeof(uint64_t *));
    rtree->sizes[0] = made_array_of(f, tiles * n * 2, 8);
    rtree->text = made_array_of(f, tiles * 16 + 16, 1);
  }
  for (uint64_t t = 0; t < tiles; t++) {
    const made_cell *c = cells + t * capacity;
    const uint64_t here = TSR_MIN(capacity, count - t * capacity);
    int32_t values[MADE_TILE], column[MADE_TILE];
    uint64_t system_column[MADE_TILE];
    assert_true(here <= MADE_TILE);
    for (uint64_t i = 0; i < here; i++) values[i] = c[i].value;
    made_attributes(m, f, t, values, here);
    for (uint32_t k = 0; k < n; k++) {
      const uint32_t slot = MADE_ATTRIBUTES + 1 + k;
      uint64_t *keys = rtree->keys[0] + (t * n + k) * 2;
      if (k == 0 && text) {
        char bytes[MADE_TILE * 8];
        uint64_t size = 0, *sizes = rtree->sizes[0] + t * n * 2, lowest = 0, highest = 0;
        for (uint64_t i = 0; i < here; i++) {
          system_column[i] = size;
          memcpy(bytes + size, c[i].text, strlen(c[i].text));
          size += strlen(c[i].text);
          if (strcmp(c[i].text, c[lowest].text) < 0) lowest = i;
          if (strcmp(c[i].text, c[highest].text) > 0) highest = i;
        }
        made_part(m, f, slot, TSR_PART_FIXED, t, system_column, here * 8);
        made_part(m, f, slot, TSR_PART_VARIABLE, t, bytes, size);
        d->slots[slot].var_sizes[t] = size;
        keys[0] = t * 16;
        keys[1] = t * 16 + 8;
        memcpy(rtree->text + keys[0], c[lowest].text, 8);
        memcpy(rtree->text + keys[1], c[highest].text, 8);
        sizes[0] = strlen(c[lowest].text);
        sizes[1] = strlen(c[highest].text);
        tsr_interval *whole = &d->non_empty_domain[0];
        if (t == 0 || strcmp(c[lowest].text, (char *)whole->low_text) < 0) {
          whole->low_text = rtree->text + keys[0];
          whole->low_size = sizes[0];
        }
        if (t == 0 || strcmp(c[highest].text, (char *)whole->high_text) > 0) {
          whole->high_text = rtree->text + keys[1];
          whole->high_size = sizes[1];
        }
        continue;
      }
      int32_t low = INT32_MAX, high = INT32_MIN;
      for (uint64_t i = 0; i < here; i++) {
        column[i] = c[i].at[k];
        low = TSR_MIN(low, column[i]);
        high = TSR_MAX(high, column[i]);
      }
      made_part(m, f, slot, TSR_PART_FIXED, t, column, here * 4);
      keys[0] = tsr__key(TSR_INT32, &low);
      keys[1] = tsr__key(TSR_INT32, &high);
      tsr_interval *whole = &d->non_empty_domain[k];
      if (t == 0 || low < (int32_t)tsr__load32(whole->low)) made_set32(whole->low, low);
      if (t == 0 || high > (int32_t)tsr__load32(whole->high)) made_set32(whole->high, high);
    }
    uint32_t slot = MADE_ATTRIBUTES + 1 + n;
    for (uint64_t i = 0; i < here; i++) system_column[i] = c[i].time;
    if (times) made_part(m, f, slot++, TSR_PART_FIXED, t, system_column, here * 8);
    for (uint64_t i = 0; i < here; i++) system_column[i] = c[i].deleted;
    if (deletes) made_part(m, f, slot++, TSR_PART_FIXED, t, system_column, here * 8);
    for (uint64_t i = 0; i < here; i++) system_column[i] = 0;
    if (deletes) made_part(m, f, slot, TSR_PART_FIXED, t, system_column, here * 8);
  }
  made_flush(m, f);
  return f;
}

/* Adds a dense fragment with the box low..high, in ordinals; value() returns the `a` of a cell from its ordinals. */
static inline tsr_fragment *made_dense(made_array *m, uint64_t start, const uint64_t *low, const uint64_t *high,
                                       int32_t (*value)(uint64_t start, const uint64_t *ordinals)) {
  const tsr_grid *grid = &m->snapshot.grid;
  const uint32_t n = grid->dimensions;
  uint64_t first[MADE_DIMENSIONS], counts[MADE_DIMENSIONS], tiles = 1;
  for (uint32_t d = 0; d < n; d++) {
    first[d] = low[d] / grid->extent[d];
    counts[d] = high[d] / grid->extent[d] - first[d] + 1;
    tiles *= counts[d];
  }
  tsr_fragment *f = made_fragment(m, start, start, tiles, true, false, false);
  f->dense.grid = *grid;
  f->cells_per_tile = f->metadata.last_tile_cells = grid->tile_cells;
  uint64_t *box = made_array_of(f, 4 * n, 8);
  f->dense.box_low = box;
  f->dense.box_high = box + n;
  m->fragments[m->snapshot.fragment_count - 1].box_low = f->dense.box_low;
  m->fragments[m->snapshot.fragment_count - 1].box_high = f->dense.box_high;
  f->dense.tile_low = box + 2 * n;
  f->dense.tile_count = box + 3 * n;
  for (uint32_t d = 0; d < n; d++) {
    box[d] = low[d];
    box[n + d] = high[d];
    box[2 * n + d] = first[d];
    box[3 * n + d] = counts[d];
    made_set32(f->metadata.non_empty_domain[d].low, (int32_t)(tsr__load32(m->fields[d].low) + low[d]));
    made_set32(f->metadata.non_empty_domain[d].high, (int32_t)(tsr__load32(m->fields[d].low) + high[d]));
  }
  int32_t *values = calloc(grid->tile_cells, 4);
  for (uint64_t t = 0; t < tiles; t++) {
    uint64_t at[MADE_DIMENSIONS], rest = t;
    for (uint32_t k = n; k-- > 0;) { /* the last dimension varies fastest */
      const uint32_t d = grid->col_major_tiles ? n - 1 - k : k;
      at[d] = first[d] + rest % counts[d];
      rest /= counts[d];
    }
    for (uint64_t c = 0; c < grid->tile_cells; c++) {
      uint64_t ordinals[MADE_DIMENSIONS] = {0};
      bool inside = true;
      rest = c;
      for (uint32_t k = n; k-- > 0;) {
        const uint32_t d = grid->col_major_cells ? n - 1 - k : k;
        ordinals[d] = at[d] * grid->extent[d] + rest % grid->extent[d];
        rest /= grid->extent[d];
        inside &= ordinals[d] >= low[d] && ordinals[d] <= high[d];
      }
      values[c] = inside ? value(start, ordinals) : 0;
    }
    made_attributes(m, f, t, values, grid->tile_cells);
  }
  free(values);
  made_flush(m, f);
  return f;
}

/* Finishes a dense array: sets its non-empty domain to the union of the fragments' boxes. */
static inline void made_finish_dense(made_array *m) {
  tsr_snapshot *s = &m->snapshot;
  const uint32_t n = s->grid.dimensions;
  void *memory;
  assert_int_equal(tsr__arena_array(&s->arena, 2 * n, 8, &memory, NULL), TSR_OK);
  s->domain.box_low = memory;
  s->domain.box_high = s->domain.box_low + n;
  for (uint64_t f = 0; f < s->fragment_count; f++)
    for (uint32_t d = 0; d < n; d++) {
      const tsr_interval *i = &s->fragments[f].fragment->metadata.non_empty_domain[d];
      const uint64_t low = tsr__key(TSR_INT32, i->low) - s->grid.low_key[d],
                     high = tsr__key(TSR_INT32, i->high) - s->grid.low_key[d];
      s->domain.box_low[d] = f ? TSR_MIN(s->domain.box_low[d], low) : low;
      s->domain.box_high[d] = f ? TSR_MAX(s->domain.box_high[d], high) : high;
    }
  s->domain.exists = s->fragment_count > 0;
}

/* ---- Requests and rows ---- */
#define MADE_RANGES 4 /* the maximum number of ranges of one dimension */
typedef struct made_request {
  tsr_ranges dimensions[MADE_DIMENSIONS];
  tsr_range ranges[MADE_DIMENSIONS][MADE_RANGES];
  int32_t low[MADE_DIMENSIONS][MADE_RANGES], high[MADE_DIMENSIONS][MADE_RANGES];
  char texts[2 * MADE_RANGES][8];
} made_request;

static uint32_t made_random_state = 1;
static inline uint32_t made_random(uint32_t below) { /* the same numbers on all platforms */
  made_random_state = made_random_state * 1664525u + 1013904223u;
  return (made_random_state >> 8) % below;
}

/* ---- Random arrays of two dimensions ---- */
static inline int32_t made_value(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)(start * 100 + ordinals[0] * 20 + ordinals[1]);
}

/* Makes a dense array with the domain 0 to side - 1 and up to three fragments with random boxes, without statistics. */
static inline void made_random_dense(made_array *m, int32_t side,
                                     int32_t (*value)(uint64_t start, const uint64_t *ordinals)) {
  const int32_t extents[3] = {1 + (int32_t)made_random(6), 1 + (int32_t)made_random(6)};
  made_open(m, true, 2, false, 0, side - 1, extents);
  m->schema.cell_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
  m->schema.tile_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
  m->chunk = 8 * made_random(5);
  made_finish_grid(m);
  for (uint64_t f = 0, fragments = 1 + made_random(3); f < fragments; f++) {
    uint64_t low[2], high[2];
    for (uint32_t d = 0; d < 2; d++) {
      low[d] = made_random(16);
      high[d] = low[d] + made_random((uint32_t)side - (uint32_t)low[d]);
    }
    made_dense(m, f + 1, low, high, value);
  }
  made_finish_dense(m);
}

/* Adds up to three fragments to a sparse array: each has about two thirds of 60 cells, which lie `across` in a row. */
static inline void made_random_sparse(made_array *m, bool text, int32_t across) {
  for (uint64_t f = 0, fragments = 1 + made_random(3); f < fragments; f++) {
    made_cell cells[60];
    const int32_t from = (int32_t)made_random(20);
    uint64_t count = 0;
    for (int32_t i = 0; i < 60; i++) {
      if (made_random(3) == 0) continue;
      const int32_t x = from + i / across;
      made_cell *c = &cells[count++];
      *c = (made_cell){.at = {x, i % across}, .value = (int32_t)(f * 100) + i};
      if (text) snprintf(c->text, sizeof c->text, "%c%c", 'a' + x / 8, 'a' + x % 8);
    }
    if (count > 0) made_sparse(m, f + 1, f + 1, cells, count, false, false);
  }
}

/* Gives a fragment the statistics of `a` for each tile, over all of the tile's cells. *sums receives the sums, which the
 * test may change. */
static inline const tsr_statistics *made_statistics(made_array *m, tsr_fragment *fragment, uint64_t **sums) {
  const uint64_t tiles = fragment->metadata.tile_count;
  int32_t *min = made_array_of(fragment, tiles, 4), *max = made_array_of(fragment, tiles, 4);
  tsr_memory memory;
  tsr__memory_init(&memory, &m->array.memory, UINT64_MAX, "test");
  *sums = made_array_of(fragment, tiles, 8);
  for (uint64_t t = 0; t < tiles; t++) {
    tsr_tile_request want = {.fragment = fragment, .slot = 0, .number = t};
    assert_int_equal(tsr__tiles_load(&m->array, 1, &want, 1, &memory, NULL), TSR_OK);
    min[t] = INT32_MAX, max[t] = INT32_MIN;
    for (uint64_t i = 0; i < want.tile->cells; i++) {
      const int32_t v = (int32_t)tsr__load32(want.tile->values + 4 * i);
      min[t] = TSR_MIN(min[t], v), max[t] = TSR_MAX(max[t], v);
      (*sums)[t] += (uint64_t)(int64_t)v;
    }
    tsr__tile_return(want.tile, &memory);
  }
  tsr_statistics *s = fragment->metadata.slots[0].statistics = made_array_of(fragment, 1, sizeof *s);
  *s = (tsr_statistics){.count = tiles, .value_size = 4, .sums = *sums};
  s->min = (const uint8_t *)min, s->max = (const uint8_t *)max;
  return s;
}

/* Makes a request of up to three random ranges within low..high in each int32 dimension, or of the whole dimension. */
static inline void made_random_request(made_request *r, uint32_t dimensions, bool text, int32_t low, int32_t high) {
  memset(r, 0, sizeof *r);
  for (uint32_t d = 0; d < dimensions; d++) {
    const uint64_t count = made_random(MADE_RANGES);
    r->dimensions[d] = (tsr_ranges){.ranges = r->ranges[d], .count = count, .all = count == 0};
    for (uint64_t i = 0; i < count; i++) {
      tsr_range *g = &r->ranges[d][i];
      if (d == 0 && text) {
        snprintf(r->texts[2 * i], 8, "%c", 'a' + (int)made_random(5));
        snprintf(r->texts[2 * i + 1], 8, "%c%c", 'a' + (int)made_random(5), 'a' + (int)made_random(5));
        *g = (tsr_range){.low = r->texts[2 * i], .high = r->texts[2 * i + 1], .low_size = 1, .high_size = 2};
        continue;
      }
      r->low[d][i] = low + (int32_t)made_random((uint32_t)(high - low + 1));
      r->high[d][i] = made_random(2) ? r->low[d][i] : r->low[d][i] + (int32_t)made_random(6);
      *g = (tsr_range){.low = &r->low[d][i], .high = &r->high[d][i]};
    }
  }
}

static inline bool made_asked(const made_request *r, uint32_t dimensions, bool text, const made_cell *c) {
  for (uint32_t d = 0; d < dimensions; d++) {
    bool in = r->dimensions[d].all;
    for (uint64_t i = 0; i < r->dimensions[d].count && i < MADE_RANGES; i++)
      in |= d == 0 && text ? strcmp(c->text, r->texts[2 * i]) >= 0 && strcmp(c->text, r->texts[2 * i + 1]) <= 0
                           : c->at[d] >= r->low[d][i] && c->at[d] <= r->high[d][i];
    if (!in) return false;
  }
  return true;
}

typedef struct made_row {
  made_cell cell;
  int64_t rowid;
  bool written, seen;
  uint64_t time;
} made_row;

static inline int made_by_rowid(const void *a, const void *b) {
  const int64_t x = ((const made_row *)a)->rowid, y = ((const made_row *)b)->rowid;
  return x < y ? -1 : x > y;
}

static inline void made_check_column(const tsr_column *c, uint64_t i, int32_t value, bool fill) {
  const uint64_t j = c->constant ? 0 : i;
  char expected[4];
  const uint64_t size = made_string(value, expected);
  if (fill) {
    assert_true(c->unwritten);
    return;
  }
  assert_non_null(c->validity);
  assert_int_equal(c->validity[j], !made_null(value));
  assert_int_equal(c->offsets[j + 1] - c->offsets[j], size);
  assert_memory_equal((const char *)c->values + c->offsets[j], expected, size);
}

/* Reads all cells of the reader into rows. Returns their number, or a negative code. */
static inline int64_t made_read(tsr_reader *reader, const made_array *m, made_row *rows, uint64_t room,
                                tsr_error *error) {
  const uint32_t n = m->schema.dimension_count;
  const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
  const tsr_batch *batch;
  uint64_t count = 0;
  int r;
  while ((r = tsr_reader_next(reader, &batch, error)) > 0) {
    const tsr_column *columns[MADE_DIMENSIONS + MADE_ATTRIBUTES];
    assert_true(batch->count > 0);
    for (uint32_t f = 0; f < n + MADE_ATTRIBUTES; f++)
      if ((r = tsr_reader_column(reader, f, &columns[f], error)) < 0) return r;
    for (uint64_t k = 0; k < batch->count; k++) {
      const uint64_t i = batch->selection ? batch->selection[k] : batch->first + k;
      assert_true(count < room);
      made_row *row = &rows[count++];
      memset(row, 0, sizeof *row);
      for (uint32_t d = 0; d < n; d++) {
        const tsr_column *c = columns[d];
        if (d == 0 && text) {
          memcpy(row->cell.text, (const char *)c->values + c->offsets[i], c->offsets[i + 1] - c->offsets[i]);
          continue;
        }
        row->cell.at[d] = (int32_t)tsr__load32((const uint8_t *)c->values + (c->constant ? 0 : 4 * i));
      }
      const tsr_column *a = columns[n];
      row->cell.value = (int32_t)tsr__load32((const uint8_t *)a->values + (a->constant ? 0 : 4 * i));
      row->written = batch->written;
      assert_int_equal(a->unwritten, !batch->written);
      made_check_column(columns[n + 1], i, row->cell.value, !batch->written);
      row->rowid = batch->rowids ? batch->rowids[i] : batch->row_base + (int64_t)i;
      row->time = batch->times ? batch->times[i] : batch->time;
    }
  }
  if (r < 0 && error && r != TSR_BUDGET) print_message("%s\n", error->message);
  return r < 0 ? r : (int64_t)count;
}

#endif
