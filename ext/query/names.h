/* names.h: the functions that the text of a tessera_query may call, and nothing else may. */
#ifndef TSX_QUERY_NAMES_H
#define TSX_QUERY_NAMES_H

#include "tessera.h"
#include "query/tree.h"
#include "table/module.h"

typedef struct tsx_function {
  const char *name;
  uint8_t least, greatest; /* numbers of arguments */
  tsr_operation cells; /* the engine's operation over cells; TSR_OP_COUNT: SQLite alone evaluates it */
  bool aggregate;
  tsr_aggregate_function aggregates;
  bool replaced; /* SQLite may lack it: its own parser is given total(x) in its place */
} tsx_function;

/* Returns the function with this name, in any case, that takes this many arguments; NULL if there is none. */
const tsx_function *tsx_function_find(const char *name, uint32_t count);

/* Returns a function with this name, whatever arguments it takes; NULL if there is none. */
const tsx_function *tsx_function_known(const char *name);

/* Finds what the names of a tessera_query mean, by SQLite's rules. */

/* Replaces * by the table's columns, resolves every name and ordinal, sets `field` and `has_aggregate` of every node,
 * and `has_aggregate` of the SELECT. Fails for names that do not exist, and for columns that are neither keys nor in an
 * aggregate, unless the query has exactly one min or max. SELECT DISTINCT over cells becomes a GROUP BY of all items. */
int tsx_select_resolve(tsx_select *select, const tsx_table *table, tsr_error *error);

/* Returns the key of GROUP BY that equals the tree, or -1. */
int tsx_select_key(const tsx_select *select, const tsx_expr *tree);

/* Returns the tree that a name stands for if it is an alias, else the tree. */
static inline const tsx_expr *tsx_expr_meaning(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_NAME && tree->alias) tree = tree->alias;
  return tree;
}

#endif
