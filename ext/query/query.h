/* query.h: a tessera_query that has been parsed, and its evaluation over one state of its array. run.c drives it:
 *
 *   coordinates.c   what depends on one dimension or one enumerated attribute: SQLite evaluates it once for each value
 *                   that the column can have (an axis)
 *   join.c          tables that are joined by one dimension: SQLite looks for their row once for each coordinate
 *   joined_rows.c   tables that are joined by several dimensions: their rows are read once, into lists
 *   lower.c         what depends on several columns: nodes of an expression that the engine evaluates over cells
 *   rows.c          what stands around aggregates: SQLite evaluates it once for each group
 */
#ifndef TSX_QUERY_H
#define TSX_QUERY_H

#include "query/rows.h"
#include "query/tree.h"
#include "table/module.h"
#include "table/open_array.h"

#define TSX_COORDINATES_MAX 1048576u

typedef struct tsx_axis { /* the values that one column can have */
  int column; /* of the table */
  bool usable; /* no more than TSX_COORDINATES_MAX; else the engine has to evaluate what depends on the column */
  int64_t low;
  uint64_t count;
  const tsx_expr **trees; /* what SQLite evaluates for each value */
  bool *tests; /* [tree_count]: it is a condition, of which the truth is kept */
  uint32_t tree_count;
  tsr_value **values; /* [tree_count][count] */
  uint8_t *kept; /* [count]: the conditions allow it; NULL: all are allowed */
} tsx_axis;

typedef struct tsx_bound_range { /* `column op constant` in WHERE, as ranges of a dimension's values */
  struct tsx_bound_range *next;
  int column;
  tsx_ranges ranges;
  tsr_ranges set;
  sqlite3_value *value; /* what the ranges may point to; owned */
} tsx_bound_range;

typedef struct tsx_lowered { /* an expression for the engine */
  tsr_expression expression;
  const tsx_expr **trees; /* [expression.count]: what each node stands for */
} tsx_lowered;

typedef struct tsx_value_use { /* a table of values of a TSX_OP_TABLE node, filled when its axis has been evaluated */
  struct tsx_value_use *next;
  tsr_value_table *table;
  uint32_t axis, tree;
  const tsx_expr *words;
} tsx_value_use;

typedef struct tsx_compiling { /* the queries that are being compiled or evaluated, the innermost first */
  const struct tsx_compiling *outer;
  const char *home, *text;
} tsx_compiling;

typedef struct tsx_query {
  tsx_connection *connection;
  const char *home; /* as given to tsx_query_compile; borrowed */
  tsx_select select;
  const tsx_snapshot *shown; /* the state that is read; borrowed */
  tsx_table *table; /* the table in FROM; borrowed: valid while the statement runs */
  bool over_groups; /* the results are groups; else cells */
  uint64_t memory_bytes;
  unsigned threads;
  tsx_axis *axes;
  uint32_t axis_count;
  tsx_bound_range *bounds;
  tsx_value_use *uses;
  struct tsx_joined *joined[TSX_JOINS_MAX]; /* of joins with bindings */
} tsx_query;

/* Sets the table in FROM, which is looked up in the database `home` ("temp": in all databases), and resolves names. */
int tsx_query_compile(tsx_connection *connection, const char *home, const char *text, tsx_query *query,
                      tsr_error *error);
void tsx_query_release(tsx_query *query);

/* Fails if the host's authorizer hides a column that the query uses (SQLITE_IGNORE): SQLite gives NULL for it, but the
 * engine reads the cells. What the authorizer denies, tsx_query_compile refuses. */
int tsx_query_permitted(const tsx_query *query, tsr_error *error);

/* Makes the CREATE TABLE statement of the columns as a view of the same text has them. */
int tsx_query_declare(const tsx_query *query, char **declaration, tsr_error *error);

/* Returns the type that the column of an item is declared with. A CAST has the affinity of its type; other expressions
 * have none. */
const char *tsx_query_declared(const tsx_query *query, const tsx_expr *tree);

