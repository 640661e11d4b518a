/* schema.c: decodes and encodes array schemas. A schema is the content of the generic tile in __schema/NAME, in
 * __array_schema.tdb (below version 10), or in __kv_schema.tdb (key-value stores of versions 1 to 3, which differ from
 * sparse arrays only in the name of this file).
 *
 *   u32 version
 *   u8  allows duplicates                          from 5
 *   u8  0 dense, 1 sparse | u8 tile order | u8 cell order | u64 capacity
 *   pipelines of coordinates, of offsets | of validity, from 7
 *   u8  datatype of all dimensions                 below 5
 *   u32 count, dimensions:  u32 length, name
 *                           u8 datatype, u32 values per cell, pipeline, u64 domain size   from 5
 *                           low, high | u8 1: no extent; 0: extent follows
 *   u32 count, attributes:  u32 length, name | u8 datatype | u32 values per cell | pipeline
 *                           u64 length, fill value                                        from 6
 *                           u8 nullable, u8 validity of the fill value                    from 7
 *                           u8 order of the data                                          from 17
 *                           u32 length, name of its enumeration (length 0: none)          from 20
 *   u32 count, labels       from 18:  u32 dimension | u32 length, name | u8 relative | u64 length, URI
 *                           u32 length, attribute | u8 order | u8 datatype | u32 values per cell | u8 external
 *   u32 count, enumerations from 20:  u32 length, name | u32 length, file
 *   current domain          from 22:  u32 version 0 | u8 1: none | u8 0 (a box); for each dimension low, high
 *                           or, for a string: u64 length of both, u64 length of low, low, high
 *
 * Decoding requires:
 *  - Names are distinct byte strings without NUL.
 *  - There are 1 to TSR_MAX_DIMENSIONS dimensions, of datatypes that dimensions may have. Domains have finite ends, low
 *    <= high. A tile extent is not 0; that of an integer dimension is read as unsigned, since an extent that spans most
 *    of a signed type is stored so.
 *  - Dense arrays have attributes, and dimensions of one integer, datetime or time datatype.
 *  - Fill values have the size of their cells. The capacity of a sparse array is not 0.
 *  - Dimensions that labels name, and enumerations that attributes name, exist.
 *
 * Sections: dimensions; attributes; labels, enumerations, current domain; checks across fields; the schema;
 * encoding.
 */
#include "format/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/layout.h"
#include "model/datatype.h"
#include "model/domain.h"
#include "model/name.h"
#include "filter/pipeline.h"
#include "tessera_host.h"

/* below version 6: largest sum of the sizes of fill values, in bytes */
#define NO_FILL_MAX ((uint64_t)1 << 24)

typedef struct schema_decoder {
  tsr_input *in;
  tsr_arena *arena;
  tsr_schema *schema;
  uint32_t version;
  uint64_t made_fills; /* bytes of default fill values, which files below version 6 do not have */
  tsr_error *error;
} schema_decoder;

static int check_input(const schema_decoder *d) { return tsr__input_check(d->in, "it", d->error); }

/* Reads bytes as a NUL-terminated string, which the arena owns. */
static int read_text(schema_decoder *d, uint64_t size, const char *what, char **text) {
  const uint8_t *bytes = tsr__input_take(d->in, size);
  if (!bytes) return check_input(d);
  if (memchr(bytes, 0, size)) return tsr__fail(d->error, TSR_CORRUPT, "%s holds a NUL byte", what);
  TSR_TRY(TSR_ARENA_COPY(d->arena, bytes, size, text, d->error));
  return TSR_OK;
}

/* Reads a byte that must be 0 to `most`. */
static int read_choice(schema_decoder *d, uint8_t most, const char *what, uint8_t *value) {
  uint8_t v = tsr__input_u8(d->in);
  TSR_TRY(check_input(d));
  if (v > most) return tsr__fail(d->error, TSR_CORRUPT, "%s is %u, not 0 to %u", what, v, most);
  *value = v;
  return TSR_OK;
}

static int read_flag(schema_decoder *d, const char *what, bool *flag) {
  uint8_t v = 0;
  TSR_TRY(read_choice(d, 1, what, &v));
  *flag = v;
  return TSR_OK;
}

