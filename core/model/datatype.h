/* datatype.h: datatypes and their values: names, sizes, fill values, order keys, and the text of datetimes and strings.
 * All functions are pure.
 *
 * An order key is a uint64 that sorts as its value does. The engine compares, sorts, prunes and merges the values of
 * every fixed-size dimension by their keys, whatever the datatype; only strings are compared as bytes. -0.0 and 0.0
 * have the same key, and NaNs sort above all other values.
 */
#ifndef TSR_MODEL_DATATYPE_H
#define TSR_MODEL_DATATYPE_H

#include <string.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arithmetic.h"
#include "tessera_host.h"

/* Returns true if `code`, a byte from a file, is a datatype's code. */
bool tsr__datatype_valid(uint8_t code);

/* Returns true if a dimension may have this datatype: numbers, datetimes, times and ASCII (format.md, schema rules). */
bool tsr__datatype_is_dimension(tsr_datatype datatype);

/* Writes TileDB's default fill value for one value, tsr_datatype_size bytes: for example 0x80000000 for INT32, NaN for
 * FLOAT32, 0x80 for CHAR, 0 for ASCII. */
void tsr__datatype_fill(tsr_datatype datatype, void *value);

/* The C type of one value, for loops over values of one type. Text, bytes and booleans are unsigned integers. */
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

/* Returns one value, possibly unaligned, as a double. */
static inline double tsr__physical_double(tsr_physical_type physical, const void *value) {
  switch (physical) {
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

/* Returns the tile extent of a dimension whose datatype is not a float. The bytes of the extent are an unsigned
 * integer, even for signed datatypes. */
uint64_t tsr__extent(const tsr_field *dimension);

#define TSR_KEY_NAN UINT64_MAX /* the key of all NaNs, of FLOAT32 and FLOAT64 */

/* Each returns the order key of one value, or sets those of `count` values, of a fixed-size dimension's datatype. */
uint64_t tsr__key(tsr_datatype datatype, const void *value);
void tsr__keys(tsr_datatype datatype, const void *values, uint64_t count, uint64_t *keys);

/* Writes the value of a key. For a float, a key that belongs to no value yields NaN, except that the key just below
 * that of 0.0, where -0.0 would be, yields 0.0. */
void tsr__key_value(tsr_datatype datatype, uint64_t key, void *value);

/* Return the keys of the datatype's least and greatest values; for floats, of the infinities. */
uint64_t tsr__key_min(tsr_datatype datatype);
uint64_t tsr__key_max(tsr_datatype datatype);

/* Compares as unsigned bytes; a prefix of a string sorts before the string. Returns < 0, 0 or > 0. */
static inline int tsr__bytes_compare(const void *a, uint64_t a_size, const void *b, uint64_t b_size) {
  int c = TSR_MIN(a_size, b_size) ? memcmp(a, b, TSR_MIN(a_size, b_size)) : 0;
  return c ? c : a_size < b_size ? -1 : a_size > b_size;
}

typedef struct tsr_slice {
  const uint8_t *bytes; /* borrowed */
  uint64_t size;
} tsr_slice;

/* Compare two tsr_slice, or the strings of two `char *`, as tsr__bytes_compare does; for qsort. */
static inline int tsr__slices_compare(const void *a, const void *b) {
  const tsr_slice *x = a, *y = b;
  return tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
}
static inline int tsr__names_compare(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Packs a string's first 8 bytes, padded with zeros, into a key that sorts as they do. Strings with equal keys must be
 * compared in full. */
static inline uint64_t tsr__text_prefix(const uint8_t *text, uint64_t size) {
  uint64_t key = 0;
  for (unsigned i = 0; i < 8; i++) key = key << 8 | (i < size ? text[i] : 0);
  return key;
}

/* Writes one number, datetime or time as text for messages: ISO-8601 if it can be printed as a date. `size`: of `text`,
 * in bytes; 64 are enough. */
void tsr__value_print(tsr_datatype datatype, const uint8_t *value, char *text, size_t size);

/* ---- datetime.c: datetimes, beyond the functions of the public headers ---- */

/* Sets *day to the first day, counted since 1970-01-01, of a value of DATETIME_YEAR, _MONTH, _WEEK or _DAY. Returns
 * false if the day does not fit into 32 bits, or if a year or month lies outside the years 0 to 9999. */
bool tsr__datetime_day(tsr_datatype datatype, int64_t value, int32_t *day);

/* Converts a TIME value from one unit to another; NaT stays NaT. Returns false, and *value is undefined, if it lies
 * between two units, or outside the range of the type. */
bool tsr__time_convert(tsr_datatype from, tsr_datatype to, int64_t *value);

/* ---- unicode.c: text of TileDB's datatypes as UTF-8 ---- */

/* Returns true if the bytes are valid UTF-8: shortest forms, no surrogates, nothing past U+10FFFF. */
bool tsr__is_utf8(const uint8_t *bytes, uint64_t size);

#endif
