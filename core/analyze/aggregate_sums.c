/* aggregate_sums.c: count, sum, minimum and maximum of columns, in loops for each physical type.
 *
 * Sums of integers are exact, in 128 bits. Sums of floats also add up the rounding error of each addition (TwoSum), so
 * that the result does not depend on the order of the cells or on how they are divided among threads. If the values are
 * contiguous and have no nulls, several sums run side by side in vector lanes. NaN counts as null.
 */
#include "analyze/aggregate_sums.h"

#include <math.h>
#include <string.h>

#define AGGREGATE_SUMS_LANES 4 /* sums of floats side by side */

typedef __int128 aggregate_sums_wide;

static aggregate_sums_wide wide_of(const uint64_t sum[2]) {
  return (aggregate_sums_wide)((unsigned __int128)sum[1] << 64 | sum[0]);
}

static void wide_add(uint64_t sum[2], aggregate_sums_wide value) {
  const aggregate_sums_wide total = wide_of(sum) + value;
  sum[0] = (uint64_t)total;
  sum[1] = (uint64_t)((unsigned __int128)total >> 64);
}

/* TwoSum (Knuth): sum[0] is the rounded sum, sum[1] gets the error of the addition. */
static inline void sums_real_add(double sum[2], double value) {
  const double total = sum[0] + value, part = total - sum[0];
  sum[1] += (sum[0] - (total - part)) + (value - part);
  sum[0] = total;
}

static bool aggregate_sums_is_float(tsr_physical_type type) {
  return type == TSR_PHYSICAL_F32 || type == TSR_PHYSICAL_F64;
}

static bool aggregate_sums_is_signed(tsr_physical_type type) {
  return type == TSR_PHYSICAL_I8 || type == TSR_PHYSICAL_I16 || type == TSR_PHYSICAL_I32 || type == TSR_PHYSICAL_I64;
}

void tsr__sums_init(tsr_physical_type type, tsr_sums *sums) {
  *sums = (tsr_sums){0};
  if (aggregate_sums_is_float(type)) {
    sums->min.f = INFINITY;
    sums->max.f = -INFINITY;
  } else if (aggregate_sums_is_signed(type)) {
    sums->min.i = INT64_MAX;
    sums->max.i = INT64_MIN;
  } else {
    sums->min.u = UINT64_MAX;
  }
}

/* ---- Loops ------------------------------------------------------------------------------------------------------- */

/* Integers. The type `part` holds the sum of TSR_SUMS_CELLS values; `end` is the member of the union for minimum and
 * maximum. */
#define DEFINE_INTEGERS(name, type, part, end)                                                                         \
  static void add_all_##name(const uint8_t *values, uint64_t count, tsr_sums *sums) {                                  \
    part sum = 0;                                                                                                      \
    type low, high;                                                                                                    \
    memcpy(&low, values, sizeof low);                                                                                  \
    high = low;                                                                                                        \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type v;                                                                                                          \
      memcpy(&v, values + i * sizeof v, sizeof v);                                                                     \
      sum += v;                                                                                                        \
      low = v < low ? v : low;                                                                                         \
      high = v > high ? v : high;                                                                                      \
    }                                                                                                                  \
    sums->count += count;                                                                                              \
    wide_add(sums->sum.integer, sum);                                                                                  \
    sums->min.end = TSR_MIN(sums->min.end, low);                                                                       \
    sums->max.end = TSR_MAX(sums->max.end, high);                                                                      \
  }                                                                                                                    \
  static inline void add_one_##name(type v, tsr_sums *sums) {                                                          \
    sums->count++;                                                                                                     \
    wide_add(sums->sum.integer, v);                                                                                    \
    sums->min.end = TSR_MIN(sums->min.end, v);                                                                         \
    sums->max.end = TSR_MAX(sums->max.end, v);                                                                         \
  }

/* Vectors of 16 bytes. Compilers make loops of them for processors without vectors. The sums are doubles, two in a
 * vector; minimum, maximum and count are in as many lanes as a vector has values of the type. A comparison gives a lane
 * with all bits set or none. */
