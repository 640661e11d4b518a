/* shuffle.c: byteshuffle and bitshuffle, which store the corresponding bytes, or bits, of many values next to each
 * other.
 *
 * Metadata of both as in pipeline.h. All format versions. Byteshuffle of a part of n values of w bytes: byte 0 of each
 * value, then byte 1 of each value, and so on. Bytes after the last whole value follow unchanged. Bitshuffle works on
 * blocks of 8,192 bytes. Let n be the number of values in a block, rounded down to a multiple of 8. For each byte j of
 * a value and each bit b of that byte, from the lowest up, there is a row of n / 8 bytes: bit i of its byte k is bit b
 * of byte j of value 8k + i. The rest of the block follows unchanged. A part is shuffled only if its size is a multiple
 * of 8 and of w. So the writer puts the last size % 8 bytes into a part of their own, and the part before it may be
 * empty.
 *
 * The SIMD variants join the planes of a value's bytes by interleaving pairs of registers. Each round moves one bit of
 * the register's number into the position of the byte. 3 rounds join 8 planes. 4 rounds of the same interleaving split
 * them again, because a register of 16 bytes has 4 bits of position. For bitshuffle the rows are joined as values of 8
 * bytes, whose 8 x 8 bits are then transposed; the result is the planes of byteshuffle. AVX2 processes two blocks of 16
 * values at once, one in each half of its registers.
 *
 * Order: the scalar loops; the vector loops and their variants; the shuffles; the filters.
 */
#include "filter/shuffle.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "filter/pipeline.h"

#define SHUFFLE_BLOCK 8192u

/* Transposes the 8 x 8 bits of each 64-bit integer, or of each element of a vector of them. It is its own inverse. */
#define TRANSPOSE_BITS(x, t)                                                                                           \
  do {                                                                                                                 \
    t = (x ^ x >> 7) & 0x00aa00aa00aa00aau;                                                                            \
    x ^= t ^ t << 7;                                                                                                   \
    t = (x ^ x >> 14) & 0x0000cccc0000ccccu;                                                                           \
    x ^= t ^ t << 14;                                                                                                  \
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0u;                                                                           \
    x ^= t ^ t << 28;                                                                                                  \
  } while (0)

/* ---- Scalar ---------------------------------------------------------------------------------- */

static uint64_t join_none(unsigned width, bool bits, const uint8_t *planes, uint64_t stride, uint64_t count,
                          uint8_t *values) {
  return 0;
}

static uint64_t split_none(unsigned width, bool bits, const uint8_t *values, uint64_t count, uint8_t *planes,
                           uint64_t stride) {
  return 0;
}

static const tsr_shuffle_variant scalar = {"scalar", join_none, split_none};

static void shuffle_join(const tsr_shuffle_variant *variant, unsigned width, bool bits, const uint8_t *planes,
                         uint64_t stride, uint64_t count, uint8_t *values) {
  for (uint64_t e = variant->join(width, bits, planes, stride, count, values); e < count; e++) {
    uint64_t x = 0, t;
    for (unsigned j = 0; j < width; j++) x |= (uint64_t)planes[j * stride + e] << (8 * j);
    if (bits) TRANSPOSE_BITS(x, t);
    memcpy(values + e * width, &x, width);
  }
}

static void shuffle_split(const tsr_shuffle_variant *variant, unsigned width, bool bits, const uint8_t *values,
                          uint64_t count, uint8_t *planes, uint64_t stride) {
  for (uint64_t e = variant->split(width, bits, values, count, planes, stride); e < count; e++) {
    uint64_t x = 0, t;
    memcpy(&x, values + e * width, width);
    if (bits) TRANSPOSE_BITS(x, t);
    for (unsigned j = 0; j < width; j++) planes[j * stride + e] = (uint8_t)(x >> (8 * j));
  }
}

/* ---- Vectors: 16 bytes (SSE2, NEON), 32 bytes (AVX2) ---------------------------------------- */

#if defined(__SSE2__) || defined(__ARM_NEON)
#define WITH_16 1
#if defined(__x86_64__) || defined(__i386__)
#define WITH_32 1
#define AVX2    __attribute__((target("avx2")))
#endif
#endif

