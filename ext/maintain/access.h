/* access.h: the SQL function tessera_s3. */
#ifndef TSX_MAINTAIN_ACCESS_H
#define TSX_MAINTAIN_ACCESS_H

#include "connection/sqlite_api.h"

/* tessera_s3(scope, options): `scope` is "s3://bucket[/prefix]"; `options` is a JSON object, or NULL, which forgets the
 * scope. */
void tsx_s3(sqlite3_context *context, int count, sqlite3_value **values);

/* The SQL function tessera_restrict(directory): from then on the connection opens and makes arrays and
 * groups, and reads key files, only below that directory. functions.c registers it. */

/* The SQL function. */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

#endif
