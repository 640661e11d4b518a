/* rle.c: run-length encoding of cells and of strings. All integers in the data are big-endian.
 *
 * Cells (in the layout of compressors.h): for each run the bytes of the cell, then the u16 length of the run.
 * Strings including their offsets (variable-size ASCII since version 12, UTF8 since 17; the first filter of its
 * pipeline, and the tile is one chunk): The metadata is u32 0, u32 1, u32 size of the text in bytes, u32 size of the
 * data, u32 size of the offsets (8 per cell), u8 width of a run's length, u8 width of a string's size. The data is, for
 * each run, its length, the size of the string, and the string. Some older writers encoded UTF8 strings this way
 * although the offsets also had a tile of their own. The size of the metadata distinguishes that layout from the one
 * for cells.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/compressors.h"

#define RUN_MAX        65535u
#define STRINGS_HEADER 22u
/* Decoded bytes of cells, or of text and offsets, between two polls for cancellation. */
#define RLE_POLL_BYTES (UINT64_C(4) << 20)

/* ---- Cells ----------------------------------------------------------------------------------- */

/* fill*: writes `count` copies of the cell at `from`. */
#define DEFINE_FILL(bits)                                                                                              \
  static void fill##bits(uint8_t *to, const uint8_t *from, uint64_t count) {                                           \
    uint##bits##_t value;                                                                                              \
    memcpy(&value, from, sizeof value);                                                                                \
    for (uint64_t i = 0; i < count; i++) memcpy(to + i * sizeof value, &value, sizeof value);                          \
  }
DEFINE_FILL(16)
DEFINE_FILL(32)
DEFINE_FILL(64)

static void rle_fill(uint8_t *to, const uint8_t *from, uint64_t cell, uint64_t count) {
  switch (cell) {
  case 1: memset(to, *from, count); return;
  case 2: fill16(to, from, count); return;
  case 4: fill32(to, from, count); return;
  case 8: fill64(to, from, count); return;
  default:
    for (uint64_t i = 0; i < count; i++) memcpy(to + i * cell, from, cell);
  }
}

static int rle_decompress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                          uint64_t out_size, tsr_error *error) {
  uint64_t cell = context->shape->cell_size, at = 0, poll_at = RLE_POLL_BYTES;
  if (cell == 0 || cell > size || size % (cell + 2) != 0)
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes are not runs of cells of %llu bytes", (unsigned long long)size,
                     (unsigned long long)cell);
  for (uint64_t i = 0; i < size; i += cell + 2) {
    uint64_t count = tsr__load_be(in + i + cell, 2);
    if (count > (out_size - at) / cell)
      return tsr__fail(error, TSR_CORRUPT, "the run at byte %llu holds %llu cells of %llu bytes: %llu bytes are left",
                       (unsigned long long)i, (unsigned long long)count, (unsigned long long)cell,
                       (unsigned long long)(out_size - at));
    rle_fill(out + at, in + i, cell, count);
    at += count * cell;
    if (at < poll_at) continue;
    TSR_TRY(tsr__cancelled(context->arena->memory, error));
    poll_at = at + RLE_POLL_BYTES;
  }
  if (at != out_size)
    return tsr__fail(error, TSR_CORRUPT, "the runs decode to %llu bytes, expected %llu", (unsigned long long)at,
                     (unsigned long long)out_size);
  return TSR_OK;
}

static uint64_t rle_bound(const tsr_filter_context *context, uint64_t size) {
  uint64_t cell = context->shape->cell_size;
  return cell == 0 ? 0 : tsr__add_sat(size, tsr__mul_sat(size / cell, 2));
}

static int rle_compress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                        uint64_t *out_size, tsr_error *error) {
  uint64_t cell = context->shape->cell_size, at = 0;
  if (cell == 0 || size % cell != 0)
    return tsr__fail(error, TSR_CONSTRAINT, "%llu bytes are not whole cells of %llu bytes", (unsigned long long)size,
                     (unsigned long long)cell);
  for (uint64_t i = 0; i < size;) {
    uint64_t end = i + cell, run = 1;
    while (end < size && run < RUN_MAX && memcmp(in + end, in + i, cell) == 0) end += cell, run++;
    memcpy(out + at, in + i, cell);
    tsr__store_be(out + at + cell, 2, run);
    at += cell + 2;
    i = end;
  }
  *out_size = at;
  return TSR_OK;
}

