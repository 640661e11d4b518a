/* credentials_service.c: keys that services give out: AWS's token service for web identities (Kubernetes), the service
 * of a container (ECS, EKS), and the metadata service of an instance (EC2, version 2 only: with a session token).
 *
 * The last two answer with JSON objects, the first one with XML. Answers are at most 64 KiB and are wiped.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/arithmetic.h"
#include "base/pool.h"
#include "remote/credentials_sources.h"
#include "remote/http.h"
#include "remote/http_time.h"
#include "remote/s3_answer.h"
#include "remote/sigv4.h"

#define ANSWER_MAX  (UINT64_C(64) << 10)
#define SERVICE_MS  10000u /* longest time of one request */
#define INSTANCE_MS 1000u /* to connect: where there is no such service, this is how long `auto` takes */
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
  if (request->answer.status != 200)
    return tsr__fail(error, request->answer.status >= 500 ? TSR_UNREACHABLE : TSR_DENIED, "status %u",
                     request->answer.status);
  return TSR_OK;
}

/* Sends a request and gives the body of the answer, with a NUL byte behind it. The caller wipes the body. */
static int service_ask(tsr_provider *provider, const service_request *what, tsr_buffer *answer, tsr_error *error) {
  const bool tls = strncmp(what->url, "https://", 8) == 0;
  const tsr_http_transport transport = {
      .connect_ms = what->connect_ms,
      .stall_ms = SERVICE_MS,
      .ca_file = provider->ca_file,
      .proxy = tls ? provider->proxy : NULL, /* the services without TLS are at addresses of this machine's own link */
      .plain_http = true};
  tsr_http_request request = {.method = what->method,
                              .url = what->url,
                              .headers = what->headers,
                              .header_count = what->header_count,
                              .transport = &transport,
                              .most = ANSWER_MAX};
  if (what->body) request.body = what->body->data, request.body_size = what->body->size;
  request.received.memory = provider->memory;
  TSR_TRY(tsr__buffer_reserve_exactly(&request.received, ANSWER_MAX + 1, error)); /* it never grows */
  int rc = service_run(provider, &request, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(&request.received, 0, error);
  if (rc < 0) {
    tsr__secret_release(&request.received);
    return rc;
  }
  request.received.size--;
  *answer = request.received;
  return TSR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const char *skip_space(const char *p) {
  while (*p && strchr(" \t\r\n", *p)) p++;
  return p;
}

/* Returns the place behind a text that begins at p, or NULL. Escapes are written back in place: keys and times need
 * none but "\/", and others become '?', which no key has. */
static char *read_json_text(char *p, tsr_text_part *text) {
  if (*p++ != '"') return NULL;
  char *to = p;
  text->at = p;
  for (; *p != '"'; p++) {
    if ((unsigned char)*p < ' ') return NULL; /* also the NUL byte at the end */
    if (*p == '\\' && p[1] != 0) *to++ = *++p == '/' ? '/' : '?';
    else *to++ = *p;
  }
  text->size = (uint64_t)(to - text->at);
  return p + 1;
}

/* Returns the place behind any value, or NULL. */
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
  tsr_text_part text; /* set if the member is a text */
} json_member;

/* Reads those members of an object that are texts. Returns false if the bytes are no object. */
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

/* Takes keys from the answer of a container's or an instance's service. */
static int keys_from_json(tsr_provider *provider, tsr_buffer *answer, tsr_credentials *credentials, tsr_error *error) {
  json_member members[] = {
      {.name = "AccessKeyId"}, {.name = "SecretAccessKey"}, {.name = "Token"}, {.name = "Expiration"}};
  int64_t expires = INT64_MAX;
  char time[64];
  if (!read_json_object((char *)answer->data, members, sizeof members / sizeof *members))
    return tsr__fail(error, TSR_DENIED, "the answer is no JSON object");
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
  return tsr__credentials_make(provider->memory, members[0].text, members[1].text, members[2].text, expires,
                               credentials, error);
}

/* ---- Containers ------------------------------------------------------------------------------ */

#define CONTAINER_HOST "http://169.254.170.2"

/* Keys are sent without TLS only to this machine and to the addresses of containers' services. */
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

/* Appends the header with the token that the container's service wants, if there is one. */
static int container_token(tsr_buffer *header, tsr_error *error) {
  const char *path = tsr__variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  const char *token = tsr__variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  tsr_buffer file = {.memory = header->memory};
  int rc = path ? tsr__secret_file_read(path, ANSWER_MAX, &file, error) : TSR_OK;
  if (rc >= 0 && path) token = (const char *)file.data;
  const size_t size = rc >= 0 && token ? strcspn(token, "\r\n") : 0;
  if (size > 0) rc = tsr__buffer_reserve_exactly(header, size + 32, error); /* it never grows */
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, "Authorization: ", 15, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append(header, token, size, error);
  if (rc >= 0 && size > 0) rc = tsr__buffer_append_u8(header, 0, error);
  tsr__secret_release(&file);
  return rc == TSR_NOT_FOUND ? tsr__fail(error, TSR_DENIED, "no token in %s", path) : rc;
}

int tsr__keys_from_container(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *relative = tsr__variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const char *full = tsr__variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  char url[SERVICE_URL];
  if (!relative && !full) return tsr__fail(error, TSR_NOT_FOUND, "container: none");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "container: refused since tessera_restrict");
  const int size = relative ? snprintf(url, sizeof url, CONTAINER_HOST "%s%s", *relative == '/' ? "" : "/", relative)
                            : snprintf(url, sizeof url, "%s", full);
  if (size < 0 || (size_t)size >= sizeof url || !is_container_url(url))
    return tsr__fail(error, TSR_DENIED, "container: AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor local");
  tsr_buffer header = {.memory = provider->memory}, answer = {.memory = provider->memory};
  int rc = container_token(&header, error);
  if (rc >= 0) {
    service_request request = {.method = "GET", .url = url};
    if (header.size > 0) request.headers[request.header_count++] = (const char *)header.data;
    rc = service_ask(provider, &request, &answer, error);
  }
  if (rc >= 0) rc = keys_from_json(provider, &answer, credentials, error);
  tsr__secret_release(&header);
  tsr__secret_release(&answer);
  return rc < 0 ? tsr__wrap(error, "container") : rc;
}

