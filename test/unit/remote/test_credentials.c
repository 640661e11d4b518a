/* test_credentials.c: where keys come from: options, the environment, the files of a temporary HOME, and services that a
 * thread of this test plays on loopback. Each test sees which requests came; no variable leads to another machine. */
#define _GNU_SOURCE 1 /* memmem */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <malloc.h> /* malloc_usable_size */
#endif

#include "counted_memory.h"
#include "moved_calendar.h"
#include "base/clock.h"
#include "remote/credentials.h"
#include "remote/http_response.h"
#include "tessera_host.h"

static counted_memory counted;
static tsr_memory memory;
static tsr_error error;
static char home[64];

/* ---- A server on loopback -------------------------------------------------------------------- */

static struct {
  int listener;
  unsigned busy; /* so many requests get 503 first */
  unsigned port;
  pthread_t thread;
  struct {
    const char *begins; /* of the request: "GET /path" */
    unsigned status;
    char body[2048];
  } answers[8];
  unsigned count;
  const char *header; /* more headers of answers */
  char log[8192]; /* everything that came */
} server;

static void serve_one(int client) {
  char request[4096], answer[4096];
  size_t size = 0;
  ssize_t got;
  while (size < sizeof request - 1 && (got = recv(client, request + size, sizeof request - 1 - size, 0)) > 0) {
    size += (size_t)got;
    request[size] = 0;
    const char *end = strstr(request, "\r\n\r\n"), *length = strstr(request, "Content-Length: ");
    if (end && (!length || size >= (size_t)(end + 4 - request) + strtoull(length + 16, NULL, 10))) break;
  }
  strncat(server.log, request, sizeof server.log - strlen(server.log) - 2);
  strcat(server.log, "\n");
  unsigned status = server.busy > 0 ? 503 : 404;
  const char *body = "";
  for (unsigned i = 0; i < server.count && server.busy == 0; i++)
    if (strncmp(request, server.answers[i].begins, strlen(server.answers[i].begins)) == 0)
      status = server.answers[i].status, body = server.answers[i].body;
  server.busy -= server.busy > 0;
  const int n = snprintf(answer, sizeof answer, "HTTP/1.1 %u X\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                         status, server.header ? server.header : "", strlen(body), body);
  (void)!send(client, answer, (size_t)n, MSG_NOSIGNAL);
}

static void *serve(void *argument) {
  for (int client; (client = accept(server.listener, NULL, NULL)) >= 0; close(client)) serve_one(client);
  return NULL;
}

static int start_server(void **state) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  server.listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(server.listener, (struct sockaddr *)&address, size) || listen(server.listener, 8)) return 1;
  if (getsockname(server.listener, (struct sockaddr *)&address, &size)) return 1;
  server.port = ntohs(address.sin_port);
  return pthread_create(&server.thread, NULL, serve, NULL);
}

static int stop_server(void **state) {
  shutdown(server.listener, SHUT_RDWR);
  close(server.listener);
  return pthread_join(server.thread, NULL);
}

static void answer_with(const char *begins, unsigned status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(server.answers[server.count].body, sizeof server.answers[0].body, format, arguments);
  va_end(arguments);
  server.answers[server.count].status = status;
  server.answers[server.count++].begins = begins;
}

/* ---- Fixtures -------------------------------------------------------------------------------- */

static const char *const variables[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_REGION",
                                        "AWS_DEFAULT_REGION",
                                        "AWS_PROFILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_ENDPOINT_URL_STS",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "AZURE_STORAGE_CONNECTION_STRING",
                                        "AZURE_STORAGE_ACCOUNT",
                                        "AZURE_STORAGE_KEY",
                                        "AZURE_STORAGE_SAS_TOKEN",
                                        "AZURE_TENANT_ID",
                                        "AZURE_CLIENT_ID",
                                        "AZURE_CLIENT_SECRET",
                                        "AZURE_AUTHORITY_HOST",
                                        "AZURE_FEDERATED_TOKEN_FILE",
                                        "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                                        "IDENTITY_ENDPOINT",
                                        "IDENTITY_HEADER",
                                        "GOOGLE_APPLICATION_CREDENTIALS",
                                        "CLOUDSDK_CONFIG",
                                        "GCE_METADATA_HOST",
                                        "NO_GCE_CHECK"};

static void set_url(const char *variable, const char *path) {
  char url[200];
  (void)snprintf(url, sizeof url, "http://127.0.0.1:%u%s", server.port, path);
  setenv(variable, url, 1);
}

static int setup(void **state) {
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) unsetenv(variables[i]);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:9", 1); /* nobody asks the machine that runs the test */
  setenv("NO_GCE_CHECK", "true", 1);
  strcpy(home, "/tmp/tessera-home-XXXXXX");
  if (!mkdtemp(home)) return 1;
  setenv("HOME", home, 1);
  server.count = server.busy = 0;
  server.log[0] = 0;
  error = (tsr_error){0};
  counted = (counted_memory){.left = -1};
  tsr__memory_init_root(&memory, counted_reallocate, &counted);
  return 0;
}

static int teardown(void **state) {
  char command[200];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", home);
  return system(command) != 0 || counted.blocks != 0;
}

