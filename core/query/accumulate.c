/* accumulate.c: the words of measures in the records of groups: adding runs and rows, merging, results.
 *
 * Sums of REAL keep the rounding error of each addition (TwoSum: as exact as Neumaier's sum, and without branches). A
 * long run of rows of one group is added in parallel lanes, whose number does not depend on the processor. Sums of
 * integers have 128 bits. Means and squares follow Welford, and are merged by Chan's formula.
 *
 * Sections: words; runs of REAL; integers; values one by one; merging and results.
 */
#include "query/accumulate.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"

#define LANES      8u /* parallel sums of REAL */
#define LANES_FROM 16u /* shorter runs are added row by row */

static double load_real(const uint64_t *word) {
  double value;
  memcpy(&value, word, sizeof value);
  return value;
}

static void store_real(uint64_t *word, double value) { memcpy(word, &value, sizeof value); }

static tsr_wide load_wide(const uint64_t *words) { return (tsr_wide)((tsr_unsigned_wide)words[1] << 64 | words[0]); }

static void store_wide(uint64_t *words, tsr_wide value) {
  words[0] = (uint64_t)value;
  words[1] = (uint64_t)((tsr_unsigned_wide)value >> 64);
}

/* TwoSum (Knuth): *sum becomes the rounded sum, and its rounding error is added to *rest. */
static inline void add_real(double *sum, double *rest, double value) {
  const double total = *sum + value, part = total - *sum;
  *rest += (*sum - (total - part)) + (value - part);
  *sum = total;
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

static uint32_t take_words(uint32_t *at, uint32_t count) {
  const uint32_t first = *at;
  *at += count;
  return first;
}

uint32_t tsr__measure_place(tsr_measure *measure, uint32_t at) {
  const uint32_t end = measure->type == TSR_VALUE_TEXT || measure->type == TSR_VALUE_NUMBER ? 2 : 1;
  measure->count_at = take_words(&at, 1);
  if (measure->sum) {
    measure->sum_at = take_words(&at, 2);
    if (measure->type == TSR_VALUE_NUMBER) measure->reals_at = take_words(&at, 1);
  }
  if (measure->ends) {
    measure->low_at = take_words(&at, end);
    measure->high_at = take_words(&at, end);
  }
  if (measure->moments) measure->moments_at = take_words(&at, 3);
  return at;
}

void tsr__measure_init(const tsr_measure *measure, uint64_t *record) {
  const uint32_t end = tsr__measure_place(
      &(tsr_measure){.type = measure->type, .sum = measure->sum, .ends = measure->ends, .moments = measure->moments},
      measure->count_at);
  memset(record + measure->count_at, 0, (end - measure->count_at) * sizeof *record);
  if (!measure->ends) return;
  switch (measure->type) {
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER:
    store_real(record + measure->low_at, INFINITY);
    store_real(record + measure->high_at, -INFINITY);
    break;
  case TSR_VALUE_UNSIGNED: record[measure->low_at] = UINT64_MAX; break;
  case TSR_VALUE_TEXT: break;
  default: record[measure->low_at] = (uint64_t)INT64_MAX; record[measure->high_at] = (uint64_t)INT64_MIN;
  }
}

/* ---- Runs of REAL ------------------------------------------------------------------------------------------------ */

typedef double real_lanes __attribute__((vector_size(16)));
typedef int64_t real_bits __attribute__((vector_size(16)));
enum { VECTORS_OF_LANES = LANES / 2 };

#if defined(__SSE2__)
#include <emmintrin.h>
#define LESSER(a, b)  ((real_lanes)_mm_min_pd((__m128d)(a), (__m128d)(b))) /* b if a is NaN */
#define GREATER(a, b) ((real_lanes)_mm_max_pd((__m128d)(a), (__m128d)(b)))
#else
#define PICK_LANES(mask, a, b) ((real_lanes)(((real_bits)(a) & (mask)) | ((real_bits)(b) & ~(mask))))
#define LESSER(a, b)           PICK_LANES((a) < (b), a, b)
#define GREATER(a, b)          PICK_LANES((a) > (b), a, b)
#endif

typedef struct real_part { /* a record's words while a run is added */
  uint64_t count;
  double sum, rest, low, high;
} real_part;

static inline __attribute__((always_inline)) void run_real(const double *values, uint64_t count, bool sums, bool ends,
                                                           real_part *part) {
  real_lanes sum[VECTORS_OF_LANES], rest[VECTORS_OF_LANES], low[VECTORS_OF_LANES], high[VECTORS_OF_LANES];
  real_bits present[VECTORS_OF_LANES];
  uint64_t i = 0;
  for (int k = 0; k < VECTORS_OF_LANES; k++) {
    sum[k] = rest[k] = (real_lanes){0};
    low[k] = (real_lanes){INFINITY, INFINITY};
    high[k] = -low[k];
    present[k] = (real_bits){0};
  }
  for (; i + LANES <= count; i += LANES) {
    for (int k = 0; k < VECTORS_OF_LANES; k++) {
      real_lanes v;
      memcpy(&v, values + i + 2 * (unsigned)k, sizeof v);
      const real_bits there = v == v;
      present[k] -= there;
      if (ends) low[k] = LESSER(v, low[k]), high[k] = GREATER(v, high[k]);
      if (!sums) continue;
      v = (real_lanes)((real_bits)v & there);
      const real_lanes total = sum[k] + v, back = total - sum[k];
      rest[k] += (sum[k] - (total - back)) + (v - back);
      sum[k] = total;
    }
  }
  for (int k = 0; k < VECTORS_OF_LANES; k++) {
    for (int h = 0; h < 2; h++) {
      part->count += (uint64_t)present[k][h];
      if (sums) add_real(&part->sum, &part->rest, sum[k][h]), part->rest += rest[k][h];
      if (ends) part->low = TSR_MIN(part->low, low[k][h]), part->high = TSR_MAX(part->high, high[k][h]);
    }
  }
  for (; i < count; i++) {
    const double v = values[i];
    if (v != v) continue;
    part->count++;
    if (sums) add_real(&part->sum, &part->rest, v);
    if (ends) part->low = TSR_MIN(part->low, v), part->high = TSR_MAX(part->high, v);
  }
}

static inline __attribute__((always_inline)) void short_run_real(const double *values, uint64_t count, bool sums,
                                                                 bool ends, real_part *part) {
  for (uint64_t i = 0; i < count; i++) {
    const double v = values[i], added = v == v ? v : 0;
    part->count += v == v;
    if (sums) add_real(&part->sum, &part->rest, added);
    if (ends) part->low = v < part->low ? v : part->low, part->high = v > part->high ? v : part->high;
  }
}

static inline __attribute__((always_inline)) void runs_real(const tsr_measure *m, const double *values,
                                                            const tsr_spread *spread, uint64_t *records, uint32_t words,
                                                            bool sums, bool ends) {
  const uint32_t count_at = m->count_at, sum_at = m->sum_at, low_at = m->low_at, high_at = m->high_at;
  for (uint32_t run = 0, from = 0; run < spread->run_count; from = spread->ends[run++]) {
    uint64_t *record = records + (uint64_t)spread->groups[run] * words;
    const uint32_t n = spread->ends[run] - from;
    real_part part = {.count = record[count_at]};
    if (sums) part.sum = load_real(record + sum_at), part.rest = load_real(record + sum_at + 1);
    if (ends) part.low = load_real(record + low_at), part.high = load_real(record + high_at);
    if (n >= LANES_FROM) run_real(values + from, n, sums, ends, &part);
    else short_run_real(values + from, n, sums, ends, &part);
    record[count_at] = part.count;
    if (sums) store_real(record + sum_at, part.sum), store_real(record + sum_at + 1, part.rest);
    if (ends) store_real(record + low_at, part.low), store_real(record + high_at, part.high);
  }
}

static inline __attribute__((always_inline)) void rows_real(const tsr_measure *m, const double *values,
                                                            const tsr_spread *spread, uint64_t *records, uint32_t words,
                                                            bool sums, bool ends) {
  const uint32_t count_at = m->count_at, sum_at = m->sum_at, low_at = m->low_at, high_at = m->high_at;
  for (uint32_t r = 0; r < spread->count; r++) {
    uint64_t *record = records + (uint64_t)spread->groups[r] * words;
    const double v = values[r];
    if (v != v) continue;
    record[count_at]++;
    if (sums) {
      double sum = load_real(record + sum_at), rest = load_real(record + sum_at + 1);
      add_real(&sum, &rest, v);
      store_real(record + sum_at, sum);
      store_real(record + sum_at + 1, rest);
    }
    if (ends) {
      if (v < load_real(record + low_at)) store_real(record + low_at, v);
      if (v > load_real(record + high_at)) store_real(record + high_at, v);
    }
  }
}

static void add_reals(const tsr_measure *m, const double *values, const tsr_spread *spread, uint64_t *records,
                      uint32_t words) {
  if (spread->run_count > 0) {
    if (m->sum && m->ends) runs_real(m, values, spread, records, words, true, true);
    else if (m->sum) runs_real(m, values, spread, records, words, true, false);
    else if (m->ends) runs_real(m, values, spread, records, words, false, true);
    else runs_real(m, values, spread, records, words, false, false);
  } else {
    if (m->sum && m->ends) rows_real(m, values, spread, records, words, true, true);
    else if (m->sum) rows_real(m, values, spread, records, words, true, false);
    else if (m->ends) rows_real(m, values, spread, records, words, false, true);
    else rows_real(m, values, spread, records, words, false, false);
  }
}

/* ---- Integers ---------------------------------------------------------------------------------------------------- */

/* Defines functions that add rows to records. For a run, the upper and the lower halves of at most 2^31 64-bit numbers
 * are summed separately: each sum fits into 64 bits. */
#define DEFINE_RUN(name, type)                                                                                         \
  static void run_##name(const tsr_measure *m, const type *values, const uint8_t *nulls, uint64_t count,               \
                         uint64_t *record) {                                                                           \
    type low = (type)record[m->low_at], high = (type)record[m->high_at], upper = 0;                                    \
    uint64_t lower = 0, present = count;                                                                               \
    if (nulls) present = 0;                                                                                            \
    for (uint64_t i = 0; i < count && nulls; i++) present += !nulls[i];                                                \
    record[m->count_at] += present;                                                                                    \
    if (m->sum) {                                                                                                      \
      for (uint64_t i = 0; i < count && !nulls; i++) upper += values[i] >> 32, lower += (uint32_t)values[i];           \
      for (uint64_t i = 0; i < count && nulls; i++) {                                                                  \
        const type v = nulls[i] ? 0 : values[i];                                                                       \
        upper += v >> 32, lower += (uint32_t)v;                                                                        \
      }                                                                                                                \
      store_wide(record + m->sum_at, load_wide(record + m->sum_at) + (tsr_wide)upper * ((tsr_wide)1 << 32) + lower);   \
    }                                                                                                                  \
    if (!m->ends) return;                                                                                              \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      if (nulls && nulls[i]) continue;                                                                                 \
      low = TSR_MIN(low, values[i]);                                                                                   \
      high = TSR_MAX(high, values[i]);                                                                                 \
    }                                                                                                                  \
    record[m->low_at] = (uint64_t)low;                                                                                 \
    record[m->high_at] = (uint64_t)high;                                                                               \
  }                                                                                                                    \
  static void rows_##name(const tsr_measure *m, const type *values, const uint8_t *nulls, const tsr_spread *spread,    \
                          uint64_t *records, uint32_t words) {                                                         \
    for (uint32_t r = 0; r < spread->count; r++) {                                                                     \
      uint64_t *record = records + (uint64_t)spread->groups[r] * words;                                                \
      const type v = values[r];                                                                                        \
      if (nulls && nulls[r]) continue;                                                                                 \
      record[m->count_at]++;                                                                                           \
      if (m->sum) store_wide(record + m->sum_at, load_wide(record + m->sum_at) + v);                                   \
      if (m->ends && v < (type)record[m->low_at]) record[m->low_at] = (uint64_t)v;                                     \
      if (m->ends && v > (type)record[m->high_at]) record[m->high_at] = (uint64_t)v;                                   \
    }                                                                                                                  \
  }                                                                                                                    \
  static void add_##name(const tsr_measure *m, const tsr_operand *operand, const tsr_spread *spread,                   \
                         uint64_t *records, uint32_t words) {                                                          \
    const type *values = operand->values;                                                                              \
    if (spread->run_count == 0) rows_##name(m, values, operand->nulls, spread, records, words);                        \
    for (uint32_t run = 0, from = 0; run < spread->run_count; from = spread->ends[run++])                              \
      run_##name(m, values + from, operand->nulls ? operand->nulls + from : NULL, spread->ends[run] - from,            \
                 records + (uint64_t)spread->groups[run] * words);                                                     \
  }
