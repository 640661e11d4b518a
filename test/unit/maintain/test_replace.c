/* test_replace.c: other processes prepare, commit, merge and vacuum while a merge, a vacuum or a read is running. A
 * hook in the store runs the other process just before a chosen call. */

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "write/writer.h"
#include "maintain/maintain.h"
#include "define/define.h"
#include "format/generic_tile.h"
#include "format/layout.h"
#include "format/schema.h"
#include "small_array.h"

/* ---- Fragments that may still be committed --------------------------------------------------- */

/* A prepared commit prevents merges over its time, however old it is. It is published late, and then all three
 * fragments are merged. */
static void test_prepared_commit_prevents_merge_over_its_time(void **state) {
  static const uint32_t versions[] = {22, 12};
  for (int v = 0; v < 2; v++) {
    tsr_array *array = make_small(versions[v], true, false);
    char middle[128], place[200], expected[4096];
    write_small(array, 10, 0, 19, NULL);
    tsr_writer *writer = prepare_small(array, 20, 5, 9, "/elsewhere.db", middle);
    write_small(array, 30, 8, 19, NULL);
    snprintf(place, sizeof place, "__fragments/%s", middle);
    age(place);
    tsr_array *other = open_small();
    assert_int_equal(merge_small(other), 0);
    ok(tsr_writer_publish(writer, &error));
    tsr_writer_close(writer);
    snprintf(expected, sizeof expected, "%s", cells_of(array, TSR_TIME_NOW));
    assert_non_null(strstr(expected, "7=2007 8=3008 "));
    assert_int_equal(merge_small(other), 3);
    assert_string_equal(cells_of(other, TSR_TIME_NOW), expected);
    tsr_array_close(other);
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* ---- The hook in the store ------------------------------------------------------------------- */

static const tsr_store_methods *plain;
static tsr_store_methods watched;
static const char *watched_part; /* the hook acts on calls whose path contains this */
static void (*others)(void); /* what the other process does just before such a call, once; then NULL */
static unsigned passed; /* matching calls that are passed over first */
static bool removals; /* only removals count, not renames, opens and listings */
static uint64_t later; /* the time at which the other process has written */

static void act_before(const char *name) {
  void (*act)(void) = others;
  if (!act || !strstr(name, watched_part) || (passed && passed--)) return;
  others = NULL;
  act();
}
static int watched_rename(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  if (!removals) act_before(to);
  return plain->rename_exclusive(s, from, to, e);
}
static int watched_open(tsr_store *s, const char *name, tsr_file **file, tsr_error *e) {
  if (!removals) act_before(name);
  return plain->open_file(s, name, file, e);
}

static int watched_remove(tsr_store *s, const char *name, tsr_error *e) {
  act_before(name);
  return plain->remove(s, name, e);
}

static int watched_list(tsr_store *s, const char *name, tsr_listing *out, tsr_error *e) {
  if (!removals) act_before(name);
  return plain->list(s, name, out, e);
}

static void watch(tsr_array *array, const char *part, void (*act)(void)) {
  plain = array->store->methods;
  watched = *plain;
  watched.rename_exclusive = watched_rename;
  watched.open_file = watched_open;
  watched.read_small = NULL; /* small files are opened, too */
  watched.remove = watched_remove;
  watched.list = watched_list;
  array->store->methods = &watched;
  watched_part = part;
  others = act;
}
static void unwatch(tsr_array *array) {
  array->store->methods = plain;
  assert_null(others);
}

static int count_fault(void *argument, const tsr_finding *finding) {
  if (finding->severity != TSR_SEVERITY_NOTE) fail_msg("%s: %s", finding->file, finding->message);
  return 0;
}

static void no_faults(void) {
  tsr_check_options options = {.threads = 1};
  uint64_t removed;
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
  tsr_array_close(array);
  ok(tsr_array_check(environment, path, &options, count_fault, NULL, &error));
}
/* ---- Commits that are consolidated ----------------------------------------------------------- */

static void merge_first_two(void) {
  const tsr_consolidate_options options = {.as_of = 20};
  uint64_t merged = 0;
  tsr_array *array = open_small();
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
  assert_int_equal(merged, 2);
  tsr_array_close(array);
}
static void merge_and_vacuum(void) {
  uint64_t removed;
  merge_first_two();
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
  tsr_array_close(array);
}

static bool other_in_steps; /* the store of the other process renames in steps */
static void merge_some_and_vacuum(uint64_t as_of) {
  const tsr_consolidate_options options = {.as_of = as_of};
  uint64_t count;
  tsr_error one;
  tsr_array *array = open_small();
  array->store->renames_in_steps = other_in_steps;
  const int code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &count, &one);
  if (code != TSR_ABORT) ok(code);
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error));
  tsr_array_close(array);
}
static void merge_two_and_vacuum(void) { merge_some_and_vacuum(20); }
static void merge_all_and_vacuum(void) { merge_some_and_vacuum(0); }

/* Another process merges two fragments, which only an older .con commits, while a new .con is written. Until a vacuum,
 * reads of earlier times still see them. */
