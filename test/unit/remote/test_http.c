/* test_http.c: the HTTP client against a server on the loopback interface that answers well and badly: bodies of every
 * kind, cut, reset, stalled, endless; many requests at once; cancelling; forks while requests are in flight. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

#include "loopback_server.h"
#include "moved_calendar.h"
#include "remote/http.h"

#if defined(__SANITIZE_THREAD__)
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static loopback_server server;
static tsr_memory root;
static const tsr_http_transport transport = {.connect_ms = 5000, .stall_ms = 10000};

/* A server in a process of its own, for tests that fork: a thread of this process may hold a lock of the sanitizer's
 * allocator at that moment, and the child would wait for it for ever. */
static uint16_t port_apart;
static int life_apart = -1; /* the other process ends when this is closed */

static bool start_apart(void) {
  int life[2], port[2];
  char byte;
  if (pipe(life) != 0 || pipe(port) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    close(life[1]);
    if (!loopback_start(&server) || write(port[1], &server.port, sizeof server.port) < 0) _exit(1);
    while (read(life[0], &byte, 1) < 0) {}
    _exit(0);
  }
  close(life[0]);
  close(port[1]);
  life_apart = life[1];
  (void)fcntl(life_apart, F_SETFD, FD_CLOEXEC);
  const bool good = child > 0 && read(port[0], &port_apart, sizeof port_apart) == (ssize_t)sizeof port_apart;
  close(port[0]);
  return good;
}

static int start_server(void **state) {
  if (!start_apart()) return 1;
  tsr__memory_init_root(&root, NULL, NULL);
  return loopback_start(&server) ? 0 : 1;
}

