/* copy.h: the state of a tessera_copy, which copy.c and copy.c share. copy.c opens the
 * source, makes the new schema and array, and calls tsx_copy_cells to write the cells. */
#ifndef TSX_MAINTAIN_COPY_H
#define TSX_MAINTAIN_COPY_H

#include "tessera.h"
#include "definition/columns.h"
#include "table/address.h"
#include "connection/sqlite_api.h"

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

/* Copies the cells of the snapshot into the target, in one commit or several. */
int tsx_copy_cells(tsx_copying *copying, tsr_error *error);

/* Abandons what was not published and frees the writers and buffers. The caller calls it also if tsx_copy_cells failed or
 * was never called. */
void tsx_copy_cells_close(tsx_copying *copying);

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

#endif
