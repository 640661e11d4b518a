/* test_listing.c: listings: which names are committed, in both layouts; when a listing is renewed. */

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "environment/environment.h"
#include "log/log.h"
#include "open_array.h"

static int setup(void **state) {
  if (setup_store() < 0) return 1;
  tiny_schema(store, "__schema/__1_1" U, false, 1, a_only);
  return setup_array(NULL);
}

static int list(void) { return tsr__log_list(&array->log, true, false, &error); }

/* Prints the names of a list, each followed by a blank; * marks fragments of the old layout. */
static const char *names(const tsr_commit_list *which) {
  static char text[2048];
  text[0] = '\0';
  for (uint64_t i = 0; i < which->count; i++) {
    const tsr_committed *item = &which->items[i];
    size_t at = strlen(text);
    snprintf(text + at, sizeof text - at, "%llu-%llu%s ", (unsigned long long)item->parsed.start,
             (unsigned long long)item->parsed.end, item->old_layout ? "*" : "");
  }
  return text;
}
static const char *fragments(void) {
  if (list() < 0) fail_msg("%s", error.message);
  assert_int_equal(list(), TSR_OK);
  return names(&array->log.listing->fragments);
}

static void test_empty_array(void **state) {
  assert_false(array->log.listing->complete);
  assert_string_equal(fragments(), "");
  assert_true(array->log.listing->complete);
}

static void test_names_in_commits(void **state) {
  tiny_text(store, "__commits/__20_20" U "_22.wrt", "");
  tiny_text(store, "__commits/__3_30" U "_22.wrt", "");
  tiny_text(store, "__commits/__100_100" U "_22.wrt", "");
  tiny_text(store, "__commits/__20_19" U "_22.wrt.tmp", "");
  tiny_text(store, "__commits/x.con.tmp", "nonsense");
  tiny_text(store, "__commits/notes", "");
  tiny_text(store, "__fragments/__50_50" U "_22/a0.tdb", "");
  assert_string_equal(fragments(), "3-30 20-20 100-100 "); /* by start time as a number */
}

static void test_order_of_equal_times(void **state) {
  tiny_text(store, "__commits/__5_5_b0000000000000000000000000000000_22.wrt", "");
  tiny_text(store, "__commits/z.con", "__commits/__5_5_a0000000000000000000000000000000_22.wrt\n");
  assert_string_equal(fragments(), "5-5 5-5 ");
  assert_string_equal(array->log.listing->fragments.items[0].parsed.uuid, "a0000000000000000000000000000000");
}

/* The latest time of a commit, of whatever kind: the next one must be later. What is in the future is none. */
static void test_newest_commit(void **state) {
  tiny_text(store, "__commits/__4102444800000_4102444800000" U "_22.wrt", "");
  tiny_text(store, "__commits/__3_30" U "_22.wrt", "");
  assert_int_equal(list(), TSR_OK);
  assert_int_equal(array->log.listing->newest, 30);
  tiny_put_delete(store, "__commits/__40_40" U "_22.del", "a");
  assert_int_equal(list(), TSR_OK);
  assert_int_equal(array->log.listing->newest, 40);
  tiny_text(store, "__commits/__3_50" U "_22.con", "__commits/__3_30" U "_22.wrt\n");
  tiny_text(store, "__commits/x.con", "__commits/__60_60" U "_22.wrt\n"); /* its own name has no time */
  assert_int_equal(list(), TSR_OK);
  assert_int_equal(array->log.listing->newest, 50);
}

