/* test_writer.c: arrays that are created and written are read back: sparse batches, dense boxes, versions, keys, marks,
 * times. Commits that are refused or abandoned leave nothing. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

/* ---- An array of two int32 dimensions and attributes of three kinds ------------------------- */

typedef struct made {
  tsr_field fields[5];
  tsr_filter zstd;
  tsr_schema schema;
} made;

static void make(made *m, bool dense, uint32_t version) {
  *m = (made){.zstd = {.type = TSR_FILTER_ZSTD, .level = -1, .reinterpret = TSR_ANY}};
  for (int d = 0; d < 2; d++) m->fields[d] = int32_dimension(d ? "y" : "x", -5, 54, d ? 7 : 10);
  m->fields[2] = (tsr_field){
      .name = "a", .datatype = TSR_INT64, .values_per_cell = 1, .filters = {.count = 1, .filters = &m->zstd}};
  m->fields[3] = (tsr_field){.name = "s", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  m->fields[4] = (tsr_field){.name = "n", .datatype = TSR_FLOAT32, .values_per_cell = 2, .nullable = version >= 7};
  m->schema = (tsr_schema){.version = version,
                           .dense = dense,
                           .tile_order = TSR_ORDER_ROW,
                           .cell_order = TSR_ORDER_ROW,
                           .capacity = 16,
                           .dimension_count = 2,
                           .attribute_count = 3,
                           .fields = m->fields};
}

static void create(const made *m, const uint8_t *key) {
  const tsr_create_options options = {.key = key, .unsynced = true};
  new_path();
  ok(tsr_array_create(environment, path, &m->schema, &options, &error));
}

static tsr_array *open_array(const uint8_t *key) {
  const tsr_array_options options = {.key = key, .threads = 2};
  tsr_array *array = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  return array;
}

static tsr_writer *open_writer(tsr_array *array, uint64_t time) {
  const tsr_writer_options options = {.time = time, .unsynced = true};
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(array, &options, &writer, &error));
  return writer;
}

/* A cell's attributes are made of one number, which tells what the cell must hold. */
typedef struct batch {
  int32_t x[4000], y[4000];
  int64_t a[4000];
  uint64_t offsets[4001];
  char text[4000 * 8];
  float n[4000][2];
  uint8_t valid[4000];
  uint64_t count;
  tsr_column columns[5];
} batch;
static batch b;

static void start(void) {
  b.count = 0;
  b.offsets[0] = 0;
  b.columns[0] = (tsr_column){.values = b.x};
  b.columns[1] = (tsr_column){.values = b.y};
  b.columns[2] = (tsr_column){.values = b.a};
  b.columns[3] = (tsr_column){.values = b.text, .offsets = b.offsets};
  b.columns[4] = (tsr_column){.values = b.n, .validity = b.valid};
}

static void text_of(int64_t number, char text[8]) { snprintf(text, 8, "%.*s", (int)(number % 7), "abcdefg"); }

static void add(int32_t x, int32_t y, int64_t number, bool nullable) {
  uint64_t i = b.count++;
  b.x[i] = x;
  b.y[i] = y;
  b.a[i] = number;
  text_of(number, b.text + b.offsets[i]);
  b.offsets[i + 1] = b.offsets[i] + strlen(b.text + b.offsets[i]);
  b.n[i][0] = (float)number;
  b.n[i][1] = (float)-number;
  b.valid[i] = !nullable || number % 3 != 0;
}

/* expected[y + 5][x + 5]: a cell's number; -1: no cell */
typedef struct grid {
  int64_t at[60][60];
} grid;
static grid expected;

static void clear(void) { memset(&expected, 0xff, sizeof expected); }

static int32_t int_at(const tsr_column *column, uint64_t i) {
  int32_t v;
  memcpy(&v, (const uint8_t *)column->values + (column->constant ? 0 : i * 4), 4);
  return v;
}

