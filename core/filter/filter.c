/* filter.c: encodes and decodes tiles through their filter pipelines.
 *
 * A tile is stored as u64 number of chunks, then for each chunk
 *   u32 original size | u32 filtered size | u32 metadata size | metadata | filtered data
 * Each chunk passes through the pipeline separately. To encode it, the first filter gets the chunk's bytes and no
 * metadata, and each filter passes metadata and data to the next. If there is a key, AES-256-GCM comes last; generic
 * tiles list it in their pipeline, schemas do not. To decode it, the filters run from the last to the first. Each
 * filter reads its own metadata from the beginning of the metadata, and after the first filter no metadata is left.
 * Without filters the filtered data is the chunk's bytes.
 *
 * Invariants: The original sizes add up to the size of the tile. From version 11 on, chunks hold whole cells. A chunk
 * of original size 0 is empty, even if it has data, because some writers left half a stream there. A tile whose offsets
 * are within its data is one chunk, and its offsets tile has no chunks.
 *
 * Order: the table of filters; a pipeline in use; decoding; encoding.
 */
#include "filter/filter.h"
#include "filter/filter_version.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"

#define CHUNK_HEADER       12u
#define POLL_CHUNKS        64u /* chunks, of any size, after which the host is polled for cancellation, */
#define FILTER_POLL_BYTES  (4u << 20) /* or bytes */
#define LISTED_CHUNK_LEAST 4096u /* mean size in bytes of the chunks of a tile whose headers are read one by one */
#define FEW_STAGES         4u /* up to this many filters need no allocation */

/* ---- The table of filters -------------------------------------------------------------------- */

/* TSR_FILTER_NONE passes the data through unchanged. Older arrays may have it among other filters. */
static int decode_none(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                       tsr_part *data_out, tsr_error *error) {
  *data_out = (tsr_part){(uint8_t *)data.data, data.size};
  return TSR_OK;
}
static int encode_none(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  *out = *in;
  return TSR_OK;
}
static const tsr_filter_methods none = {
    .type = TSR_FILTER_NONE, .name = "none", .decode = decode_none, .encode = encode_none};

static const tsr_filter_methods *const filter_registry[] = {
    [TSR_FILTER_NONE] = &none,
    [TSR_FILTER_GZIP] = &tsr__filter_gzip,
    [TSR_FILTER_ZSTD] = &tsr__filter_zstd,
    [TSR_FILTER_LZ4] = &tsr__filter_lz4,
    [TSR_FILTER_RLE] = &tsr__filter_rle,
    [TSR_FILTER_BZIP2] = &tsr__filter_bzip2,
    [TSR_FILTER_DOUBLE_DELTA] = &tsr__filter_double_delta,
    [TSR_FILTER_BIT_WIDTH_REDUCTION] = &tsr__filter_bit_width_reduction,
    [TSR_FILTER_BITSHUFFLE] = &tsr__filter_bitshuffle,
    [TSR_FILTER_BYTESHUFFLE] = &tsr__filter_byteshuffle,
    [TSR_FILTER_POSITIVE_DELTA] = &tsr__filter_positive_delta,
    [TSR_FILTER_AES_256_GCM] = &tsr__filter_aes,
    [TSR_FILTER_MD5] = &tsr__filter_md5,
    [TSR_FILTER_SHA256] = &tsr__filter_sha256,
    [TSR_FILTER_DICTIONARY] = &tsr__filter_dictionary,
    [TSR_FILTER_SCALE_FLOAT] = &tsr__filter_scale_float,
    [TSR_FILTER_XOR] = &tsr__filter_xor,
    [TSR_FILTER_DELTA] = &tsr__filter_delta,
};

static const tsr_filter_methods *methods_of(tsr_filter_type type) {
  return (unsigned)type < sizeof filter_registry / sizeof *filter_registry ? filter_registry[type] : NULL;
}

const char *tsr__filter_name(tsr_filter_type type) {
  if (type == TSR_FILTER_WEBP) return "webp";
  const tsr_filter_methods *methods = methods_of(type);
  return methods ? methods->name : NULL;
}

