/* xor.c: the xor filter, which stores the bits in which each value differs from the one before. TileDB has written it
 * since 2.12.
 *
 * Metadata as in pipeline.h. Data: in each part the first value unchanged, then each value ^ its predecessor, as
 * integers of the datatype's width of 1, 2, 4 or 8 bytes. The encoded values have the datatype INT8, INT16, INT32 or
 * INT64. Parts hold whole values.
 */
#include <string.h>

#include "filter/pipeline.h"

#define DEFINE_XOR(bits)                                                                                               \
  static void chain##bits(const uint8_t *in, uint64_t size, uint8_t *out) {                                            \
    uint##bits##_t last = 0, value;                                                                                    \
    for (uint64_t i = 0; i < size; i += sizeof value) {                                                                \
      memcpy(&value, in + i, sizeof value);                                                                            \
      last ^= value;                                                                                                   \
      memcpy(out + i, &last, sizeof value);                                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  static void unchain##bits(const uint8_t *in, uint64_t size, uint8_t *out) {                                          \
    uint##bits##_t last = 0, value;                                                                                    \
    for (uint64_t i = 0; i < size; i += sizeof value) {                                                                \
      memcpy(&value, in + i, sizeof value);                                                                            \
      last ^= value;                                                                                                   \
      memcpy(out + i, &last, sizeof value);                                                                            \
      last = value;                                                                                                    \
    }                                                                                                                  \
  }
DEFINE_XOR(8)
DEFINE_XOR(16)
DEFINE_XOR(32)
DEFINE_XOR(64)

static int check_whole(unsigned width, uint64_t size, int rc, tsr_error *error) {
  if (size % width == 0) return TSR_OK;
  return tsr__fail(error, rc, "%llu bytes are not whole values of %u bytes", (unsigned long long)size, width);
}

static int decode_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  TSR_TRY(check_whole(width, size, TSR_CORRUPT, error));
  switch (width) {
  case 1: chain8(in, size, out); break;
  case 2: chain16(in, size, out); break;
  case 4: chain32(in, size, out); break;
  default: chain64(in, size, out);
  }
  return TSR_OK;
}

/* Rejects parts that do not hold whole values, as some filters produce: TileDB writes them, but cannot read them
 * back. */
static int encode_part(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  TSR_TRY(check_whole(width, size, TSR_CONSTRAINT, error));
  switch (width) {
  case 1: unchain8(in, size, out); break;
  case 2: unchain16(in, size, out); break;
  case 4: unchain32(in, size, out); break;
  default: unchain64(in, size, out);
  }
  return TSR_OK;
}

static int xor_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                      tsr_part *data_out, tsr_error *error) {
  return tsr__parts_decode(context, decode_part, metadata, data, data_out, error);
}

static int xor_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  return tsr__parts_encode(context, encode_part, in, out, error);
}

const tsr_filter_methods tsr__filter_xor = {
    .type = TSR_FILTER_XOR, .name = "xor", .decode = xor_decode, .encode = xor_encode};
