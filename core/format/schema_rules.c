/* schema_rules.c: the rules for schemas of new arrays: TileDB's own rules, those of the format versions, and a few that
 * keep data readable. Each refusal names the field and the rule. schema.c, which decodes the schemas of existing
 * arrays, is more lenient: arrays that TileDB once created must stay readable.
 *
 * Sections: versions; filters; dimensions; attributes; enumerations, current domain; the schema; dimension labels.
 */
#include "format/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "model/domain.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "format/enumeration.h"
#include "format/layout.h"

static bool is_float(tsr_datatype datatype) { return tsr_datatype_kind(datatype) == TSR_KIND_FLOAT; }

/* ---- Versions ---------------------------------------------------------------------------------------------------- */

int tsr__schema_write_version(const tsr_schema *schema, uint32_t *version, tsr_error *error) {
  if (schema->version > TSR_FORMAT_WRITE_MAX)
    return tsr__fail(error, TSR_READONLY, "format version %u can be read, not written: %d is the newest that can",
                     schema->version, TSR_FORMAT_WRITE_MAX);
  *version = layout_is_written(schema->version) ? schema->version : TSR_FORMAT_WRITE_MAX;
  return TSR_OK;
}

static int needs(const tsr_schema *schema, uint32_t since, const char *what, tsr_error *error) {
  if (schema->version >= since) return TSR_OK;
  return tsr__fail(error, TSR_UNSUPPORTED, "%s need format version %u, but this array has %u", what, since,
                   schema->version);
}

static int check_datatype_version(const tsr_schema *schema, tsr_datatype datatype, tsr_error *error) {
  switch (datatype) {
  case TSR_GEOM_WKB:
  case TSR_GEOM_WKT: return needs(schema, TSR_SINCE_GEOMETRIES, "geometries", error);
  case TSR_BOOL: return needs(schema, TSR_SINCE_BOOL_AND_BLOB, "BOOL values", error);
  case TSR_BLOB: return needs(schema, TSR_SINCE_BOOL_AND_BLOB, "BLOB values", error);
  default: break;
  }
  return tsr_datatype_kind(datatype) == TSR_KIND_TIME ? needs(schema, TSR_SINCE_TIMES_OF_DAY, "times of day", error)
                                                      : TSR_OK;
}

static int check_filter_version(const tsr_schema *schema, const tsr_filter *filter, tsr_error *error) {
  uint32_t since = 0;
  switch (filter->type) {
  case TSR_FILTER_MD5:
  case TSR_FILTER_SHA256: since = TSR_SINCE_CHECKSUM_FILTERS; break;
  case TSR_FILTER_DICTIONARY: since = TSR_SINCE_DICTIONARY_FILTER; break;
  case TSR_FILTER_SCALE_FLOAT: since = TSR_SINCE_SCALE_FLOAT_FILTER; break;
  case TSR_FILTER_XOR: since = TSR_SINCE_XOR_FILTER; break;
  case TSR_FILTER_DELTA: since = TSR_SINCE_DELTA_FILTER; break;
  case TSR_FILTER_DOUBLE_DELTA:
    if (filter->reinterpret != TSR_ANY) since = TSR_SINCE_REINTERPRETED_DOUBLE_DELTA;
    break;
  default: break;
  }
  if (schema->version >= since) return TSR_OK;
  return tsr__fail(error, TSR_UNSUPPORTED, "filter %s needs format version %u, but this array has %u",
                   tsr__filter_name(filter->type), since, schema->version);
}

/* ---- Filters ----------------------------------------------------------------------------------------------------- */

static int check_chunks(const tsr_pipeline *pipeline, tsr_error *error) {
  if (pipeline->max_chunk_size || pipeline->uncut) return TSR_OK;
  return tsr__fail(error, TSR_CONSTRAINT, "the largest chunk has 0 bytes");
}

