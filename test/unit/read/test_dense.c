/* Tests of dense reads. Random boxes and ranges are compared with a model of the rule: the newest fragment whose box
 * has a cell owns it. Then rowids, gaps, budgets, and failing allocations. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/environment.h"
#include "array/array.h"
#include "read/reader.h"
#include "made_array.h"

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  return (int32_t)(start * 10000 + ordinals[0] * 400 + ordinals[1] * 20 + ordinals[2]);
}

static void random_box(const tsr_grid *grid, uint64_t *low, uint64_t *high) {
  for (uint32_t d = 0; d < grid->dimensions; d++) {
    low[d] = made_random((uint32_t)grid->last[d] + 1);
    high[d] = low[d] + made_random((uint32_t)(grid->last[d] - low[d]) + 1);
  }
}

/* Adds a sparse fragment, as format versions up to 10 wrote into dense arrays, of cells with different coordinates. */
static void add_sparse(made_array *m, uint64_t start, int32_t low, int32_t high, made_cell *cells, uint64_t *count) {
  *count = 1 + made_random(12);
  for (uint64_t i = 0; i < *count; i++) {
    for (bool again = true; again;) {
      again = false;
      for (uint32_t d = 0; d < m->schema.dimension_count; d++)
        cells[i].at[d] = low + (int32_t)made_random((uint32_t)(high - low + 1));
      for (uint64_t k = 0; k < i; k++) again |= memcmp(cells[k].at, cells[i].at, sizeof cells[i].at) == 0;
    }
    cells[i].value = (int32_t)(start * 10000 + i);
  }
  const int64_t a = m->slots[m->schema.dimension_count];
  tsr_fragment *f = made_sparse(m, start, start, cells, *count, false, false);
  assert_int_equal(a >= 0, 1);
  /* a sparse fragment has slots for dimensions, too */
  void *memory;
  assert_int_equal(tsr__arena_array(&m->snapshot.arena, 8, sizeof(int64_t), &memory, NULL), TSR_OK);
  memcpy(memory, m->slots, sizeof m->slots);
  m->fragments[m->snapshot.fragment_count - 1].slots = memory;
  for (uint32_t d = 0; d < m->schema.dimension_count; d++) m->slots[d] = -1;
  assert_non_null(f);
}

typedef struct model { /* what was written */
  uint64_t low[8][3], high[8][3];
  made_cell sparse[8][12];
  uint64_t sparse_count[8]; /* 0: dense */
} model;

/* Finds the value of a cell and the time of its fragment; false if it was never written. */
static bool look_up(const made_array *m, const model *w, const int32_t *at, int32_t *value, uint64_t *time) {
  uint64_t ordinals[3] = {0};
  const uint32_t n = m->schema.dimension_count;
  for (uint32_t d = 0; d < n; d++) ordinals[d] = (uint64_t)(at[d] - (int32_t)tsr__load32(m->fields[d].low));
  for (uint64_t f = m->snapshot.fragment_count; f-- > 0;) {
    *time = m->fragments[f].fragment->parsed.start;
    bool inside = w->sparse_count[f] == 0;
    for (uint32_t d = 0; d < n; d++) inside &= w->low[f][d] <= ordinals[d] && ordinals[d] <= w->high[f][d];
    *value = value_of(*time, ordinals);
    for (uint64_t i = 0; i < w->sparse_count[f]; i++)
      if (memcmp(w->sparse[f][i].at, at, n * sizeof *at) == 0) {
        *value = w->sparse[f][i].value;
        inside = true;
      }
    if (inside) return true;
  }
  return false;
}

