/* table.h: the arrays that a connection has open, and the state of each array that a statement sees.
 *
 * All tables and functions of a connection share one tsx_array for each array and key. VACUUM and changes of the
 * database's schema disconnect tables for a moment; so that decoded tiles outlive that, an array stays open for some
 * time after its last user has released it. A tsx_snapshot is one state of an array, which all cursors of a statement
 * share. */
#ifndef TSX_TABLE_TABLE_H
#define TSX_TABLE_TABLE_H

#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/slice.h"
#include "values/value.h"

typedef struct tsx_transaction tsx_transaction;

typedef struct tsx_snapshot { /* one state of an array, as a statement sees it */
  struct tsx_snapshot *next;
  const tsr_schema *schema; /* whose fields the snapshot shows */
  uint64_t since, as_of;
  uint64_t
      statement; /* the statement that it was made for; 0 once the array has changed: no more cursors may take it */
  tsr_snapshot *core;
  uint32_t cursors; /* cursors, and others, that have not released it yet */
  struct tsx_transaction *transaction; /* the transaction whose changes it shows, or NULL; one reference is owned */
  tsr_mark mark; /* with a transaction: the changes up to this mark ... */
  uint64_t rewinds; /* ... after this many rewinds of the writer */
  bool undone; /* some of these changes have been rolled back */
} tsx_snapshot;

typedef struct tsx_array_making { /* what belongs to an array that the open transaction makes */
  tsr_creation *creation; /* NULL: the transaction does not make the array; owned (transaction.c) */
  char *name; /* names this creation and no other: its schema's name and a random number */
  char *schema; /* the database that has the new table */
  bool table_exists; /* xSync has found the table's record, so its CREATE was not rolled back */
  bool synced; /* xSync has run */
  bool checked; /* forget_orphans has looked whether its table still exists */
  unsigned data_version; /* of the database file, at xSync */
} tsx_array_making;

struct tsx_array { /* an array that this connection has open */
  struct tsx_array *next;
  char *path; /* what tsx_array_key gives */
  bool in_database; /* it lives in shadow tables: its commits are part of SQLite's own */
  uint64_t permitted; /* the connection's restrictions when tsx_array_permitted last allowed the path */
  bool has_key;
  uint8_t key[32];
  tsr_array *core;
  uint32_t references; /* of tables and addresses (table.h); 0: the array is idle */
  uint64_t used; /* the connection's clock when the last reference was released */
  uint64_t statement; /* the statement that `snapshots` were made for */
  tsx_snapshot *snapshots;
  uint32_t snapshot_count;
  tsx_array_making making;
  bool gone; /* the array was not made after all: nothing finds it by its path any more */
  struct tsx_transaction *transaction; /* the changes of the open transaction, or NULL (transaction.c) */
};

/* The functions by which a connection opens and closes what lies above connection.h. */
extern const tsx_connection_hooks tsx_open_array_hooks;

/* Returns the array at a path, and opens it if it is not open yet. `key` is 32 bytes, or NULL. `cache_bytes` bounds the
 * array's cache of decoded tiles, 0 switches it off; TSX_CACHE_AS_IS leaves the bound as it is. The caller releases the
 * array by tsx_array_release. TSR_NOT_FOUND, TSR_AUTH, and what else the core may return. */
#define TSX_CACHE_AS_IS UINT64_MAX
int tsx_array_open(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                   unsigned threads, tsx_array **array, tsr_error *error);

/* Does the same for an array that is prepared and not published yet. Takes ownership of the creation if it succeeds. */
int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error);

/* Gives a reference back. The array stays open until too many others have been released after it. `array` may be
 * NULL. */
void tsx_array_release(tsx_connection *connection, tsx_array *array);

/* Finds the text by which open arrays are told apart: the canonical path, or the identity of an array in the database.
 * *key is from sqlite3_malloc. */
int tsx_array_key(tsx_connection *connection, const char *path, char **key, tsr_error *error);

/* Fails with TSR_PERM if tessera_restrict has bound the connection to a directory and the array lies outside. Call it
 * when a statement begins to use an array that is open already: its snapshots and cached tiles need no more files. Looks
 * at the path once after each call of tessera_restrict. */
int tsx_array_permitted(tsx_connection *connection, tsx_array *array, tsr_error *error);

