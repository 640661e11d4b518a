/* test_schema.c: schemas of every version decode, made here or by TileDB; each rule of the format is broken once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The default fill value of a cell is as large as the schema says: this budget bounds it. */
#define CLAIMS_MAX(size) ((uint64_t)64 << 20)

#include "model/domain.h"
#include "format/schema.h"
#include "format_test.h"

/* Real schemas, by TileDB 1.5, 2.2, 2.14 and 2.30. */
#define VERSION_2                                                                                                      \
  "0200000001000002000000000000000000010001000000020500000002ffffffff0000010001000000020500000002ffffffff0002000000"   \
  "0100000078ceffffff31000000000a0000000100000079010000004000000000100000000100000001000000610001000000000001000100"   \
  "0000020500000002ffffffff"
#define VERSION_7                                                                                                      \
  "070000000001000004000000000000000000010001000000020500000002ffffffff0000010001000000020500000002ffffffff00000100"   \
  "01000000040500000004ffffffff01000000010000006b0bffffffff00000100000000000000000000000000010200000001000000610001"   \
  "0000000000010001000000020500000002ffffffff040000000000000000000080000001000000730bffffffff0000010001000000010500"   \
  "000001ffffffff0100000000000000000000"
#define VERSION_17                                                                                                     \
  "110000000000000010270000000000000000010001000000020500000002ffffffff0000010001000000020500000002ffffffff00000100"   \
  "01000000040500000004ffffffff020000000100000072000100000000000100000000000800000000000000010000000a00000000040000"   \
  "0001000000630001000000000001000000000008000000000000000100000008000000000300000004000000010000006100010000000000"   \
  "010001000000020500000002ffffffff04000000000000000000008001000001000000730bffffffff000001000000000001000000000000"   \
  "00000100000100000066030200000000000100000000001000000000000000000000000000f87f000000000000f87f010000040000006669"   \
  "6c6c06010000000000010000000000010000000000000007010100"
#define LABEL                                                                                                          \
  "160000000000000010270000000000000000010001000000020500000002ffffffff0000010001000000020500000002ffffffff00000100"   \
  "01000000040500000004ffffffff020000000100000072000100000000000100000000000800000000000000010000000a00000000040000"   \
  "0001000000630001000000000001000000000008000000000000000000000007000000000300000001000000010000006100010000000000"   \
  "010000000000040000000000000000000080000000000000000100000001000000020000006e6d010b000000000000005f5f6c6162656c73"   \
  "2f6c30050000006c6162656c010bffffffff00000000000000000001"
#define CURRENT_DOMAIN                                                                                                 \
  "160000000001000005000000000000000000010001000000020500000002ffffffff0000010001000000020500000002ffffffff00000100"   \
  "01000000040500000004ffffffff02000000010000006b0bffffffff00000100000000000000000000000000010100000072010100000000"   \
  "0001000000000010000000000000000000000000000000000000000000001000e80300000000000002000000010000006100010000000000"   \
  "0100000000000400000000000000000000800000000000000001000000730bffffffff000001000000000001000000000000000000000000"   \
  "000000000000000000000000000000000002000000000000000100000000000000616d0000000000000000f401000000000000"

/* Makes a schema with a field of every kind that a version has: x, y (or the string k from version 5 on), a, b, c. The
 * offsets of its parts are kept, so that tests can break them. */
typedef struct built {
  bytes b;
  uint64_t sparse_at, tile_order_at, cell_order_at, capacity_at, dimensions_at, x_at, low_at, no_extent_at, extent_at;
  uint64_t attributes_at, a_at, fill_at, nullable_at, order_at, reference_at, label_at, enumerations_at, file_at;
  uint64_t current_at, box_at;
} built;

static void put_pipeline(bytes *b) { put32(b, 65536), put32(b, 0); }

static void put_dimension(built *s, uint32_t version, const char *name, int32_t low, int32_t high, int32_t extent) {
  bytes *b = &s->b;
  s->x_at = b->size;
  put_text32(b, name);
  if (version >= 5) put8(b, TSR_INT32), put32(b, 1), put_pipeline(b), put64(b, 8);
  s->low_at = b->size;
  put32(b, (uint32_t)low), put32(b, (uint32_t)high);
  s->no_extent_at = b->size;
  put8(b, 0);
  s->extent_at = b->size;
  put32(b, (uint32_t)extent);
}

