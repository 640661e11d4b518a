/* dialect_azure.c: the requests and answers of Azure Blob Storage. A container is what others call a bucket.
 *
 * A large blob is a list of blocks, whose ids the client makes: base64 of the 16 random bytes of the upload and of the
 * part's number. Blocks that no list names vanish after a week, so there is nothing to begin, abort or list.
 *
 * A request is signed under the account's key (Shared Key), or carries a token: in a header, or as a shared access
 * signature in the URL. https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/bucket.h"
#include "base/arithmetic.h"
#include "tessera_host.h"
#include "crypto/crypto.h"
#include "remote/answer.h"

#define AZURE_VERSION  "2021-12-02"
#define AZURE_SKEW_MS  600000 /* the service refuses dates that are 15 minutes off, without saying why */
#define AZURE_KEY_MAX  256u /* bytes of an account's key; Azure uses 64 */
#define AZURE_ACCOUNTS "core.windows.net"

/* ---- What answers mean ----------------------------------------------------------------------- */

/* Reads a field of a URL's query as a time: a date, or a date and a time. Returns INT64_MAX if it is missing or
 * neither. */
static int64_t query_time(const char *url, const char *name) {
  const size_t length = strlen(name);
  char text[40];
  size_t size = 0;
  int64_t ms;
  const char *at = strchr(url, '?');
  while (at && (strncmp(at + 1, name, length) != 0 || at[1 + length] != '=')) at = strchr(at + 1, '&');
  for (at = at ? at + length + 2 : ""; *at && *at != '&' && size < sizeof text - 11; size++) {
    const int high = *at == '%' ? tsr_hex_digit(at[1]) : -1, low = high < 0 ? -1 : tsr_hex_digit(at[2]);
    text[size] = low < 0 ? *at : (char)(high << 4 | low);
    at += low < 0 ? 1 : 3;
  }
  text[size] = 0;
  if (!strchr(text, 'T')) strcpy(text + size, "T00:00:00Z");
  return tsr__http_time_parse(text, &ms) ? ms : INT64_MAX;
}

static tsr_meaning azure_judge(const tsr_bucket_state *state, const char *code) {
  static const struct {
    const char *code;
    tsr_meaning meaning;
  } codes[] = {
      {"BlobAlreadyExists", TSR_MEANS_EXISTS},
      {"ConditionNotMet", TSR_MEANS_EXISTS},
      {"BlobNotFound", TSR_MEANS_MISSING},
      {"ContainerNotFound", TSR_MEANS_NO_BUCKET},
      {"InvalidBlockList", TSR_MEANS_NO_UPLOAD},
      {"InvalidRange", TSR_MEANS_RANGE},
      {"ServerBusy", TSR_MEANS_TRANSIENT},
      {"OperationTimedOut", TSR_MEANS_TRANSIENT},
      {"InternalError", TSR_MEANS_TRANSIENT},
      {"Md5Mismatch", TSR_MEANS_TRANSIENT},
      {"ContainerBeingDeleted", TSR_MEANS_NO_BUCKET},
  };
  const uint32_t status = state->http.response.status;
  const tsr_keys_form form = state->made.form;
  const int64_t ours = tsr__bucket_clock() + atomic_load(&state->scope->clocks.skew);
  const int64_t date = state->http.response.date;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (strcmp(code, codes[i].code) == 0) return codes[i].meaning;
  if (status == 403 && date != INT64_MIN && (date > ours + AZURE_SKEW_MS || date < ours - AZURE_SKEW_MS))
    return TSR_MEANS_SKEWED;
  if (status == 403 && form == TSR_KEYS_QUERY && /* a shared access signature says itself when it ends */
      query_time((const char *)state->made.url.data, "se") <= (date != INT64_MIN ? date : ours))
    return TSR_MEANS_EXPIRED;
  if (status == 401) return form == TSR_KEYS_BEARER ? TSR_MEANS_EXPIRED : TSR_MEANS_DENIED;
  if (strcmp(code, "ResourceNotFound") == 0) return form == TSR_KEYS_NONE ? TSR_MEANS_DENIED : TSR_MEANS_MISSING;
  if (strcmp(code, "PublicAccessNotPermitted") == 0) return TSR_MEANS_DENIED;
  if (strcmp(code, "UnauthorizedBlobOverwrite") == 0) /* the permission is to create blobs, and this one exists */
    return state->call->put.new_only ? TSR_MEANS_EXISTS : TSR_MEANS_DENIED;
  switch (status) {
  case 301:
  case 307:
  case 308: return TSR_MEANS_ELSEWHERE;
  case 403: return TSR_MEANS_DENIED;
  case 404: return *code ? TSR_MEANS_REFUSED : TSR_MEANS_MISSING;
  case 408:
  case 429:
  case 500:
  case 502:
  case 503:
  case 504: return TSR_MEANS_TRANSIENT;
  case 412: return *code ? TSR_MEANS_REFUSED : TSR_MEANS_EXISTS;
  case 416: return TSR_MEANS_RANGE;
  default: return TSR_MEANS_REFUSED;
  }
}

