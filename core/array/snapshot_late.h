/* snapshot_late.h: places prepared commits in a snapshot if a merged fragment spans their time. */
#ifndef TSR_SNAPSHOT_LATE_H
#define TSR_SNAPSHOT_LATE_H

#include "model/name.h"

typedef struct tsr_committed tsr_committed;

/* Returns true if a merged fragment spans `time` without times of its cells: it may have both older and newer cells,
 * and does not say which. `dense`: the array is dense. */
bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense);

/* *all: whether all sources of the merged fragment are still listed. False if no vacuum file names them. */
int tsr__late_has_sources(tsr_array *array, const tsr_committed *merged, bool *all, tsr_error *error);

/* Changes the fragments of a snapshot that is being made: a merged fragment that spans the time of a prepared one
 * counts as newer in all cells that it has. */
int tsr__late_place(tsr_snapshot *snapshot, tsr_error *error);

#endif
