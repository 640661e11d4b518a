/* sort.h: stable sorts of pairs of a 64-bit key and a 32-bit index. Callers sort cells this way: pack the sort order
 * into keys, sort the pairs, and then visit the cells in the order of the indexes. */
#ifndef TSR_SORT_H
#define TSR_SORT_H

#include "tessera.h"

typedef struct tsr_memory tsr_memory;

typedef struct tsr_pair {
  uint64_t key;
  uint32_t cell; /* the index of a cell, or of anything else that is sorted */
} tsr_pair;

/* Sorts `count` pairs by key. Pairs with equal keys keep their order. `spare` has room for `count` pairs; its content
 * is undefined afterwards. The other sorts take the same arguments. */
void tsr__pairs_sort(tsr_pair *pairs, tsr_pair *spare, uint64_t count);

/* Sorts on up to `threads` threads including the calling one. Polls the host of `memory` for cancellation now and then,
 * unless `memory` is NULL. Returns TSR_OK; or TSR_INTERRUPT: then the pairs are lost. */
int tsr__pairs_sort_many(tsr_pair *pairs, tsr_pair *spare, uint64_t count, unsigned threads, tsr_memory *memory,
                         tsr_error *error);

/* Compares two cells whose keys are equal: < 0, 0 or > 0, as for qsort. `argument` is the one passed to the sort. */
typedef int (*tsr_tie_breaker)(const void *argument, uint32_t a, uint32_t b);

/* Sorts pairs with equal keys by `ties`; all pairs are sorted by key. */
void tsr__pairs_break_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties,
                           const void *argument);

/* Sorts by key, and pairs with equal keys by `ties`. With a NULL `ties` they keep their order. */
void tsr__pairs_sort_ties(tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_tie_breaker ties, const void *argument);

#endif
