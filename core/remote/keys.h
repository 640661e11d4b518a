/* keys.h: the keys that sign requests to an object store, and what the places that hold them have in common: variables,
 * files, services that answer with JSON. credentials.h has what users of keys call.
 *
 * There are few copies of a key, so that all of them can be wiped: the provider's block, and one for each request that
 * is being signed. No key passes through a buffer that grows, because freed memory would still hold the key: all such
 * buffers get their final size first. */
#ifndef TSR_REMOTE_KEYS_H
#define TSR_REMOTE_KEYS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"

/* name in options, how the keys are found */
#define TSR_PROVIDERS(X)                                                                                               \
  X(KEYS, "keys") /* the scope's options have them */                                                                  \
  X(ENV, "env") /* environment variables: AWS_ACCESS_KEY_ID, AZURE_STORAGE_KEY and so on */                            \
  X(PROFILE, "profile") /* files of the cloud's command line tool, in ~/.aws or ~/.config/gcloud */                    \
  X(ANONYMOUS, "anonymous") /* requests are not signed: public buckets */                                              \
  X(AUTO, "auto") /* env, profile, and services of the cloud that the program runs in: the first that has keys */

typedef enum tsr_provider_kind {
#define X(name, text) TSR_PROVIDER_##name,
  TSR_PROVIDERS(X)
#undef X
} tsr_provider_kind;

/* A text within a larger one; not NUL-terminated. */
typedef struct tsr_text_part {
  const char *at;
  uint64_t size;
} tsr_text_part;

/* What a request carries. */
typedef enum tsr_keys_form {
  TSR_KEYS_SIGN, /* a signature under the secret */
  TSR_KEYS_BEARER, /* the token itself, in the header Authorization */
  TSR_KEYS_QUERY, /* the token itself, as a part of the query: a shared access signature of Azure */
  TSR_KEYS_NONE /* nothing: public objects */
} tsr_keys_form;

/* The keys at one moment. The caller of tsr__credentials_get owns them and wipes them with tsr__credentials_release. */
typedef struct tsr_credentials {
  tsr_keys_form form;
  char *key_id, *secret, *token; /* NUL-terminated, in one block that starts at `key_id`; "": none */
  uint64_t size; /* of the block, in bytes */
  char region[64]; /* from the environment or the profile; "": not known there */
  int64_t expires; /* by tsr__moment; INT64_MAX: never, as far as the provider knows */
  uint64_t number; /* from 1; changes with the keys, so that derived keys are known to be outdated */
} tsr_credentials;

/* Long-lived secrets by which short-lived tokens are fetched. NULL: none. */
#define TSR_KEYS_GIVEN(X) X(tenant_id) X(client_id) X(client_secret) X(service_account) X(service_account_file)

typedef struct tsr_provider tsr_provider;

/* Looks for keys in the places that the provider's kind allows. Returns TSR_OK with the keys; TSR_NOT_FOUND, with a
 * short reason, if no place is set up; or another code if one is set up but fails. No message contains a key. */
typedef int tsr_keys_find(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);

/* Several threads may use one provider. */
struct tsr_provider {
  tsr_memory *memory; /* borrowed */
  tsr_provider_kind kind;
  tsr_keys_find *find;
  char *region, *ca_file, *proxy; /* owned; NULL: none */
  _Atomic bool no_metadata; /* `auto` calls no service of an instance or a container */
  pthread_mutex_t mutex; /* guards the rest: a thread that finds the keys outdated refreshes them, the others wait */
#define X(name) char *name; /* owned, wiped */
  TSR_KEYS_GIVEN(X)
#undef X
  tsr_credentials now; /* owned; `number` is 0 while there are none */
  int64_t patience; /* keys that are valid are not refreshed before this time, by tsr__moment */
  int64_t ahead; /* milliseconds that the clock of the service that answered last is ahead of ours; 0: not known */
  bool open, wiped;
};

/* ---- credentials_aws.c, credentials_azure.c, credentials_gcs.c ---- */

tsr_keys_find tsr__keys_aws, tsr__keys_azure, tsr__keys_gcs;

/* Writes the signed claim with which a service account asks for a token, and a NUL byte. `pem`: its private key; `now`
 * in seconds since 1970. */
int tsr__google_jwt(const char *email, const char *key_id, const char *uri, const char *pem, int64_t now,
                    tsr_buffer *jwt, tsr_error *error);

/* Returns a field of the environment variable AZURE_STORAGE_CONNECTION_STRING, or an empty text. */
tsr_text_part tsr__azure_connection(const char *name);

/* ---- Making keys ---- */

tsr_text_part tsr__text_of(const char *text); /* of NULL: empty */

