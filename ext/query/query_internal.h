/* query_internal.h: the text of a tessera_query as trees of expressions. parse.c makes them, names.c says what their names mean
 * and what each part depends on, lower.c and groups.c evaluate them.
 *
 * Every node knows the words of the source that it stands for, so that SQLite can be given these very words, and so that
 * messages can show them. All memory belongs to one tsx_arena. */
#ifndef TSX_QUERY_QUERY_INTERNAL_H
#define TSX_QUERY_QUERY_INTERNAL_H

#include <limits.h>

#include "connection/sqlite_api.h"
#include "tessera.h"
#include "connection/connection.h"
#include "table/table.h"

typedef struct tsx_arena { /* `= {0}` is empty */
  struct tsx_arena_block *blocks;
} tsx_arena;

/* Returns zeroed memory that lives as long as the arena, or NULL. */
void *tsx_arena_take(tsx_arena *arena, uint64_t size);
char *tsx_arena_copy(tsx_arena *arena, const char *text, uint64_t size); /* a copy that NUL terminates, or NULL */
void tsx_arena_free(tsx_arena *arena);

typedef enum tsx_expr_kind {
  TSX_EXPR_LITERAL,
  TSX_EXPR_NAME, /* [table.]column */
  TSX_EXPR_JOINED, /* a NAME that is a column of a joined table */
  TSX_EXPR_LABEL, /* a NAME that is a label of a dimension */
  TSX_EXPR_UNARY, /* operation: NEGATE, PLUS, BIT_NOT, NOT, IS_NULL, NOT_NULL */
  TSX_EXPR_BINARY, /* operation: arithmetic, comparisons, AND, OR, IS, IS_NOT; COUNT: IS TRUE or IS FALSE */
  TSX_EXPR_CONCATENATE, /* || */
  TSX_EXPR_BETWEEN, /* value, low, high */
  TSX_EXPR_IN, /* value, members */
  TSX_EXPR_LIKE, /* value, pattern; name: like or glob */
  TSX_EXPR_CASE, /* conditions and values, and ELSE if their number is odd; base: after the word CASE */
  TSX_EXPR_CAST, /* value; name: the type */
  TSX_EXPR_FUNCTION,
  TSX_EXPR_AGGREGATE
} tsx_expr_kind;

/* What a part of the text depends on, in `field` of a node. */
#define TSX_FIELD_NONE (-1) /* a constant */
#define TSX_FIELD_MANY (-2) /* several columns */

typedef struct tsx_call { /* of a function or an aggregate */
  const struct tsx_function *function;
  bool distinct, star; /* of aggregates: count(DISTINCT x), count(*) */
  struct tsx_expr *filter; /* of an aggregate: that of FILTER, or NULL */
} tsx_call;

typedef struct tsx_expr {
  tsx_expr_kind kind;
  tsr_operation operation;
  bool negated; /* NOT BETWEEN, NOT IN, NOT LIKE, IS NOT TRUE */
  const char *begin, *end; /* the words of the source, without blanks around them */
  char *name, *table; /* of columns as written, of functions in lower case */
  struct tsx_expr **operands;
  uint32_t count;
  struct tsx_expr *base; /* CASE */
  tsx_call call; /* FUNCTION, AGGREGATE */
  /* names.c: */
  struct tsx_expr *alias; /* a NAME that stands for an item */
  int column; /* a NAME: the number of the table's column; JOINED: of the joined table's; LABEL: of the table's label */
  uint32_t join; /* JOINED: the number of the join */
  int field; /* the only column that it depends on, outside of aggregates; or TSX_FIELD_... */
  bool has_aggregate;
} tsx_expr;

typedef struct tsx_item { /* of the SELECT */
  tsx_expr *tree; /* NULL: * */
  char *name; /* the alias, or NULL */
  char *star; /* of "table.*": the table; of "*": "" */
  const char *begin, *end; /* with the alias */
} tsx_item;

typedef struct tsx_order {
  tsx_expr *tree;
  bool descending;
  const char *rest; /* the words after the expression, up to `end` */
  const char *end;
  int item; /* the number of the item that it is by name or ordinal, or -1 */
} tsx_order;

typedef struct tsx_join_column {
  char *name, *declared; /* the type may be "" */
  bool plain; /* its texts are compared as BINARY does */
  bool dimension; /* of an array */
} tsx_join_column;

