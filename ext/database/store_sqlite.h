/* store_sqlite.h: arrays inside the database, as the core's store "db:".
 *
 * The store keeps the files of an array in the rows of two shadow tables. A tsx_tree is one such tree of files and
 * directories. store_tables.c has the shadow tables and the statements on them; store_sqlite.c implements the store's
 * files and directories on top of these, for trees in the database and for scratch trees. table/open_array.c registers
 * the store. */
#ifndef TSX_DATABASE_STORE_SQLITE_H
#define TSX_DATABASE_STORE_SQLITE_H

#include "connection/sqlite_api.h"
#include "tessera_host.h"
#include "connection/connection.h"

/* ---- store_sqlite.c: the store, and scratch trees ---------------------------------------------------------------- */

/* Adds the store "db:" to the connection's environment. */
int tsx_store_register(tsx_connection *connection, tsr_error *error);

/* Returns true if the path leads into the database. */
bool tsx_store_is(const char *path);

/* Returns the path of a table's tree, db:SCHEMA.NAME, quoted if necessary; from sqlite3_malloc, NULL if memory is
 * lacking. */
char *tsx_store_path(const char *schema, const char *name);

/* The store for cells of an array in the database that do not fit into memory: scratch trees, which are outside of the
 * transaction. Its argument is the connection. */
extern const tsr_host_store tsx_scratch;

#define TSX_TREE_ROOT      1 /* id of the root */
#define TSX_TREE_FILES_MAX ((sqlite3_int64)1 << 31) /* ids are below this */

/* The statements on a tree, with their parameters in parentheses. */
typedef enum tsx_tree_statement {
  TSX_TREE_FIND, /* the entry with a name in a directory (parent, name) */
  TSX_TREE_GET, /* the entry with an id, and its name (id) */
  TSX_TREE_LIST, /* names and kinds of a directory's entries (parent) */
  TSX_TREE_ADD, /* adds an entry (parent, name, size, modified, stamp) */
  TSX_TREE_TOUCH, /* sets stamp and time (id, stamp, modified) */
  TSX_TREE_RESIZE, /* sets size and time (id, size, modified) */
  TSX_TREE_MOVE, /* moves an entry (id, parent, name) */
  TSX_TREE_REMOVE, /* removes an entry (id) */
  TSX_TREE_PUT, /* writes a chunk (id, bytes) */
  TSX_TREE_CUT, /* deletes chunks (first id, end) */
  TSX_TREE_MEASURE, /* the length of a chunk (id) */
  TSX_TREE_STATEMENTS
} tsx_tree_statement;

struct tsx_tree {
  tsx_tree *next; /* in the connection's list */
  tsx_connection *connection;
  sqlite3 *db; /* the connection's; a scratch tree has its own */
  bool scratch; /* a scratch tree: not in the connection's list */
  char *schema, *name; /* of the virtual table; owned */
  char identity[TSX_ID_SIZE]; /* the root's name; "" while it is unknown */
  bool known; /* the shadow tables have been checked, and `statements` use their present names */
  sqlite3_stmt *statements[TSX_TREE_STATEMENTS]; /* prepared on first use */
  sqlite3_blob *blob; /* open on a chunk, or NULL */
  /* How many SQLite calls on a statement or the blob of this tree are running. If such a call fails for lack of memory
   * or space, or on a disk error, SQLite rolls back the transaction within the call, and the rollback calls
   * tsx_store_release. */
  unsigned busy;
  bool stale; /* forget statements and names as soon as no call is running */
  /* The directory of the root on the way to the last path, such as __fragments, so that the next path below it is found
   * from there. It counts while `blob` is open, which keeps the read transaction, and the connection's
   * database_arrays.epoch is the same. */
  struct {
    char name[24]; /* "": none */
    sqlite3_int64 id;
    uint64_t epoch;
  } way;
  tsr_error failure; /* of a file whose last bytes could not be written at its close; code 0: none */
};

typedef struct tsx_entry { /* a row of NAME_files */
  sqlite3_int64 id;
  bool directory;
  uint64_t size, modified;
  uint64_t stamp; /* of a file: set when it is made, never changed; id and stamp identify one file for ever */
} tsx_entry;

/* ---- store_tables.c: the shadow tables, and the statements on them ----------------------------------------------- */
/* store_sqlite.c uses the functions of a tree (tsx_tree_*); the functions of the store (tsx_store_*) are for tables and
 * transactions. Functions return TSR_OK or a negative TSR code unless their comment says otherwise. */

typedef struct tsx_entry tsx_entry;

