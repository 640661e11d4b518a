/* passes.c: aggregates over moving frames, along one axis of a box.
 *
 * Aggregates that combine go through the axis with LANES lines side by side, so that each step is a loop over lanes. A
 * partial aggregate of the lanes is a tsr_row: one array of words for each of its parts. While positions advance, the
 * part of the frame before the cut comes from `before`, which has a row for each position from the frame's first to the
 * cut, and the part after it is one row that grows.
 *
 * Medians, texts and functions that pick a cell work on one line at a time.
 *
 * Sections: frames; kinds of aggregates; lanes; lines one by one; running a pass; offsets.
 */
#include "query/passes.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "model/datatype.h"

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

void tsr__frames_cut(const tsr_window_frame *frames, uint64_t count, int64_t *cuts) {
  int64_t cut = INT64_MIN;
  for (uint64_t i = 0; i < count; i++) {
    const tsr_window_frame *frame = &frames[i];
    if (frame->first <= frame->last && frame->first >= cut) cut = frame->last + 1;
    cuts[i] = cut;
  }
}

/* ---- Kinds of aggregates ----------------------------------------------------------------------------------------- */
/* `extend` adds one cell to a partial aggregate, `merge` another partial aggregate, for `n` lanes. The output may be
 * the first input. */

#define LANES 256u

typedef struct tsr_row { /* of LANES words each */
  uint64_t *words[TSR_PASS_PARTS];
} tsr_row;

typedef struct pass_kind {
  uint32_t parts;
  void (*clear)(const tsr_row *row, uint32_t n);
  void (*extend)(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out, uint32_t n);
  void (*merge)(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n);
} pass_kind;

/* The loops over lanes: out[i] depends on a[i] alone, although `out` may be `a`. */
#if defined(__clang__)
#define EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (uint32_t i = 0; i < n; i++)
#else
#define EACH_LANE _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)
#endif

#define REALS(row, part)    ((double *)(void *)(row)->words[part])
#define INTEGERS(row, part) ((int64_t *)(void *)(row)->words[part])

static void clear_all(const tsr_row *row, uint32_t parts, uint32_t n) {
  for (uint32_t p = 0; p < parts; p++) memset(row->words[p], 0, n * sizeof(uint64_t)); /* 0 and 0.0 */
}

static void clear_1(const tsr_row *row, uint32_t n) { clear_all(row, 1, n); }
static void clear_3(const tsr_row *row, uint32_t n) { clear_all(row, 3, n); }

/* Counts: one integer. */
static void extend_count(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out, uint32_t n) {
  (void)values;
  EACH_LANE INTEGERS(out, 0)[i] = INTEGERS(a, 0)[i] + (known[i] == TSR_KNOWN_VALUE);
}

static void merge_count(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  EACH_LANE INTEGERS(out, 0)[i] = INTEGERS(a, 0)[i] + INTEGERS(b, 0)[i];
}

/* Counts of REAL: null is NaN. */
static void extend_count_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                              uint32_t n) {
  const double *v = values;
  (void)known;
  EACH_LANE INTEGERS(out, 0)[i] = INTEGERS(a, 0)[i] + (v[i] == v[i]);
}

/* Sums of REAL: the sum, its rounding error, and the count, a double. */
static void extend_sum_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                            uint32_t n) {
  const double *restrict v = values;
  const double *sum = REALS(a, 0), *rest = REALS(a, 1), *count = REALS(a, 2);
  double *sum_out = REALS(out, 0), *rest_out = REALS(out, 1), *count_out = REALS(out, 2);
  (void)known;
  EACH_LANE {
    const bool there = v[i] == v[i];
    const double x = there ? v[i] : 0, before = sum[i], total = before + x, back = total - before;
    rest_out[i] = rest[i] + ((before - (total - back)) + (x - back));
    sum_out[i] = total;
    count_out[i] = count[i] + (there ? 1.0 : 0.0);
  }
}

static void merge_sum_real(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  const double *sum = REALS(a, 0), *rest = REALS(a, 1), *count = REALS(a, 2);
  const double *sum_b = REALS(b, 0), *rest_b = REALS(b, 1), *count_b = REALS(b, 2);
  double *sum_out = REALS(out, 0), *rest_out = REALS(out, 1), *count_out = REALS(out, 2);
  EACH_LANE {
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
  EACH_LANE {
    const bool there = known[i] == TSR_KNOWN_VALUE;
    const int64_t x = there ? v[i] : 0;
    INTEGERS(out, 0)[i] = INTEGERS(a, 0)[i] + (x >> 32);
    INTEGERS(out, 1)[i] = INTEGERS(a, 1)[i] + (int64_t)((uint64_t)x & UINT32_MAX);
    INTEGERS(out, 2)[i] = INTEGERS(a, 2)[i] + there;
  }
}

static void merge_sum_integer(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  for (uint32_t p = 0; p < 3; p++) EACH_LANE INTEGERS(out, p)[i] = INTEGERS(a, p)[i] + INTEGERS(b, p)[i];
}

/* Extremes: the value, and the count of values. */
#define DEFINE_EXTREME(name, TYPE, NONE, THERE, BETTER)                                                                \
  static void clear_##name(const tsr_row *row, uint32_t n) {                                                           \
    TYPE *best = (TYPE *)(void *)row->words[0];                                                                        \
    EACH_LANE best[i] = NONE;                                                                                          \
    memset(row->words[1], 0, n * sizeof(uint64_t));                                                                    \
  }                                                                                                                    \
  static void extend_##name(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,            \
                            uint32_t n) {                                                                              \
    const TYPE *v = values, *before = (const TYPE *)(const void *)a->words[0];                                         \
    TYPE *best = (TYPE *)(void *)out->words[0];                                                                        \
    (void)known;                                                                                                       \
    EACH_LANE {                                                                                                        \
      const bool there = THERE;                                                                                        \
      const TYPE x = there ? v[i] : (TYPE)(NONE), y = before[i];                                                       \
      best[i] = x BETTER y ? x : y;                                                                                    \
      INTEGERS(out, 1)[i] = INTEGERS(a, 1)[i] + there;                                                                 \
    }                                                                                                                  \
  }                                                                                                                    \
  static void merge_##name(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {                       \
    const TYPE *before = (const TYPE *)(const void *)a->words[0], *v = (const TYPE *)(const void *)b->words[0];        \
    TYPE *best = (TYPE *)(void *)out->words[0];                                                                        \
    EACH_LANE {                                                                                                        \
      const TYPE x = v[i], y = before[i];                                                                              \
      best[i] = x BETTER y ? x : y;                                                                                    \
      INTEGERS(out, 1)[i] = INTEGERS(a, 1)[i] + INTEGERS(b, 1)[i];                                                     \
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
  const double count = REALS(a, 0)[i], mean = REALS(a, 1)[i], squares = REALS(a, 2)[i];
  const double difference = x - mean, more = mean + difference / (count + 1);
  REALS(out, 0)[i] = there ? count + 1 : count;
  REALS(out, 1)[i] = there ? more : mean;
  REALS(out, 2)[i] = there ? squares + difference * (x - more) : squares;
}

static void extend_moments_real(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                                uint32_t n) {
  const double *v = values;
  (void)known;
  EACH_LANE add_moment(a, out, i, v[i] == v[i], v[i]);
}

static void extend_moments_integer(const tsr_row *a, const void *values, const uint8_t *known, const tsr_row *out,
                                   uint32_t n) {
  const int64_t *v = values;
  EACH_LANE add_moment(a, out, i, known[i] == TSR_KNOWN_VALUE, (double)v[i]);
}

static void merge_moments(const tsr_row *a, const tsr_row *b, const tsr_row *out, uint32_t n) {
  EACH_LANE {
    const double count_a = REALS(a, 0)[i], count_b = REALS(b, 0)[i], count = count_a + count_b;
    const double mean_a = REALS(a, 1)[i], difference = REALS(b, 1)[i] - mean_a, squares = REALS(a, 2)[i];
    const double part = count > 0 ? count_b / count : 0;
    const double joined = squares + REALS(b, 2)[i] + difference * difference * count_a * part;
    REALS(out, 0)[i] = count;
    REALS(out, 1)[i] = count_a > 0 ? mean_a + difference * part : REALS(b, 1)[i];
    REALS(out, 2)[i] = count_a > 0 ? joined : REALS(b, 2)[i];
  }
}

