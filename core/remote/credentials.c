/* credentials.c: keeps the keys of one scope, looks for them when they are missing or old, and wipes them.
 *
 * Copies of keys are few, so that all of them can be wiped: the block of the provider, and one for each request that is
 * being signed. No key passes through a buffer that grows, because the memory that it leaves would keep the key.
 */
#include "remote/credentials.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arithmetic.h"
#include "remote/credentials_sources.h"

#define EARLY_MS    300000 /* keys are refreshed so long before they expire */
#define PATIENCE_MS 30000 /* a refresh that has failed is tried again after this time */
#define KEY_MAX     16384u /* characters of one key; session tokens are the longest */

static int64_t clock_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool tsr__provider_kind_of(const char *name, tsr_provider_kind *kind) {
#define X(upper, text)                                                                                                 \
  if (strcmp(name, text) == 0) return *kind = TSR_PROVIDER_##upper, true;
  TSR_PROVIDERS(X)
#undef X
  return false;
}

const char *tsr__variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool is_key(tsr_text_part text) {
  if (text.size > KEY_MAX) return false;
  for (uint64_t i = 0; i < text.size; i++)
    if (text.at[i] <= ' ' || text.at[i] > '~') return false;
  return true;
}

int tsr__credentials_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token,
                          int64_t expires, tsr_credentials *credentials, tsr_error *error) {
  if (key_id.size == 0 || secret.size == 0) return tsr__fail(error, TSR_DENIED, "the key id or the secret is empty");
  if (!is_key(key_id) || !is_key(secret) || !is_key(token))
    return tsr__fail(error, TSR_DENIED, "a key is too long or has characters that no key has");
  const uint64_t size = key_id.size + secret.size + token.size + 3;
  char *block;
  TSR_TRY(TSR_ALLOC_BYTES(memory, size, &block, error));
  *credentials = (tsr_credentials){.key_id = block, .size = size, .expires = expires};
  credentials->secret = block + key_id.size + 1;
  credentials->token = credentials->secret + secret.size + 1;
  memcpy(credentials->key_id, key_id.at, key_id.size);
  memcpy(credentials->secret, secret.at, secret.size);
  if (token.size > 0) memcpy(credentials->token, token.at, token.size);
  return TSR_OK;
}

void tsr__credentials_region(tsr_credentials *credentials, tsr_text_part region) {
  credentials->region[0] = 0;
  if (region.size >= sizeof credentials->region) return;
  for (uint64_t i = 0; i < region.size; i++) {
    const char c = region.at[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-')) return;
  }
  if (region.size > 0) memcpy(credentials->region, region.at, region.size);
  credentials->region[region.size] = 0;
}

static int copy_credentials(tsr_memory *memory, const tsr_credentials *from, tsr_credentials *to, tsr_error *error) {
  char *block;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(memory, from->size, &block, error));
  memcpy(block, from->key_id, from->size);
  *to = *from;
  to->key_id = block;
  to->secret = block + (from->secret - from->key_id);
  to->token = block + (from->token - from->key_id);
  return TSR_OK;
}

void tsr__credentials_release(tsr_credentials *credentials) {
  if (credentials->key_id) tsr__wipe(credentials->key_id, credentials->size);
  tsr__free(credentials->key_id);
  *credentials = (tsr_credentials){0};
}

static int make_anonymous(tsr_memory *memory, tsr_credentials *credentials, tsr_error *error) {
  char *block;
  TSR_TRY(TSR_ALLOC_BYTES(memory, 3, &block, error));
  *credentials = (tsr_credentials){
      .key_id = block, .secret = block + 1, .token = block + 2, .size = 3, .anonymous = true, .expires = INT64_MAX};
  return TSR_OK;
}

/* ---- Looking for keys ------------------------------------------------------------------------ */

static int find_automatically(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  static int (*const sources[])(tsr_provider *, tsr_credentials *, tsr_error *) = {
      tsr__keys_from_environment, tsr__keys_from_profile, tsr__keys_from_web_identity, tsr__keys_from_container,
      tsr__keys_from_instance};
  tsr_buffer reasons = {.memory = provider->memory};
  int rc = TSR_NOT_FOUND;
  for (size_t i = 0; i < sizeof sources / sizeof *sources && rc == TSR_NOT_FOUND; i++) {
    tsr_error reason = {0};
    rc = sources[i](provider, credentials, &reason);
    if (rc < 0 && rc != TSR_NOT_FOUND) (void)tsr__fail(error, rc, "%s", reason.message);
    if (rc == TSR_NOT_FOUND && tsr__buffer_printf(&reasons, error, "%s%s", i > 0 ? "; " : "", reason.message) < 0)
      rc = error ? error->code : TSR_NOMEM;
  }
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no keys: %s", (const char *)reasons.data);
  tsr__buffer_release(&reasons);
  return rc;
}

