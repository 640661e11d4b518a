/* delta.c: the filters delta, double delta and positive delta, which store the differences between successive integers.
 *
 * Arithmetic wraps around in the width of the values, so signed and unsigned values are decoded the same way. Strings
 * and bytes are treated as single bytes, datetimes and times as 64-bit integers. Delta and double delta have an option
 * "reinterpret" with another datatype, and reject floats.
 *
 * Delta (in the layout of compressors.h): u64 n, then n values: the first value, then the difference of each value from
 * its predecessor. TileDB 2.16 appended one more value, which has no meaning.
 *
 * Double delta (in the layout of compressors.h, all format versions): u8 b, u64 n, then
 *   b >= bits of a value - 1   the bytes unchanged, even if they are not whole values (n is then rounded down)
 *   any other b                the first two values, or the only one; then for each further value its difference minus
 *                              the previous difference, as a sign bit (1 = negative) and b bits of magnitude. They fill
 *                              u64 words from the highest bit down; the last word is padded with zeros.
 * b is also large enough for the first difference, and is 0 only if n <= 2.
 *
 * Positive delta (data and metadata are separate): Metadata: u32 number of windows, then for each window its first
 * value and its u32 size in bytes. Data: for each value of a window the difference from its predecessor, 0 for the
 * first. A window whose size is not a multiple of the value's is stored unchanged, and its first value has no meaning.
 * Data of CHAR, strings except GEOM_WKT, ANY and floats passes through unchanged without metadata, and so do datetimes
 * and times before version 20.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "filter/compressors.h"
#include "filter/pipeline.h"
#include "filter/filter_version.h"

/* sums*: computes the prefix sums of `count` differences, starting from `from`. steps*: the inverse. */
#define DEFINE_STEPS(bits)                                                                                             \
  static void sums##bits(const uint8_t *in, uint64_t count, uint64_t from, uint8_t *out) {                             \
    uint##bits##_t value = (uint##bits##_t)from, step;                                                                 \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&step, in + i * sizeof step, sizeof step);                                                                \
      value = (uint##bits##_t)(value + step);                                                                          \
      memcpy(out + i * sizeof value, &value, sizeof value);                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  static void steps##bits(const uint8_t *in, uint64_t count, uint64_t from, uint8_t *out) {                            \
    uint##bits##_t last = (uint##bits##_t)from, value, step;                                                           \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      step = (uint##bits##_t)(value - last);                                                                           \
      memcpy(out + i * sizeof step, &step, sizeof step);                                                               \
      last = value;                                                                                                    \
    }                                                                                                                  \
  }
DEFINE_STEPS(8)
DEFINE_STEPS(16)
DEFINE_STEPS(32)
DEFINE_STEPS(64)

static void sums(unsigned width, const uint8_t *in, uint64_t count, uint64_t from, uint8_t *out) {
  switch (width) {
  case 1: sums8(in, count, from, out); break;
  case 2: sums16(in, count, from, out); break;
  case 4: sums32(in, count, from, out); break;
  default: sums64(in, count, from, out);
  }
}

static void steps(unsigned width, const uint8_t *in, uint64_t count, uint64_t from, uint8_t *out) {
  switch (width) {
  case 1: steps8(in, count, from, out); break;
  case 2: steps16(in, count, from, out); break;
  case 4: steps32(in, count, from, out); break;
  default: steps64(in, count, from, out);
  }
}

static uint64_t delta_load(unsigned width, const uint8_t *p) {
  uint64_t value = 0;
  memcpy(&value, p, width);
  return value;
}

/* ---- Delta ----------------------------------------------------------------------------------- */

/* Sets *width to the size in bytes of a value as delta and double delta see it, and *has_sign if it is signed. */
static int value_width(const tsr_filter_context *context, int rc, unsigned *width, bool *has_sign, tsr_error *error) {
  tsr_datatype datatype = tsr__filter_gives(context->filter, context->datatype);
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (kind == TSR_KIND_FLOAT) return tsr__fail(error, rc, "%s values have no deltas", tsr_datatype_name(datatype));
  *width = kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES ? 1 : (unsigned)tsr_datatype_size(datatype);
  *has_sign = kind == TSR_KIND_SIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME || datatype == TSR_CHAR;
  return TSR_OK;
}

