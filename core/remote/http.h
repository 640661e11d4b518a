/* http.h: an HTTP client over libcurl. One I/O thread of the process runs all transfers; any thread may start, wait for
 * and cancel requests. The client knows nothing about object stores: it does not retry, follows no redirects, and sends
 * no headers but the caller's, Host, Accept and Content-Length.
 *
 * The I/O thread allocates nothing through a tsr_memory. A body of unknown size grows on the thread that waits for the
 * request, so the transfer pauses while the buffer is full and nobody is waiting. */
#ifndef TSR_HTTP_H
#define TSR_HTTP_H

#include <stdatomic.h>

#include "base/memory.h"
#include "remote/http_response.h"

/* How to reach a server. All pointers are borrowed until the requests that use them are finished. */
typedef struct tsr_http_transport {
  uint32_t connect_ms; /* for name lookup, connection and TLS together; 0: 10,000 */
  uint32_t stall_ms; /* a transfer fails if no byte moves for this long; 0: 30,000 */
  const char *ca_file; /* PEM file with the only certificates to trust; NULL: the system's */
  const char *proxy; /* URL; NULL: none. Environment variables are ignored */
  bool plain_http; /* allows http:// to other hosts than the loopback interface */
} tsr_http_transport;

/* Why a request has no complete response. */
typedef enum tsr_http_failure {
  TSR_HTTP_WHOLE, /* it has one, with any status */
  TSR_HTTP_REFUSED, /* the request is invalid and was not sent: scheme, user name in the URL, header with a line end */
  TSR_HTTP_NO_LIBRARY, /* no libcurl: TSR_UNSUPPORTED */
  TSR_HTTP_UNREACHED, /* no name, connection or TLS, or none within connect_ms: the server has not seen the request */
  TSR_HTTP_TLS, /* the server's certificate is not trusted, or the CA file is unusable: retrying is pointless */
  TSR_HTTP_STALLED, /* no byte for stall_ms: the server may have carried out the request */
  TSR_HTTP_CUT, /* reset, closed, truncated or not HTTP; or it belongs to the parent of this process. As STALLED */
  TSR_HTTP_TOO_LARGE, /* the body has more than `most` bytes: TSR_TOOBIG */
  TSR_HTTP_NO_MEMORY, /* TSR_BUDGET or TSR_NOMEM */
  TSR_HTTP_CANCELLED /* by tsr__http_cancel: TSR_INTERRUPT */
} tsr_http_failure;

/* Used only by http.c. */
typedef struct tsr_http_transfer {
  struct tsr_http_request *next, *previous; /* in the list of queued or running requests */
  struct tsr_curl_easy *easy; /* owned by the I/O thread once the request is queued */
  struct tsr_curl_list *lines; /* headers, owned like `easy` */
  int64_t process; /* id of the process that started it */
  int64_t started, moved; /* by tsr__ticks: when libcurl got it, when a byte last moved */
  uint64_t body_at; /* bytes of the body that libcurl has taken */
  uint64_t head_size; /* bytes of headers */
  uint64_t dropped; /* bytes of an error's body that were not kept */
  bool paused; /* the I/O thread waits for `grown` */
  bool cancel, grown; /* requests to the I/O thread, under the mutex */
  uint64_t wants; /* bytes of room that `received` needs, under the mutex; 0: none */
  char host[128]; /* of the URL, with the port, for messages */
  char message[256]; /* where libcurl writes why a transfer failed */
} tsr_http_transfer;

/* A request. The caller provides the structure, fills in the first part (the rest `= {0}`), starts it, and neither
 * moves nor changes it until it is finished. */
typedef struct tsr_http_request {
  const char *method; /* "GET", "HEAD", "PUT", "POST", "DELETE" */
  const char *url; /* sent as is: percent-encoded, no dot segments removed. Copied by tsr__http_start */
  const char *const *headers; /* "Name: value", without line ends. Copied by tsr__http_start */
  uint32_t header_count;
  bool fresh; /* open a new connection rather than reuse one */
  const tsr_http_transport *transport;
  const void *body; /* of a PUT or POST; borrowed until the request is finished */
  uint64_t body_size; /* in bytes */
  uint64_t most; /* largest body of the response, in bytes */
  /* Where the response's body goes: to `into`, which has room for `most` bytes and is borrowed until the request is
   * finished; or, if `into` is NULL, appended to `received`, whose memory the caller sets and which the caller
   * releases. If the status is not 2xx, the body goes to `received` in any case, up to TSR_HTTP_ERROR_MAX bytes; the
   * rest of it, or all if `received` has no memory, is dropped. */
  void *into;
  tsr_buffer received;

  /* The result; valid once the request is finished. */
  int rc; /* TSR_OK if `failure` is TSR_HTTP_WHOLE; else the code named at tsr_http_failure, or TSR_UNREACHABLE */
  tsr_http_failure failure;
  tsr_http_response response; /* as much of it as arrived */
  uint64_t size; /* bytes of the body that arrived in `into` or `received`, even if the body was cut short */
  uint64_t bytes_sent, bytes_received; /* of bodies, over the wire */
  tsr_error error; /* names host and cause; never a path, a query, a header or a body */

  /* Used only by http.c. */
  _Atomic bool running;
  tsr_http_transfer transfer;
} tsr_http_request;

#define TSR_HTTP_ERROR_MAX (UINT64_C(64) << 10)

/* Starts a request. Never fails: on return the request is running, or has already finished, possibly with a failure in
 * request->rc. So callers handle failures in one place, after the wait. */
void tsr__http_start(tsr_http_request *request);

/* Returns true if the request is finished: the caller may read the result, and change and reuse the structure. A
 * request that was never started counts as finished. */
bool tsr__http_finished(tsr_http_request *request);

/* Waits until at least one of the requests is finished. Entries may be NULL. Returns 1 then, immediately if one already
 * is; 0 after `timeout_ms` (UINT64_MAX: never), or if all entries are NULL. While it waits, it polls the host of
 * `memory` for cancellation (not if NULL), and makes room for those of `requests` that need it. Errors: TSR_INTERRUPT;
 * the requests keep running, and the caller must cancel them. */
int tsr__http_wait(tsr_http_request *const *requests, uint64_t count, uint64_t timeout_ms, tsr_memory *memory,
                   tsr_error *error);

/* Ends a request that is not finished. On return no thread uses the structure or the body. */
void tsr__http_cancel(tsr_http_request *request);

/* Returns how many transfers of the process are running or queued; for tests. */
uint32_t tsr__http_running(void);

/* Returns true for localhost, 127.0.0.0/8 and [::1], with or without a port. */
bool tsr__is_loopback(const char *authority, size_t size);

#endif
