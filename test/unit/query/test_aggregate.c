/* test_aggregate.c: aggregates of random dense and sparse arrays over random boxes and groups, with statistics and
 * without, are compared with the rows of the same read. Statistics that must not be believed are not used; budgets
 * hold; every allocation may fail. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "read/reader.h"
#include "made_array.h"

#define ROWS_MAX 5000

static bool lie; /* the statistics are wrong on purpose: a wrong result shows that they were used */

static void give_statistics(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++) {
    uint64_t *sums;
    const tsr_statistics *s = made_statistics(m, m->fragments[f].fragment, &sums);
    for (uint64_t t = 0; t < s->count && lie; t++) sums[t] += 1000000;
  }
}

typedef struct expected {
  made_cell key;
  uint64_t count, nulls;
  int64_t sum;
  int32_t min, max;
} expected;

static uint32_t by[TSR_BY_MAX], by_count;
static bool by_text;

static int compare_keys(const void *a, const void *b) {
  const made_cell *x = a, *y = b;
  for (uint32_t k = 0; k < by_count; k++) {
    const int c = by_text && by[k] == 0 ? strcmp(x->text, y->text)
                                        : (x->at[by[k]] > y->at[by[k]]) - (x->at[by[k]] < y->at[by[k]]);
    if (c) return c;
  }
  return 0;
}

static int compare_rows(const void *a, const void *b) {
  return compare_keys(&((const made_row *)a)->cell, &((const made_row *)b)->cell);
}

static void check_key(const tsr_aggregate_row *row, const made_cell *key) {
  for (uint32_t k = 0; k < by_count; k++) {
    if (by_text && by[k] == 0) {
      assert_int_equal(row->key_sizes[k], strlen(key->text));
      assert_memory_equal(row->keys[k], key->text, strlen(key->text));
    } else {
      assert_int_equal(row->key_sizes[k], 4);
      assert_int_equal((int32_t)tsr__load32(row->keys[k]), key->at[by[k]]);
    }
  }
}

/* Returns true if the result is that of the cells. */
static bool check(made_array *m, const tsr_ranges *dimensions, bool read_all) {
  static made_row rows[ROWS_MAX];
  static expected groups[ROWS_MAX];
  tsr_error error = {0};
  tsr_reader *reader;
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, &error), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, &(tsr_request){.dimensions = dimensions}, &error), TSR_OK);
  const int64_t n = made_read(reader, m, rows, ROWS_MAX, &error);
  assert_true(n >= 0);
  tsr_reader_close(reader);
  qsort(rows, (size_t)n, sizeof *rows, compare_rows);
  uint64_t count = by_count == 0;
  groups[0] = (expected){.min = INT32_MAX, .max = INT32_MIN};
  for (int64_t i = 0; i < n; i++) {
    if (count == 0 || compare_keys(&groups[count - 1].key, &rows[i].cell) != 0)
      groups[count++] = (expected){.key = rows[i].cell, .min = INT32_MAX, .max = INT32_MIN};
    expected *e = &groups[count - 1];
    const int32_t v = rows[i].cell.value;
    if (!rows[i].written) {
      e->nulls++;
      continue;
    }
    e->count++;
    e->sum += v;
    e->min = TSR_MIN(e->min, v), e->max = TSR_MAX(e->max, v);
  }
  tsr_aggregate *aggregate;
  const tsr_aggregate_request ask = {.dimensions = dimensions,
                                     .field = m->schema.dimension_count,
                                     .by = by,
                                     .by_count = by_count,
                                     .read_all = read_all,
                                     .threads = 1 + made_random(3)};
  assert_int_equal(tsr_aggregate_open(&m->snapshot, &ask, &aggregate, &error), TSR_OK);
  assert_int_equal(tsr_aggregate_count(aggregate), count);
  bool same = true;
  for (uint64_t g = 0; g < count; g++) {
    tsr_aggregate_row row;
    tsr_aggregate_get(aggregate, g, &row);
    assert_int_equal(row.count, groups[g].count);
    assert_int_equal(row.nulls, groups[g].nulls);
    assert_true(row.fits);
    same &= row.sum == groups[g].sum && row.real_sum == (double)groups[g].sum;
    check_key(&row, &groups[g].key);
    if (row.count == 0) continue;
    assert_int_equal((int32_t)tsr__load32(row.min), groups[g].min);
    assert_int_equal((int32_t)tsr__load32(row.max), groups[g].max);
  }
  tsr_aggregate_close(aggregate);
  return same;
}