static const pass_kind kind_count = {1, clear_1, extend_count, merge_count};
static const pass_kind kind_count_real = {1, clear_1, extend_count_real, merge_count};
static const pass_kind kind_sum_real = {3, clear_3, extend_sum_real, merge_sum_real};
static const pass_kind kind_sum_integer = {3, clear_3, extend_sum_integer, merge_sum_integer};
static const pass_kind kind_least_real = {2, clear_least_real, extend_least_real, merge_least_real};
static const pass_kind kind_greatest_real = {2, clear_greatest_real, extend_greatest_real, merge_greatest_real};
static const pass_kind kind_least_integer = {2, clear_least_integer, extend_least_integer, merge_least_integer};
static const pass_kind kind_greatest_integer = {2, clear_greatest_integer, extend_greatest_integer,
                                                merge_greatest_integer};
static const pass_kind kind_least_unsigned = {2, clear_least_unsigned, extend_least_unsigned, merge_least_unsigned};
static const pass_kind kind_greatest_unsigned = {2, clear_greatest_unsigned, extend_greatest_unsigned,
                                                 merge_greatest_unsigned};
static const pass_kind kind_moments_real = {3, clear_3, extend_moments_real, merge_moments};
static const pass_kind kind_moments_integer = {3, clear_3, extend_moments_integer, merge_moments};

/* Returns the kind of a pass; NULL: lines go one by one. */
static const pass_kind *kind_of(const tsr_pass *pass) {
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
  const pass_kind *kind = kind_of(pass);
  return kind ? kind->parts : 0;
}

/* ---- Lanes ------------------------------------------------------------------------------------------------------- */

typedef struct lane_block { /* lines that go side by side */
  tsr_pass *pass;
  const pass_kind *kind;
  const tsr_lines *lines;
  uint32_t lanes, stride; /* stride: words of a part of `rows`, at least `lanes` */
  uint64_t bases[LANES]; /* the cell at position 0 of each line */
  bool together; /* the lines are neighbours */
  /* scratch: */
  uint64_t *rows; /* for `before`: [positions][parts][stride] */
  tsr_row after, whole, given;
  uint8_t known[LANES];
} lane_block;

static tsr_row row_before(const lane_block *b, uint64_t place) {
  tsr_row row;
  for (uint32_t p = 0; p < TSR_PASS_PARTS; p++)
    row.words[p] = b->rows + (place * b->kind->parts + TSR_MIN(p, b->kind->parts - 1)) * b->stride;
  return row;
}

/* Adds the cells at a position to a row. */
static void block_add(lane_block *b, uint64_t position, const tsr_row *row, const tsr_row *out) {
  const tsr_pass *pass = b->pass;
  const uint64_t at = b->bases[0] + position * b->lines->inner, step = position * b->lines->inner;
  if (!pass->first) {
    tsr_row given = b->given;
    for (uint32_t p = 0; p < b->kind->parts; p++) {
      if (b->together) given.words[p] = pass->partial[p] + at;
      else
        for (uint32_t i = 0; i < b->lanes; i++) given.words[p][i] = pass->partial[p][b->bases[i] + step];
    }
    b->kind->merge(row, &given, out, b->lanes);
    return;
  }
  const uint64_t *values = pass->values;
  if (b->together) {
    b->kind->extend(row, values ? values + at : NULL, pass->known ? pass->known + at : NULL, out, b->lanes);
    return;
  }
  for (uint32_t i = 0; i < b->lanes; i++) {
    if (values) b->given.words[0][i] = values[b->bases[i] + step];
    if (pass->known) b->known[i] = pass->known[b->bases[i] + step];
  }
  b->kind->extend(row, b->given.words[0], b->known, out, b->lanes);
}

/* ---- Results of rows ---- */

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
    EACH_LANE {
      const double sum = REALS(row, 0)[i], exact = sum + REALS(row, 1)[i], count = REALS(row, 2)[i];
      const double total = exact - exact == 0 ? exact : sum;
      reals[i] = total / count + 0.0; /* 0 / 0 is null */
    }
    return;
  }
  if (pass->type == TSR_VALUE_REAL) {
    const double least = pass->function == TSR_AGGREGATE_TOTAL ? 0 : 1; /* count of values, below which it is null */
    EACH_LANE {
      const double sum = REALS(row, 0)[i], exact = sum + REALS(row, 1)[i], count = REALS(row, 2)[i];
      const double total = exact - exact == 0 ? exact : sum; /* the rounding error of an infinite sum is NaN */
      reals[i] = count >= least ? total + 0.0 : (double)NAN; /* -0.0 is 0.0 */
    }
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    const int64_t count = INTEGERS(row, 2)[i];
    const double total = real_of_halves(INTEGERS(row, 0)[i], INTEGERS(row, 1)[i]);
    if (pass->function == TSR_AGGREGATE_AVG) {
      reals[i] = null_unless(count > 0, total / (double)count);
    } else if (pass->function == TSR_AGGREGATE_TOTAL) {
      reals[i] = total + 0.0;
    } else {
      valid[i] = count > 0;
      if (!whole_sum(INTEGERS(row, 0)[i], INTEGERS(row, 1)[i], &integers[i])) {
        integers[i] = 0;
        atomic_store(&pass->overflow, true);
      }
    }
  }
}

/* Writes the results of a row. */
static void results_of(tsr_pass *pass, const tsr_row *row, uint32_t n, uint64_t *out, uint8_t *valid) {
  double *reals = (double *)(void *)out;
  switch (pass->function) {
  case TSR_AGGREGATE_COUNT:
    memcpy(out, row->words[0], n * sizeof *out);
    memset(valid, 1, n);
    return;
  case TSR_AGGREGATE_MIN:
  case TSR_AGGREGATE_MAX:
    for (uint32_t i = 0; i < n; i++) {
      const bool there = INTEGERS(row, 1)[i] > 0;
      if (pass->type == TSR_VALUE_REAL) reals[i] = null_unless(there, REALS(row, 0)[i]);
      else out[i] = row->words[0][i], valid[i] = there;
    }
    return;
  case TSR_AGGREGATE_STDDEV:
  case TSR_AGGREGATE_VARIANCE:
    for (uint32_t i = 0; i < n; i++) {
      const double count = REALS(row, 0)[i], variance = REALS(row, 2)[i] / (count - 1);
      reals[i] = null_unless(count > 1, pass->function == TSR_AGGREGATE_STDDEV ? sqrt(variance) : variance);
    }
    return;
  default: results_of_sums(pass, row, n, out, valid);
  }
}

/* Stores the aggregate of the frame at a position. */
static void block_store(lane_block *b, uint64_t position, const tsr_row *row) {
  tsr_pass *pass = b->pass;
  const uint64_t step = position * b->lines->inner, at = b->bases[0] + step;
  if (!pass->last) {
    for (uint32_t p = 0; p < b->kind->parts; p++)
      for (uint32_t i = 0; i < b->lanes; i++) pass->made[p][b->bases[i] + step] = row->words[p][i];
    return;
  }
  uint64_t *results = pass->results;
  if (b->together) {
    results_of(pass, row, b->lanes, results + at, pass->valid ? pass->valid + at : NULL);
    return;
  }
  results_of(pass, row, b->lanes, b->given.words[0], b->known);
  for (uint32_t i = 0; i < b->lanes; i++) {
    results[b->bases[i] + step] = b->given.words[0][i];
    if (pass->valid) pass->valid[b->bases[i] + step] = b->known[i];
  }
}

static void block_run(lane_block *b) {
  const tsr_lines *lines = b->lines;
  int64_t cut = INT64_MIN, next = 0, low = 0; /* next: the first position that `after` lacks; low: row 0 of `before` */
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    if (frame->first > frame->last) {
      b->kind->clear(&b->whole, b->lanes);
      block_store(b, i, &b->whole);
      continue;
    }
    if (!started || frame->cut != cut) {
      started = true;
      cut = next = frame->cut;
      low = frame->first;
      b->kind->clear(&b->whole, b->lanes);
      tsr_row before = b->whole;
      for (int64_t k = cut - 1; k >= low; k--) {
        const tsr_row row = row_before(b, (uint64_t)(k - low));
        block_add(b, (uint64_t)k, &before, &row);
        before = row;
      }
      b->kind->clear(&b->after, b->lanes);
    }
    for (; next <= frame->last; next++) block_add(b, (uint64_t)next, &b->after, &b->after);
    const tsr_row before = row_before(b, (uint64_t)(frame->first - low));
    if (frame->last < cut) {
      block_store(b, i, &before);
      continue;
    }
    b->kind->merge(&before, &b->after, &b->whole, b->lanes);
    block_store(b, i, &b->whole);
  }
}

