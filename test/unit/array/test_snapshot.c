/* test_snapshot.c: snapshots: fragments in view between two times, conditions, slots, sharing, renewal, vacuums
 * meanwhile. */
#include <time.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "open_array.h"

#define SPARSE "__1_1" U
#define DENSE  "__2_2" U
#define FAR    4102444800000 /* the year 2100 */

/* The host has committed every prepared commit. */
static int committed(void *argument, const char *commit, tsr_error *why) { return 1; }

static int setup_with(bool dense) {
  const tsr_array_host host = {.committed = committed};
  if (setup_store() < 0) return 1;
  tiny_schema(store, dense ? "__schema/" DENSE : "__schema/" SPARSE, dense, 1, a_only);
  return setup_array(&(tsr_array_options){.host = &host});
}
static int setup_sparse(void **state) { return setup_with(false); }
static int setup_dense(void **state) { return setup_with(true); }

static void commit(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "__commits/%s.wrt", name);
  tiny_text(store, path, "");
}
static void uncommit(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "__commits/%s.wrt", name);
  assert_int_equal(tsr__store_remove(store, path, NULL), TSR_OK);
}

/* Writes a committed fragment of these times: sparse, or dense over low..high. */
static void write_fragment(const char *name, bool dense, bool times, int32_t low, int32_t high) {
  const tiny_fragment f = {name, dense ? DENSE : SPARSE, 1, dense, times, low, high, dense ? 0 : 3, 2, NULL};
  tiny_put_fragment(store, &f);
  commit(name);
}

static tsr_snapshot *open_at(uint64_t since, uint64_t as_of) {
  tsr_snapshot *snapshot = NULL;
  if (tsr_snapshot_open(array, NULL, since, as_of, &snapshot, &error) < 0) fail_msg("%s", error.message);
  return snapshot;
}

/* Prepares a commit of one sparse fragment; its writer has died. */
static void prepare(const char *name) {
  const tiny_fragment f = {name, SPARSE, 1, false, false, 0, 9, 3, 2, NULL};
  char commit[256], marker[256];
  tsr_file *lock = NULL;
  tiny_put_fragment(store, &f);
  snprintf(commit, sizeof commit, "__commits/%s.wrt", name);
  snprintf(marker, sizeof marker, "__commits/%s.pending", name);
  const tsr_prepared_marker prepared = {
      .commit = commit, .owner = "me", .file = "/x.db", .fragment_count = 1, .fragments = &name};
  assert_int_equal(tsr__prepared_mark(store, marker, &prepared, true, 2, &lock, &error), TSR_OK);
  tsr__store_close_file(lock);
}

/* Prints "start-end" of each fragment, with ! if it is cut, * if it is prepared, and the number of its conditions in brackets if it has
 * any. */
static const char *visible(uint64_t since, uint64_t as_of) {
  static char text[2048];
  tsr_snapshot *s = open_at(since, as_of);
  text[0] = '\0';
  for (uint64_t i = 0; i < s->fragment_count; i++) {
    const tsr_snapshot_fragment *f = &s->fragments[i];
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, sizeof text - at, "%llu-%llu%s%s", (unsigned long long)f->fragment->parsed.start,
                           (unsigned long long)f->fragment->parsed.end, f->cut ? "!" : "", f->prepared ? "*" : "");
    if (f->condition_count) at += (size_t)snprintf(text + at, sizeof text - at, "(%u)", f->condition_count);
    snprintf(text + at, sizeof text - at, " ");
  }
  tsr_snapshot_close(s);
  return text;
}

static void test_empty_array(void **state) {
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  const tsr_interval *intervals;
  assert_int_equal(s->fragment_count, 0);
  assert_int_equal(tsr_snapshot_non_empty_domain(s, &intervals, &error), 0);
  assert_string_equal(tsr_snapshot_schema(s)->name, SPARSE);
  assert_int_equal(s->unwritten_row_base, -1);
  tsr_snapshot_close(s);
  tsr_snapshot_close(NULL);
}

