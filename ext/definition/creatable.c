/* creatable.c: turns the schema of any TileDB array into one that CREATE VIRTUAL TABLE accepts.
 *
 * TileDB makes arrays that CREATE refuses: key-value stores, attributes whose names begin with "__", pipelines that cannot
 * be read back, levels that a codec does not have, lossy filters on offsets, Hilbert order over a range that is not
 * finite. tessera_ddl and tessera_copy leave these out in the same way and keep everything else.
 */
#include "definition/creatable.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/define.h"

/* Returns the level that the codec uses in place of a level outside of its range. */
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

/* Copies a pipeline without the filters that are not allowed after the ones before them; without lossy filters if `exact`
 * is set. */
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

/* Sets the filters of a dimension. A dimension without filters of its own has those of the coordinates; where these are
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

/* Returns true if the difference of the domain's ends is finite, as Hilbert codes need it. */
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
  int code = keep_allowed(p, &offset, true, &schema->offsets_filters);
  if (code >= 0) code = keep_allowed(p, &validity, true, &schema->validity_filters);
  if (code >= 0 && schema->version < 5) code = keep_allowed(p, &schema->fields[0], false, &schema->coords_filters);
  for (uint64_t i = 0; i < count && code >= 0; i++) {
    tsr_field *field = &schema->fields[i];
    if (!strncmp(field->name, "__", 2) && (source->key_value || !field->is_dimension)) field->name++;
    if (schema->cell_order == TSR_ORDER_HILBERT && field->is_dimension && !is_finite_width(field))
      schema->cell_order = TSR_ORDER_ROW;
    code = field->is_dimension ? creatable_set_dimension(p, schema, field)
                               : keep_allowed(p, field, false, &field->filters);
  }
  return code;
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