static int check_pipeline(const tsr_schema *schema, const tsr_pipeline *pipeline, tsr_datatype datatype,
                          uint32_t values_per_cell, bool is_dimension, tsr_error *error) {
  TSR_TRY(check_chunks(pipeline, error));
  for (uint32_t i = 0; i < pipeline->count; i++) {
    TSR_TRY(tsr__filter_allowed(pipeline, i, datatype, values_per_cell, is_dimension, error));
    TSR_TRY(check_filter_version(schema, &pipeline->filters[i], error));
  }
  return TSR_OK;
}

/* Refuses lossy filters for offsets and validity: rounded offsets would split strings in the wrong places. */
static int check_lossless(const tsr_pipeline *pipeline, tsr_error *error) {
  if (!tsr__pipeline_is_lossy(pipeline)) return TSR_OK;
  return tsr__fail(error, TSR_CONSTRAINT,
                   "filter scale_float rounds: rounded values would be read back as other cells");
}

int tsr__schema_check_writable(const tsr_schema *schema, tsr_error *error) {
  bool variable = false;
  for (uint32_t i = 0; i < schema->dimension_count + schema->attribute_count; i++)
    variable |= schema->fields[i].values_per_cell == TSR_VARIABLE;
  if (!variable || !tsr__pipeline_is_lossy(&schema->offsets_filters)) return TSR_OK;
  return tsr__fail(
      error, TSR_UNSUPPORTED,
      "the offsets of its strings go through scale_float, which rounds them: what is written comes back as "
      "other strings. Copy it with tessera_copy to an array without that filter");
}

int tsr_filters_check(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell, bool is_dimension,
                      tsr_error *error) {
  TSR_OWN_ERROR(error);
  for (uint32_t i = 0; i < pipeline->count; i++)
    TSR_TRY(tsr__filter_allowed(pipeline, i, datatype, values_per_cell, is_dimension, error));
  return TSR_OK;
}

/* ---- Dimensions -------------------------------------------------------------------------------------------------- */

static int check_text_dimension(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  TSR_TRY(needs(schema, TSR_SINCE_STRING_DIMENSIONS, "string dimensions", error));
  if (field->values_per_cell != TSR_VARIABLE)
    return tsr__fail(error, TSR_CONSTRAINT, "a dimension of ASCII holds strings of any length");
  if (field->has_domain || field->has_extent)
    return tsr__fail(error, TSR_CONSTRAINT, "a dimension of strings has no domain and no tile extent");
  return TSR_OK;
}

static int check_domain(const tsr_field *field, tsr_error *error) {
  tsr_datatype datatype = field->datatype;
  if (is_float(datatype) &&
      (!isfinite(tsr__value_double(datatype, field->low)) || !isfinite(tsr__value_double(datatype, field->high))))
    return tsr__fail(error, TSR_RANGE, "the ends of its domain must be finite");
  uint64_t low = tsr__key(datatype, field->low), high = tsr__key(datatype, field->high);
  if (low > high) return tsr__fail(error, TSR_RANGE, "the low end of its domain is above the high end");
  if (!is_float(datatype) && low == tsr__key_min(datatype) && high == tsr__key_max(datatype))
    return tsr__fail(error, TSR_RANGE, "its domain may not take all of %s: leave out the greatest value",
                     tsr_datatype_name(datatype));
  return TSR_OK;
}

static int check_float_extent(const tsr_field *field, tsr_error *error) {
  double extent = tsr__value_double(field->datatype, field->extent);
  double low = tsr__value_double(field->datatype, field->low), high = tsr__value_double(field->datatype, field->high);
  double most = field->datatype == TSR_FLOAT32 ? (double)((float)high - (float)low + 1.0f) : high - low + 1.0;
  if (!isfinite(extent) || extent <= 0)
    return tsr__fail(error, TSR_RANGE, "its tile extent must be finite and above 0");
  if (extent > most)
    return tsr__fail(error, TSR_RANGE, "its tile extent, %g, is larger than its domain, %g to %g", extent, low, high);
  return TSR_OK;
}

