/* test_tile.c: data tiles of every kind decode; tiles whose parts have wrong sizes or offsets are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "format/tile.h"

typedef struct fixture {
  tsr_memory memory;
  tsr_buffer parts[TSR_PART_COUNT];
  tsr_pipeline none, rle, dictionary;
  tsr_filter rle_filter, dictionary_filter;
  tsr_tile_format format;
  tsr_tile_source source;
} fixture;

static int setup(void **state) {
  static fixture f;
  f = (fixture){0};
  tsr__memory_init_root(&f.memory, NULL, NULL);
  for (int i = 0; i < TSR_PART_COUNT; i++) f.parts[i].memory = &f.memory;
  f.none.max_chunk_size = 65536;
  f.rle_filter.type = TSR_FILTER_RLE;
  f.dictionary_filter.type = TSR_FILTER_DICTIONARY;
  f.rle = (tsr_pipeline){.max_chunk_size = 65536, .count = 1, .filters = &f.rle_filter};
  f.dictionary = (tsr_pipeline){.max_chunk_size = 65536, .count = 1, .filters = &f.dictionary_filter};
  f.format = (tsr_tile_format){.datatype = TSR_INT32,
                               .values_per_cell = 1,
                               .version = 22,
                               .values = &f.none,
                               .offsets = &f.none,
                               .validity = &f.none};
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  for (int i = 0; i < TSR_PART_COUNT; i++) tsr__buffer_release(&f->parts[i]);
  assert_int_equal(f->memory.used, 0);
  return 0;
}

/* Makes a stored tile with chunks of `chunk` bytes, without filters. */
static void store(fixture *f, tsr_part_kind part, const void *bytes, uint64_t size, uint32_t chunk) {
  tsr_buffer *out = &f->parts[part];
  out->size = 0;
  uint64_t chunks = size ? (size + chunk - 1) / chunk : 1;
  assert_int_equal(tsr__buffer_append_u64(out, chunks, NULL), 0);
  for (uint64_t at = 0; chunks--; at += chunk) {
    uint32_t here = (uint32_t)TSR_MIN(chunk, size - at);
    assert_int_equal(tsr__buffer_append_u32(out, here, NULL), 0);
    assert_int_equal(tsr__buffer_append_u32(out, here, NULL), 0);
    assert_int_equal(tsr__buffer_append_u32(out, 0, NULL), 0);
    assert_int_equal(tsr__buffer_append(out, (const uint8_t *)bytes + at, here, NULL), 0);
  }
  f->source.bytes[part] = out->data;
  f->source.sizes[part] = out->size;
}

static void store_hex(fixture *f, tsr_part_kind part, const char *text) {
  tsr_buffer *out = &f->parts[part];
  out->size = 0;
  for (; *text; text += 2) {
    unsigned value;
    assert_int_equal(sscanf(text, "%2x", &value), 1);
    assert_int_equal(tsr__buffer_append_u8(out, (uint8_t)value, NULL), 0);
  }
  f->source.bytes[part] = out->data;
  f->source.sizes[part] = out->size;
}

static tsr_tile *decode(fixture *f) {
  tsr_tile *tile = NULL;
  tsr_error error = {0};
  if (tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, &error) < 0) fail_msg("%s", error.message);
  return tile;
}

static void refuse(fixture *f, int code, const char *message) {
  tsr_tile *tile = NULL;
  tsr_error error = {0};
  uint64_t used = f->memory.used;
  assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, &error), code);
  assert_null(tile);
  if (!strstr(error.message, message)) fail_msg("'%s' is not '%s'", error.message, message);
  const uint64_t offsets = TSR_PART_FIXED + 1, validity = TSR_PART_VALIDITY + 1;
  assert_int_equal(error.subject, strstr(message, "offsets") ? offsets : strstr(message, "validity") ? validity : 0);
  assert_int_equal(f->memory.used, used);
}

