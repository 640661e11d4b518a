/* Tests of ordered reads. Random arrays, requests, orders and budgets are compared with the same rows read without an
 * order. Then rows that do not fit into a key range, or beside the tiles; columns that are first read late; NaN;
 * failing allocations. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/datatype.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "chance.h"
#include "made_array.h"

enum { ROWS = 6000 };

static int compare(const made_array *m, const tsr_sort *order, uint32_t count, const made_row *a, const made_row *b) {
  for (uint32_t k = 0; k < count; k++) {
    const uint32_t d = order[k].dimension;
    int c = a->cell.at[d] < b->cell.at[d] ? -1 : a->cell.at[d] > b->cell.at[d];
    if (d == 0 && m->fields[0].values_per_cell == TSR_VARIABLE) c = strcmp(a->cell.text, b->cell.text);
    if (c) return order[k].descending ? -c : c;
  }
  return 0;
}

static void make_order(uint32_t dimensions, tsr_sort *order, uint32_t *count) {
  *count = 1 + made_random(dimensions + 1); /* sometimes one dimension twice */
  for (uint32_t k = 0; k < *count; k++)
    order[k] = (tsr_sort){.dimension = made_random(dimensions), .descending = made_random(2)};
}

/* Gives the fragments empty statistics: they have no metadata file to load them from. */
static void no_statistics(made_array *m) {
  for (uint64_t f = 0; f < m->snapshot.fragment_count; f++) {
    tsr_fragment_metadata *d = &m->fragments[f].fragment->metadata;
    d->slots[0].statistics = made_array_of(m->fragments[f].fragment, 1, sizeof(tsr_statistics));
    d->own_statistics = made_array_of(m->fragments[f].fragment, d->slot_count, sizeof(tsr_statistics));
  }
}

/* Reads the dimensions of the order, of all rows. */
static int64_t read_tuples(tsr_reader *reader, const made_array *m, const tsr_sort *order, uint32_t count,
                           made_row *rows, tsr_error *error) {
  const tsr_batch *batch;
  int64_t got = 0;
  int r;
  while ((r = tsr_reader_next(reader, &batch, error)) > 0) {
    assert_true(batch->count > 0 && (uint64_t)got + batch->count <= ROWS);
    memset(rows + got, 0, (size_t)batch->count * sizeof *rows);
    for (uint32_t k = 0; k < count; k++) {
      const uint32_t d = order[k].dimension;
      const tsr_column *c;
      if ((r = tsr_reader_column(reader, d, &c, error)) < 0) return r;
      for (uint64_t i = 0; i < batch->count; i++) {
        const uint64_t j = c->constant ? 0 : tsr_batch_index(batch, i);
        const uint8_t *values = c->values;
        made_cell *cell = &rows[(uint64_t)got + i].cell;
        if (m->fields[d].values_per_cell == TSR_VARIABLE)
          memcpy(cell->text, values + c->offsets[j], (size_t)(c->offsets[j + 1] - c->offsets[j]));
        else memcpy(&cell->at[d], values + j * c->cell_size, sizeof cell->at[d]);
      }
    }
    got += (int64_t)batch->count;
  }
  return r < 0 ? r : got;
}

static const made_array *sorted_array;
static const tsr_sort *sorted_order;
static uint32_t sorted_count;
static int by_tuple(const void *a, const void *b) { return compare(sorted_array, sorted_order, sorted_count, a, b); }

/* Checks that a distinct read gives one of all rows that are equal in the order's dimensions, in order. */
static void check_distinct(tsr_reader *reader, const made_array *m, tsr_request request, made_row *all, int64_t total) {
  static made_row some[ROWS];
  bool fields[MADE_DIMENSIONS + MADE_ATTRIBUTES] = {false};
  tsr_error error = {0};
  uint64_t tuples = 0;
  request.distinct = true;
  request.fields = fields;
  for (uint32_t k = 0; k < request.order_count; k++) fields[request.order[k].dimension] = made_random(2);
  const int started = tsr_reader_start(reader, &request, &error);
  const int64_t got = started < 0 ? started : read_tuples(reader, m, request.order, request.order_count, some, &error);
  if (got == TSR_BUDGET && request.memory_bytes > 0) return;
  assert_true(got >= 0);
  sorted_array = m;
  sorted_order = request.order;
  sorted_count = request.order_count;
  qsort(all, (size_t)total, sizeof all[0], by_tuple);
  for (int64_t i = 0; i < total; i++) {
    if (i > 0 && by_tuple(&all[i - 1], &all[i]) == 0) continue;
    assert_true((int64_t)tuples < got);
    assert_int_equal(by_tuple(&all[i], &some[tuples]), 0);
    tuples++;
  }
  assert_int_equal(tuples, got);
}

