/* journal.c: which commits to arrays a database has committed, and what a crash has left of others.
 *
 * NAME_commits (name) of an array table holds the paths of prepared commits, as tsr_writer_commit gives them. xSync puts
 * one in, so it is there if and only if SQLite's own commit has happened. Then xCommit publishes it; where that does not
 * come, because the process died or the disk failed,
 *
 *   readers through this database take it for committed (tsx_journal_committed, asked for prepared commits only)
 *   the next transaction that writes to the array publishes it (tsx_journal_recover), as DROP and tessera_recover do,
 *   and removes what this database has prepared and not committed. All of them hold the database's write lock: nobody
 *   else is between xSync and the commit.
 *
 * Rows of commits that are published by then are removed by the next xSync. Tables without a file, temp tables too, have
 * no owner: nobody recovers what they leave.
 */
#include "table.h"

static int run(sqlite3 *db, char *sql) {
  int code = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code;
}

/* Of a code that is not always SQLite's last: memory may have failed before SQLite was asked. */
static int fail_sql(sqlite3 *db, int code, const tsx_table *table, tsr_error *error) {
  code &= 0xff;
  return tsx_fail(error, code == SQLITE_CANTOPEN ? TSR_IO : tsx_core_code(code), /* no file of the array is missing */
                  "%s.%s_commits: %s", table->schema_name, table->name,
                  code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db));
}

/* ---- Shadow tables ----------------------------------------------------------------------------------------------- */

/* Has a table a row with these values? SQLITE_ROW, SQLITE_DONE, or what went wrong; a table with other columns is not
 * one of ours, one that is not there has no rows. */
static int has_row(sqlite3 *db, char *sql, const char *first, const char *second) {
  sqlite3_stmt *statement = NULL;
  int code = sql ? sqlite3_prepare_v2(db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (code == SQLITE_OK) {
    sqlite3_bind_text(statement, 1, first, -1, SQLITE_STATIC);
    if (second) sqlite3_bind_text(statement, 2, second, -1, SQLITE_STATIC);
    code = sqlite3_step(statement);
  } else if (code == SQLITE_ERROR) {
    code = SQLITE_DONE;
  }
  sqlite3_finalize(statement);
  return code;
}

static int has_config(sqlite3 *db, const char *schema, const char *table, const char *key, const char *value) {
  return has_row(db, sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w_config\" WHERE key = ?1 AND value = ?2", schema, table),
                 key, value);
}

static int has_commit(sqlite3 *db, const char *schema, const char *table, const char *commit) {
  return has_row(db, sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w_commits\" WHERE name = ?1", schema, table), commit,
                 NULL);
}

/* Asks all tables NAME<suffix> of a database until one answers SQLITE_ROW. */
typedef int (*question)(void *argument, const char *schema, const char *name);
static int ask_tables(sqlite3 *db, const char *schema, const char *suffix, question ask, void *argument) {
  sqlite3_stmt *tables = NULL;
  char *sql = sqlite3_mprintf("SELECT substr(name, 1, length(name) - %d) FROM \"%w\".sqlite_schema "
                              "WHERE type = 'table' AND lower(substr(name, -%d)) = %Q",
                              (int)strlen(suffix), schema, (int)strlen(suffix), suffix);
  int code = sql ? sqlite3_prepare_v2(db, sql, -1, &tables, NULL) : SQLITE_NOMEM, answer = SQLITE_DONE;
  sqlite3_free(sql);
  while (code == SQLITE_OK && answer == SQLITE_DONE) {
    if ((code = sqlite3_step(tables)) != SQLITE_ROW) break;
    const char *name = (const char *)sqlite3_column_text(tables, 0);
    answer = name ? ask(argument, schema, name) : SQLITE_NOMEM;
    code = SQLITE_OK;
  }
  sqlite3_finalize(tables);
  return code == SQLITE_OK ? answer : code;
}

typedef struct config_question {
  sqlite3 *db;
  const char *key, *value;
  char *name; /* of the table that has it */
} config_question;

static int ask_config(void *argument, const char *schema, const char *name) {
  config_question *q = argument;
  int code = has_config(q->db, schema, name, q->key, q->value);
  if (code == SQLITE_ROW && !(q->name = sqlite3_mprintf("%s", name))) code = SQLITE_NOMEM;
  return code;
}

int tsx_config_find(sqlite3 *db, const char *schema, const char *key, const char *value, char **name) {
  config_question q = {db, key, value, NULL};
  int code = ask_tables(db, schema, "_config", ask_config, &q);
  if (name && code == SQLITE_ROW) *name = q.name;
  else sqlite3_free(q.name);
  return code;
}