static void put_attribute(built *s, uint32_t version, const char *name, uint8_t datatype, uint32_t values,
                          bool nullable, const char *enumeration) {
  static const uint8_t fill[64] = {1, 2, 3, 4};
  bytes *b = &s->b;
  s->a_at = b->size;
  put_text32(b, name);
  put8(b, datatype), put32(b, values), put_pipeline(b);
  uint64_t size = values == TSR_VARIABLE ? 3 : values * tsr_datatype_size((tsr_datatype)datatype);
  s->fill_at = b->size;
  if (version >= 6) put64(b, size), put(b, fill, size);
  s->nullable_at = b->size;
  if (version >= 7) put8(b, nullable), put8(b, nullable);
  s->order_at = b->size;
  if (version >= 17) put8(b, 1);
  s->reference_at = b->size + 4;
  if (version >= 20) put_text32(b, enumeration);
}

static built build(uint32_t version, bool dense) {
  built s = {0};
  bytes *b = &s.b;
  put32(b, version);
  if (version >= 5) put8(b, !dense);
  s.sparse_at = b->size;
  put8(b, !dense);
  s.tile_order_at = b->size;
  put8(b, TSR_ORDER_COL);
  s.cell_order_at = b->size;
  put8(b, TSR_ORDER_ROW);
  s.capacity_at = b->size;
  put64(b, 77);
  put_pipeline(b), put_pipeline(b);
  if (version >= 7) put_pipeline(b);
  if (version < 5) put8(b, TSR_INT32);
  s.dimensions_at = b->size;
  put32(b, 2);
  put_dimension(&s, version, "y", -5, 5, 4);
  if (version >= 5 && !dense) {
    put_text32(b, "k"), put8(b, TSR_ASCII), put32(b, TSR_VARIABLE), put_pipeline(b), put64(b, 0), put8(b, 1);
  } else put_dimension(&s, version, "x", -10, 9, 7);
  s.attributes_at = b->size;
  put32(b, 3);
  put_attribute(&s, version, "b", TSR_FLOAT64, 2, false, "");
  put_attribute(&s, version, "", TSR_UTF8, TSR_VARIABLE, true, "");
  put_attribute(&s, version, "a", TSR_INT16, 1, true, "e");
  if (version >= 18) {
    put32(b, 1);
    s.label_at = b->size;
    put32(b, 1), put_text32(b, "l"), put8(b, 1), put_text64(b, "__labels/l0"), put_text32(b, "label"), put8(b, 1);
    put8(b, TSR_FLOAT64), put32(b, 1), put8(b, 0);
  }
  if (version >= 20) {
    s.enumerations_at = b->size;
    put32(b, 2), put_text32(b, "e"), put_text32(b, "__file_0"), put_text32(b, "f");
    s.file_at = b->size + 4;
    put_text32(b, "__file_1");
  }
  s.current_at = b->size;
  if (version >= 22) {
    put32(b, 0), put8(b, 0), put8(b, 0);
    s.box_at = b->size;
    put32(b, (uint32_t)-2), put32(b, 3);
    if (dense) put32(b, 0), put32(b, 9);
    else put64(b, 3), put64(b, 1), put_text(b, "abc");
  }
  return s;
}

static int decode(tsr_input in, tsr_arena *arena, tsr_error *error) {
  tsr_schema schema;
  return tsr__schema_decode(&in, "__10_12_0123456789abcdef0123456789abcdef", arena, &schema, error);
}

static void open_schema(room *r, const bytes *b, const char *name, tsr_schema *schema) {
  room_open(r, UINT64_MAX);
  tsr_input in = tsr__input(b->data, b->size);
  tsr_error error = {0};
  if (tsr__schema_decode(&in, name, &r->arena, schema, &error) < 0) fail_msg("%s", error.message);
}

static int32_t as_int(const uint8_t *value) {
  int32_t v;
  memcpy(&v, value, 4);
  return v;
}

