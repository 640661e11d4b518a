/* filter_compress.h: the frame that gzip, zstd, lz4, bzip2, RLE, delta and double delta share. A codec says how one
 * part is compressed and decompressed; filter_compress.c keeps the parts, their sizes and the metadata inside.
 */
#ifndef TSR_FILTER_COMPRESS_H
#define TSR_FILTER_COMPRESS_H

#include "filter/filter.h"

typedef struct tsr_codec {
  /* Forward: the most bytes that `size` bytes can become. */
  uint64_t (*bound)(const tsr_filter_context *context, uint64_t size);
  /* Forward: compresses `in` to `out`, which has room for *out_size = bound(size) bytes; sets *out_size. */
  int (*compress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out, uint64_t *out_size,
                  tsr_error *error);
  /* Backward: must fill all out_size bytes from all of `in`, else TSR_CORRUPT. The frame skips parts of 0 bytes. */
  int (*decompress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                    uint64_t out_size, tsr_error *error);
} tsr_codec;

/* Methods of a filter whose `codec` is set. */
int tsr__compress_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                         tsr_part *data_out, tsr_error *error);
int tsr__compress_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error);

#endif
