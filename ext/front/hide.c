/* hide.c: tessera_hide(table) and tessera_show(table), for files that programs without the extension open, too; and
 * tessera_attach() without arguments, which makes in temp whatever the file remembers.
 *
 * A hidden table is a row of tessera_kept: its path db:main.NAME, and as options {"module":..., "arguments":...}, the
 * text in the parentheses of its CREATE VIRTUAL TABLE. The shadow tables of its array stay, as ordinary tables. In temp
 * the table is declared as tessera('db:main.NAME', ...) with the same arguments; there a query has its own text.
 *
 * The texts come from the file, so they are hostile: each is run only as the arguments of one CREATE VIRTUAL TABLE,
 * which is what SQLite would do with them if they were in the schema.
 *
 * Sections: declarations; hiding; showing; attaching. */
#include "front/front.h"

#include <string.h>

#include "call/function.h"
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "front/attach.h"
#include "front/kept.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "sql/tokens.h"
#include "table/table.h"
#include "values/value.h"

/* ---- Declarations ------------------------------------------------------------------------------------------------ */

typedef struct declaration { /* of a virtual table; texts from sqlite3_malloc; `= {0}` may be freed */
  char *module; /* tessera or tessera_query */
  char *arguments;
} declaration;

static void declaration_free(declaration *d) {
  sqlite3_free(d->module);
  sqlite3_free(d->arguments);
}

static bool is_known(const char *module) {
  return module && (!sqlite3_stricmp(module, "tessera") || !sqlite3_stricmp(module, "tessera_query"));
}

/* Takes module and arguments out of the text in sqlite_schema. d->module stays NULL if it is no table of tessera's. */
static int declaration_parse(const char *sql, declaration *d, tsr_error *error) {
  tsx_tokens tokens = tsx_tokens_of(sql);
  if (!tsx_token_is(&tokens.token, "CREATE")) return TSR_OK;
  tsx_tokens_next(&tokens);
  if (!tsx_token_is(&tokens.token, "VIRTUAL")) return TSR_OK;
  while (tokens.token.kind != TSX_TOKEN_END && !tsx_token_is(&tokens.token, "USING")) tsx_tokens_next(&tokens);
  tsx_tokens_next(&tokens);
  if (tokens.token.kind == TSX_TOKEN_END || tokens.token.kind == TSX_TOKEN_BAD) return TSR_OK;
  char *module = sqlite3_malloc64(tokens.token.size + 1);
  if (!module) return tsx_out_of_memory(error);
  tsx_token_copy(&tokens.token, module);
  tsx_tokens_next(&tokens);
  const char *begin = tokens.at, *end = strrchr(sql, ')');
  if (!is_known(module) || !tsx_token_is(&tokens.token, "(") || !end || end < begin) {
    sqlite3_free(module);
    return TSR_OK;
  }
  d->module = module;
  while (end > begin && strchr(" \t\r\n", end[-1])) end--;
  d->arguments = sqlite3_mprintf("%.*s", (int)(end - begin), begin);
  return d->arguments ? TSR_OK : tsx_out_of_memory(error);
}

/* Reads the text of a table's declaration. *sql is NULL if there is no such table. */
static int schema_text(sqlite3 *db, const char *schema, const char *name, char **sql, tsr_error *error) {
  sqlite3_stmt *statement;
  *sql = NULL;
  int code = tsx_schema_find(db, schema, name, &statement);
  if (code == SQLITE_ROW) {
    const char *type = (const char *)sqlite3_column_text(statement, 0),
               *text = (const char *)sqlite3_column_text(statement, 1);
    const bool is_table = type && !strcmp(type, "table");
    if (is_table && text) *sql = sqlite3_mprintf("%s", text);
    if (!type || (is_table && !*sql)) code = SQLITE_NOMEM;
  }
  const int result = tsx_core_result(db, code, error);
  sqlite3_finalize(statement);
  return result < 0 ? result : TSR_OK;
}

