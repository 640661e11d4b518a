/* outer.c: lets the constraints of the statement around a query leave out coordinates. */
#include "query/outer.h"

#include <string.h>

#include "connection/errors.h"
#include "query/bounds.h"
#include "query/compare_values.h"
#include "query/compile.h"
#include "query/coordinates.h"
#include "query/names.h"
#include "values/compare.h"

#define OUTER_LIST_MAX 65536u /* values of an IN; SQLite alone tests a longer list */

static const tsx_expr *outer_tree(const tsx_query *query, const tsx_outer *outer) {
  return tsx_expr_meaning(query->select.items[outer->item].tree);
}

/* Returns true if the tree is a dimension whose comparisons with constants become ranges, without values one by one. */
static bool outer_is_range(const tsx_query *query, const tsx_expr *tree) {
  if (tree->kind != TSX_EXPR_NAME) return false;
  const tsx_column *shows = &query->table->columns[tree->column];
  return shows->description->is_dimension && (!tsx_axis_possible(shows) || shows->form <= TSX_UINT32) &&
         tsx_ranges_possible(shows);
}

bool tsx_outer_possible(const tsx_query *query) {
  const tsx_select *s = &query->select;
  if (s->limit || s->distinct) return false;
  for (uint32_t k = 0; query->over_groups && k < s->group_count; k++) {
    uint32_t i = 0;
    while (i < s->item_count && tsx_select_key(s, s->items[i].tree) != (int)k) i++;
    if (i == s->item_count) return false;
  }
  return true;
}

bool tsx_outer_takes(const tsx_query *query, uint32_t item) {
  const tsx_select *s = &query->select;
  if (!tsx_outer_possible(query)) return false;
  const tsx_expr *tree = tsx_expr_meaning(s->items[item].tree);
  if (tree->field < 0 || tree->has_aggregate ||
      (!tsx_axis_possible(&query->table->columns[tree->field]) && !outer_is_range(query, tree)))
    return false;
  return !query->over_groups || tsx_select_key(s, tree) >= 0;
}

/* Returns the operator of a constraint. The plan has taken comparisons alone (query_table.c). */
static tsx_op outer_op(const tsx_outer *outer) { return outer->in ? TSX_IN : (tsx_op)tsx_op_of(outer->op); }

/* Returns the column if the item is nothing but a datetime of cells, or NULL. */
static const tsx_column *outer_datetime(const tsx_query *query, uint32_t item) {
  const tsx_expr *tree = tsx_expr_meaning(query->select.items[item].tree);
  if (query->over_groups || !tsx_outer_possible(query) || tree->kind != TSX_EXPR_NAME) return NULL;
  const tsx_column *shows = &query->table->columns[tree->column];
  return shows->form == TSX_DATETIME ? shows : NULL;
}

bool tsx_outer_decides(const tsx_query *query, uint32_t item, int op, bool in, sqlite3_value *right) {
  const tsx_column *shows = outer_datetime(query, item);
  return shows &&
         tsx_ranges_exact(shows, in ? TSX_IN : (tsx_op)tsx_op_of(op), right, tsx_connection_utf16(query->connection));
}

int tsx_outer_request(tsx_query *query, tsx_outer *outer, uint32_t count, tsr_error *error) {
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

/* ---- Values ------------------------------------------------------------------------------------------------------ */

typedef struct outer_values { /* the value of a constraint, or those of a list */
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
static int values_take(outer_values *v, const tsx_outer *outer, tsr_error *error) {
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
    const int code = values_add(v, member, error);
    if (code < 0) return code;
  }
  if (step == SQLITE_OK || step == SQLITE_DONE) return TSR_OK;
  return tsx_fail(error, tsx_core_code(step), "the list of IN cannot be read");
}

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

/* Makes a comparison with a dimension ranges. SQLite may compare texts as numbers, if the other side is a column of
 * numbers; equal ones are equal then, too. */
static int outer_range(tsx_query *query, const tsx_outer *outer, const tsx_expr *tree, const outer_values *v,
                       tsr_error *error) {
  const tsx_op op = outer_op(outer);
  const bool equal = op == TSX_IN || op == TSX_EQ || op == TSX_IS;
  const bool text = !strcmp(query->table->columns[tree->column].declared, "TEXT");
  for (uint32_t i = 0; i < v->count; i++) {
    const int type = sqlite3_value_type(v->values[i]);
    if (text ? type != SQLITE_TEXT || !equal : type == SQLITE_BLOB) return TSR_OK;
  }
  return tsx_bound_add(query, tree->column, equal ? TSX_EQ : op, v->values, v->count, TSX_PLAINLY, error);
}

int tsx_outer_bounds(tsx_query *query, const tsx_outer *outer, uint32_t count, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t i = 0; i < count && code == TSR_OK; i++) {
    const tsx_expr *tree = outer_tree(query, &outer[i]);
    const bool range = outer_is_range(query, tree);
    const bool decides = outer[i].decides && query->table->columns[tree->column].description->is_dimension;
    outer_values values;
    if (!range && !decides) continue;
    code = values_take(&values, &outer[i], error);
    if (code == TSR_OK && decides)
      code = tsx_bound_add(query, tree->column, outer_op(&outer[i]), values.values, values.count, 0, error);
    else if (code == TSR_OK && !values.many) code = outer_range(query, &outer[i], tree, &values, error);
    values_free(&values);
  }
  return code;
}

