/* query_cells.c: a query that gives cells: the values of its columns, block by block. */
#include <string.h>

#include "model/datatype.h"
#include "analyze/query_run.h"

typedef struct cells_column { /* values of a block */
  uint8_t nulls[QUERY_BLOCK], whole[QUERY_BLOCK];
  struct tsr_text_value values[QUERY_BLOCK]; /* or numbers of 8 bytes */
} cells_column;

struct query_cells {
  uint64_t at; /* the next row of the batch */
  tsr_query_column *given;
  cells_column columns[];
};

int tsr__query_cells_make(tsr_query_run *run, tsr_error *error) {
  const uint64_t count = run->query.column_count;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&run->memory, sizeof(query_cells) + count * sizeof(cells_column), &run->cells, error));
  run->cells->at = 0;
  return TSR_ARENA_ARRAY(&run->arena, count, &run->cells->given, error);
}

/* Copies the values of a column: the next column may overwrite them. */
static void keep_column(const query_vector *v, uint32_t count, cells_column *kept, tsr_query_column *given) {
  const bool reals = v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER;
  uint8_t any = 0;
  *given = (tsr_query_column){.type = v->type, .whole = v->whole ? kept->whole : NULL};
  given->as.texts = kept->values;
  for (uint32_t r = 0; r < count; r++) {
    const double *real = v->values;
    kept->nulls[r] = (v->nulls && v->nulls[r]) || v->type == TSR_VALUE_NULL || (reals && real[r] != real[r]);
    any |= kept->nulls[r];
  }
  if (any) given->nulls = kept->nulls;
  if (v->whole) memcpy(kept->whole, v->whole, count);
  if (v->values && v->type != TSR_VALUE_OPAQUE && v->type != TSR_VALUE_NULL)
    memcpy(kept->values, v->values, count * (v->type == TSR_VALUE_TEXT ? sizeof *kept->values : sizeof(uint64_t)));
}

/* Evaluates the columns for the next rows of the batch. Returns how many of them satisfy the WHERE. */
static int64_t next_rows(tsr_query_run *run, tsr_error *error) {
  const tsr_batch *batch = run->batch;
  const uint64_t n = TSR_MIN(batch->count - run->cells->at, QUERY_BLOCK), at = run->cells->at;
  const query_rows block = {.inputs = run->inputs,
                            .cells = batch->selection ? batch->selection + at : NULL,
                            .first = batch->selection ? 0 : batch->first + at,
                            .count = (uint32_t)n};
  query_part *part = run->parts[0];
  query_rows rows;
  run->cells->at += n;
  TSR_TRY(tsr__query_select(part, &block, &rows, error));
  for (uint32_t c = 0; c < run->query.column_count && rows.count > 0; c++) {
    query_vector v;
    TSR_TRY(tsr__query_evaluate(part, run->columns[c], &rows, &v, error));
    keep_column(&v, rows.count, &run->cells->columns[c], &run->cells->given[c]);
  }
  tsr__count(run->snapshot->array->environment, TSR_COUNT_cells_computed, n);
  return rows.count;
}

int tsr_query_next(tsr_query_run *run, tsr_query_block *block, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!run->cells) return tsr__fail(error, TSR_ERROR, "the query gives groups, not cells");
  for (;;) {
    if (!run->batch || run->cells->at == run->batch->count) {
      TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
      const int rc = tsr__query_next_batch(run, error);
      if (rc <= 0) return rc;
      run->cells->at = 0;
    }
    const int64_t count = next_rows(run, error);
    if (count < 0) {
      run->fault = run->parts[0]->fault;
      run->fault_node = run->parts[0]->fault_node;
      return (int)count;
    }
    if (count == 0) continue;
    *block = (tsr_query_block){.count = (uint64_t)count, .columns = run->cells->given};
    return 1;
  }
}