/* A column of a joined table that ON sets equal to an expression of one dimension. */
typedef struct tsx_binding {
  uint32_t column; /* of the joined table */
  const tsx_expr *left;
  tsx_expr *number; /* stands for the number of the column's value that equals `left`: JOINED, column -1 - binding */
} tsx_binding;
#define TSX_BINDINGS_MAX 16u

/* What ON says. */
typedef struct tsx_join_on {
  tsx_expr *tree;
  int field; /* the dimension that it depends on; TSX_FIELD_MANY: there are bindings */
  tsx_binding bindings[TSX_BINDINGS_MAX];
  uint32_t binding_count;
  const tsx_expr **filters; /* its terms about the joined table alone */
  uint32_t filter_count;
  tsx_expr *row; /* stands for the row: JOINED, column TSX_JOIN_ROW; it is null if a cell has none */
} tsx_join_on;

#define TSX_JOINS_MAX 8u
#define TSX_JOIN_ROW  INT_MIN

typedef struct tsx_source { /* a table of FROM or JOIN: [schema.]table[(as_of[, since])] [[AS] alias] */
  char *schema, *table, *alias; /* schema: as written, then that in which a joined table was found; it and alias may be
                                   NULL */
  const char *begin, *end; /* the words of [schema.]table */
  bool qualified; /* the words name a schema */
  tsx_expr *times[2]; /* as_of and since in parentheses, of an array; or NULL */
  const char *times_begin, *times_end; /* their words, with the parentheses; NULL: there are none */
} tsx_source;

/* Returns the name that the text calls a table by. */
static inline const char *tsx_source_name(const tsx_source *source) {
  return source->alias ? source->alias : source->table;
}

/* LEFT JOIN or JOIN: a table that has at most one row for each value of one dimension; or, with bindings, for each
 * combination of values of several */
typedef struct tsx_join {
  bool left, is_query, is_array; /* is_query: it is a tessera_query */
  const char *begin; /* the word JOIN, INNER or LEFT */
  tsx_source source;
  tsx_join_on on;
  tsx_join_column *columns; /* of an array: its fields, then its labels */
  uint32_t *star; /* [star_count]: the columns that * stands for, in its order; NULL: all */
  uint32_t star_count;
  uint32_t column_count;
} tsx_join;

typedef struct tsx_meaning { /* what names.c finds out about a SELECT */
  bool has_aggregate; /* the results are groups, as with GROUP BY */
  bool *used; /* [the table's column_count + label_count]: the text has the column, or the label */
  const tsx_expr *extreme; /* the only min or max, from whose row bare columns are taken; or NULL */
} tsx_meaning;

/* A SELECT, clause by clause. */
typedef struct tsx_select {
  tsx_arena arena;
  char *text; /* the source */
  char *
      prepared; /* the source as SQLite's own parser is given it: names of tables are complete, median(x) is total(x) */
  bool distinct;
  tsx_item *items;
  uint32_t item_count;
  tsx_source source;
  tsx_join joins[TSX_JOINS_MAX];
  uint32_t join_count;
  tsx_expr *where, *having, *limit, *offset;
  tsx_expr **group;
  uint32_t group_count;
  tsx_order *order;
  uint32_t order_count;
  tsx_meaning meaning;
} tsx_select;

void tsx_select_free(tsx_select *select);

/* Sets the error `what: 'the words of the source' (character n)advice`. Returns TSR_ERROR. */
int tsx_expr_fail(const tsx_select *select, const char *begin, const char *end, const char *what, const char *advice,
                  tsr_error *error);

/* Returns true if the trees are the same, but for blanks, comments and the case of names. */
bool tsx_expr_equal(const tsx_expr *a, const tsx_expr *b);

/* Returns what is within likely() and unlikely(), which a view names its columns by. */
const tsx_expr *tsx_expr_likely(const tsx_expr *tree);

/* Returns true if the tree is a column alone, of the table or of a joined one, or a label. */
static inline bool tsx_expr_is_column(const tsx_expr *tree) {
  return (tree->kind == TSX_EXPR_NAME || tree->kind == TSX_EXPR_JOINED || tree->kind == TSX_EXPR_LABEL) &&
         tree->column >= 0;
}

/* Parses the text of a tessera_query. */

