/* test_accumulate.c: measures of groups: each aggregate of each type against sums that are made one by one, over rows and
 * over runs, in parts that are merged in their order; and what happens at the ends of the types. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "query/accumulate.h"

#define ROWS   600u
#define GROUPS 5u
#define WORDS  40u
#define ROUNDS 300

typedef tsr_wide wide;

static const tsr_value_type types[] = {TSR_VALUE_INTEGER, TSR_VALUE_INSTANT, TSR_VALUE_UNSIGNED, TSR_VALUE_REAL,
                                       TSR_VALUE_NUMBER,  TSR_VALUE_TEXT,    TSR_VALUE_NULL};
enum { TYPES = sizeof types / sizeof *types };

static uint64_t seed;

static uint64_t draw(uint64_t below) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (seed >> 33) % below;
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */

typedef struct rows { /* values of one argument */
  tsr_value_type type;
  uint32_t count;
  int64_t integers[ROWS]; /* INTEGER, INSTANT, UNSIGNED */
  double reals[ROWS];
  tsr_text_value texts[ROWS];
  char bytes[ROWS][4];
  uint8_t nulls[ROWS], whole[ROWS];
  uint32_t groups[ROWS];
} rows;

static int64_t draw_integer(bool large) {
  static const int64_t ends[] = {INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 0, -1, 1, INT64_C(1) << 32};
  return large && draw(3) == 0 ? ends[draw(8)] : (int64_t)draw(2001) - 1000;
}

static double draw_real(bool large) {
  static const double odd[] = {0.0, -0.0, 1e300, -1e300, 1e-300, 0x1p53, 0.1};
  return large && draw(3) == 0 ? odd[draw(7)] : ((double)draw(2000001) - 1000000) / 64;
}

static void draw_rows(rows *r, tsr_value_type type, bool large) {
  static const char letters[] = "\0aZ\xC3\xA9\xFFzb";
  const uint32_t most = 1 + (uint32_t)draw(3) * 3; /* how long runs are */
  memset(r, 0, sizeof *r);
  r->type = type;
  r->count = (uint32_t)draw(ROWS + 1);
  for (uint32_t i = 0; i < r->count; i++) {
    r->nulls[i] = draw(4) == 0;
    r->groups[i] = i > 0 && draw(most * most) ? r->groups[i - 1] : (uint32_t)draw(GROUPS);
    r->integers[i] = draw_integer(large);
    if (type == TSR_VALUE_UNSIGNED && !large) r->integers[i] = llabs(r->integers[i]);
    r->whole[i] = type == TSR_VALUE_NUMBER && draw(3) > 0;
    r->reals[i] = r->whole[i] ? (double)((int64_t)draw(2001) - 1000) : draw_real(large);
    if (type == TSR_VALUE_REAL && r->nulls[i]) r->reals[i] = NAN; /* a null of REAL */
    if (type == TSR_VALUE_NUMBER && !r->nulls[i] && draw(9) == 0) r->reals[i] = NAN;
    for (int k = 0; k < 4; k++) r->bytes[i][k] = letters[draw(sizeof letters - 1)];
    r->texts[i] = (tsr_text_value){.bytes = r->bytes[i], .size = draw(5)};
  }
}

static const void *values_of(const rows *r, uint32_t from) {
  switch (r->type) {
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER: return r->reals + from;
  case TSR_VALUE_TEXT: return r->texts + from;
  case TSR_VALUE_NULL: return NULL;
  default: return r->integers + from;
  }
}

/* ---- Through the measure ------------------------------------------------------------------------------------------ */

