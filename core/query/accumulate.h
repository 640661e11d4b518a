/* accumulate.h: the aggregates of each group of a query: counts, sums, extremes, moments, lists and sets.
 *
 * A measure is one argument of aggregates, together with its filter. Each group has a record of 64-bit words: word 0
 * counts the rows of the group, and each measure has some of the words after it. Records of parts of the cells are
 * merged in the order of the parts, so that results do not depend on the number of threads.
 */
#ifndef TSR_ACCUMULATE_H
#define TSR_ACCUMULATE_H

#include "base/memory.h"

typedef struct tsr_measure {
  tsr_value_type type; /* of the argument; TSR_VALUE_NULL: counts the rows that pass the filter */
  bool sum, ends, moments, list; /* kept besides the count: sum; minimum and maximum; mean and squares; all values */
  bool distinct; /* equal values of a group count once; excludes ends */
  /* words of the record */
  uint32_t count_at; /* rows whose argument is not null */
  uint32_t sum_at; /* REAL, NUMBER: sum and its rounding error; else 128 bits, low half first */
  uint32_t reals_at; /* NUMBER: number of values that are not integers */
  uint32_t low_at, high_at; /* extremes; TEXT: pointer and size; NUMBER: value, and 1 if it is an integer */
  uint32_t moments_at; /* count, mean, sum of squared differences from the mean */
} tsr_measure;

/* The values of an argument for the rows of a block. */
typedef struct tsr_operand {
  const void *values; /* int64_t, uint64_t, double, tsr_text_value; unused for a measure without argument */
  const uint8_t *nulls; /* one byte for each row, 1: null; NULL: no row is null. None for REAL. NaN is null, too */
  const uint8_t *whole; /* NUMBER: 1 if an integer */
} tsr_operand;

/* Maps each row of a block to a record: by runs of rows, or row by row. */
typedef struct tsr_spread {
  uint32_t count; /* rows */
  uint32_t run_count; /* 0: row by row */
  const uint32_t *groups; /* number of the record of each run or row */
  const uint32_t *ends; /* of each run: the row after its last one */
} tsr_spread;

/* Assigns the measure its words of the record, from word `at` on. Returns the word after them. */
uint32_t tsr__measure_place(tsr_measure *measure, uint32_t at);

/* Writes the measure's words of a record that has no rows yet. */
void tsr__measure_init(const tsr_measure *measure, uint64_t *record);

/* Counts rows in word 0 of records of `words` words. */
void tsr__rows_add(const tsr_spread *spread, uint64_t *records, uint32_t words);

/* Adds values to the records. For lists and sets adds only counts and sums, of values that the caller has picked. Text
 * is borrowed. */
void tsr__measure_add(const tsr_measure *measure, const tsr_operand *operand, const tsr_spread *spread,
                      uint64_t *records, uint32_t words);

/* Merges the measure of record `from` into record `to`. Text is copied to `keep`. */
int tsr__measure_merge(const tsr_measure *measure, uint64_t *to, const uint64_t *from, tsr_arena *keep,
                       tsr_error *error);

/* Computes one aggregate from a record. Errors: TSR_ERROR, "integer overflow". */
int tsr__measure_value(const tsr_measure *measure, tsr_aggregate_function function, const uint64_t *record,
                       tsr_value *value, tsr_error *error);

#endif
