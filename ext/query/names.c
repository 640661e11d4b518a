/* names.c: what the names in a tessera_query mean: its functions, columns, labels, aliases and ordinals.
 *
 * tsx_select_resolve resolves the conditions of joins first, because the columns of a joined table depend on the
 * dimension that its ON depends on. Then it expands * and resolves the items, WHERE, GROUP BY, HAVING and ORDER BY. A
 * column wins over an alias, except for a whole term of ORDER BY; an alias stands for the tree of its item. Bottom-up,
 * each node gets its `field`: the one column that it depends on, NONE for a constant, or MANY. This decides later
 * whether SQLite or the engine evaluates it. Last come the rules for groups: SELECT DISTINCT becomes GROUP BY, and bare
 * columns are refused unless the query has exactly one min or max.
 *
 * Sections: the table of functions, names in expressions, items and *, keys and bare columns, joins.
 * docs/explained/queries.md lists the functions. */
#include "query/query_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "connection/errors.h"
#include "table/table.h"

/* ---- The table of functions -------------------------------------------------------------------------------------- */

#define SQLITES TSR_OP_COUNT
#define ANY     127
#define CELLS(n, a, b, operation)                                                                                      \
  { n, a, b, TSR_OP_##operation, false, TSR_AGGREGATE_COUNT, false }
#define RESULTS(n, a, b)                                                                                               \
  { n, a, b, SQLITES, false, TSR_AGGREGATE_COUNT, false }
#define OVER(n, a, b, function)                                                                                        \
  { n, a, b, SQLITES, true, TSR_AGGREGATE_##function, false }
#define ADDED(n, a, b, function)                                                                                       \
  { n, a, b, SQLITES, true, TSR_AGGREGATE_##function, true }

/* CELLS: the engine has the function, too; RESULTS: only SQLite; OVER: an aggregate; ADDED: an aggregate that SQLite
 * may lack. min and max of one argument are aggregates, so they come before the scalar functions of that name. */
static const tsx_function known_functions[] = {
    OVER("count", 0, 1, COUNT),
    OVER("sum", 1, 1, SUM),
    OVER("total", 1, 1, TOTAL),
    OVER("avg", 1, 1, AVG),
    OVER("min", 1, 1, MIN),
    OVER("max", 1, 1, MAX),
    ADDED("median", 1, 1, MEDIAN),
    ADDED("percentile", 2, 2, PERCENTILE),
    ADDED("stddev", 1, 1, STDDEV),
    ADDED("variance", 1, 1, VARIANCE),
    CELLS("min", 2, ANY, LEAST),
    CELLS("max", 2, ANY, GREATEST),
    CELLS("abs", 1, 1, ABS),
    CELLS("sign", 1, 1, SIGN),
    CELLS("coalesce", 2, ANY, COALESCE),
    CELLS("ifnull", 2, 2, COALESCE),
    CELLS("nullif", 2, 2, NULLIF),
    CELLS("iif", 2, ANY, CASE),
    CELLS("if", 2, ANY, CASE),
    CELLS("likely", 1, 1, PLUS),
    CELLS("unlikely", 1, 1, PLUS),
    CELLS("round", 1, 1, ROUND),
    CELLS("floor", 1, 1, FLOOR),
    CELLS("ceil", 1, 1, CEIL),
    CELLS("ceiling", 1, 1, CEIL),
    CELLS("trunc", 1, 1, TRUNC),
    CELLS("sqrt", 1, 1, SQRT),
    CELLS("exp", 1, 1, EXP),
    CELLS("ln", 1, 1, LN),
    CELLS("log", 1, 1, LOG10),
    CELLS("log10", 1, 1, LOG10),
    CELLS("log2", 1, 1, LOG2),
    CELLS("log", 2, 2, LOG),
    CELLS("pow", 2, 2, POW),
    CELLS("power", 2, 2, POW),
    CELLS("mod", 2, 2, MOD),
    CELLS("sin", 1, 1, SIN),
    CELLS("cos", 1, 1, COS),
    CELLS("tan", 1, 1, TAN),
    CELLS("asin", 1, 1, ASIN),
    CELLS("acos", 1, 1, ACOS),
    CELLS("atan", 1, 1, ATAN),
    CELLS("atan2", 2, 2, ATAN2),
    CELLS("sinh", 1, 1, SINH),
    CELLS("cosh", 1, 1, COSH),
    CELLS("tanh", 1, 1, TANH),
    CELLS("asinh", 1, 1, ASINH),
    CELLS("acosh", 1, 1, ACOSH),
    CELLS("atanh", 1, 1, ATANH),
    CELLS("degrees", 1, 1, DEGREES),
    CELLS("radians", 1, 1, RADIANS),
    RESULTS("pi", 0, 0),
    RESULTS("round", 2, 2),
    RESULTS("date", 0, ANY),
    RESULTS("time", 0, ANY),
    RESULTS("datetime", 0, ANY),
    RESULTS("julianday", 0, ANY),
    RESULTS("unixepoch", 0, ANY),
    RESULTS("strftime", 1, ANY),
    RESULTS("substr", 2, 3),
    RESULTS("substring", 2, 3),
    RESULTS("length", 1, 1),
    RESULTS("lower", 1, 1),
    RESULTS("upper", 1, 1),
    RESULTS("trim", 1, 2),
    RESULTS("ltrim", 1, 2),
    RESULTS("rtrim", 1, 2),
    RESULTS("replace", 3, 3),
    RESULTS("instr", 2, 2),
    RESULTS("printf", 1, ANY),
    RESULTS("format", 1, ANY),
    RESULTS("typeof", 1, 1),
    RESULTS("hex", 1, 1),
    RESULTS("char", 0, ANY),
    RESULTS("unicode", 1, 1),
    RESULTS("quote", 1, 1),
};
#define KNOWN_COUNT (sizeof known_functions / sizeof *known_functions)

const tsx_function *tsx_function_find(const char *name, uint32_t count) {
  for (size_t i = 0; i < KNOWN_COUNT; i++)
    if (!sqlite3_stricmp(known_functions[i].name, name) && count >= known_functions[i].least &&
        (known_functions[i].greatest == ANY || count <= known_functions[i].greatest))
      return &known_functions[i];
  return NULL;
}

const tsx_function *tsx_function_known(const char *name) {
  for (size_t i = 0; i < KNOWN_COUNT; i++)
    if (!sqlite3_stricmp(known_functions[i].name, name)) return &known_functions[i];
  return NULL;
}

/* Window functions that are no aggregates. lag, lead and row_number take other frames than the text's (window.c). */
static const tsx_function window_functions[] = {
    OVER("first_value", 1, 1, FIRST), OVER("last_value", 1, 1, LAST), OVER("nth_value", 2, 2, NTH),
    OVER("lag", 1, 3, FIRST),         OVER("lead", 1, 3, FIRST),      OVER("row_number", 0, 0, COUNT),
};

const tsx_function *tsx_window_function(const char *name, uint32_t count) {
  for (size_t i = 0; i < sizeof window_functions / sizeof *window_functions; i++)
    if (!sqlite3_stricmp(window_functions[i].name, name) && count >= window_functions[i].least &&
        count <= window_functions[i].greatest)
      return &window_functions[i];
  return NULL;
}

/* ---- Names in expressions ---------------------------------------------------------------------------------------- */

typedef struct names_scope {
  tsx_select *select;
  const tsx_table *table;
  uint32_t joins; /* how many joined tables are visible */
  bool aliases; /* aliases of items are visible */
  const tsx_inner *inner; /* the subquery in FROM whose items are the columns; NULL: the table's are */
  tsr_error *error;
} names_scope;

/* Returns the `field` of a tree whose parts have the fields a and b. */
static int combine_fields(int a, int b) {
  if (a == TSX_FIELD_NONE || a == b) return b;
  return b == TSX_FIELD_NONE ? a : TSX_FIELD_MANY;
}

static int find_column(const tsx_table *table, const char *name) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (!sqlite3_stricmp(table->columns[i].name, name)) return (int)i;
  return -1;
}

static tsx_expr *find_alias(const tsx_select *select, const char *name) {
  for (uint32_t i = 0; i < select->item_count; i++)
    if (select->items[i].name && !sqlite3_stricmp(select->items[i].name, name)) return select->items[i].tree;
  return NULL;
}

static bool is_own_table(const names_scope *scope, const char *name) {
  const char *own = scope->inner ? scope->inner->name : tsx_source_name(&scope->select->source);
  return own && !sqlite3_stricmp(name, own);
}

#define NO_NAME "?" /* a column of * that has only its words */

/* Returns the name of a column of the subquery in FROM; "" if it has only its words. */
static const char *inner_name(const tsx_item *item) {
  if (item->name) return item->name;
  const tsx_expr *tree = tsx_expr_likely(item->tree);
  return tree == item->tree && (tree->alias || tsx_expr_is_column(tree)) && strcmp(tree->name, NO_NAME) != 0
             ? tree->name
             : "";
}

/* Resolves a name to an item of the subquery in FROM. Returns false if none has this name. */
static bool resolve_inner_item(const names_scope *scope, tsx_expr *tree) {
  const tsx_inner *inner = scope->inner;
  for (uint32_t i = 0; i < inner->item_count; i++)
    if (!sqlite3_stricmp(inner_name(&inner->items[i]), tree->name)) {
      tree->alias = inner->items[i].tree;
      tree->field = tree->alias->field;
      tree->has_window = tree->alias->has_window;
      return true;
    }
  return false;
}

/* Resolves a name to a column of a joined table. Returns false if none has such a column. */
static bool resolve_joined(const names_scope *scope, tsx_expr *tree) {
  for (uint32_t j = 0; j < scope->joins; j++) {
    const tsx_join *join = &scope->select->joins[j];
    if (tree->table && sqlite3_stricmp(tree->table, tsx_source_name(&join->source)) != 0) continue;
    for (uint32_t i = 0; i < join->column_count; i++)
      if (!sqlite3_stricmp(tree->name, join->columns[i].name)) {
        tree->kind = TSX_EXPR_JOINED;
        tree->join = j;
        tree->column = (int)i;
        tree->field = join->on.field;
        return true;
      }
  }
  return false;
}

/* Refuses columns with a collation that the engine lacks. */
static int check_collation(const names_scope *scope, const tsx_expr *tree) {
  if (scope->select->joins[tree->join].columns[tree->column].plain) return TSR_OK;
  return tsx_not_evaluated(scope->select, tree->begin, tree->end, "COLLATE", scope->error);
}

/* Returns the column of a label's dimension. */
static int label_dimension(const tsx_table *table, uint32_t label) {
  for (uint32_t i = 0; i < table->column_count; i++)
    if (table->columns[i].field == table->labels[label].dimension) return (int)i;
  return TSX_FIELD_MANY;
}

/* Resolves a name to a dimension label. Returns false if none has this name. */
static bool resolve_label(const names_scope *scope, tsx_expr *tree) {
  for (uint32_t i = 0; i < scope->table->label_count; i++)
    if (!sqlite3_stricmp(scope->table->labels[i].name, tree->name)) {
      tree->kind = TSX_EXPR_LABEL;
      tree->column = (int)i;
      tree->field = label_dimension(scope->table, i);
      scope->select->meaning.used[scope->table->column_count + i] = true;
      return true;
    }
  return false;
}

/* Resolves one name: a column of the table, a label, a column of a joined table, then an alias. */
static int resolve_name(const names_scope *scope, tsx_expr *tree) {
  const tsx_select *s = scope->select;
  if (scope->inner && (!tree->table || is_own_table(scope, tree->table))) {
    if (resolve_inner_item(scope, tree)) return TSR_OK;
  } else if (!tree->table || is_own_table(scope, tree->table)) {
    tree->column = find_column(scope->table, tree->name);
    tree->field = tree->column;
    if (tree->column >= 0) scope->select->meaning.used[tree->column] = true;
    if (tree->column >= 0 || resolve_label(scope, tree)) return TSR_OK;
    if (resolve_joined(scope, tree)) return check_collation(scope, tree);
    static const char *const rowids[] = {"rowid", "oid", "_rowid_"};
    for (int i = 0; i < 3; i++)
      if (!sqlite3_stricmp(scope->table->declared.hidden[i], tree->name) || !sqlite3_stricmp(tree->name, rowids[i]))
        return tsx_not_evaluated(s, tree->begin, tree->end, "hidden columns; write a time as in FROM t('2024-06-01')",
                                 scope->error);
  }
  if (resolve_joined(scope, tree)) return check_collation(scope, tree);
  if (!tree->table && scope->aliases && (tree->alias = find_alias(s, tree->name))) {
    tree->field = tree->alias->field;
    tree->has_aggregate = tree->alias->has_aggregate;
    tree->has_window = tree->alias->has_window;
    return TSR_OK;
  }
  return tsx_fail(scope->error, TSR_ERROR, "no such column: %s%s%s", tree->table ? tree->table : "",
                  tree->table ? "." : "", tree->name);
}

static int resolve(const names_scope *scope, tsx_expr *tree);

/* Resolves the names in OVER. */
static int resolve_over(const names_scope *scope, tsx_expr *tree) {
  const tsx_windowing *windows = &scope->select->windows;
  for (uint32_t i = 0; i < windows->name_count && tree->over->name; i++)
    if (windows->names[i].level == windows->level && !sqlite3_stricmp(windows->names[i].name, tree->over->name))
      tree->over = windows->names[i].over;
  tsx_over *over = tree->over;
  if (over->name) return tsx_fail(scope->error, TSR_ERROR, "no such window: %s", over->name);
  tsx_expr *others[] = {over->order, over->start.offset, over->last.offset};
  for (uint32_t i = 0; i < over->partition_count + 3; i++) {
    tsx_expr *part = i < over->partition_count ? over->partition[i] : others[i - over->partition_count];
    if (part) TSX_TRY(resolve(scope, part));
  }
  tree->field = TSX_FIELD_MANY;
  tree->has_window = true;
  return TSR_OK;
}

static int resolve(const names_scope *scope, tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_NAME && tree->column < 0 && !tree->alias) return resolve_name(scope, tree);
  if (tree->kind == TSX_EXPR_NAME || tree->kind == TSX_EXPR_JOINED || tree->kind == TSX_EXPR_LABEL) return TSR_OK;
  tree->field = TSX_FIELD_NONE;
  tree->has_aggregate = tree->kind == TSX_EXPR_AGGREGATE;
  tsx_expr *more[2] = {tree->base, tree->call.filter};
  for (uint32_t i = 0; i < tree->count + 2; i++) {
    tsx_expr *operand = i < tree->count ? tree->operands[i] : more[i - tree->count];
    if (!operand) continue;
    TSX_TRY(resolve(scope, operand));
    tree->field = combine_fields(tree->field, operand->field);
    tree->has_aggregate |= operand->has_aggregate;
    tree->has_window |= operand->has_window;
  }
  if (tree->kind == TSX_EXPR_WINDOW) return resolve_over(scope, tree);
  if (tree->kind == TSX_EXPR_AGGREGATE && tree->call.star) tree->field = TSX_FIELD_MANY;
  return TSR_OK;
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

/* Makes the item of one column that * expands to. */
static int expand_column(const names_scope *scope, const tsx_item *star, const tsx_expr *column, tsx_item *out) {
  tsx_arena *arena = &scope->select->arena;
  tsx_expr *tree = tsx_arena_take(arena, sizeof *tree);
  if (!tree) return tsx_out_of_memory(scope->error);
  *tree = *column;
  tree->operation = TSR_OP_COUNT;
  tree->name = tsx_arena_copy(arena, column->name, strlen(column->name));
  tree->begin = star->begin;
  tree->end = star->end;
  *out = (tsx_item){.tree = tree, .begin = star->begin, .end = star->end};
  return tree->name ? TSR_OK : tsx_out_of_memory(scope->error);
}

/* Returns true if USING names the column: then * shows that of the table before alone. */
static bool is_in_using(const tsx_join *join, const char *name) {
  for (uint32_t i = 0; i < join->same_count; i++)
    if (!sqlite3_stricmp(join->same[i], name)) return true;
  return false;
}

/* Appends the items that one * expands to. */
static int expand_star(names_scope *scope, const tsx_item *star, tsx_item *out, uint32_t *count) {
  tsx_select *s = scope->select;
  bool any = false;
  if (scope->inner && (!*star->star || is_own_table(scope, star->star))) {
    any = true;
    for (uint32_t i = 0; i < scope->inner->item_count; i++) {
      const tsx_item *item = &scope->inner->items[i];
      tsx_expr column = {.kind = TSX_EXPR_NAME, .column = -1, .alias = item->tree, .field = item->tree->field};
      column.has_window = item->tree->has_window;
      const char *name = inner_name(item);
      column.name = (char *)(uintptr_t)(*name ? name : NO_NAME); /* the view names it after its words */
      TSX_TRY(expand_column(scope, star, &column, &out[(*count)++]));
    }
  } else if (!*star->star || is_own_table(scope, star->star)) {
    any = true;
    const int shown = tsx_column_sql(scope->table, TSX_AS_OF(scope->table));
    for (int i = 0; i < shown; i++) {
      const int own = tsx_column_own(scope->table, i);
      const tsx_label_column *label = tsx_label_column_at(scope->table, own);
      tsx_expr column = {.kind = TSX_EXPR_NAME, .column = own, .field = own};
      column.name = label ? label->name : scope->table->columns[own].name;
      if (label) (void)resolve_label(scope, &column);
      else s->meaning.used[own] = true;
      TSX_TRY(expand_column(scope, star, &column, &out[(*count)++]));
    }
  }
  for (uint32_t j = 0; j < scope->joins; j++) {
    const tsx_join *join = &s->joins[j];
    if (*star->star && sqlite3_stricmp(star->star, tsx_source_name(&join->source)) != 0) continue;
    any = true;
    const uint32_t shown = join->star ? join->star_count : join->column_count;
    for (uint32_t n = 0; n < shown; n++) {
      const uint32_t i = join->star ? join->star[n] : n;
      if (!*star->star && is_in_using(join, join->columns[i].name)) continue;
      const tsx_expr column = {
          .kind = TSX_EXPR_JOINED, .name = join->columns[i].name, .join = j, .column = (int)i, .field = join->on.field};
      TSX_TRY(expand_column(scope, star, &column, &out[*count]));
      TSX_TRY(check_collation(scope, out[(*count)++].tree));
    }
  }
  return any ? TSR_OK : tsx_fail(scope->error, TSR_ERROR, "no such table: %s", star->star);
}

static int resolve_items(names_scope *scope) {
  tsx_select *s = scope->select;
  uint64_t room = 0, all = (uint64_t)scope->table->column_count + scope->table->label_count;
  for (uint32_t j = 0; j < s->join_count; j++) all += s->joins[j].column_count;
  if (scope->inner) all += scope->inner->item_count;
  for (uint32_t i = 0; i < s->item_count; i++) room += s->items[i].tree ? 1 : all;
  tsx_item *items = tsx_arena_take(&s->arena, (room + 1) * sizeof *items);
  if (!items) return tsx_out_of_memory(scope->error);
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->item_count; i++) {
    const tsx_item *item = &s->items[i];
    if (item->tree) items[count++] = *item;
    TSX_TRY(item->tree ? resolve(scope, item->tree) : expand_star(scope, item, items, &count));
  }
  s->items = items;
  s->item_count = count;
  if (count > TSR_QUERY_COLUMNS) return tsx_fail(scope->error, TSR_ERROR, "more than %u columns", TSR_QUERY_COLUMNS);
  return TSR_OK;
}

/* Returns the ordinal in a term of GROUP BY or ORDER BY, or 0 if the term is something else; UINT64_MAX for a literal
 * 0, which is out of range. */
static uint64_t ordinal_of(const tsx_expr *tree) {
  while (tree->kind == TSX_EXPR_UNARY && tree->operation == TSR_OP_PLUS) tree = tree->operands[0];
  if (tree->kind != TSX_EXPR_LITERAL) return 0;
  if (!isdigit((unsigned char)tree->begin[0])) return 0;
  char *end;
  const bool hex = tree->end - tree->begin > 2 && (tree->begin[1] == 'x' || tree->begin[1] == 'X');
  const uint64_t n = strtoull(tree->begin, &end, hex ? 16 : 10);
  if (end != tree->end || n > INT32_MAX) return 0; /* SQLite treats larger numbers as constants */
  return n ? n : UINT64_MAX;
}

/* Resolves a term of GROUP BY or ORDER BY, which may name an item by ordinal or alias: *item is that item's number, or
 * -1. `number` is the term's place, for the message. */
static int resolve_term(names_scope *scope, tsx_expr **term, bool order, uint32_t number, int *item) {
  tsx_select *s = scope->select;
  const uint64_t ordinal = ordinal_of(*term);
  static const char *const endings[] = {"th", "st", "nd", "rd"};
  *item = -1;
  if (ordinal > s->item_count) {
    const uint32_t n = number + 1;
    const char *ending = n % 10 <= 3 && (n % 100) / 10 != 1 ? endings[n % 10] : "th";
    return tsx_fail(scope->error, TSR_ERROR, "%u%s %s BY term out of range - should be between 1 and %u", n, ending,
                    order ? "ORDER" : "GROUP", s->item_count);
  }
  if (ordinal) {
    *item = (int)ordinal - 1;
    *term = s->items[*item].tree;
    return TSR_OK;
  }
  if (order && (*term)->kind == TSX_EXPR_NAME && !(*term)->table)
    for (uint32_t i = 0; i < s->item_count; i++)
      if (s->items[i].name && !sqlite3_stricmp(s->items[i].name, (*term)->name)) {
        *item = (int)i;
        *term = s->items[i].tree;
        return TSR_OK;
      }
  return resolve(scope, *term);
}

/* ---- Keys and bare columns --------------------------------------------------------------------------------------- */

int tsx_select_key(const tsx_select *select, const tsx_expr *tree) {
  for (uint32_t i = 0; i < select->group_count; i++)
    if (tsx_expr_equal(select->group[i], tree)) return (int)i;
  return -1;
}

/* Counts the distinct min and max aggregates of a tree. *extreme is the first. */
static void count_extremes(const tsx_expr *tree, const tsx_expr **extreme, uint32_t *count) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_AGGREGATE) {
    const tsr_aggregate_function function = tree->call.function->aggregates;
    if (function != TSR_AGGREGATE_MIN && function != TSR_AGGREGATE_MAX) return;
    if (*extreme && tsx_expr_equal(*extreme, tree)) return;
    if (!*extreme) *extreme = tree;
    ++*count;
    return;
  }
  if (!tree->has_aggregate) return;
  if (tree->base) count_extremes(tree->base, extreme, count);
  for (uint32_t i = 0; i < tree->count; i++) count_extremes(tree->operands[i], extreme, count);
}

