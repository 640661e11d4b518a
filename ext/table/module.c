/* module.c: the virtual table module of array tables: creates, connects, renames and drops them. columns.c makes their
 * columns.
 *
 * An array table has these shadow tables:
 *
 *   NAME_config (key, value)   'declaration': the columns as declared at CREATE. With it a table whose array is missing
 *                              still connects, and can be dropped: SQLite can neither drop nor rename a table whose
 *                              xConnect fails.
 *                              'id': distinguishes the table from all others, even after a rename.
 *                              'owner', 'owner ID': which prepared commits are the table's (journal.c).
 *                              'creation': if the CREATE made the array, the creation's name (transaction.c).
 *   NAME_commits (name)        the commits of journal.c; only for an array in a directory.
 *   NAME_files, NAME_chunks    the array's files (store_tables.c); only for an array in the database.
 *
 * Sections: shadow tables; the array behind the table; the methods. */
#include "table/table_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "definition/define.h"
#include "connection/registry.h"
#include "sql/names.h"
#include "connection/sqlite_api.h"
#include "values/compare.h"
#include "database/store_sqlite.h"
#include "sql/statement.h"

/* ---- The shadow tables ------------------------------------------------------------------------------------------ */

/* Writes NAME_config and NAME_commits. Those of a table whose array is adopted, or that was dropped a moment ago, may
 * be there already, with their old contents. */
static int write_config(const tsx_table *table, const char *owner, char **message) {
  sqlite3 *db = table->connection->db;
  const bool adopts = table->connection->database_arrays.adopts ||
                      (table->in_database && table->options.open_existing) ||
                      tsx_leftover_is(table->connection, table->schema_name, table->name);
  int code =
      tsx_sql_run(db,
                  sqlite3_mprintf("CREATE TABLE %s\"%w\".\"%w_config\"(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
                                  adopts ? "IF NOT EXISTS " : "", table->schema_name, table->name),
                  message);
  if (code == SQLITE_OK && adopts)
    code =
        tsx_sql_run(db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_config\"", table->schema_name, table->name), message);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('declaration', %Q)", table->schema_name,
                                       table->name, table->declared.declaration),
                       message);
  if (code == SQLITE_OK)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('id', %Q)", table->schema_name,
                                       table->name, table->commit.id),
                       message);
  if (code == SQLITE_OK && owner)
    code = tsx_sql_run(
        db,
        sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('owner', %Q)", table->schema_name, table->name, owner),
        message);
  if (code == SQLITE_OK && table->array->making.creation)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("INSERT INTO \"%w\".\"%w_config\" VALUES('creation', %Q)", table->schema_name,
                                       table->name, table->array->making.name),
                       message);
  if (code == SQLITE_OK && !tsx_store_is(table->path))
    code = tsx_sql_run(db,
                       sqlite3_mprintf("CREATE TABLE %s\"%w\".\"%w_commits\"(name TEXT PRIMARY KEY) WITHOUT ROWID",
                                       adopts ? "IF NOT EXISTS " : "", table->schema_name, table->name),
                       message);
  if (code == SQLITE_OK && adopts && !tsx_store_is(table->path))
    code =
        tsx_sql_run(db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_commits\"", table->schema_name, table->name), message);
  return code;
}

/* Returns the value of a key in NAME_config, from sqlite3_malloc; NULL if there is none. The value is untrusted. A
 * declaration is safe even so: sqlite3_declare_vtab accepts nothing but a CREATE TABLE. */
static char *read_config(const tsx_table *table, const char *key) {
  sqlite3_stmt *statement;
  char *text = NULL;
  char *sql =
      sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key = %Q", table->schema_name, table->name, key);
  if (tsx_sql_first(table->connection->db, sql, &statement) == SQLITE_ROW)
    text = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0));
  sqlite3_finalize(statement);
  return text;
}

/* ---- The array behind the table ---------------------------------------------------------------------------------- */

