/* overviews.h: tessera_overviews, and how tessera_png and tessera_preview find the level that suits a picture. */
#ifndef TSX_OVERVIEWS_H
#define TSX_OVERVIEWS_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "table/address.h"
#include "table/open_array.h"

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
