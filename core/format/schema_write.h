/* schema_write.h: encodes array schemas. schema.c describes the bytes. */
#ifndef TSR_SCHEMA_WRITE_H
#define TSR_SCHEMA_WRITE_H

#include "base/memory.h"

/* Appends the content of the schema's generic tile, in the schema's format version. The schema must have been decoded
 * or have passed tsr__schema_check. On an error `out` is unchanged. */
int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);

#endif
