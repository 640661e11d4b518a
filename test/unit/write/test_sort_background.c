/* test_sort_background.c: cells come one by one into an array in Hilbert order, and workers sort blocks of cells
 * meanwhile. With workers and without, rewound in the middle of a block, read and spilled on the way, without memory:
 * the commit has the last version of each coordinate. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/pool.h"
#include "array/array.h"
#include "read/reader.h"
#include "write/writer.h"
#include "counted_memory.h"
#include "disk_test.h"

#define SIDE 1024

static counted_memory counted = {.left = -1};
static int64_t expected[SIDE * SIDE]; /* 0: no cell */
static tsr_array *array;

static int setup_counted(void **state) {
  const tsr_environment_options options = {.reallocate = counted_reallocate, .reallocate_argument = &counted};
  (void)state;
  return setup_with(&options);
}

static void create(void) {
  tsr_field fields[3];
  for (int d = 0; d < 2; d++) fields[d] = int32_dimension(d ? "y" : "x", 0, SIDE - 1, 0);
  fields[2] = (tsr_field){.name = "v", .datatype = TSR_INT64, .values_per_cell = 1};
  const tsr_schema schema = {.version = 22,
                             .cell_order = TSR_ORDER_HILBERT,
                             .capacity = 1000,
                             .dimension_count = 2,
                             .attribute_count = 1,
                             .fields = fields};
  const tsr_create_options options = {.unsynced = true};
  const tsr_array_options opened = {.threads = 2};
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  ok(tsr_array_open(environment, path, &opened, &array, &error));
  memset(expected, 0, sizeof expected);
}

static tsr_writer *open_writer(unsigned threads, uint64_t memory) {
  const tsr_writer_options options = {.unsynced = true, .threads = threads, .memory_bytes = memory};
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(array, &options, &writer, &error));
  return writer;
}

/* `counts`: the cells will be committed. */
static void append(tsr_writer *writer, uint64_t cells, bool counts) {
  static int64_t number;
  for (uint64_t i = 0; i < cells; i++) {
    const int32_t x = (int32_t)chance(SIDE), y = (int32_t)chance(SIDE);
    number++;
    const tsr_column columns[] = {{.values = &x}, {.values = &y}, {.values = &number}};
    ok(tsr_writer_append(writer, columns, NULL, 1, &error));
    if (counts) expected[x * SIDE + y] = number;
  }
}

/* Reads the committed cells, or with a writer the transaction view: its uncommitted cells on top of them. */
static void check(tsr_writer *writer) {
  tsr_snapshot *base = NULL, *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_batch *batch;
  uint64_t found = 0, wanted = 0;
  int code;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &base, &error));
  if (writer) ok(tsr_snapshot_with(base, writer, &snapshot, &error));
  ok(tsr_reader_open(writer ? snapshot : base, &reader, &error));
  ok(tsr_reader_start(reader, &(tsr_request){0}, &error));
  while ((code = tsr_reader_next(reader, &batch, &error)) > 0) {
    const tsr_column *columns[3];
    for (uint32_t f = 0; f < 3; f++) ok(tsr_reader_column(reader, f, &columns[f], &error));
    for (uint64_t r = 0; r < batch->count; r++, found++) {
      const uint64_t i = batch->selection ? batch->selection[r] : batch->first + r;
      const int32_t x = ((const int32_t *)columns[0]->values)[i], y = ((const int32_t *)columns[1]->values)[i];
      assert_int_equal(((const int64_t *)columns[2]->values)[i], expected[x * SIDE + y]);
    }
  }
  ok(code);
  for (uint64_t i = 0; i < SIDE * SIDE; i++) wanted += expected[i] != 0;
  assert_int_equal(found, wanted);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  tsr_snapshot_close(base);
}

static void commit(tsr_writer *writer) {
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  check(NULL);
  tsr_array_close(array);
}

static uint64_t sorted_blocks(tsr_writer *writer) {
  const tsr_sorted_blocks found = tsr__background_sort_blocks(writer);
  uint64_t sorted = 0;
  for (uint64_t b = 0; b < found.count; b++) sorted += found.blocks[b] != NULL;
  return sorted;
}

/* A writer can be rewound to the middle of a block, to its beginning and to nothing. Without workers there are no
 * blocks. */