/* ---- Lines one by one -------------------------------------------------------------------------------------------- */

typedef struct one_line {
  tsr_pass *pass;
  const tsr_lines *lines;
  tsr_memory *memory;
  uint64_t base;
  double *sorted; /* [count]: the values of the frame */
  uint64_t *cells; /* [count + 1]: how many cells there are before a position; then positions of cells */
  uint64_t *best; /* [count]: positions of extremes */
} one_line;

static uint64_t line_cell(const one_line *l, uint64_t position) { return l->base + position * l->lines->inner; }

/* Returns the number at a position, NaN if it has none. */
static double line_number(const one_line *l, uint64_t position) {
  const tsr_pass *pass = l->pass;
  const uint64_t cell = line_cell(l, position);
  if (pass->known[cell] != TSR_KNOWN_VALUE) return NAN;
  return (pass->type == TSR_VALUE_REAL ? ((const double *)pass->values)[cell]
                                       : (double)((const int64_t *)pass->values)[cell]) +
         0.0;
}

static uint64_t sorted_place(const double *sorted, uint64_t count, double value) {
  uint64_t low = 0;
  while (low < count) {
    const uint64_t middle = low + (count - low) / 2;
    if (sorted[middle] < value) low = middle + 1;
    else count = middle;
  }
  return low;
}

double tsr__percentile(const double *sorted, uint64_t step, uint64_t count, double percent) {
  if (count == 0) return NAN;
  const double place = percent * (double)(count - 1) / 100;
  const uint64_t below = TSR_MIN((uint64_t)place, count - 1), above = TSR_MIN(below + 1, count - 1);
  const double low = sorted[below * step], high = sorted[above * step], part = place - (double)below;
  if (low == high || part <= 0) return low;
  const double reach = high - low; /* may overflow a double */
  return isfinite(reach) ? low + reach * part : low * (1 - part) + high * part;
}

#define MOVED_BYTES (UINT64_C(1) << 16) /* after which a line may poll for cancellation */

/* Medians and percentiles: the values of the frame are kept sorted. Each one that enters or leaves moves half of the
 * others, on average, so a long frame takes time. */
static int line_percentiles(const one_line *l, tsr_error *error) {
  const tsr_lines *lines = l->lines;
  const double percent = l->pass->function == TSR_AGGREGATE_MEDIAN ? 50 : l->pass->percent;
  uint64_t count = 0, moved = 0;
  int64_t first = 0, next = 0; /* the sorted values are those of first..next-1 */
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    double *result = (double *)l->pass->results + line_cell(l, i);
    *result = NAN;
    if (frame->first > frame->last) continue;
    if (!started) first = next = frame->first;
    started = true;
    for (; first < frame->first && first < next; first++) {
      const double value = line_number(l, (uint64_t)first);
      if (isnan(value)) continue;
      const uint64_t place = sorted_place(l->sorted, count, value);
      memmove(l->sorted + place, l->sorted + place + 1, (--count - place) * sizeof *l->sorted);
      moved += (count - place) * sizeof *l->sorted;
    }
    if (first < frame->first) first = next = frame->first;
    for (; next <= frame->last; next++) {
      const double value = line_number(l, (uint64_t)next);
      if (isnan(value)) continue;
      const uint64_t place = sorted_place(l->sorted, count, value);
      memmove(l->sorted + place + 1, l->sorted + place, (count++ - place) * sizeof *l->sorted);
      moved += (count - place) * sizeof *l->sorted;
      l->sorted[place] = value;
      if (moved < MOVED_BYTES) continue;
      TSR_TRY(tsr__cancelled_after(l->memory, moved, 0, error));
      moved = 0;
    }
    *result = tsr__percentile(l->sorted, 1, count, percent);
  }
  return TSR_OK;
}

static void line_copy(const one_line *l, uint64_t to, uint64_t from) {
  tsr_pass *pass = l->pass;
  const bool there = pass->known[from] == TSR_KNOWN_VALUE;
  if (pass->type == TSR_VALUE_TEXT) {
    if (there) ((tsr_text_value *)pass->results)[to] = ((const tsr_text_value *)pass->values)[from];
  } else {
    ((uint64_t *)pass->results)[to] = ((const uint64_t *)pass->values)[from];
  }
  if (pass->valid) pass->valid[to] = there;
}

static void line_none(const one_line *l, uint64_t to) {
  if (l->pass->valid) l->pass->valid[to] = 0;
  if (l->pass->type == TSR_VALUE_REAL) ((double *)l->pass->results)[to] = NAN;
}

/* first_value, last_value and nth_value: the cell of the frame with this number, null or not. */
static void line_picks(const one_line *l) {
  const tsr_lines *lines = l->lines;
  const tsr_pass *pass = l->pass;
  uint64_t *before = l->cells, *places = l->cells + lines->count + 1, cells = 0;
  for (uint64_t i = 0; i < lines->count; i++) {
    before[i] = cells;
    if (pass->known[line_cell(l, i)] != TSR_KNOWN_MISSING) places[cells++] = i;
  }
  before[lines->count] = cells;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    const bool any = frame->first <= frame->last;
    const uint64_t from = any ? before[frame->first] : 0, end = any ? before[frame->last + 1] : 0;
    uint64_t number = pass->function == TSR_AGGREGATE_LAST ? end - from : 1;
    if (pass->function == TSR_AGGREGATE_NTH)
      number = !pass->from_end ? pass->nth : pass->nth <= end - from ? end - from + 1 - pass->nth : 0;
    if (number == 0 || number > end - from) line_none(l, line_cell(l, i));
    else line_copy(l, line_cell(l, i), line_cell(l, places[from + number - 1]));
  }
}

/* Returns the position of the lesser text (or greater); UINT64_MAX: none. */
static uint64_t better_text(const one_line *l, uint64_t a, uint64_t b) {
  if (a == UINT64_MAX) return b;
  if (b == UINT64_MAX) return a;
  const tsr_text_value *texts = l->pass->values;
  const tsr_text_value *x = &texts[line_cell(l, a)], *y = &texts[line_cell(l, b)];
  const int order = tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
  return (l->pass->function == TSR_AGGREGATE_MIN ? order <= 0 : order >= 0) ? a : b;
}

/* The position itself if it has a text. */
static uint64_t line_text(const one_line *l, int64_t position) {
  return l->pass->known[line_cell(l, (uint64_t)position)] == TSR_KNOWN_VALUE ? (uint64_t)position : UINT64_MAX;
}

/* Extremes of texts: as block_run, with positions in place of partial aggregates. */
static void line_texts(const one_line *l) {
  const tsr_lines *lines = l->lines;
  int64_t cut = INT64_MIN, next = 0;
  uint64_t after = UINT64_MAX;
  bool started = false;
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const tsr_frame *frame = &lines->frames[i];
    uint64_t best = UINT64_MAX;
    if (frame->first <= frame->last) {
      if (!started || frame->cut != cut) {
        started = true;
        cut = next = frame->cut;
        after = UINT64_MAX;
        for (int64_t k = cut - 1; k >= frame->first; k--) best = l->best[k] = better_text(l, best, line_text(l, k));
      }
      for (; next <= frame->last; next++) after = better_text(l, after, line_text(l, next));
      best = better_text(l, l->best[frame->first], frame->last < cut ? UINT64_MAX : after);
    }
    if (best == UINT64_MAX) line_none(l, line_cell(l, i));
    else line_copy(l, line_cell(l, i), line_cell(l, best));
  }
}

/* ---- Running a pass ---------------------------------------------------------------------------------------------- */

#define PASS_TASKS     16u
#define PASS_SCRATCH   (UINT64_C(1) << 18) /* bytes of a task, if its frames fit */
#define LANES_TOGETHER 8u /* so many neighbours are read in place; fewer lines are gathered from further away */

typedef struct pass_task {
  tsr_pass *pass;
  const tsr_lines *lines;
  uint64_t from, to; /* lines */
  uint32_t lanes; /* that go side by side, at most */
  uint64_t *scratch;
  uint64_t before_words;
  tsr_memory *memory;
} pass_task;

static uint64_t base_of(const tsr_lines *lines, uint64_t line) {
  return line / lines->inner * lines->count * lines->inner + line % lines->inner;
}

