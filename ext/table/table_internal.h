/* table_internal.h: what the files of this folder share, and no other folder needs: the methods of the virtual table
 * module, the plan that goes from xBestIndex to xFilter, the commits of a transaction and their journal, and the rows
 * that are written. table.h explains the terms, and has what other folders call.
 *
 * The sections are named after the files that implement them, like those of table.h. */
#ifndef TSX_TABLE_TABLE_INTERNAL_H
#define TSX_TABLE_TABLE_INTERNAL_H

#include "table/table.h"

typedef struct tsx_row tsx_row; /* of value_in.c */

/* ---- open_array.c: open arrays, and the snapshots that statements read ------------------------------------------- */

/* tsx_array_open for an array that is prepared and not published yet. On success, takes ownership of the creation. */
int tsx_array_open_created(tsx_connection *connection, const char *path, const uint8_t *key, uint64_t cache_bytes,
                           unsigned threads, tsr_creation *creation, tsx_array **array, tsr_error *error);

/* Call when the transaction's changes after `kept` are rolled back: statements that still read them will fail. */
void tsx_snapshots_undo(tsx_array *array, const tsx_transaction *transaction, tsr_mark kept);

/* Call when this connection has changed the array: cursors that open from now on, also those of the running statement,
 * see the new state. */
void tsx_array_changed(tsx_array *array);

/* Closes the snapshots that no cursor reads. */
void tsx_array_trim(tsx_array *array);

/* ---- open_array.c: arrays in the database itself ----------------------------------------------------------------- */

/* Makes the array of a table that is in the database, and opens it as table->array. Call it from xCreate. `schema`
 * NULL: tsx_database_create runs this CREATE and has said what to make. `key` is 32 bytes or NULL. */
int tsx_database_make(tsx_table *table, const tsr_schema *schema, const uint8_t *key, tsr_error *error);

/* Returns the array whose cells the array that is being made will get, which may lack attributes; else NULL. */
tsr_array *tsx_database_cells(const tsx_connection *connection);

/* ---- leftovers.c: tables that functions drop from temp ----------------------------------------------------------- */

/* Drops what tsx_temp_drop has left, as far as that is possible now. Call while no savepoint of a function is open. */
void tsx_leftovers_drop(tsx_connection *connection);

/* Frees the list. */
void tsx_leftovers_forget(tsx_connection *connection);

/* ---- address.c: path arguments of SQL functions and table-valued functions, and keys by path --------------------- */

/* Wipes and frees all keys of the connection. */
void tsx_keys_free(tsx_connection *connection);

/* ---- module.c: the virtual table module, and tsx_table ----------------------------------------------------------- */

/* Finds the key of the table's array: from the file that the option key_file names, else the one that tessera_set_key
 * has set. */
int tsx_table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error);

/* ---- columns.c: the columns of a table --------------------------------------------------------------------------- */

/* Makes the columns that the table's options choose of the array's fields, its label columns, and their order. Free
 * them by tsx_columns_free, also after a failure. The array must be open. */
int tsx_columns_make(tsx_table *table, tsr_error *error);
void tsx_columns_free(tsx_table *table);

/* Makes the CREATE TABLE statement for sqlite3_declare_vtab, from sqlite3_malloc. */
char *tsx_columns_declaration(const tsx_table *table);

/* Returns true if SQLite knows the columns by the declaration `now`, except that it may have fewer NOT NULL: earlier
 * versions declared fewer, and labels of codes may have been added. Only columns declared so need a check that they are
 * never NULL (knows_every_code). */
bool tsx_columns_are_declared(tsx_table *table, const char *now);

/* Fails if a column is declared NOT NULL because the enumeration had a value for each code when the table was
 * connected, and the snapshot has codes without one. SQLite takes `x IS NULL` for false on such a column, so the
 * statement could miss rows. Call tsx_table_update_enumerations first. */
int tsx_table_check_codes(const tsx_table *table, tsr_snapshot *core, tsr_error *error);
int tsx_table_fail_code(const tsx_table *table, const tsx_column *column, tsr_error *error);

/* Returns the number of columns that are not hidden, also for a table whose array is missing. */
int tsx_table_visible_columns(const tsx_table *table);

/* ---- integrity.c: PRAGMA integrity_check, and findings of the core's check --------------------------------------- */