/* Adds rows from..end-1 to the records, in runs if `runs`. */
static void add_rows(const tsr_measure *m, const rows *r, uint32_t from, uint32_t end, bool runs, bool with_nulls,
                     uint64_t records[GROUPS][WORDS]) {
  uint32_t groups[ROWS], ends[ROWS];
  tsr_spread spread = {.count = end - from, .groups = groups, .ends = ends};
  for (uint32_t i = from; i < end; i++) {
    const bool same = runs && i > from && r->groups[i] == r->groups[i - 1];
    if (runs && !same) groups[spread.run_count++] = r->groups[i];
    if (runs) ends[spread.run_count - 1] = i + 1 - from;
    else groups[i - from] = r->groups[i];
  }
  const tsr_operand operand = {.values = values_of(r, from),
                               .nulls = with_nulls ? r->nulls + from : NULL,
                               .whole = m->type == TSR_VALUE_NUMBER ? r->whole + from : NULL};
  tsr__rows_add(&spread, records[0], WORDS);
  tsr__measure_add(m, &operand, &spread, records[0], WORDS);
}

/* Adds all rows in `parts` parts, each to records of its own, which are merged in their order. */
static void run_measure(const tsr_measure *m, const rows *r, uint32_t parts, bool runs, tsr_arena *keep,
                        uint64_t records[GROUPS][WORDS]) {
  tsr_error error = {0};
  memset(records, 0, GROUPS * sizeof *records);
  for (uint32_t g = 0; g < GROUPS; g++) tsr__measure_init(m, records[g]);
  for (uint32_t p = 0; p < parts; p++) {
    uint64_t own[GROUPS][WORDS] = {{0}};
    const uint32_t from = r->count * p / parts, end = r->count * (p + 1) / parts;
    for (uint32_t g = 0; g < GROUPS; g++) tsr__measure_init(m, own[g]);
    add_rows(m, r, from, from + (end - from) / 2, runs, true, own);
    add_rows(m, r, from + (end - from) / 2, end, runs, true, own);
    for (uint32_t g = 0; g < GROUPS; g++) {
      records[g][0] += own[g][0];
      assert_int_equal(tsr__measure_merge(m, records[g], own[g], keep, &error), TSR_OK);
    }
  }
}

/* ---- One by one --------------------------------------------------------------------------------------------------- */

typedef struct expected {
  uint64_t rows, count, real_count;
  wide sum;
  long double real_sum, mean, squares, size; /* size: the sum of absolute values */
  uint32_t low, high; /* rows of the extremes, the first of equal ones */
} expected;

static bool is_real(tsr_value_type type) { return type == TSR_VALUE_REAL || type == TSR_VALUE_NUMBER; }

static bool row_is_null(const rows *r, uint32_t i) { return r->nulls[i] || (is_real(r->type) && isnan(r->reals[i])); }

static int compare_texts(const tsr_text_value *a, const tsr_text_value *b) {
  const uint64_t size = a->size < b->size ? a->size : b->size;
  const int order = memcmp(a->bytes, b->bytes, size);
  return order ? order : (a->size > b->size) - (a->size < b->size);
}

static int compare_rows(const rows *r, uint32_t a, uint32_t b) {
  switch (r->type) {
  case TSR_VALUE_REAL:
  case TSR_VALUE_NUMBER: return (r->reals[a] > r->reals[b]) - (r->reals[a] < r->reals[b]);
  case TSR_VALUE_TEXT: return compare_texts(&r->texts[a], &r->texts[b]);
  case TSR_VALUE_UNSIGNED: {
    const uint64_t x = (uint64_t)r->integers[a], y = (uint64_t)r->integers[b];
    return (x > y) - (x < y);
  }
  default: return (r->integers[a] > r->integers[b]) - (r->integers[a] < r->integers[b]);
  }
}

static expected expect(const rows *r, uint32_t group) {
  expected e = {0};
  for (uint32_t i = 0; i < r->count; i++) {
    if (r->groups[i] != group) continue;
    e.rows++;
    if (row_is_null(r, i)) continue;
    const long double value = is_real(r->type)                ? (long double)r->reals[i]
                              : r->type == TSR_VALUE_UNSIGNED ? (long double)(uint64_t)r->integers[i]
                                                              : (long double)r->integers[i];
    if (e.count == 0 || compare_rows(r, i, e.low) < 0) e.low = i;
    if (e.count == 0 || compare_rows(r, i, e.high) > 0) e.high = i;
    e.count++;
    e.real_count += !r->whole[i];
    if (!is_real(r->type)) e.sum += r->type == TSR_VALUE_UNSIGNED ? (wide)(uint64_t)r->integers[i] : r->integers[i];
    e.real_sum += value;
    e.size += fabsl(value);
    const long double before = e.mean;
    e.mean += (value - before) / (long double)e.count;
    e.squares += (value - before) * (value - e.mean);
  }
  return e;
}