static void test_con_and_ign_files(void **state) {
  tsr_buffer b = {.memory = &environment->memory}, tile = {.memory = &environment->memory};
  tiny_condition(&tile, "a");
  static const char first[] = "__commits/__1_1" U "_22.wrt\n__commits/__15_15" U "_22.del\n";
  tiny_bytes(&b, first, strlen(first));
  tiny_u64(&b, tile.size);
  tiny_bytes(&b, tile.data, tile.size);
  tiny_bytes(&b, "__commits/__2_2" U "_22.wrt\n", strlen("__commits/__2_2" U "_22.wrt\n"));
  tiny_put(store, "__commits/__1_15" U "_22.con", b.data, b.size);
  tiny_put(store, "__commits/zz.con", b.data, b.size);
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 2-2 "); /* named two or three times: counts once */
  assert_string_equal(names(&array->log.listing->deletes), "15-15 ");
  assert_int_equal(array->log.listing->deletes.items[0].size, tile.size);
  assert_memory_equal(array->log.listing->deletes.items[0].bytes, tile.data, tile.size);
  tiny_put(store, "__commits/__15_15" U "_22.del", tile.data, tile.size);
  tiny_put(store, "__commits/__12_12" U "_22.del", tile.data, tile.size);
  assert_string_equal(fragments(), "1-1 2-2 ");
  assert_string_equal(names(&array->log.listing->deletes), "12-12 15-15 ");

  /* an ignore file cancels fragments in .con files, but not those that have a .wrt, and no deletes */
  tiny_text(store, "__commits/__1_2" U "_22.ign",
            "__commits/__1_1" U "_22.wrt\n__commits/__2_2" U "_22.wrt\n__commits/__15_15" U "_22.del\n");
  assert_string_equal(fragments(), "2-2 ");
  assert_string_equal(names(&array->log.listing->deletes), "12-12 15-15 ");

  /* cut anywhere: an error or a listing, never more */
  for (uint64_t i = 0; i < b.size; i++) {
    tiny_put(store, "__commits/zz.con", b.data, i);
    char path[64];
    snprintf(path, sizeof path, "__commits/cut%llu.con", (unsigned long long)i); /* files are cached by name */
    tiny_put(store, path, b.data, i);
    if (list() < 0) assert_int_equal(error.code, TSR_CORRUPT);
    assert_int_equal(tsr__store_remove(store, path, NULL), TSR_OK);
  }
  tsr__buffer_release(&b);
  tsr__buffer_release(&tile);
}

static void test_names_in_the_arrays_directory(void **state) {
  tiny_text(store, "__10_10" U "_5/a.tdb", "");
  tiny_text(store, "__10_10" U "_5.ok", "");
  tiny_text(store, "__11_11" U "_5/__fragment_metadata.tdb", ""); /* no .ok */
  tiny_text(store, "__12_12" U "_9.ok", ""); /* no directory */
  tiny_text(store, "__13_13" U "/__fragment_metadata.tdb", ""); /* version 3 or 4 */
  tiny_text(store, "__00000000000000000000000000000002_14/__fragment_metadata.tdb", ""); /* version 1 or 2 */
  tiny_text(store, "tmp.__15_15" U "/__fragment_metadata.tdb", "");
  tiny_text(store, "tmp.x/__fragment_metadata.tdb", "");
  tiny_text(store, "__16_16" U "_8/a.tdb", "");
  tiny_text(store, "__commits/c.con",
            "__commits/__16_16" U "_8.ok\n__17_17" U "_8.ok\n__commits/__18_18" U "_22.wrt\n");
  tiny_text(store, "__10_13" U "_5.vac", "");
  tiny_text(store, "__10_13" U "_5.meta", "");
  tiny_text(store, "__fragment_meta/__10_14" U "_22.meta", "");
  assert_string_equal(fragments(), "10-10* 13-13* 14-14* 16-16* 18-18 ");
  assert_string_equal(names(&array->log.listing->vacuums), "10-13 ");
  assert_string_equal(names(&array->log.listing->footers), "10-14 10-13 "); /* the newest first */
  assert_string_equal(array->log.listing->footers.items[1].path, "__10_13" U "_5.meta");
  tiny_text(store, "__commits/any name.ign", "");
  tiny_text(store, "__fragment_meta/any name.meta", "");
  tiny_text(store, "__commits/__16_16" U "_22.ign", "__commits/__16_16" U "_8.ok\n");
  assert_string_equal(fragments(), "10-10* 13-13* 14-14* 18-18 ");
}

static void test_bad_names_are_corrupt(void **state) {
  tiny_text(store, "__commits/x.wrt", "");
  assert_int_equal(list(), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "__commits/x.wrt"));
  assert_int_equal(tsr__store_remove(store, "__commits/x.wrt", NULL), TSR_OK);
  tiny_text(store, "__commits/x.con", "__commits/bad.wrt\n");
  assert_int_equal(list(), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "x.con"));
  assert_int_equal(tsr__store_remove(store, "__commits/x.con", NULL), TSR_OK);
  tiny_text(store, "__commits/__1_1" U "_22.upd", "");
  assert_int_equal(list(), TSR_UNSUPPORTED);
  assert_int_equal(tsr__store_remove(store, "__commits/__1_1" U "_22.upd", NULL), TSR_OK);
  assert_int_equal(list(), TSR_OK);
}

