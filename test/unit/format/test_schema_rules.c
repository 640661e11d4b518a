/* test_schema_rules.c: which schemas new arrays may have, and that each refusal names the field and the rule. */

#include <stdio.h>
#include <string.h>

#include "model/datatype.h"
#include "format/schema.h"
#include "format_test.h"

#include <math.h>

/* A schema that is accepted; tests break one property of it at a time. */
typedef struct plain {
  tsr_field fields[3]; /* dimensions x, y; attribute a */
  uint8_t fill[8];
  tsr_filter filter;
  uint64_t offsets[3];
  tsr_enumeration enumeration;
  tsr_interval current[2];
  tsr_schema schema;
} plain;

static const tsr_pipeline no_filters = {.max_chunk_size = 65536};

static void set_int(uint8_t *to, tsr_datatype datatype, int64_t value) {
  memcpy(to, &value, tsr_datatype_size(datatype));
}

static void set_dimension(tsr_field *field, tsr_datatype datatype, int64_t low, int64_t high, int64_t extent) {
  *field = (tsr_field){.name = field->name,
                       .is_dimension = true,
                       .datatype = datatype,
                       .values_per_cell = 1,
                       .cell_size = tsr_datatype_size(datatype),
                       .filters = no_filters,
                       .has_domain = true};
  set_int(field->low, datatype, low);
  set_int(field->high, datatype, high);
  set_int(field->extent, datatype, extent);
  field->has_extent = extent != 0;
}

static void set_float(tsr_field *field, double low, double high, double extent) {
  set_dimension(field, TSR_FLOAT64, 0, 0, 0);
  memcpy(field->low, &low, 8);
  memcpy(field->high, &high, 8);
  memcpy(field->extent, &extent, 8);
  field->has_extent = extent != 0;
}

static void set_text(tsr_field *field) {
  *field = (tsr_field){.name = field->name,
                       .is_dimension = true,
                       .datatype = TSR_ASCII,
                       .values_per_cell = TSR_VARIABLE,
                       .filters = no_filters};
}

static void set_attribute(plain *p, tsr_datatype datatype, uint32_t values) {
  tsr_field *field = &p->fields[2];
  uint64_t size = values == TSR_VARIABLE ? 0 : values * tsr_datatype_size(datatype);
  *field = (tsr_field){.name = "a",
                       .datatype = datatype,
                       .values_per_cell = values,
                       .cell_size = size,
                       .filters = no_filters,
                       .fill = p->fill};
  field->fill_size = size ? TSR_MIN(size, 8) : tsr_datatype_size(datatype);
  tsr__datatype_fill(datatype, p->fill);
}

static void reset(plain *p, bool dense) {
  *p = (plain){.fields = {{.name = "x"}, {.name = "y"}}};
  set_dimension(&p->fields[0], TSR_INT32, -10, 99, 10);
  set_dimension(&p->fields[1], TSR_INT32, 1, 50, 50);
  set_attribute(p, TSR_INT32, 1);
  p->filter = (tsr_filter){.type = TSR_FILTER_ZSTD, .level = -1, .reinterpret = TSR_ANY};
  p->offsets[1] = 1;
  p->offsets[2] = 2;
  p->enumeration = (tsr_enumeration){.name = "e",
                                     .loaded = true,
                                     .datatype = TSR_UTF8,
                                     .values_per_label = TSR_VARIABLE,
                                     .count = 2,
                                     .data = (uint8_t *)"ab",
                                     .data_size = 2,
                                     .offsets = p->offsets};
  p->schema = (tsr_schema){.version = 22,
                           .dense = dense,
                           .tile_order = TSR_ORDER_ROW,
                           .cell_order = TSR_ORDER_ROW,
                           .capacity = 100,
                           .coords_filters = no_filters,
                           .offsets_filters = no_filters,
                           .validity_filters = no_filters,
                           .dimension_count = 2,
                           .attribute_count = 1,
                           .fields = p->fields};
}

static int check(const plain *p, tsr_error *error) {
  room r;
  room_open(&r, UINT64_MAX);
  *error = (tsr_error){0};
  int code = tsr__schema_check(&p->schema, &r.memory, error);
  room_close(&r);
  return code;
}

static void accepted(const plain *p) {
  tsr_error error;
  if (check(p, &error) < 0) fail_msg("%s", error.message);
}

