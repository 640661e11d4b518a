/* duration.c: which TIME fields are durations: the metadata that say so. */
#include "format/duration.h"

#include <string.h>

#include "format/layout.h"
#include "format/metadata.h"
#include "model/datatype.h"

static uint64_t duration_field_count(const tsr_schema *schema) {
  return (uint64_t)schema->dimension_count + schema->attribute_count;
}

static bool may_be_duration(const tsr_field *field) { return tsr_datatype_kind(field->datatype) == TSR_KIND_TIME; }

bool tsr__durations_possible(const tsr_schema *schema) {
  bool possible = false;
  for (uint64_t i = 0; i < duration_field_count(schema); i++) possible |= may_be_duration(&schema->fields[i]);
  return possible;
}

/* Returns true if the metadatum says of the field that it is a duration. */
static bool names_field(const tsr_metadatum *entry, const tsr_field *field) {
  const uint64_t prefix = strlen(TSR_KEY_DURATION), size = strlen(field->name);
  return entry->key_size == prefix + size && !memcmp(entry->key, TSR_KEY_DURATION, prefix) &&
         !memcmp(entry->key + prefix, field->name, size);
}

void tsr__durations_mark(tsr_schema *schema, const tsr_metadata *metadata) {
  for (uint64_t i = 0; i < duration_field_count(schema); i++) {
    tsr_field *field = &schema->fields[i];
    for (uint64_t k = 0; k < metadata->count && may_be_duration(field); k++)
      field->duration |= names_field(&metadata->entries[k], field);
  }
}

static int encode_mark(const tsr_field *field, tsr_buffer *out, tsr_error *error) {
  static const uint8_t yes = 1;
  tsr_buffer key = {.memory = out->memory};
  int rc = tsr__buffer_printf(&key, error, TSR_KEY_DURATION "%s", field->name);
  const tsr_metadata_entry entry = {.key = (char *)key.data,
                                    .key_size = key.size,
                                    .datatype = TSR_UINT8,
                                    .count = 1,
                                    .value = &yes,
                                    .value_size = sizeof yes};
  if (rc >= 0) rc = tsr__metadata_encode(&entry, out, error);
  tsr__buffer_release(&key);
  return rc;
}

int tsr__durations_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error) {
  for (uint64_t i = 0; i < duration_field_count(schema); i++) {
    const tsr_field *field = &schema->fields[i];
    if (field->duration && may_be_duration(field)) TSR_TRY(encode_mark(field, out, error));
  }
  return TSR_OK;
}