static void check_orders(made_array *m, unsigned rounds) {
  static made_row all[ROWS], some[ROWS];
  const uint32_t n = m->schema.dimension_count;
  bool fields[MADE_DIMENSIONS + MADE_ATTRIBUTES] = {false};
  tsr_reader *reader;
  tsr_error error = {0};
  no_statistics(m);
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, NULL), TSR_OK);
  for (unsigned round = 0; round < rounds; round++) {
    made_request ask;
    tsr_sort order[MADE_DIMENSIONS + 1];
    uint32_t count;
    const int32_t low = (int32_t)made_random(100), high = low + (int32_t)made_random(300);
    const tsr_range within = {.low = &low, .high = &high};
    const tsr_predicate predicate = {.field = n, .ranges = {.ranges = &within, .count = 1}};
    tsr_request request = {.times = made_random(2), .fill_unwritten = made_random(2), .fields = fields};
    for (uint32_t f = 0; f < n + MADE_ATTRIBUTES; f++) fields[f] = made_random(2);
    if (made_random(3)) {
      const bool text = m->fields[0].values_per_cell == TSR_VARIABLE;
      made_random_request(&ask, n, text, m->schema.dense ? -3 : -40, m->schema.dense ? 12 : 40);
      request.dimensions = ask.dimensions;
    }
    if (made_random(3) == 0) {
      request.predicates = &predicate;
      request.predicate_count = 1;
    }
    if (tsr_reader_start(reader, &request, &error) < 0) fail_msg("%s", error.message);
    const int64_t total = made_read(reader, m, all, ROWS, &error);
    assert_true(total >= 0);
    qsort(all, (size_t)total, sizeof all[0], made_by_rowid);
    make_order(n, order, &count);
    request.order = order;
    request.order_count = count;
    request.limit = made_random(2) * made_random(60);
    if (made_random(2)) request.memory_bytes = 6000 + made_random(60000);
    const int started = tsr_reader_start(reader, &request, &error);
    const int64_t got = started < 0 ? started : made_read(reader, m, some, ROWS, &error);
    if (got == TSR_BUDGET && request.memory_bytes > 0) continue;
    assert_int_equal(got, total);
    for (int64_t i = 1; i < got; i++) assert_true(compare(m, order, count, &some[i - 1], &some[i]) <= 0);
    qsort(some, (size_t)got, sizeof some[0], made_by_rowid);
    for (int64_t i = 0; i < got; i++) {
      assert_int_equal(some[i].rowid, all[i].rowid);
      assert_int_equal(some[i].cell.value, all[i].cell.value);
      assert_int_equal(some[i].written, all[i].written);
      if (all[i].written && request.times) assert_int_equal(some[i].time, all[i].time);
      assert_memory_equal(some[i].cell.at, all[i].cell.at, sizeof all[i].cell.at);
      assert_string_equal(some[i].cell.text, all[i].cell.text);
    }
    if (request.predicate_count == 0) check_distinct(reader, m, request, all, total);
  }
  tsr_reader_close(reader);
}

static void test_rows_of_dense_arrays_come_in_any_order(void **state) {
  (void)state;
  for (unsigned round = 0; round < rounds_of(60); round++) {
    made_array m;
    const uint32_t n = 1 + made_random(3);
    const int32_t extents[3] = {1 + (int32_t)made_random(6), 1 + (int32_t)made_random(6), 1 + (int32_t)made_random(6)};
    made_open(&m, true, n, false, -3, 12, extents);
    m.schema.cell_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    m.schema.tile_order = made_random(2) ? TSR_ORDER_ROW : TSR_ORDER_COL;
    m.chunk = 8 * made_random(5);
    made_finish_grid(&m);
    for (uint64_t f = 0, fragments = 1 + made_random(3); f < fragments; f++) {
      uint64_t low[3], high[3];
      for (uint32_t d = 0; d < n; d++) {
        low[d] = f == 0 && made_random(2) ? 0 : made_random(16);
        high[d] = low[d] + made_random((uint32_t)(16 - low[d]));
        if (f == 0 && made_random(2)) high[d] = 15;
      }
      made_dense(&m, f + 1, low, high, made_value);
    }
    made_finish_dense(&m);
    check_orders(&m, 12);
    made_close(&m);
  }
}

