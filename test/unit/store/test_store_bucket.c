/* test_store_bucket.c: a store in a bucket: which requests become of its operations, in which order others see them, and
 * what is left when a request fails or its answer is lost. The bucket is in memory (fake_bucket.h). */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_bucket.h"
#include "store/store.h"

#define MIB (UINT64_C(1) << 20)

static tsr_memory root;
static tsr_store *store;
static tsr_error error;

static int begin(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  return tsr__store_bucket_open(NULL, &root, "s3://bucket/a/b", &store, NULL);
}

static int end(void **state) {
  tsr__store_close(store);
  assert_int_equal(root.used, 0);
  fake_clear();
  return 0;
}

static void ok(int rc) {
  if (rc < 0) fail_msg("%d: %s", rc, error.message);
}

static int write_file(const char *path, const char *text) {
  tsr_file *file;
  TSR_TRY(tsr__store_create_exclusive(store, path, &file, &error));
  int rc = tsr__store_append(file, text, strlen(text), &error);
  if (rc >= 0) rc = tsr__store_sync(file, &error);
  tsr__store_close_file(file);
  return rc;
}

static void holds(const char *path, const char *text) {
  tsr_buffer bytes = {.memory = &root};
  ok(tsr__store_read_all(store, path, 1000, &bytes, &error));
  assert_int_equal(bytes.size, strlen(text));
  assert_memory_equal(bytes.data, text, bytes.size);
  tsr__buffer_release(&bytes);
}

