/* nearest.h: tessera_nearest. */
#ifndef TSX_NEAREST_H
#define TSX_NEAREST_H

#include "connection/sqlite_api.h"
#include "table/address.h"

/* Finds the number of the label that a table shows under `name`. `address` names the array in the error message. */
int tsx_label_named(const tsx_address *address, const tsr_schema *schema, const char *name, uint32_t *label,
                    tsr_error *error);

/* tessera_nearest(path, label, value[, side[, tolerance]]), as an SQL function. */
void tsx_nearest(sqlite3_context *context, int count, sqlite3_value **values);

#endif
