/* test_fragment_metadata.c: footers and metadata files of versions 1 to 23 decode; broken ones are refused. */

#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "format/fragment_metadata.h"
#include "format/rtree.h"
#include "fragment_test.h"

#include <stdio.h>

static void check_sparse(fixture *f, uint32_t version, bool text) {
  shape s = {.version = version, .tiles = TILES, .last = 4, .times = version >= 14, .deletes = version >= 15};
  put_metadata(f, &s);
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  tsr_error error = {0};
  int code = read_metadata(f, file, version < 5 ? 0 : version, &m, &error);
  if (code < 0) fail_msg("version %u: %s", version, error.message);
  assert_int_equal(m.version, version);
  assert_string_equal(m.schema_name, version >= 10 ? "__1_1_x" : "__array_schema.tdb");
  assert_string_equal(f->looked_for, m.schema_name);
  assert_false(m.dense);
  assert_false(m.empty_domain);
  assert_int_equal(m.tile_count, TILES);
  assert_int_equal(m.sparse_tile_count, TILES);
  assert_int_equal(m.last_tile_cells, 4);
  assert_int_equal(m.at.footer, f->footer_at);
  assert_int_equal(m.has_times, version >= 14);
  assert_int_equal(m.has_delete_metadata, version >= 15);
  assert_int_equal((int32_t)tsr__load32(m.non_empty_domain[0].low), -10);
  assert_int_equal((int32_t)tsr__load32(m.non_empty_domain[0].high), -1);
  if (text) {
    assert_int_equal(m.non_empty_domain[1].low_size, 2);
    assert_memory_equal(m.non_empty_domain[1].low_text, "ab", 2);
    assert_int_equal(m.non_empty_domain[1].high_size, 3);
    assert_memory_equal(m.non_empty_domain[1].high_text, "ccc", 3);
  }
  assert_int_equal(m.slot_count, version < 5 ? 4 : version < 14 ? 6 : version == 14 ? 7 : 9);

  assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, &error), TSR_OK);
  assert_int_equal(m.rtree->levels, 2);
  assert_int_equal(m.rtree->counts[1], TILES);
  const tsr_rtree *rtree = m.rtree;
  assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, &error), TSR_OK);
  assert_ptr_equal(m.rtree, rtree);

  assert_int_equal(tsr__fragment_metadata_load_processed(&m, file, NULL, &error), TSR_OK);
  assert_int_equal(m.processed.count, version >= 16 ? 2 : 0);
  if (version >= 16) {
    assert_string_equal(m.processed.names[0], "__a");
    assert_string_equal(m.processed.names[1], "__b");
  }
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);
}

static void test_sparse_metadata_of_all_versions_decodes(void **state) {
  fixture *f = *state;
  for (uint32_t version = 3; version <= 23; version++) check_sparse(f, version, false);
  text_y(f);
  for (uint32_t version = 5; version <= 23; version++) check_sparse(f, version, true);
}

static void test_dense_metadata_decodes(void **state) {
  fixture *f = *state;
  f->schema.dense = true;
  for (uint32_t version = 3; version <= 23; version++) {
    put_metadata(f, &(shape){.version = version, .dense = true, .tiles = 2, .last = 25});
    tsr_file *file = as_file(f);
    tsr_fragment_metadata m;
    assert_int_equal(read_metadata(f, file, version < 5 ? 0 : version, &m, NULL), TSR_OK);
    assert_true(m.dense);
    assert_int_equal(m.tile_count, 2); /* x -10..-1 by 5, y 0..4 by 5 from -10 on */
    assert_int_equal(m.last_tile_cells, 25);
    assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, NULL), TSR_OK);
    assert_int_equal(m.rtree->levels, 0);
    tsr__fragment_metadata_release(&m);
    tsr__store_close_file(file);
  }
}