static int task_lanes(const pass_task *task, const pass_kind *kind, tsr_error *error) {
  lane_block block = {
      .pass = task->pass, .kind = kind, .lines = task->lines, .rows = task->scratch, .stride = task->lanes};
  uint64_t *more = task->scratch + task->before_words;
  for (uint32_t p = 0; p < TSR_PASS_PARTS; p++) {
    block.after.words[p] = more + p * LANES;
    block.whole.words[p] = more + (TSR_PASS_PARTS + p) * LANES;
    block.given.words[p] = more + (2 * TSR_PASS_PARTS + p) * LANES;
  }
  for (uint64_t line = task->from; line < task->to; line += block.lanes) {
    uint64_t lanes = TSR_MIN(task->to - line, task->lanes);
    const uint64_t left = task->lines->inner - line % task->lines->inner; /* neighbours */
    block.together = task->lines->inner >= LANES_TOGETHER;
    if (block.together) lanes = TSR_MIN(lanes, left);
    block.lanes = (uint32_t)lanes;
    for (uint32_t i = 0; i < block.lanes; i++) block.bases[i] = base_of(task->lines, line + i);
    TSR_TRY(tsr__cancelled_after(task->memory, 0, lanes * task->lines->count, error));
    block_run(&block);
  }
  return TSR_OK;
}

static int task_lines(const pass_task *task, tsr_error *error) {
  const uint64_t count = task->lines->count;
  one_line line = {.pass = task->pass, .lines = task->lines, .memory = task->memory};
  line.cells = line.best = task->scratch;
  line.sorted = (double *)(void *)(task->scratch + 2 * count + 1);
  for (uint64_t l = task->from; l < task->to; l++) {
    TSR_TRY(tsr__cancelled_after(task->memory, 0, count, error));
    line.base = base_of(task->lines, l);
    switch (task->pass->function) {
    case TSR_AGGREGATE_MEDIAN:
    case TSR_AGGREGATE_PERCENTILE: TSR_TRY(line_percentiles(&line, error)); break;
    case TSR_AGGREGATE_MIN:
    case TSR_AGGREGATE_MAX: line_texts(&line); break;
    default: line_picks(&line);
    }
  }
  return TSR_OK;
}

static int task_run(void *argument, uint64_t index, tsr_error *error) {
  const pass_task *task = (const pass_task *)argument + index;
  const pass_kind *kind = kind_of(task->pass);
  return kind ? task_lanes(task, kind, error) : task_lines(task, error);
}

/* Returns the most positions that lie before a cut in one frame. */
static uint64_t longest_before(const tsr_lines *lines) {
  int64_t most = 1;
  for (uint64_t i = lines->from; i < lines->to; i++)
    if (lines->frames[i].first <= lines->frames[i].last)
      most = TSR_MAX(most, lines->frames[i].cut - lines->frames[i].first);
  return (uint64_t)most;
}

int tsr__pass_run(tsr_pass *pass, const tsr_lines *lines, unsigned threads, tsr_memory *memory, tsr_error *error) {
  const pass_kind *kind = kind_of(pass);
  const uint64_t all = lines->outer * lines->inner;
  pass_task tasks[PASS_TASKS] = {{0}};
  uint64_t words = tsr__add_sat(tsr__mul_sat(lines->count, 3), 1), before = 0, lanes = LANES, *scratch;
  if (all == 0 || lines->from >= lines->to) return TSR_OK;
  if (kind) {
    const uint64_t row = tsr__mul_sat(longest_before(lines), kind->parts);
    lanes = TSR_MAX(TSR_MIN(PASS_SCRATCH / sizeof(uint64_t) / row, LANES), 1);
    before = tsr__mul_sat(row, lanes);
    words = tsr__add_sat(before, 3 * TSR_PASS_PARTS * LANES);
  }
  uint64_t count = TSR_MIN(TSR_MIN(TSR_MAX(threads, 1u), PASS_TASKS), (all + 63) / 64);
  TSR_TRY(TSR_ALLOC_RAW(memory, tsr__mul_sat(count, words), &scratch, error));
  const uint64_t share = (all + count - 1) / count;
  for (uint64_t t = 0; t < count; t++)
    tasks[t] = (pass_task){.pass = pass,
                           .lines = lines,
                           .from = TSR_MIN(t * share, all),
                           .to = TSR_MIN((t + 1) * share, all),
                           .lanes = (uint32_t)lanes,
                           .scratch = scratch + t * words,
                           .before_words = before,
                           .memory = memory};
  const int rc = tsr__parallel_for(threads, count, task_run, tasks, error);
  tsr__free(scratch);
  if (rc < 0) return rc;
  return atomic_load(&pass->overflow) ? tsr__fail(error, TSR_ERROR, "integer overflow") : TSR_OK;
}

/* ---- Offsets ----------------------------------------------------------------------------------------------------- */
/* A row of cells along the last dimension is added LANES cells at a time: for each offset, the lanes whose neighbour is
 * in the box. */

tsr_value_type tsr__pass_product(tsr_value_type argument, tsr_value_type weight) {
  if (weight == TSR_VALUE_NULL) return argument;
  if (argument == TSR_VALUE_NULL) return weight;
  if (argument != TSR_VALUE_INTEGER && argument != TSR_VALUE_REAL) return TSR_VALUE_OPAQUE;
  return argument == TSR_VALUE_INTEGER ? weight : TSR_VALUE_REAL;
}

typedef struct offset_task {
  tsr_pass *pass;
  tsr_value_type argument;
  const tsr_offsets *offsets;
  uint64_t from, to; /* rows */
  tsr_memory *memory;
  /* the rows `whole` and `product`, then [count]: where the neighbours of a row begin; quick_sums, or a matrix of
   * medians */
  uint64_t *scratch;
  const double *quick; /* by cell of the box, NaN for null: values that quick_add takes; NULL: it takes none */
  bool exact; /* no sum of them is rounded */
  uint64_t width; /* of a box of offsets that can be combined column by column, along the last dimension; else 0 */
} offset_task;

#define OFFSET_OUTSIDE UINT64_MAX

/* Finds where the neighbours of a row begin, for each offset: the cell at position 0 of the last dimension. Returns the
 * same of the row itself. */
static uint64_t offsets_of_row(const tsr_offsets *o, uint64_t row, uint64_t *starts) {
  const uint32_t last = o->dimensions - 1;
  uint64_t own = 0, stride = o->extents[last];
  for (uint64_t k = 0; k < o->kernel->count; k++) starts[k] = 0;
  for (uint32_t d = last; d-- > 0;) {
    const uint64_t extent = o->to[d] - o->from[d], at = o->from[d] + row % extent;
    row /= extent;
    own += at * stride;
    for (uint64_t k = 0; k < o->kernel->count; k++) {
      const int64_t there = (int64_t)at + o->kernel->offsets[k * o->dimensions + d];
      if (starts[k] == OFFSET_OUTSIDE) continue;
      if (there < 0 || (uint64_t)there >= o->extents[d]) starts[k] = OFFSET_OUTSIDE;
      else starts[k] += (uint64_t)there * stride;
    }
    stride *= o->extents[d];
  }
  return own;
}

static tsr_row row_from(const tsr_row *row, uint64_t lane) {
  tsr_row moved;
  for (uint32_t p = 0; p < TSR_PASS_PARTS; p++) moved.words[p] = row->words[p] + lane;
  return moved;
}

/* Makes the products of n cells, from `at` on, with weight k. */
static void offset_products(const offset_task *task, uint64_t k, uint64_t at, const tsr_row *product, uint32_t n) {
  tsr_pass *pass = task->pass;
  const tsr_window_kernel *kernel = task->offsets->kernel;
  const double *reals = kernel->weights;
  const int64_t *integers = kernel->weights;
  const uint8_t *known = pass->known ? pass->known + at : NULL;
  double *out = REALS(product, 0);
  int64_t *whole = INTEGERS(product, 0);
  if (pass->type == TSR_VALUE_INTEGER) {
    const int64_t *v = pass->values ? (const int64_t *)pass->values + at : NULL;
    bool over = false;
    for (uint32_t i = 0; i < n; i++)
      over |= __builtin_mul_overflow(known[i] == TSR_KNOWN_VALUE && v ? v[i] : 1, integers[k], &whole[i]);
    if (over) atomic_store(&pass->overflow, true);
    return;
  }
  const double weight = kernel->type == TSR_VALUE_REAL ? reals[k] : (double)integers[k];
  if (task->argument == TSR_VALUE_REAL) {
    const double *v = (const double *)pass->values + at;
    EACH_LANE out[i] = v[i] * weight;
  } else if (task->argument == TSR_VALUE_INTEGER) {
    const int64_t *v = (const int64_t *)pass->values + at;
    for (uint32_t i = 0; i < n; i++) out[i] = known[i] == TSR_KNOWN_VALUE ? (double)v[i] * weight : (double)NAN;
  } else {
    for (uint32_t i = 0; i < n; i++) out[i] = known[i] == TSR_KNOWN_VALUE ? weight : (double)NAN;
  }
}

