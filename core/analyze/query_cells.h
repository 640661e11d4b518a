/* query_cells.h: queries that give cells, not groups. */
#ifndef TSR_QUERY_CELLS_H
#define TSR_QUERY_CELLS_H

#include "analyze/query_run.h"

/* Prepares a query that gives cells. */
int tsr__query_cells_make(tsr_query_run *run, tsr_error *error);

#endif
