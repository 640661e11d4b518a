/* s3_upload.h: uploads staged files as objects, many at a time: a small one by one request, a large one in parts. */
#ifndef TSR_S3_UPLOAD_H
#define TSR_S3_UPLOAD_H

#include "remote/s3.h"
#include "store/staging.h"

typedef struct tsr_staged_upload {
  tsr_staged *file; /* borrowed */
  const char *key; /* of the object, borrowed */
  bool new_only; /* fails with TSR_EXISTS if the object exists */
} tsr_staged_upload;

/* Uploads files and returns when all objects exist. After an error some of them may exist; uploads in parts that did
 * not end are aborted. */
int tsr__s3_upload(tsr_s3 *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                   tsr_error *error);

#endif