static void check_cell(tsr_reader *reader, const tsr_batch *got, uint64_t i, bool nullable) {
  const tsr_column *columns[5];
  for (uint32_t f = 0; f < 5; f++) ok(tsr_reader_column(reader, f, &columns[f], &error));
  int32_t x = int_at(columns[0], i), y = int_at(columns[1], i);
  int64_t *wanted = &expected.at[y + 5][x + 5], a;
  memcpy(&a, (const uint8_t *)columns[2]->values + (columns[2]->constant ? 0 : i * 8), 8);
  if (!got->written) {
    assert_int_equal(*wanted, -1);
    return;
  }
  if (a != *wanted) fail_msg("x %d, y %d: %lld instead of %lld", x, y, (long long)a, (long long)*wanted);
  char text[8];
  text_of(a, text);
  uint64_t begin = columns[3]->offsets[i], size = columns[3]->offsets[i + 1] - begin;
  assert_int_equal(size, strlen(text));
  assert_memory_equal((const uint8_t *)columns[3]->values + begin, text, size);
  bool valid = !columns[4]->validity || columns[4]->validity[i];
  assert_int_equal(valid, !nullable || a % 3 != 0);
  float n[2];
  memcpy(n, (const uint8_t *)columns[4]->values + i * 8, 8);
  if (valid) assert_true(n[0] == (float)a && n[1] == (float)-a);
  *wanted = -1; /* found */
}

