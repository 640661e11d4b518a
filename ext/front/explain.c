/* explain.c: FROM tessera_explain(text[, value ...]): how tessera_sql evaluates each SELECT of a text. It runs
 * nothing. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"

#define COLUMN_TEXT 4 /* the first argument; the visible columns come before it */

typedef struct explain_cursor {
  sqlite3_vtab_cursor base;
  tsx_rewritten rewritten;
  uint32_t row;
} explain_cursor;

static int explain_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                           char **message) {
  (void)count, (void)arguments, (void)message;
  return tsx_front_connect(db, argument, "part INTEGER, text TEXT, evaluated TEXT, detail TEXT", 0, vtab);
}

static int explain_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  return tsx_front_best_index(info, COLUMN_TEXT);
}

static int explain_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  explain_cursor *c = sqlite3_malloc64(sizeof *c);
  (void)vtab;
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  *out = &c->base;
  return SQLITE_OK;
}

static int explain_close(sqlite3_vtab_cursor *cursor) {
  tsx_rewritten_release(&((explain_cursor *)cursor)->rewritten);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int explain_rewrite(explain_cursor *c, int count, sqlite3_value **values, tsr_error *error) {
  const tsx_front_table *table = (const tsx_front_table *)c->base.pVtab;
  if (count == 0) return tsx_fail(error, TSR_MISMATCH, "expected a text: tessera_explain(text[, value ...])");
  const tsx_front_options options = {.explains = true};
  return tsx_rewrite(table->connection, &options, values[0], count - 1, values + 1, &c->rewritten, error);
}

static int explain_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count,
                          sqlite3_value **values) {
  explain_cursor *c = (explain_cursor *)cursor;
  tsr_error error = {0};
  (void)number, (void)text;
  tsx_rewritten_release(&c->rewritten);
  c->row = 0;
  const int code = explain_rewrite(c, count, values, &error);
  if (code >= 0) return SQLITE_OK;
  tsx_rewritten_release(&c->rewritten);
  if (code == TSR_NOMEM || code == TSR_INTERRUPT) return tsx_vtab_error(cursor->pVtab, &error);
  return tsx_vtab_fail(cursor->pVtab, tsx_sqlite_code(code), "tessera_explain: %s", error.message);
}

static int explain_next(sqlite3_vtab_cursor *cursor) {
  ((explain_cursor *)cursor)->row++;
  return SQLITE_OK;
}

static int explain_eof(sqlite3_vtab_cursor *cursor) {
  const explain_cursor *c = (const explain_cursor *)cursor;
  return c->row >= c->rewritten.script.select_count;
}

static int explain_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column) {
  static const char *const hows[] = {[TSX_HOW_ROWS] = "rows", [TSX_HOW_COLUMNS] = "columns", [TSX_HOW_ONCE] = "once"};
  const explain_cursor *c = (const explain_cursor *)cursor;
  const tsx_front_part *part = &c->rewritten.parts[c->row];
  switch (column) {
  case 0: sqlite3_result_int64(context, (sqlite3_int64)c->row + 1); break;
  case 1: sqlite3_result_text(context, part->begin, (int)(part->end - part->begin), SQLITE_TRANSIENT); break;
  case 2: sqlite3_result_text(context, hows[part->how], -1, SQLITE_STATIC); break;
  case 3: sqlite3_result_text(context, part->detail, -1, SQLITE_TRANSIENT); break;
  default: break; /* an argument: SQLite does not test it again */
  }
  return SQLITE_OK;
}

static int explain_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = (sqlite3_int64)((explain_cursor *)cursor)->row + 1;
  return SQLITE_OK;
}

static const sqlite3_module explain_module = {.xConnect = explain_connect,
                                              .xBestIndex = explain_best_index,
                                              .xDisconnect = tsx_front_disconnect,
                                              .xOpen = explain_open,
                                              .xClose = explain_close,
                                              .xFilter = explain_filter,
                                              .xNext = explain_next,
                                              .xEof = explain_eof,
                                              .xColumn = explain_column,
                                              .xRowid = explain_rowid};

int tsx_register_explain(tsx_connection *connection) {
  tsx_connection_hold(connection);
  return sqlite3_create_module_v2(connection->db, "tessera_explain", &explain_module, connection, tsx_connection_drop);
}
