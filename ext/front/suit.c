/* suit.c: which compiled SELECTs tessera_sql takes: those that surely give the rows that SQLite gives, in value and
 * type, and that columns evaluate faster than rows.
 *
 * docs/explained/query-rules.md lists how a tessera_query may differ from a view. What this file can see in the text,
 * and in the list of the connection's functions, is not taken. The rest shows when the query runs: integers that leave
 * 64 bits, and keys that mix 1 and 1.0. Those fail with TSR_RANGE before the first row, and SQLite evaluates the text
 * (query_table.c).
 *
 * Sections: functions of the program, what the text shows. */
#include "front/front.h"

#include <string.h>

#include "connection/errors.h"

/* ---- Functions of the program ------------------------------------------------------------------------------------ */

struct tsx_own_function {
  const char *name;
  int arguments; /* < 0: any number */
};

enum { OWN_NAME = 0, OWN_IS_BUILTIN = 1, OWN_ARGUMENTS = 4 }; /* columns of PRAGMA function_list */

/* Appends the function of a row of PRAGMA function_list. Before SQLite 3.31 the rows do not say how many arguments. */
static bool own_add(tsx_own_functions *own, uint32_t *room, tsx_arena *arena, sqlite3_stmt *row) {
  struct tsx_own_function *items = own->items;
  const char *name = (const char *)sqlite3_column_text(row, OWN_NAME);
  if (own->count == *room) {
    *room = 2 * *room + 32;
    items = tsx_arena_take(arena, *room * sizeof *items);
    if (items && own->count) memcpy(items, own->items, own->count * sizeof *items);
    own->items = items;
  }
  char *copy = items && name ? tsx_arena_copy(arena, name, strlen(name)) : NULL;
  const int arguments = sqlite3_column_count(row) > OWN_ARGUMENTS ? sqlite3_column_int(row, OWN_ARGUMENTS) : -1;
  if (copy) items[own->count++] = (struct tsx_own_function){copy, arguments};
  return copy != NULL;
}

/* Returns true if the function of a row is neither SQLite's nor tessera's. */
static bool own_is_programs(sqlite3_stmt *row) {
  if (sqlite3_column_int(row, OWN_IS_BUILTIN)) return false;
  const char *name = (const char *)sqlite3_column_text(row, OWN_NAME);
  return !name || sqlite3_strnicmp(name, "tessera_", 8) != 0;
}

/* An SQLite without PRAGMA function_list, or an authorizer that denies it, leaves the list empty. A SELECT from
 * pragma_function_list would take twice as long. Nothing that SQLite shows tells whether a function was added since the
 * last time. */
int tsx_own_functions_list(tsx_connection *connection, tsx_arena *arena, tsx_own_functions *own, tsr_error *error) {
  sqlite3_stmt *rows = NULL;
  uint32_t room = 0;
  int code = sqlite3_prepare_v2(connection->db, "PRAGMA function_list", -1, &rows, NULL);
  *own = (tsx_own_functions){.listed = true};
  if (code == SQLITE_OK) code = sqlite3_step(rows);
  while (code == SQLITE_ROW)
    code = !own_is_programs(rows) || own_add(own, &room, arena, rows) ? sqlite3_step(rows) : SQLITE_NOMEM;
  sqlite3_finalize(rows);
  if (code == SQLITE_NOMEM) return tsx_out_of_memory(error);
  return code == SQLITE_INTERRUPT ? tsx_fail(error, TSR_INTERRUPT, "interrupted") : TSR_OK;
}

static bool own_is(const tsx_own_functions *own, const char *name, uint32_t arguments) {
  for (uint32_t i = 0; i < own->count; i++) {
    const struct tsx_own_function *f = &own->items[i];
    if ((f->arguments < 0 || (uint32_t)f->arguments == arguments) && !sqlite3_stricmp(f->name, name)) return true;
  }
  return false;
}