static void test_values_of_fixed_size(void **state) {
  fixture *f = *state;
  const int32_t values[5] = {1, -2, 3, INT32_MIN, 5};
  f->source.cells = 5;
  for (uint32_t chunk = 4; chunk <= 20; chunk += 4) {
    store(f, TSR_PART_FIXED, values, sizeof values, chunk);
    tsr_tile *tile = decode(f);
    assert_int_equal(tile->cells, 5);
    assert_int_equal(tile->cell_size, 4);
    assert_int_equal(tile->values_size, 20);
    assert_memory_equal(tile->values, values, 20);
    assert_null(tile->offsets);
    assert_null(tile->validity);
    assert_true(tile->bytes >= sizeof *tile + 20);
    assert_int_equal((uintptr_t)tile->values % (2 * sizeof(void *)), 0);
    tsr__tile_hold(tile);
    tsr__tile_drop(tile);
    assert_int_equal(tile->values[0], 1);
    tsr__tile_drop(tile);
  }
  tsr__tile_drop(NULL);
}

static void test_wrong_sizes_are_refused(void **state) {
  fixture *f = *state;
  const int32_t values[5] = {0};
  store(f, TSR_PART_FIXED, values, sizeof values, 8);
  for (uint64_t cells = 0; cells < 8; cells++) {
    f->source.cells = cells;
    if (cells != 5) refuse(f, TSR_CORRUPT, "its chunks hold 20 bytes");
  }
  f->source.cells = UINT64_MAX;
  refuse(f, TSR_CORRUPT, "");
  f->source.cells = UINT64_C(1) << 62; /* times 4 is 0 in 64 bits */
  refuse(f, TSR_CORRUPT, "");
}

static void test_several_values_per_cell(void **state) {
  fixture *f = *state;
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const uint8_t validity[2] = {1, 0};
  f->format.datatype = TSR_FLOAT32;
  f->format.values_per_cell = 3;
  f->format.nullable = true;
  f->source.cells = 2;
  store(f, TSR_PART_FIXED, values, sizeof values, 12);
  store(f, TSR_PART_VALIDITY, validity, 2, 100);
  tsr_tile *tile = decode(f);
  assert_int_equal(tile->cell_size, 12);
  assert_memory_equal(tile->values, values, sizeof values);
  assert_memory_equal(tile->validity, validity, 2);
  tsr__tile_drop(tile);
  store(f, TSR_PART_VALIDITY, validity, 1, 100);
  refuse(f, TSR_CORRUPT, "validity: its chunks hold 1 bytes, 2 cells take 2");
  f->source.sizes[TSR_PART_VALIDITY] = 0;
  refuse(f, TSR_CORRUPT, "validity");
}

static void store_strings(fixture *f, const uint64_t *offsets, uint64_t cells, const char *text, uint64_t size) {
  f->format.datatype = TSR_ASCII;
  f->format.values_per_cell = TSR_VARIABLE;
  f->source.cells = cells;
  f->source.variable_size = size;
  store(f, TSR_PART_FIXED, offsets, cells * 8, 16);
  store(f, TSR_PART_VARIABLE, text, size, 3);
}

static void test_strings(void **state) {
  fixture *f = *state;
  const uint64_t offsets[4] = {0, 3, 3, 5};
  store_strings(f, offsets, 4, "abcdefg", 7);
  tsr_tile *tile = decode(f);
  assert_int_equal(tile->cell_size, 0);
  assert_int_equal(tile->values_size, 7);
  assert_memory_equal(tile->offsets, offsets, sizeof offsets);
  assert_int_equal(tile->offsets[4], 7);
  assert_memory_equal(tile->values, "abcdefg", 7);
  tsr__tile_drop(tile);

  const uint64_t empty[3] = {0};
  store_strings(f, empty, 3, "", 0); /* one chunk of no bytes */
  tile = decode(f);
  assert_int_equal(tile->values_size, 0);
  assert_int_equal(tile->offsets[3], 0);
  tsr__tile_drop(tile);
}

static void test_broken_offsets_are_refused(void **state) {
  fixture *f = *state;
  store_strings(f, (uint64_t[]){0, 3, 2}, 3, "abcdefg", 7);
  refuse(f, TSR_CORRUPT, "offsets: cell 1 ends at byte 2 of 7, but begins at 3");
  store_strings(f, (uint64_t[]){0, 3, 8}, 3, "abcdefg", 7);
  refuse(f, TSR_CORRUPT, "offsets: cell 2 ends at byte 7 of 7, but begins at 8");
  store_strings(f, (uint64_t[]){1, 3, 4}, 3, "abcdefg", 7);
  refuse(f, TSR_CORRUPT, "offsets");
  store_strings(f, (uint64_t[]){0, 3, UINT64_MAX}, 3, "abcdefg", 7);
  refuse(f, TSR_CORRUPT, "offsets");
  store_strings(f, (uint64_t[]){0, 3, 4}, 3, "abcdefg", 7);
  f->source.variable_size = 8;
  refuse(f, TSR_CORRUPT, "its chunks hold 7 bytes");
  f->source.variable_size = UINT64_MAX;
  refuse(f, TSR_CORRUPT, "its chunks hold 7 bytes");
  f->source.variable_size = 7;
  f->source.cells = 2;
  refuse(f, TSR_CORRUPT, "offsets: its chunks hold 24 bytes, 2 cells take 16");
  f->source.cells = UINT64_MAX;
  refuse(f, TSR_CORRUPT, "offsets");
}

