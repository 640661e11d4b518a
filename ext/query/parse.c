/* parse.c: parses the text of a tessera_query into expression trees.
 *
 * A recursive descent parser with SQLite's operator precedence. It accepts only a subset of SQLite's grammar, and
 * SQLite then prepares every text that passes (compile.c). What it recognizes but the engine lacks, such as subqueries
 * with GROUP BY or tables in brackets, it refuses with advice; an unexpected token sets tsx_parse_doubt, so that SQLite
 * may supply a better message. Recursion and the length of operator chains are limited by PARSE_DEPTH_MAX, as later
 * passes walk the trees recursively.
 *
 * Sections: comparing and quoting trees, then the parser from the bottom up: tokens, nodes, primary
 * expressions, operators, the clauses of the SELECT. */
#include <string.h>
#include <ctype.h>

#include "query/query_internal.h"
#include "connection/errors.h"
#include "sql/tokens.h"

/* ---- Comparing and quoting trees --------------------------------------------------------------------------------- */

#define WORDS_SHOWN 100 /* bytes of source text in a message */

uint64_t tsx_characters(const char *begin, const char *end) {
  uint64_t characters = 0;
  for (const char *p = begin; p < end; p++) characters += ((unsigned char)*p & 0xc0) != 0x80;
  return characters;
}

int tsx_expr_fail(const tsx_select *select, const char *begin, const char *end, const char *what, const char *advice,
                  tsr_error *error) {
  if (begin < select->text || begin > select->text + strlen(select->text)) /* words of the parser's own (USING) */
    return tsx_fail(error, TSR_ERROR, "%s'%.*s'%s%s", what, (int)(end - begin), begin, *advice ? ": " : "", advice);
  int size = (int)(end - begin);
  const bool cut = end - begin > WORDS_SHOWN;
  if (cut) {
    size = WORDS_SHOWN;
    while (size > 1 && ((unsigned char)begin[size] & 0xc0) == 0x80) size--;
  }
  tsx_fail(error, TSR_ERROR, "%s'%.*s%s' (character %llu)%s%s", what, size, begin, cut ? "..." : "",
           (unsigned long long)tsx_characters(select->text, begin) + 1, *advice ? ": " : "", advice);
  if (error) error->subject = TSX_SUBJECT_WORDS;
  return TSR_ERROR;
}

int tsx_not_evaluated(const tsx_select *select, const char *begin, const char *end, const char *why, tsr_error *error) {
  return tsx_expr_fail(select, begin, end, TSX_NOT_EVALUATED, why, error);
}

const tsx_expr *tsx_expr_likely(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_FUNCTION && (!strcmp(tree->name, "likely") || !strcmp(tree->name, "unlikely")))
    tree = tree->operands[0];
  return tree;
}

static bool same_name(const char *a, const char *b) { return a && b ? !sqlite3_stricmp(a, b) : a == b; }

/* Literals are equal if they are spelled alike. */
static bool same_words(const tsx_expr *a, const tsx_expr *b) {
  return a->end - a->begin == b->end - b->begin && !memcmp(a->begin, b->begin, (size_t)(a->end - a->begin));
}

static bool same_or_none(const tsx_expr *a, const tsx_expr *b) { return a && b ? tsx_expr_equal(a, b) : a == b; }

/* Windows are equal if they are the same definition, or spelled alike. */
static bool same_over(const tsx_over *a, const tsx_over *b) {
  return a == b || (a->end - a->begin == b->end - b->begin && !memcmp(a->begin, b->begin, (size_t)(a->end - a->begin)));
}

bool tsx_expr_equal(const tsx_expr *a, const tsx_expr *b) {
  while (a->kind == TSX_EXPR_NAME && a->alias) a = a->alias;
  while (b->kind == TSX_EXPR_NAME && b->alias) b = b->alias;
  if (a->kind != b->kind || a->count != b->count || a->operation != b->operation || a->negated != b->negated ||
      a->call.distinct != b->call.distinct || a->call.star != b->call.star || a->call.function != b->call.function)
    return false;
  if (a->kind == TSX_EXPR_LITERAL || a->kind == TSX_EXPR_SUBQUERY) return same_words(a, b);
  if (a->kind == TSX_EXPR_NAME || a->kind == TSX_EXPR_LABEL) return a->column == b->column;
  if (a->kind == TSX_EXPR_JOINED) return a->column == b->column && a->join == b->join;
  if (a->kind == TSX_EXPR_WINDOW && !same_over(a->over, b->over)) return false;
  if (!same_name(a->name, b->name) || !same_or_none(a->base, b->base) ||
      !same_or_none(a->call.filter, b->call.filter) || !same_or_none(a->call.weight, b->call.weight) ||
      !same_or_none(a->call.chosen, b->call.chosen))
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (!tsx_expr_equal(a->operands[i], b->operands[i])) return false;
  return true;
}

/* ---- The parser -------------------------------------------------------------------------------------------------- */

#define PARSE_DEPTH_MAX 100

typedef struct query_parser {
  tsx_select *select;
  tsx_tokens tokens;
  tsx_token token; /* the current token; an operator of two characters is one token */
  const char *last_end; /* the end of the previous token */
  uint32_t depth;
  bool subqueries; /* scalar subqueries may stand here */
  uint32_t level; /* how deep in FROM: 0 is the SELECT itself */
  tsx_parse_doubt doubt;
  tsr_error *error;
} query_parser;

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

/* Takes over the token that the tokenizer stands at; an operator of two characters becomes one token. */
static void merge_marks(query_parser *p) {
  static const char *const pairs[] = {"<=", ">=", "<>", "!=", "==", "<<", ">>", "||", "->", NULL};
  p->token = p->tokens.token;
  if (p->token.kind != TSX_TOKEN_MARK) return;
  for (const char *const *pair = pairs; *pair; pair++)
    if (p->token.text[0] == (*pair)[0] && p->token.text[1] == (*pair)[1]) {
      tsx_tokens_next(&p->tokens);
      p->token.size = 2;
      return;
    }
}

static void advance(query_parser *p) {
  p->last_end = p->token.text + p->token.size;
  tsx_tokens_next(&p->tokens);
  merge_marks(p);
}

static bool at(const query_parser *p, const char *word) { return tsx_token_is(&p->token, word); }

static bool take(query_parser *p, const char *word) {
  if (!at(p, word)) return false;
  advance(p);
  return true;
}

/* Returns true if the token after the current one is this word. */
static bool follows(const query_parser *p, const char *word) {
  tsx_tokens ahead = p->tokens;
  tsx_tokens_next(&ahead);
  return tsx_token_is(&ahead.token, word);
}

