/* fragment_test.h: writes fragment metadata of every version byte by byte, for a schema with three attributes (a int32, s
 * ASCII of variable size, n nullable int64) and two dimensions (x int32 from -10 to 9 with extent 5, y int32 or ASCII).
 */
#ifndef FRAGMENT_TEST_H
#define FRAGMENT_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "store_memory.h"
#include "format/fragment_metadata.h"

#define TILES    3
#define CAPACITY 10

typedef struct fixture {
  tsr_memory memory;
  tsr_arena arena;
  tsr_store *store;
  tsr_buffer out;
  uint64_t footer_at;
  tsr_field fields[5];
  tsr_schema schema;
  char *looked_for; /* the name of the schema that the decoder looked up last */
} fixture;

static inline void set32(uint8_t *to, int32_t value) { tsr__store32(to, (uint32_t)value); }

static int setup(void **state) {
  static fixture f;
  f = (fixture){0};
  tsr__memory_init_root(&f.memory, NULL, NULL);
  tsr__arena_init(&f.arena, &f.memory);
  assert_int_equal(tsr__store_memory_open(&f.memory, "test", &f.store, NULL), TSR_OK);
  f.out = (tsr_buffer){.memory = &f.memory};
  for (int i = 0; i < 2; i++) {
    tsr_field *dimension = &f.fields[i];
    *dimension = (tsr_field){.name = i ? "y" : "x", .is_dimension = true, .datatype = TSR_INT32, .values_per_cell = 1};
    dimension->cell_size = 4;
    dimension->has_domain = dimension->has_extent = true;
    set32(dimension->low, -10);
    set32(dimension->high, 9);
    set32(dimension->extent, 5);
  }
  f.fields[2] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4};
  f.fields[3] = (tsr_field){.name = "s", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  f.fields[4] = (tsr_field){.name = "n", .datatype = TSR_INT64, .values_per_cell = 1, .cell_size = 8};
  f.schema = (tsr_schema){.dimension_count = 2, .attribute_count = 3, .fields = f.fields, .capacity = CAPACITY};
  f.schema.coords_filters.max_chunk_size = f.schema.offsets_filters.max_chunk_size = 65536;
  f.schema.validity_filters.max_chunk_size = 65536;
  for (int i = 0; i < 5; i++) f.fields[i].filters.max_chunk_size = 65536;
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  tsr__arena_release(&f->arena);
  tsr__buffer_release(&f->out);
  tsr__free(f->looked_for);
  tsr__store_close(f->store);
  assert_int_equal(f->memory.used, 0);
  return 0;
}

static int find(void *argument, const char *name, const tsr_schema **schema, tsr_error *error) {
  fixture *f = argument;
  tsr__free(f->looked_for);
  f->looked_for = NULL;
  TSR_TRY(tsr__alloc(&f->memory, strlen(name) + 1, (void **)&f->looked_for, error));
  strcpy(f->looked_for, name);
  *schema = &f->schema;
  return TSR_OK;
}

static inline void text_y(fixture *f) {
  f->fields[1].datatype = TSR_ASCII;
  f->fields[1].values_per_cell = TSR_VARIABLE;
  f->fields[1].cell_size = 0;
  f->fields[1].has_domain = f->fields[1].has_extent = false;
}

static inline void put(tsr_buffer *out, const void *bytes, uint64_t size) {
  assert_int_equal(tsr__buffer_append(out, bytes, size, NULL), TSR_OK);
}
static inline void put8(tsr_buffer *out, uint8_t value) { put(out, &value, 1); }
static inline void put32(tsr_buffer *out, uint32_t value) { put(out, &value, 4); }
static inline void put64(tsr_buffer *out, uint64_t value) { put(out, &value, 8); }

/* Appends a generic tile without filters. Returns its offset. */
static inline uint64_t put_generic(tsr_buffer *out, uint32_t version, const tsr_buffer *content) {
  uint64_t at = out->size;
  put32(out, version);
  put64(out, 8 + 12 + content->size);
  put64(out, content->size);
  put8(out, TSR_CHAR);
  put64(out, 1);
  put8(out, 0);
  put32(out, 8);
  put32(out, 65536);
  put32(out, 0);
  put64(out, 1);
  put32(out, (uint32_t)content->size);
  put32(out, (uint32_t)content->size);
  put32(out, 0);
  put(out, content->data, content->size);
  return at;
}

static inline void put_box(fixture *f, tsr_buffer *out) {
  put32(out, (uint32_t)-10);
  put32(out, (uint32_t)-1);
  if (f->fields[1].values_per_cell == TSR_VARIABLE) {
    put64(out, 5);
    put64(out, 2);
    put(out, "abccc", 5);
  } else {
    put32(out, 0);
    put32(out, 4);
  }
}

static inline uint64_t put_list(tsr_buffer *out, uint32_t version, uint64_t count, uint64_t first, uint64_t step) {
  tsr_buffer content = {.memory = out->memory};
  put64(&content, count);
  for (uint64_t i = 0; i < count; i++) put64(&content, first + i * step);
  uint64_t at = put_generic(out, version, &content);
  tsr__buffer_release(&content);
  return at;
}