/* Returns the only min or max of the query, or NULL. */
static const tsx_expr *only_extreme(const tsx_select *s) {
  const tsx_expr *extreme = NULL;
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->item_count; i++) count_extremes(s->items[i].tree, &extreme, &count);
  for (uint32_t i = 0; i < s->order_count; i++) count_extremes(s->order[i].tree, &extreme, &count);
  if (s->having) count_extremes(s->having, &extreme, &count);
  return count == 1 ? extreme : NULL;
}

/* Refuses a column that is neither part of a key nor inside an aggregate, unless select.meaning.extreme supplies its
 * row. */
static int check_bare(const tsx_select *s, const tsx_expr *tree, tsr_error *error) {
  const tsx_expr *meaning = tsx_expr_meaning(tree);
  if (meaning->field == TSX_FIELD_NONE || meaning->kind == TSX_EXPR_AGGREGATE || tsx_select_key(s, meaning) >= 0)
    return TSR_OK;
  if (tsx_expr_is_column(meaning) && s->meaning.extreme) return TSR_OK;
  if (tsx_expr_is_column(meaning))
    return tsx_fail(error, TSR_ERROR, "'%.*s' is neither a key of GROUP BY nor in an aggregate",
                    (int)(tree->end - tree->begin), tree->begin);
  if (meaning->base) TSX_TRY(check_bare(s, meaning->base, error));
  for (uint32_t i = 0; i < meaning->count; i++) TSX_TRY(check_bare(s, meaning->operands[i], error));
  return TSR_OK;
}

