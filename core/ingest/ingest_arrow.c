/* ingest_arrow.c: takes the batches of Arrow streams into an ingest (tessera_ingest.h).
 *
 * What the structures say is not trusted as far as it can be looked at: lengths, numbers of buffers and children, null
 * pointers, the order of offsets and the indices of dictionaries are checked before a value is read. The sizes of buffers
 * are not in the structures, so a producer that lies about them cannot be found out.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "array/environment.h"
#include "ingest/ingest.h"

/* ---- Types ------------------------------------------------------------------------------------------------------- */

typedef enum ingest_layout { /* how Arrow keeps the values of a column */
                             INGEST_BITS,
                             INGEST_SIGNED,
                             INGEST_UNSIGNED,
                             INGEST_HALF,
                             INGEST_FLOATS,
                             INGEST_OFFSETS32,
                             INGEST_OFFSETS64,
                             INGEST_VIEWS
} ingest_layout;

typedef struct ingest_arrow_type {
  const char *format; /* with '*' at the end: what begins so */
  ingest_layout layout;
  uint32_t size; /* of a value, or 0 */
  tsr_datatype datatype;
} ingest_arrow_type;

static const ingest_arrow_type ingest_arrow_types[] = {{"b", INGEST_BITS, 0, TSR_BOOL},
                                                       {"c", INGEST_SIGNED, 1, TSR_INT8},
                                                       {"C", INGEST_UNSIGNED, 1, TSR_UINT8},
                                                       {"s", INGEST_SIGNED, 2, TSR_INT16},
                                                       {"S", INGEST_UNSIGNED, 2, TSR_UINT16},
                                                       {"i", INGEST_SIGNED, 4, TSR_INT32},
                                                       {"I", INGEST_UNSIGNED, 4, TSR_UINT32},
                                                       {"l", INGEST_SIGNED, 8, TSR_INT64},
                                                       {"L", INGEST_UNSIGNED, 8, TSR_UINT64},
                                                       {"e", INGEST_HALF, 2, TSR_FLOAT32},
                                                       {"f", INGEST_FLOATS, 4, TSR_FLOAT32},
                                                       {"g", INGEST_FLOATS, 8, TSR_FLOAT64},
                                                       {"u", INGEST_OFFSETS32, 0, TSR_UTF8},
                                                       {"U", INGEST_OFFSETS64, 0, TSR_UTF8},
                                                       {"vu", INGEST_VIEWS, 0, TSR_UTF8},
                                                       {"z", INGEST_OFFSETS32, 0, TSR_BLOB},
                                                       {"Z", INGEST_OFFSETS64, 0, TSR_BLOB},
                                                       {"vz", INGEST_VIEWS, 0, TSR_BLOB},
                                                       {"tdD", INGEST_SIGNED, 4, TSR_DATETIME_DAY},
                                                       {"tdm", INGEST_SIGNED, 8, TSR_DATETIME_MS},
                                                       {"tss:*", INGEST_SIGNED, 8, TSR_DATETIME_SEC},
                                                       {"tsm:*", INGEST_SIGNED, 8, TSR_DATETIME_MS},
                                                       {"tsu:*", INGEST_SIGNED, 8, TSR_DATETIME_US},
                                                       {"tsn:*", INGEST_SIGNED, 8, TSR_DATETIME_NS},
                                                       {"tts", INGEST_SIGNED, 4, TSR_TIME_SEC},
                                                       {"ttm", INGEST_SIGNED, 4, TSR_TIME_MS},
                                                       {"ttu", INGEST_SIGNED, 8, TSR_TIME_US},
                                                       {"ttn", INGEST_SIGNED, 8, TSR_TIME_NS},
                                                       {"tDs", INGEST_SIGNED, 8, TSR_TIME_SEC},
                                                       {"tDm", INGEST_SIGNED, 8, TSR_TIME_MS},
                                                       {"tDu", INGEST_SIGNED, 8, TSR_TIME_US},
                                                       {"tDn", INGEST_SIGNED, 8, TSR_TIME_NS}};

static const ingest_arrow_type *ingest_arrow_find(const char *format) {
  for (size_t i = 0; format && i < sizeof ingest_arrow_types / sizeof *ingest_arrow_types; i++) {
    const char *known = ingest_arrow_types[i].format;
    const size_t size = strlen(known);
    if (known[size - 1] == '*' ? !strncmp(format, known, size - 1) : !strcmp(format, known))
      return &ingest_arrow_types[i];
  }
  return NULL;
}