typedef struct shape { /* the metadata to write; with all but the version zero it is that of a sparse fragment */
  uint32_t version;
  bool dense, empty, times, deletes, footer_only;
  uint64_t tiles, last;
  const char *sections; /* `section_size` bytes after the offset of the processed conditions (version 23) */
  uint64_t section_size;
} shape;

/* Writes the metadata. In each data file tile i begins at 100 * i, and the file has 100 * tiles + 7 bytes. */
static inline void put_metadata(fixture *f, const shape *s) {
  uint32_t v = s->version, attributes = f->schema.attribute_count, dimensions = f->schema.dimension_count;
  uint32_t slots = attributes + 1 + (v >= 5 ? dimensions : 0) + s->times + 2 * s->deletes;
  uint32_t variable = v >= 5 ? slots : attributes;
  uint64_t tiles = s->tiles;
  tsr_buffer *out = &f->out, content = {.memory = &f->memory};
  uint64_t at[8] = {0}, rtree = 0, fragment = 0, processed = 0;
  out->size = 0;
  if (!s->footer_only) {
    if (v < 5) put32(&content, dimensions);
    put32(&content, 10);
    if (v < 5) put8(&content, TSR_INT32);
    put32(&content, tiles && !s->dense ? 2 : 0);
    for (uint64_t level = 0; level < 2 && tiles && !s->dense; level++) {
      put64(&content, level ? tiles : 1);
      for (uint64_t i = 0; i < (level ? tiles : 1); i++) put_box(f, &content);
    }
    rtree = put_generic(out, v, &content);
    at[0] = put_list(out, v, tiles, 0, 100);
    at[1] = put_list(out, v, tiles, 1000, 1); /* sizes of variable tiles */
    content.size = 0;
    put64(&content, tiles * 4);
    put64(&content, 0);
    for (uint32_t i = 0; i < tiles; i++) put32(&content, i);
    at[2] = put_generic(out, v, &content);
    at[3] = put_list(out, v, tiles, 500, 1);
    content.size = 0;
    put64(&content, tiles * 8);
    put64(&content, 7);
    for (uint32_t i = 0; i < tiles; i++) put64(&content, 2 * i);
    put(&content, "abcdefg", 7);
    at[4] = put_generic(out, v, &content);
    content.size = 0;
    put64(&content, 0);
    put64(&content, 0);
    at[5] = put_generic(out, v, &content);
    content.size = 0;
    put64(&content, 2);
    put64(&content, 17);
    put(&content, "__commits/__a.del", 17);
    put64(&content, 3);
    put(&content, "__b", 3);
    processed = put_generic(out, v, &content);
  }
  f->footer_at = out->size;
  put32(out, v);
  if (v >= 10) {
    put64(out, 7);
    put(out, "__1_1_x", 7);
  }
  put8(out, s->dense);
  put8(out, s->empty);
  put_box(f, out);
  put64(out, s->dense ? 0 : tiles);
  put64(out, s->last);
  if (v >= 14) put8(out, s->times);
  if (v >= 15) put8(out, s->deletes);
  for (uint32_t i = 0; i < slots; i++) put64(out, tiles * 100 + 7);
  for (uint32_t i = 0; i < variable; i++) put64(out, tiles * 100 + 7);
  if (v >= 7) {
    for (uint32_t i = 0; i < slots; i++) put64(out, tiles * 100 + 7);
  }
  put64(out, rtree);
  for (uint32_t i = 0; i < slots; i++) put64(out, at[0]);
  for (uint32_t i = 0; i < variable; i++) put64(out, at[0]);
  for (uint32_t i = 0; i < variable; i++) put64(out, at[1]);
  if (v >= 7) {
    for (uint32_t i = 0; i < slots; i++) put64(out, at[0]);
  }
  if (v >= 11) { /* statistics: `a` has all, `s` has minima and maxima, the other fields have none */
    for (int row = 0; row < 4; row++) {
      for (uint32_t i = 0; i < slots; i++) {
        uint64_t none = at[5];
        put64(out, i == 0 ? (row < 2 ? at[2] : at[3]) : i == 1 && row < 2 ? at[4] : none);
      }
    }
  }
  if (v >= 12) put64(out, fragment);
  if (v >= 16) put64(out, processed);
  if (v >= 23) {
    if (s->sections) put(out, s->sections, s->section_size);
    else put32(out, 0);
  }
  if (v >= 10 || f->fields[1].values_per_cell == TSR_VARIABLE) put64(out, out->size - f->footer_at);
  tsr__buffer_release(&content);
}

/* Writes the bytes of `out` to a file and opens it; the caller closes it. */
static inline tsr_file *as_file(fixture *f) {
  tsr_file *file;
  (void)tsr__store_remove(f->store, "m", NULL);
  assert_int_equal(tsr__store_create_exclusive(f->store, "m", &file, NULL), TSR_OK);
  assert_int_equal(tsr__store_append(file, f->out.data, f->out.size, NULL), TSR_OK);
  tsr__store_close_file(file);
  assert_int_equal(tsr__store_open_file(f->store, "m", &file, NULL), TSR_OK);
  return file;
}

static inline int read_metadata(fixture *f, tsr_file *file, uint32_t version, tsr_fragment_metadata *metadata,
                                tsr_error *error) {
  return tsr__fragment_metadata_read(file, version, NULL, find, f, tsr__arena(&f->memory), metadata, error);
}

#endif
