/* coordinates.c: axes. An expression of one dimension, or of one enumerated attribute, is evaluated by SQLite, once for
 * each value that the column can have, instead of once for each cell.
 *
 * tsx_axes_find bounds each axis by the non-empty domain (or the enumeration), narrowed by WHERE's comparisons with
 * constants. An axis of up to TSX_COORDINATES_MAX values is usable. A longer axis of a sparse array, in a query without
 * joins, is `listed`: the engine first lists the distinct coordinates that cells have. Callers then register
 * expressions by tsx_axis_request. tsx_axes_evaluate runs one nested SELECT for each axis over its values, with one
 * result column per expression, and joins the tables that are bound to this dimension. A condition becomes a byte per
 * value in `kept`, the other expressions arrays of values, which serve as keys, as result columns, and as value tables
 * for the engine. Finally tsx_axes_ranges turns the kept coordinates into ranges of the dimension, so that the reader
 * skips the other tiles.
 *
 * Sections: which values an axis has; an axis as rows of a nested SELECT; the nested SELECT; its rows; coordinates that
 * cells have; evaluation; ranges. */
#include "query/query_internal.h"

#include <string.h>

#include "connection/errors.h"
#include "table/table.h"
#include "values/compare.h"

#define NUMBER_EXACT (INT64_C(1) << 53) /* integers up to it are exact as doubles */

bool tsx_axis_possible(const tsx_column *column) {
  const tsr_field *field = column->description;
  if (column->form == TSX_ENUMERATED) return true;
  if (!field->is_dimension || field->values_per_cell != 1) return false;
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME;
}

/* ---- Which values an axis has ------------------------------------------------------------------------------------ */

/* Loads a coordinate. A UINT64 keeps its bits, so it is negative above INT64_MAX. */
static int64_t load_coordinate(const tsr_field *field, const void *bytes) {
  const uint64_t size = tsr_datatype_size(field->datatype);
  return tsr_datatype_kind(field->datatype) == TSR_KIND_UNSIGNED ? (int64_t)tsx_load_unsigned(bytes, size)
                                                                 : tsx_load_signed(bytes, size);
}

bool tsx_axis_narrow(const tsr_field *field, const tsr_ranges *ranges, int64_t *low, int64_t *high) {
  if (ranges->all) return true;
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (uint64_t i = 0; i < ranges->count; i++) {
    const tsr_range *r = &ranges->ranges[i];
    int64_t a = r->low ? load_coordinate(field, r->low) : *low, b = r->high ? load_coordinate(field, r->high) : *high;
    if (field->datatype == TSR_UINT64 && a < 0) continue; /* above INT64_MAX, where the axis has no values */
    if (field->datatype == TSR_UINT64 && b < 0) b = *high;
    if (a < *low) a = *low;
    if (b > *high) b = *high;
    if (a > b) continue;
    if (a < first) first = a;
    if (b > last) last = b;
  }
  *low = first;
  *high = last;
  return first <= last;
}

/* Returns true if the axis lists the coordinates that cells of a sparse array have, since its range is too long, or not
 * that of its cells (tsr_coordinates_lossy). */
static bool must_list(const tsx_query *query, const tsx_axis *axis) {
  return !query->table->schema->dense && query->select.join_count == 0 && !axis->usable;
}

/* Sets the bounds of an axis. Returns 1; 0 if it has no values. */
static int set_bounds(const tsx_query *query, const tsr_interval *domain, tsx_axis *axis) {
  const tsx_column *shows = &query->table->columns[axis->column];
  if (shows->form == TSX_ENUMERATED) {
    axis->low = 0;
    axis->count = shows->enumeration->count;
    axis->usable = axis->count <= TSX_COORDINATES_MAX;
    return 1;
  }
  int64_t low = load_coordinate(shows->description, domain[shows->field].low),
          high = load_coordinate(shows->description, domain[shows->field].high);
  if (shows->description->datatype == TSR_UINT64 && (low < 0 || high < 0)) return 1; /* above INT64_MAX: not usable */
  for (const tsx_bound_range *b = query->bounds; b; b = b->next)
    if (b->column == axis->column && !b->after && !tsx_axis_narrow(shows->description, &b->set, &low, &high)) return 0;
  axis->low = low;
  axis->count = (uint64_t)high - (uint64_t)low + 1;
  const bool ranges = query->table->schema->dense || !tsr_coordinates_lossy(query->table->schema);
  axis->usable = ranges && axis->count >= 1 && axis->count <= TSX_COORDINATES_MAX;
  axis->listed = must_list(query, axis);
  axis->usable = axis->usable || axis->listed;
  return 1;
}