/* Returns the state between two times, inclusive, that the running statement sees; all cursors of the statement get the
 * same one. With `with_changes`, and where as_of is TSR_TIME_NOW, the open transaction's changes are on top. The caller
 * releases the snapshot by tsx_snapshot_release. First publishes earlier commits that could not be published, and fails
 * with the error if it still cannot (tsx_postponed_publish). */
int tsx_array_snapshot(tsx_connection *connection, tsx_array *array, const tsr_schema *schema, uint64_t since,
                       uint64_t as_of, bool with_changes, tsx_snapshot **snapshot, tsr_error *error);

/* Gives a snapshot back. It stays with its array for other cursors of the statement. `snapshot` may be NULL. */
void tsx_snapshot_release(tsx_snapshot *snapshot);

/* Call when the transaction's changes after `kept` are rolled back: statements that are still reading them fail. */
void tsx_snapshots_undo(tsx_array *array, const struct tsx_transaction *transaction, tsr_mark kept);

/* Fails with TSR_ABORT if the snapshot shows changes that have been rolled back since. `snapshot` may be NULL. */
int tsx_snapshot_check(const tsx_snapshot *snapshot, tsr_error *error);

/* Call when this connection has changed the array: cursors that open from now on see the new state, within the running
 * statement too. */
void tsx_array_changed(tsx_array *array);

/* Does the same for the array at a path, if it is open. Call it before the change, too, so that the function which
 * makes the change looks at the present state: a transaction on the array that has no rows yet gives its older state
 * up. */
void tsx_path_changed(tsx_connection *connection, const char *path);

/* Closes what this connection has open of the array at a path and does not need. Call it before the array is removed:
 * Windows may keep a directory as long as files of it are open. */
void tsx_path_close(tsx_connection *connection, const char *path);

/* Closes the snapshots that no cursor reads. */
void tsx_array_trim(tsx_array *array);

/* Returns the state that statements on the table see now: between the table's own since and as_of, with the
 * transaction's changes. The caller releases it by tsx_snapshot_release. */
int tsx_table_snapshot(tsx_table *table, tsx_snapshot **snapshot, tsr_error *error);

/* Arrays that live in the database itself. CREATE VIRTUAL TABLE without a path makes them empty;
 * tessera_import and tessera_copy make them from another array, through a CREATE VIRTUAL TABLE of their own. */

typedef struct tsx_address tsx_address;
typedef struct tsx_table tsx_table;

/* Makes the array of a table that lives in the database, and opens it as table->array. Call it from xCreate. `schema`
 * NULL: the CREATE is that of tsx_database_create, which says what to make. `key` is 32 bytes or NULL. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);

/* Runs the CREATE VIRTUAL TABLE of a new array in the database. `name` is the table's, with or without "db:". With
 * `schema` NULL the array gets all files of the array `source`; else it is empty and has this schema, which may differ
 * from that of `source` as tsx_ddl_arguments says. The new array has the source's key. *path, where `path` is not NULL,
 * is where the array is, from sqlite3_malloc. With a schema a savepoint is open afterwards: the caller ends it by
 * tsx_savepoint_end, after a failure too. */
int tsx_database_create(tsx_connection *connection, const char *name, const tsx_address *source,
                        const tsr_schema *schema, char **path, tsr_error *error);

/* Path arguments of SQL functions and of table-valued functions, and the keys that tessera_set_key gives for
 * paths.
 *
 * A tsx_address is a path argument together with the key and the times that come with it. Order of use:
 * tsx_address_open or tsx_address_table, tsx_address_array where the array is needed, tsx_address_close. */

typedef struct tsx_address { /* `= {0}` may be closed */
  tsx_connection *connection;
  char *path; /* of the directory, or of the place in the database: for functions of the core */
  char *given; /* the path as the user gave it, to the function or in the table's definition */
  bool is_table; /* the argument was 'db:NAME' */
  bool has_key;
  uint8_t key[32];
  char *key_file; /* the table's option key_file as the user gave it, or NULL */
  char *seen; /* the name of a schema that the array must have; NULL: any array will do */
  uint64_t since, as_of, memory_bytes;
  bool uint64_signed;
  tsx_array *array; /* one reference; NULL until tsx_address_array, unless the address is that of a table */
} tsx_address;

/* Returns the source of the labels that slices of the address's open array may name. */
static inline tsx_label_source tsx_address_labels(const tsx_address *address) {
  return (tsx_label_source){address->array->core, address->since, address->as_of, address->memory_bytes};
}

