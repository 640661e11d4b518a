/* Tests of reading ahead: tiles are loaded while the window before them is given out. Covers when that happens and when
 * it does not, readers that are closed during a load, damage, budgets, cancellation, failing allocations, and forks. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "environment/cache.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "made_array.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define CELLS 400

typedef enum kind { DENSE, STREAM, MERGED, KINDS } kind;

static int32_t value_of(uint64_t start, const uint64_t *ordinals) {
  (void)start;
  return (int32_t)(ordinals[0] * 20 + ordinals[1]);
}

/* Opens an array of 400 cells in two dimensions. DENSE: 16 space tiles. STREAM: 40 tiles of one sparse fragment.
 * MERGED: two sparse fragments, each with every other cell, so that their tiles overlap. The value of a cell is its
 * number. */
static void open_kind(made_array *m, kind k) {
  static made_cell cells[CELLS];
  const int32_t extents[2] = {5, 5};
  const uint64_t low[3] = {0, 0}, high[3] = {19, 19};
  made_open(m, k == DENSE, 2, false, 0, 19, extents);
  m->schema.capacity = 10;
  if (k == DENSE) {
    made_finish_grid(m);
    made_dense(m, 1, low, high, value_of);
    made_finish_dense(m);
    return;
  }
  const int parts = k == MERGED ? 2 : 1;
  for (int part = 0; part < parts; part++) {
    int n = 0;
    for (int i = part; i < CELLS; i += parts) cells[n++] = (made_cell){.at = {i / 20, i % 20}, .value = i};
    made_sparse(m, (uint64_t)part + 1, (uint64_t)part + 1, cells, (uint64_t)n, false, false);
  }
}

static tsr_counters counters_of(const made_array *m) {
  tsr_counters c;
  tsr_environment_counters(m->environment, &c);
  return c;
}

/* Checks that no value comes twice. */
static void check_rows(const made_row *rows, int64_t count) {
  bool seen[CELLS] = {false};
  for (int64_t i = 0; i < count; i++) {
    const int32_t value = rows[i].cell.value;
    assert_true(value >= 0 && value < CELLS && !seen[value]);
    seen[value] = true;
    assert_int_equal(rows[i].cell.at[0] * 20 + rows[i].cell.at[1], value);
  }
}

static const bool all_fields[4] = {true, true, true, true};
static made_row rows[CELLS];

static void test_tiles_of_the_next_window_are_loaded_ahead(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++)
    for (unsigned threads = 1; threads <= 4; threads++)
      for (int lazy = 0; lazy < 2; lazy++) { /* lazy: the request does not say which fields will be read */
        made_array m;
        tsr_reader *reader;
        tsr_error error = {0};
        const bool none[4] = {false};
        const tsr_request ask = {.fields = lazy ? none : all_fields, .threads = threads};
        open_kind(&m, k);
        assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
        for (int round = 0; round < 2; round++) { /* first from files, then from the cache */
          tsr_environment_reset_counters(m.environment);
          assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
          assert_int_equal(made_read(reader, &m, rows, CELLS, &error), CELLS);
          check_rows(rows, CELLS);
          const tsr_counters c = counters_of(&m);
          const uint64_t tiles = k == DENSE ? 2 * 16 : 4 * 40;
          assert_int_equal(round ? c.tiles_cached : c.tiles_read, tiles);
          assert_int_equal(round ? c.tiles_read : c.tiles_cached, 0);
          if (round || threads == 1) assert_int_equal(c.tiles_ahead, 0);
          else assert_true(c.tiles_ahead >= (k == DENSE ? 2 * (16 - 1 - 2) : 2 * tiles / 4));
        }
        tsr_reader_close(reader);
        made_close(&m);
      }
}

static void test_nothing_is_loaded_ahead_in_the_first_window_or_past_the_limit(void **state) {
  (void)state;
  const tsr_batch *batch;
  for (kind k = 0; k < KINDS; k++)
    for (uint64_t limit = 1; limit <= CELLS; limit += 33) {
      made_array m;
      tsr_reader *reader;
      const tsr_request ask = {.fields = all_fields, .limit = limit, .threads = 2};
      const uint64_t tile = k == DENSE ? 25 : 10, slots = k == DENSE ? 2 : 4;
      open_kind(&m, k);
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
      for (uint64_t taken = 0; taken < limit; taken += batch->count)
        assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
      tsr_reader_close(reader);
      const uint64_t wanted = (limit + tile - 1) / tile, read = counters_of(&m).tiles_read / slots;
      assert_true(read >= wanted);
      assert_true(read <= (k == MERGED ? 2 * wanted : wanted)); /* merged tiles need others before they are given out */
      made_close(&m);
    }
}

/* After each number of batches. */
static void test_a_reader_can_be_closed_or_restarted_during_a_load(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++)
    for (int after = 0; after < 41; after++)
      for (int again = 0; again < 2; again++) {
        made_array m;
        tsr_reader *reader;
        const tsr_batch *batch;
        const tsr_request ask = {.fields = all_fields, .threads = 3};
        open_kind(&m, k);
        assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
        assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
        for (int i = 0; i < after && tsr_reader_next(reader, &batch, NULL) > 0; i++) {}
        if (again) {
          assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
          assert_int_equal(made_read(reader, &m, rows, CELLS, NULL), CELLS);
        } else {
          tsr_reader_reset(reader, false);
        }
        tsr_reader_close(reader);
        made_close(&m);
      }
}

