/* bucket.c: an object store for simulated worlds (world.h), with the meaning of S3: an answer shows every change that was
 * carried out before, a conditional request fails if its condition does not hold, and an object appears whole. The linker
 * puts it in the place of the HTTP client (--wrap of tsr__http_*), so what runs above is the product: signatures, retries,
 * resumed answers, listings in pages, turns and leases.
 *
 * A request arrives some time after it was sent, and its answer some time later. Both are moments of the world's true time,
 * and requests are carried out in the order in which they arrive. So a request may arrive after its process has died, or after
 * the client has given up waiting for the answer. machines_request says what befalls each.
 */
#include "bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/pool.h"
#include "crypto/crypto.h"
#include "remote/curl.h"
#include "remote/http.h"
#include "world.h"

#define MS       INT64_C(1000000)
#define STALL    (INT64_C(30000) * MS) /* as http.c gives up waiting */
#define KEY_ROOM 400 /* nothing is cut off: a longer one ends the program */

typedef struct object {
  char key[KEY_ROOM], etag[80], type[100];
  uint8_t *bytes; /* owned */
  uint64_t size;
  int64_t modified; /* ns of true time */
} object;

typedef struct answer {
  int status; /* 0: not carried out yet */
  char head[700]; /* lines of headers */
  uint8_t *body; /* owned */
  uint64_t size;
  uint64_t length; /* what Content-Length says; of a HEAD the object's size */
} answer;

/* A request under way. */
typedef struct flight {
  struct flight *next;
  tsr_http_request *waits; /* NULL: nobody waits for the answer any more */
  char method[8], key[KEY_ROOM], query[900];
  char range[64], condition[16], match[140], type[100], source[KEY_ROOM], dated[40];
  uint8_t *body; /* owned */
  uint64_t body_size;
  int64_t arrives, answered; /* true times */
  request_fate fate;
  bool vanishes; /* it never arrives */
  answer answer;
} flight;

static struct {
  object **objects; /* sorted by key */
  size_t count, room;
  flight *flights; /* in the order in which they were sent */
} server;

static void *need(void *memory) {
  if (!memory) abort();
  return memory;
}

static void set_text(char *to, size_t room, const char *from, size_t size) {
  if (size >= room) fail("the bucket has no room for %.*s", (int)size, from);
  memcpy(to, from, size);
  to[size] = 0;
}

static uint8_t *copy_of(const void *bytes, uint64_t size) {
  uint8_t *copy = need(malloc(size + 1));
  if (size) memcpy(copy, bytes, size);
  return copy;
}

/* ---- Objects ----------------------------------------------------------------------------------------------------- */