static int stop_server(void **state) {
  loopback_stop(&server);
  return 0;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A request and the URL that it borrows. */
typedef struct ask {
  tsr_http_request request;
  char url[300];
} ask;

static void prepare(ask *a, const char *method, const char *path) {
  *a = (ask){0};
  snprintf(a->url, sizeof a->url, "http://127.0.0.1:%u%s", server.port, path);
  a->request.method = method;
  a->request.url = a->url;
  a->request.transport = &transport;
  a->request.most = 100 << 20;
  a->request.received.memory = &root;
}

static void finish(ask *a) {
  tsr_http_request *one = &a->request;
  while (!tsr__http_finished(one)) assert_int_equal(tsr__http_wait(&one, 1, UINT64_MAX, &root, NULL), 1);
}

static void run(ask *a) {
  tsr__http_start(&a->request);
  finish(a);
}

static void get(ask *a, const char *path) {
  prepare(a, "GET", path);
  run(a);
}

static void drop(ask *a) { tsr__buffer_release(&a->request.received); }

static void assert_pattern(const void *bytes, uint64_t size) {
  for (uint64_t i = 0; i < size; i++) assert_int_equal(((const uint8_t *)bytes)[i], (uint8_t)(i * 7));
}

static void assert_failed(const ask *a, tsr_http_failure failure, int rc) {
  if (a->request.failure != failure) fprintf(stderr, "%s: %s\n", a->url, a->request.error.message);
  assert_int_equal(a->request.failure, failure);
  assert_int_equal(a->request.rc, rc);
  assert_int_equal(a->request.error.code, rc);
  assert_non_null(strstr(a->request.error.message, "127.0.0.1"));
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void test_a_body_arrives_whole(void **state) {
  static const uint64_t sizes[] = {0, 1, 1000, 65535, 65536, 65537, 200000, 3000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int chunked = 0; chunked < 2; chunked++) {
      char path[60];
      ask a;
      snprintf(path, sizeof path, "/%s/%llu", chunked ? "chunked" : "bytes", (unsigned long long)sizes[i]);
      get(&a, path);
      assert_int_equal(a.request.rc, TSR_OK);
      assert_int_equal(a.request.response.status, 200);
      assert_int_equal(a.request.response.has_length, !chunked);
      assert_int_equal(a.request.size, sizes[i]);
      assert_int_equal(a.request.received.size, sizes[i]);
      assert_int_equal(a.request.bytes_received, sizes[i]);
      assert_pattern(a.request.received.data, sizes[i]);
      drop(&a);

      uint8_t *place = malloc(sizes[i] + 1);
      prepare(&a, "GET", path);
      a.request.into = place;
      a.request.most = sizes[i];
      run(&a);
      assert_int_equal(a.request.rc, TSR_OK);
      assert_int_equal(a.request.size, sizes[i]);
      assert_null(a.request.received.data);
      assert_pattern(place, sizes[i]);
      free(place);
    }
  }
}

static void test_headers_are_read(void **state) {
  ask a;
  get(&a, "/range/100/299/1000");
  const tsr_http_response *answer = &a.request.response;
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(answer->status, 206);
  assert_true(answer->has_length && answer->has_range);
  assert_int_equal(answer->content_length, 200);
  assert_int_equal(answer->range_first, 100);
  assert_int_equal(answer->range_last, 299);
  assert_int_equal(answer->range_size, 1000);
  assert_int_equal(answer->retry_after, 17);
  assert_string_equal(answer->etag, "\"0123abc-7\"");
  assert_string_equal(answer->request_id, "4442587FB7D0A2F9");
  assert_string_equal(answer->bucket_region, "eu-north-1");
  assert_int_equal(answer->last_modified, 784111777000);
  assert_int_equal(answer->date, 1795342830000);
  drop(&a);
  get(&a, "/interim/10");
  assert_int_equal(a.request.response.status, 200);
  assert_string_equal(a.request.response.etag, "");
  assert_int_equal(a.request.size, 10);
  drop(&a);
  prepare(&a, "HEAD", "/bytes/1");
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(a.request.response.content_length, 12345);
  assert_int_equal(a.request.size, 0);
  drop(&a);
}

static void test_a_request_sends_what_it_is_given_and_little_more(void **state) {
  static const char *const headers[] = {"X-One: 1", "Authorization: AWS4 something", "X-Empty:"};
  ask a;
  prepare(&a, "GET", "/head");
  a.request.headers = headers;
  a.request.header_count = 3;
  run(&a);
  tsr__buffer_append_u8(&a.request.received, 0, NULL);
  char *text = (char *)a.request.received.data, expected[300];
  snprintf(expected, sizeof expected,
           "GET /head HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: */*\r\nX-One: 1\r\nAuthorization: AWS4 something\r\n"
           "X-Empty:\r\n\r\n",
           server.port);
  assert_string_equal(text, expected);
  drop(&a);
  prepare(&a, "POST", "/head");
  a.request.body = "abc";
  a.request.body_size = 3;
  run(&a);
  tsr__buffer_append_u8(&a.request.received, 0, NULL);
  snprintf(expected, sizeof expected,
           "POST /head HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n", server.port);
  assert_string_equal((char *)a.request.received.data, expected);
  drop(&a);
  prepare(&a, "GET", "/head");
  strcat(a.url, "/../a%2Fb/./c?x=%20&y"); /* nothing is normalized */
  run(&a);
  assert_int_equal(a.request.response.status, 404);
  drop(&a);
}

static void test_a_body_is_sent_whole(void **state) {
  static const uint64_t sizes[] = {0, 1, 70000, 2500000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    for (int post = 0; post < 2; post++) {
      uint8_t *body = malloc(sizes[i] + 1);
      for (uint64_t at = 0; at < sizes[i]; at++) body[at] = (uint8_t)(at * 7);
      ask a;
      prepare(&a, post ? "POST" : "PUT", sizes[i] ? "/echo" : "/bytes/0");
      a.request.body = body;
      a.request.body_size = sizes[i];
      run(&a);
      assert_int_equal(a.request.rc, TSR_OK);
      assert_int_equal(a.request.response.status, 200);
      assert_int_equal(a.request.bytes_sent, sizes[i]);
      assert_int_equal(a.request.size, sizes[i]);
      assert_pattern(a.request.received.data, sizes[i]);
      drop(&a);
      free(body);
    }
  }
  ask a;
  prepare(&a, "DELETE", "/bytes/5");
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(a.request.size, 5);
  drop(&a);
}

static void test_a_refusal_before_the_body_is_read_is_an_answer(void **state) {
  const uint64_t size = 8 << 20;
  uint8_t *body = calloc(size, 1);
  for (int i = 0; i < 20; i++) {
    ask a;
    prepare(&a, "PUT", "/refuse");
    a.request.body = body;
    a.request.body_size = size;
    run(&a);
    /* the server resets the connection, because it leaves bytes unread; the answer may or may not be seen */
    assert_true(a.request.failure == TSR_HTTP_WHOLE ? a.request.response.status == 403
                                                    : a.request.failure == TSR_HTTP_CUT);
    drop(&a);
  }
  free(body);
}

static void test_the_text_of_an_error_is_kept_apart(void **state) {
  uint8_t place[10] = "untouched";
  ask a;
  prepare(&a, "GET", "/status/404/100");
  a.request.into = place;
  a.request.most = sizeof place;
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK); /* a whole answer, if not a good one */
  assert_int_equal(a.request.response.status, 404);
  assert_int_equal(a.request.size, 100);
  assert_pattern(a.request.received.data, 100);
  assert_string_equal((char *)place, "untouched");
  drop(&a);
  get(&a, "/status/500/300000"); /* its end is dropped */
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(a.request.size, TSR_HTTP_ERROR_MAX);
  assert_pattern(a.request.received.data, TSR_HTTP_ERROR_MAX);
  assert_int_equal(a.request.bytes_received, 300000);
  drop(&a);
  prepare(&a, "GET", "/status/500/300");
  a.request.received.memory = NULL;
  a.request.into = place;
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(a.request.size, 0);
  get(&a, "/status/301/10"); /* redirects are not followed */
  assert_int_equal(a.request.response.status, 301);
  drop(&a);
  get(&a, "/status/204/0");
  assert_int_equal(a.request.rc, TSR_OK);
  drop(&a);
}

