/* compiled.h: a tessera_query that has been parsed, and what its evaluation over one state of its array keeps. compile.c
 * makes it, run.c drives the evaluation:
 *
 *   pushdown.c        comparisons of a dimension or a label with constants: ranges of the dimension
 *   coordinates.c   what depends on one dimension or one enumerated attribute: SQLite evaluates it once for each value
 *                   that the column can have (an axis)
 *   join.c          tables that are joined by one dimension: SQLite looks for their row once for each coordinate
 *   join.c   tables that are joined by several dimensions: their rows are read once, into lists
 *   lower.c         what depends on several columns: nodes of an expression that the engine evaluates over cells
 *   rows.c          what stands around aggregates: SQLite evaluates it once for each group
 */
#ifndef TSX_QUERY_H
#define TSX_QUERY_H

#include "query/evaluation.h"
#include "query/tree.h"
#include "table/module.h"
#include "table/open_array.h"

typedef struct tsx_axis { /* the values that one column can have */
  int column; /* of the table */
  bool usable; /* no more than TSX_COORDINATES_MAX; else the engine has to evaluate what depends on the column */
  bool listed; /* of a sparse array, and past TSX_COORDINATES_MAX: SQLite evaluates the coordinates of cells alone */
  int64_t *coordinates; /* [count], in order, once tsx_axes_evaluate has read them; `count` is set then, too */
  int64_t low;
  uint64_t count;
  const tsx_expr **trees; /* what SQLite evaluates for each value */
  bool *tests; /* [tree_count]: it is a condition, of which the truth is kept */
  uint32_t tree_count;
  tsr_value **values; /* [tree_count][count] */
  uint8_t *kept; /* [count]: the conditions allow it; NULL: all are allowed */
} tsx_axis;

typedef struct tsx_bound_range { /* `column op constant`, as ranges of a dimension's values */
  struct tsx_bound_range *next;
  int column;
  tsr_ranges set;
} tsx_bound_range;

typedef struct tsx_decided { /* a term of WHERE that compares instants, as the table does (pushdown.h) */
  struct tsx_decided *next;
  const tsx_expr *tree;
} tsx_decided;

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
  tsx_decided *decided;
  tsx_value_use *uses;
  struct tsx_joined *joined[TSX_JOINS_MAX]; /* of joins with bindings */
} tsx_query;

#endif
