/* transaction.c: the changes that the open transaction makes to arrays, and the transaction methods of array tables.
 *
 * All changes to an array go into one writer of the core, whatever tables they come through. xSync prepares the
 * writer's commit, and everything that can fail happens there. xCommit publishes the commit in one step, xRollback
 * takes it back. The methods must cope with what SQLite does, and with what it does not tell:
 *
 *   xBegin       Comes before a statement that writes the table. It does not come after CREATE in the same transaction;
 *                then rows come without it, and savepoints that were open at the CREATE are never named.
 *   xSavepoint   May come twice with one number. Of the savepoints that were open at xBegin only the innermost comes.
 *   xRollbackTo  May name a savepoint for which xSavepoint never came, such as -1. That savepoint is older than the
 *                first write, so all changes go. xRollbackTo does not come for a table whose CREATE it takes back. Such
 *                a table is found to be missing later, by its id in NAME_config (drop_vanished).
 *   xSync        Comes before every commit, once for each table. The commit may fail after it, and the transaction may
 *                go on; no call tells that. So a second xSync of one table belongs to another COMMIT.
 *   xRollback    May come after an xSync although the database has committed. journal.c decides then.
 *   xDestroy     Is refused while the transaction has changed the array: no other call would come for the table.
 *
 * Invariants: the savepoints rise by number and by mark. From its first write to its end the transaction sees one state
 * of the array (tsr_array_freeze), with its own changes on top.
 */
#include "table/transaction.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "database/store_tables.h"
#include "table/creation.h"
#include "table/journal.h"
#include "table/module.h"
#include "table/postponed.h"
#include "table/update.h"

struct tsx_savepoint {
  int number;
  tsr_mark mark; /* of the writer when the savepoint was opened */
};

struct tsx_created_table { /* a table that the transaction has created, which is written without xBegin */
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

/* Ends the transaction of an array. A prepared commit is removed with `abandon`; else it has been published, or stays
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
  if (t && !tsr_writer_changed(t->writer) && !t->sync.done && !t->sync.published) transaction_end(array, true);
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

/* Fails if the array has the table's schema no more: then another array has taken its place. The writer goes by the
 * array's latest schema, which may be newer than the table's. */
static int transaction_check_schema(const tsx_table *table, tsr_error *error) {
  const tsx_transaction *transaction = table->array->transaction;
  if (tsr_writer_schema(transaction->writer) == table->schema) return TSR_OK;
  return tsr_array_has_schema(table->array->core, table->schema, error);
}

/* Begins the one state that the transaction sees. One look at the array tells that state, and whether there is anything
 * to recover. */
static int freeze(tsx_table *table, tsr_error *error) {
  tsr_array *array = table->array->core;
  int code = tsr_array_freeze(array, true, error);
  if (code < 0 || table->array->in_database || !tsr_array_has_prepared(array)) return code;
  tsr_array_freeze(array, false, NULL);
  code = tsx_journal_recover(table, error);
  return code == TSR_OK ? tsr_array_freeze(array, true, error) : code;
}

static int transaction_begin(tsx_table *table, tsr_error *error) {
  tsx_array *array = table->array;
  if (!array->in_database) { /* the array may have been opened before tessera_restrict was called */
    int permitted = tsr_path_permitted(table->connection->environment, array->path, error);
    if (permitted < 0) return permitted;
  }
  tsx_transaction *transaction = sqlite3_malloc64(sizeof *transaction);
  if (!transaction) return tsx_out_of_memory(error);
  memset(transaction, 0, sizeof *transaction);
  transaction->array = array;
  transaction->references = 1;
  transaction->schema_name = sqlite3_mprintf("%s", table->schema_name);
  array->transaction = transaction;
  tsr_writer_options options = {.memory_bytes = table->options.limits.memory_bytes,
                                .threads = table->options.limits.threads};
  if (array->in_database) { /* whose files go back with a savepoint, while rows from before it stay */
    options.scratch = &tsx_scratch;
    options.scratch_argument = table->connection;
  }
  int code = transaction->schema_name ? TSR_OK : tsx_out_of_memory(error);
  if (code == TSR_OK) code = freeze(table, error);
  if (code == TSR_OK && !array->in_database) code = tsx_journal_options(table, transaction, &options, error);
  if (code == TSR_OK) code = tsr_writer_open(array->core, &options, &transaction->writer, error);
  if (code == TSR_OK) code = transaction_check_schema(table, error);
  if (code == TSR_OK)
    code = tsr_snapshot_open(array->core, tsr_writer_schema(transaction->writer), TSR_TIME_BEGIN, TSR_TIME_NOW,
                             &transaction->base, error);
  if (code < 0) transaction_end(array, true);
  return code;
}

/* Notes where a table that is written without xBegin began to write: SQLite does not tell when the table's CREATE is
 * taken back. */
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

/* Lets the writer prepare again where xSync has published within a transaction of the database that goes on: ROLLBACK
 * TO may have taken the publication back. */
static void reopen(tsx_transaction *transaction) {
  if (transaction->sync.published) tsr_writer_reopen(transaction->writer);
  transaction->sync.published = false;
}

/* A COMMIT that is tried again takes place now, because others may have committed and read the array since the first
 * try. So a commit that was prepared then, or published in the database, gets a new time. */
static void note_attempt(tsx_transaction *transaction, uint64_t attempt) {
  if (transaction->sync.done && transaction->sync.attempt != attempt) tsr_writer_reopen(transaction->writer);
  if (transaction->sync.attempt != attempt) transaction->sync.published = false;
  transaction->sync.attempt = attempt;
}

static int transaction_rewind_to(tsx_transaction *transaction, tsr_mark mark, tsr_error *error) {
  reopen(transaction);
  tsx_array_trim(transaction->array);
  tsx_snapshots_undo(transaction->array, transaction, mark);
  transaction->rewinds++;
  return tsr_writer_rewind(transaction->writer, mark, error);
}

/* Looks for tables whose CREATE was taken back, by their ids, and rewinds the writer to where they began to write: all
 * later changes were taken back with the CREATE. */
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
    if ((code = transaction_rewind_to(transaction, then, error)) < 0) return code;
  }
  return TSR_OK;
}