int tsx_table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error) {
  const char *file = table->options.key_file;
  *has_key = file || tsx_key_find(table->connection, table->path, key);
  if (!file) return TSR_OK;
  char *path = NULL;
  int code = tsx_path_resolve(table->connection->db, table->home, file, &path, error);
  if (code >= 0) code = tsx_key_read(table->connection, path, key, error);
  sqlite3_free(path);
  return code;
}

/* Opens the array if the table's CREATE prepared it, and the process died between the commit and the publication.
 * `code` is the error of opening the published array. Returns TSR_OK if the array is open, `code` if there is no such
 * creation, or another error. */
static int open_unpublished(tsx_table *table, const uint8_t *key, int code, tsr_error *error) {
  char *creation = read_config(table, "creation");
  tsr_error why = {0};
  int found = creation ? tsx_creation_find(table, creation, key, &why) : 0;
  sqlite3_free(creation);
  if (found < 0) *error = why;
  return found > 0 ? TSR_OK : found < 0 ? found : code;
}

/* Sets table->array: opens the array, or with `make` makes it. */
static int attach_array(tsx_table *table, bool make, tsr_error *error) {
  const tsx_options *options = &table->options;
  uint8_t bytes[32], *key = bytes;
  bool has_key;
  int code = tsx_table_key(table, bytes, &has_key, error);
  if (code < 0) return code;
  if (!has_key) key = NULL;
  if (make) code = tsx_creation_prepare(table, key, error);
  for (int attempt = 0; !make && attempt < 2 && !table->array; attempt++) {
    code = tsx_array_open(table->connection, table->path, key, options->limits.cache_bytes, options->limits.threads,
                          &table->array, error);
    if (attempt == 0 && code == TSR_NOT_FOUND && !tsx_store_is(table->path))
      code = open_unpublished(table, key, code, error); /* if it was published meanwhile, the next attempt opens it */
  }
  tsx_wipe(bytes, sizeof bytes);
  return code;
}

/* Sets table->array, and makes the columns of its schema. */
static int open_table(tsx_table *table, bool make, tsr_error *error) {
  TSX_TRY(attach_array(table, make, error));
  int code = tsx_columns_make(table, error);
  if (code >= 0) code = tsx_upkeep_check(table, error);
  if (code >= 0) return TSR_OK;
  tsx_columns_free(table);
  tsx_creation_fail(table);
  tsx_array_release(table->connection, table->array);
  table->array = NULL;
  return code;
}

/* For xCreate: opens the array, or makes it if the table has columns. With if_exists=open, an array that is there is
 * opened if it is like the one that the columns ask for. */
static int open_for_create(tsx_table *table, tsr_error *error) {
  const bool makes = table->options.definition_count > 0 && !table->connection->database_arrays.adopts;
  if (makes && !table->in_database && tsx_store_is(table->path))
    return tsx_fail(error, TSR_ERROR, "%s: without columns, CREATE opens it; in its own database it makes it",
                    table->options.path);
  if (!makes || !table->options.open_existing) return open_table(table, makes, error);
  int code = open_table(table, false, error);
  if (code == TSR_NOT_FOUND) return open_table(table, true, error);
  if (code < 0) return code;
  return tsx_define_agrees(&table->options, table->schema, table->path, error);
}

int tsx_table_ready(tsx_table *table, tsr_error *error) {
  if (table->array) return TSR_OK;
  TSX_TRY(open_table(table, false, error));
  char *now = tsx_columns_declaration(table);
  const bool same = now && tsx_columns_are_declared(table, now);
  sqlite3_free(now);
  if (same) return TSR_OK;
  tsx_columns_free(table);
  tsx_array_release(table->connection, table->array);
  table->array = NULL;
  return tsx_fail(error, TSR_ERROR, "the columns of %s have changed: open the database again", table->path);
}

/* ---- Methods ----------------------------------------------------------------------------------------------------- */

/* SQLITE_VTAB_CONSTRAINT_SUPPORT: if xUpdate returns SQLITE_CONSTRAINT, SQLite follows the statement's OR clause. */
static int module_declare(const tsx_table *table) {
  if (!table->declared.declaration) return SQLITE_NOMEM;
  int code = tsx_declare(table->connection->db, table->declared.declaration);
  return code == SQLITE_OK ? sqlite3_vtab_config(table->connection->db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1) : code;
}