static void test_merge_during_consolidation_of_commits(void **state) {
  for (int vacuumed = 0; vacuumed < 2; vacuumed++) {
    uint64_t merged, removed;
    tsr_array *array = make_small(22, true, false);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, 0, 0, NULL);
    write_small(array, 30, 4, 4, NULL);
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &merged, &error));
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
    assert_int_equal(removed, 3);
    write_small(array, 40, 5, 5, NULL);
    watch(array, ".con", vacuumed ? merge_and_vacuum : merge_first_two);
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &merged, &error));
    unwatch(array);
    for (int round = 0; round < 2; round++) {
      assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 4=3004 5=4005 ");
      assert_string_equal(cells_of(array, 30), "0=2000 1=1001 4=3004 ");
      assert_string_equal(cells_of(array, 10), vacuumed ? "lost" : "0=1000 1=1001 ");
      no_faults();
    }
    tsr_array_close(array);
    merge_small(array = open_small()); /* later merges and vacuums work */
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &removed, &error));
    assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 4=3004 5=4005 ");
    no_faults();
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* One process writes a .con, a second merges two of its fragments before that, and a third removes the commit files
 * that the new .con has. The merged sources stay committed by the .con. */
static void vacuum_commits(void) {
  uint64_t removed;
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
  assert_int_equal(removed, 3); /* all except that of the merged fragment */
  tsr_array_close(array);
}
static void merge_then_vacuum_commits(void) {
  merge_first_two();
  others = vacuum_commits; /* when the .con is opened the next time */
}
static void test_merge_and_vacuum_during_consolidation_of_commits(void **state) {
  uint64_t merged;
  tsr_array *array = make_small(22, true, false);
  write_small(array, 10, 0, 1, NULL);
  write_small(array, 20, 0, 0, NULL);
  write_small(array, 30, 4, 4, NULL);
  watch(array, ".con", merge_then_vacuum_commits);
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &merged, &error));
  unwatch(array);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 4=3004 ");
  assert_string_equal(cells_of(array, 10), "0=1000 1=1001 ");
  assert_string_equal(cells_of(array, 20), "0=2000 1=1001 ");
  tsr_array_close(array);
  no_faults();
  remove_tree(path);
}

/* Another process listed the commits before a merge, and publishes its .con at any moment of the vacuum after the
 * merge. It cancels entries whose fragments are gone. */
static char late[2][128];
static void come_late(void) {
  tsr_store *store = open_store(path);
  tsr_buffer lines = {.memory = &environment->memory}, cancelled = {.memory = &environment->memory};
  for (int i = 0; i < 2; i++) ok(tsr__commits_encode_write(late[i], &lines, &error));
  ok(tsr__file_publish(store, "__commits/__10_20_a0000000000000000000000000000000_22.con", lines.data, lines.size,
                       &error));
  for (int i = 0; i < 2; i++) {
    const tsr_path directory = tsr__path_of("__fragments", late[i], "");
    bool exists;
    ok(tsr__directory_find(store, directory.text, &exists, &error));
    if (!exists) ok(tsr__commits_encode_write(late[i], &cancelled, &error));
  }
  if (cancelled.size)
    ok(tsr__file_publish(store, "__commits/__10_20_b0000000000000000000000000000000_22.ign", cancelled.data,
                         cancelled.size, &error));
  tsr__buffer_release(&lines);
  tsr__buffer_release(&cancelled);
  tsr__store_close(store);
}
static void come_late_at(bool dense) {
  bool done = false;
  for (unsigned at = 0; !done; at++) {
    uint64_t removed;
    tsr_array *array = make_small(22, dense, false);
    write_small(array, 10, 0, 1, late[0]);
    write_small(array, 20, 0, 0, late[1]);
    write_small(array, 30, 4, 4, NULL);
    merge_first_two();
    watch(array, "__", come_late);
    passed = at;
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
    done = others != NULL;
    others = NULL;
    unwatch(array);
    for (int round = 0; round < 2; round++) {
      assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 4=3004 ");
      assert_string_equal(cells_of(array, 10), dense ? "lost" : "0=1000 1=1001 ");
      no_faults();
    }
    tsr_array_close(array);
    remove_tree(path);
    assert_true(at < 200);
  }
  passed = 0;
}
static void test_con_published_during_vacuum(void **state) {
  come_late_at(true);
  come_late_at(false);
}

/* Cells of dense arrays do not store their times, so readers of a time within a merge see its sources until the vacuum:
 * at each step of the vacuum all of them or none. */
static void look_back(void) {
  tsr_array *array = open_small();
  const char *seen = cells_of(array, 20);
  if (strcmp(seen, "lost") != 0 && strcmp(seen, "0=2000 1=1001 ") != 0)
    fail_msg("some sources are gone, and others are not: %s", seen);
  tsr_array_close(array);
}
static void test_sources_of_a_dense_merge_go_at_once(void **state) {
  bool done = false;
  for (unsigned at = 0; !done; at++) {
    uint64_t removed;
    tsr_array *array = make_small(22, true, false);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, 0, 0, NULL);
    write_small(array, 30, 1, 1, NULL);
    assert_int_equal(merge_small(array), 3);
    watch(array, "__", look_back);
    removals = true;
    passed = at;
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
    done = others != NULL;
    others = NULL;
    removals = false;
    unwatch(array);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=3001 ");
    tsr_array_close(array);
    remove_tree(path);
    assert_true(at < 200);
  }
  passed = 0;
}

/* A .con and the .ign that cancels it appear while a directory is listed, and the listing has only the .ign: the vacuum
 * must not remove the .ign. */