static int read_datatype(schema_decoder *d, tsr_datatype *datatype) {
  uint8_t v = tsr__input_u8(d->in);
  TSR_TRY(check_input(d));
  if (!tsr__datatype_valid(v)) return tsr__fail(d->error, TSR_CORRUPT, "datatype %u is unknown", v);
  *datatype = (tsr_datatype)v;
  return TSR_OK;
}

/* Reads a u32 count of records that take at least `least` bytes each. */
static int read_count(schema_decoder *d, uint64_t least, const char *what, uint32_t *count) {
  uint32_t n = tsr__input_u32(d->in);
  TSR_TRY(check_input(d));
  if (!tsr__input_fits(d->in, n, least))
    return tsr__fail(d->error, TSR_CORRUPT, "%u %s do not fit into the %llu bytes that are left", n, what,
                     (unsigned long long)tsr__input_left(d->in));
  *count = n;
  return TSR_OK;
}

static int read_pipeline(schema_decoder *d, const char *what, tsr_pipeline *pipeline) {
  int rc = tsr__pipeline_read(d->in, d->version, d->arena, pipeline, d->error);
  if (rc < 0) tsr__wrap(d->error, "%s", what);
  return rc;
}

static bool schema_is_zero(const uint8_t *bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; i++)
    if (bytes[i]) return false;
  return true;
}

/* ---- Dimensions -------------------------------------------------------------------------------------------------- */

static int check_range(schema_decoder *d, const tsr_field *field, const uint8_t *low, const uint8_t *high,
                       const char *what) {
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT &&
      (!isfinite(tsr__value_double(field->datatype, low)) || !isfinite(tsr__value_double(field->datatype, high))))
    return tsr__fail(d->error, TSR_CORRUPT, "its %s is not finite", what);
  if (tsr__key(field->datatype, low) > tsr__key(field->datatype, high))
    return tsr__fail(d->error, TSR_CORRUPT, "the low end of its %s is above the high end", what);
  return TSR_OK;
}

static int read_extent(schema_decoder *d, tsr_field *field) {
  bool none;
  TSR_TRY(read_flag(d, "'no tile extent'", &none));
  if (none) return TSR_OK;
  uint64_t size = tsr_datatype_size(field->datatype);
  const uint8_t *bytes = tsr__input_take(d->in, size);
  if (!bytes) return check_input(d);
  if (!field->has_domain) return tsr__fail(d->error, TSR_CORRUPT, "it has a tile extent but no domain");
  bool positive = !schema_is_zero(bytes, size);
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) {
    double extent = tsr__value_double(field->datatype, bytes);
    positive = !(extent <= 0);
    if (!isfinite(extent) && positive) return TSR_OK; /* TileDB accepts NaN; all cells are in one tile then */
  }
  if (!positive) return tsr__fail(d->error, TSR_CORRUPT, "its tile extent is not above 0");
  memcpy(field->extent, bytes, size);
  field->has_extent = true;
  return TSR_OK;
}

static int read_domain_ends(schema_decoder *d, tsr_field *field, uint64_t domain_size) {
  uint64_t size = tsr_datatype_size(field->datatype);
  bool text = field->values_per_cell == TSR_VARIABLE;
  if (domain_size != (text ? 0 : 2 * size))
    return tsr__fail(d->error, TSR_CORRUPT, "its domain has %llu bytes", (unsigned long long)domain_size);
  if (text) return TSR_OK;
  const uint8_t *bytes = tsr__input_take(d->in, domain_size);
  if (!bytes) return check_input(d);
  TSR_TRY(check_range(d, field, bytes, bytes + size, "domain"));
  memcpy(field->low, bytes, size);
  memcpy(field->high, bytes + size, size);
  field->has_domain = true;
  return TSR_OK;
}

static int read_dimension_body(schema_decoder *d, tsr_datatype common, tsr_field *field) {
  field->datatype = common;
  field->values_per_cell = common == TSR_ASCII ? TSR_VARIABLE : 1;
  field->filters.max_chunk_size = d->schema->coords_filters.max_chunk_size;
  field->filters.uncut = d->schema->coords_filters.uncut;
  uint64_t domain_size = 2 * tsr_datatype_size(common);
  if (layout_has_dimension_datatypes(d->version)) {
    TSR_TRY(read_datatype(d, &field->datatype));
    field->values_per_cell = tsr__input_u32(d->in);
    TSR_TRY(read_pipeline(d, "filters", &field->filters));
    domain_size = tsr__input_u64(d->in);
    TSR_TRY(check_input(d));
  } else if (field->values_per_cell == TSR_VARIABLE) domain_size = 0;
  if (!tsr__datatype_is_dimension(field->datatype))
    return tsr__fail(d->error, TSR_CORRUPT, "%s is not a dimension's datatype", tsr_datatype_name(field->datatype));
  uint32_t values = field->datatype == TSR_ASCII ? TSR_VARIABLE : 1;
  if (field->values_per_cell != values)
    return tsr__fail(d->error, TSR_CORRUPT, "a dimension of %s has %u values per cell",
                     tsr_datatype_name(field->datatype), field->values_per_cell);
  field->cell_size = values == TSR_VARIABLE ? 0 : tsr_datatype_size(field->datatype);
  TSR_TRY(read_domain_ends(d, field, domain_size));
  return read_extent(d, field);
}

