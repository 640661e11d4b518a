/* plan.c: divides a query between SQLite and the engine, and makes the engine's request.
 *
 * tsx_plan_make runs before any cell is read. Of the AND terms of WHERE, a constant may rule out all cells, a term of
 * one dimension is evaluated by SQLite once per coordinate and drops coordinates, and all other terms are ANDed to one
 * expression for the engine. A key or column that depends on one dimension is evaluated on its axis, too: the engine
 * groups by the coordinate and reads a key as its rank among the distinct values. What depends on several columns or on
 * attributes is lowered (lower.c).
 *
 * After the axes have been evaluated, tsx_plan_drop_joins drops join conditions that always hold. tsx_plan_finish
 * checks types, ranks the keys' values and fills in the request. Where INTEGER and REAL values are equal but look
 * different, the request has extra MIN aggregates that recover the value to show (tsx_key_part.least).
 *
 * Sections: WHERE; keys, aggregates, columns; numbers of keys; the request. */
#include "query/query_internal.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"

#define COMPUTED_MIN    4096u /* coordinates of an axis, before the engine computes keys for SQLite */
#define COMPUTED_OTHERS 16u /* cells that share a coordinate, at most */
#define COMPUTED_DEPTH  16u /* of a key's tree */

/* ---- WHERE ------------------------------------------------------------------------------------------------------- */

/* Evaluates a constant term: if it is false or null, no cell satisfies WHERE. */
static int plan_constant(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  sqlite3_value *value = NULL;
  TSX_TRY(tsx_query_constant(plan->query, tree, &value, error));
  const int type = sqlite3_value_type(value);
  const bool integer = type == SQLITE_INTEGER; /* the truth of a text is that of its numeric prefix */
  if (type == SQLITE_NULL || (integer ? sqlite3_value_int64(value) == 0 : sqlite3_value_double(value) == 0))
    plan->nothing = true;
  sqlite3_value_free(value);
  return TSR_OK;
}

/* Adds a term that the engine tests for each cell. */
static int plan_condition(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  const uint32_t n = plan->condition_count;
  if ((n & (n - 1)) == 0) {
    const tsx_expr **more = tsx_arena_take(&plan->query->select.arena, (n ? 2 * n : 1) * sizeof *more);
    if (!more) return tsx_out_of_memory(error);
    for (uint32_t i = 0; i < n; i++) more[i] = plan->conditions[i];
    plan->conditions = more;
  }
  plan->conditions[plan->condition_count++] = tree;
  return TSR_OK;
}

/* Plans a term that is tested after the windows: the engine tests it for each cell, unless ranges decide it. */
static int plan_after(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  if (tree->field == TSX_FIELD_NONE) return plan_constant(plan, tree, error);
  const bool bounded = tree->field >= 0 && plan->query->table->columns[tree->field].description->is_dimension;
  return bounded && tsx_bounds_decide(plan->query, tree) ? TSR_OK : plan_condition(plan, tree, error);
}

/* Plans each AND term of WHERE that is tested after the windows, if there are any. */
static int plan_where_after(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  if (tree == tsx_where_before(&plan->query->select)) return TSR_OK;
  tree = tsx_expr_meaning(tree);
  if (tree->kind != TSX_EXPR_BINARY || tree->operation != TSR_OP_AND) return plan_after(plan, tree, error);
  TSX_TRY(plan_where_after(plan, tree->operands[0], error));
  return plan_where_after(plan, tree->operands[1], error);
}

/* Leaves each AND term of a condition on neighbours to the engine. */
static int plan_neighbours(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  if (tree->kind != TSX_EXPR_BINARY || tree->operation != TSR_OP_AND) return plan_condition(plan, tree, error);
  TSX_TRY(plan_neighbours(plan, tree->operands[0], error));
  return plan_neighbours(plan, tree->operands[1], error);
}

static bool binds(const tsx_join *join, uint32_t j, const tsx_expr *column, const tsx_expr *left) {
  if (column->kind != TSX_EXPR_JOINED || column->join != j) return false;
  for (uint32_t b = 0; b < join->on.binding_count; b++)
    if ((int)join->on.bindings[b].column == column->column &&
        tsx_expr_equal(tsx_expr_meaning(join->on.bindings[b].left), left))
      return true;
  return false;
}

