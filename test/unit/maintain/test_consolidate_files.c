/* test_consolidate_files.c: consolidated commits (.con) and footers (.meta) of the same fragments have the same name
 * and are a pair: readers open one file for both. */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "model/name.h"
#include "array/array.h"
#include "environment/environment.h"
#include "small_array.h"

static void consolidate(tsr_array *array, tsr_maintenance what) {
  uint64_t merged = 0;
  ok(tsr_array_consolidate(array, what, NULL, &merged, &error));
  assert_true(merged > 1);
}
static void vacuum(tsr_array *array, tsr_maintenance what) {
  uint64_t removed;
  ok(tsr_array_vacuum(array, what, NULL, &removed, &error));
}

/* Returns how many files a first snapshot of an array opens, without the schema. */
static uint64_t files_opened(void) {
  tsr_array *array = open_small();
  tsr_snapshot *snapshot;
  const uint64_t before = array->store->files_opened;
  ok(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  const uint64_t opened = array->store->files_opened - before;
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  return opened;
}

/* Returns the path of the nth file with a suffix, or "" if there are fewer. */
static tsr_path file_of(tsr_array *array, const char *directory, const char *suffix, int n) {
  tsr_listing entries = {0};
  tsr_path found = {""};
  ok(tsr__store_list(array->store, directory, &entries, &error));
  for (uint64_t i = 0; i < entries.count; i++) {
    uint64_t stem;
    if (tsr__name_suffix(entries.entries[i].name, suffix, &stem) && n-- == 0)
      found = tsr__path_of(directory, entries.entries[i].name, "");
  }
  tsr__listing_release(&entries);
  return found;
}
static bool is_pair(const char *con, const char *meta) {
  const char *a = strrchr(con, '/'), *b = strrchr(meta, '/');
  return strlen(a) > 5 && strncmp(a, b, strlen(a) - 4) == 0 && strcmp(b + strlen(a) - 4, ".meta") == 0;
}
static bool have_pair(tsr_array *array) {
  const tsr_path con = file_of(array, "__commits", ".con", 0), meta = file_of(array, "__fragment_meta", ".meta", 0);
  assert_int_equal(*file_of(array, "__commits", ".con", 1).text, 0);
  assert_int_equal(*file_of(array, "__fragment_meta", ".meta", 1).text, 0);
  return is_pair(con.text, meta.text);
}

static unsigned errors, variants;
static int count_errors(void *argument, const tsr_finding *finding) {
  errors += finding->severity == TSR_SEVERITY_ERROR;
  variants += strstr(finding->message, "of the same name") != NULL;
  return 0;
}
static void check(unsigned expected) {
  const tsr_check_options options = {.threads = 1};
  errors = variants = 0;
  ok(tsr_array_check(environment, path, &options, count_errors, NULL, &error));
  if (errors != expected || variants != expected)
    fail_msg("%u errors, %u of pairs, instead of %u", errors, variants, expected);
}

static tsr_array *make_three(void) {
  tsr_array *array = make_small(22, true, false);
  for (int t = 1; t <= 3; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
  return array;
}
#define THREE "1=1001 2=2002 3=3003 "

/* Each COMMIT lists the files of commits. So an upkeep that removes what it replaces, and is asked to join them, does so
 * after its last merge, too. */
static void test_upkeep_joins_files_past_its_limits(void **state) {
  tsr_upkeep_options limits[] = {
      {.most_merges = 1, .files = true}, {.milliseconds = 1, .files = true}, {.most_merges = 1}};
  for (int i = 0; i < 3; i++) {
    limits[i].fanout = 4;
    limits[i].automatic = true;
    limits[i].vacuum = TSR_UPKEEP_VACUUM_ALWAYS;
    tsr_array *array = make_small(22, false, false);
    tsr_upkeep done;
    for (int t = 1; t <= 9; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
    ok(tsr_array_upkeep(array, &limits[i], &done, &error));
    assert_true(done.merges > 0);
    assert_int_equal(*file_of(array, "__commits", ".con", 0).text != 0, limits[i].files);
    tsr_array_close(array);
    remove_tree(path);
  }
}

static void test_pair_is_made_in_either_order(void **state) {
  static const tsr_maintenance order[2][2] = {{TSR_MAINTAIN_COMMITS, TSR_MAINTAIN_FRAGMENT_META},
                                              {TSR_MAINTAIN_FRAGMENT_META, TSR_MAINTAIN_COMMITS}};
  for (int which = 0; which < 2; which++) {
    tsr_array *array = make_three();
    assert_int_equal(files_opened(), 3);
    consolidate(array, order[which][0]);
    consolidate(array, order[which][1]);
    for (int vacuumed = 0; vacuumed < 2; vacuumed++) {
      assert_true(have_pair(array));
      assert_int_equal(files_opened(), 1);
      assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE);
      assert_string_equal(cells_of(array, 20), "1=1001 2=2002 ");
      check(0);
      uint64_t again = 0; /* the commits that the .con names count as consolidated while they are there, too */
      ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &again, &error));
      assert_int_equal(again, 0);
      vacuum(array, TSR_MAINTAIN_ALL);
    }
    /* Consolidating once more changes nothing. */
    uint64_t merged;
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENT_META, NULL, &merged, &error));
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &merged, &error));
    assert_true(have_pair(array));
    /* A new commit is one more file to open. If only one of the two is consolidated again, they are no pair any
     * more. */
    write_small(array, 40, 4, 4, NULL);
    assert_int_equal(files_opened(), 2);
    consolidate(array, order[which][0]);
    assert_int_equal(files_opened(),
                     which ? 2 : 3); /* old and new footers; the .con, old footers, the fragment's own */
    vacuum(array, TSR_MAINTAIN_ALL);
    assert_int_equal(files_opened(), which ? 2 : 3); /* the old .con, the new footers */
    consolidate(array, order[which][1]);
    vacuum(array, TSR_MAINTAIN_ALL);
    assert_true(have_pair(array));
    assert_int_equal(files_opened(), 1);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE "4=4004 ");
    check(0);
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* Fragments are merged and vacuumed after that: fragments that an .ign cancels are not committed by the footers
 * either. */
