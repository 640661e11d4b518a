/* store_s3.h: a store whose files are the objects below a prefix of a bucket (store_s3.c). */
#ifndef TSR_STORE_S3_H
#define TSR_STORE_S3_H

#include <string.h>

#include "remote/s3.h"
#include "store/store.h"

/* The name of the object by which one of several processes claims a prefix, to make an array or a group there. */
#define TSR_S3_CLAIM ".created"

/* Returns true for the name of an object by which a process tries whether the server honours conditions. One that stays
 * was left by a process that was killed meanwhile. */
static inline bool tsr__s3_is_proof(const char *name) {
  return strncmp(name, TSR_S3_PROOF, sizeof TSR_S3_PROOF - 1) == 0;
}

/* Opens the store at "s3://bucket/prefix". Nothing is sent, and nothing need exist there. `scopes` outlives the store.
 * Errors: those of tsr__s3_open. */
int tsr__store_s3_open(tsr_s3_scopes *scopes, tsr_memory *memory, const char *uri, tsr_store **store, tsr_error *error);

#endif
