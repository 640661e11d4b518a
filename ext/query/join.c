/* join.c: finds what a joined table is: a table of SQLite's, an array or a tessera_query. If ON depends on one dimension,
 * coordinates.c lets SQLite join its rows to the coordinates, so its columns are expressions of this dimension. Else
 * joined_rows.c reads its rows. */
#include "query/join.h"

#include <string.h>

#include "connection/errors.h"
#include "text/tokens.h"

/* Returns the module in the text of a CREATE VIRTUAL TABLE. Returns false for other texts. */
static bool join_module(const char *sql, tsx_token *module) {
  bool using = false;
  tsx_tokens tokens = tsx_tokens_of(sql);
  for (int i = 0; tokens.token.kind != TSX_TOKEN_END; i++, tsx_tokens_next(&tokens)) {
    *module = tokens.token;
    if (using || (i == 1 && !tsx_token_is(module, "VIRTUAL"))) return using;
    using = tsx_token_is(module, "USING");
  }
  return false;
}

static bool join_module_is(const tsx_token *module, const char *name) {
  return module->size == strlen(name) && !sqlite3_strnicmp(module->text, name, (int)module->size);
}

int tsx_table_kind_find(const tsx_query *query, const char *schema, const char *table, tsx_table_kind *kind,
                        tsr_error *error) {
  sqlite3 *db = query->connection->db;
  sqlite3_stmt *statement = NULL;
  tsx_token module;
  char *text = sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_schema WHERE type = 'table' AND name = %Q COLLATE NOCASE",
                               schema, table);
  if (!text) return tsx_out_of_memory(error);
  int code = sqlite3_prepare_v2(db, text, -1, &statement, NULL);
  sqlite3_free(text);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  const char *sql = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
  if (!sql) *kind = TSX_TABLE_OTHER;
  else if (!join_module(sql, &module)) *kind = TSX_TABLE_SQLITE;
  else if (join_module_is(&module, "tessera_query")) *kind = TSX_TABLE_QUERY;
  else *kind = join_module_is(&module, "tessera") ? TSX_TABLE_ARRAY : TSX_TABLE_OTHER;
  sqlite3_finalize(statement);
  if (code == SQLITE_ROW || code == SQLITE_DONE) return TSR_OK;
  return tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(db));
}

static int join_kind(const tsx_query *query, tsx_join *join, tsr_error *error) {
  tsx_table_kind kind;
  const int code = tsx_table_kind_find(query, join->source.schema, join->source.table, &kind, error);
  if (code < 0) return code;
  join->is_query = kind == TSX_TABLE_QUERY;
  join->is_array = kind == TSX_TABLE_ARRAY;
  if (kind != TSX_TABLE_OTHER) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "JOIN wants a table of SQLite's, an array or a tessera_query: '%s' is another",
                  join->source.table);
}

static int join_columns(tsx_query *query, tsx_join *join, sqlite3_stmt *statement, tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  const int count = sqlite3_column_count(statement);
  join->columns = tsx_arena_take(arena, (uint64_t)count * sizeof *join->columns);
  if (!join->columns) return tsx_out_of_memory(error);
  for (int i = 0; i < count; i++) {
    tsx_join_column *column = &join->columns[i];
    const char *name = sqlite3_column_name(statement, i), *declared = NULL, *collation = NULL;
    if (!name) return tsx_out_of_memory(error);
    /* a column that an authorizer hides keeps its type, which sqlite3_column_decltype does not give then */
    const int code = sqlite3_table_column_metadata(query->connection->db, join->source.schema, join->source.table, name,
                                                   &declared, &collation, NULL, NULL, NULL);
    if (!declared) declared = "";
    column->name = tsx_arena_copy(arena, name, strlen(name));
    column->declared = tsx_arena_copy(arena, declared, strlen(declared));
    if (!column->name || !column->declared) return tsx_out_of_memory(error);
    column->plain = code == SQLITE_OK && (!collation || !sqlite3_stricmp(collation, "BINARY"));
  }
  join->column_count = (uint32_t)count;
  return TSR_OK;
}

int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error) {
  sqlite3 *db = query->connection->db;
  sqlite3_stmt *statement = NULL;
  int code = join_kind(query, join, error);
  if (code < 0) return code;
  char *text = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  if (!text) return tsx_out_of_memory(error);
  code = sqlite3_prepare_v2(db, text, -1, &statement, NULL);
  sqlite3_free(text);
  code = code == SQLITE_OK ? join_columns(query, join, statement, error)
                           : tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(db));
  sqlite3_finalize(statement);
  return code;
}
