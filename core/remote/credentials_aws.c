/* credentials_aws.c: where AWS's keys come from: the environment, files of the command line tool, web identities,
 * containers and instances. Each place has a function keys_from_PLACE. */
#include "remote/keys.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/pool.h"
#include "base/system.h"
#include "remote/http_response.h"
#include "remote/s3_response.h"

#define PROFILE_BYTES_MAX (UINT64_C(1) << 20)
#define PROFILE_MAX       256u /* characters of a profile's name */

/* ---- Environment variables ------------------------------------------------------------------- */

/* Returns the region that the environment names, or NULL. */
static const char *region_variable(void) {
  const char *region = tsr__keys_variable("AWS_REGION");
  return region ? region : tsr__keys_variable("AWS_DEFAULT_REGION");
}

static void region_of_environment(tsr_credentials *credentials) {
  const char *region = region_variable();
  if (region) tsr__keys_region(credentials, tsr__text_of(region));
}

static int keys_from_environment(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *key_id = tsr__keys_variable("AWS_ACCESS_KEY_ID"), *secret = tsr__keys_variable("AWS_SECRET_ACCESS_KEY");
  if (!key_id || !secret)
    return tsr__fail(error, TSR_NOT_FOUND, "environment: %s is not set",
                     key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  if (tsr__keys_make(provider->memory, tsr__text_of(key_id), tsr__text_of(secret),
                     tsr__text_of(tsr__keys_variable("AWS_SESSION_TOKEN")), INT64_MAX, credentials, error) < 0)
    return tsr__wrap(error, "environment");
  region_of_environment(credentials);
  return TSR_OK;
}

/* ---- Files -----------------------------------------------------------------------------------
 *
 * The files of the AWS command line tool consist of sections. A profile's section begins with "[name]" in
 * ~/.aws/credentials, and with "[profile name]" or "[default]" in ~/.aws/config. A line is "key = value", or a comment
 * that begins with '#' or ';'. An indented line continues the value above, which is never one that tessera uses.
 */

static tsr_text_part trim(tsr_text_part text) {
  while (text.size > 0 && strchr(" \t\r", text.at[0])) text.at++, text.size--;
  while (text.size > 0 && strchr(" \t\r", text.at[text.size - 1])) text.size--;
  return text;
}

static bool is_text(tsr_text_part slice, const char *text) {
  return slice.size == strlen(text) && memcmp(slice.at, text, slice.size) == 0;
}

/* Takes the next line from *rest. Returns false at the end. */
static bool next_line(tsr_text_part *rest, tsr_text_part *line) {
  if (rest->size == 0) return false;
  const char *end = memchr(rest->at, '\n', rest->size);
  line->at = rest->at;
  line->size = end ? (uint64_t)(end - rest->at) : rest->size;
  const uint64_t used = line->size + (end != NULL);
  rest->at += used;
  rest->size -= used;
  return true;
}

/* Returns true if the line begins the profile's section. */
static bool is_section(tsr_text_part line, const char *profile, bool config) {
  line = trim(line);
  if (line.size < 2 || line.at[line.size - 1] != ']') return false;
  tsr_text_part name = trim((tsr_text_part){line.at + 1, line.size - 2});
  if (config && name.size > 8 && memcmp(name.at, "profile", 7) == 0 && strchr(" \t", name.at[7])) {
    name = trim((tsr_text_part){name.at + 8, name.size - 8});
  } else if (config && strcmp(profile, "default") != 0) {
    return false; /* in the config file only the default profile has a section without "profile" */
  }
  return is_text(name, profile);
}

/* Returns the value of a key in a profile's section, or NULL in its `at`. Sets *found if the section exists. */
static tsr_text_part profile_value(const tsr_buffer *file, bool config, const char *profile, const char *key,
                                   bool *found) {
  tsr_text_part rest = {(const char *)file->data, file->size}, line, value = {NULL, 0};
  bool inside = false;
  while (next_line(&rest, &line)) {
    if (line.size == 0 || strchr(" \t#;", line.at[0])) continue;
    if (line.at[0] == '[') {
      inside = is_section(line, profile, config);
      if (inside) *found = true;
      continue;
    }
    const char *equals = inside ? memchr(line.at, '=', line.size) : NULL;
    if (!equals) continue;
    const uint64_t before = (uint64_t)(equals - line.at);
    if (is_text(trim((tsr_text_part){line.at, before}), key))
      value = trim((tsr_text_part){equals + 1, line.size - before - 1}); /* the last one wins */
  }
  return value;
}

/* Reads a file of profiles; a missing file is empty. */
static int read_profiles(const char *variable, const char *name, tsr_buffer *file, tsr_error *error) {
  char path[TSR_KEYS_PATH];
  const char *given = tsr__keys_variable(variable), *home = tsr__keys_variable(TSR_HOME_VARIABLE);
  const int size = given  ? snprintf(path, sizeof path, "%s", given)
                   : home ? snprintf(path, sizeof path, "%s/.aws/%s", home, name)
                          : -1;
  if (size < 0 || (size_t)size >= sizeof path) return TSR_OK;
  const int rc = tsr__secret_file(path, PROFILE_BYTES_MAX, file, error);
  if (rc != TSR_NOT_FOUND) return rc;
  tsr__error_clear(error);
  return TSR_OK;
}

/* Reports keys that tessera cannot fetch, because it runs no programs and opens no browser. */
static int fail_without_keys(const tsr_buffer files[2], const char *profile, bool found, tsr_error *error) {
  static const char *const others[] = {"credential_process", "sso_session", "sso_start_url", "role_arn"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    for (int config = 0; config < 2; config++)
      if (profile_value(&files[config], config, profile, others[i], &found).size > 0)
        return tsr__fail(error, TSR_UNSUPPORTED,
                         "profile '%s' has %s, which tessera does not support: pass the keys themselves", profile,
                         others[i]);
  if (found) return tsr__fail(error, TSR_NOT_FOUND, "profile '%s' has no aws_access_key_id", profile);
  return tsr__fail(error, TSR_NOT_FOUND, "no profile '%s' in ~/.aws", profile);
}

static int find_in_profiles(tsr_memory *memory, const tsr_buffer files[2], const char *profile,
                            tsr_credentials *credentials, tsr_error *error) {
  bool found = false;
  for (int config = 0; config < 2; config++) {
    const tsr_text_part key_id = profile_value(&files[config], config, profile, "aws_access_key_id", &found);
    const tsr_text_part secret = profile_value(&files[config], config, profile, "aws_secret_access_key", &found);
    if (key_id.size == 0 || secret.size == 0) continue;
    const tsr_text_part token = profile_value(&files[config], config, profile, "aws_session_token", &found);
    if (tsr__keys_make(memory, key_id, secret, token, INT64_MAX, credentials, error) < 0)
      return tsr__wrap(error, "profile '%s'", profile);
    return TSR_OK;
  }
  return fail_without_keys(files, profile, found, error);
}

static int keys_from_profile(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *profile = tsr__keys_variable("AWS_PROFILE");
  if (!profile) profile = "default";
  if (strlen(profile) > PROFILE_MAX) return tsr__fail(error, TSR_DENIED, "the name in AWS_PROFILE is too long");
  tsr_error local = {0};
  tsr_buffer files[2] = {{.memory = provider->memory}, {.memory = provider->memory}};
  int rc = read_profiles("AWS_SHARED_CREDENTIALS_FILE", "credentials", &files[0], &local);
  if (rc >= 0) rc = read_profiles("AWS_CONFIG_FILE", "config", &files[1], &local);
  if (rc >= 0) rc = find_in_profiles(provider->memory, files, profile, credentials, &local);
  if (rc >= 0) {
    bool found;
    region_of_environment(credentials);
    for (int config = 2; config-- > 0 && !credentials->region[0];)
      tsr__keys_region(credentials, profile_value(&files[config], config, profile, "region", &found));
  }
  tsr__secret_release(&files[0]);
  tsr__secret_release(&files[1]);
  return rc < 0 ? tsr__fail(error, rc, "%s", local.message) : TSR_OK;
}

/* ---- Services --------------------------------------------------------------------------------
 *
 * Services that hand out keys: AWS's token service for web identities (Kubernetes), the service of a container (ECS,
 * EKS), and the metadata service of an instance (EC2; only version 2, which requires a session token).
 *
 * The token service answers with XML, the others with JSON objects. Answers have at most 64 KiB and are wiped.
 */

/* Reads the keys in the answer of a container's or an instance's service. */
static int keys_from_json(tsr_provider *provider, tsr_buffer *response, tsr_credentials *credentials,
                          tsr_error *error) {
  tsr_json_member members[] = {
      {.name = "AccessKeyId"}, {.name = "SecretAccessKey"}, {.name = "Token"}, {.name = "Expiration"}};
  int64_t expires = INT64_MAX;
  char time[64];
  tsr_error damage = {0};
  if (tsr__json_members((char *)response->data, members, sizeof members / sizeof *members, &damage) < 0)
    return tsr__fail(error, TSR_DENIED, "the answer: %s", damage.message);
  const tsr_text_part when = members[3].text;
  if (when.size > 0) {
    if (when.size >= sizeof time) return tsr__fail(error, TSR_DENIED, "the answer has no valid Expiration");
    memcpy(time, when.at, when.size);
    time[when.size] = 0;
    if (!tsr__http_time_parse(time, &expires))
      return tsr__fail(error, TSR_DENIED, "the answer has no valid Expiration");
  }
  if (members[0].text.size == 0 || members[1].text.size == 0)
    return tsr__fail(error, TSR_DENIED, "the answer has no keys");
  return tsr__keys_make(provider->memory, members[0].text, members[1].text, members[2].text,
                        tsr__keys_expiry(provider, expires), credentials, error);
}

/* ---- Containers ------------------------------------------------------------------------------ */

#define CONTAINER_HOST "http://169.254.170.2"

/* Keys may travel without TLS only to this machine and to the addresses of container services. */
static bool is_container_url(const char *url) {
  static const char *const hosts[] = {"http://127.0.0.1", "http://localhost",      "http://[::1]",
                                      CONTAINER_HOST,     "http://169.254.170.23", "http://[fd00:ec2::23]"};
  if (strncmp(url, "https://", 8) == 0) return true;
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    const size_t size = strlen(hosts[i]);
    if (strncmp(url, hosts[i], size) == 0 && (url[size] == '/' || url[size] == ':' || url[size] == 0)) return true;
  }
  return false;
}

/* Appends the header with the token that the container's service requires, if there is one. */
static int container_token(tsr_buffer *header, tsr_error *error) {
  const char *path = tsr__keys_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const char *token = tsr__keys_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  tsr_buffer file = {.memory = header->memory};
  int rc = path ? tsr__secret_file(path, TSR_SERVICE_ANSWER_MAX, &file, error) : TSR_OK;
  if (rc >= 0 && path) token = (const char *)file.data;
  const size_t size = rc >= 0 && token ? strcspn(token, "\r\n") : 0;
  if (size > 0) rc = tsr__buffer_reserve_exactly(header, size + 32, error); /* it must not grow */
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, "Authorization: ", 15, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, token, size, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append_u8(header, 0, error);
  tsr__secret_release(&file);
  return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_DENIED, "no token in %s", path) : rc;
}