DEFINE_RUN(signed, int64_t)
DEFINE_RUN(unsigned, uint64_t)

/* ---- Values one by one ------------------------------------------------------------------------------------------- */

static void add_number(const tsr_measure *m, double value, bool whole, uint64_t *record) {
  record[m->count_at]++;
  if (m->sum) {
    double sum = load_real(record + m->sum_at), rest = load_real(record + m->sum_at + 1);
    add_real(&sum, &rest, value);
    store_real(record + m->sum_at, sum);
    store_real(record + m->sum_at + 1, rest);
    record[m->reals_at] += !whole;
  }
  if (m->ends && value < load_real(record + m->low_at))
    store_real(record + m->low_at, value), record[m->low_at + 1] = whole;
  if (m->ends && value > load_real(record + m->high_at))
    store_real(record + m->high_at, value), record[m->high_at + 1] = whole;
}

static void set_text(uint64_t *words, const char *bytes, uint64_t size) {
  words[0] = (uint64_t)(uintptr_t)bytes;
  words[1] = size;
}

static const char *text_bytes(const uint64_t *words) { return (const char *)(uintptr_t)words[0]; }

static void add_text(const tsr_measure *m, const tsr_text_value *text, uint64_t *record) {
  const bool first = record[m->count_at]++ == 0;
  if (!m->ends) return;
  uint64_t *low = record + m->low_at, *high = record + m->high_at;
  if (first || tsr__bytes_compare(text->bytes, text->size, text_bytes(low), low[1]) < 0)
    set_text(low, text->bytes, text->size);
  if (first || tsr__bytes_compare(text->bytes, text->size, text_bytes(high), high[1]) > 0)
    set_text(high, text->bytes, text->size);
}

