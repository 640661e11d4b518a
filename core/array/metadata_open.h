/* metadata_open.h: reads the metadata of an array or a group between two times. The entries of all files of __meta in
 * view take effect in the order of the files' times; the last entry of a key counts, and may remove the key. */
#ifndef TSR_METADATA_OPEN_H
#define TSR_METADATA_OPEN_H

#include "store/store.h"

/* Reads the metadata in the store's __meta. `since` and `as_of` are inclusive, in milliseconds since 1970. The caller
 * frees *metadata with tsr_metadata_close. */
int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint64_t since,
                       uint64_t as_of, tsr_metadata **metadata, tsr_error *error);

#endif
