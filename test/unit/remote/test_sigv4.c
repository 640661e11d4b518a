/* test_sigv4.c: signatures of the examples in Amazon's documentation of S3, and of requests that a second
 * implementation, in Python, has signed: keys and queries with every kind of character, tokens, unsigned payloads. */
#define _GNU_SOURCE /* memmem */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/sigv4.h"

static tsr_memory root;

static int make_root(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  return 0;
}

/* Signs a request and compares target and signature. Returns the lines, which the caller releases. */
static tsr_sigv4_lines sign(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer, const char *target,
                            const char *signature) {
  tsr_sigv4_lines lines = {.text.memory = &root};
  tsr_buffer sent = {.memory = &root};
  tsr_error error = {0};
  assert_int_equal(tsr__sigv4_target(request, &sent, &error), TSR_OK);
  assert_string_equal((char *)sent.data, target);
  assert_int_equal(sent.size, strlen(target));
  tsr__buffer_release(&sent);
  assert_int_equal(tsr__sigv4_sign(request, signer, &lines, &error), TSR_OK);
  const char *last = lines.lines[lines.count - 1];
  assert_non_null(strstr(last, "Authorization: AWS4-HMAC-SHA256 Credential="));
  assert_string_equal(strstr(last, "Signature=") + 10, signature);
  return lines;
}

#define EXAMPLE_SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define EXAMPLE_TIME   INT64_C(1369353600000) /* 2013-05-24T00:00:00Z */

