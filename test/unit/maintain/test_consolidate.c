/* test_consolidate.c: arrays with random histories (writes, deletes, boxes with gaps) are consolidated and vacuumed,
 * completely or in part, and stopped at every call of the store or by the host. Every read between any two times stays
 * the same.
 */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "store/store.h"
#include "model/domain.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "read/reader.h"
#include "write/writer.h"
#include "disk_test.h"

#define TIMES 6 /* writes, at 10, 20, ... */
#define CELLS 64 /* of a write, at most */
#define ROWS  4096
#define LAST  (10 * TIMES)

static bool timed; /* merged cells keep their times, so the times are compared, too */
static uint64_t polls_left = UINT64_MAX; /* checks for cancellation before the host cancels; UINT64_MAX: never */

static bool interrupted(void *argument) { return polls_left != UINT64_MAX && (polls_left == 0 || polls_left-- == 0); }

static int setup_interrupted(void **state) {
  return setup_with(&(tsr_environment_options){.interrupted = interrupted});
}

/* ---- Arrays of two int32 dimensions and three attributes ------------------------------------ */

typedef struct kind {
  bool dense, duplicates, deletes;
  uint32_t version;
  tsr_order cell_order, tile_order;
  const uint8_t *key;
} kind;

static const uint8_t secret[32] = "0123456789abcdef0123456789abcde";

static bool keeps_times(const kind *k) { return !k->dense && k->version >= 15; }

