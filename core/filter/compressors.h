/* compressors.h: the layout that gzip, zstd, lz4, bzip2, RLE, delta and double delta share, and the pool of idle
 * contexts of compression libraries. A codec compresses and decompresses one part; compressors.c stores the parts,
 * their sizes and the metadata of earlier filters around it.
 */
#ifndef TSR_FILTER_COMPRESSORS_H
#define TSR_FILTER_COMPRESSORS_H

#include "filter/filter.h"
#include "base/memory.h"

typedef struct tsr_codec {
  /* Returns an upper bound in bytes for the compressed form of `size` bytes. */
  uint64_t (*bound)(const tsr_filter_context *context, uint64_t size);
  /* Compresses `in` to `out`. *out_size is bound(size), the room in `out`, before the call, and the compressed size
   * after it. */
  int (*compress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out, uint64_t *out_size,
                  tsr_error *error);
  /* Decompresses all of `in` to exactly out_size bytes, or fails with TSR_CORRUPT. Not called for empty parts. */
  int (*decompress)(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                    uint64_t out_size, tsr_error *error);
} tsr_codec;

/* The methods `decode` and `encode` of every filter that has a codec. */
int tsr__compress_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                         tsr_part *data_out, tsr_error *error);
int tsr__compress_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error);

/* ---- The pool of idle contexts (tsr_memory.contexts) ----
 *
 * Creating a context may take longer than decoding a small tile, so threads leave contexts here for the next tile. Each
 * slot holds one context or NULL. There are never more contexts than threads have used at the same time. All functions
 * are thread-safe unless they say otherwise. */

#define TSR_CONTEXT_POOL_SLOTS 16

/* A zstd context allocates its own memory: in use it is charged to its user, idle to the root budget. The memory of a
 * zlib context is charged to the root budget in either case. */
struct tsr_context_pool {
  _Atomic(void *) decoders[TSR_CONTEXT_POOL_SLOTS], encoders[TSR_CONTEXT_POOL_SLOTS]; /* of zstd */
  _Atomic(void *) inflaters[TSR_CONTEXT_POOL_SLOTS]; /* of zlib */
};

/* Frees all idle contexts in root->contexts. No thread may be using the pool. */
void tsr__context_pool_release(tsr_memory *root);

#endif
