/* transaction.c: SQLite's transactions, as arrays follow them.
 *
 * A transaction of SQLite and the commits to arrays must succeed or fail together. An array in a directory follows in
 * two phases: xSync prepares the commit, and everything that can fail happens there; xCommit publishes it in one step,
 * xRollback removes it. An array in the database needs no second phase: its files are rows of shadow tables, which
 * SQLite commits itself. The file has two parts:
 *
 * - arrays in directories that a CREATE VIRTUAL TABLE of the open transaction makes;
 * - the changes of the open transaction to arrays, and the transaction methods of array tables (xBegin to xRollbackTo).
 *
 * What recovery needs after a crash between the two phases is in journal.c. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "definition/define.h"
#include "sql/statement.h"

/* ---- Arrays made by CREATE VIRTUAL TABLE ------------------------------------------------------------------------- */
/* xCreate prepares an array in a directory; the commit of the transaction publishes it; a rollback removes it.
 *
 * Until the commit the array's directory exists, but nothing takes it for an array, since it has no __schema. Only this
 * connection has it open, and its tables see the array as it will be. The creation belongs to the open array
 * (tsx_array), not to a table, because after ROLLBACK TO and ALTER TABLE another sqlite3_vtab serves the same table.
 * SQLite's calls:
 *
 *   xSync      Comes before every commit. SQLite does not report that ROLLBACK TO has undone the CREATE, so xSync
 *              checks whether NAME_config still has the creation's name. If not, nothing is published.
 *   xCommit    The database has committed. The cells that the transaction wrote into the array are published first, so
 *              that the array appears with its cells.
 *   xRollback  The directory is removed. After an xSync, this happens only if the database file is unchanged since
 *              then: if the second phase of a commit failed, the database decides when it is opened again.
 *   xDestroy   DROP in the same transaction. The directory is removed; no other call comes.
 *
 * The shadow table NAME_config keeps the creation's name and commits in the same transaction. If the process dies
 * between that commit and the publication, or xRollback comes after the commit, the next connection to the table reads
 * the array as it is (tsx_creation_find), and publishes it like any deferred commit. */

void tsx_creation_close(tsx_array *array, bool abandon) {
  if (!array->making.creation) return;
  if (abandon) tsr_creation_abandon(array->making.creation, NULL);
  tsr_creation_close(array->making.creation);
  array->making.creation = NULL;
}

/* Ends the creation of an array that was not published. The array stays open for tables that still refer to it, but its
 * path no longer leads to it. */
static void creation_forget(tsx_array *array, bool abandon) {
  tsx_transaction_close(array);
  tsx_creation_close(array, abandon);
  array->gone = true;
}

/* Fails unless the table has a key if and only if its definition asks for encryption. */
static int check_key(const tsx_table *table, const tsx_definition *definition, const uint8_t *key, tsr_error *error) {
  if (definition->encrypted && !key)
    return tsx_fail(error, TSR_AUTH, "encryption=aes_256_gcm needs a key: the option key_file, or tessera_set_key");
  if (!definition->encrypted && key)
    return tsx_fail(error, TSR_ERROR, "there is a key for %s: the option encryption=aes_256_gcm is needed, too",
                    table->path);
  return TSR_OK;
}

static tsx_array *next_unchecked(const tsx_connection *connection) {
  tsx_array *array = connection->arrays.list;
  while (array && (array->making.checked || !array->making.creation || !array->making.name)) array = array->next;
  return array;
}

/* Removes prepared arrays whose CREATE was undone by ROLLBACK TO, so that a new CREATE at the same path finds it free.
 * Returns 1 if there were any, 0 if not, or an error. Each search for a table may load the database's schema, which may
 * open and close arrays; so each round walks the list from its head, and holds a reference to the array at hand. */
static int forget_orphans(tsx_connection *connection, tsr_error *error) {
  int found = 0, answer = SQLITE_DONE;
  tsx_array *array;
  for (array = connection->arrays.list; array; array = array->next) array->making.checked = false;
  while (answer != SQLITE_NOMEM && (array = next_unchecked(connection))) {
    array->making.checked = true;
    array->references++;
    answer = tsx_config_find(connection->db, array->making.schema, "creation", array->making.name, NULL);
    if (answer == SQLITE_DONE && array->making.creation) {
      creation_forget(array, true);
      found = 1;
    }
    tsx_array_release(connection, array);
  }
  return answer == SQLITE_NOMEM ? tsx_out_of_memory(error) : found;
}

