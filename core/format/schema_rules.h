/* schema_rules.h: the rules for schemas of new arrays and for schemas by which cells are written: TileDB's own rules,
 * those of the format versions, and a few that keep data readable. */
#ifndef TSR_SCHEMA_RULES_H
#define TSR_SCHEMA_RULES_H

#include "base/memory.h"

/* Returns TSR_OK if an array of this schema may be created. Otherwise the message names the field and the rule:
 * TSR_RANGE for ends of domains and numbers outside their limits, TSR_UNSUPPORTED for features that the format version
 * lacks, TSR_CONSTRAINT for everything else. `memory` pays for temporary memory. */
int tsr__schema_check(const tsr_schema *schema, tsr_memory *memory, tsr_error *error);

/* Returns TSR_OK if cells may be written by this schema of an existing array; TSR_UNSUPPORTED if they could not be read
 * back. */
int tsr__schema_check_writable(const tsr_schema *schema, tsr_error *error);

/* Gives the format version of new fragments in an array of this schema: the schema's own if that is 3 or 7 to 22, else
 * 22. Returns TSR_READONLY if the schema's version is newer. */
int tsr__schema_write_version(const tsr_schema *schema, uint32_t *version, tsr_error *error);

#endif
