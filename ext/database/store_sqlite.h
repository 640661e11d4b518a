/* store_sqlite.h: arrays inside the database: a tree of files in two shadow tables, as the core's store "db:". */
#ifndef TSX_STORE_SQLITE_H
#define TSX_STORE_SQLITE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"

typedef struct tsx_tree tsx_tree;
int tsx_store_register(tsx_connection *connection, tsr_error *error);
bool tsx_store_is(const char *path); /* does it lead into the database? */
char *tsx_store_path(const char *schema, const char *name); /* db:SCHEMA.NAME; sqlite3_malloc'ed */
#define TSX_TREE_ROOT      1
#define TSX_TREE_FILES_MAX ((sqlite3_int64)1 << 31)

typedef enum tsx_tree_statement {
  TSX_TREE_FIND, /* the entry of a directory with a name */
  TSX_TREE_GET, /* the entry with an id */
  TSX_TREE_LIST, /* names of a directory's entries, and whether they are directories */
  TSX_TREE_ADD, /* parent, name, size, modified, stamp */
  TSX_TREE_TOUCH, /* id, stamp, modified */
  TSX_TREE_RESIZE, /* id, size, modified */
  TSX_TREE_MOVE, /* id, parent, name */
  TSX_TREE_REMOVE, /* id */
  TSX_TREE_PUT, /* id and bytes of a piece */
  TSX_TREE_CUT, /* pieces from an id to another */
  TSX_TREE_MEASURE, /* the bytes that a piece has */
  TSX_TREE_STATEMENTS
} tsx_tree_statement;

struct tsx_tree {
  tsx_tree *next; /* the connection's */
  tsx_connection *connection;
  char *schema, *name; /* of the virtual table */
  char identity[TSX_ID_SIZE]; /* the root's name, once it is known */
  bool known; /* its shadow tables have been looked at */
  sqlite3_stmt *statements[TSX_TREE_STATEMENTS];
  sqlite3_blob *blob;
  /* SQLite is at work for one of these: what fails in it for want of memory or room, or by the disk, rolls the
   * transaction back there and then, and that comes to tsx_store_rest. */
  unsigned busy;
  bool stale; /* forget them when it has returned */
  tsr_error failure; /* of a file that could not be finished when it was closed */
};

typedef struct tsx_entry { /* a row of NAME_files */
  sqlite3_int64 id;
  bool directory;
  uint64_t size, modified, stamp;
} tsx_entry;

#endif
