/* point.h: the short way to a single cell of a dense array, as lookups and joins request it. */
#ifndef TSR_READ_POINT_H
#define TSR_READ_POINT_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Returns 1, with an iterator of one batch of one cell, if the request selects a single cell of a dense array and a
 * dense fragment has written it: no plan is needed. Returns 0 if the request needs a plan; < 0: error. The iterator
 * lives in the reader's arena. */
int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error);

#endif
