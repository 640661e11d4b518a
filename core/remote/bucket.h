/* bucket.h: a client for objects in buckets of S3 and of servers that speak its protocol, in containers of Azure Blob
 * Storage, and in buckets of Google Cloud Storage; this header calls all of them buckets. Nothing leaves the machine
 * before a scope has been declared for the bucket. A scope has the options for all keys below one prefix; a tsr_bucket
 * is a client of one bucket under one scope; a tsr_bucket_call is one operation on it. The client signs requests,
 * retries them, resumes responses that were cut short, and classifies what a server says. What differs between the
 * servers is in a tsr_dialect.
 *
 * All functions are thread-safe unless their contract says otherwise.
 *
 * Sections: scopes, clients and calls are for users of the client; the rest is for its own files. */
#ifndef TSR_REMOTE_BUCKET_H
#define TSR_REMOTE_BUCKET_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "remote/answer.h"
#include "remote/credentials.h"
#include "remote/http.h"
#include "remote/sigv4.h"

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* What all clients of a registry have done since it was opened. */
#define TSR_BUCKET_COUNTERS(X)                                                                                         \
  X(gets)                                                                                                              \
  X(heads)                                                                                                             \
  X(lists) /* each page */                                                                                             \
  X(puts) /* including each part, copies, and the requests that begin and complete a multipart upload */               \
  X(deletes) /* a request that deletes many objects counts once */                                                     \
  X(retries) /* requests that were sent again; the counters above do not count them again */                           \
  X(round_trips) /* requests that were sent while no other one was outstanding */                                      \
  X(bytes_sent) X(bytes_received) /* of bodies, again for each try */

typedef struct tsr_bucket_counters {
#define X(name) _Atomic uint64_t name;
  TSR_BUCKET_COUNTERS(X)
#undef X
} tsr_bucket_counters;

/* The registry of an environment's scopes. */
typedef struct tsr_bucket_scopes tsr_bucket_scopes;
int tsr__bucket_scopes_open(tsr_memory *memory, tsr_bucket_scopes **scopes, tsr_error *error);

/* Forgets all scopes. All clients must have been closed. NULL is allowed. */
void tsr__bucket_scopes_close(tsr_bucket_scopes *scopes);

/* Declares the options for "s3://bucket" or "s3://bucket/prefix" (also azure://, gcs://), replacing those declared for
 * the same text. Open clients continue with the new options. Sends nothing. Errors: TSR_ERROR for an invalid scope or
 * option, with a message that names it; TSR_PERM after tsr__bucket_scopes_confine. */
int tsr__bucket_scopes_set(tsr_bucket_scopes *scopes, const char *scope, const tsr_scope_options *options,
                           tsr_error *error);

/* Forgets a scope and wipes its keys. From now on calls of its clients fail with TSR_PERM. Returns 1 if the scope was
 * declared, else 0. */
int tsr__bucket_scopes_forget(tsr_bucket_scopes *scopes, const char *scope, tsr_error *error);

/* From now on rejects with TSR_PERM every new scope that does not lie below `uri` or whose endpoint no present scope
 * has, and all use of instance metadata. */
int tsr__bucket_scopes_confine(tsr_bucket_scopes *scopes, const char *uri, tsr_error *error);

/* Returns the counters of the registry, valid until it is closed. */
tsr_bucket_counters *tsr__bucket_scopes_counters(tsr_bucket_scopes *scopes);

/* ---- Clients --------------------------------------------------------------------------------- */

typedef struct tsr_bucket tsr_bucket;

/* Opens a client for "s3://bucket[/prefix]" under the scope that matches most of its path components. `scopes` must
 * outlive it. Sends nothing. Errors: TSR_NOT_FOUND "no scope for s3://...: call tessera_configure first";
 * TSR_UNSUPPORTED without libcurl. */