void tsx_journal_make_id(char id[TSX_ID_SIZE]) {
  uint8_t bytes[(TSX_ID_SIZE - 1) / 2];
  sqlite3_randomness(sizeof bytes, bytes);
  for (size_t i = 0; i < sizeof bytes; i++) sqlite3_snprintf(3, id + 2 * i, "%02x", bytes[i]);
}

int tsx_journal_find_id(tsx_table *table, tsr_error *error) {
  sqlite3 *db = table->connection->db;
  sqlite3_stmt *statement = NULL;
  if (*table->id) return TSR_OK;
  char *sql =
      sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key = 'id'", table->schema_name, table->name);
  int code = sql ? sqlite3_prepare_v2(db, sql, -1, &statement, NULL) : SQLITE_NOMEM;
  if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    const char *id = (const char *)sqlite3_column_text(statement, 0);
    if (id) sqlite3_snprintf(TSX_ID_SIZE, table->id, "%s", id);
  }
  const bool failed = code != SQLITE_ROW && code != SQLITE_DONE && code != SQLITE_ERROR; /* no such table: none of ours */
  if (failed) fail_sql(db, code, table, error);
  sqlite3_finalize(statement);
  sqlite3_free(sql);
  return failed ? error->code : TSR_OK;
}

/* The table's name now: an object may outlive a rename that was taken back. SQLITE_ROW, or it is gone. */
static int present_name(const tsx_table *table, char **name) {
  sqlite3 *db = table->connection->db;
  if (*table->id && has_config(db, table->schema_name, table->name, "id", table->id) != SQLITE_ROW)
    return tsx_config_find(db, table->schema_name, "id", table->id, name);
  *name = sqlite3_mprintf("%s", table->name);
  return *name ? SQLITE_ROW : SQLITE_NOMEM;
}

/* ---- The transaction --------------------------------------------------------------------------------------------- */

unsigned tsx_data_version(const tsx_table *table) {
  unsigned version = 0;
  sqlite3_file_control(table->connection->db, table->schema_name, SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

static bool is_off(sqlite3 *db, const char *schema) {
  sqlite3_stmt *statement = NULL;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".synchronous", schema);
  bool off = sql && sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
             sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0) == 0;
  sqlite3_finalize(statement);
  sqlite3_free(sql);
  return off;
}

static const char *file_of(const tsx_table *table) {
  const char *file = sqlite3_db_filename(table->connection->db, table->schema_name);
  return file && *file ? file : NULL;
}

/* synchronous=OFF says that nothing need survive a loss of power. It always says so of temp. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_error *error) {
  const char *file = file_of(table);
  options->unsynced =
      is_off(table->connection->db, sqlite3_stricmp(table->schema_name, "temp") ? table->schema_name : "main");
  if (!file) return TSR_OK;
  transaction->owner = sqlite3_mprintf("%s", file);
  if (!transaction->owner) return tsx_out_of_memory(error);
  options->owner = transaction->owner;
  return TSR_OK;
}

/* Are other files than the table's written by this transaction, too? temp dies with the connection. */
static bool is_alone(const tsx_table *table) {
  sqlite3 *db = table->connection->db;
  sqlite3_stmt *names = NULL;
  int code = tsx_schemas_prepare(db, &names);
  bool alone = true;
  const char *schema;
  while (alone && (schema = tsx_schemas_next(names, &code)))
    alone = !sqlite3_stricmp(schema, "temp") || !sqlite3_stricmp(schema, table->schema_name) ||
            sqlite3_txn_state(db, schema) != SQLITE_TXN_WRITE;
  sqlite3_finalize(names);
  return alone && code == SQLITE_DONE;
}

int tsx_journal_write(tsx_table *table, tsr_error *error) {
  tsx_transaction *transaction = table->array->transaction;
  sqlite3 *db = table->connection->db;
  const char *commit = tsr_writer_commit(transaction->writer);
  char *name = NULL;
  transaction->alone = is_alone(table);
  int code = present_name(table, &name);
  if (code == SQLITE_DONE) return TSR_OK; /* its CREATE was taken back; other tables on the array come here, too */
  if (code != SQLITE_ROW) return fail_sql(db, code, table, error);
  code =
      run(db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_commits\" WHERE name <> %Q", table->schema_name, name, commit));
  if (code == SQLITE_OK)
    code = run(db, sqlite3_mprintf("INSERT OR IGNORE INTO \"%w\".\"%w_commits\" VALUES(%Q)", table->schema_name, name,
                                   commit));
  sqlite3_free(name);
  return code == SQLITE_OK ? TSR_OK : fail_sql(db, code, table, error);
}

bool tsx_journal_untouched(const tsx_table *table) {
  const tsx_transaction *transaction = table->array->transaction;
  return transaction->alone && transaction->data_version == tsx_data_version(table);
}

/* ---- Recovery ---------------------------------------------------------------------------------------------------- */

typedef struct commit_question {
  tsx_connection *connection;
  const char *schema;
  const char *commit;
} commit_question;

