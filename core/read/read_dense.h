/* read_dense.h: batches of a dense array. Each selected cell comes from the newest fragment that wrote it. */
#ifndef TSR_READ_DENSE_H
#define TSR_READ_DENSE_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over reader->plan, in tile order. The iterator lives in the reader's arena until its next start;
 * close it before that. */
int tsr__read_dense_open(tsr_reader *reader, tsr_batch_iterator **iterator, tsr_error *error);

#endif