/* The array has all expected cells and no others. */
static void check_array(tsr_array *array, bool dense, bool nullable) {
  tsr_snapshot *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  uint64_t wanted = 0, found = 0;
  for (int i = 0; i < 3600; i++) wanted += expected.at[i / 60][i % 60] >= 0;
  grid kept = expected;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  const tsr_request request = {0};
  ok(tsr_reader_start(reader, &request, &error));
  int code;
  while ((code = tsr_reader_next(reader, &got, &error)) > 0)
    for (uint64_t r = 0; r < got->count; r++) {
      check_cell(reader, got, got->selection ? got->selection[r] : got->first + r, nullable);
      found += got->written;
    }
  ok(code);
  assert_int_equal(found, wanted);
  expected = kept;
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

static const uint8_t secret[TSR_KEY_SIZE] = "0123456789abcdef0123456789abcdef";

static int no_finding(void *argument, const tsr_finding *finding) {
  fail_msg("%s: %s", finding->file, finding->message);
  return 0;
}

/* Nothing is in the array's files that its format version does not have. */
static void check_files(const uint8_t *key) {
  const tsr_check_options options = {.key = key, .threads = 1};
  ok(tsr_array_check(environment, path, &options, no_finding, NULL, &error));
}

/* ---- Sparse --------------------------------------------------------------------------------- */

static void test_sparse_cells_are_read_back(void **state) {
  static const uint32_t versions[] = {3, 12, 14, 17, 21, 22};
  for (unsigned v = 0; v < 6; v++)
    for (unsigned variant = 0; variant < 6; variant++) {
      made m;
      bool nullable = versions[v] >= 7;
      const uint8_t *key = variant == 4 ? secret : NULL;
      make(&m, false, versions[v]);
      m.schema.cell_order = variant == 1 ? TSR_ORDER_COL : variant == 2 && nullable ? TSR_ORDER_HILBERT : TSR_ORDER_ROW;
      m.schema.tile_order = variant % 2 ? TSR_ORDER_COL : TSR_ORDER_ROW;
      m.schema.capacity = variant == 5 ? 1 : 1 + chance(100);
      if (variant == 3) m.fields[0].has_extent = false;
      create(&m, key);
      clear();
      tsr_array *array = open_array(key);
      check_array(array, false, nullable);
      for (int commit = 0; commit < 3; commit++) {
        tsr_writer *writer = open_writer(array, 0);
        for (int part = 0; part < 2; part++) {
          start();
          for (uint64_t i = chance(600) + 1; i > 0; i--) {
            int32_t x = (int32_t)chance(60) - 5, y = (int32_t)chance(60) - 5;
            int64_t number = (int64_t)chance(1000000);
            add(x, y, number, nullable);
            expected.at[y + 5][x + 5] = number; /* the last version counts */
          }
          ok(tsr_writer_append(writer, b.columns, NULL, b.count, &error));
        }
        ok(tsr_writer_prepare(writer, &error));
        assert_int_equal(tsr_writer_fragment_count(writer), 1);
        ok(tsr_writer_publish(writer, &error));
        tsr_writer_close(writer);
        check_array(array, false, nullable);
      }
      tsr_array_close(array);
      check_files(key);
    }
}

/* Selections and constant columns are appended; rewinding takes cells back, prepared ones, too; preparing twice is
 * allowed. */
static void test_rewinding_takes_cells_back(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  clear();
  tsr_array *array = open_array(NULL);
  tsr_writer *writer = open_writer(array, 0);
  start();
  for (int i = 0; i < 50; i++) add(i - 5, 0, i, true);
  const uint32_t selection[] = {3, 40, 7};
  ok(tsr_writer_append(writer, b.columns, selection, 3, &error));
  assert_int_equal(tsr_writer_mark(writer).cells, 3);
  for (int i = 0; i < 3; i++) expected.at[5][selection[i]] = (int64_t)selection[i];
  ok(tsr_writer_append(writer, b.columns, NULL, 50, &error));
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(entries_of("__fragments"), 1);
  ok(tsr_writer_rewind(writer, (tsr_mark){.cells = 3}, &error));
  refused(tsr_writer_publish(writer, &error), TSR_ERROR, "prepared");
  b.columns[0].constant = true; /* the same x for all, y of each */
  for (int i = 0; i < 4; i++) b.y[i] = 10 + i, expected.at[15 + i][0] = i;
  ok(tsr_writer_append(writer, b.columns, NULL, 4, &error));
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(entries_of("__fragments"), 1);
  tsr_column column;
  tsr_writer_column(writer, 2, &column);
  assert_int_equal(((const int64_t *)column.values)[1], 40);
  ok(tsr_writer_publish(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  refused(tsr_writer_append(writer, b.columns, NULL, 1, &error), TSR_ERROR, "published");
  tsr_writer_close(writer);
  check_array(array, false, true);
  tsr_array_close(array);
}

static void test_wrong_cells_are_refused(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  clear();
  tsr_array *array = open_array(NULL);
  tsr_writer *writer = open_writer(array, 0);
  start();
  add(1, 1, 5, true);
  expected.at[6][6] = 5;
  ok(tsr_writer_append(writer, b.columns, NULL, 1, &error));
  start();
  for (int i = 0; i < 300; i++) add(i < 299 ? 0 : 55, 0, 1, true);
  refused(tsr_writer_append(writer, b.columns, NULL, b.count, &error), TSR_RANGE,
          "dimension 'x': 55 is outside the domain, -5 to 54");
  start();
  add(0, -6, 1, true);
  refused(tsr_writer_append(writer, b.columns, NULL, 1, &error), TSR_RANGE, "dimension 'y': -6");
  start();
  add(0, 0, 1, true);
  const uint8_t null = 0;
  b.columns[2].validity = &null;
  refused(tsr_writer_append(writer, b.columns, NULL, 1, &error), TSR_CONSTRAINT, "attribute 'a' cannot be null");
  const tsr_interval box[2] = {{{0}, {0}, NULL, NULL, 0, 0}, {{0}, {0}, NULL, NULL, 0, 0}};
  refused(tsr_writer_append_box(writer, box, false, b.columns, &error), TSR_ERROR, "dense");
  refused(tsr_writer_rewind(writer, (tsr_mark){.cells = 2}, &error), TSR_ERROR, "rewind to 2 cells of 1");
  assert_int_equal(tsr_writer_mark(writer).cells, 1);
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  check_array(array, false, true);
  tsr_array_close(array);
}

/* No cell is visible before publish. An abandoned commit, and one that was not prepared, leave nothing. */
static void test_nothing_is_visible_before_publish(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  clear();
  tsr_array *array = open_array(NULL);
  for (int way = 0; way < 3; way++) {
    tsr_writer *writer = open_writer(array, 0);
    start();
    add(1, 2, 3, true);
    ok(tsr_writer_append(writer, b.columns, NULL, 1, &error));
    if (way) ok(tsr_writer_prepare(writer, &error));
    assert_int_equal(entries_of("__commits"), 0);
    check_array(array, false, true);
    if (way == 1) {
      ok(tsr_writer_abandon(writer, &error));
      refused(tsr_writer_publish(writer, &error), TSR_ERROR, "the commit was not prepared");
    }
    tsr_writer_close(writer);
    /* a prepared commit stays: it may be about to be published */
    assert_int_equal(entries_of("__fragments"), way == 2);
  }
  /* a commit without cells publishes nothing */
  tsr_writer *writer = open_writer(array, 0);
  ok(tsr_writer_append(writer, b.columns, NULL, 0, &error));
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(tsr_writer_fragment_count(writer), 0);
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  assert_int_equal(entries_of("__commits"), 0);
  tsr_array_close(array);
}

/* Times rise from commit to commit, also past a commit of this millisecond, but not past one in the future. */
static void test_times_rise(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  tsr_array *array = open_array(NULL);
  uint64_t before = 0;
  for (int i = 0; i < 5; i++) {
    uint64_t asked = i == 2 ? tsr__environment_now() + 3600000 : 0;
    tsr_writer *writer = open_writer(array, asked);
    start();
    add(i, 0, i, true);
    ok(tsr_writer_append(writer, b.columns, NULL, 1, &error));
    ok(tsr_writer_prepare(writer, &error));
    uint64_t time = tsr_writer_time(writer);
    if (asked) {
      assert_true(time == asked);
    } else {
      assert_true(time > before && time <= tsr__environment_now());
      before = time;
    }
    ok(tsr_writer_publish(writer, &error));
    tsr_writer_close(writer);
  }
  tsr_array_close(array);
}

/* Too small a budget is an error at any point, and leaves nothing. */
static void test_small_budget_leaves_nothing(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  clear();
  tsr_array *array = open_array(NULL);
  start();
  for (int i = 0; i < 2000; i++) add(i % 60 - 5, i / 60 - 5, i, true), expected.at[i / 60][i % 60] = i;
  bool worked = false;
  for (uint64_t limit = 2000; !worked; limit += limit / 3) {
    const tsr_writer_options options = {.memory_bytes = limit, .unsynced = true, .threads = 1};
    tsr_writer *writer = NULL;
    int code = tsr_writer_open(array, &options, &writer, &error);
    if (code >= 0) code = tsr_writer_append(writer, b.columns, NULL, b.count, &error);
    if (code >= 0) code = tsr_writer_prepare(writer, &error);
    worked = code >= 0;
    if (worked) ok(tsr_writer_publish(writer, &error));
    else assert_int_equal(code, TSR_BUDGET);
    tsr_writer_close(writer);
    assert_int_equal(entries_of("__fragments"), worked);
  }
  check_array(array, false, true);
  tsr_array_close(array);
}

/* When memory for removed rows ends, the rows removed so far stay removed; a rewind gives the memory back. */
static void test_removed_rows_stay_when_memory_ends(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  tsr_array *array = open_array(NULL);
  const tsr_writer_options options = {.memory_bytes = 40000, .unsynced = true, .threads = 1};
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(array, &options, &writer, &error));
  start();
  add(1, 1, 1, true);
  const tsr_mark before = tsr_writer_mark(writer);
  for (int round = 0; round < 3; round++) {
    int64_t removed = 0;
    while (tsr_writer_remove(writer, 1000 + removed, b.columns, 0, &error) >= 0) removed++;
    assert_int_equal(error.code, TSR_BUDGET);
    assert_in_range(removed, 400, 2000);
    for (int64_t i = 0; i < removed; i++) assert_true(tsr__removed_has(&writer->removed, 1000 + i, (uint64_t)removed));
    assert_false(tsr__removed_has(&writer->removed, 1000 + removed, (uint64_t)removed + 1));
    const tsr_mark some = {.removed = 5};
    ok(tsr_writer_rewind(writer, round == 1 ? before : some, &error));
    for (int64_t i = 0; i < removed; i++)
      assert_int_equal(tsr__removed_has(&writer->removed, 1000 + i, (uint64_t)removed), round != 1 && i < 5);
    assert_true(writer->memory.used < 20000);
    ok(tsr_writer_rewind(writer, before, &error));
  }
  tsr_writer_close(writer);
  tsr_array_close(array);
}

/* A writer that keeps its cells spills none of them: cells past the budget are refused. When it keeps them no longer,
 * the next cells are spilled. */
static void test_kept_cells_stay_in_memory(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  tsr_array *array = open_array(NULL);
  const tsr_writer_options options = {.memory_bytes = 4 << 20, .unsynced = true, .threads = 1};
  tsr_writer *writer = NULL;
  ok(tsr_writer_open(array, &options, &writer, &error));
  start();
  for (int i = 0; i < 2000; i++) add(i % 60 - 5, i / 60 - 5, i, true);
  tsr_writer_keep(writer, true);
  int code = TSR_OK;
  for (int i = 0; i < 1000 && code >= 0; i++) code = tsr_writer_append(writer, b.columns, NULL, b.count, &error);
  assert_int_equal(code, TSR_BUDGET);
  assert_int_equal(writer->runs.spilled, 0);
  ok(tsr_writer_rewind(writer, (tsr_mark){.cells = writer->cells.count / 2}, &error));
  tsr_writer_keep(writer, false);
  for (int i = 0; i < 100; i++) ok(tsr_writer_append(writer, b.columns, NULL, b.count, &error));
  assert_true(writer->runs.spilled > 0);
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  assert_int_equal(entries_of("__fragments"), 1);
  tsr_array_close(array);
}

/* Cells that are expected have their room at once: no column moves while they come. Too many for the budget get none,
 * and are written as well. */
static void test_expected_cells_have_room(void **state) {
  for (int many = 0; many < 2; many++) {
    made m;
    make(&m, false, 22);
    create(&m, NULL);
    clear();
    tsr_array *array = open_array(NULL);
    const tsr_writer_options options = {.memory_bytes = 1 << 20, .unsynced = true, .threads = 1};
    tsr_writer *writer = NULL;
    ok(tsr_writer_open(array, &options, &writer, &error));
    start();
    for (int i = 0; i < 2000; i++) {
      add(i % 60 - 5, i / 60 - 5, i, true);
      expected.at[i / 60][i % 60] = i;
    }
    const uint64_t cells = many ? 30000 : b.count, text = many ? 1 << 16 : b.offsets[b.count];
    const uint64_t bytes[5] = {cells * 4, cells * 4, cells * 8, text, cells * 8}, before = writer->memory.used;
    const void *columns[5];
    tsr__writer_reserve(writer, cells, bytes);
    if (many) assert_int_equal(writer->memory.used, before);
    for (uint32_t f = 0; f < 5; f++) {
      const tsr_buffered *column = &writer->cells.columns[f];
      columns[f] = column->values.data;
      assert_int_equal(column->values.capacity, many ? 0 : bytes[f]);
      assert_int_equal(column->validity.capacity, !many && f == 4 ? cells : 0);
      assert_int_equal(column->offsets.capacity, !many && f == 3 ? (cells + 1) * 8 : 0);
    }
    for (int part = 0; part < 2; part++) {
      uint32_t chosen[1000];
      for (uint32_t i = 0; i < 1000; i++) chosen[i] = (uint32_t)part * 1000 + i;
      ok(tsr_writer_append(writer, b.columns, chosen, 1000, &error));
    }
    for (uint32_t f = 0; f < 5 && !many; f++) {
      const tsr_buffered *column = &writer->cells.columns[f];
      assert_ptr_equal(columns[f], column->values.data);
      assert_int_equal(column->values.capacity, bytes[f]);
      assert_int_equal(column->offsets.capacity, f == 3 ? (cells + 1) * 8 : 0);
    }
    ok(tsr_writer_prepare(writer, &error));
    ok(tsr_writer_publish(writer, &error));
    tsr_writer_close(writer);
    check_array(array, false, true);
    tsr_array_close(array);
  }
}

/* ---- Dense ---------------------------------------------------------------------------------- */

static void set_box(tsr_interval *box, int32_t x0, int32_t x1, int32_t y0, int32_t y1) {
  memset(box, 0, 2 * sizeof *box);
  memcpy(box[0].low, &x0, 4), memcpy(box[0].high, &x1, 4);
  memcpy(box[1].low, &y0, 4), memcpy(box[1].high, &y1, 4);
}

/* Fills a box with random cells, in row-major order or in the array's cell order, which is column-major then. */
static void fill_box(int32_t x0, int32_t x1, int32_t y0, int32_t y1, bool column_major, bool nullable) {
  start();
  int32_t wide = x1 - x0 + 1, high = y1 - y0 + 1;
  for (int32_t i = 0; i < wide * high; i++) {
    int32_t x = column_major ? x0 + i % wide : x0 + i / high, y = column_major ? y0 + i / wide : y0 + i % high;
    int64_t number = (int64_t)chance(1000000);
    add(x, y, number, nullable);
    expected.at[y + 5][x + 5] = number;
  }
}

static void test_dense_boxes_are_read_back(void **state) {
  static const uint32_t versions[] = {3, 12, 22};
  for (unsigned v = 0; v < 3; v++)
    for (unsigned variant = 0; variant < 4; variant++) {
      made m;
      bool nullable = versions[v] >= 7, columns = variant % 2;
      const uint8_t *key = variant == 2 ? secret : NULL;
      make(&m, true, versions[v]);
      m.schema.cell_order = columns ? TSR_ORDER_COL : TSR_ORDER_ROW;
      m.schema.tile_order = variant > 1 ? TSR_ORDER_COL : TSR_ORDER_ROW;
      create(&m, key);
      clear();
      tsr_array *array = open_array(key);
      for (int commit = 0; commit < 6; commit++) {
        tsr_writer *writer = open_writer(array, 0);
        int32_t x0 = (int32_t)chance(60) - 5, x1 = x0 + (int32_t)chance((uint64_t)(55 - x0));
        int32_t y0 = (int32_t)chance(60) - 5, y1 = y0 + (int32_t)chance((uint64_t)(55 - y0));
        bool array_order = chance(2);
        tsr_interval box[2];
        set_box(box, x0, x1, y0, y1);
        fill_box(x0, x1, y0, y1, array_order && columns, nullable);
        ok(tsr_writer_append_box(writer, box, array_order, b.columns, &error));
        ok(tsr_writer_prepare(writer, &error));
        ok(tsr_writer_publish(writer, &error));
        tsr_writer_close(writer);
        check_array(array, true, nullable);
      }
      tsr_array_close(array);
      check_files(key);
    }
}

/* Boxes in three dimensions begin and end within tiles in each of them, in every combination of orders. */
static void test_boxes_of_three_dimensions(void **state) {
  enum { EDGE = 11 };
  static const int32_t extents[] = {4, 3, 5};
  for (unsigned variant = 0; variant < 4; variant++) {
    int32_t wanted[EDGE][EDGE][EDGE];
    tsr_field fields[4];
    memset(wanted, 0xff, sizeof wanted);
    for (int d = 0; d < 3; d++) fields[d] = int32_dimension(d == 0 ? "x" : d == 1 ? "y" : "z", 0, EDGE - 1, extents[d]);
    fields[3] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1};
    const made m = {.schema = {.version = 22,
                               .dense = true,
                               .cell_order = variant % 2 ? TSR_ORDER_COL : TSR_ORDER_ROW,
                               .tile_order = variant > 1 ? TSR_ORDER_COL : TSR_ORDER_ROW,
                               .capacity = 16,
                               .dimension_count = 3,
                               .attribute_count = 1,
                               .fields = fields}};
    create(&m, NULL);
    tsr_array *array = open_array(NULL);
    for (int commit = 0; commit < 8; commit++) {
      tsr_interval box[3];
      memset(box, 0, sizeof box);
      int32_t low[3], high[3], count = 0;
      for (int d = 0; d < 3; d++) {
        low[d] = (int32_t)chance(EDGE), high[d] = low[d] + (int32_t)chance((uint64_t)(EDGE - low[d]));
        memcpy(box[d].low, &low[d], 4), memcpy(box[d].high, &high[d], 4);
      }
      int32_t *values =
          malloc(sizeof *values * (size_t)((high[0] - low[0] + 1) * (high[1] - low[1] + 1) *
                                           (high[2] - low[2] + 1))); /* no more: sanitizers see its ends */
      for (int32_t x = low[0]; x <= high[0]; x++)
        for (int32_t y = low[1]; y <= high[1]; y++)
          for (int32_t z = low[2]; z <= high[2]; z++)
            wanted[x][y][z] = values[count++] = 10000 * commit + 121 * x + 11 * y + z;
      const tsr_column columns[] = {{0}, {0}, {0}, {.values = values}};
      tsr_writer *writer = open_writer(array, 0);
      ok(tsr_writer_append_box(writer, box, false, columns, &error));
      ok(tsr_writer_prepare(writer, &error));
      ok(tsr_writer_publish(writer, &error));
      tsr_writer_close(writer);
      free(values);
    }
    tsr_snapshot *snapshot = NULL;
    tsr_reader *reader = NULL;
    const tsr_batch *got;
    const tsr_request request = {0};
    ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
    ok(tsr_reader_open(snapshot, &reader, &error));
    ok(tsr_reader_start(reader, &request, &error));
    int code;
    while ((code = tsr_reader_next(reader, &got, &error)) > 0)
      for (uint64_t r = 0; r < got->count; r++) {
        const uint64_t i = got->selection ? got->selection[r] : got->first + r;
        const tsr_column *columns[4];
        for (uint32_t f = 0; f < 4; f++) ok(tsr_reader_column(reader, f, &columns[f], &error));
        int32_t *cell = &wanted[int_at(columns[0], i)][int_at(columns[1], i)][int_at(columns[2], i)];
        if (got->written) assert_int_equal(int_at(columns[3], i), *cell);
        else assert_int_equal(*cell, -1);
        *cell = -1; /* found */
      }
    ok(code);
    for (int i = 0; i < EDGE * EDGE * EDGE; i++) assert_int_equal((&wanted[0][0][0])[i], -1);
    tsr_reader_close(reader);
    tsr_snapshot_close(snapshot);
    tsr_array_close(array);
  }
}

/* Several boxes become visible at once, by one consolidated commits file. */
static void test_boxes_appear_at_once(void **state) {
  made m;
  tsr_interval box[2];
  make(&m, true, 22);
  create(&m, NULL);
  clear();
  tsr_array *array = open_array(NULL);
  tsr_writer *writer = open_writer(array, 0);
  for (int i = 0; i < 5; i++) {
    set_box(box, 10 * i - 5, 10 * i - 3, i, 2 * i);
    fill_box(10 * i - 5, 10 * i - 3, i, 2 * i, false, true);
    ok(tsr_writer_append_box(writer, box, false, b.columns, &error));
  }
  set_box(box, 0, 5, 0, 50);
  refused(tsr_writer_append_box(writer, box, false, b.columns, &error), TSR_ERROR, "overlaps");
  set_box(box, 0, 55, 53, 54);
  refused(tsr_writer_append_box(writer, box, false, b.columns, &error), TSR_RANGE, "dimension 'x': 55");
  set_box(box, 50, 50, 50, 50);
  fill_box(50, 50, 50, 50, false, true);
  ok(tsr_writer_append_box(writer, box, false, b.columns, &error));
  assert_int_equal(tsr_writer_mark(writer).boxes, 6);
  ok(tsr_writer_rewind(writer, (tsr_mark){.boxes = 5}, &error));
  expected.at[55][55] = -1;
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(tsr_writer_fragment_count(writer), 5);
  ok(tsr_writer_publish(writer, &error));
  assert_non_null(strstr(tsr_writer_commit(writer), ".con"));
  assert_int_equal(entries_of("__commits"), 1);
  tsr_writer_close(writer);
  check_array(array, true, true);
  tsr_array_close(array);

  make(&m, true, 3); /* older versions commit one box */
  create(&m, NULL);
  array = open_array(NULL);
  writer = open_writer(array, 0);
  set_box(box, 0, 0, 0, 0);
  start(), add(0, 0, 1, false);
  ok(tsr_writer_append_box(writer, box, false, b.columns, &error));
  set_box(box, 1, 1, 1, 1);
  refused(tsr_writer_append_box(writer, box, false, b.columns, &error), TSR_UNSUPPORTED, "one box");
  refused(tsr_writer_append(writer, b.columns, NULL, 1, &error), TSR_ERROR, "boxes");
  tsr_writer_close(writer);
  tsr_array_close(array);
}

/* ---- Creation ------------------------------------------------------------------------------- */

static void test_array_exists_from_publish_on(void **state) {
  made m;
  make(&m, false, 22);
  create(&m, NULL);
  const tsr_create_options options = {.unsynced = true};
  refused(tsr_array_create(environment, path, &m.schema, &options, &error), TSR_EXISTS, "already there");
  refused(tsr_array_create(environment, top, &m.schema, &options, &error), TSR_EXISTS, "already there");
  snprintf(path, sizeof path, "%s/refused", top);
  m.fields[1].extent[0] = 200;
  refused(tsr_array_create(environment, path, &m.schema, &options, &error), TSR_RANGE, "dimension 'y'");
  assert_int_not_equal(access(path, F_OK), 0);
  refused(tsr_schema_check(environment, &m.schema, &error), TSR_RANGE, "dimension 'y'");
  m.fields[1].extent[0] = 7;
  ok(tsr_schema_check(environment, &m.schema, &error));

  for (uint32_t version = 3; version <= 22;
       version += 19) { /* no array exists before it is published, nothing after abandon */
    tsr_creation *creation = NULL;
    tsr_array *array = NULL;
    make(&m, false, version);
    snprintf(path, sizeof path, "%s/later%u", top, version);
    ok(tsr_creation_prepare(environment, path, &m.schema, &options, &creation, &error));
    assert_int_equal(tsr_array_open(environment, path, NULL, &array, &error), TSR_NOT_FOUND);
    ok(tsr_creation_abandon(creation, &error));
    tsr_creation_close(creation);
    assert_int_not_equal(access(path, F_OK), 0);
    ok(tsr_creation_prepare(environment, path, &m.schema, &options, &creation, &error));
    ok(tsr_creation_publish(creation, &error));
    ok(tsr_creation_abandon(creation, &error)); /* too late: the array stays */
    tsr_creation_close(creation);
    array = open_array(NULL);
    const tsr_schema *schema;
    ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
    assert_int_equal(schema->version, version);
    assert_string_equal(schema->fields[3].name, "s");
    if (version == 22) assert_int_equal(schema->fields[4].fill_validity, 0);
    tsr_array_close(array);
  }
}

static void test_enumerations_are_read_back(void **state) {
  made m;
  tsr_enumeration colours = LABELS("colours", TSR_UTF8, "redblue", 0, 3, 7);
  make(&m, false, 22);
  m.fields[2].enumeration = "colours";
  m.schema.enumeration_count = 1;
  m.schema.enumerations = &colours;
  create(&m, secret);
  tsr_array *array = open_array(secret);
  const tsr_schema *schema;
  const tsr_enumeration *read;
  ok(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error));
  ok(tsr_array_enumeration(array, schema, "colours", &read, &error));
  assert_int_equal(read->count, 2);
  assert_memory_equal(read->data, "redblue", 7);
  assert_int_equal(entries_of("__schema/__enumerations"), 1);
  tsr_array_close(array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sparse_cells_are_read_back),
      cmocka_unit_test(test_rewinding_takes_cells_back),
      cmocka_unit_test(test_wrong_cells_are_refused),
      cmocka_unit_test(test_nothing_is_visible_before_publish),
      cmocka_unit_test(test_times_rise),
      cmocka_unit_test(test_small_budget_leaves_nothing),
      cmocka_unit_test(test_removed_rows_stay_when_memory_ends),
      cmocka_unit_test(test_kept_cells_stay_in_memory),
      cmocka_unit_test(test_expected_cells_have_room),
      cmocka_unit_test(test_dense_boxes_are_read_back),
      cmocka_unit_test(test_boxes_of_three_dimensions),
      cmocka_unit_test(test_boxes_appear_at_once),
      cmocka_unit_test(test_array_exists_from_publish_on),
      cmocka_unit_test(test_enumerations_are_read_back),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
