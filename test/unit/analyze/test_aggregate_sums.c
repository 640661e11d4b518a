/* test_aggregate_sums.c: the loops of aggregate_sums.c for every physical type, for one group and for several, with
 * nulls, selections and counts that do not fill the vector lanes, are compared with sums made cell by cell; sums of
 * floats with infinities and lost digits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/aggregate_sums.h"

#define CELLS  300
#define GROUPS 7

static uint64_t seed = 88172645463325252u;
static uint64_t random_bits(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

static const uint64_t sizes[] = {1, 2, 4, 8, 1, 2, 4, 8, 4, 8}; /* in the order of TSR_PHYSICAL_TYPES */

static bool is_real(tsr_physical_type type) { return type >= TSR_PHYSICAL_F32; }
static bool is_unsigned(tsr_physical_type type) { return type >= TSR_PHYSICAL_U8 && type <= TSR_PHYSICAL_U64; }

/* Fills in random values. Floats are small integers, so that ordinary sums of them are exact, and sometimes NaN. */
static void fill(tsr_physical_type type, uint8_t *values) {
  for (unsigned i = 0; i < CELLS; i++) {
    const uint64_t bits = random_bits();
    const double real = bits % 11 == 0 ? NAN : (double)(int64_t)(bits % 2001) - 1000;
    const float narrow = (float)real;
    if (type == TSR_PHYSICAL_F32) memcpy(values + i * 4, &narrow, 4);
    else if (type == TSR_PHYSICAL_F64) memcpy(values + i * 8, &real, 8);
    else memcpy(values + i * sizes[type], &bits, sizes[type]);
  }
}

typedef struct expected {
  uint64_t count, nulls;
  __int128 sum, min, max;
} expected;

static bool value_at(tsr_physical_type type, const uint8_t *values, uint64_t i, __int128 *value) {
  const uint64_t size = sizes[type];
  double real;
  float narrow;
  uint64_t bits = 0;
  if (is_real(type)) {
    memcpy(&real, values + i * size, size == 8 ? 8 : 0);
    memcpy(&narrow, values + i * size, size == 4 ? 4 : 0);
    if (size == 4) real = (double)narrow;
    if (isnan(real)) return false;
    *value = (__int128)real;
    return true;
  }
  memcpy(&bits, values + i * size, size);
  if (is_unsigned(type)) *value = bits;
  else *value = (int64_t)(bits << (64 - 8 * size)) >> (64 - 8 * size);
  return true;
}

static void expect(expected *e, bool present, __int128 value) {
  if (!present) {
    e->nulls++;
    return;
  }
  if (e->count == 0 || value < e->min) e->min = value;
  if (e->count == 0 || value > e->max) e->max = value;
  e->count++;
  e->sum += value;
}

static void check(tsr_physical_type type, const tsr_sums *sums, const expected *e) {
  assert_int_equal(sums->count, e->count);
  assert_int_equal(sums->nulls, e->nulls);
  assert_true(tsr__sums_real(type, sums) == (double)e->sum);
  if (!is_real(type)) {
    assert_int_equal(sums->sum.integer[0], (uint64_t)e->sum);
    assert_int_equal(sums->sum.integer[1], (uint64_t)((unsigned __int128)e->sum >> 64));
  }
  if (e->count == 0) return;
  if (is_real(type)) {
    assert_true(sums->min.f == (double)e->min);
    assert_true(sums->max.f == (double)e->max);
  } else {
    assert_int_equal(sums->min.u, (uint64_t)e->min);
    assert_int_equal(sums->max.u, (uint64_t)e->max);
  }
}

static void check_round(tsr_physical_type type) {
  static uint8_t values[CELLS * 8 + 8], validity[CELLS];
  uint32_t selection[CELLS], groups[CELLS];
  uint64_t n = 0;
  fill(type, values);
  for (uint32_t i = 0; i < CELLS; i++) {
    validity[i] = random_bits() % 5 > 0;
    if (random_bits() % 3) selection[n++] = i;
    groups[i] = (uint32_t)(random_bits() % GROUPS);
  }
  for (unsigned kind = 0; kind < 4; kind++) {
    const bool nulls = kind & 1, selected = kind & 2;
    const tsr_cells cells = {.type = type,
                             .values = values,
                             .validity = nulls ? validity : NULL,
                             .selection = selected ? selection : NULL,
                             .count = random_bits() % ((selected ? n : CELLS) + 1)};
    expected all = {0}, each[GROUPS] = {{0}};
    tsr_sums one, parts[GROUPS], merged;
    for (uint64_t r = 0; r < cells.count; r++) {
      const uint64_t i = selected ? selection[r] : r;
      __int128 value = 0;
      const bool present = value_at(type, values, i, &value) && !(nulls && !validity[i]);
      expect(&all, present, value);
      expect(&each[groups[r]], present, value);
    }
    tsr__sums_init(type, &one);
    tsr__sums_init(type, &merged);
    for (unsigned g = 0; g < GROUPS; g++) tsr__sums_init(type, &parts[g]);
    tsr__sums_add(&cells, &one);
    tsr__sums_scatter(&cells, groups, parts);
    check(type, &one, &all);
    for (unsigned g = 0; g < GROUPS; g++) {
      check(type, &parts[g], &each[g]);
      tsr__sums_merge(type, &merged, &parts[g]);
    }
    check(type, &merged, &all);
  }
}

