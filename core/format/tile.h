/* tile.h: data tiles -> columns. */
#ifndef TSR_TILE_H
#define TSR_TILE_H

#include <stdatomic.h>

#include "format/fragment_metadata.h"

typedef struct tsr_fragment_metadata tsr_fragment_metadata;

/* One decoded tile of one slot: a block of memory, shared by reference count (the cache and readers hold it). */
typedef struct tsr_tile {
  _Atomic uint32_t references;
  uint64_t cells, bytes; /* bytes: what it costs to keep */
  uint64_t cell_size; /* 0: variable */
  uint64_t first, end; /* only these cells' values are there; end 0: all */
  uint8_t *values; /* from `first` on */
  uint64_t values_size;
  uint64_t *offsets; /* variable: cells + 1, checked to rise and to end within values */
  uint8_t *validity; /* cells, or NULL */
} tsr_tile;

void tsr__tile_hold(tsr_tile *tile);
void tsr__tile_drop(tsr_tile *tile); /* NULL is fine */

typedef struct tsr_tile_source { /* stored bytes of a tile's parts, read already */
  const uint8_t *bytes[TSR_PART_COUNT];
  uint64_t sizes[TSR_PART_COUNT];
  uint64_t variable_size; /* from the slot's var_sizes */
  uint64_t cells;
  uint64_t first, end; /* cells whose values are wanted, for tsr__tile_divides; end 0: all */
} tsr_tile_source;

typedef struct tsr_tile_format { /* how a slot's tiles are stored */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  bool nullable;
  uint32_t version;
  const tsr_pipeline *values, *offsets, *validity;
  const uint8_t *key;
  uint32_t coordinate_dimensions; /* > 0: a __coords tile of so many dimensions (below version 5) ... */
  bool coordinates_split; /* ... one dimension after the other, rather than cell by cell; decoded to split order always
                           */
} tsr_tile_format;

int tsr__tile_format(const tsr_fragment_metadata *metadata, uint32_t slot, const uint8_t *key, tsr_tile_format *format,
                     tsr_error *error);

/* Can chunks of such tiles be decoded alone? */
bool tsr__tile_divides(const tsr_tile_format *format);

/* Thread-safe. The tile's memory comes from `memory`, scratch too. */
int tsr__tile_decode(const tsr_tile_format *format, const tsr_tile_source *source, tsr_memory *memory, tsr_tile **tile,
                     tsr_error *error);

#endif