/* Sets the error for the current token, unless one is set. Returns its code. */
static int syntax_error(query_parser *p) {
  if (p->error->code) return p->error->code;
  p->doubt = (tsx_parse_doubt){.any = true, .begin = p->token.text, .end = p->token.text + p->token.size};
  p->doubt.word = p->token.kind == TSX_TOKEN_WORD;
  if (p->token.kind == TSX_TOKEN_END) return tsx_fail(p->error, TSR_ERROR, "incomplete input");
  return tsx_fail(p->error, TSR_ERROR, "near \"%.*s\": syntax error", (int)p->token.size, p->token.text);
}

/* The same, where a tree is expected. */
static tsx_expr *fail_syntax(query_parser *p) {
  syntax_error(p);
  return NULL;
}

/* Sets the error: SQL allows this, but the engine does not evaluate it. Returns NULL. */
static tsx_expr *refuse(query_parser *p, const char *begin, const char *end, const char *why) {
  if (!p->error->code) tsx_not_evaluated(p->select, begin, end, why, p->error);
  return NULL;
}

static int expect(query_parser *p, const char *word) { return take(p, word) ? TSR_OK : syntax_error(p); }

bool tsx_token_reserved(const tsx_token *token) {
  static const char *const words[] = {
      "SELECT",  "FROM",   "WHERE",     "GROUP",   "HAVING", "ORDER",   "LIMIT",   "AND",      "OR",
      "THEN",    "ELSE",   "WHEN",      "END",     "AS",     "BY",      "IN",      "IS",       "ON",
      "LIKE",    "GLOB",   "ASC",       "UNION",   "EXCEPT", "JOIN",    "USING",   "SET",      "DESC",
      "EXISTS",  "VALUES", "WITH",      "BETWEEN", "WINDOW", "OVER",    "CROSS",   "LEFT",     "INNER",
      "NATURAL", "OFFSET", "INTERSECT", "COLLATE", "ISNULL", "NOTNULL", "NOT",     "DISTINCT", "RAISE",
      "MATCH",   "REGEXP", "ESCAPE",    "RIGHT",   "FULL",   "OUTER",   "INDEXED", NULL};
  if (token->kind != TSX_TOKEN_WORD) return false;
  for (const char *const *word = words; *word; word++)
    if (tsx_token_is(token, *word)) return true;
  return false;
}

/* Returns true if the current token may be a name: quoted, or a word that SQL does not reserve. */
static bool at_name(const query_parser *p) {
  const tsx_token_kind kind = p->token.kind;
  return kind == TSX_TOKEN_NAME || kind == TSX_TOKEN_STRING ||
         (kind == TSX_TOKEN_WORD && !tsx_token_reserved(&p->token));
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static tsx_expr *make_node(query_parser *p, tsx_expr_kind kind, const char *begin) {
  tsx_expr *tree = tsx_arena_take(&p->select->arena, sizeof *tree);
  if (!tree) {
    tsx_out_of_memory(p->error);
    return NULL;
  }
  tree->kind = kind;
  tree->operation = TSR_OP_COUNT;
  tree->begin = begin;
  tree->end = p->last_end;
  tree->field = TSX_FIELD_NONE;
  tree->column = -1;
  return tree;
}

/* Makes room for one more element of an array, whose room is always the next power of two. */
static bool grow(query_parser *p, void **array, uint32_t count, uint64_t size) {
  if (count & (count - 1)) return true;
  void *more = tsx_arena_take(&p->select->arena, (count ? 2 * count : 1) * size);
  if (!more) return tsx_out_of_memory(p->error) == TSR_OK;
  if (count) memcpy(more, *array, count * size);
  *array = more;
  return true;
}

static bool add_operand(query_parser *p, tsx_expr *tree, tsx_expr *operand) {
  if (!operand || !grow(p, (void **)&tree->operands, tree->count, sizeof *tree->operands)) return false;
  tree->operands[tree->count++] = operand;
  tree->end = p->last_end;
  return true;
}

static char *copy_name(query_parser *p) {
  char *name = tsx_arena_take(&p->select->arena, p->token.size + 1);
  if (!name) tsx_out_of_memory(p->error);
  else tsx_token_copy(&p->token, name);
  return name;
}

/* Returns true if `more` further levels may nest here. */
static bool check_depth(query_parser *p, uint32_t more) {
  if (p->depth + more <= PARSE_DEPTH_MAX) return true;
  if (!p->error->code) tsx_fail(p->error, TSR_ERROR, "expressions are nested deeper than %d", PARSE_DEPTH_MAX);
  return false;
}

static tsx_expr *parse_expression(query_parser *p);
static tsx_expr *parse_not(query_parser *p);

/* Returns true if an unquoted word is a constant. */
static bool is_constant_word(const char *word) {
  static const char *const literals[] = {"true", "false", "null", "current_date", "current_time", "current_timestamp"};
  for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
    if (!sqlite3_stricmp(word, literals[i])) return true;
  return false;
}

/* ---- Primary expressions ----------------------------------------------------------------------------------------- */

static tsx_expr *parse_list(query_parser *p, tsx_expr *tree) {
  do
    if (!add_operand(p, tree, parse_expression(p))) return NULL;
  while (take(p, ","));
  if (expect(p, ")") < 0) return NULL;
  tree->end = p->last_end;
  return tree;
}

static tsx_expr *parse_case(query_parser *p, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_CASE, begin);
  advance(p);
  if (!tree) return NULL;
  if (!at(p, "WHEN") && !(tree->base = parse_expression(p))) return NULL;
  if (!at(p, "WHEN")) return fail_syntax(p);
  while (take(p, "WHEN"))
    if (!add_operand(p, tree, parse_expression(p)) || expect(p, "THEN") < 0 ||
        !add_operand(p, tree, parse_expression(p)))
      return NULL;
  if (take(p, "ELSE") && !add_operand(p, tree, parse_expression(p))) return NULL;
  if (expect(p, "END") < 0) return NULL;
  tree->end = p->last_end;
  return tree;
}

/* Parses an optionally signed number in the parentheses of a type. */
static bool parse_cast_number(query_parser *p) {
  if (!take(p, "-")) take(p, "+");
  if (p->token.kind != TSX_TOKEN_NUMBER) return false;
  advance(p);
  return true;
}

/* Parses a type name such as VARCHAR(10). Returns false if there is none. */
static bool parse_cast_type(query_parser *p) {
  uint32_t words = 0;
  for (; p->token.kind == TSX_TOKEN_WORD || p->token.kind == TSX_TOKEN_NAME || p->token.kind == TSX_TOKEN_STRING;
       words++)
    advance(p);
  if (!words || !take(p, "(")) return words > 0;
  return parse_cast_number(p) && (!take(p, ",") || parse_cast_number(p)) && take(p, ")");
}