/* A dense array may have sparse fragments; a sparse array may not have dense ones. */
static void test_sparse_fragment_in_dense_array_is_accepted(void **state) {
  fixture *f = *state;
  tsr_fragment_metadata m;
  tsr_error error = {0};
  f->schema.dense = true;
  put_metadata(f, &(shape){.version = 4, .tiles = TILES, .last = CAPACITY});
  tsr_file *file = as_file(f);
  assert_int_equal(read_metadata(f, file, 0, &m, NULL), TSR_OK);
  assert_false(m.dense);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);

  f->schema.dense = false;
  put_metadata(f, &(shape){.version = 22, .dense = true, .tiles = 2, .last = 25});
  file = as_file(f);
  assert_int_equal(read_metadata(f, file, 22, &m, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "dense fragment in a sparse array"));
  tsr__store_close_file(file);
}

/* TileDB 1.6 leaves such a fragment after a write without cells. */
static void test_fragment_without_cells_decodes(void **state) {
  fixture *f = *state;
  put_metadata(f, &(shape){.version = 3, .empty = true, .last = CAPACITY});
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  assert_int_equal(read_metadata(f, file, 0, &m, NULL), TSR_OK);
  assert_true(m.empty_domain);
  assert_int_equal(m.tile_count, 0);
  for (uint32_t slot = 0; slot < m.slot_count; slot++) assert_false(m.slots[slot].present);
  assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, NULL), TSR_OK);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);
}

/* Version 23: unknown sections are skipped, sections past the end are damage. */
static void test_optional_sections_are_skipped(void **state) {
  fixture *f = *state;
  static const char sections[] = "\x02\0\0\0"
                                 "\0\0\0\0\0\0\0\0\x20\0\0\0" /* the tiles' first and last coordinates */
                                 "01234567890123456789012345678901"
                                 "\x63\0\0\0\0\0\0\0\x03\0\0\0"
                                 "abc";
  shape s = {.version = 23, .tiles = TILES, .last = 1, .sections = sections, .section_size = sizeof sections - 1};
  put_metadata(f, &s);
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  assert_int_equal(read_metadata(f, file, 23, &m, NULL), TSR_OK);
  assert_int_equal(m.tile_count, TILES);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);
  for (uint64_t less = 1; less < s.section_size; less++) {
    shape shorter = s;
    shorter.section_size -= less;
    put_metadata(f, &shorter);
    file = as_file(f);
    tsr_error error = {0};
    assert_int_equal(read_metadata(f, file, 23, &m, &error), TSR_CORRUPT);
    tsr__store_close_file(file);
  }
}

/* TileDB 2.30 writes eight bytes more into footers of version 11 than libraries of that version. */
static void test_longer_footer_of_version_11_decodes(void **state) {
  fixture *f = *state;
  tsr_fragment_metadata m;
  put_metadata(f, &(shape){.version = 11, .tiles = TILES, .last = 1, .footer_only = true});
  uint8_t *footer = f->out.data + f->footer_at;
  uint64_t size = f->out.size - f->footer_at - 8; /* the size behind it serves as the eight bytes */
  assert_int_equal(
      tsr__fragment_metadata_decode_footer(footer, size + 8, 0, 0, find, f, tsr__arena(&f->memory), &m, NULL), 0);
  assert_int_equal(m.at.fragment_statistics, 0);
  tsr__fragment_metadata_release(&m);
  tsr_error error = {0};
  assert_int_equal(
      tsr__fragment_metadata_decode_footer(footer, size + 7, 0, 0, find, f, tsr__arena(&f->memory), &m, &error),
      TSR_CORRUPT);
  assert_non_null(strstr(error.message, "7 of "));
}

/* In versions 5 to 9 the stored high end of a string interval is ignored if the low end is empty. */
static void test_lost_high_end_is_open(void **state) {
  fixture *f = *state;
  text_y(f);
  for (uint32_t version = 9; version <= 10; version++) {
    put_metadata(f, &(shape){.version = version, .tiles = TILES, .last = 1, .footer_only = true});
    uint8_t *low_size = f->out.data + f->footer_at + 4 + (version >= 10 ? 15 : 0) + 2 + 8 + 8;
    assert_int_equal(*low_size, 2);
    *low_size = 0;
    tsr_fragment_metadata m;
    assert_int_equal(tsr__fragment_metadata_decode_footer(f->out.data, f->out.size - 8, 0, 0, find, f,
                                                          tsr__arena(&f->memory), &m, NULL),
                     TSR_OK);
    assert_int_equal(m.non_empty_domain[1].low_size, 0);
    assert_int_equal(m.non_empty_domain[1].high_size, version == 9 ? TSR_TOP_TEXT_SIZE : 5);
    tsr__fragment_metadata_release(&m);
  }
}

