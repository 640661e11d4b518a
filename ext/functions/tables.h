/* tables.h: what all tessera_* tables have in common: eponymous tables whose hidden columns are arguments, *   SELECT
 * . */
#ifndef TSX_TABLES_H
#define TSX_TABLES_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/address.h"

#define TSX_ARGUMENTS_MAX 4

typedef struct tsx_scan { /* a cursor on a tessera_* table */
  sqlite3_vtab_cursor base;
  tsx_connection *connection;
  sqlite3_value *hidden[TSX_ARGUMENTS_MAX + 3]; /* arguments, key, as_of, since: copies; NULL if not given */
  sqlite3_int64 row;
  bool done;
  void *state; /* the table's own, of sqlite3_malloc; freed by tables.c after its close */
} tsx_scan;

typedef struct tsx_about { /* a tessera_* table: what is its own */
  const char *name, *usage;
  const char *const *columns; /* "name TYPE", ended by NULL */
  int arguments, required; /* hidden arg1, arg2...; how many of them must be given, and not be NULL */
  int same; /* the shown column that is just its arg1, or -1 */
  double rows; /* an estimate */
  uint64_t state_size; /* zeroed before `open` */
  int (*open)(tsx_scan *scan, tsr_error *error); /* the scan stands before the first row */
  int (*next)(tsx_scan *scan, tsr_error *error); /* 1 and a row, 0 at the end */
  int (*column)(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error);
  void (*close)(tsx_scan *scan); /* also where open failed; may be NULL */
} tsx_about;

static inline sqlite3_value *tsx_scan_argument(const tsx_scan *scan, int i) { return scan->hidden[i]; }

int tsx_register_tables(tsx_connection *connection);

/* The address that a scan's arg1, key, as_of and since make; `arguments` is how many its table has. */
int tsx_scan_address(tsx_scan *scan, int arguments, tsx_address *address, tsr_error *error);
extern const tsx_about tsx_about_array, tsx_about_schema, tsx_about_enumeration, tsx_about_fragments, tsx_about_tiles;
extern const tsx_about tsx_about_check, tsx_about_aggregate, tsx_about_partitions, tsx_about_advise;
extern const tsx_about tsx_about_metadata, tsx_about_members, tsx_about_objects;

#endif