static void write_file(const char *name, const char *text) {
  char path[200];
  (void)snprintf(path, sizeof path, "%s/.aws", home);
  (void)mkdir(path, 0700);
  (void)snprintf(path, sizeof path, "%s/%s", home, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static const char *time_text(int seconds) { /* of now and so many seconds */
  static char text[32];
  const time_t when = time(NULL) + seconds;
  struct tm parts;
  (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&when, &parts));
  return text;
}

static tsr_provider provider_of(tsr_provider_kind kind) {
  tsr_provider provider;
  const tsr_provider_options options = {.kind = kind};
  assert_int_equal(tsr__provider_open(&provider, &memory, &options, &error), TSR_OK);
  return provider;
}

/* Gets keys and compares them: "id secret token region". */
static void expect(tsr_provider *provider, uint64_t refused, const char *expected) {
  tsr_credentials c = {0};
  char text[300];
  const int rc = tsr__credentials_get(provider, refused, &c, &error);
  if (rc < 0) print_error("%s\n", error.message);
  assert_int_equal(rc, TSR_OK);
  (void)snprintf(text, sizeof text, "%s %s %s %s", c.key_id, c.secret, c.token, c.region);
  assert_string_equal(text, expected);
  tsr__credentials_release(&c);
  assert_null(c.key_id);
}

/* Asks for other keys than those with a number, which were refused. */
static void expect_no_other(tsr_provider *provider, uint64_t refused, int code, const char *says) {
  tsr_credentials c = {0};
  const int rc = tsr__credentials_get(provider, refused, &c, &error);
  if (rc != code)
    print_error("%d: %s, token %s; expected %s\n", rc, rc < 0 ? error.message : "", rc < 0 ? "" : c.token, says);
  assert_int_equal(rc, code);
  if (!strstr(error.message, says)) print_error("%s\nlacks: %s\n", error.message, says);
  assert_non_null(strstr(error.message, says));
  assert_null(strstr(error.message, "HIDDEN"));
}

static void expect_failure(tsr_provider *provider, int code, const char *says) {
  expect_no_other(provider, 0, code, says);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void test_keys_of_options(void **state) {
  tsr_provider provider;
  tsr_provider_options options = {
      .kind = TSR_PROVIDER_KEYS, .key_id = "ID", .secret = "HIDDEN", .session_token = "TOKEN"};
  assert_int_equal(tsr__provider_open(&provider, &memory, &options, &error), TSR_OK);
  setenv("AWS_ACCESS_KEY_ID", "other", 1);
  expect(&provider, 0, "ID HIDDEN TOKEN ");
  expect(&provider, 1, "ID HIDDEN TOKEN "); /* refused, but there are no others: the number stays */
  tsr__provider_wipe(&provider);
  expect_failure(&provider, TSR_PERM, "forgotten");
  tsr__provider_release(&provider);
  tsr__provider_release(&provider);
  const char *wrong[][2] = {{"", "HIDDEN"}, {"ID", ""}, {"I D", "HIDDEN"}, {"ID", "HIDDEN\n"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    options.key_id = wrong[i][0], options.secret = wrong[i][1];
    assert_int_equal(tsr__provider_open(&provider, &memory, &options, &error), TSR_DENIED);
    assert_null(strstr(error.message, "HIDDEN"));
  }
  provider = provider_of(TSR_PROVIDER_ANONYMOUS);
  expect(&provider, 0, "   ");
  tsr__provider_release(&provider);
}

static void test_environment(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_ENV);
  expect_failure(&provider, TSR_DENIED, "AWS_ACCESS_KEY_ID is not set");
  setenv("AWS_ACCESS_KEY_ID", "ID", 1);
  expect_failure(&provider, TSR_DENIED, "AWS_SECRET_ACCESS_KEY is not set");
  setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN", 1);
  setenv("AWS_DEFAULT_REGION", "eu-west-1", 1);
  expect(&provider, 0, "ID HIDDEN  eu-west-1");
  setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
  setenv("AWS_REGION", "eu-west-2", 1);
  expect(&provider, 0, "ID HIDDEN  eu-west-1"); /* kept */
  expect(&provider, 1, "ID HIDDEN TOKEN eu-west-2"); /* refused: looked for again */
  assert_int_equal(provider.now.number, 2);
  expect(&provider, 2, "ID HIDDEN TOKEN eu-west-2"); /* the same ones: the number stays */
  assert_int_equal(provider.now.number, 2);
  setenv("AWS_REGION", "evil.example/", 1);
  expect(&provider, 2, "ID HIDDEN TOKEN ");
  tsr__provider_release(&provider);
  provider = provider_of(TSR_PROVIDER_ENV);
  setenv("AWS_REGION", "", 1); /* an empty variable is a missing one */
  setenv("AWS_SESSION_TOKEN", "", 1);
  expect(&provider, 0, "ID HIDDEN  eu-west-1");
  tsr__provider_release(&provider);
  provider = provider_of(TSR_PROVIDER_ENV);
  setenv("AWS_SECRET_ACCESS_KEY", "", 1);
  expect_failure(&provider, TSR_DENIED, "AWS_SECRET_ACCESS_KEY is not set");
  tsr__provider_release(&provider);
}

static void test_profiles(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_PROFILE);
  expect_failure(&provider, TSR_DENIED, "no profile 'default' in ~/.aws");
  write_file(".aws/credentials",
             "# a comment\r\n[ default ]\r\n  aws_access_key_id = nested\r\naws_access_key_id = ID1\r\n"
             ";x\naws_secret_access_key=HIDDEN1\n[b]\naws_access_key_id=ID2\naws_secret_access_key = HIDDEN/=2\n"
             "aws_session_token = TOKEN2\n[empty]\n[broken\naws_access_key_id=no\n[late]\naws_access_key_id=ID3");
  write_file(".aws/config", "[default]\nregion = eu-west-1\n[profile b]\nregion=eu-west-2\n[profile late]\n"
                            "aws_access_key_id = ID4\naws_secret_access_key = HIDDEN4\n"
                            "[profile tool]\ncredential_process = /bin/false\n[b]\nregion = wrong\n");
  expect(&provider, 0, "ID1 HIDDEN1  eu-west-1");
  setenv("AWS_PROFILE", "b", 1);
  expect(&provider, 1, "ID2 HIDDEN/=2 TOKEN2 eu-west-2");
  setenv("AWS_PROFILE", "late", 1); /* without a secret in the first file */
  expect(&provider, 2, "ID4 HIDDEN4  ");
  tsr__provider_release(&provider);
  provider = provider_of(TSR_PROVIDER_PROFILE);
  setenv("AWS_PROFILE", "empty", 1);
  expect_failure(&provider, TSR_DENIED, "profile 'empty' has no aws_access_key_id");
  setenv("AWS_PROFILE", "tool", 1);
  expect_failure(&provider, TSR_UNSUPPORTED, "profile 'tool' has credential_process");
  setenv("AWS_PROFILE", "none", 1);
  expect_failure(&provider, TSR_DENIED, "no profile 'none'");
  unsetenv("AWS_PROFILE");
  setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/zero", 1);
  expect_failure(&provider, TSR_PERM, "/dev/zero: not an ordinary file");
  setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/for/tessera", 1);
  expect_failure(&provider, TSR_DENIED, "no aws_access_key_id");
  tsr__provider_release(&provider);
}

static void test_auto_takes_the_first_place_with_keys(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_AUTO);
  expect_failure(
      &provider, TSR_DENIED,
      "no keys: environment: AWS_ACCESS_KEY_ID is not set; no profile 'default' in ~/.aws; web identity: "
      "AWS_WEB_IDENTITY_TOKEN_FILE is not set; container: none; instance metadata: AWS_EC2_METADATA_DISABLED is set");
  write_file(".aws/credentials", "[default]\naws_access_key_id=ID1\naws_secret_access_key=HIDDEN1\n");
  expect(&provider, 0, "ID1 HIDDEN1  ");
  setenv("AWS_ACCESS_KEY_ID", "ID", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "HIDDEN", 1);
  expect(&provider, 1, "ID HIDDEN  ");
  tsr__provider_release(&provider);
  assert_string_equal(server.log, "");
}

