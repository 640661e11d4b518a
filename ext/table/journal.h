/* journal.h: which commits to arrays a database has committed, and what a crash has left of others. */
#ifndef TSX_JOURNAL_H
#define TSX_JOURNAL_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/open_array.h"

typedef struct tsx_table tsx_table;
typedef struct tsx_transaction tsx_transaction;

/* The table NAME of a database that has `value` under `key` in NAME_config: SQLITE_ROW, and NAME if `name` is not NULL
 * (sqlite3_malloc'ed); SQLITE_DONE where there is none; or what went wrong. */
int tsx_config_find(sqlite3 *db, const char *schema, const char *key, const char *value, char **name);
void tsx_journal_make_id(char id[TSX_ID_SIZE]);
int tsx_journal_find_id(tsx_table *table, tsr_error *error); /* table->id, if it has one */
unsigned tsx_data_version(const tsx_table *table); /* counts up with each commit that reaches its second phase */

/* Owner and durability, as the table's database has them. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_error *error);

/* The value of 'owner' in a new table's NAME_config, sqlite3_malloc'ed; NULL where the database has no file. */
int tsx_journal_first_owner(const tsx_table *table, char **value, tsr_error *error);

/* Publishes what this database has committed to the table's array and a crash has left, and removes what it has not.
 * Only under the database's write lock. */
int tsx_journal_recover(tsx_table *table, tsr_error *error);

/* 1: the record names commits that are not published yet, and nothing but the record says that they shall be. */
int tsx_journal_owes(const tsx_table *table, tsr_error *error);
int tsx_journal_write(tsx_table *table, tsr_error *error); /* the prepared commit, into NAME_commits */

/* After an xSync: is it certain that the database has not committed? */
bool tsx_journal_untouched(const tsx_table *table);

/* Has some database of the connection committed it? For tsr_array_options. */
int tsx_journal_committed(void *connection, const char *commit, tsr_error *error);

/* Would tessera_recover settle it: has some database of the connection committed or prepared it? 1, 0, or an error. */
int tsx_journal_claims(tsx_connection *connection, const tsr_prepared *prepared, tsr_error *error);

/* xCommit could not publish: into SQLite's log; what is lost is told by the next statement, too. */
void tsx_journal_unpublished(const tsx_table *table, const tsr_error *error);
void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_recover(path[, 'disown']) */

#endif