static const tsr_codec rle_codec = {rle_bound, rle_compress, rle_decompress};

/* ---- Strings with their offsets -------------------------------------------------------------- */

static bool rle_is_width(uint8_t width) { return width == 1 || width == 2 || width == 4 || width == 8; }

static unsigned rle_width_of(uint64_t most) {
  return most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
}

/* The destination of decoded strings. */
typedef struct rle_sink {
  uint8_t *out;
  uint64_t size, at; /* bytes of text: in all, and so far */
  const tsr_strings *strings;
  uint64_t cell;
} rle_sink;

static int give_run(rle_sink *s, const uint8_t *text, uint64_t size, uint64_t run, tsr_error *error) {
  uint64_t bytes;
  if (!tsr__mul(size, run, &bytes) || bytes > s->size - s->at)
    return tsr__fail(error, TSR_CORRUPT, "a run of %llu strings of %llu bytes: %llu bytes of text are left",
                     (unsigned long long)run, (unsigned long long)size, (unsigned long long)(s->size - s->at));
  if (s->strings) {
    if (run > s->strings->cells - s->cell)
      return tsr__fail(error, TSR_CORRUPT, "a run of %llu strings at cell %llu of %llu", (unsigned long long)run,
                       (unsigned long long)s->cell, (unsigned long long)s->strings->cells);
    uint64_t *offsets = s->strings->offsets + s->cell;
    for (uint64_t i = 0; i < run; i++) offsets[i] = s->at + i * size;
    s->cell += run;
  }
  uint8_t *to = s->out + s->at;
  s->at += bytes;
  if (size > 0)
    for (uint64_t i = 0; i < run; i++) memcpy(to + i * size, text, size);
  return TSR_OK;
}

static int decode_strings(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *data_out,
                          tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), parts = tsr__input_u32(metadata);
  rle_sink s = {.size = tsr__input_u32(metadata), .strings = context->strings};
  uint32_t compressed = tsr__input_u32(metadata), offsets = tsr__input_u32(metadata);
  uint8_t run_width = tsr__input_u8(metadata), size_width = tsr__input_u8(metadata);
  TSR_TRY(tsr__input_check(metadata, "the metadata of strings", error));
  if (metadata_parts != 0 || parts != 1 || !rle_is_width(run_width) || !rle_is_width(size_width))
    return tsr__fail(error, TSR_CORRUPT, "strings in %u + %u parts with lengths of %u and %u bytes", metadata_parts,
                     parts, run_width, size_width);
  if (compressed != data.size || (s.strings && offsets != tsr__mul_sat(s.strings->cells, 8)))
    return tsr__fail(error, TSR_CORRUPT, "expected %u bytes of runs and %u of offsets, found %llu and %llu", compressed,
                     offsets, (unsigned long long)data.size,
                     (unsigned long long)(s.strings ? s.strings->cells * 8 : 0));
  TSR_TRY(tsr__filter_room(context, s.size, &s.out, error));
  uint64_t poll_at = RLE_POLL_BYTES;
  while (tsr__input_left(&data) > 0) {
    const uint8_t *lengths = tsr__input_take(&data, (uint64_t)run_width + size_width);
    TSR_TRY(tsr__input_check(&data, "a run of strings", error));
    uint64_t run = tsr__load_be(lengths, run_width), size = tsr__load_be(lengths + run_width, size_width);
    const uint8_t *text = tsr__input_take(&data, size);
    TSR_TRY(tsr__input_check(&data, "a run of strings", error));
    TSR_TRY(give_run(&s, text, size, run, error));
    if (s.at + 8 * s.cell < poll_at) continue;
    TSR_TRY(tsr__cancelled(context->arena->memory, error));
    poll_at = s.at + 8 * s.cell + RLE_POLL_BYTES;
  }
  if (s.at != s.size || (s.strings && s.cell != s.strings->cells))
    return tsr__fail(error, TSR_CORRUPT, "the runs give %llu bytes of text in %llu cells, not %llu bytes in %llu",
                     (unsigned long long)s.at, (unsigned long long)s.cell, (unsigned long long)s.size,
                     (unsigned long long)(s.strings ? s.strings->cells : s.cell));
  if (s.strings) s.strings->offsets[s.cell] = s.at;
  *data_out = (tsr_part){s.out, s.size};
  return TSR_OK;
}

