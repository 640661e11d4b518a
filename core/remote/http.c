/* http.c: the I/O thread and its requests.
 *
 * tsr__http_start prepares libcurl's handle on the caller's thread and queues the request. From then on only the I/O
 * thread touches the handle. A request moves from the queue to the list of running requests, which holds at most
 * RUNNING_MAX, and is in neither once it is finished. The mutex guards the queue and the fields `cancel`, `grown` and
 * `wants` of all requests; the list of running requests belongs to the I/O thread. To get the I/O thread's attention, a
 * thread rings a bell, for which the I/O thread waits together with libcurl's sockets.
 *
 * A body of unknown size goes into a tsr_buffer. The host's allocator may not be thread-safe, so the I/O thread never
 * grows that buffer: it pauses the transfer and stores in `wants` how much room it needs, and the thread that waits for
 * the request makes the room.
 *
 * The host may call fork(). A handler that runs before the fork makes the I/O thread pause outside libcurl, so that no
 * lock of libcurl or its TLS library is held. The child has no I/O thread: it starts its own on first use, with new
 * connections, because two processes cannot share a TLS connection. The parent's connections are left alone; closing
 * them in the child would send the server a goodbye in the parent's name. Likewise, when the process exits the thread
 * pauses for ever, before the TLS library cleans up beneath it. Requests that are then running are ended by the threads
 * that wait for them.
 *
 * Order: the end of a request; libcurl's callbacks; preparing a transfer; the I/O thread; start, forks and exit; and
 * last the public functions.
 */
#include "remote/http.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/system.h"
#include "remote/curl.h"

#define RUNNING_MAX      128u /* transfers that libcurl runs at a time */
#define CONNECTIONS_KEPT 128L
#define CONNECT_MS       10000
#define STALL_MS         30000
#define FIRST_ROOM       (UINT64_C(64) << 10) /* initial capacity of `received`, in bytes */
#define HEAD_MAX         (UINT64_C(256) << 10) /* bytes of headers of one response */
#define DROPPED_MAX      (UINT64_C(1) << 20) /* bytes of an error's body that are read and dropped */
#define HTTP_LINES_MAX   64u /* headers of a request */
#define LOOK_MS          1000 /* the I/O thread looks for stalled transfers at least this often */
#define CANCEL_MS        20 /* time between two polls of the host */
#define EXIT_MS          2000 /* longest time that the exit of the process waits for the I/O thread */

static struct {
  _Atomic uint64_t state; /* see tsr__process_enter */
  pthread_mutex_t mutex; /* guards everything below but `multi` and `running` */
  pthread_cond_t changed; /* signalled when a request is finished or wants room */
  pthread_cond_t quiet, resume; /* signalled when the I/O thread pauses; when a fork is over */
  const tsr_curl *curl;
  tsr_curl_multi *multi; /* of the I/O thread */
  tsr_bell bell; /* wakes the I/O thread */
  tsr_http_request *queue, **queue_end;
  tsr_http_request *running; /* of the I/O thread */
  uint32_t running_count; /* of the I/O thread */
  uint32_t unfinished; /* queued or running */
  unsigned forking; /* threads inside fork(); the I/O thread pauses until it is 0 */
  bool parked, started; /* the I/O thread is paused; it exists */
  _Atomic bool exiting; /* the process is exiting, and the I/O thread is paused for ever */
} http;

/* ---- The end of a request -------------------------------------------------------------------- */

static int code_of_failure(tsr_http_failure failure) {
  switch (failure) {
  case TSR_HTTP_WHOLE: return TSR_OK;
  case TSR_HTTP_REFUSED: return TSR_ERROR;
  case TSR_HTTP_NO_LIBRARY: return TSR_UNSUPPORTED;
  case TSR_HTTP_TOO_LARGE: return TSR_TOOBIG;
  case TSR_HTTP_NO_MEMORY: return TSR_NOMEM;
  case TSR_HTTP_CANCELLED: return TSR_INTERRUPT;
  default: return TSR_UNREACHABLE;
  }
}

/* Returns the part of a URL after the scheme, or the whole text without one. *size: its size up to the path. */
static const char *find_authority(const char *url, size_t *size) {
  const char *begin = strstr(url, "://");
  begin = begin ? begin + 3 : url;
  *size = strcspn(begin, "/?#");
  return begin;
}

/* Sets the result, with "HOST: reason" as the message. */
static void set_failure(tsr_http_request *request, tsr_http_failure failure, const char *reason) {
  request->failure = failure;
  request->rc = tsr__fail(&request->error, code_of_failure(failure), "%s: %s", request->transfer.host, reason);
}

