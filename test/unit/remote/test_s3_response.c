/* test_s3_response.c: answers of S3 and of servers that speak it, and what is refused: every prefix of an answer,
 * nested and endless elements, document types, entities, values that make no sense. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/s3_response.h"
#include "remote/xml.h"

static tsr_memory root;
static tsr_arena arena;
static tsr_error error;
static tsr_answer_failure failure;

static int set_up(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__arena_init(&arena, &root);
  return 0;
}

static int tear_down(void **state) {
  tsr__arena_release(&arena);
  return root.used == 0 ? 0 : 1;
}

#define HEAD  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
#define SPACE "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""

static int list(const char *text, tsr_answer_listing *listing) {
  error = (tsr_error){0};
  return tsr__s3_response_listing(text, strlen(text), &arena, listing, &failure, &error);
}

/* ---- Listings -------------------------------------------------------------------------------- */

static const char page[] =
    HEAD "<ListBucketResult " SPACE "><Name>bucket</Name><Prefix>a/</Prefix><KeyCount>3</KeyCount><MaxKeys>3</MaxKeys>"
         "<Delimiter>/</Delimiter><IsTruncated>true</IsTruncated>\n"
         "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>"
         "<Contents><Key>a/__schema/__1_1</Key><LastModified>2026-11-22T10:20:30.123Z</LastModified>"
         "<ETag>&quot;9b2cf535f27731c974343645a3985328&quot;</ETag><Size>434234</Size>"
         "<Owner><ID>75aa57</ID><DisplayName>me</DisplayName></Owner><StorageClass>STANDARD</StorageClass></Contents>\n"
         "  <Contents>\n    <Key>a/x &amp; y &lt;&gt; &apos;&#39;&#x1F600;&#233;</Key><Size>0</Size>\n"
         "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus></Contents>"
         "<CommonPrefixes><Prefix>a/__fragments/</Prefix></CommonPrefixes><!-- a remark -->"
         "<CommonPrefixes><Prefix>a/<![CDATA[<&>]]>/</Prefix></CommonPrefixes></ListBucketResult>\n";