/* Merges the mean of `count` values, and the sum of their squared differences from it, into a record. Using the
 * difference from the new mean as rounded keeps the mean's rounding error out of the squares. */
static void merge_moments(uint64_t count, double mean, double squares, uint64_t *words) {
  const double old = load_real(words + 1), difference = mean - old;
  if (count == 0) return;
  words[0] += count;
  const double merged = old + difference * ((double)count / (double)words[0]);
  store_real(words + 1, merged);
  store_real(words + 2, load_real(words + 2) + squares + difference * (mean - merged) * (double)count);
}

static bool operand_is_null(const tsr_measure *m, const tsr_operand *o, uint64_t r) {
  if (o->nulls && o->nulls[r]) return true;
  return (m->type == TSR_VALUE_REAL || m->type == TSR_VALUE_NUMBER) && isnan(((const double *)o->values)[r]);
}

/* Adds the mean and squares of rows that belong to one record. */
static void add_moments(const tsr_measure *m, const tsr_operand *o, uint64_t from, uint64_t end, uint64_t *record) {
  uint64_t count = 0;
  double sum = 0, squares = 0;
  const bool reals = m->type == TSR_VALUE_REAL || m->type == TSR_VALUE_NUMBER;
#define VALUE_AT(r) (reals ? ((const double *)o->values)[r] : (double)((const int64_t *)o->values)[r])
  for (uint64_t r = from; r < end; r++)
    if (!operand_is_null(m, o, r)) count++, sum += VALUE_AT(r);
  const double mean = count > 0 ? sum / (double)count : 0;
  for (uint64_t r = from; r < end; r++)
    if (!operand_is_null(m, o, r)) squares += (VALUE_AT(r) - mean) * (VALUE_AT(r) - mean);
#undef VALUE_AT
  merge_moments(count, mean, squares, record + m->moments_at);
}

