/* filter_lz4.c: lz4. Each part is one raw lz4 block without an lz4 frame (filter_compress.h). The level is ignored. An
 * empty part is stored as one zero byte. All format versions.
 */
#include <limits.h>
#include <lz4.h>

#include "filter/filter_compress.h"

static int lz4_decompress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                          uint64_t out_size, tsr_error *error) {
  int got = -1;
  if (size <= INT_MAX && out_size <= INT_MAX)
    got = LZ4_decompress_safe((const char *)in, (char *)out, (int)size, (int)out_size);
  if (got < 0 || (uint64_t)got != out_size)
    return tsr__fail(error, TSR_CORRUPT, "no lz4 block of %llu bytes", (unsigned long long)out_size);
  return TSR_OK;
}

static uint64_t lz4_bound(const tsr_filter_context *context, uint64_t size) {
  return size <= LZ4_MAX_INPUT_SIZE ? (uint64_t)LZ4_compressBound((int)size) : 0;
}

static int lz4_compress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                        uint64_t *out_size, tsr_error *error) {
  if (size > LZ4_MAX_INPUT_SIZE)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes in one part: lz4 takes %d at most", (unsigned long long)size,
                     LZ4_MAX_INPUT_SIZE);
  /* lz4 requires a pointer even if the size is 0 */
  int got = LZ4_compress_default(size > 0 ? (const char *)in : "", (char *)out, (int)size, (int)*out_size);
  if (got <= 0) return tsr__fail(error, TSR_ERROR, "lz4 failed on %llu bytes", (unsigned long long)size);
  *out_size = (uint64_t)got;
  return TSR_OK;
}

static const tsr_codec lz4_codec = {lz4_bound, lz4_compress, lz4_decompress};

const tsr_filter_methods tsr__filter_lz4 = {.type = TSR_FILTER_LZ4,
                                            .name = "lz4",
                                            .decode = tsr__compress_decode,
                                            .encode = tsr__compress_encode,
                                            .codec = &lz4_codec};