/* Returns true if the engine evaluates this node by a function of its own. Of scalar functions, SQLite evaluates those
 * that the engine lacks, those of constants, and those around aggregates. */
static bool own_is_engines(const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_AGGREGATE || tree->kind == TSX_EXPR_WINDOW) return true;
  const bool function = tree->kind == TSX_EXPR_FUNCTION && tree->call.function->cells != TSR_OP_COUNT;
  return (function || tree->kind == TSX_EXPR_LIKE) && !tree->has_aggregate && tree->field != TSX_FIELD_NONE;
}

static const char *own_called(const tsx_expr *tree, const tsx_own_functions *own) {
  if (!tree) return NULL;
  tree = tsx_expr_meaning(tree);
  if (own_is_engines(tree) && (!own || own_is(own, tree->name, tree->call.star ? 0 : tree->count))) return tree->name;
  const char *name = own_called(tree->base, own);
  if (!name) name = own_called(tree->call.filter, own);
  for (uint32_t i = 0; i < tree->count && !name; i++) name = own_called(tree->operands[i], own);
  return name;
}

const char *tsx_front_calls_own(const tsx_query *query, const tsx_own_functions *own) {
  const tsx_select *s = &query->select;
  const char *name = own_called(s->where, own);
  if (!name) name = own_called(s->having, own);
  for (uint32_t i = 0; i < s->item_count && !name; i++) name = own_called(s->items[i].tree, own);
  for (uint32_t i = 0; i < s->group_count && !name; i++) name = own_called(s->group[i], own);
  for (uint32_t i = 0; i < s->order_count && !name; i++) name = own_called(s->order[i].tree, own);
  return name;
}

/* ---- What the text shows ----------------------------------------------------------------------------------------- */

/* Returns true if `test` holds for some node of the tree. */
static bool suit_any(const tsx_query *query, const tsx_expr *tree,
                     bool (*test)(const tsx_query *query, const tsx_expr *tree)) {
  if (!tree) return false;
  tree = tsx_expr_meaning(tree);
  if (test(query, tree) || suit_any(query, tree->base, test) || suit_any(query, tree->call.filter, test)) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (suit_any(query, tree->operands[i], test)) return true;
  return false;
}

static const tsx_column *suit_column(const tsx_query *query, const tsx_expr *tree) {
  return tree->kind == TSX_EXPR_NAME && tree->column >= 0 ? &query->table->columns[tree->column] : NULL;
}

/* A UINT64 compares with text of digits as its number, and in SQLite only where the array gets the comparison. */
static bool suit_unsigned(const tsx_query *query, const tsx_expr *tree) {
  const tsx_column *column = suit_column(query, tree);
  return column && column->form == TSX_UINT64;
}

static bool suit_is_null(const tsx_expr *tree) {
  return tree->kind == TSX_EXPR_LITERAL && tree->end - tree->begin == 4 && !sqlite3_strnicmp(tree->begin, "null", 4);
}

static bool suit_compares(const tsx_expr *tree) {
  const tsr_operation cells = tree->kind == TSX_EXPR_FUNCTION ? tree->call.function->cells : TSR_OP_COUNT;
  const bool function = cells == TSR_OP_NULLIF || cells == TSR_OP_LEAST || cells == TSR_OP_GREATEST;
  const bool binary = tree->kind == TSX_EXPR_BINARY && tree->operation >= TSR_OP_EQUAL &&
                      tree->operation <= TSR_OP_IS_NOT && !suit_is_null(tree->operands[1]);
  return function || binary || tree->kind == TSX_EXPR_BETWEEN || tree->kind == TSX_EXPR_IN ||
         (tree->kind == TSX_EXPR_CASE && tree->base);
}

/* Returns true if the cells of a UINT64 are compared. SQLite sees those past 64 bits with a sign as text, which comes
 * after all numbers. Around aggregates, SQLite itself compares. */
