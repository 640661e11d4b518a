/* read_sparse.h: batches of a sparse array. */
#ifndef TSR_READ_SPARSE_H
#define TSR_READ_SPARSE_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

#endif