/* Returns true if a term is a binding of a table behind a comma: then the join decides it. It compares instants, which
 * may be equal although their texts in two units differ. */
static bool is_binding(const tsx_plan *plan, const tsx_expr *tree) {
  const tsx_select *s = &plan->query->select;
  if (tree->kind != TSX_EXPR_BINARY || tree->operation != TSR_OP_EQUAL) return false;
  const tsx_expr *one = tsx_expr_meaning(tree->operands[0]), *other = tsx_expr_meaning(tree->operands[1]);
  for (uint32_t j = 0; j < s->join_count; j++)
    if (s->joins[j].comma && (binds(&s->joins[j], j, one, other) || binds(&s->joins[j], j, other, one))) return true;
  return false;
}

/* Plans each AND term of WHERE: a join or ranges may decide it already; else an axis tests it, or the engine. */
static int plan_where(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_BINARY && tree->operation == TSR_OP_AND) {
    TSX_TRY(plan_where(plan, tree->operands[0], error));
    return plan_where(plan, tree->operands[1], error);
  }
  if (tree->field == TSX_FIELD_NONE) return plan_constant(plan, tree, error);
  if (is_binding(plan, tree)) return TSR_OK;
  const int axis = tsx_axis_of_dimension(plan->query, tree);
  const bool bounded = tree->field >= 0 && plan->query->table->columns[tree->field].description->is_dimension;
  if (bounded && tsx_bounds_decide(plan->query, tree)) return TSR_OK;
  if (axis < 0) return plan_condition(plan, tree, error);
  TSX_TRY(tsx_axis_request(plan->query, (uint32_t)axis, tree, true, error));
  return TSR_OK;
}

/* Requests the value number of each binding. A JOIN drops cells without a joined row, a LEFT JOIN keeps them. */
static int plan_join(tsx_plan *plan, uint32_t j, tsr_error *error) {
  const tsx_join *join = &plan->query->select.joins[j];
  for (uint32_t b = 0; b < join->on.binding_count; b++) {
    const tsx_expr *number = join->on.bindings[b].number;
    const int axis = tsx_axis_of(plan->query, number);
    if (axis >= 0) TSX_TRY(tsx_axis_request(plan->query, (uint32_t)axis, number, false, error));
  }
  return join->left ? TSR_OK : plan_condition(plan, join->on.row, error);
}

/* ---- Keys, aggregates, columns ----------------------------------------------------------------------------------- */

/* Returns true if a tree is a datetime or time dimension, and SQL shows every coordinate of it as ISO text. Coordinates
 * and texts sort alike, so the engine can work on the coordinates, and SQLite need not make the text of each. */
static bool is_shown_as_time(const tsx_plan *plan, const tsx_expr *tree) {
  char text[48];
  tree = tsx_expr_meaning(tree);
  const tsx_column *shows = tree->kind == TSX_EXPR_NAME ? &plan->query->table->columns[tree->column] : NULL;
  const int number = shows && shows->form == TSX_DATETIME ? tsx_axis_of_dimension(plan->query, tree) : -1;
  if (number < 0 || shows->datetimes_integer) return false;
  const tsx_axis *axis = &plan->query->axes[number];
  const int64_t last = (int64_t)((uint64_t)axis->low + axis->count - 1);
  return axis->count > 0 && tsr_datetime_print(shows->description->datatype, axis->low, text) > 0 &&
         tsr_datetime_print(shows->description->datatype, last, text) > 0;
}

/* The same, for sparse arrays only: they may have fewer cells than coordinates. */
static bool is_sparse_time(const tsx_plan *plan, const tsx_expr *tree) {
  return !plan->query->table->schema->dense && is_shown_as_time(plan, tree);
}

/* Returns true if a tree is a dimension whose coordinates SQL shows unchanged. */
static bool is_shown_unchanged(const tsx_plan *plan, const tsx_expr *tree) {
  const tsx_column *shows = tree->kind == TSX_EXPR_NAME ? &plan->query->table->columns[tree->column] : NULL;
  return shows && shows->form <= TSX_UINT32;
}

