/* query_cells.c: a query that gives cells: the values of its columns, block by block. */
#include "analyze/query_cells.h"

#include <string.h>

#include "analyze/query_part.h"
#include "model/datatype.h"

typedef struct cells_column { /* values of a block */
  uint8_t nulls[QUERY_BLOCK], whole[QUERY_BLOCK];
  tsr_text values[QUERY_BLOCK]; /* or numbers of 8 bytes */
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

/* Gives a column's values; those of a constant are repeated in `room`. */
static void give_column(const tsr_vector *v, uint32_t count, cells_column *room, tsr_query_column *given) {
  const bool reals = v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER;
  const uint32_t step = v->constant ? 0 : 1;
  uint8_t any = 0;
  *given = (tsr_query_column){.type = v->type, .whole = v->whole};
  given->as.texts = v->as.texts;
  for (uint32_t r = 0; r < count; r++) {
    const uint32_t i = r * step;
    room->nulls[r] =
        v->type == TSR_VALUE_NULL || (v->nulls && v->nulls[i]) || (reals && v->as.reals[i] != v->as.reals[i]);
    any |= room->nulls[r];
  }
  if (any) given->nulls = room->nulls;
  if (!v->constant) return;
  uint64_t *words = (uint64_t *)(void *)room->values;
  for (uint32_t r = 0; r < count && v->as.texts; r++) {
    if (v->type == TSR_VALUE_TEXT) room->values[r] = v->as.texts[0];
    else words[r] = v->as.unsigned_integers[0];
  }
  given->as.texts = room->values;
  if (v->whole) given->whole = memset(room->whole, v->whole[0], count);
}

/* Evaluates the columns for the next rows of the batch. Returns how many of them satisfy the WHERE. */
static int64_t next_rows(tsr_query_run *run, tsr_error *error) {
  const tsr_batch *batch = run->input.batch;
  const uint64_t n = TSR_MIN(batch->count - run->cells->at, QUERY_BLOCK), at = run->cells->at;
  const query_rows block = {.cells = batch->selection ? batch->selection + at : NULL,
                            .first = batch->selection ? 0 : batch->first + at,
                            .count = (uint32_t)n};
  query_part *part = run->parts.list[0];
  query_rows rows;
  run->cells->at += n;
  TSR_TRY(tsr__query_select(part, &block, &rows, error));
  if (rows.count > 0) TSR_TRY(tsr__query_evaluate(part, &rows, error));
  for (uint32_t c = 0; c < run->query.column_count && rows.count > 0; c++)
    give_column(&part->vectors[c], rows.count, &run->cells->columns[c], &run->cells->given[c]);
  tsr__count(run->snapshot->array->environment, TSR_COUNT_cells_computed, n);
  return rows.count;
}

int tsr_query_next(tsr_query_run *run, tsr_query_block *block, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!run->cells) return tsr__fail(error, TSR_ERROR, "the query gives groups, not cells");
  for (;;) {
    if (!run->input.batch || run->cells->at == run->input.batch->count) {
      TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
      const int rc = tsr__query_next_batch(run, error);
      if (rc <= 0) return rc;
      run->cells->at = 0;
    }
    const int64_t count = next_rows(run, error);
    if (count < 0) {
      run->fault = run->parts.list[0]->fault;
      return (int)count;
    }
    if (count == 0) continue;
    *block = (tsr_query_block){.count = (uint64_t)count, .columns = run->cells->given};
    return 1;
  }
}
