/* timed_write.h: small files that appear whole: metadata, changes of groups, schemas that evolve. */
#ifndef TSR_TIMED_WRITE_H
#define TSR_TIMED_WRITE_H

#include "store/store_bounds.h"

#define TSR_STAGED_SIZE 41

/* Writes a generic tile to a new name in the root, durable, which nobody takes for anything: `.` and 32 hex digits. */
int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error);

/* Writes bytes to a path of the root, visible only when they are whole; TSR_EXISTS if something is there. */
int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error);

/* Writes a generic tile to DIRECTORY/NAME, durable, visible only when it is whole. The directory is made if missing. */
int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error);

/* The same under a new timestamped name: the present, later than `after`. `name_version` 0: the name has none.
 * `written`:
 * the name, or NULL. */
int tsr__write_timed(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                     uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                     char written[128], tsr_error *error);

/* The newest time of the names of a directory that does not lie in the future; 0 if there is none. */
int tsr__timed_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error);

#endif