/* SELECT DISTINCT over cells is a GROUP BY of all items. */
static int group_distinct(names_scope *scope) {
  tsx_select *s = scope->select;
  if (!(s->group = tsx_arena_take(&s->arena, s->item_count * sizeof *s->group))) return tsx_out_of_memory(scope->error);
  for (uint32_t i = 0; i < s->item_count; i++)
    if (tsx_select_key(s, s->items[i].tree) < 0) s->group[s->group_count++] = s->items[i].tree;
  s->distinct = false;
  return TSR_OK;
}

/* Finds out whether the results are groups, and checks the rules for groups. */
static int check_groups(names_scope *scope) {
  tsx_select *s = scope->select;
  for (uint32_t i = 0; i < s->item_count; i++) s->meaning.has_aggregate |= s->items[i].tree->has_aggregate;
  for (uint32_t i = 0; i < s->order_count; i++) s->meaning.has_aggregate |= s->order[i].tree->has_aggregate;
  s->meaning.has_aggregate |= s->having && s->having->has_aggregate;
  if (s->distinct && !s->meaning.has_aggregate && s->group_count == 0) TSX_TRY(group_distinct(scope));
  if (s->group_count > TSR_QUERY_KEYS)
    return tsx_fail(scope->error, TSR_ERROR, "more than %u keys of GROUP BY", TSR_QUERY_KEYS);
  if (s->group_count == 0 && !s->meaning.has_aggregate) {
    if (s->having) return tsx_fail(scope->error, TSR_ERROR, "HAVING clause on a non-aggregate query");
    return TSR_OK;
  }
  s->meaning.extreme = only_extreme(s);
  for (uint32_t i = 0; i < s->item_count; i++) TSX_TRY(check_bare(s, s->items[i].tree, scope->error));
  for (uint32_t i = 0; i < s->order_count; i++) TSX_TRY(check_bare(s, s->order[i].tree, scope->error));
  if (s->having) TSX_TRY(check_bare(s, s->having, scope->error));
  return TSR_OK;
}