tsr_datatype tsr__filter_gives(const tsr_filter *filter, tsr_datatype datatype) {
  uint64_t size;
  switch (filter->type) {
  case TSR_FILTER_SCALE_FLOAT: size = filter->byte_width; break;
  case TSR_FILTER_XOR: size = tsr_datatype_size(datatype); break;
  case TSR_FILTER_DELTA:
  case TSR_FILTER_DOUBLE_DELTA: return filter->reinterpret == TSR_ANY ? datatype : (tsr_datatype)filter->reinterpret;
  default: return datatype;
  }
  return size == 1 ? TSR_INT8 : size == 2 ? TSR_INT16 : size == 4 ? TSR_INT32 : TSR_INT64;
}

/* ---- A pipeline in use ----------------------------------------------------------------------- */

typedef struct filter_stage {
  const tsr_filter *filter;
  const tsr_filter_methods *methods;
  tsr_datatype datatype; /* of the values that the filter gets when encoding */
  uint64_t most; /* upper bound for the bytes of the present chunk that the filter got when it encoded */
  void *state;
} filter_stage;

typedef struct filter_run {
  const tsr_tile_shape *shape;
  tsr_strings *strings; /* for the first filter, or NULL */
  tsr_filter aes;
  filter_stage *stages; /* `few`, or owned */
  filter_stage few[FEW_STAGES];
  uint32_t count;
  tsr_arena arena; /* reset for each chunk */
  uint64_t chunks, bytes; /* decoded since the host was polled */
} filter_run;

static void close_run(filter_run *r) {
  for (uint32_t i = 0; i < r->count; i++)
    if (r->stages[i].state) r->stages[i].methods->release(r->stages[i].state);
  if (r->stages != r->few) tsr__free(r->stages);
  tsr__arena_release(&r->arena);
}

/* Prepares a pipeline for one tile. After a failure there is nothing to close. */
static int open_run(filter_run *r, const tsr_pipeline *pipeline, const tsr_tile_shape *shape, tsr_strings *strings,
                    tsr_memory *memory, tsr_error *error) {
  bool encrypts = false;
  for (uint32_t i = 0; i < pipeline->count; i++) {
    if (!methods_of(pipeline->filters[i].type))
      return tsr__fail(error, TSR_UNSUPPORTED, "filter type %u", (unsigned)pipeline->filters[i].type);
    encrypts = encrypts || pipeline->filters[i].type == TSR_FILTER_AES_256_GCM;
  }
  if (encrypts && !shape->key) return tsr__fail(error, TSR_AUTH, "the tile is encrypted: a key is needed");
  uint32_t count = pipeline->count + (shape->key && !encrypts);
  filter_stage *stages = r->few;
  if (count > FEW_STAGES) TSR_TRY(TSR_ALLOC_ARRAY(memory, count, &stages, error));
  r->shape = shape;
  r->strings = strings;
  r->aes = (tsr_filter){.type = TSR_FILTER_AES_256_GCM};
  r->stages = stages;
  r->count = count;
  r->chunks = r->bytes = 0;
  tsr__arena_init(&r->arena, memory);
  tsr_datatype datatype = shape->datatype;
  for (uint32_t i = 0; i < count; i++) {
    const tsr_filter *filter = i < pipeline->count ? &pipeline->filters[i] : &r->aes;
    r->stages[i] = (filter_stage){.filter = filter, .methods = methods_of(filter->type), .datatype = datatype};
    datatype = tsr__filter_gives(filter, datatype);
  }
  return TSR_OK;
}

static tsr_filter_context context_of(filter_run *r, uint32_t i, uint8_t *target) {
  filter_stage *s = &r->stages[i];
  return (tsr_filter_context){.filter = s->filter,
                              .shape = r->shape,
                              .datatype = s->datatype,
                              .arena = &r->arena,
                              .most = s->most,
                              .target = target,
                              .strings = i == 0 ? r->strings : NULL,
                              .codec = s->methods->codec,
                              .state = &s->state};
}

int tsr__filter_room(const tsr_filter_context *context, uint64_t size, uint8_t **data, tsr_error *error) {
  if (context->target) {
    if (size != context->most)
      return tsr__fail(error, TSR_CORRUPT, "decoded size %llu, but the chunk has %llu bytes", (unsigned long long)size,
                       (unsigned long long)context->most);
    *data = context->target;
    return TSR_OK;
  }
  if (size > context->most)
    return tsr__fail(error, TSR_CORRUPT, "decoded size %llu exceeds the limit of %llu", (unsigned long long)size,
                     (unsigned long long)context->most);
  TSR_TRY(TSR_ARENA_RAW(context->arena, size, data, error));
  return TSR_OK;
}