static void assert_near(long double got, long double right, long double room) {
  if (!(fabsl(got - right) <= room)) fail_msg("%Lg and not %Lg, more than %Lg off", got, right, room);
}

static void check_extreme(const rows *r, uint32_t row, bool any, const tsr_value *value) {
  if (!any) {
    assert_int_equal(value->type, TSR_VALUE_NULL);
    return;
  }
  switch (r->type) {
  case TSR_VALUE_NUMBER:
    assert_int_equal(value->type, r->whole[row] ? TSR_VALUE_INTEGER : TSR_VALUE_REAL);
    if (r->whole[row]) assert_true((double)value->as.integer == r->reals[row]);
    else assert_true(value->as.real == r->reals[row]);
    break;
  case TSR_VALUE_REAL:
    assert_int_equal(value->type, TSR_VALUE_REAL);
    assert_true(value->as.real == r->reals[row] && !(value->as.real == 0 && signbit(value->as.real)));
    break;
  case TSR_VALUE_TEXT:
    assert_int_equal(value->type, TSR_VALUE_TEXT);
    assert_int_equal(value->as.text.size, r->texts[row].size);
    assert_memory_equal(value->as.text.bytes, r->texts[row].bytes, value->as.text.size);
    break;
  default: assert_int_equal(value->type, r->type); assert_true(value->as.integer == r->integers[row]);
  }
}

static void check_sum(const tsr_measure *m, const expected *e, const uint64_t *record) {
  tsr_error error = {0};
  tsr_value value;
  const int code = tsr__measure_value(m, TSR_AGGREGATE_SUM, record, &value, &error);
  const long double room = is_real(m->type)
                               ? 0x1p-52L * fabsl(e->real_sum) + (long double)e->count * 0x1p-100L * e->size
                               : 0x1p-52L * fabsl(e->real_sum);
  if (e->count == 0) {
    assert_int_equal(code, TSR_OK);
    assert_int_equal(value.type, TSR_VALUE_NULL);
  } else if (is_real(m->type)) {
    const bool whole = m->type == TSR_VALUE_NUMBER && e->real_count == 0;
    assert_int_equal(code, TSR_OK);
    assert_int_equal(value.type, whole ? TSR_VALUE_INTEGER : TSR_VALUE_REAL);
    assert_near(whole ? (long double)value.as.integer : (long double)value.as.real, e->real_sum, room);
  } else if (e->sum > INT64_MAX || e->sum < INT64_MIN) {
    assert_int_equal(code, TSR_ERROR);
    assert_string_equal(error.message, TSR_SUM_OVERFLOW);
  } else {
    assert_int_equal(code, TSR_OK);
    assert_int_equal(value.type, TSR_VALUE_INTEGER);
    assert_true(value.as.integer == (int64_t)e->sum);
  }
  assert_int_equal(tsr__measure_value(m, TSR_AGGREGATE_TOTAL, record, &value, &error), TSR_OK);
  assert_int_equal(value.type, TSR_VALUE_REAL);
  if (is_real(m->type)) assert_near(value.as.real, e->real_sum, room);
  else assert_true(value.as.real == (double)e->sum);
  assert_int_equal(tsr__measure_value(m, TSR_AGGREGATE_AVG, record, &value, &error), TSR_OK);
  assert_int_equal(value.type, e->count ? TSR_VALUE_REAL : TSR_VALUE_NULL);
  if (e->count && !is_real(m->type)) assert_true(value.as.real == (double)e->sum / (double)e->count);
  if (e->count && is_real(m->type)) assert_near(value.as.real, e->real_sum / (long double)e->count, room);
}

