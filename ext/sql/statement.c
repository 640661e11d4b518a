/* statement.c: runs SQL that the extension composes itself, and looks tables up in a database's schema. */
#include "sql/statement.h"

#include <string.h>

static int prepare(sqlite3 *db, char *sql, unsigned flags, sqlite3_stmt **statement) {
  *statement = NULL;
  const int code = sql ? sqlite3_prepare_v3(db, sql, -1, flags, statement, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code;
}

int tsx_sql_prepare(sqlite3 *db, char *sql, sqlite3_stmt **statement) { return prepare(db, sql, 0, statement); }

int tsx_sql_first(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  const int code = prepare(db, sql, 0, statement);
  return code == SQLITE_OK ? sqlite3_step(*statement) : code;
}

int tsx_sql_run(sqlite3 *db, char *sql, char **message) {
  const int code = sql ? sqlite3_exec(db, sql, NULL, NULL, message) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code;
}

/* The schema itself is no virtual table, so looking it up connects none. */
static int first_of_schema(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  const int code = prepare(db, sql, SQLITE_PREPARE_NO_VTAB, statement);
  return code == SQLITE_OK ? sqlite3_step(*statement) : code;
}

int tsx_schema_find(sqlite3 *db, const char *schema, const char *name, sqlite3_stmt **statement) {
  return first_of_schema(db,
                         sqlite3_mprintf("SELECT type, sql FROM \"%w\".sqlite_schema WHERE type IN ('table', 'view') "
                                         "AND name = %Q COLLATE NOCASE",
                                         schema, name),
                         statement);
}

int tsx_schema_tables(sqlite3 *db, const char *schema, const char *suffix, sqlite3_stmt **statement) {
  const int size = (int)strlen(suffix);
  return first_of_schema(db,
                         sqlite3_mprintf("SELECT substr(name, 1, length(name) - %d) FROM \"%w\".sqlite_schema "
                                         "WHERE type = 'table' AND lower(substr(name, -%d)) = %Q",
                                         size, schema, size, suffix),
                         statement);
}
