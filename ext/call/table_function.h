/* table_function.h: the framework of the tessera_* table-valued functions. Each is an eponymous virtual table whose
 * hidden columns are its arguments, as in SELECT * FROM tessera_tiles('data/weather'). A constant tsx_about describes a
 * table: its columns and four callbacks. table_function.c implements SQLite's module methods on top of it. */
#ifndef TSX_CALL_TABLE_FUNCTION_H
#define TSX_CALL_TABLE_FUNCTION_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/table.h"

#define TSX_ARGUMENTS_MAX 4
#define TSX_HIDDEN_LAST   4 /* hidden columns after the arguments: array_key, as_of, since, array_schema */

typedef struct tsx_scan { /* a cursor on a tessera_* table */
  sqlite3_vtab_cursor base;
  tsx_connection *connection;
  sqlite3_value
      *hidden[TSX_ARGUMENTS_MAX + TSX_HIDDEN_LAST]; /* owned: the arguments, then the last hidden columns; or NULL */
  sqlite3_int64 row; /* the number of earlier rows; in `column` it includes the current row */
  bool done;
  void *state; /* the table's own, from sqlite3_malloc; table_function.c frees it after `close` */
  /* What a table keeps from one scan of the statement to the next, as the inner table of a join; NULL: nothing. It is
   * freed after the last scan. */
  void *kept;
  void (*free_kept)(void *kept);
} tsx_scan;

/* The arguments of a table that takes a path and no other argument. */
#define TSX_PATH_ONLY ((const char *const[]){"array_path", NULL})

typedef struct tsx_about { /* describes one tessera_* table */
  const char *name, *usage;
  const char *const *columns; /* "name TYPE", ended by NULL */
  const char *const *arguments; /* the names of the hidden columns that are arguments, ended by NULL; NULL: none */
  int required; /* how many of them are required; if one of these is NULL, the table has no rows */
  int same; /* the number of a visible column that repeats the first and may be constrained instead, or -1 */
  double rows; /* the estimated number of rows */
  uint64_t state_size; /* in bytes; the state is zeroed before `open` */
  int (*open)(tsx_scan *scan, tsr_error *error); /* positions the scan before its first row */
  int (*next)(tsx_scan *scan, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
  int (*column)(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error);
  void (*close)(tsx_scan *scan); /* called even if `open` failed; may be NULL */
} tsx_about;

static inline sqlite3_value *tsx_scan_argument(const tsx_scan *scan, int i) { return scan->hidden[i]; }

int tsx_register_tables(tsx_connection *connection); /* returns SQLite's code */

/* Opens the address given by the first argument, array_key, as_of, since and array_schema of a scan. The caller closes
 * the address, also after an error. */
int tsx_scan_address(tsx_scan *scan, tsx_address *address, tsr_error *error);

/* The arguments on which an address depends: the first argument, array_key, as_of, since and array_schema. Borrowed. */
#define TSX_ADDRESS_ARGUMENTS (1 + TSX_HIDDEN_LAST)
void tsx_scan_address_arguments(const tsx_scan *scan, sqlite3_value *arguments[TSX_ADDRESS_ARGUMENTS]);
extern const tsx_about tsx_about_array, tsx_about_schema, tsx_about_enumeration, tsx_about_fragments, tsx_about_tiles;
extern const tsx_about tsx_about_log, tsx_about_gaps, tsx_about_cover;
extern const tsx_about tsx_about_check, tsx_about_aggregate, tsx_about_partitions, tsx_about_advise;
extern const tsx_about tsx_about_metadata, tsx_about_members, tsx_about_objects, tsx_about_attached;

#endif