/* ---- Bad answers ----------------------------------------------------------------------------- */

static void test_a_body_that_is_cut_short_says_how_much_arrived(void **state) {
  ask a;
  get(&a, "/cut/100000/70000");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  assert_int_equal(a.request.response.status, 200);
  assert_int_equal(a.request.size, 70000);
  assert_pattern(a.request.received.data, 70000);
  drop(&a);
  get(&a, "/cutchunked/70000");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  assert_int_equal(a.request.size, 70000);
  assert_pattern(a.request.received.data, 70000);
  drop(&a);
  get(&a, "/cut/10/0");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  assert_int_equal(a.request.size, 0);
  drop(&a);
}

static void test_a_reset_is_an_error(void **state) {
  ask a;
  get(&a, "/reset");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  assert_int_equal(a.request.response.status, 0);
  drop(&a);
  get(&a, "/resetin/5000");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  assert_int_equal(a.request.size, 5000);
  drop(&a);
  get(&a, "/garbage");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  drop(&a);
}

static void test_a_stall_ends_in_time(void **state) {
  static const tsr_http_transport hasty = {.connect_ms = 5000, .stall_ms = 300};
  static const char *const paths[] = {"/silent", "/stall/1000/0", "/stall/100000/1234"};
  for (size_t i = 0; i < 3; i++) {
    ask a;
    prepare(&a, "GET", paths[i]);
    a.request.transport = &hasty;
    const double begin = seconds();
    run(&a);
    assert_failed(&a, TSR_HTTP_STALLED, TSR_UNREACHABLE);
    assert_true(seconds() - begin >= 0.28 && seconds() - begin < 3);
    assert_int_equal(a.request.size, i == 2 ? 1234 : 0);
    drop(&a);
  }
  const uint64_t size = 20 << 20; /* more than the buffers of the sockets: a server that does not read */
  uint8_t *body = calloc(size, 1);
  ask a;
  prepare(&a, "PUT", "/silent");
  a.request.body = body;
  a.request.body_size = size;
  a.request.transport = &hasty;
  run(&a);
  assert_failed(&a, TSR_HTTP_STALLED, TSR_UNREACHABLE);
  drop(&a);
  free(body);
  prepare(&a, "GET", "/slow/30/50"); /* slow is not stalled */
  a.request.transport = &hasty;
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK);
  assert_int_equal(a.request.size, 30);
  drop(&a);
}

