/* store_sqlite.h: arrays inside the database. The core's store "db:", a tree of files (tsx_tree), keeps its files in
 * the rows of two shadow tables. table/open_array.c registers the store; store_sqlite.c implements its files and
 * directories on top of the statements of store_tables.c. */
#ifndef TSX_DATABASE_STORE_SQLITE_H
#define TSX_DATABASE_STORE_SQLITE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"

typedef struct tsx_tree tsx_tree;

/* Adds the store "db:" to the connection's environment. */
int tsx_store_register(tsx_connection *connection, tsr_error *error);

/* Returns true if the path leads into the database. */
bool tsx_store_is(const char *path);

/* Returns the path of a table's tree, db:SCHEMA.NAME, quoted where necessary; sqlite3_malloc'ed, NULL without
 * memory. */
char *tsx_store_path(const char *schema, const char *name);

/* The store for cells of an array in the database that memory has no room for. Its argument is the connection. */
extern const tsr_host_store tsx_scratch;

#define TSX_TREE_ROOT      1 /* id of the root */
#define TSX_TREE_FILES_MAX ((sqlite3_int64)1 << 31) /* ids are below this */

/* The statements of a tree; their parameters in brackets. */
typedef enum tsx_tree_statement {
  TSX_TREE_FIND, /* the entry of a directory with a name (parent, name) */
  TSX_TREE_GET, /* the entry with an id, and its name (id) */
  TSX_TREE_LIST, /* names and kinds of a directory's entries (parent) */
  TSX_TREE_ADD, /* adds an entry (parent, name, size, modified, stamp) */
  TSX_TREE_TOUCH, /* sets stamp and time (id, stamp, modified) */
  TSX_TREE_RESIZE, /* sets size and time (id, size, modified) */
  TSX_TREE_MOVE, /* gives an entry another place (id, parent, name) */
  TSX_TREE_REMOVE, /* removes an entry (id) */
  TSX_TREE_PUT, /* writes a chunk (id, bytes) */
  TSX_TREE_CUT, /* removes chunks (first id, end) */
  TSX_TREE_MEASURE, /* the length of a chunk (id) */
  TSX_TREE_STATEMENTS
} tsx_tree_statement;

struct tsx_tree {
  tsx_tree *next; /* in the connection's list */
  tsx_connection *connection;
  sqlite3 *db; /* the connection's; a scratch tree has one of its own */
  bool scratch; /* it is in no list */
  char *schema, *name; /* of the virtual table; owned */
  char identity[TSX_ID_SIZE]; /* the root's name, or "" while it is not known */
  bool known; /* the shadow tables have been checked, and `statements` are for their present names */
  sqlite3_stmt *statements[TSX_TREE_STATEMENTS]; /* prepared when they are first used */
  sqlite3_blob *blob; /* open on a chunk, or NULL */
  /* How many calls of SQLite on a statement or the blob of this tree are running. If such a call fails by a lack of
   * memory or room, or by the disk, SQLite rolls the transaction back within the call, and the rollback calls
   * tsx_store_rest. */
  unsigned busy;
  bool stale; /* statements and names must be forgotten as soon as no call is running */
  tsr_error failure; /* of a file whose last bytes could not be written when it was closed; code 0: none */
};

typedef struct tsx_entry { /* a row of NAME_files */
  sqlite3_int64 id;
  bool directory;
  uint64_t size, modified;
  uint64_t stamp; /* of a file: made with it and never changed, so with it the id names one file for ever */
} tsx_entry;

/* Trees of files outside of the transaction, for cells that memory has no room for. */

/* The shadow tables of an array inside the database, and the statements on them. store_sqlite.c uses
 * the functions of a tree (tsx_tree_*); the functions of the store (tsx_store_*) are for tables and transactions.
 * Functions return TSR_OK or a negative TSR code unless their comment says otherwise. */

typedef struct tsx_entry tsx_entry;
typedef struct tsx_tree tsx_tree;

/* Takes the write lock of the database that a path leads into, and waits for it as long as the host's busy handler
 * allows. Fails only if the lock cannot be taken. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error);

/* Makes the shadow tables of an array, with an empty root. */
int tsx_store_create(sqlite3 *db, const char *schema, const char *name, tsr_error *error);

