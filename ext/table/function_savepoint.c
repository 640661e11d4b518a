/* function_savepoint.c: the savepoint of an SQL function, which changes an array in the database entirely or not at
 * all.
 *
 * A SAVEPOINT outside of a transaction opens one, so the function's changes are committed or rolled back together.
 * Within an outer statement that writes, SQLite opens no savepoint; a function that fails there fails the outer
 * statement. Outside of a transaction, that undoes all changes. Within one, SQLite may keep what the function has done,
 * so the function rolls back the transaction.
 *
 * The function takes the write lock before its first read. A transaction that has read before cannot wait for other
 * writers: it fails with SQLITE_BUSY if one of them has committed meanwhile.
 *
 * An interrupt stops every statement that begins before the outermost one ends, even a ROLLBACK within the function. A
 * progress handler may do the same. But when SQLite stops a statement that writes, it rolls back the whole transaction,
 * and needs no further statement for that. So if no ROLLBACK can end a transaction, a statement that writes does:
 * either it is stopped, or the next ROLLBACK is not. All these statements are prepared at the beginning, because an
 * interrupt stops the parser as well.
 *
 * Once one allocation has failed, SQLite refuses all others of the connection until the outermost statement ends. Then
 * too a statement can end the transaction if it is prepared: it lacks memory, and SQLite rolls back. But CREATE VIRTUAL
 * TABLE, and every change of a schema in temp, make SQLite prepare all statements again, which it then cannot. A
 * statement that has begun to read is exempt: when it ends while memory is lacking, SQLite rolls back, too. So such a
 * statement stands by from before the CREATE until the others are prepared again (tsx_savepoint_stand_by,
 * tsx_savepoint_renew). It does not stay for longer, because SQLite drops no table while a statement reads.
 *
 * For the same reason the transaction may have ended when a statement of the function was stopped or lacked memory.
 * Whatever the function did next would commit on its own. So from then on the store refuses everything
 * (tsx_tree_prepare), and the function fails. */
#include "table/table_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "sql/statement.h"

#define SAVEPOINT_NAME "tessera_function_%llu"
#define TRIES          16 /* no handler alternates between stopping and passing statements for so long */
#define RESERVE        (32 << 10) /* bytes, freed when the savepoint ends: ending it must not lack memory */
#define STAND_BY       "SELECT (SELECT 1 FROM temp.sqlite_master)" /* one row; temp needs no lock */

/* Runs a prepared statement that returns no rows. Returns SQLite's code. */
static int run_statement(sqlite3_stmt *statement) {
  (void)sqlite3_step(statement);
  return sqlite3_reset(statement);
}

static void finalize_ends(sqlite3_stmt **ends) {
  for (int i = 0; i < TSX_ENDS; i++) {
    sqlite3_finalize(ends[i]);
    ends[i] = NULL;
  }
}

static void finalize(tsx_function_savepoint *s) {
  sqlite3_free(s->reserve);
  s->reserve = NULL;
  finalize_ends(s->ends);
}

/* Prepares the statements that end the savepoint. No two savepoints of a connection have the same name. */
static int prepare_ends(sqlite3 *db, const tsx_function_savepoint *s, sqlite3_stmt **ends) {
  const unsigned long long number = s->number;
  char *texts[TSX_ENDS] = {[TSX_END_KEEP] = sqlite3_mprintf(s->alone ? "COMMIT" : "RELEASE " SAVEPOINT_NAME, number),
                           [TSX_END_TAKE_BACK] =
                               sqlite3_mprintf(s->alone ? "ROLLBACK" : "ROLLBACK TO " SAVEPOINT_NAME, number),
                           [TSX_END_ROLLBACK] = sqlite3_mprintf("ROLLBACK"),
                           /* writes, takes the locks of all databases, and then fails within a transaction */
                           [TSX_END_WRITE] = sqlite3_mprintf("BEGIN IMMEDIATE")};
  int code = SQLITE_OK;
  for (int i = 0; i < TSX_ENDS; i++)
    if (code == SQLITE_OK) code = tsx_sql_prepare(db, texts[i], &ends[i]);
    else sqlite3_free(texts[i]);
  return code;
}

