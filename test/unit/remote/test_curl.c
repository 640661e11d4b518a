/* test_curl.c: a machine without libcurl, with another build of it, and with one that lacks a function. The linker puts
 * __wrap_dlopen and __wrap_dlsym in the place of the system's functions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <string.h>

#include "remote/curl.h"
#include "remote/http.h"

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

static const char *only; /* the one library that exists; NULL: all do */
static const char *missing; /* the function that it lacks */
static char asked[300]; /* names of libraries, in order */

void *__wrap_dlopen(const char *name, int flags) {
  if (!name || !strstr(name, "curl")) return __real_dlopen(name, flags);
  assert_true(flags & RTLD_NODELETE); /* the I/O thread runs in it until the process ends */
  assert_false(flags & RTLD_GLOBAL);
  strcat(asked, name);
  strcat(asked, " ");
  if (only && strcmp(name, only) != 0) return NULL;
  return __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *library, const char *name) {
  return missing && strcmp(name, missing) == 0 ? NULL : __real_dlsym(library, name);
}

static void test_without_libcurl_the_error_names_the_package(void **state) {
  const tsr_curl *curl = NULL;
  tsr_error error = {0};
  only = "none";
  asked[0] = 0;
  assert_int_equal(tsr__curl_load(&curl, &error), TSR_UNSUPPORTED);
  assert_null(curl);
  assert_string_equal(error.message,
                      "a bucket needs libcurl, which this machine does not have: install the package libcurl4 "
                      "(Debian, Ubuntu; also libcurl3-gnutls) or libcurl (Fedora, Alpine)");
  assert_string_equal(asked, "libcurl.so.4 libcurl-gnutls.so.4 libcurl-nss.so.4 ");
  const tsr_http_transport transport = {0};
  tsr_http_request request = {.method = "GET", .url = "http://127.0.0.1:1/", .transport = &transport};
  tsr_http_request *one = &request;
  tsr__http_start(&request);
  assert_true(tsr__http_finished(&request));
  assert_int_equal(tsr__http_wait(&one, 1, UINT64_MAX, NULL, NULL), 1);
  assert_int_equal(request.failure, TSR_HTTP_NO_LIBRARY);
  assert_int_equal(request.rc, TSR_UNSUPPORTED);
  assert_string_equal(request.error.message, error.message);
  tsr__http_cancel(&request);
}

static void test_a_libcurl_without_a_function_is_too_old(void **state) {
  const tsr_curl *curl = NULL;
  tsr_error error = {0};
  only = NULL;
  missing = "curl_multi_wait";
  assert_int_equal(tsr__curl_load(&curl, &error), TSR_UNSUPPORTED);
  assert_non_null(strstr(error.message, "newer libcurl"));
  assert_non_null(strstr(error.message, "curl_multi_wait"));
}

/* The last test, because libcurl is loaded once. */
static void test_libcurl_is_found_after_it_has_been_installed(void **state) {
  const tsr_curl *curl = NULL, *again = NULL;
  tsr_error error = {0};
  missing = NULL;
  only = "libcurl-gnutls.so.4"; /* another build than the first choice, if there is one */
  asked[0] = 0;
  if (tsr__curl_load(&curl, &error) < 0) {
    only = NULL;
    assert_int_equal(tsr__curl_load(&curl, &error), TSR_OK);
  } else {
    assert_string_equal(asked, "libcurl.so.4 libcurl-gnutls.so.4 ");
  }
  assert_int_equal(memcmp(curl->version(), "libcurl/", 8), 0);
  asked[0] = 0;
  assert_int_equal(tsr__curl_load(&again, &error), TSR_OK);
  assert_ptr_equal(curl, again);
  assert_string_equal(asked, ""); /* it is not looked for again */
  const tsr_http_transport transport = {.connect_ms = 2000};
  tsr_http_request request = {.method = "GET", .url = "http://127.0.0.1:1/", .transport = &transport};
  tsr_http_request *one = &request;
  tsr__http_start(&request);
  assert_int_equal(tsr__http_wait(&one, 1, 10000, NULL, NULL), 1);
  assert_int_equal(request.failure, TSR_HTTP_UNREACHED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_libcurl_the_error_names_the_package),
      cmocka_unit_test(test_a_libcurl_without_a_function_is_too_old),
      cmocka_unit_test(test_libcurl_is_found_after_it_has_been_installed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
