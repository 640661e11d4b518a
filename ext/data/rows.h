/* rows.h: the SQL function tessera_rows, and its streams. */
#ifndef TSX_ROWS_STREAM_H
#define TSX_ROWS_STREAM_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* tessera_rows(select[, options]). Its user data is the connection's tsx_stream_link. */
void tsx_rows_stream(sqlite3_context *context, int count, sqlite3_value **values);

/* tessera_functions.again: makes *out another stream of the rows of a stream that tessera_rows gave. */
bool tsx_rows_again(const struct ArrowArrayStream *stream, struct ArrowArrayStream *out);

/* tessera_functions.request, for a stream that may be one of tessera_rows. */
bool tsx_rows_request(struct ArrowArrayStream *stream, const struct ArrowSchema *requested);

#endif
