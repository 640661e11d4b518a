/* curl.c: finds libcurl at run time and initializes it once.
 *
 * Debian has three builds of libcurl, which differ in their TLS library; each of them will do. The handle is never
 * closed: the I/O thread of http.c may run until the process ends. */
#include "remote/curl.h"

#if defined(__EMSCRIPTEN__) || defined(__wasi__)
#define CURL_ABSENT 1 /* no sockets, no dynamic libraries */
#else
#include <dlfcn.h>
#include <pthread.h>
#endif
#include <string.h>

#include "base/error.h"
#include "base/pool.h"

#ifdef CURL_ABSENT

int tsr__curl_load(const tsr_curl **curl, tsr_error *error) {
  return tsr__fail(error, TSR_UNSUPPORTED, "s3:// needs libcurl, which this platform does not have");
}

#else

static const char *const curl_names[] = {
#if defined(__APPLE__)
    "libcurl.4.dylib",
    "/usr/lib/libcurl.4.dylib",
#else
    "libcurl.so.4",
    "libcurl-gnutls.so.4",
    "libcurl-nss.so.4",
#endif
};

static const struct {
  const char *name;
  size_t at; /* offset of the function's pointer in tsr_curl */
} curl_symbols[] = {
#define X(name) {"curl_" #name, offsetof(tsr_curl, name)},
    X(global_init) X(version) X(easy_init) X(easy_cleanup) X(easy_setopt) X(easy_getinfo) X(easy_pause) X(easy_strerror)
        X(multi_init) X(multi_cleanup) X(multi_add_handle) X(multi_remove_handle) X(multi_perform) X(multi_wait)
            X(multi_setopt) X(multi_info_read) X(slist_append) X(slist_free_all)
#undef X
};
_Static_assert(sizeof curl_symbols / sizeof *curl_symbols * sizeof(void *) == sizeof(tsr_curl), "a symbol each");

static struct {
  _Atomic uint64_t state; /* see tsr__process_enter */
  pthread_mutex_t mutex; /* guards the rest */
  bool loaded; /* also in a child process, which inherits the library */
  tsr_curl functions;
} curl_library;

/* Looks up all functions. Returns the name of the first that is missing, or NULL. */
static const char *look_up_curl(void *library, tsr_curl *functions) {
  for (size_t i = 0; i < sizeof curl_symbols / sizeof *curl_symbols; i++) {
    void *function = dlsym(library, curl_symbols[i].name);
    if (!function) return curl_symbols[i].name;
    memcpy((uint8_t *)functions + curl_symbols[i].at, &function, sizeof function);
  }
  return NULL;
}

static int open_curl(tsr_error *error) {
  void *library = NULL;
  const char *missing;
  for (size_t i = 0; i < sizeof curl_names / sizeof *curl_names && !library; i++)
    library = dlopen(curl_names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library)
    return tsr__fail(error, TSR_UNSUPPORTED,
                     "s3:// needs libcurl, which this machine does not have: install the package libcurl4 "
                     "(Debian, Ubuntu; also libcurl3-gnutls) or libcurl (Fedora, Alpine)");
  if ((missing = look_up_curl(library, &curl_library.functions)) != NULL)
    return tsr__fail(error, TSR_UNSUPPORTED, "s3:// needs a newer libcurl: this one has no %s", missing);
  const int result = curl_library.functions.global_init(TSR_CURL_GLOBAL_DEFAULT);
  if (result != TSR_CURLE_OK)
    return tsr__fail(error, TSR_UNSUPPORTED, "libcurl cannot be initialized: %s",
                     curl_library.functions.easy_strerror(result));
  curl_library.loaded = true;
  return TSR_OK;
}

int tsr__curl_load(const tsr_curl **curl, tsr_error *error) {
  int rc = TSR_OK;
  if (tsr__process_enter(&curl_library.state)) {
    pthread_mutex_init(&curl_library.mutex, NULL);
    tsr__process_made(&curl_library.state);
  }
  pthread_mutex_lock(&curl_library.mutex);
  if (!curl_library.loaded) rc = open_curl(error);
  pthread_mutex_unlock(&curl_library.mutex);
  if (rc >= 0) *curl = &curl_library.functions;
  return rc;
}

#endif
