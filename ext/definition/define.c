/* define.c: makes the schema of an array from the column definitions and creation options of CREATE VIRTUAL TABLE ...
 * USING tessera(...), and turns the schema of any TileDB array into one that CREATE accepts.
 *
 * It interprets clauses and options, fills in defaults, and checks that values fit their datatypes. The rules of TileDB
 * and of format versions are the core's: it checks them when the array is created.
 *
 * Sections: schemas that CREATE accepts; memory of definitions; cells; dimensions; attributes; options; the schema. */
#include "definition/define.h"

#include <math.h>
#include <string.h>
#include <float.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/names.h"
#include "sql/json.h"
#include "sql/literals.h"
#include "sql/names.h"
#include "definition/arguments.h"

/* ---- Schemas that CREATE accepts --------------------------------------------------------------------------------- */
/* TileDB makes arrays that CREATE rejects: key-value stores, attributes whose names begin with "__", pipelines that
 * cannot be read back, levels that a codec does not have, lossy filters on offsets, Hilbert order over a range that is
 * not finite. tessera_ddl and tessera_copy leave these out in the same way and keep everything else. */

/* Returns the level that the codec uses instead of a level outside of its range. */
static int32_t known_level(const tsr_filter *filter) {
  const int32_t level = filter->level;
  switch (filter->type) {
  case TSR_FILTER_GZIP: return level < 0 ? -1 : level > 9 ? 9 : level;
  case TSR_FILTER_ZSTD: return level < -7 ? 3 : level > 22 ? 22 : level;
  case TSR_FILTER_BZIP2: return level < 1 || level > 9 ? -1 : level;
  default: return level;
  }
}

static bool is_allowed(const tsr_pipeline *pipeline, const tsr_field *field) {
  tsr_error ignored;
  return tsr_filters_check(pipeline, field->datatype, field->values_per_cell, field->is_dimension, &ignored) >= 0;
}

/* Copies a pipeline without the filters that are not allowed after the ones before them; with `exact`, also without
 * lossy filters. */
static int keep_allowed(tsx_parser *p, const tsr_field *field, bool exact, tsr_pipeline *pipeline) {
  tsr_filter *filters = tsx_parser_alloc(p, ((uint64_t)pipeline->count + 1) * sizeof *filters);
  tsr_pipeline kept = *pipeline;
  if (!filters) return tsx_out_of_memory(p->error);
  kept.filters = filters;
  kept.count = 0;
  for (uint32_t i = 0; i < pipeline->count; i++) {
    if (exact && pipeline->filters[i].type == TSR_FILTER_SCALE_FLOAT) continue;
    filters[kept.count] = pipeline->filters[i];
    filters[kept.count].level = known_level(&pipeline->filters[i]);
    kept.count++;
    kept.count -= !is_allowed(&kept, field);
  }
  *pipeline = kept;
  return TSR_OK;
}

/* Sets the filters of a dimension. A dimension without filters of its own uses those of the coordinates; if these are
 * not allowed for its datatype, the allowed ones among them become its own. */
static int creatable_set_dimension(tsx_parser *p, const tsr_schema *schema, tsr_field *field) {
  const bool has_filters = field->filters.count > 0;
  int code = TSR_OK;
  if (has_filters) code = keep_allowed(p, field, false, &field->filters);
  else if (schema->version >= 5 && !is_allowed(&schema->coords_filters, field)) {
    field->filters = schema->coords_filters;
    code = keep_allowed(p, field, false, &field->filters);
  } else return TSR_OK;
  if (code < 0 || field->filters.count) return code;
  field->filters.filters[field->filters.count++] = TSX_FILTER(TSR_FILTER_NONE);
  return TSR_OK;
}

/* Returns true if the width of the domain is finite, as Hilbert codes require. */
static bool is_finite_width(const tsr_field *field) {
  double low, high;
  float ends[2];
  if (tsr_datatype_kind(field->datatype) != TSR_KIND_FLOAT) return true;
  memcpy(&low, field->low, sizeof low);
  memcpy(&high, field->high, sizeof high);
  if (field->cell_size == sizeof(float)) {
    memcpy(&ends[0], field->low, sizeof(float));
    memcpy(&ends[1], field->high, sizeof(float));
    low = ends[0];
    high = ends[1];
  }
  return isfinite(high - low);
}

int tsx_filters_keep(tsx_definition *definition, const tsr_field *field, tsr_pipeline *pipeline, tsr_error *error) {
  tsx_parser p = {.definition = definition, .error = error};
  return keep_allowed(&p, field, false, pipeline);
}