static void test_rewinding_drops_blocks(void **state) {
  (void)state;
  for (unsigned threads = 1; threads <= 3; threads += 2) {
    create();
    tsr_writer *writer = open_writer(threads, 0);
    append(writer, 2 * TSR_ORDER_BLOCK + 9, false);
    ok(tsr_writer_rewind(writer, (tsr_mark){0}, &error));
    append(writer, TSR_ORDER_BLOCK + TSR_ORDER_BLOCK / 2, true);
    const tsr_mark middle = tsr_writer_mark(writer);
    append(writer, TSR_ORDER_BLOCK, false);
    ok(tsr_writer_rewind(writer, middle, &error));
    append(writer, TSR_ORDER_BLOCK / 2, true);
    const tsr_mark whole = tsr_writer_mark(writer);
    assert_int_equal(tsr__background_sort_bytes(writer) > 0, threads > 1);
    append(writer, TSR_ORDER_BLOCK, false);
    ok(tsr_writer_rewind(writer, whole, &error));
    check(writer);
    append(writer, 100, true);
    assert_int_equal(sorted_blocks(writer) > 0, threads > 1);
    commit(writer);
  }
}

/* ---- Workers that are busy ------------------------------------------------------------------- */

static tsr_job occupation;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned occupied;
static bool shut;

static int wait_at_gate(void *argument, uint64_t index, tsr_error *failure) {
  (void)argument, (void)index, (void)failure;
  occupied++;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  return TSR_OK;
}

/* Gives all workers that the pool may have a task that does not end, so that later jobs wait for a worker. */
static void occupy_workers(void) {
  pthread_mutex_lock(&gate);
  shut = true;
  occupied = 0;
  tsr__job_start(&occupation, 1000, 1000, wait_at_gate, NULL);
  while (occupied < occupation.wanted) sched_yield();
}

static int free_workers(void **state) {
  (void)state;
  if (!shut) return 0;
  shut = false;
  pthread_mutex_unlock(&gate);
  tsr__job_cancel(&occupation);
  return 0;
}

/* Fails unless the blocks that were sorted in the background have all of their cells, in order. Returns their number. */
static uint64_t check_blocks(tsr_writer *writer) {
  static tsr_pair pairs[TSR_ORDER_BLOCK], spare[TSR_ORDER_BLOCK];
  const tsr_sorted_blocks found = tsr__background_sort_blocks(writer);
  uint64_t sorted = 0;
  tsr_column columns[2];
  for (uint32_t d = 0; d < 2; d++) tsr_writer_column(writer, d, &columns[d]);
  for (uint64_t b = 0; b < found.count; b++) {
    const uint64_t first = b * TSR_ORDER_BLOCK;
    if (!found.blocks[b]) continue;
    tsr__order_block(writer->schema, columns, first, TSR_ORDER_BLOCK, first, pairs, spare);
    for (uint64_t i = 0; i < TSR_ORDER_BLOCK; i++) {
      assert_int_equal(found.blocks[b][i].key, pairs[i].key);
      assert_int_equal(found.blocks[b][i].cell, pairs[i].cell);
    }
    sorted++;
  }
  return sorted;
}

/* No worker is free to sort the first block, so the second one is left out. Rewinding to the middle of the second block
 * keeps the first one; rewinding to the middle of the first one drops both. */
static void test_rewinding_keeps_an_earlier_block_in_work(void **state) {
  (void)state;
  create();
  tsr_writer *writer = open_writer(2, 0);
  occupy_workers();
  append(writer, TSR_ORDER_BLOCK / 2, true);
  const tsr_mark half = tsr_writer_mark(writer);
  append(writer, 2 * TSR_ORDER_BLOCK, false);
  ok(tsr_writer_rewind(writer, half, &error));
  assert_int_equal(check_blocks(writer), 0);
  append(writer, TSR_ORDER_BLOCK, true);
  const tsr_mark middle = tsr_writer_mark(writer);
  append(writer, TSR_ORDER_BLOCK, false);
  ok(tsr_writer_rewind(writer, middle, &error));
  assert_int_equal(check_blocks(writer), 1);
  append(writer, TSR_ORDER_BLOCK, true);
  append(writer, TSR_ORDER_BLOCK, true);
  free_workers(NULL);
  assert_int_equal(check_blocks(writer), 2); /* the third block was left out */
  commit(writer);
}

/* A writer can be closed while workers still encode a block, and can take more cells after it was prepared. */
static void test_writer_goes_on_after_prepare(void **state) {
  (void)state;
  create();
  tsr_writer *writer = open_writer(3, 0);
  append(writer, 2 * TSR_ORDER_BLOCK, false);
  tsr_writer_close(writer);
  writer = open_writer(3, 0);
  append(writer, 2 * TSR_ORDER_BLOCK + 1, true);
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(sorted_blocks(writer), 0);
  append(writer, TSR_ORDER_BLOCK, true);
  assert_in_range(sorted_blocks(writer), 1, 2); /* preparing has dropped the first block */
  commit(writer);
}