static void test_the_documented_examples(void **state) {
  tsr_sigv4_key key;
  uint8_t nothing[TSR_SHA256_SIZE], welcome[TSR_SHA256_SIZE];
  tsr__sha256("", 0, nothing, NULL);
  tsr__sha256("Welcome to Amazon S3.", 21, welcome, NULL);
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, EXAMPLE_SECRET, EXAMPLE_TIME, "us-east-1", "s3", NULL),
                   TSR_OK);
  const tsr_sigv4_signer signer = {"AKIAIOSFODNN7EXAMPLE", NULL, &key, EXAMPLE_TIME};
  const tsr_sigv4_pair range[] = {{"Range", "bytes=0-9"}};
  const tsr_sigv4_pair put[] = {{"x-amz-storage-class", "REDUCED_REDUNDANCY"},
                                {"Date", "Fri, 24 May 2013 00:00:00 GMT"}};
  const tsr_sigv4_pair lifecycle[] = {{"lifecycle", NULL}};
  const tsr_sigv4_pair list[] = {{"prefix", "J"}, {"max-keys", "2"}};
  tsr_sigv4_request request = {"GET", "examplebucket.s3.amazonaws.com", "/test.txt", NULL, 0, range, 1, nothing};
  tsr_sigv4_lines lines =
      sign(&request, &signer, "/test.txt", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  assert_int_equal(lines.count, 4);
  assert_string_equal(lines.lines[0], "Range: bytes=0-9");
  assert_string_equal(lines.lines[1], "x-amz-content-sha256: "
                                      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_string_equal(lines.lines[2], "x-amz-date: 20130524T000000Z");
  assert_string_equal(lines.lines[3], "Authorization: AWS4-HMAC-SHA256 "
                                      "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                                      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                                      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  tsr__sigv4_lines_release(&lines);

  request = (tsr_sigv4_request){"PUT", request.host, "/test$file.text", NULL, 0, put, 2, welcome};
  lines =
      sign(&request, &signer, "/test%24file.text", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  tsr__sigv4_lines_release(&lines);
  request = (tsr_sigv4_request){"GET", request.host, "/", lifecycle, 1, NULL, 0, nothing};
  lines = sign(&request, &signer, "/?lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  tsr__sigv4_lines_release(&lines);
  request = (tsr_sigv4_request){"GET", request.host, "/", list, 2, NULL, 0, nothing};
  lines = sign(&request, &signer, "/?max-keys=2&prefix=J",
               "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  tsr__sigv4_lines_release(&lines);
}

static void test_a_second_implementation_agrees(void **state) {
  static const tsr_sigv4_pair list[] = {{"list-type", "2"},
                                        {"prefix", "x/y z/"},
                                        {"delimiter", "/"},
                                        {"continuation-token", "1/x+y=="},
                                        {"start-after", "\xc3\xa9"}};
  static const tsr_sigv4_pair part[] = {
      {"partNumber", "10"}, {"uploadId", "a-b_c.d~e"}, {"a", "2"}, {"a", "1"}, {"a-", "0"}, {"A", "3"}, {"a%", "4"}};
  static const tsr_sigv4_pair uploads[] = {{"uploads", ""}}, range[] = {{"Range", "bytes=-10"}};
  static const tsr_sigv4_pair conditional[] = {{"If-None-Match", "*"}, {"Content-Type", "application/octet-stream"}};
  static const tsr_sigv4_pair spaces[] = {{"x-amz-meta-a", "one  two   three"}};
  uint8_t nothing[TSR_SHA256_SIZE], bytes[TSR_SHA256_SIZE];
  tsr__sha256("", 0, nothing, NULL);
  tsr__sha256("part", 4, bytes, NULL);
  const struct {
    tsr_sigv4_request request;
    const char *token, *target, *signature;
  } cases[] = {
      {{"GET", "127.0.0.1:7070", "/bucket/a b+c=d/\xc3\xa9\xe4\xb8\xad~x.tdb", NULL, 0, NULL, 0, nothing},
       NULL,
       "/bucket/a%20b%2Bc%3Dd/%C3%A9%E4%B8%AD~x.tdb",
       "c09b8a86f67e42ae38d4d45a0de4a4c7d094e9d25e8221efd9cfb8e0512626ad"},
      {{"GET", "127.0.0.1:7070", "/bucket", list, 5, NULL, 0, nothing},
       NULL,
       "/bucket?continuation-token=1%2Fx%2By%3D%3D&delimiter=%2F&list-type=2&prefix=x%2Fy%20z%2F&start-after=%C3%A9",
       "908910eb807880cd7c52095433adabcc68c9684b0b6d5ed9b9a0afc0f61068cc"},
      {{"PUT", "[::1]:9000", "/b/__commits/__1_2.wrt", NULL, 0, conditional, 2, NULL},
       "FwoGZXIvYXdzE//token+==",
       "/b/__commits/__1_2.wrt",
       "053fef70281d8ef36875edc1543c9727656aac711a5c44f64063aad33334b585"},
      {{"POST", "minio.local", "/b/k", uploads, 1, NULL, 0, nothing},
       "t",
       "/b/k?uploads=",
       "c1becbca03fa54f9ab1f410d57383965fbcda218ae3d798addb4f3d5dca62560"},
      {{"PUT", "h", "/b/k", part, 7, spaces, 1, bytes},
       NULL,
       "/b/k?A=3&a=1&a=2&a%25=4&a-=0&partNumber=10&uploadId=a-b_c.d~e",
       "2f3ce66e5eca14bcc89b727a6761fd08c55eac71242c1251152fbad294b6b628"},
      {{"GET", "h", "/b/%41%2F?#&;:@", NULL, 0, range, 1, nothing},
       NULL,
       "/b/%2541%252F%3F%23%26%3B%3A%40",
       "bdbdba10f27907e3db01affc4479c5a7957217ecb66b74fa09acdf6dc22a1aca"}};
  const int64_t now = 1795342830000; /* 2026-11-22T10:20:30Z */
  tsr_sigv4_key key;
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "s/ecret+", now, "eu-north-1", "s3", NULL), TSR_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const tsr_sigv4_signer signer = {"AKID", cases[i].token, &key, now};
    tsr_sigv4_lines lines = sign(&cases[i].request, &signer, cases[i].target, cases[i].signature);
    if (cases[i].token) {
      char line[100];
      snprintf(line, sizeof line, "x-amz-security-token: %s", cases[i].token);
      assert_string_equal(lines.lines[lines.count - 2], line);
    }
    tsr__sigv4_lines_release(&lines);
  }
}

static void test_anonymous_requests_have_no_signature(void **state) {
  const tsr_sigv4_pair range[] = {{"Range", "bytes=0-9"}};
  const tsr_sigv4_request request = {"GET", "h", "/b/k", NULL, 0, range, 1, NULL};
  tsr_sigv4_lines lines = {.text.memory = &root};
  assert_int_equal(tsr__sigv4_sign(&request, NULL, &lines, NULL), TSR_OK);
  assert_int_equal(lines.count, 1);
  assert_string_equal(lines.lines[0], "Range: bytes=0-9");
  tsr__sigv4_lines_release(&lines);
}

static void test_keys_are_good_for_one_day_and_region(void **state) {
  const int64_t day = 86400000, now = EXAMPLE_TIME + day / 2;
  tsr_sigv4_key key = {0}, other;
  assert_false(tsr__sigv4_key_fits(&key, now, "us-east-1", "s3"));
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, EXAMPLE_SECRET, now, "us-east-1", "s3", NULL), TSR_OK);
  assert_true(tsr__sigv4_key_fits(&key, EXAMPLE_TIME, "us-east-1", "s3"));
  assert_true(tsr__sigv4_key_fits(&key, EXAMPLE_TIME + day - 1, "us-east-1", "s3"));
  assert_false(tsr__sigv4_key_fits(&key, EXAMPLE_TIME + day, "us-east-1", "s3"));
  assert_false(tsr__sigv4_key_fits(&key, EXAMPLE_TIME - 1, "us-east-1", "s3"));
  assert_false(tsr__sigv4_key_fits(&key, now, "us-east-2", "s3"));
  assert_false(tsr__sigv4_key_fits(&key, now, "us-east-1", "sts"));
  assert_int_equal(tsr__sigv4_key_make(&other, &tsr__sigv4_aws, EXAMPLE_SECRET, now + day, "us-east-1", "s3", NULL),
                   TSR_OK);
  assert_memory_not_equal(key.bytes, other.bytes, sizeof key.bytes);
}

static void test_wrong_requests_are_refused(void **state) {
  tsr_sigv4_key key;
  tsr_error error = {0};
  char long_secret[600], long_region[80];
  memset(long_secret, 'x', sizeof long_secret);
  long_secret[sizeof long_secret - 1] = 0;
  memset(long_region, 'r', sizeof long_region);
  long_region[64] = 0;
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, long_secret, 0, "us-east-1", "s3", &error), TSR_RANGE);
  assert_null(strstr(error.message, "xxx"));
  static const char *const regions[] = {"", "us east", "a/b", "a\nb", "\xc3\xa9"};
  for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
    assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "s", 0, regions[i], "s3", &error), TSR_RANGE);
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "s", 0, long_region, "s3", &error), TSR_RANGE);
  long_region[63] = 0;
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "s", 0, long_region, "s3", &error), TSR_OK);
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "s", 0, "us-east-1", "s3", &error), TSR_OK);

  static const tsr_sigv4_pair bad[][2] = {{{"Range", "a\r\nb"}, {"A", "b"}},
                                          {{"Ra nge", "a"}, {"A", "b"}},
                                          {{"", "a"}, {"A", "b"}},
                                          {{"range", "a"}, {"RANGE", "b"}},
                                          {{"Host", "elsewhere"}, {"A", "b"}}};
  const tsr_sigv4_signer signer = {"AKID", NULL, &key, 0};
  tsr_sigv4_lines lines = {.text.memory = &root};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const tsr_sigv4_request request = {"GET", "h", "/b", NULL, 0, bad[i], 2, NULL};
    assert_int_equal(tsr__sigv4_sign(&request, &signer, &lines, &error), TSR_RANGE);
    assert_int_equal(lines.count, 0);
  }
  tsr_sigv4_pair many[TSR_SIGV4_PAIRS_MAX + 1];
  for (unsigned i = 0; i <= TSR_SIGV4_PAIRS_MAX; i++) many[i] = (tsr_sigv4_pair){"a", "b"};
  tsr_sigv4_request request = {"GET", "h", "/b", many, TSR_SIGV4_PAIRS_MAX + 1, NULL, 0, NULL};
  assert_int_equal(tsr__sigv4_sign(&request, &signer, &lines, &error), TSR_RANGE);
  request.query_count = TSR_SIGV4_PAIRS_MAX;
  assert_int_equal(tsr__sigv4_sign(&request, &signer, &lines, &error), TSR_OK);
  request.path = "b";
  assert_int_equal(tsr__sigv4_sign(&request, &signer, &lines, &error), TSR_RANGE);
  const tsr_sigv4_signer strange = {"AK ID", NULL, &key, 0};
  request.path = "/b";
  assert_int_equal(tsr__sigv4_sign(&request, &strange, &lines, &error), TSR_RANGE);
  tsr__sigv4_lines_release(&lines);
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static uint32_t leaks;

