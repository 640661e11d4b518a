/* Tests of sparse reads. Random fragments with and without cell times, ranges and orders of cells are compared with a
 * model of the rule: of the visible versions of a coordinate the latest one counts, unless it is deleted. Then budgets
 * and damage. */

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/cache.h"
#include "log/log.h"
#include "array/array.h"
#include "read/reader.h"
#include "made_array.h"

#define MAX_CELLS 60

typedef struct written { /* one fragment */
  made_cell cells[MAX_CELLS];
  uint64_t count;
  bool times, deletes;
} written;

static bool same_place(const made_array *m, const made_cell *a, const made_cell *b) {
  const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
  return (!text || strcmp(a->text, b->text) == 0) && memcmp(a->at, b->at, sizeof a->at) == 0;
}

static int compare_places(const made_array *m, const made_cell *a, const made_cell *b) {
  int c = strcmp(a->text, b->text);
  for (uint32_t d = 0; d < m->schema.dimension_count && c == 0; d++) c = (a->at[d] > b->at[d]) - (a->at[d] < b->at[d]);
  return c;
}

/* Adds cells at random coordinates of a small domain. A consolidated fragment may have several versions of a
 * coordinate, the latest first. */
static void random_cells(const made_array *m, written *w, uint64_t start, uint64_t end, int32_t high, bool sorted) {
  const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
  w->count = 0;
  for (uint64_t i = 0, most = 1 + made_random(MAX_CELLS); i < most; i++) {
    made_cell *c = &w->cells[w->count];
    memset(c, 0, sizeof *c);
    if (text)
      for (unsigned k = 0, n = made_random(3); k < n; k++) c->text[k] = (char)('a' + (int)made_random(4));
    for (uint32_t d = text; d < m->schema.dimension_count; d++) c->at[d] = (int32_t)made_random((uint32_t)high + 1);
    c->value = (int32_t)(made_random(100) + 100 * start);
    c->time = start + made_random((uint32_t)(end - start + 1));
    c->deleted = made_random(3) ? UINT64_MAX : c->time + made_random(20);
    bool again = false;
    for (uint64_t k = 0; k < w->count; k++)
      again |= same_place(m, c, &w->cells[k]) && (!w->times || w->cells[k].time == c->time);
    if (!again) w->count++;
  }
  for (uint64_t i = 1; i < w->count && (sorted || w->times); i++) /* insertion sort */
    for (uint64_t k = i; k > 0; k--) {
      made_cell *a = &w->cells[k - 1], *b = &w->cells[k];
      const int c = compare_places(m, a, b);
      if (c < 0 || (c == 0 && a->time >= b->time)) break;
      const made_cell swap = *a;
      *a = *b;
      *b = swap;
    }
}

static bool deleted(const made_array *m, const written *w, uint64_t f, const made_cell *c) {
  const tsr_snapshot_fragment *sf = &m->fragments[f];
  if (w->deletes && c->deleted <= m->snapshot.as_of) return true;
  for (uint32_t i = 0; i < sf->condition_count; i++) {
    const tsr_condition *condition = sf->conditions[i];
    if (w->times && c->time > condition->time) continue;
    if (c->value < (int32_t)tsr__load32(condition->root.value))
      return true; /* the condition keeps values from here on */
  }
  return false;
}

static bool in_view(const made_array *m, const written *w, const made_cell *c) {
  return !w->times || (c->time >= m->snapshot.since && c->time <= m->snapshot.as_of);
}

/* Returns true if this version of its coordinate is the one that a read gives. */
static bool wins(const made_array *m, const written *all, uint64_t f, uint64_t i) {
  const made_cell *c = &all[f].cells[i];
  if (!in_view(m, &all[f], c) || deleted(m, &all[f], f, c)) return false;
  if (m->schema.allows_duplicates) return true;
  const uint64_t time = all[f].times ? c->time : m->fragments[f].fragment->parsed.start;
  for (uint64_t g = 0; g < m->snapshot.fragment_count; g++)
    for (uint64_t k = 0; k < all[g].count; k++) {
      const made_cell *other = &all[g].cells[k];
      if ((g == f && k == i) || !same_place(m, c, other) || !in_view(m, &all[g], other)) continue;
      const uint64_t theirs = all[g].times ? other->time : m->fragments[g].fragment->parsed.start;
      if (theirs > time || (theirs == time && g > f)) return false;
    }
  return true;
}

