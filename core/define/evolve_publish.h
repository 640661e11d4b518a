/* evolve_publish.h: a new schema comes into force, if the one that it was made from is the newest still. */
#ifndef TSR_EVOLVE_PUBLISH_H
#define TSR_EVOLVE_PUBLISH_H

#include "base/memory.h"

/* Writes a schema that was made from `base`, the newest one's name; `name` is its own. 0 if others have been first. */
int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error);

#endif
