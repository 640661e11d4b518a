/* overview_tables.h: where the levels of an array's overviews are, and what becomes of the levels of an array in the database when
 * its table is dropped or renamed. Level k of an array in a directory or bucket is PATH.overviews/k; of the table NAME in
 * the database it is the table NAME_overview_k. */
#ifndef TSX_LEVELS_H
#define TSX_LEVELS_H

#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera.h"

#define TSX_LEVELS_MAX 40
#define TSX_LEVEL_KEY  "tessera_overview" /* the metadata of a level */

/* Returns the path of a level, or for level 0 the directory that the levels are in. From sqlite3_malloc; NULL if memory is
 * lacking. */
char *tsx_level_path(const char *path, unsigned level);

/* Drops the tables of the levels of a table. A table that has such a name but is no level stays. `key` is 32 bytes or
 * NULL. *count: how many there were. */
int tsx_levels_drop(tsx_connection *connection, const char *schema, const char *name, const uint8_t *key,
                    uint64_t *count, tsr_error *error);

/* Gives the tables of the levels the names that belong to the table's new name. */
int tsx_levels_rename(tsx_connection *connection, const char *schema, const char *name, const char *renamed,
                      const uint8_t *key, tsr_error *error);

#endif