/* Prepares a list of the names of the connection's databases. tsx_schemas_next returns one name after the other, NULL
 * at the end; the name is borrowed until the next call. *code is SQLITE_OK, the result of the preparation, before the
 * first call; it is SQLITE_DONE at the end, else SQLite's error. The caller finalizes the statement. */
int tsx_schemas_prepare(sqlite3 *db, sqlite3_stmt **names);
const char *tsx_schemas_next(sqlite3_stmt *names, int *code);

/* Finds where a path argument leads: `path` is a directory, 'db:NAME' or 'db:SCHEMA.NAME'. `key`, `as_of` and `since`
 * may be NULL or SQL NULLs. No array is opened but that of a table. The caller closes the address, after a failure
 * too. */
int tsx_address_open(tsx_connection *connection, sqlite3_value *path, sqlite3_value *key, sqlite3_value *as_of,
                     sqlite3_value *since, tsx_address *address, tsr_error *error);

/* Opens address->array if it is not open. TSR_ERROR where the open transaction has changed the array: the functions
 * that look inside an array show committed cells only. */
int tsx_address_array(tsx_address *address, tsr_error *error);

/* Keeps the name of a schema that the caller has seen, for tsx_address_schema. NULL and an SQL NULL change nothing. */
int tsx_address_expect(tsx_address *address, sqlite3_value *schema, tsr_error *error);

/* Gives the schema in force at address->as_of, after a new listing. The array is open. TSR_ERROR if the array lacks the
 * schema that the caller has seen: another array has taken its place. */
int tsx_address_schema(tsx_address *address, const tsr_schema **schema, tsr_error *error);

/* The test of tsx_address_schema, by the last listing. */
int tsx_address_check(const tsx_address *address, tsr_error *error);

/* Does what tsx_address_open does, for the name of a table with or without "db:". */
int tsx_address_table(tsx_connection *connection, const char *name, tsx_address *address, tsr_error *error);

/* Appends a hint to an error of the code TSR_NOT_FOUND, where the path that was not found is the name of a table. */
void tsx_address_hint(const tsx_address *address, tsr_error *error);

/* Sets the error "array or group not found", with that hint. Returns TSR_NOT_FOUND. */
int tsx_address_not_found(const tsx_address *address, tsr_error *error);

/* Returns the directory, or the place in the database, that a path argument means, whether or not something exists
 * there. *path is from sqlite3_malloc. 'db:NAME' without a table of that name means one in the main database. */
int tsx_address_path(tsx_connection *connection, const char *text, char **path, tsr_error *error);

void tsx_address_close(tsx_address *address);

/* Returns the canonical form of a path: the same text for all paths that lead to a directory, which need not exist yet.
 * From sqlite3_malloc; NULL where there is no memory. */
char *tsx_path_canonical(const char *path);

/* Copies the key that tsx_key_set has given for a path. Returns false if there is none. */
bool tsx_key_find(const tsx_connection *connection, const char *path, uint8_t key[32]);

/* Keeps a copy of the key for a path, in place of the one before. NULL removes the key. TSR_NOMEM. */
int tsx_key_set(tsx_connection *connection, const char *path, const uint8_t *key, tsr_error *error);

/* Wipes and frees all keys of the connection. */
void tsx_keys_free(tsx_connection *connection);

/* The virtual table module of array tables, and tsx_table, which is one connected table: its options, its
 * columns and its open array. module.c makes, connects, renames and drops tables; the other files of this folder read
 * and write them. */

typedef struct tsx_changes tsx_changes;
typedef struct tsx_label_column tsx_label_column;

typedef struct tsx_table_columns { /* the columns that SQLite was told of */
  char *declaration; /* the CREATE TABLE statement */
  const tsr_schema *labels; /* the schema that enumerated columns have their labels of: the newest that was seen */
  char *hidden[3]; /* names of the hidden columns as_of, since and written_at, which come after all others */
} tsx_table_columns;

typedef struct tsx_table_cursors { /* cursor.c; update.c tells by the numbers which rows a scan has chosen */
  uint64_t opened; /* counts cursors: the number of the newest */
  uint64_t filtered; /* the number of the newest cursor for which xFilter was called */
  uint64_t used; /* colUsed of the last plan: a hint which columns the next statement reads */
  struct tsx_cursor *idle; /* a closed cursor that the next xOpen takes again, or NULL; owned */
  bool read_at_other_time; /* the row whose rowid was read last came from a query with as_of or since */
} tsx_table_cursors;