static void test_container(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_AUTO);
  set_url("AWS_CONTAINER_CREDENTIALS_FULL_URI", "/keys?id=1");
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "pass", 1);
  answer_with(
      "GET /keys?id=1 ", 200,
      "{\"RoleArn\":\"x\", \"more\": {\"AccessKeyId\": [1, -2.5e3, null, {\"a\":\"\\\"}\"}]}, \"AccessKeyId\" : \"ID\","
      "\"SecretAccessKey\":\"HIDDEN\\/1\",\"Token\":\"TOKEN\",\"Expiration\":\"%s\"}",
      time_text(3600));
  expect(&provider, 0, "ID HIDDEN/1 TOKEN ");
  expect(&provider, 0, "ID HIDDEN/1 TOKEN ");
  assert_non_null(strstr(server.log, "Authorization: pass\r\n"));
  assert_null(strstr(strstr(server.log, "GET /keys") + 1, "GET /keys")); /* one request */
  write_file("token", "from a file\n");
  char path[100];
  (void)snprintf(path, sizeof path, "%s/token", home);
  setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
  server.count = 0;
  answer_with("GET /keys?id=1 ", 200, "{\"AccessKeyId\":\"ID2\",\"SecretAccessKey\":\"HIDDEN2\"}");
  expect(&provider, 1, "ID2 HIDDEN2  ");
  assert_non_null(strstr(server.log, "Authorization: from a file\r\n"));
  tsr__provider_release(&provider);
  provider = provider_of(TSR_PROVIDER_AUTO);
  static const char *const bad[] = {
      "",
      "[]",
      "{",
      "{\"AccessKeyId\":\"HIDDEN\"",
      "{\"AccessKeyId\":1}",
      "{\"a\":{{{{{{{{{{{{",
      "{\"AccessKeyId\":\"ID\",\"SecretAccessKey\":\"HIDDEN\\u0041\",\"Expiration\":\"soon\"}",
      "{\"AccessKeyId\":\"I\\u0041\\n\",\"SecretAccessKey\":\"HIDDEN"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    server.count = 0;
    answer_with("GET /keys?id=1 ", 200, "%s", bad[i]);
    expect_failure(&provider, TSR_DENIED, "container: the answer");
  }
  server.count = 0;
  answer_with("GET /keys?id=1 ", 403, "HIDDEN");
  expect_failure(&provider, TSR_DENIED, "container: status 403");
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://store.example/keys", 1);
  expect_failure(&provider, TSR_DENIED, "neither https nor local");
  setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example/keys", 1);
  expect_failure(&provider, TSR_DENIED, "neither https nor local");
  atomic_store(&provider.no_metadata, true);
  expect_failure(&provider, TSR_PERM, "refused");
  tsr__provider_release(&provider);
}

static void answer_as_instance(const char *id, int seconds) {
  server.count = 0;
  answer_with("PUT /latest/api/token ", 200, "SESSION");
  answer_with("GET /latest/meta-data/iam/security-credentials/ ", 200, "the-role\n");
  answer_with("GET /latest/meta-data/iam/security-credentials/the-role ", 200,
              "{\"Code\":\"Success\",\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"HIDDEN\",\"Token\":\"TOKEN\","
              "\"Expiration\":\"%s\"}",
              id, time_text(seconds));
  answer_with("GET /latest/meta-data/placement/region ", 200, "eu-west-3");
}

