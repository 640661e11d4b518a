/* test_bucket_request.c: what a call asks for, and what it makes of each answer, without a server: the test takes the
 * request, and gives the answer that a server would. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "crypto/crypto.h"
#include "base/clock.h"
#include "remote/bucket.h"

static tsr_memory root, memory;
static tsr_bucket_scopes *scopes;

static int setup(void **state) {
  tsr__memory_init_root(&root, NULL, NULL);
  tsr__memory_init(&memory, &root, UINT64_MAX, "test");
  return tsr__bucket_scopes_open(&memory, &scopes, NULL);
}

static int teardown(void **state) {
  tsr__bucket_scopes_close(scopes);
  assert_int_equal(root.used, 0);
  return 0;
}

/* ---- A call whose server is the test --------------------------------------------------------- */

static tsr_bucket_call call;
static tsr_bucket_state s;
static tsr_buffer kept; /* what a GET has brought, and a listing */
static tsr_bucket_objects listed;

static void declare(const char *name, const tsr_scope_options *options) {
  assert_int_equal(tsr__bucket_scopes_set(scopes, name, options, NULL), TSR_OK);
}

static void declare_s3(void) {
  declare("s3://abc", &(tsr_scope_options){.key_id = "k", .secret = "s", .endpoint = "http://127.0.0.1:1"});
}

/* Begins the call as bucket.c does. */
static void begin_at(const char *scope, tsr_bucket_call what) {
  call = what;
  if (!call.key && call.kind != TSR_BUCKET_DELETE_MANY) call.key = "x";
  s = (tsr_bucket_state){.call = &call, .memory = &memory, .scope = tsr__bucket_scope_find(scopes, scope)};
  assert_non_null(s.scope);
  kept = (tsr_buffer){.memory = &memory};
  listed = (tsr_bucket_objects){.memory = &memory};
  tsr__arena_init(&listed.texts, &memory);
  if (call.kind == TSR_BUCKET_GET && !call.get.into) call.get.buffer = &kept;
  if (call.kind == TSR_BUCKET_LIST || call.kind == TSR_BUCKET_UPLOAD_LIST) call.list.objects = &listed;
  s.page.token.memory = s.page.token_id.memory = s.body.memory = s.response.memory = &memory;
  s.made.url.memory = s.made.lines.text.memory = s.http.received.memory = &memory;
  tsr__arena_init(&s.arena, &memory);
}

static void begin(tsr_bucket_call what) { begin_at("s3://abc", what); }

static void end(void) {
  tsr__buffer_release(&kept);
  tsr__bucket_objects_release(&listed);
  tsr__buffer_release(&s.page.token);
  tsr__buffer_release(&s.page.token_id);
  tsr__buffer_release(&s.body);
  tsr__buffer_release(&s.response);
  tsr__buffer_release(&s.http.received);
  tsr__buffer_release(&s.made.url);
  tsr__sigv4_lines_release(&s.made.lines);
  tsr__arena_release(&s.arena);
  tsr__bucket_scope_release(s.scope);
}

/* Makes the request. Returns the value of a header of it, or "". */
static const char *asks(const char *header) {
  tsr_error error = {0};
  if (tsr__bucket_request_make(&s, &error) < 0) fail_msg("%s", error.message);
  for (uint32_t i = 0; i < s.http.header_count; i++) {
    const char *line = s.http.headers[i];
    const size_t size = strlen(header);
    if (strncmp(line, header, size) == 0 && line[size] == ':') return line + size + 1 + strspn(line + size + 1, " ");
  }
  return "";
}

/* Answers the request: lines of the head, and a body, of which `failure` says how it ended. */
static tsr_bucket_outcome ends(tsr_http_failure failure, const char *head, const char *body) {
  tsr_http_request *http = &s.http;
  tsr__http_response_clear(&http->response);
  for (const char *line = head, *next; *line; line = next) {
    next = line + strcspn(line, "\n");
    tsr__http_response_line(&http->response, line, (uint64_t)(next - line));
    next += *next == '\n';
  }
  http->failure = failure;
  http->rc = failure == TSR_HTTP_WHOLE ? TSR_OK : TSR_UNREACHABLE;
  (void)snprintf(http->error.message, sizeof http->error.message, "the transfer ended");
  http->size = strlen(body);
  if (http->into && http->response.status / 100 == 2) memcpy(http->into, body, http->size);
  else assert_int_equal(tsr__buffer_append(&http->received, body, http->size, NULL), TSR_OK);
  const tsr_bucket_outcome outcome = tsr__bucket_read_response(&s);
  if (outcome != TSR_BUCKET_DONE && outcome != TSR_BUCKET_NEXT) assert_true(call.error.code < 0);
  return outcome;
}

static tsr_bucket_outcome answers(const char *head, const char *body) { return ends(TSR_HTTP_WHOLE, head, body); }

static bool has(const char *text) {
  return kept.size == strlen(text) && (kept.size == 0 || memcmp(kept.data, text, kept.size) == 0);
}

#define HTTP(status) "HTTP/1.1 " #status " x\n"

/* ---- GET ------------------------------------------------------------------------------------- */

static void test_a_get_of_a_whole_object(void **state) {
  declare_s3();
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET, .key = "p/q"});
  assert_string_equal(asks("range"), "");
  assert_string_equal(s.http.method, "GET");
  assert_string_equal(s.http.url, "http://127.0.0.1:1/abc/p/q");
  assert_true(s.http.most == UINT64_MAX);
  assert_int_equal(
      answers(HTTP(200) "Content-Length: 5\nETag: \"e\"\nLast-Modified: Thu, 01 Jan 1970 00:00:07 GMT", "hello"),
      TSR_BUCKET_DONE);
  assert_true(has("hello"));
  assert_true(call.result.received == 5 && call.result.object_size == 5 && call.result.modified == 7000);
  assert_string_equal(call.result.etag.text, "\"e\"");
  end();

  /* Another status of success. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET});
  (void)asks("");
  assert_int_equal(answers(HTTP(203) "Content-Length: 5", "hello"), TSR_BUCKET_DONE);
  assert_true(has("hello"));
  end();

  /* Without a length and a time. What the buffer had before stays before it. A body that does not tell its own end, either,
   * may have been cut. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET});
  assert_int_equal(tsr__buffer_append(&kept, "ab", 2, NULL), TSR_OK);
  s.got.base = 2;
  (void)asks("");
  assert_int_equal(answers(HTTP(200), "cd"), TSR_BUCKET_AGAIN);
  assert_non_null(strstr(call.error.message, "does not tell where it ends"));
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "Transfer-Encoding: gzip, Chunked", "cde"), TSR_BUCKET_DONE);
  assert_true(has("abcde") && call.result.received == 3 && call.result.object_size == 3 && call.result.modified == 0);
  end();

  /* More bytes than allowed, and a status that has none. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET, .get.most = 4});
  (void)asks("");
  assert_true(s.http.most == 4);
  assert_int_equal(ends(TSR_HTTP_TOO_LARGE, HTTP(200) "Content-Length: 5", ""), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_TOOBIG);
  assert_non_null(strstr(call.error.message, "more than 4 bytes"));
  end();
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET});
  (void)asks("");
  assert_int_equal(ends(TSR_HTTP_CUT, HTTP(404), ""), TSR_BUCKET_AGAIN);
  assert_int_equal(call.error.code, TSR_UNREACHABLE);
  (void)asks("");
  assert_int_equal(ends(TSR_HTTP_REFUSED, HTTP(200), ""), TSR_BUCKET_FAILED);
  end();
}

static const tsr_bucket_call ten = {.kind = TSR_BUCKET_GET,
                                    .get = {.range = TSR_BUCKET_RANGE, .offset = 10, .size = 10}};

static void test_a_range_is_what_was_asked_for(void **state) {
  static const struct {
    const char *head;
    tsr_bucket_outcome outcome;
  } cases[] = {
      {HTTP(206) "Content-Range: bytes 10-19/100", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 10-19/20", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 10-19/*", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 9-18/100", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 11-20/100", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 10-20/100", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 10-19/19", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 10-9/100", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Length: 10", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Length: 0", TSR_BUCKET_AGAIN},
      {HTTP(200) "Content-Length: 10", TSR_BUCKET_AGAIN},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin(ten);
    assert_string_equal(asks("range"), "bytes=10-19");
    assert_true(s.http.most == 10);
    const tsr_bucket_outcome outcome = answers(cases[i].head, "0123456789");
    if (outcome != cases[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (outcome == TSR_BUCKET_DONE) assert_true(has("0123456789") && call.result.received == 10);
    else assert_non_null(strstr(call.error.message, "other bytes than the range"));
    end();
  }
  /* The object ends before the range does. */
  begin(ten);
  (void)asks("");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 10-14/15", "01234"), TSR_BUCKET_DONE);
  assert_true(has("01234") && call.result.object_size == 15);
  end();
  /* A server without ranges may send the whole object if it is what was asked for. */
  tsr_bucket_call first = ten;
  first.get.offset = 0;
  begin(first);
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "Content-Length: 10", "0123456789"), TSR_BUCKET_DONE);
  end();
  for (int i = 0; i < 2; i++) {
    begin(first);
    (void)asks("");
    assert_int_equal(answers(i ? HTTP(200) "Content-Length: 11" : HTTP(200), "0123456789"), TSR_BUCKET_AGAIN);
    assert_non_null(strstr(call.error.message, "other bytes than the range"));
    (void)asks("");
    assert_int_equal(ends(TSR_HTTP_TOO_LARGE, HTTP(200), ""), TSR_BUCKET_AGAIN);
    end();
  }
}