#ifdef WITH_16
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define PICK(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
#endif
#ifndef PICK
#define PICK(type, a, b, ...) __builtin_shuffle(a, b, (type){__VA_ARGS__})
#endif

#define INLINE static inline __attribute__((always_inline))

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint64_t words16 __attribute__((vector_size(16)));

#define LOW16(a, b)  PICK(bytes16, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH16(a, b) PICK(bytes16, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
/* Load `width` registers from `at`, or store them there. */
#define LOAD16(v, width, at)                                                                                           \
  for (unsigned i = 0; i < (width); i++) memcpy(&v[i], (at) + 16 * i, 16)
#define STORE16(v, width, at)                                                                                          \
  for (unsigned i = 0; i < (width); i++) memcpy((at) + 16 * i, &v[i], 16)

/* The loops for one vector size. Callers pass a constant `width`, so that v stays in registers. */
#define DEFINE_VARIANT(size, attributes, LOW, HIGH, LOAD, STORE)                                                       \
  attributes INLINE void interleave##size(bytes##size *v, unsigned width, unsigned bit) {                              \
    for (unsigned i = 0; i < width; i++)                                                                               \
      if (!(i & bit)) {                                                                                                \
        bytes##size low = LOW(v[i], v[i | bit]), high = HIGH(v[i], v[i | bit]);                                        \
        v[i] = low;                                                                                                    \
        v[i | bit] = high;                                                                                             \
      }                                                                                                                \
  }                                                                                                                    \
  attributes INLINE void transpose##size(bytes##size *v, unsigned width) {                                             \
    for (unsigned i = 0; i < width; i++) {                                                                             \
      words##size x = (words##size)v[i], t;                                                                            \
      TRANSPOSE_BITS(x, t);                                                                                            \
      v[i] = (bytes##size)x;                                                                                           \
    }                                                                                                                  \
  }                                                                                                                    \
  attributes INLINE uint64_t join_body##size(unsigned width, bool bits, const uint8_t *planes, uint64_t stride,        \
                                             uint64_t count, uint8_t *values) {                                        \
    uint64_t e = 0;                                                                                                    \
    for (; count - e >= size; e += size) {                                                                             \
      bytes##size v[8];                                                                                                \
      for (unsigned j = 0; j < width; j++) memcpy(&v[j], planes + j * stride + e, size);                               \
      for (unsigned bit = width / 2; bit > 0; bit /= 2) interleave##size(v, width, bit);                               \
      if (bits) transpose##size(v, width);                                                                             \
      STORE(v, width, values + e * width);                                                                             \
    }                                                                                                                  \
    return e;                                                                                                          \
  }                                                                                                                    \
  attributes INLINE uint64_t split_body##size(unsigned width, bool bits, const uint8_t *values, uint64_t count,        \
                                              uint8_t *planes, uint64_t stride) {                                      \
    uint64_t e = 0;                                                                                                    \
    for (; count - e >= size; e += size) {                                                                             \
      bytes##size v[8];                                                                                                \
      LOAD(v, width, values + e * width);                                                                              \
      if (bits) transpose##size(v, width);                                                                             \
      for (unsigned round = 0, bit = width / 2; round < 4; round++, bit = bit == 1 ? width / 2 : bit / 2)              \
        interleave##size(v, width, bit);                                                                               \
      /* after 4 rounds over 3 bits the register's number is the plane's, rotated by one bit */                        \
      for (unsigned j = 0; j < width; j++)                                                                             \
        memcpy(planes + j * stride + e, &v[width == 8 ? j >> 1 | (j & 1) << 2 : j], size);                             \
    }                                                                                                                  \
    return e;                                                                                                          \
  }                                                                                                                    \
  attributes static uint64_t join##size(unsigned width, bool bits, const uint8_t *planes, uint64_t stride,             \
                                        uint64_t count, uint8_t *values) {                                             \
    if (bits) return join_body##size(8, true, planes, stride, count, values);                                          \
    if (width == 2) return join_body##size(2, false, planes, stride, count, values);                                   \
    if (width == 4) return join_body##size(4, false, planes, stride, count, values);                                   \
    return join_body##size(8, false, planes, stride, count, values);                                                   \
  }                                                                                                                    \
  attributes static uint64_t split##size(unsigned width, bool bits, const uint8_t *values, uint64_t count,             \
                                         uint8_t *planes, uint64_t stride) {                                           \
    if (bits) return split_body##size(8, true, values, count, planes, stride);                                         \
    if (width == 2) return split_body##size(2, false, values, count, planes, stride);                                  \
    if (width == 4) return split_body##size(4, false, values, count, planes, stride);                                  \
    return split_body##size(8, false, values, count, planes, stride);                                                  \
  }