static int keys_from_container(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *relative = tsr__keys_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const char *full = tsr__keys_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  char url[TSR_SERVICE_URL];
  if (!relative && !full) return tsr__fail(error, TSR_NOT_FOUND, "container: none");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "container: refused since tessera_restrict");
  const int size = relative ? snprintf(url, sizeof url, CONTAINER_HOST "%s%s", *relative == '/' ? "" : "/", relative)
                            : snprintf(url, sizeof url, "%s", full);
  if (size < 0 || (size_t)size >= sizeof url || !is_container_url(url))
    return tsr__fail(error, TSR_DENIED, "container: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor local");
  tsr_buffer header = {.memory = provider->memory}, response = {.memory = provider->memory};
  int rc = container_token(&header, error);
  if (rc >= 0) {
    tsr_service_request request = {.method = "GET", .url = url};
    if (header.size > 0) request.headers[request.header_count++] = (const char *)header.data;
    rc = tsr__service_ask(provider, &request, &response, error);
  }
  if (rc >= 0) rc = keys_from_json(provider, &response, credentials, error);
  tsr__secret_release(&header);
  tsr__secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "container") : rc;
}

/* ---- Instances ------------------------------------------------------------------------------- */

#define INSTANCE_HOST "http://169.254.169.254"
#define INSTANCE_ROLE "/latest/meta-data/iam/security-credentials/"

