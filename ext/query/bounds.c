/* bounds.c: finds the comparisons with constants in a WHERE, and makes them ranges. */
#include "query/bounds.h"

#include <string.h>

#include "connection/errors.h"
#include "query/compile.h"
#include "query/coordinates.h"
#include "query/names.h"
#include "table/label_columns.h"
#include "values/compare.h"
#include "values/compare_times.h"

#define UNEQUAL_FROM 3051000 /* from this SQLite on a table gets <> and IS NOT (best_index.c) */
#define LABEL_ROOM   16 /* intervals of a label at first */

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

typedef struct range_list { /* ranges that grow in the query's arena */
  tsr_range *ranges;
  uint64_t count, room;
  bool all;
} range_list;

/* Copies an end of a range, which may lie in a value or in *ranges. */
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
                     uint32_t count, unsigned how, tsr_ranges *set, tsr_error *error) {
  range_list list = {0};
  tsx_ranges ranges;
  int code = TSR_OK;
  how |= tsx_connection_text(query->connection);
  for (uint32_t v = 0; v < count && code == TSR_OK && !list.all; v++) {
    tsx_ranges_make(column, op, values[v], how, &ranges);
    code = list_add(query, column, &ranges, &list, error);
    const bool decimals = tsx_times_as_text(column, op, values[v], how);
    for (int part = 0; decimals && part < TSX_DECIMAL_PARTS && code == TSR_OK; part++) {
      tsx_times_decimals(column, op, values[v], how, part, &ranges);
      code = list_add(query, column, &ranges, &list, error);
    }
  }
  *set = (tsr_ranges){.ranges = list.ranges, .count = list.all ? 0 : list.count, .all = list.all};
  return code;
}

static int bound_take(tsx_query *query, int column, tsx_bound_range **out, tsr_error *error) {
  tsx_bound_range *bound = *out = tsx_arena_take(&query->select.arena, sizeof *bound);
  if (!bound) return tsx_out_of_memory(error);
  *bound = (tsx_bound_range){.next = query->bounds, .column = column, .set.all = true};
  query->bounds = bound;
  return TSR_OK;
}

int tsx_bound_add(tsx_query *query, int column, tsx_op op, sqlite3_value *const *values, uint32_t count, unsigned how,
                  tsr_error *error) {
  tsx_bound_range *bound;
  const int code = bound_take(query, column, &bound, error);
  if (code < 0) return code;
  return tsx_bound_ranges(query, &query->table->columns[column], op, values, count, how, &bound->set, error);
}

/* Adds the coordinates whose label has a value of a set to the ranges of the label's dimension. */
static int bound_add_label(tsx_query *query, const tsx_expr *tree, const tsr_ranges *set, tsr_error *error) {
  tsx_label_column *label = &query->table->labels[tree->column];
  tsx_arena *arena = &query->select.arena;
  tsx_label_state *state = NULL;
  tsx_bound_range *bound;
  if (set->all) return TSR_OK;
  int code = bound_take(query, tree->field, &bound, error);
  if (code == TSR_OK)
    code = tsx_label_state_take(query->table, label, query->shown->since, query->shown->as_of, &state, error);
  if (code < 0) return code;
  uint64_t count = 0, room = LABEL_ROOM;
  tsr_interval *intervals;
  do {
    intervals = tsx_arena_take(arena, room * sizeof *intervals);
    code =
        intervals ? tsr_label_find(state->index, set, false, room, intervals, &count, error) : tsx_out_of_memory(error);
    room *= LABEL_ROOM;
  } while (code == TSR_RANGE && room <= LABEL_ROOM * (uint64_t)TSX_COORDINATES_MAX);
  tsx_label_state_release(state);
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
  tsx_op op; /* TSX_IN: with any of `rights` */
  tsx_expr *const *rights;
  uint32_t count;
  sqlite3_value **values; /* [count], or NULL */
  bool partial; /* one side of a BETWEEN, whose other side is no constant */
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
  int code = TSR_OK;
  for (uint32_t i = 0; i < c->count && code == TSR_OK; i++)
    code = text ? tsx_query_text(query, tsx_expr_meaning(c->rights[i]), &c->values[i], error)
                : tsx_query_constant(query, tsx_expr_meaning(c->rights[i]), &c->values[i], error);
  return code;
}

static void comparison_release(comparison *c) {
  for (uint32_t i = 0; i < c->count && c->values; i++) sqlite3_value_free(c->values[i]);
  sqlite3_free(c->values);
}

/* Returns true if the table decides the comparison, by instants. best_index.c has the same rules. */
static bool comparison_decides(const tsx_query *query, const comparison *c) {
  const tsx_column *column = compared_column(query, c);
  const tsx_op op = c->op == TSX_ISNOT ? TSX_EQ : c->op;
  const bool unequal = c->op == TSX_NE || c->op == TSX_ISNOT;
  if (column->form != TSX_DATETIME || c->partial) return false;
  if (unequal && sqlite3_libversion_number() < UNEQUAL_FROM) return false;
  if (c->left->kind == TSX_EXPR_LABEL && (unequal || op == TSX_IS)) return false;
  for (uint32_t i = 0; i < c->count; i++) {
    const bool known = op != TSX_IN && tsx_expr_meaning(c->rights[i])->kind == TSX_EXPR_LITERAL;
    if (!tsx_ranges_exact(column, op, known ? c->values[i] : NULL, tsx_connection_utf16(query->connection)))
      return false;
  }
  return true;
}

