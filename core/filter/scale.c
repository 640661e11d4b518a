/* scale.c: the filter scale_float, which rounds floats and stores them as scaled integers of fewer bytes. Old format
 * versions do not have it.
 *
 * Metadata as in pipeline.h, with the sizes after scaling. Data: for each value v (FLOAT32 or FLOAT64; other types of 4
 * or 8 bytes are treated as these) an integer s of 1, 2, 4 or 8 bytes, depending on an option.
 *   encode   s = (v - offset) / scale, rounded, halves away from 0; subtraction and division in the float's type
 *   decode   v = scale * s + offset in double; but s is first converted to the float's type, so FLOAT32 keeps 24 of
 *            its bits
 *
 * A scaled value outside the range of the integer is undefined in TileDB. Here it is clamped, and NaN becomes the least
 * integer. It cannot be an error, because the cells of a tile outside the box of a dense write are zero bytes and may
 * be out of range; the cells that are written are checked beforehand (tsr__check_scaled). If there are several parts,
 * which no known writer makes, they are stored in reverse order.
 */

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "filter/pipeline.h"

/* A fused multiply-add would round differently from TileDB's two operations. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#endif

/* Rounds to the nearest integer and clamps it to low..high. Truncation and the remainder are exact and need no call of
 * the C library. */
static inline int64_t nearest(double value, int64_t low, int64_t high) {
  if (!(value > -9223372036854775808.0)) return low;
  if (value >= 9223372036854775808.0) return high;
  int64_t whole = (int64_t)value;
  double rest = value - (double)whole;
  whole += (rest >= 0.5) - (rest <= -0.5);
  return TSR_MIN(TSR_MAX(whole, low), high);
}

/* The same for integers of at most 32 bits, without a branch, so that compilers make vectors of it. */
static inline int32_t nearest32(double value, double low, double high) {
  value = value > low ? value : low; /* so is NaN */
  value = value < high ? value : high;
  const int32_t whole = (int32_t)value;
  const double rest = value - (double)whole;
  return whole + (rest >= 0.5) - (rest <= -0.5);
}

#define DEFINE_SCALE(type, bits, nearest_of)                                                                           \
  static void decode_##type##bits(const tsr_filter *filter, const uint8_t *in, uint64_t count, uint8_t *out) {         \
    const double scale = filter->scale, offset = filter->offset;                                                       \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      int##bits##_t stored;                                                                                            \
      memcpy(&stored, in + i * sizeof stored, sizeof stored);                                                          \
      type value = (type)stored;                                                                                       \
      value = (type)(scale * (double)value + offset);                                                                  \
      memcpy(out + i * sizeof value, &value, sizeof value);                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  static void encode_##type##bits(const tsr_filter *filter, const uint8_t *in, uint64_t count, uint8_t *out) {         \
    const type scale = (type)filter->scale, offset = (type)filter->offset;                                             \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type value;                                                                                                      \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      int##bits##_t stored =                                                                                           \
          (int##bits##_t)nearest_of((double)((value - offset) / scale), INT##bits##_MIN, INT##bits##_MAX);             \
      memcpy(out + i * sizeof stored, &stored, sizeof stored);                                                         \
    }                                                                                                                  \
  }
DEFINE_SCALE(float, 8, nearest32)
DEFINE_SCALE(float, 16, nearest32)
DEFINE_SCALE(float, 32, nearest32)
DEFINE_SCALE(float, 64, nearest)
DEFINE_SCALE(double, 8, nearest32)
DEFINE_SCALE(double, 16, nearest32)
DEFINE_SCALE(double, 32, nearest32)
DEFINE_SCALE(double, 64, nearest)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

typedef void (*scale_convert)(const tsr_filter *filter, const uint8_t *in, uint64_t count, uint8_t *out);
/* Indexed by the width of the float (4, 8 bytes) and of the integer (1, 2, 4, 8 bytes). */
static const scale_convert decoders[2][4] = {{decode_float8, decode_float16, decode_float32, decode_float64},
                                             {decode_double8, decode_double16, decode_double32, decode_double64}};
static const scale_convert encoders[2][4] = {{encode_float8, encode_float16, encode_float32, encode_float64},
                                             {encode_double8, encode_double16, encode_double32, encode_double64}};