static tsx_expr *parse_cast(query_parser *p, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_CAST, begin);
  advance(p);
  if (!tree || expect(p, "(") < 0 || !add_operand(p, tree, parse_expression(p)) || expect(p, "AS") < 0) return NULL;
  const char *type = p->token.text;
  if (!parse_cast_type(p)) return fail_syntax(p);
  if (!(tree->name = tsx_arena_copy(&p->select->arena, type, (uint64_t)(p->last_end - type)))) {
    tsx_out_of_memory(p->error);
    return NULL;
  }
  if (expect(p, ")") < 0) return NULL;
  tree->end = p->last_end;
  return tree;
}

/* Says why a call is refused. `known` is a function of its name, or NULL. The caller frees the text. */
static char *call_advice(const tsx_expr *tree, const tsx_function *known) {
  if (!strcmp(tree->name, "like") || !strcmp(tree->name, "glob"))
    return sqlite3_mprintf("write the operator: text %s pattern", tree->name[0] == 'l' ? "LIKE" : "GLOB");
  if (!known) return sqlite3_mprintf("%s() is not among the functions of tessera_query", tree->name);
  if (tree->call.star) return sqlite3_mprintf("* is for count alone");
  if (tree->call.distinct && !known->aggregate) return sqlite3_mprintf("DISTINCT is for aggregates alone");
  if (known->replaced)
    return sqlite3_mprintf(
        known->least == 1 ? "%s() takes one argument" : "%s() takes a value, and a constant from 0 to 100", tree->name);
  return sqlite3_mprintf("%s() takes another number of arguments", tree->name);
}

/* Finds the function of a call; refuses unknown ones. */
static bool find_function(query_parser *p, tsx_expr *tree) {
  tree->call.function = tree->call.star ? tsx_function_find("count", 0) : tsx_function_find(tree->name, tree->count);
  if (tree->call.star && sqlite3_stricmp(tree->name, "count") != 0) tree->call.function = NULL;
  if (tree->call.function) {
    tree->kind = tree->call.function->aggregate ? TSX_EXPR_AGGREGATE : TSX_EXPR_FUNCTION;
    if (tree->kind == TSX_EXPR_AGGREGATE || !tree->call.distinct) return true;
  }
  const tsx_function *known = tsx_function_known(tree->name);
  p->doubt.any = !known || !known->replaced; /* SQLite's message about the function or its arguments may be better */
  char *advice = call_advice(tree, known);
  tsx_not_evaluated(p->select, tree->begin, tree->end, advice ? advice : "", p->error);
  sqlite3_free(advice);
  return false;
}

/* Parses UNBOUNDED, CURRENT ROW or an expression, and PRECEDING or FOLLOWING. */
static bool parse_frame_end(query_parser *p, tsx_frame_end *end) {
  if (at(p, "CURRENT") && follows(p, "ROW")) {
    advance(p);
    advance(p);
    end->edge = TSX_EDGE_CURRENT;
    return true;
  }
  const bool unbounded = at(p, "UNBOUNDED") && (follows(p, "PRECEDING") || follows(p, "FOLLOWING"));
  if (unbounded) advance(p);
  end->edge = unbounded ? TSX_EDGE_UNBOUNDED : TSX_EDGE_OFFSET;
  if (!unbounded && !(end->offset = parse_expression(p))) return false;
  end->following = at(p, "FOLLOWING");
  return take(p, "FOLLOWING") || take(p, "PRECEDING") || fail_syntax(p);
}

/* Parses ROWS or RANGE and what follows; without it, the frame is SQL's default. */
static bool parse_frame(query_parser *p, tsx_over *over) {
  over->last.edge = TSX_EDGE_CURRENT;
  if (at(p, "GROUPS")) return refuse(p, p->token.text, p->token.text + p->token.size, "GROUPS") != NULL;
  over->rows = take(p, "ROWS");
  if (!over->rows && !take(p, "RANGE")) return true;
  if (take(p, "BETWEEN")) {
    if (!parse_frame_end(p, &over->start) || expect(p, "AND") < 0 || !parse_frame_end(p, &over->last)) return false;
  } else if (!parse_frame_end(p, &over->start)) {
    return false;
  }
  if (take(p, "EXCLUDE") && !(take(p, "NO") && take(p, "OTHERS")))
    return refuse(p, p->token.text, p->token.text + p->token.size, "EXCLUDE") != NULL;
  return true;
}

/* Parses (PARTITION BY ... ORDER BY ... frame). */
static tsx_over *parse_window_definition(query_parser *p) {
  tsx_over *over = tsx_arena_take(&p->select->arena, sizeof *over);
  if (!over) {
    tsx_out_of_memory(p->error);
    return NULL;
  }
  over->begin = p->token.text;
  if (expect(p, "(") < 0) return NULL;
  if (take(p, "PARTITION")) {
    if (expect(p, "BY") < 0) return NULL;
    do {
      if (!grow(p, (void **)&over->partition, over->partition_count, sizeof *over->partition) ||
          !(over->partition[over->partition_count++] = parse_expression(p)))
        return NULL;
    } while (take(p, ","));
  }
  if (take(p, "ORDER")) {
    if (expect(p, "BY") < 0 || !(over->order = parse_expression(p))) return NULL;
    over->descending = take(p, "DESC");
    if (!over->descending) take(p, "ASC");
    if (at(p, ",") || at(p, "NULLS")) {
      refuse(p, over->begin, p->token.text + p->token.size,
             "ORDER BY of a window is one dimension, or what rises with it");
      return NULL;
    }
  }
  const char *frame = p->token.text;
  if (!parse_frame(p, over)) return NULL;
  if (!at(p, ")") && p->last_end <= frame) {
    refuse(p, over->begin, p->token.text + p->token.size, "a window that builds on another");
    p->doubt.any = true;
    return NULL;
  }
  if (expect(p, ")") < 0) return NULL;
  over->end = p->last_end;
  return over;
}

/* Parses OVER, which makes a call a window function. */
static tsx_expr *parse_over(query_parser *p, tsx_expr *tree) {
  tsx_windowing *windows = &p->select->windows;
  advance(p);
  if (at(p, "(")) {
    tree->over = parse_window_definition(p);
  } else if (p->token.kind == TSX_TOKEN_WORD || p->token.kind == TSX_TOKEN_NAME) {
    tree->over = tsx_arena_take(&p->select->arena, sizeof *tree->over);
    if (tree->over && (tree->over->name = copy_name(p))) {
      tree->over->begin = p->token.text;
      advance(p);
      tree->over->end = p->last_end;
    } else {
      tsx_out_of_memory(p->error);
    }
  } else {
    return fail_syntax(p);
  }
  if (!tree->over || p->error->code) return NULL;
  tree->kind = TSX_EXPR_WINDOW;
  tree->end = p->last_end;
  if (windows->count++ == 0) windows->level = p->level;
  else if (windows->level != p->level) windows->other = tree;
  tree->column = -1;
  return tree;
}

