/* batch.h: evaluates the parts of a batch, and counts their rows in groups. */
#ifndef TSR_QUERY_PART_H
#define TSR_QUERY_PART_H

#include "query/query.h"

typedef struct query_room { /* what the steps of a block hand on */
  uint64_t *words[TSR_QUERY_KEYS + 1]; /* its keys */
  uint32_t *cells; /* its rows that satisfy the WHERE */
  uint32_t *numbers, *ends; /* its groups: those of its rows, or those of runs, which end there */
  uint8_t *mask; /* rows that a filter leaves out; behind them nulls and whole numbers of a constant */
  tsr_text *values; /* those of a constant, or those that a filter leaves */
} query_room;

struct query_part { /* of a batch; one thread works on it */
  tsr_query_run *run;
  uint64_t from, end; /* rows of the batch */
  bool straight; /* counts in the records of the query */
  tsr_arena arena; /* of the scratches */
  tsr_block_scratch *where, *scratch;
  tsr_block_input *inputs; /* by field: the present rows */
  tsr_vector *vectors; /* by expression: their values */
  query_collected collected; /* without `straight` */
  query_room room;
  query_fault fault;
  bool outside; /* a coordinate lay outside of the range that its dimension had in the grid */
};

/* Finds or makes the group of the query with these words, one for each key and their nulls. */
int tsr__query_group(tsr_query_run *run, const uint64_t *words, uint32_t *number, tsr_error *error);

/* Evaluates all expressions of run->expressions.program for rows: part->vectors. Notes which one has failed. */
int tsr__query_evaluate(query_part *part, const query_rows *rows, tsr_error *error);

/* Sets *rows to those of a block that satisfy the WHERE. */
int tsr__query_select(query_part *part, const query_rows *block, query_rows *rows, tsr_error *error);

/* Makes one part for cells. */
int tsr__query_part_make(tsr_query_run *run, tsr_error *error);

/* Adds the present batch to the groups. */
int tsr__query_add_batch(tsr_query_run *run, tsr_error *error);

/* Gives back the memory of the parts. */
void tsr__query_parts_release(tsr_query_run *run);

#endif
