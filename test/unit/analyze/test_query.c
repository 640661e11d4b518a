/* test_query.c: queries over random dense and sparse arrays, with keys of both kinds, are compared with a plain loop over
 * the rows of the same read; the bits of the results do not depend on the number of threads; budgets hold; every
 * allocation may fail. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "read/reader.h"
#include "made_array.h"

#define ROWS_MAX  50000
#define TABLE_LOW (-2)
#define TABLE     210

static made_row rows[ROWS_MAX];
static int64_t row_count;
static made_array *array;
static uint32_t dimensions;
static bool fill;

/* ---- The query --------------------------------------------------------------------------------------------------- */

static uint32_t numbers[2][TABLE];
static tsr_query_key keys[3];
static uint32_t key_dimension[3]; /* of numbered keys; UINT32_MAX: a; UINT32_MAX - 1: s */
static uint32_t key_count;
static tsr_node field_a, field_s, field_x;

static tsr_expression one_node(const tsr_node *node) { return (tsr_expression){.nodes = node, .count = 1}; }

static void choose_keys(bool text) {
  key_count = made_random(4);
  for (uint32_t k = 0; k < key_count; k++) {
    const uint32_t d = made_random(dimensions), how = made_random(text && d == 0 ? 2 : 5), by = 1 + made_random(9);
    keys[k] = (tsr_query_key){0};
    key_dimension[k] = how == 0 ? UINT32_MAX : how == 1 ? UINT32_MAX - 1 : d;
    if (how < 2) {
      keys[k].expression = one_node(how == 0 ? &field_a : &field_s);
      continue;
    }
    keys[k].field = d;
    keys[k].low = TABLE_LOW;
    keys[k].count = TABLE;
    keys[k].numbers = numbers[k % 2];
    for (uint32_t i = 0; i < TABLE; i++) numbers[k % 2][i] = how == 2 ? i / by : how == 3 ? i % by : (i * 7) % TABLE;
    keys[k].number_count = TABLE;
  }
}

/* ---- What the rows give ------------------------------------------------------------------------------------------ */

typedef struct expected {
  made_cell key;
  int64_t values[3];
  bool nulls[3];
  char texts[3][8];
  uint64_t rows, count, texted, letters; /* letters: a bit for each different string */
  int64_t sum, min, max;
  double square;
  int32_t *list;
} expected;

static expected found[ROWS_MAX];

static bool a_is_null(const made_row *row) { return !row->written && !fill; }

/* The fill value of s is null. */
static bool s_is_null(const made_row *row) { return !row->written || made_null(row->cell.value); }

static void key_of(const made_row *row, expected *e) {
  memset(e, 0, sizeof *e);
  for (uint32_t k = 0; k < key_count; k++) {
    if (key_dimension[k] == UINT32_MAX) {
      e->nulls[k] = a_is_null(row);
      if (!e->nulls[k]) e->values[k] = row->cell.value;
    } else if (key_dimension[k] == UINT32_MAX - 1) {
      e->nulls[k] = s_is_null(row);
      if (!e->nulls[k]) e->values[k] = (int64_t)made_string(row->cell.value, e->texts[k]);
    } else {
      e->values[k] = keys[k].numbers[row->cell.at[key_dimension[k]] - TABLE_LOW];
    }
  }
}

static int compare_expected(const void *x, const void *y) {
  const expected *a = x, *b = y;
  for (uint32_t k = 0; k < key_count; k++) {
    if (a->nulls[k] != b->nulls[k]) return a->nulls[k] ? -1 : 1;
    if (key_dimension[k] == UINT32_MAX - 1) {
      const int c = tsr__bytes_compare(a->texts[k], (uint64_t)a->values[k], b->texts[k], (uint64_t)b->values[k]);
      if (c) return c;
    } else if (a->values[k] != b->values[k]) {
      return a->values[k] < b->values[k] ? -1 : 1;
    }
  }
  return 0;
}

static uint64_t letter_of(const made_row *row) {
  char text[8] = {0};
  const uint64_t size = made_string(row->cell.value, text);
  return UINT64_C(1) << (size == 0 ? 0 : (uint64_t)(text[0] - 'a') * 4 + size);
}