static void create(const kind *k) {
  tsr_filter zstd = {.type = TSR_FILTER_ZSTD, .level = -1, .reinterpret = TSR_ANY};
  tsr_field fields[5] = {{0}};
  for (int d = 0; d < 2; d++) fields[d] = int32_dimension(d ? "y" : "x", -5, 24, d ? 7 : 10);
  fields[2] =
      (tsr_field){.name = "a", .datatype = TSR_INT64, .values_per_cell = 1, .filters = {.count = 1, .filters = &zstd}};
  fields[3] = (tsr_field){.name = "s", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  fields[4] = (tsr_field){.name = "n", .datatype = TSR_INT16, .values_per_cell = 3, .nullable = true};
  const tsr_schema schema = {.version = k->version,
                             .dense = k->dense,
                             .allows_duplicates = k->duplicates,
                             .tile_order = k->tile_order,
                             .cell_order = k->cell_order,
                             .capacity = 8,
                             .dimension_count = 2,
                             .attribute_count = 3,
                             .fields = fields};
  const tsr_create_options options = {.key = k->key, .unsynced = true, .time = 1};
  new_path();
  timed = keeps_times(k);
  ok(tsr_array_create(environment, path, &schema, &options, &error));
}

static tsr_array *open_array(const kind *k) {
  const tsr_array_options options = {.key = k->key, .threads = 2};
  tsr_array *array = NULL;
  ok(tsr_array_open(environment, path, &options, &array, &error));
  return array;
}

/* Cells to write. All attributes of a cell derive from one number. */
typedef struct batch {
  int32_t x[1024], y[1024];
  int64_t a[1024];
  uint64_t offsets[1025], count;
  char text[1024 * 8];
  int16_t n[1024][3];
  uint8_t valid[1024];
} batch;
static batch b;

static void add(int32_t x, int32_t y) {
  const uint64_t i = b.count++;
  const int64_t number = (int64_t)chance(1000);
  b.x[i] = x;
  b.y[i] = y;
  b.a[i] = number;
  b.offsets[i + 1] = b.offsets[i] + (uint64_t)snprintf(b.text + b.offsets[i], 8, "%.*s", (int)(number % 7), "abcdefg");
  for (int k = 0; k < 3; k++) b.n[i][k] = (int16_t)(number + k);
  b.valid[i] = number % 3 != 0;
}

static void columns_of(tsr_column columns[5]) {
  const tsr_column made[5] = {{.values = b.x},
                              {.values = b.y},
                              {.values = b.a},
                              {.values = b.text, .offsets = b.offsets},
                              {.values = b.n, .validity = b.valid}};
  memcpy(columns, made, sizeof made);
}

static void commit(tsr_writer *writer) {
  ok(tsr_writer_prepare(writer, &error));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}

static tsr_writer *open_writer(tsr_array *array, uint64_t time) {
  const tsr_writer_options options = {.time = time, .unsynced = true};
  tsr_writer *writer;
  ok(tsr_writer_open(array, &options, &writer, &error));
  return writer;
}

static void write_sparse(tsr_array *array, uint64_t time) {
  tsr_writer *writer = open_writer(array, time);
  tsr_column columns[5];
  b.count = 0;
  for (uint64_t i = 0, n = 1 + chance(CELLS); i < n; i++) add((int32_t)chance(12), (int32_t)chance(10));
  columns_of(columns);
  ok(tsr_writer_append(writer, columns, NULL, b.count, &error));
  commit(writer);
}

/* Removes about a quarter of the coordinates that have cells at a time. */
static void write_deletes(tsr_array *array, uint64_t time) {
  tsr_writer *writer = open_writer(array, time);
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  const tsr_batch *got;
  const tsr_column *columns[2];
  ok(tsr_snapshot_open(array, NULL, 0, time, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  ok(tsr_reader_start(reader, NULL, &error));
  const uint64_t salt = chance(1000);
  int r;
  while ((r = tsr_reader_next(reader, &got, &error)) > 0) {
    for (uint32_t d = 0; d < 2; d++) ok(tsr_reader_column(reader, d, &columns[d], &error));
    const tsr_column both[2] = {*columns[0], *columns[1]};
    for (uint64_t i = 0; i < got->count; i++) {
      const uint64_t at = got->selection ? got->selection[i] : got->first + i;
      const int32_t *x = both[0].values, *y = both[1].values;
      if ((salt + (uint64_t)(31 * x[at] + 7 * y[at])) % 4 ==
          0) /* depends on the coordinate alone: all of its cells go */
        ok(tsr_writer_remove(writer, got->rowids ? got->rowids[at] : got->row_base + (int64_t)at, both, at, &error));
    }
  }
  ok(r);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
  commit(writer);
}

static void write_box(tsr_array *array, uint64_t time, int32_t x0, int32_t x1, int32_t y0, int32_t y1) {
  tsr_writer *writer = open_writer(array, time);
  tsr_interval box[2] = {{{0}, {0}, NULL, NULL, 0, 0}};
  tsr_column columns[5];
  b.count = 0;
  for (int32_t x = x0; x <= x1; x++)
    for (int32_t y = y0; y <= y1; y++) add(x, y);
  memcpy(box[0].low, &x0, 4), memcpy(box[0].high, &x1, 4), memcpy(box[1].low, &y0, 4), memcpy(box[1].high, &y1, 4);
  columns_of(columns);
  ok(tsr_writer_append_box(writer, box, false, columns, &error));
  commit(writer);
}

static void write_history(const kind *k) {
  static const int32_t boxes[TIMES][4] = {{0, 9, 0, 5},   {10, 14, 0, 5}, {3, 4, 2, 3},
                                          {20, 24, 9, 9}, {0, 14, 6, 8},  {-5, 24, 2, 2}};
  tsr_array *array = open_array(k);
  for (uint64_t t = 1; t <= TIMES; t++) {
    const int32_t *box = boxes[t - 1];
    if (k->dense) write_box(array, 10 * t, box[0], box[1], box[2], box[3]);
    else write_sparse(array, 10 * t);
    if (k->deletes && chance(2)) write_deletes(array, 10 * t + 5);
  }
  tsr_array_close(array);
}

/* ---- Views: all rows between two times ------------------------------------------------------ */

typedef struct row {
  int32_t x, y;
  int64_t a;
  uint64_t time, hash;
} row;
typedef struct view {
  bool lost; /* a vacuum has taken this state away: reading it is an error */
  uint64_t count;
  row rows[ROWS];
} view;

static int compare_rows(const void *a, const void *c) { return memcmp(a, c, sizeof(row)); }

static void read_view(tsr_array *array, uint64_t since, uint64_t as_of, view *v) {
  tsr_snapshot *snapshot;
  tsr_reader *reader;
  const tsr_batch *got;
  const tsr_column *c[5];
  const tsr_request request = {.times = true};
  int r;
  memset(v, 0, sizeof *v);
  ok(tsr_snapshot_open(array, NULL, since, as_of, &snapshot, &error));
  ok(tsr_reader_open(snapshot, &reader, &error));
  r = tsr_reader_start(reader, &request, &error);
  v->lost = r < 0 && !timed && strstr(error.message, "is lost: cells of") && strstr(error.message, "vacuumed");
  if (!v->lost) ok(r);
  while (!v->lost && (r = tsr_reader_next(reader, &got, &error)) > 0) {
    if (!got->written) continue;
    for (uint32_t f = 0; f < 5; f++) ok(tsr_reader_column(reader, f, &c[f], &error));
    for (uint64_t i = 0; i < got->count; i++) {
      const uint64_t at = got->selection ? got->selection[i] : got->first + i;
      row *one = &v->rows[v->count++];
      assert_true(v->count < ROWS);
      memcpy(&one->x, (const char *)c[0]->values + (c[0]->constant ? 0 : at) * 4, 4);
      memcpy(&one->y, (const char *)c[1]->values + (c[1]->constant ? 0 : at) * 4, 4);
      memcpy(&one->a, (const char *)c[2]->values + at * 8, 8);
      if (timed) one->time = got->times ? got->times[at] : got->time;
      const uint8_t *text = (const uint8_t *)c[3]->values;
      for (uint64_t k = c[3]->offsets[at]; k < c[3]->offsets[at + 1]; k++) one->hash = one->hash * 31 + text[k];
      const uint8_t *n = (const uint8_t *)c[4]->values + at * 6;
      const bool valid = !c[4]->validity || c[4]->validity[at];
      for (int k = 0; k < 6 && valid; k++) one->hash = one->hash * 31 + n[k];
      one->hash = one->hash * 2 + valid;
    }
  }
  if (!v->lost) ok(r);
  qsort(v->rows, v->count, sizeof(row), compare_rows);
  tsr_reader_close(reader);
  tsr_snapshot_close(snapshot);
}

#define VIEWS 40
static view before[VIEWS], now;

static void span_of(unsigned i, uint64_t *since, uint64_t *as_of) {
  static const uint64_t at[] = {0, 5, 9, 10, 11, 15, 20, 25, 29, 30, 35, 36, 40, 45, 50, 55, 59, 60, 65, 1000};
  *since = i < 20 ? 0 : at[i - 20];
  *as_of = i < 20 ? at[i] : i % 3 ? 1000 : at[TSR_MIN(i - 20 + i % 5, 19)];
}

static void keep_views(const kind *k) {
  tsr_array *array = open_array(k);
  for (unsigned i = 0; i < VIEWS; i++) {
    uint64_t since, as_of;
    span_of(i, &since, &as_of);
    read_view(array, since, as_of, &before[i]);
  }
  tsr_array_close(array);
}

/* Checks that all views are as keep_views has found them. `all_times`: only views that include all times. */
static void check_views(const kind *k, bool all_times, const char *when) {
  tsr_array *array = open_array(k);
  for (unsigned i = 0; i < VIEWS; i++) {
    uint64_t since, as_of;
    span_of(i, &since, &as_of);
    if (all_times && (since > 10 || as_of < LAST)) continue;
    read_view(array, since, as_of, &now);
    if (now.lost != before[i].lost || now.count != before[i].count ||
        memcmp(now.rows, before[i].rows, now.count * sizeof(row)) != 0)
      fail_msg("%s, %u to %u: %u rows, expected %u", when, (unsigned)since, (unsigned)as_of, (unsigned)now.count,
               (unsigned)before[i].count);
  }
  tsr_array_close(array);
}

static uint64_t count_fragments(const kind *k) {
  tsr_array *array = open_array(k);
  tsr_snapshot *snapshot;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  const uint64_t count = tsr_fragment_count(snapshot);
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  return count;
}

static int count_fault(void *argument, const tsr_finding *finding) {
  if (finding->severity == TSR_SEVERITY_NOTE) return 0;
  fail_msg("%s: %s", finding->file, finding->message);
  return 0;
}

static void check_sound(const kind *k) {
  const tsr_check_options options = {.key = k->key, .threads = 1};
  ok(tsr_array_check(environment, path, &options, count_fault, NULL, &error));
}

static const kind kinds[] = {
    {.version = 22},
    {.version = 22, .duplicates = true},
    {.version = 22, .deletes = true, .cell_order = TSR_ORDER_COL},
    {.version = 22, .deletes = true, .duplicates = true, .tile_order = TSR_ORDER_COL},
    {.version = 22, .deletes = true, .cell_order = TSR_ORDER_HILBERT, .key = secret},
    {.version = 16, .deletes = true},
    {.version = 14},
    {.version = 12, .duplicates = true},
    {.dense = true, .version = 22},
    {.dense = true, .version = 22, .cell_order = TSR_ORDER_COL, .tile_order = TSR_ORDER_COL, .key = secret},
    {.dense = true, .version = 12},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* ---- Histories ------------------------------------------------------------------------------ */

static void test_views_survive_consolidation_and_vacuum(void **state) {
  static const tsr_maintenance others[] = {TSR_MAINTAIN_COMMITS, TSR_MAINTAIN_FRAGMENT_META, TSR_MAINTAIN_METADATA};
  for (unsigned i = 0; i < KINDS * 3; i++) {
    const kind *k = &kinds[i % KINDS];
    seed = i;
    create(k);
    write_history(k);
    keep_views(k);
    const uint64_t fragments = count_fragments(k);
    const bool parts = i / KINDS == 1;
    for (int round = 0; round < (parts ? 4 : 1); round++) {
      tsr_consolidate_options options = {.threads = 2};
      uint64_t merged = 0;
      if (parts) options = (tsr_consolidate_options){.since = 10 * chance(4), .as_of = 10 + 10 * chance(6)};
      if (i / KINDS == 2) options.memory_bytes = 1 << 20;
      tsr_array *array = open_array(k);
      ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
      tsr_array_close(array);
      if (!parts) assert_true(merged > 0);
      check_views(k, false, "consolidated");
      check_sound(k);
      if (round == 1) {
        array = open_array(k);
        ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &merged, &error));
        tsr_array_close(array);
        check_views(k, !keeps_times(k), "vacuumed");
        if (!keeps_times(k)) keep_views(k);
      }
    }
    assert_true(parts || count_fragments(k) < fragments);
    for (unsigned o = 0; o < 3; o++) {
      uint64_t merged = 0;
      tsr_array *array = open_array(k);
      int code = tsr_array_consolidate(array, others[o], NULL, &merged, &error);
      if (k->version >= 12 || others[o] != TSR_MAINTAIN_COMMITS) ok(code);
      else assert_int_equal(code, TSR_UNSUPPORTED);
      check_views(k, !keeps_times(k) && parts, "other files consolidated");
      ok(tsr_array_vacuum(array, o == 2 ? TSR_MAINTAIN_ALL : others[o], NULL, &merged, &error));
      tsr_array_close(array);
      check_views(k, !keeps_times(k) && (parts || o == 2), "other files vacuumed");
    }
    check_sound(k);
    remove_tree(path);
  }
}

/* ---- Many fragments ------------------------------------------------------------------------- */

/* 90 fragments, or 30 in a sample: the merge's heap has several levels, and most coordinates occur several times. */
static void test_many_fragments_are_merged(void **state) {
  for (unsigned i = 0; i < KINDS; i++) {
    const kind *k = &kinds[i];
    const tsr_consolidate_options options = {.threads = 2};
    const unsigned many = rounds_of(90);
    uint64_t merged;
    if (k->dense) continue;
    seed = 100 + i;
    create(k);
    tsr_array *array = open_array(k);
    for (uint64_t time = 1; time <= many; time++) write_sparse(array, time);
    tsr_array_close(array);
    keep_views(k);
    array = open_array(k);
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
    assert_int_equal(merged, many);
    tsr_array_close(array);
    check_views(k, !keeps_times(k), "many consolidated");
    check_sound(k);
    remove_tree(path);
  }
}

/* ---- tsr_array_mergeable -------------------------------------------------------------------- */

/* The answer is the number of fragments that a consolidation then merges, and asking changes nothing. */
static void test_mergeable_is_what_consolidation_merges(void **state) {
  for (unsigned i = 0; i < KINDS * 2; i++) {
    const kind *k = &kinds[i % KINDS];
    tsr_consolidate_options options = {.threads = 2};
    uint64_t merged = 1, mergeable;
    seed = 200 + i;
    create(k);
    write_history(k);
    for (int round = 0; merged > 0; round++) {
      assert_true(round < 10);
      if (i >= KINDS) options = (tsr_consolidate_options){.since = 10 * chance(3), .as_of = 40 + 10 * chance(3)};
      const uint64_t fragments = entries_of("__fragments"), commits = entries_of("__commits");
      tsr_array *array = open_array(k);
      ok(tsr_array_mergeable(array, &options, &mergeable, &error));
      assert_int_equal(entries_of("__fragments"), fragments);
      assert_int_equal(entries_of("__commits"), commits);
      ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
      assert_int_equal(mergeable, merged);
      if (!round && i < KINDS) assert_true(merged > 0);
      tsr_array_close(array);
    }
    remove_tree(path);
  }
}

/* An array whose fragments are never merged has 0, which is no error. A fragment that does not exist is one. */
static void test_mergeable_of_arrays_never_merged(void **state) {
  tsr_filter scale = {.type = TSR_FILTER_SCALE_FLOAT, .byte_width = 4, .scale = 1};
  tsr_field fields[2] = {{.name = "x",
                          .datatype = TSR_FLOAT64,
                          .values_per_cell = 1,
                          .has_domain = true,
                          .filters = {.count = 1, .filters = &scale}},
                         {.name = "a", .datatype = TSR_INT32, .values_per_cell = 1}};
  const double high = 100, x = 5;
  const tsr_schema schema = {
      .version = 22, .capacity = 8, .dimension_count = 1, .attribute_count = 1, .fields = fields};
  const tsr_create_options created = {.unsynced = true};
  const tsr_consolidate_options unknown = {.fragments = (const char *const[]){"__1_1_aa"}, .fragment_count = 1};
  const kind none = {.version = 22};
  uint64_t mergeable = 1;
  memcpy(fields[0].high, &high, sizeof high);
  new_path();
  ok(tsr_array_create(environment, path, &schema, &created, &error));
  tsr_array *array = open_array(&none);
  for (uint64_t time = 1; time <= 3; time++) {
    tsr_writer *writer = open_writer(array, time);
    ok(tsr_writer_append(writer, (const tsr_column[]){{.values = &x}, {.values = &time}}, NULL, 1, &error));
    commit(writer);
  }
  ok(tsr_array_mergeable(array, NULL, &mergeable, &error));
  assert_int_equal(mergeable, 0);
  assert_int_equal(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &mergeable, &error), TSR_UNSUPPORTED);
  tsr_array_close(array);
  remove_tree(path);
  create(&none);
  array = open_array(&none);
  refused(tsr_array_mergeable(array, &unknown, &mergeable, &error), TSR_NOT_FOUND, "__1_1_aa");
  tsr_array_close(array);
  remove_tree(path);
}

/* ---- Stopped at any point ------------------------------------------------------------------- */

static tsr_store_methods broken;
static const tsr_store_methods *intact;
static uint64_t calls_left;
static bool lies; /* if the first call that fails is a rename, it takes place nevertheless */

static int spend(tsr_error *e) {
  if (calls_left == 0) return tsr__fail(e, TSR_IO, "the machine has stopped");
  calls_left--;
  return TSR_OK;
}
static int broken_create(tsr_store *s, const char *p, tsr_file **f, tsr_error *e) {
  TSR_TRY(spend(e));
  return intact->create_exclusive(s, p, f, e);
}
static int broken_append(tsr_file *f, const void *bytes, uint64_t size, tsr_error *e) {
  TSR_TRY(spend(e));
  return intact->append(f, bytes, size, e);
}
static int broken_rename(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  if (lies && calls_left == 0) (void)intact->rename_exclusive(s, from, to, e);
  if (calls_left == 0) lies = false;
  TSR_TRY(spend(e));
  return intact->rename_exclusive(s, from, to, e);
}
static int broken_remove(tsr_store *s, const char *p, tsr_error *e) {
  TSR_TRY(spend(e));
  return intact->remove(s, p, e);
}
static int broken_make(tsr_store *s, const char *p, tsr_error *e) {
  TSR_TRY(spend(e));
  return intact->make_directory(s, p, e);
}

static void break_store(tsr_array *array, uint64_t calls) {
  intact = array->store->methods;
  broken = *intact;
  broken.create_exclusive = broken_create;
  broken.append = broken_append;
  broken.rename_exclusive = broken_rename;
  broken.remove = broken_remove;
  broken.make_directory = broken_make;
  array->store->methods = &broken;
  calls_left = calls;
}

/* Consolidates, then vacuums, each time with more calls of the store before all calls fail, until they succeed. */
static void test_views_survive_crashes(void **state) {
  for (unsigned i = 0; i < KINDS; i++) {
    const kind *k = &kinds[i];
    seed = 100 + i;
    create(k);
    write_history(k);
    keep_views(k);
    for (int vacuum = 0; vacuum < 2; vacuum++) {
      for (uint64_t calls = 0;; calls += sample() + calls / 6) {
        uint64_t count;
        tsr_array *array = open_array(k);
        break_store(array, calls);
        lies = i == 0 || i == 8 || i == 10;
        int code = vacuum ? tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &count, &error)
                          : tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error);
        array->store->methods = intact;
        tsr_array_close(array);
        check_views(k, vacuum && !keeps_times(k), vacuum ? "a vacuum stopped" : "a consolidation stopped");
        if (code >= 0) break;
        assert_int_equal(code, TSR_IO);
        assert_true(calls < 100000);
      }
    }
    check_sound(k);
    remove_tree(path);
  }
}

