/* schema.h: array schemas, the content of the generic tile in __schema/NAME, __array_schema.tdb (below version 10) or
 * __kv_schema.tdb (key-value stores, versions 1 to 3: sparse arrays but for the file's name). */
#ifndef TSR_SCHEMA_H
#define TSR_SCHEMA_H

#include "base/input.h"
#include "base/memory.h"

/* Decodes and validates the content of a schema's generic tile. All memory of the schema comes from `arena`. `name` is
 * its file's. */
int tsr__schema_decode(tsr_input *in, const char *name, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* The field's number by its name as stored; -1 if there is none. */
int64_t tsr__schema_field(const tsr_schema *schema, const char *name);
bool tsr__schema_has_text(const tsr_schema *schema); /* a dimension of variable size */

/* The pipeline that a field's values go through: a dimension without filters of its own takes the schema's
 * coords_filters. */
const tsr_pipeline *tsr__schema_pipeline(const tsr_schema *schema, uint32_t field);

#endif
