/* s3.h: objects in buckets of S3 and of servers that speak its protocol. Nothing leaves the
 * machine before a scope has been declared for the bucket. A scope has the options for all keys below one prefix; a
 * tsr_s3 is a client of one bucket under one scope; a tsr_s3_call is one operation on it. The client signs requests,
 * tries them again, goes on where an answer was cut, and classifies what a server says.
 *
 * All functions may be called from any thread, unless their contract says otherwise. */
#ifndef TSR_REMOTE_S3_H
#define TSR_REMOTE_S3_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "remote/credentials.h"
#include "remote/http.h"
#include "remote/sigv4.h"
#include "remote/s3_response.h"

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* What all clients of a registry have done so far. */
#define TSR_S3_COUNTERS(X)                                                                                             \
  X(gets)                                                                                                              \
  X(heads)                                                                                                             \
  X(lists) /* each page */                                                                                             \
  X(puts) /* each part, copies and what begins and completes an upload in parts, too */                                \
  X(deletes) /* a request that deletes many objects counts once */                                                     \
  X(retries) /* requests that were sent again; not counted above a second time */                                      \
  X(round_trips) /* requests that left while no other one was outstanding */                                           \
  X(bytes_sent) X(bytes_received) /* of bodies, again for each try */

typedef struct tsr_s3_counters {
#define X(name) _Atomic uint64_t name;
  TSR_S3_COUNTERS(X)
#undef X
} tsr_s3_counters;

/* The scopes of one environment. */
typedef struct tsr_s3_scopes tsr_s3_scopes;
int tsr__s3_scopes_open(tsr_memory *memory, tsr_s3_scopes **scopes, tsr_error *error);

/* Forgets all scopes. Clients are closed before. NULL is allowed. */
void tsr__s3_scopes_close(tsr_s3_scopes *scopes);

/* Declares the options for "s3://bucket" or "s3://bucket/prefix", in place of those that were declared before for the
 * same text. Clients that are open continue with the new options. Sends nothing. Errors: TSR_ERROR for a scope or an
 * option that cannot be, with a message that names it; TSR_PERM after tsr__s3_scopes_confine. */
int tsr__s3_scopes_set(tsr_s3_scopes *scopes, const char *scope, const tsr_s3_options *options, tsr_error *error);

/* Forgets a scope and wipes its keys. Calls of clients under it fail with TSR_PERM from now on. Returns 1 if the scope
 * was declared, else 0. */
int tsr__s3_scopes_forget(tsr_s3_scopes *scopes, const char *scope, tsr_error *error);

/* Refuses from now on, with TSR_PERM, each new scope that does not lie below `uri` or has an endpoint that no scope has
 * now, and all use of instance metadata. */
int tsr__s3_scopes_confine(tsr_s3_scopes *scopes, const char *uri, tsr_error *error);

/* Returns true if `path` begins with "s3://". */
bool tsr__is_s3(const char *path);

/* Returns the counters of the registry; valid until it is closed. */
tsr_s3_counters *tsr__s3_scopes_counters(tsr_s3_scopes *scopes);

/* ---- Clients --------------------------------------------------------------------------------- */

typedef struct tsr_s3 tsr_s3;

/* Opens a client for "s3://bucket[/prefix]" under the scope that matches most of its whole path parts. `scopes` outlives
 * it. Sends nothing. Errors: TSR_NOT_FOUND "no scope for s3://...: call tessera_s3 first"; TSR_UNSUPPORTED without
 * libcurl. */
int tsr__s3_open(tsr_s3_scopes *scopes, tsr_memory *memory, const char *uri, tsr_s3 **s3, tsr_error *error);
void tsr__s3_close(tsr_s3 *s3); /* after all of its calls are finished; NULL is allowed */

const char *tsr__s3_bucket(const tsr_s3 *s3);

/* Returns the part of the uri behind "s3://bucket/", without a '/' at its end; "" for the bucket itself. */
const char *tsr__s3_prefix(const tsr_s3 *s3);

uint64_t tsr__s3_part_size(const tsr_s3 *s3); /* bytes of the parts of large objects */
uint32_t tsr__s3_parallel(const tsr_s3 *s3);
uint32_t tsr__s3_refresh_ms(const tsr_s3 *s3);

/* Returns the server's time in milliseconds since 1970: the clock, corrected by the Date of the latest answer if the
 * two differ by more than a second. */