/* Asserts that the schema is refused with a message that names the field, if one is given, and states the rule. */
static void refused(const plain *p, int code, const char *field, const char *rule) {
  tsr_error error;
  int got = check(p, &error);
  if (got != code || !strstr(error.message, field) || !strstr(error.message, rule))
    fail_msg("%s \"%s\" instead of %s with \"%s\" and \"%s\"", tsr_code_name(got), error.message, tsr_code_name(code),
             field, rule);
}

static void test_valid_schemas_are_accepted(void **state) {
  plain p;
  for (int dense = 0; dense < 2; dense++) {
    reset(&p, dense);
    accepted(&p);
  }
  reset(&p, false);
  set_text(&p.fields[0]);
  set_float(&p.fields[1], -1, 1, 0);
  p.schema.cell_order = TSR_ORDER_HILBERT;
  p.schema.allows_duplicates = true;
  accepted(&p);
  p.schema.attribute_count = 0; /* sparse arrays need none */
  accepted(&p);
  reset(&p, false);
  p.fields[0].name = "__x"; /* of dimensions that is allowed */
  p.fields[2].name = "";
  accepted(&p);
}

static void test_rules_of_the_array(void **state) {
  plain p;
  reset(&p, false), p.schema.version = 23;
  refused(&p, TSR_UNSUPPORTED, "", "not 23");
  p.schema.version = 11;
  refused(&p, TSR_UNSUPPORTED, "", "3 and 12 to 22");
  reset(&p, false), p.schema.dimension_count = 0;
  refused(&p, TSR_CONSTRAINT, "", "needs a dimension");
  reset(&p, false), p.schema.tile_order = TSR_ORDER_HILBERT;
  refused(&p, TSR_CONSTRAINT, "", "tile order");
  reset(&p, false), p.schema.cell_order = TSR_ORDER_GLOBAL;
  refused(&p, TSR_CONSTRAINT, "", "cell order");
  reset(&p, true), p.schema.cell_order = TSR_ORDER_HILBERT;
  refused(&p, TSR_CONSTRAINT, "", "sparse arrays only");
  reset(&p, true), p.schema.allows_duplicates = true;
  refused(&p, TSR_CONSTRAINT, "", "duplicates");
  reset(&p, true), p.schema.attribute_count = 0;
  refused(&p, TSR_CONSTRAINT, "", "needs an attribute");
  reset(&p, false), p.schema.capacity = 0;
  refused(&p, TSR_CONSTRAINT, "", "capacity");
  reset(&p, false), p.fields[2].name = "x";
  refused(&p, TSR_CONSTRAINT, "'x'", "two dimensions or attributes");
  reset(&p, false), p.fields[2].name = "__a";
  refused(&p, TSR_CONSTRAINT, "attribute '__a'", "'__'");
}

static void test_rules_of_domains(void **state) {
  plain p;
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT32, 5, 4, 1);
  refused(&p, TSR_RANGE, "dimension 'x'", "above the high end");
  reset(&p, false), set_dimension(&p.fields[1], TSR_UINT8, 0, 255, 0);
  refused(&p, TSR_RANGE, "dimension 'y'", "all of UINT8");
  reset(&p, false), set_dimension(&p.fields[1], TSR_UINT8, 0, 254, 0);
  accepted(&p);
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT64, INT64_MIN, INT64_MAX, 0);
  refused(&p, TSR_RANGE, "dimension 'x'", "all of INT64");
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT32, 0, 9, 11);
  refused(&p, TSR_RANGE, "dimension 'x'", "11, is larger than its domain of 10");
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT32, 0, 9, 0), p.fields[0].has_extent = true;
  refused(&p, TSR_RANGE, "dimension 'x'", "above 0");
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT8, -128, 126, 255); /* extents are unsigned */
  accepted(&p);
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT64, INT64_MIN, INT64_MAX - 1, 10000);
  refused(&p, TSR_RANGE, "dimension 'x'", "rounded up");
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT64, INT64_MIN, INT64_MAX - 10000, 10000);
  accepted(&p);
  reset(&p, false), set_dimension(&p.fields[0], TSR_UINT64, 0, -2, -1);
  accepted(&p); /* one tile of 2^64 - 1 values */
  reset(&p, false), set_dimension(&p.fields[0], TSR_INT8, -100, 100, 127);
  accepted(&p);
  reset(&p, false), set_float(&p.fields[0], -INFINITY, 1, 0);
  refused(&p, TSR_RANGE, "dimension 'x'", "finite");
  reset(&p, false), set_float(&p.fields[0], 0, 1, 2.5);
  refused(&p, TSR_RANGE, "dimension 'x'", "2.5, is larger");
  reset(&p, false), set_float(&p.fields[0], 0, 1, -0.5);
  refused(&p, TSR_RANGE, "dimension 'x'", "above 0");
  reset(&p, false), set_float(&p.fields[0], -1.7e308, 1.7e308, 0);
  accepted(&p);
  p.schema.cell_order = TSR_ORDER_HILBERT;
  refused(&p, TSR_RANGE, "dimension 'x'", "Hilbert");
  reset(&p, false), p.fields[0].has_domain = p.fields[0].has_extent = false;
  refused(&p, TSR_CONSTRAINT, "dimension 'x'", "needs a domain");
}