static int read_dimensions(schema_decoder *d, tsr_field **fields) {
  tsr_schema *s = d->schema;
  tsr_datatype common = TSR_INT32;
  if (!layout_has_dimension_datatypes(d->version)) TSR_TRY(read_datatype(d, &common));
  TSR_TRY(read_count(d, !layout_has_dimension_datatypes(d->version) ? 5 : 26, "dimensions", &s->dimension_count));
  if (!s->dimension_count) return tsr__fail(d->error, TSR_CORRUPT, "it has no dimension");
  if (s->dimension_count > TSR_MAX_DIMENSIONS)
    return tsr__fail(d->error, TSR_UNSUPPORTED, "%u dimensions are more than %d", s->dimension_count,
                     TSR_MAX_DIMENSIONS);
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, s->dimension_count, fields, d->error));
  for (uint32_t i = 0; i < s->dimension_count; i++) {
    tsr_field *field = *fields + i;
    field->is_dimension = true;
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "a dimension's name", &field->name));
    int rc = read_dimension_body(d, common, field);
    if (rc < 0) {
      tsr__wrap(d->error, "dimension %u '%s'", i, field->name);
      return rc;
    }
  }
  return TSR_OK;
}

/* ---- Attributes -------------------------------------------------------------------------------------------------- */

/* Sets the fill value of an attribute below version 6: the datatype's default for each value of the cell, or one value
 * if their number is variable. */
static int default_fill(schema_decoder *d, tsr_field *field) {
  uint64_t size = tsr_datatype_size(field->datatype), bytes = field->cell_size ? field->cell_size : size;
  d->made_fills = tsr__add_sat(d->made_fills, bytes);
  if (d->made_fills > NO_FILL_MAX)
    return tsr__fail(d->error, TSR_UNSUPPORTED,
                     "cells of %llu bytes in version %u: its fill values take more than %llu bytes together",
                     (unsigned long long)bytes, d->version, (unsigned long long)NO_FILL_MAX);
  TSR_TRY(TSR_ARENA_RAW(d->arena, bytes, &field->fill, d->error));
  field->fill_size = bytes;
  tsr__datatype_fill(field->datatype, field->fill);
  for (uint64_t done = size; done < bytes; done *= 2)
    memcpy(field->fill + done, field->fill, TSR_MIN(done, bytes - done));
  return TSR_OK;
}

static int read_fill(schema_decoder *d, tsr_field *field) {
  if (!layout_has_fill_values(d->version)) return default_fill(d, field);
  uint64_t size = tsr__input_u64(d->in);
  const uint8_t *bytes = tsr__input_take(d->in, size);
  if (!bytes) return check_input(d);
  if (field->cell_size && size != field->cell_size)
    return tsr__fail(d->error, TSR_CORRUPT, "its fill value has %llu bytes, its cells %llu", (unsigned long long)size,
                     (unsigned long long)field->cell_size);
  TSR_TRY(TSR_ARENA_COPY(d->arena, bytes, size, &field->fill, d->error));
  field->fill_size = size;
  return TSR_OK;
}