static int check_extent(const tsr_field *field, tsr_error *error) {
  tsr_datatype datatype = field->datatype;
  if (is_float(datatype)) return check_float_extent(field, error);
  uint64_t low = tsr__key(datatype, field->low), high = tsr__key(datatype, field->high);
  uint64_t extent = tsr__extent(field);
  if (!extent) return tsr__fail(error, TSR_RANGE, "its tile extent must be above 0");
  uint64_t range = high - low; /* range + 1 does not overflow: a domain may not take all values of the datatype */
  if (extent - 1 > range)
    return tsr__fail(error, TSR_RANGE, "its tile extent, %llu, is larger than its domain of %llu values",
                     (unsigned long long)extent, (unsigned long long)range + 1);
  /* tile arithmetic has 64 bits, so only 8-byte datatypes can overflow */
  uint64_t last_tile = low + range / extent * extent;
  if (tsr_datatype_size(datatype) == 8 && extent - 1 > UINT64_MAX - last_tile)
    return tsr__fail(error, TSR_RANGE,
                     "its domain, rounded up to whole tiles of %llu, goes past the greatest %s: lower its high end",
                     (unsigned long long)extent, tsr_datatype_name(datatype));
  return TSR_OK;
}

static int check_dense_dimension(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (!tsr__datatype_is_integral(field->datatype) && kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME)
    return tsr__fail(error, TSR_CONSTRAINT, "a dense array cannot have a dimension of %s",
                     tsr_datatype_name(field->datatype));
  if (field->datatype != schema->fields[0].datatype)
    return tsr__fail(
        error, TSR_CONSTRAINT, "all dimensions of a dense array have one datatype; this one is %s, '%s' is %s",
        tsr_datatype_name(field->datatype), schema->fields[0].name, tsr_datatype_name(schema->fields[0].datatype));
  if (!field->has_extent) return tsr__fail(error, TSR_CONSTRAINT, "a dimension of a dense array needs a tile extent");
  return TSR_OK;
}

/* Hilbert buckets are fractions of high - low as doubles. If that width is infinite, all cells fall into one bucket. */
static int check_hilbert_dimension(const tsr_field *field, tsr_error *error) {
  if (!is_float(field->datatype)) return TSR_OK;
  double width = tsr__value_double(field->datatype, field->high) - tsr__value_double(field->datatype, field->low);
  if (isfinite(width)) return TSR_OK;
  return tsr__fail(error, TSR_RANGE, "Hilbert order needs a domain whose width is finite");
}

static int check_dimension(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  if (!field->is_dimension || !tsr__datatype_valid((uint8_t)field->datatype) ||
      !tsr__datatype_is_dimension(field->datatype))
    return tsr__fail(error, TSR_CONSTRAINT, "%s is not a dimension's datatype", tsr_datatype_name(field->datatype));
  TSR_TRY(check_datatype_version(schema, field->datatype, error));
  bool text = field->datatype == TSR_ASCII;
  if (!layout_has_dimension_datatypes(schema->version) && field->datatype != schema->fields[0].datatype)
    TSR_TRY(needs(schema, TSR_SINCE_DIMENSION_DATATYPES, "dimensions of several datatypes", error));
  if (text) {
    TSR_TRY(check_text_dimension(schema, field, error));
  } else {
    if (field->values_per_cell != 1) return tsr__fail(error, TSR_CONSTRAINT, "a dimension has one value");
    if (!field->has_domain) return tsr__fail(error, TSR_CONSTRAINT, "a dimension of numbers needs a domain");
    TSR_TRY(check_domain(field, error));
    if (field->has_extent) TSR_TRY(check_extent(field, error));
  }
  if (schema->dense) TSR_TRY(check_dense_dimension(schema, field, error));
  if (schema->cell_order == TSR_ORDER_HILBERT) TSR_TRY(check_hilbert_dimension(field, error));
  if (field->filters.count) TSR_TRY(needs(schema, TSR_SINCE_DIMENSION_FILTERS, "filters of single dimensions", error));
  const tsr_pipeline *pipeline = field->filters.count ? &field->filters : &schema->coords_filters;
  TSR_TRY(check_pipeline(schema, pipeline, field->datatype, field->values_per_cell, true, error));
  return check_chunks(&field->filters, error);
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

/* Checks that an attribute's datatype has a code for each label. The greatest value is not a valid code, because some
 * readers cannot distinguish it. */
static int check_enumeration_fits(const tsr_field *field, const tsr_enumeration *e, tsr_error *error) {
  if (!tsr__datatype_is_integral(field->datatype) || field->values_per_cell != 1)
    return tsr__fail(error, TSR_CONSTRAINT, "an enumerated attribute is a single integer");
  uint64_t most = tsr__key_max(field->datatype) - tsr__key(field->datatype, (const uint8_t[8]){0});
  if (most <= e->count)
    return tsr__fail(error, TSR_CONSTRAINT, "%s holds the codes of %llu labels at most, enumeration '%s' has %llu",
                     tsr_datatype_name(field->datatype), (unsigned long long)most - 1, e->name,
                     (unsigned long long)e->count);
  return TSR_OK;
}

static const tsr_enumeration *find_enumeration(const tsr_schema *schema, const char *name) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++)
    if (!strcmp(schema->enumerations[i].name, name)) return &schema->enumerations[i];
  return NULL;
}