int tsr__bucket_open(tsr_bucket_scopes *scopes, tsr_memory *memory, const char *uri, tsr_bucket **client,
                     tsr_error *error);
void tsr__bucket_close(tsr_bucket *client); /* only after all of its calls are finished; NULL is allowed */

const char *tsr__bucket_name(const tsr_bucket *client);

/* Returns the part of the URI after "s3://bucket/", without a trailing '/'; "" for the bucket itself. */
const char *tsr__bucket_prefix(const tsr_bucket *client);

/* Returns true if a path may have a part of this name: no server takes it for another one. */
bool tsr__bucket_can_name(const tsr_bucket *client, const char *name);

bool tsr__bucket_deletes_singly(const tsr_bucket *client); /* a request deletes one object */
uint64_t tsr__bucket_part_size(const tsr_bucket *client); /* bytes of the parts of large objects */
uint32_t tsr__bucket_parallel(const tsr_bucket *client);
uint32_t tsr__bucket_refresh_ms(const tsr_bucket *client);

/* Returns the server's time in milliseconds since 1970: this machine's clock, corrected by the Date of the latest
 * response if the two differ by more than a second. */
uint64_t tsr__bucket_now(const tsr_bucket *client);

/* Proves, once per scope, that the server honours `If-None-Match: *`, with a test object below `key_prefix` ("" or
 * ending in '/') that it then removes. Errors: TSR_READONLY if the server overwrites objects despite the condition. */
int tsr__bucket_prove(tsr_bucket *client, const char *key_prefix, tsr_error *error);

/* ---- Calls ----------------------------------------------------------------------------------- */

typedef enum tsr_bucket_kind {
  TSR_BUCKET_GET, /* an object or a part of it */
  TSR_BUCKET_HEAD, /* size, time and ETag of an object */
  TSR_BUCKET_LIST, /* keys that begin with `key`, all pages */
  TSR_BUCKET_PUT,
  TSR_BUCKET_DELETE, /* also succeeds if the object does not exist */
  TSR_BUCKET_DELETE_MANY, /* the same for many keys: 1,000 per request */
  TSR_BUCKET_COPY, /* on the server, within the bucket: from `source` to `key` */
  TSR_BUCKET_UPLOAD_CREATE, /* begins a multipart upload */
  TSR_BUCKET_UPLOAD_PART,
  TSR_BUCKET_UPLOAD_COMPLETE, /* the object appears */
  TSR_BUCKET_UPLOAD_ABORT, /* also succeeds if the upload does not exist */
  TSR_BUCKET_UPLOAD_LIST /* unfinished multipart uploads whose keys begin with `key` */
} tsr_bucket_kind;

typedef enum tsr_bucket_range {
  TSR_BUCKET_WHOLE,
  TSR_BUCKET_RANGE, /* bytes [offset, offset + size), truncated at the object's end */
  TSR_BUCKET_SUFFIX /* the last `size` bytes, or the whole object if it is smaller */
} tsr_bucket_range;

/* An ETag as the server wrote it, including the quotes. */
typedef struct tsr_etag {
  char text[136];
} tsr_etag;

typedef struct tsr_bucket_object {
  const char *key; /* for a common prefix: up to and including the delimiter */
  uint64_t size; /* in bytes */
  int64_t modified; /* in milliseconds since 1970; for an upload: when it began */
  const char *etag; /* for an upload: its id */
  bool is_prefix; /* a common prefix, in place of all keys that begin with `key` */
} tsr_bucket_object;

/* The beginning of the names of the objects with which tsr__bucket_prove tests the server. A process that is killed
 * during the test leaves one behind. */
#define TSR_BUCKET_PROOF ".tessera_proof_"

/* The results of LIST and UPLOAD_LIST, sorted by key as bytes. `= {0}` with a memory is an empty one. */
typedef struct tsr_bucket_objects {
  tsr_memory *memory; /* borrowed; set by the caller */
  tsr_bucket_object *at; /* owned */
  uint64_t count, capacity;
  tsr_arena texts; /* the strings of all of them */
} tsr_bucket_objects;
void tsr__bucket_objects_release(tsr_bucket_objects *objects);

