/* tiles.h: what the WHERE of a query tells the planner of reads. */
#ifndef TSR_QUERY_TILES_H
#define TSR_QUERY_TILES_H

#include "query/query.h"

/* Gives predicates that all cells satisfy which satisfy the WHERE. They live as long as the run. */
int tsr__query_where_predicates(tsr_query_run *run, const tsr_predicate **predicates, uint32_t *count,
                                tsr_error *error);

/* Tiles that statistics or the domain answer, so that a query reads no cell of them. */

/* Lets the reader offer tiles whole, if the query can count some of them without their cells. The keys have not been
 * made, the reader has not been started. */
void tsr__query_tiles_take(tsr_query_run *run);

#endif