/* Whether SQLite may have a better message for a text that this parser has refused. */
typedef struct tsx_parse_doubt {
  bool any;
  const char *begin, *end; /* the token that the parser did not expect; NULL: it has refused something that it knows */
  bool word; /* the token is a word without quotes */
} tsx_parse_doubt;

/* Parses a SELECT. Names are not looked up yet. *doubt is set, too, and is empty if nothing has failed. The caller calls
 * tsx_select_free, also after a failure. */
int tsx_select_parse(const char *text, tsx_select *select, tsx_parse_doubt *doubt, tsr_error *error);

/* Lets SQLite evaluate words of a tessera_query. A nested SELECT runs over the table _tessera_query_rows, whose
 * rows the caller makes: a coordinate, a group, or a row of cells each. Its columns are slots with an affinity; in the
 * words of the query, names of columns are replaced by slots. So a nested SELECT reaches nothing but these slots and the
 * functions that parse.c has let pass. */

typedef enum tsx_affinity { TSX_SLOT_INTEGER, TSX_SLOT_REAL, TSX_SLOT_TEXT, TSX_SLOT_NONE } tsx_affinity;
#define TSX_SLOTS      16 /* of INTEGER, REAL and TEXT each */
#define TSX_SLOTS_NONE 400 /* without affinity */
#define TSX_SLOT_COUNT (3 * TSX_SLOTS + TSX_SLOTS_NONE)

typedef struct tsx_slots { /* which slots are in use; `= {0}` at first */
  uint16_t used[4];
} tsx_slots;

/* Takes the next slot of an affinity. Returns its number, or -1 if there are no more. */
int tsx_slot_take(tsx_slots *slots, tsx_affinity affinity);
tsx_affinity tsx_slot_affinity(const char *declared); /* of a column that is declared so, or a CAST to INT or NUM */
void tsx_slot_append(sqlite3_str *out, int slot); /* the slot's name in a nested SELECT */

