/* query_values.h: the values of expressions for rows of a batch. */
#ifndef TSR_QUERY_VALUES_H
#define TSR_QUERY_VALUES_H

#include "base/memory.h"

#define QUERY_BLOCK 2048u /* rows that are evaluated at once */

typedef struct query_program query_program;
typedef struct query_scratch query_scratch;

typedef struct query_input { /* a field of the present batch */
  tsr_column column;
  bool null; /* all cells are null */
} query_input;

typedef struct query_vector { /* values of the rows of a block; NaN of REAL and NUMBER is null */
  tsr_value_type type;
  const void *values; /* int64_t, uint64_t, double, struct tsr_text_value */
  const uint8_t *nulls, *whole;
} query_vector;

/* Rows of the batch: the indices `cells`, or first..first+count-1. */
typedef struct query_rows {
  const query_input *inputs; /* by field */
  const uint32_t *cells;
  uint64_t first;
  uint32_t count; /* at most QUERY_BLOCK */
} query_rows;

int tsr__query_program_make(const tsr_schema *schema, const tsr_expression *expression, tsr_arena *arena,
                            query_program **program, tsr_error *error);
tsr_value_type tsr__query_program_type(const query_program *program);
void tsr__query_program_fields(const query_program *program, bool *fields);
int tsr__query_scratch_make(tsr_memory *memory, query_scratch **scratch, tsr_error *error);
void tsr__query_scratch_free(query_scratch *scratch);
/* Evaluates an expression. The values are valid until the next call with this scratch. On error *node is the node. */
int tsr__query_program_run(const query_program *program, query_scratch *scratch, const query_rows *rows,
                           query_vector *vector, uint32_t *node, tsr_error *error);
/* Returns the expression that the program was made of. */
const tsr_expression *tsr__query_program_expression(const query_program *program);

#endif
