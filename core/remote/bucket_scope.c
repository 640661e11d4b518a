/* bucket_scope.c: the scopes of an environment: which options and keys apply to which part of which bucket.
 *
 * A scope is referenced by the registry's list and by every running call. When a scope is forgotten or replaced, it
 * leaves the list, and its keys are wiped at once; the structure stays until the last reference is gone, so that a call
 * on another thread fails with a clear message.
 *
 * Order: names; options; the life of a scope; the registry; signing a request for a scope.
 */
#include "remote/bucket.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"

#define URI_MAX        1100u /* bytes of "s3://bucket/prefix" */
#define UNSIGNED_BYTES 65536u /* larger bodies are not hashed if TLS protects them */
#define DEFAULT_REGION "us-east-1"
#define PARALLEL_MAX   256u
#define PART_MB_MIN    5u /* S3's minimum for all parts but the last */
#define PART_MB_MAX    1024u

int64_t tsr__bucket_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool tsr__is_remote(const char *path) { return strncmp(path, "s3://", 5) == 0; }

/* ---- Names ----------------------------------------------------------------------------------- */

static bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool has_only(const char *text, const char *others, size_t most) {
  const size_t size = strlen(text);
  for (size_t i = 0; i < size; i++)
    if (!is_alphanumeric(text[i]) && !strchr(others, text[i])) return false;
  return size <= most;
}