static void check_moments(const tsr_measure *m, const expected *e, const uint64_t *record) {
  tsr_error error = {0};
  tsr_value value;
  const tsr_aggregate_function functions[] = {TSR_AGGREGATE_VARIANCE, TSR_AGGREGATE_STDDEV};
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tsr__measure_value(m, functions[i], record, &value, &error), TSR_OK);
    assert_int_equal(value.type, e->count > 1 ? TSR_VALUE_REAL : TSR_VALUE_NULL);
    if (e->count < 2) continue;
    const long double variance = e->squares / (long double)(e->count - 1);
    const long double right = i ? sqrtl(variance) : variance;
    assert_near(value.as.real, right, 1e-11L * right);
  }
}

static void check_record(const tsr_measure *m, const rows *r, uint32_t group, const uint64_t *record) {
  tsr_error error = {0};
  tsr_value value;
  const expected e = expect(r, group);
  assert_int_equal(record[0], e.rows);
  assert_int_equal(tsr__measure_value(m, TSR_AGGREGATE_COUNT, record, &value, &error), TSR_OK);
  assert_int_equal(value.type, TSR_VALUE_INTEGER);
  assert_int_equal(value.as.integer, e.count);
  if (m->sum) check_sum(m, &e, record);
  if (m->moments) check_moments(m, &e, record);
  if (!m->ends) return;
  assert_int_equal(tsr__measure_value(m, TSR_AGGREGATE_MIN, record, &value, &error), TSR_OK);
  check_extreme(r, e.low, e.count > 0, &value);
  assert_int_equal(tsr__measure_value(m, TSR_AGGREGATE_MAX, record, &value, &error), TSR_OK);
  check_extreme(r, e.high, e.count > 0, &value);
}

/* Makes a measure with some of what its type allows. */
static tsr_measure make_measure(tsr_value_type type, uint64_t what, bool moments) {
  const bool number = type != TSR_VALUE_TEXT && type != TSR_VALUE_NULL;
  tsr_measure m = {.type = type,
                   .sum = number && type != TSR_VALUE_INSTANT && (what & 1),
                   .ends = type != TSR_VALUE_NULL && (what & 2),
                   .moments = number && type != TSR_VALUE_INSTANT && moments};
  assert_true(tsr__measure_place(&m, 1 + (uint32_t)(what >> 2)) <= WORDS); /* other measures may stand before it */
  return m;
}

static void test_each_aggregate_of_each_type_by_rows_by_runs_and_in_parts(void **state) {
  static rows r;
  (void)state;
  for (int t = 0; t < TYPES; t++)
    for (int round = 0; round < ROUNDS; round++) {
      uint64_t records[GROUPS][WORDS];
      tsr_arena keep;
      seed = (uint64_t)(t * ROUNDS + round + 1);
      const bool large = draw(2), runs = draw(2);
      tsr__arena_init(&keep, tsr__memory_process());
      draw_rows(&r, types[t], large);
      const tsr_measure m = make_measure(types[t], draw(20), !large && draw(2));
      run_measure(&m, &r, 1 + (uint32_t)draw(6), runs, &keep, records);
      for (uint32_t g = 0; g < GROUPS; g++) check_record(&m, &r, g, records[g]);
      tsr__arena_release(&keep);
    }
}

/* Sums of REAL depend on how rows are divided; the merge of given parts gives the same bits each time. */
static void test_the_same_parts_give_the_same_bits(void **state) {
  static rows r;
  uint64_t first[GROUPS][WORDS], again[GROUPS][WORDS];
  tsr_arena keep;
  (void)state;
  tsr__arena_init(&keep, tsr__memory_process());
  for (seed = 1; seed < 50;) {
    const uint64_t before = seed;
    draw_rows(&r, TSR_VALUE_REAL, true);
    const tsr_measure m = make_measure(TSR_VALUE_REAL, 3, true);
    run_measure(&m, &r, 4, true, &keep, first);
    run_measure(&m, &r, 4, true, &keep, again);
    assert_memory_equal(first, again, sizeof first);
    seed = before + 1;
  }
  tsr__arena_release(&keep);
}

/* ---- Fixed values ------------------------------------------------------------------------------------------------- */

