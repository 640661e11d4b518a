/* query_keys.h: the keys of the groups of a query: whether the groups form a grid, and which group a row has. */
#ifndef TSR_QUERY_KEYS_H
#define TSR_QUERY_KEYS_H

#include "analyze/query_run.h"

/* Prepares the keys: finds out whether the groups form a grid. The reader has been started. */
int tsr__query_keys_make(tsr_query_run *run, tsr_error *error);

/* Finds the groups of rows of a block, for a grid. `rows` are those of `block` that satisfy the WHERE. */
int tsr__query_grid_rows(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                         tsr_error *error);

/* Finds the least and the greatest group that rows of the present batch, whose subtile is known, may have. */
void tsr__query_grid_range(const tsr_query_run *run, uint64_t from, uint64_t end, uint64_t *low, uint64_t *high);

/* Sets the words of a numbered key: 0 for null, else number + 1; or of a plain key: the values. */
int tsr__query_key_words(query_part *part, uint32_t key, const query_rows *rows, uint64_t *words, tsr_error *error);

#endif