static void check_read(made_array *m, const written *all, tsr_reader *reader, const made_request *request) {
  static made_row rows[2000];
  const uint32_t n = m->schema.dimension_count;
  const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
  bool fields[MADE_DIMENSIONS + MADE_ATTRIBUTES] = {false};
  tsr_error error = {0};
  for (uint32_t f = 0; f < n + MADE_ATTRIBUTES; f++) fields[f] = made_random(2);
  const bool times = made_random(2);
  const tsr_request ask = {
      .dimensions = request->dimensions, .fields = fields, .limit = made_random(3), .times = times};
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  const int64_t count = made_read(reader, m, rows, 2000, &error);
  assert_true(count >= 0);
  int64_t expected = 0;
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++)
    for (uint64_t i = 0; i < all[f].count; i++) {
      const made_cell *c = &all[f].cells[i];
      if (!made_asked(request, n, text, c) || !wins(m, all, f, i)) continue;
      expected++;
      const int64_t rowid = m->fragments[f].fragment->row_base + (int64_t)i;
      int64_t k = 0;
      while (k < count && rows[k].rowid != rowid) k++;
      assert_true(k < count);
      assert_true(same_place(m, &rows[k].cell, c));
      assert_int_equal(rows[k].cell.value, c->value);
      if (!all[f].times) assert_int_equal(rows[k].time, m->fragments[f].fragment->parsed.end);
      else if (times) assert_int_equal(rows[k].time, c->time);
    }
  assert_int_equal(count, expected);
}

/* Adds a delete condition of a given time that keeps the cells with a >= limit. */
static void add_condition(made_array *m, unsigned i, uint64_t time, int32_t *limit) {
  static char *fields[] = {"a"};
  m->conditions[i] = (tsr_condition){.name = "condition", .time = time, .depth = 1, .field_count = 1, .fields = fields};
  m->conditions[i].root = (tsr_condition_node){.op = TSR_GE, .field = "a", .value = (uint8_t *)limit, .value_size = 4};
  m->condition_list[i] = &m->conditions[i];
}

static void give_conditions(made_array *m, uint64_t f, unsigned count) {
  unsigned first = 0;
  while (first < count && m->conditions[first].time < m->fragments[f].fragment->parsed.start) first++;
  m->fragments[f].conditions = m->condition_list + first;
  m->fragments[f].condition_count = count - first;
}

/* Makes the request for the place of a cell. */
static void request_place(const made_array *m, const made_cell *c, made_request *request) {
  memset(request, 0, sizeof *request);
  for (uint32_t d = 0; d < m->schema.dimension_count; d++) {
    tsr_range *range = &request->ranges[d][0];
    request->dimensions[d] = (tsr_ranges){.ranges = range, .count = 1};
    request->low[d][0] = request->high[d][0] = c->at[d];
    *range = (tsr_range){.low = &request->low[d][0], .high = &request->high[d][0]};
    if (d > 0 || m->fields[0].values_per_cell != TSR_VARIABLE) continue;
    memcpy(request->texts[0], c->text, sizeof c->text);
    memcpy(request->texts[1], c->text, sizeof c->text);
    const uint64_t size = strlen(c->text);
    *range = (tsr_range){.low = request->texts[0], .high = request->texts[1], .low_size = size, .high_size = size};
  }
}

/* Looks up the places of all cells, those of deleted ones as well: some of them are expected from the beginning, more of
 * them later. The rows are those of look-ups that nobody has announced. */
static void check_look_ups(made_array *m, const written *all) {
  tsr_reader *gathering, *reader;
  tsr_places *places;
  const tsr_batch *batch;
  made_request request;
  tsr_error error = {0};
  uint64_t found = 0;
  int rc;
  assert_int_equal(tsr_places_open(m->environment, &m->schema, &places, NULL), TSR_OK);
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_expect(reader, places, NULL), TSR_OK);
  for (unsigned round = 0; round < 3; round++) {
    made_random_request(&request, m->schema.dimension_count, m->fields[0].values_per_cell == TSR_VARIABLE, 0, 60);
    const tsr_request ask = {.dimensions = round < 2 ? request.dimensions : NULL};
    m->snapshot.shows = TSR_SHOWS_ALL;
    assert_int_equal(tsr_reader_open(&m->snapshot, &gathering, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(gathering, &ask, &error), TSR_OK);
    while ((rc = tsr_reader_next(gathering, &batch, &error)) > 0) {
      found += batch->count;
      assert_int_equal(tsr_places_add(places, gathering, batch, &error), TSR_OK);
    }
    assert_int_equal(rc, 0);
    tsr_reader_close(gathering);
    m->snapshot.shows = TSR_SHOWS_CELLS;
    assert_true(tsr__places_count(places) <= found);
    for (uint64_t f = 0; f < m->snapshot.fragment_count; f++)
      for (uint64_t i = made_random(4); i < all[f].count; i += 1 + made_random(4)) {
        request_place(m, &all[f].cells[i], &request);
        check_read(m, all, reader, &request);
      }
    if (made_random(3) == 0) tsr_places_clear(places);
  }
  assert_int_equal(tsr_reader_expect(reader, NULL, NULL), TSR_OK);
  tsr_reader_close(reader);
  tsr_places_close(places);
}