/* Frees libcurl's objects. The header lines are wiped, because they may contain a session token. */
static void release_transfer(tsr_http_request *request) {
  tsr_http_transfer *t = &request->transfer;
  if (t->easy) http.curl->easy_cleanup(t->easy);
  for (tsr_curl_list *line = t->lines; line; line = line->next) tsr__wipe(line->data, strlen(line->data));
  if (t->lines) http.curl->slist_free_all(t->lines);
  t->easy = NULL;
  t->lines = NULL;
}

/* Marks a queued request as finished: from now on the caller may free it. */
static void publish_end(tsr_http_request *request) {
  release_transfer(request);
  pthread_mutex_lock(&http.mutex);
  http.unfinished--;
  atomic_store_explicit(&request->running, false, memory_order_release);
  pthread_cond_broadcast(&http.changed);
  pthread_mutex_unlock(&http.mutex);
}

/* ---- Callbacks from libcurl ------------------------------------------------------------------ */

/* Aborts a transfer from within a callback. We ignore the error that libcurl then reports. */
static size_t break_transfer(tsr_http_request *request, tsr_http_failure failure, const char *reason) {
  set_failure(request, failure, reason);
  return 0;
}

static size_t on_header(char *line, size_t one, size_t count, void *argument) {
  tsr_http_request *request = argument;
  const size_t size = one * count;
  request->transfer.moved = (int64_t)tsr__ticks();
  request->transfer.head_size += size;
  if (request->transfer.head_size > HEAD_MAX) return break_transfer(request, TSR_HTTP_CUT, "the headers do not end");
  tsr__http_response_line(&request->response, line, size);
  return size;
}

static size_t keep_in_place(tsr_http_request *request, const void *bytes, size_t size) {
  memcpy((uint8_t *)request->into + request->size, bytes, size);
  request->size += size;
  return size;
}

static size_t keep_in_buffer(tsr_http_request *request, const void *bytes, size_t size) {
  tsr_buffer *out = &request->received;
  if (size > out->capacity - out->size) {
    const tsr_http_response *response = &request->response;
    uint64_t wants = out->capacity;
    if (response->has_length) wants = response->content_length - TSR_MIN(request->size, response->content_length);
    wants = TSR_MAX(size, TSR_MIN(wants, request->most - TSR_MIN(request->size, request->most)));
    request->transfer.paused = true;
    pthread_mutex_lock(&http.mutex);
    request->transfer.wants = wants;
    pthread_cond_broadcast(&http.changed);
    pthread_mutex_unlock(&http.mutex);
    return TSR_CURL_WRITE_PAUSE;
  }
  memcpy(out->data + out->size, bytes, size);
  out->size += size;
  request->size += size;
  return size;
}

/* Keeps the beginning of an error's body, if `received` can take it. */
static size_t keep_error(tsr_http_request *request, const void *bytes, size_t size) {
  const uint64_t left = request->received.memory ? TSR_HTTP_ERROR_MAX - request->size : 0;
  const size_t kept = (size_t)TSR_MIN(size, left);
  if (kept > 0 && keep_in_buffer(request, bytes, kept) == TSR_CURL_WRITE_PAUSE) return TSR_CURL_WRITE_PAUSE;
  request->transfer.dropped += size - kept;
  if (request->transfer.dropped > DROPPED_MAX)
    return break_transfer(request, TSR_HTTP_TOO_LARGE, "an error's text does not end");
  return size;
}

static size_t on_body(char *bytes, size_t one, size_t count, void *argument) {
  tsr_http_request *request = argument;
  const size_t size = one * count;
  size_t kept;
  const tsr_http_response *response = &request->response;
  request->transfer.moved = (int64_t)tsr__ticks();
  if (response->status < 200 || response->status > 299) kept = keep_error(request, bytes, size);
  else if (size > request->most - request->size || (response->has_length && response->content_length > request->most))
    kept = break_transfer(request, TSR_HTTP_TOO_LARGE, "the answer is larger than it may be");
  else kept = request->into ? keep_in_place(request, bytes, size) : keep_in_buffer(request, bytes, size);
  if (kept == size) request->bytes_received += size;
  return kept;
}

static size_t on_send(char *bytes, size_t one, size_t count, void *argument) {
  tsr_http_request *request = argument;
  const uint64_t size = TSR_MIN(one * count, request->body_size - request->transfer.body_at);
  request->transfer.moved = (int64_t)tsr__ticks();
  if (size > 0) memcpy(bytes, (const uint8_t *)request->body + request->transfer.body_at, size);
  request->transfer.body_at += size;
  request->bytes_sent += size;
  return size;
}