static void test_a_range_has_room(void **state) {
  char room[10];
  static const struct {
    tsr_bucket_get get;
    int rc;
  } cases[] = {
      {{.range = TSR_BUCKET_RANGE, .size = 10, .most = 10}, TSR_OK},
      {{.range = TSR_BUCKET_RANGE, .size = 11, .most = 10}, TSR_TOOBIG},
      {{.range = TSR_BUCKET_SUFFIX, .size = 11, .most = 10}, TSR_TOOBIG},
      {{.range = TSR_BUCKET_RANGE, .size = 0}, TSR_RANGE},
      {{.range = TSR_BUCKET_RANGE, .offset = UINT64_MAX - 9, .size = 10}, TSR_CORRUPT},
      {{.range = TSR_BUCKET_RANGE, .offset = UINT64_MAX - 10, .size = 10}, TSR_OK},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin((tsr_bucket_call){.kind = TSR_BUCKET_GET, .get = cases[i].get});
    const int rc = tsr__bucket_request_make(&s, NULL);
    if (rc < 0 && rc != cases[i].rc) fail_msg("case %d: %d", (int)i, rc);
    if ((rc < 0) != (cases[i].rc < 0)) fail_msg("case %d: %d", (int)i, rc);
    if (rc >= 0) tsr__bucket_get_return(&s);
    end();
  }
  tsr_bucket_call into = ten;
  into.get.into = room;
  into.get.room = 9;
  begin(into);
  assert_int_equal(tsr__bucket_request_make(&s, NULL), TSR_TOOBIG);
  end();
  into.get.room = 10;
  begin(into);
  (void)asks("");
  assert_true(s.http.into == room && s.http.most == 10);
  assert_int_equal(ends(TSR_HTTP_CUT, HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"", "0123"),
                   TSR_BUCKET_AGAIN);
  assert_string_equal(asks("range"), "bytes=14-19");
  assert_true(s.http.into == room + 4 && s.http.most == 6);
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 14-19/100\nETag: \"e\"", "456789"), TSR_BUCKET_DONE);
  assert_memory_equal(room, "0123456789", 10);
  end();
}

/* A response that was cut short is completed, if the object is still the same. */
static void test_the_rest_is_asked_for(void **state) {
  static const struct {
    const char *head;
    tsr_bucket_outcome outcome;
  } cases[] = {
      {HTTP(206) "Content-Range: bytes 14-19/100\nETag: \"e\"", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 14-19/*\nETag: \"e\"", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 14-19/101\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 14-19/100\nETag: \"f\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 13-18/100\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 15-20/100\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 14-20/100\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 14-13/100\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(206) "ETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(200) "Content-Length: 6\nETag: \"e\"", TSR_BUCKET_AGAIN},
      {HTTP(412), TSR_BUCKET_AGAIN},
      {HTTP(416), TSR_BUCKET_AGAIN},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin(ten);
    (void)asks("");
    assert_int_equal(ends(TSR_HTTP_CUT, HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"", "0123"),
                     TSR_BUCKET_AGAIN);
    assert_int_equal(call.error.code, TSR_UNREACHABLE);
    assert_string_equal(asks("if-match"), "\"e\"");
    tsr__bucket_get_return(&s);
    assert_string_equal(asks("range"), "bytes=14-19");
    const tsr_bucket_outcome outcome = answers(cases[i].head, "456789");
    if (outcome != cases[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (s.http.response.status == 412) { /* what is told if this goes on until the tries are used up */
      assert_int_equal(call.error.code, TSR_UNREACHABLE);
      assert_non_null(strstr(call.error.message, "GET: the object was replaced while it was read (status 412)"));
    }
    if (outcome == TSR_BUCKET_DONE) {
      assert_true(has("0123456789") && call.result.object_size == 100);
    } else { /* from the beginning */
      assert_string_equal(asks("if-match"), "");
      tsr__bucket_get_return(&s);
      assert_string_equal(asks("range"), "bytes=10-19");
      assert_int_equal(answers(HTTP(206) "Content-Range: bytes 10-19/100", "abcdefghij"), TSR_BUCKET_DONE);
      assert_true(has("abcdefghij"));
    }
    end();
  }
  begin(ten); /* it may be gone */
  (void)asks("");
  assert_int_equal(ends(TSR_HTTP_CUT, HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"", "0123"),
                   TSR_BUCKET_AGAIN);
  (void)asks("");
  assert_int_equal(answers(HTTP(404), ""), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_NOT_FOUND);
  end();
  /* Fewer bytes than promised, though the transfer was whole; and an object whose size nobody knows. */
  begin(ten);
  (void)asks("");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"", "012345678"), TSR_BUCKET_AGAIN);
  assert_non_null(strstr(call.error.message, "fewer bytes"));
  assert_string_equal(asks("range"), "bytes=19-19");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 19-19/100\nETag: \"e\"", "9"), TSR_BUCKET_DONE);
  end();
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET});
  (void)asks("");
  assert_int_equal(ends(TSR_HTTP_STALLED, HTTP(200) "ETag: \"e\"", "0123"), TSR_BUCKET_AGAIN);
  assert_string_equal(asks("range"), "bytes=4-");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 4-5/6\nETag: \"e\"", "45"), TSR_BUCKET_DONE);
  assert_true(has("012345"));
  end();
  begin((tsr_bucket_call){.kind = TSR_BUCKET_GET}); /* and whose rest comes in two pieces */
  (void)asks("");
  assert_int_equal(ends(TSR_HTTP_STALLED, HTTP(200) "ETag: \"e\"", "0123"), TSR_BUCKET_AGAIN);
  (void)asks("");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 4-5/8\nETag: \"e\"", "45"), TSR_BUCKET_AGAIN);
  assert_string_equal(asks("range"), "bytes=6-7");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 6-7/8\nETag: \"e\"", "67"), TSR_BUCKET_DONE);
  assert_true(has("01234567"));
  end();
  /* Equal weak ETags do not mean equal bytes. */
  for (int i = 0; i < 2; i++) {
    begin(ten);
    (void)asks("");
    assert_int_equal(
        ends(TSR_HTTP_CUT,
             i ? HTTP(206) "Content-Range: bytes 10-19/100\nETag: W/\"e\"" : HTTP(206) "Content-Range: bytes 10-19/100",
             "0123"),
        TSR_BUCKET_AGAIN);
    assert_string_equal(asks("range"), "bytes=10-19");
    tsr__bucket_get_return(&s);
    end();
  }
  /* Nothing has come: the same request again, and what it is told counts. */
  for (int i = 0; i < 2; i++) {
    begin(i ? ten : (tsr_bucket_call){.kind = TSR_BUCKET_GET});
    (void)asks("");
    assert_int_equal(
        ends(TSR_HTTP_CUT, i ? HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"" : HTTP(200) "ETag: \"e\"", ""),
        TSR_BUCKET_AGAIN);
    assert_string_equal(asks("if-match"), "");
    tsr__bucket_get_return(&s);
    assert_string_equal(asks("range"), i ? "bytes=10-19" : "");
    assert_int_equal(answers(HTTP(416), ""), TSR_BUCKET_FAILED);
    assert_int_equal(call.error.code, TSR_CORRUPT);
    end();
  }
  /* No more tries where memory lacks or the host has cancelled. A megabyte of progress takes a failed try back. */
  static const tsr_http_failure final[] = {TSR_HTTP_NO_MEMORY, TSR_HTTP_CANCELLED};
  for (size_t i = 0; i < 2; i++) {
    begin(ten);
    (void)asks("");
    assert_int_equal(ends(final[i], HTTP(206) "Content-Range: bytes 10-19/100\nETag: \"e\"", "0123"),
                     TSR_BUCKET_FAILED);
    end();
  }
  char *much = calloc(1, (1 << 20) + 1);
  memset(much, 'x', 1 << 20);
  for (unsigned i = 0; i < 4; i++) {
    begin((tsr_bucket_call){.kind = TSR_BUCKET_GET});
    (void)asks("");
    s.tries.failed = i < 3 ? i : 2;
    assert_int_equal(ends(TSR_HTTP_CUT, HTTP(200) "Content-Length: 5000000\nETag: \"e\"", much + (i == 3)),
                     TSR_BUCKET_AGAIN);
    assert_int_equal(s.tries.failed, i == 0 ? 0 : i == 1 ? 0 : i == 2 ? 1 : 2);
    end();
  }
  free(much);
}

