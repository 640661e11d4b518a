/* label_write.h: values for labels of arrays that nobody else knows yet. tsr_label_write is for all others. */
#ifndef TSR_LABEL_WRITE_H
#define TSR_LABEL_WRITE_H

#include "tessera.h"

/* As tsr_label_write, without the lease that keeps other writers out. */
int tsr__label_write_new(tsr_label_index *index, const void *first, const tsr_column *values, uint64_t count,
                         tsr_error *error);

#endif
