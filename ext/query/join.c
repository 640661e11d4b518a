/* join.c: finds what a joined table is: a table of SQLite's, an array or a tessera_query. If ON depends on one dimension,
 * coordinates.c lets SQLite join its rows to the coordinates, so its columns are expressions of this dimension. Else
 * joined_rows.c reads its rows. */
#include "query/join.h"

#include <string.h>

#include "connection/errors.h"
#include "table/column_order.h"
#include "table/label_columns.h"
#include "text/tokens.h"
#include "query/compile.h"

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

static int join_prepare(const tsx_query *query, tsx_join *join, sqlite3_stmt **statement, tsr_error *error) {
  sqlite3 *db = query->connection->db;
  char *text = sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  if (!text) return tsx_out_of_memory(error);
  const int code = sqlite3_prepare_v2(db, text, -1, statement, NULL); /* connects the table */
  sqlite3_free(text);
  return code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(db));
}

/* Prepares a SELECT of all fields and labels of an array, and notes in join->star those that * has. */
static int join_prepare_labelled(tsx_query *query, tsx_join *join, const tsx_table *table, sqlite3_stmt **statement,
                                 tsr_error *error) {
  sqlite3 *db = query->connection->db;
  join->star_count = (uint32_t)tsx_column_sql(table, TSX_AS_OF(table));
  join->star = tsx_arena_take(&query->select.arena, join->star_count * sizeof *join->star);
  if (!join->star) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < join->star_count; i++) {
    const int own = tsx_column_own(table, (int)i);
    const tsx_label_column *label = tsx_label_column_at(table, own);
    join->star[i] = label ? table->column_count + (uint32_t)(label - table->labels) : (uint32_t)own;
  }
  sqlite3_str *out = sqlite3_str_new(db);
  for (uint32_t i = 0; i < table->column_count; i++)
    sqlite3_str_appendf(out, "%s\"%w\"", i ? ", " : "SELECT ", table->columns[i].name);
  for (uint32_t i = 0; i < table->label_count; i++)
    sqlite3_str_appendf(out, "%s\"%w\"", i || table->column_count ? ", " : "SELECT ", table->labels[i].name);
  sqlite3_str_appendf(out, " FROM \"%w\".\"%w\"", join->source.schema, join->source.table);
  char *text = sqlite3_str_finish(out);
  if (!text) return tsx_out_of_memory(error);
  const int code = sqlite3_prepare_v2(db, text, -1, statement, NULL);
  sqlite3_free(text);
  return code == SQLITE_OK ? TSR_OK : tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(db));
}

int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error) {
  sqlite3_stmt *statement = NULL, *all = NULL;
  int code = join_kind(query, join, error);
  if (code == TSR_OK) code = join_prepare(query, join, &statement, error);
  const tsx_table *table = code == TSR_OK && join->is_array
                               ? tsx_table_connected(query->connection, join->source.schema, join->source.table)
                               : NULL;
  if (table && table->order.own) code = join_prepare_labelled(query, join, table, &all, error);
  if (code == TSR_OK) code = join_columns(query, join, all ? all : statement, error);
  sqlite3_finalize(all);
  sqlite3_finalize(statement);
  return code;
}
