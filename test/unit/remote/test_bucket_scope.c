/* test_bucket_scope.c: texts that name a bucket and a part of it, and the scopes that are declared for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "remote/bucket.h"

static tsr_memory root, memory;
static tsr_arena arena;

static int setup(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&memory, &root, UINT64_MAX, "test");
  tsr__arena_init(&arena, &memory);
  return 0;
}

static int teardown(void **state) {
  tsr__arena_release(&arena);
  assert_int_equal(root.used, 0);
  return 0;
}

static void test_uris_are_taken_apart(void **state) {
  static const struct {
    const char *uri, *bucket, *prefix; /* bucket NULL: the URI is refused */
  } cases[] = {
      {"s3://abc", "abc", ""},
      {"s3://abc/", "abc", ""},
      {"s3://abc///", "abc", ""},
      {"s3://abc/p/q/", "abc", "p/q"},
      {"s3://a.b-c_9/x", "a.b-c_9", "x"},
      {"s3://9ab/.x/.../..y", "9ab", ".x/.../..y"},
      {"s3://abc/ x~", "abc", " x~"},
      {"s3://ab", NULL, NULL},
      {"s3://ab/c", NULL, NULL},
      {"s3://", NULL, NULL},
      {"s3:/abc", NULL, NULL},
      {"S3://abc", NULL, NULL},
      {"gs://abc", NULL, NULL},
      {"s3://-bc", NULL, NULL},
      {"s3://a..b", NULL, NULL},
      {"s3://a b", NULL, NULL},
      {"s3://abc//x", NULL, NULL},
      {"s3://abc/x//y", NULL, NULL},
      {"s3://abc/./x", NULL, NULL},
      {"s3://abc/x/..", NULL, NULL},
      {"s3://abc/../y", NULL, NULL},
      {"s3://abc/x\x1f", NULL, NULL},
      {"s3://abc/x\x7f", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *bucket = NULL, *prefix = NULL;
    const int rc = tsr__bucket_uri_parse(cases[i].uri, &arena, &bucket, &prefix, NULL);
    if (rc != (cases[i].bucket ? TSR_OK : TSR_ERROR)) fail_msg("%s: %d", cases[i].uri, rc);
    if (!cases[i].bucket) continue;
    assert_string_equal(bucket, cases[i].bucket);
    assert_string_equal(prefix, cases[i].prefix);
  }
}

/* A name of a bucket has at most 255 bytes, a URI 1,100. */
static void test_long_uris_are_refused(void **state) {
  static const struct {
    size_t bucket, size;
    int rc;
  } cases[] = {{255, 260, TSR_OK}, {256, 261, TSR_ERROR}, {10, 1100, TSR_OK}, {10, 1101, TSR_ERROR}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char uri[1200] = "s3://";
    const char *bucket, *prefix;
    memset(uri + 5, 'a', cases[i].size - 5);
    if (cases[i].size > cases[i].bucket + 5) uri[5 + cases[i].bucket] = '/';
    if (tsr__bucket_uri_parse(uri, &arena, &bucket, &prefix, NULL) != cases[i].rc) fail_msg("case %d", (int)i);
    if (cases[i].rc != TSR_OK) continue;
    assert_int_equal(strlen(bucket), cases[i].bucket);
    assert_int_equal(strlen(prefix), cases[i].size > cases[i].bucket + 5 ? cases[i].size - cases[i].bucket - 6 : 0);
  }
}

static bool is_declared(tsr_bucket_scopes *scopes, const char *uri) {
  tsr_bucket_scope *scope = tsr__bucket_scope_find(scopes, uri);
  tsr__bucket_scope_leave(scope);
  return scope != NULL;
}

/* A scope is found and forgotten by each spelling of its name, and forgotten without those beside it. */
static void test_scopes_are_forgotten_by_their_names(void **state) {
  static const char *const spellings[] = {"s3://abc/x", "s3://abc/x/", "s3://abc/x///"};
  const tsr_scope_options options = {.provider = "anonymous"};
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    tsr_bucket_scopes *scopes;
    assert_int_equal(tsr__bucket_scopes_open(&root, &scopes, NULL), TSR_OK);
    assert_int_equal(tsr__bucket_scopes_set(scopes, spellings[i], &options, NULL), TSR_OK);
    assert_int_equal(tsr__bucket_scopes_set(scopes, "s3://abc/xy", &options, NULL), TSR_OK);
    assert_true(is_declared(scopes, "s3://abc/x") && is_declared(scopes, "s3://abc/x/deep"));
    assert_false(is_declared(scopes, "s3://abc") || is_declared(scopes, "s3://abc/z"));
    for (size_t j = 0; j < sizeof spellings / sizeof *spellings; j++) {
      assert_int_equal(tsr__bucket_scopes_set(scopes, "s3://abc/x", &options, NULL), TSR_OK);
      assert_int_equal(tsr__bucket_scopes_forget(scopes, spellings[j], NULL), 1);
      assert_int_equal(tsr__bucket_scopes_forget(scopes, spellings[j], NULL), 0);
    }
    assert_false(is_declared(scopes, "s3://abc/x"));
    assert_true(is_declared(scopes, "s3://abc/xy"));
    char longer[1200] = "s3://abc/";
    memset(longer + 9, 'x', 1091);
    assert_int_equal(tsr__bucket_scopes_forget(scopes, longer, NULL), 0); /* 1,100 bytes */
    longer[1100] = 'x';
    assert_int_equal(tsr__bucket_scopes_forget(scopes, longer, NULL), TSR_ERROR);
    assert_int_equal(tsr__bucket_scopes_forget(scopes, "abc", NULL), TSR_ERROR);
    tsr__bucket_scopes_close(scopes);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_uris_are_taken_apart), TEST(test_long_uris_are_refused),
                                     TEST(test_scopes_are_forgotten_by_their_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