static int decompress_delta(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                            uint64_t out_size, tsr_error *error) {
  unsigned width = 1;
  bool has_sign = false;
  TSR_TRY(value_width(context, TSR_CORRUPT, &width, &has_sign, error));
  tsr_input input = tsr__input(in, size);
  uint64_t count = tsr__input_u64(&input), left = tsr__input_left(&input);
  if (input.failed || count != out_size / width || out_size % width != 0 ||
      (left != out_size && left != tsr__add_sat(out_size, width)))
    return tsr__fail(error, TSR_CORRUPT, "%llu values of %u bytes in %llu bytes: expected %llu decoded bytes",
                     (unsigned long long)count, width, (unsigned long long)size, (unsigned long long)out_size);
  sums(width, in + input.at, count, 0, out);
  return TSR_OK;
}

static uint64_t bound_delta(const tsr_filter_context *context, uint64_t size) { return tsr__add_sat(size, 8); }

static int compress_delta(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                          uint64_t *out_size, tsr_error *error) {
  unsigned width = 1;
  bool has_sign = false;
  TSR_TRY(value_width(context, TSR_CONSTRAINT, &width, &has_sign, error));
  if (size % width != 0)
    return tsr__fail(error, TSR_CONSTRAINT, "%llu bytes are not whole values of %u bytes", (unsigned long long)size,
                     width);
  tsr__store64(out, size / width);
  steps(width, in, size / width, 0, out + 8);
  *out_size = size + 8;
  return TSR_OK;
}

static const tsr_codec codec_delta = {.bound = bound_delta, .compress = compress_delta, .decompress = decompress_delta};

/* ---- Double delta ---------------------------------------------------------------------------- */

#define DOUBLE_DELTA_HEADER 9u

/* unpack*: decodes values 2 to count - 1 from `words`, which has the necessary (count - 2) * (magnitude + 1) bits. */
#define DEFINE_UNPACK(bits)                                                                                            \
  static void unpack##bits(const uint8_t *words, uint64_t count, unsigned magnitude, uint8_t *out) {                   \
    uint##bits##_t before, value;                                                                                      \
    memcpy(&before, out, sizeof before);                                                                               \
    memcpy(&value, out + sizeof value, sizeof value);                                                                  \
    uint64_t sum = value, step = sum - before, here = tsr__load64(words), mask = ((uint64_t)1 << magnitude) - 1;       \
    const unsigned field = magnitude + 1; /* at most 63 */                                                             \
    unsigned left = 64; /* bits of `here` that are not used yet, from the highest bit down */                          \
    for (uint64_t i = 2; i < count; i++) {                                                                             \
      uint64_t found = here;                                                                                           \
      if (left >= field) {                                                                                             \
        here <<= field;                                                                                                \
        left -= field;                                                                                                 \
      } else {                                                                                                         \
        const uint64_t next = tsr__load64(words += 8);                                                                 \
        found |= next >> left;                                                                                         \
        left += 64 - field;                                                                                            \
        here = next << (64 - left);                                                                                    \
      }                                                                                                                \
      found >>= 64 - field;                                                                                            \
      const uint64_t negative = 0 - (found >> magnitude);                                                              \
      step += ((found & mask) ^ negative) - negative;                                                                  \
      sum += step;                                                                                                     \
      value = (uint##bits##_t)sum;                                                                                     \
      memcpy(out + i * sizeof value, &value, sizeof value);                                                            \
    }                                                                                                                  \
  }
DEFINE_UNPACK(8)
DEFINE_UNPACK(16)
DEFINE_UNPACK(32)
DEFINE_UNPACK(64)

static uint64_t packed_size(uint64_t count, unsigned width, unsigned magnitude) {
  return count <= 2 ? count * width : 2 * width + ((count - 2) * (magnitude + 1) + 63) / 64 * 8;
}

