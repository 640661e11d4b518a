/* query_lists.h: the values that a group keeps for its percentiles. */
#ifndef TSR_QUERY_LISTS_H
#define TSR_QUERY_LISTS_H

#include "analyze/query_run.h"

/* Sorts the lists of values by group. */
int tsr__query_lists_sort(tsr_query_run *run, tsr_error *error);

/* Gives a percentile of a group's list. */
void tsr__query_list_value(const tsr_query_run *run, uint32_t measure, uint32_t group, double percent,
                           tsr_value *value);

#endif
