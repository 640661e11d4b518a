/* ingest_array.h: the array of an ingest: made, made in the place of another one, or appended to. */
#ifndef TSX_INGEST_ARRAY_H
#define TSX_INGEST_ARRAY_H

#include "functions/ingest_call.h"

/* Refuses to replace the array at the call's path where that cannot be done. */
int tsx_ingest_may_replace(const tsx_ingest_call *call, tsr_error *error);

/* Makes the array with its rows and metadata. */
int tsx_ingest_make(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error);

/* Appends the rows, and labels that are new, to call->target. */
int tsx_ingest_append(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error);

#endif
