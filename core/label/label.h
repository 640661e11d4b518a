/* label.h: what writers of dimension labels need from a label's index (tessera.h, "Dimension labels"), and what
 * maintenance needs to reach the labels' arrays. */
#ifndef TSR_LABEL_LABEL_H
#define TSR_LABEL_LABEL_H

#include "tessera.h"

/* Returns the label's array. Borrowed until the index is closed. */
tsr_array *tsr__label_array(const tsr_label_index *index);

/* Finds the next run of cells with values, at or after *cell. Returns false if there is none. */
bool tsr__label_next_run(const tsr_label_index *index, uint64_t *cell, uint64_t *count);

/* Checks `count` > 0 new values for the coordinates from `first` on, against each other and against the adjacent values
 * that the index has read, and sets *span to these coordinates. TSR_RANGE: they reach beyond the domain.
 * TSR_CONSTRAINT: the label would no longer strictly increase or decrease; the message names the coordinate. */
int tsr__label_check_values(const tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                            tsr_interval *span, tsr_error *error);

/* ---- label.c: labels of new arrays ------------------------------------------------------------------------------- */

/* For arrays that no other process can see yet. For all others, use tsr_label_write. */

/* Like tsr_label_write, but without the lease that keeps other writers out. */
int tsr__label_write_new(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                         tsr_error *error);

/* ---- label.c: maintaining the arrays of labels together with the labelled array ---------------------------------- */

typedef int (*tsr_label_task)(void *argument, tsr_array *label, tsr_error *error);

/* Opens the array of each dimension label in turn and calls `task` with it, until a call fails. Skips arrays that are
 * missing or outside of the labelled array. */
int tsr__label_arrays_each(tsr_array *array, tsr_label_task task, void *argument, tsr_error *error);

#endif
