/* enumeration.c: enumerations, the labels of coded attributes. An enumeration is the content of the generic tile in
 * __schema/__enumerations/FILE (version 20 and later).
 *
 *   u32 version 0 | u32 length, name | u32 length, file name | u8 datatype | u32 values per label | u8 ordered
 *   u64 size, labels | where labels are of variable length: u64 size, u64 offsets of the labels
 *
 * A label ends where the next one begins; the last one ends with the data. The codes in an attribute's cells are
 * indexes of labels. Decoding requires that the name is the one in the schema, that no two labels are equal, that
 * labels of fixed size fill the data exactly, and that offsets never decrease. An enumeration may have no
 * label, a label may be empty, and the size of a string label need not be a multiple of its datatype's size.
 */
#include "format/enumeration.h"

#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"

int tsr__enumeration_unique(const tsr_enumeration *e, tsr_memory *memory, int wrong, tsr_error *error) {
  tsr_slice *labels;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, e->count, &labels, error));
  for (uint64_t i = 0; i < e->count; i++)
    labels[i] = (tsr_slice){e->data + e->offsets[i], e->offsets[i + 1] - e->offsets[i]};
  qsort(labels, e->count, sizeof *labels, tsr__slices_compare);
  int rc = TSR_OK;
  for (uint64_t i = 1; i < e->count && rc >= 0; i++)
    if (!tsr__slices_compare(labels + i - 1, labels + i))
      rc = tsr__fail(error, wrong, "two labels are the same, '%.*s'", (int)TSR_MIN(labels[i].size, 64),
                     (const char *)labels[i].bytes);
  tsr__free(labels);
  return rc;
}

/* Sets count and offsets: from `stored`, the stored offsets of string labels, or, if that is NULL, from the fixed size
 * of the labels. */
static int make_offsets(tsr_enumeration *e, const uint8_t *stored, uint64_t stored_size, tsr_arena *arena,
                        tsr_error *error) {
  uint64_t size = 0;
  if (stored) {
    e->count = stored_size / 8;
    if (stored_size % 8 || (!e->count && e->data_size))
      return tsr__fail(error, TSR_CORRUPT, "%llu bytes of labels have %llu bytes of offsets",
                       (unsigned long long)e->data_size, (unsigned long long)stored_size);
  } else {
    size = (uint64_t)e->values_per_label * tsr_datatype_size(e->datatype);
    e->count = e->data_size / size;
    if (e->data_size % size)
      return tsr__fail(error, TSR_CORRUPT, "%llu bytes cannot be divided into labels of %llu bytes",
                       (unsigned long long)e->data_size, (unsigned long long)size);
  }
  TSR_TRY(TSR_ARENA_ARRAY(arena, e->count + 1, &e->offsets, error));
  e->offsets[e->count] = e->data_size;
  for (uint64_t i = 0; i < e->count; i++) e->offsets[i] = stored ? tsr__load64(stored + 8 * i) : i * size;
  for (uint64_t i = 0; i < e->count; i++)
    if (e->offsets[i] > e->offsets[i + 1])
      return tsr__fail(error, TSR_CORRUPT, "label %llu ends before it begins, at byte %llu of %llu",
                       (unsigned long long)i, (unsigned long long)e->offsets[i], (unsigned long long)e->data_size);
  return TSR_OK;
}

static int enumeration_decode(tsr_input *in, tsr_arena *arena, tsr_enumeration *e, tsr_error *error) {
  uint32_t version = tsr__input_u32(in);
  TSR_TRY(tsr__input_check(in, "it", error));
  if (version) return tsr__fail(error, TSR_UNSUPPORTED, "version %u of enumerations is unknown", version);
  uint32_t name_size = tsr__input_u32(in);
  const uint8_t *name = tsr__input_take(in, name_size);
  tsr__input_take(in, tsr__input_u32(in)); /* name of the file */
  uint8_t datatype = tsr__input_u8(in);
  e->values_per_label = tsr__input_u32(in);
  uint8_t ordered = tsr__input_u8(in);
  e->data_size = tsr__input_u64(in);
  const uint8_t *data = tsr__input_take(in, e->data_size), *stored = NULL;
  uint64_t stored_size = 0;
  if (e->values_per_label == TSR_VARIABLE) {
    stored_size = tsr__input_u64(in);
    stored = tsr__input_take(in, stored_size);
  }
  TSR_TRY(tsr__input_check(in, "it", error));
  if (tsr__bytes_compare(name, name_size, e->name, strlen(e->name)))
    return tsr__fail(error, TSR_CORRUPT, "it is named '%.*s'", (int)TSR_MIN(name_size, 256), (const char *)name);
  if (!tsr__datatype_valid(datatype)) return tsr__fail(error, TSR_CORRUPT, "datatype %u is unknown", datatype);
  if (!e->values_per_label || ordered > 1)
    return tsr__fail(error, TSR_CORRUPT, "%u values per label, 'ordered' is %u", e->values_per_label, ordered);
  if (tsr__input_left(in))
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes follow its end", (unsigned long long)tsr__input_left(in));
  e->datatype = (tsr_datatype)datatype;
  e->ordered = ordered;
  TSR_TRY(TSR_ARENA_COPY(arena, data, e->data_size, &e->data, error));
  TSR_TRY(make_offsets(e, stored, stored_size, arena, error));
  TSR_TRY(tsr__enumeration_unique(e, arena->memory, TSR_CORRUPT, error));
  e->loaded = true;
  return TSR_OK;
}

int tsr__enumeration_decode(tsr_input *in, tsr_arena *arena, tsr_enumeration *enumeration, tsr_error *error) {
  tsr_enumeration e = *enumeration;
  int rc = enumeration_decode(in, arena, &e, error);
  if (rc < 0) tsr__wrap(error, "enumeration '%s' in file '%s'", e.name, e.file);
  else *enumeration = e;
  return rc;
}

static int enumeration_encode(const tsr_enumeration *e, tsr_buffer *out, tsr_error *error) {
  TSR_TRY(tsr__buffer_append_u32(out, 0, error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)strlen(e->name), error));
  TSR_TRY(tsr__buffer_append(out, e->name, strlen(e->name), error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)strlen(e->file), error));
  TSR_TRY(tsr__buffer_append(out, e->file, strlen(e->file), error));
  TSR_TRY(tsr__buffer_append_u8(out, (uint8_t)e->datatype, error));
  TSR_TRY(tsr__buffer_append_u32(out, e->values_per_label, error));
  TSR_TRY(tsr__buffer_append_u8(out, e->ordered, error));
  TSR_TRY(tsr__buffer_append_u64(out, e->data_size, error));
  TSR_TRY(tsr__buffer_append(out, e->data, e->data_size, error));
  if (e->values_per_label != TSR_VARIABLE) return TSR_OK;
  TSR_TRY(tsr__buffer_append_u64(out, e->count * 8, error));
  return tsr__buffer_append(out, e->offsets, e->count * 8, error);
}

int tsr__enumeration_encode(const tsr_enumeration *enumeration, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = enumeration_encode(enumeration, out, error);
  if (rc < 0) out->size = before;
  return rc;
}
