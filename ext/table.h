/* table.h: a table that is an array: what it names, how it is read and written, where it lives.
 *
 *   address.c     a path or db: address as an argument -> an open array; keys given for paths
 *   ddl.c         the other way: datatypes, filters and schemas as the text of CREATE VIRTUAL TABLE
 *   module.c      create, connect, destroy, rename of array tables; their declaration and shadow table
 *   creation.c    arrays that a CREATE makes, and when they appear
 *   transaction.c what the open transaction does to arrays: writers, savepoints, commit
 *   journal.c     NAME_commits: what this database has committed; recovery
 *   value_in.c    sqlite3_value -> the cells of a row to be written
 *   update.c      xUpdate: rows into the transaction's writers
 *   store_sqlite.c, store_tables.c              the files of arrays in the database; the shadow tables that hold them
 *   database.c    arrays in the database: made, brought in, taken out
 *   best_index.c  constraints <-> idxStr, rows and costs
 *   cursor.c      xFilter: a request to the core; xColumn: single values of its batches
 */
#ifndef TSX_TABLE_H
#define TSX_TABLE_H

#include "values.h"

/* ---- address.c ---- */
typedef struct tsx_address { /* what a path argument leads to; `= {0}` then close is safe */
  tsx_connection *connection;
  char *path; /* of the directory */
  char *given; /* as it was given, to the function or to the table */
  bool is_table; /* it is a db: address */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* of the table, as it says it; NULL if there is none */
  uint64_t since, as_of, memory_bytes;
  bool uint64_signed;
  tsx_array *array; /* held; NULL where tsx_address_array has not been called */
} tsx_address;
/* The names of the connection's databases: `code` is SQLITE_OK after the first, and SQLITE_DONE behind the last. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names);
const char *tsx_schemas_next(sqlite3_stmt *names, int *code);
/* `path` is a path or 'db:NAME', 'db:SCHEMA.NAME'; key, as_of and since may be NULL or SQL NULLs. Opens no array that
 * is not open. Whatever it returns, the caller closes the address. */
int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error);
int tsx_address_array(tsx_address *address, tsr_error *error);
/* The same of a table's name, with db: or without. */
int tsx_address_table(tsx_connection *connection, const char *name, tsx_address *address, tsr_error *error);
/* Adds to "not found" that there is a table of that name, where there is. */
void tsx_address_hint(const tsx_address *address, tsr_error *error);
int tsx_address_not_found(const tsx_address *address, tsr_error *error); /* "array or group not found", with that */
/* The directory or place in the database that a path argument means, whether or not something is there;
 * sqlite3_malloc'ed. A db: address of no table means one in the main database. */
int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error);
/* The text behind db: as names of a database (NULL: not given) and a table, sqlite3_malloc'ed. */
int tsx_address_parse(const char *text, char **schema, char **name, tsr_error *error);
void tsx_address_close(tsx_address *address);
/* One form of all paths that lead to a directory; sqlite3_malloc'ed. */
char *tsx_path_canonical(const char *path);
/* The key that was given for a path. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);
/* Keeps it, or forgets what there is if `key` is NULL. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);
void tsx_keys_free(tsx_connection *connection);

/* ---- ddl.c ---- */
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_ddl(path[, key]) */
/* What stands in the parentheses behind the path: kind, columns, options. `schema`: this one, of the address's array but
 * for what tessera_copy changes, its enumerations loaded; NULL: the one in force. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

/* ---- module.c ---- */
typedef struct tsx_table {
  sqlite3_vtab base;
  struct tsx_table *next; /* in the connection's list */
  tsx_connection *connection;
  char *schema_name, *name; /* of the SQL table */
  tsx_options options;
  char *path; /* resolved; db:SCHEMA.NAME in the database */
  bool in_database;
  tsx_array *array; /* NULL if it could not be opened */
  const tsr_schema *schema;
  const tsr_schema *labels; /* the schema that enumerated columns have their labels of: the newest seen */
  uint32_t column_count;
  tsx_column *columns;
  char *declaration; /* what SQLite was told */
  char *hidden[3]; /* names of the hidden columns, which stand behind the others: as_of, since, written_at */
  uint64_t opened, filtered; /* counts cursors; the newest that has been asked for rows */
  struct tsx_cursor *resting; /* one that was closed, for the next who opens one; or NULL */
  bool past; /* the row whose rowid was asked for last is of another time, given in the query */
  struct tsx_changes *changes; /* of statements that write it (update.c), or NULL */
  char id[TSX_ID_SIZE]; /* this table's and no other's, as NAME_config has it; "" if it has not been looked up */
  bool begun; /* xBegin has come in this transaction */
  uint64_t attempt; /* the connection's when xSync came last */
} tsx_table;
#define TSX_AS_OF(table)      ((int)(table)->column_count)
#define TSX_SINCE(table)      ((int)(table)->column_count + 1)
#define TSX_WRITTEN_AT(table) ((int)(table)->column_count + 2)
extern const sqlite3_module *const tsx_module_array;
/* The key of the table's array: key_file's, else the one that tessera_set_key gave. */
int tsx_table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error);
/* Sees to it that table->array is open: tries again if it was missing when the table was connected. */
int tsx_table_ready(tsx_table *table, tsr_error *error);
/* Takes up labels that enumerations have got since, as the newest snapshot has them. */
int tsx_table_labels(tsx_table *table, tsr_error *error);
/* Of a table whose array may be missing: where the hidden columns begin. */
int tsx_table_shown(const tsx_table *table);

