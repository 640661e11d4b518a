/* test_datatype.c: the table of datatypes, names, fill values, order keys. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "model/datatype.h"

static void test_every_datatype_has_name_size_and_kind(void **state) {
  assert_string_equal(tsr_datatype_name(TSR_UINT16), "UINT16");
  assert_string_equal(tsr_datatype_name(TSR_GEOM_WKT), "GEOM_WKT");
  assert_string_equal(tsr_datatype_name(TSR_DATETIME_HR), "DATETIME_HR");
  assert_string_equal(tsr_datatype_name((tsr_datatype)44), "?");
  assert_string_equal(tsr_datatype_name((tsr_datatype)-1), "?");
  assert_int_equal(tsr_datatype_size(TSR_UTF32), 4);
  assert_int_equal(tsr_datatype_size((tsr_datatype)200), 0);
  assert_int_equal(tsr_datatype_kind(TSR_BOOL), TSR_KIND_BOOLEAN);
  assert_int_equal(tsr_datatype_kind(TSR_TIME_AS), TSR_KIND_TIME);
  assert_true(tsr__datatype_valid(0) && tsr__datatype_valid(43));
  assert_false(tsr__datatype_valid(44) || tsr__datatype_valid(255));
  for (int d = 0; d < TSR_DATATYPE_COUNT; d++) assert_true(tsr_datatype_size(d) > 0 && tsr_datatype_size(d) <= 8);
}

static void test_only_some_datatypes_are_for_dimensions(void **state) {
  static const tsr_datatype no[] = {TSR_CHAR, TSR_UTF8, TSR_UTF16, TSR_UTF32,    TSR_UCS2,    TSR_UCS4,
                                    TSR_ANY,  TSR_BLOB, TSR_BOOL,  TSR_GEOM_WKB, TSR_GEOM_WKT};
  int count = 0;
  for (int d = 0; d < TSR_DATATYPE_COUNT; d++) count += tsr__datatype_is_dimension(d);
  assert_int_equal(count, TSR_DATATYPE_COUNT - (int)(sizeof no / sizeof *no));
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_false(tsr__datatype_is_dimension(no[i]));
  assert_false(tsr__datatype_is_dimension((tsr_datatype)44));
}

/* The fill values that TileDB 2.30 writes into a schema that sets none. */
static void test_fill_values_are_those_of_tiledb(void **state) {
  static const struct {
    tsr_datatype datatype;
    uint64_t bits;
  } fills[] = {{TSR_INT8, 0x80},
               {TSR_INT16, 0x8000},
               {TSR_INT32, 0x80000000},
               {TSR_INT64, UINT64_C(0x8000000000000000)},
               {TSR_UINT8, 0xff},
               {TSR_UINT16, 0xffff},
               {TSR_UINT32, 0xffffffff},
               {TSR_UINT64, UINT64_MAX},
               {TSR_FLOAT32, 0x7fc00000},
               {TSR_FLOAT64, UINT64_C(0x7ff8000000000000)},
               {TSR_CHAR, 0x80},
               {TSR_ASCII, 0},
               {TSR_UTF8, 0},
               {TSR_UTF16, 0},
               {TSR_UTF32, 0},
               {TSR_UCS2, 0},
               {TSR_UCS4, 0},
               {TSR_ANY, 0},
               {TSR_BLOB, 0},
               {TSR_BOOL, 0},
               {TSR_GEOM_WKB, 0},
               {TSR_GEOM_WKT, 0},
               {TSR_DATETIME_MONTH, UINT64_C(0x8000000000000000)},
               {TSR_DATETIME_NS, UINT64_C(0x8000000000000000)},
               {TSR_TIME_SEC, UINT64_C(0x8000000000000000)}};
  for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
    uint8_t value[9] = {0};
    uint64_t size = tsr_datatype_size(fills[i].datatype);
    value[size] = 0x5a;
    tsr__datatype_fill(fills[i].datatype, value);
    assert_int_equal(value[size], 0x5a); /* the byte behind it is unchanged */
    value[size] = 0;
    assert_true(tsr__load64(value) == fills[i].bits);
  }
}

/* For values in ascending order: their keys ascend, give the values back, and are the same one by one and all at
 * once. */
#define CHECK_ORDER(datatype, type, ...)                                                                               \
  do {                                                                                                                 \
    const type values[] = {__VA_ARGS__};                                                                               \
    uint64_t count = sizeof values / sizeof *values, keys[32];                                                         \
    tsr__keys(datatype, values, count, keys);                                                                          \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type back;                                                                                                       \
      assert_true(keys[i] == tsr__key(datatype, &values[i]));                                                          \
      if (i) assert_true(keys[i - 1] < keys[i]);                                                                       \
      tsr__key_value(datatype, keys[i], &back);                                                                        \
      assert_memory_equal(&back, &values[i], sizeof back);                                                             \
    }                                                                                                                  \
    assert_true(keys[0] == tsr__key_min(datatype) && keys[count - 1] == tsr__key_max(datatype));                       \
  } while (0)