/* ---- A disk that does not tell whether a directory is there ---------------------------------- */

static uint64_t looks, blind_from, blind_until; /* lookups so far; the first and the last that fail */

static int broken_stamp(tsr_store *s, const char *p, tsr_stamp *stamp, tsr_error *e) {
  looks++;
  if (looks >= blind_from && looks <= blind_until) return tsr__fail(e, TSR_IO, "the disk does not tell");
  return intact->stamp(s, p, stamp, e);
}

typedef int (*operation)(tsr_array *array);

static int merge_all(tsr_array *array) {
  uint64_t count;
  return tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error);
}
static int merge_commits(tsr_array *array) {
  uint64_t count;
  return tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &count, &error);
}
static int vacuum_all(tsr_array *array) {
  uint64_t count;
  return tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &count, &error);
}

/* Runs `step` with each lookup of a directory failing, only this one (`once`) or this and all later ones, until none
 * fails. The step either returns the error or does not need the answer. */
static void look_at(const kind *k, operation step, bool vacuum, bool once) {
  for (uint64_t n = 1, done = 0; !done; n++) {
    tsr_array *array = open_array(k);
    intact = array->store->methods;
    broken = *intact;
    broken.stamp = broken_stamp;
    array->store->methods = &broken;
    looks = 0;
    blind_from = n;
    blind_until = once ? n : UINT64_MAX;
    const int code = step(array);
    array->store->methods = intact;
    tsr_array_close(array);
    if (code < 0) assert_int_equal(code, TSR_IO);
    done = n > looks;
    if (done) ok(code);
    check_views(k, vacuum && !keeps_times(k), "a look failed");
    assert_true(n < 1000);
  }
}

