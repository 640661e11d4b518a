/* credentials.c: keeps the keys of a scope, refreshes them before they expire, and wipes them. */
#include "remote/credentials.h"

#include <string.h>

#include "base/clock.h"

#define EARLY_MS 300000 /* keys are refreshed this long before they expire */
/* Keys that are still valid are looked for again after this time: the last refresh failed, or brought keys that expire
 * as soon. */
#define PATIENCE_MS 30000

bool tsr__provider_kind_of(const char *name, tsr_provider_kind *kind) {
#define X(upper, text)                                                                                                 \
  if (strcmp(name, text) == 0) return *kind = TSR_PROVIDER_##upper, true;
  TSR_PROVIDERS(X)
#undef X
  return false;
}

/* ---- Looking for keys ------------------------------------------------------------------------ */

bool tsr__provider_asks(const tsr_provider *provider) {
  return provider->client_secret || provider->service_account || provider->service_account_file;
}

/* Returns true if the keys are those of the options, and no token is fetched with them. */
static bool is_given(const tsr_provider *provider) {
  return provider->kind == TSR_PROVIDER_ANONYMOUS ||
         (provider->kind == TSR_PROVIDER_KEYS && !tsr__provider_asks(provider));
}

/* Looks for keys and replaces the present ones. Call with the mutex held. */
static int refresh(tsr_provider *provider, tsr_error *error) {
  tsr_credentials found = {0}, *now = &provider->now;
  int rc = is_given(provider) ? tsr__keys_copy(provider->memory, now, &found, error)
                              : provider->find(provider, &found, error);
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
  const int64_t now = (int64_t)tsr__moment();
  if (provider->wiped) {
    rc = tsr__fail(&local, TSR_PERM, "its scope was forgotten");
  } else if (!is_usable(&provider->now, refused, now + EARLY_MS)) {
    const bool usable = is_usable(&provider->now, refused, now);
    if (!usable || now >= provider->patience) {
      rc = refresh(provider, &local);
      provider->patience = now + PATIENCE_MS;
      if (rc < 0 && rc != TSR_INTERRUPT && usable) rc = TSR_OK; /* the old keys are still valid for some minutes */
    }
  }
  if (rc >= 0 && provider->now.expires <= now)
    rc = tsr__fail(&local, TSR_DENIED, "the keys have expired, and there are no newer ones");
  if (rc >= 0) rc = tsr__keys_copy(provider->memory, &provider->now, credentials, &local);
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

int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error) {
  *provider = (tsr_provider){.memory = memory, .kind = options->kind, .find = options->find, .open = true};
  if (!provider->find) provider->find = tsr__keys_aws;
  atomic_init(&provider->no_metadata, false);
  pthread_mutex_init(&provider->mutex, NULL);
  int rc = copy_text(memory, options->region, &provider->region, error);
  if (rc >= 0) rc = copy_text(memory, options->ca_file, &provider->ca_file, error);
  if (rc >= 0) rc = copy_text(memory, options->proxy, &provider->proxy, error);
#define X(name)                                                                                                        \
  if (rc >= 0) rc = copy_text(memory, options->name, &provider->name, error);
  TSR_KEYS_GIVEN(X)
#undef X
  if (rc >= 0 && options->kind == TSR_PROVIDER_KEYS && is_given(provider))
    rc = options->token ? tsr__keys_make_token(memory, options->form, tsr__text_of(options->token), INT64_MAX,
                                               &provider->now, error)
                        : tsr__keys_make(memory, tsr__text_of(options->key_id), tsr__text_of(options->secret),
                                         tsr__text_of(options->session_token), INT64_MAX, &provider->now, error);
  if (rc >= 0 && options->kind == TSR_PROVIDER_ANONYMOUS) rc = tsr__keys_make_none(memory, &provider->now, error);
  if (rc >= 0 && provider->now.key_id) provider->now.number = 1;
  if (rc < 0) tsr__provider_release(provider);
  return rc;
}

static void wipe_text(char *text) {
  if (text) tsr__wipe(text, strlen(text));
}

static void wipe_given(tsr_provider *provider) {
#define X(name) wipe_text(provider->name);
  TSR_KEYS_GIVEN(X)
#undef X
}

void tsr__provider_wipe(tsr_provider *provider) {
  pthread_mutex_lock(&provider->mutex);
  tsr__credentials_release(&provider->now);
  wipe_given(provider);
  provider->wiped = true;
  pthread_mutex_unlock(&provider->mutex);
}

void tsr__provider_release(tsr_provider *provider) {
  if (!provider->open) return;
  tsr__credentials_release(&provider->now);
  wipe_given(provider);
#define X(name) tsr__free(provider->name);
  TSR_KEYS_GIVEN(X)
#undef X
  tsr__free(provider->region);
  tsr__free(provider->ca_file);
  wipe_text(provider->proxy); /* which may have a password */
  tsr__free(provider->proxy);
  pthread_mutex_destroy(&provider->mutex);
  *provider = (tsr_provider){0};
}
