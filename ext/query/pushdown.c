/* pushdown.c: predicate pushdown: comparisons with constants that restrict what is read.
 *
 * Two sources. The top-level AND terms of the query's own WHERE (tsx_bounds_find) become ranges of a dimension,
 * directly or through a label. The constraints of the outer statement (tsx_outer_*) become ranges of a dimension, or
 * are tested against the values of an axis, or become conditions on cells. Everything is tested again later, by SQLite
 * or the engine, so a range may keep too much but never too little; except for datetimes, whose comparisons the ranges
 * decide, as in a table.
 *
 * An outer constraint supplies a value but not the affinity of the column that the value comes from. So the tests of
 * section "SQLite's order of values" answer whether the comparison may be true under any affinity.
 *
 * Sections: SQLite's order of values, ranges, comparisons in WHERE, constraints of the outer statement (their values,
 * as ranges of dimensions, on axes). */
#include "query/query_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sql/literals.h"
#include "connection/errors.h"
#include "table/table.h"
#include "values/compare.h"

/* ---- SQLite's order of values ------------------------------------------------------------------------------------ */

#define NUMBER_SIZE 400 /* a longer text is not taken for a number */
#define NUMBER_GAP  1e-12 /* the largest relative difference between SQLite's conversion of a text and ours */

static int compare_reals(double a, double b) { return (a > b) - (a < b); }

/* Compares exactly: the integer is not converted to a double. */
static int compare_mixed(int64_t integer, double real) {
  if (real >= 9223372036854775808.0) return -1;
  if (real < -9223372036854775808.0) return 1;
  const int64_t whole = (int64_t)real;
  return integer != whole ? (integer > whole) - (integer < whole) : compare_reals(0, real - (double)whole);
}

enum { CLASS_NULL, CLASS_NUMBER, CLASS_TEXT }; /* in SQLite's order */

static int value_class(const tsr_value *value) {
  return value->type == TSR_VALUE_NULL ? CLASS_NULL : value->type == TSR_VALUE_TEXT ? CLASS_TEXT : CLASS_NUMBER;
}

