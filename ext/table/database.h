/* database.h: arrays that live in the database itself. CREATE VIRTUAL TABLE without a path makes them empty;
 * tessera_import and tessera_copy make them from another array, through a CREATE VIRTUAL TABLE of their own. */
#ifndef TSX_DATABASE_H
#define TSX_DATABASE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_address tsx_address;
typedef struct tsx_table tsx_table;

/* Makes the array of a table that lives in the database, and opens it as table->array. Call it from xCreate. `schema`
 * NULL: the CREATE is that of tsx_database_create, which says what to make. `key` is 32 bytes or NULL. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);

/* Runs the CREATE VIRTUAL TABLE of a new array in the database. `name` is the table's, with or without "db:". With
 * `schema` NULL the array gets all files of the array `source`; else it is empty and has this schema, which may differ
 * from that of `source` as tsx_ddl_arguments says. The new array has the source's key. *path, where `path` is not NULL,
 * is where the array is, from sqlite3_malloc. With a schema a savepoint is open afterwards: the caller ends it by
 * tsx_savepoint_end, after a failure too. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);

#endif
