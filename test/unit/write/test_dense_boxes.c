/* test_dense_boxes.c: cells of any shape become boxes that hold just these cells. Writing them changes no other cell;
 * cells in gaps over which boxes are joined stay as they were. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"
#include "write/fragment_writer.h"
#include "write/dense_boxes.h"
#include "disk_test.h"

#define MAX 20000 /* cells */

/* ---- A schema of one to three dimensions, cells of it --------------------------------------- */

static tsr_field fields[6];
static tsr_schema schema;

static void make_schema(uint32_t n, int64_t low, int64_t high, const int64_t *extents, bool col) {
  static char *const names[] = {"x", "y", "z"};
  for (uint32_t d = 0; d < n; d++) {
    fields[d] = (tsr_field){.name = names[d],
                            .is_dimension = true,
                            .datatype = TSR_INT64,
                            .values_per_cell = 1,
                            .cell_size = 8,
                            .has_domain = true,
                            .has_extent = true};
    memcpy(fields[d].low, &low, 8);
    memcpy(fields[d].high, &high, 8);
    memcpy(fields[d].extent, &extents[d], 8);
  }
  fields[n] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1, .cell_size = 4};
  fields[n + 1] = (tsr_field){.name = "s", .datatype = TSR_UTF8, .values_per_cell = TSR_VARIABLE, .nullable = true};
  fields[n + 2] =
      (tsr_field){.name = "f", .datatype = TSR_FLOAT32, .values_per_cell = 2, .cell_size = 8, .nullable = true};
  schema = (tsr_schema){.dense = true,
                        .version = 22,
                        .dimension_count = n,
                        .attribute_count = 3,
                        .fields = fields,
                        .capacity = 100,
                        .tile_order = col ? TSR_ORDER_COL : TSR_ORDER_ROW,
                        .cell_order = col ? TSR_ORDER_COL : TSR_ORDER_ROW};
}

typedef struct cells {
  uint64_t count;
  int64_t at[3][MAX];
  int32_t a[MAX];
  uint64_t offsets[MAX + 1];
  char text[MAX * 8];
  uint8_t valid[MAX];
  float f[MAX][2];
  tsr_column columns[6];
} cells;
static cells c;

static void text_of(int32_t number, char text[8]) { snprintf(text, 8, "%.*s", (int)(number % 6), "abcdef"); }

static void clear(void) {
  c.count = 0;
  for (uint32_t d = 0; d < schema.dimension_count; d++) c.columns[d] = (tsr_column){.values = c.at[d], .cell_size = 8};
  tsr_column *attributes = c.columns + schema.dimension_count;
  attributes[0] = (tsr_column){.values = c.a, .cell_size = 4};
  attributes[1] = (tsr_column){.values = c.text, .offsets = c.offsets, .validity = c.valid};
  attributes[2] = (tsr_column){.values = c.f, .validity = c.valid, .cell_size = 8};
}

static void add(const int64_t *at, int32_t number) {
  uint64_t i = c.count++;
  assert_true(i < MAX);
  for (uint32_t d = 0; d < schema.dimension_count; d++) c.at[d][i] = at[d];
  c.a[i] = number;
  text_of(number, c.text + c.offsets[i]);
  c.offsets[i + 1] = c.offsets[i] + strlen(c.text + c.offsets[i]);
  c.valid[i] = number % 3 != 0;
  c.f[i][0] = (float)number;
  c.f[i][1] = -1;
}

