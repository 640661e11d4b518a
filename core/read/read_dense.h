/* read_dense.h: batches of a dense array: each wanted cell from the newest fragment whose box covers it. */
#ifndef TSR_READ_DENSE_H
#define TSR_READ_DENSE_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

#endif
