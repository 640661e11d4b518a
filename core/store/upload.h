/* upload.h: uploads staged files as objects, many at a time: a small file in one request, a large one in parts. */
#ifndef TSR_STORE_UPLOAD_H
#define TSR_STORE_UPLOAD_H

#include "remote/bucket.h"
#include "store/staging.h"

typedef struct tsr_staged_upload {
  tsr_staged *file; /* borrowed */
  const char *key; /* of the object, borrowed */
  bool new_only; /* fails with TSR_EXISTS if the object exists */
} tsr_staged_upload;

/* Uploads files and returns when all objects exist. After an error some of them may exist; unfinished multipart uploads
 * are aborted. */
int tsr__bucket_upload(tsr_bucket *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                       tsr_error *error);

/* An upload of a file that is still being written: its first bytes are sent before its last ones exist. */
typedef struct tsr_bucket_stream tsr_bucket_stream;

/* Begins the upload of an object. `key` is copied. */
int tsr__bucket_stream_open(tsr_bucket *client, tsr_memory *memory, const char *key, tsr_bucket_stream **stream,
                            tsr_error *error);

/* Sends the complete parts of a staged file, if there are enough of them to be worth a batch, and removes them from the
 * file. *sent is set to the number of bytes. */
int tsr__bucket_stream_send(tsr_bucket_stream *stream, tsr_staged *file, uint64_t *sent, tsr_error *error);

/* Sends the rest of the file. Then the object exists; TSR_EXISTS if it already existed. */
int tsr__bucket_stream_end(tsr_bucket_stream *stream, tsr_staged *file, tsr_error *error);

/* Frees a stream. An unfinished upload is aborted. NULL is allowed. */
void tsr__bucket_stream_close(tsr_bucket_stream *stream);

/* Returns the number of staged bytes from which on tsr__bucket_stream_send sends anything on a new stream. */
uint64_t tsr__bucket_stream_from(tsr_bucket *client);

#endif
