/* write_spill.h: sorted runs on disk, for cells that a writer cannot keep in memory, and their merge into fragments. */
#ifndef TSR_WRITE_SPILL_H
#define TSR_WRITE_SPILL_H

#include "array/fragment.h"

typedef struct tsr_fragment_target tsr_fragment_target;

#define TSR_RUN_VERSION  22 /* format version of runs, which are no part of an array */
#define TSR_RUN_CAPACITY 4096u /* cells in a tile of a run, at most */

typedef struct tsr_sorted_run {
  uint64_t first, end; /* numbers of its cells; `end` falls if the writer is rewound to a number within a spilled run */
  uint64_t stored; /* cells in the fragment; more than end - first after a rewind */
  tsr_fragment *fragment;
} tsr_sorted_run;

typedef struct tsr_scratch { /* the store of runs on disk */
  const tsr_host_store *host; /* borrowed; NULL: in the array's store */
  void *argument; /* of `host`, borrowed */
  tsr_store *store; /* owned; NULL: not open */
} tsr_scratch;

typedef struct tsr_runs { /* the sorted runs of a writer */
  tsr_buffer list; /* tsr_sorted_run by number: `spilled` runs on disk, then the runs in memory */
  uint64_t spilled;
  tsr_schema *schema; /* of runs (tsr__run_schema), in the writer's arena; NULL: not made yet */
  tsr_schema *part_schema; /* of parts into which runs are merged; its capacity is that of the last merge */
  tsr_scratch scratch;
} tsr_runs;

static inline tsr_sorted_run *tsr__run_at(const tsr_runs *runs, uint64_t index) {
  return (tsr_sorted_run *)(void *)runs->list.data + index;
}
static inline uint64_t tsr__run_count(const tsr_runs *runs) { return runs->list.size / sizeof(tsr_sorted_run); }

/* Writes all cells in memory to a run on disk, if they take too much of the budget. Call before cells are appended. */
int tsr__spill_if_full(tsr_writer *writer, tsr_error *error);

/* Writes all cells in memory to a run on disk. On failure they stay in memory. */
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