static void test_schemas_of_all_versions_decode(void **state) {
  for (uint32_t version = TSR_FORMAT_READ_MIN; version <= TSR_FORMAT_READ_MAX; version++)
    for (int dense = 0; dense < 2; dense++) {
      built s = build(version, dense);
      room r;
      tsr_schema schema;
      open_schema(&r, &s.b, "__10_12_0123456789abcdef0123456789abcdef", &schema);
      assert_int_equal(schema.version, version);
      assert_int_equal(schema.time, 12);
      assert_int_equal(schema.dense, dense);
      assert_int_equal(schema.allows_duplicates, version >= 5 && !dense);
      assert_false(schema.key_value);
      assert_int_equal(schema.tile_order, TSR_ORDER_COL);
      assert_int_equal(schema.cell_order, TSR_ORDER_ROW);
      assert_int_equal(schema.capacity, 77);
      assert_int_equal(schema.validity_filters.max_chunk_size, 65536);
      assert_int_equal(schema.dimension_count, 2);
      assert_int_equal(schema.attribute_count, 3);

      const tsr_field *f = schema.fields;
      assert_string_equal(f[0].name, "y");
      assert_true(f[0].is_dimension && f[0].has_domain && f[0].has_extent);
      assert_int_equal(as_int(f[0].low), -5);
      assert_int_equal(as_int(f[0].high), 5);
      assert_int_equal(as_int(f[0].extent), 4);
      assert_int_equal(f[0].cell_size, 4);
      bool text = version >= 5 && !dense;
      assert_string_equal(f[1].name, text ? "k" : "x");
      assert_int_equal(f[1].has_domain, !text);
      assert_int_equal(f[1].has_extent, !text);
      assert_int_equal(f[1].values_per_cell, text ? TSR_VARIABLE : 1);
      assert_int_equal(f[1].cell_size, text ? 0 : 4);

      assert_false(f[2].is_dimension);
      assert_int_equal(f[2].cell_size, 16);
      assert_int_equal(f[2].fill_size, 16);
      assert_int_equal(f[2].nullable, false);
      double nan;
      memcpy(&nan, f[2].fill + 8, 8);
      if (version < 6) assert_true(nan != nan);
      else assert_int_equal(f[2].fill[1], 2);
      assert_string_equal(f[3].name, "");
      assert_int_equal(f[3].cell_size, 0);
      assert_int_equal(f[3].fill_size, version < 6 ? 1 : 3);
      assert_int_equal(f[4].nullable, version >= 7);
      assert_int_equal(f[4].fill_validity, version >= 7);
      assert_int_equal(f[4].data_order, version >= 17);
      if (version < 20) assert_null(f[4].enumeration);
      else assert_string_equal(f[4].enumeration, "e");
      assert_int_equal(schema.label_count, version >= 18);
      assert_int_equal(schema.enumeration_count, version >= 20 ? 2 : 0);
      assert_int_equal(schema.current_domain != NULL, version >= 22);
      if (schema.current_domain) {
        assert_int_equal(as_int(schema.current_domain[0].low), -2);
        if (text) {
          assert_int_equal(schema.current_domain[1].low_size, 1);
          assert_memory_equal(schema.current_domain[1].high_text, "bc", 2);
        } else assert_int_equal(as_int(schema.current_domain[1].high), 9);
      }
      assert_int_equal(tsr__schema_field(&schema, "a"), 4);
      assert_int_equal(tsr__schema_field(&schema, ""), 3);
      assert_int_equal(tsr__schema_field(&schema, "A"), -1);
      room_close(&r);
      drop(&s.b);
    }
}

static void test_dimensions_inherit_coords_filters(void **state) {
  bytes b = {0};
  put_hex(&b, VERSION_7);
  room r;
  tsr_schema schema;
  open_schema(&r, &b, "__array_schema.tdb", &schema);
  assert_int_equal(schema.time, 0);
  assert_ptr_equal(tsr__schema_pipeline(&schema, 0), &schema.coords_filters);
  assert_ptr_equal(tsr__schema_pipeline(&schema, 1), &schema.fields[1].filters);
  assert_int_equal(schema.coords_filters.filters[0].type, TSR_FILTER_ZSTD);
  assert_int_equal(schema.validity_filters.filters[0].type, TSR_FILTER_RLE);
  schema.version = 4; /* a fragment of version 5 or later in such an array */
  assert_int_equal(tsr__schema_pipeline(&schema, 0)->count, 0);
  room_close(&r);
  drop(&b);
}

static void test_key_value_stores_decode(void **state) {
  bytes b = {0};
  put_hex(&b, VERSION_2);
  room r;
  tsr_schema schema;
  open_schema(&r, &b, "__kv_schema.tdb", &schema);
  assert_true(schema.key_value && !schema.dense);
  assert_int_equal(schema.fields[0].datatype, TSR_INT32);
  assert_int_equal(as_int(schema.fields[2].fill), INT32_MIN);
  room_close(&r);
  drop(&b);
}

