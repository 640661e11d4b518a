/* accumulate.h: what a query keeps of the cells of each group: counts, sums, extremes, moments, lists and sets.
 *
 * A measure is one argument of aggregates, with the filter that goes with it. Each group has a record of 64-bit words;
 * word 0 counts the rows of the group, and each measure has some words behind it. Records of parts of the cells are
 * merged in the order of the parts, so that results do not depend on the number of threads.
 */
#ifndef TSR_ACCUMULATE_H
#define TSR_ACCUMULATE_H

#include "base/memory.h"

typedef struct tsr_measure {
  tsr_value_type type; /* of the argument; TSR_VALUE_NULL: rows that pass the filter are counted */
  bool sum, ends, moments, list; /* beside the count: sum; minimum and maximum; mean and squares; all values */
  bool distinct; /* equal values of a group count once; excludes ends */
  /* words of the record */
  uint32_t count_at; /* rows whose argument is not null */
  uint32_t sum_at; /* REAL, NUMBER: sum, lost digits; else 128 bits, low half first */
  uint32_t reals_at; /* NUMBER: values that are no integers */
  uint32_t low_at, high_at; /* extremes; TEXT: pointer and size; NUMBER: value, and 1 if it is an integer */
  uint32_t moments_at; /* count, mean, sum of squared differences from the mean */
} tsr_measure;

/* Values of an argument for the rows of a block. */
typedef struct tsr_operand {
  const void *values; /* int64_t, uint64_t, double, struct tsr_text_value; unused for a measure without argument */
  const uint8_t *nulls; /* one byte for each row, 1: null; NULL: none is. Not of REAL. NaN is null, too */
  const uint8_t *whole; /* NUMBER: 1: an integer */
} tsr_operand;

/* Says to which record each row of a block belongs: in runs of rows, or row by row. */
typedef struct tsr_spread {
  uint32_t count; /* rows */
  uint32_t run_count; /* 0: row by row */
  const uint32_t *groups; /* number of the record, for each run or row */
  const uint32_t *ends; /* of runs: the row after the last one */
} tsr_spread;

/* Gives the measure its words of the record, from word `at` on. Returns the word after them. */
uint32_t tsr__measure_place(tsr_measure *measure, uint32_t at);

/* Writes the measure's words of a record without rows. */
void tsr__measure_init(const tsr_measure *measure, uint64_t *record);

/* Counts rows in word 0 of records of `words` words. */
void tsr__rows_add(const tsr_spread *spread, uint64_t *records, uint32_t words);

/* Adds values to the records; of lists and sets only the counts and sums, by values that the caller has picked. Text
 * is borrowed. */
void tsr__measure_add(const tsr_measure *measure, const tsr_operand *operand, const tsr_spread *spread,
                      uint64_t *records, uint32_t words);

/* Adds what `from` has counted to `to`. Text is copied to `keep`. */
int tsr__measure_merge(const tsr_measure *measure, uint64_t *to, const uint64_t *from, tsr_arena *keep,
                       tsr_error *error);

/* Gives one value of a record. Errors: TSR_ERROR, "integer overflow". */
int tsr__measure_value(const tsr_measure *measure, tsr_aggregate_function function, const uint64_t *record,
                       tsr_value *value, tsr_error *error);

#endif