typedef struct tsx_rows { /* the rows of one nested SELECT */
  int (*next)(struct tsx_rows *rows, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
  int (*column)(struct tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error);
  void *state;
} tsx_rows;

/* Writes the words of a tree. `replace` writes what stands in place of a node and returns true, or returns false. */
typedef bool (*tsx_replace)(void *argument, const tsx_expr *tree, sqlite3_str *out);
void tsx_words_append(sqlite3_str *out, const tsx_expr *tree, tsx_replace replace, void *argument);

/* Writes the words from *from on up to those of the tree's last replaced part, and sets *from behind that. */
void tsx_words_until(sqlite3_str *out, const tsx_expr *tree, const char **from, tsx_replace replace, void *argument);

/* Prepares `text`, whose FROM is TSX_ROWS_FROM. Frees the text. `rows` is used until the statement is finalized. */
#define TSX_ROWS_NAME "_tessera_query_rows"
#define TSX_ROWS_FROM " FROM " TSX_ROWS_NAME "(?1)"
int tsx_rows_prepare(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                     tsr_error *error);

/* Binds rows to another parameter of a statement: `... FROM TSX_ROWS_NAME(?2)`. */
int tsx_rows_bind(tsx_connection *connection, sqlite3_stmt *statement, int parameter, tsx_rows *rows, tsr_error *error);

/* Takes a step. Returns 1 with a row, 0 at the end, < 0 on error. */
int tsx_rows_step(tsx_connection *connection, sqlite3_stmt *statement, tsr_error *error);

/* Fails because a statement that must have rows has none: an authorizer has answered SQLITE_IGNORE for the SELECT. */
int tsx_rows_none(tsr_error *error);

int tsx_rows_register(tsx_connection *connection); /* returns SQLite's code */

/* A tessera_query that has been parsed, and what its evaluation over one state of its array keeps. compile.c
 * makes it, run.c drives the evaluation:
 *
 *   pushdown.c        comparisons of a dimension or a label with constants: ranges of the dimension
 *   coordinates.c   what depends on one dimension or one enumerated attribute: SQLite evaluates it once for each value
 *                   that the column can have (an axis)
 *   join.c          tables that are joined by one dimension: SQLite looks for their row once for each coordinate
 *   join.c   tables that are joined by several dimensions: their rows are read once, into lists
 *   lower.c         what depends on several columns: nodes of an expression that the engine evaluates over cells
 *   rows.c          what stands around aggregates: SQLite evaluates it once for each group
 */

typedef struct tsx_axis { /* the values that one column can have */
  int column; /* of the table */
  bool usable; /* no more than TSX_COORDINATES_MAX; else the engine has to evaluate what depends on the column */
  bool listed; /* of a sparse array, and past TSX_COORDINATES_MAX: SQLite evaluates the coordinates of cells alone */
  int64_t *coordinates; /* [count], in order, once tsx_axes_evaluate has read them; `count` is set then, too */
  int64_t low;
  uint64_t count;
  const tsx_expr **trees; /* what SQLite evaluates for each value */
  bool *tests; /* [tree_count]: it is a condition, of which the truth is kept */
  uint32_t tree_count;
  tsr_value **values; /* [tree_count][count] */
  uint8_t *kept; /* [count]: the conditions allow it; NULL: all are allowed */
} tsx_axis;

typedef struct tsx_bound_range { /* `column op constant`, as ranges of a dimension's values */
  struct tsx_bound_range *next;
  int column;
  tsr_ranges set;
} tsx_bound_range;

typedef struct tsx_decided { /* a term of WHERE that compares instants, as the table does (query_internal.h) */
  struct tsx_decided *next;
  const tsx_expr *tree;
} tsx_decided;

typedef struct tsx_value_use { /* a table of values of a TSX_OP_TABLE node, filled when its axis has been evaluated */
  struct tsx_value_use *next;
  tsr_value_table *table;
  uint32_t axis, tree;
  const tsx_expr *words;
} tsx_value_use;

typedef struct tsx_compiling { /* the queries that are being compiled or evaluated, the innermost first */
  const struct tsx_compiling *outer;
  const char *home, *text;
} tsx_compiling;

typedef struct tsx_query {
  tsx_connection *connection;
  const char *home; /* as given to tsx_query_compile; borrowed */
  tsx_select select;
  const tsx_snapshot *shown; /* the state that is read; borrowed */
  tsx_table *table; /* the table in FROM; borrowed: valid while the statement runs */
  bool over_groups; /* the results are groups; else cells */
  uint64_t memory_bytes;
  unsigned threads;
  tsx_axis *axes;
  uint32_t axis_count;
  tsx_bound_range *bounds;
  tsx_decided *decided;
  tsx_value_use *uses;
  struct tsx_joined *joined[TSX_JOINS_MAX]; /* of joins with bindings */
} tsx_query;

/* The functions that the text of a tessera_query may call, and nothing else may. */

typedef struct tsx_function {
  const char *name;
  uint8_t least, greatest; /* numbers of arguments */
  tsr_operation cells; /* the engine's operation over cells; TSR_OP_COUNT: SQLite alone evaluates it */
  bool aggregate;
  tsr_aggregate_function aggregates;
  bool replaced; /* SQLite may lack it: its own parser is given total(x) in its place */
} tsx_function;

/* Returns the function with this name, in any case, that takes this many arguments; NULL if there is none. */
const tsx_function *tsx_function_find(const char *name, uint32_t count);

/* Returns a function with this name, whatever arguments it takes; NULL if there is none. */
const tsx_function *tsx_function_known(const char *name);

/* Finds what the names of a tessera_query mean, by SQLite's rules. */

/* Replaces * by the table's columns, resolves every name and ordinal, sets `field` and `has_aggregate` of every node,
 * and `has_aggregate` of the SELECT. Fails for names that do not exist, and for columns that are neither keys nor in an
 * aggregate, unless the query has exactly one min or max. SELECT DISTINCT over cells becomes a GROUP BY of all items. */
int tsx_select_resolve(tsx_select *select, const tsx_table *table, tsr_error *error);

/* Returns the key of GROUP BY that equals the tree, or -1. */
int tsx_select_key(const tsx_select *select, const tsx_expr *tree);

/* Returns the tree that a name stands for if it is an alias, else the tree. */
static inline const tsx_expr *tsx_expr_meaning(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_NAME && tree->alias) tree = tree->alias;
  return tree;
}

/* Makes a tsx_query of the text of a SELECT: finds its tables, resolves its names, and says what its columns
 * are. */

/* Sets the table in FROM, which is looked up in the database `home` ("temp": in all databases), and resolves names. */
int tsx_query_compile(tsx_connection *connection, const char *home, const char *text, tsx_query *query,
                      tsr_error *error);
void tsx_query_release(tsx_query *query);

