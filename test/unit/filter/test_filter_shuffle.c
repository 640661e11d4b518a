/* test_filter_shuffle.c: byteshuffle and bitshuffle, against what TileDB 2.30 stored; each SIMD variant against plain
 * loops that define the layout. */

#include <stdlib.h>
#include <string.h>

#include "filter/filter.h"
#include "filter/shuffle.h"
#include "filter_harness.h"

static void test_byteshuffle_matches_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_byteshuffle, TSR_INT32);
  harness_same(&h, "0100000014000000", "0004080c100105090d1102060a0e1203070b0f13",
               "000102030405060708090a0b0c0d0e0f10111213");
  harness_same(&h, "0100000000000000", "", "");
  /* bytes behind the last value, and two parts */
  harness_stored(&h, "010000000a000000", "00040105020603070809", "00010203040506070809");
  harness_stored(&h, "02000000080000000a000000", "000401050206030700040105020603070809",
                 "000102030405060700010203040506070809");
  harness_close(&h);
  harness_open(&h, &tsr__filter_byteshuffle, TSR_INT64);
  harness_same(&h, "0100000018000000", "0008ff0109ff020aff030bff040cff050dff060eff070fff",
               "000102030405060708090a0b0c0d0e0fffffffffffffffff");
  harness_close(&h);
}

static void test_bitshuffle_matches_tiledb(void **state) {
  harness h;
  harness_open(&h, &tsr__filter_bitshuffle, TSR_UINT8);
  harness_same(&h, "020000000800000005000000", "0102040810204080ff01020304", "0102040810204080ff01020304");
  harness_same(&h, "0100000000000000", "", "");
  harness_close(&h);
  harness_open(&h, &tsr__filter_bitshuffle, TSR_INT32); /* 8 values, 2 behind them, 4 bytes as a part of their own */
  harness_same(&h, "020000002800000004000000",
               "5566788000000000000000000000000000000000000000000000000000000000090000000a0000000b000000",
               "0100000002000000030000000400000005000000060000000700000008000000090000000a0000000b000000");
  harness_close(&h);
  harness_open(&h, &tsr__filter_bitshuffle, TSR_INT64);
  harness_same(
      &h, "0100000048000000",
      "01000000000000020000000000000400000000000008000000000000100000000000002000000000000040000000000000800000"
      "0000000000000000000000000000000000000001",
      "01000000000000008000000000000000004000000000000000002000000000000000001000000000000000000800000000000000"
      "0004000000000000000002000000000000000001");
  harness_close(&h);
  harness_open(&h, &tsr__filter_bitshuffle, TSR_INT16);
  harness_same(&h, "0100000028000000",
               "00000000aaaaccccf0f0aa5566ccb49638e7c00700f8000000000000000000004006a40608076c07",
               "00006400c8002c019001f4015802bc0220038403e8034c04b00414057805dc054006a40608076c07");
  harness_close(&h);
}

static void test_all_sizes_round_trip(void **state) {
  static const tsr_datatype datatypes[] = {TSR_CHAR, TSR_UINT16, TSR_FLOAT32, TSR_DATETIME_MS};
  const tsr_filter_methods *methods[] = {&tsr__filter_byteshuffle, &tsr__filter_bitshuffle};
  for (unsigned m = 0; m < 2; m++)
    for (unsigned i = 0; i < 4; i++) {
      harness h;
      harness_open(&h, methods[m], datatypes[i]);
      harness_sizes(&h, (unsigned)tsr_datatype_size(datatypes[i]), 70);
      harness_sizes(&h, 1, 100); /* sizes that are no whole values */
      harness_close(&h);
    }
}

/* ---- The layouts, in the plainest words -------------------------------------------------------------------------- */

static void plain_bytes(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out) {
  uint64_t count = size / width;
  memcpy(out, in, size);
  for (uint64_t e = 0; e < count; e++)
    for (unsigned j = 0; j < width; j++) out[j * count + e] = in[e * width + j];
}

static void plain_bits(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out) {
  for (uint64_t at = 0; at < size; at += 8192) {
    uint64_t block = size - at < 8192 ? size - at : 8192, count = block / width / 8 * 8;
    memcpy(out + at, in + at, block);
    memset(out + at, 0, count * width);
    for (uint64_t e = 0; e < count; e++)
      for (unsigned bit = 0; bit < 8 * width; bit++)
        if (in[at + e * width + bit / 8] >> bit % 8 & 1) out[at + (bit * count + e) / 8] |= (uint8_t)(1 << e % 8);
  }
}

static void check_variants(const uint8_t *in, uint64_t size, unsigned width) {
  const tsr_shuffle_variant *variants[4];
  unsigned count = tsr__shuffle_variants(variants);
  tsr_part bytes = harness_copy(in, size), bits = harness_copy(in, size), out = harness_copy(in, size);
  plain_bytes(width, in, size, bytes.data);
  plain_bits(width, in, size, bits.data);
  for (unsigned t = 0; t < count; t++) {
    memset(out.data, 0xa5, size);
    tsr__byteshuffle(variants[t], width, in, size, out.data);
    assert_memory_equal(out.data, bytes.data, size);
    memset(out.data, 0xa5, size);
    tsr__byteunshuffle(variants[t], width, bytes.data, size, out.data);
    assert_memory_equal(out.data, in, size);
    memset(out.data, 0xa5, size);
    tsr__bitshuffle(variants[t], width, in, size, out.data);
    assert_memory_equal(out.data, bits.data, size);
    memset(out.data, 0xa5, size);
    tsr__bitunshuffle(variants[t], width, bits.data, size, out.data);
    assert_memory_equal(out.data, in, size);
  }
  free(bytes.data);
  free(bits.data);
  free(out.data);
}

static tsr_part random_bytes(uint64_t *random, uint64_t size) {
  tsr_part part = {malloc(size ? size : 1), size};
  for (uint64_t i = 0; i < size; i++) part.data[i] = (uint8_t)(next_random(random) >> 32);
  return part;
}

static void test_all_variants_agree_on_every_size(void **state) {
  uint64_t random = 88172645463325252u;
  for (unsigned width = 1; width <= 8; width *= 2)
    for (uint64_t size = 0; size <= 300; size++) {
      tsr_part part = random_bytes(&random, size);
      check_variants(part.data, size, width);
      free(part.data);
    }
}

static void test_all_variants_agree_on_large_parts(void **state) {
  uint64_t random = 1181783497276652981u;
  for (unsigned width = 1; width <= 8; width *= 2)
    for (unsigned i = 0; i < 20; i++) {
      uint64_t size = i < 4 ? 8191 + i : i < 8 ? 65532 + i : next_random(&random) % 100000;
      tsr_part part = random_bytes(&random, size + 1);
      check_variants(part.data + size % 2, size, width); /* unaligned too */
      free(part.data);
    }
}

static void test_no_memory_past_the_budget(void **state) {
  harness_out_of_budget(&tsr__filter_byteshuffle);
  harness_out_of_budget(&tsr__filter_bitshuffle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_byteshuffle_matches_tiledb),
      cmocka_unit_test(test_bitshuffle_matches_tiledb),
      cmocka_unit_test(test_all_sizes_round_trip),
      cmocka_unit_test(test_all_variants_agree_on_every_size),
      cmocka_unit_test(test_all_variants_agree_on_large_parts),
      cmocka_unit_test(test_no_memory_past_the_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