static int make_axes(tsx_query *query, tsr_error *error) {
  const uint32_t columns = query->table->column_count;
  query->axes = tsx_arena_take(&query->select.arena, columns * sizeof *query->axes);
  if (!query->axes) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < columns; i++)
    if (tsx_axis_possible(&query->table->columns[i])) query->axes[query->axis_count++].column = (int)i;
  return TSR_OK;
}

static void empty_axes(tsx_query *query) {
  for (uint32_t i = 0; i < query->axis_count; i++) {
    query->axes[i].count = 0;
    query->axes[i].usable = true;
  }
}

/* Finds the comparisons of the terms of WHERE that windows do not see. */
static int find_bounds_after(tsx_query *query, const tsx_expr *tree, tsr_error *error) {
  if (tree == tsx_where_before(&query->select)) return TSR_OK;
  if (tree->kind != TSX_EXPR_BINARY || tree->operation != TSR_OP_AND) return tsx_bounds_find(query, tree, error);
  TSX_TRY(find_bounds_after(query, tree->operands[0], error));
  return find_bounds_after(query, tree->operands[1], error);
}

static int find_bounds(tsx_query *query, tsr_error *error) {
  const tsx_select *s = &query->select;
  const tsx_expr *before = tsx_where_before(s);
  /* conditions on neighbours do not restrict the cells that have them */
  int code = before && !s->around ? tsx_bounds_find(query, before, error) : TSR_OK;
  if (code < 0 || !s->where || s->where == before) return code;
  query->bounds_after = true;
  code = find_bounds_after(query, s->where, error);
  query->bounds_after = false;
  return code;
}

int tsx_axes_none(tsx_query *query, tsr_error *error) {
  TSX_TRY(find_bounds(query, error));
  TSX_TRY(make_axes(query, error));
  empty_axes(query);
  return TSR_OK;
}

int tsx_axes_find(tsx_query *query, tsx_snapshot *snapshot, tsr_error *error) {
  const tsr_interval *domain = NULL;
  query->shown = snapshot;
  TSX_TRY(find_bounds(query, error));
  int any = tsr_snapshot_non_empty_domain(snapshot->core, &domain, error);
  if (any < 0) return any;
  TSX_TRY(make_axes(query, error));
  for (uint32_t i = 0; i < query->axis_count && any; i++)
    if (!set_bounds(query, domain, &query->axes[i])) any = 0;
  if (!any) empty_axes(query);
  return any;
}

int tsx_axis_of(const tsx_query *query, const tsx_expr *tree) {
  for (uint32_t i = 0; i < query->axis_count; i++) {
    const tsx_axis *axis = &query->axes[i];
    if (axis->column != tree->field) continue;
    return axis->usable && !(axis->listed && tree->kind == TSX_EXPR_NAME) ? (int)i : -1;
  }
  return -1;
}

int tsx_axis_of_dimension(const tsx_query *query, const tsx_expr *tree) {
  if (tree->field < 0 || !query->table->columns[tree->field].description->is_dimension) return -1;
  const int axis = tsx_axis_of(query, tree);
  return axis >= 0 && query->axes[axis].listed ? -1 : axis;
}

