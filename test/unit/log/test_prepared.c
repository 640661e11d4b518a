/* test_prepared.c: prepared commits: their paths and markers, when they count, how they are published; recovery by
 * their owner. */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "format/commits.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "open_array.h"

static const char *counts; /* the commit that the host says is committed */
static int asked;

static int committed(void *argument, const char *commit, tsr_error *why) {
  assert_ptr_equal(argument, &counts);
  asked++;
  if (counts && !*counts) return tsr__fail(why, TSR_BUSY, "nobody knows");
  return counts && strcmp(commit, counts) == 0;
}

static int setup(void **state) {
  counts = NULL;
  asked = 0;
  if (setup_store() < 0) return 1;
  tiny_schema(store, "__schema/__1_1" U, false, 1, a_only);
  const tsr_array_host host = {.committed = committed, .committed_argument = &counts};
  return setup_array(&(tsr_array_options){.host = &host});
}

static const char *listed(const tsr_commit_list *which) {
  static char text[2048];
  text[0] = '\0';
  for (uint64_t i = 0; i < which->count; i++) {
    size_t at = strlen(text);
    snprintf(text + at, sizeof text - at, "%llu%s ", (unsigned long long)which->items[i].parsed.start,
             which->items[i].old_layout ? "*" : "");
  }
  return text;
}
static const char *fragments(void) {
  if (tsr__log_list(&array->log, true, false, &error) < 0) fail_msg("%s", error.message);
  return listed(&array->log.listing->fragments);
}

static void test_paths_of_markers_and_staged_files(void **state) {
  static const struct {
    const char *commit, *marker, *staged;
  } good[] = {
      {"__commits/__5_5" U "_22.wrt", "__commits/__5_5" U "_22.pending", ""},
      {"__commits/__5_5" U "_22.con", "__commits/__5_5" U "_22.pending", "__commits/.__5_5" U "_22"},
      {"__commits/__5_5" U "_22.del", "__commits/__5_5" U "_22.pending", "__commits/.__5_5" U "_22"},
      {"__5_5" U "_9.ok", "__5_5" U "_9/.pending", ""},
      {"__5_5" U "/__fragment_metadata.tdb", "__5_5" U "/.pending", "__5_5" U "/.metadata"},
  };
  static const char *const bad[] = {"",
                                    "__commits/",
                                    "__commits/.wrt",
                                    "__commits/x.wrt",
                                    "__commits/__5_5" U "_22",
                                    "__commits/__5_5" U "_9.ok",
                                    "__5_5" U "_22.wrt",
                                    "../__5_5" U "_9.ok",
                                    "__commits/../__5_5" U "_22.wrt",
                                    "__commits/a/__5_5" U "_22.wrt"};
  char marker[TSR_COMMIT_PATH], staged[TSR_COMMIT_PATH];
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_true(tsr__prepared_paths(good[i].commit, marker, staged));
    assert_string_equal(marker, good[i].marker);
    assert_string_equal(staged, good[i].staged);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    error = (tsr_error){0};
    assert_false(tsr__prepared_paths(bad[i], marker, staged));
    assert_int_equal(tsr__prepared_publish(store, bad[i], false, &error), TSR_ERROR);
    assert_non_null(strstr(error.message, "is not the path of a commit"));
    assert_int_equal(tsr__prepared_publish(store, bad[i], false, NULL), TSR_ERROR);
  }
}

/* Writes a marker whose writer is alive as long as the returned file is open. */
static tsr_file *mark_alive(const char *path, const char *commit, const char *owner, const char *fragment) {
  const tsr_prepared_marker pending = {.commit = commit,
                                       .owner = owner,
                                       .file = "/a b/\xc3\xa9\n\n.db",
                                       .fragment_count = fragment != NULL,
                                       .fragments = &fragment};
  tsr_file *lock = NULL;
  tiny_text(store, path, "");
  assert_int_equal(tsr__store_remove(store, path, NULL), TSR_OK);
  assert_int_equal(tsr__prepared_mark(store, path, &pending, true, 2, &lock, &error), TSR_OK);
  return lock;
}

static void mark(const char *path, const char *commit, const char *owner, const char *fragment) {
  tsr__store_close_file(mark_alive(path, commit, owner, fragment));
}

