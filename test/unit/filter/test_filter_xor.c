/* test_filter_xor.c: the xor filter, against what TileDB 2.30 stored. */

#include <stdlib.h>

#include "filter/filter.h"
#include "filter_harness.h"

static void test_tiles_match_those_of_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_xor, TSR_INT16);
  harness_same(&h, "0100000008000000", "01000200fcfff8ff", "01000300ffff0700");
  harness_same(&h, "0100000000000000", "", "");
  harness_close(&h);
  harness_open(&h, &tsr__filter_xor, TSR_FLOAT64);
  harness_same(&h, "0100000018000000", "000000000000f03f00000000000008000000000000000080",
               "000000000000f03f000000000000f83f000000000000f8bf");
  harness_close(&h);
  harness_open(&h, &tsr__filter_xor, TSR_CHAR); /* each part begins with an unchanged value */
  harness_stored(&h, "020000000300000002000000", "0103020507", "0102000502");
  harness_close(&h);
}

static void test_all_sizes_round_trip(void **state) {
  static const tsr_datatype datatypes[] = {TSR_BOOL, TSR_UTF16, TSR_FLOAT32, TSR_TIME_SEC};
  for (unsigned i = 0; i < 4; i++) {
    harness h;
    harness_open(&h, &tsr__filter_xor, datatypes[i]);
    harness_sizes(&h, (unsigned)tsr_datatype_size(datatypes[i]), 70);
    harness_close(&h);
  }
}

static void test_parts_must_hold_whole_values(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_xor, TSR_INT32);
  tsr_part m = harness_hex("0100000007000000"), d = harness_hex("01020304050607"), out = {0}, left = {0};
  assert_int_equal(harness_decode(&h, m, d, 7, false, &out, &left), TSR_CORRUPT);
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = &d, .data_count = 1}, &out, &left), TSR_CONSTRAINT);
  free(m.data);
  free(d.data);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles_match_those_of_tiledb),
                                     cmocka_unit_test(test_all_sizes_round_trip),
                                     cmocka_unit_test(test_parts_must_hold_whole_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