/* GETs host + path + name with the session's token. */
static int instance_get(tsr_provider *provider, const char *host, const char *path, const char *name, const char *token,
                        tsr_buffer *response, tsr_error *error) {
  char url[TSR_SERVICE_URL];
  const int size = snprintf(url, sizeof url, "%s%s%s", host, path, name);
  if (size < 0 || (size_t)size >= sizeof url) return tsr__fail(error, TSR_DENIED, "a name is too long");
  const tsr_service_request request = {
      .method = "GET", .url = url, .headers = {token}, .header_count = 1, .connect_ms = TSR_INSTANCE_MS};
  return tsr__service_ask(provider, &request, response, error);
}

static int instance_session(tsr_provider *provider, const char *host, char header[1024], tsr_error *error) {
  char url[TSR_SERVICE_URL];
  const int size = snprintf(url, sizeof url, "%s/latest/api/token", host);
  if (size < 0 || (size_t)size >= sizeof url)
    return tsr__fail(error, TSR_DENIED, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
  const tsr_service_request request = {.method = "PUT",
                                       .url = url,
                                       .connect_ms = TSR_INSTANCE_MS,
                                       .may_lack = true,
                                       .header_count = 1,
                                       .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}};
  tsr_buffer response = {.memory = provider->memory};
  int rc = tsr__service_ask(provider, &request, &response, error);
  if (rc >= 0 && (response.size == 0 || response.size > 900 || strcspn((char *)response.data, "\r\n") != response.size))
    rc = tsr__fail(error, TSR_DENIED, "the service gave no token");
  if (rc >= 0) (void)snprintf(header, 1024, "X-aws-ec2-metadata-token: %s", (const char *)response.data);
  tsr__secret_release(&response);
  return rc;
}

