/* label_arrays.h: upkeep of the arrays of dimension labels, together with the labelled array. */
#ifndef TSR_LABEL_ARRAYS_H
#define TSR_LABEL_ARRAYS_H

#include "tessera.h"

typedef int (*tsr_label_task)(void *argument, tsr_array *label, tsr_error *error);

/* Opens the array of each dimension label in turn and calls `task` with it, until a call fails. Arrays that are missing
 * and those that lie outside of the labelled array are left out. */
int tsr__label_arrays_each(tsr_array *array, tsr_label_task task, void *argument, tsr_error *error);

#endif
