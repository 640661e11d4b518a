/* front.h: plain SQL that runs over columns: tessera_sql, tessera_sql_within, tessera_select, tessera_explain.
 *
 *   arguments.c   the text and the values of a call: writes the values into the text as literals
 *   script.c      finds the SELECTs of a statement, from its tokens
 *   suit.c        which compiled SELECTs are worth taking, and surely give SQLite's rows
 *   windows.c     takes the window functions off a grouped SELECT
 *   rewrite.c     replaces these SELECTs by tables that evaluate them over columns
 *   hints.c       what a statement that SQLite cannot prepare may have meant
 *   sql.c         tessera_sql, tessera_sql_within: return the statement
 *   select.c      tessera_select: runs it
 *   explain.c     tessera_explain: says of each SELECT how it is evaluated
 *
 * and hide.c, which takes declarations of tables out of the schema. */
#ifndef TSX_FRONT_FRONT_H
#define TSX_FRONT_FRONT_H

#include "connection/connection.h"
#include "query/query_internal.h"
#include "sql/tokens.h"

/* ---- arguments.c: the text and the values of a call -------------------------------------------------------------- */

#define TSX_FRONT_VALUES 64 /* values after the text */

/* Writes values in the place of the parameters of a text, as literals: of `?`, `?2`, `:a`, `@a` and `$a`, with SQLite's
 * numbers. An item of a SELECT that has parameters, and no alias, gets its words as an alias, so that its column keeps
 * its name. Without values the parameters stay. *bound is in the arena. TSR_MISMATCH: the text is not TEXT, or has a
 * NUL; TSR_ERROR: another number of parameters than of values. */
int tsx_front_bind(sqlite3_value *text, int count, sqlite3_value *const *values, tsx_arena *arena, char **bound,
                   tsr_error *error);

/* Tables with the hidden columns `statement` and v1 to v64, the arguments of a call. */

typedef struct tsx_front_table {
  sqlite3_vtab base;
  tsx_connection *connection;
} tsx_front_table;

/* xConnect: makes such a table. `visible`: the declarations of the columns before these; `results`: the number of
 * hidden columns c1, c2, ... behind them. */
int tsx_front_connect(sqlite3 *db, tsx_connection *connection, const char *visible, int results, sqlite3_vtab **vtab);
int tsx_front_disconnect(sqlite3_vtab *vtab); /* xDisconnect */

/* xBestIndex. `first` is the column `statement`. idxNum is how many of these columns xFilter gets. */
int tsx_front_best_index(sqlite3_index_info *info, int first);

/* ---- script.c: the SELECTs of a statement ------------------------------------------------------------------------ */

#define TSX_SCRIPT_NONE UINT32_MAX

typedef enum tsx_script_place {
  TSX_PLACE_STATEMENT, /* the statement itself, or one of its arms */
  TSX_PLACE_FROM,
  TSX_PLACE_WITH,
  TSX_PLACE_LIST, /* of IN or EXISTS */
  TSX_PLACE_SCALAR /* SQLite takes the first row */
} tsx_script_place;

typedef struct tsx_script_token {
  tsx_token token;
  uint32_t match; /* of a parenthesis: the other one; else TSX_SCRIPT_NONE */
} tsx_script_token;

typedef struct tsx_script_select {
  uint32_t first, end; /* its tokens: [first, end) */
  uint32_t from, behind; /* the token FROM, and the one behind its sources; or `end` */
  uint32_t next; /* the first SELECT that is not inside this one */
  uint32_t parent; /* the SELECT around, or TSX_SCRIPT_NONE */
  tsx_script_place place;
  bool arm; /* of UNION and the like */
  uint32_t sources; /* tables and subqueries in FROM, or more */
} tsx_script_select;