/* Reads the name of the instance's role, the first line of the answer. */
static int instance_role(tsr_provider *provider, const char *host, const char *token, char name[256],
                         tsr_error *error) {
  tsr_buffer response = {.memory = provider->memory};
  TSR_TRY(instance_get(provider, host, INSTANCE_ROLE, "", token, &response, error));
  const size_t size = strcspn((const char *)response.data, "\r\n");
  bool good = size > 0 && size < 256;
  for (size_t i = 0; i < size && good; i++)
    good = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=,.@-_", response.data[i]) != NULL;
  if (good) memcpy(name, response.data, size), name[size] = 0;
  tsr__secret_release(&response);
  return good ? TSR_OK : tsr__fail(error, TSR_DENIED, "the instance has no role");
}

/* Looks for the region, too. It is optional: only a cancellation is an error. */
static int instance_region(tsr_provider *provider, const char *host, const char *token, tsr_credentials *credentials,
                           tsr_error *error) {
  tsr_buffer response = {.memory = provider->memory};
  tsr_error ignored = {0};
  if (credentials->region[0] || provider->region) return TSR_OK;
  const int rc = instance_get(provider, host, "/latest/meta-data/placement/region", "", token, &response, &ignored);
  if (rc >= 0) tsr__keys_region(credentials, (tsr_text_part){(const char *)response.data, response.size});
  tsr__secret_release(&response);
  return tsr__only_cancelled(rc, &ignored, error);
}

static int keys_from_instance(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *disabled = tsr__keys_variable("AWS_EC2_METADATA_DISABLED");
  const char *given = tsr__keys_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  char host[TSR_SERVICE_URL / 2], token[1024], role[256];
  if (disabled && strcasecmp(disabled, "true") == 0)
    return tsr__fail(error, TSR_NOT_FOUND, "instance metadata: AWS_EC2_METADATA_DISABLED is set");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "instance metadata: refused since tessera_restrict");
  const int size = snprintf(host, sizeof host, "%s", given ? given : INSTANCE_HOST);
  if (size < 0 || (size_t)size >= sizeof host)
    return tsr__fail(error, TSR_DENIED, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
  if (host[size - 1] == '/') host[size - 1] = 0;
  tsr_buffer response = {.memory = provider->memory};
  int rc = instance_session(provider, host, token, error);
  if (rc >= 0) rc = instance_role(provider, host, token, role, error);
  if (rc >= 0) rc = instance_get(provider, host, INSTANCE_ROLE, role, token, &response, error);
  if (rc >= 0) rc = keys_from_json(provider, &response, credentials, error);
  if (rc >= 0) rc = instance_region(provider, host, token, credentials, error);
  if (rc < 0) tsr__credentials_release(credentials);
  tsr__wipe(token, sizeof token);
  tsr__secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "instance metadata") : rc;
}

/* ---- Web identities -------------------------------------------------------------------------- */

