/* write_spill.h: runs on disk, for what a writer cannot keep in memory, and their merge into one fragment. */
#ifndef TSR_WRITE_SPILL_H
#define TSR_WRITE_SPILL_H

#include "array/fragment.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* Before cells come: writes all that are in memory to a run on disk if they take too much of it. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);
int tsr__spill(tsr_writer *writer, tsr_error *error);

/* Cells from `count` on go, where some of them are on disk. */
void tsr__spill_rewind(tsr_writer *writer, uint64_t count);

/* All runs, which are on disk, merged: the newest version of each coordinate, but what has been removed. */
int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* The same into fragments that follow each other in the array's order, as runs: appended to `runs`, each with a reference to its
 * fragment for the caller, also where it fails. */
int tsr__spill_join(tsr_writer *writer, tsr_buffer *runs, tsr_error *error);

/* Where the cell that came as number `at` of a spilled run stands in it. */
int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error);

#endif