static bool suit_compares_unsigned(const tsx_query *query, const tsx_expr *tree) {
  return suit_compares(tree) && !tree->has_aggregate && suit_any(query, tree, suit_unsigned);
}

static bool suit_is_instant(const tsx_query *query, const tsx_expr *tree) {
  const tsx_column *column = suit_column(query, tsx_expr_meaning(tree));
  return column && column->form == TSX_DATETIME;
}

/* Returns true if a constant may be a number that is no literal: SQLite computes 2000 COLLATE BINARY, too. */
static bool suit_may_count(const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->field != TSX_FIELD_NONE || tree->has_aggregate) return false;
  if (tree->kind == TSX_EXPR_CAST) return !tsx_type_has(tree->name, "CHAR") && !tsx_type_has(tree->name, "TEXT");
  if (tree->kind == TSX_EXPR_LITERAL) return tree->collated && *tree->begin != '\'';
  return tree->kind == TSX_EXPR_UNARY || tree->kind == TSX_EXPR_BINARY;
}

/* Returns true if a datetime is compared with a number, whose affinity decides whether SQLite compares texts, or if it
 * is an end of BETWEEN: of these, SQLite hands some to the array. */
static bool suit_compares_instant(const tsx_query *query, const tsx_expr *tree) {
  if (!suit_compares(tree) || tree->has_aggregate) return false;
  bool instant = tree->base && suit_is_instant(query, tree->base), counts = tree->base && suit_may_count(tree->base);
  for (uint32_t i = 0; i < tree->count; i++) {
    instant |= suit_is_instant(query, tree->operands[i]);
    counts |= suit_may_count(tree->operands[i]);
  }
  if (!instant) return false;
  return counts || (tree->kind == TSX_EXPR_BETWEEN && !suit_is_instant(query, tree->operands[0]));
}

/* Returns true if the test holds in a SELECT elsewhere than in WHERE. */
static bool suit_has(const tsx_query *query, bool (*test)(const tsx_query *query, const tsx_expr *tree)) {
  const tsx_select *s = &query->select;
  for (uint32_t i = 0; i < s->item_count; i++)
    if (suit_any(query, s->items[i].tree, test)) return true;
  for (uint32_t i = 0; i < s->group_count; i++)
    if (suit_any(query, s->group[i], test)) return true;
  for (uint32_t i = 0; i < s->order_count; i++)
    if (suit_any(query, s->order[i].tree, test)) return true;
  return suit_any(query, s->having, test);
}

/* Returns true if a column stands beside the aggregates that is no key: its value is that of some row with the only min
 * or max, and SQLite may choose another row. */
static bool suit_bare(const tsx_query *query, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->field == TSX_FIELD_NONE || tree->kind == TSX_EXPR_AGGREGATE) return false;
  if (tsx_select_key(&query->select, tree) >= 0) return false;
  if (tsx_expr_is_column(tree)) return true;
  if (tree->base && suit_bare(query, tree->base)) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (suit_bare(query, tree->operands[i])) return true;
  return false;
}

static bool suit_has_bare(const tsx_query *query) {
  const tsx_select *s = &query->select;
  if (!query->over_groups) return false;
  for (uint32_t i = 0; i < s->item_count; i++)
    if (suit_bare(query, s->items[i].tree)) return true;
  for (uint32_t i = 0; i < s->order_count; i++)
    if (suit_bare(query, s->order[i].tree)) return true;
  return s->having && suit_bare(query, s->having);
}

/* Returns the column or label that a term of WHERE compares with constants, so that the array can test it before it
 * makes rows; else NULL. *equal: by = with one value. */
