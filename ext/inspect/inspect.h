/* inspect.h: what the tables that look inside an array share (tessera_array, tessera_schema, tessera_enumeration,
 * tessera_fragments, tessera_tiles, tessera_aggregate, tessera_partitions, tessera_gaps, tessera_advise),
 * tessera_nearest, tessera_sample and tessera_token. The tables themselves are declared in call/table_function.h. */
#ifndef TSX_INSPECT_INSPECT_H
#define TSX_INSPECT_INSPECT_H

#include "tessera.h"
#include "table/table.h"
#include "connection/sqlite_api.h"

/* ---- array.c: opening the array of a scan ------------------------------------------------------------------------ */

typedef struct tsx_scan tsx_scan;

typedef struct tsx_inside { /* an open array; the first member of the state of these tables */
  tsx_address address;
  tsx_snapshot *snapshot; /* NULL if the table needs only the schema */
  const tsr_schema *schema;
  char **names; /* of the schema's fields, in SQL */
} tsx_inside;

/* Opens the array that a scan's arguments name, and if `fragments` is set a snapshot. The scan's state must begin with
 * a tsx_inside. */
int tsx_inside_open(tsx_scan *scan, bool fragments, tsr_error *error);
void tsx_inside_close(tsx_scan *scan); /* also after an error */

/* ---- nearest.c: tessera_nearest ---------------------------------------------------------------------------------- */

/* Finds a label by the name that it has in SQL; *label is its number. `address` names the array in the error
 * message. */
int tsx_label_named(const tsx_address *address, const tsr_schema *schema, const char *name, uint32_t *label,
                    tsr_error *error);

/* tessera_nearest(path, label, value[, side[, tolerance]]), as an SQL function. */
void tsx_nearest(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- sample.c: tessera_sample ------------------------------------------------------------------------------------ */

/* tessera_sample(path, attribute, point[, method[, options]]), as an SQL function. */
void tsx_sample(sqlite3_context *context, int count, sqlite3_value **values);

/* ---- token.c: tessera_token(path) -------------------------------------------------------------------------------- */

void tsx_token_function(sqlite3_context *context, int count, sqlite3_value **values);

#endif