/* xIntegrity of array tables. *message gets one line for each error, or stays NULL if there is none. Bit 0 of `flags`
 * is set for PRAGMA quick_check. Returns SQLite's code for what kept the check from finishing. */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);

/* ---- changes_table.c: what changed, as an argument of the table whose rows it shows ------------------------------ */

typedef struct tsx_changed { /* what has changed, as a table shows it to changes_table.c */
  tsr_changed core;
  /* NULL, or columns of the table: cells of a dense array that the state at `before` shows with the same values in all
   * of them may be left out (tsr_unchanged). Borrowed. */
  char *const *columns;
  int column_count;
  uint64_t before; /* as an as_of */
  bool merged; /* what commits have written may be hidden: the state at as_of is compared */
  tsr_places *places; /* NULL, or gets the places of the rows, which are about to be looked up. Borrowed */
} tsx_changed;

/* The type of an sqlite3_bind_pointer to a tsx_changed, as the argument `since` of a table: it then shows what has
 * changed, instead of a state (changes_table.c). Its written_at is never NULL: TSX_OWN_TIME is the transaction's. SQL
 * texts cannot make such a pointer. */
#define TSX_CHANGED_POINTER "tessera_changed"
#define TSX_OWN_TIME        INT64_MAX

/* The type of an sqlite3_bind_pointer to a tsr_places, in the same place: the table shows a state as ever, and expects
 * look-ups of these places. */
#define TSX_EXPECTED_POINTER "tessera_expected"

/* ---- best_index.c: xBestIndex, and the plan that it passes to xFilter -------------------------------------------- */
/* idxStr is the text of a tsx_index_plan; best_index.c begins with its grammar. */

typedef struct tsx_term { /* one comparison; term n takes argument n of xFilter */
  int column; /* own number; may be as_of or since */
  tsx_op op;
  bool nocase; /* text is compared under NOCASE */
  bool numeric; /* text that looks like a number may also match as a number (tsx_numeric_range) */
  bool plainly; /* TSX_SQLITE_RULES */
} tsx_term;

#define TSX_TERMS_MAX 64 /* comparisons beyond this many are left to SQLite */

typedef struct tsx_index_plan {
  uint32_t count, order_count; /* of terms; of columns in the order */
  tsx_term terms[TSX_TERMS_MAX];
  struct tsx_index_plan_order {
    int column; /* a dimension, or a label of one */
    bool descending;
  } order[TSX_TERMS_MAX];
  bool distinct; /* one of the rows that are equal in all columns of the order suffices */
  bool limit, offset; /* LIMIT and OFFSET are arguments of xFilter, after those of the terms */
  bool skip; /* the table itself skips the rows of OFFSET */
} tsx_index_plan;

/* xBestIndex. */
int tsx_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info);

/* Decodes idxStr, for a table whose array is open. Returns SQLITE_OK, or SQLITE_ERROR if the text does not fit the
 * table. */
int tsx_index_plan_decode(const tsx_table *table, const char *text, tsx_index_plan *plan);

/* Returns true if a term compares the column with something, so that rows with NULL in it cannot match. */
bool tsx_index_plan_excludes_null(const tsx_index_plan *plan, int column);

/* Returns the number of arguments that xFilter gets with this plan. */
uint32_t tsx_index_plan_arguments(const tsx_index_plan *plan);

/* ---- labels.c: columns of dimension labels ----------------------------------------------------------------------- */

/* Returns true if the label is declared to descend along its dimension. A label of another array declares no order. */
static inline bool tsx_label_descends(const tsx_table *table, const tsx_label_column *label) {
  return !label->other && table->schema->labels[label->label].data_order == 2;
}

/* Makes the table's label columns, from its schema and its option `labels`. Free them by tsx_label_columns_free. */
int tsx_label_columns_make(tsx_table *table, tsr_error *error);
void tsx_label_columns_free(tsx_table *table);

/* Returns the name in SQL of dimension number `dimension`; if the table does not show it, the name in the schema. */
const char *tsx_dimension_name(const tsx_table *table, uint32_t dimension);

/* Returns 1 if every coordinate in the snapshot's non-empty domain has a label, and SQL shows all these labels as one
 * type; else 0, or an error. The state must be loaded. */
int tsx_label_covers(const tsx_label_column *label, const tsx_label_state *state, tsr_snapshot *snapshot,
                     tsr_error *error);

