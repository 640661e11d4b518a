/* program.h: evaluates the expressions of tessera_query.h over blocks of cells.
 *
 * tsr__program_make turns a list of expressions into a program: a list of steps in which common subexpressions are
 * shared. A program is immutable, and any number of threads may run it at once, each with its own scratch.
 *
 * Sections: vectors, the values of a block; what queries call (program.c, evaluate.c); and the steps and kernels, which
 * only program.c, evaluate.c and kernels.c use.
 */
#ifndef TSR_QUERY_PROGRAM_H
#define TSR_QUERY_PROGRAM_H

#include "tessera.h"
#include "base/memory.h"
#include "model/datatype.h"

/* ---- Vectors: the values of a block of cells -------------------------------------------------------------------- */

#define TSR_BLOCK_CELLS 2048u /* most cells of a block: a vector of doubles then has 16 KiB */

/* The values of one expression for the cells of a block, all of one static type. A null cell's value is unspecified. */
typedef struct tsr_vector {
  tsr_value_type type;
  bool constant; /* all cells have the value at index 0, and the arrays have only that index */
  /* One byte for each cell, 1: null; NULL: no cell is null. REAL and NUMBER have no mask: their null is NaN. */
  const uint8_t *nulls;
  union {
    const int64_t *integers; /* INTEGER, INSTANT */
    const uint64_t *unsigned_integers;
    const double *reals; /* REAL, NUMBER */
    const tsr_text_value *texts;
  } as; /* OPAQUE and NULL have none */
  const uint8_t *whole; /* NUMBER: one byte for each cell; 1: the value represents an integer */
} tsr_vector;

/* Converts a cell to a tsr_value as described in the public header. Text stays borrowed, like the vector's. */
void tsr__vector_value(const tsr_vector *vector, uint32_t cell, tsr_value *value);

/* ---- program.c makes programs, evaluate.c runs them ------------------------------------------------------------- */

typedef struct tsr_program tsr_program;
typedef struct tsr_block_scratch tsr_block_scratch;

/* Where the cells of a block are in an array: runs of neighbours. */
typedef struct tsr_cell_runs {
  uint32_t count; /* of runs */
  uint32_t firsts[TSR_BLOCK_CELLS], ends[TSR_BLOCK_CELLS]; /* of a run: index of its first cell; the cell behind it */
} tsr_cell_runs;

/* The cells of a field. Cell r of the block is at index selection ? selection[r] : first + r of the column; all cells
 * of a constant column are at index 0. */
typedef struct tsr_block_input {
  tsr_column column;
  const uint32_t *selection;
  const tsr_cell_runs *places; /* of a window's results, instead of the two others */
  uint64_t first;
  bool null; /* all cells are null, whatever the column says: unwritten cells without a visible fill value */
} tsr_block_input;

/* Makes a program for `count` expressions. It lives in the arena, and borrows the schema, the expressions and
 * everything that they point to. Errors: TSR_MISMATCH if an expression cannot be evaluated (tsr_expression_types says
 * why). */
int tsr__program_make(const tsr_schema *schema, const tsr_expression *const *expressions, uint32_t count,
                      tsr_arena *arena, tsr_program **program, tsr_error *error);

/* Sets fields[f] for each field f that the program reads, and changes no other. */
void tsr__program_fields(const tsr_program *program, bool *fields);

/* Returns the type of an expression of the program. */
tsr_value_type tsr__program_type(const tsr_program *program, uint32_t expression);

/* Makes one thread's working memory, in an arena of that thread. */
int tsr__scratch_make(const tsr_program *program, tsr_arena *arena, tsr_block_scratch **scratch, tsr_error *error);

/* Evaluates all expressions for `count` cells, 1 to TSR_BLOCK_CELLS. `inputs` has an element for each field of the
 * schema, one for TSR_OP_ROW, whose values are uint32_t, and one for each window (results of 8 bytes, or texts;
 * `validity` as `valid` of pass.h); only those of fields that the program reads are used. results[e] is the vector of
 * expression e; it is valid until the scratch is used again, and as long as the inputs are.
 * Errors: TSR_ERROR, "integer overflow"; TSR_RANGE for a UINT64 value that arithmetic cannot use, or a year outside
 * 0000-9999. tsr__program_fault says in which node. Only cells whose value depends on that node fail: a CASE ignores
 * the errors of branches that the cell does not take. */
int tsr__program_run(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                     uint32_t count, tsr_vector *results, tsr_error *error);

/* Some steps depend on TSR_OP_ROW alone: for the same rows they have the same values, whatever the cells. A caller that
 * meets the same rows again may keep the values that other steps or results need. */
#define TSR_KEPT_STEPS 4u /* most such values of a row */

/* Returns how many words there are for each row; 0: none can be kept. */
uint32_t tsr__program_kept(const tsr_program *program);

/* Copies them after a run over `count` rows: word k of row r becomes words[k * stride + r]. Returns false if there were
 * nulls or faults among them, which are not kept. */
bool tsr__program_keep(const tsr_program *program, const tsr_block_scratch *scratch, uint32_t count, uint64_t *words,
                       uint64_t stride);

