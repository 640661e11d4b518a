/* tessera_query.h: columnar queries: expressions that the engine evaluates over the cells of an array, block by block,
 * and aggregates of their values in groups. Programs include tessera.h, which includes this header at its end.
 *
 * An expression is a list of nodes; the operands of a node are earlier nodes, and the last node is the value of the
 * expression. docs/explained/queries.md describes the semantics: those of SQL in SQLite, except that integer overflow
 * is an error.
 */
#ifndef TESSERA_QUERY_H
#define TESSERA_QUERY_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values ------------------------------------------------------------------------------------------------------ */

/* The static type of a node. Values of every type can be null. */
typedef enum tsr_value_type {
  TSR_VALUE_INTEGER, /* int64; truth values are 0 and 1 */
  TSR_VALUE_REAL, /* double; NaN is null */
  TSR_VALUE_UNSIGNED, /* of a UINT64 field: compared, grouped, counted; arithmetic past INT64_MAX is TSR_RANGE */
  TSR_VALUE_INSTANT, /* int64 in a datetime's unit: compared by TSR_OP_WITHIN, grouped, counted */
  TSR_VALUE_TEXT, /* bytes of a string in UTF-8 */
  TSR_VALUE_NUMBER, /* double, and a bit that says whether it is an integer: for branches of types REAL and INTEGER */
  TSR_VALUE_OPAQUE, /* any other field: only null or not null */
  TSR_VALUE_NULL /* the constant null */
} tsr_value_type;

typedef struct tsr_text_value {
  const char *bytes; /* borrowed */
  uint64_t size;
} tsr_text_value;

typedef struct tsr_value {
  tsr_value_type type; /* TSR_VALUE_NULL: null; a NUMBER appears as INTEGER or REAL */
  union {
    int64_t integer; /* INTEGER, INSTANT */
    uint64_t unsigned_integer;
    double real;
    tsr_text_value text;
  } as;
} tsr_value;

/* ---- Expressions ------------------------------------------------------------------------------------------------- */

/* name, minimum and maximum number of operands (9: any number) */
/* clang-format off */
#define TSR_OPERATIONS(X) \
  X(CONSTANT, 0, 0) X(FIELD, 0, 0) X(TABLE, 0, 0) X(LOOKUP, 1, 1) X(ROW, 0, 0) X(WINDOW, 0, 0) \
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

/* A lookup table, with one value for each value of an integer or datetime dimension, or of an attribute's codes, from
 * `low` on: the result of an expression that the host has evaluated once for each coordinate. A cell whose coordinate
 * is outside of the table is null. */
typedef struct tsr_value_table {
  uint32_t field; /* a dimension or attribute with one integer, BOOL, datetime or time per cell */
  int64_t low; /* for UINT64 fields, the bits of the number */
  uint64_t count; /* coordinates */
  /* [count]: the coordinates, ascending and distinct, instead of consecutive ones from `low` on; NULL: consecutive.
   * Borrowed */
  const int64_t *coordinates;
  /* INTEGER, REAL or TEXT: the type of all values that are not null; NUMBER: each is an INTEGER up to 2^53, or REAL;
   * NULL: all are null */
  tsr_value_type type;
  const tsr_value *values; /* [count]; borrowed as long as the query is open */
} tsr_value_table;

/* A list of values that a node of type INTEGER indexes: for example a column that the host has read from another table.
 * A cell is null if its index is null, negative or past the end. */
typedef struct tsr_value_list {
  uint64_t count;
  tsr_value_type type; /* INTEGER, UNSIGNED, REAL, NUMBER or TEXT; NULL: all are null */
  tsr_datatype datatype; /* INTEGER, UNSIGNED, REAL: the datatype of `values` */
  const void *values; /* [count]: of `datatype`; NUMBER: doubles; TEXT: tsr_text_value. Borrowed like a table */
  const uint8_t *nulls; /* [count], 1: null; NULL: no value is null */
  const uint8_t *whole; /* [count], NUMBER: 1: the value is an INTEGER */
  bool is_identity; /* INTEGER without nulls: each value is its own index, so `values` need not be read */
} tsr_value_list;

/* TSR_OP_ROW, an INTEGER: in a query with boxes, the number of the row that the cell meets. TSR_OP_WINDOW: the value of
 * a window for the cell ("Windows"). */

