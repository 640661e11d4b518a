/* credentials.h: where the keys come from that sign requests to an object store. A provider finds them by one of the
 * ways that a scope may name, keeps them until shortly before they expire, and wipes them when it is released. Only the
 * providers `env`, `profile` and `auto` read environment variables, and only `auto` calls other services. */
#ifndef TSR_REMOTE_CREDENTIALS_H
#define TSR_REMOTE_CREDENTIALS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"

/* name in options, how the keys are found */
#define TSR_PROVIDERS(X)                                                                                               \
  X(KEYS, "keys") /* the scope's options have them */                                                                  \
  X(ENV, "env") /* AWS_ACCESS_KEY_ID and so on */                                                                      \
  X(PROFILE, "profile") /* ~/.aws/credentials and ~/.aws/config, or the files that the environment names */            \
  X(ANONYMOUS, "anonymous") /* requests are not signed: public buckets */                                              \
  X(AUTO, "auto") /* env, profile, web identity, container, instance metadata: the first that has keys */

typedef enum tsr_provider_kind {
#define X(name, text) TSR_PROVIDER_##name,
  TSR_PROVIDERS(X)
#undef X
} tsr_provider_kind;

/* Finds the kind with this name in options. Returns false if there is none. */
bool tsr__provider_kind_of(const char *name, tsr_provider_kind *kind);

/* Keys at one moment. The caller of tsr__credentials_get owns them and wipes them by tsr__credentials_release. */
typedef struct tsr_credentials {
  char *key_id, *secret, *token; /* NUL-terminated, in one block that `key_id` begins; token "": none */
  uint64_t size; /* of the block, in bytes */
  bool anonymous; /* do not sign; the texts are "" */
  char region[64]; /* of the environment or the profile; "": not known there */
  int64_t expires; /* in milliseconds since 1970; INT64_MAX: never, as far as the provider knows */
  uint64_t number; /* from 1; another one when the keys have changed, so that derived keys are known to be old */
} tsr_credentials;

typedef struct tsr_provider_options { /* all borrowed; copied by tsr__provider_open */
  tsr_provider_kind kind;
  const char *key_id, *secret, *session_token; /* of the kind KEYS; session_token may be NULL */
  const char *region; /* of the scope, for the token service; NULL: not known */
  const char *ca_file, *proxy; /* as in tsr_http_transport, for services behind https */
} tsr_provider_options;

/* Several threads may use one provider. */
typedef struct tsr_provider {
  tsr_memory *memory; /* borrowed */
  tsr_provider_kind kind;
  char *region, *ca_file, *proxy; /* owned; NULL: none */
  _Atomic bool no_metadata; /* `auto` calls neither the instance's nor a container's service */
  pthread_mutex_t mutex; /* guards the rest: a thread that finds the keys old refreshes them, the others wait */
  tsr_credentials now; /* owned; `number` is 0 as long as there are none */
  int64_t patience; /* before this time, in milliseconds since 1970, a refresh that has failed is not tried again */
  bool open, wiped;
} tsr_provider;

/* Prepares a provider. Reads no file and no variable yet. */
int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error);

/* Wipes the keys. From now on tsr__credentials_get fails with TSR_PERM. From any thread. */
void tsr__provider_wipe(tsr_provider *provider);

/* Wipes and frees everything. `= {0}` may be released. */
void tsr__provider_release(tsr_provider *provider);

/* Gives a copy of the keys. They are looked for at the first call, when they expire within five minutes, and when
 * `refused` is the number of the present ones: a server has called these expired. Keys that cannot be refreshed are
 * used until they have expired. If a refresh gives the same keys, their number stays the same. Errors: TSR_DENIED, with
 * every place that was tried and what it lacked; the message has no key. */
int tsr__credentials_get(tsr_provider *provider, uint64_t refused, tsr_credentials *credentials, tsr_error *error);
void tsr__credentials_release(tsr_credentials *credentials);

/* The places that hold keys, for credentials.c alone. Each function looks into one place. It
 * returns TSR_OK with the keys; TSR_NOT_FOUND, with a short reason, if the place is not set up; or another code if it is
 * set up and fails. No message has a key. */

/* A text within a larger one. */
typedef struct tsr_text_part {
  const char *at;
  uint64_t size;
} tsr_text_part;

#endif