/* ---- creation.c ---- */
/* Prepares the array that the table's options define, and opens it as table->array. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);
void tsx_creation_fail(tsx_table *table); /* nothing comes of it: xCreate failed, or DROP in the same transaction */
/* Publishes what a commit has left unpublished: 1 if there was something. */
int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error);
void tsx_creation_close(tsx_array *array, bool abandon); /* if there is one */
int tsx_creation_sync(sqlite3_vtab *vtab);
int tsx_creation_commit(sqlite3_vtab *vtab);
int tsx_creation_rollback(sqlite3_vtab *vtab);

/* ---- transaction.c ---- */
/* What the open transaction does to an array. It belongs to the array, not to a table: one table may have two
 * sqlite3_vtab objects in a transaction, and several tables may show one array. */
typedef struct tsx_newcomer tsx_newcomer;
typedef struct tsx_transaction {
  tsx_array *array; /* NULL once it has ended: cursors may still read what it showed */
  uint32_t references;
  tsr_writer *writer; /* all that changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, as it was when the transaction first wrote it */
  char *schema_name; /* the database whose tables write it */
  char *owner, *owner_file; /* whose its commits are: the id of that database's file, and its path; or NULL */
  char owner_place[TSX_ID_SIZE]; /* "": the table that began it has this owner in its record already, or cannot keep it */
  char owner_table[TSX_ID_SIZE]; /* the id of that table */
  struct tsx_savepoint *savepoints;
  uint32_t savepoint_count, savepoint_room;
  uint64_t rewinds; /* counts ways back */
  tsx_newcomer *newcomers;
  bool synced; /* xSync has run, */
  uint64_t attempt; /* last in this attempt of the connection to commit */
  bool published; /* in the database: by xSync, in SQLite's own transaction */
  bool alone; /* no other database file was written then */
  unsigned data_version; /* of the database file, then */
} tsx_transaction;
/* The array's; begun if there is none. Borrowed until the transaction ends. Fails where the table is read-only (as_of)
 * or its array missing, and where tables of another database write the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);
/* Has the open transaction rows for the array at this path? */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);
/* What statements on the table see now, without times of their own: its state and the transaction's changes. Held;
 * dropped by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);
/* Rows of tables whose CREATE has been taken back go: before anybody looks at what is written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);
/* The table is to be dropped: fails if the transaction has rows for its array. */
int tsx_transaction_leave(tsx_table *table, tsr_error *error);
void tsx_transaction_close(tsx_array *array); /* when the array is closed or was not made: what is not synced goes */
/* One that has no rows yet lets go of the state that it has pinned: a function is about to change the array, which the next
 * row, that begins it again, is to be written on. */
void tsx_transaction_rest(tsx_array *array);
void tsx_transaction_drop(tsx_transaction *transaction); /* a reference */
int tsx_begin(sqlite3_vtab *vtab);
/* SQLite's transaction as a callback found it. A statement of ours that runs out of memory, or meets a disk that fails,
 * is fatal to it, even where we can do without its answer; SQLite must not go on as if nothing had happened. */
typedef struct tsx_watch {
  bool open, writes;
} tsx_watch;
tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

/* ---- journal.c ---- */
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

