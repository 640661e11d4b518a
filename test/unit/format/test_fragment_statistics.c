/* test_fragment_statistics.c: statistics are as TileDB computes them: NaN, sums that stop, nulls, strings with NULs,
 * cell ranges.
 */

#include <string.h>

#include "base/arithmetic.h"
#include "format/fragment_statistics.h"
#include "format_test.h"

#include <float.h>
#include <math.h>

static tsr_field field_of(tsr_datatype datatype, uint32_t values, bool nullable) {
  return (tsr_field){.name = "a",
                     .datatype = datatype,
                     .values_per_cell = values,
                     .cell_size = values == TSR_VARIABLE ? 0 : values * tsr_datatype_size(datatype),
                     .nullable = nullable};
}

static tsr_cell_statistics whole(const tsr_field *field, const void *values, const uint64_t *offsets,
                                 const uint8_t *validity, uint64_t count) {
  tsr_cell_range run = {0, count};
  tsr_cell_statistics s;
  tsr__statistics_of_tile(field, values, offsets, validity, &run, 1, &s);
  return s;
}

static double as_double(const void *p) {
  double d;
  memcpy(&d, p, 8);
  return d;
}

static void test_fields_with_bounds_and_sums(void **state) {
  static const struct {
    tsr_datatype datatype;
    uint32_t values;
    bool bounds, sum;
  } cases[] = {{TSR_INT8, 1, true, true},
               {TSR_FLOAT64, 1, true, true},
               {TSR_BOOL, 1, true, true},
               {TSR_DATETIME_DAY, 1, true, true},
               {TSR_TIME_NS, 1, true, true},
               {TSR_INT32, 2, false, false},
               {TSR_INT32, TSR_VARIABLE, false, false},
               {TSR_CHAR, 1, true, true},
               {TSR_CHAR, 5, true, false},
               {TSR_CHAR, TSR_VARIABLE, true, false},
               {TSR_ASCII, 1, true, false},
               {TSR_ASCII, TSR_VARIABLE, true, false},
               {TSR_UTF8, 1, false, false},
               {TSR_UTF16, 1, false, false},
               {TSR_BLOB, 1, false, false},
               {TSR_GEOM_WKT, TSR_VARIABLE, false, false},
               {TSR_ANY, TSR_VARIABLE, false, false}};
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_field field = field_of(cases[i].datatype, cases[i].values, false);
    assert_int_equal(tsr__statistics_have_bounds(&field), cases[i].bounds);
    assert_int_equal(tsr__statistics_have_sum(&field), cases[i].sum);
    field.is_dimension = true;
    assert_false(tsr__statistics_have_bounds(&field));
  }
}

static void test_integers(void **state) {
  tsr_field field = field_of(TSR_INT32, 1, false);
  const int32_t values[] = {3, -7, 12, 0, -7};
  tsr_cell_statistics s = whole(&field, values, NULL, NULL, 5);
  int64_t sum;
  memcpy(&sum, s.sum, 8);
  assert_true(s.valued);
  assert_memory_equal(s.min, &values[1], 4);
  assert_memory_equal(s.max, &values[2], 4);
  assert_int_equal(s.min_size, 4);
  assert_int_equal(sum, 1);
  assert_int_equal(s.null_count, 0);
}

static void test_sums_stop_at_the_ends(void **state) {
  tsr_field big = field_of(TSR_INT64, 1, false), wide = field_of(TSR_UINT64, 1, false);
  const int64_t up[] = {INT64_MAX, 1, -5}, down[] = {INT64_MIN, -1, 5};
  const uint64_t most[] = {UINT64_MAX, 1, 7};
  int64_t sum;
  uint64_t unsigned_sum;
  tsr_cell_statistics s = whole(&big, up, NULL, NULL, 3);
  memcpy(&sum, s.sum, 8);
  assert_true(sum == INT64_MAX);
  s = whole(&big, down, NULL, NULL, 3);
  memcpy(&sum, s.sum, 8);
  assert_true(sum == INT64_MIN);
  s = whole(&wide, most, NULL, NULL, 3);
  memcpy(&unsigned_sum, s.sum, 8);
  assert_true(unsigned_sum == UINT64_MAX);
  /* the sum continues with the next cell range */
  const tsr_cell_range runs[] = {{0, 2}, {2, 1}};
  tsr__statistics_of_tile(&big, (const uint8_t *)up, NULL, NULL, runs, 2, &s);
  memcpy(&sum, s.sum, 8);
  assert_true(sum == INT64_MAX - 5);
}

