/* merge.h: merges sorted sources of cells into one fragment in global order. merge_sparse.c makes a source of each
 * fragment. */
#ifndef TSR_MERGE_H
#define TSR_MERGE_H

#include "write/fragment_writer.h"

typedef struct tsr_merge_block { /* consecutive cells of a source */
  uint64_t count; /* cells, less than 2^32 */
  const tsr_column *columns; /* one per field, then the system columns (u64): time, time of deletion, condition */
} tsr_merge_block;

typedef struct tsr_merge_source {
  /* Loads the next block, which is valid until the next call. Returns 1; 0 at the end; an error. */
  int (*next)(struct tsr_merge_source *source, tsr_merge_block *block, tsr_error *error);
  /* Returns a lower bound of the next block before it is loaded: one column per dimension with a coordinate that is not
   * greater than any coordinate of the block. NULL if none is known. The merge loads a block only when it has reached
   * the lower bound. The member may be NULL. */
  const tsr_column *(*lower_bound)(struct tsr_merge_source *source);
  bool sort_blocks; /* cells may be unsorted within a block: the merge sorts them. Blocks never overlap */
} tsr_merge_source;

typedef struct tsr_merge_options {
  const tsr_schema *schema;
  uint32_t system_columns; /* that the sources have: 0; 1: times; 3: times, times of deletion, conditions */
  bool purge; /* drop deleted cells and older cells of their coordinates; of the system columns write only the times */
  tsr_environment *environment;
  tsr_memory *memory;
} tsr_merge_options;

/* Merges sources[0..count) and appends the cells to `writer`. Where the array allows duplicates, all cells are kept.
 * Where it does not, equal coordinates are kept once for each time, the newest first; without a column of times only
 * the newest cell is kept. Of cells with the same time, or without times, a cell of a later source is newer.
 *
 * *cells: how many cells were written. TSR_CORRUPT if the blocks of a source overlap; *unsorted is its index then, and
 * UINT32_MAX in all other cases. */
int tsr__merge(const tsr_merge_options *options, tsr_merge_source *const *sources, uint32_t count,
               tsr_fragment_writer *writer, uint64_t *cells, uint32_t *unsorted, tsr_error *error);

#endif