static void test_dense_fragments_in_view(void **state) {
  write_fragment("__10_10" U "_22", true, false, 0, 9);
  write_fragment("__20_20" U "_22", true, false, 5, 25);
  write_fragment("__10_30" U "_22", true, false, 0, 99); /* merged, replaces both */
  write_fragment("__40_40" U "_22", true, false, 50, 59);
  tiny_text(store, "__commits/__10_30" U "_22.vac",
            "/__fragments/__10_10" U "_22\nfile:///x/__fragments/__20_20" U "_22\n");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-30 40-40 ");
  assert_string_equal(visible(0, 30), "10-30 ");
  assert_string_equal(visible(0, 29), "10-10 20-20 "); /* a cut through the merged one: its sources */
  assert_string_equal(visible(11, 40), "20-20 40-40 ");
  assert_string_equal(visible(10, 10), "10-10 ");
  assert_string_equal(visible(0, 9), "");
  assert_string_equal(visible(41, 50), "");
  assert_string_equal(visible(30, 20), ""); /* ends before it begins */
}

static void test_sparse_fragments_in_view(void **state) {
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  write_fragment("__20_20" U "_22", false, false, 5, 25);
  write_fragment("__10_30" U "_22", false, true, 0, 99);
  write_fragment("__40_40" U "_22", false, false, 50, 59);
  tiny_text(store, "__commits/__10_30" U "_22.vac", "/__fragments/__10_10" U "_22\n/__fragments/__20_20" U "_22\n");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-30 40-40 ");
  assert_string_equal(visible(0, 29), "10-30! ");
  assert_string_equal(visible(11, 40), "10-30! 40-40 ");
  assert_string_equal(visible(10, 10), "10-30! ");
  assert_string_equal(visible(0, 9), "");
  assert_string_equal(visible(30, 30), "10-30! ");
  assert_string_equal(visible(31, 39), "");
}

/* Below version 15 there are no times of cells: a sparse fragment, or a vacuum file, is in view only with its whole
 * time range. */
static void test_old_sparse_fragments_in_view(void **state) {
  write_fragment("__10_10" U "_14", false, false, 0, 9);
  write_fragment("__10_30" U "_14", false, false, 0, 99);
  tiny_text(store, "__commits/__10_30" U "_14.vac", "file:///x/__fragments/__10_10" U "_14");
  assert_string_equal(visible(0, 30), "10-30 ");
  assert_string_equal(visible(0, 29), "10-10 ");
}

static void test_conditions_of_fragments(void **state) {
  tiny_fragment merged = {"__10_30" U "_22", SPARSE, 1, false, true, 0, 9, 3, 2, "__15_15" U "_22"};
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  write_fragment("__20_20" U "_22", false, false, 0, 9);
  tiny_put_fragment(store, &merged);
  commit(merged.name);
  tiny_put_delete(store, "__commits/__15_15" U "_22.del", "a");
  tiny_put_delete(store, "__commits/__20_20" U "_22.del", "a");
  tiny_put_delete(store, "__commits/__35_35" U "_22.del", "x");
  assert_string_equal(visible(0, 9), "");
  assert_string_equal(visible(0, 12), "10-10 10-30! ");
  assert_string_equal(visible(0, 15), "10-10(1) 10-30! "); /* the merged one has been through it */
  assert_string_equal(visible(0, 20), "10-10(2) 10-30!(1) 20-20(1) "); /* its own time counts */
  assert_string_equal(visible(16, TSR_TIME_NOW), "10-30!(2) 20-20(2) ");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10(3) 10-30(2) 20-20(2) ");
  tsr_snapshot *s = open_at(0, 50), *t = open_at(0, 51);
  assert_int_equal(s->fragments[2].conditions[0]->time, 20);
  assert_string_equal(s->fragments[2].conditions[1]->name, "__35_35" U "_22");
  assert_string_equal(s->fragments[2].conditions[1]->root.field, "x");
  assert_ptr_equal(s->fragments[0].conditions[0], t->fragments[0].conditions[0]); /* decoded once */
  tsr_snapshot_close(s);
  tsr_snapshot_close(t);

  tiny_text(store, "__commits/__36_36" U "_22.del", ""); /* damage shows only when it is in view */
  assert_string_equal(visible(0, 35), "10-10(3) 10-30(2) 20-20(2) ");
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, 36, &s, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "__36_36"));
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, 36, &s, NULL), TSR_CORRUPT);
}

