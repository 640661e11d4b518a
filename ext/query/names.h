/* names.h: finds what the names of a tessera_query mean, by SQLite's rules. */
#ifndef TSX_QUERY_NAMES_H
#define TSX_QUERY_NAMES_H

#include "query/tree.h"
#include "table/module.h"

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