/* Strings that TileDB 2.25 stored with RLE and with a dictionary: offsets are in the values' tile. */
static void test_offsets_in_values(void **state) {
  fixture *f = *state;
  static const char rle[] =
      "01000000000000001400000024000000160000000000000001000000140000002400000050000000010101017a010279"
      "78010363637a010179010263790102636301026379020278630103797a78";
  static const char dictionary[] =
      "01000000000000002e0000000a0000005200000000000000010000002e0000000a000000500000000101380000000763"
      "7a616162636302617a037a7a7a07787a797a787863037962620761637878787a7a0761617a61627a7902787a07626163"
      "79796361016100010203040506070809";
  f->format.datatype = TSR_ASCII;
  f->format.values_per_cell = TSR_VARIABLE;
  f->format.values = &f->rle;
  f->source.cells = 10;
  f->source.variable_size = 20;
  store_hex(f, TSR_PART_VARIABLE, rle);
  store_hex(f, TSR_PART_FIXED, "0000000000000000");
  tsr_tile *tile = decode(f);
  assert_memory_equal(tile->values, "zyxcczycycccyxcxcyzx", 20);
  assert_int_equal(tile->offsets[1], 1);
  assert_int_equal(tile->offsets[2], 3);
  assert_int_equal(tile->offsets[10], 20);
  tsr__tile_drop(tile);
  for (uint64_t cut = 0; cut < f->source.sizes[TSR_PART_VARIABLE]; cut++) {
    tsr_tile_source source = f->source;
    source.sizes[TSR_PART_VARIABLE] = cut;
    tsr_error error = {0};
    assert_int_equal(tsr__tile_decode(&f->format, &source, &f->memory, &tile, &error), TSR_CORRUPT);
  }
  f->source.cells = 9;
  refuse(f, TSR_CORRUPT, "");
  f->source.cells = 10;
  store(f, TSR_PART_FIXED, (uint64_t[]){0}, 8, 8);
  refuse(f, TSR_CORRUPT, "offsets: its chunks hold 8 bytes");

  f->format.values = &f->dictionary;
  f->source.variable_size = 46;
  store_hex(f, TSR_PART_VARIABLE, dictionary);
  store_hex(f, TSR_PART_FIXED, "0000000000000000");
  tile = decode(f);
  assert_memory_equal(tile->values, "czaabccazzzzxzyzxxcybbacxxxzzaazabzyxzbacyycaa", 46);
  assert_int_equal(tile->offsets[10], 46);
  tsr__tile_drop(tile);
}

/* __coords: always decoded to one dimension after the other. */
static void test_coords_are_split_by_dimension(void **state) {
  fixture *f = *state;
  const int32_t zipped[6] = {1, 10, 2, 20, 3, 30}, split[6] = {1, 2, 3, 10, 20, 30};
  f->format.coordinate_dimensions = 2;
  f->format.version = 1;
  f->source.cells = 3;
  store(f, TSR_PART_FIXED, zipped, sizeof zipped, 7); /* below version 11 a chunk may end within a cell */
  tsr_tile *tile = decode(f);
  assert_int_equal(tile->cell_size, 8);
  assert_memory_equal(tile->values, split, sizeof split);
  tsr__tile_drop(tile);
  f->format.coordinates_split = true;
  store(f, TSR_PART_FIXED, split, sizeof split, 24);
  tile = decode(f);
  assert_memory_equal(tile->values, split, sizeof split);
  tsr__tile_drop(tile);
}