/* Writes something so that a pending interrupt rolls back the transaction. Opening a blob needs no prepared statement:
 * those have expired if the function has made a table in temp. */
static void write_something(sqlite3 *db, const tsx_function_savepoint *s) {
  sqlite3_blob *blob = NULL;
  (void)run_statement(s->ends[TSX_END_WRITE]);
  if (sqlite3_get_autocommit(db)) return;
  (void)sqlite3_blob_open(db, "temp", "sqlite_temp_master", "sql", 1, 1, &blob);
  sqlite3_blob_close(blob);
}

/* Rolls back the transaction. Each round tries one more write than the round before, so that a handler which stops,
 * say, every second statement does not always stop the same ones. */
static void roll_back(sqlite3 *db, const tsx_function_savepoint *s) {
  for (int i = 0; i < TRIES && !sqlite3_get_autocommit(db); i++) {
    (void)run_statement(s->ends[TSX_END_ROLLBACK]);
    for (int k = 0; k <= i && !sqlite3_get_autocommit(db); k++) write_something(db, s);
  }
}

/* Prepares the end of the savepoint, and opens it: a savepoint, or with `everywhere` a transaction with the locks of
 * all databases. */
static int open_savepoint(tsx_connection *connection, bool everywhere, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint s = {.open = true,
                              .guarded = true,
                              .alone = sqlite3_get_autocommit(db),
                              .number = ++connection->savepoint_count,
                              .changes = sqlite3_total_changes64(db)};
  sqlite3_stmt *begin = NULL;
  s.reserve = sqlite3_malloc(RESERVE);
  int code = s.reserve ? prepare_ends(db, &s, s.ends) : SQLITE_NOMEM;
  if (code == SQLITE_OK)
    code = tsx_sql_prepare(db,
                           everywhere ? sqlite3_mprintf("BEGIN IMMEDIATE")
                                      : sqlite3_mprintf("SAVEPOINT " SAVEPOINT_NAME, connection->savepoint_count),
                           &begin);
  if (code == SQLITE_OK) code = run_statement(begin);
  if (code == SQLITE_BUSY && !everywhere) { /* the outer statement writes */
    s.guarded = false;
    code = SQLITE_OK;
  }
  if (code == SQLITE_OK) {
    connection->savepoint = s;
  } else {
    code = tsx_fail(error, tsx_core_code(code), "%s", code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db));
    if (s.alone) roll_back(db, &s); /* it may have been stopped after it began the transaction */
    else if (begin) (void)run_statement(s.ends[TSX_END_KEEP]);
    finalize(&s);
  }
  sqlite3_finalize(begin);
  return code;
}

/* Call it when a function ends: what it has read of an array before it changed it is no state for later statements. In
 * the host's transaction nothing tells that ROLLBACK, or ROLLBACK TO, undoes the change. */
static void function_has_changed(tsx_connection *connection) {
  const bool in_transaction = !sqlite3_get_autocommit(connection->db) && !connection->savepoint.alone;
  for (tsx_array *array = connection->arrays.list; array; array = array->next) {
    if (!array->changing) continue;
    array->changing = false;
    array->revocable |= in_transaction && array->in_database;
    tsx_array_changed(array);
  }
}

int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error) {
  const int published = tsx_deferred_publish_path(connection, path, error);
  if (published < 0) return published;
  tsx_path_changed(connection, path);
  if (!tsx_store_is(path) || connection->savepoint.open) return TSR_OK;
  tsx_store_release(connection, false); /* open statements of earlier reads would be that first read */
  TSX_TRY(open_savepoint(connection, false, error));
  return tsx_store_lock(connection, path, error);
}

int tsx_savepoint_begin_rows(tsx_connection *connection, tsr_error *error) {
  if (connection->savepoint.open) return TSR_OK;
  tsx_store_release(connection, false);
  return open_savepoint(connection, false, error);
}

int tsx_savepoint_begin_everywhere(tsx_connection *connection, tsr_error *error) {
  return open_savepoint(connection, true, error);
}