/* GET: which bytes, and where they go. */
typedef struct tsr_bucket_get {
  tsr_bucket_range range;
  uint64_t offset, size;
  uint64_t most; /* more bytes are TSR_TOOBIG; 0: no limit but that of `room`, if `into` is set */
  void *into; /* room for `room` bytes, or NULL: the bytes are appended to `buffer` */
  uint64_t room;
  tsr_buffer *buffer;
} tsr_bucket_get;

/* LIST: keys are grouped at the first delimiter after the prefix; 0: not grouped. UPLOAD_LIST uses `most` and `objects`
 * only. */
typedef struct tsr_bucket_list {
  char delimiter;
  uint64_t most; /* more entries are TSR_TOOBIG; 0: no limit */
  tsr_bucket_objects *objects;
} tsr_bucket_list;

/* PUT, UPLOAD_PART: what to send. With new_only a PUT or an UPLOAD_COMPLETE fails with TSR_EXISTS if the key exists,
 * unless this very call has created the object and only the response was lost. */
typedef struct tsr_bucket_put {
  const void *bytes; /* `size` of them */
  uint64_t size;
  bool new_only;
} tsr_bucket_put;

/* UPLOAD_PART, _COMPLETE, _ABORT. Part numbers start at 1; `etags` are those of parts 1 to `part_count`. */
typedef struct tsr_bucket_upload_parts {
  const char *id;
  uint32_t part, part_count;
  const tsr_etag *etags;
} tsr_bucket_upload_parts;

/* The results of a successful call. */
typedef struct tsr_bucket_result {
  uint64_t received; /* GET: bytes written */
  uint64_t object_size; /* GET, HEAD: of the whole object */
  int64_t modified; /* GET, HEAD: in milliseconds since 1970 */
  tsr_etag etag; /* GET, HEAD, PUT, COPY, UPLOAD_PART, UPLOAD_COMPLETE */
  char id[1072]; /* UPLOAD_CREATE: the new upload's id */
} tsr_bucket_result;

/* One operation. The caller provides the structure, zeroed except for what its kind takes, and does not move it before
 * it is finished; everything that it points to is borrowed until then. Keys are whole keys of the bucket (UTF-8, at
 * most 1,024 bytes, not encoded) and must lie within the scope: otherwise the call fails with TSR_PERM, and nothing is
 * sent. */
typedef struct tsr_bucket_call {
  tsr_bucket_kind kind;
  const char *key; /* LIST, UPLOAD_LIST: the prefix, which may be "" */
  bool unnamed; /* leave the key out of the error's message, because the caller adds it */

  tsr_bucket_get get;
  tsr_bucket_list list;
  tsr_bucket_put put;
  tsr_bucket_upload_parts upload;
  const char *source; /* COPY: the key to copy */
  const char *const *keys; /* DELETE_MANY: `key_count` keys */
  uint64_t key_count;

  int rc; /* of this call */
  tsr_error error;
  tsr_bucket_result result; /* valid if `rc` is TSR_OK */

  struct tsr_bucket_state *state; /* the client's, between start and finish; NULL before and after */
} tsr_bucket_call;

/* Runs calls, at most `parallel` at a time, and returns when all of them are finished. Every call has its own rc and
 * error. Returns TSR_OK or the rc of the first failed call, with its error. If the host cancels, it returns
 * TSR_INTERRUPT, as do all unfinished calls; their requests may have been carried out even so.
 *
 * Codes of calls: TSR_NOT_FOUND: no such object or upload. TSR_DENIED: the server refuses, the keys are wrong or
 * missing; never interpreted as "absent". TSR_EXISTS: see new_only. TSR_CORRUPT: a range outside the object.
 * TSR_TOOBIG: see `most`. TSR_PERM: outside the scope, or the scope was forgotten. TSR_UNREACHABLE: no response, or no
 * usable one, after all retries. TSR_ERROR: anything else that the server said: no such bucket, another region ... */
