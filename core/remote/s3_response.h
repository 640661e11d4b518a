/* s3_response.h: parses the XML answers of S3. Each function parses exactly one kind of answer, and extracts only what
 * tessera uses. Answers are treated as hostile, as files are: sizes, depth and counts are bounded; entities other than
 * the five of XML and character references are rejected, and so is a document type.
 *
 * Each function returns TSR_OK with its result; 1 with *failure set if the answer is an <Error> instead (which S3 may
 * send even with status 200); TSR_CORRUPT if it is neither, with the byte position in the message; or TSR_BUDGET or
 * TSR_NOMEM. All strings are in the arena and NUL-terminated, without NUL bytes inside. `failure` may not be NULL. */
#ifndef TSR_REMOTE_S3_RESPONSE_H
#define TSR_REMOTE_S3_RESPONSE_H

#include "base/memory.h"

/* An <Error>. Missing strings are "". */
typedef struct tsr_s3_failure {
  const char *code; /* for example "NoSuchKey"; never empty */
  const char *message, *request_id;
  const char *region; /* where the bucket is, from AuthorizationHeaderMalformed and the like */
  const char *endpoint; /* from PermanentRedirect */
  const char *key; /* of one object in the answer of DeleteObjects */
} tsr_s3_failure;

/* The body of a response whose status is not 2xx. Returns TSR_OK with *failure set. */
int tsr__s3_response_failure(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_failure *failure,
                             tsr_error *error);

typedef struct tsr_s3_entry {
  const char *key;
  const char *etag; /* with its quotes; "" if missing */
  uint64_t size; /* in bytes */
  int64_t modified; /* in milliseconds since 1970; INT64_MIN: not known */
} tsr_s3_entry;

/* A page of ListObjectsV2. */
typedef struct tsr_s3_listing {
  tsr_s3_entry *entries; /* in the server's order */
  uint64_t entry_count;
  const char **prefixes; /* common prefixes, in the server's order, with the delimiter at the end */
  uint64_t prefix_count;
  const char *next; /* the token of the next page; NULL: this is the last one */
} tsr_s3_listing;

int tsr__s3_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_listing *listing,
                             tsr_s3_failure *failure, tsr_error *error);

/* InitiateMultipartUploadResult: *upload_id is never empty. */
int tsr__s3_response_upload(const void *bytes, uint64_t size, tsr_arena *arena, const char **upload_id,
                            tsr_s3_failure *failure, tsr_error *error);

/* CompleteMultipartUploadResult, CopyObjectResult and CopyPartResult: *etag with its quotes; "" if missing. *modified
 * as in tsr_s3_entry. */
int tsr__s3_response_completed(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag,
                               tsr_s3_failure *failure, tsr_error *error);
int tsr__s3_response_copied(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag, int64_t *modified,
                            tsr_s3_failure *failure, tsr_error *error);

/* DeleteResult: the objects that could not be deleted, each with its key. */
typedef struct tsr_s3_deletion {
  tsr_s3_failure *failures;
  uint64_t failure_count;
} tsr_s3_deletion;

int tsr__s3_response_deletion(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_deletion *deletion,
                              tsr_s3_failure *failure, tsr_error *error);

typedef struct tsr_s3_upload {
  const char *key, *upload_id;
  int64_t initiated; /* in milliseconds since 1970; INT64_MIN: not known */
} tsr_s3_upload;

/* A page of ListMultipartUploads. */
typedef struct tsr_s3_uploads {
  tsr_s3_upload *uploads;
  uint64_t upload_count;
  const char *next_key, *next_upload_id; /* markers of the next page; next_key NULL: this is the last one */
} tsr_s3_uploads;

int tsr__s3_response_uploads(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_uploads *uploads,
                             tsr_s3_failure *failure, tsr_error *error);

/* AssumeRoleWithWebIdentityResponse of STS. The caller wipes the strings before it releases the arena. */
typedef struct tsr_s3_identity {
  const char *key_id, *secret, *session_token; /* none of them is empty */
  int64_t expiration; /* in milliseconds since 1970; INT64_MIN: not known */
} tsr_s3_identity;

int tsr__s3_response_identity(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_identity *identity,
                              tsr_s3_failure *failure, tsr_error *error);

#endif
