/* s3_internal.h: one scope of s3.h: its options, where its bucket is, and the keys that sign its requests. For the files of
 * the client alone. */
#ifndef TSR_REMOTE_S3_INTERNAL_H
#define TSR_REMOTE_S3_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "remote/credentials.h"
#include "remote/http.h"
#include "remote/s3.h"
#include "remote/sigv4.h"
#include "remote/s3_response.h"

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

/* Judges an answer that is not one of success, or that is behind status 200: `failure` is its <Error>, or NULL. */
tsr_s3_verdict tsr__s3_judge(tsr_s3_state *state, const tsr_s3_failure *failure);

/* Judges a request without a whole answer. */
tsr_s3_verdict tsr__s3_judge_transport(tsr_s3_state *state);

/* Plans the next try: sets `due`. Returns false if there were enough. */
bool tsr__s3_plan_retry(tsr_s3_state *state, tsr_s3_verdict verdict);

uint64_t tsr__s3_ticks(void); /* milliseconds of a clock that is never set */

/* GET in one request or several: the ranges to ask for, and where the bytes go. */

/* Writes the Range that the next request has, or "". `end` is behind the most bytes that the answer may have. */
void tsr__s3_get_range(const tsr_s3_state *state, char range[64]);

/* Lets the body go to its place. Errors: TSR_TOOBIG if the place has no room for what is requested. */
int tsr__s3_get_prepare(tsr_s3_state *state, tsr_error *error);

/* Takes an answer with status 200 or 206, also one that was cut. */
tsr_s3_verdict tsr__s3_get_take(tsr_s3_state *state);

/* Gives the caller's buffer back, with `have` bytes of the object in it. */
void tsr__s3_get_return(tsr_s3_state *state);

/* Begins anew. */
void tsr__s3_get_restart(tsr_s3_state *state);

/* Makes the requests of a call (s3_internal.h). */

/* Makes and signs the present request. Errors: of the keys; TSR_TOOBIG. */
int tsr__s3_request_make(tsr_s3_state *state, tsr_error *error);

/* Takes the answers to the requests of a call (s3_internal.h). */

/* Takes the answer of a finished request. Sets call->error unless the verdict is DONE or NEXT. */
tsr_s3_verdict tsr__s3_take(tsr_s3_state *state);

#endif
