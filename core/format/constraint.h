/* constraint.h: the text of a CHECK constraint. An array keeps each one as metadata, under the key "tessera.check." and
 * its name; TileDB ignores them. */
#ifndef TSR_FORMAT_CONSTRAINT_H
#define TSR_FORMAT_CONSTRAINT_H

#include "base/memory.h"

#define TSR_CONSTRAINT_KEY  "tessera.check." /* of the metadata; the name follows */
#define TSR_CONSTRAINT_NAME 200 /* most bytes of a name */
#define TSR_CONSTRAINT_TEXT 4096 /* most bytes of a text */
#define TSR_CONSTRAINTS_MAX 64 /* in one array */

/* Parses the condition of a CHECK over the fields of a schema, whose enumerations are loaded. The text may be
 * anybody's: it is not SQL for SQLite, but for this parser alone, which knows the operators and functions that the
 * engine evaluates as SQLite does. The expression lives in the arena, and borrows the schema. TSR_ERROR: the text is no
 * such condition. The types of its operands are not checked (tsr_expression_types). */
int tsr__constraint_parse(const tsr_schema *schema, const char *text, uint64_t size, tsr_arena *arena,
                          tsr_expression *expression, tsr_error *error);

/* Returns true if the expression reads the field. */
bool tsr__constraint_reads(const tsr_expression *expression, uint32_t field);

/* Returns the bytes of the name in the key of a metadatum, behind TSR_CONSTRAINT_KEY; 0 if it is no constraint. */
uint64_t tsr__constraint_name_size(const tsr_metadatum *entry);

/* Returns the text of such a metadatum; an empty one if its value is no text. */
tsr_text_value tsr__constraint_text(const tsr_metadatum *entry);

#endif