static int read_attribute_body(schema_decoder *d, tsr_field *field) {
  TSR_TRY(read_datatype(d, &field->datatype));
  field->values_per_cell = tsr__input_u32(d->in);
  TSR_TRY(check_input(d));
  if (!field->values_per_cell || (field->datatype == TSR_ANY && field->values_per_cell != TSR_VARIABLE))
    return tsr__fail(d->error, TSR_CORRUPT, "an attribute of %s has %u values per cell",
                     tsr_datatype_name(field->datatype), field->values_per_cell);
  if (field->values_per_cell != TSR_VARIABLE)
    field->cell_size = field->values_per_cell * tsr_datatype_size(field->datatype);
  TSR_TRY(read_pipeline(d, "filters", &field->filters));
  TSR_TRY(read_fill(d, field));
  if (layout_has_validity(d->version)) {
    TSR_TRY(read_flag(d, "'nullable'", &field->nullable));
    field->fill_validity = tsr__input_u8(d->in) != 0;
  }
  if (layout_has_data_order(d->version)) TSR_TRY(read_choice(d, 2, "its order", &field->data_order));
  if (layout_has_enumerations(d->version)) {
    uint32_t length = tsr__input_u32(d->in);
    if (length) TSR_TRY(read_text(d, length, "the name of its enumeration", &field->enumeration));
  }
  return check_input(d);
}

static int read_attributes(schema_decoder *d, tsr_field *dimensions) {
  tsr_schema *s = d->schema;
  TSR_TRY(read_count(d, 17, "attributes", &s->attribute_count));
  uint64_t count = (uint64_t)s->dimension_count + s->attribute_count;
  if (count > UINT32_MAX) return tsr__fail(d->error, TSR_UNSUPPORTED, "%llu fields", (unsigned long long)count);
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, count, &s->fields, d->error));
  memcpy(s->fields, dimensions, s->dimension_count * sizeof(tsr_field));
  for (uint32_t i = 0; i < s->attribute_count; i++) {
    tsr_field *field = s->fields + s->dimension_count + i;
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "an attribute's name", &field->name));
    int rc = read_attribute_body(d, field);
    if (rc < 0) {
      tsr__wrap(d->error, "attribute %u '%s'", i, field->name);
      return rc;
    }
  }
  return TSR_OK;
}

/* ---- Labels, enumerations, current domain ------------------------------------------------------------------------ */

static int read_labels(schema_decoder *d) {
  tsr_schema *s = d->schema;
  TSR_TRY(read_count(d, 28, "dimension labels", &s->label_count));
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, s->label_count, &s->labels, d->error));
  for (uint32_t i = 0; i < s->label_count; i++) {
    tsr_label *label = s->labels + i;
    label->dimension = tsr__input_u32(d->in);
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "a dimension label's name", &label->name));
    TSR_TRY(read_flag(d, "a dimension label's 'relative'", &label->relative));
    TSR_TRY(read_text(d, tsr__input_u64(d->in), "a dimension label's URI", &label->uri));
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "a dimension label's attribute", &label->attribute));
    TSR_TRY(read_choice(d, 2, "a dimension label's order", &label->data_order));
    TSR_TRY(read_datatype(d, &label->datatype));
    label->values_per_cell = tsr__input_u32(d->in);
    TSR_TRY(read_flag(d, "a dimension label's 'external'", &label->external));
    if (!label->values_per_cell || label->dimension >= s->dimension_count)
      return tsr__fail(d->error, TSR_CORRUPT, "label '%s' is on dimension %u of %u, with %u values per cell",
                       label->name, label->dimension, s->dimension_count, label->values_per_cell);
  }
  return TSR_OK;
}

static int read_enumerations(schema_decoder *d) {
  tsr_schema *s = d->schema;
  TSR_TRY(read_count(d, 8, "enumerations", &s->enumeration_count));
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, s->enumeration_count, &s->enumerations, d->error));
  for (uint32_t i = 0; i < s->enumeration_count; i++) {
    tsr_enumeration *e = s->enumerations + i;
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "an enumeration's name", &e->name));
    TSR_TRY(read_text(d, tsr__input_u32(d->in), "an enumeration's file name", &e->file));
    if (!e->name[0]) return tsr__fail(d->error, TSR_CORRUPT, "enumeration %u has no name", i);
    if (!e->file[0] || strchr(e->file, '/') || !strcmp(e->file, ".") || !strcmp(e->file, ".."))
      return tsr__fail(d->error, TSR_CORRUPT, "enumeration '%s' is in '%s', which is not a file name", e->name,
                       e->file);
  }
  return TSR_OK;
}

