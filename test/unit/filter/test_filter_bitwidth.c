/* test_filter_bitwidth.c: bit width reduction, against what TileDB 2.30 stored. */

#include <stdlib.h>
#include <string.h>

#include "filter/filter.h"
#include "filter_harness.h"

static void open(harness *h, tsr_datatype datatype, uint32_t window) {
  harness_open(h, &tsr__filter_bit_width_reduction, datatype);
  h->filter.window = window;
}

static void test_tiles_match_those_of_tiledb(void **state) {
  harness h;
  open(&h, TSR_INT32, 16); /* windows of 8 bits, of 32 as they are, of 8 */
  harness_same(&h, "2400000003000000e80300000810000000fbffffff2010000000090000000804000000",
               "00010502fbffffff70110100030000000400000000",
               "e8030000e9030000ed030000ea030000fbffffff70110100030000000400000009000000");
  harness_close(&h);
  open(&h, TSR_INT16, 256); /* a range of 126 fits 8 signed bits, 127 does not */
  harness_same(&h, "0600000001000000d4fe0806000000", "00647e", "d4fe38ff52ff");
  harness_same(&h, "0600000001000000d4fe1006000000", "d4fe38ff53ff", "d4fe38ff53ff");
  harness_close(&h);
  open(&h, TSR_UINT32, 256); /* 254 fits 8 unsigned bits, 255 does not */
  harness_same(&h, "0800000001000000070000000808000000", "00fe", "0700000005010000");
  harness_same(&h, "0800000001000000070000001008000000", "0000ff00", "0700000006010000");
  harness_same(&h, "0000000000000000", "", "");
  harness_close(&h);
  open(&h, TSR_DATETIME_SEC, 256);
  harness_same(&h, "100000000100000000ca9a3b000000000810000000", "0001", "00ca9a3b0000000001ca9a3b00000000");
  harness_close(&h);
}

/* Behind another filter the last window may have a part of a value. It is stored unchanged for every value of `bits`. */
static void test_a_rest_of_a_value_is_kept(void **state) {
  harness h;
  open(&h, TSR_INT32, 256);
  harness_stored(&h, "0700000001000000e80300000807000000", "01020304050607", "01020304050607");
  tsr_part m = {0}, d = {0}, bytes = harness_hex("0102030405060708090a0b");
  tsr_chunk chunk = {.data = &bytes, .data_count = 1};
  for (; bytes.size > 0; bytes.size--) harness_round_trip(&h, &chunk);
  bytes.size = 11;
  assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_OK);
  assert_int_equal(m.data[12], 32);
  harness_equal(d, bytes);
  free(m.data);
  free(d.data);
  free(bytes.data);
  harness_close(&h);
}

static void test_all_sizes_round_trip(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT16, TSR_UINT16, TSR_INT32, TSR_UINT32, TSR_INT64, TSR_UINT64};
  static const uint32_t windows[] = {0, 1, 7, 16, 100, 256, UINT32_MAX};
  for (unsigned i = 0; i < 6; i++)
    for (unsigned w = 0; w < 7; w++) {
      harness h;
      open(&h, datatypes[i], windows[w]);
      harness_sizes(&h, (unsigned)tsr_datatype_size(datatypes[i]), 40);
      harness_sizes(&h, 1, 40);
      harness_close(&h);
    }
}

