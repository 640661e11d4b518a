/* query_internal.h: what the files of tessera_query share. A query is a SELECT over an array. Its text is compiled
 * once; each statement then plans and runs it:
 *
 *   parse.c         text -> expression trees
 *   names.c         resolves names, and finds which columns each tree depends on
 *   compile.c       drives these two, lets SQLite check the text, and finds the tables
 *   pushdown.c      turns comparisons of a dimension or label with constants into ranges of the dimension
 *   coordinates.c   what depends on one dimension or one enumerated attribute: SQLite evaluates it once per value
 *   join.c          joined tables: SQLite looks up the row of each coordinate, or the rows are read once into lists
 *   joined_ranges.c joins by ranges: each row of the joined table is a box of coordinates
 *   lower.c         turns what depends on several columns into expressions that the engine evaluates over cells
 *   window.c        window functions over dimensions
 *   neighbours.c    joins of an array with itself by offsets: windows around each cell
 *   subquery.c      scalar subqueries: queries of their own, evaluated once
 *   plan.c          assigns each part of the query to SQLite or to the engine
 *   nested.c        nested statements, in which SQLite evaluates parts of a query
 *   run.c           runs the request and gives the rows; SQLite evaluates what surrounds keys and aggregates
 *   row_cache.c     all rows in memory, for a cursor that SQLite restarts
 *   query_table.c   the virtual table module
 *
 * Each node of a tree keeps its span of the source text: nested statements reuse these exact words, and error messages
 * quote them. All memory of a query belongs to one tsx_arena. */
#ifndef TSX_QUERY_QUERY_INTERNAL_H
#define TSX_QUERY_QUERY_INTERNAL_H

#include <limits.h>

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"
#include "sql/arena.h"
#include "sql/tokens.h"
#include "table/table.h"

/* ---- parse.c: expression trees, the clauses of a SELECT ---------------------------------------------------------- */

typedef enum tsx_expr_kind {
  TSX_EXPR_LITERAL,
  TSX_EXPR_NAME, /* [table.]column */
  TSX_EXPR_JOINED, /* a NAME that resolved to a column of a joined table */
  TSX_EXPR_LABEL, /* a NAME that resolved to a dimension label */
  TSX_EXPR_UNARY, /* operation: NEGATE, PLUS, BIT_NOT, NOT, IS_NULL, NOT_NULL */
  TSX_EXPR_BINARY, /* operation: arithmetic, comparisons, AND, OR, IS, IS_NOT; COUNT: IS TRUE or IS FALSE */
  TSX_EXPR_CONCATENATE, /* || */
  TSX_EXPR_BETWEEN, /* value, low, high */
  TSX_EXPR_IN, /* value, members */
  TSX_EXPR_LIKE, /* value, pattern; name: like or glob */
  TSX_EXPR_CASE, /* WHEN, THEN, WHEN, THEN, ..., and ELSE if the count is odd; base: the expression after CASE */
  TSX_EXPR_CAST, /* value; name: the type */
  TSX_EXPR_FUNCTION,
  TSX_EXPR_AGGREGATE,
  TSX_EXPR_WINDOW, /* a function with OVER */
  TSX_EXPR_SUBQUERY /* a scalar one, with its parentheses; name: its value as a literal (subquery.c) */
} tsx_expr_kind;

/* What a tree depends on, in its `field`, beside the number of a column. */
#define TSX_FIELD_NONE (-1) /* a constant */
#define TSX_FIELD_MANY (-2) /* several columns */

typedef struct tsx_call { /* of a function or an aggregate */
  const struct tsx_function *function;
  bool distinct, star; /* of aggregates: count(DISTINCT x), count(*) */
  struct tsx_expr *filter; /* of an aggregate: the condition in FILTER (WHERE ...), or NULL */
  /* neighbours.c: what the kernel gives to an aggregate over neighbours, or NULL: the factor of its argument, and the
   * condition that chooses rows. Their columns are JOINED, of join 0 */
  struct tsx_expr *weight, *chosen;
} tsx_call;

typedef enum tsx_edge { TSX_EDGE_UNBOUNDED, TSX_EDGE_OFFSET, TSX_EDGE_CURRENT } tsx_edge;

typedef struct tsx_frame_end { /* of a frame: UNBOUNDED or n, PRECEDING or FOLLOWING; or CURRENT ROW */
  tsx_edge edge;
  bool following;
  struct tsx_expr *offset;
} tsx_frame_end;

typedef struct tsx_over { /* OVER name, OVER (...), or a definition in WINDOW */
  const char *begin, *end; /* the span of the name, or of the parentheses */
  char *name; /* OVER name: the definition's name, until names.c has found it */
  struct tsx_expr **partition; /* [partition_count] */
  uint32_t partition_count;
  struct tsx_expr *order; /* the only term of ORDER BY, or NULL */
  bool descending, rows; /* rows: ROWS, not RANGE */
  tsx_frame_end start, last;
} tsx_over;

typedef struct tsx_expr {
  tsx_expr_kind kind;
  tsr_operation operation;
  bool negated; /* NOT BETWEEN, NOT IN, NOT LIKE, IS NOT TRUE */
  const char *begin, *end; /* the node's span of the source text, without surrounding blanks */
  char *name, *table; /* of columns as written, of functions in lower case */
  struct tsx_expr **operands;
  uint32_t count;
  bool collated; /* COLLATE BINARY follows */
  struct tsx_expr *base; /* CASE */
  tsx_call call; /* FUNCTION, AGGREGATE, WINDOW */
  tsx_over *over; /* WINDOW */
  /* names.c: */
  struct tsx_expr *alias; /* the item that a NAME is an alias of, or NULL */
  int column; /* NAME: the table's column; JOINED: the joined table's column; LABEL: the table's label */
  uint32_t join; /* JOINED: the number of the join */
  int field; /* the only column that the tree depends on, or TSX_FIELD_... */
  bool has_aggregate;
  bool has_window;
} tsx_expr;

typedef struct tsx_item { /* of the SELECT */
  tsx_expr *tree; /* NULL: * */
  char *name; /* the alias, or NULL */
  char *star; /* the table of "table.*"; "" for "*" */
  const char *begin, *end; /* with the alias */
} tsx_item;

typedef struct tsx_order {
  tsx_expr *tree;
  bool descending;
  const char *rest; /* the text after the expression (DESC, NULLS FIRST), up to `end` */
  const char *end;
  int item; /* the item that the term names by alias or ordinal, or -1 */
} tsx_order;

typedef struct tsx_join_column {
  char *name, *declared; /* the type may be "" */
  bool plain; /* the collation is BINARY */
  bool dimension; /* of an array */
} tsx_join_column;

