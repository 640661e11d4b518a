/* transaction.h: what the open transaction does to arrays. */
#ifndef TSX_TRANSACTION_H
#define TSX_TRANSACTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_table tsx_table;

/* What the open transaction does to an array. It belongs to the array, not to a table: one table may have two
 * sqlite3_vtab objects in a transaction, and several tables may show one array. */
typedef struct tsx_created_array tsx_created_array;

typedef struct tsx_transaction {
  tsx_array *array; /* NULL once it has ended: cursors may still read what it showed */
  uint32_t references;
  tsr_writer *writer; /* all that changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, as it was when the transaction first wrote it */
  char *schema_name; /* the database whose tables write it */
  char *owner, *owner_file; /* whose its commits are: the id of that database's file, and its path; or NULL */
  char owner_place
      [TSX_ID_SIZE]; /* "": the table that began it has this owner in its record already, or cannot keep it */
  char owner_table[TSX_ID_SIZE]; /* the id of that table */
  struct tsx_savepoint *savepoints;
  uint32_t savepoint_count, savepoint_room;
  uint64_t rewinds; /* counts ways back */
  tsx_created_array *created;
  bool synced; /* xSync has run, */
  uint64_t attempt; /* last in this attempt of the connection to commit */
  bool published; /* in the database: by xSync, in SQLite's own transaction */
  bool alone; /* no other database file was written then */
  unsigned data_version; /* of the database file, then */
} tsx_transaction;

/* The array's; begun if there is none. Borrowed until the transaction ends. Fails where the table is read-only (as_of)
 * or its array missing, and where tables of another database write the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);

/* Has the open transaction rows for the array at this path? */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);

/* Rows of tables whose CREATE has been taken back go: before anybody looks at what is written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);

/* The table is to be dropped: fails if the transaction has rows for its array. */
int tsx_transaction_leave(tsx_table *table, tsr_error *error);
void tsx_transaction_close(tsx_array *array); /* when the array is closed or was not made: what is not synced goes */

/* One that has no rows yet lets go of the state that it has pinned: a function is about to change the array, which the next
 * row, that begins it again, is to be written on. */
void tsx_transaction_rest(tsx_array *array);
void tsx_transaction_drop(tsx_transaction *transaction); /* a reference */
int tsx_begin(sqlite3_vtab *vtab);

/* SQLite's transaction as a callback found it. A statement of ours that runs out of memory, or meets a disk that fails,
 * is fatal to it, even where we can do without its answer; SQLite must not go on as if nothing had happened. */
typedef struct tsx_watch {
  bool open, writes;
} tsx_watch;

tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

#endif