static void test_formats_of_slots(void **state) {
  tsr_field fields[2] = {{.name = "x", .is_dimension = true, .datatype = TSR_INT16, .values_per_cell = 1},
                         {.name = "a", .datatype = TSR_UTF8, .values_per_cell = TSR_VARIABLE, .nullable = true}};
  tsr_schema schema = {.version = 22, .dimension_count = 1, .attribute_count = 1, .fields = fields};
  tsr_slot slots[6] = {{.present = true}, {.present = true}, {.present = true},
                       {.present = true}, {.present = true}, {.present = true}};
  tsr_fragment_metadata m = {.schema = &schema, .slots = slots, .version = 22, .slot_count = 6};
  tsr_tile_format format;
  m.has_times = m.has_delete_metadata = true;
  assert_int_equal(tsr__tile_format(&m, 0, NULL, &format, NULL), TSR_OK);
  assert_int_equal(format.datatype, TSR_UTF8);
  assert_int_equal(format.values_per_cell, TSR_VARIABLE);
  assert_true(format.nullable);
  assert_ptr_equal(format.values, &fields[1].filters);
  assert_ptr_equal(format.offsets, &schema.offsets_filters);
  assert_ptr_equal(format.validity, &schema.validity_filters);
  assert_int_equal(tsr__tile_format(&m, 2, NULL, &format, NULL), TSR_OK);
  assert_int_equal(format.datatype, TSR_INT16);
  assert_ptr_equal(format.values, &schema.coords_filters); /* x has none of its own */
  for (uint32_t slot = 3; slot < 6; slot++) {
    assert_int_equal(tsr__tile_format(&m, slot, NULL, &format, NULL), TSR_OK);
    assert_int_equal(format.datatype, TSR_UINT64);
    assert_int_equal(format.coordinate_dimensions, 0);
    assert_ptr_equal(format.values, &schema.coords_filters);
  }
  assert_int_equal(tsr__tile_format(&m, 6, NULL, &format, NULL), TSR_ERROR);
  slots[0].present = false;
  assert_int_equal(tsr__tile_format(&m, 0, NULL, &format, NULL), TSR_ERROR);

  m = (tsr_fragment_metadata){.schema = &schema, .slots = slots, .version = 2, .slot_count = 2};
  assert_int_equal(tsr__tile_format(&m, 1, NULL, &format, NULL), TSR_OK);
  assert_int_equal(format.coordinate_dimensions, 1);
  assert_true(format.coordinates_split);
  m.version = 1;
  assert_int_equal(tsr__tile_format(&m, 1, NULL, &format, NULL), TSR_OK);
  assert_false(format.coordinates_split);
  tsr_filter filters[2] = {{.type = TSR_FILTER_BYTESHUFFLE}, {.type = TSR_FILTER_ZSTD}};
  schema.coords_filters = (tsr_pipeline){.max_chunk_size = 65536, .count = 1, .filters = filters};
  assert_int_equal(tsr__tile_format(&m, 1, NULL, &format, NULL), TSR_OK);
  assert_false(format.coordinates_split);
  schema.coords_filters.count = 2;
  assert_int_equal(tsr__tile_format(&m, 1, NULL, &format, NULL), TSR_OK);
  assert_true(format.coordinates_split);
}

/* A tile that is cut anywhere is refused. A tile with one changed bit is refused or decoded without harm. */
static void test_damaged_tiles_are_refused_or_harmless(void **state) {
  fixture *f = *state;
  const uint64_t offsets[4] = {0, 3, 3, 5};
  const uint8_t validity[4] = {1, 0, 1, 1};
  store_strings(f, offsets, 4, "abcdefg", 7);
  f->format.nullable = true;
  store(f, TSR_PART_VALIDITY, validity, 4, 2);
  for (int part = 0; part < TSR_PART_COUNT; part++) {
    tsr_buffer *bytes = &f->parts[part];
    for (uint64_t cut = 0; cut < bytes->size; cut++) {
      tsr_tile_source source = f->source;
      tsr_tile *tile;
      tsr_error error = {0};
      void *exact;
      assert_int_equal(tsr__alloc(&f->memory, cut, &exact, NULL), 0);
      memcpy(exact, bytes->data, cut);
      source.bytes[part] = exact;
      source.sizes[part] = cut;
      assert_int_equal(tsr__tile_decode(&f->format, &source, &f->memory, &tile, &error), TSR_CORRUPT);
      tsr__free(exact);
    }
    for (uint64_t bit = 0; bit < bytes->size * 8; bit++) {
      tsr_tile *tile = NULL;
      tsr_error error = {0};
      bytes->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
      int code = tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, &error);
      if (code < 0) assert_int_equal(code, TSR_CORRUPT);
      else assert_true(tile->offsets[2] <= 7);
      tsr__tile_drop(tile);
      bytes->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
  }
}