static void test_nan_ends_become_the_domains(void **state) {
  fixture *f = *state;
  const float nan = __builtin_nanf(""), low = -1, high = 5;
  f->fields[1].datatype = TSR_FLOAT32;
  memcpy(f->fields[1].low, &low, 4);
  memcpy(f->fields[1].high, &high, 4);
  put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 1, .footer_only = true});
  uint8_t *range = f->out.data + f->footer_at + 4 + 15 + 2 + 8;
  memcpy(range, &nan, 4);
  memcpy(range + 4, &nan, 4);
  tsr_fragment_metadata m;
  assert_int_equal(tsr__fragment_metadata_decode_footer(f->out.data, f->out.size - 8, 0, 0, find, f,
                                                        tsr__arena(&f->memory), &m, NULL),
                   TSR_OK);
  assert_memory_equal(m.non_empty_domain[1].low, &low, 4);
  assert_memory_equal(m.non_empty_domain[1].high, &high, 4);
  tsr__fragment_metadata_release(&m);
}

typedef struct change { /* one value in a footer of version 22 (int32 dimensions), and what the message must say */
  uint64_t at;
  uint64_t size;
  uint64_t value;
  int code;
  const char *message;
} change;

static void test_broken_footers_are_refused(void **state) {
  fixture *f = *state;
  enum { NAME = 4, DENSE = 19, EMPTY = 20, DOMAIN_AT = 21, COUNT_AT = 37, LAST = 45, TIMES = 53, SIZES = 55 };
  enum { RTREE = SIZES + 3 * 6 * 8, OFFSETS = RTREE + 8 };
  const change changes[] = {
      {0, 4, 24, TSR_UNSUPPORTED, "version 24"},
      {0, 4, 2, TSR_CORRUPT, "version 2"},
      {NAME, 8, 0, TSR_CORRUPT, "schema's name"},
      {NAME, 8, UINT64_MAX, TSR_CORRUPT, "schema name ends early"},
      {NAME + 8, 1, '/', TSR_CORRUPT, "schema's name"},
      {NAME + 8, 1, 0, TSR_CORRUPT, "schema's name"},
      {DENSE, 1, 2, TSR_CORRUPT, "'dense' is 2"},
      {EMPTY, 1, 1, TSR_CORRUPT, "non-empty domain is empty"},
      {EMPTY, 1, 9, TSR_CORRUPT, "'empty domain' is 9"},
      {DOMAIN_AT, 4, (uint32_t)-11, TSR_CORRUPT, "'x': it is not within the domain"},
      {DOMAIN_AT + 4, 4, 10, TSR_CORRUPT, "'x': it is not within the domain"},
      {DOMAIN_AT + 12, 4, (uint32_t)-1, TSR_CORRUPT, "'y': the low end is above the high end"},
      {COUNT_AT, 8, 39, TSR_CORRUPT, "39 tiles in a file of 307 bytes"},
      {COUNT_AT, 8, UINT64_MAX, TSR_CORRUPT, "tiles in a file of 307 bytes"},
      {LAST, 8, 0, TSR_CORRUPT, "the last tile has 0 cells"},
      {LAST, 8, CAPACITY + 1, TSR_CORRUPT, "the last tile has 11 cells"},
      {TIMES, 1, 1, TSR_CORRUPT, ""}, /* more rows than there are */
      {SIZES + 8, 8, 23, TSR_CORRUPT, "'s': 3 tiles in a file of 23 bytes"},
      {RTREE, 8, UINT64_MAX, TSR_CORRUPT, "the R-tree should be at byte"},
      {OFFSETS, 8, 1 << 20, TSR_CORRUPT, "metadata of 'a' should be at byte 1048576"},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const change *c = &changes[i];
    put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 4});
    memcpy(f->out.data + f->footer_at + c->at, &c->value, c->size);
    tsr_fragment_metadata m;
    tsr_error error = {0};
    int code =
        tsr__fragment_metadata_decode_footer(f->out.data + f->footer_at, f->out.size - 8 - f->footer_at, f->out.size,
                                             f->footer_at, find, f, tsr__arena(&f->memory), &m, &error);
    assert_int_equal(code, c->code);
    if (!strstr(error.message, c->message)) fail_msg("%zu: '%s' is not '%s'", i, error.message, c->message);
  }
}