static void test_instance_metadata(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_AUTO);
  unsetenv("AWS_EC2_METADATA_DISABLED");
  set_url("AWS_EC2_METADATA_SERVICE_ENDPOINT", "/");
  answer_as_instance("ID1", 3600);
  expect(&provider, 0, "ID1 HIDDEN TOKEN eu-west-3");
  assert_non_null(strstr(server.log, "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n"));
  assert_non_null(strstr(strstr(server.log, "the-role "), "X-aws-ec2-metadata-token: SESSION\r\n"));
  server.log[0] = 0;
  answer_as_instance("ID2", 3600);
  expect(&provider, 0, "ID1 HIDDEN TOKEN eu-west-3");
  assert_string_equal(server.log, ""); /* kept for an hour */
  expect(&provider, 1, "ID2 HIDDEN TOKEN eu-west-3");
  tsr__provider_release(&provider);

  provider = provider_of(TSR_PROVIDER_AUTO);
  answer_as_instance("ID3", 200); /* expires soon: looked for again, but not at once */
  expect(&provider, 0, "ID3 HIDDEN TOKEN eu-west-3");
  answer_as_instance("ID4", 200);
  expect(&provider, 0, "ID3 HIDDEN TOKEN eu-west-3");
  provider.patience = 0; /* as half a minute later */
  expect(&provider, 0, "ID4 HIDDEN TOKEN eu-west-3");
  provider.patience = 0;
  server.count = 0;
  answer_with("PUT /latest/api/token ", 500, "");
  expect(&provider, 0, "ID4 HIDDEN TOKEN eu-west-3"); /* the service fails: the old ones are good for minutes */
  server.log[0] = 0;
  expect(&provider, 0, "ID4 HIDDEN TOKEN eu-west-3");
  assert_string_equal(server.log, ""); /* and it is not asked again at once */
  tsr__provider_release(&provider);

  provider = provider_of(TSR_PROVIDER_AUTO); /* a service that is busy for a moment */
  answer_as_instance("ID6", 3600);
  server.busy = 2;
  expect(&provider, 0, "ID6 HIDDEN TOKEN eu-west-3");
  tsr__provider_release(&provider);

  provider = provider_of(TSR_PROVIDER_AUTO);
  answer_as_instance("ID5", -10);
  expect_failure(&provider, TSR_DENIED, "expired");
  server.count = 0;
  answer_with("PUT /latest/api/token ", 403, "");
  expect_failure(&provider, TSR_DENIED, "instance metadata: status 403");
  server.count = 0;
  answer_with("PUT /latest/api/token ", 503, ""); /* a service that stays busy is there, and has keys later */
  expect_failure(&provider, TSR_UNREACHABLE, "instance metadata: status 503");
  server.count = 0;
  answer_with("PUT /latest/api/token ", 200, "SESSION");
  answer_with("GET /latest/meta-data/iam/security-credentials/ ", 200, "../../role");
  expect_failure(&provider, TSR_DENIED, "the instance has no role");
  atomic_store(&provider.no_metadata, true);
  server.log[0] = 0;
  expect_failure(&provider, TSR_PERM, "refused");
  assert_string_equal(server.log, "");
  setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1", 1);
  atomic_store(&provider.no_metadata, false);
  expect_failure(&provider, TSR_DENIED, "instance metadata: no service");
  tsr__provider_release(&provider);
}

static void test_web_identity(void **state) {
  tsr_provider provider = provider_of(TSR_PROVIDER_AUTO);
  char path[100];
  (void)snprintf(path, sizeof path, "%s/jwt", home);
  setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
  setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/a b", 1);
  set_url("AWS_ENDPOINT_URL_STS", "/sts");
  expect_failure(&provider, TSR_DENIED, "web identity: no token in");
  write_file("jwt", "ey.J/w+t\n");
  answer_with(
      "POST /sts ", 200,
      "<AssumeRoleWithWebIdentityResponse "
      "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"
      "<Credentials><AccessKeyId>ID</AccessKeyId><SecretAccessKey>HIDDEN</SecretAccessKey><SessionToken>TOKEN</"
      "SessionToken>"
      "<Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
      time_text(3600));
  expect(&provider, 0, "ID HIDDEN TOKEN ");
  assert_non_null(
      strstr(server.log,
             "RoleSessionName=tessera&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&WebIdentityToken=ey.J%2Fw%2Bt"));
  tsr__provider_release(&provider);
  provider = provider_of(TSR_PROVIDER_AUTO);
  server.count = 0;
  answer_with("POST /sts ", 400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code></Error></ErrorResponse>");
  expect_failure(&provider, TSR_DENIED, "web identity: status 400");
  server.count = 0;
  answer_with("POST /sts ", 200, "<a>HIDDEN</a>");
  expect_failure(&provider, TSR_DENIED, "web identity: ");
  setenv("AWS_ENDPOINT_URL_STS", "http://sts.example", 1);
  expect_failure(&provider, TSR_DENIED, "neither https nor local");
  tsr__provider_release(&provider);
}

static void test_failing_allocations_leave_nothing(void **state) {
  write_file(".aws/credentials", "[default]\naws_access_key_id=ID1\naws_secret_access_key=HIDDEN1\n");
  int failures = 0;
  for (long left = 0; left < 40; left++) {
    tsr_provider provider;
    tsr_credentials c = {0};
    const tsr_provider_options options = {.kind = TSR_PROVIDER_AUTO, .region = "r", .ca_file = "c", .proxy = "p"};
    counted.left = left;
    int rc = tsr__provider_open(&provider, &memory, &options, &error);
    if (rc >= 0) {
      rc = tsr__credentials_get(&provider, 0, &c, &error);
      tsr__credentials_release(&c);
      tsr__provider_release(&provider);
    }
    if (rc < 0) assert_int_equal(rc, TSR_NOMEM);
    failures += rc < 0;
    assert_int_equal(counted.blocks, 0);
  }
  assert_in_range(failures, 5, 39);
}

/* ---- Azure ----------------------------------------------------------------------------------- */

static tsr_provider provider_at(tsr_keys_find *find, tsr_provider_kind kind) {
  tsr_provider provider;
  const tsr_provider_options options = {.kind = kind, .find = find};
  assert_int_equal(tsr__provider_open(&provider, &memory, &options, &error), TSR_OK);
  return provider;
}

/* Asks for keys, and compares their form, token, and whether they expire within two hours. */
static void expect_token(tsr_provider *provider, uint64_t refused, tsr_keys_form form, const char *token, bool ends) {
  tsr_credentials c = {0};
  const int rc = tsr__credentials_get(provider, refused, &c, &error);
  if (rc < 0) fail_msg("%d: %s", rc, error.message);
  assert_int_equal(c.form, form);
  assert_string_equal(c.token, token);
  const int64_t hours = 2 * 3600 * 1000;
  assert_true(ends == (c.expires < (int64_t)tsr__moment() + hours));
  tsr__credentials_release(&c);
}

static void test_azure_environment(void **state) {
  tsr_provider provider = provider_at(tsr__keys_azure, TSR_PROVIDER_ENV);
  expect_failure(&provider, TSR_DENIED, "AZURE_STORAGE_ACCOUNT is not set");
  setenv("AZURE_STORAGE_ACCOUNT", "acc", 1);
  expect_failure(&provider, TSR_DENIED, "neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN is set");
  setenv("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=HIDDEN", 1);
  expect_token(&provider, 0, TSR_KEYS_QUERY, "sv=1&sig=HIDDEN", false);
  setenv("AZURE_STORAGE_KEY", "SElEREVO", 1);
  expect(&provider, 1, "acc SElEREVO  ");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "DefaultEndpointsProtocol=https;AccountName=other", 1);
  expect_no_other(&provider, 2, TSR_DENIED, "has neither AccountKey nor SharedAccessSignature");
  setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=SEk=;EndpointSuffix=core.windows.net", 1);
  tsr__provider_release(&provider);
  provider = provider_at(tsr__keys_azure, TSR_PROVIDER_ENV);
  expect(&provider, 0, "account SEk=  ");
  tsr__provider_release(&provider);
  setenv("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true;", 1);
  provider = provider_at(tsr__keys_azure, TSR_PROVIDER_ENV);
  expect(&provider, 0,
         "account Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==  ");
  tsr__provider_release(&provider);
}

