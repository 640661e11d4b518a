/* s3_scope.h: one scope of s3.h: its options, where its bucket is, and the keys that sign its requests. For the files of
 * the client alone. */
#ifndef TSR_S3_SCOPE_H
#define TSR_S3_SCOPE_H

#include <pthread.h>
#include <stdatomic.h>

#include "remote/credentials.h"
#include "remote/http.h"
#include "remote/s3.h"
#include "remote/sigv4.h"

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

#endif
