/* creation.h: arrays in directories that a CREATE VIRTUAL TABLE makes. xCreate prepares the array, and everything that
 * can fail happens there. The commit of the transaction publishes the array in one step; a rollback removes it, so that
 * a CREATE that is rolled back leaves nothing. */
#ifndef TSX_CREATION_H
#define TSX_CREATION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

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

#endif