/* Adds the neighbours of the cells x..x+n-1 of a row. */
static void offsets_add(const offset_task *task, const pass_kind *kind, const uint64_t *starts, uint64_t x, uint32_t n,
                        const tsr_row *whole, const tsr_row *product) {
  const tsr_offsets *o = task->offsets;
  const tsr_pass *pass = task->pass;
  const int64_t extent = (int64_t)o->extents[o->dimensions - 1];
  for (uint64_t k = 0; k < o->kernel->count; k++) {
    const int64_t first = (int64_t)x + o->kernel->offsets[(k + 1) * o->dimensions - 1];
    const int64_t from = TSR_MAX(-first, 0), to = TSR_MIN(extent - first, (int64_t)n);
    if (starts[k] == OFFSET_OUTSIDE || from >= to) continue;
    const uint64_t at = starts[k] + (uint64_t)(first + from);
    const uint32_t lanes = (uint32_t)(to - from);
    const tsr_row row = row_from(whole, (uint64_t)from);
    const uint64_t *values = pass->values;
    const void *given = values ? values + at : NULL;
    if (o->kernel->type != TSR_VALUE_NULL) {
      offset_products(task, k, at, product, lanes);
      given = product->words[0];
    }
    kind->extend(&row, given, pass->known ? pass->known + at : NULL, &row, lanes);
  }
}

/* ---- Sums and extremes of numbers whose neighbours are all in the box ---- */
/* QUICK cells at a time: their sums stay in registers, and have the bits that offsets_add gives. First no neighbour is
 * tested for null: a sum that is NaN says that one is, or that infinities are among them. If the numbers are such that
 * no partial sum is rounded, in any order, there is no rounding error to add up (sums_are_exact). Then doubles also add
 * integers. */

#define QUICK 8u
#if defined(__clang__)
#define EACH_PAIR _Pragma("clang loop unroll(full)") for (uint32_t p = 0; p < QUICK / 2; p++)
#else
#define EACH_PAIR _Pragma("GCC unroll 4") for (uint32_t p = 0; p < QUICK / 2; p++)
#endif
#define QUICK_INLINE static inline __attribute__((always_inline))
typedef double real_pair __attribute__((vector_size(16)));
typedef int64_t mask_pair __attribute__((vector_size(16)));

typedef struct quick_sums { /* a row's neighbours */
  uint64_t count, added; /* offsets; the first ones, which quick_block adds before it has found a null */
  uint64_t *cells; /* [count]: the neighbour of position 0 of the last dimension; it may wrap around 0 */
  double *weights; /* [count] */
  double *columns; /* [2 * LANES]: of a box */
  int64_t least, most; /* offsets along the last dimension, without which a sum is none of quick_add */
} quick_sums;

typedef struct quick_totals { /* of QUICK cells */
  real_pair sum[QUICK / 2], rest[QUICK / 2], count[QUICK / 2];
} quick_totals;

static bool is_extreme(tsr_aggregate_function function) {
  return function == TSR_AGGREGATE_MIN || function == TSR_AGGREGATE_MAX;
}

static double kernel_weight(const tsr_window_kernel *kernel, uint64_t k) {
  if (kernel->type == TSR_VALUE_REAL) return ((const double *)kernel->weights)[k];
  return kernel->type == TSR_VALUE_INTEGER ? (double)((const int64_t *)kernel->weights)[k] : 1;
}

/* Adds the neighbours of a row whose weight is 0, or the others, to the list. */
static void quick_list_some(const offset_task *task, const uint64_t *starts, bool zero, quick_sums *q) {
  const tsr_offsets *o = task->offsets;
  for (uint64_t k = 0; k < o->kernel->count; k++) {
    const int64_t along = o->kernel->offsets[(k + 1) * o->dimensions - 1];
    const double weight = kernel_weight(o->kernel, k);
    if (starts[k] == OFFSET_OUTSIDE || (weight == 0) != zero) continue;
    q->least = TSR_MIN(q->least, along);
    q->most = TSR_MAX(q->most, along);
    q->cells[q->count] = starts[k] + (uint64_t)along;
    q->weights[q->count++] = weight;
  }
}

/* Lists the neighbours of a row, those with a weight of 0 last. They change no sum, so a sum need not add them. An
 * average must, to see which of them are null: these do not count. Extremes take them like others. */
static void quick_list(const offset_task *task, const uint64_t *starts, quick_sums *q) {
  q->count = 0;
  q->least = q->most = 0;
  quick_list_some(task, starts, false, q);
  q->added = q->count;
  quick_list_some(task, starts, true, q);
  if (task->pass->function != TSR_AGGREGATE_SUM && task->pass->function != TSR_AGGREGATE_TOTAL) q->added = q->count;
}

static inline real_pair load_pair(const double *from) {
  real_pair pair;
  memcpy(&pair, from, sizeof pair);
  return pair;
}

/* Adds the neighbours of QUICK cells from position x on. Returns false if a sum is NaN. The flags are constants. */
QUICK_INLINE bool quick_block(const quick_sums *q, const double *values, uint64_t x, bool tested, bool exact,
                              bool weighted, quick_totals *t) {
  real_pair sum[QUICK / 2] = {{0}}, rest[QUICK / 2] = {{0}}, count[QUICK / 2] = {{0}}, doubt = {0};
  const real_pair one = {1, 1}, all = {(double)q->count, (double)q->count};
  const uint64_t offsets = tested ? q->count : q->added;
  for (uint64_t k = 0; k < offsets; k++) {
    const double *from = values + (q->cells[k] + x);
    const real_pair weight = {q->weights[k], q->weights[k]};
    EACH_PAIR {
      real_pair value = load_pair(from + 2 * (size_t)p);
      if (weighted) value *= weight;
      if (tested) {
        const mask_pair there = (mask_pair)(value == value);
        value = (real_pair)((mask_pair)value & there);
        count[p] += (real_pair)((mask_pair)one & there);
      }
      const real_pair before = sum[p], total = before + value, back = total - before;
      if (!exact) rest[p] += (before - (total - back)) + (value - back);
      sum[p] = total;
    }
  }
  EACH_PAIR {
    doubt += sum[p] - sum[p] + (rest[p] - rest[p]);
    t->sum[p] = sum[p];
    t->rest[p] = rest[p];
    t->count[p] = tested ? count[p] : all;
  }
  return doubt[0] == 0 && doubt[1] == 0;
}

/* Writes the results of QUICK cells: those that results_of_sums has for the same cells. */
QUICK_INLINE void quick_store(const tsr_pass *pass, const quick_totals *t, uint64_t at) {
  const real_pair zero = {0}, none = {NAN, NAN};
  const bool average = pass->function == TSR_AGGREGATE_AVG, whole = pass->type == TSR_VALUE_INTEGER;
  double *reals = (double *)pass->results + at;
  if (whole && pass->function == TSR_AGGREGATE_SUM) {
    int64_t *integers = (int64_t *)pass->results + at;
    for (uint32_t i = 0; i < QUICK; i++) {
      integers[i] = (int64_t)t->sum[i / 2][i % 2];
      pass->valid[at + i] = t->count[i / 2][i % 2] > 0;
    }
    return;
  }
  EACH_PAIR {
    const real_pair added = t->sum[p] + t->rest[p];
    const mask_pair finite = (mask_pair)(added - added == zero); /* the rounding error of an infinite sum is NaN */
    real_pair total = (real_pair)(((mask_pair)added & finite) | ((mask_pair)t->sum[p] & ~finite));
    if (average) total /= t->count[p];
    total += zero; /* -0.0 is 0.0 */
    if (pass->function == TSR_AGGREGATE_SUM || (average && whole)) {
      const mask_pair there = (mask_pair)(t->count[p] > zero);
      total = (real_pair)(((mask_pair)total & there) | ((mask_pair)none & ~there));
    }
    memcpy(reals + 2 * (size_t)p, &total, sizeof total);
  }
}