static void test_markers_are_written_and_read(void **state) {
  static const char marker[] = "__commits/__5_5" U "_22.pending";
  tsr_arena arena;
  tsr_buffer bytes = {.memory = &environment->memory};
  tsr_prepared_marker pending;
  tsr__arena_init(&arena, &environment->memory);
  assert_int_equal(tsr__prepared_read(store, marker, &arena, &pending, &error), 0);
  mark(marker, "__commits/__5_5" U "_22.con", "me", "__5_5" U "_22");
  assert_int_equal(tsr__prepared_read(store, marker, &arena, &pending, &error), 1);
  assert_string_equal(pending.commit, "__commits/__5_5" U "_22.con");
  assert_string_equal(pending.owner, "me");
  assert_string_equal(pending.file, "/a b/\xc3\xa9\n\n.db");
  assert_true(pending.locked);
  assert_true(pending.host && *pending.host);
  assert_int_equal(pending.fragment_count, 1);
  assert_string_equal(pending.fragments[0], "__5_5" U "_22");
  assert_int_equal(tsr__store_read_all(store, marker, 4096, &bytes, NULL), TSR_OK);
  for (uint64_t size = 0; size < bytes.size;
       size++) { /* from here on only the path is cut; it may contain newlines, so the marker may look complete */
    tiny_put(store, marker, bytes.data, size);
    int rc = tsr__prepared_read(store, marker, &arena, &pending, &error);
    assert_true(rc == 0 || rc == 1);
    if (rc == 1) assert_true(!pending.owner || strcmp(pending.owner, "me") == 0);
  }
  for (uint64_t i = 0; i < bytes.size; i++) {
    static const uint8_t values[] = {0, '\n', '/', '_', 0xff};
    const uint8_t kept = bytes.data[i];
    for (size_t v = 0; v < sizeof values; v++) {
      bytes.data[i] = values[v];
      tiny_put(store, marker, bytes.data, bytes.size);
      assert_in_range(tsr__prepared_read(store, marker, &arena, &pending, &error), 0, 1);
    }
    bytes.data[i] = kept;
  }
  assert_int_equal(tsr__prepared_unmark(store, marker, &error), TSR_OK);
  assert_int_equal(tsr__prepared_unmark(store, marker, &error), TSR_OK);
  tsr__buffer_release(&bytes);
  tsr__arena_release(&arena);
}

static void test_committed_fragment_counts(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.wrt";
  tiny_text(store, "__commits/__5_5" U "_22.wrt", "");
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  mark("__commits/__7_7" U "_22.pending", commit, "here", "__7_7" U "_22");
  assert_string_equal(fragments(), "5 ");
  assert_true(asked > 0);
  const uint64_t generation = array->log.listing->generation;
  assert_string_equal(fragments(), "5 "); /* the host is asked again, and nothing is listed */
  assert_int_equal(array->log.listing->generation, generation);
  counts = commit; /* no directory changes */
  assert_string_equal(fragments(), "5 7 ");
  asked = 0;
  assert_string_equal(fragments(), "5 7 ");
  tiny_text(store, commit, "");
  assert_string_equal(fragments(), "5 7 ");
}

/* A commit of which recovery has published what is left counts no more, also if nothing was left. */
static void test_commit_that_was_published_late_counts_no_more(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.wrt", late[] = "__commits/__9_9" U "_22.con";
  tsr_late record = {.dropped = 5, .total = 5};
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  mark("__commits/__7_7" U "_22.pending", commit, "here", "__7_7" U "_22");
  counts = commit;
  assert_string_equal(fragments(), "7 ");
  assert_int_equal(tsr__late_write(store, commit, &record, &error), TSR_OK);
  assert_string_equal(fragments(), "");
  assert_int_equal(tsr__late_remove(store, commit, &error), TSR_OK);
  memcpy(record.commit, late, sizeof late);
  assert_int_equal(tsr__late_write(store, commit, &record, &error), TSR_OK);
  assert_string_equal(fragments(), "7 "); /* the other one is not there yet */
  tiny_text(store, late, "__commits/__9_9" U "_22.wrt\n");
  assert_string_equal(fragments(), "9 ");
}

