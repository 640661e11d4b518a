/* credentials.h: the keys that sign requests to an object store. A provider finds them in one of the ways that a scope
 * may name, keeps them until shortly before they expire, and wipes them when it is released. Only the providers `env`,
 * `profile` and `auto` read environment variables, and only `auto` calls other services. */
#ifndef TSR_REMOTE_CREDENTIALS_H
#define TSR_REMOTE_CREDENTIALS_H

#include "remote/keys.h"

/* Finds the provider kind with this option name. Returns false if there is none. */
bool tsr__provider_kind_of(const char *name, tsr_provider_kind *kind);

typedef struct tsr_provider_options { /* all borrowed; copied by tsr__provider_open */
  tsr_provider_kind kind;
  const char *key_id, *secret, *session_token; /* for the kind KEYS; session_token may be NULL */
  const char *token; /* for the kind KEYS, in place of key_id and secret: sent as it is, in this form; NULL: none */
  tsr_keys_form form;
#define X(name) const char *name; /* for the kind KEYS: tokens are fetched with them; NULL: none */
  TSR_KEYS_GIVEN(X)
#undef X
  tsr_keys_find *find; /* looks for keys; NULL: tsr__keys_aws */
  const char *region; /* of the scope, for the token service; NULL: not known */
  const char *ca_file, *proxy; /* as in tsr_http_transport, for services that use https */
} tsr_provider_options;

/* Prepares a provider. Reads no files or variables yet. */
int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error);

/* Returns true if the options have secrets with which tokens are fetched: from a host, and with a file, that they
 * name. */
bool tsr__provider_asks(const tsr_provider *provider);

/* Wipes the keys. From now on tsr__credentials_get fails with TSR_PERM. Thread-safe. */
void tsr__provider_wipe(tsr_provider *provider);

/* Wipes and frees everything. `= {0}` may be released. */
void tsr__provider_release(tsr_provider *provider);

/* Returns a copy of the keys. Looks for keys on the first call, when the present ones expire within five minutes, and
 * when `refused` is their number, which means that a server has called them expired. Keys that cannot be refreshed are
 * used until they expire. If a refresh yields the same keys, their number stays the same. Errors: TSR_DENIED, with
 * every place that was tried and what was missing there; the message contains no key. */
int tsr__credentials_get(tsr_provider *provider, uint64_t refused, tsr_credentials *credentials, tsr_error *error);

#endif