/* Looks for the token in what is given back. */
static void *reallocate_watching(void *argument, void *pointer, uint64_t size) {
  uint64_t *block = pointer ? (uint64_t *)pointer - 2 : NULL;
  if (block && memmem(pointer, block[0], argument, strlen(argument))) leaks++;
  if (size == 0) {
    free(block);
    return NULL;
  }
  uint64_t *larger = malloc(size + 16);
  if (block) memcpy(larger + 2, pointer, block[0] < size ? block[0] : size);
  else memset(larger + 2, 0, size);
  free(block);
  larger[0] = size;
  return larger + 2;
}

static void test_tokens_are_wiped(void **state) {
  static char token[] = "FwoGZXIvYXdzEBYaDHr3token";
  tsr_memory watched;
  tsr__memory_init_root(&watched, reallocate_watching, token);
  tsr_sigv4_key key;
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "secret", 0, "us-east-1", "s3", NULL), TSR_OK);
  const tsr_sigv4_pair range[] = {{"Range", "bytes=0-9"}};
  const tsr_sigv4_signer signer = {"AKID", token, &key, 0};
  tsr_sigv4_lines lines = {.text.memory = &watched};
  char path[5000] = "/";
  for (int i = 0; i < 20; i++) {
    memset(path + 1, '+', (size_t)i * 200);
    const tsr_sigv4_request request = {"GET", "h", path, NULL, 0, range, 1, NULL};
    assert_int_equal(tsr__sigv4_sign(&request, &signer, &lines, NULL), TSR_OK);
    assert_non_null(strstr(lines.lines[lines.count - 2], token));
  }
  tsr__sigv4_lines_release(&lines);
  assert_int_equal(leaks, 0);
  assert_int_equal(watched.used, 0);
}