/* Returns the index of the first key that is not less than `key`. */
static size_t place_of(const char *key) {
  size_t low = 0, high = server.count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(server.objects[middle]->key, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

static object *find(const char *key) {
  const size_t at = place_of(key);
  return at < server.count && !strcmp(server.objects[at]->key, key) ? server.objects[at] : NULL;
}

/* Puts an object in the place of one with the same key. Takes `bytes`. */
static object *put(const char *key, uint8_t *bytes, uint64_t size, const char *type, const char *etag) {
  const size_t at = place_of(key);
  object *o = at < server.count && !strcmp(server.objects[at]->key, key) ? server.objects[at] : NULL;
  if (!o) {
    if (server.count == server.room)
      server.objects = need(realloc(server.objects, (server.room = 2 * server.room + 64) * sizeof *server.objects));
    memmove(&server.objects[at + 1], &server.objects[at], (server.count++ - at) * sizeof *server.objects);
    server.objects[at] = o = need(calloc(1, sizeof *o));
  }
  free(o->bytes);
  set_text(o->key, sizeof o->key, key, strlen(key));
  set_text(o->etag, sizeof o->etag, etag, strlen(etag));
  set_text(o->type, sizeof o->type, type, strlen(type));
  o->bytes = bytes;
  o->size = size;
  o->modified = the.now;
  return o;
}

static void drop(const char *key) {
  const size_t at = place_of(key);
  if (at == server.count || strcmp(server.objects[at]->key, key) != 0) return;
  free(server.objects[at]->bytes);
  free(server.objects[at]);
  memmove(&server.objects[at], &server.objects[at + 1], (--server.count - at) * sizeof *server.objects);
}

static void etag_of(const void *bytes, uint64_t size, char etag[80]) {
  uint8_t digest[TSR_MD5_SIZE];
  char digits[2 * TSR_MD5_SIZE + 1];
  if (tsr__md5(bytes, size, digest, NULL) < 0) abort();
  for (int i = 0; i < TSR_MD5_SIZE; i++) snprintf(digits + 2 * (size_t)i, 3, "%02x", digest[i]);
  snprintf(etag, 80, "\"%s\"", digits);
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */

static void add_line(answer *a, const char *name, const char *value) {
  const size_t at = strlen(a->head);
  snprintf(a->head + at, sizeof a->head - at, "%s: %s\r\n", name, value);
}

static void add_date(answer *a, const char *name, int64_t ns) {
  char date[TSR_HTTP_DATE_SIZE];
  tsr__http_date((ns + the.server_ahead) / MS, date);
  add_line(a, name, date);
}

static void answer_text(answer *a, int status, const char *body) {
  a->status = status;
  a->body = copy_of(body, strlen(body));
  a->size = a->length = strlen(body);
}

static void answer_error(answer *a, int status, const char *code) {
  char body[200];
  snprintf(body, sizeof body, "<?xml version=\"1.0\"?>\n<Error><Code>%s</Code><Message>no</Message></Error>", code);
  answer_text(a, status, body);
}

/* Most objects of a listing are of the same second. */
static void stamp(char to[40], int64_t ns) {
  static int64_t last = INT64_MIN;
  static char lasting[40];
  const int64_t second = (ns + the.server_ahead) / (1000 * MS);
  char digits[TSR_HTTP_STAMP_SIZE];
  if (second == last) {
    memcpy(to, lasting, 40);
    return;
  }
  tsr__http_time_stamp(second * 1000, digits);
  snprintf(to, 40, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s.000Z", digits, digits + 4, digits + 6, digits + 9, digits + 11,
           digits + 13);
  memcpy(lasting, to, 40);
  last = second;
}

typedef struct writing {
  char *bytes;
  size_t size, room;
} writing;

__attribute__((format(printf, 2, 3))) static void write_text(writing *w, const char *format, ...) {
  va_list arguments;
  if (w->room - w->size < 3000) w->bytes = need(realloc(w->bytes, w->room = 2 * w->room + 6000));
  va_start(arguments, format);
  w->size += (size_t)vsnprintf(w->bytes + w->size, w->room - w->size, format, arguments);
  va_end(arguments);
}

static void answer_written(answer *a, writing *w) {
  a->status = 200;
  a->body = (uint8_t *)w->bytes;
  a->size = a->length = w->size;
}

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

static int hex_value(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static void decode(char *to, size_t room, const char *from, size_t size) {
  size_t n = 0;
  for (size_t i = 0; i < size; i++) {
    if (n + 1 >= room) fail("the bucket has no room for %.*s", (int)size, from);
    const bool escaped = from[i] == '%' && i + 2 < size;
    to[n++] = escaped ? (char)(hex_value(from[i + 1]) * 16 + hex_value(from[i + 2])) : from[i];
    if (escaped) i += 2;
  }
  to[n] = 0;
}

/* Gives a parameter of a query, or returns false. */
static bool parameter(const flight *f, const char *name, char value[KEY_ROOM]) {
  const size_t length = strlen(name);
  for (const char *at = f->query; *at; at += strspn(at, "&")) {
    const size_t size = strcspn(at, "&");
    if (!strncmp(at, name, length) && (at[length] == '=' || length == size)) {
      decode(value, KEY_ROOM, at + length + (length < size), size - length - (length < size));
      return true;
    }
    at += size;
  }
  return false;
}

static void list_objects(const flight *f, answer *a) {
  char prefix[KEY_ROOM] = "", delimiter[KEY_ROOM] = "", after[KEY_ROOM] = "", last[KEY_ROOM] = "", time[40];
  writing w = {0};
  unsigned count = 0;
  bool more = false;
  parameter(f, "prefix", prefix);
  parameter(f, "delimiter", delimiter);
  const bool goes_on = parameter(f, "continuation-token", after);
  const size_t head = strlen(prefix);
  write_text(&w, "<?xml version=\"1.0\"?>\n<ListBucketResult><Prefix>%s</Prefix>", prefix);
  for (size_t i = place_of(prefix); i < server.count && !strncmp(server.objects[i]->key, prefix, head); i++) {
    const object *o = server.objects[i];
    const char *cut = *delimiter ? strstr(o->key + head, delimiter) : NULL;
    char name[KEY_ROOM];
    set_text(name, sizeof name, o->key, cut ? (size_t)(cut + 1 - o->key) : strlen(o->key));
    if (!strcmp(name, last) || (goes_on && strcmp(name, after) <= 0)) continue;
    if (count == the.page_size) {
      more = true;
      break;
    }
    count++;
    memcpy(last, name, strlen(name) + 1);
    if (!cut) stamp(time, o->modified);
    if (cut) write_text(&w, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", name);
    else
      write_text(&w,
                 "<Contents><Key>%s</Key><LastModified>%s</LastModified><ETag>&quot;%.*s&quot;</ETag><Size>%llu</Size>"
                 "</Contents>",
                 name, time, (int)strlen(o->etag) - 2, o->etag + 1, (unsigned long long)o->size);
  }
  write_text(&w, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
  if (more) write_text(&w, "<NextContinuationToken>%s</NextContinuationToken>", last);
  write_text(&w, "</ListBucketResult>");
  answer_written(a, &w);
}

/* Nobody begins an upload in parts: the files of these worlds are small. */
static void list_uploads(answer *a) {
  answer_text(a, 200,
              "<?xml version=\"1.0\"?>\n"
              "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>");
}

static void get(const flight *f, answer *a) {
  const object *o = find(f->key);
  if (!o) {
    answer_error(a, 404, "NoSuchKey");
    return;
  }
  if (*f->match && strcmp(f->match, o->etag) != 0) {
    answer_error(a, 412, "PreconditionFailed");
    return;
  }
  unsigned long long from = 0, to = o->size ? o->size - 1 : 0, size = o->size;
  const char *dash = strchr(f->range, '-');
  const bool ranged = dash && !strncmp(f->range, "bytes=", 6);
  if (ranged && f->range[6] == '-') {
    sscanf(f->range, "bytes=-%llu", &size);
    from = size < o->size ? o->size - size : 0;
  } else if (ranged && sscanf(f->range, "bytes=%llu-%llu", &from, &to) >= 1 && to >= o->size) to = o->size - 1;
  if (ranged && from >= o->size) {
    char line[60];
    answer_error(a, 416, "InvalidRange");
    snprintf(line, sizeof line, "bytes */%llu", (unsigned long long)o->size);
    add_line(a, "Content-Range", line);
    return;
  }
  if (ranged) {
    char line[100];
    snprintf(line, sizeof line, "bytes %llu-%llu/%llu", from, to, (unsigned long long)o->size);
    add_line(a, "Content-Range", line);
  }
  a->status = ranged ? 206 : 200;
  a->length = o->size ? to + 1 - from : 0;
  add_line(a, "ETag", o->etag);
  add_line(a, "Content-Type", o->type);
  add_date(a, "Last-Modified", o->modified);
  if (!strcmp(f->method, "HEAD")) return;
  a->body = copy_of(o->bytes + from, a->length);
  a->size = a->length;
}

/* Returns true, with the answer, if the request wants that there is no such object, or that there is this one. */
static bool condition_fails(const flight *f, answer *a) {
  const object *o = find(f->key);
  if (!(*f->condition && o) && !(*f->match && (!o || strcmp(o->etag, f->match) != 0))) return false;
  answer_error(a, 412, "PreconditionFailed");
  return true;
}

static void put_object(const flight *f, answer *a) {
  char etag[80], source[KEY_ROOM];
  if (condition_fails(f, a)) return;
  if (*f->source) {
    decode(source, sizeof source, f->source, strlen(f->source));
    const char *key = strchr(source + 1, '/');
    const object *from = key ? find(key + 1) : NULL;
    if (!from) {
      answer_error(a, 404, "NoSuchKey");
      return;
    }
    char body[300];
    const object *made = put(f->key, copy_of(from->bytes, from->size), from->size, from->type, from->etag);
    snprintf(body, sizeof body,
             "<?xml version=\"1.0\"?>\n<CopyObjectResult><ETag>&quot;%.*s&quot;</ETag></CopyObjectResult>",
             (int)strlen(made->etag) - 2, made->etag + 1);
    answer_text(a, 200, body);
    return;
  }
  etag_of(f->body, f->body_size, etag);
  put(f->key, copy_of(f->body, f->body_size), f->body_size, f->type, etag);
  add_line(a, "ETag", etag);
  a->status = 200;
}

static void delete_many(const flight *f, answer *a) {
  char *list = (char *)copy_of(f->body, f->body_size), key[KEY_ROOM];
  list[f->body_size] = 0;
  for (const char *at = list; (at = strstr(at, "<Key>")) != NULL; at++) {
    const char *end = strstr(at, "</Key>");
    set_text(key, sizeof key, at + 5, (size_t)(end - at - 5));
    drop(key);
  }
  free(list);
  answer_text(a, 200, "<?xml version=\"1.0\"?>\n<DeleteResult></DeleteResult>");
}

static void carry_out(const flight *f, answer *a) {
  char value[KEY_ROOM];
  const bool is_put = !strcmp(f->method, "PUT"), is_post = !strcmp(f->method, "POST");
  if (parameter(f, "uploads", value) && !is_post) list_uploads(a);
  else if (!*f->key && parameter(f, "list-type", value)) list_objects(f, a);
  else if (!*f->key && is_post && parameter(f, "delete", value)) delete_many(f, a);
  else if (parameter(f, "uploads", value) || parameter(f, "uploadId", value)) answer_error(a, 501, "NotImplemented");
  else if (is_put) put_object(f, a);
  else if (!strcmp(f->method, "GET") || !strcmp(f->method, "HEAD")) get(f, a);
  else if (!strcmp(f->method, "DELETE")) {
    drop(f->key);
    a->status = 204;
  } else answer_error(a, 405, "MethodNotAllowed");
}

/* ---- Time -------------------------------------------------------------------------------------------------------- */

static bool is_far(int64_t ms) {
  const int64_t differs = ms - (the.now + the.server_ahead) / MS;
  return differs > 900000 || differs < -900000;
}

/* Whether the clock of the client that has signed differs too much from the server's. */
static bool is_skewed(const flight *f) {
  static char last[sizeof f->dated];
  static int64_t ms; /* of it */
  char iso[40];
  if (strlen(f->dated) < 16) return false;
  if (!strcmp(f->dated, last)) return is_far(ms);
  snprintf(iso, sizeof iso, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", f->dated, f->dated + 4, f->dated + 6, f->dated + 9,
           f->dated + 11, f->dated + 13);
  if (!tsr__http_time_parse(iso, &ms)) return false;
  memcpy(last, f->dated, sizeof last);
  return is_far(ms);
}

static void arrive(flight *f) {
  answer *a = &f->answer;
  trace((uint64_t)f->fate << 8 | (uint8_t)*f->method);
  if (is_skewed(f)) answer_error(a, 403, "RequestTimeTooSkewed");
  else if (f->fate == REQUEST_BUSY) answer_error(a, one_in(2) ? 503 : 500, one_in(2) ? "SlowDown" : "InternalError");
  else if (f->fate == REQUEST_CONFLICT && *f->condition) answer_error(a, 409, "ConditionalRequestConflict");
  else carry_out(f, a);
  if (f->fate == REQUEST_TWICE || f->fate == REQUEST_DONE_500) {
    free(a->body);
    *a = (answer){0};
    if (f->fate == REQUEST_TWICE) carry_out(f, a);
    else answer_error(a, 500, "InternalError");
  }
  add_date(a, "Date", the.now);
  say("  %s %s%s%s: %d", f->method, f->key, *f->query ? "?" : "", f->query, a->status);
}

static void free_flight(flight *f) {
  free(f->body);
  free(f->answer.body);
  free(f);
}

/* Carries out what has arrived by now, and forgets what nobody waits for any more. */
static void advance(void) {
  for (;;) {
    flight *first = NULL;
    for (flight *f = server.flights; f; f = f->next)
      if (!f->answer.status && !f->vanishes && f->arrives <= the.now && (!first || f->arrives < first->arrives))
        first = f;
    if (!first) break;
    arrive(first);
  }
  for (flight **link = &server.flights; *link;) {
    flight *f = *link;
    if (f->waits || (!f->answer.status && !f->vanishes)) {
      link = &f->next;
      continue;
    }
    *link = f->next;
    free_flight(f);
  }
}

static flight *flight_of(const tsr_http_request *request) {
  flight *f = server.flights;
  while (f && f->waits != request) f = f->next;
  return f;
}

/* ---- Delivery ---------------------------------------------------------------------------------------------------- */

static void set_failure(tsr_http_request *r, tsr_http_failure failure, const char *reason) {
  r->failure = failure;
  r->rc = tsr__fail(&r->error,
                    failure == TSR_HTTP_TOO_LARGE   ? TSR_TOOBIG
                    : failure == TSR_HTTP_NO_MEMORY ? TSR_NOMEM
                    : failure == TSR_HTTP_CANCELLED ? TSR_INTERRUPT
                                                    : TSR_UNREACHABLE,
                    "simulated: %s", reason);
}

static void deliver_body(const answer *a, tsr_http_request *r, uint64_t size) {
  const bool good = a->status >= 200 && a->status <= 299;
  if (good && a->length > r->most && size) {
    set_failure(r, TSR_HTTP_TOO_LARGE, "the answer is larger than it may be");
    return;
  }
  if (good && r->into) {
    if (size) memcpy(r->into, a->body, size);
  } else if (r->received.memory) {
    tsr_error error;
    const int rc = tsr__buffer_append(&r->received, a->body, size, tsr__error_clear(&error));
    if (rc < 0) {
      set_failure(r, TSR_HTTP_NO_MEMORY, "no memory");
      r->rc = rc;
      r->error = error;
      return;
    }
  } else if (!good) return;
  r->size = r->bytes_received = size;
}

static void deliver(flight *f) {
  tsr_http_request *r = f->waits;
  const answer *a = &f->answer;
  const bool lost = f->vanishes || f->fate == REQUEST_ANSWER_LOST || f->fate == REQUEST_LATE;
  char line[60];
  f->waits = NULL;
  r->bytes_sent = f->body_size;
  if (lost && f->answered - f->arrives < STALL / 2) set_failure(r, TSR_HTTP_CUT, "the connection was reset");
  else if (lost) set_failure(r, TSR_HTTP_STALLED, "no answer");
  else {
    snprintf(line, sizeof line, "HTTP/1.1 %d x\r\n", a->status);
    tsr__http_response_line(&r->response, line, strlen(line));
    for (const char *at = a->head; *at;) {
      const size_t size = strcspn(at, "\n") + 1;
      tsr__http_response_line(&r->response, at, size);
      at += size;
    }
    snprintf(line, sizeof line, "Content-Length: %llu\r\n", (unsigned long long)a->length);
    if (a->status != 204) tsr__http_response_line(&r->response, line, strlen(line));
    const bool torn = f->fate == REQUEST_TORN && a->size > 0;
    deliver_body(a, r, torn ? chance((unsigned)a->size) : a->size);
    if (torn && r->failure == TSR_HTTP_WHOLE) set_failure(r, TSR_HTTP_CUT, "the answer was cut");
  }
  atomic_store(&r->running, false);
}

/* ---- The HTTP client --------------------------------------------------------------------------------------------- */

static void take_headers(flight *f, const tsr_http_request *request) {
  const struct {
    const char *name;
    char *to;
    size_t room;
  } wanted[] = {{"range", f->range, sizeof f->range},
                {"if-none-match", f->condition, sizeof f->condition},
                {"if-match", f->match, sizeof f->match},
                {"content-type", f->type, sizeof f->type},
                {"x-amz-copy-source", f->source, sizeof f->source},
                {"x-amz-date", f->dated, sizeof f->dated}};
  for (uint32_t i = 0; i < request->header_count; i++)
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
      const char *line = request->headers[i];
      const size_t size = strlen(wanted[k].name);
      if (strncasecmp(line, wanted[k].name, size) != 0 || line[size] != ':') continue;
      const char *value = line + size + 1 + strspn(line + size + 1, " ");
      set_text(wanted[k].to, wanted[k].room, value, strlen(value));
    }
}

static void take_url(flight *f, const char *url) {
  const char *path = strchr(strstr(url, "://") + 3, '/');
  const char *key = path ? strchr(path + 1, '/') : NULL;
  const size_t whole = path ? strcspn(path, "?") : 0;
  if (key && key < path + whole) decode(f->key, sizeof f->key, key + 1, whole - (size_t)(key + 1 - path));
  const char *query = strchr(url, '?');
  if (query) set_text(f->query, sizeof f->query, query + 1, strlen(query + 1));
}

void __wrap_tsr__http_start(tsr_http_request *request);
void __wrap_tsr__http_start(tsr_http_request *request) {
  request->rc = TSR_OK;
  request->failure = TSR_HTTP_WHOLE;
  request->size = request->bytes_sent = request->bytes_received = 0;
  tsr__http_response_clear(&request->response);
  tsr__error_clear(&request->error);
  const request_fate fate = machines_request();
  if (fate == REQUEST_DEAD) { /* the process does not wait for another try */
    set_failure(request, TSR_HTTP_TLS, "the process is dead");
    return;
  }
  flight *f = need(calloc(1, sizeof *f)), **link = &server.flights;
  set_text(f->method, sizeof f->method, request->method, strlen(request->method));
  take_url(f, request->url);
  take_headers(f, request);
  f->body = copy_of(request->body, request->body_size);
  f->body_size = request->body_size;
  f->waits = request;
  f->fate = fate;
  const int64_t way = (1 + chance(the.latency)) * MS / 4;
  f->arrives = the.now + way;
  f->answered = f->arrives + (1 + chance(the.latency)) * MS / 4;
  f->vanishes = fate == REQUEST_LOST || (fate == REQUEST_TORN && f->body_size > 0);
  if ((f->vanishes || fate == REQUEST_ANSWER_LOST) && one_in(3)) f->answered += STALL;
  if (fate == REQUEST_LATE) f->arrives = (f->answered = the.now + STALL) + chance(60000) * MS;
  if (fate == REQUEST_LATE && f->arrives - f->answered < STALL / 2) f->answered -= STALL;
  while (*link) link = &(*link)->next;
  *link = f;
  the.requests++;
  atomic_store(&request->running, true);
}

bool __wrap_tsr__http_finished(tsr_http_request *request);
bool __wrap_tsr__http_finished(tsr_http_request *request) {
  if (!atomic_load(&request->running)) return true;
  flight *f = flight_of(request);
  if (machines_dead()) {
    f->answered = the.now; /* nobody hears it any more */
    f->fate = REQUEST_ANSWER_LOST;
    f->vanishes = f->vanishes || one_in(2);
  }
  advance();
  if (f->answered <= the.now && (f->answer.status || f->vanishes || f->fate >= REQUEST_ANSWER_LOST)) deliver(f);
  return !atomic_load(&request->running);
}

int __wrap_tsr__http_wait(tsr_http_request *const *requests, uint64_t count, uint64_t timeout_ms, tsr_memory *memory,
                          tsr_error *error);
int __wrap_tsr__http_wait(tsr_http_request *const *requests, uint64_t count, uint64_t timeout_ms, tsr_memory *memory,
                          tsr_error *error) {
  const int64_t ends = timeout_ms < UINT64_C(1) << 40 ? the.now + (int64_t)timeout_ms * MS : INT64_MAX;
  for (;;) {
    int64_t next = ends;
    bool some = false;
    for (uint64_t i = 0; i < count; i++) {
      if (!requests[i]) continue;
      if (__wrap_tsr__http_finished(requests[i])) return 1;
      const flight *f = flight_of(requests[i]);
      if (f->answered < next) next = f->answered;
      some = true;
    }
    if (!some || next <= the.now) return 0;
    if (memory) TSR_TRY(tsr__cancelled(memory, error));
    actor_sleep(next - the.now);
  }
}

void __wrap_tsr__http_cancel(tsr_http_request *request);
void __wrap_tsr__http_cancel(tsr_http_request *request) {
  flight *f = flight_of(request);
  if (!f) return;
  f->waits = NULL;
  f->vanishes = f->vanishes || (!f->answer.status && one_in(2));
  set_failure(request, TSR_HTTP_CANCELLED, "cancelled");
  atomic_store(&request->running, false);
}

int __wrap_tsr__curl_load(const tsr_curl **curl, tsr_error *error);
int __wrap_tsr__curl_load(const tsr_curl **curl, tsr_error *error) {
  (void)error;
  *curl = NULL;
  return TSR_OK;
}

/* ---- Digests ----------------------------------------------------------------------------------------------------- */

/* Nobody here checks a signature, and SHA-256 would take a tenth of the time. */
static void digest(const void *bytes, uint64_t size, uint64_t seed, uint8_t to[TSR_SHA256_SIZE]) {
  uint64_t lanes[4] = {seed, size, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xbf58476d1ce4e5b9)};
  for (uint64_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    memcpy(&word, (const uint8_t *)bytes + at, size - at < 8 ? size - at : 8);
    for (int i = 0; i < 4; i++) {
      lanes[i] = (lanes[i] ^ word ^ lanes[(i + 1) % 4]) * (UINT64_C(0xff51afd7ed558ccd) + 2 * (uint64_t)i);
      lanes[i] ^= lanes[i] >> 29;
    }
  }
  memcpy(to, lanes, sizeof lanes);
}

int __wrap_tsr__sha256(const void *bytes, uint64_t size, uint8_t to[TSR_SHA256_SIZE], tsr_error *error);
int __wrap_tsr__sha256(const void *bytes, uint64_t size, uint8_t to[TSR_SHA256_SIZE], tsr_error *error) {
  (void)error;
  digest(bytes, size, 1, to);
  return TSR_OK;
}

int __wrap_tsr__hmac_sha256(const void *key, uint64_t key_size, const void *bytes, uint64_t size,
                            uint8_t to[TSR_SHA256_SIZE], tsr_error *error);
int __wrap_tsr__hmac_sha256(const void *key, uint64_t key_size, const void *bytes, uint64_t size,
                            uint8_t to[TSR_SHA256_SIZE], tsr_error *error) {
  uint64_t seed;
  (void)error;
  digest(key, key_size, 2, to);
  memcpy(&seed, to, sizeof seed);
  digest(bytes, size, seed, to);
  return TSR_OK;
}

/* ---- A world's bucket -------------------------------------------------------------------------------------------- */

bool bucket_has(const char *suffix) {
  const size_t size = strlen(suffix);
  for (size_t i = 0; i < server.count; i++) {
    const size_t length = strlen(server.objects[i]->key);
    if (length >= size && !strcmp(server.objects[i]->key + length - size, suffix)) return true;
  }
  return false;
}

uint64_t bucket_digest(const char *prefix) {
  const size_t head = strlen(prefix);
  uint8_t made[TSR_SHA256_SIZE];
  uint64_t sum = 0, one;
  for (size_t i = place_of(prefix); i < server.count && !strncmp(server.objects[i]->key, prefix, head); i++) {
    const object *o = server.objects[i];
    digest(o->key, strlen(o->key), sum, made);
    memcpy(&one, made, sizeof one);
    digest(o->bytes, o->size, one, made);
    memcpy(&sum, made, sizeof sum);
  }
  return sum;
}

bool bucket_is_busy(void) {
  advance();
  for (const flight *f = server.flights; f; f = f->next)
    if (!f->waits && !f->vanishes) return true;
  return false;
}

void bucket_end(void) {
  for (size_t i = 0; i < server.count; i++) {
    for (const char *c = server.objects[i]->key; *c; c++) trace((uint8_t)*c);
    for (uint64_t k = 0; k < server.objects[i]->size; k++) trace(server.objects[i]->bytes[k]);
    free(server.objects[i]->bytes);
    free(server.objects[i]);
  }
  while (server.flights) {
    flight *f = server.flights;
    server.flights = f->next;
    free_flight(f);
  }
  free(server.objects);
  memset(&server, 0, sizeof server);
}
