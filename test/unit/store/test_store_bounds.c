/* test_store_bounds.c: a bound that stores may not leave: links in the place of every part of a path and for every
 * method, swaps of directories and links while threads go through them, hard links, bounds that become narrower. */
#define _GNU_SOURCE /* nftw */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <string.h>

#include "store/store.h"
#include "array/array.h"
#include "inside_test.h"

/* ---- Two directories: the bound, and one outside of it ----------------------------------------------------------- */

static _Atomic bool stop; /* ends the thread that changes the directories */
static char top[200]; /* holds "in" and "out", each with "array/d/f", "in" also "link" -> "array" */

static const char *at(const char *path) {
  static char text[4][400];
  static unsigned turn;
  char *out = text[turn++ % 4];
  snprintf(out, sizeof text[0], "%s/%s", top, path);
  return out;
}

static void write_file(const char *path, const char *bytes) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(bytes, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where) {
  return remove(path);
}

static int setup_tree(void **state) {
  char *real;
  snprintf(top, sizeof top, "%s/tessera-bounds-XXXXXX", P_tmpdir);
  if (!mkdtemp(top) || !(real = realpath(top, NULL))) return 1;
  snprintf(top, sizeof top, "%s", real);
  free(real);
  for (int i = 0; i < 2; i++) {
    const char *which = i ? "out" : "in";
    char path[100];
    static const char *const parts[] = {"", "/array", "/array/d"};
    for (unsigned p = 0; p < 3; p++) {
      snprintf(path, sizeof path, "%s%s", which, parts[p]);
      if (mkdir(at(path), 0777) != 0) return 1;
    }
    snprintf(path, sizeof path, "%s/array/d/f", which);
    write_file(at(path), i ? "secret" : "plain");
  }
  return symlink("array", at("in/link")) != 0 || setup(state);
}

