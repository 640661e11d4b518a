/* block.h: vectors, the columns of a block of cells: values of one static type, with their nulls. */
#ifndef TSR_BLOCK_H
#define TSR_BLOCK_H

#include "tessera.h"

#define TSR_BLOCK_CELLS 2048u /* the most cells of a block: a vector of doubles has 16 KiB */

typedef struct tsr_text_value tsr_text; /* bytes and size, borrowed from the cells or from the expression */

/* The value of each cell of a block. Values of null cells are defined, but mean nothing. */
typedef struct tsr_vector {
  tsr_value_type type;
  bool constant; /* all cells are as index 0, and the arrays have only that index */
  /* One byte for each cell, 1: null; NULL: no cell is. REAL and NUMBER have none: their null is NaN. */
  const uint8_t *nulls;
  union {
    const int64_t *integers; /* INTEGER, INSTANT */
    const uint64_t *unsigned_integers;
    const double *reals; /* REAL, NUMBER */
    const tsr_text *texts;
  } as; /* OPAQUE and NULL have none */
  const uint8_t *whole; /* NUMBER: one byte for each cell, 1: the value stands for an integer */
} tsr_vector;

/* Gives the value of a cell as the public header describes values: text is borrowed as the vector's is. */
void tsr__vector_value(const tsr_vector *vector, uint32_t cell, tsr_value *value);

#endif
