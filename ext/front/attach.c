/* attach.c: tessera_attach(path[, options]), tessera_detach(path) and tessera_attached: the arrays of a group as
 * tables.
 *
 * The tables are declared in `temp` unless the options say where, so the file of the database stays as it is. Beside
 * them, an ordinary table tessera_attachments remembers what was attached: so ROLLBACK takes back both, and a second
 * call knows which tables are its own. One call is a savepoint. It drops what the group has no more, makes what is new,
 * and leaves alone what has the same declaration.
 *
 * Sections: options; what is attached; making and dropping tables; the functions; tessera_attached. */
#include "front/attach.h"

#include <string.h>
#include <time.h>

#include "call/function.h"
#include "connection/errors.h"
#include "definition/arguments.h"
#include "front/kept.h"
#include "sql/options.h"
#include "sql/statement.h"
#include "table/table.h"

#define MEMORY "tessera_attachments"

/* ---- Options ----------------------------------------------------------------------------------------------------- */

enum {
  ATTACH_AS,
  ATTACH_PREFIX,
  ATTACH_SCHEMA,
  ATTACH_MEASUREMENT,
  ATTACH_DEPTH,
  ATTACH_TABLES,
  ATTACH_KEEP,
  ATTACH_AS_OF, /* from here on: options of each table */
  ATTACH_SINCE,
  ATTACH_KEY_FILE,
  ATTACH_MEMORY_MB,
  ATTACH_CACHE_MB,
  ATTACH_THREADS,
  ATTACH_DATETIMES,
  ATTACH_ENUMS,
  ATTACH_UINT64
};

static const tsx_option_spec attach_specs[] = {
    [ATTACH_AS] = {"as", TSX_TAKES_WORD, 0, 0, TSX_WORDS("auto", "plain", "soma", "cf", "vcf")},
    [ATTACH_PREFIX] = {"prefix", TSX_TAKES_TEXT, 0, 0, NULL},
    [ATTACH_SCHEMA] = {"schema", TSX_TAKES_TEXT, 0, 0, NULL},
    [ATTACH_MEASUREMENT] = {"measurement", TSX_TAKES_TEXT, 0, 0, NULL},
    [ATTACH_DEPTH] = {"depth", TSX_TAKES_WHOLE, 1, 100, NULL},
    [ATTACH_TABLES] = {"tables", TSX_TAKES_WHOLE, 1, 100000, NULL},
    [ATTACH_KEEP] = {"keep", TSX_TAKES_FLAG, 0, 0, NULL},
    [ATTACH_AS_OF] = {.name = "as_of"},
    [ATTACH_SINCE] = {.name = "since"},
    [ATTACH_KEY_FILE] = {"key_file", TSX_TAKES_TEXT, 0, 0, NULL},
    [ATTACH_MEMORY_MB] = TSX_SPEC_MEMORY_MB,
    [ATTACH_CACHE_MB] = TSX_SPEC_CACHE_MB,
    [ATTACH_THREADS] = TSX_SPEC_THREADS,
    [ATTACH_DATETIMES] = {"datetimes", TSX_TAKES_WORD, 0, 0, TSX_WORDS("iso", "integer", "duration")},
    [ATTACH_ENUMS] = {"enums", TSX_TAKES_WORD, 0, 0, TSX_WORDS("label", "code")},
    [ATTACH_UINT64] = {"uint64", TSX_TAKES_WORD, 0, 0, TSX_WORDS("text", "signed")}};

typedef struct attach_reading {
  tsx_attach_options *options;
  sqlite3_str *rest;
} attach_reading;

static int keep_text(const char *text, char **kept, tsr_error *error) {
  sqlite3_free(*kept);
  *kept = sqlite3_mprintf("%s", text);
  return *kept ? TSR_OK : tsx_out_of_memory(error);
}