static void test_pair_after_merge_and_vacuum(void **state) {
  for (int dense = 0; dense < 2; dense++) {
    const tsr_consolidate_options first_two = {.as_of = 20};
    uint64_t merged;
    tsr_array *array = make_small(22, dense, false);
    for (int t = 1; t <= 3; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
    consolidate(array, TSR_MAINTAIN_COMMITS);
    consolidate(array, TSR_MAINTAIN_FRAGMENT_META);
    vacuum(array, TSR_MAINTAIN_COMMITS);
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENTS, &first_two, &merged, &error));
    assert_int_equal(merged, 2);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE);
    assert_int_equal(files_opened(), 3); /* the footers, the vacuum file, the merged fragment's metadata */
    assert_string_equal(cells_of(array, 10), "1=1001 ");
    vacuum(array, TSR_MAINTAIN_FRAGMENTS);
    assert_true(*file_of(array, "__commits", ".ign", 0).text);
    tsr_array *other = open_small();
    assert_string_equal(cells_of(other, TSR_TIME_NOW), THREE);
    assert_string_equal(cells_of(other, 10), dense ? "lost" : "1=1001 ");
    check(0);
    vacuum(other, TSR_MAINTAIN_COMMITS); /* the .con still has the names that the .ign cancels */
    assert_true(*file_of(array, "__commits", ".ign", 0).text);
    assert_string_equal(cells_of(other, TSR_TIME_NOW), THREE);
    consolidate(other, TSR_MAINTAIN_COMMITS);
    vacuum(other, TSR_MAINTAIN_ALL);
    assert_int_equal(*file_of(array, "__commits", ".ign", 0).text, 0);
    assert_int_equal(files_opened(), 3); /* the new .con, the old footers, the merged fragment's metadata */
    consolidate(other, TSR_MAINTAIN_FRAGMENT_META);
    assert_int_equal(files_opened(), 1);
    assert_string_equal(cells_of(other, TSR_TIME_NOW), THREE);
    check(0);
    tsr_array_close(other);
    tsr_array_close(array);
    remove_tree(path);
  }
}

