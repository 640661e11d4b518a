/* ingest_options.h: reads the options of tessera_create_as and its kin. */
#ifndef TSX_INGEST_OPTIONS_H
#define TSX_INGEST_OPTIONS_H

#include "functions/ingest_call.h"

/* Reads the options into a call whose columns have their names; `json` may be NULL, or an SQL NULL. */
int tsx_ingest_options_read(tsx_ingest_call *call, sqlite3_value *json, tsr_error *error);

/* Fails if options ask for another array than the one to which rows are added, whose types the columns have: what an
 * append cannot honour is refused. */
int tsx_ingest_options_agree(tsx_ingest_call *call, sqlite3_value *json, const tsr_schema *schema, tsr_error *error);

#endif
