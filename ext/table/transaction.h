/* transaction.h: the changes that the open transaction makes to arrays, and the transaction methods of array tables. */
#ifndef TSX_TABLE_TRANSACTION_H
#define TSX_TABLE_TRANSACTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_table tsx_table;
typedef struct tsx_created_table tsx_created_table;

/* The changes that the open transaction makes to one array. They belong to the array, not to a table: one table may
 * have two sqlite3_vtab objects in a transaction, and several tables may show one array. */
typedef struct tsx_transaction_owner { /* who owns the transaction's commits (journal.c) */
  char *id, *file; /* the id of that database's file, and its path; or NULL */
  char place[TSX_ID_SIZE]; /* the place of that file if NAME_config has to get the owner at xSync, else "" */
  char table[TSX_ID_SIZE]; /* the id of the table that chose the owner, which keeps it */
} tsx_transaction_owner;

typedef struct tsx_savepoints {
  struct tsx_savepoint *list;
  uint32_t count, room;
} tsx_savepoints;

typedef struct tsx_transaction_sync { /* what xSync has done, and has found */
  bool done; /* xSync has run */
  uint64_t attempt; /* the connection's count of attempts when it ran last */
  bool published; /* only in the database: it has published, within SQLite's own transaction */
  bool alone; /* no other database file was written */
  unsigned data_version; /* of the database file */
} tsx_transaction_sync;

typedef struct tsx_transaction {
  tsx_array *array; /* NULL once the transaction has ended; snapshots may still refer to its writer */
  uint32_t references; /* of the array, of snapshots, of a running xUpdate */
  tsr_writer *writer; /* all changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, as it was when the transaction first wrote it */
  char *schema_name; /* the database whose tables write it */
  tsx_transaction_owner owner;
  tsx_savepoints savepoints;
  uint64_t rewinds; /* counts how often the writer was rewound */
  tsx_created_table *created; /* tables that this transaction has created */
  tsx_transaction_sync sync;
} tsx_transaction;

/* Returns the transaction of the table's array, and begins it if there is none. Borrowed until the transaction ends.
 * TSR_READONLY where the table has the option as_of. Fails where the array is missing, and where tables of another
 * database write the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);

/* Returns true if the open transaction has changed the array at this path. */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);

/* Takes the changes back that were made through tables whose CREATE a ROLLBACK TO has taken back. SQLite does not tell
 * of that, so call this before uncommitted changes are read or written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);

/* Call before the table is dropped: ends the transaction of its array. Fails if the transaction has changed the
 * array. */
int tsx_transaction_leave(tsx_table *table, tsr_error *error);

/* Call before the array is closed, and where it was not made after all: ends its transaction. A commit that xSync has
 * prepared stays for recovery. */
void tsx_transaction_close(tsx_array *array);

/* Ends the transaction of an array if it has no changes yet, and with it the state of the array that it keeps. Call it
 * before a function changes the array: the next row begins the transaction again, on the new state. */
void tsx_transaction_end_unchanged(tsx_array *array);

/* Gives a reference back. */
void tsx_transaction_drop(tsx_transaction *transaction);

/* SQLite's transaction at the beginning of a callback. Where a statement that a callback runs meets a lack of memory or
 * a failure of the disk, SQLite may roll the whole transaction back, even if the callback can do without the statement.
 * The callback must then fail, too: SQLite would go on as if the transaction were still open. */
typedef struct tsx_watch {
  bool open, writes; /* a transaction is open; it has written the database */
} tsx_watch;

tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);

/* Returns TSR_OK if the transaction is as it was at tsx_watch_begin, else the error of tsx_fail_rolled_back. */
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);

/* Sets the error: SQLite has rolled the transaction back. Returns TSR_NOMEM or TSR_IO. */
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);

/* The methods xBegin, xSync, xCommit, xRollback, xSavepoint, xRelease and xRollbackTo. */
int tsx_begin(sqlite3_vtab *vtab);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

/* Arrays in directories that a CREATE VIRTUAL TABLE makes. xCreate prepares the array, and everything that
 * can fail happens there. The commit of the transaction publishes the array in one step; a rollback removes it, so that
 * a CREATE that is rolled back leaves nothing. */

typedef struct tsx_table tsx_table;

/* Prepares the array that the table's options define, and opens it as table->array. An array in the database is created
 * at once: the database's transaction takes it back. `key` is 32 bytes or NULL. TSR_EXISTS where an array or another
 * file is in the way. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);

/* Removes the prepared array of a table, if it has one. Call it where xCreate fails, and for DROP in the same
 * transaction. */
void tsx_creation_fail(tsx_table *table);

/* Publishes an array that was prepared by a transaction which has committed, where the process died before it published
 * the array. `name` is the creation's name from NAME_config. Returns 1 if there was such an array, 0 if not, or an
 * error. */
int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error);

/* Closes the array's creation, if it has one, and removes the prepared array with `abandon`. */
void tsx_creation_close(tsx_array *array, bool abandon);

/* The parts of xSync, xCommit and xRollback that concern a prepared array; they do nothing for other tables. Return
 * SQLite's codes. */
int tsx_creation_sync(sqlite3_vtab *vtab);
int tsx_creation_commit(sqlite3_vtab *vtab);
int tsx_creation_rollback(sqlite3_vtab *vtab);

/* The savepoint within which an SQL function changes an array that lives in the database, so that the
 * function makes all of its changes or none. Arrays in directories need none: their commits are one step by
 * themselves. */

/* Call before a function changes the array or group at `path`. Calls tsx_path_changed; for a path in the database it
 * opens the savepoint and takes the database's write lock. With the path "db:", without a table, the first statement of
 * the function takes the write lock instead. Call tsx_savepoint_end afterwards, also where this fails. TSR_BUSY where
 * the lock cannot be had. */
int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error);

/* Begins a transaction that holds the write locks of all databases; there must be none yet. tsx_savepoint_end ends it,
 * too. */
int tsx_savepoint_begin_everywhere(tsx_connection *connection, tsr_error *error);

/* Keeps the changes where `code` is not an error, and takes them back where `code` is one. Returns `code`, or the error
 * of keeping them. Whatever interrupts it, no transaction stays open that the function has begun, and no change of a
 * function that has failed: if there is no other way, the host's whole transaction is rolled back, and the error says
 * so. Does nothing where no savepoint is open. */
int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error);

/* Puts the savepoint of the running function aside, while statements or callbacks of the host run: functions in them
 * have savepoints of their own. Put it back with tsx_savepoint_return. */
tsx_function_savepoint tsx_savepoint_leave(tsx_connection *connection);
void tsx_savepoint_return(tsx_connection *connection, const tsx_function_savepoint *savepoint);

#endif
