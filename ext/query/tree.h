/* tree.h: the text of a tessera_query as trees of expressions. parse.c makes them, names.c says what their names mean
 * and what each part depends on, lower.c and groups.c evaluate them.
 *
 * Every node knows the words of the source that it stands for, so that SQLite can be given these very words, and so that
 * messages can show them. All memory belongs to one tsx_arena. */
#ifndef TSX_QUERY_TREE_H
#define TSX_QUERY_TREE_H

#include <limits.h>

#include "connection/sqlite_api.h"
#include "tessera.h"

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

#endif
