/* write_order.h: the global order of sparse cells. */
#ifndef TSR_WRITE_ORDER_H
#define TSR_WRITE_ORDER_H

#include "base/memory.h"
#include "base/sort.h"

/* Blocks of cells that were sorted by their Hilbert codes before. */
#define TSR_ORDER_BLOCK 32768u

typedef struct tsr_order_ahead {
  tsr_pair *const *blocks; /* NULL where one was not */
  uint64_t count; /* of whole ones, from the first cell on */
} tsr_order_ahead;

/* order[0..*count) becomes the numbers of the cells in the schema's global order, equal coordinates in the order of
 * their numbers; where the schema has no duplicates only the last of equals is left. `columns` has the dimensions.
 * `ahead`, of an array in Hilbert order, may be NULL. */
int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

/* Hilbert codes of the cells from `first` on. */
void tsr__order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t *codes);

/* The order of two cells whose codes are equal. */
int tsr__order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b);

/* Are so few codes equal to others that sorting by them alone suffices? */
static inline bool tsr__order_few_ties(uint64_t ties, uint64_t count) { return ties <= count / 8; }

/* The same as lists of numbers, the most significant first: numbers[0..count) become those of one list. `dimension` is
 * whose coordinates they are, or the number of dimensions; of strings there are none, they are compared as bytes. */
uint32_t tsr__order_lists(const tsr_schema *schema);
int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error);

#endif