/* Reads the request, checks each row against the model and counts them against the request. */
static void check_read(made_array *m, const model *w, tsr_reader *reader, const made_request *request, int32_t low,
                       int32_t high) {
  static made_row rows[30000];
  const uint32_t n = m->schema.dimension_count;
  bool fields[MADE_DIMENSIONS + MADE_ATTRIBUTES] = {false};
  tsr_error error = {0};
  fields[n] = made_random(2);
  fields[n + 1] = made_random(2);
  const tsr_request ask = {.dimensions = request->dimensions, .fields = fields, .limit = made_random(3) * 10};
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  const int64_t count = made_read(reader, m, rows, 30000, &error);
  assert_true(count >= 0);
  for (int64_t i = 0; i < count; i++) {
    int32_t value;
    uint64_t time;
    assert_true(made_asked(request, n, false, &rows[i].cell));
    const bool written = look_up(m, w, rows[i].cell.at, &value, &time);
    assert_int_equal(rows[i].written, written);
    assert_int_equal(rows[i].cell.value, written ? value : made_fill);
    if (written) assert_int_equal(rows[i].time, time);
  }
  uint64_t expected = 0;
  made_cell c = {0};
  const tsr_snapshot *s = &m->snapshot;
  int32_t from[3] = {0}, to[3] = {0};
  for (uint32_t d = 0; d < n; d++) {
    from[d] = low + (int32_t)s->domain.box_low[d];
    to[d] = low + (int32_t)s->domain.box_high[d];
    assert_true(to[d] <= high);
  }
  for (c.at[0] = from[0]; c.at[0] <= to[0]; c.at[0]++)
    for (c.at[1] = from[1]; c.at[1] <= to[1]; c.at[1]++)
      for (c.at[2] = from[2]; c.at[2] <= to[2]; c.at[2]++) expected += made_asked(request, n, false, &c);
  assert_int_equal(count, expected);
  qsort(rows, (size_t)count, sizeof rows[0], made_by_rowid);
  for (int64_t i = 1; i < count; i++) assert_true(rows[i].rowid > rows[i - 1].rowid);
}

static void test_the_newest_fragment_whose_box_has_a_cell_owns_it(void **state) {
  unsigned short_ways = 0, short_boxes = 0;
  (void)state;
  for (unsigned round = 0; round < 150; round++) {
    made_array m;
    model w = {0};
    const uint32_t n = 1 + made_random(3);
    const int32_t low = -3, high = n == 3 ? 6 : 16;
    const int32_t extents[3] = {1 + (int32_t)made_random(7), 1 + (int32_t)made_random(7), 1 + (int32_t)made_random(7)};
    made_open(&m, true, n, false, low, high, extents);
    m.schema.cell_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    m.schema.tile_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    made_finish_grid(&m);
    if (made_random(2)) m.snapshot.unwritten_row_base = INT64_C(1) << 61;
    const uint64_t fragments = 1 + made_random(6);
    for (uint64_t f = 0; f < fragments; f++) {
      if (f > 0 && made_random(4) == 0) {
        add_sparse(&m, f + 1, low, high, w.sparse[f], &w.sparse_count[f]);
        continue;
      }
      random_box(&m.snapshot.grid, w.low[f], w.high[f]);
      made_dense(&m, f + 1, w.low[f], w.high[f], value_of);
    }
    made_finish_dense(&m);
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    for (unsigned i = 0; i < 6; i++) {
      made_request request;
      made_random_request(&request, n, false, low, high);
      check_read(&m, &w, reader, &request, low, high);
    }
    for (unsigned i = 0; i < 24; i++) { /* single cells and some neighbours: point.c reads those that a fragment owns */
      made_request request;
      made_random_request(&request, n, false, low, high);
      for (uint32_t d = 0; d < n; d++) {
        request.dimensions[d] = (tsr_ranges){.ranges = request.ranges[d], .count = 1};
        request.high[d][0] = request.low[d][0] = low + (int32_t)made_random((uint32_t)(high - low + 1));
        if (i >= 12) { /* from a cell of the last fragment on */
          const uint32_t f = (uint32_t)fragments - 1, span = (uint32_t)(w.high[f][d] - w.low[f][d]) + 1;
          request.low[d][0] = low + (int32_t)w.low[f][d] + (int32_t)made_random(span);
          request.high[d][0] = request.low[d][0] + (int32_t)made_random(3);
        }
        request.ranges[d][0] = (tsr_range){.low = &request.low[d][0], .high = &request.high[d][0]};
      }
      check_read(&m, &w, reader, &request, low, high);
      (i < 12 ? &short_ways : &short_boxes)[0] += !reader->plan.selections && !reader->plan.empty;
    }
    tsr_reader_close(reader);
    made_close(&m);
  }
  assert_in_range(short_ways, 100, 150 * 12 - 100);
  assert_in_range(short_boxes, 100, 150 * 12 - 100);
}