static void test_a_listing(void **state) {
  tsr_answer_listing l;
  assert_int_equal(list(page, &l), TSR_OK);
  assert_int_equal(l.entry_count, 2);
  assert_string_equal(l.entries[0].key, "a/__schema/__1_1");
  assert_string_equal(l.entries[0].etag, "\"9b2cf535f27731c974343645a3985328\"");
  assert_int_equal(l.entries[0].size, 434234);
  assert_int_equal(l.entries[0].modified, 1795342830123);
  assert_string_equal(l.entries[1].key, "a/x & y <> ''\xf0\x9f\x98\x80\xc3\xa9");
  assert_string_equal(l.entries[1].etag, "");
  assert_int_equal(l.entries[1].size, 0);
  assert_int_equal(l.entries[1].modified, INT64_MIN);
  assert_int_equal(l.prefix_count, 2);
  assert_string_equal(l.prefixes[0], "a/__fragments/");
  assert_string_equal(l.prefixes[1], "a/<&>/");
  assert_string_equal(l.next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
}

static void test_listings_of_other_servers(void **state) {
  tsr_answer_listing l;
  assert_int_equal(list("<ListBucketResult/>", &l), TSR_OK);
  assert_int_equal(l.entry_count + l.prefix_count, 0);
  assert_null(l.next);
  assert_int_equal(
      list("\xef\xbb\xbf <?xml version='1.0'?> \n <s3:ListBucketResult xmlns:s3 = 'x' ><s3:Contents><s3:Key>k"
           "</s3:Key><s3:Size>7</s3:Size></s3:Contents><IsTruncated>false</IsTruncated >"
           "<NextContinuationToken/></s3:ListBucketResult > <!-- end --> \r\n",
           &l),
      TSR_OK);
  assert_int_equal(l.entry_count, 1);
  assert_string_equal(l.entries[0].key, "k");
  assert_null(l.next);
}

static void test_a_listing_of_many_objects(void **state) {
  const unsigned count = 5000;
  char *text = malloc(count * 80 + 200), *at = text;
  at += sprintf(at, "<ListBucketResult>");
  for (unsigned i = 0; i < count; i++) at += sprintf(at, "<Contents><Key>k%u</Key><Size>%u</Size></Contents>", i, i);
  sprintf(at, "</ListBucketResult>");
  tsr_answer_listing l;
  assert_int_equal(list(text, &l), TSR_OK);
  assert_int_equal(l.entry_count, count);
  for (unsigned i = 0; i < count; i++) {
    char key[20];
    snprintf(key, sizeof key, "k%u", i);
    assert_string_equal(l.entries[i].key, key);
    assert_int_equal(l.entries[i].size, i);
  }
  free(text);
}

static void test_every_prefix_of_a_listing_is_refused(void **state) {
  const size_t whole = strlen(page) - 1; /* without the newline at the end */
  for (size_t size = 0; size < whole; size++) {
    char *exact = malloc(size + 1); /* AddressSanitizer sees a read past the end */
    tsr_answer_listing l;
    memcpy(exact, page, size);
    char *place = realloc(exact, size ? size : 1);
    error = (tsr_error){0};
    assert_int_equal(tsr__s3_response_listing(place, size, &arena, &l, &failure, &error), TSR_CORRUPT);
    assert_true(error.message[0]);
    free(place);
  }
}

#define LISTED(content) "<ListBucketResult>" content "</ListBucketResult>"
#define OBJECT(content) LISTED("<Contents>" content "</Contents>")

static void test_what_is_no_listing_is_refused(void **state) {
  static const char *const texts[] = {
      "",
      "   ",
      "not found",
      "<html><body>Welcome to the hotel</body></html>",
      "<!DOCTYPE x [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><ListBucketResult/>",
      "<ListBucketResult><!DOCTYPE x></ListBucketResult>",
      "<ListBucketResult></ListBucketResult><ListBucketResult/>",
      "<ListBucketResult></ListBucketResult>text",
      "<ListBucketResult></listBucketResult>",
      "<ListBucketResult></a:ListBucketResult>",
      "<ListBucketResult a></ListBucketResult>",
      "<ListBucketResult a=b></ListBucketResult>",
      "<ListBucketResult a=\"b></ListBucketResult>",
      "< ListBucketResult></ListBucketResult>",
      "<ListBucketResult><></></ListBucketResult>",
      "<ListBucketResult / ></ListBucketResult>",
      LISTED("<IsTruncated>true</IsTruncated>"),
      LISTED("<IsTruncated>true</IsTruncated><NextContinuationToken></NextContinuationToken>"),
      LISTED("<IsTruncated>perhaps</IsTruncated>"),
      LISTED("<IsTruncated>false</IsTruncated><IsTruncated>false</IsTruncated>"),
      LISTED("<CommonPrefixes/>"),
      LISTED("<CommonPrefixes><Prefix/></CommonPrefixes>"),
      OBJECT(""),
      OBJECT("<Key>k</Key>"),
      OBJECT("<Size>1</Size>"),
      OBJECT("<Key></Key><Size>1</Size>"),
      OBJECT("<Key>k</Key><Size></Size>"),
      OBJECT("<Key>k</Key><Size>-1</Size>"),
      OBJECT("<Key>k</Key><Size>1x</Size>"),
      OBJECT("<Key>k</Key><Size>9223372036854775808</Size>"),
      OBJECT("<Key>k</Key><Size>99999999999999999999999</Size>"),
      OBJECT("<Key>k</Key><Key>l</Key><Size>1</Size>"),
      OBJECT("<Key><b>k</b></Key><Size>1</Size>"),
      OBJECT("<Key>&nbsp;</Key><Size>1</Size>"),
      OBJECT("<Key>&amp</Key><Size>1</Size>"),
      OBJECT("<Key>&#0;</Key><Size>1</Size>"),
      OBJECT("<Key>&#;</Key><Size>1</Size>"),
      OBJECT("<Key>&#x;</Key><Size>1</Size>"),
      OBJECT("<Key>&#xd800;</Key><Size>1</Size>"),
      OBJECT("<Key>&#x110000;</Key><Size>1</Size>"),
      OBJECT("<Key>&#99999999999;</Key><Size>1</Size>"),
      OBJECT("<Key>&#12a;</Key><Size>1</Size>"),
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    tsr_answer_listing l;
    const int rc = list(texts[i], &l);
    if (rc != TSR_CORRUPT) fprintf(stderr, "%s\n", texts[i]);
    assert_int_equal(rc, TSR_CORRUPT);
    assert_true(error.message[0]);
  }
  static const char nul[] = OBJECT("<Key>a\0b</Key><Size>1</Size>"),
                    cdata[] = OBJECT("<Key><![CDATA[\0]]></Key><Size>1</Size>");
  tsr_answer_listing l;
  assert_int_equal(tsr__s3_response_listing(nul, sizeof nul - 1, &arena, &l, &failure, &error), TSR_CORRUPT);
  assert_int_equal(tsr__s3_response_listing(cdata, sizeof cdata - 1, &arena, &l, &failure, &error), TSR_CORRUPT);
  assert_int_equal(tsr__s3_response_listing(NULL, 0, &arena, &l, &failure, &error), TSR_CORRUPT);
}

/* Repeats a text; the caller frees it. */
static char *repeat(const char *before, const char *text, unsigned count, const char *after) {
  const size_t size = strlen(text);
  char *all = malloc(strlen(before) + size * count + strlen(after) + 1), *at = all + sprintf(all, "%s", before);
  for (unsigned i = 0; i < count; i++, at += size) memcpy(at, text, size);
  strcpy(at, after);
  return all;
}

static void test_sizes_are_bounded(void **state) {
  tsr_answer_listing l;
  char *deep = repeat("<ListBucketResult>", "<a>", 1000000, "");
  assert_int_equal(list(deep, &l), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "deep"));
  free(deep);
  for (unsigned size = TSR_XML_TEXT_MAX - 1; size <= TSR_XML_TEXT_MAX + 1; size++) {
    char *key =
        repeat("<ListBucketResult><Contents><Key>", "k", size, "</Key><Size>1</Size></Contents></ListBucketResult>");
    assert_int_equal(list(key, &l), size <= TSR_XML_TEXT_MAX ? TSR_OK : TSR_CORRUPT);
    free(key);
  }
  char *name = repeat("<ListBucketResult><", "n", 300, "/></ListBucketResult>");
  assert_int_equal(list(name, &l), TSR_CORRUPT);
  free(name);
  tsr_memory small; /* many small objects: the memory is proportional, and a budget ends it */
  tsr_arena bounded;
  tsr__memory_init(&small, &root, 100000, "memory_mb");
  tsr__arena_init(&bounded, &small);
  char *many =
      repeat("<ListBucketResult>", "<Contents><Key>k</Key><Size>1</Size></Contents>", 100000, "</ListBucketResult>");
  assert_int_equal(tsr__s3_response_listing(many, strlen(many), &bounded, &l, &failure, &error), TSR_BUDGET);
  tsr__arena_release(&bounded);
  assert_int_equal(small.used, 0);
  free(many);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static const char no_key[] = HEAD "<Error><Code>NoSuchKey</Code><Message>The resource you requested does not exist"
                                  "</Message><Resource>/mybucket/myfoto.jpg</Resource><RequestId>4442587FB7D0A2F9"
                                  "</RequestId><HostId>x</HostId></Error>";

static void test_an_error(void **state) {
  assert_int_equal(tsr__answer_failure(no_key, strlen(no_key), &arena, &failure, &error), TSR_OK);
  assert_string_equal(failure.code, "NoSuchKey");
  assert_string_equal(failure.message, "The resource you requested does not exist");
  assert_string_equal(failure.request_id, "4442587FB7D0A2F9");
  assert_string_equal(failure.region, "");
  static const char region[] = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>";
  assert_int_equal(tsr__answer_failure(region, strlen(region), &arena, &failure, &error), TSR_OK);
  assert_string_equal(failure.region, "eu-west-1");
  static const char sts[] =
      "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>"
      "<Code>ExpiredTokenException</Code><Message>Token expired</Message></Error>"
      "<RequestId>c6104cbe</RequestId></ErrorResponse>";
  assert_int_equal(tsr__answer_failure(sts, strlen(sts), &arena, &failure, &error), TSR_OK);
  assert_string_equal(failure.code, "ExpiredTokenException");
  assert_string_equal(failure.request_id, "c6104cbe");
  static const char *const bad[] = {"<Error/>", "<Error><Code/></Error>", "<ErrorResponse/>", "<Fault/>", "", "x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(tsr__answer_failure(bad[i], strlen(bad[i]), &arena, &failure, &error), TSR_CORRUPT);
}

static void test_an_error_in_the_place_of_an_answer(void **state) {
  tsr_answer_listing l;
  const char *text;
  int64_t time;
  tsr_s3_deletion d;
  tsr_s3_uploads u;
  tsr_s3_identity i;
  const size_t size = strlen(no_key);
  assert_int_equal(tsr__s3_response_listing(no_key, size, &arena, &l, &failure, &error), 1);
  assert_string_equal(failure.code, "NoSuchKey");
  assert_int_equal(tsr__s3_response_upload(no_key, size, &arena, &text, &failure, &error), 1);
  assert_int_equal(tsr__s3_response_completed(no_key, size, &arena, &text, &failure, &error), 1);
  assert_int_equal(tsr__s3_response_copied(no_key, size, &arena, &text, &time, &failure, &error), 1);
  assert_int_equal(tsr__s3_response_deletion(no_key, size, &arena, &d, &failure, &error), 1);
  assert_int_equal(tsr__s3_response_uploads(no_key, size, &arena, &u, &failure, &error), 1);
  assert_int_equal(tsr__s3_response_identity(no_key, size, &arena, &i, &failure, &error), 1);
  assert_string_equal(failure.code, "NoSuchKey");
  assert_int_equal(tsr__s3_response_upload(page, strlen(page), &arena, &text, &failure, &error), TSR_CORRUPT);
  assert_non_null(strstr(error.message, "InitiateMultipartUploadResult"));
}

/* ---- The other answers ----------------------------------------------------------------------- */

static void test_uploads(void **state) {
  const char *text = NULL;
  int64_t time = 0;
  static const char begun[] = HEAD "<InitiateMultipartUploadResult " SPACE "><Bucket>b</Bucket><Key>k</Key>"
                                   "<UploadId>VXBsb2FkIElE</UploadId></InitiateMultipartUploadResult>";
  assert_int_equal(tsr__s3_response_upload(begun, strlen(begun), &arena, &text, &failure, &error), TSR_OK);
  assert_string_equal(text, "VXBsb2FkIElE");
  static const char none[] = "<InitiateMultipartUploadResult><UploadId/></InitiateMultipartUploadResult>";
  assert_int_equal(tsr__s3_response_upload(none, strlen(none), &arena, &text, &failure, &error), TSR_CORRUPT);
  /* space comes first while the server works */
  static const char completed[] =
      HEAD "   \n  \n <CompleteMultipartUploadResult><Location>http://x</Location>"
           "<ETag>&#34;3858f62230ac3c915f300c664312c11f-9&#34;</ETag></CompleteMultipartUploadResult>";
  assert_int_equal(tsr__s3_response_completed(completed, strlen(completed), &arena, &text, &failure, &error), TSR_OK);
  assert_string_equal(text, "\"3858f62230ac3c915f300c664312c11f-9\"");
  static const char copied[] =
      "<CopyObjectResult><LastModified>2026-11-22T10:20:30.000Z</LastModified><ETag>\"e\"</ETag>"
      "</CopyObjectResult>";
  assert_int_equal(tsr__s3_response_copied(copied, strlen(copied), &arena, &text, &time, &failure, &error), TSR_OK);
  assert_string_equal(text, "\"e\"");
  assert_int_equal(time, 1795342830000);
  static const char part[] = "<CopyPartResult><ETag>\"p\"</ETag></CopyPartResult>";
  assert_int_equal(tsr__s3_response_copied(part, strlen(part), &arena, &text, &time, &failure, &error), TSR_OK);
  assert_string_equal(text, "\"p\"");
  assert_int_equal(time, INT64_MIN);
}

static void test_open_uploads(void **state) {
  tsr_s3_uploads u;
  static const char open[] =
      "<ListMultipartUploadsResult><Bucket>b</Bucket><KeyMarker/><NextKeyMarker>my-2</NextKeyMarker>"
      "<NextUploadIdMarker>YW55</NextUploadIdMarker><IsTruncated>true</IsTruncated>"
      "<Upload><Key>my-1</Key><UploadId>XMgb</UploadId><Initiated>2026-11-22T10:20:30Z</Initiated>"
      "<Owner><ID>1</ID></Owner></Upload><Upload><Key>my-2</Key><UploadId>YW55</UploadId></Upload>"
      "</ListMultipartUploadsResult>";
  assert_int_equal(tsr__s3_response_uploads(open, strlen(open), &arena, &u, &failure, &error), TSR_OK);
  assert_int_equal(u.upload_count, 2);
  assert_string_equal(u.uploads[0].key, "my-1");
  assert_string_equal(u.uploads[0].upload_id, "XMgb");
  assert_int_equal(u.uploads[0].initiated, 1795342830000);
  assert_int_equal(u.uploads[1].initiated, INT64_MIN);
  assert_string_equal(u.next_key, "my-2");
  assert_string_equal(u.next_upload_id, "YW55");
  static const char *const bad[] = {
      "<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>",
      "<ListMultipartUploadsResult><Upload><Key>k</Key></Upload></ListMultipartUploadsResult>",
      "<ListMultipartUploadsResult><Upload><UploadId>k</UploadId></Upload></ListMultipartUploadsResult>"};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(tsr__s3_response_uploads(bad[i], strlen(bad[i]), &arena, &u, &failure, &error), TSR_CORRUPT);
}

static void test_deletions(void **state) {
  tsr_s3_deletion d;
  static const char some[] = "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code>"
                             "<Message>Access Denied</Message></Error></DeleteResult>";
  assert_int_equal(tsr__s3_response_deletion(some, strlen(some), &arena, &d, &failure, &error), TSR_OK);
  assert_int_equal(d.failure_count, 1);
  assert_string_equal(d.failures[0].key, "b");
  assert_string_equal(d.failures[0].code, "AccessDenied");
  static const char all[] = "<DeleteResult></DeleteResult>";
  assert_int_equal(tsr__s3_response_deletion(all, strlen(all), &arena, &d, &failure, &error), TSR_OK);
  assert_int_equal(d.failure_count, 0);
  static const char nameless[] = "<DeleteResult><Error><Key>b</Key></Error></DeleteResult>";
  assert_int_equal(tsr__s3_response_deletion(nameless, strlen(nameless), &arena, &d, &failure, &error), TSR_CORRUPT);
}

static void test_identities(void **state) {
  tsr_s3_identity i;
  static const char good[] =
      "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"
      "<AssumeRoleWithWebIdentityResult><Audience>a</Audience><Credentials><SessionToken>AQoDYXdz//</SessionToken>"
      "<SecretAccessKey>wJalr/s</SecretAccessKey><Expiration>2026-11-22T10:20:30Z</Expiration><AccessKeyId>ASgeIAIO"
      "</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  assert_int_equal(tsr__s3_response_identity(good, strlen(good), &arena, &i, &failure, &error), TSR_OK);
  assert_string_equal(i.key_id, "ASgeIAIO");
  assert_string_equal(i.secret, "wJalr/s");
  assert_string_equal(i.session_token, "AQoDYXdz//");
  assert_int_equal(i.expiration, 1795342830000);
  static const char bad[] = "<AssumeRoleWithWebIdentityResponse/>";
  assert_int_equal(tsr__s3_response_identity(bad, strlen(bad), &arena, &i, &failure, &error), TSR_CORRUPT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_listing),
      cmocka_unit_test(test_listings_of_other_servers),
      cmocka_unit_test(test_a_listing_of_many_objects),
      cmocka_unit_test(test_every_prefix_of_a_listing_is_refused),
      cmocka_unit_test(test_what_is_no_listing_is_refused),
      cmocka_unit_test(test_sizes_are_bounded),
      cmocka_unit_test(test_an_error),
      cmocka_unit_test(test_an_error_in_the_place_of_an_answer),
      cmocka_unit_test(test_uploads),
      cmocka_unit_test(test_open_uploads),
      cmocka_unit_test(test_deletions),
      cmocka_unit_test(test_identities),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
