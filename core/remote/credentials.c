/* credentials.c: finds the keys of a scope, keeps and refreshes them, and wipes them.
 *
 * Each place that may hold keys has a function keys_from_PLACE. It returns TSR_OK with the keys; TSR_NOT_FOUND, with a
 * short reason, if the place is not set up; or another code if it is set up but fails. No message contains a key.
 * `auto` tries the places in turn until one is set up.
 *
 * There are few copies of a key, so that all of them can be wiped: the provider's block, and one for each request that
 * is being signed. No key passes through a buffer that grows, because freed memory would still hold the key: all such
 * buffers get their final size first.
 *
 * Order: environment variables; files; services (requests, JSON, containers, instances, web identities); and last the
 * provider, which looks for keys and keeps them.
 */
#include "remote/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <strings.h>
#include <stdlib.h>
#include <time.h>

#include "base/arithmetic.h"
#include "base/system.h"
#include "base/pool.h"
#include "remote/http.h"
#include "remote/http_response.h"
#include "remote/s3_response.h"
#include "remote/sigv4.h"

#define PROFILE_BYTES_MAX (UINT64_C(1) << 20)
#define PROFILE_MAX       256u /* characters of a profile's name */
#define PATH_ROOM         4096u

static void credentials_region(tsr_credentials *credentials, tsr_text_part region);

static const char *tsr__environment_variable(const char *name);

static tsr_text_part slice_of_text(const char *text) { return (tsr_text_part){text, text ? strlen(text) : 0}; }

/* ---- Environment variables ------------------------------------------------------------------- */

static void region_of_environment(tsr_credentials *credentials) {
  const char *region = tsr__environment_variable("AWS_REGION");
  if (!region) region = tsr__environment_variable("AWS_DEFAULT_REGION");
  if (region) credentials_region(credentials, slice_of_text(region));
}

static int credentials_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token,
                            int64_t expires, tsr_credentials *credentials, tsr_error *error);