/* Sets *schema to what CREATE accepts of the source. The parser's definition owns the memory. */
static int creatable_schema(tsx_parser *p, const tsr_schema *source, tsr_schema *schema) {
  static const tsr_field offset = {.datatype = TSR_UINT64, .values_per_cell = 1},
                         validity = {.datatype = TSR_UINT8, .values_per_cell = 1};
  const uint64_t count = (uint64_t)source->dimension_count + source->attribute_count;
  *schema = *source;
  schema->key_value = false;
  if (!(schema->fields = tsx_parser_alloc(p, count * sizeof *schema->fields))) return tsx_out_of_memory(p->error);
  memcpy(schema->fields, source->fields, count * sizeof *schema->fields);
  TSX_TRY(keep_allowed(p, &offset, true, &schema->offsets_filters));
  TSX_TRY(keep_allowed(p, &validity, true, &schema->validity_filters));
  if (schema->version < 5) TSX_TRY(keep_allowed(p, &schema->fields[0], false, &schema->coords_filters));
  for (uint64_t i = 0; i < count; i++) {
    tsr_field *field = &schema->fields[i];
    if (!strncmp(field->name, "__", 2) && (source->key_value || !field->is_dimension)) field->name++;
    if (schema->cell_order == TSR_ORDER_HILBERT && field->is_dimension && !is_finite_width(field))
      schema->cell_order = TSR_ORDER_ROW;
    TSX_TRY(field->is_dimension ? creatable_set_dimension(p, schema, field)
                                : keep_allowed(p, field, false, &field->filters));
  }
  return TSR_OK;
}

int tsx_creatable(const tsr_schema *source, tsx_definition *definition, tsr_error *error) {
  tsx_parser p = {.definition = definition, .error = error};
  return creatable_schema(&p, source, &definition->schema);
}

int tsx_creatable_label(const tsr_schema *source, tsx_definition *definition, uint32_t label, tsr_error *error) {
  tsx_parser p = {.definition = definition, .error = error};
  tsr_schema *schema = &definition->schema, *array = tsx_parser_alloc(&p, sizeof *array);
  tsr_label *labels = tsx_parser_alloc(&p, schema->label_count * sizeof *labels);
  if (!array || !labels) return tsx_out_of_memory(error);
  memcpy(labels, schema->labels, schema->label_count * sizeof *labels);
  labels[label].array = array;
  schema->labels = labels;
  return creatable_schema(&p, source, array);
}

#define DEFINE_CHUNK_DEFAULT 65536
#define CAPACITY_DEFAULT     10000
#define LABELS_UINT16        65000 /* with more labels than this, the codes of an enumeration are INT32 */

void *tsx_parser_alloc(tsx_parser *p, uint64_t size) {
  void *memory = tsx_arena_take(&p->definition->arena, size + 1); /* of 0 bytes, too: not NULL */
  if (!memory) tsx_out_of_memory(p->error);
  return memory;
}

void tsx_definition_release(tsx_definition *definition) { tsx_arena_free(&definition->arena); }

/* ---- Cells ------------------------------------------------------------------------------------------------------ */

/* Converts a literal to the bytes of a string, or of any number of numbers. */
static int raw_cell(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, uint8_t **bytes, uint64_t *size,
                    const char *what) {
  uint64_t value_size = tsr_datatype_size(datatype), count;
  uint8_t *out = tsx_parser_alloc(p, value->size * 4 + 16);
  if (!out) return TSR_NOMEM;
  if (value->kind == TSX_TOKEN_BLOB) {
    if (value->size % value_size)
      return tsx_parser_fail(p, TSR_MISMATCH, "%s: %llu bytes are not %s values of %llu bytes each", what,
                             (unsigned long long)value->size, tsr_datatype_name(datatype),
                             (unsigned long long)value_size);
    memcpy(out, value->text, value->size);
    *size = value->size;
  } else if (tsx_datatype_is_bytes(datatype)) {
    if (tsx_text_convert(datatype, value->text, value->size, out, size, p->error) < 0) return tsx_parser_wrap(p, what);
  } else {
    if (tsx_vector_parse(datatype, value->text, true, out, &count, p->error) < 0) return tsx_parser_wrap(p, what);
    *size = count * value_size;
  }
  *bytes = out;
  return TSR_OK;
}

/* Converts a literal, which is not NULL, to the contents of a cell, owned by the definition. Pads text that is shorter
 * than a cell of fixed length with NULs. */