/* The options of a row of tessera_kept; from sqlite3_malloc. */
static char *options_of(const declaration *d) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  sqlite3_str_appendall(out, "{\"module\":");
  tsx_json_text(out, d->module, strlen(d->module));
  sqlite3_str_appendall(out, ",\"arguments\":");
  tsx_json_text(out, d->arguments, strlen(d->arguments));
  sqlite3_str_appendchar(out, 1, '}');
  return sqlite3_str_finish(out);
}

static int take_text(void *argument, const tsx_json_option *o, tsr_error *error) {
  declaration *d = argument;
  const char *text = (const char *)sqlite3_value_text(o->value);
  char **to = !strcmp(o->key, "module") ? &d->module : !strcmp(o->key, "arguments") ? &d->arguments : NULL;
  if (!to || *to || strcmp(o->type, "text") != 0) return TSR_OK;
  *to = text ? sqlite3_mprintf("%s", text) : NULL;
  return *to ? TSR_OK : tsx_out_of_memory(error);
}

/* Reads the options of a row. d->module stays NULL if it is not that of a hidden table. */
static int declaration_read(sqlite3 *db, const char *options, declaration *d, tsr_error *error) {
  if (!options || sqlite3_strnicmp(options, "{\"module\"", 9) != 0) return TSR_OK;
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(db, "SELECT ?1", -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_bind_text(statement, 1, options, -1, SQLITE_STATIC);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  code = code != SQLITE_ROW
             ? tsx_fail_computing(code, error)
             : tsx_options_each(db, sqlite3_column_value(statement, 0), "tessera_kept", take_text, d, error);
  sqlite3_finalize(statement);
  if (code < 0) return code;
  if (!is_known(d->module) || !d->arguments)
    return tsx_fail(error, TSR_CORRUPT, "tessera_kept: '%.200s' declares no table", options);
  return TSR_OK;
}

/* What stands behind the arguments: a line break ends a comment. */
static const char *end_of(const declaration *d) { return strstr(d->arguments, "--") ? "\n" : ""; }

/* Makes the table SCHEMA.NAME of a declaration whose array, if it has one, is that of db:main.NAME. */
static int declaration_run(tsx_connection *connection, const declaration *d, const char *path, const char *schema,
                           const char *name, tsr_error *error) {
  const bool elsewhere = !sqlite3_stricmp(d->module, "tessera") && sqlite3_stricmp(schema, "main") != 0;
  char *of = elsewhere ? sqlite3_mprintf("%Q, ", path) : sqlite3_mprintf("");
  char *sql = of ? sqlite3_mprintf("CREATE VIRTUAL TABLE \"%w\".\"%w\" USING %s(%s%s%s)", schema, name, d->module, of,
                                   d->arguments, end_of(d))
                 : NULL;
  const int code = sql ? tsx_database_adopt(connection, sql, error) : tsx_out_of_memory(error);
  sqlite3_free(of);
  sqlite3_free(sql);
  return code;
}

/* Reads the argument: *name is the table's name in main, and *path its path; both from sqlite3_malloc. */
static int read_argument(sqlite3_value *value, char **name, char **path, tsr_error *error) {
  char *schema = NULL;
  const char *text = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  if (!text || sqlite3_strnicmp(text, "db:", 3) != 0)
    return tsx_fail(error, TSR_MISMATCH, "expected 'db:TABLE', a table of this database");
  TSX_TRY(tsx_table_name_parse(text + strlen("db:"), &schema, name, error));
  const bool in_main = !schema || sqlite3_stricmp(schema, "main") == 0;
  sqlite3_free(schema);
  if (!in_main) return tsx_fail(error, TSR_ERROR, "%s: only tables of main are hidden", text);
  *path = tsx_store_path("main", *name);
  return *path ? TSR_OK : tsx_out_of_memory(error);
}

/* ---- Hiding ------------------------------------------------------------------------------------------------------ */

static int check_idle(tsx_connection *connection, const char *path, tsr_error *error) {
  if (!tsx_transaction_open_on(connection, path)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", path);
}

/* Only tables whose arrays are in the file can be hidden. */
static int check_inside(const declaration *d, const char *path, tsr_error *error) {
  const tsx_token first = tsx_tokens_of(d->arguments).token;
  if (sqlite3_stricmp(d->module, "tessera") != 0 || first.kind != TSX_TOKEN_STRING) return TSR_OK;
  return tsx_fail(error, TSR_ERROR,
                  "%s shows the array %.*s, which is not in the file: tessera_attach keeps it, with \"keep\":true",
                  path, (int)first.size, first.text);
}

static int hide_declared(tsx_connection *connection, const declaration *d, const char *name, const char *path,
                         tsr_error *error) {
  TSX_TRY(check_inside(d, path, error));
  TSX_TRY(check_idle(connection, path, error));
  char *options = options_of(d);
  if (!options) return tsx_out_of_memory(error);
  int code = tsx_database_keep(connection, "main", name, error);
  if (code >= 0) code = tsx_kept_remember(connection->db, path, options, error);
  sqlite3_free(options);
  return code;
}

/* Hides one table. Returns 1; 0 if main has no virtual table of that name that is tessera's. */
static int hide_one(tsx_connection *connection, const char *name, const char *path, tsr_error *error) {
  declaration d = {0};
  char *sql;
  TSX_TRY(schema_text(connection->db, "main", name, &sql, error));
  int code = sql ? declaration_parse(sql, &d, error) : TSR_OK;
  const bool found = d.module;
  if (code >= 0 && found) code = hide_declared(connection, &d, name, path, error);
  sqlite3_free(sql);
  declaration_free(&d);
  return code < 0 ? code : found;
}

/* Hides or shows one table. Returns 1; 0 if there is no such table. */
typedef int (*table_call)(tsx_connection *connection, const char *name, const char *path, tsr_error *error);

/* Calls it for each level of an array's overviews, which is a table of its own, and adds to *count. */
static int for_levels(tsx_connection *connection, const char *name, table_call call, int *count, tsr_error *error) {
  int code = TSR_OK;
  for (unsigned k = 1; code >= 0 && k <= TSX_LEVELS_MAX; k++) {
    char *level = sqlite3_mprintf("%s_overview_%u", name, k);
    char *path = level ? tsx_store_path("main", level) : NULL;
    code = path ? call(connection, level, path, error) : tsx_out_of_memory(error);
    if (code > 0) *count += code;
    sqlite3_free(level);
    sqlite3_free(path);
  }
  return code < 0 ? code : TSR_OK;
}

static int hide_level(tsx_connection *connection, const char *name, const char *path, tsr_error *error) {
  uint8_t key[32];
  const bool has_key = tsx_key_find(connection, path, key);
  const bool is = tsx_level_is(connection, "main", name, has_key ? key : NULL);
  tsx_wipe(key, sizeof key);
  return is ? hide_one(connection, name, path, error) : 0;
}

static int run_levels(tsx_connection *connection, const char *name, const char *path, table_call level, table_call one,
                      const char *missing, int *tables, tsr_error *error) {
  TSX_TRY(tsx_savepoint_begin(connection, "db:", error));
  TSX_TRY(for_levels(connection, name, level, tables, error));
  const int found = one(connection, name, path, error);
  return found == 0 ? tsx_fail(error, TSR_NOT_FOUND, missing, path) : found;
}

/* One savepoint around all tables, so that the file has either all declarations or none. */
static void call_for(sqlite3_context *context, sqlite3_value *argument, const char *function, table_call level,
                     table_call one, const char *missing) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  char *name = NULL, *path = NULL;
  int tables = 0;
  int code = read_argument(argument, &name, &path, &error);
  if (code >= 0) code = run_levels(connection, name, path, level, one, missing, &tables, &error);
  if (code >= 0) sqlite3_result_int(context, tables + 1);
  sqlite3_free(name);
  sqlite3_free(path);
  tsx_function_end(context, function, code, &error);
}

/* tessera_hide(table): returns the number of tables that it has hidden, those of overviews with it. */
void tsx_hide(sqlite3_context *context, int count, sqlite3_value **values) {
  call_for(context, values[0], "tessera_hide", hide_level, hide_one, "%s: main has no table of tessera of that name");
}

/* ---- Showing ----------------------------------------------------------------------------------------------------- */

typedef struct search { /* a row of tessera_kept */
  sqlite3 *db;
  const char *path;
  declaration found;
} search;

static int compare_row(void *argument, const char *path, const char *options, tsr_error *error) {
  search *s = argument;
  return !path || strcmp(path, s->path) != 0 ? TSR_OK : declaration_read(s->db, options, &s->found, error);
}

/* Compares a declaration in temp with the one that tessera_attach() would make there. */
static int compare_attached(const char *sql, const declaration *d, const char *path, bool *same, tsr_error *error) {
  declaration in_temp = {0};
  const int code = declaration_parse(sql, &in_temp, error);
  char *arguments = NULL;
  const bool comparable = code >= 0 && in_temp.module && !sqlite3_stricmp(in_temp.module, d->module);
  if (comparable)
    arguments = !sqlite3_stricmp(d->module, "tessera") ? sqlite3_mprintf("%Q, %s", path, d->arguments)
                                                       : sqlite3_mprintf("%s", d->arguments);
  *same = arguments && !strcmp(arguments, in_temp.arguments);
  const bool lacks = comparable && !arguments;
  sqlite3_free(arguments);
  declaration_free(&in_temp);
  return lacks ? tsx_out_of_memory(error) : code;
}

/* Looks for a table of that name in temp: *exists, and *same if tessera_attach() would declare it so. */
static int attached_text(sqlite3 *db, const declaration *d, const char *path, const char *name, bool *same,
                         bool *exists, tsr_error *error) {
  char *sql;
  *same = *exists = false;
  TSX_TRY(schema_text(db, "temp", name, &sql, error));
  if (!sql) return TSR_OK;
  *exists = true;
  const int code = compare_attached(sql, d, path, same, error);
  sqlite3_free(sql);
  return code;
}

static int show_found(tsx_connection *connection, const declaration *d, const char *name, const char *path,
                      tsr_error *error) {
  bool same, exists;
  TSX_TRY(check_idle(connection, path, error));
  TSX_TRY(attached_text(connection->db, d, path, name, &same, &exists, error));
  if (same) TSX_TRY(tsx_temp_drop(connection, name, error));
  TSX_TRY(declaration_run(connection, d, path, "main", name, error));
  return tsx_kept_forget(connection->db, path, error);
}

static int show_one(tsx_connection *connection, const char *name, const char *path, tsr_error *error) {
  search s = {.db = connection->db, .path = path};
  int code = tsx_kept_each(connection->db, compare_row, &s, error);
  const bool found = s.found.module;
  if (code >= 0 && found) code = show_found(connection, &s.found, name, path, error);
  declaration_free(&s.found);
  return code < 0 ? code : found;
}

/* tessera_show(table): returns the number of tables that main has again. */
void tsx_show(sqlite3_context *context, int count, sqlite3_value **values) {
  call_for(context, values[0], "tessera_show", show_one, show_one, "%s is not hidden");
}

/* ---- Attaching --------------------------------------------------------------------------------------------------- */

/* A row that fails does not keep the others from being attached: the error at the end names each of them. */
typedef struct attaching {
  tsx_connection *connection;
  sqlite3_str *failed; /* what went wrong, by row */
  uint64_t failures; /* rows */
  bool queries; /* the second walk: queries are declared after the tables that they name */
  uint64_t tables; /* made so far, or there already */
} attaching;

static int attach_named(attaching *a, const declaration *d, const char *path, const char *name, tsr_error *error) {
  bool same, exists;
  TSX_TRY(attached_text(a->connection->db, d, path, name, &same, &exists, error));
  if (exists && !same) return tsx_fail(error, TSR_EXISTS, "a table %s exists in temp: drop or rename it", name);
  if (!exists) TSX_TRY(declaration_run(a->connection, d, path, "temp", name, error));
  a->tables++;
  return TSR_OK;
}

static int attach_hidden(attaching *a, const declaration *d, const char *path, tsr_error *error) {
  char *schema = NULL, *name = NULL;
  if (sqlite3_strnicmp(path, "db:", 3) != 0)
    return tsx_fail(error, TSR_CORRUPT, "tessera_kept: '%.200s' is not a table", path);
  TSX_TRY(tsx_table_name_parse(path + strlen("db:"), &schema, &name, error));
  const int code = attach_named(a, d, path, name, error);
  sqlite3_free(schema);
  sqlite3_free(name);
  return code;
}

#define FAILURES_NAMED 100

/* Returns TSR_OK and notes the error, unless it concerns the call as a whole. */
static int note_failure(attaching *a, const tsr_error *error) {
  if (error->code == TSR_INTERRUPT || error->code == TSR_NOMEM || error->code == TSR_IO) return error->code;
  if (a->failures++ < FAILURES_NAMED)
    sqlite3_str_appendf(a->failed, "%s%s", a->failures > 1 ? "; " : "", error->message);
  return TSR_OK;
}

static int attach_one(attaching *a, const char *path, const char *options, tsr_error *error) {
  declaration d = {0};
  int code = path ? declaration_read(a->connection->db, options, &d, error)
                  : tsx_fail(error, TSR_CORRUPT, "a row whose path or options are not text");
  if (code < 0) {
    declaration_free(&d);
    if (a->queries) return TSR_OK; /* the first walk has said so */
    return path ? tsx_fail_in(path, error) : code;
  }
  const bool declared = d.module != NULL; /* else a path: its errors name it */
  const bool query = declared && !sqlite3_stricmp(d.module, "tessera_query");
  if (query == a->queries)
    code = declared ? attach_hidden(a, &d, path, error)
                    : tsx_attach_again(a->connection, path, options, &a->tables, error);
  declaration_free(&d);
  return code < 0 && declared ? tsx_fail_in(path, error) : code;
}

static int attach_row(void *argument, const char *path, const char *options, tsr_error *error) {
  attaching *a = argument;
  const int code = attach_one(a, path, options, error);
  return code < 0 ? note_failure(a, error) : code;
}

/* Gives the error that names the rows that failed. The others are attached, and stay so. */
static void attach_failed(sqlite3_context *context, attaching *a) {
  char *rows = sqlite3_str_finish(a->failed);
  a->failed = NULL;
  char *text =
      rows ? sqlite3_mprintf("tessera_attach: %llu row%s of tessera_kept failed, the others are attached: %s%s; "
                             "DELETE FROM tessera_kept WHERE path = ... forgets one",
                             (sqlite3_uint64)a->failures, a->failures == 1 ? "" : "s", rows,
                             a->failures > FAILURES_NAMED ? "; ..." : "")
           : NULL;
  if (text) sqlite3_result_error(context, text, -1);
  else sqlite3_result_error_nomem(context);
  sqlite3_free(text);
  sqlite3_free(rows);
}

static int attach_kept(attaching *a, tsr_error *error) {
  TSX_TRY(tsx_savepoint_begin(a->connection, "db:", error));
  for (int pass = 0; pass < 2; pass++) {
    a->queries = pass == 1;
    TSX_TRY(tsx_kept_each(a->connection->db, attach_row, a, error));
  }
  return TSR_OK;
}

/* tessera_attach(): makes in temp what main remembers, and returns how many tables there are of it now. */
void tsx_attach_kept(sqlite3_context *context, int count, sqlite3_value **values) {
  attaching a = {.connection = sqlite3_user_data(context), .failed = sqlite3_str_new(NULL)};
  tsr_error error = {0};
  int code = attach_kept(&a, &error);
  code = error.code = tsx_savepoint_end(a.connection, code, &error);
  if (code < 0) tsx_result_error_of(context, "tessera_attach", &error);
  else if (a.failures) attach_failed(context, &a);
  else sqlite3_result_int64(context, (sqlite3_int64)a.tables);
  sqlite3_free(sqlite3_str_finish(a.failed));
}
