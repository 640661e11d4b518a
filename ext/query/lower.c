/* lower.c: turns expression trees into expressions of the engine, which it evaluates over cells.
 *
 * This is for trees that depend on several columns or on an attribute. lower_tree works top-down: a subtree without
 * columns becomes a constant, a subtree that depends on one axis becomes a value table (coordinates.c), both evaluated
 * by SQLite; the rest must consist of operators and functions that the engine evaluates with exactly SQLite's results.
 * Anything else is refused with advice. An expression is a list of nodes in postorder: a node's operands come before
 * it, and the last node is the value. The lower_* functions return the number of a new node, or a TSR code < 0; the
 * helpers add_unary and add_binary pass on an operand that is an error.
 *
 * Comparisons follow SQLite's affinity rules; a datetime compared with constants becomes a test whether it is within
 * ranges (pushdown.c). tsx_lowered_check checks the types after the axes have been evaluated, since only then value
 * tables have types.
 *
 * Sections: messages about types, nodes, leaves, comparisons, LIKE and GLOB, other nodes, whole expressions. */
#include "query/query_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "values/compare.h"

/* ---- Messages about types ---------------------------------------------------------------------------------------- */

static const char *fault_name(tsr_value_type type) {
  switch (type) {
  case TSR_VALUE_INTEGER: return "INTEGER";
  case TSR_VALUE_UNSIGNED: return "UINT64";
  case TSR_VALUE_REAL: return "REAL";
  case TSR_VALUE_NUMBER: return "INTEGER or REAL";
  case TSR_VALUE_TEXT: return "TEXT";
  case TSR_VALUE_INSTANT: return "a datetime";
  case TSR_VALUE_OPAQUE: return "a cell of several values or bytes";
  case TSR_VALUE_NULL:
  default: return "NULL";
  }
}

static bool fault_is_number(tsr_value_type type) {
  return type == TSR_VALUE_INTEGER || type == TSR_VALUE_UNSIGNED || type == TSR_VALUE_REAL || type == TSR_VALUE_NUMBER;
}

/* Returns true if this operand of a CASE is a condition. */
static bool fault_is_condition(const tsr_node *n, uint32_t operand) {
  return n->operation == TSR_OP_CASE && operand % 2 == 0 && operand + 1 < n->operand_count;
}

static int fault_fail(const tsx_query *query, const tsx_expr *tree, char *what, const char *advice, tsr_error *error) {
  const int code =
      what ? tsx_expr_fail(&query->select, tree->begin, tree->end, what, advice, error) : tsx_out_of_memory(error);
  sqlite3_free(what);
  return code;
}

static int fault_refuse(const tsx_query *query, const tsx_expr *tree, char *advice, tsr_error *error) {
  const int code =
      advice ? tsx_not_evaluated(&query->select, tree->begin, tree->end, advice, error) : tsx_out_of_memory(error);
  sqlite3_free(advice);
  return code;
}

/* Branches of different types: names the type of the first branch, and the first type that differs from it. */
static int fault_mixed(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                       tsr_error *error) {
  tsr_value_type a = TSR_VALUE_NULL, b = TSR_VALUE_NULL;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const tsr_value_type type = types[n->operands[i]];
    if (fault_is_condition(n, i) || type == TSR_VALUE_NULL) continue;
    if (a == TSR_VALUE_NULL) a = type;
    else if (type != a && b == TSR_VALUE_NULL) b = type;
  }
  if (b == TSR_VALUE_NULL && a == TSR_VALUE_INSTANT)
    return fault_fail(query, tree, sqlite3_mprintf("datetimes of two units in branches: "), "use one unit", error);
  const bool numbers = fault_is_number(a) && (fault_is_number(b) || b == TSR_VALUE_NULL);
  if (numbers && a != TSR_VALUE_UNSIGNED && b != TSR_VALUE_UNSIGNED)
    return fault_fail(query, tree, sqlite3_mprintf("INTEGER in one branch, REAL in another: "), "CAST one of them",
                      error);
  return fault_fail(query, tree, sqlite3_mprintf("%s in one branch, %s in another: ", fault_name(a), fault_name(b)),
                    numbers ? "CAST one of them" : "all branches must be numbers, texts, or datetimes of one unit",
                    error);
}

/* Names the first operand that should be a number and is not. */
static int fault_no_number(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                           tsr_error *error) {
  const bool tests = n->operation == TSR_OP_AND || n->operation == TSR_OP_OR || n->operation == TSR_OP_NOT;
  const bool chooses = n->operation == TSR_OP_CASE || n->operation == TSR_OP_COALESCE || n->operation == TSR_OP_LEAST ||
                       n->operation == TSR_OP_GREATEST;
  for (uint32_t i = 0; i < n->operand_count; i++) {
    const tsr_value_type type = types[n->operands[i]];
    if (fault_is_number(type) || type == TSR_VALUE_NULL) continue;
    if (chooses && !fault_is_condition(n, i)) {
      if (type != TSR_VALUE_OPAQUE) continue;
      return fault_refuse(query, tree, sqlite3_mprintf("%s in a branch", fault_name(type)), error);
    }
    if (tests || fault_is_condition(n, i))
      return fault_refuse(query, tree, sqlite3_mprintf("%s is not a condition: compare it", fault_name(type)), error);
    return fault_refuse(query, tree, sqlite3_mprintf("%s, but expected a number", fault_name(type)), error);
  }
  return fault_refuse(query, tree, sqlite3_mprintf("this operator does not apply to its operands"), error);
}

/* Names the types of a comparison that the engine cannot make. */
static int fault_compare(const tsx_query *query, const tsx_expr *tree, const tsr_node *n, const tsr_value_type *types,
                         tsr_error *error) {
  const tsr_value_type a = types[n->operands[0]];
  for (uint32_t i = 1; i < n->operand_count; i++) {
    const tsr_value_type b = types[n->operands[i]];
    if (b == TSR_VALUE_NULL || (fault_is_number(a) && fault_is_number(b)) || (a == b && a == TSR_VALUE_TEXT)) continue;
    if (a == b && a == TSR_VALUE_INSTANT) continue;
    return fault_refuse(query, tree, sqlite3_mprintf("compares %s with %s", fault_name(a), fault_name(b)), error);
  }
  return fault_refuse(query, tree, sqlite3_mprintf("compares datetimes of two units"), error);
}