typedef struct tsx_script { /* the arena of the caller owns the lists */
  const char *text;
  tsx_script_token *tokens; /* [token_count]; the statement's END, or its semicolon, follows */
  uint32_t token_count;
  tsx_script_select *selects; /* [select_count], each before those inside it */
  uint32_t select_count;
  uint32_t *with; /* [with_count]: tokens that name CTEs */
  uint32_t *bodies; /* [with_count]: the parenthesis of the CTE's SELECT, if every SELECT behind it sees the CTE; else
                       TSX_SCRIPT_NONE */
  uint32_t *lists; /* [with_count]: the parenthesis of its list of columns, or TSX_SCRIPT_NONE */
  uint32_t with_count;
  uint32_t target, target_schema; /* of INSERT INTO: the tokens of the table and its schema, or TSX_SCRIPT_NONE */
  const char *writes; /* "INSERT" or "CREATE", or NULL */
} tsx_script;

/* Finds the SELECTs of one statement: a SELECT, WITH or VALUES, also behind EXPLAIN, CREATE TABLE AS or INSERT INTO. A
 * text that SQLite cannot split into tokens, or whose parentheses do not match, has none. TSR_ERROR: another statement,
 * or more than one. `text` is borrowed. */
int tsx_script_read(const char *text, tsx_arena *arena, tsx_script *script, tsr_error *error);

/* Returns true if tokens that begin at i are a SELECT, VALUES or WITH. */
bool tsx_script_begins(const tsx_script *script, uint32_t i);

/* Returns true if a CTE of the statement has this name. */
bool tsx_script_has_with(const tsx_script *script, const char *name);

/* Returns true if the token is a name, in quotes or not, that equals `name`. */
bool tsx_script_names(const tsx_script *script, uint32_t token, const char *name);

/* Returns true if the tokens [first, end) of an item of a SELECT end with an alias. */
bool tsx_script_has_alias(const tsx_script *script, uint32_t first, uint32_t end);

/* Returns true if a parameter is among the tokens [first, end). */
bool tsx_script_has_parameters(const tsx_script *script, uint32_t first, uint32_t end);

typedef struct tsx_script_item { /* an item of a SELECT: its tokens [first, end), without DISTINCT */
  uint32_t first, end;
  uint32_t stop; /* the token behind the last item */
} tsx_script_item;

/* Moves to the first item, if *item is {0}, or to the next one. */
bool tsx_script_item_next(const tsx_script *script, const tsx_script_select *select, tsx_script_item *item);

/* Returns the name that SQLite gives to the column of an item without an alias: its words, with the comments behind
 * them. The token `end` is the one behind the item. */
const char *tsx_script_words(const tsx_script *script, uint32_t first, uint32_t end, int *size);

static inline const char *tsx_script_begin(const tsx_script *script, uint32_t token) {
  return script->tokens[token].token.text;
}

/* Returns the end of the token before `token`, which is the end of what precedes it without blanks and comments. */
static inline const char *tsx_script_end(const tsx_script *script, uint32_t token) {
  const tsx_token *last = &script->tokens[token - 1].token;
  return last->text + last->size;
}

/* ---- suit.c: whether a SELECT is taken --------------------------------------------------------------------------- */

/* The functions that the program has registered on the connection, perhaps in place of SQLite's own of that name: ICU's
 * LIKE, an abs() of decimals. */
typedef struct tsx_own_functions {
  struct tsx_own_function *items; /* [count] */
  uint32_t count;
  bool listed;
} tsx_own_functions;

/* Lists them. */
int tsx_own_functions_list(tsx_connection *connection, tsx_arena *arena, tsx_own_functions *own, tsr_error *error);

/* Returns the name of one of them that the compiled SELECT calls where the engine would evaluate its own; NULL if there
 * is none. `own` NULL: of any function that the engine would evaluate. */
const char *tsx_front_calls_own(const tsx_query *query, const tsx_own_functions *own);

/* Returns NULL if the compiled SELECT surely has the values that SQLite gives; else the reason. */
const char *tsx_front_inexact(const tsx_query *query);

/* Returns NULL if the compiled SELECT surely gives the rows that SQLite gives, and faster; else the reason. */
const char *tsx_front_unsuited(const tsx_query *query, tsx_script_place place);