static bool is_number_literal(const tsx_expr *tree) { /* of a number */
  return tree->kind == TSX_EXPR_LITERAL && tree->begin < tree->end && *tree->begin >= '0' && *tree->begin <= '9';
}

/* Returns true if a tree is an integer dimension, or sums, products, quotients and roundings of one with literals. */
static bool is_arithmetic(const tsx_plan *plan, const tsx_expr *tree, uint32_t depth) {
  tree = tsx_expr_meaning(tree);
  if (depth == 0) return false;
  if (tree->kind == TSX_EXPR_NAME)
    return is_shown_unchanged(plan, tree) && plan->query->table->columns[tree->column].description->is_dimension;
  if (tree->kind == TSX_EXPR_CAST || tree->kind == TSX_EXPR_FUNCTION)
    return tree->count == 1 && !sqlite3_stricmp(tree->name, tree->kind == TSX_EXPR_CAST ? "integer" : "floor") &&
           is_arithmetic(plan, tree->operands[0], depth - 1);
  if (tree->kind != TSX_EXPR_BINARY || !is_number_literal(tsx_expr_meaning(tree->operands[1]))) return false;
  return (tree->operation == TSR_OP_ADD || tree->operation == TSR_OP_SUBTRACT || tree->operation == TSR_OP_MULTIPLY ||
          tree->operation == TSR_OP_DIVIDE) &&
         is_arithmetic(plan, tree->operands[0], depth - 1);
}

/* Returns true if the engine should compute a key for each cell that it reads, rather than SQLite once for each
 * coordinate of the axis: if the key is arithmetic, and few cells share a coordinate. Then most cells are in tiles that
 * statistics answer. */
static bool should_compute(const tsx_plan *plan, const tsx_expr *tree, uint32_t axis) {
  const tsx_query *query = plan->query;
  const tsr_schema *schema = query->table->schema;
  if (query->axes[axis].count < COMPUTED_MIN || query->axes[axis].listed || tree->kind == TSX_EXPR_NAME) return false;
  if (!schema->dense && schema->dimension_count > 1) return false; /* it is not known how many cells share one */
  uint64_t others = 1;
  for (uint32_t i = 0; i < query->axis_count && others <= COMPUTED_OTHERS; i++)
    if (i != axis && query->table->columns[query->axes[i].column].description->is_dimension)
      others *= query->axes[i].count;
  return others <= COMPUTED_OTHERS && is_arithmetic(plan, tree, COMPUTED_DEPTH);
}

static int plan_key(tsx_plan *plan, uint32_t k, tsr_error *error) {
  const tsx_expr *tree = tsx_expr_meaning(plan->query->select.group[k]);
  tsx_key_part *key = &plan->keys[k];
  const bool time = is_sparse_time(plan, tree);
  key->axis = time ? -1 : tsx_axis_of_dimension(plan->query, tree);
  if (time) return tsx_lower_field(plan->query, tree, tree->field, &key->lowered, error);
  if (key->axis >= 0 && should_compute(plan, tree, (uint32_t)key->axis)) {
    key->axis = -1;
    return tsx_lower_arithmetic(plan->query, tree, &key->lowered, error);
  }
  if (key->axis < 0) return tsx_lower(plan->query, &tree, 1, &key->lowered, error);
  const int number = tsx_axis_request(plan->query, (uint32_t)key->axis, tree, false, error);
  if (number < 0) return number;
  key->tree = (uint32_t)number;
  return tsx_lower_field(plan->query, tree, tree->field, &key->coordinate, error);
}