/* Appends to the message "something is in the way" what to do if that is an array. */
static void hint_at_array(tsr_environment *environment, const char *path, tsr_error *error) {
  tsr_object_kind kind;
  tsr_error ignored;
  const size_t size = strlen(error->message);
  if (tsr_object_find(environment, path, &kind, &ignored) >= 0 && kind == TSR_OBJECT_ARRAY)
    sqlite3_snprintf((int)(sizeof error->message - size), error->message + size,
                     ": without columns, CREATE opens it; tessera_drop deletes it");
}

static int creation_prepare(const tsx_table *table, const tsr_schema *schema, const uint8_t *key,
                            tsr_creation **creation, tsr_error *error) {
  const char *file = sqlite3_db_filename(table->connection->db, table->schema_name);
  tsr_create_options options = {.key = key, .owner_file = file && *file ? file : NULL};
  tsr_environment *environment = table->connection->environment;
  int code = tsx_creation_begin(table->connection, table->path, schema, &options, creation, error);
  if (code != TSR_EXISTS) return code;
  tsr_error why = *error;
  int orphans = forget_orphans(table->connection, &why);
  if (orphans < 0) *error = why;
  if (orphans == 0) hint_at_array(environment, table->path, error);
  if (orphans <= 0) return orphans < 0 ? orphans : code;
  return tsr_creation_prepare(environment, table->path, schema, &options, creation, error);
}

/* Makes the array of a table in the table's own database. */
static int create_in_database(tsx_table *table, const tsx_definition *definition, const uint8_t *key,
                              tsr_error *error) {
  TSX_TRY(check_key(table, definition, key, error));
  TSX_TRY(tsx_database_make(table, &definition->schema, key, error));
  return tsx_checks_add(definition, table->array->core, true, error);
}

/* Prepares the creation of an array and opens it. After an error nothing of it is left. */
static int create_in_directory(tsx_table *table, const tsx_definition *definition, const uint8_t *key,
                               tsr_creation **creation, tsr_error *error) {
  const tsx_options *options = &table->options;
  TSX_TRY(check_key(table, definition, key, error));
  TSX_TRY(creation_prepare(table, &definition->schema, key, creation, error));
  int code = tsx_array_open_created(table->connection, table->path, key, options->limits.cache_bytes,
                                    options->limits.threads, *creation, &table->array, error);
  if (code < 0) {
    tsr_creation_abandon(*creation, NULL);
    tsr_creation_close(*creation);
    return code;
  }
  code = tsx_checks_add(definition, table->array->core, true, error);
  if (code < 0) tsx_creation_fail(table);
  return code;
}

int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error) {
  tsx_definition definition;
  tsr_creation *creation = NULL;
  if (table->connection->database_arrays.making) return tsx_database_make(table, NULL, key, error);
  TSX_TRY(tsx_define(&table->options, &definition, error));
  const int code = table->in_database ? create_in_database(table, &definition, key, error)
                                      : create_in_directory(table, &definition, key, &creation, error);
  tsx_definition_release(&definition);
  if (code < 0 || table->in_database) return code;
  /* below format version 10 all schemas have the same name, so a random number distinguishes creations */
  unsigned chance;
  sqlite3_randomness(sizeof chance, &chance);
  table->array->making.name = sqlite3_mprintf("%s %08x", tsr_creation_schema_name(creation), chance);
  table->array->making.schema = sqlite3_mprintf("%s", table->schema_name);
  if (table->array->making.name && table->array->making.schema) return TSR_OK;
  tsx_creation_fail(table);
  return tsx_out_of_memory(error);
}

int tsx_creation_find(tsx_table *table, const char *name, const uint8_t *key, tsr_error *error) {
  tsx_connection *connection = table->connection;
  const tsx_options *options = &table->options;
  tsr_creation *creation = NULL;
  if (sqlite3_txn_state(connection->db, table->schema_name) == SQLITE_TXN_WRITE) return 0; /* not committed yet */
  char *schema = sqlite3_mprintf("%.*s", (int)strcspn(name, " "), name);
  int code = schema ? tsr_creation_find(connection->environment, table->path, schema, &creation, error)
                    : tsx_out_of_memory(error);
  sqlite3_free(schema);
  if (code <= 0) return code;
  code = tsx_array_open_created(connection, table->path, key, options->limits.cache_bytes, options->limits.threads,
                                creation, &table->array, error);
  if (code < 0) {
    tsr_creation_close(creation);
    return code;
  }
  if (tsx_defer_creation(connection, table->array, error) == TSR_OK) return 1;
  tsx_creation_close(table->array, false);
  tsx_array_release(connection, table->array);
  table->array = NULL;
  return error->code;
}

