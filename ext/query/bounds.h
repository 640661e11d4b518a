/* bounds.h: comparisons of a column with constants, as ranges of the column's values. Those of a dimension decide which
 * tiles are read.
 *
 * A table compares a datetime with ISO text of any precision by instants, where SQLite leaves the comparison to the
 * table: in the terms of WHERE that AND joins (docs/reference/types.md). Elsewhere SQLite compares the texts. A query
 * does the same, so it gives the rows of the view. */
#ifndef TSX_BOUNDS_H
#define TSX_BOUNDS_H

#include "query/query.h"

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

#endif
