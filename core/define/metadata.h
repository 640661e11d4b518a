/* metadata.h: changes the metadata of arrays and groups. Each change is one new file in __meta with one key; of
 * several files with the same key the newest counts. */
#ifndef TSR_DEFINE_METADATA_H
#define TSR_DEFINE_METADATA_H

#include "store/store.h"
#include "format/metadata.h"

/* Writes one entry, a value or the deletion of a key, to a new file in __meta of `store`, an array's or a group's. The
 * file's time is the present, and later than all times there that do not lie in the future. `key` encrypts the file if
 * it is not NULL; `version` is the format version of the file. TSR_RANGE if count, datatype and size of the value do
 * not agree. */
int tsr__metadata_write(tsr_environment *environment, tsr_store *store, const uint8_t *key, uint32_t version,
                        const tsr_metadata_entry *entry, tsr_error *error);

/* Creates and changes groups. The public functions are tsr_group_create, _add and _remove (tessera.h);
 * metadata.c uses the function below. */

/* Writes one metadata entry of a group, a value or a deletion (tsr__metadata_write). */
int tsr__group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error);

#endif