static bool torn;
static void come_cancelled(void) {
  torn = true;
  come_late();
}
static int torn_list(tsr_store *s, const char *name, tsr_listing *out, tsr_error *e) {
  act_before(name);
  int code = plain->list(s, name, out, e);
  for (uint64_t i = 0; torn && code >= 0 && i < out->count; i++) {
    if (!strstr(out->entries[i].name, "_a0000000000000000000000000000000_22.con")) continue;
    memmove(out->entries + i, out->entries + i + 1, (out->count - i - 1) * sizeof *out->entries);
    out->count--;
  }
  torn = false;
  return code;
}
static void test_torn_listing_keeps_ign(void **state) {
  bool done = false;
  for (unsigned at = 0; !done; at++) {
    uint64_t removed;
    tsr_array *array = make_small(22, true, false);
    write_small(array, 10, 0, 1, late[0]);
    write_small(array, 20, 0, 0, late[1]);
    merge_and_vacuum();
    watch(array, "__commits", come_cancelled);
    watched.rename_exclusive = plain->rename_exclusive;
    watched.open_file = plain->open_file;
    watched.list = torn_list;
    removals = true; /* with torn_list, listings count as well */
    passed = at;
    ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
    done = others != NULL;
    others = NULL;
    removals = false;
    unwatch(array);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 ");
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
    assert_true(at < 50);
  }
  passed = 0;
}

/* Two processes vacuum commits, and only the second has seen an .ign that a third has just written. One .con has both
 * fragments, the other only the one that is not cancelled. Both processes must remove the same .con, or the fragment is
 * lost. */
static char here_and_there[128], cancelled[128];
static void cancel_and_vacuum(void) {
  uint64_t removed;
  char line[200];
  tsr_store *store = open_store(path);
  snprintf(line, sizeof line, "__commits/%s.wrt\n", cancelled);
  ok(tsr__file_publish(store, "__commits/__10_10_b0000000000000000000000000000000_22.ign", line, strlen(line), &error));
  tsr__store_close(store);
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
  tsr_array_close(array);
}
static void test_two_vacuums_remove_the_same_con(void **state) {
  for (int first = 0; first < 2; first++) { /* the .con with both fragments comes first or last by name */
    const char *both = first ? "__commits/__1_1_a0000000000000000000000000000000_22.con"
                             : "__commits/__3_3_a0000000000000000000000000000000_22.con";
    const char *one = "__commits/__2_2_a0000000000000000000000000000000_22.con";
    for (int older = 0; older < 2; older++) {
      uint64_t removed;
      tsr_array *array = make_small(22, true, false);
      tsr_buffer lines = {.memory = &environment->memory};
      write_small(array, 10, 0, 1, cancelled);
      write_small(array, 20, 4, 4, here_and_there);
      ok(tsr__commits_encode_write(here_and_there, &lines, &error));
      ok(tsr__file_publish(array->store, one, lines.data, lines.size, &error));
      ok(tsr__commits_encode_write(cancelled, &lines, &error));
      ok(tsr__file_publish(array->store, both, lines.data, lines.size, &error));
      tsr__buffer_release(&lines);
      age(older ? one : both);
      for (int i = 0; i < 2; i++) {
        const tsr_path wrt = tsr__path_of("__commits", i ? cancelled : here_and_there, ".wrt");
        ok(tsr__store_remove(array->store, wrt.text, &error));
      }
      watch(array, ".con", cancel_and_vacuum);
      removals = true;
      ok(tsr_array_vacuum(array, TSR_MAINTAIN_COMMITS, NULL, &removed, &error));
      removals = false;
      act_before(".con"); /* if no .con was removed, the other process runs now */
      unwatch(array);
      assert_string_equal(cells_of(array, TSR_TIME_NOW), "4=2004 ");
      tsr_array_close(array);
      remove_tree(path);
    }
  }
}

/* A merge ends, and renames its vacuum file, after another merge has listed that file and before it reads it. The other
 * merge goes on. */
static void end_merge(void) {
  tsr_listing entries = {0};
  tsr_store *store = open_store(path);
  ok(tsr__store_list(store, "__commits", &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++) {
    uint64_t stem;
    char *name = entries.entries[i].name;
    if (!tsr__name_suffix(name, TSR_SUFFIX_STAGED_VACUUM, &stem) || !strstr(name, "__10_20_")) continue;
    const tsr_path from = tsr__path_of("__commits", name, "");
    name[stem] = 0;
    const tsr_path to = tsr__path_of("__commits", name + 1, ".vac");
    ok(tsr__store_rename(store, from.text, to.text, &error));
  }
  tsr__listing_release(&entries);
  tsr__store_close(store);
}
static void merge_almost(void) {
  tsr_listing entries = {0};
  merge_first_two();
  tsr_store *store = open_store(path);
  ok(tsr__store_list(store, "__commits", &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++) {
    uint64_t stem;
    char *name = entries.entries[i].name;
    if (!tsr__name_suffix(name, ".vac", &stem)) continue;
    const tsr_path from = tsr__path_of("__commits", name, "");
    char to[200];
    snprintf(to, sizeof to, "__commits/.%.*s" TSR_SUFFIX_STAGED_VACUUM, (int)stem, name);
    ok(tsr__store_rename(store, from.text, to, &error));
  }
  tsr__listing_release(&entries);
  tsr__store_close(store);
  watched_part = "__10_20_";
  others = end_merge;
}
static void test_merge_survives_rename_of_other_vacuum_file(void **state) {
  const tsr_consolidate_options options = {.since = 30};
  uint64_t merged;
  tsr_array *array = make_small(22, false, false);
  for (int t = 1; t <= 4; t++) write_small(array, (uint64_t)t * 10, 0, t, NULL);
  watch(array, "__fragments/__30_40_", merge_almost); /* when the merged fragment gets its final name */
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
  unwatch(array);
  assert_int_equal(merged, 2);
  assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=4000 1=4001 2=4002 3=4003 4=4004 ");
  tsr_array_close(array);
  no_faults();
  remove_tree(path);
}

/* A vacuum runs between a merge's commit and the rename of its vacuum file. It finishes the merge and removes the
 * sources. */
static void vacuum_fragments(void) {
  uint64_t removed;
  tsr_array *array = open_small();
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
  assert_int_equal(removed, 3); /* two fragments and the vacuum file */
  tsr_array_close(array);
}
static void test_vacuum_finishes_merge_in_progress(void **state) {
  for (int dense = 0; dense < 2; dense++) {
    tsr_array *array = make_small(22, dense, false);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, 0, 0, NULL);
    watch(array, ".vac", vacuum_fragments);
    assert_int_equal(merge_small(array), 2);
    unwatch(array);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 ");
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
  }
}

/* ---- Reads of the present -------------------------------------------------------------------- */

/* Writes a cell at a time in the near future, waits until that has passed, and merges the new fragment with
 * `*fragments`, or with all fragments if that is NULL. */
static void merge_with_later(int32_t x, const char *const *fragments, bool vacuumed) {
  char name[128];
  const char *names[2] = {fragments ? *fragments : NULL, name};
  const tsr_consolidate_options options = {.fragments = names, .fragment_count = fragments ? 2 : 0};
  uint64_t merged, removed;
  tsr_array *array = open_small();
  later = tsr__environment_now() + 2;
  write_small(array, later, x, x, name);
  while (tsr__environment_now() <= later) usleep(500);
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error));
  assert_true(merged >= 2);
  if (vacuumed) ok(tsr_array_vacuum(array, TSR_MAINTAIN_FRAGMENTS, NULL, &removed, &error));
  tsr_array_close(array);
}
static void merge_all_with_later(void) { merge_with_later(3, NULL, true); }

