/* table.h: the array tables of a connection: everything between SQLite's virtual table calls and the core's arrays.
 *
 * Terms that all sections use:
 *
 * - tsx_array: an array that the connection has open. All its tables and SQL functions share one for each array and
 *   key. VACUUM and schema changes disconnect tables for a moment, so an array stays open for a while after its last
 *   user has released it: its cache of decoded tiles survives.
 * - tsx_snapshot: one state of an array. All cursors of a statement share it.
 * - tsx_table: one connected table (sqlite3_vtab), with its options, its columns and its array.
 * - tsx_address: the path argument of an SQL function, resolved.
 * - tsx_transaction: the uncommitted changes to one array, which SQLite's open transaction has made.
 *
 * Sections, each named after the file that implements it: open_array.c, leftovers.c, address.c, module.c, columns.c,
 * integrity.c, changes_table.c, path_table.c, labels.c, ddl.c, journal.c, deferred.c, transaction.c,
 * function_savepoint.c, overview_tables.c. table_internal.h has what only the files of this folder share. */
#ifndef TSX_TABLE_TABLE_H
#define TSX_TABLE_TABLE_H

#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera_host.h"
#include "sql/statement.h"
#include "values/slice.h"
#include "values/value.h"

typedef struct tsx_table tsx_table;
typedef struct tsx_address tsx_address;
typedef struct tsx_label_column tsx_label_column;
typedef struct tsx_transaction tsx_transaction;
typedef struct tsx_created_table tsx_created_table; /* of transaction.c */
typedef struct tsx_update_state tsx_update_state; /* of update.c: the state of the statement that writes a table */

/* ---- open_array.c: open arrays, and the snapshots that statements read ------------------------------------------- */

typedef struct tsx_snapshot { /* one state of an array, as a statement sees it */
  struct tsx_snapshot *next;
  const tsr_schema *schema; /* the snapshot has its fields */
  uint64_t since, as_of;
  bool changed; /* it shows what has changed instead of a state: never shared */
  uint64_t statement; /* the statement that may share it; 0 once the array has changed: no more cursors may take it */
  tsr_snapshot *core;
  uint32_t cursors; /* references: cursors, and functions that read like one */
  tsx_transaction *transaction; /* whose changes the snapshot shows, or NULL; one reference is owned */
  tsr_mark mark; /* with a transaction: it shows the changes up to this mark ... */
  uint64_t rewinds; /* ... made after this many rewinds of the writer */
  bool undone; /* some of these changes have been rolled back */
} tsx_snapshot;

typedef struct tsx_array_creation { /* an array that the open transaction creates */
  tsr_creation *creation; /* NULL: the transaction does not create the array; owned (transaction.c) */
  char *name; /* identifies this creation: its schema's name and a random number */
  char *schema; /* the database of the new table */
  bool table_exists; /* xSync has found the table in NAME_config, so its CREATE was not rolled back */
  bool synced; /* xSync has run */
  bool checked; /* forget_orphans has looked for its table */
  unsigned data_version; /* of the database file at xSync */
} tsx_array_creation;

typedef struct tsx_upkeep_state { /* the merges for the option auto_consolidate (auto_upkeep.c) */
  uint64_t commits; /* since the last attempt */
  uint64_t wait; /* that many commits make the next attempt; 0: the array has not been looked at yet */
  uint64_t since_files; /* commits since their files were joined */
  uint64_t waiting; /* merges that the last attempt left, because they are too large */
  char *failure; /* message of the last attempt, from sqlite3_malloc; NULL: it did not fail */
} tsx_upkeep_state;

