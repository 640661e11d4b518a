/* filter.h: filter pipelines, which encode tiles when they are written and decode them when they are read (format.md,
 * "Tiles" and "Filters").
 *
 * A stored tile is the u64 number of chunks, then for each chunk: u32 original size, u32 filtered size, u32 metadata
 * size, the metadata, the filtered data. A pipeline handles one chunk at a time. To encode it, each filter turns lists
 * of metadata parts and data parts into new ones; to decode it, the filters run in reverse order. The first half of
 * this header is for the format layer, which encodes and decodes tiles. The second half is for the filters, which are
 * in the other files of this folder.
 */
#ifndef TSR_FILTER_H
#define TSR_FILTER_H

#include <stdatomic.h>

#include "base/input.h"
#include "base/memory.h"

typedef struct tsr_codec tsr_codec;

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* The properties of a tile that its pipeline needs. */
typedef struct tsr_tile_shape {
  tsr_datatype datatype; /* of the values, as the first filter sees them */
  /* In bytes; for variable-size cells the size of one value. Since version 11 a chunk holds whole cells. */
  uint64_t cell_size;
  uint32_t version; /* format version of the fragment or other object */
  /* 32 bytes, borrowed: AES-256-GCM runs last, even if the pipeline does not list it. NULL: no encryption */
  const uint8_t *key;
} tsr_tile_shape;

/* Decodes a stored tile. `out` has room for exactly out_size bytes; fails with TSR_CORRUPT if the chunks' original
 * sizes do not add up to that. Scratch memory comes from `memory`. Messages name the chunk and the filter. Thread-safe.
 * For tiles of strings whose offsets are stored within the data (tsr__pipeline_holds_offsets) use
 * tsr__pipeline_decode_strings. */
int tsr__pipeline_decode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         uint8_t *out, uint64_t out_size, tsr_memory *memory, tsr_error *error);

/* Finds the chunks of a stored tile that overlap the decoded bytes [from, end). Sets *first and *last to the range of
 * decoded bytes [first, last) that these chunks cover. */
int tsr__pipeline_chunks(const uint8_t *in, uint64_t in_size, uint64_t from, uint64_t end, uint64_t *first,
                         uint64_t *last, tsr_error *error);

/* Some neighbouring chunks of a stored tile. */
typedef struct tsr_chunk_range {
  uint64_t count;
  uint64_t at, size; /* where their stored bytes begin in the tile, and how many these are */
  uint64_t first, last; /* they hold the decoded bytes first to last - 1 */
  uint64_t total; /* decoded bytes of all chunks of the tile */
} tsr_chunk_range;

/* Reads `size` bytes of a stored tile from byte `at` on. */
typedef int (*tsr_stored_read)(void *argument, uint64_t at, void *bytes, uint64_t size, tsr_error *error);

/* The sizes of a chunk of a stored tile in bytes: decoded; stored, with its header. */
typedef struct tsr_chunk_size {
  uint32_t original, stored;
} tsr_chunk_size;

#define TSR_CHUNKS_LISTED 1024u /* chunks of a tile that is listed, at most */

/* Lists the chunks of a stored tile that is still in a file: reads their headers, one by one, and nothing else. `sizes`
 * has room for TSR_CHUNKS_LISTED of them. *count is 0 if there are more, or if they are so small that it is faster to
 * read the whole tile, or if the headers do not add up to in_size bytes: whoever decodes it says what is wrong. */
int tsr__pipeline_list_chunks(tsr_stored_read read, void *argument, uint64_t in_size, tsr_chunk_size *sizes,
                              uint32_t *count, tsr_error *error);

/* The same as tsr__pipeline_chunks for a tile whose chunks are listed. With the u64 `count` in front, the stored bytes
 * of the range are a stored tile. `count` is 0 if no chunk overlaps [from, end). */
tsr_chunk_range tsr__pipeline_find_chunks(const tsr_chunk_size *sizes, uint32_t count, uint64_t from, uint64_t end);