static void test_floats_and_nan(void **state) {
  tsr_field field = field_of(TSR_FLOAT64, 1, false);
  const double reset[] = {1, NAN, 5}, last[] = {3, 5, NAN}, infinite[] = {INFINITY, NAN, 1},
               all[] = {INFINITY, INFINITY};
  tsr_cell_statistics s = whole(&field, reset, NULL, NULL, 3);
  assert_true(as_double(s.min) == 5 && as_double(s.max) == 5 && isnan(as_double(s.sum)));
  s = whole(&field, last, NULL, NULL, 3);
  assert_true(isnan(as_double(s.min)) && isnan(as_double(s.max)));
  s = whole(&field, infinite, NULL, NULL, 3);
  assert_true(as_double(s.min) == 1 && as_double(s.max) == 1 && as_double(s.sum) == DBL_MAX);
  s = whole(&field, all, NULL, NULL, 2);
  assert_true(as_double(s.min) == DBL_MAX && isinf(as_double(s.max)));
  tsr_field small = field_of(TSR_FLOAT32, 1, false);
  const float floats[] = {1.5f, -2.25f};
  s = whole(&small, floats, NULL, NULL, 2);
  assert_memory_equal(s.min, &floats[1], 4);
  assert_true(as_double(s.sum) == -0.75);
}

/* What the definition gives for doubles, one value after the other. */
static void define_doubles(const double *values, const uint8_t *validity, uint64_t count, double *low, double *high,
                           double *sum) {
  bool adds = true;
  *low = DBL_MAX;
  *high = -DBL_MAX;
  *sum = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (!validity[i]) continue;
    if (!(*low < values[i])) *low = values[i];
    if (!(*high > values[i])) *high = values[i];
    if (adds && (*sum < 0) == (values[i] < 0) && fabs(*sum) > DBL_MAX - fabs(values[i])) {
      *sum = *sum < 0 ? -DBL_MAX : DBL_MAX;
      adds = false;
    }
    if (adds) *sum += values[i];
  }
}

/* Many values are taken in blocks of some hundreds, which changes no bit: not the sign of a zero, not what a NaN, a
 * sum at its end or a null in the middle of a block does. */
static void test_many_doubles(void **state) {
  enum { COUNT = 2500 };
  static const double rare[] = {NAN, INFINITY, -INFINITY, DBL_MAX, -DBL_MAX, 0.0, -0.0};
  static double values[COUNT];
  static uint8_t validity[COUNT];
  tsr_field field = field_of(TSR_FLOAT64, 1, true);
  uint64_t seed = 7;
  for (unsigned turn = 0; turn < 400; turn++) {
    const uint64_t count = turn < 200 ? COUNT : turn * 5;
    double expected[3];
    for (uint64_t i = 0; i < count; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const uint64_t chance = seed >> 33;
      values[i] = (double)(int64_t)(chance % 2001 - 1000) * (turn % 3 ? 0.1 : 0.0);
      if (turn % 2 && chance % 1500 == 3) values[i] = rare[(chance >> 12) % (turn % 4 == 1 ? 7 : 5)];
      validity[i] = turn % 5 < 3 || chance % 700 != 5;
    }
    const tsr_cell_statistics s = whole(&field, values, NULL, validity, count);
    define_doubles(values, validity, count, &expected[0], &expected[1], &expected[2]);
    assert_memory_equal(s.min, &expected[0], 8);
    assert_memory_equal(s.max, &expected[1], 8);
    if (isnan(expected[2])) assert_true(isnan(as_double(s.sum)));
    else assert_memory_equal(s.sum, &expected[2], 8);
  }
}

/* The same for integers, whose sums reach an end. */
static void test_many_integers(void **state) {
  enum { COUNT = 2000 };
  static int64_t values[COUNT];
  tsr_field field = field_of(TSR_INT64, 1, false);
  uint64_t seed = 11;
  for (unsigned turn = 0; turn < 300; turn++) {
    int64_t low = INT64_MAX, high = INT64_MIN, expected = 0, sum;
    bool adds = true;
    for (uint64_t i = 0; i < COUNT; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      values[i] = (int64_t)seed >> (turn % 50 + 1);
      if (turn % 7 == 0) values[i] = i < 700 ? values[i] | INT64_C(1) << 60 : -(values[i] & 255); /* past the end */
      low = TSR_MIN(low, values[i]);
      high = TSR_MAX(high, values[i]);
      if (!adds) continue;
      adds = !__builtin_add_overflow(expected, values[i], &expected);
      if (!adds) expected = values[i] > 0 ? INT64_MAX : INT64_MIN;
    }
    const tsr_cell_statistics s = whole(&field, values, NULL, NULL, COUNT);
    memcpy(&sum, s.sum, 8);
    assert_memory_equal(s.min, &low, 8);
    assert_memory_equal(s.max, &high, 8);
    assert_true(sum == expected);
  }
}

