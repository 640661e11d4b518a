/* open_array.h: the arrays that a connection has open, and the state of each array that a statement sees.
 *
 * All tables and functions of a connection share one tsx_array for each array and key. VACUUM and changes of the
 * database's schema disconnect tables for a moment; so that decoded tiles outlive that, an array stays open for some
 * time after its last user has released it. A tsx_snapshot is one state of an array, which all cursors of a statement
 * share. */
#ifndef TSX_OPEN_ARRAY_H
#define TSX_OPEN_ARRAY_H

#include "connection/connection.h"

typedef struct tsx_transaction tsx_transaction;

typedef struct tsx_snapshot { /* one state of an array, as a statement sees it */
  struct tsx_snapshot *next;
  const tsr_schema *schema; /* whose fields the snapshot shows */
  uint64_t since, as_of;
  uint64_t
      statement; /* the statement that it was made for; 0 once the array has changed: no more cursors may take it */
  tsr_snapshot *core;
  uint32_t cursors; /* cursors, and others, that have not released it yet */
  struct tsx_transaction *transaction; /* the transaction whose changes it shows, or NULL; one reference is owned */
  tsr_mark mark; /* with a transaction: the changes up to this mark ... */
  uint64_t rewinds; /* ... after this many rewinds of the writer */
  bool undone; /* some of these changes have been rolled back */
} tsx_snapshot;

typedef struct tsx_array_making { /* what belongs to an array that the open transaction makes */
  tsr_creation *creation; /* NULL: the transaction does not make the array; owned (transaction.c) */
  char *name; /* names this creation and no other: its schema's name and a random number */
  char *schema; /* the database that has the new table */
  bool table_exists; /* xSync has found the table's record, so its CREATE was not rolled back */
  bool synced; /* xSync has run */
  bool checked; /* forget_orphans has looked whether its table still exists */
  unsigned data_version; /* of the database file, at xSync */
} tsx_array_making;

struct tsx_array { /* an array that this connection has open */
  struct tsx_array *next;
  char *path; /* what tsx_array_key gives */
  bool in_database; /* it lives in shadow tables: its commits are part of SQLite's own */
  uint64_t permitted; /* the connection's restrictions when tsx_array_permitted last allowed the path */
  bool has_key;
  uint8_t key[32];
  tsr_array *core;
  uint32_t references; /* of tables and addresses (address.h); 0: the array is idle */
  uint64_t used; /* the connection's clock when the last reference was released */
  uint64_t statement; /* the statement that `snapshots` were made for */
  tsx_snapshot *snapshots;
  uint32_t snapshot_count;
  tsx_array_making making;
  bool gone; /* the array was not made after all: nothing finds it by its path any more */
  struct tsx_transaction *transaction; /* the changes of the open transaction, or NULL (transaction.c) */
};

/* The functions by which a connection opens and closes what lies above connection.h. */
extern const tsx_connection_hooks tsx_open_array_hooks;

/* Returns the array at a path, and opens it if it is not open yet. `key` is 32 bytes, or NULL. `cache_bytes` bounds the
 * array's cache of decoded tiles, 0 switches it off; TSX_CACHE_AS_IS leaves the bound as it is. The caller releases the
 * array by tsx_array_release. TSR_NOT_FOUND, TSR_AUTH, and what else the core may return. */
#define TSX_CACHE_AS_IS UINT64_MAX
int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error);

/* Does the same for an array that is prepared and not published yet. Takes ownership of the creation if it succeeds. */
int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error);

/* Gives a reference back. The array stays open until too many others have been released after it. `array` may be
 * NULL. */
void tsx_array_release(tsx_connection *connection, tsx_array *array);

/* Finds the text by which open arrays are told apart: the canonical path, or the identity of an array in the database.
 * *key is from sqlite3_malloc. */
int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error);

/* Fails with TSR_PERM if tessera_restrict has bound the connection to a directory and the array lies outside. Call it
 * when a statement begins to use an array that is open already: its snapshots and cached tiles need no more files. Looks
 * at the path once after each call of tessera_restrict. */
int tsx_array_permitted(tsx_connection *connection, tsx_array *array, tsr_error *error);

/* Returns the state between two times, inclusive, that the running statement sees; all cursors of the statement get the
 * same one. With `with_changes`, and where as_of is TSR_TIME_NOW, the open transaction's changes are on top. The caller
 * releases the snapshot by tsx_snapshot_release. First publishes earlier commits that could not be published, and fails
 * with the error if it still cannot (tsx_postponed_publish). */
int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool with_changes, tsx_snapshot **snapshot, tsr_error *error);

/* Gives a snapshot back. It stays with its array for other cursors of the statement. `snapshot` may be NULL. */
void tsx_snapshot_release(tsx_snapshot *snapshot);

/* Call when the transaction's changes after `kept` are rolled back: statements that are still reading them fail. */
void tsx_snapshots_undo(tsx_array *array, const struct tsx_transaction *transaction, tsr_mark kept);

/* Fails with TSR_ABORT if the snapshot shows changes that have been rolled back since. `snapshot` may be NULL. */
int tsx_snapshot_check(const tsx_snapshot *snapshot, tsr_error *error);

/* Call when this connection has changed the array: cursors that open from now on see the new state, within the running
 * statement too. */
void tsx_array_changed(tsx_array *array);

/* Does the same for the array at a path, if it is open. Call it before the change, too, so that the function which
 * makes the change looks at the present state: a transaction on the array that has no rows yet gives its older state
 * up. */
void tsx_path_changed(tsx_connection *connection, const char *path);

/* Closes what this connection has open of the array at a path and does not need. Call it before the array is removed:
 * Windows may keep a directory as long as files of it are open. */
void tsx_path_close(tsx_connection *connection, const char *path);

/* Closes the snapshots that no cursor reads. */
void tsx_array_trim(tsx_array *array);

/* Returns the state that statements on the table see now: between the table's own since and as_of, with the
 * transaction's changes. The caller releases it by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);

#endif