struct tsx_array { /* an array that this connection has open */
  struct tsx_array *next;
  char *path; /* identifies the array, see tsx_array_key */
  bool in_database; /* the array lives in shadow tables: its commits are part of SQLite's own */
  bool changing; /* a function that is running changes it */
  bool revocable; /* in the database: a function has changed it in a transaction of the host, which may undo that */
  uint64_t permitted; /* value of permissions.restrictions when tsx_array_permitted last allowed the path */
  bool has_key;
  uint8_t key[32];
  tsr_array *core;
  uint32_t references; /* held by tables and addresses; 0: the array is idle */
  uint64_t used; /* the connection's clock at the release of the last reference */
  uint64_t statement; /* the statement that reads `snapshots` */
  tsx_snapshot *snapshots;
  uint32_t snapshot_count;
  tsx_array_creation making;
  bool gone; /* its creation was taken back: no path leads to it any more */
  tsx_transaction *transaction; /* the uncommitted changes, or NULL (transaction.c) */
  tsx_upkeep_state upkeep;
};

/* What connection.h needs from this folder when a connection opens, becomes idle and closes. */
extern const tsx_connection_hooks tsx_open_array_hooks;

/* Opens the array at a path, or takes the one that is open already. `key` is 32 bytes, or NULL. `cache_bytes` bounds
 * the array's cache of decoded tiles, 0 switches it off; TSX_CACHE_AS_IS leaves the bound as it is. The caller releases
 * the array by tsx_array_release. TSR_NOT_FOUND, TSR_AUTH, and other errors of the core. */
#define TSX_CACHE_AS_IS UINT64_MAX
int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error);

/* Releases a reference. The array stays open until enough others have been released after it. `array` may be NULL. */
void tsx_array_release(tsx_connection *connection, tsx_array *array);

/* Gives the text that identifies an open array: the canonical path, or the identity of an array in the database. *key
 * is from sqlite3_malloc. */
int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error);

/* Fails with TSR_PERM if tessera_restrict has bound the connection to a directory and the array is outside of it. Call
 * it when a statement begins to use an open array, because snapshots and cached tiles can be read without opening
 * files. Checks the path once after each call of tessera_restrict. */
int tsx_array_permitted(tsx_connection *connection, tsx_array *array, tsr_error *error);

/* Gives the state of the array between two times, inclusive, for the running statement; all cursors of the statement
 * get the same one. With `with_changes`, and if as_of is TSR_TIME_NOW, it includes the uncommitted changes of the open
 * transaction. It shows deferred commits, too, and publishes nothing. First reports what tsx_connection_report_lost
 * reports. The caller releases the snapshot by tsx_snapshot_release. */
int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool with_changes, tsx_snapshot **snapshot, tsr_error *error);

/* The same for the cells that commits up to as_of have touched (tsr_snapshot_changed); the statement does not share
 * it. */
int tsx_array_snapshot_changed(tsx_connection *connection, tsx_array *array, const tsr_schema *schema,
                               const tsr_changed *changed, uint64_t as_of, bool with_changes, tsx_snapshot **snapshot,
                               tsr_error *error);

/* Releases a snapshot. It stays with its array for other cursors of the statement. `snapshot` may be NULL. */
void tsx_snapshot_release(tsx_snapshot *snapshot);

/* Fails with TSR_ABORT if the snapshot shows changes that have been rolled back since. `snapshot` may be NULL. */
int tsx_snapshot_check(const tsx_snapshot *snapshot, tsr_error *error);

/* Call when this connection has changed the array at a path: if it is open, cursors that open from now on, also those
 * of the running statement, see the new state. Ends a transaction on it that has no changes yet. Call it before a
 * function changes the array, too: the function then works on the present state, not on the older one that such a
 * transaction keeps. */
void tsx_path_changed(tsx_connection *connection, const char *path);

/* Closes what this connection has open of the array at a path, except what is in use. Call it before the array is
 * removed: Windows may refuse to remove a directory while files in it are open. */
void tsx_path_close(tsx_connection *connection, const char *path);

/* Gives the state that statements on the table see now: between the table's own since and as_of, with the uncommitted
 * changes. The caller releases it by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);

/* ---- open_array.c: arrays in the database itself ----------------------------------------------------------------- */
/* CREATE VIRTUAL TABLE without a path makes them empty. tessera_sync and tessera_copy make them from another array:
 * they run a CREATE VIRTUAL TABLE themselves. */