static void object_is(const char *key, const char *text) {
  const fake_object *o = fake_find(key);
  assert_non_null(o);
  assert_int_equal(o->size, strlen(text));
  assert_memory_equal(o->bytes, text, o->size);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void test_new_file_is_one_request(void **state) {
  tsr_file *file;
  ok(write_file("f", "text"));
  assert_string_equal(fake.log, "PUT a/b/f\n");
  object_is("a/b/f", "text");
  holds("f", "text"); /* what the store has just written is here */
  ok(tsr__store_put_new(store, "g", "more", 4, true, &error));
  assert_string_equal(fake.log, "PUT a/b/f\nPUT a/b/g\n");
  assert_int_equal(tsr__store_put_new(store, "g", "other", 5, true, &error), TSR_EXISTS);
  assert_non_null(strstr(error.message, "s3://bucket/a/b/g: "));
  assert_int_equal(write_file("f", "other"), TSR_EXISTS);
  object_is("a/b/f", "text");
  assert_int_equal(tsr__store_open_file(store, "none", &file, &error), TSR_NOT_FOUND);
}

/* A small file opens and is read by one request, or none if its size is known and nobody reads. */
static void test_file_opens_by_its_tail(void **state) {
  tsr_file *file;
  uint8_t bytes[100];
  fake_put_pattern("a/b/large", MIB);
  fake_put("a/b/small", "0123456789", 10);
  ok(tsr__store_open_file(store, "small", &file, &error));
  assert_int_equal(file->size, 10);
  ok(tsr__store_read_at(file, 3, bytes, 4, &error));
  assert_memory_equal(bytes, "3456", 4);
  assert_int_equal(tsr__store_read_at(file, 8, bytes, 3, &error), TSR_CORRUPT);
  tsr__store_close_file(file);
  assert_int_equal(fake.requests, 1);
  ok(tsr__store_open_sized(store, "large", MIB, &file, &error));
  assert_int_equal(fake.requests, 1);
  ok(tsr__store_read_at(file, 1000, bytes, 100, &error));
  assert_memory_equal(bytes, fake_find("a/b/large")->bytes + 1000, 100);
  tsr__store_close_file(file);
  assert_int_equal(fake.requests, 2);
  ok(tsr__store_open_sized(store, "large", 2 * MIB, &file, &error)); /* the metadata were wrong */
  assert_int_equal(tsr__store_read_at(file, 2 * MIB - 100, bytes, 100, &error), TSR_CORRUPT);
  tsr__store_close_file(file);
  ok(tsr__store_open_sized(store, "gone", 100, &file, &error));
  assert_int_equal(tsr__store_read_at(file, 0, bytes, 100, &error), TSR_NOT_FOUND);
  tsr__store_close_file(file);
}

static void test_wishes_for_files_are_fetched_together(void **state) {
  const tsr_read_hint hints[] = {{"x", 0, TSR_WHOLE, false}, {"y", 0, 0, true}, {"z", 70000, 10, false}};
  tsr_buffer bytes = {.memory = &root};
  tsr_file *file;
  char byte;
  fake_put("a/b/x", "x", 1);
  fake_put_pattern("a/b/z", 100000);
  tsr__store_prefetch(store, hints, 3);
  assert_int_equal(fake.under_way, 3);
  ok(tsr__store_read_all(store, "x", 10, &bytes, &error));
  assert_int_equal(bytes.size, 1);
  ok(tsr__store_open_sized(store, "z", 100000, &file, &error));
  ok(tsr__store_read_at(file, 70000, &byte, 1, &error));
  tsr__store_close_file(file);
  tsr__buffer_release(&bytes);
  assert_int_equal(tsr__store_open_file(store, "y", &file, &error), TSR_NOT_FOUND);
  assert_int_equal(fake.requests, 3);
}

/* A large range is read in parts that run together. */
static void test_large_range_is_read_in_parts(void **state) {
  tsr_file *file;
  uint8_t *bytes = malloc(20 * MIB);
  fake.part_size = 4 * MIB;
  fake_put_pattern("a/b/f", 20 * MIB);
  ok(tsr__store_open_sized(store, "f", 20 * MIB, &file, &error));
  ok(tsr__store_read_at(file, MIB, bytes, 18 * MIB, &error));
  assert_memory_equal(bytes, fake_find("a/b/f")->bytes + MIB, 18 * MIB);
  assert_int_equal(fake.requests, 5);
  assert_int_equal(fake.trips, 1);
  tsr__store_close_file(file);
  free(bytes);
}

/* A large file that its creator will sync is sent while it is written, and appears with the sync. */
static void test_large_file_is_sent_while_it_is_written(void **state) {
  tsr_file *file;
  uint8_t *bytes = malloc(MIB);
  for (int ends = 0; ends < 2; ends++) {
    fake.part_size = 8 * MIB;
    ok(tsr__store_create_exclusive(store, "f", &file, &error));
    file->syncs = true;
    for (int i = 0; i < 150; i++) {
      memset(bytes, i, MIB);
      ok(tsr__store_append(file, bytes, MIB, &error));
      assert_true(tsr__store_unsent(store) <= 72 * MIB);
      assert_null(fake_find("a/b/f"));
    }
    assert_int_equal(fake_uploads(), 1 + 16);
    if (ends) ok(tsr__store_sync(file, &error));
    assert_int_equal(file->size, 150 * MIB);
    tsr__store_close_file(file);
    assert_int_equal(fake_uploads(), 0); /* what was not ended is aborted */
    assert_int_equal(fake_find("a/b/f") != NULL, ends);
  }
  const fake_object *o = fake_find("a/b/f");
  assert_int_equal(o->size, 150 * MIB);
  for (uint64_t i = 0; i < 150; i++) assert_int_equal(o->bytes[i * MIB + 77], i);
  free(bytes);
}

static void test_keys_have_a_limit(void **state) {
  char path[1100];
  tsr_file *file;
  memset(path, 'x', sizeof path);
  path[1024 - 4] = 0; /* behind "a/b/" */
  ok(write_file(path, "text"));
  path[1024 - 4] = 'x';
  path[1024 - 3] = 0;
  assert_int_equal(tsr__store_open_file(store, path, &file, &error), TSR_NOT_FOUND);
  assert_non_null(strstr(error.message, "more than 1024 bytes"));
  assert_true(write_file(path, "text") < 0);
  assert_int_equal(fake_count(), 1);
}

/* ---- Directories ------------------------------------------------------------------------------------------------- */

static void test_listing(void **state) {
  tsr_listing listing = {0};
  tsr_stamp stamp, same;
  ok(tsr__store_stamp(store, "d", &stamp, &error));
  assert_true(stamp.known && stamp.a == 0 && stamp.b == 0 && stamp.c == 0);
  assert_int_equal(tsr__store_list(store, "d", &listing, &error), TSR_NOT_FOUND);
  fake_put("a/b/d/file", "1234", 4);
  fake_put("a/b/d/e/f/g", "", 0);
  fake_put("a/b/d-/x", "", 0);
  fake_put("a/bc/d/x", "", 0); /* not below the prefix */
  fake_put("a/b/d/", "", 0); /* what some programs make for an empty directory */
  fake_put("a/b/d/../x", "", 0); /* a stranger's: no path names it */
  ok(tsr__store_list(store, "d", &listing, &error));
  assert_int_equal(listing.count, 2);
  assert_string_equal(listing.entries[0].name, "e");
  assert_int_equal(listing.entries[0].kind, TSR_ENTRY_DIRECTORY);
  assert_string_equal(listing.entries[1].name, "file");
  assert_true(listing.entries[1].known && listing.entries[1].size == 4);
  tsr__listing_release(&listing);
  ok(tsr__store_stamp(store, "d", &stamp, &error));
  ok(tsr__store_stamp(store, "d", &same, &error));
  assert_true(tsr__same_stamp(&stamp, &same));
  fake_put("a/b/d/file", "5678", 4); /* the ETag tells */
  ok(tsr__store_stamp(store, "d", &same, &error));
  assert_false(tsr__same_stamp(&stamp, &same));
}

/* The root is claimed by one of several processes. No other directory is made. */
static void test_root_is_claimed_once(void **state) {
  tsr_store *other;
  fake_put("a/b/" TSR_BUCKET_PROOF "0123", "1", 1); /* of a process that was killed */
  ok(tsr__store_bucket_open(NULL, &root, "s3://bucket/a/b", &other, &error));
  ok(tsr__store_make_directory(store, "", &error));
  assert_int_equal(tsr__store_make_directory(other, "", &error), TSR_EXISTS);
  fake_forget_requests();
  ok(tsr__store_make_directory(store, "__schema", &error));
  assert_int_equal(fake.requests, 0);
  ok(tsr__store_remove(store, "", &error));
  assert_null(fake_find("a/b/" TSR_BUCKET_CLAIM));
  ok(tsr__store_make_directory(other, "", &error));
  tsr__store_close(other);
}

/* Two processes that have listed an empty prefix: the conditional request decides. */
static void test_claim_is_conditional(void **state) {
  fake.fail_at = 2; /* the claim */
  fake.fail_rc = TSR_EXISTS;
  assert_int_equal(tsr__store_make_directory(store, "", &error), TSR_EXISTS);
}

/* ---- Provisional directories ------------------------------------------------------------------------------------- */

static int write_fragment(const char *name) {
  char path[40];
  TSR_TRY(tsr__store_make_provisional(store, ".p", &error));
  TSR_TRY(write_file(".p/x", "xs"));
  TSR_TRY(write_file(".p/y", "ys"));
  TSR_TRY(tsr__store_rename_exclusive(store, ".p", name, &error));
  TSR_TRY(tsr__store_sync_directory(store, "", &error));
  snprintf(path, sizeof path, "%s.ok", name);
  return tsr__store_put_new(store, path, "", 0, true, &error);
}

static void test_provisional_files_leave_together(void **state) {
  tsr_listing listing;
  tsr_file *file;
  ok(tsr__store_make_provisional(store, ".p", &error));
  ok(write_file(".p/x", "xs"));
  ok(write_file(".p/d/y", "ys"));
  holds(".p/x", "xs");
  assert_int_equal(tsr__store_unsent(store), 4);
  assert_int_equal(tsr__store_open_file(store, ".p/none", &file, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr__store_rename_exclusive(store, ".p/x", ".p/d/y", &error), TSR_EXISTS);
  ok(tsr__store_rename(store, ".p/x", ".p/x", &error));
  ok(tsr__store_rename(store, ".p/x", ".p/z", &error));
  ok(write_file(".p/w", "new"));
  ok(tsr__store_rename(store, ".p/w", ".p/z", &error)); /* replaces the file */
  ok(tsr__store_rename_exclusive(store, ".p", "named", &error));
  assert_int_equal(fake.requests, 0);
  holds("named/z", "new");
  assert_int_equal(fake.requests, 0);
  ok(tsr__store_sync_directory(store, "", &error));
  assert_int_equal(fake.requests, 2);
  assert_int_equal(fake.trips, 1);
  object_is("a/b/named/z", "new");
  object_is("a/b/named/d/y", "ys");
  assert_int_equal(tsr__store_unsent(store), 0);
  ok(tsr__store_list(store, "named", &listing, &error));
  assert_int_equal(listing.count, 2);
  tsr__listing_release(&listing);
}

/* Every step that others can see sends first what it refers to. */
static void test_what_a_commit_names_is_there_before(void **state) {
  for (int i = 0; i < 3; i++) {
    fake_clear();
    ok(tsr__store_make_provisional(store, ".p", &error));
    ok(write_file(".p/x", "xs"));
    ok(tsr__store_rename_exclusive(store, ".p", "f", &error));
    fake_put("a/b/staged", "", 0);
    if (i == 0) ok(tsr__store_put_new(store, "f.ok", "", 0, true, &error));
    if (i == 1) ok(tsr__store_rename_exclusive(store, "staged", "f.ok", &error));
    if (i == 2) ok(tsr__store_rename(store, "staged", "f.ok", &error));
    assert_int_equal(strncmp(fake.log, "PUT a/b/f/x\n", strlen("PUT a/b/f/x\n")), 0);
    assert_non_null(fake_find("a/b/f.ok"));
  }
}

static void test_removed_provisional_files_are_never_sent(void **state) {
  ok(tsr__store_make_provisional(store, ".p", &error));
  ok(write_file(".p/x", "xs"));
  assert_int_equal(tsr__store_remove(store, ".p", &error), TSR_EXISTS);
  ok(tsr__store_remove(store, ".p/x", &error));
  ok(tsr__store_remove(store, ".p", &error));
  ok(tsr__store_make_provisional(store, ".q", &error));
  ok(write_file(".q/x", "xs"));
  ok(tsr__store_remove_tree(store, ".q", &error));
  ok(tsr__store_sync_directory(store, "", &error));
  assert_int_equal(fake.requests, 0);
}

/* A fragment and its commit, with each request failing once: the commit exists only if the whole fragment does. */
static void test_fragment_with_each_request_failing(void **state) {
  for (int done = 0; done < 2; done++) {
    int failures = 0;
    for (uint64_t n = 1;; n++) {
      fake_clear();
      fake.fail_at = n;
      fake.fail_rc = TSR_UNREACHABLE;
      fake.fail_done = done;
      const int rc = write_fragment("f");
      if (fake_find("a/b/f.ok")) {
        object_is("a/b/f/x", "xs");
        object_is("a/b/f/y", "ys");
      }
      assert_int_equal(rc, fake.requests < n ? TSR_OK : TSR_UNREACHABLE);
      if (rc < 0) ok(tsr__store_remove_tree(store, "f", &error));
      if (rc < 0) assert_null(fake_find("a/b/f/x"));
      assert_int_equal(tsr__store_unsent(store), 0);
      failures += rc < 0;
      if (rc >= 0) break;
    }
    assert_int_equal(failures, 3);
  }
}

/* ---- Renames and removals ---------------------------------------------------------------------------------------- */

static void test_rename_of_a_file(void **state) {
  fake_put("a/b/from", "text", 4);
  fake_put("a/b/taken", "other", 5);
  assert_int_equal(tsr__store_rename_exclusive(store, "from", "taken", &error), TSR_EXISTS);
  object_is("a/b/from", "text");
  object_is("a/b/taken", "other");
  fake_forget_requests();
  ok(tsr__store_rename_exclusive(store, "from", "to", &error));
  assert_string_equal(fake.log, "GET a/b/from\nPUT a/b/to\nDELETE a/b/from\n");
  holds("to", "text");
  assert_int_equal(fake.requests, 3);
  assert_int_equal(tsr__store_rename_exclusive(store, "none", "x", &error), TSR_NOT_FOUND);
  ok(tsr__store_rename(store, "to", "taken", &error));
  object_is("a/b/taken", "text");
}

static bool has_all(const char *const *keys) {
  while (*keys && fake_find(*keys)) keys++;
  return !*keys;
}

/* The files of a directory are copied, the deepest first, and then removed: wherever that is cut off, the directory is whole
 * under its old name or under its new one. An error says that it is whole under its old name, and the move can be done again;
 * what cannot be removed afterwards is left behind. */
static void test_rename_of_a_directory(void **state) {
  static const char *const before[] = {"a/b/.s/one", "a/b/.s/deep/two", "a/b/.s/deep/er/three", NULL};
  static const char *const after[] = {"a/b/s/one", "a/b/s/deep/two", "a/b/s/deep/er/three", NULL};
  for (uint64_t n = 1;; n++) {
    fake_clear();
    fake_put("a/b/.s/one", "1", 1);
    fake_put("a/b/.s/deep/two", "2", 1);
    fake_put("a/b/.s/deep/er/three", "3", 1);
    fake.fail_at = n;
    fake.fail_rc = TSR_UNREACHABLE;
    const int rc = tsr__store_rename_exclusive(store, ".s", "s", &error);
    if (fake_find("a/b/s/one")) assert_non_null(fake_find("a/b/s/deep/two"));
    if (fake_find("a/b/s/deep/two")) assert_non_null(fake_find("a/b/s/deep/er/three"));
    assert_true(rc < 0 ? has_all(before) : has_all(after));
    const bool met = fake.requests >= n, left = rc >= 0 && met;
    uint64_t removed = 0; /* before the request that failed, after which none is sent */
    for (const char *at = strstr(fake.log, "DELETE"); at && (at = strstr(at + 1, "DELETE")) != NULL;) removed++;
    if (rc < 0) {
      assert_int_equal(rc, TSR_UNREACHABLE);
      fake.fail_at = 0;
      ok(tsr__store_rename_exclusive(store, ".s", "s", &error));
    }
    object_is("a/b/s/one", "1");
    object_is("a/b/s/deep/two", "2");
    object_is("a/b/s/deep/er/three", "3");
    assert_int_equal(fake_count(), left ? 3 + 3 - removed : 3);
    if (!met) break;
    assert_true(n < 30);
  }
  fake.fail_at = 0;
  fake_put("a/b/.s/one", "other", 5);
  assert_int_equal(tsr__store_rename_exclusive(store, ".s", "s", &error), TSR_EXISTS);
  object_is("a/b/s/one", "1");
}

static void put_four(const char *directory) {
  for (int n = 1; n <= 4; n++) {
    char key[40];
    snprintf(key, sizeof key, "a/b/%s/%d", directory, n);
    fake_put(key, "text", 4);
  }
}

/* If the server goes away while the files that were copied are removed, the others are not asked for: each would wait through
 * all its tries. A file that may not be removed says nothing of the others. */
static void test_rename_ends_when_the_server_is_gone(void **state) {
  static const struct {
    const char *from, *to;
    int rc;
    bool goes_on;
  } cases[] = {{".u", "u", TSR_UNREACHABLE, false},
               {".i", "i", TSR_INTERRUPT, false},
               {".d", "d", TSR_DENIED, true},
               {".e", "e", TSR_ERROR, true}};
  put_four(".s");
  fake_forget_requests();
  ok(tsr__store_rename_exclusive(store, ".s", "s", &error));
  const uint64_t whole = fake.requests;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fake_clear();
    put_four(cases[i].from);
    fake.fail_at = whole - 2; /* the second removal */
    fake.fail_on = true;
    fake.fail_rc = cases[i].rc;
    ok(tsr__store_rename_exclusive(store, cases[i].from, cases[i].to, &error));
    assert_int_equal(fake.requests, cases[i].goes_on ? whole : whole - 2);
    assert_int_equal(fake_count(), 4 + 3);
    for (int n = 1; n <= 4; n++) {
      char key[40];
      snprintf(key, sizeof key, "a/b/%s/%d", cases[i].to, n);
      object_is(key, "text");
    }
  }
}

/* The server moves what is larger than a part. */
static void test_large_files_are_moved_by_the_server(void **state) {
  fake.part_size = MIB;
  fake_put_pattern("a/b/.s/large", 3 * MIB);
  ok(tsr__store_rename_exclusive(store, ".s", "s", &error));
  assert_non_null(strstr(fake.log, "COPY a/b/s/large\nDELETE a/b/.s/large\n"));
  assert_int_equal(fake_find("a/b/s/large")->size, 3 * MIB);
}

static void test_removals(void **state) {
  static const char *const files[] = {"x", "none", "y"}, *const trees[] = {"d", "file", "e"};
  tsr_file *file;
  for (const char *const *p = (const char *const[]){"x", "y", "d/1", "d/2/3", "file", "e/1", "dd", NULL}; *p; p++)
    ok(tsr__store_put_new(store, *p, "text", 4, true, &error));
  fake_forget_requests();
  ok(tsr__store_remove_many(store, files, 3, &error));
  assert_string_equal(fake.log, "DELETE_MANY \n");
  assert_int_equal(tsr__store_open_file(store, "x", &file, &error), TSR_NOT_FOUND); /* not what was kept of it */
  fake_forget_requests();
  ok(tsr__store_remove_trees(store, trees, 3, &error));
  assert_int_equal(fake.trips, 2); /* the listings together, then one removal */
  assert_int_equal(fake_count(), 1);
  assert_non_null(fake_find("a/b/dd"));
  assert_int_equal(tsr__store_remove_tree(store, "", &error), TSR_PERM);
}

static void test_times_and_uploads(void **state) {
  uint64_t when;
  fake.requests = 10;
  fake_put("a/b/d/old", "", 0);
  fake.requests = 20;
  fake_put("a/b/d/e/new", "", 0);
  ok(tsr__store_modified(store, "d/old", &when, &error));
  assert_int_equal(when, 11);
  ok(tsr__store_modified(store, "d", &when, &error)); /* the newest object below it */
  assert_int_equal(when, 21);
  assert_int_equal(tsr__store_modified(store, "none", &when, &error), TSR_NOT_FOUND);
  fake_add_part("a/b/left", 30, 0, NULL, 0);
  fake_add_part("a/b/left", 30, 1, "part", 4);
  fake_add_part("a/b/young", 90, 0, NULL, 0);
  fake_add_part("a/other", 31, 0, NULL, 0);
  ok(tsr__store_end_uploads(store, 50, &error));
  assert_null(fake_find_part(30, 0));
  assert_null(fake_find_part(30, 1));
  assert_non_null(fake_find_part(90, 0));
  assert_non_null(fake_find_part(31, 0));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {TEST(test_new_file_is_one_request),
                                     TEST(test_file_opens_by_its_tail),
                                     TEST(test_wishes_for_files_are_fetched_together),
                                     TEST(test_large_range_is_read_in_parts),
                                     TEST(test_large_file_is_sent_while_it_is_written),
                                     TEST(test_keys_have_a_limit),
                                     TEST(test_listing),
                                     TEST(test_root_is_claimed_once),
                                     TEST(test_claim_is_conditional),
                                     TEST(test_provisional_files_leave_together),
                                     TEST(test_what_a_commit_names_is_there_before),
                                     TEST(test_removed_provisional_files_are_never_sent),
                                     TEST(test_fragment_with_each_request_failing),
                                     TEST(test_rename_of_a_file),
                                     TEST(test_rename_of_a_directory),
                                     TEST(test_rename_ends_when_the_server_is_gone),
                                     TEST(test_large_files_are_moved_by_the_server),
                                     TEST(test_removals),
                                     TEST(test_times_and_uploads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
