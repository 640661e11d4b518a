/* test_overlay.c: random histories of a writer agree with a naive model. A history appends cells, removes rows, sets
 * marks and rewinds to them, opens snapshots with the changes on top, looks up points and rowids, and commits. Arrays
 * have all orders, duplicates or none, strings, or are dense; the memory suffices, or the writer spills. */

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

#define SIDE 24 /* values of a dimension: -3..20 */
#define LOW  (-3)
#define ROWS 6000

/* ---- The array ------------------------------------------------------------------------------ */

typedef enum kind { ROW, COL, HILBERT, DUPLICATES, STRINGS, OLD, DENSE, DENSE_COL, KINDS } kind;
static const char *const kind_names[] = {"row", "col", "hilbert", "duplicates", "strings", "old", "dense", "dense col"};
static kind present_kind;
static bool spills; /* the memory is short */
static uint64_t spilled; /* how often cells were on disk */

static bool is_dense(void) { return present_kind == DENSE || present_kind == DENSE_COL; }

static void create(uint64_t capacity) {
  tsr_field fields[4];
  tsr_filter zstd = {.type = TSR_FILTER_ZSTD, .level = -1, .reinterpret = TSR_ANY};
  for (int d = 0; d < 2; d++) fields[d] = int32_dimension(d ? "y" : "x", LOW, LOW + SIDE - 1, d ? 7 : 5);
  if (present_kind == STRINGS)
    fields[0] = (tsr_field){.name = "x", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  fields[2] =
      (tsr_field){.name = "a", .datatype = TSR_INT64, .values_per_cell = 1, .filters = {.count = 1, .filters = &zstd}};
  fields[3] = (tsr_field){.name = "s", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE, .nullable = true};
  const tsr_schema schema = {.version = present_kind == OLD ? 17 : 22,
                             .dense = is_dense(),
                             .allows_duplicates = present_kind == DUPLICATES,
                             .tile_order = present_kind == COL ? TSR_ORDER_COL : TSR_ORDER_ROW,
                             .cell_order = present_kind == COL || present_kind == DENSE_COL ? TSR_ORDER_COL
                                           : present_kind == HILBERT                        ? TSR_ORDER_HILBERT
                                                                                            : TSR_ORDER_ROW,
                             .capacity = capacity,
                             .dimension_count = 2,
                             .attribute_count = 2,
                             .fields = fields};
  const tsr_create_options options = {.unsynced = true};
  new_path();
  ok(tsr_array_create(environment, path, &schema, &options, &error));
}

/* ---- The model ------------------------------------------------------------------------------ */

typedef struct cell {
  int x, y; /* 0..SIDE - 1 */
  int64_t value; /* the number from which its attributes are made */
  int64_t row;
} cell;

static cell committed[ROWS], own[ROWS];
static int64_t removed[2 * ROWS];
static uint64_t committed_count, own_count, removed_count;
static cell visible[2 * ROWS];
static uint64_t visible_count;

static bool is_removed(int64_t row) {
  for (uint64_t i = 0; i < removed_count; i++)
    if (removed[i] == row) return true;
  return false;
}

static void see(const cell *c) {
  if (!is_removed(c->row)) visible[visible_count++] = *c;
}

/* Finds the rows that are visible now. */
static void look(void) {
  static bool taken[SIDE][SIDE];
  memset(taken, 0, sizeof taken);
  visible_count = 0;
  const bool duplicates = present_kind == DUPLICATES;
  for (uint64_t i = own_count; i-- > 0;) {
    if (!duplicates && taken[own[i].x][own[i].y]) continue;
    taken[own[i].x][own[i].y] = true;
    see(&own[i]);
  }
  for (uint64_t i = 0; i < committed_count; i++)
    if (duplicates || !taken[committed[i].x][committed[i].y]) see(&committed[i]);
}

static void text_of(int64_t value, char text[16]) { snprintf(text, 16, "%.*s", (int)(value % 11), "abcdefghijk"); }
static void name_of(int x, char text[16]) { snprintf(text, 16, "%.*s%d", x % 4, "nnnn", x); }

static int x_of(const char *name, uint64_t size) {
  for (int x = 0; x < SIDE; x++) {
    char text[16];
    name_of(x, text);
    if (strlen(text) == size && memcmp(text, name, size) == 0) return x;
  }
  fail_msg("no such name");
  return 0;
}

/* A batch of cells as columns. */
typedef struct batch {
  int32_t x[300], y[300];
  int64_t a[300];
  char names[300 * 16], text[300 * 16];
  uint64_t name_offsets[301], offsets[301];
  uint8_t valid[300];
  uint64_t count;
  tsr_column columns[4];
} batch;
static batch b;

static void start(void) {
  b.count = 0;
  b.columns[0] = (tsr_column){.values = b.x, .cell_size = 4};
  if (present_kind == STRINGS) b.columns[0] = (tsr_column){.values = b.names, .offsets = b.name_offsets};
  b.columns[1] = (tsr_column){.values = b.y, .cell_size = 4};
  b.columns[2] = (tsr_column){.values = b.a, .cell_size = 8};
  b.columns[3] = (tsr_column){.values = b.text, .offsets = b.offsets, .validity = b.valid};
}

static void add(const cell *c) {
  const uint64_t i = b.count++;
  b.x[i] = c->x + LOW;
  b.y[i] = c->y + LOW;
  b.a[i] = c->value;
  text_of(c->value, b.text + b.offsets[i]);
  b.offsets[i + 1] = b.offsets[i] + strlen(b.text + b.offsets[i]);
  name_of(c->x, b.names + b.name_offsets[i]);
  b.name_offsets[i + 1] = b.name_offsets[i] + strlen(b.names + b.name_offsets[i]);
  b.valid[i] = c->value % 3 != 0;
}

/* ---- What is read against it ---------------------------------------------------------------- */

static int32_t int_at(const tsr_column *column, uint64_t i) {
  int32_t v;
  memcpy(&v, (const uint8_t *)column->values + (column->constant ? 0 : i * 4), 4);
  return v;
}

static cell cell_at(tsr_reader *reader, const tsr_batch *got, uint64_t i) {
  const tsr_column *columns[4];
  cell c = {.value = -1};
  for (uint32_t f = 0; f < 4; f++) ok(tsr_reader_column(reader, f, &columns[f], &error));
  if (present_kind == STRINGS) {
    const uint64_t j = columns[0]->constant ? 0 : i, from = columns[0]->offsets[j];
    c.x = x_of((const char *)columns[0]->values + from, columns[0]->offsets[j + 1] - from);
  } else {
    c.x = int_at(columns[0], i) - LOW;
  }
  c.y = int_at(columns[1], i) - LOW;
  c.row = got->rowids ? got->rowids[i] : got->row_base + (int64_t)i;
  if (!got->written) return c;
  memcpy(&c.value, (const uint8_t *)columns[2]->values + (columns[2]->constant ? 0 : i * 8), 8);
  const uint64_t j = columns[3]->constant ? 0 : i, size = columns[3]->offsets[j + 1] - columns[3]->offsets[j];
  char text[16];
  text_of(c.value, text);
  assert_int_equal(size, strlen(text));
  assert_memory_equal((const uint8_t *)columns[3]->values + columns[3]->offsets[j], text, size);
  assert_int_equal(columns[3]->validity[j] != 0, c.value % 3 != 0);
  assert_int_equal((got->times ? got->times[i] : got->time) == UINT64_MAX, c.row < 0);
  return c;
}

typedef struct wish { /* selected coordinates and values; order of the rows */
  int x_low, x_high, y_low, y_high;
  int64_t a_low, a_high;
  tsr_sort order[2];
  uint32_t order_count;
} wish;
static const wish everything = {.x_high = SIDE - 1, .y_high = SIDE - 1, .a_high = INT64_MAX};

static bool is_wanted(const wish *w, const cell *c) {
  return c->x >= w->x_low && c->x <= w->x_high && c->y >= w->y_low && c->y <= w->y_high && c->value >= w->a_low &&
         c->value <= w->a_high;
}

static int start_reader(tsr_reader *reader, const wish *w) {
  const int32_t x_low = w->x_low + LOW, x_high = w->x_high + LOW, y_low = w->y_low + LOW, y_high = w->y_high + LOW;
  const tsr_range ranges[] = {{.low = &x_low, .high = &x_high}, {.low = &y_low, .high = &y_high}};
  const tsr_ranges dimensions[] = {
      {.ranges = &ranges[0], .count = 1, .all = present_kind == STRINGS || w->x_high - w->x_low == SIDE - 1},
      {.ranges = &ranges[1], .count = 1, .all = w->y_high - w->y_low == SIDE - 1}};
  const tsr_range a = {.low = &w->a_low, .high = &w->a_high};
  const tsr_predicate predicate = {.field = 2, .kind = TSR_PREDICATE_WITHIN, .ranges = {.ranges = &a, .count = 1}};
  const bool fields[4] = {chance(2), chance(2), chance(2), chance(2)};
  const tsr_request request = {.dimensions = dimensions,
                               .predicates = &predicate,
                               .predicate_count = w->a_high < INT64_MAX,
                               .fields = fields,
                               .order = w->order,
                               .order_count = w->order_count,
                               .times = chance(2)};
  return tsr_reader_start(reader, &request, &error);
}

static int text_rank(int x) { /* names sort as their bytes do */
  char own_name[16], other[16];
  int rank = 0;
  name_of(x, own_name);
  for (int i = 0; i < SIDE; i++) {
    name_of(i, other);
    rank += strcmp(other, own_name) < 0;
  }
  return rank;
}

static bool in_order(const wish *w, const cell *c, const cell *next) {
  for (uint32_t k = 0; k < w->order_count; k++) {
    int p = w->order[k].dimension ? c->y : c->x, q = w->order[k].dimension ? next->y : next->x;
    if (!w->order[k].dimension && present_kind == STRINGS) p = text_rank(p), q = text_rank(q);
    if (p != q) return (p < q) != w->order[k].descending;
  }
  return true;
}

static void check_rows(tsr_snapshot *snapshot, const wish *w) {
  static bool found[2 * ROWS];
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  uint64_t rows = 0, wanted = 0;
  cell before = {0};
  bool first = true;
  int code;
  memset(found, 0, sizeof found);
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(start_reader(reader, w));
  while ((code = tsr_reader_next(reader, &got, &error)) > 0)
    for (uint64_t r = 0; r < got->count; r++) {
      const cell c = cell_at(reader, got, got->selection ? got->selection[r] : got->first + r);
      uint64_t i = 0;
      if (!first) assert_true(in_order(w, &before, &c));
      before = c;
      first = false;
      if (!got->written) {
        for (; i < visible_count; i++) assert_false(visible[i].x == c.x && visible[i].y == c.y);
        continue;
      }
      if (present_kind == STRINGS && (c.x < w->x_low || c.x > w->x_high)) continue;
      while (i < visible_count && visible[i].row != c.row) i++;
      if (i == visible_count) fail_msg("row %lld at %d, %d should not be there", (long long)c.row, c.x, c.y);
      if (visible[i].x != c.x || visible[i].y != c.y || visible[i].value != c.value)
        fail_msg("row %lld at %d, %d", (long long)c.row, c.x, c.y);
      assert_true(is_wanted(w, &c));
      assert_false(found[i]);
      found[i] = true;
      rows++;
    }
  ok(code);
  for (uint64_t i = 0; i < visible_count; i++) wanted += is_wanted(w, &visible[i]);
  assert_int_equal(rows, wanted);
  tsr_reader_close(reader);
}

static wish some_wish(void) {
  wish w = everything;
  if (chance(2)) w.x_low = (int)chance(SIDE), w.x_high = w.x_low + (int)chance((uint64_t)(SIDE - w.x_low));
  if (chance(2)) w.y_low = (int)chance(SIDE), w.y_high = w.y_low + (int)chance((uint64_t)(SIDE - w.y_low));
  if (chance(3) == 0) w.a_low = (int64_t)chance(1000), w.a_high = w.a_low + (int64_t)chance(300);
  w.order_count = (uint32_t)chance(3);
  w.order[0] = (tsr_sort){.dimension = (uint32_t)chance(2), .descending = chance(2)};
  w.order[1] = (tsr_sort){.dimension = 1 - w.order[0].dimension, .descending = chance(2)};
  return w;
}

static void check_row_by_id(tsr_snapshot *snapshot) {
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  ok(tsr_reader_open(snapshot, &reader, &error));
  for (int i = 0; i < 5 && visible_count > 0; i++) {
    const cell *wanted = &visible[chance(visible_count)];
    assert_int_equal(tsr_reader_find(reader, wanted->row, &got, &error), 1);
    assert_int_equal(got->count, 1);
    const cell c = cell_at(reader, got, got->selection ? got->selection[0] : got->first);
    assert_true(c.x == wanted->x && c.y == wanted->y && c.value == wanted->value && c.row == wanted->row);
    assert_int_equal(tsr_reader_next(reader, &got, &error), 0);
  }
  if (removed_count > 0) assert_int_equal(tsr_reader_find(reader, removed[chance(removed_count)], &got, &error), 0);
  assert_int_equal(tsr_reader_find(reader, -1, &got, &error), 0);
  assert_int_equal(tsr_reader_find(reader, tsr__uncommitted_rowid(own_count), &got, &error), 0);
  tsr_reader_close(reader);
}

/* A snapshot that was opened earlier, as a statement has one while others go on. Its rows stay as they were when cells
 * have come since, were spilled, or were taken back and replaced by others with the same numbers. */
typedef struct aged {
  tsr_snapshot *view;
  cell rows[20];
  uint64_t count, removed; /* so many rows were removed then */
} aged;

static void renew_aged(aged *a, tsr_snapshot *base, tsr_writer *writer) {
  tsr_snapshot_close(a->view);
  look();
  ok(tsr_snapshot_with(base, writer, &a->view, &error));
  a->removed = removed_count;
  for (a->count = 0; a->count < 20 && visible_count > 0; a->count++) a->rows[a->count] = visible[chance(visible_count)];
}

static void check_aged(const aged *a) {
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  if (!a->view) return;
  ok(tsr_reader_open(a->view, &reader, &error));
  for (uint64_t i = 0; i < a->count; i++) {
    const int code = tsr_reader_find(reader, a->rows[i].row, &got, &error);
    ok(code);
    assert_int_equal(code, 1);
    const cell c = cell_at(reader, got, got->selection ? got->selection[0] : got->first);
    assert_true(c.x == a->rows[i].x && c.y == a->rows[i].y && c.value == a->rows[i].value && c.row == a->rows[i].row);
  }
  tsr_reader_close(reader);
}

static void check_point(tsr_writer *writer, tsr_snapshot *base) {
  const cell c = {.x = (int)chance(SIDE), .y = (int)chance(SIDE)};
  bool there = false, right = false;
  int64_t row = 0;
  start();
  add(&c);
  const int code = tsr_writer_find(writer, base, b.columns, 0, &row, &error);
  ok(code);
  for (uint64_t i = 0; i < visible_count; i++) {
    if (visible[i].x != c.x || visible[i].y != c.y) continue;
    there = true;
    right |= visible[i].row == row;
  }
  assert_int_equal(code, there);
  assert_int_equal(right, there);
}

/* ---- Histories ------------------------------------------------------------------------------ */

typedef struct point {
  tsr_mark mark;
  uint64_t own, removed;
} point;

static tsr_snapshot *open_base(tsr_array *array, const tsr_writer *writer) {
  tsr_snapshot *base = NULL;
  ok(tsr_snapshot_open(array, tsr_writer_schema(writer), 0, TSR_TIME_NOW, &base, &error));
  return base;
}

static void append(tsr_writer *writer) {
  const uint64_t most = chance(4) && !spills ? 5 : 250, first = own_count;
  const uint64_t n = 1 + chance(TSR_MIN(most, ROWS - own_count - 1));
  start();
  for (uint64_t i = 0; i < n; i++) {
    own[own_count] =
        (cell){(int)chance(SIDE), (int)chance(SIDE), (int64_t)chance(1000), tsr__uncommitted_rowid(own_count)};
    add(&own[own_count++]);
  }
  ok(tsr_writer_append(writer, b.columns, NULL, b.count, &error));
  assert_int_equal(tsr_writer_mark(writer).cells, first + n);
}

static void take_away(tsr_writer *writer) {
  for (uint64_t n = 1 + chance(chance(4) ? 3 : 60); n > 0; n--) {
    look();
    if (visible_count == 0) return;
    const cell *c = &visible[chance(visible_count)];
    start();
    add(c);
    ok(tsr_writer_remove(writer, c->row, b.columns, 0, &error));
    removed[removed_count++] = c->row;
    assert_int_equal(tsr_writer_mark(writer).removed, removed_count);
  }
}

static void check_view(tsr_writer *writer, tsr_snapshot *base) {
  tsr_snapshot *view = NULL, *again = NULL;
  look();
  ok(tsr_snapshot_with(base, writer, &view, &error));
  ok(tsr_snapshot_with(base, writer, &again, &error));
  assert_ptr_equal(view, again);
  tsr_snapshot_close(again);
  check_rows(view, &everything);
  for (int i = 0; i < 3; i++) {
    const wish w = some_wish();
    check_rows(view, &w);
  }
  check_row_by_id(view);
  tsr_snapshot_close(view);
}

/* The committed rows are the rows that were visible, with new rowids. */
static void take_committed(tsr_snapshot *snapshot) {
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  int code;
  uint64_t left = visible_count;
  committed_count = own_count = removed_count = 0;
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  while ((code = tsr_reader_next(reader, &got, &error)) > 0)
    for (uint64_t r = 0; r < got->count; r++) {
      const cell c = cell_at(reader, got, got->selection ? got->selection[r] : got->first + r);
      uint64_t i = 0;
      if (!got->written) continue;
      while (i < left && (visible[i].x != c.x || visible[i].y != c.y || visible[i].value != c.value)) i++;
      if (i == left) fail_msg("a cell at %d, %d that should not be there", c.x, c.y);
      visible[i] = visible[--left];
      committed[committed_count++] = c;
    }
  ok(code);
  assert_int_equal(left, 0);
  tsr_reader_close(reader);
}

/* A condition deletes all cells at its coordinates, so a test of an array with duplicates removes them all. */
static void take_away_all(tsr_writer *writer) {
  for (uint64_t i = 0; i < removed_count; i++)
    for (uint64_t k = 0; k < committed_count; k++) {
      if (committed[k].row != removed[i]) continue;
      for (uint64_t j = 0; j < committed_count; j++) {
        if (committed[j].x != committed[k].x || committed[j].y != committed[k].y || is_removed(committed[j].row))
          continue;
        start();
        add(&committed[j]);
        ok(tsr_writer_remove(writer, committed[j].row, b.columns, 0, &error));
        removed[removed_count++] = committed[j].row;
      }
    }
}

static void history(tsr_array *array, uint64_t memory, unsigned steps) {
  static point points[64];
  uint64_t point_count = 0;
  const tsr_writer_options options = {.unsynced = true, .memory_bytes = memory};
  tsr_writer *writer = NULL;
  ok(tsr_array_freeze(array, true, &error));
  ok(tsr_writer_open(array, &options, &writer, &error));
  tsr_snapshot *base = open_base(array, writer);
  aged earlier = {0};
  for (unsigned step = 0; step < steps && own_count < ROWS - 300 && removed_count < ROWS; step++) {
    switch (chance(9)) {
    case 0:
    case 1:
    case 2: append(writer); break;
    case 3:
      if (!is_dense()) take_away(writer);
      break;
    case 4:
      if (point_count == 64) point_count = 0;
      points[point_count++] = (point){tsr_writer_mark(writer), own_count, removed_count};
      break;
    case 5:
      if (point_count == 0 || chance(2)) break;
      point_count = chance(point_count);
      ok(tsr_writer_rewind(writer, points[point_count].mark, &error));
      own_count = points[point_count].own;
      removed_count = points[point_count].removed;
      break;
    case 6:
    case 7: check_view(writer, base); break;
    default:
      look();
      for (int i = 0; i < 20; i++) check_point(writer, base);
      if (chance(10) == 0 && present_kind != DUPLICATES) ok(tsr_writer_prepare(writer, &error));
    }
    if (removed_count < earlier.removed) { /* the writer's log knows which rows it lacks, and was rewound */
      tsr_snapshot_close(earlier.view);
      earlier = (aged){0};
    }
    check_aged(&earlier);
    if (chance(6) == 0) renew_aged(&earlier, base, writer);
    assert_int_equal(tsr_writer_changed(writer), own_count + removed_count > 0);
    spilled += spills && hidden_entries("__fragments") > 0;
  }
  check_aged(&earlier);
  tsr_snapshot_close(earlier.view);
  check_view(writer, base);
  if (present_kind == DUPLICATES) take_away_all(writer);
  look();
  const bool gone = chance(5) == 0;
  if (gone) {
    ok(tsr_writer_abandon(writer, &error));
    own_count = removed_count = 0;
  } else {
    ok(tsr_writer_prepare(writer, &error));
    ok(tsr_writer_publish(writer, &error));
  }
  tsr_snapshot_close(base);
  tsr_writer_close(writer);
  assert_int_equal(hidden_entries("__fragments"), 0);
  ok(tsr_array_freeze(array, false, &error));
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &base, &error));
  if (gone) {
    look();
    check_rows(base, &everything);
  } else {
    take_committed(base);
  }
  tsr_snapshot_close(base);
}