/* The rows of the tiles before it come first. */
static void test_a_damaged_tile_fails_when_its_window_is_read(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++) {
    made_array m;
    tsr_reader *reader;
    const tsr_batch *batch;
    tsr_error error = {0};
    const tsr_request ask = {.fields = all_fields, .threads = 2};
    open_kind(&m, k);
    tsr_fragment_metadata *d = &m.fragments[m.snapshot.fragment_count - 1].fragment->metadata;
    uint64_t *offsets = d->slots[0].offsets[TSR_PART_FIXED]; /* of attribute a */
    uint64_t taken = 0;
    char name[32];
    snprintf(name, sizeof name, "tile %d", (int)d->tile_count - 1);
    offsets[d->tile_count] += 1000; /* past the file's end */
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    for (int stop = 0; stop < 2; stop++) {
      int r = 1;
      assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
      for (taken = 0; (!stop || taken < CELLS / 2) && (r = tsr_reader_next(reader, &batch, &error)) > 0;)
        taken += batch->count;
      assert_int_equal(r, stop ? 1 : TSR_CORRUPT);
      if (!stop) assert_non_null(strstr(error.message, name));
      if (k != MERGED && !stop) assert_true(taken >= CELLS - 8 * 25 && taken < CELLS);
    }
    offsets[d->tile_count] -= 1000;
    assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, CELLS, &error), CELLS);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

static void test_without_room_for_two_windows_the_present_one_goes_first(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++) {
    made_array m;
    tsr_reader *reader;
    const tsr_batch *batch;
    const tsr_column *column;
    tsr_error error = {0};
    const bool some[4] = {true, true, true, false};
    tsr_request ask = {.fields = all_fields, .threads = 2, .memory_bytes = 16 << 20};
    open_kind(&m, k);
    assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
    assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
    assert_int_equal(made_read(reader, &m, rows, CELLS, &error), CELLS);
    assert_int_equal(counters_of(&m).tiles_ahead, 0);

    ask.memory_bytes = 0;
    ask.fields = some;
    tsr__cache_forget(m.array.cache, m.fragments[0].fragment->id);
    tsr__cache_forget(m.array.cache, m.fragments[m.snapshot.fragment_count - 1].fragment->id);
    tsr__cache_set_limit(m.array.cache, 0);
    assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
    uint64_t taken = 0;
    while (!reader->window.ahead.loading) {
      assert_int_equal(tsr_reader_next(reader, &batch, &error), 1);
      taken += batch->count;
    }
    assert_true(taken < CELLS);
    const uint64_t limit = reader->memory.limit;
    reader->memory.limit = reader->memory.used + 64;
    assert_int_equal(tsr_reader_column(reader, 3, &column, &error), TSR_OK);
    assert_false(reader->window.ahead.loading);
    reader->memory.limit = limit;
    while (tsr_reader_next(reader, &batch, &error) > 0) taken += batch->count;
    assert_int_equal(taken, CELLS);
    tsr_reader_close(reader);
    made_close(&m);
  }
}

typedef struct asking {
  pthread_t caller;
  int left;
} asking;

static bool stop(void *argument) {
  asking *a = argument;
  assert_true(pthread_equal(pthread_self(), a->caller));
  return --a->left == 0;
}

/* The host cancels at each of its checks in turn. Only the caller's thread calls the host. */
static void test_a_cancellation_at_any_check_is_reported(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++)
    for (int at = 1, done = 0; !done; at++) {
      made_array m;
      tsr_reader *reader;
      tsr_error error = {0};
      asking a = {.caller = pthread_self(), .left = at};
      const tsr_request ask = {.fields = all_fields, .threads = 2};
      open_kind(&m, k);
      m.environment->memory.cancel.requested = stop;
      m.environment->memory.cancel.argument = &a;
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      int64_t r = tsr_reader_start(reader, &ask, &error);
      if (r >= 0) r = made_read(reader, &m, rows, CELLS, &error);
      done = a.left > 0;
      assert_int_equal(r, done ? CELLS : TSR_INTERRUPT);
      tsr_reader_close(reader);
      made_close(&m);
    }
}

/* One of every few allocations fails, on any thread. The result is an error or all rows, no memory is lost, and the
 * reader works afterwards. */
