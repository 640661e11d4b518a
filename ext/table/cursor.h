/* cursor.h: xFilter makes a request of its arguments and starts a reader; xNext walks the rows of its batches;
 * xColumn takes single values out of their columns. */
#ifndef TSX_CURSOR_H
#define TSX_CURSOR_H

#include "connection/sqlite_api.h"

typedef struct tsx_table tsx_table;

int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
void tsx_cursor_forget(tsx_table *table); /* the one that rests */
void tsx_cursor_forget_tiles(tsx_table *table); /* that it keeps for the statement */
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

#endif
