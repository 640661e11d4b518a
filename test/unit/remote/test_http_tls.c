/* test_http_tls.c: TLS: whom the client trusts, many connections, and forks while connections are open. The server is
 * test/support/tls_server.py; without the openssl program, which makes its certificate, the tests are skipped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "remote/http.h"

#if defined(__SANITIZE_THREAD__)
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static tsr_memory root;
static char folder[] = "/tmp/tessera-tls-XXXXXX", ca_file[60];
static pid_t program;
static int program_input;
static unsigned port; /* 0: no server */

static int start_server(void **state) {
  int in[2], out[2];
  char text[20] = "";
  tsr__memory_init_root(&root, NULL, NULL);
  if (!mkdtemp(folder) || pipe(in) != 0 || pipe(out) != 0) return 1;
  snprintf(ca_file, sizeof ca_file, "%s/cert.pem", folder);
  program = fork();
  if (program == 0) {
    char python[] = TEST_PYTHON, script[] = TLS_SERVER, *arguments[] = {python, script, folder, NULL};
    dup2(in[0], 0);
    dup2(out[1], 1);
    for (int i = 0; i < 2; i++) close(in[i]), close(out[i]);
    execvp(python, arguments);
    _exit(77);
  }
  close(in[0]);
  close(out[1]);
  program_input = in[1];
  for (size_t size = 0; size + 1 < sizeof text;) {
    const ssize_t got = read(out[0], text + size, sizeof text - 1 - size);
    if (got <= 0) break;
    size += (size_t)got;
    if (strchr(text, '\n')) break;
  }
  close(out[0]);
  port = (unsigned)strtoul(text, NULL, 10);
  return 0;
}

/* Without a server, which has printed a line "SKIPPED: reason", all tests are skipped. */
static int stop_server(void **state) {
  char key_file[60];
  int status;
  close(program_input);
  waitpid(program, &status, 0);
  snprintf(key_file, sizeof key_file, "%s/key.pem", folder);
  unlink(ca_file);
  unlink(key_file);
  rmdir(folder);
  const bool skipped = !port && WIFEXITED(status) && WEXITSTATUS(status) == 77;
  return port > 0 || skipped ? 0 : 1;
}

static void begin(tsr_http_request *request, const tsr_http_transport *transport, const char *host, unsigned size) {
  char url[100];
  snprintf(url, sizeof url, "https://%s:%u/bytes/%u", host, port, size);
  *request = (tsr_http_request){.method = "GET",
                                .url = url, /* copied */
                                .transport = transport,
                                .most = 1 << 20,
                                .received.memory = &root};
  tsr__http_start(request);
}

static void end(tsr_http_request *request) {
  while (tsr__http_wait(&request, 1, 30000, &root, NULL) == 0) {}
}

static void end_and_check(tsr_http_request *request, unsigned size) {
  end(request);
  if (request->rc < 0) fprintf(stderr, "%s\n", request->error.message);
  assert_int_equal(request->rc, TSR_OK);
  assert_int_equal(request->size, size);
  for (unsigned i = 0; i < size; i++) assert_int_equal(request->received.data[i], (uint8_t)(i * 7));
  tsr__buffer_release(&request->received);
}

static void test_a_trusted_server_answers(void **state) {
  if (!port) skip();
  const tsr_http_transport trusting = {.ca_file = ca_file};
  for (unsigned size = 0; size < 300000; size += 59999) {
    tsr_http_request request;
    begin(&request, &trusting, "localhost", size);
    end_and_check(&request, size);
  }
}

static void test_a_server_that_is_not_trusted_gets_no_request(void **state) {
  if (!port) skip();
  const struct {
    tsr_http_transport transport;
    const char *host;
  } cases[] = {{{0}, "localhost"}, /* the system does not know the certificate */
               {{.ca_file = ca_file}, "127.0.0.1"}, /* it is not for this name */
               {{.ca_file = "/nonexistent.pem"}, "localhost"},
               {{.ca_file = "/dev/null"}, "localhost"},
               {{.plain_http = true}, "localhost"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int again = 0; again < 2; again++) { /* a connection of a trusting request is not used by another one */
      const tsr_http_transport trusting = {.ca_file = ca_file};
      tsr_http_request request;
      begin(&request, &cases[i].transport, cases[i].host, 10);
      end(&request);
      assert_int_equal(request.failure, TSR_HTTP_TLS);
      assert_int_equal(request.rc, TSR_UNREACHABLE);
      assert_int_equal(request.response.status, 0);
      assert_non_null(strstr(request.error.message, cases[i].host));
      tsr__buffer_release(&request.received);
      begin(&request, &trusting, "localhost", 10);
      end_and_check(&request, 10);
    }
  }
}

#define MANY 100

static void test_many_requests_at_once(void **state) {
  static tsr_http_request requests[MANY];
  if (!port) skip();
  const tsr_http_transport trusting = {.ca_file = ca_file, .connect_ms = 30000};
  for (unsigned i = 0; i < MANY; i++) begin(&requests[i], &trusting, "localhost", i * 100);
  for (unsigned i = 0; i < MANY; i++) end_and_check(&requests[i], i * 100);
}

static void test_a_child_has_connections_of_its_own(void **state) {
  static tsr_http_request requests[20];
  if (!port) skip();
  const tsr_http_transport trusting = {.ca_file = ca_file, .connect_ms = 30000};
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned i = 0; i < 20; i++) begin(&requests[i], &trusting, "localhost", 100000);
    usleep(round * 7000);
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      for (unsigned i = 0; i < 5; i++) {
        tsr_http_request request;
        begin(&request, &trusting, "localhost", 50000);
        end(&request);
        if (request.rc != TSR_OK || request.size != 50000) _exit(1);
      }
      _exit(0);
    }
    int status;
    for (unsigned i = 0; i < 20; i++) end_and_check(&requests[i], 100000);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (unsigned i = 0; i < 20; i++) { /* the parent's connections are whole */
      begin(&requests[0], &trusting, "localhost", 1000);
      end_and_check(&requests[0], 1000);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_trusted_server_answers),
      cmocka_unit_test(test_a_server_that_is_not_trusted_gets_no_request),
      cmocka_unit_test(test_many_requests_at_once),
      cmocka_unit_test(test_a_child_has_connections_of_its_own),
  };
  return cmocka_run_group_tests(tests, start_server, stop_server);
}