DEFINE_VARIANT(16, , LOW16, HIGH16, LOAD16, STORE16)
#ifdef __SSE2__
static const tsr_shuffle_variant variant16 = {"sse2", join16, split16};
#else
static const tsr_shuffle_variant variant16 = {"neon", join16, split16};
#endif
#endif

#ifdef WITH_32
typedef uint8_t bytes32 __attribute__((vector_size(32)));
typedef uint64_t words32 __attribute__((vector_size(32)));

/* Interleave within each half of the registers, as the AVX2 instructions do. */
#define LOW32(a, b)                                                                                                    \
  PICK(bytes32, a, b, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52,  \
       21, 53, 22, 54, 23, 55)
#define HIGH32(a, b)                                                                                                   \
  PICK(bytes32, a, b, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47, 24, 56, 25, 57, 26, 58, 27, 59,    \
       28, 60, 29, 61, 30, 62, 31, 63)
#define FIRST_HALVES(a, b)  (bytes32) PICK(words32, (words32)(a), (words32)(b), 0, 1, 4, 5)
#define SECOND_HALVES(a, b) (bytes32) PICK(words32, (words32)(a), (words32)(b), 2, 3, 6, 7)
/* The first halves of all registers hold one block of 16 values, the second halves the next block. */
#define LOAD32(v, width, at)                                                                                           \
  for (unsigned i = 0; i < (width); i += 2) {                                                                          \
    bytes32 a, b;                                                                                                      \
    memcpy(&a, (at) + 16 * i, 32);                                                                                     \
    memcpy(&b, (at) + 16 * ((width) + i), 32);                                                                         \
    v[i] = FIRST_HALVES(a, b);                                                                                         \
    v[i + 1] = SECOND_HALVES(a, b);                                                                                    \
  }
#define STORE32(v, width, at)                                                                                          \
  for (unsigned i = 0; i < (width); i += 2) {                                                                          \
    bytes32 a = FIRST_HALVES(v[i], v[i + 1]), b = SECOND_HALVES(v[i], v[i + 1]);                                       \
    memcpy((at) + 16 * i, &a, 32);                                                                                     \
    memcpy((at) + 16 * ((width) + i), &b, 32);                                                                         \
  }
DEFINE_VARIANT(32, AVX2, LOW32, HIGH32, LOAD32, STORE32)
static const tsr_shuffle_variant variant32 = {"avx2", join32, split32};
#endif

unsigned tsr__shuffle_variants(const tsr_shuffle_variant *variants[4]) {
  unsigned count = 0;
  variants[count++] = &scalar;
#ifdef WITH_16
  variants[count++] = &variant16;
#endif
#ifdef WITH_32
  if (__builtin_cpu_supports("avx2")) variants[count++] = &variant32;
#endif
  return count;
}

static const tsr_shuffle_variant *fastest(void) {
  const tsr_shuffle_variant *variants[4];
  return variants[tsr__shuffle_variants(variants) - 1];
}

/* ---- The shuffles ---------------------------------------------------------------------------- */

void tsr__byteshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                      uint8_t *out) {
  uint64_t count = width == 1 ? 0 : size / width, whole = count * width;
  if (count > 0) shuffle_split(variant, width, false, in, count, out, count);
  memcpy(out + whole, in + whole, size - whole);
}

void tsr__byteunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                        uint8_t *out) {
  uint64_t count = width == 1 ? 0 : size / width, whole = count * width;
  if (count > 0) shuffle_join(variant, width, false, in, count, count, out);
  memcpy(out + whole, in + whole, size - whole);
}

