/* read_ordered.h: the rows of a request in an order of dimensions, whatever the order of its tiles and cells. */
#ifndef TSR_READ_ORDERED_H
#define TSR_READ_ORDERED_H

#include "tessera.h"

typedef struct tsr_batch_iterator tsr_batch_iterator;

/* Opens an iterator over the rows of reader->plan, in an order of `count` dimensions. `limit` is a hint as in a
 * request: how many rows are likely to be taken, 0: all. The iterator belongs to the reader, which reuses it at its
 * next start: closing it gives back tiles only; tsr__read_ordered_free frees it. */
int tsr__read_ordered_open(tsr_reader *reader, const tsr_sort *order, uint32_t count, uint64_t limit,
                           tsr_batch_iterator **iterator, tsr_error *error);
void tsr__read_ordered_free(tsr_reader *reader); /* does nothing if the reader has never been ordered */

/* Gives back the tiles that the inner reader keeps from start to start. */
void tsr__read_ordered_forget(tsr_reader *reader);

#endif
