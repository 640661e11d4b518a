/* bucket_scope.c: the scopes of an environment: which options and keys apply to which part of which bucket.
 *
 * A scope is referenced by the registry's list and by every running call. When a scope is forgotten or replaced, it
 * leaves the list, and its keys are wiped at once; the structure stays until the last reference is gone, so that a call
 * on another thread fails with a clear message.
 *
 * Sections: names; options; the life of a scope; the registry.
 */
#include "remote/bucket.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/uri.h"

#define URI_MAX      1100u /* bytes of "s3://bucket/prefix" */
#define PARALLEL_MAX 256u
#define PART_MB_MIN  5u /* S3's minimum for all parts but the last */
#define PART_MB_MAX  1024u

int64_t tsr__bucket_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool tsr__bucket_text_has_only(const char *text, const char *others, size_t most) {
  const size_t size = strlen(text);
  for (size_t i = 0; i < size; i++)
    if (!is_alphanumeric(text[i]) && !strchr(others, text[i])) return false;
  return size <= most;
}

bool tsr__bucket_is_set(const char *text) { return text && *text; }

bool tsr__bucket_is_prefix(const char *prefix) {
  for (const char *part = prefix; *part;) {
    const size_t size = strcspn(part, "/");
    if (size == 0 || (size == 1 && *part == '.') || (size == 2 && memcmp(part, "..", 2) == 0)) return false;
    part += size;
    if (*part == '/' && *++part == 0) return false;
  }
  for (const char *p = prefix; *p; p++)
    if ((unsigned char)*p < ' ' || *p == 127) return false;
  return true;
}

/* Azure's rules are strict, and it does not say which one a name breaks: lower-case letters and digits, and single
 * hyphens between them. */
static bool is_container(const char *name) {
  const size_t size = strlen(name);
  return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == size && size <= 63 && !strstr(name, "--") &&
         name[size - 1] != '-';
}

static const tsr_dialect *dialect_of(const char *scheme) {
  static const tsr_dialect *const dialects[] = {&tsr__dialect_s3, &tsr__dialect_azure, &tsr__dialect_gcs};
  for (size_t i = 0; scheme && i < sizeof dialects / sizeof *dialects; i++)
    if (strcmp(dialects[i]->scheme, scheme) == 0) return dialects[i];
  return NULL;
}

static int fail_uri(const char *uri, tsr_error *error) {
  return tsr__fail(error, TSR_ERROR,
                   "'%.*s' is not s3://bucket, azure://container or gcs://bucket, with or without /prefix",
                   tsr__uri_shown(uri), uri);
}

int tsr__bucket_uri_parse(const char *uri, tsr_arena *arena, tsr_bucket_uri *parsed, tsr_error *error) {
  const char *rest;
  char *text, *name;
  parsed->dialect = dialect_of(tsr__uri_scheme(uri, &rest));
  if (!parsed->dialect) return fail_uri(uri, error);
  TSR_TRY(tsr__uri_unsigned(uri, error));
  if (strlen(uri) > URI_MAX)
    return tsr__fail(error, TSR_ERROR, "'%.*s...': a path of %zu bytes, at most %u are possible",
                     (int)TSR_MIN(tsr__uri_shown(uri), 64), uri, strlen(uri), URI_MAX);
  size_t size = strlen(rest);
  while (size > 0 && rest[size - 1] == '/') size--;
  TSR_TRY(TSR_ARENA_COPY(arena, rest, size, &text, error));
  const size_t room = size + strlen(parsed->dialect->scheme) + 4;
  TSR_TRY(TSR_ARENA_RAW(arena, room, &name, error));
  (void)snprintf(name, room, "%s://%s", parsed->dialect->scheme, text);
  char *slash = strchr(text, '/');
  if (slash) *slash++ = 0;
  if (strlen(text) < 3 || !tsr__bucket_text_has_only(text, "-._", 255) || !is_alphanumeric(text[0]) ||
      strstr(text, "..") || (parsed->dialect == &tsr__dialect_azure && !is_container(text)))
    return tsr__fail(error, TSR_ERROR, "'%.*s': '%.*s' is not the name of a %s", tsr__uri_shown(uri), uri,
                     (int)TSR_MIN(tsr__uri_shown(text), 64), text, parsed->dialect->noun);
  if (slash && !tsr__bucket_is_prefix(slash))
    return tsr__fail(error, TSR_ERROR, "'%.*s': a part of the path is empty, '.' or '..', or has control characters",
                     tsr__uri_shown(uri), uri);
  parsed->name = name;
  parsed->bucket = text;
  parsed->prefix = slash ? slash : "";
  return TSR_OK;
}