static void test_an_answer_that_is_too_large_is_refused(void **state) {
  uint8_t place[1001];
  ask a;
  prepare(&a, "GET", "/bytes/1001");
  a.request.into = place;
  a.request.most = 1000;
  run(&a);
  assert_failed(&a, TSR_HTTP_TOO_LARGE, TSR_TOOBIG);
  drop(&a);
  static const char *const paths[] = {"/endless/200", "/chunked/5000000", "/bytes/5000000"};
  for (size_t i = 0; i < 3; i++) {
    prepare(&a, "GET", paths[i]);
    a.request.most = 1 << 20;
    run(&a);
    assert_failed(&a, TSR_HTTP_TOO_LARGE, TSR_TOOBIG);
    assert_true(a.request.received.capacity < 4 << 20);
    drop(&a);
  }
  get(&a, "/endless/503");
  assert_failed(&a, TSR_HTTP_TOO_LARGE, TSR_TOOBIG);
  drop(&a);
  get(&a, "/heads");
  assert_failed(&a, TSR_HTTP_CUT, TSR_UNREACHABLE);
  drop(&a);
}

static void test_a_server_that_is_not_there_is_an_error(void **state) {
  ask a;
  prepare(&a, "GET", "/");
  snprintf(a.url, sizeof a.url, "http://127.0.0.1:1/secret?token=secret");
  run(&a);
  assert_failed(&a, TSR_HTTP_UNREACHED, TSR_UNREACHABLE);
  assert_null(strstr(a.request.error.message, "secret"));
  drop(&a);
  static const tsr_http_transport hasty = {.connect_ms = 500};
  prepare(&a, "GET", "/"); /* plain HTTP where TLS is expected: the handshake gets no answer */
  a.request.transport = &hasty;
  snprintf(a.url, sizeof a.url, "https://127.0.0.1:%u/bytes/1", server.port);
  run(&a);
  assert_failed(&a, TSR_HTTP_UNREACHED, TSR_UNREACHABLE);
  drop(&a);
}

static void test_wrong_requests_are_not_sent(void **state) {
  static const char *const urls[] = {"http://example.com/",
                                     "http://127.0.0.1.example.com/",
                                     "http://127.1/",
                                     "http://localhost.example.com/",
                                     "http://127.0.0.1@example.com/",
                                     "http://user:pass@127.0.0.1/",
                                     "http://127.0.0.1:80\\@example.com/",
                                     "http://[::2]/",
                                     "http://",
                                     "http:///x",
                                     "file:///etc/passwd",
                                     "ftp://127.0.0.1/",
                                     "HTTP://127.0.0.1/",
                                     "https://127.0.0.1/a b",
                                     "https://127.0.0.1/\r\nX: y",
                                     "127.0.0.1",
                                     ""};
  const uint32_t before = server.requests;
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    ask a;
    prepare(&a, "GET", "/");
    a.request.url = urls[i];
    tsr__http_start(&a.request);
    assert_true(tsr__http_finished(&a.request));
    if (a.request.failure != TSR_HTTP_REFUSED) fprintf(stderr, "%s\n", urls[i]);
    assert_int_equal(a.request.failure, TSR_HTTP_REFUSED);
    assert_int_equal(a.request.rc, TSR_ERROR);
    drop(&a);
  }
  static const char *const lines[] = {"X-A: b\r\nX-C: d", "no colon", ": no name", "X\nY: z"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    ask a;
    prepare(&a, "GET", "/head");
    a.request.headers = &lines[i];
    a.request.header_count = 1;
    run(&a);
    assert_failed(&a, TSR_HTTP_REFUSED, TSR_ERROR);
    drop(&a);
  }
  ask a;
  prepare(&a, "CONNECT", "/head");
  run(&a);
  assert_failed(&a, TSR_HTTP_REFUSED, TSR_ERROR);
  drop(&a);
  assert_int_equal(server.requests, before);
}

/* ---- Connections and proxies ----------------------------------------------------------------- */

static void test_connections_are_used_again(void **state) {
  ask a;
  get(&a, "/bytes/10");
  drop(&a);
  const uint32_t before = server.connections;
  for (int i = 0; i < 20; i++) {
    get(&a, "/bytes/10");
    assert_int_equal(a.request.size, 10);
    drop(&a);
  }
  assert_int_equal(server.connections, before);
  prepare(&a, "GET", "/bytes/10");
  a.request.fresh = true;
  run(&a);
  assert_int_equal(server.connections, before + 1);
  drop(&a);
}

