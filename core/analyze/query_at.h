/* query_at.h: aggregates that are values in the row of an extreme (TSR_AGGREGATE_AT). */
#ifndef TSR_QUERY_AT_H
#define TSR_QUERY_AT_H

#include "compute/accumulate.h"
#include "tessera.h"

typedef struct query_part query_part;

typedef struct query_at { /* an aggregate TSR_AGGREGATE_AT */
  uint32_t aggregate, measure; /* its number; the measure whose extreme says the row */
  uint32_t value; /* number of its expression */
  uint32_t word, value_word; /* of a record: the first words of the extreme, and of the value */
  bool leads; /* the first aggregate of its extreme */
  bool greatest; /* the row of the maximum, not of the minimum */
} query_at;

typedef struct query_extremes { /* the values in rows of extremes that a query asks for */
  query_at list[TSR_QUERY_AGGREGATES];
  uint32_t count;
  uint32_t value_of[TSR_QUERY_AGGREGATES]; /* by aggregate: number of its expression */
  uint32_t *coordinates; /* by dimension: number of the expression that is its coordinate; NULL: the list is empty */
} query_extremes;

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