/* Copies keys into one block. Errors: TSR_DENIED if a text is too long or has characters that cannot occur in a key. */
int tsr__keys_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token, int64_t expires,
                   tsr_credentials *credentials, tsr_error *error);

/* The same for a token that is sent as it is. */
int tsr__keys_make_token(tsr_memory *memory, tsr_keys_form form, tsr_text_part token, int64_t expires,
                         tsr_credentials *credentials, tsr_error *error);

int tsr__keys_make_none(tsr_memory *memory, tsr_credentials *credentials, tsr_error *error);
int tsr__keys_copy(tsr_memory *memory, const tsr_credentials *from, tsr_credentials *to, tsr_error *error);
void tsr__credentials_release(tsr_credentials *credentials);

/* Keeps a region if its characters are valid; otherwise the region counts as unknown. */
void tsr__keys_region(tsr_credentials *credentials, tsr_text_part region);

/* Tries places in turn until one is set up. Errors: TSR_DENIED with the reasons of all if none is. */
int tsr__keys_first(tsr_provider *provider, tsr_keys_find *const *places, size_t count, tsr_credentials *credentials,
                    tsr_error *error);

int64_t tsr__keys_clock(void); /* milliseconds since 1970 */

/* Returns when keys expire, by tsr__moment, that a service has just handed out until `time`, in milliseconds since 1970
 * by its clock. Our own clock may be wrong, and may be set later. INT64_MAX: never. */
int64_t tsr__keys_expiry(const tsr_provider *provider, int64_t time);

/* Returns the value of an environment variable, or NULL if it is missing or empty. */
const char *tsr__keys_variable(const char *name);

/* ---- Files ---- */

#define TSR_KEYS_PATH 4096u /* bytes of a file's path */

/* Reads a regular file into an empty buffer and appends a NUL byte that the size does not count. The caller wipes the
 * buffer. Errors: TSR_NOT_FOUND; TSR_TOOBIG for more than `most` bytes. */
int tsr__secret_file(const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);
void tsr__secret_release(tsr_buffer *buffer); /* wipes and frees */

/* ---- Services ---- */

#define TSR_SERVICE_ANSWER_MAX (UINT64_C(64) << 10)
#define TSR_SERVICE_SKEW       240000 /* ms; services accept claims whose dates are less than five minutes off */
#define TSR_SERVICE_MS         10000u /* longest time of one request */
#define TSR_INSTANCE_MS        1000u /* to connect: `auto` loses this much time where there is no such service */
#define TSR_SERVICE_URL        2048u /* bytes of a URL */

typedef struct tsr_service_request {
  const char *method, *url;
  const char *headers[3];
  uint32_t header_count;
  const tsr_buffer *body; /* NULL: none */
  uint32_t connect_ms;
  const char *flavor; /* the answer's Metadata-Flavor must be this; NULL: any */
  bool may_lack; /* where no service answers, the program runs elsewhere: TSR_NOT_FOUND */
} tsr_service_request;

/* Sends a request and returns the body of the answer, with a NUL byte after it. The caller wipes the body. Errors:
 * TSR_UNREACHABLE for a service that is busy, or does not answer. */
int tsr__service_ask(tsr_provider *provider, const tsr_service_request *what, tsr_buffer *response, tsr_error *error);

/* Returns true for a URL that is safe for secrets: https://, or this machine. */
bool tsr__service_is_safe(const char *url);

/* Returns true also for http:// to a link-local address (169.254.0.0/16), where clouds answer their machines. */
bool tsr__service_is_near(const char *url);

/* Appends "name=value" to a form, after a '&' unless it is the first field. */
int tsr__form_field(tsr_buffer *form, const char *name, const char *value, tsr_error *error);

typedef struct tsr_json_member {
  const char *name;
  tsr_text_part text; /* set if the member is a string or a number; without NUL characters */
} tsr_json_member;

/* Reads members of a JSON object, as far as they are strings or numbers. The text ends with a NUL byte, and is decoded
 * in place: each member that was found ends with a NUL byte, too. TSR_MISMATCH if the text is not an object; no message
 * has any of it. */
int tsr__json_members(char *text, tsr_json_member *members, size_t count, tsr_error *error);

/* Takes the answer of a service of tokens: access_token, and expires_in or expires_on in seconds. */
int tsr__keys_from_token(tsr_provider *provider, tsr_buffer *response, tsr_credentials *credentials, tsr_error *error);

/* Asks a service for a token, and takes it. */
int tsr__keys_ask_token(tsr_provider *provider, const tsr_service_request *what, tsr_credentials *credentials,
                        tsr_error *error);

#endif
