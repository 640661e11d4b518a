/* schema_check.h: turns the schema of any TileDB array into one that CREATE VIRTUAL TABLE accepts. tessera_copy and
 * tessera_ddl use it. */
#ifndef TSX_CREATABLE_H
#define TSX_CREATABLE_H

#include "tessera.h"
#include "definition/columns.h"

/* Sets definition->schema to the source's schema without what CREATE refuses. The definition owns the fields and filters,
 * everything else is borrowed from the source. The definition is zeroed before; the caller releases it, also after an
 * error. */
int tsx_creatable(const tsr_schema *source, tsx_definition *definition, tsr_error *error);

/* Sets the array of label number `label` of definition->schema in the same way: `source` is the schema of the label's
 * array. */
int tsx_creatable_label(const tsr_schema *source, tsx_definition *definition, uint32_t label, tsr_error *error);

/* Removes from one pipeline the filters that may not stand there for the field's datatype. The definition owns the new
 * filters. */
int tsx_filters_keep(tsx_definition *definition, const tsr_field *field, tsr_pipeline *pipeline, tsr_error *error);

#endif