/* Runs CREATE VIRTUAL TABLE for a new, empty array in the database. `name` is the table's, with or without "db:". The
 * array has this schema, which may differ from the schema of `source` as tsx_ddl_arguments says, and the source's key.
 * If `path` is not NULL, *path becomes the new array's path, from sqlite3_malloc. A savepoint is open afterwards, which
 * the caller ends by tsx_savepoint_end, also after a failure. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);

/* The same for a new array with all files of the array `source`; opens no savepoint. */
int tsx_database_sync(const tsx_address *source, const char *name, const tsr_sync_options *options,
                      tsr_sync_result *done, tsr_error *error);

/* Runs a CREATE VIRTUAL TABLE for an array that exists: its columns are those of the array, whatever the text says, and
 * nothing is made but the declaration. The text must be one statement. The caller has opened a savepoint. */
int tsx_database_adopt(tsx_connection *connection, const char *sql, tsr_error *error);

/* Runs DROP TABLE, but leaves the shadow tables of an array in the database, or of a query: as ordinary tables, which
 * tsx_database_adopt finds again. TSR_BUSY: a statement reads the table. The caller has opened a savepoint. */
int tsx_database_keep(tsx_connection *connection, const char *schema, const char *name, tsr_error *error);

/* ---- leftovers.c: tables that functions drop from temp ----------------------------------------------------------- */

/* Drops a table of temp; its shadow tables follow when the savepoint, which the caller has opened, ends. TSR_BUSY: a
 * statement reads the table. */
int tsx_temp_drop(tsx_connection *connection, const char *name, tsr_error *error);

/* Returns true if the shadow tables of a dropped table of that name are still there: a new table takes them over. */
bool tsx_leftover_is(const tsx_connection *connection, const char *schema, const char *name);

/* ---- address.c: path arguments of SQL functions and table-valued functions, and keys by path --------------------- */
/* A tsx_address is a path argument together with the key and the times that come with it. Order of use:
 * tsx_address_open; tsx_address_array if the array is needed; tsx_address_close. Keys by path are
 * those that tessera_set_key has set. */

struct tsx_address { /* `= {0}` may be closed */
  tsx_connection *connection;
  char *path; /* of the directory, or of the array in the database; for functions of the core */
  char *given; /* the path as the user wrote it, in the call or in the table's definition */
  bool is_table; /* the argument was 'db:NAME' */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* the table's option key_file as the user gave it, or NULL */
  char *seen; /* a schema that the array must have, by its name; NULL: any array will do */
  uint64_t since, as_of, memory_bytes;
  bool uint64_signed;
  tsx_array *array; /* one reference; NULL until tsx_address_array, except for a table's address */
};

/* Returns the source of labels for slices of the address's open array. */
static inline tsx_label_source tsx_address_labels(const tsx_address *address) {
  return (tsx_label_source){address->array->core, address->since, address->as_of, address->memory_bytes};
}

/* Returns a table that this connection has connected, by name; NULL if there is none. SQLite keeps one that was dropped
 * for as long as a statement that was prepared before holds it, so the caller asks the schema whether the name is still
 * an array's (tsx_table_kind_find). If the table was made again, and a statement prepared since, it is the new one. */
tsx_table *tsx_table_connected(const tsx_connection *connection, const char *schema, const char *name);

/* tsx_schema_kind with an error. */
int tsx_table_kind_find(const tsx_connection *connection, const char *schema, const char *name, tsx_table_kind *kind,
                        tsr_error *error);

/* Resolves a path argument: `path` is a directory, 'db:NAME' or 'db:SCHEMA.NAME'. `key`, `as_of` and `since` may be
 * NULL or SQL NULLs. Opens no array, except that of a table. The caller closes the address, also after a failure. */
int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error);