typedef struct tsx_table_commit { /* the table's part in the connection's transactions (transaction.c, journal.c) */
  char id[TSX_ID_SIZE]; /* belongs to this table alone, from NAME_config; "" until tsx_journal_find_id */
  bool begun; /* xBegin was called in this transaction */
  uint64_t attempt; /* the connection's count of attempts when xSync was called last */
} tsx_table_commit;

typedef struct tsx_column_order { /* labels.h; NULL: both numbers of each column are the same */
  int *own; /* by SQL's number */
  int *sql; /* by own number */
  sqlite3_value **values; /* room for the arguments of xUpdate */
} tsx_column_order;

typedef struct tsx_table {
  sqlite3_vtab base;
  struct tsx_table *next; /* in the connection's list */
  tsx_connection *connection;
  char *schema_name, *name; /* of the SQL table: its database, as SQL names it, and its name */
  char *path; /* of the array: as tsx_path_resolve gives it, or db:SCHEMA.NAME in the database */
  bool in_database;
  uint32_t column_count; /* without the hidden columns */
  tsx_column *columns;
  tsx_array *array; /* one reference; NULL if the array could not be opened */
  const tsr_schema *schema; /* whose fields the columns show; borrowed from the array */
  tsx_options options;
  tsx_label_column *labels; /* of the array's dimension labels (labels.h) */
  uint32_t label_count;
  tsx_column_order order;
  tsx_table_columns declared;
  tsx_table_cursors cursors;
  tsx_table_commit commit;
  struct tsx_changes *changes; /* of statements that write the table (update.c), or NULL; owned */
} tsx_table;

/* Own numbers of the hidden columns. Those of labels come after them; SQL's numbers are in labels.h. */
#define TSX_AS_OF(table)      ((int)(table)->column_count)
#define TSX_SINCE(table)      ((int)(table)->column_count + 1)
#define TSX_WRITTEN_AT(table) ((int)(table)->column_count + 2)
extern const sqlite3_module *const tsx_module_array;

/* Opens table->array if the array was missing when the table was connected. Fails if it is still missing, or if its
 * columns are not those that SQLite was given. */
int tsx_table_ready(tsx_table *table, tsr_error *error);

/* Lets columns show labels that were added to their enumerations since, as the newest listed schema has them. */
int tsx_table_labels(tsx_table *table, tsr_error *error);

/* Returns the number of columns that are not hidden. Works for a table whose array is missing, too. */
int tsx_table_visible_columns(const tsx_table *table);

/* XBestIndex, and the plan that it hands to xFilter. A tsx_access is the plan; idxStr is its text, whose
 * grammar stands at the head of best_index.c. */

typedef struct tsx_table tsx_table;

typedef struct tsx_term { /* one comparison; term n takes argument n of xFilter */
  int column; /* of the table; as_of and since, too */
  tsx_op op;
  bool nocase; /* texts are compared under NOCASE */
  bool numeric; /* a text may be compared as a number if it looks like one (tsx_numeric_range) */
  bool plainly; /* TSX_PLAINLY */
} tsx_term;

#define TSX_TERMS_MAX 64 /* comparisons beyond this many are left to SQLite */

typedef struct tsx_access {
  uint32_t count, order_count;
  tsx_term terms[TSX_TERMS_MAX];
  struct tsx_access_order {
    int column; /* a dimension, or a label of one */
    bool descending;
  } order[TSX_TERMS_MAX];
  bool distinct; /* of rows that are equal in all columns of the order, one is enough */
  bool limit, offset; /* LIMIT and OFFSET are arguments of xFilter, after those of the terms */
  bool skip; /* the table itself leaves out the rows of OFFSET */
} tsx_access;

/* xBestIndex. */
int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* Decodes idxStr for a table whose array is open. Returns SQLITE_OK, or SQLITE_ERROR if the text does not fit the
 * table. */
int tsx_access_decode(const tsx_table *table, const char *text, tsx_access *access);

/* Returns true if a term compares the column with something, so that rows with NULL in it do not count. */
bool tsx_access_excludes_null(const tsx_access *access, int column);

/* Returns how many arguments xFilter gets with this plan. */
uint32_t tsx_access_arguments(const tsx_access *access);

/* The columns of dimension labels. A label gives each coordinate of a dimension another value, such as
 * a latitude; its column stands behind that of the dimension (labels.h). A comparison with it becomes ranges of the
 * dimension. */

