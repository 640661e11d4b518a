/* pass_kinds.c: the aggregates that passes and offsets make: how partial aggregates grow, and what their results are.
 *
 * Sections: kinds; results of rows; types.
 */
#include "query/pass_kinds.h"

#include <math.h>
#include <string.h>

/* ---- Kinds ------------------------------------------------------------------------------------------------------- */

static void clear_all(const tsr_row *row, uint32_t parts, uint32_t n) {
  for (uint32_t p = 0; p < parts; p++) memset(row->words[p], 0, n * sizeof(uint64_t)); /* 0 and 0.0 */
}

static void clear_1(const tsr_row *row, uint32_t n) { clear_all(row, 1, n); }
static void clear_3(const tsr_row *row, uint32_t n) { clear_all(row, 3, n); }

/* Counts: one integer. */
static void extend_count(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out, uint32_t n) {
  (void)values;
  TSR_EACH_LANE TSR_INTEGERS(out, 0)[i] = TSR_INTEGERS(a, 0)[i] + (known[i] == TSR_KNOWN_VALUE);
}

static void merge_count(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  TSR_EACH_LANE TSR_INTEGERS(out, 0)[i] = TSR_INTEGERS(a, 0)[i] + TSR_INTEGERS(b, 0)[i];
}

/* Counts of REAL: null is NaN. */
static void extend_count_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                              uint32_t n) {
  const double *v = values;
  (void)known;
  TSR_EACH_LANE TSR_INTEGERS(out, 0)[i] = TSR_INTEGERS(a, 0)[i] + (v[i] == v[i]);
}

/* Sums of REAL: the sum, its rounding error, and the count, a double. */
static void extend_sum_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                            uint32_t n) {
  const double *restrict v = values;
  const double *sum = TSR_REALS(a, 0), *rest = TSR_REALS(a, 1), *count = TSR_REALS(a, 2);
  double *sum_out = TSR_REALS(out, 0), *rest_out = TSR_REALS(out, 1), *count_out = TSR_REALS(out, 2);
  (void)known;
  TSR_EACH_LANE {
    const bool there = v[i] == v[i];
    const double x = there ? v[i] : 0, before = sum[i], total = before + x, back = total - before;
    rest_out[i] = rest[i] + ((before - (total - back)) + (x - back));
    sum_out[i] = total;
    count_out[i] = count[i] + (there ? 1.0 : 0.0);
  }
}

static void merge_sum_real(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  const double *sum = TSR_REALS(a, 0), *rest = TSR_REALS(a, 1), *count = TSR_REALS(a, 2);
  const double *sum_b = TSR_REALS(b, 0), *rest_b = TSR_REALS(b, 1), *count_b = TSR_REALS(b, 2);
  double *sum_out = TSR_REALS(out, 0), *rest_out = TSR_REALS(out, 1), *count_out = TSR_REALS(out, 2);
  TSR_EACH_LANE {
    const double x = sum_b[i], before = sum[i], total = before + x, back = total - before;
    rest_out[i] = (rest[i] + rest_b[i]) + ((before - (total - back)) + (x - back));
    sum_out[i] = total;
    count_out[i] = count[i] + count_b[i];
  }
}

/* Sums of INTEGER: the sum of the upper halves, the sum of the lower halves, and the count. */
static void extend_sum_integer(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                               uint32_t n) {
  const int64_t *v = values;
  TSR_EACH_LANE {
    const bool there = known[i] == TSR_KNOWN_VALUE;
    const int64_t x = there ? v[i] : 0;
    TSR_INTEGERS(out, 0)[i] = TSR_INTEGERS(a, 0)[i] + (x >> 32);
    TSR_INTEGERS(out, 1)[i] = TSR_INTEGERS(a, 1)[i] + (int64_t)((uint64_t)x & UINT32_MAX);
    TSR_INTEGERS(out, 2)[i] = TSR_INTEGERS(a, 2)[i] + there;
  }
}

static void merge_sum_integer(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  for (uint32_t p = 0; p < 3; p++)
    TSR_EACH_LANE TSR_INTEGERS(out, p)[i] = TSR_INTEGERS(a, p)[i] + TSR_INTEGERS(b, p)[i];
}

