/* metadata_open.h: the metadata of an array or a group between two times: the entries of all files of __meta that are
 * in view, in the order of their times; the last of a key counts, and may say that the key is gone. */
#ifndef TSR_METADATA_OPEN_H
#define TSR_METADATA_OPEN_H

#include "store/store_bounds.h"

int tsr__metadata_open(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint64_t since,
                       uint64_t as_of, tsr_metadata **metadata, tsr_error *error);

#endif