/* The values of a label between two times, for the cursors that read that state. */
typedef struct tsx_label_state {
  struct tsx_label_state *next;
  uint64_t since, as_of;
  tsr_label_index *index;
  uint32_t users; /* cursors; 0: the state may be read again, for other times too */
} tsx_label_state;

struct tsx_label_column {
  char *name; /* in SQL */
  uint32_t label; /* number in the schema; without meaning if `group` is set */
  char *group; /* path of the array of a group that has the coordinates; NULL: the label is the array's own */
  uint32_t dimension; /* number of the field */
  tsr_field field; /* describes the values, as an attribute */
  tsx_column column; /* how SQL shows them; has no name and no field number */
  tsx_label_state *states;
};

/* Returns true if the label falls along its dimension. Of one that lies in a group nobody says so. */
static inline bool tsx_label_falls(const tsx_table *table, const tsx_label_column *label) {
  return !label->group && table->schema->labels[label->label].data_order == 2;
}

/* Makes the table's label columns, from its schema and its option `labels`. tsx_label_columns_free frees them. */
int tsx_label_columns_make(tsx_table *table, tsr_error *error);
void tsx_label_columns_free(tsx_table *table);

/* Returns the label whose column has the own number `column`, or NULL. */
static inline tsx_label_column *tsx_label_column_at(const tsx_table *table, int column) {
  const int first = TSX_WRITTEN_AT(table) + 1;
  return column >= first && column < first + (int)table->label_count ? &table->labels[column - first] : NULL;
}

/* Gives the label as it was between two times, without its values: tsr_label_load reads them. The caller releases the
 * state. */
int tsx_label_state_take(tsx_table *table, tsx_label_column *label, uint64_t since, uint64_t as_of,
                         tsx_label_state **state, tsr_error *error);
void tsx_label_state_release(tsx_label_state *state); /* NULL is allowed */

/* Returns 1 if all coordinates of the snapshot's cells have a label, and none is shown as another type than the others;
 * else 0. The state has its values. */
int tsx_label_whole(const tsx_label_column *label, const tsx_label_state *state, tsr_snapshot *snapshot,
                    tsr_error *error);

/* Finds the coordinate whose label, as it is at present, equals a value. TSR_RANGE: there is none; TSR_MISMATCH: the value
 * has another type than the label. */
int tsx_label_coordinate_of(tsx_table *table, tsx_label_column *label, sqlite3_value *value, uint8_t coordinate[8],
                            tsr_error *error);

/* Makes the value of a cell of the dimension the result of xColumn: NULL if the coordinate has no label. */
void tsx_label_result(sqlite3_context *context, const tsx_label_column *label, const tsx_label_state *state,
                      const tsr_column *coordinates, uint64_t index);

/* The numbers that SQL has for the columns of a table.
 *
 * Two numbers belong to each column. Its own one counts the fields that the table shows, then as_of, since and
 * written_at, then the labels: the files of this folder mean that number. SQL counts the columns as SELECT * and the
 * arguments of a call have them: each dimension with the labels behind it, the attributes, as_of, since, written_at, and
 * what else is hidden. A dimension is hidden that only numbers the coordinates of a label: the dimension lat_index of the
 * label lat. */

/* Makes the order of the table's columns, once its fields and labels are known. tsx_column_order_free frees it. */
int tsx_column_order_make(tsx_table *table, tsr_error *error);
void tsx_column_order_free(tsx_table *table);

/* Returns the own number of SQL's column; that of the rowid, which is negative, stays as it is. */
static inline int tsx_column_own(const tsx_table *table, int column) {
  return column < 0 || !table->order.own ? column : table->order.own[column];
}

/* Returns the number that SQL has for a column. */
static inline int tsx_column_sql(const tsx_table *table, int own) {
  return table->order.sql ? table->order.sql[own] : own;
}

/* Returns the arguments of an INSERT or UPDATE with the values of the row in the order of the own numbers: two values and
 * then the row. They are valid until the next call. */
sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values);

/* Rows in the order of labels of which some are missing. SQLite sorts NULL before all values, but the
 * coordinates without a label lie anywhere. So the rows' coordinates are read first, and sorted; then the reader reads
 * the cells of one coordinate after the other. */

typedef struct tsx_label_order { /* `= {0}` is none */
  uint64_t *words; /* records of `size` words: how many words follow; the keys of the order; the coordinates */
  uint64_t count, room, at; /* records; `at` is the next one */
  uint32_t size, dimensions;
  tsr_request request; /* of one coordinate */
  tsr_range *points; /* by dimension, in one block with the ranges of the request */
} tsx_label_order;