/* ---- Making requests ------------------------------------------------------------------------- */

/* Adds the headers of requests that create a blob. */
static void add_new_blob(tsr_draft *d, tsr_bucket_state *state, const char *mark) {
  const tsr_scope_options *o = &state->scope->options;
  tsr__draft_header(d, "x-ms-access-tier", o->storage_class);
  tsr__draft_header(d, "x-ms-encryption-scope", o->encryption_scope);
  tsr__draft_header(d, "if-none-match", state->call->put.new_only ? "*" : NULL);
  tsr__draft_header(d, "x-ms-blob-content-type", mark);
}

static int block_id(const tsr_bucket_call *call, uint32_t part, char id[64], tsr_error *error) {
  uint8_t bytes[TSR_BUCKET_UPLOAD_MARK / 2 + 4];
  if (!tsr_hex_read(call->upload.id, TSR_BUCKET_UPLOAD_MARK / 2, bytes))
    return tsr__fail(error, TSR_NOT_FOUND, "no such upload");
  for (size_t i = 0; i < 4; i++) bytes[TSR_BUCKET_UPLOAD_MARK / 2 + i] = (uint8_t)(part >> (24 - 8 * i));
  (void)tsr_base64_write(TSR_BASE64, bytes, sizeof bytes, id);
  return TSR_OK;
}