static void test_azure_tokens(void **state) {
  char path[100];
  tsr_provider provider = provider_at(tsr__keys_azure, TSR_PROVIDER_AUTO);
  expect_failure(&provider, TSR_DENIED, "instance metadata: no service");
  setenv("AZURE_TENANT_ID", "ten-ant", 1);
  setenv("AZURE_CLIENT_ID", "cli ent", 1);
  setenv("AZURE_CLIENT_SECRET", "HID+DEN", 1);
  set_url("AZURE_AUTHORITY_HOST", "/");
  answer_with("POST /ten-ant/oauth2/v2.0/token ", 200,
              "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"ey.1\"}");
  expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.1", true);
  assert_non_null(strstr(server.log, "grant_type=client_credentials&scope=https%3A%2F%2Fstorage.azure.com%2F.default&"
                                     "client_id=cli%20ent&client_secret=HID%2BDEN"));
  setenv("AZURE_CLIENT_SECRET", "", 1);
  (void)snprintf(path, sizeof path, "%s/jwt", home);
  setenv("AZURE_FEDERATED_TOKEN_FILE", path, 1);
  expect_no_other(&provider, 1, TSR_DENIED, "workload identity: no token in");
  write_file("jwt", "ey.J+w\n");
  server.count = 0;
  answer_with("POST /ten-ant/oauth2/v2.0/token ", 200, "{\"expires_in\":\"60\",\"access_token\":\"ey.2\"}");
  expect_token(&provider, 1, TSR_KEYS_BEARER, "ey.2", true);
  assert_non_null(strstr(server.log, "client_assertion=ey.J%2Bw"));
  setenv("AZURE_FEDERATED_TOKEN_FILE", "", 1);
  set_url("IDENTITY_ENDPOINT", "/msi/token");
  setenv("IDENTITY_HEADER", "HIDDEN", 1);
  server.count = 0;
  answer_with("GET /msi/token?resource=https%3A%2F%2Fstorage.azure.com%2F&api-version=2019-08-01&client_id=cli", 200,
              "{\"expires_on\":\"%lld\",\"access_token\":\"ey.3\"}", (long long)time(NULL) + 3000);
  setenv("AZURE_CLIENT_ID", "cli", 1);
  expect_token(&provider, 2, TSR_KEYS_BEARER, "ey.3", true); /* which expires in a minute, so it is fetched anew */
  assert_non_null(strstr(server.log, "X-IDENTITY-HEADER: HIDDEN"));
  char longest[1006] = ""; /* with its name it has 1,024 bytes, which is one too many for the buffer with its NUL */
  memset(longest, 'k', sizeof longest - 1);
  setenv("IDENTITY_HEADER", longest, 1);
  expect_no_other(&provider, 3, TSR_DENIED, "IDENTITY_HEADER is longer than 1,000 bytes");
  setenv("IDENTITY_HEADER", "HIDDEN", 1);
  static const char *const elsewhere[] = {"http://elsewhere.example/", "http://169.254.elsewhere.example/msi",
                                          "http://169.254.1.1@x/"};
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
    setenv("IDENTITY_ENDPOINT", elsewhere[i], 1);
    expect_no_other(&provider, 3, TSR_DENIED, "neither https nor local");
  }
  assert_true(tsr__service_is_near("http://169.254.129.1:8081/msi/token") &&
              tsr__service_is_near("https://x.example/"));
  setenv("IDENTITY_ENDPOINT", "", 1);
  set_url("AZURE_POD_IDENTITY_AUTHORITY_HOST", "");
  server.count = 0;
  answer_with("GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage", 200,
              "{\"expires_in\":\"3000\",\"access_token\":\"ey.4\"}");
  expect_token(&provider, 3, TSR_KEYS_BEARER, "ey.4", true);
  assert_non_null(strstr(server.log, "Metadata: true"));
  server.count = 0;
  answer_with("GET /metadata", 200, "{\"token\":\"HIDDEN\"}");
  expect_no_other(&provider, 4, TSR_DENIED, "no token");
  server.count = 0;
  answer_with("GET /metadata", 429, "");
  expect_no_other(&provider, 4, TSR_UNREACHABLE, "instance metadata: status 429");
  static const char *const damaged[][2] = {{"{\"access_token\":\"HIDDEN\"} x", "damaged at byte 27: expected its end"},
                                           {"{\"access_token\":\"HIDDEN\",}", "expected a string"},
                                           {"{\"access_token\":\"HIDDEN\\u0000\"}", "without NUL"},
                                           {"{\"access_token\":\"HIDDEN\\ud800\"}", "expected a string"},
                                           {"{\"access_token\":\"HIDDEN", "expected a string"},
                                           {"[\"HIDDEN\"]", "expected an object"}};
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
    server.count = 0;
    answer_with("GET /metadata", 200, "%s", damaged[i][0]);
    expect_no_other(&provider, 4, TSR_DENIED, damaged[i][1]);
  }
  tsr__provider_release(&provider);
}

/* ---- Google ---------------------------------------------------------------------------------- */

