/* nearest.h: tessera_nearest. */
#ifndef TSX_NEAREST_H
#define TSX_NEAREST_H

#include "connection/sqlite_api.h"

/* tessera_nearest(path, label, value[, side[, tolerance]]), as an SQL function. */
void tsx_nearest(sqlite3_context *context, int count, sqlite3_value **values);

#endif
