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

/* The first two methods of tsx_scratch: the others are those of all trees. */
int tsx_scratch_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_scratch_close(void *tree);

#endif