static bool fault_compares(tsr_operation operation) {
  switch (operation) {
  case TSR_OP_EQUAL:
  case TSR_OP_UNEQUAL:
  case TSR_OP_LESS:
  case TSR_OP_LESS_EQUAL:
  case TSR_OP_GREATER:
  case TSR_OP_GREATER_EQUAL:
  case TSR_OP_IS:
  case TSR_OP_IS_NOT:
  case TSR_OP_IN:
  case TSR_OP_NULLIF: return true;
  default: return false;
  }
}

/* Sets the error for the node that tsr_expression_types refused with this fault. `types` has the types of the earlier
 * nodes. Returns TSR_ERROR. */
static int fail_types(const tsx_query *query, const tsx_lowered *lowered, uint32_t node, tsr_expression_fault fault,
                      const tsr_value_type *types, tsr_error *error) {
  const tsx_expr *tree = lowered->trees[node];
  const tsr_node *n = &lowered->expression.nodes[node];
  if (fault == TSR_FAULT_TEXT_NUMBER)
    return tsx_expr_fail(&query->select, tree->begin, tree->end, "compares a number with text: ", "CAST one of them",
                         error);
  if (fault == TSR_FAULT_MIXED) return fault_mixed(query, tree, n, types, error);
  if (fault_compares(n->operation)) return fault_compare(query, tree, n, types, error);
  if (n->operation == TSR_OP_MATCH)
    return fault_refuse(query, tree,
                        sqlite3_mprintf("%s of %s, which is not text",
                                        tree->kind == TSX_EXPR_LIKE && tree->name[0] == 'g' ? "GLOB" : "LIKE",
                                        fault_name(types[n->operands[0]])),
                        error);
  return fault_no_number(query, tree, n, types, error);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

typedef struct lowering {
  tsx_query *query;
  tsr_node *nodes;
  const tsx_expr **trees;
  uint32_t count, room;
  bool alone; /* a trial: do not use the value tables of listed axes (engine_evaluates) */
  bool arithmetic; /* do not use value tables of axes */
  tsr_error *error;
} lowering;

/* Returns the number of a new node, or a TSR code < 0. */
static int add_node(lowering *l, tsr_operation operation, const tsx_expr *tree, const uint32_t *operands,
                    uint32_t count) {
  tsx_arena *arena = &l->query->select.arena;
  if (l->count == TSR_EXPRESSION_NODES)
    return tsx_expr_fail(&l->query->select, tree->begin, tree->end, "the expression is too long: ",
                         "the parts of one have at most 4096 operators, names and literals together", l->error);
  if (l->count == l->room) {
    const uint32_t room = l->room ? 2 * l->room : 16;
    tsr_node *nodes = tsx_arena_take(arena, room * sizeof *nodes);
    const tsx_expr **trees = tsx_arena_take(arena, room * sizeof *trees);
    if (!nodes || !trees) return tsx_out_of_memory(l->error);
    for (uint32_t i = 0; i < l->count; i++) {
      nodes[i] = l->nodes[i];
      trees[i] = l->trees[i];
    }
    l->nodes = nodes;
    l->trees = trees;
    l->room = room;
  }
  uint32_t *copy = tsx_arena_take(arena, (count + 1) * sizeof *copy);
  if (!copy) return tsx_out_of_memory(l->error);
  for (uint32_t i = 0; i < count; i++) copy[i] = operands[i];
  l->nodes[l->count] = (tsr_node){.operation = operation, .operands = copy, .operand_count = count};
  l->trees[l->count] = tree;
  return (int)l->count++;
}

static int add_unary(lowering *l, tsr_operation operation, const tsx_expr *tree, int a) {
  const uint32_t operands[1] = {(uint32_t)a};
  return a < 0 ? a : add_node(l, operation, tree, operands, 1);
}

static int add_binary(lowering *l, tsr_operation operation, const tsx_expr *tree, int a, int b) {
  const uint32_t operands[2] = {(uint32_t)a, (uint32_t)b};
  return a < 0 ? a : b < 0 ? b : add_node(l, operation, tree, operands, 2);
}

static int refuse(const lowering *l, const tsx_expr *tree, const char *advice) {
  return tsx_not_evaluated(&l->query->select, tree->begin, tree->end, advice, l->error);
}

static int lower_tree(lowering *l, const tsx_expr *tree);

/* ---- Leaves ------------------------------------------------------------------------------------------------------ */

static int lower_value(lowering *l, const tsx_expr *tree, const tsr_value *value) {
  const int node = add_node(l, TSR_OP_CONSTANT, tree, NULL, 0);
  if (node >= 0) l->nodes[node].value = *value;
  return node;
}

static int lower_integer(lowering *l, const tsx_expr *tree, int64_t integer) {
  const tsr_value value = {.type = TSR_VALUE_INTEGER, .as.integer = integer};
  return lower_value(l, tree, &value);
}

typedef enum affinity_applied { APPLY_NONE, APPLY_NUMBER, APPLY_UNSIGNED, APPLY_TEXT } affinity_applied;

/* Converts a text of decimal digits, compared with a UINT64 column, to its number. Returns false for other values. */
static bool read_unsigned(sqlite3_value *given, tsr_value *value) {
  const char *text = sqlite3_value_type(given) == SQLITE_TEXT ? (const char *)sqlite3_value_text(given) : NULL;
  const int size = text ? sqlite3_value_bytes(given) : 0;
  uint64_t number = 0;
  for (int i = 0; i < size; i++) {
    const unsigned digit = (unsigned char)text[i] - '0';
    if (digit > 9 || number > (UINT64_MAX - digit) / 10) return false;
    number = 10 * number + digit;
  }
  *value = (tsr_value){.type = number > INT64_MAX ? TSR_VALUE_UNSIGNED : TSR_VALUE_INTEGER};
  value->as.unsigned_integer = number;
  return size > 0;
}

/* Makes a constant, after applying the affinity of the other side of the comparison. */
static int lower_constant(lowering *l, const tsx_expr *tree, affinity_applied affinity) {
  sqlite3_value *given = NULL;
  tsr_value value;
  int code = tsx_query_constant(l->query, tree, &given, l->error);
  if (code < 0) return code;
  if (affinity == APPLY_NUMBER) (void)sqlite3_value_numeric_type(given);
  const int type = sqlite3_value_type(given);
  if (affinity == APPLY_UNSIGNED && read_unsigned(given, &value)) {
    code = TSR_OK;
  } else if (affinity == APPLY_TEXT && type != SQLITE_NULL && type != SQLITE_BLOB) { /* no affinity converts a blob */
    const char *text = (const char *)sqlite3_value_text(given);
    value = (tsr_value){.type = TSR_VALUE_TEXT};
    value.as.text.size = (uint64_t)sqlite3_value_bytes(given);
    value.as.text.bytes = text ? tsx_arena_copy(&l->query->select.arena, text, value.as.text.size) : NULL;
    code = value.as.text.bytes ? TSR_OK : tsx_out_of_memory(l->error);
  } else {
    code = tsx_query_copy(l->query, given, &value, l->error);
  }
  sqlite3_value_free(given);
  if (code < 0) return code == TSR_MISMATCH ? refuse(l, tree, "blobs") : code;
  return lower_value(l, tree, &value);
}

/* Makes a node for the cells of a column. */
static int lower_cells(lowering *l, const tsx_expr *tree, const tsx_column *shows) {
  const int node = add_node(l, TSR_OP_FIELD, tree, NULL, 0);
  if (node < 0) return node;
  l->nodes[node].field = shows->field;
  l->nodes[node].as_integer = shows->datetimes_integer;
  l->nodes[node].nat_is_null = shows->nat_is_null;
  return node;
}

static int lower_column(lowering *l, const tsx_expr *tree) {
  const tsx_column *shows = &l->query->table->columns[tree->column];
  if (shows->form == TSX_UINT64_SIGNED) return refuse(l, tree, "the table has the option uint64=signed");
  return lower_cells(l, tree, shows);
}

/* Makes a node for the value table of a tree on an axis. Nodes for the same tree share a table. */
static int lower_table(lowering *l, const tsx_expr *tree, uint32_t axis) {
  tsx_arena *arena = &l->query->select.arena;
  const int number = tsx_axis_request(l->query, axis, tree, false, l->error);
  if (number < 0) return number;
  for (tsx_value_use *use = l->query->uses; use; use = use->next)
    if (use->axis == axis && use->tree == (uint32_t)number) {
      const int again = add_node(l, TSR_OP_TABLE, tree, NULL, 0);
      if (again >= 0) l->nodes[again].table = use->table;
      return again;
    }
  tsx_value_use *use = tsx_arena_take(arena, sizeof *use);
  tsr_value_table *table = tsx_arena_take(arena, sizeof *table);
  if (!use || !table) return tsx_out_of_memory(l->error);
  *use = (tsx_value_use){.next = l->query->uses, .table = table, .axis = axis, .tree = (uint32_t)number, .words = tree};
  l->query->uses = use;
  const int node = add_node(l, TSR_OP_TABLE, tree, NULL, 0);
  if (node >= 0) l->nodes[node].table = table;
  return node;
}

/* Looks up a column of a table that is joined by ranges: the engine knows the row that a cell is paired with. */
static int lower_joined_row(lowering *l, const tsx_expr *tree) {
  const tsr_value_list *list = tsx_joined_column(l->query, tree->join, (uint32_t)tree->column);
  if (!list) return tsx_out_of_memory(l->error);
  const int row = add_node(l, TSR_OP_ROW, tree, NULL, 0), node = add_unary(l, TSR_OP_LOOKUP, tree, row);
  if (node >= 0) l->nodes[node].list = list;
  return node;
}

/* Looks up a column of a joined table: the sum of the bindings' numbers is the place in the box, which gives the number
 * of the joined row, which gives the value. For a placeholder, only tests whether the cell has a joined row. */
static int lower_joined(lowering *l, const tsx_expr *tree) {
  const tsx_join *join = &l->query->select.joins[tree->join];
  int node = -1;
  if (join->on.span_count) return lower_joined_row(l, tree);
  for (uint32_t b = 0; b < join->on.binding_count; b++) {
    const int axis = tsx_axis_of(l->query, join->on.bindings[b].number);
    if (axis < 0) return refuse(l, join->on.bindings[b].left, "its dimension has more than 1048576 coordinates");
    const int number = lower_table(l, join->on.bindings[b].number, (uint32_t)axis);
    node = b ? add_binary(l, TSR_OP_ADD, tree, node, number) : number;
    if (node < 0) return node;
  }
  if (node < 0) return refuse(l, tree, "its dimension has more than 1048576 coordinates");
  const bool row = tree->column < 0;
  for (int i = 0; i < (row ? 1 : 2); i++) {
    const tsr_value_list *list =
        i ? tsx_joined_column(l->query, tree->join, (uint32_t)tree->column) : tsx_joined_places(l->query, tree->join);
    if (!list) return tsx_out_of_memory(l->error);
    if ((node = add_unary(l, TSR_OP_LOOKUP, tree, node)) < 0) return node;
    l->nodes[node].list = list;
  }
  return row ? add_unary(l, TSR_OP_NOT_NULL, tree, node) : node;
}

/* Tests whether an enumerated cell has no value: its code is null or outside the enumeration. */
static int lower_no_value(lowering *l, const tsx_expr *tree, uint32_t axis) {
  const int column = l->query->axes[axis].column, field = add_node(l, TSR_OP_FIELD, tree, NULL, 0);
  if (field >= 0) l->nodes[field].field = l->query->table->columns[column].field;
  const int null = add_unary(l, TSR_OP_IS_NULL, tree, field), zero = null < 0 ? null : lower_integer(l, tree, 0);
  const int low = add_binary(l, TSR_OP_LESS, tree, zero < 0 ? zero : field, zero);
  const int end = low < 0 ? low : lower_integer(l, tree, (int64_t)l->query->axes[axis].count);
  const int high = add_binary(l, TSR_OP_GREATER_EQUAL, tree, end < 0 ? end : field, end);
  return add_binary(l, TSR_OP_OR, tree, null, add_binary(l, TSR_OP_OR, tree, low, high));
}

/* Makes a value table. If the expression of an enumerated attribute is not null for a cell without a value, a CASE
 * supplies that result. */
static int lower_axis(lowering *l, const tsx_expr *tree, uint32_t axis) {
  tsr_value null = {.type = TSR_VALUE_NULL};
  const int column = l->query->axes[axis].column;
  const bool dimension = l->query->table->columns[column].description->is_dimension;
  TSX_TRY(dimension || tree->kind == TSX_EXPR_NAME ? TSR_OK : tsx_axis_null(l->query, axis, tree, &null, l->error));
  if (null.type == TSR_VALUE_NULL) return lower_table(l, tree, axis);
  const int test = lower_no_value(l, tree, axis), value = test < 0 ? test : lower_value(l, tree, &null);
  const int table = value < 0 ? value : lower_table(l, tree, axis);
  if (table < 0) return table;
  const uint32_t operands[3] = {(uint32_t)test, (uint32_t)value, (uint32_t)table};
  return add_node(l, TSR_OP_CASE, tree, operands, 3);
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------- */

/* Returns true if a tree is a datetime column that the engine must compare as instants, since it has no axis. */
static bool is_time(const lowering *l, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  return tree->kind == TSX_EXPR_NAME && l->query->table->columns[tree->column].form == TSX_DATETIME &&
         tsx_axis_of(l->query, tree) < 0;
}

static bool is_constant(const tsx_expr *tree) { return tree->field == TSX_FIELD_NONE && !tree->has_aggregate; }

/* Returns the affinity that SQLite applies to the other side of a comparison with this tree. Only columns and CASTs
 * have one. */
static affinity_applied affinity_of(const lowering *l, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_CAST) {
    const char *type = tree->name;
    if (tsx_type_has(type, "INT")) return APPLY_NUMBER;
    const bool text = tsx_type_has(type, "CHAR") || tsx_type_has(type, "CLOB") || tsx_type_has(type, "TEXT");
    return text ? APPLY_TEXT : tsx_type_has(type, "BLOB") ? APPLY_NONE : APPLY_NUMBER;
  }
  if (!tsx_expr_is_column(tree)) return APPLY_NONE;
  const tsx_column *shows = tree->kind == TSX_EXPR_NAME ? &l->query->table->columns[tree->column] : NULL;
  if (shows && shows->description->datatype == TSR_UINT64) return APPLY_UNSIGNED;
  const char *declared = tsx_query_declared(l->query, tree);
  return !strncmp(declared, "INT", 3) || !strcmp(declared, "REAL") || !strcmp(declared, "NUM") ? APPLY_NUMBER
         : !strcmp(declared, "TEXT")                                                           ? APPLY_TEXT
                                                                                               : APPLY_NONE;
}

/* Makes one side of a comparison. A constant gets the affinity of the other side. */
static int lower_side(lowering *l, const tsx_expr *tree, const tsx_expr *other) {
  if (!is_constant(tree)) return lower_tree(l, tree);
  return lower_constant(l, tree, affinity_of(l, other));
}

/* Converts ranges to sorted, disjoint intervals. Returns their number. */
static uint64_t make_intervals(const tsr_ranges *ranges, int64_t (*intervals)[2]) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < ranges->count; i++) {
    const tsr_range *r = &ranges->ranges[i];
    const int64_t low = r->low ? tsx_load_signed(r->low, 8) : INT64_MIN;
    const int64_t high = r->high ? tsx_load_signed(r->high, 8) : INT64_MAX;
    uint64_t place = count;
    if (low > high) continue;
    for (; place > 0 && intervals[place - 1][0] > low; place--) memcpy(intervals[place], intervals[place - 1], 16);
    intervals[place][0] = low;
    intervals[place][1] = high;
    count++;
  }
  uint64_t merged = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (merged == 0 || intervals[merged - 1][1] < intervals[i][0]) memmove(intervals[merged++], intervals[i], 16);
    else if (intervals[merged - 1][1] < intervals[i][1]) intervals[merged - 1][1] = intervals[i][1];
  }
  return merged;
}