static void test_out_of_budget(void **state) {
  fixture *f = *state;
  const uint64_t offsets[4] = {0, 3, 3, 5};
  store_strings(f, offsets, 4, "abcdefg", 7);
  bool worked = false;
  for (uint64_t limit = 0; !worked && limit < 1 << 20; limit += 16) {
    tsr_memory small;
    tsr_tile *tile = NULL;
    tsr_error error = {0};
    tsr__memory_init(&small, &f->memory, limit, "test");
    int code = tsr__tile_decode(&f->format, &f->source, &small, &tile, &error);
    worked = code == TSR_OK;
    if (!worked) assert_int_equal(code, TSR_BUDGET);
    tsr__tile_drop(tile);
    assert_int_equal(small.used, 0);
  }
  assert_true(worked);
}

/* Of a tile of fixed-size values only the chunks that hold the requested cells are decoded; no other chunk's content
 * matters. */
static void test_requested_cells_decode_their_chunks_alone(void **state) {
  fixture *f = *state;
  static int32_t values[1000];
  static uint8_t validity[1000];
  for (int32_t i = 0; i < 1000; i++) values[i] = 3 * i, validity[i] = i % 5 != 0;
  f->source.cells = 1000;
  f->format.nullable = true;
  store(f, TSR_PART_VALIDITY, validity, sizeof validity, 64);
  for (uint32_t chunk = 4; chunk <= 4400; chunk += 396) {
    store(f, TSR_PART_FIXED, values, sizeof values, chunk);
    for (uint64_t first = 0; first < 1000; first += 37)
      for (uint64_t end = first + 1; end <= 1000; end += 111) {
        tsr_tile *tile;
        f->source.first = first;
        f->source.end = end;
        assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, NULL), TSR_OK);
        const uint64_t cells = chunk / 4, low = first / cells * cells,
                       high = TSR_MIN(1000, (end + cells - 1) / cells * cells);
        assert_int_equal(tile->end, high - low == 1000 ? 0 : high);
        assert_int_equal(tile->first, tile->end ? low : 0);
        assert_int_equal(tile->values_size, 4 * (high - low));
        assert_memory_equal(tile->values, values + low, 4 * (high - low));
        assert_memory_equal(tile->validity, validity + low, high - low);
        tsr__tile_drop(tile);
      }
  }
  store(f, TSR_PART_FIXED, values, sizeof values, 50); /* as versions below 11 may: chunks end within cells */
  f->source.first = 500;
  f->source.end = 501;
  tsr_tile *tile;
  assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, NULL), TSR_OK);
  assert_int_equal(tile->end, 0);
  assert_memory_equal(tile->values, values, sizeof values);
  tsr__tile_drop(tile);
  store(f, TSR_PART_FIXED, values, sizeof values, 400);
  const uint64_t size = f->source.sizes[TSR_PART_FIXED];
  for (uint64_t cut = 1; cut <= size; cut++) { /* headers of all chunks are read, to know that the tile is whole */
    f->source.sizes[TSR_PART_FIXED] = size - cut;
    tsr_error error = {0};
    assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, &error), TSR_CORRUPT);
  }
  f->source.first = f->source.end = 0;
}

/* Of a tile of which a part is at hand, the part is copied and the other chunks are decoded. The chunks of the part are
 * overwritten first: what they hold must not matter. */