int tsx_values_compare(const tsr_value *a, const tsr_value *b) {
  const int class_a = value_class(a), class_b = value_class(b);
  if (class_a != class_b || class_a == CLASS_NULL) return class_a - class_b;
  if (class_a == CLASS_TEXT) {
    const uint64_t size = a->as.text.size < b->as.text.size ? a->as.text.size : b->as.text.size;
    const int order = size ? memcmp(a->as.text.bytes, b->as.text.bytes, size) : 0;
    return order ? order : (a->as.text.size > b->as.text.size) - (a->as.text.size < b->as.text.size);
  }
  const bool real_a = a->type == TSR_VALUE_REAL, real_b = b->type == TSR_VALUE_REAL;
  if (real_a && real_b) return compare_reals(a->as.real, b->as.real);
  if (real_b) return compare_mixed(a->as.integer, b->as.real);
  if (real_a) return -compare_mixed(b->as.integer, a->as.real);
  return (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
}

static bool satisfies(int op, int order) {
  switch (op) {
  case SQLITE_INDEX_CONSTRAINT_EQ:
  case SQLITE_INDEX_CONSTRAINT_IS: return order == 0;
  case SQLITE_INDEX_CONSTRAINT_GT: return order > 0;
  case SQLITE_INDEX_CONSTRAINT_GE: return order >= 0;
  case SQLITE_INDEX_CONSTRAINT_LT: return order < 0;
  case SQLITE_INDEX_CONSTRAINT_LE: return order <= 0;
  default: return true;
  }
}

/* Returns true if SQLite may convert a text to a number; *number approximates it. */
static bool text_is_number(const tsr_value *value, double *number) {
  const char *text = value->as.text.bytes, *blanks = " \t\n\v\f\r";
  uint64_t size = value->as.text.size;
  char copy[NUMBER_SIZE];
  tsr_error error = {0};
  while (size && *text && strchr(blanks, *text)) text++, size--;
  while (size && text[size - 1] && strchr(blanks, text[size - 1])) size--;
  if (!size || size >= sizeof copy || !strchr("0123456789+-.", *text)) return false;
  memcpy(copy, text, size);
  copy[size] = 0;
  return strspn(copy, "0123456789+-.eE") == size &&
         tsx_number_parse(TSR_FLOAT64, copy, false, number, &error) == TSR_OK;
}

static tsx_constant constant_make(const tsr_value *value) {
  tsx_constant constant = {.value = *value};
  constant.is_number = value_class(value) == CLASS_TEXT && text_is_number(value, &constant.number);
  return constant;
}

/* Returns true if a comparison of two texts may be true after SQLite has applied a numeric affinity to both. A number
 * sorts before a text. */
static bool texts_may(const tsr_value *value, int op, const tsx_constant *constant) {
  double x = 0;
  const bool equality = op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
  if (equality && !constant->is_number) return false; /* then only equal texts are equal */
  const bool is_number = text_is_number(value, &x);
  if (!is_number && !constant->is_number) return false;
  if (is_number != constant->is_number) return satisfies(op, is_number ? -1 : 1);
  const double y = constant->number, gap = fabs(x - y), most = fmax(fabs(x), fabs(y));
  return satisfies(op, compare_reals(x, y)) || (gap <= most * NUMBER_GAP && satisfies(op, 0));
}

/* Returns false only if `value op constant` is false or null in SQLite under every affinity. `op` is one of
 * SQLITE_INDEX_CONSTRAINT_EQ and the like; with `utf16`, texts are not ordered by their UTF-8 bytes. */
static bool value_may(const tsr_value *value, int op, const tsx_constant *constant, bool utf16) {
  const bool null = value->type == TSR_VALUE_NULL || constant->value.type == TSR_VALUE_NULL;
  if (op == SQLITE_INDEX_CONSTRAINT_IS && null) return value->type == constant->value.type;
  if (null) return false;
  const int class = value_class(value);
  if (class != value_class(&constant->value)) return true; /* an affinity may change the class */
  const bool equality = op == SQLITE_INDEX_CONSTRAINT_EQ || op == SQLITE_INDEX_CONSTRAINT_IS;
  if (class == CLASS_TEXT && utf16 && !equality) return true;
  if (satisfies(op, tsx_values_compare(value, &constant->value))) return true;
  return class == CLASS_TEXT && texts_may(value, op, constant);
}

static int compare_members(const void *a, const void *b) { return tsx_values_compare(a, b); }

static void value_list_sort(tsx_value_list *list) {
  qsort(list->values, list->count, sizeof *list->values, compare_members);
  for (uint64_t i = 0; i < list->count; i++) {
    list->texts |= value_class(&list->values[i]) == CLASS_TEXT;
    list->numbers |= value_class(&list->values[i]) == CLASS_NUMBER;
  }
}

/* Returns false only if no value of a sorted list can equal `value`. SQLite has applied the affinity of IN to the list,
 * but not to `value`. */
static bool value_may_be_in(const tsr_value *value, const tsx_value_list *list) {
  const int class = value_class(value);
  if (class == CLASS_NULL) return false;
  if (class == CLASS_TEXT ? list->numbers : list->texts) return true;
  return bsearch(value, list->values, list->count, sizeof *list->values, compare_members) != NULL;
}

#define UNEQUAL_FROM 3051000 /* since this version, SQLite offers <> and IS NOT to a table (best_index.c) */
#define LABEL_ROOM   16 /* initial room for the intervals of a label */

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

typedef struct range_list { /* a growing list of ranges, in the query's arena */
  tsr_range *ranges;
  uint64_t count, room;
  bool all;
} range_list;

/* Copies one bound of a range, which may point into a SQLite value or into the tsx_ranges itself. */
static const void *copy_end(tsx_query *query, const tsx_column *column, const void *end, uint64_t size) {
  const tsr_field *field = column->description;
  const uint64_t bytes = field->values_per_cell == TSR_VARIABLE ? size : tsr_datatype_size(field->datatype);
  return end ? tsx_arena_copy(&query->select.arena, end, bytes) : NULL;
}

static int list_add(tsx_query *query, const tsx_column *column, const tsx_ranges *ranges, range_list *list,
                    tsr_error *error) {
  if (ranges->count == TSX_NO_MEMORY) return tsx_out_of_memory(error);
  list->all |= ranges->count == TSX_EVERYTHING;
  for (int i = 0; i < ranges->count; i++) {
    if (list->count == list->room) {
      tsr_range *more = tsx_arena_take(&query->select.arena, (2 * list->room + 4) * sizeof *more);
      if (!more) return tsx_out_of_memory(error);
      if (list->count) memcpy(more, list->ranges, list->count * sizeof *more);
      list->ranges = more;
      list->room = 2 * list->room + 4;
    }
    const tsr_range *given = &ranges->ranges[i];
    tsr_range *range = &list->ranges[list->count];
    *range = *given;
    range->low = copy_end(query, column, given->low, given->low_size);
    range->high = copy_end(query, column, given->high, given->high_size);
    if ((given->low && !range->low) || (given->high && !range->high)) return tsx_out_of_memory(error);
    list->count++;
  }
  return TSR_OK;
}

int tsx_bound_ranges(tsx_query *query, const tsx_column *column, tsx_op op, sqlite3_value *const *values,
                     uint32_t count, unsigned rules, tsr_ranges *set, tsr_error *error) {
  range_list list = {0};
  tsx_ranges ranges;
  rules |= tsx_connection_text(query->connection);
  for (uint32_t v = 0; v < count && !list.all; v++) {
    tsx_ranges_make(column, op, values[v], rules, &ranges);
    TSX_TRY(list_add(query, column, &ranges, &list, error));
    const bool decimals = tsx_times_as_text(column, op, values[v], rules);
    for (int part = 0; decimals && part < TSX_DECIMAL_PARTS; part++) {
      tsx_times_decimals(column, op, values[v], rules, part, &ranges);
      TSX_TRY(list_add(query, column, &ranges, &list, error));
    }
  }
  *set = (tsr_ranges){.ranges = list.ranges, .count = list.all ? 0 : list.count, .all = list.all};
  return TSR_OK;
}

static int bound_take(tsx_query *query, int column, tsx_bound_range **out, tsr_error *error) {
  tsx_bound_range *bound = *out = tsx_arena_take(&query->select.arena, sizeof *bound);
  if (!bound) return tsx_out_of_memory(error);
  *bound = (tsx_bound_range){.next = query->bounds, .column = column, .after = query->bounds_after, .set.all = true};
  query->bounds = bound;
  return TSR_OK;
}

/* Adds the ranges of a comparison to those of a dimension, for which tsx_ranges_possible is true. */
static int bound_add(tsx_query *query, int column, tsx_op op, sqlite3_value *const *values, uint32_t count,
                     unsigned rules, tsr_error *error) {
  tsx_bound_range *bound;
  TSX_TRY(bound_take(query, column, &bound, error));
  return tsx_bound_ranges(query, &query->table->columns[column], op, values, count, rules, &bound->set, error);
}

/* Finds the coordinates whose label is in `set`, and adds them as ranges of the label's dimension. */
static int bound_add_label(tsx_query *query, const tsx_expr *tree, const tsr_ranges *set, const tsx_label_state *state,
                           tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  tsx_bound_range *bound;
  if (set->all) return TSR_OK;
  TSX_TRY(bound_take(query, tree->field, &bound, error));
  uint64_t count = 0, room = LABEL_ROOM;
  tsr_interval *intervals;
  int code;
  do {
    intervals = tsx_arena_take(arena, room * sizeof *intervals);
    if (!intervals) return tsx_out_of_memory(error);
    code = tsr_label_find(state->index, set, true, room, intervals, &count, error);
    room *= LABEL_ROOM;
  } while (code == TSR_RANGE && room <= LABEL_ROOM * (uint64_t)TSX_COORDINATES_MAX);
  if (code < 0) return code;
  tsr_range *ranges = tsx_arena_take(arena, (count + 1) * sizeof *ranges);
  if (!ranges) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < count; i++) ranges[i] = (tsr_range){.low = &intervals[i].low, .high = &intervals[i].high};
  bound->set = (tsr_ranges){.ranges = ranges, .count = count};
  return TSR_OK;
}