/* Tests whether a column is within ranges. */
static int lower_ranges(lowering *l, const tsx_expr *tree, const tsx_expr *column, const tsr_ranges *ranges) {
  int64_t(*intervals)[2] = tsx_arena_take(&l->query->select.arena, (ranges->count + 1) * sizeof *intervals);
  if (!intervals) return tsx_out_of_memory(l->error);
  const uint64_t count = make_intervals(ranges, intervals);
  const int node = add_unary(l, TSR_OP_WITHIN, tree, lower_column(l, column));
  if (node >= 0)
    l->nodes[node].within = (tsr_interval_list){.intervals = (const int64_t(*)[2])intervals, .count = count};
  return node;
}

/* Sets the range of the datetimes that equal a decimal text: a datetime outside the printable range is shown as an
 * integer, so at most that one. */
static void set_decimal_range(const tsx_column *shows, sqlite3_value *text, tsr_range *range, int64_t *at,
                              tsr_ranges *out) {
  char decimal[24];
  *at = sqlite3_value_int64(text);
  sqlite3_snprintf(sizeof decimal, decimal, "%lld", (long long)*at);
  const char *given = (const char *)sqlite3_value_text(text);
  const bool shown = given && !strcmp(decimal, given) && (*at < shows->printable_low || *at > shows->printable_high);
  *range = (tsr_range){.low = at, .high = at};
  *out = (tsr_ranges){.ranges = range, .count = shown};
}