static int plan_one_aggregate(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  if (tsx_plan_aggregate(plan, tree) < plan->aggregate_count) return TSR_OK;
  if (plan->aggregate_count == TSR_QUERY_AGGREGATES)
    return tsx_fail(error, TSR_ERROR, "more than %u aggregates", TSR_QUERY_AGGREGATES);
  tsx_aggregate_part *part = &plan->aggregates[plan->aggregate_count];
  part->tree = tree;
  const tsx_expr *argument = tsx_expr_is_column(tree) ? tree : tree->count ? tree->operands[0] : NULL;
  const tsx_expr *filter = tree->call.filter;
  if (argument && is_shown_as_time(plan, argument))
    TSX_TRY(tsx_lower_field(plan->query, argument, argument->field, &part->argument, error));
  else if (argument) TSX_TRY(tsx_lower(plan->query, &argument, 1, &part->argument, error));
  if (tree->count > 1) TSX_TRY(tsx_query_percent(plan->query, tree->operands[1], &part->percent, error));
  if (filter) TSX_TRY(tsx_lower(plan->query, &filter, 1, &part->filter, error));
  plan->aggregate_count++;
  return TSR_OK;
}

/* Collects the aggregates and bare columns of a tree. What surrounds them is left to SQLite. */
static int plan_aggregates(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_AGGREGATE) return plan_one_aggregate(plan, tree, error);
  if (tree->field == TSX_FIELD_NONE && !tree->has_aggregate) return TSR_OK;
  if (tsx_select_key(&plan->query->select, tree) >= 0) return TSR_OK;
  if (tsx_expr_is_column(tree))
    return plan_one_aggregate(plan, tree, error); /* a bare column, in the row of min or max */
  if (tree->base) TSX_TRY(plan_aggregates(plan, tree->base, error));
  for (uint32_t i = 0; i < tree->count; i++) TSX_TRY(plan_aggregates(plan, tree->operands[i], error));
  return TSR_OK;
}

uint32_t tsx_plan_aggregate(const tsx_plan *plan, const tsx_expr *tree) {
  uint32_t i = 0;
  while (i < plan->aggregate_count && !tsx_expr_equal(plan->aggregates[i].tree, tree)) i++;
  return i;
}

static int plan_column(tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  tsx_column_part *part = &plan->columns[plan->column_count];
  tree = tsx_expr_meaning(tree);
  part->tree = tree;
  const bool time = is_sparse_time(plan, tree);
  part->axis = time || is_shown_unchanged(plan, tree) ? -1 : tsx_axis_of_dimension(plan->query, tree);
  if (part->axis >= 0) {
    const int number = tsx_axis_request(plan->query, (uint32_t)part->axis, tree, false, error);
    if (number < 0) return number;
    part->axis_tree = (uint32_t)number;
  }
  if (time || part->axis >= 0) TSX_TRY(tsx_lower_field(plan->query, tree, tree->field, &part->lowered, error));
  else TSX_TRY(tsx_lower(plan->query, &tree, 1, &part->lowered, error));
  plan->column_count++;
  return TSR_OK;
}

static int plan_groups(tsx_plan *plan, tsr_error *error) {
  const tsx_select *s = &plan->query->select;
  for (uint32_t k = 0; k < s->group_count; k++) TSX_TRY(plan_key(plan, k, error));
  if (s->meaning.extreme)
    TSX_TRY(plan_one_aggregate(plan, s->meaning.extreme, error)); /* becomes aggregate 0, before the bare columns */
  for (uint32_t i = 0; i < s->item_count; i++) TSX_TRY(plan_aggregates(plan, s->items[i].tree, error));
  if (s->having) TSX_TRY(plan_aggregates(plan, s->having, error));
  for (uint32_t i = 0; i < s->order_count; i++) TSX_TRY(plan_aggregates(plan, s->order[i].tree, error));
  return TSR_OK;
}

