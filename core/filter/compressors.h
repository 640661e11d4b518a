/* compressors.h: the layout that gzip, zstd, lz4, bzip2, RLE, delta and double delta share. A codec compresses and
 * decompresses one part; compressors.c stores the parts, their sizes and the metadata of earlier filters around it.
 */
#ifndef TSR_FILTER_COMPRESSORS_H
#define TSR_FILTER_COMPRESSORS_H

#include "filter/filter.h"
#include "base/memory.h"

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

/* The idle contexts of compression libraries that an environment keeps (tsr_memory.contexts). To make a
 * context may take longer than to decode a small tile, so threads keep contexts here for the next tile. Each slot holds
 * one context or NULL. There are never more contexts than threads have used at the same time. All functions may be called
 * by any thread at any time, unless they say otherwise. */

#define TSR_CONTEXT_POOL_SLOTS 16

/* Contexts of zstd have memory of the library's own: one in use is charged to its user, an idle one to the root budget.
 * Contexts of zlib have memory that the root budget pays for in use, too. */
struct tsr_context_pool {
  _Atomic(void *) decoders[TSR_CONTEXT_POOL_SLOTS], encoders[TSR_CONTEXT_POOL_SLOTS]; /* of zstd */
  _Atomic(void *) inflaters[TSR_CONTEXT_POOL_SLOTS]; /* of zlib */
};

/* Frees all idle contexts in root->contexts. No thread may use the pool at this time. */
void tsr__context_pool_release(tsr_memory *root);

#endif