static const tsx_expr *suit_compared(const tsx_expr *term, bool *equal) {
  *equal = term->kind == TSX_EXPR_BINARY && term->operation == TSR_OP_EQUAL;
  const bool unary =
      term->kind == TSX_EXPR_UNARY && (term->operation == TSR_OP_IS_NULL || term->operation == TSR_OP_NOT_NULL);
  const bool binary = term->kind == TSX_EXPR_BINARY && term->operation != TSR_OP_OR && term->operation != TSR_OP_COUNT;
  if (!unary && !binary && term->kind != TSX_EXPR_BETWEEN && term->kind != TSX_EXPR_IN && term->kind != TSX_EXPR_LIKE)
    return NULL;
  const tsx_expr *column = NULL;
  for (uint32_t i = 0; i < term->count; i++) {
    const tsx_expr *side = tsx_expr_meaning(term->operands[i]);
    if (side->field == TSX_FIELD_NONE && !side->has_aggregate) continue;
    if (column || (i > 0 && !binary) || !tsx_expr_is_column(side) || side->kind == TSX_EXPR_JOINED) return NULL;
    column = side;
  }
  return column;
}

typedef struct suit_where {
  bool computed; /* some term is more than a comparison of a column with constants */
  uint64_t bound; /* bit i: dimension i is bound by = */
} suit_where;

static void suit_terms(const tsx_query *query, const tsx_expr *tree, suit_where *found) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    suit_terms(query, tree->operands[0], found);
    suit_terms(query, tree->operands[1], found);
    return;
  }
  bool equal;
  const tsx_expr *compared = suit_compared(tree, &equal);
  const tsx_column *column = compared && equal ? suit_column(query, compared) : NULL;
  if (!compared) found->computed = true;
  if (column && column->description->is_dimension && column->field < 64) found->bound |= UINT64_C(1) << column->field;
}

/* Returns true if a column of the result is a UINT64: SQLite may hand a comparison around the SELECT to the array. */
static bool suit_shows_unsigned(const tsx_query *query) {
  for (uint32_t i = 0; i < query->select.item_count; i++)
    if (suit_unsigned(query, tsx_expr_meaning(query->select.items[i].tree))) return true;
  return false;
}

const char *tsx_front_inexact(const tsx_query *query) {
  const tsx_select *s = &query->select;
  if (suit_has_bare(query)) return "a column beside min or max: SQLite may take it from another row";
  if (suit_any(query, s->where, suit_unsigned)) return "a UINT64 in WHERE may compare with text as a number";
  if (suit_has(query, suit_compares_unsigned)) return "a UINT64 compares with REAL or text as a number";
  if (suit_any(query, s->where, suit_compares_instant) || suit_has(query, suit_compares_instant))
    return "a datetime is compared with a number, or is an end of BETWEEN";
  for (uint32_t i = 0; i < query->table->column_count; i++)
    if (s->meaning.used[i] && query->table->columns[i].form == TSX_BLOB) return "a column of bytes";
  return NULL;
}

const char *tsx_front_unsuited(const tsx_query *query, tsx_script_place place) {
  const tsx_select *s = &query->select;
  const uint32_t dimensions = query->table->schema->dimension_count;
  suit_where where = {0};
  if (s->where) suit_terms(query, s->where, &where);
  const char *inexact = tsx_front_inexact(query);
  if (inexact) return inexact;
  if (place != TSX_PLACE_STATEMENT && suit_shows_unsigned(query))
    return "a UINT64 may compare with text as a number in the statement around";
  if (s->limit && !s->meaning.has_aggregate && !query->over_groups) return "LIMIT without an aggregate";
  const bool one = query->over_groups && s->group_count == 0; /* row */
  if (s->limit && !one && !s->order_count) return "LIMIT without ORDER BY";
  if (place == TSX_PLACE_SCALAR && !one && !s->order_count) return "a scalar is the first of several rows";
  if (dimensions < 64 && where.bound == (UINT64_C(1) << dimensions) - 1) return "all dimensions are bound by =";
  if (!query->over_groups && !where.computed && !s->windows.count)
    return "no aggregate, and the array itself tests WHERE";
  return NULL;
}
