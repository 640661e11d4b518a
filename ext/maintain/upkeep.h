/* upkeep.h: the functions tessera_consolidate, tessera_vacuum and tessera_lease. */
#ifndef TSX_MAINTAIN_UPKEEP_H
#define TSX_MAINTAIN_UPKEEP_H

#include "connection/sqlite_api.h"
#include "table/table.h"
#include "tessera.h"
#include "definition/define.h"
#include "sql/json.h"

void tsx_consolidate(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what[, options]]) */
void tsx_vacuum(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, what]) */
void tsx_lease(sqlite3_context *context, int count, sqlite3_value **values); /* (path, seconds) */

/* The functions that change metadata, schemas and groups, and tessera_drop_array;
 * docs/reference/functions.md describes each of them in "Change what describes data". */

/* Removes the overviews of an array that is about to be dropped. An array that cannot be opened keeps them. */
int tsx_drop_overviews(tsx_address *address, tsr_error *error);

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

/* The state of a tessera_copy, which copy.c and copy.c share. copy.c opens the
 * source, makes the new schema and array, and calls tsx_copy_cells to write the cells. */

typedef struct tsx_gathered { /* one column of a block of a dense array; its buffers are of sqlite3_malloc */
  uint8_t *values, *validity;
  uint64_t *offsets;
  uint64_t size; /* bytes of values in use */
  uint64_t room; /* bytes that `values` has room for */
  uint64_t cells_room; /* cells that `validity` and `offsets` have room for */
} tsx_gathered;

typedef struct tsx_layout { /* a set of fragments that lack the same attributes */
  bool *lacking; /* by field of the source: true if these fragments lack the attribute */
  const tsr_schema *schema; /* a schema of the new array without these attributes; NULL: the newest schema */
  uint32_t *fields; /* by field of `schema`: the source's field, or UINT32_MAX if the source has none */
  tsr_writer *writer; /* NULL until the first cell comes */
} tsx_layout;

typedef struct
    tsx_copied_cells { /* the cells of one batch; each list is by field of the source where nothing else is said */
  tsr_column *columns; /* the cells to append */
  tsr_column *given; /* the same, in the order of a layout's schema */
  tsx_gathered *gathered;
  uint32_t *selection; /* row numbers of the batch */
  uint64_t selection_room; /* row numbers that `selection` has room for */
} tsx_copied_cells;

typedef struct tsx_layouts {
  tsx_layout *items; /* the first lacks nothing; of sqlite3_malloc */
  uint32_t count;
  uint32_t *of; /* by fragment: the number of its layout */
} tsx_layouts;

typedef struct tsx_copying {
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

/* Tessera_copy(from, to[, options]): makes a new array with the cells of another one, with other tile
 * extents, filters or orders. */

/* Writes the values that the labels have read into the labels of the new array `target`, which has as many, in the same
 * order. memory_bytes limits the values of each; 0: no limit. */
int tsx_labels_write(tsr_array *target, tsr_label_index *const *labels, uint32_t count, uint64_t memory_bytes,
                     tsr_error *error);

void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

/* The functions tessera_export and tessera_import. */

void tsx_export(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_export(table, path) */
void tsx_import(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_import(table, path) */

/* The SQL function tessera_s3. */

/* tessera_s3(scope, options): `scope` is "s3://bucket[/prefix]"; `options` is a JSON object, or NULL, which forgets the
 * scope. */
void tsx_s3(sqlite3_context *context, int count, sqlite3_value **values);

/* The SQL function tessera_restrict(directory): from then on the connection opens and makes arrays and
 * groups, and reads key files, only below that directory. functions.c registers it. */

/* The SQL function. */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values);

/* Tessera_regrid, and the step that it shares with tessera_overviews: a new array made of another's blocks. */

#define TSX_OVERVIEWS_KEY "tessera_overviews" /* the metadata that describes an array's overviews */

/* Makes the array `to`, a directory or 'db:NAME', of the blocks of a snapshot of from->array. It appears complete or not
 * at all. If describe is true, it gets the source's metadata, and the labels of dimensions whose factor is 1. `note` is
 * the text of its metadata key `key`. *cells: the number of cells that were written. In the database a savepoint stays
 * open: tsx_savepoint_end ends it, after a failure too. */
int tsx_regrid_make(tsx_address *from, tsr_snapshot *snapshot, const tsr_regrid_request *request, const char *to,
                    bool describe, const char *key, const char *note, uint64_t *cells, tsr_error *error);

/* Sets a key of an array's metadata to a text. */
int tsx_metadata_set_text(tsr_array *array, const char *key, const char *text, tsr_error *error);

/* Finds the method with this name. */
int tsx_regrid_method_parse(const char *name, tsr_regrid_method *method, tsr_error *error);

/* Reads the option "columns", an array of names of attributes, into `fields`, which has one element for each field. */
int tsx_regrid_columns_parse(sqlite3 *db, sqlite3_value *value, const tsr_schema *schema, char *const *names,
                             bool *fields, tsr_error *error);

void tsx_regrid(sqlite3_context *context, int count,
                sqlite3_value **values); /* (from, to, factors, method[, options]) */

/* Tessera_overviews, and how tessera_png and tessera_preview find the level that suits a picture. */

typedef struct tsx_level { /* an open level; `= {0}` may be closed */
  unsigned shift; /* a cell of the level is 2^shift cells of the array on the halved dimensions */
  tsx_connection *connection;
  tsx_array *array;
  tsr_snapshot *snapshot;
} tsx_level;

/* Opens the coarsest level that has at least `height` x `width` cells for `rows` x `columns` cells of the dimensions
 * `row` and `column`, if the array's overviews are of the snapshot's state. Returns 1, or 0 if there is none. The caller
 * closes it. Its array stays open for the next picture, with the decoded tiles. */
int tsx_level_open(tsx_address *address, tsr_snapshot *snapshot, char *const *names, uint32_t row, uint32_t column,
                   double rows, double columns, uint64_t height, uint64_t width, tsx_level *level, tsr_error *error);
void tsx_level_close(tsx_level *level);

/* Reports what is wrong with an array's overviews: notes if they show another state than its present one, or lack a
 * level, and what the check of a level finds. */
int tsx_overviews_check(tsx_address *address, tsr_check_report report, void *argument, tsr_error *error);

/* Removes the levels that the array's metadata names; not the metadata. *count: how many there were. */
int tsx_overviews_drop(tsx_address *address, uint64_t *count, tsr_error *error);

void tsx_overviews(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, options]) */

#endif
