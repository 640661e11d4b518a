/* window.c: window functions over dimensions: fn(...) OVER (PARTITION BY dimensions ORDER BY dimension frame).
 *
 * The partition is a line of cells along the dimension in ORDER BY. SQLite evaluates the term of ORDER BY once for each
 * coordinate, and it must rise or fall strictly with the coordinates. So all lines have the same frames, which become a
 * table by coordinate: the first and the last coordinate of each frame (tsr_window_axis). ROWS counts the coordinates
 * that WHERE has left, since a dense array shows a row for each. Without ORDER BY, the frame is the whole partition, a
 * box along all dimensions that PARTITION BY lacks.
 *
 * row_number is the count of a frame from the first row to the current one, lag and lead are the first value of a frame
 * of one row.
 *
 * Sections: checks; taking windows; frames; finishing. */
#include "query/query_internal.h"

#include <math.h>
#include <string.h>

#include "connection/errors.h"

typedef struct tsx_window_use {
  tsr_window window; /* the engine's */
  tsr_window_axis axis; /* with ORDER BY */
  const tsx_expr *tree;
  bool counts; /* of tsx_window_take */
  int order_axis, order_tree; /* order_tree < 0: the coordinates themselves */
  int64_t offsets[2]; /* of lag, lead, ROWS */
  tsr_value starts[2]; /* of RANGE: the offsets */
  tsx_lowered argument, filter;
  bool dropped; /* no value of it is asked for any more */
} tsx_window_use;

static int refuse(const tsx_query *query, const tsx_expr *tree, const char *why, tsr_error *error) {
  return tsx_not_evaluated(&query->select, tree->begin, tree->end, why, error);
}

static bool is_function(const tsx_expr *tree, const char *name) { return !strcmp(tree->name, name); }

static bool shifts_row(const tsx_expr *tree) { return is_function(tree, "lag") || is_function(tree, "lead"); }

/* Returns true if the function needs ORDER BY, and counts rows whatever the frame. */
static bool counts_rows(const tsx_expr *tree) { return shifts_row(tree) || is_function(tree, "row_number"); }

