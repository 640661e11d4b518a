/* write_spill.h: sorted runs on disk, for cells that a writer cannot keep in memory, and their merge into fragments. */
#ifndef TSR_WRITE_SPILL_H
#define TSR_WRITE_SPILL_H

#include "array/fragment.h"

typedef struct tsr_fragment_target tsr_fragment_target;

/* tsr__spill_if_full writes all cells in memory to a run on disk if they take too much of the budget; call it before
 * cells are appended. tsr__spill writes them in any case. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);
int tsr__spill(tsr_writer *writer, tsr_error *error);

/* Forgets cells from number `count` on that are in runs on disk. */
void tsr__spill_rewind(tsr_writer *writer, uint64_t count);

/* Merges all runs, which are on disk, into the fragment of `target`: the newest version of each coordinate, without
 * removed rows. Sets *cells to the number of cells written. */
int tsr__spill_merge(tsr_writer *writer, const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Merges all runs into fragments that follow each other in the array's order, and appends them to `runs` as
 * tsr_sorted_run. The caller drops the fragments, after an error, too. */
int tsr__spill_join(tsr_writer *writer, tsr_buffer *runs, tsr_error *error);

/* Sets *position to the place of the cell that is number `at` of a spilled run. */
int tsr__spill_position(tsr_array *array, tsr_fragment *run, uint64_t at, uint64_t *position, tsr_error *error);

#endif