/* Evaluates a constant. The caller frees the value by sqlite3_value_free. */
int tsx_query_constant(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* Copies a value of SQLite's; text lives as long as the query. A BLOB is TSR_MISMATCH. */
int tsx_query_copy(tsx_query *query, sqlite3_value *value, tsr_value *copy, tsr_error *error);

/* ---- join.c ------------------------------------------------------------------------------------------------------ */

/* Finds what a joined table is, which is in the database join->schema, and its columns. */
int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error);

/* ---- joined_rows.c ----------------------------------------------------------------------------------------------- */

/* Returns the list of the rows' numbers, into which the sum of the join's numbers points, or that of a column, into which
 * a row's number points. The lists are empty at first. NULL: no memory. */
const tsr_value_list *tsx_joined_places(tsx_query *query, uint32_t join);
const tsr_value_list *tsx_joined_column(tsx_query *query, uint32_t join, uint32_t column);

/* Reads the rows of the joins with bindings. */
int tsx_joined_read(tsx_query *query, tsr_error *error);

/* Gives the values of a bound column, for SQLite: each has the number of its row, from 1 on, and is in the slot. */
tsx_rows *tsx_joined_values(const tsx_query *query, uint32_t join, uint32_t binding, int *slot);

/* Makes places of the numbers that the axes have found, and the lists. */
int tsx_joined_finish(tsx_query *query, tsr_error *error);
void tsx_joined_release(tsx_query *query);

/* ---- coordinates.c ----------------------------------------------------------------------------------------------- */

/* Returns true if SQLite can evaluate expressions of this column once for each value. */
bool tsx_axis_possible(const tsx_column *column);

/* Finds the ends of all axes in a snapshot, narrowed by comparisons of WHERE with constants. Returns 1; 0 if no cell can
 * satisfy WHERE. */
int tsx_axes_find(tsx_query *query, tsx_snapshot *snapshot, tsr_error *error);

/* Makes axes without values, as if no cell satisfied WHERE. */
int tsx_axes_none(tsx_query *query, tsr_error *error);

/* Adds `column op value` to the ranges of a dimension, for which tsx_ranges_possible is true. The query frees the value;
 * NULL stands for one without memory. */
int tsx_bound_add(tsx_query *query, int column, tsx_op op, sqlite3_value *value, tsr_error *error);

/* Returns the number of the axis of a tree that depends on one column, if the axis is usable; else -1. Labels may be null,
 * coordinates are not: tsx_axis_of_dimension returns -1 for labels. */
int tsx_axis_of(const tsx_query *query, const tsx_expr *tree);
int tsx_axis_of_dimension(const tsx_query *query, const tsx_expr *tree);

/* Adds an expression to those that are evaluated for each value. Returns its number among the axis's trees, or < 0. */
int tsx_axis_request(tsx_query *query, uint32_t axis, const tsx_expr *tree, bool test, tsr_error *error);

/* Evaluates an expression for a null of the axis's column. */
int tsx_axis_null(tsx_query *query, uint32_t axis, const tsx_expr *tree, tsr_value *value, tsr_error *error);

/* Evaluates the expressions of all axes. */
int tsx_axes_evaluate(tsx_query *query, tsr_error *error);

/* Makes the ranges of a dimension from what is kept of its axis and from comparisons with constants. */
int tsx_axes_ranges(tsx_query *query, tsr_ranges *dimensions, tsr_error *error);

/* ---- lower.c ----------------------------------------------------------------------------------------------------- */

/* Makes an expression for the engine. `trees` are ANDed if there are several. */
int tsx_lower(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsx_lowered *lowered, tsr_error *error);

/* Adds to an expression that is a condition, or empty: the code of the axis of labels is one that the axis keeps. */
int tsx_lower_kept(tsx_query *query, const tsx_expr *tree, uint32_t axis, tsx_lowered *lowered, tsr_error *error);

/* Makes an expression that is the value of the column alone: its code, if it is enumerated. */
int tsx_lower_field(tsx_query *query, const tsx_expr *tree, int column, tsx_lowered *lowered, tsr_error *error);

/* Fails if SQLite has another order of texts than the engine: that of UTF-16. */
int tsx_query_orders_texts(const tsx_query *query, const tsx_expr *tree, tsr_error *error);

/* Checks the types. Call it when the axes have been evaluated. Sets *type to that of the value. */
int tsx_lowered_check(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error);

#endif
