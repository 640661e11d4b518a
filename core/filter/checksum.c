/* checksum.c: MD5 and SHA-256 checksums of the metadata and data of earlier filters, which pass through unchanged.
 *
 * Metadata: u32 number of metadata parts, u32 number of data parts, then for each part, metadata parts first: u64 size
 * in bytes and the digest of 16 or 32 bytes; then the metadata of earlier filters, unchanged. Readers accept it in all
 * format versions; TileDB documents it from version 4 on.
 */
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "filter/filter.h"

typedef struct kind {
  const char *name;
  uint64_t digest_size;
  int (*digest)(const void *bytes, uint64_t size, uint8_t *digest, tsr_error *error);
} kind;

static const kind md5 = {"MD5", TSR_MD5_SIZE, tsr__md5}, sha256 = {"SHA-256", TSR_SHA256_SIZE, tsr__sha256};

/* Checks the `parts` parts, which together must fill `in`, against their sizes and digests. */
static int verify(const kind *k, tsr_input *records, uint32_t parts, tsr_input in, const char *what, tsr_error *error) {
  for (uint32_t i = 0; i < parts; i++) {
    uint64_t size = tsr__input_u64(records);
    const uint8_t *expected = tsr__input_take(records, k->digest_size), *bytes = tsr__input_take(&in, size);
    if (!expected || !bytes)
      return tsr__fail(error, TSR_CORRUPT, "the checksum of %s names %llu bytes, there are %llu in all", what,
                       (unsigned long long)size, (unsigned long long)in.size);
    uint8_t digest[TSR_SHA256_SIZE];
    TSR_TRY(k->digest(bytes, size, digest, error));
    if (memcmp(digest, expected, k->digest_size) != 0)
      return tsr__fail(error, TSR_CORRUPT, "the %s checksum of %s does not match", k->name, what);
  }
  if (tsr__input_left(&in) > 0)
    return tsr__fail(error, TSR_CORRUPT, "%llu bytes of %s have no checksum", (unsigned long long)tsr__input_left(&in),
                     what);
  return TSR_OK;
}

static int checksum_decode(const kind *k, tsr_input *metadata, tsr_input data, tsr_part *data_out, tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), data_parts = tsr__input_u32(metadata);
  uint64_t parts = (uint64_t)metadata_parts + data_parts;
  if (metadata->failed || !tsr__input_fits(metadata, parts, 8 + k->digest_size))
    return tsr__fail(error, TSR_CORRUPT, "%llu checksums are listed in %llu bytes of metadata",
                     (unsigned long long)parts, (unsigned long long)metadata->size);
  uint64_t size = parts * (8 + k->digest_size);
  tsr_input records = tsr__input(tsr__input_take(metadata, size), size);
  tsr_input earlier = tsr__input(metadata->data + metadata->at, tsr__input_left(metadata));
  TSR_TRY(verify(k, &records, metadata_parts, earlier, "the metadata", error));
  TSR_TRY(verify(k, &records, data_parts, data, "the data", error));
  *data_out = (tsr_part){(uint8_t *)data.data, data.size};
  return TSR_OK;
}

static int record(const kind *k, const tsr_part *parts, uint32_t count, uint8_t **to, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    tsr__store64(*to, parts[i].size);
    TSR_TRY(k->digest(parts[i].data, parts[i].size, *to + 8, error));
    *to += 8 + k->digest_size;
  }
  return TSR_OK;
}

static int checksum_encode(const kind *k, const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out,
                           tsr_error *error) {
  uint64_t parts = (uint64_t)in->metadata_count + in->data_count;
  tsr_chunk made = *in;
  TSR_TRY(tsr__filter_prepend(context, in, 8 + parts * (8 + k->digest_size), &made, error));
  uint8_t *to = made.metadata[0].data;
  tsr__store32(to, in->metadata_count);
  tsr__store32(to + 4, in->data_count);
  to += 8;
  TSR_TRY(record(k, in->metadata, in->metadata_count, &to, error));
  TSR_TRY(record(k, in->data, in->data_count, &to, error));
  *out = made;
  return TSR_OK;
}

#define DEFINE_CHECKSUM(kind, code)                                                                                    \
  static int decode_##kind(const tsr_filter_context *context, tsr_input *metadata, tsr_input data,                     \
                           tsr_part *metadata_out, tsr_part *data_out, tsr_error *error) {                             \
    return checksum_decode(&kind, metadata, data, data_out, error);                                                    \
  }                                                                                                                    \
  static int encode_##kind(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) { \
    return checksum_encode(&kind, context, in, out, error);                                                            \
  }                                                                                                                    \
  const tsr_filter_methods tsr__filter_##kind = {                                                                      \
      .type = code, .name = #kind, .decode = decode_##kind, .encode = encode_##kind};
DEFINE_CHECKSUM(md5, TSR_FILTER_MD5)
DEFINE_CHECKSUM(sha256, TSR_FILTER_SHA256)