static int check_ordered(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  if (!field->data_order) return TSR_OK;
  TSR_TRY(needs(schema, TSR_SINCE_DATA_ORDER, "ordered attributes", error));
  if (field->data_order > 2) return tsr__fail(error, TSR_CONSTRAINT, "its order is %u, not 0 to 2", field->data_order);
  if (!schema->dense || schema->dimension_count != 1)
    return tsr__fail(error, TSR_CONSTRAINT, "ordered attributes are for dense arrays of one dimension");
  uint32_t values = field->datatype == TSR_ASCII ? TSR_VARIABLE : 1;
  if (field->values_per_cell != values || field->nullable)
    return tsr__fail(error, TSR_CONSTRAINT, "an ordered attribute has one value, never null");
  return TSR_OK;
}

static int check_fill(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  if (!field->fill_size)
    return tsr__fail(error, TSR_CONSTRAINT, "its fill value has no bytes: TileDB needs at least one");
  if (field->cell_size && field->fill_size != field->cell_size)
    return tsr__fail(error, TSR_CONSTRAINT, "its fill value has %llu bytes, its cells %llu",
                     (unsigned long long)field->fill_size, (unsigned long long)field->cell_size);
  if (layout_has_fill_values(schema->version)) return TSR_OK;
  uint8_t standard[8];
  uint64_t size = tsr_datatype_size(field->datatype);
  tsr__datatype_fill(field->datatype, standard);
  for (uint64_t at = 0; at < field->fill_size; at += size)
    if (field->fill_size - at < size || memcmp(field->fill + at, standard, size) != 0)
      return needs(schema, TSR_SINCE_FILL_VALUES, "fill values other than the datatype's", error);
  return TSR_OK;
}

