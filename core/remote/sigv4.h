/* sigv4.h: AWS Signature Version 4, and Google's, which differs from it in some words. It is the variant that S3
 * requires: the path is percent-encoded once, and every header that is sent is signed.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 * https://cloud.google.com/storage/docs/authentication/signatures */
#ifndef TSR_SIGV4_H
#define TSR_SIGV4_H

#include "base/memory.h"
#include "crypto/crypto.h"

/* The words of one maker of object stores. */
typedef struct tsr_sigv4_words {
  const char *prefix, *algorithm, *terminator; /* "AWS4", "AWS4-HMAC-SHA256", "aws4_request" */
  const char *date, *digest, *token; /* names of headers */
} tsr_sigv4_words;
extern const tsr_sigv4_words tsr__sigv4_aws, tsr__sigv4_google;

/* A signing key, valid for one day, region and service. The caller keeps it for that day, and wipes it (tsr__wipe). */
typedef struct tsr_sigv4_key {
  uint8_t bytes[TSR_SHA256_SIZE];
  char day[9]; /* "20261122", UTC */
  char region[64], service[16];
  const tsr_sigv4_words *words;
} tsr_sigv4_key;

/* Derives the key for the day of `now` (milliseconds since 1970). Errors: TSR_RANGE for a region or service that is too
 * long for the structure, or has characters other than letters, digits, '-', '_' and '.'. */
int tsr__sigv4_key_make(tsr_sigv4_key *key, const tsr_sigv4_words *words, const char *secret, int64_t now,
                        const char *region, const char *service, tsr_error *error);

/* Returns true if the key is valid for the day of `now` and for this region and service. A zeroed key never is. */
bool tsr__sigv4_key_fits(const tsr_sigv4_key *key, int64_t now, const char *region, const char *service);

/* A name and its value, neither encoded. */
typedef struct tsr_sigv4_pair {
  const char *name, *value;
} tsr_sigv4_pair;

/* The request to sign. All pointers are borrowed. */
typedef struct tsr_sigv4_request {
  const char *method;
  const char *host; /* as in the Host header: with the port, unless it is the scheme's default */
  const char *path; /* not encoded; begins with '/' */
  const tsr_sigv4_pair *query; /* in any order; a value of NULL or "" is sent as "name=" */
  uint32_t query_count; /* at most TSR_SIGV4_PAIRS_MAX */
  const tsr_sigv4_pair *headers; /* to send and to sign, in any order; without host, x-amz-date, x-amz-content-sha256,
                                    x-amz-security-token and authorization. Values may not begin or end with spaces */
  uint32_t header_count; /* at most TSR_SIGV4_PAIRS_MAX */
  const uint8_t *payload_sha256; /* TSR_SHA256_SIZE bytes; NULL: the body is not signed ("UNSIGNED-PAYLOAD") */
} tsr_sigv4_request;

#define TSR_SIGV4_PAIRS_MAX 16u

/* Who signs. All pointers are borrowed. */
typedef struct tsr_sigv4_signer {
  const char *key_id;
  const char *session_token; /* NULL: none */
  const tsr_sigv4_key *key; /* fits `now` */
  int64_t now; /* milliseconds since 1970, by the server's clock */
} tsr_sigv4_signer;

/* Appends the encoded path and query to `target`: "/bucket/some%20key?list-type=2&prefix=a%2F", and a NUL byte that the
 * size does not count. The URL of the request is scheme and host followed by this. The query is in signing order. */
int tsr__sigv4_target(const tsr_sigv4_request *request, tsr_buffer *target, tsr_error *error);

/* Header lines "Name: value" for tsr_http_request. Zero it and set text.memory. */
typedef struct tsr_sigv4_lines {
  const char *lines[TSR_SIGV4_PAIRS_MAX + 4]; /* borrowed from `text` */
  uint32_t count;
  tsr_buffer text;
} tsr_sigv4_lines;

/* Signs a request and fills `lines` with all headers to send: the request's own, x-amz-date, x-amz-content-sha256,
 * x-amz-security-token and Authorization. With a NULL `signer` (anonymous), only the request's own. `lines` is emptied
 * first, so one structure can be reused. Errors: TSR_RANGE for too many pairs, and for names and values with control
 * characters. */
int tsr__sigv4_sign(const tsr_sigv4_request *request, const tsr_sigv4_signer *signer, tsr_sigv4_lines *lines,
                    tsr_error *error);

/* Wipes and frees the text. */
void tsr__sigv4_lines_release(tsr_sigv4_lines *lines);

/* Appends `text` percent-encoded: all bytes but letters, digits and "-._~" become %XX, except '/' if `slashes` is true.
 * Also appends a NUL byte that the size does not count. */
int tsr__sigv4_encode(const char *text, bool slashes, tsr_buffer *out, tsr_error *error);

#endif