static void test_loops_equal_sums_cell_by_cell(void **state) {
  (void)state;
  for (tsr_physical_type type = TSR_PHYSICAL_I8; type <= TSR_PHYSICAL_F64; type++)
    for (unsigned round = 0; round < 200; round++) check_round(type);
}

static tsr_sums sum_of(const double *values, uint64_t count) {
  tsr_sums sums;
  tsr__sums_init(TSR_PHYSICAL_F64, &sums);
  tsr__sums_add(&(tsr_cells){.type = TSR_PHYSICAL_F64, .values = (const uint8_t *)values, .count = count}, &sums);
  return sums;
}

static void test_float_sums_keep_all_digits(void **state) {
  (void)state;
  double values[40];
  for (unsigned i = 0; i < 40; i++) values[i] = i % 3 == 0 ? 1e100 : i % 3 == 1 ? 1 : -1e100;
  tsr_sums sums = sum_of(values, 39); /* no small value is lost between the large ones */
  assert_true(tsr__sums_real(TSR_PHYSICAL_F64, &sums) == 13);
  values[5] = INFINITY;
  sums = sum_of(values, 39);
  assert_true(tsr__sums_real(TSR_PHYSICAL_F64, &sums) == INFINITY);
  assert_true(sums.max.f == INFINITY);
  values[6] = -INFINITY;
  sums = sum_of(values, 39);
  assert_true(isnan(tsr__sums_real(TSR_PHYSICAL_F64, &sums)));
  for (unsigned i = 0; i < 40; i++) values[i] = NAN;
  sums = sum_of(values, 40);
  assert_int_equal(sums.count, 0);
  assert_int_equal(sums.nulls, 40);
  sums = sum_of((double[]){-DBL_MAX, DBL_MAX, 0.5}, 3);
  assert_true(tsr__sums_real(TSR_PHYSICAL_F64, &sums) == 0.5);
}

static void test_sums_from_statistics(void **state) {
  (void)state;
  tsr_sums sums;
  const int16_t low = -7, high = 3;
  tsr__sums_init(TSR_PHYSICAL_I16, &sums);
  tsr__sums_add_known(TSR_PHYSICAL_I16, 5, &low, &high, (uint64_t)-10, &sums);
  tsr__sums_add_known(TSR_PHYSICAL_I16, 2, &low, &low, (uint64_t)-14, &sums);
  check(TSR_PHYSICAL_I16, &sums, &(expected){.count = 7, .sum = -24, .min = -7, .max = 3});
  assert_true(sums.doubt == 0);
  const uint64_t most = UINT64_MAX;
  tsr__sums_init(TSR_PHYSICAL_U64, &sums);
  tsr__sums_add_known(TSR_PHYSICAL_U64, 1, &most, &most, most, &sums);
  tsr__sums_add_known(TSR_PHYSICAL_U64, 1, &most, &most, most, &sums);
  check(TSR_PHYSICAL_U64, &sums,
        &(expected){.count = 2, .sum = 2 * (__int128)UINT64_MAX, .min = UINT64_MAX, .max = UINT64_MAX});
  const float least = -4, greatest = 2;
  const double sum = -9.5;
  uint64_t bits;
  memcpy(&bits, &sum, 8);
  tsr__sums_init(TSR_PHYSICAL_F32, &sums);
  tsr__sums_add_known(TSR_PHYSICAL_F32, 10, &least, &greatest, bits, &sums);
  assert_true(tsr__sums_real(TSR_PHYSICAL_F32, &sums) == sum);
  assert_true(sums.min.f == -4 && sums.max.f == 2 && sums.count == 10);
  assert_true(sums.doubt > 0 && sums.doubt < 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops_equal_sums_cell_by_cell),
                                     cmocka_unit_test(test_float_sums_keep_all_digits),
                                     cmocka_unit_test(test_sums_from_statistics)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
