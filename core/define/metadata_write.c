/* metadata_write.c: changes the metadata of arrays and groups. Each change is one new file in __meta with one key; of
 * several files with the same key the newest counts. Arrays have metadata since format version 4.
 */
#include "define/metadata_write.h"

#include "model/datatype.h"
#include "format/schema_rules.h"
#include "format/layout.h"
#include "array/array.h"
#include "array/environment.h"
#include "array/group_open.h"
#include "array/listing.h"
#include "array/timed_write.h"
#include "define/group_write.h"

static int metadata_write_check(const tsr_metadata_entry *entry, tsr_error *error) {
  if (entry->key_size > UINT32_MAX)
    return tsr__fail(error, TSR_RANGE, "the key has %llu bytes", (unsigned long long)entry->key_size);
  if (entry->deleted) return TSR_OK;
  if (!tsr__datatype_valid((uint8_t)entry->datatype))
    return tsr__fail(error, TSR_RANGE, "datatype %u is unknown", (unsigned)entry->datatype);
  if (entry->count * tsr_datatype_size(entry->datatype) != entry->value_size)
    return tsr__fail(error, TSR_RANGE, "%u values of %s are not %llu bytes", entry->count,
                     tsr_datatype_name(entry->datatype), (unsigned long long)entry->value_size);
  return TSR_OK;
}

int tsr__metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                        const tsr_metadata_entry *entry, tsr_error *error) {
  tsr_buffer content = {.memory = store->memory};
  uint64_t last = 0;
  TSR_TRY(metadata_write_check(entry, error));
  int rc = tsr__timed_last(store, TSR_DIR_META, &last, error);
  if (rc >= 0) rc = tsr__metadata_encode(entry, &content, error);
  if (rc >= 0) rc = tsr__write_timed(environment, store, TSR_DIR_META, last, 0, key, version, &content, NULL, error);
  tsr__buffer_release(&content);
  return rc;
}

/* Fills *entry from the caller's value; its pointers are borrowed. */
static int metadata_write_entry_of(const tsr_metadatum *given, tsr_metadata_entry *entry, tsr_error *error) {
  if (given->count > UINT32_MAX) return tsr__fail(error, TSR_RANGE, "%llu values", (unsigned long long)given->count);
  *entry = (tsr_metadata_entry){.key = (char *)(uintptr_t)given->key,
                                .key_size = given->key_size,
                                .datatype = given->datatype,
                                .count = (uint32_t)given->count,
                                .value = given->value,
                                .value_size = given->value_size};
  return TSR_OK;
}

/* Sets *version to the format version in which the array's newest schema is written. Fails below version 4. */
static int metadata_version(tsr_array *array, uint32_t *version, tsr_error *error) {
  const tsr_schema *schema;
  TSR_TRY(tsr__array_list(array, false, true, error));
  TSR_TRY(tsr__array_schema_at(array, UINT64_MAX, &schema, error));
  TSR_TRY(tsr__schema_write_version(schema, version, error));
  if (!layout_has_metadata(*version))
    return tsr__fail(error, TSR_UNSUPPORTED, "format version %u has no metadata: it needs 4", *version);
  return TSR_OK;
}

static int metadata_write_change(tsr_array *array, const tsr_metadata_entry *entry, tsr_error *error) {
  uint32_t version;
  int rc = metadata_version(array, &version, error);
  if (rc >= 0) rc = tsr__metadata_write(array->environment, array->store, tsr__array_key(array), version, entry, error);
  return rc < 0 ? tsr__wrap(error, "metadata of array %s", array->path) : rc;
}

int tsr_array_set_metadata(tsr_array *array, const tsr_metadatum *entry, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_metadata_entry e;
  TSR_TRY(metadata_write_entry_of(entry, &e, error));
  return metadata_write_change(array, &e, error);
}

int tsr_array_delete_metadata(tsr_array *array, const char *key, uint64_t key_size, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_metadata_entry e = {.key = (char *)(uintptr_t)key, .key_size = key_size, .deleted = true};
  return metadata_write_change(array, &e, error);
}

int tsr_group_set_metadata(tsr_group *group, const tsr_metadatum *entry, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_metadata_entry e;
  TSR_TRY(metadata_write_entry_of(entry, &e, error));
  return tsr__group_change_metadata(group, &e, error);
}

int tsr_group_delete_metadata(tsr_group *group, const char *key, uint64_t key_size, tsr_error *error) {
  TSR_OWN_ERROR(error);
  const tsr_metadata_entry e = {.key = (char *)(uintptr_t)key, .key_size = key_size, .deleted = true};
  return tsr__group_change_metadata(group, &e, error);
}
