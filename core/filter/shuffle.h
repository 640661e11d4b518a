/* shuffle.h: byteshuffle and bitshuffle of a block of bytes, with their SIMD variants, which tests compare with each
 * other.
 */
#ifndef TSR_FILTER_SHUFFLE_H
#define TSR_FILTER_SHUFFLE_H

#include "tessera.h"

/* One implementation of the inner loops. Planes are `width` rows of bytes, `stride` bytes apart; row j has byte j of
 * each value. `join` turns planes into values, `split` turns values into planes, for a width of 2, 4 or 8. With `bits`
 * the values have 8 bytes, whose 8 x 8 bits are transposed: bit i of row b is bit b of byte i. Both process values from
 * the first on while these fill the registers, and return how many they have processed; the caller does the rest one by
 * one. The scalar variant returns 0. */
typedef struct tsr_shuffle_variant {
  const char *name;
  uint64_t (*join)(unsigned width, bool bits, const uint8_t *planes, uint64_t stride, uint64_t count, uint8_t *values);
  uint64_t (*split)(unsigned width, bool bits, const uint8_t *values, uint64_t count, uint8_t *planes, uint64_t stride);
} tsr_shuffle_variant;

/* Sets `variants` to those that this processor supports, the scalar one first and the fastest last. Returns their
 * number, at most 4. */
unsigned tsr__shuffle_variants(const tsr_shuffle_variant *variants[4]);

/* Shuffle or unshuffle `size` bytes of values of `width` bytes: 1, 2, 4 or 8. `in` and `out` must not overlap. Bytes
 * after the last whole value are copied. The bit functions work on blocks of 8,192 bytes, and copy the bytes of a block
 * after its last group of 8 values. */
void tsr__byteshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                      uint8_t *out);
void tsr__byteunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                        uint8_t *out);
void tsr__bitshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                     uint8_t *out);
void tsr__bitunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                       uint8_t *out);

#endif
