/* run.h: runs a tsx_query over the state of its array that the statement sees, and gives its rows. */
#ifndef TSX_QUERY_ROWS_RUN_H
#define TSX_QUERY_ROWS_RUN_H

#include "query/outer.h"

typedef struct tsx_run tsx_run;

/* Fails if the query has parts that neither SQLite nor the engine can evaluate, as far as that shows without reading the
 * array. The query is used up. */
int tsx_run_check(tsx_query *query, tsr_error *error);

/* Starts a run. The query is borrowed, and may be run once. The caller closes the run, also after a failure; *run may be
 * NULL then. */
int tsx_run_open(tsx_query *query, tsx_outer *outer, uint32_t outer_count, tsx_run **run, tsr_error *error);
int tsx_run_next(tsx_run *run, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
int tsx_run_column(tsx_run *run, sqlite3_context *context, uint32_t item, tsr_error *error);

/* Gives an item of the row as SQL has it: NULL, INTEGER, REAL or TEXT; an UNSIGNED past INT64_MAX; OPAQUE for a BLOB. Text
 * is borrowed until the next call. */
int tsx_run_value(tsx_run *run, uint32_t item, tsr_value *value, tsr_error *error);

/* Gives the rowid of the row (rowids.h). Of a query without constraints (tsx_outer_possible) it is the row's place. */
int tsx_run_rowid(tsx_run *run, int64_t *rowid, tsr_error *error);
void tsx_run_close(tsx_run *run);

#endif