static int make_form(const char *role, const char *token, tsr_buffer *form, tsr_error *error) {
  const char *session = tsr__keys_variable("AWS_ROLE_SESSION_NAME");
  TSR_TRY(tsr__buffer_reserve_exactly(form, 3 * (strlen(token) + strlen(role)) + 1024, error)); /* it must not grow */
  TSR_TRY(tsr__buffer_printf(form, error, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"));
  TSR_TRY(tsr__form_field(form, "RoleSessionName", session && strlen(session) <= 64 ? session : "tessera", error));
  TSR_TRY(tsr__form_field(form, "RoleArn", role, error));
  return tsr__form_field(form, "WebIdentityToken", token, error);
}

static int token_service_url(tsr_provider *provider, char url[TSR_SERVICE_URL], tsr_error *error) {
  const char *given = tsr__keys_variable("AWS_ENDPOINT_URL_STS");
  const char *region = provider->region ? provider->region : region_variable();
  int size;
  if (given) size = snprintf(url, TSR_SERVICE_URL, "%s", given);
  else if (!region) size = snprintf(url, TSR_SERVICE_URL, "https://sts.amazonaws.com/");
  else
    size = snprintf(url, TSR_SERVICE_URL, "https://sts.%s.amazonaws.com%s/", region,
                    strncmp(region, "cn-", 3) ? "" : ".cn");
  if (size < 0 || size >= (int)TSR_SERVICE_URL)
    return tsr__fail(error, TSR_DENIED, "the token service's URL is too long");
  if (strncmp(url, "https://", 8) != 0 && !is_container_url(url))
    return tsr__fail(error, TSR_DENIED, "AWS_ENDPOINT_URL_STS is neither https nor local");
  return TSR_OK;
}

static int take_identity(tsr_provider *provider, const tsr_buffer *response, tsr_credentials *credentials,
                         tsr_error *error) {
  tsr_arena arena;
  tsr_s3_identity identity;
  tsr_answer_failure failure;
  tsr__arena_init(&arena, provider->memory);
  int rc = tsr__s3_response_identity(response->data, response->size, &arena, &identity, &failure, error);
  if (rc > 0) rc = tsr__fail(error, TSR_DENIED, "the token service refuses: %.64s", failure.code);
  if (rc == TSR_CORRUPT) rc = tsr__fail(error, TSR_DENIED, "the token service's answer has no keys");
  if (rc >= 0) {
    const tsr_text_part texts[3] = {{identity.key_id, strlen(identity.key_id)},
                                    {identity.secret, strlen(identity.secret)},
                                    {identity.session_token, strlen(identity.session_token)}};
    rc = tsr__keys_make(provider->memory, texts[0], texts[1], texts[2],
                        tsr__keys_expiry(provider, identity.expiration == INT64_MIN ? INT64_MAX : identity.expiration),
                        credentials, error);
    for (int i = 0; i < 3; i++) tsr__wipe((void *)texts[i].at, texts[i].size);
  }
  tsr__arena_release(&arena);
  return rc;
}

static int keys_from_web_identity(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *path = tsr__keys_variable("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = tsr__keys_variable("AWS_ROLE_ARN");
  char url[TSR_SERVICE_URL];
  if (!path || !role)
    return tsr__fail(error, TSR_NOT_FOUND, "web identity: %s is not set",
                     path ? "AWS_ROLE_ARN" : "AWS_WEB_IDENTITY_TOKEN_FILE");
  tsr_buffer token = {.memory = provider->memory}, form = token, response = token;
  int rc = token_service_url(provider, url, error);
  if (rc >= 0) rc = tsr__secret_file(path, TSR_SERVICE_ANSWER_MAX, &token, error);
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no token in %s", path);
  if (rc >= 0) {
    token.data[strcspn((const char *)token.data, "\r\n")] = 0;
    rc = make_form(role, (const char *)token.data, &form, error);
  }
  if (rc >= 0) {
    const tsr_service_request request = {.method = "POST",
                                         .url = url,
                                         .body = &form,
                                         .header_count = 1,
                                         .headers = {"Content-Type: application/x-www-form-urlencoded"}};
    rc = tsr__service_ask(provider, &request, &response, error);
  }
  if (rc >= 0) rc = take_identity(provider, &response, credentials, error);
  if (rc >= 0) region_of_environment(credentials);
  tsr__secret_release(&token);
  tsr__secret_release(&form);
  tsr__secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "web identity") : rc;
}

/* ---- The places ------------------------------------------------------------------------------ */

int tsr__keys_aws(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  static tsr_keys_find *const places[] = {keys_from_environment, keys_from_profile, keys_from_web_identity,
                                          keys_from_container, keys_from_instance};
  if (provider->kind == TSR_PROVIDER_ENV) return keys_from_environment(provider, credentials, error);
  if (provider->kind == TSR_PROVIDER_PROFILE) return keys_from_profile(provider, credentials, error);
  return tsr__keys_first(provider, places, sizeof places / sizeof *places, credentials, error);
}