static void test_a_suffix(void **state) {
  const tsr_bucket_call last = {.kind = TSR_BUCKET_GET, .get = {.range = TSR_BUCKET_SUFFIX, .size = 10}};
  static const struct {
    const char *head, *body;
    tsr_bucket_outcome outcome;
  } cases[] = {
      {HTTP(206) "Content-Range: bytes 90-99/100", "0123456789", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 0-4/5", "01234", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 89-98/100", "0123456789", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 90-99/*", "0123456789", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Length: 0", "", TSR_BUCKET_DONE}, /* minio: an empty object */
      {HTTP(206) "Content-Length: 1", "0", TSR_BUCKET_AGAIN},
      {HTTP(206), "", TSR_BUCKET_AGAIN},
      {HTTP(416) "Content-Range: bytes */0", "", TSR_BUCKET_DONE},
      {HTTP(416) "Content-Range: bytes */5", "", TSR_BUCKET_NEXT},
      {HTTP(416), "", TSR_BUCKET_NEXT},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin(last);
    assert_string_equal(asks("range"), "bytes=-10");
    const tsr_bucket_outcome outcome = answers(cases[i].head, cases[i].body);
    if (outcome != cases[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (outcome == TSR_BUCKET_DONE) assert_true(has(cases[i].body) && call.result.received == strlen(cases[i].body));
    if (outcome == TSR_BUCKET_NEXT) { /* then the whole, once */
      assert_string_equal(asks("range"), "");
      assert_int_equal(answers(HTTP(416), ""), TSR_BUCKET_FAILED);
      assert_int_equal(call.error.code, TSR_CORRUPT);
      (void)asks("");
      assert_int_equal(answers(HTTP(200) "Content-Length: 3", "abc"), TSR_BUCKET_DONE);
      assert_true(has("abc"));
    }
    end();
  }
  begin(last); /* what is known of an empty object is kept */
  (void)asks("");
  assert_int_equal(
      answers(HTTP(416) "Content-Range: bytes */0\nETag: \"e\"\nLast-Modified: Thu, 01 Jan 1970 00:00:07 GMT", ""),
      TSR_BUCKET_DONE);
  assert_true(call.result.modified == 7000 && call.result.object_size == 0);
  assert_string_equal(call.result.etag.text, "\"e\"");
  end();
  /* A range outside the object is an error. */
  begin(ten);
  (void)asks("");
  assert_int_equal(answers(HTTP(416), ""), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_CORRUPT);
  end();
  begin(ten);
  (void)asks("");
  assert_int_equal(answers(HTTP(416) "Content-Range: bytes */0", ""), TSR_BUCKET_FAILED);
  end();
}

/* Azure has no suffixes: the beginning tells the size. */
static void test_a_suffix_in_two_requests(void **state) {
  const tsr_bucket_call last = {.kind = TSR_BUCKET_GET, .get = {.range = TSR_BUCKET_SUFFIX, .size = 10}};
  declare("azure://abc", &(tsr_scope_options){.account = "acc", .key = "a2V5"});
  static const struct {
    const char *head, *body;
    tsr_bucket_outcome outcome;
  } cases[] = {
      {HTTP(206) "Content-Range: bytes 0-9/10", "0123456789", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 0-4/5", "01234", TSR_BUCKET_DONE},
      {HTTP(206) "Content-Range: bytes 0-9/11", "0123456789", TSR_BUCKET_NEXT},
      {HTTP(206) "Content-Range: bytes 0-10/11", "0123456789", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 1-9/11", "123456789", TSR_BUCKET_AGAIN},
      {HTTP(206) "Content-Range: bytes 0-9/*", "0123456789", TSR_BUCKET_AGAIN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin_at("azure://abc", last);
    assert_string_equal(asks("x-ms-range"), "bytes=0-9");
    const tsr_bucket_outcome outcome = answers(cases[i].head, cases[i].body);
    if (outcome != cases[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (outcome == TSR_BUCKET_DONE) assert_true(has(cases[i].body));
    if (outcome == TSR_BUCKET_NEXT) {
      assert_string_equal(asks("x-ms-range"), "bytes=1-10");
      assert_int_equal(answers(HTTP(416), ""), TSR_BUCKET_AGAIN); /* the object has become smaller */
      assert_string_equal(asks("x-ms-range"), "bytes=0-9");
      assert_int_equal(answers(HTTP(206) "Content-Range: bytes 0-9/15", "0123456789"), TSR_BUCKET_NEXT);
      assert_string_equal(asks("x-ms-range"), "bytes=5-14");
      assert_int_equal(answers(HTTP(206) "Content-Range: bytes 5-14/15", "56789abcde"), TSR_BUCKET_DONE);
      assert_true(has("56789abcde") && call.result.object_size == 15);
    }
    end();
  }
  begin_at("azure://abc", last); /* the object has been replaced, and a server without ETags does not notice */
  (void)asks("");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 0-9/11", "0123456789"), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(206) "Content-Range: bytes 1-10/12", "123456789a"), TSR_BUCKET_AGAIN);
  assert_string_equal(asks("x-ms-range"), "bytes=0-9");
  end();
}

/* A server that refuses the beginning of an object that is shorter is asked for all of it. */
static void test_a_suffix_of_a_short_object(void **state) {
  declare("azure://abc", &(tsr_scope_options){.account = "acc", .key = "a2V5"});
  begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_GET, .get = {.range = TSR_BUCKET_SUFFIX, .size = 10}});
  assert_string_equal(asks("x-ms-range"), "bytes=0-9");
  assert_int_equal(answers(HTTP(416), ""), TSR_BUCKET_NEXT);
  assert_string_equal(asks("x-ms-range"), "");
  assert_int_equal(answers(HTTP(200) "Content-Length: 3", "abc"), TSR_BUCKET_DONE);
  assert_true(has("abc"));
  end();
}

/* ---- Judgement and retries ------------------------------------------------------------------- */

static void test_pauses_between_tries(void **state) {
  declare("s3://abc",
          &(tsr_scope_options){.key_id = "k", .secret = "s", .endpoint = "http://127.0.0.1:1", .retries = 9});
  begin((tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  for (unsigned failed = 0; failed < 9; failed++) {
    const uint64_t most = TSR_MIN(50u << failed, 5000), before = tsr__ticks();
    assert_int_equal(s.tries.failed, failed);
    assert_true(tsr__bucket_plan_retry(&s, TSR_BUCKET_SOON));
    assert_true(s.tries.due - before < 25 && s.tries.failed == failed);
    assert_true(tsr__bucket_plan_retry(&s, TSR_BUCKET_AGAIN));
    assert_true(s.tries.due >= before + most / 2 && s.tries.due <= tsr__ticks() + most);
  }
  assert_false(tsr__bucket_plan_retry(&s, TSR_BUCKET_AGAIN));
  assert_true(tsr__bucket_plan_retry(&s, TSR_BUCKET_SOON));
  /* What the server asks for is added, up to 30 seconds; not if the answer was cut short. */
  static const struct {
    uint32_t retry_after;
    tsr_http_failure failure;
    uint64_t more;
  } cases[] = {
      {7, TSR_HTTP_WHOLE, 7000}, {30, TSR_HTTP_WHOLE, 30000}, {31, TSR_HTTP_WHOLE, 30000}, {7, TSR_HTTP_CUT, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    s.tries.failed = 0;
    s.http.response.retry_after = cases[i].retry_after;
    s.http.failure = cases[i].failure;
    const uint64_t before = tsr__ticks() + cases[i].more;
    assert_true(tsr__bucket_plan_retry(&s, TSR_BUCKET_AGAIN));
    assert_true(s.tries.due >= before + 25 && s.tries.due <= tsr__ticks() + cases[i].more + 50);
  }
  end();
}

static void test_transfers_that_failed(void **state) {
  static const struct {
    tsr_http_failure failure;
    tsr_bucket_outcome outcome;
    bool fresh;
  } cases[] = {{TSR_HTTP_STALLED, TSR_BUCKET_AGAIN, true},     {TSR_HTTP_CUT, TSR_BUCKET_AGAIN, true},
               {TSR_HTTP_UNREACHED, TSR_BUCKET_AGAIN, false},  {TSR_HTTP_TLS, TSR_BUCKET_FAILED, false},
               {TSR_HTTP_REFUSED, TSR_BUCKET_FAILED, false},   {TSR_HTTP_NO_LIBRARY, TSR_BUCKET_FAILED, false},
               {TSR_HTTP_TOO_LARGE, TSR_BUCKET_FAILED, false}, {TSR_HTTP_CANCELLED, TSR_BUCKET_FAILED, false}};
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin((tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
    (void)asks("");
    const tsr_bucket_outcome outcome = ends(cases[i].failure, "", "");
    if (outcome != cases[i].outcome || s.tries.fresh != cases[i].fresh) fail_msg("case %d: %d", (int)i, (int)outcome);
    assert_non_null(strstr(call.error.message, "s3://abc/x: HEAD: the transfer ended"));
    end();
  }
}

#define CODE(code) "<Error><Code>" code "</Code></Error>"

static void test_what_a_refusal_means(void **state) {
  static const struct {
    tsr_bucket_kind kind;
    const char *head, *body;
    tsr_bucket_outcome outcome;
    int rc;
    const char *says;
  } cases[] = {
      {TSR_BUCKET_PUT, HTTP(500), "", TSR_BUCKET_AGAIN, TSR_UNREACHABLE, "cannot carry it out now (status 500)"},
      {TSR_BUCKET_PUT, HTTP(400), CODE("SlowDown"), TSR_BUCKET_AGAIN, TSR_UNREACHABLE, "(status 400 SlowDown)"},
      {TSR_BUCKET_PUT, HTTP(403) "x-amz-request-id: 17", CODE("AccessDenied"), TSR_BUCKET_FAILED, TSR_DENIED,
       "s3://abc/x: PUT: refused (status 403 AccessDenied, request 17)"},
      {TSR_BUCKET_PUT, HTTP(403), "no <Error>", TSR_BUCKET_FAILED, TSR_DENIED, "refused (status 403)"},
      {TSR_BUCKET_PUT, HTTP(404), "", TSR_BUCKET_FAILED, TSR_ERROR, "no such bucket"},
      {TSR_BUCKET_UPLOAD_CREATE, HTTP(404), "", TSR_BUCKET_FAILED, TSR_ERROR, "upload: no such bucket"},
      {TSR_BUCKET_LIST, HTTP(404), "", TSR_BUCKET_FAILED, TSR_ERROR, "LIST: no such bucket"},
      {TSR_BUCKET_UPLOAD_LIST, HTTP(404), "", TSR_BUCKET_FAILED, TSR_ERROR, "list of uploads: no such bucket"},
      {TSR_BUCKET_HEAD, HTTP(404), "", TSR_BUCKET_FAILED, TSR_NOT_FOUND, "HEAD: no such object"},
      {TSR_BUCKET_GET, HTTP(404), CODE("NoSuchKey"), TSR_BUCKET_FAILED, TSR_NOT_FOUND, "GET: no such object"},
      {TSR_BUCKET_GET, HTTP(404), CODE("NoSuchBucket"), TSR_BUCKET_FAILED, TSR_ERROR, "no such bucket"},
      {TSR_BUCKET_COPY, HTTP(404), "", TSR_BUCKET_FAILED, TSR_NOT_FOUND, "COPY: no such object"},
      {TSR_BUCKET_DELETE, HTTP(404), "", TSR_BUCKET_DONE, 0, NULL},
      {TSR_BUCKET_DELETE, HTTP(404), CODE("NoSuchBucket"), TSR_BUCKET_FAILED, TSR_ERROR, "no such bucket"},
      {TSR_BUCKET_UPLOAD_ABORT, HTTP(404), "", TSR_BUCKET_DONE, 0, NULL},
      {TSR_BUCKET_UPLOAD_ABORT, HTTP(404), CODE("NoSuchUpload"), TSR_BUCKET_DONE, 0, NULL},
      {TSR_BUCKET_UPLOAD_PART, HTTP(404), CODE("NoSuchUpload"), TSR_BUCKET_FAILED, TSR_NOT_FOUND,
       "part: no such upload"},
      {TSR_BUCKET_PUT, HTTP(412), "", TSR_BUCKET_FAILED, TSR_EXISTS, "it exists already"}, /* without new_only */
      {TSR_BUCKET_COPY, HTTP(412), "", TSR_BUCKET_FAILED, TSR_EXISTS, "it exists already"},
      {TSR_BUCKET_GET, HTTP(412), "", TSR_BUCKET_FAILED, TSR_ERROR,
       "GET: the server says that a condition is not met, but the request has none; a proxy may have added one "
       "(status 412)"},
      {TSR_BUCKET_HEAD, HTTP(412), "", TSR_BUCKET_FAILED, TSR_ERROR, "HEAD: the server says that a condition"},
      {TSR_BUCKET_LIST, HTTP(412), CODE("PreconditionFailed"), TSR_BUCKET_FAILED, TSR_ERROR,
       "a proxy may have added one (status 412 PreconditionFailed)"},
      {TSR_BUCKET_UPLOAD_LIST, HTTP(412), "", TSR_BUCKET_FAILED, TSR_ERROR, "the server says that a condition"},
      {TSR_BUCKET_DELETE, HTTP(412), "", TSR_BUCKET_FAILED, TSR_ERROR, "the server says that a condition"},
      {TSR_BUCKET_GET, HTTP(400), CODE("InvalidArgument"), TSR_BUCKET_FAILED, TSR_ERROR,
       "refuses it (status 400 InvalidArgument)"},
      {TSR_BUCKET_GET, HTTP(501), "", TSR_BUCKET_FAILED, TSR_ERROR, "refuses it (status 501)"},
      {TSR_BUCKET_GET, HTTP(307), "", TSR_BUCKET_FAILED, TSR_ERROR, "look at the options endpoint and region"},
      {TSR_BUCKET_HEAD, HTTP(403), "", TSR_BUCKET_FAILED, TSR_DENIED, "HEAD: refused"},
      {TSR_BUCKET_HEAD, HTTP(400), "", TSR_BUCKET_FAILED, TSR_DENIED, "HEAD: refused"},
      {TSR_BUCKET_HEAD, HTTP(401), "", TSR_BUCKET_FAILED, TSR_DENIED, "HEAD: refused"},
      {TSR_BUCKET_HEAD, HTTP(200), "", TSR_BUCKET_AGAIN, TSR_UNREACHABLE, "the answer has no size"},
      {TSR_BUCKET_HEAD, HTTP(199), "", TSR_BUCKET_FAILED, TSR_ERROR, "refuses it"},
      {TSR_BUCKET_DELETE, HTTP(300), "", TSR_BUCKET_FAILED, TSR_ERROR, "refuses it"},
      {TSR_BUCKET_DELETE, HTTP(204), "", TSR_BUCKET_DONE, 0, NULL},
      {TSR_BUCKET_UPLOAD_ABORT, HTTP(204), "", TSR_BUCKET_DONE, 0, NULL},
      {TSR_BUCKET_PUT, HTTP(200) "ETag: \"e\"", "", TSR_BUCKET_DONE, 0, "\"e\""},
      {TSR_BUCKET_UPLOAD_PART, HTTP(200) "ETag: \"e\"", "", TSR_BUCKET_DONE, 0, "\"e\""},
      {TSR_BUCKET_HEAD, HTTP(200) "ETag: \"e\"\nContent-Length: 7\nLast-Modified: Thu, 01 Jan 1970 00:00:07 GMT", "",
       TSR_BUCKET_DONE, 0, "\"e\""},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin((tsr_bucket_call){.kind = cases[i].kind, .source = "y", .upload = {.id = "u", .part = 3}});
    (void)asks("");
    const tsr_bucket_outcome outcome = answers(cases[i].head, cases[i].body);
    if (outcome != cases[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (outcome == TSR_BUCKET_DONE) assert_string_equal(call.result.etag.text, cases[i].says ? cases[i].says : "");
    else if (call.error.code != cases[i].rc || !strstr(call.error.message, cases[i].says))
      fail_msg("case %d: %s", (int)i, call.error.message);
    if (outcome == TSR_BUCKET_DONE && cases[i].kind == TSR_BUCKET_HEAD)
      assert_true(call.result.object_size == 7 && call.result.modified == 7000);
    end();
  }
  /* The caller may name the object itself. A server's words are cut down to letters. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_DELETE, .unnamed = true});
  (void)asks("");
  (void)answers(HTTP(403), CODE("Access'; Denied()"));
  assert_string_equal(call.error.message, "DELETE: refused (status 403 AccessDenied)");
  end();
  char id[120] = HTTP(403) "x-amz-request-id: ", shown[72];
  memset(id + strlen(id), 'i', 80);
  memset(shown, 'i', 71);
  shown[71] = 0;
  begin((tsr_bucket_call){.kind = TSR_BUCKET_DELETE, .unnamed = true});
  (void)asks("");
  (void)answers(id, "");
  const char *told = strstr(call.error.message, "request i");
  assert_non_null(told);
  assert_int_equal(strncmp(told + 8, shown, 71), 0);
  assert_string_equal(told + 8 + 71, ")");
  end();
}

static void test_what_can_be_corrected_is_corrected_once(void **state) {
  setenv("AWS_ACCESS_KEY_ID", "k", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  declare_s3();
  declare("s3://env", &(tsr_scope_options){.provider = "env", .region = "eu-1", .endpoint = "http://127.0.0.1:1"});
  declare("s3://anyone",
          &(tsr_scope_options){.provider = "anonymous", .region = "eu-1", .endpoint = "http://127.0.0.1:1"});
  declare("s3://aws", &(tsr_scope_options){.key_id = "k", .secret = "s", .region = "eu-1"});

  /* Keys: the same ones are not sent again. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_PUT});
  (void)asks("");
  assert_int_equal(answers(HTTP(400), CODE("ExpiredToken")), TSR_BUCKET_SOON);
  tsr_error error = {0};
  assert_int_equal(tsr__bucket_request_make(&s, &error), TSR_DENIED);
  assert_non_null(strstr(error.message, "the keys have expired, and there are no newer ones"));
  s.tries.refused = 0; /* newer ones, and they have expired, too */
  (void)asks("");
  assert_int_equal(answers(HTTP(400), CODE("ExpiredToken")), TSR_BUCKET_FAILED);
  s.tries.refused = s.made.key_number + 1; /* others were refused */
  (void)asks("");
  assert_int_equal(s.tries.refused, 0);
  end();

  /* The region: AWS alone is believed, and not twice. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_PUT});
  (void)asks("");
  assert_int_equal(answers(HTTP(301) "x-amz-bucket-region: eu-9", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "the bucket is in the region 'eu-9', the request was for 'us-east-1'"));
  end();
  begin_at("s3://aws", (tsr_bucket_call){.kind = TSR_BUCKET_PUT});
  (void)asks("");
  assert_string_equal(s.made.region, "eu-1");
  assert_int_equal(answers(HTTP(301) "x-amz-bucket-region: eu-1", ""), TSR_BUCKET_FAILED); /* where it was sent */
  (void)asks("");
  assert_int_equal(answers(HTTP(400), "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-7</Region></Error>"),
                   TSR_BUCKET_SOON);
  (void)asks("");
  assert_string_equal(s.made.region, "eu-7");
  assert_int_equal(answers(HTTP(301) "x-amz-bucket-region: eu-8", ""), TSR_BUCKET_FAILED);
  end();
  begin_at("s3://aws", (tsr_bucket_call){.kind = TSR_BUCKET_PUT}); /* a status that says nothing, with a region */
  (void)asks("");
  assert_int_equal(answers(HTTP(400) "x-amz-bucket-region: eu-7", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "refuses it"));
  (void)asks("");
  assert_int_equal(answers(HTTP(400) "x-amz-bucket-region: eu-8", ""), TSR_BUCKET_SOON);
  end();

  /* The clock. */
  const int64_t now = tsr__bucket_clock();
  char date[TSR_HTTP_DATE_SIZE], head[100];
  tsr__http_date(now + 7200000, date);
  (void)snprintf(head, sizeof head, HTTP(403) "Date: %s", date);
  begin((tsr_bucket_call){.kind = TSR_BUCKET_PUT});
  (void)asks("");
  assert_int_equal(answers(HTTP(403), CODE("RequestTimeTooSkewed")), TSR_BUCKET_FAILED); /* without a date */
  (void)asks("");
  assert_int_equal(answers(head, CODE("RequestTimeTooSkewed")), TSR_BUCKET_SOON);
  const int64_t skew = atomic_load(&s.scope->clocks.skew);
  assert_true(skew > 7190000 && skew < 7201000);
  (void)asks("");
  assert_int_equal(answers(head, CODE("RequestTimeTooSkewed")), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_DENIED);
  end();

  /* A HEAD has no body: the region, the date, and then the keys, of which only some can be newer. */
  static const struct {
    int64_t ahead;
    tsr_bucket_outcome outcome;
  } clocks[] = {{0, TSR_BUCKET_FAILED},
                {-280000, TSR_BUCKET_FAILED},
                {280000, TSR_BUCKET_FAILED},
                {-320000, TSR_BUCKET_SOON},
                {320000, TSR_BUCKET_SOON}};
  for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
    begin_at("s3://anyone", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
    atomic_store(&s.scope->clocks.skew, 10000000);
    (void)asks("");
    tsr__http_date(tsr__bucket_clock() + 10000000 + clocks[i].ahead, date);
    (void)snprintf(head, sizeof head, HTTP(403) "Date: %s", date);
    const tsr_bucket_outcome outcome = answers(head, "");
    if (outcome != clocks[i].outcome) fail_msg("case %d: %d", (int)i, (int)outcome);
    if (outcome == TSR_BUCKET_SOON) { /* no second time */
      atomic_store(&s.scope->clocks.skew, 0);
      (void)asks("");
      assert_int_equal(answers(head, ""), TSR_BUCKET_FAILED);
    }
    end();
  }
  begin_at("s3://env", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  (void)asks("");
  assert_int_equal(answers(HTTP(403) "x-amz-bucket-region: eu-1", ""),
                   TSR_BUCKET_SOON); /* the region is right: the keys */
  assert_true(s.tries.renewed && s.tries.refused == s.made.key_number && s.tries.refused > 0);
  s.tries.refused = 0;
  (void)asks("");
  assert_int_equal(answers(HTTP(400), ""), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_DENIED);
  (void)asks("");
  assert_int_equal(answers(HTTP(400) "x-amz-bucket-region: eu-2", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "in the region 'eu-2'"));
  end();
  begin_at("s3://aws", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  (void)asks("");
  assert_int_equal(answers(HTTP(403) "x-amz-bucket-region: eu-5", ""), TSR_BUCKET_SOON);
  (void)asks("");
  assert_int_equal(answers(HTTP(403) "x-amz-bucket-region: eu-6", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "refused"));
  end();
  unsetenv("AWS_ACCESS_KEY_ID");
  declare("s3://env", &(tsr_scope_options){.provider = "env", .endpoint = "http://127.0.0.1:1"});
  begin_at("s3://env", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  assert_true(tsr__bucket_request_make(&s, &error) < 0);
  assert_non_null(strstr(error.message, "keys for s3://env"));
  end();
  unsetenv("AWS_SECRET_ACCESS_KEY");
}

/* ---- Listings -------------------------------------------------------------------------------- */

#define PAGE(inner) "<ListBucketResult><IsTruncated>false</IsTruncated>" inner "</ListBucketResult>"
#define MORE(t, inner)                                                                                                 \
  "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" t "</NextContinuationToken>" inner        \
  "</ListBucketResult>"
#define DATED(key)                                                                                                     \
  "<Contents><Key>" key "</Key><Size>3</Size><LastModified>1970-01-01T00:00:07Z</LastModified></Contents>"
#define KEY(key)   "<Contents><Key>" key "</Key><Size>3</Size></Contents>"
#define BELOW(key) "<CommonPrefixes><Prefix>" key "</Prefix></CommonPrefixes>"

static void test_pages_of_a_listing(void **state) {
  const tsr_bucket_call list = {.kind = TSR_BUCKET_LIST, .key = "p/", .list.delimiter = '/'};
  declare_s3();
  begin(list);
  (void)asks("");
  assert_non_null(strstr(s.http.url, "/abc?delimiter=%2F&list-type=2&prefix=p%2F"));
  assert_int_equal(answers(HTTP(200), MORE("t1", KEY("p/b") KEY("p/d") BELOW("p/c/"))), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_non_null(strstr(s.http.url, "continuation-token=t1"));
  assert_int_equal(answers(HTTP(200), "<ListBu"), TSR_BUCKET_AGAIN); /* nothing of a page that cannot be read is kept */
  assert_non_null(strstr(call.error.message, "cannot be read"));
  (void)asks("");
  assert_int_equal(answers(HTTP(200), PAGE(KEY("p/e") KEY("outside"))), TSR_BUCKET_AGAIN);
  assert_int_equal(listed.count, 3);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), PAGE(DATED("p/f") KEY("p/e"))), TSR_BUCKET_DONE);
  static const char *const keys[] = {"p/b", "p/c/", "p/d", "p/e", "p/f"};
  assert_int_equal(listed.count, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(listed.at[i].key, keys[i]);
    assert_int_equal(listed.at[i].is_prefix, i == 1);
    assert_int_equal(listed.at[i].size, i == 1 ? 0 : 3);
    assert_int_equal(listed.at[i].modified, i == 4 ? 7000 : 0);
  }
  end();
  /* A page that repeats a key of an earlier one, or begins before it, would never end. */
  static const char *const repeated[] = {PAGE(KEY("p/b")), PAGE(KEY("p/a")), PAGE(KEY("p/c") KEY("p/b"))};
  for (size_t i = 0; i < 3; i++) {
    begin(list);
    (void)asks("");
    assert_int_equal(answers(HTTP(200), MORE("t", KEY("p/b"))), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_int_equal(answers(HTTP(200), repeated[i]), TSR_BUCKET_AGAIN);
    assert_non_null(strstr(call.error.message, "repeated a key"));
    assert_int_equal(listed.count, 1);
    end();
  }
  /* Empty pages are sent by servers, but with another token each, and not without end. */
  begin(list);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), MORE("t", "")), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), MORE("t", "")), TSR_BUCKET_AGAIN);
  assert_non_null(strstr(call.error.message, "an empty page that is not the last one"));
  (void)asks("");
  assert_int_equal(answers(HTTP(200), MORE("t", KEY("p/a"))), TSR_BUCKET_NEXT); /* the same token, but something came */
  assert_int_equal(s.page.empty, 0);
  for (int i = 0; i <= 100; i++) {
    (void)asks("");
    const tsr_bucket_outcome outcome = answers(HTTP(200), i % 2 ? MORE("u", "") : MORE("v", ""));
    assert_int_equal(outcome, i < 100 ? TSR_BUCKET_NEXT : TSR_BUCKET_AGAIN);
  }
  end();
  /* A limit. */
  for (uint64_t most = 1; most <= 2; most++) {
    tsr_bucket_call few = list;
    few.list.most = most;
    begin(few);
    (void)asks("");
    assert_int_equal(answers(HTTP(200), PAGE(KEY("p/a") KEY("p/b"))), most == 2 ? TSR_BUCKET_DONE : TSR_BUCKET_FAILED);
    if (most == 1) assert_int_equal(call.error.code, TSR_TOOBIG);
    end();
  }
  /* More entries than the list has room for at first. */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_LIST, .key = ""});
  for (int i = 0; i < 200; i++) {
    char key[20];
    (void)snprintf(key, sizeof key, "k%03d", i);
    const tsr_bucket_object object = {.key = key, .etag = "e"};
    assert_int_equal(tsr__bucket_add_listed(&call, &object, NULL), TSR_OK);
  }
  assert_string_equal(listed.at[199].key, "k199");
  end();
  begin(list); /* an error behind status 200 */
  (void)asks("");
  assert_int_equal(answers(HTTP(200), CODE("SlowDown")), TSR_BUCKET_AGAIN);
  end();
}

/* ---- Whose object it is ---------------------------------------------------------------------- */

static const tsr_bucket_call mine = {.kind = TSR_BUCKET_PUT, .put = {.bytes = "hello", .size = 5, .new_only = true}};

static void test_an_object_that_exists_may_be_ours(void **state) {
  declare_s3();
  char head[200];
  for (int i = 0; i < 9; i++) {
    begin(mine);
    assert_string_equal(asks("if-none-match"), "*");
    char mark[TSR_BUCKET_MARK_SIZE];
    (void)snprintf(mark, sizeof mark, "%s", asks("content-type"));
    assert_int_equal(strncmp(mark, "application/octet-stream; put=", 30), 0);
    assert_int_equal(strlen(mark), 62);
    assert_int_equal(answers(HTTP(412), ""), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_string_equal(s.http.method, "HEAD");
    switch (i) {
    case 0: /* it has our mark */
      (void)snprintf(head, sizeof head, HTTP(200) "Content-Type: %s\nETag: \"e\"", mark);
      assert_int_equal(answers(head, ""), TSR_BUCKET_DONE);
      assert_string_equal(call.result.etag.text, "\"e\"");
      break;
    case 1: /* another's */
      mark[40] ^= 1;
      (void)snprintf(head, sizeof head, HTTP(200) "Content-Length: 5\nContent-Type: %s", mark);
      assert_int_equal(answers(head, ""), TSR_BUCKET_FAILED);
      assert_int_equal(call.error.code, TSR_EXISTS);
      break;
    case 2: /* it is gone */
      assert_int_equal(answers(HTTP(404), ""), TSR_BUCKET_AGAIN);
      (void)asks("");
      assert_string_equal(s.http.method, "PUT");
      break;
    case 3: assert_int_equal(answers(HTTP(500), ""), TSR_BUCKET_AGAIN); break;
    case 4: /* no mark, and another length, or none */
    case 5:
      assert_int_equal(answers(i == 4 ? HTTP(200) "Content-Length: 6" : HTTP(200), ""), TSR_BUCKET_FAILED);
      assert_int_equal(call.error.code, TSR_EXISTS);
      break;
    default: /* no mark: the bytes decide */
      assert_int_equal(answers(HTTP(200) "Content-Length: 5", ""), TSR_BUCKET_NEXT);
      (void)asks("");
      assert_string_equal(s.http.method, "GET");
      assert_true(s.http.most == 5);
      if (i == 6) assert_int_equal(answers(HTTP(200), "hello"), TSR_BUCKET_DONE);
      if (i == 7) assert_int_equal(answers(HTTP(200), "hellO"), TSR_BUCKET_FAILED);
      if (i == 8) assert_int_equal(ends(TSR_HTTP_TOO_LARGE, HTTP(200), "hello"), TSR_BUCKET_FAILED);
      if (i > 6) assert_int_equal(call.error.code, TSR_EXISTS);
    }
    end();
  }
  begin(mine); /* the comparison fails, or finds less */
  (void)asks("");
  assert_int_equal(answers(HTTP(412), ""), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "Content-Length: 5", ""), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(500), ""), TSR_BUCKET_AGAIN);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), "hell"), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "it exists already (status 412)"));
  end();
  tsr_bucket_call empty = mine; /* the bytes of an empty object say nothing */
  empty.put.size = 0;
  begin(empty);
  (void)asks("");
  assert_int_equal(answers(HTTP(412), ""), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "Content-Length: 0", ""), TSR_BUCKET_FAILED);
  end();
}

static void test_a_completed_upload_may_be_ours(void **state) {
  /* The MD5 of the bytes 0x00 0x11 ... 0xff, once and twice. */
  const tsr_etag etags[2] = {{"\"00112233445566778899aabbccddeeff\""}, {"00112233445566778899aabbccddeeff"}};
  uint8_t parts[32], digest[TSR_MD5_SIZE];
  char expected[64];
  for (int i = 0; i < 32; i++) parts[i] = (uint8_t)(i % 16 * 0x11);
  assert_int_equal(tsr__md5(parts, 32, digest, NULL), TSR_OK);
  int at = snprintf(expected, sizeof expected, HTTP(200) "ETag: \"");
  for (int i = 0; i < TSR_MD5_SIZE; i++) at += snprintf(expected + at, sizeof expected - (size_t)at, "%02x", digest[i]);
  (void)snprintf(expected + at, sizeof expected - (size_t)at, "-2\"");
  const tsr_bucket_call complete = {.kind = TSR_BUCKET_UPLOAD_COMPLETE,
                                    .upload = {.id = "u", .part_count = 2, .etags = etags}};
  declare_s3();
  for (int i = 0; i < 7; i++) {
    begin(complete);
    (void)asks("");
    assert_string_equal(s.http.method, "POST");
    if (i == 6) { /* a server that begins its answer before it knows */
      assert_int_equal(answers(HTTP(200), CODE("NoSuchUpload")), TSR_BUCKET_NEXT);
      (void)asks("");
      assert_string_equal(s.http.method, "HEAD");
      assert_int_equal(answers(expected, ""), TSR_BUCKET_DONE);
      end();
      continue;
    }
    if (i == 5) { /* any other refusal is one */
      assert_int_equal(answers(HTTP(403), CODE("AccessDenied")), TSR_BUCKET_FAILED);
      end();
      continue;
    }
    assert_int_equal(i ? answers(HTTP(404), CODE("NoSuchUpload")) : answers(HTTP(412), ""), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_string_equal(s.http.method, "HEAD");
    if (i < 2) assert_int_equal(answers(expected, ""), TSR_BUCKET_DONE);
    if (i == 2)
      assert_int_equal(answers(HTTP(200) "ETag: \"00112233445566778899aabbccddeeff-2\"", ""), TSR_BUCKET_FAILED);
    if (i == 3) assert_int_equal(answers(HTTP(404), ""), TSR_BUCKET_FAILED);
    if (i == 4) assert_int_equal(answers(HTTP(500), ""), TSR_BUCKET_AGAIN);
    if (i == 2 || i == 3) assert_int_equal(call.error.code, TSR_NOT_FOUND);
    end();
  }
  static const char *const bad[] = {"\"0011\"", "\"zz112233445566778899aabbccddeeff\"", ""};
  for (size_t i = 0; i < 3; i++) {
    tsr_etag wrong[2] = {etags[0], {""}};
    (void)snprintf(wrong[1].text, sizeof wrong[1].text, "%s", bad[i]);
    tsr_bucket_call other = complete;
    other.upload.etags = wrong;
    begin(other);
    (void)asks("");
    assert_int_equal(answers(HTTP(412), ""), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_int_equal(answers(expected, ""), TSR_BUCKET_FAILED);
    end();
  }
}

/* Google completes without a condition: a HEAD asks first, and the type marks the object. */
static void test_a_completion_asks_whether_the_key_is_free(void **state) {
  const tsr_etag etag = {"\"e\""};
  const char *const id = "00112233445566778899aabbccddeeffserver";
  const tsr_bucket_call complete = {
      .kind = TSR_BUCKET_UPLOAD_COMPLETE, .put.new_only = true, .upload = {.id = id, .part_count = 1, .etags = &etag}};
  declare("gcs://abc", &(tsr_scope_options){.key_id = "k", .secret = "s"});
  static const struct {
    const char *head;
    tsr_bucket_outcome outcome;
    int rc;
  } first[] = {{HTTP(200), TSR_BUCKET_FAILED, TSR_EXISTS},
               {HTTP(404), TSR_BUCKET_NEXT, 0},
               {HTTP(403), TSR_BUCKET_FAILED, TSR_DENIED},
               {HTTP(500), TSR_BUCKET_AGAIN, TSR_UNREACHABLE}};
  static const struct {
    const char *head;
    tsr_bucket_outcome outcome;
    int rc;
  } second[] = {
      {HTTP(200) "Content-Type: application/octet-stream; put=00112233445566778899aabbccddeeff", TSR_BUCKET_DONE, 0},
      {HTTP(200) "Content-Type: application/octet-stream; put=00112233445566778899aabbccddeefe", TSR_BUCKET_FAILED,
       TSR_EXISTS},
      {HTTP(404), TSR_BUCKET_FAILED, TSR_NOT_FOUND},
  };
  for (size_t i = 0; i < 4; i++) {
    begin_at("gcs://abc", complete);
    s.step = TSR_BUCKET_STEP_ABSENT;
    (void)asks("");
    assert_string_equal(s.http.method, "HEAD");
    const tsr_bucket_outcome outcome = answers(first[i].head, "");
    if (outcome != first[i].outcome || (first[i].rc && call.error.code != first[i].rc)) fail_msg("case %d", (int)i);
    end();
  }
  for (size_t i = 0; i < 3; i++) {
    begin_at("gcs://abc", complete);
    (void)asks("");
    assert_string_equal(s.http.method, "POST");
    assert_non_null(strstr(s.http.url, "uploadId=server"));
    assert_int_equal(answers(HTTP(404), CODE("NoSuchUpload")), TSR_BUCKET_NEXT);
    (void)asks("");
    const tsr_bucket_outcome outcome = answers(second[i].head, "");
    if (outcome != second[i].outcome || (second[i].rc && call.error.code != second[i].rc)) fail_msg("case %d", (int)i);
    end();
  }
}

/* What the completion itself was told counts more than whose object it is. */
static void test_a_refused_completion_says_why(void **state) {
  const tsr_etag etag = {"\"e\""};
  declare("gcs://abc", &(tsr_scope_options){.key_id = "k", .secret = "s"});
  begin_at("gcs://abc",
           (tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_COMPLETE,
                             .put.new_only = true,
                             .upload = {.id = "00112233445566778899aabbccddeeffu", .part_count = 1, .etags = &etag}});
  (void)asks("");
  assert_int_equal(answers(HTTP(412), ""), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "Content-Type: text/plain", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "it exists already (status 412)"));
  end();
}

/* Azure says its word in a header, too, since a HEAD has no body. */
static void test_words_in_headers(void **state) {
  declare("azure://abc", &(tsr_scope_options){.account = "acc", .key = "a2V5"});
  for (int i = 0; i < 2; i++) {
    begin_at("azure://abc", (tsr_bucket_call){.kind = i ? TSR_BUCKET_HEAD : TSR_BUCKET_GET});
    (void)asks("");
    assert_int_equal(answers(HTTP(404) "x-ms-error-code: ContainerNotFound", ""), TSR_BUCKET_FAILED);
    assert_non_null(
        strstr(call.error.message, "no such container, and tessera makes none (status 404 ContainerNotFound)"));
    end();
  }
}

/* A signature that permits to create blobs alone: only who wants a new one learns that there is one. */
static void test_a_permission_to_create_alone(void **state) {
  const char *head = HTTP(403) "x-ms-error-code: UnauthorizedBlobOverwrite";
  declare("azure://abc", &(tsr_scope_options){.account = "acc", .sas = "sig=x"});
  begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_PUT, .put.new_only = true});
  (void)asks("");
  assert_int_equal(answers(head, ""), TSR_BUCKET_NEXT);
  assert_int_equal(s.step, TSR_BUCKET_STEP_OWNER);
  end();
  begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_PUT});
  (void)asks("");
  assert_int_equal(answers(head, ""), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_DENIED);
  end();
}