static void test_memory_may_run_out_at_any_time(void **state) {
  tsr_sigv4_key key;
  assert_int_equal(tsr__sigv4_key_make(&key, &tsr__sigv4_aws, "secret", 0, "us-east-1", "s3", NULL), TSR_OK);
  const tsr_sigv4_signer signer = {"AKID", "token", &key, 0};
  const tsr_sigv4_request request = {"GET", "h", "/a/b/c", NULL, 0, NULL, 0, NULL};
  int rc = TSR_BUDGET;
  for (uint64_t limit = 0; rc != TSR_OK; limit += 64) {
    tsr_memory small;
    tsr_error error = {0};
    tsr__memory_init(&small, &root, limit, "memory_mb");
    tsr_sigv4_lines lines = {.text.memory = &small};
    rc = tsr__sigv4_sign(&request, &signer, &lines, &error);
    assert_true(rc == TSR_OK || rc == TSR_BUDGET);
    tsr__sigv4_lines_release(&lines);
    assert_int_equal(small.used, 0);
    assert_true(limit < 100000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_documented_examples),
      cmocka_unit_test(test_a_second_implementation_agrees),
      cmocka_unit_test(test_anonymous_requests_have_no_signature),
      cmocka_unit_test(test_keys_are_good_for_one_day_and_region),
      cmocka_unit_test(test_wrong_requests_are_refused),
      cmocka_unit_test(test_tokens_are_wiped),
      cmocka_unit_test(test_memory_may_run_out_at_any_time),
  };
  return cmocka_run_group_tests(tests, make_root, NULL);
}