/* Which bytes of a decoded tile are needed, in blocks of equal size. */
typedef struct tsr_needed_bytes {
  const uint8_t *blocks; /* borrowed; a byte for each block, 0: not needed. NULL: all are */
  uint64_t block; /* bytes of a block */
  uint64_t at; /* where in the first block the tile begins */
} tsr_needed_bytes;

/* Returns how many of the decoded bytes [first, last), as set by tsr__pipeline_chunks, are in chunks with needed ones;
 * UINT64_MAX if a chunk is damaged. */
uint64_t tsr__pipeline_needs(const uint8_t *in, uint64_t in_size, uint64_t first, uint64_t last,
                             const tsr_needed_bytes *needed);

/* Decodes only the chunks that cover the decoded bytes [first, last), as set by tsr__pipeline_chunks, and of these only
 * those with needed bytes. `out` has room for all of them; what is not needed is left as it was. */
int tsr__pipeline_decode_part(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t first, uint64_t last, const tsr_needed_bytes *needed,
                              uint8_t *out, tsr_memory *memory, tsr_error *error);

/* Decodes a whole tile, of which `out` has the bytes [known, known_end) already: chunks within them are not decoded
 * again. */
int tsr__pipeline_decode_rest(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t known, uint64_t known_end, uint8_t *out, uint64_t out_size,
                              tsr_memory *memory, tsr_error *error);

/* Takes `count` decoded cells of a tile from cell `first` on. `values` is borrowed for the call. */
typedef int (*tsr_cells_take)(void *argument, uint64_t first, uint64_t count, const uint8_t *values, tsr_error *error);

/* Decodes a stored tile of `cells` cells of shape->cell_size bytes chunk by chunk, and passes the cells to `take` in
 * order, as soon as they are decoded: only a chunk of them is in memory. Of the cells outside from..end-1, it passes
 * those that share a chunk with others. Fails as tsr__pipeline_decode, perhaps after `take` had some of the cells. */
int tsr__pipeline_decode_each(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                              uint64_t in_size, uint64_t cells, uint64_t from, uint64_t end, tsr_cells_take take,
                              void *argument, tsr_memory *memory, tsr_error *error);

/* Returns true if this pipeline stores the offsets of a field of variable-size strings within the data: if its first
 * filter is RLE (ASCII since version 12, UTF8 since 17) or dictionary (ASCII since 13, UTF8 since 17). */
bool tsr__pipeline_holds_offsets(const tsr_pipeline *pipeline, tsr_datatype datatype, uint32_t values_per_cell,
                                 uint32_t version);

/* Decodes a tile of such a pipeline into the bytes of `cells` strings, out_size in all, and their cells + 1 offsets. */
int tsr__pipeline_decode_strings(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in,
                                 uint64_t in_size, uint8_t *out, uint64_t out_size, uint64_t *offsets, uint64_t cells,
                                 tsr_memory *memory, tsr_error *error);

/* Sets *size to the decoded size of a stored tile, the sum of its chunks' original sizes. Reads only the headers of the
 * chunks. */
int tsr__pipeline_original_size(const uint8_t *in, uint64_t in_size, uint64_t *size, tsr_error *error);

/* Encodes a tile and appends it, as stored, to `out`. For a field of variable size `offsets` has cells + 1 elements, so
 * that chunks can end between cells; for a field of fixed size it is NULL. */
int tsr__pipeline_encode(const tsr_pipeline *pipeline, const tsr_tile_shape *shape, const uint8_t *in, uint64_t in_size,
                         const uint64_t *offsets, uint64_t cells, tsr_buffer *out, tsr_error *error);

/* Returns a filter's name, such as "zstd" or "bit_width_reduction", or NULL for an unknown type. */
const char *tsr__filter_name(tsr_filter_type type);

/* Returns the datatype of the values that a filter produces when it encodes values of `datatype`. */
tsr_datatype tsr__filter_gives(const tsr_filter *filter, tsr_datatype datatype);

/* ---- For the filters ------------------------------------------------------------------------- */