/* Lets runs take the words that have been kept, until it is called with NULL. */
void tsr__program_lend(tsr_block_scratch *scratch, const uint64_t *words, uint64_t stride);

/* Evaluates the program's only expression as a condition. Writes the numbers (0..count-1) of the cells for which it is
 * true to `selection`, which has room for `count`, and sets *selected to how many they are. */
int tsr__program_select(const tsr_program *program, tsr_block_scratch *scratch, const tsr_block_input *inputs,
                        uint32_t count, uint32_t *selection, uint32_t *selected, tsr_error *error);

/* Returns false only if no cell can make the program fail. */
bool tsr__program_may_fail(const tsr_program *program);

/* Says which node of which expression the last run's error was about. Returns false if it was about none. */
bool tsr__program_fault(const tsr_block_scratch *scratch, uint32_t *expression, uint32_t *node);

/* Returns true if both expressions have the same nodes, so that they have the same value for every cell. Tables,
 * intervals and the functions of MATCH are compared by address. */
bool tsr__expressions_equal(const tsr_expression *a, const tsr_expression *b);

/* ---- Steps and kernels: between program.c, evaluate.c and kernels.c --------------------------------------------- */
/* A step is one operation on vectors of fixed forms: program.c inserts a step for each conversion, so that a kernel is
 * one loop without a switch. A step writes its results to a register, one buffer per block, which is reused
 * once no later step needs the results.
 */

/* The form of a vector within a program: a tsr_value_type, or TSR_FORM_TRUTH: one byte for each cell. With these three
 * values AND is the minimum, OR the maximum, and NOT is 2 - x. */
typedef unsigned tsr_form;
#define TSR_FORM_TRUTH (TSR_VALUE_NULL + 1u)
#define TSR_FALSE      0u
#define TSR_UNKNOWN    1u
#define TSR_TRUE       2u
#define TSR_TWO_63     9223372036854775808.0

/* Operations of steps that no node has. */
enum {
  TSR_STEP_CHOOSE = TSR_OP_COUNT, /* truth, value, value: the first value where the truth is true, else the second */
  TSR_STEP_TRUTH, /* any number: whether it is not 0 */
  TSR_STEP_NUMBER, /* INTEGER or REAL to NUMBER */
  TSR_STEP_OF_TRUTH, /* truth to INTEGER */
  TSR_STEP_OF_UNSIGNED, /* UNSIGNED to INTEGER, with a fault past INT64_MAX */
  TSR_STEP_UNSIGNED /* a non-negative literal INTEGER to UNSIGNED */
};

typedef struct tsr_lane { /* the vector of a step, for one block */
  bool constant; /* all cells have the value at index 0 */
  const uint8_t *nulls; /* 1: null; NULL: no cell is null. REAL, NUMBER and truths have no mask */
  const uint8_t *whole; /* NUMBER */
  const uint32_t *faults; /* by cell: 1 + the number of the step that failed, or 0; NULL: no cell has a fault */
  union {
    const int64_t *integers;
    const uint64_t *unsigned_integers;
    const double *reals;
    const tsr_text_value *texts;
    const uint8_t *truths;
    const void *data;
  } as;
} tsr_lane;

typedef struct tsr_register { /* where a step writes: each array has TSR_BLOCK_CELLS elements */
  union {
    int64_t *integers;
    uint64_t *unsigned_integers;
    double *reals;
    tsr_text_value *texts;
    uint8_t *truths;
    void *data;
  } as;
  uint8_t *nulls, *whole;
  uint32_t *faults;
} tsr_register;

typedef struct tsr_step tsr_step;

typedef struct tsr_call { /* the arguments of a kernel */
  const tsr_step *step;
  const tsr_lane *a, *b, *c; /* operands */
  uint32_t count; /* 1 if all operands are constant */
  tsr_lane *out; /* as.data is the register's; nulls are the union of the operands' nulls, except for TSR_STEP_CHOOSE */
  tsr_register *reg;
} tsr_call;

typedef void (*tsr_kernel)(const tsr_call *call);

typedef struct tsr_origin { /* the node that a step was made from, for error messages */
  uint32_t expression, node;
} tsr_origin;

typedef struct tsr_step_table { /* the values of a TABLE in the step's form, with a null after the last one */
  const void *values;
  const uint8_t *nulls; /* NULL: only the last value is null */
  const uint8_t *whole; /* of a NUMBER */
} tsr_step_table;

typedef struct
    tsr_step_interval { /* the integers that a step can have; for a FIELD of INSTANT, those that can be printed */
  int64_t low, high;
  bool safe; /* no result can overflow 64 bits */
} tsr_step_interval;