/* A shared access signature says when it ends: a server that refuses it then does not say why. */
static void test_a_signature_that_has_ended(void **state) {
  static const struct {
    const char *sas, *head, *says;
  } cases[] = {
      {"se=2026-01-01T00%3A00%3A00Z&sig=x", HTTP(403), "the keys have expired"},
      {"sv=1&se=2026-01-01T00:00:00Z&sig=x", HTTP(403) "Date: Thu, 01 Jan 2026 00:00:01 GMT", "the keys have expired"},
      {"sv=1&se=2026-01-01&sig=x", HTTP(403), "the keys have expired"},
      {"sv=1&se=2026-01-01T00:00:00Z&sig=x", HTTP(404), "refuses it"},
      {"sv=1&se=9999-01-01T00%3a00%3A00Z&sig=x", HTTP(403), "refused"},
      {"sv=1&se=9999-01-01&sig=x", HTTP(403), "refused"},
      {"sv=1&sig=x", HTTP(403), "refused"},
      {"sv=1&se=&sig=x", HTTP(403), "refused"},
      {"sig=x&se=2026-01-01T00:00:00.0000000000000000000000000000000000000000Z", HTTP(403), "refused"},
      {"sig=x&se=%", HTTP(403), "refused"},
      {"sig=x&se", HTTP(403), "refused"},
      {"base=2026-01-01T00:00:00Z&sig=x", HTTP(403), "refused"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    declare("azure://abc", &(tsr_scope_options){.account = "acc", .sas = cases[i].sas});
    begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_GET});
    (void)asks("");
    const int64_t skew = strstr(cases[i].head, "Date") ? INT64_C(1767225600000) - tsr__bucket_clock() : 0;
    atomic_store(&s.scope->clocks.skew, skew); /* as if the clock had been corrected */
    (void)answers(cases[i].head, "<Error><Code>AuthenticationFailed</Code></Error>");
    if (!strstr(call.error.message, cases[i].says)) fail_msg("case %d: %s", (int)i, call.error.message);
    end();
  }
}

