/* connection.h: the state of a connection that its tables and functions share.
 *
 * It has the core's environment, the interrupt check, the numbers of tables and open cursors, and members that belong
 * to higher folders, each of which names its file. table/table.h has the open arrays. main.c opens the state; its hooks
 * let higher folders act when the connection opens, becomes idle or closes. */
#ifndef TSX_CONNECTION_H
#define TSX_CONNECTION_H

#include "connection/sqlite_api.h"
#include "tessera_host.h"

typedef struct tsx_scan tsx_scan;
typedef struct tsx_table tsx_table;
typedef struct tsx_tree tsx_tree;
typedef struct tsx_array tsx_array;
typedef struct tsx_deferred_commit tsx_deferred_commit;
typedef struct tsx_connection tsx_connection;

#define TSX_ID_SIZE 33 /* 32 hex digits and NUL */

typedef struct tsx_key { /* a key set by tessera_set_key */
  struct tsx_key *next;
  uint8_t key[32];
  char path[]; /* canonical */
} tsx_key;

/* Callbacks into higher folders; main.c sets them. */
typedef struct tsx_connection_hooks {
  int (*opened)(tsx_connection *connection, tsr_error *error); /* only the environment is open so far */
  void (*cursors_closed)(tsx_connection *connection); /* the last open cursor was closed: the statement has ended */
  void (*tables_gone)(tsx_connection *connection); /* the last table was disconnected */
  void (*closing)(tsx_connection *connection); /* before the environment is closed */
} tsx_connection_hooks;

typedef struct tsx_cancellation { /* state of tsx_connection_cancelled (connection.c) */
  sqlite3_stmt *polls[2]; /* a short and a longer statement */
  uint32_t questions; /* checks since the longer statement ran */
  uint64_t polled_bytes; /* bytes decoded when it ran */
} tsx_cancellation;

typedef struct tsx_lost { /* a COMMIT that could not be published, until a statement reports it (connection.c) */
  char *message; /* NULL: none */
  int code; /* its TSR code */
} tsx_lost;

typedef struct tsx_statement { /* the running statement, or the last one */
  uint32_t cursors; /* open cursors */
  uint64_t number; /* from 1 on; incremented when a cursor opens while none is open */
  bool tiles_kept; /* idle cursors may keep tiles until the last open cursor is closed (open_array.c) */
} tsx_statement;

typedef struct tsx_open_arrays { /* open_array.c */
  tsx_array *list; /* in use or idle */
  uint64_t clock; /* counts released arrays */
} tsx_open_arrays;

typedef struct tsx_tables { /* connected tables */
  uint32_t count; /* sqlite3_vtab objects and running functions; `polls` exist only while it is not 0 */
  tsx_table *arrays; /* tables of arrays, the newest first (module.c) */
  uint64_t serial; /* how many tables of arrays have been connected so far */
  struct tsx_leftover *leftovers; /* tables of temp whose shadow tables have yet to be dropped (leftovers.c) */
  struct tsx_query_table *queries; /* tables of tessera_query (query_table.c) */
  struct query_cursor *query_scan; /* the scan of a tessera_query that began last, while it lasts; or NULL */
} tsx_tables;

typedef struct tsx_database_arrays { /* arrays in the database */
  tsx_tree *trees; /* open trees (store_tables.c) */
  /* Incremented when a file that was found may be gone, or its id may be another file's: when a blob is closed, which
   * may end the read transaction, and when this connection adds, removes or renames a file, takes a savepoint back, or
   * forgets a table. */
  uint64_t epoch;
  unsigned holders; /* while not 0, blobs stay open between reads although no statement runs (tsx_store_hold) */
  const struct tsx_database_source *making; /* what tsx_database_create makes, while its CREATE runs; else NULL */
  bool adopts; /* a CREATE of tsx_database_adopt is running */
  bool keeps; /* a DROP of tsx_database_keep is running */
} tsx_database_arrays;

typedef enum tsx_savepoint_end_statement { /* statements that end a savepoint */
                                           TSX_END_KEEP,
                                           TSX_END_TAKE_BACK,
                                           TSX_END_ROLLBACK,
                                           TSX_END_WRITE, /* changes nothing; makes a pending interrupt roll back */
                                           TSX_ENDS
} tsx_savepoint_end_statement;

typedef struct tsx_function_savepoint { /* the savepoint of the running SQL function (function_savepoint.c) */
  bool open; /* a function has begun to change an array in the database */
  bool guarded; /* SQLite has opened a savepoint; false if the outer statement writes */
  bool alone; /* the savepoint is a transaction of its own */
  unsigned long long number; /* of the savepoint in the connection: part of its name */
  int failure; /* TSR code of the failure that has rolled back the transaction, or will; 0: none */
  sqlite3_int64 changes; /* sqlite3_total_changes64 at the beginning */
  sqlite3_stmt *ends[TSX_ENDS];
  sqlite3_stmt *stand_by; /* has begun to read, while `ends` cannot be used; else NULL */
  void *reserve; /* memory that ending frees first */
} tsx_function_savepoint;