static int check_attribute(const tsr_schema *schema, const tsr_field *field, tsr_error *error) {
  if (field->is_dimension || !tsr__datatype_valid((uint8_t)field->datatype))
    return tsr__fail(error, TSR_CONSTRAINT, "%u is not a datatype", (unsigned)field->datatype);
  if (!strncmp(field->name, "__", 2))
    return tsr__fail(error, TSR_CONSTRAINT, "names of attributes may not begin with '__'");
  TSR_TRY(check_datatype_version(schema, field->datatype, error));
  if (!field->values_per_cell) return tsr__fail(error, TSR_CONSTRAINT, "a cell has 0 values");
  if (field->datatype == TSR_ANY && field->values_per_cell != TSR_VARIABLE)
    return tsr__fail(error, TSR_CONSTRAINT, "ANY is always of variable length");
  bool variable = field->values_per_cell == TSR_VARIABLE;
  if (field->cell_size != (variable ? 0 : field->values_per_cell * tsr_datatype_size(field->datatype)))
    return tsr__fail(error, TSR_CONSTRAINT, "its cells cannot have %llu bytes", (unsigned long long)field->cell_size);
  if (field->nullable) TSR_TRY(needs(schema, TSR_SINCE_VALIDITY, "nullable attributes", error));
  if (field->fill_validity > field->nullable)
    return tsr__fail(error, TSR_CONSTRAINT, "the validity of its fill value is %u", field->fill_validity);
  TSR_TRY(check_fill(schema, field, error));
  TSR_TRY(check_ordered(schema, field, error));
  if (field->enumeration) {
    const tsr_enumeration *e = find_enumeration(schema, field->enumeration);
    if (!e) return tsr__fail(error, TSR_CONSTRAINT, "the array has no enumeration '%s'", field->enumeration);
    TSR_TRY(check_enumeration_fits(field, e, error));
  }
  return check_pipeline(schema, &field->filters, field->datatype, field->values_per_cell, false, error);
}

/* ---- Enumerations, current domain -------------------------------------------------------------------------------- */

static int check_enumeration(const tsr_enumeration *e, tsr_memory *memory, tsr_error *error) {
  if (!*e->name) return tsr__fail(error, TSR_CONSTRAINT, "it has no name");
  if (!e->loaded || !tsr__datatype_valid((uint8_t)e->datatype) || !e->values_per_label)
    return tsr__fail(error, TSR_CONSTRAINT, "its labels are not given");
  if (e->datatype == TSR_ANY) return tsr__fail(error, TSR_CONSTRAINT, "its labels cannot be of ANY");
  uint64_t fixed = e->values_per_label == TSR_VARIABLE ? 0 : e->values_per_label * tsr_datatype_size(e->datatype);
  for (uint64_t i = 0; i < e->count; i++) {
    uint64_t begin = e->offsets[i], end = e->offsets[i + 1];
    if (begin > end || end > e->data_size || (fixed && end - begin != fixed))
      return tsr__fail(error, TSR_CONSTRAINT, "label %llu has a size that labels of %s cannot have",
                       (unsigned long long)i, tsr_datatype_name(e->datatype));
  }
  return tsr__enumeration_unique(e, memory, TSR_CONSTRAINT, error);
}

static int check_current(const tsr_field *field, const tsr_interval *interval, tsr_error *error) {
  if (field->values_per_cell == TSR_VARIABLE) {
    if (tsr__bytes_compare(interval->low_text, interval->low_size, interval->high_text, interval->high_size) > 0)
      return tsr__fail(error, TSR_RANGE, "the low end of its current domain is above the high end");
    return TSR_OK;
  }
  uint64_t low = tsr__key(field->datatype, interval->low), high = tsr__key(field->datatype, interval->high);
  if (low > high) return tsr__fail(error, TSR_RANGE, "the low end of its current domain is above the high end");
  if (low < tsr__key(field->datatype, field->low) || high > tsr__key(field->datatype, field->high))
    return tsr__fail(error, TSR_RANGE, "its current domain reaches outside its domain");
  return TSR_OK;
}

/* ---- The schema -------------------------------------------------------------------------------------------------- */

static int check_names(const tsr_schema *schema, tsr_memory *memory, tsr_error *error) {
  uint64_t fields = (uint64_t)schema->dimension_count + schema->attribute_count;
  char **names;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, TSR_MAX(fields, schema->enumeration_count), &names, error));
  int rc = TSR_OK;
  for (uint64_t i = 0; i < fields; i++) names[i] = schema->fields[i].name;
  qsort(names, fields, sizeof *names, tsr__names_compare);
  for (uint64_t i = 1; i < fields && rc >= 0; i++)
    if (!strcmp(names[i - 1], names[i]))
      rc = tsr__fail(error, TSR_CONSTRAINT, "two dimensions or attributes are named '%s'", names[i]);
  for (uint64_t i = 0; i < schema->enumeration_count; i++) names[i] = schema->enumerations[i].name;
  qsort(names, schema->enumeration_count, sizeof *names, tsr__names_compare);
  for (uint64_t i = 1; i < schema->enumeration_count && rc >= 0; i++)
    if (!strcmp(names[i - 1], names[i]))
      rc = tsr__fail(error, TSR_CONSTRAINT, "two enumerations are named '%s'", names[i]);
  tsr__free(names);
  return rc;
}

