/* tessera_query.h: columnar queries: expressions that the engine evaluates over the cells of an array, block by block,
 * and aggregates of their values in groups. Programs include tessera.h, which includes this header at its end.
 *
 * An expression is a list of nodes; each node names earlier nodes as its operands, and the last node is the value of
 * the expression. docs/explained/queries.md describes the semantics, which are those of SQL as SQLite has it, apart from
 * integer overflow, which is an error.
 */
#ifndef TESSERA_QUERY_H
#define TESSERA_QUERY_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* The static type of a node. Every type has nulls. */
typedef enum tsr_value_type {
  TSR_VALUE_INTEGER, /* int64; truth values are 0 and 1 */
  TSR_VALUE_REAL, /* double; NaN is null */
  TSR_VALUE_UNSIGNED, /* uint64, of a UINT64 field: compared, grouped, counted; arithmetic past INT64_MAX is TSR_RANGE */
  TSR_VALUE_INSTANT, /* int64 in a datetime's unit: compared by TSR_OP_WITHIN, grouped, counted */
  TSR_VALUE_TEXT, /* bytes of a string in UTF-8 */
  TSR_VALUE_NUMBER, /* double and a bit that says whether it stands for an integer: branches that give REAL and INTEGER */
  TSR_VALUE_OPAQUE, /* any other field: only whether it is null */
  TSR_VALUE_NULL /* the constant null */
} tsr_value_type;

typedef struct tsr_value {
  tsr_value_type type; /* TSR_VALUE_NULL: null; a NUMBER is given as INTEGER or REAL */
  union {
    int64_t integer; /* INTEGER, INSTANT */
    uint64_t unsigned_integer;
    double real;
    struct {
      const char *bytes; /* borrowed */
      uint64_t size;
    } text;
  } as;
} tsr_value;

struct tsr_text_value {
  const char *bytes; /* borrowed */
  uint64_t size;
};

/* ---- Expressions ------------------------------------------------------------------------------------------------- */

/* name, least number of operands, greatest number of operands (9: any) */
/* clang-format off */
#define TSR_OPERATIONS(X) \
  X(CONSTANT, 0, 0) X(FIELD, 0, 0) X(TABLE, 0, 0) X(LOOKUP, 1, 1) \
  X(ADD, 2, 2) X(SUBTRACT, 2, 2) X(MULTIPLY, 2, 2) X(DIVIDE, 2, 2) X(REMAINDER, 2, 2) X(NEGATE, 1, 1) \
  X(BIT_AND, 2, 2) X(BIT_OR, 2, 2) X(SHIFT_LEFT, 2, 2) X(SHIFT_RIGHT, 2, 2) X(BIT_NOT, 1, 1) \
  X(AND, 2, 2) X(OR, 2, 2) X(NOT, 1, 1) \
  X(EQUAL, 2, 2) X(UNEQUAL, 2, 2) X(LESS, 2, 2) X(LESS_EQUAL, 2, 2) X(GREATER, 2, 2) X(GREATER_EQUAL, 2, 2) \
  X(IS, 2, 2) X(IS_NOT, 2, 2) X(IS_NULL, 1, 1) X(NOT_NULL, 1, 1) X(IN, 1, 9) X(WITHIN, 1, 1) X(MATCH, 1, 1) \
  X(CASE, 2, 9) X(COALESCE, 2, 9) X(NULLIF, 2, 2) X(LEAST, 2, 9) X(GREATEST, 2, 9) \
  X(TO_INTEGER, 1, 1) X(TO_REAL, 1, 1) X(PLUS, 1, 1) \
  X(ABS, 1, 1) X(SIGN, 1, 1) X(ROUND, 1, 1) X(FLOOR, 1, 1) X(CEIL, 1, 1) X(TRUNC, 1, 1) X(SQRT, 1, 1) \
  X(EXP, 1, 1) X(LN, 1, 1) X(LOG10, 1, 1) X(LOG2, 1, 1) X(LOG, 2, 2) X(POW, 2, 2) X(MOD, 2, 2) \
  X(SIN, 1, 1) X(COS, 1, 1) X(TAN, 1, 1) X(ASIN, 1, 1) X(ACOS, 1, 1) X(ATAN, 1, 1) X(ATAN2, 2, 2) \
  X(SINH, 1, 1) X(COSH, 1, 1) X(TANH, 1, 1) X(ASINH, 1, 1) X(ACOSH, 1, 1) X(ATANH, 1, 1) \
  X(DEGREES, 1, 1) X(RADIANS, 1, 1)
/* clang-format on */

typedef enum tsr_operation {
#define X(name, least, greatest) TSR_OP_##name,
  TSR_OPERATIONS(X)
#undef X
      TSR_OP_COUNT
} tsr_operation;

