/* store_tables.h: the shadow tables of an array inside the database, and the statements on them. */
#ifndef TSX_STORE_TABLES_H
#define TSX_STORE_TABLES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "database/store_sqlite.h"

typedef struct tsx_entry tsx_entry;
typedef struct tsx_tree tsx_tree;

/* The write lock of the database that a path leads into, waiting for it as long as the host wants: only the failure to
 * get it is one. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error);

/* Makes the shadow tables of an array, empty. */
int tsx_store_create(tsx_connection *connection, const char *schema, const char *name, tsr_error *error);

/* What an array is known by, whatever its table's name; sqlite3_malloc'ed. TSR_NOT_FOUND where there is none. */
int tsx_store_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error);

/* Lets go of the read transaction; if `all`, of statements and names too: tables have been renamed, or all are gone. */
void tsx_store_rest(tsx_connection *connection, bool all);
void tsx_store_rolled_back(tsx_connection *connection); /* the same, and what failed in them is over */
int tsx_tree_open(void *connection, const char *path, void **tree, tsr_error *error);
void tsx_tree_close(void *tree);
int tsx_tree_fail(const tsx_tree *tree, int code, tsr_error *error); /* of SQLite's code */
int tsx_tree_missing(tsr_error *error); /* there is no such file */

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
uint64_t tsx_tree_now(void); /* milliseconds */
sqlite3_int64 tsx_tree_stamp(void); /* a new one */
int tsx_tree_room(const tsx_tree *tree, uint64_t *bytes, tsr_error *error); /* the database's size */

/* `size` bytes of a row of NAME_chunks, which must have `whole`. */
int tsx_tree_read(tsx_tree *tree, sqlite3_int64 row, uint64_t whole, uint64_t offset, void *buffer, uint64_t size,
                  tsr_error *error);
void tsx_tree_close_blob(tsx_tree *tree); /* and with it the read transaction */

#endif
