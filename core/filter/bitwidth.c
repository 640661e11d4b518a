/* bitwidth.c: bit width reduction. The data is divided into windows; each value is stored as its difference from the
 * least value of its window, in as many bytes as the largest difference needs.
 *
 * The filter works on integers of 2, 4 and 8 bytes, and from version 20 on also on datetimes and times. Data and
 * metadata of all other types pass through unchanged. Metadata: u32 size of the input in bytes, u32 number of windows,
 * then for each window: the offset (a value of the datatype), u8 bits, u32 original size in bytes. Data of a window: if
 * `bits` is at least the width of the datatype, or the window's size is not a multiple of the value's, the window's
 * bytes unchanged, with the offset unused. Otherwise value - offset in 8, 16 or 32 bits, signed if the datatype is
 * signed. Sums wrap around in the width of the datatype.
 *
 * When encoding, the window size is the filter's option, rounded down to whole values. As in TileDB, one more than the
 * largest difference must fit as well: signed differences stay below 127, 32767 and so on, unsigned ones below 255,
 * 65535 and so on.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "filter/pipeline.h"
#include "filter/filter_version.h"

/* Returns the size of a value in bytes, or 0 if the filter passes the data through unchanged. */
static unsigned reduced_width(const tsr_filter_context *context, bool *has_sign) {
  tsr_kind kind = tsr_datatype_kind(context->datatype);
  unsigned width = (unsigned)tsr_datatype_size(context->datatype);
  *has_sign = kind != TSR_KIND_UNSIGNED;
  switch (kind) {
  case TSR_KIND_SIGNED:
  case TSR_KIND_UNSIGNED: return width == 1 ? 0 : width;
  case TSR_KIND_DATETIME:
  case TSR_KIND_TIME: return tsr__filter_version_packs_times(context->shape->version) ? 8 : 0;
  default: return 0;
  }
}

/* ---- One window ------------------------------------------------------------------------------ */

/* widen_*: adds the offset to `count` narrow integers and stores the wide sums. narrow_*: the inverse. */
#define DEFINE_WIDEN(wide, type, name)                                                                                 \
  static void widen_##name(const uint8_t *in, uint64_t count, uint64_t offset, uint8_t *out) {                         \
    type small;                                                                                                        \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&small, in + i * sizeof small, sizeof small);                                                             \
      wide value = (wide)((wide)small + offset);                                                                       \
      memcpy(out + i * sizeof value, &value, sizeof value);                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  static void narrow_##name(const uint8_t *in, uint64_t count, uint64_t offset, uint8_t *out) {                        \
    wide value;                                                                                                        \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      type small = (type)(value - offset);                                                                             \
      memcpy(out + i * sizeof small, &small, sizeof small);                                                            \
    }                                                                                                                  \
  }
DEFINE_WIDEN(uint16_t, uint8_t, 16_u8)
DEFINE_WIDEN(uint32_t, uint8_t, 32_u8)
DEFINE_WIDEN(uint64_t, uint8_t, 64_u8)
DEFINE_WIDEN(uint16_t, int8_t, 16_i8)
DEFINE_WIDEN(uint32_t, int8_t, 32_i8)
DEFINE_WIDEN(uint64_t, int8_t, 64_i8)
DEFINE_WIDEN(uint32_t, uint16_t, 32_u16)
DEFINE_WIDEN(uint64_t, uint16_t, 64_u16)
DEFINE_WIDEN(uint32_t, int16_t, 32_i16)
DEFINE_WIDEN(uint64_t, int16_t, 64_i16)
DEFINE_WIDEN(uint64_t, uint32_t, 64_u32)
DEFINE_WIDEN(uint64_t, int32_t, 64_i32)

typedef void (*bitwidth_convert)(const uint8_t *in, uint64_t count, uint64_t offset, uint8_t *out);
/* indexed by signedness, by the value's size (2, 4, 8 bytes) and by the stored size (1, 2, 4 bytes) */
static const bitwidth_convert wideners[2][3][3] = {
    {{widen_16_u8}, {widen_32_u8, widen_32_u16}, {widen_64_u8, widen_64_u16, widen_64_u32}},
    {{widen_16_i8}, {widen_32_i8, widen_32_i16}, {widen_64_i8, widen_64_i16, widen_64_i32}}};