static int teardown_tree(void **state) {
  return nftw(top, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 || teardown(state);
}

static tsr_store *open_store(const char *path) {
  tsr_store *s = NULL;
  assert_int_equal(tsr__directory_open(environment, at(path), &s, &error), TSR_OK);
  return s;
}

static void bind(const char *path) {
  if (tsr_environment_confine(environment, at(path), &error) < 0) fail_msg("%s", error.message);
}

static int read_text(tsr_store *s, const char *path, char text[20]) {
  tsr_buffer b = {.memory = s->memory};
  const int code = tsr__store_read_all(s, path, 19, &b, &error);
  if (code >= 0) snprintf(text, 20, "%.*s", (int)b.size, (const char *)b.data);
  tsr__buffer_release(&b);
  return code;
}

static void holds(tsr_store *s, const char *path, const char *wanted) {
  char text[20];
  if (read_text(s, path, text) < 0) fail_msg("%s", error.message);
  assert_string_equal(text, wanted);
}

/* ---- Links ------------------------------------------------------------------------------------------------------- */

/* Calls every method on a file f and a directory d, one of which is a link or lies below one. */
static void refuses(tsr_store *s, const char *directory, const char *file, const char *beside) {
  tsr_file *opened;
  tsr_listing listing;
  tsr_stamp stamp;
  tsr_look look;
  uint64_t when;
  char text[20];
  assert_int_equal(read_text(s, file, text), TSR_PERM);
  assert_non_null(strstr(error.message, "symbolic link"));
  assert_int_equal(tsr__store_open_file(s, file, &opened, NULL), TSR_PERM);
  assert_int_equal(tsr__store_list(s, directory, &listing, NULL), TSR_PERM);
  assert_int_equal(tsr__store_stamp(s, directory, &stamp, NULL), TSR_PERM);
  assert_int_equal(tsr__store_modified(s, file, &when, NULL), TSR_PERM);
  assert_int_equal(tsr__store_look(s, file, &look, NULL), TSR_PERM);
  assert_int_equal(tsr__store_sync_directory(s, directory, NULL), TSR_PERM);
  assert_true(tsr__store_create_exclusive(s, file, &opened, NULL) < 0);
  if (!beside) return;
  assert_int_equal(tsr__store_create_exclusive(s, beside, &opened, NULL), TSR_PERM);
  assert_int_equal(tsr__store_make_directory(s, beside, NULL), TSR_PERM);
  assert_int_equal(tsr__store_rename(s, file, beside, NULL), TSR_PERM);
  assert_int_equal(tsr__store_rename_exclusive(s, file, beside, NULL), TSR_PERM);
  assert_int_equal(tsr__store_rename_exclusive(s, "own", beside, NULL), TSR_PERM); /* into it */
  assert_int_equal(tsr__store_rename(s, file, "taken", NULL), TSR_PERM); /* out of it */
  assert_int_equal(tsr__store_remove(s, file, NULL), TSR_PERM);
}

static void swap_in(const char *path, const char *target) {
  char aside[400];
  snprintf(aside, sizeof aside, "%s.aside", at(path));
  assert_int_equal(rename(at(path), aside), 0);
  assert_int_equal(symlink(target, at(path)), 0);
}
static void swap_out(const char *path) {
  char aside[400];
  snprintf(aside, sizeof aside, "%s.aside", at(path));
  assert_int_equal(unlink(at(path)), 0);
  assert_int_equal(rename(aside, at(path)), 0);
}

static void test_no_method_follows_a_link_within_a_bound(void **state) {
  write_file(at("in/array/own"), "own");
  bind("in");
  tsr_store *s = open_store("in/link"); /* a link above a root may lead anywhere within the bound */
  holds(s, "d/f", "plain");
  static const struct {
    const char *path, *target, *beside;
  } links[] = {{"in/array/d/f", "out/array/d/f", NULL},
               {"in/array/d", "out/array/d", "d/new"},
               {"in/array", "out/array", "d/new"}};
  for (unsigned i = 0; i < 3; i++)
    for (int inside = 0; inside < 2; inside++) { /* the target of the link does not matter */
      char aside[400];
      snprintf(aside, sizeof aside, "%s.aside", at(links[i].path));
      swap_in(links[i].path, inside ? aside : at(links[i].target));
      if (i == 0) { /* the file is the link, not the directory */
        tsr_listing listing;
        char text[20];
        tsr_file *file;
        assert_int_equal(read_text(s, "d/f", text), TSR_PERM);
        assert_int_equal(tsr__store_create_exclusive(s, "d/f", &file, NULL), TSR_EXISTS);
        assert_int_equal(tsr__store_list(s, "d", &listing, &error), TSR_PERM);
        assert_non_null(strstr(error.message, "f in it is a symbolic link"));
        assert_int_equal(tsr__store_list_any(s, "d", &listing, &error), TSR_OK);
        assert_int_equal(listing.entries[0].kind, TSR_ENTRY_OTHER);
        tsr__listing_release(&listing);
      } else {
        refuses(s, "d", "d/f", links[i].beside);
      }
      swap_out(links[i].path);
    }
  holds(s, "d/f", "plain");
  assert_int_equal(access(at("out/array/d/new"), F_OK), -1);
  assert_int_equal(access(at("out/array/d/f"), F_OK), 0);
  tsr__store_close(s);
}

/* Removals and renamings apply to the link itself, never to its target. */
static void test_links_themselves_can_be_removed_and_renamed(void **state) {
  bind("in");
  tsr_store *s = open_store("in/array");
  assert_int_equal(symlink(at("out/array/d"), at("in/array/l")), 0);
  assert_int_equal(tsr__store_own(s, "l", NULL), TSR_PERM);
  assert_int_equal(tsr__store_rename(s, "l", "m", NULL), TSR_OK);
  assert_int_equal(tsr__store_remove(s, "m", NULL), TSR_OK);
  assert_int_equal(access(at("out/array/d/f"), F_OK), 0);
  tsr__store_close(s);
}

/* Without a bound links are followed; a bound that is set later applies to a store that is open. */
static void test_a_bound_applies_to_stores_that_are_open(void **state) {
  tsr_store *s = open_store("in/array");
  tsr_listing listing;
  swap_in("in/array/d", at("out/array/d"));
  holds(s, "d/f", "secret");
  assert_int_equal(tsr__store_list(s, "d", &listing, NULL), TSR_OK);
  assert_int_equal(listing.count, 1);
  tsr__listing_release(&listing);
  bind("in"); /* the open store is bound, too */
  refuses(s, "d", "d/f", "d/new");
  tsr__store_close(s);
}

static void test_roots_must_lie_below_the_bound(void **state) {
  char *directory;
  tsr_store *s;
  tsr_object_kind kind;
  assert_int_equal(symlink(at("out"), at("in/away")), 0);
  assert_int_equal(symlink(at("in"), at("out/back")), 0);
  bind("in");
  assert_int_equal(tsr__path_open(environment, "array", at("in/away/array"), &directory, &s, NULL), TSR_PERM);
  assert_int_equal(tsr__path_open(environment, "array", at("in/../out/array"), &directory, &s, NULL), TSR_PERM);
  assert_int_equal(tsr__path_open(environment, "array", at("in/none/../../out"), &directory, &s, NULL), TSR_PERM);
  /* "in" is only the beginning of this name. */
  assert_int_equal(tsr_object_find(environment, at("inside"), &kind, NULL), TSR_PERM);
  s = open_store("out/back/array"); /* a path that leads out and back */
  holds(s, "d/f", "plain");
  tsr__store_close(s);
  s = open_store("in"); /* the directory itself */
  holds(s, "array/d/f", "plain");
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_EXISTS);
  assert_int_equal(tsr__store_sync_directory(s, "", NULL), TSR_OK);
  tsr__store_close(s);
  s = open_store("in/new//deep/root/");
  assert_int_equal(tsr__store_make_directory(s, "", NULL), TSR_OK);
  assert_int_equal(access(at("in/new/deep/root"), F_OK), 0);
  assert_int_equal(tsr__store_remove(s, "", NULL), TSR_OK);
  tsr__store_close(s);
  s = open_store("out/array"); /* opened without the check of tsr__path_open: the store checks, too */
  char text[20];
  assert_int_equal(read_text(s, "d/f", text), TSR_PERM);
  assert_non_null(strstr(error.message, "is not below"));
  tsr__store_close(s);
}