/* Adds the rows from..end-1, which belong to one record, for types without a loop of their own. */
static void add_others(const tsr_measure *m, const tsr_operand *o, uint64_t from, uint64_t end, uint64_t *record) {
  for (uint64_t r = from; r < end; r++) {
    if (m->type != TSR_VALUE_NULL && operand_is_null(m, o, r)) continue;
    if (m->type == TSR_VALUE_NUMBER) add_number(m, ((const double *)o->values)[r], o->whole && o->whole[r], record);
    else if (m->type == TSR_VALUE_TEXT) add_text(m, (const tsr_text_value *)o->values + r, record);
    else record[m->count_at] += !o->nulls || !o->nulls[r];
  }
}

typedef void (*add_rows_of_record)(const tsr_measure *m, const tsr_operand *o, uint64_t from, uint64_t end,
                                   uint64_t *record);

static void add_each(const tsr_measure *m, const tsr_operand *o, const tsr_spread *spread, uint64_t *records,
                     uint32_t words, add_rows_of_record add) {
  for (uint32_t r = 0; r < spread->count && spread->run_count == 0; r++)
    add(m, o, r, r + 1, records + (uint64_t)spread->groups[r] * words);
  for (uint32_t run = 0, from = 0; run < spread->run_count; from = spread->ends[run++])
    add(m, o, from, spread->ends[run], records + (uint64_t)spread->groups[run] * words);
}