/* Makes the results of n cells of a row, at least QUICK, from position x on; the row begins at `own`. */
QUICK_INLINE void quick_cells(const offset_task *task, const quick_sums *q, uint64_t own, uint64_t x, uint64_t n,
                              bool exact, bool weighted) {
  const double *values = task->quick;
  for (uint64_t i = 0; i < n; i += QUICK) {
    const uint64_t at = x + TSR_MIN(i, n - QUICK); /* the last cells may be made twice */
    quick_totals totals;
    if (!quick_block(q, values, at, false, exact, weighted, &totals))
      (void)quick_block(q, values, at, true, exact, weighted, &totals);
    quick_store(task->pass, &totals, own + at);
  }
}

/* Makes the results of the cells x..x+n-1 of a row, one offset after the other. */
static void offsets_store(const offset_task *task, const pass_kind *kind, const uint64_t *starts, uint64_t own,
                          uint64_t x, uint32_t n) {
  const tsr_row whole = {{task->scratch, task->scratch + LANES, task->scratch + 2 * LANES}};
  const tsr_row product = row_from(&whole, TSR_PASS_PARTS * (uint64_t)LANES);
  tsr_pass *pass = task->pass;
  kind->clear(&whole, n);
  offsets_add(task, kind, starts, x, n, &whole, &product);
  results_of(pass, &whole, n, (uint64_t *)pass->results + own + x, pass->valid ? pass->valid + own + x : NULL);
}

/* a where a > b, else b. */
static inline real_pair greater_pair(real_pair a, real_pair b) {
#ifdef __SSE2__
  return __builtin_ia32_maxpd(a, b); /* which compilers do not make of the masks */
#else
  const mask_pair greater = (mask_pair)(a > b);
  return (real_pair)(((mask_pair)a & greater) | ((mask_pair)b & ~greater));
#endif
}

/* a where a < b, else b. */
static inline real_pair less_pair(real_pair a, real_pair b) {
#ifdef __SSE2__
  return __builtin_ia32_minpd(a, b);
#else
  const mask_pair less = (mask_pair)(a < b);
  return (real_pair)(((mask_pair)a & less) | ((mask_pair)b & ~less));
#endif
}

typedef enum quick_way { QUICK_SUM, QUICK_LEAST, QUICK_GREATEST } quick_way;

/* What a way begins with: no number is better. */
QUICK_INLINE real_pair quick_start(quick_way way) {
  const double start = way == QUICK_SUM ? 0 : way == QUICK_LEAST ? (double)INFINITY : (double)-INFINITY;
  return (real_pair){start, start};
}

QUICK_INLINE real_pair quick_combine(real_pair value, real_pair so_far, quick_way way) {
  if (way == QUICK_SUM) return so_far + value;
  return way == QUICK_LEAST ? less_pair(value, so_far) : greater_pair(value, so_far); /* NaN is not better */
}

/* Writes the extremes of QUICK cells. Returns false if a cell has no number, or perhaps none: what the search began
 * with is left. */
QUICK_INLINE bool quick_store_extremes(const tsr_pass *pass, const real_pair *best, quick_way way, uint64_t at) {
  const real_pair zero = {0};
  mask_pair doubt = {0};
  EACH_PAIR doubt |= (mask_pair)(best[p] == quick_start(way));
  if (doubt[0] | doubt[1]) return false;
  EACH_PAIR {
    const real_pair result = best[p] + zero; /* -0.0 is 0.0 */
    memcpy((double *)pass->results + at + 2 * (size_t)p, &result, sizeof result);
  }
  return true;
}

/* Makes the extremes of QUICK cells from position x on, as quick_store_extremes. */
QUICK_INLINE bool quick_extremes(const offset_task *task, const quick_sums *q, uint64_t own, uint64_t x,
                                 quick_way way) {
  real_pair best[QUICK / 2];
  EACH_PAIR best[p] = quick_start(way);
  for (uint64_t k = 0; k < q->count; k++) {
    const double *from = task->quick + (q->cells[k] + x);
    const real_pair weight = {q->weights[k], q->weights[k]};
    EACH_PAIR best[p] = quick_combine(load_pair(from + 2 * (size_t)p) * weight, best[p], way);
  }
  return quick_store_extremes(task->pass, best, way, own + x);
}

/* Makes the extremes of n cells of a row, as quick_cells. */
static void quick_extreme_cells(const offset_task *task, const pass_kind *kind, const quick_sums *q,
                                const uint64_t *starts, uint64_t own, uint64_t x, uint64_t n) {
  const bool least = task->pass->function == TSR_AGGREGATE_MIN;
  for (uint64_t i = 0; i < n; i += QUICK) {
    const uint64_t at = x + TSR_MIN(i, n - QUICK);
    if (!(least ? quick_extremes(task, q, own, at, QUICK_LEAST) : quick_extremes(task, q, own, at, QUICK_GREATEST)))
      offsets_store(task, kind, starts, own, at, QUICK);
  }
}

/* ---- Boxes of neighbours ---- */
/* A box of offsets is combined column by column, and then its columns are, along the last dimension, where the order
 * makes no difference: in extremes, and in sums that are exact. */

/* Combines lines at from + starts[k * step], or at from + k, for QUICK positions. */
QUICK_INLINE void combine_lines(const double *from, const uint64_t *starts, uint64_t step, uint64_t count,
                                quick_way way, real_pair *made) {
  real_pair so_far[QUICK / 2];
  EACH_PAIR so_far[p] = quick_start(way);
  for (uint64_t k = 0; k < count; k++) {
    const double *line = from + (starts ? starts[k * step] : k);
    EACH_PAIR so_far[p] = quick_combine(load_pair(line + 2 * (size_t)p), so_far[p], way);
  }
  EACH_PAIR made[p] = so_far[p];
}

/* Combines the columns around n cells of a row, at least QUICK, from position x on. */
QUICK_INLINE void combine_columns(const offset_task *task, const quick_sums *q, uint64_t x, uint64_t n, quick_way way) {
  const uint64_t columns = n + task->width - 1;
  for (uint64_t i = 0; i < columns; i += QUICK) {
    const uint64_t at = TSR_MIN(i, columns - QUICK);
    real_pair made[QUICK / 2];
    combine_lines(task->quick + x + at, q->cells, task->width, q->count / task->width, way, made);
    memcpy(q->columns + at, made, sizeof made);
  }
}

/* Makes sums of QUICK cells from those of columns. A sum that is NaN may have nulls. */
QUICK_INLINE void box_sums(const offset_task *task, const quick_sums *q, const real_pair *sums, uint64_t own,
                           uint64_t x) {
  const real_pair all = {(double)q->count, (double)q->count};
  quick_totals totals = {0};
  real_pair doubt = {0};
  EACH_PAIR {
    totals.sum[p] = sums[p];
    totals.count[p] = all;
    doubt += sums[p] - sums[p];
  }
  if (!(doubt[0] == 0 && doubt[1] == 0)) (void)quick_block(q, task->quick, x, true, true, false, &totals);
  quick_store(task->pass, &totals, own + x);
}

/* Makes the results of n cells of a row, as quick_cells or quick_extreme_cells would. */
QUICK_INLINE void quick_box(const offset_task *task, const pass_kind *kind, const quick_sums *q, const uint64_t *starts,
                            uint64_t own, uint64_t x, uint64_t n, quick_way way) {
  combine_columns(task, q, x, n, way);
  for (uint64_t i = 0; i < n; i += QUICK) {
    const uint64_t at = TSR_MIN(i, n - QUICK);
    real_pair made[QUICK / 2];
    combine_lines(q->columns + at, NULL, 0, task->width, way, made);
    if (way == QUICK_SUM) box_sums(task, q, made, own, x + at);
    else if (!quick_store_extremes(task->pass, made, way, own + x + at))
      offsets_store(task, kind, starts, own, x + at, QUICK);
  }
}

static void quick_box_cells(const offset_task *task, const pass_kind *kind, const quick_sums *q, const uint64_t *starts,
                            uint64_t own, uint64_t x, uint64_t n) {
  switch (task->pass->function) {
  case TSR_AGGREGATE_MIN: quick_box(task, kind, q, starts, own, x, n, QUICK_LEAST); break;
  case TSR_AGGREGATE_MAX: quick_box(task, kind, q, starts, own, x, n, QUICK_GREATEST); break;
  default: quick_box(task, kind, q, starts, own, x, n, QUICK_SUM);
  }
}

