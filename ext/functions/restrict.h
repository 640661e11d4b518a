/* restrict.h: tessera_restrict(directory): from then on the connection opens and makes arrays and groups, and reads
 * key files, below that directory only. */
#ifndef TSX_RESTRICT_H
#define TSX_RESTRICT_H

#include "connection/sqlite_api.h"

void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

#endif
