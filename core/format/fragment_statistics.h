/* fragment_statistics.h: computes the statistics that a fragment stores: minimum, maximum, sum and null count of each
 * tile and of the fragment. A fragment writer computes the statistics of each tile, adds them to a
 * tsr_statistics_writer, and writes the result (fragment_metadata.h).
 */
#ifndef TSR_FRAGMENT_STATISTICS_H
#define TSR_FRAGMENT_STATISTICS_H

#include "base/memory.h"

typedef struct tsr_cell_range { /* cells first to first + count - 1 of a tile */
  uint64_t first, count;
} tsr_cell_range;

/* Return true if TileDB stores minima and maxima, or sums, for this field (from version 11 on). */
bool tsr__statistics_have_bounds(const tsr_field *field);
bool tsr__statistics_have_sum(const tsr_field *field);

/* The statistics of all tiles of one slot. tsr__statistics_writer_init prepares it; tsr__statistics_writer_release
 * frees its buffers. */
typedef struct tsr_statistics_writer {
  const tsr_field *field; /* NULL: the slot has no statistics (times, __coords) */
  tsr_buffer min, max; /* one value for each tile; variable size: one u64 offset into the texts for each tile */
  tsr_buffer min_text, max_text; /* variable size: the bytes of the values */
  tsr_buffer sums, null_counts; /* 8 bytes for each tile */
  tsr_buffer valued; /* one u8 for each tile: whether it has a value that is not null */
} tsr_statistics_writer;

typedef struct tsr_cell_statistics { /* of one tile or of one fragment */
  bool valued; /* at least one cell is not null */
  const uint8_t *min, *max; /* borrowed from the values or the writer; NULL: none */
  uint64_t min_size, max_size; /* in bytes */
  uint64_t null_count;
  uint8_t sum[8]; /* int64, uint64 or double */
} tsr_cell_statistics;

void tsr__statistics_writer_init(tsr_statistics_writer *writer, const tsr_field *field, tsr_memory *memory);
void tsr__statistics_writer_release(tsr_statistics_writer *writer);

/* Computes the statistics of a tile from the cells in `ranges`, in the order of the ranges. `offsets`: NULL for fields
 * of fixed size; `validity`: NULL if the field is not nullable. Minimum and maximum point into `values` or to
 * constants. Thread-safe. */
void tsr__statistics_of_tile(const tsr_field *field, const uint8_t *values, const uint64_t *offsets,
                             const uint8_t *validity, const tsr_cell_range *ranges, uint64_t range_count,
                             tsr_cell_statistics *tile);

/* Appends the statistics of the next tile. The bounds are copied. */
int tsr__statistics_writer_add(tsr_statistics_writer *writer, const tsr_cell_statistics *tile, tsr_error *error);

/* Computes the statistics of the fragment from those of its tiles. Minimum and maximum point into the writer. */
void tsr__statistics_of_fragment(const tsr_statistics_writer *writer, tsr_cell_statistics *fragment);

#endif