/* Returns how many offsets follow each other along the last dimension, again and again, if a kernel without weights is
 * made of such runs, and several of them; else 0. */
static uint64_t width_of_box(const tsr_offsets *o) {
  const tsr_window_kernel *kernel = o->kernel;
  const uint32_t dimensions = o->dimensions, last = dimensions - 1;
  const int64_t *offsets = kernel->offsets;
  uint64_t width = 0;
  if (kernel->type != TSR_VALUE_NULL || kernel->count == 0) return 0;
  while (width < kernel->count && !memcmp(offsets + width * dimensions, offsets, last * sizeof *offsets)) width++;
  for (uint64_t k = 0; k < kernel->count; k++) {
    const int64_t *own = offsets + k * dimensions, *first = own - k % width * dimensions;
    if (memcmp(own, first, last * sizeof *own) != 0 || own[last] != offsets[last] + (int64_t)(k % width)) return 0;
  }
  return kernel->count % width == 0 && width > 1 && width <= LANES && width < kernel->count ? width : 0;
}

static void quick_add(const offset_task *task, const pass_kind *kind, const quick_sums *q, const uint64_t *starts,
                      uint64_t own, uint64_t x, uint32_t n) {
  const tsr_offsets *o = task->offsets;
  const bool weighted = o->kernel->type != TSR_VALUE_NULL;
  const int64_t extent = (int64_t)o->extents[o->dimensions - 1];
  const int64_t from = TSR_MIN(TSR_MAX(-q->least - (int64_t)x, 0), (int64_t)n);
  const int64_t to = TSR_MAX(TSR_MIN(extent - q->most - (int64_t)x, (int64_t)n), from);
  const uint64_t cells = (uint64_t)(to - from), at = x + (uint64_t)from;
  if (q->added == 0 || cells < QUICK) {
    offsets_store(task, kind, starts, own, x, n);
    return;
  }
  if (from > 0) offsets_store(task, kind, starts, own, x, (uint32_t)from);
  if (task->width) quick_box_cells(task, kind, q, starts, own, at, cells);
  else if (is_extreme(task->pass->function)) quick_extreme_cells(task, kind, q, starts, own, at, cells);
  else if (task->exact && weighted) quick_cells(task, q, own, at, cells, true, true);
  else if (task->exact) quick_cells(task, q, own, at, cells, true, false);
  else if (weighted) quick_cells(task, q, own, at, cells, false, true);
  else quick_cells(task, q, own, at, cells, false, false);
  if (to < n) offsets_store(task, kind, starts, own, x + (uint64_t)to, n - (uint32_t)to);
}

/* Finds the greatest magnitude of finite values. */
static double greatest_magnitude(const double *values, uint64_t count) {
  const mask_pair magnitude = {INT64_MAX, INT64_MAX};
  const real_pair limit = {DBL_MAX, DBL_MAX};
  real_pair most[QUICK / 2] = {{0}};
  uint64_t i = 0;
  for (; i + QUICK <= count; i += QUICK) EACH_PAIR {
      real_pair x = (real_pair)((mask_pair)load_pair(values + i + 2 * (size_t)p) & magnitude);
      x = (real_pair)((mask_pair)x & (mask_pair)(x <= limit));
      const mask_pair more = (mask_pair)(x > most[p]);
      most[p] = (real_pair)(((mask_pair)x & more) | ((mask_pair)most[p] & ~more));
    }
  double greatest = 0;
  for (uint32_t k = 0; k < QUICK; k++) greatest = TSR_MAX(greatest, most[k / 2][k % 2]);
  for (; i < count; i++)
    if (fabs(values[i]) <= DBL_MAX) greatest = TSR_MAX(greatest, fabs(values[i]));
  return greatest;
}

/* Returns true if all finite values, of magnitudes up to 2^(unit + 50), are multiples of 2^unit: adding 1.5 * 2^(unit +
 * 52) rounds to these. */
static bool are_multiples(const double *values, uint64_t count, int unit) {
  const double rounder = ldexp(1.5, unit + 52);
  const real_pair rounders = {rounder, rounder}, zero = {0};
  mask_pair other[QUICK / 2] = {{0}};
  uint64_t i = 0;
  for (; i + QUICK <= count; i += QUICK) EACH_PAIR {
      const real_pair x = load_pair(values + i + 2 * (size_t)p), left = ((x + rounders) - rounders) - x;
      other[p] |= (mask_pair)(left > zero) | (mask_pair)(left < zero); /* neither, if it is NaN: x is not finite */
    }
  int64_t any = 0;
  for (uint32_t k = 0; k < QUICK; k++) any |= other[k / 2][k % 2];
  for (; i < count; i++) {
    const double left = ((values[i] + rounder) - rounder) - values[i];
    any |= left > 0 || left < 0;
  }
  return any == 0;
}

/* Finds the greatest `unit` such that all weights are multiples of 2^unit, and a `sum` such that their magnitudes add
 * up to less than 2^sum. Returns false if that is not certain. */
static bool measure_weights(const tsr_window_kernel *kernel, int *unit, int *sum) {
  double total = 0;
  *unit = INT_MAX;
  for (uint64_t k = 0; k < kernel->count; k++) {
    const double weight = fabs(kernel_weight(kernel, k));
    if (!(weight <= 0x1p53)) return false; /* an INTEGER may have been rounded */
    if (weight == 0) continue;
    int exponent;
    const int64_t digits = (int64_t)ldexp(frexp(weight, &exponent), 53);
    *unit = TSR_MIN(*unit, exponent - 53 + __builtin_ctzll((uint64_t)digits));
    total += weight;
  }
  if (*unit == INT_MAX) return false; /* no weight but 0 */
  (void)frexp(total * (1 + 0x1p-20), sum); /* `total` may have been rounded, up to 2^16 times */
  return *unit > -200;
}

/* are_multiples, by what is known of the values. */
static bool are_multiples_found(tsr_pass_values *found, const double *values, uint64_t count, int unit) {
  if (unit <= found->unit) return true;
  if (unit >= found->no_unit) return false;
  const bool are = are_multiples(values, count, unit);
  if (are) found->unit = unit;
  else found->no_unit = unit;
  return are;
}

/* Returns true if the products of the pass's values with the weights, and all sums of products of different offsets,
 * are multiples of one power of 2, and below it by less than 53 bits: then doubles have them exactly. */
static bool sums_are_exact(const tsr_pass *pass, const tsr_window_kernel *kernel, const double *values, uint64_t cells,
                           bool integers) {
  int weight_unit, weight_sum, top;
  if (!measure_weights(kernel, &weight_unit, &weight_sum)) return false;
  tsr_pass_values own = {0}, *found = pass->found ? pass->found : &own;
  if (!found->measured)
    *found = (tsr_pass_values){true, greatest_magnitude(values, cells), .unit = INT_MIN, .no_unit = INT_MAX};
  if (found->most == 0) return true;
  (void)frexp(found->most, &top); /* values are below 2^top */
  const int digits = TSR_MAX(weight_sum - weight_unit, 3), unit = top + digits - 53;
  if (integers && unit <= 0) return true; /* and none was rounded when it became a double */
  if (pass->type == TSR_VALUE_INTEGER || unit < -500 || top > 500) return false;
  return are_multiples_found(found, values, cells, unit);
}

/* Makes doubles of integers, NaN for null. */
static void reals_of_integers(const int64_t *integers, const uint8_t *known, uint64_t count, double *reals) {
  for (uint64_t i = 0; i < count; i++) reals[i] = known[i] == TSR_KNOWN_VALUE ? (double)integers[i] : (double)NAN;
}

/* Finds the values that quick_add takes, and whether their sums are exact. *made is to be freed. */
static int quick_make(tsr_pass *pass, offset_task *task, double **made, tsr_error *error) {
  const tsr_offsets *o = task->offsets;
  const bool integers = task->argument == TSR_VALUE_INTEGER;
  uint64_t cells = 1;
  if (is_extreme(pass->function) && task->argument == TSR_VALUE_REAL) {
    task->quick = pass->values;
    task->width = width_of_box(o);
  }
  if ((task->argument != TSR_VALUE_REAL && !integers) ||
      (pass->function != TSR_AGGREGATE_SUM && pass->function != TSR_AGGREGATE_TOTAL &&
       pass->function != TSR_AGGREGATE_AVG))
    return TSR_OK;
  for (uint32_t d = 0; d < o->dimensions; d++) cells *= o->extents[d];
  if (integers) {
    TSR_TRY(TSR_ALLOC_RAW(task->memory, cells, made, error));
    reals_of_integers(pass->values, pass->known, cells, *made);
  }
  const double *values = integers ? *made : pass->values;
  task->exact = sums_are_exact(pass, o->kernel, values, cells, integers);
  if (task->exact || pass->type == TSR_VALUE_REAL) task->quick = values;
  if (task->exact) task->width = width_of_box(o);
  return TSR_OK;
}

