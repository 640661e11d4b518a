/* check_labels.h: checks the arrays of dimension labels. */
#ifndef TSR_CHECK_LABELS_H
#define TSR_CHECK_LABELS_H

#include "tessera.h"

/* Checks the arrays of all labels of the array at `path`, and the order of their values. Arguments and errors as for
 * tsr_array_check; the files of findings are relative to the labelled array. Does nothing if the array cannot be opened.
 */
int tsr__check_labels(tsr_environment *environment, const char *path, const tsr_check_options *options,
                      tsr_check_report report, void *argument, tsr_error *error);

#endif
