/* functions_database.h: the functions tessera_export and tessera_import. */
#ifndef TSX_FUNCTIONS_DATABASE_H
#define TSX_FUNCTIONS_DATABASE_H

#include "connection/sqlite_api.h"

void tsx_export(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_export(table, path) */
void tsx_import(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_import(table, path) */

#endif
