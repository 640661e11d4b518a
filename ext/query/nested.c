/* nested.c: nested statements, in which SQLite evaluates parts of a query.
 *
 * A nested statement selects from the table _tessera_query_rows. Its rows come from callbacks (tsx_rows), its columns
 * are slots. The callbacks are bound as a pointer to its hidden column `rows`, which only this file can do, so in any
 * other statement the table is empty. Axes, constants and the final SELECT are all evaluated in this way.
 *
 * Sections: words and slots; nested statements; the table _tessera_query_rows. */
#include "query/query_internal.h"

#include <limits.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/statement.h"

#define ROWS_POINTER  "_tessera_query_rows"
#define ROWS_EXPECTED 1000000

typedef struct rows_table {
  sqlite3_vtab base;
  tsx_connection *connection;
} rows_table;

typedef struct rows_cursor {
  sqlite3_vtab_cursor base;
  tsx_rows *rows;
  bool done;
  sqlite3_int64 row;
} rows_cursor;

/* ---- Words and slots --------------------------------------------------------------------------------------------- */

static const char slot_letters[] = "irtb";

int tsx_slot_take(tsx_slots *slots, tsx_affinity affinity) {
  const int most = affinity == TSX_SLOT_NONE ? TSX_SLOTS_NONE : TSX_SLOTS;
  return slots->used[affinity] >= most ? -1 : (int)affinity * TSX_SLOTS + slots->used[affinity]++;
}

tsx_affinity tsx_slot_affinity(const char *declared) {
  if (!strncmp(declared, "INT", 3) || !strcmp(declared, "NUM")) return TSX_SLOT_INTEGER; /* they compare alike */
  return !strcmp(declared, "REAL") ? TSX_SLOT_REAL : !strcmp(declared, "TEXT") ? TSX_SLOT_TEXT : TSX_SLOT_NONE;
}

void tsx_slot_append(sqlite3_str *out, int slot) {
  const int kind = slot / TSX_SLOTS < 3 ? slot / TSX_SLOTS : 3;
  sqlite3_str_appendf(out, "%s" TSX_ROWS_NAME ".%c%d", kind == 3 ? "+" : "", slot_letters[kind],
                      slot - kind * TSX_SLOTS);
}

void tsx_words_until(sqlite3_str *out, const tsx_expr *tree, const char **from, tsx_replace replace, void *argument) {
  const char *before = *from;
  if (tree->kind == TSX_EXPR_SUBQUERY && tree->name) {
    sqlite3_str_appendf(out, "%.*s(%s)", (int)(tree->begin - before), before, tree->name);
    *from = tree->end;
    return;
  }
  sqlite3_str *words = sqlite3_str_new(NULL);
  if (replace(argument, tree, words)) {
    sqlite3_str_append(out, before, (int)(tree->begin - before));
    sqlite3_str_appendchar(out, 1, '(');
    sqlite3_str_append(out, sqlite3_str_length(words) ? sqlite3_str_value(words) : "", sqlite3_str_length(words));
    sqlite3_str_appendchar(out, sqlite3_str_errcode(words) ? INT_MAX : 1, ')'); /* passes the error on to `out` */
    *from = tree->end;
  } else {
    if (tree->base) tsx_words_until(out, tree->base, from, replace, argument);
    for (uint32_t i = 0; i < tree->count; i++) tsx_words_until(out, tree->operands[i], from, replace, argument);
  }
  sqlite3_free(sqlite3_str_finish(words));
}

void tsx_words_append(sqlite3_str *out, const tsx_expr *tree, tsx_replace replace, void *argument) {
  const char *from = tree->begin;
  tsx_words_until(out, tree, &from, replace, argument);
  sqlite3_str_append(out, from, (int)(tree->end - from));
}

/* ---- Nested statements ------------------------------------------------------------------------------------------- */

int tsx_rows_prepare(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                     tsr_error *error) {
  int code = tsx_sql_prepare(connection->db, sqlite3_str_finish(text), statement);
  if (code == SQLITE_OK && rows) code = sqlite3_bind_pointer(*statement, 1, rows, ROWS_POINTER, NULL);
  return tsx_core_result(connection->db, code, error);
}

int tsx_rows_bind(tsx_connection *connection, sqlite3_stmt *statement, int parameter, tsx_rows *rows,
                  tsr_error *error) {
  const int code = sqlite3_bind_pointer(statement, parameter, rows, ROWS_POINTER, NULL);
  return tsx_core_result(connection->db, code, error);
}

int tsx_rows_step(tsx_connection *connection, sqlite3_stmt *statement, tsr_error *error) {
  return tsx_core_result(connection->db, sqlite3_step(statement), error);
}