static int decompress_double_delta(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                                   uint64_t out_size, tsr_error *error) {
  unsigned width = 1;
  bool has_sign = false;
  TSR_TRY(value_width(context, TSR_CORRUPT, &width, &has_sign, error));
  tsr_input input = tsr__input(in, size);
  unsigned magnitude = tsr__input_u8(&input);
  uint64_t count = tsr__input_u64(&input), left = tsr__input_left(&input);
  bool plain = magnitude >= 8 * width - 1;
  /* A count that agrees with out_size is at most 2^32, so the sizes cannot overflow. */
  if (input.failed || count != out_size / width || (!plain && out_size % width != 0) ||
      left != (plain ? out_size : packed_size(count, width, magnitude)))
    return tsr__fail(
        error, TSR_CORRUPT, "%llu values of %u bytes, %u bits each, in %llu bytes: expected %llu decoded bytes",
        (unsigned long long)count, width, magnitude, (unsigned long long)size, (unsigned long long)out_size);
  in += DOUBLE_DELTA_HEADER;
  memcpy(out, in, plain ? out_size : TSR_MIN(count, 2) * width);
  if (plain || count <= 2) return TSR_OK;
  in += 2 * width;
  switch (width) {
  case 1: unpack8(in, count, magnitude, out); break;
  case 2: unpack16(in, count, magnitude, out); break;
  case 4: unpack32(in, count, magnitude, out); break;
  default: unpack64(in, count, magnitude, out);
  }
  return TSR_OK;
}

/* Writes bits into u64 words from the highest bit down. */
typedef struct packer {
  uint8_t *to;
  uint64_t word;
  unsigned room; /* free bits of `word`: 1 to 64 */
} packer;

static inline void delta_pack(packer *p, uint64_t value, unsigned bits) {
  if (bits < p->room) {
    p->room -= bits;
    p->word |= value << p->room;
    return;
  }
  unsigned rest = bits - p->room; /* at most 62, as a field has at most 63 bits */
  tsr__store64(p->to, p->word | value >> rest);
  p->to += 8;
  p->room = 64 - rest;
  p->word = rest == 0 ? 0 : value << p->room;
}

static void pack_end(packer *p) {
  if (p->room == 64) return;
  tsr__store64(p->to, p->word);
  p->to += 8;
}

static uint64_t size_of(int64_t value) { return value < 0 ? 0 - (uint64_t)value : (uint64_t)value; }

/* measure_*: returns the number of bits of the largest magnitude, or 64 if a difference, or a difference of
 * differences, overflows 64 bits. Those of narrow values never do, so that compilers turn the loop into vectors. */
#define DEFINE_MEASURE(name, type, wide)                                                                               \
  static unsigned measure_##name(const uint8_t *in, uint64_t count) {                                                  \
    type a, b, c;                                                                                                      \
    u##wide all = 1;                                                                                                   \
    memcpy(&a, in, sizeof a);                                                                                          \
    memcpy(&b, in + sizeof b, sizeof b);                                                                               \
    all |= (u##wide)size_of((wide)b - (wide)a);                                                                        \
    for (uint64_t i = 2; i < count; i++) {                                                                             \
      memcpy(&a, in + (i - 2) * sizeof a, sizeof a);                                                                   \
      memcpy(&b, in + (i - 1) * sizeof b, sizeof b);                                                                   \
      memcpy(&c, in + i * sizeof c, sizeof c);                                                                         \
      const wide change = (wide)c - (wide)b - ((wide)b - (wide)a);                                                     \
      all |= (u##wide)(change < 0 ? -change : change);                                                                 \
    }                                                                                                                  \
    return 64 - (unsigned)__builtin_clzll(all);                                                                        \
  }
DEFINE_MEASURE(i8, int8_t, int32_t)
DEFINE_MEASURE(i16, int16_t, int32_t)
DEFINE_MEASURE(i32, int32_t, int64_t)
DEFINE_MEASURE(u8, uint8_t, int32_t)
DEFINE_MEASURE(u16, uint16_t, int32_t)
DEFINE_MEASURE(u32, uint32_t, int64_t)

#define DEFINE_MEASURE_WIDE(name, type)                                                                                \
  static unsigned measure_##name(const uint8_t *in, uint64_t count) {                                                  \
    type before, value;                                                                                                \
    int64_t last = 0, step, change;                                                                                    \
    uint64_t all = 1;                                                                                                  \
    memcpy(&before, in, sizeof before);                                                                                \
    for (uint64_t i = 1; i < count; i++, before = value, last = step) {                                                \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      if (__builtin_sub_overflow(value, before, &step) || __builtin_sub_overflow(step, last, &change)) return 64;      \
      all |= size_of(change);                                                                                          \
    }                                                                                                                  \
    return 64 - (unsigned)__builtin_clzll(all);                                                                        \
  }
DEFINE_MEASURE_WIDE(i64, int64_t)
DEFINE_MEASURE_WIDE(u64, uint64_t)