static void test_cells_of_a_known_part_are_copied(void **state) {
  fixture *f = *state;
  static int32_t values[1000], other[1000];
  static uint8_t validity[1000];
  for (int32_t i = 0; i < 1000; i++) values[i] = 3 * i, other[i] = -1, validity[i] = i % 5 != 0;
  f->source.cells = 1000;
  f->format.nullable = true;
  store(f, TSR_PART_VALIDITY, validity, sizeof validity, 64);
  for (uint64_t first = 0; first < 1000; first += 37) {
    for (uint64_t end = first + 1; end <= TSR_MIN(1000, first + 400); end += 111) {
      tsr_tile *part, *tile;
      store(f, TSR_PART_FIXED, values, sizeof values, 400);
      f->source.first = first;
      f->source.end = end;
      assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &part, NULL), TSR_OK);
      for (uint64_t i = part->first; i < part->end; i++) other[i] = values[i], values[i] = -1;
      store(f, TSR_PART_FIXED, values, sizeof values, 400);
      for (uint64_t i = part->first; i < part->end; i++) values[i] = other[i], other[i] = -1;
      f->source.first = f->source.end = 0;
      f->source.known = part;
      assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, NULL), TSR_OK);
      assert_int_equal(tile->end, 0);
      assert_int_equal(tile->decoded, 1000 - (part->end - part->first));
      assert_int_equal(tile->values_size, sizeof values);
      assert_memory_equal(tile->values, values, sizeof values);
      assert_memory_equal(tile->validity, validity, sizeof validity);
      tsr__tile_drop(tile);
      f->source.sizes[TSR_PART_FIXED]--; /* the tile is checked to its end, like any other */
      tsr_error error = {0};
      assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, &error), TSR_CORRUPT);
      f->source.known = NULL;
      tsr__tile_drop(part);
    }
  }
}

/* Chunks without a needed cell keep what the memory had; the others are decoded, whether the tile was cut or not. */
static void test_chunks_that_are_not_needed_are_not_decoded(void **state) {
  enum { CELLS = 5 * TSR_NEEDED_CELLS - 100 };
  fixture *f = *state;
  static int32_t values[CELLS];
  static uint8_t validity[CELLS];
  for (int32_t i = 0; i < CELLS; i++) values[i] = 3 * i, validity[i] = i % 5 != 0;
  f->source.cells = CELLS;
  f->format.nullable = true;
  store(f, TSR_PART_VALIDITY, validity, sizeof validity, 4096);
  for (uint32_t cells = 500; cells <= 3500; cells += 1000) { /* of a chunk */
    store(f, TSR_PART_FIXED, values, sizeof values, 4 * cells);
    for (unsigned marks = 1; marks < 32; marks++) {
      uint8_t needed[5];
      bool chunks[CELLS / 500 + 1] = {false};
      uint64_t decoded = 0, first = 0, end = CELLS;
      for (unsigned b = 0; b < 5; b++) needed[b] = (uint8_t)(marks >> b & 1) * 2;
      if (marks % 3 == 0) first = TSR_NEEDED_CELLS + 7, end = 4 * TSR_NEEDED_CELLS + 7;
      for (uint64_t i = first / cells * cells; i < TSR_MIN(CELLS, (end + cells - 1) / cells * cells); i++)
        chunks[i / cells] |= needed[i / TSR_NEEDED_CELLS] != 0;
      for (uint64_t i = 0; i < CELLS; i++) decoded += chunks[i / cells];
      tsr_tile *tile;
      f->source.first = first;
      f->source.end = end;
      f->source.needed = needed;
      assert_int_equal(tsr__tile_decode(&f->format, &f->source, &f->memory, &tile, NULL), TSR_OK);
      const uint64_t from = tile->end ? tile->first : 0, to = tile->end ? tile->end : CELLS;
      assert_int_equal(tile->decoded, decoded);
      assert_true(from <= first && to >= end);
      assert_int_equal(tile->needed != NULL, decoded < to - from);
      for (uint64_t i = from; i < to; i++) {
        if (!chunks[i / cells]) continue;
        assert_int_equal(tsr__load32(tile->values + 4 * (i - from)), values[i]);
        assert_int_equal(tile->validity[i - from], validity[i]);
      }
      if (tile->needed) assert_memory_equal(tile->needed, needed, sizeof needed);
      tsr__tile_drop(tile);
    }
  }
  f->source.first = f->source.end = 0;
  f->source.needed = NULL;
}

typedef struct taken_cells {
  uint64_t next, low, high, most; /* the next cell; all cells that came; the most at a time */
  int left; /* fails after so many calls */
  bool nullable;
} taken_cells;