/* ---- Comparisons in WHERE ---------------------------------------------------------------------------------------- */

tsr_operation tsx_bound_flipped(tsr_operation operation) {
  switch (operation) {
  case TSR_OP_LESS: return TSR_OP_GREATER;
  case TSR_OP_LESS_EQUAL: return TSR_OP_GREATER_EQUAL;
  case TSR_OP_GREATER: return TSR_OP_LESS;
  case TSR_OP_GREATER_EQUAL: return TSR_OP_LESS_EQUAL;
  default: return operation;
  }
}

tsx_op tsx_bound_op(tsr_operation operation) {
  switch (operation) {
  case TSR_OP_EQUAL: return TSX_EQ;
  case TSR_OP_LESS: return TSX_LT;
  case TSR_OP_LESS_EQUAL: return TSX_LE;
  case TSR_OP_GREATER: return TSX_GT;
  case TSR_OP_GREATER_EQUAL: return TSX_GE;
  case TSR_OP_IS: return TSX_IS;
  case TSR_OP_UNEQUAL: return TSX_NE;
  case TSR_OP_IS_NOT: return TSX_ISNOT;
  default: return TSX_NOTNULL;
  }
}

typedef struct comparison { /* of a column or a label with constants */
  const tsx_expr *term, *left;
  tsx_op op; /* TSX_IN: equals any of `rights` */
  tsx_expr *const *right_sides;
  uint32_t count;
  sqlite3_value **values; /* [count], or NULL */
  bool partial; /* one bound of a BETWEEN whose other bound is not constant */
} comparison;

static bool bound_is_constant(const tsx_expr *tree) { return tree->field == TSX_FIELD_NONE && !tree->has_aggregate; }

static const tsx_column *compared_column(const tsx_query *query, const comparison *c) {
  return c->left->kind == TSX_EXPR_LABEL ? &query->table->labels[c->left->column].column
                                         : &query->table->columns[c->left->column];
}

