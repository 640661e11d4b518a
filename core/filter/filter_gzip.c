/* filter_gzip.c: the filter that TileDB calls gzip. Each part is one zlib stream (RFC 1950, filter_compress.h), not a
 * gzip file. A level below 0 is zlib's default. All format versions.
 */
#include <limits.h>
#include <zlib.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/context_pool.h"
#include "filter/filter_compress.h"

#define GZIP_STEP (4u << 20) /* bytes read or written between two polls for cancellation */

/* A zlib stream: for one tile, reset for each part. Inflating streams then go to the context pool. */
typedef struct gzip_state {
  z_stream stream;
  bool inflates, started;
  tsr_memory *memory; /* pays for the stream; of a stream that inflates, a root */
  tsr_error trouble; /* why an allocation for zlib failed; code 0: none failed */
} gzip_state;

static void *gzip_allocate(void *argument, unsigned count, unsigned size) {
  gzip_state *s = argument;
  uint8_t *pointer;
  return TSR_ALLOC_RAW(s->memory, (uint64_t)count * size, &pointer, &s->trouble) == TSR_OK ? pointer : Z_NULL;
}

static void gzip_deallocate(void *argument, void *pointer) { tsr__free(pointer); }

static int gzip_fail_memory(const gzip_state *s, tsr_error *error) {
  if (s->trouble.code < 0) return tsr__fail(error, s->trouble.code, "memory for zlib: %s", s->trouble.message);
  return tsr__fail(error, TSR_ERROR, "zlib of version %s does not start", zlibVersion());
}

static void gzip_free(gzip_state *s) {
  if (s->started && s->inflates) inflateEnd(&s->stream);
  else if (s->started) deflateEnd(&s->stream);
  tsr__free(s);
}

static size_t charged_when_idle(const void *state) { return 0; } /* its memory stays charged to the root */

static void gzip_release(void *pointer) {
  gzip_state *s = pointer;
  tsr_context_pool *contexts = s->memory->contexts;
  if (!s->inflates || !contexts || !tsr__context_return(s->memory, contexts->inflaters, s, 0)) gzip_free(s);
}

void tsr__gzip_free_idle(tsr_memory *root) {
  gzip_state *s;
  while ((s = tsr__context_take(root, root->contexts->inflaters, charged_when_idle))) gzip_free(s);
}

static int gzip_get_state(const tsr_filter_context *context, bool inflates, gzip_state **out, tsr_error *error) {
  tsr_memory *memory = inflates ? tsr__memory_root(context->arena->memory) : context->arena->memory;
  gzip_state *s = *context->state;
  if (!s && inflates && memory->contexts) s = tsr__context_take(memory, memory->contexts->inflaters, charged_when_idle);
  if (!s) {
    TSR_TRY(TSR_ALLOC(memory, &s, error));
    s->stream.zalloc = gzip_allocate;
    s->stream.zfree = gzip_deallocate;
    s->stream.opaque = s;
    s->inflates = inflates;
    s->memory = memory;
  }
  s->trouble.code = TSR_OK;
  *context->state = *out = s;
  return TSR_OK;
}

static int gzip_decompress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                           uint64_t out_size, tsr_error *error) {
  gzip_state *s = NULL;
  TSR_TRY(gzip_get_state(context, true, &s, error));
  z_stream *z = &s->stream;
  if ((s->started ? inflateReset(z) : inflateInit(z)) != Z_OK) return gzip_fail_memory(s, error);
  s->started = true;
  z->next_in = (Bytef *)in;
  z->next_out = out;
  uint64_t in_left = size, out_left = out_size;
  int rc;
  for (;;) {
    const uInt give = (uInt)TSR_MIN(in_left, GZIP_STEP), room = (uInt)TSR_MIN(out_left, GZIP_STEP);
    z->avail_in = give;
    z->avail_out = room;
    rc = inflate(z, give == in_left && room == out_left ? Z_FINISH : Z_NO_FLUSH);
    const bool moved = z->avail_in < give || z->avail_out < room;
    in_left -= give - z->avail_in;
    out_left -= room - z->avail_out;
    if ((rc != Z_OK && rc != Z_BUF_ERROR) || !moved) break;
    TSR_TRY(tsr__cancelled(context->arena->memory, error));
  }
  if (rc == Z_MEM_ERROR) return gzip_fail_memory(s, error);
  if (rc != Z_STREAM_END || out_left > 0 || in_left > 0)
    return tsr__fail(error, TSR_CORRUPT, "no zlib stream of %llu bytes%s%s", (unsigned long long)out_size,
                     z->msg ? ": " : "", z->msg ? z->msg : "");
  return TSR_OK;
}

static uint64_t gzip_bound(const tsr_filter_context *context, uint64_t size) { return compressBound(size); }

static int compress_one(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                        uint64_t *out_size, tsr_error *error) {
  gzip_state *s = NULL;
  TSR_TRY(gzip_get_state(context, false, &s, error));
  z_stream *z = &s->stream;
  int level = context->filter->level < 0 ? Z_DEFAULT_COMPRESSION : TSR_MIN(context->filter->level, 9);
  if ((s->started ? deflateReset(z) : deflateInit(z, level)) != Z_OK) return gzip_fail_memory(s, error);
  s->started = true;
  z->next_in = (Bytef *)in;
  z->avail_in = (uInt)size;
  z->next_out = out;
  z->avail_out = (uInt)TSR_MIN(*out_size, UINT_MAX);
  uint64_t room = z->avail_out;
  if (deflate(z, Z_FINISH) != Z_STREAM_END)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes do not fit into one zlib part", (unsigned long long)size);
  *out_size = room - z->avail_out;
  return TSR_OK;
}

static const tsr_codec gzip_codec = {gzip_bound, compress_one, gzip_decompress};

const tsr_filter_methods tsr__filter_gzip = {.type = TSR_FILTER_GZIP,
                                             .name = "gzip",
                                             .decode = tsr__compress_decode,
                                             .encode = tsr__compress_encode,
                                             .codec = &gzip_codec,
                                             .release = gzip_release};
