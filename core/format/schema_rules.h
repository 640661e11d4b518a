/* schema_rules.h: what an array may be created with: TileDB's own rules, those of the format's versions, and a few of
 * what cannot be read back. */
#ifndef TSR_SCHEMA_RULES_H
#define TSR_SCHEMA_RULES_H

#include "base/memory.h"

/* May an array of this schema be created? Messages name the field and the rule: TSR_CONSTRAINT, TSR_RANGE for ends of
 * domains and numbers outside their limits, TSR_UNSUPPORTED for what the version lacks. */
int tsr__schema_check(const tsr_schema *schema, tsr_memory *memory, tsr_error *error);

/* May cells be written by this schema, which stands in a file? TSR_UNSUPPORTED where they could not be read back. */
int tsr__schema_check_writable(const tsr_schema *schema, tsr_error *error);

/* The version of the fragments that are written into an array of this schema: its own where that is 3 or 7 to 22, else
 * 22. TSR_READONLY for newer ones. */
int tsr__schema_write_version(const tsr_schema *schema, uint32_t *version, tsr_error *error);

#endif
