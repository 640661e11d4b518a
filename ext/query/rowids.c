/* rowids.c: makes rowids of the values that tell the rows of a query apart. */
#include "query/rowids.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"

#define ROOM_AT_FIRST 64

typedef struct tsx_occurrence {
  uint64_t hash, count; /* count 0: the entry is free */
} tsx_occurrence;

static uint64_t rowid_mix(uint64_t hash) {
  hash = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 29;
}

static uint64_t rowid_bytes(uint64_t hash, const void *bytes, uint64_t size) {
  const uint8_t *from = bytes;
  for (uint64_t i = 0; i < size; i++) hash = (hash ^ from[i]) * UINT64_C(0x100000001b3);
  return rowid_mix(hash);
}

uint64_t tsx_rowid_add(uint64_t hash, const tsr_value *value) {
  const double real = value->type == TSR_VALUE_REAL ? value->as.real + 0.0 : 0; /* -0.0 is 0.0 */
  hash ^= (uint64_t)value->type;
  switch (value->type) {
  case TSR_VALUE_TEXT: return rowid_bytes(hash, value->as.text.bytes, value->as.text.size);
  case TSR_VALUE_REAL: return rowid_bytes(hash, &real, sizeof real);
  case TSR_VALUE_INTEGER:
  case TSR_VALUE_UNSIGNED: return rowid_bytes(hash, &value->as, sizeof value->as.integer);
  default: return rowid_bytes(hash, "", 1);
  }
}

/* Returns the entry of a hash, or the free one where it belongs. */
static tsx_occurrence *occurrence_find(const tsx_occurrences *o, uint64_t hash) {
  uint64_t place = hash & (o->room - 1);
  while (o->entries[place].count && o->entries[place].hash != hash) place = (place + 1) & (o->room - 1);
  return &o->entries[place];
}

static int occurrences_grow(tsx_occurrences *o, tsr_error *error) {
  tsx_occurrences more = {.room = o->room ? 2 * o->room : ROOM_AT_FIRST, .count = o->count};
  more.entries = sqlite3_malloc64(more.room * sizeof *more.entries);
  if (!more.entries) return tsx_out_of_memory(error);
  memset(more.entries, 0, more.room * sizeof *more.entries);
  for (uint64_t i = 0; i < o->room; i++)
    if (o->entries[i].count) *occurrence_find(&more, o->entries[i].hash) = o->entries[i];
  sqlite3_free(o->entries);
  *o = more;
  return TSR_OK;
}

int tsx_rowid_take(tsx_occurrences *o, uint64_t hash, int64_t *rowid, tsr_error *error) {
  const int code = 2 * o->count < o->room ? TSR_OK : occurrences_grow(o, error);
  if (code < 0) return code;
  tsx_occurrence *found = occurrence_find(o, hash);
  if (!found->count) o->count++;
  found->hash = hash;
  *rowid = (int64_t)(found->count ? rowid_mix(hash + found->count) : hash);
  found->count++;
  return TSR_OK;
}

void tsx_rowids_free(tsx_occurrences *o) { sqlite3_free(o->entries); }
