/* test_filter_delta.c: delta, double delta and positive delta, against what TileDB 2.30 stored. */

#include <stdlib.h>

#include "base/arithmetic.h"
#include "filter/filter.h"
#include "filter_harness.h"

static void test_delta_matches_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_delta, TSR_INT32);
  harness_same(&h, "00000000010000001000000018000000", "040000000000000005000000feffffff6100000095ffffff",
               "050000000300000064000000f9ffffff");
  /* behind MD5, whose metadata went through it too */
  tsr_part m = harness_hex("010000000100000020000000280000000800000010000000"),
           d = harness_hex(
               "0800000000000000000000000100000007000000f8ffffff07c4c56e776b1d7225ce45498cf05e8402000000000000"
               "0005000000feffffff"),
           data = harness_hex("0500000003000000"), out = {0}, left = {0};
  assert_int_equal(harness_decode(&h, m, d, 40, true, &out, &left), TSR_OK);
  harness_equal(out, data);
  assert_int_equal(left.size, 32);
  assert_int_equal(tsr__load32(left.data + 4), 1); /* one data checksum, over 8 bytes */
  assert_int_equal(tsr__load64(left.data + 8), 8);
  tsr_part md = {0}, dd = {0};
  assert_int_equal(harness_encode(&h, &(tsr_chunk){&left, 1, &data, 1}, &md, &dd), TSR_OK);
  harness_equal(md, m);
  harness_equal(dd, d);
  tsr_part *all[] = {&m, &d, &data, &out, &left, &md, &dd};
  for (unsigned i = 0; i < 7; i++) free(all[i]->data);
  harness_close(&h);
  harness_open(&h, &tsr__filter_delta, TSR_INT8);
  harness_same(&h, "0000000001000000040000000c000000", "04000000000000007f018001", "7f800001");
  harness_close(&h);
}

/* TileDB 2.16 wrote one value too many. Two more values, or a part of one, are damage. */
static void test_delta_accepts_one_value_too_many(void **state) {
  static const struct {
    const char *metadata, *data;
    int code;
  } cases[] = {{"00000000010000000800000014000000", "020000000000000005000000feffffff07000000", TSR_OK},
               {"00000000010000000800000018000000", "020000000000000005000000feffffff0700000007000000", TSR_CORRUPT},
               {"00000000010000000800000012000000", "020000000000000005000000feffffff0700", TSR_CORRUPT},
               {"00000000010000000800000014000000", "030000000000000005000000feffffff07000000", TSR_CORRUPT}};
  harness h;
  harness_open(&h, &tsr__filter_delta, TSR_INT32);
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_part m = harness_hex(cases[i].metadata), d = harness_hex(cases[i].data), out = {0}, left = {0};
    tsr_part data = harness_hex("0500000003000000");
    assert_int_equal(harness_decode(&h, m, d, 8, false, &out, &left), cases[i].code);
    if (cases[i].code == TSR_OK) harness_equal(out, data);
    tsr_part *all[] = {&m, &d, &data, &out, &left};
    for (unsigned k = 0; k < 5; k++) free(all[k]->data);
  }
  harness_close(&h);
}

static void test_delta_of_all_datatypes(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT8, TSR_UINT16, TSR_INT32, TSR_UINT64, TSR_DATETIME_DAY, TSR_UTF16};
  static const unsigned widths[] = {1, 2, 4, 8, 8, 1};
  harness h;
  for (unsigned i = 0; i < 6; i++) {
    harness_open(&h, &tsr__filter_delta, datatypes[i]);
    harness_sizes(&h, widths[i], 40);
    harness_close(&h);
    harness_open(&h, &tsr__filter_double_delta, datatypes[i]);
    harness_sizes(&h, widths[i], 40);
    harness_close(&h);
  }
}

static void test_delta_refuses_floats_and_rests(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_delta, TSR_FLOAT64);
  tsr_part m = {0}, d = {0}, out = {0}, left = {0}, bytes = harness_hex("0500000003000000");
  tsr_chunk chunk = {.data = &bytes, .data_count = 1};
  assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_CONSTRAINT);
  h.filter.reinterpret = TSR_INT32; /* floats taken for integers */
  harness_round_trip(&h, &chunk);
  bytes.size = 7; /* no whole values */
  assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_CONSTRAINT);
  /* a count past the end, a part that should give 3 bytes of 4-byte values */
  m = harness_hex("0000000001000000040000000c000000");
  d = harness_hex("ffffffffffffffff05000000");
  assert_int_equal(harness_decode(&h, m, d, 4, false, &out, &left), TSR_CORRUPT);
  free(m.data);
  free(d.data);
  m = harness_hex("0000000001000000030000000b000000");
  d = harness_hex("0000000000000000050000");
  assert_int_equal(harness_decode(&h, m, d, 3, false, &out, &left), TSR_CORRUPT);
  h.filter.reinterpret = TSR_FLOAT32;
  assert_int_equal(harness_decode(&h, m, d, 3, false, &out, &left), TSR_CORRUPT);
  free(m.data);
  free(d.data);
  free(bytes.data);
  harness_close(&h);
}