int tsx_plan_make(tsx_plan *plan, tsr_error *error) {
  tsx_select *s = &plan->query->select;
  plan->keys = tsx_arena_take(&s->arena, (s->group_count + 1) * sizeof *plan->keys);
  plan->aggregates = tsx_arena_take(&s->arena, TSR_QUERY_AGGREGATES * sizeof *plan->aggregates);
  plan->columns = tsx_arena_take(&s->arena, (s->item_count + s->order_count + 1) * sizeof *plan->columns);
  if (!plan->keys || !plan->aggregates || !plan->columns) return tsx_out_of_memory(error);
  const tsx_expr *before = tsx_where_before(s);
  if (before && s->around) TSX_TRY(plan_neighbours(plan, before, error));
  else if (before) TSX_TRY(plan_where(plan, before, error));
  plan->before_count = plan->condition_count;
  if (s->windows.count && plan->before_count)
    TSX_TRY(tsx_lower(plan->query, plan->conditions, plan->before_count, &plan->before, error));
  if (s->around)
    plan->condition_count = plan->before_count =
        0; /* these conditions are on neighbours, not on the cells themselves */
  if (s->where && s->where != before) TSX_TRY(plan_where_after(plan, s->where, error));
  for (uint32_t j = 0; j < s->join_count; j++)
    if (s->joins[j].on.row) TSX_TRY(plan_join(plan, j, error));
  TSX_TRY(tsx_boxes_request(plan->query, error));
  if (plan->condition_count)
    TSX_TRY(tsx_lower(plan->query, plan->conditions, plan->condition_count, &plan->where, error));
  if (plan->query->over_groups) return plan_groups(plan, error);
  for (uint32_t i = 0; i < s->item_count; i++) TSX_TRY(plan_column(plan, s->items[i].tree, error));
  for (uint32_t i = 0; i < s->order_count; i++)
    if (s->order[i].item < 0) TSX_TRY(plan_column(plan, s->order[i].tree, error));
  return TSR_OK;
}

/* ---- Numbers of keys --------------------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b) {
  const tsr_value *x = *(const tsr_value *const *)a, *y = *(const tsr_value *const *)b;
  const int order = tsx_values_compare(x, y);
  return order ? order : (x > y) - (x < y);
}

/* Ranks the values of a key: equal values share a number, and numbers ascend with the values. Coordinates that WHERE
 * has dropped get UINT32_MAX. Sets key->mixed if an INTEGER and a REAL share a number. */
static int number_key(tsx_plan *plan, tsx_key_part *key, tsr_error *error) {
  const tsx_axis *axis = &plan->query->axes[key->axis];
  tsx_arena *arena = &plan->query->select.arena;
  const tsr_value *values = axis->values[key->tree];
  const tsr_value **sorted = tsx_arena_take(arena, (axis->count + 1) * sizeof *sorted);
  key->numbers = tsx_arena_take(arena, (axis->count + 1) * sizeof *key->numbers);
  key->places = tsx_arena_take(arena, (axis->count + 1) * sizeof *key->places);
  if (!sorted || !key->numbers || !key->places) return tsx_out_of_memory(error);
  uint64_t n = 0;
  bool in_order = true;
  for (uint64_t i = 0; i < axis->count; i++) {
    key->numbers[i] = UINT32_MAX;
    if (axis->kept && !axis->kept[i]) continue;
    sorted[n++] = &values[i];
    if (n > 1 && in_order) in_order = tsx_values_compare(sorted[n - 2], sorted[n - 1]) <= 0;
  }
  if (!in_order) qsort(sorted, n, sizeof *sorted, compare_places);
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t place = (uint64_t)(sorted[i] - values);
    if (i == 0 || tsx_values_compare(sorted[i - 1], sorted[i]) != 0) key->places[key->number_count++] = place;
    else key->mixed |= sorted[i - 1]->type != sorted[i]->type;
    key->numbers[place] = key->number_count - 1;
  }
  return TSR_OK;
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

/* If no cell satisfies WHERE, the axes are empty and their expressions have no types: replaces them all by NULL. */
static void finish_nothing(tsx_plan *plan) {
  static const tsr_node null = {.operation = TSR_OP_CONSTANT, .value = {.type = TSR_VALUE_NULL}};
  const tsr_expression expression = {.nodes = &null, .count = 1};
  for (uint32_t k = 0; k < plan->query->select.group_count; k++)
    if (plan->keys[k].axis < 0) plan->keys[k].lowered.expression = expression;
  for (uint32_t i = 0; i < plan->aggregate_count; i++) {
    if (plan->aggregates[i].argument.expression.count) plan->aggregates[i].argument.expression = expression;
    if (plan->aggregates[i].filter.expression.count) plan->aggregates[i].filter.expression = expression;
  }
  for (uint32_t i = 0; i < plan->column_count; i++) plan->columns[i].lowered.expression = expression;
  plan->where.expression.count = 0;
}