static uint64_t expect(void) {
  static expected each[ROWS_MAX];
  uint64_t count = 0;
  for (int64_t i = 0; i < row_count; i++) {
    key_of(&rows[i], &each[i]);
    each[i].rows = (uint64_t)i;
  }
  qsort(each, (size_t)row_count, sizeof *each, compare_expected);
  for (int64_t i = 0; i < row_count; i++) {
    const made_row *row = &rows[each[i].rows];
    if (count == 0 || compare_expected(&found[count - 1], &each[i]) != 0) {
      found[count] = each[i];
      found[count].rows = 0;
      found[count].min = INT64_MAX;
      found[count++].max = INT64_MIN;
    }
    expected *e = &found[count - 1];
    e->rows++;
    if (!s_is_null(row)) e->texted++, e->letters |= letter_of(row);
    if (a_is_null(row)) continue;
    e->count++;
    e->sum += row->cell.value;
    e->square += (double)row->cell.value * row->cell.value;
    e->min = TSR_MIN(e->min, row->cell.value);
    e->max = TSR_MAX(e->max, row->cell.value);
  }
  if (count == 0 && key_count == 0) found[count++] = (expected){0};
  return count;
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

enum { ROWS, COUNT, SUM, MIN, MAX, AVG, TEXTS, DIFFERENT, LETTERS, VARIANCE, MEDIAN, AGGREGATES };
static tsr_query_aggregate aggregates[AGGREGATES];

static void make_aggregates(void) {
  memset(aggregates, 0, sizeof aggregates);
  for (int i = COUNT; i < AGGREGATES; i++) {
    aggregates[i].has_argument = true;
    aggregates[i].argument = one_node(&field_a);
  }
  aggregates[SUM].function = TSR_AGGREGATE_SUM;
  aggregates[MIN].function = TSR_AGGREGATE_MIN;
  aggregates[MAX].function = TSR_AGGREGATE_MAX;
  aggregates[AVG].function = TSR_AGGREGATE_AVG;
  aggregates[TEXTS].argument = aggregates[LETTERS].argument = one_node(&field_s);
  aggregates[LETTERS].distinct = true;
  aggregates[DIFFERENT].distinct = true;
  aggregates[VARIANCE].function = TSR_AGGREGATE_VARIANCE;
  aggregates[MEDIAN].function = TSR_AGGREGATE_MEDIAN;
}

static int64_t integer_of(const tsr_query_run *run, uint64_t group, uint32_t aggregate) {
  tsr_value value;
  assert_int_equal(tsr_query_aggregate_value(run, group, aggregate, &value, NULL), TSR_OK);
  assert_int_equal(value.type, TSR_VALUE_INTEGER);
  return value.as.integer;
}

static void check_group(const tsr_query_run *run, uint64_t group, const expected *e, uint32_t count) {
  tsr_value value;
  for (uint32_t k = 0; k < key_count; k++) {
    tsr_query_key_value(run, group, k, &value);
    assert_int_equal(value.type == TSR_VALUE_NULL, e->nulls[k]);
    if (e->nulls[k]) continue;
    if (key_dimension[k] == UINT32_MAX - 1) {
      assert_int_equal(value.as.text.size, e->values[k]);
      assert_memory_equal(value.as.text.bytes, e->texts[k], value.as.text.size);
    } else {
      assert_int_equal(value.type, TSR_VALUE_INTEGER);
      assert_int_equal(value.as.integer, e->values[k]);
    }
  }
  assert_int_equal(integer_of(run, group, ROWS), e->rows);
  assert_int_equal(integer_of(run, group, COUNT), e->count);
  if (e->count > 0) {
    assert_int_equal(integer_of(run, group, SUM), e->sum);
    assert_int_equal(integer_of(run, group, MIN), e->min);
    assert_int_equal(integer_of(run, group, MAX), e->max);
    assert_int_equal(tsr_query_aggregate_value(run, group, AVG, &value, NULL), TSR_OK);
    assert_true(value.as.real == (double)e->sum / (double)e->count);
  }
  if (count <= TEXTS) return;
  assert_int_equal(integer_of(run, group, TEXTS), e->texted);
  if (count <= LETTERS) return;
  assert_int_equal(integer_of(run, group, LETTERS), __builtin_popcountll(e->letters));
  if (e->count < 2) return;
  const double mean = (double)e->sum / (double)e->count;
  const double variance = (e->square - mean * (double)e->sum) / (double)(e->count - 1);
  assert_int_equal(tsr_query_aggregate_value(run, group, VARIANCE, &value, NULL), TSR_OK);
  assert_true(fabs(value.as.real - variance) <= 1e-6 * (1 + fabs(variance) + mean * mean));
  assert_int_equal(tsr_query_aggregate_value(run, group, MEDIAN, &value, NULL), TSR_OK);
  assert_true(value.as.real >= (double)e->min && value.as.real <= (double)e->max);
}

static tsr_query_run *open_query(const tsr_query *query) {
  tsr_query_run *run;
  tsr_error error = {0};
  if (tsr_query_open(&array->snapshot, query, &run, &error) != TSR_OK) fail_msg("%s", error.message);
  return run;
}

static void check_query(const tsr_ranges *asked) {
  tsr_error error = {0};
  tsr_reader *reader;
  const tsr_request request = {.dimensions = asked, .fill_unwritten = fill};
  assert_int_equal(tsr_reader_open(&array->snapshot, &reader, &error), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, &request, &error), TSR_OK);
  row_count = made_read(reader, array, rows, ROWS_MAX, &error);
  assert_true(row_count >= 0);
  tsr_reader_close(reader);
  const uint64_t count = expect();
  const uint32_t some[3] = {TEXTS, LETTERS, AGGREGATES};
  tsr_query query = {.dimensions = asked, .fill_unwritten = fill, .key_count = key_count, .keys = keys};
  query.aggregates = aggregates;
  query.aggregate_count = some[made_random(3)];
  query.threads = 1 + made_random(3);
  tsr_query_run *run = open_query(&query);
  assert_int_equal(tsr_query_groups(run), count);
  for (uint64_t g = 0; g < count; g++) check_group(run, g, &found[g], query.aggregate_count);
  tsr_query_close(run);
}