int tsx_axis_request(tsx_query *query, uint32_t number, const tsx_expr *tree, bool test, tsr_error *error) {
  tsx_axis *axis = &query->axes[number];
  tsx_arena *arena = &query->select.arena;
  for (uint32_t i = 0; i < axis->tree_count; i++)
    if (axis->tests[i] == test && tsx_expr_equal(axis->trees[i], tree)) return (int)i;
  const uint32_t n = axis->tree_count;
  if ((n & (n - 1)) == 0) {
    const uint64_t room = n ? 2 * n : 1;
    const tsx_expr **trees = tsx_arena_take(arena, room * sizeof *trees);
    bool *tests = tsx_arena_take(arena, room * sizeof *tests);
    tsr_value **values = tsx_arena_take(arena, room * sizeof *values);
    if (!trees || !tests || !values) return tsx_out_of_memory(error);
    for (uint32_t i = 0; i < n; i++) {
      trees[i] = axis->trees[i];
      tests[i] = axis->tests[i];
    }
    axis->trees = trees;
    axis->tests = tests;
    axis->values = values;
  }
  axis->trees[n] = tree;
  axis->tests[n] = test;
  return (int)axis->tree_count++;
}

/* ---- An axis as rows of a nested SELECT -------------------------------------------------------------------------- */

typedef struct axis_rows { /* the values of an axis, as rows of a nested SELECT */
  const tsx_query *query;
  const tsx_axis *axis;
  uint64_t row; /* counts from 1 */
  int slot;
  bool null; /* there is just one row, in which the column is null */
  int *label_slots; /* [the table's label_count]; -1: a label of another dimension, or unused */
  tsx_label_state **states;
} axis_rows;

static int next_row(tsx_rows *rows, tsr_error *error) {
  axis_rows *r = rows->state;
  (void)error;
  return r->row++ < (r->null ? 1 : r->axis->count);
}

static int give_column(tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error) {
  const axis_rows *r = rows->state;
  (void)error;
  const tsx_column *shows = &r->query->table->columns[r->axis->column];
  const tsx_axis *axis = r->axis;
  const int64_t value = axis->coordinates ? axis->coordinates[r->row - 1] : (int64_t)((uint64_t)axis->low + r->row - 1);
  const tsr_column cells = {.values = (const uint8_t *)&value,
                            .cell_size = tsr_datatype_size(shows->description->datatype)};
  if (slot == r->slot && !r->null) tsx_column_result(context, shows, &cells, 0, false);
  for (uint32_t i = 0; i < r->query->table->label_count && r->label_slots && !r->null; i++)
    if (slot == r->label_slots[i]) tsx_label_result(context, &r->query->table->labels[i], r->states[i], &cells, 0);
  return TSR_OK;
}

/* Replaces columns by the axis's slot, labels by their slots, and columns of joined tables by qualified names. */
static bool replace_node(void *argument, const tsx_expr *tree, sqlite3_str *out) {
  const axis_rows *r = argument;
  if (tree->kind == TSX_EXPR_JOINED) {
    const tsx_join *join = &r->query->select.joins[tree->join];
    if (tree->column < 0) sqlite3_str_appendf(out, "_tessera_value%u_%d.n", tree->join, -1 - tree->column);
    else sqlite3_str_appendf(out, "_tessera_join%u.\"%w\"", tree->join, join->columns[tree->column].name);
    return true;
  }
  if (tree->kind == TSX_EXPR_LABEL) {
    tsx_slot_append(out, r->label_slots[tree->column]);
    return true;
  }
  if (tree->kind != TSX_EXPR_NAME) return false;
  if (tree->alias) tsx_words_append(out, tree->alias, replace_node, argument);
  else tsx_slot_append(out, r->slot);
  return true;
}

static void take_slot(axis_rows *state, tsx_slots *slots) {
  state->slot = tsx_slot_take(slots, tsx_slot_affinity(state->query->table->columns[state->axis->column].declared));
}

/* Takes slots for the labels of the axis's dimension that the query uses, and loads the labels. release_labels releases
 * them, also after a failure. */
static int take_label_slots(tsx_query *query, axis_rows *state, tsx_slots *slots, tsr_error *error) {
  tsx_table *table = query->table;
  const tsx_column *shows = &table->columns[state->axis->column];
  if (table->label_count == 0 || !shows->description->is_dimension) return TSR_OK;
  state->states = tsx_arena_take(&query->select.arena, table->label_count * sizeof *state->states);
  state->label_slots = tsx_arena_take(&query->select.arena, table->label_count * sizeof *state->label_slots);
  if (!state->states || !state->label_slots) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < table->label_count; i++) {
    tsx_label_column *label = &table->labels[i];
    state->label_slots[i] = -1;
    if (!query->select.meaning.used[table->column_count + i] || label->dimension != shows->field) continue;
    const int slot = tsx_slot_take(slots, tsx_slot_affinity(label->column.declared));
    if (slot < 0) return tsx_fail(error, TSR_ERROR, "more than %d labels of '%s'", TSX_SLOTS - 1, shows->name);
    state->label_slots[i] = slot;
    int code = tsx_label_state_take(table, label, query->shown->since, query->shown->as_of, &state->states[i], error);
    if (code < 0 || (code = tsr_label_load(state->states[i]->index, error)) < 0) return code;
  }
  return TSR_OK;
}

