/* group_write.h: groups are made and changed. */
#ifndef TSR_GROUP_WRITE_H
#define TSR_GROUP_WRITE_H

#include "format/metadata.h"

int tsr__group_change_metadata(tsr_group *group, const tsr_metadata_entry *entry, tsr_error *error);

#endif
