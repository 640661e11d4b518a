/* cursor.h: the cursor methods of array tables: xFilter makes a request of its arguments and starts a reader, xNext
 * walks the rows of the reader's batches, xColumn takes single values out of their columns. */
#ifndef TSX_CURSOR_H
#define TSX_CURSOR_H

#include "connection/sqlite_api.h"

typedef struct tsx_table tsx_table;

int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* Frees the table's idle cursor, if it has one. */
void tsx_cursor_forget(tsx_table *table);

/* Lets the table's idle cursor give up the tiles that it keeps. Call it when the statement has ended. */
void tsx_cursor_forget_tiles(tsx_table *table);

#endif
