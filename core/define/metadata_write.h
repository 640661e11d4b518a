/* metadata_write.h: changes the metadata of arrays and groups. Each change is one new file in __meta with one key; of
 * several files with the same key the newest counts. */
#ifndef TSR_METADATA_WRITE_H
#define TSR_METADATA_WRITE_H

#include "store/store.h"
#include "format/metadata.h"

/* Writes one entry, a value or the deletion of a key, to a new file in __meta of `store`, an array's or a group's. The
 * file's time is the present, and later than all times there that do not lie in the future. `key` encrypts the file if
 * it is not NULL; `version` is the format version of the file. TSR_RANGE if count, datatype and size of the value do
 * not agree. */
int tsr__metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                        const tsr_metadata_entry *entry, tsr_error *error);

#endif
