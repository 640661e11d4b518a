/* journal.h: the record of the commits to arrays that a database has committed, and recovery by it.
 *
 * Between xSync and xCommit a commit to an array in a directory lies prepared. The shadow table NAME_commits, written
 * in the same transaction, tells after a crash whether the database has committed; the marker beside the commit tells
 * which database decides on it. journal.c has the protocol; docs/commits.md has the reasons. */
#ifndef TSX_TABLE_JOURNAL_H
#define TSX_TABLE_JOURNAL_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_table tsx_table;
typedef struct tsx_transaction tsx_transaction;

/* Finds the array table of a database that has `value` under `key` in its NAME_config. Returns SQLITE_ROW, and NAME in
 * *name where `name` is not NULL (from sqlite3_malloc); SQLITE_DONE where there is no such table; else SQLite's
 * error. */
int tsx_config_find(sqlite3 *db, const char *schema, const char *key, const char *value, char **name);

/* Makes a random id. */
void tsx_journal_make_id(char id[TSX_ID_SIZE]);

/* Reads table->commit.id from NAME_config, unless it has been read; it stays "" where NAME_config has none. */
int tsx_journal_find_id(tsx_table *table, tsr_error *error);

/* Returns SQLITE_FCNTL_DATA_VERSION of the table's database file. It changes with each commit that reaches its second
 * phase. */
unsigned tsx_data_version(const tsx_table *table);

/* Chooses the owner of the transaction's commits, and whether they are forced to disk, as the table's database has it.
 * Sets `transaction` and `options`; these borrow the owner from the transaction. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_error *error);

/* Makes the value of 'owner' in the NAME_config of a new table, from sqlite3_malloc. *value is NULL where nothing tells
 * the database file from others, or there is no file. */
int tsx_journal_first_owner(const tsx_table *table, char **value, tsr_error *error);

/* Publishes the prepared commits to the table's array that this database has committed, and removes those that it has
 * not. Does nothing unless this connection holds the database's write lock. */
int tsx_journal_recover(tsx_table *table, tsr_error *error);

/* Returns 1 if the table's record names commits that are not published yet, 0 if not, or an error. Nothing but the
 * record says that such commits are to be published, so the record must not be dropped. Removes commits from the record
 * that are published. */
int tsx_journal_has_unpublished(const tsx_table *table, tsr_error *error);

/* Writes the transaction's prepared commit into NAME_commits. */
int tsx_journal_write(tsx_table *table, tsr_error *error);

/* Returns true if it is certain, after an xSync, that the database has not committed. */
bool tsx_journal_untouched(const tsx_table *table);

/* Returns 1 if a database of the connection has committed this commit, 0 if none has, or an error. For
 * tsr_array_options.committed; `connection` is the tsx_connection. */
int tsx_journal_committed(void *connection, const char *commit, tsr_error *error);

/* Returns 1 if tessera_recover would settle this commit, because a database of the connection has committed it or has
 * prepared it; 0 if not; or an error. */
int tsx_journal_claims(tsx_connection *connection, const tsr_prepared *prepared, tsr_error *error);

/* Call where xCommit could not publish: writes the error into SQLite's log, and tries again unless the record names the
 * commit. Returns true if the commit is still to be published. If its files are gone, nothing will ever publish it: then
 * the connection's next statement that uses an array fails with the error (tsx_connection_keep_lost). */
bool tsx_journal_unpublished(const tsx_table *table, tsr_error *error);

/* The SQL function tessera_recover(path[, 'disown']). */
void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values);

/* Commits that xCommit could not publish although the database has committed, because the disk or the
 * server failed at the last step. The connection keeps them with their writers and creations, and publishes them before
 * its next statement uses the array. So the array gets them as soon as it can be written again, even if no record of a
 * database names them. */

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