bool tsr__bucket_key_is_below(const char *key, const char *prefix) {
  const size_t size = strlen(prefix);
  return size == 0 || (strncmp(key, prefix, size) == 0 && (key[size] == 0 || key[size] == '/'));
}

/* Like tsr__bucket_key_is_below, for whole URIs. */
static bool uri_is_below(const char *uri, const char *name) { return *name && tsr__bucket_key_is_below(uri, name); }

/* ---- Options --------------------------------------------------------------------------------- */

/* Copies an option's text; an empty one becomes NULL. */
static int keep_option(tsr_bucket_scope *scope, const char *text, const char *name, const char **kept,
                       tsr_error *error) {
  if (!tsr__bucket_is_set(text)) return TSR_OK;
  const size_t size = strlen(text);
  char *copy;
  bool good = size <= 1024 && text[0] != ' ' && text[size - 1] != ' ';
  for (size_t i = 0; i < size && good; i++) good = (unsigned char)text[i] >= ' ' && text[i] != 127;
  if (!good) return tsr__fail(error, TSR_ERROR, "%s is too long, or has control characters or spaces around it", name);
  TSR_TRY(TSR_ARENA_COPY(&scope->texts, text, size, &copy, error));
  *kept = copy;
  return TSR_OK;
}

enum { OF_S3 = 1, OF_AZURE = 2, OF_GCS = 4, OF_ALL = 7 };

static int kind_of_dialect(const tsr_dialect *dialect) {
  return dialect == &tsr__dialect_s3 ? OF_S3 : dialect == &tsr__dialect_azure ? OF_AZURE : OF_GCS;
}

typedef struct scope_text {
  const char *name;
  size_t at; /* in tsr_scope_options */
  int of; /* the kinds of servers that have it */
  bool of_keys; /* for the provider `keys`, which keeps it */
} scope_text;

static const scope_text scope_texts[] = {
#define X(name, of, of_keys) {#name, offsetof(tsr_scope_options, name), of, of_keys},
    /* clang-format off */
    X(provider, OF_ALL, false)             X(key_id, OF_S3 | OF_GCS, true)        X(secret, OF_S3 | OF_GCS, true)
    X(session_token, OF_S3, true)          X(service_account, OF_GCS, true)       X(service_account_file, OF_GCS, true)
    X(token, OF_AZURE | OF_GCS, true)      X(key, OF_AZURE, true)                 X(sas, OF_AZURE, true)
    X(tenant_id, OF_AZURE, true)           X(client_id, OF_AZURE, true)           X(client_secret, OF_AZURE, true)
    X(account, OF_AZURE, false)            X(region, OF_S3, false)                X(user_project, OF_GCS, false)
    X(endpoint, OF_ALL, false)             X(ca_file, OF_ALL, false)              X(proxy, OF_ALL, false)
    X(sse, OF_S3, false)                   X(kms_key_id, OF_S3 | OF_GCS, false)   X(encryption_scope, OF_AZURE, false)
    X(storage_class, OF_ALL, false)
/* clang-format on */
#undef X
};
#define SCOPE_TEXTS (sizeof scope_texts / sizeof *scope_texts)

static const char **text_of(tsr_scope_options *options, const scope_text *text) {
  return (const char **)(void *)((char *)options + text->at);
}

static int fail_option(const tsr_bucket_scope *scope, const char *name, tsr_error *error) {
  return tsr__fail(error, TSR_ERROR, "%s is not an option of %s:// scopes", name, scope->dialect->scheme);
}

typedef struct given_keys { /* the options of keys */
  bool any; /* one is set */
  const char *empty; /* the name of one that is ""; NULL: there is none */
} given_keys;