static void test_rows_of_sparse_arrays_come_in_any_order(void **state) {
  (void)state;
  for (unsigned round = 0; round < rounds_of(120); round++) {
    made_array m;
    const bool text = round % 3 == 2;
    const uint32_t n = 1 + made_random(3), wide = 1u << made_random(11);
    made_open(&m, false, n, text, -2000, 2000, NULL);
    m.schema.capacity = 1 + made_random(30);
    m.schema.allows_duplicates = made_random(3) == 0;
    for (uint64_t f = 0, fragments = 1 + made_random(4); f < fragments; f++) {
      static made_cell cells[300];
      const uint64_t count = 1 + made_random(300);
      memset(cells, 0, sizeof cells);
      for (uint64_t i = 0; i < count; i++) {
        for (uint32_t d = 0; d < n; d++) cells[i].at[d] = (int32_t)made_random(wide) - (int32_t)wide / 2;
        if (text) {
          cells[i].at[0] = 0;
          for (uint32_t k = made_random(4); k-- > 0;) cells[i].text[k] = (char)('a' + made_random(1 + wide / 40));
        }
        cells[i].value = (int32_t)made_random(400);
      }
      if (!m.schema.allows_duplicates) { /* one cell for each coordinate */
        uint64_t kept = 0;
        for (uint64_t i = 0; i < count; i++) {
          bool again = false;
          for (uint64_t j = 0; j < kept; j++)
            again |= !memcmp(cells[i].at, cells[j].at, sizeof cells[i].at) && !strcmp(cells[i].text, cells[j].text);
          if (!again) cells[kept++] = cells[i];
        }
        made_sparse(&m, f + 1, f + 1, cells, kept, false, false);
      } else {
        made_sparse(&m, f + 1, f + 1, cells, count, false, false);
      }
    }
    check_orders(&m, 12);
    made_close(&m);
  }
}

/* On one dimension of the order, and on all of them. */
static void test_more_equal_values_than_a_key_range_holds(void **state) {
  (void)state;
  static made_cell cells[5000];
  static made_row rows[ROWS];
  for (unsigned text = 0; text < 2; text++) {
    made_array m;
    tsr_reader *reader;
    tsr_error error = {0};
    made_open(&m, false, 2, text, 0, 5000, NULL);
    m.schema.capacity = 50;
    for (int32_t i = 0; i < 5000; i++) {
      cells[i] = (made_cell){.at = {text ? 0 : i < 10 ? i : 77, (i * 7919) % 5000}, .value = i};
      if (text) snprintf(cells[i].text, sizeof cells[i].text, "%s", i < 10 ? "a" : i < 4990 ? "mm" : "z");
    }
    made_sparse(&m, 1, 1, cells, 5000, false, false);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    for (unsigned round = 0; round < 8; round++) {
      const tsr_sort order[2] = {{.descending = round & 1}, {.dimension = 1, .descending = round & 2}};
      const uint32_t count = round & 4 ? 2 : 1;
      tsr_request request = {.order = order, .order_count = count, .limit = 10, .memory_bytes = 200000};
      assert_int_equal(tsr_reader_start(reader, &request, &error), TSR_OK);
      assert_int_equal(made_read(reader, &m, rows, ROWS, &error), 5000);
      for (int64_t i = 1; i < 5000; i++) assert_true(compare(&m, order, count, &rows[i - 1], &rows[i]) <= 0);
    }
    tsr_reader_close(reader);
    made_close(&m);
  }
}

static void test_the_first_rows_of_an_order_decode_few_tiles(void **state) {
  (void)state;
  static made_cell cells[5000];
  made_array m;
  tsr_reader *reader;
  tsr_counters before, after;
  const tsr_batch *batch;
  made_open(&m, false, 1, false, 0, 5000, NULL);
  m.schema.capacity = 50;
  for (int32_t i = 0; i < 5000; i++) cells[i] = (made_cell){.at = {i}, .value = i};
  made_sparse(&m, 1, 1, cells, 5000, false, false);
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  for (unsigned descending = 0; descending < 2; descending++) {
    const tsr_sort order = {.descending = descending};
    const tsr_request request = {.order = &order, .order_count = 1, .limit = 1};
    tsr_environment_counters(m.environment, &before);
    assert_int_equal(tsr_reader_start(reader, &request, NULL), TSR_OK);
    assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
    tsr_environment_counters(m.environment, &after);
    assert_true(after.tiles_read - before.tiles_read <= 24); /* of 100 tiles */
  }
  tsr_reader_close(reader);
  made_close(&m);
}