static void test_footers_that_do_not_fit_the_file_are_refused(void **state) {
  fixture *f = *state;
  tsr_fragment_metadata m;
  tsr_error error = {0};
  put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 4});
  tsr_file *file = as_file(f);
  assert_int_equal(read_metadata(f, file, 21, &m, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "the footer says version 22, the fragment's name 21"));
  assert_int_equal(read_metadata(f, file, 0, &m, &error), TSR_CORRUPT);
  assert_int_equal(read_metadata(f, file, 24, &m, &error), TSR_UNSUPPORTED);
  tsr__store_close_file(file);

  tsr__store64(f->out.data + f->out.size - 8, f->out.size - 7); /* a footer larger than the file */
  file = as_file(f);
  assert_int_equal(read_metadata(f, file, 22, &m, &error), TSR_CORRUPT);
  tsr__store_close_file(file);

  f->out.size = 7;
  file = as_file(f);
  assert_int_equal(read_metadata(f, file, 22, &m, &error), TSR_CORRUPT);
  assert_int_equal(read_metadata(f, file, 7, &m, &error), TSR_CORRUPT);
  tsr__store_close_file(file);
  f->out.size = 0;
  file = as_file(f);
  assert_int_equal(read_metadata(f, file, 22, &m, &error), TSR_CORRUPT);
  assert_true(read_metadata(f, file, 0, &m, &error) < 0);
  tsr__store_close_file(file);
}

/* The R-tree has another number of leaves than the fragment has tiles; the list of processed conditions is broken. */
static void test_broken_rtree_and_conditions_are_refused(void **state) {
  fixture *f = *state;
  put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 4});
  tsr__store64(f->out.data + f->footer_at + 37, TILES - 1);
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  tsr_error error = {0};
  assert_int_equal(read_metadata(f, file, 22, &m, NULL), TSR_OK);
  assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "3 leaves, the fragment 2 tiles"));
  assert_null(m.rtree);
  m.at.processed_conditions = m.at.rtree;
  assert_int_equal(tsr__fragment_metadata_load_processed(&m, file, NULL, &error), TSR_CORRUPT);
  assert_false(m.processed.loaded);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);
}

/* ---- Versions 1 and 2 -------------------------------------------------------------------------------------------- */

static void put_numbers(tsr_buffer *out, uint64_t count, uint64_t step) {
  put64(out, count);
  for (uint64_t i = 0; i < count; i++) put64(out, i * step);
}

static void put_old(fixture *f, uint32_t version, uint64_t boxes, uint64_t tiles) {
  tsr_buffer content = {.memory = &f->memory};
  f->out.size = 0;
  put32(&content, version);
  put64(&content, 16);
  put_box(f, &content);
  put64(&content, boxes);
  for (uint64_t i = 0; i < boxes; i++) put_box(f, &content);
  put64(&content, boxes);
  for (uint64_t i = 0; i < boxes; i++) put_box(f, &content);
  for (int i = 0; i < 3; i++) put_numbers(&content, tiles, 100);
  put_numbers(&content, boxes, 100); /* __coords */
  put_numbers(&content, tiles, 0);
  put_numbers(&content, tiles, 100);
  put_numbers(&content, tiles, 0);
  put_numbers(&content, 0, 0);
  put_numbers(&content, tiles, 5);
  put_numbers(&content, 0, 0);
  put64(&content, boxes ? 4 : 0);
  for (int i = 0; i < 4; i++) put64(&content, i == 3 && !boxes ? 0 : tiles * 100 + 7);
  for (int i = 0; i < 3; i++) put64(&content, i == 1 ? tiles * 100 + 7 : 0);
  put_generic(&f->out, version, &content);
  tsr__buffer_release(&content);
}