/* Copies all texts but those of the keys. */
static int keep_texts(tsr_bucket_scope *scope, const tsr_scope_options *given, given_keys *keys, tsr_error *error) {
  const int kind = kind_of_dialect(scope->dialect);
  for (size_t i = 0; i < SCOPE_TEXTS; i++) {
    const scope_text *option = &scope_texts[i];
    const char *text = *text_of((tsr_scope_options *)(uintptr_t)given, option);
    if (tsr__bucket_is_set(text) && !(option->of & kind)) return fail_option(scope, option->name, error);
    if (!option->of_keys) {
      TSR_TRY(keep_option(scope, text, option->name, text_of(&scope->options, option), error));
      continue;
    }
    keys->any |= tsr__bucket_is_set(text);
    if (text && !*text && (option->of & kind)) keys->empty = option->name;
  }
  if (given->requester_pays && kind != OF_S3) return fail_option(scope, "requester_pays", error);
  if (given->url_style != TSR_URL_AUTO && kind != OF_S3) return fail_option(scope, "url_style", error);
  return TSR_OK;
}

static int keep_limits(tsr_scope_options *o, tsr_error *error) {
  if (o->parallel > PARALLEL_MAX) return tsr__fail(error, TSR_ERROR, "parallel: at most %u", PARALLEL_MAX);
  if (o->part_mb > 0 && (o->part_mb < PART_MB_MIN || o->part_mb > PART_MB_MAX))
    return tsr__fail(error, TSR_ERROR, "part_mb: %u to %u", PART_MB_MIN, PART_MB_MAX);
  if (o->connect_ms == 0) o->connect_ms = 5000;
  if (o->stall_ms == 0) o->stall_ms = 15000;
  if (o->retries == 0) o->retries = 6;
  if (o->retries == TSR_NO_RETRIES) o->retries = 0;
  if (o->parallel == 0) o->parallel = 32;
  if (o->part_mb == 0) o->part_mb = 8;
  return TSR_OK;
}

int tsr__bucket_scope_endpoint(tsr_bucket_scope *scope, const char *endpoint, tsr_error *error) {
  const bool tls = strncmp(endpoint, "https://", 8) == 0;
  if (strpbrk(endpoint, "@?")) /* which are not shown: they have secrets */
    return tsr__fail(error, TSR_ERROR, "endpoint: it is https://host[:port], without a user and without a query");
  if (!tls && strncmp(endpoint, "http://", 7) != 0)
    return tsr__fail(error, TSR_ERROR, "endpoint: '%.200s' begins with neither https:// nor http://", endpoint);
  const char *host = endpoint + (tls ? 8 : 7);
  size_t size = strcspn(host, "/"), rest = strlen(host + size);
  char *copy, *base;
  while (rest > 0 && host[size + rest - 1] == '/') rest--;
  TSR_TRY(TSR_ARENA_COPY(&scope->texts, host + size, rest, &base, error));
  const char *port = tls ? ":443" : ":80";
  if (size > strlen(port) && memcmp(host + size - strlen(port), port, strlen(port)) == 0) size -= strlen(port);
  TSR_TRY(TSR_ARENA_COPY(&scope->texts, host, size, &copy, error));
  if (!*copy || !tsr__bucket_text_has_only(copy, "-._:[]", 255) || !tsr__bucket_text_has_only(base, "-._~/", 255) ||
      strstr(base, ".."))
    return tsr__fail(error, TSR_ERROR, "endpoint: '%.200s' is not https://host[:port]", endpoint);
  if (!tls && !scope->options.plain_http && !tsr__is_loopback(copy, strlen(copy)))
    return tsr__fail(error, TSR_ERROR,
                     "endpoint: '%.200s' would send everything in the clear: use https://, or set plain_http",
                     endpoint);
  scope->endpoint.scheme = tls ? "https" : "http";
  scope->endpoint.host = copy;
  scope->endpoint.base = base;
  return TSR_OK;
}

/* Tokens are worth as much to whoever reads them as to us. */
static int check_tokens(const tsr_bucket_scope *scope, tsr_keys_form form, tsr_error *error) {
  if ((form != TSR_KEYS_BEARER && form != TSR_KEYS_QUERY) || tsr__bucket_scope_is_private(scope)) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "%s: a token in the clear could be used by others: use an https:// endpoint",
                   scope->name);
}