/* Sets the widths of float and integer, and chooses the conversion from a table. */
static int scale_choose(const tsr_filter_context *context, const scale_convert table[2][4], int rc, uint64_t *wide,
                        uint64_t *narrow, scale_convert *chosen, tsr_error *error) {
  *wide = tsr_datatype_size(context->datatype);
  *narrow = context->filter->byte_width;
  int integer = *narrow == 1 ? 0 : *narrow == 2 ? 1 : *narrow == 4 ? 2 : *narrow == 8 ? 3 : -1;
  if ((*wide != 4 && *wide != 8) || integer < 0)
    return tsr__fail(error, rc, "%s cannot be scaled to integers of %llu bytes", tsr_datatype_name(context->datatype),
                     (unsigned long long)*narrow);
  *chosen = table[*wide == 8][integer];
  return TSR_OK;
}

static int scale_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                        tsr_part *data_out, tsr_error *error) {
  uint64_t wide = 1, narrow = 1, size = tsr__input_left(&data);
  scale_convert convert_part = NULL;
  const uint8_t *sizes = NULL;
  uint32_t count = 0;
  uint8_t *out;
  TSR_TRY(scale_choose(context, decoders, TSR_CORRUPT, &wide, &narrow, &convert_part, error));
  TSR_TRY(tsr__parts_read(metadata, size, &sizes, &count, error));
  uint64_t left = tsr__mul_sat(size / narrow, wide);
  TSR_TRY(tsr__filter_room(context, left, &out, error));
  *data_out = (tsr_part){out, left};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t part = tsr__load32(sizes + 4 * (uint64_t)i);
    if (part % narrow != 0)
      return tsr__fail(error, TSR_CORRUPT, "part %u of %u: %u bytes are not whole integers of %llu bytes", i, count,
                       part, (unsigned long long)narrow);
    left -= part / narrow * wide;
    convert_part(context->filter, tsr__input_take(&data, part), part / narrow, out + left);
  }
  return TSR_OK;
}

/* Encodes all parts as one. */
static int scale_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  uint64_t wide = 1, narrow = 1, size = 0;
  scale_convert convert_part = NULL;
  tsr_chunk made = {0};
  TSR_TRY(scale_choose(context, encoders, TSR_CONSTRAINT, &wide, &narrow, &convert_part, error));
  TSR_TRY(tsr__parts_size(in, &size, error));
  for (uint32_t i = 0; i < in->data_count; i++)
    if (in->data[i].size % wide != 0)
      return tsr__fail(error, TSR_CONSTRAINT, "%llu bytes are not whole values of %llu bytes",
                       (unsigned long long)in->data[i].size, (unsigned long long)wide);
  size = size / wide * narrow;
  if (size > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes of integers: the format allows 4,294,967,295 in a chunk",
                     (unsigned long long)size);
  TSR_TRY(tsr__filter_prepend(context, in, 8, &made, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  tsr__store32(made.metadata->data, 1);
  tsr__store32(made.metadata->data + 4, (uint32_t)size);
  uint8_t *to = made.data->data;
  for (uint32_t i = 0; i < in->data_count; i++) {
    uint64_t values = in->data[i].size / wide;
    convert_part(context->filter, in->data[i].data, values, to);
    to += values * narrow;
  }
  *out = made;
  return TSR_OK;
}

/* Returns true if the scaled value is in the range of the filter's integers. NaN never is. */
bool tsr__scale_fits(const tsr_filter *filter, uint64_t size, const void *value) {
  const double half = ldexp(1, (int)(8 * filter->byte_width - 1));
  double scaled;
  if (size == 4) {
    float f;
    memcpy(&f, value, sizeof f);
    scaled = (double)((f - (float)filter->offset) / (float)filter->scale);
  } else {
    memcpy(&scaled, value, sizeof scaled);
    scaled = (scaled - filter->offset) / filter->scale;
  }
  scaled = round(scaled);
  return scaled >= -half && scaled < half;
}

const tsr_filter_methods tsr__filter_scale_float = {
    .type = TSR_FILTER_SCALE_FLOAT, .name = "scale_float", .decode = scale_decode, .encode = scale_encode};