static void test_non_empty_domain(void **state) {
  const tsr_interval *intervals;
  int32_t low, high;
  write_fragment("__10_10" U "_22", true, false, 30, 39);
  write_fragment("__20_20" U "_22", true, false, 5, 35);
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  assert_int_equal(tsr_snapshot_non_empty_domain(s, &intervals, &error), 1);
  memcpy(&low, intervals[0].low, 4);
  memcpy(&high, intervals[0].high, 4);
  assert_int_equal(low, 5);
  assert_int_equal(high, 39);
  assert_int_equal(s->domain.box_low[0], 5);
  assert_int_equal(s->domain.box_high[0], 39);
  assert_int_equal(s->grid.last[0], 99);
  assert_true(s->unwritten_row_base > 0);
  int64_t base = s->unwritten_row_base, row = s->fragments[0].fragment->row_base;
  tsr_snapshot_close(s);
  s = open_at(0, 10);
  assert_int_equal(s->unwritten_row_base, base);
  assert_int_equal(s->fragments[0].fragment->row_base, row);
  tsr_snapshot_close(s);
}

static tsr_interval texts(char *low, char *high) {
  return (tsr_interval){
      .low_text = (uint8_t *)low, .high_text = (uint8_t *)high, .low_size = strlen(low), .high_size = strlen(high)};
}

static void test_hulls_of_intervals(void **state) {
  const tsr_field name = {.name = "n", .datatype = TSR_ASCII, .values_per_cell = TSR_VARIABLE};
  const tsr_field real = {.name = "r", .datatype = TSR_FLOAT64, .values_per_cell = 1};
  tsr_interval hull = texts("b", "c");
  const struct {
    char *low, *high, *hull_low, *hull_high;
  } cases[] = {{"b", "c", "b", "c"},
               {"bb", "c\x01", "b", "c\x01"},
               {"a\xff", "b", "a\xff", "c\x01"},
               {"", "c", "", "c\x01"},
               {"x", "\xff", "", "\xff"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_interval box = texts(cases[i].low, cases[i].high);
    tsr__interval_widen(&name, &hull, &box);
    assert_string_equal((const char *)hull.low_text, cases[i].hull_low);
    assert_string_equal((const char *)hull.high_text, cases[i].hull_high);
    assert_true(hull.low_size == strlen(cases[i].hull_low) && hull.high_size == strlen(cases[i].hull_high));
  }
  const double boxes[][4] = {{-1, 1, -1, 1}, {-2, 0.5, -2, 1}, {0, 3, -2, 3}, {-1, 2, -2, 3}}; /* and the hull then */
  memcpy(hull.low, &boxes[0][0], 8);
  memcpy(hull.high, &boxes[0][1], 8);
  for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
    tsr_interval box = {.low_text = NULL};
    memcpy(box.low, &boxes[i][0], 8);
    memcpy(box.high, &boxes[i][1], 8);
    tsr__interval_widen(&real, &hull, &box);
    assert_memory_equal(hull.low, &boxes[i][2], 8);
    assert_memory_equal(hull.high, &boxes[i][3], 8);
  }
}

/* A merge spans the time of a commit from its own start on, but not its end. Cells of sparse fragments from version 15 on
 * have times of their own, which decide instead. */
