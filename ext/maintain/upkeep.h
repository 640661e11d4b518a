/* upkeep.h: the functions tessera_consolidate, tessera_vacuum and tessera_lease. */
#ifndef TSX_FUNCTIONS_MAINTAIN_H
#define TSX_FUNCTIONS_MAINTAIN_H

#include "connection/sqlite_api.h"

void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what]) */
void tsx_lease(sqlite3_context *context, int count, sqlite3_value **values); /* (path, seconds) */

#endif
