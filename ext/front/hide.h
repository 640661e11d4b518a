/* hide.h: tables of main whose declarations are taken out of the schema, so that programs without the extension can
 * open the file (hide.c). */
#ifndef TSX_FRONT_HIDE_H
#define TSX_FRONT_HIDE_H

#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera.h"

void tsx_hide(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_hide(table) */
void tsx_show(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_show(table) */
void tsx_attach_kept(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_attach() */

#endif