static bool picks_row(const tsx_expr *tree) {
  return is_function(tree, "first_value") || is_function(tree, "last_value") || is_function(tree, "nth_value");
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* Returns the first window in a tree that is not behind a name; NULL if there is none. */
static const tsx_expr *find_window(const tsx_expr *tree) {
  if (!tree || tree->kind == TSX_EXPR_WINDOW) return tree;
  const tsx_expr *found = find_window(tree->base);
  for (uint32_t i = 0; i < tree->count && !found; i++) found = find_window(tree->operands[i]);
  return found;
}

int tsx_windows_check(const tsx_query *query, tsr_error *error) {
  const tsx_select *s = &query->select;
  const tsx_expr *found = NULL;
  if (!s->windows.count) return TSR_OK;
  for (uint32_t c = 0; c < query->table->column_count; c++) {
    const tsx_column *column = &query->table->columns[c];
    if (!column->description->is_dimension ||
        (tsx_axis_possible(column) && column->form != TSX_UINT64_SIGNED && column->description->datatype != TSR_UINT64))
      continue;
    return tsx_fail(error, TSR_ERROR, TSX_NOT_EVALUATED "windows of an array whose dimension '%s' has no integers",
                    column->name);
  }
  if (!query->table->schema->dense && query->table->schema->allows_duplicates)
    return tsx_fail(error, TSR_ERROR, TSX_NOT_EVALUATED "windows of an array with duplicates");
  if (s->windows.other) return refuse(query, s->windows.other, "windows at two levels of FROM", error);
  if (s->join_count > 0)
    return tsx_not_evaluated(s, s->joins[0].begin, s->joins[0].source.end, "windows over a join", error);
  for (uint32_t i = 0; i < s->item_count && !found; i++) found = find_window(s->items[i].tree);
  for (uint32_t i = 0; i < s->order_count && !found; i++) found = find_window(s->order[i].tree);
  if (found && (query->over_groups || s->distinct))
    return refuse(query, found, "windows beside GROUP BY or DISTINCT: FROM (SELECT ...)", error);
  return TSR_OK;
}

/* Returns the dimension that a term of PARTITION BY is, or -1. */
static int partition_dimension(const tsx_query *query, const tsx_expr *tree) {
  tree = tsx_expr_meaning(tree);
  const tsx_column *shows = tree->kind == TSX_EXPR_NAME ? &query->table->columns[tree->column] : NULL;
  return shows && shows->description->is_dimension ? (int)shows->field : -1;
}

static bool partition_has(const tsx_query *query, const tsx_over *over, uint32_t dimension) {
  for (uint32_t i = 0; i < over->partition_count; i++)
    if (partition_dimension(query, over->partition[i]) == (int)dimension) return true;
  return false;
}

static int check_over(const tsx_query *query, const tsx_expr *tree, tsr_error *error) {
  const tsx_over *over = tree->over;
  if (tree->call.distinct) return refuse(query, tree, "DISTINCT in a window", error);
  for (uint32_t i = 0; i < tree->count; i++)
    if (tree->operands[i]->has_window) return refuse(query, tree, "a window over windows", error);
  if (tree->call.filter && tree->call.filter->has_window) return refuse(query, tree, "a window over windows", error);
  for (uint32_t i = 0; i < over->partition_count; i++)
    if (partition_dimension(query, over->partition[i]) < 0 && over->partition[i]->field != TSX_FIELD_NONE)
      return refuse(query, over->partition[i], "PARTITION BY of a window takes dimensions", error);
  if (over->order && (over->order->has_window || over->order->has_aggregate || over->order->field < 0 ||
                      !query->table->columns[over->order->field].description->is_dimension))
    return refuse(query, over->order, "ORDER BY of a window is one dimension, or what rises with it", error);
  if (over->order && partition_has(query, over, query->table->columns[over->order->field].field))
    return refuse(query, over->order, "the dimension of ORDER BY is in PARTITION BY, too", error);
  if (!over->order && (counts_rows(tree) || picks_row(tree) || over->rows || over->start.offset || over->last.offset))
    return refuse(query, tree, "a window of rows in no order: ORDER BY a dimension", error);
  if (!query->table->schema->dense && (counts_rows(tree) || over->rows))
    return refuse(query, tree, "rows of a sparse array: write RANGE, which counts coordinates", error);
  return TSR_OK;
}

/* ---- Taking windows ---------------------------------------------------------------------------------------------- */

static bool is_number(const tsr_value *value) {
  return value->type == TSR_VALUE_INTEGER || value->type == TSR_VALUE_REAL;
}

/* Evaluates a constant whole number. */
static int evaluate_whole(const tsx_query *query, const tsx_expr *tree, int64_t *whole, tsr_error *error) {
  sqlite3_value *value = NULL;
  if (tree->field != TSX_FIELD_NONE || tree->has_aggregate)
    return refuse(query, tree, "the offset is not a constant", error);
  TSX_TRY(tsx_query_constant(query, tree, &value, error));
  const bool integer = sqlite3_value_numeric_type(value) == SQLITE_INTEGER;
  *whole = sqlite3_value_int64(value);
  sqlite3_value_free(value);
  return integer ? TSR_OK : refuse(query, tree, "expected a whole number", error);
}

/* Evaluates the offset of an end of the frame. */
static int evaluate_offset(tsx_query *query, const tsx_over *over, const tsx_frame_end *end, int64_t *whole,
                           tsr_value *number, tsr_error *error) {
  if (end->edge != TSX_EDGE_OFFSET) return TSR_OK;
  const tsx_expr *tree = end->offset;
  const char *which = end == &over->start ? "starting" : "ending";
  if (over->rows) {
    TSX_TRY(evaluate_whole(query, tree, whole, error));
    if (*whole < 0) return tsx_fail(error, TSR_ERROR, "frame %s offset must be a non-negative integer", which);
    if (*whole > INT32_MAX) *whole = INT32_MAX; /* an axis is shorter */
    return TSR_OK;
  }
  sqlite3_value *value = NULL;
  if (tree->field != TSX_FIELD_NONE || tree->has_aggregate)
    return refuse(query, tree, "the offset is not a constant", error);
  TSX_TRY(tsx_query_constant(query, tree, &value, error));
  const int code = tsx_query_copy(query, value, number, error);
  sqlite3_value_free(value);
  if (code < 0) return code;
  if (is_number(number) && (number->type == TSR_VALUE_REAL ? number->as.real >= 0 : number->as.integer >= 0))
    return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "frame %s offset must be a non-negative number", which);
}

