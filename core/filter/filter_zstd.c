/* filter_zstd.c: zstd frames, one for each part, in the compressors' frame. A level below -7 means 3; levels from -7 on
 * are zstd's own (so TileDB's default of -1 is its fast mode). All versions.
 */
#include "filter/filter_zstd.h"

#include <stdatomic.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/filter_compress.h"

#define DEFAULT_LEVEL 3
#define MIN_LEVEL     (-7)
#define SMALL_CHUNK   65536 /* bytes: those that are as large or smaller ... */
#define ROOMY_FIRST   4 /* ... get tables from zstd, at these levels, with two places for each byte */
#define ROOMY_LAST    12
#define MIN_BITS      10
#define ZSTD_STEP     (4u << 20) /* bytes that come out, then the host is asked whether to go on */
#define WINDOW_MAX    (UINT64_C(1) << 27) /* that zstd takes in steps, by itself */
#define STREAM_BYTES  (UINT64_C(1) << 19) /* that steps take beside the window */
#define SPARE_BYTES   (192u << 10) /* a context that has become larger is not kept */

/* A context costs more than a small chunk does: one serves all chunks of a tile, and then waits for another tile. */
typedef struct zstd_state {
  tsr_memory *memory;
  ZSTD_DCtx *decoder;
  ZSTD_CCtx *encoder;
  uint64_t charged;
} zstd_state;

/* ---- Contexts that wait ----------------------------------------------------------------------------------------- */

static void *take_context(tsr_memory *root, _Atomic(void *) *slots, size_t (*size)(const void *)) {
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    if (!atomic_load_explicit(&slots[i], memory_order_relaxed)) continue;
    void *spare = atomic_exchange_explicit(&slots[i], NULL, memory_order_acq_rel);
    if (!spare) continue;
    tsr__memory_release(root, size(spare));
    return spare;
  }
  return NULL;
}

/* False: it is the caller's still. */
static bool return_context(tsr_memory *root, _Atomic(void *) *slots, void *spare, uint64_t size) {
  if (size > SPARE_BYTES || tsr__memory_charge(root, size, NULL) < 0) return false;
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    void *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&slots[i], &none, spare, memory_order_acq_rel, memory_order_relaxed))
      return true;
  }
  tsr__memory_release(root, size);
  return false;
}

static size_t decoder_size(const void *decoder) { return ZSTD_sizeof_DCtx(decoder); }
static size_t encoder_size(const void *encoder) { return ZSTD_sizeof_CCtx(encoder); }

static ZSTD_DCtx *make_decoder(tsr_memory *memory) {
  tsr_memory *root = tsr__memory_root(memory);
  ZSTD_DCtx *spare = root->contexts ? take_context(root, root->contexts->decoders, decoder_size) : NULL;
  return spare ? spare : ZSTD_createDCtx();
}

static ZSTD_CCtx *make_encoder(tsr_memory *memory) {
  tsr_memory *root = tsr__memory_root(memory);
  ZSTD_CCtx *spare = root->contexts ? take_context(root, root->contexts->encoders, encoder_size) : NULL;
  return spare ? spare : ZSTD_createCCtx();
}

static void zstd_release(void *pointer) {
  zstd_state *s = pointer;
  tsr_memory *root = tsr__memory_root(s->memory);
  tsr_context_pool *contexts = root->contexts;
  tsr__memory_release(s->memory, s->charged);
  if (s->decoder && !(contexts && return_context(root, contexts->decoders, s->decoder, decoder_size(s->decoder))))
    ZSTD_freeDCtx(s->decoder);
  if (s->encoder && !(contexts && return_context(root, contexts->encoders, s->encoder, encoder_size(s->encoder))))
    ZSTD_freeCCtx(s->encoder);
  tsr__free(s);
}

void tsr__context_pool_release(tsr_memory *root) {
  void *spare;
  while ((spare = take_context(root, root->contexts->decoders, decoder_size))) ZSTD_freeDCtx(spare);
  while ((spare = take_context(root, root->contexts->encoders, encoder_size))) ZSTD_freeCCtx(spare);
}

/* ---- Contexts in use -------------------------------------------------------------------------------------------- */

/* The contexts' memory is zstd's own, and grows with use: it is counted once it is there. */
static int zstd_charge(zstd_state *s, uint64_t size, tsr_error *error) {
  if (size <= s->charged) return TSR_OK;
  TSR_TRY(tsr__memory_charge(s->memory, size - s->charged, error));
  s->charged = size;
  return TSR_OK;
}

static int fail_zstd(size_t said, int rc, tsr_error *error) {
  if (ZSTD_getErrorCode(said) == ZSTD_error_memory_allocation) rc = TSR_NOMEM;
  return tsr__fail(error, rc, "zstd says: %s", ZSTD_getErrorName(said));
}

static int zstd_get_state(const tsr_filter_context *context, bool decoder, zstd_state **out, tsr_error *error) {
  if (!*context->state) {
    zstd_state *pointer;
    TSR_TRY(TSR_ALLOC(context->arena->memory, &pointer, error));
    *context->state = pointer;
    pointer->memory = context->arena->memory;
  }
  zstd_state *s = *context->state;
  if (decoder && !s->decoder) {
    s->decoder = make_decoder(s->memory);
    if (!s->decoder) return tsr__fail(error, TSR_NOMEM, "no memory for a zstd decoder");
    TSR_TRY(zstd_charge(s, ZSTD_sizeof_DCtx(s->decoder), error));
  }
  if (!decoder && !s->encoder) {
    s->encoder = make_encoder(s->memory);
    if (!s->encoder) return tsr__fail(error, TSR_NOMEM, "no memory for a zstd encoder");
  }
  *out = s;
  return TSR_OK;
}

