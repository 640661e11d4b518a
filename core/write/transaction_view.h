/* transaction_view.h: snapshots with a writer's uncommitted changes on top of the committed state, so that a
 * transaction's statements see them. */
#ifndef TSR_TRANSACTION_VIEW_H
#define TSR_TRANSACTION_VIEW_H

#include "array/fragment.h"

typedef struct tsr_sorted_run tsr_sorted_run;

typedef struct tsr_kept_view { /* the last snapshot with the writer's changes */
  tsr_snapshot *snapshot; /* a reference; NULL: none */
  tsr_mark mark; /* the writer's mark when it was opened */
} tsr_kept_view;

/* Makes the schema of the writer's sorted runs: the array's without filters, with duplicates and with small tiles. Does
 * nothing if it exists. */
int tsr__run_schema(tsr_writer *writer, tsr_error *error);

/* Drops the runs in memory that have cells from number `count` on, and the snapshot that the writer keeps. Call before
 * these cells go. */
void tsr__transaction_view_rewind(tsr_writer *writer, uint64_t count);

/* Drops all runs and the kept snapshot: everything that holds a reference to fragments or to the writer. */
void tsr__transaction_view_release(tsr_writer *writer);

/* Opens a snapshot of `base` with the runs on top, later runs last. `alone`: the snapshot has the runs and no fragment
 * of `base`. The snapshot holds references to base and runs. The caller closes it. */
int tsr__transaction_view_stack(tsr_writer *writer, tsr_snapshot *base, bool alone, const tsr_sorted_run *runs,
                                uint64_t count, tsr_snapshot **snapshot, tsr_error *error);

/* Opens a snapshot of `base` with the spilled runs on top; returns `base` itself, with a reference, if no run is
 * spilled. The caller closes it. */
int tsr__transaction_view_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error);

#endif