static void test_versions_1_and_2_decode(void **state) {
  fixture *f = *state;
  for (uint32_t version = 1; version <= 2; version++) {
    put_old(f, version, TILES, TILES);
    tsr_file *file = as_file(f);
    tsr_fragment_metadata m;
    tsr_error error = {0};
    int code = read_metadata(f, file, 0, &m, &error);
    if (code < 0) fail_msg("%s", error.message);
    assert_int_equal(m.version, version);
    assert_false(m.dense);
    assert_int_equal(m.tile_count, TILES);
    assert_int_equal(m.last_tile_cells, 4);
    assert_int_equal(m.slot_count, 4);
    assert_int_equal(m.slots[3].offsets[TSR_PART_FIXED][2], 200);
    assert_int_equal(m.slots[3].offsets[TSR_PART_FIXED][3], 307);
    assert_int_equal(m.slots[1].offsets[TSR_PART_VARIABLE][1], 100);
    assert_int_equal(m.slots[1].var_sizes[2], 10);
    assert_null(m.slots[0].offsets[TSR_PART_VARIABLE]);
    assert_int_equal(m.rtree->levels, 1);
    assert_int_equal(m.rtree->counts[0], TILES);
    assert_int_equal(tsr__fragment_metadata_load_slot(&m, 1, file, NULL, NULL), TSR_OK);
    assert_int_equal(tsr__fragment_metadata_load_rtree(&m, file, NULL, NULL), TSR_OK);
    assert_int_equal(tsr__fragment_metadata_load_processed(&m, file, NULL, NULL), TSR_OK);
    tsr_statistics statistics;
    assert_int_equal(tsr__fragment_metadata_statistics(&m, 0, file, NULL, &statistics, NULL), TSR_OK);
    assert_null(statistics.min);
    assert_int_equal(tsr__fragment_slot(&m, 1), 3);
    tsr__fragment_metadata_release(&m);
    tsr__store_close_file(file);
  }
  f->schema.dense = true;
  put_old(f, 2, 0, 2);
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  assert_int_equal(read_metadata(f, file, 0, &m, NULL), TSR_OK);
  assert_true(m.dense);
  assert_int_equal(m.tile_count, 2);
  assert_int_equal(m.last_tile_cells, 25);
  assert_false(m.slots[3].present);
  assert_int_equal(m.slots[0].offsets[TSR_PART_FIXED][2], 207);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);

  put_old(f, 2, 0, 3); /* the box touches two */
  file = as_file(f);
  tsr_error error = {0};
  assert_int_equal(read_metadata(f, file, 0, &m, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "3 entries for 2 tiles"));
  tsr__store_close_file(file);
}

/* ---- Fragments that TileDB wrote --------------------------------------------------------------------------------- */

/* int32 x -50..49, y 1..64; a int32, s CHAR of variable size, f float64, v3 three float32; capacity 4. */
static tsr_schema real_schema(tsr_field fields[6]) {
  memset(fields, 0, 6 * sizeof *fields);
  fields[0] = (tsr_field){.name = "x", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4, .has_domain = true};
  fields[1] = fields[0];
  fields[1].name = "y";
  set32(fields[0].low, -50);
  set32(fields[0].high, 49);
  set32(fields[1].low, 1);
  set32(fields[1].high, 64);
  fields[2] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4};
  fields[3] = (tsr_field){.name = "s", .datatype = TSR_CHAR, .values_per_cell = TSR_VARIABLE};
  fields[4] = (tsr_field){.name = "f", .datatype = TSR_FLOAT64, .values_per_cell = 1, .cell_size = 8};
  fields[5] = (tsr_field){.name = "v3", .datatype = TSR_FLOAT32, .values_per_cell = 3, .cell_size = 12};
  return (tsr_schema){.dimension_count = 2, .attribute_count = 4, .fields = fields, .capacity = 4};
}

static void put_hex(tsr_buffer *out, const char *text) {
  out->size = 0;
  for (; *text; text += 2) {
    unsigned value;
    assert_int_equal(sscanf(text, "%2x", &value), 1);
    put8(out, (uint8_t)value);
  }
}