static int comparison_evaluate(const tsx_query *query, comparison *c, tsr_error *error) {
  c->values = sqlite3_malloc64((c->count + 1) * sizeof *c->values);
  if (!c->values) return tsx_out_of_memory(error);
  memset(c->values, 0, (c->count + 1) * sizeof *c->values);
  const bool text = c->op == TSX_IN && compared_column(query, c)->form == TSX_DATETIME;
  for (uint32_t i = 0; i < c->count; i++) {
    const tsx_expr *right = tsx_expr_meaning(c->right_sides[i]);
    TSX_TRY(text ? tsx_query_text(query, right, &c->values[i], error)
                 : tsx_query_constant(query, right, &c->values[i], error));
  }
  return TSR_OK;
}

static void comparison_release(comparison *c) {
  for (uint32_t i = 0; i < c->count && c->values; i++) sqlite3_value_free(c->values[i]);
  sqlite3_free(c->values);
}

/* Returns true if the ranges of an integer dimension are exactly what the comparison says. Lists are left out: between
 * their values an axis has coordinates that no cell needs. So are queries with windows, which ask an axis for the
 * coordinates that WHERE leaves. */
static bool comparison_is_exact(const tsx_query *query, const comparison *c) {
  const tsx_column *column = compared_column(query, c);
  if (c->left->kind != TSX_EXPR_NAME || !column->description->is_dimension || column->form > TSX_UINT32) return false;
  if (query->select.windows.count) return false;
  if (c->op != TSX_EQ && c->op != TSX_LT && c->op != TSX_LE && c->op != TSX_GT && c->op != TSX_GE) return false;
  return c->count == 1 && sqlite3_value_type(c->values[0]) == SQLITE_INTEGER;
}

/* Returns true if the table would decide the comparison, as instants. best_index.c has the same rules. */
static bool comparison_decides(const tsx_query *query, const comparison *c) {
  const tsx_column *column = compared_column(query, c);
  const tsx_op op = c->op == TSX_ISNOT ? TSX_EQ : c->op;
  const bool unequal = c->op == TSX_NE || c->op == TSX_ISNOT;
  if (column->form != TSX_DATETIME || c->partial) return false;
  if (unequal && sqlite3_libversion_number() < UNEQUAL_FROM) return false;
  if (c->left->kind == TSX_EXPR_LABEL && (unequal || op == TSX_IS)) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    const bool known = op != TSX_IN && tsx_expr_meaning(c->right_sides[i])->kind == TSX_EXPR_LITERAL;
    if (!tsx_ranges_exact(column, op, known ? c->values[i] : NULL, tsx_connection_utf16(query->connection)))
      return false;
  }
  return true;
}

/* Returns true if a plain comparison (TSX_SQLITE_RULES) restricts nothing, because a value compared with text is not
 * text. */
static bool comparison_is_open(const tsx_column *column, const comparison *c) {
  const bool text = column->form == TSX_DATETIME || !strcmp(column->declared, "TEXT");
  for (uint32_t i = 0; i < c->count && text; i++)
    if (sqlite3_value_type(c->values[i]) != SQLITE_TEXT) return true;
  return false;
}

/* Returns true if the comparison can become ranges: of a dimension, or of a datetime in the engine. */
static bool comparison_matters(const tsx_query *query, const comparison *c) {
  const tsx_column *column = compared_column(query, c);
  if (!tsx_ranges_possible(column)) return false;
  if (c->left->kind != TSX_EXPR_LABEL) return column->description->is_dimension || column->form == TSX_DATETIME;
  return c->left->field >= 0 && tsx_axis_possible(&query->table->columns[c->left->field]);
}

/* Adds a comparison to the ranges of a dimension; none are needed without a snapshot. IS on a label is not pushed down
 * plainly, since a coordinate without a label may satisfy it. */
static int comparison_add(tsx_query *query, const comparison *c, unsigned rules, tsr_error *error) {
  const bool label = c->left->kind == TSX_EXPR_LABEL;
  const tsx_column *column = compared_column(query, c);
  tsr_ranges set;
  if (!query->shown || (!label && !column->description->is_dimension)) return TSR_OK;
  if (rules && (c->op > TSX_IN || comparison_is_open(column, c) || (label && c->op == TSX_IS))) return TSR_OK;
  if (!label) return bound_add(query, c->left->column, c->op, c->values, c->count, rules, error);
  tsx_label_state *state = NULL; /* first, since it also takes new texts of the label's enumeration */
  TSX_TRY(tsx_label_state_take(query->table, &query->table->labels[c->left->column], query->shown->since,
                               query->shown->as_of, &state, error));
  int code = tsx_bound_ranges(query, column, c->op, c->values, c->count, rules, &set, error);
  if (code >= 0) code = bound_add_label(query, c->left, &set, state, error);
  tsx_label_state_release(state);
  return code;
}