static int look_for_keys(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  switch (provider->kind) {
  case TSR_PROVIDER_KEYS:
  case TSR_PROVIDER_ANONYMOUS: return copy_credentials(provider->memory, &provider->now, credentials, error);
  case TSR_PROVIDER_ENV: return tsr__keys_from_environment(provider, credentials, error);
  case TSR_PROVIDER_PROFILE: return tsr__keys_from_profile(provider, credentials, error);
  case TSR_PROVIDER_AUTO: break;
  }
  return find_automatically(provider, credentials, error);
}

/* Looks for keys and takes them in place of the present ones. Call with the mutex held. */
static int refresh(tsr_provider *provider, tsr_error *error) {
  tsr_credentials found = {0}, *now = &provider->now;
  int rc = look_for_keys(provider, &found, error);
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no keys: %s", error ? error->message : "");
  if (rc < 0) return rc;
  const bool same = now->number > 0 && now->size == found.size && memcmp(now->key_id, found.key_id, found.size) == 0;
  found.number = now->number + !same;
  tsr__credentials_release(now);
  *now = found;
  return TSR_OK;
}

static bool is_usable(const tsr_credentials *now, uint64_t refused, int64_t until) {
  return now->number > 0 && now->number != refused && now->expires > until;
}

int tsr__credentials_get(tsr_provider *provider, uint64_t refused, tsr_credentials *credentials, tsr_error *error) {
  int rc = TSR_OK;
  tsr_error local = {0};
  pthread_mutex_lock(&provider->mutex);
  const int64_t now = clock_ms();
  if (provider->wiped) {
    rc = tsr__fail(&local, TSR_PERM, "its scope was forgotten");
  } else if (!is_usable(&provider->now, refused, now > INT64_MAX - EARLY_MS ? now : now + EARLY_MS)) {
    const bool usable = is_usable(&provider->now, refused, now);
    if (!usable || now >= provider->patience) {
      rc = refresh(provider, &local);
      if (rc < 0 && rc != TSR_INTERRUPT && usable) { /* the old keys are good for some minutes */
        provider->patience = now + PATIENCE_MS;
        rc = TSR_OK;
      }
    }
  }
  if (rc >= 0 && provider->now.expires <= now)
    rc = tsr__fail(&local, TSR_DENIED, "the keys have expired, and there are no newer ones");
  if (rc >= 0) rc = copy_credentials(provider->memory, &provider->now, credentials, &local);
  pthread_mutex_unlock(&provider->mutex);
  return rc < 0 ? tsr__fail(error, rc, "%s", local.message) : TSR_OK;
}

/* ---- Providers ------------------------------------------------------------------------------- */

static int copy_text(tsr_memory *memory, const char *text, char **copy, tsr_error *error) {
  if (!text || !*text) return TSR_OK;
  const size_t size = strlen(text) + 1;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(memory, size, copy, error));
  memcpy(*copy, text, size);
  return TSR_OK;
}

static tsr_text_part slice_of(const char *text) { return (tsr_text_part){text, text ? strlen(text) : 0}; }

int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error) {
  *provider = (tsr_provider){.memory = memory, .kind = options->kind, .open = true};
  atomic_init(&provider->no_metadata, false);
  pthread_mutex_init(&provider->mutex, NULL);
  int rc = copy_text(memory, options->region, &provider->region, error);
  if (rc >= 0) rc = copy_text(memory, options->ca_file, &provider->ca_file, error);
  if (rc >= 0) rc = copy_text(memory, options->proxy, &provider->proxy, error);
  if (rc >= 0 && options->kind == TSR_PROVIDER_KEYS)
    rc = tsr__credentials_make(memory, slice_of(options->key_id), slice_of(options->secret),
                               slice_of(options->session_token), INT64_MAX, &provider->now, error);
  if (rc >= 0 && options->kind == TSR_PROVIDER_ANONYMOUS) rc = make_anonymous(memory, &provider->now, error);
  if (rc >= 0 && provider->now.key_id) provider->now.number = 1;
  if (rc < 0) tsr__provider_release(provider);
  return rc;
}

void tsr__provider_wipe(tsr_provider *provider) {
  pthread_mutex_lock(&provider->mutex);
  tsr__credentials_release(&provider->now);
  provider->wiped = true;
  pthread_mutex_unlock(&provider->mutex);
}

void tsr__provider_release(tsr_provider *provider) {
  if (!provider->open) return;
  tsr__credentials_release(&provider->now);
  tsr__free(provider->region);
  tsr__free(provider->ca_file);
  tsr__free(provider->proxy);
  pthread_mutex_destroy(&provider->mutex);
  *provider = (tsr_provider){0};
}