static void test_a_kept_connection_that_the_server_has_closed_does_no_harm(void **state) {
  uint8_t body[5000];
  memset(body, 'b', sizeof body);
  for (int i = 0; i < 100; i++) { /* the next request may find the connection closed before or after it is sent */
    ask a;
    get(&a, "/last");
    assert_int_equal(a.request.size, 16);
    drop(&a);
    prepare(&a, "PUT", "/echo");
    a.request.body = body;
    a.request.body_size = sizeof body;
    run(&a);
    assert_int_equal(a.request.rc, TSR_OK);
    assert_int_equal(a.request.size, sizeof body);
    assert_memory_equal(a.request.received.data, body, sizeof body);
    drop(&a);
  }
}

static void test_environment_variables_do_not_count(void **state) {
  static const char *const names[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  for (size_t i = 0; i < 5; i++) setenv(names[i], "http://127.0.0.1:1", 1);
  ask a;
  get(&a, "/bytes/10");
  assert_int_equal(a.request.size, 10);
  drop(&a);
  for (size_t i = 0; i < 5; i++) unsetenv(names[i]);
  setenv("no_proxy", "*", 1);
  setenv("NO_PROXY", "*", 1);
  char proxy[60];
  snprintf(proxy, sizeof proxy, "http://127.0.0.1:%u", server.port);
  const tsr_http_transport through = {.connect_ms = 5000, .stall_ms = 5000, .proxy = proxy, .plain_http = true};
  prepare(&a, "GET", "/");
  snprintf(a.url, sizeof a.url, "http://bucket.example.invalid/head");
  a.request.transport = &through;
  run(&a);
  assert_int_equal(a.request.rc, TSR_OK);
  tsr__buffer_append_u8(&a.request.received, 0, NULL);
  assert_non_null(strstr((char *)a.request.received.data, "GET http://bucket.example.invalid/head HTTP/1.1\r\n"));
  drop(&a);
  /* libcurl repeats a proxy that it does not understand, with its password. */
  static const char *const odd[] = {"http://u:HIDDEN@127.0.0.1:port", "odd://u:HIDDEN@127.0.0.1:1",
                                    "http://u:HIDDEN@[::1"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    const tsr_http_transport wrong = {.connect_ms = 5000, .stall_ms = 5000, .proxy = odd[i]};
    prepare(&a, "GET", "/bytes/10");
    a.request.transport = &wrong;
    run(&a);
    assert_true(a.request.rc < 0 && a.request.failure != TSR_HTTP_WHOLE);
    if (strstr(a.request.error.message, "HIDDEN")) fail_msg("%s", a.request.error.message);
    drop(&a);
  }
  unsetenv("no_proxy");
  unsetenv("NO_PROXY");
}

/* ---- Many requests --------------------------------------------------------------------------- */

#define MANY 100

/* Waits for all of them, in the order in which they end. */
static void finish_many(ask *asks, unsigned count) {
  tsr_http_request *list[300];
  unsigned left = count;
  for (unsigned i = 0; i < count; i++) list[i] = &asks[i].request;
  while (left > 0) {
    assert_int_equal(tsr__http_wait(list, count, 30000, &root, NULL), 1);
    for (unsigned i = 0; i < count; i++)
      if (list[i] && tsr__http_finished(list[i])) list[i] = NULL, left--;
  }
  assert_int_equal(tsr__http_wait(list, count, UINT64_MAX, &root, NULL), 0); /* none is left */
}

static void test_requests_run_at_the_same_time(void **state) {
  static ask asks[MANY];
  const double begin = seconds();
  for (unsigned i = 0; i < MANY; i++) {
    prepare(&asks[i], "GET", "/slow/5/60");
    tsr__http_start(&asks[i].request);
  }
  finish_many(asks, MANY);
  assert_true(seconds() - begin < 10); /* 30 seconds one by one */
  for (unsigned i = 0; i < MANY; i++) {
    assert_int_equal(asks[i].request.rc, TSR_OK);
    assert_int_equal(asks[i].request.size, 5);
    drop(&asks[i]);
  }
  assert_int_equal(tsr__http_running(), 0);
}

static void test_more_requests_than_run_at_one_time_wait_their_turn(void **state) {
  static ask asks[300];
  for (unsigned i = 0; i < 300; i++) {
    char path[60];
    snprintf(path, sizeof path, "/%s/%u", i % 2 ? "bytes" : "chunked", i * 1000);
    prepare(&asks[i], "GET", path);
    tsr__http_start(&asks[i].request);
  }
  finish_many(asks, 300);
  for (unsigned i = 0; i < 300; i++) {
    assert_int_equal(asks[i].request.rc, TSR_OK);
    assert_int_equal(asks[i].request.size, i * 1000);
    assert_pattern(asks[i].request.received.data, i * 1000);
    drop(&asks[i]);
  }
}

static void *ask_often(void *argument) {
  static const char *const paths[] = {"/bytes/100000", "/cut/1000/500", "/chunked/200000", "/status/404/20", "/reset"};
  static const uint64_t sizes[] = {100000, 500, 200000, 20, 0};
  uint64_t wrong = 0;
  for (unsigned i = 0; i < 40; i++) {
    ask a;
    tsr_http_request *one = &a.request;
    prepare(&a, "GET", paths[i % 5]);
    tsr__http_start(one);
    while (tsr__http_wait(&one, 1, 30000, NULL, NULL) == 0) {}
    wrong += a.request.size != sizes[i % 5] || (a.request.rc == TSR_OK) != (i % 5 != 1 && i % 5 != 4);
    drop(&a);
  }
  return (void *)(uintptr_t)wrong;
}

static void test_many_threads_may_ask(void **state) {
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_often, NULL), 0);
  for (int i = 0; i < 8; i++) {
    void *wrong;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void test_a_body_stays_within_its_budget(void **state) {
  tsr_memory small;
  tsr__memory_init(&small, &root, 300000, "memory_mb");
  static const char *const paths[] = {"/bytes/1000000", "/chunked/1000000"};
  for (size_t i = 0; i < 2; i++) {
    ask a;
    prepare(&a, "GET", paths[i]);
    a.request.received.memory = &small;
    run(&a);
    assert_int_equal(a.request.failure, TSR_HTTP_NO_MEMORY);
    assert_int_equal(a.request.rc, TSR_BUDGET);
    assert_non_null(strstr(a.request.error.message, "memory_mb"));
    drop(&a);
    assert_int_equal(small.used, 0);
  }
  tsr__memory_init(&small, &root, 1000, "memory_mb");
  ask a;
  prepare(&a, "GET", "/bytes/10");
  a.request.received.memory = &small;
  run(&a);
  assert_int_equal(a.request.rc, TSR_BUDGET);
  drop(&a);
}

static pthread_t own_thread;
static _Atomic uint32_t strangers;

static void *reallocate_here(void *argument, void *pointer, uint64_t size) {
  if (!pthread_equal(pthread_self(), own_thread)) strangers++;
  if (size > 0) return realloc(pointer, size);
  free(pointer);
  return NULL;
}

static void test_the_io_thread_does_not_allocate(void **state) {
  tsr_memory own;
  own_thread = pthread_self();
  tsr__memory_init_root(&own, reallocate_here, NULL);
  static const char *const paths[] = {"/chunked/3000000", "/bytes/3000000", "/status/500/100000", "/cutchunked/200000"};
  for (size_t i = 0; i < 4; i++) {
    ask a;
    prepare(&a, "GET", paths[i]);
    a.request.received.memory = &own;
    run(&a);
    drop(&a);
  }
  assert_int_equal(strangers, 0);
  assert_int_equal(own.used, 0);
}

/* ---- Waiting and cancelling ------------------------------------------------------------------ */

static bool say_stop(void *argument) { return seconds() > *(double *)argument; }

static void test_waiting_ends_by_time_and_by_the_host(void **state) {
  ask a;
  tsr_http_request *one = &a.request;
  prepare(&a, "GET", "/silent");
  tsr__http_start(one);
  double begin = seconds();
  assert_int_equal(tsr__http_wait(&one, 1, 100, &root, NULL), 0);
  assert_true(seconds() - begin >= 0.09 && seconds() - begin < 2);
  double when = seconds() + 0.1;
  tsr_memory host;
  tsr_error error = {0};
  tsr__memory_init_root(&host, NULL, NULL);
  host.cancel.requested = say_stop;
  host.cancel.argument = &when;
  begin = seconds();
  assert_int_equal(tsr__http_wait(&one, 1, UINT64_MAX, &host, &error), TSR_INTERRUPT);
  assert_true(seconds() - begin < 2);
  assert_false(tsr__http_finished(one));
  tsr__http_cancel(one);
  assert_true(tsr__http_finished(one));
  assert_failed(&a, TSR_HTTP_CANCELLED, TSR_INTERRUPT);
  tsr__http_cancel(one); /* once more does nothing */
  assert_int_equal(a.request.failure, TSR_HTTP_CANCELLED);
  drop(&a);
  tsr_http_request never = {0};
  assert_true(tsr__http_finished(&never));
  tsr__http_cancel(&never);
}

/* The machine's clock is set back by an hour during the waits. */
static void test_waiting_is_not_stretched_by_the_calendar(void **state) {
  calendar_moved = 3600;
  test_waiting_ends_by_time_and_by_the_host(state);
  calendar_moved = 0;
}

static void test_requests_are_cancelled_at_every_stage(void **state) {
  static ask asks[200];
  static const char *const paths[] = {"/silent", "/endless/200", "/slow/1000/5", "/bytes/1000000", "/chunked/300000"};
  for (unsigned round = 0; round < 5; round++) {
    for (unsigned i = 0; i < 200; i++) { /* some are still in the queue, some are paused */
      prepare(&asks[i], "GET", paths[i % 5]);
      tsr__http_start(&asks[i].request);
    }
    usleep(round * 5000);
    for (unsigned i = 0; i < 200; i++) {
      const unsigned at = i * 77 % 200;
      tsr__http_cancel(&asks[at].request);
      assert_true(asks[at].request.failure == TSR_HTTP_CANCELLED || asks[at].request.failure == TSR_HTTP_WHOLE);
      drop(&asks[at]);
      memset(&asks[at], 0xee, sizeof asks[at]); /* nobody looks at it any more */
    }
    assert_int_equal(tsr__http_running(), 0);
  }
}

static void test_a_closed_connection_raises_no_sigpipe(void **state) {
  const uint64_t size = 4 << 20;
  uint8_t *body = calloc(size, 1);
  struct sigaction before;
  assert_int_equal(sigaction(SIGPIPE, NULL, &before), 0);
  assert_ptr_equal(before.sa_handler, SIG_DFL); /* it would end this program */
  for (int i = 0; i < 20; i++) {
    ask a;
    prepare(&a, "PUT", "/refuse");
    a.request.body = body;
    a.request.body_size = size;
    run(&a);
    drop(&a);
  }
  struct sigaction after;
  assert_int_equal(sigaction(SIGPIPE, NULL, &after), 0);
  assert_ptr_equal(after.sa_handler, SIG_DFL); /* and libcurl has left it alone */
  free(body);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* In a child: the inherited requests have ended, own ones work, in grandchildren, too. Returns the exit code. */
static int live_as_child(ask *inherited, unsigned count, int generations) {
  alarm(30); /* a hang is a failure */
  for (unsigned i = 0; i < count; i++) {
    tsr_http_request *one = &inherited[i].request;
    const bool ended = tsr__http_finished(one);
    if (!ended || tsr__http_wait(&one, 1, 10, NULL, NULL) != 1) return 2;
    tsr__http_cancel(one);
  }
  if (generations > 0) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) _exit(live_as_child(inherited, count, generations - 1));
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 3;
  }
  for (int i = 0; i < 5; i++) {
    ask a;
    get(&a, "/chunked/100000");
    if (a.request.rc != TSR_OK || a.request.size != 100000) return 4;
    drop(&a);
  }
  return 0;
}