static void run(kind which, uint64_t memory) {
  present_kind = which;
  spills = memory > 0;
  spilled = 0;
  for (unsigned n = 0; n < (spills ? 1u : 2u); n++) {
    committed_count = own_count = removed_count = 0;
    seed = 100 * which + n + 1;
    create(1 + chance(60));
    tsr_array *array = NULL;
    ok(tsr_array_open(environment, path, NULL, &array, &error));
    for (unsigned commit = 0; commit < 3; commit++) {
      print_message("%s %u, commit %u\n", kind_names[which], n, commit);
      history(array, memory, spills ? 60 : rounds_of(60));
    }
    tsr_array_close(array);
  }
  assert_int_equal(spilled > 0, spills);
}

static void test_histories_agree_in_row_order(void **state) { run(ROW, 0); }
static void test_histories_agree_in_column_order(void **state) { run(COL, 0); }
static void test_histories_agree_in_hilbert_order(void **state) { run(HILBERT, 0); }
static void test_histories_agree_with_duplicates(void **state) { run(DUPLICATES, 0); }
static void test_histories_agree_with_strings(void **state) { run(STRINGS, 0); }
static void test_histories_agree_in_version_17(void **state) { run(OLD, 0); }
static void test_spilled_histories_agree_in_row_order(void **state) { run(ROW, 1000000); }
static void test_spilled_histories_agree_in_hilbert_order(void **state) { run(HILBERT, 1000000); }
static void test_spilled_histories_agree_with_duplicates(void **state) { run(DUPLICATES, 1000000); }
static void test_spilled_histories_agree_with_strings(void **state) { run(STRINGS, 1000000); }
static void test_spilled_histories_agree_in_dense_arrays(void **state) { run(DENSE, 1000000); }
static void test_spilled_histories_agree_in_dense_column_order(void **state) { run(DENSE_COL, 1000000); }
static void test_histories_agree_in_dense_arrays(void **state) { run(DENSE, 0); }
static void test_histories_agree_in_dense_column_order(void **state) { run(DENSE_COL, 0); }

