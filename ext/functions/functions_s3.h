/* functions_s3.h: the SQL function tessera_s3. */
#ifndef TSX_FUNCTIONS_S3_H
#define TSX_FUNCTIONS_S3_H

#include "connection/sqlite_api.h"

/* tessera_s3(scope, options): `scope` is "s3://bucket[/prefix]"; `options` is a JSON object, or NULL, which forgets the
 * scope. */
void tsx_s3(sqlite3_context *context, int count, sqlite3_value **values);

#endif