/* For every range: the bits are those that TileDB chooses, and the values come back. */
static void test_all_ranges_get_the_bits_of_tiledb(void **state) {
  static const struct {
    tsr_datatype datatype;
    uint64_t range;
    unsigned bits;
  } cases[] = {{TSR_INT16, 126, 8},
               {TSR_INT16, 127, 16},
               {TSR_INT16, 65535, 16},
               {TSR_UINT16, 254, 8},
               {TSR_UINT16, 255, 16},
               {TSR_INT32, 32766, 16},
               {TSR_INT32, 32767, 32},
               {TSR_INT32, UINT32_MAX, 32},
               {TSR_UINT32, 65534, 16},
               {TSR_UINT32, 65535, 32},
               {TSR_INT64, 126, 8},
               {TSR_INT64, 32766, 16},
               {TSR_INT64, INT32_MAX - 1, 32},
               {TSR_INT64, INT32_MAX, 64},
               {TSR_INT64, UINT64_MAX, 64},
               {TSR_UINT64, UINT32_MAX - (uint64_t)1, 32},
               {TSR_UINT64, UINT32_MAX, 64},
               {TSR_UINT64, UINT64_MAX, 64}};
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t width = tsr_datatype_size(cases[i].datatype), bytes[4];
    bool is_signed = tsr_datatype_kind(cases[i].datatype) == TSR_KIND_SIGNED;
    uint64_t low = is_signed ? (uint64_t)1 << (8 * width - 1) : 0, high = low + cases[i].range;
    uint8_t *p = (uint8_t *)bytes;
    uint64_t values[4] = {low, high, low, high};
    for (unsigned v = 0; v < 4; v++) memcpy(p + v * width, &values[v], width);
    tsr_part m = {0}, d = {0}, part = {p, 4 * width};
    tsr_chunk chunk = {.data = &part, .data_count = 1};
    harness h;
    open(&h, cases[i].datatype, 256);
    harness_round_trip(&h, &chunk);
    assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_OK);
    assert_int_equal(m.data[8 + width], cases[i].bits);
    assert_int_equal(d.size, cases[i].bits / 2);
    free(m.data);
    free(d.data);
    harness_close(&h);
  }
}

static void test_other_datatypes_pass_unchanged(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT8,    TSR_UINT8, TSR_BOOL, TSR_BLOB,        TSR_UTF16,
                                           TSR_FLOAT64, TSR_CHAR,  TSR_ANY,  TSR_DATETIME_MS, TSR_TIME_AS};
  for (unsigned i = 0; i < 10; i++) {
    harness h;
    open(&h, datatypes[i], 256);
    harness_passes_before_20(&h, i < 8 ? 2 : 2 + 8 + 13);
    harness_close(&h);
  }
}

static void test_damage_is_refused(void **state) {
  static const struct {
    const char *metadata, *data;
  } bad[] = {{"0800000001000000070000000908000000", "00fe"}, /* 9 bits */
             {"0800000001000000070000000008000000", "00fe"}, /* no bits */
             {"0800000001000000070000000808000000", "00fe00"}, /* data left */
             {"0800000001000000070000000804000000", "00"}, /* output left */
             {"080000000100000007000000080c000000", "00fe00"}, /* more than the output */
             {"0800000001000000070000002008000000", "00fe"}, /* as they are, but fewer */
             {"08000000ffffffff070000000808000000", "00fe"}, /* windows */
             {"ffffffff01000000070000000808000000", "00fe"},   {"0700000001000000070000000808000000", "00fe"}};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    harness h;
    open(&h, TSR_UINT32, 256);
    tsr_part m = harness_hex(bad[i].metadata), d = harness_hex(bad[i].data), out = {0}, left = {0};
    assert_int_equal(harness_decode(&h, m, d, 8, false, &out, &left), TSR_CORRUPT);
    assert_int_equal(harness_decode(&h, m, d, 100, true, &out, &left), TSR_CORRUPT);
    free(m.data);
    free(d.data);
    harness_close(&h);
  }
}

static void test_no_memory_past_the_budget(void **state) {
  uint8_t bytes[8192] = {0};
  tsr_part m = {0}, d = {0}, part = {bytes, sizeof bytes};
  harness h;
  open(&h, TSR_INT32, 256);
  h.memory.limit = 4096;
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &part, .data_count = 1}, &m, &d), TSR_BUDGET);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_match_those_of_tiledb),    cmocka_unit_test(test_a_rest_of_a_value_is_kept),
      cmocka_unit_test(test_all_sizes_round_trip),           cmocka_unit_test(test_all_ranges_get_the_bits_of_tiledb),
      cmocka_unit_test(test_other_datatypes_pass_unchanged), cmocka_unit_test(test_damage_is_refused),
      cmocka_unit_test(test_no_memory_past_the_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
