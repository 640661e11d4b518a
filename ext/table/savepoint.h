/* savepoint.h: the savepoint within which an SQL function changes an array that lives in the database, so that the
 * function makes all of its changes or none. Arrays in directories need none: their commits are one step by
 * themselves. */
#ifndef TSX_SAVEPOINT_H
#define TSX_SAVEPOINT_H

#include "table/open_array.h"

/* Call before a function changes the array or group at `path`. Calls tsx_path_changed; for a path in the database it
 * opens the savepoint and takes the database's write lock. With the path "db:", without a table, the first statement of
 * the function takes the write lock instead. Call tsx_savepoint_end afterwards, also where this fails. TSR_BUSY where
 * the lock cannot be had. */
int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error);

/* Releases the savepoint where `code` is not an error, and rolls it back where `code` is one. Returns `code`, or the
 * error of the release. Does nothing where no savepoint is open. */
int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error);

#endif