int tsr__filter_part(const tsr_filter_context *context, uint64_t size, tsr_part **parts, uint32_t *count,
                     tsr_error *error) {
  tsr_part *part;
  uint8_t *data;
  TSR_TRY(TSR_ARENA_RAW(context->arena, 1, &part, error));
  TSR_TRY(TSR_ARENA_RAW(context->arena, size, &data, error));
  *parts = part;
  **parts = (tsr_part){data, size};
  *count = 1;
  return TSR_OK;
}

int tsr__filter_prepend(const tsr_filter_context *context, const tsr_chunk *in, uint64_t size, tsr_chunk *out,
                        tsr_error *error) {
  tsr_part *parts;
  uint8_t *data;
  TSR_TRY(TSR_ARENA_ARRAY(context->arena, (uint64_t)in->metadata_count + 1, &parts, error));
  TSR_TRY(TSR_ARENA_RAW(context->arena, size, &data, error));
  out->metadata = parts;
  out->metadata[0] = (tsr_part){data, size};
  for (uint32_t i = 0; i < in->metadata_count; i++) out->metadata[i + 1] = in->metadata[i];
  out->metadata_count = in->metadata_count + 1;
  return TSR_OK;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* Returns the largest number of bytes of metadata and data that this filter of a correct writer can make of `total`
 * bytes. A chunk with more is a decompression bomb. */
static uint64_t most_after(const filter_run *r, const filter_stage *s, uint64_t total) {
  uint64_t more = total / 16, size = TSR_MAX(r->shape->cell_size, 1); /* compressors add less than a sixteenth */
  switch (s->filter->type) {
  case TSR_FILTER_RLE:
  /* Each cell may be a run, or an entry with lengths of 8 bytes; the number of cells may be unknown. */
  case TSR_FILTER_DICTIONARY:
    if (r->strings) more = tsr__mul_sat(r->strings->cells, 16);
    else if (s->datatype == TSR_ASCII || s->datatype == TSR_UTF8) more = tsr__add_sat(tsr__mul_sat(total, 16), 1 << 24);
    else more = tsr__mul_sat(total / size + 1, 2);
    break;
  case TSR_FILTER_BIT_WIDTH_REDUCTION:
  case TSR_FILTER_POSITIVE_DELTA: /* up to 13 bytes per window of whole values */
    more = tsr__mul_sat(s->filter->window < 8 ? total : total / (s->filter->window / 2) + 1, 13);
    break;
  case TSR_FILTER_SCALE_FLOAT: more = total; break; /* integers of 8 bytes for floats of 4 */
  default: break;
  }
  return tsr__add_sat(tsr__add_sat(total, more), 4096 + 64 * (uint64_t)r->count); /* and a record per part */
}

typedef struct stored_chunk {
  uint32_t original;
  tsr_input metadata, data;
} stored_chunk;

static int read_chunk(tsr_input *in, stored_chunk *chunk, tsr_error *error) {
  chunk->original = tsr__input_u32(in);
  uint32_t filtered = tsr__input_u32(in), metadata = tsr__input_u32(in);
  chunk->metadata = tsr__input(tsr__input_take(in, metadata), metadata);
  chunk->data = tsr__input(tsr__input_take(in, filtered), filtered);
  if (in->failed)
    return tsr__fail(error, TSR_CORRUPT, "%u bytes of metadata and %u of data do not fit: byte %llu of %llu", metadata,
                     filtered, (unsigned long long)in->at, (unsigned long long)in->size);
  return TSR_OK;
}

static int read_chunk_count(tsr_input *in, uint64_t *count, tsr_error *error) {
  *count = tsr__input_u64(in);
  if (in->failed || !tsr__input_fits(in, *count, CHUNK_HEADER))
    return tsr__fail(error, TSR_CORRUPT, "a tile of %llu bytes names %llu chunks", (unsigned long long)in->size,
                     (unsigned long long)*count);
  return TSR_OK;
}

static int check_chunk_end(const stored_chunk *chunk, tsr_error *error) {
  if (chunk->data.size != chunk->original)
    return tsr__fail(error, TSR_CORRUPT, "decoded size %llu, but the chunk has %u bytes",
                     (unsigned long long)chunk->data.size, chunk->original);
  if (tsr__input_left(&chunk->metadata) > 0)
    return tsr__fail(error, TSR_CORRUPT, "%llu of %llu bytes of metadata belong to no filter",
                     (unsigned long long)tsr__input_left(&chunk->metadata), (unsigned long long)chunk->metadata.size);
  return TSR_OK;
}

/* Decodes a chunk by one filter: replaces `chunk` by the output, which is the input for the filter before it. */
static int decode_stage(filter_run *r, uint32_t i, stored_chunk *chunk, uint8_t *target, tsr_error *error) {
  const filter_stage *s = &r->stages[i];
  tsr_filter_context context = context_of(r, i, target);
  tsr_part metadata = {0}, data = {0};
  TSR_TRY(s->methods->decode(&context, &chunk->metadata, chunk->data, &metadata, &data, error));
  TSR_TRY(tsr__input_check(&chunk->metadata, "its metadata", error));
  if (metadata.data) {
    if (tsr__input_left(&chunk->metadata) > 0)
      return tsr__fail(error, TSR_CORRUPT, "%llu of %llu bytes of metadata belong to no filter",
                       (unsigned long long)tsr__input_left(&chunk->metadata), (unsigned long long)chunk->metadata.size);
    chunk->metadata = tsr__input(metadata.data, metadata.size);
  }
  chunk->data = tsr__input(data.data, data.size);
  return TSR_OK;
}

static int decode_chunk(filter_run *r, stored_chunk chunk, uint8_t *out, tsr_error *error) {
  uint64_t most = chunk.original;
  if (r->chunks >= POLL_CHUNKS || r->bytes >= FILTER_POLL_BYTES) {
    TSR_TRY(tsr__cancelled(r->arena.memory, error));
    r->chunks = r->bytes = 0;
  }
  r->chunks++;
  r->bytes += chunk.original;
  for (uint32_t i = 0; i < r->count; i++) {
    r->stages[i].most = most;
    most = most_after(r, &r->stages[i], most);
  }
  for (uint32_t i = r->count; i-- > 0;) {
    int rc = chunk.original >= FILTER_POLL_BYTES ? tsr__cancelled(r->arena.memory, error) : TSR_OK;
    if (rc == TSR_OK) rc = decode_stage(r, i, &chunk, i == 0 ? out : NULL, error);
    if (rc < 0) return tsr__wrap(error, "filter %s", r->stages[i].methods->name);
  }
  TSR_TRY(check_chunk_end(&chunk, error));
  if (chunk.data.data != out) memcpy(out, chunk.data.data, chunk.original);
  return TSR_OK;
}

/* The chunks of a whole tile, one after the other. */
typedef struct chunk_walk {
  tsr_input input;
  uint64_t count, next; /* chunks */
  uint64_t at, end; /* bytes, decoded: before the next chunk, and of the tile */
} chunk_walk;

static int walk_begin(chunk_walk *w, const uint8_t *in, uint64_t in_size, uint64_t out_size, tsr_error *error) {
  *w = (chunk_walk){.input = tsr__input(in, in_size), .end = out_size};
  return read_chunk_count(&w->input, &w->count, error);
}

/* Returns 1 and the next chunk; 0 behind the last one. TSR_CORRUPT unless the chunks hold the tile exactly. */
static int walk_next(chunk_walk *w, stored_chunk *chunk, tsr_error *error) {
  if (w->next == w->count) {
    if (w->at == w->end && tsr__input_left(&w->input) == 0) return 0;
    return tsr__fail(error, TSR_CORRUPT, "%llu chunks hold %llu bytes, not %llu, and end at byte %llu of %llu",
                     (unsigned long long)w->count, (unsigned long long)w->at, (unsigned long long)w->end,
                     (unsigned long long)w->input.at, (unsigned long long)w->input.size);
  }
  int rc = read_chunk(&w->input, chunk, error);
  if (rc >= 0 && chunk->original > w->end - w->at)
    rc = tsr__fail(error, TSR_CORRUPT, "%u bytes at byte %llu of a tile of %llu", chunk->original,
                   (unsigned long long)w->at, (unsigned long long)w->end);
  if (rc < 0) return tsr__wrap(error, "chunk %llu", (unsigned long long)w->next);
  w->at += chunk->original;
  w->next++;
  return 1;
}

/* Decodes all chunks, but leaves bytes of `out` as they are that chunks within [known, known_end) would decode to. */
static int decode_tile(filter_run *r, const uint8_t *in, uint64_t in_size, uint64_t known, uint64_t known_end,
                       uint8_t *out, uint64_t out_size, tsr_error *error) {
  chunk_walk w;
  stored_chunk chunk;
  int rc;
  TSR_TRY(walk_begin(&w, in, in_size, out_size, error));
  if (r->strings && w.count > 1)
    return tsr__fail(error, TSR_CORRUPT, "%llu chunks: strings with their offsets have one",
                     (unsigned long long)w.count);
  while ((rc = walk_next(&w, &chunk, error)) > 0) {
    const uint64_t at = w.at - chunk.original;
    const bool is_known = at >= known && w.at <= known_end;
    if (chunk.original > 0 && !is_known && decode_chunk(r, chunk, out + at, error) < 0)
      return tsr__wrap(error, "chunk %llu", (unsigned long long)(w.next - 1));
    tsr__arena_reset(&r->arena);
  }
  return rc;
}

int tsr__pipeline_chunks(const uint8_t *in, uint64_t in_size, uint64_t from, uint64_t end, uint64_t *first,
                         uint64_t *last, tsr_error *error) {
  tsr_input input = tsr__input(in, in_size);
  uint64_t chunks, at = 0, low = 0, high = 0;
  TSR_TRY(read_chunk_count(&input, &chunks, error));
  for (uint64_t i = 0; i < chunks && at < end; i++) {
    stored_chunk chunk;
    if (read_chunk(&input, &chunk, error) < 0) return tsr__wrap(error, "chunk %llu", (unsigned long long)i);
    if (at + chunk.original <= from) low = at + chunk.original;
    at += chunk.original;
    high = at;
  }
  *first = low;
  *last = high;
  return TSR_OK;
}

int tsr__pipeline_list_chunks(tsr_stored_read read, void *argument, uint64_t in_size, tsr_chunk_size *sizes,
                              uint32_t *count, tsr_error *error) {
  uint8_t header[CHUNK_HEADER];
  uint64_t at = sizeof(uint64_t);
  *count = 0;
  if (in_size < at) return TSR_OK;
  TSR_TRY(read(argument, 0, header, sizeof(uint64_t), error));
  const uint64_t chunks = tsr__load64(header);
  if (chunks == 0 || chunks > TSR_CHUNKS_LISTED || in_size / chunks < LISTED_CHUNK_LEAST) return TSR_OK;
  for (uint64_t i = 0; i < chunks; i++) {
    if (in_size - at < CHUNK_HEADER) return TSR_OK;
    TSR_TRY(read(argument, at, header, CHUNK_HEADER, error));
    const uint64_t stored = CHUNK_HEADER + (uint64_t)tsr__load32(header + 4) + tsr__load32(header + 8);
    if (stored > in_size - at || stored > UINT32_MAX) return TSR_OK;
    sizes[i] = (tsr_chunk_size){tsr__load32(header), (uint32_t)stored};
    at += stored;
  }
  if (at == in_size) *count = (uint32_t)chunks;
  return TSR_OK;
}

tsr_chunk_range tsr__pipeline_find_chunks(const tsr_chunk_size *sizes, uint32_t count, uint64_t from, uint64_t end) {
  tsr_chunk_range range = {0};
  uint64_t at = sizeof(uint64_t);
  for (uint32_t i = 0; i < count; at += sizes[i].stored, range.total += sizes[i].original, i++) {
    if (range.total + sizes[i].original <= from || range.total >= end) continue;
    if (range.count++ == 0) {
      range.at = at;
      range.first = range.total;
    }
    range.size = at + sizes[i].stored - range.at;
    range.last = range.total + sizes[i].original;
  }
  return range;
}

/* Returns true if some byte of [from, end) is needed. */
static bool is_needed(const tsr_needed_bytes *needed, uint64_t from, uint64_t end) {
  if (!needed->blocks) return true;
  if (from >= end) return false;
  const uint64_t first = (needed->at + from) / needed->block, last = (needed->at + end - 1) / needed->block;
  for (uint64_t b = first; b <= last; b++)
    if (needed->blocks[b]) return true;
  return false;
}

uint64_t tsr__pipeline_needs(const uint8_t *in, uint64_t in_size, uint64_t first, uint64_t last,
                             const tsr_needed_bytes *needed) {
  tsr_input input = tsr__input(in, in_size);
  uint64_t chunks, at = 0, sum = 0;
  if (read_chunk_count(&input, &chunks, NULL) < 0) return UINT64_MAX;
  for (uint64_t i = 0; i < chunks && at < last; i++) {
    stored_chunk chunk;
    if (read_chunk(&input, &chunk, NULL) < 0 || chunk.original > last - at) return UINT64_MAX;
    if (at >= first && is_needed(needed, at, at + chunk.original)) sum += chunk.original;
    at += chunk.original;
  }
  return sum;
}

static int decode_part(filter_run *r, const uint8_t *in, uint64_t in_size, uint64_t first, uint64_t last,
                       const tsr_needed_bytes *needed, uint8_t *out, tsr_error *error) {
  tsr_input input = tsr__input(in, in_size);
  uint64_t chunks, at = 0;
  TSR_TRY(read_chunk_count(&input, &chunks, error));
  for (uint64_t i = 0; i < chunks && at < last; i++) {
    stored_chunk chunk;
    int rc = read_chunk(&input, &chunk, error);
    if (rc == TSR_OK && at >= first && chunk.original > 0) {
      if (chunk.original > last - at)
        rc = tsr__fail(error, TSR_CORRUPT, "%u bytes at byte %llu, %llu were expected", chunk.original,
                       (unsigned long long)at, (unsigned long long)(last - at));
      if (rc == TSR_OK && is_needed(needed, at, at + chunk.original))
        rc = decode_chunk(r, chunk, out + (at - first), error);
      tsr__arena_reset(&r->arena);
    }
    if (rc < 0) return tsr__wrap(error, "chunk %llu", (unsigned long long)i);
    at += chunk.original;
  }
  if (at == last) return TSR_OK;
  return tsr__fail(error, TSR_CORRUPT, "%llu chunks hold %llu bytes instead of %llu", (unsigned long long)chunks,
                   (unsigned long long)at, (unsigned long long)last);
}

int tsr__pipeline_decode_part(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t first, uint64_t last, const tsr_needed_bytes *needed,
                              uint8_t *out, tsr_memory *memory, tsr_error *error) {
  static const tsr_needed_bytes all = {0};
  filter_run r;
  TSR_TRY(open_run(&r, pipeline, shape, NULL, memory, error));
  int rc = decode_part(&r, in, in_size, first, last, needed ? needed : &all, out, error);
  close_run(&r);
  return rc;
}

typedef struct cell_stream { /* decoded bytes on their way to the function that takes cells */
  uint8_t *scratch; /* owned */
  uint64_t capacity, held; /* bytes; `held`: of a cell whose other bytes are in the next chunk */
  uint64_t at; /* number of the first cell in `scratch` */
  tsr_cells_take take;
  void *argument;
} cell_stream;

/* Decodes the next chunk and passes on the cells that are complete with it. */
static int stream_chunk(filter_run *r, cell_stream *s, stored_chunk chunk, tsr_error *error) {
  const uint64_t cell = r->shape->cell_size, bytes = s->held + chunk.original, count = bytes / cell;
  if (bytes > s->capacity) {
    TSR_TRY(TSR_REALLOC_ARRAY(r->arena.memory, bytes, &s->scratch, error));
    s->capacity = bytes;
  }
  TSR_TRY(decode_chunk(r, chunk, s->scratch + s->held, error));
  if (count > 0) TSR_TRY(s->take(s->argument, s->at, count, s->scratch, error));
  s->at += count;
  s->held = bytes - count * cell;
  if (s->held > 0 && count > 0) memmove(s->scratch, s->scratch + count * cell, s->held);
  return TSR_OK;
}

static int stream_tile(filter_run *r, cell_stream *s, const uint8_t *in, uint64_t in_size, uint64_t cells,
                       uint64_t from, uint64_t end, tsr_error *error) {
  const uint64_t cell = r->shape->cell_size;
  chunk_walk w;
  stored_chunk chunk;
  int rc;
  TSR_TRY(walk_begin(&w, in, in_size, tsr__mul_sat(cells, cell), error));
  while ((rc = walk_next(&w, &chunk, error)) > 0) {
    const uint64_t count = chunk.original / cell;
    if (s->held == 0 && count * cell == chunk.original && (s->at + count <= from || s->at >= end)) s->at += count;
    else if (chunk.original > 0 && stream_chunk(r, s, chunk, error) < 0)
      return tsr__wrap(error, "chunk %llu", (unsigned long long)(w.next - 1));
    tsr__arena_reset(&r->arena);
  }
  return rc;
}

int tsr__pipeline_decode_each(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t cells, uint64_t from, uint64_t end, tsr_cells_take take,
                              void *argument, tsr_memory *memory, tsr_error *error) {
  filter_run r;
  cell_stream s = {.take = take, .argument = argument};
  TSR_TRY(open_run(&r, pipeline, shape, NULL, memory, error));
  const int rc = stream_tile(&r, &s, in, in_size, cells, from, end, error);
  tsr__free(s.scratch);
  close_run(&r);
  return rc;
}

static int filter_decode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, tsr_strings *strings,
                         const uint8_t *in, uint64_t in_size, uint8_t *out, uint64_t out_size, tsr_memory *memory,
                         tsr_error *error) {
  filter_run r;
  TSR_TRY(open_run(&r, pipeline, shape, strings, memory, error));
  int rc = decode_tile(&r, in, in_size, 0, 0, out, out_size, error);
  close_run(&r);
  return rc;
}

