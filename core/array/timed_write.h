/* timed_write.h: writes small files that appear atomically: metadata, changes of groups, evolved schemas. Each is
 * written under a provisional name, made durable, and renamed. */
#ifndef TSR_TIMED_WRITE_H
#define TSR_TIMED_WRITE_H

#include "store/store.h"

#define TSR_STAGED_SIZE 41 /* bytes for a provisional name */

/* Writes a generic tile to a new file in the store's root and makes it durable. *staged: the file's name, `.` and 32
 * hex digits, which readers ignore. */
int tsr__write_staged(tsr_store *store, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                      char staged[TSR_STAGED_SIZE], tsr_error *error);

/* Writes a file atomically, without a generic tile around its content. Returns TSR_EXISTS if `path` exists. */
int tsr__write_claim(tsr_store *store, const char *path, const tsr_buffer *content, tsr_error *error);

/* Writes a generic tile to DIRECTORY/NAME, atomically and durably. A missing directory is made. `version`: format
 * version in the tile's header; `key`: NULL if not encrypted. */
int tsr__write_named(tsr_store *store, const char *directory, const char *name, const uint8_t *key, uint32_t version,
                     const tsr_buffer *content, tsr_error *error);

/* The same under a new timestamped name, whose time is the present but later than `after`. `name_version`: version at
 * the end of the name; 0: none. *written: the name; may be NULL. */
int tsr__write_timed(tsr_environment *environment, tsr_store *store, const char *directory, uint64_t after,
                     uint32_t name_version, const uint8_t *key, uint32_t version, const tsr_buffer *content,
                     char written[128], tsr_error *error);

/* Gives the newest time of the timestamped names in a directory that is not in the future; 0 if there is none. */
int tsr__timed_last(tsr_store *store, const char *directory, uint64_t *last, tsr_error *error);

#endif