/* ---- windows.c: window functions around groups ------------------------------------------------------------------- */

typedef struct tsx_windows_column { /* an item of the SELECT, or a column of the grouped one; in tokens */
  uint32_t first, stop, end; /* its expression is [first, stop), with the alias [first, end); stop 0: count(*) */
  bool windows; /* an item: it has window functions */
  bool own; /* it is no item, and gets an alias of its own */
} tsx_windows_column;

typedef struct tsx_windows_piece { /* words for which a column of the grouped SELECT stands */
  const char *begin, *end;
  uint32_t column;
} tsx_windows_piece;

typedef struct tsx_windows { /* the arena of the caller owns the lists */
  /* of the grouped SELECT: SELECT and its columns; the words from FROM to the token `behind` follow */
  const char *head;
  const char *order; /* and this; or "" */
  uint32_t behind;
  tsx_windows_column *items, *columns; /* [item_count], [column_count]; column i is item i, if it has no windows */
  uint32_t item_count, column_count;
  tsx_windows_piece *pieces; /* [piece_count], in order of the text */
  uint32_t piece_count;
} tsx_windows;

/* Splits a SELECT with window functions into a SELECT without them and the words around it. Returns 1; 0 if it has
 * none, or words that this cannot split. */
int tsx_windows_split(const tsx_script *script, const tsx_script_select *select, tsx_arena *arena, tsx_windows *windows,
                      tsr_error *error);

/* Returns the SELECT around the table that evaluates the grouped one, from sqlite3_malloc. `columns`: how each of its
 * columns is spelled; `names`: those of the result's columns. */
char *tsx_windows_around(const tsx_script *script, const tsx_script_select *select, const tsx_windows *windows,
                         char *const *columns, char *const *names, const char *table);

/* ---- hints.c: what a text may have meant ------------------------------------------------------------------------- */

/* Adds to SQLite's error about a text what to write instead, if the text seems to have a path in FROM without quotes,
 * or words of another dialect. */
void tsx_front_hint(tsx_connection *connection, const char *text, tsr_error *error);

/* ---- rewrite.c: statements whose parts run over columns ---------------------------------------------------------- */

typedef enum tsx_front_how { TSX_HOW_ROWS, TSX_HOW_COLUMNS, TSX_HOW_ONCE } tsx_front_how;

typedef struct tsx_front_part { /* one SELECT of the text */
  const char *begin, *end;
  tsx_front_how how;
  const char *detail; /* the plan, or why it is evaluated by rows */
} tsx_front_part;

typedef struct tsx_rewritten { /* `= {0}` may be released */
  tsx_arena arena;
  char *text; /* the statement, with the values */
  char *sql; /* the statement to run */
  tsx_script script;
  tsx_front_part *parts; /* [script.select_count] */
} tsx_rewritten;

typedef struct tsx_front_options {
  bool explains; /* the reasons in `parts` count the characters of the whole text */
  uint64_t memory_bytes; /* that a part may use; 0: those of its array's table */
  unsigned threads; /* of a part; 0: those of its array's table */
} tsx_front_options;

/* Rewrites a statement. The caller releases *out, also after a failure. Errors of the text are SQLite's. */
int tsx_rewrite(tsx_connection *connection, const tsx_front_options *options, sqlite3_value *text, int count,
                sqlite3_value *const *values, tsx_rewritten *out, tsr_error *error);
void tsx_rewritten_release(tsx_rewritten *rewritten);

/* ---- sql.c, select.c, explain.c ---------------------------------------------------------------------------------- */

int tsx_register_front(tsx_connection *connection); /* returns SQLite's code */
int tsx_register_select(tsx_connection *connection);
int tsx_register_explain(tsx_connection *connection);

/* ---- hide.c: tables of main whose declarations are taken out of the schema --------------------------------------- */

/* So that programs without the extension can open the file. */

void tsx_hide(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_hide(table) */
void tsx_show(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_show(table) */
void tsx_attach_kept(sqlite3_context *context, int count, sqlite3_value **values); /* tessera_attach() */

#endif
