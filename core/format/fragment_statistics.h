/* fragment_statistics.h: statistics of what is written. */
#ifndef TSR_FRAGMENT_STATISTICS_H
#define TSR_FRAGMENT_STATISTICS_H

#include "base/memory.h"

typedef struct tsr_cell_range { /* cells first..first + count - 1 of a tile */
  uint64_t first, count;
} tsr_cell_range;

/* Does a field have minima and maxima; sums (version 11 on; dimensions of dense fragments have no tiles)? */
bool tsr__statistics_have_bounds(const tsr_field *field);
bool tsr__statistics_have_sum(const tsr_field *field);

/* What is collected for one field, tile after tile. `= {.field = f}`, memory set by _init; release frees. */
typedef struct tsr_statistics_writer {
  const tsr_field *field; /* NULL: nothing is collected (times, coordinates) */
  tsr_buffer min, max; /* fixed values; variable: u64 offsets into the texts */
  tsr_buffer min_text, max_text;
  tsr_buffer sums, null_counts; /* u64 each */
  tsr_buffer valued; /* u8 each: the tile has a value that is not null */
} tsr_statistics_writer;

typedef struct tsr_cell_statistics { /* of one tile, or of a fragment */
  bool valued;
  const uint8_t *min, *max; /* borrowed; NULL where there is none */
  uint64_t min_size, max_size, null_count;
  uint8_t sum[8];
} tsr_cell_statistics;

void tsr__statistics_writer_init(tsr_statistics_writer *writer, const tsr_field *field, tsr_memory *memory);
void tsr__statistics_writer_release(tsr_statistics_writer *writer);

/* The statistics of the cells of `runs` of a tile, in their order. Thread-safe. */
void tsr__statistics_of_tile(const tsr_field *field, const uint8_t *values, const uint64_t *offsets,
                             const uint8_t *validity, const tsr_cell_range *runs, uint64_t run_count,
                             tsr_cell_statistics *tile);
int tsr__statistics_writer_add(tsr_statistics_writer *writer, const tsr_cell_statistics *tile, tsr_error *error);

/* Those of all tiles together. */
void tsr__statistics_of_fragment(const tsr_statistics_writer *writer, tsr_cell_statistics *fragment);

#endif