/* Adds an option to those of each table. */
static int pass_on(attach_reading *r, unsigned option, const tsx_option_value *value, tsr_error *error) {
  const char *name = attach_specs[option].name;
  uint64_t time = TSR_TIME_NOW;
  switch (attach_specs[option].kind) {
  case TSX_TAKES_TEXT: sqlite3_str_appendf(r->rest, ", %s=%Q", name, value->text); break;
  case TSX_TAKES_WORD: sqlite3_str_appendf(r->rest, ", %s=%s", name, attach_specs[option].words[value->whole]); break;
  case TSX_TAKES_WHOLE: sqlite3_str_appendf(r->rest, ", %s=%lld", name, (long long)value->whole); break;
  default: {
    const int code = tsx_time_value(value->json->value, name, &time, error);
    if (code < 0) return code;
    sqlite3_str_appendf(r->rest, ", %s=%llu", name, (unsigned long long)time);
    if (option == ATTACH_AS_OF) r->options->as_of = time;
  }
  }
  return TSR_OK;
}

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  static const tsx_layout_kind kinds[] = {TSX_LAYOUT_AUTO, TSX_LAYOUT_PLAIN, TSX_LAYOUT_SOMA, TSX_LAYOUT_CF,
                                          TSX_LAYOUT_VCF};
  attach_reading *r = argument;
  switch (option) {
  case ATTACH_AS: r->options->as = kinds[value->whole]; break;
  case ATTACH_PREFIX: return keep_text(value->text, &r->options->prefix, error);
  case ATTACH_SCHEMA: return keep_text(value->text, &r->options->schema, error);
  case ATTACH_MEASUREMENT: return keep_text(value->text, &r->options->measurement, error);
  case ATTACH_DEPTH: r->options->depth = (uint64_t)value->whole; break;
  case ATTACH_TABLES: r->options->tables = (uint64_t)value->whole; break;
  case ATTACH_KEEP: r->options->keep = value->whole; break;
  default: return pass_on(r, option, value, error);
  }
  return TSR_OK;
}

static void free_options(tsx_attach_options *options) {
  sqlite3_free(options->prefix);
  sqlite3_free(options->schema);
  sqlite3_free(options->measurement);
  sqlite3_free(options->rest);
}

static int set_defaults(tsx_attach_options *options, tsr_error *error) {
  if (!options->prefix) TSX_TRY(keep_text("", &options->prefix, error));
  return options->schema ? TSR_OK : keep_text("temp", &options->schema, error);
}

/* Reads the options. The caller frees them, also after an error. */
static int read_options(tsx_connection *connection, sqlite3_value *json, tsx_attach_options *options,
                        tsr_error *error) {
  static const tsx_option_list list = TSX_OPTION_LIST(attach_specs);
  attach_reading r = {.options = options, .rest = sqlite3_str_new(NULL)};
  *options = (tsx_attach_options){.depth = 16, .tables = 1000, .as_of = TSR_TIME_NOW};
  const int code = tsx_options_read(connection->db, json, &list, take_option, &r, error);
  const bool complete = sqlite3_str_errcode(r.rest) == SQLITE_OK;
  options->rest = sqlite3_str_finish(r.rest);
  if (code < 0) return code;
  return complete ? set_defaults(options, error) : tsx_out_of_memory(error);
}

/* ---- What is attached -------------------------------------------------------------------------------------------- */

/* Runs a statement, and frees its text. */
static int run(tsx_connection *connection, char *sql, tsr_error *error) {
  return tsx_core_result(connection->db, tsx_sql_run(connection->db, sql, NULL), error);
}

static const char *text_at(sqlite3_stmt *statement, int column) {
  const char *text = (const char *)sqlite3_column_text(statement, column);
  return text ? text : "";
}

/* Returns 1 if a database has a table, view or index of that name, 0 if not, or an error. */
static int has_object(tsx_connection *connection, const char *schema, const char *name, tsr_error *error) {
  sqlite3 *db = connection->db;
  sqlite3_stmt *statement;
  char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema WHERE name = %Q COLLATE NOCASE", schema, name);
  const int code = tsx_core_result(db, tsx_sql_first(db, sql, &statement), error);
  sqlite3_finalize(statement);
  return code;
}

/* Returns 1 if a database has the table tessera_attachments, 0 if not; an error if another one has its name. */
static int has_memory(tsx_connection *connection, const char *schema, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  const int found = has_object(connection, schema, MEMORY, error);
  if (found <= 0) return found;
  char *sql =
      sqlite3_mprintf("SELECT name, kind, path, member, root, semantics, declaration FROM \"%w\"." MEMORY, schema);
  const int code = tsx_sql_prepare_plain(connection->db, sql, &statement);
  sqlite3_finalize(statement);
  if (code == SQLITE_OK) return 1;
  if (code != SQLITE_ERROR) return tsx_core_result(connection->db, code, error);
  return tsx_fail(
      error, TSR_ERROR,
      "%s." MEMORY " is not the table that tessera makes, in which it remembers what is attached: rename it", schema);
}

