/* metadata_write.h: metadata of arrays and groups is changed: one key, one file of __meta, which the newer ones of
 * its key replace. */
#ifndef TSR_METADATA_WRITE_H
#define TSR_METADATA_WRITE_H

#include "store/store_bounds.h"
#include "format/metadata.h"

int tsr__metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                        const tsr_metadata_entry *entry, tsr_error *error);

#endif
