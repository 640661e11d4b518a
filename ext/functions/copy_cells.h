/* copy_cells.h: what functions_copy.c and copy_cells.c share: a copy that is being made. */
#ifndef TSX_COPY_CELLS_H
#define TSX_COPY_CELLS_H

#include "tessera.h"
#include "definition/columns.h"
#include "table/address.h"

typedef struct tsx_gathered { /* a column of a slab; of sqlite3_malloc */
  uint8_t *values, *validity;
  uint64_t *offsets;
  uint64_t size, room, cells_room; /* bytes of values; cells that offsets and validity have room for */
} tsx_gathered;

typedef struct tsx_layout { /* the attributes that the cells of some fragments have */
  bool *lacking; /* by field */
  const tsr_schema *schema; /* of the new array, made when its first cell comes; NULL: the newest */
  uint32_t *fields; /* [field of that schema] -> field of the source; UINT32_MAX: of none */
  tsr_writer *writer; /* or NULL */
} tsx_layout;

typedef struct tsx_copying {
  tsx_connection *connection;
  tsx_address from;
  tsr_snapshot *snapshot;
  const tsr_schema *source;
  char **names; /* of the fields, in SQL */
  tsx_definition definition; /* the new schema, and memory */
  tsr_creation *creation;
  tsr_array *target;
  tsr_reader *reader;
  tsr_column *columns; /* by field, as is `gathered` */
  tsr_column *given; /* those of a layout */
  tsx_gathered *gathered;
  uint32_t fields;
  uint64_t cells;
  uint32_t *selection;
  uint64_t selection_room;
  tsx_layout *layouts; /* apart; the first lacks nothing, whether any fragment is so or not */
  uint32_t layout_count;
  uint32_t *layout_of; /* by fragment */
} tsx_copying;

/* Copies the cells of the snapshot into the target, in one commit or several. */
int tsx_copy_cells(tsx_copying *copying, tsr_error *error);
void tsx_copy_cells_close(tsx_copying *copying); /* also where nothing was copied, or not all */

#endif