static void test_merges_that_span_a_commit(void **state) {
  const struct {
    uint64_t time;
    uint32_t version;
    bool dense, spans;
  } cases[] = {{9, 22, true, false},  {10, 22, true, true},   {29, 22, true, true},
               {30, 22, true, false}, {20, 22, false, false}, {20, 15, false, false},
               {20, 14, false, true}, {30, 14, false, false}, {20, 14, true, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_name merged = {.start = 10, .end = 30, .version = cases[i].version};
    if (tsr__late_spans(&merged, cases[i].time, cases[i].dense) != cases[i].spans) fail_msg("case %d", (int)i);
  }
}

/* A sparse merge without times of cells counts as newer than a prepared commit that it spans, also if others have
 * committed in the same millisecond, whose names come before the commit's or after it. */
static void test_prepared_commits_precede_merges_that_span_them(void **state) {
  char name[64];
  write_fragment("__10_10" U "_14", false, false, 0, 9);
  write_fragment("__10_30" U "_14", false, false, 0, 9);
  prepare("__20_20_00000000000000000000000000000002_14");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20* 10-30 ");
  for (int i = 1; i <= 3; i += 2) {
    snprintf(name, sizeof name, "__20_20_0000000000000000000000000000000%d_14", i);
    write_fragment(name, false, false, 0, 9);
  }
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 20-20* 10-30 20-20 ");
  write_fragment("__15_25" U "_14", false, false, 0, 9); /* several such merges stay in order */
  write_fragment("__20_100" U "_14", false, false, 0, 9); /* its name comes before the commit's */
  prepare("__27_27" U "_14");
  write_fragment("__28_28" U "_14", false, false, 0, 9);
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 20-20* 15-25 20-20 27-27* 10-30 20-100 28-28 ");
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  static const uint64_t times[] = {10, 20, 20, 20, 20, 27, 27, 27, 28}; /* by which readers compare cells */
  for (uint64_t i = 0; i < s->fragment_count; i++) assert_int_equal(s->fragments[i].time, times[i]);
  tsr_snapshot_close(s);
}

/* The times of a merged fragment's sources tell what is older than the commit: if they are all there, they are shown. */
static void test_sources_are_shown_around_a_prepared_commit(void **state) {
  write_fragment("__10_10" U "_14", false, false, 0, 9);
  write_fragment("__30_30" U "_14", false, false, 0, 9);
  write_fragment("__10_30" U "_14", false, false, 0, 9);
  tiny_text(store, "__commits/__10_30" U "_14.vac", "__fragments/__10_10" U "_14\n__fragments/__30_30" U "_14\n");
  prepare("__20_20" U "_14");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20* 30-30 ");
  uncommit("__30_30" U "_14");
  assert_string_equal(visible(0, TSR_TIME_NOW), "20-20* 10-30 ");
  tiny_text(store, "__commits/__30_30" U "_14.wrt", "");
  const tsr_schema *schema;
  assert_int_equal(tsr_array_schema(array, TSR_TIME_NOW, &schema, &error), TSR_OK);
  ((tsr_schema *)schema)->allows_duplicates = true; /* all versions of a cell are shown, in any order */
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-30 20-20* ");
}

/* Cells that have times decide one by one. */
static void test_prepared_commits_keep_their_place_beside_times_of_cells(void **state) {
  write_fragment("__10_30" U "_22", false, true, 0, 9);
  prepare("__20_20" U "_22");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-30 20-20* ");
}

static void test_fields_map_to_slots(void **state) {
  static const tiny_attribute new_ones[] = {
      {"b", TSR_FLOAT64, false, NULL}, {"a", TSR_INT32, true, NULL}, {"c", TSR_INT32, false, NULL}};
  static const tiny_attribute other_type[] = {{"a", TSR_INT64, false, NULL}};
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  write_fragment("__11_11" U "_22", false, false, 0, 9);
  tiny_schema(store, "__schema/__20_20" U, false, 3, new_ones);
  tiny_schema(store, "__schema/__30_30" U, false, 1, other_type);
  tsr_snapshot *s = open_at(0, 15);
  assert_int_equal(s->fragments[0].slots[0], 2); /* x: behind a and the place of __coords */
  assert_int_equal(s->fragments[0].slots[1], 0);
  assert_ptr_equal(s->fragments[0].slots, s->fragments[1].slots);
  tsr_snapshot_close(s);
  const tiny_fragment empty = {
      "__9_9" U "_22", SPARSE, 1, false, false, 0, 9, 0, 0, NULL}; /* no cells: no field has a slot */
  tiny_put_fragment(store, &empty);
  commit(empty.name);
  s = open_at(0, 15);
  assert_int_equal(s->fragment_count, 3);
  for (int field = 0; field < 2; field++) {
    assert_int_equal(s->fragments[0].slots[field], -1);
    assert_int_equal(s->fragments[1].slots[field], field == 0 ? 2 : 0);
  }
  assert_ptr_equal(s->fragments[1].slots, s->fragments[2].slots);
  tsr_snapshot_close(s);
  uncommit(empty.name);
  s = open_at(0, 20);
  assert_int_equal(tsr_snapshot_schema(s)->attribute_count, 3);
  assert_int_equal(s->fragments[0].slots[0], 2);
  assert_int_equal(s->fragments[0].slots[1], -1);
  assert_int_equal(s->fragments[0].slots[2], 0); /* nullability does not count */
  assert_int_equal(s->fragments[0].slots[3], -1);
  tsr_snapshot_close(s);
  s = open_at(0, 30);
  assert_int_equal(s->fragments[0].slots[1], -1); /* another datatype: another attribute */
  tsr_snapshot_close(s);

  const tsr_schema *asked; /* by another schema than the one in force */
  assert_int_equal(tsr_array_schema(array, 20, &asked, &error), TSR_OK);
  assert_int_equal(tsr_snapshot_open(array, asked, 0, 10, &s, &error), TSR_OK);
  assert_ptr_equal(tsr_snapshot_schema(s), asked);
  assert_int_equal(s->fragment_count, 1);
  assert_int_equal(s->fragments[0].slots[2], 0);
  tsr_snapshot *other = open_at(0, 10);
  assert_ptr_not_equal(s, other);
  tsr_snapshot_close(other);
  tsr_snapshot_close(s);
}

static void test_snapshots_are_shared(void **state) {
  tsr_counters counters;
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  tsr_snapshot *a = open_at(0, TSR_TIME_NOW), *b = open_at(0, TSR_TIME_NOW), *c = open_at(0, 10);
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, c);
  assert_ptr_equal(a->fragments[0].fragment, c->fragments[0].fragment);
  tsr_environment_reset_counters(environment);
  for (uint64_t i = 0; i < 10; i++) tsr_snapshot_close(open_at(0, 100 + i)); /* pushes out what was kept */
  tsr_snapshot_close(b);
  b = open_at(0, TSR_TIME_NOW);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 0);
  assert_int_equal(counters.commits_listed, 0);

  write_fragment("__20_20" U "_22", false, false, 0, 9);
  tsr_snapshot *d = open_at(0, TSR_TIME_NOW);
  assert_int_equal(d->fragment_count, 2);
  assert_int_equal(a->fragment_count, 1); /* what was opened stays as it was */
  tsr_snapshot_close(a);
  tsr_snapshot_close(b);
  tsr_snapshot_close(c);
  tsr_snapshot_close(d);
}