/* If a reused connection turns out to be closed, libcurl rewinds the body and sends it again. */
static int on_seek(void *argument, int64_t offset, int origin) {
  tsr_http_request *request = argument;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > request->body_size) return 1;
  request->transfer.body_at = (uint64_t)offset;
  return 0;
}

/* Keeps the connection from being inherited by programs that the host starts. */
static int on_socket(void *argument, tsr_socket descriptor, int purpose) {
  tsr__socket_no_inherit(descriptor);
  return 0;
}

/* ---- Preparing a transfer -------------------------------------------------------------------- */

bool tsr__is_loopback(const char *authority, size_t size) {
  char host[64];
  size_t length = size;
  for (size_t i = size; i-- > 0 && authority[i] != ']';)
    if (authority[i] == ':') length = i;
  if (length == 0 || length >= sizeof host) return false;
  memcpy(host, authority, length);
  host[length] = 0;
  if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
  if (strncmp(host, "127.", 4) != 0) return false;
  const char *at = host;
  for (int part = 0; part < 4; part++) { /* exactly four numbers: 127.example.com is a host name */
    const size_t digits = strspn(at, "0123456789");
    if (digits < 1 || digits > 3) return false;
    at += digits;
    if (part < 3 && *at++ != '.') return false;
  }
  return *at == 0;
}

/* Returns what is wrong with a URL, or NULL. Allows few characters in the authority, so that no two parsers disagree
 * about the host. */
static const char *find_url_fault(const tsr_http_request *request) {
  size_t size;
  const bool plain = strncmp(request->url, "http://", 7) == 0;
  if (!plain && strncmp(request->url, "https://", 8) != 0) return "only http and https can be used";
  const char *authority = find_authority(request->url, &size);
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
  if (size == 0 || strspn(authority, letters) < size) return "this cannot be the name of a host";
  for (const char *c = authority; *c; c++)
    if ((uint8_t)*c <= 0x20 || *c == 0x7f) return "the URL has spaces or control characters";
  if (plain && !tsr__is_loopback(authority, size) && !request->transport->plain_http)
    return "plain http is allowed to this machine only; use https";
  return NULL;
}

static const char *find_fault(const tsr_http_request *request) {
  static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
  bool known = false;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(request->method, methods[i]) == 0) known = true;
  if (!known) return "a method that cannot be used";
  if (request->header_count > HTTP_LINES_MAX) return "too many headers";
  for (uint32_t i = 0; i < request->header_count; i++) {
    const char *line = request->headers[i], *colon = strchr(line, ':');
    if (!colon || colon == line) return "a header without a name";
    for (; *line; line++)
      if ((uint8_t)*line < 0x20 || *line == 0x7f) return "a header with control characters";
  }
  return find_url_fault(request);
}

/* Appends a header. To libcurl "Name:" means that the header is removed, and "Name;" that its value is empty. */
static bool add_curl_line(const tsr_curl *curl, tsr_curl_list **lines, const char *line) {
  char empty[128];
  const size_t name = strcspn(line, ":"), spaces = strspn(line + name + 1, " ");
  if (line[name + 1 + spaces] == 0 && name + 2 <= sizeof empty) {
    memcpy(empty, line, name);
    memcpy(empty + name, ";", 2);
    line = empty;
  }
  tsr_curl_list *longer = curl->slist_append(*lines, line);
  if (longer) *lines = longer;
  return longer != NULL;
}

static bool add_curl_lines(const tsr_curl *curl, tsr_http_request *request) {
  tsr_curl_list **lines = &request->transfer.lines;
  bool typed = false;
  for (uint32_t i = 0; i < request->header_count; i++) {
    if (!add_curl_line(curl, lines, request->headers[i])) return false;
    typed = typed || strncasecmp(request->headers[i], "content-type:", 13) == 0;
  }
  const char *const removed[] = {"Expect:", "Content-Type:"}; /* libcurl would add these by itself */
  for (unsigned i = 0; i < (typed ? 1u : 2u); i++) {
    tsr_curl_list *longer = curl->slist_append(*lines, removed[i]);
    if (!longer) return false;
    *lines = longer;
  }
  return true;
}

/* Sets options and remembers the first failure. */
typedef struct option_setter {
  const tsr_curl *curl;
  tsr_curl_easy *easy;
  int result;
} option_setter;

static void set_curl_number(option_setter *s, int option, long value) {
  const int result = s->curl->easy_setopt(s->easy, option, value);
  if (s->result == TSR_CURLE_OK) s->result = result;
}