/* Extents at both sides of what a domain and 64 bits have room for. */
static void test_extents_at_the_limits_of_a_domain(void **state) {
  static const struct {
    tsr_datatype datatype;
    int64_t low, high, extent;
    const char *rule; /* why it is refused; NULL: it is accepted */
  } cases[] = {
      {TSR_INT32, 0, 9, 10, NULL},
      {TSR_INT32, 0, 9, 11, "larger than its domain"},
      {TSR_INT32, 7, 7, 1, NULL},
      {TSR_INT32, 7, 7, 2, "larger than its domain"},
      {TSR_UINT64, 0, -2, 2, NULL}, /* the last tile ends at the greatest value */
      {TSR_UINT64, 1, -1, 2, "rounded up"}, /* one behind it */
      {TSR_UINT64, 1, -1, 3, NULL},
      {TSR_UINT64, 1, -1, 4, "rounded up"},
      {TSR_UINT64, 1, -1, 5, NULL},
      {TSR_INT64, INT64_MIN, INT64_MAX - 1, 2, NULL},
      {TSR_INT64, INT64_MIN + 1, INT64_MAX, 2, "rounded up"},
      {TSR_DATETIME_NS, INT64_MIN + 1, INT64_MAX, 5, NULL},
      {TSR_DATETIME_NS, INT64_MIN + 1, INT64_MAX, 7, "rounded up"},
      {TSR_UINT8, 0, 254, 100, NULL}, /* only tile arithmetic has limits, and it has 64 bits */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plain p;
    reset(&p, false), set_dimension(&p.fields[0], cases[i].datatype, cases[i].low, cases[i].high, cases[i].extent);
    if (cases[i].rule) refused(&p, TSR_RANGE, "dimension 'x'", cases[i].rule);
    else accepted(&p);
  }
}

static void test_rules_of_dimensions(void **state) {
  static const tsr_datatype never[] = {TSR_CHAR, TSR_UTF8, TSR_BOOL, TSR_BLOB, TSR_ANY, TSR_GEOM_WKB};
  plain p;
  for (unsigned i = 0; i < sizeof never / sizeof *never; i++) {
    reset(&p, false), set_dimension(&p.fields[0], never[i], 0, 9, 0);
    refused(&p, TSR_CONSTRAINT, "dimension 'x'", tsr_datatype_name(never[i]));
  }
  reset(&p, true), set_float(&p.fields[0], 0, 1, 1);
  refused(&p, TSR_CONSTRAINT, "dimension 'x'", "dense array cannot have a dimension of FLOAT64");
  reset(&p, true), set_text(&p.fields[0]);
  refused(&p, TSR_CONSTRAINT, "dimension 'x'", "ASCII");
  for (int t = TSR_DATETIME_YEAR; t <= TSR_TIME_AS; t++) {
    reset(&p, true);
    for (uint32_t d = 0; d < 2; d++) set_dimension(&p.fields[d], (tsr_datatype)t, 0, 9, 5);
    accepted(&p);
  }
  reset(&p, true), set_dimension(&p.fields[1], TSR_INT64, 0, 9, 5);
  refused(&p, TSR_CONSTRAINT, "dimension 'y'", "one datatype");
  reset(&p, true), p.fields[1].has_extent = false;
  refused(&p, TSR_CONSTRAINT, "dimension 'y'", "needs a tile extent");
  reset(&p, false), set_text(&p.fields[0]), p.fields[0].has_extent = true;
  refused(&p, TSR_CONSTRAINT, "dimension 'x'", "no domain");
  reset(&p, true), set_dimension(&p.fields[0], TSR_INT32, 0, 1000000, 1000000);
  set_dimension(&p.fields[1], TSR_INT32, 0, 1000000, 1000000);
  refused(&p, TSR_UNSUPPORTED, "", "cells");

  tsr_field many[18];
  char names[17][16];
  reset(&p, false);
  for (int i = 0; i < 17; i++) {
    snprintf(names[i], sizeof names[i], "d%d", i);
    many[i] = p.fields[0];
    many[i].name = names[i];
  }
  many[17] = p.fields[2];
  p.schema.fields = many;
  p.schema.dimension_count = 17;
  accepted(&p);
  p.schema.cell_order = TSR_ORDER_HILBERT;
  refused(&p, TSR_CONSTRAINT, "", "16 dimensions");
}

