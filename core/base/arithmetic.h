/* arithmetic.h: checked integer arithmetic, and unaligned loads and stores of integers. Compute every size that comes
 * from a file with the checked functions before comparing it with a limit or allocating memory for it. */
#ifndef TSR_ARITHMETIC_H
#define TSR_ARITHMETIC_H

#include <string.h>

#include "tessera.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tessera keeps decoded tiles in the byte order of the files: only little-endian machines are supported"
#endif

/* 128-bit integers. On 32-bit machines compilers offer them as _BitInt: clang since 15, gcc since 14. */
#if defined(__SIZEOF_INT128__)
typedef __int128 tsr_wide;
typedef unsigned __int128 tsr_unsigned_wide;
#elif defined(__BITINT_MAXWIDTH__) && __BITINT_MAXWIDTH__ >= 128
typedef _BitInt(128) tsr_wide;
typedef unsigned _BitInt(128) tsr_unsigned_wide;
#else
#error "tessera computes with integers of 128 bits: on a machine of 32 bits use clang 15, gcc 14 or newer"
#endif

#define TSR_EXACT_REAL (INT64_C(1) << 53) /* integers up to this magnitude are exact as doubles */

#define TSR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TSR_MAX(a, b) ((a) > (b) ? (a) : (b))

/* Sets *r to the sum or the product and returns true. Returns false on overflow; *r is not meaningful then. */
static inline bool tsr__add(uint64_t a, uint64_t b, uint64_t *r) { return !__builtin_add_overflow(a, b, r); }
static inline bool tsr__mul(uint64_t a, uint64_t b, uint64_t *r) { return !__builtin_mul_overflow(a, b, r); }

/* The sum or the product, or UINT64_MAX on overflow. Only for a size that is then compared with a limit. */
static inline uint64_t tsr__add_sat(uint64_t a, uint64_t b) {
  uint64_t r;
  return tsr__add(a, b, &r) ? r : UINT64_MAX;
}
static inline uint64_t tsr__mul_sat(uint64_t a, uint64_t b) {
  uint64_t r;
  return tsr__mul(a, b, &r) ? r : UINT64_MAX;
}

/* Truncates an estimate to an integer: values below 0 and NaN become 0, values that are too large become UINT64_MAX. A
 * plain cast of such values is undefined behaviour. */
static inline uint64_t tsr__whole(double value) {
  return value >= 18446744073709551616.0 ? UINT64_MAX : value > 0 ? (uint64_t)value : 0;
}

/* Unaligned little-endian loads and stores. */
static inline uint16_t tsr__load16(const void *p) {
  uint16_t v;
  memcpy(&v, p, 2);
  return v;
}
static inline uint32_t tsr__load32(const void *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
static inline uint64_t tsr__load64(const void *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline void tsr__store32(void *p, uint32_t v) { memcpy(p, &v, 4); }
static inline void tsr__store64(void *p, uint64_t v) { memcpy(p, &v, 8); }

/* Big-endian loads and stores of integers of `width` bytes: 1, 2, 4 or 8. */
static inline uint64_t tsr__load_be(const uint8_t *p, unsigned width) {
  uint64_t v = 0;
  for (unsigned i = 0; i < width; i++) v = v << 8 | p[i];
  return v;
}
static inline void tsr__store_be(uint8_t *p, unsigned width, uint64_t v) {
  for (unsigned i = width; i-- > 0; v >>= 8) p[i] = (uint8_t)v;
}

#endif
