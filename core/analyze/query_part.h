/* query_part.h: evaluates the parts of a batch, and counts their rows in groups. */
#ifndef TSR_QUERY_PART_H
#define TSR_QUERY_PART_H

#include "analyze/query_run.h"

/* Finds or makes the group of the query with these words, one for each key and their nulls. */
int tsr__query_group(tsr_query_run *run, const uint64_t *words, uint32_t *number, tsr_error *error);

/* Evaluates all expressions of run->program for rows: part->vectors. Notes which one has failed. */
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