/* Takes the write lock of the database in a path; waits for it as long as the host's busy handler allows. Fails only if
 * the lock cannot be taken. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error);

/* Makes the shadow tables of an array, with an empty root. */
int tsx_store_create(sqlite3 *db, const char *schema, const char *name, tsr_error *error);

/* Returns the identity of an array, "db:SCHEMA#" and its root's name, which survives a rename of the table; from
 * sqlite3_malloc. TSR_NOT_FOUND if there is no array. */
int tsx_store_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error);

/* Closes the blobs of all trees, which ends the read transaction that they hold open. With `all`, also forgets the
 * trees' statements and the names of their tables: tables have been renamed, or the connection has no more tables. */
void tsx_store_release(tsx_connection *connection, bool all);

/* Between these calls blobs stay open, as while a statement runs: many files are found and read, from one state of the
 * database. */
void tsx_store_pin(tsx_connection *connection);
void tsx_store_unpin(tsx_connection *connection);

/* After a rollback: tsx_store_release with `all`; also forgets failures to write files, which are rolled back, too. */
void tsx_store_rolled_back(tsx_connection *connection);

/* Open and close a tree: callbacks of the core's store. The array need not exist. */
int tsx_tree_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_tree_close(void *tree);

/* Sets the error for a SQLite code, and returns the core's code. */
int tsx_tree_fail(const tsx_tree *tree, int code, tsr_error *error);

/* Fails with TSR_NOT_FOUND, for a file. */
int tsx_tree_missing(tsr_error *error);

/* Checks the shadow tables, and finds them again if they were renamed. Returns 1; 0 if the tables do not exist or hold
 * another array than before, and while a rollback is running (tsx_connection.quiet). */
int tsx_tree_look(tsx_tree *tree, tsr_error *error);

/* Gives a statement, reset, with its first parameter bound. The caller then calls tsx_tree_change or tsx_tree_take, or
 * steps it and then calls tsx_tree_done. tsx_tree_step returns SQLite's code. */
int tsx_tree_prepare(tsx_tree *tree, tsx_tree_statement one, sqlite3_int64 first, sqlite3_stmt **statement,
                     tsr_error *error);
int tsx_tree_step(tsx_tree *tree, sqlite3_stmt *statement);
void tsx_tree_done(tsx_tree *tree, sqlite3_stmt *statement);

/* Runs a statement that changes rows, and preserves the application's last_insert_rowid(). For an INSERT, *added
 * receives the rowid, and a conflict with an existing row is TSR_EXISTS. Pass NULL for other statements. */
int tsx_tree_change(tsx_tree *tree, sqlite3_stmt *statement, sqlite3_int64 *added, tsr_error *error);

/* Returns 1 if the tree's tables still hold its array, 0 if no tables do. Other connections may have renamed them, or
 * made others of the same name, since tsx_tree_look found them: then finds them again. */
int tsx_tree_root(tsx_tree *tree, tsr_error *error);

/* Runs TSX_TREE_FIND or TSX_TREE_GET. Returns 1 and the row, or 0 if there is none. TSR_CORRUPT for a row that no tree
 * can have. */
int tsx_tree_take(tsx_tree *tree, sqlite3_stmt *statement, tsx_entry *found, tsr_error *error);

uint64_t tsx_tree_now(void); /* milliseconds since 1970 */
sqlite3_int64 tsx_tree_stamp(void); /* a new random stamp, not 0 */
int tsx_tree_room(const tsx_tree *tree, uint64_t *bytes, tsr_error *error); /* the size of the database */

/* Opens the blob on a row of NAME_chunks, or moves it there. TSR_CORRUPT if there is no such row, TSR_NOT_FOUND if
 * there is no such table. From then on this connection sees the tables unchanged, except for its own changes, until the
 * blob is closed. */
int tsx_tree_open_chunk(tsx_tree *tree, sqlite3_int64 row, tsr_error *error);

/* Reads `size` bytes at `offset` of the row at which tsx_tree_open_chunk has opened the blob. TSR_CORRUPT unless it has
 * `length` bytes. */
int tsx_tree_read(tsx_tree *tree, sqlite3_int64 row, uint64_t length, uint64_t offset, void *buffer, uint64_t size,
                  tsr_error *error);

/* Closes the blob, which ends the read transaction that it holds open. */
void tsx_tree_close_blob(tsx_tree *tree);

/* Closes the blob, finalizes the tree's statements, and forgets the names of its tables. */
void tsx_tree_forget(tsx_tree *tree);

#endif