/* ---- Instances ------------------------------------------------------------------------------- */

#define INSTANCE_HOST "http://169.254.169.254"
#define INSTANCE_ROLE "/latest/meta-data/iam/security-credentials/"

/* GETs host + path + name with the session's token. */
static int instance_get(tsr_provider *provider, const char *host, const char *path, const char *name, const char *token,
                        tsr_buffer *answer, tsr_error *error) {
  char url[SERVICE_URL];
  const int size = snprintf(url, sizeof url, "%s%s%s", host, path, name);
  if (size < 0 || (size_t)size >= sizeof url) return tsr__fail(error, TSR_DENIED, "a name is too long");
  const service_request request = {
      .method = "GET", .url = url, .headers = {token}, .header_count = 1, .connect_ms = INSTANCE_MS};
  return service_ask(provider, &request, answer, error);
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
  tsr_buffer answer = {.memory = provider->memory};
  int rc = service_ask(provider, &request, &answer, error);
  if (rc == TSR_UNREACHABLE) rc = tsr__fail(error, TSR_NOT_FOUND, "no service");
  if (rc >= 0 && (answer.size == 0 || answer.size > 900 || strcspn((char *)answer.data, "\r\n") != answer.size))
    rc = tsr__fail(error, TSR_DENIED, "the service gave no token");
  if (rc >= 0) (void)snprintf(header, 1024, "X-aws-ec2-metadata-token: %s", (const char *)answer.data);
  tsr__secret_release(&answer);
  return rc;
}

/* The first line of an answer is the name of the instance's role. */
static int instance_role(tsr_provider *provider, const char *host, const char *token, char name[256],
                         tsr_error *error) {
  tsr_buffer answer = {.memory = provider->memory};
  TSR_TRY(instance_get(provider, host, INSTANCE_ROLE, "", token, &answer, error));
  const size_t size = strcspn((const char *)answer.data, "\r\n");
  bool good = size > 0 && size < 256;
  for (size_t i = 0; i < size && good; i++)
    good = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+=,.@-_", answer.data[i]) != NULL;
  if (good) memcpy(name, answer.data, size), name[size] = 0;
  tsr__secret_release(&answer);
  return good ? TSR_OK : tsr__fail(error, TSR_DENIED, "the instance has no role");
}

/* The region is welcome, but its absence is no error. */
static int instance_region(tsr_provider *provider, const char *host, const char *token, tsr_credentials *credentials,
                           tsr_error *error) {
  tsr_buffer answer = {.memory = provider->memory};
  tsr_error ignored = {0};
  if (credentials->region[0] || provider->region) return TSR_OK;
  const int rc = instance_get(provider, host, "/latest/meta-data/placement/region", "", token, &answer, &ignored);
  if (rc >= 0) tsr__credentials_region(credentials, (tsr_text_part){(const char *)answer.data, answer.size});
  tsr__secret_release(&answer);
  return tsr__only_cancelled(rc, &ignored, error);
}