static void release_labels(const axis_rows *state) {
  for (uint32_t i = 0; i < state->query->table->label_count && state->states; i++)
    tsx_label_state_release(state->states[i]);
}

int tsx_axis_null(tsx_query *query, uint32_t number, const tsx_expr *tree, tsr_value *value, tsr_error *error) {
  axis_rows state = {.query = query, .axis = &query->axes[number], .null = true};
  tsx_rows rows = {.next = next_row, .column = give_column, .state = &state};
  sqlite3_stmt *statement = NULL;
  *value = (tsr_value){.type = TSR_VALUE_NULL};
  tsx_slots slots = {0};
  take_slot(&state, &slots);
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  sqlite3_str_appendall(text, "SELECT (");
  tsx_words_append(text, tree, replace_node, &state);
  sqlite3_str_appendall(text, ")" TSX_ROWS_FROM);
  int code = tsx_rows_only(query->connection, text, &rows, &statement, error);
  if (code >= 0) code = tsx_query_copy(query, sqlite3_column_value(statement, 0), value, error);
  sqlite3_finalize(statement);
  return code;
}

static bool uses_join(const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  if (tree->kind == TSX_EXPR_JOINED || (tree->base && uses_join(tree->base))) return true;
  for (uint32_t i = 0; i < tree->count; i++)
    if (uses_join(tree->operands[i])) return true;
  return false;
}

/* Lets SQLite find the least and the greatest value of an expression, and whether all values are integers. */
static int ask_ends(tsx_query *query, const axis_rows *state, tsx_rows *rows, const tsx_expr *tree, bool *known,
                    int64_t ends[2], tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  sqlite3_str_appendall(text, "SELECT min(e), max(e), max(typeof(e) NOT IN ('integer', 'null')) FROM (SELECT (");
  tsx_words_append(text, tree, replace_node, (void *)(uintptr_t)state);
  sqlite3_str_appendall(text, ") AS e" TSX_ROWS_FROM ")");
  int code = tsx_rows_prepare(query->connection, text, rows, &statement, error);
  if (code >= 0) code = tsx_rows_step(query->connection, statement, error);
  *known = code > 0 && sqlite3_column_int(statement, 2) == 0;
  if (*known && sqlite3_column_type(statement, 0) == SQLITE_INTEGER) {
    ends[0] = sqlite3_column_int64(statement, 0);
    ends[1] = sqlite3_column_int64(statement, 1);
  }
  sqlite3_finalize(statement);
  return code < 0 ? code : TSR_OK;
}

int tsx_axis_ends(tsx_query *query, uint32_t number, const tsx_expr *tree, bool *known, int64_t ends[2],
                  tsr_error *error) {
  const tsx_axis *axis = &query->axes[number];
  *known = false;
  ends[0] = 1; /* an empty range */
  ends[1] = 0;
  if (axis->listed || uses_join(tree)) return TSR_OK;
  if (tree->kind == TSX_EXPR_NAME && !tree->alias) {
    *known = !strcmp(query->table->columns[axis->column].declared, "INTEGER");
    ends[0] = axis->low;
    ends[1] = (int64_t)((uint64_t)axis->low + axis->count - 1);
    return TSR_OK;
  }
  axis_rows state = {.query = query, .axis = axis};
  tsx_rows rows = {.next = next_row, .column = give_column, .state = &state};
  tsx_slots slots = {0};
  take_slot(&state, &slots);
  int code = take_label_slots(query, &state, &slots, error);
  if (code >= 0) code = ask_ends(query, &state, &rows, tree, known, ends, error);
  release_labels(&state);
  return code;
}