/* Gives one aggregate of values that all belong to one group: once as a run, once row by row. */
static int aggregate_of(tsr_value_type type, tsr_aggregate_function function, const void *values, uint32_t count,
                        bool runs, tsr_value *value) {
  static const uint32_t zeros[ROWS];
  uint64_t record[WORDS] = {0};
  tsr_measure m = {.type = type, .sum = true, .ends = true};
  tsr_error error = {0};
  assert_true(tsr__measure_place(&m, 1) <= WORDS);
  tsr__measure_init(&m, record);
  const tsr_operand operand = {.values = values};
  const tsr_spread spread = {.count = count, .run_count = runs, .groups = zeros, .ends = &count};
  tsr__measure_add(&m, &operand, &spread, record, WORDS);
  return tsr__measure_value(&m, function, record, value, &error);
}

static void test_sums_of_integers_overflow_only_in_the_end(void **state) {
  const int64_t fits[] = {INT64_MAX, INT64_MAX, -INT64_MAX}, past[] = {INT64_MAX, 1}, below[] = {INT64_MIN, -1},
                ends[] = {INT64_MIN, INT64_MAX};
  const uint64_t large[] = {UINT64_MAX, 1};
  tsr_value value;
  (void)state;
  for (int runs = 0; runs < 2; runs++) {
    assert_int_equal(aggregate_of(TSR_VALUE_INTEGER, TSR_AGGREGATE_SUM, fits, 3, runs, &value), TSR_OK);
    assert_true(value.type == TSR_VALUE_INTEGER && value.as.integer == INT64_MAX);
    assert_int_equal(aggregate_of(TSR_VALUE_INTEGER, TSR_AGGREGATE_SUM, past, 2, runs, &value), TSR_ERROR);
    assert_int_equal(aggregate_of(TSR_VALUE_INTEGER, TSR_AGGREGATE_SUM, below, 2, runs, &value), TSR_ERROR);
    assert_int_equal(aggregate_of(TSR_VALUE_INTEGER, TSR_AGGREGATE_AVG, past, 2, runs, &value), TSR_OK);
    assert_true(value.as.real == 0x1p62);
    assert_int_equal(aggregate_of(TSR_VALUE_INTEGER, TSR_AGGREGATE_SUM, ends, 2, runs, &value), TSR_OK);
    assert_true(value.as.integer == -1);
    assert_int_equal(aggregate_of(TSR_VALUE_UNSIGNED, TSR_AGGREGATE_TOTAL, large, 2, runs, &value), TSR_OK);
    assert_true(value.as.real == 0x1p64);
    assert_int_equal(aggregate_of(TSR_VALUE_UNSIGNED, TSR_AGGREGATE_MAX, large, 2, runs, &value), TSR_OK);
    assert_true(value.type == TSR_VALUE_UNSIGNED && value.as.unsigned_integer == UINT64_MAX);
  }
}

static void test_infinities_and_lost_digits_of_sums(void **state) {
  const double lost[] = {1e16, 1, -1e16}, infinite[] = {1, INFINITY, 2}, both[] = {INFINITY, -INFINITY, 1},
               past[] = {1e308, 1e308}, none[] = {NAN, NAN}, zeros[] = {-0.0, -0.0};
  double many[40];
  tsr_value value;
  (void)state;
  for (int runs = 0; runs < 2; runs++) {
    assert_int_equal(aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, lost, 3, runs, &value), TSR_OK);
    assert_true(value.as.real == 1);
    for (int i = 0; i < 40; i++) many[i] = i == 0 ? 1e17 : i == 39 ? -1e17 : 1;
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, many, 40, runs, &value); /* in lanes */
    assert_true(value.as.real == 38);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, infinite, 3, runs, &value);
    assert_true(value.type == TSR_VALUE_REAL && value.as.real == INFINITY);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, both, 3, runs, &value);
    assert_int_equal(value.type, TSR_VALUE_NULL);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_MIN, both, 3, runs, &value);
    assert_true(value.as.real == -INFINITY);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, past, 2, runs, &value);
    assert_true(value.as.real == INFINITY);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_SUM, none, 2, runs, &value);
    assert_int_equal(value.type, TSR_VALUE_NULL);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_TOTAL, none, 2, runs, &value);
    assert_true(value.type == TSR_VALUE_REAL && value.as.real == 0);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_MAX, none, 2, runs, &value);
    assert_int_equal(value.type, TSR_VALUE_NULL);
    (void)aggregate_of(TSR_VALUE_REAL, TSR_AGGREGATE_MIN, zeros, 2, runs, &value);
    assert_false(signbit(value.as.real));
  }
}

