/* select.c: FROM tessera_select(text[, value ...]): the rows of a text that is rewritten as by tessera_sql, for hosts
 * that run no more than one SELECT.
 *
 * SQLite wants to know the columns of a table before it knows the arguments. So the visible column `row` has the whole
 * row as a JSON object, and the hidden columns c1 to c64 have its values. The hidden columns of the arguments come
 * before these, because the arguments of a call are the first hidden columns. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"
#include "tessera_host.h"
#include "values/value.h"

#define SELECT_COLUMNS   64 /* c1 to c64 */
#define SELECT_DEPTH_MAX 8 /* tessera_select in the text of a tessera_select */
#define COLUMN_TEXT      1
#define COLUMN_VALUES    (COLUMN_TEXT + 1 + TSX_FRONT_VALUES) /* c1 */

typedef struct select_cursor {
  sqlite3_vtab_cursor base;
  sqlite3_stmt *statement;
  sqlite3_value *arguments[1 + TSX_FRONT_VALUES];
  int count; /* of arguments */
  bool done;
  sqlite3_int64 row;
} select_cursor;

static int select_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                          char **message) {
  (void)count, (void)arguments, (void)message;
  return tsx_front_connect(db, argument, "row TEXT", SELECT_COLUMNS, vtab);
}

static int select_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info) {
  (void)vtab;
  return tsx_front_best_index(info, COLUMN_TEXT);
}

static int select_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out) {
  select_cursor *c = sqlite3_malloc64(sizeof *c);
  (void)vtab;
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  c->done = true;
  *out = &c->base;
  return SQLITE_OK;
}

static void select_clear(select_cursor *c) {
  sqlite3_finalize(c->statement);
  c->statement = NULL;
  for (int i = 0; i < c->count; i++) sqlite3_value_free(c->arguments[i]);
  c->count = 0;
  c->done = true;
}

static int select_close(sqlite3_vtab_cursor *cursor) {
  select_clear((select_cursor *)cursor);
  sqlite3_free(cursor);
  return SQLITE_OK;
}

static int select_fail(sqlite3_vtab *vtab, const tsr_error *error) {
  if (error->code == TSR_NOMEM || error->code == TSR_INTERRUPT) return tsx_vtab_error(vtab, error);
  return tsx_vtab_fail(vtab, tsx_sqlite_code(error->code), "tessera_select: %s", error->message);
}

static tsx_connection *select_connection(const select_cursor *c) {
  return ((const tsx_front_table *)c->base.pVtab)->connection;
}

static int select_next(sqlite3_vtab_cursor *cursor) {
  select_cursor *c = (select_cursor *)cursor;
  tsx_connection *connection = select_connection(c);
  connection->selecting++;
  const int code = sqlite3_step(c->statement);
  connection->selecting--;
  c->done = code != SQLITE_ROW;
  c->row++;
  if (code == SQLITE_ROW || code == SQLITE_DONE) return SQLITE_OK;
  return tsx_vtab_fail(cursor->pVtab, code, "%s", sqlite3_errmsg(connection->db));
}

static int select_prepare_rewritten(select_cursor *c, const tsx_rewritten *rewritten, tsr_error *error) {
  sqlite3 *db = select_connection(c)->db;
  if (rewritten->script.writes) return tsx_fail(error, TSR_READONLY, "'%s' writes", rewritten->script.writes);
  if (sqlite3_prepare_v2(db, rewritten->sql, -1, &c->statement, NULL) != SQLITE_OK)
    return tsx_fail(error, tsx_core_code(sqlite3_errcode(db)), "%s", sqlite3_errmsg(db));
  if (!sqlite3_stmt_readonly(c->statement)) return tsx_fail(error, TSR_READONLY, "the text writes");
  const int parameters = sqlite3_bind_parameter_count(c->statement);
  return parameters > 0 ? tsx_fail(error, TSR_ERROR, "%d parameters, 0 values", parameters) : TSR_OK;
}

/* Rewrites and prepares the text. */
static int select_prepare(select_cursor *c, tsr_error *error) {
  tsx_connection *connection = select_connection(c);
  const tsx_front_options options = {0};
  tsx_rewritten rewritten = {0};
  if (c->count == 0) return tsx_fail(error, TSR_MISMATCH, "expected a text: tessera_select(text[, value ...])");
  if (connection->selecting == SELECT_DEPTH_MAX) return tsx_fail(error, TSR_ERROR, "tessera_select calls itself");
  connection->selecting++;
  int code = tsx_rewrite(connection, &options, c->arguments[0], c->count - 1, c->arguments + 1, &rewritten, error);
  if (code >= 0) code = select_prepare_rewritten(c, &rewritten, error);
  tsx_rewritten_release(&rewritten);
  connection->selecting--;
  return code;
}

static int select_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values) {
  select_cursor *c = (select_cursor *)cursor;
  tsr_error error = {0};
  (void)number, (void)text;
  select_clear(c);
  c->row = 0;
  for (; c->count < count; c->count++)
    if (!(c->arguments[c->count] = sqlite3_value_dup(values[c->count]))) return SQLITE_NOMEM;
  return select_prepare(c, &error) < 0 ? select_fail(cursor->pVtab, &error) : select_next(cursor);
}

static int select_eof(sqlite3_vtab_cursor *cursor) { return ((select_cursor *)cursor)->done; }

/* ---- The row as JSON --------------------------------------------------------------------------------------------- */