typedef struct tsr_interval_list { /* the union of closed intervals of instants */
  const int64_t (*intervals)[2]; /* low, high; sorted and disjoint */
  uint64_t count;
} tsr_interval_list;

typedef struct tsr_node {
  tsr_operation operation;
  /* numbers of earlier nodes. CASE: condition, value, ..., and the ELSE if the count is odd */
  const uint32_t *operands;
  uint32_t operand_count;
  uint32_t field; /* FIELD */
  bool as_integer; /* FIELD of datetimes or times: the stored INTEGER instead of an INSTANT */
  bool nat_is_null; /* with as_integer: NaT (the least int64) is null */
  tsr_value value; /* CONSTANT */
  const tsr_value_table *table; /* TABLE */
  const tsr_value_list *list; /* LOOKUP */
  const struct tsr_window *window; /* WINDOW */
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
                                    TSR_FAULT_MIXED, /* branches, or arguments of LEAST or GREATEST, differ in type */
                                    TSR_FAULT_TEXT_NUMBER, /* compares a number with a text */
                                    TSR_FAULT_TYPE /* the operation is not defined for an operand's type */
} tsr_expression_fault;

/* Finds the type of each node; `types` has room for expression->count. TSR_MISMATCH: a node cannot be evaluated; *node
 * is its number, *fault the reason, and `types` has the types of the nodes before it. */
TSR_API int tsr_expression_types(const tsr_schema *schema, const tsr_expression *expression, tsr_value_type *types,
                                 uint32_t *node, tsr_expression_fault *fault, tsr_error *error);

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

#define TSR_QUERY_KEYS       16u
#define TSR_QUERY_AGGREGATES 64u
#define TSR_QUERY_COLUMNS    2000u

/* A key of GROUP BY. With `numbers`, the host knows the key's values and has numbered them: cells whose coordinates
 * have the same number are in the same group. Otherwise the values of `expression` are the keys. */
typedef struct tsr_query_key {
  tsr_expression expression; /* without `numbers` */
  uint32_t field; /* with `numbers`: the field whose value determines the key, as in tsr_value_table */
  int64_t low;
  uint64_t count;
  const uint32_t *numbers; /* [count]: 0 to number_count - 1; UINT32_MAX: no cell can have this coordinate */
  uint32_t number_count;
} tsr_query_key;

typedef enum tsr_aggregate_function {
  TSR_AGGREGATE_COUNT, /* without an argument, counts rows */
  TSR_AGGREGATE_SUM,
  TSR_AGGREGATE_TOTAL,
  TSR_AGGREGATE_AVG,
  TSR_AGGREGATE_MIN,
  TSR_AGGREGATE_MAX,
  TSR_AGGREGATE_MEDIAN, /* the percentile 50 */
  TSR_AGGREGATE_PERCENTILE, /* linear between the two nearest values */
  TSR_AGGREGATE_STDDEV, /* of a sample; null for fewer than two values */
  TSR_AGGREGATE_VARIANCE,
  /* the argument's value in the row where the MIN or MAX numbered `of` is attained; if several rows attain it, in the
   * one with the least coordinates in row-major order */
  TSR_AGGREGATE_AT,
  /* of windows only: the argument's value in the first, the last or the nth cell of a frame */
  TSR_AGGREGATE_FIRST,
  TSR_AGGREGATE_LAST,
  TSR_AGGREGATE_NTH
} tsr_aggregate_function;

#define TSR_SUM_OVERFLOW "integer overflow: the sum passes 64 bits" /* the message where it is a sum that overflows */

typedef struct tsr_query_aggregate {
  tsr_aggregate_function function;
  bool has_argument, has_filter, distinct; /* distinct: for COUNT, SUM, TOTAL, AVG */
  tsr_expression argument, filter;
  double percent; /* PERCENTILE: 0 to 100 */
  uint32_t of; /* AT */
} tsr_query_aggregate;

/* A condition by which the rows of another table meet cells: a number of the cell's lies in an interval of the
 * row's. */