/* If the host fails to say whether a commit counts, the listing fails, too. */
static void test_hosts_error_is_passed_on(void **state) {
  tiny_text(store, "__commits/__5_5" U "_22.wrt", "");
  mark("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "here", "__7_7" U "_22");
  assert_string_equal(fragments(), "5 ");
  counts = "";
  assert_int_equal(tsr__log_list(&array->log, true, false, &error), TSR_BUSY);
  assert_non_null(strstr(error.message, "nobody knows"));
  counts = NULL;
  assert_string_equal(fragments(), "5 ");
}

static void test_committed_con_counts(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.con", staged[] = "__commits/.__7_7" U "_22";
  tsr_buffer lines = {.memory = &environment->memory}, tile = {.memory = &environment->memory};
  tiny_condition(&tile, "x");
  assert_int_equal(tsr__commits_encode_write("__7_7_00000000000000000000000000000002_22", &lines, NULL), TSR_OK);
  assert_int_equal(tsr__commits_encode_write("__7_7_00000000000000000000000000000003_22", &lines, NULL), TSR_OK);
  assert_int_equal(
      tsr__commits_encode_delete("__7_7_00000000000000000000000000000004_22", tile.data, tile.size, &lines, NULL),
      TSR_OK);
  mark("__commits/__7_7" U "_22.pending", commit, "here", "__7_7_00000000000000000000000000000002_22");
  assert_string_equal(fragments(), "");
  counts = commit; /* the file is staged before its marker is written, so a missing file was removed */
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "disown"));
  tiny_put(store, staged, lines.data, lines.size);
  assert_string_equal(fragments(), "7 7 ");
  assert_int_equal(array->log.listing->deletes.count, 1);
  assert_int_equal(tsr__prepared_publish(store, commit, true, &error), 1);
  assert_int_equal(tsr__prepared_publish(store, commit, true, &error), 0);
  counts = NULL;
  assert_string_equal(fragments(), "7 7 ");
  assert_int_equal(array->log.listing->deletes.count, 1);
  assert_true(tsr__store_exists(store, "__commits/__7_7_00000000000000000000000000000004_22.del"));
  assert_false(tsr__store_exists(store, staged));
  tsr__buffer_release(&lines);
  tsr__buffer_release(&tile);
}

/* Two processes publish one commit: the second one completes what the first one has left undone. */
static const tsr_store_methods *plain;
static const char *published_twice;
static int no_append(tsr_file *file, const void *bytes, uint64_t size, tsr_error *e) {
  return tsr__fail(e, TSR_IO, "the disk is full");
}
static int late_rename(tsr_store *s, const char *from, const char *to, tsr_error *e) {
  static tsr_store_methods full;
  tsr_error unseen;
  uint64_t stem;
  if (published_twice && tsr__name_suffix(to, ".del", &stem)) {
    const char *commit = published_twice;
    const tsr_store_methods *mine = s->methods;
    published_twice = NULL;
    full = *plain;
    full.append = no_append;
    s->methods = &full;
    assert_int_equal(tsr__prepared_publish(s, commit, true, &unseen), TSR_IO);
    s->methods = mine;
  }
  return plain->rename_exclusive(s, from, to, e);
}
static void test_two_processes_publish_one_commit(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.con", staged[] = "__commits/.__7_7" U "_22";
  static tsr_store_methods methods;
  tsr_buffer lines = {.memory = &environment->memory}, tile = {.memory = &environment->memory};
  tiny_condition(&tile, "x");
  assert_int_equal(
      tsr__commits_encode_delete("__7_7_00000000000000000000000000000004_22", tile.data, tile.size, &lines, NULL),
      TSR_OK);
  tiny_put(store, staged, lines.data, lines.size);
  plain = store->methods;
  methods = *plain;
  methods.rename_exclusive = late_rename;
  store->methods = &methods;
  published_twice = commit;
  assert_int_equal(tsr__prepared_publish(store, commit, true, &error), 1);
  store->methods = plain;
  assert_null(published_twice);
  assert_true(tsr__store_exists(store, "__commits/__7_7_00000000000000000000000000000004_22.del"));
  tsr__buffer_release(&lines);
  tsr__buffer_release(&tile);
}