static void test_the_latest_version_that_is_not_deleted_wins(void **state) {
  (void)state;
  static written all[6];
  for (unsigned round = 0; round < 300; round++) {
    made_array m;
    const bool text = made_random(3) == 0;
    const uint32_t n = 1 + made_random(3);
    const int32_t high = (int32_t[]){60, 9, 4}[n - 1];
    made_open(&m, false, n, text, 0, high, NULL);
    m.schema.cell_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    m.schema.allows_duplicates = made_random(4) == 0;
    m.schema.capacity = 1 + made_random(20);
    if (made_random(2)) m.snapshot.since = made_random(30);
    if (made_random(2)) m.snapshot.as_of = m.snapshot.since + made_random(60);
    m.snapshot.deleted_until = m.snapshot.as_of;
    int32_t limits[2] = {(int32_t)made_random(3000), (int32_t)made_random(5000)};
    const unsigned conditions = made_random(3);
    for (unsigned i = 0; i < conditions; i++) add_condition(&m, i, 15 + 20 * i + made_random(10), &limits[i]);
    for (uint64_t f = 0, fragments = 1 + made_random(6); f < fragments; f++) {
      written *w = &all[f];
      w->times = made_random(3) == 0;
      w->deletes = w->times && made_random(2);
      const uint64_t start = 10 * f + (made_random(4) == 0 ? 0 : made_random(5)), end = start + 25 * w->times;
      random_cells(&m, w, start, end, high, made_random(2));
      made_sparse(&m, start, end, w->cells, w->count, w->times, w->deletes);
      give_conditions(&m, f, conditions);
    }
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    for (unsigned i = 0; i < 6; i++) {
      made_request request;
      made_random_request(&request, n, text, 0, high);
      check_read(&m, all, reader, &request);
    }
    tsr_reader_close(reader);
    if (round % 3 == 0) check_look_ups(&m, all);
    made_close(&m);
  }
}

/* Of equal coordinates with equal times, the later fragment wins; in one fragment the one stored last, in a
 * consolidated fragment the one stored first. */
static void test_equal_times_are_decided_by_fragment_and_place(void **state) {
  (void)state;
  made_row rows[10];
  made_array m;
  const made_cell cells[4] = {{.at = {3}, .value = 1, .time = 5},
                              {.at = {3}, .value = 2, .time = 5},
                              {.at = {4}, .value = 3, .time = 5},
                              {.at = {4}, .value = 4, .time = 6}};
  made_open(&m, false, 1, false, 0, 9, NULL);
  m.schema.capacity = 1; /* so that the versions are in different tiles */
  for (int round = 0; round < 2; round++) {
    made_sparse(&m, 5, 10, cells, 4, true, false);
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, 10, NULL), 2);
    assert_int_equal(rows[0].cell.value, 1);
    assert_int_equal(rows[1].cell.value, 4);
    assert_int_equal(rows[0].rowid, m.fragments[round].fragment->row_base);
    tsr_reader_close(reader);
    m.schema.capacity = 4;
    if (round == 1) continue;
    tsr__array_fragment_drop(&m.array, m.fragments[0].fragment); /* the same with both versions in one tile */
    m.snapshot.fragment_count = 0;
    made_sparse(&m, 4, 10, cells, 4, true, false);
  }
  made_close(&m);

  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 5, 5, cells, 4, false, false);
  made_sparse(&m, 5, 5, cells + 2, 1, false, false);
  tsr_reader *reader;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 10, NULL), 2);
  for (int i = 0; i < 2; i++) assert_int_equal(rows[i].cell.value, rows[i].cell.at[0] == 3 ? 2 : 3);
  tsr_reader_close(reader);
  made_close(&m);
}

/* The fragment was written before the attribute was added. A delete condition on the attribute keeps none of its
 * cells. */