typedef struct tsx_registry { /* tables that belong to the connection (registry.c) */
  struct tsx_registered *tables;
  uint32_t count;
  uint64_t clock, random; /* the clock counts requests; random: part of the tables' names */
} tsx_registry;

typedef struct tsx_permissions { /* what the connection may open, and with which keys */
  tsx_key *keys;
  uint64_t restrictions; /* how often tessera_restrict has bound the connection to a directory; 0: not bound */
} tsx_permissions;

struct tsx_connection {
  sqlite3 *db;
  const tsx_connection_hooks *hooks;
  uint32_t references; /* held by modules and functions */
  int utf16; /* the database's text encoding as flags (tsx_connection_text); -1: not known yet */
  tsr_environment *environment;
  tsx_cancellation cancellation;
  tsx_lost lost;
  tsx_deferred_commit *deferred; /* commits that have yet to be published, the oldest first (journal.c) */
  tsx_statement statement;
  tsx_open_arrays arrays;
  tsx_tables tables;
  tsx_database_arrays database_arrays;
  tsx_function_savepoint savepoint;
  uint64_t savepoint_count; /* savepoints that functions have opened so far */
  tsx_permissions permissions;
  tsx_registry registry;
  uint32_t selecting; /* how many tessera_select run within each other (front/select.c) */
  const struct tsx_compiling
      *compiling; /* the columnar queries that are being compiled or evaluated (query/query_internal.h) */
  bool quiet; /* a rollback is running: the database must not be used */
  uint64_t attempt; /* counts COMMITs and ROLLBACKs, failed ones included (transaction.c) */
  char random_place[TSX_ID_SIZE]; /* stands in for the place of a database file that cannot be identified (journal.c) */
  struct tsx_scan *cells_for; /* set for a moment: the next scan shows the cells of this scan on tessera_aggregate */
};

/* Opens the shared state of a connection, with one reference. `hooks` are borrowed for as long as the state lives. */
int tsx_connection_open(sqlite3 *db, const tsx_connection_hooks *hooks, tsx_connection **connection, tsr_error *error);

/* Returns how many connections of this process have such a state. */
uint32_t tsx_connection_count(void);

/* Opens an environment that belongs to no connection, for memory and temporary files that outlive connections. */
int tsx_environment_alone(tsr_environment **environment, tsr_error *error);

/* Add and drop a reference. The last drop closes everything. tsx_connection_drop is the destructor of modules and
 * functions. */
void tsx_connection_hold(tsx_connection *connection);
void tsx_connection_drop(void *connection);

/* Stores an error of xCommit, whose result SQLite ignores. tsx_connection_report_lost returns it once, in the next
 * statement that reads or writes an array; TSR_OK if there is none. */
void tsx_connection_defer_lost(tsx_connection *connection, const tsr_error *error);
int tsx_connection_report_lost(tsx_connection *connection, tsr_error *error);

/* Fails if the transaction in which a function changes an array has been rolled back meanwhile: a statement of the
 * function was interrupted or lacked memory, and whatever the function wrote next would commit on its own. TSR_OK while
 * no function changes an array. */
int tsx_connection_in_savepoint(tsx_connection *connection, tsr_error *error);

/* Call when a step of a function that changes an array in the database was stopped, with the TSR code `failure`. The
 * function then fails, even if it could do without that step, such as the removal of an obsolete file. */
void tsx_connection_fail_savepoint(tsx_connection *connection, int failure);

/* Count the connection's tables and open cursors. The first cursor begins a statement. */
void tsx_connection_add_table(tsx_connection *connection);
void tsx_connection_remove_table(tsx_connection *connection);
void tsx_connection_add_cursor(tsx_connection *connection);
void tsx_connection_remove_cursor(tsx_connection *connection);

/* Returns true if the host has cancelled the running statement. The core calls it during long work. Without a table it
 * returns false, so functions add one while they run. */
bool tsx_connection_cancelled(void *connection);

/* The encoding of the database's text, as flags. */
#define TSX_UTF16   1u /* UTF-16 */
#define TSX_UTF16BE 4u /* big-endian units */

/* Returns true if the database stores text as UTF-16. Then SQLite's order of text is not that of its UTF-8 bytes. */
bool tsx_connection_utf16(tsx_connection *connection);

/* Returns the text encoding as flags: 0 (UTF-8), TSX_UTF16, or TSX_UTF16 | TSX_UTF16BE. */
unsigned tsx_connection_text(tsx_connection *connection);

#endif