void tsr__bitshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                     uint8_t *out) {
  uint8_t planes[SHUFFLE_BLOCK];
  for (uint64_t at = 0; at < size; at += SHUFFLE_BLOCK) {
    const uint8_t *from = in + at;
    uint8_t *to = out + at;
    uint64_t block = TSR_MIN(size - at, SHUFFLE_BLOCK), count = block / width / 8 * 8, row = count / 8;
    if (width > 1) {
      shuffle_split(variant, width, false, from, count, planes, count);
      from = planes;
    }
    for (unsigned j = 0; j < width; j++) shuffle_split(variant, 8, true, from + j * count, row, to + j * count, row);
    memcpy(to + count * width, in + at + count * width, block - count * width);
  }
}

void tsr__bitunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                       uint8_t *out) {
  uint8_t planes[SHUFFLE_BLOCK];
  for (uint64_t at = 0; at < size; at += SHUFFLE_BLOCK) {
    const uint8_t *from = in + at;
    uint8_t *to = width > 1 ? planes : out + at;
    uint64_t block = TSR_MIN(size - at, SHUFFLE_BLOCK), count = block / width / 8 * 8, row = count / 8;
    for (unsigned j = 0; j < width; j++) shuffle_join(variant, 8, true, from + j * count, row, row, to + j * count);
    if (width > 1) shuffle_join(variant, width, false, planes, count, count, out + at);
    memcpy(out + at + count * width, from + count * width, block - count * width);
  }
}

/* ---- The filters ----------------------------------------------------------------------------- */

static int byteshuffle_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  if (size > 0) tsr__byteshuffle(fastest(), width, in, size, out);
  return TSR_OK;
}

static int byteunshuffle_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  if (size > 0) tsr__byteunshuffle(fastest(), width, in, size, out);
  return TSR_OK;
}

static int decode_bytes(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                        tsr_part *data_out, tsr_error *error) {
  return tsr__parts_decode(context, byteunshuffle_part, metadata, data, data_out, error);
}

static int encode_bytes(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  return tsr__parts_encode(context, byteshuffle_part, in, out, error);
}

/* A part whose size is no multiple of 8 is stored as it is. (Widths are 1, 2, 4 and 8, so the width divides the size of
 * any other part.) */
static bool is_shuffled(uint64_t size) { return size > 0 && size % 8 == 0; }

static int bitshuffle_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  if (is_shuffled(size)) tsr__bitshuffle(fastest(), width, in, size, out);
  else if (size > 0) memcpy(out, in, size);
  return TSR_OK;
}

static int bitunshuffle_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  if (is_shuffled(size)) tsr__bitunshuffle(fastest(), width, in, size, out);
  else if (size > 0) memcpy(out, in, size);
  return TSR_OK;
}

static int decode_bits(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                       tsr_part *data_out, tsr_error *error) {
  return tsr__parts_decode(context, bitunshuffle_part, metadata, data, data_out, error);
}

static int encode_bits(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  tsr_part *parts;
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, 2 * (uint64_t)in->data_count, &parts, error));
  tsr_chunk cut = *in;
  cut.data = parts;
  cut.data_count = 0;
  for (uint32_t i = 0; i < in->data_count; i++) {
    uint64_t rest = in->data[i].size % 8, first = in->data[i].size - rest;
    cut.data[cut.data_count++] = (tsr_part){in->data[i].data, first};
    if (rest > 0) cut.data[cut.data_count++] = (tsr_part){in->data[i].data + first, rest};
  }
  return tsr__parts_encode(context, bitshuffle_part, &cut, out, error);
}

const tsr_filter_methods tsr__filter_byteshuffle = {
    .type = TSR_FILTER_BYTESHUFFLE, .name = "byteshuffle", .decode = decode_bytes, .encode = encode_bytes};
const tsr_filter_methods tsr__filter_bitshuffle = {
    .type = TSR_FILTER_BITSHUFFLE, .name = "bitshuffle", .decode = decode_bits, .encode = encode_bits};