/* ON binds a column of the joined table: column = expression of one dimension. */
typedef struct tsx_binding {
  uint32_t column; /* of the joined table */
  const tsx_expr *left; /* the expression */
  tsx_expr *number; /* stands for the number of the column's value that equals `left`: JOINED, column -1 - binding */
} tsx_binding;
#define TSX_BINDINGS_MAX 16u

/* ON confines an expression of one dimension to an interval, whose ends are expressions of the joined table. */
typedef struct tsx_span {
  const tsx_expr *left;
  const tsx_expr *ends[2]; /* the low one and the high one; NULL: open */
  bool outside[2]; /* the end itself is outside of the interval */
} tsx_span;
#define TSX_SPANS_MAX TSR_QUERY_RANGES

/* The condition in ON. */
typedef struct tsx_join_on {
  tsx_expr *tree;
  int field; /* the dimension that it depends on; TSX_FIELD_MANY: the join has bindings or spans */
  tsx_span spans[TSX_SPANS_MAX]; /* of a join by ranges, which has no bindings */
  uint32_t span_count;
  tsx_binding bindings[TSX_BINDINGS_MAX];
  uint32_t binding_count;
  const tsx_expr **filters; /* terms that involve only the joined table */
  uint32_t filter_count;
  tsx_expr *row; /* placeholder for a cell's joined row: JOINED, column TSX_JOIN_ROW; null if the cell has no row */
} tsx_join_on;

#define TSX_JOINS_MAX 8u
#define TSX_JOIN_ROW  INT_MIN

typedef struct tsx_source { /* a table of FROM or JOIN: [schema.]table[(as_of[, since])] [[AS] alias] */
  char *schema, *table, *alias; /* schema: as written; of a joined table, then where it was found; schema and
                                   alias may be NULL */
  const char *begin, *end; /* the span of [schema.]table */
  bool qualified; /* the text names a schema */
  bool quoted; /* the name is in quotes, so it may be a path */
  const char *path; /* the name as written, if it is a path; `table` is then a registered table, `schema` is "main" */
  tsx_expr *times[2]; /* as_of and since, the arguments of an array; or NULL */
  const char *times_begin, *times_end; /* their span, including the parentheses; NULL if there are none */
} tsx_source;

/* Returns the name by which the query refers to a table. */
static inline const char *tsx_source_name(const tsx_source *source) {
  return source->alias ? source->alias : source->table;
}

/* JOIN or LEFT JOIN. The joined table has at most one row for each coordinate of the dimension in ON; with bindings,
 * for each combination of coordinates of several dimensions; with spans, any number of rows. */
typedef struct tsx_join {
  bool left, is_query, is_array, is_view; /* is_query: it is a tessera_query or a view */
  const char *begin; /* the word JOIN, INNER or LEFT, or the comma */
  bool comma; /* its condition is among the terms of WHERE */
  const char *const *same; /* [same_count]: the columns in USING */
  uint32_t same_count;
  tsx_source source;
  tsx_join_on on; /* without ON, and behind a comma without terms, its tree is NULL */
  tsx_join_column *columns; /* of an array: its fields, then its labels */
  uint32_t *star; /* [star_count]: the columns that * expands to, in order; NULL: all */
  uint32_t star_count;
  uint32_t column_count;
} tsx_join;

typedef struct tsx_meaning { /* names.c sets it */
  bool has_aggregate; /* the results are groups, even without GROUP BY */
  bool *used; /* [the table's column_count + label_count]: the query uses the column, or the label */
  const tsx_expr *extreme; /* the only min or max, whose row supplies the bare columns; or NULL */
} tsx_meaning;

/* A subquery in FROM that only renames, computes or filters: FROM (SELECT items FROM source WHERE where) AS name. Its
 * items stand for their expressions, and its WHERE is a part of the query's. Its source may be another one. */
typedef struct tsx_inner {
  const char *begin; /* the parenthesis; NULL: there is none */
  char *name; /* or NULL */
  tsx_item *items;
  uint32_t item_count;
  tsx_expr *where; /* a part of the query's WHERE, or NULL */
  struct tsx_inner *within; /* in its FROM, or NULL */
} tsx_inner;

#define TSX_INNER_MAX 8u /* subqueries in FROM within one another */

typedef struct tsx_window_name { /* name AS (...) in WINDOW */
  char *name;
  tsx_over *over;
  uint32_t level;
} tsx_window_name;

/* The window functions of a query. They all stand at one level: 0 is the SELECT itself, 1 the subquery in its FROM, and
 * so on. They see what the WHERE of this level, and of those within, keeps; the WHERE around tests their results. */
typedef struct tsx_windowing {
  uint32_t count;
  uint32_t level; /* of the first one */
  const tsx_expr *other; /* one of another level, or NULL */
  tsx_window_name *names;
  uint32_t name_count;
  tsx_expr *where[TSX_INNER_MAX + 2]; /* by level: the condition of the level and those within */
} tsx_windowing;

/* Where the neighbours of a cell are along a dimension: from ends[0] to ends[1] beside it, or as far as a column of the
 * kernel says. */
typedef struct tsx_around_axis {
  bool given[2]; /* the ends */
  int64_t ends[2];
  int column; /* of the kernel; < 0: none */
  bool backwards; /* the column is subtracted */
} tsx_around_axis;

/* A join of an array with itself by offsets, which has become windows around each cell (neighbours.c). */
typedef struct tsx_around {
  tsx_around_axis *axes; /* [dimension_count of the array] */
  tsx_join *kernel; /* the table of offsets, or NULL */
  uint32_t join_count; /* of the text: the joins that have become windows are still in the SELECT's list */
  tsx_expr **filters; /* [filter_count]: conditions on the kernel alone */
  uint32_t filter_count;
  tsx_over over; /* of its windows */
  tsx_expr *exists; /* the condition that a cell has a neighbour, a window */
  tsx_over alone; /* of `exists` */
} tsx_around;

/* A SELECT, clause by clause. */
typedef struct tsx_select {
  tsx_arena arena;
  char *text; /* the source */
  char *prepared; /* the source for SQLite's own parser: table names are qualified, and total(x) replaces median(x) */
  bool distinct;
  tsx_item *items;
  uint32_t item_count;
  tsx_source source; /* the array; within `inner`, if there is one */
  tsx_inner inner;
  tsx_join joins[TSX_JOINS_MAX];
  uint32_t join_count;
  tsx_expr *where, *having, *limit, *offset;
  tsx_expr **group;
  uint32_t group_count;
  tsx_order *order;
  uint32_t order_count;
  tsx_expr **subqueries; /* [subquery_count] */
  uint32_t subquery_count;
  tsx_windowing windows;
  tsx_around *around; /* NULL: the query is no neighbourhood */
  tsx_meaning meaning;
} tsx_select;

