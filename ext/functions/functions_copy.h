/* functions_copy.h: tessera_copy(from, to[, options]): makes a new array with the cells of another one, with other tile
 * extents, filters or orders. */
#ifndef TSX_FUNCTIONS_COPY_H
#define TSX_FUNCTIONS_COPY_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* Writes the values that the labels have read into the labels of the new array `target`, which has as many, in the same
 * order. memory_bytes limits the values of each; 0: no limit. */
int tsx_labels_write(tsr_array *target, tsr_label_index *const *labels, uint32_t count, uint64_t memory_bytes,
                     tsr_error *error);

void tsx_copy(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_copy(from, to[, options]) */

#endif