/* Finds the coordinate whose label, in its present state, equals a value. TSR_RANGE: no such coordinate; TSR_MISMATCH:
 * the value is not of the label's type. */
int tsx_label_coordinate_of(tsx_table *table, tsx_label_column *label, sqlite3_value *value, uint8_t coordinate[8],
                            tsr_error *error);

/* ---- columns.c: the order of columns in SQL ---------------------------------------------------------------------- */

/* Makes the order of the table's columns, once its fields and labels are known. Free it by tsx_column_order_free. */
int tsx_column_order_make(tsx_table *table, tsr_error *error);
void tsx_column_order_free(tsx_table *table);

/* Reorders the arguments of an INSERT or UPDATE: returns two values and then the row by own numbers. Valid until the
 * next call. */
sqlite3_value **tsx_column_order_values(tsx_table *table, sqlite3_value **values);

/* ---- labels.c: ORDER BY a label that some coordinates lack ------------------------------------------------------- */
/* SQLite sorts NULL before all values, but coordinates without a label may be anywhere in the domain. So all
 * coordinates of the rows are read first and sorted; then the reader reads the cells of one coordinate after the
 * other. */

typedef struct tsx_label_order { /* `= {0}` is not in use */
  uint64_t *words; /* records of `size` words each: the number of words that follow, the sort keys, the coordinates */
  uint64_t count, room, at; /* in records; `at` is the next one */
  uint32_t size, dimensions;
  tsr_request request; /* for one coordinate */
  tsr_range *points; /* one for each dimension, allocated in one block with the ranges of the request */
} tsx_label_order;

/* Reads and sorts the coordinates of all rows of a request. `states` has the loaded state of each label in the order.
 * TSR_BUDGET: they need more than the table's memory_mb. */
int tsx_label_order_open(tsx_label_order *order, const tsx_table *table, tsx_label_state *const *states,
                         const tsx_index_plan *plan, tsr_reader *reader, const tsr_request *request, tsr_error *error);
void tsx_label_order_close(tsx_label_order *order);

/* Starts the reader on the cells of the next coordinate. Returns 1; 0 after the last one; or an error. */
int tsx_label_order_next(tsx_label_order *order, tsr_reader *reader, tsr_error *error);

/* ---- cursor.c: the cursor methods of array tables ---------------------------------------------------------------- */
/* xFilter turns its arguments into a request and starts a reader, xNext walks the rows of the reader's batches, xColumn
 * takes single values out of their columns. */

int tsx_cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **cursor);
int tsx_cursor_close(sqlite3_vtab_cursor *cursor);
int tsx_cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count, sqlite3_value **values);
int tsx_cursor_next(sqlite3_vtab_cursor *cursor);
int tsx_cursor_eof(sqlite3_vtab_cursor *cursor);
int tsx_cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *context, int column);
int tsx_cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *rowid);

/* Frees the table's idle cursor, if it has one. */
void tsx_cursor_forget(tsx_table *table);

/* Releases the tiles that the table's idle cursor keeps. Call it when the statement has ended. */
void tsx_cursor_forget_tiles(tsx_table *table);

/* ---- ddl.c: schemas as SQL text ---------------------------------------------------------------------------------- */

/* Appends what follows the path in the parentheses of CREATE VIRTUAL TABLE: kind, columns and options. `schema` NULL is
 * the schema in force at the address's as_of. Another schema must be the schema of the address's array with the changes
 * that tessera_copy makes to it, or that of an array to be made at the address, with its enumerations loaded. The
 * address's array must be open, unless it is yet to be made. */
int tsx_ddl_arguments(sqlite3_str *out, const tsx_address *address, const tsr_schema *schema, tsr_error *error);

/* ---- journal.c: the record of the commits that a database has committed, and recovery from it -------------------- */

/* Finds the array table of a database whose NAME_config has `value` under `key`. Returns SQLITE_ROW, with NAME in *name
 * if `name` is not NULL (from sqlite3_malloc); SQLITE_DONE if there is no such table; else SQLite's error. */
int tsx_config_find(sqlite3 *db, const char *schema, const char *key, const char *value, char **name);

/* Makes a random id. */
void tsx_journal_make_id(char id[TSX_ID_SIZE]);

/* Reads table->commit.id from NAME_config unless it is known already; it stays "" if NAME_config has none. */
int tsx_journal_find_id(tsx_table *table, tsr_error *error);

