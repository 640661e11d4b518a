/* aggregate_sums.h: adds up the values of columns: count, sum, minimum and maximum, in loops for each physical type.
 * aggregate.c keeps one tsr_sums for each group. */
#ifndef TSR_AGGREGATE_SUMS_H
#define TSR_AGGREGATE_SUMS_H

#include "model/datatype.h"

typedef struct tsr_sums { /* of one group */
  uint64_t count; /* cells that are not null */
  uint64_t nulls; /* cells that are; NaN counts as null */
  union {
    uint64_t integer[2]; /* 128 bits, two's complement, low half first: __int128 would need an alignment of 16 */
    double real[2]; /* the sum, and the rounding errors of its additions (NaN after an infinity) */
  } sum;
  union {
    int64_t i;
    uint64_t u;
    double f;
  } min, max; /* valid if count > 0 */
  double doubt; /* likely rounding error of sums of floats that came from statistics; absolute */
} tsr_sums;

/* Values of a column; the pointers point to the value of index 0. */
typedef struct tsr_cells {
  tsr_physical_type type;
  const uint8_t *values;
  const uint8_t *validity; /* NULL: no nulls */
  const uint32_t *selection; /* indices of the cells; NULL: 0..count-1 */
  uint64_t count; /* at most TSR_SUMS_CELLS */
} tsr_cells;

#define TSR_SUMS_CELLS 65536u /* so many integers of 32 bits have a sum within 64 bits */

/* Sets the sums of a group without cells. */
void tsr__sums_init(tsr_physical_type type, tsr_sums *sums);

/* Adds all cells to one group. */
void tsr__sums_add(const tsr_cells *cells, tsr_sums *sums);

/* Adds cell r to the group sums[groups[r]]. */
void tsr__sums_scatter(const tsr_cells *cells, const uint32_t *groups, tsr_sums *sums);

/* Adds the cells that `more` counts. */
void tsr__sums_merge(tsr_physical_type type, tsr_sums *sums, const tsr_sums *more);

/* Adds `count` values that are known only by their statistics: minimum and maximum in the physical type, and the sum as
 * the bits of a double or as a 64-bit integer. */
void tsr__sums_add_known(tsr_physical_type type, uint64_t count, const void *min, const void *max, uint64_t sum,
                         tsr_sums *sums);

/* Returns the sum, rounded to a double. */
double tsr__sums_real(tsr_physical_type type, const tsr_sums *sums);

#endif