uint64_t tsr__s3_now(const tsr_s3 *s3);

/* Proves once for each scope that the server honours `If-None-Match: *`, by an object of its own below `key_prefix`
 * ("" or ending in '/'), which it removes. Errors: TSR_READONLY if the server overwrites objects all the same. */
int tsr__s3_prove(tsr_s3 *s3, const char *key_prefix, tsr_error *error);

/* ---- Calls ----------------------------------------------------------------------------------- */

typedef enum tsr_s3_kind {
  TSR_S3_GET, /* an object or a part of it */
  TSR_S3_HEAD, /* size, time and ETag of an object */
  TSR_S3_LIST, /* keys that begin with `key`, all pages */
  TSR_S3_PUT,
  TSR_S3_DELETE, /* also succeeds if the object does not exist */
  TSR_S3_DELETE_MANY, /* the same for many keys: 1,000 in a request */
  TSR_S3_COPY, /* by the server, within the bucket: from `source` to `key` */
  TSR_S3_UPLOAD_CREATE, /* begins an object that is uploaded in parts */
  TSR_S3_UPLOAD_PART,
  TSR_S3_UPLOAD_COMPLETE, /* the object appears */
  TSR_S3_UPLOAD_ABORT, /* also succeeds if the upload does not exist */
  TSR_S3_UPLOAD_LIST /* uploads, neither completed nor aborted, whose keys begin with `key` */
} tsr_s3_kind;

typedef enum tsr_s3_range {
  TSR_S3_WHOLE,
  TSR_S3_RANGE, /* bytes [offset, offset + size); the object's end may cut it */
  TSR_S3_SUFFIX /* the last `size` bytes, or the whole object if it has less */
} tsr_s3_range;

/* An ETag as the server wrote it, with its quotes. */
typedef struct tsr_etag {
  char text[136];
} tsr_etag;

typedef struct tsr_s3_object {
  const char *key; /* of a prefix that the delimiter made: up to the delimiter, with it */
  uint64_t size; /* in bytes */
  int64_t modified; /* in milliseconds since 1970; of an upload: when it began */
  const char *etag; /* or the id of an upload */
  bool is_prefix; /* the keys that begin with `key` are not listed one by one */
} tsr_s3_object;

/* The first part of the names of objects with which tsr__s3_prove tries conditional writes. A process that is killed
 * meanwhile leaves one. */
#define TSR_S3_PROOF ".tessera_proof_"

/* Answers of LIST and UPLOAD_LIST, sorted by key as bytes. `= {0}` with a memory is an empty one. */
typedef struct tsr_s3_objects {
  tsr_memory *memory; /* borrowed; set by the caller */
  tsr_s3_object *at; /* owned */
  uint64_t count, capacity;
  tsr_arena texts; /* of all of them */
} tsr_s3_objects;
void tsr__s3_objects_release(tsr_s3_objects *objects);

/* GET: which bytes, and where they go. */
typedef struct tsr_s3_get {
  tsr_s3_range range;
  uint64_t offset, size;
  uint64_t most; /* more bytes are TSR_TOOBIG; 0: `room` with `into`, else no limit */
  void *into; /* room for `room` bytes, or NULL: the bytes are appended to `buffer` */
  uint64_t room;
  tsr_buffer *buffer;
} tsr_s3_get;

/* LIST: keys are grouped at the delimiter behind the prefix; 0: not. Keys come after `start_after`; NULL: all.
 * UPLOAD_LIST: `most` and `objects` only. */
typedef struct tsr_s3_list {
  char delimiter;
  const char *start_after;
  uint64_t most; /* more entries are TSR_TOOBIG; 0: no limit */
  tsr_s3_objects *objects;
} tsr_s3_list;

/* PUT, UPLOAD_PART: what is sent. With new_only a PUT or an UPLOAD_COMPLETE fails with TSR_EXISTS if the key exists,
 * unless the object is what this call has put there itself: its answer was lost. */
typedef struct tsr_s3_put {
  const void *bytes; /* `size` of them */
  uint64_t size;
  bool new_only;
} tsr_s3_put;

/* UPLOAD_PART, _COMPLETE, _ABORT. Parts are numbered from 1; `etags` are those of parts 1 to `part_count`. */
typedef struct tsr_s3_upload_parts {
  const char *id;
  uint32_t part, part_count;
  const tsr_etag *etags;
} tsr_s3_upload_parts;