/* While a read of the present lists the array, all fragments become one whose end is later than the begin of the read.
 * The read sees the merged fragment. */
static void test_read_of_present_during_merge(void **state) {
  char expected[100];
  tsr_array *array = make_small(22, true, false);
  write_small(array, 10, 1, 1, NULL);
  write_small(array, 20, 2, 2, NULL);
  tsr_array_close(array);
  array = open_small();
  watch(array, "__commits", merge_all_with_later);
  const char *cells = cells_of(array, TSR_TIME_NOW);
  unwatch(array);
  snprintf(expected, sizeof expected, "1=1001 2=2002 3=%d ", value_at(3, later));
  assert_string_equal(cells, expected);
  tsr_array_close(array);
  remove_tree(path);
}

/* A dense commit with too many boxes also writes the cells between its own, with their present values. It finds these
 * values although another process merges and vacuums the fragments while they are read. */
enum { MANY = 2001 };
static char first_written[128];
static void merge_first_with_later(void) { merge_with_later(MANY, (const char *const[]){first_written}, true); }
static void write_many(tsr_array *array, uint64_t time, bool boxed, int32_t step, int32_t value, char name[128]) {
  const tsr_writer_options options = {.time = time, .unsynced = true};
  const int32_t last = MANY - 1;
  static int32_t x[MANY], values[MANY];
  const tsr_column columns[3] = {{.values = x}, {.values = values}, {.values = values}};
  tsr_interval box = {{0}, {0}, NULL, NULL, 0, 0};
  tsr_writer *writer;
  uint64_t count = 0;
  for (int32_t i = 0; i < MANY; i += step, count++) x[count] = i, values[count] = value;
  memcpy(box.high, &last, 4);
  ok(tsr_writer_open(array, &options, &writer, &error));
  if (boxed) ok(tsr_writer_append_box(writer, &box, false, columns, &error));
  else ok(tsr_writer_append(writer, columns, NULL, count, &error));
  ok(tsr_writer_prepare(writer, &error));
  if (name) snprintf(name, 128, "%s", tsr_writer_fragment(writer, 0));
  ok(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
}
static void test_writer_reads_present_during_merge(void **state) {
  tsr_snapshot *snapshot;
  tsr_array *array = make_sized(22, true, false, MANY);
  write_many(array, 10, true, 1, 1, NULL);
  write_many(array, 20, true, 1, 2, first_written);
  tsr_array_close(array);
  array = open_small();
  ok(tsr_array_freeze(array, true, &error));
  watch(array, first_written, merge_first_with_later);
  write_many(array, tsr__environment_now() + 60000, false, 2, 3, NULL);
  unwatch(array);
  ok(tsr_array_freeze(array, false, &error));
  tsr_interval box = {{0}, {0}, NULL, NULL, 0, 0};
  const int32_t last = MANY - 1;
  int32_t found[MANY];
  memcpy(box.high, &last, 4);
  ok(tsr_snapshot_open(array, NULL, 0, tsr__environment_now() + 120000, &snapshot, &error));
  ok(tsr_block_read(snapshot, 1, &box, 0, 1, found, sizeof found, &error));
  assert_int_equal(tsr_block_read(snapshot, 99, &box, 0, 1, found, sizeof found, &error), TSR_ERROR);
  assert_non_null(strstr(error.message, "no field 99"));
  for (int32_t i = 0; i < MANY; i++)
    if (found[i] != (i % 2 ? 2 : 3)) fail_msg("%d: %d", i, found[i]);
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  remove_tree(path);
}

/* If the fragments of a frozen array have been vacuumed, snapshots fail with TSR_ABORT instead of showing an empty
 * array. */
static void test_frozen_array_aborts_after_vacuum(void **state) {
  for (int vacuumed = 0; vacuumed < 2; vacuumed++) {
    uint64_t mergeable;
    tsr_snapshot *snapshot;
    tsr_array *array = make_small(22, true, false);
    write_small(array, 10, 1, 1, NULL);
    write_small(array, 20, 2, 2, NULL);
    ok(tsr_array_freeze(array, true, &error));
    const uint64_t generation = array->log.listing->generation;
    ok(tsr_array_mergeable(array, NULL, &mergeable, &error));
    assert_int_equal(mergeable, 2);
    merge_with_later(3, NULL, vacuumed);
    if (!vacuumed) ok(tsr_array_mergeable(array, NULL, &mergeable, &error));
    assert_int_equal(array->log.listing->generation, generation);
    ok(tsr__log_list(&array->log, true, true, &error)); /* a reader that misses a file lists anew */
    if (vacuumed) refused(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error), TSR_ABORT, "roll back");
    else assert_string_equal(cells_of(array, TSR_TIME_NOW), "1=1001 2=2002 ");
    ok(tsr_array_freeze(array, false, &error));
    assert_non_null(strstr(cells_of(array, TSR_TIME_NOW), "1=1001 2=2002 3="));
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static void put_metadata(tsr_array *array, const char *key, int32_t value) {
  const tsr_metadatum entry = {
      .key = key, .key_size = strlen(key), .datatype = TSR_INT32, .count = 1, .value = &value, .value_size = 4};
  ok(tsr_array_set_metadata(array, &entry, &error));
}
static void merge_metadata(void) {
  uint64_t count;
  tsr_array *array = open_small();
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_METADATA, NULL, &count, &error));
  ok(tsr_array_vacuum(array, TSR_MAINTAIN_METADATA, NULL, &count, &error));
  put_metadata(array, "c", 3);
  tsr_array_close(array);
}
static void test_metadata_vacuumed_during_consolidation(void **state) {
  uint64_t merged = 0;
  tsr_array *array = make_small(22, false, false);
  put_metadata(array, "a", 1);
  put_metadata(array, "b", 2);
  watch(array, "__meta/", merge_metadata);
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_METADATA, NULL, &merged, &error));
  unwatch(array);
  tsr_metadata *metadata;
  ok(tsr_array_metadata(array, 0, TSR_TIME_NOW, &metadata, &error));
  assert_int_equal(metadata->count, 3);
  tsr_metadata_close(metadata);
  tsr_array_close(array);
  remove_tree(path);
}

