/* schema.h: array schemas: decodes and encodes them and looks up their fields (schema.c), and checks the schemas of new
 * arrays (schema_rules.c). A schema is the content of the generic tile in __schema/NAME, in __array_schema.tdb (below
 * version 10), or in __kv_schema.tdb (key-value stores of versions 1 to 3, which differ from sparse arrays only in the
 * name of this file). */
#ifndef TSR_FORMAT_SCHEMA_H
#define TSR_FORMAT_SCHEMA_H

#include "base/input.h"
#include "base/memory.h"

/* ---- schema.c: decodes, looks up, encodes ------------------------------------------------------------------------ */

/* Decodes and validates the content of a schema's generic tile. `name`: of the schema file, without directory. `arena`
 * owns the schema. On an error `schema` is unchanged. */
int tsr__schema_decode(tsr_input *in, const char *name, tsr_arena *arena, tsr_schema *schema, tsr_error *error);

/* Returns the number of the field with this name, compared byte by byte; -1 if there is none. */
int64_t tsr__schema_field(const tsr_schema *schema, const char *name);

/* Returns true if a dimension has values of variable size. */
bool tsr__schema_has_text(const tsr_schema *schema);

/* Returns the filter pipeline of a field's values: from version 5 on, the schema's coords_filters for a dimension that
 * has no filters of its own. */
const tsr_pipeline *tsr__schema_pipeline(const tsr_schema *schema, uint32_t field);

/* Appends the content of the schema's generic tile, in the schema's format version. The schema must have been decoded
 * or have passed tsr__schema_check. On an error `out` is unchanged. */
int tsr__schema_encode(const tsr_schema *schema, tsr_buffer *out, tsr_error *error);

/* ---- schema_rules.c: rules for new arrays and for writing -------------------------------------------------------- */

/* Returns TSR_OK if an array of this schema may be created. Otherwise the message names the field and the rule:
 * TSR_RANGE for domain bounds and numbers outside their limits, TSR_UNSUPPORTED for features that the format version
 * lacks, TSR_CONSTRAINT for everything else. Takes temporary memory from `memory`. */
int tsr__schema_check(const tsr_schema *schema, tsr_memory *memory, tsr_error *error);

/* Returns TSR_OK if cells may be written with this schema of an existing array; TSR_UNSUPPORTED if they could not be
 * read back. */
int tsr__schema_check_writable(const tsr_schema *schema, tsr_error *error);

/* Gives the format version of new fragments in an array of this schema: the schema's own if that is 3 or 7 to 22, else
 * 22. Returns TSR_READONLY if the schema's version is newer. */
int tsr__schema_write_version(const tsr_schema *schema, uint32_t *version, tsr_error *error);

#endif