int tsr__pipeline_decode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         uint8_t *out, uint64_t out_size, tsr_memory *memory, tsr_error *error) {
  return filter_decode(pipeline, shape, NULL, in, in_size, out, out_size, memory, error);
}

int tsr__pipeline_decode_rest(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t known, uint64_t known_end, uint8_t *out, uint64_t out_size,
                              tsr_memory *memory, tsr_error *error) {
  filter_run r;
  TSR_TRY(open_run(&r, pipeline, shape, NULL, memory, error));
  int rc = decode_tile(&r, in, in_size, known, known_end, out, out_size, error);
  close_run(&r);
  return rc;
}

int tsr__pipeline_decode_strings(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                                 uint64_t in_size, uint8_t *out, uint64_t out_size, uint64_t *offsets, uint64_t cells,
                                 tsr_memory *memory, tsr_error *error) {
  tsr_strings strings = {offsets, cells};
  TSR_TRY(filter_decode(pipeline, shape, &strings, in, in_size, out, out_size, memory, error));
  if (out_size == 0) /* no filter ran, so nobody has set the offsets */
    for (uint64_t i = 0; i <= cells; i++) offsets[i] = 0;
  return TSR_OK;
}

bool tsr__pipeline_holds_offsets(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell,
                                 uint32_t version) {
  if (pipeline->count == 0 || values_per_cell != TSR_VARIABLE) return false;
  tsr_filter_type first = pipeline->filters[0].type;
  if (first != TSR_FILTER_RLE && first != TSR_FILTER_DICTIONARY) return false;
  return tsr__filter_version_holds_offsets(version, first, datatype);
}

