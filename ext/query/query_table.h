/* query_table.h: the virtual table module tessera_query: CREATE VIRTUAL TABLE q USING tessera_query(SELECT ...). */
#ifndef TSX_QUERY_TABLE_H
#define TSX_QUERY_TABLE_H

#include "connection/connection.h"

int tsx_register_query(tsx_connection *connection); /* returns SQLite's code */

/* Finds the columns of a table of a query that are the keys of its GROUP BY. `columns`, with room for `room` numbers of
 * columns from 0 on, gets them in the order of the keys. Returns their number; 0 if there is no such table, if its query
 * has no GROUP BY, or if a key is not among the columns. */
int tsx_query_table_keys(tsx_connection *connection, const char *schema, const char *name, uint32_t *columns,
                         uint32_t room, tsr_error *error);

#endif