static int read_interval(schema_decoder *d, const tsr_field *field, tsr_interval *interval) {
  if (field->values_per_cell == TSR_VARIABLE) {
    uint64_t both = tsr__input_u64(d->in), low = tsr__input_u64(d->in);
    const uint8_t *bytes = tsr__input_take(d->in, both);
    if (!bytes) return check_input(d);
    if (low > both)
      return tsr__fail(d->error, TSR_CORRUPT, "its low end has %llu of %llu bytes", (unsigned long long)low,
                       (unsigned long long)both);
    if (tsr__bytes_compare(bytes, low, bytes + low, both - low) > 0)
      return tsr__fail(d->error, TSR_CORRUPT, "its low end is above its high end");
    uint8_t *copy;
    TSR_TRY(TSR_ARENA_COPY(d->arena, bytes, both, &copy, d->error));
    interval->low_text = copy;
    interval->high_text = copy + low;
    interval->low_size = low;
    interval->high_size = both - low;
    return TSR_OK;
  }
  uint64_t size = field->cell_size;
  const uint8_t *bytes = tsr__input_take(d->in, 2 * size);
  if (!bytes) return check_input(d);
  TSR_TRY(check_range(d, field, bytes, bytes + size, "current domain"));
  if (tsr__key(field->datatype, bytes) < tsr__key(field->datatype, field->low) ||
      tsr__key(field->datatype, bytes + size) > tsr__key(field->datatype, field->high))
    return tsr__fail(d->error, TSR_CORRUPT, "it reaches outside the domain");
  memcpy(interval->low, bytes, size);
  memcpy(interval->high, bytes + size, size);
  return TSR_OK;
}

static int read_current_domain(schema_decoder *d) {
  tsr_schema *s = d->schema;
  uint32_t version = tsr__input_u32(d->in);
  TSR_TRY(check_input(d));
  if (version > TSR_CURRENT_DOMAIN_MAX)
    return tsr__fail(d->error, TSR_UNSUPPORTED, "current domain of version %u", version);
  bool none;
  TSR_TRY(read_flag(d, "'no current domain'", &none));
  if (none) return TSR_OK;
  uint8_t type = tsr__input_u8(d->in);
  TSR_TRY(check_input(d));
  if (type) return tsr__fail(d->error, TSR_UNSUPPORTED, "current domain of type %u", type);
  tsr_interval *intervals;
  TSR_TRY(TSR_ARENA_ARRAY(d->arena, s->dimension_count, &intervals, d->error));
  for (uint32_t i = 0; i < s->dimension_count; i++) {
    int rc = read_interval(d, s->fields + i, intervals + i);
    if (rc < 0) {
      tsr__wrap(d->error, "current domain of dimension '%s'", s->fields[i].name);
      return rc;
    }
  }
  s->current_domain = intervals;
  return TSR_OK;
}

/* ---- Checks across fields ---------------------------------------------------------------------------------------- */

/* Sorts `names` and fails if two are equal. */
static int check_unique(schema_decoder *d, char **names, uint64_t count, const char *what) {
  qsort(names, count, sizeof *names, tsr__names_compare);
  for (uint64_t i = 1; i < count; i++)
    if (!strcmp(names[i - 1], names[i])) return tsr__fail(d->error, TSR_CORRUPT, "two %s '%s'", what, names[i]);
  return TSR_OK;
}

static int check_names(schema_decoder *d) {
  tsr_schema *s = d->schema;
  uint64_t fields = (uint64_t)s->dimension_count + s->attribute_count, most = TSR_MAX(fields, s->enumeration_count);
  char **names;
  TSR_TRY(TSR_ALLOC_ARRAY(d->arena->memory, most, &names, d->error));
  for (uint64_t i = 0; i < fields; i++) names[i] = s->fields[i].name;
  int rc = check_unique(d, names, fields, "fields are named");
  if (rc >= 0) {
    for (uint64_t i = 0; i < s->enumeration_count; i++) names[i] = s->enumerations[i].name;
    rc = check_unique(d, names, s->enumeration_count, "enumerations are named");
  }
  for (uint64_t i = s->dimension_count; rc >= 0 && i < fields; i++) {
    const tsr_field *field = s->fields + i;
    if (!field->enumeration) continue;
    const void *key = &field->enumeration;
    if (!bsearch(key, names, s->enumeration_count, sizeof *names, tsr__names_compare))
      rc = tsr__fail(d->error, TSR_CORRUPT, "attribute '%s' has the enumeration '%s', which is not listed", field->name,
                     field->enumeration);
    else if (!tsr__datatype_is_integral(field->datatype) || field->values_per_cell != 1)
      rc = tsr__fail(d->error, TSR_CORRUPT, "attribute '%s' has an enumeration but no single integer", field->name);
  }
  tsr__free(names);
  return rc;
}