void tsx_select_free(tsx_select *select);

/* Returns the number of characters of a UTF-8 text between two places. */
uint64_t tsx_characters(const char *begin, const char *end);

#define TSX_SUBJECT_WORDS UINT32_C(0x776f7264) /* a tsr_error.subject: the message quotes words of the query's text */

/* Sets the error to `what`, the quoted source text from begin to end, its position "(character n)", and ": advice"
 * unless advice is "". Its subject is TSX_SUBJECT_WORDS if the words are the text's own. Returns TSR_ERROR. */
int tsx_expr_fail(const tsx_select *select, const char *begin, const char *end, const char *what, const char *advice,
                  tsr_error *error);

/* The same for SQL that is right, but only SQLite could evaluate it; `why` says what it is about. */
#define TSX_NOT_EVALUATED "not evaluated over columns: "
int tsx_not_evaluated(const tsx_select *select, const char *begin, const char *end, const char *why, tsr_error *error);

/* Returns true if the trees are equal up to blanks, comments and the case of names. */
bool tsx_expr_equal(const tsx_expr *a, const tsx_expr *b);

/* Strips likely() and unlikely(): a view names a column after the expression inside. */
const tsx_expr *tsx_expr_likely(const tsx_expr *tree);

/* Returns true if the tree is a bare column of the table or of a joined table, or a bare label. */
static inline bool tsx_expr_is_column(const tsx_expr *tree) {
  return (tree->kind == TSX_EXPR_NAME || tree->kind == TSX_EXPR_JOINED || tree->kind == TSX_EXPR_LABEL) &&
         tree->column >= 0;
}

/* Returns true if an unquoted word is no name in SQL, such as FROM. */
bool tsx_token_reserved(const tsx_token *token);

/* After a refusal: whether SQLite may have a better message for the text. */
typedef struct tsx_parse_doubt {
  bool any;
  const char *begin, *end; /* the unexpected token; NULL if the parser recognized what it refused */
  bool word; /* the token is an unquoted word */
} tsx_parse_doubt;

/* Parses a SELECT without resolving names. Always sets *doubt; it is empty on success. The caller calls
 * tsx_select_free, also after a failure. */
int tsx_select_parse(const char *text, tsx_select *select, tsx_parse_doubt *doubt, tsr_error *error);

/* ---- nested.c: nested statements, in which SQLite evaluates parts of a query ------------------------------------- */

/* A nested SELECT runs over the table _tessera_query_rows, whose rows the caller produces: each is a coordinate, a
 * group or a row of cells. Its columns are slots, each with an affinity; slots replace the column names in the query's
 * text. So a nested SELECT can reach only these slots, joined tables, and the functions that parse.c allows. */

typedef enum tsx_affinity { TSX_SLOT_INTEGER, TSX_SLOT_REAL, TSX_SLOT_TEXT, TSX_SLOT_NONE } tsx_affinity;
#define TSX_SLOTS      16 /* of INTEGER, REAL and TEXT each */
#define TSX_SLOTS_NONE 400 /* without affinity */
#define TSX_SLOT_COUNT (3 * TSX_SLOTS + TSX_SLOTS_NONE)

typedef struct tsx_slots { /* how many slots of each affinity are taken; `= {0}` at first */
  uint16_t used[4];
} tsx_slots;

/* Takes the next slot of an affinity. Returns its number, or -1 if all are taken. */
int tsx_slot_take(tsx_slots *slots, tsx_affinity affinity);
tsx_affinity tsx_slot_affinity(const char *declared); /* of a declared type, or of tsx_query_declared */
void tsx_slot_append(sqlite3_str *out, int slot); /* writes the slot's name */