/* ---- Merges that are committed together -------------------------------------------------------------------------- */

static void in_pairs(tsr_array *array, int expected, uint64_t merges) {
  const tsr_upkeep_options options = {.fanout = 2, .most_merges = 4, .vacuum = TSR_UPKEEP_VACUUM_NEVER};
  tsr_upkeep done;
  assert_int_equal(tsr_array_upkeep(array, &options, &done, &error), expected);
  assert_int_equal(done.merges, merges);
  assert_int_equal(done.merged, 2 * merges);
}

/* One of four merges loses its sources to another process while it is written: the others commit. */
static void test_merge_that_fails_beside_others(void **state) {
  char expected[4096];
  tsr_snapshot *snapshot;
  for (int conflict = 0; conflict < 2; conflict++) {
    tsr_array *array = make_small(22, false, false);
    for (uint64_t t = 10; t <= 80; t += 10) write_small(array, t, (int32_t)t, (int32_t)t + 5, NULL);
    snprintf(expected, sizeof expected, "%s", cells_of(array, TSR_TIME_NOW));
    tsr_array *other = open_small(); /* has no tiles yet */
    passed = 6;
    if (conflict) watch(other, "/a0.tdb", merge_first_two);
    in_pairs(other, conflict ? TSR_ABORT : TSR_OK, conflict ? 3 : 4);
    if (conflict) unwatch(other);
    passed = 0;
    tsr_array_close(other);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), expected);
    ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
    assert_int_equal(snapshot->fragment_count, 4);
    tsr_snapshot_close(snapshot);
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
  }
}

/* ---- Two merges of the same fragments ---------------------------------------------------------------------------- */

/* A second process, with an environment of its own: it merges all fragments, and stops when all that is left to do is
 * the rename that commits the merge, until it is let go on. */
static struct {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool stopped, may_go_on, in_steps;
  char staged[200]; /* its staged commit */
  int code;
} rival = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static tsr_store_methods stopping;

static int stopping_rename(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  uint64_t stem;
  if (tsr__name_suffix(to, ".con", &stem) || tsr__name_suffix(to, ".wrt", &stem) ||
      tsr__name_suffix(to, ".ok", &stem)) {
    pthread_mutex_lock(&rival.mutex);
    snprintf(rival.staged, sizeof rival.staged, "%s", from);
    rival.stopped = true;
    pthread_cond_broadcast(&rival.changed);
    while (!rival.may_go_on) pthread_cond_wait(&rival.changed, &rival.mutex);
    pthread_mutex_unlock(&rival.mutex);
  }
  return plain->rename_exclusive(s, from, to, e);
}
static void *merge_beside(void *unused) {
  const tsr_array_options options = {.threads = 1};
  tsr_environment *own;
  tsr_array *array;
  tsr_error one;
  uint64_t merged;
  rival.code = tsr_environment_open(NULL, &own, &one);
  if (rival.code < 0) return unused;
  rival.code = tsr_array_open(own, path, &options, &array, &one);
  if (rival.code >= 0) {
    plain = array->store->methods;
    stopping = *plain;
    stopping.rename_exclusive = stopping_rename;
    array->store->methods = &stopping;
    array->store->renames_in_steps = rival.in_steps;
    rival.code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &one);
    tsr_array_close(array);
  }
  tsr_environment_close(own);
  return unused;
}
static void start_rival(void) {
  char vacuum[240];
  rival.stopped = rival.may_go_on = false;
  assert_int_equal(pthread_create(&rival.thread, NULL, merge_beside, NULL), 0);
  pthread_mutex_lock(&rival.mutex);
  while (!rival.stopped) pthread_cond_wait(&rival.changed, &rival.mutex);
  pthread_mutex_unlock(&rival.mutex);
  snprintf(vacuum, sizeof vacuum, "%s.vac.new", rival.staged);
  age(vacuum); /* so that nobody waits for it */
}
static void let_rival_end(void) {
  pthread_mutex_lock(&rival.mutex);
  rival.may_go_on = true;
  pthread_cond_broadcast(&rival.changed);
  pthread_mutex_unlock(&rival.mutex);
  pthread_join(rival.thread, NULL);
}