/* Returns the length of the run of equal strings that begins at `cell`. */
static uint64_t rle_run_at(const tsr_strings *strings, const uint8_t *text, uint64_t cell) {
  const uint64_t *o = strings->offsets;
  uint64_t size = o[cell + 1] - o[cell], end = cell + 1;
  while (end < strings->cells && o[end + 1] - o[end] == size &&
         (size == 0 || memcmp(text + o[end], text + o[cell], size) == 0))
    end++;
  return end - cell;
}

static int encode_strings(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  const tsr_strings *strings = context->strings;
  const uint64_t *o = strings->offsets;
  const uint8_t *text = in->data->data;
  uint64_t longest_run = 0, longest = 0, bytes = 0, runs = 0;
  for (uint64_t i = 0, run; i < strings->cells; i += run, runs++) {
    run = rle_run_at(strings, text, i);
    longest_run = TSR_MAX(longest_run, run);
    longest = TSR_MAX(longest, o[i + 1] - o[i]);
    bytes += o[i + 1] - o[i];
  }
  unsigned run_width = rle_width_of(longest_run), size_width = rle_width_of(longest);
  bytes += runs * (run_width + size_width);
  if (bytes > UINT32_MAX || in->data->size > UINT32_MAX || strings->cells > UINT32_MAX / 8)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes of text in %llu cells: too much for one tile of strings in runs",
                     (unsigned long long)in->data->size, (unsigned long long)strings->cells);
  tsr_chunk made = {0};
  TSR_TRY(tsr__filter_part(context, STRINGS_HEADER, &made.metadata, &made.metadata_count, error));
  TSR_TRY(tsr__filter_part(context, bytes, &made.data, &made.data_count, error));
  uint8_t *m = made.metadata->data, *to = made.data->data;
  tsr__store32(m, 0);
  tsr__store32(m + 4, 1);
  tsr__store32(m + 8, (uint32_t)in->data->size);
  tsr__store32(m + 12, (uint32_t)bytes);
  tsr__store32(m + 16, (uint32_t)(strings->cells * 8));
  m[20] = (uint8_t)run_width;
  m[21] = (uint8_t)size_width;
  for (uint64_t i = 0, run; i < strings->cells; i += run) {
    uint64_t size = o[i + 1] - o[i];
    run = rle_run_at(strings, text, i);
    tsr__store_be(to, run_width, run);
    tsr__store_be(to + run_width, size_width, size);
    to += run_width + size_width;
    if (size > 0) memcpy(to, text + o[i], size);
    to += size;
  }
  *out = made;
  return TSR_OK;
}

/* ---- The filter ------------------------------------------------------------------------------ */

static bool looks_like_strings(const tsr_filter_context *context, const tsr_input *metadata) {
  return (context->datatype == TSR_ASCII || context->datatype == TSR_UTF8) &&
         tsr__input_left(metadata) == STRINGS_HEADER && tsr__load32(metadata->data + metadata->at) == 0 &&
         tsr__load32(metadata->data + metadata->at + 4) == 1;
}

static int rle_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                      tsr_part *data_out, tsr_error *error) {
  if (context->strings || looks_like_strings(context, metadata))
    return decode_strings(context, metadata, data, data_out, error);
  return tsr__compress_decode(context, metadata, data, metadata_out, data_out, error);
}

static int rle_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  if (context->strings) return encode_strings(context, in, out, error);
  return tsr__compress_encode(context, in, out, error);
}

const tsr_filter_methods tsr__filter_rle = {
    .type = TSR_FILTER_RLE, .name = "rle", .decode = rle_decode, .encode = rle_encode, .codec = &rle_codec};