static void set_curl_size(option_setter *s, int option, uint64_t value) {
  const int result = s->curl->easy_setopt(s->easy, option, (int64_t)value);
  if (s->result == TSR_CURLE_OK) s->result = result;
}

static void set_curl_pointer(option_setter *s, int option, const void *value) {
  const int result = s->curl->easy_setopt(s->easy, option, value);
  if (s->result == TSR_CURLE_OK) s->result = result;
}

static void set_method(option_setter *s, const tsr_http_request *request) {
  const char *method = request->method;
  if (strcmp(method, "GET") == 0) set_curl_number(s, TSR_CURLOPT_HTTPGET, 1);
  else if (strcmp(method, "HEAD") == 0) set_curl_number(s, TSR_CURLOPT_NOBODY, 1);
  else if (strcmp(method, "DELETE") == 0) set_curl_pointer(s, TSR_CURLOPT_CUSTOMREQUEST, "DELETE");
  else if (strcmp(method, "PUT") == 0) {
    set_curl_number(s, TSR_CURLOPT_UPLOAD, 1);
    set_curl_size(s, TSR_CURLOPT_INFILESIZE_LARGE, request->body_size);
  } else {
    set_curl_number(s, TSR_CURLOPT_POST, 1);
    set_curl_size(s, TSR_CURLOPT_POSTFIELDSIZE_LARGE, request->body_size);
  }
}

static void set_functions(option_setter *s, tsr_http_request *request) {
  (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_WRITEFUNCTION, on_body);
  (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_HEADERFUNCTION, on_header);
  (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_READFUNCTION, on_send);
  (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_SEEKFUNCTION, on_seek);
  (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_SOCKOPTFUNCTION, on_socket);
  set_curl_pointer(s, TSR_CURLOPT_WRITEDATA, request);
  set_curl_pointer(s, TSR_CURLOPT_HEADERDATA, request);
  set_curl_pointer(s, TSR_CURLOPT_READDATA, request);
  set_curl_pointer(s, TSR_CURLOPT_SEEKDATA, request);
  set_curl_pointer(s, TSR_CURLOPT_PRIVATE, request);
  set_curl_pointer(s, TSR_CURLOPT_ERRORBUFFER, request->transfer.message);
}

/* Always sets a proxy, even if to none, because otherwise libcurl looks at environment variables. */
static void set_transport(option_setter *s, const tsr_http_transport *transport) {
  set_curl_pointer(s, TSR_CURLOPT_PROXY, transport->proxy ? transport->proxy : "");
  set_curl_pointer(s, TSR_CURLOPT_NOPROXY, "");
  set_curl_number(s, TSR_CURLOPT_CONNECTTIMEOUT_MS, (long)(transport->connect_ms ? transport->connect_ms : CONNECT_MS));
  set_curl_number(s, TSR_CURLOPT_SSL_VERIFYPEER, 1);
  set_curl_number(s, TSR_CURLOPT_SSL_VERIFYHOST, 2);
  if (transport->ca_file) {
    set_curl_pointer(s, TSR_CURLOPT_CAINFO, transport->ca_file);
    (void)s->curl->easy_setopt(s->easy, TSR_CURLOPT_CAPATH, (const char *)NULL); /* not every TLS library has it */
  }
}

