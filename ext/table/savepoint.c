/* savepoint.c: the savepoint within which an SQL function changes an array that lives in the database.
 *
 * A SAVEPOINT outside of a transaction opens one, so the function's changes commit or go back as one. Within an outer
 * statement that writes, SQLite opens no savepoint; a function that fails there fails the outer statement. Outside of a
 * transaction, that takes all changes back. Within one, SQLite may keep what the function has done, so the function
 * rolls the transaction back.
 *
 * The write lock comes before the first read. A transaction that has read before cannot wait for other writers: it
 * fails with SQLITE_BUSY where one of them has committed meanwhile.
 *
 * An interrupt stops each statement that begins before the outermost one ends, so also a ROLLBACK within the function.
 * A progress handler may do the same. But SQLite rolls the whole transaction back when it stops a statement that
 * writes, and needs no further statement for that. So a transaction that no ROLLBACK could end is ended by a statement
 * that writes: either it is stopped, or the next ROLLBACK is not. All these statements are prepared at the beginning,
 * because an interrupt stops the parser as well.
 *
 * For the same reason a statement of the function that was stopped, or that lacked memory, may have ended the
 * transaction. What the function did next would commit by itself. So the store refuses everything from then on
 * (tsx_tree_prepare), and the function fails.
 */
#include "table/savepoint.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "database/store_tables.h"
#include "table/open_array.h"
#include "table/postponed.h"

#define SAVEPOINT_NAME "tessera_function_%llu"
#define TRIES          16 /* no handler stops one statement and lets the next one pass for this long */
#define RESERVE        (32 << 10) /* bytes */

/* Runs a prepared statement that returns no rows. Returns SQLite's code. */
static int savepoint_run(sqlite3_stmt *statement) {
  (void)sqlite3_step(statement);
  return sqlite3_reset(statement);
}

static void savepoint_finalize(tsx_function_savepoint *s) {
  sqlite3_free(s->reserve);
  s->reserve = NULL;
  for (int i = 0; i < TSX_ENDS; i++) {
    sqlite3_finalize(s->ends[i]);
    s->ends[i] = NULL;
  }
}

/* Prepares a statement, and frees its text. */
static int savepoint_prepare(sqlite3 *db, char *sql, sqlite3_stmt **statement) {
  const int code = sql ? sqlite3_prepare_v2(db, sql, -1, statement, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  return code;
}

/* Prepares how the savepoint ends. No two savepoints of a connection have the same name. */
static int savepoint_prepare_ends(tsx_connection *connection, tsx_function_savepoint *s) {
  const unsigned long long number = connection->savepoint_count;
  char *texts[TSX_ENDS] = {[TSX_END_KEEP] = sqlite3_mprintf(s->alone ? "COMMIT" : "RELEASE " SAVEPOINT_NAME, number),
                           [TSX_END_TAKE_BACK] =
                               sqlite3_mprintf(s->alone ? "ROLLBACK" : "ROLLBACK TO " SAVEPOINT_NAME, number),
                           [TSX_END_ROLLBACK] = sqlite3_mprintf("ROLLBACK"),
                           /* it writes, takes the locks of all databases, and then fails within a transaction */
                           [TSX_END_WRITE] = sqlite3_mprintf("BEGIN IMMEDIATE")};
  int code = SQLITE_OK;
  for (int i = 0; i < TSX_ENDS; i++)
    if (code == SQLITE_OK) code = savepoint_prepare(connection->db, texts[i], &s->ends[i]);
    else sqlite3_free(texts[i]);
  return code;
}

/* Begins to write so that an interrupt which is pending rolls the transaction back. Opening a blob needs no prepared
 * statement: those have expired if the function has made a table in temp. */
static void savepoint_write(sqlite3 *db, const tsx_function_savepoint *s) {
  sqlite3_blob *blob = NULL;
  (void)savepoint_run(s->ends[TSX_END_WRITE]);
  if (sqlite3_get_autocommit(db)) return;
  (void)sqlite3_blob_open(db, "temp", "sqlite_temp_master", "sql", 1, 1, &blob);
  sqlite3_blob_close(blob);
}

/* Rolls the transaction back. Each round tries to write once more than the round before, so that a handler which stops
 * statements in turns does not always stop the same ones. */
static void savepoint_roll_back(sqlite3 *db, const tsx_function_savepoint *s) {
  for (int i = 0; i < TRIES && !sqlite3_get_autocommit(db); i++) {
    (void)savepoint_run(s->ends[TSX_END_ROLLBACK]);
    for (int k = 0; k <= i && !sqlite3_get_autocommit(db); k++) savepoint_write(db, s);
  }
}

/* Prepares how the savepoint will end, and opens it: a savepoint, or a transaction with the locks of all databases. */
static int savepoint_open(tsx_connection *connection, bool everywhere, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint s = {
      .open = true, .guarded = true, .alone = sqlite3_get_autocommit(db), .changes = sqlite3_total_changes64(db)};
  sqlite3_stmt *begin = NULL;
  connection->savepoint_count++;
  s.reserve = sqlite3_malloc(RESERVE);
  int code = s.reserve ? savepoint_prepare_ends(connection, &s) : SQLITE_NOMEM;
  if (code == SQLITE_OK)
    code = savepoint_prepare(db,
                             everywhere ? sqlite3_mprintf("BEGIN IMMEDIATE")
                                        : sqlite3_mprintf("SAVEPOINT " SAVEPOINT_NAME, connection->savepoint_count),
                             &begin);
  if (code == SQLITE_OK) code = savepoint_run(begin);
  if (code == SQLITE_BUSY && !everywhere) { /* the outer statement writes */
    s.guarded = false;
    code = SQLITE_OK;
  }
  if (code == SQLITE_OK) {
    connection->savepoint = s;
  } else {
    code = tsx_fail(error, tsx_core_code(code), "%s", code == SQLITE_NOMEM ? "out of memory" : sqlite3_errmsg(db));
    if (s.alone) savepoint_roll_back(db, &s); /* it may have been stopped when it had begun the transaction */
    else if (begin) (void)savepoint_run(s.ends[TSX_END_KEEP]);
    savepoint_finalize(&s);
  }
  sqlite3_finalize(begin);
  return code;
}

int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error) {
  const int published = tsx_postponed_publish_path(connection, path, error);
  if (published < 0) return published;
  tsx_path_changed(connection, path);
  if (!tsx_store_is(path) || connection->savepoint.open) return TSR_OK;
  tsx_store_rest(connection, false); /* statements of earlier reads are still open, and would be that first read */
  const int code = savepoint_open(connection, false, error);
  return code < 0 ? code : tsx_store_lock(connection, path, error);
}

