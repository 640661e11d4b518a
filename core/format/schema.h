/* schema.h: decodes array schemas and looks up their fields. A schema is the content of the generic tile in
 * __schema/NAME, in __array_schema.tdb (below version 10), or in __kv_schema.tdb (key-value stores of versions 1 to 3,
 * which are sparse arrays in all but the name of this file). schema.h encodes schemas. */
#ifndef TSR_FORMAT_SCHEMA_H
#define TSR_FORMAT_SCHEMA_H

#include "base/input.h"
#include "base/memory.h"

/* Decodes and validates the content of a schema's generic tile. `name`: of the schema file, without directory. `arena`
 * owns the schema. On an error `schema` is unchanged. */
int tsr__schema_decode(tsr_input *in, const char *name, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* Returns the number of the field with this name, which is compared as stored; -1 if there is none. */
int64_t tsr__schema_field(const tsr_schema *schema, const char *name);

/* Returns true if a dimension has values of variable size. */
bool tsr__schema_has_text(const tsr_schema *schema);

/* Returns the filter pipeline of a field's values: from version 5 on, the schema's coords_filters for a dimension that
 * has no filters of its own. */
const tsr_pipeline *tsr__schema_pipeline(const tsr_schema *schema, uint32_t field);

/* Encodes array schemas. schema.c describes the bytes. */

/* Appends the content of the schema's generic tile, in the schema's format version. The schema must have been decoded
 * or have passed tsr__schema_check. On an error `out` is unchanged. */
int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);

#endif