/* No part may be empty, "." or "..": proxies and servers treat these in different ways. */
static bool is_prefix_text(const char *prefix) {
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

int tsr__bucket_uri_parse(const char *uri, tsr_arena *arena, const char **bucket, const char **prefix,
                          tsr_error *error) {
  size_t size = strlen(uri);
  char *text;
  if (!tsr__is_remote(uri) || size > URI_MAX)
    return tsr__fail(error, TSR_ERROR, "'%.200s' is not s3://bucket or s3://bucket/prefix", uri);
  while (size > 5 && uri[size - 1] == '/') size--;
  TSR_TRY(TSR_ARENA_COPY(arena, uri + 5, size - 5, &text, error));
  char *slash = strchr(text, '/');
  if (slash) *slash++ = 0;
  if (strlen(text) < 3 || !has_only(text, "-._", 255) || !is_alphanumeric(text[0]) || strstr(text, ".."))
    return tsr__fail(error, TSR_ERROR, "'%.200s': '%.64s' is not the name of a bucket", uri, text);
  if (slash && !is_prefix_text(slash))
    return tsr__fail(error, TSR_ERROR, "'%.200s': a part of the path is empty, '.' or '..', or has control characters",
                     uri);
  *bucket = text;
  *prefix = slash ? slash : "";
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
static int keep_option(tsr_bucket_scope *scope, const char **option, const char *name, tsr_error *error) {
  if (!*option || !**option) {
    *option = NULL;
    return TSR_OK;
  }
  const size_t size = strlen(*option);
  char *copy;
  bool good = size <= 1024 && (*option)[0] != ' ' && (*option)[size - 1] != ' ';
  for (size_t i = 0; i < size && good; i++) good = (unsigned char)(*option)[i] >= ' ' && (*option)[i] != 127;
  if (!good) return tsr__fail(error, TSR_ERROR, "%s is too long, or has control characters or spaces around it", name);
  TSR_TRY(TSR_ARENA_COPY(&scope->texts, *option, size, &copy, error));
  *option = copy;
  return TSR_OK;
}

static int keep_texts(tsr_bucket_scope *scope, tsr_error *error) {
  tsr_scope_options *o = &scope->options;
  TSR_TRY(keep_option(scope, &o->region, "region", error));
  TSR_TRY(keep_option(scope, &o->endpoint, "endpoint", error));
  TSR_TRY(keep_option(scope, &o->ca_file, "ca_file", error));
  TSR_TRY(keep_option(scope, &o->proxy, "proxy", error));
  TSR_TRY(keep_option(scope, &o->sse, "sse", error));
  TSR_TRY(keep_option(scope, &o->kms_key_id, "kms_key_id", error));
  TSR_TRY(keep_option(scope, &o->storage_class, "storage_class", error));
  o->provider = o->key_id = o->secret = o->session_token = NULL; /* the provider keeps them */
  if (o->region && !has_only(o->region, "-", sizeof scope->signing.region - 1))
    return tsr__fail(error, TSR_ERROR, "'%.64s' is not a region", o->region);
  if (o->sse && strcmp(o->sse, "AES256") && strcmp(o->sse, "aws:kms"))
    return tsr__fail(error, TSR_ERROR, "sse: '%.64s' is neither 'AES256' nor 'aws:kms'", o->sse);
  if (o->kms_key_id && (!o->sse || strcmp(o->sse, "aws:kms")))
    return tsr__fail(error, TSR_ERROR, "kms_key_id is for \"sse\": \"aws:kms\"");
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

/* Splits the endpoint into scheme, host and path. Drops the scheme's default port, which clients do not send either. */
static int keep_endpoint(tsr_bucket_scope *scope, tsr_error *error) {
  const char *endpoint = scope->options.endpoint;
  scope->endpoint.aws = !endpoint;
  scope->endpoint.scheme = "https";
  scope->endpoint.base = "";
  if (!endpoint) return TSR_OK;
  const bool tls = strncmp(endpoint, "https://", 8) == 0;
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
  if (!*copy || !has_only(copy, "-._:[]", 255) || !has_only(base, "-._~/", 255) || strstr(base, ".."))
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

static int open_scope_provider(tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_error *error) {
  tsr_provider_kind kind = given->key_id && *given->key_id ? TSR_PROVIDER_KEYS : TSR_PROVIDER_AUTO;
  if (given->provider && *given->provider && !tsr__provider_kind_of(given->provider, &kind))
    return tsr__fail(error, TSR_ERROR, "provider: '%.64s' is not one of keys, env, profile, anonymous, auto",
                     given->provider);
  const bool has_keys = (given->key_id && *given->key_id) || (given->secret && *given->secret);
  if (has_keys && kind != TSR_PROVIDER_KEYS)
    return tsr__fail(error, TSR_ERROR, "key_id and secret are for \"provider\": \"keys\"");
  if (kind == TSR_PROVIDER_KEYS && !(given->key_id && *given->key_id && given->secret && *given->secret))
    return tsr__fail(error, TSR_ERROR, "the key id or the secret is empty");
  const tsr_provider_options options = {.kind = kind,
                                        .key_id = given->key_id,
                                        .secret = given->secret,
                                        .session_token = given->session_token,
                                        .region = scope->options.region,
                                        .ca_file = scope->options.ca_file,
                                        .proxy = scope->options.proxy};
  return tsr__provider_open(&scope->provider, scope->scopes->memory, &options, error);
}

static int fill_scope(tsr_bucket_scope *scope, const char *name, const tsr_scope_options *options, tsr_error *error) {
  char *full;
  TSR_TRY(tsr__bucket_uri_parse(name, &scope->texts, &scope->bucket, &scope->prefix, error));
  const size_t size = 6 + strlen(scope->bucket) + strlen(scope->prefix);
  TSR_TRY(TSR_ARENA_RAW(&scope->texts, size + 1, &full, error));
  (void)snprintf(full, size + 1, "s3://%s%s%s", scope->bucket, *scope->prefix ? "/" : "", scope->prefix);
  scope->name = full;
  scope->options = *options;
  TSR_TRY(keep_texts(scope, error));
  TSR_TRY(keep_limits(&scope->options, error));
  TSR_TRY(keep_endpoint(scope, error));
  TSR_TRY(open_scope_provider(scope, options, error));
  scope->endpoint.path_style =
      options->url_style == TSR_URL_PATH ||
      (options->url_style == TSR_URL_AUTO && (!scope->endpoint.aws || strchr(scope->bucket, '.')));
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

void tsr__bucket_scope_leave(tsr_bucket_scope *scope) {
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
  tsr__bucket_scope_leave(scope);
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

static bool is_same_endpoint(const tsr_bucket_scope *a, const tsr_bucket_scope *b) {
  if (a->endpoint.aws || b->endpoint.aws) return a->endpoint.aws && b->endpoint.aws;
  return strcmp(a->endpoint.scheme, b->endpoint.scheme) == 0 && strcmp(a->endpoint.host, b->endpoint.host) == 0 &&
         strcmp(a->endpoint.base, b->endpoint.base) == 0;
}

/* Checks whether a confined registry accepts the scope. Call with the registry's mutex held. */
static int permit_scope(const tsr_bucket_scopes *scopes, tsr_bucket_scope *scope, tsr_error *error) {
  if (!scopes->confined) return TSR_OK;
  if (!uri_is_below(scope->name, scopes->confined))
    return tsr__fail(error, TSR_PERM, "it does not lie below %s, to which this connection is restricted",
                     scopes->confined);
  for (const tsr_bucket_scope *other = scopes->first; other; other = other->next)
    if (is_same_endpoint(scope, other)) {
      atomic_store(&scope->provider.no_metadata, true);
      return TSR_OK;
    }
  return tsr__fail(error, TSR_PERM, "since this connection was restricted, no other endpoint can be declared");
}

int tsr__bucket_scopes_set(tsr_bucket_scopes *scopes, const char *name, const tsr_scope_options *options,
                           tsr_error *error) {
  tsr_bucket_scope *scope, *old = NULL;
  if (make_scope(scopes, name, options, &scope, error) < 0) return tsr__wrap(error, "scope %.200s", name);
  pthread_mutex_lock(&scopes->mutex);
  const int rc = permit_scope(scopes, scope, error);
  if (rc >= 0) {
    old = take_scope(scopes, scope->name);
    insert_scope(scopes, scope);
  }
  pthread_mutex_unlock(&scopes->mutex);
  if (old) forget_scope(old);
  if (rc >= 0) return TSR_OK;
  tsr__bucket_scope_leave(scope);
  return tsr__wrap(error, "scope %.200s", name);
}

int tsr__bucket_scopes_forget(tsr_bucket_scopes *scopes, const char *name, tsr_error *error) {
  char text[URI_MAX + 1];
  size_t size = strlen(name);
  while (size > 5 && name[size - 1] == '/') size--;
  if (!tsr__is_remote(name) || size > URI_MAX)
    return tsr__fail(error, TSR_ERROR, "'%.200s' is not s3://bucket or s3://bucket/prefix", name);
  memcpy(text, name, size);
  text[size] = 0;
  pthread_mutex_lock(&scopes->mutex);
  tsr_bucket_scope *scope = take_scope(scopes, text);
  pthread_mutex_unlock(&scopes->mutex);
  if (!scope) return TSR_OK;
  forget_scope(scope);
  return 1;
}

int tsr__bucket_scopes_confine(tsr_bucket_scopes *scopes, const char *uri, tsr_error *error) {
  tsr_arena arena;
  const char *bucket, *prefix;
  char *name = NULL;
  tsr__arena_init(&arena, scopes->memory);
  int rc = tsr__bucket_uri_parse(uri, &arena, &bucket, &prefix, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW_BYTES(scopes->memory, strlen(uri) + 1, &name, error);
  if (rc >= 0) (void)snprintf(name, strlen(uri) + 1, "s3://%s%s%s", bucket, *prefix ? "/" : "", prefix);
  tsr__arena_release(&arena);
  if (rc < 0) return rc;
  pthread_mutex_lock(&scopes->mutex);
  if (scopes->confined && !uri_is_below(name, scopes->confined))
    rc = tsr__fail(error, TSR_PERM, "%.200s does not lie below %s, to which this connection is restricted", uri,
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

/* ---- Signing --------------------------------------------------------------------------------- */

bool tsr__bucket_scope_learn_region(tsr_bucket_scope *scope, const char *region, const char *used) {
  if (!region || !*region || !has_only(region, "-", sizeof scope->signing.region - 1) || strcmp(region, used) == 0)
    return false;
  pthread_mutex_lock(&scope->signing.mutex);
  (void)snprintf(scope->signing.region, sizeof scope->signing.region, "%s", region);
  pthread_mutex_unlock(&scope->signing.mutex);
  return true;
}

/* Makes the host, the path and the beginning of the URL. */
static int locate(const tsr_bucket_scope *scope, const char *key, const char *region, tsr_buffer *host,
                  tsr_buffer *path, tsr_buffer *url, tsr_error *error) {
  const bool path_style = scope->endpoint.path_style;
  if (!path_style) TSR_TRY(tsr__buffer_printf(host, error, "%s.", scope->bucket));
  if (scope->endpoint.aws)
    TSR_TRY(tsr__buffer_printf(host, error, "s3.%s.amazonaws.com%s", region, strncmp(region, "cn-", 3) ? "" : ".cn"));
  else TSR_TRY(tsr__buffer_printf(host, error, "%s", scope->endpoint.host));
  TSR_TRY(tsr__buffer_printf(path, error, "%s%s%s%s%s", scope->endpoint.base, path_style ? "/" : "",
                             path_style ? scope->bucket : "", *key || !path_style ? "/" : "", key));
  url->size = 0;
  return tsr__buffer_printf(url, error, "%s://%s", scope->endpoint.scheme, (const char *)host->data);
}

/* Returns a copy of the signing key, which is derived once a day. */
static int signing_key(tsr_bucket_scope *scope, const tsr_credentials *credentials, int64_t now, const char *region,
                       tsr_sigv4_key *key, tsr_error *error) {
  int rc = TSR_OK;
  pthread_mutex_lock(&scope->signing.mutex);
  if (scope->signing.key_number != credentials->number ||
      !tsr__sigv4_key_fits(&scope->signing.key, now, region, "s3")) {
    rc = tsr__sigv4_key_make(&scope->signing.key, credentials->secret, now, region, "s3", error);
    scope->signing.key_number = rc >= 0 ? credentials->number : 0;
  }
  *key = scope->signing.key;
  if (atomic_load(&scope->forgotten)) tsr__wipe(&scope->signing.key, sizeof scope->signing.key);
  pthread_mutex_unlock(&scope->signing.mutex);
  return rc;
}

static int sign_located(tsr_bucket_scope *scope, const tsr_credentials *credentials, tsr_sigv4_request *request,
                        const void *body, uint64_t body_size, tsr_bucket_signed *made, tsr_error *error) {
  uint8_t digest[TSR_SHA256_SIZE];
  TSR_TRY(tsr__sigv4_target(request, &made->url, error));
  if (credentials->anonymous) return tsr__sigv4_sign(request, NULL, &made->lines, error);
  const bool tls = strcmp(scope->endpoint.scheme, "https") == 0;
  if (!tls || body_size <= UNSIGNED_BYTES) {
    TSR_TRY(tsr__sha256(body, body_size, digest, error));
    request->payload_sha256 = digest;
  }
  tsr_sigv4_key key;
  const int64_t now = tsr__bucket_clock() + atomic_load(&scope->clocks.skew);
  TSR_TRY(signing_key(scope, credentials, now, made->region, &key, error));
  const tsr_sigv4_signer signer = {.key_id = credentials->key_id,
                                   .key = &key,
                                   .now = now,
                                   .session_token = *credentials->token ? credentials->token : NULL};
  const int rc = tsr__sigv4_sign(request, &signer, &made->lines, error);
  tsr__wipe(&key, sizeof key);
  request->payload_sha256 = NULL;
  return rc;
}

static void choose_region(tsr_bucket_scope *scope, const tsr_credentials *credentials, char region[64]) {
  pthread_mutex_lock(&scope->signing.mutex);
  const char *found = *scope->signing.region  ? scope->signing.region
                      : scope->options.region ? scope->options.region
                      : *credentials->region  ? credentials->region
                                              : DEFAULT_REGION;
  (void)snprintf(region, 64, "%s", found);
  pthread_mutex_unlock(&scope->signing.mutex);
}

int tsr__bucket_scope_sign(tsr_bucket_scope *scope, tsr_memory *memory, const char *key, tsr_sigv4_request *request,
                           const void *body, uint64_t body_size, uint64_t refused, tsr_bucket_signed *made,
                           tsr_error *error) {
  tsr_credentials credentials = {0};
  if (tsr__credentials_get(&scope->provider, refused, &credentials, error) < 0)
    return tsr__wrap(error, "keys for %s", scope->name);
  tsr_buffer host = {.memory = memory}, path = {.memory = memory};
  made->key_number = credentials.number;
  choose_region(scope, &credentials, made->region);
  int rc = locate(scope, key, made->region, &host, &path, &made->url, error);
  if (rc >= 0) {
    request->host = (const char *)host.data;
    request->path = (const char *)path.data;
    rc = sign_located(scope, &credentials, request, body, body_size, made, error);
    request->host = request->path = NULL;
  }
  tsr__credentials_release(&credentials);
  tsr__buffer_release(&host);
  tsr__buffer_release(&path);
  return rc;
}