/* A process without a standard input gets its descriptor, 0, for a directory or a file. */
static void test_descriptor_0_is_one_like_others(void **state) {
  static const char *const roots[] = {"in/array", "in/array/d"}, *const files[] = {"d/f", "f"};
  bind("in/array");
  for (int i = 0; i < 2; i++) {
    char text[20];
    tsr_store *s = open_store(roots[i]);
    const int input = dup(0);
    close(0);
    errno = i ? EMLINK : EIO; /* of a call before, which says nothing */
    const int rc = read_text(s, files[i], text);
    assert_int_equal(dup2(input, 0), 0);
    close(input);
    assert_int_equal(rc, TSR_OK);
    assert_string_equal(text, "plain");
    tsr__store_close(s);
  }
}

/* ---- Hard links -------------------------------------------------------------------------------------------------- */

static void test_files_with_several_names_are_not_read(void **state) {
  char text[20];
  assert_int_equal(link(at("out/array/d/f"), at("in/array/d/g")), 0);
  tsr_store *s = open_store("in/array");
  holds(s, "d/g", "secret");
  bind("in");
  assert_int_equal(read_text(s, "d/g", text), TSR_PERM);
  assert_non_null(strstr(error.message, "other names (hard links)"));
  assert_int_equal(tsr__store_remove(s, "d/g", NULL), TSR_OK); /* removes a name, not the file */
  holds(s, "d/f", "plain");
  tsr__store_close(s);
}

/* A name that goes again after the file was opened was one of it nevertheless. The kernel's own removal of a name is
 * not seen at once: about once in ten thousand times a name passes for the only one. */
