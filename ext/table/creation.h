/* creation.h: arrays that a CREATE VIRTUAL TABLE makes: prepared in xCreate, where all that can fail happens,
 * published when the transaction commits, so that a rolled-back CREATE leaves nothing. */
#ifndef TSX_CREATION_H
#define TSX_CREATION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_table tsx_table;

/* Prepares the array that the table's options define, and opens it as table->array. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);
void tsx_creation_fail(tsx_table *table); /* nothing comes of it: xCreate failed, or DROP in the same transaction */

/* Publishes what a commit has left unpublished: 1 if there was something. */
int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error);
void tsx_creation_close(tsx_array *array, bool abandon); /* if there is one */
int tsx_creation_sync(sqlite3_vtab *vtab);
int tsx_creation_commit(sqlite3_vtab *vtab);
int tsx_creation_rollback(sqlite3_vtab *vtab);

#endif
