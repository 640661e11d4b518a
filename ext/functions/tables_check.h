/* tables_check.h: tessera_check, a row for each thing that is wrong with an array; and PRAGMA integrity_check and
 * quick_check of array tables, which say the errors among them. */
#ifndef TSX_TABLES_CHECK_H
#define TSX_TABLES_CHECK_H

#include "connection/sqlite_api.h"

/* xIntegrity of array tables: PRAGMA integrity_check, and quick_check (bit 0 of the flags). */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);

#endif