/* After the arguments of a call: parses FILTER and OVER. */
static tsx_expr *parse_after_call(query_parser *p, tsx_expr *tree) {
  if (at(p, "FILTER") && follows(p, "(")) {
    const bool subqueries = p->subqueries;
    p->subqueries = false;
    advance(p);
    advance(p);
    if (expect(p, "WHERE") < 0 || !(tree->call.filter = parse_expression(p)) || expect(p, ")") < 0) return NULL;
    p->subqueries = subqueries;
    tree->end = p->last_end;
    if (tree->kind != TSX_EXPR_AGGREGATE) return fail_syntax(p);
  }
  return at(p, "OVER") ? parse_over(p, tree) : tree;
}

static tsx_expr *parse_call(query_parser *p, char *name, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_FUNCTION, begin);
  advance(p); /* the parenthesis */
  if (!tree) return NULL;
  tree->name = name;
  if (take(p, "*")) tree->call.star = true;
  else if (take(p, "DISTINCT")) tree->call.distinct = true;
  else take(p, "ALL");
  if (tree->call.star || at(p, ")")) {
    if (expect(p, ")") < 0) return NULL;
  } else if (!parse_list(p, tree)) {
    return NULL;
  }
  tree->end = p->last_end;
  if (at(p, "OVER") && !tree->call.star && !tree->call.distinct &&
      (tree->call.function = tsx_window_function(tree->name, tree->count)))
    return parse_over(p, tree);
  return find_function(p, tree) ? parse_after_call(p, tree) : NULL;
}

/* Parses [table.]name, or a call. */
static tsx_expr *parse_named(query_parser *p, const char *begin) {
  const bool word = p->token.kind == TSX_TOKEN_WORD;
  char *name = copy_name(p);
  advance(p);
  if (!name) return NULL;
  if (word && at(p, "(")) {
    for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
    return parse_call(p, name, begin);
  }
  tsx_expr *tree = make_node(p, TSX_EXPR_NAME, begin);
  if (!tree) return NULL;
  tree->name = name;
  if (take(p, ".")) {
    if (p->token.kind != TSX_TOKEN_WORD && p->token.kind != TSX_TOKEN_NAME) return fail_syntax(p);
    tree->table = name;
    if (!(tree->name = copy_name(p))) return NULL;
    advance(p);
    tree->end = p->last_end;
    if (at(p, ".")) {
      advance(p);
      advance(p);
      return refuse(p, begin, p->last_end, "write table.column");
    }
  } else if (word && is_constant_word(name)) {
    tree->kind = TSX_EXPR_LITERAL;
  }
  return tree;
}

/* Refuses what is in parentheses, quoting all of it. The open one has been taken. */
static tsx_expr *refuse_subquery(query_parser *p, const char *begin) {
  int open = 0;
  while (p->token.kind != TSX_TOKEN_END && p->token.kind != TSX_TOKEN_BAD && !(at(p, ")") && open == 0)) {
    open += at(p, "(") - at(p, ")");
    advance(p);
  }
  if (at(p, ")")) advance(p);
  return refuse(p, begin, p->last_end, "subqueries");
}

/* Parses the rest of (SELECT ...) as a scalar: subquery.c looks into it. */
static tsx_expr *parse_scalar_subquery(query_parser *p, const char *begin) {
  tsx_select *s = p->select;
  int open = 0;
  for (; p->token.kind != TSX_TOKEN_END && p->token.kind != TSX_TOKEN_BAD && !(at(p, ")") && open == 0); advance(p))
    open += at(p, "(") - at(p, ")");
  if (expect(p, ")") < 0) return NULL;
  tsx_expr *tree = make_node(p, TSX_EXPR_SUBQUERY, begin);
  if (!tree || !grow(p, (void **)&s->subqueries, s->subquery_count, sizeof *s->subqueries)) return NULL;
  return s->subqueries[s->subquery_count++] = tree;
}

static tsx_expr *parse_primary(query_parser *p) {
  const char *begin = p->token.text;
  switch (p->token.kind) {
  case TSX_TOKEN_BLOB: return refuse(p, begin, begin + p->token.size, "blobs");
  case TSX_TOKEN_NUMBER:
  case TSX_TOKEN_STRING: advance(p); return make_node(p, TSX_EXPR_LITERAL, begin);
  case TSX_TOKEN_NAME: return parse_named(p, begin);
  case TSX_TOKEN_WORD: break;
  case TSX_TOKEN_MARK:
    if (at(p, "?") || at(p, ":") || at(p, "@") || at(p, "$")) {
      tsx_fail(p->error, TSR_ERROR, "parameters are not allowed in tessera_query");
      return NULL;
    }
    if (!take(p, "(")) return fail_syntax(p);
    if (at(p, "SELECT") && p->subqueries) return parse_scalar_subquery(p, begin);
    if (at(p, "SELECT") || at(p, "WITH") || at(p, "VALUES")) return refuse_subquery(p, begin);
    tsx_expr *inner = parse_expression(p);
    if (inner && at(p, ",")) return refuse(p, begin, p->token.text + 1, "row values");
    return inner && expect(p, ")") == TSR_OK ? inner : NULL;
  case TSX_TOKEN_END:
  case TSX_TOKEN_BAD:
  default: return fail_syntax(p);
  }
  if (at(p, "CASE")) return parse_case(p, begin);
  if (at(p, "CAST") && follows(p, "(")) return parse_cast(p, begin);
  if (at(p, "NOT") && !follows(p, "EXISTS")) return parse_not(p);
  if (at(p, "EXISTS") || at(p, "NOT")) {
    while (!at(p, "(") && p->token.kind != TSX_TOKEN_END) advance(p);
    take(p, "(");
    return refuse_subquery(p, begin);
  }
  const bool call = (at(p, "LIKE") || at(p, "GLOB")) && follows(p, "(");
  return tsx_token_reserved(&p->token) && !call ? fail_syntax(p) : parse_named(p, begin);
}

/* ---- Operators --------------------------------------------------------------------------------------------------- */

static tsx_expr *parse_unary(query_parser *p) {
  static const struct {
    const char *mark;
    tsr_operation operation;
  } signs[] = {{"-", TSR_OP_NEGATE}, {"+", TSR_OP_PLUS}, {"~", TSR_OP_BIT_NOT}};
  const char *begin = p->token.text;
  for (int i = 0; i < 3; i++) {
    if (!at(p, signs[i].mark)) continue;
    p->depth++;
    if (!check_depth(p, 0)) return NULL;
    advance(p);
    tsx_expr *tree = make_node(p, TSX_EXPR_UNARY, begin);
    if (!tree || !add_operand(p, tree, parse_unary(p))) return NULL;
    p->depth--;
    tree->operation = signs[i].operation;
    return tree;
  }
  tsx_expr *tree = parse_primary(p);
  if (tree && at(p, "COLLATE")) {
    advance(p);
    if (!at(p, "BINARY")) return refuse(p, begin, p->token.text + p->token.size, "COLLATE");
    advance(p); /* BINARY is how all texts are compared */
    tree->collated = true;
    if (tree->kind != TSX_EXPR_LITERAL) { /* GROUP BY 1 COLLATE BINARY: the first item */
      tree->begin = begin; /* perhaps a parenthesis */
      tree->end = p->last_end;
    }
  }
  if (tree && at(p, "->")) return refuse(p, begin, p->token.text + 2, "JSON");
  return tree;
}

