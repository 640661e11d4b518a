/* test_objects.c: kinds of directories, and the walk below one: links in circles, arrays that are not entered,
 * unreadable directories that are skipped.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stdio.h>
#include <string.h>

#include "inside_test.h"

#define NOBODY 65534

static char top[64];

static const char *under(const char *path) {
  static char text[256];
  snprintf(text, sizeof text, "%s/%s", top, path);
  return text;
}
static void make(const char *path) { assert_int_equal(mkdir(under(path), 0777), 0); }
static void touch(const char *path) {
  FILE *f = fopen(under(path), "w");
  assert_non_null(f);
  fclose(f);
}
static void link_to(const char *to, const char *path) { assert_int_equal(symlink(to, under(path)), 0); }

static int setup_top(void **state) {
  snprintf(top, sizeof top, "%s/tessera-objects-XXXXXX", P_tmpdir);
  return mkdtemp(top) ? setup(state) : 1;
}
static int teardown_top(void **state) {
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx '%s' && rm -rf '%s'", top, top);
  return system(command) != 0 || teardown(state);
}

/* Paths below the top with their kinds' first letters. */
static const char *listed(tsr_objects *objects) {
  static char text[1024];
  text[0] = '\0';
  for (uint64_t i = 0; i < objects->count; i++) {
    const char *found = objects->objects[i].path;
    assert_memory_equal(found, top, strlen(top));
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s:%s", i ? " " : "", found + strlen(top),
             objects->objects[i].kind == TSR_OBJECT_ARRAY ? "a" : "g");
  }
  tsr_objects_close(objects);
  return text;
}
static const char *walked(const char *path) {
  tsr_objects *objects;
  if (tsr_objects_open(environment, under(path), &objects, &error) < 0) fail_msg("%s", error.message);
  return listed(objects);
}

static tsr_object_kind find(const char *path) {
  tsr_object_kind kind;
  assert_int_equal(tsr_object_find(environment, under(path), &kind, &error), TSR_OK);
  return kind;
}

static void test_kinds_of_directories(void **state) {
  make("a"), make("a/__schema"), make("a/__group");
  make("old"), touch("old/__array_schema.tdb");
  make("g"), make("g/__group");
  make("h"), touch("h/__tiledb_group.tdb");
  make("no"), touch("no/__schema"), make("no/__array_schema.tdb");
  assert_int_equal(find("a"), TSR_OBJECT_ARRAY);
  assert_int_equal(find("a/"), TSR_OBJECT_ARRAY);
  assert_int_equal(find("old"), TSR_OBJECT_ARRAY);
  assert_int_equal(find("g"), TSR_OBJECT_GROUP);
  assert_int_equal(find("h"), TSR_OBJECT_GROUP);
  assert_int_equal(find("no"), TSR_OBJECT_NONE);
  assert_int_equal(find("nothing"), TSR_OBJECT_NONE);
  assert_int_equal(find("old/__array_schema.tdb"), TSR_OBJECT_NONE);
}

static void test_walk_lists_arrays_and_groups(void **state) {
  assert_string_equal(walked(""), "");
  make("a"), make("a/__schema"), make("a/__labels"), make("a/__labels/l0"), make("a/__labels/l0/__schema");
  make("d"), make("d/e"), make("d/e/g"), make("d/e/g/__group"), make("d/e/g/x"), make("d/e/g/x/__schema");
  make("d-"), make("d-/__schema");
  touch("file");
  assert_string_equal(walked(""), "/a:a /d-:a /d/e/g:g /d/e/g/x:a");
  assert_string_equal(walked("d/e/g"), "/d/e/g/x:a"); /* without itself */
  assert_string_equal(walked("a"), "/a/__labels/l0:a"); /* the walk enters a folder that it was given as its root */
}