static int comparison_decided(tsx_query *query, const tsx_expr *term, tsr_error *error) {
  tsx_decided *decided = tsx_arena_take(&query->select.arena, sizeof *decided);
  if (!decided) return tsx_out_of_memory(error);
  *decided = (tsx_decided){.next = query->decided, .tree = term, .after = query->bounds_after};
  query->decided = decided;
  return TSR_OK;
}

bool tsx_bounds_decide(const tsx_query *query, const tsx_expr *term) {
  const tsx_decided *decided = query->decided;
  while (decided && decided->tree != term) decided = decided->next;
  return decided != NULL;
}

/* Adds the comparisons of one term; BETWEEN has two. The table decides both or neither. */
static int term_add(tsx_query *query, comparison *parts, uint32_t count, tsr_error *error) {
  bool decides = true, exact = true;
  if (!comparison_matters(query, &parts[0])) return TSR_OK;
  for (uint32_t i = 0; i < count; i++) TSX_TRY(comparison_evaluate(query, &parts[i], error));
  for (uint32_t i = 0; i < count; i++) decides = decides && comparison_decides(query, &parts[i]);
  for (uint32_t i = 0; i < count; i++) exact = exact && !parts[i].partial && comparison_is_exact(query, &parts[i]);
  for (uint32_t i = 0; i < count; i++) TSX_TRY(comparison_add(query, &parts[i], decides ? 0 : TSX_SQLITE_RULES, error));
  return decides || exact ? comparison_decided(query, parts[0].term, error) : TSR_OK;
}

/* Finds the comparisons of a term with constants. Returns their number, 0 to 2. */
static uint32_t term_find(const tsx_expr *term, comparison parts[2]) {
  if (term->count == 0) return 0;
  const tsx_expr *left = tsx_expr_meaning(term->operands[0]);
  const bool column = left->kind == TSX_EXPR_NAME || left->kind == TSX_EXPR_LABEL;
  parts[0] = parts[1] = (comparison){.term = term, .left = left, .count = 1};
  if (term->kind == TSX_EXPR_IN && column && !term->negated && term->count > 1) {
    for (uint32_t i = 1; i < term->count; i++)
      if (!bound_is_constant(term->operands[i])) return 0;
    parts[0].op = term->count == 2 ? TSX_EQ : TSX_IN; /* SQLite turns a list of one value into = */
    parts[0].right_sides = term->operands + 1;
    parts[0].count = term->count - 1;
    return 1;
  }
  if (term->kind == TSX_EXPR_BETWEEN && column && !term->negated) {
    uint32_t n = 0;
    for (uint32_t i = 1; i <= 2; i++) {
      if (!bound_is_constant(term->operands[i])) continue;
      parts[n].op = i == 1 ? TSX_GE : TSX_LE;
      parts[n++].right_sides = term->operands + i;
    }
    parts[0].partial = n == 1;
    return n;
  }
  if (term->kind != TSX_EXPR_BINARY) return 0;
  const tsx_expr *right = tsx_expr_meaning(term->operands[1]);
  const bool swapped = (right->kind == TSX_EXPR_NAME || right->kind == TSX_EXPR_LABEL) && bound_is_constant(left);
  parts[0].left = swapped ? right : left;
  parts[0].op = tsx_bound_op(swapped ? tsx_bound_flipped(term->operation) : term->operation);
  parts[0].right_sides = term->operands + !swapped;
  return parts[0].op != TSX_NOTNULL && (swapped || (column && bound_is_constant(right)));
}

int tsx_bounds_find(tsx_query *query, const tsx_expr *where, tsr_error *error) {
  comparison parts[2];
  where = tsx_expr_meaning(where);
  if (where->kind == TSX_EXPR_BINARY && where->operation == TSR_OP_AND) {
    TSX_TRY(tsx_bounds_find(query, where->operands[0], error));
    return tsx_bounds_find(query, where->operands[1], error);
  }
  const uint32_t count = term_find(where, parts);
  const int code = count ? term_add(query, parts, count, error) : TSR_OK;
  for (uint32_t i = 0; i < count; i++) comparison_release(&parts[i]);
  return code;
}

/* ---- Constraints of the outer statement -------------------------------------------------------------------------- */

#define OUTER_LIST_MAX 65536u /* values of an IN; a longer list is left to SQLite */

static const tsx_expr *outer_tree(const tsx_query *query, const tsx_outer_constraint *outer) {
  return tsx_expr_meaning(query->select.items[outer->item].tree);
}

/* Returns true if the tree is a dimension whose comparisons become ranges directly, without testing its values one by
 * one. */
static bool outer_is_range(const tsx_query *query, const tsx_expr *tree) {
  if (tree->kind != TSX_EXPR_NAME) return false;
  const tsx_column *shows = &query->table->columns[tree->column];
  return shows->description->is_dimension && (!tsx_axis_possible(shows) || shows->form <= TSX_UINT32) &&
         tsx_ranges_possible(shows);
}