/* Variances keep their digits if the mean is far larger than the differences. */
static void test_a_variance_of_large_numbers_is_exact(void **state) {
  static const uint32_t zeros[ROWS];
  double values[100];
  tsr_measure m = {.type = TSR_VALUE_REAL, .moments = true};
  uint64_t all[WORDS] = {0};
  tsr_error error = {0};
  tsr_arena keep = {0};
  tsr_value value;
  (void)state;
  (void)tsr__measure_place(&m, 1);
  tsr__measure_init(&m, all);
  for (int i = 0; i < 100; i++) values[i] = 1e9 + (i % 2 ? 1 : -1);
  for (uint32_t p = 0; p < 10; p++) {
    uint64_t part[WORDS] = {0};
    const uint32_t end = 10;
    tsr__measure_init(&m, part);
    tsr__measure_add(&m, &(tsr_operand){.values = values + 10 * p},
                     &(tsr_spread){.count = 10, .run_count = p % 2, .groups = zeros, .ends = &end}, part, WORDS);
    assert_int_equal(tsr__measure_merge(&m, all, part, &keep, &error), TSR_OK);
  }
  assert_int_equal(tsr__measure_value(&m, TSR_AGGREGATE_VARIANCE, all, &value, &error), TSR_OK);
  assert_near(value.as.real, 100.0L / 99, 1e-13L);
}

/* The texts of parts go when the part ends, so the merge copies those that it keeps; and it can fail for it. */
static void test_a_merge_keeps_texts_of_its_own(void **state) {
  static const uint32_t zero;
  const uint32_t end = 1;
  char bytes[] = "word";
  const tsr_text_value text = {.bytes = bytes, .size = 4};
  tsr_measure m = {.type = TSR_VALUE_TEXT, .ends = true};
  uint64_t all[WORDS] = {0}, part[WORDS] = {0};
  tsr_memory small;
  tsr_arena keep;
  tsr_error error = {0};
  tsr_value value;
  (void)state;
  (void)tsr__measure_place(&m, 1);
  tsr__measure_init(&m, all);
  tsr__measure_init(&m, part);
  tsr__measure_add(&m, &(tsr_operand){.values = &text},
                   &(tsr_spread){.count = 1, .run_count = 1, .groups = &zero, .ends = &end}, part, WORDS);
  tsr__memory_init(&small, tsr__memory_process(), 1, "memory_mb");
  tsr__arena_init(&keep, &small);
  assert_int_equal(tsr__measure_merge(&m, all, part, &keep, &error), TSR_BUDGET);
  tsr__arena_release(&keep);
  memset(all, 0, sizeof all);
  tsr__measure_init(&m, all);
  tsr__arena_init(&keep, tsr__memory_process());
  assert_int_equal(tsr__measure_merge(&m, all, part, &keep, &error), TSR_OK);
  memset(bytes, '?', sizeof bytes);
  assert_int_equal(tsr__measure_value(&m, TSR_AGGREGATE_MAX, all, &value, &error), TSR_OK);
  assert_int_equal(value.as.text.size, 4);
  assert_memory_equal(value.as.text.bytes, "word", 4);
  tsr__arena_release(&keep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_aggregate_of_each_type_by_rows_by_runs_and_in_parts),
      cmocka_unit_test(test_the_same_parts_give_the_same_bits),
      cmocka_unit_test(test_sums_of_integers_overflow_only_in_the_end),
      cmocka_unit_test(test_infinities_and_lost_digits_of_sums),
      cmocka_unit_test(test_a_variance_of_large_numbers_is_exact),
      cmocka_unit_test(test_a_merge_keeps_texts_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