/* A table of values, one for each value of an integer or datetime dimension, or of an attribute's codes, from `low` on:
 * what the host has evaluated once for each coordinate. A cell whose coordinate lies outside of the table has a null. */
typedef struct tsr_value_table {
  uint32_t field; /* a dimension or attribute with one integer, BOOL, datetime or time per cell */
  int64_t low; /* of UINT64 fields, the bits of the number */
  uint64_t count; /* coordinates */
  const int64_t
      *coordinates; /* [count]: in order, each once, in place of those from `low` on; NULL: not so. Borrowed */
  /* INTEGER, REAL or TEXT: the type of all values that are not null; NUMBER: they are INTEGER, to 2^53, or REAL; NULL: all
   * are null */
  tsr_value_type type;
  const tsr_value *values; /* [count]; borrowed as long as the query is open */
} tsr_value_table;

/* A list of values that a node of type INTEGER points into: what the host has read from another table. A cell whose
 * integer is null, below 0 or past the end has a null. */
typedef struct tsr_value_list {
  uint64_t count;
  tsr_value_type type; /* INTEGER, UNSIGNED, REAL, NUMBER or TEXT; NULL: all are null */
  tsr_datatype datatype; /* INTEGER, UNSIGNED, REAL: of the values, which are numbers */
  const void *values; /* [count]: of `datatype`; NUMBER: doubles; TEXT: tsr_text_value. Borrowed, as in a table */
  const uint8_t *nulls; /* [count], 1: null; NULL: none is */
  const uint8_t *whole; /* [count], NUMBER: 1: the value is an INTEGER */
  bool is_identity; /* INTEGER without nulls: each value is its own place, so `values` need not be read */
} tsr_value_list;

typedef struct tsr_interval_list { /* the union of closed intervals of instants */
  const int64_t (*intervals)[2]; /* low, high; sorted and disjoint */
  uint64_t count;
} tsr_interval_list;

typedef struct tsr_node {
  tsr_operation operation;
  const uint32_t
      *operands; /* numbers of earlier nodes. CASE: condition, value, ..., and the ELSE if the count is odd */
  uint32_t operand_count;
  uint32_t field; /* FIELD */
  bool as_integer; /* FIELD of datetimes or times: the INTEGER that is stored, not an INSTANT */
  tsr_value value; /* CONSTANT */
  const tsr_value_table *table; /* TABLE */
  const tsr_value_list *list; /* LOOKUP */
  tsr_interval_list within; /* WITHIN: of an INSTANT */
  /* MATCH: LIKE and GLOB of a TEXT; `text` is terminated by NUL. Called on any thread. Returns 1, 0, or a negative code
   * with `error` set. */
  int (*match)(void *argument, const char *text, uint64_t size, tsr_error *error);
  void *match_argument;
} tsr_node;

typedef struct tsr_expression { /* plain data, borrowed as long as the query is open */
  const tsr_node *nodes;
  uint32_t count; /* 1 to TSR_EXPRESSION_NODES */
} tsr_expression;
#define TSR_EXPRESSION_NODES 4096u

typedef enum tsr_expression_fault { /* why an expression cannot be evaluated */
                                    TSR_FAULT_NONE,
                                    TSR_FAULT_MIXED, /* branches, or arguments of LEAST, GREATEST, have different types */
                                    TSR_FAULT_TEXT_NUMBER, /* compares a number with a text */
                                    TSR_FAULT_TYPE /* an operand's type has no such operation */
} tsr_expression_fault;

/* Finds the type of each node; `types` has room for expression->count. Where a node cannot be evaluated, *node is its
 * number, *fault says why, `types` has the types of the nodes before it, and the code is TSR_MISMATCH. */
TSR_API int tsr_expression_types(const tsr_schema *schema, const tsr_expression *expression, tsr_value_type *types,
                                 uint32_t *node, tsr_expression_fault *fault, tsr_error *error);

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

#define TSR_QUERY_KEYS       16u
#define TSR_QUERY_AGGREGATES 64u
#define TSR_QUERY_COLUMNS    2000u

/* A key of GROUP BY. With `numbers` its values are known to the host, which has numbered them: all cells with a
 * coordinate of the same number belong together. Else the values of `expression` are the keys. */
typedef struct tsr_query_key {
  tsr_expression expression; /* without `numbers` */
  uint32_t field; /* with `numbers`: the field whose value says the key, as in tsr_value_table */
  int64_t low;
  uint64_t count;
  const uint32_t *numbers; /* [count]: 0 to number_count - 1; UINT32_MAX: no cell can be there */
  uint32_t number_count;
} tsr_query_key;