static bool ingest_arrow_is_bytes(const ingest_arrow_type *type) { return type->layout >= INGEST_OFFSETS32; }

static int ingest_arrow_column(const struct ArrowSchema *child, tsr_ingest_column *column, tsr_error *error) {
  const ingest_arrow_type *type = child ? ingest_arrow_find(child->format) : NULL;
  if (!child || !child->release || !child->name) return tsr__fail(error, TSR_MISMATCH, "a column without a name");
  *column = (tsr_ingest_column){.name = child->name};
  if (type && child->dictionary) {
    column->labels = true;
    column->ordered = child->flags & ARROW_FLAG_DICTIONARY_ORDERED;
    const bool is_index = type->layout == INGEST_SIGNED || type->layout == INGEST_UNSIGNED;
    type = is_index && type->size ? ingest_arrow_find(child->dictionary->format) : NULL;
    if (type && (!ingest_arrow_is_bytes(type) || type->datatype != TSR_UTF8)) type = NULL;
  }
  if (!type)
    return tsr__fail(error, TSR_UNSUPPORTED, "column '%s': Arrow type '%.40s'%s: cast it first", child->name,
                     child->format ? child->format : "", child->dictionary ? " with a dictionary" : "");
  if (column->labels) return TSR_OK;
  column->typed = true;
  column->datatype = type->datatype;
  column->values_per_cell = ingest_arrow_is_bytes(type) ? TSR_VARIABLE : 1;
  return TSR_OK;
}

int tsr_arrow_columns(const struct ArrowSchema *schema, tsr_ingest_column *columns, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!schema->release || !schema->format || strcmp(schema->format, "+s") != 0)
    return tsr__fail(error, TSR_MISMATCH, "the stream has no columns: its type is '%.40s'",
                     schema->release && schema->format ? schema->format : "");
  if (schema->n_children <= 0 || !schema->children) return tsr__fail(error, TSR_MISMATCH, "the stream has no columns");
  for (int64_t i = 0; i < schema->n_children; i++)
    TSR_TRY(ingest_arrow_column(schema->children[i], &columns[i], error));
  return TSR_OK;
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

typedef struct ingest_arrow { /* a column of a batch, or its dictionary */
  const struct ArrowArray *array;
  const ingest_arrow_type *type;
  uint64_t offset, length; /* of the values that count, in the buffers */
  const uint8_t *validity; /* NULL: no nulls */
  const uint8_t *values; /* numbers, bits, or views */
  const uint8_t *ends, *bytes; /* offsets; what they point into */
  struct ingest_arrow *labels; /* of a dictionary, or NULL */
} ingest_arrow;

static int ingest_arrow_broken(const char *name, const char *why, tsr_error *error) {
  return tsr__fail(error, TSR_CORRUPT, "column '%s': a broken Arrow array: %s", name, why);
}

static uint64_t ingest_arrow_offset(const ingest_arrow *a, uint64_t i) {
  int64_t wide = 0;
  int32_t narrow = 0;
  if (a->type->layout == INGEST_OFFSETS64) memcpy(&wide, a->ends + i * 8, 8);
  else {
    memcpy(&narrow, a->ends + i * 4, 4);
    wide = narrow;
  }
  return (uint64_t)wide; /* a negative one is too large */
}

static int ingest_arrow_check_offsets(const ingest_arrow *a, const char *name, tsr_error *error) {
  uint64_t before = ingest_arrow_offset(a, a->offset);
  bool ordered = before <= INT64_MAX;
  for (uint64_t i = 1; i <= a->length; i++) {
    const uint64_t next = ingest_arrow_offset(a, a->offset + i);
    ordered &= next >= before && next <= INT64_MAX;
    before = next;
  }
  if (!ordered) return ingest_arrow_broken(name, "its offsets are not in order", error);
  if (before > 0 && !a->bytes) return ingest_arrow_broken(name, "it has no bytes", error);
  return TSR_OK;
}