static const bitwidth_convert narrowers[2][3][3] = {
    {{narrow_16_u8}, {narrow_32_u8, narrow_32_u16}, {narrow_64_u8, narrow_64_u16, narrow_64_u32}},
    {{narrow_16_i8}, {narrow_32_i8, narrow_32_i16}, {narrow_64_i8, narrow_64_i16, narrow_64_i32}}};

static bitwidth_convert bitwidth_choose(const bitwidth_convert table[2][3][3], bool has_sign, unsigned width,
                                        unsigned bits) {
  return table[has_sign][__builtin_ctz(width) - 1][__builtin_ctz(bits / 8)];
}

/* range_*: finds the least value, and the difference between the greatest and the least. */
#define DEFINE_RANGE(type, name)                                                                                       \
  static void range_##name(const uint8_t *in, uint64_t count, uint64_t *least, uint64_t *range) {                      \
    type low, high, value;                                                                                             \
    memcpy(&low, in, sizeof low);                                                                                      \
    high = low;                                                                                                        \
    for (uint64_t i = 1; i < count; i++) {                                                                             \
      memcpy(&value, in + i * sizeof value, sizeof value);                                                             \
      low = TSR_MIN(low, value);                                                                                       \
      high = TSR_MAX(high, value);                                                                                     \
    }                                                                                                                  \
    *least = (uint64_t)low;                                                                                            \
    *range = (uint64_t)high - (uint64_t)low;                                                                           \
  }
DEFINE_RANGE(uint16_t, u16)
DEFINE_RANGE(uint32_t, u32)
DEFINE_RANGE(uint64_t, u64)
DEFINE_RANGE(int16_t, i16)
DEFINE_RANGE(int32_t, i32)
DEFINE_RANGE(int64_t, i64)

static unsigned bitwidth_measure(unsigned width, bool has_sign, const uint8_t *in, uint64_t count, uint64_t *least) {
  static void (*const ranges[2][3])(const uint8_t *, uint64_t, uint64_t *, uint64_t *) = {
      {range_u16, range_u32, range_u64}, {range_i16, range_i32, range_i64}};
  uint64_t range;
  ranges[has_sign][__builtin_ctz(width) - 1](in, count, least, &range);
  unsigned bits = 8;
  while (bits < 8 * width && range >= ((uint64_t)1 << (bits - has_sign)) - 1) bits *= 2;
  return bits;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

typedef struct bitwidth_window {
  uint64_t offset;
  unsigned bits;
  uint32_t bytes; /* original size */
} bitwidth_window;

static bitwidth_window read_window(tsr_input *metadata, unsigned width) {
  bitwidth_window w = {0};
  const uint8_t *offset = tsr__input_take(metadata, width);
  if (offset) memcpy(&w.offset, offset, width);
  w.bits = tsr__input_u8(metadata);
  w.bytes = tsr__input_u32(metadata);
  return w;
}

static int decode_window(const bitwidth_window *w, unsigned width, bool has_sign, tsr_input *data, uint8_t *out,
                         uint64_t room, tsr_error *error) {
  bool plain = w->bits >= 8 * width || w->bytes % width != 0;
  if (!plain && w->bits != 8 && w->bits != 16 && w->bits != 32)
    return tsr__fail(error, TSR_CORRUPT, "%u bits for a value", w->bits);
  if (w->bytes > room)
    return tsr__fail(error, TSR_CORRUPT, "%u bytes where %llu are left of the input", w->bytes,
                     (unsigned long long)room);
  uint64_t count = w->bytes / width, stored = plain ? w->bytes : count * (w->bits / 8);
  const uint8_t *from = tsr__input_take(data, stored);
  if (!from)
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes of data are needed: %llu are left", (unsigned long long)stored,
                     (unsigned long long)tsr__input_left(data));
  if (plain) memcpy(out, from, w->bytes);
  else bitwidth_choose(wideners, has_sign, width, w->bits)(from, count, w->offset, out);
  return TSR_OK;
}

