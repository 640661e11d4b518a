/* compressors.c: the compressors gzip, zstd, lz4 and bzip2, and the layout around every codec, which records the size
 * of each part before and after compression.
 *
 * Metadata: u32 number of metadata parts, u32 number of data parts, then for each part, metadata parts first: u32
 * original size, u32 compressed size. Data: the compressed parts in the same order, without gaps. The metadata of
 * earlier filters is compressed with the data, so decoding replaces the metadata. All format versions.
 *
 * Order: the layout; the pool of idle contexts; zstd; gzip; lz4; bzip2.
 */
#include "filter/compressors.h"

#include <stdatomic.h>
#include <zstd.h>
#include <zstd_errors.h>
#include <limits.h>
#include <zlib.h>
#include <lz4.h>
#include <bzlib.h>

#include "base/arithmetic.h"
#include "base/pool.h"

#define POLL_PARTS 64 /* parts, of any size, between two polls of the host for cancellation */

typedef struct part_sizes {
  uint32_t metadata_parts, parts; /* numbers of metadata parts, and of all parts */
  uint64_t metadata, data; /* original sizes in bytes */
} part_sizes;

static int read_sizes(const tsr_filter_context *context, tsr_input *metadata, const tsr_input *data, part_sizes *sizes,
                      tsr_input *records, tsr_error *error) {
  uint32_t metadata_parts = tsr__input_u32(metadata), data_parts = tsr__input_u32(metadata);
  uint64_t parts = (uint64_t)metadata_parts + data_parts, compressed = 0;
  if (metadata->failed || !tsr__input_fits(metadata, parts, 8))
    return tsr__fail(error, TSR_CORRUPT, "%llu parts of metadata and data are listed in %llu bytes of metadata",
                     (unsigned long long)parts, (unsigned long long)metadata->size);
  *records = *metadata;
  *sizes = (part_sizes){metadata_parts, (uint32_t)parts, 0, 0};
  for (uint64_t i = 0; i < parts; i++) {
    uint32_t original = tsr__input_u32(metadata);
    compressed += tsr__input_u32(metadata);
    *(i < metadata_parts ? &sizes->metadata : &sizes->data) += original;
  }
  if (compressed != tsr__input_left(data))
    return tsr__fail(error, TSR_CORRUPT, "expected %llu compressed bytes, found %llu", (unsigned long long)compressed,
                     (unsigned long long)tsr__input_left(data));
  if (sizes->metadata > context->most)
    return tsr__fail(error, TSR_CORRUPT, "metadata size %llu exceeds the limit of %llu",
                     (unsigned long long)sizes->metadata, (unsigned long long)context->most);
  return TSR_OK;
}

int tsr__compress_decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                         tsr_part *data_out, tsr_error *error) {
  part_sizes sizes;
  tsr_input records;
  TSR_TRY(read_sizes(context, metadata, &data, &sizes, &records, error));
  uint8_t *out;
  TSR_TRY(tsr__filter_room(context, sizes.data, &out, error));
  uint8_t *earlier = out; /* unused if there is no metadata of earlier filters */
  if (sizes.metadata > 0) TSR_TRY(TSR_ARENA_RAW(context->arena, sizes.metadata, &earlier, error));
  *metadata_out = (tsr_part){earlier, sizes.metadata};
  *data_out = (tsr_part){out, sizes.data};
  uint8_t *to = earlier;
  for (uint32_t i = 0; i < sizes.parts; i++) {
    if (i == sizes.metadata_parts) to = out;
    uint32_t original = tsr__input_u32(&records), compressed = tsr__input_u32(&records);
    const uint8_t *from = tsr__input_take(&data, compressed);
    if (original == 0) continue;
    if (i % POLL_PARTS == POLL_PARTS - 1) TSR_TRY(tsr__cancelled(context->arena->memory, error));
    int rc = context->codec->decompress(context, from, compressed, to, original, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, sizes.parts);
    to += original;
  }
  return TSR_OK;
}

static int compress_add_bound(const tsr_filter_context *context, const tsr_part *parts, uint32_t count, uint64_t *sum,
                              tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    if (parts[i].size > UINT32_MAX)
      return tsr__fail(error, TSR_TOOBIG, "%llu bytes in one part: the format allows 4,294,967,295",
                       (unsigned long long)parts[i].size);
    *sum = tsr__add_sat(*sum, context->codec->bound(context, parts[i].size));
  }
  return TSR_OK;
}