static void test_an_attribute_that_a_fragment_lacks_has_the_fill_value(void **state) {
  (void)state;
  made_array m;
  written w = {.count = 3};
  for (int i = 0; i < 3; i++) w.cells[i] = (made_cell){.at = {i}, .value = 7 + i};
  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, w.cells, w.count, false, false);
  int64_t slots[3] = {m.slots[0], -1, m.slots[2]};
  m.fragments[0].slots = slots;
  tsr_commit_listing listing = {.complete = true}; /* without further schemas */
  m.array.log.listing = &listing;
  tsr_field fields_then[3] = {m.fields[0], m.fields[1], m.fields[2]};
  fields_then[1].name = "before";
  tsr_schema then = m.schema;
  then.fields = fields_then;
  m.fragments[0].fragment->metadata.schema = &then;
  tsr_reader *reader;
  const tsr_batch *batch;
  const tsr_column *column;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
  assert_int_equal(batch->count, 3);
  assert_true(batch->written);
  assert_int_equal(tsr_reader_column(reader, 1, &column, NULL), TSR_OK);
  assert_true(column->unwritten && column->constant);
  assert_int_equal((int32_t)tsr__load32(column->values), made_fill);
  assert_int_equal(tsr_reader_next(reader, &batch, NULL), 0);
  int32_t limit = -100;
  add_condition(&m, 0, 5, &limit);
  give_conditions(&m, 0, 1);
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  assert_int_equal(tsr_reader_next(reader, &batch, NULL), 0);
  /* A condition on a field that no schema has is an error. */
  char *fields[] = {"z"};
  m.conditions[0].fields = fields;
  tsr_error error = {0};
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  assert_int_equal(tsr_reader_next(reader, &batch, &error), TSR_ERROR);
  assert_non_null(strstr(error.message, "'z'"));
  tsr_reader_close(reader);
  made_close(&m);
}

/* Only merges rely on boxes, to know which cells are final. */
static void test_a_cell_outside_its_tile_s_box_is_found(void **state) {
  (void)state;
  for (uint32_t d = 0; d < 2; d++)
    for (int end = 0; end < 2; end++) {
      made_array m;
      written w[2] = {{.count = 3}, {.count = 3}};
      tsr_error error = {0};
      for (int i = 0; i < 3; i++) w[0].cells[i] = w[1].cells[i] = (made_cell){.at = {i, 2 * i}, .value = i};
      made_open(&m, false, 2, false, 0, 9, NULL);
      made_sparse(&m, 1, 1, w[0].cells, 3, false, false);
      tsr_fragment *f = made_sparse(&m, 2, 2, w[1].cells, 3, false, false);
      uint64_t *ends = f->metadata.rtree->keys[0] + 2 * d;
      if (end) ends[1]--;
      else ends[0]++;
      tsr_reader *reader;
      const tsr_batch *batch;
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
      assert_int_equal(tsr_reader_next(reader, &batch, &error), TSR_CORRUPT);
      assert_non_null(strstr(error.message, "1 cells are outside of its box on dimension"));
      assert_non_null(strstr(error.message, f->name));
      tsr_reader_close(reader);
      made_close(&m);
    }
}

/* Dimensions are decoded only for tiles that the request cuts, fields only for tiles with selected cells. */
static void test_only_needed_slots_are_decoded(void **state) {
  (void)state;
  static made_row rows[200];
  made_array m;
  written w = {.count = 40};
  for (int i = 0; i < 40; i++) w.cells[i] = (made_cell){.at = {i / 10, i % 10}, .value = i};
  made_open(&m, false, 2, false, 0, 9, NULL);
  m.schema.capacity = 10; /* one tile for each x */
  made_sparse(&m, 1, 1, w.cells, w.count, false, false);
  tsr_reader *reader;
  const tsr_batch *batch;
  tsr_counters c;
  const bool fields[4] = {false, false, true, false};
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  tsr_request ask = {.fields = NULL};
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  uint64_t cells = 0;
  while (tsr_reader_next(reader, &batch, NULL) > 0) cells += batch->count;
  tsr_environment_counters(m.environment, &c);
  assert_int_equal(cells, 40);
  assert_int_equal(c.tiles_read, 0);

  const int32_t x[2] = {1, 2}, y[2] = {4, 4};
  const tsr_range xs = {.low = &x[0], .high = &x[1]}, ys = {.low = &y[0], .high = &y[1]};
  tsr_ranges ranges[2] = {{.ranges = &xs, .count = 1}, {.all = true}};
  ask = (tsr_request){.dimensions = ranges, .fields = fields};
  tsr_environment_reset_counters(m.environment);
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  for (cells = 0; tsr_reader_next(reader, &batch, NULL) > 0;) cells += batch->count;
  tsr_environment_counters(m.environment, &c);
  assert_int_equal(cells, 20);
  assert_int_equal(c.tiles_considered, 4);
  assert_int_equal(c.tiles_skipped_by_domain, 2);
  assert_int_equal(c.tiles_read, 2);
  assert_int_equal(c.cells_decoded, 20);

  ranges[1] = (tsr_ranges){.ranges = &ys, .count = 1};
  tsr_environment_reset_counters(m.environment);
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 200, NULL), 2);
  tsr_environment_counters(m.environment, &c);
  assert_int_equal(c.tiles_read, 2 + 2 + 2); /* y for the ranges; then x and s, which made_read reads */
  assert_int_equal(c.tiles_cached, 2); /* a */
  tsr_reader_close(reader);
  made_close(&m);
}