/* Each directory is visited once, under the path that is first by depth, then by name. */
static void test_each_directory_is_visited_once(void **state) {
  make("x"), make("x/y"), make("x/y/a"), make("x/y/a/__schema");
  link_to("..", "x/up"), link_to("../..", "x/y/root"), link_to(".", "here"), link_to("x/y/a", "zz");
  link_to("nowhere", "lost"), link_to("self", "self");
  for (int i = 0; i < 9; i++) { /* nine directories with links to one another: 9! paths */
    char name[32], to[32];
    snprintf(name, sizeof name, "m%d", i);
    make(name);
    for (int k = 0; k < 9; k++) {
      snprintf(name, sizeof name, "m%d/l%d", i, k);
      snprintf(to, sizeof to, "../m%d", k);
      link_to(to, name);
    }
  }
  assert_string_equal(walked(""), "/zz:a");
  assert_string_equal(walked("x"), "/x/up/zz:a");
  assert_string_equal(walked("x/y/"), "/x/y/a:a");
}

/* Root may read everything, so the test changes its user for the walk. */
static void test_unreadable_directories_are_skipped(void **state) {
  const bool root = geteuid() == 0;
  tsr_objects *objects;
  make("a"), make("a/__schema"), make("secret"), make("secret/b"), make("secret/b/__schema");
  assert_string_equal(walked(""), "/a:a /secret/b:a");
  assert_int_equal(chmod(under("secret"), 0), 0);
  assert_int_equal(chmod(top, 0755), 0);
  if (root && seteuid(NOBODY) != 0) {
    print_message("SKIPPED: root cannot become user %d, and may read what is hidden: %s\n", NOBODY, strerror(errno));
    skip();
  }
  const int code = tsr_objects_open(environment, top, &objects, &error);
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(code, TSR_OK);
  assert_string_equal(listed(objects), "/a:a");
}

static void test_errors_are_told(void **state) {
  tsr_objects *objects;
  tsr_object_kind kind;
  touch("file");
  assert_int_equal(tsr_objects_open(environment, under("none"), &objects, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_objects_open(environment, under("file"), &objects, &error), TSR_NOT_FOUND);
  assert_int_equal(tsr_objects_open(environment, "", &objects, NULL), TSR_NOT_FOUND);
  assert_int_equal(tsr_object_find(environment, "hdfs://x", &kind, NULL), TSR_UNSUPPORTED);
  static const char *const secrets[][2] = {{"https://a.example/b/c?sv=1&sig=HIDDEN", "https://a.example/b/c:"},
                                           {"https://user:HIDDEN@a.example/b", "https://:"}};
  for (size_t i = 0; i < 2; i++) { /* messages have neither a query nor a password */
    assert_int_equal(tsr_object_find(environment, secrets[i][0], &kind, &error), TSR_UNSUPPORTED);
    assert_non_null(strstr(error.message, secrets[i][1]));
    assert_null(strstr(error.message, "HIDDEN"));
  }
  tsr_objects_close(NULL);
}

static void test_no_memory(void **state) {
  make("a"), make("a/__schema"), make("b"), make("b/__group"), make("b/c");
  tsr_objects *objects;
  int before = counted.blocks;
  for (long n = 0;; n++) {
    counted.left = n;
    int code = tsr_objects_open(environment, top, &objects, &error);
    counted.left = -1;
    if (code == TSR_OK) break;
    assert_int_equal(code, TSR_NOMEM);
    assert_int_equal(counted.blocks, before);
    assert_true(n < 1000);
  }
  assert_int_equal(objects->count, 2);
  tsr_objects_close(objects);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_kinds_of_directories, setup_top, teardown_top),
      cmocka_unit_test_setup_teardown(test_walk_lists_arrays_and_groups, setup_top, teardown_top),
      cmocka_unit_test_setup_teardown(test_each_directory_is_visited_once, setup_top, teardown_top),
      cmocka_unit_test_setup_teardown(test_unreadable_directories_are_skipped, setup_top, teardown_top),
      cmocka_unit_test_setup_teardown(test_errors_are_told, setup_top, teardown_top),
      cmocka_unit_test_setup_teardown(test_no_memory, setup_top, teardown_top),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