/* A .con and a .meta with different fragments are no pair: here the .meta has only two of three. */
static void test_different_fragments_are_no_pair(void **state) {
  tsr_array *array = make_small(22, false, false);
  for (int t = 1; t <= 3; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
  const tsr_consolidate_options first_two = {.as_of = 20};
  uint64_t merged;
  ok(tsr_array_consolidate(array, TSR_MAINTAIN_FRAGMENT_META, &first_two, &merged, &error));
  consolidate(array, TSR_MAINTAIN_COMMITS);
  assert_false(have_pair(array));
  assert_int_equal(files_opened(), 3); /* the third is the metadata of the third fragment */
  check(0);
  tsr_array_close(array);
  remove_tree(path);
}

/* The array stays readable if the .meta of a pair is missing or damaged, and if the .con is missing its fragments are
 * not committed. The check reports a .con that is cut. */
static void test_array_survives_loss_of_half_a_pair(void **state) {
  tsr_array *array = make_three();
  consolidate(array, TSR_MAINTAIN_COMMITS);
  consolidate(array, TSR_MAINTAIN_FRAGMENT_META);
  vacuum(array, TSR_MAINTAIN_COMMITS);
  const tsr_path con = file_of(array, "__commits", ".con", 0), meta = file_of(array, "__fragment_meta", ".meta", 0);
  tsr_store *store = array->store;
  ok(tsr__store_rename(store, meta.text, "hidden", &error));
  assert_int_equal(files_opened(), 4); /* the .con, the fragments' metadata */
  check(0);
  tsr_file *file;
  ok(tsr__store_create_exclusive(store, meta.text, &file, &error));
  ok(tsr__store_append(file, "no footers", 10, &error));
  tsr__store_close_file(file);
  age(meta.text); /* a file that was changed a moment ago might still be written */
  tsr_array *other = open_small();
  assert_string_equal(cells_of(other, TSR_TIME_NOW), THREE); /* the fragments have their own footers */
  vacuum(other, TSR_MAINTAIN_COMMITS);
  write_small(other, 40, 4, 4, NULL);
  tsr_array_close(other);
  ok(tsr__store_remove(store, meta.text, &error));
  ok(tsr__store_rename(store, "hidden", meta.text, &error));
  assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE "4=4004 ");

  ok(tsr__store_rename(store, con.text, "hidden", &error)); /* footers alone commit nothing */
  other = open_small();
  assert_string_equal(cells_of(other, TSR_TIME_NOW), "4=4004 ");
  tsr_array_close(other);
  ok(tsr__store_create_exclusive(store, con.text, &file, &error));
  tsr_buffer lines = {.memory = &environment->memory};
  ok(tsr__store_read_all(store, "hidden", 1000, &lines, &error));
  ok(tsr__store_append(file, lines.data, lines.size / 3, &error));
  tsr__store_close_file(file);
  check(1);
  tsr__buffer_release(&lines);
  ok(tsr__store_remove(store, con.text, &error));
  ok(tsr__store_rename(store, "hidden", con.text, &error));
  check(0);
  tsr_array_close(array);
  remove_tree(path);
}