/* For TSR_VALUE_NULL without nulls, all rows count. */
void tsr__measure_add(const tsr_measure *measure, const tsr_operand *operand, const tsr_spread *spread,
                      uint64_t *records, uint32_t words) {
  const tsr_value_type type = measure->type;
  if (measure->moments) add_each(measure, operand, spread, records, words, add_moments);
  if (type == TSR_VALUE_REAL) add_reals(measure, operand->values, spread, records, words);
  else if (type == TSR_VALUE_INTEGER || type == TSR_VALUE_INSTANT) add_signed(measure, operand, spread, records, words);
  else if (type == TSR_VALUE_UNSIGNED) add_unsigned(measure, operand, spread, records, words);
  else add_each(measure, operand, spread, records, words, add_others);
}

void tsr__rows_add(const tsr_spread *spread, uint64_t *records, uint32_t words) {
  for (uint32_t r = 0; r < spread->count && spread->run_count == 0; r++) records[(uint64_t)spread->groups[r] * words]++;
  for (uint32_t run = 0, from = 0; run < spread->run_count; from = spread->ends[run++])
    records[(uint64_t)spread->groups[run] * words] += spread->ends[run] - from;
}

/* ---- Merging and results ----------------------------------------------------------------------------------------- */

static int merge_text(uint64_t *to, const uint64_t *from, bool first, int sign, tsr_arena *keep, tsr_error *error) {
  char *bytes;
  if (!first && sign * tsr__bytes_compare(text_bytes(from), from[1], text_bytes(to), to[1]) >= 0) return TSR_OK;
  TSR_TRY(TSR_ARENA_COPY(keep, text_bytes(from), from[1], &bytes, error));
  set_text(to, bytes, from[1]);
  return TSR_OK;
}

/* Merges the extremes. Among equal ones the first stays. */
static int merge_extremes(const tsr_measure *m, uint64_t *to, const uint64_t *from, tsr_arena *keep, tsr_error *error) {
  const uint32_t low = m->low_at, high = m->high_at;
  const bool first = to[m->count_at] == 0;
  if (from[m->count_at] == 0) return TSR_OK;
  switch (m->type) {
  case TSR_VALUE_TEXT:
    TSR_TRY(merge_text(to + low, from + low, first, 1, keep, error));
    return merge_text(to + high, from + high, first, -1, keep, error);
  case TSR_VALUE_NUMBER:
    if (load_real(from + low) < load_real(to + low)) memcpy(to + low, from + low, 2 * sizeof *to);
    if (load_real(from + high) > load_real(to + high)) memcpy(to + high, from + high, 2 * sizeof *to);
    return TSR_OK;
  case TSR_VALUE_REAL:
    if (load_real(from + low) < load_real(to + low)) to[low] = from[low];
    if (load_real(from + high) > load_real(to + high)) to[high] = from[high];
    return TSR_OK;
  case TSR_VALUE_UNSIGNED:
    to[low] = TSR_MIN(to[low], from[low]);
    to[high] = TSR_MAX(to[high], from[high]);
    return TSR_OK;
  default:
    to[low] = (uint64_t)TSR_MIN((int64_t)to[low], (int64_t)from[low]);
    to[high] = (uint64_t)TSR_MAX((int64_t)to[high], (int64_t)from[high]);
    return TSR_OK;
  }
}

int tsr__measure_merge(const tsr_measure *measure, uint64_t *to, const uint64_t *from, tsr_arena *keep,
                       tsr_error *error) {
  const tsr_measure *m = measure;
  if (m->ends) TSR_TRY(merge_extremes(m, to, from, keep, error));
  const uint64_t *moments = from + m->moments_at;
  if (m->moments) merge_moments(moments[0], load_real(moments + 1), load_real(moments + 2), to + m->moments_at);
  to[m->count_at] += from[m->count_at];
  if (!m->sum) return TSR_OK;
  if (m->type == TSR_VALUE_REAL || m->type == TSR_VALUE_NUMBER) {
    double sum = load_real(to + m->sum_at), rest = load_real(to + m->sum_at + 1);
    add_real(&sum, &rest, load_real(from + m->sum_at));
    rest += load_real(from + m->sum_at + 1);
    store_real(to + m->sum_at, sum);
    store_real(to + m->sum_at + 1, rest);
    if (m->type == TSR_VALUE_NUMBER) to[m->reals_at] += from[m->reals_at];
  } else {
    store_wide(to + m->sum_at, load_wide(to + m->sum_at) + load_wide(from + m->sum_at));
  }
  return TSR_OK;
}

