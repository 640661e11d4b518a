/* write_rank.h: ranks strings, so that numbers stand for them in a sort. */
#ifndef TSR_WRITE_RANK_H
#define TSR_WRITE_RANK_H

#include "base/memory.h"
#include "base/sort.h"

/* Sorts the pairs by the strings of their cells, stably, and sets each key to the rank of its string: how many
 * different strings are less. `spare` is room for as many pairs. */
int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

#endif
