/* statement.h: runs SQL that the extension composes itself, and looks tables up in a database's schema.
 *
 * `sql` is from sqlite3_mprintf, and the functions free it; NULL means that memory is lacking: SQLITE_NOMEM. All
 * functions return SQLite's codes. The caller finalizes *statement in any case; it is NULL if there is none. */
#ifndef TSX_SQL_STATEMENT_H
#define TSX_SQL_STATEMENT_H

#include "connection/sqlite_api.h"

/* Prepares a statement. */
int tsx_sql_prepare(sqlite3 *db, char *sql, sqlite3_stmt **statement);

/* Prepares a statement and steps to its first row: SQLITE_ROW, SQLITE_DONE, or an error. */
int tsx_sql_first(sqlite3 *db, char *sql, sqlite3_stmt **statement);

/* Runs statements that return no rows. `message` is NULL or gets SQLite's message, as from sqlite3_exec. */
int tsx_sql_run(sqlite3 *db, char *sql, char **message);

/* Looks up a table or view by its name, in any case. The row has its type, "table" or "view", and its sql. SQLITE_ROW;
 * SQLITE_DONE if there is none; or an error, SQLITE_ERROR if there is no such schema. */
int tsx_schema_find(sqlite3 *db, const char *schema, const char *name, sqlite3_stmt **statement);

typedef enum tsx_table_kind { TSX_TABLE_SQLITE, TSX_TABLE_ARRAY, TSX_TABLE_QUERY, TSX_TABLE_OTHER } tsx_table_kind;

/* Classifies a table by its CREATE statement: SQLITE_OK, or an error. SQLITE: an ordinary table; ARRAY: of the module
 * tessera; QUERY: of tessera_query; OTHER: a virtual table of another module, a view, or no such table. */
int tsx_schema_kind(sqlite3 *db, const char *schema, const char *name, tsx_table_kind *kind);

/* Lists the tables NAME<suffix> of a schema: the rows have NAME. Steps to the first row, as tsx_sql_first. */
int tsx_schema_tables(sqlite3 *db, const char *schema, const char *suffix, sqlite3_stmt **statement);

#endif