/* A range with an open end is not one value, also where its other end is the last that the array has. */
static void test_open_ranges_are_no_single_cells(void **state) {
  (void)state;
  static made_row rows[16];
  made_array m;
  const int32_t extents[3] = {4}, at = 3;
  const uint64_t box_low[3] = {0}, box_high[3] = {9};
  const tsr_range from = {.low = &at}, to = {.high = &at};
  made_open(&m, true, 1, false, 0, 9, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, box_low, box_high, value_of);
  made_finish_dense(&m);
  tsr_reader *reader;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  for (int open = 0; open < 2; open++) {
    const tsr_ranges ranges = {.ranges = open ? &to : &from, .count = 1};
    const tsr_request ask = {.dimensions = &ranges};
    assert_null(tsr__single_value(&m.fields[0], &ranges));
    assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, 16, NULL), open ? 4 : 7);
  }
  tsr_reader_close(reader);
  made_close(&m);
}

static void test_a_cell_has_the_same_rowid_in_all_requests(void **state) {
  (void)state;
  static made_row all[4096], some[4096];
  made_array m;
  const int32_t extents[3] = {4, 4, 4};
  const uint64_t a_low[3] = {0, 0}, a_high[3] = {5, 5}, b_low[3] = {8, 9}, b_high[3] = {12, 12};
  made_open(&m, true, 2, false, 0, 12, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, a_low, a_high, value_of);
  made_dense(&m, 2, b_low, b_high, value_of);
  made_finish_dense(&m);
  for (int domain = 0; domain < 2; domain++) {
    tsr_reader *reader;
    m.snapshot.unwritten_row_base = domain ? INT64_C(1) << 61 : -1;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    const int64_t count = made_read(reader, &m, all, 4096, NULL);
    assert_int_equal(count, 13 * 13);
    for (unsigned round = 0; round < 40; round++) {
      made_request request;
      made_random_request(&request, 2, false, 0, 12);
      const tsr_request ask = {.dimensions = request.dimensions};
      assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
      const int64_t found = made_read(reader, &m, some, 4096, NULL);
      for (int64_t i = 0; i < found; i++) {
        int64_t k = 0;
        while (k < count && memcmp(all[k].cell.at, some[i].cell.at, sizeof some[i].cell.at) != 0) k++;
        assert_true(k < count);
        assert_int_equal(all[k].rowid, some[i].rowid);
        if (domain && !some[i].written)
          assert_int_equal(some[i].rowid, (INT64_C(1) << 61) + some[i].cell.at[0] * 13 + some[i].cell.at[1]);
      }
    }
    tsr_reader_close(reader);
  }
  made_close(&m);
}

/* Counting decodes no tile, one field decodes that field alone, and cells that a newer fragment hides are not
 * decoded. */