/* Reads the constants of a window: offsets, the n of nth_value, the percentage. */
static int read_constants(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  const tsx_expr *tree = use->tree;
  const tsx_over *over = tree->over;
  int64_t n = 1;
  TSX_TRY(evaluate_offset(query, over, &over->start, &use->offsets[0], &use->starts[0], error));
  TSX_TRY(evaluate_offset(query, over, &over->last, &use->offsets[1], &use->starts[1], error));
  if (shifts_row(tree)) {
    if (tree->count > 1) TSX_TRY(evaluate_whole(query, tree->operands[1], &n, error));
    if (n < 0) /* SQLite's answer depends on the other windows */
      return refuse(query, tree, "an offset below 0", error);
    if (n > INT32_MAX) n = INT32_MAX; /* an axis is shorter */
    use->offsets[0] = use->offsets[1] = is_function(tree, "lag") ? -n : n;
  } else if (is_function(tree, "nth_value")) {
    TSX_TRY(evaluate_whole(query, tree->operands[1], &n, error));
    if (n <= 0) return tsx_fail(error, TSR_ERROR, "second argument to nth_value must be a positive integer");
    use->window.nth = (uint64_t)n;
  } else if (use->window.function == TSR_AGGREGATE_PERCENTILE) {
    const tsx_expr *percent = tree->operands[1];
    if (percent->field != TSX_FIELD_NONE) return refuse(query, percent, "the percentage is not a constant", error);
    return tsx_query_percent(query, percent, &use->window.percent, error);
  }
  return TSR_OK;
}

/* Finds the axis of ORDER BY, and requests its values. */
static int find_order_axis(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  const tsx_expr *order = use->tree->over->order ? tsx_expr_meaning(use->tree->over->order) : NULL;
  use->order_axis = use->order_tree = -1;
  if (!order) return TSR_OK;
  use->order_axis = tsx_axis_of_dimension(query, order);
  if (use->order_axis < 0)
    return refuse(query, order, "the dimension of ORDER BY has more than 1048576 coordinates, or no integers", error);
  if (order->kind == TSX_EXPR_NAME) return TSR_OK;
  use->order_tree = tsx_axis_request(query, (uint32_t)use->order_axis, order, false, error);
  return use->order_tree < 0 ? use->order_tree : TSR_OK;
}

static int make_window(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  const tsx_expr *tree = use->tree;
  TSX_TRY(check_over(query, tree, error));
  use->window.function = use->counts ? TSR_AGGREGATE_COUNT : tree->call.function->aggregates;
  use->window.type = TSR_VALUE_NULL;
  TSX_TRY(read_constants(query, use, error));
  TSX_TRY(find_order_axis(query, use, error));
  const tsx_expr *argument = tree->count && !use->counts ? tree->operands[0] : NULL;
  const tsx_expr *filter = tree->call.filter;
  if (argument) TSX_TRY(tsx_lower(query, &argument, 1, &use->argument, error));
  if (filter) TSX_TRY(tsx_lower(query, &filter, 1, &use->filter, error));
  return TSR_OK;
}

const tsr_window *tsx_window_take(tsx_query *query, const tsx_expr *tree, bool counts, tsr_error *error) {
  for (uint32_t w = 0; w < query->window_count; w++)
    if (query->windows[w].counts == counts && tsx_expr_equal(query->windows[w].tree, tree))
      return &query->windows[w].window;
  if (!query->windows)
    query->windows = tsx_arena_take(&query->select.arena, TSR_QUERY_WINDOWS * sizeof *query->windows);
  if (!query->windows) {
    tsx_out_of_memory(error);
    return NULL;
  }
  if (query->window_count == TSR_QUERY_WINDOWS) {
    tsx_fail(error, TSR_ERROR, "more than %u windows", TSR_QUERY_WINDOWS);
    return NULL;
  }
  tsx_window_use *use = &query->windows[query->window_count];
  *use = (tsx_window_use){.tree = tree, .counts = counts, .window.number = query->window_count};
  if (make_window(query, use, error) < 0) return NULL;
  query->window_count++;
  return &use->window;
}

/* ---- Frames ------------------------------------------------------------------------------------------------------ */

typedef struct window_line { /* the coordinates along ORDER BY that WHERE leaves, in the window's order */
  const tsx_query *query;
  const tsx_window_use *use;
  const tsx_axis *axis;
  uint64_t count;
  uint64_t *at; /* [count]: index on the axis */
  tsr_value *keys; /* [count]: in the window's order they rise; NULL: texts, whose distance is not known */
  bool backwards; /* the order falls with the coordinates */
} window_line;