typedef struct tsx_rows { /* the rows of one nested SELECT */
  int (*next)(struct tsx_rows *rows, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
  int (*column)(struct tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error);
  void *state;
} tsx_rows;

/* Writes the source text of a tree. `replace` writes a substitute for a node and returns true, or returns false. */
typedef bool (*tsx_replace)(void *argument, const tsx_expr *tree, sqlite3_str *out);
void tsx_words_append(sqlite3_str *out, const tsx_expr *tree, tsx_replace replace, void *argument);

/* Writes the source text from *from through the tree's last replaced part, and moves *from past it. */
void tsx_words_until(sqlite3_str *out, const tsx_expr *tree, const char **from, tsx_replace replace, void *argument);

/* Prepares `text`, and frees it. Binds `rows`, unless NULL, to parameter 1 of TSX_ROWS_FROM; they must outlive the
 * statement. */
#define TSX_ROWS_NAME "_tessera_query_rows"
#define TSX_ROWS_FROM " FROM " TSX_ROWS_NAME "(?1)"
int tsx_rows_prepare(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                     tsr_error *error);

/* Binds rows to another parameter of a statement, as in `FROM TSX_ROWS_NAME(?2)`. */
int tsx_rows_bind(tsx_connection *connection, sqlite3_stmt *statement, int parameter, tsx_rows *rows, tsr_error *error);

/* Steps the statement. Returns 1 with a row, 0 at the end, < 0 on error. */
int tsx_rows_step(tsx_connection *connection, sqlite3_stmt *statement, tsr_error *error);

/* Prepares `text` like tsx_rows_prepare, and steps to the only row. The caller finalizes *statement, which is NULL at
 * first, also after an error. */
int tsx_rows_only(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                  tsr_error *error);

/* Sets the error of a statement that unexpectedly has no rows: an authorizer answered SQLITE_IGNORE for its SELECT.
 * Returns TSR_AUTH. */
int tsx_rows_none(tsr_error *error);

int tsx_rows_register(tsx_connection *connection); /* returns SQLite's code */

/* ---- The state of one query -------------------------------------------------------------------------------------- */

typedef struct tsx_axis { /* the values that one column can have */
  int column; /* of the table */
  bool usable; /* SQLite can evaluate expressions once per value; otherwise the engine must evaluate them over cells */
  bool listed; /* a sparse array, over TSX_COORDINATES_MAX: SQLite sees only coordinates that cells have */
  int64_t *coordinates; /* [count], ascending; of listed axes, which tsx_axes_evaluate reads; it sets `count`, too */
  int64_t low;
  uint64_t count;
  const tsx_expr **trees; /* what SQLite evaluates for each value */
  bool *tests; /* [tree_count]: the tree is a condition; its truth is ANDed into `kept` */
  uint32_t tree_count;
  tsr_value **values; /* [tree_count][count] */
  uint8_t *kept; /* [count]: whether the conditions keep the value; NULL: all are kept */
} tsx_axis;

typedef struct tsx_bound_range { /* the ranges of a dimension's values that satisfy `column op constant` */
  struct tsx_bound_range *next;
  int column;
  bool after; /* restricts what the query gives, and not what windows see */
  tsr_ranges set;
} tsx_bound_range;

typedef struct tsx_decided { /* a term of WHERE that compares instants, as the table does (see tsx_bound_ranges) */
  struct tsx_decided *next;
  const tsx_expr *tree;
  bool after; /* as in tsx_bound_range */
} tsx_decided;

typedef struct tsx_value_use { /* the value table of a TSR_OP_TABLE node, filled once its axis has been evaluated */
  struct tsx_value_use *next;
  tsr_value_table *table;
  uint32_t axis, tree;
  const tsx_expr *words;
} tsx_value_use;

typedef struct tsx_compiling { /* a query that is being compiled or evaluated; `outer` is the one that joins it */
  const struct tsx_compiling *outer;
  const char *home, *text;
} tsx_compiling;

/* A compiled text that later statements use again (compile.c). Its trees never change. */
typedef struct tsx_compiled tsx_compiled;

typedef struct tsx_query {
  tsx_connection *connection;
  const char *home; /* the argument of tsx_query_compile; borrowed */
  tsx_select select; /* its arena has all memory of this run; the trees may belong to `compiled` */
  tsx_compiled *compiled; /* one reference, or NULL */
  const tsx_snapshot *shown; /* the snapshot that is read; borrowed; NULL in tsx_run_check */
  tsx_table *table; /* the table in FROM; borrowed: valid while the statement runs */
  struct tsx_registered *held; /* the table, if it is a path: stays registered until the query is released */
  bool over_groups; /* the results are groups; else cells */
  uint64_t memory_bytes;
  unsigned threads;
  bool exact; /* TSR_RANGE where SQLite may give other values (tsx_run_open) */
  tsx_axis *axes;
  uint32_t axis_count;
  tsx_bound_range *bounds;
  bool bounds_after; /* bounds that are added now are `after` windows */
  struct tsx_window_use *windows; /* window.c */
  uint32_t window_count;
  struct tsx_kernel *kernels; /* [window_count]: of a neighbourhood with a kernel; NULL: not yet read */
  tsx_decided *decided;
  tsx_value_use *uses;
  struct tsx_joined *joined[TSX_JOINS_MAX]; /* of joins with bindings or spans */
  struct tsx_boxes *boxes; /* of the join with spans */
  const struct tsx_outer_constraint *outer; /* [outer_count]: those of tsx_pushdown_bounds; borrowed */
  uint32_t outer_count;
} tsx_query;

/* ---- names.c: the functions that a query may call, and name resolution ------------------------------------------- */

typedef struct tsx_function {
  const char *name;
  uint8_t least, greatest; /* bounds of the number of arguments */
  tsr_operation cells; /* the engine's operation over cells; TSR_OP_COUNT: only SQLite can evaluate it */
  bool aggregate;
  tsr_aggregate_function aggregates;
  bool replaced; /* SQLite may lack it, so SQLite's parser sees total(x) instead */
} tsx_function;

/* Returns the window function that is no aggregate, such as lag, with this name in any case and this many arguments;
 * NULL if there is none. */
const tsx_function *tsx_window_function(const char *name, uint32_t count);

/* Returns the function with this name, in any case, that takes this many arguments; NULL if there is none. */
const tsx_function *tsx_function_find(const char *name, uint32_t count);

/* Returns a function with this name and any number of arguments; NULL if there is none. */
const tsx_function *tsx_function_known(const char *name);

/* Resolves names by SQLite's rules: expands *, resolves every name and ordinal, and sets `field` and `has_aggregate` of
 * every node and select->meaning. Fails for unknown names, and for columns that are neither keys nor inside an
 * aggregate, unless the query has exactly one min or max. SELECT DISTINCT over cells becomes a GROUP BY of all
 * items. */
int tsx_select_resolve(tsx_select *select, const tsx_table *table, tsr_error *error);

/* Returns the key of GROUP BY that equals the tree, or -1. */
int tsx_select_key(const tsx_select *select, const tsx_expr *tree);

/* Returns the tree that a name stands for if it is an alias, else the tree. */
static inline const tsx_expr *tsx_expr_meaning(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_NAME && tree->alias) tree = tree->alias;
  return tree;
}

/* ---- compile.c: compiles the text of a SELECT to a tsx_query ----------------------------------------------------- */

/* Compiles a query: parses it, looks up its tables in the database `home` ("temp": in all databases), and resolves its
 * names. `home` is borrowed. The caller calls tsx_query_release, also after a failure. */
int tsx_query_compile(tsx_connection *connection, const char *home, const char *text, tsx_query *query,
                      tsr_error *error);
void tsx_query_release(tsx_query *query);

/* Like tsx_query_compile, for the same home and text each time. Uses the compiled text in *kept again if nothing that
 * it depends on has changed, and replaces it otherwise; *kept is NULL at first. SQLite prepares the text each time, so
 * the host's authorizer is always asked. The caller calls tsx_compiled_drop for *kept. */
int tsx_query_compile_kept(tsx_connection *connection, const char *home, const char *text, tsx_compiled **kept,
                           tsx_query *query, tsr_error *error);
void tsx_compiled_drop(tsx_compiled *compiled); /* NULL is allowed */

/* Whether the columns of the query's compiled text are known to be the ones that its table has declared. */
bool tsx_query_is_as_declared(const tsx_query *query);
void tsx_query_set_as_declared(tsx_query *query);

/* Gives the registered table of a path, as tsx_path_table does. Returns 0, too, if a table or view has this name. */
int tsx_query_path(tsx_connection *connection, const char *home, const char *text, const tsx_option_limits *limits,
                   const char **name, tsr_error *error);

/* Fails with TSR_AUTH if the host's authorizer hides a column that the query uses (SQLITE_IGNORE): SQLite would show
 * NULL, but the engine would read the cells. Outright denials already fail in tsx_query_compile. */
int tsx_query_permitted(const tsx_query *query, tsr_error *error);

/* Makes the CREATE TABLE statement that declares the columns, named as in a view with the same text. The caller frees
 * it by sqlite3_free. */
int tsx_query_declare(const tsx_query *query, char **declaration, tsr_error *error);

/* Returns true if the type name contains this word, in any case. */
bool tsx_type_has(const char *type, const char *word);

/* Returns the declared type of an item's column: a plain column's own type, a CAST's affinity, "" for other
 * expressions. */
const char *tsx_query_declared(const tsx_query *query, const tsx_expr *tree);