/* Makes one SELECT over what is attached in all databases; `columns` are of tessera_attachments and of sqlite_schema,
 * whose columns are NULL for tables that are missing. Returns NULL in *sql if nothing was ever attached. */
static int select_attached(tsx_connection *connection, const char *columns, const char *where, char **sql,
                           tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(connection->db);
  sqlite3_stmt *names = NULL;
  const char *schema;
  int result = tsx_schemas_prepare(connection->db, &names), code = TSR_OK;
  while (code >= 0 && (schema = tsx_schemas_next(names, &result))) {
    if ((code = has_memory(connection, schema, error)) <= 0) continue;
    sqlite3_str_appendf(out,
                        "%sSELECT %s, %Q AS of FROM \"%w\"." MEMORY " AS a LEFT JOIN \"%w\".sqlite_schema AS s "
                        "ON s.name = a.name COLLATE NOCASE AND s.type = 'table' WHERE %s",
                        sqlite3_str_length(out) ? " UNION ALL " : "", columns, schema, schema, schema, where);
  }
  sqlite3_finalize(names);
  const int built = sqlite3_str_errcode(out); /* without memory the text would be NULL, too */
  *sql = sqlite3_str_finish(out);
  if (code >= 0) code = tsx_core_result(connection->db, result, error);
  if (code >= 0) code = tsx_core_result(connection->db, built, error);
  return code < 0 ? code : TSR_OK;
}

/* Makes tessera_attachments, unless it is there. */
static int make_memory(tsx_connection *connection, const char *schema, tsr_error *error) {
  return run(connection,
             sqlite3_mprintf("CREATE TABLE IF NOT EXISTS \"%w\"." MEMORY "(name TEXT NOT NULL, kind TEXT NOT NULL, "
                             "path TEXT NOT NULL, member TEXT NOT NULL, root TEXT NOT NULL, semantics TEXT, "
                             "declaration TEXT NOT NULL)",
                             schema),
             error);
}

/* ---- Making and dropping tables ---------------------------------------------------------------------------------- */

/* Returns the declaration of a table after USING. */
static char *declaration(const tsx_attachment *all, const tsx_attach_table *table) {
  return sqlite3_mprintf("%s(%Q%s%s)", table->module ? table->module : "tessera", table->path,
                         table->options ? table->options : "", all->options->rest ? all->options->rest : "");
}

/* Drops one table, if it is there, and forgets it. */
static int drop_table(tsx_connection *connection, const char *schema, const char *name, bool there, tsr_error *error) {
  int code = TSR_OK;
  if (there && sqlite3_stricmp(schema, "temp") == 0) code = tsx_temp_drop(connection, name, error);
  else if (there) code = run(connection, sqlite3_mprintf("DROP TABLE \"%w\".\"%w\"", schema, name), error);
  if (code == TSR_BUSY) {
    const tsr_error why = *error;
    return tsx_fail(error, code, "table %s is in use, or another statement is: end it first (%s)", name, why.message);
  }
  if (code < 0) return code;
  return run(connection, sqlite3_mprintf("DELETE FROM \"%w\"." MEMORY " WHERE name = %Q", schema, name), error);
}

typedef struct attached { /* tables of one root, as tessera_attachments has them; all texts from sqlite3_malloc */
  struct attached_table {
    char *schema, *name, *declaration;
    bool there; /* the table exists */
    bool kept; /* it stays as it is */
  } * tables;
  uint32_t count;
} attached;

static void free_attached(attached *old) {
  for (uint32_t i = 0; i < old->count; i++) {
    sqlite3_free(old->tables[i].schema);
    sqlite3_free(old->tables[i].name);
    sqlite3_free(old->tables[i].declaration);
  }
  sqlite3_free(old->tables);
}

