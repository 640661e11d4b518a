/* read_ordered.h: the rows of a request in an order of dimensions, whatever the order of tiles and cells is. */
#ifndef TSR_READ_ORDERED_H
#define TSR_READ_ORDERED_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* The rows of reader->plan in an order of dimensions; `limit` as in a request. Closed by tsr__read_ordered_free alone. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader);
void tsr__read_ordered_forget(tsr_reader *reader); /* the tiles that its inner reader keeps */

#endif