static int draft_block_list(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  tsr_buffer *body = &state->body;
  char id[64];
  body->size = 0;
  TSR_TRY(tsr__bucket_body_text(body, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>", error));
  for (uint32_t i = 0; i < call->upload.part_count; i++) {
    TSR_TRY(block_id(call, i + 1, id, error));
    TSR_TRY(tsr__buffer_printf(body, error, "<Latest>%s</Latest>", id));
  }
  TSR_TRY(tsr__bucket_body_text(body, "</BlockList>", error));
  d->method = "PUT";
  tsr__draft_query(d, "comp", "blocklist");
  add_new_blob(d, state, tsr__bucket_mark(state));
  d->body = body->data;
  d->body_size = body->size;
  return TSR_OK;
}

/* Appends the URL of a blob, or of the container for the key "". *path: where the path begins in it. */
static int append_url(const tsr_bucket_scope *scope, const char *key, tsr_buffer *url, uint64_t *path,
                      tsr_error *error) {
  TSR_TRY(tsr__buffer_printf(url, error, "%s://%s", scope->endpoint.scheme, scope->endpoint.host));
  *path = url->size;
  TSR_TRY(tsr__buffer_printf(url, error, "%s/%s%s", scope->endpoint.base, scope->bucket, *key ? "/" : ""));
  return tsr__sigv4_encode(key, true, url, error);
}

/* Appends a shared access signature to a URL. */
static int append_sas(tsr_buffer *url, const char *sas, bool first, tsr_error *error) {
  return tsr__bucket_append_secret(url, first ? "?" : "&", sas + (*sas == '?'), error);
}

static int azure_draft(tsr_bucket_state *state, tsr_draft *d, tsr_error *error) {
  const tsr_bucket_call *call = state->call;
  switch (call->kind) {
  case TSR_BUCKET_GET:
    tsr__draft_header(d, "x-ms-range", tsr__draft_range(state, d));
    if (state->got.sized || (state->got.placed && state->got.have > 0))
      tsr__draft_header(d, "if-match", state->got.etag.text);
    return TSR_OK;
  case TSR_BUCKET_HEAD: d->method = "HEAD"; return TSR_OK;
  case TSR_BUCKET_LIST:
    d->key = "";
    tsr__draft_query(d, "restype", "container");
    tsr__draft_query(d, "comp", "list");
    if (*call->key) tsr__draft_query(d, "prefix", call->key);
    d->number[0] = call->list.delimiter;
    if (call->list.delimiter) tsr__draft_query(d, "delimiter", d->number);
    if (state->page.token.size > 0) tsr__draft_query(d, "marker", (const char *)state->page.token.data);
    return TSR_OK;
  case TSR_BUCKET_PUT:
    d->method = "PUT";
    d->body = call->put.bytes;
    d->body_size = call->put.size;
    tsr__draft_header(d, "x-ms-blob-type", "BlockBlob");
    add_new_blob(d, state, call->put.new_only ? tsr__bucket_mark(state) : NULL);
    return TSR_OK;
  case TSR_BUCKET_DELETE_MANY:
    state->deleted.batch = 1;
    d->key = call->keys[state->deleted.at];
    d->method = "DELETE";
    return TSR_OK;
  case TSR_BUCKET_DELETE: d->method = "DELETE"; return TSR_OK;
  case TSR_BUCKET_COPY: d->method = "PUT"; return TSR_OK; /* azure_sign adds the source */
  case TSR_BUCKET_UPLOAD_PART:
    d->method = "PUT";
    TSR_TRY(block_id(call, call->upload.part, d->block, error));
    tsr__draft_query(d, "comp", "block");
    tsr__draft_query(d, "blockid", d->block);
    tsr__draft_header(d, "x-ms-encryption-scope", state->scope->options.encryption_scope);
    d->body = call->put.bytes;
    d->body_size = call->put.size;
    return TSR_OK;
  case TSR_BUCKET_UPLOAD_COMPLETE: return draft_block_list(state, d, error);
  case TSR_BUCKET_UPLOAD_CREATE:
  case TSR_BUCKET_UPLOAD_ABORT:
  case TSR_BUCKET_UPLOAD_LIST: break;
  }
  return tsr__fail(error, TSR_ERROR, "no such kind of call: %d", (int)call->kind);
}

/* ---- Taking answers -------------------------------------------------------------------------- */

static tsr_bucket_outcome azure_take(tsr_bucket_state *state) {
  const tsr_http_response *response = &state->http.response;
  tsr_etag *etag = &state->call->result.etag;
  if (state->call->kind == TSR_BUCKET_COPY && strcmp(response->copy_status, "pending") == 0) {
    state->step = TSR_BUCKET_STEP_COPYING;
    return TSR_BUCKET_NEXT;
  }
  if (state->call->kind == TSR_BUCKET_COPY && strcmp(response->copy_status, "success") != 0)
    return tsr__bucket_fail(state, TSR_ERROR, response->copy_status, "the server has not completed the copy");
  (void)snprintf(etag->text, sizeof etag->text, "%s", response->etag);
  return TSR_BUCKET_DONE;
}

/* ---- Signing --------------------------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b) {
  return strcmp(((const tsr_sigv4_pair *)a)->name, ((const tsr_sigv4_pair *)b)->name);
}

static const char *header_of(const tsr_draft *d, const char *name) {
  for (uint32_t i = 0; i < d->header_count; i++)
    if (strcmp(d->headers[i].name, name) == 0) return d->headers[i].value;
  return "";
}

int tsr__azure_string_to_sign(tsr_draft *d, const char *account, const char *path, tsr_buffer *text, tsr_error *error) {
  char size[24] = "";
  if (d->body_size > 0) (void)snprintf(size, sizeof size, "%" PRIu64, d->body_size);
  TSR_TRY(tsr__buffer_printf(text, error, "%s\n\n\n%s\n%s\n%s\n%s\n\n%s\n%s\n\n%s\n", d->method, size,
                             header_of(d, "content-md5"), header_of(d, "content-type"), header_of(d, "date"),
                             header_of(d, "if-match"), header_of(d, "if-none-match"), header_of(d, "range")));
  qsort(d->headers, d->header_count, sizeof *d->headers, compare_pairs);
  for (uint32_t i = 0; i < d->header_count; i++)
    if (strncmp(d->headers[i].name, "x-ms-", 5) == 0)
      TSR_TRY(tsr__buffer_printf(text, error, "%s:%s\n", d->headers[i].name, d->headers[i].value));
  TSR_TRY(tsr__buffer_printf(text, error, "/%s%s", account, path));
  if (d->query_count > 0) qsort(d->query, d->query_count, sizeof *d->query, compare_pairs);
  for (uint32_t i = 0; i < d->query_count; i++)
    TSR_TRY(tsr__buffer_printf(text, error, "\n%s:%s", d->query[i].name, d->query[i].value));
  return TSR_OK;
}

/* Decodes an account's key. Returns its size; 0 if it is not base64. */
static uint64_t decode_key(const char *text, uint8_t key[AZURE_KEY_MAX]) {
  const uint64_t length = strlen(text);
  uint64_t size;
  return length <= AZURE_KEY_MAX / 3 * 4 && tsr_base64_read(TSR_BASE64, text, length, key, &size) ? size : 0;
}

/* Writes "SharedKey ACCOUNT:SIGNATURE". `path` is that of the URL. */
static int shared_key(const tsr_bucket_scope *scope, tsr_draft *d, const char *secret, const char *path,
                      tsr_buffer *authorization, tsr_error *error) {
  uint8_t key[AZURE_KEY_MAX], mac[TSR_SHA256_SIZE];
  char signature[48];
  tsr_buffer text = {.memory = authorization->memory};
  if (!scope->account) return tsr__fail(error, TSR_DENIED, "%s: whose key is it? Set the option account", scope->name);
  const uint64_t size = decode_key(secret, key);
  int rc = size > 0 ? TSR_OK : tsr__fail(error, TSR_DENIED, "the key of the account is not base64");
  if (rc >= 0) rc = tsr__azure_string_to_sign(d, scope->account, path, &text, error);
  if (rc >= 0) rc = tsr__hmac_sha256(key, size, text.data, text.size, mac, error);
  if (rc >= 0) {
    (void)tsr_base64_write(TSR_BASE64, mac, sizeof mac, signature);
    rc = tsr__buffer_printf(authorization, error, "SharedKey %s:%s", scope->account, signature);
  }
  tsr__wipe(key, sizeof key);
  tsr__buffer_release(&text);
  return rc;
}

/* Appends "?name=value&..." to the URL, encoded. */
static int append_query(const tsr_draft *d, tsr_buffer *url, tsr_error *error) {
  for (uint32_t i = 0; i < d->query_count; i++) {
    TSR_TRY(tsr__buffer_printf(url, error, "%s%s=", i > 0 ? "&" : "?", d->query[i].name));
    TSR_TRY(tsr__sigv4_encode(d->query[i].value, false, url, error));
  }
  return TSR_OK;
}

/* Writes the source of a copy, whose URL carries the same shared access signature. */
static int write_source(const tsr_bucket_state *state, tsr_draft *d, const tsr_credentials *credentials,
                        tsr_error *error) {
  uint64_t path;
  TSR_TRY(tsr__buffer_reserve_exactly(&d->text, 3 * strlen(state->call->source) + credentials->size + 2048, error));
  TSR_TRY(append_url(state->scope, state->call->source, &d->text, &path, error));
  if (credentials->form == TSR_KEYS_QUERY) TSR_TRY(append_sas(&d->text, credentials->token, true, error));
  tsr__draft_header(d, "x-ms-copy-source", (const char *)d->text.data);
  return TSR_OK;
}

static int azure_sign(tsr_bucket_state *state, tsr_draft *d, const tsr_credentials *credentials, tsr_error *error) {
  tsr_bucket_scope *scope = state->scope;
  tsr_buffer authorization = {.memory = state->memory}, path = {.memory = state->memory}, *url = &state->made.url;
  char date[TSR_HTTP_DATE_SIZE];
  uint8_t md5[TSR_MD5_SIZE];
  uint64_t path_at;
  state->made.form = credentials->form;
  if (state->call->kind == TSR_BUCKET_COPY && state->step == TSR_BUCKET_STEP_CALL)
    TSR_TRY(write_source(state, d, credentials, error));
  tsr__http_date(tsr__bucket_clock() + atomic_load(&scope->clocks.skew), date);
  tsr__draft_header(d, "x-ms-date", date);
  tsr__draft_header(d, "x-ms-version", AZURE_VERSION);
  if (d->body_size > 0 && strcmp(scope->endpoint.scheme, "https") != 0) { /* bodies are not signed */
    TSR_TRY(tsr__md5(d->body, d->body_size, md5, error));
    (void)tsr_base64_write(TSR_BASE64, md5, sizeof md5, d->digest);
    tsr__draft_header(d, "content-md5", d->digest);
  }
  if (url->data) tsr__wipe(url->data, url->capacity);
  tsr__buffer_release(url);
  TSR_TRY(tsr__buffer_reserve_exactly(url, 3 * strlen(d->key) + credentials->size + 16384, error)); /* holds a SAS */
  TSR_TRY(append_url(scope, d->key, url, &path_at, error));
  int rc = tsr__buffer_printf(&path, error, "%s", (const char *)url->data + path_at);
  if (rc >= 0 && credentials->form == TSR_KEYS_SIGN)
    rc = shared_key(scope, d, credentials->secret, (const char *)path.data, &authorization, error);
  if (rc >= 0 && credentials->form == TSR_KEYS_BEARER)
    rc = tsr__bucket_append_bearer(&authorization, credentials->token, error);
  if (rc >= 0) rc = append_query(d, url, error);
  if (rc >= 0 && credentials->form == TSR_KEYS_QUERY)
    rc = append_sas(url, credentials->token, d->query_count == 0, error);
  if (authorization.size > 0) tsr__draft_header(d, "authorization", (const char *)authorization.data);
  const tsr_sigv4_request request = {
      .method = d->method, .path = "/", .headers = d->headers, .header_count = d->header_count};
  if (rc >= 0) rc = tsr__sigv4_sign(&request, NULL, &state->made.lines, error); /* the lines alone */
  if (authorization.data) tsr__wipe(authorization.data, authorization.capacity);
  tsr__buffer_release(&authorization);
  tsr__buffer_release(&path);
  return rc;
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

/* Returns true for an address in place of a host's name: an emulator, which takes the name of the account from the
 * path. */
static bool is_address(const char *host) {
  const size_t size = strcspn(host, ":");
  return *host == '[' || (size == 9 && memcmp(host, "localhost", 9) == 0) || strspn(host, "0123456789.") == size;
}

/* Keeps the name of the account: that of the option, else of the endpoint. */
static int keep_account(tsr_bucket_scope *scope, const char *account, tsr_error *error) {
  const tsr_bucket_endpoint *endpoint = &scope->endpoint;
  if (!*endpoint->base && is_address(endpoint->host))
    return tsr__fail(error, TSR_ERROR, "endpoint: an emulator's ends with the account: %s://%s/%s", endpoint->scheme,
                     endpoint->host, account ? account : "ACCOUNT");
  const char *from = account ? account : *endpoint->base ? endpoint->base + 1 : endpoint->host;
  const size_t size = strcspn(from, account ? "" : *endpoint->base ? "/" : ".:");
  char *copy;
  TSR_TRY(TSR_ARENA_COPY(&scope->texts, from, size, &copy, error));
  scope->account = copy;
  if (size > 0 && tsr__bucket_text_has_only(copy, "-", 63)) return TSR_OK;
  return tsr__fail(error, TSR_ERROR, "account: '%.64s' is not the name of a storage account", copy);
}

/* The endpoint and the account that the environment names. Only the providers `env` and `auto` look there. */
static int environment_endpoint(tsr_bucket_scope *scope, char account[64], char endpoint[512]) {
  const bool looks = scope->provider.kind == TSR_PROVIDER_ENV || scope->provider.kind == TSR_PROVIDER_AUTO;
  if (!looks) return 0;
  const tsr_text_part blob = tsr__azure_connection("BlobEndpoint"), name = tsr__azure_connection("AccountName"),
                      suffix = tsr__azure_connection("EndpointSuffix");
  const char *variable = tsr__keys_variable("AZURE_STORAGE_ACCOUNT");
  const tsr_text_part found = name.size > 0 || blob.size > 0 ? name : tsr__text_of(variable);
  (void)snprintf(account, 64, "%.*s", (int)TSR_MIN(found.size, 63), found.size > 0 ? found.at : "");
  if (blob.size > 0) return snprintf(endpoint, 512, "%.*s", (int)TSR_MIN(blob.size, 511), blob.at);
  if (*account && suffix.size > 0)
    return snprintf(endpoint, 512, "https://%s.blob.%.*s", account, (int)TSR_MIN(suffix.size, 256), suffix.at);
  return 0;
}

static int azure_configure(tsr_bucket_scope *scope, tsr_error *error) {
  const tsr_scope_options *o = &scope->options;
  char account[64] = "", endpoint[512] = "";
  if (o->endpoint) {
    TSR_TRY(tsr__bucket_scope_endpoint(scope, o->endpoint, error));
    return keep_account(scope, o->account, error);
  }
  if (o->account) (void)snprintf(account, sizeof account, "%.63s", o->account);
  else (void)environment_endpoint(scope, account, endpoint);
  if (!*account && !*endpoint)
    return tsr__fail(error, TSR_ERROR, "account: which storage account has the container? Set account, or endpoint");
  if (*account && (!tsr__bucket_text_has_only(account, "-", 63) || (o->account && strlen(o->account) > 63)))
    return tsr__fail(error, TSR_ERROR, "account: '%.64s' is not the name of a storage account",
                     o->account ? o->account : account);
  if (!*endpoint) (void)snprintf(endpoint, sizeof endpoint, "https://%s.blob." AZURE_ACCOUNTS, account);
  TSR_TRY(tsr__bucket_scope_endpoint(scope, endpoint, error));
  return keep_account(scope, *account ? account : NULL, error);
}

static int azure_keys_of(const tsr_bucket_scope *scope, const tsr_scope_options *given, tsr_provider_options *options,
                         tsr_error *error) {
  const bool client = tsr__bucket_is_set(given->tenant_id) || tsr__bucket_is_set(given->client_id) ||
                      tsr__bucket_is_set(given->client_secret);
  if (tsr__bucket_is_set(given->key) + tsr__bucket_is_set(given->sas) + tsr__bucket_is_set(given->token) + client != 1)
    return tsr__fail(error, TSR_ERROR,
                     "the keys are one of: key; sas; token; or tenant_id, client_id and client_secret together");
  if (client && !(tsr__bucket_is_set(given->tenant_id) && tsr__bucket_is_set(given->client_id) &&
                  tsr__bucket_is_set(given->client_secret)))
    return tsr__fail(error, TSR_ERROR, "tenant_id, client_id and client_secret are needed together");
  if (tsr__bucket_is_set(given->key)) {
    uint8_t key[AZURE_KEY_MAX];
    const uint64_t size = decode_key(given->key, key);
    tsr__wipe(key, sizeof key);
    if (size == 0) return tsr__fail(error, TSR_ERROR, "key: the key of a storage account is base64");
    options->key_id = scope->account;
    options->secret = given->key;
  }
  if (tsr__bucket_is_set(given->sas) && (!strstr(given->sas, "sig=") || strstr(given->sas, "://")))
    return tsr__fail(error, TSR_ERROR,
                     "sas: a shared access signature has sig=, and is what follows the '?' of its URL");
  options->token = tsr__bucket_is_set(given->sas) ? given->sas : tsr__bucket_is_set(given->token) ? given->token : NULL;
  options->form = tsr__bucket_is_set(given->sas) ? TSR_KEYS_QUERY : TSR_KEYS_BEARER;
  options->tenant_id = given->tenant_id;
  options->client_id = given->client_id;
  options->client_secret = given->client_secret;
  return TSR_OK;
}

const tsr_dialect tsr__dialect_azure = {.scheme = "azure",
                                        .noun = "container",
                                        .condition = "If-None-Match",
                                        .forbidden = "\\", /* which it reads as '/' */
                                        .drops_dots = true,
                                        .marks_uploads = true,
                                        .conditional_completions = true,
                                        .deletion_keys = 1,
                                        .keys = "key, sas, token, tenant_id, client_id and client_secret",
                                        .configure = azure_configure,
                                        .keys_of = azure_keys_of,
                                        .find_keys = tsr__keys_azure,
                                        .draft = azure_draft,
                                        .sign = azure_sign,
                                        .listing = tsr__azure_response_listing,
                                        .judge = azure_judge,
                                        .read_answer = azure_take};
