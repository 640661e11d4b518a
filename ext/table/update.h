/* update.h: xUpdate: INSERT, UPDATE and DELETE of rows, as cells and removals of the open transaction's writer. The
 * cursor tells here which rows the scan of an UPDATE or DELETE has chosen, because SQLite calls xUpdate only after the
 * scan. */
#ifndef TSX_UPDATE_H
#define TSX_UPDATE_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_table tsx_table;

typedef struct tsx_changes tsx_changes; /* the state of the statement that writes a table */

/* xUpdate. A row that fails leaves the writer as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);

/* Remembers a row that the scan of a statement has chosen. `cursor` is the number of its cursor (tsx_table.opened). */
void tsx_update_touch(tsx_table *table, uint64_t cursor, int64_t row);

/* Call when a cursor is closed: the scan has ended, unless a newer cursor is open that xFilter has not been called for
 * yet. Such a cursor continues the scan for the next operand of an OR. */
void tsx_update_scanned(tsx_table *table, uint64_t cursor);

/* Call when a cursor is opened: forgets the rows of a scan that has ended and after which xUpdate was not called. That
 * was no UPDATE. */
void tsx_update_forget(tsx_table *table);

/* Call when the transaction ends: frees what belongs to its statements. */
void tsx_update_end(tsx_table *table);

/* Frees everything. */
void tsx_update_free(tsx_table *table);

#endif