static void test_schemas_by_tiledb_decode(void **state) {
  const char *vectors[] = {VERSION_2, VERSION_7, VERSION_17, LABEL, CURRENT_DOMAIN};
  for (int i = 0; i < 5; i++) {
    bytes b = {0};
    put_hex(&b, vectors[i]);
    assert_truncation_refused(decode, &b);
    survive_flips(decode, &b);
    drop(&b);
  }
  bytes b = {0};
  put_hex(&b, LABEL);
  room r;
  tsr_schema schema;
  open_schema(&r, &b, "__1_1_aa", &schema);
  assert_int_equal(schema.label_count, 1);
  assert_string_equal(schema.labels[0].name, "nm");
  assert_string_equal(schema.labels[0].uri, "__labels/l0");
  assert_true(schema.labels[0].relative);
  assert_int_equal(schema.labels[0].dimension, 1);
  assert_int_equal(schema.labels[0].datatype, TSR_ASCII);
  assert_null(schema.current_domain);
  room_close(&r);
  drop(&b);
}

/* Version 0, a version that is too new, and bytes that follow the schema are refused. */
static void test_unknown_versions_and_trailing_bytes_are_refused(void **state) {
  built s = build(22, false);
  s.b.data[0] = 24;
  assert_refused(decode, &s.b, TSR_UNSUPPORTED, "version 24");
  s.b.data[0] = 0;
  assert_refused(decode, &s.b, TSR_CORRUPT, "version 0");
  s.b.data[0] = 22;
  put8(&s.b, 0);
  assert_refused(decode, &s.b, TSR_CORRUPT, "1 bytes follow its end");
  drop(&s.b);
}

