/* write_order.h: finds the global order of sparse cells. */
#ifndef TSR_WRITE_ORDER_H
#define TSR_WRITE_ORDER_H

#include "base/memory.h"
#include "base/sort.h"

/* Cells of a block that write_ahead.c sorts by Hilbert codes before the others have come. */
#define TSR_ORDER_BLOCK 32768u

typedef struct tsr_order_ahead {
  tsr_pair *const *blocks; /* by block; NULL: this block was not sorted */
  uint64_t count; /* complete blocks, from the first cell on */
} tsr_order_ahead;

/* Sets order[0..*count) to the numbers of the cells in the schema's global order; cells with equal coordinates stand in
 * the order of their numbers. If the schema has no duplicates, only the last of equal cells is left, and *count falls.
 * `columns` holds the dimensions. `ahead` has blocks that were sorted ahead, of an array in Hilbert order; NULL:
 * none. */
int tsr__order_cells(const tsr_schema *schema, const tsr_column *columns, tsr_memory *memory, unsigned threads,
                     const tsr_order_ahead *ahead, uint32_t *order, uint64_t *count, tsr_error *error);

/* Computes the Hilbert codes of `count` cells from `first` on. */
void tsr__order_codes(const tsr_schema *schema, const tsr_column *columns, uint64_t first, uint64_t count,
                      uint64_t *codes);

/* Compares two cells whose Hilbert codes are equal, by their coordinates. */
int tsr__order_compare(const tsr_schema *schema, const tsr_column *columns, uint32_t a, uint32_t b);

/* Returns true if so few codes equal others that sorting by them alone pays off. */
static inline bool tsr__order_few_ties(uint64_t ties, uint64_t count) { return ties <= count / 8; }

/* The global order as lists of numbers, one number for each cell, the most significant list first. Returns how many
 * lists there are. */
uint32_t tsr__order_lists(const tsr_schema *schema);

/* Sets numbers[0..count) to the numbers of one list, and *dimension to the dimension whose coordinates they are, or to
 * the number of dimensions if they are none (tiles, Hilbert codes). The list of a string dimension has no numbers:
 * compare its values as bytes. */
int tsr__order_list(const tsr_schema *schema, uint32_t list, const tsr_column *columns, uint64_t count,
                    uint64_t *numbers, uint32_t *dimension, tsr_error *error);

#endif
