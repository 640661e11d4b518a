/* join.h: the tables that a tessera_query joins: what each of them is, and its columns. */
#ifndef TSX_JOIN_H
#define TSX_JOIN_H

#include "query/query.h"

typedef enum tsx_table_kind { TSX_TABLE_SQLITE, TSX_TABLE_ARRAY, TSX_TABLE_QUERY, TSX_TABLE_OTHER } tsx_table_kind;

/* Finds what a table is that is no view, by the text that made it; OTHER: a virtual table of another module, or none. */
int tsx_table_kind_find(const tsx_query *query, const char *schema, const char *table, tsx_table_kind *kind,
                        tsr_error *error);

/* Finds what a joined table is, which is in the database join->schema, and its columns. */
int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error);

#endif
