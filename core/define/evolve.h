/* evolve.h: publishes a changed schema, but only if the schema that it was made from is still the newest. So
 * two processes that change a schema at the same time do not hide each other's change (evolve.c). */
#ifndef TSR_EVOLVE_PUBLISH_H
#define TSR_EVOLVE_PUBLISH_H

#include "base/memory.h"

/* Publishes an encoded schema that was made from the schema named `base`. Returns 1, and then `name` holds the name of
 * the new schema; 0 if another process has published a schema after `base` or is about to: nothing was published, and
 * the caller starts again from the newest schema. The file is durable when the function returns. `version` is the
 * format version of the file. TSR_UNSUPPORTED if `base` is a name without a time. */
int tsr__schema_publish(tsr_array *array, const char *base, uint32_t version, const tsr_buffer *content, char name[128],
                        tsr_error *error);

#endif