static void test_rules_of_attributes(void **state) {
  plain p;
  reset(&p, false), set_attribute(&p, TSR_ANY, 1);
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "variable length");
  reset(&p, false), p.fields[2].values_per_cell = 0;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "0 values");
  reset(&p, false), p.fields[2].fill_size = 3;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "fill value has 3 bytes");
  reset(&p, false), set_attribute(&p, TSR_UTF8, TSR_VARIABLE), p.fields[2].fill_size = 0;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "no bytes");
  reset(&p, false), p.fields[2].fill_validity = 1;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "validity");
  reset(&p, false), p.fields[2].data_order = 1;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "dense arrays of one dimension");
  reset(&p, true), p.fields[2].data_order = 1, p.schema.dimension_count = 1;
  p.fields[1] = p.fields[2];
  accepted(&p);
  p.fields[1].nullable = true;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "one value, never null");
  p.fields[1].nullable = false, p.fields[1].values_per_cell = 2, p.fields[1].cell_size = p.fields[1].fill_size = 8;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "one value, never null");
}

static void test_rules_of_enumerations(void **state) {
  plain p;
  reset(&p, false), p.fields[2].enumeration = "e";
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "no enumeration 'e'");
  p.schema.enumeration_count = 1;
  p.schema.enumerations = &p.enumeration;
  accepted(&p);
  set_attribute(&p, TSR_FLOAT32, 1), p.fields[2].enumeration = "e";
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "single integer");
  set_attribute(&p, TSR_INT32, 2), p.fields[2].enumeration = "e";
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "single integer");
  set_attribute(&p, TSR_INT32, 1), p.fields[2].enumeration = "e";
  p.enumeration.data = (uint8_t *)"aa";
  refused(&p, TSR_CONSTRAINT, "enumeration 'e'", "two labels are the same, 'a'");
  reset(&p, false);
  p.schema.enumeration_count = 1;
  p.schema.enumerations = &p.enumeration;
  p.enumeration.loaded = false;
  refused(&p, TSR_CONSTRAINT, "enumeration 'e'", "not given");

  /* 254 labels fit UINT8, 126 INT8 */
  uint8_t data[256];
  uint64_t offsets[257];
  for (int i = 0; i < 256; i++) data[i] = (uint8_t)i, offsets[i] = (uint64_t)i;
  offsets[256] = 256;
  for (int is_signed = 0; is_signed < 2; is_signed++)
    for (uint64_t more = 0; more < 2; more++) {
      reset(&p, false), set_attribute(&p, is_signed ? TSR_INT8 : TSR_UINT8, 1), p.fields[2].enumeration = "e";
      p.enumeration.count = (is_signed ? 126 : 254) + more;
      p.enumeration.data = data;
      p.enumeration.data_size = p.enumeration.count;
      p.enumeration.offsets = offsets;
      p.schema.enumeration_count = 1;
      p.schema.enumerations = &p.enumeration;
      if (more) refused(&p, TSR_CONSTRAINT, "attribute 'a'", "labels at most");
      else accepted(&p);
    }
}

