/* tile.h: decodes data tiles: the stored bytes of one tile of one slot become arrays of values, offsets and validity.
 * Readers decode tiles on worker threads; the cache keeps them. */
#ifndef TSR_TILE_H
#define TSR_TILE_H

#include <stdatomic.h>

#include "filter/filter.h"
#include "format/fragment_metadata.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;

#define TSR_NEEDED_CELLS 2048u /* cells of a tile that are needed, or not, together */

/* A decoded tile of one slot. It is one block of memory with a reference count; the cache and readers share it. */
typedef struct tsr_tile {
  _Atomic uint32_t references;
  uint64_t cells, bytes; /* bytes: size of the block */
  uint64_t cell_size; /* in bytes; 0: variable */
  uint64_t partly; /* cells of this tile that earlier loads decoded in parts, before this one */
  uint64_t first, end; /* only the cells first to end - 1 are decoded; end 0: all cells */
  uint64_t decoded; /* cells that were decoded for it: not those that are copies of an earlier part's */
  /* NULL, or of the cells first to end - 1 only those are decoded, surely, in whose block of TSR_NEEDED_CELLS cells of
   * the tile this byte is not 0 */
  uint8_t *needed;
  uint8_t *values; /* from cell `first` on */
  uint64_t values_size; /* in bytes */
  uint64_t *offsets; /* variable size: cells + 1 byte offsets into `values`, which never fall; else NULL */
  uint8_t *validity; /* from cell `first` on, one byte for each, 0: null; NULL if the field is not nullable */
  /* of the whole tile's fixed part, so that another part of it can be read alone; chunk_count 0: unknown */
  const tsr_chunk_size *chunks;
  uint32_t chunk_count;
} tsr_tile;

/* Add and drop a reference; dropping the last one frees the tile. Thread-safe. */
void tsr__tile_hold(tsr_tile *tile);
void tsr__tile_drop(tsr_tile *tile); /* `tile` may be NULL */

typedef struct tsr_tile_source { /* the stored bytes of a tile */
  const uint8_t *bytes[TSR_PART_COUNT]; /* borrowed */
  uint64_t sizes[TSR_PART_COUNT]; /* in bytes */
  uint64_t variable_size; /* unfiltered size of TSR_PART_VARIABLE in bytes, from tsr_slot.var_sizes */
  uint64_t cells;
  /* The fixed part is not the tile's, but a stored tile of those of its chunks that hold the cells cut_first to
   * cut_end - 1; cut_end 0: it is the tile's. Only if tsr__tile_divides. */
  uint64_t cut_first, cut_end;
  const tsr_chunk_size *chunks; /* of the whole tile, if cut_end > 0: borrowed, the decoded tile gets a copy */
  uint32_t chunk_count;
  uint64_t first, end; /* if tsr__tile_divides: the requested cells are first to end - 1; end 0: all cells */
  /* If `end` > 0: borrowed, a byte for each block of TSR_NEEDED_CELLS cells of the tile, 0: none of them is needed;
   * NULL: all are. Chunks without needed cells are not decoded: their values are not set. */
  const uint8_t *needed;
  /* NULL, or, if all cells are requested and tsr__tile_divides: a part of the same tile, all of whose cells first to
   * end - 1 are decoded. Borrowed; these cells are copied, and their chunks are not decoded again. */
  const tsr_tile *known;
} tsr_tile_source;

/* Returns the number of blocks of TSR_NEEDED_CELLS cells in a tile. */
static inline uint64_t tsr__needed_blocks(uint64_t cells) {
  return cells / TSR_NEEDED_CELLS + (cells % TSR_NEEDED_CELLS > 0);
}

typedef struct tsr_tile_format { /* how the tiles of a slot are stored; pointers are borrowed */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  bool nullable;
  uint32_t version;
  const tsr_pipeline *values, *offsets, *validity; /* filters of the three parts */
  const uint8_t *key; /* NULL: not encrypted */
  uint32_t coordinate_dimensions; /* number of dimensions of a __coords tile (below version 5); 0: no such tile */
  bool coordinates_split; /* __coords is stored dimension after dimension; false: cell after cell */
} tsr_tile_format;

/* Describes the tiles of a slot. Fails if the slot has no files. */
int tsr__tile_format(const tsr_fragment_metadata *metadata, uint32_t slot, const uint8_t *key, tsr_tile_format *format,
                     tsr_error *error);

/* Returns true if chunks of such tiles can be decoded individually: cells have a fixed size, and are not __coords. */
bool tsr__tile_divides(const tsr_tile_format *format);

/* Decodes a tile. If only some cells are requested and tsr__tile_divides, decodes only the chunks that have these
 * cells. Always converts __coords to dimension after dimension. Allocates the tile and temporary memory from `memory`.
 * The caller gets a reference. Thread-safe. On failure the subject of the error is the part that could not be decoded,
 * a tsr_part_kind, plus 1; 0: unknown. */
int tsr__tile_decode(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory, tsr_tile **tile,
                     tsr_error *error);

/* Takes `count` decoded cells of a tile from cell `first` on. `values` and `validity`, a byte for each cell or NULL,
 * are borrowed for the call. */
typedef int (*tsr_tile_take)(void *argument, uint64_t first, uint64_t count, const uint8_t *values,
                             const uint8_t *validity, tsr_error *error);

/* Decodes a tile chunk by chunk and passes its cells to `take` instead of making a tile of them: only a chunk of their
 * values is in memory, and the validity of all. Only if tsr__tile_divides. Of the cells that are not requested, it may
 * pass some. Thread-safe; so must `take` be. Errors as tsr__tile_decode, perhaps after `take` had some of the cells. */
int tsr__tile_decode_each(const tsr_tile_format *format, const tsr_tile_source *source, tsr_tile_take take,
                          void *argument, tsr_memory *memory, tsr_error *error);

#endif
