/* credentials_azure.c: where the keys and tokens of Azure come from: the options, the environment, and the services
 * that hand out tokens to programs in Kubernetes, in App Service and in virtual machines. */
#include "remote/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/system.h"

#define AUTHORITY     "https://login.microsoftonline.com"
#define STORAGE_SCOPE "https://storage.azure.com/.default"
#define RESOURCE      "https%%3A%%2F%%2Fstorage.azure.com%%2F" /* in a format */
#define METADATA_HOST "http://169.254.169.254"
#define FORM_TYPE     "Content-Type: application/x-www-form-urlencoded"

/* ---- The environment ------------------------------------------------------------------------- */

/* What Azure's own tools take `UseDevelopmentStorage=true` for: the emulator on this machine, whose key is the same
 * everywhere and no secret. */
#define DEVELOPMENT_STORAGE "UseDevelopmentStorage=true"
#define DEVELOPMENT_CONNECTION                                                                                         \
  "AccountName=devstoreaccount1;"                                                                                      \
  "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"               \
  "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1"

tsr_text_part tsr__azure_connection(const char *name) {
  const char *at = tsr__keys_variable("AZURE_STORAGE_CONNECTION_STRING");
  if (at && strncmp(at, DEVELOPMENT_STORAGE, strlen(DEVELOPMENT_STORAGE)) == 0) at = DEVELOPMENT_CONNECTION;
  const size_t length = strlen(name);
  while (at && *at) {
    const size_t size = strcspn(at, ";");
    if (size > length && at[length] == '=' && memcmp(at, name, length) == 0)
      return (tsr_text_part){at + length + 1, size - length - 1};
    at += size + (at[size] == ';');
  }
  return (tsr_text_part){NULL, 0};
}

static int keys_from_variables(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const bool connection = tsr__keys_variable("AZURE_STORAGE_CONNECTION_STRING") != NULL;
  const char *account = tsr__keys_variable("AZURE_STORAGE_ACCOUNT");
  const tsr_text_part key =
      connection ? tsr__azure_connection("AccountKey") : tsr__text_of(tsr__keys_variable("AZURE_STORAGE_KEY"));
  const tsr_text_part sas = connection ? tsr__azure_connection("SharedAccessSignature")
                                       : tsr__text_of(tsr__keys_variable("AZURE_STORAGE_SAS_TOKEN"));
  if (!connection && !account) return tsr__fail(error, TSR_NOT_FOUND, "environment: AZURE_STORAGE_ACCOUNT is not set");
  if (key.size == 0 && sas.size == 0)
    return tsr__fail(error, connection ? TSR_DENIED : TSR_NOT_FOUND, "environment: %s",
                     connection ? "AZURE_STORAGE_CONNECTION_STRING has neither AccountKey nor SharedAccessSignature"
                                : "neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS_TOKEN is set");
  const tsr_text_part name = tsr__text_of(account && !connection ? account : "account");
  const int rc =
      key.size > 0
          ? tsr__keys_make(provider->memory, name, key, (tsr_text_part){NULL, 0}, INT64_MAX, credentials, error)
          : tsr__keys_make_token(provider->memory, TSR_KEYS_QUERY, sas, INT64_MAX, credentials, error);
  return rc < 0 ? tsr__wrap(error, "environment") : rc;
}

/* ---- Tokens by a secret or an assertion ------------------------------------------------------ */

/* Asks the authority for a token. `name` and `value`: the field of the form that proves who asks, which is
 * client_secret or client_assertion. */