/* ---- Medians and percentiles of neighbours ---- */

static bool is_listed(tsr_aggregate_function function) {
  return function == TSR_AGGREGATE_MEDIAN || function == TSR_AGGREGATE_PERCENTILE;
}

/* Makes the numbers of n cells, from `at` on, times weight k; NaN for null. */
static void offset_numbers(const offset_task *task, uint64_t k, uint64_t at, uint32_t n, double *out) {
  const tsr_pass *pass = task->pass;
  const tsr_row product = {{task->scratch, NULL, NULL}};
  const uint64_t *values = pass->values;
  const void *given = values ? values + at : NULL;
  if (task->offsets->kernel->type != TSR_VALUE_NULL) {
    offset_products(task, k, at, &product, n);
    given = product.words[0];
  }
  const double *reals = given;
  const int64_t *integers = given;
  if (pass->type == TSR_VALUE_REAL)
    for (uint32_t i = 0; i < n; i++) out[i] = reals[i] + 0.0;
  else
    for (uint32_t i = 0; i < n; i++)
      out[i] = pass->known[at + i] == TSR_KNOWN_VALUE ? (double)integers[i] : (double)NAN;
}

static int compare_reals(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts the QUICK columns of a matrix side by side, without a branch: merge exchange, Knuth's algorithm 5.2.2 M. */
static void sort_columns(double *rows, uint64_t count) {
  uint64_t top = 1;
  while (2 * top < count) top *= 2;
  for (uint64_t bit = top; bit > 0; bit /= 2)
    for (uint64_t q = top, rest = 0, step = bit;; step = q - bit, q /= 2, rest = bit) {
      for (uint64_t i = 0; i + step < count; i++) {
        double *a = rows + i * QUICK, *b = a + step * QUICK;
        if ((i & bit) != rest) continue;
        EACH_PAIR {
          const real_pair x = load_pair(a + 2 * (size_t)p), y = load_pair(b + 2 * (size_t)p);
          const real_pair greater = greater_pair(x, y), less = -greater_pair(-x, -y);
          memcpy(a + 2 * (size_t)p, &less, sizeof less);
          memcpy(b + 2 * (size_t)p, &greater, sizeof greater);
        }
      }
      if (q == bit) break;
    }
}

#define SORTED_TOGETHER 64u /* of more numbers, the columns are sorted one by one */

/* Makes the results of up to QUICK cells of a row, from position x on. `rows` has room for a row of QUICK numbers for
 * each neighbour, and a column. Nulls become infinities behind all numbers, which do not count. */
static void offsets_percentiles(const offset_task *task, const uint64_t *starts, double *rows, uint64_t own, uint64_t x,
                                uint32_t n) {
  const tsr_offsets *o = task->offsets;
  const tsr_pass *pass = task->pass;
  const double percent = pass->function == TSR_AGGREGATE_MEDIAN ? 50 : pass->percent;
  const uint64_t all = o->kernel->count;
  uint64_t counts[QUICK] = {0};
  double *column = rows + all * QUICK;
  for (uint64_t k = 0; k < all; k++) {
    double *row = rows + k * QUICK;
    const int64_t first = (int64_t)x + o->kernel->offsets[(k + 1) * o->dimensions - 1];
    const int64_t from = TSR_MIN(TSR_MAX(-first, 0), (int64_t)n);
    const int64_t to = TSR_MAX(TSR_MIN((int64_t)o->extents[o->dimensions - 1] - first, (int64_t)n), from);
    for (uint32_t i = 0; i < QUICK; i++) row[i] = NAN;
    if (starts[k] != OFFSET_OUTSIDE && from < to)
      offset_numbers(task, k, starts[k] + (uint64_t)(first + from), (uint32_t)(to - from), row + from);
    for (uint32_t i = 0; i < QUICK; i++) {
      const bool there = row[i] == row[i];
      counts[i] += there;
      row[i] = there ? row[i] : (double)INFINITY;
    }
  }
  if (all <= SORTED_TOGETHER) sort_columns(rows, all);
  for (uint32_t i = 0; i < n; i++) {
    double *result = (double *)pass->results + own + x + i;
    if (all <= SORTED_TOGETHER) {
      *result = tsr__percentile(rows + i, QUICK, counts[i], percent);
      continue;
    }
    for (uint64_t k = 0; k < all; k++) column[k] = rows[k * QUICK + i];
    qsort(column, all, sizeof *column, compare_reals);
    *result = tsr__percentile(column, 1, counts[i], percent);
  }
}

static int offsets_run(void *argument, uint64_t index, tsr_error *error) {
  const offset_task *task = (const offset_task *)argument + index;
  const tsr_offsets *o = task->offsets;
  const uint32_t last = o->dimensions - 1;
  const pass_kind *kind = kind_of(task->pass);
  uint64_t *starts = task->scratch + 2 * TSR_PASS_PARTS * LANES, *more = starts + o->kernel->count;
  quick_sums quick = {.columns = (double *)(void *)(more + 2 * o->kernel->count),
                      .cells = more,
                      .weights = (double *)(void *)(more + o->kernel->count)};
  double *matrix = (double *)(void *)more; /* of medians, which are no quick sums */
  for (uint64_t r = task->from; r < task->to; r++) {
    const uint64_t own = offsets_of_row(o, r, starts);
    if (task->quick) quick_list(task, starts, &quick);
    for (uint64_t x = o->from[last]; x < o->to[last]; x += LANES) {
      const uint32_t n = (uint32_t)TSR_MIN(LANES, o->to[last] - x);
      TSR_TRY(tsr__cancelled_after(task->memory, 0, n * o->kernel->count, error));
      for (uint32_t i = 0; !kind && i < n; i += QUICK)
        offsets_percentiles(task, starts, matrix, own, x + i, TSR_MIN(QUICK, n - i));
      if (!kind) continue;
      if (task->quick) quick_add(task, kind, &quick, starts, own, x, n);
      else offsets_store(task, kind, starts, own, x, n);
    }
  }
  return TSR_OK;
}

int tsr__pass_offsets(tsr_pass *pass, tsr_value_type argument, const tsr_offsets *offsets, unsigned threads,
                      tsr_memory *memory, tsr_error *error) {
  offset_task tasks[PASS_TASKS], task = {.pass = pass, .argument = argument, .offsets = offsets, .memory = memory};
  const uint64_t each = is_listed(pass->function) ? QUICK + 2 : 3; /* words for an offset */
  const uint64_t words = 2 * (TSR_PASS_PARTS + 1) * (uint64_t)LANES + each * offsets->kernel->count;
  uint64_t rows = 1, *scratch;
  double *made = NULL;
  if (!kind_of(pass) && !is_listed(pass->function))
    return tsr__fail(error, TSR_UNSUPPORTED, "this function over listed offsets");
  for (uint32_t d = 0; d + 1 < offsets->dimensions; d++) rows *= offsets->to[d] - offsets->from[d];
  const uint64_t count = TSR_MIN(TSR_MIN(TSR_MAX(threads, 1u), PASS_TASKS), rows);
  TSR_TRY(TSR_ALLOC_RAW(memory, tsr__mul_sat(count, words), &scratch, error));
  const uint64_t share = count ? (rows + count - 1) / count : 0;
  int rc = quick_make(pass, &task, &made, error);
  for (uint64_t t = 0; t < count; t++) {
    tasks[t] = task;
    tasks[t].from = TSR_MIN(t * share, rows);
    tasks[t].to = TSR_MIN((t + 1) * share, rows);
    tasks[t].scratch = scratch + t * words;
  }
  if (rc >= 0) rc = tsr__parallel_for(threads, count, offsets_run, tasks, error);
  tsr__free(made);
  tsr__free(scratch);
  if (rc < 0) return rc;
  return atomic_load(&pass->overflow) ? tsr__fail(error, TSR_ERROR, "integer overflow") : TSR_OK;
}
