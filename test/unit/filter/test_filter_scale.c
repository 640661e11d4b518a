/* test_filter_scale.c: scale_float, against what TileDB 2.30 stored and read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "filter/filter.h"
#include "filter/pipeline.h"
#include "filter_harness.h"

static void open(harness *h, tsr_datatype datatype, double scale, double offset, uint64_t byte_width) {
  harness_open(h, &tsr__filter_scale_float, datatype);
  h->filter.scale = scale;
  h->filter.offset = offset;
  h->filter.byte_width = byte_width;
}

/* Checks that `given` is encoded to these bytes, and that they are decoded to `read`. */
static void check(harness *h, const void *given, const void *read, uint64_t size, const char *metadata,
                  const char *data) {
  tsr_part part = {(uint8_t *)(uintptr_t)given, size}, expected[2] = {harness_hex(metadata), harness_hex(data)},
           m = {0}, d = {0}, out = {0}, left = {0};
  assert_int_equal(harness_encode(h, &(tsr_chunk){.data = &part, .data_count = 1}, &m, &d), TSR_OK);
  harness_equal(m, expected[0]);
  harness_equal(d, expected[1]);
  assert_int_equal(harness_decode(h, m, d, size, false, &out, &left), TSR_OK);
  assert_int_equal(out.size, size);
  assert_memory_equal(out.data, read, size);
  assert_int_equal(left.size, 0);
  free(out.data);
  free(left.data);
  harness_damage(h, m, d, size);
  free(m.data);
  free(d.data);
  free(expected[0].data);
  free(expected[1].data);
}

static void test_tiles_match_those_of_tiledb(void **state) {
  harness h;
  open(&h, TSR_FLOAT64, 0.25, 10.0, 2); /* halves go away from 0 */
  const double given[] = {10.0, 10.25, 10.754, 11.0001, 9.875, 9.874};
  const double read[] = {10.0, 10.25, 10.75, 11.0, 9.75, 9.75};
  check(&h, given, read, sizeof given, "010000000c000000", "0000010003000400ffffffff");
  check(&h, given, read, 0, "0100000000000000", "");
  harness_close(&h);
  open(&h, TSR_FLOAT32, 1.0, 0.5, 4); /* 24 bits are left of the integer */
  const float given4[] = {16777217.0f, 0.5f, -2.0f, 33554436.0f}, read4[] = {16777216.0f, 0.5f, -2.5f, 33554436.0f};
  check(&h, given4, read4, sizeof given4, "0100000010000000", "0000000100000000fdffffff04000002");
  harness_close(&h);
  open(&h, TSR_FLOAT32, 0.5, 0.0, 1);
  const float given1[] = {1.0f, -1.25f, 63.5f}, read1[] = {1.0f, -1.5f, 63.5f};
  check(&h, given1, read1, sizeof given1, "0100000003000000", "02fd7f");
  harness_close(&h);
}

/* A value out of the integer's range becomes the nearest integer, NaN the least. */
static void test_values_out_of_range_become_the_nearest(void **state) {
  static const struct {
    uint64_t width;
    int64_t low, high;
  } cases[] = {
      {1, INT8_MIN, INT8_MAX}, {2, INT16_MIN, INT16_MAX}, {4, INT32_MIN, INT32_MAX}, {8, INT64_MIN, INT64_MAX}};
  const double given[] = {INFINITY, 1e300,  -INFINITY, -1e300, NAN,    0.49999999999999994,
                          -0.5,     9.3e18, -9.3e18,   0x1p63, -0x1p63};
  for (unsigned i = 0; i < 4; i++) {
    int64_t low = cases[i].low, high = cases[i].high;
    const int64_t expected[] = {high, high, low, low, low, 0, -1, high, low, high, low};
    tsr_part part = {(uint8_t *)(uintptr_t)given, sizeof given}, m = {0}, d = {0}, out = {0}, left = {0};
    harness h;
    open(&h, TSR_FLOAT64, 1, 0, cases[i].width);
    assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &part, .data_count = 1}, &m, &d), TSR_OK);
    assert_int_equal(d.size, 11 * cases[i].width);
    for (unsigned v = 0; v < 11; v++) assert_memory_equal(d.data + v * cases[i].width, &expected[v], cases[i].width);
    assert_int_equal(harness_decode(&h, m, d, sizeof given, false, &out, &left), TSR_OK);
    double first;
    memcpy(&first, out.data, 8);
    assert_true(first == (double)high);
    free(m.data);
    free(d.data);
    free(out.data);
    free(left.data);
    harness_close(&h);
  }
}

/* All widths of both types, over sizes with whole vectors and with values left over. */
static void test_all_widths_round_trip(void **state) {
  for (uint64_t width = 1; width <= 8; width *= 2)
    for (unsigned wide = 0; wide < 2; wide++)
      for (unsigned count = 0; count < 40; count++) {
        double values[40];
        float small[40];
        for (unsigned i = 0; i < count; i++) values[i] = 1.5 + 0.25 * ((int)(i * 5) - 100), small[i] = (float)values[i];
        tsr_part part = {wide ? (uint8_t *)values : (uint8_t *)small, count * (wide ? sizeof(double) : sizeof(float))};
        tsr_part earlier = {(uint8_t *)small, 4};
        harness h;
        open(&h, wide ? TSR_FLOAT64 : TSR_FLOAT32, 0.25, 1.5, width);
        harness_round_trip(&h, &(tsr_chunk){&earlier, 1, &part, 1});
        harness_close(&h);
      }
}