static uint64_t listed(void) {
  tsr_counters counters;
  tsr_environment_counters(environment, &counters);
  return counters.commits_listed;
}

static void test_listing_is_renewed_on_change(void **state) {
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  tiny_text(store, "__commits/notes", "");
  assert_string_equal(fragments(), "1-1 ");
  uint64_t generation = array->log.listing->generation;
  assert_int_equal(listed(), 2);
  assert_string_equal(fragments(), "1-1 "); /* nothing changed: nothing is listed */
  assert_int_equal(listed(), 2);
  assert_int_equal(array->log.listing->generation, generation);
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_OK);
  assert_int_equal(listed(), 4);
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 2-2 ");
  assert_int_equal(listed(), 7);
  assert_int_equal(tsr__store_remove(store, "__commits/__1_1" U "_22.wrt", NULL), TSR_OK);
  assert_string_equal(fragments(), "2-2 ");

  /* a failing renewal leaves what was known */
  tiny_text(store, "__commits/x.wrt", "");
  assert_int_equal(list(), TSR_CORRUPT);
  assert_string_equal(names(&array->log.listing->fragments), "2-2 ");
  assert_int_equal(tsr__store_remove(store, "__commits/x.wrt", NULL), TSR_OK);
  assert_string_equal(fragments(), "2-2 ");
}

/* A .con is read once; it is forgotten when it is not listed any more. */
static void test_files_are_decoded_once(void **state) {
  tsr_counters counters;
  tiny_text(store, "__commits/c.con", "__commits/__1_1" U "_22.wrt\n");
  assert_string_equal(fragments(), "1-1 ");
  assert_int_equal(array->log.files.by_path.count, 1);
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  tsr_environment_reset_counters(environment);
  assert_string_equal(fragments(), "1-1 2-2 ");
  tsr_environment_counters(environment, &counters);
  assert_int_equal(counters.files_opened, 0);
  assert_int_equal(tsr__store_remove(store, "__commits/c.con", NULL), TSR_OK);
  assert_string_equal(fragments(), "2-2 ");
  assert_int_equal(array->log.files.by_path.count, 0);
}

/* A fragment of version 3 is committed by a file one level down: no listed directory changes. */
static void test_metadata_file_commits_version_3(void **state) {
  tiny_text(store, "__13_13" U "/a.tdb", "");
  assert_string_equal(fragments(), "");
  assert_int_equal(array->log.listing->pending.count, 1);
  tiny_text(store, "__13_13" U "/__fragment_metadata.tdb", "");
  tsr_stamp stamps[3];
  for (int i = 0; i < 3; i++) {
    static const char *const directories[] = {"", "__schema", "__commits"};
    assert_int_equal(tsr__store_stamp(store, directories[i], &stamps[i], NULL), TSR_OK);
  }
  memcpy(array->log.listing->moment.stamps, stamps, sizeof stamps); /* as a file system has it */
  assert_string_equal(fragments(), "13-13* ");
}