/* ---- Joins ------------------------------------------------------------------------------------------------------- */

/* Returns true if a tree has a column of this joined table. */
static bool uses_join(const tsx_expr *tree, uint32_t join) {
  if (tree->kind == TSX_EXPR_JOINED && tree->join == join) return true;
  if (tree->base && uses_join(tree->base, join)) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (uses_join(tree->operands[i], join)) return true;
  return false;
}

/* Makes a placeholder: the node of a binding's number or of the joined row. */
static tsx_expr *make_placeholder(const names_scope *scope, uint32_t j, int column, const tsx_expr *words) {
  tsx_expr *tree = tsx_arena_take(&scope->select->arena, sizeof *tree);
  if (!tree) return NULL;
  *tree = (tsx_expr){.kind = TSX_EXPR_JOINED,
                     .operation = TSR_OP_COUNT,
                     .begin = words->begin,
                     .end = words->end,
                     .column = column,
                     .join = j,
                     .field = column == TSX_JOIN_ROW ? TSX_FIELD_MANY : words->field};
  return tree;
}

/* Adds the binding `column = expression of one dimension`. Returns false if the term has another form. */
static bool bind_column(const names_scope *scope, uint32_t j, const tsx_expr *column, const tsx_expr *left) {
  tsx_join *join = &scope->select->joins[j];
  if (column->kind != TSX_EXPR_JOINED || column->join != j || left->field < 0 || uses_join(left, j) ||
      !scope->table->columns[left->field].description->is_dimension || join->on.binding_count == TSX_BINDINGS_MAX)
    return false;
  join->on.bindings[join->on.binding_count++] = (tsx_binding){.column = (uint32_t)column->column, .left = left};
  return true;
}