static int opened(uint64_t most, int (*snapshot)(void *, tsr_snapshot **, tsr_error *), void *argument,
                  tsr_boxes **boxes) {
  const tsr_boxes_source source = {.schema = &schema,
                                   .columns = c.columns,
                                   .count = c.count,
                                   .most = most,
                                   .open_snapshot = snapshot,
                                   .argument = argument,
                                   .memory = &environment->memory,
                                   .threads = 1};
  return tsr__boxes_open(&source, boxes, &error);
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

#define SIDE 40 /* the domain of each dimension is 0..39 */
static uint64_t slot_of(const int64_t *at) {
  uint64_t slot = 0;
  for (uint32_t d = 0; d < schema.dimension_count; d++) slot = slot * SIDE + (uint64_t)at[d];
  return slot;
}
static bool next_point(int64_t *at, const int64_t *low, const int64_t *high) {
  for (uint32_t d = schema.dimension_count; d-- > 0; at[d] = low[d])
    if (++at[d] <= high[d]) return true;
  return false;
}

static int64_t end_of(const uint8_t *bytes) {
  int64_t value;
  memcpy(&value, bytes, 8);
  return value;
}

/* Each cell lies in exactly one box, and no other cell lies in any. */
static void check_boxes(tsr_boxes *boxes, const uint8_t *wanted) {
  static uint8_t found[SIDE * SIDE * SIDE];
  memset(found, 0, sizeof found);
  for (uint64_t i = 0; i < tsr__boxes_count(boxes); i++) {
    const tsr_interval *box = tsr__boxes_box(boxes, i);
    int64_t low[3], high[3], at[3];
    for (uint32_t d = 0; d < schema.dimension_count; d++) {
      at[d] = low[d] = end_of(box[d].low);
      high[d] = end_of(box[d].high);
      assert_true(low[d] >= 0 && low[d] <= high[d] && high[d] < SIDE);
    }
    do found[slot_of(at)]++;
    while (next_point(at, low, high));
  }
  assert_memory_equal(found, wanted, sizeof found);
}

static void boxes_hold_exactly_the_cells(void **state) {
  static uint8_t wanted[SIDE * SIDE * SIDE];
  for (int round = 0; round < 120; round++) {
    uint32_t n = 1 + (uint32_t)chance(3);
    int64_t extents[3];
    for (int d = 0; d < 3; d++) extents[d] = 1 + (int64_t)chance(chance(2) ? 40 : 9);
    make_schema(n, 0, SIDE - 1, extents, chance(2));
    clear();
    memset(wanted, 0, sizeof wanted);
    uint64_t parts = 1 + chance(4), noise = chance(3) ? 0 : chance(200);
    for (uint64_t part = 0; part < parts + noise; part++) {
      int64_t low[3], high[3], at[3];
      for (uint32_t d = 0; d < n; d++) {
        at[d] = low[d] = (int64_t)chance(SIDE);
        high[d] = low[d] + (part < parts ? (int64_t)chance(16) : 0);
        high[d] = TSR_MIN(high[d], SIDE - 1);
      }
      do {
        wanted[slot_of(at)] = 1;
        add(at, 1);
      } while (next_point(at, low, high));
    }
    const bool in_order = parts == 1 && !noise && chance(2);
    const bool twice = in_order && c.count > 1 && chance(3) == 0; /* one cell again in place of its neighbour */
    if (twice) {
      const uint64_t i = 1 + chance(c.count - 1);
      int64_t lost[3];
      for (uint32_t d = 0; d < n; d++) lost[d] = c.at[d][i];
      wanted[slot_of(lost)] = 0;
      for (uint32_t d = 0; d < n; d++) c.at[d][i] = c.at[d][i - 1];
    }
    for (uint64_t i = in_order ? 1 : c.count; i > 1; i--) /* in any order; cells in which parts overlap occur twice */
      for (uint32_t d = 0, other = (uint32_t)chance(i); d < n; d++) {
        int64_t swap = c.at[d][i - 1];
        c.at[d][i - 1] = c.at[d][other];
        c.at[d][other] = swap;
      }
    tsr_boxes *boxes = NULL;
    ok(opened(0, NULL, NULL, &boxes));
    check_boxes(boxes, wanted);
    if (parts == 1 && !noise && !twice) assert_int_equal(tsr__boxes_count(boxes), 1);
    if (in_order) assert_true(boxes->in_order == !twice);
    tsr__boxes_close(boxes);
  }
}

static void no_cell_has_no_box_and_one_has_one(void **state) {
  tsr_boxes *boxes = NULL;
  make_schema(2, 0, SIDE - 1, (int64_t[]){10, 10}, false);
  clear();
  ok(opened(1, NULL, NULL, &boxes));
  assert_int_equal(tsr__boxes_count(boxes), 0);
  tsr__boxes_close(boxes);
  add((int64_t[]){39, 0}, 1);
  ok(opened(1, NULL, NULL, &boxes));
  assert_int_equal(tsr__boxes_count(boxes), 1);
  assert_int_equal(end_of(tsr__boxes_box(boxes, 0)[0].low), 39);
  assert_int_equal(end_of(tsr__boxes_box(boxes, 0)[1].high), 0);
  tsr__boxes_close(boxes);
  add((int64_t[]){38, 1}, 1);
  assert_int_equal(opened(1, NULL, NULL, &boxes), TSR_FULL);
  assert_non_null(strstr(error.message, "2 separate boxes"));
  assert_non_null(strstr(error.message, "kind=sparse"));
}

/* Tiles whose numbers do not fit into 64 bits have exact boxes, too. */
static void distant_tiles_have_exact_boxes(void **state) {
  const int64_t low = INT64_MIN + 5, high = INT64_MAX - 2000;
  for (int round = 0; round < 10; round++) {
    make_schema(3, low, high, (int64_t[]){1 + (int64_t)chance(3), 1 + (int64_t)chance(1000), 16}, round % 2);
    clear();
    const int64_t sides[] = {low, low + 1000000007, -1, 0, 77777777777777, high - 3};
    uint64_t corners = 0;
    for (uint64_t i = 0; i < 6; i++)
      for (uint64_t j = 0; j < 6; j++)
        for (uint64_t k = 0; k < 6; k++) {
          if (chance(2)) continue;
          corners++; /* a box of 2 x 3 x 2 cells at each, but those at -1 and 0 touch */
          for (int64_t cell = 0; cell < 12; cell++)
            add((int64_t[]){sides[i == 2 ? 3 : i] + cell % 2, sides[j == 2 ? 3 : j] + cell / 2 % 3,
                            sides[k == 2 ? 3 : k] + cell / 6},
                1);
        }
    tsr_boxes *boxes = NULL;
    ok(opened(0, NULL, NULL, &boxes));
    uint64_t held = 0;
    for (uint64_t i = 0; i < tsr__boxes_count(boxes); i++) {
      uint64_t size = 1;
      for (int d = 0; d < 3; d++)
        size *= (uint64_t)(end_of(tsr__boxes_box(boxes, i)[d].high) - end_of(tsr__boxes_box(boxes, i)[d].low) + 1);
      held += size;
      assert_int_equal(size, 12);
    }
    assert_true(tsr__boxes_count(boxes) <= corners);
    assert_int_equal(held, 12 * tsr__boxes_count(boxes));
    tsr__boxes_close(boxes);
  }
}

/* ---- Arrays --------------------------------------------------------------------------------- */

static int32_t expected[SIDE * SIDE]; /* a cell's number; -1: never written */

static tsr_array *make_array(uint32_t version) {
  tsr_array *array = NULL;
  schema.version = version;
  new_path();
  const tsr_create_options options = {.unsynced = true};
  ok(tsr_array_create(environment, path, &schema, &options, &error));
  ok(tsr_array_open(environment, path, NULL, &array, &error));
  for (int i = 0; i < SIDE * SIDE; i++) expected[i] = -1;
  const tsr_schema *made = NULL;
  ok(tsr_array_schema(array, TSR_TIME_NOW, &made, &error));
  schema.name = made->name;
  return array;
}

static int present(void *argument, tsr_snapshot **snapshot, tsr_error *e) {
  return tsr_snapshot_open(argument, NULL, 0, TSR_TIME_NOW, snapshot, e);
}

/* Commits the boxes as fragments of one time. */
static void commit(tsr_array *array, tsr_boxes *boxes, uint64_t time) {
  tsr_store *store = array->store;
  for (int i = 0; i < 2; i++) {
    bool exists;
    ok(tsr__directory_find(store, i ? "__commits" : "__fragments", &exists, &error));
    if (!exists) ok(tsr__store_make_directory(store, i ? "__commits" : "__fragments", &error));
  }
  for (uint64_t i = 0; i < tsr__boxes_count(boxes); i++) {
    char directory[200], name[100], file[200];
    snprintf(name, sizeof name, "__%llu_%llu_%032llx_22", (unsigned long long)time, (unsigned long long)time,
             (unsigned long long)i);
    snprintf(directory, sizeof directory, "__fragments/%s", name);
    snprintf(file, sizeof file, "__commits/%s.wrt", name);
    ok(tsr__store_make_directory(store, directory, &error));
    const tsr_fragment_target target = {.environment = environment,
                                        .store = store,
                                        .directory = directory,
                                        .metadata_name = "__fragment_metadata.tdb",
                                        .schema = &schema,
                                        .version = 22,
                                        .box = tsr__boxes_box(boxes, i),
                                        .memory = &environment->memory,
                                        .threads = 1};
    ok(tsr__boxes_write(boxes, i, &target, &error));
    tsr_file *commit_file = NULL;
    ok(tsr__store_create_exclusive(store, file, &commit_file, &error));
    tsr__store_close_file(commit_file);
  }
}

static void check_row(tsr_reader *reader, const tsr_batch *batch, uint64_t i) {
  const tsr_column *columns[5];
  int64_t at[2];
  for (uint32_t f = 0; f < 5; f++) ok(tsr_reader_column(reader, f, &columns[f], &error));
  for (uint32_t d = 0; d < 2; d++)
    memcpy(&at[d], (const uint8_t *)columns[d]->values + (columns[d]->constant ? 0 : 8 * i), 8);
  int32_t number = expected[slot_of(at)], a;
  assert_int_equal(batch->written, number >= 0);
  if (!batch->written) return;
  memcpy(&a, (const uint8_t *)columns[2]->values + 4 * i, 4);
  assert_int_equal(a, number);
  char text[8];
  text_of(number, text);
  uint64_t begin = columns[3]->offsets[i], size = columns[3]->offsets[i + 1] - begin;
  assert_int_equal(size, strlen(text)); /* nulls have values, too */
  assert_memory_equal((const uint8_t *)columns[3]->values + begin, text, size);
  float f[2];
  memcpy(f, (const uint8_t *)columns[4]->values + 8 * i, 8);
  assert_true(f[0] == (float)number && f[1] == -1);
  assert_int_equal(columns[3]->validity[i], number % 3 != 0);
  assert_int_equal(columns[4]->validity[i], number % 3 != 0);
}

static void check_array(tsr_array *array) {
  tsr_snapshot *snapshot = NULL;
  tsr_reader *reader = NULL;
  const tsr_batch *batch;
  uint64_t rows = 0;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  const tsr_request request = {0};
  ok(tsr_reader_start(reader, &request, &error));
  int code;
  while ((code = tsr_reader_next(reader, &batch, &error)) > 0)
    for (uint64_t r = 0; r < batch->count; r++, rows++)
      check_row(reader, batch, batch->selection ? batch->selection[r] : batch->first + r);
  ok(code);
  if (rows) assert_true(rows <= SIDE * SIDE);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

static void add_expected(const int64_t *at, int32_t number) {
  add(at, number);
  expected[slot_of(at)] = number;
}

static void writing_changes_the_given_cells_alone(void **state) {
  int joined = 0, refused = 0;
  for (int round = 0; round < 16; round++) {
    make_schema(2, 0, SIDE - 1, (int64_t[]){1 + (int64_t)chance(20), 1 + (int64_t)chance(20)}, chance(2));
    tsr_array *array = make_array(22);
    for (uint64_t time = 1; time < 6; time++) {
      int32_t kept[SIDE * SIDE];
      memcpy(kept, expected, sizeof kept);
      clear();
      const bool all_of_it = time == 1 && round % 2;
      int64_t low[2], high[2], at[2];
      for (int d = 0; d < 2; d++) {
        at[d] = low[d] = all_of_it ? 0 : (int64_t)chance(SIDE);
        high[d] = all_of_it ? SIDE - 1 : TSR_MIN(low[d] + 30, SIDE - 1);
      }
      do {
        if (time % 2 || chance(3) == 0) add_expected(at, (int32_t)chance(1000));
      } while (next_point(at, low, high));
      for (int i = 0; i < 3 && chance(2); i++)
        add_expected((int64_t[]){(int64_t)chance(SIDE), (int64_t)chance(SIDE)}, (int32_t)chance(1000));
      tsr_boxes *boxes = NULL, *all = NULL;
      uint64_t most = chance(3) ? 1 + chance(30) : 0;
      int code = opened(most, present, array, &boxes);
      if (code == TSR_FULL) {
        refused++;
        memcpy(expected, kept, sizeof kept);
        continue;
      }
      ok(code);
      ok(opened(0, NULL, NULL, &all));
      if (most) assert_true(tsr__boxes_count(boxes) <= most);
      joined += tsr__boxes_count(boxes) < tsr__boxes_count(all);
      commit(array, boxes, time);
      tsr__boxes_close(boxes);
      tsr__boxes_close(all);
      check_array(array);
    }
    tsr_array_close(array);
  }
  assert_true(joined > 4 && refused > 2);
}

/* A million cells in any order are found to be one box, within the time limit of all tests. */
static void a_million_cells_are_one_box(void **state) {
  const uint64_t side = 1000, count = side * side;
  make_schema(2, 0, 9999, (int64_t[]){100, 150}, false);
  clear();
  int64_t *x = malloc(8 * count), *y = malloc(8 * count);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t other = chance(i + 1);
    x[i] = x[other];
    y[i] = y[other];
    x[other] = 77 + (int64_t)(i / side);
    y[other] = 1234 + (int64_t)(i % side);
  }
  c.columns[0].values = x;
  c.columns[1].values = y;
  c.count = count;
  tsr_boxes *boxes = NULL;
  ok(opened(1, NULL, NULL, &boxes));
  assert_int_equal(tsr__boxes_count(boxes), 1);
  assert_int_equal(end_of(tsr__boxes_box(boxes, 0)[0].high), 1076);
  assert_int_equal(end_of(tsr__boxes_box(boxes, 0)[1].low), 1234);
  tsr__boxes_close(boxes);
  free(x);
  free(y);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(boxes_hold_exactly_the_cells),   cmocka_unit_test(no_cell_has_no_box_and_one_has_one),
      cmocka_unit_test(distant_tiles_have_exact_boxes), cmocka_unit_test(writing_changes_the_given_cells_alone),
      cmocka_unit_test(a_million_cells_are_one_box),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
