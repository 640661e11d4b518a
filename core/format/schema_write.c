/* schema_write.c: encodes array schemas. schema.c describes the bytes.
 *
 * Properties that a format version cannot store are left out. tsr__schema_check has refused schemas that would lose
 * something by that.
 */
#include "format/schema_write.h"
#include "format/layout.h"

#include <string.h>

#include "filter/filter_pipeline.h"

static int schema_write_write_text(tsr_buffer *out, const char *text, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)strlen(text), error));
  return tsr__buffer_append(out, text, strlen(text), error);
}

static int write_dimension(const tsr_field *field, uint32_t version, tsr_buffer *out, tsr_error *error) {
  uint64_t size = tsr_datatype_size(field->datatype);
  TSR_TRY(schema_write_write_text(out, field->name, error));
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
  TSR_TRY(schema_write_write_text(out, field->name, error));
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
  if (layout_has_enumerations(version))
    TSR_TRY(schema_write_write_text(out, field->enumeration ? field->enumeration : "", error));
  return TSR_OK;
}

static int schema_write_write_enumerations(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, schema->enumeration_count, error));
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    TSR_TRY(schema_write_write_text(out, schema->enumerations[i].name, error));
    TSR_TRY(schema_write_write_text(out, schema->enumerations[i].file, error));
  }
  return TSR_OK;
}

static int write_label(const tsr_label *label, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, label->dimension, error));
  TSR_TRY(schema_write_write_text(out, label->name, error));
  TSR_TRY(tsr__buffer_append_u8(out, label->relative, error));
  TSR_TRY(tsr__buffer_append_u64(out, strlen(label->uri), error));
  TSR_TRY(tsr__buffer_append(out, label->uri, strlen(label->uri), error));
  TSR_TRY(schema_write_write_text(out, label->attribute, error));
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

static int schema_write_write_schema(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
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
  if (layout_has_enumerations(version)) TSR_TRY(schema_write_write_enumerations(schema, out, error));
  return layout_has_current_domain(version) ? write_current_domain(schema, out, error) : TSR_OK;
}

int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = schema_write_write_schema(schema, out, error);
  if (rc < 0) {
    out->size = before;
    return tsr__wrap(error, "schema");
  }
  return TSR_OK;
}