int tsx_savepoint_stand_by(tsx_connection *connection, tsr_error *error) {
  tsx_function_savepoint *s = &connection->savepoint;
  if (!s->open || s->stand_by) return TSR_OK;
  int code = sqlite3_prepare_v2(connection->db, STAND_BY, -1, &s->stand_by, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(s->stand_by);
  if (code == SQLITE_ROW) return TSR_OK;
  code = tsx_fail(error, tsx_core_code(code), "%s",
                  code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(connection->db));
  sqlite3_finalize(s->stand_by);
  s->stand_by = NULL;
  return code;
}

int tsx_savepoint_renew(tsx_connection *connection, int code, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint *s = &connection->savepoint;
  sqlite3_stmt *ends[TSX_ENDS] = {NULL};
  if (!s->stand_by) return code;
  const int result = prepare_ends(db, s, ends);
  if (result == SQLITE_OK) {
    finalize_ends(s->ends);
    memcpy(s->ends, ends, sizeof ends);
  } else {
    finalize_ends(ends);
    if (code >= 0)
      code =
          tsx_fail(error, tsx_core_code(result), "%s", result == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db));
  }
  sqlite3_finalize(s->stand_by); /* rolls back if memory is lacking */
  s->stand_by = NULL;
  return code;
}

/* Returns SQLite's code. A statement that is stopped at its last step has done its work, so a RELEASE is repeated, and
 * then finds no savepoint. A COMMIT that was stopped like this is reported as interrupted, like the outer statement,
 * which is stopped a moment later. */
static int keep_changes(const tsx_function_savepoint *s) {
  const int code = run_statement(s->ends[TSX_END_KEEP]);
  if (code != SQLITE_INTERRUPT || s->alone) return code;
  return run_statement(s->ends[TSX_END_KEEP]) == SQLITE_INTERRUPT ? SQLITE_INTERRUPT : SQLITE_OK;
}

/* Undoes what the function has changed within the host's transaction. Returns false if that fails. A savepoint that is
 * rolled back but not released does no harm. */
static bool take_back(const tsx_function_savepoint *s) {
  for (int i = 0; i < TRIES; i++) {
    if (run_statement(s->ends[TSX_END_TAKE_BACK]) != SQLITE_OK) continue;
    for (int k = 0; k < TRIES && run_statement(s->ends[TSX_END_KEEP]) != SQLITE_OK; k++) {}
    return true;
  }
  return false;
}

static void undo_changes(sqlite3 *db, const tsx_function_savepoint *s, tsr_error *error) {
  if (sqlite3_get_autocommit(db)) return; /* already rolled back, or the outer statement will undo the changes */
  if (!s->alone && (s->guarded ? take_back(s) : sqlite3_total_changes64(db) == s->changes)) return;
  roll_back(db, s);
  const size_t length = strlen(error->message);
  if (!s->alone)
    sqlite3_snprintf((int)(sizeof error->message - length), error->message + length,
                     " (the whole transaction was rolled back)");
}

int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint *s = &connection->savepoint;
  function_has_changed(connection);
  if (!s->open) return code;
  sqlite3_free(s->reserve);
  s->reserve = NULL;
  tsx_store_release(connection, false);
  if (code >= 0) code = tsx_connection_in_savepoint(connection, error);
  s->open = false;
  if (code >= 0 && s->guarded) {
    const int result = keep_changes(s);
    if (result != SQLITE_OK) code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(db));
  }
  if (code < 0) {
    undo_changes(db, s, error);
    tsx_store_rolled_back(connection);
  }
  finalize(s);
  tsx_leftovers_drop(connection);
  return code;
}

tsx_function_savepoint tsx_savepoint_leave(tsx_connection *connection) {
  const tsx_function_savepoint savepoint = connection->savepoint;
  connection->savepoint = (tsx_function_savepoint){0};
  return savepoint;
}

void tsx_savepoint_return(tsx_connection *connection, const tsx_function_savepoint *savepoint) {
  connection->savepoint = *savepoint;
}