bool tsx_pushdown_possible(const tsx_query *query) {
  const tsx_select *s = &query->select;
  if (s->limit || s->distinct) return false;
  for (uint32_t k = 0; query->over_groups && k < s->group_count; k++) {
    uint32_t i = 0;
    while (i < s->item_count && tsx_select_key(s, s->items[i].tree) != (int)k) i++;
    if (i == s->item_count) return false;
  }
  return true;
}

/* Returns true if the item is a bare column of a table that is joined by ranges, so that its rows can be tested. */
static bool outer_is_joined(const tsx_query *query, const tsx_expr *tree) {
  return tree->kind == TSX_EXPR_JOINED && query->select.joins[tree->join].on.span_count > 0;
}

void tsx_pushdown_rows_append(const tsx_query *query, sqlite3_str *out) {
  for (uint32_t i = 0; i < query->outer_count; i++) {
    const tsx_outer_constraint *outer = &query->outer[i];
    const tsx_expr *tree = outer_tree(query, outer);
    if (!outer_is_joined(query, tree) || outer->in || outer->op != SQLITE_INDEX_CONSTRAINT_EQ) continue;
    const char *name = query->select.joins[tree->join].columns[tree->column].name;
    /* of a text and a number, SQLite may convert either in the statement around */
    sqlite3_str_appendf(
        out,
        " AND (_tessera_join%u.\"%w\" = ?%u OR (typeof(_tessera_join%u.\"%w\") = 'text') <> (typeof(?%u) = 'text'))",
        tree->join, name, i + 1, tree->join, name, i + 1);
  }
}

int tsx_pushdown_rows_bind(const tsx_query *query, sqlite3_stmt *statement, tsr_error *error) {
  const int parameters = sqlite3_bind_parameter_count(statement);
  for (uint32_t i = 0; i < query->outer_count && (int)i < parameters; i++) {
    if (query->outer[i].in) continue;
    const int code = sqlite3_bind_value(statement, (int)i + 1, query->outer[i].value);
    if (code != SQLITE_OK) return tsx_fail(error, tsx_core_code(code), "%s", sqlite3_errmsg(query->connection->db));
  }
  return TSR_OK;
}

bool tsx_pushdown_takes(const tsx_query *query, uint32_t item) {
  const tsx_select *s = &query->select;
  if (!tsx_pushdown_possible(query)) return false;
  const tsx_expr *tree = tsx_expr_meaning(s->items[item].tree);
  if (s->windows.count && !outer_is_range(query, tree)) return false; /* a window sees more than the query gives */
  if (outer_is_joined(query, tree)) return tsx_select_key(s, tree) >= 0;
  if (tree->field < 0 || tree->has_aggregate ||
      (!tsx_axis_possible(&query->table->columns[tree->field]) && !outer_is_range(query, tree)))
    return false;
  return !query->over_groups || tsx_select_key(s, tree) >= 0;
}

/* Returns the operator of a constraint. The plan takes only comparisons (query_table.c). */
static tsx_op outer_op(const tsx_outer_constraint *outer) { return outer->in ? TSX_IN : (tsx_op)tsx_op_of(outer->op); }

/* Returns the column if the item is a bare datetime column in a query over cells, else NULL. */
static const tsx_column *outer_datetime(const tsx_query *query, uint32_t item) {
  const tsx_expr *tree = tsx_expr_meaning(query->select.items[item].tree);
  if (query->over_groups || !tsx_pushdown_possible(query) || tree->kind != TSX_EXPR_NAME) return NULL;
  const tsx_column *shows = &query->table->columns[tree->column];
  return shows->form == TSX_DATETIME ? shows : NULL;
}

bool tsx_pushdown_decides(const tsx_query *query, uint32_t item, int op, bool in, sqlite3_value *right) {
  const tsx_column *shows = outer_datetime(query, item);
  return shows &&
         tsx_ranges_exact(shows, in ? TSX_IN : (tsx_op)tsx_op_of(op), right, tsx_connection_utf16(query->connection));
}

int tsx_pushdown_request(tsx_query *query, tsx_outer_constraint *outer, uint32_t count, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    const tsx_expr *tree = outer_tree(query, &outer[i]);
    const int axis = outer[i].decides || outer_is_range(query, tree) ? -1 : tsx_axis_of(query, tree);
    outer[i].request = -1;
    if (axis < 0 || query->axes[axis].listed) continue;
    outer[i].request = tsx_axis_request(query, (uint32_t)axis, tree, false, error);
    if (outer[i].request < 0) return outer[i].request;
  }
  return TSR_OK;
}

/* ---- Values of constraints --------------------------------------------------------------------------------------- */

