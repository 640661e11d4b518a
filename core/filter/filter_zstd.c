/* filter_zstd.c: zstd. Each part is one zstd frame (filter_compress.h). A level below -7 means 3; other levels are
 * zstd's own, so TileDB's default of -1 is one of zstd's fast modes. All format versions.
 */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "filter/context_pool.h"
#include "filter/filter_compress.h"

#define DEFAULT_LEVEL 3
#define MIN_LEVEL     (-7)
/* The function table_bits chooses the size of zstd's hash table for chunks of at most so many bytes, at these
 * levels. */
#define TABLE_CHUNK_MAX   65536
#define TABLE_LEVEL_FIRST 4
#define TABLE_LEVEL_LAST  12
#define TABLE_BITS_MIN    10
#define ZSTD_STEP         (4u << 20) /* decoded bytes between two polls for cancellation */
/* Bytes of the largest window that zstd's streaming decoder accepts by default. */
#define WINDOW_MAX   (UINT64_C(1) << 27)
#define STREAM_BYTES (UINT64_C(1) << 19) /* bytes that the streaming decoder allocates beside the window, at most */

/* The contexts of one tile. To make a context takes longer than to decode a small chunk, so one context serves all
 * chunks of a tile and then goes to the context pool. */
typedef struct zstd_state {
  tsr_memory *memory;
  ZSTD_DCtx *decoder; /* NULL until the first use */
  ZSTD_CCtx *encoder; /* likewise */
  uint64_t charged; /* bytes charged to `memory` for the context */
} zstd_state;

/* ---- Idle contexts --------------------------------------------------------------------------- */

static size_t decoder_size(const void *decoder) { return ZSTD_sizeof_DCtx(decoder); }
static size_t encoder_size(const void *encoder) { return ZSTD_sizeof_CCtx(encoder); }

static ZSTD_DCtx *make_decoder(tsr_memory *memory) {
  tsr_memory *root = tsr__memory_root(memory);
  ZSTD_DCtx *context = root->contexts ? tsr__context_take(root, root->contexts->decoders, decoder_size) : NULL;
  return context ? context : ZSTD_createDCtx();
}

static ZSTD_CCtx *make_encoder(tsr_memory *memory) {
  tsr_memory *root = tsr__memory_root(memory);
  ZSTD_CCtx *context = root->contexts ? tsr__context_take(root, root->contexts->encoders, encoder_size) : NULL;
  return context ? context : ZSTD_createCCtx();
}

static void zstd_release(void *pointer) {
  zstd_state *s = pointer;
  tsr_memory *root = tsr__memory_root(s->memory);
  tsr_context_pool *contexts = root->contexts;
  tsr__memory_release(s->memory, s->charged);
  if (s->decoder && !(contexts && tsr__context_return(root, contexts->decoders, s->decoder, decoder_size(s->decoder))))
    ZSTD_freeDCtx(s->decoder);
  if (s->encoder && !(contexts && tsr__context_return(root, contexts->encoders, s->encoder, encoder_size(s->encoder))))
    ZSTD_freeCCtx(s->encoder);
  tsr__free(s);
}

void tsr__zstd_free_idle(tsr_memory *root) {
  void *context;
  while ((context = tsr__context_take(root, root->contexts->decoders, decoder_size))) ZSTD_freeDCtx(context);
  while ((context = tsr__context_take(root, root->contexts->encoders, encoder_size))) ZSTD_freeCCtx(context);
}

/* ---- Contexts in use ------------------------------------------------------------------------- */

/* Charges the present size of a context. zstd allocates the memory itself and needs more in use, so it is charged
 * afterwards. */
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

/* Returns the window size of a frame whose header announces `content` bytes (RFC 8878, 3.1.1.1), or UINT64_MAX for any
 * other frame. */
static uint64_t window_of(const uint8_t *in, uint64_t size, uint64_t content) {
  if (size < 6 || tsr__load32(in) != ZSTD_MAGICNUMBER || ZSTD_getFrameContentSize(in, size) != content)
    return UINT64_MAX;
  const bool single_segment = in[4] & 0x20;
  const uint64_t base = UINT64_C(1024) << (in[5] >> 3), window = base + base / 8 * (in[5] & 7);
  return single_segment ? content : TSR_MIN(window, content);
}

/* Returns true if the budget has room for decoding in steps, between which the host is polled: the streaming decoder
 * has a copy of the window. */
static bool can_step(zstd_state *s, const uint8_t *in, uint64_t size, uint64_t out_size) {
  const uint64_t window = window_of(in, size, out_size);
  return window <= WINDOW_MAX && zstd_charge(s, ZSTD_sizeof_DCtx(s->decoder) + window + STREAM_BYTES, NULL) == TSR_OK;
}

/* Decodes in steps. Sets *whole to false if the input is not exactly one frame of out_size bytes. */
static int decode_in_steps(zstd_state *s, ZSTD_inBuffer in, uint8_t *out, uint64_t out_size, bool *whole,
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
    TSR_TRY(decode_in_steps(s, (ZSTD_inBuffer){.src = in, .size = size}, out, out_size, &done, error));
  if (done) return TSR_OK;
  const size_t got = ZSTD_decompressDCtx(s->decoder, out, out_size, in,
                                         size); /* after a failed decode_in_steps, too: it finds the cause */
  if (ZSTD_isError(got)) return fail_zstd(got, TSR_CORRUPT, error);
  if (got != out_size)
    return tsr__fail(error, TSR_CORRUPT, "zstd gives %llu bytes, %llu are named", (unsigned long long)got,
                     (unsigned long long)out_size);
  return TSR_OK;
}

static uint64_t zstd_bound(const tsr_filter_context *context, uint64_t size) { return ZSTD_compressBound(size); }

/* Returns the binary logarithm of the size of zstd's hash table, or 0 to let zstd choose. For small chunks at medium
 * levels zstd chooses two entries for each byte. One entry for each byte compresses as well, and the table stays in the
 * processor's cache. */
static int table_bits(int level, uint64_t size) {
  int bits = TABLE_BITS_MIN;
  if (level < TABLE_LEVEL_FIRST || level > TABLE_LEVEL_LAST || size > TABLE_CHUNK_MAX) return 0;
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