int tsx_transactions_check(tsx_connection *connection, tsr_error *error) {
  for (tsx_array *array = connection->arrays.list; array; array = array->next)
    if (array->transaction && array->transaction->created) {
      int code = drop_vanished(connection, array->transaction, error);
      if (code < 0) return code;
    }
  return TSR_OK;
}

int tsx_transaction_of(tsx_table *table, tsx_transaction **out, tsr_error *error) {
  if (table->options.times.has_as_of)
    return tsx_fail(error, TSR_READONLY, "%s is open as of an earlier time: it is read-only", table->path);
  int code = tsx_table_ready(table, error);
  if (code == TSR_OK) code = tsx_postponed_publish(table->connection, table->array, error);
  if (code < 0) return code;
  tsx_transaction *transaction = table->array->transaction;
  if (transaction && strcmp(transaction->schema_name, table->schema_name))
    return fail_database(table, transaction, error);
  if ((code = tsx_journal_find_id(table, error)) < 0) return code;
  if (!transaction && (code = transaction_begin(table, error)) < 0) return code;
  if (!table->commit.begun && (code = note_created(table, error)) < 0) return code;
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

int tsx_transaction_leave(tsx_table *table, tsr_error *error) {
  tsx_transaction *transaction = table->array ? table->array->transaction : NULL;
  if (!transaction) return TSR_OK;
  /* In the database the changes go with the array, unless a savepoint other than DROP's own may bring both back. */
  bool may_go = table->in_database && transaction->savepoints.count <= 1;
  if (tsr_writer_changed(transaction->writer) && !may_go)
    return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit or roll back first", table->path);
  transaction_end(table->array, true); /* the last call for this table; another table begins the transaction again */
  return TSR_OK;
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

int tsx_begin(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_transaction *transaction;
  tsr_error error = {0};
  const tsx_watch watch = tsx_watch_begin(table->connection->db, table->schema_name);
  table->commit.begun = true;
  int code = tsx_transactions_check(table->connection, &error);
  if (code == TSR_OK) code = tsx_transaction_of(table, &transaction, &error);
  if (code == TSR_OK && (code = tsx_watch_end(&watch, table->connection->db, table->schema_name, &error)) < 0)
    tsx_transaction_close(table->array); /* SQLite's rollback did not call this table, since xBegin has not returned */
  if (code == TSR_OK)
    code = transaction_check_schema(table, &error); /* a failure leaves a transaction alone that another table began */
  if (code == TSR_OK) return SQLITE_OK;
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
  if (!transaction) return SQLITE_OK;
  uint32_t count = transaction->savepoints.count;
  if (count && transaction->savepoints.list[count - 1].number >= number)
    return SQLITE_OK; /* it came through another table */
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
 * changes go. */
int tsx_rollback_to(sqlite3_vtab *vtab, int number) {
  tsx_transaction *transaction = transaction_of(vtab);
  tsr_error error = {0};
  if (!transaction) return SQLITE_OK;
  tsr_mark mark = {0};
  uint32_t keep = transaction->savepoints.count;
  while (keep && transaction->savepoints.list[keep - 1].number > number) keep--;
  if (keep && transaction->savepoints.list[keep - 1].number == number)
    mark = transaction->savepoints.list[keep - 1].mark;
  else keep = 0;
  transaction->savepoints.count = keep;
  return transaction_rewind_to(transaction, mark, &error) < 0 ? tsx_vtab_error(vtab, &error) : SQLITE_OK;
}

/* ---- Commit and rollback ----------------------------------------------------------------------------------------- */

static int sync_table(tsx_table *table, tsr_error *error) {
  tsx_array *array = table->array;
  tsx_transaction *transaction = array ? array->transaction : NULL;
  if (!transaction) return TSR_OK;
  int code = drop_vanished(table->connection, transaction, error);
  if (code < 0 || (array->making.creation && !array->making.table_exists))
    return code; /* the table's CREATE was taken back */
  note_attempt(transaction, table->commit.attempt);
  transaction->sync.done = true;
  transaction->sync.data_version = tsx_data_version(table);
  if (transaction->sync.published) return TSR_OK; /* by another table's xSync in the same COMMIT */
  if (!tsr_writer_changed(transaction->writer)) return tsr_writer_abandon(transaction->writer, error);
  if ((code = tsr_writer_prepare(transaction->writer, error)) < 0) return code;
  if (!array->in_database) return tsx_journal_write(table, error);
  code = tsr_writer_publish(transaction->writer, error);
  transaction->sync.published = code >= 0;
  return code;
}

int tsx_sync(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_connection *connection = table->connection;
  tsr_error error = {0};
  if (table->commit.attempt == connection->attempt)
    connection->attempt++; /* the last COMMIT failed after this table's xSync */
  table->commit.attempt = connection->attempt;
  tsx_store_rest(connection, true); /* names of tables may have changed, since a rename may have been rolled back */
  int code = tsx_creation_sync(vtab);
  if (code != SQLITE_OK) return code;
  return sync_table(table, &error) < 0 ? tsx_vtab_error(vtab, &error) : SQLITE_OK;
}

/* SQLite ignores what xCommit returns. A commit that cannot be published now and that the record names is published by
 * the next write or by tessera_recover, and readers of this database see it all the same. Other commits, and those into
 * an array that is not published either, stay with the connection, whose next statement publishes them. The cells are
 * published before a created array, so that the array appears with them. */
int tsx_commit(sqlite3_vtab *vtab) {
  tsx_table *table = (tsx_table *)vtab;
  tsx_array *array = table->array;
  table->commit.begun = false;
  table->connection->attempt++;
  tsx_update_end(table);
  if (array && array->transaction) {
    bool discard = array->making.creation && !array->making.table_exists;
    tsr_error error = {0};
    if (!discard && tsr_writer_changed(array->transaction->writer) &&
        tsr_writer_publish(array->transaction->writer, &error) < 0 && tsx_journal_unpublished(table, &error) &&
        (!array->transaction->owner.id || array->making.creation))
      tsx_postpone(table->connection, array, &error);
    transaction_end(array, discard);
    tsx_array_changed(array); /* a cursor that opens now sees the commit, although other cursors may still be open */
  }
  return tsx_creation_commit(vtab);
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
  int code = tsx_creation_rollback(vtab);
  table->connection->quiet = false;
  return code;
}