/* Returns true if comparing plainly leaves nothing out because the value is no text. */
static bool comparison_is_open(const tsx_column *column, const comparison *c) {
  const bool text = column->form == TSX_DATETIME || !strcmp(column->declared, "TEXT");
  for (uint32_t i = 0; i < c->count && text; i++)
    if (sqlite3_value_type(c->values[i]) != SQLITE_TEXT) return true;
  return false;
}

/* Returns true if the comparison becomes ranges: of a dimension, or in the engine of a datetime. */
static bool comparison_matters(const tsx_query *query, const comparison *c) {
  const tsx_column *column = compared_column(query, c);
  if (!tsx_ranges_possible(column)) return false;
  if (c->left->kind != TSX_EXPR_LABEL) return column->description->is_dimension || column->form == TSX_DATETIME;
  return c->left->field >= 0 && tsx_axis_possible(&query->table->columns[c->left->field]);
}

/* Adds a comparison to the ranges of a dimension. A coordinate without a label may satisfy IS. Without a state of the array
 * no range is needed. */
static int comparison_add(tsx_query *query, const comparison *c, unsigned how, tsr_error *error) {
  const bool label = c->left->kind == TSX_EXPR_LABEL;
  const tsx_column *column = compared_column(query, c);
  tsr_ranges set;
  if (!query->shown || (!label && !column->description->is_dimension)) return TSR_OK;
  if (how && (c->op > TSX_IN || comparison_is_open(column, c) || (label && c->op == TSX_IS))) return TSR_OK;
  if (!label) return tsx_bound_add(query, c->left->column, c->op, c->values, c->count, how, error);
  const int code = tsx_bound_ranges(query, column, c->op, c->values, c->count, how, &set, error);
  return code == TSR_OK ? bound_add_label(query, c->left, &set, error) : code;
}

static int comparison_decided(tsx_query *query, const tsx_expr *term, tsr_error *error) {
  tsx_decided *decided = tsx_arena_take(&query->select.arena, sizeof *decided);
  if (!decided) return tsx_out_of_memory(error);
  *decided = (tsx_decided){.next = query->decided, .tree = term};
  query->decided = decided;
  return TSR_OK;
}

bool tsx_bounds_decide(const tsx_query *query, const tsx_expr *term) {
  const tsx_decided *decided = query->decided;
  while (decided && decided->tree != term) decided = decided->next;
  return decided != NULL;
}

/* Adds the comparisons of one term, of which BETWEEN has two. The table decides both or neither. */
static int term_add(tsx_query *query, comparison *parts, uint32_t count, tsr_error *error) {
  int code = TSR_OK;
  bool decides = true;
  if (!comparison_matters(query, &parts[0])) return TSR_OK;
  for (uint32_t i = 0; i < count && code == TSR_OK; i++) code = comparison_evaluate(query, &parts[i], error);
  for (uint32_t i = 0; i < count && code == TSR_OK; i++) decides = decides && comparison_decides(query, &parts[i]);
  for (uint32_t i = 0; i < count && code == TSR_OK; i++)
    code = comparison_add(query, &parts[i], decides ? 0 : TSX_PLAINLY, error);
  return code == TSR_OK && decides ? comparison_decided(query, parts[0].term, error) : code;
}

/* Finds the comparisons of a term. Returns their number. */
static uint32_t term_find(const tsx_expr *term, comparison parts[2]) {
  if (term->count == 0) return 0;
  const tsx_expr *left = tsx_expr_meaning(term->operands[0]);
  const bool column = left->kind == TSX_EXPR_NAME || left->kind == TSX_EXPR_LABEL;
  parts[0] = parts[1] = (comparison){.term = term, .left = left, .count = 1};
  if (term->kind == TSX_EXPR_IN && column && !term->negated && term->count > 1) {
    for (uint32_t i = 1; i < term->count; i++)
      if (!bound_is_constant(term->operands[i])) return 0;
    parts[0].op = term->count == 2 ? TSX_EQ : TSX_IN; /* SQLite makes = of a list with one value */
    parts[0].rights = term->operands + 1;
    parts[0].count = term->count - 1;
    return 1;
  }
  if (term->kind == TSX_EXPR_BETWEEN && column && !term->negated) {
    uint32_t n = 0;
    for (uint32_t i = 1; i <= 2; i++) {
      if (!bound_is_constant(term->operands[i])) continue;
      parts[n].op = i == 1 ? TSX_GE : TSX_LE;
      parts[n++].rights = term->operands + i;
    }
    parts[0].partial = n == 1;
    return n;
  }
  if (term->kind != TSX_EXPR_BINARY) return 0;
  const tsx_expr *right = tsx_expr_meaning(term->operands[1]);
  const bool swapped = (right->kind == TSX_EXPR_NAME || right->kind == TSX_EXPR_LABEL) && bound_is_constant(left);
  parts[0].left = swapped ? right : left;
  parts[0].op = tsx_bound_op(swapped ? tsx_bound_flipped(term->operation) : term->operation);
  parts[0].rights = term->operands + !swapped;
  return parts[0].op != TSX_NOTNULL && (swapped || (column && bound_is_constant(right)));
}

int tsx_bounds_find(tsx_query *query, const tsx_expr *where, tsr_error *error) {
  comparison parts[2];
  where = tsx_expr_meaning(where);
  if (where->kind == TSX_EXPR_BINARY && where->operation == TSR_OP_AND) {
    const int code = tsx_bounds_find(query, where->operands[0], error);
    return code < 0 ? code : tsx_bounds_find(query, where->operands[1], error);
  }
  const uint32_t count = term_find(where, parts);
  const int code = count ? term_add(query, parts, count, error) : TSR_OK;
  for (uint32_t i = 0; i < count; i++) comparison_release(&parts[i]);
  return code;
}
