/* postponed.h: commits that xCommit could not publish although the database has committed, because the disk or the
 * server failed at the last step. The connection keeps them with their writers and creations, and publishes them before
 * its next statement uses the array. So the array gets them as soon as it can be written again, even if no record of a
 * database names them. */
#ifndef TSX_POSTPONED_H
#define TSX_POSTPONED_H

#include "table/open_array.h"

/* Keeps the commit of the array's transaction, if it has one, and its creation, if it has one. The caller ends the
 * transaction afterwards. `why` says what failed. */
void tsx_postpone(tsx_connection *connection, tsx_array *array, const tsr_error *why);

/* Publishes what the connection keeps for this array, the oldest first, and what it keeps for others if no statement
 * has failed with that yet. Returns the number of commits that it published. If one cannot be published, returns the
 * error and keeps the commit, so that each statement on its array tries again. A commit whose files are gone is
 * reported once and given up. Also reports what tsx_connection_tell_lost reports. */
int tsx_postponed_publish(tsx_connection *connection, const tsx_array *array, tsr_error *error);

/* Does the same for the array at a path. */
int tsx_postponed_publish_path(tsx_connection *connection, const char *path, tsr_error *error);

/* Publishes what the connection keeps for the array at a path, as far as it can. Reports nothing, so that functions can
 * look at an array that cannot be written. */
void tsx_postponed_try(tsx_connection *connection, const char *path);

/* Gives up what the connection keeps for this array, and removes the files that were prepared for it. */
void tsx_postponed_give_up(tsx_connection *connection, const tsx_array *array);

/* Publishes everything that the connection keeps, before the arrays are closed. SQLite's log has what fails. */
void tsx_postponed_close(tsx_connection *connection);

#endif