static void test_several_parts_are_stored_in_reverse(void **state) {
  harness h;
  open(&h, TSR_FLOAT32, 1, 0, 2);
  float values[] = {1, 2, 3, 4, 5};
  tsr_part parts[3] = {{(uint8_t *)values, 8}, {(uint8_t *)(values + 2), 0}, {(uint8_t *)(values + 2), 12}}, m = {0},
           d = {0};
  tsr_part expected = harness_hex("01000000"
                                  "0a000000");
  harness_round_trip(&h, &(tsr_chunk){.data = parts, .data_count = 3});
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = parts, .data_count = 3}, &m, &d), TSR_OK);
  harness_equal(m, expected);
  free(m.data);
  free(d.data);
  free(expected.data);
  parts[2].size = 11; /* no whole values */
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = parts, .data_count = 3}, &m, &d), TSR_CONSTRAINT);
  /* two parts in the file: the later stands first */
  tsr_part out = {0}, left = {0};
  const float read[] = {3, 1, 2};
  m = harness_hex("020000000400000002000000");
  d = harness_hex("010002000300");
  assert_int_equal(harness_decode(&h, m, d, 12, false, &out, &left), TSR_OK);
  assert_memory_equal(out.data, read, 12);
  free(out.data);
  free(left.data);
  tsr__store32(m.data + 4, 3); /* no whole integers */
  tsr__store32(m.data + 8, 3);
  assert_int_equal(harness_decode(&h, m, d, 12, false, &out, &left), TSR_CORRUPT);
  free(m.data);
  free(d.data);
  harness_close(&h);
}

static void test_wrong_options_are_refused(void **state) {
  tsr_part m = harness_hex("0100000000000000"), d = {m.data, 0}, out = {0}, left = {0};
  static const tsr_datatype datatypes[] = {TSR_INT16, TSR_UINT8, TSR_FLOAT32, TSR_FLOAT64};
  static const uint64_t widths[] = {4, 4, 3, 0};
  for (unsigned i = 0; i < 4; i++) {
    harness h;
    open(&h, datatypes[i], 1, 0, widths[i]);
    assert_int_equal(harness_decode(&h, m, d, 0, false, &out, &left), TSR_CORRUPT);
    assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &d, .data_count = 1}, &out, &left), TSR_CONSTRAINT);
    harness_close(&h);
  }
  free(m.data);
}

/* Values that do not come back as the nearest value that the filter can store. */
static void test_fits_says_which_values_are_kept(void **state) {
  static const struct {
    double value;
    uint64_t width;
    bool fits;
  } cases[] = {{127.49, 1, true},
               {127.5, 1, false},
               {-128.49, 1, true},
               {-128.5, 1, false},
               {1e300, 8, false},
               {NAN, 8, false},
               {INFINITY, 4, false},
               {9.2e18, 8, true},
               {0x1p63, 8, false},
               {-0x1p63, 8, true},
               {-0x1.0000000000001p63, 8, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_filter filter = {.type = TSR_FILTER_SCALE_FLOAT, .scale = 1, .byte_width = cases[i].width};
    const float narrow = (float)cases[i].value;
    if (tsr__scale_fits(&filter, 8, &cases[i].value) != cases[i].fits) fail_msg("%g", cases[i].value);
    if (cases[i].width > 1 && cases[i].value != -0x1.0000000000001p63 &&
        tsr__scale_fits(&filter, 4, &narrow) != cases[i].fits)
      fail_msg("%g as FLOAT32", cases[i].value);
    filter.scale = -0.5;
    filter.offset = 3;
    const double moved = cases[i].value * -0.5 + 3;
    if (cases[i].width == 1 && tsr__scale_fits(&filter, 8, &moved) != cases[i].fits) fail_msg("%g moved", moved);
  }
}

static void test_no_memory_past_the_budget(void **state) {
  uint8_t bytes[8192] = {0};
  tsr_part m = {0}, d = {0}, part = {bytes, sizeof bytes};
  harness h;
  open(&h, TSR_FLOAT32, 1, 0, 4);
  h.memory.limit = 4096;
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &part, .data_count = 1}, &m, &d), TSR_BUDGET);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_match_those_of_tiledb),
      cmocka_unit_test(test_values_out_of_range_become_the_nearest),
      cmocka_unit_test(test_all_widths_round_trip),
      cmocka_unit_test(test_several_parts_are_stored_in_reverse),
      cmocka_unit_test(test_wrong_options_are_refused),
      cmocka_unit_test(test_no_memory_past_the_budget),
      cmocka_unit_test(test_fits_says_which_values_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
