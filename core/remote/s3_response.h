/* s3_response.h: the XML answers of S3, and of Google's servers, which copy them. Each function reads exactly one kind
 * of answer, and extracts only what tessera uses; answer.h says what they return. */
#ifndef TSR_REMOTE_S3_RESPONSE_H
#define TSR_REMOTE_S3_RESPONSE_H

#include "remote/answer.h"

/* A page of ListObjectsV2. */
int tsr__s3_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                             tsr_answer_failure *failure, tsr_error *error);

/* InitiateMultipartUploadResult: *upload_id is never empty. */
int tsr__s3_response_upload(const void *bytes, uint64_t size, tsr_arena *arena, const char **upload_id,
                            tsr_answer_failure *failure, tsr_error *error);

/* CompleteMultipartUploadResult, CopyObjectResult and CopyPartResult: *etag with its quotes; "" if missing. *modified
 * as in tsr_answer_entry. */
int tsr__s3_response_completed(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag,
                               tsr_answer_failure *failure, tsr_error *error);
int tsr__s3_response_copied(const void *bytes, uint64_t size, tsr_arena *arena, const char **etag, int64_t *modified,
                            tsr_answer_failure *failure, tsr_error *error);

/* DeleteResult: the objects that could not be deleted, each with its key. */
typedef struct tsr_s3_deletion {
  tsr_answer_failure *failures;
  uint64_t failure_count;
} tsr_s3_deletion;

int tsr__s3_response_deletion(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_deletion *deletion,
                              tsr_answer_failure *failure, tsr_error *error);

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
                             tsr_answer_failure *failure, tsr_error *error);

/* AssumeRoleWithWebIdentityResponse of STS. The caller wipes the strings before it releases the arena. */
typedef struct tsr_s3_identity {
  const char *key_id, *secret, *session_token; /* none of them is empty */
  int64_t expiration; /* in milliseconds since 1970; INT64_MIN: not known */
} tsr_s3_identity;

int tsr__s3_response_identity(const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_identity *identity,
                              tsr_answer_failure *failure, tsr_error *error);

#endif
