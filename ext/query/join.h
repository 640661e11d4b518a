/* join.h: the tables that a tessera_query joins: what each of them is, and its columns. */
#ifndef TSX_JOIN_H
#define TSX_JOIN_H

#include "query/query.h"

/* Finds what a joined table is, which is in the database join->schema, and its columns. */
int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error);

#endif