static void test_failed_lookups_lose_nothing(void **state) {
  const unsigned which[] = {2, 8, 10};
  for (unsigned i = 0; i < 3; i++) {
    const kind *k = &kinds[which[i]];
    seed = 200 + i;
    create(k);
    write_history(k);
    keep_views(k);
    look_at(k, merge_commits, false, true);
    look_at(k, merge_all, false, false);
    look_at(k, vacuum_all, true, i == 1);
    check_sound(k);
    remove_tree(path);
  }
}

/* A vacuum keeps the sources of a vacuum file whose merged fragment is not committed: it is not known whether another
 * fragment has their cells. */
static void test_vacuum_keeps_sources_without_merged_fragment(void **state) {
  const kind *k = &kinds[8];
  tsr_listing entries = {0};
  uint64_t stem, count;
  seed = 9;
  create(k);
  write_history(k);
  keep_views(k);
  tsr_array *array = open_array(k);
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error));
  ok(tsr__store_list(array->store, "__commits", &entries, &error));
  unsigned uncommitted = 0;
  for (uint64_t i = 0; i < entries.count; i++) {
    char commit[200];
    if (!tsr__name_suffix(entries.entries[i].name, ".vac", &stem)) continue;
    snprintf(commit, sizeof commit, "__commits/%.*s.wrt", (int)stem, entries.entries[i].name);
    if (tsr__store_remove(array->store, commit, &error) >= 0) uncommitted++;
  }
  if (!uncommitted) { /* several boxes were committed by one file */
    for (uint64_t i = 0; i < entries.count; i++) {
      char commit[200];
      if (!tsr__name_suffix(entries.entries[i].name, ".con", &stem)) continue;
      snprintf(commit, sizeof commit, "__commits/%s", entries.entries[i].name);
      ok(tsr__store_remove(array->store, commit, &error));
    }
  }
  tsr__listing_release(&entries);
  tsr_array_close(array);
  const uint64_t fragments = entries_of("__fragments");
  for (unsigned i = 0; i < VIEWS; i++) before[i].count = 0;
  keep_views(k);
  look_at(k, vacuum_all, false, false);
  assert_int_equal(entries_of("__fragments"), fragments);
  remove_tree(path);
}