static void test_rules_of_current_domains(void **state) {
  plain p;
  reset(&p, false);
  p.schema.current_domain = p.current;
  set_int(p.current[0].low, TSR_INT32, -10), set_int(p.current[0].high, TSR_INT32, 99);
  set_int(p.current[1].low, TSR_INT32, 2), set_int(p.current[1].high, TSR_INT32, 50);
  accepted(&p);
  set_int(p.current[1].high, TSR_INT32, 51);
  refused(&p, TSR_RANGE, "dimension 'y'", "outside its domain");
  set_int(p.current[1].high, TSR_INT32, 1);
  refused(&p, TSR_RANGE, "dimension 'y'", "current domain is above");
}

static void test_rules_of_filters(void **state) {
  plain p;
  reset(&p, false), p.fields[2].filters.count = 1, p.fields[2].filters.filters = &p.filter;
  accepted(&p);
  set_attribute(&p, TSR_FLOAT64, 1);
  p.filter.type = TSR_FILTER_DELTA;
  p.fields[2].filters.count = 1, p.fields[2].filters.filters = &p.filter;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "filter delta cannot be applied to FLOAT64");
  /* the schema's coords filters hold for the dimensions that have none */
  reset(&p, false), set_float(&p.fields[1], 0, 1, 0);
  p.filter.type = TSR_FILTER_DOUBLE_DELTA;
  p.schema.coords_filters.count = 1, p.schema.coords_filters.filters = &p.filter;
  refused(&p, TSR_CONSTRAINT, "dimension 'y'", "double_delta");
  reset(&p, false), p.fields[2].filters.max_chunk_size = 0;
  refused(&p, TSR_CONSTRAINT, "attribute 'a'", "chunk");
  reset(&p, false), p.schema.offsets_filters.max_chunk_size = 0;
  refused(&p, TSR_CONSTRAINT, "filters of offsets", "chunk");
  reset(&p, false), p.schema.offsets_filters = p.fields[2].filters = (tsr_pipeline){.uncut = true};
  accepted(&p);
  reset(&p, false), p.filter = (tsr_filter){.type = TSR_FILTER_SCALE_FLOAT, .scale = 1, .byte_width = 8};
  p.schema.offsets_filters.count = 1, p.schema.offsets_filters.filters = &p.filter;
  refused(&p, TSR_CONSTRAINT, "filters of offsets", "scale_float rounds");
  reset(&p, false), p.filter.type = TSR_FILTER_DICTIONARY;
  p.schema.validity_filters.count = 1, p.schema.validity_filters.filters = &p.filter;
  refused(&p, TSR_CONSTRAINT, "filters of validity", "dictionary");
}

/* A feature that a version lacks is refused, and the message has the version that it needs. */
static void test_features_need_their_versions(void **state) {
  plain p;
  reset(&p, false), p.schema.version = 3;
  accepted(&p);
  p.fields[2].nullable = true;
  refused(&p, TSR_UNSUPPORTED, "attribute 'a'", "need format version 7");
  reset(&p, false), p.schema.version = 3, p.schema.allows_duplicates = true;
  refused(&p, TSR_UNSUPPORTED, "", "need format version 5");
  reset(&p, false), p.schema.version = 3, set_text(&p.fields[0]);
  refused(&p, TSR_UNSUPPORTED, "dimension 'x'", "need format version 5");
  reset(&p, false), p.schema.version = 3, set_dimension(&p.fields[1], TSR_INT64, 0, 9, 1);
  refused(&p, TSR_UNSUPPORTED, "dimension 'y'", "need format version 5");
  reset(&p, false), p.schema.version = 3, p.fill[0] = 1;
  refused(&p, TSR_UNSUPPORTED, "attribute 'a'", "need format version 6");
  reset(&p, false), p.schema.version = 3, p.schema.cell_order = TSR_ORDER_HILBERT;
  refused(&p, TSR_UNSUPPORTED, "", "need format version 7");
  reset(&p, false), p.schema.version = 19;
  p.schema.enumeration_count = 1, p.schema.enumerations = &p.enumeration;
  refused(&p, TSR_UNSUPPORTED, "", "need format version 20");
  p.schema.version = 20;
  accepted(&p);
  reset(&p, false), p.schema.version = 21, p.schema.current_domain = p.current;
  refused(&p, TSR_UNSUPPORTED, "", "need format version 22");
  static const struct {
    tsr_filter_type type;
    uint32_t since;
  } filters[] = {{TSR_FILTER_XOR, 16}, {TSR_FILTER_DELTA, 19}};
  for (int i = 0; i < 2; i++) {
    reset(&p, false), p.schema.version = filters[i].since, p.filter.type = filters[i].type;
    p.fields[2].filters.count = 1, p.fields[2].filters.filters = &p.filter;
    accepted(&p);
    p.schema.version--;
    refused(&p, TSR_UNSUPPORTED, "attribute 'a'", "needs format version");
  }
}

