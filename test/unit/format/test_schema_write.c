/* test_schema_write.c: schemas encoded in each version that is written, and decoded again. */

#include <string.h>

#include "model/datatype.h"
#include "format/schema.h"
#include "format_test.h"

static tsr_filter two_filters[] = {{.type = TSR_FILTER_BYTESHUFFLE, .level = -1, .reinterpret = TSR_ANY},
                                   {.type = TSR_FILTER_ZSTD, .level = 5, .reinterpret = TSR_ANY}};
#define NO_FILTERS                                                                                                     \
  { .max_chunk_size = 65536 }
#define TWO_FILTERS                                                                                                    \
  { .max_chunk_size = 1000, .count = 2, .filters = two_filters }

static tsr_field number_dimension(const char *name) {
  return (tsr_field){.name = (char *)name,
                     .is_dimension = true,
                     .datatype = TSR_INT32,
                     .values_per_cell = 1,
                     .cell_size = 4,
                     .filters = NO_FILTERS,
                     .has_domain = true,
                     .has_extent = true,
                     .low = {1},
                     .high = {100},
                     .extent = {10}};
}

static tsr_field attribute(const char *name, tsr_datatype datatype, uint32_t values) {
  static uint8_t fills[TSR_DATATYPE_COUNT][64]; /* of one value of each datatype, at most 8 values */
  uint8_t *fill = fills[datatype];
  uint64_t size = values == TSR_VARIABLE ? 0 : values * tsr_datatype_size(datatype);
  for (uint64_t at = 0; at + 8 <= 64; at += tsr_datatype_size(datatype)) tsr__datatype_fill(datatype, fill + at);
  return (tsr_field){.name = (char *)name,
                     .datatype = datatype,
                     .values_per_cell = values,
                     .cell_size = size,
                     .filters = NO_FILTERS,
                     .fill = fill,
                     .fill_size = size ? size : tsr_datatype_size(datatype)};
}

/* Encodes, decodes, encodes again: the bytes are the same. */
static void round_trip(const tsr_schema *schema, tsr_schema *back, room *r) {
  tsr_buffer out = {.memory = &r->memory}, again = {.memory = &r->memory};
  tsr_error error = {0};
  if (tsr__schema_check(schema, &r->memory, &error) < 0) fail_msg("%s", error.message);
  if (tsr__schema_encode(schema, &out, &error) < 0) fail_msg("%s", error.message);
  tsr_input in = tsr__input(out.data, out.size);
  if (tsr__schema_decode(&in, "__1_1_0123456789abcdef0123456789abcdef", &r->arena, back, &error) < 0)
    fail_msg("version %u: %s", schema->version, error.message);
  assert_int_equal(tsr__schema_encode(back, &again, &error), TSR_OK);
  assert_int_equal(again.size, out.size);
  assert_memory_equal(again.data, out.data, out.size);
  tsr__buffer_release(&out);
  tsr__buffer_release(&again);
}

static void test_plain_schemas_of_all_versions(void **state) {
  for (uint32_t version = 3; version <= TSR_FORMAT_WRITE_MAX; version = version == 3 ? 12 : version + 1) {
    tsr_field fields[] = {number_dimension("x"), number_dimension("y"), attribute("a", TSR_FLOAT64, 1),
                          attribute("", TSR_CHAR, TSR_VARIABLE)};
    tsr_schema schema = {.version = version,
                         .tile_order = TSR_ORDER_COL,
                         .cell_order = TSR_ORDER_ROW,
                         .capacity = 77,
                         .coords_filters = TWO_FILTERS,
                         .offsets_filters = NO_FILTERS,
                         .validity_filters = NO_FILTERS,
                         .dimension_count = 2,
                         .attribute_count = 2,
                         .fields = fields};
    tsr_schema back;
    room r;
    room_open(&r, UINT64_MAX);
    round_trip(&schema, &back, &r);
    assert_int_equal(back.version, version);
    assert_false(back.dense);
    assert_int_equal(back.tile_order, TSR_ORDER_COL);
    assert_int_equal(back.capacity, 77);
    assert_int_equal(back.coords_filters.count, 2);
    assert_int_equal(back.coords_filters.filters[1].level, 5);
    assert_string_equal(back.fields[1].name, "y");
    assert_int_equal(back.fields[0].high[0], 100);
    assert_int_equal(back.fields[0].extent[0], 10);
    assert_int_equal(back.fields[2].datatype, TSR_FLOAT64);
    assert_int_equal(back.fields[3].values_per_cell, TSR_VARIABLE);
    room_close(&r);
  }
}