/* The writer publishes a commit between the look at the directories, which have not changed yet, and that at its marker. */
static const char *published_meanwhile;
static bool unmarked_meanwhile;
static int late_open(tsr_store *s, const char *path, tsr_file **file, tsr_error *e) {
  uint64_t stem;
  if (published_meanwhile && tsr__name_suffix(path, ".pending", &stem)) {
    const tsr_store_methods *mine = s->methods;
    s->methods = plain;
    tiny_text(s, published_meanwhile, "");
    if (unmarked_meanwhile) assert_int_equal(tsr__prepared_unmark(s, path, NULL), TSR_OK);
    s->methods = mine;
    published_meanwhile = NULL;
  }
  return plain->open_file(s, path, file, e);
}
static void test_commit_that_is_published_after_the_directories_were_looked_at(void **state) {
  static const char *const commits[] = {"__commits/__7_7" U "_22.wrt", "__commits/__8_8" U "_22.wrt"};
  static const char *const all[] = {"7 ", "7 8 "};
  static tsr_store_methods methods;
  plain = store->methods;
  methods = *plain;
  methods.open_file = late_open;
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  tiny_text(store, "__fragments/__8_8" U "_22/__fragment_metadata.tdb", "");
  for (int i = 0; i < 2; i++) {
    counts = NULL;
    if (i) mark("__commits/__8_8" U "_22.pending", commits[1], "here", "__8_8" U "_22");
    else mark("__commits/__7_7" U "_22.pending", commits[0], "here", "__7_7" U "_22");
    assert_string_equal(fragments(), i ? all[0] : "");
    unmarked_meanwhile = i == 0;
    published_meanwhile = counts = commits[i];
    store->methods = &methods;
    assert_string_equal(fragments(), all[i]);
    store->methods = plain;
    assert_null(published_meanwhile);
  }
  const uint64_t generation = array->log.listing->generation;
  assert_string_equal(fragments(), "7 8 ");
  assert_int_equal(array->log.listing->generation, generation);
}

static void test_committed_delete_counts(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.del";
  tiny_put_delete(store, "__commits/.__7_7" U "_22", "x");
  mark("__commits/__7_7" U "_22.pending", commit, "here", NULL);
  counts = commit;
  assert_string_equal(fragments(), "");
  assert_int_equal(array->log.listing->deletes.count, 1);
  assert_string_equal(array->log.listing->deletes.items[0].path, "__commits/.__7_7" U "_22");
  assert_int_equal(tsr__prepared_publish(store, commit, true, &error), 1);
  assert_string_equal(fragments(), "");
  assert_string_equal(array->log.listing->deletes.items[0].path, commit);
}

static void test_commits_of_old_layouts_count(void **state) {
  tiny_text(store, "__7_7" U "_9/__fragment_metadata.tdb", "");
  tiny_text(store, "__8_8" U "/.metadata", "");
  mark("__7_7" U "_9/.pending", "__7_7" U "_9.ok", "here", "__7_7" U "_9");
  mark("__8_8" U "/.pending", "__8_8" U "/__fragment_metadata.tdb", "here", "__8_8" U);
  assert_string_equal(fragments(), "");
  counts = "__7_7" U "_9.ok";
  assert_string_equal(fragments(), "7* ");
  counts = "__8_8" U "/__fragment_metadata.tdb";
  array->log.listing->complete = false; /* as if new */
  assert_string_equal(fragments(), "8* ");
  assert_true(tsr__store_exists(store, "__8_8" U "/.metadata")); /* reading publishes nothing */
  assert_int_equal(tsr__prepared_publish(store, "__8_8" U "/__fragment_metadata.tdb", true, &error), 1);
  assert_true(tsr__store_exists(store, "__8_8" U "/__fragment_metadata.tdb"));
  assert_int_equal(tsr__prepared_publish(store, "__7_7" U "_9.ok", true, &error), 1);
  assert_string_equal(fragments(), "7* 8* ");
}

