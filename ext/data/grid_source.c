/* grid_source.c: the tessera_query that a grid reads (query_grid.c).
 *
 * A grid's SELECT may name one in FROM, as in `SELECT t, y, x, mean FROM rolling`, and a path names one with a column
 * and a slice: `'db:rolling', 'mean', '{"t":5}'` stands for such a SELECT. The text of the tessera_query then takes the
 * place of its name, as a subquery in FROM, so that both are evaluated as one over columns. */
#include "data/data.h"

#include <limits.h>
#include <string.h>

#include "connection/errors.h"
#include "query/query_table.h"
#include "sql/json.h"
#include "sql/names.h"
#include "sql/statement.h"

/* ---- The table --------------------------------------------------------------------------------------------------- */

int tsx_grid_key(const tsx_query *query, const tsx_item *item) {
  const tsx_expr *tree = tsx_expr_meaning(item->tree);
  if (query->over_groups) return tree->kind == TSX_EXPR_AGGREGATE ? -1 : tsx_select_key(&query->select, tree);
  if (tree->kind == TSX_EXPR_LABEL) return (int)query->table->labels[tree->column].dimension;
  const tsx_column *columns = query->table->columns;
  return tree->kind == TSX_EXPR_NAME && columns[tree->column].description->is_dimension
             ? (int)columns[tree->column].field
             : -1;
}