/* What a call that succeeded has found. */
typedef struct tsr_s3_result {
  uint64_t received; /* GET: bytes written */
  uint64_t object_size; /* GET, HEAD: of the whole object */
  int64_t modified; /* GET, HEAD: in milliseconds since 1970 */
  tsr_etag etag; /* GET, HEAD, PUT, COPY, UPLOAD_PART, UPLOAD_COMPLETE */
  char id[1032]; /* UPLOAD_CREATE: the new upload's id */
} tsr_s3_result;

/* One operation. The caller provides the structure, zeroed but for what its kind takes, and does not move it before it
 * is finished; everything that it points to is borrowed for as long. Keys are whole keys of the bucket (UTF-8, at most
 * 1,024 bytes, not encoded) and lie within the scope: others fail with TSR_PERM, and nothing is sent. */
typedef struct tsr_s3_call {
  tsr_s3_kind kind;
  const char *key; /* LIST, UPLOAD_LIST: the prefix, which may be "" */
  bool unnamed; /* the error's message does not begin with the key, since the caller adds it */

  tsr_s3_get get;
  tsr_s3_list list;
  tsr_s3_put put;
  tsr_s3_upload_parts upload;
  const char *source; /* COPY: the key that is copied */
  const char *const *keys; /* DELETE_MANY: `key_count` keys */
  uint64_t key_count;

  int rc; /* of this call */
  tsr_error error;
  tsr_s3_result result; /* valid if `rc` is TSR_OK */

  struct tsr_s3_state *state; /* of the client, between start and finish; NULL before and after */
} tsr_s3_call;

/* Runs calls, at most `parallel` at a time, and returns when all of them are finished. Every call has its own rc and
 * error. Returns TSR_OK or the rc of the first call that failed, with its error. When the host cancels, all return
 * TSR_INTERRUPT; requests that change something may have been carried out then.
 *
 * Codes of calls: TSR_NOT_FOUND: no such object, or no such upload. TSR_DENIED: the server refuses, the keys are wrong or
 * missing; never taken for "absent". TSR_EXISTS: see new_only. TSR_CORRUPT: a range outside the object. TSR_TOOBIG: see
 * `most`. TSR_PERM: outside the scope, or the scope was forgotten. TSR_UNREACHABLE: no answer, or no usable one, after all
 * retries. TSR_ERROR: anything else that the server said: no such bucket, another region ... */
int tsr__s3_run(tsr_s3 *s3, tsr_s3_call *calls, uint64_t count, tsr_error *error);

/* Runs one call. */
int tsr__s3_one(tsr_s3 *s3, tsr_s3_call *call, tsr_error *error);

/* For reading ahead: sends the first request of a call and returns. tsr__s3_finish waits for its end, with retries as
 * tsr__s3_run has them; tsr__s3_cancel ends it without a result. Each call that was started is finished or cancelled
 * once. A failed start is reported by finish. */
void tsr__s3_start(tsr_s3 *s3, tsr_s3_call *call);
int tsr__s3_finish(tsr_s3 *s3, tsr_s3_call *call, tsr_error *error);
void tsr__s3_cancel(tsr_s3 *s3, tsr_s3_call *call);

/* Returns true if the request of a call that was started has its answer, so that tsr__s3_finish waits for nothing, unless
 * the call needs another request. */
bool tsr__s3_answered(const tsr_s3_call *call);

/* One scope of s3.h: its options, where its bucket is, and the keys that sign its requests. For the files of
 * the client alone. */

typedef enum tsr_s3_proof { TSR_S3_UNPROVEN, TSR_S3_PROVEN, TSR_S3_DISPROVED } tsr_s3_proof;

/* Where the requests of a scope go. */
typedef struct tsr_s3_endpoint {
  bool aws, path_style;
  const char *scheme, *host, *base; /* "https", "host:port", and a path, "" in most cases; host: not for AWS */
} tsr_s3_endpoint;

/* What the server's answers have said of its time. */
typedef struct tsr_s3_clocks {
  _Atomic int64_t skew; /* milliseconds that requests are dated later than the clock: a server has refused them */
  _Atomic int64_t ahead; /* milliseconds that the server's clock is ahead of ours, by the latest answer */
} tsr_s3_clocks;