static uint64_t fragments_listed(void) {
  tsr_counters counters;
  tsr_environment_counters(environment, &counters);
  tsr_environment_reset_counters(environment);
  return counters.fragments_listed;
}

/* Writes a committed fragment. In this store a change has changed the stamps of all directories; in a file system it
 * leaves that of __schema as it was. */
static void add_fragment_alone(const char *name, int32_t low, int32_t high) {
  write_fragment(name, false, false, low, high);
  tsr_stamp *stamps = array->log.listing->moment.stamps;
  assert_int_equal(tsr__store_stamp(store, "", &stamps[TSR_IN_ROOT], NULL), TSR_OK);
  assert_int_equal(tsr__store_stamp(store, "__schema", &stamps[TSR_IN_SCHEMAS], NULL), TSR_OK);
}

/* A snapshot costs what was added since the last one, as long as the additions are the newest; else it is made anew. */
static void test_snapshots_grow(void **state) {
  char name[128];
  write_fragment("__10_10" U "_22", false, false, 0, 4);
  write_fragment("__20_20" U "_22", false, false, 0, 4);
  tsr_snapshot *first = open_at(0, TSR_TIME_NOW), *last = open_at(0, TSR_TIME_NOW);
  fragments_listed();
  add_fragment_alone("__40_40" U "_22", 2, 9);
  tsr_snapshot *grown = open_at(0, TSR_TIME_NOW);
  assert_int_equal(fragments_listed(), 1);
  assert_ptr_equal(grown->list, first->list);
  assert_int_equal(first->fragment_count, 2);
  assert_int_equal(grown->fragment_count, 3);
  assert_int_equal(first->domain.intervals[0].high[0], 4);
  assert_int_equal(grown->domain.intervals[0].high[0], 9);
  tsr_snapshot_close(grown);

  add_fragment_alone("__30_30" U "_22", 0, 9); /* a late commit: between those that are listed */
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 30-30 40-40 ");
  assert_int_equal(fragments_listed(), 4);
  add_fragment_alone("__50_50" U "_22", 0, 9);
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 30-30 40-40 50-50 ");
  assert_int_equal(fragments_listed(), 1);
  uncommit("__50_50" U "_22");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 30-30 40-40 ");
  add_fragment_alone("__60_60" U "_22", 0, 9);
  tiny_text(store, "__commits/__60_60" U "_22.vac", "__fragments/__30_30" U "_22\n");
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 40-40 60-60 ");
  fragments_listed();

  for (int i = 100; i < 300; i++) {
    snprintf(name, sizeof name, "__%d_%d" U "_22", i, i);
    add_fragment_alone(name, 0, 9);
    tsr_snapshot_close(last);
    last = open_at(0, TSR_TIME_NOW);
    assert_int_equal(last->fragment_count, 4 + i - 99);
  }
  assert_true(fragments_listed() <= 200 * 6); /* an array with room for a quarter more is made a few times */
  for (uint64_t i = 1; i < last->fragment_count; i++)
    assert_true(last->fragments[i - 1].fragment->parsed.start < last->fragments[i].fragment->parsed.start);
  assert_int_equal(first->fragment_count, 2);
  assert_int_equal(first->fragments[1].fragment->parsed.start, 20);
  tsr_snapshot_close(first);
  tsr_snapshot_close(last);
}