/* Checks that there are no fragments but the committed ones, and no temporary files. */
static void check_nothing_left(const kind *k) {
  static const char *const directories[] = {"", "__commits", "__fragments"};
  tsr_array *array = open_array(k);
  ok(tsr__log_list(&array->log, true, true, &error));
  assert_int_equal(entries_of("__fragments"), array->log.listing->fragments.count);
  for (int d = 0; d < 3; d++) {
    tsr_listing entries = {0};
    ok(tsr__store_list(array->store, directories[d], &entries, &error));
    for (uint64_t i = 0; i < entries.count; i++) assert_int_not_equal(entries.entries[i].name[0], '.');
    tsr__listing_release(&entries);
  }
  tsr_array_close(array);
}

/* A consolidation that the host cancels leaves nothing behind except merges that were complete before. */
static void test_cancelled_consolidation_leaves_nothing(void **state) {
  const unsigned which[] = {2, 8};
  for (unsigned i = 0; i < 2; i++) {
    const kind *k = &kinds[which[i]];
    seed = 7;
    create(k);
    write_history(k);
    keep_views(k);
    unsigned stopped = 0;
    for (uint64_t polls = 0;; polls += 7) {
      uint64_t merged = 0;
      tsr_array *array = open_array(k);
      polls_left = polls;
      int code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &error);
      polls_left = UINT64_MAX;
      tsr_array_close(array);
      if (code >= 0) break;
      stopped++;
      assert_int_equal(code, TSR_INTERRUPT);
      check_nothing_left(k);
    }
    assert_true(stopped > 1);
    check_views(k, false, "stopped");
    remove_tree(path);
  }
}