typedef struct operator_mark {
  const char *mark;
  int level; /* 0 binds weakest */
  tsr_operation operation;
} operator_mark;

#define LEVEL_COMPARISON 0
#define LEVEL_TIGHTEST   5
static const operator_mark operator_marks[] = {
    {"<", 0, TSR_OP_LESS},           {"<=", 0, TSR_OP_LESS_EQUAL},  {">", 0, TSR_OP_GREATER},
    {">=", 0, TSR_OP_GREATER_EQUAL}, {"&", 1, TSR_OP_BIT_AND},      {"|", 1, TSR_OP_BIT_OR},
    {"<<", 1, TSR_OP_SHIFT_LEFT},    {">>", 1, TSR_OP_SHIFT_RIGHT}, {"+", 2, TSR_OP_ADD},
    {"-", 2, TSR_OP_SUBTRACT},       {"*", 3, TSR_OP_MULTIPLY},     {"/", 3, TSR_OP_DIVIDE},
    {"%", 3, TSR_OP_REMAINDER},      {"||", 4, TSR_OP_COUNT}};

static const operator_mark *find_operator(const query_parser *p, int level) {
  for (size_t i = 0; i < sizeof operator_marks / sizeof *operator_marks; i++)
    if (operator_marks[i].level == level && p->token.kind == TSX_TOKEN_MARK && at(p, operator_marks[i].mark))
      return &operator_marks[i];
  return NULL;
}

/* Makes a node of two operands. A chain of operators of one level needs no recursion here, but builds a deep tree: so
 * the callers count its length as depth. */
static tsx_expr *make_pair(query_parser *p, tsx_expr_kind kind, tsr_operation operation, const char *begin,
                           tsx_expr *left, tsx_expr *right) {
  tsx_expr *tree = left && right ? make_node(p, kind, begin) : NULL;
  if (!tree || !add_operand(p, tree, left) || !add_operand(p, tree, right)) return NULL;
  tree->operation = operation;
  return tree;
}

static tsx_expr *parse_level(query_parser *p, int level) {
  const char *begin = p->token.text;
  if (level == LEVEL_TIGHTEST) return parse_unary(p);
  tsx_expr *tree = parse_level(p, level + 1);
  const operator_mark *mark;
  for (uint32_t chain = 1; tree && (mark = find_operator(p, level)); chain++) {
    advance(p);
    if (!check_depth(p, chain)) return NULL;
    tree = make_pair(p, level == 4 ? TSX_EXPR_CONCATENATE : TSX_EXPR_BINARY, mark->operation, begin, tree,
                     parse_level(p, level + 1));
  }
  return tree;
}

static tsx_expr *parse_equality(query_parser *p);

static tsx_expr *parse_between(query_parser *p, tsx_expr *left, bool negated, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_BETWEEN, begin);
  if (!tree || !add_operand(p, tree, left) || !add_operand(p, tree, parse_equality(p)) || expect(p, "AND") < 0 ||
      !add_operand(p, tree, parse_level(p, LEVEL_COMPARISON)))
    return NULL;
  tree->negated = negated;
  return tree;
}

static tsx_expr *parse_in(query_parser *p, tsx_expr *left, bool negated, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_IN, begin);
  if (!tree || !add_operand(p, tree, left)) return NULL;
  tree->negated = negated;
  if (!at(p, "(")) return refuse(p, begin, p->token.text + p->token.size, "IN with a table");
  advance(p);
  if (at(p, "SELECT") || at(p, "WITH") || at(p, "VALUES")) return refuse_subquery(p, begin);
  if (!take(p, ")")) return parse_list(p, tree);
  tree->end = p->last_end;
  return tree;
}

static tsx_expr *parse_like(query_parser *p, tsx_expr *left, bool negated, const char *begin) {
  char *name = copy_name(p);
  advance(p);
  tsx_expr *tree = make_node(p, TSX_EXPR_LIKE, begin);
  if (!name || !tree || !add_operand(p, tree, left) || !add_operand(p, tree, parse_level(p, LEVEL_COMPARISON)))
    return NULL;
  for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
  tree->name = name;
  tree->negated = negated;
  if (at(p, "ESCAPE")) return refuse(p, begin, p->token.text + p->token.size, "ESCAPE");
  return tree;
}

/* Returns true if SQLite takes a tree for the word TRUE or FALSE: also in parentheses, and for IN () and NOT IN (). */
static bool is_truth(const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_IN) return tree->count == 1;
  const char first = (char)tolower((unsigned char)*tree->begin); /* no other literal begins with one of these */
  return tree->kind == TSX_EXPR_LITERAL && (first == 't' || first == 'f');
}

static tsx_expr *parse_is(query_parser *p, tsx_expr *left, const char *begin) {
  bool negated = take(p, "NOT");
  if (at(p, "DISTINCT") && follows(p, "FROM")) {
    advance(p);
    advance(p);
    negated = !negated;
  }
  tsx_expr *right = parse_level(p, LEVEL_COMPARISON);
  tsx_expr *tree = make_pair(p, TSX_EXPR_BINARY, negated ? TSR_OP_IS_NOT : TSR_OP_IS, begin, left, right);
  if (!tree || !is_truth(right)) return tree;
  tree->operation = TSR_OP_COUNT; /* x IS TRUE tests the truth of x; it does not compare x with 1 */
  tree->negated = negated;
  return tree;
}

static tsx_expr *make_test(query_parser *p, tsx_expr *left, tsr_operation operation, const char *begin) {
  tsx_expr *tree = make_node(p, TSX_EXPR_UNARY, begin);
  if (!tree || !add_operand(p, tree, left)) return NULL;
  tree->operation = operation;
  return tree;
}

/* Parses one of = == <> != IS BETWEEN IN LIKE GLOB ISNULL NOTNULL and its right side. Sets *more to false if there is
 * no such operator. */