static int take_cells(void *argument, uint64_t first, uint64_t count, const uint8_t *values, const uint8_t *validity,
                      tsr_error *error) {
  taken_cells *t = argument;
  for (uint64_t i = 0; validity && i < count; i++) assert_int_equal(validity[i], (first + i) % 5 != 0);
  assert_int_equal(validity != NULL, t->nullable);
  if (t->left-- == 0) return tsr__fail(error, TSR_INTERRUPT, "enough");
  assert_true(first >= t->next && count > 0);
  for (uint64_t i = 0; i < count; i++) assert_int_equal(tsr__load32(values + 4 * i), 3 * (first + i));
  t->low = TSR_MIN(t->low, first);
  t->next = t->high = first + count;
  t->most = TSR_MAX(t->most, count);
  return TSR_OK;
}

/* Also in chunks that end within cells, as versions below 11 may write them. */
static void test_cells_are_passed_on_while_they_are_decoded(void **state) {
  fixture *f = *state;
  static int32_t values[1000];
  static const uint32_t chunks[] = {1, 3, 4, 50, 400, 4000, 5000};
  for (int32_t i = 0; i < 1000; i++) values[i] = 3 * i;
  f->source.cells = 1000;
  for (unsigned c = 0; c < sizeof chunks / sizeof *chunks; c++) {
    const uint64_t cells = TSR_MIN(1000, TSR_MAX(1, chunks[c] / 4));
    store(f, TSR_PART_FIXED, values, sizeof values, chunks[c]);
    for (uint64_t first = 0; first < 1000; first += 333) {
      taken_cells t = {.low = 1000, .left = -1};
      f->source.first = first;
      f->source.end = first > 0 ? first + 1 : 0;
      assert_int_equal(tsr__tile_decode_each(&f->format, &f->source, take_cells, &t, &f->memory, NULL), TSR_OK);
      assert_true(t.most <= cells + 1 && t.low <= first && t.high >= TSR_MAX(f->source.end, 1));
      if (first == 0 || chunks[c] % 4 != 0) assert_true(t.high - t.low == 1000 || chunks[c] % 4 != 0);
      else assert_true(t.high - t.low == cells);
    }
    tsr_error error = {0};
    taken_cells t = {.low = 1000, .left = 0};
    f->source.first = f->source.end = 0;
    assert_int_equal(tsr__tile_decode_each(&f->format, &f->source, take_cells, &t, &f->memory, &error), TSR_INTERRUPT);
    const uint64_t size = f->source.sizes[TSR_PART_FIXED];
    for (uint64_t cut = 1; cut <= size; cut += 1 + size / 100) {
      f->source.sizes[TSR_PART_FIXED] = size - cut;
      t = (taken_cells){.low = 1000, .left = -1};
      assert_int_equal(tsr__tile_decode_each(&f->format, &f->source, take_cells, &t, &f->memory, &error), TSR_CORRUPT);
      assert_int_equal(t.next, 0); /* the sizes are checked first */
    }
  }
  static uint8_t validity[1000];
  for (int i = 0; i < 1000; i++) validity[i] = i % 5 != 0;
  f->format.nullable = true;
  store(f, TSR_PART_VALIDITY, validity, sizeof validity, 64);
  store(f, TSR_PART_FIXED, values, sizeof values, 400);
  taken_cells t = {.low = 1000, .left = -1, .nullable = true};
  assert_int_equal(tsr__tile_decode_each(&f->format, &f->source, take_cells, &t, &f->memory, NULL), TSR_OK);
  assert_int_equal(t.high, 1000);
  store(f, TSR_PART_VALIDITY, validity, 999, 64);
  tsr_error error = {0};
  t = (taken_cells){.low = 1000, .left = 0, .nullable = true};
  assert_int_equal(tsr__tile_decode_each(&f->format, &f->source, take_cells, &t, &f->memory, &error), TSR_CORRUPT);
  assert_int_equal(error.subject, TSR_PART_VALIDITY + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_values_of_fixed_size),
      TEST(test_wrong_sizes_are_refused),
      TEST(test_several_values_per_cell),
      TEST(test_cells_are_passed_on_while_they_are_decoded),
      TEST(test_requested_cells_decode_their_chunks_alone),
      TEST(test_cells_of_a_known_part_are_copied),
      TEST(test_chunks_that_are_not_needed_are_not_decoded),
      TEST(test_strings),
      TEST(test_broken_offsets_are_refused),
      TEST(test_offsets_in_values),
      TEST(test_coords_are_split_by_dimension),
      TEST(test_formats_of_slots),
      TEST(test_damaged_tiles_are_refused_or_harmless),
      TEST(test_out_of_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