/* Azure copies while the caller looks. */
static void test_a_copy_that_goes_on(void **state) {
  declare("azure://abc", &(tsr_scope_options){.account = "acc", .key = "a2V5"});
  begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_COPY, .source = "y"});
  s.step = TSR_BUCKET_STEP_COPYING;
  s.tries.failed = 3;
  (void)asks("");
  assert_string_equal(s.http.method, "HEAD");
  assert_int_equal(answers(HTTP(500), ""), TSR_BUCKET_AGAIN);
  assert_int_equal(s.tries.failed, 3);
  (void)asks("");
  /* However long it takes, and even if nothing is retried: with growing pauses. */
  s.scope->options.retries = 0;
  for (unsigned i = 0; i < 12; i++) {
    assert_int_equal(answers(HTTP(200) "x-ms-copy-status: pending", ""), TSR_BUCKET_LATER);
    assert_int_equal(s.tries.failed, 0);
    const uint64_t pause = TSR_MIN(50u << i, 5000), before = tsr__ticks();
    assert_true(tsr__bucket_plan_retry(&s, TSR_BUCKET_LATER));
    assert_true(s.tries.due >= before + pause && s.tries.due <= tsr__ticks() + pause);
    (void)asks("");
  }
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "x-ms-copy-status: aborted", ""), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "has not completed the copy (status 200 aborted)"));
  (void)asks("");
  assert_int_equal(answers(HTTP(200) "x-ms-copy-status: success\nETag: \"e\"", ""), TSR_BUCKET_DONE);
  assert_string_equal(call.result.etag.text, "\"e\"");
  end();
}

