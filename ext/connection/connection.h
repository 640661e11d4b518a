/* connection.h: what belongs to a connection rather than to one of its tables: the environment of the core, its interrupts, the number of
 * its tables and open cursors. table/open_array.h has the arrays that it has open. */
#ifndef TSX_CONNECTION_H
#define TSX_CONNECTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"

typedef struct tsx_scan tsx_scan;
typedef struct tsx_table tsx_table;
typedef struct tsx_tree tsx_tree;
typedef struct tsx_array tsx_array;
typedef struct tsx_connection tsx_connection;

#define TSX_ID_SIZE 33 /* 32 hex digits and NUL */

typedef struct tsx_key { /* given by tessera_set_key */
  struct tsx_key *next;
  uint8_t key[32];
  char path[]; /* canonical */
} tsx_key;

/* What the upper layers do for each connection; main.c gives them. */
typedef struct tsx_connection_hooks {
  int (*opened)(tsx_connection *connection, tsr_error *error); /* the environment is open, nothing else is there */
  void (*cursors_closed)(tsx_connection *connection); /* the last open cursor was closed: the statement has ended */
  void (*tables_gone)(tsx_connection *connection); /* the last table was disconnected */
  void (*closing)(tsx_connection *connection); /* the environment is closed next */
} tsx_connection_hooks;

struct tsx_connection {
  sqlite3 *db;
  const tsx_connection_hooks *hooks;
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
};

/* Opens the state of a connection, with one reference. `hooks` are borrowed for as long as it lives. */
int tsx_connection_open(sqlite3 *db, const tsx_connection_hooks *hooks, tsx_connection **connection, tsr_error *error);
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

/* The encoding of the database's text, as flags. */
#define TSX_UTF16   1u /* UTF-16 */
#define TSX_UTF16BE 4u /* the greater byte of a unit is first */

/* Is text kept as UTF-16 (then SQLite's order of text is not that of its UTF-8 bytes)? */
bool tsx_connection_utf16(tsx_connection *connection);
unsigned tsx_connection_text(tsx_connection *connection); /* the same as flags: 0, TSX_UTF16, TSX_UTF16BE with it */

#endif