/* ---- Named fragments, debris ---------------------------------------------------------------- */

static void consolidate_named(tsr_array *array, const char *a, const char *c, int expected, const char *says) {
  const char *names[] = {a, c};
  uint64_t merged;
  const tsr_consolidate_options options = {.fragments = names, .fragment_count = 2};
  int code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error);
  if (code != expected || (code < 0 && !strstr(error.message, says)))
    fail_msg("%s \"%s\" instead of %s", tsr_code_name(code), code < 0 ? error.message : "", tsr_code_name(expected));
}

static void test_named_fragments_are_merged_or_refused(void **state) {
  const kind *k = &kinds[0];
  tsr_snapshot *snapshot;
  char names[TIMES][128];
  seed = 3;
  create(k);
  write_history(k);
  keep_views(k);
  tsr_array *array = open_array(k);
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  for (unsigned i = 0; i < TIMES; i++) snprintf(names[i], 128, "%s", snapshot->fragments[i].fragment->name);
  tsr_snapshot_close(snapshot);
  consolidate_named(array, names[0], names[2], TSR_CONSTRAINT, "cannot be merged with each other");
  consolidate_named(array, names[0], "__1_1_0123", TSR_NOT_FOUND, "no fragment '__1_1_0123'");
  consolidate_named(array, names[1], names[2], TSR_OK, "");
  consolidate_named(array, names[1], names[2], TSR_NOT_FOUND, "another one has replaced it");
  tsr_array_close(array);
  check_views(k, false, "two named");
  assert_int_equal(count_fragments(k), TIMES - 1);
  remove_tree(path);
}

