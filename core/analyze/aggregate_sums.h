/* aggregate_sums.h: count, sum, minimum and maximum in typed loops. */
#ifndef TSR_AGGREGATE_SUMS_H
#define TSR_AGGREGATE_SUMS_H

#include "model/datatype.h"

typedef struct tsr_sums { /* of one group */
  uint64_t count, nulls; /* cells that are no null, and those that are; NaN is null */
  union {
    uint64_t integer[2]; /* 128 bits, two's complement, low first: memory may be aligned to 8 only */
    double real[2]; /* the sum, and what was lost in rounding it (no number once it has met infinity) */
  } sum;
  union {
    int64_t i;
    uint64_t u;
    double f;
  } min, max; /* if count > 0 */
  double doubt; /* how far sums of floats that came from statistics may be off, about */
} tsr_sums;

/* Values as they stand in a column: pointers to those of index 0. */
typedef struct tsr_cells {
  tsr_physical_type machine;
  const uint8_t *values, *validity; /* validity NULL: no nulls */
  const uint32_t *selection; /* NULL: 0..count-1 */
  uint64_t count; /* at most TSR_SUMS_CELLS */
} tsr_cells;

#define TSR_SUMS_CELLS 65536u
void tsr__sums_init(tsr_physical_type machine, tsr_sums *sums);
void tsr__sums_add(const tsr_cells *cells, tsr_sums *sums);

/* Each to its own group: cell r to sums[groups[r]]. */
void tsr__sums_scatter(const tsr_cells *cells, const uint32_t *groups, tsr_sums *sums);
void tsr__sums_merge(tsr_physical_type machine, tsr_sums *sums, const tsr_sums *more);

/* Adds `count` values, of which these are minimum, maximum (both in the machine's type) and sum (as statistics have it:
 * a double, or 64 bits). */
void tsr__sums_add_known(tsr_physical_type machine, uint64_t count, const void *min, const void *max, uint64_t sum,
                         tsr_sums *sums);
double tsr__sums_real(tsr_physical_type machine, const tsr_sums *sums); /* the sum as a double */

#endif
