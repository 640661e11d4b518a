/* test_bytes.c: the bounded, sticky reader (input.h) and checked arithmetic at their limits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/input.h"

static const uint8_t record[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                                 0x0d, 0x0e, 0x0f, 0,    0,    0,    0,    0,    0,    0xf8, 0xbf};

static void test_values_are_read_little_endian(void **state) {
  tsr_input in = tsr__input(record, sizeof record);
  assert_int_equal(tsr__input_u8(&in), 0x01);
  assert_memory_equal(tsr__input_take(&in, 2), record + 1, 2);
  assert_int_equal(tsr__input_u32(&in), 0x07060504);
  assert_int_equal(tsr__input_left(&in), 16);
  assert_true(tsr__input_u64(&in) == UINT64_C(0x0f0e0d0c0b0a0908));
  assert_true(tsr__input_f64(&in) == -1.5);
  assert_int_equal(tsr__input_left(&in), 0);
  assert_int_equal(tsr__input_check(&in, "record", NULL), TSR_OK);
}

/* Cut before each byte: the check fails, nothing is read past the end, all after the cut reads as 0. The copy has the
 * exact size, so that a sanitizer sees a byte too many. */
static void test_input_cut_before_any_byte_fails_the_check(void **state) {
  for (size_t size = 0; size < sizeof record; size++) {
    uint8_t *copy = malloc(size + (size == 0));
    memcpy(copy, record, size);
    tsr_input in = tsr__input(copy, size);
    uint8_t a = tsr__input_u8(&in);
    const uint8_t *b = tsr__input_take(&in, 2);
    uint32_t c = tsr__input_u32(&in);
    uint64_t d = tsr__input_u64(&in);
    double e = tsr__input_f64(&in);
    assert_int_equal(a, size >= 1 ? 0x01 : 0);
    assert_ptr_equal(b, size >= 3 ? copy + 1 : NULL);
    assert_int_equal(c, size >= 7 ? 0x07060504 : 0);
    assert_true(d == (size >= 15 ? UINT64_C(0x0f0e0d0c0b0a0908) : 0));
    assert_true(e == 0);
    tsr_error error = {0};
    assert_true(in.failed && in.at <= size);
    assert_int_equal(tsr__input_check(&in, "record", &error), TSR_CORRUPT);
    free(copy);
  }
}

static void test_all_reads_after_a_failure_return_zero(void **state) {
  tsr_input in = tsr__input(record, 5);
  (void)tsr__input_take(&in, 2);
  tsr__input_u32(&in); /* one byte more than is left */
  assert_true(in.failed);
  assert_int_equal(tsr__input_u8(&in), 0); /* because the reader has failed, although bytes are left */
  assert_null(tsr__input_take(&in, 0));
  assert_false(tsr__input_fits(&in, 0, 0));
  tsr_error error = {0};
  assert_int_equal(tsr__input_check(&in, "the header", &error), TSR_CORRUPT);
  assert_string_equal(error.message, "the header ends early: byte 2 of 5");
}

static void test_take_returns_borrowed_bytes_or_null(void **state) {
  tsr_input in = tsr__input(record, 4);
  assert_ptr_equal(tsr__input_take(&in, 3), record);
  assert_ptr_equal(tsr__input_take(&in, 0), record + 3);
  assert_null(tsr__input_take(&in, UINT64_MAX)); /* at + size would wrap */
  assert_true(in.failed);
  tsr_input empty = tsr__input(NULL, 0);
  assert_non_null(tsr__input_take(&empty, 0)); /* 0 bytes can be taken from an empty input */
  assert_int_equal(tsr__input_check(&empty, "x", NULL), TSR_OK);
  assert_null(tsr__input_take(&empty, 1));
}

static void test_fits_compares_count_times_size_with_the_bytes_left(void **state) {
  static const struct {
    uint64_t count, size;
    bool fits;
  } cases[] = {{0, 0, true},           {0, UINT64_MAX, true},  {UINT64_MAX, 0, true},
               {5, 4, true},           {20, 1, true},          {21, 1, false},
               {3, 7, false},          {UINT64_MAX, 1, false}, {UINT64_C(1) << 32, UINT64_C(1) << 32, false},
               {1, UINT64_MAX, false}, {6, 4, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_input in = tsr__input(record, sizeof record);
    tsr__input_take(&in, 3); /* 20 bytes are left */
    assert_int_equal(tsr__input_fits(&in, cases[i].count, cases[i].size), cases[i].fits);
    assert_int_equal(in.failed, !cases[i].fits);
    assert_int_equal(in.at, 3);
  }
}

static void test_checked_arithmetic_and_unaligned_loads(void **state) {
  uint64_t r = 0;
  assert_true(tsr__add(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
  assert_false(tsr__add(UINT64_MAX, 1, &r));
  assert_true(tsr__mul(UINT32_MAX, UINT32_MAX, &r));
  assert_false(tsr__mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &r));
  assert_true(tsr__add_sat(UINT64_MAX, 5) == UINT64_MAX && tsr__mul_sat(UINT64_MAX, 2) == UINT64_MAX);
  assert_true(tsr__add_sat(2, 5) == 7 && tsr__mul_sat(2, 5) == 10);
  uint8_t bytes[9] = {0};
  tsr__store64(bytes + 1, UINT64_C(0x1122334455667788));
  assert_true(tsr__load64(bytes + 1) == UINT64_C(0x1122334455667788) && bytes[1] == 0x88);
  tsr__store32(bytes + 1, 0xa1b2c3d4);
  assert_true(tsr__load32(bytes + 1) == 0xa1b2c3d4);
  assert_true(tsr__load16(bytes + 1) == 0xc3d4);
  for (unsigned width = 1; width <= 8; width *= 2) {
    uint64_t value = UINT64_C(0x8877665544332211) >> (64 - 8 * width);
    tsr__store_be(bytes + 1, width, value);
    assert_int_equal(bytes[1], 0x88);
    assert_true(tsr__load_be(bytes + 1, width) == value);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values_are_read_little_endian),
      cmocka_unit_test(test_input_cut_before_any_byte_fails_the_check),
      cmocka_unit_test(test_all_reads_after_a_failure_return_zero),
      cmocka_unit_test(test_take_returns_borrowed_bytes_or_null),
      cmocka_unit_test(test_fits_compares_count_times_size_with_the_bytes_left),
      cmocka_unit_test(test_checked_arithmetic_and_unaligned_loads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