void tsx_creation_fail(tsx_table *table) {
  if (table->array && table->array->making.creation) creation_forget(table->array, true);
}

/* The parts of xSync, xCommit and xRollback for a prepared array; they do nothing for other tables. Return SQLite's
 * codes. */
static int creation_sync(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (!array || !array->making.creation) return SQLITE_OK;
  int answer = tsx_config_find(table->connection->db, table->schema_name, "creation", array->making.name, NULL);
  if (answer != SQLITE_ROW && answer != SQLITE_DONE) return answer;
  array->making.table_exists = answer == SQLITE_ROW;
  array->making.synced = true;
  array->making.data_version = tsx_data_version(table);
  return SQLITE_OK;
}

/* SQLite ignores the result of xCommit. If the array cannot be published here, it becomes a deferred commit. */
static int creation_commit(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (!array || !array->making.creation) return SQLITE_OK;
  if (!array->making.table_exists) {
    creation_forget(array, true);
    return SQLITE_OK;
  }
  tsr_error error = {0};
  if (tsr_creation_publish(array->making.creation, NULL) < 0 &&
      tsr_creation_publish(array->making.creation, &error) < 0)
    tsx_defer_commit(table->connection, array, &error);
  tsx_creation_close(array, false);
  return SQLITE_OK;
}

static int creation_rollback(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  if (array && array->making.creation)
    creation_forget(array, !array->making.synced || array->making.data_version == tsx_data_version(table));
  return SQLITE_OK;
}

/* ---- The changes of the open transaction ------------------------------------------------------------------------- */
/* All changes to an array go into one writer of the core, whichever tables they come through. xSync prepares the
 * writer's commit, and everything that can fail happens there. xCommit publishes the commit in one step, xRollback
 * removes it. The methods must cope with SQLite's order of calls, and with what it does not report:
 *
 *   xBegin       Comes before a statement that writes the table, but not after CREATE in the same transaction: then
 *                rows come without xBegin, and savepoints that were open at the CREATE are never announced.
 *   xSavepoint   May come twice with one number. Of the savepoints that were open at xBegin, only the innermost is
 *                announced. If another table has written the array before, that savepoint may be older than its rows,
 *                so only the table that began the transaction counts.
 *   xRollbackTo  May name a savepoint for which xSavepoint never came, such as -1. That savepoint is older than the
 *                first write, so all changes are undone. xRollbackTo does not come for a table whose CREATE it undoes.
 *                Such a table is found to be missing later, by its id in NAME_config (drop_vanished).
 *   xSync        Comes before every commit, once for each table. The commit may fail after it, and the transaction may
 *                go on; no call reports that. So a second xSync of one table belongs to another COMMIT.
 *   xRollback    May come after an xSync although the database has committed. journal.c decides then.
 *   xDestroy     Is refused while the transaction has changed the array: no other call would come for the table.
 *
 * Invariants: the savepoints ascend by number and by mark. From its first write to its end, the transaction sees one
 * state of the array (tsr_array_freeze), with its own changes on top. */

struct tsx_savepoint {
  int number;
  tsr_mark mark; /* of the writer when the savepoint was opened */
};

struct tsx_created_table { /* a table that this transaction has created: it is written without xBegin */
  tsx_created_table *next;
  tsr_mark mark; /* of the writer when the table was first written */
  char id[TSX_ID_SIZE];
};

void tsx_transaction_drop(tsx_transaction *transaction) {
  if (--transaction->references) return;
  tsr_snapshot_close(transaction->base);
  tsr_writer_close(transaction->writer);
  while (transaction->created) {
    tsx_created_table *one = transaction->created;
    transaction->created = one->next;
    sqlite3_free(one);
  }
  sqlite3_free(transaction->schema_name);
  sqlite3_free(transaction->owner.id);
  sqlite3_free(transaction->owner.file);
  sqlite3_free(transaction->savepoints.list);
  sqlite3_free(transaction);
}

/* Ends the transaction of an array. With `abandon`, removes a prepared commit; else it has been published, or is left
 * for recovery. Cursors may still read snapshots that show the changes. */
