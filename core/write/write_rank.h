/* write_rank.h: strings into numbers. */
#ifndef TSR_WRITE_RANK_H
#define TSR_WRITE_RANK_H

#include "base/memory.h"
#include "base/sort.h"

/* Sorts by the strings of their cells; then each key is how many different strings are below the cell's own. Stable. */
int tsr__pairs_rank(const tsr_column *column, tsr_pair *pairs, tsr_pair *spare, uint64_t count, tsr_memory *memory,
                    tsr_error *error);

#endif