/* Sets the buffers of an array whose values from `first` on count. */
static int ingest_arrow_buffers(ingest_arrow *a, const struct ArrowArray *array, uint64_t first, uint64_t length,
                                const char *name, tsr_error *error) {
  const int64_t needed = a->type->layout == INGEST_OFFSETS32 || a->type->layout == INGEST_OFFSETS64 ? 3
                         : a->type->layout == INGEST_VIEWS                                          ? 3
                                                                                                    : 2;
  a->array = array;
  if (!array || !array->release) return ingest_arrow_broken(name, "it is missing or released", error);
  if (array->offset < 0 || array->length < 0 || array->offset > INT64_MAX / 32 || array->length > INT64_MAX / 32)
    return ingest_arrow_broken(name, "its length", error);
  if ((uint64_t)array->length < first + length) return ingest_arrow_broken(name, "it is shorter than the batch", error);
  if (array->n_buffers < needed || !array->buffers) return ingest_arrow_broken(name, "its number of buffers", error);
  a->offset = (uint64_t)array->offset + first;
  a->length = length;
  a->validity = array->null_count == 0 ? NULL : array->buffers[0];
  if (array->null_count > 0 && !a->validity) return ingest_arrow_broken(name, "nulls without validity", error);
  if (length == 0) return TSR_OK;
  if (!array->buffers[1]) return ingest_arrow_broken(name, "a buffer is missing", error);
  a->values = array->buffers[1];
  if (needed == 2 || a->type->layout == INGEST_VIEWS) return TSR_OK;
  a->ends = array->buffers[1];
  a->bytes = array->buffers[2];
  return ingest_arrow_check_offsets(a, name, error);
}