typedef double reals __attribute__((vector_size(16)));
typedef int64_t real_masks __attribute__((vector_size(16)));
#define DEFINE_FLOATS(name, type, mask)                                                                                \
  static void add_all_##name(const uint8_t *values, uint64_t count, tsr_sums *sums) {                                  \
    typedef type lanes __attribute__((vector_size(16)));                                                               \
    typedef mask masks __attribute__((vector_size(16)));                                                               \
    typedef type pair __attribute__((vector_size(2 * sizeof(type))));                                                  \
    enum { LANES_OF = 16 / sizeof(type), VECTORS = AGGREGATE_SUMS_LANES / LANES_OF };                                  \
    reals sum[AGGREGATE_SUMS_LANES / 2] = {{0}}, rest[AGGREGATE_SUMS_LANES / 2] = {{0}};                               \
    lanes low[VECTORS], high[VECTORS];                                                                                 \
    masks present[VECTORS] = {{0}};                                                                                    \
    uint64_t i = 0, valued = 0;                                                                                        \
    for (int k = 0; k < VECTORS; k++) low[k] = (lanes){0} + (type)INFINITY, high[k] = (lanes){0} - (type)INFINITY;     \
    for (; i + AGGREGATE_SUMS_LANES <= count; i += AGGREGATE_SUMS_LANES) {                                             \
      for (int k = 0; k < AGGREGATE_SUMS_LANES / 2; k++) {                                                             \
        pair v;                                                                                                        \
        memcpy(&v, values + (i + 2 * (unsigned)k) * sizeof(type), sizeof v);                                           \
        reals value = __builtin_convertvector(v, reals);                                                               \
        value = (reals)((real_masks)value & (value == value));                                                         \
        const reals total = sum[k] + value, back = total - sum[k];                                                     \
        rest[k] += (sum[k] - (total - back)) + (value - back);                                                         \
        sum[k] = total;                                                                                                \
      }                                                                                                                \
      for (int k = 0; k < VECTORS; k++) {                                                                              \
        lanes v;                                                                                                       \
        memcpy(&v, values + (i + LANES_OF * (unsigned)k) * sizeof(type), sizeof v);                                    \
        const masks is_low = v<low[k], is_high = v> high[k];                                                           \
        low[k] = (lanes)(((masks)v & is_low) | ((masks)low[k] & ~is_low));                                             \
        high[k] = (lanes)(((masks)v & is_high) | ((masks)high[k] & ~is_high));                                         \
        present[k] -= v == v;                                                                                          \
      }                                                                                                                \
    }                                                                                                                  \
    for (int k = 0; k < AGGREGATE_SUMS_LANES; k++) {                                                                   \
      valued += (uint64_t)present[k / LANES_OF][k % LANES_OF];                                                         \
      sums_real_add(sums->sum.real, sum[k / 2][k % 2]);                                                                \
      sums->sum.real[1] += rest[k / 2][k % 2];                                                                         \
      sums->min.f = TSR_MIN(sums->min.f, (double)low[k / LANES_OF][k % LANES_OF]);                                     \
      sums->max.f = TSR_MAX(sums->max.f, (double)high[k / LANES_OF][k % LANES_OF]);                                    \
    }                                                                                                                  \
    sums->count += valued;                                                                                             \
    sums->nulls += i - valued;                                                                                         \
    for (; i < count; i++) {                                                                                           \
      type one;                                                                                                        \
      memcpy(&one, values + i * sizeof one, sizeof one);                                                               \
      add_one_##name(one, sums);                                                                                       \
    }                                                                                                                  \
  }

#define DEFINE_FLOAT(name, type)                                                                                       \
  static inline void add_one_##name(type v, tsr_sums *sums) {                                                          \
    const double value = (double)v;                                                                                    \
    if (value != value) {                                                                                              \
      sums->nulls++;                                                                                                   \
      return;                                                                                                          \
    }                                                                                                                  \
    sums->count++;                                                                                                     \
    sums_real_add(sums->sum.real, value);                                                                              \
    sums->min.f = TSR_MIN(sums->min.f, value);                                                                         \
    sums->max.f = TSR_MAX(sums->max.f, value);                                                                         \
  }

DEFINE_INTEGERS(I8, int8_t, int64_t, i)
DEFINE_INTEGERS(I16, int16_t, int64_t, i)
DEFINE_INTEGERS(I32, int32_t, int64_t, i)
DEFINE_INTEGERS(I64, int64_t, aggregate_sums_wide, i)
DEFINE_INTEGERS(U8, uint8_t, uint64_t, u)
DEFINE_INTEGERS(U16, uint16_t, uint64_t, u)
DEFINE_INTEGERS(U32, uint32_t, uint64_t, u)
DEFINE_INTEGERS(U64, uint64_t, aggregate_sums_wide, u)
DEFINE_FLOAT(F32, float)
DEFINE_FLOAT(F64, double)
DEFINE_FLOATS(F32, float, int32_t)
DEFINE_FLOATS(F64, double, int64_t)

/* Cells with nulls or a selection, one by one: into one group (groups NULL), or each into its own. `scatter` is for
 * cells without both. */