/* A commit of far more cells than memory has room for succeeds. Its memory stays within the limit and `known` bytes for
 * fragments and tiles that are known. */
static void write_many(uint64_t cells, uint64_t memory, uint64_t known) {
  enum { BATCH = 300, CACHE = 1 << 20 };
  tsr_environment *outer = environment;
  tsr_array *array = NULL;
  tsr_writer *writer = NULL;
  tsr_snapshot *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_batch *got;
  present_kind = ROW;
  ok(tsr_environment_open(NULL, &environment, &error));
  create(1000);
  const tsr_array_options array_options = {.cache_bytes = CACHE, .threads = 2};
  const tsr_writer_options options = {.unsynced = true, .memory_bytes = memory};
  ok(tsr_array_open(environment, path, &array_options, &array, &error));
  ok(tsr_writer_open(array, &options, &writer, &error));
  for (uint64_t n = 0; n < cells; n += BATCH) {
    start();
    for (uint64_t i = 0; i < BATCH; i++) {
      const uint64_t k = (n + i) * 7919 % (SIDE * SIDE);
      const cell c = {(int)(k / SIDE), (int)(k % SIDE), (int64_t)(n + i), 0};
      add(&c);
    }
    ok(tsr_writer_append(writer, b.columns, NULL, b.count, &error));
  }
  assert_true(hidden_entries("__fragments") > 3);
  ok(tsr_writer_prepare(writer, &error));
  assert_int_equal(tsr_writer_fragment_count(writer), 1);
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  assert_int_equal(hidden_entries("__fragments"), 0);
  assert_in_range(environment->memory.peak, CACHE, memory + CACHE + known);
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  uint64_t rows = 0;
  int code;
  while ((code = tsr_reader_next(reader, &got, &error)) > 0)
    for (uint64_t r = 0; r < got->count; r++, rows++) {
      const cell c = cell_at(reader, got, got->selection ? got->selection[r] : got->first + r);
      assert_true((uint64_t)c.value >= cells - SIDE * SIDE); /* the last version of each coordinate */
      assert_int_equal((uint64_t)c.value * 7919 % (SIDE * SIDE), c.x * SIDE + c.y);
    }
  ok(code);
  assert_int_equal(rows, SIDE * SIDE);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  tsr_environment_close(environment);
  environment = outer;
}

