/* module.h: the virtual table module of array tables, and tsx_table, which is one connected table: its options, its
 * columns and its open array. module.c makes, connects, renames and drops tables; the other files of this folder read
 * and write them. */
#ifndef TSX_MODULE_H
#define TSX_MODULE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

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

/* Finds the key of the table's array: from the file that the option key_file names, else the one that tessera_set_key
 * gave. */
int tsx_table_key(const tsx_table *table, uint8_t key[32], bool *has_key, tsr_error *error);

/* Opens table->array if the array was missing when the table was connected. Fails if it is still missing, or if its
 * columns are not those that SQLite was given. */
int tsx_table_ready(tsx_table *table, tsr_error *error);

/* Lets columns show labels that were added to their enumerations since, as the newest listed schema has them. */
int tsx_table_labels(tsx_table *table, tsr_error *error);

/* Returns the number of columns that are not hidden. Works for a table whose array is missing, too. */
int tsx_table_visible_columns(const tsx_table *table);

#endif
