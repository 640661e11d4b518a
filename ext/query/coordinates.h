/* coordinates.h: the axes of a tessera_query: what depends on one dimension or one enumerated attribute. SQLite
 * evaluates it once for each value that the column can have. */
#ifndef TSX_COORDINATES_H
#define TSX_COORDINATES_H

#include "query/compiled.h"

#define TSX_COORDINATES_MAX 1048576u

/* Returns true if SQLite can evaluate expressions of this column once for each value. */
bool tsx_axis_possible(const tsx_column *column);

/* Finds the ends of all axes in a snapshot, narrowed by comparisons of WHERE with constants. Returns 1; 0 if no cell can
 * satisfy WHERE. */
int tsx_axes_find(tsx_query *query, tsx_snapshot *snapshot, tsr_error *error);

/* Makes axes without values, as if no cell satisfied WHERE. */
int tsx_axes_none(tsx_query *query, tsr_error *error);

/* Returns the number of the axis of a tree that depends on one column, if the axis is usable; else -1. Labels may be null,
 * coordinates are not: tsx_axis_of_dimension returns -1 for labels. It does so for listed axes, too, whose expressions are
 * tables of values for the engine. The column alone needs no list. */
int tsx_axis_of(const tsx_query *query, const tsx_expr *tree);
int tsx_axis_of_dimension(const tsx_query *query, const tsx_expr *tree);

/* Adds an expression to those that are evaluated for each value. Returns its number among the axis's trees, or < 0. */
int tsx_axis_request(tsx_query *query, uint32_t axis, const tsx_expr *tree, bool test, tsr_error *error);

/* Finds the least and the greatest value of an expression over an axis (1 and 0: it is always null). *known is false if
 * some value is no integer, or if the values are not known before the joins are. */
int tsx_axis_ends(tsx_query *query, uint32_t number, const tsx_expr *tree, bool *known, int64_t ends[2],
                  tsr_error *error);

/* Evaluates an expression for a null of the axis's column. */
int tsx_axis_null(tsx_query *query, uint32_t axis, const tsx_expr *tree, tsr_value *value, tsr_error *error);

/* Evaluates the expressions of all axes. */
int tsx_axes_evaluate(tsx_query *query, tsr_error *error);

/* Makes the ranges of a dimension from what is kept of its axis and from comparisons with constants. */
int tsx_axes_ranges(tsx_query *query, tsr_ranges *dimensions, tsr_error *error);

#endif