/* Aggregates over random groups and boxes. Returns how many results were those of wrong statistics. */
static unsigned check_some(made_array *m, bool text, int32_t most) {
  unsigned lies = 0;
  for (unsigned round = 0; round < 12; round++) {
    made_request request;
    made_random_request(&request, m->schema.dimension_count, text, 0, most);
    by_text = text;
    by_count = made_random(3);
    by[0] = made_random(m->schema.dimension_count), by[1] = made_random(m->schema.dimension_count);
    const bool read_all = made_random(3) == 0;
    const bool same = check(m, made_random(2) ? request.dimensions : NULL, read_all);
    assert_true(same || (lie && !read_all));
    lies += !same;
  }
  return lies;
}

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)(start * 100 + ordinals[0] * 20 + ordinals[1]) - 300;
}

static unsigned check_dense(unsigned rounds) {
  unsigned lies = 0;
  for (unsigned round = 0; round < rounds; round++) {
    made_array m;
    made_random_dense(&m, 24, value_of);
    give_statistics(&m);
    lies += check_some(&m, false, 23);
    made_close(&m);
  }
  return lies;
}

static unsigned check_sparse(unsigned rounds) {
  unsigned lies = 0;
  for (unsigned round = 0; round < rounds; round++) {
    made_array m;
    tsr_interval domain[2] = {0};
    const bool text = made_random(2);
    made_open(&m, false, 2, text, 0, 63, NULL);
    m.schema.capacity = 4;
    m.schema.allows_duplicates = round % 4 == 3;
    made_random_sparse(&m, text, 6);
    made_set32(domain[0].high, 63);
    made_set32(domain[1].high,
               made_random(2) ? 63
                              : 2); /* a non-empty domain that lacks cells: the aggregate notices it and reads again */
    m.snapshot.domain.intervals = domain;
    m.snapshot.domain.exists = made_random(3) > 0;
    give_statistics(&m);
    lies += check_some(&m, text, 29);
    made_close(&m);
  }
  return lies;
}

static void test_dense_aggregates_equal_their_rows(void **state) {
  (void)state;
  lie = false;
  assert_int_equal(check_dense(80), 0);
  lie = true; /* the statistics are used, so results are wrong */
  assert_true(check_dense(20) > 20);
}

/* Dense tiles in which many consecutive cells belong to one group, in fragments that cover the array and that do
 * not. */
static void test_stretches_of_one_group(void **state) {
  (void)state;
  lie = false;
  for (unsigned round = 0; round < 30; round++) {
    made_array m;
    const bool turned = round % 2;
    const int32_t narrow = 1 + (int32_t)made_random(9), wide = 16 + (int32_t)made_random(45);
    const int32_t extents[2] = {turned ? wide : narrow, turned ? narrow : wide};
    made_open(&m, true, 2, false, 0, 59, extents);
    m.schema.cell_order = m.schema.tile_order = turned ? TSR_ORDER_COL : TSR_ORDER_ROW;
    m.chunk = 8 * made_random(5);
    made_finish_grid(&m);
    for (uint64_t f = 0, fragments = 1 + made_random(2); f < fragments; f++) {
      uint64_t low[2] = {0}, high[2] = {59, 59};
      for (uint32_t d = 0; d < 2 && round % 3; d++) {
        low[d] = made_random(20);
        high[d] = 40 + made_random(20);
      }
      made_dense(&m, f + 1, low, high, value_of);
    }
    made_finish_dense(&m);
    give_statistics(&m);
    check_some(&m, false, 59);
    made_close(&m);
  }
}

static void test_sparse_aggregates_equal_their_rows(void **state) {
  (void)state;
  lie = false;
  assert_int_equal(check_sparse(120), 0);
  lie = true;
  assert_true(check_sparse(40) > 20);
}