/* If many cells come at once, only their last complete block is sorted in the background. */
static void test_batches_leave_blocks_to_the_end(void **state) {
  static int32_t x[3 * TSR_ORDER_BLOCK], y[3 * TSR_ORDER_BLOCK];
  static int64_t v[3 * TSR_ORDER_BLOCK];
  const tsr_column columns[] = {{.values = x}, {.values = y}, {.values = v}};
  (void)state;
  create();
  tsr_writer *writer = open_writer(2, 0);
  for (int i = 0; i < 3 * (int)TSR_ORDER_BLOCK; i++) {
    x[i] = (int32_t)chance(SIDE);
    y[i] = (int32_t)chance(SIDE);
    expected[x[i] * SIDE + y[i]] = v[i] = i + 1;
  }
  ok(tsr_writer_append(writer, columns, NULL, 3 * TSR_ORDER_BLOCK - 1, &error));
  assert_int_equal(tsr__background_sort_bytes(writer), TSR_ORDER_BLOCK * sizeof(tsr_pair));
  const uint64_t at = 3 * TSR_ORDER_BLOCK - 1;
  const tsr_column last[] = {{.values = x + at}, {.values = y + at}, {.values = v + at}};
  ok(tsr_writer_append(writer, last, NULL, 1, &error));
  commit(writer);
}

/* Commits are right with budgets that leave blocks out, sort them in the background, and spill. */
static void test_commits_are_right_with_small_budgets(void **state) {
  (void)state;
  for (uint64_t megabytes = 4; megabytes <= 32; megabytes *= 2) {
    create();
    tsr_writer *writer = open_writer(2, megabytes << 20);
    append(writer, 120000, true);
    const tsr_mark mark = tsr_writer_mark(writer);
    append(writer, 40000, false);
    ok(tsr_writer_rewind(writer, mark, &error));
    append(writer, 40000, true);
    if (megabytes == 4) assert_int_equal(tsr__background_sort_bytes(writer), 0);
    commit(writer);
  }
}

/* If memory runs out when a block begins, the block is left out, without an error. */
static void test_block_without_memory_is_left_out(void **state) {
  (void)state;
  for (long left = 0; left < 4; left++) {
    create();
    tsr_writer *writer = open_writer(2, 0);
    append(writer, TSR_ORDER_BLOCK - 1, true);
    for (uint32_t f = 0; f < 3; f++) ok(tsr__buffer_reserve(&writer->cells.columns[f].values, 8, &error));
    writer->cells.unweighed = 0; /* the next cell needs no other memory */
    tsr__spare_blocks_release(tsr__memory_root(&writer->memory));
    counted.left = left;
    append(writer, 1, true);
    counted.left = -1;
    assert_int_equal(sorted_blocks(writer), left == 3);
    append(writer, 2 * TSR_ORDER_BLOCK, true);
    commit(writer);
  }
  assert_true(counted.failed);
}

/* If memory runs out when the list of blocks grows, that is no error either: blocks after the next rewind have the
 * cells that they claim. */
static void test_blocks_stay_right_without_memory_for_their_list(void **state) {
  (void)state;
  create();
  tsr_writer *writer = open_writer(2, 0);
  while (writer->cells.background.blocks.size < writer->cells.background.blocks.capacity ||
         !writer->cells.background.blocks.size)
    append(writer, TSR_ORDER_BLOCK, true);
  append(writer, TSR_ORDER_BLOCK - 1, true);
  for (uint32_t f = 0; f < 3; f++) ok(tsr__buffer_reserve(&writer->cells.columns[f].values, 8, &error));
  writer->cells.unweighed = 0;
  counted.left = 0;
  append(writer, 1, true);
  counted.left = -1;
  assert_int_equal(writer->cells.background.next, UINT64_MAX);
  append(writer, TSR_ORDER_BLOCK + 9, true);
  const tsr_mark mark = tsr_writer_mark(writer);
  append(writer, 5, false);
  ok(tsr_writer_rewind(writer, mark, &error));
  append(writer, 3 * TSR_ORDER_BLOCK, true);
  const tsr_sorted_blocks found = tsr__background_sort_blocks(writer);
  for (uint64_t b = 0; b < found.count; b++)
    if (found.blocks[b]) assert_int_equal(found.blocks[b][0].cell / TSR_ORDER_BLOCK, b);
  assert_int_equal(found.count, (tsr__writer_in_memory(writer)) / TSR_ORDER_BLOCK);
  check(writer);
  commit(writer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rewinding_drops_blocks),
      cmocka_unit_test_teardown(test_rewinding_keeps_an_earlier_block_in_work, free_workers),
      cmocka_unit_test(test_writer_goes_on_after_prepare),
      cmocka_unit_test(test_batches_leave_blocks_to_the_end),
      cmocka_unit_test(test_commits_are_right_with_small_budgets),
      cmocka_unit_test(test_block_without_memory_is_left_out),
      cmocka_unit_test(test_blocks_stay_right_without_memory_for_their_list)};
  return cmocka_run_group_tests(tests, setup_counted, teardown);
}