bool tsr__bucket_scope_is_private(const tsr_bucket_scope *scope) {
  return strcmp(scope->endpoint.scheme, "https") == 0 ||
         tsr__is_loopback(scope->endpoint.host, strlen(scope->endpoint.host));
}

/* Chooses where the keys come from. */
static int choose_provider(tsr_bucket_scope *scope, const char *name, const given_keys *keys, tsr_error *error) {
  const bool azure = scope->dialect == &tsr__dialect_azure;
  tsr_provider_kind kind = keys->any ? TSR_PROVIDER_KEYS : TSR_PROVIDER_AUTO;
  if (name && ((*name && !tsr__provider_kind_of(name, &kind)) || (azure && kind == TSR_PROVIDER_PROFILE)))
    return tsr__fail(error, TSR_ERROR, "provider: '%.64s' is not one of keys, env, %sanonymous, auto", name,
                     azure ? "" : "profile, ");
  if (!name && !keys->any && keys->empty) /* its variable may have been empty: `auto` would find other keys */
    return tsr__fail(error, TSR_ERROR, "%s is empty: give it, or leave it out for \"provider\": \"auto\"", keys->empty);
  if (keys->any && kind != TSR_PROVIDER_KEYS)
    return tsr__fail(error, TSR_ERROR, "%s are for \"provider\": \"keys\"", scope->dialect->keys);
  scope->provider.kind = kind;
  return TSR_OK;
}

/* Opens the provider. `given` has the keys of the options. */
static int open_scope_provider(tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_error *error) {
  const tsr_provider_kind kind = scope->provider.kind;
  tsr_provider_options options = {.kind = kind,
                                  .find = scope->dialect->find_keys,
                                  .region = scope->options.region,
                                  .ca_file = scope->options.ca_file,
                                  .proxy = scope->options.proxy};
  if (kind == TSR_PROVIDER_KEYS) TSR_TRY(scope->dialect->keys_of(scope, given, &options, error));
  TSR_TRY(check_tokens(scope, options.token ? options.form : TSR_KEYS_SIGN, error));
  return tsr__provider_open(&scope->provider, scope->scopes->memory, &options, error);
}