/* Every feature of version 22. */
static void test_schema_with_every_feature(void **state) {
  uint64_t offsets[] = {0, 1, 3};
  tsr_field fields[] = {number_dimension("x"),
                        {.name = "s",
                         .is_dimension = true,
                         .datatype = TSR_ASCII,
                         .values_per_cell = TSR_VARIABLE,
                         .filters = TWO_FILTERS},
                        attribute("e", TSR_UINT8, 1),
                        attribute("n", TSR_INT16, 3)};
  fields[2].enumeration = "labels";
  fields[3].nullable = true;
  fields[3].fill = (uint8_t *)"abcdef";
  fields[3].fill_validity = 1;
  tsr_enumeration labels = {"labels", "__u_0", true, TSR_UTF8, TSR_VARIABLE, false, 2, (uint8_t *)"abb", 3, offsets};
  tsr_interval now[] = {{.low = {5}, .high = {6}},
                        {.low_text = (uint8_t *)"a", .high_text = (uint8_t *)"bcd", .low_size = 1, .high_size = 3}};
  tsr_schema schema = {.version = 22,
                       .allows_duplicates = true,
                       .tile_order = TSR_ORDER_ROW,
                       .cell_order = TSR_ORDER_HILBERT,
                       .capacity = 5,
                       .coords_filters = NO_FILTERS,
                       .offsets_filters = TWO_FILTERS,
                       .validity_filters = NO_FILTERS,
                       .dimension_count = 2,
                       .attribute_count = 2,
                       .fields = fields,
                       .enumeration_count = 1,
                       .enumerations = &labels,
                       .current_domain = now};
  tsr_schema back;
  room r;
  room_open(&r, UINT64_MAX);
  round_trip(&schema, &back, &r);
  assert_true(back.allows_duplicates);
  assert_int_equal(back.cell_order, TSR_ORDER_HILBERT);
  assert_false(back.fields[1].has_domain);
  assert_int_equal(back.fields[1].filters.count, 2);
  assert_string_equal(back.fields[2].enumeration, "labels");
  assert_null(back.fields[3].enumeration);
  assert_true(back.fields[3].nullable);
  assert_int_equal(back.fields[3].fill_validity, 1);
  assert_memory_equal(back.fields[3].fill, "abcdef", 6);
  assert_string_equal(back.enumerations[0].file, "__u_0");
  assert_int_equal(back.current_domain[0].low[0], 5);
  assert_memory_equal(back.current_domain[1].high_text, "bcd", 3);
  room_close(&r);
}

/* Labels of two dimensions: what the labelled array says of them. */
static void test_labels(void **state) {
  tsr_field fields[] = {number_dimension("x"), number_dimension("y"), attribute("a", TSR_INT32, 1)};
  tsr_label labels[] = {{.name = "lat",
                         .dimension = 1,
                         .uri = "__labels/l0",
                         .relative = true,
                         .datatype = TSR_FLOAT64,
                         .attribute = "label",
                         .data_order = 2,
                         .values_per_cell = 1},
                        {.name = "größe",
                         .dimension = 0,
                         .uri = "/elsewhere/l",
                         .datatype = TSR_ASCII,
                         .attribute = "",
                         .data_order = 1,
                         .values_per_cell = TSR_VARIABLE,
                         .external = true}};
  tsr_schema schema = {.version = 18,
                       .dense = true,
                       .capacity = 5,
                       .coords_filters = NO_FILTERS,
                       .offsets_filters = NO_FILTERS,
                       .validity_filters = NO_FILTERS,
                       .dimension_count = 2,
                       .attribute_count = 1,
                       .fields = fields,
                       .label_count = 2,
                       .labels = labels};
  tsr_schema back;
  room r;
  room_open(&r, UINT64_MAX);
  round_trip(&schema, &back, &r);
  assert_int_equal(back.label_count, 2);
  for (int i = 0; i < 2; i++) {
    const tsr_label *label = &back.labels[i];
    assert_string_equal(label->name, labels[i].name);
    assert_int_equal(label->dimension, labels[i].dimension);
    assert_string_equal(label->uri, labels[i].uri);
    assert_int_equal(label->relative, labels[i].relative);
    assert_int_equal(label->datatype, labels[i].datatype);
    assert_string_equal(label->attribute, labels[i].attribute);
    assert_int_equal(label->data_order, labels[i].data_order);
    assert_int_equal(label->values_per_cell, labels[i].values_per_cell);
    assert_int_equal(label->external, labels[i].external);
    assert_null(label->array);
  }
  room_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain_schemas_of_all_versions),
                                     cmocka_unit_test(test_schema_with_every_feature), cmocka_unit_test(test_labels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
