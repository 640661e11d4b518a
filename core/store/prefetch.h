/* prefetch.h: what a store has fetched of its objects, and what it prefetches. Callers announce which parts of which
 * objects they will read (tsr__store_prefetch); the requests run while the callers do other work, and each read takes
 * its bytes from here. For a reader that goes through an object from front to back, the next part is requested in
 * advance.
 *
 * Objects never change, so fetched bytes stay valid until their room is needed. All functions are thread-safe. */
#ifndef TSR_STORE_PREFETCH_H
#define TSR_STORE_PREFETCH_H

#include "remote/bucket.h"

typedef struct tsr_bucket_prefetch tsr_bucket_prefetch;

/* Opens a prefetcher without any fetch for a client, which must outlive it. */
int tsr__bucket_prefetch_open(tsr_memory *memory, tsr_bucket *client, tsr_bucket_prefetch **prefetch, tsr_error *error);

/* Cancels all requests under way. NULL is allowed. */
void tsr__bucket_prefetch_close(tsr_bucket_prefetch *prefetch);

/* A part of an object: bytes [offset, offset + size) or, with `tail`, the last `size` bytes, or all if there are
 * fewer. */
typedef struct tsr_bucket_part {
  const char *key; /* borrowed during the call */
  uint64_t offset, size; /* in bytes */
  bool tail;
} tsr_bucket_part;

/* Starts to fetch parts. Consecutive parts in the list that lie close together in one object become one request. Parts
 * for which there is no room are skipped. */
void tsr__bucket_prefetch_start(tsr_bucket_prefetch *prefetch, const tsr_bucket_part *parts, uint64_t count);

/* Copies a part of an object of `object_size` bytes, after waiting for it if it is under way. If no fetch covers the
 * whole part, it is fetched now. Returns 1, or 0 if there is no room for it here or the request failed: then the caller
 * sends a request of its own. TSR_INTERRUPT if the host cancels. */
int tsr__bucket_prefetch_read(tsr_bucket_prefetch *prefetch, const char *key, uint64_t object_size, uint64_t offset,
                              void *buffer, uint64_t size, tsr_error *error);

/* Takes the fetched tail of an object: its bytes, which the caller then owns, and the size of the object. Returns as
 * tsr__bucket_prefetch_read does, or TSR_NOT_FOUND if the server has no such object. */
int tsr__bucket_prefetch_tail(tsr_bucket_prefetch *prefetch, const char *key, tsr_buffer *bytes, uint64_t *object_size,
                              tsr_error *error);

/* Keeps the bytes of a small object that this store has just written, so that nobody needs to fetch them. Takes
 * ownership of the bytes, whether it keeps them or not. */
void tsr__bucket_prefetch_keep(tsr_bucket_prefetch *prefetch, const char *key, tsr_buffer *bytes);

/* Drops everything that was fetched and that nobody is waiting for, but not what tsr__bucket_prefetch_keep has kept. */
void tsr__bucket_prefetch_doubt(tsr_bucket_prefetch *prefetch);

/* Drops what tsr__bucket_prefetch_keep has kept of an object that is being removed. */
void tsr__bucket_prefetch_forget(tsr_bucket_prefetch *prefetch, const char *key);

#endif