/* Adds a filter on the joined table alone. */
static int add_filter(const names_scope *scope, uint32_t j, const tsx_expr *tree) {
  tsx_join *join = &scope->select->joins[j];
  const tsx_expr **more = tsx_arena_take(&scope->select->arena, (join->on.filter_count + 1) * sizeof *more);
  if (!more) return tsx_out_of_memory(scope->error);
  for (uint32_t i = 0; i < join->on.filter_count; i++) more[i] = join->on.filters[i];
  more[join->on.filter_count++] = tree;
  join->on.filters = more;
  return TSR_OK;
}

/* Divides ON into bindings and filters on the joined table alone. */
static int divide_bindings(const names_scope *scope, uint32_t j, const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    TSX_TRY(divide_bindings(scope, j, tree->operands[0]));
    return divide_bindings(scope, j, tree->operands[1]);
  }
  if (tree->field == TSX_FIELD_NONE) return add_filter(scope, j, tree);
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_EQUAL &&
      (bind_column(scope, j, tree->operands[0], tree->operands[1]) ||
       bind_column(scope, j, tree->operands[1], tree->operands[0])))
    return TSR_OK;
  return tsx_not_evaluated(scope->select, tree->begin, tree->end,
                           scope->select->joins[j].is_array
                               ? "a join sets columns of its table equal to expressions of one dimension each; one by "
                                 "offsets has each dimension in ON, and all of one side in GROUP BY"
                               : "a join sets columns of its table equal to expressions of one dimension each",
                           scope->error);
}

