/* filter_bzip2.c: bzip2. Each part is one bzip2 stream (filter_compress.h). The level is the block size in units of
 * 100,000 bytes; a level below 1 means 1. All format versions.
 */
#include <bzlib.h>
#include <limits.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/filter_compress.h"

#define BZIP2_STEP (1u << 20) /* bytes read or written between two polls for cancellation: a tenth of a second */

typedef struct bzip2_memory {
  tsr_memory *memory;
  tsr_error trouble; /* why an allocation failed; code 0: none failed */
} bzip2_memory;

static void *bzip2_allocate(void *argument, int count, int size) {
  bzip2_memory *l = argument;
  uint8_t *pointer;
  return TSR_ALLOC_RAW(l->memory, (uint64_t)count * (uint64_t)size, &pointer, &l->trouble) == TSR_OK ? pointer : NULL;
}

static void bzip2_deallocate(void *argument, void *pointer) { tsr__free(pointer); }

static int bzip2_fail_memory(const bzip2_memory *l, tsr_error *error) {
  if (l->trouble.code < 0) return tsr__fail(error, l->trouble.code, "memory for bzip2: %s", l->trouble.message);
  return tsr__fail(error, TSR_ERROR, "bzip2 of version %s does not start", BZ2_bzlibVersion());
}

static int bzip2_decompress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                            uint64_t out_size, tsr_error *error) {
  bzip2_memory l = {.memory = context->arena->memory};
  bz_stream bz = {.bzalloc = bzip2_allocate, .bzfree = bzip2_deallocate, .opaque = &l};
  if (BZ2_bzDecompressInit(&bz, 0, 0) != BZ_OK) return bzip2_fail_memory(&l, error);
  bz.next_in = (char *)in;
  bz.next_out = (char *)out;
  uint64_t in_left = size, out_left = out_size;
  int rc, stopped = TSR_OK;
  bool moved;
  do {
    const unsigned give = (unsigned)TSR_MIN(in_left, BZIP2_STEP), room = (unsigned)TSR_MIN(out_left, BZIP2_STEP);
    bz.avail_in = give;
    bz.avail_out = room;
    rc = BZ2_bzDecompress(&bz);
    moved = bz.avail_in < give || bz.avail_out < room;
    in_left -= give - bz.avail_in;
    out_left -= room - bz.avail_out;
    if (rc == BZ_OK && moved) stopped = tsr__cancelled(context->arena->memory, error);
  } while (rc == BZ_OK && moved && stopped >= 0);
  BZ2_bzDecompressEnd(&bz);
  if (stopped < 0) return stopped;
  if (rc == BZ_MEM_ERROR) return bzip2_fail_memory(&l, error);
  if (rc != BZ_STREAM_END || out_left > 0 || in_left > 0)
    return tsr__fail(error, TSR_CORRUPT, "no bzip2 stream of %llu bytes (code %d)", (unsigned long long)out_size, rc);
  return TSR_OK;
}

/* The manual of bzip2: output may be one percent and 600 bytes larger. */
static uint64_t bzip2_bound(const tsr_filter_context *context, uint64_t size) { return size + size / 100 + 601; }

static int bzip2_compress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                          uint64_t *out_size, tsr_error *error) {
  bzip2_memory l = {.memory = context->arena->memory};
  bz_stream bz = {.bzalloc = bzip2_allocate, .bzfree = bzip2_deallocate, .opaque = &l};
  int level = TSR_MIN(TSR_MAX(context->filter->level, 1), 9);
  if (BZ2_bzCompressInit(&bz, level, 0, 0) != BZ_OK) return bzip2_fail_memory(&l, error);
  bz.next_in = (char *)in;
  bz.avail_in = (unsigned)size;
  bz.next_out = (char *)out;
  bz.avail_out = (unsigned)TSR_MIN(*out_size, UINT_MAX);
  uint64_t room = bz.avail_out;
  int rc = BZ2_bzCompress(&bz, BZ_FINISH);
  BZ2_bzCompressEnd(&bz);
  if (rc != BZ_STREAM_END)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes do not fit into one bzip2 part", (unsigned long long)size);
  *out_size = room - bz.avail_out;
  return TSR_OK;
}

static const tsr_codec bzip2_codec = {bzip2_bound, bzip2_compress, bzip2_decompress};

const tsr_filter_methods tsr__filter_bzip2 = {.type = TSR_FILTER_BZIP2,
                                              .name = "bzip2",
                                              .decode = tsr__compress_decode,
                                              .encode = tsr__compress_encode,
                                              .codec = &bzip2_codec};