/* Makes `column op constant` for a datetime: the column is within the ranges that satisfy the comparison. */
static int lower_within(lowering *l, const tsx_expr *tree, const tsx_expr *column, tsr_operation operation,
                        const tsx_expr *constant) {
  column = tsx_expr_meaning(column);
  const tsx_column *shows = &l->query->table->columns[column->column];
  const bool is = operation == TSR_OP_IS || operation == TSR_OP_IS_NOT, decided = tsx_bounds_decide(l->query, tree);
  const bool equality = is || operation == TSR_OP_EQUAL || operation == TSR_OP_UNEQUAL;
  const tsx_op op = equality ? TSX_EQ : tsx_bound_op(operation);
  sqlite3_value *value = NULL;
  tsr_ranges ranges = {.all = true};
  tsr_range decimal;
  int64_t at;
  const bool list = tree->kind == TSX_EXPR_IN && tree->count > 2; /* SQLite turns a list of one value into = */
  /* The column's TEXT affinity turns a number into text, unless the table decides the comparison. */
  int code = list || !decided ? tsx_query_text(l->query, constant, &value, l->error)
                              : tsx_query_constant(l->query, constant, &value, l->error);
  if (code < 0) return code;
  const int type = sqlite3_value_type(value);
  if (type != SQLITE_NULL && op != TSX_NOTNULL && (type == SQLITE_TEXT || decided))
    code = tsx_bound_ranges(l->query, shows, op, &value, 1, decided ? 0 : TSX_SQLITE_RULES, &ranges, l->error);
  if (ranges.all && type == SQLITE_TEXT && equality) set_decimal_range(shows, value, &decimal, &at, &ranges);
  sqlite3_value_free(value);
  if (code < 0) return code;
  if (type == SQLITE_NULL && is)
    return add_unary(l, operation == TSR_OP_IS ? TSR_OP_IS_NULL : TSR_OP_NOT_NULL, tree, lower_column(l, column));
  if (type == SQLITE_NULL) return lower_tree(l, constant);
  if (ranges.all) return refuse(l, tree, "compare a datetime with ISO text");
  const int node = lower_ranges(l, tree, column, &ranges);
  if (node < 0) return node;
  if (is) {
    const int truth = add_binary(l, TSR_OP_IS, tree, node, lower_integer(l, tree, 1));
    return operation == TSR_OP_IS ? truth : add_unary(l, TSR_OP_NOT, tree, truth);
  }
  return operation == TSR_OP_UNEQUAL ? add_unary(l, TSR_OP_NOT, tree, node) : node;
}