/* A third process merges the same fragments. Then the rival goes on. */
static int third;
static void merge_and_let_rival_end(void) {
  uint64_t merged = 0;
  tsr_error one;
  tsr_array *array = open_small();
  array->store->renames_in_steps = rival.in_steps;
  third = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &one);
  if (third != TSR_ABORT) ok(third);
  if (third == TSR_OK && merged == 0) third = TSR_ABORT;
  tsr_array_close(array);
  let_rival_end();
}

typedef struct kind { /* of the arrays of a test */
  uint32_t version;
  bool dense, duplicates, in_steps;
} kind;
static const kind kinds[] = {{22, false, true, false}, {22, false, false, false}, {22, true, false, false},
                             {22, true, false, true},  {22, false, true, true},   {12, true, false, false},
                             {12, false, true, true},  {11, true, false, false},  {7, false, false, false},
                             {11, true, false, true}};
#define KINDS (sizeof kinds / sizeof *kinds)

/* Makes an array of a version below 12, which the library writes to and does not create: its commits are beside its
 * fragments. */
static tsr_array *make_old(const kind *k) {
  static tsr_field fields[2];
  fields[0] = int32_dimension("x", 0, 99, 10);
  fields[1] = (tsr_field){.name = "a", .datatype = TSR_INT32, .values_per_cell = 1};
  const tsr_schema schema = {.version = k->version,
                             .dense = k->dense,
                             .capacity = 10,
                             .dimension_count = 1,
                             .attribute_count = 1,
                             .fields = fields};
  tsr_buffer content = {.memory = &environment->memory}, tile = {.memory = &environment->memory};
  tsr_schema complete;
  tsr_arena arena;
  tsr_store *store;
  const bool folder = layout_has_schema_folder(k->version);
  tsr__arena_init(&arena, &environment->memory);
  new_path();
  ok(tsr__store_directory_open(&environment->memory, path, &store, &error));
  ok(tsr__store_make_directory(store, "", &error));
  if (folder) ok(tsr__store_make_directory(store, "__schema", &error));
  ok(tsr__store_make_directory(store, "__meta", &error));
  ok(tsr__schema_complete(&schema, &arena, &complete, &error));
  ok(tsr__schema_encode(&complete, &content, &error));
  ok(tsr__generic_tile_encode(content.data, content.size, k->version, NULL, &tile, &error));
  ok(tsr__store_put_new(store, folder ? "__schema/__1_1_00000000000000000000000000000001" : "__array_schema.tdb",
                        tile.data, tile.size, false, &error));
  tsr__buffer_release(&content);
  tsr__buffer_release(&tile);
  tsr__arena_release(&arena);
  tsr__store_close(store);
  return open_small();
}

static tsr_array *make_kind(const kind *k) {
  tsr_array *array = k->version < 12 ? make_old(k) : make_small(k->version, k->dense, k->duplicates);
  array->store->renames_in_steps = k->in_steps;
  return array;
}

/* The rival commits before any one of the steps of a merge of the same fragments, and perhaps a third merge runs before
 * that: one of them commits, never two. */
static void merge_at_once(const kind *k, void (*act)(void)) {
  bool done = false;
  for (unsigned at = 0; !done; at++) {
    uint64_t merged = 0;
    third = TSR_ABORT;
    rival.in_steps = k->in_steps;
    tsr_array *array = make_kind(k);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, k->duplicates ? 3 : 0, 3, NULL);
    start_rival();
    watch(array, "__", act);
    passed = at;
    const int code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &merged, &error);
    done = others != NULL;
    if (done) let_rival_end();
    others = NULL;
    unwatch(array);
    if (code != TSR_ABORT) ok(code);
    if ((code == TSR_OK && merged > 0) + (rival.code == TSR_OK) + (third == TSR_OK) != 1)
      fail_msg("%u %d: %u: %d, %d, %d: %s", k->version, k->in_steps, at, code, rival.code, third, error.message);
    assert_string_equal(cells_of(array, TSR_TIME_NOW),
                        k->duplicates ? "0=1000 1=1001 3=2003 " : "0=2000 1=2001 2=2002 3=2003 ");
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
    assert_true(at < 400);
  }
  passed = 0;
}
static void test_one_of_two_merges_commits(void **state) {
  for (unsigned k = 0; k < KINDS; k++) merge_at_once(&kinds[k], let_rival_end);
}
static void test_one_of_three_merges_commits(void **state) {
  for (unsigned k = 0; k < KINDS; k++) merge_at_once(&kinds[k], merge_and_let_rival_end);
}

/* ---- Steps beside others ----------------------------------------------------------------------------------------- */

