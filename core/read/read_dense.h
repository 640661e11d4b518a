/* read_dense.h: batches of a dense array: each wanted cell from the newest fragment whose box covers it. */
#ifndef TSR_READ_DENSE_H
#define TSR_READ_DENSE_H

#include "tessera.h"

typedef struct tsr_source tsr_source;

int tsr__read_dense_open(tsr_reader *reader, tsr_source **source, tsr_error *error);

#endif