/* TileDB 1.5: version 2, all in one gzip tile; ten cells. */
static void test_metadata_by_tiledb_1_5_decodes(void **state) {
  fixture *f = *state;
  tsr_field fields[6];
  f->schema = real_schema(fields);
  put_hex(&f->out, "02000000d0000000000000007c020000000000000401000000000000000012000000000001000100000001050000000101"
                   "00000001000000000000007c020000ac0000001000000000000000010000007c020000ac00000078016362606010006210"
                   "b8f2ffff7f5d20cd02c4e640cc0cc42000127f09c45c403648fc2b902d05a441ea4c8018a40784398058118891f581f820"
                   "bd2075207d205a0288458018a6074423eb0372c1c0164a57416998b9502e833394d18643de1d2ade8b43de052ade8143be"
                   "082afe04873c54184ea1bbcf182a9343a67eb8c124ea6787aae785d20a24ea872ac7a098a022eba1f461287d164a6f81d2"
                   "6e8c500694da84ca85f3007cf62750");
  tsr_file *file = as_file(f);
  tsr_fragment_metadata m;
  assert_int_equal(read_metadata(f, file, 0, &m, NULL), TSR_OK);
  assert_int_equal(m.version, 2);
  assert_false(m.dense);
  assert_int_equal(m.tile_count, 3);
  assert_int_equal(m.last_tile_cells, 2);
  assert_int_equal((int32_t)tsr__load32(m.non_empty_domain[0].low), -44);
  assert_int_equal((int32_t)tsr__load32(m.non_empty_domain[0].high), 45);
  assert_int_equal(m.rtree->counts[0], 3);
  assert_int_equal(m.slots[4].offsets[TSR_PART_FIXED][0], 0);
  assert_int_equal(m.slots[4].offsets[TSR_PART_FIXED][3], m.slots[4].file_size[TSR_PART_FIXED]);
  tsr__fragment_metadata_release(&m);
  tsr__store_close_file(file);
}

/* TileDB 1.6: a footer of version 3; fifteen cells. */
static void test_metadata_by_tiledb_1_6_decodes(void **state) {
  fixture *f = *state;
  tsr_field fields[6];
  f->schema = real_schema(fields);
  put_hex(&f->out, "030000000000d2ffffff2c000000010000004000000004000000000000000300000000000000f000000000000000090100"
                   "000000000016010000000000000401000000000000c0010000000000000000000000000000f50000000000000000000000"
                   "0000000000000000000000000000000000000000a2000000000000000d010000000000007801000000000000e301000000"
                   "0000004e02000000000000bb020000000000001f030000000000008a03000000000000ee03000000000000520400000000"
                   "0000b60400000000000021050000000000008505000000000000");
  tsr_fragment_metadata m;
  tsr_error error = {0};
  int code = tsr__fragment_metadata_decode_footer(f->out.data, f->out.size, 1735, 1735 - f->out.size, find, f,
                                                  tsr__arena(&f->memory), &m, &error);
  if (code < 0) fail_msg("%s", error.message);
  assert_int_equal(m.tile_count, 4);
  assert_int_equal(m.last_tile_cells, 3);
  assert_int_equal((int32_t)tsr__load32(m.non_empty_domain[0].low), -46);
  assert_int_equal(m.slots[1].file_size[TSR_PART_FIXED], 265);
  assert_int_equal(m.slots[1].file_size[TSR_PART_VARIABLE], 245);
  assert_int_equal(m.slots[4].file_size[TSR_PART_FIXED], 448);
  assert_int_equal(m.at.rtree, 0);
  assert_int_equal(m.slots[0].offsets_at[TSR_PART_FIXED], 162);
  assert_int_equal(m.slots[3].var_sizes_at, 1413);
  tsr__fragment_metadata_release(&m);
}

/* ---- Damage ------------------------------------------------------------------------------------------------------ */

static int load_all(fixture *f, tsr_file *file, uint32_t version, tsr_error *error) {
  tsr_fragment_metadata m;
  int code = read_metadata(f, file, version, &m, error);
  if (code < 0) return code;
  code = tsr__fragment_metadata_load_rtree(&m, file, NULL, error);
  if (code == TSR_OK) code = tsr__fragment_metadata_load_processed(&m, file, NULL, error);
  for (uint32_t slot = 0; slot < m.slot_count && code == TSR_OK; slot++) {
    tsr_statistics statistics;
    code = tsr__fragment_metadata_load_slot(&m, slot, file, NULL, error);
    if (code == TSR_OK) code = tsr__fragment_metadata_statistics(&m, slot, file, NULL, &statistics, error);
  }
  tsr__fragment_metadata_release(&m);
  return code;
}

