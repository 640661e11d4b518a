/* create_csv.h: the SQL function tessera_create_csv. */
#ifndef TSX_CREATE_CSV_H
#define TSX_CREATE_CSV_H

#include "connection/sqlite_api.h"

void tsx_create_csv(sqlite3_context *context, int count, sqlite3_value **values);

#endif