#define DEFINE_PACK(name, type)                                                                                        \
  static void pack_##name(const uint8_t *in, uint64_t count, unsigned magnitude, packer *to) {                         \
    packer p = *to; /* in registers */                                                                                 \
    type before, value;                                                                                                \
    memcpy(&before, in, sizeof before);                                                                                \
    memcpy(&value, in + sizeof value, sizeof value);                                                                   \
    uint64_t last = (uint64_t)value - (uint64_t)before;                                                                \
    for (uint64_t i = 2; i < count; i++) {                                                                             \
      before = value;                                                                                                  \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      const uint64_t step = (uint64_t)value - (uint64_t)before, change = step - last, negative = 0 - (change >> 63);   \
      delta_pack(&p, (negative & 1) << magnitude | ((change ^ negative) - negative), magnitude + 1);                   \
      last = step;                                                                                                     \
    }                                                                                                                  \
    *to = p;                                                                                                           \
  }
DEFINE_PACK(i8, int8_t)
DEFINE_PACK(i16, int16_t)
DEFINE_PACK(i32, int32_t)
DEFINE_PACK(i64, int64_t)
DEFINE_PACK(u8, uint8_t)
DEFINE_PACK(u16, uint16_t)
DEFINE_PACK(u32, uint32_t)
DEFINE_PACK(u64, uint64_t)

typedef struct packing {
  unsigned (*measure)(const uint8_t *in, uint64_t count);
  void (*pack)(const uint8_t *in, uint64_t count, unsigned magnitude, packer *p);
} packing;

static packing packing_of(unsigned width, bool has_sign) {
  static const packing table[2][4] = {
      {{measure_u8, pack_u8}, {measure_u16, pack_u16}, {measure_u32, pack_u32}, {measure_u64, pack_u64}},
      {{measure_i8, pack_i8}, {measure_i16, pack_i16}, {measure_i32, pack_i32}, {measure_i64, pack_i64}}};
  return table[has_sign][__builtin_ctz(width)];
}

/* Packed bits take no more room than the values, except for the padding of the last word. */
static uint64_t bound_double_delta(const tsr_filter_context *context, uint64_t size) {
  return tsr__add_sat(size, DOUBLE_DELTA_HEADER + 8);
}

static int compress_double_delta(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                                 uint64_t *out_size, tsr_error *error) {
  unsigned width = 1;
  bool has_sign = false;
  TSR_TRY(value_width(context, TSR_CONSTRAINT, &width, &has_sign, error));
  uint64_t count = size / width;
  packing how = packing_of(width, has_sign);
  unsigned magnitude = count <= 2 ? 0 : how.measure(in, count), most = 8 * width - 1;
  if (size % width != 0 || count == 0) magnitude = most; /* TileDB never writes such parts, but can read them */
  bool plain = magnitude >= most;
  out[0] = (uint8_t)magnitude;
  tsr__store64(out + 1, count);
  out += DOUBLE_DELTA_HEADER;
  *out_size = DOUBLE_DELTA_HEADER + (plain ? size : packed_size(count, width, magnitude));
  if (size > 0) memcpy(out, in, plain ? size : TSR_MIN(count, 2) * width);
  if (plain || count <= 2) return TSR_OK;
  packer p = {out + 2 * width, 0, 64};
  how.pack(in, count, magnitude, &p);
  pack_end(&p);
  return TSR_OK;
}

static const tsr_codec codec_double_delta = {
    .bound = bound_double_delta, .compress = compress_double_delta, .decompress = decompress_double_delta};

/* ---- Delta and double delta as filters ------------------------------------------------------- */

static uint32_t drop_empty(tsr_part *to, const tsr_part *parts, uint32_t count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (parts[i].size > 0) to[kept++] = parts[i];
  return kept;
}

/* Encodes without the empty parts: TileDB writes them, but then rejects the chunk when reading. */
static int encode_compressed(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  tsr_part *parts;
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, (uint64_t)in->metadata_count + in->data_count, &parts, error));
  tsr_chunk full = {.metadata = parts};
  full.metadata_count = drop_empty(full.metadata, in->metadata, in->metadata_count);
  full.data = full.metadata + full.metadata_count;
  full.data_count = drop_empty(full.data, in->data, in->data_count);
  return tsr__compress_encode(context, &full, out, error);
}

/* ---- Positive delta -------------------------------------------------------------------------- */

