/* journal.c: the record of the commits to arrays that a database has committed, and recovery from it.
 *
 * The record is the table NAME_commits (name) of an array table: the paths of prepared commits, as tsr_writer_commit
 * returns them. xSync inserts a row in the transaction that is about to commit, so the row exists if and only if
 * SQLite's own commit has happened. xCommit then publishes the commit. If the process dies before that, or the disk
 * fails,
 *
 * - readers of this database count the commit as committed (tsx_journal_committed, which the core asks about prepared
 *   commits);
 * - the next transaction that writes the array publishes it, and so do DROP and tessera_recover (tsx_journal_recover).
 *   They also remove what this database has prepared and not committed. All of them hold the database's write lock, so
 *   no other transaction of the database is between xSync and its commit.
 *
 * The next xSync deletes the rows of commits that have no marker any more: these are published. A row whose marker
 * still exists stays: the marker's writer was alive when the transaction began, so recovery left the commit to it, but
 * it may have died since. DROP refuses to remove the table while there is such a row.
 *
 * A database without a file, such as temp, gives its commits no owner, so nothing recovers what it leaves.
 *
 * NAME_config says which prepared commits belong to the table. 'owner' is "ID PLACE": the id that the table gives to
 * its markers, and the place of the database file when the table got the id (tsr_file_identity). If the place has
 * changed, the file was moved or copied, or the machine was restarted; then the next id is computed from the last one
 * and the new place (tsr_owner_next). Every process that finds the same file at the same place computes the same id, so
 * nothing is lost if a crash undoes the row with the new id. Earlier ids stay, as 'owner ID' = PLACE. A commit that the
 * record names is published whatever id its marker has. A commit is undone only if its marker has the present id of a
 * table of this database. If a file cannot be identified, because a VFS gives files names of its own, its id is the
 * connection's: no other connection undoes what this one leaves.
 *
 * Sections: shadow tables, the transaction, the owner, writing, recovery, tessera_recover. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/options.h"
#include "sql/statement.h"
#include "tessera_host.h"

static int journal_run(sqlite3 *db, char *sql) { return tsx_sql_run(db, sql, NULL); }

/* Sets the error for SQLite's `code`. Uses SQLite's own message only if it belongs to this code: memory may have failed
 * before SQLite was called, or another statement may have ended since. */
static int fail_sql(sqlite3 *db, int code, const tsx_table *table, tsr_error *error) {
  code &= 0xff;
  return tsx_fail(error, code == SQLITE_CANTOPEN ? TSR_IO : tsx_core_code(code), /* not "file not found" */
                  "%s.%s_commits: %s", table->schema_name, table->name,
                  code == (sqlite3_errcode(db) & 0xff) && code != SQLITE_NOMEM ? sqlite3_errmsg(db)
                                                                               : sqlite3_errstr(code));
}

/* ---- Shadow tables ----------------------------------------------------------------------------------------------- */

/* Runs a query with one or two text parameters. Returns SQLITE_ROW if it has a row, SQLITE_DONE if not, or SQLite's
 * error. A table that does not exist, or has other columns and so is no shadow table of ours, counts as empty. Frees
 * `sql`. */
static int journal_has_row(sqlite3 *db, char *sql, const char *first, const char *second) {
  sqlite3_stmt *statement;
  int code = tsx_sql_prepare(db, sql, &statement);
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
  return journal_has_row(
      db, sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w_config\" WHERE key = ?1 AND value = ?2", schema, table), key,
      value);
}

static int has_commit(sqlite3 *db, const char *schema, const char *table, const char *commit) {
  return journal_has_row(db, sqlite3_mprintf("SELECT 1 FROM \"%w\".\"%w_commits\" WHERE name = ?1", schema, table),
                         commit, NULL);
}

/* Calls `ask` for each table NAME<suffix> of a database, with its NAME, as long as it returns SQLITE_DONE. Returns the
 * last result of `ask`, or SQLite's error. */
typedef int (*question)(void *argument, const char *schema, const char *name);
static int ask_tables(sqlite3 *db, const char *schema, const char *suffix, question ask, void *argument) {
  sqlite3_stmt *tables;
  int code = tsx_schema_tables(db, schema, suffix, &tables), answer = SQLITE_DONE;
  while (code == SQLITE_ROW && answer == SQLITE_DONE) {
    const char *name = (const char *)sqlite3_column_text(tables, 0);
    answer = name ? ask(argument, schema, name) : SQLITE_NOMEM;
    if (answer == SQLITE_DONE) code = sqlite3_step(tables);
  }
  sqlite3_finalize(tables);
  return code == SQLITE_ROW ? answer : code;
}

