/* schema_write.h: schemas become bytes again; which bytes stands in schema.c. */
#ifndef TSR_SCHEMA_WRITE_H
#define TSR_SCHEMA_WRITE_H

#include "base/memory.h"

/* Appends the content of a schema's generic tile, in its version; of a schema that was decoded or has passed
 * tsr__schema_check. */
int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);

#endif
