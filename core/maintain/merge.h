/* merge.h: merges sorted sources of cells into one fragment in global order. merge.c makes a source of each
 * fragment. */
#ifndef TSR_MAINTAIN_MERGE_H
#define TSR_MAINTAIN_MERGE_H

#include "write/fragment_writer.h"
#include "base/map.h"

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

/* Merges sparse fragments into one. The user (consolidate.c) fills in a plan, lets
 * tsr__merge_conditions find the delete conditions that concern it, and calls tsr__merge_sparse with both. */

typedef struct tsr_merge_plan { /* which fragments are merged, and how; all pointers are borrowed */
  tsr_array *array;
  tsr_snapshot *snapshot; /* shows the schema of the merged fragment, and has the fragments */
  uint32_t count;
  const uint32_t *fragments; /* indices in the snapshot, oldest first */
  bool keep_times; /* sparse: cells keep their times, and older cells of the same coordinates are kept */
  bool purge; /* sparse: deleted cells are dropped */
  tsr_memory *memory;
  unsigned threads;
} tsr_merge_plan;

/* The delete conditions that have been applied to the merged cells, by this merge or by an earlier one. */
typedef struct tsr_merge_conditions {
  uint32_t count;
  char **names; /* borrowed from the fragments and conditions */
  tsr_map numbers; /* name -> its index in `names`, plus 1; the caller releases it */
  bool has_deletes; /* the merged cells have times of deletion */
} tsr_merge_conditions;

/* Finds the conditions of a plan. `arena` provides the list of names. */
int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error);
/* Writes the merged fragment `target` in target->schema. *cells: how many cells it has; if there are none, the fragment
 * is not finished, and the caller removes its directory. */
int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

/* Writes one box of cells of several dense fragments as a new fragment. Consolidation splits the written
 * cells into such boxes; recover_late.c writes what is left of a prepared commit with it. */

typedef struct tsr_merge_plan tsr_merge_plan;

/* Writes the box low..high (ordinals, inclusive, one per dimension) to the fragment `target`, whose `box` is the same
 * box in values. The plan's fragments must cover every cell of the box; each cell is taken from the newest of them. */
int tsr__merge_dense(const tsr_merge_plan *plan, const uint64_t *low, const uint64_t *high,
                     const tsr_fragment_target *target, tsr_error *error);

#endif
