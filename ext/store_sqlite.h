/* store_sqlite.h: between store_tables.c, which knows the shadow tables of an array in the database and the statements
 * on them, and store_sqlite.c, which makes a tree of files of their rows.
 */
#ifndef TSX_STORE_SQLITE_H
#define TSX_STORE_SQLITE_H

#include "table.h"

#define TSX_TREE_ROOT       1
#define TSX_TREE_FILES_MOST ((sqlite3_int64)1 << 31)

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

int tsx_tree_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_tree_close(void *tree);

/* ---- Errors ---- */
int tsx_tree_fail(const tsx_tree *tree, int code, tsr_error *error); /* of SQLite's code */
int tsx_tree_missing(tsr_error *error); /* there is no such file */

/* ---- Statements ---- */
/* 1, or 0 where there are no such tables, or they hold another array than they did. */
int tsx_tree_look(tsx_tree *tree, tsr_error *error);
/* A statement, reset, with its first parameter; used until tsx_tree_done or one of the two that do all the rest. */
int tsx_tree_prepare(tsx_tree *tree, tsx_tree_statement one, sqlite3_int64 first, sqlite3_stmt **statement,
                     tsr_error *error);
int tsx_tree_step(tsx_tree *tree, sqlite3_stmt *statement);
void tsx_tree_done(tsx_tree *tree, sqlite3_stmt *statement);
/* Runs a statement that changes something; what the application sees as its last rowid stays. `added` is the rowid of
 * an INSERT, which may meet a row that is there already, or NULL. */
int tsx_tree_change(tsx_tree *tree, sqlite3_stmt *statement, sqlite3_int64 *added, tsr_error *error);
/* The row that TSX_TREE_FIND or TSX_TREE_GET finds: 1, or 0. */
int tsx_tree_take(tsx_tree *tree, sqlite3_stmt *statement, tsx_entry *found, tsr_error *error);

/* ---- Rows ---- */
uint64_t tsx_tree_now(void); /* milliseconds */
sqlite3_int64 tsx_tree_stamp(void); /* a new one */
int tsx_tree_room(const tsx_tree *tree, uint64_t *bytes, tsr_error *error); /* the database's size */
/* `size` bytes of a row of NAME_chunks, which must have `whole`. */
int tsx_tree_read(tsx_tree *tree, sqlite3_int64 row, uint64_t whole, uint64_t offset, void *buffer, uint64_t size,
                  tsr_error *error);
void tsx_tree_close_blob(tsx_tree *tree); /* and with it the read transaction */

#endif
