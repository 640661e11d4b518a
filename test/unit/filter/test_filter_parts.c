/* test_filter_parts.c: the list of part sizes that several filters share. */

#include <stdlib.h>

#include "filter/pipeline.h"
#include "filter_harness.h"

static int reverse(unsigned width, const uint8_t *in, uint64_t size, uint8_t *out, tsr_error *error) {
  if (size == 5) return tsr__fail(error, TSR_CORRUPT, "five");
  for (uint64_t i = 0; i < size; i++) out[i] = in[size - 1 - i];
  return TSR_OK;
}

static int decode(const tsr_filter_context *context, tsr_input *metadata, tsr_input data, tsr_part *metadata_out,
                  tsr_part *data_out, tsr_error *error) {
  return tsr__parts_decode(context, reverse, metadata, data, data_out, error);
}

static int encode(const tsr_filter_context *context, const tsr_chunk *in, tsr_chunk *out, tsr_error *error) {
  return tsr__parts_encode(context, reverse, in, out, error);
}

static const tsr_filter_methods reverser = {
    .type = TSR_FILTER_XOR, .name = "reverse", .decode = decode, .encode = encode};

static void test_parts_are_transformed_one_by_one(void **state) {
  harness h;
  harness_open(&h, &reverser, TSR_UINT8);
  harness_stored(&h, "03000000030000000000000001000000", "03020104", "01020304");
  harness_stored(&h, "00000000", "", "");
  harness_sizes(&h, 1, 5);
  uint8_t bytes[] = {1, 2, 3, 4};
  tsr_part parts[3] = {{bytes, 1}, {bytes, 0}, {bytes + 1, 3}}, m = {0}, d = {0},
           sizes = harness_hex("03000000010000000000000003000000"), data = harness_hex("01040302");
  assert_int_equal(harness_encode(&h, &(tsr_chunk){.data = parts, .data_count = 3}, &m, &d), TSR_OK);
  harness_equal(m, sizes);
  harness_equal(d, data);
  free(m.data);
  free(d.data);
  free(sizes.data);
  free(data.data);
  harness_close(&h);
}

static void test_damage_is_refused(void **state) {
  static const char *const bad[] = {
      "", "010000", "ffffffff04000000", "01000000", "0100000003000000", "0100000005000000", "02000000ffffffff05000000"};
  harness h;
  harness_open(&h, &reverser, TSR_UINT8);
  tsr_part out = {0}, left = {0}, d = harness_hex("0102030405");
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    tsr_part m = harness_hex(bad[i]);
    d.size = i == 5 ? 5 : 4; /* the transform's own error */
    assert_int_equal(harness_decode(&h, m, d, d.size, false, &out, &left), TSR_CORRUPT);
    free(m.data);
  }
  free(d.data);
  harness_close(&h);
}

static void test_sizes_past_32_bits_are_too_big(void **state) {
  uint64_t size = 7;
  tsr_error error;
  uint8_t byte = 0; /* sizes are looked at, bytes are not */
  tsr_part parts[2] = {{&byte, UINT32_MAX}, {&byte, 0}};
  tsr_chunk chunk = {.data = parts, .data_count = 2};
  assert_int_equal(tsr__parts_size(&chunk, &size, &error), TSR_OK);
  assert_int_equal(size, UINT32_MAX);
  parts[1].size = 1;
  assert_int_equal(tsr__parts_size(&chunk, &size, &error), TSR_TOOBIG);
  parts[1].size = UINT64_MAX;
  assert_int_equal(tsr__parts_size(&chunk, &size, &error), TSR_TOOBIG);
  assert_int_equal(size, UINT32_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts_are_transformed_one_by_one),
                                     cmocka_unit_test(test_damage_is_refused),
                                     cmocka_unit_test(test_sizes_past_32_bits_are_too_big)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