static const char pem[] = "-----BEGIN PRIVATE KEY-----\n"
                          "MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBANb6wcR1fTY8KmAu\n"
                          "fUc94ku6CnoulUS0el3HTvXsQgsYUlH68xYAQXMKElfh0UuieqE7Q7V+vbpN7c9y\n"
                          "kEFPlmeeMBx+9FCVZEhaKNxHyYVsAMvAnS+MGjIzNdwaOvKJedp3sTPwSOWv4mpb\n"
                          "SMn+CSoppGnilhzmiWq/OI7/ZFoNAgMBAAECgYBFOvGFg9Rzz8JRwQblF1+1xU60\n"
                          "dCXrvzcc1h9ugMvv6MAx2F/J+QEau+aWWIlfEw7stzohy5Pr2Ea6JImiDrA/TQCY\n"
                          "icOujg9xweBlQz6crtnfh6fKzh4WOVn10o6vE4tdnvkgA8129N2B8tbSYEXBI/Dg\n"
                          "SLOSFJMd4jKgZwk3oQJBAPFeljsQzwQZvve1Kc4wPsiu4uo5RApoU5NRAqAP1hNn\n"
                          "oGUJJ+/ISt357QhQi1dwHMYmBYuteapZGaTZkkn0uAUCQQDkAqsAh3LxLW1ikkZX\n"
                          "iim9NdxZdhjTIsH+LUZMvG5SmSUYptJpEVpYjkUopspTGDRK7j0FC9ppdHHKATdf\n"
                          "Z2BpAkEAvltgk/ivq4Y6i9U+wTRfb5otr5e2R5b7wsUzEtUqemdRoh1Ud9E46lO/\n"
                          "Ur1jB3SN3OADo6MOvwBCLzbAHr93mQJAZhWDtkLuhWiPVtiiwcLMGTiqJSuoxa8E\n"
                          "J+bhWK3svvJuF3FpNz1bs9ZOxHqYj0eA8iNkEoRSD3DhGU4eGorQMQJBAOXhdSUF\n"
                          "qKpDLjGonZpwh0L+hq/LVj8oNs+K+Nl6OaZQbxfO4a9rVTKaZcD/v96pZcPlwNu3\n"
                          "MwMNXX7c63fviYo=\n"
                          "-----END PRIVATE KEY-----\n";
static const char jwt[] = /* as `openssl dgst -sha256 -sign` has signed it */
    "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6ImsxIn0.eyJpc3MiOiJhQGIuYyIsInNjb3BlIjoiaHR0cH"
    "M6Ly93d3cuZ29vZ2xlYXBpcy5jb20vYXV0aC9kZXZzdG9yYWdlLnJlYWRfd3JpdGUiLCJhdWQiOiJodHRwczovL29h"
    "dXRoMi5nb29nbGVhcGlzLmNvbS90b2tlbiIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjoxNzAwMDAzNjAwfQ.C0GE7GR"
    "Dqn68VVtql2ylEtTKa4zeb4ZTFUMcOKkaP9BypZCGI_wTJVXUCRq7lh5rBW47hNhzGSkHPjQp9awfKHPGh0pcl7k9t"
    "ouyFmZX4QJ_Ps6RQu4Vv1rNj7wqfF36BBMyOru7Xt7DYUtFO0E2pynOOcz28-atQst9lgELmiw";

static void test_google_jwt(void **state) {
  tsr_buffer text = {.memory = &memory};
  const char *uri = "https://oauth2.googleapis.com/token";
  assert_int_equal(tsr__google_jwt("a@b.c", "k1", uri, pem, 1700000000, &text, &error), TSR_OK);
  assert_string_equal((const char *)text.data, jwt);
  text.size = 0;
  assert_int_equal(tsr__google_jwt("a@b.c", "k1", uri, "HIDDEN", 1700000000, &text, &error), TSR_DENIED);
  assert_non_null(strstr(error.message, "must be RSA in PEM"));
  assert_null(strstr(error.message, "HIDDEN"));
  assert_int_equal(tsr__google_jwt("a\"b", "", uri, pem, 0, &text, &error), TSR_DENIED);
  tsr__buffer_release(&text);
}

/* Writes a file of credentials; each line end of the key is an escape in JSON. */
static void write_account(const char *name, const char *token_path) {
  char text[4096];
  int at = snprintf(text, sizeof text,
                    "{\"type\":\"service_account\",\"client_email\":\"a@b.c\",\"private_key_id\":\"k1\","
                    "\"token_uri\":\"http:\\/\\/127.0.0.1:%u%s\",\"private_key\":\"",
                    server.port, token_path);
  for (const char *p = pem; *p; p++)
    at += *p == '\n'  ? snprintf(text + at, sizeof text - (size_t)at, "\\n")
          : *p == '=' ? snprintf(text + at, sizeof text - (size_t)at, "\\u003d")
                      : snprintf(text + at, sizeof text - (size_t)at, "%c", *p);
  (void)snprintf(text + at, sizeof text - (size_t)at, "\"}");
  write_file(name, text);
}

