/* sigv4.c: AWS Signature Version 4.
 *
 * A request is signed in three steps. The canonical request is a text made of its method, encoded path, sorted and
 * encoded query, sorted headers in lower case, the headers' names, and the payload's digest. The string to sign is the
 * algorithm, the time, the scope (day/region/service/aws4_request) and the digest of the canonical request. The
 * signature is the HMAC of that string under a key that is derived from the secret by four HMACs over the parts of the
 * scope.
 *
 * Canonical requests and header lines contain session tokens. They are written into buffers that get their final size
 * first, so that no growth leaves a copy behind, and are wiped. */
#include "remote/sigv4.h"

#include <string.h>

#include "base/arithmetic.h"
#include "remote/http_response.h"

#define SIGV4_UNSIGNED   "UNSIGNED-PAYLOAD"
#define SIGV4_SECRET_MAX 512u /* bytes of a secret access key; AWS uses 40 */
#define SIGV4_OWN        4u /* headers that we add to the request's own */

const tsr_sigv4_words tsr__sigv4_aws = {"AWS4",       "AWS4-HMAC-SHA256",     "aws4_request",
                                        "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"};
const tsr_sigv4_words tsr__sigv4_google = {"GOOG4",       "GOOG4-HMAC-SHA256",     "goog4_request",
                                           "x-goog-date", "x-goog-content-sha256", "x-goog-security-token"};

/* ---- The signing key ------------------------------------------------------------------------- */

