/* datatype.h: values and geometry. Pure functions: no I/O, no state.
 *
 * Two ideas carry the engine:
 *  - An order key is a uint64 that sorts as the value does. Every fixed-size dimension, of whatever datatype, is
 * compared, sorted, pruned and merged by its keys; only strings are compared by bytes. -0.0 and 0.0 have one key; NaNs
 * lie above everything.
 *  - A dense dimension's coordinate is an ordinal: value - domain low, as uint64. All dense arithmetic is in ordinals.
 */
#ifndef TSR_DATATYPE_H
#define TSR_DATATYPE_H

#include <string.h>

#include "base/arithmetic.h"

bool tsr__datatype_valid(uint8_t code);

/* The code for a name without prefix, in any case ("uint16", "STRING_ASCII" also "ASCII"); -1 if there is none. */
int tsr__datatype_parse(const char *name, uint64_t size);

/* May it be a dimension's: numbers, datetimes, times, ASCII (schema rules, format.md). */
bool tsr__datatype_is_dimension(tsr_datatype datatype);

/* TileDB's default fill value of one value: writes tsr_datatype_size bytes (e.g. INT32 0x80000000, FLOAT32 NaN, CHAR
 * 0x80, ASCII 0). */
void tsr__datatype_fill(tsr_datatype datatype, void *value);

/* The machine's type of one value: what typed loops switch on. TEXT, BYTES and BOOL are unsigned. */
#define TSR_PHYSICAL_TYPES(X)                                                                                          \
  X(I8, int8_t)                                                                                                        \
  X(I16, int16_t)                                                                                                      \
  X(I32, int32_t)                                                                                                      \
  X(I64, int64_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t) X(F32, float) X(F64, double)

typedef enum tsr_physical_type {
#define X(name, type) TSR_PHYSICAL_##name,
  TSR_PHYSICAL_TYPES(X)
#undef X
} tsr_physical_type;

tsr_physical_type tsr__datatype_physical(tsr_datatype datatype);

/* One value, unaligned, as a double. */
static inline double tsr__physical_double(tsr_physical_type machine, const void *value) {
  switch (machine) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    type v;                                                                                                            \
    memcpy(&v, value, sizeof v);                                                                                       \
    return (double)v;                                                                                                  \
  }
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  return 0;
}
static inline double tsr__value_double(tsr_datatype datatype, const void *value) {
  return tsr__physical_double(tsr__datatype_physical(datatype), value);
}
static inline bool tsr__datatype_is_integral(tsr_datatype datatype) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED;
}

/* The order key of one value of a fixed-size dimension datatype, and of many. */
#define TSR_KEY_NAN UINT64_MAX /* of floats: FLOAT32, too */
uint64_t tsr__key(tsr_datatype datatype, const void *value);

/* The tile extent of a dimension that is no float: its bytes are an unsigned number, of signed datatypes, too. */
uint64_t tsr__extent(const tsr_field *dimension);
void tsr__keys(tsr_datatype datatype, const void *values, uint64_t count, uint64_t *keys);

/* The value of a key (NaNs come back as one NaN; keys of no float as NaN, but the one below that of 0.0 as 0.0). */
void tsr__key_value(tsr_datatype datatype, uint64_t key, void *value);

/* The keys of the datatype's least and greatest values; of floats the infinities. */
uint64_t tsr__key_min(tsr_datatype datatype);
uint64_t tsr__key_max(tsr_datatype datatype);

/* Unsigned byte order, shorter first where one is the other's beginning: < 0, 0, > 0. */
static inline int tsr__bytes_compare(const void *a, uint64_t a_size, const void *b, uint64_t b_size) {
  int c = TSR_MIN(a_size, b_size) ? memcmp(a, b, TSR_MIN(a_size, b_size)) : 0;
  return c ? c : a_size < b_size ? -1 : a_size > b_size;
}

typedef struct tsr_slice { /* bytes of somebody else's */
  const uint8_t *bytes;
  uint64_t size;
} tsr_slice;

static inline int tsr__slices_compare(const void *a, const void *b) { /* likewise, for qsort */
  const tsr_slice *x = a, *y = b;
  return tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
}
static inline int tsr__names_compare(const void *a, const void *b) { /* of char *, for qsort */
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A string's first 8 bytes as a key: of strings with equal ones the rest decides. */
static inline uint64_t tsr__text_prefix(const uint8_t *text, uint64_t size) {
  uint64_t key = 0;
  for (unsigned i = 0; i < 8; i++) key = key << 8 | (i < size ? text[i] : 0);
  return key;
}

#endif