#define DEFINE_SOME(name, type)                                                                                        \
  static void add_some_##name(const tsr_cells *cells, const uint32_t *groups, tsr_sums *sums) {                        \
    for (uint64_t r = 0; r < cells->count; r++) {                                                                      \
      const uint64_t i = cells->selection ? cells->selection[r] : r;                                                   \
      tsr_sums *to = groups ? &sums[groups[r]] : sums;                                                                 \
      type v;                                                                                                          \
      if (cells->validity && !cells->validity[i]) {                                                                    \
        to->nulls++;                                                                                                   \
        continue;                                                                                                      \
      }                                                                                                                \
      memcpy(&v, cells->values + i * sizeof v, sizeof v);                                                              \
      add_one_##name(v, to);                                                                                           \
    }                                                                                                                  \
  }                                                                                                                    \
  static void scatter_##name(const uint8_t *values, uint64_t count, const uint32_t *groups, tsr_sums *sums) {          \
    for (uint64_t r = 0; r < count; r++) {                                                                             \
      type v;                                                                                                          \
      memcpy(&v, values + r * sizeof v, sizeof v);                                                                     \
      add_one_##name(v, &sums[groups[r]]);                                                                             \
    }                                                                                                                  \
  }
#define X(name, type) DEFINE_SOME(name, type)
TSR_PHYSICAL_TYPES(X)
#undef X

void tsr__sums_add(const tsr_cells *cells, tsr_sums *sums) {
  const bool some = cells->validity || cells->selection;
  if (cells->count == 0) return;
  switch (cells->type) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name:                                                                                            \
    if (some) add_some_##name(cells, NULL, sums);                                                                      \
    else add_all_##name(cells->values, cells->count, sums);                                                            \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

void tsr__sums_scatter(const tsr_cells *cells, const uint32_t *groups, tsr_sums *sums) {
  const bool some = cells->validity || cells->selection;
  switch (cells->type) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name:                                                                                            \
    if (some) add_some_##name(cells, groups, sums);                                                                    \
    else scatter_##name(cells->values, cells->count, groups, sums);                                                    \
    break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

/* ---- Merging sums ------------------------------------------------------------------------------------------------ */

static void merge_ends(tsr_physical_type type, tsr_sums *sums, const tsr_sums *more) {
  if (aggregate_sums_is_float(type)) {
    sums->min.f = TSR_MIN(sums->min.f, more->min.f);
    sums->max.f = TSR_MAX(sums->max.f, more->max.f);
  } else if (aggregate_sums_is_signed(type)) {
    sums->min.i = TSR_MIN(sums->min.i, more->min.i);
    sums->max.i = TSR_MAX(sums->max.i, more->max.i);
  } else {
    sums->min.u = TSR_MIN(sums->min.u, more->min.u);
    sums->max.u = TSR_MAX(sums->max.u, more->max.u);
  }
}

void tsr__sums_merge(tsr_physical_type type, tsr_sums *sums, const tsr_sums *more) {
  sums->count += more->count;
  sums->nulls += more->nulls;
  sums->doubt += more->doubt;
  if (aggregate_sums_is_float(type)) {
    sums_real_add(sums->sum.real, more->sum.real[0]);
    sums->sum.real[1] += more->sum.real[1];
  } else {
    wide_add(sums->sum.integer, wide_of(more->sum.integer));
  }
  merge_ends(type, sums, more);
}

void tsr__sums_add_known(tsr_physical_type type, uint64_t count, const void *min, const void *max, uint64_t sum,
                         tsr_sums *sums) {
  tsr_sums known;
  tsr__sums_init(type, &known);
  switch (type) { /* add the two values to set min and max; count and sum are replaced below */
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: {                                                                                          \
    type low, high;                                                                                                    \
    memcpy(&low, min, sizeof low);                                                                                     \
    memcpy(&high, max, sizeof high);                                                                                   \
    add_one_##name(low, &known);                                                                                       \
    add_one_##name(high, &known);                                                                                      \
    break;                                                                                                             \
  }
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  known.count = count;
  if (aggregate_sums_is_float(type)) {
    memcpy(&known.sum.real[0], &sum, sizeof sum);
    known.sum.real[1] = 0;
    known.doubt = (double)count * TSR_MAX(fabs(known.min.f), fabs(known.max.f)) * 0x1p-53;
  } else {
    known.sum.integer[0] = sum;
    known.sum.integer[1] = aggregate_sums_is_signed(type) && sum >> 63 ? UINT64_MAX : 0;
  }
  tsr__sums_merge(type, sums, &known);
}

double tsr__sums_real(tsr_physical_type type, const tsr_sums *sums) {
  if (!aggregate_sums_is_float(type)) return (double)wide_of(sums->sum.integer);
  const double exact = sums->sum.real[0] + sums->sum.real[1];
  return isfinite(exact) ? exact : sums->sum.real[0];
}
