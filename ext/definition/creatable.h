/* creatable.h: the schema of an array as one that CREATE takes. */
#ifndef TSX_CREATABLE_H
#define TSX_CREATABLE_H

#include "tessera.h"
#include "definition/columns.h"

/* A schema as CREATE takes it: what it refuses is left out. Its fields and filters are the definition's, which is empty at first
 * and released by the caller, also after a failure; all else is the source's. */
int tsx_creatable(const tsr_schema *source, tsx_definition *definition, tsr_error *error);

/* The same of a pipeline alone, for the datatype of a field: the filters that may stand there, in their order. */
int tsx_filters_keep(tsx_definition *definition, const tsr_field *field, tsr_pipeline *pipeline, tsr_error *error);

#endif
