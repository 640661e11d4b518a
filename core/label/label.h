/* label.h: values for labels of arrays that nobody else knows yet. tsr_label_write is for all others. */
#ifndef TSR_LABEL_LABEL_H
#define TSR_LABEL_LABEL_H

#include "tessera.h"

/* As tsr_label_write, without the lease that keeps other writers out. */
int tsr__label_write_new(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                         tsr_error *error);

/* Upkeep of the arrays of dimension labels, together with the labelled array. */

typedef int (*tsr_label_task)(void *argument, tsr_array *label, tsr_error *error);

/* Opens the array of each dimension label in turn and calls `task` with it, until a call fails. Arrays that are missing
 * and those that lie outside of the labelled array are left out. */
int tsr__label_arrays_each(tsr_array *array, tsr_label_task task, void *argument, tsr_error *error);

#endif