/* What signs the requests of a scope. */
typedef struct tsr_s3_signing {
  pthread_mutex_t mutex; /* guards the others */
  char region[64]; /* that the server named; "": none */
  tsr_sigv4_key key; /* derived from the credentials with this number */
  uint64_t key_number;
} tsr_s3_signing;

typedef struct tsr_s3_scope {
  struct tsr_s3_scope *next; /* in the registry's list */
  tsr_s3_scopes *scopes; /* borrowed */
  uint64_t references; /* the list's, clients' and calls'; guarded by the registry's mutex */
  _Atomic bool forgotten; /* or replaced: not in the list any more */

  const char *name; /* "s3://bucket/prefix", without a '/' at its end */
  const char *bucket, *prefix; /* prefix "": the whole bucket */
  tsr_arena texts; /* of names and options */
  tsr_s3_options options; /* defaults filled in; without keys */
  tsr_http_transport transport;

  tsr_provider provider;
  tsr_s3_endpoint endpoint;
  tsr_s3_clocks clocks;
  tsr_s3_signing signing;
  _Atomic int proof; /* a tsr_s3_proof */
} tsr_s3_scope;

struct tsr_s3_scopes {
  tsr_memory *memory; /* borrowed */
  pthread_mutex_t mutex; /* guards the list and all references */
  tsr_s3_scope *first; /* longest names first */
  char *confined; /* "s3://bucket/prefix", or NULL */
  _Atomic uint64_t outstanding; /* requests that were sent, and whose answers no caller has taken yet */
  tsr_s3_counters counters;
};

/* Returns the scope for a uri with a reference, or NULL. */
tsr_s3_scope *tsr__s3_scope_find(tsr_s3_scopes *scopes, const char *uri);
void tsr__s3_scope_leave(tsr_s3_scope *scope); /* one less; NULL is allowed */

/* Splits "s3://bucket/prefix" into texts of the arena, without '/' at its end. Errors: TSR_ERROR if it is no such uri. */
int tsr__s3_uri_parse(const char *uri, tsr_arena *arena, const char **bucket, const char **prefix, tsr_error *error);

/* Returns true if a key is the prefix, or lies below it. A key that ends in '/' is the prefix of a listing. */
bool tsr__s3_key_is_below(const char *key, const char *prefix);

/* Keeps the region that a server named. Returns false if it is none, or the one that was used. */
bool tsr__s3_scope_learn_region(tsr_s3_scope *scope, const char *region, const char *used);

/* A request that is signed for a scope. */
typedef struct tsr_s3_signed {
  tsr_buffer url; /* memory set by the caller */
  tsr_sigv4_lines lines; /* as well */
  uint64_t key_number; /* of the credentials */
  char region[64]; /* that was used */
} tsr_s3_signed;

/* Signs a request. `key` is the object's key, or "" for the bucket; host and path of `request` are filled in. Payloads
 * are signed where there is no TLS. `refused`: see tsr__credentials_get. */
int tsr__s3_scope_sign(tsr_s3_scope *scope, tsr_memory *memory, const char *key, tsr_sigv4_request *request,
                       const void *body, uint64_t body_size, uint64_t refused, tsr_s3_signed *made, tsr_error *error);

int64_t tsr__s3_clock(void); /* milliseconds since 1970 */

/* A call of s3.h while it runs. A call consists of one request or several: pages of a listing, parts of an
 * object after an answer that was cut, tries. s3.c drives the calls, s3_request.c makes their requests, s3_request.c and
 * s3_request.c take their answers, s3_request.c judges them. */

typedef enum tsr_s3_phase { TSR_S3_WAITS, TSR_S3_FLIES, TSR_S3_ENDED } tsr_s3_phase;

/* What the present request is for. The last two settle whose object it is that a conditional PUT has met. */
typedef enum tsr_s3_step {
  TSR_S3_STEP_CALL, /* the call itself */
  TSR_S3_STEP_LOOK, /* a HEAD */
  TSR_S3_STEP_COMPARE /* a GET of the object, to compare its bytes */
} tsr_s3_step;