/* ---- Answers in XML -------------------------------------------------------------------------- */

/* An error may lie behind status 200, because these take long and the server begins its answer before it knows. */
static void test_answers_of_copies_and_uploads(void **state) {
  static const tsr_etag etag = {"\"p\""};
  static char long_id[1200] = "<InitiateMultipartUploadResult><UploadId>";
  memset(long_id + strlen(long_id), 'i', 1072 - 32);
  strcat(long_id, "</UploadId></InitiateMultipartUploadResult>");
  static const struct {
    tsr_bucket_kind kind;
    const char *body;
    tsr_bucket_outcome outcome;
    const char *says; /* an ETag, an id, or a part of the message */
  } cases[] = {
      {TSR_BUCKET_COPY, "<CopyObjectResult><ETag>\"e\"</ETag></CopyObjectResult>", TSR_BUCKET_DONE, "\"e\""},
      {TSR_BUCKET_COPY, CODE("InternalError"), TSR_BUCKET_AGAIN, "cannot carry it out now"},
      {TSR_BUCKET_COPY, "<Copy", TSR_BUCKET_AGAIN, "cannot be read"},
      {TSR_BUCKET_UPLOAD_COMPLETE,
       "<CompleteMultipartUploadResult><ETag>\"e-1\"</ETag></CompleteMultipartUploadResult>", TSR_BUCKET_DONE,
       "\"e-1\""},
      {TSR_BUCKET_UPLOAD_COMPLETE, CODE("AccessDenied"), TSR_BUCKET_FAILED, "refuses it"},
      {TSR_BUCKET_UPLOAD_CREATE,
       "<InitiateMultipartUploadResult><UploadId>u7</UploadId></InitiateMultipartUploadResult>", TSR_BUCKET_DONE, "u7"},
      {TSR_BUCKET_UPLOAD_CREATE, CODE("SlowDown"), TSR_BUCKET_AGAIN, "cannot carry it out now"},
      {TSR_BUCKET_UPLOAD_CREATE, "<", TSR_BUCKET_AGAIN, "cannot be read"},
      {TSR_BUCKET_UPLOAD_CREATE, long_id, TSR_BUCKET_FAILED, "id is too long"},
  };
  declare_s3();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin((tsr_bucket_call){
        .kind = cases[i].kind, .source = "a b", .upload = {.id = "u", .part_count = 1, .etags = &etag}});
    (void)asks("");
    const tsr_bucket_outcome outcome = answers(HTTP(200), cases[i].body);
    if (outcome != cases[i].outcome) fail_msg("case %d: %d: %s", (int)i, (int)outcome, call.error.message);
    const char *done = cases[i].kind == TSR_BUCKET_UPLOAD_CREATE ? call.result.id : call.result.etag.text;
    if (outcome == TSR_BUCKET_DONE) assert_string_equal(done, cases[i].says);
    else if (!strstr(call.error.message, cases[i].says)) fail_msg("case %d: %s", (int)i, call.error.message);
    end();
  }
}