static void test_keys_sort_as_their_values(void **state) {
  CHECK_ORDER(TSR_INT8, int8_t, INT8_MIN, -1, 0, 1, INT8_MAX);
  CHECK_ORDER(TSR_INT16, int16_t, INT16_MIN, -300, -1, 0, 1, 256, INT16_MAX);
  CHECK_ORDER(TSR_INT32, int32_t, INT32_MIN, -1, 0, 1, INT32_MAX);
  CHECK_ORDER(TSR_INT64, int64_t, INT64_MIN, INT32_MIN, -1, 0, 1, INT64_MAX);
  CHECK_ORDER(TSR_DATETIME_AS, int64_t, INT64_MIN, -1, 0, INT64_MAX);
  CHECK_ORDER(TSR_TIME_HR, int64_t, INT64_MIN, -1, 0, INT64_MAX);
  CHECK_ORDER(TSR_UINT8, uint8_t, 0, 1, 127, 128, UINT8_MAX);
  CHECK_ORDER(TSR_BOOL, uint8_t, 0, 1, UINT8_MAX);
  CHECK_ORDER(TSR_UINT16, uint16_t, 0, 1, 32768, UINT16_MAX);
  CHECK_ORDER(TSR_UINT32, uint32_t, 0, 1, 2147483648u, UINT32_MAX);
  CHECK_ORDER(TSR_UINT64, uint64_t, 0, 1, UINT64_C(1) << 63, UINT64_MAX);
  CHECK_ORDER(TSR_FLOAT32, float, -INFINITY, -3e38f, -1.5f, -1e-45f, 0.0f, 1e-45f, 1.0f, 1.5f, 3e38f, INFINITY);
  CHECK_ORDER(TSR_FLOAT64, double, -INFINITY, -1e308, -1.5, -5e-324, 0.0, 5e-324, 1.0, 1.5, 1e308, INFINITY);
}

static void test_differences_of_integer_keys_are_those_of_values(void **state) {
  const int8_t a = -100, b = 100;
  assert_true(tsr__key(TSR_INT8, &b) - tsr__key(TSR_INT8, &a) == 200);
  const int64_t c = INT64_MIN, d = INT64_MAX;
  assert_true(tsr__key(TSR_DATETIME_DAY, &d) - tsr__key(TSR_DATETIME_DAY, &c) == UINT64_MAX);
}

static void test_float_keys_order_zeros_infinities_and_nans(void **state) {
  const float zero32 = 0, minus32 = -0.0f, nan32 = NAN, negative_nan32 = -NAN;
  assert_true(tsr__key(TSR_FLOAT32, &zero32) == tsr__key(TSR_FLOAT32, &minus32));
  assert_true(tsr__key(TSR_FLOAT32, &nan32) == TSR_KEY_NAN && tsr__key(TSR_FLOAT32, &negative_nan32) == TSR_KEY_NAN);
  const double zero64 = 0, minus64 = -0.0, nan64 = NAN, negative_nan64 = -NAN;
  assert_true(tsr__key(TSR_FLOAT64, &zero64) == tsr__key(TSR_FLOAT64, &minus64));
  assert_true(tsr__key(TSR_FLOAT64, &nan64) == TSR_KEY_NAN && tsr__key(TSR_FLOAT64, &negative_nan64) == TSR_KEY_NAN);
  assert_true(TSR_KEY_NAN > tsr__key_max(TSR_FLOAT64) && TSR_KEY_NAN > tsr__key_max(TSR_FLOAT32));

  static const uint64_t not_floats[] = {TSR_KEY_NAN, 0};
  for (int i = 0; i < 2; i++) {
    float f = 0;
    double d = 0;
    tsr__key_value(TSR_FLOAT32, not_floats[i], &f);
    tsr__key_value(TSR_FLOAT64, not_floats[i], &d);
    assert_true(isnan(f) && isnan(d));
  }
  double hole = 1;
  tsr__key_value(TSR_FLOAT64, tsr__key(TSR_FLOAT64, &zero64) - 1, &hole);
  assert_memory_equal(&hole, &zero64, 8);
}

static void test_values_need_no_alignment(void **state) {
  uint8_t bytes[25] = {0};
  const int64_t values[] = {-5, 0, 7};
  memcpy(bytes + 1, values, sizeof values);
  uint64_t keys[3];
  tsr__keys(TSR_INT64, bytes + 1, 3, keys);
  for (int i = 0; i < 3; i++) assert_true(keys[i] == tsr__key(TSR_INT64, &values[i]));
  tsr__keys(TSR_INT64, NULL, 0, keys);
}

static void test_bytes_compare_as_unsigned(void **state) {
  assert_true(tsr__bytes_compare("a", 1, "b", 1) < 0);
  assert_true(tsr__bytes_compare("a", 1, "a\0", 2) < 0);
  assert_true(tsr__bytes_compare("\x80", 1, "a", 1) > 0);
  assert_true(tsr__bytes_compare(NULL, 0, "", 0) == 0);
  assert_true(tsr__bytes_compare("", 0, "\0", 1) < 0);
  assert_true(tsr__bytes_compare("abc", 3, "abc", 3) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_datatype_has_name_size_and_kind),
                                     cmocka_unit_test(test_only_some_datatypes_are_for_dimensions),
                                     cmocka_unit_test(test_fill_values_are_those_of_tiledb),
                                     cmocka_unit_test(test_keys_sort_as_their_values),
                                     cmocka_unit_test(test_differences_of_integer_keys_are_those_of_values),
                                     cmocka_unit_test(test_float_keys_order_zeros_infinities_and_nans),
                                     cmocka_unit_test(test_values_need_no_alignment),
                                     cmocka_unit_test(test_bytes_compare_as_unsigned)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
