/* keys.c: variables, files and services that hold keys, and making keys of what they say. */
#include "remote/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arithmetic.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/system.h"
#include "remote/http.h"
#include "remote/sigv4.h"
#include "tessera_host.h"
#include "tessera_path.h"

#define KEY_MAX           16384u /* characters of one key; session tokens are the longest */
#define SERVICE_PAUSE     50u /* milliseconds before the second try, four times as many before each further one */
#define SERVICE_PAUSE_MAX 800u

tsr_text_part tsr__text_of(const char *text) { return (tsr_text_part){text, text ? strlen(text) : 0}; }

const char *tsr__keys_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

int64_t tsr__keys_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t tsr__keys_expiry(const tsr_provider *provider, int64_t time) {
  if (time == INT64_MAX) return time;
  return TSR_MAX((int64_t)tsr__moment() + time - tsr__keys_clock() - provider->ahead, 0);
}

void tsr__secret_release(tsr_buffer *buffer) {
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

int tsr__secret_file(const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error) {
  const int file = tsr_path_read(path, false);
  if (file < 0)
    return tsr__fail(error, errno == ENOENT || errno == ENOTDIR ? TSR_NOT_FOUND : TSR_IO, "%s: %s", path,
                     strerror(errno));
  const int rc = read_descriptor(file, most, buffer, error);
  close(file);
  return rc < 0 ? tsr__wrap(error, "%s", path) : TSR_OK;
}

/* ---- Services -------------------------------------------------------------------------------- */

/* Says what a status means, and that the clock may be why: what asks for a token is often dated. */
static int fail_status(const tsr_http_response *response, int64_t ahead, tsr_error *error) {
  const bool busy = response->status >= 500 || response->status == 429;
  if (!busy && (ahead > TSR_SERVICE_SKEW || ahead < -TSR_SERVICE_SKEW))
    return tsr__fail(error, TSR_DENIED,
                     "status %u; the clock of this machine differs from the server's by %lld seconds", response->status,
                     (long long)-ahead / 1000);
  return tsr__fail(error, busy ? TSR_UNREACHABLE : TSR_DENIED, "status %u", response->status);
}

static int service_run(tsr_provider *provider, tsr_http_request *request, const char *flavor, tsr_error *error) {
  tsr_http_request *const list[1] = {request};
  tsr__http_start(request);
  const int rc = tsr__http_wait(list, 1, TSR_SERVICE_MS, provider->memory, error);
  tsr__http_cancel(request);
  if (rc < 0) return rc;
  if (rc == 0) return tsr__fail(error, TSR_UNREACHABLE, "no answer in %u ms", TSR_SERVICE_MS);
  if (request->rc < 0) return tsr__fail(error, request->rc, "%s", request->error.message);
  const int64_t date = request->response.date;
  provider->ahead = date == INT64_MIN ? 0 : date - tsr__keys_clock();
  if (flavor && strcmp(request->response.metadata_flavor, flavor) != 0)
    return tsr__fail(error, TSR_DENIED, "another server answered in the place of the metadata service");
  return request->response.status == 200 ? TSR_OK : fail_status(&request->response, provider->ahead, error);
}

/* Returns true if the service was there, and may answer the same request a moment later. */
static bool may_answer_later(const tsr_http_request *request) {
  const uint32_t status = request->response.status;
  return request->failure == TSR_HTTP_CUT || (request->failure == TSR_HTTP_WHOLE && (status >= 500 || status == 429));
}

static int service_retry(tsr_provider *provider, const tsr_service_request *what, tsr_http_request *request,
                         tsr_error *error) {
  for (uint32_t pause = SERVICE_PAUSE;; pause *= 4) {
    tsr_error one = {0};
    const int rc = service_run(provider, request, what->flavor, &one);
    if (rc >= 0) return rc;
    const bool later = may_answer_later(request);
    if (rc == TSR_UNREACHABLE && what->may_lack && !later) return tsr__fail(error, TSR_NOT_FOUND, "no service");
    if (rc == TSR_INTERRUPT || pause > SERVICE_PAUSE_MAX || !later) return tsr__fail(error, rc, "%s", one.message);
    const struct timespec sleep = {.tv_nsec = (long)pause * 1000000};
    (void)nanosleep(&sleep, NULL);
    tsr__wipe(request->received.data, request->received.capacity);
    request->received.size = 0;
    request->fresh = true;
  }
}

int tsr__service_ask(tsr_provider *provider, const tsr_service_request *what, tsr_buffer *response, tsr_error *error) {
  const bool tls = strncmp(what->url, "https://", 8) == 0;
  const tsr_http_transport transport = {
      .connect_ms = what->connect_ms,
      .stall_ms = TSR_SERVICE_MS,
      .ca_file = provider->ca_file,
      .proxy = tls ? provider->proxy : NULL, /* services without TLS are at link-local addresses of this machine */
      .plain_http = true};
  tsr_http_request request = {.method = what->method,
                              .url = what->url,
                              .headers = what->headers,
                              .header_count = what->header_count,
                              .transport = &transport,
                              .most = TSR_SERVICE_ANSWER_MAX};
  if (what->body) request.body = what->body->data, request.body_size = what->body->size;
  request.received.memory = provider->memory;
  TSR_TRY(tsr__buffer_reserve_exactly(&request.received, TSR_SERVICE_ANSWER_MAX + 1, error)); /* it must not grow */
  int rc = service_retry(provider, what, &request, error);
  if (rc >= 0) rc = tsr__buffer_append_u8(&request.received, 0, error);
  if (rc < 0) {
    tsr__secret_release(&request.received);
    return rc;
  }
  request.received.size--;
  *response = request.received;
  return TSR_OK;
}

bool tsr__service_is_safe(const char *url) {
  if (strncmp(url, "https://", 8) == 0) return true;
  return strncmp(url, "http://", 7) == 0 && tsr__is_loopback(url + 7, strcspn(url + 7, "/?"));
}

bool tsr__service_is_near(const char *url) {
  if (tsr__service_is_safe(url)) return true;
  if (strncmp(url, "http://169.254.", 15) != 0) return false;
  return strspn(url + 15, "0123456789.") == strcspn(url + 15, ":/?"); /* and not the name of a host */
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Reads the value of a member: decodes a string, and takes the text of a number. Anything else is skipped: *value is
 * empty then. `text` is where `in` begins. */
static int read_value(char *text, tsr_text *in, tsr_text_part *value, tsr_error *error) {
  tsr__text_skip(in);
  char *first = text + (in->at - in->begin), *decoded;
  *value = (tsr_text_part){NULL, 0};
  if (*first != '"') {
    TSR_TRY(tsr__json_skip(in, error));
    if (strchr("-0123456789", *first)) *value = (tsr_text_part){first, (uint64_t)(in->at - first)};
    return TSR_OK;
  }
  const char *end = tsr_json_unescape(first, &decoded, &value->size);
  if (!end) return tsr__text_fail(in, "a string", error);
  if (strlen(decoded) != value->size) return tsr__text_fail(in, "a string without NUL characters", error);
  value->at = decoded;
  in->at = end;
  return TSR_OK;
}

int tsr__json_members(char *text, tsr_json_member *members, size_t count, tsr_error *error) {
  tsr_text in = {"JSON", text, text, text + strlen(text)};
  tsr_text_part value;
  const char *name;
  uint64_t size;
  if (!tsr__text_take(&in, '{')) return tsr__text_fail(&in, "an object", error);
  for (bool more = !tsr__text_take(&in, '}'); more;) {
    TSR_TRY(tsr__json_name(&in, &name, &size, error));
    TSR_TRY(read_value(text, &in, &value, error));
    for (size_t i = 0; i < count && value.at; i++)
      if (tsr__json_is(name, size, members[i].name)) members[i].text = value;
    more = tsr__text_take(&in, ',');
    if (!more && !tsr__text_take(&in, '}')) return tsr__text_fail(&in, "',' or '}'", error);
  }
  tsr__text_skip(&in);
  if (in.at < in.end) return tsr__text_fail(&in, "its end", error);
  for (size_t i = 0; i < count; i++) /* what follows a number was read before */
    if (members[i].text.at) ((char *)members[i].text.at)[members[i].text.size] = 0;
  return TSR_OK;
}

/* Appends "&name=value" to a form. */
int tsr__form_field(tsr_buffer *form, const char *name, const char *value, tsr_error *error) {
  TSR_TRY(tsr__buffer_printf(form, error, "%s%s=", form->size > 0 ? "&" : "", name));
  return tsr__sigv4_encode(value, false, form, error);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool is_key(tsr_text_part text) {
  if (text.size > KEY_MAX) return false;
  for (uint64_t i = 0; i < text.size; i++)
    if (text.at[i] <= ' ' || text.at[i] > '~') return false;
  return true;
}

int tsr__keys_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token, int64_t expires,
                   tsr_credentials *credentials, tsr_error *error) {
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

void tsr__keys_region(tsr_credentials *credentials, tsr_text_part region) {
  credentials->region[0] = 0;
  if (region.size >= sizeof credentials->region) return;
  for (uint64_t i = 0; i < region.size; i++) {
    const char c = region.at[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-')) return;
  }
  if (region.size > 0) memcpy(credentials->region, region.at, region.size);
  credentials->region[region.size] = 0;
}

int tsr__keys_make_token(tsr_memory *memory, tsr_keys_form form, tsr_text_part token, int64_t expires,
                         tsr_credentials *credentials, tsr_error *error) {
  char *block;
  if (token.size == 0) return tsr__fail(error, TSR_DENIED, "the token is empty");
  if (!is_key(token)) return tsr__fail(error, TSR_DENIED, "a token is too long or has characters that no token has");
  TSR_TRY(TSR_ALLOC_BYTES(memory, token.size + 3, &block, error));
  *credentials = (tsr_credentials){.form = form,
                                   .key_id = block,
                                   .secret = block + 1,
                                   .token = block + 2,
                                   .size = token.size + 3,
                                   .expires = expires};
  memcpy(credentials->token, token.at, token.size);
  return TSR_OK;
}

int tsr__keys_copy(tsr_memory *memory, const tsr_credentials *from, tsr_credentials *to, tsr_error *error) {
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

int tsr__keys_make_none(tsr_memory *memory, tsr_credentials *credentials, tsr_error *error) {
  char *block;
  TSR_TRY(TSR_ALLOC_BYTES(memory, 3, &block, error));
  *credentials = (tsr_credentials){
      .key_id = block, .secret = block + 1, .token = block + 2, .size = 3, .form = TSR_KEYS_NONE, .expires = INT64_MAX};
  return TSR_OK;
}

int tsr__keys_first(tsr_provider *provider, tsr_keys_find *const *places, size_t count, tsr_credentials *credentials,
                    tsr_error *error) {
  tsr_buffer reasons = {.memory = provider->memory};
  int rc = TSR_NOT_FOUND;
  for (size_t i = 0; i < count && rc == TSR_NOT_FOUND; i++) {
    tsr_error reason = {0};
    rc = places[i](provider, credentials, &reason);
    if (rc < 0 && rc != TSR_NOT_FOUND) (void)tsr__fail(error, rc, "%s", reason.message);
    if (rc == TSR_NOT_FOUND && tsr__buffer_printf(&reasons, error, "%s%s", i > 0 ? "; " : "", reason.message) < 0)
      rc = error ? error->code : TSR_NOMEM;
  }
  if (rc == TSR_NOT_FOUND) rc = tsr__fail(error, TSR_DENIED, "no keys: %s", (const char *)reasons.data);
  tsr__buffer_release(&reasons);
  return rc;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool seconds_of(tsr_text_part text, int64_t *seconds) {
  *seconds = 0;
  for (uint64_t i = 0; i < text.size; i++) {
    if (text.at[i] < '0' || text.at[i] > '9' || *seconds > 100000000000) return false;
    *seconds = *seconds * 10 + (text.at[i] - '0');
  }
  return text.size > 0;
}

int tsr__keys_from_token(tsr_provider *provider, tsr_buffer *response, tsr_credentials *credentials, tsr_error *error) {
  tsr_json_member members[] = {{.name = "access_token"}, {.name = "expires_in"}, {.name = "expires_on"}};
  int64_t seconds, expires = INT64_MAX;
  tsr_error damage = {0};
  if (tsr__json_members((char *)response->data, members, sizeof members / sizeof *members, &damage) < 0)
    return tsr__fail(error, TSR_DENIED, "the answer: %s", damage.message);
  if (members[0].text.size == 0) return tsr__fail(error, TSR_DENIED, "the answer has no token");
  if (seconds_of(members[2].text, &seconds)) expires = tsr__keys_expiry(provider, seconds * 1000);
  else if (seconds_of(members[1].text, &seconds)) expires = (int64_t)tsr__moment() + seconds * 1000;
  return tsr__keys_make_token(provider->memory, TSR_KEYS_BEARER, members[0].text, expires, credentials, error);
}

int tsr__keys_ask_token(tsr_provider *provider, const tsr_service_request *what, tsr_credentials *credentials,
                        tsr_error *error) {
  tsr_buffer response = {.memory = provider->memory};
  int rc = tsr__service_ask(provider, what, &response, error);
  if (rc >= 0) rc = tsr__keys_from_token(provider, &response, credentials, error);
  tsr__secret_release(&response);
  return rc;
}
