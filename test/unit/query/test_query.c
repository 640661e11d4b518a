/* test_query.c: queries over random dense and sparse arrays, with keys of both kinds, are compared with a plain loop over
 * the rows of the same read, with statistics of tiles and without; the bits of the results do not depend on the number
 * of threads; budgets hold; every allocation may fail. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "read/reader.h"
#include "chance.h"
#include "made_array.h"

#define ROWS_MAX  50000
#define TABLE_LOW (-2)
#define TABLE     210

static made_row rows[ROWS_MAX];
static int64_t row_count;
static made_array *array;
static uint32_t dimensions;
static bool fill;
static bool lie; /* the sums of the statistics are wrong on purpose: a wrong result shows that they were used */
static unsigned lies; /* wrong sums in results */

/* ---- The query --------------------------------------------------------------------------------------------------- */

static uint32_t numbers[2][TABLE];
static tsr_query_key keys[3];
static uint32_t key_dimension[3]; /* of numbered keys; UINT32_MAX: a; UINT32_MAX - 1: s */
static uint32_t key_count;
static tsr_node field_a, field_s, coordinate[2];
static tsr_node over[3]; /* a > threshold */
static const uint32_t first_two[2] = {0, 1};
static int32_t threshold;

static void choose_threshold(void) {
  threshold = (int32_t)made_random(500) - 250;
  over[0] = field_a;
  over[1] = (tsr_node){.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_INTEGER, .as.integer = threshold}};
  over[2] = (tsr_node){.operation = TSR_OP_GREATER, .operands = first_two, .operand_count = 2};
}

static const tsr_expression above = {.nodes = over, .count = 3};

static tsr_expression one_node(const tsr_node *node) { return (tsr_expression){.nodes = node, .count = 1}; }

static void choose_keys(bool text) {
  key_count = made_random(4);
  for (uint32_t k = 0; k < key_count; k++) {
    const uint32_t d = made_random(dimensions), how = made_random(text && d == 0 ? 3 : 6), by = 1 + made_random(9);
    keys[k] = (tsr_query_key){0};
    key_dimension[k] = how == 0 ? UINT32_MAX : how == 1 ? UINT32_MAX - 1 : d;
    if (how < 3) {
      keys[k].expression = one_node(how == 0 ? &field_a : how == 1 ? &field_s : &coordinate[d]);
      continue;
    }
    keys[k].field = d;
    keys[k].low = TABLE_LOW;
    keys[k].count = TABLE;
    keys[k].numbers = numbers[k % 2];
    for (uint32_t i = 0; i < TABLE; i++) numbers[k % 2][i] = how == 3 ? i / by : how == 4 ? i % by : (i * 7) % TABLE;
    keys[k].number_count = TABLE;
  }
}

/* ---- What the rows give ------------------------------------------------------------------------------------------ */

typedef struct expected {
  made_cell key;
  int64_t values[3];
  bool nulls[3];
  char texts[3][8];
  uint64_t rows, count, texted, letters, filtered; /* letters: a bit for each different string */
  int64_t sum, min, max;
  double square;
  int32_t *list;
} expected;

static expected found[ROWS_MAX];

static bool a_is_null(const made_row *row) { return !row->written && !fill; }

/* The fill value of s is null. */
static bool s_is_null(const made_row *row) { return !row->written || made_null(row->cell.value); }

static bool text_dimension;

/* Returns true if a key is a text: the attribute s, or a dimension. */
static bool key_is_text(uint32_t k) {
  return key_dimension[k] == UINT32_MAX - 1 || (text_dimension && key_dimension[k] == 0 && !keys[k].numbers);
}

static void key_of(const made_row *row, expected *e) {
  memset(e, 0, sizeof *e);
  for (uint32_t k = 0; k < key_count; k++) {
    if (key_dimension[k] == UINT32_MAX) {
      e->nulls[k] = a_is_null(row);
      if (!e->nulls[k]) e->values[k] = row->cell.value;
    } else if (key_dimension[k] == UINT32_MAX - 1) {
      e->nulls[k] = s_is_null(row);
      if (!e->nulls[k]) e->values[k] = (int64_t)made_string(row->cell.value, e->texts[k]);
    } else if (key_is_text(k)) {
      e->values[k] = (int64_t)strlen(row->cell.text);
      memcpy(e->texts[k], row->cell.text, strlen(row->cell.text));
    } else if (!keys[k].numbers) {
      e->values[k] = row->cell.at[key_dimension[k]];
    } else {
      e->values[k] = keys[k].numbers[row->cell.at[key_dimension[k]] - TABLE_LOW];
    }
  }
}