/* Returns the identity of an array, "db:SCHEMA#" and the name of its root, which stays when its table is renamed;
 * sqlite3_malloc'ed. TSR_NOT_FOUND if there is no array. */
int tsx_store_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error);

/* Closes the blobs of all trees, and with them the read transaction they keep open. If `all`, also forgets their
 * statements and the names of their tables: tables have been renamed, or the connection has no more tables. */
void tsx_store_rest(tsx_connection *connection, bool all);

/* After a rollback: tsx_store_rest with `all`, and forgets failures to write files, which are rolled back, too. */
void tsx_store_rolled_back(tsx_connection *connection);

/* Opens and closes a tree: callbacks of the core's store. The array need not exist. */
int tsx_tree_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_tree_close(void *tree);

/* Sets the error of a SQLite code, and returns the core's code. */
int tsx_tree_fail(const tsx_tree *tree, int code, tsr_error *error);

/* Fails with TSR_NOT_FOUND, for a file. */
int tsx_tree_missing(tsr_error *error);

/* Checks the shadow tables, and finds them again if they were renamed. Returns 1; 0 if the tables do not exist or now
 * hold another array than before, and while a rollback is running (tsx_connection.quiet). */
int tsx_tree_look(tsx_tree *tree, tsr_error *error);

/* Returns a statement, reset, with its first parameter bound. After it the caller calls tsx_tree_change or
 * tsx_tree_take, or steps and then calls tsx_tree_done. tsx_tree_step returns SQLite's code. */
int tsx_tree_prepare(tsx_tree *tree, tsx_tree_statement one, sqlite3_int64 first, sqlite3_stmt **statement,
                     tsr_error *error);
int tsx_tree_step(tsx_tree *tree, sqlite3_stmt *statement);
void tsx_tree_done(tsx_tree *tree, sqlite3_stmt *statement);

/* Runs a statement that changes rows, and keeps the application's last_insert_rowid(). *added receives the rowid of an
 * INSERT; then a conflict with an existing row is TSR_EXISTS. NULL for other statements. */
int tsx_tree_change(tsx_tree *tree, sqlite3_stmt *statement, sqlite3_int64 *added, tsr_error *error);

/* Returns 1 if the tables of the tree still hold its array, 0 if there are none that do. Other connections may have
 * renamed them, or made others under their name, since tsx_tree_look has found them: then it finds them again. */
int tsx_tree_root(tsx_tree *tree, tsr_error *error);

/* Runs TSX_TREE_FIND or TSX_TREE_GET. Returns 1 and the row, or 0 if there is none. TSR_CORRUPT for a row that no tree
 * has. */
int tsx_tree_take(tsx_tree *tree, sqlite3_stmt *statement, tsx_entry *found, tsr_error *error);

uint64_t tsx_tree_now(void); /* milliseconds since 1970 */
sqlite3_int64 tsx_tree_stamp(void); /* a new random stamp, not 0 */
int tsx_tree_room(const tsx_tree *tree, uint64_t *bytes, tsr_error *error); /* the size of the database */

/* Turns to a row of NAME_chunks. TSR_CORRUPT if there is none, TSR_NOT_FOUND if there is no
 * such table. From then on the tables stay as they are for this
 * connection, but for its own changes, until the blob is closed. */
int tsx_tree_turn(tsx_tree *tree, sqlite3_int64 row, tsr_error *error);

/* Reads `size` bytes at `offset` of the row that tsx_tree_turn has turned to. TSR_CORRUPT unless it has `length`
 * bytes. */
int tsx_tree_read(tsx_tree *tree, sqlite3_int64 row, uint64_t length, uint64_t offset, void *buffer, uint64_t size,
                  tsr_error *error);

/* Closes the blob, and with it the read transaction that it keeps open. */
void tsx_tree_close_blob(tsx_tree *tree);

/* Closes the blob and finalizes the statements of the tree. */
void tsx_tree_forget(tsx_tree *tree);

#endif