/* Functions do not see uncommitted rows of the open transaction, so these are refused. */
int tsx_grid_committed(const tsx_query *query, tsr_error *error) {
  const tsx_transaction *transaction = query->table->array->transaction;
  if (!transaction || !tsr_writer_changed(transaction->writer)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", query->table->name);
}

static char *source_copy(tsx_grid_source *source, const char *text) {
  return text ? tsx_arena_copy(&source->arena, text, strlen(text)) : NULL;
}

/* Takes the names of the table's columns from a statement that selects all of them. */
static int source_names(tsx_grid_source *source, sqlite3_stmt *all, tsr_error *error) {
  source->column_count = (uint32_t)sqlite3_column_count(all);
  source->columns = tsx_arena_take(&source->arena, source->column_count * sizeof *source->columns);
  if (!source->columns) return tsx_out_of_memory(error);
  for (uint32_t c = 0; c < source->column_count; c++) {
    source->columns[c] = (tsx_grid_column){source_copy(source, sqlite3_column_name(all, (int)c)), -1, false};
    if (!source->columns[c].name) return tsx_out_of_memory(error);
  }
  return TSR_OK;
}

/* Takes what the table's CREATE says. */
static int source_text(tsx_connection *connection, tsx_grid_source *source, tsr_error *error) {
  tsx_query_words found;
  if (!tsx_query_table_text(connection, source->schema, source->name, &found))
    return tsx_fail(error, TSR_ERROR, "%s cannot be opened", source->name);
  source->memory_bytes = found.memory_bytes;
  source->threads = found.threads;
  source->text = source_copy(source, found.text);
  return source->text ? TSR_OK : tsx_out_of_memory(error);
}

/* Finds out which columns are keys. */
static int source_keys(tsx_connection *connection, tsx_grid_source *source, tsr_error *error) {
  tsx_query query = {0};
  int code = tsx_query_compile(connection, source->schema, source->text, &query, error);
  if (code >= 0) code = tsx_grid_committed(&query, error);
  for (uint32_t c = 0; code >= 0 && c < source->column_count && c < query.select.item_count; c++)
    source->columns[c].key = tsx_grid_key(&query, &query.select.items[c]);
  tsx_query_release(&query);
  if (code >= 0 || code == TSR_NOMEM || code == TSR_INTERRUPT) return code;
  return tsx_fail_in(source->name, error);
}

/* Opens the table if it is a tessera_query. `schema` NULL: it is looked for in all databases. Returns 1, or 0. */
static int source_open(tsx_connection *connection, const char *schema, const char *name, tsx_grid_source *source,
                       tsr_error *error) {
  char *found = NULL;
  sqlite3_stmt *all = NULL;
  tsx_table_kind kind = TSX_TABLE_NONE;
  int code = schema ? tsx_schema_kind(connection->db, schema, name, &kind)
                    : tsx_schema_search(connection->db, name, &found, &kind);
  if (code == SQLITE_OK && kind == TSX_TABLE_QUERY) {
    source->schema = source_copy(source, schema ? schema : found);
    source->name = source_copy(source, name);
    if (!source->schema || !source->name) code = SQLITE_NOMEM;
  }
  sqlite3_free(found);
  if (code == SQLITE_NOMEM) return tsx_out_of_memory(error);
  if (code != SQLITE_OK || kind != TSX_TABLE_QUERY) return 0;
  code = tsx_sql_prepare(connection->db, sqlite3_mprintf("SELECT * FROM \"%w\".\"%w\"", source->schema, name), &all);
  code = tsx_core_result(connection->db, code, error);
  if (code >= 0) code = source_names(source, all, error);
  if (code >= 0) code = source_text(connection, source, error);
  sqlite3_finalize(all);
  if (code >= 0) code = source_keys(connection, source, error);
  return code < 0 ? code : 1;
}

void tsx_grid_source_release(tsx_grid_source *source) {
  tsx_arena_free(&source->arena);
  *source = (tsx_grid_source){0};
}

/* ---- A SELECT from it -------------------------------------------------------------------------------------------- */

int tsx_grid_source_find(tsx_connection *connection, const char *statement, tsx_select *select, tsx_grid_source *source,
                         tsr_error *error) {
  tsx_parse_doubt doubt;
  tsr_error ignored = {0};
  const int code = tsx_select_parse(statement, select, &doubt, &ignored);
  if (code == TSR_NOMEM) return tsx_out_of_memory(error);
  if (code < 0 || select->source.times_begin) return 0;
  return source_open(connection, select->source.qualified ? select->source.schema : NULL, select->source.table, source,
                     error);
}

char *tsx_grid_source_within(const tsx_select *select, const tsx_grid_source *source) {
  const tsx_source *from = &select->source;
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_append(out, select->text, (int)(from->begin - select->text));
  sqlite3_str_appendf(out, "(%s\n)", source->text); /* the text may end in a comment */
  if (!from->alias) sqlite3_str_appendf(out, " AS \"%w\"", from->table);
  sqlite3_str_appendall(out, from->end);
  return sqlite3_str_finish(out);
}

/* ---- A path ------------------------------------------------------------------------------------------------------ */

typedef struct slice_writer {
  sqlite3 *db;
  tsx_grid_source *source;
  sqlite3_str *out;
  uint32_t terms; /* so far */
  const tsx_grid_column *column; /* of the pair that is being read */
  uint32_t ends; /* of the pair so far */
  double low; /* its low end, if that is a number */
  bool compares;
} slice_writer;

static const tsx_grid_column *slice_key(const slice_writer *w, const char *name, tsr_error *error) {
  char keys[200] = "";
  for (uint32_t c = 0; c < w->source->column_count; c++) {
    const tsx_grid_column *column = &w->source->columns[c];
    const size_t size = strlen(keys);
    if (column->key < 0) continue;
    if (!sqlite3_stricmp(column->name, name)) return column;
    sqlite3_snprintf((int)(sizeof keys - size), keys + size, "%s%s", size ? ", " : "", column->name);
  }
  tsx_fail(error, TSR_ERROR, "slice: '%.64s' is not a key of %.64s (%s)", name, w->source->name, keys);
  return NULL;
}

static int slice_term(slice_writer *w, const char *operation, const tsx_json_option *o, tsr_error *error) {
  const bool text = !strcmp(o->type, "text");
  if (!text && strcmp(o->type, "integer") != 0 && strcmp(o->type, "real") != 0)
    return tsx_fail(error, TSR_MISMATCH, "slice: '%.64s': expected a number, text or a pair of them", w->column->name);
  sqlite3_str_appendf(w->out, "%s\"%w\" %s ", w->terms++ ? " AND " : " WHERE ", w->column->name, operation);
  if (text) sqlite3_str_appendf(w->out, "%Q", (const char *)sqlite3_value_text(o->value));
  else sqlite3_str_appendall(w->out, o->text);
  return TSR_OK;
}

static int slice_end(void *argument, const tsx_json_option *o, tsr_error *error) {
  slice_writer *w = argument;
  const bool number = !strcmp(o->type, "integer") || !strcmp(o->type, "real");
  if (w->ends == 2) return tsx_fail(error, TSR_MISMATCH, "slice: '%.64s' has more than two ends", w->column->name);
  const double value = sqlite3_value_double(o->value);
  if (w->ends++ == 0) {
    w->compares = number;
    w->low = value;
  } else if (w->compares && number && value < w->low) {
    return tsx_fail(error, TSR_RANGE, "slice: '%.64s': the low end is above the high one", w->column->name);
  }
  return strcmp(o->type, "null") ? slice_term(w, w->ends == 1 ? ">=" : "<=", o, error) : TSR_OK;
}

static int slice_member(void *argument, const tsx_json_option *o, tsr_error *error) {
  slice_writer *w = argument;
  if (!(w->column = slice_key(w, o->key, error))) return error->code;
  if (!strcmp(o->type, "null")) return TSR_OK;
  if (strcmp(o->type, "array") != 0) {
    for (uint32_t c = 0; c < w->source->column_count; c++)
      w->source->columns[c].one |= w->source->columns[c].key == w->column->key;
    return slice_term(w, "=", o, error);
  }
  w->ends = 0;
  TSX_TRY(tsx_elements_each(w->db, o->value, "slice", slice_end, w, error));
  if (w->ends == 1) return tsx_fail(error, TSR_MISMATCH, "slice: '%.64s' has one end", w->column->name);
  if (w->ends == 0) sqlite3_str_appendf(w->out, "%s0", w->terms++ ? " AND " : " WHERE ");
  return TSR_OK;
}

/* Returns true if no column before this one shows the same key, as a dimension before its label does. */
static bool source_is_first(const tsx_grid_source *source, const tsx_grid_column *column) {
  const tsx_grid_column *c = source->columns;
  while (c->key != column->key) c++;
  return c == column;
}

/* Writes the SELECT of a column and the keys; `draws`: without those that the slice sets to one value. */
static char *source_select(const tsx_grid_source *source, const tsx_grid_column *column, const char *where,
                           bool draws) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  uint32_t left = 0; /* keys */
  for (uint32_t c = 0; c < source->column_count; c++)
    left += source->columns[c].key >= 0 && source_is_first(source, &source->columns[c]);
  const char *between = "SELECT ";
  for (uint32_t c = 0; c < source->column_count; c++) {
    const tsx_grid_column *key = &source->columns[c];
    const bool shown = key == column || (key->key >= 0 && source_is_first(source, key));
    if (!shown) continue;
    if (draws && key != column && key->one && left > 2) {
      left--;
      continue;
    }
    sqlite3_str_appendf(out, "%s\"%w\"", between, key->name);
    between = ", ";
  }
  sqlite3_str_appendf(out, " FROM \"%w\".\"%w\"%s", source->schema, source->name, where);
  return sqlite3_str_finish(out);
}