static int keys_from_environment(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *key_id = tsr__environment_variable("AWS_ACCESS_KEY_ID"),
             *secret = tsr__environment_variable("AWS_SECRET_ACCESS_KEY");
  if (!key_id || !secret)
    return tsr__fail(error, TSR_NOT_FOUND, "environment: %s is not set",
                     key_id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
  if (credentials_make(provider->memory, slice_of_text(key_id), slice_of_text(secret),
                       slice_of_text(tsr__environment_variable("AWS_SESSION_TOKEN")), INT64_MAX, credentials,
                       error) < 0)
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

/* Wipes and frees a buffer. */
static void secret_release(tsr_buffer *buffer) {
  if (buffer->data) tsr__wipe(buffer->data, buffer->capacity);
  tsr__buffer_release(buffer);
}

static int read_descriptor(int file, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  struct stat about;
  if (fstat(file, &about) != 0) return tsr__fail(error, TSR_IO, "%s", strerror(errno));
  if (!S_ISREG(about.st_mode)) return tsr__fail(error, TSR_PERM, "not an ordinary file");
  if ((uint64_t)about.st_size > most)
    return tsr__fail(error, TSR_TOOBIG, "%lld bytes; at most %llu are read", (long long)about.st_size,
                     (unsigned long long)most);
  TSR_TRY(
      tsr__buffer_reserve_exactly(buffer, (uint64_t)about.st_size + 1, error)); /* it must not grow: it holds keys */
  while (buffer->size < (uint64_t)about.st_size) {
    const ssize_t got = read(file, buffer->data + buffer->size, (size_t)((uint64_t)about.st_size - buffer->size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tsr__fail(error, TSR_IO, "%s", strerror(errno));
    if (got == 0) break;
    buffer->size += (uint64_t)got;
  }
  buffer->data[buffer->size] = 0;
  return TSR_OK;
}

/* Reads a regular file into an empty buffer and appends a NUL byte that the size does not count. The caller wipes the
 * buffer. Errors: TSR_NOT_FOUND; TSR_TOOBIG for more than `most` bytes. */
static int secret_file_read(const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  const int file = tsr_path_read(path, false);
  if (file < 0)
    return tsr__fail(error, errno == ENOENT || errno == ENOTDIR ? TSR_NOT_FOUND : TSR_IO, "%s: %s", path,
                     strerror(errno));
  const int rc = read_descriptor(file, most, buffer, error);
  close(file);
  return rc < 0 ? tsr__wrap(error, "%s", path) : TSR_OK;
}

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
  char path[PATH_ROOM];
  const char *given = tsr__environment_variable(variable), *home = tsr__environment_variable(TSR_HOME_VARIABLE);
  const int size = given  ? snprintf(path, sizeof path, "%s", given)
                   : home ? snprintf(path, sizeof path, "%s/.aws/%s", home, name)
                          : -1;
  if (size < 0 || (size_t)size >= sizeof path) return TSR_OK;
  const int rc = secret_file_read(path, PROFILE_BYTES_MAX, file, error);
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
    if (credentials_make(memory, key_id, secret, token, INT64_MAX, credentials, error) < 0)
      return tsr__wrap(error, "profile '%s'", profile);
    return TSR_OK;
  }
  return fail_without_keys(files, profile, found, error);
}

static int keys_from_profile(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *profile = tsr__environment_variable("AWS_PROFILE");
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
      credentials_region(credentials, profile_value(&files[config], config, profile, "region", &found));
  }
  secret_release(&files[0]);
  secret_release(&files[1]);
  return rc < 0 ? tsr__fail(error, rc, "%s", local.message) : TSR_OK;
}

/* ---- Services --------------------------------------------------------------------------------
 *
 * Services that hand out keys: AWS's token service for web identities (Kubernetes), the service of a container (ECS,
 * EKS), and the metadata service of an instance (EC2; only version 2, which requires a session token).
 *
 * The token service answers with XML, the others with JSON objects. Answers have at most 64 KiB and are wiped.
 */

#define ANSWER_MAX  (UINT64_C(64) << 10)
#define SERVICE_MS  10000u /* longest time of one request */
#define INSTANCE_MS 1000u /* to connect: `auto` loses this much time where there is no such service */
#define JSON_DEPTH  8u
#define SERVICE_URL 2048u /* bytes of a URL */

/* ---- Requests -------------------------------------------------------------------------------- */

typedef struct service_request {
  const char *method, *url;
  const char *headers[3];
  uint32_t header_count;
  const tsr_buffer *body; /* NULL: none */
  uint32_t connect_ms;
} service_request;

static int service_run(tsr_provider *provider, tsr_http_request *request, tsr_error *error) {
  tsr_http_request *const list[1] = {request};
  tsr__http_start(request);
  const int rc = tsr__http_wait(list, 1, SERVICE_MS, provider->memory, error);
  tsr__http_cancel(request);
  if (rc < 0) return rc;
  if (rc == 0) return tsr__fail(error, TSR_UNREACHABLE, "no answer in %u ms", SERVICE_MS);
  if (request->rc < 0) return tsr__fail(error, request->rc, "%s", request->error.message);
  if (request->response.status != 200)
    return tsr__fail(error, request->response.status >= 500 ? TSR_UNREACHABLE : TSR_DENIED, "status %u",
                     request->response.status);
  return TSR_OK;
}

/* Sends a request and returns the body of the answer, with a NUL byte after it. The caller wipes the body. */
static int service_ask(tsr_provider *provider, const service_request *what, tsr_buffer *response, tsr_error *error) {
  const bool tls = strncmp(what->url, "https://", 8) == 0;
  const tsr_http_transport transport = {
      .connect_ms = what->connect_ms,
      .stall_ms = SERVICE_MS,
      .ca_file = provider->ca_file,
      .proxy = tls ? provider->proxy : NULL, /* services without TLS are at link-local addresses of this machine */
      .plain_http = true};
  tsr_http_request request = {.method = what->method,
                              .url = what->url,
                              .headers = what->headers,
                              .header_count = what->header_count,
                              .transport = &transport,
                              .most = ANSWER_MAX};
  if (what->body) request.body = what->body->data, request.body_size = what->body->size;
  request.received.memory = provider->memory;
  TSR_TRY(tsr__buffer_reserve_exactly(&request.received, ANSWER_MAX + 1, error)); /* it must not grow */
  int rc = service_run(provider, &request, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(&request.received, 0, error);
  if (rc < 0) {
    secret_release(&request.received);
    return rc;
  }
  request.received.size--;
  *response = request.received;
  return TSR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *skip_space(const char *p) {
  while (*p && strchr(" \t\r\n", *p)) p++;
  return p;
}

/* Returns the position after a JSON string that begins at p, or NULL. Unescapes in place: keys and times need no escape
 * but "\/"; others become '?', which no key has. */
static char *read_json_text(char *p, tsr_text_part *text) {
  if (*p++ != '"') return NULL;
  char *to = p;
  text->at = p;
  for (; *p != '"'; p++) {
    if ((unsigned char)*p < ' ') return NULL; /* including the NUL byte at the end */
    if (*p == '\\' && p[1] != 0) *to++ = *++p == '/' ? '/' : '?';
    else *to++ = *p;
  }
  text->size = (uint64_t)(to - text->at);
  return p + 1;
}

/* Returns the position after any JSON value, or NULL. */
static char *skip_json(char *p) {
  unsigned depth = 0;
  tsr_text_part text;
  do {
    p = (char *)skip_space(p);
    if (*p == '"') {
      p = read_json_text(p, &text);
      if (!p) return NULL;
    } else if (*p == '{' || *p == '[') {
      if (++depth > JSON_DEPTH) return NULL;
      p++;
    } else if (*p == '}' || *p == ']') {
      if (depth-- == 0) return NULL;
      p++;
    } else if (*p == 0) {
      return NULL;
    } else if (depth > 0 && strchr(",:", *p)) {
      p++;
    } else {
      const size_t size = strspn(p, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
      if (size == 0) return NULL;
      p += size;
    }
  } while (depth > 0);
  return p;
}

typedef struct json_member {
  const char *name;
  tsr_text_part text; /* set if the member is a string */
} json_member;

/* Reads the wanted members of a JSON object, as far as they are strings. Returns false if it is not an object. */
static bool read_json_object(char *p, json_member *members, size_t count) {
  p = (char *)skip_space(p);
  if (*p++ != '{') return false;
  for (p = (char *)skip_space(p); *p != '}'; p = (char *)skip_space(p)) {
    tsr_text_part name, text = {NULL, 0};
    p = read_json_text(p, &name);
    if (!p) return false;
    p = (char *)skip_space(p);
    if (*p++ != ':') return false;
    p = (char *)skip_space(p);
    const bool is_text = *p == '"';
    p = is_text ? read_json_text(p, &text) : skip_json(p);
    if (!p) return false;
    for (size_t i = 0; i < count && is_text; i++)
      if (name.size == strlen(members[i].name) && memcmp(name.at, members[i].name, name.size) == 0)
        members[i].text = text;
    p = (char *)skip_space(p);
    if (*p == ',') p++;
    else if (*p != '}') return false;
  }
  return true;
}

/* Reads the keys in the answer of a container's or an instance's service. */
static int keys_from_json(tsr_provider *provider, tsr_buffer *response, tsr_credentials *credentials,
                          tsr_error *error) {
  json_member members[] = {
      {.name = "AccessKeyId"}, {.name = "SecretAccessKey"}, {.name = "Token"}, {.name = "Expiration"}};
  int64_t expires = INT64_MAX;
  char time[64];
  if (!read_json_object((char *)response->data, members, sizeof members / sizeof *members))
    return tsr__fail(error, TSR_DENIED, "the answer is not a JSON object");
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
  return credentials_make(provider->memory, members[0].text, members[1].text, members[2].text, expires, credentials,
                          error);
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
  const char *path = tsr__environment_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const char *token = tsr__environment_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  tsr_buffer file = {.memory = header->memory};
  int rc = path ? secret_file_read(path, ANSWER_MAX, &file, error) : TSR_OK;
  if (rc >= 0 && path) token = (const char *)file.data;
  const size_t size = rc >= 0 && token ? strcspn(token, "\r\n") : 0;
  if (size > 0) rc = tsr__buffer_reserve_exactly(header, size + 32, error); /* it must not grow */
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, "Authorization: ", 15, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, token, size, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append_u8(header, 0, error);
  secret_release(&file);
  return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_DENIED, "no token in %s", path) : rc;
}

static int keys_from_container(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *relative = tsr__environment_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const char *full = tsr__environment_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  char url[SERVICE_URL];
  if (!relative && !full) return tsr__fail(error, TSR_NOT_FOUND, "container: none");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "container: refused since tessera_restrict");
  const int size = relative ? snprintf(url, sizeof url, CONTAINER_HOST "%s%s", *relative == '/' ? "" : "/", relative)
                            : snprintf(url, sizeof url, "%s", full);
  if (size < 0 || (size_t)size >= sizeof url || !is_container_url(url))
    return tsr__fail(error, TSR_DENIED, "container: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor local");
  tsr_buffer header = {.memory = provider->memory}, response = {.memory = provider->memory};
  int rc = container_token(&header, error);
  if (rc >= 0) {
    service_request request = {.method = "GET", .url = url};
    if (header.size > 0) request.headers[request.header_count++] = (const char *)header.data;
    rc = service_ask(provider, &request, &response, error);
  }
  if (rc >= 0) rc = keys_from_json(provider, &response, credentials, error);
  secret_release(&header);
  secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "container") : rc;
}

/* ---- Instances ------------------------------------------------------------------------------- */

#define INSTANCE_HOST "http://169.254.169.254"
#define INSTANCE_ROLE "/latest/meta-data/iam/security-credentials/"

/* GETs host + path + name with the session's token. */
static int instance_get(tsr_provider *provider, const char *host, const char *path, const char *name, const char *token,
                        tsr_buffer *response, tsr_error *error) {
  char url[SERVICE_URL];
  const int size = snprintf(url, sizeof url, "%s%s%s", host, path, name);
  if (size < 0 || (size_t)size >= sizeof url) return tsr__fail(error, TSR_DENIED, "a name is too long");
  const service_request request = {
      .method = "GET", .url = url, .headers = {token}, .header_count = 1, .connect_ms = INSTANCE_MS};
  return service_ask(provider, &request, response, error);
}

static int instance_session(tsr_provider *provider, const char *host, char header[1024], tsr_error *error) {
  char url[SERVICE_URL];
  const int size = snprintf(url, sizeof url, "%s/latest/api/token", host);
  if (size < 0 || (size_t)size >= sizeof url)
    return tsr__fail(error, TSR_DENIED, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
  const service_request request = {.method = "PUT",
                                   .url = url,
                                   .connect_ms = INSTANCE_MS,
                                   .header_count = 1,
                                   .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}};
  tsr_buffer response = {.memory = provider->memory};
  int rc = service_ask(provider, &request, &response, error);
  if (rc == TSR_UNREACHABLE) rc = tsr__fail(error, TSR_NOT_FOUND, "no service");
  if (rc >= 0 && (response.size == 0 || response.size > 900 || strcspn((char *)response.data, "\r\n") != response.size))
    rc = tsr__fail(error, TSR_DENIED, "the service gave no token");
  if (rc >= 0) (void)snprintf(header, 1024, "X-aws-ec2-metadata-token: %s", (const char *)response.data);
  secret_release(&response);
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
  secret_release(&response);
  return good ? TSR_OK : tsr__fail(error, TSR_DENIED, "the instance has no role");
}

/* Looks for the region, too. It is optional: only a cancellation is an error. */
static int instance_region(tsr_provider *provider, const char *host, const char *token, tsr_credentials *credentials,
                           tsr_error *error) {
  tsr_buffer response = {.memory = provider->memory};
  tsr_error ignored = {0};
  if (credentials->region[0] || provider->region) return TSR_OK;
  const int rc = instance_get(provider, host, "/latest/meta-data/placement/region", "", token, &response, &ignored);
  if (rc >= 0) credentials_region(credentials, (tsr_text_part){(const char *)response.data, response.size});
  secret_release(&response);
  return tsr__only_cancelled(rc, &ignored, error);
}

static int keys_from_instance(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *disabled = tsr__environment_variable("AWS_EC2_METADATA_DISABLED");
  const char *given = tsr__environment_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  char host[SERVICE_URL / 2], token[1024], role[256];
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
  secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "instance metadata") : rc;
}

