/* filter.h: tiles through filter pipelines, forward (written) and backward (read). format.md, "Tiles" and "Filters".
 *
 * A tile on disk is u64 number of chunks, then for each chunk u32 original size, u32 filtered size, u32 metadata size,
 * metadata, filtered data. A pipeline runs over one chunk at a time: forward, each filter takes (metadata parts, data
 * parts) and gives new ones; backward, the last filter first. Only the tile functions below are seen by the format
 * layer; filter_*.c see the rest.
 */
#ifndef TSR_FILTER_H
#define TSR_FILTER_H

#include <stdatomic.h>

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_codec tsr_codec;

/* What a pipeline is run over. */
typedef struct tsr_tile_shape {
  tsr_datatype datatype; /* of the values: what the first filter takes them for */
  uint64_t cell_size; /* bytes; chunks hold whole cells (version 11 and later). Variable: the datatype's size */
  uint32_t version; /* format version of the fragment or object */
  const uint8_t *key; /* 32 bytes: AES-256-GCM runs last, whether or not the pipeline names it; NULL: not encrypted */
} tsr_tile_shape;

/* Backward: `in` is a tile as stored. `out` has room for exactly out_size bytes, which must be what the chunks hold in
 * all (TSR_CORRUPT if not). Scratch memory comes from `memory`. Messages say chunk number and filter. Thread-safe.
 * String tiles whose offsets live in the data (RLE or dictionary first in the pipeline of a variable string:
 * tsr__pipeline_holds_offsets) go through tsr__pipeline_decode_strings instead. */
int tsr__pipeline_decode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         uint8_t *out, uint64_t out_size, tsr_memory *memory, tsr_error *error);

/* Which chunks of a stored tile hold its bytes from..end, in memory: *first..*last is what they hold. */
int tsr__pipeline_chunks(const uint8_t *in, uint64_t in_size, uint64_t from, uint64_t end, uint64_t *first,
                         uint64_t *last, tsr_error *error);

/* Backward, only the chunks that hold the bytes first..last, as tsr__pipeline_chunks has them; `out` has room for them.
 */
int tsr__pipeline_decode_part(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t first, uint64_t last, uint8_t *out, tsr_memory *memory,
                              tsr_error *error);

/* Does this pipeline keep a variable string field's offsets inside the data? (RLE: ASCII from 12, UTF8 from 17;
 * dictionary: ASCII from 13, UTF8 from 17.) */
bool tsr__pipeline_holds_offsets(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell,
                                 uint32_t version);

/* Backward for those: gives the bytes of `cells` strings (out_size in all) and their cells + 1 offsets. */
int tsr__pipeline_decode_strings(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                                 uint64_t in_size, uint8_t *out, uint64_t out_size, uint64_t *offsets, uint64_t cells,
                                 tsr_memory *memory, tsr_error *error);

/* The size in memory of a stored tile: the sum of its chunks' original sizes, by walking the chunk headers only. */
int tsr__pipeline_original_size(const uint8_t *in, uint64_t in_size, uint64_t *size, tsr_error *error);

/* Forward: appends the stored tile to `out`. `offsets` (variable fields; cells + 1) lets chunks end between cells; NULL
 * for fixed. */
int tsr__pipeline_encode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         const uint64_t *offsets, uint64_t cells, tsr_buffer *out, tsr_error *error);

/* "zstd", "bit_width_reduction"...; NULL for an unknown type. */
const char *tsr__filter_name(tsr_filter_type type);

/* The datatype of the values that come out of a filter, forward. */
tsr_datatype tsr__filter_gives(const tsr_filter *filter, tsr_datatype datatype);

/* Contexts of zstd, each of which may take longer to make than its tile takes to decode: those that wait for the next one,
 * in slots that threads take them from and put them into, and at most one for each thread that was ever at it at once. Who
 * uses one is charged for it, the root of its memory for what waits. An environment has them. */
#define TSR_CONTEXT_POOL_SLOTS 16