static void test_missing_files_are_not_published(void **state) {
  assert_int_equal(tsr__prepared_publish(store, "__commits/__7_7" U "_22.wrt", true, &error), 0);
  assert_int_equal(tsr__prepared_publish(store, "__commits/__7_7" U "_22.con", true, &error), 0);
  assert_int_equal(tsr__prepared_publish(store, "__7_7" U "_9.ok", true, &error), 0);
  assert_false(tsr__store_exists(store, "__commits/__7_7" U "_22.wrt"));
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  tiny_text(store, "__commits/x", "");
  assert_int_equal(tsr__prepared_publish(store, "__commits/__7_7" U "_22.wrt", true, &error), 1);
}

static tsr_recover_action verdict;
static int decided;
static tsr_recover_action decide(void *argument, const tsr_prepared *prepared) {
  assert_true(prepared->writer != TSR_WRITER_LIVES);
  decided++;
  return verdict;
}

static void prepare_all(void) {
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  tiny_text(store, "__fragments/__8_8" U "_22/__fragment_metadata.tdb", "");
  tiny_text(store, "__commits/.__8_8" U "_22", "__commits/__8_8" U "_22.wrt\n");
  tiny_text(store, "__9_9" U "_9/__fragment_metadata.tdb", "");
  tiny_text(store, "__6_6" U "/.metadata", "");
  mark("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "here", "__7_7" U "_22");
  mark("__commits/__8_8" U "_22.pending", "__commits/__8_8" U "_22.con", "here", "__8_8" U "_22");
  mark("__9_9" U "_9/.pending", "__9_9" U "_9.ok", "here", "__9_9" U "_9");
  mark("__6_6" U "/.pending", "__6_6" U "/__fragment_metadata.tdb", "here", "__6_6" U);
}

static uint64_t markers(void) {
  fragments();
  return array->log.listing->prepared.markers.count;
}

static void test_recovery_leaves_and_publishes(void **state) {
  uint64_t changed = 0;
  prepare_all();
  decided = 0;
  verdict = TSR_RECOVER_LEAVE;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(decided, 4);
  assert_int_equal(changed, 0);
  assert_int_equal(markers(), 4);
  verdict = TSR_RECOVER_PUBLISH;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 4);
  assert_int_equal(markers(), 0);
  assert_string_equal(fragments(), "6* 7 8 9* ");
  decided = 0;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(decided, 0);
}

static void test_recovery_undoes(void **state) {
  tsr_listing left = {.memory = &environment->memory};
  uint64_t changed = 0;
  prepare_all();
  verdict = TSR_RECOVER_UNDO;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 4);
  assert_int_equal(markers(), 0);
  assert_string_equal(fragments(), "");
  assert_int_equal(tsr__store_list(store, "__commits", &left, NULL), TSR_OK);
  assert_int_equal(left.count, 0);
  tsr__listing_release(&left);
  left = (tsr_listing){.memory = &environment->memory};
  assert_int_equal(tsr__store_list(store, "__fragments", &left, NULL), TSR_OK);
  assert_int_equal(left.count, 0);
  tsr__listing_release(&left);
}

/* A marker of an earlier version has the path of its database, but does not identify its owner. */
static void test_marker_without_an_owner_is_left(void **state) {
  static const char marker[] = "__commits/__7_7" U "_22.pending";
  static const char *const others[] = {"/a.db\n", "owner me locked\n/a.db\n", "owner me held here\n/a.db\n", "owner \n",
                                       "owner me locked here"};
  tsr_arena arena;
  tsr_prepared_marker pending;
  tsr__arena_init(&arena, &environment->memory);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char text[400];
    snprintf(text, sizeof text, "__commits/__7_7" U "_22.wrt\n__7_7" U "_22\n\n%s\n", others[i]);
    tiny_text(store, marker, text);
    assert_int_equal(tsr__prepared_read(store, marker, &arena, &pending, &error), 1);
    assert_null(pending.owner);
    assert_false(pending.locked);
    assert_true(*pending.file);
  }
  tiny_text(store, marker, "__commits/__7_7" U "_22.wrt\n__7_7" U "_22\n\nowner me unlocked here\n/a.db\n");
  assert_int_equal(tsr__prepared_read(store, marker, &arena, &pending, &error), 1);
  assert_string_equal(pending.owner, "me");
  assert_false(pending.locked);
  tsr__arena_release(&arena);
}