/* ---- The nested SELECT of an axis -------------------------------------------------------------------------------- */

/* Writes the joins with the distinct values of bound columns. LIMIT -1 makes SQLite materialize and index these,
 * too. */
static void append_bindings(sqlite3_str *text, const tsx_query *query, uint32_t j, axis_rows *state, int *parameters) {
  const tsx_join *join = &query->select.joins[j];
  for (uint32_t b = 0; b < join->on.binding_count; b++) {
    int slot;
    if (join->on.bindings[b].left->field != state->axis->column) continue;
    (void)tsx_joined_values(query, j, b, &slot);
    sqlite3_str_appendf(text, " %s JOIN (SELECT rowid AS n, ", join->left ? "LEFT" : "CROSS");
    tsx_slot_append(text, slot);
    sqlite3_str_appendf(text, " AS k FROM " TSX_ROWS_NAME "(?%d) LIMIT -1) AS _tessera_value%u_%u ON (", ++*parameters,
                        j, b);
    tsx_words_append(text, join->on.bindings[b].left, replace_node, state);
    sqlite3_str_appendf(text, ") = _tessera_value%u_%u.k", j, b);
  }
}

static int bind_values(const tsx_query *query, const tsx_axis *axis, sqlite3_stmt *statement, tsr_error *error) {
  int parameters = 1, slot;
  for (uint32_t j = 0; j < query->select.join_count; j++)
    for (uint32_t b = 0; b < query->select.joins[j].on.binding_count; b++) {
      if (query->select.joins[j].on.bindings[b].left->field != axis->column) continue;
      tsx_rows *rows = tsx_joined_values(query, j, b, &slot);
      TSX_TRY(tsx_rows_bind(query->connection, statement, ++parameters, rows, error));
    }
  return TSR_OK;
}

/* Writes the joins by the axis's column. CROSS and LEFT keep the axis as the outer loop, so its rows come in order. */
static void append_joins(sqlite3_str *text, const tsx_query *query, axis_rows *state) {
  int parameters = 1;
  for (uint32_t j = 0; j < query->select.join_count; j++) {
    const tsx_join *join = &query->select.joins[j];
    if (join->on.binding_count) append_bindings(text, query, j, state, &parameters);
    if (join->on.field != state->axis->column) continue;
    /* LIMIT -1 makes SQLite materialize and index a query; otherwise it would run the query for each coordinate. */
    sqlite3_str_appendf(text,
                        join->is_query ? " %s JOIN (SELECT * FROM \"%w\".\"%w\" LIMIT -1) AS _tessera_join%u ON "
                                       : " %s JOIN \"%w\".\"%w\" AS _tessera_join%u ON ",
                        join->left ? "LEFT" : "CROSS", join->source.schema, join->source.table, j);
    sqlite3_str_appendchar(text, 1, '(');
    tsx_words_append(text, join->on.tree, replace_node, state);
    sqlite3_str_appendchar(text, 1, ')');
  }
}

/* Returns the ON of the first join that involves an axis, or NULL. */
static const tsx_expr *condition_on(const tsx_query *query, const tsx_axis *axis) {
  for (uint32_t j = 0; j < query->select.join_count; j++) {
    const tsx_join *join = &query->select.joins[j];
    bool on = join->on.field == axis->column;
    for (uint32_t b = 0; b < join->on.binding_count; b++) on |= join->on.bindings[b].left->field == axis->column;
    if (on) return join->on.tree;
  }
  return NULL;
}

static bool is_joined(const tsx_query *query, const tsx_axis *axis) { return condition_on(query, axis) != NULL; }

static int prepare_values(const tsx_query *query, const tsx_axis *axis, axis_rows *state, tsx_rows *rows,
                          sqlite3_stmt **statement, tsr_error *error) {
  sqlite3_str *text = sqlite3_str_new(query->connection->db);
  sqlite3_str_appendall(text, "SELECT ");
  for (uint32_t i = 0; i < axis->tree_count; i++) {
    sqlite3_str_appendchar(text, 1, '(');
    tsx_words_append(text, axis->trees[i], replace_node, state);
    sqlite3_str_appendall(text, axis->tests[i] ? ") IS TRUE, " : "), ");
  }
  sqlite3_str_appendall(text, TSX_ROWS_NAME ".rowid" TSX_ROWS_FROM);
  append_joins(text, query, state);
  TSX_TRY(tsx_rows_prepare(query->connection, text, rows, statement, error));
  return bind_values(query, axis, *statement, error);
}

