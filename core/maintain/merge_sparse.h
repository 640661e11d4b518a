/* merge_sparse.h: merges sparse fragments into one. The user (consolidate.c) fills in a plan, lets
 * tsr__merge_conditions find the delete conditions that concern it, and calls tsr__merge_sparse with both. */
#ifndef TSR_MERGE_SPARSE_H
#define TSR_MERGE_SPARSE_H

#include "base/map.h"
#include "write/fragment_writer.h"

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

#endif
