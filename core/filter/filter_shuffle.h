/* filter_shuffle.h: the shuffles themselves, in as many variants as the machine can run, so that tests can compare them.
 */
#ifndef TSR_FILTER_SHUFFLE_H
#define TSR_FILTER_SHUFFLE_H

#include "tessera.h"

/* Planes are `width` rows of bytes, `stride` apart: row j has byte j of each value. join makes values of planes, split
 * planes of values (width 2, 4, 8). With `bits` values are 8 bytes, of which 8 x 8 bits are transposed: bit i of
 * row b <-> bit b of byte i. Both do as many values as fit their registers, from the first on, and say how many;
 * the scalar twin does none, and finishes for the others. */
typedef struct tsr_shuffle_variant {
  const char *name;
  uint64_t (*join)(unsigned width, bool bits, const uint8_t *planes, uint64_t stride, uint64_t count, uint8_t *values);
  uint64_t (*split)(unsigned width, bool bits, const uint8_t *values, uint64_t count, uint8_t *planes, uint64_t stride);
} tsr_shuffle_variant;

/* The variants that this machine can run, the scalar one first, the fastest last; returns how many, at most 4. */
unsigned tsr__shuffle_variants(const tsr_shuffle_variant *variants[4]);

/* `size` bytes; in and out do not overlap; width 1, 2, 4 or 8. Bytes behind the last whole value are copied; bits: in
 * blocks of 8,192 bytes, and of each those behind the last 8 values are copied. */
void tsr__byteshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                      uint8_t *out);
void tsr__byteunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                        uint8_t *out);
void tsr__bitshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                     uint8_t *out);
void tsr__bitunshuffle(const tsr_shuffle_variant *variant, unsigned width, const uint8_t *in, uint64_t size,
                       uint8_t *out);

#endif