/* ---- Its rows ---------------------------------------------------------------------------------------------------- */

/* Copies a value. A text equal to the previous one shares its bytes. */
static int copy_value(tsx_query *query, sqlite3_stmt *statement, int i, const tsr_value *before, tsr_value *value,
                      tsr_error *error) {
  sqlite3_value *given = sqlite3_column_value(statement, i);
  if (before && before->type == TSR_VALUE_TEXT && sqlite3_value_type(given) == SQLITE_TEXT) {
    const char *text = (const char *)sqlite3_value_text(given);
    if (text && before->as.text.size == (uint64_t)sqlite3_value_bytes(given) &&
        !memcmp(text, before->as.text.bytes, before->as.text.size)) {
      *value = *before;
      return TSR_OK;
    }
  }
  return tsx_query_copy(query, given, value, error);
}

/* Drops the coordinates from `from` up to `to`, for which a join has no row. */
static void drop_coordinates(tsx_axis *axis, uint64_t from, uint64_t to) {
  for (; from < to; from++) {
    axis->kept[from] = 0;
    for (uint32_t i = 0; i < axis->tree_count; i++)
      if (!axis->tests[i]) axis->values[i][from].type = TSR_VALUE_NULL;
  }
}

static int fail_second_row(const tsx_query *query, const tsx_axis *axis, tsr_error *error) {
  const tsx_expr *on = condition_on(query, axis);
  return tsx_not_evaluated(&query->select, on->begin, on->end, "a joined table has more than one row for a coordinate",
                           error);
}

/* Stores the rows of the nested SELECT, which come in the order of the axis. If tables are joined, coordinates without
 * a row are dropped, and a second row for a coordinate is an error. */
static int store_rows(tsx_query *query, tsx_axis *axis, sqlite3_stmt *statement, tsr_error *error) {
  const bool joined = is_joined(query, axis);
  for (uint64_t done = 0;;) {
    int code = tsx_rows_step(query->connection, statement, error);
    if (code <= 0) {
      if (code == 0 && !joined && done < axis->count) return tsx_rows_none(error);
      if (code == 0 && joined) drop_coordinates(axis, done, axis->count);
      return code;
    }
    const uint64_t row = (uint64_t)sqlite3_column_int64(statement, (int)axis->tree_count) - 1;
    if (row < done) return fail_second_row(query, axis, error);
    if (joined) drop_coordinates(axis, done, row);
    done = row + 1;
    for (uint32_t i = 0; i < axis->tree_count; i++) {
      if (axis->tests[i]) {
        axis->kept[row] &= sqlite3_column_int(statement, (int)i) == 1;
        continue;
      }
      tsr_value *value = &axis->values[i][row];
      code = copy_value(query, statement, (int)i, row ? value - 1 : NULL, value, error);
      if (code < 0)
        return code == TSR_NOMEM
                   ? code
                   : tsx_not_evaluated(&query->select, axis->trees[i]->begin, axis->trees[i]->end, "blobs", error);
    }
  }
  return TSR_OK;
}

/* ---- Coordinates that cells have --------------------------------------------------------------------------------- */

/* Takes the groups of a run, which are the coordinates that cells have. */
static int take_groups(tsx_query *query, tsx_axis *axis, tsr_query_run *run, tsr_error *error) {
  const uint64_t count = tsr_query_groups(run);
  if (count > TSX_COORDINATES_MAX)
    return tsx_fail(error, TSR_ERROR, "%s has more than %u values here: select a part of them with WHERE",
                    query->table->columns[axis->column].name, TSX_COORDINATES_MAX);
  axis->coordinates = tsx_arena_take(&query->select.arena, (count + 1) * sizeof *axis->coordinates);
  if (!axis->coordinates) return tsx_out_of_memory(error);
  tsr_value value;
  for (uint64_t i = 0; i < count; i++) {
    tsr_query_key_value(run, i, 0, &value);
    axis->coordinates[i] = value.as.integer;
  }
  axis->count = count;
  return TSR_OK;
}

