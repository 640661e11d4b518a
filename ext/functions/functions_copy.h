/* functions_copy.h: tessera_copy(from, to[, options]): makes a new array with the cells of another one, with other tile
 * extents, filters or orders. */
#ifndef TSX_FUNCTIONS_COPY_H
#define TSX_FUNCTIONS_COPY_H

#include "connection/sqlite_api.h"

void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

#endif