/* Extremes: the value, and the count of values. */
#define DEFINE_EXTREME(name, TYPE, NONE, THERE, BETTER)                                                                \
  static void clear_##name(const tsr_row *row, uint32_t n) {                                                           \
    TYPE *best = (TYPE *)(void *)row->words[0];                                                                        \
    TSR_EACH_LANE best[i] = NONE;                                                                                      \
    memset(row->words[1], 0, n * sizeof(uint64_t));                                                                    \
  }                                                                                                                    \
  static void extend_##name(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,            \
                            uint32_t n) {                                                                              \
    const TYPE *v = values, *before = (const TYPE *)(const void *)a->words[0];                                         \
    TYPE *best = (TYPE *)(void *)out->words[0];                                                                        \
    (void)known;                                                                                                       \
    TSR_EACH_LANE {                                                                                                    \
      const bool there = THERE;                                                                                        \
      const TYPE x = there ? v[i] : (TYPE)(NONE), y = before[i];                                                       \
      best[i] = x BETTER y ? x : y;                                                                                    \
      TSR_INTEGERS(out, 1)[i] = TSR_INTEGERS(a, 1)[i] + there;                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  static void merge_##name(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {                       \
    const TYPE *before = (const TYPE *)(const void *)a->words[0], *v = (const TYPE *)(const void *)b->words[0];        \
    TYPE *best = (TYPE *)(void *)out->words[0];                                                                        \
    TSR_EACH_LANE {                                                                                                    \
      const TYPE x = v[i], y = before[i];                                                                              \
      best[i] = x BETTER y ? x : y;                                                                                    \
      TSR_INTEGERS(out, 1)[i] = TSR_INTEGERS(a, 1)[i] + TSR_INTEGERS(b, 1)[i];                                         \
    }                                                                                                                  \
  }
DEFINE_EXTREME(least_real, double, (double)INFINITY, v[i] == v[i], <)
DEFINE_EXTREME(greatest_real, double, (double)-INFINITY, v[i] == v[i], >)
DEFINE_EXTREME(least_integer, int64_t, INT64_MAX, known[i] == TSR_KNOWN_VALUE, <)
DEFINE_EXTREME(greatest_integer, int64_t, INT64_MIN, known[i] == TSR_KNOWN_VALUE, >)
DEFINE_EXTREME(least_unsigned, uint64_t, UINT64_MAX, known[i] == TSR_KNOWN_VALUE, <)
DEFINE_EXTREME(greatest_unsigned, uint64_t, 0, known[i] == TSR_KNOWN_VALUE, >)

/* Moments: count, mean, and sum of squared differences from the mean, all doubles. */
static inline void add_moment(const tsr_row *a, const tsr_row *out, uint32_t i, bool there, double x) {
  const double count = TSR_REALS(a, 0)[i], mean = TSR_REALS(a, 1)[i], squares = TSR_REALS(a, 2)[i];
  const double difference = x - mean, more = mean + difference / (count + 1);
  TSR_REALS(out, 0)[i] = there ? count + 1 : count;
  TSR_REALS(out, 1)[i] = there ? more : mean;
  TSR_REALS(out, 2)[i] = there ? squares + difference * (x - more) : squares;
}

static void extend_moments_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                                uint32_t n) {
  const double *v = values;
  (void)known;
  TSR_EACH_LANE add_moment(a, out, i, v[i] == v[i], v[i]);
}

static void extend_moments_integer(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                                   uint32_t n) {
  const int64_t *v = values;
  TSR_EACH_LANE add_moment(a, out, i, known[i] == TSR_KNOWN_VALUE, (double)v[i]);
}

static void merge_moments(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  TSR_EACH_LANE {
    const double count_a = TSR_REALS(a, 0)[i], count_b = TSR_REALS(b, 0)[i], count = count_a + count_b;
    const double mean_a = TSR_REALS(a, 1)[i], difference = TSR_REALS(b, 1)[i] - mean_a, squares = TSR_REALS(a, 2)[i];
    const double part = count > 0 ? count_b / count : 0;
    const double joined = squares + TSR_REALS(b, 2)[i] + difference * difference * count_a * part;
    TSR_REALS(out, 0)[i] = count;
    TSR_REALS(out, 1)[i] = count_a > 0 ? mean_a + difference * part : TSR_REALS(b, 1)[i];
    TSR_REALS(out, 2)[i] = count_a > 0 ? joined : TSR_REALS(b, 2)[i];
  }
}