#define UPLOADS(more, inner) "<ListMultipartUploadsResult>" more inner "</ListMultipartUploadsResult>"
#define NEXT(key, id)                                                                                                  \
  "<IsTruncated>true</IsTruncated><NextKeyMarker>" key "</NextKeyMarker><NextUploadIdMarker>" id "</"                  \
  "NextUploadIdMarker>"
#define UPLOAD(key, id) "<Upload><Key>" key "</Key><UploadId>" id "</UploadId></Upload>"

static void test_pages_of_uploads(void **state) {
  declare_s3();
  begin((tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_LIST, .key = "p/"});
  (void)asks("");
  assert_null(strstr(s.http.url, "marker"));
  assert_int_equal(answers(HTTP(200), UPLOADS(NEXT("p/a", "1"), UPLOAD("p/a", "1"))), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_non_null(strstr(s.http.url, "key-marker=p%2Fa&prefix=p%2F&upload-id-marker=1&uploads="));
  assert_int_equal(answers(HTTP(200), UPLOADS(NEXT("p/a", "2"), UPLOAD("p/a", "2"))), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), UPLOADS(NEXT("p/a", "2"), UPLOAD("p/a", "3"))), TSR_BUCKET_AGAIN);
  assert_non_null(strstr(call.error.message, "a page that does not advance"));
  (void)asks("");
  assert_int_equal(answers(HTTP(200), UPLOADS(NEXT("p/b", "2"), "")), TSR_BUCKET_AGAIN);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), CODE("AccessDenied")), TSR_BUCKET_FAILED);
  (void)asks("");
  assert_int_equal(answers(HTTP(200), UPLOADS("", UPLOAD("p/b", "3"))), TSR_BUCKET_DONE);
  assert_int_equal(listed.count, 3);
  assert_string_equal(listed.at[2].key, "p/b");
  assert_string_equal(listed.at[2].etag, "3");
  end();
  /* Where uploads are marked, an id begins with the mark, which no server lists: what was listed can be ended. */
  declare("gcs://abc", &(tsr_scope_options){.key_id = "k", .secret = "s"});
  const char *const id = "a-name-that-the-server-has-given-it";
  begin_at("gcs://abc", (tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_LIST, .key = "p/"});
  (void)asks("");
  assert_int_equal(answers(HTTP(200), UPLOADS("", UPLOAD("p/a", "a-name-that-the-server-has-given-it"))),
                   TSR_BUCKET_DONE);
  char listed_id[100];
  (void)snprintf(listed_id, sizeof listed_id, "%s", listed.at[0].etag);
  end();
  begin_at("gcs://abc", (tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_ABORT, .key = "p/a", .upload.id = listed_id});
  (void)asks("");
  assert_string_equal(strstr(s.http.url, "uploadId=") + strlen("uploadId="), id);
  end();
}

