/* test_filter_aes.c: encrypted tiles, written by TileDB 2.30. */

#include <stdlib.h>

#include "crypto/crypto.h"
#include "filter_test.h"

static const uint8_t *const key = (const uint8_t *)"0123456789abcdeF0123456789abcdeF";

#define PLAIN_PIPELINE "0000010000000000"
#define ZSTD_PIPELINE  "0000010001000000020500000002ffffffff"
#define AES_PIPELINE   "00000100010000000b00000000"
#define PLAIN_TILE                                                                                                     \
  "010000000000000006000000060000002c00000000000000010000000600000006000000ad1cda361e4eb377a11dd3c26b590a74e0b38c30"   \
  "3cbfd53e6c716111e62f66272afd"
#define PLAIN_BYTES "010000020102"

static void test_a_key_alone_decrypts(void **state) {
  check_tile(PLAIN_PIPELINE, TSR_UINT8, 22, key, PLAIN_TILE, PLAIN_BYTES, false);
}

/* Generic tiles name AES in their pipeline. It runs only once nevertheless. */
static void test_aes_in_the_pipeline_runs_once(void **state) {
  check_tile(AES_PIPELINE, TSR_UINT8, 22, key, PLAIN_TILE, PLAIN_BYTES, false);
}

static void test_metadata_of_earlier_filters_is_encrypted(void **state) {
  check_tile(ZSTD_PIPELINE, TSR_INT32, 22, key,
             "010000000000000018000000310000005000000001000000010000001000000010000000"
             "1144ac98d19205c30f062d3bfa505347f2092993b4ff012e8c8e0b572100000021000000"
             "5dd70fb509e908437f4e641db15d806249d2d3f28eb8e39e910f8c6a4a51bc22de5725f9"
             "9990cc76911a31a19d6a5d9d3db74661ee454ecc3a486dee34c56d61cda97e92e9a8293d91d4459b4b",
             "0a0000000c0000000d0000000e0000001100000019000000", false);
}

static void expect_refused(const char *pipeline, const uint8_t *with, int code) {
  bench b;
  bench_open(&b, pipeline, TSR_UINT8, 22);
  b.shape.key = with;
  bytes tile = unhex(PLAIN_TILE), expected = unhex(PLAIN_BYTES);
  assert_int_equal(bench_decode(&b, tile.data, tile.size, expected, NULL, 0), code);
  free(tile.data);
  free(expected.data);
  bench_close(&b);
}

static void test_a_wrong_key_is_an_auth_error(void **state) {
  expect_refused(PLAIN_PIPELINE, (const uint8_t *)"0123456789abcdeF0123456789abcdeG", TSR_AUTH);
  expect_refused(AES_PIPELINE, NULL, TSR_AUTH);
  expect_refused(PLAIN_PIPELINE, NULL, TSR_CORRUPT);
}

/* Two encryptions of the same bytes have different IVs and results. */
static void test_each_encryption_has_a_fresh_iv(void **state) {
  bench b;
  bench_open(&b, PLAIN_PIPELINE, TSR_UINT8, 22);
  b.shape.key = key;
  bytes in = unhex(PLAIN_BYTES), first, second;
  assert_int_equal(bench_encode(&b, in, NULL, 0, &first), TSR_OK);
  assert_int_equal(bench_encode(&b, in, NULL, 0, &second), TSR_OK);
  assert_int_equal(first.size, second.size);
  assert_memory_not_equal(first.data + 36, second.data + 36, TSR_IV_SIZE);
  assert_memory_not_equal(first.data + first.size - in.size, second.data + second.size - in.size, in.size);
  free(in.data);
  free(first.data);
  free(second.data);
  bench_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_key_alone_decrypts),
      cmocka_unit_test(test_aes_in_the_pipeline_runs_once),
      cmocka_unit_test(test_metadata_of_earlier_filters_is_encrypted),
      cmocka_unit_test(test_a_wrong_key_is_an_auth_error),
      cmocka_unit_test(test_each_encryption_has_a_fresh_iv),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
