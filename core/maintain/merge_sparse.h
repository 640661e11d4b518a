/* merge_sparse.h: sparse fragments become one. */
#ifndef TSR_MERGE_SPARSE_H
#define TSR_MERGE_SPARSE_H

#include "base/map.h"
#include "write/fragment_writer.h"

typedef struct tsr_merge_plan { /* what a run of fragments becomes */
  tsr_array *array;
  tsr_snapshot *snapshot; /* of the run's schema; has the fragments */
  uint32_t count;
  const uint32_t *fragments; /* indices in the snapshot, oldest first */
  bool keep_times; /* sparse: cells keep their times, and are kept when a newer one is there */
  bool purge;
  tsr_memory *memory;
  unsigned threads;
} tsr_merge_plan;

/* Names of the delete conditions that the merged cells have been through, and whether any were or had been. */
typedef struct tsr_merge_conditions {
  uint32_t count;
  char **names;
  tsr_map numbers; /* name -> its place in `names`, plus 1; the caller releases it */
  bool dated; /* cells get times of deletion */
} tsr_merge_conditions;

int tsr__merge_conditions(const tsr_merge_plan *plan, tsr_arena *arena, tsr_merge_conditions *conditions,
                          tsr_error *error);
int tsr__merge_sparse(const tsr_merge_plan *plan, const tsr_merge_conditions *conditions,
                      const tsr_fragment_target *target, uint64_t *cells, tsr_error *error);

#endif