static int ask_authority(tsr_provider *provider, const char *authority, const char *tenant, const char *client,
                         const char *name, const char *value, tsr_credentials *credentials, tsr_error *error) {
  char url[TSR_SERVICE_URL];
  const bool assertion = strcmp(name, "client_assertion") == 0;
  if (!authority) authority = AUTHORITY;
  size_t length = strlen(authority);
  while (length > 0 && authority[length - 1] == '/') length--;
  const int size =
      snprintf(url, sizeof url, "%.*s/%s/oauth2/v2.0/token", (int)TSR_MIN(length, 1000), authority, tenant);
  if (size < 0 || (size_t)size >= sizeof url || !tsr__service_is_safe(url) ||
      strspn(tenant, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != strlen(tenant))
    return tsr__fail(error, TSR_DENIED, "the authority is not https, or the tenant's name is not valid");
  tsr_buffer form = {.memory = provider->memory};
  int rc =
      tsr__buffer_reserve_exactly(&form, 3 * (strlen(value) + strlen(client)) + 1024, error); /* it must not grow */
  if (rc >= 0) rc = tsr__form_field(&form, "grant_type", "client_credentials", error);
  if (rc >= 0) rc = tsr__form_field(&form, "scope", STORAGE_SCOPE, error);
  if (rc >= 0) rc = tsr__form_field(&form, "client_id", client, error);
  if (rc >= 0 && assertion)
    rc = tsr__form_field(&form, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                         error);
  if (rc >= 0) rc = tsr__form_field(&form, name, value, error);
  const tsr_service_request request = {
      .method = "POST", .url = url, .body = &form, .header_count = 1, .headers = {FORM_TYPE}};
  if (rc >= 0) rc = tsr__keys_ask_token(provider, &request, credentials, error);
  tsr__secret_release(&form);
  return rc;
}

static int keys_from_options(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  return ask_authority(provider, NULL, provider->tenant_id, provider->client_id, "client_secret",
                       provider->client_secret, credentials, error);
}

static int keys_from_client(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *tenant = tsr__keys_variable("AZURE_TENANT_ID"), *client = tsr__keys_variable("AZURE_CLIENT_ID"),
             *secret = tsr__keys_variable("AZURE_CLIENT_SECRET");
  if (!tenant || !client || !secret)
    return tsr__fail(error, TSR_NOT_FOUND,
                     "client: AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET are not set");
  const int rc = ask_authority(provider, tsr__keys_variable("AZURE_AUTHORITY_HOST"), tenant, client, "client_secret",
                               secret, credentials, error);
  return rc < 0 ? tsr__wrap(error, "client") : rc;
}

static int keys_from_workload(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *tenant = tsr__keys_variable("AZURE_TENANT_ID"), *client = tsr__keys_variable("AZURE_CLIENT_ID"),
             *path = tsr__keys_variable("AZURE_FEDERATED_TOKEN_FILE");
  if (!tenant || !client || !path)
    return tsr__fail(error, TSR_NOT_FOUND, "workload identity: AZURE_FEDERATED_TOKEN_FILE is not set");
  tsr_buffer token = {.memory = provider->memory};
  int rc = tsr__secret_file(path, TSR_SERVICE_ANSWER_MAX, &token, error);
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no token in %s", path);
  if (rc >= 0) {
    token.data[strcspn((const char *)token.data, "\r\n")] = 0;
    rc = ask_authority(provider, tsr__keys_variable("AZURE_AUTHORITY_HOST"), tenant, client, "client_assertion",
                       (const char *)token.data, credentials, error);
  }
  tsr__secret_release(&token);
  return rc < 0 ? tsr__wrap(error, "workload identity") : rc;
}

/* ---- Tokens of the machine ------------------------------------------------------------------- */

/* Asks a service of this machine or of its host. With `may_lack` it may not exist, which is soon found out. */
static int ask_identity(tsr_provider *provider, const char *url, const char *header, bool may_lack,
                        tsr_credentials *credentials, tsr_error *error) {
  const tsr_service_request request = {.method = "GET",
                                       .url = url,
                                       .header_count = 1,
                                       .headers = {header},
                                       .connect_ms = may_lack ? TSR_INSTANCE_MS : 0,
                                       .may_lack = may_lack};
  return tsr__keys_ask_token(provider, &request, credentials, error);
}

static int keys_from_app_service(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *endpoint = tsr__keys_variable("IDENTITY_ENDPOINT"), *secret = tsr__keys_variable("IDENTITY_HEADER"),
             *client = tsr__keys_variable("AZURE_CLIENT_ID");
  char url[TSR_SERVICE_URL], header[1024];
  if (!endpoint || !secret) return tsr__fail(error, TSR_NOT_FOUND, "app service: IDENTITY_ENDPOINT is not set");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "app service: refused since tessera_restrict");
  const int size = snprintf(url, sizeof url, "%s?resource=" RESOURCE "&api-version=2019-08-01%s%s", endpoint,
                            client ? "&client_id=" : "", client ? client : "");
  const int length = snprintf(header, sizeof header, "X-IDENTITY-HEADER: ") + (int)TSR_MIN(strlen(secret), 2000);
  int rc = TSR_OK;
  if (size < 0 || (size_t)size >= sizeof url || !tsr__service_is_near(url))
    rc = tsr__fail(error, TSR_DENIED, "IDENTITY_ENDPOINT is neither https nor local");
  else if (length < 0 || (size_t)length >= sizeof header)
    rc = tsr__fail(error, TSR_DENIED, "IDENTITY_HEADER is longer than 1,000 bytes");
  else strcat(header, secret); /* printf would leave a part of it on its stack */
  if (rc >= 0) rc = ask_identity(provider, url, header, false, credentials, error);
  tsr__wipe(header, sizeof header);
  return rc < 0 ? tsr__wrap(error, "app service") : rc;
}

static int keys_from_instance(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *host = tsr__keys_variable("AZURE_POD_IDENTITY_AUTHORITY_HOST"),
             *client = tsr__keys_variable("AZURE_CLIENT_ID");
  char url[TSR_SERVICE_URL];
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "instance metadata: refused since tessera_restrict");
  if (!host) host = METADATA_HOST;
  size_t length = strlen(host);
  while (length > 0 && host[length - 1] == '/') length--;
  const int size =
      snprintf(url, sizeof url, "%.*s/metadata/identity/oauth2/token?api-version=2018-02-01&resource=" RESOURCE "%s%s",
               (int)TSR_MIN(length, 1000), host, client ? "&client_id=" : "", client ? client : "");
  if (size < 0 || (size_t)size >= sizeof url) return tsr__fail(error, TSR_DENIED, "instance metadata: a long name");
  const int rc = ask_identity(provider, url, "Metadata: true", true, credentials, error);
  return rc < 0 ? tsr__wrap(error, "instance metadata") : rc;
}

/* ---- The places ------------------------------------------------------------------------------ */

int tsr__keys_azure(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  static tsr_keys_find *const places[] = {keys_from_variables, keys_from_client, keys_from_workload,
                                          keys_from_app_service, keys_from_instance};
  if (provider->kind == TSR_PROVIDER_KEYS) return keys_from_options(provider, credentials, error);
  const size_t count = provider->kind == TSR_PROVIDER_ENV ? 2 : sizeof places / sizeof *places;
  return tsr__keys_first(provider, places, count, credentials, error);
}
