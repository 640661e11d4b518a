/* curl.h: libcurl, found at run time. tessera is not linked with libcurl and compiles without its headers: this file
 * declares the few functions and constants that http.c uses, with the values that libcurl's ABI has had since 2015. */
#ifndef TSR_CURL_H
#define TSR_CURL_H

#include <stddef.h>

#include "base/system.h"

/* ---- Types --------------------------------------------------------------------------------------------------- */

typedef struct tsr_curl_easy tsr_curl_easy; /* CURL: one transfer */
typedef struct tsr_curl_multi tsr_curl_multi; /* CURLM: transfers that run together and share connections */

typedef struct tsr_curl_list { /* struct curl_slist: lines of a header */
  char *data; /* owned */
  struct tsr_curl_list *next;
} tsr_curl_list;

typedef struct tsr_curl_message { /* CURLMsg */
  int kind; /* TSR_CURL_DONE */
  tsr_curl_easy *easy;
  union {
    void *whatever;
    int result; /* a TSR_CURLE_ code */
  } data;
} tsr_curl_message;

typedef struct tsr_curl_wait { /* struct curl_waitfd */
  tsr_socket descriptor;
  short events, seen; /* TSR_CURL_READABLE */
} tsr_curl_wait;

/* ---- Constants ----------------------------------------------------------------------------------------------- */

enum { TSR_CURL_DONE = 1, TSR_CURL_READABLE = 1, TSR_CURL_GLOBAL_DEFAULT = 3, TSR_CURL_ERROR_SIZE = 256 };

/* Results of transfers and options: CURLE_... */
enum {
  TSR_CURLE_OK = 0,
  TSR_CURLE_PROTOCOL = 1,
  TSR_CURLE_URL = 3,
  TSR_CURLE_NOT_BUILT_IN = 4,
  TSR_CURLE_RESOLVE_PROXY = 5,
  TSR_CURLE_RESOLVE_HOST = 6,
  TSR_CURLE_CONNECT = 7,
  TSR_CURLE_PARTIAL = 18,
  TSR_CURLE_WRITE = 23,
  TSR_CURLE_NOMEM = 27,
  TSR_CURLE_TIMEOUT = 28,
  TSR_CURLE_SSL_CONNECT = 35,
  TSR_CURLE_UNKNOWN_OPTION = 48,
  TSR_CURLE_NOTHING = 52,
  TSR_CURLE_SEND = 55,
  TSR_CURLE_RECEIVE = 56,
  TSR_CURLE_SSL_CERTIFICATE = 58,
  TSR_CURLE_SSL_CIPHER = 59,
  TSR_CURLE_PEER = 60,
  TSR_CURLE_CA_FILE = 77,
  TSR_CURLE_SSL_ISSUER = 83,
  TSR_CURLE_SSL_PIN = 90,
  TSR_CURLE_SSL_STATUS = 91,
  TSR_CURLE_PROXY = 97
};

/* Options of a transfer: CURLOPT_... Those below 10,000 take a long, from 10,000 a pointer, from 20,000 a function,
 * from 30,000 an int64_t. */