int tsx_rows_only(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                  tsr_error *error) {
  TSX_TRY(tsx_rows_prepare(connection, text, rows, statement, error));
  const int step = tsx_rows_step(connection, *statement, error);
  if (step < 0) return step;
  return step ? TSR_OK : tsx_rows_none(error);
}

int tsx_rows_none(tsr_error *error) { return tsx_fail(error, TSR_AUTH, "the authorizer hides what SQLite evaluates"); }

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int rows_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                        char **message) {
  static const char *const types[] = {"INTEGER", "REAL", "TEXT", "BLOB"};
  (void)count, (void)arguments, (void)message;
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendall(out, "CREATE TABLE x(");
  for (int kind = 0; kind < 4; kind++)
    for (int i = 0; i < (kind == 3 ? TSX_SLOTS_NONE : TSX_SLOTS); i++)
      sqlite3_str_appendf(out, "%c%d %s, ", slot_letters[kind], i, types[kind]);
  sqlite3_str_appendall(out, "rows BLOB HIDDEN)");
  char *text = sqlite3_str_finish(out);
  int code = text ? tsx_declare(db, text) : SQLITE_NOMEM;
  sqlite3_free(text);
  rows_table *table = code == SQLITE_OK ? sqlite3_malloc64(sizeof *table) : NULL;
  if (!table) return code == SQLITE_OK ? SQLITE_NOMEM : code;
  *table = (rows_table){.connection = argument};
  tsx_connection_hold(table->connection);
  *vtab = &table->base;
  return SQLITE_OK;
}

static int rows_disconnect(sqlite3_vtab *vtab) {
  rows_table *table = (rows_table *)vtab;
  tsx_connection_drop(table->connection);
  sqlite3_free(table);
  return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  /* The number of rows is not known until they are bound. SQLite builds an automatic index only if it expects many. */
  info->estimatedRows = ROWS_EXPECTED;
  info->estimatedCost = ROWS_EXPECTED;
  for (int i = 0; i < info->nConstraint; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    if (c->iColumn != TSX_SLOT_COUNT || c->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    if (!c->usable) return SQLITE_CONSTRAINT;
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    info->idxNum = 1;
  }
  return SQLITE_OK;
}

static int rows_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  (void)vtab;
  rows_cursor *c = sqlite3_malloc64(sizeof *c);
  if (!c) return SQLITE_NOMEM;
  *c = (rows_cursor){.done = true};
  *out = &c->base;
  return SQLITE_OK;
}

static int rows_close(sqlite3_vtab_cursor *cursor) {
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int rows_next(sqlite3_vtab_cursor *cursor) {
  rows_cursor *c = (rows_cursor *)cursor;
  tsr_error error = {0};
  const int code = c->rows->next(c->rows, &error);
  c->done = code <= 0;
  c->row++;
  return code < 0 ? tsx_vtab_error(cursor->pVtab, &error) : SQLITE_OK;
}

static int rows_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values) {
  rows_cursor *c = (rows_cursor *)cursor;
  (void)text;
  c->rows = number == 1 && count == 1 ? sqlite3_value_pointer(values[0], ROWS_POINTER) : NULL;
  c->row = 0;
  c->done = true;
  return c->rows ? rows_next(cursor) : SQLITE_OK;
}

static int rows_eof(sqlite3_vtab_cursor *cursor) { return ((rows_cursor *)cursor)->done; }

static int rows_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column) {
  const rows_cursor *c = (const rows_cursor *)cursor;
  tsr_error error;
  tsx_error_init(&error);
  if (column >= TSX_SLOT_COUNT) return SQLITE_OK;
  const int code = c->rows->column(c->rows, context, column, &error);
  return code < 0 ? tsx_vtab_error(cursor->pVtab, &error) : SQLITE_OK;
}

static int rows_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = ((rows_cursor *)cursor)->row;
  return SQLITE_OK;
}

static const sqlite3_module rows_module = {.xConnect = rows_connect,
                                           .xBestIndex = rows_best_index,
                                           .xDisconnect = rows_disconnect,
                                           .xOpen = rows_open,
                                           .xClose = rows_close,
                                           .xFilter = rows_filter,
                                           .xNext = rows_next,
                                           .xEof = rows_eof,
                                           .xColumn = rows_column,
                                           .xRowid = rows_rowid};

int tsx_rows_register(tsx_connection *connection) {
  tsx_connection_hold(connection);
  return sqlite3_create_module_v2(connection->db, "_tessera_query_rows", &rows_module, connection, tsx_connection_drop);
}