/* A staged file that a crash has left does not block the consolidation: each staged file has a name of its own. */
static void test_leftover_file_does_not_block_consolidation(void **state) {
  tsr_array *array = make_three();
  tsr_file *file;
  char left[200];
  consolidate(array, TSR_MAINTAIN_COMMITS);
  const tsr_path con = file_of(array, "__commits", ".con", 0);
  snprintf(left, sizeof left, ".%.*s.meta.tmp", (int)(strlen(con.text) - strlen("__commits/.con")),
           strchr(con.text, '/') + 1);
  ok(tsr__store_create_exclusive(array->store, left, &file, &error));
  tsr__store_close_file(file);
  consolidate(array, TSR_MAINTAIN_FRAGMENT_META);
  assert_true(have_pair(array));
  assert_int_equal(files_opened(), 1);
  age(left);
  vacuum(array, TSR_MAINTAIN_ALL);
  consolidate(array, TSR_MAINTAIN_FRAGMENT_META);
  assert_int_equal(files_opened(), 1);
  check(0);
  tsr_array_close(array);
  remove_tree(path);
}

/* ---- A vacuum while a .con is written ---- */

static tsr_store_methods hooked;
static int (*real_create)(tsr_store *, const char *, tsr_file **, tsr_error *);
static int (*real_rename)(tsr_store *, const char *, const char *, tsr_error *);
static bool at_rename; /* the other process runs before the rename of the .con, else before it is staged */
static unsigned came, renamed; /* how many times it ran; how many .con files were renamed */

/* Another process merges all fragments and vacuums the sources. */
static void others_come(void) {
  tsr_array *other = open_small();
  came++;
  consolidate(other, TSR_MAINTAIN_FRAGMENTS);
  vacuum(other, TSR_MAINTAIN_FRAGMENTS);
  assert_int_equal(*file_of(other, "__commits", ".vac", 0).text, 0);
  tsr_array_close(other);
}

static int hooked_create(tsr_store *store, const char *name, tsr_file **file, tsr_error *fault) {
  uint64_t stem;
  if (!at_rename && !came && tsr__name_suffix(name, ".con.tmp", &stem)) others_come();
  return real_create(store, name, file, fault);
}

/* Checks the array after each rename of a .con: a process that dies then leaves a sound array. */
static int hooked_rename(tsr_store *store, const char *from, const char *to, tsr_error *fault) {
  uint64_t stem;
  if (!tsr__name_suffix(to, ".con", &stem)) return real_rename(store, from, to, fault);
  if (at_rename && !came) others_come();
  const int code = real_rename(store, from, to, fault);
  if (code < 0) return code;
  renamed++;
  check(0);
  return code;
}

static void test_vacuum_during_consolidation_of_commits_loses_nothing(void **state) {
  for (int way = 0; way < 4; way++) {
    const bool dense = way & 1;
    tsr_array *array = make_small(22, dense, false);
    for (int t = 1; t <= 3; t++) write_small(array, (uint64_t)t * 10, t, t, NULL);
    hooked = *array->store->methods;
    real_create = hooked.create_exclusive;
    real_rename = hooked.rename_exclusive;
    hooked.create_exclusive = hooked_create;
    hooked.rename_exclusive = hooked_rename;
    const tsr_store_methods *before = array->store->methods;
    array->store->methods = &hooked;
    at_rename = way & 2;
    came = renamed = 0;
    uint64_t merged;
    ok(tsr_array_consolidate(array, TSR_MAINTAIN_COMMITS, NULL, &merged, &error));
    array->store->methods = before;
    assert_int_equal(came, 1);
    assert_true(renamed <= 1);
    check(0);
    assert_string_equal(cells_of(array, TSR_TIME_NOW), THREE);
    assert_int_equal(*file_of(array, "", ".con.tmp", 0).text, 0);
    tsr_array_close(array);
    remove_tree(path);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_upkeep_joins_files_past_its_limits),
                                     cmocka_unit_test(test_pair_is_made_in_either_order),
                                     cmocka_unit_test(test_pair_after_merge_and_vacuum),
                                     cmocka_unit_test(test_different_fragments_are_no_pair),
                                     cmocka_unit_test(test_array_survives_loss_of_half_a_pair),
                                     cmocka_unit_test(test_leftover_file_does_not_block_consolidation),
                                     cmocka_unit_test(test_vacuum_during_consolidation_of_commits_loses_nothing)};
  return cmocka_run_group_tests(tests, setup, teardown_empty);
}