/* Resolves the ON of a join with bindings: it depends on several dimensions, or the joined table is an array. */
static int resolve_bindings(const names_scope *scope, uint32_t j) {
  tsx_join *join = &scope->select->joins[j];
  TSX_TRY(divide_bindings(scope, j, join->on.tree));
  join->on.field = TSX_FIELD_MANY;
  join->on.row = make_placeholder(scope, j, TSX_JOIN_ROW, join->on.tree);
  for (uint32_t b = 0; b < join->on.binding_count; b++)
    if (!(join->on.bindings[b].number = make_placeholder(scope, j, -1 - (int)b, join->on.bindings[b].left)))
      return tsx_out_of_memory(scope->error);
  return join->on.row ? TSR_OK : tsx_out_of_memory(scope->error);
}

/* Makes the span of a term: BETWEEN, or a comparison of an expression of one dimension with one of the joined table.
 * Returns false if the term has another form. */
static bool make_span(const names_scope *scope, uint32_t j, const tsx_expr *tree, tsx_span *span) {
  *span = (tsx_span){0};
  if (tree->kind == TSX_EXPR_BETWEEN && !tree->negated) {
    *span = (tsx_span){.left = tree->operands[0], .ends = {tree->operands[1], tree->operands[2]}};
  } else if (tree->kind == TSX_EXPR_BINARY) {
    const bool flipped = tree->operands[0]->field == TSX_FIELD_NONE;
    const tsr_operation operation = flipped ? tsx_bound_flipped(tree->operation) : tree->operation;
    const tsx_expr *end = tree->operands[flipped ? 0 : 1];
    const bool low = operation == TSR_OP_GREATER || operation == TSR_OP_GREATER_EQUAL || operation == TSR_OP_EQUAL;
    const bool high = operation == TSR_OP_LESS || operation == TSR_OP_LESS_EQUAL || operation == TSR_OP_EQUAL;
    if (!low && !high) return false;
    *span = (tsx_span){.left = tree->operands[flipped ? 1 : 0],
                       .ends = {low ? end : NULL, high ? end : NULL},
                       .outside = {operation == TSR_OP_GREATER, operation == TSR_OP_LESS}};
  }
  const tsx_expr *left = span->left;
  if (!left || left->field < 0 || uses_join(left, j) || !scope->table->columns[left->field].description->is_dimension)
    return false;
  for (int i = 0; i < 2; i++)
    if (span->ends[i] && span->ends[i]->field != TSX_FIELD_NONE) return false;
  return true;
}