static tsr_writer *waiting; /* a prepared commit of another process */
static void publish_waiting(void) {
  ok(tsr_writer_publish(waiting, &error));
  tsr_writer_close(waiting);
  waiting = NULL;
}

/* Makes an array with three commits, of which the middle one is prepared and two days old. `expected`: its cells. */
static tsr_array *make_prepared(const kind *k, bool prepared, char expected[4096]) {
  char middle[128], place[200];
  tsr_array *array = make_kind(k);
  write_small(array, 10, 0, k->duplicates ? 4 : 19, NULL);
  if (!prepared) write_small(array, 20, 5, 9, middle);
  else waiting = prepare_small(array, 20, 5, 9, "/elsewhere.db", middle);
  write_small(array, 30, k->duplicates ? 10 : 8, 25, NULL);
  snprintf(place, sizeof place, "%s%s", k->version < 12 ? "" : "__fragments/", middle);
  age(place);
  if (!prepared) snprintf(expected, 4096, "%s", cells_of(array, TSR_TIME_NOW));
  return array;
}

/* A commit that was prepared two days ago is published before any one of the steps of a merge, or of a vacuum: its
 * cells are there, at its time. */
static void publish_beside(const kind *k, bool vacuum) {
  char expected[4096];
  bool done = false;
  tsr_array *array = make_prepared(k, false, expected);
  tsr_array_close(array);
  remove_tree(path);
  for (unsigned at = 0; !done; at++) {
    uint64_t count;
    array = make_prepared(k, true, expected);
    tsr_array *other = open_small();
    other->store->renames_in_steps = k->in_steps;
    watch(other, "__", publish_waiting);
    passed = at;
    const int code = vacuum ? tsr_array_vacuum(other, TSR_MAINTAIN_ALL, NULL, &count, &error)
                            : tsr_array_consolidate(other, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error);
    done = others != NULL;
    others = NULL;
    unwatch(other);
    if (code != TSR_ABORT) ok(code);
    if (done) publish_waiting();
    tsr_array_close(other);
    tsr_array_close(array);
    array = open_small();
    if (strcmp(cells_of(array, TSR_TIME_NOW), expected) != 0)
      fail_msg("%u %d %d: %u: %s, expected %s", k->version, k->dense, vacuum, at, cells_of(array, TSR_TIME_NOW),
               expected);
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
    assert_true(at < 400);
  }
  passed = 0;
}
static void test_prepared_commit_published_beside_merge(void **state) {
  for (unsigned k = 0; k < KINDS; k++) publish_beside(&kinds[k], false);
}
static void test_prepared_commit_published_beside_vacuum(void **state) {
  for (unsigned k = 0; k < KINDS; k++) publish_beside(&kinds[k], true);
}

/* Another process merges the first two fragments and vacuums, before any one of the steps of a merge or a vacuum. */
static void vacuum_beside(const kind *k, bool vacuum) {
  bool done = false;
  char expected[4096];
  for (unsigned at = 0; !done; at++) {
    uint64_t count = 0;
    tsr_array *array = make_kind(k);
    write_small(array, 10, 0, 5, NULL);
    write_small(array, 20, k->duplicates ? 20 : 3, k->duplicates ? 25 : 8, NULL);
    if (vacuum) assert_int_equal(merge_small(array), 2);
    write_small(array, 30, k->duplicates ? 40 : 0, k->duplicates ? 45 : 3, NULL);
    write_small(array, 40, k->duplicates ? 50 : 4, k->duplicates ? 51 : 6, NULL);
    snprintf(expected, sizeof expected, "%s", cells_of(array, TSR_TIME_NOW));
    other_in_steps = k->in_steps;
    watch(array, "__", vacuum ? merge_all_and_vacuum : merge_two_and_vacuum);
    passed = at;
    const int code = vacuum ? tsr_array_vacuum(array, TSR_MAINTAIN_ALL, NULL, &count, &error)
                            : tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, NULL, &count, &error);
    done = others != NULL;
    others = NULL;
    unwatch(array);
    if (code != TSR_ABORT) ok(code);
    if (strcmp(cells_of(array, TSR_TIME_NOW), expected) != 0)
      fail_msg("%u %d %d: %u: %s, expected %s", k->version, k->dense, vacuum, at, cells_of(array, TSR_TIME_NOW),
               expected);
    tsr_array_close(array);
    no_faults();
    remove_tree(path);
    assert_true(at < 400);
  }
  passed = 0;
}
static void test_merge_beside_vacuum(void **state) {
  for (unsigned k = 0; k < KINDS; k++) vacuum_beside(&kinds[k], false);
}
static void test_vacuum_beside_merge(void **state) {
  for (unsigned k = 0; k < KINDS; k++) vacuum_beside(&kinds[k], true);
}

/* A merge gives its vacuum file its name while another process, which has listed the staged one, looks at the past:
 * that is whole, since the sources are there. */
