/* database.h: arrays that live in the database itself: made by CREATE VIRTUAL TABLE without a path, brought in and
 * taken out file by file. */
#ifndef TSX_DATABASE_H
#define TSX_DATABASE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_address tsx_address;
typedef struct tsx_table tsx_table;

/* Makes the array of a table that lives in the database; `schema` NULL: the one that tsx_database_create makes. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);

/* Runs the CREATE VIRTUAL TABLE of a new array in the database, `name` being a table's, db: before it or not: with all
 * that is in the array `source`; or, where `schema` is given, an empty one of this schema, which differs from the
 * source's as in tsx_ddl_arguments. The source's key comes along. `path`, which may be NULL: where it is, of
 * sqlite3_malloc. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);

#endif