int tsr__keys_from_instance(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *disabled = tsr__variable("AWS_EC2_METADATA_DISABLED");
  const char *given = tsr__variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
  char host[SERVICE_URL / 2], token[1024], role[256];
  if (disabled && strcasecmp(disabled, "true") == 0)
    return tsr__fail(error, TSR_NOT_FOUND, "instance metadata: AWS_EC2_METADATA_DISABLED is set");
  if (provider->no_metadata) return tsr__fail(error, TSR_PERM, "instance metadata: refused since tessera_restrict");
  const int size = snprintf(host, sizeof host, "%s", given ? given : INSTANCE_HOST);
  if (size < 0 || (size_t)size >= sizeof host)
    return tsr__fail(error, TSR_DENIED, "AWS_EC2_METADATA_SERVICE_ENDPOINT is too long");
  if (host[size - 1] == '/') host[size - 1] = 0;
  tsr_buffer answer = {.memory = provider->memory};
  int rc = instance_session(provider, host, token, error);
  if (rc >= 0) rc = instance_role(provider, host, token, role, error);
  if (rc >= 0) rc = instance_get(provider, host, INSTANCE_ROLE, role, token, &answer, error);
  if (rc >= 0) rc = keys_from_json(provider, &answer, credentials, error);
  if (rc >= 0) rc = instance_region(provider, host, token, credentials, error);
  if (rc < 0) tsr__credentials_release(credentials);
  tsr__wipe(token, sizeof token);
  tsr__secret_release(&answer);
  return rc < 0 ? tsr__wrap(error, "instance metadata") : rc;
}

/* ---- Web identities -------------------------------------------------------------------------- */

/* Appends "&name=value" of a form. */
static int append_form_field(tsr_buffer *form, const char *name, const char *value, tsr_error *error) {
  TSR_TRY(tsr__buffer_printf(form, error, "&%s=", name));
  return tsr__sigv4_encode(value, false, form, error);
}

static int make_form(const char *role, const char *token, tsr_buffer *form, tsr_error *error) {
  const char *session = tsr__variable("AWS_ROLE_SESSION_NAME");
  TSR_TRY(tsr__buffer_reserve_exactly(form, 3 * (strlen(token) + strlen(role)) + 1024, error)); /* it never grows */
  TSR_TRY(tsr__buffer_printf(form, error, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15"));
  TSR_TRY(append_form_field(form, "RoleSessionName", session && strlen(session) <= 64 ? session : "tessera", error));
  TSR_TRY(append_form_field(form, "RoleArn", role, error));
  return append_form_field(form, "WebIdentityToken", token, error);
}

static int token_service_url(tsr_provider *provider, char url[SERVICE_URL], tsr_error *error) {
  const char *given = tsr__variable("AWS_ENDPOINT_URL_STS"), *region = provider->region;
  if (!region) region = tsr__variable("AWS_REGION");
  if (!region) region = tsr__variable("AWS_DEFAULT_REGION");
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

static int take_identity(tsr_provider *provider, const tsr_buffer *answer, tsr_credentials *credentials,
                         tsr_error *error) {
  tsr_arena arena;
  tsr_s3_identity identity;
  tsr_s3_failure failure;
  tsr__arena_init(&arena, provider->memory);
  int rc = tsr__s3_answer_identity(answer->data, answer->size, &arena, &identity, &failure, error);
  if (rc > 0) rc = tsr__fail(error, TSR_DENIED, "the token service refuses: %.64s", failure.code);
  if (rc == TSR_CORRUPT) rc = tsr__fail(error, TSR_DENIED, "the token service's answer has no keys");
  if (rc >= 0) {
    const tsr_text_part texts[3] = {{identity.key_id, strlen(identity.key_id)},
                                    {identity.secret, strlen(identity.secret)},
                                    {identity.session_token, strlen(identity.session_token)}};
    rc = tsr__credentials_make(provider->memory, texts[0], texts[1], texts[2],
                               identity.expiration == INT64_MIN ? INT64_MAX : identity.expiration, credentials, error);
    for (int i = 0; i < 3; i++) tsr__wipe((void *)texts[i].at, texts[i].size);
  }
  tsr__arena_release(&arena);
  return rc;
}

int tsr__keys_from_web_identity(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error) {
  const char *path = tsr__variable("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = tsr__variable("AWS_ROLE_ARN");
  char url[SERVICE_URL];
  if (!path || !role)
    return tsr__fail(error, TSR_NOT_FOUND, "web identity: %s is not set",
                     path ? "AWS_ROLE_ARN" : "AWS_WEB_IDENTITY_TOKEN_FILE");
  tsr_buffer token = {.memory = provider->memory}, form = token, answer = token;
  int rc = token_service_url(provider, url, error);
  if (rc >= 0) rc = tsr__secret_file_read(path, ANSWER_MAX, &token, error);
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
    rc = service_ask(provider, &request, &answer, error);
  }
  if (rc >= 0) rc = take_identity(provider, &answer, credentials, error);
  const char *region = tsr__variable("AWS_REGION");
  if (!region) region = tsr__variable("AWS_DEFAULT_REGION");
  if (rc >= 0 && region) tsr__credentials_region(credentials, (tsr_text_part){region, strlen(region)});
  tsr__secret_release(&token);
  tsr__secret_release(&form);
  tsr__secret_release(&answer);
  return rc < 0 ? tsr__wrap(error, "web identity") : rc;
}