/* ---- value_in.c ---- */
typedef struct tsx_row tsx_row; /* one row of a table on its way into a writer */
struct tsx_table;
/* For writers of `schema`, which may be newer than the table's. Freed by tsx_row_free. */
int tsx_row_make(struct tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* NULL is fine */
const tsr_schema *tsx_row_schema(const tsx_row *row);
/* One cell for each field of the schema, as it was set last. Borrowed. */
const tsr_column *tsx_row_columns(const tsx_row *row);
/* The field of the table's column, -1 if it is gone; and the column that shows a field, -1 if none does. */
int tsx_row_field(const tsx_row *row, uint32_t column);
int tsx_row_shown(const tsx_row *row, uint32_t field);
bool tsx_row_is_complete(const tsx_row *row); /* each column has a field, and each field a column */
/* Sets a field's cell. NULL is null; in an INSERT the DEFAULT where it cannot be null, which has to be declared then.
 * TSR_CONSTRAINT: it cannot be NULL; TSR_MISMATCH, TSR_RANGE: the value does not fit. Texts and blobs stay SQLite's. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);
/* The same of all fields, by the table's columns, in an INSERT where the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);
/* The bytes of another cell, borrowed. */
void tsx_row_keep(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);

/* ---- update.c ---- */
typedef struct tsx_changes tsx_changes; /* what statements that write a table are about */
/* xUpdate. What fails leaves the writer as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);
/* A row that a statement's scan has chosen, by the number of its cursor (tsx_table.opened). */
void tsx_update_touch(tsx_table *table, uint64_t cursor, int64_t row);
/* That scan has ended. If nothing has come of it when the next one begins, its rows are forgotten: it was no UPDATE. Where the
 * next has been opened but not asked yet, it is the next part of the same: the other side of an OR. */
void tsx_update_scanned(tsx_table *table, uint64_t cursor);
void tsx_update_forget(tsx_table *table);
void tsx_update_end(tsx_table *table); /* the transaction ends: lets go of all that is held of it */
void tsx_update_free(tsx_table *table);

/* ---- store_sqlite.c, store_tables.c ---- */
typedef struct tsx_tree tsx_tree;
int tsx_store_register(tsx_connection *connection, tsr_error *error);
/* The write lock of the database that a path leads into, waiting for it as long as the host wants: only the failure to
 * get it is one. */
int tsx_store_lock(tsx_connection *connection, const char *path, tsr_error *error);
bool tsx_store_is(const char *path); /* does it lead into the database? */
char *tsx_store_path(const char *schema, const char *name); /* db:SCHEMA.NAME; sqlite3_malloc'ed */
/* Makes the shadow tables of an array, empty. */
int tsx_store_create(tsx_connection *connection, const char *schema, const char *name, tsr_error *error);
/* What an array is known by, whatever its table's name; sqlite3_malloc'ed. TSR_NOT_FOUND where there is none. */
int tsx_store_identity(tsx_connection *connection, const char *path, char **identity, tsr_error *error);
/* Lets go of the read transaction; if `all`, of statements and names too: tables have been renamed, or all are gone. */
void tsx_store_rest(tsx_connection *connection, bool all);
void tsx_store_rolled_back(tsx_connection *connection); /* the same, and what failed in them is over */

/* ---- database.c ---- */
/* Makes the array of a table that lives in the database; `schema` NULL: the one that tsx_database_create makes. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);
/* Runs the CREATE VIRTUAL TABLE of a new array in the database, `name` being a table's, db: before it or not: with all
 * that is in the array `source`; or, where `schema` is given, an empty one of this schema, which differs from the
 * source's as in tsx_ddl_arguments. The source's key comes along. `path`, which may be NULL: where it is, of
 * sqlite3_malloc. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);
void tsx_export(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_export(table, path) */
void tsx_import(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_import(table, path) */

/* ---- best_index.c ---- */
/* What idxStr says, decoded. */
typedef struct tsx_term {
  int column;
  tsx_op op;
  bool nocase; /* text, compared without case */
  bool numeric; /* text, perhaps compared as a number where it looks like one */
  bool plainly; /* as TSX_PLAINLY */
} tsx_term; /* in the order of xFilter's arguments */
#define TSX_TERMS_MOST 64 /* what is beyond is left to SQLite */
typedef struct tsx_access {
  uint32_t count, order_count;
  tsx_term terms[TSX_TERMS_MOST];
  struct tsx_access_order {
    int column;
    bool descending;
  } order[TSX_TERMS_MOST]; /* by dimensions */
  bool distinct; /* of rows that are equal in the order's dimensions, one is enough */
  bool missing; /* as_of or since is used, and not given */
  bool limit, offset; /* are arguments, too, behind those of the terms */
  bool skip; /* the table leaves out the rows of OFFSET itself */
} tsx_access;
int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);
/* Says that as_of (0) or since (1) is used otherwise than as an argument: SQLITE_ERROR. */
int tsx_time_misused(tsx_table *table, int which);
/* Decodes idxStr against the table's columns; SQLITE_ERROR if it does not fit. */
int tsx_access_decode(const tsx_table *table, const char *text, tsx_access *access);
char *tsx_access_encode(const tsx_table *table, const tsx_access *access);
/* How many arguments xFilter gets. */
uint32_t tsx_access_arguments(const tsx_access *access);

/* ---- cursor.c ---- */
int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
void tsx_cursor_forget(tsx_table *table); /* the one that rests */
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

#endif