int tsr__bucket_run(tsr_bucket *client, tsr_bucket_call *calls, uint64_t count, tsr_error *error);

/* Runs one call. */
int tsr__bucket_run_one(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error);

/* For reading ahead: tsr__bucket_start sends the first request of a call and returns. tsr__bucket_finish waits for the
 * end of the call, with the retries of tsr__bucket_run; tsr__bucket_cancel ends it without a result. Each started call
 * must be finished or cancelled exactly once. finish also reports a failed start. */
void tsr__bucket_start(tsr_bucket *client, tsr_bucket_call *call);
int tsr__bucket_finish(tsr_bucket *client, tsr_bucket_call *call, tsr_error *error);
void tsr__bucket_cancel(tsr_bucket *client, tsr_bucket_call *call);

/* Returns true if the request of a started call has its response, so that tsr__bucket_finish need not wait, unless the
 * call takes further requests. */
bool tsr__bucket_answered(const tsr_bucket_call *call);

/* ---- dialect_s3.c, dialect_azure.c, dialect_gcs.c: what differs between the servers ---- */

typedef struct tsr_dialect tsr_dialect;
extern const tsr_dialect tsr__dialect_s3, tsr__dialect_azure, tsr__dialect_gcs;

/* ---- bucket_scope.c: a scope, with its options, its bucket's address and the keys that sign its requests ---- */

typedef enum tsr_bucket_proof { TSR_BUCKET_UNPROVEN, TSR_BUCKET_PROVEN, TSR_BUCKET_DISPROVED } tsr_bucket_proof;

/* Where the requests of a scope are sent. */
typedef struct tsr_bucket_endpoint {
  bool aws, path_style; /* aws: of S3, where the region decides the host */
  const char *scheme, *host, *base; /* "https"; "host:port", not for AWS; and a path, usually "" */
} tsr_bucket_endpoint;

/* What the server's responses have revealed about its clock. */
typedef struct tsr_bucket_clocks {
  _Atomic int64_t skew; /* milliseconds to add to the clock when dating requests, after the server has rejected some */
  _Atomic int64_t offset; /* what to add to tsr__moment for the server's time, by its latest response; 0: not known */
} tsr_bucket_clocks;

/* What is needed to sign the requests of a scope. */
typedef struct tsr_bucket_signing {
  pthread_mutex_t mutex; /* guards the others */
  char region[64]; /* named by the server; "": none */
  tsr_sigv4_key key; /* derived from the credentials whose number is `key_number` */
  uint64_t key_number;
} tsr_bucket_signing;

typedef struct tsr_bucket_scope {
  struct tsr_bucket_scope *next; /* in the registry's list */
  tsr_bucket_scopes *scopes; /* borrowed */
  uint64_t references; /* the list's and those of calls; guarded by the registry's mutex */
  _Atomic bool forgotten; /* or replaced: no longer in the list */

  const tsr_dialect *dialect;
  const char *name; /* "s3://bucket/prefix", without a trailing '/' */
  const char *bucket, *prefix; /* prefix "": the whole bucket */
  const char *advice; /* what to do if the server ignores conditions; NULL, or "; ..." */
  const char *account; /* of Azure; NULL: none, or not known */
  tsr_arena texts; /* of names and options */
  tsr_scope_options options; /* with defaults filled in; without keys */
  tsr_http_transport transport;

  tsr_provider provider;
  tsr_bucket_endpoint endpoint;
  tsr_bucket_clocks clocks;
  tsr_bucket_signing signing;
  _Atomic int proof; /* a tsr_bucket_proof */
} tsr_bucket_scope;