static int compare_expected(const void *x, const void *y) {
  const expected *a = x, *b = y;
  for (uint32_t k = 0; k < key_count; k++) {
    if (a->nulls[k] != b->nulls[k]) return a->nulls[k] ? -1 : 1;
    if (key_is_text(k)) {
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

static uint64_t expect(bool where) {
  static expected each[ROWS_MAX];
  uint64_t count = 0;
  int64_t kept = 0;
  for (int64_t i = 0; i < row_count; i++)
    if (!where || (!a_is_null(&rows[i]) && rows[i].cell.value > threshold)) rows[kept++] = rows[i];
  row_count = kept;
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
    e->filtered += row->cell.value > threshold;
    e->sum += row->cell.value;
    e->square += (double)row->cell.value * row->cell.value;
    e->min = TSR_MIN(e->min, row->cell.value);
    e->max = TSR_MAX(e->max, row->cell.value);
  }
  if (count == 0 && key_count == 0) found[count++] = (expected){0};
  return count;
}

/* ---- Comparing --------------------------------------------------------------------------------------------------- */

enum { ROWS, COUNT, SUM, MIN, MAX, AVG, FILTERED, AT, TEXTS, DIFFERENT, LETTERS, VARIANCE, MEDIAN, AGGREGATES };
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
  aggregates[FILTERED].has_filter = true;
  aggregates[FILTERED].filter = above;
  aggregates[AT].function = TSR_AGGREGATE_AT;
  aggregates[AT].of = MAX;
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
    if (key_is_text(k)) {
      assert_int_equal(value.as.text.size, e->values[k]);
      assert_memory_equal(value.as.text.bytes, e->texts[k], value.as.text.size);
    } else {
      assert_int_equal(value.type, TSR_VALUE_INTEGER);
      assert_int_equal(value.as.integer, e->values[k]);
    }
  }
  assert_int_equal(integer_of(run, group, ROWS), e->rows);
  assert_int_equal(integer_of(run, group, COUNT), e->count);
  if (count > FILTERED) assert_int_equal(integer_of(run, group, FILTERED), e->filtered);
  if (e->count > 0) {
    if (!lie) assert_int_equal(integer_of(run, group, SUM), e->sum);
    lies += integer_of(run, group, SUM) != e->sum;
    assert_int_equal(integer_of(run, group, MIN), e->min);
    assert_int_equal(integer_of(run, group, MAX), e->max);
    assert_int_equal(tsr_query_aggregate_value(run, group, AVG, &value, NULL), TSR_OK);
    if (!lie) assert_true(value.as.real == (double)e->sum / (double)e->count);
    if (count > AT) assert_int_equal(integer_of(run, group, AT), e->max);
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
  if (tsr_query_start(&array->snapshot, query, &run, &error) != TSR_OK) fail_msg("%s", error.message);
  return run;
}

/* Reads the cells as a query gives them: in the order of the rows. */
static void check_cells(const tsr_query *like, const tsr_ranges *asked) {
  tsr_expression columns[2] = {one_node(&field_a), one_node(&field_s)};
  tsr_query query = *like;
  tsr_query_block block;
  tsr_error error = {0};
  int64_t at = 0;
  int rc;
  query.dimensions = asked;
  query.key_count = query.aggregate_count = 0;
  query.column_count = 2;
  query.columns = columns;
  tsr_query_run *run = open_query(&query);
  while ((rc = tsr_query_next(run, &block, &error)) > 0) {
    for (uint64_t r = 0; r < block.count; r++, at++) {
      char text[8];
      const tsr_query_column *a = &block.columns[0], *s = &block.columns[1];
      assert_true(at < row_count);
      assert_int_equal(a->nulls && a->nulls[r], a_is_null(&rows[at]));
      if (!a_is_null(&rows[at])) assert_int_equal(a->as.integers[r], rows[at].cell.value);
      assert_int_equal(s->nulls && s->nulls[r], s_is_null(&rows[at]));
      if (s_is_null(&rows[at])) continue;
      assert_int_equal(s->as.texts[r].size, made_string(rows[at].cell.value, text));
      assert_memory_equal(s->as.texts[r].bytes, text, s->as.texts[r].size);
    }
  }
  assert_int_equal(rc, 0);
  assert_int_equal(at, row_count);
  tsr_query_close(run);
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
  choose_threshold();
  const bool where = made_random(2);
  const uint64_t count = expect(where);
  const uint32_t some[4] = {FILTERED, TEXTS, LETTERS, AGGREGATES};
  tsr_query query = {.dimensions = asked, .fill_unwritten = fill, .key_count = key_count, .keys = keys};
  query.has_where = where;
  query.where = above;
  query.aggregates = aggregates;
  query.aggregate_count = some[lie ? 0 : made_random(4)];
  query.threads = 1 + made_random(3);
  query.read_all = made_random(4) == 0;
  const unsigned before = lies;
  tsr_query_run *run = open_query(&query);
  assert_int_equal(tsr_query_groups(run), count);
  for (uint64_t g = 0; g < count; g++) check_group(run, g, &found[g], query.aggregate_count);
  if (query.read_all) assert_int_equal(lies, before);
  tsr_query_close(run);
  check_cells(&query, asked);
}

/* ---- Reads of arrays ---- */
static void give_own_statistics(tsr_fragment *fragment, const int32_t *min, const int32_t *max, uint64_t tiles) {
  int32_t *both = made_array_of(fragment, 2, 4);
  both[0] = INT32_MAX, both[1] = INT32_MIN;
  for (uint64_t t = 0; t < tiles; t++) both[0] = TSR_MIN(both[0], min[t]), both[1] = TSR_MAX(both[1], max[t]);
  tsr_statistics *own = made_array_of(fragment, fragment->metadata.slot_count, sizeof *own);
  own[0] = (tsr_statistics){.count = 1, .value_size = 4};
  own[0].min = (const uint8_t *)&both[0], own[0].max = (const uint8_t *)&both[1];
  fragment->metadata.own_statistics = own;
}

static void give_statistics(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++) {
    tsr_fragment *fragment = m->fragments[f].fragment;
    uint64_t *sums;
    const tsr_statistics *s = made_statistics(m, fragment, &sums);
    for (uint64_t t = 0; t < s->count && lie; t++) sums[t] += 1000000;
    fragment->metadata.slots[1].statistics = made_array_of(fragment, 1, sizeof *s);
    give_own_statistics(fragment, (const int32_t *)(const void *)s->min, (const int32_t *)(const void *)s->max,
                        s->count);
  }
}

