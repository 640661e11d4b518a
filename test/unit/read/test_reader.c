/* Tests of the public functions of readers: starting again, stopping early, reads without allocations, windows. */

#include <math.h>
#include <sched.h>
#include <string.h>

#include "read/reader.h"
#include "base/pool.h"
#include "made_array.h"

static int32_t value_of(uint64_t start, const uint64_t *ordinals) { return (int32_t)(ordinals[0] * 20 + ordinals[1]); }

static void open_both(made_array *m, bool dense) {
  static made_cell cells[400];
  const int32_t extents[2] = {5, 5};
  const uint64_t low[3] = {0, 0}, high[3] = {19, 19};
  made_open(m, dense, 2, false, 0, 19, extents);
  m->schema.capacity = 40;
  if (dense) {
    made_finish_grid(m);
    made_dense(m, 1, low, high, value_of);
    made_finish_dense(m);
    return;
  }
  for (int i = 0; i < 400; i++) cells[i] = (made_cell){.at = {i / 20, i % 20}, .value = i};
  made_sparse(m, 1, 1, cells, 400, false, false);
}

static void test_a_reader_can_be_started_again_at_any_time(void **state) {
  (void)state;
  static made_row rows[400];
  for (int dense = 0; dense < 2; dense++) {
    made_array m;
    tsr_reader *reader;
    const tsr_batch *batch;
    const tsr_column *column;
    tsr_error error = {0};
    open_both(&m, dense);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(m.snapshot.references, 2);
    assert_int_equal(tsr_reader_next(reader, &batch, &error), 0); /* it has not been started */
    assert_int_equal(tsr_reader_column(reader, 0, &column, &error), TSR_ERROR);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    assert_int_equal(tsr_reader_next(reader, &batch, &error), 1);
    assert_int_equal(tsr_reader_column(reader, 2, &column, &error), TSR_OK);
    const tsr_column *same;
    assert_int_equal(tsr_reader_column(reader, 2, &same, &error), TSR_OK);
    assert_ptr_equal(column, same);
    assert_int_equal(tsr_reader_column(reader, 4, &column, &error), TSR_ERROR);
    assert_non_null(strstr(error.message, "field 4"));
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK); /* in the middle */
    assert_int_equal(made_read(reader, &m, rows, 400, &error), 400);
    assert_int_equal(tsr_reader_next(reader, &batch, &error), 0);
    assert_int_equal(tsr_reader_next(reader, &batch, &error), 0);
    assert_int_equal(tsr_reader_start(reader, NULL, NULL), TSR_OK);
    assert_int_equal(tsr_reader_next(reader, &batch, &error), 1);
    tsr_reader_close(reader); /* in the middle */
    assert_int_equal(m.snapshot.references, 1);
    tsr_reader_close(NULL);
    made_close(&m);
  }
}

static void test_two_readers_work_at_once(void **state) {
  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    made_array m;
    tsr_reader *readers[2];
    const tsr_batch *batch;
    uint64_t counts[2] = {0};
    open_both(&m, dense);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(tsr_reader_open(&m.snapshot, &readers[i], NULL), TSR_OK);
      assert_int_equal(tsr_reader_start(readers[i], NULL, NULL), TSR_OK);
    }
    for (int i = 0; tsr_reader_next(readers[i % 2], &batch, NULL) > 0; i++) counts[i % 2] += batch->count;
    while (tsr_reader_next(readers[1], &batch, NULL) > 0) counts[1] += batch->count;
    assert_int_equal(counts[0], 400);
    assert_int_equal(counts[1], 400);
    for (int i = 0; i < 2; i++) tsr_reader_close(readers[i]);
    made_close(&m);
  }
}