struct tsr_bucket_scopes {
  tsr_memory *memory; /* borrowed */
  pthread_mutex_t mutex; /* guards the list and all references */
  tsr_bucket_scope *first; /* longest names first */
  char *confined; /* "s3://bucket/prefix", or NULL */
  _Atomic uint64_t outstanding; /* requests that were sent and whose responses no caller has taken yet */
  tsr_bucket_counters counters;
};

/* Returns the scope for a URI, with a reference, or NULL. */
tsr_bucket_scope *tsr__bucket_scope_find(tsr_bucket_scopes *scopes, const char *uri);
void tsr__bucket_scope_release(tsr_bucket_scope *scope); /* drops a reference; NULL is allowed */

/* The parts of "s3://bucket/prefix". */
typedef struct tsr_bucket_uri {
  const tsr_dialect *dialect;
  const char *name; /* the whole, with the scheme as stored paths spell it, without a '/' at its end */
  const char *bucket, *prefix;
} tsr_bucket_uri;

/* Splits a URI into strings in the arena. Errors: TSR_ERROR for any other text. */
int tsr__bucket_uri_parse(const char *uri, tsr_arena *arena, tsr_bucket_uri *parsed, tsr_error *error);

/* Returns true if a path may have this prefix: no part is empty, "." or "..", which proxies and servers treat in
 * different ways, and none has control characters. */
bool tsr__bucket_is_prefix(const char *prefix);

/* Returns true if a key is the prefix or lies below it. A key that ends in '/' is the prefix of a listing. */
bool tsr__bucket_key_is_below(const char *key, const char *prefix);

/* Remembers the region that a server named. Returns false if it is invalid or the one that was used. */
bool tsr__bucket_scope_learn_region(tsr_bucket_scope *scope, const char *region, const char *used);

/* A request that was signed for a scope. */
typedef struct tsr_bucket_signed {
  tsr_buffer url; /* the caller sets its memory */
  tsr_sigv4_lines lines; /* likewise */
  uint64_t key_number; /* of the credentials */
  tsr_keys_form form; /* of the credentials */
  char region[64]; /* that was used */
} tsr_bucket_signed;

/* Splits an endpoint into the scope's scheme, host and path. Drops the scheme's default port, which clients do not send
 * either. Errors: TSR_ERROR if it is not an endpoint, or would send everything in the clear. */
int tsr__bucket_scope_endpoint(tsr_bucket_scope *scope, const char *endpoint, tsr_error *error);

/* Returns true if nobody else can read the requests: TLS, or this machine. */
bool tsr__bucket_scope_is_private(const tsr_bucket_scope *scope);

/* Returns true if a text has at most `most` bytes, all of them letters, digits or of `others`. */
bool tsr__bucket_text_has_only(const char *text, const char *others, size_t most);

bool tsr__bucket_is_set(const char *text); /* of an option: neither NULL nor "" */

int64_t tsr__bucket_clock(void); /* milliseconds since 1970 */

/* ---- bucket.c, bucket_request.c: a call while it runs ----
 *
 * A call takes one request or several: pages of a listing, the rest of an object after a response that was cut short,
 * retries. bucket.c drives the calls; bucket_request.c makes their requests, reads the responses and judges them. */

typedef enum tsr_bucket_phase { TSR_BUCKET_WAITS, TSR_BUCKET_IN_FLIGHT, TSR_BUCKET_ENDED } tsr_bucket_phase;

/* The purpose of the present request. */
typedef enum tsr_bucket_step {
  TSR_BUCKET_STEP_CALL, /* the call itself */
  TSR_BUCKET_STEP_ABSENT, /* a HEAD before a completion that the server cannot make conditional: the key must be free */
  TSR_BUCKET_STEP_COPYING, /* a HEAD of the target of a copy that the server has not ended yet */
  TSR_BUCKET_STEP_OWNER, /* a HEAD of the object that made a conditional request fail: has this call made it? */
  TSR_BUCKET_STEP_COMPARE /* a GET of that object, to compare its bytes */
} tsr_bucket_step;

