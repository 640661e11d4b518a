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

/* Begins a transaction that holds the write locks of all databases; there must be none yet. tsx_savepoint_end ends it,
 * too. */
int tsx_savepoint_begin_everywhere(tsx_connection *connection, tsr_error *error);

/* Keeps the changes where `code` is not an error, and takes them back where `code` is one. Returns `code`, or the error
 * of keeping them. Whatever interrupts it, no transaction stays open that the function has begun, and no change of a
 * function that has failed: if there is no other way, the host's whole transaction is rolled back, and the error says
 * so. Does nothing where no savepoint is open. */
int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error);

/* Puts the savepoint of the running function aside, while statements or callbacks of the host run: functions in them
 * have savepoints of their own. Put it back with tsx_savepoint_return. */
tsx_function_savepoint tsx_savepoint_leave(tsx_connection *connection);
void tsx_savepoint_return(tsx_connection *connection, const tsx_function_savepoint *savepoint);

#endif