static int check_or_none(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error) {
  *type = TSR_VALUE_NULL;
  return lowered->expression.count ? tsx_lowered_check(query, lowered, type, error) : TSR_OK;
}

/* Checks the type of a condition. SQLite would convert a text condition to a number; the engine does not. */
static int check_condition(tsx_query *query, const tsx_lowered *lowered, tsr_value_type *type, tsr_error *error) {
  TSX_TRY(check_or_none(query, lowered, type, error));
  if (*type != TSR_VALUE_TEXT && *type != TSR_VALUE_INSTANT && *type != TSR_VALUE_OPAQUE) return TSR_OK;
  const tsx_expr *tree = lowered->trees[lowered->expression.count - 1];
  return tsx_not_evaluated(&query->select, tree->begin, tree->end, "a text is not a condition: compare it", error);
}

/* Groups a key of type NUMBER as REAL, and requests the minimum of the original key, whose type the group shows. */
static int finish_number_key(tsx_plan *plan, tsx_key_part *part, tsr_query_key *key, uint32_t *extra,
                             tsr_error *error) {
  tsx_arena *arena = &plan->query->select.arena;
  const uint32_t count = part->lowered.expression.count;
  tsr_node *nodes = tsx_arena_take(arena, (count + 1) * sizeof *nodes);
  uint32_t *operand = tsx_arena_take(arena, sizeof *operand);
  if (!nodes || !operand) return tsx_out_of_memory(error);
  if (plan->aggregate_count + *extra == TSR_QUERY_AGGREGATES)
    return tsx_fail(error, TSR_ERROR, "more than %u aggregates", TSR_QUERY_AGGREGATES);
  for (uint32_t i = 0; i < count; i++) nodes[i] = part->lowered.expression.nodes[i];
  *operand = count - 1;
  nodes[count] = (tsr_node){.operation = TSR_OP_TO_REAL, .operands = operand, .operand_count = 1};
  key->expression = (tsr_expression){.nodes = nodes, .count = count + 1};
  part->least = plan->aggregate_count + (*extra)++;
  return TSR_OK;
}

/* For a mixed key on an axis, requests the least coordinate of each group, so that the group shows a value that one of
 * its cells has. */
static int finish_mixed_key(const tsx_plan *plan, tsx_key_part *part, uint32_t *extra, tsr_error *error) {
  if (plan->aggregate_count + *extra == TSR_QUERY_AGGREGATES)
    return tsx_fail(error, TSR_ERROR, "more than %u aggregates", TSR_QUERY_AGGREGATES);
  part->least = plan->aggregate_count + (*extra)++;
  return TSR_OK;
}

/* Appends the minima that finish_number_key and finish_mixed_key requested to the aggregates. */
static void finish_least(const tsx_plan *plan, tsr_query_aggregate *aggregates, uint32_t *count) {
  for (uint32_t k = 0; k < plan->query->select.group_count; k++) {
    const tsx_key_part *part = &plan->keys[k];
    if (part->least < 0) continue;
    aggregates[(*count)++] =
        (tsr_query_aggregate){.function = TSR_AGGREGATE_MIN,
                              .has_argument = true,
                              .argument = part->axis < 0 ? part->lowered.expression : part->coordinate.expression};
  }
}

static int finish_keys(tsx_plan *plan, tsr_error *error) {
  const uint32_t count = plan->query->select.group_count;
  tsr_query_key *keys = tsx_arena_take(&plan->query->select.arena, (count + 1) * sizeof *keys);
  tsr_value_type type = TSR_VALUE_NULL;
  uint32_t extra = 0;
  if (!keys) return tsx_out_of_memory(error);
  for (uint32_t k = 0; k < count; k++) {
    tsx_key_part *part = &plan->keys[k];
    if (part->axis < 0) TSX_TRY(check_or_none(plan->query, &part->lowered, &type, error));
    else TSX_TRY(number_key(plan, part, error));
    part->least = -1;
    const tsx_expr *tree = plan->query->select.group[k];
    if (part->axis < 0 && type == TSR_VALUE_OPAQUE)
      return tsx_not_evaluated(&plan->query->select, tree->begin, tree->end,
                               "a key of several values in a cell, or of bytes", error);
    keys[k].expression = part->lowered.expression;
    if (part->axis < 0 && type == TSR_VALUE_NUMBER) TSX_TRY(finish_number_key(plan, part, &keys[k], &extra, error));
    if (part->mixed) TSX_TRY(finish_mixed_key(plan, part, &extra, error));
    if (part->axis < 0) continue;
    const tsx_axis *axis = &plan->query->axes[part->axis];
    keys[k].field = plan->query->table->columns[axis->column].field;
    keys[k].low = axis->low;
    keys[k].count = axis->count;
    keys[k].numbers = part->numbers;
    keys[k].number_count = part->number_count;
  }
  plan->request.keys = keys;
  plan->request.key_count = count;
  return TSR_OK;
}

