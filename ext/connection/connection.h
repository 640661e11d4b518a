/* connection.h: what belongs to a connection rather than to one of its tables: the environment, the arrays that are
 * open (VACUUM and schema changes disconnect tables; decoded tiles should outlive that), and the state of each array
 * that a statement sees. */
#ifndef TSX_CONNECTION_H
#define TSX_CONNECTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_scan tsx_scan;
typedef struct tsx_table tsx_table;
typedef struct tsx_transaction tsx_transaction;
typedef struct tsx_tree tsx_tree;

#define TSX_ID_SIZE 33 /* 32 hex digits and NUL */

typedef struct tsx_snapshot { /* one state of an array, as a statement sees it */
  struct tsx_snapshot *next;
  const tsr_schema *schema; /* whose fields it shows */
  uint64_t since, as_of;
  uint64_t statement; /* that it was made for; 0: the connection has changed the array, nobody else takes it */
  tsr_snapshot *core;
  uint32_t cursors; /* that read it now */
  struct tsx_transaction *transaction; /* whose changes it shows, or NULL; a reference */
  tsr_mark mark; /* how far they had come ... */
  uint64_t rewinds; /* ... after so many ways back */
} tsx_snapshot;

typedef struct tsx_array { /* an array that this connection has open; shared by its tables */
  struct tsx_array *next;
  char *path;
  bool in_database; /* its commits are SQLite's own; `path` is its identity */
  bool has_key;
  uint8_t key[32];
  tsr_array *core;
  uint32_t tables; /* that use it */
  uint64_t used; /* the connection's clock when its last table let go of it */
  uint64_t statement; /* the statement that `snapshots` belong to */
  tsx_snapshot *snapshots;
  uint32_t snapshot_count;
  tsr_creation *creation; /* it is made by this transaction (creation.c), else NULL */
  char *creation_name; /* of this creation and no other: its schema's name, and a number by chance */
  char *creation_schema; /* the database that its table is in */
  bool wanted, synced; /* what xSync found, and that it has run */
  bool asked; /* for a moment: whether its table is still there */
  unsigned data_version; /* of the database file, then */
  bool held_back; /* the cells that it is to appear with could not be published */
  bool gone; /* was not made after all: nobody finds it any more */
  struct tsx_transaction *transaction; /* what the open one does to it, or NULL (transaction.c) */
} tsx_array;

typedef struct tsx_key { /* given by tessera_set_key */
  struct tsx_key *next;
  uint8_t key[32];
  char path[]; /* canonical */
} tsx_key;

typedef struct tsx_connection {
  sqlite3 *db;
  uint32_t references; /* modules and functions that point here */
  tsr_environment *environment;
  tsx_array *arrays;
  uint32_t tables; /* sqlite3_vtab objects: the statements of polls live as long as one does */
  uint32_t cursors; /* open now */
  bool tiles_kept; /* cursors at rest may keep tiles until the last one is closed */
  uint64_t statement; /* counts up when a cursor opens while none is open */
  uint64_t clock; /* counts arrays that were let go */
  uint64_t attempt; /* counts COMMITs and ROLLBACKs, those that failed too: transaction.c */
  sqlite3_stmt *polls[2]; /* see tsx_connection_cancelled */
  uint32_t questions; /* since the longer one was run, */
  uint64_t polled_bytes; /* when so many bytes were decoded */
  int utf16; /* the database's text encoding: -1 not asked yet */
  struct tsx_table *array_tables; /* those that are connected, the newest first */
  tsx_key *keys;
  struct tsx_tree *trees; /* store_tables.c: that are open */
  bool in_function; /* tsx_function_begin has opened a savepoint */
  bool function_alone; /* and with it a transaction */
  bool quiet; /* a rollback goes on: the database is not touched */
  const struct tsx_making *making; /* what tsx_database_create makes, while its CREATE runs; else NULL */
  bool restricted; /* to a directory, by tessera_restrict */
  char by_chance
      [TSX_ID_SIZE]; /* this connection's: stands for a database file that nothing tells from others (journal.c) */
  char *lost; /* what a COMMIT that has succeeded could not publish: the next statement on an array is told; or NULL */
  int lost_code;
  struct tsx_scan *cells_for; /* for a moment: the scan on tessera_aggregate whose cells the next one shows */
} tsx_connection;

int tsx_connection_open(sqlite3 *db, tsx_connection **connection, tsr_error *error);
void tsx_connection_hold(tsx_connection *connection);
void tsx_connection_drop(void *connection); /* as a destructor of modules and functions */

/* SQLite does not look at what xCommit returns: an error there is kept, and told once, by the next statement that reads
 * or writes an array. */
void tsx_connection_keep_lost(tsx_connection *connection, const tsr_error *error);
int tsx_connection_tell_lost(tsx_connection *connection, tsr_error *error); /* that error, or TSR_OK */
void tsx_connection_add_table(tsx_connection *connection);
void tsx_connection_remove_table(tsx_connection *connection);
void tsx_connection_add_cursor(tsx_connection *connection); /* begins a statement where none is open */
void tsx_connection_remove_cursor(tsx_connection *connection);

/* Does the host want to stop? Asked in long work, where the connection has a table (or a function has added one). */
bool tsx_connection_cancelled(void *connection);

/* Is text kept as UTF-16 (then SQLite's order of text is not that of its UTF-8 bytes)? */
bool tsx_connection_utf16(tsx_connection *connection);
unsigned tsx_connection_text(tsx_connection *connection); /* the same as flags: 0, TSX_UTF16, TSX_UTF16BE with it */

/* The array at a path, opened if it is not. `key` is 32 bytes or NULL. Released by tsx_array_release. */
#define TSX_CACHE_AS_IS UINT64_MAX /* for cache_bytes: leaves that to the array's tables */
int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error);

/* The same of one that is prepared; takes the creation if it succeeds. */
int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error);
void tsx_array_release(tsx_connection *connection, tsx_array *array);

/* By what an open array at a path is found: its canonical path, or in the database its identity. sqlite3_malloc'ed. */
int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error);

/* The state between two times that the running statement sees: the same for all its cursors. `own`: with the open
 * transaction's changes on top, where no end is given (as_of is TSR_TIME_NOW). Held for the caller, a cursor. */
int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool own, tsx_snapshot **snapshot, tsr_error *error);
void tsx_snapshot_release(tsx_snapshot *snapshot); /* NULL is fine */

/* The connection has changed it: what opens from now on sees that, also within the running statement. */
void tsx_array_changed(tsx_array *array);
void tsx_path_changed(tsx_connection *connection, const char *path); /* or is about to, before it looks there */
void tsx_array_trim(tsx_array *array); /* lets go of states that no cursor reads */

/* What statements on the table see now, without times of their own: its state and the transaction's changes. Held;
 * dropped by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);

#endif