/* The same for a function that may write what the path leads to: first publishes deferred commits there
 * (tsx_deferred_try). */
int tsx_address_open_to_write(tsx_connection *connection, sqlite3_value *path, tsx_address *address, tsr_error *error);

/* Opens address->array unless it is open. TSR_ERROR if the open transaction has changed the array: functions that look
 * inside an array show committed cells only. */
int tsx_address_array(tsx_address *address, tsr_error *error);

/* The same for a function that reads the schema and labels, which no transaction changes, and no cell. */
int tsx_address_labelled(tsx_address *address, tsr_error *error);

/* Stores the name of a schema that the caller has seen; tsx_address_schema checks it. NULL and an SQL NULL change
 * nothing. */
int tsx_address_expect(tsx_address *address, sqlite3_value *schema, tsr_error *error);

/* Gives the schema in force at address->as_of, after listing the array again. The array must be open. TSR_ERROR if it
 * lacks the schema that the caller has seen: it was replaced by another array. */
int tsx_address_schema(tsx_address *address, const tsr_schema **schema, tsr_error *error);

/* The same check against the last listing: does not list again. */
int tsx_address_check(const tsx_address *address, tsr_error *error);

/* Appends a hint to a TSR_NOT_FOUND error if the path that was not found is the name of a table. */
void tsx_address_hint(const tsx_address *address, tsr_error *error);

/* Sets the error "array or group not found", with that hint. Returns TSR_NOT_FOUND. */
int tsx_address_not_found(const tsx_address *address, tsr_error *error);

/* Resolves a path argument to the directory, or to the place in the database, whether or not anything exists there.
 * *path is from sqlite3_malloc. 'db:NAME' is in the main database if there is no table of that name. */
int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error);

void tsx_address_close(tsx_address *address);

/* Returns the canonical form of a path: the same text for all paths that lead to one directory, which need not exist
 * yet. From sqlite3_malloc; NULL if memory is lacking. */
char *tsx_path_canonical(const char *path);

/* Fails if what is made at a path would lie within an array: readers and checks take it for debris. Symbolic links are
 * followed. In buckets nothing is looked at: it would be a request for each directory. */
int tsx_place_check(tsx_connection *connection, const char *path, tsr_error *error);

/* Fails if one place of a copy lies within the other. */
int tsx_places_apart(const char *from, const char *to, tsr_error *error);

/* tsr_creation_prepare, for a path that the user has given: with tsx_place_check. */
int tsx_creation_begin(tsx_connection *connection, const char *path, const tsr_schema *schema,
                       const tsr_create_options *options, tsr_creation **creation, tsr_error *error);

/* Copies the key that tsx_key_set has stored for a path. Returns false if there is none. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);

/* Stores a copy of the key for a path and replaces an earlier one. NULL removes the key. TSR_NOMEM. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);

/* ---- module.c: the virtual table module, and tsx_table ----------------------------------------------------------- */
/* module.c creates, connects, renames and drops tables; the other files of this folder read and write them. */

typedef struct tsx_table_columns { /* the columns as declared to SQLite */
  char *declaration; /* the CREATE TABLE statement */
  const tsr_schema *enumerations; /* the schema whose enumerations the columns show: the newest one seen */
  char *hidden[3]; /* names of the hidden columns as_of, since and written_at, which follow the fields */
} tsx_table_columns;

typedef struct tsx_table_cursors { /* cursor.c; by these numbers, update.c knows which rows a scan has chosen */
  uint64_t opened; /* number of the newest cursor: counts xOpen */
  uint64_t filtered; /* number of the newest cursor that xFilter was called for */
  uint64_t used; /* colUsed of the last plan: predicts which columns the next statement reads */
  struct tsx_cursor *idle; /* a closed cursor for the next xOpen to reuse, or NULL; owned */
  bool read_at_other_time; /* the last rowid read came from a query with as_of or since */
} tsx_table_cursors;

