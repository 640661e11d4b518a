/* query_at.h: aggregates that are values in the row of an extreme (TSR_AGGREGATE_AT). */
#ifndef TSR_QUERY_AT_H
#define TSR_QUERY_AT_H

#include "analyze/query_run.h"

/* Prepares the aggregates that are values in the row of an extreme; gives them their words of a record. */
int tsr__query_at_make(tsr_query_run *run, tsr_error *error);

/* Adds the rows of a block. `operand` has the values of the measure whose extremes say the rows. */
void tsr__query_at_add(query_part *part, const query_at *at, const tsr_operand *operand, const tsr_spread *spread,
                       uint64_t *records);

/* Merges the record of a part into one of the query. */
int tsr__query_at_merge(tsr_query_run *run, const query_at *at, uint64_t *to, const uint64_t *from, tsr_error *error);

/* Gives the result of a group. */
void tsr__query_at_value(const tsr_query_run *run, uint32_t aggregate, const uint64_t *record, tsr_value *value);

#endif