static tsx_expr *parse_equality_operator(query_parser *p, tsx_expr *left, const char *begin, bool *more) {
  if (take(p, "=") || take(p, "=="))
    return make_pair(p, TSX_EXPR_BINARY, TSR_OP_EQUAL, begin, left, parse_level(p, LEVEL_COMPARISON));
  if (take(p, "<>") || take(p, "!="))
    return make_pair(p, TSX_EXPR_BINARY, TSR_OP_UNEQUAL, begin, left, parse_level(p, LEVEL_COMPARISON));
  if (take(p, "IS")) return parse_is(p, left, begin);
  if (take(p, "ISNULL")) return make_test(p, left, TSR_OP_IS_NULL, begin);
  if (take(p, "NOTNULL")) return make_test(p, left, TSR_OP_NOT_NULL, begin);
  const bool negated = take(p, "NOT");
  if (negated && take(p, "NULL")) return make_test(p, left, TSR_OP_NOT_NULL, begin);
  if (take(p, "BETWEEN")) return parse_between(p, left, negated, begin);
  if (take(p, "IN")) return parse_in(p, left, negated, begin);
  if (at(p, "LIKE") || at(p, "GLOB")) return parse_like(p, left, negated, begin);
  if (at(p, "MATCH") || at(p, "REGEXP")) return refuse(p, begin, p->token.text + p->token.size, "MATCH and REGEXP");
  if (negated) return fail_syntax(p);
  *more = false;
  return left;
}

static tsx_expr *parse_equality(query_parser *p) {
  const char *begin = p->token.text;
  tsx_expr *tree = parse_level(p, LEVEL_COMPARISON);
  bool more = true;
  for (uint32_t chain = 1; tree && more; chain++) {
    if (!check_depth(p, chain)) return NULL;
    tree = parse_equality_operator(p, tree, begin, &more);
  }
  return tree;
}

static tsx_expr *parse_not(query_parser *p) {
  const char *begin = p->token.text;
  if (!at(p, "NOT") || follows(p, "EXISTS")) return parse_equality(p);
  p->depth++;
  if (!check_depth(p, 0)) return NULL;
  advance(p);
  tsx_expr *operand = parse_not(p);
  p->depth--;
  return operand ? make_test(p, operand, TSR_OP_NOT, begin) : NULL;
}

static tsx_expr *parse_and(query_parser *p) {
  const char *begin = p->token.text;
  tsx_expr *tree = parse_not(p);
  for (uint32_t chain = 1; tree && take(p, "AND"); chain++)
    tree = check_depth(p, chain) ? make_pair(p, TSX_EXPR_BINARY, TSR_OP_AND, begin, tree, parse_not(p)) : NULL;
  return tree;
}

static tsx_expr *parse_expression(query_parser *p) {
  const char *begin = p->token.text;
  p->depth++;
  if (!check_depth(p, 0)) return NULL;
  tsx_expr *tree = parse_and(p);
  for (uint32_t chain = 1; tree && take(p, "OR"); chain++)
    tree = check_depth(p, chain) ? make_pair(p, TSX_EXPR_BINARY, TSR_OP_OR, begin, tree, parse_and(p)) : NULL;
  p->depth--;
  return tree;
}

/* ---- The SELECT -------------------------------------------------------------------------------------------------- */

/* Returns true if a tree names the table in front of some column. */
static bool mentions_table(const tsx_expr *tree, const char *table) {
  if (tree->table && !sqlite3_stricmp(tree->table, table)) return true;
  if ((tree->base && mentions_table(tree->base, table)) ||
      (tree->call.filter && mentions_table(tree->call.filter, table)))
    return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (mentions_table(tree->operands[i], table)) return true;
  return false;
}

/* Parses [AS] name. */
static int parse_alias(query_parser *p, char **alias) {
  const bool as = take(p, "AS");
  if (!at_name(p)) return as ? syntax_error(p) : TSR_OK;
  if (!(*alias = copy_name(p))) return TSR_NOMEM;
  advance(p);
  return TSR_OK;
}

static int parse_item(query_parser *p) {
  tsx_select *s = p->select;
  tsx_tokens ahead = p->tokens;
  if (!grow(p, (void **)&s->items, s->item_count, sizeof *s->items)) return TSR_NOMEM;
  tsx_item *item = &s->items[s->item_count++];
  *item = (tsx_item){.begin = p->token.text};
  tsx_tokens_next(&ahead);
  const bool dot = tsx_token_is(&ahead.token, ".");
  if (dot) tsx_tokens_next(&ahead);
  if (dot && tsx_token_is(&ahead.token, "*")) {
    if (!(item->star = copy_name(p))) return TSR_NOMEM;
    for (int i = 0; i < 3; i++) advance(p);
  } else if (take(p, "*")) {
    item->star = tsx_arena_copy(&s->arena, "", 0);
    if (!item->star) return tsx_out_of_memory(p->error);
  } else {
    if (!(item->tree = parse_expression(p))) return p->error->code;
    TSX_TRY(parse_alias(p, &item->name));
  }
  item->end = p->last_end;
  return TSR_OK;
}

static int parse_times(query_parser *p, tsx_expr **times) {
  for (int i = 0;; i++) {
    if (i == 2) {
      refuse(p, p->token.text, p->token.text + p->token.size, "a table takes two times, as_of and since");
      return p->error->code;
    }
    if (!(times[i] = parse_expression(p))) return p->error->code;
    if (!take(p, ",")) return expect(p, ")");
  }
}

/* Parses [schema.]table [(times)] [[AS] name]. */
static int parse_table(query_parser *p, tsx_source *source) {
  source->quoted = p->token.kind == TSX_TOKEN_NAME || p->token.kind == TSX_TOKEN_STRING;
  if (!at_name(p)) return syntax_error(p);
  source->begin = p->token.text;
  if (!(source->table = copy_name(p))) return TSR_NOMEM;
  advance(p);
  if (take(p, ".")) {
    if (p->token.kind != TSX_TOKEN_WORD && p->token.kind != TSX_TOKEN_NAME) return syntax_error(p);
    source->qualified = true;
    source->schema = source->table;
    if (!(source->table = copy_name(p))) return TSR_NOMEM;
    advance(p);
  }
  source->end = p->last_end;
  if (at(p, "(")) source->times_begin = p->token.text;
  const int code = take(p, "(") && !take(p, ")") ? parse_times(p, source->times) : TSR_OK;
  if (source->times_begin) source->times_end = p->last_end;
  if (code < 0 || parse_alias(p, &source->alias) < 0) return p->error->code;
  if (!source->times_begin && at(p, "NOT") && follows(p, "INDEXED")) { /* no table here has an index */
    advance(p);
    advance(p);
  }
  return TSR_OK;
}

/* Parses the condition of a join from words that the parser has written itself. */
static int parse_written_on(query_parser *p, tsx_join *join, sqlite3_str *words) {
  char *text = sqlite3_str_finish(words);
  char *copy = text ? tsx_arena_copy(&p->select->arena, text, strlen(text)) : NULL;
  sqlite3_free(text);
  if (!copy) return tsx_out_of_memory(p->error);
  query_parser own = {.select = p->select, .tokens = tsx_tokens_of(copy), .last_end = copy, .error = p->error};
  merge_marks(&own);
  join->on.tree = parse_expression(&own);
  return join->on.tree ? TSR_OK : p->error->code;
}

