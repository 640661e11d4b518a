/* create_as.h: the SQL function tessera_create_as. */
#ifndef TSX_CREATE_AS_H
#define TSX_CREATE_AS_H

#include "connection/sqlite_api.h"

void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values);

#endif