static int cell_of(tsx_parser *p, const tsx_literal *value, tsr_datatype datatype, uint32_t values_per_cell,
                   uint8_t **bytes, uint64_t *size, const char *what) {
  uint64_t value_size = tsr_datatype_size(datatype), found_size = 0, cell_size = (uint64_t)values_per_cell * value_size;
  if (!tsx_datatype_is_bytes(datatype) && values_per_cell == 1) {
    *size = value_size;
    if (!(*bytes = tsx_parser_alloc(p, value_size))) return TSR_NOMEM;
    return tsx_literal_number(p, value, datatype, *bytes, what);
  }
  uint8_t *found = NULL;
  TSX_TRY(raw_cell(p, value, datatype, &found, &found_size, what));
  if (values_per_cell != TSR_VARIABLE && found_size != cell_size) {
    bool is_text = tsr_datatype_kind(datatype) == TSR_KIND_TEXT;
    if (found_size > cell_size || !is_text)
      return tsx_parser_fail(p, TSR_RANGE, "%s: the number of values is %llu, that of a cell %u", what,
                             (unsigned long long)(found_size / value_size), (unsigned)values_per_cell);
    uint8_t *padded = tsx_parser_alloc(p, cell_size); /* zeroed */
    if (!padded) return TSR_NOMEM;
    memcpy(padded, found, found_size);
    found = padded;
    found_size = cell_size;
  }
  *bytes = found;
  *size = found_size;
  return TSR_OK;
}

static int default_filters(tsx_parser *p, tsr_filter_type type, tsr_pipeline *pipeline) {
  tsr_filter *filter = tsx_parser_alloc(p, sizeof *filter);
  if (!filter) return TSR_NOMEM;
  *filter = TSX_FILTER(type);
  *pipeline = (tsr_pipeline){.max_chunk_size = DEFINE_CHUNK_DEFAULT, .count = 1, .filters = filter};
  return TSR_OK;
}

/* ---- Dimensions ------------------------------------------------------------------------------------------------- */

/* Sets the widest domain that TileDB allows: its high end is one below the maximum, and NaT is left out. */
static void widest_domain(tsr_datatype datatype, uint8_t *low, uint8_t *high) {
  uint64_t size = tsr_datatype_size(datatype);
  double d = DBL_MAX;
  float f = FLT_MAX;
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (kind == TSR_KIND_FLOAT) {
    memcpy(high, size == 8 ? (void *)&d : (void *)&f, size);
    memcpy(low, high, size);
    low[size - 1] |= 0x80;
    return;
  }
  bool is_unsigned = kind == TSR_KIND_UNSIGNED;
  uint64_t max = UINT64_MAX >> (64 - size * 8 + (is_unsigned ? 0 : 1)), min = is_unsigned ? 0 : ~max;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) min++;
  max--;
  memcpy(low, &min, size);
  memcpy(high, &max, size);
}

tsr_datatype tsx_extent_datatype(tsr_datatype datatype) {
  static const tsr_datatype counts[] = {[1] = TSR_UINT8, [2] = TSR_UINT16, [4] = TSR_UINT32, [8] = TSR_UINT64};
  return tsr_datatype_kind(datatype) == TSR_KIND_FLOAT ? datatype : counts[tsr_datatype_size(datatype)];
}

static int set_extent(tsx_parser *p, const tsx_literal *value, tsr_field *field) {
  field->has_extent = true;
  if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT)
    return tsx_literal_number(p, value, field->datatype, field->extent, "tile extent");
  return tsx_literal_integer(p, value, tsx_extent_datatype(field->datatype), field->extent, "tile extent");
}

static int set_dimension(tsx_parser *p, const tsx_column_text *c, bool dense, tsr_field *field) {
  tsr_datatype datatype = c->datatype;
  tsr_kind kind = tsr_datatype_kind(datatype);
  bool is_text = kind == TSR_KIND_TEXT && datatype != TSR_CHAR && datatype != TSR_GEOM_WKT;
  field->is_dimension = true;
  if (c->fill.kind || c->enumeration.given || c->null)
    return tsx_parser_fail(p, TSR_ERROR, "a dimension has no %s",
                           c->fill.kind           ? "DEFAULT"
                           : c->enumeration.given ? "ENUM"
                                                  : "NULL");
  if (kind == TSR_KIND_BYTES || kind == TSR_KIND_BOOLEAN || (kind == TSR_KIND_TEXT && !is_text))
    return tsx_parser_fail(p, TSR_CONSTRAINT, "%s cannot be a dimension's datatype", tsr_datatype_name(datatype));
  if (c->values_per_cell != (is_text ? TSR_VARIABLE : 1))
    return tsx_parser_fail(p, TSR_CONSTRAINT, "a dimension has one %s per cell", is_text ? "string" : "value");
  if (is_text) {
    if (c->domain.low.kind) return tsx_parser_fail(p, TSR_CONSTRAINT, "a dimension of strings has no bounds");
    field->datatype = TSR_ASCII;
    return TSR_OK;
  }
  field->has_domain = true;
  if (dense && !c->domain.extent.kind)
    return tsx_parser_fail(p, TSR_CONSTRAINT,
                           "a dimension of a dense array needs bounds and a tile extent: DIMENSION(low, high, "
                           "extent)");
  if (!c->domain.low.kind) {
    widest_domain(datatype, field->low, field->high);
    return TSR_OK;
  }
  TSX_TRY(tsx_literal_number(p, &c->domain.low, datatype, field->low, "low end"));
  TSX_TRY(tsx_literal_number(p, &c->domain.high, datatype, field->high, "high end"));
  return c->domain.extent.kind ? set_extent(p, &c->domain.extent, field) : TSR_OK;
}