/* Packed values give whole values: bytes behind the last one would not be set. */
static void test_double_delta_refuses_rests(void **state) {
  tsr_part m = harness_hex("00000000010000001b00000019000000"),
           d = harness_hex("0706000000000000000a0000001400000000000000c9068201"), out = {0}, left = {0};
  harness h;
  harness_open(&h, &tsr__filter_double_delta, TSR_INT32);
  assert_int_equal(harness_decode(&h, m, d, 27, false, &out, &left), TSR_CORRUPT);
  free(m.data);
  free(d.data);
  harness_close(&h);
}

/* TileDB cannot read chunks with an empty part, which it writes itself, but it can read a chunk without parts. */
static void test_chunks_without_parts_are_decoded(void **state) {
  const tsr_filter_methods *methods[] = {&tsr__filter_delta, &tsr__filter_double_delta};
  for (unsigned i = 0; i < 2; i++) {
    harness h;
    harness_open(&h, methods[i], TSR_INT32);
    harness_same(&h, "0000000000000000", "", "");
    harness_close(&h);
  }
}

static void test_double_delta_matches_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_double_delta, TSR_INT32);
  harness_same(&h, "00000000010000001800000019000000", "0706000000000000000a0000001400000000000000c9068201",
               "0a000000140000001f0000002800000037000000fdffffff");
  harness_close(&h);
  harness_open(&h, &tsr__filter_double_delta, TSR_UINT8); /* 9 bits: as they are */
  harness_same(&h, "0000000001000000050000000e000000", "09050000000000000000c80aff03", "00c80aff03");
  harness_close(&h);
  harness_open(&h, &tsr__filter_double_delta, TSR_INT64); /* one value, two values */
  harness_same(&h, "00000000010000000800000011000000", "000100000000000000f7ffffffffffffff", "f7ffffffffffffff");
  harness_same(&h, "00000000010000001000000019000000", "000200000000000000f7ffffffffffffff0000000000000040",
               "f7ffffffffffffff0000000000000040");
  harness_close(&h);
  harness_open(&h, &tsr__filter_double_delta, TSR_INT16); /* fields across words */
  harness_same(&h, "00000000010000001800000025000000",
               "0d0c000000000000000000e803000080fbf8bbe0ae449f7197d95d7c000000000000000000",
               "0000e80318fc0700080009000a00d00730f8010001000100");
  harness_close(&h);
  harness_open(&h, &tsr__filter_double_delta, TSR_UINT64);
  harness_same(&h, "00000000010000002000000021000000",
               "03040000000000000000000000000000800500000000000080000000000000009d",
               "0000000000000080050000000000008009000000000000800800000000000080");
  harness_close(&h);
}

/* Data are stored unchanged if a difference overflows 64 bits, or if the size is no multiple of a value's. */
static void test_double_delta_keeps_what_does_not_fit(void **state) {
  const uint64_t values[] = {UINT64_MAX, 0, UINT64_MAX, 0, 77};
  tsr_part m = {0}, d = {0}, part = {(uint8_t *)(uintptr_t)values, sizeof values};
  tsr_chunk chunk = {.data = &part, .data_count = 1};
  harness h;
  harness_open(&h, &tsr__filter_double_delta, TSR_UINT64);
  harness_round_trip(&h, &chunk);
  for (part.size = 1; part.size < 25; part.size++) harness_round_trip(&h, &chunk);
  part.size = 21;
  assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_OK);
  assert_int_equal(d.size, 9 + 21);
  assert_int_equal(d.data[0], 63);
  assert_int_equal(tsr__load64(d.data + 1), 2);
  free(m.data);
  free(d.data);
  harness_close(&h);
}

/* Every number of bits, and each place in a word where a field can begin. */
static void test_double_delta_of_every_number_of_bits(void **state) {
  int64_t values[70];
  for (unsigned bits = 1; bits < 63; bits++) {
    uint64_t random = bits * 2654435761u + 1, top = (uint64_t)1 << (bits - 1), change = top;
    for (unsigned i = 0; i < 70; i++) { /* 0 0 c c 0 0 c' c'...: steps 0 c 0 -c, changes c -c -c c */
      if (i % 4 == 0 && i > 0) change = next_random(&random) & (2 * top - 1);
      values[i] = i % 4 < 2 ? 0 : (int64_t)change;
    }
    tsr_part m = {0}, d = {0}, part = {(uint8_t *)values, sizeof values};
    tsr_chunk chunk = {.data = &part, .data_count = 1};
    harness h;
    harness_open(&h, &tsr__filter_double_delta, TSR_INT64);
    harness_round_trip(&h, &chunk);
    assert_int_equal(harness_encode(&h, &chunk, &m, &d), TSR_OK);
    assert_int_equal(d.data[0], bits);
    assert_int_equal(d.size, 9 + 16 + (68 * (bits + 1) + 63) / 64 * 8);
    free(m.data);
    free(d.data);
    harness_close(&h);
  }
}

