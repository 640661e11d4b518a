/* write_find.h: finds the cell at some coordinates: first among a writer's cells in memory, then in its spilled runs
 * and in the snapshot below. */
#ifndef TSR_WRITE_FIND_H
#define TSR_WRITE_FIND_H

#include "base/memory.h"

/* hash table over the coordinates of cells in memory: chains, newest cell first */
typedef struct tsr_coordinate_index {
  uint64_t count; /* cells in the table, from the first one in memory on */
  tsr_buffer heads, next; /* u32: a cell's index in memory + 1; 0: end of the chain */
} tsr_coordinate_index;

typedef struct tsr_finder { /* a reader over a snapshot and the spilled runs, for one point at a time */
  tsr_reader *reader; /* owned; NULL: not open */
  tsr_snapshot *base; /* the snapshot, a reference */
  uint64_t spilled; /* spilled runs that the reader sees */
} tsr_finder;

/* Takes the cells from number `count` on out of the hash table. Call before they go. */
void tsr__index_rewind(tsr_writer *writer, uint64_t count);

/* Frees the hash table and closes the reader. Both are made anew when they are used next. */
void tsr__index_release(tsr_writer *writer);

/* Closes the reader. */
void tsr__finder_close(tsr_writer *writer);

/* Finds the newest cell in memory at these coordinates, removed or not. Returns 1 and its number, or 0. */
int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error);

/* Finds a row at these coordinates in `base` and the spilled runs. Returns 1 and its rowid, or 0. `any`: a row that the
 * writer has removed counts, too. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

#endif