static void transaction_end(tsx_array *array, bool abandon) {
  tsx_transaction *transaction = array->transaction;
  if (!transaction) return;
  if (abandon && transaction->writer) tsr_writer_abandon(transaction->writer, NULL);
  array->transaction = NULL;
  transaction->array = NULL;
  tsr_array_freeze(array->core, false, NULL);
  tsx_transaction_drop(transaction);
  tsx_array_trim(array);
}

void tsx_transaction_end_unchanged(tsx_array *array) {
  const tsx_transaction *t = array->transaction;
  if (t && !tsr_writer_changed(t->writer) && !t->sync.published) transaction_end(array, true);
}

void tsx_transaction_close(tsx_array *array) {
  transaction_end(array, array->transaction && !array->transaction->sync.done && !array->in_database);
}

/* ---- Begin ------------------------------------------------------------------------------------------------------- */

static int fail_database(const tsx_table *table, const tsx_transaction *transaction, tsr_error *error) {
  return tsx_fail(error, TSR_ERROR,
                  "%s is written through a table of database %s in this transaction: a table of %s cannot write it too",
                  table->path, transaction->schema_name, table->schema_name);
}

/* Fails if the array no longer has the table's schema: it was replaced by another array. The writer uses the array's
 * latest schema, which may be newer than the table's. */
static int check_schema(const tsx_table *table, tsr_error *error) {
  const tsx_transaction *transaction = table->array->transaction;
  if (tsr_writer_schema(transaction->writer) == table->schema) return TSR_OK;
  return tsr_array_has_schema(table->array->core, table->schema, error);
}

/* Freezes the state that the transaction sees. One listing of the array gives that state, and shows whether there is
 * anything to recover. */
static int freeze(tsx_table *table, tsr_error *error) {
  tsr_array *array = table->array->core;
  int code = tsr_array_freeze(array, true, error);
  if (code < 0 || table->array->in_database || !tsr_array_needs_recovery(array)) return code;
  tsr_array_freeze(array, false, NULL);
  TSX_TRY(tsx_journal_recover(table, error));
  return tsr_array_freeze(array, true, error);
}

/* Opens the writer of a transaction, and the state that it began with. After an error the caller ends the
 * transaction. */
static int transaction_open(tsx_table *table, tsx_transaction *transaction, tsr_error *error) {
  tsx_array *array = table->array;
  transaction->schema_name = sqlite3_mprintf("%s", table->schema_name);
  tsr_writer_options options = {.memory_bytes = table->options.limits.memory_bytes,
                                .threads = table->options.limits.threads};
  tsr_writer_host host = {0};
  options.host = &host;
  if (array->in_database) { /* its scratch files are rolled back with a savepoint, while rows from before it stay */
    host.scratch = &tsx_scratch;
    host.scratch_argument = table->connection;
  }
  if (!transaction->schema_name) return tsx_out_of_memory(error);
  TSX_TRY(freeze(table, error));
  if (!array->in_database) TSX_TRY(tsx_journal_options(table, transaction, &options, &host, error));
  TSX_TRY(tsr_writer_open(array->core, &options, &transaction->writer, error));
  TSX_TRY(check_schema(table, error));
  return tsr_snapshot_open(array->core, tsr_writer_schema(transaction->writer), TSR_TIME_BEGIN, TSR_TIME_NOW,
                           &transaction->base, error);
}

static int transaction_begin(tsx_table *table, tsr_error *error) {
  tsx_array *array = table->array;
  if (!array->in_database) /* the array may have been opened before tessera_restrict was called */
    TSX_TRY(tsr_path_permitted(table->connection->environment, array->path, error));
  tsx_transaction *transaction = sqlite3_malloc64(sizeof *transaction);
  if (!transaction) return tsx_out_of_memory(error);
  memset(transaction, 0, sizeof *transaction);
  transaction->array = array;
  transaction->leader = table;
  transaction->references = 1;
  array->transaction = transaction;
  const int code = transaction_open(table, transaction, error);
  if (code < 0) transaction_end(array, true);
  return code;
}

/* Records the mark at which a table that is written without xBegin began to write: SQLite does not report that the
 * table's CREATE is undone. */