/* Recovery leaves the commit of a living writer alone and does not ask the host about it. */
static void test_commit_of_a_living_writer_is_left(void **state) {
  uint64_t changed = 0;
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  tsr_file *lock = mark_alive("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "me", "__7_7" U "_22");
  assert_non_null(lock);
  verdict = TSR_RECOVER_UNDO;
  decided = 0;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_BUSY);
  assert_non_null(strstr(error.message, "lives"));
  assert_int_equal(decided, 0);
  assert_int_equal(markers(), 1);
  tiny_text(store, "__commits/__7_7" U "_22.wrt", ""); /* it publishes; the marker is still its own */
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(markers(), 1);
  assert_int_equal(tsr__store_remove(store, "__commits/__7_7" U "_22.wrt", NULL), TSR_OK);
  tsr__store_close_file(lock);
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 1);
  assert_int_equal(markers(), 0);
}

/* If the store has no locks, a marker that says "locked" may have a living writer; one that says "unlocked" is settled
 * by the host's record. */
static void test_markers_without_locks(void **state) {
  static tsr_store_methods methods;
  uint64_t changed = 0;
  const tsr_store_methods *with = store->methods;
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  tiny_text(store, "__fragments/__8_8" U "_22/__fragment_metadata.tdb", "");
  mark("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "me", "__7_7" U "_22");
  methods = *with;
  methods.lock = NULL;
  methods.locked = NULL;
  store->methods = &methods;
  assert_null(mark_alive("__commits/__8_8" U "_22.pending", "__commits/__8_8" U "_22.wrt", "me", "__8_8" U "_22"));
  verdict = TSR_RECOVER_UNDO;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 1);
  assert_int_equal(markers(), 1);
  assert_true(tsr__store_exists(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb"));
  verdict = TSR_RECOVER_PUBLISH;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_string_equal(fragments(), "7 ");
  store->methods = with;
}

/* A commit that any file says to be published is not undone: only its marker is removed. */
static void test_published_commits_are_not_undone(void **state) {
  static const char name[] = "__7_7" U "_22";
  static const struct {
    const char *path, *text;
  } files[] = {{"__commits/__7_7_00000000000000000000000000000009_22.con", "__commits/__7_7" U "_22.wrt\n"},
               {"__commits/__7_7_00000000000000000000000000000009_22.ign", "__commits/__7_7" U "_22.wrt\n"},
               {"__commits/__6_8_00000000000000000000000000000009_22.vac", "__7_7" U "_22\n"},
               {"__commits/__7_7" U "_22.wrt", ""}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    uint64_t changed = 0;
    tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
    mark("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "me", name);
    tiny_text(store, files[i].path, files[i].text);
    verdict = TSR_RECOVER_UNDO;
    decided = 0;
    if (i % 2) assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
    else assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
    assert_int_equal(decided, 0);
    assert_int_equal(markers(), 0);
    assert_true(tsr__store_exists(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb"));
    assert_int_equal(tsr__store_remove(store, files[i].path, NULL), TSR_OK);
  }
}

/* If a file that tells of commits cannot be read, nothing is undone. */
static void test_unreadable_files_stop_undoing(void **state) {
  uint64_t changed = 0;
  tiny_text(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb", "");
  mark("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "me", "__7_7" U "_22");
  tiny_text(store, "__fragment_meta/__7_7_00000000000000000000000000000009_22.meta", "damaged");
  verdict = TSR_RECOVER_UNDO;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 0);
  assert_int_equal(markers(), 1);
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_CORRUPT);
  assert_int_equal(markers(), 1);
}

/* A commit of the database whose files are gone is an error, unless a merged fragment has its cells. */
static void test_lost_commits_are_told(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.wrt";
  uint64_t changed = 0;
  mark("__commits/__7_7" U "_22.pending", commit, "me", "__7_7" U "_22");
  verdict = TSR_RECOVER_PUBLISH;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "disown"));
  counts = commit;
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "disown"));
  tiny_text(store, "__commits/__6_8_00000000000000000000000000000009_22.wrt", "");
  assert_string_equal(fragments(), "6 ");
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(markers(), 0);
  assert_int_equal(tsr__store_remove(store, "__commits/__6_8_00000000000000000000000000000009_22.wrt", NULL), TSR_OK);
  mark("__commits/__7_7" U "_22.pending", commit, "me", "__7_7" U "_22");
  changed = 0;
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 1);
  assert_string_equal(fragments(), "");
}

