/* kept.h: the table tessera_kept(path, options) of a database file: what tessera_attach() without arguments makes again
 * in every connection. It is an ordinary table in main, so that the file needs no extension.
 *
 *   path     the path of a group or an array, as tessera_attach takes it; or 'db:main.TABLE', a table that tessera_hide
 *            has taken out of the schema
 *   options  a JSON object, or NULL
 *
 * Whoever can write the file can write the table: what it holds is validated by those who read it. */
#ifndef TSX_FRONT_KEPT_H
#define TSX_FRONT_KEPT_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Remembers a path in main, in place of what is remembered for it. `options` may be NULL. Makes the table if it does
 * not exist. The row belongs to the transaction. */
int tsx_kept_remember(sqlite3 *db, const char *path, const char *options, tsr_error *error);

/* Forgets a path. Returns 1; 0 if it was not remembered. */
int tsx_kept_forget(sqlite3 *db, const char *path, tsr_error *error);

/* Receives a path and its options, which are NULL if there are none. TSR_OK goes on; any other code ends the walk,
 * which then returns this code. `path` is NULL if the row's path is no text, or its options are neither text nor
 * NULL. */
typedef int (*tsx_kept_visitor)(void *argument, const char *path, const char *options, tsr_error *error);

/* Calls `visit` for each path, in the order of the paths. All rows are read before the first call, so `visit` may
 * change tables. Without the table there is nothing to visit. TSR_TOOBIG: more than TSX_KEPT_MAX rows. */
#define TSX_KEPT_MAX 100000
int tsx_kept_each(sqlite3 *db, tsx_kept_visitor visit, void *argument, tsr_error *error);

#endif
