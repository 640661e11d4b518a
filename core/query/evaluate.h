/* evaluate.h: evaluates the expressions of tessera_query.h over blocks of cells.
 *
 * tsr__program_make (program.c) turns a list of expressions into a program, a list of steps in which equal
 * subexpressions are one step. A program does not change, and any number of threads may run it at once, each with a
 * scratch of its own.
 */
#ifndef TSR_EVALUATE_H
#define TSR_EVALUATE_H

#include "base/memory.h"
#include "query/block.h"

typedef struct tsr_program tsr_program;
typedef struct tsr_block_scratch tsr_block_scratch;

/* The cells of a field. Cell r of the block is at index selection ? selection[r] : first + r of the column; all cells
 * of a constant column are at index 0. */
typedef struct tsr_block_input {
  tsr_column column;
  const uint32_t *selection;
  uint64_t first;
  bool null; /* all cells are null, whatever the column says: unwritten cells whose fill value is not shown */
} tsr_block_input;

/* Makes a program for `count` expressions. It lives in the arena, and borrows the schema, the expressions and all that
 * they point to. Errors: TSR_MISMATCH: an expression cannot be evaluated (tsr_expression_types says why). */
int tsr__program_make(const tsr_schema *schema, const tsr_expression *const *expressions, uint32_t count,
                      tsr_arena *arena, tsr_program **program, tsr_error *error);

/* Sets fields[f] for each field f that the program reads; the others are not changed. */
void tsr__program_fields(const tsr_program *program, bool *fields);

/* Returns the type of an expression of the program. */
tsr_value_type tsr__program_type(const tsr_program *program, uint32_t expression);

/* Makes the working memory of one thread, in an arena of that thread. */
int tsr__scratch_make(const tsr_program *program, tsr_arena *arena, tsr_block_scratch **scratch, tsr_error *error);

/* Evaluates all expressions for `count` cells, 1 to TSR_BLOCK_CELLS. `inputs` has one for each field of the schema; only
 * those of fields that the program reads are used. results[e] is the vector of expression e; it is valid until the
 * scratch is used again, and as long as the inputs are.
 * Errors: TSR_ERROR: "integer overflow"; TSR_RANGE: a value of UINT64 that arithmetic cannot use, or a year outside of
 * 0000-9999; tsr__program_fault says in which node. They come only from cells whose value needs that node: not from a
 * branch of a CASE that the cell does not take. */
int tsr__program_run(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                     uint32_t count, tsr_vector *results, tsr_error *error);

/* Evaluates the program's only expression as a condition: writes the numbers (0..count-1) of the cells for which it is
 * true to `selection`, which has room for `count`, and how many there are to *selected. */
int tsr__program_select(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                        uint32_t count, uint32_t *selection, uint32_t *selected, tsr_error *error);

/* Says which expression, and which of its nodes, the last error of a run was about. Returns false if it was about
 * none. */
bool tsr__program_fault(const tsr_block_scratch *scratch, uint32_t *expression, uint32_t *node);

#endif
