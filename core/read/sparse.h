/* sparse.h: batches of a sparse array: the newest version of each cell, without deleted ones. */
#ifndef TSR_READ_SPARSE_H
#define TSR_READ_SPARSE_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over reader->plan, in no particular order. The iterator lives in the reader's arena until its next
 * start; close it before that. */
int tsr__read_sparse_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

#endif