/* Returns SQLITE_FCNTL_DATA_VERSION of the table's database file. It changes with each commit that reaches its second
 * phase. */
unsigned tsx_data_version(const tsx_table *table);

/* Chooses the owner of the transaction's commits, and whether they are synced to disk: as the table's database is. Sets
 * `transaction` and `options`, whose owner is borrowed from the transaction. */
int tsx_journal_options(const tsx_table *table, tsx_transaction *transaction, tsr_writer_options *options,
                        tsr_writer_host *host, tsr_error *error);

/* Makes the value of 'owner' in a new table's NAME_config, from sqlite3_malloc. *value is NULL if the database has no
 * file, or nothing distinguishes the file from others. */
int tsx_journal_first_owner(const tsx_table *table, char **value, tsr_error *error);

/* Publishes prepared commits to the table's array that this database has committed, and removes those that it has not
 * committed. Does nothing unless this connection holds the database's write lock. */
int tsx_journal_recover(tsx_table *table, tsr_error *error);

/* Returns 1 if the table's record names unpublished commits, 0 if not, or an error. Such a record must not be dropped:
 * nothing else says that its commits are to be published. Removes published commits from the record. */
int tsx_journal_has_unpublished(const tsx_table *table, tsr_error *error);

/* Writes the transaction's prepared commit into NAME_commits. */
int tsx_journal_write(tsx_table *table, tsr_error *error);

/* Returns true if it is certain, after an xSync, that the database has not committed. */
bool tsx_journal_untouched(const tsx_table *table);

/* Returns 1 if a database of the connection has committed this commit, 0 if none has, or an error. The callback for
 * tsr_array_host.committed; `connection` is the tsx_connection. */
int tsx_journal_committed(void *connection, const char *commit, tsr_error *error);

/* Call if xCommit could not publish. Writes the error into SQLite's log, and tries again unless the record names the
 * commit. Returns true if the commit has yet to be published. If its files are gone, it never can be: then the
 * connection's next statement that uses an array fails with the error (tsx_connection_defer_lost). */
bool tsx_journal_unpublished(const tsx_table *table, tsr_error *error);

/* ---- deferred.c: deferred commits -------------------------------------------------------------------------------- */

/* Keeps the commit and the creation of the array's transaction, whichever there are. The caller ends the transaction
 * afterwards. `why` says what failed. */
void tsx_defer_commit(tsx_connection *connection, tsx_array *array, const tsr_error *why);

/* Keeps the creation of an open array that another process has prepared (tsx_creation_find). */
int tsx_defer_creation(tsx_connection *connection, tsx_array *array, tsr_error *error);

/* Call before an array is written. Publishes the commits that are kept for it, the oldest first, and those for other
 * arrays that no statement has failed with yet. Returns how many it published. If one cannot be published, keeps it and
 * returns the error, so that each statement that writes its array tries again. A commit whose files are gone is
 * reported once and given up. Also reports what tsx_connection_report_lost reports. */
int tsx_deferred_publish(tsx_connection *connection, const tsx_array *array, tsr_error *error);

/* Publishes the commits that are kept for the array at a path, as far as possible. Reports no errors, for functions
 * that may still refuse to write. */
void tsx_deferred_try(tsx_connection *connection, const char *path);

/* Gives up the deferred commits to this array, and removes the files that were prepared for them. */
void tsx_deferred_give_up(tsx_connection *connection, const tsx_array *array);

/* Publishes everything that the connection keeps, before the arrays are closed. Failures go into SQLite's log. */
void tsx_deferred_close(tsx_connection *connection);

/* ---- transaction.c: the changes of the open transaction, and the transaction methods ----------------------------- */

/* Undoes changes that were made through tables whose CREATE was rolled back by ROLLBACK TO. SQLite does not report
 * that, so call this before uncommitted changes are read or written. */
int tsx_transactions_check(tsx_connection *connection, tsr_error *error);

/* Fails if the table cannot be dropped, because the transaction has changed its array. */
int tsx_transaction_may_detach(const tsx_table *table, tsr_error *error);

/* Ends the transaction of the table's array: the table is dropped. If its array is in the database, that has happened,
 * since until then it may fail, and the transaction goes on with its rows. */
void tsx_transaction_detach(tsx_table *table);