/* A fragment with a time in the future comes into view at that time without a change on disk. */
static void test_future_comes_into_view(void **state) {
  char name[128];
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  uint64_t soon = tsr__environment_now() + 60;
  snprintf(name, sizeof name, "__%llu_%llu" U "_22", (unsigned long long)soon, (unsigned long long)soon);
  write_fragment(name, false, false, 0, 9);
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW), *t;
  assert_int_equal(s->fragment_count, 1);
  assert_int_equal(s->request.next_change, soon);
  t = open_at(0, soon); /* an end in the future is taken at its word */
  assert_int_equal(t->fragment_count, 2);
  tsr_snapshot_close(t);
  while (tsr__environment_now() <= soon) nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  t = open_at(0, TSR_TIME_NOW);
  assert_int_equal(t->fragment_count, 2);
  assert_int_equal(t->request.next_change, UINT64_MAX);
  tsr_snapshot_close(s);
  tsr_snapshot_close(t);
  snprintf(name, sizeof name, "__20_%llu" U "_22", (unsigned long long)FAR); /* cut by now: its cells have any time */
  write_fragment(name, false, true, 0, 9);
  s = open_at(0, TSR_TIME_NOW);
  assert_true(s->fragments[1].cut);
  assert_int_equal(s->request.next_change, s->as_of + 1);
  tsr_snapshot_close(s);
}

static void test_missing_fragment_is_corrupt(void **state) {
  tsr_snapshot *s;
  commit("__10_10" U "_22");
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error), TSR_CORRUPT);
  if (!strstr(error.message, "__10_10" U "_22") || strncmp(error.message, "array tiny: ", 12) != 0)
    fail_msg("%s", error.message);
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, 9, &s, &error), TSR_OK); /* not in view, not looked for */
  tsr_snapshot_close(s);
  uncommit("__10_10" U "_22");
  tiny_text(store, "__commits/c.con", "__commits/__10_10" U "_22.wrt\n");
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error), TSR_CORRUPT);
  tiny_text(store, "__commits/c.ign", "__commits/__10_10" U "_22.wrt\n");
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error), TSR_OK);
  assert_int_equal(s->fragment_count, 0);
  tsr_snapshot_close(s);
}