/* Divides ON into spans and filters. Returns 1; 0 if a term has another form. *ranges counts those whose ends are of
 * the joined table, and no equality. */
static int divide_spans(const names_scope *scope, uint32_t j, const tsx_expr *tree, uint32_t *ranges) {
  tsx_join_on *on = &scope->select->joins[j].on;
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    const int code = divide_spans(scope, j, tree->operands[0], ranges);
    return code <= 0 ? code : divide_spans(scope, j, tree->operands[1], ranges);
  }
  if (tree->field == TSX_FIELD_NONE) {
    TSX_TRY(add_filter(scope, j, tree));
    return 1;
  }
  if (on->span_count == TSX_SPANS_MAX || !make_span(scope, j, tree, &on->spans[on->span_count])) return 0;
  const tsx_span *span = &on->spans[on->span_count++];
  const bool joined = (span->ends[0] && uses_join(span->ends[0], j)) || (span->ends[1] && uses_join(span->ends[1], j));
  *ranges += joined && span->ends[0] != span->ends[1];
  return 1;
}

static bool has_aggregates(const tsx_expr *tree) {
  if (!tree) return false;
  if (tree->kind == TSX_EXPR_AGGREGATE || has_aggregates(tree->base)) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (has_aggregates(tree->operands[i])) return true;
  return false;
}

/* Returns true if the results are groups. Unlike select.meaning, it is known before names are resolved. */
static bool will_group(const tsx_select *s) {
  bool groups = s->group_count > 0 || s->distinct || has_aggregates(s->having);
  for (uint32_t i = 0; i < s->item_count; i++) groups |= has_aggregates(s->items[i].tree);
  for (uint32_t i = 0; i < s->order_count; i++) groups |= has_aggregates(s->order[i].tree);
  return groups;
}

/* Makes the spans of a join by ranges. A join by one dimension, which SQLite evaluates on the coordinates, becomes one
 * only if nothing else depends on that. Returns 1; 0 if the join is of another kind. */
static int resolve_ranges(const names_scope *scope, uint32_t j) {
  tsx_select *s = scope->select;
  tsx_join_on *on = &s->joins[j].on;
  const bool simple = on->tree->field >= 0 && !s->joins[j].is_array;
  uint32_t ranges = 0;
  if (simple && (s->join_count > 1 || s->joins[j].left || !will_group(s))) return 0;
  const int divided = divide_spans(scope, j, on->tree, &ranges);
  if (divided < 0) return divided;
  if (!divided || ranges == 0) {
    on->span_count = on->filter_count = 0;
    return 0;
  }
  if (s->joins[j].left || !will_group(s))
    return tsx_not_evaluated(s, s->joins[j].begin, on->tree->end,
                             "a join by ranges is an inner join, of a query with GROUP BY or aggregates", scope->error);
  for (uint32_t i = 0; i < j; i++)
    if (s->joins[i].on.span_count)
      return tsx_not_evaluated(s, s->joins[j].begin, on->tree->end, "a second join by ranges: only one is possible",
                               scope->error);
  on->field = TSX_FIELD_MANY;
  return 1;
}