static void test_a_child_asks_by_itself(void **state) {
  static ask asks[MANY];
  const uint16_t port = server.port;
  server.port = port_apart;
  for (int round = 0; round < 5; round++) {
    for (unsigned i = 0; i < MANY; i++) {
      prepare(&asks[i], "GET", i % 4 == 0 ? "/slow/20/10" : i % 4 == 1 ? "/chunked/400000" : "/bytes/300000");
      tsr__http_start(&asks[i].request);
    }
    usleep((unsigned)round * 3000);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(live_as_child(asks, MANY, round % 2));
    finish_many(asks, MANY);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (unsigned i = 0; i < MANY; i++) {
      assert_int_equal(asks[i].request.rc, TSR_OK);
      assert_pattern(asks[i].request.received.data, asks[i].request.size);
      drop(&asks[i]);
    }
  }
  server.port = port;
}

static ask late[20];

/* Runs after the handlers of libcurl and of http.c: nothing hangs, and nothing is sent. */
static void close_late(void) {
  ask one_more;
  for (unsigned i = 0; i < 20; i++) {
    tsr_http_request *one = &late[i].request;
    if (i % 2) tsr__http_cancel(one);
    if (tsr__http_wait(&one, 1, UINT64_MAX, NULL, NULL) != 1 || one->failure == TSR_HTTP_WHOLE) _exit(6);
  }
  get(&one_more, "/bytes/10");
  if (one_more.request.failure != TSR_HTTP_UNREACHED) _exit(7);
  drop(&one_more);
}

