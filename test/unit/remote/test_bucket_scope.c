/* test_bucket_scope.c: texts that name a bucket and a part of it, and the scopes that are declared for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <stdio.h>
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
      {"http://abc", NULL, NULL},
      {"gs:/abc", NULL, NULL},
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
    tsr_bucket_uri uri;
    const int rc = tsr__bucket_uri_parse(cases[i].uri, &arena, &uri, NULL);
    if (rc != (cases[i].bucket ? TSR_OK : TSR_ERROR)) fail_msg("%s: %d", cases[i].uri, rc);
    if (!cases[i].bucket) continue;
    assert_string_equal(uri.bucket, cases[i].bucket);
    assert_string_equal(uri.prefix, cases[i].prefix);
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
    tsr_bucket_uri parsed;
    memset(uri + 5, 'a', cases[i].size - 5);
    if (cases[i].size > cases[i].bucket + 5) uri[5 + cases[i].bucket] = '/';
    if (tsr__bucket_uri_parse(uri, &arena, &parsed, NULL) != cases[i].rc) fail_msg("case %d", (int)i);
    if (cases[i].rc != TSR_OK) continue;
    assert_int_equal(strlen(parsed.bucket), cases[i].bucket);
    assert_int_equal(strlen(parsed.prefix),
                     cases[i].size > cases[i].bucket + 5 ? cases[i].size - cases[i].bucket - 6 : 0);
  }
}

/* Azure's rules for names of containers are stricter than those of the others for buckets. */
static void test_names_of_containers(void **state) {
  static const struct {
    const char *name;
    bool good;
  } cases[] = {{"abc", true},   {"a-b-c", true}, {"0a9", true},   {"Abc", false},  {"ab_c", false},
               {"a.bc", false}, {"a--b", false}, {"abc-", false}, {"-abc", false}, {"ab", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_bucket_uri uri;
    char text[80];
    (void)snprintf(text, sizeof text, "azure://%s/x", cases[i].name);
    if ((tsr__bucket_uri_parse(text, &arena, &uri, NULL) == TSR_OK) != cases[i].good) fail_msg("%s", text);
  }
  for (size_t size = 63; size <= 64; size++) {
    tsr_bucket_uri uri;
    char text[80] = "azure://";
    memset(text + 8, 'a', size);
    assert_int_equal(tsr__bucket_uri_parse(text, &arena, &uri, NULL), size == 63 ? TSR_OK : TSR_ERROR);
  }
}

/* Each store has a scheme or two; names that are stored and told have one. */
static void test_schemes_are_told_in_one_spelling(void **state) {
  static const struct {
    const char *uri, *name;
    const tsr_dialect *dialect;
  } cases[] = {{"s3://abc/x/", "s3://abc/x", &tsr__dialect_s3},
               {"azure://abc/x", "azure://abc/x", &tsr__dialect_azure},
               {"az://abc", "azure://abc", &tsr__dialect_azure},
               {"gcs://abc//", "gcs://abc", &tsr__dialect_gcs},
               {"gs://abc/x/y", "gcs://abc/x/y", &tsr__dialect_gcs}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_bucket_uri uri;
    assert_int_equal(tsr__bucket_uri_parse(cases[i].uri, &arena, &uri, NULL), TSR_OK);
    assert_string_equal(uri.name, cases[i].name);
    assert_ptr_equal(uri.dialect, cases[i].dialect);
  }
}

/* An option of another store, an incomplete key, and a token that others could read are refused when a scope is
 * declared. */
static void test_options_belong_to_a_store(void **state) {
#define LONGEST_ACCOUNT "a123456789b123456789c123456789d123456789e123456789f123456789abc"
#define AZ(...)                                                                                                        \
  "azure://abc", { .account = "acc", __VA_ARGS__ }
#define GS(...)                                                                                                        \
  "gcs://abc", { __VA_ARGS__ }
  static const struct {
    const char *uri;
    tsr_scope_options options;
    const char *says; /* NULL: it is accepted */
  } cases[] = {
      {AZ(.key = "a2V5"), NULL},
      {AZ(.sas = "?sv=1&sig=x"), NULL},
      {AZ(.token = "t", .storage_class = "Cool", .encryption_scope = "e"), NULL},
      {AZ(.tenant_id = "t", .client_id = "c", .client_secret = "s"), NULL},
      {AZ(.provider = "env"), NULL},
      {AZ(.provider = "anonymous"), NULL},
      {AZ(.key = "a2V5", .sas = "s"), "the keys are one of"},
      {AZ(.tenant_id = "t"), "together"},
      {AZ(.key = "no base64!"), "base64"},
      {AZ(.provider = "profile"), "is not one of keys, env, anonymous, auto"},
      {AZ(.key_id = "k", .secret = "s"), "key_id is not an option of azure:// scopes"},
      {AZ(.region = "eu"), "region is not an option"},
      {AZ(.requester_pays = true), "requester_pays is not an option"},
      {AZ(.provider = "env", .key = "a2V5"), "\"provider\": \"keys\""},
      {AZ(.key = ""), "key is empty: give it, or leave it out for \"provider\": \"auto\""},
      {AZ(.key = "", .sas = "sig=t"), NULL}, /* keys that are not used may be empty */
      {AZ(.provider = "anonymous", .key = ""), NULL},
      {AZ(.session_token = "", .region = ""), NULL}, /* of other servers, and no key */
      {GS(.token = ""), "token is empty"},
      {"s3://abc", {.key_id = "", .secret = ""}, "secret is empty"},
      {"s3://abc", {.key_id = "k", .secret = "s", .session_token = ""}, NULL},
      {AZ(.endpoint = "http://store.example", .plain_http = true, .token = "t"), "in the clear"},
      {AZ(.endpoint = "http://store.example", .plain_http = true, .sas = "sig=HIDDEN"), "in the clear"},
      {AZ(.endpoint = "http://127.0.0.1:10000/acc", .sas = "sig=t"), NULL},
      {AZ(.endpoint = "http://127.0.0.1:10000", .key = "a2V5"), "ends with the account: http://127.0.0.1:10000/acc"},
      {AZ(.endpoint = "http://localhost:10000", .key = "a2V5"), "ends with the account"},
      {AZ(.endpoint = "http://[::1]:10000/", .key = "a2V5"), "ends with the account"},
      {AZ(.endpoint = "https://1.example", .key = "a2V5"), NULL},
      {AZ(.endpoint = "http://u:HIDDEN@127.0.0.1/acc", .key = "a2V5"), "without a user and without a query"},
      {AZ(.endpoint = "https://acc.blob.core.windows.net/?sig=HIDDEN", .key = "a2V5"), "without a query"},
      {AZ(.sas = "https://acc.blob.core.windows.net/abc?sv=1&sig=HIDDEN"), "what follows the '?'"},
      {AZ(.sas = "HIDDEN"), "has sig="},
      {"azure://abc?sv=1&sig=HIDDEN", {.account = "acc", .key = "a2V5"}, "azure://abc?...: no path has the signature"},
      {"azure://abc//x?sig=HIDDEN", {.account = "acc", .key = "a2V5"}, "azure://abc//x?...: no path has the signature"},
      {"https://acc.blob.core.windows.net/abc?sig=HIDDEN", {.account = "acc", .key = "a2V5"}, "is not s3://bucket"},
      {"azure://abc", {.key = "a2V5"}, "which storage account"},
      {"azure://abc", {.key = "a2V5", .account = "a/b"}, "is not the name of a storage account"},
      {"azure://abc", {.key = "a2V5", .account = LONGEST_ACCOUNT}, NULL},
      {"azure://abc", {.key = "a2V5", .account = LONGEST_ACCOUNT "a"}, "is not the name of a storage account"},
      {"azure://abc", {.key = "a2V5", .endpoint = "https://acc.blob.core.windows.net"}, NULL},
      {GS(.key_id = "k", .secret = "s"), NULL},
      {GS(.token = "t", .user_project = "p", .kms_key_id = "k"), NULL},
      {GS(.service_account = "{}"), NULL},
      {GS(.service_account_file = "/nowhere"), NULL},
      {GS(.key_id = "k"), "the key id or the secret is empty"},
      {GS(.key_id = "k", .secret = "s", .token = "t"), "the keys are one of"},
      {GS(.session_token = "t"), "session_token is not an option of gcs:// scopes"},
      {GS(.account = "a"), "account is not an option"},
      {GS(.url_style = TSR_URL_PATH), "url_style is not an option"},
      {GS(.endpoint = "http://store.example", .plain_http = true, .token = "t"), "in the clear"},
      {"s3://abc", {.token = "t"}, "token is not an option of s3:// scopes"},
      {"s3://abc", {.account = "a"}, "account is not an option"},
      {"s3://abc", {.token = "t", .proxy = "http://u:p@proxy"}, "token is not an option"}, /* the proxy stays ours */
  };
  tsr_bucket_scopes *scopes;
  assert_int_equal(tsr__bucket_scopes_open(&root, &scopes, NULL), TSR_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_error error = {0};
    const int rc = tsr__bucket_scopes_set(scopes, cases[i].uri, &cases[i].options, &error);
    if (cases[i].says ? rc >= 0 || !strstr(error.message, cases[i].says) : rc < 0)
      fail_msg("case %d: %d: %s", (int)i, rc, error.message);
    if (strstr(error.message, "HIDDEN")) fail_msg("case %d: %s", (int)i, error.message);
  }
  tsr__bucket_scopes_close(scopes);
}

static bool is_declared(tsr_bucket_scopes *scopes, const char *uri) {
  tsr_bucket_scope *scope = tsr__bucket_scope_find(scopes, uri);
  tsr__bucket_scope_release(scope);
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
    tsr_error error = {0};
    assert_int_equal(tsr__bucket_scopes_forget(scopes, longer, &error), TSR_ERROR);
    assert_non_null(strstr(error.message, "a path of 1101 bytes, at most 1100"));
    assert_int_equal(tsr__bucket_scopes_forget(scopes, "abc", NULL), TSR_ERROR);
    tsr__bucket_scopes_close(scopes);
  }
}