static void test_only_needed_tiles_are_decoded(void **state) {
  (void)state;
  static made_row rows[4096];
  made_array m;
  const int32_t extents[3] = {5, 5};
  const uint64_t low[3] = {0, 0}, high[3] = {19, 19}, half[3] = {9, 19};
  made_open(&m, true, 2, false, 0, 19, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_dense(&m, 2, low, half, value_of);
  made_finish_dense(&m);
  tsr_reader *reader;
  tsr_counters counters;
  const tsr_batch *batch;
  const tsr_column *column;
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
  uint64_t cells = 0;
  while (tsr_reader_next(reader, &batch, NULL) > 0) {
    assert_int_equal(tsr_reader_column(reader, 0, &column, NULL), TSR_OK); /* coordinates are not stored */
    cells += batch->count;
  }
  assert_int_equal(cells, 400);
  tsr_environment_counters(m.environment, &counters);
  assert_int_equal(counters.tiles_read, 0);
  assert_int_equal(counters.fragments_considered, 2);
  assert_int_equal(counters.tiles_considered, 16 + 8);

  const bool fields[4] = {false, false, true, false};
  const tsr_request ask = {.fields = fields};
  tsr_environment_reset_counters(m.environment);
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  while (tsr_reader_next(reader, &batch, NULL) > 0) {}
  tsr_environment_counters(m.environment, &counters);
  assert_int_equal(counters.tiles_read, 16);
  assert_int_equal(counters.cells_decoded, 16 * 25);
  tsr_environment_reset_counters(m.environment);
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 4096, NULL), 400);
  tsr_environment_counters(m.environment, &counters);
  assert_int_equal(counters.tiles_cached, 16);
  assert_int_equal(counters.tiles_read, 16); /* of the other attribute, when it is read */

  /* A range in one tile, outside of the newer fragment. */
  const int32_t at = 12;
  const tsr_range range = {.low = &at, .high = &at};
  const tsr_ranges ranges[2] = {{.ranges = &range, .count = 1}, {.ranges = &range, .count = 1}};
  const tsr_request point = {.dimensions = ranges, .fields = fields};
  tsr_environment_reset_counters(m.environment);
  assert_int_equal(tsr_reader_start(reader, &point, NULL), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 4096, NULL), 1);
  tsr_environment_counters(m.environment, &counters);
  assert_int_equal(counters.fragments_skipped, 1);
  assert_int_equal(counters.tiles_considered, 16);
  assert_int_equal(counters.tiles_skipped_by_domain, 15);
  tsr_reader_close(reader);
  made_close(&m);
}

/* Two cells were written in a domain of more than 2^60 tiles. */
static void test_cells_far_apart_in_a_huge_domain_are_found_at_once(void **state) {
  (void)state;
  made_array m;
  const int32_t extents[3] = {1, 1, 1};
  const uint64_t first[3] = {0}, last[3] = {4294967294, 4294967294, 4294967294};
  made_open(&m, true, 3, false, INT32_MIN, INT32_MAX - 1, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, first, first, value_of);
  made_dense(&m, 2, last, last, value_of);
  made_finish_dense(&m);
  tsr_reader *reader;
  const tsr_batch *batch;
  const bool fields[5] = {true, true, true, true, true};
  const tsr_request ask = {.fields = fields};
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
  int64_t before = 0;
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
    assert_int_equal(batch->written, i == 0);
    assert_int_equal(batch->count, 1);
    assert_true(batch->row_base != before);
    before = batch->row_base;
  }
  tsr_estimate estimate;
  assert_int_equal(tsr_request_estimate(&m.snapshot, &ask, &estimate, NULL), TSR_OK);
  assert_true(estimate.rows > 7e28 && estimate.tiles == 2);
  tsr_reader_close(reader);
  made_close(&m);
}

static bool stop(void *argument) {
  int *calls = argument;
  return --*calls <= 0;
}