static int ask_commits(void *argument, const char *schema, const char *name) {
  const commit_question *q = argument;
  return has_commit(q->connection->db, schema, name, q->commit);
}

/* Prepared by the transaction that is open: nobody else decides on it, and it shows as the transaction's own rows. */
static bool is_own(const tsx_connection *connection, const char *commit) {
  for (const tsx_array *array = connection->arrays; array; array = array->next)
    if (array->transaction && array->transaction->writer &&
        !strcmp(tsr_writer_commit(array->transaction->writer), commit))
      return true;
  return false;
}

int tsx_journal_committed(void *argument, const char *commit, tsr_error *error) {
  commit_question q = {argument, NULL, commit};
  if (is_own(q.connection, commit)) return 0;
  sqlite3 *db = q.connection->db;
  sqlite3_stmt *names = NULL;
  int code = tsx_schemas_prepare(db, &names), answer = SQLITE_DONE;
  const char *schema;
  while (answer == SQLITE_DONE && (schema = tsx_schemas_next(names, &code)))
    answer = ask_tables(db, schema, "_commits", ask_commits, &q);
  if (code == SQLITE_ROW || code == SQLITE_DONE) code = answer;
  int result = code == SQLITE_ROW;
  if (code == SQLITE_INTERRUPT) result = tsx_fail(error, TSR_INTERRUPT, "interrupted");
  else if (code != SQLITE_ROW && code != SQLITE_DONE)
    result = tsx_fail(error, tsx_core_code(code), "whether this database has committed '%s' cannot be asked: %s", commit,
                      code == SQLITE_NOMEM ? "out of memory" : sqlite3_errstr(code));
  sqlite3_finalize(names);
  return result;
}

static tsr_verdict decide(void *argument, const char *commit) {
  commit_question *q = argument;
  if (is_own(q->connection, commit)) return TSR_VERDICT_LEAVE;
  q->commit = commit;
  switch (ask_tables(q->connection->db, q->schema, "_commits", ask_commits, q)) {
  case SQLITE_ROW: return TSR_VERDICT_PUBLISH;
  case SQLITE_DONE: return TSR_VERDICT_UNDO;
  default: return TSR_VERDICT_LEAVE;
  }
}

int tsx_journal_recover(tsx_table *table, tsr_error *error) {
  commit_question q = {table->connection, table->schema_name, NULL};
  const char *owner = file_of(table);
  if (!owner || sqlite3_txn_state(table->connection->db, table->schema_name) != SQLITE_TXN_WRITE) return TSR_OK;
  uint64_t changed;
  return tsr_array_recover(table->array->core, owner, decide, &q, &changed, error);
}

/* ---- tessera_recover --------------------------------------------------------------------------------------------- */

static int recover_all(tsx_connection *connection, tsx_array *array, uint64_t *changed, tsr_error *error) {
  sqlite3_stmt *names = NULL;
  int listed = tsx_schemas_prepare(connection->db, &names), code = TSR_OK;
  const char *schema;
  while (code >= 0 && (schema = tsx_schemas_next(names, &listed))) {
    const char *owner = sqlite3_db_filename(connection->db, schema);
    if (!owner || !*owner || sqlite3_txn_state(connection->db, schema) != SQLITE_TXN_WRITE) continue;
    commit_question q = {connection, schema, NULL};
    code = tsr_array_recover(array->core, owner, decide, &q, changed, error);
  }
  if (code >= 0 && listed != SQLITE_DONE)
    code = tsx_fail(error, listed == SQLITE_NOMEM ? TSR_NOMEM : TSR_ERROR, "tessera_recover: %s",
                    sqlite3_errmsg(connection->db));
  sqlite3_finalize(names);
  return code;
}

/* Under the write locks of all databases: a transaction of its own, which changes nothing in them. */
static int recover(tsx_connection *connection, tsx_array *array, uint64_t *changed, tsr_error *error) {
  sqlite3 *db = connection->db;
  if (!sqlite3_get_autocommit(db))
    return tsx_fail(error, TSR_ERROR, "tessera_recover cannot run within a transaction: commit or roll back first");
  if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
    return tsx_fail(error, TSR_ERROR, "tessera_recover: %s", sqlite3_errmsg(db));
  int code = recover_all(connection, array, changed, error);
  sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  return code;
}

void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address address;
  tsr_error error = {0};
  uint64_t changed = 0;
  (void)count;
  int code = tsx_address_open(connection, values[0], NULL, NULL, NULL, &address, &error);
  if (code == TSR_OK) code = tsx_address_array(&address, &error);
  if (code == TSR_OK) code = recover(connection, address.array, &changed, &error);
  tsx_address_close(&address);
  if (code < 0) tsx_result_error(context, &error);
  else sqlite3_result_int64(context, (sqlite3_int64)changed);
}