/* One sparse fragment with one tile: statistics are used as long as they are complete and consistent, and only then. */
static void test_only_complete_statistics_are_used(void **state) {
  (void)state;
  made_array m;
  const made_cell cells[3] = {{.at = {1}, .value = 7}, {.at = {2}, .value = 8}, {.at = {2}, .value = 9}};
  made_open(&m, false, 1, false, 0, 9, NULL);
  m.schema.allows_duplicates = true;
  tsr_fragment *fragment = made_sparse(&m, 1, 1, cells, 3, false, false);
  lie = true;
  give_statistics(&m);
  tsr_statistics *s = fragment->metadata.slots[0].statistics;
  const tsr_statistics whole = *s;
  by_count = 0;
  assert_false(check(&m, NULL, false));
  assert_true(check(&m, NULL, true));
  s->sums = NULL;
  assert_true(check(&m, NULL, false));
  *s = whole;
  s->min = NULL;
  assert_true(check(&m, NULL, false));
  *s = whole;
  s->min = whole.max, s->max = whole.min; /* minimum above maximum */
  assert_true(check(&m, NULL, false));
  *s = whole;
  m.fields[1].nullable = true; /* without a null count */
  assert_true(check(&m, NULL, false));
  const uint64_t nulls = 4; /* more nulls than cells */
  s->null_counts = &nulls;
  assert_true(check(&m, NULL, false));
  m.fields[1].nullable = false;
  *s = whole;
  fragment->metadata.version = 10;
  assert_true(check(&m, NULL, false));
  fragment->metadata.version = 22;
  m.fragments[0].cut = true;
  assert_true(check(&m, NULL, false));
  m.fragments[0].cut = false;
  by_count = 1, by[0] = 0, by_text = false; /* two groups in the tile */
  assert_true(check(&m, NULL, false));
  by_count = 0;
  const int32_t two = 2;
  const tsr_range range = {.low = &two};
  assert_true(check(&m, &(tsr_ranges){.ranges = &range, .count = 1}, false)); /* only a part of the tile */
  made_close(&m);
}

static void test_empty_array_has_no_groups(void **state) {
  (void)state;
  made_array m;
  tsr_aggregate *aggregate;
  tsr_aggregate_row row;
  made_open(&m, false, 1, false, 0, 9, NULL);
  tsr_aggregate_request ask = {.field = 1, .by = by};
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, NULL), TSR_OK);
  assert_int_equal(tsr_aggregate_count(aggregate), 1);
  tsr_aggregate_get(aggregate, 0, &row);
  assert_int_equal(row.count + row.nulls, 0);
  assert_true(row.real_sum == 0 && row.sum == 0 && row.fits);
  tsr_aggregate_close(aggregate);
  ask.by_count = 1;
  by[0] = 0;
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, NULL), TSR_OK);
  assert_int_equal(tsr_aggregate_count(aggregate), 0);
  tsr_aggregate_close(aggregate);
  tsr_aggregate_close(NULL);
  made_close(&m);
}

static void test_wrong_requests_are_refused(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_aggregate *aggregate = NULL;
  made_open(&m, false, 1, true, 0, 9, NULL);
  const uint32_t wrong[4] = {1, 0, 0, 0};
  tsr_aggregate_request ask = {.field = 2}; /* a string */
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error), TSR_ERROR);
  ask.field = 3;
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error), TSR_ERROR);
  ask = (tsr_aggregate_request){.field = 1, .by = wrong, .by_count = 1}; /* an attribute */
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error), TSR_ERROR);
  ask.by_count = 4;
  assert_int_equal(tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error), TSR_ERROR);
  assert_null(aggregate);
  made_close(&m);
}

/* More groups than the budget has room for are TSR_BUDGET; then each allocation fails in turn. */
static void test_budget_and_failing_allocations(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_aggregate *aggregate;
  made_cell cells[400];
  for (int i = 0; i < 400; i++) {
    cells[i] = (made_cell){.value = i};
    snprintf(cells[i].text, sizeof cells[i].text, "%c%c%c", 'a' + i / 100, 'a' + i / 10 % 10, 'a' + i % 10);
  }
  made_open(&m, false, 1, true, 0, 9, NULL);
  m.schema.capacity = 20;
  made_sparse(&m, 1, 1, cells, 400, false, false);
  by[0] = 0;
  tsr_aggregate_request ask = {.field = 1, .by = by, .by_count = 1, .memory_bytes = 60000, .threads = 1};
  if (tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error) != TSR_BUDGET) fail_msg("%s", error.message);
  assert_non_null(strstr(error.message, "memory_mb"));
  ask.memory_bytes = 0;
  int code = TSR_NOMEM;
  long allocations = 0;
  for (; code == TSR_NOMEM; allocations++) {
    m.memory.left = allocations;
    code = tsr_aggregate_open(&m.snapshot, &ask, &aggregate, &error);
    m.memory.left = -1;
  }
  assert_int_equal(code, TSR_OK);
  assert_true(allocations > 10);
  assert_int_equal(tsr_aggregate_count(aggregate), 400);
  tsr_aggregate_close(aggregate);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense_aggregates_equal_their_rows),
      cmocka_unit_test(test_sparse_aggregates_equal_their_rows),
      cmocka_unit_test(test_only_complete_statistics_are_used),
      cmocka_unit_test(test_empty_array_has_no_groups),
      cmocka_unit_test(test_wrong_requests_are_refused),
      cmocka_unit_test(test_budget_and_failing_allocations),
      cmocka_unit_test(test_stretches_of_one_group),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