typedef struct tsx_table_commit { /* the table's part in the connection's transactions (transaction.c, journal.c) */
  char id[TSX_ID_SIZE]; /* unique to this table, from NAME_config; "" until tsx_journal_find_id */
  bool begun; /* xBegin was called in this transaction */
  bool published; /* xCommit has published rows, and auto_consolidate has not seen it yet */
  uint64_t attempt; /* the connection's count of attempts at the last xSync */
} tsx_table_commit;

typedef struct tsx_column_order { /* see tsx_column_order_make; NULL: both numbers of each column are the same */
  int *own; /* by SQL's number */
  int *sql; /* by own number */
  sqlite3_value **values; /* buffer for the arguments of xUpdate */
} tsx_column_order;

struct tsx_table {
  sqlite3_vtab base;
  struct tsx_table *next; /* in the connection's list */
  tsx_connection *connection;
  uint64_t serial; /* no other table that this connection has connected has the same; from 1 */
  char *schema_name, *name; /* database and name of the SQL table */
  char *home; /* the database that relative paths are relative to: schema_name, or SCHEMA for the path db:SCHEMA.NAME */
  char *path; /* of the array: from tsx_path_resolve, or db:SCHEMA.NAME in the database */
  bool in_database; /* the array's files are in shadow tables of this table; not for the path db:SCHEMA.NAME */
  uint32_t column_count; /* without hidden columns */
  tsx_column *columns;
  tsx_array *array; /* one reference; NULL if the array could not be opened */
  const tsr_schema *schema; /* the schema whose fields the columns show; borrowed from the array */
  tsx_options options;
  tsx_label_column *labels; /* columns of the array's dimension labels */
  uint32_t label_count;
  struct tsx_label_array *label_arrays; /* other arrays that have labels; owned */
  tsx_column_order order;
  tsx_table_columns declared;
  tsx_table_cursors cursors;
  tsx_table_commit commit;
  tsx_update_state *update; /* state of the statement that writes the table (update.c), or NULL; owned */
  struct tsx_registered *registered; /* of a path in FROM (path_table.c), or NULL */
};

/* Own numbers of the hidden columns; those of labels follow. For own numbers and SQL's see tsx_column_order_make. */
#define TSX_AS_OF(table)      ((int)(table)->column_count)
#define TSX_SINCE(table)      ((int)(table)->column_count + 1)
#define TSX_WRITTEN_AT(table) ((int)(table)->column_count + 2)
extern const sqlite3_module *const tsx_module_array;
extern const sqlite3_module *const tsx_module_path; /* of a registered table, whose text is the path of its array */

/* Opens table->array if the array was missing when the table was connected. Fails if it is still missing, or if its
 * columns are not the ones that were declared to SQLite. */
int tsx_table_ready(tsx_table *table, tsr_error *error);

/* ---- columns.c: the columns of a table --------------------------------------------------------------------------- */

/* Makes columns show values that have been added to their enumerations: takes those of the newest listed schema. */
int tsx_table_update_enumerations(tsx_table *table, tsr_error *error);

/* ---- integrity.c: PRAGMA integrity_check, and findings of the core's check --------------------------------------- */
/* Collected for tessera_check and for PRAGMA integrity_check. */

typedef struct tsx_finding {
  tsr_severity severity;
  char *file, *message; /* owned */
} tsx_finding;

typedef struct tsx_findings { /* `= {0}` is the empty list */
  tsx_finding *items; /* owned */
  uint64_t count, capacity;
} tsx_findings;

/* Appends a copy of a finding; `argument` is the tsx_findings. The callback for tsr_array_check. Returns TSR_OK or
 * TSR_NOMEM. */
int tsx_findings_keep(void *argument, const tsr_finding *finding);

/* Frees the findings and leaves the list empty. */
void tsx_findings_free(tsx_findings *all);

/* ---- changes_table.c: the module tessera_changes ----------------------------------------------------------------- */

/* Registers the module. Returns SQLite's code. */
int tsx_register_changes(tsx_connection *connection);