static const tsr_pass_kind kind_count = {1, clear_1, extend_count, merge_count};
static const tsr_pass_kind kind_count_real = {1, clear_1, extend_count_real, merge_count};
static const tsr_pass_kind kind_sum_real = {3, clear_3, extend_sum_real, merge_sum_real};
static const tsr_pass_kind kind_sum_integer = {3, clear_3, extend_sum_integer, merge_sum_integer};
static const tsr_pass_kind kind_least_real = {2, clear_least_real, extend_least_real, merge_least_real};
static const tsr_pass_kind kind_greatest_real = {2, clear_greatest_real, extend_greatest_real, merge_greatest_real};
static const tsr_pass_kind kind_least_integer = {2, clear_least_integer, extend_least_integer, merge_least_integer};
static const tsr_pass_kind kind_greatest_integer = {2, clear_greatest_integer, extend_greatest_integer,
                                                    merge_greatest_integer};
static const tsr_pass_kind kind_least_unsigned = {2, clear_least_unsigned, extend_least_unsigned, merge_least_unsigned};
static const tsr_pass_kind kind_greatest_unsigned = {2, clear_greatest_unsigned, extend_greatest_unsigned,
                                                     merge_greatest_unsigned};
static const tsr_pass_kind kind_moments_real = {3, clear_3, extend_moments_real, merge_moments};
static const tsr_pass_kind kind_moments_integer = {3, clear_3, extend_moments_integer, merge_moments};

const tsr_pass_kind *tsr__pass_kind_of(const tsr_pass *pass) {
  const bool real = pass->type == TSR_VALUE_REAL, integer = pass->type == TSR_VALUE_INTEGER;
  switch (pass->function) {
  case TSR_AGGREGATE_COUNT: return real ? &kind_count_real : &kind_count;
  case TSR_AGGREGATE_SUM:
  case TSR_AGGREGATE_TOTAL:
  case TSR_AGGREGATE_AVG: return real ? &kind_sum_real : &kind_sum_integer;
  case TSR_AGGREGATE_MIN:
    return real                               ? &kind_least_real
           : integer                          ? &kind_least_integer
           : pass->type == TSR_VALUE_UNSIGNED ? &kind_least_unsigned
                                              : NULL;
  case TSR_AGGREGATE_MAX:
    return real                               ? &kind_greatest_real
           : integer                          ? &kind_greatest_integer
           : pass->type == TSR_VALUE_UNSIGNED ? &kind_greatest_unsigned
                                              : NULL;
  case TSR_AGGREGATE_STDDEV:
  case TSR_AGGREGATE_VARIANCE: return real ? &kind_moments_real : &kind_moments_integer;
  default: return NULL;
  }
}

/* ---- Results of rows --------------------------------------------------------------------------------------------- */

static double null_unless(bool there, double value) { return there ? value + 0.0 : (double)NAN; } /* -0.0 is 0.0 */

/* Gives the sum of the two halves. Returns false if it does not fit. */
static bool whole_sum(int64_t high, int64_t low, int64_t *sum) {
  const int64_t carried = high + (low >> 32); /* low is a sum of fewer than 2^31 numbers below 2^32 */
  if (carried < INT32_MIN || carried > INT32_MAX) return false;
  *sum = (int64_t)((uint64_t)carried << 32 | ((uint64_t)low & UINT32_MAX));
  return true;
}

static double real_of_halves(int64_t high, int64_t low) {
  int64_t sum;
  return whole_sum(high, low, &sum) ? (double)sum : (double)high * 4294967296.0 + (double)low;
}

static void results_of_sums(tsr_pass *pass, const tsr_row *row, uint32_t n, uint64_t *out, uint8_t *valid) {
  double *reals = (double *)(void *)out;
  int64_t *integers = (int64_t *)(void *)out;
  if (pass->function == TSR_AGGREGATE_AVG && pass->type == TSR_VALUE_REAL) {
    TSR_EACH_LANE {
      const double sum = TSR_REALS(row, 0)[i], exact = sum + TSR_REALS(row, 1)[i], count = TSR_REALS(row, 2)[i];
      const double total = exact - exact == 0 ? exact : sum;
      reals[i] = total / count + 0.0; /* 0 / 0 is null */
    }
    return;
  }
  if (pass->type == TSR_VALUE_REAL) {
    const double least = pass->function == TSR_AGGREGATE_TOTAL ? 0 : 1; /* count of values, below which it is null */
    TSR_EACH_LANE {
      const double sum = TSR_REALS(row, 0)[i], exact = sum + TSR_REALS(row, 1)[i], count = TSR_REALS(row, 2)[i];
      const double total = exact - exact == 0 ? exact : sum; /* the rounding error of an infinite sum is NaN */
      reals[i] = count >= least ? total + 0.0 : (double)NAN; /* -0.0 is 0.0 */
    }
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const int64_t count = TSR_INTEGERS(row, 2)[i];
    const double total = real_of_halves(TSR_INTEGERS(row, 0)[i], TSR_INTEGERS(row, 1)[i]);
    if (pass->function == TSR_AGGREGATE_AVG) {
      reals[i] = null_unless(count > 0, total / (double)count);
    } else if (pass->function == TSR_AGGREGATE_TOTAL) {
      reals[i] = total + 0.0;
    } else {
      valid[i] = count > 0;
      if (!whole_sum(TSR_INTEGERS(row, 0)[i], TSR_INTEGERS(row, 1)[i], &integers[i])) {
        integers[i] = 0;
        atomic_store(&pass->overflow, true);
      }
    }
  }
}

