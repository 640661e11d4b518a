/* ingest_twice.h: rows of an ingest at the coordinates of an earlier row. */
#ifndef TSR_INGEST_TWICE_H
#define TSR_INGEST_TWICE_H

#include "ingest/ingest.h"

/* Makes *twice one bit for each row, set where an earlier row has the same coordinates; *count is how many are set. All
 * rows must be there, and all columns must have a datatype. The caller frees *twice, which is of the ingest's budget. The
 * search itself takes at most a quarter of the budget: it goes over the rows several times if they are many. */
int tsr__ingest_find_twice(tsr_ingest *ingest, uint8_t **twice, uint64_t *count, tsr_error *error);

/* Appends the coordinates of the first row whose bit is set, as (1, 2); labels in place of the coordinates that they
 * have. */
int tsr__ingest_print_first(tsr_ingest *ingest, const uint8_t *twice, tsr_buffer *out, tsr_error *error);

/* Leaves out the rows at the coordinates of an earlier row, and tells the caller of the ingest of each. Does nothing if
 * the options do not ask for it, and once it was done. */
int tsr__ingest_leave_out_twice(tsr_ingest *ingest, tsr_error *error);

#endif