/* Makes libcurl's handle. Returns a CURLE_ code. */
static int prepare_transfer(const tsr_curl *curl, tsr_http_request *request) {
  option_setter s = {curl, curl->easy_init(), TSR_CURLE_OK};
  request->transfer.easy = s.easy;
  if (!s.easy || !add_curl_lines(curl, request)) return TSR_CURLE_NOMEM;
  set_functions(&s, request);
  set_transport(&s, request->transport);
  set_method(&s, request);
  set_curl_pointer(&s, TSR_CURLOPT_URL, request->url);
  set_curl_pointer(&s, TSR_CURLOPT_HTTPHEADER, request->transfer.lines);
  set_curl_number(&s, TSR_CURLOPT_NOSIGNAL, 1);
  set_curl_number(&s, TSR_CURLOPT_NOPROGRESS, 1);
  set_curl_number(&s, TSR_CURLOPT_FOLLOWLOCATION, 0);
  set_curl_number(&s, TSR_CURLOPT_PROTOCOLS, TSR_CURL_PROTOCOL_HTTP | TSR_CURL_PROTOCOL_HTTPS);
  set_curl_number(&s, TSR_CURLOPT_HTTP_VERSION, TSR_CURL_HTTP_1_1);
  set_curl_number(&s, TSR_CURLOPT_PATH_AS_IS, 1);
  set_curl_number(&s, TSR_CURLOPT_TCP_KEEPALIVE, 1);
  set_curl_number(&s, TSR_CURLOPT_BUFFERSIZE, 64L << 10);
  if (request->fresh) set_curl_number(&s, TSR_CURLOPT_FRESH_CONNECT, 1);
  (void)curl->easy_setopt(s.easy, TSR_CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* missing in the oldest versions */
  return s.result;
}

/* ---- The I/O thread -------------------------------------------------------------------------- */

static void link_request(tsr_http_request **list, tsr_http_request *request) {
  request->transfer.previous = NULL;
  request->transfer.next = *list;
  if (*list) (*list)->transfer.previous = request;
  *list = request;
}

static void unlink_request(tsr_http_request **list, tsr_http_request *request) {
  tsr_http_transfer *t = &request->transfer;
  if (t->previous) t->previous->transfer.next = t->next;
  else *list = t->next;
  if (t->next) t->next->transfer.previous = t->previous;
}

/* Ends a running request. Unless a failure has been set, the result is libcurl's. */
static void end_running(tsr_http_request *request) {
  (void)http.curl->multi_remove_handle(http.multi, request->transfer.easy);
  unlink_request(&http.running, request);
  http.running_count--;
  publish_end(request);
}

/* Returns true once the connection is established, including TLS. */
static bool is_connected(const tsr_http_request *request) {
  double seconds = 0;
  (void)http.curl->easy_getinfo(request->transfer.easy, TSR_CURLINFO_PRETRANSFER, &seconds);
  return seconds > 0;
}

static tsr_http_failure classify_result(const tsr_http_request *request, int result) {
  switch (result) {
  case TSR_CURLE_RESOLVE_PROXY:
  case TSR_CURLE_RESOLVE_HOST:
  case TSR_CURLE_CONNECT:
  case TSR_CURLE_PROXY:
  case TSR_CURLE_SSL_CONNECT:
  case TSR_CURLE_TIMEOUT: return TSR_HTTP_UNREACHED;
  case TSR_CURLE_SSL_CERTIFICATE:
  case TSR_CURLE_SSL_CIPHER:
  case TSR_CURLE_PEER:
  case TSR_CURLE_CA_FILE:
  case TSR_CURLE_SSL_ISSUER:
  case TSR_CURLE_SSL_PIN:
  case TSR_CURLE_SSL_STATUS: return TSR_HTTP_TLS;
  case TSR_CURLE_NOMEM: return TSR_HTTP_NO_MEMORY;
  case TSR_CURLE_PROTOCOL: /* a libcurl without TLS, or a response that is not HTTP */
  case TSR_CURLE_URL: return is_connected(request) ? TSR_HTTP_CUT : TSR_HTTP_REFUSED;
  default: return TSR_HTTP_CUT;
  }
}

static void take_result(tsr_http_request *request, int result) {
  if (request->failure == TSR_HTTP_WHOLE && result != TSR_CURLE_OK) {
    const char *reason = request->transfer.message, *proxy = request->transport->proxy;
    const bool tells = *reason && !(proxy && strchr(proxy, '@')); /* libcurl may write the proxy with its password */
    set_failure(request, classify_result(request, result), tells ? reason : http.curl->easy_strerror(result));
  }
  end_running(request);
}

/* Hands queued requests to libcurl. */
static void run_queued(void) {
  while (http.running_count < RUNNING_MAX) {
    pthread_mutex_lock(&http.mutex);
    tsr_http_request *request = http.queue;
    if (request) http.queue = request->transfer.next;
    if (!http.queue) http.queue_end = &http.queue;
    pthread_mutex_unlock(&http.mutex);
    if (!request) return;
    request->transfer.started = request->transfer.moved = (int64_t)tsr__ticks();
    link_request(&http.running, request);
    http.running_count++;
    if (http.curl->multi_add_handle(http.multi, request->transfer.easy) != 0) {
      set_failure(request, TSR_HTTP_UNREACHED, "libcurl does not take the request");
      end_running(request);
    }
  }
}

/* Removes cancelled requests from the queue. */
static void end_cancelled_queued(void) {
  for (;;) {
    tsr_http_request *cancelled = NULL;
    pthread_mutex_lock(&http.mutex);
    for (tsr_http_request **at = &http.queue; *at && !cancelled;) {
      if ((*at)->transfer.cancel) {
        cancelled = *at;
        *at = cancelled->transfer.next;
        if (!*at) http.queue_end = at;
      } else {
        at = &(*at)->transfer.next;
      }
    }
    pthread_mutex_unlock(&http.mutex);
    if (!cancelled) return;
    set_failure(cancelled, TSR_HTTP_CANCELLED, "cancelled");
    publish_end(cancelled);
  }
}

/* Carries out what other threads have asked for a running request, and ends it if it has stalled. */
static void attend_request(tsr_http_request *request, int64_t now) {
  tsr_http_transfer *t = &request->transfer;
  pthread_mutex_lock(&http.mutex);
  const bool cancel = t->cancel, grown = t->grown;
  t->grown = false;
  pthread_mutex_unlock(&http.mutex);
  if (cancel) {
    if (request->failure == TSR_HTTP_WHOLE) set_failure(request, TSR_HTTP_CANCELLED, "cancelled");
    end_running(request);
    return;
  }
  if (grown) {
    t->paused = false;
    t->moved = now;
    (void)http.curl->easy_pause(t->easy, TSR_CURL_CONTINUE); /* may call on_body */
  }
  const int64_t stall_ms = request->transport->stall_ms ? request->transport->stall_ms : STALL_MS;
  if (t->paused) t->moved = now;
  if (now - t->moved < stall_ms) return;
  const int64_t connect_ms = request->transport->connect_ms ? request->transport->connect_ms : CONNECT_MS;
  if (!is_connected(request) && now - t->started < connect_ms) { /* libcurl watches the connect timeout */
    t->moved = now;
    return;
  }
  char reason[64];
  snprintf(reason, sizeof reason, "no byte in %lld ms", (long long)stall_ms);
  set_failure(request, TSR_HTTP_STALLED, reason);
  end_running(request);
}

static void attend_all(void) {
  const int64_t now = (int64_t)tsr__ticks();
  end_cancelled_queued();
  for (tsr_http_request *request = http.running, *next; request; request = next) {
    next = request->transfer.next;
    attend_request(request, now);
  }
}

/* Returns how many ms the thread may sleep before a transfer can have stalled. */
static int sleep_time(void) {
  if (!http.running) return 3600 * 1000;
  const int64_t now = (int64_t)tsr__ticks();
  int64_t least = LOOK_MS;
  for (const tsr_http_request *request = http.running; request; request = request->transfer.next) {
    const int64_t stall_ms = request->transport->stall_ms ? request->transport->stall_ms : STALL_MS;
    least = TSR_MIN(least, TSR_MAX(request->transfer.moved + stall_ms - now, 1));
  }
  return (int)least;
}

static void pause_for_fork(void) {
  pthread_mutex_lock(&http.mutex);
  while (http.forking > 0) {
    http.parked = true;
    pthread_cond_broadcast(&http.quiet);
    pthread_cond_wait(&http.resume, &http.mutex);
  }
  http.parked = false;
  pthread_mutex_unlock(&http.mutex);
}

static void *run_io(void *argument) {
  const tsr_curl *curl = http.curl;
  for (;;) {
    int running, left, ready;
    tsr_curl_message *message;
    pause_for_fork();
    attend_all();
    run_queued();
    (void)curl->multi_perform(http.multi, &running);
    while ((message = curl->multi_info_read(http.multi, &left)) != NULL) {
      tsr_http_request *request = NULL;
      if (message->kind != TSR_CURL_DONE) continue;
      const int result = message->data.result; /* read it now: the message is freed with its handle */
      (void)curl->easy_getinfo(message->easy, TSR_CURLINFO_PRIVATE, &request);
      take_result(request, result);
    }
    run_queued(); /* fill the places that have become free */
    tsr_curl_wait bell = {http.bell.waits, TSR_CURL_READABLE, 0};
    (void)curl->multi_wait(http.multi, &bell, 1, sleep_time(), &ready);
    tsr__bell_clear(&http.bell);
  }
  return NULL;
}

/* ---- Start, forks and exit ------------------------------------------------------------------- */

static void http_before_fork(void) {
  pthread_mutex_lock(&http.mutex);
  http.forking++;
  if (http.started) tsr__bell_ring(&http.bell);
  while (http.started && !http.parked) pthread_cond_wait(&http.quiet, &http.mutex);
}

static void http_after_fork(void) {
  http.forking--;
  pthread_cond_broadcast(&http.resume);
  pthread_mutex_unlock(&http.mutex);
}

static void http_after_fork_in_child(void) {
  http.started = false;
  http.forking = 0;
  pthread_mutex_unlock(&http.mutex);
}

/* The thread stays paused: `forking` is never decremented. Exit handlers that run later may still close requests. */
static void http_at_exit(void) {
  const uint64_t begin = tsr__ticks();
  pthread_mutex_lock(&http.mutex);
  http.forking++;
  if (http.started) tsr__bell_ring(&http.bell);
  while (http.started && !http.parked && tsr__ticks() - begin < EXIT_MS)
    tsr__condition_wait(&http.quiet, &http.mutex, EXIT_MS);
  http.exiting = http.parked || !http.started;
  pthread_cond_broadcast(&http.changed);
  pthread_mutex_unlock(&http.mutex);
}

/* Initializes the globals of this process. */
static void http_enter(void) {
  const bool first = atomic_load_explicit(&http.state, memory_order_relaxed) == 0;
  if (!tsr__process_enter(&http.state)) return;
  pthread_mutex_init(&http.mutex, NULL);
  tsr__condition_init(&http.changed);
  tsr__condition_init(&http.quiet);
  pthread_cond_init(&http.resume, NULL);
  if (!first && http.multi) tsr__bell_close(&http.bell); /* the child's copy of the parent's bell */
  http.multi = NULL;
  http.running = http.queue = NULL;
  http.queue_end = &http.queue;
  http.running_count = http.unfinished = 0;
  http.forking = 0;
  http.parked = http.started = false;
  http.exiting = false;
  if (first) tsr__at_fork(http_before_fork, http_after_fork, http_after_fork_in_child);
  tsr__process_made(&http.state);
}

/* Creates what the thread needs, and the thread; with the mutex held. If a later step fails, the earlier ones stay. */
static const char *start_io(void) {
  static bool at_exit;
  if (!http.multi) {
    if (!tsr__bell_open(&http.bell)) return "a pipe cannot be made";
    http.multi = http.curl->multi_init();
    if (!http.multi) {
      tsr__bell_close(&http.bell);
      return "libcurl cannot be started";
    }
    (void)http.curl->multi_setopt(http.multi, TSR_CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
  }
  if (!at_exit && tsr__threads_live_at_exit())
    at_exit = atexit(http_at_exit) == 0; /* registered after libcurl's handlers, so that it runs before them */
  http.started = tsr__thread_start(run_io, NULL);
  return http.started ? NULL : "the I/O thread cannot be started";
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void clear_result(tsr_http_request *request) {
  size_t size;
  const char *host = find_authority(request->url, &size);
  request->rc = TSR_OK;
  request->failure = TSR_HTTP_WHOLE;
  request->size = request->bytes_sent = request->bytes_received = 0;
  request->transfer = (tsr_http_transfer){.process = getpid()};
  size = TSR_MIN(size, sizeof request->transfer.host - 1);
  memcpy(request->transfer.host, host, size);
  tsr__http_response_clear(&request->response);
  tsr__error_clear(&request->error);
}

/* Makes room for the beginning of the body. */
static bool make_first_room(tsr_http_request *request) {
  if (request->into || !request->received.memory) return true;
  const int rc = tsr__buffer_reserve_exactly(&request->received, TSR_MIN(request->most, FIRST_ROOM), &request->error);
  if (rc >= 0) return true;
  request->failure = TSR_HTTP_NO_MEMORY;
  request->rc = rc;
  return false;
}

/* Queues a prepared request. Returns what went wrong, or NULL. */
static const char *enqueue_request(tsr_http_request *request) {
  const char *fault = NULL;
  pthread_mutex_lock(&http.mutex);
  if (http.exiting) fault = "the process ends";
  else if (!http.started) fault = start_io();
  if (!fault) {
    atomic_store_explicit(&request->running, true, memory_order_relaxed);
    *http.queue_end = request;
    http.queue_end = &request->transfer.next;
    http.unfinished++;
    tsr__bell_ring(&http.bell);
  }
  pthread_mutex_unlock(&http.mutex);
  return fault;
}

/* Makes libcurl's handle and queues the request, or sets the failure. */
static void start_transfer(const tsr_curl *curl, tsr_http_request *request) {
  http_enter();
  pthread_mutex_lock(&http.mutex);
  if (!http.curl) http.curl = curl;
  pthread_mutex_unlock(&http.mutex);
  const int result = prepare_transfer(curl, request);
  const char *fault = NULL;
  if (result == TSR_CURLE_OK && (fault = enqueue_request(request)) == NULL) return; /* it may already be finished */
  if (fault) set_failure(request, TSR_HTTP_UNREACHED, fault);
  else if (result == TSR_CURLE_NOMEM) set_failure(request, TSR_HTTP_NO_MEMORY, "out of memory");
  else if (result == TSR_CURLE_UNKNOWN_OPTION || result == TSR_CURLE_NOT_BUILT_IN)
    set_failure(request, TSR_HTTP_NO_LIBRARY, "the libcurl of this machine is too old, or has no TLS");
  else set_failure(request, TSR_HTTP_REFUSED, curl->easy_strerror(result));
  release_transfer(request);
}

void tsr__http_start(tsr_http_request *request) {
  const tsr_curl *curl;
  clear_result(request);
  const char *fault = find_fault(request);
  if (fault) {
    set_failure(request, TSR_HTTP_REFUSED, fault);
  } else if (tsr__curl_load(&curl, &request->error) < 0) {
    request->failure = TSR_HTTP_NO_LIBRARY;
    request->rc = request->error.code;
  } else if (make_first_room(request)) {
    start_transfer(curl, request);
  }
}

/* Ends a request that no thread runs: the parent process started it, or this process is exiting. Leaks its handle. */
static void end_orphan(tsr_http_request *request) {
  const bool inherited = request->transfer.process != getpid();
  if (!atomic_load_explicit(&request->running, memory_order_acquire) || (!inherited && !http.exiting)) return;
  request->transfer.easy = NULL;
  request->transfer.lines = NULL;
  set_failure(request, TSR_HTTP_CUT, inherited ? "the request belongs to the parent process" : "the process ends");
  atomic_store_explicit(&request->running, false, memory_order_relaxed);
}

bool tsr__http_finished(tsr_http_request *request) {
  end_orphan(request);
  return !atomic_load_explicit(&request->running, memory_order_acquire);
}

/* Makes the room that a paused request needs. Call with the mutex held; it is released meanwhile. */
static void give_room(tsr_http_request *request) {
  const uint64_t wants = request->transfer.wants;
  tsr_error error;
  request->transfer.wants = 0;
  pthread_mutex_unlock(&http.mutex);
  const int rc = tsr__buffer_reserve(&request->received, wants, tsr__error_clear(&error));
  if (rc < 0) { /* safe without the mutex: the transfer is paused, so the I/O thread does not touch the result */
    request->failure = TSR_HTTP_NO_MEMORY;
    request->rc = rc;
    request->error = error;
  }
  pthread_mutex_lock(&http.mutex);
  if (rc < 0) request->transfer.cancel = true;
  else request->transfer.grown = true;
  tsr__bell_ring(&http.bell);
}

/* Looks at all requests. Returns 1 if one is finished, 0 if all are running, 2 if all entries are NULL. Call with the
 * mutex held; it is released while making room for a request. */
static int look_at_requests(tsr_http_request *const *requests, uint64_t count) {
  int found = 2;
  for (uint64_t i = 0; i < count; i++) {
    if (!requests[i]) continue;
    if (tsr__http_finished(requests[i])) return 1;
    if (requests[i]->transfer.wants > 0) give_room(requests[i]);
    found = 0;
  }
  return found;
}

int tsr__http_wait(tsr_http_request *const *requests, uint64_t count, uint64_t timeout_ms, tsr_memory *memory,
                   tsr_error *error) {
  const uint64_t begin = tsr__ticks();
  int rc;
  http_enter();
  pthread_mutex_lock(&http.mutex);
  while ((rc = look_at_requests(requests, count)) == 0) {
    const uint64_t waited = tsr__ticks() - begin;
    if (waited >= timeout_ms) break;
    tsr__condition_wait(&http.changed, &http.mutex, TSR_MIN(timeout_ms - waited, memory ? CANCEL_MS : LOOK_MS));
    if (!memory) continue;
    pthread_mutex_unlock(&http.mutex);
    rc = tsr__cancelled(memory, error);
    pthread_mutex_lock(&http.mutex);
    if (rc < 0) break;
  }
  pthread_mutex_unlock(&http.mutex);
  return rc == 2 ? TSR_OK : rc;
}

void tsr__http_cancel(tsr_http_request *request) {
  if (tsr__http_finished(request)) return;
  pthread_mutex_lock(&http.mutex);
  request->transfer.cancel = true;
  tsr__bell_ring(&http.bell);
  while (!tsr__http_finished(request)) pthread_cond_wait(&http.changed, &http.mutex);
  pthread_mutex_unlock(&http.mutex);
}

uint32_t tsr__http_running(void) {
  http_enter();
  pthread_mutex_lock(&http.mutex);
  const uint32_t count = http.unfinished;
  pthread_mutex_unlock(&http.mutex);
  return count;
}