/* ---- path_table.c: a path in FROM -------------------------------------------------------------------------------- */

/* Gives the table of a path in FROM: a text that has a '/', or names an array. A relative path is relative to the
 * directory of the database `home`; for "temp", to the working directory. Returns 1, or 0 if the text is no path. *name
 * is valid until the connection's next table is registered; the table is in no database, and connects as one of "main".
 * `limits`: its memory, in whole MiB, and threads, where they are not 0; NULL: the defaults.
 * TSR_NOT_FOUND, TSR_PERM; TSR_ERROR for a group. */
int tsx_path_table(tsx_connection *connection, const char *home, const char *path, const tsx_option_limits *limits,
                   const char **name, tsr_error *error);

/* ---- labels.c: columns of dimension labels ----------------------------------------------------------------------- */
/* A label maps each coordinate of a dimension to another value, such as a latitude. Its column follows the dimension's
 * column (see tsx_column_order_make). A comparison with the label becomes ranges of the dimension. Attributes of other
 * arrays with one dimension serve as labels, too: with the option labels='group' of arrays beside the array in its
 * group, with labels='dimension=path' of any array. */

/* The values of a label between two times, shared by the cursors that read that state. */
typedef struct tsx_label_state {
  struct tsx_label_state *next;
  uint64_t since, as_of;
  tsr_label_index *index;
  uint32_t users; /* cursors; 0: the state may be reused, also for other times */
} tsx_label_state;

typedef struct tsx_label_array { /* another array whose attributes are labels of a dimension */
  struct tsx_label_array *next;
  tsx_array *array; /* one reference */
  char *last; /* the last part of its path, which tells its columns from those of others */
  const tsr_schema *schema; /* the schema whose attributes the labels show; borrowed from the array */
  uint32_t coordinate; /* number of the field that has the coordinates */
} tsx_label_array;

struct tsx_label_column {
  char *name; /* in SQL */
  uint32_t label; /* number in the schema; of a label of another array, the number of the attribute there */
  const tsx_label_array *other; /* the array that has the values; NULL: a label of the table's own array */
  bool named; /* by the option labels='dimension=path': hidden */
  uint32_t dimension; /* number of the field */
  tsr_field field; /* describes the values, like an attribute's field */
  tsx_column column; /* how SQL shows the values; without a name and a field number */
  tsx_label_state *states;
};

/* Returns the label column with the own number `column`, or NULL. */
static inline tsx_label_column *tsx_label_column_at(const tsx_table *table, int column) {
  const int first = TSX_WRITTEN_AT(table) + 1;
  return column >= first && column < first + (int)table->label_count ? &table->labels[column - first] : NULL;
}

/* Gives the state of the label between two times, without its values: tsr_label_load reads them. The caller releases
 * the state. */
int tsx_label_state_take(tsx_table *table, tsx_label_column *label, uint64_t since, uint64_t as_of,
                         tsx_label_state **state, tsr_error *error);
void tsx_label_state_release(tsx_label_state *state); /* NULL is allowed */

/* Sets the result of xColumn to the label of a dimension's cell: NULL if the coordinate has no label. */
void tsx_label_result(sqlite3_context *context, const tsx_label_column *label, const tsx_label_state *state,
                      const tsr_column *coordinates, uint64_t index);

/* ---- columns.c: the order of columns in SQL ---------------------------------------------------------------------- */
/* Each column has two numbers. Its own number counts the fields that the table shows, then as_of, since and written_at,
 * then the labels; the files of this folder use own numbers. SQL's number follows the order of SELECT * and of call
 * arguments: each dimension followed by its labels, the attributes, as_of, since, written_at, and then the other hidden
 * columns. A dimension that only numbers the coordinates of a label is hidden, like the dimension lat_index of the
 * label lat. */

/* Returns the own number of SQL's column. The rowid's number, which is negative, stays as it is. */
static inline int tsx_column_own(const tsx_table *table, int column) {
  return column < 0 || !table->order.own ? column : table->order.own[column];
}