/* Reads and sorts the coordinates of all rows of a request. `states` has the state of each label of the order, with its
 * values. TSR_BUDGET: they need more than the table's memory_mb. */
int tsx_label_order_open(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                         const tsx_access *access, tsr_reader *reader, const tsr_request *request, tsr_error *error);
void tsx_label_order_close(tsx_label_order *order);

/* Starts the reader for the cells of the next coordinate. Returns 1; 0 if there is none. */
int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error);

/* Coordinates that lie in a group beside an array, as labels of its dimensions (option labels='group'). */

/* The cursor methods of array tables: xFilter makes a request of its arguments and starts a reader, xNext
 * walks the rows of the reader's batches, xColumn takes single values out of their columns. */

typedef struct tsx_table tsx_table;

int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* Frees the table's idle cursor, if it has one. */
void tsx_cursor_forget(tsx_table *table);

/* Lets the table's idle cursor give up the tiles that it keeps. Call it when the statement has ended. */
void tsx_cursor_forget_tiles(tsx_table *table);

/* Schemas as SQL text: the CREATE VIRTUAL TABLE statement that would make such an array, its filters, and the
 * SQL function tessera_ddl. The reverse of definition/define.h. */

typedef struct tsx_address tsx_address;

/* Appends a filter pipeline as FILTERS(...) takes it, without the word and the parentheses. */
void tsx_filters_append(sqlite3_str *out, const tsr_pipeline *pipeline);

/* Returns the pipeline that the values of a field go through: a dimension without filters of its own has those of the
 * coordinates. Borrowed from the schema. */
const tsr_pipeline *tsx_filters_of(const tsr_schema *schema, uint32_t field);

/* The SQL function tessera_ddl(path[, key]). */
void tsx_ddl(sqlite3_context *context, int count, sqlite3_value **values);

/* Appends what stands in the parentheses of CREATE VIRTUAL TABLE after the path: kind, columns and options. `schema`
 * NULL means the schema in force at the address's as_of. Another schema is that of the address's array with the changes
 * that tessera_copy makes to it, or that of an array that is to be made there, with its enumerations loaded. The
 * address's array is open, unless it is to be made. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

/* Appends the whole statement. `made` is NULL, or the schema of an array that is to be made at the address. */
int tsx_ddl_statement(sqlite3_str *out, const tsx_address *address, const tsr_schema *made, tsr_error *error);

/* Collects the findings of the core's check, for tessera_check and for PRAGMA integrity_check. */

typedef struct tsx_finding {
  tsr_severity severity;
  char *file, *message; /* owned */
} tsx_finding;

typedef struct tsx_findings { /* `= {0}` is the empty list */
  tsx_finding *items; /* owned */
  uint64_t count, capacity;
} tsx_findings;

/* Appends a copy of a finding; `argument` is the tsx_findings. Pass this function to tsr_array_check. Returns TSR_OK or
 * TSR_NOMEM. */
int tsx_findings_keep(void *argument, const tsr_finding *finding);

/* Frees the findings and leaves the list empty. */
void tsx_findings_free(tsx_findings *all);

/* The record of the commits to arrays that a database has committed, and recovery by it.
 *
 * Between xSync and xCommit a commit to an array in a directory lies prepared. The shadow table NAME_commits, written
 * in the same transaction, tells after a crash whether the database has committed; the marker beside the commit tells
 * which database decides on it. journal.c has the protocol; docs/commits.md has the reasons. */

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

/* Publishes everything that the connection keeps, before the arrays are closed. SQLite's log has what fails. */
void tsx_postponed_close(tsx_connection *connection);

/* The changes that the open transaction makes to arrays, and the transaction methods of array tables. */

typedef struct tsx_table tsx_table;
typedef struct tsx_created_table tsx_created_table;

/* The changes that the open transaction makes to one array. They belong to the array, not to a table: one table may
 * have two sqlite3_vtab objects in a transaction, and several tables may show one array. */
typedef struct tsx_transaction_owner { /* who owns the transaction's commits (journal.c) */
  char *id, *file; /* the id of that database's file, and its path; or NULL */
  char place[TSX_ID_SIZE]; /* the place of that file if NAME_config has to get the owner at xSync, else "" */
  char table[TSX_ID_SIZE]; /* the id of the table that chose the owner, which keeps it */
} tsx_transaction_owner;