/* How far back a frame with so much content reaches (RFC 8878, 3.1.1.1); UINT64_MAX: it is another frame. */
static uint64_t window_of(const uint8_t *in, uint64_t size, uint64_t content) {
  if (size < 6 || tsr__load32(in) != ZSTD_MAGICNUMBER || ZSTD_getFrameContentSize(in, size) != content)
    return UINT64_MAX;
  const bool single_segment = in[4] & 0x20;
  const uint64_t base = UINT64_C(1024) << (in[5] >> 3), window = base + base / 8 * (in[5] & 7);
  return single_segment ? content : TSR_MIN(window, content);
}

/* In steps, between which the host is asked, there is a second copy of the window: only where there is memory for it. */
static bool can_step(zstd_state *s, const uint8_t *in, uint64_t size, uint64_t out_size) {
  const uint64_t window = window_of(in, size, out_size);
  return window <= WINDOW_MAX && zstd_charge(s, ZSTD_sizeof_DCtx(s->decoder) + window + STREAM_BYTES, NULL) == TSR_OK;
}

/* False where what is there is not just one whole frame. */
static int step_through(zstd_state *s, ZSTD_inBuffer in, uint8_t *out, uint64_t out_size, bool *whole,
                        tsr_error *error) {
  ZSTD_outBuffer to = {.dst = out};
  size_t left, before;
  ZSTD_DCtx_reset(s->decoder, ZSTD_reset_session_only);
  do {
    before = in.pos + to.pos;
    to.size = TSR_MIN(out_size, to.pos + ZSTD_STEP);
    left = ZSTD_decompressStream(s->decoder, &to, &in);
    if (left > 0 && !ZSTD_isError(left)) TSR_TRY(tsr__cancelled(s->memory, error));
  } while (left > 0 && !ZSTD_isError(left) && in.pos + to.pos > before);
  *whole = left == 0 && in.pos == in.size && to.pos == out_size;
  return TSR_OK;
}

static int zstd_decompress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                           uint64_t out_size, tsr_error *error) {
  zstd_state *s = NULL;
  bool done = false;
  TSR_TRY(zstd_get_state(context, true, &s, error));
  if (out_size > ZSTD_STEP && can_step(s, in, size, out_size))
    TSR_TRY(step_through(s, (ZSTD_inBuffer){.src = in, .size = size}, out, out_size, &done, error));
  if (done) return TSR_OK;
  const size_t got = ZSTD_decompressDCtx(s->decoder, out, out_size, in, size); /* or says what is wrong */
  if (ZSTD_isError(got)) return fail_zstd(got, TSR_CORRUPT, error);
  if (got != out_size)
    return tsr__fail(error, TSR_CORRUPT, "zstd gives %llu bytes, %llu are named", (unsigned long long)got,
                     (unsigned long long)out_size);
  return TSR_OK;
}

static uint64_t zstd_bound(const tsr_filter_context *context, uint64_t size) { return ZSTD_compressBound(size); }

/* One place for each byte of a chunk finds what two find, and stays in the cache: the logarithm of how many there should be; 0:
 * zstd's own choice. */
static int table_bits(int level, uint64_t size) {
  int bits = MIN_BITS;
  if (level < ROOMY_FIRST || level > ROOMY_LAST || size > SMALL_CHUNK) return 0;
  while (UINT64_C(1) << bits < size) bits++;
  return bits;
}

static int zstd_compress(const tsr_filter_context *context, const uint8_t *in, uint64_t size, uint8_t *out,
                         uint64_t *out_size, tsr_error *error) {
  zstd_state *s = NULL;
  TSR_TRY(zstd_get_state(context, false, &s, error));
  int level = context->filter->level < MIN_LEVEL ? DEFAULT_LEVEL : context->filter->level;
  size_t got = ZSTD_CCtx_setParameter(s->encoder, ZSTD_c_compressionLevel, TSR_MIN(level, ZSTD_maxCLevel()));
  if (!ZSTD_isError(got)) got = ZSTD_CCtx_setParameter(s->encoder, ZSTD_c_hashLog, table_bits(level, size));
  if (!ZSTD_isError(got)) got = ZSTD_compress2(s->encoder, out, *out_size, in, size);
  if (ZSTD_isError(got)) return fail_zstd(got, TSR_ERROR, error);
  *out_size = got;
  return zstd_charge(s, ZSTD_sizeof_CCtx(s->encoder), error);
}

static const tsr_codec zstd_codec = {zstd_bound, zstd_compress, zstd_decompress};

const tsr_filter_methods tsr__filter_zstd = {.type = TSR_FILTER_ZSTD,
                                             .name = "zstd",
                                             .decode = tsr__compress_decode,
                                             .encode = tsr__compress_encode,
                                             .codec = &zstd_codec,
                                             .release = zstd_release};