/* Lists the distinct coordinates of cells, by a GROUP BY in the engine. */
static int list_coordinates(tsx_query *query, tsx_axis *axis, tsr_error *error) {
  const tsx_column *shows = &query->table->columns[axis->column];
  const tsr_node node = {
      .operation = TSR_OP_FIELD, .field = shows->field, .as_integer = true, .nat_is_null = shows->nat_is_null};
  const tsr_query_key key = {.expression = {.nodes = &node, .count = 1}};
  tsr_ranges *dimensions =
      tsx_arena_take(&query->select.arena, query->table->schema->dimension_count * sizeof *dimensions);
  tsr_query request = {.dimensions = dimensions,
                       .key_count = 1,
                       .keys = &key,
                       .memory_bytes = query->memory_bytes,
                       .threads = query->threads};
  tsr_query_run *run = NULL;
  if (!dimensions) return tsx_out_of_memory(error);
  TSX_TRY(tsx_axes_ranges(query, dimensions, error));
  int code = tsr_query_start(query->shown->core, &request, &run, error);
  if (code >= 0) code = take_groups(query, axis, run, error);
  tsr_query_close(run);
  return code;
}

/* ---- Evaluation -------------------------------------------------------------------------------------------------- */

static int evaluate_axis(tsx_query *query, tsx_axis *axis, tsr_error *error) {
  axis_rows state = {.query = query, .axis = axis};
  tsx_rows rows = {.next = next_row, .column = give_column, .state = &state};
  sqlite3_stmt *statement = NULL;
  bool tests = is_joined(query, axis);
  if (axis->listed) TSX_TRY(list_coordinates(query, axis, error));
  for (uint32_t i = 0; i < axis->tree_count; i++) {
    tests |= axis->tests[i];
    if (axis->tests[i]) continue;
    axis->values[i] = tsx_arena_take(&query->select.arena, axis->count * sizeof(tsr_value) + 8);
    if (!axis->values[i]) return tsx_out_of_memory(error);
  }
  if (tests && !axis->kept) {
    axis->kept = tsx_arena_take(&query->select.arena, axis->count + 1);
    if (!axis->kept) return tsx_out_of_memory(error);
    memset(axis->kept, 1, axis->count);
  }
  tsx_slots slots = {0};
  take_slot(&state, &slots);
  int code = take_label_slots(query, &state, &slots, error);
  if (code >= 0) code = prepare_values(query, axis, &state, &rows, &statement, error);
  if (code >= 0) code = store_rows(query, axis, statement, error);
  if (code >= 0) tsr_environment_count_coordinates(query->connection->environment, axis->count);
  sqlite3_finalize(statement);
  release_labels(&state);
  return code;
}

/* Returns the common type of two types; OPAQUE if there is none. */
static tsr_value_type common_type(tsr_value_type a, tsr_value_type b) {
  if (a == b || b == TSR_VALUE_NULL) return a;
  if (a == TSR_VALUE_NULL) return b;
  return a == TSR_VALUE_TEXT || b == TSR_VALUE_TEXT ? TSR_VALUE_OPAQUE : TSR_VALUE_NUMBER;
}

/* Fills a value table and finds its type. A table of type NUMBER stores INTEGERs as doubles, so they must be exact. */
static int fill_table(tsx_query *query, const tsx_value_use *use, tsr_error *error) {
  const tsx_axis *axis = &query->axes[use->axis];
  tsr_value_table *table = use->table;
  bool exact = true;
  table->field = query->table->columns[axis->column].field;
  table->low = axis->low;
  table->count = axis->count;
  table->coordinates = axis->coordinates;
  table->values = axis->values[use->tree];
  table->type = TSR_VALUE_NULL;
  for (uint64_t i = 0; i < axis->count && table->type != TSR_VALUE_OPAQUE; i++) {
    const tsr_value *value = &table->values[i];
    table->type = common_type(table->type, value->type);
    exact &=
        value->type != TSR_VALUE_INTEGER || (value->as.integer >= -NUMBER_EXACT && value->as.integer <= NUMBER_EXACT);
  }
  if (table->type != TSR_VALUE_OPAQUE && (table->type != TSR_VALUE_NUMBER || exact)) return TSR_OK;
  return tsx_expr_fail(&query->select, use->words->begin, use->words->end,
                       table->type == TSR_VALUE_NUMBER ? "INTEGER past 2^53 in one branch, REAL in another: "
                                                       : "INTEGER in one branch, REAL or TEXT in another: ",
                       "CAST one of them", error);
}

