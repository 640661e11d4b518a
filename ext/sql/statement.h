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

/* The same for statements over ordinary tables: SQLITE_ERROR if one of them is a virtual table. Connects none. */
int tsx_sql_prepare_plain(sqlite3 *db, char *sql, sqlite3_stmt **statement);
int tsx_sql_first_plain(sqlite3 *db, char *sql, sqlite3_stmt **statement);

/* Runs statements that return no rows. `message` is NULL or gets SQLite's message, as from sqlite3_exec. */
int tsx_sql_run(sqlite3 *db, char *sql, char **message);

/* Looks up a table or view by its name, in any case. The row has its type, "table" or "view", and its sql. SQLITE_ROW;
 * SQLITE_DONE if there is none; or an error, SQLITE_ERROR if there is no such schema. */
int tsx_schema_find(sqlite3 *db, const char *schema, const char *name, sqlite3_stmt **statement);

/* What a name is: nothing; an ordinary table; a view; a table of the module tessera, of tessera_query, or of
 * another. */
typedef enum tsx_table_kind {
  TSX_TABLE_NONE,
  TSX_TABLE_SQLITE,
  TSX_TABLE_VIEW,
  TSX_TABLE_ARRAY,
  TSX_TABLE_QUERY,
  TSX_TABLE_OTHER
} tsx_table_kind;

/* Says what a name in a database is, by its CREATE statement: SQLITE_OK, or an error. */
int tsx_schema_kind(sqlite3 *db, const char *schema, const char *name, tsx_table_kind *kind);

/* Finds a name that is written without a database, in SQL's order: temp, main, then the attached databases. *schema is
 * the first that has it, from sqlite3_malloc; NULL, with TSX_TABLE_NONE, if none has. SQLITE_OK, or an error. */
int tsx_schema_search(sqlite3 *db, const char *name, char **schema, tsx_table_kind *kind);

/* Lists the names of the connection's databases. tsx_schemas_prepare prepares the statement; tsx_schemas_next returns
 * one name after the other, and NULL at the end. A name is borrowed until the next call. Pass the result of
 * tsx_schemas_prepare in *code; at the end *code is SQLITE_DONE, or SQLite's error. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names);
const char *tsx_schemas_next(sqlite3_stmt *names, int *code);

/* Lists the tables NAME<suffix> of a schema: the rows have NAME. Steps to the first row, as tsx_sql_first. */
int tsx_schema_tables(sqlite3 *db, const char *schema, const char *suffix, sqlite3_stmt **statement);

#endif