typedef struct tsx_savepoints {
  struct tsx_savepoint *list;
  uint32_t count, room;
} tsx_savepoints;

typedef struct tsx_transaction_sync { /* what xSync has done, and has found */
  bool done; /* xSync has run */
  uint64_t attempt; /* the connection's count of attempts when it ran last */
  bool published; /* only in the database: it has published, within SQLite's own transaction */
  bool alone; /* no other database file was written */
  unsigned data_version; /* of the database file */
} tsx_transaction_sync;

typedef struct tsx_transaction {
  tsx_array *array; /* NULL once the transaction has ended; snapshots may still refer to its writer */
  uint32_t references; /* of the array, of snapshots, of a running xUpdate */
  tsr_writer *writer; /* all changes: appended cells, removed rows */
  tsr_snapshot *base; /* the array without these changes, as it was when the transaction first wrote it */
  char *schema_name; /* the database whose tables write it */
  tsx_transaction_owner owner;
  tsx_savepoints savepoints;
  uint64_t rewinds; /* counts how often the writer was rewound */
  tsx_created_table *created; /* tables that this transaction has created */
  tsx_transaction_sync sync;
} tsx_transaction;

/* Returns the transaction of the table's array, and begins it if there is none. Borrowed until the transaction ends.
 * TSR_READONLY where the table has the option as_of. Fails where the array is missing, and where tables of another
 * database write the array in this transaction. */
int tsx_transaction_of(tsx_table *table, tsx_transaction **transaction, tsr_error *error);

/* Returns true if the open transaction has changed the array at this path. */
bool tsx_transaction_open_on(tsx_connection *connection, const char *path);

/* Takes the changes back that were made through tables whose CREATE a ROLLBACK TO has taken back. SQLite does not tell
 * of that, so call this before uncommitted changes are read or written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);

/* Call before the table is dropped: ends the transaction of its array. Fails if the transaction has changed the
 * array. */
int tsx_transaction_leave(tsx_table *table, tsr_error *error);

/* Call before the array is closed, and where it was not made after all: ends its transaction. A commit that xSync has
 * prepared stays for recovery. */
void tsx_transaction_close(tsx_array *array);

/* Ends the transaction of an array if it has no changes yet, and with it the state of the array that it keeps. Call it
 * before a function changes the array: the next row begins the transaction again, on the new state. */
void tsx_transaction_end_unchanged(tsx_array *array);

/* Gives a reference back. */
void tsx_transaction_drop(tsx_transaction *transaction);

/* SQLite's transaction at the beginning of a callback. Where a statement that a callback runs meets a lack of memory or
 * a failure of the disk, SQLite may roll the whole transaction back, even if the callback can do without the statement.
 * The callback must then fail, too: SQLite would go on as if the transaction were still open. */
typedef struct tsx_watch {
  bool open, writes; /* a transaction is open; it has written the database */
} tsx_watch;

tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);

/* Returns TSR_OK if the transaction is as it was at tsx_watch_begin, else the error of tsx_fail_rolled_back. */
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);

/* Sets the error: SQLite has rolled the transaction back. Returns TSR_NOMEM or TSR_IO. */
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);

/* The methods xBegin, xSync, xCommit, xRollback, xSavepoint, xRelease and xRollbackTo. */
int tsx_begin(sqlite3_vtab *vtab);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

/* Arrays in directories that a CREATE VIRTUAL TABLE makes. xCreate prepares the array, and everything that
 * can fail happens there. The commit of the transaction publishes the array in one step; a rollback removes it, so that
 * a CREATE that is rolled back leaves nothing. */

typedef struct tsx_table tsx_table;

/* Prepares the array that the table's options define, and opens it as table->array. An array in the database is created
 * at once: the database's transaction takes it back. `key` is 32 bytes or NULL. TSR_EXISTS where an array or another
 * file is in the way. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);

/* Removes the prepared array of a table, if it has one. Call it where xCreate fails, and for DROP in the same
 * transaction. */
void tsx_creation_fail(tsx_table *table);

/* Publishes an array that was prepared by a transaction which has committed, where the process died before it published
 * the array. `name` is the creation's name from NAME_config. Returns 1 if there was such an array, 0 if not, or an
 * error. */
int tsx_creation_recover(tsx_table *table, const char *name, tsr_error *error);