/* Call before the array is closed, or when its creation is taken back: ends its transaction. A commit that xSync has
 * prepared is left for recovery. */
void tsx_transaction_close(tsx_array *array);

/* Ends the transaction of an array if it has no changes yet, and releases the state of the array that it keeps. Call it
 * before a function changes the array: the next row begins a new transaction, on the new state. */
void tsx_transaction_end_unchanged(tsx_array *array);

/* Undoes all changes since a mark of the transaction's writer. */
int tsx_transaction_rewind(tsx_transaction *transaction, tsr_mark mark, tsr_error *error);

/* Releases a reference. */
void tsx_transaction_drop(tsx_transaction *transaction);

/* The methods xBegin, xSync, xCommit, xRollback, xSavepoint, xRelease and xRollbackTo. */
int tsx_begin(sqlite3_vtab *vtab);
int tsx_sync(sqlite3_vtab *vtab);
int tsx_commit(sqlite3_vtab *vtab);
int tsx_rollback(sqlite3_vtab *vtab);
int tsx_savepoint(sqlite3_vtab *vtab, int number);
int tsx_release(sqlite3_vtab *vtab, int number);
int tsx_rollback_to(sqlite3_vtab *vtab, int number);

/* SQLite's transaction at the beginning of a callback. If a statement that a callback runs fails for lack of memory or
 * on a disk error, SQLite may roll back the whole transaction, even if the callback could do without the statement. The
 * callback must then fail, too: else SQLite would go on as if the transaction were still open. */
typedef struct tsx_watch {
  bool open, writes; /* a transaction is open; it has written the database */
} tsx_watch;

tsx_watch tsx_watch_begin(sqlite3 *db, const char *schema_name);

/* Returns TSR_OK if the transaction is as it was at tsx_watch_begin, else the error of tsx_fail_rolled_back. */
int tsx_watch_end(const tsx_watch *watch, sqlite3 *db, const char *schema_name, tsr_error *error);

/* Sets the error: SQLite has rolled the transaction back. Returns TSR_NOMEM or TSR_IO. */
int tsx_fail_rolled_back(sqlite3 *db, tsr_error *error);

/* ---- transaction.c: CREATE VIRTUAL TABLE of arrays in directories ------------------------------------------------ */
/* xCreate prepares the array, and everything that can fail happens there. The commit of the transaction publishes the
 * array in one step; a rollback removes it and leaves nothing behind. */

/* Prepares the array that the table's options define, and opens it as table->array. An array in the database is created
 * at once: a rollback of the database's transaction undoes it. `key` is 32 bytes or NULL. TSR_EXISTS if an array or
 * another file is in the way. */
int tsx_creation_prepare(tsx_table *table, const uint8_t *key, tsr_error *error);

/* Removes the prepared array of a table, if it has one. Call it if xCreate fails, and for DROP in the same
 * transaction. */
void tsx_creation_fail(tsx_table *table);

/* Opens, as table->array, an array whose transaction has committed but whose process died before it could publish.
 * `name` is the creation's name from NAME_config, `key` is 32 bytes or NULL. Reading the array does not publish it: its
 * creation becomes a deferred commit of this connection. Returns 1 if there was such an array, 0 if not, or an
 * error. */
int tsx_creation_find(tsx_table *table, const char *name, const uint8_t *key, tsr_error *error);

/* Closes the array's creation, if it has one. With `abandon`, removes the prepared array. */
void tsx_creation_close(tsx_array *array, bool abandon);

/* ---- function_savepoint.c: the savepoint of an SQL function ------------------------------------------------------ */

/* Begins a transaction that holds the write locks of all databases; none may be open. Ended by tsx_savepoint_end,
 * too. */
int tsx_savepoint_begin_everywhere(tsx_connection *connection, tsr_error *error);

/* ---- auto_upkeep.c: what a transaction merges -------------------------------------------------------------------- */

/* Refuses the option auto_vacuum_s for an array whose vacuum takes states of the past away. The array must be open. */
int tsx_upkeep_check(const tsx_table *table, tsr_error *error);

/* Call it in xBegin, before the array's transaction begins. Merges fragments of an array in the database if the table's
 * option auto_consolidate asks for it and enough transactions have come. An error of the merge is kept in
 * array->upkeep; SQLite may have rolled back. */
