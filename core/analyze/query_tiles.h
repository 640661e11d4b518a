/* query_tiles.h: tiles that statistics or the domain answer, so that a query reads no cell of them. */
#ifndef TSR_QUERY_TILES_H
#define TSR_QUERY_TILES_H

#include "analyze/query_run.h"

/* Lets the reader offer tiles whole, if the query can count some of them without their cells. The keys have not been
 * made, the reader has not been started. */
void tsr__query_tiles_take(tsr_query_run *run);

#endif