typedef struct outer_values { /* the value of a constraint, or the values of its IN list */
  sqlite3_value **values, *one;
  uint32_t count, room;
  bool many; /* more than OUTER_LIST_MAX */
} outer_values;

static int values_add(outer_values *v, sqlite3_value *value, tsr_error *error) {
  if (v->count == v->room) {
    const uint32_t room = v->room ? 2 * v->room : 16;
    sqlite3_value **more = sqlite3_realloc64(v->values, room * sizeof(sqlite3_value *));
    if (!more) return tsx_out_of_memory(error);
    v->values = more;
    v->room = room;
  }
  v->values[v->count] = sqlite3_value_dup(value);
  return v->values[v->count++] ? TSR_OK : tsx_out_of_memory(error);
}

static void values_free(outer_values *v) {
  for (uint32_t i = 0; i < v->count && v->values != &v->one; i++) sqlite3_value_free(v->values[i]);
  if (v->values != &v->one) sqlite3_free(v->values);
}

/* Takes the values of a constraint. values_free frees them, also after a failure. */
static int values_take(outer_values *v, const tsx_outer_constraint *outer, tsr_error *error) {
  sqlite3_value *member = NULL;
  *v = (outer_values){.one = outer->value};
  if (!outer->in) {
    v->values = &v->one;
    v->count = 1;
    return TSR_OK;
  }
  int step = sqlite3_vtab_in_first(outer->value, &member);
  for (; step == SQLITE_OK && member; step = sqlite3_vtab_in_next(outer->value, &member)) {
    v->many = v->count >= OUTER_LIST_MAX && !outer->decides;
    if (v->many) return TSR_OK;
    TSX_TRY(values_add(v, member, error));
  }
  if (step == SQLITE_OK || step == SQLITE_DONE) return TSR_OK;
  return tsx_fail(error, tsx_core_code(step), "the list of IN cannot be read");
}

/* ---- Constraints as ranges --------------------------------------------------------------------------------------- */

/* Adds a comparison with a dimension as ranges. SQLite may compare two texts as numbers, if a numeric column supplies
 * the value. So for a TEXT dimension only equality is pushed down, where equal texts are equal as numbers, too. */
static int outer_range(tsx_query *query, const tsx_outer_constraint *outer, const tsx_expr *tree, const outer_values *v,
                       tsr_error *error) {
  const tsx_op op = outer_op(outer);
  const bool equal = op == TSX_IN || op == TSX_EQ || op == TSX_IS;
  const bool text = !strcmp(query->table->columns[tree->column].declared, "TEXT");
  for (uint32_t i = 0; i < v->count; i++) {
    const int type = sqlite3_value_type(v->values[i]);
    if (text ? type != SQLITE_TEXT || !equal : type == SQLITE_BLOB) return TSR_OK;
  }
  return bound_add(query, tree->column, equal ? TSX_EQ : op, v->values, v->count, TSX_SQLITE_RULES, error);
}

/* Turns a constraint of the outer statement into a bound, if it is on a dimension or on a range of one. */
static int outer_bound(tsx_query *query, const tsx_outer_constraint *outer, tsr_error *error) {
  const tsx_expr *tree = outer_tree(query, outer);
  const bool range = outer_is_range(query, tree);
  const bool decides = outer->decides && query->table->columns[tree->column].description->is_dimension;
  outer_values values;
  if (!range && !decides) return TSR_OK;
  int code = values_take(&values, outer, error);
  if (code >= 0 && decides)
    code = bound_add(query, tree->column, outer_op(outer), values.values, values.count, 0, error);
  else if (code >= 0 && !values.many) code = outer_range(query, outer, tree, &values, error);
  values_free(&values);
  return code;
}

int tsx_pushdown_bounds(tsx_query *query, const tsx_outer_constraint *outer, uint32_t count, tsr_error *error) {
  int code = TSR_OK;
  query->outer = outer;
  query->outer_count = count;
  query->bounds_after = query->select.windows.count > 0;
  for (uint32_t i = 0; i < count && code >= 0; i++) code = outer_bound(query, &outer[i], error);
  query->bounds_after = false;
  return code;
}

/* Adds a decided comparison with a datetime attribute to the engine's condition. SQLite does not test it again. */
static int outer_decide(tsx_plan *plan, const tsx_outer_constraint *outer, const outer_values *v, tsr_error *error) {
  tsx_query *query = plan->query;
  const tsx_expr *tree = outer_tree(query, outer);
  const tsx_column *shows = &query->table->columns[tree->column];
  const tsx_op op = outer_op(outer);
  tsr_ranges set;
  if (op == TSX_IS && sqlite3_value_type(v->values[0]) == SQLITE_NULL)
    return tsx_lower_null(query, tree, &plan->where, error);
  TSX_TRY(tsx_bound_ranges(query, shows, op, v->values, v->count, 0, &set, error));
  return tsx_lower_ranges(query, tree, &set, &plan->where, error);
}