struct tsr_step {
  uint32_t operation; /* tsr_operation, or TSR_STEP_* */
  tsr_form form, from; /* of the result; of the first operand */
  uint32_t operand_count;
  uint32_t operands[3]; /* numbers of earlier steps */
  bool live; /* some result depends on it */
  bool of_row; /* it depends on TSR_OP_ROW alone */
  uint32_t kept; /* 1 + its number among the steps that tsr__program_keep copies, or 0 */
  uint32_t number; /* of this step */
  tsr_origin origin;
  const tsr_node *source; /* CONSTANT, TABLE, LOOKUP, WITHIN, MATCH */
  bool null; /* CONSTANT: null of its form */
  uint32_t field; /* FIELD, TABLE */
  bool nat_is_null; /* FIELD: NaT is null */
  tsr_step_table table;
  tsr_step_interval interval; /* of INTEGER and INSTANT */
  tsr_kernel kernel;
  uint32_t reg; /* number of its register */
};

struct tsr_program {
  const tsr_schema *schema;
  uint32_t step_count, register_count, root_count;
  tsr_step *steps;
  uint32_t *roots; /* the step of each expression */
  tsr_value_type *types;
  bool texts; /* some step has texts */
  uint32_t kept_count; /* steps with `kept` */
};

/* The static type of a node (program.c). */
typedef struct tsr_typed {
  tsr_value_type type;
  tsr_datatype datatype; /* INSTANT */
  bool literal; /* an INTEGER literal of magnitude at most 2^53 */
  bool negative; /* the literal is below 0 */
} tsr_typed;

/* Computes the interval of an integer step from its operands' intervals (kernels.c). */
void tsr__step_interval(const tsr_program *program, tsr_step *step);

/* Returns the comparison that holds for (b, a) where `operation` holds for (a, b); other operations as they are. */
tsr_operation tsr__mirrored(uint32_t operation);

/* The kernels, in kernels.c: each function returns the kernel of an operation on operands of one form, or NULL. */
tsr_kernel tsr__integer_kernel(uint32_t operation);
tsr_kernel tsr__real_kernel(uint32_t operation);
/* For EQUAL, UNEQUAL, LESS and LESS_EQUAL on the forms of two operands; and for IS, whose operands are the truth of
 * EQUAL and two truths that say which operand is null. */
tsr_kernel tsr__compare_kernel(uint32_t operation, tsr_form a, tsr_form b);
/* CHOOSE, AND, OR, NOT, IS_NULL, LEAST, GREATEST, WITHIN. */
tsr_kernel tsr__choose_kernel(uint32_t operation, tsr_form form);
/* LOOKUP in a list of a type whose values have the datatype. */
tsr_kernel tsr__lookup_kernel(tsr_value_type type, tsr_datatype datatype);
/* Conversions from one form to another. */
tsr_kernel tsr__convert_kernel(uint32_t operation, tsr_form from);

/* Sets out[i] to the C library's atan(xs[i]). `out` is not `xs` (arctangent.c). */
void tsr__arctangents(const double *xs, uint32_t count, double *out);

/* Load the cells of a field, or the values that a table has for them (kernels.c). */
void tsr__load_field(const tsr_call *call, const tsr_schema *schema, const tsr_block_input *input);
void tsr__load_table(const tsr_call *call, const tsr_schema *schema, const tsr_block_input *input);

/* Records that the step fails for a cell. */
static inline void tsr__step_fails(const tsr_call *call, uint32_t cell) {
  if (!call->out->faults) {
    memset(call->reg->faults, 0, call->count * sizeof *call->reg->faults);
    call->out->faults = call->reg->faults;
  }
  call->reg->faults[cell] = call->step->number + 1;
}

/* Returns the null mask of the result, in its register, for writing. If the result had no nulls, the mask is all
 * clear. */
static inline uint8_t *tsr__step_nulls(const tsr_call *call) {
  if (call->out->nulls != call->reg->nulls) memset(call->reg->nulls, 0, call->count);
  call->out->nulls = call->reg->nulls;
  return call->reg->nulls;
}

/* Runs `out[i] = EXPRESSION` over the cells of two operands, x and y, either of which may be constant. */
#define TSR_EACH2(TYPE_X, xs, TYPE_Y, ys, out, EXPRESSION)                                                             \
  do {                                                                                                                 \
    const uint32_t each_count_ = call->count;                                                                          \
    if (call->b->constant) {                                                                                           \
      const TYPE_Y y = (ys)[0];                                                                                        \
      for (uint32_t i = 0; i < each_count_; i++) {                                                                     \
        const TYPE_X x = (xs)[i];                                                                                      \
        (out)[i] = EXPRESSION;                                                                                         \
      }                                                                                                                \
    } else if (call->a->constant) {                                                                                    \
      const TYPE_X x = (xs)[0];                                                                                        \
      for (uint32_t i = 0; i < each_count_; i++) {                                                                     \
        const TYPE_Y y = (ys)[i];                                                                                      \
        (out)[i] = EXPRESSION;                                                                                         \
      }                                                                                                                \
    } else {                                                                                                           \
      for (uint32_t i = 0; i < each_count_; i++) {                                                                     \
        const TYPE_X x = (xs)[i];                                                                                      \
        const TYPE_Y y = (ys)[i];                                                                                      \
        (out)[i] = EXPRESSION;                                                                                         \
      }                                                                                                                \
    }                                                                                                                  \
  } while (0)

/* The index of cell i of an operand. */
#define TSR_AT(lane, i) ((lane)->constant ? 0u : (i))

#endif
