/* offsets.c: aggregates over cells at listed offsets from each cell of a box: neighbourhoods that are no box of frames.
 *
 * A row of cells along the last dimension is added TSR_LANES cells at a time: for each offset, the lanes whose
 * neighbour is in the box. Sums and extremes of numbers, whose neighbours are all in the box, have loops of their own,
 * with the same bits; so have boxes of offsets, whose columns are combined first.
 *
 * Sections: neighbours one offset after the other; sums and extremes of numbers whose neighbours are all in the box;
 * boxes of neighbours; medians and percentiles of neighbours; running a pass.
 */
#include "query/pass.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "query/pass_kinds.h"

/* ---- Neighbours one offset after the other ----------------------------------------------------------------------- */

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
  double *out = TSR_REALS(product, 0);
  int64_t *whole = TSR_INTEGERS(product, 0);
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
    TSR_EACH_LANE out[i] = v[i] * weight;
  } else if (task->argument == TSR_VALUE_INTEGER) {
    const int64_t *v = (const int64_t *)pass->values + at;
    for (uint32_t i = 0; i < n; i++) out[i] = known[i] == TSR_KNOWN_VALUE ? (double)v[i] * weight : (double)NAN;
  } else {
    for (uint32_t i = 0; i < n; i++) out[i] = known[i] == TSR_KNOWN_VALUE ? weight : (double)NAN;
  }
}

/* Adds the neighbours of the cells x..x+n-1 of a row. */
static void offsets_add(const offset_task *task, const tsr_pass_kind *kind, const uint64_t *starts, uint64_t x,
                        uint32_t n, const tsr_row *whole, const tsr_row *product) {
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

/* ---- Sums and extremes of numbers whose neighbours are all in the box -------------------------------------------- */
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
  double *columns; /* [2 * TSR_LANES]: of a box */
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
static void offsets_store(const offset_task *task, const tsr_pass_kind *kind, const uint64_t *starts, uint64_t own,
                          uint64_t x, uint32_t n) {
  const tsr_row whole = {{task->scratch, task->scratch + TSR_LANES, task->scratch + 2 * TSR_LANES}};
  const tsr_row product = row_from(&whole, TSR_PASS_PARTS * (uint64_t)TSR_LANES);
  tsr_pass *pass = task->pass;
  kind->clear(&whole, n);
  offsets_add(task, kind, starts, x, n, &whole, &product);
  tsr__pass_results(pass, &whole, n, (uint64_t *)pass->results + own + x, pass->valid ? pass->valid + own + x : NULL);
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
static void quick_extreme_cells(const offset_task *task, const tsr_pass_kind *kind, const quick_sums *q,
                                const uint64_t *starts, uint64_t own, uint64_t x, uint64_t n) {
  const bool least = task->pass->function == TSR_AGGREGATE_MIN;
  for (uint64_t i = 0; i < n; i += QUICK) {
    const uint64_t at = x + TSR_MIN(i, n - QUICK);
    if (!(least ? quick_extremes(task, q, own, at, QUICK_LEAST) : quick_extremes(task, q, own, at, QUICK_GREATEST)))
      offsets_store(task, kind, starts, own, at, QUICK);
  }
}

/* ---- Boxes of neighbours ----------------------------------------------------------------------------------------- */
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
QUICK_INLINE void quick_box(const offset_task *task, const tsr_pass_kind *kind, const quick_sums *q,
                            const uint64_t *starts, uint64_t own, uint64_t x, uint64_t n, quick_way way) {
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

static void quick_box_cells(const offset_task *task, const tsr_pass_kind *kind, const quick_sums *q,
                            const uint64_t *starts, uint64_t own, uint64_t x, uint64_t n) {
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
  return kernel->count % width == 0 && width > 1 && width <= TSR_LANES && width < kernel->count ? width : 0;
}

static void quick_add(const offset_task *task, const tsr_pass_kind *kind, const quick_sums *q, const uint64_t *starts,
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

/* ---- Medians and percentiles of neighbours ----------------------------------------------------------------------- */

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

/* ---- Running a pass ---------------------------------------------------------------------------------------------- */

static int offsets_run(void *argument, uint64_t index, tsr_error *error) {
  const offset_task *task = (const offset_task *)argument + index;
  const tsr_offsets *o = task->offsets;
  const uint32_t last = o->dimensions - 1;
  const tsr_pass_kind *kind = tsr__pass_kind_of(task->pass);
  uint64_t *starts = task->scratch + 2 * TSR_PASS_PARTS * TSR_LANES, *more = starts + o->kernel->count;
  quick_sums quick = {.columns = (double *)(void *)(more + 2 * o->kernel->count),
                      .cells = more,
                      .weights = (double *)(void *)(more + o->kernel->count)};
  double *matrix = (double *)(void *)more; /* of medians, which are no quick sums */
  for (uint64_t r = task->from; r < task->to; r++) {
    const uint64_t own = offsets_of_row(o, r, starts);
    if (task->quick) quick_list(task, starts, &quick);
    for (uint64_t x = o->from[last]; x < o->to[last]; x += TSR_LANES) {
      const uint32_t n = (uint32_t)TSR_MIN(TSR_LANES, o->to[last] - x);
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
  offset_task tasks[TSR_PASS_TASKS], task = {.pass = pass, .argument = argument, .offsets = offsets, .memory = memory};
  const uint64_t each = is_listed(pass->function) ? QUICK + 2 : 3; /* words for an offset */
  const uint64_t words = 2 * (TSR_PASS_PARTS + 1) * (uint64_t)TSR_LANES + each * offsets->kernel->count;
  uint64_t rows = 1, *scratch;
  double *made = NULL;
  if (!tsr__pass_kind_of(pass) && !is_listed(pass->function))
    return tsr__fail(error, TSR_UNSUPPORTED, "this function over listed offsets");
  for (uint32_t d = 0; d + 1 < offsets->dimensions; d++) rows *= offsets->to[d] - offsets->from[d];
  const uint64_t count = TSR_MIN(TSR_MIN(TSR_MAX(threads, 1u), TSR_PASS_TASKS), rows);
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
  return atomic_load(&pass->overflow) ? tsr__fail(error, TSR_ERROR, TSR_SUM_OVERFLOW) : TSR_OK;
}
