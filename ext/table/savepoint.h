/* savepoint.h: the savepoint within which a function changes an array of the database. */
#ifndef TSX_SAVEPOINT_H
#define TSX_SAVEPOINT_H

#include "table/open_array.h"

/* Call before a function changes the array or group at `path`. In the database the function then makes all of its changes or none. The
 * path "db:", without a table, leaves it to the first statement to take the write lock. Call tsx_savepoint_end after a failure, too. */
int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error);

/* Releases the savepoint where `code` is no error, and rolls it back where `code` is one. Returns `code`, or the error of the release.
 * Does nothing where no savepoint is open. */
int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error);

#endif