enum {
  TSR_CURLOPT_NOPROGRESS = 43,
  TSR_CURLOPT_NOBODY = 44,
  TSR_CURLOPT_UPLOAD = 46,
  TSR_CURLOPT_POST = 47,
  TSR_CURLOPT_FOLLOWLOCATION = 52,
  TSR_CURLOPT_SSL_VERIFYPEER = 64,
  TSR_CURLOPT_FRESH_CONNECT = 74,
  TSR_CURLOPT_HTTPGET = 80,
  TSR_CURLOPT_SSL_VERIFYHOST = 81,
  TSR_CURLOPT_HTTP_VERSION = 84,
  TSR_CURLOPT_BUFFERSIZE = 98,
  TSR_CURLOPT_NOSIGNAL = 99,
  TSR_CURLOPT_CONNECTTIMEOUT_MS = 156,
  TSR_CURLOPT_PROTOCOLS = 181,
  TSR_CURLOPT_TCP_KEEPALIVE = 213,
  TSR_CURLOPT_PATH_AS_IS = 234,
  TSR_CURLOPT_SUPPRESS_CONNECT_HEADERS = 265,
  TSR_CURLOPT_DISALLOW_USERNAME_IN_URL = 278,
  TSR_CURLOPT_WRITEDATA = 10001,
  TSR_CURLOPT_URL = 10002,
  TSR_CURLOPT_PROXY = 10004,
  TSR_CURLOPT_READDATA = 10009,
  TSR_CURLOPT_ERRORBUFFER = 10010,
  TSR_CURLOPT_HTTPHEADER = 10023,
  TSR_CURLOPT_HEADERDATA = 10029,
  TSR_CURLOPT_CUSTOMREQUEST = 10036,
  TSR_CURLOPT_CAINFO = 10065,
  TSR_CURLOPT_CAPATH = 10097,
  TSR_CURLOPT_PRIVATE = 10103,
  TSR_CURLOPT_SEEKDATA = 10168,
  TSR_CURLOPT_NOPROXY = 10177,
  TSR_CURLOPT_WRITEFUNCTION = 20011,
  TSR_CURLOPT_READFUNCTION = 20012,
  TSR_CURLOPT_HEADERFUNCTION = 20079,
  TSR_CURLOPT_SOCKOPTFUNCTION = 20148,
  TSR_CURLOPT_SEEKFUNCTION = 20167,
  TSR_CURLOPT_INFILESIZE_LARGE = 30115,
  TSR_CURLOPT_POSTFIELDSIZE_LARGE = 30120
};
enum { TSR_CURL_HTTP_1_1 = 2, TSR_CURL_PROTOCOL_HTTP = 1, TSR_CURL_PROTOCOL_HTTPS = 2 };
enum { TSR_CURLMOPT_MAXCONNECTS = 6 };
enum {
  TSR_CURLINFO_PRIVATE = 0x100000 + 21,
  TSR_CURLINFO_STATUS = 0x200000 + 2,
  TSR_CURLINFO_PRETRANSFER = 0x300000 + 6
};

#define TSR_CURL_WRITE_PAUSE ((size_t)0x10000001) /* result of a write function that pauses the transfer */
enum { TSR_CURL_CONTINUE = 0 }; /* CURLPAUSE_CONT */

/* ---- Functions ----------------------------------------------------------------------------------------------- */

/* libcurl's functions, under their names without "curl_". */
typedef struct tsr_curl {
  int (*global_init_mem)(long flags, void *(*allocate)(size_t size), void (*release)(void *bytes),
                         void *(*resize)(void *bytes, size_t size), char *(*copy)(const char *text),
                         void *(*allocate_zeroed)(size_t count, size_t size));
  char *(*version)(void);
  tsr_curl_easy *(*easy_init)(void);
  void (*easy_cleanup)(tsr_curl_easy *easy);
  int (*easy_setopt)(tsr_curl_easy *easy, int option, ...);
  int (*easy_getinfo)(tsr_curl_easy *easy, int info, ...);
  int (*easy_pause)(tsr_curl_easy *easy, int mask);
  const char *(*easy_strerror)(int result);
  tsr_curl_multi *(*multi_init)(void);
  int (*multi_cleanup)(tsr_curl_multi *multi);
  int (*multi_add_handle)(tsr_curl_multi *multi, tsr_curl_easy *easy);
  int (*multi_remove_handle)(tsr_curl_multi *multi, tsr_curl_easy *easy);
  int (*multi_perform)(tsr_curl_multi *multi, int *running);
  int (*multi_wait)(tsr_curl_multi *multi, tsr_curl_wait *extra, unsigned count, int timeout_ms, int *ready);
  int (*multi_setopt)(tsr_curl_multi *multi, int option, ...);
  tsr_curl_message *(*multi_info_read)(tsr_curl_multi *multi, int *left);
  tsr_curl_list *(*slist_append)(tsr_curl_list *list, const char *line);
  void (*slist_free_all)(tsr_curl_list *list);
} tsr_curl;

/* Loads libcurl on the first call in a process, and returns its functions, which stay valid for ever: the library is
 * never unloaded. After a failure the next call tries again. Thread-safe.
 * Errors: TSR_UNSUPPORTED if there is no libcurl, with the package's name in the message, or if it is too old. */
int tsr__curl_load(const tsr_curl **curl, tsr_error *error);

#endif
