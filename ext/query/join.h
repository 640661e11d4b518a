/* join.h: the tables that a tessera_query joins: what each of them is, and its columns. */
#ifndef TSX_QUERY_JOIN_H
#define TSX_QUERY_JOIN_H

#include "query/compiled.h"

typedef enum tsx_table_kind { TSX_TABLE_SQLITE, TSX_TABLE_ARRAY, TSX_TABLE_QUERY, TSX_TABLE_OTHER } tsx_table_kind;

/* Finds what a table is that is no view, by the text that made it; OTHER: a virtual table of another module, or none. */
int tsx_table_kind_find(const tsx_query *query, const char *schema, const char *table, tsx_table_kind *kind,
                        tsr_error *error);

/* Finds what a joined table is, which is in the database join->schema, and its columns. */
int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error);

/* Joined arrays that the engine reads, without rows of SQLite's. */

/* Reads these columns of a joined array as blocks and takes its cells (tsx_joined_take). `statement` would read them as
 * rows: SQLite has asked the authorizer about it. Returns 1; 0 if they must be read as rows. */
int tsx_joined_cells(tsx_query *query, uint32_t join, sqlite3_stmt *statement, const uint32_t *columns, uint32_t count,
                     tsr_error *error);

/* Tables that a tessera_query joins by several dimensions. Their rows are read once, into lists. */

/* Returns the list of the rows' numbers, into which the sum of the join's numbers points, or that of a column, into which
 * a row's number points. The lists are empty at first. NULL: no memory. */
const tsr_value_list *tsx_joined_places(tsx_query *query, uint32_t join);
const tsr_value_list *tsx_joined_column(tsx_query *query, uint32_t join, uint32_t column);

/* Reads the rows of the joins with bindings. */
int tsx_joined_read(tsx_query *query, tsr_error *error);

/* Takes a row: the values of these columns. A row with a null in a bound column equals no coordinate. A text of a bound
 * column is copied, others live as long as the query. */
int tsx_joined_take(tsx_query *query, uint32_t join, const tsr_value *values, tsr_error *error);

/* Returns true if only values of a bound column from ends[0] to ends[1] can equal what it is bound to. They are known once
 * tsx_joined_read has begun with the join. */
bool tsx_joined_within(const tsx_query *query, uint32_t join, uint32_t binding, int64_t ends[2]);

/* Gives the values of a bound column, for SQLite: each has the number of its row, from 1 on, and is in the slot. */
tsx_rows *tsx_joined_values(const tsx_query *query, uint32_t join, uint32_t binding, int *slot);

/* Makes places of the numbers that the axes have found, and the lists. */
int tsx_joined_finish(tsx_query *query, tsr_error *error);

/* After that: returns true if the join has a row for each coordinate that is read. */
bool tsx_joined_complete(const tsx_query *query, uint32_t join);

void tsx_joined_release(tsx_query *query);

#endif