typedef struct tsr_query_range {
  /* a dimension of one integer, datetime, time or string of bytes for each cell; of UINT64 the number has the same
   * bits */
  uint32_t field;
  /* [count]: the number of each coordinate from `low` on, UINT32_MAX: it meets no row; NULL: the coordinate itself */
  const uint32_t *numbers;
  int64_t low;
  uint64_t count;
  /* [text_count], of a string dimension: ascending by bytes. texts[i] has the number 2 * i + 1, a text between two of
   * them the number between */
  const tsr_text_value *texts;
  uint64_t text_count;
  const int64_t (*ends)[2]; /* [row_count]: the first and the last number; an interval whose first is above its last is
                               empty. With `numbers` and `texts`, none is negative */
} tsr_query_range;
#define TSR_QUERY_RANGES 16u

/* Rows that are boxes of coordinates. A cell counts once for each row that it meets in all ranges, with TSR_OP_ROW as
 * the number of this row. */
typedef struct tsr_query_boxes {
  uint64_t row_count; /* below UINT32_MAX */
  uint32_t range_count; /* 1 to TSR_QUERY_RANGES */
  const tsr_query_range *ranges;
} tsr_query_boxes;

/* ---- Windows ---- */

/* The frames of a window along one dimension: a cell's frame has the coordinates from low + first to low + last, and is
 * empty if first > last. Neither ever decreases from one coordinate to the next. */
typedef struct tsr_window_frame {
  int64_t first, last;
} tsr_window_frame;

typedef struct tsr_window_axis {
  uint32_t dimension; /* of one integer, datetime or time for each cell, but not of UINT64 */
  int64_t low;
  uint64_t count;
  const tsr_window_frame *frames; /* [count]: of the coordinates from `low` on; borrowed as long as the query is open */
} tsr_window_axis;

/* A neighbourhood that is no box: cells at listed offsets from each cell, each with a weight. */
typedef struct tsr_window_kernel {
  uint64_t count; /* at most TSR_KERNEL_OFFSETS */
  const int64_t *offsets; /* [count][dimensions of the array]: up to 2^31; an offset may come several times. Borrowed */
  tsr_value_type type; /* of the weights: INTEGER or REAL; NULL: there are none */
  const void *weights; /* [count]: int64_t or double, not NaN; borrowed */
} tsr_window_kernel;
#define TSR_KERNEL_OFFSETS 65536u

/* An aggregate over the cells in a box around each cell: in the dimensions of `axes` those of its frames, in every
 * other dimension those at its own coordinate. Aggregates that combine (not MEDIAN, PERCENTILE, FIRST, LAST, NTH, nor
 * extremes of texts) take any number of axes, the others exactly one. The result is a value of `type`, which is
 * tsr_window_type's.
 *
 * With a kernel, which has no axes, the aggregate is over the cells at its offsets, and combines. With weights, it is
 * over argument * weight, of type REAL unless both are INTEGER; without an argument, over the weights of the cells that
 * are there. */
typedef struct tsr_window {
  tsr_aggregate_function function; /* not AT */
  bool has_argument, has_filter;
  tsr_expression argument, filter;
  double percent; /* PERCENTILE: 0 to 100 */
  uint64_t nth; /* NTH: from 1 */
  bool from_end; /* NTH: counted from the last cell */
  uint32_t axis_count;
  const tsr_window_axis *axes; /* in the order in which they are combined */
  const tsr_window_kernel *kernel; /* or NULL */
  tsr_value_type type;
  uint32_t number; /* in tsr_query_windows.list */
} tsr_window;
#define TSR_QUERY_WINDOWS 64u

/* Returns the type of a window's result for an argument of a type, TSR_VALUE_NULL if it has none; TSR_VALUE_OPAQUE if
 * the function does not take it. */
TSR_API tsr_value_type tsr_window_type(tsr_aggregate_function function, tsr_value_type argument);

/* The cells that windows see: they may be more than the query gives. */
typedef struct tsr_query_windows {
  uint32_t count;
  const tsr_window *const *list; /* [count] */
  const tsr_ranges *dimensions; /* one for each dimension; NULL: all cells */
  bool has_where;
  tsr_expression where; /* without TSR_OP_WINDOW */
} tsr_query_windows;

/* Where the cells of a query go: the place of a cell is the sum of (coordinate - low) * stride over all dimensions,
 * which are those of windows. Places are below 2^32. */
typedef struct tsr_query_grid { /* borrowed as long as the query is open */
  const int64_t *lows; /* [dimensions] */
  const uint64_t *strides; /* [dimensions] */
} tsr_query_grid;