static int check_dense(schema_decoder *d) {
  const tsr_schema *s = d->schema;
  if (s->cell_order == TSR_ORDER_HILBERT) return tsr__fail(d->error, TSR_CORRUPT, "a dense array in Hilbert order");
  if (!s->attribute_count) return tsr__fail(d->error, TSR_CORRUPT, "a dense array without attributes");
  for (uint32_t i = 0; i < s->dimension_count; i++) {
    tsr_datatype datatype = s->fields[i].datatype;
    tsr_kind kind = tsr_datatype_kind(datatype);
    if (!tsr__datatype_is_integral(datatype) && kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME)
      return tsr__fail(d->error, TSR_CORRUPT, "a dense array with dimension '%s' of %s", s->fields[i].name,
                       tsr_datatype_name(datatype));
    if (datatype != s->fields[0].datatype)
      return tsr__fail(d->error, TSR_CORRUPT, "a dense array with dimensions of %s and %s",
                       tsr_datatype_name(s->fields[0].datatype), tsr_datatype_name(datatype));
  }
  return TSR_OK;
}

static int check_fields(schema_decoder *d) {
  const tsr_schema *s = d->schema;
  TSR_TRY(check_names(d));
  if (s->dense) return check_dense(d);
  if (!s->capacity) return tsr__fail(d->error, TSR_CORRUPT, "sparse array has capacity 0");
  if (s->cell_order == TSR_ORDER_HILBERT && s->dimension_count > TSR_HILBERT_DIMENSIONS_MAX)
    return tsr__fail(d->error, TSR_CORRUPT, "Hilbert order over %u dimensions", s->dimension_count);
  return TSR_OK;
}

/* ---- The schema -------------------------------------------------------------------------------------------------- */

static int read_head(schema_decoder *d) {
  tsr_schema *s = d->schema;
  d->version = s->version = tsr__input_u32(d->in);
  TSR_TRY(check_input(d));
  if (s->version < TSR_FORMAT_READ_MIN) return tsr__fail(d->error, TSR_CORRUPT, "format version 0");
  if (s->version > TSR_FORMAT_READ_MAX)
    return tsr__fail(d->error, TSR_UNSUPPORTED, "format version %u is newer than %d, the newest that is known",
                     s->version, TSR_FORMAT_READ_MAX);
  if (layout_has_duplicates(s->version)) TSR_TRY(read_flag(d, "'allows duplicates'", &s->allows_duplicates));
  bool sparse = false;
  uint8_t tile_order = 0;
  TSR_TRY(read_flag(d, "the array type", &sparse));
  TSR_TRY(read_choice(d, 1, "the tile order", &tile_order));
  uint8_t cell_order = tsr__input_u8(d->in);
  s->capacity = tsr__input_u64(d->in);
  TSR_TRY(check_input(d));
  if (cell_order != TSR_ORDER_ROW && cell_order != TSR_ORDER_COL && cell_order != TSR_ORDER_HILBERT)
    return tsr__fail(d->error, TSR_CORRUPT, "cell order %u is unknown", cell_order);
  s->dense = !sparse;
  s->tile_order = (tsr_order)tile_order;
  s->cell_order = (tsr_order)cell_order;
  TSR_TRY(read_pipeline(d, "filters of coordinates", &s->coords_filters));
  TSR_TRY(read_pipeline(d, "filters of offsets", &s->offsets_filters));
  s->validity_filters.max_chunk_size = s->offsets_filters.max_chunk_size;
  s->validity_filters.uncut = s->offsets_filters.uncut;
  if (layout_has_validity(s->version)) TSR_TRY(read_pipeline(d, "filters of validity", &s->validity_filters));
  return TSR_OK;
}

static int read_schema(schema_decoder *d) {
  TSR_TRY(read_head(d));
  tsr_field *dimensions = NULL;
  TSR_TRY(read_dimensions(d, &dimensions));
  TSR_TRY(read_attributes(d, dimensions));
  if (layout_has_labels(d->version)) TSR_TRY(read_labels(d));
  if (layout_has_enumerations(d->version)) TSR_TRY(read_enumerations(d));
  if (layout_has_current_domain(d->version)) TSR_TRY(read_current_domain(d));
  if (tsr__input_left(d->in))
    return tsr__fail(d->error, TSR_CORRUPT, "%llu bytes follow its end", (unsigned long long)tsr__input_left(d->in));
  return check_fields(d);
}