/* What happens after a response. */
typedef enum tsr_bucket_outcome {
  TSR_BUCKET_DONE, /* the call has succeeded */
  TSR_BUCKET_NEXT, /* the call has advanced: send its next request */
  TSR_BUCKET_SOON, /* something was corrected: retry at once */
  TSR_BUCKET_LATER, /* the server is at work: ask again after a pause, however often */
  TSR_BUCKET_AGAIN, /* back off and retry; call->error says what was wrong */
  TSR_BUCKET_FAILED /* call->error is set */
} tsr_bucket_outcome;

/* When to send the next request, and what was corrected since the call began. Decided by bucket_request.c. */
typedef struct tsr_bucket_tries {
  uint64_t due; /* when to send, by tsr__ticks */
  uint32_t failed; /* tries since the call last advanced */
  uint32_t waited; /* pauses while the server was at work */
  bool again; /* the next request repeats the last one */
  bool fresh; /* use a new connection */
  bool renewed, moved, dated; /* keys, region and clock were corrected; each at most once */
  uint64_t refused; /* the keys with this number have expired */
} tsr_bucket_tries;

/* The progress of a GET: `have` bytes have arrived, beginning at byte `first` of the object; `end` is one past the last
 * byte that it wants. For bucket_request.c. */
typedef struct tsr_bucket_got {
  uint64_t base; /* initial size of the caller's buffer */
  uint64_t have, first, end, total; /* valid if `placed`; UINT64_MAX: not known */
  bool placed, unranged; /* unranged: request the whole object instead of a suffix that is longer than it */
  /* Of a server that cannot serve a suffix: a first request has found the size, and so `tail`, where the suffix
   * begins. */
  bool sized;
  uint64_t tail;
  tsr_etag etag;
} tsr_bucket_got;

/* LIST, UPLOAD_LIST: where the next page begins. Size 0: the first page. */
typedef struct tsr_bucket_page {
  tsr_buffer token, token_id; /* for UPLOAD_LIST: its two markers */
  uint32_t empty; /* pages in succession without an entry */
} tsr_bucket_page;

/* The progress of a DELETE_MANY. */
typedef struct tsr_bucket_deleted {
  uint64_t at, batch; /* the first key of the present request, and its number of keys */
  bool singly; /* the server rejects requests with many keys */
} tsr_bucket_deleted;

#define TSR_BUCKET_MARK_SIZE 72u

/* A conditional PUT or completion: who owns the object that made it fail. For bucket_request.c. */
typedef struct tsr_bucket_owner {
  tsr_error refusal; /* STEP_OWNER and _COMPARE: what the server answered to the call itself */
  char mark[TSR_BUCKET_MARK_SIZE]; /* PUT with new_only: a unique Content-Type */
} tsr_bucket_owner;

typedef struct tsr_bucket_state {
  tsr_bucket_call *call; /* borrowed */
  tsr_memory *memory; /* borrowed */
  tsr_bucket_scope *scope; /* a reference */
  tsr_bucket_phase phase;
  tsr_bucket_step step;
  tsr_bucket_tries tries;

  tsr_bucket_got got;
  tsr_bucket_page page;
  tsr_bucket_deleted deleted;
  tsr_bucket_owner owner;

  tsr_http_request http;
  tsr_bucket_signed made;
  tsr_buffer body; /* of a request, if the caller does not provide it */
  tsr_buffer response; /* what the server sent, unless it goes to the caller */
  tsr_arena arena; /* strings of the response */
} tsr_bucket_state;

/* ---- bucket_request.c: what the files of the client call ---- */

/* Sets call->error: "s3://bucket/key: GET: what (status 403 AccessDenied, request 17)". Returns FAILED. */
tsr_bucket_outcome tsr__bucket_fail(tsr_bucket_state *state, int rc, const char *code, const char *format, ...)
    TSR_PRINTF(4, 5);