/* ---- Many deletions -------------------------------------------------------------------------- */

static void test_a_server_may_delete_one_at_a_time(void **state) {
  static const char *const keys[] = {"a<&>\"\r", "b"};
  static const char *const refusals[] = {HTTP(400), HTTP(405), HTTP(501), HTTP(404)};
  const tsr_bucket_call deletion = {.kind = TSR_BUCKET_DELETE_MANY, .keys = keys, .key_count = 2};
  declare_s3();
  begin(deletion);
  (void)asks("");
  assert_string_equal(s.http.method, "POST");
  assert_string_equal(asks("content-type"), "application/xml");
  const char *const sent = "<Delete><Quiet>true</Quiet><Object><Key>a&lt;&amp;&gt;&quot;&#13;</Key></"
                           "Object><Object><Key>b</Key></Object></Delete>";
  assert_int_equal(s.http.body_size, strlen(sent));
  assert_memory_equal(s.http.body, sent, strlen(sent));
  assert_int_equal(answers(HTTP(200), "<DeleteResult/>"), TSR_BUCKET_DONE);
  end();
  for (size_t i = 0; i < 4; i++) {
    begin(deletion);
    (void)asks("");
    assert_int_equal(answers(refusals[i], ""), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_string_equal(s.http.method, "DELETE");
    assert_int_equal(answers(HTTP(204), ""), TSR_BUCKET_NEXT);
    (void)asks("");
    assert_non_null(strstr(s.http.url, "/abc/b"));
    assert_int_equal(answers(refusals[i % 3], ""), TSR_BUCKET_FAILED);
    (void)asks("");
    assert_int_equal(answers(HTTP(404), ""), TSR_BUCKET_DONE);
    end();
  }
  begin(deletion); /* an object that is gone already, and the next one */
  s.deleted.singly = true;
  (void)asks("");
  assert_int_equal(answers(HTTP(404), ""), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_non_null(strstr(s.http.url, "/abc/b"));
  end();
  static const char *const odd[] = {"\x01",
                                    "b"}; /* a key that XML cannot represent goes alone, and that is no refusal */
  begin((tsr_bucket_call){.kind = TSR_BUCKET_DELETE_MANY, .keys = odd, .key_count = 2});
  (void)asks("");
  assert_string_equal(s.http.method, "DELETE");
  assert_int_equal(answers(HTTP(400), ""), TSR_BUCKET_FAILED);
  assert_false(s.deleted.singly);
  end();
  static const struct {
    const char *code;
    tsr_bucket_outcome outcome;
  } failures[] = {{"NoSuchKey", TSR_BUCKET_DONE}, {"AccessDenied", TSR_BUCKET_FAILED}, {"Odd", TSR_BUCKET_AGAIN}};
  for (size_t i = 0; i < 3; i++) {
    char body[200];
    (void)snprintf(body, sizeof body, "<DeleteResult><Error><Key>b</Key><Code>%s</Code></Error></DeleteResult>",
                   failures[i].code);
    begin(deletion);
    (void)asks("");
    assert_int_equal(answers(HTTP(200), body), failures[i].outcome);
    if (i > 0) assert_non_null(strstr(call.error.message, i == 1 ? "refused for b" : "s3://abc: DELETE: failed for b"));
    end();
  }
  begin(deletion); /* without the bucket nothing was deleted, whatever the first object is asked for */
  (void)asks("");
  assert_int_equal(answers(HTTP(404), CODE("NoSuchBucket")), TSR_BUCKET_NEXT);
  (void)asks("");
  assert_int_equal(answers(HTTP(404), CODE("NoSuchBucket")), TSR_BUCKET_FAILED);
  assert_non_null(strstr(call.error.message, "no such bucket"));
  end();
  begin(deletion); /* a 404 that means something else */
  (void)asks("");
  assert_int_equal(answers(HTTP(404), CODE("XAdminUserNotFound")), TSR_BUCKET_FAILED);
  assert_int_equal(call.error.code, TSR_DENIED);
  end();
  static const char *const others[] = {HTTP(403), HTTP(409), HTTP(503)};
  for (size_t i = 0; i < 3; i++) {
    begin(deletion);
    (void)asks("");
    assert_int_equal(answers(others[i], ""), i ? TSR_BUCKET_AGAIN : TSR_BUCKET_FAILED);
    assert_false(s.deleted.singly);
    end();
  }
}

/* A token would be readable on the way to a server without TLS that is not this machine. */
static void test_tokens_are_not_sent_in_the_clear(void **state) {
  declare("gcs://abc", &(tsr_scope_options){.token = "secret", .endpoint = "http://127.0.0.1:1"});
  begin_at("gcs://abc", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  assert_string_equal(asks("authorization"), "Bearer secret");
  s.scope->endpoint.host = "store.example";
  assert_int_equal(tsr__bucket_request_make(&s, NULL), TSR_DENIED);
  s.scope->endpoint.scheme = "https";
  assert_int_equal(tsr__bucket_request_make(&s, NULL), TSR_OK);
  end();
  declare("azure://abc", &(tsr_scope_options){.sas = "sig=x", .endpoint = "http://127.0.0.1:1/acc"});
  begin_at("azure://abc", (tsr_bucket_call){.kind = TSR_BUCKET_HEAD});
  (void)asks("");
  assert_non_null(strstr(s.http.url, "sig=x"));
  s.scope->endpoint.host = "store.example";
  assert_int_equal(tsr__bucket_request_make(&s, NULL), TSR_DENIED);
  end();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_a_get_of_a_whole_object),
      TEST(test_a_range_is_what_was_asked_for),
      TEST(test_a_range_has_room),
      TEST(test_the_rest_is_asked_for),
      TEST(test_a_suffix),
      TEST(test_a_suffix_in_two_requests),
      TEST(test_a_suffix_of_a_short_object),
      TEST(test_pauses_between_tries),
      TEST(test_transfers_that_failed),
      TEST(test_what_a_refusal_means),
      TEST(test_what_can_be_corrected_is_corrected_once),
      TEST(test_pages_of_a_listing),
      TEST(test_an_object_that_exists_may_be_ours),
      TEST(test_a_completed_upload_may_be_ours),
      TEST(test_a_completion_asks_whether_the_key_is_free),
      TEST(test_a_refused_completion_says_why),
      TEST(test_words_in_headers),
      TEST(test_a_permission_to_create_alone),
      TEST(test_a_signature_that_has_ended),
      TEST(test_a_copy_that_goes_on),
      TEST(test_answers_of_copies_and_uploads),
      TEST(test_pages_of_uploads),
      TEST(test_a_server_may_delete_one_at_a_time),
      TEST(test_tokens_are_not_sent_in_the_clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