/* Returns true if SQLite would convert the texts of a column, since a CAST to a number is compared with it. */
static bool casts_text(const lowering *l, const tsx_expr *constant, const tsx_expr *column) {
  return is_constant(constant) && affinity_of(l, constant) == APPLY_NUMBER && affinity_of(l, column) == APPLY_TEXT;
}

/* Makes a comparison: a test for NULL, a datetime within ranges, or an operation on two sides. */
static int lower_compare(lowering *l, tsr_operation operation, const tsx_expr *tree, const tsx_expr *left,
                         const tsx_expr *right) {
  const bool is = operation == TSR_OP_IS || operation == TSR_OP_IS_NOT;
  const bool null =
      right->kind == TSX_EXPR_LITERAL && right->end - right->begin == 4 && !sqlite3_strnicmp(right->begin, "null", 4);
  if (is && null)
    return add_unary(l, operation == TSR_OP_IS ? TSR_OP_IS_NULL : TSR_OP_NOT_NULL, tree, lower_tree(l, left));
  if (is_time(l, left) && is_constant(right)) return lower_within(l, tree, left, operation, right);
  if (is_time(l, right) && is_constant(left)) return lower_within(l, tree, right, tsx_bound_flipped(operation), left);
  if (is_time(l, left) || is_time(l, right)) return refuse(l, tree, "compare a datetime with ISO text");
  if (casts_text(l, left, right) || casts_text(l, right, left))
    return tsx_expr_fail(&l->query->select, tree->begin, tree->end, "compares a number with text: ", "CAST one of them",
                         l->error);
  const int a = lower_side(l, left, right);
  return add_binary(l, operation, tree, a, a < 0 ? a : lower_side(l, right, left));
}

static int lower_between(lowering *l, const tsx_expr *tree) {
  const int low = lower_compare(l, TSR_OP_GREATER_EQUAL, tree, tree->operands[0], tree->operands[1]);
  const int high = low < 0 ? low : lower_compare(l, TSR_OP_LESS_EQUAL, tree, tree->operands[0], tree->operands[2]);
  const int both = add_binary(l, TSR_OP_AND, tree, low, high);
  return tree->negated ? add_unary(l, TSR_OP_NOT, tree, both) : both;
}

static int lower_in(lowering *l, const tsx_expr *tree) {
  const tsx_expr *left = tree->operands[0];
  int node;
  if (tree->count == 1) return lower_integer(l, tree, tree->negated);
  if (is_time(l, left)) {
    node = lower_compare(l, TSR_OP_EQUAL, tree, left, tree->operands[1]);
    for (uint32_t i = 2; i < tree->count && node >= 0; i++)
      node = add_binary(l, TSR_OP_OR, tree, node, lower_compare(l, TSR_OP_EQUAL, tree, left, tree->operands[i]));
  } else {
    uint32_t *operands = tsx_arena_take(&l->query->select.arena, tree->count * sizeof *operands);
    if (!operands) return tsx_out_of_memory(l->error);
    node = 0;
    for (uint32_t i = 0; i < tree->count && node >= 0; i++) {
      node = i ? lower_side(l, tree->operands[i], left) : lower_tree(l, left);
      operands[i] = (uint32_t)node;
    }
    if (node >= 0) node = add_node(l, TSR_OP_IN, tree, operands, tree->count);
  }
  return tree->negated ? add_unary(l, TSR_OP_NOT, tree, node) : node;
}

/* ---- LIKE and GLOB ----------------------------------------------------------------------------------------------- */

typedef struct like_pattern {
  bool glob;
  char *text;
} like_pattern;

static int like_match(void *argument, const char *text, uint64_t size, tsr_error *error) {
  const like_pattern *pattern = argument;
  (void)size, (void)error;
  return pattern->glob ? sqlite3_strglob(pattern->text, text) == 0 : sqlite3_strlike(pattern->text, text, 0) == 0;
}

/* Returns 1 if LIKE ignores case in this connection, 0 if not (PRAGMA case_sensitive_like), < 0 on error. */
static int like_ignores_case(const tsx_query *query, tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *text = sqlite3_str_new(NULL);
  sqlite3_str_appendall(text, "SELECT 'a' LIKE 'A'");
  int code = tsx_rows_prepare(query->connection, text, NULL, &statement, error);
  if (code >= 0) code = tsx_rows_step(query->connection, statement, error);
  if (code > 0) code = sqlite3_column_int(statement, 0);
  sqlite3_finalize(statement);
  return code;
}

