/* module.h: array tables come, go and are renamed. */
#ifndef TSX_MODULE_H
#define TSX_MODULE_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "values/value.h"

typedef struct tsx_changes tsx_changes;

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
  struct tsx_cursor *idle; /* one that was closed, for the next who opens one; or NULL */
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

#endif