typedef struct tsr_context_pool {
  _Atomic(void *) decoders[TSR_CONTEXT_POOL_SLOTS], encoders[TSR_CONTEXT_POOL_SLOTS];
} tsr_context_pool;

/* / */

/* One chunk on its way: its metadata and data. Parts are what an earlier filter (forward) gave separately. */
typedef struct tsr_part {
  uint8_t *data;
  uint64_t size;
} tsr_part;

typedef struct tsr_chunk {
  tsr_part *metadata;
  uint32_t metadata_count;
  tsr_part *data;
  uint32_t data_count;
} tsr_chunk;

/* The cells of a variable string whose offsets live in the data: read forward, filled backward (cells + 1). */
typedef struct tsr_strings {
  uint64_t *offsets;
  uint64_t cells;
} tsr_strings;

typedef struct tsr_filter_context {
  const tsr_filter *filter;
  const tsr_tile_shape *shape;
  tsr_datatype datatype; /* what this filter takes the values for: changed by filters before it (scale_float, xor,
                            delta's reinterpret) */
  tsr_arena *arena; /* lives as long as the chunk's way through the pipeline */
  uint64_t most; /* backward: no honest writer's metadata and data before this filter are larger than this together:
                    decompression bombs end here */
  uint8_t
      *target; /* backward, the first filter of a pipeline: where the data belongs, exactly `most` bytes; else NULL */
  tsr_strings *strings; /* RLE and dictionary where they hold the offsets; else NULL */
  const struct tsr_codec *codec; /* the filter's, where it is a compressor (filter_compress.h) */
  void **state; /* NULL at first; a codec's own, kept from chunk to chunk of a tile, freed by methods->release */
} tsr_filter_context;

/* Backward: room for the data that a filter gives back. On target where there is one, then size must be target's; else
 * from the arena, if size <= most. TSR_CORRUPT if not. */
int tsr__filter_room(const tsr_filter_context *context, uint64_t size, uint8_t **data, tsr_error *error);

/* Forward: one new part of `size` bytes as all of *count parts, from the arena. */
int tsr__filter_part(const tsr_filter_context *context, uint64_t size, tsr_part **parts, uint32_t *count,
                     tsr_error *error);

/* Forward: metadata = a new part of `size` bytes (for this filter), then the parts of `in` as they are. */
int tsr__filter_prepend(const tsr_filter_context *context, const tsr_chunk *in, uint64_t size, tsr_chunk *out,
                        tsr_error *error);

/* Initialise by name (.type = ...): entries may be left out. */
typedef struct tsr_filter_methods {
  tsr_filter_type type;
  const char *name;
  /* Backward: consumes this filter's own metadata from the front of `metadata` (sticky), and gives the data before it,
   * in room from tsr__filter_room or borrowed from `data`. What is left of metadata goes to the filter before, unless
   * the filter sets *metadata_out (compressors and AES hold the earlier filters' metadata inside); it comes as {NULL,
   * 0}. Messages need not name filter or chunk: the pipeline does. */
  int (*decode)(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                tsr_part *data_out, tsr_error *error);
  /* Forward: gives new parts, allocated from the arena, or borrowed from `in`. */
  int (*encode)(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error);
  const struct tsr_codec *codec; /* of a compressor: what context->codec is then */
  void (*release)(void *state); /* if the filter keeps *context->state */
} tsr_filter_methods;

extern const tsr_filter_methods tsr__filter_gzip, tsr__filter_zstd, tsr__filter_lz4, tsr__filter_bzip2, tsr__filter_rle,
    tsr__filter_dictionary, tsr__filter_double_delta, tsr__filter_delta, tsr__filter_positive_delta,
    tsr__filter_bit_width_reduction, tsr__filter_bitshuffle, tsr__filter_byteshuffle, tsr__filter_scale_float,
    tsr__filter_xor, tsr__filter_md5, tsr__filter_sha256, tsr__filter_aes;

#endif