int tsr__pipeline_original_size(const uint8_t *in, uint64_t in_size, uint64_t *size, tsr_error *error) {
  tsr_input input = tsr__input(in, in_size);
  uint64_t chunks, sum = 0;
  TSR_TRY(read_chunk_count(&input, &chunks, error));
  for (uint64_t i = 0; i < chunks; i++) {
    stored_chunk chunk;
    int rc = read_chunk(&input, &chunk, error);
    if (rc < 0) return tsr__wrap(error, "chunk %llu", (unsigned long long)i);
    sum += chunk.original;
  }
  *size = sum;
  return TSR_OK;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/* How a tile is divided into chunks. */
typedef struct chunker {
  uint64_t size, chunk; /* bytes of the tile; bytes of a full chunk */
  const uint64_t *offsets; /* of cells of variable size; NULL: cells of fixed size */
  uint64_t cell;
} chunker;

/* Returns the end of the chunk that begins at `start`. A chunk of variable-size cells takes cells until the next one
 * would make it larger than a full chunk. It takes that cell as well if the chunk is at most half full without it, or
 * at most one and a half times as large as a full chunk with it. */
static uint64_t chunk_end(chunker *c, uint64_t start) {
  if (!c->offsets) return c->size - start <= c->chunk ? c->size : start + c->chunk;
  while (c->offsets[c->cell] < c->size) {
    uint64_t before = c->offsets[c->cell] - start, after = c->offsets[c->cell + 1] - start;
    if (after > c->chunk) {
      if (before <= c->chunk / 2 || after <= c->chunk + c->chunk / 2) c->cell++;
      break;
    }
    c->cell++;
  }
  return c->offsets[c->cell];
}

static uint64_t parts_size(const tsr_part *parts, uint32_t count) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < count; i++) size = tsr__add_sat(size, parts[i].size);
  return size;
}