static int lower_like(lowering *l, const tsx_expr *tree) {
  tsx_arena *arena = &l->query->select.arena;
  const bool glob = !strcmp(tree->name, "glob");
  if (!is_constant(tree->operands[1])) return refuse(l, tree, "the pattern is not a constant");
  const int folds = glob ? 1 : like_ignores_case(l->query, l->error);
  if (folds < 0) return folds;
  if (!folds) return refuse(l, tree, "LIKE, while PRAGMA case_sensitive_like is on");
  sqlite3_value *value = NULL;
  TSX_TRY(tsx_query_constant(l->query, tree->operands[1], &value, l->error));
  const char *text = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  like_pattern *pattern = tsx_arena_take(arena, sizeof *pattern);
  if (pattern) pattern->glob = glob;
  if (pattern && text) pattern->text = tsx_arena_copy(arena, text, (uint64_t)sqlite3_value_bytes(value));
  sqlite3_value_free(value);
  if (!pattern || (text && !pattern->text)) return tsx_out_of_memory(l->error);
  if (!text) return refuse(l, tree, "the pattern is not text");
  const int node = add_unary(l, TSR_OP_MATCH, tree, lower_tree(l, tree->operands[0]));
  if (node < 0) return node;
  l->nodes[node].match = like_match;
  l->nodes[node].match_argument = pattern;
  return tree->negated ? add_unary(l, TSR_OP_NOT, tree, node) : node;
}

/* ---- Other nodes ------------------------------------------------------------------------------------------------- */

static int lower_operands(lowering *l, tsr_operation operation, const tsx_expr *tree) {
  uint32_t *operands = tsx_arena_take(&l->query->select.arena, (tree->count + 1) * sizeof *operands);
  if (!operands) return tsx_out_of_memory(l->error);
  for (uint32_t i = 0; i < tree->count; i++) {
    const bool condition = tree->kind == TSX_EXPR_CASE && tree->base && i % 2 == 0 && i + 1 < tree->count;
    const int node = condition ? lower_compare(l, TSR_OP_EQUAL, tree->operands[i], tree->base, tree->operands[i])
                               : lower_tree(l, tree->operands[i]);
    if (node < 0) return node;
    operands[i] = (uint32_t)node;
  }
  return add_node(l, operation, tree, operands, tree->count);
}

static int lower_cast(lowering *l, const tsx_expr *tree) {
  const char *type = tree->name;
  if (tsx_type_has(type, "INT")) return add_unary(l, TSR_OP_TO_INTEGER, tree, lower_tree(l, tree->operands[0]));
  if (!tsx_type_has(type, "CHAR") && !tsx_type_has(type, "CLOB") && !tsx_type_has(type, "TEXT") &&
      !tsx_type_has(type, "BLOB") &&
      (tsx_type_has(type, "REAL") || tsx_type_has(type, "FLOA") || tsx_type_has(type, "DOUB")))
    return add_unary(l, TSR_OP_TO_REAL, tree, lower_tree(l, tree->operands[0]));
  return refuse(l, tree, "of cells only CAST AS INTEGER and AS REAL are");
}

/* Refuses what only SQLite can evaluate, when it is applied to cells. */
static int refuse_cells(const lowering *l, const tsx_expr *tree, const char *what) {
  const tsx_column *columns = l->query->table->columns;
  const tsx_column *column = tree->field >= 0 ? &columns[tree->field] : NULL;
  char *advice =
      column && tsx_axis_possible(column)
          ? sqlite3_mprintf("more than %u values are between the least and the greatest '%s': let WHERE compare it "
                            "with a range",
                            TSX_COORDINATES_MAX, column->name)
      : column && column->description->is_dimension
          ? sqlite3_mprintf("%s of a dimension of texts or reals; others, labels and results may have it", what)
      : column ? sqlite3_mprintf("%s of an attribute; dimensions, labels and results may have it", what)
               : sqlite3_mprintf("%s of several columns; one dimension, labels and results may have it", what);
  const int code = refuse(l, tree, advice ? advice : "");
  sqlite3_free(advice);
  return code;
}

static int lower_function(lowering *l, const tsx_expr *tree) {
  if (tree->call.function->cells == TSR_OP_COUNT) {
    char what[40];
    sqlite3_snprintf(sizeof what, what, !strcmp(tree->name, "round") ? "%s(x, n)" : "%s()", tree->name);
    return refuse_cells(l, tree, what);
  }
  return lower_operands(l, tree->call.function->cells, tree);
}

/* x IS TRUE is (NOT NOT x) IS 1, and x IS FALSE is (NOT x) IS 1: neither is ever null. */
static int lower_truth(lowering *l, const tsx_expr *tree) {
  const tsx_expr *truth = tree->operands[1]; /* TRUE, FALSE, IN () or NOT IN () */
  const bool is_true = truth->kind == TSX_EXPR_IN ? truth->negated : *truth->begin == 'T' || *truth->begin == 't';
  int node = add_unary(l, TSR_OP_NOT, tree, lower_tree(l, tree->operands[0]));
  if (is_true) node = add_unary(l, TSR_OP_NOT, tree, node);
  const int one = node < 0 ? node : lower_integer(l, tree, 1);
  return add_binary(l, tree->negated ? TSR_OP_IS_NOT : TSR_OP_IS, tree, one < 0 ? one : node, one);
}

static int lower_binary(lowering *l, const tsx_expr *tree) {
  switch (tree->operation) {
  case TSR_OP_EQUAL:
  case TSR_OP_UNEQUAL:
  case TSR_OP_LESS:
  case TSR_OP_LESS_EQUAL:
  case TSR_OP_GREATER:
  case TSR_OP_GREATER_EQUAL:
  case TSR_OP_IS:
  case TSR_OP_IS_NOT: return lower_compare(l, tree->operation, tree, tree->operands[0], tree->operands[1]);
  case TSR_OP_COUNT: return lower_truth(l, tree);
  default: return lower_operands(l, tree->operation, tree);
  }
}

static int lower_one_window(lowering *l, const tsx_expr *tree, bool counts) {
  const tsr_window *window = tsx_window_take(l->query, tree, counts, l->error);
  if (!window) return l->error->code;
  const int node = add_node(l, TSR_OP_WINDOW, tree, NULL, 0);
  if (node >= 0) l->nodes[node].window = window;
  return node;
}