/* Fails if the host's authorizer hides a column that the query uses (SQLITE_IGNORE): SQLite gives NULL for it, but the
 * engine reads the cells. What the authorizer denies, tsx_query_compile refuses. */
int tsx_query_permitted(const tsx_query *query, tsr_error *error);

/* Makes the CREATE TABLE statement of the columns as a view of the same text has them. */
int tsx_query_declare(const tsx_query *query, char **declaration, tsr_error *error);

/* Returns true if the name of a type has this word, in any case. */
bool tsx_type_has(const char *type, const char *word);

/* Returns the type that the column of an item is declared with. A CAST has the affinity of its type; other expressions
 * have none. */
const char *tsx_query_declared(const tsx_query *query, const tsx_expr *tree);

/* Evaluates a constant. The caller frees the value by sqlite3_value_free. */
int tsx_query_constant(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* As tsx_query_constant, but a number becomes its text, as in a list of IN beside a column of TEXT. */
int tsx_query_text(const tsx_query *query, const tsx_expr *tree, sqlite3_value **value, tsr_error *error);

/* Copies a value of SQLite's; text lives as long as the query. A BLOB is TSR_MISMATCH. */
int tsx_query_copy(tsx_query *query, sqlite3_value *value, tsr_value *copy, tsr_error *error);

/* Returns an array's table of this connection by its name, or NULL. */
tsx_table *tsx_table_connected(const tsx_connection *connection, const char *schema, const char *name);

/* Returns 0 if a column of a result is no column, but a NULL that SQLite has put in its place for an authorizer: it has no
 * type then, and is named by the words of the text. Else 1. */
int tsx_column_visible(sqlite3_stmt *statement, int i, const char *name, tsr_error *error);

/* The axes of a tessera_query: what depends on one dimension or one enumerated attribute. SQLite
 * evaluates it once for each value that the column can have. */

#define TSX_COORDINATES_MAX 1048576u

/* Returns true if SQLite can evaluate expressions of this column once for each value. */
bool tsx_axis_possible(const tsx_column *column);

/* Finds the ends of all axes in a snapshot, narrowed by comparisons of WHERE with constants. Returns 1; 0 if no cell can
 * satisfy WHERE. */
int tsx_axes_find(tsx_query *query, tsx_snapshot *snapshot, tsr_error *error);

/* Makes axes without values, as if no cell satisfied WHERE. */
int tsx_axes_none(tsx_query *query, tsr_error *error);

/* Returns the number of the axis of a tree that depends on one column, if the axis is usable; else -1. Labels may be null,
 * coordinates are not: tsx_axis_of_dimension returns -1 for labels. It does so for listed axes, too, whose expressions are
 * tables of values for the engine. The column alone needs no list. */
int tsx_axis_of(const tsx_query *query, const tsx_expr *tree);
int tsx_axis_of_dimension(const tsx_query *query, const tsx_expr *tree);

/* Adds an expression to those that are evaluated for each value. Returns its number among the axis's trees, or < 0. */
int tsx_axis_request(tsx_query *query, uint32_t axis, const tsx_expr *tree, bool test, tsr_error *error);

/* Finds the least and the greatest value of an expression over an axis (1 and 0: it is always null). *known is false if
 * some value is no integer, or if the values are not known before the joins are. */
int tsx_axis_ends(tsx_query *query, uint32_t number, const tsx_expr *tree, bool *known, int64_t ends[2],
                  tsr_error *error);

/* Evaluates an expression for a null of the axis's column. */
int tsx_axis_null(tsx_query *query, uint32_t axis, const tsx_expr *tree, tsr_value *value, tsr_error *error);

/* Evaluates the expressions of all axes. */
int tsx_axes_evaluate(tsx_query *query, tsr_error *error);

/* Makes the ranges of a dimension from what is kept of its axis and from comparisons with constants. */
int tsx_axes_ranges(tsx_query *query, tsr_ranges *dimensions, tsr_error *error);

/* The tables that a tessera_query joins: what each of them is, and its columns. */

typedef enum tsx_table_kind { TSX_TABLE_SQLITE, TSX_TABLE_ARRAY, TSX_TABLE_QUERY, TSX_TABLE_OTHER } tsx_table_kind;

/* Finds what a table is that is no view, by the text that made it; OTHER: a virtual table of another module, or none. */
int tsx_table_kind_find(const tsx_query *query, const char *schema, const char *table, tsx_table_kind *kind,
                        tsr_error *error);

/* Finds what a joined table is, which is in the database join->schema, and its columns. */
int tsx_join_look(tsx_query *query, tsx_join *join, tsr_error *error);

/* Joined arrays that the engine reads, without rows of SQLite's. */

/* Tables that a tessera_query joins by several dimensions. Their rows are read once, into lists. */

/* Returns the list of the rows' numbers, into which the sum of the join's numbers points, or that of a column, into which
 * a row's number points. The lists are empty at first. NULL: no memory. */
const tsr_value_list *tsx_joined_places(tsx_query *query, uint32_t join);
const tsr_value_list *tsx_joined_column(tsx_query *query, uint32_t join, uint32_t column);

/* Reads the rows of the joins with bindings. */
int tsx_joined_read(tsx_query *query, tsr_error *error);

/* Gives the values of a bound column, for SQLite: each has the number of its row, from 1 on, and is in the slot. */
tsx_rows *tsx_joined_values(const tsx_query *query, uint32_t join, uint32_t binding, int *slot);

/* Makes places of the numbers that the axes have found, and the lists. */
int tsx_joined_finish(tsx_query *query, tsr_error *error);

/* After that: returns true if the join has a row for each coordinate that is read. */
bool tsx_joined_complete(const tsx_query *query, uint32_t join);

void tsx_joined_release(tsx_query *query);

/* Expressions of several columns as nodes that the engine evaluates over cells. */

typedef struct tsx_lowered { /* an expression for the engine */
  tsr_expression expression;
  const tsx_expr **trees; /* [expression.count]: what each node stands for */
} tsx_lowered;

/* Makes an expression for the engine. `trees` are ANDed if there are several. */
int tsx_lower(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsx_lowered *lowered, tsr_error *error);

/* Adds to an expression that is a condition, or empty: the code of the axis of labels is one that the axis keeps. */
int tsx_lower_kept(tsx_query *query, const tsx_expr *tree, uint32_t axis, tsx_lowered *lowered, tsr_error *error);

/* Adds, in the same way: the datetime column lies in the ranges. */
int tsx_lower_ranges(tsx_query *query, const tsx_expr *column, const tsr_ranges *ranges, tsx_lowered *lowered,
                     tsr_error *error);

/* Adds, in the same way: the column is null. */
int tsx_lower_null(tsx_query *query, const tsx_expr *column, tsx_lowered *lowered, tsr_error *error);

/* Makes an expression that is the value of the column alone: its code, if it is enumerated. */
int tsx_lower_field(tsx_query *query, const tsx_expr *tree, int column, tsx_lowered *lowered, tsr_error *error);

/* Fails if SQLite has another order of texts than the engine: that of UTF-16. */
int tsx_query_orders_texts(const tsx_query *query, const tsx_expr *tree, tsr_error *error);

/* Checks the types. Call it when the axes have been evaluated. Sets *type to that of the value. */
int tsx_lowered_check(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error);

/* Says in words why the engine cannot evaluate a part of a query, from the types of its operands. */

/* What a tsx_query asks of the engine, and which of the engine's results each part of its text is. */

typedef struct tsx_key_part { /* a key of GROUP BY */
  int axis; /* < 0: the engine evaluates the key */
  uint32_t tree; /* of the axis */
  uint32_t *numbers; /* [the axis's count] */
  uint64_t *places; /* [number_count]: a coordinate with the number */
  uint32_t number_count;
  bool mixed; /* values of the axis are INTEGER and equal REAL ones */
  tsx_lowered lowered, coordinate; /* coordinate: the axis's column alone */
  /* >= 0: the number of an aggregate. A NUMBER's groups are made of its values as REAL, and the aggregate is the least of
   * them, an INTEGER or a REAL. For a mixed key it is the least coordinate of the group, whose value the group shows. */
  int64_t least;
} tsx_key_part;

typedef struct tsx_aggregate_part {
  const tsx_expr *tree; /* a NAME: the column in the row of select.extreme, which is number 0 */
  tsx_lowered argument, filter;
  tsr_value_type argument_type, filter_type;
  double percent;
} tsx_aggregate_part;

typedef struct tsx_column_part { /* a column over cells */
  const tsx_expr *tree;
  int axis; /* >= 0: the engine gives the coordinate, the axis the value */
  uint32_t axis_tree;
  tsx_lowered lowered;
  tsr_value_type type;
} tsx_column_part;

typedef struct tsx_asked {
  tsx_query *query;
  bool nothing; /* no cell satisfies the WHERE */
  const tsx_expr **conditions; /* of cells */
  uint32_t condition_count;
  tsx_lowered where;
  tsx_key_part *keys; /* [select.group_count] */
  tsx_aggregate_part *aggregates;
  uint32_t aggregate_count;
  tsx_column_part *columns;
  uint32_t column_count;
  tsr_query request;
} tsx_asked;

/* Finds what the engine and SQLite evaluate, without reading a cell. tsx_axes_find came before. */
int tsx_asked_plan(tsx_asked *asked, tsr_error *error);

/* Leaves out the conditions of joins that have a row for each coordinate, after the axes have been evaluated. */
int tsx_asked_joins(tsx_asked *asked, tsr_error *error);

/* Makes asked->request, after all that. */
int tsx_asked_finish(tsx_asked *asked, tsr_error *error);

/* Returns the number of the aggregate, or of the column of the extreme's row, that a tree is; or aggregate_count. */
uint32_t tsx_asked_aggregate(const tsx_asked *asked, const tsx_expr *tree);

/* SQLite's order of values. */

/* Compares two values that are null, INTEGER, REAL or TEXT. Returns < 0, 0, > 0. */
int tsx_values_compare(const tsr_value *a, const tsr_value *b);

typedef struct tsx_constant { /* what values are compared with; made by tsx_constant_make */
  tsr_value value;
  bool is_number; /* a text that SQLite may take for a number */
  double number; /* about that number */
} tsx_constant;

typedef struct tsx_value_list { /* of IN: values that are not null */
  tsr_value *values;
  uint64_t count;
  bool texts, numbers; /* set by tsx_value_list_sort: which classes of values are among them */
} tsx_value_list;

/* Comparisons of a column with constants, as ranges of the column's values. Those of a dimension decide which
 * tiles are read.
 *
 * A table compares a datetime with ISO text of any precision by instants, where SQLite leaves the comparison to the
 * table: in the terms of WHERE that AND joins (docs/reference/types.md). Elsewhere SQLite compares the texts. A query
 * does the same, so it gives the rows of the view. */

/* Makes the ranges of the values that can satisfy `column op value`; of several values, any of them. `how` is a flag of
 * tsx_ranges_make beside those of the connection: 0 or TSX_PLAINLY. The ranges are in the query's arena, and need the
 * values no longer. */
int tsx_bound_ranges(tsx_query *query, const tsx_column *column, tsx_op op, sqlite3_value *const *values,
                     uint32_t count, unsigned how, tsr_ranges *set, tsr_error *error);

/* Finds the comparisons with constants that AND joins in a WHERE, and adds their ranges if query->shown is set. */
int tsx_bounds_find(tsx_query *query, const tsx_expr *where, tsr_error *error);

/* Returns true if a term of WHERE compares a datetime by instants. The bounds of a dimension and of a label decide such a
 * term; for an attribute the engine does. */
bool tsx_bounds_decide(const tsx_query *query, const tsx_expr *term);

/* Returns the operator of values that an operator of the text is, or TSX_NOTNULL if it compares nothing; and the operator
 * for exchanged sides. */
tsx_op tsx_bound_op(tsr_operation operation);
tsr_operation tsx_bound_flipped(tsr_operation operation);

/* Constraints of the statement around a tessera_query, `SELECT ... FROM q WHERE month = '06'`. They leave out
 * coordinates before any cell is read. SQLite tests them again, with its own affinities. So a constraint may keep too
 * much here, and must not leave out a row that SQLite would keep.
 *
 * A datetime of cells is the exception. In a view SQLite hands the constraint to the table, which compares instants
 * (query_internal.h). So the query decides such a constraint, and SQLite does not test it. */

typedef struct tsx_outer {
  uint32_t item; /* of the SELECT */
  int op; /* SQLITE_INDEX_CONSTRAINT_EQ and the like */
  bool in; /* the constraint is `item IN (...)`, and `value` its list, for sqlite3_vtab_in_first; `op` is that of = */
  bool decides; /* tsx_outer_decides was true: SQLite does not test the constraint */
  sqlite3_value *value; /* borrowed */
  int request; /* set by tsx_outer_request: the number of the axis's values, or < 0 */
} tsx_outer;

/* Returns true if constraints may leave out rows. They do so only if the items tell the rows apart (tsx_run_rowid). */
bool tsx_outer_possible(const tsx_query *query);

/* Returns true if constraints on the item can be tested before any cell is read. */
bool tsx_outer_takes(const tsx_query *query, uint32_t item);

/* Returns true if the query decides a constraint, so that SQLite must not test it. `right` is the value that the item is
 * compared with, or NULL if it is not known yet. */
bool tsx_outer_decides(const tsx_query *query, uint32_t item, int op, bool in, sqlite3_value *right);

/* Adds the constraints on dimensions to the query's bounds. Call it before tsx_axes_find, which narrows the axes by them. */
int tsx_outer_bounds(tsx_query *query, const tsx_outer *outer, uint32_t count, tsr_error *error);

/* Requests the values that the other constraints compare. tsx_axes_find came before. */
int tsx_outer_request(tsx_query *query, tsx_outer *outer, uint32_t count, tsr_error *error);

/* Leaves out coordinates, or adds conditions of cells to `asked`, after the axes have been evaluated. */
int tsx_outer_apply(tsx_asked *asked, const tsx_outer *outer, uint32_t count, tsr_error *error);

/* Rowids of the rows of a query. SQLite asks for them in RIGHT JOIN and FULL JOIN, to remember which rows it has
 * matched. So a row must have one rowid in all scans of a statement, whatever constraints the scans have, and share it with
 * no other row. */

#define TSX_ROWID_BEGIN UINT64_C(0xcbf29ce484222325)

typedef struct tsx_occurrences { /* how often each hash has come in a scan; `= {0}` at first */
  struct tsx_occurrence *entries;
  uint64_t room, count;
} tsx_occurrences;

/* Runs a tsx_query over the state of its array that the statement sees, and gives its rows. */

typedef struct tsx_run tsx_run;

/* Fails if the query has parts that neither SQLite nor the engine can evaluate, as far as that shows without reading the
 * array. The query is used up. */
int tsx_run_check(tsx_query *query, tsr_error *error);

/* Starts a run. The query is borrowed, and may be run once. The caller closes the run, also after a failure; *run may be
 * NULL then. */
int tsx_run_open(tsx_query *query, tsx_outer *outer, uint32_t outer_count, tsx_run **run, tsr_error *error);
int tsx_run_next(tsx_run *run, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
int tsx_run_column(tsx_run *run, sqlite3_context *context, uint32_t item, tsr_error *error);

/* Gives an item of the row as SQL has it: NULL, INTEGER, REAL or TEXT; an UNSIGNED past INT64_MAX; OPAQUE for a BLOB. Text
 * is borrowed until the next call. */
int tsx_run_value(tsx_run *run, uint32_t item, tsr_value *value, tsr_error *error);

/* Gives the rowid of the row (query_internal.h). Of a query without constraints (tsx_outer_possible) it is the row's place. */
int tsx_run_rowid(tsx_run *run, int64_t *rowid, tsr_error *error);
void tsx_run_close(tsx_run *run);

/* All rows of a query in memory, which a cursor looks up when SQLite asks it again and again, for each row
 * of an outer loop. SQLite makes no automatic index on a virtual table. */

typedef struct tsx_kept_rows tsx_kept_rows;

/* Takes all rows of a run, and makes an index of the items that `indexed` lists. Returns 1; or 0 if the rows need more
 * than `limit` bytes or hold values that cannot be kept, as BLOBs. The caller frees *rows in all cases. */
int tsx_kept_rows_make(tsx_run *run, uint32_t item_count, const uint32_t *indexed, uint32_t indexed_count,
                       uint64_t limit, tsx_kept_rows **rows, tsr_error *error);
void tsx_kept_rows_free(tsx_kept_rows *rows);

/* Starts a walk over the rows whose indexed items may be equal to `values`, of which there are as many; NULL: over all
 * rows. Rows that are not equal may be among them. */
void tsx_kept_rows_find(tsx_kept_rows *rows, sqlite3_value *const *values);

/* Moves to the next row; returns false at the end. */
bool tsx_kept_rows_next(tsx_kept_rows *rows);
void tsx_kept_rows_column(const tsx_kept_rows *rows, sqlite3_context *context, uint32_t item);
int64_t tsx_kept_rows_rowid(const tsx_kept_rows *rows);

#endif
