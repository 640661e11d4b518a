/* snapshot_late.h: prepared commits that a merge has spanned. */
#ifndef TSR_SNAPSHOT_LATE_H
#define TSR_SNAPSHOT_LATE_H

#include "model/name.h"

typedef struct tsr_committed tsr_committed;

#define TSR_TIMED_VERSION 15 /* from here on sparse fragments may carry the times of cells */

/* Does a merged fragment hold, or may it hold, cells that are newer than `time`, without saying when each was written?
 * `dense`: of a dense array. */
bool tsr__late_spans(const tsr_name *merged, uint64_t time, bool dense);

/* Are all fragments listed that this one has replaced? */
int tsr__late_has_sources(tsr_array *array, const tsr_committed *merged, bool *all, tsr_error *error);

/* In a snapshot that is being made: merged fragments whose times span those of prepared ones count as newer in all
 * cells that
 * they hold. */
int tsr__late_place(tsr_snapshot *snapshot, tsr_error *error);

#endif