static void test_google_tokens(void **state) {
  char path[100];
  tsr_provider provider = provider_at(tsr__keys_gcs, TSR_PROVIDER_AUTO);
  expect_failure(&provider, TSR_DENIED, "NO_GCE_CHECK is set");
  (void)snprintf(path, sizeof path, "%s/account.json", home);
  setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
  expect_failure(&provider, TSR_DENIED, "environment: no file");
  write_account("account.json", "/token");
  answer_with("POST /token ", 200, "{\"access_token\":\"ya.1\",\"expires_in\":3600,\"token_type\":\"Bearer\"}");
  expect_token(&provider, 0, TSR_KEYS_BEARER, "ya.1", true);
  assert_non_null(strstr(server.log, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"));
  setenv("GOOGLE_APPLICATION_CREDENTIALS", "", 1);
  setenv("CLOUDSDK_CONFIG", home, 1);
  char text[400];
  (void)snprintf(text, sizeof text,
                 "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"HIDDEN\","
                 "\"refresh_token\":\"1//r\",\"token_uri\":\"http://127.0.0.1:%u/user\"}",
                 server.port);
  write_file("application_default_credentials.json", text);
  answer_with("POST /user ", 200, "{\"access_token\":\"ya.2\",\"expires_in\":3600}");
  expect_token(&provider, 1, TSR_KEYS_BEARER, "ya.2", true);
  assert_non_null(
      strstr(server.log, "grant_type=refresh_token&client_id=id&client_secret=HIDDEN&refresh_token=1%2F%2Fr"));
  server.count = 0; /* a claim that is dated by a wrong clock */
  answer_with("POST /user ", 400, "{}");
  server.header = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
  expect_no_other(&provider, 2, TSR_DENIED, "status 400; the clock of this machine differs from the server's by ");
  server.header = "";
  expect_no_other(&provider, 2, TSR_DENIED, "profile: status 400");
  write_file("application_default_credentials.json", "{\"type\":\"service_account\",\"token_uri\":\"http://x.y/\"}");
  tsr__provider_release(&provider);
  provider = provider_at(tsr__keys_gcs, TSR_PROVIDER_PROFILE);
  expect_failure(&provider, TSR_DENIED, "token_uri is not https");
  write_file("application_default_credentials.json", "{\"type\":\"external_account\"}");
  expect_failure(&provider, TSR_UNSUPPORTED, "neither service_account nor authorized_user");
  tsr__provider_release(&provider);
}

/* The metadata server says who it is; another server in its place is refused. */
static void test_google_metadata(void **state) {
  char host[40];
  tsr_provider provider = provider_at(tsr__keys_gcs, TSR_PROVIDER_AUTO);
  unsetenv("NO_GCE_CHECK");
  (void)snprintf(host, sizeof host, "127.0.0.1:%u", server.port);
  setenv("GCE_METADATA_HOST", host, 1);
  const char *const path = "GET /computeMetadata/v1/instance/service-accounts/default/token ";
  answer_with(path, 200, "{\"access_token\":\"ya.3\",\"expires_in\":3600}");
  expect_failure(&provider, TSR_DENIED, "another server answered");
  server.header = "Metadata-Flavor: Google\r\n";
  expect_token(&provider, 0, TSR_KEYS_BEARER, "ya.3", true);
  server.count = 0;
  answer_with(path, 503, "");
  expect_no_other(&provider, 1, TSR_UNREACHABLE, "metadata: status 503");
  server.header = "";
  assert_non_null(strstr(server.log, "Metadata-Flavor: Google"));
  atomic_store(&provider.no_metadata, true);
  expect_no_other(&provider, 1, TSR_PERM, "refused since tessera_restrict");
  tsr__provider_release(&provider);
}

/* Tokens that are fetched with secrets of the options; forgetting wipes these. */
static void test_secrets_that_fetch_tokens(void **state) {
  char path[100];
  (void)snprintf(path, sizeof path, "%s/account.json", home);
  write_account("account.json", "/token");
  answer_with("POST /token ", 200, "{\"access_token\":\"ya.4\",\"expires_in\":3600}");
  tsr_provider provider;
  const tsr_provider_options options = {.kind = TSR_PROVIDER_KEYS, .find = tsr__keys_gcs, .service_account_file = path};
  assert_int_equal(tsr__provider_open(&provider, &memory, &options, &error), TSR_OK);
  expect_token(&provider, 0, TSR_KEYS_BEARER, "ya.4", true);
  expect_token(&provider, 1, TSR_KEYS_BEARER, "ya.4", true);
  tsr__provider_wipe(&provider);
  assert_string_equal(provider.service_account_file, "");
  expect_failure(&provider, TSR_PERM, "forgotten");
  tsr__provider_release(&provider);
}

static unsigned requests_of(const char *what) {
  unsigned count = 0;
  for (const char *at = server.log; (at = strstr(at, what)) != NULL; at++) count++;
  return count;
}

/* A service may keep a token until it ends in less than five minutes: it is not asked before each request. */
static void test_tokens_that_end_soon(void **state) {
  tsr_provider provider = provider_at(tsr__keys_azure, TSR_PROVIDER_AUTO);
  set_url("AZURE_POD_IDENTITY_AUTHORITY_HOST", "");
  answer_with("GET /metadata", 200, "{\"expires_in\":\"200\",\"access_token\":\"ey.1\"}");
  for (int i = 0; i < 3; i++) expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.1", true);
  assert_int_equal(requests_of("GET /metadata"), 1);
  provider.patience = 0; /* as half a minute later */
  server.count = 0;
  answer_with("GET /metadata", 200, "{\"expires_in\":\"3600\",\"access_token\":\"ey.2\"}");
  expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.2", true);
  server.count = 0;
  answer_with("GET /metadata", 200, "{\"expires_in\":\"3600\",\"access_token\":\"ey.3\"}");
  expect_token(&provider, 2, TSR_KEYS_BEARER, "ey.3", true); /* a refused one is replaced at once */
  tsr__provider_release(&provider);
}

#ifdef __linux__
static void set_date(char header[80], int64_t later) {
  char date[TSR_HTTP_DATE_SIZE];
  tsr__http_date((tsr__keys_clock() / 1000 - calendar_moved + later) * 1000, date);
  (void)snprintf(header, 80, "Date: %s\r\n", date);
  server.header = header;
}

/* When a token ends is said by the clock of the service that has made it. Ours may be hours off, and may be set. */
static void test_tokens_end_by_the_clock_of_their_service(void **state) {
  char header[80], until[40];
  set_url("AZURE_POD_IDENTITY_AUTHORITY_HOST", "");
  for (int64_t off = -7200; off <= 7200; off += 7200) { /* seconds by which our clock is ahead */
    calendar_moved = off;
    set_date(header, 0);
    (void)snprintf(until, sizeof until, "%lld", (long long)(tsr__keys_clock() / 1000 - off + 3000));
    tsr_provider provider = provider_at(tsr__keys_azure, TSR_PROVIDER_AUTO);
    server.count = 0;
    answer_with("GET /metadata", 200, "{\"expires_on\":\"%s\",\"access_token\":\"ey.1\"}", until);
    const unsigned before = requests_of("GET /metadata");
    expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.1", true);
    assert_in_range(provider.now.expires - (int64_t)tsr__moment(), 2900000, 3001000);
    for (int hours = -30; hours <= 30; hours += 6) {
      calendar_moved = hours * 3600;
      expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.1", true);
    }
    assert_int_equal(requests_of("GET /metadata"), before + 1);
    provider.patience = 0;
    provider.now.expires = (int64_t)tsr__moment() + 290000; /* later, and whatever the calendar says */
    server.count = 0;
    answer_with("GET /metadata", 200, "{\"expires_in\":\"3600\",\"access_token\":\"ey.2\"}");
    calendar_moved = -3600;
    expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.2", true);
    expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.2", true);
    machine_slept += 3301; /* the token ends in five minutes */
    server.count = 0;
    answer_with("GET /metadata", 200, "{\"expires_in\":\"3600\",\"access_token\":\"ey.3\"}");
    expect_token(&provider, 0, TSR_KEYS_BEARER, "ey.3", true);
    tsr__provider_release(&provider);
  }
  calendar_moved = machine_slept = 0;
  server.header = "";
}

/* Reads "iat" in the last claim that came. */
static int64_t date_of_claim(void) {
  const char *claim = NULL, *number;
  uint8_t text[1024];
  uint64_t size;
  for (const char *at = server.log; (at = strstr(at, "&assertion=")) != NULL; at++) claim = at;
  assert_non_null(claim);
  claim = strchr(claim, '.') + 1;
  assert_true(tsr_base64_read(TSR_BASE64_URL, claim, strcspn(claim, "."), text, &size));
  text[size] = 0;
  number = strstr((const char *)text, "\"iat\":");
  assert_non_null(number);
  return strtoll(number + 6, NULL, 10);
}

/* A claim that the service refuses because of its date is made again with the date of the service. */
static void test_claims_are_dated_again(void **state) {
  char path[100], header[80];
  (void)snprintf(path, sizeof path, "%s/account.json", home);
  setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
  write_account("account.json", "/token");
  tsr_provider provider = provider_at(tsr__keys_gcs, TSR_PROVIDER_ENV);
  answer_with("POST /token ", 400, "{}");
  calendar_moved = 1200;
  for (int64_t later = 0; later <= 600; later += 600) {
    const unsigned before = requests_of("POST /token");
    set_date(header, later);
    expect_no_other(&provider, 0, TSR_DENIED, "the clock of this machine differs from the server's by ");
    assert_int_equal(requests_of("POST /token"), before + 2);
    assert_in_range(date_of_claim() - (tsr__keys_clock() / 1000 - 1200 + later) + 5, 0, 6);
  }
  set_date(header, 600); /* the next claim has this date at once */
  const unsigned before = requests_of("POST /token");
  expect_no_other(&provider, 0, TSR_DENIED, "GOOGLE_APPLICATION_CREDENTIALS: status 400");
  assert_int_equal(requests_of("POST /token"), before + 1);
  assert_in_range(date_of_claim() - (tsr__keys_clock() / 1000 - 600) + 5, 0, 6);
  calendar_moved = 0;
  server.header = "";
  tsr__provider_release(&provider);
}
#endif

#ifdef __linux__
static unsigned unwiped; /* blocks that were freed with a secret in them */

static void *watching_reallocate(void *argument, void *pointer, uint64_t size) {
  if (pointer && memmem(pointer, malloc_usable_size(pointer), "HIDDEN", 6)) unwiped++;
  return counted_reallocate(argument, pointer, size);
}

/* No block with a secret is freed, and none grows. */
static void test_freed_memory_has_no_secrets(void **state) {
  const tsr_provider_options cases[] = {
      {.kind = TSR_PROVIDER_KEYS, .key_id = "ID", .secret = "HIDDEN", .session_token = "HIDDEN"},
      {.kind = TSR_PROVIDER_KEYS, .find = tsr__keys_gcs, .token = "HIDDEN", .form = TSR_KEYS_BEARER},
      {.kind = TSR_PROVIDER_KEYS, .find = tsr__keys_gcs, .service_account = "{\"private_key\":\"HIDDEN\"}"},
      {.kind = TSR_PROVIDER_ANONYMOUS, .proxy = "http://user:HIDDEN@127.0.0.1:1"},
      {.kind = TSR_PROVIDER_AUTO, .find = tsr__keys_azure},
  };
  tsr_memory watched;
  tsr__memory_init_root(&watched, watching_reallocate, &counted);
  set_url("AZURE_POD_IDENTITY_AUTHORITY_HOST", "");
  answer_with("GET /metadata", 200, "{\"expires_in\":\"3600\",\"access_token\":\"HIDDEN\"}");
  unwiped = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tsr_provider provider;
    tsr_credentials c = {0};
    assert_int_equal(tsr__provider_open(&provider, &watched, &cases[i], &error), TSR_OK);
    (void)tsr__credentials_get(&provider, 0, &c, &error);
    tsr__credentials_release(&c);
    tsr__provider_release(&provider);
    if (unwiped) fail_msg("case %d", (int)i);
  }
}
#endif

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_keys_of_options),
      TEST(test_environment),
      TEST(test_profiles),
      TEST(test_auto_takes_the_first_place_with_keys),
      TEST(test_container),
      TEST(test_instance_metadata),
      TEST(test_web_identity),
      TEST(test_failing_allocations_leave_nothing),
      TEST(test_azure_environment),
      TEST(test_azure_tokens),
      TEST(test_google_jwt),
      TEST(test_google_tokens),
      TEST(test_google_metadata),
      TEST(test_secrets_that_fetch_tokens),
      TEST(test_tokens_that_end_soon),
#ifdef __linux__
      TEST(test_tokens_end_by_the_clock_of_their_service),
      TEST(test_claims_are_dated_again),
      TEST(test_freed_memory_has_no_secrets),
#endif
  };
  return cmocka_run_group_tests(tests, start_server, stop_server);
}
