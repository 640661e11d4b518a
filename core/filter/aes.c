/* aes.c: AES-256-GCM, the last filter of every pipeline of an encrypted array. Schemas do not list it.
 *
 * Metadata: u32 number of metadata parts, u32 number of data parts, then for each part, metadata parts first: u32 plain
 * size, u32 encrypted size (equal to it), 12 bytes initialization vector, 16 bytes tag. Data: the encrypted parts in
 * the same order. The metadata of earlier filters is encrypted with the data. All format versions.
 */
#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "filter/filter.h"

#define RECORD (8u + TSR_IV_SIZE + TSR_TAG_SIZE)

static int aes_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                      tsr_part *data_out, tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), data_parts = tsr__input_u32(metadata);
  uint64_t parts = (uint64_t)metadata_parts + data_parts, sizes[2] = {0, 0};
  if (metadata->failed || !tsr__input_fits(metadata, parts, RECORD))
    return tsr__fail(error, TSR_CORRUPT, "%llu encrypted parts are listed in %llu bytes of metadata",
                     (unsigned long long)parts, (unsigned long long)metadata->size);
  const uint8_t *records = tsr__input_take(metadata, parts * RECORD);
  for (uint64_t i = 0; i < parts; i++) {
    uint32_t plain = tsr__load32(records + i * RECORD), encrypted = tsr__load32(records + i * RECORD + 4);
    if (plain != encrypted)
      return tsr__fail(error, TSR_CORRUPT, "part %llu has %u bytes, encrypted %u", (unsigned long long)i, plain,
                       encrypted);
    sizes[i >= metadata_parts] += plain;
  }
  if (sizes[0] > data.size || sizes[1] != data.size - sizes[0])
    return tsr__fail(error, TSR_CORRUPT, "the encrypted parts have %llu bytes, %llu are there",
                     (unsigned long long)tsr__add_sat(sizes[0], sizes[1]), (unsigned long long)data.size);
  uint8_t *out;
  uint8_t *earlier;
  TSR_TRY(tsr__filter_room(context, sizes[1], &out, error));
  TSR_TRY(TSR_ARENA_RAW(context->arena, sizes[0], &earlier, error));
  uint8_t *to = earlier;
  for (uint64_t i = 0; i < parts; i++) {
    const uint8_t *r = records + i * RECORD;
    uint32_t size = tsr__load32(r);
    if (i == metadata_parts) to = out;
    TSR_TRY(tsr__aes_decrypt(context->shape->key, r + 8, r + 8 + TSR_IV_SIZE, tsr__input_take(&data, size), size, to,
                             error));
    to += size;
  }
  *metadata_out = (tsr_part){earlier, sizes[0]};
  *data_out = (tsr_part){out, sizes[1]};
  return TSR_OK;
}

static int aes_encrypt(const tsr_filter_context *context, const tsr_part *parts, uint32_t count, uint8_t **record,
                       uint8_t **to, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    uint8_t *r = *record;
    tsr__store32(r, (uint32_t)parts[i].size);
    tsr__store32(r + 4, (uint32_t)parts[i].size);
    TSR_TRY(tsr__random(r + 8, TSR_IV_SIZE, error));
    TSR_TRY(
        tsr__aes_encrypt(context->shape->key, r + 8, parts[i].data, parts[i].size, *to, r + 8 + TSR_IV_SIZE, error));
    *record += RECORD;
    *to += parts[i].size;
  }
  return TSR_OK;
}

static int aes_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  uint64_t parts = (uint64_t)in->metadata_count + in->data_count, size = 0;
  for (uint32_t i = 0; i < in->metadata_count; i++) size += in->metadata[i].size;
  for (uint32_t i = 0; i < in->data_count; i++) size += in->data[i].size;
  if (size > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes in one chunk: the format allows 4,294,967,295",
                     (unsigned long long)size);
  tsr_chunk made = {0};
  TSR_TRY(tsr__filter_part(context, 8 + parts * RECORD, &made.metadata, &made.metadata_count, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  uint8_t *record = made.metadata->data, *to = made.data->data;
  tsr__store32(record, in->metadata_count);
  tsr__store32(record + 4, in->data_count);
  record += 8;
  TSR_TRY(aes_encrypt(context, in->metadata, in->metadata_count, &record, &to, error));
  TSR_TRY(aes_encrypt(context, in->data, in->data_count, &record, &to, error));
  *out = made;
  return TSR_OK;
}

const tsr_filter_methods tsr__filter_aes = {
    .type = TSR_FILTER_AES_256_GCM, .name = "aes_256_gcm", .decode = aes_decode, .encode = aes_encode};