/* A window; lag and lead with a default are CASE WHEN (cells of the frame) = 0 THEN default ELSE window END. */
static int lower_window(lowering *l, const tsx_expr *tree) {
  const bool otherwise = tree->count == 3 && tree->call.function->greatest == 3;
  if (!otherwise) return lower_one_window(l, tree, false);
  const int cells = lower_one_window(l, tree, true), zero = cells < 0 ? cells : lower_integer(l, tree, 0);
  const int none = add_binary(l, TSR_OP_EQUAL, tree, cells, zero);
  const int given = none < 0 ? none : lower_tree(l, tree->operands[2]);
  const int window = given < 0 ? given : lower_one_window(l, tree, false);
  if (window < 0) return window;
  const uint32_t operands[3] = {(uint32_t)none, (uint32_t)given, (uint32_t)window};
  return add_node(l, TSR_OP_CASE, tree, operands, 3);
}

/* Returns true if the engine can evaluate a tree of one column itself, without a value table: a trial lowering. */
static bool engine_evaluates(const lowering *l, const tsx_expr *tree) {
  tsr_error ignored = {0};
  lowering alone = {.query = l->query, .alone = true, .error = &ignored};
  if (lower_tree(&alone, tree) < 0) return false;
  tsr_value_type *types = tsx_arena_take(&l->query->select.arena, alone.count * sizeof *types);
  const tsr_expression expression = {.nodes = alone.nodes, .count = alone.count};
  uint32_t node = 0;
  tsr_expression_fault fault;
  return types && tsr_expression_types(l->query->table->schema, &expression, types, &node, &fault, &ignored) == TSR_OK;
}

/* Lowers a tree: to a constant, to a value table if an axis serves it, or else by its kind. A bare column of numbers is
 * read by the engine even if it has an axis. */
static int lower_tree(lowering *l, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->has_aggregate)
    return tsx_expr_fail(&l->query->select, tree->begin, tree->end,
                         "misuse of aggregate: ", "it has no value for a cell", l->error);
  if (tree->field == TSX_FIELD_NONE) return lower_constant(l, tree, APPLY_NONE);
  const int axis = tree->field >= 0 ? tsx_axis_of(l->query, tree) : -1;
  if (axis >= 0 && l->arithmetic) {
    /* the engine computes it */
  } else if (axis >= 0 && l->query->axes[axis].listed) {
    if (!l->alone && !engine_evaluates(l, tree)) return lower_axis(l, tree, (uint32_t)axis);
  } else if (axis >= 0) {
    const tsx_column *shows = &l->query->table->columns[tree->field];
    if (tree->kind != TSX_EXPR_NAME || !tsx_form_is_number(shows->form)) return lower_axis(l, tree, (uint32_t)axis);
  }
  switch (tree->kind) {
  case TSX_EXPR_NAME: return lower_column(l, tree);
  case TSX_EXPR_UNARY: return lower_operands(l, tree->operation, tree);
  case TSX_EXPR_BINARY: return lower_binary(l, tree);
  case TSX_EXPR_BETWEEN: return lower_between(l, tree);
  case TSX_EXPR_IN: return lower_in(l, tree);
  case TSX_EXPR_LIKE: return lower_like(l, tree);
  case TSX_EXPR_CASE: return lower_operands(l, TSR_OP_CASE, tree);
  case TSX_EXPR_CAST: return lower_cast(l, tree);
  case TSX_EXPR_FUNCTION: return lower_function(l, tree);
  case TSX_EXPR_CONCATENATE: return refuse_cells(l, tree, "||");
  case TSX_EXPR_JOINED: return lower_joined(l, tree);
  case TSX_EXPR_WINDOW: return lower_window(l, tree);
  case TSX_EXPR_LABEL: return refuse(l, tree, "a label of a dimension of reals, or of more than 1048576 coordinates");
  case TSX_EXPR_LITERAL:
  case TSX_EXPR_AGGREGATE:
  default: return refuse(l, tree, "it has no value for a cell");
  }
}

/* ---- Whole expressions ------------------------------------------------------------------------------------------- */

static void finish(const lowering *l, tsx_lowered *lowered) {
  lowered->expression = (tsr_expression){.nodes = l->nodes, .count = l->count};
  lowered->trees = l->trees;
}

int tsx_lower(tsx_query *query, const tsx_expr *const *trees, uint32_t count, tsx_lowered *lowered, tsr_error *error) {
  lowering l = {.query = query, .error = error};
  int node = lower_tree(&l, trees[0]);
  for (uint32_t i = 1; i < count && node >= 0; i++)
    node = add_binary(&l, TSR_OP_AND, trees[i], node, lower_tree(&l, trees[i]));
  if (node < 0) return node;
  finish(&l, lowered);
  return TSR_OK;
}

int tsx_lower_arithmetic(tsx_query *query, const tsx_expr *tree, tsx_lowered *lowered, tsr_error *error) {
  lowering l = {.query = query, .arithmetic = true, .error = error};
  const int node = lower_tree(&l, tree);
  if (node < 0) return node;
  finish(&l, lowered);
  return TSR_OK;
}

/* Compares the column's enumeration code with a number. */
static int lower_code(lowering *l, const tsx_expr *tree, uint32_t axis, tsr_operation operation, uint64_t number) {
  const int field = add_node(l, TSR_OP_FIELD, tree, NULL, 0);
  if (field >= 0) l->nodes[field].field = l->query->table->columns[l->query->axes[axis].column].field;
  return add_binary(l, operation, tree, field, field < 0 ? field : lower_integer(l, tree, (int64_t)number));
}

/* Makes a value table of 1 for kept codes, 0 for others. */
static int lower_kept_table(lowering *l, const tsx_expr *tree, uint32_t axis) {
  const tsx_axis *a = &l->query->axes[axis];
  tsr_value_table *table = tsx_arena_take(&l->query->select.arena, sizeof *table);
  tsr_value *values = tsx_arena_take(&l->query->select.arena, (a->count + 1) * sizeof *values);
  if (!table || !values) return tsx_out_of_memory(l->error);
  for (uint64_t i = 0; i < a->count; i++) values[i] = (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = a->kept[i]};
  *table = (tsr_value_table){.field = l->query->table->columns[a->column].field,
                             .low = a->low,
                             .count = a->count,
                             .type = TSR_VALUE_INTEGER,
                             .values = values};
  const int node = add_node(l, TSR_OP_TABLE, tree, NULL, 0);
  if (node >= 0) l->nodes[node].table = table;
  return node;
}