/* Tests a comparison with a datetime of cells that is an attribute. SQLite does not test it again. */
static int outer_decide(tsx_asked *asked, const tsx_outer *outer, const outer_values *v, tsr_error *error) {
  tsx_query *query = asked->query;
  const tsx_expr *tree = outer_tree(query, outer);
  const tsx_column *shows = &query->table->columns[tree->column];
  const tsx_op op = outer_op(outer);
  tsr_ranges set;
  if (op == TSX_IS && sqlite3_value_type(v->values[0]) == SQLITE_NULL)
    return tsx_lower_null(query, tree, &asked->where, error);
  const int code = tsx_bound_ranges(query, shows, op, v->values, v->count, 0, &set, error);
  return code < 0 ? code : tsx_lower_ranges(query, tree, &set, &asked->where, error);
}

/* ---- Axes -------------------------------------------------------------------------------------------------------- */

typedef struct outer_test { /* what a value of an axis is compared with */
  int op;
  bool in, utf16;
  tsx_value_list list; /* of IN */
  tsx_constant constant; /* otherwise */
} outer_test;

static int test_make(tsx_query *query, const tsx_outer *outer, const outer_values *v, outer_test *test,
                     tsr_error *error) {
  *test = (outer_test){.op = outer->op, .in = outer->in, .utf16 = tsx_connection_utf16(query->connection)};
  test->list.values = tsx_arena_take(&query->select.arena, ((uint64_t)v->count + 1) * sizeof *test->list.values);
  if (!test->list.values) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < v->count; i++) {
    const int type = sqlite3_value_type(v->values[i]);
    if (outer->in && (type == SQLITE_NULL || type == SQLITE_BLOB)) continue; /* no value of an axis equals it */
    const int code = tsx_query_copy(query, v->values[i], &test->list.values[test->list.count++], error);
    if (code < 0) return code;
  }
  if (outer->in) tsx_value_list_sort(&test->list);
  else test->constant = tsx_constant_make(&test->list.values[0]);
  return TSR_OK;
}

static bool test_may(const outer_test *test, const tsr_value *value) {
  return test->in ? tsx_value_may_be_in(value, &test->list)
                  : tsx_value_may(value, test->op, &test->constant, test->utf16);
}

/* Leaves out the values of an axis that do not satisfy a constraint; of labels not if a cell without one satisfies it. */
static int outer_axis(tsx_query *query, const tsx_outer *outer, const outer_values *v, tsr_error *error) {
  const tsx_expr *tree = outer_tree(query, outer);
  const uint32_t place = (uint32_t)tsx_axis_of(query, tree);
  tsx_axis *axis = &query->axes[place];
  const bool labels = query->table->columns[axis->column].form == TSX_LABEL;
  tsr_value null = {.type = TSR_VALUE_NULL};
  outer_test test;
  if (!outer->in && sqlite3_value_type(outer->value) == SQLITE_BLOB) return TSR_OK;
  int code = test_make(query, outer, v, &test, error);
  if (code >= 0 && labels) code = tsx_axis_null(query, place, tree, &null, error);
  if (code < 0) return code;
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
                        values[i].as.text.bytes == values[i - 1].as.text.bytes; /* equal texts lie in one place */
    if (!shared) may = test_may(&test, &values[i]);
    axis->kept[i] = axis->kept[i] && may;
  }
  return TSR_OK;
}

/* Makes the labels that the constraints have left a condition of cells. */
static int outer_labels(tsx_asked *asked, const tsx_outer *outer, uint32_t count, tsr_error *error) {
  tsx_query *query = asked->query;
  for (uint32_t a = 0; a < query->axis_count; a++) {
    if (!query->axes[a].kept || query->table->columns[query->axes[a].column].form != TSX_LABEL) continue;
    for (uint32_t i = 0; i < count; i++) {
      const tsx_expr *tree = outer_tree(query, &outer[i]);
      if (outer[i].request < 0 || tree->field != query->axes[a].column) continue;
      const int code = tsx_lower_kept(query, tree, a, &asked->where, error);
      if (code < 0) return code;
      break;
    }
  }
  return TSR_OK;
}

int tsx_outer_apply(tsx_asked *asked, const tsx_outer *outer, uint32_t count, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t i = 0; i < count && code == TSR_OK; i++) {
    const tsx_expr *tree = outer_tree(asked->query, &outer[i]);
    const bool decides = outer[i].decides && !asked->query->table->columns[tree->column].description->is_dimension;
    outer_values values;
    if (!decides && outer[i].request < 0) continue;
    code = values_take(&values, &outer[i], error);
    if (code == TSR_OK && decides) code = outer_decide(asked, &outer[i], &values, error);
    else if (code == TSR_OK && !values.many) code = outer_axis(asked->query, &outer[i], &values, error);
    values_free(&values);
  }
  return code == TSR_OK ? outer_labels(asked, outer, count, error) : code;
}