static void test_large_commit_stays_within_memory(void **state) { write_many(300000, 4 << 20, 1 << 20); }

/* More runs than memory can merge at once are merged in passes. */
static void test_many_runs_are_merged_in_passes(void **state) { write_many(300000, 600000, 16 << 20); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_histories_agree_in_row_order),
                                     cmocka_unit_test(test_histories_agree_in_column_order),
                                     cmocka_unit_test(test_histories_agree_in_hilbert_order),
                                     cmocka_unit_test(test_histories_agree_with_duplicates),
                                     cmocka_unit_test(test_histories_agree_with_strings),
                                     cmocka_unit_test(test_histories_agree_in_version_17),
                                     cmocka_unit_test(test_histories_agree_in_dense_arrays),
                                     cmocka_unit_test(test_histories_agree_in_dense_column_order),
                                     cmocka_unit_test(test_spilled_histories_agree_in_row_order),
                                     cmocka_unit_test(test_spilled_histories_agree_in_hilbert_order),
                                     cmocka_unit_test(test_spilled_histories_agree_with_duplicates),
                                     cmocka_unit_test(test_spilled_histories_agree_with_strings),
                                     cmocka_unit_test(test_spilled_histories_agree_in_dense_arrays),
                                     cmocka_unit_test(test_spilled_histories_agree_in_dense_column_order),
                                     cmocka_unit_test(test_large_commit_stays_within_memory),
                                     cmocka_unit_test(test_many_runs_are_merged_in_passes)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