/* ---- Web identities -------------------------------------------------------------------------- */

/* Appends "&name=value" to a form. */
static int append_form_field(tsr_buffer *form, const char *name, const char *value, tsr_error *error) {
  TSR_TRY(tsr__buffer_printf(form, error, "&%s=", name));
  return tsr__sigv4_encode(value, false, form, error);
}

static int make_form(const char *role, const char *token, tsr_buffer *form, tsr_error *error) {
  const char *session = tsr__environment_variable("AWS_ROLE_SESSION_NAME");
  TSR_TRY(tsr__buffer_reserve_exactly(form, 3 * (strlen(token) + strlen(role)) + 1024, error)); /* it must not grow */
  TSR_TRY(tsr__buffer_printf(form, error, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"));
  TSR_TRY(append_form_field(form, "RoleSessionName", session && strlen(session) <= 64 ? session : "tessera", error));
  TSR_TRY(append_form_field(form, "RoleArn", role, error));
  return append_form_field(form, "WebIdentityToken", token, error);
}

static int token_service_url(tsr_provider *provider, char url[SERVICE_URL], tsr_error *error) {
  const char *given = tsr__environment_variable("AWS_ENDPOINT_URL_STS"), *region = provider->region;
  if (!region) region = tsr__environment_variable("AWS_REGION");
  if (!region) region = tsr__environment_variable("AWS_DEFAULT_REGION");
  int size;
  if (given) size = snprintf(url, SERVICE_URL, "%s", given);
  else if (!region) size = snprintf(url, SERVICE_URL, "https://sts.amazonaws.com/");
  else
    size =
        snprintf(url, SERVICE_URL, "https://sts.%s.amazonaws.com%s/", region, strncmp(region, "cn-", 3) ? "" : ".cn");
  if (size < 0 || size >= (int)SERVICE_URL) return tsr__fail(error, TSR_DENIED, "the token service's URL is too long");
  if (strncmp(url, "https://", 8) != 0 && !is_container_url(url))
    return tsr__fail(error, TSR_DENIED, "AWS_ENDPOINT_URL_STS is neither https nor local");
  return TSR_OK;
}

static int take_identity(tsr_provider *provider, const tsr_buffer *response, tsr_credentials *credentials,
                         tsr_error *error) {
  tsr_arena arena;
  tsr_s3_identity identity;
  tsr_s3_failure failure;
  tsr__arena_init(&arena, provider->memory);
  int rc = tsr__s3_response_identity(response->data, response->size, &arena, &identity, &failure, error);
  if (rc > 0) rc = tsr__fail(error, TSR_DENIED, "the token service refuses: %.64s", failure.code);
  if (rc == TSR_CORRUPT) rc = tsr__fail(error, TSR_DENIED, "the token service's answer has no keys");
  if (rc >= 0) {
    const tsr_text_part texts[3] = {{identity.key_id, strlen(identity.key_id)},
                                    {identity.secret, strlen(identity.secret)},
                                    {identity.session_token, strlen(identity.session_token)}};
    rc = credentials_make(provider->memory, texts[0], texts[1], texts[2],
                          identity.expiration == INT64_MIN ? INT64_MAX : identity.expiration, credentials, error);
    for (int i = 0; i < 3; i++) tsr__wipe((void *)texts[i].at, texts[i].size);
  }
  tsr__arena_release(&arena);
  return rc;
}

static int keys_from_web_identity(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *path = tsr__environment_variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
             *role = tsr__environment_variable("AWS_ROLE_ARN");
  char url[SERVICE_URL];
  if (!path || !role)
    return tsr__fail(error, TSR_NOT_FOUND, "web identity: %s is not set",
                     path ? "AWS_ROLE_ARN" : "AWS_WEB_IDENTITY_TOKEN_FILE");
  tsr_buffer token = {.memory = provider->memory}, form = token, response = token;
  int rc = token_service_url(provider, url, error);
  if (rc >= 0) rc = secret_file_read(path, ANSWER_MAX, &token, error);
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no token in %s", path);
  if (rc >= 0) {
    token.data[strcspn((const char *)token.data, "\r\n")] = 0;
    rc = make_form(role, (const char *)token.data, &form, error);
  }
  if (rc >= 0) {
    const service_request request = {.method = "POST",
                                     .url = url,
                                     .body = &form,
                                     .header_count = 1,
                                     .headers = {"Content-Type: application/x-www-form-urlencoded"}};
    rc = service_ask(provider, &request, &response, error);
  }
  if (rc >= 0) rc = take_identity(provider, &response, credentials, error);
  const char *region = tsr__environment_variable("AWS_REGION");
  if (!region) region = tsr__environment_variable("AWS_DEFAULT_REGION");
  if (rc >= 0 && region) credentials_region(credentials, (tsr_text_part){region, strlen(region)});
  secret_release(&token);
  secret_release(&form);
  secret_release(&response);
  return rc < 0 ? tsr__wrap(error, "web identity") : rc;
}

/* ---- The provider ---------------------------------------------------------------------------- */

#define EARLY_MS    300000 /* keys are refreshed this long before they expire */
#define PATIENCE_MS 30000 /* a failed refresh is retried after this time */
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

/* Returns the value of an environment variable, or NULL if it is missing or empty. */
static const char *tsr__environment_variable(const char *name) {
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

/* Copies keys into one block. Errors: TSR_DENIED if a text is too long or has characters that cannot occur in a key. */
static int credentials_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token,
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

/* Keeps a region if its characters are valid; otherwise the region counts as unknown. */
static void credentials_region(tsr_credentials *credentials, tsr_text_part region) {
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
      keys_from_environment, keys_from_profile, keys_from_web_identity, keys_from_container, keys_from_instance};
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
  case TSR_PROVIDER_ENV: return keys_from_environment(provider, credentials, error);
  case TSR_PROVIDER_PROFILE: return keys_from_profile(provider, credentials, error);
  case TSR_PROVIDER_AUTO: break;
  }
  return find_automatically(provider, credentials, error);
}

/* Looks for keys and replaces the present ones. Call with the mutex held. */
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
      if (rc < 0 && rc != TSR_INTERRUPT && usable) { /* the old keys are still valid for some minutes */
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

int tsr__provider_open(tsr_provider *provider, tsr_memory *memory, const tsr_provider_options *options,
                       tsr_error *error) {
  *provider = (tsr_provider){.memory = memory, .kind = options->kind, .open = true};
  atomic_init(&provider->no_metadata, false);
  pthread_mutex_init(&provider->mutex, NULL);
  int rc = copy_text(memory, options->region, &provider->region, error);
  if (rc >= 0) rc = copy_text(memory, options->ca_file, &provider->ca_file, error);
  if (rc >= 0) rc = copy_text(memory, options->proxy, &provider->proxy, error);
  if (rc >= 0 && options->kind == TSR_PROVIDER_KEYS)
    rc = credentials_make(memory, slice_of_text(options->key_id), slice_of_text(options->secret),
                          slice_of_text(options->session_token), INT64_MAX, &provider->now, error);
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