/* Returns the value of the term of ORDER BY for index i of the axis. */
static tsr_value order_value(const window_line *l, uint64_t i) {
  if (l->use->order_tree >= 0) return l->axis->values[l->use->order_tree][i];
  return (tsr_value){.type = TSR_VALUE_INTEGER, .as.integer = (int64_t)((uint64_t)l->axis->low + i)};
}

/* Fails for coordinates that do not rise or fall strictly. */
static int fail_order(const window_line *l, uint64_t i, uint64_t j, tsr_error *error) {
  const tsx_expr *order = l->use->tree->over->order;
  return tsx_fail(error, TSR_ERROR,
                  TSX_NOT_EVALUATED
                  "'%.*s': ORDER BY of a window rises or falls with the dimension, and of %s = %lld and "
                  "%lld it does not",
                  (int)(order->end - order->begin), order->begin, l->query->table->columns[l->axis->column].name,
                  (long long)((uint64_t)l->axis->low + i), (long long)((uint64_t)l->axis->low + j));
}

/* Returns the negative of a number, as a key of a falling order. INT64_MIN becomes a REAL. */
static tsr_value negative(tsr_value value) {
  if (value.type == TSR_VALUE_REAL) value.as.real = -value.as.real;
  else if (value.as.integer == INT64_MIN) value = (tsr_value){.type = TSR_VALUE_REAL, .as.real = 0x1p63};
  else value.as.integer = -value.as.integer;
  return value;
}

/* Lists the coordinates in the window's order, with their keys. */
static int make_line(tsx_query *query, const tsx_window_use *use, window_line *l, tsr_error *error) {
  const tsx_over *over = use->tree->over;
  const tsx_axis *axis = &query->axes[use->order_axis];
  *l = (window_line){.query = query, .use = use, .axis = axis};
  l->at = tsx_arena_take(&query->select.arena, (axis->count + 1) * sizeof *l->at);
  l->keys = tsx_arena_take(&query->select.arena, (axis->count + 1) * sizeof *l->keys);
  if (!l->at || !l->keys) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < axis->count; i++)
    if (!axis->kept || axis->kept[i]) l->at[l->count++] = i;
  int rises = 0;
  bool numbers = true;
  for (uint64_t k = 0; k < l->count; k++) {
    const tsr_value value = order_value(l, l->at[k]);
    numbers &= is_number(&value);
    if (value.type == TSR_VALUE_NULL) return fail_order(l, l->at[k], l->at[k], error);
    if (k == 0) continue;
    const tsr_value before = order_value(l, l->at[k - 1]);
    const int order = tsx_values_compare(&before, &value);
    if (order == 0 || (rises && (order < 0) != (rises > 0))) return fail_order(l, l->at[k - 1], l->at[k], error);
    rises = order < 0 ? 1 : -1;
  }
  if (!numbers) TSX_TRY(tsx_query_orders_texts(query, over->order, error));
  const tsx_column *shows = &query->table->columns[axis->column];
  if (use->order_tree < 0 && shows->form > TSX_UINT32 && !shows->datetimes_integer) numbers = false; /* it shows text */
  l->backwards = (rises < 0) != over->descending;
  for (uint64_t k = 0; k < l->count / 2 && l->backwards; k++) {
    const uint64_t other = l->at[l->count - 1 - k];
    l->at[l->count - 1 - k] = l->at[k];
    l->at[k] = other;
  }
  for (uint64_t k = 0; k < l->count && numbers; k++) {
    const tsr_value value = order_value(l, l->at[k]);
    l->keys[k] = over->descending ? negative(value) : value;
  }
  if (!numbers) l->keys = NULL;
  return TSR_OK;
}

/* Adds two numbers as SQLite does. */
static tsr_value sum_of(const tsr_value *a, const tsr_value *b) {
  tsr_value sum = {.type = TSR_VALUE_INTEGER};
  if (a->type == TSR_VALUE_INTEGER && b->type == TSR_VALUE_INTEGER &&
      !__builtin_add_overflow(a->as.integer, b->as.integer, &sum.as.integer))
    return sum;
  const double x = a->type == TSR_VALUE_REAL ? a->as.real : (double)a->as.integer;
  sum = (tsr_value){.type = TSR_VALUE_REAL};
  sum.as.real = x + (b->type == TSR_VALUE_REAL ? b->as.real : (double)b->as.integer);
  return sum;
}