static int module_disconnect(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_table **link = &table->connection->tables.arrays;
  while (*link && *link != table) link = &(*link)->next;
  if (*link) *link = table->next;
  tsx_update_free(table);
  tsx_cursor_forget(table);
  tsx_columns_free(table);
  tsx_array_release(table->connection, table->array);
  tsx_connection_remove_table(table->connection);
  tsx_connection_drop(table->connection);
  tsx_options_release(&table->options);
  sqlite3_free(table->declared.declaration);
  sqlite3_free(table->path);
  sqlite3_free(table->schema_name);
  sqlite3_free(table->home);
  sqlite3_free(table->name);
  sqlite3_free(table->base.zErrMsg); /* SQLite does not free a message that xDestroy has left */
  sqlite3_free(table);
  return SQLITE_OK;
}

/* Sets table->home and table->path. The path of another table's array, db:SCHEMA.NAME, is for tables of temp alone: a
 * declaration that a file stores must not reach into other files of the connection. */
static int find_path(tsx_table *table, tsr_error *error) {
  sqlite3 *db = table->connection->db;
  const char *given = table->options.path;
  char *name = NULL;
  table->in_database = !given;
  if (!given) table->path = tsx_store_path(table->schema_name, table->name);
  if (!given || sqlite3_strnicmp(given, "db:", 3) != 0) {
    table->home = sqlite3_mprintf("%s", table->schema_name);
    if (!table->home || (!given && !table->path)) return tsx_out_of_memory(error);
    return given ? tsx_path_resolve(db, table->home, given, &table->path, error) : TSR_OK;
  }
  if (sqlite3_stricmp(table->schema_name, "temp") != 0)
    return tsx_fail(error, TSR_ERROR, "%s names a table of this database: expected the path of a directory", given);
  TSX_TRY(tsx_table_name_parse(given + strlen("db:"), &table->home, &name, error));
  if (!table->home) table->home = sqlite3_mprintf("main");
  if (table->home) table->path = tsx_store_path(table->home, name);
  sqlite3_free(name);
  return table->path ? TSR_OK : tsx_out_of_memory(error);
}

/* Makes the table object from the arguments of xCreate or xConnect. Does not access the array. */
static int make_table(tsx_connection *connection, int count, const char *const *arguments, tsx_table **out,
                      tsr_error *error) {
  tsx_table *table = sqlite3_malloc64(sizeof *table);
  if (!table) return tsx_out_of_memory(error);
  memset(table, 0, sizeof *table);
  table->connection = connection;
  tsx_connection_hold(connection);
  tsx_connection_add_table(connection);
  table->next = connection->tables.arrays;
  connection->tables.arrays = table;
  table->serial = ++connection->tables.serial;
  table->schema_name = sqlite3_mprintf("%s", arguments[1]);
  table->name = sqlite3_mprintf("%s", arguments[2]);
  int code = table->schema_name && table->name ? TSR_OK : tsx_out_of_memory(error);
  if (code >= 0) code = tsx_options_parse(count - 3, arguments + 3, &table->options, error);
  if (code >= 0) code = find_path(table, error);
  if (code < 0) {
    module_disconnect(&table->base);
    return code;
  }
  *out = table;
  return TSR_OK;
}

static int module_fail(tsx_table *table, const tsr_error *error, char **message) {
  *message = sqlite3_mprintf("%s", error->message);
  if (table) module_disconnect(&table->base);
  return tsx_sqlite_code(error->code);
}