/* A file that is cut short is refused. A file with one changed byte is refused or decoded without harm. `out` holds the
 * file. */
static void damage(fixture *f, uint32_t version) {
  uint64_t size = f->out.size;
  tsr_file *file = as_file(f);
  assert_int_equal(load_all(f, file, version, NULL), TSR_OK);
  tsr__store_close_file(file);
  for (uint64_t cut = 0; cut < size; cut++) {
    f->out.size = cut;
    file = as_file(f);
    tsr_error error = {0};
    assert_true(load_all(f, file, version, &error) < 0);
    tsr__store_close_file(file);
  }
  f->out.size = size;
  for (uint64_t at = 0; at < size; at++) {
    uint8_t was = f->out.data[at];
    f->out.data[at] = (uint8_t)(at % 3 == 0 ? 0xff : at % 3 == 1 ? was ^ 1 : was + 128);
    file = as_file(f);
    tsr_error error = {0};
    int code = load_all(f, file, version, &error);
    if (code != TSR_OK && code != TSR_CORRUPT && code != TSR_UNSUPPORTED && code != TSR_AUTH) {
      fail_msg("byte %d: %d %s", (int)at, code, error.message);
    }
    tsr__store_close_file(file);
    f->out.data[at] = was;
  }
}

static void test_damaged_footers_are_harmless(void **state) {
  put_metadata(*state, &(shape){.version = 23, .tiles = TILES, .last = 4, .times = true});
  damage(*state, 23);
}

static void test_damaged_text_footers_are_harmless(void **state) {
  text_y(*state);
  put_metadata(*state, &(shape){.version = 7, .tiles = TILES, .last = 4});
  damage(*state, 7);
}

static void test_damaged_old_metadata_is_harmless(void **state) {
  put_old(*state, 2, TILES, TILES);
  damage(*state, 0);
}

static void test_out_of_budget(void **state) {
  fixture *f = *state;
  put_metadata(f, &(shape){.version = 22, .tiles = TILES, .last = 4});
  tsr_file *file = as_file(f);
  bool worked = false;
  for (uint64_t limit = 0; !worked && limit < 1 << 20; limit += 512) {
    tsr_memory small;
    tsr__memory_init(&small, &f->memory, limit, "test");
    tsr_fragment_metadata m;
    tsr_error error = {0};
    int code = tsr__fragment_metadata_read(file, 22, NULL, find, f, tsr__arena(&small), &m, &error);
    if (code == TSR_OK) {
      code = tsr__fragment_metadata_load_rtree(&m, file, NULL, &error);
      if (code == TSR_OK) code = tsr__fragment_metadata_load_processed(&m, file, NULL, &error);
      if (code == TSR_OK) code = tsr__fragment_metadata_load_slot(&m, 1, file, NULL, &error);
      tsr__fragment_metadata_release(&m);
    }
    worked = code == TSR_OK;
    if (!worked) assert_int_equal(code, TSR_BUDGET);
    assert_int_equal(small.used, 0);
  }
  assert_true(worked);
  tsr__store_close_file(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_sparse_metadata_of_all_versions_decodes),
      TEST(test_dense_metadata_decodes),
      TEST(test_sparse_fragment_in_dense_array_is_accepted),
      TEST(test_fragment_without_cells_decodes),
      TEST(test_optional_sections_are_skipped),
      TEST(test_longer_footer_of_version_11_decodes),
      TEST(test_lost_high_end_is_open),
      TEST(test_nan_ends_become_the_domains),
      TEST(test_broken_footers_are_refused),
      TEST(test_footers_that_do_not_fit_the_file_are_refused),
      TEST(test_broken_rtree_and_conditions_are_refused),
      TEST(test_versions_1_and_2_decode),
      TEST(test_metadata_by_tiledb_1_5_decodes),
      TEST(test_metadata_by_tiledb_1_6_decodes),
      TEST(test_damaged_footers_are_harmless),
      TEST(test_damaged_text_footers_are_harmless),
      TEST(test_damaged_old_metadata_is_harmless),
      TEST(test_out_of_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