/* Stamps as a file system has them, which change with their own directory alone; counts how often each is checked. */
static const tsr_store_methods *plain;
static unsigned looks[4]; /* at the array's directory, __schema, __commits, others */
static int own_stamp(tsr_store *s, const char *path, tsr_stamp *stamp, tsr_error *e) {
  tsr_listing entries = {.memory = s->memory};
  uint64_t sum = 5381;
  looks[!*path ? 0 : !strcmp(path, "__schema") ? 1 : !strcmp(path, "__commits") ? 2 : 3]++;
  int rc = plain->list(s, path, &entries, e);
  for (uint64_t i = 0; i < entries.count; i++)
    for (const char *c = entries.entries[i].name; *c; c++) sum = sum * 33 + (uint8_t)*c;
  tsr__listing_release(&entries);
  *stamp = (tsr_stamp){.known = true, .a = rc < 0 ? 0 : sum};
  return TSR_OK;
}
static const char *looked(void) { /* the committed names as well, or the error */
  static char text[2100];
  memset(looks, 0, sizeof looks);
  const int rc = list();
  snprintf(text, sizeof text, "%u%u%u%u %s", looks[0], looks[1], looks[2], looks[3],
           rc < 0 ? error.message : names(&array->log.listing->fragments));
  return text;
}
static void test_only_needed_directories_are_checked(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.stamp = own_stamp;
  array->store->methods = &methods;
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 ");
  assert_string_equal(looked(), "0110 1-1 "); /* the new layout: where schemas and commits show */
  assert_int_equal(tsr__log_list(&array->log, false, false, &error), TSR_OK);
  assert_string_equal(looked(), "0110 1-1 ");
  memset(looks, 0, sizeof looks);
  assert_int_equal(tsr__log_list(&array->log, false, false, &error), TSR_OK); /* schemas alone */
  assert_true(looks[0] + looks[2] + looks[3] == 0 && looks[1] == 1);
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  assert_string_equal(looked() + 4, " 1-1 2-2 ");
  assert_string_equal(looked(), "0110 1-1 2-2 ");
  tiny_text(store, "__commits/__3_3" U "_22.del", "");
  looked();
  assert_int_equal(array->log.listing->deletes.count, 1);
  tiny_text(store, "__fragment_meta/__1_2" U "_22.meta",
            ""); /* consolidated footers save reading; they are found when the array is listed for another reason */
  assert_string_equal(looked(), "0110 1-1 2-2 ");
  assert_int_equal(array->log.listing->footers.count, 0);
  tiny_text(store, "__commits/__1_2" U "_22.vac", "");
  looked();
  assert_int_equal(array->log.listing->footers.count, 1);

  /* a new schema, which has not been decoded: it may be one of the old layout */
  const tsr_schema *schema;
  tiny_schema(store, "__schema/__9_9" U, false, 1, a_only);
  assert_int_equal(tsr__log_list(&array->log, false, false, &error), TSR_OK);
  assert_int_equal(array->log.listing->schemas.count, 2);
  assert_true(array->log.listing->complete); /* commits that were listed are not forgotten */
  looked();
  assert_string_equal(looked(), "1110 1-1 2-2 ");
  tiny_text(store, "__4_4" U "_11.ok", "");
  tiny_text(store, "__4_4" U "_11/a.tdb", "");
  assert_string_equal(looked() + 4, " 1-1 2-2 4-4* ");
  assert_int_equal(tsr__array_schema_by_name(array, "__9_9" U, &schema, &error), TSR_OK);
  assert_string_equal(looked(), "1110 1-1 2-2 4-4* "); /* the old layout is there */
  tiny_text(store, "__5_5" U "_11.ok", "");
  tiny_text(store, "__5_5" U "_11/a.tdb", "");
  assert_string_equal(looked() + 4, " 1-1 2-2 4-4* 5-5* ");

  /* the array goes */
  assert_int_equal(tsr__store_remove(store, "__schema/__1_1" U, NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(store, "__schema/__9_9" U, NULL), TSR_OK);
  assert_non_null(strstr(looked(), "array not found"));
  array->store->methods = plain;
}

static uint64_t readings(void) {
  tsr_counters counters;
  tsr_environment_counters(environment, &counters);
  return counters.directories_listed;
}

/* A listing to which others have added .wrt files is not made anew: __commits alone is read, once. */
static void test_additions_extend_the_listing(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.stamp = own_stamp;
  array->store->methods = &methods;
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  tiny_text(store, "__commits/notes", "");
  assert_string_equal(fragments(), "2-2 ");
  const tsr_schema *schema;
  assert_int_equal(tsr__array_schema_at(array, UINT64_MAX, &schema, &error), TSR_OK); /* its version tells the layout */
  uint64_t before = readings(), generation = array->log.listing->generation;
  tiny_text(store, "__commits/__3_3" U "_22.wrt", "");
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 2-2 3-3 ");
  assert_int_equal(readings(), before + 1);
  assert_int_equal(array->log.listing->generation, generation + 1);
  assert_int_equal(array->log.listing->written, 3);
  assert_int_equal(array->log.listing->newest, 3);
  assert_string_equal(fragments(), "1-1 2-2 3-3 ");
  assert_int_equal(readings(), before + 1);
  array->log.listing->moment.stamps[TSR_IN_COMMITS].known = false; /* a change that added nothing */
  assert_int_equal(list(), TSR_OK);
  assert_int_equal(readings(), before + 2);
  assert_int_equal(array->log.listing->generation, generation + 1); /* snapshots of it stay */

  /* an error leaves a listing that is renewed, whether the bad name comes before others or behind them */
  tiny_text(store, "__commits/__4_4" U "_22.wrt", "");
  static const char *const bad[] = {"__commits/A.wrt", "__commits/x.wrt"};
  for (int i = 0; i < 2; i++) {
    tiny_text(store, bad[i], "");
    assert_int_equal(list(), TSR_CORRUPT);
    assert_int_equal(list(), TSR_CORRUPT);
    assert_int_equal(tsr__store_remove(store, bad[i], NULL), TSR_OK);
  }
  assert_string_equal(fragments(), "1-1 2-2 3-3 4-4 ");

  /* whatever else changes, the array is listed as a whole */
  static const struct {
    const char *name, *content, *seen;
  } others[] = {{"__commits/other notes", "", "1-1 2-2 3-3 4-4 "},
                {"__commits/__5_5" U "_22.con", "__commits/__5_5" U "_22.wrt\n", "1-1 2-2 3-3 4-4 5-5 "},
                {"__commits/__6_6" U "_22.ign", "__commits/__5_5" U "_22.wrt\n", "1-1 2-2 3-3 4-4 "}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    before = readings();
    tiny_text(store, others[i].name, others[i].content);
    assert_string_equal(fragments(), others[i].seen);
    assert_true(readings() > before + 1);
  }
  assert_int_equal(tsr__store_remove(store, "__commits/__3_3" U "_22.wrt", NULL), TSR_OK);
  tiny_text(store, "__commits/__7_7" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 2-2 4-4 7-7 ");
  static const char *const gone[] = {"__commits/__1_1" U "_22.wrt", "__commits/other notes"}; /* amid, and last */
  for (int i = 0; i < 2; i++) {
    before = readings();
    assert_int_equal(tsr__store_remove(store, gone[i], NULL), TSR_OK);
    assert_string_equal(fragments(), "2-2 4-4 7-7 ");
    assert_true(readings() > before + 1);
  }
  tiny_text(store, gone[0], "");
  tiny_text(store, "__commits/__0_0" U "_22.wrt", "");
  before = readings();
  assert_string_equal(fragments(), "0-0 1-1 2-2 4-4 7-7 ");
  assert_int_equal(readings(), before + 1);
  assert_int_equal(tsr__store_remove(store, "__commits/__0_0" U "_22.wrt", NULL), TSR_OK);
  assert_string_equal(fragments(), "1-1 2-2 4-4 7-7 ");

  /* a staged vacuum file counts from the moment at which its fragment is committed */
  tiny_text(store, "__commits/.__8_9" U "_22.vac.new", "__fragments/__7_7" U "_22\n");
  assert_string_equal(fragments(), "1-1 2-2 4-4 7-7 ");
  assert_int_equal(array->log.listing->vacuums.count, 0);
  tiny_text(store, "__commits/__8_9" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-1 2-2 4-4 7-7 8-9 ");
  assert_int_equal(array->log.listing->vacuums.count, 1);
  array->store->methods = plain;
}

/* A store in which a stamp is a listing, as in a bucket: what has been listed to find a change is not listed again. */
static unsigned lists[5]; /* of the array's directory, __schema, __commits, others; and the calls */
static int list_together(tsr_store *s, const char *const *paths, uint64_t count, tsr_listing *listings,
                         tsr_stamp *stamps, tsr_error *e) {
  lists[4]++;
  for (uint64_t i = 0; i < count; i++) {
    const char *path = paths[i];
    lists[!*path ? 0 : !strcmp(path, "__schema") ? 1 : !strcmp(path, "__commits") ? 2 : 3]++;
    TSR_TRY(own_stamp(s, path, &stamps[i], e));
    const int rc = plain->list(s, path, &listings[i], e);
    listings[i].missing = rc == TSR_NOT_FOUND;
    if (rc < 0 && rc != TSR_NOT_FOUND) return rc;
  }
  return TSR_OK;
}
static const char *listed_as(void) {
  static char text[100];
  memset(lists, 0, sizeof lists);
  const int rc = list();
  snprintf(text, sizeof text, "%u%u%u%u in %u: %s", lists[0], lists[1], lists[2], lists[3], lists[4],
           rc < 0 ? "failed" : names(&array->log.listing->fragments));
  return text;
}
static void test_a_stamp_that_is_a_listing_is_not_taken_twice(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.list_many = list_together;
  methods.stamp = own_stamp;
  array->store->methods = &methods;
  array->store->listings_are_states = array->store->stamps_are_listings = true;
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  assert_string_equal(listed_as(), "0111 in 1: 1-1 "); /* opening the array has listed its own directory */
  assert_string_equal(listed_as(), "0110 in 1: 1-1 ");
  tiny_text(store, "__commits/__2_2" U "_22.wrt", "");
  assert_string_equal(listed_as(), "0110 in 1: 1-1 2-2 "); /* for one fragment it does not list footers */
  for (int i = 3; i < 8; i++) {
    char path[100];
    snprintf(path, sizeof path, "__commits/__%d_%d" U "_22.wrt", i, i);
    tiny_text(store, path, "");
  }
  assert_string_equal(listed_as(), "0111 in 2: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 ");
  assert_string_equal(listed_as(), "0110 in 1: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 ");
  tiny_text(store, "__fragment_meta/__1_7" U "_22.meta", "");
  tiny_text(store, "__commits/__8_8" U "_22.wrt", "");
  assert_string_equal(listed_as(), "0110 in 1: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 ");
  assert_int_equal(array->log.listing->footers.count, 0);
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_OK);
  assert_int_equal(array->log.listing->footers.count, 1);
  tiny_text(store, "__commits/__9_9" U "_22.wrt", "");
  assert_string_equal(listed_as(), "0110 in 1: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 ");
  assert_int_equal(array->log.listing->footers.count, 1); /* those of the last listing count on */
  tiny_schema(store, "__schema/__9_9" U, false, 1, a_only);
  assert_string_equal(listed_as(),
                      "1221 in 2: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 "); /* it may be one of the old layout */
  assert_string_equal(listed_as(), "1110 in 1: 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 ");
  assert_int_equal(tsr__store_remove(store, "__schema/__1_1" U, NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(store, "__schema/__9_9" U, NULL), TSR_OK);
  assert_non_null(strstr(listed_as(), "failed"));
  array->store->listings_are_states = array->store->stamps_are_listings = false;
  array->store->methods = plain;
}

/* The store is told which files will be read: those that have not been read before. */
static char hinted[600];
static void note_hints(tsr_store *s, const tsr_read_hint *hints, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    const char *slash = strrchr(hints[i].path, '/');
    assert_true(hints[i].size == TSR_WHOLE && !hints[i].tail);
    strcat(strcat(hinted, slash ? slash + 1 : hints[i].path), " ");
  }
}
static const char *expected_files(void) {
  *hinted = 0;
  assert_int_equal(tsr__log_list(&array->log, true, true, &error), TSR_OK);
  return hinted;
}
static void test_the_store_is_told_what_is_read(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.prefetch = note_hints;
  array->store->methods = &methods;
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  assert_string_equal(expected_files(), "");
  tiny_text(store, "__commits/c.con", "__commits/__2_2" U "_22.wrt\n");
  tiny_text(store, "__commits/__1_2" U "_22.ign", "");
  tiny_text(store, "__commits/__1_2" U "_22.vac", "");
  tiny_text(store, "__fragment_meta/__1_2" U "_22.meta", "");
  tiny_text(store, "__fragment_meta/__1_3" U "_22.meta", "");
  assert_string_equal(expected_files(), "__1_2" U "_22.ign __1_2" U "_22.vac c.con __1_3" U "_22.meta ");
  assert_string_equal(expected_files(), "__1_2" U "_22.vac __1_3" U "_22.meta ");
  tiny_text(store, "__commits/__1_3" U "_22.con", "__commits/__2_2" U "_22.wrt\n");
  assert_string_equal(expected_files(), "__1_2" U "_22.vac __1_3" U "_22.meta "); /* in place of the .con */
  array->store->methods = plain;
}

/* While __commits is listed, a merge commits and a vacuum removes its source: the first listing has neither of them. */
static int torn_list(tsr_store *s, const char *path, tsr_listing *out, tsr_error *e) {
  static const char source[] = "__commits/__1_1" U "_22.wrt", merged[] = "__commits/__1_2" U "_22.wrt";
  bool there = false;
  if (strcmp(path, "__commits") != 0 || tsr__store_find(s, source, &there, NULL) < 0 || !there)
    return plain->list(s, path, out, e);
  assert_int_equal(tsr__store_remove(s, source, NULL), TSR_OK);
  const int rc = plain->list(s, path, out, e);
  tiny_text(s, merged, "");
  return rc;
}
static void test_listing_is_a_state_of_the_directory(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.list = torn_list;
  array->store->methods = &methods;
  tiny_text(store, "__commits/__1_1" U "_22.wrt", "");
  tiny_text(store, "__commits/__3_3" U "_22.wrt", "");
  assert_string_equal(fragments(), "1-2 3-3 ");
  array->store->methods = plain;
}

/* A vacuum ends after the array's directory was listed with the source in it, and before __commits is listed for
 * the last time. Another file is made meanwhile, so the directory has as many names as before. */
static int lists_left;
static int vacuumed_list(tsr_store *s, const char *path, tsr_listing *out, tsr_error *e) {
  static const char source[] = "__1_1" U "_9.ok", vacuum[] = "__commits/__1_2" U "_22.vac";
  bool there = false;
  if (strcmp(path, "__commits") != 0 || tsr__store_find(s, source, &there, NULL) < 0 || !there || --lists_left > 0)
    return plain->list(s, path, out, e);
  assert_int_equal(tsr__store_remove(s, source, NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, vacuum, NULL), TSR_OK);
  tiny_text(s, "__1_1" U "_9.txt", "");
  return plain->list(s, path, out, e);
}
static int no_stamp(tsr_store *s, const char *path, tsr_stamp *stamp, tsr_error *e) {
  *stamp = (tsr_stamp){.known = false};
  return TSR_OK;
}
static void test_vacuum_between_two_directories_is_noticed(void **state) {
  static tsr_store_methods methods;
  plain = array->store->methods;
  methods = *plain;
  methods.list = vacuumed_list;
  for (int times = 1; times <= 2; times++) { /* without stamps, __commits is always listed twice */
    methods.stamp = times == 1 ? own_stamp : no_stamp;
    array->store->methods = &methods;
    tiny_text(store, "__1_1" U "_9.ok", "");
    if (times == 1) tiny_text(store, "__1_1" U "_9/a.tdb", "");
    if (times == 1) tiny_text(store, "__commits/__1_2" U "_22.wrt", "");
    tiny_text(store, "__commits/__1_2" U "_22.vac", "/__1_1" U "_9\n");
    lists_left = times;
    assert_int_equal(list(), TSR_OK); /* once: the next would see that something has changed */
    assert_int_equal(lists_left, 0);
    assert_string_equal(names(&array->log.listing->fragments), "1-2 ");
    array->store->methods = plain;
    assert_int_equal(tsr__store_remove(store, "__1_1" U "_9.txt", NULL), TSR_OK);
  }
}

/* Two fragments that were merged twice have their cells in two places. A merge whose vacuum file has its staged name
 * beside its final one, as while a server copies it, is one merge. */
static void test_a_vacuum_file_under_two_names_is_one_merge(void **state) {
  const char *sources = "__fragments/__1_1" U "_22\n__fragments/__2_2" U "_22\n";
  tsr_duplicate_cells found;
  tiny_text(store, "__commits/__1_2" U "_22.wrt", "");
  tiny_text(store, "__commits/.__1_2" U "_22.vac.new", sources);
  tiny_text(store, "__commits/__1_2" U "_22.vac", sources);
  assert_string_equal(fragments(), "1-2 ");
  assert_int_equal(array->log.listing->vacuums.count, 2);
  assert_int_equal(tsr__log_find_duplicate_cells(&array->log, &found, &error), TSR_OK);
  assert_null(found.merged);
  tiny_text(store, "__commits/__1_2_b0000000000000000000000000000000_22.wrt", "");
  tiny_text(store, "__commits/__1_2_b0000000000000000000000000000000_22.vac", sources);
  assert_string_equal(fragments(), "1-2 1-2 ");
  assert_int_equal(tsr__log_find_duplicate_cells(&array->log, &found, &error), TSR_OK);
  assert_non_null(found.merged);
  assert_string_equal(found.source, "__1_1" U "_22");
}

static void test_missing_array_is_not_found(void **state) {
  assert_int_equal(tsr__store_remove(store, "__schema/__1_1" U, NULL), TSR_OK);
  assert_int_equal(list(), TSR_NOT_FOUND);
  assert_ptr_equal(strstr(error.message, "array not found: tiny"), error.message);
}

static void test_no_memory(void **state) {
  int rc = TSR_BUDGET;
  tiny_text(store, "__10_10" U "_5/a.tdb", "");
  tiny_text(store, "__10_10" U "_5.ok", "");
  tiny_text(store, "__commits/c.con", "__commits/__1_1" U "_22.wrt\n__commits/__2_2" U "_22.wrt\n");
  tiny_text(store, "__commits/__1_2" U "_22.ign", "__commits/__1_1" U "_22.wrt\n");
  tiny_text(store, "__fragment_meta/__10_14" U "_22.meta", "");
  for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 32) {
    environment->memory.limit = environment->memory.used + limit;
    rc = list();
    environment->memory.limit = UINT64_MAX;
    if (rc < 0) assert_int_equal(rc, TSR_BUDGET);
    assert_true(limit < 1 << 20);
  }
  assert_string_equal(fragments(), "2-2 10-10* ");
}

/* What was added to the last listing stays in it when memory is lacking for the rest, and the rest is added later. */
static void test_no_memory_for_additions(void **state) {
  static tsr_store_methods methods;
  const tsr_schema *schema;
  char name[128];
  plain = array->store->methods;
  methods = *plain;
  methods.stamp = own_stamp;
  array->store->methods = &methods;
  assert_int_equal(list(), TSR_OK);
  assert_int_equal(tsr__array_schema_at(array, UINT64_MAX, &schema, &error), TSR_OK);
  for (unsigned n = 1; n <= 70; n++) { /* more than once the room doubles */
    int rc = TSR_BUDGET;
    snprintf(name, sizeof name, "__commits/__%u_%u" U "_22.wrt", n, n);
    tiny_text(store, name, "");
    for (uint64_t limit = 0; rc == TSR_BUDGET; limit += 256) {
      environment->memory.limit = environment->memory.used + limit;
      rc = list();
      environment->memory.limit = UINT64_MAX;
      assert_true(limit < 1 << 20);
    }
    assert_int_equal(rc, TSR_OK);
    assert_int_equal(array->log.listing->fragments.count, n);
  }
  array->store->methods = plain;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_empty_array, setup, teardown),
      cmocka_unit_test_setup_teardown(test_names_in_commits, setup, teardown),
      cmocka_unit_test_setup_teardown(test_order_of_equal_times, setup, teardown),
      cmocka_unit_test_setup_teardown(test_newest_commit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_con_and_ign_files, setup, teardown),
      cmocka_unit_test_setup_teardown(test_names_in_the_arrays_directory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bad_names_are_corrupt, setup, teardown),
      cmocka_unit_test_setup_teardown(test_listing_is_renewed_on_change, setup, teardown),
      cmocka_unit_test_setup_teardown(test_additions_extend_the_listing, setup, teardown),
      cmocka_unit_test_setup_teardown(test_files_are_decoded_once, setup, teardown),
      cmocka_unit_test_setup_teardown(test_metadata_file_commits_version_3, setup, teardown),
      cmocka_unit_test_setup_teardown(test_listing_is_a_state_of_the_directory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_vacuum_between_two_directories_is_noticed, setup, teardown),
      cmocka_unit_test_setup_teardown(test_only_needed_directories_are_checked, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_stamp_that_is_a_listing_is_not_taken_twice, setup, teardown),
      cmocka_unit_test_setup_teardown(test_the_store_is_told_what_is_read, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_vacuum_file_under_two_names_is_one_merge, setup, teardown),
      cmocka_unit_test_setup_teardown(test_missing_array_is_not_found, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_memory_for_additions, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