/* Copies the nodes of an existing expression, to append to it. Returns the number of the last node, 0 if there are
 * none, or < 0. */
static int copy_nodes(lowering *l, const tsx_lowered *lowered) {
  int before = 0;
  for (uint32_t i = 0; i < lowered->expression.count && before >= 0; i++) {
    before = add_node(l, TSR_OP_CONSTANT, lowered->trees[i], NULL, 0);
    if (before >= 0) l->nodes[before] = lowered->expression.nodes[i];
  }
  return before;
}

int tsx_lower_kept(tsx_query *query, const tsx_expr *tree, uint32_t axis, tsx_lowered *lowered, tsr_error *error) {
  lowering l = {.query = query, .error = error};
  const tsx_axis *a = &query->axes[axis];
  uint64_t low = 0, high = a->count, kept = 0;
  const int before = copy_nodes(&l, lowered);
  while (low < high && !a->kept[low]) low++;
  while (high > low && !a->kept[high - 1]) high--;
  for (uint64_t i = low; i < high; i++) kept += a->kept[i];
  /* The bounds of the kept codes let the reader skip tiles. */
  int node = before < 0 ? before : lower_code(&l, tree, axis, TSR_OP_GREATER_EQUAL, low);
  node = add_binary(&l, TSR_OP_AND, tree, node, node < 0 ? node : lower_code(&l, tree, axis, TSR_OP_LESS, high));
  if (kept < high - low)
    node = add_binary(&l, TSR_OP_AND, tree, node, node < 0 ? node : lower_kept_table(&l, tree, axis));
  if (lowered->expression.count) node = add_binary(&l, TSR_OP_AND, tree, before, node);
  if (node < 0) return node;
  finish(&l, lowered);
  return TSR_OK;
}

/* ANDs a test of a column to an expression: it is within the ranges; if `ranges` is NULL, it is null. */
static int lower_test(tsx_query *query, const tsx_expr *column, const tsr_ranges *ranges, tsx_lowered *lowered,
                      tsr_error *error) {
  lowering l = {.query = query, .error = error};
  const int before = copy_nodes(&l, lowered);
  int node = before < 0 ? before
             : ranges   ? lower_ranges(&l, column, column, ranges)
                        : add_unary(&l, TSR_OP_IS_NULL, column, lower_column(&l, column));
  if (lowered->expression.count) node = add_binary(&l, TSR_OP_AND, column, before, node);
  if (node < 0) return node;
  finish(&l, lowered);
  return TSR_OK;
}

int tsx_lower_ranges(tsx_query *query, const tsx_expr *column, const tsr_ranges *ranges, tsx_lowered *lowered,
                     tsr_error *error) {
  return lower_test(query, column, ranges, lowered, error);
}

int tsx_lower_null(tsx_query *query, const tsx_expr *column, tsx_lowered *lowered, tsr_error *error) {
  return lower_test(query, column, NULL, lowered, error);
}

int tsx_lower_field(tsx_query *query, const tsx_expr *tree, int column, tsx_lowered *lowered, tsr_error *error) {
  lowering l = {.query = query, .error = error};
  const int node = lower_cells(&l, tree, &query->table->columns[column]);
  if (node < 0) return node;
  finish(&l, lowered);
  return TSR_OK;
}

int tsx_query_orders_texts(const tsx_query *query, const tsx_expr *tree, tsr_error *error) {
  if (!tsx_connection_utf16(query->connection)) return TSR_OK;
  if (query->connection->utf16 < 0 && sqlite3_errcode(query->connection->db) == SQLITE_NOMEM)
    return tsx_out_of_memory(error); /* the encoding was not read */
  return tsx_not_evaluated(&query->select, tree->begin, tree->end,
                           "the order of texts in a database in UTF-16; only = and <> are", error);
}

/* Refuses order comparisons of texts in a UTF-16 database. */
static int check_order(const tsx_query *query, const tsx_lowered *lowered, const tsr_value_type *types,
                       tsr_error *error) {
  for (uint32_t i = 0; i < lowered->expression.count; i++) {
    const tsr_node *n = &lowered->expression.nodes[i];
    const tsr_operation o = n->operation;
    const bool orders = o == TSR_OP_LESS || o == TSR_OP_LESS_EQUAL || o == TSR_OP_GREATER ||
                        o == TSR_OP_GREATER_EQUAL || o == TSR_OP_LEAST || o == TSR_OP_GREATEST;
    if (!orders || types[n->operands[0]] != TSR_VALUE_TEXT) continue;
    TSX_TRY(tsx_query_orders_texts(query, lowered->trees[i], error));
  }
  return TSR_OK;
}

int tsx_lowered_check(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error) {
  const uint32_t count = lowered->expression.count;
  tsr_value_type *types = sqlite3_malloc64(count * sizeof *types);
  uint32_t node = UINT32_MAX;
  tsr_expression_fault fault = TSR_FAULT_NONE;
  if (!types) return tsx_out_of_memory(error);
  memset(types, 0, count * sizeof *types);
  for (uint32_t i = 0; i < count; i++) { /* a value table that is all null has no type: make it a constant */
    tsr_node *n = (tsr_node *)(uintptr_t)&lowered->expression.nodes[i]; /* of the arena */
    if (n->operation != TSR_OP_TABLE || n->table->type != TSR_VALUE_NULL) continue;
    n->operation = TSR_OP_CONSTANT;
    n->value = (tsr_value){.type = TSR_VALUE_NULL};
  }
  int code = tsr_expression_types(query->table->schema, &lowered->expression, types, &node, &fault, error);
  if (code == TSR_MISMATCH && node < count) code = fail_types(query, lowered, node, fault, types, error);
  if (code >= 0) {
    *type = types[count - 1];
    code = check_order(query, lowered, types, error);
  }
  sqlite3_free(types);
  return code;
}
