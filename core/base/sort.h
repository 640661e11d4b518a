/* sort.h: sorts pairs of a number and an index, stably. */
#ifndef TSR_SORT_H
#define TSR_SORT_H

#include "tessera.h"

typedef struct tsr_pair {
  uint64_t key;
  uint32_t cell; /* or what else is sorted */
} tsr_pair;

/* By key; stable. The result is in `pairs`. */
void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count);

/* The same, by several threads. */
void tsr__pairs_sort_many(tsr_pair *pairs, tsr_pair *spare, uint64_t count, unsigned threads);

/* Equal keys as `ties` says: < 0, 0, > 0 for two of the pairs' cells; NULL: as they stand. */
typedef int (*tsr_tie_breaker)(const void *argument, uint32_t a, uint32_t b);

void tsr__pairs_sort_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties, const void *argument);

#endif