/* A program of its own, because a forked child has leaks: what its parent's threads had. */
static int exit_while_requests_run(const char *port) {
  alarm(30);
  server.port = (uint16_t)atoi(port);
  tsr__memory_init_root(&root, NULL, NULL);
  atexit(close_late);
  for (unsigned i = 0; i < 20; i++) {
    prepare(&late[i], "GET", i % 2 ? "/slow/10000/1" : "/silent");
    late[i].request.received.memory = NULL;
    late[i].request.into = malloc(10000);
    late[i].request.most = 10000;
    tsr__http_start(&late[i].request);
  }
  usleep(30000);
  return tsr__http_running() > 0 ? 0 : 5;
}

static void test_a_process_may_exit_while_requests_run(void **state) {
  char port[20], name[] = "/proc/self/exe", *arguments[] = {name, port, NULL};
  snprintf(port, sizeof port, "%u", server.port);
  const pid_t child = fork();
  if (child == 0) {
    execv(name, arguments);
    _exit(77);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) {
    print_message("SKIPPED: there is no /proc\n");
    skip();
  }
  assert_int_equal(status, 0);
}

int main(int count, char **arguments) {
  if (count > 1) return exit_while_requests_run(arguments[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_child_asks_by_itself), /* first: no other thread of this process is at work yet */
      cmocka_unit_test(test_a_body_arrives_whole),
      cmocka_unit_test(test_headers_are_read),
      cmocka_unit_test(test_a_request_sends_what_it_is_given_and_little_more),
      cmocka_unit_test(test_a_body_is_sent_whole),
      cmocka_unit_test(test_a_refusal_before_the_body_is_read_is_an_answer),
      cmocka_unit_test(test_the_text_of_an_error_is_kept_apart),
      cmocka_unit_test(test_a_body_that_is_cut_short_says_how_much_arrived),
      cmocka_unit_test(test_a_reset_is_an_error),
      cmocka_unit_test(test_a_stall_ends_in_time),
      cmocka_unit_test(test_an_answer_that_is_too_large_is_refused),
      cmocka_unit_test(test_a_server_that_is_not_there_is_an_error),
      cmocka_unit_test(test_wrong_requests_are_not_sent),
      cmocka_unit_test(test_connections_are_used_again),
      cmocka_unit_test(test_a_kept_connection_that_the_server_has_closed_does_no_harm),
      cmocka_unit_test(test_environment_variables_do_not_count),
      cmocka_unit_test(test_requests_run_at_the_same_time),
      cmocka_unit_test(test_more_requests_than_run_at_one_time_wait_their_turn),
      cmocka_unit_test(test_many_threads_may_ask),
      cmocka_unit_test(test_a_body_stays_within_its_budget),
      cmocka_unit_test(test_the_io_thread_does_not_allocate),
      cmocka_unit_test(test_waiting_ends_by_time_and_by_the_host),
      cmocka_unit_test(test_waiting_is_not_stretched_by_the_calendar),
      cmocka_unit_test(test_requests_are_cancelled_at_every_stage),
      cmocka_unit_test(test_a_closed_connection_raises_no_sigpipe),
      cmocka_unit_test(test_a_process_may_exit_while_requests_run),
  };
  return cmocka_run_group_tests(tests, start_server, stop_server);
}
