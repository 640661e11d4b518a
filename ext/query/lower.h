/* lower.h: expressions of several columns as nodes that the engine evaluates over cells. */
#ifndef TSX_LOWER_H
#define TSX_LOWER_H

#include "query/compiled.h"

typedef struct tsx_lowered { /* an expression for the engine */
  tsr_expression expression;
  const tsx_expr **trees; /* [expression.count]: what each node stands for */
} tsx_lowered;

/* Makes an expression for the engine. `trees` are ANDed if there are several. */
int tsx_lower(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsx_lowered *lowered, tsr_error *error);

/* Adds to an expression that is a condition, or empty: the code of the axis of labels is one that the axis keeps. */
int tsx_lower_kept(tsx_query *query, const tsx_expr *tree, uint32_t axis, tsx_lowered *lowered, tsr_error *error);

/* Adds, in the same way: the datetime column lies in the ranges. */
int tsx_lower_ranges(tsx_query *query, const tsx_expr *column, const tsr_ranges *ranges, tsx_lowered *lowered,
                     tsr_error *error);

/* Adds, in the same way: the column is null. */
int tsx_lower_null(tsx_query *query, const tsx_expr *column, tsx_lowered *lowered, tsr_error *error);

/* Makes an expression that is the value of the column alone: its code, if it is enumerated. */
int tsx_lower_field(tsx_query *query, const tsx_expr *tree, int column, tsx_lowered *lowered, tsr_error *error);

/* Fails if SQLite has another order of texts than the engine: that of UTF-16. */
int tsx_query_orders_texts(const tsx_query *query, const tsx_expr *tree, tsr_error *error);

/* Checks the types. Call it when the axes have been evaluated. Sets *type to that of the value. */
int tsx_lowered_check(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error);

#endif