static int source_column(const tsx_grid_source *source, const char *name, const tsx_grid_column **column,
                         tsr_error *error) {
  char names[200] = "";
  for (uint32_t c = 0; c < source->column_count; c++) {
    const size_t size = strlen(names);
    *column = &source->columns[c];
    if (!sqlite3_stricmp((*column)->name, name)) return TSR_OK;
    sqlite3_snprintf((int)(sizeof names - size), names + size, "%s%s", size ? ", " : "", (*column)->name);
  }
  return tsx_fail(error, TSR_ERROR, "%.64s has no column '%.64s'; it has %s", source->name, name, names);
}

static int path_statement(sqlite3 *db, tsx_grid_source *source, const char *name, sqlite3_value *slice, bool draws,
                          char **statement, tsr_error *error) {
  const tsx_grid_column *column = NULL;
  slice_writer writer = {.db = db, .source = source, .out = sqlite3_str_new(NULL)};
  int code = source_column(source, name, &column, error);
  if (code >= 0 && slice && sqlite3_value_type(slice) != SQLITE_NULL)
    code = tsx_options_each(db, slice, "slice", slice_member, &writer, error);
  if (code >= 0 && sqlite3_str_errcode(writer.out) != SQLITE_OK) /* the text would be NULL, as without a slice */
    code = tsx_out_of_memory(error);
  char *where = sqlite3_str_finish(writer.out);
  if (code >= 0) {
    *statement = source_select(source, column, where ? where : "", draws);
    if (!*statement) code = tsx_out_of_memory(error);
  }
  sqlite3_free(where);
  return code;
}

/* Returns true if an array's table with this name is connected, so that the schema need not be read. */
static bool path_is_array(const tsx_connection *connection, const char *schema, const char *name) {
  const tsx_table *t = connection->tables.arrays;
  while (t && (sqlite3_stricmp(t->name, name) != 0 || (schema && sqlite3_stricmp(t->schema_name, schema) != 0)))
    t = t->next;
  return t && (schema || !connection->tables.queries);
}

int tsx_grid_path(tsx_connection *connection, sqlite3_value *path, const char *column, sqlite3_value *slice, bool draws,
                  char **statement, tsr_error *error) {
  char *schema = NULL, *name = NULL;
  tsx_grid_source source = {0};
  tsr_error ignored = {0};
  const char *text = sqlite3_value_type(path) == SQLITE_TEXT ? (const char *)sqlite3_value_text(path) : NULL;
  if (!text || sqlite3_strnicmp(text, "db:", 3) != 0 || tsx_table_name_parse(text + 3, &schema, &name, &ignored) < 0)
    return 0; /* what is wrong with it is said when it is opened */
  int code = path_is_array(connection, schema, name) ? 0 : source_open(connection, schema, name, &source, error);
  if (code > 0)
    code = path_statement(connection->db, &source, column, slice, draws, statement, error) < 0 ? error->code : 1;
  tsx_grid_source_release(&source);
  sqlite3_free(schema);
  sqlite3_free(name);
  return code;
}