static int check_kind(const tsr_schema *schema, tsr_error *error) {
  if (!layout_is_created(schema->version) || schema->version > TSR_FORMAT_WRITE_MAX)
    return tsr__fail(error, TSR_UNSUPPORTED, "arrays are created in format version 3 and 12 to %d, not %u",
                     TSR_FORMAT_WRITE_MAX, schema->version);
  if (schema->key_value) return tsr__fail(error, TSR_UNSUPPORTED, "key-value stores are not created");
  if (!schema->dimension_count) return tsr__fail(error, TSR_CONSTRAINT, "an array needs a dimension");
  if (schema->dimension_count > TSR_MAX_DIMENSIONS)
    return tsr__fail(error, TSR_UNSUPPORTED, "%u dimensions are more than %d", schema->dimension_count,
                     TSR_MAX_DIMENSIONS);
  if (schema->tile_order != TSR_ORDER_ROW && schema->tile_order != TSR_ORDER_COL)
    return tsr__fail(error, TSR_CONSTRAINT, "the tile order is row- or column-major");
  if (schema->cell_order == TSR_ORDER_HILBERT) {
    if (schema->dense) return tsr__fail(error, TSR_CONSTRAINT, "Hilbert order is for sparse arrays only");
    TSR_TRY(needs(schema, TSR_SINCE_HILBERT, "cells in Hilbert order", error));
    if (schema->dimension_count > TSR_HILBERT_DIMENSIONS_MAX)
      return tsr__fail(error, TSR_CONSTRAINT, "Hilbert order takes %d dimensions at most, not %u",
                       TSR_HILBERT_DIMENSIONS_MAX, schema->dimension_count);
  } else if (schema->cell_order != TSR_ORDER_ROW && schema->cell_order != TSR_ORDER_COL) {
    return tsr__fail(error, TSR_CONSTRAINT, "the cell order is row-major, column-major or Hilbert");
  }
  if (schema->dense && !schema->attribute_count)
    return tsr__fail(error, TSR_CONSTRAINT, "a dense array needs an attribute");
  if (schema->dense && schema->allows_duplicates)
    return tsr__fail(error, TSR_CONSTRAINT, "duplicates are for sparse arrays only");
  if (!schema->dense && !schema->capacity)
    return tsr__fail(error, TSR_CONSTRAINT, "the capacity, the cells of a tile, must be above 0");
  if (schema->allows_duplicates) TSR_TRY(needs(schema, TSR_SINCE_DUPLICATES, "duplicates", error));
  return TSR_OK;
}

/* Refuses space tiles that are larger than this library can read. */
static int check_grid(const tsr_schema *schema, tsr_memory *memory, tsr_error *error) {
  if (!schema->dense) return TSR_OK;
  tsr_arena arena;
  tsr_grid grid;
  tsr__arena_init(&arena, memory);
  int rc = tsr__grid_make(schema, &arena, &grid, error);
  tsr__arena_release(&arena);
  return rc;
}

static int check_fields(const tsr_schema *schema, tsr_error *error) {
  for (uint32_t i = 0; i < schema->dimension_count + schema->attribute_count; i++) {
    const tsr_field *field = &schema->fields[i];
    bool dimension = i < schema->dimension_count;
    int rc = dimension ? check_dimension(schema, field, error) : check_attribute(schema, field, error);
    if (rc >= 0 && dimension && schema->current_domain) rc = check_current(field, &schema->current_domain[i], error);
    if (rc < 0) return tsr__wrap(error, "%s '%s'", dimension ? "dimension" : "attribute", field->name);
  }
  return TSR_OK;
}

