/* kept_rows.h: all rows of a query in memory, which a cursor looks up when SQLite asks it again and again, for each row
 * of an outer loop. SQLite makes no automatic index on a virtual table. */
#ifndef TSX_KEPT_ROWS_H
#define TSX_KEPT_ROWS_H

#include "query/run.h"

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
