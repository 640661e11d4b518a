/* outer.h: constraints of the statement around a tessera_query, `SELECT ... FROM q WHERE month = '06'`. They leave out
 * coordinates before any cell is read. SQLite tests them again, with its own affinities. So a constraint may keep too
 * much here, and must not leave out a row that SQLite would keep.
 *
 * A datetime of cells is the exception. In a view SQLite hands the constraint to the table, which compares instants
 * (bounds.h). So the query decides such a constraint, and SQLite does not test it. */
#ifndef TSX_OUTER_H
#define TSX_OUTER_H

#include "query/request.h"

typedef struct tsx_outer {
  uint32_t item; /* of the SELECT */
  int op; /* SQLITE_INDEX_CONSTRAINT_EQ and the like */
  bool in; /* the constraint is `item IN (...)`, and `value` its list, for sqlite3_vtab_in_first; `op` is that of = */
  bool decides; /* tsx_outer_decides was true: SQLite does not test the constraint */
  sqlite3_value *value; /* borrowed */
  int request; /* set by tsx_outer_request: the number of the axis's values, or < 0 */
} tsx_outer;

/* Returns true if constraints may leave out rows. They do so only if the items tell the rows apart (tsx_run_rowid). */
bool tsx_outer_possible(const tsx_query *query);

/* Returns true if constraints on the item can be tested before any cell is read. */
bool tsx_outer_takes(const tsx_query *query, uint32_t item);

/* Returns true if the query decides a constraint, so that SQLite must not test it. `right` is the value that the item is
 * compared with, or NULL if it is not known yet. */
bool tsx_outer_decides(const tsx_query *query, uint32_t item, int op, bool in, sqlite3_value *right);

/* Adds the constraints on dimensions to the query's bounds. Call it before tsx_axes_find, which narrows the axes by them. */
int tsx_outer_bounds(tsx_query *query, const tsx_outer *outer, uint32_t count, tsr_error *error);

/* Requests the values that the other constraints compare. tsx_axes_find came before. */
int tsx_outer_request(tsx_query *query, tsx_outer *outer, uint32_t count, tsr_error *error);

/* Leaves out coordinates, or adds conditions of cells to `asked`, after the axes have been evaluated. */
int tsx_outer_apply(tsx_asked *asked, const tsx_outer *outer, uint32_t count, tsr_error *error);

#endif
