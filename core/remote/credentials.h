/* credentials.h: the keys that sign requests to an object store. A provider finds them in one of the ways that a scope
 * may name, keeps them until shortly before they expire, and wipes them when it is released. Only the providers `env`,
 * `profile` and `auto` read environment variables, and only `auto` calls other services. */
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

/* Finds the provider kind with this option name. Returns false if there is none. */
bool tsr__provider_kind_of(const char *name, tsr_provider_kind *kind);

/* The keys at one moment. The caller of tsr__credentials_get owns them and wipes them with tsr__credentials_release. */
typedef struct tsr_credentials {
  char *key_id, *secret, *token; /* NUL-terminated, in one block that starts at `key_id`; token "": none */
  uint64_t size; /* of the block, in bytes */
  bool anonymous; /* do not sign; the texts are "" */
  char region[64]; /* from the environment or the profile; "": not known there */
  int64_t expires; /* in milliseconds since 1970; INT64_MAX: never, as far as the provider knows */
  uint64_t number; /* from 1; changes with the keys, so that derived keys are known to be outdated */
} tsr_credentials;

typedef struct tsr_provider_options { /* all borrowed; copied by tsr__provider_open */
  tsr_provider_kind kind;
  const char *key_id, *secret, *session_token; /* for the kind KEYS; session_token may be NULL */
  const char *region; /* of the scope, for the token service; NULL: not known */
  const char *ca_file, *proxy; /* as in tsr_http_transport, for services that use https */
} tsr_provider_options;

/* Several threads may use one provider. */
typedef struct tsr_provider {
  tsr_memory *memory; /* borrowed */
  tsr_provider_kind kind;
  char *region, *ca_file, *proxy; /* owned; NULL: none */
  _Atomic bool no_metadata; /* `auto` calls neither the instance's nor the container's service */
  pthread_mutex_t mutex; /* guards the rest: a thread that finds the keys outdated refreshes them, the others wait */
  tsr_credentials now; /* owned; `number` is 0 while there are none */
  int64_t patience; /* a failed refresh is not retried before this time, in milliseconds since 1970 */
  bool open, wiped;
} tsr_provider;

/* Prepares a provider. Reads no files or variables yet. */
int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error);

/* Wipes the keys. From now on tsr__credentials_get fails with TSR_PERM. Thread-safe. */
void tsr__provider_wipe(tsr_provider *provider);

/* Wipes and frees everything. `= {0}` may be released. */
void tsr__provider_release(tsr_provider *provider);

/* Returns a copy of the keys. Looks for keys on the first call, when the present ones expire within five minutes, and
 * when `refused` is their number, which means that a server has called them expired. Keys that cannot be refreshed are
 * used until they expire. If a refresh yields the same keys, their number stays the same. Errors: TSR_DENIED, with
 * every place that was tried and what was missing there; the message contains no key. */
int tsr__credentials_get(tsr_provider *provider, uint64_t refused, tsr_credentials *credentials, tsr_error *error);
void tsr__credentials_release(tsr_credentials *credentials);

/* A text within a larger one; not NUL-terminated. */
typedef struct tsr_text_part {
  const char *at;
  uint64_t size;
} tsr_text_part;

#endif
