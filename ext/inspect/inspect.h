/* inspect.h: what the tables that look inside an array share: tessera_array, tessera_schema, tessera_enumeration,
 * tessera_fragments, tessera_tiles, tessera_aggregate, tessera_partitions and tessera_advise. */
#ifndef TSX_INSPECT_INSPECT_H
#define TSX_INSPECT_INSPECT_H

#include "tessera.h"
#include "table/table.h"
#include "connection/sqlite_api.h"

typedef struct tsx_scan tsx_scan;

typedef struct tsx_inside { /* an open array; the first member of these tables' states */
  tsx_address address;
  tsx_snapshot *snapshot; /* NULL if the table needs the schema only */
  const tsr_schema *schema;
  char **names; /* of the schema's fields, in SQL */
} tsx_inside;

/* Opens the array that a scan's arguments name, and a snapshot of its fragments if `fragments` is set. `arguments` is the
 * table's number of arguments. The scan's state begins with a tsx_inside. */
int tsx_inside_open(tsx_scan *scan, int arguments, bool fragments, tsr_error *error);
void tsx_inside_close(tsx_scan *scan); /* also after an error */

/* Tessera_nearest. */

/* Finds the number of the label that a table shows under `name`. `address` names the array in the error message. */
int tsx_label_named(const tsx_address *address, const tsr_schema *schema, const char *name, uint32_t *label,
                    tsr_error *error);

/* tessera_nearest(path, label, value[, side[, tolerance]]), as an SQL function. */
void tsx_nearest(sqlite3_context *context, int count, sqlite3_value **values);

#endif
