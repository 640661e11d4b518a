/* store_scratch.c: trees of files outside of the transaction, for cells that memory has no room for.
 *
 * A transaction on an array in the database may hold more cells than memory_mb has room for. They cannot go to the database
 * itself: ROLLBACK TO would take the files back, and not the cells from before the savepoint. So they go to a temporary
 * database of SQLite's, which a connection of its own has open. SQLite makes its file with the VFS of the host's
 * connection, where it puts its own temporary files, and deletes it when the connection is closed or the process dies.
 *
 * The temporary database has the tables of an array called "scratch", so the store's methods are those of all trees.
 */
#include "database/store_scratch.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "database/store_sqlite.h"
#include "database/store_tables.h"

#define SCRATCH_SCHEMA "main"
#define SCRATCH_NAME   "scratch"
#define OPENED         (SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE)

/* Nothing in it is ever read again after a failure, so it needs no journal. SQLite keeps 256 KiB of its pages in memory. */
static const char settings[] = "PRAGMA journal_mode = OFF; PRAGMA cache_size = -256";

static int open_temporary(tsx_tree *tree, tsr_error *error) {
  sqlite3_vfs *vfs = NULL;
  if (sqlite3_file_control(tree->connection->db, "main", SQLITE_FCNTL_VFS_POINTER, &vfs) != SQLITE_OK) vfs = NULL;
  int code = sqlite3_open_v2("", &tree->db, OPENED, vfs ? vfs->zName : NULL);
  if (code == SQLITE_OK) code = sqlite3_exec(tree->db, settings, NULL, NULL, NULL);
  if (code == SQLITE_OK) return tsx_store_create(tree->db, SCRATCH_SCHEMA, SCRATCH_NAME, error);
  if (!tree->db) return tsx_out_of_memory(error);
  return tsx_tree_fail(tree, code, error);
}

int tsx_scratch_open(void *connection, const char *path, void **out, tsr_error *error) {
  (void)path;
  tsx_tree *tree = sqlite3_malloc64(sizeof *tree);
  if (!tree) return tsx_out_of_memory(error);
  memset(tree, 0, sizeof *tree);
  tree->connection = connection;
  tree->scratch = true;
  tree->schema = sqlite3_mprintf("%s", SCRATCH_SCHEMA);
  tree->name = sqlite3_mprintf("%s", SCRATCH_NAME);
  int code = tree->schema && tree->name ? open_temporary(tree, error) : tsx_out_of_memory(error);
  if (code < 0) tsx_scratch_close(tree);
  else *out = tree;
  return code;
}

void tsx_scratch_close(void *it) {
  tsx_tree *tree = it;
  tsx_tree_forget(tree);
  sqlite3_close(tree->db);
  sqlite3_free(tree->schema);
  sqlite3_free(tree->name);
  sqlite3_free(tree);
}
