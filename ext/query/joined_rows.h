/* joined_rows.h: tables that a tessera_query joins by several dimensions. Their rows are read once, into lists. */
#ifndef TSX_JOINED_ROWS_H
#define TSX_JOINED_ROWS_H

#include "query/query.h"

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