/* A fragment is vacuumed after the listing and before it is opened, and the stamps of directories do not show it. */
static void test_vacuum_meanwhile_is_survived(void **state) {
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  write_fragment("__20_20" U "_22", false, false, 0, 9);
  assert_int_equal(tsr__log_list(&array->log, true, false, &error), TSR_OK);
  uncommit("__10_10" U "_22");
  assert_int_equal(tsr__store_remove(store, "__fragments/__10_10" U "_22/__fragment_metadata.tdb", NULL), TSR_OK);
  static const char *const directories[] = {"", "__schema", "__commits"};
  for (int i = 0; i < 3; i++)
    assert_int_equal(tsr__store_stamp(store, directories[i], &array->log.listing->moment.stamps[i], NULL), TSR_OK);
  assert_int_equal(array->log.listing->fragments.count, 2);
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  assert_int_equal(s->fragment_count, 1);
  assert_int_equal(s->fragments[0].fragment->parsed.start, 20);
  tsr_snapshot_close(s);
}

static void test_consolidated_footers_save_files(void **state) {
  tsr_buffer content = {.memory = &environment->memory}, footers = {.memory = &environment->memory};
  tsr_counters counters;
  const char *names[] = {"__10_10" U "_22", "__20_20" U "_22", "__30_30" U "_22"};
  uint64_t at = 4 + 3 * (8 + strlen(names[0]) + 8);
  tiny_u32(&content, 3);
  for (int i = 0; i < 3; i++) {
    const tiny_fragment f = {names[i], SPARSE, 1, false, false, i, 9 + i, 3, 2, NULL};
    tiny_u64(&content, strlen(names[i]));
    tiny_bytes(&content, names[i], strlen(names[i]));
    tiny_u64(&content, at + footers.size);
    tiny_footer(&footers, &f);
    commit(names[i]); /* without a metadata file of its own: the snapshot must not open one */
  }
  tiny_bytes(&content, footers.data, footers.size);
  tiny_put_generic(store, "__fragment_meta/__10_30" U "_22.meta", &content);
  tiny_text(store, "__fragment_meta/__10_20" U "_22.meta", "older, and never read");
  tsr_environment_reset_counters(environment);
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 1);
  assert_int_equal(s->fragment_count, 3);
  assert_int_equal(s->fragments[1].fragment->metadata.non_empty_domain[0].low[0], 1);
  tsr_snapshot_close(s);
  write_fragment("__40_40" U "_22", false, false, 0, 9);
  tsr_environment_reset_counters(environment);
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 30-30 40-40 ");
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 1); /* the new one's */
  tsr__buffer_release(&content);
  tsr__buffer_release(&footers);
}

/* The footers that follow one of version 3, 4 or 11 in a consolidated file are read from the fragments' own files,
 * since the file states wrong offsets. */
static void test_misplaced_footers_are_not_used(void **state) {
  tsr_buffer content = {.memory = &environment->memory}, footers = {.memory = &environment->memory};
  const char *names[] = {"__10_10" U "_22", "__20_20" U, "__30_30" U "_22"};
  uint64_t at = 4 + 3 * 16 + strlen(names[0]) + strlen(names[1]) + strlen(names[2]);
  tiny_u32(&content, 3);
  for (int i = 0; i < 3; i++) {
    tiny_u64(&content, strlen(names[i]));
    tiny_bytes(&content, names[i], strlen(names[i]));
    tiny_u64(&content, at + footers.size + (i == 2 ? 8 : 0)); /* right for the first two */
    tiny_footer(&footers, &(tiny_fragment){names[0], SPARSE, 1, false, false, i, 9, 3, 2, NULL});
    if (i != 1) write_fragment(names[i], false, false, i, 9);
  }
  tiny_u64(&footers, 0);
  tiny_bytes(&content, footers.data, footers.size);
  tiny_put_generic(store, "__fragment_meta/__10_30" U "_22.meta", &content);
  tsr_snapshot *s = open_at(0, TSR_TIME_NOW);
  assert_int_equal(s->fragment_count, 2);
  assert_int_equal(s->fragments[0].fragment->metadata.non_empty_domain[0].low[0], 0);
  assert_int_equal(s->fragments[1].fragment->metadata.non_empty_domain[0].low[0], 2);
  tsr_snapshot_close(s);
  tsr__buffer_release(&content);
  tsr__buffer_release(&footers);
}