static void json_text(sqlite3_str *out, const char *text, uint64_t size) {
  sqlite3_str_appendchar(out, 1, '"');
  for (const char *end = text + size; text < end; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') sqlite3_str_appendf(out, "\\%c", c);
    else if (c < ' ') sqlite3_str_appendf(out, "\\u%04x", c);
    else sqlite3_str_appendchar(out, 1, (char)c);
  }
  sqlite3_str_appendchar(out, 1, '"');
}

static void json_base64(sqlite3_str *out, const uint8_t *bytes, uint64_t size) {
  char text[1025];
  sqlite3_str_appendchar(out, 1, '"');
  for (uint64_t i = 0; i < size; i += 768) { /* a multiple of 3, so that only the end is padded */
    const uint64_t written = tsr_base64_write(TSR_BASE64, bytes + i, size - i < 768 ? size - i : 768, text);
    sqlite3_str_append(out, text, (int)written);
  }
  sqlite3_str_appendchar(out, 1, '"');
}

static void json_value(sqlite3_str *out, sqlite3_stmt *statement, int i) {
  switch (sqlite3_column_type(statement, i)) {
  case SQLITE_INTEGER: sqlite3_str_appendf(out, "%lld", sqlite3_column_int64(statement, i)); break;
  case SQLITE_FLOAT: tsx_json_real(out, sqlite3_column_double(statement, i)); break;
  case SQLITE_TEXT: {
    const char *text = (const char *)sqlite3_column_text(statement, i);
    json_text(out, text ? text : "", text ? (uint64_t)sqlite3_column_bytes(statement, i) : 0);
    break;
  }
  case SQLITE_BLOB: {
    const uint8_t *bytes = sqlite3_column_blob(statement, i);
    json_base64(out, bytes, (uint64_t)sqlite3_column_bytes(statement, i));
    break;
  }
  default: sqlite3_str_appendall(out, "null");
  }
}

static bool has_column(sqlite3_stmt *statement, const char *name) {
  for (int i = 0; i < sqlite3_column_count(statement); i++) {
    const char *other = sqlite3_column_name(statement, i);
    if (other && !strcmp(other, name)) return true;
  }
  return false;
}

/* Returns the key of column i, from sqlite3_malloc. The n-th column of a name gets the suffix _n; numbers that would
 * make it the name of another column are left out. */
static char *json_key(sqlite3_stmt *statement, int i) {
  const char *name = sqlite3_column_name(statement, i);
  int before = 0, number = 1;
  if (!name) return NULL;
  for (int j = 0; j < i; j++) {
    const char *other = sqlite3_column_name(statement, j);
    before += other && !strcmp(other, name);
  }
  char *key = sqlite3_mprintf("%s", name);
  while (key && before > 0) {
    sqlite3_free(key);
    key = sqlite3_mprintf("%s_%d", name, ++number);
    before -= key && !has_column(statement, key);
  }
  return key;
}

/* Returns false without memory. */
static bool json_name(sqlite3_str *out, sqlite3_stmt *statement, int i) {
  char *key = json_key(statement, i);
  if (!key) return false;
  json_text(out, key, strlen(key));
  sqlite3_free(key);
  return true;
}

static void json_row(sqlite3_context *context, sqlite3_stmt *statement) {
  sqlite3_str *out = sqlite3_str_new(sqlite3_context_db_handle(context));
  bool named = true;
  for (int i = 0; i < sqlite3_column_count(statement) && named; i++) {
    sqlite3_str_appendchar(out, 1, i ? ',' : '{');
    named = json_name(out, statement, i);
    sqlite3_str_appendchar(out, 1, ':');
    json_value(out, statement, i);
  }
  sqlite3_str_appendchar(out, 1, '}');
  const int code = sqlite3_str_errcode(out), size = sqlite3_str_length(out);
  char *text = sqlite3_str_finish(out);
  if (named && code == SQLITE_OK && text) {
    sqlite3_result_text(context, text, size, sqlite3_free);
    return;
  }
  if (code == SQLITE_TOOBIG) sqlite3_result_error_toobig(context);
  else sqlite3_result_error_nomem(context);
  sqlite3_free(text);
}

static int select_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column) {
  const select_cursor *c = (const select_cursor *)cursor;
  if (column == 0) {
    json_row(context, c->statement);
    return SQLITE_OK;
  }
  if (column < COLUMN_VALUES) {
    if (column - COLUMN_TEXT < c->count) sqlite3_result_value(context, c->arguments[column - COLUMN_TEXT]);
    return SQLITE_OK;
  }
  const int i = column - COLUMN_VALUES, count = sqlite3_column_count(c->statement);
  if (i >= count)
    return tsx_vtab_fail(cursor->pVtab, SQLITE_ERROR, "tessera_select: no column c%d: the text has %d", i + 1, count);
  sqlite3_result_value(context, sqlite3_column_value(c->statement, i));
  return SQLITE_OK;
}

static int select_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid) {
  *rowid = ((select_cursor *)cursor)->row;
  return SQLITE_OK;
}

static const sqlite3_module select_module = {.xConnect = select_connect,
                                             .xBestIndex = select_best_index,
                                             .xDisconnect = tsx_front_disconnect,
                                             .xOpen = select_open,
                                             .xClose = select_close,
                                             .xFilter = select_filter,
                                             .xNext = select_next,
                                             .xEof = select_eof,
                                             .xColumn = select_column,
                                             .xRowid = select_rowid};

int tsx_register_select(tsx_connection *connection) {
  tsx_connection_hold(connection);
  return sqlite3_create_module_v2(connection->db, "tessera_select", &select_module, connection, tsx_connection_drop);
}
