/* transaction view.h: a snapshot with a writer's changes on top. */
#ifndef TSR_TRANSACTION_VIEW_H
#define TSR_TRANSACTION_VIEW_H

#include "array/fragment.h"

typedef struct tsr_sorted_run tsr_sorted_run;

/* Makes the schema of runs, once. */
int tsr__run_schema(tsr_writer *writer, tsr_error *error);

/* Before cells from `count` on go: the runs in memory that hold them, the snapshot that is kept. */
void tsr__transaction_view_rewind(tsr_writer *writer, uint64_t count);
void tsr__transaction_view_release(tsr_writer *writer); /* all that holds references */

/* Where the cell that came as number `at` of a run in memory, whose first is number `first`, stands in it. */
int tsr__transaction_view_position(tsr_fragment *run, uint64_t first, uint64_t at, uint64_t *position,
                                   tsr_error *error);

/* The base with runs on top, the later ones last; or these runs alone. */
int tsr__transaction_view_stack(tsr_writer *writer, tsr_snapshot *base, bool alone, const tsr_sorted_run *runs,
                                uint64_t count, tsr_snapshot **snapshot, tsr_error *error);

/* The base with the spilled runs on top alone. */
int tsr__transaction_view_spilled(tsr_writer *writer, tsr_snapshot *base, tsr_snapshot **snapshot, tsr_error *error);

#endif