/* Sets the current domain of one dimension. A dimension without CURRENT, beside others with it, may be written on its
 * whole domain. */
static int set_current(tsx_parser *p, const tsx_column_text *c, const tsr_field *field, tsr_interval *interval) {
  const tsx_literal *low = &c->domain.current_low, *high = &c->domain.current_high;
  const bool is_text = field->datatype == TSR_ASCII;
  if (!low->kind) {
    if (is_text)
      return tsx_parser_fail(p, TSR_CONSTRAINT,
                             "where a dimension has a CURRENT domain, a dimension of strings needs one");
    memcpy(interval->low, field->low, 8);
    memcpy(interval->high, field->high, 8);
    return TSR_OK;
  }
  if (is_text) {
    TSX_TRY(cell_of(p, low, TSR_ASCII, TSR_VARIABLE, &interval->low_text, &interval->low_size, "CURRENT"));
    return cell_of(p, high, TSR_ASCII, TSR_VARIABLE, &interval->high_text, &interval->high_size, "CURRENT");
  }
  TSX_TRY(tsx_literal_number(p, low, field->datatype, interval->low, "CURRENT, low end"));
  return tsx_literal_number(p, high, field->datatype, interval->high, "CURRENT, high end");
}

static bool define_same_filters(const tsr_pipeline *a, const tsr_pipeline *b) {
  bool same = a->max_chunk_size == b->max_chunk_size && a->count == b->count;
  for (uint32_t i = 0; same && i < a->count; i++) {
    const tsr_filter *x = &a->filters[i], *y = &b->filters[i];
    same = x->type == y->type && x->level == y->level && x->reinterpret == y->reinterpret && x->window == y->window &&
           x->scale == y->scale && x->offset == y->offset && x->byte_width == y->byte_width;
  }
  return same;
}

/* Sets the filters of a dimension. From format version 5 on, a dimension has filters of its own, but an empty list
 * means the filters of the coordinates, so FILTERS(none) becomes a pipeline with one filter of type NONE. Below version
 * 5 there are only the filters of the coordinates. */
static int set_dimension_filters(tsx_parser *p, const tsx_column_text *c, const tsr_schema *schema, tsr_field *field) {
  if (schema->version < 5) {
    const tsr_pipeline *shared = &schema->coords_filters;
    bool same = c->has_filters && define_same_filters(&c->filters, shared);
    field->filters = (tsr_pipeline){.max_chunk_size = shared->max_chunk_size, .uncut = shared->uncut};
    if (!c->has_filters || same) return TSR_OK;
    return tsx_parser_fail(
        p, TSR_UNSUPPORTED,
        "FILTERS of single dimensions need format version 5, but this array has %u: use coords_filters",
        (unsigned)schema->version);
  }
  if (!c->has_filters) return default_filters(p, TSR_FILTER_ZSTD, &field->filters);
  if (c->filters.count || !schema->coords_filters.count) {
    field->filters = c->filters;
    return TSR_OK;
  }
  int code = default_filters(p, TSR_FILTER_NONE, &field->filters);
  field->filters.max_chunk_size = c->filters.max_chunk_size;
  field->filters.uncut = c->filters.uncut;
  return code;
}

/* ---- Attributes ------------------------------------------------------------------------------------------------- */

tsr_datatype tsx_code_datatype(uint64_t labels) { return labels > LABELS_UINT16 ? TSR_INT32 : TSR_UINT16; }

static int set_enumeration(tsx_parser *p, const tsx_column_text *c, tsr_field *field, tsr_enumeration *e) {
  e->name = field->name;
  e->loaded = true;
  e->datatype = c->datatype;
  e->values_per_label = c->values_per_cell;
  e->ordered = c->enumeration.ordered;
  e->count = c->enumeration.count;
  if (!*field->name) return tsx_parser_fail(p, TSR_CONSTRAINT, "an anonymous attribute cannot have an ENUM");
  uint8_t **labels = tsx_parser_alloc(p, (e->count + 1) * sizeof *labels);
  e->offsets = tsx_parser_alloc(p, (e->count + 1) * sizeof *e->offsets);
  if (!labels || !e->offsets) return TSR_NOMEM;
  for (uint64_t i = 0; i < e->count; i++) {
    uint64_t size;
    int code = cell_of(p, &c->enumeration.labels[i], c->datatype, c->values_per_cell, &labels[i], &size, "ENUM");
    if (code < 0) return code;
    e->offsets[i + 1] = e->offsets[i] + size;
  }
  e->data_size = e->offsets[e->count];
  if (!(e->data = tsx_parser_alloc(p, e->data_size))) return TSR_NOMEM;
  for (uint64_t i = 0; i < e->count; i++) memcpy(e->data + e->offsets[i], labels[i], e->offsets[i + 1] - e->offsets[i]);
  field->enumeration = e->name;
  field->datatype = tsx_code_datatype(e->count);
  field->values_per_cell = 1;
  return TSR_OK;
}