/* The first dimension has few values, strings or numbers. The order has one dimension, or both. */
static void test_the_first_rows_of_a_value_with_many_tiles_decode_few_tiles(void **state) {
  (void)state;
  static made_cell cells[5000];
  for (unsigned kind = 0; kind < 2; kind++) {
    made_array m;
    tsr_reader *reader;
    tsr_counters before, after;
    const tsr_batch *batch;
    made_open(&m, false, 2, kind == 0, 0, 5000, NULL);
    m.schema.capacity = 50;
    for (int32_t i = 0; i < 5000; i++) {
      cells[i] = (made_cell){.at = {kind == 0 ? 0 : i / 2500, i % 2500}, .value = i};
      if (kind == 0) snprintf(cells[i].text, sizeof cells[i].text, "%s", i < 2500 ? "chr1" : "chr2");
    }
    made_sparse(&m, 1, 1, cells, 5000, false, false);
    for (unsigned round = 0; round < 8; round++) {
      const tsr_sort order[2] = {{.descending = round & 1}, {.dimension = 1, .descending = round & 2}};
      const tsr_request request = {.order = order, .order_count = round & 4 ? 1 : 2, .limit = 1};
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      tsr_environment_counters(m.environment, &before);
      assert_int_equal(tsr_reader_start(reader, &request, NULL), TSR_OK);
      uint64_t rows = 0;
      for (int r; rows < 5000 && (r = tsr_reader_next(reader, &batch, NULL)) == 1;) {
        if (rows == 0) {
          tsr_environment_counters(m.environment, &after);
          if (after.tiles_read - before.tiles_read > 48) /* of at least 200 tiles */
            fail_msg("kind %u, round %u: %u tiles are read", kind, round,
                     (unsigned)(after.tiles_read - before.tiles_read));
        }
        const tsr_column *values;
        assert_int_equal(tsr_reader_column(reader, 2, &values, NULL), TSR_OK);
        for (uint64_t k = 0; k < batch->count; k++, rows++) {
          const int32_t value = (int32_t)tsr__load32((const uint8_t *)values->values + 4 * tsr_batch_index(batch, k));
          if (round & 4) { /* rows with the same value may come in any sequence */
            assert_int_equal(value / 2500, (rows < 2500) == !(round & 1) ? 0 : 1);
            continue;
          }
          const int32_t first = (rows < 2500) == !(round & 1) ? 0 : 2500, place = (int32_t)(rows % 2500);
          assert_int_equal(value, first + (round & 2 ? 2499 - place : place));
        }
      }
      assert_int_equal(rows, 5000);
      assert_int_equal(tsr_reader_next(reader, &batch, NULL), 0);
      tsr_reader_close(reader);
      tsr__cache_forget(m.array.cache, m.snapshot.fragments[0].fragment->id);
    }
    made_close(&m);
  }
}

static struct {
  const made_array *array;
  const tsr_request *request;
} sorting;

static int by_order(const void *a, const void *b) {
  return compare(sorting.array, sorting.request->order, sorting.request->order_count, a, b);
}

/* Starts a request in an order, takes the first `wanted` rows, and compares them with all `cells`, sorted. Returns how
 * many rows the first batch has. */
