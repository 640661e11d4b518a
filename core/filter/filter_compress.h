/* filter_compress.h: the layout that gzip, zstd, lz4, bzip2, RLE, delta and double delta share. A codec compresses and
 * decompresses one part; filter_compress.c stores the parts, their sizes and the metadata of earlier filters around it.
 */
#ifndef TSR_FILTER_COMPRESS_H
#define TSR_FILTER_COMPRESS_H

#include "filter/filter.h"

typedef struct tsr_codec {
  /* Returns the size in bytes that the compressed form of `size` bytes cannot exceed. */
  uint64_t (*bound)(const tsr_filter_context *context, uint64_t size);
  /* Compresses `in` to `out`. *out_size is bound(size), the room of `out`, before the call and the compressed size
   * after it. */
  int (*compress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out, uint64_t *out_size,
                  tsr_error *error);
  /* Decompresses all bytes of `in` to exactly out_size bytes, or fails with TSR_CORRUPT. Not called for parts of 0
   * bytes. */
  int (*decompress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                    uint64_t out_size, tsr_error *error);
} tsr_codec;

/* The methods `decode` and `encode` of every filter with a codec. */
int tsr__compress_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                         tsr_part *data_out, tsr_error *error);
int tsr__compress_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error);

#endif