void tsr__pass_results(tsr_pass *pass, const tsr_row *row, uint32_t n, uint64_t *out, uint8_t *valid) {
  double *reals = (double *)(void *)out;
  switch (pass->function) {
  case TSR_AGGREGATE_COUNT:
    memcpy(out, row->words[0], n * sizeof *out);
    memset(valid, 1, n);
    return;
  case TSR_AGGREGATE_MIN:
  case TSR_AGGREGATE_MAX:
    for (uint32_t i = 0; i < n; i++) {
      const bool there = TSR_INTEGERS(row, 1)[i] > 0;
      if (pass->type == TSR_VALUE_REAL) reals[i] = null_unless(there, TSR_REALS(row, 0)[i]);
      else out[i] = row->words[0][i], valid[i] = there;
    }
    return;
  case TSR_AGGREGATE_STDDEV:
  case TSR_AGGREGATE_VARIANCE:
    for (uint32_t i = 0; i < n; i++) {
      const double count = TSR_REALS(row, 0)[i], variance = TSR_REALS(row, 2)[i] / (count - 1);
      reals[i] = null_unless(count > 1, pass->function == TSR_AGGREGATE_STDDEV ? sqrt(variance) : variance);
    }
    return;
  default: results_of_sums(pass, row, n, out, valid);
  }
}

/* ---- Types ------------------------------------------------------------------------------------------------------- */

tsr_value_type tsr__pass_type(tsr_aggregate_function function, tsr_value_type argument) {
  const bool number = argument == TSR_VALUE_INTEGER || argument == TSR_VALUE_REAL;
  const bool orders = number || argument == TSR_VALUE_UNSIGNED || argument == TSR_VALUE_TEXT;
  switch (function) {
  case TSR_AGGREGATE_COUNT: return argument == TSR_VALUE_OPAQUE ? TSR_VALUE_OPAQUE : TSR_VALUE_INTEGER;
  case TSR_AGGREGATE_SUM: return number ? argument : TSR_VALUE_OPAQUE;
  case TSR_AGGREGATE_TOTAL:
  case TSR_AGGREGATE_AVG:
  case TSR_AGGREGATE_MEDIAN:
  case TSR_AGGREGATE_PERCENTILE:
  case TSR_AGGREGATE_STDDEV:
  case TSR_AGGREGATE_VARIANCE: return number ? TSR_VALUE_REAL : TSR_VALUE_OPAQUE;
  case TSR_AGGREGATE_MIN:
  case TSR_AGGREGATE_MAX:
  case TSR_AGGREGATE_FIRST:
  case TSR_AGGREGATE_LAST:
  case TSR_AGGREGATE_NTH: return orders ? argument : TSR_VALUE_OPAQUE;
  case TSR_AGGREGATE_AT:
  default: return TSR_VALUE_OPAQUE;
  }
}

uint32_t tsr__pass_parts(const tsr_pass *pass) {
  const tsr_pass_kind *kind = tsr__pass_kind_of(pass);
  return kind ? kind->parts : 0;
}

tsr_value_type tsr__pass_product(tsr_value_type argument, tsr_value_type weight) {
  if (weight == TSR_VALUE_NULL) return argument;
  if (argument == TSR_VALUE_NULL) return weight;
  if (argument != TSR_VALUE_INTEGER && argument != TSR_VALUE_REAL) return TSR_VALUE_OPAQUE;
  return argument == TSR_VALUE_INTEGER ? weight : TSR_VALUE_REAL;
}
