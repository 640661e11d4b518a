/* curl.c: finds libcurl at run time and initializes it once.
 *
 * Debian has three builds of libcurl, which differ in their TLS library; any of them will do. The library is never
 * unloaded: the I/O thread of http.c may run until the process ends.
 *
 * libcurl copies the headers of requests into its own buffers, including session tokens. So we pass it allocation
 * functions that wipe each block before freeing it. If the host has already initialized libcurl, the host's functions
 * stay in effect. */
#include "remote/curl.h"

#if defined(__EMSCRIPTEN__) || defined(__wasi__)
#define CURL_ABSENT 1 /* no sockets, no dynamic libraries */
#else
#include <pthread.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/system.h"

#ifdef CURL_ABSENT

int tsr__curl_load(const tsr_curl **curl, tsr_error *error) {
  return tsr__fail(error, TSR_UNSUPPORTED, "a bucket needs libcurl, which this platform does not have");
}

#else

#ifdef _WIN32
#define CURL_ADVICE "put libcurl.dll beside the program, or into a directory of PATH"
#else
#define CURL_ADVICE "install the package libcurl4 (Debian, Ubuntu; also libcurl3-gnutls) or libcurl (Fedora, Alpine)"
#endif

static const char *const curl_names[] = {
#if defined(_WIN32)
    "libcurl.dll",
    "libcurl-x64.dll",
    "libcurl-4.dll",
#elif defined(__APPLE__)
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
    X(global_init_mem) X(version) X(easy_init) X(easy_cleanup) X(easy_setopt) X(easy_getinfo) X(easy_pause)
        X(easy_strerror) X(multi_init) X(multi_cleanup) X(multi_add_handle) X(multi_remove_handle) X(multi_perform)
            X(multi_wait) X(multi_setopt) X(multi_info_read) X(slist_append) X(slist_free_all)
#undef X
};
_Static_assert(sizeof curl_symbols / sizeof *curl_symbols * sizeof(void *) == sizeof(tsr_curl), "a symbol each");

static struct {
  _Atomic uint64_t state; /* see tsr__process_enter */
  pthread_mutex_t mutex; /* guards the rest */
  bool loaded; /* stays true in a child process, which inherits the library */
  tsr_curl functions;
} curl_library;

/* Looks up all functions. Returns the name of the first missing one, or NULL. */
static const char *look_up_curl(void *library, tsr_curl *functions) {
  for (size_t i = 0; i < sizeof curl_symbols / sizeof *curl_symbols; i++) {
    void *function = tsr__library_find(library, curl_symbols[i].name);
    if (!function) return curl_symbols[i].name;
    memcpy((uint8_t *)functions + curl_symbols[i].at, &function, sizeof function);
  }
  return NULL;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

#define BLOCK_HEAD 16 /* bytes before a block: its size, padded to keep the alignment */

static void *curl_allocate(size_t size) {
  uint8_t *block = size <= SIZE_MAX - BLOCK_HEAD ? malloc(size + BLOCK_HEAD) : NULL;
  if (!block) return NULL;
  memcpy(block, &size, sizeof size);
  return block + BLOCK_HEAD;
}

static size_t curl_size(const void *bytes) {
  size_t size;
  memcpy(&size, (const uint8_t *)bytes - BLOCK_HEAD, sizeof size);
  return size;
}

static void curl_release(void *bytes) {
  if (!bytes) return;
  tsr__wipe(bytes, curl_size(bytes));
  free((uint8_t *)bytes - BLOCK_HEAD);
}

static void *curl_resize(void *bytes, size_t size) {
  if (bytes && size == 0) return curl_release(bytes), NULL;
  void *larger = curl_allocate(size);
  if (!larger || !bytes) return larger;
  memcpy(larger, bytes, TSR_MIN(size, curl_size(bytes)));
  curl_release(bytes);
  return larger;
}

static void *curl_allocate_zeroed(size_t count, size_t size) {
  if (size && count > SIZE_MAX / size) return NULL;
  void *bytes = curl_allocate(count * size);
  return bytes ? memset(bytes, 0, count * size) : NULL;
}

static char *curl_copy(const char *text) {
  const size_t size = strlen(text) + 1;
  void *copy = curl_allocate(size);
  return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- The library ------------------------------------------------------------------------------------------------- */

static int open_curl(tsr_error *error) {
  void *library = NULL;
  const char *missing;
  for (size_t i = 0; i < sizeof curl_names / sizeof *curl_names && !library; i++)
    library = tsr__library_open(curl_names[i]);
  if (!library)
    return tsr__fail(error, TSR_UNSUPPORTED, "a bucket needs libcurl, which this machine does not have: " CURL_ADVICE);
  if ((missing = look_up_curl(library, &curl_library.functions)) != NULL)
    return tsr__fail(error, TSR_UNSUPPORTED, "a bucket needs a newer libcurl: this one has no %s", missing);
  const int result = curl_library.functions.global_init_mem(TSR_CURL_GLOBAL_DEFAULT, curl_allocate, curl_release,
                                                            curl_resize, curl_copy, curl_allocate_zeroed);
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