static int module_create(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                         char **message) {
  tsr_error error = {0};
  tsx_table *table = NULL;
  if (make_table(argument, count, arguments, &table, &error) < 0) return module_fail(NULL, &error, message);
  if (tsx_transactions_check(table->connection, &error) < 0) return module_fail(table, &error, message);
  if (open_for_create(table, &error) < 0) return module_fail(table, &error, message);
  tsx_journal_make_id(table->commit.id);
  table->declared.declaration = tsx_columns_declaration(table);
  char *owner = NULL;
  int code = module_declare(table);
  if (code == SQLITE_OK && !tsx_store_is(table->path) && tsx_journal_first_owner(table, &owner, &error) < 0) {
    *message = sqlite3_mprintf("%s", error.message);
    code = tsx_sqlite_code(error.code);
  }
  if (code == SQLITE_OK) code = write_config(table, owner, message);
  sqlite3_free(owner);
  if (code != SQLITE_OK) {
    if (!*message) *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    tsx_creation_fail(table);
    module_disconnect(&table->base);
    return code;
  }
  *vtab = &table->base;
  return SQLITE_OK;
}

/* Begins to read the table's database. SQLite connects a table by the schema that it read last, perhaps outside of a
 * transaction. If another connection has changed the schema since, every statement that xConnect runs fails with
 * SQLITE_SCHEMA; xConnect passes that code on, because only then does SQLite read the schema again. While the statement
 * *reading is open, all reads see one state of the database. */