/* Closes the array's creation, if it has one, and removes the prepared array with `abandon`. */
void tsx_creation_close(tsx_array *array, bool abandon);

/* The savepoint within which an SQL function changes an array that lives in the database, so that the
 * function makes all of its changes or none. Arrays in directories need none: their commits are one step by
 * themselves. */

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

/* XUpdate: INSERT, UPDATE and DELETE of rows, as cells and removals of the open transaction's writer. The
 * cursor tells here which rows the scan of an UPDATE or DELETE has chosen, because SQLite calls xUpdate only after the
 * scan. */

typedef struct tsx_table tsx_table;

typedef struct tsx_changes tsx_changes; /* the state of the statement that writes a table */

/* xUpdate. A row that fails leaves the writer as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);

/* Remembers a row that the scan of a statement has chosen. `cursor` is the number of its cursor (tsx_table.opened). */
void tsx_update_touch(tsx_table *table, uint64_t cursor, int64_t row);

/* Call when a cursor is closed: the scan has ended, unless a newer cursor is open that xFilter has not been called for
 * yet. Such a cursor continues the scan for the next operand of an OR. */
void tsx_update_scanned(tsx_table *table, uint64_t cursor);

/* Call when a cursor is opened: forgets the rows of a scan that has ended and after which xUpdate was not called. That
 * was no UPDATE. */
void tsx_update_forget(tsx_table *table);

/* Call when the transaction ends: frees what belongs to its statements. */
void tsx_update_end(tsx_table *table);

/* Frees everything. */
void tsx_update_free(tsx_table *table);

/* SQL values become the cells of one row that is to be written. A tsx_row holds one row of a table in the
 * form that a writer of the core takes; it is made once and set again for each row. */

typedef struct tsx_row tsx_row;
struct tsx_table;

/* Makes a row for writers of `schema`, which may be newer than the table's. Free it by tsx_row_free. */
int tsx_row_make(struct tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* `row` may be NULL */
const tsr_schema *tsx_row_schema(const tsx_row *row);

/* Returns one column for each field of the schema, with one cell, as the fields were set last. Borrowed until the row
 * is freed or set again. */
const tsr_column *tsx_row_columns(const tsx_row *row);

/* Returns the field of the schema that a column of the table shows, or -1 if the schema has it no more. */
int tsx_row_field(const tsx_row *row, uint32_t column);

/* Returns the column of the table that shows a field, or -1 if none does. */
int tsx_row_column(const tsx_row *row, uint32_t field);

/* Returns true if each column has a field and each field a column. */
bool tsx_row_is_complete(const tsx_row *row);

/* Sets a field's cell to a value. Borrows texts and blobs from the value: it must live until the row was appended. NULL
 * becomes null; in an INSERT it becomes the declared DEFAULT of a field that cannot be null. TSR_CONSTRAINT where the
 * field can be neither; TSR_MISMATCH or TSR_RANGE where the value does not fit the field. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);

/* Sets all fields for an INSERT. `values` has one value for each column of the table; the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);

/* Gives a dimension a coordinate, 8 bytes, for rows whose value is NULL there; `coordinate` is borrowed until it is taken
 * back by NULL. */
void tsx_row_place(tsx_row *row, uint32_t dimension, const uint8_t *coordinate);

/* Sets a field to a cell that was read. Borrows its bytes from `cells`, at `index` as in tsr_column. */
void tsx_row_keep(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);

/* Where the levels of an array's overviews are, and what becomes of the levels of an array in the database when
 * its table is dropped or renamed. Level k of an array in a directory or bucket is PATH.overviews/k; of the table NAME in
 * the database it is the table NAME_overview_k. */

#define TSX_LEVELS_MAX 40
#define TSX_LEVEL_KEY  "tessera_overview" /* the metadata of a level */

/* Returns the path of a level, or for level 0 the directory that the levels are in. From sqlite3_malloc; NULL if memory is
 * lacking. */
char *tsx_level_path(const char *path, unsigned level);

/* Drops the tables of the levels of a table. A table that has such a name but is no level stays. `key` is 32 bytes or
 * NULL. *count: how many there were. */
int tsx_levels_drop(tsx_connection *connection, const char *schema, const char *name, const uint8_t *key,
                    uint64_t *count, tsr_error *error);

/* Gives the tables of the levels the names that belong to the table's new name. */
int tsx_levels_rename(tsx_connection *connection, const char *schema, const char *name, const char *renamed,
                      const uint8_t *key, tsr_error *error);

#endif
