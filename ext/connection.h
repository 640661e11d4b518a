/* connection.h: what all of the extension has in common: SQLite, the core as it sees it, errors, and what belongs to a
 * connection.
 *
 *   errors.c      core code -> SQLITE_*
 *   connection.c  environment, open arrays, the state a statement sees, interrupts
 *   restrict.c    tessera_restrict: the directory that it may not leave
 *
 * Names shared between files of the extension begin with tsx_. All of it runs on the thread that SQLite called. The
 * headers build on one another: connection.h, definition.h (texts of CREATE), values.h (values and cells), table.h
 * (tables that are arrays), functions.h (tessera_* tables and functions; the entry point, main.c).
 */
#ifndef TSX_CONNECTION_H
#define TSX_CONNECTION_H

#include <stdarg.h>
#include <string.h>

#ifdef SQLITE_CORE
#include "sqlite3.h"
#else
#include "sqlite3ext.h"
SQLITE_EXTENSION_INIT3
#endif

#include "tessera.h"

#define TSX_SQLITE_MIN 3038000
#define TSX_ID_SIZE    33 /* 32 hex digits and NUL */

/* ---- errors.c ---- */
/* An empty error, where zeros in all of its message would cost more than what is done for a row. */
static inline void tsx_error_init(tsr_error *error) {
  error->code = 0;
  error->message[0] = 0;
}
int tsx_sqlite_code(int code); /* of a core code */
int tsx_core_code(int code); /* the reverse */
int tsx_vtab_error(sqlite3_vtab *vtab, const tsr_error *error); /* sets zErrMsg, returns the SQLite code */
int tsx_vtab_fail(sqlite3_vtab *vtab, int code, const char *format, ...);
/* sqlite3_declare_vtab, which calls all that fails SQLITE_ERROR: an interrupt is one here. The message is SQLite's. */
int tsx_declare(sqlite3 *db, const char *text);
void tsx_result_error(sqlite3_context *context, const tsr_error *error);
int tsx_fail(tsr_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tsx_out_of_memory(tsr_error *error);

/* ---- connection.c ---- */
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
  uint64_t statement; /* counts up when a cursor opens while none is open */
  uint64_t clock; /* counts arrays that were let go */
  uint64_t attempt; /* counts COMMITs and ROLLBACKs, those that failed too: transaction.c */
  sqlite3_stmt *polls[2]; /* see tsx_connection_interrupted */
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
  char *restricted; /* the directory that tessera_restrict named, resolved; NULL: none */
  char by_chance[TSX_ID_SIZE]; /* this connection's: stands for a database file that nothing tells from others (journal.c) */
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
bool tsx_connection_interrupted(void *connection);
/* Is text kept as UTF-16 (then SQLite's order of text is not that of its UTF-8 bytes)? */
bool tsx_connection_utf16(tsx_connection *connection);
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

/* ---- restrict.c ---- */
int tsx_restrict_permits(void *argument, const char *path, tsr_error *error); /* of a connection: TSR_PERM if not */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

#endif
