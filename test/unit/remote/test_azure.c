/* test_azure.c: what Shared Key signs, and the listings of Azure Blob Storage. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "remote/answer.h"
#include "remote/bucket.h"

static tsr_memory root;
static tsr_arena arena;
static tsr_error error;

static int setup(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__arena_init(&arena, &root);
  error = (tsr_error){0};
  return 0;
}

static int teardown(void **state) {
  tsr__arena_release(&arena);
  return root.used != 0;
}

/* The texts are those of azure-storage-blob (SharedKeyCredentialPolicy) for the same requests. */
static void test_what_is_signed(void **state) {
  tsr_buffer text = {.memory = &root};
  tsr_draft list = {.method = "GET"};
  tsr__draft_query(&list, "restype", "container");
  tsr__draft_query(&list, "comp", "list");
  tsr__draft_query(&list, "prefix", "a b/\xc3\xbc");
  tsr__draft_header(&list, "x-ms-version", "2021-12-02");
  tsr__draft_header(&list, "x-ms-date", "Sun, 29 Nov 2026 00:00:00 GMT");
  assert_int_equal(tsr__azure_string_to_sign(&list, "acc", "/container", &text, NULL), TSR_OK);
  assert_string_equal((const char *)text.data,
                      "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Sun, 29 Nov 2026 00:00:00 GMT\n"
                      "x-ms-version:2021-12-02\n/acc/container\ncomp:list\nprefix:a b/\xc3\xbc\n"
                      "restype:container");
  tsr_draft put = {.method = "PUT", .body = "abc", .body_size = 3};
  tsr__draft_header(&put, "x-ms-version", "2021-12-02");
  tsr__draft_header(&put, "if-none-match", "*");
  tsr__draft_header(&put, "content-md5", "kAFQmDzST7DWlj99KOF/cg==");
  tsr__draft_header(&put, "x-ms-blob-type", "BlockBlob");
  text.size = 0;
  assert_int_equal(tsr__azure_string_to_sign(&put, "acc", "/acc/container/k%20y", &text, NULL), TSR_OK);
  assert_string_equal((const char *)text.data,
                      "PUT\n\n\n3\nkAFQmDzST7DWlj99KOF/cg==\n\n\n\n\n*\n\n\nx-ms-blob-type:BlockBlob\n"
                      "x-ms-version:2021-12-02\n/acc/acc/container/k%20y");
  tsr__buffer_release(&text);
}

static int read_listing(const char *xml, tsr_answer_listing *listing) {
  tsr_answer_failure failure;
  return tsr__azure_response_listing(xml, strlen(xml), &arena, listing, &failure, &error);
}

#define PAGE(blobs, marker)                                                                                            \
  "\xef\xbb\xbf<?xml version=\"1.0\"?><EnumerationResults ContainerName=\"c\"><Blobs>" blobs "</Blobs>" marker         \
  "</EnumerationResults>"
#define BLOB(name, size)                                                                                               \
  "<Blob>" name "<Properties><Last-Modified>Sun, 06 Nov 1994 08:49:37 GMT</Last-Modified><Etag>0x8D</Etag>"            \
  "<Content-Length>" size "</Content-Length></Properties></Blob>"

static void test_listings(void **state) {
  tsr_answer_listing l;
  assert_int_equal(read_listing(PAGE(BLOB("<Name>a/b &amp;</Name>", "17") "<BlobPrefix><Name>d/</Name></BlobPrefix>",
                                     "<NextMarker>2!8</NextMarker>"),
                                &l),
                   TSR_OK);
  assert_int_equal(l.entry_count, 1);
  assert_string_equal(l.entries[0].key, "a/b &");
  assert_string_equal(l.entries[0].etag, "0x8D");
  assert_int_equal(l.entries[0].size, 17);
  assert_int_equal(l.entries[0].modified, INT64_C(784111777000));
  assert_int_equal(l.prefix_count, 1);
  assert_string_equal(l.prefixes[0], "d/");
  assert_string_equal(l.next, "2!8");
  assert_int_equal(read_listing(PAGE("", "<NextMarker />"), &l), TSR_OK);
  assert_true(l.entry_count == 0 && l.prefix_count == 0 && !l.next);
  assert_int_equal(read_listing(PAGE("", "<NextMarker>m</NextMarker>"), &l), TSR_OK); /* an empty page goes on */
  assert_string_equal(l.next, "m");
  assert_int_equal(read_listing(PAGE(BLOB("<Name Encoded=\"true\">a%01%25%2Fb</Name>", "1"), ""), &l), TSR_OK);
  assert_string_equal(l.entries[0].key, "a\x01%/b");
  assert_int_equal(read_listing(PAGE(BLOB("<Name>a%01b</Name>", "1"), ""), &l), TSR_OK);
  assert_string_equal(l.entries[0].key, "a%01b");
}

/* With a hierarchical namespace. */
static void test_directories_are_no_objects(void **state) {
  tsr_answer_listing l;
#define TYPED(name, type)                                                                                              \
  "<Blob><Name>" name "</Name><Properties><ResourceType>" type "</ResourceType><Content-Length>0</Content-Length>"     \
  "</Properties></Blob>"
  assert_int_equal(read_listing(PAGE(TYPED("d", "directory") TYPED("d/e", "file"), ""), &l), TSR_OK);
  assert_int_equal(l.entry_count, 1);
  assert_string_equal(l.entries[0].key, "d/e");
#undef TYPED
}

static void test_listings_that_are_wrong(void **state) {
  static const char *const wrong[] = {
      PAGE(BLOB("", "1"), ""),
      PAGE(BLOB("<Name></Name>", "1"), ""),
      PAGE(BLOB("<Name Encoded=\"true\"/>", "1"), ""),
      PAGE(BLOB("<Name Encoded=\"true\"></Name>", "1"), ""),
      PAGE(BLOB("<Name>a</Name><Name>b</Name>", "1"), ""),
      PAGE(BLOB("<Name>a</Name>", "-1"), ""),
      PAGE(BLOB("<Name>a</Name>", "99999999999999999999"), ""),
      PAGE("<Blob><Name>a</Name></Blob>", ""),
      PAGE(BLOB("<Name Encoded=\"true\">a%0</Name>", "1"), ""),
      PAGE(BLOB("<Name Encoded=\"true\">a%00b</Name>", "1"), ""),
      PAGE("<BlobPrefix></BlobPrefix>", ""),
      PAGE("", "<NextMarker>a</NextMarker><NextMarker>b</NextMarker>"),
      "<ListBucketResult></ListBucketResult>",
      "<EnumerationResults><Blobs>",
      "",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tsr_answer_listing l;
    if (read_listing(wrong[i], &l) != TSR_CORRUPT) fail_msg("case %d", (int)i);
  }
  tsr_answer_failure failure;
  tsr_answer_listing l;
  const char *refusal = "<Error><Code>AuthenticationFailed</Code><Message>m</Message></Error>";
  assert_int_equal(tsr__azure_response_listing(refusal, strlen(refusal), &arena, &l, &failure, &error), 1);
  assert_string_equal(failure.code, "AuthenticationFailed");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_what_is_signed), TEST(test_listings),
                                     TEST(test_directories_are_no_objects), TEST(test_listings_that_are_wrong)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