static int finish_aggregates(tsx_plan *plan, tsr_error *error) {
  tsr_query_aggregate *aggregates =
      tsx_arena_take(&plan->query->select.arena, TSR_QUERY_AGGREGATES * sizeof *aggregates);
  if (!aggregates) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < plan->aggregate_count; i++) {
    tsx_aggregate_part *part = &plan->aggregates[i];
    TSX_TRY(check_or_none(plan->query, &part->argument, &part->argument_type, error));
    TSX_TRY(check_condition(plan->query, &part->filter, &part->filter_type, error));
    const tsr_aggregate_function function =
        tsx_expr_is_column(part->tree) ? TSR_AGGREGATE_AT : part->tree->call.function->aggregates;
    const bool is_sum = function != TSR_AGGREGATE_COUNT && function != TSR_AGGREGATE_MIN &&
                        function != TSR_AGGREGATE_MAX && function != TSR_AGGREGATE_AT;
    aggregates[i] = (tsr_query_aggregate){.function = function,
                                          .has_argument = part->argument.expression.count > 0,
                                          .has_filter = part->filter.expression.count > 0,
                                          .distinct = part->tree->call.distinct && function != TSR_AGGREGATE_MIN &&
                                                      function != TSR_AGGREGATE_MAX,
                                          .argument = part->argument.expression,
                                          .filter = part->filter.expression,
                                          .percent = part->percent};
    const bool number = part->argument_type == TSR_VALUE_NUMBER && function == TSR_AGGREGATE_SUM;
    const bool text = part->argument_type == TSR_VALUE_TEXT || part->argument_type == TSR_VALUE_INSTANT;
    if (part->argument_type == TSR_VALUE_OPAQUE && (function != TSR_AGGREGATE_COUNT || aggregates[i].distinct))
      return tsx_not_evaluated(&plan->query->select, part->tree->begin, part->tree->end,
                               "of several values in a cell, or of bytes", error);
    const bool orders =
        part->argument_type == TSR_VALUE_TEXT && (function == TSR_AGGREGATE_MIN || function == TSR_AGGREGATE_MAX);
    if (orders) TSX_TRY(tsx_query_orders_texts(plan->query, part->tree, error));
    if ((aggregates[i].distinct && number) || (is_sum && text))
      return tsx_not_evaluated(&plan->query->select, part->tree->begin, part->tree->end,
                               text ? part->argument_type == TSR_VALUE_TEXT ? "expected numbers, not texts"
                                                                            : "expected numbers, not datetimes"
                                    : "a sum DISTINCT of INTEGER and REAL",
                               error);
  }
  plan->request.aggregates = aggregates;
  plan->request.aggregate_count = plan->aggregate_count;
  finish_least(plan, aggregates, &plan->request.aggregate_count);
  return TSR_OK;
}

/* Refuses a column whose cells have no SQL value. The message names it, as the source text may only say `*`. */
static int fail_opaque(const tsx_plan *plan, const tsx_expr *tree, tsr_error *error) {
  const char *name = tree->kind == TSX_EXPR_NAME ? plan->query->table->columns[tree->column].name : NULL;
  char *why = name ? sqlite3_mprintf("%s has several values in a cell, or bytes", name)
                   : sqlite3_mprintf("several values in a cell, or bytes");
  const int code = tsx_not_evaluated(&plan->query->select, tree->begin, tree->end, why ? why : "", error);
  sqlite3_free(why);
  return code;
}