static int read_attached(tsx_connection *connection, const char *root, attached *old, tsr_error *error) {
  char *sql = NULL, *where = sqlite3_mprintf("a.root = %Q", root);
  sqlite3_stmt *statement = NULL;
  int code = where ? select_attached(connection, "a.name, a.declaration, s.name IS NOT NULL", where, &sql, error)
                   : tsx_out_of_memory(error);
  sqlite3_free(where);
  if (code < 0 || !sql) {
    sqlite3_free(sql);
    return code;
  }
  code = tsx_core_result(connection->db, tsx_sql_prepare(connection->db, sql, &statement), error);
  while (code >= 0 && (code = tsx_core_result(connection->db, sqlite3_step(statement), error)) > 0) {
    struct attached_table *tables = sqlite3_realloc64(old->tables, (old->count + UINT64_C(1)) * sizeof *tables);
    if (tables) old->tables = tables;
    if (!tables) {
      code = tsx_out_of_memory(error);
      break;
    }
    struct attached_table *table = &tables[old->count++];
    *table = (struct attached_table){
        sqlite3_mprintf("%s", text_at(statement, 3)), sqlite3_mprintf("%s", text_at(statement, 0)),
        sqlite3_mprintf("%s", text_at(statement, 1)), sqlite3_column_int(statement, 2) != 0, false};
    if (!table->schema || !table->name || !table->declaration) code = tsx_out_of_memory(error);
  }
  sqlite3_finalize(statement);
  return code;
}

/* Finds the tables that stay as they are: name, schema and declaration are the same. keeps[i]: table i is there. */
static int find_kept(const tsx_attachment *all, attached *old, bool *keeps, tsr_error *error) {
  for (uint32_t i = 0; i < all->count; i++) {
    keeps[i] = false;
    char *now = declaration(all, &all->tables[i]);
    if (!now) return tsx_out_of_memory(error);
    for (uint32_t k = 0; k < old->count && !all->tables[i].missing && !keeps[i]; k++) {
      struct attached_table *o = &old->tables[k];
      if (o->kept || !o->there || sqlite3_stricmp(o->schema, all->options->schema) ||
          strcmp(o->name, all->tables[i].name))
        continue;
      o->kept = keeps[i] = !strcmp(o->declaration, now);
    }
    sqlite3_free(now);
  }
  return TSR_OK;
}

/* Fails if some database has something of a table's name: the name would then mean another thing than before. */
static int check_name(tsx_connection *connection, const char *name, tsr_error *error) {
  sqlite3_stmt *names = NULL;
  const char *schema;
  int result = tsx_schemas_prepare(connection->db, &names), code = 0;
  while (code == 0 && (schema = tsx_schemas_next(names, &result)))
    if ((code = has_object(connection, schema, name, error)) > 0)
      code = tsx_fail(error, TSR_EXISTS, "a table %s exists in %s: say a prefix", name, schema);
  sqlite3_finalize(names);
  if (code == 0) code = tsx_core_result(connection->db, result, error);
  return code;
}

/* Makes the table, or notes why it cannot be made. */
static int create_table(const tsx_attachment *all, tsx_attach_table *table, const char *text, tsr_error *error) {
  tsr_error why = {0};
  TSX_TRY(check_name(all->connection, table->name, error));
  char *sql = sqlite3_mprintf("CREATE VIRTUAL TABLE \"%w\".\"%w\" USING %s", all->options->schema, table->name, text);
  if (run(all->connection, sql, &why) >= 0) return TSR_OK;
  const int code = *table->member ? tsx_members_fail(table, &why) : why.code; /* a single array has no others */
  if (code < 0) *error = why;
  return code;
}

/* A member with a problem is remembered by it, in the place of a declaration. */
static int declare_table(const tsx_attachment *all, tsx_attach_table *table, const char *text, tsr_error *error) {
  if (!table->missing) TSX_TRY(create_table(all, table, text, error));
  return run(all->connection,
             sqlite3_mprintf(
                 "INSERT INTO \"%w\"." MEMORY " VALUES(%Q, %Q, %Q, %Q, %Q, %Q, %Q)", all->options->schema, table->name,
                 table->problem   ? "failed"
                 : table->missing ? "missing"
                                  : "array",
                 table->path, table->member, all->root, table->semantics, table->problem ? table->problem : text),
             error);
}

static int make_table(const tsx_attachment *all, tsx_attach_table *table, tsr_error *error) {
  char *text = declaration(all, table);
  if (!text) return tsx_out_of_memory(error);
  const int code = declare_table(all, table, text, error);
  sqlite3_free(text);
  return code;
}

/* Drops and makes tables. A table that gets another declaration takes over the shadow tables of the one that is
 * dropped. */