static int note_created(tsx_table *table, tsr_error *error) {
  tsx_transaction *transaction = table->array->transaction;
  for (const tsx_created_table *one = transaction->created; one; one = one->next)
    if (!strcmp(one->id, table->commit.id)) return TSR_OK;
  tsx_created_table *one = sqlite3_malloc64(sizeof *one);
  if (!one) return tsx_out_of_memory(error);
  memcpy(one->id, table->commit.id, sizeof one->id);
  one->mark = tsr_writer_mark(transaction->writer);
  one->next = transaction->created;
  transaction->created = one;
  return TSR_OK;
}

/* Lets the writer prepare again if xSync has published within a transaction of the database that goes on: ROLLBACK TO
 * may have undone the publication. */
static void reopen(tsx_transaction *transaction) {
  if (transaction->sync.published) tsr_writer_reopen(transaction->writer);
  transaction->sync.published = false;
}

/* A repeated COMMIT takes place now, because others may have committed and read the array since the first attempt. So a
 * commit that was prepared then, or published in the database, gets a new time. */
static void note_attempt(tsx_transaction *transaction, uint64_t attempt) {
  if (transaction->sync.done && transaction->sync.attempt != attempt) tsr_writer_reopen(transaction->writer);
  if (transaction->sync.attempt != attempt) transaction->sync.published = false;
  transaction->sync.attempt = attempt;
}

int tsx_transaction_rewind(tsx_transaction *transaction, tsr_mark mark, tsr_error *error) {
  reopen(transaction);
  tsx_array_trim(transaction->array);
  tsx_snapshots_undo(transaction->array, transaction, mark);
  transaction->rewinds++;
  return tsr_writer_rewind(transaction->writer, mark, error);
}

/* Finds tables whose CREATE was undone, by their ids, and rewinds the writer to where they began to write: all later
 * changes were undone with the CREATE. */
static int drop_vanished(tsx_connection *connection, tsx_transaction *transaction, tsr_error *error) {
  tsx_created_table **link = &transaction->created;
  while (*link) {
    tsx_created_table *one = *link;
    int code = tsx_config_find(connection->db, transaction->schema_name, "id", one->id, NULL);
    if (code == SQLITE_ROW) {
      link = &one->next;
      continue;
    }
    if (code != SQLITE_DONE)
      return tsx_fail(error, tsx_core_code(code), "%s",
                      code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(connection->db));
    *link = one->next;
    tsr_mark now = tsr_writer_mark(transaction->writer), then = one->mark;
    sqlite3_free(one);
    if (then.cells > now.cells || then.removed > now.removed || then.boxes > now.boxes) continue;
    if ((code = tsx_transaction_rewind(transaction, then, error)) < 0) return code;
  }
  return TSR_OK;
}

int tsx_transactions_check(tsx_connection *connection, tsr_error *error) {
  for (tsx_array *array = connection->arrays.list; array; array = array->next)
    if (array->transaction && array->transaction->created) {
      TSX_TRY(drop_vanished(connection, array->transaction, error));
    }
  return TSR_OK;
}

int tsx_transaction_of(tsx_table *table, tsx_transaction **out, tsr_error *error) {
  if (table->options.times.has_as_of)
    return tsx_fail(error, TSR_READONLY, "%s is open as of an earlier time: it is read-only", table->path);
  TSX_TRY(tsx_table_ready(table, error));
  TSX_TRY(tsx_deferred_publish(table->connection, table->array, error));
  tsx_transaction *transaction = table->array->transaction;
  if (transaction && strcmp(transaction->schema_name, table->schema_name))
    return fail_database(table, transaction, error);
  TSX_TRY(tsx_journal_find_id(table, error));
  if (!transaction) TSX_TRY(transaction_begin(table, error));
  if (!table->commit.begun) TSX_TRY(note_created(table, error));
  reopen(table->array->transaction);
  *out = table->array->transaction;
  return TSR_OK;
}

bool tsx_transaction_open_on(tsx_connection *connection, const char *path) {
  char *canonical = NULL;
  tsr_error ignored;
  bool found = false;
  if (tsx_array_key(connection, path, &canonical, &ignored) < 0) return false;
  for (const tsx_array *array = connection->arrays.list; array && !found; array = array->next)
    found = array->transaction && !array->gone && tsr_writer_changed(array->transaction->writer) &&
            !strcmp(array->path, canonical);
  sqlite3_free(canonical);
  return found;
}