int tsr__schema_decode(tsr_input *in, const char *name, tsr_arena *arena, tsr_schema *schema, tsr_error *error) {
  tsr_schema s = {.key_value = !strcmp(name, TSR_FILE_KV_SCHEMA)};
  schema_decoder d = {.in = in, .arena = arena, .schema = &s, .error = error};
  tsr_name parsed;
  int rc = TSR_ARENA_COPY(arena, name, strlen(name), &s.name, error);
  if (rc >= 0) {
    if (tsr__name_parse(name, strlen(name), &parsed)) s.time = parsed.end;
    rc = read_schema(&d);
  }
  if (rc < 0)
    tsr__wrap(error, "schema '%s', byte %llu of %llu", name, (unsigned long long)in->at, (unsigned long long)in->size);
  else *schema = s;
  return rc;
}

int64_t tsr__schema_field(const tsr_schema *schema, const char *name) {
  uint64_t count = (uint64_t)schema->dimension_count + schema->attribute_count;
  for (uint64_t i = 0; i < count; i++)
    if (!strcmp(schema->fields[i].name, name)) return (int64_t)i;
  return -1;
}

bool tsr_field_has_default(const tsr_field *field) {
  const uint64_t each = tsr_datatype_size(field->datatype), usual = field->cell_size ? field->cell_size : each;
  uint8_t value[8];
  if (!field->fill || field->is_dimension) return false;
  if (field->fill_size != usual) return true;
  tsr__datatype_fill(field->datatype, value);
  for (uint64_t i = 0; i < usual; i += each)
    if (memcmp(field->fill + i, value, each)) return true;
  return false;
}

bool tsr__schema_has_text(const tsr_schema *schema) {
  for (uint32_t d = 0; d < schema->dimension_count; d++)
    if (schema->fields[d].values_per_cell == TSR_VARIABLE) return true;
  return false;
}

const tsr_pipeline *tsr__schema_pipeline(const tsr_schema *schema, uint32_t field) {
  const tsr_field *f = schema->fields + field;
  /* Below version 5 dimensions have no filter lists, and coords_filters apply only to __coords. If a newer fragment of
   * such an array has separate files for dimensions, these are not filtered. */
  return f->is_dimension && !f->filters.count && layout_has_dimension_filters(schema->version) ? &schema->coords_filters
                                                                                               : &f->filters;
}

/* ---- Encoding ---------------------------------------------------------------------------------------------------- */

/* Properties that a format version cannot store are omitted; tsr__schema_check has refused schemas that would lose
 * something by that.
 */

static int put_text(tsr_buffer *out, const char *text, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)strlen(text), error));
  return tsr__buffer_append(out, text, strlen(text), error);
}

static int write_dimension(const tsr_field *field, uint32_t version, tsr_buffer *out, tsr_error *error) {
  uint64_t size = tsr_datatype_size(field->datatype);
  TSR_TRY(put_text(out, field->name, error));
  if (layout_has_dimension_datatypes(version)) {
    TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)field->datatype, error));
    TSR_TRY(tsr__buffer_append_u32(out, field->values_per_cell, error));
    TSR_TRY(tsr__pipeline_write(&field->filters, version, out, error));
    TSR_TRY(tsr__buffer_append_u64(out, field->has_domain ? 2 * size : 0, error));
  }
  if (field->has_domain) {
    TSR_TRY(tsr__buffer_append(out, field->low, size, error));
    TSR_TRY(tsr__buffer_append(out, field->high, size, error));
  }
  TSR_TRY(tsr__buffer_append_u8(out, !field->has_extent, error));
  return field->has_extent ? tsr__buffer_append(out, field->extent, size, error) : TSR_OK;
}

static int write_attribute(const tsr_field *field, uint32_t version, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(put_text(out, field->name, error));
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)field->datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, field->values_per_cell, error));
  TSR_TRY(tsr__pipeline_write(&field->filters, version, out, error));
  if (layout_has_fill_values(version)) {
    TSR_TRY(tsr__buffer_append_u64(out, field->fill_size, error));
    TSR_TRY(tsr__buffer_append(out, field->fill, field->fill_size, error));
  }
  if (layout_has_validity(version)) {
    TSR_TRY(tsr__buffer_append_u8(out, field->nullable, error));
    TSR_TRY(tsr__buffer_append_u8(out, field->fill_validity, error));
  }
  if (layout_has_data_order(version)) TSR_TRY(tsr__buffer_append_u8(out, field->data_order, error));
  if (layout_has_enumerations(version)) TSR_TRY(put_text(out, field->enumeration ? field->enumeration : "", error));
  return TSR_OK;
}