typedef struct compress_writer {
  uint8_t *record, *to;
} compress_writer;

static int compress_parts(const tsr_filter_context *context, const tsr_part *parts, uint32_t count, compress_writer *w,
                          tsr_error *error) {
  const tsr_codec *codec = context->codec;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t size = codec->bound(context, parts[i].size);
    TSR_TRY(codec->compress(context, parts[i].data, parts[i].size, w->to, &size, error));
    if (size > UINT32_MAX)
      return tsr__fail(error, TSR_TOOBIG, "%llu compressed bytes in one part: the format allows 4,294,967,295",
                       (unsigned long long)size);
    tsr__store32(w->record, (uint32_t)parts[i].size);
    tsr__store32(w->record + 4, (uint32_t)size);
    w->record += 8;
    w->to += size;
  }
  return TSR_OK;
}

int tsr__compress_encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  uint64_t bound = 0;
  TSR_TRY(compress_add_bound(context, in->metadata, in->metadata_count, &bound, error));
  TSR_TRY(compress_add_bound(context, in->data, in->data_count, &bound, error));
  tsr_chunk made = {0};
  uint64_t parts = (uint64_t)in->metadata_count + in->data_count;
  TSR_TRY(tsr__filter_part(context, 8 + 8 * parts, &made.metadata, &made.metadata_count, error));
  TSR_TRY(tsr__filter_part(context, bound, &made.data, &made.data_count, error));
  tsr__store32(made.metadata->data, in->metadata_count);
  tsr__store32(made.metadata->data + 4, in->data_count);
  compress_writer w = {made.metadata->data + 8, made.data->data};
  TSR_TRY(compress_parts(context, in->metadata, in->metadata_count, &w, error));
  TSR_TRY(compress_parts(context, in->data, in->data_count, &w, error));
  made.data->size = (uint64_t)(w.to - made.data->data);
  *out = made;
  return TSR_OK;
}

/* ---- The pool of idle contexts ---------------------------------------------------------------
 *
 * Threads take and return contexts by one atomic exchange each, so no lock is held when the process forks.
 */

#define IDLE_CONTEXT_MAX (192u << 10) /* bytes of the largest context that is kept */

/* Takes a context from the slots of one kind. Returns NULL if there is none. `size` returns the bytes that are charged
 * for an idle context. */
static void *context_take(tsr_memory *root, _Atomic(void *) *slots, size_t (*size)(const void *)) {
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    if (!atomic_load_explicit(&slots[i], memory_order_relaxed)) continue;
    void *context = atomic_exchange_explicit(&slots[i], NULL, memory_order_acq_rel);
    if (!context) continue;
    tsr__memory_release(root, size(context));
    return context;
  }
  return NULL;
}

/* Puts a context of `size` bytes into a slot of its kind. Returns false if the caller must free it. */
static bool context_return(tsr_memory *root, _Atomic(void *) *slots, void *context, uint64_t size) {
  if (size > IDLE_CONTEXT_MAX || tsr__memory_charge(root, size, NULL) < 0) return false;
  for (unsigned i = 0; i < TSR_CONTEXT_POOL_SLOTS; i++) {
    void *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&slots[i], &none, context, memory_order_acq_rel, memory_order_relaxed))
      return true;
  }
  tsr__memory_release(root, size);
  return false;
}

static void zstd_free_idle(tsr_memory *root);

static void gzip_free_idle(tsr_memory *root);

void tsr__context_pool_release(tsr_memory *root) {
  zstd_free_idle(root);
  gzip_free_idle(root);
}

/* ---- Zstd ------------------------------------------------------------------------------------
 *
 * Each part is one zstd frame. A level below -7 means 3; other levels are zstd's own, so TileDB's default of -1 is one
 * of zstd's fast modes. All format versions.
 */

#define DEFAULT_LEVEL 3
#define MIN_LEVEL     (-7)
/* table_bits() chooses the size of zstd's hash table for chunks up to this size, at these levels. */
#define TABLE_CHUNK_MAX   65536
#define TABLE_LEVEL_FIRST 4
#define TABLE_LEVEL_LAST  12
#define TABLE_BITS_MIN    10
#define ZSTD_STEP         (4u << 20) /* decoded bytes between two polls for cancellation */
/* The largest window in bytes that zstd's streaming decoder accepts by default. */
#define WINDOW_MAX   (UINT64_C(1) << 27)
#define STREAM_BYTES (UINT64_C(1) << 19) /* bytes that the streaming decoder allocates besides the window, at most */