static char staged_vacuum[1400], final_vacuum[1400];
static void name_vacuum(void) { assert_int_equal(rename(staged_vacuum, final_vacuum), 0); }
static void test_vacuum_file_is_named_beside_reader(void **state) {
  for (unsigned k = 0; k < KINDS; k++) {
    char commits[1100], command[1300];
    if (!kinds[k].dense) continue;
    tsr_array *array = make_kind(&kinds[k]);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, 0, 0, NULL);
    assert_int_equal(merge_small(array), 2);
    tsr_array_close(array);
    snprintf(commits, sizeof commits, "%s%s", path, kinds[k].version < 12 ? "" : "/__commits");
    snprintf(command, sizeof command, "cd %s && set -- *.vac && mv $1 .$1.new && ls -A | grep vac.new", commits);
    FILE *found = popen(command, "r");
    char name[200];
    assert_non_null(fgets(name, sizeof name, found));
    pclose(found);
    name[strcspn(name, "\n")] = 0;
    snprintf(staged_vacuum, sizeof staged_vacuum, "%s/%s", commits, name);
    snprintf(final_vacuum, sizeof final_vacuum, "%s/%.*s", commits, (int)strlen(name) - 5, name + 1);
    array = open_small();
    watch(array, ".vac.new", name_vacuum);
    assert_string_equal(cells_of(array, 15), "0=1000 1=1001 ");
    unwatch(array);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), "0=2000 1=1001 ");
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* ---- Cells that are there twice ---------------------------------------------------------------------------------- */

/* Two libraries have merged the same fragments, and a vacuum file is left that no fragment needs. A vacuum removes it
 * before any one of the steps of a consolidation, which takes one of the merges back all the same. */
static char leftover[1400];
static void remove_leftover(void) { assert_int_equal(remove(leftover), 0); }
static void test_merge_made_twice_beside_vacuum(void **state) {
  bool done = false;
  for (unsigned at = 0; !done; at++) {
    char last[128], command[4096];
    tsr_array *array = make_small(22, false, true);
    write_small(array, 10, 0, 1, NULL);
    write_small(array, 20, 5, 6, NULL);
    assert_int_equal(merge_small(array), 2);
    snprintf(command, sizeof command,
             "cd '%s' && a=$(basename __commits/*.vac .vac) && b=__10_20_00112233445566778899aabbccddeeff_22 && "
             "cp -r __fragments/$a __fragments/$b && cp __commits/$a.wrt __commits/$b.wrt && "
             "cp __commits/$a.vac __commits/$b.vac",
             path);
    assert_int_equal(system(command), 0);
    write_small(array, 30, 9, 9, last);
    snprintf(leftover, sizeof leftover, "%s/__commits/%s.vac", path, last);
    FILE *f = fopen(leftover, "w");
    assert_non_null(f);
    assert_true(fputs("__fragments/__1_1_0123456789abcdef0123456789abcdef_22\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    tsr_array_close(array);
    array = open_small();
    watch(array, "__", remove_leftover);
    passed = at;
    merge_small(array);
    done = others != NULL;
    others = NULL;
    unwatch(array);
    if (strcmp(cells_of(array, TSR_TIME_NOW), "0=1000 1=1001 5=2005 6=2006 9=3009 ") != 0)
      fail_msg("%u: %s", at, cells_of(array, TSR_TIME_NOW));
    tsr_array_close(array);
    remove_tree(path);
    assert_true(at < 400);
  }
  passed = 0;
}

/* ---- Limits of named fragments --------------------------------------------------------------- */

static void test_limits_of_named_fragments(void **state) {
  static char names[80][128];
  const char *all[80];
  uint64_t merged;
  tsr_array *array = make_small(22, false, false);
  for (int t = 0; t < 80; t++) {
    write_small(array, (uint64_t)t * 10 + 10, 0, 99, names[t]);
    all[t] = names[t];
  }
  tsr_consolidate_options options = {.fragments = all, .fragment_count = 80, .max_fragment_bytes = 100};
  refused(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error), TSR_CONSTRAINT,
          "max_fragment_mb is reached by 1 of 80");
  options.max_fragment_bytes = 0;
  int code = TSR_BUDGET;
  for (options.memory_bytes = 4096; code == TSR_BUDGET; options.memory_bytes += 2048)
    code = tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &options, &merged, &error);
  refused(code, TSR_CONSTRAINT, "within memory_mb: it has room for");
  tsr_array_close(array);
  remove_tree(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_prepared_commit_prevents_merge_over_its_time),
                                     cmocka_unit_test(test_merge_during_consolidation_of_commits),
                                     cmocka_unit_test(test_merge_and_vacuum_during_consolidation_of_commits),
                                     cmocka_unit_test(test_con_published_during_vacuum),
                                     cmocka_unit_test(test_sources_of_a_dense_merge_go_at_once),
                                     cmocka_unit_test(test_torn_listing_keeps_ign),
                                     cmocka_unit_test(test_two_vacuums_remove_the_same_con),
                                     cmocka_unit_test(test_merge_survives_rename_of_other_vacuum_file),
                                     cmocka_unit_test(test_vacuum_finishes_merge_in_progress),
                                     cmocka_unit_test(test_metadata_vacuumed_during_consolidation),
                                     cmocka_unit_test(test_read_of_present_during_merge),
                                     cmocka_unit_test(test_writer_reads_present_during_merge),
                                     cmocka_unit_test(test_frozen_array_aborts_after_vacuum),
                                     cmocka_unit_test(test_merge_that_fails_beside_others),
                                     cmocka_unit_test(test_one_of_two_merges_commits),
                                     cmocka_unit_test(test_one_of_three_merges_commits),
                                     cmocka_unit_test(test_prepared_commit_published_beside_merge),
                                     cmocka_unit_test(test_prepared_commit_published_beside_vacuum),
                                     cmocka_unit_test(test_merge_beside_vacuum),
                                     cmocka_unit_test(test_vacuum_beside_merge),
                                     cmocka_unit_test(test_vacuum_file_is_named_beside_reader),
                                     cmocka_unit_test(test_merge_made_twice_beside_vacuum),
                                     cmocka_unit_test(test_limits_of_named_fragments)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