/* Sets the fill value of an attribute with an enumeration: DEFAULT is a label, and the fill value its code. */
static int set_label_fill(tsx_parser *p, const tsx_column_text *c, const tsr_enumeration *e, tsr_field *field) {
  uint8_t *label;
  uint64_t size;
  TSX_TRY(cell_of(p, &c->fill, c->datatype, c->values_per_cell, &label, &size, "DEFAULT"));
  for (uint64_t i = 0; i < e->count; i++)
    if (e->offsets[i + 1] - e->offsets[i] == size && !memcmp(e->data + e->offsets[i], label, size)) {
      memcpy(field->fill, &i, field->fill_size);
      return TSR_OK;
    }
  return tsx_parser_fail(p, TSR_MISMATCH, "DEFAULT: %.60s is not a label of its ENUM", c->fill.text);
}

static int set_fill(tsx_parser *p, const tsx_column_text *c, const tsr_enumeration *e, tsr_field *field) {
  uint64_t value_size = tsr_datatype_size(field->datatype);
  bool is_float = tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT;
  field->fill_size = field->values_per_cell == TSR_VARIABLE ? value_size : field->cell_size;
  if (!(field->fill = tsx_parser_alloc(p, field->fill_size))) return TSR_NOMEM;
  for (uint64_t i = 0; i < field->fill_size; i += value_size) tsr_datatype_fill(field->datatype, field->fill + i);
  if (!c->fill.kind) return TSR_OK;
  if (tsx_literal_is_null(&c->fill)) /* a float that is not nullable is NaN then, which reads as NULL */
    return field->nullable || is_float ? TSR_OK
                                       : tsx_parser_fail(p, TSR_CONSTRAINT, "DEFAULT NULL in a NOT NULL column");
  field->fill_validity = field->nullable;
  if (e) return set_label_fill(p, c, e, field);
  return cell_of(p, &c->fill, field->datatype, field->values_per_cell, &field->fill, &field->fill_size, "DEFAULT");
}

static int set_attribute(tsx_parser *p, const tsx_column_text *c, tsr_field *field, tsr_schema *schema) {
  tsr_enumeration *e = NULL;
  if (c->domain.current_low.kind) return tsx_parser_fail(p, TSR_ERROR, "CURRENT is for dimensions");
  if (c->null && c->not_null) return tsx_parser_fail(p, TSR_ERROR, "it is both NULL and NOT NULL");
  field->nullable = !c->not_null;
  int code = TSR_OK;
  if (c->enumeration.given) {
    e = &schema->enumerations[schema->enumeration_count++];
    if ((code = set_enumeration(p, c, field, e)) < 0) return code;
  }
  field->cell_size = field->values_per_cell == TSR_VARIABLE
                         ? 0
                         : (uint64_t)field->values_per_cell * tsr_datatype_size(field->datatype);
  if (c->has_filters) field->filters = c->filters;
  else if ((code = default_filters(p, TSR_FILTER_ZSTD, &field->filters)) < 0) return code;
  return set_fill(p, c, e, field);
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static void set_choices(tsx_parser *p, const int *choice, tsr_schema *schema) {
  static const tsr_order orders[] = {TSR_ORDER_ROW, TSR_ORDER_COL, TSR_ORDER_HILBERT};
  schema->dense = choice[TSX_OPTION_KIND];
  schema->cell_order = orders[choice[TSX_OPTION_CELL_ORDER]];
  schema->tile_order = orders[choice[TSX_OPTION_TILE_ORDER]];
  schema->allows_duplicates = choice[TSX_OPTION_DUPLICATES];
  p->definition->encrypted = choice[TSX_OPTION_ENCRYPTION];
}

static int set_numbers(tsx_parser *p, char *const *given, tsr_schema *schema) {
  const char *capacity = given[TSX_OPTION_CAPACITY], *version = given[TSX_OPTION_FORMAT_VERSION];
  schema->capacity = CAPACITY_DEFAULT;
  schema->version = TSX_FORMAT_DEFAULT;
  if (capacity && (tsx_number_parse(TSR_UINT64, capacity, false, &schema->capacity, p->error) < 0 || !schema->capacity))
    return tsx_fail(p->error, TSR_ERROR, "'capacity': expected an integer from 1 to %llu, not %.60s",
                    (unsigned long long)UINT64_MAX, capacity);
  if (version && (tsx_number_parse(TSR_UINT32, version, false, &schema->version, p->error) < 0 ||
                  (schema->version != 3 && (schema->version < 12 || schema->version > TSX_FORMAT_DEFAULT))))
    return tsx_fail(p->error, TSR_ERROR, "'format_version': expected 3 or 12 to %d, not %.60s", TSX_FORMAT_DEFAULT,
                    version);
  return TSR_OK;
}

static int set_filters(tsx_parser *p, char *const *given, tsx_option option, tsr_filter_type standard,
                       tsr_pipeline *pipeline) {
  if (!given[option]) return default_filters(p, standard, pipeline);
  p->in = tsx_tokens_of(given[option]);
  p->noun = "option";
  p->name = tsx_option_word(option);
  const bool inside = tsx_parser_accept(p, "(");
  TSX_TRY(tsx_filters_parse(p, pipeline));
  if (inside) TSX_TRY(tsx_parser_expect(p, ")"));
  return p->in.token.kind == TSX_TOKEN_END ? TSR_OK : tsx_parser_unexpected(p, "a comma or the end");
}

/* ---- The schema ------------------------------------------------------------------------------------------------- */

static int check_names(tsx_parser *p, const tsx_column_text *columns, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < i; j++)
      if (!sqlite3_stricmp(columns[i].name, columns[j].name))
        return tsx_fail(p->error, TSR_ERROR, "two columns are named %.100s", columns[i].name);
  return TSR_OK;
}