static int ingest_arrow_open(ingest_arrow *a, const struct ArrowSchema *schema, const struct ArrowArray *array,
                             uint64_t first, uint64_t length, tsr_arena *arena, tsr_error *error) {
  a->type = ingest_arrow_find(schema->format);
  TSR_TRY(ingest_arrow_buffers(a, array, first, length, schema->name, error));
  if (!schema->dictionary) return TSR_OK;
  if (!array->dictionary) return ingest_arrow_broken(schema->name, "its dictionary is missing", error);
  if (array->dictionary->length < 0) return ingest_arrow_broken(schema->name, "the length of its dictionary", error);
  TSR_TRY(TSR_ARENA_ARRAY(arena, 1, &a->labels, error));
  a->labels->type = ingest_arrow_find(schema->dictionary->format);
  return ingest_arrow_buffers(a->labels, array->dictionary, 0, (uint64_t)array->dictionary->length, schema->name,
                              error);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static bool ingest_arrow_is_null(const ingest_arrow *a, uint64_t i) {
  i += a->offset;
  return a->validity && !(a->validity[i / 8] >> (i % 8) & 1);
}

/* Widens a number of 16 bits, as IEEE 754 has them. */
static float ingest_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  float value;
  if (exponent == 0) {
    value = (float)mantissa / 16777216.0f;
    return sign ? -value : value;
  }
  const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t ingest_arrow_word(const ingest_arrow *a, uint64_t i) {
  const uint8_t *at = a->values + (i + a->offset) * a->type->size;
  uint64_t word = 0;
  memcpy(&word, at, a->type->size);
  if (a->type->layout == INGEST_SIGNED && a->type->size < 8) {
    const unsigned shift = 64 - 8 * a->type->size;
    word = (uint64_t)((int64_t)(word << shift) >> shift);
  }
  return word;
}

/* Gives the bytes of a string. */
static int ingest_arrow_string(const ingest_arrow *a, uint64_t i, const char *name, const uint8_t **bytes,
                               uint64_t *size, tsr_error *error) {
  if (a->type->layout != INGEST_VIEWS) {
    const uint64_t from = ingest_arrow_offset(a, i + a->offset);
    *bytes = a->bytes + from;
    *size = ingest_arrow_offset(a, i + a->offset + 1) - from;
    return TSR_OK;
  }
  int32_t view[4];
  const uint8_t *at = a->values + (i + a->offset) * sizeof view;
  memcpy(view, at, sizeof view);
  if (view[0] < 0) return ingest_arrow_broken(name, "the length of a string", error);
  *size = (uint64_t)view[0];
  *bytes = at + 4;
  if (*size <= 12) return TSR_OK;
  const int64_t count = a->array->n_buffers - 3; /* validity, views, the buffers, their sizes */
  const uint8_t *sizes = a->array->buffers[a->array->n_buffers - 1];
  int64_t room;
  if (view[2] < 0 || view[2] >= count || view[3] < 0 || !sizes)
    return ingest_arrow_broken(name, "a string that lies in no buffer", error);
  memcpy(&room, sizes + (uint64_t)view[2] * 8, 8);
  if ((int64_t)view[3] + view[0] > room || !a->array->buffers[2 + view[2]])
    return ingest_arrow_broken(name, "a string past the end of its buffer", error);
  *bytes = (const uint8_t *)a->array->buffers[2 + view[2]] + view[3];
  return TSR_OK;
}

static int ingest_arrow_set(tsr_ingest *g, uint32_t column, const ingest_arrow *a, uint64_t i, tsr_error *error) {
  const tsr_ingest_kept *c = &g->columns[column];
  const char *name = c->given->name;
  const uint8_t *bytes;
  uint64_t size, word;
  float narrow;
  double real;
  if (ingest_arrow_is_null(a, i)) return TSR_OK;
  if (a->labels) {
    word = ingest_arrow_word(a, i);
    if (word >= a->labels->length) return ingest_arrow_broken(name, "an index past its dictionary", error);
    return ingest_arrow_set(g, column, a->labels, word, error);
  }
  switch (a->type->layout) {
  case INGEST_BITS:
    return tsr_ingest_set_integer(g, column, a->values[(i + a->offset) / 8] >> ((i + a->offset) % 8) & 1, error);
  case INGEST_SIGNED:
  case INGEST_UNSIGNED:
    word = ingest_arrow_word(a, i);
    if (a->type->size == 8 && a->type->layout == INGEST_UNSIGNED)
      return tsr__ingest_set_unsigned(g, column, word, error);
    return tsr_ingest_set_integer(g, column, (int64_t)word, error);
  case INGEST_HALF: return tsr_ingest_set_real(g, column, ingest_half((uint16_t)ingest_arrow_word(a, i)), error);
  case INGEST_FLOATS:
    word = ingest_arrow_word(a, i);
    memcpy(&narrow, &word, sizeof narrow);
    memcpy(&real, &word, sizeof real);
    return tsr_ingest_set_real(g, column, a->type->size == 4 ? narrow : real, error);
  default:
    TSR_TRY(ingest_arrow_string(a, i, name, &bytes, &size, error));
    return tsr_ingest_set_bytes(g, column, a->type->datatype == TSR_UTF8, size ? bytes : (const uint8_t *)"", size,
                                error);
  }
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

/* Adds all labels of a dictionary, in their order, also those that no row has. */
static int ingest_arrow_labels(tsr_ingest *g, uint32_t column, const ingest_arrow *a, tsr_error *error) {
  if (!a->labels || !g->columns[column].given->labels) return TSR_OK;
  for (uint64_t i = 0; i < a->labels->length; i++) {
    const uint8_t *bytes;
    uint64_t size;
    if (ingest_arrow_is_null(a->labels, i)) continue;
    TSR_TRY(ingest_arrow_string(a->labels, i, g->columns[column].given->name, &bytes, &size, error));
    TSR_TRY(tsr__ingest_know_label(g, column, size ? bytes : (const uint8_t *)"", size, error));
  }
  return TSR_OK;
}

static int ingest_arrow_rows(tsr_ingest *g, const ingest_arrow *columns, const int *kept, uint64_t count, uint64_t rows,
                             tsr_error *error) {
  for (uint64_t row = 0; row < rows; row++) {
    int rc = TSR_OK;
    for (uint64_t i = 0; i < count && rc >= 0; i++)
      if (kept[i] >= 0) rc = ingest_arrow_set(g, (uint32_t)kept[i], &columns[i], row, error);
    if (rc >= 0) rc = tsr_ingest_end_row(g, error);
    if (rc < 0) return tsr__wrap(error, "row %llu", (unsigned long long)g->seen + 1);
  }
  return TSR_OK;
}

int tsr_ingest_arrow(tsr_ingest *g, const struct ArrowSchema *schema, const struct ArrowArray *batch, const int *kept,
                     tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_arena arena;
  ingest_arrow *columns;
  if (!batch->release || batch->n_children != schema->n_children || !batch->children)
    return ingest_arrow_broken("", "the batch has other columns than the stream", error);
  if (batch->length < 0 || batch->offset < 0 || batch->length > INT64_MAX / 64 || batch->offset > INT64_MAX / 64)
    return ingest_arrow_broken("", "the length of the batch", error);
  if (batch->null_count > 0) return ingest_arrow_broken("", "rows that are null", error);
  const uint64_t count = (uint64_t)batch->n_children, rows = (uint64_t)batch->length;
  tsr__arena_init(&arena, &g->memory);
  int rc = TSR_ARENA_ARRAY(&arena, count, &columns, error);
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    if (kept[i] < 0) continue;
    rc = ingest_arrow_open(&columns[i], schema->children[i], batch->children[i], (uint64_t)batch->offset, rows, &arena,
                           error);
    if (rc >= 0) rc = ingest_arrow_labels(g, (uint32_t)kept[i], &columns[i], error);
  }
  if (rc >= 0) rc = ingest_arrow_rows(g, columns, kept, count, rows, error);
  tsr__arena_release(&arena);
  return rc;
}