static void test_failing_allocations_lose_nothing(void **state) {
  (void)state;
  int failed = 0, passed = 0;
  for (kind k = 0; k < KINDS; k++)
    for (int each = 2; each < 300; each += 1 + each / 40) {
      made_array m;
      tsr_reader *reader;
      tsr_error error = {0};
      const tsr_request ask = {.fields = all_fields, .threads = 3};
      open_kind(&m, k);
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      m.memory.each = each;
      int64_t r = tsr_reader_start(reader, &ask, &error);
      if (r >= 0) r = made_read(reader, &m, rows, CELLS, &error);
      m.memory.each = 0;
      if (r >= 0) check_rows(rows, r);
      assert_int_equal(r, r < 0 ? TSR_NOMEM : CELLS);
      failed += r < 0;
      passed += r >= 0;
      assert_int_equal(tsr_reader_start(reader, &ask, &error), TSR_OK);
      assert_int_equal(made_read(reader, &m, rows, CELLS, &error), CELLS);
      tsr_reader_close(reader);
      made_close(&m);
    }
  assert_true(failed > 0 && passed > 0);
}

/* The fork happens while workers decode. */
static void test_parent_and_child_go_on_after_a_fork(void **state) {
  (void)state;
  for (kind k = 0; k < KINDS; k++)
    for (int round = 0; round < 10; round++) {
      made_array m;
      tsr_reader *reader;
      const tsr_batch *batch;
      const tsr_request ask = {.fields = all_fields, .threads = 3};
      uint64_t taken = 0;
      open_kind(&m, k);
      assert_int_equal(tsr_reader_open(&m.snapshot, &reader, NULL), TSR_OK);
      assert_int_equal(tsr_reader_start(reader, &ask, NULL), TSR_OK);
      while (!reader->window.ahead.loading) {
        assert_int_equal(tsr_reader_next(reader, &batch, NULL), 1);
        taken += batch->count;
      }
      const pid_t child = fork();
      assert_true(child >= 0);
      if (child == 0) alarm(20); /* so that a hang fails the test */
      if (child > 0 || round % 2)
        while (tsr_reader_next(reader, &batch, NULL) > 0) taken += batch->count;
      tsr_reader_close(reader);
      if (child == 0) _exit(round % 2 == 0 || taken == CELLS ? 0 : 1);
      assert_int_equal(taken, CELLS);
      int status;
      assert_int_equal(waitpid(child, &status, 0), child);
      assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      made_close(&m);
    }
}

/* Meanwhile so many other files are opened that all idle ones are closed. */
static void test_files_stay_open_until_workers_have_read_them(void **state) {
  (void)state;
  made_array m;
  tsr_memory budget;
  made_cell cells[8];
  enum { KEPT = 50 };
  tsr_fragment *f[60];
  tsr_load load;
  made_open(&m, false, 1, false, 0, 99, NULL);
  m.environment->files_kept = KEPT;
  for (int i = 0; i < 60; i++) {
    for (int c = 0; c < 8; c++) cells[c] = (made_cell){.at = {c}, .value = i * 8 + c};
    f[i] = made_sparse(&m, (uint64_t)i + 1, (uint64_t)i + 1, cells, 8, false, false);
  }
  tsr__memory_init(&budget, &m.array.memory, 1 << 20, "memory_mb");
  tsr_tile_request first[2] = {{.fragment = f[0], .slot = 0}, {.fragment = f[0], .slot = 1}};
  assert_int_equal(tsr__load_start(&load, &m.array, 0, true, first, 2, &budget, NULL),
                   TSR_OK); /* without workers: its files are read at the finish */
  for (int i = 1; i < 60; i++) {
    tsr_tile_request others[2] = {{.fragment = f[i], .slot = 0}, {.fragment = f[i], .slot = 1}};
    assert_int_equal(tsr__tiles_load(&m.array, 1, others, 2, &budget, NULL), TSR_OK);
    for (int w = 0; w < 2; w++) tsr__tile_return(others[w].tile, &budget);
  }
  assert_true(m.array.store->files_opened > KEPT);
  assert_int_equal(m.array.open_files.count, KEPT);
  assert_int_equal(tsr__load_finish(&load, NULL), TSR_OK);
  assert_int_equal(tsr__load32(first[0].tile->values + 4), 1);
  for (int w = 0; w < 2; w++) tsr__tile_return(first[w].tile, &budget);
  for (int i = 1; i < 40; i++) tsr__array_files_done(&m.array);
  assert_int_equal(m.array.open_files.count, KEPT);
  /* A cancelled load gives everything back. What it has decoded is in the cache. */
  tsr__cache_forget(m.array.cache, f[0]->id);
  assert_int_equal(tsr__load_start(&load, &m.array, 2, true, first, 2, &budget, NULL), TSR_OK);
  tsr__load_cancel(&load);
  assert_null(first[0].tile);
  assert_int_equal(budget.used, 0);
  made_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_of_the_next_window_are_loaded_ahead),
      cmocka_unit_test(test_nothing_is_loaded_ahead_in_the_first_window_or_past_the_limit),
      cmocka_unit_test(test_a_reader_can_be_closed_or_restarted_during_a_load),
      cmocka_unit_test(test_a_damaged_tile_fails_when_its_window_is_read),
      cmocka_unit_test(test_without_room_for_two_windows_the_present_one_goes_first),
      cmocka_unit_test(test_a_cancellation_at_any_check_is_reported),
      cmocka_unit_test(test_failing_allocations_lose_nothing),
      cmocka_unit_test(test_parent_and_child_go_on_after_a_fork),
      cmocka_unit_test(test_files_stay_open_until_workers_have_read_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