/* A vacuum removes debris after a day, unless a marker of a prepared commit names it, and keeps all other files. */
static void test_vacuum_removes_old_debris(void **state) {
  const kind *k = &kinds[0];
  tsr_file *file;
  uint64_t removed;
  seed = 4;
  create(k);
  write_history(k);
  keep_views(k);
  tsr_array *array = open_array(k);
  tsr_store *store = array->store;
  static const char *const files[] = {"__fragments/.00000000000000000000000000000001/d0.tdb",
                                      "__fragments/.00000000000000000000000000000002/d0.tdb",
                                      "__fragments/__70_70_00000000000000000000000000000003_22/d0.tdb",
                                      "__fragments/__80_80_00000000000000000000000000000004_22/d0.tdb",
                                      "__commits/.__90_90_00000000000000000000000000000005_22",
                                      "__commits/x.tmp"};
  for (unsigned i = 0; i < 6; i++) {
    char name[200];
    snprintf(name, sizeof name, "%s", files[i]);
    *strrchr(name, '/') = 0;
    (void)tsr__store_make_directory(store, name, NULL);
    ok(tsr__store_create_exclusive(store, files[i], &file, &error));
    tsr__store_close_file(file);
    if (i == 1) continue; /* this one stays new */
    char command[1200];
    snprintf(command, sizeof command, "touch -d '2 days ago' '%s/%s'", path, files[i]);
    assert_int_equal(system(command), 0);
    if (i > 3) continue;
    snprintf(command, sizeof command, "touch -d '2 days ago' '%s/%s'", path, name);
    assert_int_equal(system(command), 0);
  }
  static const char marker[] = "__commits/__80_80_00000000000000000000000000000004_22.wrt\n"
                               "__80_80_00000000000000000000000000000004_22\n\n/elsewhere.db\n";
  ok(tsr__store_create_exclusive(store, "__commits/__80_80_00000000000000000000000000000004_22.pending", &file,
                                 &error));
  ok(tsr__store_append(file, marker, sizeof marker - 1, &error));
  tsr__store_close_file(file);
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error));
  assert_int_equal(removed, 3);
  assert_false(tsr__store_exists(store, files[0]));
  assert_true(tsr__store_exists(store, files[1]));
  assert_false(tsr__store_exists(store, files[2]));
  assert_true(tsr__store_exists(store, files[3]));
  assert_false(tsr__store_exists(store, files[4]));
  assert_true(tsr__store_exists(store, files[5]));
  tsr_array_close(array);
  check_views(k, false, "debris vacuumed");
  remove_tree(path);
}

/* ---- Purge ---------------------------------------------------------------------------------- */