/* Evaluates a constant. The caller frees the value by sqlite3_value_free. */
int tsx_query_constant(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* Evaluates the second argument of percentile(). */
int tsx_query_percent(const tsx_query *query, const tsx_expr *tree, double *percent, tsr_error *error);

/* Like tsx_query_constant, but casts the value to TEXT, as SQLite does with the list of IN for a TEXT column. */
int tsx_query_text(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* Converts a value of SQLite; a text is borrowed from it, and a BLOB becomes TSR_VALUE_OPAQUE. Error: TSR_NOMEM. */
int tsx_query_value(sqlite3_value *from, tsr_value *value, tsr_error *error);

/* Converts a value of SQLite; its text is copied into the query's arena. A BLOB is TSR_MISMATCH. */
int tsx_query_copy(tsx_query *query, sqlite3_value *value, tsr_value *copy, tsr_error *error);

/* Returns 1 if result column `i` is really the column `name`; 0 if an authorizer made SQLite substitute NULL for it:
 * the result column then has no declared type, and is named after the text of the expression. < 0 on error. */
int tsx_column_visible(sqlite3_stmt *statement, int i, const char *name, tsr_error *error);

/* ---- coordinates.c: axes, on which SQLite evaluates what depends on one dimension or one enumerated attribute ---- */

#define TSX_COORDINATES_MAX 1048576u

/* Returns true if SQLite can evaluate expressions of this column once for each value. */
bool tsx_axis_possible(const tsx_column *column);

/* Finds the bounds of all axes in a snapshot: the non-empty domain, narrowed by WHERE's comparisons with constants.
 * Returns 1; 0 if no cell can satisfy WHERE. */
int tsx_axes_find(tsx_query *query, tsx_snapshot *snapshot, tsr_error *error);

/* Makes empty axes, as if no cell satisfied WHERE. */
int tsx_axes_none(tsx_query *query, tsr_error *error);

/* tsx_axis_of returns the axis of a tree that depends on one column if the axis is usable, else -1. It is -1, too, for
 * a bare column on a listed axis: the engine reads it directly. tsx_axis_of_dimension also returns -1 for enumerated
 * attributes, whose cells may be null, and for listed axes, whose expressions become value tables for the engine. */
int tsx_axis_of(const tsx_query *query, const tsx_expr *tree);
int tsx_axis_of_dimension(const tsx_query *query, const tsx_expr *tree);

/* Narrows low..high to the hull of its intersection with ranges of the field. Returns false if nothing is left. */
bool tsx_axis_narrow(const tsr_field *field, const tsr_ranges *ranges, int64_t *low, int64_t *high);

/* Registers an expression to be evaluated for each value. Returns its number among the axis's trees, or < 0. */
int tsx_axis_request(tsx_query *query, uint32_t axis, const tsx_expr *tree, bool test, tsr_error *error);

/* Finds the least and the greatest value of an expression over an axis (1 and 0 if it is always null). *known is false
 * if a value is not an integer, if the axis is listed, or if the expression uses a joined table, which has not been
 * read yet. */
int tsx_axis_ends(tsx_query *query, uint32_t number, const tsx_expr *tree, bool *known, int64_t ends[2],
                  tsr_error *error);

/* Evaluates an expression with NULL for the axis's column. */
int tsx_axis_null(tsx_query *query, uint32_t axis, const tsx_expr *tree, tsr_value *value, tsr_error *error);

/* Evaluates the expressions of all axes, and the joins. */
int tsx_axes_evaluate(tsx_query *query, tsr_error *error);

/* Sets dimensions[dimension_count] to the ranges to read: the kept values of each axis, intersected with the ranges of
 * comparisons with constants. */
int tsx_axes_ranges(tsx_query *query, tsr_ranges *dimensions, tsr_error *error);

/* ---- join.c: joined tables --------------------------------------------------------------------------------------- */

/* Finds the columns of a joined table, in the database join->source.schema. join->is_array, is_view and is_query say
 * what it is. */
int tsx_join_describe(tsx_query *query, tsx_join *join, tsr_error *error);

/* Joins with bindings: the rows of the joined table are read once, into lists.
 *
 * tsx_joined_places returns the list of row numbers, indexed by the sum of the join's binding numbers;
 * tsx_joined_column returns the values of a column, indexed by row number. Both lists are filled later, by
 * tsx_joined_finish. NULL if memory is exhausted. */
const tsr_value_list *tsx_joined_places(tsx_query *query, uint32_t join);
const tsr_value_list *tsx_joined_column(tsx_query *query, uint32_t join, uint32_t column);

/* Reads the rows of the joins with bindings. */
int tsx_joined_read(tsx_query *query, tsr_error *error);

/* Writes the words of a tree of the joined table alone for the SELECT that reads its rows. */
void tsx_joined_append(tsx_query *query, const tsx_expr *tree, sqlite3_str *out);

/* Returns the distinct values of a bound column as rows for SQLite: the value is in *slot, its number (from 1) is the
 * rowid. */
tsx_rows *tsx_joined_values(const tsx_query *query, uint32_t join, uint32_t binding, int *slot);

/* After the axes have been evaluated: turns the value numbers that they found into places, and fills the lists. */
int tsx_joined_finish(tsx_query *query, tsr_error *error);

/* After tsx_joined_finish: returns true if every coordinate that is read has a joined row. */
bool tsx_joined_complete(const tsx_query *query, uint32_t join);

void tsx_joined_release(tsx_query *query);

/* ---- joined_ranges.c: joins by ranges ---------------------------------------------------------------------------- */

/* Returns the number of the join with spans, or -1. */
int tsx_boxes_join(const tsx_query *query);

/* Returns true if a span compares a dimension of texts itself. It has no axis. */
bool tsx_boxes_take_texts(const tsx_query *query, const tsx_span *span);

/* Requests the values that the spans compare, before the axes are evaluated. */
int tsx_boxes_request(tsx_query *query, tsr_error *error);

/* Writes the ends of all spans as result columns, each after ", ". */
void tsx_boxes_append(tsx_query *query, sqlite3_str *out);

/* Takes the ends of a row from a statement's result columns, which begin with number `first`. Rows are taken in order;
 * `row` is the number of rows so far. Returns 1; 0 if the row meets no cell: then it is not counted. */
int tsx_boxes_row(tsx_query *query, uint64_t row, sqlite3_stmt *statement, int first, tsr_error *error);

/* Returns the bytes that a row takes. */
uint64_t tsx_boxes_row_size(const tsx_query *query);

/* After the axes have been evaluated: makes the ranges of `rows` rows, and narrows what is read. */
int tsx_boxes_finish(tsx_query *query, uint64_t rows, tsr_error *error);

/* Returns the boxes for the engine; NULL if the query has none. */
const tsr_query_boxes *tsx_boxes_made(const tsx_query *query);

void tsx_boxes_release(tsx_query *query);

/* Sets dimensions[dimension_count] to the ranges of what the query gives, where windows see more. */
int tsx_axes_ranges_after(tsx_query *query, tsr_ranges *dimensions, tsr_error *error);

/* ---- window.c: window functions over dimensions ------------------------------------------------------------------ */

/* Returns the condition that decides what windows see, or the whole WHERE of a query without windows; or NULL. */
static inline tsx_expr *tsx_where_before(const tsx_select *select) {
  return select->windows.count ? select->windows.where[select->windows.level] : select->where;
}

/* Checks a query's windows, once its names are resolved. */
int tsx_windows_check(const tsx_query *query, tsr_error *error);

/* Returns the window for a tree with OVER, whose fields are set by tsx_windows_finish; NULL: an error. `counts`: the
 * window that counts the cells of its frame instead. */
const tsr_window *tsx_window_take(tsx_query *query, const tsx_expr *tree, bool counts, tsr_error *error);

/* Of a neighbourhood, after the axes have been evaluated: reads the kernel. Returns 1 if every cell has a neighbour:
 * then the window that counts neighbours is left out; else 0. */
int tsx_windows_kernel(tsx_query *query, tsr_error *error);

/* After the axes have been evaluated: makes the windows' frames, and finds their types. `conditions`: the engine tests
 * cells before the windows. */
int tsx_windows_finish(tsx_query *query, bool conditions, tsr_error *error);

/* Makes the request for all windows of the query; NULL if there are none. */
int tsx_windows_request(tsx_query *query, tsr_query_windows **windows, tsr_error *error);

/* Returns the expression of a window that has these nodes, or NULL. */
struct tsx_lowered;
const struct tsx_lowered *tsx_windows_expression(const tsx_query *query, const tsr_node *nodes);

/* ---- neighbours.c: joins of an array with itself by offsets ------------------------------------------------------ */

/* A neighbourhood is a join of an array with itself by offsets, GROUP BY all dimensions of one of the two: it has a
 * group for each cell, over the cells around it. tsx_around_take turns its text into a query of cells, with a window in
 * the place of each aggregate, and sets select.around. Names are not resolved yet; the joined tables are known. Leaves
 * any other text as it is. Fails for a neighbourhood that only SQLite can evaluate. */
int tsx_around_take(tsx_query *query, tsr_error *error);

/* Fails if a condition on the neighbours means something else in a view. Names are resolved. */
int tsx_around_check(const tsx_query *query, tsr_error *error);

typedef struct tsx_kernel { /* of a window */
  tsr_window_kernel list;
  const tsx_expr *weight; /* or NULL */
  bool mixed; /* some weights are INTEGER, others REAL */
} tsx_kernel;

/* Reads the kernel, once for all windows: `trees` are their [count] aggregates. */
int tsx_around_read(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsr_error *error);

/* Sets the axes or the kernel of window number `number`. */
int tsx_around_window(tsx_query *query, uint32_t number, tsr_window *window, tsr_error *error);

/* Returns true if every cell has a neighbour. `number` is that of the window that counts them. */
bool tsx_around_always(const tsx_query *query, uint32_t number);

/* Sets *type to that of a window's argument times its weight; OPAQUE: they have no product. */
int tsx_around_type(const tsx_query *query, uint32_t number, tsr_value_type argument, tsr_value_type *type,
                    tsr_error *error);

/* Says where neighbours are, as in "y -1..1, x +k.dx". */
void tsx_around_explain(const tsx_query *query, sqlite3_str *out);

/* ---- lower.c: expressions that the engine evaluates over cells --------------------------------------------------- */

typedef struct tsx_lowered { /* an expression for the engine */
  tsr_expression expression;
  const tsx_expr **trees; /* [expression.count]: the tree that each node was made from */
} tsx_lowered;

/* Lowers trees to an expression for the engine; several trees are ANDed. */
int tsx_lower(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsx_lowered *lowered, tsr_error *error);

/* Lowers a tree of one dimension that the engine computes for each cell even if the dimension has an axis. */
int tsx_lower_arithmetic(tsx_query *query, const tsx_expr *tree, tsx_lowered *lowered, tsr_error *error);

/* ANDs to *lowered, a condition or empty: the enumeration code is one that the axis keeps. */
int tsx_lower_kept(tsx_query *query, const tsx_expr *tree, uint32_t axis, tsx_lowered *lowered, tsr_error *error);

/* ANDs to *lowered: the datetime column is within the ranges. */
int tsx_lower_ranges(tsx_query *query, const tsx_expr *column, const tsr_ranges *ranges, tsx_lowered *lowered,
                     tsr_error *error);

/* ANDs to *lowered: the column is null. */
int tsx_lower_null(tsx_query *query, const tsx_expr *column, tsx_lowered *lowered, tsr_error *error);

/* Makes an expression of the bare column: the stored value, which for an enumerated column is the code. */
int tsx_lower_field(tsx_query *query, const tsx_expr *tree, int column, tsx_lowered *lowered, tsr_error *error);

/* Fails in a UTF-16 database, where SQLite orders texts differently from the engine. */
int tsx_query_orders_texts(const tsx_query *query, const tsx_expr *tree, tsr_error *error);

/* Type-checks an expression, after the axes have been evaluated, and sets *type to the type of its value. The error
 * names the operand types that the engine cannot combine. */
int tsx_lowered_check(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error);

/* ---- plan.c: what a query asks of the engine, and where each part finds its value in the results ----------------- */

typedef struct tsx_key_part { /* a key of GROUP BY */
  int axis; /* the axis that SQLite evaluates the key on; < 0: the engine evaluates the key */
  uint32_t tree; /* of the axis */
  uint32_t *numbers; /* [the axis's count]: the rank of each value among the distinct kept values; or UINT32_MAX */
  uint64_t *places; /* [number_count]: the index on the axis of some value with this rank */
  uint32_t number_count;
  bool mixed; /* the axis has an INTEGER and an equal REAL */
  tsx_lowered lowered, coordinate; /* coordinate: the bare column of the axis */
  /* The value that the group shows, when equal keys may differ in type: the number of an extra aggregate, or < 0. A key
   * of type NUMBER is grouped as REAL, and the aggregate is its minimum, an INTEGER or a REAL. For a mixed key it is
   * the least coordinate of the group, whose value the group shows. */
  int64_t least;
} tsx_key_part;

typedef struct tsx_aggregate_part {
  const tsx_expr *tree; /* a bare column: its value in the row of select.meaning.extreme, which is aggregate 0 */
  tsx_lowered argument, filter;
  tsr_value_type argument_type, filter_type;
  double percent;
} tsx_aggregate_part;

typedef struct tsx_column_part { /* a result column of a query over cells */
  const tsx_expr *tree;
  int axis; /* >= 0: the engine returns the coordinate, and the axis maps it to the value */
  uint32_t axis_tree;
  tsx_lowered lowered;
  tsr_value_type type;
} tsx_column_part;

typedef struct tsx_plan {
  tsx_query *query;
  bool nothing; /* no cell satisfies the WHERE */
  const tsx_expr **conditions; /* terms of WHERE that the engine tests for each cell */
  uint32_t condition_count;
  tsx_lowered where;
  tsx_lowered before; /* in a query with windows: the terms of `where` that decide what windows see */
  uint32_t before_count; /* of `conditions` */
  tsx_key_part *keys; /* [select.group_count] */
  tsx_aggregate_part *aggregates;
  uint32_t aggregate_count;
  tsx_column_part *columns;
  uint32_t column_count;
  tsr_query request;
} tsx_plan;

/* Divides the work between the engine and SQLite, after tsx_axes_find. Reads no cells. */
int tsx_plan_make(tsx_plan *plan, tsr_error *error);

/* After the axes have been evaluated: drops the conditions of joins that have a row for every coordinate. */
int tsx_plan_drop_joins(tsx_plan *plan, tsr_error *error);

/* Makes plan->request. The last step. */
int tsx_plan_finish(tsx_plan *plan, tsr_error *error);

/* Returns the number of the aggregate that a tree is, bare columns included; aggregate_count if there is none. */
uint32_t tsx_plan_aggregate(const tsx_plan *plan, const tsx_expr *tree);

/* ---- pushdown.c: SQLite's order of values, bounds from WHERE, and constraints of the outer statement ------------- */

/* Compares two values in SQLite's order; they are NULL, INTEGER, REAL or TEXT. Returns < 0, 0, > 0. */
int tsx_values_compare(const tsr_value *a, const tsr_value *b);

typedef struct tsx_constant { /* the right side of a comparison */
  tsr_value value;
  bool is_number; /* a text that SQLite may convert to a number */
  double number; /* that number, approximately */
} tsx_constant;

typedef struct tsx_value_list { /* the non-null values of an IN list, sorted */
  tsr_value *values;
  uint64_t count;
  bool texts, numbers; /* the list has texts, has numbers */
} tsx_value_list;

/* Bounds: comparisons of a column with constants, as ranges of the column's values. The ranges of a dimension prune the
 * tiles that are read.
 *
 * Where SQLite leaves a comparison to a table, in the top-level AND terms of WHERE, the table compares a datetime with
 * ISO text of any precision as instants (docs/reference/types.md). Elsewhere SQLite compares the texts. A query does
 * the same, so it returns the same rows as the equivalent view. */

/* Makes the ranges of the values that can satisfy `column op value`, for any of the values. `rules` is 0 or
 * TSX_SQLITE_RULES; the connection's flags for tsx_ranges_make are added. The ranges are copied into the query's
 * arena. */
int tsx_bound_ranges(tsx_query *query, const tsx_column *column, tsx_op op, sqlite3_value *const *values,
                     uint32_t count, unsigned rules, tsr_ranges *set, tsr_error *error);

/* Finds the comparisons with constants among the top-level AND terms of WHERE, and if query->shown is set adds their
 * ranges to query->bounds. */
int tsx_bounds_find(tsx_query *query, const tsx_expr *where, tsr_error *error);

/* Returns true if this term of WHERE compares a datetime as instants. For a dimension or a label the ranges alone then
 * decide the term; for an attribute the engine does. */
bool tsx_bounds_decide(const tsx_query *query, const tsx_expr *term);

/* tsx_bound_op maps an operator of the text to a tsx_op, or to TSX_NOTNULL if it is not a comparison. tsx_bound_flipped
 * returns the operator after its two sides are exchanged. */
tsx_op tsx_bound_op(tsr_operation operation);
tsr_operation tsx_bound_flipped(tsr_operation operation);

/* Constraints of the outer statement, as in `SELECT ... FROM q WHERE month = '06'`, are pushed down: they drop
 * coordinates before any cell is read. SQLite tests them again, with its own affinities, so pushdown may keep too many
 * rows, but must not drop a row that SQLite would keep.
 *
 * A datetime column of cells is the exception: in a view, SQLite hands its constraint to the table, which compares
 * instants. So here the query decides such a constraint, and SQLite does not test it again. */

typedef struct tsx_outer_constraint {
  uint32_t item; /* of the SELECT */
  int op; /* SQLITE_INDEX_CONSTRAINT_EQ and the like */
  bool in; /* the constraint is `item IN (...)`: `value` is its list, for sqlite3_vtab_in_first, and `op` is EQ */
  bool decides; /* tsx_pushdown_decides was true: SQLite does not test the constraint */
  sqlite3_value *value; /* borrowed */
  int request; /* set by tsx_pushdown_request: the item's number among the trees of its axis, or < 0 */
} tsx_outer_constraint;

/* Returns true if constraints may drop rows: only if the items identify the rows (tsx_run_rowid), and there is no LIMIT
 * and no DISTINCT. */
bool tsx_pushdown_possible(const tsx_query *query);

/* Returns true if constraints on the item can be tested before any cell is read. */
bool tsx_pushdown_takes(const tsx_query *query, uint32_t item);

/* Returns true if the query decides a constraint, so that SQLite must not test it. `right` is the value that the item
 * is compared with, or NULL if it is not known yet. */
bool tsx_pushdown_decides(const tsx_query *query, uint32_t item, int op, bool in, sqlite3_value *right);

/* Adds the constraints on dimensions to the query's bounds. Call before tsx_axes_find, which narrows the axes by
 * them. */
int tsx_pushdown_bounds(tsx_query *query, const tsx_outer_constraint *outer, uint32_t count, tsr_error *error);

/* Writes the constraints on columns of a table that is joined by ranges as conditions on its rows, each after " AND ";
 * binds their values to the statement that has them, and to no other. */
void tsx_pushdown_rows_append(const tsx_query *query, sqlite3_str *out);
int tsx_pushdown_rows_bind(const tsx_query *query, sqlite3_stmt *statement, tsr_error *error);

/* Requests the axis values that the other constraints compare. Call after tsx_axes_find. */
int tsx_pushdown_request(tsx_query *query, tsx_outer_constraint *outer, uint32_t count, tsr_error *error);

/* After the axes have been evaluated: drops coordinates, or adds conditions on cells to the plan. */
int tsx_pushdown_apply(tsx_plan *plan, const tsx_outer_constraint *outer, uint32_t count, tsr_error *error);

/* ---- run.c: rowids, execution ------------------------------------------------------------------------------------ */

/* In RIGHT JOIN and FULL JOIN, SQLite uses rowids to remember which rows it has matched. So a row must keep its rowid
 * in all scans of a statement, whatever their constraints, and no two rows may share one. */

#define TSX_ROWID_BEGIN UINT64_C(0xcbf29ce484222325)

typedef struct tsx_occurrences { /* how often each hash has occurred in a scan; `= {0}` at first */
  struct tsx_occurrence *entries;
  uint64_t room, count;
} tsx_occurrences;

/* Runs a tsx_query over the snapshot that the statement sees, and gives its rows. */

typedef struct tsx_run tsx_run;

/* Fails if neither SQLite nor the engine can evaluate some part of the query, as far as this shows without reading the
 * array. The query can only be released afterwards. */
int tsx_run_check(tsx_query *query, tsr_error *error);

/* Starts a run. With query->exact, fails with TSR_RANGE if a key is an INTEGER in some rows of a group and a REAL in
 * others, either of which may stand for it. The query is borrowed and can be run only once. The caller closes the run,
 * also after a failure, when *run may be NULL. */
int tsx_run_open(tsx_query *query, tsx_outer_constraint *outer, uint32_t outer_count, tsx_run **run, tsr_error *error);
/* tsx_run_open in two parts: the second one starts the engine. */
int tsx_run_prepare(tsx_query *query, tsx_outer_constraint *outer, uint32_t outer_count, tsx_run **run,
                    tsr_error *error);
int tsx_run_start(tsx_run *run, tsr_error *error);
int tsx_run_next(tsx_run *run, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
int tsx_run_column(tsx_run *run, sqlite3_context *context, uint32_t item, tsr_error *error);

/* Gives an item of the row as SQL shows it: NULL, INTEGER, REAL or TEXT; UNSIGNED above INT64_MAX; OPAQUE for a BLOB.
 * Text is borrowed until the next call. */
int tsx_run_value(tsx_run *run, uint32_t item, tsr_value *value, tsr_error *error);

/* Returns true if the rows of a run are the cells of a box, each of which comes once, and the engine's columns are the
 * items: then tsx_run_place before the start and tsx_run_block may take the place of tsx_run_next. */
bool tsx_run_is_box(const tsx_run *run);

/* Of a box, returns true if an item is a dimension whose coordinates SQL shows as they are: `count` from *low on. */
bool tsx_run_axis(const tsx_run *run, uint32_t item, uint32_t *dimension, int64_t *low, uint64_t *count);

tsr_value_type tsx_run_type(const tsx_run *run, uint32_t item); /* of an item of a box; OPAQUE: the rows are no box */

/* Lets the engine give one item of a box as its only column, with the places of the cells in a grid. The grid is
 * borrowed until the run is closed. */
void tsx_run_place(tsx_run *run, uint32_t item, const tsr_query_grid *grid);

/* Gives the next block of a box, borrowed until the next call. Returns 1; 0 at the end. */
int tsx_run_block(tsx_run *run, const tsr_query_block **block, tsr_error *error);

/* Returns true if the rows of a run are cells that come as they are: then a row of tsx_run_next stands in a block,
 * whose rows tsx_run_rows counts, and tsx_run_at moves to another one of them. */
bool tsx_run_is_cells(const tsx_run *run);

/* Returns the number of rows in the current block of cells, and the place of the current row in it. */
uint64_t tsx_run_rows(const tsx_run *run, uint64_t *row);
void tsx_run_at(tsx_run *run, uint64_t row);

tsr_value_type tsx_run_cell_type(const tsx_run *run, uint32_t item); /* in the block; OPAQUE: an axis has the values */

/* Gives an item of all rows of the block as INTEGER or REAL, as tsx_run_value would; `words` has room for them, and
 * `nulls` for as many bytes. Returns false if some row's value is of another type. The column is borrowed until the
 * next block, or until `words` are used again. Instants of the datatype `instants` come as INTEGER. */
bool tsx_run_column_block(const tsx_run *run, uint32_t item, tsr_datatype instants, uint64_t *words, uint8_t *nulls,
                          tsr_query_column *column);

/* Gives the rowid of the row. If constraints cannot drop rows (tsx_pushdown_possible), it is the ordinal of the row. */
int tsx_run_rowid(tsx_run *run, int64_t *rowid, tsr_error *error);
void tsx_run_close(tsx_run *run);

/* ---- row_cache.c ------------------------------------------------------------------------------------------------- */

/* The row cache: all rows of a query in memory with a hash index, for a cursor that SQLite restarts for each row of an
 * outer loop. SQLite builds no automatic index on a virtual table. */

typedef struct tsx_row_cache tsx_row_cache;

/* Reads all rows of a run and indexes the items in `indexed`. Returns 1; or 0 if the rows need more than `limit` bytes
 * or have values that cannot be kept, such as BLOBs. The caller frees *rows in all cases. */
int tsx_row_cache_make(tsx_run *run, uint32_t item_count, const uint32_t *indexed, uint32_t indexed_count,
                       uint64_t limit, tsx_row_cache **rows, tsr_error *error);
void tsx_row_cache_free(tsx_row_cache *rows);

/* Starts a walk over the rows whose indexed items may equal `values`, one per indexed item; NULL: over all rows. The
 * walk may include rows that are not equal. */
void tsx_row_cache_find(tsx_row_cache *rows, sqlite3_value *const *values);

/* Moves to the next row; returns false at the end. */
bool tsx_row_cache_next(tsx_row_cache *rows);
void tsx_row_cache_column(const tsx_row_cache *rows, sqlite3_context *context, uint32_t item);
int64_t tsx_row_cache_rowid(const tsx_row_cache *rows);

/* ---- subquery.c: scalar subqueries ------------------------------------------------------------------------------- */

/* Fails unless each subquery is a query that has one row and one column, and names nothing of the query around it. Its
 * value is NULL until tsx_subqueries_evaluate. */
int tsx_subqueries_check(tsx_query *query, tsr_error *error);
int tsx_subqueries_evaluate(tsx_query *query, tsr_error *error);

/* ---- explain.c: EXPLAIN QUERY PLAN ------------------------------------------------------------------------------- */

/* Says what is evaluated where, as EXPLAIN QUERY PLAN does. */
void tsx_explain_append(sqlite3_str *out, const tsx_query *query);
char *tsx_query_explain(const tsx_query *query); /* from sqlite3_malloc; NULL if memory is exhausted */

/* ---- query_table.c: parts of statements -------------------------------------------------------------------------- */

/* Registers a compiled query as a table of its connection (connection/registry.h), whose rows are those that SQLite
 * gives for the text: what fails before its first row is evaluated by rows. `declaration` is from tsx_query_declare.
 * The table keeps to the query's memory_bytes and threads. *name is valid until the next call. */
int tsx_query_part(const tsx_query *query, const char *declaration, const char **name, tsr_error *error);

#endif