static void test_any_budget_is_an_error_or_gives_all_rows(void **state) {
  (void)state;
  static made_row rows[200];
  static written w[2];
  made_array m;
  tsr_error error = {0};
  made_open(&m, false, 1, false, 0, 99, NULL);
  m.schema.capacity = 60;
  for (int f = 0; f < 2; f++) {
    w[f].count = 60;
    for (int i = 0; i < 60; i++) w[f].cells[i] = (made_cell){.at = {i}, .value = i + 100 * f};
    made_sparse(&m, (uint64_t)f + 1, (uint64_t)f + 1, w[f].cells, 60, false, false);
  }
  tsr_reader *reader;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  const bool fields[3] = {true, true, true};
  bool passed = false;
  for (uint64_t budget = 2000; !passed; budget += 50) { /* from too little to enough memory */
    const tsr_request ask = {.fields = fields, .memory_bytes = budget, .threads = 1};
    int64_t r = tsr_reader_start(reader, &ask, &error);
    if (r >= 0) r = made_read(reader, &m, rows, 200, &error);
    if (r < 0) {
      assert_int_equal(r, TSR_BUDGET);
      assert_non_null(strstr(error.message, "memory_mb"));
    } else {
      assert_int_equal(r, 60);
      passed = true;
    }
    assert_true(budget < 40000);
  }
  tsr_reader_close(reader);
  made_close(&m);
}

/* Every allocation fails once. */
/* Fragments with equal coordinates, one of them consolidated, and a condition: 7 of their cells are visible. */
static void make_three(made_array *m, written *w, bool text, int32_t *limit) {
  made_open(m, false, 2, text, 0, 9, NULL);
  m->array.threads = 1;
  for (int f = 0; f < 3; f++) {
    w[f].count = 12;
    for (int i = 0; i < 12; i++) {
      w[f].cells[i] = (made_cell){.at = {0, i}, .value = i + 100 * f, .time = 10, .deleted = UINT64_MAX};
      w[f].cells[i].text[0] = (char)('a' + i);
    }
    made_sparse(m, 10 * (uint64_t)f, 10 * (uint64_t)f + 10, w[f].cells, 12, f == 1, f == 1);
  }
  *limit = 205;
  add_condition(m, 0, 100, limit);
  give_conditions(m, 2, 1);
}

static void test_each_failing_allocation_is_an_error(void **state) {
  (void)state;
  static made_row rows[200];
  static written w[3];
  for (long left = 0;; left++) {
    made_array m;
    tsr_error error = {0};
    int32_t limit;
    make_three(&m, w, left % 2, &limit);
    tsr_reader *reader = NULL;
    const tsr_request ask = {.fields = (const bool[]){true, true, true, true}};
    m.memory.left = left / 2;
    int64_t r = tsr_reader_open(&m.snapshot, &reader, &error);
    if (r >= 0) r = tsr_reader_start(reader, &ask, &error);
    if (r >= 0) r = made_read(reader, &m, rows, 200, &error);
    m.memory.left = -1;
    if (r < 0) {
      assert_int_equal(r, TSR_NOMEM);
      if (reader) {
        assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
        assert_int_equal(made_read(reader, &m, rows, 200, &error), 7);
      }
    }
    tsr_reader_close(reader);
    made_close(&m);
    if (r >= 0 && left % 2) {
      assert_int_equal(r, 7);
      break;
    }
  }
}