/* A piece of a chunk's data or metadata, contiguous in memory. */
typedef struct tsr_part {
  uint8_t *data; /* borrowed from the arena or from the input */
  uint64_t size; /* in bytes */
} tsr_part;

/* A chunk between two filters of an encoding pipeline. */
typedef struct tsr_chunk {
  tsr_part *metadata;
  uint32_t metadata_count;
  tsr_part *data;
  uint32_t data_count;
} tsr_chunk;

/* The offsets of strings that RLE or dictionary stores within the data: input of encoding, output of decoding. */
typedef struct tsr_strings {
  uint64_t *offsets; /* cells + 1 */
  uint64_t cells;
} tsr_strings;

/* The arguments of a filter for one chunk. All pointers are borrowed. */
typedef struct tsr_filter_context {
  const tsr_filter *filter;
  const tsr_tile_shape *shape;
  /* Of the values as this filter sees them; scale_float, xor, delta or double delta before it may have changed it. */
  tsr_datatype datatype;
  tsr_arena *arena; /* reset when the chunk has passed the pipeline */
  /* Decoding: upper bound for the size in bytes of the data and metadata before this filter. No correct writer exceeds
   * it, so this stops decompression bombs. */
  uint64_t most;
  /* Decoding, in the first filter of the pipeline: destination of the data, exactly `most` bytes; otherwise NULL. */
  uint8_t *target;
  tsr_strings *strings; /* for RLE or dictionary, if the offsets are within the data; otherwise NULL */
  const struct tsr_codec *codec; /* for a compressor (compressors.h); otherwise NULL */
  void **state; /* *state belongs to the filter: initially NULL, kept for all chunks of a tile, and freed by
                   methods->release */
} tsr_filter_context;

/* Decoding: allocates room for the data that a filter produces. If there is a `target`, returns it and requires that
 * size == most; otherwise allocates from the arena and requires that size <= most. Fails with TSR_CORRUPT if not. */
int tsr__filter_room(const tsr_filter_context *context, uint64_t size, uint8_t **data, tsr_error *error);

/* Encoding: makes a list of one part of `size` bytes in the arena. Sets *count to 1. */
int tsr__filter_part(const tsr_filter_context *context, uint64_t size, tsr_part **parts, uint32_t *count,
                     tsr_error *error);

/* Encoding: sets the metadata of `out` to a new part of `size` bytes for this filter, followed by the metadata parts of
 * `in`. */
int tsr__filter_prepend(const tsr_filter_context *context, const tsr_chunk *in, uint64_t size, tsr_chunk *out,
                        tsr_error *error);

/* The operations of one filter. Initialise by name (.type = ...); the last two may be NULL. */
typedef struct tsr_filter_methods {
  tsr_filter_type type;
  const char *name;
  /* Decodes one chunk. Reads the filter's own metadata from the beginning of `metadata`, leaves the rest for the filter
   * before it, and sets *data_out to the decoded data, allocated by tsr__filter_room or borrowed from `data`.
   * Compressors and AES, which store the metadata of earlier filters within their data, also set *metadata_out, which
   * is {NULL, 0} before the call. The pipeline adds the filter's name and the chunk's number to messages. */
  int (*decode)(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                tsr_part *data_out, tsr_error *error);
  /* Encodes one chunk. The parts of `out` are allocated from the arena or borrowed from `in`. */
  int (*encode)(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error);
  const struct tsr_codec *codec; /* for a compressor; becomes context->codec */
  void (*release)(void *state); /* frees *context->state, which is not NULL */
} tsr_filter_methods;

extern const tsr_filter_methods tsr__filter_gzip, tsr__filter_zstd, tsr__filter_lz4, tsr__filter_bzip2, tsr__filter_rle,
    tsr__filter_dictionary, tsr__filter_double_delta, tsr__filter_delta, tsr__filter_positive_delta,
    tsr__filter_bit_width_reduction, tsr__filter_bitshuffle, tsr__filter_byteshuffle, tsr__filter_scale_float,
    tsr__filter_xor, tsr__filter_md5, tsr__filter_sha256, tsr__filter_aes;

#endif