typedef enum tsr_aggregate_function {
  TSR_AGGREGATE_COUNT, /* of rows, if it has no argument */
  TSR_AGGREGATE_SUM,
  TSR_AGGREGATE_TOTAL,
  TSR_AGGREGATE_AVG,
  TSR_AGGREGATE_MIN,
  TSR_AGGREGATE_MAX,
  TSR_AGGREGATE_MEDIAN, /* the percentile 50 */
  TSR_AGGREGATE_PERCENTILE, /* linear between the two nearest values */
  TSR_AGGREGATE_STDDEV, /* of a sample; null below two values */
  TSR_AGGREGATE_VARIANCE,
  /* the argument's value in the row of the extreme of the MIN or MAX with number `of`; of rows with equal extremes, in
   * that with the least coordinates in row-major order */
  TSR_AGGREGATE_AT
} tsr_aggregate_function;

typedef struct tsr_query_aggregate {
  tsr_aggregate_function function;
  bool has_argument, has_filter, distinct; /* distinct: of COUNT, SUM, TOTAL, AVG */
  tsr_expression argument, filter;
  double percent; /* PERCENTILE: 0 to 100 */
  uint32_t of; /* AT */
} tsr_query_aggregate;

typedef struct tsr_query {
  const tsr_ranges *dimensions; /* one for each dimension; NULL: all cells */
  bool has_where, fill_unwritten; /* fill_unwritten: an unwritten cell has the fill value; else it is null */
  tsr_expression where;
  /* With keys or aggregates the results are groups: with keys those that have rows, without keys always one. With
   * neither, the results are cells. */
  uint32_t key_count, aggregate_count;
  const tsr_query_key *keys;
  const tsr_query_aggregate *aggregates;
  uint32_t column_count; /* cells: the values to give */
  const tsr_expression *columns;
  uint64_t limit; /* cells: a hint of how many the caller takes; 0: all */
  bool read_all; /* use no statistics of tiles */
  uint64_t memory_bytes; /* limit of working memory and groups; 0 = 1 GiB. Past it: TSR_BUDGET */
  unsigned threads; /* 0: the array's. The results do not depend on it */
} tsr_query;

typedef struct tsr_query_run tsr_query_run;

/* Runs a query on a snapshot, which is held until the close. Groups are computed now; cells are read by
 * tsr_query_next. The query and all that it points to are borrowed until the close.
 * Errors: TSR_BUDGET: too many groups; TSR_ERROR: "integer overflow", and TSR_RANGE: a value of UINT64 that is no number
 * of SQL (tsr_query_fault says in which expression); TSR_INTERRUPT. */
TSR_API int tsr_query_open(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error);
TSR_API void tsr_query_close(tsr_query_run *run); /* NULL is fine */

/* Adds to coordinates_evaluated, for hosts that make value tables and numbers of keys. */
TSR_API void tsr_environment_count_coordinates(tsr_environment *environment, uint64_t coordinates);

/* Which expression an error of tsr_query_open or tsr_query_next is about: the expression (borrowed) and its node; NULL
 * where it is about none. `run` is what the failed tsr_query_open has set: it must be closed in that case, too. */
TSR_API const tsr_expression *tsr_query_fault(const tsr_query_run *run, uint32_t *node);

TSR_API uint64_t tsr_query_groups(const tsr_query_run *run);
/* Gives a key of a group. Groups come in the order of their keys: numbered keys by number, others by value, nulls first.
 * A numbered key is given as its number, an INTEGER. Text is borrowed until the close. */
TSR_API void tsr_query_key_value(const tsr_query_run *run, uint64_t group, uint32_t key, tsr_value *value);
/* Gives an aggregate of a group. Errors: TSR_ERROR, "integer overflow": a sum of integers past 64 bits. */
TSR_API int tsr_query_aggregate_value(const tsr_query_run *run, uint64_t group, uint32_t aggregate, tsr_value *value,
                                      tsr_error *error);

/* Columns of a block of cells: value r of column c is there unless nulls[r]; borrowed until the next call. */
typedef struct tsr_query_column {
  tsr_value_type type;
  const uint8_t *nulls; /* one byte for each row, 1: null; NULL: none is */
  union {
    const int64_t *integers; /* INTEGER, INSTANT */
    const uint64_t *unsigned_integers;
    const double *reals; /* REAL, NUMBER */
    const struct tsr_text_value *texts;
  } as;
  const uint8_t *whole; /* NUMBER: 1: the value is an INTEGER */
} tsr_query_column;

typedef struct tsr_query_block {
  uint64_t count; /* rows, at least 1 */
  const tsr_query_column *columns;
} tsr_query_block;

/* Gives the next block of cells that satisfy the WHERE. Returns 1; 0 at the end. */
TSR_API int tsr_query_next(tsr_query_run *run, tsr_query_block *block, tsr_error *error);

#ifdef __cplusplus
}
#endif

#endif