/* Compares keys[i] + offset with keys[k]. */
static int compare_moved(const window_line *l, uint64_t i, const tsr_value *offset, uint64_t k) {
  const tsr_value moved = sum_of(&l->keys[i], offset);
  return tsx_values_compare(&moved, &l->keys[k]);
}

static uint64_t clamp_place(int64_t place, uint64_t count) {
  return place < 0 ? 0 : (uint64_t)place > count ? count : (uint64_t)place;
}

/* Returns the first place of the frame of place k, not before `from`, the one of the place before. */
static uint64_t frame_start(const window_line *l, uint64_t k, uint64_t from) {
  const tsx_frame_end *end = &l->use->tree->over->start;
  const tsr_value *offset = &l->use->starts[0];
  if (end->edge == TSX_EDGE_UNBOUNDED) return end->following ? l->count : 0;
  if (end->edge == TSX_EDGE_CURRENT || !l->keys) return k;
  while (from < l->count &&
         (end->following ? compare_moved(l, k, offset, from) > 0 : compare_moved(l, from, offset, k) < 0))
    from++;
  return from;
}

/* Returns the place behind the last one of the frame of place k. */
static uint64_t frame_end(const window_line *l, uint64_t k, uint64_t from) {
  const tsx_frame_end *end = &l->use->tree->over->last;
  const tsr_value *offset = &l->use->starts[1];
  if (end->edge == TSX_EDGE_UNBOUNDED) return end->following ? l->count : 0;
  if (end->edge == TSX_EDGE_CURRENT || !l->keys) return k + 1;
  while (from < l->count &&
         (end->following ? compare_moved(l, k, offset, from) >= 0 : compare_moved(l, from, offset, k) <= 0))
    from++;
  return from;
}

/* Returns the place of an end of ROWS, counted from place k. */
static int64_t place_in_rows(const tsx_frame_end *end, int64_t offset, uint64_t k, uint64_t count) {
  if (end->edge == TSX_EDGE_UNBOUNDED) return end->following ? (int64_t)count : -1;
  if (end->edge == TSX_EDGE_CURRENT) return (int64_t)k;
  return (int64_t)k + (end->following ? offset : -offset);
}

/* Finds the frame of place k: places *start to *behind - 1. Neither ever decreases with k. */
static void find_frame(const window_line *l, uint64_t k, uint64_t *start, uint64_t *behind) {
  const tsx_expr *tree = l->use->tree;
  const tsx_over *over = tree->over;
  if (shifts_row(tree)) {
    const int64_t place = (int64_t)k + l->use->offsets[0];
    *start = clamp_place(place, l->count);
    *behind = clamp_place(place + 1, l->count);
  } else if (is_function(tree, "row_number")) {
    *start = 0;
    *behind = k + 1;
  } else if (over->rows) {
    *start = clamp_place(place_in_rows(&over->start, l->use->offsets[0], k, l->count), l->count);
    *behind = clamp_place(place_in_rows(&over->last, l->use->offsets[1], k, l->count) + 1, l->count);
  } else {
    *start = frame_start(l, k, *start);
    *behind = frame_end(l, k, *behind);
  }
}

/* Makes the table of frames by coordinate. */
static int make_frames(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  window_line l;
  TSX_TRY(make_line(query, use, &l, error));
  tsr_window_frame *frames = tsx_arena_take(&query->select.arena, (l.axis->count + 1) * sizeof *frames);
  if (!frames) return tsx_out_of_memory(error);
  const int64_t n = (int64_t)l.axis->count;
  uint64_t start = 0, behind = 0;
  for (uint64_t k = 0; k < l.count; k++) {
    find_frame(&l, k, &start, &behind);
    const int64_t low = start < l.count ? (int64_t)l.at[start] : l.backwards ? -1 : n;
    const int64_t high = behind > 0 ? (int64_t)l.at[behind - 1] : l.backwards ? n : -1;
    frames[l.at[k]] = l.backwards ? (tsr_window_frame){high, low} : (tsr_window_frame){low, high};
  }
  tsr_window_frame before = {0, -1};
  for (uint64_t i = 0; i < l.axis->count; i++) { /* coordinates that WHERE drops */
    if (l.axis->kept && !l.axis->kept[i]) frames[i] = before;
    before = frames[i];
  }
  use->axis = (tsr_window_axis){.dimension = query->table->columns[l.axis->column].field,
                                .low = l.axis->low,
                                .count = l.axis->count,
                                .frames = frames};
  use->window.axes = &use->axis;
  use->window.axis_count = 1;
  if (!l.backwards) return TSR_OK;
  if (use->window.function == TSR_AGGREGATE_FIRST) use->window.function = TSR_AGGREGATE_LAST;
  else if (use->window.function == TSR_AGGREGATE_LAST) use->window.function = TSR_AGGREGATE_FIRST;
  use->window.from_end = true;
  return TSR_OK;
}