/* Looks up the places of the last fragment. Returns how many rows are there, or an error. */
static int64_t look_up_all(made_array *m, const written *w, tsr_reader *reader, tsr_error *error) {
  static made_row rows[200];
  made_request request;
  int64_t sum = 0;
  for (uint64_t i = 0; i < w->count; i++) {
    request_place(m, &w->cells[i], &request);
    const tsr_request ask = {.dimensions = request.dimensions, .fields = (const bool[]){false, false, i > 3, true}};
    int64_t r = tsr_reader_start(reader, &ask, error);
    if (r >= 0) r = made_read(reader, m, rows, 200, error);
    if (r < 0) return r;
    sum += r;
  }
  return sum;
}

/* Cells that are looked up together: where memory ends, each is looked up by itself, or it is an error. */
static void test_failing_allocations_of_look_ups(void **state) {
  (void)state;
  static written w[3];
  for (long left = 0;; left++) {
    made_array m;
    tsr_error error = {0};
    int32_t limit;
    tsr_places *places;
    tsr_reader *reader = NULL;
    const tsr_batch *batch;
    make_three(&m, w, left % 2, &limit);
    assert_int_equal(tsr_places_open(m.environment, &m.schema, &places, NULL), TSR_OK);
    m.snapshot.shows = TSR_SHOWS_ALL;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    while (tsr_reader_next(reader, &batch, NULL) > 0)
      assert_int_equal(tsr_places_add(places, reader, batch, NULL), TSR_OK);
    tsr_reader_close(reader);
    m.snapshot.shows = TSR_SHOWS_CELLS;
    reader = NULL;
    m.memory.left = left / 2;
    int64_t r = tsr_reader_open(&m.snapshot, &reader, &error);
    if (r >= 0) r = tsr_reader_expect(reader, places, &error);
    if (r >= 0) r = look_up_all(&m, &w[2], reader, &error);
    m.memory.left = -1;
    assert_int_equal(r, r < 0 ? TSR_NOMEM : 7);
    if (r < 0 && reader) {
      assert_int_equal(tsr_reader_expect(reader, places, &error), TSR_OK);
      assert_int_equal(look_up_all(&m, &w[2], reader, &error), 7);
    }
    tsr_reader_close(reader);
    tsr_places_close(places);
    made_close(&m);
    if (r >= 0 && left % 2) break;
  }
}

static void test_a_file_cut_at_any_byte_is_an_error_or_gives_all_rows(void **state) {
  (void)state;
  made_array m;
  written w = {.count = 8};
  tsr_error error = {0};
  for (int i = 0; i < 8; i++) w.cells[i] = (made_cell){.at = {i}, .value = i + 1};
  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, w.cells, w.count, false, false);
  tsr_fragment *f = m.fragments[0].fragment;
  tsr_reader *reader;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  const bool fields[3] = {true, true, true};
  const tsr_request ask = {.fields = fields};
  tsr__cache_set_limit(m.array.cache, 0);
  for (uint32_t s = 0; s < f->metadata.slot_count; s++)
    for (unsigned p = 0; p < TSR_PART_COUNT; p++) {
      if (!f->metadata.slots[s].offsets[p]) continue;
      uint64_t *end = &f->metadata.slots[s].offsets[p][1];
      for (const uint64_t whole = *end; whole > 0 && *end > 0;) {
        const tsr_batch *batch;
        --*end;
        assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
        assert_int_equal(tsr_reader_next(reader, &batch, &error), TSR_CORRUPT);
        assert_non_null(strstr(error.message, "tile 0"));
        if (*end == 0) {
          *end = whole;
          break;
        }
      }
    }
  static made_row rows[20];
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 20, &error), 8);
  tsr_reader_close(reader);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_latest_version_that_is_not_deleted_wins),
      cmocka_unit_test(test_equal_times_are_decided_by_fragment_and_place),
      cmocka_unit_test(test_an_attribute_that_a_fragment_lacks_has_the_fill_value),
      cmocka_unit_test(test_a_cell_outside_its_tile_s_box_is_found),
      cmocka_unit_test(test_only_needed_slots_are_decoded),
      cmocka_unit_test(test_any_budget_is_an_error_or_gives_all_rows),
      cmocka_unit_test(test_each_failing_allocation_is_an_error),
      cmocka_unit_test(test_failing_allocations_of_look_ups),
      cmocka_unit_test(test_a_file_cut_at_any_byte_is_an_error_or_gives_all_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