/* Breaks each rule once, in a schema of the version and kind that the rule applies to. */
static void test_broken_schemas_are_refused(void **state) {
  const float infinity = HUGE_VALF, one = 1;
#define AT(field) offsetof(built, field)
  static const struct {
    bool dense;
    uint32_t version;
    size_t field; /* offset of the member of `built` that has its place */
    uint64_t plus, width, value;
    int code;
    const char *says;
  } cases[] = {
      {false, 22, AT(sparse_at), 0, 1, 2, TSR_CORRUPT, "array type"},
      {false, 22, AT(tile_order_at), 0, 1, 2, TSR_CORRUPT, "tile order"},
      {false, 22, AT(cell_order_at), 0, 1, 3, TSR_CORRUPT, "cell order 3"},
      {true, 22, AT(cell_order_at), 0, 1, 4, TSR_CORRUPT, "Hilbert"},
      {false, 22, AT(cell_order_at), 0, 1, 4, TSR_OK, ""},
      {false, 22, AT(capacity_at), 0, 8, 0, TSR_CORRUPT, "capacity 0"},
      {true, 22, AT(capacity_at), 0, 8, 0, TSR_OK, ""},
      {false, 22, AT(dimensions_at), 0, 4, 0, TSR_CORRUPT, "no dimension"},
      {false, 22, AT(dimensions_at), 0, 4, UINT32_MAX, TSR_CORRUPT, "do not fit into"},
      {true, 22, AT(x_at), 4, 1, 'y', TSR_CORRUPT, "two fields are named 'y'"},
      {true, 22, AT(x_at), 4, 1, 'a', TSR_CORRUPT, "two fields are named 'a'"},
      {true, 22, AT(x_at), 4, 1, 0, TSR_CORRUPT, "NUL"},
      {true, 22, AT(x_at), 0, 4, UINT32_MAX, TSR_CORRUPT, "ends early"},
      {true, 22, AT(x_at), 5, 1, 44, TSR_CORRUPT, "datatype 44"},
      {true, 22, AT(x_at), 5, 1, TSR_CHAR, TSR_CORRUPT, "not a dimension's"},
      {true, 22, AT(x_at), 5, 1, TSR_ASCII, TSR_CORRUPT, "values per cell"},
      {true, 22, AT(x_at), 5, 1, TSR_UINT32, TSR_CORRUPT, "above the high end"},
      {true, 22, AT(x_at), 5, 1, TSR_INT64, TSR_CORRUPT, "domain has 8 bytes"},
      {true, 22, AT(x_at), 6, 4, 2, TSR_CORRUPT, "2 values per cell"},
      {true, 22, AT(low_at), 0, 4, 10, TSR_CORRUPT, "above the high end"},
      {true, 22, AT(low_at), 0, 4, 9, TSR_CORRUPT, "outside the domain"},
      {true, 21, AT(low_at), 0, 4, 9, TSR_OK, ""},
      {true, 22, AT(no_extent_at), 0, 1, 2, TSR_CORRUPT, "no tile extent"},
      {true, 22, AT(extent_at), 0, 4, 0, TSR_CORRUPT, "not above 0"},
      {true, 22, AT(extent_at), 0, 4, UINT32_MAX, TSR_OK, ""},
      {true, 22, AT(attributes_at), 0, 4, UINT32_MAX, TSR_CORRUPT, "do not fit into"},
      {true, 22, AT(a_at), 5, 1, 200, TSR_CORRUPT, "datatype 200"},
      {true, 22, AT(a_at), 5, 1, TSR_ANY, TSR_CORRUPT, "ANY"},
      {true, 22, AT(a_at), 6, 4, 0, TSR_CORRUPT, "0 values per cell"},
      {true, 22, AT(a_at), 6, 4, 2, TSR_CORRUPT, "fill value has 2 bytes, its cells 4"},
      {true, 22, AT(a_at), 6, 4, UINT32_MAX - 1, TSR_CORRUPT, "fill value has 2 bytes"},
      {true, 5, AT(a_at), 6, 4, UINT32_MAX - 1, TSR_UNSUPPORTED, "cells of 8589934588 bytes"},
      {true, 5, AT(a_at), 6, 4, 1000, TSR_OK, ""},
      {true, 22, AT(fill_at), 0, 8, UINT64_MAX, TSR_CORRUPT, "ends early"},
      {true, 22, AT(nullable_at), 0, 1, 2, TSR_CORRUPT, "nullable"},
      {true, 22, AT(order_at), 0, 1, 3, TSR_CORRUPT, "order is 3"},
      {true, 22, AT(reference_at), 0, 1, 'g', TSR_CORRUPT, "'g', which is not listed"},
      {true, 22, AT(reference_at), 0, 1, 'f', TSR_OK, ""},
      {true, 22, AT(a_at), 5, 1, TSR_UTF16, TSR_CORRUPT, "no single integer"},
      {true, 22, AT(label_at), 0, 4, 2, TSR_CORRUPT, "dimension 2 of 2"},
      {true, 22, AT(enumerations_at), 8, 1, 'f', TSR_CORRUPT, "two enumerations are named 'f'"},
      {true, 22, AT(file_at), 2, 1, '/', TSR_CORRUPT, "not a file name"},
      {true, 22, AT(current_at), 0, 4, 2, TSR_UNSUPPORTED, "version 2"},
      {true, 22, AT(current_at), 4, 1, 2, TSR_CORRUPT, "no current domain"},
      {true, 22, AT(current_at), 5, 1, 1, TSR_UNSUPPORTED, "type 1"},
      {true, 22, AT(box_at), 0, 4, (uint32_t)-6, TSR_CORRUPT, "outside the domain"},
      {true, 22, AT(box_at), 0, 4, 4, TSR_CORRUPT, "above the high end"},
      {false, 22, AT(box_at), 16, 8, 4, TSR_CORRUPT, "4 of 3 bytes"},
      {false, 22, AT(box_at), 24, 1, 'x', TSR_CORRUPT, "low end is above"},
  };
#undef AT
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    built s = build(cases[i].version, cases[i].dense);
    uint64_t at;
    memcpy(&at, (const char *)&s + cases[i].field, sizeof at);
    memcpy(s.b.data + at + cases[i].plus, &cases[i].value, cases[i].width);
    if (cases[i].code == TSR_OK) assert_accepted(decode, &s.b);
    else assert_refused(decode, &s.b, cases[i].code, cases[i].says);
    drop(&s.b);
  }

  /* Floats as dimensions: not in dense arrays, only finite, extent above 0. */
  for (int i = 0; i < 5; i++) {
    built s = build(4, i == 0);
    s.b.data[s.dimensions_at - 1] = TSR_FLOAT32;
    float ends[] = {-1, 1};
    for (uint64_t at = s.low_at - 18; at <= s.low_at; at += 18) {
      memcpy(s.b.data + at, ends, 8);
      memcpy(s.b.data + at + 9, &one, 4);
    }
    if (i == 2) memcpy(s.b.data + s.low_at + 4, &infinity, 4);
    if (i == 3) memset(s.b.data + s.extent_at + 3, 0xbf, 1);
    if (i == 4) memset(s.b.data + s.extent_at, 0xff, 4); /* NaN: as if there were none */
    if (i == 0) assert_refused(decode, &s.b, TSR_CORRUPT, "dense array with dimension 'y' of FLOAT32");
    if (i == 1 || i == 4) {
      room r;
      tsr_schema schema;
      open_schema(&r, &s.b, "__array_schema.tdb", &schema);
      assert_int_equal(schema.fields[1].has_extent, i == 1);
      assert_true(schema.fields[0].has_extent);
      room_close(&r);
    }
    if (i == 2) assert_refused(decode, &s.b, TSR_CORRUPT, "not finite");
    if (i == 3) assert_refused(decode, &s.b, TSR_CORRUPT, "not above 0");
    drop(&s.b);
  }
}