int tsx_savepoint_begin_everywhere(tsx_connection *connection, tsr_error *error) {
  return savepoint_open(connection, true, error);
}

/* Returns SQLite's code. A statement that is stopped at its last step has done its work; so a RELEASE is repeated, and
 * then finds no savepoint. A COMMIT that was stopped so is reported as interrupted, like the outer statement that is
 * stopped a moment later. */
static int savepoint_keep(const tsx_function_savepoint *s) {
  const int code = savepoint_run(s->ends[TSX_END_KEEP]);
  if (code != SQLITE_INTERRUPT || s->alone) return code;
  return savepoint_run(s->ends[TSX_END_KEEP]) == SQLITE_INTERRUPT ? SQLITE_INTERRUPT : SQLITE_OK;
}

/* Takes back what the function has changed within the host's transaction. Returns false where that does not succeed. A
 * savepoint that is rolled back and not released is without effect. */
static bool savepoint_take_back(const tsx_function_savepoint *s) {
  for (int i = 0; i < TRIES; i++) {
    if (savepoint_run(s->ends[TSX_END_TAKE_BACK]) != SQLITE_OK) continue;
    for (int k = 0; k < TRIES && savepoint_run(s->ends[TSX_END_KEEP]) != SQLITE_OK; k++) {}
    return true;
  }
  return false;
}

static void savepoint_undo(sqlite3 *db, const tsx_function_savepoint *s, tsr_error *error) {
  if (sqlite3_get_autocommit(db)) return; /* it was rolled back, or the outer statement takes the changes back */
  if (!s->alone && (s->guarded ? savepoint_take_back(s) : sqlite3_total_changes64(db) == s->changes)) return;
  savepoint_roll_back(db, s);
  const size_t length = strlen(error->message);
  if (!s->alone)
    sqlite3_snprintf((int)(sizeof error->message - length), error->message + length,
                     " (the whole transaction was rolled back)");
}

int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error) {
  sqlite3 *db = connection->db;
  tsx_function_savepoint *s = &connection->savepoint;
  if (!s->open) return code;
  sqlite3_free(s->reserve);
  s->reserve = NULL;
  tsx_store_rest(connection, false);
  if (code >= 0) code = tsx_connection_in_savepoint(connection, error);
  s->open = false;
  if (code >= 0 && s->guarded) {
    const int result = savepoint_keep(s);
    if (result != SQLITE_OK) code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(db));
  }
  if (code < 0) {
    savepoint_undo(db, s, error);
    tsx_store_rolled_back(connection);
  }
  savepoint_finalize(s);
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
