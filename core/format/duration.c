/* duration.c: which TIME fields and labels are durations: the metadata that say so. */
#include "format/duration.h"

#include <string.h>

#include "format/layout.h"
#include "format/metadata.h"
#include "model/datatype.h"

/* A field or a dimension label of a schema, as far as durations are concerned. */
typedef struct duration_item {
  const char *name;
  tsr_datatype datatype;
  bool *duration; /* of the field or label */
} duration_item;

static uint64_t duration_item_count(const tsr_schema *schema) {
  return (uint64_t)schema->dimension_count + schema->attribute_count + schema->label_count;
}

/* Returns an item: the fields come first, then the labels. */
static duration_item duration_item_at(const tsr_schema *schema, uint64_t number) {
  const uint64_t fields = (uint64_t)schema->dimension_count + schema->attribute_count;
  if (number < fields) {
    tsr_field *field = &schema->fields[number];
    return (duration_item){field->name, field->datatype, &field->duration};
  }
  tsr_label *label = &schema->labels[number - fields];
  return (duration_item){label->name, label->datatype, &label->duration};
}

static bool may_be_duration(duration_item item) { return tsr_datatype_kind(item.datatype) == TSR_KIND_TIME; }

bool tsr__durations_possible(const tsr_schema *schema) {
  bool possible = false;
  for (uint64_t i = 0; i < duration_item_count(schema); i++) possible |= may_be_duration(duration_item_at(schema, i));
  return possible;
}

/* Returns true if the metadatum says of the item that it is a duration. */
static bool names_item(const tsr_metadatum *entry, duration_item item) {
  const uint64_t prefix = strlen(TSR_KEY_DURATION), size = strlen(item.name);
  return entry->key_size == prefix + size && !memcmp(entry->key, TSR_KEY_DURATION, prefix) &&
         !memcmp(entry->key + prefix, item.name, size);
}

void tsr__durations_mark(tsr_schema *schema, const tsr_metadata *metadata) {
  for (uint64_t i = 0; i < duration_item_count(schema); i++) {
    const duration_item item = duration_item_at(schema, i);
    for (uint64_t k = 0; k < metadata->count && may_be_duration(item); k++)
      *item.duration |= names_item(&metadata->entries[k], item);
  }
}

static int encode_mark(duration_item item, tsr_buffer *out, tsr_error *error) {
  static const uint8_t yes = 1;
  tsr_buffer key = {.memory = out->memory};
  int rc = tsr__buffer_printf(&key, error, TSR_KEY_DURATION "%s", item.name);
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
  for (uint64_t i = 0; i < duration_item_count(schema); i++) {
    const duration_item item = duration_item_at(schema, i);
    if (*item.duration && may_be_duration(item)) TSR_TRY(encode_mark(item, out, error));
  }
  return TSR_OK;
}