static int append_parts(tsr_buffer *out, const tsr_part *parts, uint32_t count, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) TSR_TRY(tsr__buffer_append(out, parts[i].data, parts[i].size, error));
  return TSR_OK;
}

static int encode_chunk(filter_run *r, const uint8_t *in, uint64_t size, tsr_buffer *out, tsr_error *error) {
  tsr_part first = {(uint8_t *)in, size}; /* the cast is safe: filters do not write to their input */
  tsr_chunk chunk = {.data = &first, .data_count = 1};
  for (uint32_t i = 0; i < r->count; i++) {
    tsr_filter_context context = context_of(r, i, NULL);
    tsr_chunk next = {0};
    int rc = r->stages[i].methods->encode(&context, &chunk, &next, error);
    if (rc < 0) return tsr__wrap(error, "filter %s", r->stages[i].methods->name);
    chunk = next;
  }
  uint64_t metadata = parts_size(chunk.metadata, chunk.metadata_count), data = parts_size(chunk.data, chunk.data_count);
  if (size > UINT32_MAX || metadata > UINT32_MAX || data > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes, filtered %llu + %llu: the format allows 4,294,967,295 in a chunk",
                     (unsigned long long)size, (unsigned long long)metadata, (unsigned long long)data);
  TSR_TRY(tsr__buffer_reserve(out, CHUNK_HEADER + metadata + data, error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)size, error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)data, error));
  TSR_TRY(tsr__buffer_append_u32(out, (uint32_t)metadata, error));
  TSR_TRY(append_parts(out, chunk.metadata, chunk.metadata_count, error));
  return append_parts(out, chunk.data, chunk.data_count, error);
}