/* ---- Dimension labels -------------------------------------------------------------------------------------------- */

/* Checks the schema of a label's array against the dimension that the label belongs to. */
static int check_label_schema(const tsr_schema *schema, const tsr_label *label, tsr_error *error) {
  const tsr_schema *own = label->array;
  const tsr_field *of = &schema->fields[label->dimension];
  if (!own->dense || own->dimension_count != 1 || own->attribute_count != 1 || own->label_count)
    return tsr__fail(error, TSR_CONSTRAINT, "its array must be dense with one dimension and one attribute");
  const uint64_t size = tsr_datatype_size(of->datatype);
  if (own->fields->datatype != of->datatype || memcmp(own->fields->low, of->low, size) != 0 ||
      memcmp(own->fields->high, of->high, size) != 0)
    return tsr__fail(error, TSR_CONSTRAINT, "its array must have the domain of dimension '%s'", of->name);
  if (!own->fields[1].data_order) return tsr__fail(error, TSR_UNSUPPORTED, "its values have no order");
  return TSR_OK;
}

static int check_label(const tsr_schema *schema, uint32_t number, tsr_error *error) {
  const tsr_label *label = &schema->labels[number];
  if (!*label->name) return tsr__fail(error, TSR_CONSTRAINT, "it has no name");
  if (label->dimension >= schema->dimension_count)
    return tsr__fail(error, TSR_CONSTRAINT, "no dimension %u", label->dimension);
  for (uint32_t i = 0; i < schema->dimension_count + schema->attribute_count; i++)
    if (!strcmp(schema->fields[i].name, label->name))
      return tsr__fail(error, TSR_CONSTRAINT, "a dimension or attribute has this name, too");
  for (uint32_t i = 0; i < number; i++)
    if (!strcmp(schema->labels[i].name, label->name))
      return tsr__fail(error, TSR_CONSTRAINT, "another label has this name, too");
  return label->array ? check_label_schema(schema, label, error) : TSR_OK;
}

static int check_labels(const tsr_schema *schema, tsr_error *error) {
  if (schema->label_count) TSR_TRY(needs(schema, TSR_SINCE_LABELS, "dimension labels", error));
  for (uint32_t i = 0; i < schema->label_count; i++)
    if (check_label(schema, i, error) < 0) return tsr__wrap(error, "label '%s'", schema->labels[i].name);
  return TSR_OK;
}

int tsr__schema_check(const tsr_schema *schema, tsr_memory *memory, tsr_error *error) {
  TSR_TRY(check_kind(schema, error));
  TSR_TRY(check_names(schema, memory, error));
  if (schema->enumeration_count) TSR_TRY(needs(schema, TSR_SINCE_ENUMERATIONS, "enumerations", error));
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *e = &schema->enumerations[i];
    if (check_enumeration(e, memory, error) < 0) return tsr__wrap(error, "enumeration '%s'", e->name);
  }
  if (schema->current_domain) TSR_TRY(needs(schema, TSR_SINCE_CURRENT_DOMAIN, "current domains", error));
  TSR_TRY(check_fields(schema, error));
  TSR_TRY(check_labels(schema, error));
  const tsr_pipeline *lists[] = {&schema->coords_filters, &schema->offsets_filters, &schema->validity_filters};
  static const char *const names[] = {"filters of coordinates", "filters of offsets", "filters of validity"};
  static const tsr_datatype datatypes[] = {TSR_UINT64, TSR_UINT64, TSR_UINT8};
  for (int i = 0; i < 3; i++) {
    int rc = i ? check_pipeline(schema, lists[i], datatypes[i], 1, false, error) : check_chunks(lists[i], error);
    if (rc >= 0 && i) rc = check_lossless(lists[i], error);
    if (rc < 0) return tsr__wrap(error, "%s", names[i]);
  }
  return check_grid(schema, memory, error);
}