/* Returns 1 if an axis has something to evaluate, else 0. A join on an axis that is not usable is an error. */
static int needs_evaluation(const tsx_query *query, const tsx_axis *axis, tsr_error *error) {
  if (!is_joined(query, axis)) return axis->tree_count > 0;
  return axis->usable ? 1
                      : tsx_fail(error, TSR_ERROR, "a join by '%s', which has more than %u coordinates",
                                 query->table->columns[axis->column].name, TSX_COORDINATES_MAX);
}

int tsx_axes_evaluate(tsx_query *query, tsr_error *error) {
  TSX_TRY(tsx_joined_read(query, error));
  for (uint32_t a = 0; a < query->axis_count; a++) {
    const int needed = needs_evaluation(query, &query->axes[a], error);
    if (needed < 0) return needed;
    if (needed) TSX_TRY(evaluate_axis(query, &query->axes[a], error));
  }
  TSX_TRY(tsx_joined_finish(query, error));
  for (const tsx_value_use *use = query->uses; use; use = use->next) TSX_TRY(fill_table(query, use, error));
  return TSR_OK;
}

/* ---- Ranges ------------------------------------------------------------------------------------------------------ */

/* Makes a range of each run of consecutive kept coordinates. */
static int ranges_of_kept(tsx_query *query, const tsx_axis *axis, tsr_ranges *out, tsr_error *error) {
  uint64_t count = 0, n = 0;
  for (uint64_t i = 0; i < axis->count; i++) count += axis->kept[i] && (i == 0 || !axis->kept[i - 1]);
  tsr_range *ranges = tsx_arena_take(&query->select.arena, (count + 1) * sizeof *ranges);
  int64_t(*ends)[2] = tsx_arena_take(&query->select.arena, (count + 1) * sizeof *ends);
  if (!ranges || !ends) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < axis->count; i++) {
    if (!axis->kept[i]) continue;
    const int64_t value = (int64_t)((uint64_t)axis->low + i);
    if (i == 0 || !axis->kept[i - 1]) ends[n++][0] = value;
    ends[n - 1][1] = value;
  }
  for (uint64_t i = 0; i < n; i++) ranges[i] = (tsr_range){.low = &ends[i][0], .high = &ends[i][1]};
  out->ranges = ranges;
  out->count = n;
  out->all = false;
  return TSR_OK;
}

int tsx_axes_ranges(tsx_query *query, tsr_ranges *dimensions, tsr_error *error) {
  for (uint32_t d = 0; d < query->table->schema->dimension_count; d++) dimensions[d] = (tsr_ranges){.all = true};
  for (uint32_t a = 0; a < query->axis_count; a++) {
    const tsx_column *shows = &query->table->columns[query->axes[a].column];
    if (query->axes[a].kept && shows->description->is_dimension)
      TSX_TRY(ranges_of_kept(query, &query->axes[a], &dimensions[shows->field], error));
  }
  for (tsx_bound_range *b = query->bounds; b; b = b->next) {
    if (b->after) continue;
    tsr_ranges *first = &dimensions[query->table->columns[b->column].field];
    b->set.also = first->also;
    first->also = &b->set;
  }
  return TSR_OK;
}

int tsx_axes_ranges_after(tsx_query *query, tsr_ranges *dimensions, tsr_error *error) {
  for (const tsx_bound_range *b = query->bounds; b; b = b->next) {
    if (!b->after) continue;
    tsr_ranges *first = &dimensions[query->table->columns[b->column].field];
    tsr_ranges *set = tsx_arena_take(&query->select.arena, sizeof *set);
    if (!set) return tsx_out_of_memory(error);
    *set = b->set;
    set->also = first->also;
    first->also = set;
  }
  return TSR_OK;
}