static void test_number_of_dimensions_is_bounded(void **state) {
  const uint32_t counts[] = {1, 16, 17, TSR_MAX_DIMENSIONS, TSR_MAX_DIMENSIONS + 1};
  for (int i = 0; i < 5; i++) {
    built s = {0};
    put32(&s.b, 5);
    put8(&s.b, 0), put8(&s.b, 1), put8(&s.b, 0);
    put8(&s.b, counts[i] <= 17 ? TSR_ORDER_HILBERT : TSR_ORDER_ROW);
    put64(&s.b, 1), put_pipeline(&s.b), put_pipeline(&s.b);
    put32(&s.b, counts[i]);
    for (uint32_t d = 0; d < counts[i]; d++) {
      char name[16];
      snprintf(name, sizeof name, "d%u", d);
      put_dimension(&s, 5, name, 0, 9, 1);
    }
    put32(&s.b, 0);
    if (i == 2) assert_refused(decode, &s.b, TSR_CORRUPT, "Hilbert order over 17");
    else if (i == 4) assert_refused(decode, &s.b, TSR_UNSUPPORTED, "1025 dimensions");
    else assert_accepted(decode, &s.b);
    drop(&s.b);
  }
}

static void test_sparse_schema_needs_no_attribute(void **state) {
  for (int dense = 0; dense < 2; dense++) {
    built s = build(5, dense);
    s.b.size = s.attributes_at;
    put32(&s.b, 0);
    if (dense) assert_refused(decode, &s.b, TSR_CORRUPT, "without attributes");
    else assert_accepted(decode, &s.b);
    drop(&s.b);
  }
}

/* Each attribute of an old schema takes twenty bytes of the file, and a fill value as large as its cells. */
static void test_default_fills_are_bounded(void **state) {
  for (uint32_t each = 4; each <= 6; each++) {
    built s = build(5, true);
    s.b.size = s.attributes_at;
    put32(&s.b, 3);
    for (char name[] = "a"; *name <= 'c'; ++*name) put_attribute(&s, 5, name, TSR_UINT8, each << 20, false, "");
    if (each < 6) assert_accepted(decode, &s.b);
    else assert_refused(decode, &s.b, TSR_UNSUPPORTED, "take more than 16777216 bytes together");
    drop(&s.b);
  }
}

static void test_damaged_schemas_are_refused_or_harmless(void **state) {
  for (uint32_t version = TSR_FORMAT_READ_MIN; version <= TSR_FORMAT_READ_MAX; version++)
    for (int dense = 0; dense < 2; dense++) {
      built s = build(version, dense);
      assert_truncation_refused(decode, &s.b);
      if (version % 5 == 2) survive_flips(decode, &s.b);
      if (version == 22) assert_budgets(decode, &s.b);
      drop(&s.b);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_schemas_of_all_versions_decode),
      cmocka_unit_test(test_dimensions_inherit_coords_filters),
      cmocka_unit_test(test_key_value_stores_decode),
      cmocka_unit_test(test_schemas_by_tiledb_decode),
      cmocka_unit_test(test_unknown_versions_and_trailing_bytes_are_refused),
      cmocka_unit_test(test_broken_schemas_are_refused),
      cmocka_unit_test(test_number_of_dimensions_is_bounded),
      cmocka_unit_test(test_sparse_schema_needs_no_attribute),
      cmocka_unit_test(test_default_fills_are_bounded),
      cmocka_unit_test(test_damaged_schemas_are_refused_or_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
