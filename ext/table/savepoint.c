/* savepoint.c: the savepoint within which an SQL function changes an array that lives in the database.
 *
 * A SAVEPOINT outside of a transaction opens one, so the function's changes commit or go back as one. Within an outer
 * statement that writes, SQLite opens no savepoint; a function that fails there fails the outer statement, which takes
 * all changes back.
 *
 * The write lock comes before the first read. A transaction that has read before cannot wait for other writers: it
 * fails with SQLITE_BUSY where one of them has committed meanwhile.
 */
#include "table/savepoint.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "database/store_tables.h"
#include "table/open_array.h"
#include "table/postponed.h"

int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error) {
  const int published = tsx_postponed_publish_path(connection, path, error);
  if (published < 0) return published;
  tsx_path_changed(connection, path);
  if (!tsx_store_is(path) || connection->savepoint.open) return TSR_OK;
  tsx_store_rest(connection, false); /* statements of earlier reads are still open, and would be that first read */
  connection->savepoint.alone = sqlite3_get_autocommit(connection->db);
  connection->savepoint.open =
      sqlite3_exec(connection->db, "SAVEPOINT tessera_function", NULL, NULL, NULL) == SQLITE_OK;
  return tsx_store_lock(connection, path, error);
}

int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error) {
  sqlite3 *db = connection->db;
  if (!connection->savepoint.open) return code;
  connection->savepoint.open = false;
  tsx_store_rest(connection, false);
  if (code >= 0) {
    int result = sqlite3_exec(db, "RELEASE tessera_function", NULL, NULL, NULL);
    if (result == SQLITE_OK) return code;
    code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(db));
  }
  sqlite3_exec(db, "ROLLBACK TO tessera_function; RELEASE tessera_function", NULL, NULL, NULL);
  /* RELEASE fails to commit where readers are in the way, and leaves the transaction open that the SAVEPOINT began. The
   * host's next statements would be part of that transaction. */
  if (connection->savepoint.alone && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return code;
}