typedef struct config_question {
  sqlite3 *db;
  const char *key, *value;
  char *name; /* out: of the table that has it */
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
  tsr_hex_write(bytes, sizeof bytes, id);
}

int tsx_journal_find_id(tsx_table *table, tsr_error *error) {
  sqlite3 *db = table->connection->db;
  sqlite3_stmt *statement = NULL;
  if (*table->commit.id) return TSR_OK;
  char *sql =
      sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key = 'id'", table->schema_name, table->name);
  const int code = tsx_sql_first(db, sql, &statement);
  if (code == SQLITE_ROW) {
    const char *id = (const char *)sqlite3_column_text(statement, 0);
    if (id) sqlite3_snprintf(TSX_ID_SIZE, table->commit.id, "%s", id);
  }
  const bool failed =
      code != SQLITE_ROW && code != SQLITE_DONE && code != SQLITE_ERROR; /* SQLITE_ERROR: there is no such table */
  if (failed) fail_sql(db, code, table, error);
  sqlite3_finalize(statement);
  return failed ? error->code : TSR_OK;
}

/* Finds the table's present name, which differs from table->name if a rename was rolled back. Returns SQLITE_ROW, with
 * the name from sqlite3_malloc; SQLITE_DONE if the table is gone; else SQLite's error. */
static int present_name(const tsx_table *table, char **name) {
  sqlite3 *db = table->connection->db;
  const int code =
      *table->commit.id ? has_config(db, table->schema_name, table->name, "id", table->commit.id) : SQLITE_ROW;
  if (code == SQLITE_DONE) return tsx_config_find(db, table->schema_name, "id", table->commit.id, name);
  if (code != SQLITE_ROW) return code; /* SQLite may have rolled back, and the next query would succeed */
  *name = sqlite3_mprintf("%s", table->name);
  return *name ? SQLITE_ROW : SQLITE_NOMEM;
}

/* ---- The transaction --------------------------------------------------------------------------------------------- */