/* After some starts the reader has all the memory that lookups need. */
static void test_repeated_lookups_allocate_nothing(void **state) {
  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    made_array m;
    tsr_reader *reader;
    open_both(&m, dense);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    const bool fields[4] = {true, true, true, true};
    long calls = 0;
    for (int round = 0; round < 3; round++) {
      calls = m.memory.calls;
      for (int32_t i = 0; i < 400; i++) {
        made_row row;
        const int32_t x = i / 20, y = i % 20;
        const tsr_range ranges[2] = {{.low = &x, .high = &x}, {.low = &y, .high = &y}};
        const tsr_ranges dimensions[2] = {{.ranges = &ranges[0], .count = 1}, {.ranges = &ranges[1], .count = 1}};
        const tsr_request ask = {.dimensions = dimensions, .fields = fields};
        assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
        assert_int_equal(made_read(reader, &m, &row, 1, NULL), 1);
        assert_int_equal(row.cell.value, i);
      }
    }
    assert_int_equal(m.memory.calls - calls, 0);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

/* Windows grow from one tile. A limit keeps them small until more cells are taken than were likely. */
static void test_windows_grow_unless_a_limit_keeps_them_small(void **state) {
  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    uint64_t read[2];
    for (int limited = 0; limited < 2; limited++) {
      made_array m;
      tsr_reader *reader;
      const tsr_batch *batch;
      tsr_counters c;
      const bool fields[4] = {false, false, true, false};
      const tsr_request ask = {.fields = fields, .limit = limited ? 5 : 0, .threads = 2};
      open_both(&m, dense);
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
      for (int i = 0; i < 4; i++) {
        assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
        tsr_environment_counters(m.environment, &c);
        if (i < 2) assert_int_equal(c.tiles_read, limited || i == 0 ? i + 1 : 3);
      }
      tsr_environment_counters(m.environment, &c);
      read[limited] = c.tiles_read;
      tsr_reader_close(reader);
      made_close(&m);
    }
    assert_int_equal(read[0], 1 + 2 + 4);
    assert_true(read[1] >= 4 && read[1] < read[0]);
  }
}

/* ---- Kept tiles, and workers that are short of memory ------------------------------------------------------------ */

typedef struct short_worker {
  tsr_reader *reader;
  bool worker; /* the task ran on a worker */
  int code; /* what its allocation returned */
} short_worker;

static int allocate_on_worker(void *argument, uint64_t index, tsr_error *error) {
  (void)index;
  (void)error;
  short_worker *w = argument;
  void *block;
  w->worker = tsr__on_worker();
  w->code = tsr__alloc(&w->reader->memory, 1, &block, NULL);
  if (w->code >= 0) tsr__free(block);
  return TSR_OK;
}

/* The list of kept tiles has no lock. A worker that meets the limit fails and leaves the list alone, because the
 * reader's own thread may be using it; that thread gives the tiles back. */
static void test_workers_leave_kept_tiles_to_the_readers_thread(void **state) {
  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    made_array m;
    tsr_reader *reader;
    void *block;
    open_both(&m, dense);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    const int32_t xs[3] = {3, 9, 15}, y = 4; /* each in another tile */
    for (int round = 0; round < 3; round++) {
      const tsr_range ranges[2] = {{.low = &xs[round], .high = &xs[round]}, {.low = &y, .high = &y}};
      const tsr_ranges dimensions[2] = {{.ranges = &ranges[0], .count = 1}, {.ranges = &ranges[1], .count = 1}};
      made_row row;
      assert_int_equal(tsr_reader_start(reader, &(tsr_request){.dimensions = dimensions}, NULL), TSR_OK);
      assert_int_equal(made_read(reader, &m, &row, 1, NULL), 1);
    }
    const uint32_t kept = reader->tiles.kept.count;
    assert_true(kept > 0);
    const uint64_t limit = reader->memory.limit;
    reader->memory.limit = reader->memory.used;
    short_worker w = {.reader = reader};
    tsr_job job;
    tsr__job_start(&job, 1, 1, allocate_on_worker, &w);
    while (tsr__job_has_tasks(&job)) sched_yield(); /* this thread would run the task itself */
    assert_int_equal(tsr__job_finish(&job, NULL, NULL), TSR_OK);
    assert_true(w.worker);
    assert_int_equal(w.code, TSR_BUDGET);
    assert_int_equal(reader->tiles.kept.count, kept);
    assert_int_equal(tsr__alloc(&reader->memory, 1, &block, NULL), TSR_OK);
    tsr__free(block);
    assert_int_equal(reader->tiles.kept.count, 0);
    reader->memory.limit = limit;
    tsr_reader_close(reader);
    made_close(&m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_reader_can_be_started_again_at_any_time),
      cmocka_unit_test(test_two_readers_work_at_once),
      cmocka_unit_test(test_repeated_lookups_allocate_nothing),
      cmocka_unit_test(test_windows_grow_unless_a_limit_keeps_them_small),
      cmocka_unit_test(test_workers_leave_kept_tiles_to_the_readers_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