static uint64_t take_first(made_array *m, tsr_reader *reader, const tsr_request *request, const made_cell *cells,
                           uint64_t count, uint64_t wanted) {
  static made_row sorted[ROWS];
  const tsr_batch *batch;
  uint64_t kept = 0, got = 0, first = 0;
  for (uint64_t i = 0; i < count; i++) {
    const tsr_ranges *within = request->dimensions;
    bool in = !within || within[0].all;
    for (uint64_t k = 0; !in && k < within[0].count; k++)
      in = cells[i].at[0] >= *(const int32_t *)within[0].ranges[k].low &&
           cells[i].at[0] <= *(const int32_t *)within[0].ranges[k].high;
    if (!in) continue;
    sorted[kept++] = (made_row){.cell = cells[i]};
  }
  sorting.array = m;
  sorting.request = request;
  qsort(sorted, kept, sizeof sorted[0], by_order);
  assert_int_equal(tsr_reader_start(reader, request, NULL), TSR_OK);
  while (got < TSR_MIN(wanted, kept)) {
    const tsr_column *columns[2];
    tsr_error error = {0};
    if (tsr_reader_next(reader, &batch, &error) != 1) fail_msg("%s", error.message);
    if (got == 0) first = batch->count;
    for (uint32_t d = 0; d < 2; d++)
      if (tsr_reader_column(reader, d, &columns[d], &error) < 0) fail_msg("%s", error.message);
    for (uint64_t r = 0; r < batch->count && got < kept; r++, got++) {
      made_row row = {0};
      for (uint32_t d = 0; d < 2; d++)
        memcpy(&row.cell.at[d], (const uint8_t *)columns[d]->values + 4 * tsr_batch_index(batch, r), 4);
      assert_int_equal(by_order(&row, &sorted[got]), 0);
    }
  }
  return first;
}

/* Tiles overlap along the order, as those of a space-filling curve do; or rows lie unevenly in them; or many rows are
 * equal. Reads parts of the domain, and from the middle on as OFFSET does, with small budgets. */
static void test_the_first_rows_come_in_order_wherever_tiles_and_rows_lie(void **state) {
  (void)state;
  static made_cell cells[5000];
  for (unsigned kind = 0; kind < 5; kind++) {
    made_array m;
    tsr_reader *reader;
    made_open(&m, false, 2, false, -1000000, 1000000, NULL);
    m.schema.capacity = 50;
    m.schema.allows_duplicates = kind == 4;
    for (int32_t i = 0; i < 5000; i++) { /* tile by tile: 10 x 10 tiles */
      const int32_t tile = i / 50, x = tile % 10 * 1000 + (int32_t)made_random(1000), y = tile / 10;
      cells[i] = (made_cell){.at = {x, y * 1000 + i % 500}, .value = i};
      if (kind == 1) cells[i].at[0] = i % 50 ? x % 7 : 999999 - i; /* nearly all rows lie where the boxes begin */
      if (kind == 2) cells[i].at[0] = i % 50 ? 999999 - x % 7 : -i; /* nearly all rows lie where the boxes end */
      if (kind == 3) cells[i].at[0] = tile % 10; /* one value for each tile */
      if (kind == 4) cells[i] = (made_cell){.at = {x % 3, y % 2}, .value = i}; /* duplicates */
    }
    made_sparse(&m, 1, 1, cells, 5000, false, false);
    const int32_t ends[4] = {-3, 2, 5200, 5900};
    const tsr_range ranges[2] = {{.low = &ends[0], .high = &ends[1]}, {.low = &ends[2], .high = &ends[3]}};
    const tsr_ranges parts[2] = {{.ranges = ranges, .count = 2}, {.all = true}};
    for (unsigned round = 0; round < 24; round++) {
      const tsr_sort order[2] = {{.descending = round & 1}, {.dimension = 1, .descending = round & 2}};
      const uint64_t wanted = round % 3 == 0 ? 1 : round % 3 == 1 ? 100 : 2000;
      tsr_request request = {.order = order, .order_count = 2, .limit = wanted, .memory_bytes = round & 4 ? 200000 : 0};
      if (round & 8) request.dimensions = parts;
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      const uint64_t first = take_first(&m, reader, &request, cells, 5000, wanted);
      if (kind == 0 && wanted <= 100 && !(round & 12)) assert_in_range(first, 100, 600); /* a column of tiles has 500 */
      tsr_reader_close(reader);
    }
    made_close(&m);
  }
}