/* The contexts of one tile. Creating a context takes longer than decoding a small chunk, so one context serves all
 * chunks of a tile and then goes to the pool. */
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
  ZSTD_DCtx *context = root->contexts ? context_take(root, root->contexts->decoders, decoder_size) : NULL;
  return context ? context : ZSTD_createDCtx();
}

static ZSTD_CCtx *make_encoder(tsr_memory *memory) {
  tsr_memory *root = tsr__memory_root(memory);
  ZSTD_CCtx *context = root->contexts ? context_take(root, root->contexts->encoders, encoder_size) : NULL;
  return context ? context : ZSTD_createCCtx();
}

static void zstd_release(void *pointer) {
  zstd_state *s = pointer;
  tsr_memory *root = tsr__memory_root(s->memory);
  tsr_context_pool *contexts = root->contexts;
  tsr__memory_release(s->memory, s->charged);
  if (s->decoder && !(contexts && context_return(root, contexts->decoders, s->decoder, decoder_size(s->decoder))))
    ZSTD_freeDCtx(s->decoder);
  if (s->encoder && !(contexts && context_return(root, contexts->encoders, s->encoder, encoder_size(s->encoder))))
    ZSTD_freeCCtx(s->encoder);
  tsr__free(s);
}

/* Frees zstd's idle contexts. */
static void zstd_free_idle(tsr_memory *root) {
  void *context;
  while ((context = context_take(root, root->contexts->decoders, decoder_size))) ZSTD_freeDCtx(context);
  while ((context = context_take(root, root->contexts->encoders, encoder_size))) ZSTD_freeCCtx(context);
}

/* ---- Contexts in use ------------------------------------------------------------------------- */

/* Charges the present size of a context. zstd allocates the memory itself and grows it in use, so the charge comes
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
 * keeps a copy of the window. */
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
                                         size); /* even after a failed decode_in_steps, to find the cause */
  if (ZSTD_isError(got)) return fail_zstd(got, TSR_CORRUPT, error);
  if (got != out_size)
    return tsr__fail(error, TSR_CORRUPT, "zstd decoded %llu bytes, expected %llu", (unsigned long long)got,
                     (unsigned long long)out_size);
  return TSR_OK;
}

static uint64_t zstd_bound(const tsr_filter_context *context, uint64_t size) { return ZSTD_compressBound(size); }

/* Returns the binary logarithm of the size of zstd's hash table, or 0 to let zstd choose. For small chunks at medium
 * levels zstd chooses two entries per byte. One entry per byte compresses as well, and the table stays in the
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

/* ---- Gzip ------------------------------------------------------------------------------------
 *
 * What TileDB calls gzip: each part is one zlib stream (RFC 1950), not a gzip file. A level below 0 is zlib's default.
 * All format versions.
 */

#define GZIP_STEP (4u << 20) /* bytes read or written between two polls for cancellation */

/* A zlib stream for one tile, reset for each part. Inflating streams then go to the pool. */
typedef struct gzip_state {
  z_stream stream;
  bool inflates, started;
  tsr_memory *memory; /* pays for the stream; for an inflating stream, a root */
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
  if (!s->inflates || !contexts || !context_return(s->memory, contexts->inflaters, s, 0)) gzip_free(s);
}

static void gzip_free_idle(tsr_memory *root) {
  gzip_state *s;
  while ((s = context_take(root, root->contexts->inflaters, charged_when_idle))) gzip_free(s);
}

static int gzip_get_state(const tsr_filter_context *context, bool inflates, gzip_state **out, tsr_error *error) {
  tsr_memory *memory = inflates ? tsr__memory_root(context->arena->memory) : context->arena->memory;
  gzip_state *s = *context->state;
  if (!s && inflates && memory->contexts) s = context_take(memory, memory->contexts->inflaters, charged_when_idle);
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

/* ---- Lz4 -------------------------------------------------------------------------------------
 *
 * Each part is one raw lz4 block, without an lz4 frame. The level is ignored. An empty part is stored as one zero byte.
 * All format versions.
 */

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
  /* lz4 requires a pointer even if the size is 0. */
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

/* ---- Bzip2 -----------------------------------------------------------------------------------
 *
 * Each part is one bzip2 stream. The level is the block size in units of 100,000 bytes; a level below 1 means 1. All
 * format versions.
 */

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

/* According to bzip2's manual, the output may be one percent and 600 bytes larger. */
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