static void begin(made_array *m) {
  give_statistics(m);
  array = m;
  dimensions = m->schema.dimension_count;
  field_a = (tsr_node){.operation = TSR_OP_FIELD, .field = dimensions};
  field_s = (tsr_node){.operation = TSR_OP_FIELD, .field = dimensions + 1};
  for (uint32_t d = 0; d < 2; d++) coordinate[d] = (tsr_node){.operation = TSR_OP_FIELD, .field = d};
  text_dimension = m->schema.fields[0].values_per_cell == TSR_VARIABLE;
  make_aggregates();
}

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)((start * 100 + ordinals[0] * 20 + ordinals[1]) % 1000) - 300;
}

static void check_dense_queries(unsigned rounds) {
  for (unsigned round = 0; round < rounds; round++) {
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

static void check_sparse_queries(unsigned rounds) {
  for (unsigned round = 0; round < rounds; round++) {
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

static void test_dense_queries_equal_their_rows(void **state) {
  (void)state;
  check_dense_queries(rounds_of(60));
}

static void test_sparse_queries_equal_their_rows(void **state) {
  (void)state;
  check_sparse_queries(rounds_of(60));
}

static void test_sums_of_whole_tiles_come_from_statistics(void **state) {
  (void)state;
  lie = true;
  lies = 0;
  check_dense_queries(20);
  assert_true(lies > 20);
  lies = 0;
  check_sparse_queries(20);
  assert_true(lies > 20);
  lie = false;
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
    for (unsigned i = 0; i < rounds_of(6); i++) {
      fill = false;
      choose_keys(false);
      check_query(NULL);
    }
    made_close(&m);
  }
}

/* ---- Threads, budgets, failures ---------------------------------------------------------------------------------- */

/* Sums of REAL: (a + .1) * 1e3 / 7 and its square. */
static tsr_node real_nodes[8];
static uint32_t real_operands[5][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 6}};
static tsr_query_aggregate real_aggregates[4];

static void make_reals(void) {
  const double constants[3] = {.1, 1e3, 7};
  const tsr_operation operations[4] = {TSR_OP_ADD, TSR_OP_MULTIPLY, TSR_OP_DIVIDE, TSR_OP_MULTIPLY};
  real_nodes[0] = field_a;
  for (uint32_t i = 0; i < 4; i++) {
    const uint32_t n = i < 3 ? 2 * i + 2 : 7;
    if (i < 3)
      real_nodes[n - 1] =
          (tsr_node){.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_REAL, .as.real = constants[i]}};
    real_nodes[n] = (tsr_node){.operation = operations[i], .operands = real_operands[i], .operand_count = 2};
  }
  for (uint32_t a = 0; a < 4; a++) {
    real_aggregates[a] = (tsr_query_aggregate){.has_argument = true, .argument = {real_nodes, a % 2 ? 8 : 7}};
    real_aggregates[a].function = a < 2 ? TSR_AGGREGATE_SUM : TSR_AGGREGATE_STDDEV;
  }
}

/* Returns a hash of all bits of the results. */
static uint64_t bits_of(tsr_query *query, unsigned threads, uint64_t memory) {
  uint64_t hash = 0;
  query->threads = threads;
  query->memory_bytes = memory;
  tsr_query_run *run = open_query(query);
  for (uint64_t g = 0; g < tsr_query_groups(run); g++) {
    for (uint32_t a = 0; a < query->aggregate_count; a++) {
      tsr_value value;
      assert_int_equal(tsr_query_aggregate_value(run, g, a, &value, NULL), TSR_OK);
      hash = hash * 1099511628211u + value.type;
      if (value.type == TSR_VALUE_REAL) hash = hash * 1099511628211u + value.as.unsigned_integer;
    }
  }
  tsr_query_close(run);
  return hash;
}

static void check_bits(void) {
  make_reals();
  for (unsigned i = 0; i < 6; i++) {
    choose_keys(false);
    tsr_query query = {.key_count = key_count, .keys = keys, .aggregate_count = 2 + 2 * made_random(2)};
    query.aggregates = real_aggregates;
    const uint64_t bits = bits_of(&query, 1, 0);
    for (unsigned threads = 2; threads < 8; threads += 5) {
      assert_int_equal(bits_of(&query, threads, 0), bits);
      assert_int_equal(bits_of(&query, threads, 24 << 20), bits);
      tsr_array_set_cache(&array->array, made_random(2) ? 0 : 1 << 20);
    }
  }
}

static void test_threads_change_no_bit(void **state) {
  (void)state;
  made_array m;
  const int32_t extents[2] = {150, 200};
  const uint64_t low[2] = {0, 0}, high[2] = {199, 199}, inner[2] = {20, 30}, outer[2] = {120, 130};
  made_open(&m, true, 2, false, 0, 199, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  for (unsigned round = 0; round < 2; round++) {
    if (round == 1) made_dense(&m, 2, inner, outer, value_of);
    made_finish_dense(&m);
    begin(&m);
    check_bits();
  }
  made_close(&m);
  for (unsigned round = 0; round < rounds_of(20); round++) {
    made_open(&m, false, 2, false, 0, 63, NULL);
    m.schema.capacity = 4;
    m.schema.allows_duplicates = round % 4 == 3;
    made_random_sparse(&m, false, 6);
    begin(&m);
    check_bits();
    made_close(&m);
  }
}

/* More groups than there is memory for are TSR_BUDGET; each allocation fails in turn. */
static void test_budget_and_failing_allocations(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_query_run *run;
  tsr_query query = {.threads = 1, .memory_bytes = 3 << 20, .aggregate_count = AGGREGATES, .aggregates = aggregates};
  const int32_t extents[2] = {200, 200};
  const uint64_t low[2] = {0, 0}, high[2] = {199, 199};
  made_open(&m, true, 2, false, 0, 199, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_finish_dense(&m);
  begin(&m);
  choose_threshold();
  tsr_node nodes[2] = {{.operation = TSR_OP_FIELD, .field = 0}, {.operation = TSR_OP_FIELD, .field = 1}};
  for (uint32_t k = 0; k < 2; k++) keys[k] = (tsr_query_key){.expression = one_node(&nodes[k])};
  query.key_count = 2;
  query.keys = keys;
  assert_int_equal(tsr_query_start(&m.snapshot, &query, &run, &error), TSR_BUDGET);
  assert_non_null(strstr(error.message, "too many groups or values for memory_mb (3)"));
  tsr_query_close(run);
  query.memory_bytes = 0;
  query.keys = &(tsr_query_key){.expression = one_node(&nodes[0])};
  query.key_count = 1;
  int code = TSR_NOMEM;
  long allocations = 0;
  for (; code == TSR_NOMEM; allocations += sample()) {
    m.memory.left = allocations;
    code = tsr_query_start(&m.snapshot, &query, &run, &error);
    m.memory.left = -1;
    if (code == TSR_OK) assert_int_equal(tsr_query_groups(run), 200);
    tsr_query_close(run);
  }
  assert_int_equal(code, TSR_OK);
  assert_true(allocations > 20);
  made_close(&m);
}

static unsigned polls, stop_at; /* the host cancels at the poll of that number; 0: never */

static bool cancels(void *argument) {
  (void)argument;
  return ++polls == stop_at;
}

/* Runs a query without keys. Returns its code, and the value of its aggregate. */
static int single_value(tsr_aggregate_function function, uint64_t memory, double *real) {
  tsr_query_aggregate aggregate = {.function = function, .has_argument = true, .argument = one_node(&field_a)};
  const tsr_query query = {.threads = 1, .memory_bytes = memory, .aggregate_count = 1, .aggregates = &aggregate};
  tsr_query_run *run;
  tsr_value value;
  polls = 0;
  const int code = tsr_query_start(&array->snapshot, &query, &run, NULL);
  if (code == TSR_OK) {
    assert_int_equal(tsr_query_aggregate_value(run, 0, 0, &value, NULL), TSR_OK);
    *real = value.as.real;
  }
  tsr_query_close(run);
  return code;
}

/* The values of a median are sorted with polls for cancellation, and in place if there is no memory for a copy. */
static void test_medians_of_many_values(void **state) {
  (void)state;
  made_array m;
  double median = 0, real = 0;
  uint64_t counts[1000] = {0}, below = 0;
  unsigned scan, sorted = 0, exceeded = 0;
  const int32_t extents[2] = {200, 200};
  const uint64_t low[2] = {0, 0}, high[2] = {399, 399};
  made_open(&m, true, 2, false, 0, 399, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_finish_dense(&m);
  begin(&m);
  for (uint64_t y = 0; y < 400; y++)
    for (uint64_t x = 0; x < 400; x++) counts[value_of(1, (uint64_t[2]){y, x}) + 300]++;
  for (int v = 0; v < 1000; below += counts[v++]) /* the mean of the values number 79,999 and 80,000 */
    for (uint64_t middle = 79999; middle <= 80000; middle++)
      if (below <= middle && middle < below + counts[v]) median += (v - 300) / 2.0;
  tsr__memory_root(&m.snapshot.array->memory)->cancel.requested = cancels;
  assert_int_equal(single_value(TSR_AGGREGATE_VARIANCE, 0, &real), TSR_OK);
  scan = polls;
  assert_int_equal(single_value(TSR_AGGREGATE_MEDIAN, 0, &real), TSR_OK);
  assert_true(real == median);
  assert_true(polls > scan + 10);
  stop_at = polls;
  assert_int_equal(single_value(TSR_AGGREGATE_MEDIAN, 0, &real), TSR_INTERRUPT);
  stop_at = 0;
  for (uint64_t memory = 16 << 20; memory > 2 << 20; memory -= 1 << 19) {
    const int code = single_value(TSR_AGGREGATE_MEDIAN, memory, &real);
    assert_true(code == TSR_OK ? real == median : code == TSR_BUDGET);
    if (code == TSR_OK) sorted++;
    else exceeded++;
  }
  assert_true(sorted > 4 && exceeded > 0);
  made_close(&m);
}

/* Errors of expressions say which one they are about. */
static void test_faults_name_their_expression(void **state) {
  (void)state;
  made_array m;
  tsr_error error = {0};
  tsr_query_run *run;
  uint32_t node;
  const made_cell cells[2] = {{.at = {1}, .value = 7}, {.at = {2}, .value = 8}};
  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, cells, 2, false, false);
  begin(&m);
  tsr_node nodes[3] = {field_a, {.operation = TSR_OP_CONSTANT}, {.operation = TSR_OP_MULTIPLY}};
  nodes[1].value.type = TSR_VALUE_INTEGER;
  nodes[1].value.as.integer = INT64_MAX;
  nodes[2].operands = first_two;
  nodes[2].operand_count = 2;
  tsr_query_aggregate sum = {.function = TSR_AGGREGATE_SUM, .has_argument = true, .argument = {nodes, 3}};
  const tsr_query query = {.aggregate_count = 1, .aggregates = &sum};
  assert_int_equal(tsr_query_start(&m.snapshot, &query, &run, &error), TSR_ERROR);
  assert_string_equal(error.message, "integer overflow");
  assert_ptr_equal(tsr_query_fault(run, &node), &query.aggregates[0].argument);
  assert_int_equal(node, 2);
  tsr_query_close(run);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dense_queries_equal_their_rows),
      cmocka_unit_test(test_sparse_queries_equal_their_rows),
      cmocka_unit_test(test_sums_of_whole_tiles_come_from_statistics),
      cmocka_unit_test(test_large_tiles),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_budget_and_failing_allocations),
      cmocka_unit_test(test_medians_of_many_values),
      cmocka_unit_test(test_faults_name_their_expression),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