int tsx_transaction_may_detach(const tsx_table *table, tsr_error *error) {
  const tsx_transaction *transaction = table->array ? table->array->transaction : NULL;
  if (!transaction) return TSR_OK;
  /* In the database the changes are dropped with the array, unless a savepoint other than DROP's own can restore
   * both. */
  bool may_go = table->in_database && transaction->savepoints.count <= 1;
  if (tsr_writer_changed(transaction->writer) && !may_go)
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit or roll back first", table->path);
  return TSR_OK;
}

void tsx_transaction_detach(tsx_table *table) {
  /* the last call for this table; another table begins the transaction again */
  if (table->array) transaction_end(table->array, !table->in_database);
}

int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error) {
  if (sqlite3_errcode(db) == SQLITE_NOMEM)
    return tsx_fail(error, TSR_NOMEM, "out of memory: the transaction was rolled back");
  return tsx_fail(error, TSR_IO, "memory or the disk has failed: the transaction was rolled back");
}

tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name) {
  return (tsx_watch){!sqlite3_get_autocommit(db), sqlite3_txn_state(db, schema_name) == SQLITE_TXN_WRITE};
}

int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error) {
  const bool closed = watch->open && sqlite3_get_autocommit(db);
  if (!closed && (!watch->writes || sqlite3_txn_state(db, schema_name) == SQLITE_TXN_WRITE)) return TSR_OK;
  return tsx_fail_rolled_back(db, error);
}

/* Begins or joins the transaction of the table's array, and fails if SQLite has rolled back since `watch` began. */
static int begin_watched(tsx_table *table, const tsx_watch *watch, tsr_error *error) {
  tsx_transaction *transaction;
  TSX_TRY(tsx_transactions_check(table->connection, error));
  /* SQLite has locked the table's own database, which need not be the one that the array is in */
  if (!table->in_database && tsx_store_is(table->path)) TSX_TRY(tsx_store_lock(table->connection, table->path, error));
  tsx_upkeep_in_begin(table);
  TSX_TRY(tsx_transaction_of(table, &transaction, error));
  const int code = tsx_watch_end(watch, table->connection->db, table->schema_name, error);
  if (code < 0) {
    tsx_transaction_close(table->array); /* SQLite's rollback skipped this table, since xBegin has not returned */
    return code;
  }
  return check_schema(table, error); /* on failure, a transaction that another table began stays */
}

int tsx_begin(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsr_error error = {0};
  const tsx_watch watch = tsx_watch_begin(table->connection->db, table->schema_name);
  table->commit.begun = true;
  if (begin_watched(table, &watch, &error) >= 0) return SQLITE_OK;
  table->commit.begun = false; /* SQLite makes no further calls for a table whose xBegin failed */
  return tsx_vtab_error(vtab, &error);
}

/* ---- Savepoints -------------------------------------------------------------------------------------------------- */

static tsx_transaction *transaction_of(sqlite3_vtab *vtab) {
  tsx_array *array = ((tsx_table *)vtab)->array;
  return array ? array->transaction : NULL;
}

int tsx_savepoint(sqlite3_vtab *vtab, int number) {
  tsx_transaction *transaction = transaction_of(vtab);
  if (!transaction || transaction->leader != (tsx_table *)vtab) return SQLITE_OK;
  uint32_t count = transaction->savepoints.count;
  if (count && transaction->savepoints.list[count - 1].number >= number) return SQLITE_OK; /* announced before */
  if (count == transaction->savepoints.room) {
    uint32_t room = count ? count * 2 : 8;
    struct tsx_savepoint *more = sqlite3_realloc64(transaction->savepoints.list, room * sizeof *more);
    if (!more) return SQLITE_NOMEM;
    transaction->savepoints.list = more;
    transaction->savepoints.room = room;
  }
  transaction->savepoints.list[transaction->savepoints.count++] =
      (struct tsx_savepoint){.number = number, .mark = tsr_writer_mark(transaction->writer)};
  return SQLITE_OK;
}

int tsx_release(sqlite3_vtab *vtab, int number) {
  tsx_transaction *transaction = transaction_of(vtab);
  while (transaction && transaction->savepoints.count &&
         transaction->savepoints.list[transaction->savepoints.count - 1].number >= number)
    transaction->savepoints.count--;
  return SQLITE_OK;
}

/* The savepoint itself stays open. A savepoint for which xSavepoint never came is older than the first write, so all
 * changes are undone. */
