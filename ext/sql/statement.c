/* statement.c: runs SQL that the extension composes itself, and looks tables up in a database's schema. */
#include "sql/statement.h"

#include <string.h>

#include "sql/tokens.h"

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

int tsx_sql_prepare_plain(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  return prepare(db, sql, SQLITE_PREPARE_NO_VTAB, statement);
}

int tsx_sql_first_plain(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  const int code = tsx_sql_prepare_plain(db, sql, statement);
  return code == SQLITE_OK ? sqlite3_step(*statement) : code;
}

int tsx_sql_run(sqlite3 *db, char *sql, char **message) {
  const int code = sql ? sqlite3_exec(db, sql, NULL, NULL, message) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code;
}

int tsx_schema_find(sqlite3 *db, const char *schema, const char *name, sqlite3_stmt **statement) {
  return tsx_sql_first_plain(
      db,
      sqlite3_mprintf("SELECT type, sql FROM \"%w\".sqlite_schema WHERE type IN ('table', 'view') "
                      "AND name = %Q COLLATE NOCASE",
                      schema, name),
      statement);
}

/* Finds the module name in a CREATE VIRTUAL TABLE statement. Returns false for other statements. */
static bool module_of(const char *sql, tsx_token *module) {
  bool using = false;
  tsx_tokens tokens = tsx_tokens_of(sql);
  for (int i = 0; tokens.token.kind != TSX_TOKEN_END; i++, tsx_tokens_next(&tokens)) {
    *module = tokens.token;
    if (using || (i == 1 && !tsx_token_is(module, "VIRTUAL"))) return using;
    using = tsx_token_is(module, "USING");
  }
  return false;
}

/* Compares a module's name as it was written, which may be quoted. */
static bool module_is(const tsx_token *module, const char *name) {
  char words[32];
  if (module->size >= sizeof words) return false;
  const uint64_t size = tsx_token_copy(module, words);
  return size == strlen(name) && !sqlite3_strnicmp(words, name, (int)size);
}

int tsx_schema_kind(sqlite3 *db, const char *schema, const char *name, tsx_table_kind *kind) {
  sqlite3_stmt *statement;
  tsx_token module;
  const int code = tsx_schema_find(db, schema, name, &statement);
  const char *type = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL,
             *sql = type ? (const char *)sqlite3_column_text(statement, 1) : NULL;
  if (!sql) *kind = TSX_TABLE_NONE;
  else if (strcmp(type, "table") != 0) *kind = TSX_TABLE_VIEW;
  else if (!module_of(sql, &module)) *kind = TSX_TABLE_SQLITE;
  else if (module_is(&module, "tessera_query")) *kind = TSX_TABLE_QUERY;
  else *kind = module_is(&module, "tessera") ? TSX_TABLE_ARRAY : TSX_TABLE_OTHER;
  sqlite3_finalize(statement);
  if (code == SQLITE_ROW && !sql) return SQLITE_NOMEM;
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* A statement lists the databases because sqlite3_db_name needs SQLite 3.39. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names) {
  return sqlite3_prepare_v2(db, "PRAGMA database_list", -1, names, NULL);
}

const char *tsx_schemas_next(sqlite3_stmt *names, int *code) {
  const char *schema = NULL;
  if (*code == SQLITE_OK || *code == SQLITE_ROW) *code = sqlite3_step(names);
  if (*code == SQLITE_ROW && !(schema = (const char *)sqlite3_column_text(names, 1))) *code = SQLITE_NOMEM;
  return schema;
}

int tsx_schema_search(sqlite3 *db, const char *name, char **schema, tsx_table_kind *kind) {
  sqlite3_stmt *names = NULL;
  const char *next = "temp";
  int code = tsx_schema_kind(db, next, name, kind), listed = SQLITE_OK;
  if (code == SQLITE_OK && *kind == TSX_TABLE_NONE) listed = tsx_schemas_prepare(db, &names);
  while (code == SQLITE_OK && *kind == TSX_TABLE_NONE && (next = tsx_schemas_next(names, &listed)))
    code = tsx_schema_kind(db, next, name, kind);
  *schema = code == SQLITE_OK && *kind != TSX_TABLE_NONE ? sqlite3_mprintf("%s", next) : NULL;
  if (code == SQLITE_OK && *kind != TSX_TABLE_NONE && !*schema) code = SQLITE_NOMEM;
  if (code == SQLITE_OK && listed != SQLITE_OK && listed != SQLITE_ROW && listed != SQLITE_DONE) code = listed;
  sqlite3_finalize(names);
  return code;
}

int tsx_schema_tables(sqlite3 *db, const char *schema, const char *suffix, sqlite3_stmt **statement) {
  const int size = (int)strlen(suffix);
  return tsx_sql_first_plain(db,
                             sqlite3_mprintf("SELECT substr(name, 1, length(name) - %d) FROM \"%w\".sqlite_schema "
                                             "WHERE type = 'table' AND lower(substr(name, -%d)) = %Q",
                                             size, schema, size, suffix),
                             statement);
}