static void test_positive_delta_matches_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_positive_delta, TSR_UINT16);
  h.filter.window = 8;
  harness_same(&h, "02000000010008000000e80304000000", "000001000200000000000300", "0100020004000400e803eb03");
  harness_close(&h);
  harness_open(&h, &tsr__filter_positive_delta, TSR_INT32);
  h.filter.window = 1024;
  harness_same(&h, "01000000fbffffff10000000", "00000000000000000500000070110100", "fbfffffffbffffff0000000070110100");
  harness_same(&h, "00000000", "", "");
  /* 11 bytes behind another filter: kept as they are for every first value of the window */
  harness_stored(&h, "01000000030609080b000000", "000306090c0f1215181b1e", "000306090c0f1215181b1e");
  harness_close(&h);
}

static void test_positive_delta_of_all_sizes(void **state) {
  static const tsr_datatype datatypes[] = {TSR_INT8, TSR_BOOL, TSR_BLOB, TSR_UINT16, TSR_INT32, TSR_INT64, TSR_TIME_NS};
  static const uint32_t windows[] = {0, 1, 7, 16, 100, 1024, UINT32_MAX};
  for (unsigned i = 0; i < 7; i++)
    for (unsigned w = 0; w < 7; w++) {
      harness h;
      harness_open(&h, &tsr__filter_positive_delta, datatypes[i]);
      h.filter.window = windows[w];
      harness_sizes(&h, (unsigned)tsr_datatype_size(datatypes[i]), 30); /* steps down too */
      harness_sizes(&h, 1, 40); /* and sizes that are no whole values */
      harness_close(&h);
    }
}

/* The filter passes the bytes and the metadata of these types unchanged. */
static void test_positive_delta_passes_other_datatypes(void **state) {
  static const tsr_datatype datatypes[] = {TSR_CHAR, TSR_ASCII,       TSR_UTF8,   TSR_FLOAT32,
                                           TSR_ANY,  TSR_DATETIME_MS, TSR_TIME_AS};
  for (unsigned i = 0; i < 7; i++) {
    harness h;
    harness_open(&h, &tsr__filter_positive_delta, datatypes[i]);
    h.filter.window = 1024;
    harness_passes_before_20(&h, i < 5 ? 2 : 2 + 4 + 12);
    harness_close(&h);
  }
}

static void test_positive_delta_checks_its_windows(void **state) {
  static const struct {
    const char *metadata, *data;
  } bad[] = {{"02000000010008000000e80304000000", "0000010002000000000003"}, /* a byte less than the windows say */
             {"02000000010008000000e80304000000", "00000100020000000000030000"},
             {"ffffffff010008000000e80304000000", "000001000200000000000300"},
             {"0200000001000c000000e8030c000000", "000001000200000000000300"},
             {"00000000", "000001000200000000000300"}};
  harness h;
  harness_open(&h, &tsr__filter_positive_delta, TSR_UINT16);
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_part m = harness_hex(bad[i].metadata), d = harness_hex(bad[i].data), out = {0}, left = {0};
    assert_int_equal(harness_decode(&h, m, d, d.size, false, &out, &left), TSR_CORRUPT);
    free(m.data);
    free(d.data);
  }
  harness_close(&h);
}

static void test_no_memory_past_the_budget(void **state) {
  const tsr_filter_methods *methods[] = {&tsr__filter_delta, &tsr__filter_double_delta, &tsr__filter_positive_delta};
  for (unsigned i = 0; i < 3; i++) harness_out_of_budget(methods[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_delta_matches_tiledb),
      cmocka_unit_test(test_delta_of_all_datatypes),
      cmocka_unit_test(test_delta_accepts_one_value_too_many),
      cmocka_unit_test(test_delta_refuses_floats_and_rests),
      cmocka_unit_test(test_double_delta_refuses_rests),
      cmocka_unit_test(test_chunks_without_parts_are_decoded),
      cmocka_unit_test(test_double_delta_matches_tiledb),
      cmocka_unit_test(test_double_delta_keeps_what_does_not_fit),
      cmocka_unit_test(test_double_delta_of_every_number_of_bits),
      cmocka_unit_test(test_positive_delta_matches_tiledb),
      cmocka_unit_test(test_positive_delta_of_all_sizes),
      cmocka_unit_test(test_positive_delta_passes_other_datatypes),
      cmocka_unit_test(test_positive_delta_checks_its_windows),
      cmocka_unit_test(test_no_memory_past_the_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