/* A restricted registry takes new keys for the ways that it has, and no other way: neither a proxy, nor a host that hands
 * out tokens. */
static void test_a_restriction_keeps_the_ways(void **state) {
  const tsr_scope_options direct = {.key_id = "k", .secret = "s"};
  const tsr_scope_options by_proxy = {.key_id = "k", .secret = "s", .proxy = "http://proxy.example:1"};
  static const struct {
    const char *uri;
    tsr_scope_options options;
    bool good;
  } cases[] = {
      {"gcs://abc/x", {.key_id = "k2", .secret = "s2"}, true},
      {"gcs://abc/x", {.key_id = "k2", .secret = "s2", .proxy = "http://other.example:1"}, false},
      {"gcs://abc/x", {.key_id = "k2", .secret = "s2", .proxy = "http://proxy.example:1"}, false}, /* that of another */
      {"gcs://abc/x", {.key_id = "k2", .secret = "s2", .ca_file = "/etc/hosts"}, false},
      {"gcs://abc/x", {.service_account = "{}"}, false},
      {"gcs://abc/x", {.service_account_file = "/etc/hosts"}, false},
      {"gcs://abc/x", {.provider = "anonymous"}, true},
  };
  tsr_bucket_scopes *scopes;
  assert_int_equal(tsr__bucket_scopes_open(&root, &scopes, NULL), TSR_OK);
  assert_int_equal(tsr__bucket_scopes_set(scopes, "gcs://abc", &direct, NULL), TSR_OK);
  assert_int_equal(tsr__bucket_scopes_set(scopes, "s3://abc", &by_proxy, NULL), TSR_OK);
  assert_int_equal(tsr__bucket_scopes_confine(scopes, "gcs://abc/x", NULL), TSR_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_error error = {0};
    const int rc = tsr__bucket_scopes_set(scopes, cases[i].uri, &cases[i].options, &error);
    if (rc != (cases[i].good ? TSR_OK : TSR_PERM)) fail_msg("case %d: %d: %s", (int)i, rc, error.message);
  }
  tsr__bucket_scopes_close(scopes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_uris_are_taken_apart),        TEST(test_long_uris_are_refused),
      TEST(test_names_of_containers),         TEST(test_schemes_are_told_in_one_spelling),
      TEST(test_options_belong_to_a_store),   TEST(test_scopes_are_forgotten_by_their_names),
      TEST(test_a_restriction_keeps_the_ways)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
