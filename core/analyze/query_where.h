/* query_where.h: what the WHERE of a query tells the planner of reads. */
#ifndef TSR_QUERY_WHERE_H
#define TSR_QUERY_WHERE_H

#include "analyze/query_run.h"

/* Gives predicates that all cells satisfy which satisfy the WHERE. They live as long as the run. */
int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error);

#endif
