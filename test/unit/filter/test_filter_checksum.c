/* test_filter_checksum.c: MD5 and SHA-256, alone and around compressors; tiles written by TileDB 2.30. */

#include <stdlib.h>
#include <string.h>

#include "filter_test.h"

static void test_md5_matches_tiledb(void **state) {
  check_tile("00000100010000000c00000000", TSR_INT8, 22, NULL,
             "010000000000000016000000160000002000000000000000010000001600000000000000e33e36ef9dc8330492ef666b079e7862"
             "35807f7f36b52358b5577f7f817e7fb48180f2bd8180",
             "35807f7f36b52358b5577f7f817e7fb48180f2bd8180", false);
}

static void test_sha256_matches_tiledb(void **state) {
  check_tile("00000100010000000d00000000", TSR_INT8, 22, NULL,
             "010000000000000021000000210000003000000000000000010000002100000000000000942f0567b903207ecc96855c2ba17ab4"
             "f02dbad6c30677e65623a86f9a650520e4802e7f81607f80817e7e7e8181807e81807e7f7e6bed7f80800b227e817fce7f",
             "e4802e7f81607f80817e7e7e8181807e81807e7f7e6bed7f80800b227e817fce7f", false);
}

static void test_checksum_behind_zstd(void **state) {
  check_tile("0000010002000000020500000002ffffffff0c00000000", TSR_INT8, 22, NULL,
             "0100000000000000130000001c0000004800000001000000010000001000000000000000110ae7c0be1da162dfd45ccdef0eb518"
             "1c00000000000000d61792abb7d374c94b2496af16c024ad0000000001000000130000001c00000028b52ffd20139900000f816c"
             "e64b817f788081817ff57e807f802605",
             "0f816ce64b817f788081817ff57e807f802605", false);
}

static void test_checksums_around_zstd(void **state) {
  check_tile("00000100030000000c00000000020500000002ffffffff0d00000000", TSR_INT8, 22, NULL,
             "010000000000000015000000470000007000000001000000010000001800000000000000d8f9295f504e9abd34ecec17a12f3ffb"
             "bca33f76277a78dcbd927e196e7f0c184700000000000000550aa36b07048a4530ead621286f5ef36db7afef0c3dfb9306dc8a73"
             "c17cc6ad01000000010000002000000029000000150000001e00000028b52ffd2020010100000000000100000015000000000000"
             "0024e01ba1835c25f68e6442ce28d458a728b52ffd2015a90000877f4d807f802f7f807f0bf6806380817f817f7f81",
             "877f4d807f802f7f807f0bf6806380817f817f7f81", false);
}

static void test_a_wrong_digest_is_named(void **state) {
  bench b;
  bench_open(&b, "00000100010000000c00000000", TSR_INT8, 22);
  bytes tile =
      unhex("010000000000000016000000160000002000000000000000010000001600000000000000e33e36ef9dc8330492ef666b07"
            "9e786235807f7f36b52358b5577f7f817e7fb48180f2bd8181");
  bytes expected = {calloc(22, 1), 22};
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), TSR_CORRUPT);
  assert_string_equal(b.error.message, "chunk 0: filter md5: the MD5 checksum of the data does not match");
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

/* Without parts nothing is checked, so there must be no data either. */
static void test_a_checksum_of_no_parts_allows_no_data(void **state) {
  bench b;
  bench_open(&b, "00000100010000000d00000000", TSR_UINT8, 22);
  bytes tile = unhex("0100000000000000010000000100000008000000000000000000000041"), expected = copy_bytes("A", 1);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), TSR_CORRUPT);
  assert_non_null(strstr(b.error.message, "1 bytes of the data have no checksum"));
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_md5_matches_tiledb),      cmocka_unit_test(test_sha256_matches_tiledb),
      cmocka_unit_test(test_checksum_behind_zstd),    cmocka_unit_test(test_checksums_around_zstd),
      cmocka_unit_test(test_a_wrong_digest_is_named), cmocka_unit_test(test_a_checksum_of_no_parts_allows_no_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
