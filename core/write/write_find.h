/* write_find.h: is there a cell at some coordinates: among a writer's own, then in what it stands on. */
#ifndef TSR_WRITE_FIND_H
#define TSR_WRITE_FIND_H

#include "tessera.h"

void tsr__index_rewind(tsr_writer *writer, uint64_t count);
void tsr__index_release(tsr_writer *writer);
void tsr__finder_close(tsr_writer *writer);

/* The newest cell in memory at these coordinates, whether it has been removed or not: 1 and its number, or 0. */
int tsr__find_uncommitted(tsr_writer *writer, const tsr_column *coordinates, uint64_t index, uint64_t *number,
                          tsr_error *error);

/* A row at these coordinates in the base and the spilled runs: 1 and its rowid, or 0. `any`: a removed one, too. */
int tsr__find_elsewhere(tsr_writer *writer, tsr_snapshot *base, const tsr_column *coordinates, uint64_t index, bool any,
                        int64_t *row, tsr_error *error);

#endif
