/* run.h: rowids of the rows of a query. SQLite asks for them in RIGHT JOIN and FULL JOIN, to remember which rows it has
 * matched. So a row must have one rowid in all scans of a statement, whatever constraints the scans have, and share it with
 * no other row. */
#ifndef TSX_QUERY_RUN_H
#define TSX_QUERY_RUN_H

#include "query/names.h"
#include "query/pushdown.h"

#define TSX_ROWID_BEGIN UINT64_C(0xcbf29ce484222325)

typedef struct tsx_occurrences { /* how often each hash has come in a scan; `= {0}` at first */
  struct tsx_occurrence *entries;
  uint64_t room, count;
} tsx_occurrences;

/* Adds a value and its type to a hash. */
uint64_t tsx_rowid_add(uint64_t hash, const tsr_value *value);

/* Makes the rowid of the next row that has this hash. Equal rows satisfy the same constraints, so the second of them is the
 * second in each scan. */
int tsx_rowid_take(tsx_occurrences *occurrences, uint64_t hash, int64_t *rowid, tsr_error *error);
void tsx_rowids_free(tsx_occurrences *occurrences);

/* Runs a tsx_query over the state of its array that the statement sees, and gives its rows. */

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

/* Gives the rowid of the row (run.h). Of a query without constraints (tsx_outer_possible) it is the row's place. */
int tsx_run_rowid(tsx_run *run, int64_t *rowid, tsr_error *error);
void tsx_run_close(tsx_run *run);

/* All rows of a query in memory, which a cursor looks up when SQLite asks it again and again, for each row
 * of an outer loop. SQLite makes no automatic index on a virtual table. */

typedef struct tsx_kept_rows tsx_kept_rows;

/* Takes all rows of a run, and makes an index of the items that `indexed` lists. Returns 1; or 0 if the rows need more
 * than `limit` bytes or hold values that cannot be kept, as BLOBs. The caller frees *rows in all cases. */
int tsx_kept_rows_make(tsx_run *run, uint32_t item_count, const uint32_t *indexed, uint32_t indexed_count,
                       uint64_t limit, tsx_kept_rows **rows, tsr_error *error);
void tsx_kept_rows_free(tsx_kept_rows *rows);

/* Starts a walk over the rows whose indexed items may be equal to `values`, of which there are as many; NULL: over all
 * rows. Rows that are not equal may be among them. */
void tsx_kept_rows_find(tsx_kept_rows *rows, sqlite3_value *const *values);

/* Moves to the next row; returns false at the end. */
bool tsx_kept_rows_next(tsx_kept_rows *rows);
void tsx_kept_rows_column(const tsx_kept_rows *rows, sqlite3_context *context, uint32_t item);
int64_t tsx_kept_rows_rowid(const tsx_kept_rows *rows);

#endif
