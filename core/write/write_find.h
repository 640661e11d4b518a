/* write_find.h: finds the cell at some coordinates: first among a writer's cells in memory, then in its spilled runs
 * and in the snapshot below. */
#ifndef TSR_WRITE_FIND_H
#define TSR_WRITE_FIND_H

#include "tessera.h"

void tsr__index_rewind(tsr_writer *writer, uint64_t count);
void tsr__index_release(tsr_writer *writer);
void tsr__finder_close(tsr_writer *writer);

/* Finds the newest cell in memory at these coordinates, removed or not. Returns 1 and its number, or 0. */
int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error);

/* Finds a row at these coordinates in `base` and the spilled runs. Returns 1 and its rowid, or 0. `any`: a row that the
 * writer has removed counts, too. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

#endif