static int replace_tables(const tsx_attachment *all, const attached *old, const bool *keeps, uint64_t *count,
                          tsr_error *error) {
  tsx_connection *connection = all->connection;
  for (uint32_t k = 0; k < old->count; k++) {
    const struct attached_table *table = &old->tables[k];
    if (!table->kept) TSX_TRY(drop_table(connection, table->schema, table->name, table->there, error));
  }
  TSX_TRY(tsx_savepoint_stand_by(connection, error));
  TSX_TRY(make_memory(connection, all->options->schema, error));
  for (uint32_t i = 0; i < all->count; i++) {
    if (!keeps[i]) TSX_TRY(make_table(all, &all->tables[i], error));
    *count += !all->tables[i].missing;
  }
  return TSR_OK;
}

/* Makes the tables what the group is now. *count: how many there are. */
static int refresh(const tsx_attachment *all, attached *old, bool *keeps, uint64_t *count, tsr_error *error) {
  *count = 0;
  int code = find_kept(all, old, keeps, error);
  if (code >= 0) code = replace_tables(all, old, keeps, count, error);
  return tsx_savepoint_renew(all->connection, code, error);
}

/* ---- The functions ----------------------------------------------------------------------------------------------- */

/* Gives the path of a call in the form that identifies it, and the key that is set for it. */
static int find_root(tsx_connection *connection, const char *text, tsx_attachment *all, tsr_error *error) {
  if (!sqlite3_strnicmp(text, "db:", 3))
    return tsx_fail(error, TSR_ERROR, "%s is a table already: expected the path of a group or an array", text);
  all->connection = connection;
  all->root = tsx_path_canonical(text);
  all->has_key = tsx_key_find(connection, text, all->key);
  return all->root ? TSR_OK : tsx_out_of_memory(error);
}

#define WAIT_FIRST_MS 50
#define WAIT_MOST_MS  3200 /* each wait is twice as long as the one before: all together six seconds */

/* Finds the members and what their tables show. A file that changed a moment ago may still be written, or be damaged:
 * after some seconds it is known which, so it is looked at again until then. */
static int find_tables(tsx_attachment *all, tsr_error *error) {
  for (int wait = WAIT_FIRST_MS;; wait *= 2) {
    int code = tsx_members_find(all, error);
    if (code >= 0) code = tsx_layout_apply(all, error);
    if (code != TSR_BUSY || wait > WAIT_MOST_MS) return code;
    tsx_members_forget(all);
    for (int waited = 0; waited < wait; waited += WAIT_FIRST_MS) {
      if (tsx_connection_cancelled(all->connection)) return tsx_fail_cancelled(error);
      nanosleep(&(struct timespec){.tv_nsec = WAIT_FIRST_MS * 1000000L}, NULL);
    }
  }
}

static int attach(tsx_attachment *all, uint64_t *count, tsr_error *error) {
  attached old = {0};
  TSX_TRY(find_tables(all, error));
  TSX_TRY(tsx_members_name(all, error));
  TSX_TRY(tsx_savepoint_begin(all->connection, "db:", error));
  bool *keeps = sqlite3_malloc64(all->count + UINT64_C(1));
  int code = keeps ? read_attached(all->connection, all->root, &old, error) : tsx_out_of_memory(error);
  if (code >= 0) code = refresh(all, &old, keeps, count, error);
  sqlite3_free(keeps);
  free_attached(&old);
  return code;
}

typedef struct kept_search {
  const char *path, *options;
  bool found;
} kept_search;

static int compare_kept(void *argument, const char *path, const char *options, tsr_error *error) {
  kept_search *search = argument;
  (void)error;
  search->found |= path && !strcmp(path, search->path) && options && !strcmp(options, search->options);
  return TSR_OK;
}

/* Remembers a path with its options, unless main does so already: the file may be one that cannot be written. */
static int keep(tsx_connection *connection, const char *path, const char *options, tsr_error *error) {
  kept_search search = {.path = path, .options = options ? options : ""};
  const int code = tsx_kept_each(connection->db, compare_kept, &search, error);
  return code < 0 || search.found ? code : tsx_kept_remember(connection->db, path, options, error);
}

#define PROBLEMS_NAMED 100

/* Names the members that cannot be opened, each with the reason: *failed is from sqlite3_malloc, or NULL. If no member
 * can, that is an error. */