/* The same for a failure that a retry may cure: returns AGAIN. */
#define TSR_BUCKET_FAIL_AGAIN(...) (tsr__bucket_fail(__VA_ARGS__), TSR_BUCKET_AGAIN)

/* Schedules the next try: sets `due`. Returns false if the call has used up its tries. */
bool tsr__bucket_plan_retry(tsr_bucket_state *state, tsr_bucket_outcome outcome);

/* Gives the caller's buffer back after a GET, with `have` bytes of the object in it. */
void tsr__bucket_get_return(tsr_bucket_state *state);

/* Makes and signs the present request. Errors: those of finding the keys; TSR_TOOBIG. */
int tsr__bucket_request_make(tsr_bucket_state *state, tsr_error *error);

/* Reads the response of a finished request. Sets call->error unless the outcome is DONE or NEXT. */
tsr_bucket_outcome tsr__bucket_read_response(tsr_bucket_state *state);

/* ---- bucket_request.c: what the dialects call ---- */

/* What a server means by a status and an error code of its own. bucket_request.c begins with what follows from each. */
typedef enum tsr_meaning {
  TSR_MEANS_REFUSED, /* anything else: the call fails */
  TSR_MEANS_TRANSIENT,
  TSR_MEANS_EXPIRED, /* the keys or the token */
  TSR_MEANS_ELSEWHERE, /* the bucket is in another region */
  TSR_MEANS_SKEWED, /* the clock that dated the request is wrong */
  TSR_MEANS_MISSING, /* the object, or the bucket of a listing */
  TSR_MEANS_NO_BUCKET,
  TSR_MEANS_NO_UPLOAD,
  TSR_MEANS_DENIED,
  TSR_MEANS_EXISTS,
  TSR_MEANS_RANGE
} tsr_meaning;

/* A request before it is signed. */
typedef struct tsr_draft {
  const char *method, *key; /* key "": of the bucket itself */
  tsr_sigv4_pair query[8], headers[TSR_SIGV4_PAIRS_MAX];
  uint32_t query_count, header_count;
  const void *body;
  uint64_t body_size;
  char range[64], number[16], digest[32], block[64], size[24]; /* where values of headers are written */
  tsr_buffer text; /* likewise, for a long one */
} tsr_draft;

void tsr__draft_query(tsr_draft *draft, const char *name, const char *value);
void tsr__draft_header(tsr_draft *draft, const char *name, const char *value); /* unless the value is NULL or "" */

/* The request's value of "range", or "". */
const char *tsr__draft_range(const tsr_bucket_state *state, tsr_draft *draft);

/* Returns the Content-Type that marks the object of this PUT or upload as the call's own. */
const char *tsr__bucket_mark(tsr_bucket_state *state);

/* The id of an upload begins with so many characters that mark its object, if the dialect marks uploads. */
#define TSR_BUCKET_UPLOAD_MARK 32u

/* Appends a text to an XML body, with entities. */
int tsr__bucket_body_escaped(tsr_buffer *body, const char *text, tsr_error *error);
int tsr__bucket_body_text(tsr_buffer *body, const char *text, tsr_error *error);

/* Appends `before`, a secret, and a NUL byte that the size does not count. The buffer has the room already. printf
 * would leave a part of the secret on its stack. */
int tsr__bucket_append_secret(tsr_buffer *buffer, const char *before, const char *secret, tsr_error *error);

/* Writes the value of the header Authorization that carries a token into an empty buffer. The caller wipes it. */
int tsr__bucket_append_bearer(tsr_buffer *authorization, const char *token, tsr_error *error);

/* Says what an unsuccessful response means for the call. `failure`: the <Error>, or NULL. */
tsr_bucket_outcome tsr__bucket_judge(tsr_bucket_state *state, const tsr_answer_failure *failure);

