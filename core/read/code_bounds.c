/* code_bounds.c: proves that all codes of an enumerated attribute have a label, by the fragments' own statistics.
 *
 * A code without a label reads as NULL, even if the attribute is not nullable: SOMA writes -1 for "no value". Hosts
 * that must know beforehand whether a column can show NULL ask here. Codes are integers, and the greatest one of a
 * fragment is its maximum; a negative minimum means that some code has no label. Fragments that say nothing (before
 * format version 12, or lossy filters) prove nothing.
 */
#include "array/array.h"
#include "base/arithmetic.h"
#include "format/fragment_metadata.h"
#include "format/schema.h"
#include "model/datatype.h"
#include "read/reader.h"

/* Raises *end above all codes in a slot of a fragment; to UINT64_MAX if its statistics do not bound them. */
static int widen(tsr_array *array, tsr_fragment *fragment, int64_t slot, uint64_t *end, tsr_error *error) {
  const tsr_fragment_metadata *m = &fragment->metadata;
  tsr_system_column system_column;
  tsr_statistics s;
  if (m->tile_count == 0 || slot < 0 || fragment->run.uncommitted) return TSR_OK;
  const int64_t number = tsr__fragment_slot_field(m, (uint32_t)slot, &system_column);
  const uint64_t before = *end;
  *end = UINT64_MAX;
  if (number < 0 || !tsr__statistics_trusted(m, (uint32_t)number)) return TSR_OK;
  const tsr_field *field = &m->schema->fields[number];
  TSR_TRY(tsr__statistics_load(array, fragment, (uint32_t)slot, true, &s, error));
  if (field->nullable || !s.min || !s.max || s.value_size != field->cell_size) return TSR_OK;
  const uint64_t zero = tsr_datatype_kind(field->datatype) == TSR_KIND_SIGNED ? UINT64_C(1) << 63 : 0;
  const uint64_t low = tsr__key(field->datatype, s.min), high = tsr__key(field->datatype, s.max);
  if (low >= zero && high >= low) *end = TSR_MAX(before, tsr__add_sat(high - zero, 1));
  return TSR_OK;
}

int tsr_snapshot_codes_end(tsr_snapshot *snapshot, uint32_t field, uint64_t *end, tsr_error *error) {
  TSR_OWN_ERROR(error);
  *end = 0;
  for (uint64_t i = 0; i < snapshot->fragment_count && *end < UINT64_MAX; i++) {
    const tsr_snapshot_fragment *item = &snapshot->fragments[i];
    TSR_TRY(widen(snapshot->array, item->fragment, item->slots[field], end, error));
  }
  return TSR_OK;
}

/* Snapshots of other times may show fragments that a merge has replaced, so all that are listed count. */
int tsr_array_codes_end(tsr_array *array, const tsr_field *attribute, uint64_t most, uint64_t *end, tsr_error *error) {
  TSR_OWN_ERROR(error);
  *end = UINT64_MAX;
  if (array->store->stamps_are_listings) return TSR_OK;
  TSR_TRY(tsr__log_list(&array->log, true, false, error));
  const tsr_commit_list *fragments = &array->log.listing->fragments;
  if (fragments->count > most) return TSR_OK;
  *end = 0;
  for (uint64_t i = 0; i < fragments->count && *end < UINT64_MAX; i++) {
    tsr_fragment *fragment;
    TSR_TRY(tsr__array_fragment(array, &fragments->items[i], NULL, 0, &fragment, error));
    const int64_t field = tsr__schema_field(fragment->metadata.schema, attribute->name);
    const int rc =
        widen(array, fragment, field < 0 ? -1 : tsr__fragment_slot(&fragment->metadata, (uint32_t)field), end, error);
    tsr__array_fragment_drop(array, fragment);
    TSR_TRY(rc);
  }
  return TSR_OK;
}
