/* create_stream.h: the SQL function tessera_create_stream. */
#ifndef TSX_CREATE_STREAM_H
#define TSX_CREATE_STREAM_H

#include "connection/sqlite_api.h"

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values);

#endif
