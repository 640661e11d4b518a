/* unions.h: takes a statement apart, so that SQLite tells where the columns of its result come from. Of a UNION it tells
 * the origins of one SELECT alone, but it tells those of each statement that has one SELECT in place of the UNION. Of
 * min(t) it tells nothing, but of a statement that has t in its place it tells the origin of t. */
#ifndef TSX_SQL_UNIONS_H
#define TSX_SQL_UNIONS_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* `sql` is a statement with one SELECT in place of each UNION; NULL if the text has one that cannot be taken apart. */
typedef int (*tsx_union_task)(void *argument, const char *sql, tsr_error *error);

/* With `ends`, calls in the list of a SELECT that return one of the values of a column are first replaced by the column:
 * min, max, and the windows first_value, last_value, nth_value, lag and lead. Then `task` is also called for a statement
 * without UNION.
 *
 * If a statement has a UNION, also within parentheses, WITH or a view, calls `task` for each way to choose one of the
 * SELECTs of each. EXCEPT and INTERSECT return values of their first SELECT, so that is the one that is chosen. After
 * the call with NULL there is no other. Ends with the first call that fails. */
int tsx_unions_each(sqlite3 *db, const char *text, bool ends, tsx_union_task task, void *argument, tsr_error *error);

#endif
