/* savepoint.c: the savepoint within which a function changes an array of the database. */
#include "table/savepoint.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "database/store_tables.h"
#include "table/open_array.h"

/* An array in the database changes as one: a savepoint is a transaction where none is open. SQLite opens none while an
 * outer statement writes; then what fails is taken back with that one, if it fails. The write lock comes before the first
 * read: a transaction that has read does not wait for other writers, and fails where they have committed meanwhile. */
int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error) {
  tsx_path_changed(connection, path);
  if (!tsx_store_is(path) || connection->in_function) return TSR_OK;
  tsx_store_rest(connection, false); /* else what has been read up to here would be that first read */
  connection->function_alone = sqlite3_get_autocommit(connection->db);
  connection->in_function = sqlite3_exec(connection->db, "SAVEPOINT tessera_function", NULL, NULL, NULL) == SQLITE_OK;
  return tsx_store_lock(connection, path, error);
}

int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error) {
  sqlite3 *db = connection->db;
  if (!connection->in_function) return code;
  connection->in_function = false;
  tsx_store_rest(connection, false);
  if (code >= 0) {
    int result = sqlite3_exec(db, "RELEASE tessera_function", NULL, NULL, NULL);
    if (result == SQLITE_OK) return code;
    code = tsx_fail(error, tsx_core_code(result), "%s", sqlite3_errmsg(db));
  }
  sqlite3_exec(db, "ROLLBACK TO tessera_function; RELEASE tessera_function", NULL, NULL, NULL);
  /* Where readers are in the way of its commit, RELEASE leaves a transaction of its own open, and the host's next statements
   * would be within it. */
  if (connection->function_alone && !sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
  return code;
}
