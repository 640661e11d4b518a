/* pushdown.h: SQLite's order of values. */
#ifndef TSX_QUERY_PUSHDOWN_H
#define TSX_QUERY_PUSHDOWN_H

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "query/compiled.h"
#include "query/plan.h"

/* Compares two values that are null, INTEGER, REAL or TEXT. Returns < 0, 0, > 0. */
int tsx_values_compare(const tsr_value *a, const tsr_value *b);

typedef struct tsx_constant { /* what values are compared with; made by tsx_constant_make */
  tsr_value value;
  bool is_number; /* a text that SQLite may take for a number */
  double number; /* about that number */
} tsx_constant;

tsx_constant tsx_constant_make(const tsr_value *value);

/* Returns false only if `value op constant` is false or null for SQLite, whatever affinities are applied. `op` is one of
 * SQLITE_INDEX_CONSTRAINT_EQ and the like; with `utf16` the order of texts is not that of their bytes. */
bool tsx_value_may(const tsr_value *value, int op, const tsx_constant *constant, bool utf16);

typedef struct tsx_value_list { /* of IN: values that are not null */
  tsr_value *values;
  uint64_t count;
  bool texts, numbers; /* set by tsx_value_list_sort: which classes of values are among them */
} tsx_value_list;

void tsx_value_list_sort(tsx_value_list *list);

/* Returns false only if no value of a sorted list equals `value`. SQLite has applied the affinity of IN to the values of
 * the list, and not to `value`. */
bool tsx_value_may_be_in(const tsr_value *value, const tsx_value_list *list);

/* Comparisons of a column with constants, as ranges of the column's values. Those of a dimension decide which
 * tiles are read.
 *
 * A table compares a datetime with ISO text of any precision by instants, where SQLite leaves the comparison to the
 * table: in the terms of WHERE that AND joins (docs/reference/types.md). Elsewhere SQLite compares the texts. A query
 * does the same, so it gives the rows of the view. */

/* Makes the ranges of the values that can satisfy `column op value`; of several values, any of them. `how` is a flag of
 * tsx_ranges_make beside those of the connection: 0 or TSX_PLAINLY. The ranges are in the query's arena, and need the
 * values no longer. */
int tsx_bound_ranges(tsx_query *query, const tsx_column *column, tsx_op op, sqlite3_value *const *values,
                     uint32_t count, unsigned how, tsr_ranges *set, tsr_error *error);

/* Adds such ranges to those of a dimension, for which tsx_ranges_possible is true. */
int tsx_bound_add(tsx_query *query, int column, tsx_op op, sqlite3_value *const *values, uint32_t count, unsigned how,
                  tsr_error *error);

/* Finds the comparisons with constants that AND joins in a WHERE, and adds their ranges if query->shown is set. */
int tsx_bounds_find(tsx_query *query, const tsx_expr *where, tsr_error *error);

/* Returns true if a term of WHERE compares a datetime by instants. The bounds of a dimension and of a label decide such a
 * term; for an attribute the engine does. */
bool tsx_bounds_decide(const tsx_query *query, const tsx_expr *term);

/* Returns the operator of values that an operator of the text is, or TSX_NOTNULL if it compares nothing; and the operator
 * for exchanged sides. */
tsx_op tsx_bound_op(tsr_operation operation);
tsr_operation tsx_bound_flipped(tsr_operation operation);

/* Constraints of the statement around a tessera_query, `SELECT ... FROM q WHERE month = '06'`. They leave out
 * coordinates before any cell is read. SQLite tests them again, with its own affinities. So a constraint may keep too
 * much here, and must not leave out a row that SQLite would keep.
 *
 * A datetime of cells is the exception. In a view SQLite hands the constraint to the table, which compares instants
 * (pushdown.h). So the query decides such a constraint, and SQLite does not test it. */

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