static int set_field(tsx_parser *p, const tsx_column_text *c, tsr_schema *schema, uint32_t i) {
  tsr_field *field = &schema->fields[i];
  p->noun = "column";
  p->name = c->name;
  field->name = c->name;
  field->datatype = c->datatype;
  field->values_per_cell = c->values_per_cell;
  field->duration = c->duration;
  if (c->duration && (tsr_datatype_kind(c->datatype) != TSR_KIND_TIME || c->enumeration.given))
    return tsx_parser_fail(p, TSR_ERROR, "DURATION is for TIME_HR to TIME_AS, without ENUM");
  if (!c->is_dimension) return set_attribute(p, c, field, schema);
  TSX_TRY(set_dimension(p, c, schema->dense, field));
  field->cell_size = field->values_per_cell == TSR_VARIABLE ? 0 : tsr_datatype_size(field->datatype);
  TSX_TRY(set_dimension_filters(p, c, schema, field));
  return schema->current_domain ? set_current(p, c, field, &schema->current_domain[i]) : TSR_OK;
}

/* Sets all fields: dimensions first, then attributes, each in the order of their definitions. */
static int set_fields(tsx_parser *p, const tsx_column_text *columns, uint32_t count, tsr_schema *schema) {
  uint32_t enumerations = 0;
  bool has_current = false;
  for (uint32_t i = 0; i < count; i++) {
    schema->dimension_count += columns[i].is_dimension;
    enumerations += columns[i].enumeration.given;
    has_current |= columns[i].is_dimension && columns[i].domain.current_low.kind;
  }
  if (!schema->dimension_count)
    return tsx_fail(p->error, TSR_CONSTRAINT,
                    "no column is a DIMENSION: write DIMENSION after the type of each column that identifies a cell");
  schema->attribute_count = count - schema->dimension_count;
  schema->fields = tsx_parser_alloc(p, count * sizeof *schema->fields);
  schema->enumerations = tsx_parser_alloc(p, enumerations * sizeof *schema->enumerations);
  if (has_current)
    schema->current_domain = tsx_parser_alloc(p, schema->dimension_count * sizeof *schema->current_domain);
  if (!schema->fields || !schema->enumerations || (has_current && !schema->current_domain)) return TSR_NOMEM;
  uint32_t next[2] = {schema->dimension_count, 0};
  for (uint32_t i = 0; i < count; i++) {
    int code = set_field(p, &columns[i], schema, next[columns[i].is_dimension]++);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Sets the schema of a label's array. */
static int set_label_array(tsx_parser *p, const tsx_column_text *c, const tsr_schema *schema, uint32_t dimension,
                           tsr_schema *array) {
  tsr_field *fields = tsx_parser_alloc(p, 2 * sizeof *fields);
  tsr_field values = {.datatype = c->datatype,
                      .values_per_cell = c->values_per_cell,
                      .duration = c->duration,
                      .data_order = c->descending ? 2 : 1,
                      .filters = c->filters};
  if (!fields) return TSR_NOMEM;
  if (!c->has_filters) {
    const int code = default_filters(p, TSR_FILTER_ZSTD, &values.filters);
    if (code < 0) return code;
  }
  tsr_label_array_schema(schema, dimension, &values, fields, array);
  return TSR_OK;
}

static int set_label(tsx_parser *p, const tsx_column_text *c, tsr_schema *schema, uint32_t dimension) {
  const tsr_field *of = &schema->fields[dimension];
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  p->noun = "label";
  p->name = c->name;
  if (!of->has_extent || tsr_datatype_kind(of->datatype) == TSR_KIND_FLOAT)
    return tsx_parser_fail(p, TSR_CONSTRAINT,
                           "a labelled dimension must have integers or datetimes, and a tile extent");
  if (kind == TSR_KIND_BOOLEAN || kind == TSR_KIND_BYTES ||
      (kind == TSR_KIND_TEXT && c->datatype != TSR_UTF8 && c->datatype != TSR_ASCII))
    return tsx_parser_fail(p, TSR_CONSTRAINT, "%s cannot be a label's datatype", tsr_datatype_name(c->datatype));
  if (c->duration && kind != TSR_KIND_TIME) return tsx_parser_fail(p, TSR_ERROR, "DURATION is for TIME_HR to TIME_AS");
  if (c->values_per_cell != (kind == TSR_KIND_TEXT ? TSR_VARIABLE : 1))
    return tsx_parser_fail(p, TSR_CONSTRAINT, "a label must have one value per coordinate");
  tsr_schema *array = tsx_parser_alloc(p, sizeof *array);
  if (!array) return TSR_NOMEM;
  schema->labels[schema->label_count++] = (tsr_label){.name = c->name, .dimension = dimension, .array = array};
  return set_label_array(p, c, schema, dimension, array);
}

static int check_label_name(tsx_parser *p, const tsx_column_text *label, const tsr_schema *schema) {
  bool taken = false;
  for (uint32_t i = 0; i < schema->dimension_count + schema->attribute_count; i++)
    taken |= !sqlite3_stricmp(schema->fields[i].name, label->name);
  for (uint32_t i = 0; i < schema->label_count; i++) taken |= !sqlite3_stricmp(schema->labels[i].name, label->name);
  return taken ? tsx_fail(p->error, TSR_ERROR, "two columns are named %.100s", label->name) : TSR_OK;
}

/* Sets the labels of all dimensions, in the order of their definitions. */
static int set_labels(tsx_parser *p, const tsx_column_text *columns, uint32_t count, tsr_schema *schema) {
  uint64_t labels = 0;
  uint32_t dimension = 0;
  for (uint32_t i = 0; i < count; i++)
    for (const tsx_column_text *label = columns[i].label; label; label = label->label) labels++;
  if (labels == 0) return TSR_OK;
  if (!(schema->labels = tsx_parser_alloc(p, labels * sizeof *schema->labels))) return TSR_NOMEM;
  for (uint32_t i = 0; i < count; i++) {
    for (const tsx_column_text *label = columns[i].label; label; label = label->label) {
      if (!columns[i].is_dimension)
        return tsx_fail(p->error, TSR_ERROR, "column %.100s: LABEL is for dimensions", columns[i].name);
      TSX_TRY(check_label_name(p, label, schema));
      TSX_TRY(set_label(p, label, schema, dimension));
    }
    dimension += columns[i].is_dimension;
  }
  return TSR_OK;
}

static int define_attribute(tsx_parser *p, const char *text) {
  tsr_schema *schema = &p->definition->schema;
  tsx_column_text column = {0};
  TSX_TRY(tsx_column_parse(p, text, true, &column));
  if (column.is_dimension) return tsx_parser_fail(p, TSR_ERROR, "a dimension cannot be added");
  if (column.label) return tsx_parser_fail(p, TSR_ERROR, "LABEL is for dimensions");
  schema->attribute_count = 1;
  schema->fields = tsx_parser_alloc(p, sizeof *schema->fields);
  schema->enumerations = tsx_parser_alloc(p, sizeof *schema->enumerations);
  if (!schema->fields || !schema->enumerations) return TSR_NOMEM;
  return set_field(p, &column, schema, 0);
}

int tsx_define_attribute(const char *text, tsx_definition *definition, tsr_error *error) {
  memset(definition, 0, sizeof *definition);
  tsx_parser p = {.definition = definition, .error = error};
  const int code = define_attribute(&p, text);
  if (code < 0) tsx_definition_release(definition);
  return code;
}

static int define(tsx_parser *p, const tsx_options *options) {
  tsr_schema *schema = &p->definition->schema;
  char *const *given = options->creation;
  tsx_column_text *columns = tsx_parser_alloc(p, options->definition_count * sizeof *columns);
  if (!columns) return TSR_NOMEM;
  uint32_t count = 0;
  for (uint32_t i = 0; i < options->definition_count; i++) {
    const char *text = options->definitions[i];
    if (tsx_check_is(text)) TSX_TRY(tsx_check_parse_alone(p, text));
    else TSX_TRY(tsx_column_parse(p, text, false, &columns[count++]));
  }
  TSX_TRY(check_names(p, columns, count));
  set_choices(p, options->choice, schema);
  TSX_TRY(set_numbers(p, given, schema));
  TSX_TRY(set_filters(p, given, TSX_OPTION_COORDS_FILTERS, TSR_FILTER_ZSTD, &schema->coords_filters));
  TSX_TRY(set_filters(p, given, TSX_OPTION_OFFSETS_FILTERS, TSR_FILTER_ZSTD, &schema->offsets_filters));
  TSX_TRY(set_filters(p, given, TSX_OPTION_VALIDITY_FILTERS, TSR_FILTER_RLE, &schema->validity_filters));
  TSX_TRY(set_fields(p, columns, count, schema));
  return set_labels(p, columns, count, schema);
}

int tsx_define(const tsx_options *options, tsx_definition *definition, tsr_error *error) {
  memset(definition, 0, sizeof *definition);
  tsx_parser p = {.definition = definition, .error = error};
  const int code = define(&p, options);
  if (code < 0) tsx_definition_release(definition);
  return code;
}

/* ---- An array that is there already ------------------------------------------------------------------------------ */

static void append_type(sqlite3_str *out, const tsr_field *field) {
  sqlite3_str_appendall(out, tsr_datatype_name(field->datatype));
  if (field->values_per_cell == TSR_VARIABLE) {
    if (tsr_datatype_kind(field->datatype) != TSR_KIND_TEXT) sqlite3_str_appendall(out, "(*)");
  } else if (field->values_per_cell != 1) sqlite3_str_appendf(out, "(%u)", field->values_per_cell);
  if (!field->is_dimension && !field->nullable) sqlite3_str_appendall(out, " NOT NULL");
}

static int fail_types(const char *path, const char *name, const tsr_field *is, const tsr_field *asked,
                      tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  append_type(out, is);
  sqlite3_str_appendall(out, ", not ");
  append_type(out, asked);
  char *types = sqlite3_str_finish(out);
  if (!types) return tsx_out_of_memory(error);
  tsx_fail(error, TSR_EXISTS, "array %s: its column %s is %s", path, name, types);
  sqlite3_free(types);
  return TSR_EXISTS;
}

static bool same_ends(const tsr_field *a, const tsr_field *b) {
  const uint64_t size = tsr_datatype_size(a->datatype);
  if (a->has_domain != b->has_domain || a->has_extent != b->has_extent) return false;
  if (a->has_domain && (memcmp(a->low, b->low, size) != 0 || memcmp(a->high, b->high, size) != 0)) return false;
  return !a->has_extent || !memcmp(a->extent, b->extent, size);
}

static int field_agrees(const char *path, const char *name, const tsr_field *is, const tsr_field *asked,
                        tsr_error *error) {
  if (is->is_dimension != asked->is_dimension)
    return tsx_fail(error, TSR_EXISTS, "array %s: its column %s is %s", path, name,
                    is->is_dimension ? "a dimension" : "no dimension");
  if (!is->enumeration != !asked->enumeration)
    return tsx_fail(error, TSR_EXISTS, "array %s: its column %s has %s enumeration", path, name,
                    is->enumeration ? "an" : "no");
  /* the type of codes depends on the number of labels, which may have grown */
  const bool same_type =
      is->enumeration || (is->datatype == asked->datatype && is->values_per_cell == asked->values_per_cell);
  if (!same_type || is->nullable != asked->nullable) return fail_types(path, name, is, asked, error);
  if (is->is_dimension && !same_ends(is, asked))
    return tsx_fail(error, TSR_EXISTS, "array %s: the domain or extent of its dimension %s is another", path, name);
  return TSR_OK;
}

static int fields_agree(const tsr_schema *there, const tsr_schema *asked, char *const *names, const char *path,
                        tsr_error *error) {
  const uint32_t fields = there->dimension_count + there->attribute_count;
  const uint32_t count = asked->dimension_count + asked->attribute_count;
  if (!there->dense != !asked->dense)
    return tsx_fail(error, TSR_EXISTS, "array %s: it is %s, not %s", path, there->dense ? "dense" : "sparse",
                    asked->dense ? "dense" : "sparse");
  for (uint32_t i = 0; i < count; i++) {
    uint32_t f = 0;
    while (f < fields && sqlite3_stricmp(names[f], asked->fields[i].name) != 0) f++;
    if (f == fields) return tsx_fail(error, TSR_EXISTS, "array %s: it has no column %s", path, asked->fields[i].name);
    TSX_TRY(field_agrees(path, names[f], &there->fields[f], &asked->fields[i], error));
  }
  if (fields != count) return tsx_fail(error, TSR_EXISTS, "array %s: it has %u columns, not %u", path, fields, count);
  return TSR_OK;
}

int tsx_define_agrees(const tsx_options *options, const tsr_schema *there, const char *path, tsr_error *error) {
  tsx_definition definition = {0};
  int code = tsx_define(options, &definition, error);
  if (code < 0) return code;
  char **names = tsx_names_make(there);
  code = names ? fields_agree(there, &definition.schema, names, path, error) : tsx_out_of_memory(error);
  if (names) tsx_names_free(names, there);
  tsx_definition_release(&definition);
  return code;
}