/* Returns SQL's number of a column. */
static inline int tsx_column_sql(const tsx_table *table, int own) {
  return table->order.sql ? table->order.sql[own] : own;
}

/* ---- ddl.c: schemas as SQL text ---------------------------------------------------------------------------------- */
/* The CREATE VIRTUAL TABLE statement that would make an array, its filters, and the SQL function tessera_ddl. The
 * reverse of definition/define.h. */

/* Appends a filter pipeline in the form of FILTERS(...), without the word and the parentheses. */
void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);

/* Returns the filter pipeline of a field's values: a dimension without filters of its own uses those of the
 * coordinates. Borrowed from the schema. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);

/* The SQL function tessera_ddl(path[, options]). */
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values);

/* Appends the CREATE VIRTUAL TABLE statement that would make the array at the address. `made` is NULL, or the schema
 * of an array that is yet to be made at the address. */
int tsx_ddl_statement(sqlite3_str *out, const tsx_address *address, const tsr_schema *made, tsr_error *error);

/* ---- journal.c: the record of the commits that a database has committed, and recovery from it -------------------- */
/* Between xSync and xCommit, a commit to an array in a directory is prepared but not published. The shadow table
 * NAME_commits, written in the same transaction, tells after a crash whether the database has committed; the marker
 * beside the commit tells which database decides on it. The protocol is in journal.c, the reasons in
 * docs/commits.md. */

/* Returns 1 if tessera_recover would settle this commit because a database of the connection has committed or prepared
 * it; 0 if not; or an error. */
int tsx_journal_claims(tsx_connection *connection, const tsr_prepared *prepared, tsr_error *error);

/* The SQL function tessera_recover(path[, options]). */
void tsx_recover(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- deferred.c: deferred commits -------------------------------------------------------------------------------- */
/* Commits that xCommit could not publish although the database has committed, because the disk or the server failed at
 * the last step. The connection keeps them with their writers and creations. Its statements read them as committed, and
 * write nothing for that. They are published before the connection writes to the array, by tessera_recover, and when
 * the connection is closed, even if no record of a database names them. */

/* Call before the array at a path is written. Publishes the commits that are kept for it, the oldest first, and returns
 * how many. One that cannot be published is kept: then returns the error. */
int tsx_deferred_publish_path(tsx_connection *connection, const char *path, tsr_error *error);

/* ---- transaction.c: the changes of the open transaction, and the transaction methods ----------------------------- */

typedef struct tsx_transaction_owner { /* the owner of the transaction's commits (journal.c) */
  char *id, *file; /* id and path of the owner's database file, or NULL */
  char place[TSX_ID_SIZE]; /* place of that file if xSync must write the owner into NAME_config, else "" */
  char table[TSX_ID_SIZE]; /* id of the table that chose the owner and stores it */
} tsx_transaction_owner;

typedef struct tsx_savepoints {
  struct tsx_savepoint *list;
  uint32_t count, room;
} tsx_savepoints;

typedef struct tsx_transaction_sync { /* what xSync has done and found */
  bool done; /* xSync has run */
  uint64_t attempt; /* the connection's count of attempts when xSync ran last */
  bool published; /* only in the database: it has published, within SQLite's own transaction */
  bool alone; /* no other database file was written */
  unsigned data_version; /* of the database file */
} tsx_transaction_sync;

/* The changes that the open transaction makes to one array. They belong to the array, not to a table, because one table
 * may have two sqlite3_vtab objects in a transaction, and several tables may show one array. */
struct tsx_transaction {
  tsx_array *array; /* NULL once the transaction has ended; snapshots may still refer to its writer */
  uint32_t references; /* held by the array, by snapshots, by a running xUpdate */
  tsr_writer *writer; /* all changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, frozen when the transaction first wrote it */
  char *schema_name; /* the database of the tables that write it */
  tsx_transaction_owner owner;
  tsx_savepoints savepoints;
  const tsx_table *leader; /* the table that began it, which learns of each savepoint from then on; only compared */
  uint64_t rewinds; /* how often the writer was rewound */
  tsx_created_table *created; /* tables that this transaction has created */
  tsx_transaction_sync sync;
};

/* Returns the transaction of the table's array, and begins it if there is none. Borrowed until the transaction ends.
 * TSR_READONLY if the table has the option as_of. Fails if the array is missing, or if tables of another database write
 * the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);

/* Returns true if the open transaction has changed the array at this path. */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);

