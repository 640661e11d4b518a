/* restrict.h: the SQL function tessera_restrict(directory): from then on the connection opens and makes arrays and
 * groups, and reads key files, only below that directory. functions.c registers it. */
#ifndef TSX_RESTRICT_H
#define TSX_RESTRICT_H

#include "connection/sqlite_api.h"

/* The SQL function. */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

#endif