/* Makes the frames of a window without ORDER BY: the whole axis in each dimension that PARTITION BY lacks. */
static int make_whole_frames(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  tsr_window_axis *axes = tsx_arena_take(arena, (query->axis_count + 1) * sizeof *axes);
  if (!axes) return tsx_out_of_memory(error);
  for (uint32_t i = query->axis_count; i-- > 0;) {
    const tsx_axis *axis = &query->axes[i];
    const tsx_column *shows = &query->table->columns[axis->column];
    if (!shows->description->is_dimension) continue;
    const bool own = partition_has(query, use->tree->over, shows->field);
    if (own && (use->window.axis_count > 0 || i > 0)) continue; /* at least one axis */
    if (!axis->usable || axis->listed)
      return refuse(query, use->tree, "a dimension of its partition has more than 1048576 coordinates", error);
    tsr_window_frame *frames = tsx_arena_take(arena, (axis->count + 1) * sizeof *frames);
    if (!frames) return tsx_out_of_memory(error);
    for (int64_t c = 0; c < (int64_t)axis->count; c++)
      frames[c] = own ? (tsr_window_frame){c, c} : (tsr_window_frame){0, (int64_t)axis->count - 1};
    axes[use->window.axis_count++] =
        (tsr_window_axis){.dimension = shows->field, .low = axis->low, .count = axis->count, .frames = frames};
  }
  use->window.axes = axes;
  return TSR_OK;
}

/* ---- Finishing --------------------------------------------------------------------------------------------------- */

/* Fails unless each dimension is in PARTITION BY or ORDER BY, or has one coordinate. */
static int check_partition(const tsx_query *query, const tsx_window_use *use, tsr_error *error) {
  const tsx_over *over = use->tree->over;
  for (uint32_t i = 0; i < query->axis_count; i++) {
    const tsx_axis *axis = &query->axes[i];
    const tsx_column *shows = &query->table->columns[axis->column];
    if (!shows->description->is_dimension || axis->column == over->order->field || axis->count <= 1 ||
        partition_has(query, over, shows->field))
      continue;
    char *why =
        sqlite3_mprintf("a window with ORDER BY has PARTITION BY all other dimensions: '%s' is missing", shows->name);
    const int code = why ? refuse(query, use->tree, why, error) : tsx_out_of_memory(error);
    sqlite3_free(why);
    return code;
  }
  return TSR_OK;
}

static int set_type(tsx_query *query, tsx_window_use *use, tsr_error *error) {
  tsr_value_type argument = TSR_VALUE_NULL, filter = TSR_VALUE_NULL;
  if (use->argument.expression.count) TSX_TRY(tsx_lowered_check(query, &use->argument, &argument, error));
  if (use->filter.expression.count) TSX_TRY(tsx_lowered_check(query, &use->filter, &filter, error));
  if (filter == TSR_VALUE_TEXT || filter == TSR_VALUE_INSTANT || filter == TSR_VALUE_OPAQUE)
    return refuse(query, use->tree->call.filter, "a text is not a condition: compare it", error);
  use->window.has_argument = use->argument.expression.count > 0;
  use->window.has_filter = use->filter.expression.count > 0;
  use->window.argument = use->argument.expression;
  use->window.filter = use->filter.expression;
  TSX_TRY(tsx_around_type(query, (uint32_t)(use - query->windows), argument, &argument, error));
  use->window.type = tsr_window_type(use->window.function, argument);
  if (use->window.type == TSR_VALUE_OPAQUE)
    return refuse(query, use->tree,
                  argument == TSR_VALUE_TEXT      ? "expected numbers, not texts"
                  : argument == TSR_VALUE_INSTANT ? "a window of datetimes"
                  : argument == TSR_VALUE_NUMBER  ? "INTEGER or REAL: CAST it"
                                                  : "a window of this argument",
                  error);
  const bool listed = use->window.function == TSR_AGGREGATE_MEDIAN || use->window.function == TSR_AGGREGATE_PERCENTILE;
  const bool extreme = use->window.function == TSR_AGGREGATE_MIN || use->window.function == TSR_AGGREGATE_MAX;
  const bool texts = extreme && argument == TSR_VALUE_TEXT, around = query->select.around != NULL;
  if (around && texts && (use->window.axis_count != 1 || use->window.kernel))
    return refuse(query, use->tree, "texts of neighbours in several dimensions", error);
  if (use->window.axis_count > 1 && !around && (listed || texts))
    return refuse(query, use->tree, "this function over a partition of several dimensions", error);
  return texts ? tsx_query_orders_texts(query, use->tree, error) : TSR_OK;
}