/* Parses the columns of USING, and writes the terms that they stand for. */
static int parse_using_columns(query_parser *p, tsx_join *join, sqlite3_str *words) {
  const char **names = NULL;
  TSX_TRY(expect(p, "("));
  do {
    if (!at_name(p)) return syntax_error(p);
    if (!grow(p, (void **)&names, join->same_count, sizeof *names)) return TSR_NOMEM;
    if (!(names[join->same_count] = copy_name(p))) return TSR_NOMEM;
    sqlite3_str_appendf(words, "%s\"%w\" = \"%w\".\"%w\"", join->same_count ? " AND " : "", names[join->same_count],
                        tsx_source_name(&join->source), names[join->same_count]);
    join->same_count++;
    advance(p);
  } while (take(p, ","));
  join->same = names;
  return expect(p, ")");
}

/* Parses (column, ...) after USING, which means ON column = table.column AND ... */
static int parse_using(query_parser *p, tsx_join *join) {
  sqlite3_str *words = sqlite3_str_new(NULL);
  const int code = parse_using_columns(p, join, words);
  if (code >= 0) return parse_written_on(p, join, words);
  sqlite3_free(sqlite3_str_finish(words));
  return code;
}

/* Writes the terms of WHERE, joined by AND, that are an = and name the table in front of a column. */
static void append_equalities(const tsx_expr *tree, const char *table, sqlite3_str *words) {
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    append_equalities(tree->operands[0], table, words);
    append_equalities(tree->operands[1], table, words);
  } else if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_EQUAL && mentions_table(tree, table)) {
    sqlite3_str_appendf(words, "%s(%.*s)", sqlite3_str_length(words) ? " AND " : "", (int)(tree->end - tree->begin),
                        tree->begin);
  }
}

/* Makes the conditions of the tables behind commas, once WHERE is known. It keeps the terms, too: they hold for each
 * row of an inner join. */
static int make_comma_conditions(query_parser *p) {
  tsx_select *s = p->select;
  for (uint32_t j = 0; j < s->join_count; j++) {
    tsx_join *join = &s->joins[j];
    if (!join->comma) continue;
    sqlite3_str *words = sqlite3_str_new(NULL);
    if (s->where) append_equalities(s->where, tsx_source_name(&join->source), words);
    if (sqlite3_str_length(words) == 0) {
      const bool lacks_memory = sqlite3_str_errcode(words) != SQLITE_OK;
      sqlite3_free(sqlite3_str_finish(words));
      if (lacks_memory) return tsx_out_of_memory(p->error);
      continue;
    }
    TSX_TRY(parse_written_on(p, join, words));
  }
  return TSR_OK;
}

/* Parses a table and ON or USING, after the word JOIN; after a comma, the table. */
static int parse_joined(query_parser *p, tsx_join *join) {
  if (at(p, "(")) refuse(p, join->begin, p->token.text + 1, "joins with a SELECT, or with several tables");
  if (p->error->code) return p->error->code;
  const int code = parse_table(p, &join->source);
  if (code < 0 || join->comma) return code;
  if (take(p, "USING")) return parse_using(p, join);
  if (!take(p, "ON")) return TSR_OK;
  return (join->on.tree = parse_expression(p)) ? TSR_OK : p->error->code;
}

static int parse_joins(query_parser *p) {
  static const char *const others[] = {"CROSS", "NATURAL", "RIGHT", "FULL", "USING", NULL};
  tsx_select *s = p->select;
  while (at(p, "JOIN") || at(p, "LEFT") || at(p, "INNER") || at(p, ",")) {
    const char *begin = p->token.text;
    const bool comma = take(p, ","), left = !comma && take(p, "LEFT");
    if (left) take(p, "OUTER");
    else if (!comma) take(p, "INNER");
    if (!comma && expect(p, "JOIN") < 0) return p->error->code;
    if (s->join_count == TSX_JOINS_MAX) return tsx_fail(p->error, TSR_ERROR, "more than %u joins", TSX_JOINS_MAX);
    tsx_join *join = &s->joins[s->join_count++];
    *join = (tsx_join){.left = left, .comma = comma, .begin = begin, .on.field = TSX_FIELD_NONE};
    TSX_TRY(parse_joined(p, join));
  }
  for (const char *const *word = others; *word; word++)
    if (at(p, *word))
      refuse(p, p->token.text, p->token.text + p->token.size, "joins other than JOIN and LEFT JOIN with ON");
  return p->error->code;
}

/* ANDs the condition of an inner SELECT to WHERE. */
static int and_where(query_parser *p, tsx_expr *inner) {
  tsx_select *s = p->select;
  if (inner && s->where) s->where = make_pair(p, TSX_EXPR_BINARY, TSR_OP_AND, inner->begin, inner, s->where);
  else if (inner) s->where = inner;
  return !inner || s->where ? TSR_OK : p->error->code;
}

static int parse_from_subquery(query_parser *p, tsx_inner *inner, uint32_t level);

/* Parses WINDOW name AS (...), ... */
static int parse_named_windows(query_parser *p) {
  tsx_windowing *windows = &p->select->windows;
  if (!take(p, "WINDOW")) return TSR_OK;
  do {
    if (!grow(p, (void **)&windows->names, windows->name_count, sizeof *windows->names)) return TSR_NOMEM;
    tsx_window_name *made = &windows->names[windows->name_count++];
    *made = (tsx_window_name){.level = p->level};
    if (p->token.kind != TSX_TOKEN_NAME && (p->token.kind != TSX_TOKEN_WORD || tsx_token_reserved(&p->token)))
      return syntax_error(p);
    if (!(made->name = copy_name(p))) return TSR_NOMEM;
    advance(p);
    if (expect(p, "AS") < 0 || !(made->over = parse_window_definition(p))) return p->error->code;
  } while (take(p, ","));
  return TSR_OK;
}

/* Parses what a subquery in FROM reads. Sets *plain to false if it is more than a table, or such a subquery. */
static int parse_subquery_source(query_parser *p, tsx_inner *inner, uint32_t level, bool *plain) {
  tsx_select *s = p->select;
  *plain = take(p, "FROM") && (!at(p, "(") || follows(p, "SELECT")) && level < TSX_INNER_MAX;
  if (!*plain) return TSR_OK;
  if (!at(p, "(")) return parse_table(p, &s->source);
  if (!(inner->within = tsx_arena_take(&s->arena, sizeof *inner->within))) return tsx_out_of_memory(p->error);
  return parse_from_subquery(p, inner->within, level + 1);
}

