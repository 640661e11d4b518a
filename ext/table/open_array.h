/* open_array.h: the arrays that a connection has open, shared by its tables and functions, and the state of each array that a statement
 * sees. VACUUM and schema changes disconnect tables; decoded tiles should outlive that, so arrays stay open for a while. */
#ifndef TSX_OPEN_ARRAY_H
#define TSX_OPEN_ARRAY_H

#include "connection/connection.h"

typedef struct tsx_transaction tsx_transaction;

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

struct tsx_array { /* an array that this connection has open; shared by its tables */
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
};

/* Opens the parts of a connection that lie above connection.h, and closes them. */
extern const tsx_connection_hooks tsx_open_array_hooks;

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
