/* functions.h: the tessera_* tables and functions.
 *
 *   main.c        entry point: checks the version, registers modules and functions
 *   tables.c      what all tessera_* tables have in common: arguments, scans; tessera_stats
 *   tables_array.c, tables_group.c              the tables that look inside
 *   tables_aggregate.c, tables_partitions.c     tessera_aggregate, tessera_partitions
 *   tables_advise.c                             what is worth mending
 *   tables_check.c                              the check of an array, as a table and for PRAGMA integrity_check
 *   functions.c   what all functions have in common, and the small ones
 *   functions_change.c                          those that change metadata, schemas and groups
 *   functions_maintain.c                        those that keep arrays in order: consolidate, vacuum
 *   functions_copy.c, copy_cells.c              tessera_copy
 *   npy.c         blocks of dense arrays as NPY files, both ways
 *   picture.c     tessera_png, tessera_preview: slices to be looked at      png.c        colours, PNG files
 */
#ifndef TSX_FUNCTIONS_H
#define TSX_FUNCTIONS_H

#include "table.h"

/* ---- tables.c ---- */
#define TSX_ARGUMENTS_MOST 4
typedef struct tsx_scan { /* a cursor on a tessera_* table */
  sqlite3_vtab_cursor base;
  tsx_connection *connection;
  sqlite3_value *hidden[TSX_ARGUMENTS_MOST + 3]; /* arguments, key, as_of, since: copies; NULL if not given */
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

/* ---- tables_array.c, tables_group.c, tables_check.c, tables_aggregate.c ---- */
typedef struct tsx_inside { /* what tables that look inside an array have at hand; first in their states */
  tsx_address address;
  tsx_snapshot *snapshot; /* NULL where only the schema is asked for */
  const tsr_schema *schema;
  char **names;
} tsx_inside;
int tsx_inside_open(tsx_scan *scan, int arguments, bool fragments, tsr_error *error);
void tsx_inside_close(tsx_scan *scan);
extern const tsx_about tsx_about_array, tsx_about_schema, tsx_about_enumeration, tsx_about_fragments, tsx_about_tiles;
extern const tsx_about tsx_about_check, tsx_about_aggregate, tsx_about_partitions, tsx_about_advise;
/* xIntegrity of array tables: PRAGMA integrity_check, and quick_check (bit 0 of the flags). */
int tsx_integrity(sqlite3_vtab *vtab, const char *schema, const char *name, int flags, char **message);
extern const tsx_about tsx_about_metadata, tsx_about_members, tsx_about_objects;

/* ---- functions.c ---- */
int tsx_register_functions(tsx_connection *connection);
/* Before a function changes what lies at a path: in the database, all of it or nothing happens, and "db:", a path without
 * a table, leaves it to the first statement to lock. Call tsx_function_end after a failure, too. */
int tsx_function_begin(tsx_connection *connection, const char *path, tsr_error *error);
/* The same of what `path` has opened: the table as it is under the lock. */
int tsx_function_begin_at(tsx_address *address, sqlite3_value *path, tsr_error *error);
/* The array or group at the path that is a function's argument, which the function changes; `begin` is called, too, and
 * the host's interrupts are asked for until it is closed. To be closed after a failure, too. */
typedef struct tsx_target { /* `= {0}` then close is safe */
  tsx_address address;
  tsr_group *group; /* NULL: an array, address.array */
} tsx_target;
int tsx_target_open(tsx_connection *connection, sqlite3_value *path, tsx_target *target, tsr_error *error);
void tsx_target_close(tsx_target *target);
/* Ends that, and gives an error, where `code` is one, the name of the function that fails. Of functions only. */
void tsx_function_end(sqlite3_context *context, const char *function, int code, const tsr_error *error);
/* The first `texts` arguments, as far as they are given, are text. */
int tsx_arguments_check(int count, sqlite3_value **values, int texts, tsr_error *error);

/* ---- functions_maintain.c ---- */
void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what]) */

/* ---- functions_copy.c ---- */
void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

/* ---- functions_change.c: see sql.md, "Functions" ---- */
void tsx_set_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_delete_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_expand_domain(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_create_group(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_remove_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_array(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- npy.c ---- */
/* The attribute that a table shows under a name; `array` is how the caller calls the array. */
int tsx_attribute_find(const tsr_schema *schema, const char *array, const char *name, uint32_t *field,
                       tsr_error *error);
void tsx_npy(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_write_npy(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- png.c ---- */
typedef struct tsx_colours { /* a colour map laid over a range of values */
  bool split; /* another map below 0, where the range has 0 inside */
  double low, high;
  uint8_t below[256][4], map[256][4], nodata[4]; /* RGBA */
} tsx_colours;
/* The map `name` over low..high; `nodata` is left as it is. TSR_ERROR, naming all, where none is called so. */
int tsx_colours_make(const char *name, double low, double high, tsx_colours *colours, tsr_error *error);
const uint8_t *tsx_colour_of(const tsx_colours *colours, double value); /* NaN: nodata */
/* "transparent", a few names, "#rrggbb", "#rrggbbaa" */
int tsx_colour_parse(const char *text, uint8_t colour[4], tsr_error *error);
/* A PNG file of RGBA, of sqlite3_malloc. `row` gives one row of 4 * width bytes after the other, the highest first;
 * TSR_TOOBIG where the file is larger than `limit` bytes. */
typedef int (*tsx_png_row)(void *argument, uint64_t y, uint8_t *row, tsr_error *error);
int tsx_png_encode(uint32_t width, uint32_t height, tsx_png_row row, void *argument, uint64_t limit, uint8_t **file,
                   uint64_t *size, tsr_error *error);

/* ---- picture.c ---- */
void tsx_png(sqlite3_context *context, int count, sqlite3_value **values); /* (path, attribute[, slice[, options]]) */
void tsx_preview(sqlite3_context *context, int count, sqlite3_value **values); /* the same */

#endif