/* Parses (SELECT items FROM table [WHERE condition]) [AS name], or with such a subquery in place of the table. The
 * conditions become s->where. */
static int parse_from_subquery(query_parser *p, tsx_inner *inner, uint32_t level) {
  tsx_select *s = p->select;
  tsx_item *items = s->items;
  const uint32_t count = s->item_count;
  const char *begin = p->token.text;
  inner->begin = begin;
  advance(p);
  advance(p);
  bool plain = !at(p, "DISTINCT");
  if (plain) take(p, "ALL");
  const uint32_t outer = p->level;
  p->level = level + 1;
  s->items = NULL;
  s->item_count = 0;
  p->subqueries = true;
  if (plain) {
    do TSX_TRY(parse_item(p));
    while (take(p, ","));
  }
  p->subqueries = false;
  inner->items = s->items;
  inner->item_count = s->item_count;
  s->items = items;
  s->item_count = count;
  if (plain) TSX_TRY(parse_subquery_source(p, inner, level, &plain));
  tsx_expr *within = s->where;
  s->where = NULL;
  p->subqueries = true;
  p->level = level + 1;
  if (plain && take(p, "WHERE") && !(s->where = parse_expression(p))) return p->error->code;
  p->subqueries = false;
  inner->where = s->where;
  TSX_TRY(and_where(p, within));
  TSX_TRY(parse_named_windows(p));
  s->windows.where[level + 1] = s->where;
  p->level = outer;
  if (!plain || !take(p, ")")) {
    refuse_subquery(p, begin);
    return p->error->code;
  }
  return parse_alias(p, &inner->name);
}

static int parse_source(query_parser *p) {
  tsx_select *s = p->select;
  const char *begin = p->token.text;
  if (at(p, "(") && follows(p, "SELECT")) {
    TSX_TRY(parse_from_subquery(p, &s->inner, 0));
    return parse_joins(p);
  }
  if (at(p, "(")) {
    advance(p);
    refuse_subquery(p, begin);
    return p->error->code;
  }
  TSX_TRY(parse_table(p, &s->source));
  return parse_joins(p);
}

static int parse_group(query_parser *p) {
  tsx_select *s = p->select;
  do {
    if (!grow(p, (void **)&s->group, s->group_count, sizeof *s->group)) return TSR_NOMEM;
    if (!(s->group[s->group_count++] = parse_expression(p))) return p->error->code;
  } while (take(p, ","));
  return TSR_OK;
}

static int parse_order(query_parser *p) {
  tsx_select *s = p->select;
  do {
    if (!grow(p, (void **)&s->order, s->order_count, sizeof *s->order)) return TSR_NOMEM;
    tsx_order *order = &s->order[s->order_count++];
    *order = (tsx_order){.item = -1};
    if (!(order->tree = parse_expression(p))) return p->error->code;
    order->rest = p->last_end;
    if (take(p, "DESC")) order->descending = true;
    else take(p, "ASC");
    if (take(p, "NULLS") && !take(p, "FIRST") && !take(p, "LAST")) return syntax_error(p);
    order->end = p->last_end;
  } while (take(p, ","));
  return TSR_OK;
}

/* Parses WHERE, GROUP BY, HAVING, WINDOW, ORDER BY and LIMIT. */
static int parse_clauses(query_parser *p) {
  tsx_select *s = p->select;
  static const char *const compounds[] = {"UNION", "EXCEPT", "INTERSECT", NULL};
  tsx_expr *inner = s->where;
  s->where = NULL;
  p->subqueries = true;
  if (take(p, "WHERE") && !(s->where = parse_expression(p))) return p->error->code;
  p->subqueries = false;
  if (and_where(p, inner) < 0) return p->error->code;
  s->windows.where[0] = s->where;
  if (make_comma_conditions(p) < 0) return p->error->code;
  if (at(p, "GROUP") && follows(p, "BY")) {
    advance(p);
    advance(p);
    if (parse_group(p) < 0) return p->error->code;
  }
  p->subqueries = true;
  if (take(p, "HAVING") && !(s->having = parse_expression(p))) return p->error->code;
  if (parse_named_windows(p) < 0) return p->error->code;
  for (const char *const *word = compounds; *word; word++)
    if (at(p, *word)) {
      refuse(p, p->token.text, p->token.text + p->token.size, "one SELECT is evaluated");
      return p->error->code;
    }
  if (at(p, "ORDER") && follows(p, "BY")) {
    advance(p);
    advance(p);
    if (parse_order(p) < 0) return p->error->code;
  }
  p->subqueries = false;
  if (!take(p, "LIMIT")) return TSR_OK;
  if (!(s->limit = parse_expression(p))) return p->error->code;
  if (take(p, "OFFSET")) {
    if (!(s->offset = parse_expression(p))) return p->error->code;
  } else if (take(p, ",")) {
    s->offset = s->limit;
    if (!(s->limit = parse_expression(p))) return p->error->code;
  }
  return TSR_OK;
}

/* Parses FROM. SQLite allows a SELECT without it; a tessera_query does not. */
static int parse_from(query_parser *p, const char *begin) {
  if (p->token.kind == TSX_TOKEN_END) {
    refuse(p, begin, p->last_end, "a SELECT without FROM");
    p->doubt.any = true;
  }
  if (p->error->code || expect(p, "FROM") < 0) return p->error->code;
  return parse_source(p);
}

static int parse_select(query_parser *p) {
  const char *begin = p->token.text;
  if (!take(p, "SELECT"))
    return tsx_fail(p->error, TSR_ERROR, "tessera_query: expected a SELECT, not '%.*s'",
                    (int)(p->token.size < 40 ? p->token.size : 40), p->token.text);
  p->select->distinct = take(p, "DISTINCT");
  if (!p->select->distinct) take(p, "ALL");
  p->subqueries = true;
  do TSX_TRY(parse_item(p));
  while (take(p, ","));
  p->subqueries = false;
  TSX_TRY(parse_from(p, begin));
  TSX_TRY(parse_clauses(p));
  return p->token.kind == TSX_TOKEN_END ? TSR_OK : syntax_error(p);
}

int tsx_select_parse(const char *text, tsx_select *select, tsx_parse_doubt *doubt, tsr_error *error) {
  *select = (tsx_select){0};
  *doubt = (tsx_parse_doubt){0};
  if (!(select->text = tsx_arena_copy(&select->arena, text, strlen(text)))) return tsx_out_of_memory(error);
  query_parser p = {.select = select, .tokens = tsx_tokens_of(select->text), .error = error};
  merge_marks(&p);
  p.last_end = p.token.text;
  const int code = parse_select(&p);
  *doubt = p.doubt;
  return code;
}

void tsx_select_free(tsx_select *select) {
  tsx_arena_free(&select->arena);
  *select = (tsx_select){0};
}