/* Resolves the ON of each join, from left to right. */
static int resolve_joins(names_scope *scope) {
  tsx_select *s = scope->select;
  for (uint32_t j = 0; j < s->join_count; j++) {
    tsx_join *join = &s->joins[j];
    scope->joins = j + 1;
    TSX_TRY(resolve(scope, join->on.tree));
    const int ranges = resolve_ranges(scope, j);
    if (ranges < 0) return ranges;
    if (ranges > 0) continue;
    if (join->on.tree->field == TSX_FIELD_MANY || (join->is_array && join->on.tree->field >= 0)) {
      TSX_TRY(resolve_bindings(scope, j));
      continue;
    }
    if (join->on.tree->field < 0 || !scope->table->columns[join->on.tree->field].description->is_dimension)
      return tsx_not_evaluated(s, join->on.tree->begin, join->on.tree->end,
                               "a join binds its table to exactly one dimension", scope->error);
    join->on.field = join->on.tree->field;
  }
  return TSR_OK;
}

#define INNER_NODES 1000u /* of an item, with what its names stand for */

/* Counts down *left for each node of a tree, with what its names stand for. Returns false if there are more. */
static bool fits_nodes(const tsx_expr *tree, uint32_t *left) {
  if (*left == 0) return false;
  --*left;
  if (tree->alias && !fits_nodes(tree->alias, left)) return false;
  if (tree->base && !fits_nodes(tree->base, left)) return false;
  if (tree->call.filter && !fits_nodes(tree->call.filter, left)) return false;
  for (uint32_t i = 0; i < tree->count; i++)
    if (!fits_nodes(tree->operands[i], left)) return false;
  return true;
}

/* Checks an item of a subquery in FROM. Items of items may double at each level, so their size is bounded. */
static int check_inner_item(const names_scope *scope, const tsx_inner *inner, const tsx_item *item) {
  uint32_t left = INNER_NODES;
  if (item->tree->has_aggregate)
    return tsx_not_evaluated(scope->select, item->begin, item->end,
                             "subqueries in FROM that do more than rename, compute and filter", scope->error);
  if (!inner->within || fits_nodes(item->tree, &left)) return TSR_OK;
  return tsx_not_evaluated(scope->select, item->begin, item->end,
                           "with its names replaced by their expressions, it is too large", scope->error);
}

/* Resolves the items of a subquery in FROM, and those of the ones within it before. */
static int resolve_inner(names_scope *scope, tsx_inner *inner) {
  tsx_select *s = scope->select;
  tsx_item *items = s->items;
  const uint32_t count = s->item_count;
  if (inner->within) TSX_TRY(resolve_inner(scope, inner->within));
  s->items = inner->items;
  s->item_count = inner->item_count;
  TSX_TRY(resolve_items(scope));
  inner->items = s->items;
  inner->item_count = s->item_count;
  s->items = items;
  s->item_count = count;
  for (uint32_t i = 0; i < inner->item_count; i++) TSX_TRY(check_inner_item(scope, inner, &inner->items[i]));
  if (inner->where) TSX_TRY(resolve(scope, inner->where));
  scope->inner = inner;
  return TSR_OK;
}

int tsx_select_resolve(tsx_select *select, const tsx_table *table, tsr_error *error) {
  names_scope scope = {.select = select, .table = table, .error = error};
  select->meaning.used = tsx_arena_take(&select->arena, ((uint64_t)table->column_count + table->label_count) *
                                                            sizeof *select->meaning.used);
  if (!select->meaning.used) return tsx_out_of_memory(error);
  int item;
  if (select->inner.begin) TSX_TRY(resolve_inner(&scope, &select->inner));
  TSX_TRY(resolve_joins(&scope));
  TSX_TRY(resolve_items(&scope));
  scope.aliases = true;
  if (select->where) TSX_TRY(resolve(&scope, select->where));
  if (select->around && select->windows.where[0]) TSX_TRY(resolve(&scope, select->windows.where[0]));
  for (uint32_t i = 0; i < select->group_count; i++) TSX_TRY(resolve_term(&scope, &select->group[i], false, i, &item));
  if (select->having) TSX_TRY(resolve(&scope, select->having));
  for (uint32_t i = 0; i < select->order_count; i++)
    TSX_TRY(resolve_term(&scope, &select->order[i].tree, true, i, &select->order[i].item));
  tsx_expr *constants[4 + 2 * TSX_JOINS_MAX] = {select->limit, select->offset, select->source.times[0],
                                                select->source.times[1]};
  for (uint32_t j = 0; j < select->join_count; j++)
    for (int i = 0; i < 2; i++) constants[4 + 2 * j + (uint32_t)i] = select->joins[j].source.times[i];
  for (uint32_t i = 0; i < 4 + 2 * select->join_count; i++) {
    if (!constants[i]) continue;
    TSX_TRY(resolve(&scope, constants[i]));
    if (constants[i]->field != TSX_FIELD_NONE || constants[i]->has_aggregate)
      return tsx_not_evaluated(select, constants[i]->begin, constants[i]->end, "expected a constant", error);
  }
  return check_groups(&scope);
}