static int encode_tile(filter_run *r, chunker *c, const uint8_t *in, tsr_buffer *out, tsr_error *error) {
  uint64_t at = out->size, chunks = 0, start = 0;
  TSR_TRY(tsr__buffer_append_u64(out, 0, error));
  do {
    uint64_t end = r->strings ? c->size : chunk_end(c, start);
    int rc = encode_chunk(r, in ? in + start : NULL, end - start, out, error); /* `in` may be NULL for an empty tile */
    if (rc < 0) return tsr__wrap(error, "chunk %llu", (unsigned long long)chunks);
    tsr__arena_reset(&r->arena);
    start = end;
    chunks++;
  } while (start < c->size);
  tsr__store64(out->data + at, chunks);
  return TSR_OK;
}

int tsr__pipeline_encode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         const uint64_t *offsets, uint64_t cells, tsr_buffer *out, tsr_error *error) {
  uint64_t cell = offsets ? 1 : TSR_MAX(shape->cell_size, 1), full = TSR_MIN(pipeline->max_chunk_size, UINT32_MAX);
  chunker c = {in_size, full == 0 ? TSR_MAX(in_size, 1) : TSR_MAX(full / cell * cell, cell), offsets, 0};
  tsr_strings strings = {(uint64_t *)offsets, cells}; /* the cast is safe: encoding only reads them */
  bool holds = offsets && tsr__pipeline_holds_offsets(pipeline, shape->datatype, TSR_VARIABLE, shape->version);
  uint64_t before = out->size;
  filter_run r;
  TSR_TRY(open_run(&r, pipeline, shape, holds ? &strings : NULL, out->memory, error));
  int rc = encode_tile(&r, &c, in, out, error);
  close_run(&r);
  if (rc < 0) out->size = before;
  return rc;
}
