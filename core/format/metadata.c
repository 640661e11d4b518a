/* metadata.c: key-value metadata of arrays and groups, the content of the generic tile in __meta/NAME (version 4 and
 * later; the file's name has no version).
 *
 *   for each entry, to the end: u32 length, key | u8 not 0: the key is deleted; 0: u8 datatype, u32 count, values
 *
 * Decoding requires that datatypes are known and that no value is truncated. A key with count 0 has no value. Keys are
 * any bytes and may be empty. The files of a directory are applied in the order of their names, the entries of a file
 * in file order; the last entry of a key counts.
 */
#include "format/metadata.h"

#include "model/datatype.h"

static int read_entry(tsr_input *in, tsr_arena *arena, tsr_metadata_entry *entry, tsr_error *error) {
  tsr_metadata_entry e = {0};
  e.key_size = tsr__input_u32(in);
  const uint8_t *key = tsr__input_take(in, e.key_size);
  e.deleted = tsr__input_u8(in) != 0;
  if (!e.deleted) {
    uint8_t datatype = tsr__input_u8(in);
    e.count = tsr__input_u32(in);
    TSR_TRY(tsr__input_check(in, "it", error));
    if (!tsr__datatype_valid(datatype)) return tsr__fail(error, TSR_CORRUPT, "datatype %u is unknown", datatype);
    e.datatype = (tsr_datatype)datatype;
    e.value_size = e.count * tsr_datatype_size(e.datatype);
    e.value = tsr__input_take(in, e.value_size);
  }
  TSR_TRY(tsr__input_check(in, "it", error));
  if (!arena) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(arena, key, e.key_size, &e.key, error));
  if (!e.deleted) { TSR_TRY(TSR_ARENA_COPY(arena, e.value, e.value_size, &e.value, error)); }
  *entry = e;
  return TSR_OK;
}

/* Reads all entries. The caller runs it twice: with `arena` and `entries` NULL to count the entries, then to store
 * them. */
static int read_entries(tsr_input in, tsr_arena *arena, tsr_metadata_entry *entries, uint64_t *count,
                        tsr_error *error) {
  uint64_t n = 0;
  for (; tsr__input_left(&in); n++) {
    uint64_t at = in.at;
    int rc = read_entry(&in, arena, entries ? entries + n : NULL, error);
    if (rc < 0) {
      tsr__wrap(error, "metadata entry %llu at byte %llu", (unsigned long long)n, (unsigned long long)at);
      return rc;
    }
  }
  *count = n;
  return TSR_OK;
}

int tsr__metadata_decode(tsr_input *in, tsr_arena *arena, tsr_metadata_entries *entries, tsr_error *error) {
  tsr_metadata_entries all = {0};
  TSR_TRY(read_entries(*in, NULL, NULL, &all.count, error));
  TSR_TRY(TSR_ARENA_ARRAY(arena, all.count, &all.entries, error));
  TSR_TRY(read_entries(*in, arena, all.entries, &all.count, error));
  in->at = in->size;
  *entries = all;
  return TSR_OK;
}

static int write_entry(const tsr_metadata_entry *e, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)e->key_size, error));
  TSR_TRY(tsr__buffer_append(out, e->key, e->key_size, error));
  TSR_TRY(tsr__buffer_append_u8(out, e->deleted, error));
  if (e->deleted) return TSR_OK;
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)e->datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, e->count, error));
  return tsr__buffer_append(out, e->value, e->value_size, error);
}

int tsr__metadata_encode(const tsr_metadata_entry *entry, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = write_entry(entry, out, error);
  if (rc < 0) out->size = before;
  return rc;
}