static void test_null_counts(void **state) {
  tsr_field field = field_of(TSR_UINT8, 1, true), text = field_of(TSR_ASCII, TSR_VARIABLE, true);
  const uint8_t values[] = {200, 3, 9, 1}, some[] = {0, 1, 1, 0}, none[] = {0, 0, 0, 0};
  tsr_cell_statistics s = whole(&field, values, NULL, some, 4);
  assert_int_equal(*s.min, 3);
  assert_int_equal(*s.max, 9);
  assert_int_equal(s.null_count, 2);
  assert_int_equal(s.sum[0], 12);
  s = whole(&field, values, NULL, none, 4);
  assert_false(s.valued);
  assert_null(s.min);
  assert_int_equal(s.null_count, 4);
  const uint64_t offsets[] = {0, 1, 2, 4, 4};
  s = whole(&text, "zbaa", offsets, some, 4);
  assert_int_equal(s.min_size, 2);
  assert_memory_equal(s.min, "aa", 2);
  assert_memory_equal(s.max, "b", 1);
  /* fields without bounds count nulls, too */
  tsr_field plain = field_of(TSR_UTF8, TSR_VARIABLE, true);
  s = whole(&plain, "zbaa", offsets, some, 4);
  assert_null(s.min);
  assert_int_equal(s.null_count, 2);
}

static void test_strings(void **state) {
  tsr_field text = field_of(TSR_ASCII, TSR_VARIABLE, false), fixed = field_of(TSR_CHAR, 3, false);
  /* "b", "", "a", "ab", "\xff" */
  const uint64_t offsets[] = {0, 1, 1, 2, 4, 5};
  tsr_cell_statistics s = whole(&text, "baab\xff", offsets, NULL, 5);
  assert_int_equal(s.min_size, 0);
  assert_int_equal(s.max_size, 1);
  assert_memory_equal(s.max, "\xff", 1);
  /* only the bytes before a NUL are compared; of equal values the shorter one is the minimum, the longer one the
   * maximum */
  const uint64_t nul[] = {0, 3, 5};
  s = whole(&text, "a\0za\0", nul, NULL, 2);
  assert_int_equal(s.min_size, 2);
  assert_int_equal(s.max_size, 3);
  s = whole(&fixed, "b\0zb\0aabc", NULL, NULL, 3);
  assert_memory_equal(s.min, "abc", 3);
  assert_memory_equal(s.max, "b\0z", 3); /* the first of equal values */
  tsr_field one = field_of(TSR_CHAR, 1, false);
  s = whole(&one, "\xff\x01", NULL, NULL, 2);
  assert_int_equal(*s.min, 1); /* unsigned */
  int64_t sum;
  memcpy(&sum, s.sum, 8);
  assert_int_equal(sum, 0); /* signed */
}

/* The statistics of tiles join by the same rules as those of values; tiles of nulls alone are skipped. */
static void test_tiles_join_to_the_fragment(void **state) {
  room r;
  room_open(&r, UINT64_MAX);
  tsr_field field = field_of(TSR_INT16, 1, true), text = field_of(TSR_CHAR, TSR_VARIABLE, true);
  tsr_statistics_writer numbers, texts;
  tsr__statistics_writer_init(&numbers, &field, &r.memory);
  tsr__statistics_writer_init(&texts, &text, &r.memory);
  const int16_t values[3][2] = {{5, 9}, {0, 0}, {-3, 7}};
  const uint8_t valid[3][2] = {{1, 1}, {0, 0}, {0, 1}};
  const uint64_t offsets[3][3] = {{0, 2, 3}, {0, 0, 0}, {0, 1, 4}};
  static const char *const strings[] = {"xyz", "", "aabc"};
  tsr_cell_statistics s;
  for (int i = 0; i < 3; i++) {
    s = whole(&field, values[i], NULL, valid[i], 2);
    assert_int_equal(tsr__statistics_writer_add(&numbers, &s, NULL), TSR_OK);
    s = whole(&text, strings[i], offsets[i], valid[i], 2);
    assert_int_equal(tsr__statistics_writer_add(&texts, &s, NULL), TSR_OK);
  }
  assert_int_equal(numbers.min.size, 6);
  assert_memory_equal(numbers.min.data, "\5\0\0\0\7\0", 6); /* zeros of a tile without values */
  assert_int_equal(texts.min.size, 24);
  assert_int_equal(tsr__load64(texts.min.data + 16), 2); /* the second tile has none */
  tsr__statistics_of_fragment(&numbers, &s);
  int16_t low, high;
  int64_t sum;
  memcpy(&low, s.min, 2), memcpy(&high, s.max, 2), memcpy(&sum, s.sum, 8);
  assert_int_equal(low, 5);
  assert_int_equal(high, 9);
  assert_int_equal(sum, 21);
  assert_int_equal(s.null_count, 3);
  tsr__statistics_of_fragment(&texts, &s);
  assert_int_equal(s.min_size, 3);
  assert_memory_equal(s.min, "abc", 3);
  assert_memory_equal(s.max, "z", 1);
  assert_int_equal(s.null_count, 3);
  tsr__statistics_writer_release(&numbers);
  tsr__statistics_writer_release(&texts);
  room_close(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields_with_bounds_and_sums),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_sums_stop_at_the_ends),
      cmocka_unit_test(test_floats_and_nan),
      cmocka_unit_test(test_many_doubles),
      cmocka_unit_test(test_many_integers),
      cmocka_unit_test(test_null_counts),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_tiles_join_to_the_fragment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