static int begin_reading(const tsx_table *table, sqlite3_stmt **reading) {
  const int code =
      tsx_sql_first(table->connection->db, sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema", table->home), reading);
  return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* For xConnect: opens the array, and makes the declaration. If the array cannot be opened, takes the declaration stored
 * in NAME_config, and the table connects without its array. That may be an older declaration, and SQLite asks for none
 * later: so after an error that passes, the table does not connect, and the next statement tries again. */
static int open_for_connect(tsx_table *table, char **message) {
  tsr_error error = {0};
  sqlite3_stmt *reading = NULL;
  int code = tsx_store_is(table->path) ? begin_reading(table, &reading) : SQLITE_OK;
  if (code == SQLITE_OK && open_table(table, false, &error) == TSR_OK) {
    table->declared.declaration = tsx_columns_declaration(table);
  } else if (code == SQLITE_OK && (error.code == TSR_NOMEM || error.code == TSR_INTERRUPT)) {
    *message = sqlite3_mprintf("%s", error.message);
    code = tsx_sqlite_code(error.code);
  } else {
    if (!reading) code = begin_reading(table, &reading);
    if (code != SQLITE_OK) {
      *message = sqlite3_mprintf("%s", sqlite3_errmsg(table->connection->db));
    } else if (!(table->declared.declaration = read_config(table, "declaration"))) {
      *message = sqlite3_mprintf("%s", error.message);
      code = tsx_sqlite_code(error.code);
    }
  }
  sqlite3_finalize(reading);
  return code;
}

static int module_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                          char **message) {
  tsr_error error = {0};
  tsx_table *table = NULL;
  if (make_table(argument, count, arguments, &table, &error) < 0) return module_fail(NULL, &error, message);
  const tsx_watch watch = tsx_watch_begin(db, table->schema_name);
  int code = open_for_connect(table, message);
  if (code != SQLITE_OK) {
    module_disconnect(&table->base);
    return code;
  }
  if (tsx_watch_end(&watch, db, table->schema_name, &error) < 0) return module_fail(table, &error, message);
  code = module_declare(table);
  if (code == SQLITE_ERROR && !table->array) { /* NAME_config has no valid declaration: connect, so that DROP works */
    sqlite3_free(table->declared.declaration);
    table->declared.declaration =
        sqlite3_mprintf("CREATE TABLE x(as_of BLOB HIDDEN, since BLOB HIDDEN, written_at INTEGER HIDDEN)");
    code = module_declare(table);
  }
  if (code != SQLITE_OK) {
    *message = sqlite3_mprintf("%s", sqlite3_errmsg(db));
    module_disconnect(&table->base);
    return code;
  }
  *vtab = &table->base;
  return SQLITE_OK;
}

static const char *const *shadow_suffixes(const tsx_table *table) {
  static const char *const outside[] = {"config", "commits", NULL};
  static const char *const inside[] = {"config", "files", "chunks", NULL};
  static const char *const elsewhere[] = {"config", NULL};
  return table->in_database ? inside : tsx_store_is(table->path) ? elsewhere : outside;
}

static const uint8_t *module_key(const tsx_table *table) {
  return table->array && table->array->has_key ? table->array->key : NULL;
}

static int module_destroy(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  sqlite3 *db = table->connection->db;
  tsr_error error = {0};
  uint64_t levels;
  const bool keeps = table->connection->database_arrays.keeps;
  const bool is_directory = !tsx_store_is(table->path);
  if (table->in_database && !keeps &&
      tsx_overview_tables_drop(table->connection, table->schema_name, table->name, module_key(table), &levels, &error) <
          0)
    return tsx_vtab_error(vtab, &error);
  const tsx_watch watch = tsx_watch_begin(db, table->schema_name);
  if (tsx_journal_find_id(table, &error) < 0) return tsx_vtab_error(vtab, &error);
  if (tsx_transaction_may_detach(table, &error) < 0) return SQLITE_LOCKED; /* SQLite shows its own text for xDestroy */
  if (!table->in_database) tsx_transaction_detach(table);
  if (table->array && tsx_deferred_publish(table->connection, table->array, &error) < 0)
    return tsx_vtab_error(vtab, &error); /* likewise: only this connection knows of these commits */
  if (table->array && is_directory && !table->array->making.creation && tsx_journal_recover(table, &error) < 0 &&
      error.code != TSR_NOT_FOUND)
    return tsx_vtab_error(vtab, &error); /* dropping the record would lose commits that only it knows of */
  if (table->array && is_directory && !table->array->making.creation) {
    const int unpublished = tsx_journal_has_unpublished(table, &error);
    if (unpublished > 0)
      tsx_fail(&error, TSR_BUSY, "%s: another process is publishing what it has committed: try again", table->path);
    if (unpublished != 0) return tsx_vtab_error(vtab, &error);
  }
  tsx_store_release(table->connection, true);
  for (const char *const *suffix = shadow_suffixes(table); *suffix && !keeps; suffix++) {
    int code = tsx_sql_run(
        db, sqlite3_mprintf("DROP TABLE IF EXISTS \"%w\".\"%w_%s\"", table->schema_name, table->name, *suffix), NULL);
    if (code != SQLITE_OK) return tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  }
  if (tsx_watch_end(&watch, db, table->schema_name, &error) < 0) return tsx_vtab_error(vtab, &error);
  if (table->in_database) tsx_transaction_detach(table);
  tsx_creation_fail(table); /* if this transaction made the array */
  return module_disconnect(vtab);
}

/* Sets the key that tessera_set_key has set for the table's present path for a new path, too. */
static int copy_key(const tsx_table *table, const char *path) {
  uint8_t key[32];
  tsr_error ignored;
  if (!tsx_key_find(table->connection, table->path, key)) return SQLITE_OK;
  int code = tsx_key_set(table->connection, path, key, &ignored);
  tsx_wipe(key, sizeof key);
  return code < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static int module_rename(sqlite3_vtab *vtab, const char *name) {
  tsx_table *table = (tsx_table *)vtab;
  sqlite3 *db = table->connection->db;
  tsr_error error = {0};
  char *copy = sqlite3_mprintf("%s", name);
  char *path = table->in_database ? tsx_store_path(table->schema_name, name) : sqlite3_mprintf("%s", table->path);
  int code = copy && path ? SQLITE_OK : SQLITE_NOMEM;
  for (const char *const *suffix = shadow_suffixes(table); *suffix && code == SQLITE_OK; suffix++)
    code = tsx_sql_run(db,
                       sqlite3_mprintf("ALTER TABLE \"%w\".\"%w_%s\" RENAME TO \"%w_%s\"", table->schema_name,
                                       table->name, *suffix, name, *suffix),
                       NULL);
  tsx_store_release(table->connection, true);
  if (code == SQLITE_OK && table->in_database) code = copy_key(table, path);
  if (code == SQLITE_OK && table->in_database &&
      tsx_overview_tables_rename(table->connection, table->schema_name, table->name, name, module_key(table), &error) <
          0) {
    sqlite3_free(copy);
    sqlite3_free(path);
    return tsx_vtab_error(vtab, &error);
  }
  if (code != SQLITE_OK) {
    sqlite3_free(copy);
    sqlite3_free(path);
    return code == SQLITE_NOMEM ? code : tsx_vtab_fail(vtab, code, "%s", sqlite3_errmsg(db));
  }
  sqlite3_free(table->name);
  sqlite3_free(table->path);
  table->name = copy;
  table->path = path;
  return SQLITE_OK;
}

static int module_shadow_name(const char *suffix) {
  static const char *const suffixes[] = {"config", "commits", "files", "chunks"};
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (!sqlite3_stricmp(suffix, suffixes[i])) return 1;
  return 0;
}

/* xIntegrity came with SQLite 3.44, as the last member of sqlite3_module. An older SQLite library ignores it. If the
 * headers are older than that, this structure appends it. */
static const struct {
  sqlite3_module base;
  int (*integrity)(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);
} module = {.base = {.iVersion = 4,
                     .xCreate = module_create,
                     .xConnect = module_connect,
                     .xBestIndex = tsx_best_index,
                     .xDisconnect = module_disconnect,
                     .xDestroy = module_destroy,
                     .xOpen = tsx_cursor_open,
                     .xClose = tsx_cursor_close,
                     .xFilter = tsx_cursor_filter,
                     .xNext = tsx_cursor_next,
                     .xEof = tsx_cursor_eof,
                     .xColumn = tsx_cursor_column,
                     .xRowid = tsx_cursor_rowid,
#if SQLITE_VERSION_NUMBER >= 3044000
                     .xIntegrity = tsx_integrity,
#endif
                     .xUpdate = tsx_update,
                     .xBegin = tsx_begin,
                     .xSync = tsx_sync,
                     .xCommit = tsx_commit,
                     .xRollback = tsx_rollback,
                     .xSavepoint = tsx_savepoint,
                     .xRelease = tsx_release,
                     .xRollbackTo = tsx_rollback_to,
                     .xRename = module_rename,
                     .xShadowName = module_shadow_name},
            .integrity = tsx_integrity};
const sqlite3_module *const tsx_module_array = &module.base;

/* The table of a path, with the limits of its shape (path_table.c). */
static int path_connect(sqlite3 *db, void *argument, int count, const char *const *arguments, sqlite3_vtab **vtab,
                        char **message) {
  tsx_registered *registered = argument;
  char *end, *path = sqlite3_mprintf("%Q", registered->text);
  const uint64_t mib = strtoull(registered->shape, &end, 10);
  const unsigned threads = (unsigned)strtoul(end, NULL, 10);
  char *memory = sqlite3_mprintf("memory_mb=%llu", (unsigned long long)mib);
  char *most = sqlite3_mprintf("threads=%u", threads);
  int code = SQLITE_NOMEM;
  (void)count;
  if (path && memory && most) {
    const char *given[6] = {arguments[0], arguments[1], arguments[2], path};
    int used = 4;
    if (mib) given[used++] = memory;
    if (threads) given[used++] = most;
    code = module_connect(db, registered->connection, used, given, vtab, message);
  }
  sqlite3_free(path);
  sqlite3_free(memory);
  sqlite3_free(most);
  if (code == SQLITE_OK) ((tsx_table *)*vtab)->registered = registered;
  return code;
}

/* Without xCreate, the only table has the module's name. Without xUpdate, it is read-only. */
static const sqlite3_module path_module = {.iVersion = 1,
                                           .xConnect = path_connect,
                                           .xBestIndex = tsx_best_index,
                                           .xDisconnect = module_disconnect,
                                           .xDestroy = module_disconnect,
                                           .xOpen = tsx_cursor_open,
                                           .xClose = tsx_cursor_close,
                                           .xFilter = tsx_cursor_filter,
                                           .xNext = tsx_cursor_next,
                                           .xEof = tsx_cursor_eof,
                                           .xColumn = tsx_cursor_column,
                                           .xRowid = tsx_cursor_rowid};
const sqlite3_module *const tsx_module_path = &path_module;