static void test_NaN_comes_before_all_numbers(void **state) {
  (void)state;
  static made_cell cells[40];
  static const float values[40] = {1, NAN, 3, -2, INFINITY, NAN, 0, -0.0f, -INFINITY, 7};
  for (unsigned round = 0; round < 4; round++) {
    made_array m;
    tsr_reader *reader;
    const tsr_batch *batch;
    made_open(&m, false, 1, false, 0, 100, NULL);
    m.fields[0].datatype = TSR_FLOAT32;
    m.schema.allows_duplicates = true;
    m.schema.capacity = round & 2 ? 50 : 3;
    for (int32_t i = 0; i < 40; i++) {
      memcpy(&cells[i].at[0], &values[i], 4);
      cells[i].value = i;
    }
    tsr_fragment *f = made_sparse(&m, 1, 1, cells, 40, false, false);
    uint64_t *keys = f->metadata.rtree->keys[0];
    for (uint64_t t = 0; t < f->metadata.tile_count; t++)
      keys[2 * t] = tsr__key_min(TSR_FLOAT32), keys[2 * t + 1] = tsr__key_max(TSR_FLOAT32);
    const float ends[2] = {-INFINITY, INFINITY};
    memcpy(f->metadata.non_empty_domain[0].low, &ends[0], 4);
    memcpy(f->metadata.non_empty_domain[0].high, &ends[1], 4);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    const tsr_sort order = {.descending = round & 1};
    const tsr_request request = {.order = &order, .order_count = 1};
    assert_int_equal(tsr_reader_start(reader, &request, NULL), TSR_OK);
    double last = round & 1 ? INFINITY : -INFINITY;
    uint64_t count = 0, nans = 0;
    while (tsr_reader_next(reader, &batch, NULL) > 0) {
      const tsr_column *column;
      assert_int_equal(tsr_reader_column(reader, 0, &column, NULL), TSR_OK);
      for (uint64_t r = 0; r < batch->count; r++, count++) {
        float v;
        const uint64_t i = batch->selection ? batch->selection[r] : batch->first + r;
        memcpy(&v, (const uint8_t *)column->values + 4 * i, 4);
        if (isnan(v)) {
          assert_true(round & 1 ? count >= 38 : count < 2);
          nans++;
          continue;
        }
        assert_true(round & 1 ? v <= last : v >= last);
        last = v;
      }
    }
    assert_int_equal(count, 40);
    assert_int_equal(nans, 2);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

/* Reads all rows. Returns their number, or the error. */
static int64_t read_within(made_array *m, tsr_request *request, uint64_t bytes, made_row *rows) {
  tsr_reader *reader;
  tsr_error error = {0};
  request->memory_bytes = bytes;
  assert_int_equal(tsr_reader_open(&m->snapshot, &reader, NULL), TSR_OK);
  int64_t r = tsr_reader_start(reader, request, &error);
  if (r >= 0) r = made_read(reader, m, rows, ROWS, &error);
  tsr_reader_close(reader);
  if (r < 0) assert_int_equal(r, TSR_BUDGET);
  return r;
}

/* The tiles of several fragments overlap. */
static void test_an_order_needs_little_more_memory_than_the_same_rows_without(void **state) {
  (void)state;
  static made_cell cells[ROWS];
  static made_row rows[ROWS];
  for (unsigned text = 0; text < 2; text++) {
    made_array m;
    bool fields[2 + MADE_ATTRIBUTES];
    uint64_t bytes = 4096;
    made_open(&m, false, 2, text, 0, ROWS, NULL);
    m.schema.capacity = 500;
    for (uint64_t f = 0; f < 3; f++) {
      for (int32_t i = 0; i < ROWS / 3; i++) {
        cells[i] = (made_cell){.at = {text ? 0 : 3 * i + (int32_t)f, (i * 7919) % 1009}, .value = i};
        if (text) snprintf(cells[i].text, sizeof cells[i].text, "%d", 1000 + i % 263);
      }
      made_sparse(&m, f + 1, f + 1, cells, ROWS / 3, false, false);
    }
    memset(fields, 1, sizeof fields);
    tsr_request request = {.fields = fields, .threads = 1};
    int64_t all;
    while ((all = read_within(&m, &request, bytes, rows)) < 0) bytes += bytes / 16;
    for (unsigned round = 0; round < 16; round++) {
      const tsr_sort order[2] = {{.dimension = round & 1, .descending = round & 2},
                                 {.dimension = !(round & 1), .descending = round & 4}};
      request.order = order;
      request.order_count = 1 + round / 8;
      assert_int_equal(read_within(&m, &request, bytes + bytes / 8, rows), all);
      for (int64_t i = 1; i < all; i++)
        assert_true(compare(&m, order, request.order_count, &rows[i - 1], &rows[i]) <= 0);
    }
    made_close(&m);
  }
}

/* The starts of tiles are only kept if there is memory for them. */
static void test_no_order_fails_for_want_of_memory_for_tile_starts(void **state) {
  (void)state;
  static made_cell cells[ROWS];
  static made_row rows[ROWS];
  made_array m;
  bool fields[3 + MADE_ATTRIBUTES];
  uint64_t bytes = 4096;
  made_open(&m, false, 3, false, 0, ROWS, NULL);
  m.schema.capacity = 2;
  for (int32_t i = 0; i < ROWS; i++)
    cells[i] = (made_cell){.at = {i / (ROWS / 3), i % (ROWS / 3) / (ROWS / 12), i}, .value = i};
  made_sparse(&m, 1, 1, cells, ROWS, false, false);
  memset(fields, 1, sizeof fields);
  tsr_request request = {.fields = fields, .threads = 1};
  while (read_within(&m, &request, bytes, rows) < 0) bytes += bytes / 16;
  for (unsigned round = 0; round < 8; round++) {
    const tsr_sort order[3] = {{.descending = round & 1},
                               {.dimension = 1, .descending = round & 2},
                               {.dimension = 2, .descending = round & 4}};
    request.order = order;
    request.order_count = 3;
    for (uint64_t part = 8 + round % sample(); part <= 16; part += sample()) {
      if (read_within(&m, &request, bytes / 4 * part, rows) != ROWS)
        fail_msg("round %u: not within %u/4 of a scan's", round, (unsigned)part);
      for (int64_t i = 1; i < ROWS; i++) assert_true(compare(&m, order, 3, &rows[i - 1], &rows[i]) <= 0);
    }
  }
  made_close(&m);
}

static bool count_question(void *argument) {
  ++*(unsigned *)argument;
  return false;
}

/* The schema claims any number of cells for a tile, and the box of the tile has none at most places. */
static void test_key_ranges_grow_if_a_schema_claims_too_many_cells(void **state) {
  (void)state;
  static made_row rows[ROWS];
  const made_cell cells[] = {{.at = {0}, .value = 1}, {.at = {1000000}, .value = 2}, {.at = {1000001}, .value = 3}};
  for (uint64_t capacity = 2; capacity != 0; capacity *= 8) {
    made_array m;
    tsr_reader *reader;
    tsr_error error = {0};
    unsigned questions = 0;
    made_open(&m, false, 1, false, 0, 1000001, NULL);
    m.environment->memory.cancel.requested = count_question;
    m.environment->memory.cancel.argument = &questions;
    m.schema.capacity = 2;
    tsr_fragment *f = made_sparse(&m, 1, 1, cells, 3, false, false);
    made_set32(f->metadata.non_empty_domain[0].low, 1000001);
    m.schema.capacity = capacity;
    const tsr_sort order = {.descending = capacity % 3 == 2};
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, &(tsr_request){.order = &order, .order_count = 1, .threads = 1}, &error),
                     TSR_OK);
    const int64_t r = made_read(reader, &m, rows, ROWS, &error);
    if (r < 0) assert_true(r == TSR_CORRUPT || r == TSR_BUDGET);
    if (questions == 0 || questions > 200)
      fail_msg("capacity %llu: %u questions, %lld rows", (unsigned long long)capacity, questions, (long long)r);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

static bool stop_after_many(void *argument) { return ++*(unsigned *)argument > 2000; }

/* If boxes in an R-tree are wrong, a key range with too many of their cells must neither be cut before its own
 * beginning nor become shorter value by value, for ever. */
static void test_cells_outside_their_boxes_are_an_error(void **state) {
  (void)state;
  static made_cell cells[400];
  static made_row rows[ROWS];
  unsigned damaged = 0;
  for (unsigned round = 0; round < 128; round++) {
    const bool text = round & 1;
    made_array m;
    tsr_reader *reader;
    tsr_error error = {0};
    unsigned questions = 0;
    made_open(&m, false, 2, text, INT32_MIN + 1, INT32_MAX - 1, NULL);
    m.schema.capacity = 100;
    for (int32_t i = 0; i < 400; i++) {
      cells[i] = (made_cell){.at = {text ? 0 : i / 100 * 1000000, i}, .value = i};
      if (text) cells[i].text[0] = (char)('a' + i / 100);
    }
    tsr_rtree *rtree = made_sparse(&m, 1, 1, cells, 400, false, false)->metadata.rtree;
    for (uint64_t t = 1; t < 3; t++) /* the tiles in the middle get the box of the first or the last one */
      for (uint64_t end = 0; end < 2; end++) {
        const uint64_t other = (round & 2 ? 3 : 0) * 4 + end;
        rtree->keys[0][t * 4 + end] = rtree->keys[0][other];
        if (text) rtree->sizes[0][t * 4 + end] = rtree->sizes[0][other];
      }
    no_statistics(&m);
    const tsr_sort order[2] = {{.descending = round & 4}, {.dimension = 1}};
    const tsr_request request = {
        .order = order, .order_count = round & 8 ? 2 : 1, .memory_bytes = 14000 + round / 16 * 6000, .threads = 1};
    m.environment->memory.cancel.requested = stop_after_many;
    m.environment->memory.cancel.argument = &questions;
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    int64_t r = tsr_reader_start(reader, &request, &error);
    if (r >= 0) r = made_read(reader, &m, rows, ROWS, &error);
    if (r != 400 && r != TSR_CORRUPT && r != TSR_BUDGET)
      fail_msg("round %u: %lld after %u questions", round, (long long)r, questions);
    damaged += r == TSR_CORRUPT;
    tsr_reader_close(reader);
    made_close(&m);
  }
  assert_true(damaged > 0);
}

static void test_failing_allocations_lose_nothing(void **state) {
  (void)state;
  static made_row rows[ROWS];
  static made_cell cells[200];
  made_array m;
  const tsr_sort order[2] = {{.descending = true}, {.dimension = 1}};
  const tsr_request request = {.order = order, .order_count = 2, .threads = 1};
  made_open(&m, false, 2, true, 0, 5000, NULL);
  m.environment->single_threaded = true;
  for (int32_t i = 0; i < 200; i++) {
    cells[i] = (made_cell){.at = {0, i % 17}, .value = i};
    snprintf(cells[i].text, sizeof cells[i].text, "%d", i % 23);
  }
  made_sparse(&m, 1, 1, cells, 200, false, false);
  bool passed = false;
  for (long left = 0; !passed; left += sample()) {
    tsr_reader *reader = NULL;
    tsr_error error = {0};
    m.memory.left = left;
    int64_t r = tsr_reader_open(&m.snapshot, &reader, &error);
    if (r >= 0) r = tsr_reader_start(reader, &request, &error);
    if (r >= 0) r = made_read(reader, &m, rows, ROWS, &error);
    m.memory.left = -1;
    if (r < 0) assert_int_equal(r, TSR_NOMEM);
    else assert_int_equal(r, 200);
    passed = r >= 0 && left > 2000;
    tsr_reader_close(reader);
  }
  made_close(&m);
}

static void test_an_order_by_an_attribute_is_refused(void **state) {
  (void)state;
  made_array m;
  tsr_reader *reader;
  tsr_error error = {0};
  const made_cell cell = {.value = 1};
  made_open(&m, false, 1, false, 0, 9, NULL);
  made_sparse(&m, 1, 1, &cell, 1, false, false);
  assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
  const tsr_sort order = {.dimension = 1}; /* an attribute */
  const tsr_request request = {.order = &order, .order_count = 1};
  assert_int_equal(tsr_reader_start(reader, &request, &error), TSR_ERROR);
  tsr_reader_close(reader);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_of_dense_arrays_come_in_any_order),
      cmocka_unit_test(test_rows_of_sparse_arrays_come_in_any_order),
      cmocka_unit_test(test_more_equal_values_than_a_key_range_holds),
      cmocka_unit_test(test_the_first_rows_of_an_order_decode_few_tiles),
      cmocka_unit_test(test_the_first_rows_of_a_value_with_many_tiles_decode_few_tiles),
      cmocka_unit_test(test_NaN_comes_before_all_numbers),
      cmocka_unit_test(test_failing_allocations_lose_nothing),
      cmocka_unit_test(test_an_order_by_an_attribute_is_refused),
      cmocka_unit_test(test_the_first_rows_come_in_order_wherever_tiles_and_rows_lie),
      cmocka_unit_test(test_an_order_needs_little_more_memory_than_the_same_rows_without),
      cmocka_unit_test(test_no_order_fails_for_want_of_memory_for_tile_starts),
      cmocka_unit_test(test_key_ranges_grow_if_a_schema_claims_too_many_cells),
      cmocka_unit_test(test_cells_outside_their_boxes_are_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
