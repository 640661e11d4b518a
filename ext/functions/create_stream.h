/* create_stream.h: the SQL function tessera_create_stream, and the streams that C gives to it. */
#ifndef TSX_CREATE_STREAM_H
#define TSX_CREATE_STREAM_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* tessera_functions.put */
int tsx_stream_put(struct ArrowArrayStream *stream, char token[TESSERA_TOKEN_SIZE]);

void tsx_create_stream(sqlite3_context *context, int count, sqlite3_value **values);

#endif