static int write_enumerations(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, schema->enumeration_count, error));
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    TSR_TRY(put_text(out, schema->enumerations[i].name, error));
    TSR_TRY(put_text(out, schema->enumerations[i].file, error));
  }
  return TSR_OK;
}

static int write_label(const tsr_label *label, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, label->dimension, error));
  TSR_TRY(put_text(out, label->name, error));
  TSR_TRY(tsr__buffer_append_u8(out, label->relative, error));
  TSR_TRY(tsr__buffer_append_u64(out, strlen(label->uri), error));
  TSR_TRY(tsr__buffer_append(out, label->uri, strlen(label->uri), error));
  TSR_TRY(put_text(out, label->attribute, error));
  TSR_TRY(tsr__buffer_append_u8(out, label->data_order, error));
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)label->datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, label->values_per_cell, error));
  return tsr__buffer_append_u8(out, label->external, error);
}

static int write_labels(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, schema->label_count, error));
  for (uint32_t i = 0; i < schema->label_count; i++) TSR_TRY(write_label(&schema->labels[i], out, error));
  return TSR_OK;
}

static int write_current_domain(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, 0, error));
  TSR_TRY(tsr__buffer_append_u8(out, !schema->current_domain, error));
  if (!schema->current_domain) return TSR_OK;
  TSR_TRY(tsr__buffer_append_u8(out, 0, error)); /* type: a box */
  for (uint32_t d = 0; d < schema->dimension_count; d++) {
    const tsr_interval *interval = &schema->current_domain[d];
    uint64_t size = schema->fields[d].cell_size;
    if (size) {
      TSR_TRY(tsr__buffer_append(out, interval->low, size, error));
      TSR_TRY(tsr__buffer_append(out, interval->high, size, error));
    } else {
      TSR_TRY(tsr__buffer_append_u64(out, interval->low_size + interval->high_size, error));
      TSR_TRY(tsr__buffer_append_u64(out, interval->low_size, error));
      TSR_TRY(tsr__buffer_append(out, interval->low_text, interval->low_size, error));
      TSR_TRY(tsr__buffer_append(out, interval->high_text, interval->high_size, error));
    }
  }
  return TSR_OK;
}

static int write_schema(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  uint32_t version = schema->version;
  TSR_TRY(tsr__buffer_append_u32(out, version, error));
  if (layout_has_duplicates(version)) TSR_TRY(tsr__buffer_append_u8(out, schema->allows_duplicates, error));
  TSR_TRY(tsr__buffer_append_u8(out, !schema->dense, error));
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)schema->tile_order, error));
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)schema->cell_order, error));
  TSR_TRY(tsr__buffer_append_u64(out, schema->capacity, error));
  TSR_TRY(tsr__pipeline_write(&schema->coords_filters, version, out, error));
  TSR_TRY(tsr__pipeline_write(&schema->offsets_filters, version, out, error));
  if (layout_has_validity(version)) TSR_TRY(tsr__pipeline_write(&schema->validity_filters, version, out, error));
  if (!layout_has_dimension_datatypes(version))
    TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)schema->fields[0].datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, schema->dimension_count, error));
  for (uint32_t i = 0; i < schema->dimension_count; i++)
    TSR_TRY(write_dimension(&schema->fields[i], version, out, error));
  TSR_TRY(tsr__buffer_append_u32(out, schema->attribute_count, error));
  for (uint32_t i = 0; i < schema->attribute_count; i++)
    TSR_TRY(write_attribute(&schema->fields[schema->dimension_count + i], version, out, error));
  if (layout_has_labels(version)) TSR_TRY(write_labels(schema, out, error));
  if (layout_has_enumerations(version)) TSR_TRY(write_enumerations(schema, out, error));
  return layout_has_current_domain(version) ? write_current_domain(schema, out, error) : TSR_OK;
}

int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = write_schema(schema, out, error);
  if (rc < 0) {
    out->size = before;
    return tsr__wrap(error, "schema");
  }
  return TSR_OK;
}