/* Returns NaN as null; and -0.0 as 0.0, since it is not certain which of two equal numbers became the extreme. */
static void give_real(double real, tsr_value *value) {
  *value = (tsr_value){.type = isnan(real) ? TSR_VALUE_NULL : TSR_VALUE_REAL};
  if (!isnan(real)) value->as.real = real + 0.0;
}

static void give_integer(int64_t integer, tsr_value_type type, tsr_value *value) {
  *value = (tsr_value){.type = type};
  value->as.integer = integer;
}

static void give_extreme(const tsr_measure *m, const uint64_t *words, tsr_value *value) {
  switch (m->type) {
  case TSR_VALUE_REAL: give_real(load_real(words), value); break;
  case TSR_VALUE_NUMBER:
    if (words[1]) give_integer((int64_t)load_real(words), TSR_VALUE_INTEGER, value);
    else give_real(load_real(words), value);
    break;
  case TSR_VALUE_TEXT:
    *value = (tsr_value){.type = TSR_VALUE_TEXT};
    value->as.text.bytes = text_bytes(words);
    value->as.text.size = words[1];
    break;
  default: give_integer((int64_t)words[0], m->type, value);
  }
}

static bool sums_reals(const tsr_measure *m) { return m->type == TSR_VALUE_REAL || m->type == TSR_VALUE_NUMBER; }

static double real_total(const tsr_measure *m, const uint64_t *record) {
  if (!sums_reals(m)) return (double)load_wide(record + m->sum_at);
  const double sum = load_real(record + m->sum_at), exact = sum + load_real(record + m->sum_at + 1);
  return isfinite(exact) ? exact : sum; /* the rounding error of an infinite sum is NaN */
}

static int give_sum(const tsr_measure *m, const uint64_t *record, tsr_value *value, tsr_error *error) {
  if (sums_reals(m)) {
    const double total = real_total(m, record);
    if (m->type == TSR_VALUE_NUMBER && record[m->reals_at] == 0 && total >= -0x1p63 && total < 0x1p63)
      give_integer((int64_t)total, TSR_VALUE_INTEGER, value);
    else give_real(total, value);
    return TSR_OK;
  }
  const tsr_wide sum = load_wide(record + m->sum_at);
  if (sum > INT64_MAX || sum < INT64_MIN) return tsr__fail(error, TSR_ERROR, TSR_SUM_OVERFLOW);
  give_integer((int64_t)sum, TSR_VALUE_INTEGER, value);
  return TSR_OK;
}

int tsr__measure_value(const tsr_measure *measure, tsr_aggregate_function function, const uint64_t *record,
                       tsr_value *value, tsr_error *error) {
  const uint64_t count = record[measure->count_at];
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  switch (function) {
  case TSR_AGGREGATE_COUNT: give_integer((int64_t)count, TSR_VALUE_INTEGER, value); break;
  case TSR_AGGREGATE_TOTAL: give_real(count > 0 ? real_total(measure, record) : 0, value); break;
  case TSR_AGGREGATE_SUM: return count > 0 ? give_sum(measure, record, value, error) : TSR_OK;
  case TSR_AGGREGATE_AVG:
    if (count > 0) give_real(real_total(measure, record) / (double)count, value);
    break;
  case TSR_AGGREGATE_MIN:
    if (count > 0) give_extreme(measure, record + measure->low_at, value);
    break;
  case TSR_AGGREGATE_MAX:
    if (count > 0) give_extreme(measure, record + measure->high_at, value);
    break;
  case TSR_AGGREGATE_VARIANCE:
  case TSR_AGGREGATE_STDDEV:
    if (count > 1) {
      const double variance = load_real(record + measure->moments_at + 2) / (double)(count - 1);
      give_real(function == TSR_AGGREGATE_STDDEV ? sqrt(variance) : variance, value);
    }
    break;
  default: break; /* percentiles and TSR_AGGREGATE_AT are not computed here */
  }
  return TSR_OK;
}