typedef struct tsr_query {
  size_t size; /* sizeof the structure, or 0: see "Options" in tessera.h */
  const tsr_ranges *dimensions; /* one for each dimension; NULL: all cells */
  bool has_where, fill_unwritten; /* fill_unwritten: an unwritten cell reads as the fill value; otherwise as null */
  tsr_expression where;
  /* With keys or aggregates, the results are groups: with keys one for each combination that has rows, without keys
   * always one. With neither, the results are cells. */
  uint32_t key_count, aggregate_count;
  const tsr_query_key *keys;
  const tsr_query_aggregate *aggregates;
  const tsr_query_windows *windows; /* not with boxes. Cells come in the order of boxes, not of tiles; NULL: none */
  const tsr_query_boxes *boxes; /* groups: count pairs of a cell and a row instead of cells; NULL: count cells */
  uint32_t column_count; /* cells: the values to return */
  const tsr_expression *columns;
  const tsr_query_grid *grid; /* cells: the blocks say where they go; NULL: they do not */
  uint64_t limit; /* cells: a hint of how many the caller will take; 0: all */
  bool read_all; /* do not use tile statistics */
  uint64_t memory_bytes; /* limit of working memory and groups; 0 = 1 GiB. TSR_BUDGET if exceeded */
  unsigned threads; /* 0: the array's. The results do not depend on the number */
} tsr_query;

typedef struct tsr_query_run tsr_query_run;

/* Runs a query on a snapshot, which is held until tsr_query_close. Groups are computed now; cells are read by
 * tsr_query_next. The query and everything that it points to are borrowed until tsr_query_close. Errors: TSR_BUDGET:
 * too many groups; TSR_ERROR: "integer overflow"; TSR_RANGE: a UINT64 value that is not representable in SQL
 * (tsr_query_fault says in which expression); TSR_INTERRUPT. */
TSR_API int tsr_query_start(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error);
TSR_API void tsr_query_close(tsr_query_run *run); /* NULL is allowed */

/* Returns the expression (borrowed) that an error of tsr_query_start or tsr_query_next is about, and its node; NULL if
 * the error is not about an expression. tsr_query_start sets `run` even if it fails: the caller must close it in that
 * case, too. */
TSR_API const tsr_expression *tsr_query_fault(const tsr_query_run *run, uint32_t *node);

TSR_API uint64_t tsr_query_groups(const tsr_query_run *run);
/* Gives a key of a group. Groups are in the order of their keys: numbered keys by number, others by value, nulls first.
 * A numbered key is returned as its number, an INTEGER. Text is borrowed until tsr_query_close. */
TSR_API void tsr_query_key_value(const tsr_query_run *run, uint64_t group, uint32_t key, tsr_value *value);
/* Gives an aggregate of a group. TSR_ERROR, "integer overflow": a sum of integers does not fit into 64 bits. */
TSR_API int tsr_query_aggregate_value(const tsr_query_run *run, uint64_t group, uint32_t aggregate, tsr_value *value,
                                      tsr_error *error);

/* A column of a block of cells: the value in row r is null if nulls[r] is set. Borrowed until the next call. */
typedef struct tsr_query_column {
  tsr_value_type type;
  const uint8_t *nulls; /* one byte for each row, 1: null; NULL: no value is null */
  union {
    const int64_t *integers; /* INTEGER, INSTANT */
    const uint64_t *unsigned_integers;
    const double *reals; /* REAL, NUMBER */
    const tsr_text_value *texts;
  } as;
  const uint8_t *whole; /* NUMBER: 1: the value is an INTEGER */
} tsr_query_column;

typedef struct tsr_query_block {
  uint64_t count; /* rows, at least 1 */
  const tsr_query_column *columns;
  /* [run_count], with a grid: the rows up to ends[i], from the end of the run before on, go to firsts[i] and the places
   * behind it */
  uint32_t run_count;
  const uint32_t *firsts, *ends;
} tsr_query_block;

/* Gives the next block of cells that satisfy the WHERE. Returns 1; 0 at the end. */
TSR_API int tsr_query_next(tsr_query_run *run, tsr_query_block *block, tsr_error *error);

#ifdef __cplusplus
}
#endif

#endif