static int name_problems(const tsx_attachment *all, uint64_t made, char **failed, tsr_error *error) {
  sqlite3_str *list = sqlite3_str_new(NULL);
  uint64_t count = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    const tsx_attach_table *table = &all->tables[i];
    if (!table->problem || count++ >= PROBLEMS_NAMED) continue;
    sqlite3_str_appendf(list, "%s%s: %s", count > 1 ? "; " : "", *table->member ? table->member : table->path,
                        table->problem);
  }
  const int built = sqlite3_str_errcode(list);
  char *text = sqlite3_str_finish(list);
  *failed = count ? sqlite3_mprintf("%llu member%s of %s cannot be opened%s: %s%s", (sqlite3_uint64)count,
                                    count == 1 ? "" : "s", all->root, made ? ", the others are attached" : "", text,
                                    count > PROBLEMS_NAMED ? "; ..." : "")
                  : NULL;
  sqlite3_free(text);
  if (built != SQLITE_OK || (count && !*failed)) return tsx_out_of_memory(error);
  return count && !made ? tsx_fail(error, TSR_ERROR, "%s", *failed) : TSR_OK;
}

static int attach_with(tsx_connection *connection, const char *path, sqlite3_value *json, bool again,
                       tsx_attachment *all, uint64_t *count, char **failed, tsr_error *error) {
  TSX_TRY(find_root(connection, path, all, error));
  TSX_TRY(attach(all, count, error));
  TSX_TRY(name_problems(all, *count, failed, error));
  if (!all->options->keep || again) return TSR_OK;
  return keep(connection, all->root, (const char *)sqlite3_value_text(json), error);
}

/* Attaches one path. With `again`, the path is remembered already. Adds the number of its tables to *tables. *failed,
 * from sqlite3_malloc or NULL, names the members that are not attached. */
static int attach_path(tsx_connection *connection, const char *path, sqlite3_value *json, bool again, uint64_t *tables,
                       char **failed, tsr_error *error) {
  tsx_attach_options options = {0};
  tsx_attachment all = {.options = &options};
  uint64_t count = 0;
  *failed = NULL;
  int code = read_options(connection, json, &options, error);
  if (code >= 0) code = attach_with(connection, path, json, again, &all, &count, failed, error);
  *tables += count;
  tsx_attachment_free(&all);
  free_options(&options);
  return code;
}

/* Gives SQLite the text of options, which SQL functions take as values. The caller frees *json. */
static int options_value(tsx_connection *connection, const char *options, sqlite3_value **json, tsr_error *error) {
  sqlite3 *db = connection->db;
  sqlite3_stmt *statement;
  const int code = tsx_core_result(db, tsx_sql_first(db, sqlite3_mprintf("SELECT %Q", options), &statement), error);
  *json = code > 0 ? sqlite3_value_dup(sqlite3_column_value(statement, 0)) : NULL;
  sqlite3_finalize(statement);
  if (code < 0) return code;
  return *json ? TSR_OK : tsx_out_of_memory(error);
}

int tsx_attach_again(tsx_connection *connection, const char *path, const char *options, uint64_t *tables,
                     tsr_error *error) {
  sqlite3_value *json = NULL;
  char *failed = NULL;
  int code = options_value(connection, options, &json, error);
  if (code >= 0) code = attach_path(connection, path, json, true, tables, &failed, error);
  if (code >= 0 && failed) code = tsx_fail(error, TSR_ERROR, "%s", failed);
  sqlite3_free(failed);
  sqlite3_value_free(json);
  if (code >= 0) return code;
  const tsr_error why = *error;
  return tsx_fail(error, code, "%s, which this database remembers: %s (tessera_detach forgets it)", path, why.message);
}

static int attach_call(tsx_connection *connection, int count, sqlite3_value **values, uint64_t *tables, char **failed,
                       tsr_error *error) {
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  const char *path = (const char *)sqlite3_value_text(values[0]);
  if (!path) return tsx_out_of_memory(error);
  return attach_path(connection, path, count > 1 ? values[1] : NULL, false, tables, failed, error);
}

/* Gives the error that names members. The others are attached, and stay so. */
static void attach_failed(sqlite3_context *context, const char *failed) {
  char *text = sqlite3_mprintf("tessera_attach: %s", failed);
  if (text) sqlite3_result_error(context, text, -1);
  else sqlite3_result_error_nomem(context);
  sqlite3_free(text);
}

