/* test_requests.c: requests of callers that were compiled with a newer or an older header: fields that this library does
 * not know are refused unless they are 0, and fields that an older structure lacks are 0. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "small_array.h"

/* Calls `start`, a statement that sets `code`, with a request that has one more field: first 0, then 1. */
#define CHECK_NEWER(type, known_fields, start)                                                                         \
  do {                                                                                                                 \
    struct {                                                                                                           \
      type known;                                                                                                      \
      uint64_t unknown;                                                                                                \
    } newer = {known_fields, 0};                                                                                       \
    const type *request = &newer.known;                                                                                \
    int code;                                                                                                          \
    newer.known.size = sizeof newer;                                                                                   \
    start;                                                                                                             \
    ok(code);                                                                                                          \
    newer.unknown = 1;                                                                                                 \
    start;                                                                                                             \
    assert_int_equal(code, TSR_UNSUPPORTED);                                                                           \
    assert_non_null(strstr(error.message, #type " has "));                                                             \
    newer.known.size = 1;                                                                                              \
    start;                                                                                                             \
    assert_int_equal(code, TSR_RANGE);                                                                                 \
  } while (0)

#define KNOWN(...)                                                                                                     \
  { __VA_ARGS__ }

static tsr_array *array;
static tsr_snapshot *snapshot;

static int open_array(void **state) {
  setup(state);
  array = make_small(TSR_FORMAT_WRITE_MAX, true, false);
  write_small(array, 1, 0, 99, NULL);
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  return 0;
}

static int close_array(void **state) {
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  return teardown(state);
}

static void test_fields_of_a_newer_request_must_be_zero(void **state) {
  const uint64_t factor = 10;
  const bool fields[3] = {false, true, false};
  tsr_interval box = {.high = {99}};
  tsr_estimate estimate;
  tsr_reader *reader;
  ok(tsr_reader_open(snapshot, &reader, &error));
  CHECK_NEWER(tsr_request, KNOWN(0), code = tsr_request_estimate(snapshot, request, &estimate, &error));
  CHECK_NEWER(tsr_request, KNOWN(0), code = tsr_reader_start(reader, request, &error));
  tsr_reader_close(reader);
  CHECK_NEWER(tsr_aggregate_request, KNOWN(.field = 1), {
    tsr_aggregate *aggregate = NULL;
    code = tsr_aggregate_open(snapshot, request, &aggregate, &error);
    tsr_aggregate_close(aggregate);
  });
  CHECK_NEWER(tsr_regrid_request, KNOWN(.factors = &factor, .method = TSR_REGRID_SUM, .fields = fields), {
    tsr_regrid *regrid = NULL;
    code = tsr_regrid_open(snapshot, request, &regrid, &error);
    tsr_regrid_close(regrid);
  });
  CHECK_NEWER(tsr_query, KNOWN(0), {
    tsr_query_run *run = NULL;
    code = tsr_query_start(snapshot, request, &run, &error);
    tsr_query_close(run);
  });
  CHECK_NEWER(tsr_downsample_request, KNOWN(.box = &box, .field = 1, .height = 1, .width = 1), {
    tsr_downsample *downsample = NULL;
    code = tsr_downsample_open(snapshot, request, &downsample, &error);
    tsr_downsample_close(downsample);
  });
}

/* The older request is on the heap, so that AddressSanitizer sees a read past its end. */
static void test_fields_that_an_older_request_lacks_are_zero(void **state) {
  const size_t size = offsetof(tsr_request, times);
  const bool fields[3] = {true, true, false};
  const tsr_batch *batch;
  tsr_request *older = calloc(1, size);
  tsr_reader *reader;
  uint64_t rows = 0;
  int code;
  memcpy(older, &size, sizeof size);
  memcpy((char *)older + offsetof(tsr_request, fields), &(const bool *){fields}, sizeof(bool *));
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, older, &error));
  while ((code = tsr_reader_next(reader, &batch, &error)) > 0) rows += batch->count;
  ok(code);
  assert_int_equal(rows, 100);
  tsr_reader_close(reader);
  free(older);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fields_of_a_newer_request_must_be_zero),
      cmocka_unit_test(test_fields_that_an_older_request_lacks_are_zero),
  };
  return cmocka_run_group_tests(tests, open_array, close_array);
}