unsigned tsx_data_version(const tsx_table *table) {
  unsigned version = 0;
  sqlite3_file_control(table->connection->db, table->schema_name, SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

/* Returns true if the database has synchronous=OFF. */
static bool is_synchronous_off(sqlite3 *db, const char *schema) {
  sqlite3_stmt *statement = NULL;
  const int code = tsx_sql_first(db, sqlite3_mprintf("PRAGMA \"%w\".synchronous", schema), &statement);
  const bool off = code == SQLITE_ROW && sqlite3_column_int(statement, 0) == 0;
  sqlite3_finalize(statement);
  return off;
}

/* Returns the path of the table's database file, or NULL. */
static const char *file_of(const tsx_table *table) {
  const char *file = sqlite3_db_filename(table->connection->db, table->schema_name);
  return file && *file ? file : NULL;
}

/* ---- The owner --------------------------------------------------------------------------------------------------- */

/* Finds the place of a database file. Returns 1; 0 if nothing distinguishes the file from others, and then the place is
 * the connection's random id; or an error. */
static int find_place(const tsx_connection *connection, const char *schema, char place[TSX_ID_SIZE], tsr_error *error) {
  const char *file = sqlite3_db_filename(connection->db, schema);
  int moved = 0; /* the file at its path may be another by now; a VFS that cannot tell leaves 0 */
  sqlite3_file_control(connection->db, schema, SQLITE_FCNTL_HAS_MOVED, &moved);
  const int found = file && !moved ? tsr_file_identity(file, place, error) : 0;
  if (found == 0) memcpy(place, connection->random_place, TSX_ID_SIZE);
  return found;
}

/* Finds the id that a table gives to its markers at this place. *kept: NAME_config has that id already. Returns
 * SQLITE_ROW; SQLITE_DONE if the table is not one of ours; else SQLite's error. */
static int find_owner(sqlite3 *db, const char *schema, const char *name, const char *place, char owner[TSX_ID_SIZE],
                      bool *kept) {
  sqlite3_stmt *statement = NULL;
  tsr_error error;
  char *sql = sqlite3_mprintf("SELECT value FROM \"%w\".\"%w_config\" WHERE key IN ('owner', 'id') ORDER BY key DESC",
                              schema, name);
  int code = tsx_sql_first(db, sql, &statement);
  if (code == SQLITE_ROW) {
    char *text = sqlite3_mprintf("%s", sqlite3_column_text(statement, 0)); /* "ID PLACE", or the table's id alone */
    char *space = text ? strchr(text, ' ') : NULL;
    if (space) *space++ = 0;
    *kept = space && strlen(text) == TSX_ID_SIZE - 1 && !strcmp(space, place);
    if (!text) code = SQLITE_NOMEM;
    else if (*kept) memcpy(owner, text, TSX_ID_SIZE);
    else if (tsr_owner_next(text, place, owner, &error) < 0) code = tsx_sqlite_code(error.code);
    sqlite3_free(text);
  } else if (code == SQLITE_ERROR) {
    code = SQLITE_DONE; /* no such table or column */
  }
  sqlite3_finalize(statement);
  return code;
}

int tsx_journal_first_owner(const tsx_table *table, char **value, tsr_error *error) {
  char owner[TSX_ID_SIZE], place[TSX_ID_SIZE];
  *value = NULL;
  if (!file_of(table)) return TSR_OK;
  const int placed = find_place(table->connection, table->schema_name, place, error);
  if (placed <= 0) return placed;
  tsx_journal_make_id(owner);
  *value = sqlite3_mprintf("%s %s", owner, place);
  return *value ? TSR_OK : tsx_out_of_memory(error);
}

/* Chooses the owner of the transaction's commits. Sets owner.place to "" if keep_owner has nothing to write. */
static int choose_owner(const tsx_table *table, tsx_transaction *transaction, tsr_error *error) {
  char owner[TSX_ID_SIZE], *name = NULL;
  bool kept = false;
  const int placed = find_place(table->connection, table->schema_name, transaction->owner.place, error);
  if (placed < 0) return placed;
  int code = present_name(table, &name);
  if (code == SQLITE_ROW)
    code = find_owner(table->connection->db, table->schema_name, name, transaction->owner.place, owner, &kept);
  sqlite3_free(name);
  if (code == SQLITE_DONE) tsx_journal_make_id(owner); /* NAME_config is not ours: a random id, which nothing undoes */
  else if (code != SQLITE_ROW) return fail_sql(table->connection->db, code, table, error);
  if (kept || placed == 0 || code == SQLITE_DONE) *transaction->owner.place = 0;
  memcpy(transaction->owner.table, table->commit.id, TSX_ID_SIZE);
  transaction->owner.id = sqlite3_mprintf("%s", owner);
  transaction->owner.file = sqlite3_mprintf("%s", file_of(table));
  return transaction->owner.id && transaction->owner.file ? TSR_OK : tsx_out_of_memory(error);
}

/* With synchronous=OFF nothing need survive a power failure, so nothing is synced. temp always has it, so for a table
 * in temp the setting of the main database counts. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_writer_host *host, tsr_error *error) {
  options->unsynced = is_synchronous_off(table->connection->db,
                                         sqlite3_stricmp(table->schema_name, "temp") ? table->schema_name : "main");
  if (!file_of(table)) return TSR_OK;
  TSX_TRY(choose_owner(table, transaction, error));
  host->owner = transaction->owner.id;
  host->owner_file = transaction->owner.file;
  return TSR_OK;
}

/* Writes a new owner id into NAME_config, in the transaction that commits. The previous id becomes 'owner ID'. */
static int keep_owner(const tsx_table *table, const char *name) {
  const tsx_transaction *t = table->array->transaction;
  sqlite3 *db = table->connection->db;
  if (!t->owner.id || !*t->owner.place || strcmp(t->owner.table, table->commit.id) != 0) return SQLITE_OK;
  int code = journal_run(
      db, sqlite3_mprintf("INSERT OR IGNORE INTO \"%w\".\"%w_config\" SELECT 'owner ' || substr(value, 1, 32), "
                          "substr(value, 34) FROM \"%w\".\"%w_config\" WHERE key = 'owner' AND "
                          "substr(value, 1, 32) <> %Q",
                          table->schema_name, name, table->schema_name, name, t->owner.id));
  if (code == SQLITE_OK)
    code = journal_run(db, sqlite3_mprintf("INSERT OR REPLACE INTO \"%w\".\"%w_config\" VALUES('owner', '%q %q')",
                                           table->schema_name, name, t->owner.id, t->owner.place));
  return code;
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Returns true if this transaction writes no database file but the table's. temp does not count: it ends with the
 * connection. */
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

/* Deletes the rows of commits that have no marker any more, except `kept`. *left: how many stay, without `kept`.
 * Returns SQLite's code. */
static int forget_published(const tsx_table *table, const char *name, const char *kept, uint64_t *left) {
  sqlite3 *db = table->connection->db;
  sqlite3_stmt *names = NULL;
  tsr_error error;
  char *sql =
      sqlite3_mprintf("SELECT name FROM \"%w\".\"%w_commits\" WHERE name IS NOT %Q", table->schema_name, name, kept);
  int code = tsx_sql_prepare(db, sql, &names);
  *left = 0;
  while (code == SQLITE_OK && (code = sqlite3_step(names)) == SQLITE_ROW) {
    const char *commit = (const char *)sqlite3_column_text(names, 0);
    int has_marker = commit ? tsr_array_has_marker(table->array->core, commit, &error) : 0;
    if (has_marker == TSR_RANGE) has_marker = 0; /* the row is not the path of a commit */
    code = has_marker == TSR_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
    *left += has_marker != 0; /* after an error the commit stays */
    if (has_marker == 0)
      code = journal_run(
          db, sqlite3_mprintf("DELETE FROM \"%w\".\"%w_commits\" WHERE name = %Q", table->schema_name, name, commit));
  }
  sqlite3_finalize(names);
  return code == SQLITE_DONE ? SQLITE_OK : code;
}

int tsx_journal_has_unpublished(const tsx_table *table, tsr_error *error) {
  uint64_t left;
  const int code = forget_published(table, table->name, NULL, &left);
  if (code != SQLITE_OK) return fail_sql(table->connection->db, code, table, error);
  return left > 0;
}

int tsx_journal_write(tsx_table *table, tsr_error *error) {
  tsx_transaction *transaction = table->array->transaction;
  sqlite3 *db = table->connection->db;
  const char *commit = tsr_writer_commit(transaction->writer);
  char *name = NULL;
  transaction->sync.alone = is_alone(table);
  int code = present_name(table, &name);
  if (code == SQLITE_DONE)
    return TSR_OK; /* its CREATE was rolled back; xSync of another table on the array writes the row */
  if (code != SQLITE_ROW) return fail_sql(db, code, table, error);
  uint64_t left;
  code = forget_published(table, name, commit, &left);
  if (code == SQLITE_OK)
    code = journal_run(db, sqlite3_mprintf("INSERT OR IGNORE INTO \"%w\".\"%w_commits\" VALUES(%Q)", table->schema_name,
                                           name, commit));
  if (code == SQLITE_OK) code = keep_owner(table, name);
  sqlite3_free(name);
  return code == SQLITE_OK ? TSR_OK : fail_sql(db, code, table, error);
}

bool tsx_journal_unpublished(const tsx_table *table, tsr_error *error) {
  tsx_transaction *transaction = table->array->transaction;
  sqlite3_log(tsx_sqlite_code(error->code), "tessera: %s.%s has committed, and the array does not show it: %s",
              table->schema_name, table->name, error->message);
  if (transaction->owner.id && error->code != TSR_NOT_FOUND)
    return true; /* the record names it: the next write publishes it */
  /* No owner, or the prepared files are gone: one more attempt. */
  if (tsr_writer_publish(transaction->writer, error) >= 0) return false;
  if (error->code != TSR_NOT_FOUND) return true;
  error->code = TSR_CORRUPT;
  tsx_connection_defer_lost(table->connection, error);
  return false;
}

bool tsx_journal_untouched(const tsx_table *table) {
  const tsx_transaction *transaction = table->array->transaction;
  return transaction->sync.alone && transaction->sync.data_version == tsx_data_version(table);
}

/* ---- Recovery ---------------------------------------------------------------------------------------------------- */

typedef struct commit_question {
  tsx_connection *connection;
  const char *schema; /* the database to search */
  const char *commit; /* for ask_commits */
  const char *owner; /* for ask_owner */
  char place[TSX_ID_SIZE]; /* for ask_owner: of the database file */
  tsr_error failure; /* why a prepared commit could not be judged; code 0: all could be */
} commit_question;

static int ask_commits(void *argument, const char *schema, const char *name) {
  const commit_question *q = argument;
  return has_commit(q->connection->db, schema, name, q->commit);
}

/* Returns true if the open transaction has prepared this commit. Recovery leaves it alone, and readers see it as the
 * transaction's uncommitted changes. */
static bool is_of_open_transaction(const tsx_connection *connection, const char *commit) {
  for (const tsx_array *array = connection->arrays.list; array; array = array->next)
    if (array->transaction && array->transaction->writer &&
        !strcmp(tsr_writer_commit(array->transaction->writer), commit))
      return true;
  return false;
}

int tsx_journal_committed(void *argument, const char *commit, tsr_error *error) {
  commit_question q = {.connection = argument, .commit = commit};
  if (is_of_open_transaction(q.connection, commit)) return 0;
  sqlite3 *db = q.connection->db;
  sqlite3_stmt *names = NULL;
  int code = tsx_schemas_prepare(db, &names), answer = SQLITE_DONE;
  const char *schema;
  while (answer == SQLITE_DONE && (schema = tsx_schemas_next(names, &code)))
    answer = ask_tables(db, schema, "_commits", ask_commits, &q);
  if (code == SQLITE_ROW || code == SQLITE_DONE) code = answer;
  int result = code == SQLITE_ROW;
  if (code == SQLITE_INTERRUPT) result = tsx_fail_cancelled(error);
  else if (code != SQLITE_ROW && code != SQLITE_DONE)
    result = tsx_fail(error, tsx_core_code(code), "cannot find out whether this database has committed '%s': %s",
                      commit, code == SQLITE_NOMEM ? "out of memory" : sqlite3_errstr(code));
  sqlite3_finalize(names);
  return result;
}

static int ask_owner(void *argument, const char *schema, const char *name) {
  const commit_question *q = argument;
  char owner[TSX_ID_SIZE];
  bool kept;
  const int code = find_owner(q->connection->db, schema, name, q->place, owner, &kept);
  return code == SQLITE_ROW && strcmp(owner, q->owner) != 0 ? SQLITE_DONE : code;
}

/* Returns SQLITE_ROW if a table of the database has this id now, SQLITE_DONE if none has it, or SQLite's error. */
static int find_present_owner(commit_question *q, const char *owner) {
  tsr_error ignored;
  if (!owner) return SQLITE_DONE; /* a marker of an earlier version has a path, which may be another file's by now */
  if (find_place(q->connection, q->schema, q->place, &ignored) < 0) return SQLITE_IOERR;
  q->owner = owner;
  return ask_tables(q->connection->db, q->schema, "_config", ask_owner, q);
}

/* Leaves a commit that cannot be judged. If the query was interrupted or lacked memory, stores the error, which fails
 * the whole recovery. */
static tsr_recover_action journal_cannot_tell(commit_question *q, int code) {
  if (!q->failure.code && (code == SQLITE_INTERRUPT || code == SQLITE_NOMEM))
    (void)tsx_fail(&q->failure, tsx_core_code(code), "%s", sqlite3_errstr(code));
  return TSR_RECOVER_LEAVE;
}

static tsr_recover_action journal_decide(void *argument, const tsr_prepared *prepared) {
  commit_question *q = argument;
  if (is_of_open_transaction(q->connection, prepared->commit)) return TSR_RECOVER_LEAVE;
  q->commit = prepared->commit;
  int code = ask_tables(q->connection->db, q->schema, "_commits", ask_commits, q);
  if (code == SQLITE_ROW) return TSR_RECOVER_PUBLISH;
  if (code == SQLITE_DONE && (code = find_present_owner(q, prepared->owner)) == SQLITE_ROW) return TSR_RECOVER_UNDO;
  return code == SQLITE_DONE ? TSR_RECOVER_LEAVE : journal_cannot_tell(q, code);
}

/* Recovers from the records of one database. */
static int journal_recover_by(commit_question *q, tsr_array *array, const char *file, uint64_t *changed,
                              tsr_error *error) {
  const int code = tsr_array_recover(array, file, journal_decide, q, changed, error);
  if (code < 0 || !q->failure.code) return code;
  *error = q->failure;
  return error->code;
}

int tsx_journal_recover(tsx_table *table, tsr_error *error) {
  commit_question q = {.connection = table->connection, .schema = table->schema_name};
  const char *file = file_of(table);
  if (!file || sqlite3_txn_state(table->connection->db, table->schema_name) != SQLITE_TXN_WRITE) return TSR_OK;
  uint64_t changed;
  return journal_recover_by(&q, table->array->core, file, &changed, error);
}

/* ---- tessera_recover --------------------------------------------------------------------------------------------- */

static tsr_recover_action journal_leave(void *argument, const tsr_prepared *prepared) {
  (void)argument;
  (void)prepared;
  return TSR_RECOVER_LEAVE;
}

/* Recovers from the records of all databases of the connection. The first call settles what needs no record. */
static int recover_all(tsx_connection *connection, tsx_array *array, uint64_t *changed, tsr_error *error) {
  sqlite3_stmt *names = NULL;
  int listed = tsx_schemas_prepare(connection->db, &names);
  int code = tsr_array_recover(array->core, NULL, journal_leave, NULL, changed, error);
  const char *schema;
  while (code >= 0 && (schema = tsx_schemas_next(names, &listed))) {
    const char *file = sqlite3_db_filename(connection->db, schema);
    if (!file || !*file || sqlite3_txn_state(connection->db, schema) != SQLITE_TXN_WRITE) continue;
    commit_question q = {.connection = connection, .schema = schema};
    code = journal_recover_by(&q, array->core, file, changed, error);
  }
  if (code >= 0 && listed != SQLITE_DONE)
    code = tsx_fail(error, tsx_core_code(listed), "tessera_recover: %s",
                    listed == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(connection->db));
  sqlite3_finalize(names);
  return code;
}

int tsx_journal_claims(tsx_connection *connection, const tsr_prepared *prepared, tsr_error *error) {
  sqlite3_stmt *names = NULL;
  int listed = tsx_schemas_prepare(connection->db, &names),
      claimed = tsx_journal_committed(connection, prepared->commit, error);
  const char *schema;
  while (claimed == 0 && (schema = tsx_schemas_next(names, &listed))) {
    commit_question q = {.connection = connection, .schema = schema};
    const char *file = sqlite3_db_filename(connection->db, schema);
    if (file && *file) claimed = find_present_owner(&q, prepared->owner) == SQLITE_ROW;
  }
  sqlite3_finalize(names);
  return claimed;
}

/* Decides for the option "disown" of tessera_recover: removes commits whose database is gone. A commit that a database
 * of this connection has committed can still be published. */
static tsr_recover_action decide_gone(void *argument, const tsr_prepared *prepared) {
  commit_question *q = argument;
  tsr_error why = {0};
  if (is_of_open_transaction(q->connection, prepared->commit)) return TSR_RECOVER_LEAVE;
  const int committed = tsx_journal_committed(q->connection, prepared->commit, &why);
  if (committed < 0) return journal_cannot_tell(q, tsx_sqlite_code(committed));
  return committed ? TSR_RECOVER_PUBLISH : TSR_RECOVER_UNDO;
}

static int disown_all(tsx_connection *connection, tsx_array *array, uint64_t *changed, tsr_error *error) {
  commit_question q = {.connection = connection};
  TSX_TRY(tsr_array_drop_orphans(array->core, decide_gone, &q, changed, error));
  if (q.failure.code) {
    *error = q.failure;
    return error->code;
  }
  (void)tsx_connection_report_lost(connection, NULL); /* the user has been told by now */
  tsx_deferred_give_up(connection, array);
  return TSR_OK;
}

/* Recovers in a transaction of its own, which changes no database and only takes the write locks of all of them. */
static int journal_recover(tsx_connection *connection, tsx_array *array, bool disown, uint64_t *changed,
                           tsr_error *error) {
  if (!sqlite3_get_autocommit(connection->db))
    return tsx_fail(error, TSR_ERROR, "tessera_recover cannot run within a transaction: commit or roll back first");
  const int code = tsx_savepoint_begin_everywhere(connection, error);
  if (code < 0) return tsx_fail_in("tessera_recover", error);
  return tsx_savepoint_end(
      connection,
      disown ? disown_all(connection, array, changed, error) : recover_all(connection, array, changed, error), error);
}

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  (void)option; /* there is only one */
  (void)error;
  *(bool *)argument = value->whole;
  return TSR_OK;
}

void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values) {
  static const tsx_option_spec specs[] = {{"disown", TSX_TAKES_FLAG, 0, 0, NULL}};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_address address;
  tsr_error error = {0};
  uint64_t changed = 0;
  bool disown = false;
  int code = tsx_address_open_to_write(connection, values[0], &address, &error);
  if (code >= 0 && count > 1 && tsx_options_read(connection->db, values[1], &list, take_option, &disown, &error) < 0)
    code = tsx_fail_in("tessera_recover", &error);
  if (code >= 0) code = tsx_address_array(&address, &error);
  if (code >= 0 && !disown) code = tsx_deferred_publish(connection, address.array, &error);
  if (code >= 0) code = journal_recover(connection, address.array, disown, &changed, &error);
  tsx_address_close(&address);
  if (code < 0) tsx_result_error(context, &error);
  else sqlite3_result_int64(context, (sqlite3_int64)changed);
}