static int finish_columns(tsx_plan *plan, tsr_error *error) {
  tsr_expression *columns = tsx_arena_take(&plan->query->select.arena, (plan->column_count + 1) * sizeof *columns);
  if (!columns) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < plan->column_count; i++) {
    TSX_TRY(check_or_none(plan->query, &plan->columns[i].lowered, &plan->columns[i].type, error));
    if (plan->columns[i].type == TSR_VALUE_OPAQUE) return fail_opaque(plan, plan->columns[i].tree, error);
    columns[i] = plan->columns[i].lowered.expression;
  }
  plan->request.columns = columns;
  plan->request.column_count = plan->column_count;
  return TSR_OK;
}

int tsx_plan_drop_joins(tsx_plan *plan, tsr_error *error) {
  const tsx_select *s = &plan->query->select;
  uint32_t n = 0;
  const int always = s->around ? tsx_windows_kernel(plan->query, error) : 0;
  if (always < 0) return always;
  for (uint32_t i = 0; i < plan->condition_count; i++) {
    bool is_true = always && plan->conditions[i] == s->around->exists;
    for (uint32_t j = 0; j < s->join_count; j++)
      is_true |= plan->conditions[i] == s->joins[j].on.row && tsx_joined_complete(plan->query, j);
    if (!is_true) plan->conditions[n++] = plan->conditions[i];
  }
  if (n == plan->condition_count) return TSR_OK;
  plan->condition_count = n;
  plan->where = (tsx_lowered){0};
  return n ? tsx_lower(plan->query, plan->conditions, n, &plan->where, error) : TSR_OK;
}

/* Makes the ranges of the dimensions that the query reads, and the windows, which may see more of them. */
static int finish_ranges(tsx_plan *plan, tsr_ranges **dimensions, tsr_error *error) {
  tsx_query *query = plan->query;
  const uint32_t n = query->table->schema->dimension_count;
  tsr_query_windows *windows = NULL;
  tsr_value_type type;
  *dimensions = tsx_arena_take(&query->select.arena, (n + 1) * sizeof **dimensions);
  if (!*dimensions) return tsx_out_of_memory(error);
  if (!plan->nothing) {
    TSX_TRY(tsx_windows_finish(query, plan->before_count > 0, error));
    TSX_TRY(tsx_windows_request(query, &windows, error));
  }
  if (windows) TSX_TRY(check_condition(query, &plan->before, &type, error));
  TSX_TRY(tsx_axes_ranges(query, *dimensions, error));
  if (!windows) return TSR_OK;
  windows->dimensions = *dimensions;
  windows->has_where = plan->before.expression.count > 0;
  windows->where = plan->before.expression;
  *dimensions = tsx_arena_take(&query->select.arena, (n + 1) * sizeof **dimensions);
  if (!*dimensions) return tsx_out_of_memory(error);
  for (uint32_t d = 0; d < n; d++) (*dimensions)[d] = windows->dimensions[d];
  plan->request.windows = windows;
  return tsx_axes_ranges_after(query, *dimensions, error);
}

int tsx_plan_finish(tsx_plan *plan, tsr_error *error) {
  tsx_query *query = plan->query;
  tsr_ranges *dimensions = NULL;
  tsr_value_type type;
  if (plan->nothing) finish_nothing(plan);
  TSX_TRY(finish_ranges(plan, &dimensions, error));
  TSX_TRY(check_condition(query, &plan->where, &type, error));
  TSX_TRY(finish_keys(plan, error));
  TSX_TRY(finish_aggregates(plan, error));
  TSX_TRY(finish_columns(plan, error));
  if (plan->nothing) dimensions[0] = (tsr_ranges){0};
  plan->request.dimensions = dimensions;
  plan->request.boxes = tsx_boxes_made(query);
  plan->request.has_where = plan->where.expression.count > 0;
  plan->request.where = plan->where.expression;
  plan->request.fill_unwritten = query->table->options.shows.fill_unwritten;
  plan->request.memory_bytes = query->memory_bytes ? query->memory_bytes : query->table->options.limits.memory_bytes;
  plan->request.threads = query->threads ? query->threads : query->table->options.limits.threads;
  return TSR_OK;
}