void tsx_upkeep_in_begin(tsx_table *table);

/* The same for arrays in directories and buckets, at the end of xCommit, for the tables that have published rows
 * (commit.published). Does nothing while xCommit of other tables of the transaction is yet to come: they publish
 * first. */
void tsx_upkeep_in_commit(tsx_connection *connection);

/* ---- update.c: xUpdate: INSERT, UPDATE and DELETE of rows -------------------------------------------------------- */
/* They become cells and removals of the open transaction's writer. The cursor reports here which rows the scan of an
 * UPDATE or DELETE has chosen, because SQLite calls xUpdate only after the scan. */

/* If a row fails, the writer is left as it was. */
int tsx_update(sqlite3_vtab *vtab, int count, sqlite3_value **values, sqlite3_int64 *rowid);

/* Records a row that the scan of an UPDATE or DELETE has chosen. `cursor` is the number of its cursor
 * (table->cursors.opened). */
void tsx_update_record_row(tsx_table *table, uint64_t cursor, int64_t row);

/* Call when a cursor is closed: the scan has ended, unless a newer cursor is open whose xFilter was not called yet.
 * Such a cursor continues the scan for the next operand of an OR. */
void tsx_update_scan_ended(tsx_table *table, uint64_t cursor);

/* Call when a cursor is opened: forgets the rows of a scan that has ended without a call of xUpdate. It was no
 * UPDATE. */
void tsx_update_forget_scan(tsx_table *table);

/* Call when the transaction ends: frees the state of its statements. */
void tsx_update_end(tsx_table *table);

/* Frees everything. */
void tsx_update_free(tsx_table *table);

/* ---- value_in.c: SQL values become the cells of a row to write --------------------------------------------------- */
/* A tsx_row holds one row of a table in the form that a writer of the core takes. It is made once and refilled for each
 * row. */

/* Makes a row for writers of `schema`, which may be newer than the table's. Free it by tsx_row_free. */
int tsx_row_make(tsx_table *table, const tsr_schema *schema, tsx_row **row, tsr_error *error);
void tsx_row_free(tsx_row *row); /* `row` may be NULL */
const tsr_schema *tsx_row_schema(const tsx_row *row);

/* Returns one column for each field of the schema, with one cell, as the fields were set last. Borrowed until the row
 * is freed or set again. */
const tsr_column *tsx_row_columns(const tsx_row *row);

/* Returns the field of the schema that a column of the table shows, or -1 if the schema no longer has it. */
int tsx_row_field(const tsx_row *row, uint32_t column);

/* Returns the column of the table that shows a field, or -1 if none does. */
int tsx_row_column(const tsx_row *row, uint32_t field);

/* Returns true if each column has a field and each field a column. */
bool tsx_row_is_complete(const tsx_row *row);

/* Sets a field's cell to a value. Borrows text and blobs from the value, which must live until the row has been
 * appended. NULL becomes null; in an INSERT it becomes the declared DEFAULT if the field is not nullable.
 * TSR_CONSTRAINT if the field is not nullable and has no DEFAULT; TSR_MISMATCH or TSR_RANGE if the value does not fit
 * the field. */
int tsx_row_set(tsx_row *row, uint32_t field, sqlite3_value *value, bool insert, tsr_error *error);
int tsx_row_set_null(tsx_row *row, uint32_t field, bool insert, tsr_error *error);

/* Sets all fields for an INSERT. `values` has one value for each column of the table; the row is complete. */
int tsx_row_set_all(tsx_row *row, sqlite3_value **values, tsr_error *error);

/* Sets the coordinate, 8 bytes, that rows get whose value for the dimension is NULL. `coordinate` is borrowed until the
 * next call; NULL: such rows fail again. */
void tsx_row_default_coordinate(tsx_row *row, uint32_t dimension, const uint8_t *coordinate);

/* Sets a field to a cell that was read. Borrows its bytes from `cells`, at `index` as in tsr_column. */
void tsx_row_copy(tsx_row *row, uint32_t field, const tsr_column *cells, uint64_t index);

/* ---- overview_tables.c: where the levels of an array's overviews are --------------------------------------------- */

/* Renames the tables of the levels to match the table's new name. */
int tsx_overview_tables_rename(tsx_connection *connection, const char *schema, const char *name, const char *renamed,
                               const uint8_t *key, tsr_error *error);

#endif