static void begin(made_array *m) {
  array = m;
  dimensions = m->schema.dimension_count;
  field_x = (tsr_node){.operation = TSR_OP_FIELD, .field = 0};
  field_a = (tsr_node){.operation = TSR_OP_FIELD, .field = dimensions};
  field_s = (tsr_node){.operation = TSR_OP_FIELD, .field = dimensions + 1};
  make_aggregates();
}

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)((start * 100 + ordinals[0] * 20 + ordinals[1]) % 1000) - 300;
}

static void test_dense_queries_equal_their_rows(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    made_random_dense(&m, 24, value_of);
    begin(&m);
    for (unsigned i = 0; i < 8; i++) {
      made_request request;
      made_random_request(&request, 2, false, 0, 23);
      fill = made_random(2);
      choose_keys(false);
      check_query(made_random(2) ? request.dimensions : NULL);
    }
    made_close(&m);
  }
}

static void test_sparse_queries_equal_their_rows(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60; round++) {
    made_array m;
    const bool text = made_random(2);
    made_open(&m, false, 2, text, 0, 63, NULL);
    m.schema.capacity = 4;
    m.schema.allows_duplicates = round % 4 == 3;
    made_random_sparse(&m, text, 6);
    begin(&m);
    for (unsigned i = 0; i < 8; i++) {
      made_request request;
      made_random_request(&request, 2, text, 0, 29);
      choose_keys(text);
      check_query(made_random(2) ? request.dimensions : NULL);
    }
    made_close(&m);
  }
}

/* A tile with several parts, whose groups are apart, or not, with short and long runs. */
static void test_large_tiles(void **state) {
  (void)state;
  for (unsigned round = 0; round < 12; round++) {
    made_array m;
    const int32_t extents[2] = {round % 2 ? 200 : 130, round % 3 ? 200 : 70};
    const uint64_t low[2] = {0, round == 5}, high[2] = {199, 199};
    made_open(&m, true, 2, false, 0, 199, extents);
    m.schema.cell_order = m.schema.tile_order = round % 4 == 3 ? TSR_ORDER_COL : TSR_ORDER_ROW;
    made_finish_grid(&m);
    made_dense(&m, 1, low, high, value_of);
    made_finish_dense(&m);
    begin(&m);
    for (unsigned i = 0; i < 6; i++) {
      fill = false;
      choose_keys(false);
      check_query(NULL);
    }
    made_close(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense_queries_equal_their_rows),
      cmocka_unit_test(test_sparse_queries_equal_their_rows),
      cmocka_unit_test(test_large_tiles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
