/* joined_cells.h: joined arrays that the engine reads, without rows of SQLite's. */
#ifndef TSX_JOINED_CELLS_H
#define TSX_JOINED_CELLS_H

#include "query/query.h"

/* Reads these columns of a joined array as blocks and takes its cells (tsx_joined_take). `statement` would read them as
 * rows: SQLite has asked the authorizer about it. Returns 1; 0 if they must be read as rows. */
int tsx_joined_cells(tsx_query *query, uint32_t join, sqlite3_stmt *statement, const uint32_t *columns, uint32_t count,
                     tsr_error *error);

#endif