int tsx_rollback_to(sqlite3_vtab *vtab, int number) {
  tsx_transaction *transaction = transaction_of(vtab);
  tsr_error error = {0};
  ((tsx_table *)vtab)->connection->database_arrays.epoch++; /* readers survive it, and renames are undone */
  if (!transaction) return SQLITE_OK;
  tsr_mark mark = {0};
  uint32_t keep = transaction->savepoints.count;
  while (keep && transaction->savepoints.list[keep - 1].number > number) keep--;
  if (keep && transaction->savepoints.list[keep - 1].number == number)
    mark = transaction->savepoints.list[keep - 1].mark;
  else keep = 0;
  transaction->savepoints.count = keep;
  /* In the database, what functions and merges have changed before the first row may be undone, too, so the next row
   * begins another transaction, in the state as it is then. */
  if (transaction->array->in_database && !mark.cells && !mark.removed && !mark.boxes) {
    tsx_snapshots_undo(transaction->array, transaction, mark);
    transaction_end(transaction->array, false);
    return SQLITE_OK;
  }
  return tsx_transaction_rewind(transaction, mark, &error) < 0 ? tsx_vtab_error(vtab, &error) : SQLITE_OK;
}

/* ---- Commit and rollback ----------------------------------------------------------------------------------------- */

static int sync_table(tsx_table *table, tsr_error *error) {
  tsx_array *array = table->array;
  tsx_transaction *transaction = array ? array->transaction : NULL;
  if (!transaction) return TSR_OK;
  TSX_TRY(drop_vanished(table->connection, transaction, error));
  if (array->making.creation && !array->making.table_exists) return TSR_OK; /* the table's CREATE was undone */
  note_attempt(transaction, table->commit.attempt);
  transaction->sync.done = true;
  transaction->sync.data_version = tsx_data_version(table);
  if (transaction->sync.published) return TSR_OK; /* by another table's xSync in the same COMMIT */
  if (!tsr_writer_changed(transaction->writer)) return tsr_writer_abandon(transaction->writer, error);
  TSX_TRY(tsr_writer_prepare(transaction->writer, error));
  if (!array->in_database) return tsx_journal_write(table, error);
  TSX_TRY(tsr_writer_publish(transaction->writer, error));
  transaction->sync.published = true;
  return TSR_OK;
}

int tsx_sync(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_connection *connection = table->connection;
  tsr_error error = {0};
  if (table->commit.attempt == connection->attempt)
    connection->attempt++; /* the last COMMIT failed after this table's xSync */
  table->commit.attempt = connection->attempt;
  tsx_store_release(connection, true); /* names of tables may have changed, since a rename may have been rolled back */
  int code = creation_sync(vtab);
  if (code != SQLITE_OK) return code;
  return sync_table(table, &error) < 0 ? tsx_vtab_error(vtab, &error) : SQLITE_OK;
}

/* SQLite ignores the result of xCommit. If a commit cannot be published now but the record names it, the next write or
 * tessera_recover publishes it, and readers of this database see it all the same. Other commits, and commits to an
 * array that is not published either, stay with the connection (tsx_defer_commit). */
int tsx_commit(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  table->commit.begun = false;
  table->connection->attempt++;
  tsx_update_end(table);
  if (array && array->transaction) {
    bool discard = array->making.creation && !array->making.table_exists;
    tsr_error error = {0};
    const bool changed = !discard && tsr_writer_changed(array->transaction->writer);
    const bool published = changed && tsr_writer_publish(array->transaction->writer, &error) >= 0;
    if (changed && !published && tsx_journal_unpublished(table, &error) &&
        (!array->transaction->owner.id || array->making.creation))
      tsx_defer_commit(table->connection, array, &error);
    transaction_end(array, discard);
    tsx_array_changed(array); /* a cursor that opens now sees the commit, although other cursors may still be open */
    table->commit.published = published && !array->in_database;
  }
  const int code = creation_commit(vtab);
  tsx_upkeep_in_commit(table->connection);
  return code;
}

int tsx_rollback(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_transaction *transaction = transaction_of(vtab);
  table->commit.begun = false;
  table->connection->attempt++;
  tsx_update_end(table);
  tsx_store_rolled_back(table->connection);
  table->connection->quiet = true;
  if (transaction) tsx_snapshots_undo(table->array, transaction, (tsr_mark){0});
  if (transaction)
    transaction_end(table->array,
                    !table->array->in_database && (!transaction->sync.done || tsx_journal_untouched(table)));
  int code = creation_rollback(vtab);
  table->connection->quiet = false;
  return code;
}
