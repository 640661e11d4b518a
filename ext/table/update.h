/* update.h: xUpdate: INSERT, UPDATE and DELETE of rows, as cells and removals of the open transaction's writer. */
#ifndef TSX_UPDATE_H
#define TSX_UPDATE_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_table tsx_table;

typedef struct tsx_changes tsx_changes; /* what statements that write a table are about */

/* xUpdate. What fails leaves the writer as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);

/* A row that a statement's scan has chosen, by the number of its cursor (tsx_table.opened). */
void tsx_update_touch(tsx_table *table, uint64_t cursor, int64_t row);

/* That scan has ended. If nothing has come of it when the next one begins, its rows are forgotten: it was no UPDATE. Where the
 * next has been opened but not asked yet, it is the next part of the same: the other side of an OR. */
void tsx_update_scanned(tsx_table *table, uint64_t cursor);
void tsx_update_forget(tsx_table *table);
void tsx_update_end(tsx_table *table); /* the transaction ends: lets go of all that is held of it */
void tsx_update_free(tsx_table *table);

#endif