static void *come_and_go(void *argument) {
  char from[400], to[400];
  (void)argument;
  snprintf(from, sizeof from, "%s/out/array/d/f", top);
  snprintf(to, sizeof to, "%s/in/array/d/g", top);
  while (!stop)
    if (link(from, to) != 0 || unlink(to) != 0) abort();
  return NULL;
}

static void test_hard_links_that_come_and_go(void **state) {
  pthread_t thread;
  char text[20];
  bind("in");
  tsr_store *s = open_store("in/array");
  stop = false;
  assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
  unsigned passed = 0;
  for (unsigned i = 0; i < 2000; i++) passed += read_text(s, "d/g", text) >= 0;
  stop = true;
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(passed < 20);
  tsr__store_close(s);
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------ */

static void test_a_bound_can_only_become_narrower(void **state) {
  bind("in");
  tsr_store *s = open_store("in/array");
  holds(s, "d/f", "plain");
  bind("in"); /* the same bound again */
  holds(s, "d/f", "plain");
  bind("in/link/d"); /* links are resolved */
  char text[20];
  assert_int_equal(read_text(s, "d/f", text), TSR_PERM);
  tsr__store_close(s);
  s = open_store("in/array/d");
  holds(s, "f", "plain");
  tsr__store_close(s);
  assert_int_equal(tsr_environment_confine(environment, at("in"), &error), TSR_PERM);
  assert_non_null(strstr(error.message, "is not below"));
  assert_int_equal(tsr_environment_confine(environment, at("in/array/d/none"), &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_environment_confine(environment, at("in/array/d/f/none"), NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr_environment_confine(environment, "", NULL), TSR_NOT_FOUND);
  bind("in/array/d/f"); /* a file: nothing lies below it */
  s = open_store("in/array/d/f");
  assert_int_equal(read_text(s, "g", text), TSR_NOT_FOUND);
  tsr__store_close(s);
  bind("in/array/d/f");
  assert_int_equal(tsr_environment_confine(environment, at("in/array/d"), NULL), TSR_PERM);
}

/* A bound is a directory, which may be renamed, not a path. */
static void test_a_bound_is_the_directory_not_its_path(void **state) {
  bind("in");
  tsr_store *s = open_store("in/array");
  holds(s, "d/f", "plain");
  swap_in("in", at("out"));
  holds(s, "d/f", "plain");
  swap_out("in");
  tsr__store_close(s);
}

static void test_paths_are_resolved_and_compared(void **state) {
  char here[4096];
  assert_int_equal(tsr_path_lies_below(environment, at("in/array"), at("in"), NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, at("in"), at("in/"), NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, at("in/none/such"), at("in"), NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, at("in"), at("in/array"), NULL), 0);
  assert_int_equal(tsr_path_lies_below(environment, at("in/../out"), at("in"), NULL), 0);
  assert_int_equal(tsr_path_lies_below(environment, at("inner"), at("in"), NULL), 0);
  assert_int_equal(tsr_path_lies_below(environment, "/", "/", NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, at("in"), "/", NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, "/none/such", "/", NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, at("in/none/../.."), at("in"), &error), TSR_PERM);
  assert_non_null(strstr(error.message, "cannot be resolved"));
  assert_non_null(getcwd(here, sizeof here));
  assert_int_equal(chdir(at("in")), 0);
  assert_int_equal(tsr_path_lies_below(environment, "link/d", at("in/array"), NULL), 1);
  assert_int_equal(tsr_path_lies_below(environment, "link/../none", "array", NULL), 0);
  assert_int_equal(chdir(here), 0);
}

static void test_files_of_the_system_are_read_within_the_bound(void **state) {
  char bytes[20];
  uint64_t size = 0;
  assert_int_equal(symlink("array/d/f", at("in/key")), 0);
  assert_int_equal(symlink(at("out/array/d/f"), at("in/away")), 0);
  assert_int_equal(tsr_file_read(environment, at("in/away"), bytes, 3, &size, NULL), TSR_OK);
  assert_int_equal(size, 3);
  assert_memory_equal(bytes, "sec", 3);
  bind("in");
  assert_int_equal(tsr_file_read(environment, at("in/key"), bytes, sizeof bytes, &size, NULL), TSR_OK);
  assert_int_equal(size, 5);
  assert_memory_equal(bytes, "plain", 5);
  assert_int_equal(tsr_file_read(environment, at("in/away"), bytes, sizeof bytes, &size, NULL), TSR_PERM);
  assert_int_equal(tsr_file_read(environment, at("out/array/d/f"), bytes, sizeof bytes, &size, NULL), TSR_PERM);
  assert_int_equal(tsr_file_read(environment, at("in/none"), bytes, sizeof bytes, &size, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr_file_read(environment, at("in/array"), bytes, sizeof bytes, &size, NULL), TSR_NOT_FOUND);
}

/* ---- Swaps ------------------------------------------------------------------------------------------------------- */

static void *swap(void *argument) {
  static const char *const parts[] = {"in/array/d/f", "in/array/d", "in/array"};
  static const char *const targets[] = {"out/array/d/f", "out/array/d", "out/array"};
  char path[400], target[400], aside[400];
  (void)argument;
  for (unsigned i = 0; !stop; i = (i + 1) % 3) {
    snprintf(path, sizeof path, "%s/%s", top, parts[i]); /* not at(), which the other thread uses */
    snprintf(target, sizeof target, "%s/%s", top, targets[i]);
    snprintf(aside, sizeof aside, "%s/aside", top);
    if (rename(path, aside) != 0 || symlink(target, path) != 0 || unlink(path) != 0 || rename(aside, path) != 0)
      abort();
  }
  return NULL;
}

/* A thread replaces directories by links while another thread opens files below them. Each open finds the file inside
 * or fails. */
static void test_swapped_directories_never_lead_outside(void **state) {
  pthread_t thread;
  tsr_listing listing;
  tsr_file *file;
  bind("in");
  tsr_store *s = open_store("in/array");
  stop = false;
  assert_int_equal(pthread_create(&thread, NULL, swap, NULL), 0);
  for (unsigned i = 0; i < 5000; i++) {
    char text[20];
    if (read_text(s, "d/f", text) >= 0) assert_string_equal(text, "plain");
    if (tsr__store_list_any(s, "d", &listing, NULL) >= 0) tsr__listing_release(&listing);
    if (tsr__store_create_exclusive(s, "d/new", &file, NULL) >= 0) tsr__store_close_file(file);
    (void)tsr__store_rename(s, "d/new", "d/newer", NULL);
    (void)tsr__store_remove(s, "d/newer", NULL);
    if (i % 100 == 0) { /* so that the root is resolved anew */
      tsr__store_close(s);
      s = open_store("in/array");
    }
  }
  stop = true;
  assert_int_equal(pthread_join(thread, NULL), 0);
  tsr__store_close(s);
  s = open_store("in");
  holds(s, "array/d/f", "plain");
  tsr__store_close(s);
  assert_int_equal(access(at("out/array/d/new"), F_OK), -1);
  assert_int_equal(access(at("out/array/d/newer"), F_OK), -1);
  assert_int_equal(access(at("out/array/d/f"), F_OK), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_tree, teardown_tree)
  const struct CMUnitTest tests[] = {TEST(test_no_method_follows_a_link_within_a_bound),
                                     TEST(test_links_themselves_can_be_removed_and_renamed),
                                     TEST(test_a_bound_applies_to_stores_that_are_open),
                                     TEST(test_roots_must_lie_below_the_bound),
                                     TEST(test_descriptor_0_is_one_like_others),
                                     TEST(test_files_with_several_names_are_not_read),
                                     TEST(test_hard_links_that_come_and_go),
                                     TEST(test_a_bound_can_only_become_narrower),
                                     TEST(test_paths_are_resolved_and_compared),
                                     TEST(test_files_of_the_system_are_read_within_the_bound),
                                     TEST(test_a_bound_is_the_directory_not_its_path),
                                     TEST(test_swapped_directories_never_lead_outside)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