static int bitwidth_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data,
                           tsr_part *metadata_out, tsr_part *data_out, tsr_error *error) {
  bool has_sign;
  unsigned width = reduced_width(context, &has_sign);
  *data_out = (tsr_part){(uint8_t *)data.data, data.size};
  if (width == 0) return TSR_OK;
  uint32_t size = tsr__input_u32(metadata), windows = tsr__input_u32(metadata);
  if (metadata->failed || !tsr__input_fits(metadata, windows, width + 5))
    return tsr__fail(error, TSR_CORRUPT, "%u windows are listed in %llu bytes of metadata", windows,
                     (unsigned long long)metadata->size);
  uint8_t *out;
  TSR_TRY(tsr__filter_room(context, size, &out, error));
  *data_out = (tsr_part){out, size};
  uint64_t left = size;
  for (uint32_t i = 0; i < windows; i++) {
    bitwidth_window w = read_window(metadata, width);
    int rc = decode_window(&w, width, has_sign, &data, out + (size - left), left, error);
    if (rc < 0) return tsr__wrap(error, "window %u of %u", i, windows);
    left -= w.bytes;
  }
  if (left > 0 || tsr__input_left(&data) > 0)
    return tsr__fail(error, TSR_CORRUPT, "%u windows leave %llu of %u bytes unset and %llu bytes of data unread",
                     windows, (unsigned long long)left, size, (unsigned long long)tsr__input_left(&data));
  return TSR_OK;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/* Encodes one window. Writes its metadata to *record and its data to *to, and advances both. */
static void encode_window(unsigned width, bool has_sign, const uint8_t *in, uint64_t bytes, uint8_t **record,
                          uint8_t **to) {
  uint64_t least = 0, stored = bytes;
  unsigned bits = 8 * width;
  if (bytes % width == 0) bits = bitwidth_measure(width, has_sign, in, bytes / width, &least);
  if (bits == 8 * width) {
    memcpy(*to, in, bytes);
  } else {
    bitwidth_choose(narrowers, has_sign, width, bits)(in, bytes / width, least, *to);
    stored = bytes / width * (bits / 8);
  }
  memcpy(*record, &least, width);
  (*record)[width] = (uint8_t)bits;
  tsr__store32(*record + width + 1, (uint32_t)bytes);
  *record += width + 5;
  *to += stored;
}

static int bitwidth_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  bool has_sign;
  unsigned width = reduced_width(context, &has_sign);
  if (width == 0) {
    *out = *in;
    return TSR_OK;
  }
  uint64_t size = 0, windows = 0, step = TSR_MAX(context->filter->window / width * width, width);
  tsr_chunk made = {0};
  TSR_TRY(tsr__parts_size(in, &size, error));
  for (uint32_t i = 0; i < in->data_count; i++) windows += (in->data[i].size + step - 1) / step;
  TSR_TRY(tsr__filter_prepend(context, in, 8 + windows * (width + 5), &made, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  uint8_t *record = made.metadata->data, *to = made.data->data;
  tsr__store32(record, (uint32_t)size);
  tsr__store32(record + 4, (uint32_t)windows);
  record += 8;
  for (uint32_t i = 0; i < in->data_count; i++)
    for (uint64_t at = 0; at < in->data[i].size; at += step)
      encode_window(width, has_sign, in->data[i].data + at, TSR_MIN(step, in->data[i].size - at), &record, &to);
  made.data->size = (uint64_t)(to - made.data->data);
  *out = made;
  return TSR_OK;
}

const tsr_filter_methods tsr__filter_bit_width_reduction = {.type = TSR_FILTER_BIT_WIDTH_REDUCTION,
                                                            .name = "bit_width_reduction",
                                                            .decode = bitwidth_decode,
                                                            .encode = bitwidth_encode};