static int fill_scope(tsr_bucket_scope *scope, const char *name, const tsr_scope_options *options, tsr_error *error) {
  tsr_bucket_uri uri;
  TSR_TRY(tsr__bucket_uri_parse(name, &scope->texts, &uri, error));
  scope->dialect = uri.dialect;
  scope->name = uri.name;
  scope->bucket = uri.bucket;
  scope->prefix = uri.prefix;
  scope->options = *options;
  for (size_t i = 0; i < SCOPE_TEXTS; i++) *text_of(&scope->options, &scope_texts[i]) = NULL; /* the caller's */
  given_keys keys = {0};
  TSR_TRY(keep_texts(scope, options, &keys, error));
  TSR_TRY(keep_limits(&scope->options, error));
  TSR_TRY(choose_provider(scope, scope->options.provider, &keys, error));
  TSR_TRY(scope->dialect->configure(scope, error));
  TSR_TRY(open_scope_provider(scope, options, error));
  scope->transport = (tsr_http_transport){.connect_ms = scope->options.connect_ms,
                                          .stall_ms = scope->options.stall_ms,
                                          .ca_file = scope->options.ca_file,
                                          .proxy = scope->options.proxy,
                                          .plain_http = scope->options.plain_http};
  return TSR_OK;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_scope(tsr_bucket_scope *scope) {
  tsr__provider_release(&scope->provider);
  tsr__wipe(&scope->signing.key, sizeof scope->signing.key);
  if (scope->options.proxy) tsr__wipe((void *)scope->options.proxy, strlen(scope->options.proxy)); /* with password */
  pthread_mutex_destroy(&scope->signing.mutex);
  tsr__arena_release(&scope->texts);
  tsr__free(scope);
}

static int make_scope(tsr_bucket_scopes *scopes, const char *name, const tsr_scope_options *options,
                      tsr_bucket_scope **made, tsr_error *error) {
  tsr_bucket_scope *scope;
  TSR_TRY(TSR_ALLOC(scopes->memory, &scope, error));
  scope->scopes = scopes;
  scope->references = 1;
  tsr__arena_init(&scope->texts, scopes->memory);
  pthread_mutex_init(&scope->signing.mutex, NULL);
  const int rc = fill_scope(scope, name, options, error);
  if (rc < 0) free_scope(scope);
  else *made = scope;
  return rc;
}

void tsr__bucket_scope_release(tsr_bucket_scope *scope) {
  if (!scope) return;
  pthread_mutex_t *mutex = &scope->scopes->mutex;
  pthread_mutex_lock(mutex);
  const bool last = --scope->references == 0;
  pthread_mutex_unlock(mutex);
  if (last) free_scope(scope);
}

/* Wipes the keys of a scope that has left the list, and drops the list's reference. */
static void forget_scope(tsr_bucket_scope *scope) {
  atomic_store(&scope->forgotten, true);
  tsr__provider_wipe(&scope->provider);
  pthread_mutex_lock(&scope->signing.mutex);
  tsr__wipe(&scope->signing.key, sizeof scope->signing.key);
  scope->signing.key_number = 0;
  pthread_mutex_unlock(&scope->signing.mutex);
  tsr__bucket_scope_release(scope);
}

/* Removes the scope with this name from the list. Call with the registry's mutex held. */
static tsr_bucket_scope *take_scope(tsr_bucket_scopes *scopes, const char *name) {
  for (tsr_bucket_scope **at = &scopes->first; *at; at = &(*at)->next)
    if (strcmp((*at)->name, name) == 0) {
      tsr_bucket_scope *scope = *at;
      *at = scope->next;
      return scope;
    }
  return NULL;
}

static void insert_scope(tsr_bucket_scopes *scopes, tsr_bucket_scope *scope) {
  tsr_bucket_scope **at = &scopes->first;
  while (*at && strlen((*at)->name) > strlen(scope->name)) at = &(*at)->next;
  scope->next = *at;
  *at = scope;
}

tsr_bucket_scope *tsr__bucket_scope_find(tsr_bucket_scopes *scopes, const char *uri) {
  pthread_mutex_lock(&scopes->mutex);
  tsr_bucket_scope *scope = scopes->first;
  while (scope && !uri_is_below(uri, scope->name)) scope = scope->next;
  if (scope) scope->references++;
  pthread_mutex_unlock(&scopes->mutex);
  return scope;
}

/* ---- The registry ---------------------------------------------------------------------------- */

int tsr__bucket_scopes_open(tsr_memory *memory, tsr_bucket_scopes **scopes, tsr_error *error) {
  tsr_bucket_scopes *made;
  TSR_TRY(TSR_ALLOC(memory, &made, error));
  made->memory = memory;
  pthread_mutex_init(&made->mutex, NULL);
  *scopes = made;
  return TSR_OK;
}

void tsr__bucket_scopes_close(tsr_bucket_scopes *scopes) {
  if (!scopes) return;
  while (scopes->first) {
    tsr_bucket_scope *scope = scopes->first;
    scopes->first = scope->next;
    forget_scope(scope);
  }
  tsr__free(scopes->confined);
  pthread_mutex_destroy(&scopes->mutex);
  tsr__free(scopes);
}

static bool is_same_text(const char *a, const char *b) { return strcmp(tsr__answer_text(a), tsr__answer_text(b)) == 0; }

static bool is_same_endpoint(const tsr_bucket_scope *a, const tsr_bucket_scope *b) {
  if (a->dialect != b->dialect || !is_same_text(a->account, b->account)) return false;
  if (a->endpoint.aws || b->endpoint.aws) return a->endpoint.aws && b->endpoint.aws;
  return strcmp(a->endpoint.scheme, b->endpoint.scheme) == 0 && strcmp(a->endpoint.host, b->endpoint.host) == 0 &&
         strcmp(a->endpoint.base, b->endpoint.base) == 0;
}

/* Returns true if a scope's requests take the same way as another's: a proxy would get them, too. */
static bool is_same_way(const tsr_bucket_scope *a, const tsr_bucket_scope *b) {
  return is_same_endpoint(a, b) && is_same_text(a->options.proxy, b->options.proxy) &&
         is_same_text(a->options.ca_file, b->options.ca_file);
}

/* Checks whether a confined registry accepts the scope. Call with the registry's mutex held. */
static int permit_scope(const tsr_bucket_scopes *scopes, tsr_bucket_scope *scope, tsr_error *error) {
  if (!scopes->confined) return TSR_OK;
  if (!uri_is_below(scope->name, scopes->confined))
    return tsr__fail(error, TSR_PERM, "it is not below %s, to which this connection is restricted", scopes->confined);
  if (tsr__provider_asks(&scope->provider))
    return tsr__fail(error, TSR_PERM,
                     "since this connection was restricted, no keys can be declared that fetch tokens");
  for (const tsr_bucket_scope *other = scopes->first; other; other = other->next)
    if (is_same_way(scope, other)) {
      atomic_store(&scope->provider.no_metadata, true);
      return TSR_OK;
    }
  return tsr__fail(error, TSR_PERM,
                   "since this connection was restricted, no other endpoint, proxy or ca_file can be declared");
}

int tsr__bucket_scopes_set(tsr_bucket_scopes *scopes, const char *name, const tsr_scope_options *options,
                           tsr_error *error) {
  tsr_bucket_scope *scope, *old = NULL;
  if (make_scope(scopes, name, options, &scope, error) < 0)
    return tsr__wrap(error, "scope %.*s", tsr__uri_shown(name), name);
  pthread_mutex_lock(&scopes->mutex);
  const int rc = permit_scope(scopes, scope, error);
  if (rc >= 0) {
    old = take_scope(scopes, scope->name);
    insert_scope(scopes, scope);
  }
  pthread_mutex_unlock(&scopes->mutex);
  if (old) forget_scope(old);
  if (rc >= 0) return TSR_OK;
  tsr__bucket_scope_release(scope);
  return tsr__wrap(error, "scope %.*s", tsr__uri_shown(name), name);
}

int tsr__bucket_scopes_forget(tsr_bucket_scopes *scopes, const char *name, tsr_error *error) {
  tsr_arena arena;
  tsr_bucket_uri uri;
  tsr__arena_init(&arena, scopes->memory);
  const int rc = tsr__bucket_uri_parse(name, &arena, &uri, error);
  pthread_mutex_lock(&scopes->mutex);
  tsr_bucket_scope *scope = rc >= 0 ? take_scope(scopes, uri.name) : NULL;
  pthread_mutex_unlock(&scopes->mutex);
  tsr__arena_release(&arena);
  if (!scope) return rc;
  forget_scope(scope);
  return 1;
}

int tsr__bucket_scopes_confine(tsr_bucket_scopes *scopes, const char *uri, tsr_error *error) {
  tsr_arena arena;
  tsr_bucket_uri parsed;
  char *name = NULL;
  tsr__arena_init(&arena, scopes->memory);
  int rc = tsr__bucket_uri_parse(uri, &arena, &parsed, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW_BYTES(scopes->memory, strlen(parsed.name) + 1, &name, error);
  if (rc >= 0) strcpy(name, parsed.name);
  tsr__arena_release(&arena);
  if (rc < 0) return rc;
  pthread_mutex_lock(&scopes->mutex);
  if (scopes->confined && !uri_is_below(name, scopes->confined))
    rc = tsr__fail(error, TSR_PERM, "%.200s is not below %s, to which this connection is restricted", uri,
                   scopes->confined);
  if (rc >= 0) {
    char *old = scopes->confined;
    scopes->confined = name;
    name = old;
    for (tsr_bucket_scope *scope = scopes->first; scope; scope = scope->next)
      atomic_store(&scope->provider.no_metadata, true);
  }
  pthread_mutex_unlock(&scopes->mutex);
  tsr__free(name);
  return rc;
}

tsr_bucket_counters *tsr__bucket_scopes_counters(tsr_bucket_scopes *scopes) { return &scopes->counters; }

bool tsr__bucket_scope_learn_region(tsr_bucket_scope *scope, const char *region, const char *used) {
  if (!region || !*region || !tsr__bucket_text_has_only(region, "-", sizeof scope->signing.region - 1) ||
      strcmp(region, used) == 0)
    return false;
  pthread_mutex_lock(&scope->signing.mutex);
  (void)snprintf(scope->signing.region, sizeof scope->signing.region, "%s", region);
  pthread_mutex_unlock(&scope->signing.mutex);
  return true;
}