/* ---- function_savepoint.c: the savepoint of an SQL function ------------------------------------------------------ */
/* An SQL function that changes an array in the database makes all of its changes or none. Arrays in directories need no
 * savepoint: a commit to them is one step. */

/* Call before a function changes the array or group at `path`. Calls tsx_path_changed; for a path in the database it
 * opens the savepoint and takes the database's write lock. With the path "db:", without a table, the first statement of
 * the function takes the write lock instead. Call tsx_savepoint_end afterwards, also if this fails. TSR_BUSY if the
 * lock is not free. */
int tsx_savepoint_begin(tsx_connection *connection, const char *path, tsr_error *error);

/* Call before a function changes rows as a statement does: within the open transaction, or else within one of its own.
 * Opens the savepoint wherever the array is. Call tsx_savepoint_end afterwards, also if this fails. */
int tsx_savepoint_begin_rows(tsx_connection *connection, tsr_error *error);

/* Call before the function runs a statement that makes SQLite prepare all others again, such as CREATE VIRTUAL TABLE;
 * and afterwards with its result `code`, to prepare the statements that end the savepoint. Whatever fails in between,
 * the savepoint can be undone. tsx_savepoint_renew returns `code`, or its own error. Both do nothing if no savepoint is
 * open. No table can be dropped between the two calls. */
int tsx_savepoint_stand_by(tsx_connection *connection, tsr_error *error);
int tsx_savepoint_renew(tsx_connection *connection, int code, tsr_error *error);

/* Keeps the changes, or undoes them if `code` is an error. Returns `code`, or the error of keeping them. Whatever
 * interrupts it, it leaves no transaction open that the function has begun, and no change of a function that has
 * failed: as a last resort it rolls back the host's whole transaction, and the error says so. Does nothing if no
 * savepoint is open. */
int tsx_savepoint_end(tsx_connection *connection, int code, tsr_error *error);

/* Set the savepoint of the running function aside while statements or callbacks of the host run, because functions in
 * them have savepoints of their own; and restore it. */
tsx_function_savepoint tsx_savepoint_leave(tsx_connection *connection);
void tsx_savepoint_return(tsx_connection *connection, const tsx_function_savepoint *savepoint);

/* ---- overview_tables.c: where the levels of an array's overviews are --------------------------------------------- */
/* Level k of an array in a directory or bucket is PATH.overviews/k; of the table NAME in the database it is the table
 * NAME_overview_k. These tables are dropped and renamed with their table. */

#define TSX_LEVELS_MAX 40
#define TSX_LEVEL_KEY  "tessera_overview" /* metadata key of a level */

/* Returns the path of a level; for level 0, the directory of all levels. From sqlite3_malloc; NULL if memory is
 * lacking. */
char *tsx_level_path(const char *path, unsigned level);

/* Returns true if the table is a level of overviews. A table whose array cannot be opened is not. `key` is 32 bytes or
 * NULL. */
bool tsx_level_is(const tsx_connection *connection, const char *schema, const char *table, const uint8_t *key);

/* Drops the tables of a table's levels. A table that has such a name but is no level stays. `key` is 32 bytes or NULL.
 * *count: how many there were. */
int tsx_overview_tables_drop(tsx_connection *connection, const char *schema, const char *name, const uint8_t *key,
                             uint64_t *count, tsr_error *error);

#endif