#define SPARSE_PLACES (UINT64_C(1) << 26) /* coordinates of a sparse array, with cells or not, at most */

/* Windows of a sparse array take room for each coordinate: refuses them if few of very many have cells. */
static int check_sparse(const tsx_query *query, tsr_error *error) {
  uint64_t places = 1;
  for (uint32_t i = 0; i < query->axis_count; i++) {
    const tsx_axis *axis = &query->axes[i];
    if (!query->table->columns[axis->column].description->is_dimension) continue;
    if (axis->count > SPARSE_PLACES / places)
      return refuse(query, query->windows[0].tree, "a sparse array with more than 2^26 coordinates", error);
    places *= axis->count ? axis->count : 1;
  }
  return TSR_OK;
}

int tsx_windows_kernel(tsx_query *query, tsr_error *error) {
  const tsx_expr *trees[TSR_QUERY_WINDOWS];
  for (uint32_t w = 0; w < query->window_count; w++) trees[w] = query->windows[w].tree;
  TSX_TRY(tsx_around_read(query, trees, query->window_count, error));
  for (uint32_t w = 0; w < query->window_count; w++)
    if (trees[w] == query->select.around->exists) return query->windows[w].dropped = tsx_around_always(query, w);
  return 0;
}

/* Returns true if WHERE compares instants before the windows, which leaves out rows that they would count. */
static bool decides_before(const tsx_query *query) {
  const tsx_decided *decided = query->decided;
  while (decided && decided->after) decided = decided->next;
  return decided != NULL;
}

int tsx_windows_finish(tsx_query *query, bool conditions, tsr_error *error) {
  if (query->window_count && !query->table->schema->dense) TSX_TRY(check_sparse(query, error));
  for (uint32_t w = 0; w < query->window_count; w++) {
    tsx_window_use *use = &query->windows[w];
    const tsx_over *over = use->tree->over;
    if (query->select.around) {
      TSX_TRY(tsx_around_window(query, w, &use->window, error));
      TSX_TRY(set_type(query, use, error));
      continue;
    }
    const bool rows = over->rows || counts_rows(use->tree);
    if (rows && (conditions || decides_before(query)))
      return refuse(query, use->tree, "rows that WHERE has left: write RANGE, which counts coordinates", error);
    if (over->order) TSX_TRY(check_partition(query, use, error));
    TSX_TRY(over->order ? make_frames(query, use, error) : make_whole_frames(query, use, error));
    TSX_TRY(set_type(query, use, error));
  }
  return TSR_OK;
}

int tsx_windows_request(tsx_query *query, tsr_query_windows **windows, tsr_error *error) {
  *windows = NULL;
  if (query->window_count == 0) return TSR_OK;
  const tsr_window **list = tsx_arena_take(&query->select.arena, query->window_count * sizeof *list);
  tsr_query_windows *made = tsx_arena_take(&query->select.arena, sizeof *made);
  if (!list || !made) return tsx_out_of_memory(error);
  for (uint32_t w = 0; w < query->window_count; w++) {
    if (query->windows[w].dropped) continue;
    query->windows[w].window.number = made->count;
    list[made->count++] = &query->windows[w].window;
  }
  made->list = list;
  *windows = made;
  return TSR_OK;
}

const tsx_lowered *tsx_windows_expression(const tsx_query *query, const tsr_node *nodes) {
  for (uint32_t w = 0; w < query->window_count; w++) {
    if (query->windows[w].argument.expression.nodes == nodes) return &query->windows[w].argument;
    if (query->windows[w].filter.expression.nodes == nodes) return &query->windows[w].filter;
  }
  return NULL;
}