static void test_purge_drops_deleted_cells(void **state) {
  for (unsigned i = 0; i < 6; i++) {
    kind k = kinds[2 + i % 3];
    seed = 50 + i;
    create(&k);
    write_history(&k);
    tsr_array *array = open_array(&k);
    write_deletes(array, 66);
    tsr_array_close(array);
    keep_views(&k);
    uint64_t merged;
    const tsr_consolidate_options options = {.purge_deleted = true};
    array = open_array(&k);
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
    assert_int_equal(merged, TIMES);
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &merged, &error));
    read_view(array, 0, 1000, &now); /* the same times as view 19 */
    assert_int_equal(now.count, before[19].count);
    assert_memory_equal(now.rows, before[19].rows, now.count * sizeof(row));
    tsr_snapshot *snapshot;
    ok(tsr_snapshot_open(array, NULL, 0, 1000, &snapshot, &error));
    assert_int_equal(snapshot->fragment_count, 1);
    assert_false(snapshot->fragments[0].fragment->metadata.has_delete_metadata);
    tsr_snapshot_close(snapshot);
    tsr_array_close(array);
    check_sound(&k);
    remove_tree(path);
  }
}

/* ---- Boxes ---------------------------------------------------------------------------------- */

static bool in_box(uint64_t cell, uint32_t n, const uint64_t *low, const uint64_t *high, uint64_t step) {
  const uint64_t at[3] = {cell & 7, cell >> 3 & 7, cell >> 6};
  bool inside = true;
  for (uint32_t d = 0; d < 3; d++)
    inside = inside && at[d] >= (d < n ? low[d * step] : 0) && at[d] <= (d < n ? high[d * step] : 0);
  return inside;
}

static void chance_box(uint32_t n, uint64_t low[3], uint64_t high[3]) {
  for (uint32_t d = 0; d < n; d++) {
    low[d] = chance(8);
    high[d] = low[d] + chance(8 - low[d]);
  }
}

static void assert_covers(const tsr_box_set *set, const uint8_t covered[512]) {
  const uint64_t *ends = (const uint64_t *)(const void *)set->ends.data;
  uint8_t found[512] = {0};
  uint64_t cells = 0;
  for (uint64_t i = 0; i < tsr__box_set_count(set); i++)
    for (uint64_t c = 0; c < 512; c++) {
      const uint64_t *box = ends + 2 * i * set->dimensions;
      found[c] += in_box(c, set->dimensions, box, box + 1, 2);
    }
  assert_memory_equal(covered, found, sizeof found); /* each cell lies in exactly one box */
  for (uint64_t c = 0; c < 512; c++) cells += covered[c];
  assert_int_equal(tsr__box_set_cells(set), cells);
}

static void test_box_set_covers_each_cell_once(void **state) {
  for (unsigned round = 0; round < 300; round++) {
    const uint32_t n = 1 + round % 3;
    tsr_box_set set = {.dimensions = n, .ends.memory = &environment->memory};
    uint8_t covered[512] = {0};
    uint64_t low[3], high[3];
    seed = round;
    for (unsigned i = 0; i < 8; i++) {
      chance_box(n, low, high);
      ok(tsr__box_set_add(&set, low, high, &error));
      for (uint64_t c = 0; c < 512; c++) covered[c] |= in_box(c, n, low, high, 1);
    }
    assert_covers(&set, covered);
    for (unsigned i = 0; i < 4; i++) {
      bool met = false;
      chance_box(n, low, high);
      for (uint64_t c = 0; c < 512; c++) {
        met = met || (covered[c] && in_box(c, n, low, high, 1));
        if (in_box(c, n, low, high, 1)) covered[c] = 0;
      }
      assert_int_equal(tsr__box_set_cut(&set, low, high, &error), met);
      assert_covers(&set, covered);
    }
    tsr__buffer_release(&set.ends);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_box_set_covers_each_cell_once),
      cmocka_unit_test(test_views_survive_consolidation_and_vacuum),
      cmocka_unit_test(test_many_fragments_are_merged),
      cmocka_unit_test(test_mergeable_is_what_consolidation_merges),
      cmocka_unit_test(test_mergeable_of_arrays_never_merged),
      cmocka_unit_test(test_views_survive_crashes),
      cmocka_unit_test(test_cancelled_consolidation_leaves_nothing),
      cmocka_unit_test(test_named_fragments_are_merged_or_refused),
      cmocka_unit_test(test_vacuum_removes_old_debris),
      cmocka_unit_test(test_purge_drops_deleted_cells),
      cmocka_unit_test(test_failed_lookups_lose_nothing),
      cmocka_unit_test(test_vacuum_keeps_sources_without_merged_fragment),
  };
  return cmocka_run_group_tests(tests, setup_interrupted, teardown_empty);
}