void tsx_attach(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  uint64_t tables = 0;
  char *failed = NULL;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  int code = attach_call(connection, count, values, &tables, &failed, &error);
  code = error.code = tsx_savepoint_end(connection, code, &error);
  if (code < 0) tsx_result_error_of(context, "tessera_attach", &error);
  else if (failed) attach_failed(context, failed);
  else sqlite3_result_int64(context, (sqlite3_int64)tables);
  sqlite3_free(failed);
  tsx_connection_remove_table(connection);
}

static int drop_attached(tsx_connection *connection, const attached *old, sqlite3_int64 *dropped, tsr_error *error) {
  for (uint32_t i = 0; i < old->count; i++) {
    const struct attached_table *table = &old->tables[i];
    TSX_TRY(drop_table(connection, table->schema, table->name, table->there, error));
    *dropped += table->there;
  }
  return TSR_OK;
}

static int detach_call(tsx_connection *connection, int count, sqlite3_value **values, tsx_attachment *all,
                       sqlite3_int64 *dropped, tsr_error *error) {
  attached old = {0};
  TSX_TRY(tsx_arguments_check(count, values, 1, error));
  const char *path = (const char *)sqlite3_value_text(values[0]);
  if (!path) return tsx_out_of_memory(error);
  TSX_TRY(find_root(connection, path, all, error));
  TSX_TRY(tsx_savepoint_begin(connection, "db:", error));
  int code = read_attached(connection, all->root, &old, error);
  if (code >= 0) code = drop_attached(connection, &old, dropped, error);
  free_attached(&old);
  return code < 0 ? code : tsx_kept_forget(connection->db, all->root, error);
}

void tsx_detach(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_attachment all = {0};
  tsr_error error = {0};
  sqlite3_int64 dropped = 0;
  tsx_connection_add_table(connection);
  const int code = detach_call(connection, count, values, &all, &dropped, &error);
  if (code >= 0) sqlite3_result_int64(context, dropped);
  tsx_function_end(context, "tessera_detach", code, &error);
  tsx_attachment_free(&all);
  tsx_connection_remove_table(connection);
}

/* ---- tessera_attached -------------------------------------------------------------------------------------------- */

typedef struct attached_scan {
  sqlite3_stmt *statement; /* NULL: nothing was ever attached */
} attached_scan;

static int attached_open(tsx_scan *scan, tsr_error *error) {
  attached_scan *state = scan->state;
  char *sql;
  const int code = select_attached(scan->connection,
                                   "a.name, a.kind, a.path, a.member, a.root, a.semantics, "
                                   "CASE a.kind WHEN 'failed' THEN a.declaration END",
                                   "(s.name IS NOT NULL OR a.kind IN ('missing', 'failed'))", &sql, error);
  sqlite3 *db = scan->connection->db;
  if (code >= 0 && sql) return tsx_core_result(db, tsx_sql_prepare(db, sql, &state->statement), error);
  sqlite3_free(sql);
  return code;
}

static int attached_next(tsx_scan *scan, tsr_error *error) {
  attached_scan *state = scan->state;
  return state->statement ? tsx_core_result(scan->connection->db, sqlite3_step(state->statement), error) : 0;
}

static int attached_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  static const int places[] = {0, 7, 1, 2, 3, 4, 5, 6}; /* in the SELECT */
  const attached_scan *state = scan->state;
  (void)error;
  sqlite3_result_value(context, sqlite3_column_value(state->statement, places[column]));
  return TSR_OK;
}

static void attached_close(tsx_scan *scan) { sqlite3_finalize(((attached_scan *)scan->state)->statement); }

const tsx_about tsx_about_attached = {.name = "tessera_attached",
                                      .usage = "tessera_attached",
                                      .columns = (const char *const[]){"name TEXT", "schema TEXT", "kind TEXT",
                                                                       "path TEXT", "member TEXT", "root TEXT",
                                                                       "semantics TEXT", "problem TEXT", NULL},
                                      .same = -1,
                                      .rows = 20,
                                      .state_size = sizeof(attached_scan),
                                      .open = attached_open,
                                      .next = attached_next,
                                      .column = attached_column,
                                      .close = attached_close};
