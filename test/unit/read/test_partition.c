/* test_partition.c: every selected cell of random arrays lies in exactly one partition; shares and limits; every
 * allocation may fail. */

#include <math.h>
#include <string.h>

#include "model/datatype.h"
#include "read/reader.h"
#include "made_array.h"

static bool lies_in(const made_array *m, const tsr_partition *p, const made_cell *c, bool text) {
  for (uint32_t d = 0; d < m->schema.dimension_count; d++) {
    const tsr_cut *cut = &p->cuts[d];
    if (d == 0 && text) {
      const uint64_t size = strlen(c->text);
      const int low = cut->has_low ? tsr__bytes_compare(c->text, size, cut->values.low_text, cut->values.low_size) : 1;
      if (low < 0 || (low == 0 && cut->low_after)) return false;
      if (cut->has_high && tsr__bytes_compare(c->text, size, cut->values.high_text, cut->values.high_size) > 0)
        return false;
      continue;
    }
    if (cut->has_low && c->at[d] < (int32_t)tsr__load32(cut->values.low)) return false;
    if (cut->has_high && c->at[d] > (int32_t)tsr__load32(cut->values.high)) return false;
  }
  return true;
}

/* Gives the fragments file sizes, as if their metadata had been read from files. */
static void give_sizes(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++) m->fragments[f].fragment->metadata.at.file_size = 100;
}

static uint64_t parts_made;

static void check(made_array *m, bool text, int32_t most) {
  static made_row rows[5000];
  tsr_error error = {0};
  for (unsigned round = 0; round < 10; round++) {
    made_request request;
    tsr_reader *reader;
    tsr_partitions *parts;
    made_random_request(&request, m->schema.dimension_count, text, 0, most);
    const tsr_ranges *dimensions = made_random(2) ? request.dimensions : NULL;
    const uint64_t count = 1 + made_random(9);
    assert_int_equal(tsr_reader_open(&m->snapshot, &reader, &error), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, &(tsr_request){.dimensions = dimensions}, &error), TSR_OK);
    const int64_t n = made_read(reader, m, rows, 5000, &error);
    assert_true(n >= 0);
    tsr_reader_close(reader);
    assert_int_equal(tsr_partitions_open(&m->snapshot, dimensions, count, &parts, &error), TSR_OK);
    assert_true(parts->count <= count);
    uint64_t cells = 0;
    for (uint64_t i = 0; i < parts->count; i++) cells += parts->partitions[i].cells;
    if (m->schema.dense) assert_int_equal(cells, n);
    for (int64_t i = 0; i < n; i++) {
      unsigned in = 0;
      for (uint64_t p = 0; p < parts->count; p++) in += lies_in(m, &parts->partitions[p], &rows[i].cell, text);
      assert_int_equal(in, 1);
    }
    parts_made += parts->count;
    tsr_partitions_close(parts);
  }
}

static void test_dense_cells_lie_in_one_partition(void **state) {
  (void)state;
  parts_made = 0;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    made_random_dense(&m, 24, made_value);
    give_sizes(&m);
    check(&m, false, 23);
    made_close(&m);
  }
  assert_true(parts_made > 1000);
}

static void make_sparse(made_array *m, bool text) {
  made_open(m, false, 2, text, 0, 63, NULL);
  m->schema.capacity = 4;
  made_random_sparse(m, text, 6);
  give_sizes(m);
}

static void test_sparse_cells_lie_in_one_partition(void **state) {
  (void)state;
  parts_made = 0;
  for (unsigned round = 0; round < 100; round++) {
    made_array m;
    const bool text = round % 2;
    make_sparse(&m, text);
    check(&m, text, 29);
    made_close(&m);
  }
  assert_true(parts_made > 2000);
}

/* Also if the tiles were not written in the order of their coordinates. */
static void test_parts_are_even(void **state) {
  made_array m;
  tsr_error error = {0};
  made_open(&m, false, 2, false, 0, 63, NULL);
  m.schema.capacity = 4;
  for (int f = 0; f < 16; f++) { /* tiles at 0, 60, 4, 56, 8 and so on */
    made_cell cells[4];
    const int32_t low = 4 * (f % 2 ? 15 - f / 2 : f / 2);
    for (int i = 0; i < 4; i++) cells[i] = (made_cell){.at = {low + i, 7}, .value = i};
    made_sparse(&m, (uint64_t)f + 1, (uint64_t)f + 1, cells, 4, false, false);
  }
  give_sizes(&m);
  for (uint64_t count = 1; count <= 16; count *= 2) {
    tsr_partitions *parts;
    assert_int_equal(tsr_partitions_open(&m.snapshot, NULL, count, &parts, &error), TSR_OK);
    assert_int_equal(parts->count, count);
    for (uint64_t i = 0; i < count; i++) assert_int_equal(parts->partitions[i].cells, 64 / count);
    tsr_partitions_close(parts);
  }
  made_close(&m);
}

static void test_counts_and_empty_arrays(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_partitions *parts;
  made_open(&m, false, 1, false, 0, 9, NULL); /* empty */
  assert_int_equal(tsr_partitions_open(&m.snapshot, NULL, 5, &parts, &error), TSR_OK);
  assert_int_equal(parts->count, 0);
  tsr_partitions_close(parts);
  assert_int_equal(tsr_partitions_open(&m.snapshot, NULL, 0, &parts, &error), TSR_RANGE);
  const made_cell cell = {.value = 1};
  made_sparse(&m, 1, 1, &cell, 1, false, false);
  give_sizes(&m);
  assert_int_equal(tsr_partitions_open(&m.snapshot, NULL, UINT64_MAX, &parts, &error), TSR_OK);
  assert_int_equal(parts->count, 1);
  assert_false(parts->partitions[0].cuts[0].has_low || parts->partitions[0].cuts[0].has_high);
  tsr_partitions_close(parts);
  tsr_partitions_close(NULL);
  made_close(&m);
}

/* A damaged schema claims more cells than 64 bits can count. */
static void test_more_cells_than_64_bits_count(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_partitions *parts;
  make_sparse(&m, false);
  m.schema.capacity = UINT64_MAX;
  assert_int_equal(tsr_partitions_open(&m.snapshot, NULL, 1, &parts, &error), TSR_OK);
  assert_int_equal(parts->count, 1);
  assert_true(parts->partitions[0].cells == UINT64_MAX);
  tsr_partitions_close(parts);
  made_close(&m);
}

static void test_every_allocation_may_fail(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_partitions *parts;
  int code = TSR_NOMEM;
  make_sparse(&m, true);
  long allocations = 0;
  for (; code == TSR_NOMEM; allocations++) {
    m.memory.left = allocations;
    code = tsr_partitions_open(&m.snapshot, NULL, 7, &parts, &error);
    m.memory.left = -1;
  }
  assert_int_equal(code, TSR_OK);
  assert_true(allocations > 3);
  tsr_partitions_close(parts);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dense_cells_lie_in_one_partition),
                                     cmocka_unit_test(test_sparse_cells_lie_in_one_partition),
                                     cmocka_unit_test(test_parts_are_even),
                                     cmocka_unit_test(test_counts_and_empty_arrays),
                                     cmocka_unit_test(test_more_cells_than_64_bits_count),
                                     cmocka_unit_test(test_every_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
