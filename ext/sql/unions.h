/* unions.h: takes a statement with UNION apart. SQLite tells for a column of a result where it comes from, but in a
 * UNION only for one of the SELECTs. A statement with one SELECT in place of each UNION has the origins of that one. */
#ifndef TSX_SQL_UNIONS_H
#define TSX_SQL_UNIONS_H

#include "connection/sqlite_api.h"
#include "tessera.h"

/* `sql` is a statement with one SELECT in place of each UNION; NULL if the text has one that cannot be taken apart. */
typedef int (*tsx_union_task)(void *argument, const char *sql, tsr_error *error);

/* If a statement has a UNION, also within parentheses, WITH or a view, calls `task` for each way to choose one of the
 * SELECTs of each. EXCEPT and INTERSECT return values of their first SELECT, so that is the one that is chosen. After
 * the call with NULL there is no other. Ends with the first call that fails. */
int tsx_unions_each(sqlite3 *db, const char *text, tsx_union_task task, void *argument, tsr_error *error);

#endif
