/* read_point.h: one cell of a dense array, as lookups and joins ask for it. */
#ifndef TSR_READ_POINT_H
#define TSR_READ_POINT_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Where the request is one cell of a dense array, which has been written: 1, and no plan is needed; else 0. */
int tsr__read_point_open(tsr_reader *reader, const tsr_request *request, tsr_batch_iterator **iterator,
                         tsr_error *error);

#endif