/* Reports a response that could not be parsed, with this error: it was corrupted in transit, or comes from a server of
 * another kind. */
tsr_bucket_outcome tsr__bucket_unread(tsr_bucket_state *state, int rc, const tsr_error *error);

/* DELETE_MANY: continues with the next keys. */
tsr_bucket_outcome tsr__bucket_advance_deletion(tsr_bucket_state *state);

/* LIST, UPLOAD_LIST: adds an entry of a page; keeps the token of the next page; ends the page that began with entry
 * number `from`. */
int tsr__bucket_add_listed(const tsr_bucket_call *call, const tsr_bucket_object *object, tsr_error *error);
int tsr__bucket_keep_token(tsr_buffer *token, const char *text, tsr_error *error);
tsr_bucket_outcome tsr__bucket_end_page(tsr_bucket_state *state, int rc, uint64_t from, const tsr_error *error);

/* ---- A dialect ---- */

/* Names that S3 and Google give to the same things. */
typedef struct tsr_s3_words {
  const char *condition, *absent; /* the header that creates an object only if it is absent, and its value */
  const char *copy_source, *kms_key, *storage_class; /* headers */
  const tsr_sigv4_words *signature;
  const char *service, *region; /* which are signed, too; the region where none is known */
} tsr_s3_words;

struct tsr_dialect {
  const char *scheme; /* of URIs */
  const char *noun; /* "bucket" or "container" */
  const char *condition; /* the header that creates an object only if it is absent, for messages */
  const char *forbidden; /* characters that the server takes for others in keys; NULL: none */
  bool drops_dots; /* the server drops dots at the end of each part of a key */
  bool suffixes; /* a GET can ask for the last bytes */
  bool begins_uploads; /* uploads are begun, aborted and listed by requests */
  bool marks_uploads; /* objects made of parts carry a mark, since no ETag tells whose they are */
  bool conditional_completions;
  uint32_t deletion_keys; /* most keys in one request */

  const tsr_s3_words *words; /* of S3 and Google */
  const char *keys; /* the names of the options that the provider `keys` has */

  /* Checks the options of a scope, and sets its endpoint. */
  int (*configure)(tsr_bucket_scope *scope, tsr_error *error);

  /* Checks the keys among the options, and sets those of the provider. */
  int (*keys_of)(const tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_provider_options *options,
                 tsr_error *error);
  tsr_keys_find *find_keys;

  /* Makes the request of a call. */
  int (*draft)(tsr_bucket_state *state, tsr_draft *draft, tsr_error *error);

  /* Makes url and lines of state->made. */
  int (*sign)(tsr_bucket_state *state, tsr_draft *draft, const tsr_credentials *credentials, tsr_error *error);
  int (*listing)(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                 tsr_answer_failure *failure, tsr_error *error);
  tsr_meaning (*judge)(const tsr_bucket_state *state, const char *code);

  /* Reads the answer to a successful COPY, DELETE_MANY, UPLOAD_CREATE, _COMPLETE or _LIST. */
  tsr_bucket_outcome (*read_answer)(tsr_bucket_state *state);
};

/* ---- dialect_azure.c: for tests ---- */

/* Appends what Shared Key signs of a request with this encoded path. Sorts the draft's query and headers. */
int tsr__azure_string_to_sign(tsr_draft *draft, const char *account, const char *path, tsr_buffer *text,
                              tsr_error *error);

/* ---- dialect_s3.c: what Google's servers share ---- */

int tsr__s3_draft(tsr_bucket_state *state, tsr_draft *draft, tsr_error *error);
int tsr__s3_sign(tsr_bucket_state *state, tsr_draft *draft, const tsr_credentials *credentials, tsr_error *error);
tsr_meaning tsr__s3_judge(const tsr_bucket_state *state, const char *code);
tsr_bucket_outcome tsr__s3_read_answer(tsr_bucket_state *state);

#endif
