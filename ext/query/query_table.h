/* query_table.h: the virtual table module tessera_query: CREATE VIRTUAL TABLE q USING tessera_query(SELECT ...). */
#ifndef TSX_QUERY_TABLE_H
#define TSX_QUERY_TABLE_H

#include "connection/connection.h"

int tsx_register_query(tsx_connection *connection); /* returns SQLite's code */

#endif
