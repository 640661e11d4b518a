/* group_write.h: creates and changes groups. The public functions are tsr_group_create, _add and _remove (tessera.h);
 * metadata_write.c uses the function below. */
#ifndef TSR_GROUP_WRITE_H
#define TSR_GROUP_WRITE_H

#include "format/metadata.h"

/* Writes one metadata entry of a group, a value or a deletion (tsr__metadata_write). */
int tsr__group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error);

#endif
