/* credentials_gcs.c: where the tokens of Google come from: service accounts, which sign a request for a token (RFC
 * 7523), users of the command line tool, who have a refresh token, and the metadata server of an instance. */
#include "remote/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/system.h"
#include "crypto/crypto.h"

#define TOKEN_URI     "https://oauth2.googleapis.com/token"
#define STORAGE_SCOPE "https://www.googleapis.com/auth/devstorage.read_write"
#define METADATA_HOST "metadata.google.internal"
#define METADATA_PATH "/computeMetadata/v1/instance/service-accounts/default/token"
#define FORM_TYPE     "Content-Type: application/x-www-form-urlencoded"
#define JWT_SECONDS   3600
#define FILE_MAX      (UINT64_C(64) << 10)

/* ---- A file with credentials ----------------------------------------------------------------- */

typedef enum google_member { TYPE, EMAIL, KEY, KEY_ID, URI, CLIENT, SECRET, REFRESH, MEMBERS } google_member;

static const char *text_of(const tsr_json_member *member) { return member->text.size > 0 ? member->text.at : ""; }

/* Returns true for a text that needs no escape in JSON. */
static bool is_plain(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\') return false;
  return true;
}

int tsr__google_jwt(const char *email, const char *key_id, const char *uri, const char *pem, int64_t now,
                    tsr_buffer *jwt, tsr_error *error) {
  tsr_buffer part = {.memory = jwt->memory};
  uint8_t signature[TSR_RSA_MAX];
  size_t size;
  if (!is_plain(email) || !is_plain(key_id) || !is_plain(uri))
    return tsr__fail(error, TSR_DENIED, "a name in the service account has characters that no name has");
  int rc = tsr__buffer_printf(&part, error, "{\"alg\":\"RS256\",\"typ\":\"JWT\"%s%s%s}", *key_id ? ",\"kid\":\"" : "",
                              key_id, *key_id ? "\"" : "");
  if (rc >= 0) rc = tsr__base64_append(TSR_BASE64_URL, part.data, part.size, jwt, error);
  part.size = 0;
  if (rc >= 0)
    rc = tsr__buffer_printf(&part, error,
                            "{\"iss\":\"%s\",\"scope\":\"" STORAGE_SCOPE "\",\"aud\":\"%s\",\"iat\":%" PRId64
                            ",\"exp\":%" PRId64 "}",
                            email, uri, now, now + JWT_SECONDS);
  if (rc >= 0) rc = tsr__buffer_append_u8(jwt, '.', error);
  if (rc >= 0) rc = tsr__base64_append(TSR_BASE64_URL, part.data, part.size, jwt, error);
  if (rc >= 0) rc = tsr__rs256(pem, jwt->data, jwt->size, signature, &size, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(jwt, '.', error);
  if (rc >= 0) rc = tsr__base64_append(TSR_BASE64_URL, signature, size, jwt, error);
  tsr__buffer_release(&part);
  return rc;
}

/* Makes the form that asks for a token. `now`: in milliseconds since 1970. */
static int make_form(const tsr_json_member *m, const char *uri, int64_t now, tsr_buffer *form, tsr_error *error) {
  tsr_buffer jwt = {.memory = form->memory};
  TSR_TRY(tsr__buffer_reserve_exactly(form, UINT64_C(32) << 10, error)); /* it must not grow */
  if (strcmp(text_of(&m[TYPE]), "authorized_user") == 0) {
    TSR_TRY(tsr__form_field(form, "grant_type", "refresh_token", error));
    TSR_TRY(tsr__form_field(form, "client_id", text_of(&m[CLIENT]), error));
    TSR_TRY(tsr__form_field(form, "client_secret", text_of(&m[SECRET]), error));
    return tsr__form_field(form, "refresh_token", text_of(&m[REFRESH]), error);
  }
  if (strcmp(text_of(&m[TYPE]), "service_account") != 0)
    return tsr__fail(error, TSR_UNSUPPORTED,
                     "the type of the credentials is neither service_account nor authorized_user");
  int rc = tsr__buffer_reserve_exactly(&jwt, UINT64_C(16) << 10, error);
  if (rc >= 0)
    rc = tsr__google_jwt(text_of(&m[EMAIL]), text_of(&m[KEY_ID]), uri, text_of(&m[KEY]), now / 1000, &jwt, error);
  if (rc >= 0) rc = tsr__form_field(form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer", error);
  if (rc >= 0) rc = tsr__form_field(form, "assertion", (const char *)jwt.data, error);
  tsr__secret_release(&jwt);
  return rc;
}

/* Asks for a token as if the clock were `ahead` milliseconds later. */
static int ask_dated(tsr_provider *provider, const tsr_json_member *m, const char *uri, int64_t ahead,
                     tsr_credentials *credentials, tsr_error *error) {
  tsr_buffer form = {.memory = provider->memory};
  int rc = make_form(m, uri, tsr__keys_clock() + ahead, &form, error);
  const tsr_service_request request = {
      .method = "POST", .url = uri, .body = &form, .header_count = 1, .headers = {FORM_TYPE}};
  if (rc >= 0) rc = tsr__keys_ask_token(provider, &request, credentials, error);
  tsr__secret_release(&form);
  return rc;
}

/* Asks for a token with the credentials in a JSON text, which ends with a NUL byte and is changed. The service refuses
 * a claim whose date is off, and tells its own: then the claim is made again. */
static int keys_from_text(tsr_provider *provider, char *json, tsr_credentials *credentials, tsr_error *error) {
  tsr_json_member m[MEMBERS] = {[TYPE] = {.name = "type"},
                                [EMAIL] = {.name = "client_email"},
                                [KEY] = {.name = "private_key"},
                                [KEY_ID] = {.name = "private_key_id"},
                                [URI] = {.name = "token_uri"},
                                [CLIENT] = {.name = "client_id"},
                                [SECRET] = {.name = "client_secret"},
                                [REFRESH] = {.name = "refresh_token"}};
  tsr_error damage = {0};
  if (tsr__json_members(json, m, MEMBERS, &damage) < 0)
    return tsr__fail(error, TSR_DENIED, "the credentials: %s", damage.message);
  const char *uri = m[URI].text.size > 0 ? m[URI].text.at : TOKEN_URI;
  if (!tsr__service_is_safe(uri)) return tsr__fail(error, TSR_DENIED, "token_uri is not https");
  const int64_t before = provider->ahead;
  tsr_error first = {0};
  const int rc = ask_dated(provider, m, uri, before, credentials, &first);
  const int64_t off = provider->ahead - before;
  if (rc != TSR_DENIED || (off <= TSR_SERVICE_SKEW && off >= -TSR_SERVICE_SKEW))
    return rc < 0 ? tsr__fail(error, rc, "%s", first.message) : rc;
  return ask_dated(provider, m, uri, provider->ahead, credentials, error);
}

static int keys_from_file(tsr_provider *provider, const char *path, tsr_credentials *credentials, tsr_error *error) {
  tsr_buffer file = {.memory = provider->memory};
  int rc = tsr__secret_file(path, FILE_MAX, &file, error);
  if (rc >= 0) rc = keys_from_text(provider, (char *)file.data, credentials, error);
  tsr__secret_release(&file);
  return rc;
}

/* ---- The places ------------------------------------------------------------------------------ */

static int keys_from_options(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  if (provider->service_account_file) {
    const int rc = keys_from_file(provider, provider->service_account_file, credentials, error);
    return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_DENIED, "no file %s", provider->service_account_file) : rc;
  }
  const uint64_t size = strlen(provider->service_account);
  tsr_buffer copy = {.memory = provider->memory};
  int rc = tsr__buffer_reserve_exactly(&copy, size + 1, error);
  if (rc >= 0) rc = tsr__buffer_append(&copy, provider->service_account, size + 1, error);
  if (rc >= 0) rc = keys_from_text(provider, (char *)copy.data, credentials, error);
  tsr__secret_release(&copy);
  return rc < 0 ? tsr__wrap(error, "service account") : rc;
}

static int keys_from_environment(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *path = tsr__keys_variable("GOOGLE_APPLICATION_CREDENTIALS");
  if (!path) return tsr__fail(error, TSR_NOT_FOUND, "environment: GOOGLE_APPLICATION_CREDENTIALS is not set");
  const int rc = keys_from_file(provider, path, credentials, error);
  if (rc == TSR_NOT_FOUND) return tsr__fail(error, TSR_DENIED, "environment: no file %s", path);
  return rc < 0 ? tsr__wrap(error, "GOOGLE_APPLICATION_CREDENTIALS") : rc;
}

static int keys_from_profile(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *folder = tsr__keys_variable("CLOUDSDK_CONFIG"), *home = tsr__keys_variable(TSR_HOME_VARIABLE);
  char path[TSR_KEYS_PATH];
  const int size = folder ? snprintf(path, sizeof path, "%s/application_default_credentials.json", folder)
                   : home ? snprintf(path, sizeof path, "%s/.config/gcloud/application_default_credentials.json", home)
                          : -1;
  if (size < 0 || (size_t)size >= sizeof path) return tsr__fail(error, TSR_NOT_FOUND, "profile: no home directory");
  const int rc = keys_from_file(provider, path, credentials, error);
  if (rc == TSR_NOT_FOUND) return tsr__fail(error, TSR_NOT_FOUND, "profile: no file %s", path);
  return rc < 0 ? tsr__wrap(error, "profile") : rc;
}

static int keys_from_metadata(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *off = tsr__keys_variable("NO_GCE_CHECK"), *host = tsr__keys_variable("GCE_METADATA_HOST");
  char url[TSR_SERVICE_URL];
  if (off && strcasecmp(off, "true") == 0) return tsr__fail(error, TSR_NOT_FOUND, "metadata: NO_GCE_CHECK is set");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "metadata: refused since tessera_restrict");
  const int size = snprintf(url, sizeof url, "http://%s" METADATA_PATH, host ? host : METADATA_HOST);
  if (size < 0 || (size_t)size >= sizeof url)
    return tsr__fail(error, TSR_DENIED, "metadata: GCE_METADATA_HOST is long");
  const tsr_service_request request = {.method = "GET",
                                       .url = url,
                                       .header_count = 1,
                                       .headers = {"Metadata-Flavor: Google"},
                                       .flavor = "Google",
                                       .connect_ms = TSR_INSTANCE_MS,
                                       .may_lack = true};
  const int rc = tsr__keys_ask_token(provider, &request, credentials, error);
  return rc < 0 ? tsr__wrap(error, "metadata") : rc;
}

int tsr__keys_gcs(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  static tsr_keys_find *const places[] = {keys_from_environment, keys_from_profile, keys_from_metadata};
  if (provider->kind == TSR_PROVIDER_KEYS) return keys_from_options(provider, credentials, error);
  if (provider->kind == TSR_PROVIDER_ENV) return keys_from_environment(provider, credentials, error);
  if (provider->kind == TSR_PROVIDER_PROFILE) return keys_from_profile(provider, credentials, error);
  return tsr__keys_first(provider, places, sizeof places / sizeof *places, credentials, error);
}