/* What comes after an answer. */
typedef enum tsr_s3_verdict {
  TSR_S3_DONE, /* the call has succeeded */
  TSR_S3_NEXT, /* the call has advanced: send its next request */
  TSR_S3_SOON, /* something was mended: try again without a pause */
  TSR_S3_AGAIN, /* try again after a pause; call->error says what was wrong */
  TSR_S3_FAILED /* call->error is set */
} tsr_s3_verdict;

/* When the next request leaves, and what was corrected since the call began. s3_request.c decides it. */
typedef struct tsr_s3_tries {
  uint64_t due; /* when to send, by tsr__s3_ticks */
  uint32_t failed; /* since the call last advanced */
  bool again; /* the next request repeats the last one */
  bool fresh; /* use a new connection */
  bool renewed, moved, dated; /* keys, region and clock were corrected; each at most once */
  uint64_t refused; /* the keys with this number have expired */
} tsr_s3_tries;

/* What a GET has so far: `have` bytes are in place, the first of which is byte `first` of the object; `end` is behind
 * the last one that it wants. For s3_request.c. */
typedef struct tsr_s3_got {
  uint64_t base; /* size of the caller's buffer before */
  uint64_t have, first, end, total; /* valid if `placed`; UINT64_MAX: not known */
  bool placed, unranged; /* unranged: the whole object in place of a suffix that is longer */
  tsr_etag etag;
} tsr_s3_got;

/* LIST, UPLOAD_LIST: where the next page begins. Size 0: the first page. */
typedef struct tsr_s3_page {
  tsr_buffer token, token_id; /* of UPLOAD_LIST: its markers */
} tsr_s3_page;

/* DELETE_MANY: how far it is. */
typedef struct tsr_s3_deleted {
  uint64_t at, batch; /* the first key of this request, and how many it has */
  bool singly; /* the server refuses requests with many keys */
} tsr_s3_deleted;

#define TSR_S3_MARK_SIZE 72u

/* A conditional PUT or completion: whose object it is that stands in its way. For s3_request.c. */
typedef struct tsr_s3_owner {
  tsr_error met; /* STEP_LOOK and _COMPARE: what the server answered to the call itself */
  char mark[TSR_S3_MARK_SIZE]; /* PUT with new_only: a Content-Type that no other request has */
} tsr_s3_owner;

typedef struct tsr_s3_state {
  tsr_s3_call *call; /* borrowed */
  tsr_memory *memory; /* borrowed */
  tsr_s3_scope *scope; /* a reference */
  tsr_s3_phase phase;
  tsr_s3_step step;
  tsr_s3_tries tries;

  tsr_s3_got got;
  tsr_s3_page page;
  tsr_s3_deleted deleted;
  tsr_s3_owner owner;

  tsr_http_request http;
  tsr_s3_signed made;
  tsr_buffer body; /* of a request, if the call has none itself */
  tsr_buffer answer; /* what the server sent, unless it goes to the caller */
  tsr_arena arena; /* texts of the answer */
} tsr_s3_state;

/* Judges answers that are not those of success, and plans further tries. */

/* Sets call->error: "s3://bucket/key: GET: what (status 403 AccessDenied, request 17)". Returns FAILED. */
tsr_s3_verdict tsr__s3_fail(tsr_s3_state *state, int rc, const char *code, const char *format, ...) TSR_PRINTF(4, 5);

/* The same for what may be mended by trying again: returns AGAIN. */
#define TSR_S3_FAIL_AGAIN(...) (tsr__s3_fail(__VA_ARGS__), TSR_S3_AGAIN)

/* Plans the next try: sets `due`. Returns false if there were enough. */
bool tsr__s3_plan_retry(tsr_s3_state *state, tsr_s3_verdict verdict);

uint64_t tsr__s3_ticks(void); /* milliseconds of a clock that is never set */

/* GET in one request or several: the ranges to ask for, and where the bytes go. */

/* Gives the caller's buffer back, with `have` bytes of the object in it. */
void tsr__s3_get_return(tsr_s3_state *state);

/* Makes the requests of a call (s3.h). */

/* Makes and signs the present request. Errors: of the keys; TSR_TOOBIG. */
int tsr__s3_request_make(tsr_s3_state *state, tsr_error *error);

/* Takes the answers to the requests of a call (s3.h). */

/* Takes the answer of a finished request. Sets call->error unless the verdict is DONE or NEXT. */
tsr_s3_verdict tsr__s3_take(tsr_s3_state *state);

#endif
