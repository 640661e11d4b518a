/* store_s3.h: a store whose files are the objects below a prefix of a bucket (store_s3.c). */
#ifndef TSR_STORE_S3_H
#define TSR_STORE_S3_H

#include "remote/s3.h"
#include "store/store.h"

/* The name of the object by which one of several processes claims a prefix, to make an array or a group there. */
#define TSR_S3_CLAIM ".created"

/* Opens the store at "s3://bucket/prefix". Nothing is sent, and nothing need exist there. `scopes` outlives the store.
 * Errors: those of tsr__s3_open. */
int tsr__store_s3_open(tsr_s3_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store, tsr_error *error);

#endif