/* ---- Constraints on axes ----------------------------------------------------------------------------------------- */

typedef struct outer_test { /* a constraint, to be tested against the values of an axis */
  int op;
  bool in, utf16;
  tsx_value_list list; /* of IN */
  tsx_constant constant; /* otherwise */
} outer_test;

static int test_make(tsx_query *query, const tsx_outer_constraint *outer, const outer_values *v, outer_test *test,
                     tsr_error *error) {
  *test = (outer_test){.op = outer->op, .in = outer->in, .utf16 = tsx_connection_utf16(query->connection)};
  test->list.values = tsx_arena_take(&query->select.arena, ((uint64_t)v->count + 1) * sizeof *test->list.values);
  if (!test->list.values) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < v->count; i++) {
    const int type = sqlite3_value_type(v->values[i]);
    if (outer->in && (type == SQLITE_NULL || type == SQLITE_BLOB)) continue; /* no value of an axis equals it */
    TSX_TRY(tsx_query_copy(query, v->values[i], &test->list.values[test->list.count++], error));
  }
  if (outer->in) value_list_sort(&test->list);
  else test->constant = constant_make(&test->list.values[0]);
  return TSR_OK;
}

static bool test_may(const outer_test *test, const tsr_value *value) {
  return test->in ? value_may_be_in(value, &test->list) : value_may(value, test->op, &test->constant, test->utf16);
}

/* Drops the values of an axis that cannot satisfy a constraint. An enumerated attribute is left alone if a cell without
 * a value may satisfy it. */
static int outer_axis(tsx_query *query, const tsx_outer_constraint *outer, const outer_values *v, tsr_error *error) {
  const tsx_expr *tree = outer_tree(query, outer);
  const uint32_t place = (uint32_t)tsx_axis_of(query, tree);
  tsx_axis *axis = &query->axes[place];
  const bool labels = query->table->columns[axis->column].form == TSX_ENUMERATED;
  tsr_value null = {.type = TSR_VALUE_NULL};
  outer_test test;
  if (!outer->in && sqlite3_value_type(outer->value) == SQLITE_BLOB) return TSR_OK;
  TSX_TRY(test_make(query, outer, v, &test, error));
  if (labels) TSX_TRY(tsx_axis_null(query, place, tree, &null, error));
  if (labels && test_may(&test, &null)) return TSR_OK;
  if (!axis->kept) {
    axis->kept = tsx_arena_take(&query->select.arena, axis->count + 1);
    if (!axis->kept) return tsx_out_of_memory(error);
    memset(axis->kept, 1, axis->count);
  }
  const tsr_value *values = axis->values[outer->request];
  bool may = false;
  for (uint64_t i = 0; i < axis->count; i++) {
    const bool shared = i && values[i].type == TSR_VALUE_TEXT && values[i - 1].type == TSR_VALUE_TEXT &&
                        values[i].as.text.bytes == values[i - 1].as.text.bytes; /* axis_copy shares equal texts */
    if (!shared) may = test_may(&test, &values[i]);
    axis->kept[i] = axis->kept[i] && may;
  }
  return TSR_OK;
}

/* Turns the codes that the constraints have kept into conditions on cells. */
static int outer_labels(tsx_plan *plan, const tsx_outer_constraint *outer, uint32_t count, tsr_error *error) {
  tsx_query *query = plan->query;
  for (uint32_t a = 0; a < query->axis_count; a++) {
    if (!query->axes[a].kept || query->table->columns[query->axes[a].column].form != TSX_ENUMERATED) continue;
    for (uint32_t i = 0; i < count; i++) {
      const tsx_expr *tree = outer_tree(query, &outer[i]);
      if (outer[i].request < 0 || tree->field != query->axes[a].column) continue;
      TSX_TRY(tsx_lower_kept(query, tree, a, &plan->where, error));
      break;
    }
  }
  return TSR_OK;
}

int tsx_pushdown_apply(tsx_plan *plan, const tsx_outer_constraint *outer, uint32_t count, tsr_error *error) {
  for (uint32_t i = 0; i < count; i++) {
    const tsx_expr *tree = outer_tree(plan->query, &outer[i]);
    const bool decides = outer[i].decides && !plan->query->table->columns[tree->column].description->is_dimension;
    outer_values values;
    if (!decides && outer[i].request < 0) continue;
    int code = values_take(&values, &outer[i], error);
    if (code >= 0 && decides) code = outer_decide(plan, &outer[i], &values, error);
    else if (code >= 0 && !values.many) code = outer_axis(plan->query, &outer[i], &values, error);
    values_free(&values);
    if (code < 0) return code;
  }
  return outer_labels(plan, outer, count, error);
}
