/* filter_compress.c: the layout around a codec, which says how large each part was before and after its compression.
 *
 * Metadata: u32 number of metadata parts, u32 number of data parts, then for each part, those of metadata first: u32
 * original size, u32 compressed size. Data: the compressed parts in the same order, without gaps. The metadata of
 * earlier filters is compressed with the data, so decoding replaces the metadata. All format versions.
 */
#include "filter/filter_compress.h"

#include "base/arithmetic.h"
#include "base/pool.h"

#define POLL_PARTS 64 /* parts, of any size, after which the host is polled for cancellation */

typedef struct part_sizes {
  uint32_t metadata_parts, parts; /* numbers of metadata parts, and of all parts */
  uint64_t metadata, data; /* original sizes in bytes */
} part_sizes;

static int read_sizes(const tsr_filter_context *context, tsr_input *metadata, const tsr_input *data, part_sizes *sizes,
                      tsr_input *records, tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), data_parts = tsr__input_u32(metadata);
  uint64_t parts = (uint64_t)metadata_parts + data_parts, compressed = 0;
  if (metadata->failed || !tsr__input_fits(metadata, parts, 8))
    return tsr__fail(error, TSR_CORRUPT, "%llu parts of metadata and data are named in %llu bytes of metadata",
                     (unsigned long long)parts, (unsigned long long)metadata->size);
  *records = *metadata;
  *sizes = (part_sizes){metadata_parts, (uint32_t)parts, 0, 0};
  for (uint64_t i = 0; i < parts; i++) {
    uint32_t original = tsr__input_u32(metadata);
    compressed += tsr__input_u32(metadata);
    *(i < metadata_parts ? &sizes->metadata : &sizes->data) += original;
  }
  if (compressed != tsr__input_left(data))
    return tsr__fail(error, TSR_CORRUPT, "%llu compressed bytes are named, %llu are there",
                     (unsigned long long)compressed, (unsigned long long)tsr__input_left(data));
  if (sizes->metadata > context->most)
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes of metadata are named: at most %llu make sense",
                     (unsigned long long)sizes->metadata, (unsigned long long)context->most);
  return TSR_OK;
}

int tsr__compress_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                         tsr_part *data_out, tsr_error *error) {
  part_sizes sizes;
  tsr_input records;
  TSR_TRY(read_sizes(context, metadata, &data, &sizes, &records, error));
  uint8_t *out;
  TSR_TRY(tsr__filter_room(context, sizes.data, &out, error));
  uint8_t *earlier = out; /* if there is no metadata of earlier filters */
  if (sizes.metadata > 0) TSR_TRY(TSR_ARENA_RAW(context->arena, sizes.metadata, &earlier, error));
  *metadata_out = (tsr_part){earlier, sizes.metadata};
  *data_out = (tsr_part){out, sizes.data};
  uint8_t *to = earlier;
  for (uint32_t i = 0; i < sizes.parts; i++) {
    if (i == sizes.metadata_parts) to = out;
    uint32_t original = tsr__input_u32(&records), compressed = tsr__input_u32(&records);
    const uint8_t *from = tsr__input_take(&data, compressed);
    if (original == 0) continue;
    if (i % POLL_PARTS == POLL_PARTS - 1) TSR_TRY(tsr__cancelled(context->arena->memory, error));
    int rc = context->codec->decompress(context, from, compressed, to, original, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, sizes.parts);
    to += original;
  }
  return TSR_OK;
}

static int compress_add_bound(const tsr_filter_context *context, const tsr_part *parts, uint32_t count, uint64_t *sum,
                              tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    if (parts[i].size > UINT32_MAX)
      return tsr__fail(error, TSR_TOOBIG, "%llu bytes in one part: the format allows 4,294,967,295",
                       (unsigned long long)parts[i].size);
    *sum = tsr__add_sat(*sum, context->codec->bound(context, parts[i].size));
  }
  return TSR_OK;
}

typedef struct compress_writer {
  uint8_t *record, *to;
} compress_writer;

static int compress_parts(const tsr_filter_context *context, const tsr_part *parts, uint32_t count, compress_writer *w,
                          tsr_error *error) {
  const tsr_codec *codec = context->codec;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t size = codec->bound(context, parts[i].size);
    TSR_TRY(codec->compress(context, parts[i].data, parts[i].size, w->to, &size, error));
    if (size > UINT32_MAX)
      return tsr__fail(error, TSR_TOOBIG, "%llu compressed bytes in one part: the format allows 4,294,967,295",
                       (unsigned long long)size);
    tsr__store32(w->record, (uint32_t)parts[i].size);
    tsr__store32(w->record + 4, (uint32_t)size);
    w->record += 8;
    w->to += size;
  }
  return TSR_OK;
}

int tsr__compress_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  uint64_t bound = 0;
  TSR_TRY(compress_add_bound(context, in->metadata, in->metadata_count, &bound, error));
  TSR_TRY(compress_add_bound(context, in->data, in->data_count, &bound, error));
  tsr_chunk made = {0};
  uint64_t parts = (uint64_t)in->metadata_count + in->data_count;
  TSR_TRY(tsr__filter_part(context, 8 + 8 * parts, &made.metadata, &made.metadata_count, error));
  TSR_TRY(tsr__filter_part(context, bound, &made.data, &made.data_count, error));
  tsr__store32(made.metadata->data, in->metadata_count);
  tsr__store32(made.metadata->data + 4, in->data_count);
  compress_writer w = {made.metadata->data + 8, made.data->data};
  TSR_TRY(compress_parts(context, in->metadata, in->metadata_count, &w, error));
  TSR_TRY(compress_parts(context, in->data, in->data_count, &w, error));
  made.data->size = (uint64_t)(w.to - made.data->data);
  *out = made;
  return TSR_OK;
}