static bool part_is_plain(const char *part, uint64_t room) {
  const uint64_t size = strlen(part);
  return size > 0 && size < room &&
         strspn(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == size;
}

static void find_day(int64_t now, char day[9]) {
  char stamp[TSR_HTTP_STAMP_SIZE];
  tsr__http_time_stamp(now, stamp);
  memcpy(day, stamp, 8);
  day[8] = 0;
}

int tsr__sigv4_key_make(tsr_sigv4_key *key, const tsr_sigv4_words *words, const char *secret, int64_t now,
                        const char *region, const char *service, tsr_error *error) {
  tsr_sigv4_key made = {.words = words};
  uint8_t first[8 + SIGV4_SECRET_MAX];
  const uint64_t start = strlen(words->prefix);
  const uint64_t size = strlen(secret);
  if (!part_is_plain(region, sizeof made.region))
    return tsr__fail(error, TSR_RANGE, "'%s' cannot be a region of an object store", region);
  if (!part_is_plain(service, sizeof made.service))
    return tsr__fail(error, TSR_RANGE, "'%s' cannot be a service of an object store", service);
  if (size > SIGV4_SECRET_MAX)
    return tsr__fail(error, TSR_RANGE, "a secret access key of %llu bytes is too long", (unsigned long long)size);
  find_day(now, made.day);
  memcpy(made.region, region, strlen(region));
  memcpy(made.service, service, strlen(service));
  memcpy(first, words->prefix, start);
  memcpy(first + start, secret, size);
  int rc = tsr__hmac_sha256(first, start + size, made.day, 8, made.bytes, error);
  tsr__wipe(first, sizeof first);
  const char *const parts[] = {made.region, made.service, words->terminator};
  for (unsigned i = 0; i < 3 && rc >= 0; i++)
    rc = tsr__hmac_sha256(made.bytes, sizeof made.bytes, parts[i], strlen(parts[i]), made.bytes, error);
  if (rc >= 0) *key = made;
  tsr__wipe(&made, sizeof made);
  return rc;
}

bool tsr__sigv4_key_fits(const tsr_sigv4_key *key, int64_t now, const char *region, const char *service) {
  char day[9];
  find_day(now, day);
  return strcmp(key->day, day) == 0 && strcmp(key->region, region) == 0 && strcmp(key->service, service) == 0;
}

/* ---- Encoding -------------------------------------------------------------------------------- */

static bool is_unreserved(uint8_t c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int tsr__sigv4_encode(const char *text, bool slashes, tsr_buffer *out, tsr_error *error) {
  static const char digits[] = "0123456789ABCDEF";
  const uint64_t size = strlen(text);
  uint64_t encoded = size;
  for (uint64_t i = 0; i < size; i++)
    if (!is_unreserved((uint8_t)text[i]) && !(slashes && text[i] == '/')) encoded += 2;
  TSR_TRY(tsr__buffer_reserve(out, encoded + 1, error));
  uint8_t *to = out->data + out->size;
  for (uint64_t i = 0; i < size; i++) {
    const uint8_t c = (uint8_t)text[i];
    if (is_unreserved(c) || (slashes && c == '/')) {
      *to++ = c;
    } else {
      *to++ = '%';
      *to++ = (uint8_t)digits[c >> 4];
      *to++ = (uint8_t)digits[c & 15];
    }
  }
  *to = 0;
  out->size += encoded;
  return TSR_OK;
}

/* Iterates over the characters of a text's encoded form, for comparing without a buffer. */
typedef struct encoded_text {
  const char *at;
  unsigned part; /* 0: the byte itself, or '%'; 1, 2: its digits */
} encoded_text;

static char encoded_next(encoded_text *t) {
  static const char digits[] = "0123456789ABCDEF";
  const uint8_t c = (uint8_t)*t->at;
  if (c == 0) return 0;
  if (is_unreserved(c)) return (t->at++, (char)c);
  const char found = t->part == 0 ? '%' : t->part == 1 ? digits[c >> 4] : digits[c & 15];
  if (++t->part == 3) t->at++, t->part = 0;
  return found;
}

/* Compares the encoded forms of two texts. */
static int compare_encoded(const char *a, const char *b) {
  encoded_text left = {a ? a : "", 0}, right = {b ? b : "", 0};
  for (;;) {
    const uint8_t x = (uint8_t)encoded_next(&left), y = (uint8_t)encoded_next(&right);
    if (x != y) return x < y ? -1 : 1;
    if (x == 0) return 0;
  }
}

/* Sorts the indexes of the query's pairs by encoded name and value. */
static void sort_query(const tsr_sigv4_request *request, uint32_t order[TSR_SIGV4_PAIRS_MAX]) {
  for (uint32_t i = 0; i < request->query_count; i++) {
    uint32_t at = i;
    for (; at > 0; at--) {
      const tsr_sigv4_pair *before = &request->query[order[at - 1]], *pair = &request->query[i];
      int way = compare_encoded(before->name, pair->name);
      if (way == 0) way = compare_encoded(before->value, pair->value);
      if (way <= 0) break;
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
}

static int append_text(tsr_buffer *out, const char *text, tsr_error *error) {
  return tsr__buffer_append(out, text, strlen(text), error);
}

static int append_query(const tsr_sigv4_request *request, tsr_buffer *out, tsr_error *error) {
  uint32_t order[TSR_SIGV4_PAIRS_MAX];
  sort_query(request, order);
  for (uint32_t i = 0; i < request->query_count; i++) {
    const tsr_sigv4_pair *pair = &request->query[order[i]];
    if (i > 0) TSR_TRY(append_text(out, "&", error));
    TSR_TRY(tsr__sigv4_encode(pair->name, false, out, error));
    TSR_TRY(append_text(out, "=", error));
    TSR_TRY(tsr__sigv4_encode(pair->value ? pair->value : "", false, out, error));
  }
  return TSR_OK;
}

static int check_pairs(const tsr_sigv4_request *request, tsr_error *error) {
  if (request->query_count > TSR_SIGV4_PAIRS_MAX || request->header_count > TSR_SIGV4_PAIRS_MAX)
    return tsr__fail(error, TSR_RANGE, "a request to an object store has at most %u headers and %u query fields",
                     TSR_SIGV4_PAIRS_MAX, TSR_SIGV4_PAIRS_MAX);
  if (request->path[0] != '/')
    return tsr__fail(error, TSR_RANGE, "the path of a request to an object store begins with '/'");
  return TSR_OK;
}

int tsr__sigv4_target(const tsr_sigv4_request *request, tsr_buffer *target, tsr_error *error) {
  TSR_TRY(check_pairs(request, error));
  const uint64_t before = target->size;
  int rc = tsr__sigv4_encode(request->path, true, target, error);
  if (rc >= 0 && request->query_count > 0) rc = append_text(target, "?", error);
  if (rc >= 0) rc = append_query(request, target, error);
  if (rc >= 0) rc = tsr__buffer_reserve(target, 1, error);
  if (rc >= 0) target->data[target->size] = 0;
  else target->size = before;
  return rc;
}

/* ---- Headers --------------------------------------------------------------------------------- */

/* All headers of a request, sorted by name case-insensitively. */
typedef struct sigv4_headers {
  tsr_sigv4_pair at[TSR_SIGV4_PAIRS_MAX + SIGV4_OWN];
  uint32_t count;
  char stamp[TSR_HTTP_STAMP_SIZE]; /* the value of x-amz-date */
  char payload[2 * TSR_SHA256_SIZE + 1]; /* the value of x-amz-content-sha256 */
} sigv4_headers;

static char lower_letter(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

static int compare_names(const char *a, const char *b) {
  while (*a && lower_letter(*a) == lower_letter(*b)) a++, b++;
  return (int)(uint8_t)lower_letter(*a) - (int)(uint8_t)lower_letter(*b);
}

/* Errors: TSR_RANGE if the name is not an HTTP token, the value has control characters, or the name is a duplicate. */
static int add_header(sigv4_headers *headers, const char *name, const char *value, tsr_error *error) {
  if (!part_is_plain(name, UINT64_MAX))
    return tsr__fail(error, TSR_RANGE, "a name of a header has characters that are not allowed there");
  for (const char *c = value; *c; c++)
    if ((uint8_t)*c < 0x20 || *c == 0x7f)
      return tsr__fail(error, TSR_RANGE, "the value of header '%s' has control characters", name);
  uint32_t at = headers->count;
  while (at > 0 && compare_names(headers->at[at - 1].name, name) > 0) at--;
  if (at > 0 && compare_names(headers->at[at - 1].name, name) == 0)
    return tsr__fail(error, TSR_RANGE, "the header '%s' is given twice", name);
  memmove(&headers->at[at + 1], &headers->at[at], (headers->count - at) * sizeof *headers->at);
  headers->at[at] = (tsr_sigv4_pair){name, value};
  headers->count++;
  return TSR_OK;
}

static void write_hex(const uint8_t *bytes, char hex[2 * TSR_SHA256_SIZE + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (unsigned i = 0; i < TSR_SHA256_SIZE; i++) {
    hex[2 * i] = digits[bytes[i] >> 4];
    hex[2 * i + 1] = digits[bytes[i] & 15];
  }
  hex[2 * TSR_SHA256_SIZE] = 0;
}

static int collect_headers(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer, sigv4_headers *headers,
                           tsr_error *error) {
  headers->count = 0;
  for (uint32_t i = 0; i < request->header_count; i++)
    TSR_TRY(add_header(headers, request->headers[i].name, request->headers[i].value, error));
  if (!signer) return TSR_OK;
  tsr__http_time_stamp(signer->now, headers->stamp);
  if (request->payload_sha256) write_hex(request->payload_sha256, headers->payload);
  else memcpy(headers->payload, SIGV4_UNSIGNED, sizeof SIGV4_UNSIGNED);
  TSR_TRY(add_header(headers, "host", request->host, error));
  TSR_TRY(add_header(headers, signer->key->words->date, headers->stamp, error));
  TSR_TRY(add_header(headers, signer->key->words->digest, headers->payload, error));
  if (signer->session_token) TSR_TRY(add_header(headers, signer->key->words->token, signer->session_token, error));
  return TSR_OK;
}

/* Appends a value, trimmed, with runs of spaces collapsed to one. */
static int append_header_value(tsr_buffer *out, const char *value, tsr_error *error) {
  while (*value == ' ') value++;
  while (*value) {
    uint64_t word = strcspn(value, " "), spaces = strspn(value + word, " ");
    TSR_TRY(tsr__buffer_append(out, value, word, error));
    value += word + spaces;
    if (*value) TSR_TRY(append_text(out, " ", error));
  }
  return TSR_OK;
}

static int append_lower(tsr_buffer *out, const char *name, tsr_error *error) {
  const uint64_t from = out->size;
  TSR_TRY(append_text(out, name, error));
  for (uint64_t i = from; i < out->size; i++) out->data[i] = (uint8_t)lower_letter((char)out->data[i]);
  return TSR_OK;
}

/* Appends "host;range;x-amz-date". */
static int append_names(tsr_buffer *out, const sigv4_headers *headers, tsr_error *error) {
  for (uint32_t i = 0; i < headers->count; i++) {
    if (i > 0) TSR_TRY(append_text(out, ";", error));
    TSR_TRY(append_lower(out, headers->at[i].name, error));
  }
  return TSR_OK;
}

/* ---- The signature --------------------------------------------------------------------------- */

static int append_canonical(const tsr_sigv4_request *request, const sigv4_headers *headers, tsr_buffer *out,
                            tsr_error *error) {
  TSR_TRY(append_text(out, request->method, error));
  TSR_TRY(append_text(out, "\n", error));
  TSR_TRY(tsr__sigv4_encode(request->path, true, out, error));
  TSR_TRY(append_text(out, "\n", error));
  TSR_TRY(append_query(request, out, error));
  TSR_TRY(append_text(out, "\n", error));
  for (uint32_t i = 0; i < headers->count; i++) {
    TSR_TRY(append_lower(out, headers->at[i].name, error));
    TSR_TRY(append_text(out, ":", error));
    TSR_TRY(append_header_value(out, headers->at[i].value, error));
    TSR_TRY(append_text(out, "\n", error));
  }
  TSR_TRY(append_text(out, "\n", error));
  TSR_TRY(append_names(out, headers, error));
  TSR_TRY(append_text(out, "\n", error));
  return append_text(out, headers->payload, error);
}

static int append_scope(tsr_buffer *out, const tsr_sigv4_key *key, tsr_error *error) {
  return tsr__buffer_printf(out, error, "%s/%s/%s/%s", key->day, key->region, key->service, key->words->terminator);
}

/* Writes the signature in hexadecimal. `scratch` has room for everything. */
static int compute_signature(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer,
                             const sigv4_headers *headers, tsr_buffer *scratch, char signature[2 * TSR_SHA256_SIZE + 1],
                             tsr_error *error) {
  uint8_t digest[TSR_SHA256_SIZE];
  char hex[2 * TSR_SHA256_SIZE + 1];
  TSR_TRY(append_canonical(request, headers, scratch, error));
  TSR_TRY(tsr__sha256(scratch->data, scratch->size, digest, error));
  write_hex(digest, hex);
  tsr__wipe(scratch->data, scratch->size);
  scratch->size = 0;
  TSR_TRY(tsr__buffer_printf(scratch, error, "%s\n%s\n", signer->key->words->algorithm, headers->stamp));
  TSR_TRY(append_scope(scratch, signer->key, error));
  TSR_TRY(tsr__buffer_printf(scratch, error, "\n%s", hex));
  TSR_TRY(tsr__hmac_sha256(signer->key->bytes, sizeof signer->key->bytes, scratch->data, scratch->size, digest, error));
  write_hex(digest, signature);
  return TSR_OK;
}

/* An upper bound for the size in bytes of the canonical request, and for that of all lines. */
static uint64_t bound_signed_text(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer,
                                  const sigv4_headers *headers) {
  uint64_t size = 2048 + strlen(request->method) + 3 * strlen(request->path);
  for (uint32_t i = 0; i < request->query_count; i++)
    size += 3 * (strlen(request->query[i].name) + strlen(request->query[i].value ? request->query[i].value : "")) + 2;
  for (uint32_t i = 0; i < headers->count; i++)
    size += 3 * strlen(headers->at[i].name) + strlen(headers->at[i].value) + 8;
  return signer ? size + strlen(signer->key_id) : size;
}

static int add_line(tsr_sigv4_lines *lines, uint64_t *starts, const char *name, const char *value, tsr_error *error) {
  starts[lines->count++] = lines->text.size;
  TSR_TRY(append_text(&lines->text, name, error));
  TSR_TRY(append_text(&lines->text, ": ", error));
  TSR_TRY(append_text(&lines->text, value, error));
  return tsr__buffer_append_u8(&lines->text, 0, error);
}

static int add_authorization(tsr_sigv4_lines *lines, uint64_t *starts, const tsr_sigv4_signer *signer,
                             const sigv4_headers *headers, const char *signature, tsr_error *error) {
  starts[lines->count++] = lines->text.size;
  TSR_TRY(append_text(&lines->text, "Authorization: ", error));
  TSR_TRY(append_text(&lines->text, signer->key->words->algorithm, error));
  TSR_TRY(append_text(&lines->text, " Credential=", error));
  TSR_TRY(append_text(&lines->text, signer->key_id, error));
  TSR_TRY(append_text(&lines->text, "/", error));
  TSR_TRY(append_scope(&lines->text, signer->key, error));
  TSR_TRY(append_text(&lines->text, ", SignedHeaders=", error));
  TSR_TRY(append_names(&lines->text, headers, error));
  TSR_TRY(append_text(&lines->text, ", Signature=", error));
  TSR_TRY(append_text(&lines->text, signature, error));
  return tsr__buffer_append_u8(&lines->text, 0, error);
}

static int write_lines(const tsr_sigv4_signer *signer, const sigv4_headers *headers, const char *signature,
                       tsr_sigv4_lines *lines, tsr_error *error) {
  uint64_t starts[TSR_SIGV4_PAIRS_MAX + SIGV4_OWN];
  int rc = TSR_OK;
  for (uint32_t i = 0; i < headers->count && rc >= 0; i++)
    if (!signer || compare_names(headers->at[i].name, "host") != 0)
      rc = add_line(lines, starts, headers->at[i].name, headers->at[i].value, error);
  if (rc >= 0 && signer) rc = add_authorization(lines, starts, signer, headers, signature, error);
  for (uint32_t i = 0; i < lines->count && rc >= 0; i++) lines->lines[i] = (const char *)lines->text.data + starts[i];
  return rc;
}

static void empty_lines(tsr_sigv4_lines *lines) {
  if (lines->text.data) tsr__wipe(lines->text.data, lines->text.capacity);
  lines->text.size = 0;
  lines->count = 0;
}

int tsr__sigv4_sign(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer, tsr_sigv4_lines *lines,
                    tsr_error *error) {
  sigv4_headers headers;
  char signature[2 * TSR_SHA256_SIZE + 1] = "";
  tsr_buffer scratch = {.memory = lines->text.memory};
  empty_lines(lines);
  TSR_TRY(check_pairs(request, error));
  TSR_TRY(collect_headers(request, signer, &headers, error));
  for (const char *c = signer ? signer->key_id : ""; *c; c++)
    if ((uint8_t)*c < 0x21 || *c == 0x7f || *c == ',')
      return tsr__fail(error, TSR_RANGE, "an access key id has characters that are not allowed there");
  const uint64_t room = bound_signed_text(request, signer, &headers);
  tsr__buffer_release(&lines->text); /* it is empty and wiped; growing it would copy it */
  int rc = tsr__buffer_reserve_exactly(&lines->text, room, error);
  if (rc >= 0) rc = tsr__buffer_reserve_exactly(&scratch, room, error);
  if (rc >= 0 && signer) rc = compute_signature(request, signer, &headers, &scratch, signature, error);
  if (rc >= 0) rc = write_lines(signer, &headers, signature, lines, error);
  if (scratch.data) tsr__wipe(scratch.data, scratch.capacity);
  tsr__buffer_release(&scratch);
  if (rc < 0) empty_lines(lines);
  return rc;
}

void tsr__sigv4_lines_release(tsr_sigv4_lines *lines) {
  empty_lines(lines);
  tsr__buffer_release(&lines->text);
}
