/* upkeep.h: the functions that change, copy and maintain arrays and groups, make overviews of arrays, declare buckets,
 * and restrict a connection. docs/reference/functions.md lists them. */
#ifndef TSX_MAINTAIN_UPKEEP_H
#define TSX_MAINTAIN_UPKEEP_H

#include "connection/sqlite_api.h"
#include "table/table.h"
#include "tessera.h"
#include "definition/define.h"
#include "sql/json.h"

/* ---- upkeep.c: tessera_consolidate, tessera_vacuum, tessera_lease ------------------------------------------------ */

void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_upkeep(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_upkeep(path[, options]) */
void tsx_lease(sqlite3_context *context, int count, sqlite3_value **values); /* (path, seconds) */

/* ---- change.c: changes of metadata, schemas and groups, and tessera_drop ----------------------------------------- */

/* Removes the overviews of an array that is about to be dropped. Does nothing if the array cannot be opened. */
int tsx_drop_overviews(tsx_address *address, tsr_error *error);

void tsx_set_metadata(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_attribute(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_check(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_check(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_extend_enumeration(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_expand_domain(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_create_group(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_add_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop_member(sqlite3_context *context, int count, sqlite3_value **values);
void tsx_drop(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- revert.c: an earlier state of a table, as rows of the open transaction --------------------------------------- */

void tsx_revert(sqlite3_context *context, int count, sqlite3_value **values); /* (table, time[, slice]) */

/* ---- copy.c: tessera_copy, tessera_sync -------------------------------------------------------------------------- */

typedef struct tsx_gathered { /* one column of a block of a dense array; the buffers are from sqlite3_malloc */
  uint8_t *values, *validity;
  uint64_t *offsets;
  uint64_t size; /* bytes of `values` in use */
  uint64_t room; /* capacity of `values`, in bytes */
  uint64_t cells_room; /* capacity of `validity` and `offsets`, in cells */
} tsx_gathered;

typedef struct tsx_layout { /* the fragments that lack the same set of attributes */
  bool *lacking; /* by field of the source: true if these fragments lack the attribute */
  const tsr_schema *schema; /* a schema of the new array without these attributes; NULL: the newest schema */
  uint32_t *fields; /* by field of `schema`: the source's field, or UINT32_MAX if the source has none */
  tsr_writer *writer; /* opened for the first cell */
} tsx_layout;

typedef struct tsx_copied_cells { /* the cells of one batch; arrays are by field of the source unless noted */
  tsr_column *columns; /* the cells to append */
  tsr_column *given; /* the same, by field of a layout's schema */
  tsx_gathered *gathered;
  uint32_t *selection; /* row numbers of the batch */
  uint64_t selection_room; /* capacity of `selection` */
} tsx_copied_cells;

typedef struct tsx_layouts {
  tsx_layout *items; /* items[0] lacks nothing; from sqlite3_malloc */
  uint32_t count;
  uint32_t *of; /* by fragment: its layout */
} tsx_layouts;

typedef struct tsx_copying { /* the state of a tessera_copy */
  tsx_connection *connection;
  tsx_address from;
  tsr_snapshot *snapshot;
  const tsr_schema *source;
  char **names; /* of the source's fields, in SQL */
  tsr_label_index **labels; /* of the source, with their values */
  tsx_definition definition; /* the new schema; owns most memory of the copy */
  tsr_creation *creation; /* NULL for an array in the database */
  tsr_array *target;
  tsr_reader *reader;
  uint32_t fields; /* of the source */
  uint64_t cells; /* copied so far */
  tsx_copied_cells batch;
  tsx_layouts layouts;
} tsx_copying;

/* Writes the values of `labels`, which have been read, into the labels of the new array `target`, which has the same
 * number of labels in the same order. memory_bytes limits the values of each label; 0: no limit. */
int tsx_labels_write(tsr_array *target, tsr_label_index *const *labels, uint32_t count, uint64_t memory_bytes,
                     tsr_error *error);

/* Copies the metadata of from->array, as of the address's times, to a new array, except the key that describes
 * overviews, which the new array has not. */
int tsx_metadata_copy(const tsx_address *from, tsr_array *target, tsr_error *error);

void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

void tsx_sync_array(sqlite3_context *context, int count,
                    sqlite3_value **values); /* tessera_sync(from, to[, options]) */

/* ---- access.c: tessera_configure and tessera_restrict ------------------------------------------------------------ */

/* tessera_configure(scope, options): `scope` is "s3://bucket[/prefix]", azure:// or gcs://; `options` is a JSON object,
 * or NULL to remove the scope. */
void tsx_configure(sqlite3_context *context, int count, sqlite3_value **values);

/* tessera_restrict(directory): from then on, the connection opens and creates arrays and groups, and reads key files,
 * only below that directory. */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- regrid.c: tessera_regrid, and making an array from the blocks of another, as overviews do, too ------------- */

#define TSX_OVERVIEWS_KEY "tessera_overviews" /* the metadata key that describes an array's overviews */

typedef struct tsx_regrid_source { /* the array to regrid, and what a call says of it; `= {0}` may be closed */
  tsr_snapshot *snapshot;
  const tsr_schema *schema;
  char **names; /* tsx_names_make */
  uint64_t *factors; /* by dimension: cells of a block; 1 at first */
  bool *fields; /* by field: it is selected */
  bool *marks; /* by dimension, for the caller */
} tsx_regrid_source;

/* Opens a state of an array. The caller closes *source, also after a failure. */
int tsx_regrid_source_open(tsr_array *array, uint64_t since, uint64_t as_of, tsx_regrid_source *source,
                           tsr_error *error);
void tsx_regrid_source_close(tsx_regrid_source *source);

/* Makes the array `to`, a directory or 'db:NAME', from the blocks of a snapshot of from->array. It appears complete or
 * not at all. If `describe` is true, it also gets the source's metadata, and the labels of dimensions whose factor is
 * 1. Its metadata key `key` is set to the text `note`. *cells is the number of cells written. In the database a
 * savepoint stays open; the caller ends it by tsx_savepoint_end, also after a failure. */
int tsx_regrid_make(tsx_address *from, tsr_snapshot *snapshot, const tsr_regrid_request *request, const char *to,
                    bool describe, const char *key, const char *note, uint64_t *cells, tsr_error *error);

/* Sets a key of an array's metadata to a text. */
int tsx_metadata_set_text(tsr_array *array, const char *key, const char *text, tsr_error *error);

/* Finds the method with this name; TSR_ERROR if there is none. */
int tsx_regrid_method_parse(const char *name, tsr_regrid_method *method, tsr_error *error);

/* Read the options "columns" and "dimensions", JSON arrays of names, and set the elements of source->fields and
 * source->marks. */
int tsx_regrid_columns_parse(sqlite3 *db, sqlite3_value *value, tsx_regrid_source *source, tsr_error *error);
int tsx_regrid_dimensions_parse(sqlite3 *db, sqlite3_value *value, tsx_regrid_source *source, tsr_error *error);

void tsx_regrid(sqlite3_context *context, int count,
                sqlite3_value **values); /* (from, to, factors, method[, options]) */

/* ---- overviews.c: tessera_make_overviews, and finding the level that suits a picture ----------------------------- */

typedef struct tsx_level { /* an open level; `= {0}` may be closed */
  unsigned shift; /* a cell of the level is 2^shift cells of the array on the halved dimensions */
  tsx_connection *connection;
  tsx_array *array;
  tsr_snapshot *snapshot;
} tsx_level;

/* Opens the coarsest level that still has at least `height` x `width` cells for `rows` x `columns` cells of the array
 * on the dimensions `row` and `column`, provided that the overviews are up to date with the snapshot. Returns 1; 0 if
 * there is no such level. The caller closes it. The connection keeps its array open, with cached tiles, for the next
 * picture. */
int tsx_level_open(tsx_address *address, tsr_snapshot *snapshot, char *const *names, uint32_t row, uint32_t column,
                   double rows, double columns, uint64_t height, uint64_t width, tsx_level *level, tsr_error *error);
void tsx_level_close(tsx_level *level);

/* Reports what is wrong with an array's overviews: notes if they are out of date or a level is missing, and the
 * findings of the check of each level. */
int tsx_overviews_check(tsx_address *address, tsr_check_report report, void *argument, tsr_error *error);

/* Removes the levels, but not the metadata. *count is the number of levels removed. */
int tsx_overviews_drop(tsx_address *address, uint64_t *count, tsr_error *error);

void tsx_make_overviews(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, options]) */

#endif