static void test_a_frozen_array_shows_nothing_new(void **state) {
  write_fragment("__10_10" U "_22", false, false, 0, 9);
  assert_int_equal(tsr_array_freeze(array, true, &error), TSR_OK);
  const uint64_t frozen = array->log.frozen;
  assert_true(frozen > 0);
  write_fragment("__20_20" U "_22", false, false, 0, 9);
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 ");
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  assert_int_equal(tsr_array_freeze(array, true, &error), TSR_OK); /* it stays at the first time */
  assert_int_equal(array->log.frozen, frozen);
  assert_int_equal(tsr_array_freeze(array, false, &error), TSR_OK);
  assert_int_equal(array->log.frozen, 0);
  assert_string_equal(visible(0, TSR_TIME_NOW), "10-10 20-20 ");
}

static bool stop(void *argument) { return true; }

static void test_host_cancels(void **state) {
  char name[128];
  tsr_snapshot *s;
  for (int i = 1; i <= 100; i++) {
    snprintf(name, sizeof name, "__%d_%d" U "_22", i, i);
    write_fragment(name, false, false, 0, 9);
  }
  environment->memory.cancel.requested = stop;
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error), TSR_INTERRUPT);
  environment->memory.cancel.requested = NULL;
  assert_int_equal(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error), TSR_OK);
  assert_int_equal(s->fragment_count, 100);
  tsr_snapshot_close(s);
}

static void test_no_memory(void **state) {
  int rc = TSR_BUDGET;
  tsr_snapshot *s;
  tiny_fragment merged = {"__10_30" U "_22", SPARSE, 1, false, true, 0, 9, 3, 2, "__15_15" U "_22"};
  tiny_put_fragment(store, &merged);
  commit(merged.name);
  write_fragment("__40_40" U "_22", false, false, 0, 9);
  tiny_text(store, "__commits/__10_30" U "_22.vac", "/__fragments/__10_10" U "_22\n");
  tiny_put_delete(store, "__commits/__15_15" U "_22.del", "a");
  tiny_put_delete(store, "__commits/__50_50" U "_22.del", "a");
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 16) {
    environment->memory.limit = environment->memory.used + limit;
    rc = tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &s, &error);
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    assert_true(limit < 1 << 20);
  }
  assert_int_equal(s->fragment_count, 2);
  assert_int_equal(s->fragments[0].condition_count, 1);
  tsr_snapshot_close(s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_empty_array, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_dense_fragments_in_view, setup_dense, teardown),
      cmocka_unit_test_setup_teardown(test_sparse_fragments_in_view, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_old_sparse_fragments_in_view, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_conditions_of_fragments, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_non_empty_domain, setup_dense, teardown),
      cmocka_unit_test(test_hulls_of_intervals),
      cmocka_unit_test(test_merges_that_span_a_commit),
      cmocka_unit_test_setup_teardown(test_prepared_commits_precede_merges_that_span_them, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_sources_are_shown_around_a_prepared_commit, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_prepared_commits_keep_their_place_beside_times_of_cells, setup_sparse,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_fields_map_to_slots, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_snapshots_are_shared, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_snapshots_grow, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_future_comes_into_view, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_missing_fragment_is_corrupt, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_vacuum_meanwhile_is_survived, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_consolidated_footers_save_files, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_misplaced_footers_are_not_used, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_a_frozen_array_shows_nothing_new, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_host_cancels, setup_sparse, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup_sparse, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