/* Returns the size of a value in bytes, or 0 if the filter passes the data through unchanged. */
static unsigned positive_width(const tsr_filter_context *context) {
  switch (tsr_datatype_kind(context->datatype)) {
  case TSR_KIND_SIGNED:
  case TSR_KIND_UNSIGNED:
  case TSR_KIND_BOOLEAN: return (unsigned)tsr_datatype_size(context->datatype);
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: return tsr__filter_version_packs_times(context->shape->version) ? 8 : 0;
  default:
    return context->datatype == TSR_BLOB || context->datatype == TSR_GEOM_WKB || context->datatype == TSR_GEOM_WKT;
  }
}

static int decode_positive_delta(const tsr_filter_context *context, tsr_input *metadata, tsr_input data,
                                 tsr_part *metadata_out, tsr_part *data_out, tsr_error *error) {
  unsigned width = positive_width(context);
  uint64_t size = tsr__input_left(&data);
  *data_out = (tsr_part){(uint8_t *)data.data, size};
  if (width == 0) return TSR_OK;
  uint32_t windows = tsr__input_u32(metadata);
  uint8_t *out;
  TSR_TRY(tsr__filter_room(context, size, &out, error));
  data_out->data = out;
  for (uint32_t i = 0; i < windows; i++) {
    const uint8_t *first = tsr__input_take(metadata, width);
    uint32_t bytes = tsr__input_u32(metadata);
    if (metadata->failed) return tsr__fail(error, TSR_CORRUPT, "window %u of %u is not in the metadata", i, windows);
    const uint8_t *from = tsr__input_take(&data, bytes);
    if (!from)
      return tsr__fail(error, TSR_CORRUPT, "window %u of %u has %u bytes: %llu are left", i, windows, bytes,
                       (unsigned long long)tsr__input_left(&data));
    if (bytes % width == 0) sums(width, from, bytes / width, delta_load(width, first), out);
    else memcpy(out, from, bytes);
    out += bytes;
  }
  if (tsr__input_left(&data) > 0)
    return tsr__fail(error, TSR_CORRUPT, "%llu of %llu bytes are in none of %u windows",
                     (unsigned long long)tsr__input_left(&data), (unsigned long long)size, windows);
  return TSR_OK;
}

/* A negative difference is stored wrapped around, and every reader decodes it; TileDB's writer rejects such values. */
static int encode_positive_delta(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out,
                                 tsr_error *error) {
  unsigned width = positive_width(context);
  if (width == 0) {
    *out = *in;
    return TSR_OK;
  }
  uint64_t size = 0, windows = 0, window = TSR_MAX(context->filter->window / width * width, width);
  tsr_chunk made = {0};
  TSR_TRY(tsr__parts_size(in, &size, error));
  for (uint32_t i = 0; i < in->data_count; i++) windows += (in->data[i].size + window - 1) / window;
  TSR_TRY(tsr__filter_prepend(context, in, 4 + windows * (width + 4), &made, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  uint8_t *record = made.metadata->data, *to = made.data->data;
  tsr__store32(record, (uint32_t)windows);
  record += 4;
  for (uint32_t i = 0; i < in->data_count; i++)
    for (uint64_t at = 0; at < in->data[i].size; at += window) {
      const uint8_t *from = in->data[i].data + at;
      uint64_t bytes = TSR_MIN(window, in->data[i].size - at),
               first = delta_load((unsigned)TSR_MIN(width, bytes), from);
      memcpy(record, &first, width);
      tsr__store32(record + width, (uint32_t)bytes);
      if (bytes % width == 0) steps(width, from, bytes / width, first, to);
      else memcpy(to, from, bytes);
      record += width + 4;
      to += bytes;
    }
  *out = made;
  return TSR_OK;
}

const tsr_filter_methods tsr__filter_delta = {.type = TSR_FILTER_DELTA,
                                              .name = "delta",
                                              .decode = tsr__compress_decode,
                                              .encode = encode_compressed,
                                              .codec = &codec_delta};
const tsr_filter_methods tsr__filter_double_delta = {.type = TSR_FILTER_DOUBLE_DELTA,
                                                     .name = "double_delta",
                                                     .decode = tsr__compress_decode,
                                                     .encode = encode_compressed,
                                                     .codec = &codec_double_delta};
const tsr_filter_methods tsr__filter_positive_delta = {.type = TSR_FILTER_POSITIVE_DELTA,
                                                       .name = "positive_delta",
                                                       .decode = decode_positive_delta,
                                                       .encode = encode_positive_delta};