static void test_budgets_and_cancellation_are_errors(void **state) {
  (void)state;
  static made_row rows[12000];
  made_array m;
  tsr_error error = {0};
  const int32_t extents[3] = {100, 100};
  const uint64_t low[3] = {0, 0}, high[3] = {99, 99};
  made_open(&m, true, 2, false, 0, 99, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_finish_dense(&m);
  tsr_reader *reader;
  const bool fields[4] = {false, false, true, true};
  tsr_request ask = {.fields = fields, .memory_bytes = 30000};
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  const tsr_batch *batch;
  assert_int_equal(tsr_reader_next(reader, &batch, &error), TSR_BUDGET);
  assert_non_null(strstr(error.message, "memory_mb"));
  assert_non_null(strstr(error.message, "fragment __1_1_0_22, field a, tile 0"));
  assert_int_equal(tsr_reader_next(reader, &batch, &error), 0);
  ask.memory_bytes = 0;
  int calls = 0; /* the first check for cancellation */
  m.environment->memory.cancel.requested = stop;
  m.environment->memory.cancel.argument = &calls;
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  assert_int_equal(tsr_reader_next(reader, &batch, &error), TSR_INTERRUPT);
  calls = 1000;
  assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
  assert_int_equal(made_read(reader, &m, rows, 12000, &error), 10000);
  tsr_reader_close(reader);
  made_close(&m);
}

/* Takes no tile, and fails once in the middle of one. */
typedef struct failing_shortcut {
  uint64_t fails_at;
  uint64_t offers[400]; /* by tile */
} failing_shortcut;

static int fail_once(void *argument, const tsr_whole_tile *whole, tsr_error *error) {
  failing_shortcut *s = argument;
  s->offers[whole->tile]++;
  return whole->tile == s->fails_at && s->offers[whole->tile] == 1 ? tsr__fail(error, TSR_NOMEM, "out of memory") : 0;
}

/* What the shortcut was offered when it failed is not offered again, also in a window that is made ahead: it may have
 * counted some of the cells. */
static void test_a_failed_shortcut_is_asked_no_more(void **state) {
  (void)state;
  static made_row rows[12000];
  made_array m;
  const int32_t extents[3] = {5, 5};
  const uint64_t low[3] = {0, 0}, high[3] = {99, 99};
  made_open(&m, true, 2, false, 0, 99, extents);
  made_finish_grid(&m);
  made_dense(&m, 1, low, high, value_of);
  made_finish_dense(&m);
  const bool fields[4] = {false, false, true, true};
  const tsr_request ask = {.fields = fields, .threads = 2};
  for (uint64_t at = 0; at < 400; at += 7) {
    failing_shortcut shortcut = {.fails_at = at};
    tsr_error error = {0};
    tsr_reader *reader;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    reader->mode.take = fail_once;
    reader->mode.take_argument = &shortcut;
    assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, 12000, &error), TSR_NOMEM);
    assert_int_equal(shortcut.offers[at], 1);
    tsr_reader_close(reader);
  }
  made_close(&m);
}

/* Every allocation fails once. No memory is lost, and the reader works afterwards. */
static void test_each_failing_allocation_is_an_error(void **state) {
  (void)state;
  static made_row rows[1000];
  for (long left = 0;; left++) {
    made_array m;
    tsr_error error = {0};
    const int32_t extents[3] = {4, 4};
    const uint64_t low[3] = {0, 0}, high[3] = {7, 7}, low2[3] = {2, 2}, high2[3] = {5, 8};
    made_open(&m, true, 2, false, 0, 8, extents);
    made_finish_grid(&m);
    made_dense(&m, 1, low, high, value_of);
    made_dense(&m, 2, low2, high2, value_of);
    made_finish_dense(&m);
    m.array.threads = 1;
    tsr_reader *reader = NULL;
    const bool fields[4] = {true, true, true, true};
    const tsr_request ask = {.fields = fields};
    m.memory.left = left;
    int r = tsr_reader_open(&m.snapshot, &reader, &error);
    if (r >= 0) r = tsr_reader_start(reader, &ask, &error);
    if (r >= 0) r = (int)made_read(reader, &m, rows, 1000, &error);
    m.memory.left = -1;
    if (r < 0) {
      assert_int_equal(r, TSR_NOMEM);
      assert_int_equal(error.code, TSR_NOMEM);
      if (reader) {
        assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
        assert_int_equal(made_read(reader, &m, rows, 1000, &error), 8 * 9);
      }
    }
    tsr_reader_close(reader);
    made_close(&m);
    if (r >= 0) {
      assert_int_equal(r, 8 * 9);
      break;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_newest_fragment_whose_box_has_a_cell_owns_it),
      cmocka_unit_test(test_open_ranges_are_no_single_cells),
      cmocka_unit_test(test_a_cell_has_the_same_rowid_in_all_requests),
      cmocka_unit_test(test_only_needed_tiles_are_decoded),
      cmocka_unit_test(test_cells_far_apart_in_a_huge_domain_are_found_at_once),
      cmocka_unit_test(test_budgets_and_cancellation_are_errors),
      cmocka_unit_test(test_a_failed_shortcut_is_asked_no_more),
      cmocka_unit_test(test_each_failing_allocation_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