static void test_version_of_new_fragments(void **state) {
  static const uint32_t versions[][2] = {{1, 22}, {2, 22}, {3, 3}, {4, 22}, {6, 22}, {7, 7}, {11, 11}, {22, 22}};
  for (unsigned i = 0; i < sizeof versions / sizeof *versions; i++) {
    uint32_t got = 0;
    tsr_schema schema = {.version = versions[i][0]};
    assert_int_equal(tsr__schema_write_version(&schema, &got, NULL), TSR_OK);
    assert_int_equal(got, versions[i][1]);
  }
  uint32_t got = 0;
  tsr_schema schema = {.version = 23};
  tsr_error error = {0};
  assert_int_equal(tsr__schema_write_version(&schema, &got, &error), TSR_READONLY);
}

/* A dense array with a label of its first dimension, whose array the label describes. */
typedef struct labelled {
  plain array, own;
  tsr_label label[2];
} labelled;

static void reset_labelled(labelled *l) {
  reset(&l->array, true);
  reset(&l->own, true);
  l->own.schema.dimension_count = 1;
  l->own.fields[1] = l->own.fields[2];
  l->own.fields[1].data_order = 1;
  l->own.fields[0].name = "index";
  l->label[0] = (tsr_label){.name = "lat", .array = &l->own.schema};
  l->label[1] = (tsr_label){.name = "lon", .dimension = 1};
  l->array.schema.label_count = 2;
  l->array.schema.labels = l->label;
}

static void test_rules_of_labels(void **state) {
  labelled l;
  reset_labelled(&l);
  accepted(&l.array);
  reset_labelled(&l), l.array.schema.version = 18;
  accepted(&l.array);
  reset_labelled(&l), l.array.schema.version = 17;
  refused(&l.array, TSR_UNSUPPORTED, "dimension labels", "version 18");
  reset_labelled(&l), l.label[0].name = "";
  refused(&l.array, TSR_CONSTRAINT, "", "no name");
  reset_labelled(&l), l.label[1].dimension = 2;
  refused(&l.array, TSR_CONSTRAINT, "'lon'", "no dimension 2");
  reset_labelled(&l), l.label[0].name = "y";
  refused(&l.array, TSR_CONSTRAINT, "'y'", "this name, too");
  reset_labelled(&l), l.label[0].name = "a";
  refused(&l.array, TSR_CONSTRAINT, "'a'", "this name, too");
  reset_labelled(&l), l.label[1].name = "lat";
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "another label");
  reset_labelled(&l), l.own.schema.dense = false;
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "must be dense");
  reset_labelled(&l), l.own.schema.attribute_count = 2;
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "one attribute");
  reset_labelled(&l), l.own.schema.label_count = 1;
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "must be dense");
  reset_labelled(&l), l.own.fields[0].high[0]++;
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "the domain of dimension");
  reset_labelled(&l), l.own.fields[0].datatype = TSR_UINT32;
  refused(&l.array, TSR_CONSTRAINT, "'lat'", "the domain of dimension");
  reset_labelled(&l), l.own.fields[1].data_order = 0;
  refused(&l.array, TSR_UNSUPPORTED, "'lat'", "no order");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_valid_schemas_are_accepted),
      cmocka_unit_test(test_rules_of_the_array),
      cmocka_unit_test(test_rules_of_labels),
      cmocka_unit_test(test_rules_of_domains),
      cmocka_unit_test(test_extents_at_the_limits_of_a_domain),
      cmocka_unit_test(test_rules_of_dimensions),
      cmocka_unit_test(test_rules_of_attributes),
      cmocka_unit_test(test_rules_of_enumerations),
      cmocka_unit_test(test_rules_of_current_domains),
      cmocka_unit_test(test_rules_of_filters),
      cmocka_unit_test(test_features_need_their_versions),
      cmocka_unit_test(test_version_of_new_fragments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