/* A delete at the time of a commit without fragments is its own: only its marker was left. Of a commit with fragments it
 * says nothing. */
static void test_delete_of_a_commit_whose_files_are_gone(void **state) {
  static const char commit[] = "__commits/__7_7" U "_22.con";
  counts = commit;
  tiny_put_delete(store, "__commits/__7_7_00000000000000000000000000000004_22.del", "x");
  mark("__commits/__7_7" U "_22.pending", commit, "here", NULL);
  assert_string_equal(fragments(), "");
  assert_int_equal(array->log.listing->deletes.count, 1);
  assert_int_equal(tsr__store_remove(store, "__commits/__7_7" U "_22.pending", NULL), TSR_OK);
  mark("__commits/__7_7" U "_22.pending", commit, "here", "__7_7" U "_22");
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "disown"));
}

static uint64_t written;
static int modified_at(tsr_store *s, const char *path, uint64_t *milliseconds, tsr_error *e) {
  *milliseconds = written;
  return TSR_OK;
}

static void test_disown_settles_old_markers(void **state) {
  static tsr_store_methods methods;
  const tsr_store_methods *with = store->methods;
  uint64_t changed = 0;
  const uint64_t day = UINT64_C(24) * 3600 * 1000;
  methods = *with;
  methods.modified = modified_at;
  store->methods = &methods;
  prepare_all();
  tiny_text(store, "__commits/__5_5" U "_22.pending", "__commits/__5_5" U "_22.wrt\n"); /* not written to its end */
  verdict = TSR_RECOVER_LEAVE;
  written = 1;
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(markers(), 4);
  assert_int_equal(changed, 1); /* an incomplete marker says nothing */
  assert_false(tsr__store_exists(store, "__commits/__5_5" U "_22.pending"));
  verdict = TSR_RECOVER_PUBLISH; /* its database can still publish it */
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(markers(), 4);
  verdict = TSR_RECOVER_UNDO;
  const uint64_t young[] = {tsr__environment_now() - day + 60000, tsr__environment_now() + day, UINT64_MAX};
  for (int i = 0; i < 3; i++) {
    written = young[i];
    assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_BUSY);
    assert_non_null(strstr(error.message, "24 hours"));
    assert_non_null(strstr(error.message, "0 prepared commits were removed, 4 are left"));
    assert_int_equal(markers(), 4);
  }
  written = tsr__environment_now() - day;
  assert_int_equal(tsr_array_drop_orphans(array, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(changed, 5);
  assert_int_equal(markers(), 0);
  assert_string_equal(fragments(), "");
  store->methods = with;
}

static int show_one(void *argument, const tsr_prepared *prepared) {
  char *text = argument;
  sprintf(text + strlen(text), "%s %d%d%d ", prepared->owner, prepared->published, (int)prepared->writer,
          prepared->age < 60000);
  return (int)strlen(text) < 100 ? TSR_OK : TSR_ABORT;
}

static void test_prepared_commits_are_listed(void **state) {
  char text[200] = "";
  tsr_file *lock = mark_alive("__commits/__7_7" U "_22.pending", "__commits/__7_7" U "_22.wrt", "me", "__7_7" U "_22");
  mark("__commits/__8_8" U "_22.pending", "__commits/__8_8" U "_22.wrt", "you", "__8_8" U "_22");
  tiny_text(store, "__commits/__8_8" U "_22.wrt", "");
  assert_int_equal(tsr_array_prepared(array, show_one, text, &error), TSR_OK);
  assert_string_equal(text, "me 011 you 121 ");
  tsr__store_close_file(lock);
  memset(text, 'x', 110);
  text[110] = 0;
  assert_int_equal(tsr_array_prepared(array, show_one, text, &error), TSR_ABORT);
}

/* Removes the marker of the second commit while the first one is shown, as its database may at any time. */
static int show_and_settle(void *argument, const tsr_prepared *prepared) {
  (*(int *)argument)++;
  (void)tsr__store_remove(store, "__commits/__8_8" U "_22.pending", NULL);
  return TSR_OK;
}

static void test_show_goes_on_where_a_marker_goes_meanwhile(void **state) {
  int shown = 0;
  prepare_all();
  assert_int_equal(tsr_array_prepared(array, show_and_settle, &shown, &error), TSR_OK);
  assert_int_equal(shown, 3);
}

static tsr_recover_action settle_and_undo(void *argument, const tsr_prepared *prepared) {
  if (strstr(prepared->marker, "__8_8")) (void)tsr__store_remove(store, prepared->marker, NULL);
  return TSR_RECOVER_UNDO;
}

static void test_disown_goes_on_where_a_marker_goes_meanwhile(void **state) {
  uint64_t changed = 0;
  prepare_all();
  assert_int_equal(tsr_array_drop_orphans(array, settle_and_undo, NULL, &changed, &error), TSR_BUSY);
  assert_non_null(strstr(error.message, "0 prepared commits were removed, 3 are left"));
}

/* The writer published the commit and died before it removed the marker: the array does not call the host. */
static void test_marker_of_a_published_commit_goes(void **state) {
  uint64_t changed = 0;
  prepare_all();
  tiny_text(store, "__commits/__7_7" U "_22.wrt", "");
  decided = 0;
  verdict = TSR_RECOVER_UNDO;
  assert_int_equal(tsr_array_recover(array, NULL, decide, NULL, &changed, &error), TSR_OK);
  assert_int_equal(decided, 3);
  assert_string_equal(fragments(), "7 ");
  assert_true(tsr__store_exists(store, "__fragments/__7_7" U "_22/__fragment_metadata.tdb"));
}

static void test_no_memory(void **state) {
  int rc = TSR_BUDGET;
  counts = "__commits/__8_8" U "_22.con";
  prepare_all();
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 32) {
    environment->memory.limit = environment->memory.used + limit;
    rc = tsr__log_list(&array->log, true, true, &error);
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    assert_true(limit < 1 << 20);
  }
  assert_string_equal(fragments(), "8 ");
  rc = TSR_BUDGET;
  verdict = TSR_RECOVER_PUBLISH;
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 32) {
    environment->memory.limit = environment->memory.used + limit;
    rc = tsr_array_recover(array, NULL, decide, NULL, NULL, &error);
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    assert_true(limit < 1 << 20);
  }
  assert_string_equal(fragments(), "6* 7 8 9* ");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_paths_of_markers_and_staged_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_markers_are_written_and_read, setup, teardown),
      cmocka_unit_test_setup_teardown(test_committed_fragment_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_commit_that_was_published_late_counts_no_more, setup, teardown),
      cmocka_unit_test_setup_teardown(test_hosts_error_is_passed_on, setup, teardown),
      cmocka_unit_test_setup_teardown(test_committed_con_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_two_processes_publish_one_commit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_commit_that_is_published_after_the_directories_were_looked_at, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_committed_delete_counts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_commits_of_old_layouts_count, setup, teardown),
      cmocka_unit_test_setup_teardown(test_missing_files_are_not_published, setup, teardown),
      cmocka_unit_test_setup_teardown(test_recovery_leaves_and_publishes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_marker_without_an_owner_is_left, setup, teardown),
      cmocka_unit_test_setup_teardown(test_commit_of_a_living_writer_is_left, setup, teardown),
      cmocka_unit_test_setup_teardown(test_markers_without_locks, setup, teardown),
      cmocka_unit_test_setup_teardown(test_published_commits_are_not_undone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unreadable_files_stop_undoing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lost_commits_are_told, setup, teardown),
      cmocka_unit_test_setup_teardown(test_delete_of_a_commit_whose_files_are_gone, setup, teardown),
      cmocka_unit_test_setup_teardown(test_disown_settles_old_markers, setup, teardown),
      cmocka_unit_test_setup_teardown(test_prepared_commits_are_listed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_recovery_undoes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_marker_of_a_published_commit_goes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_show_goes_on_where_a_marker_goes_meanwhile, setup, teardown),
      cmocka_unit_test_setup_teardown(test_disown_goes_on_where_a_marker_goes_meanwhile, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
