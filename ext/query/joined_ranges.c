/* joined_ranges.c: joins by ranges, in which each row of the joined table is a box of coordinates.
 *
 * ON has spans: each confines an expression of one dimension to an interval, whose ends are expressions of the row. The
 * rows are read once (join.c). The ends of a bare dimension become coordinates at once, as the table would compare
 * them. An expression or a label is evaluated on its axis; after that, tsx_boxes_finish ranks its values, and the ends
 * become ranks. Where the ranks rise or fall with the coordinates, they become coordinates, too. A dimension of texts
 * has no axis: its ends are numbered among the texts of all rows, and the engine numbers the cells in the same way. The
 * engine pairs cells with rows by these intervals (core/query/boxes.c), and the union of the intervals narrows what it
 * reads.
 *
 * Sections: spans, reading, ranks, what is read, texts. */
#include "query/query_internal.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "table/table.h"
#include "values/compare.h"

#define SPAN_UNION_MAX 1024u /* most ranges of a dimension that the rows make; more become one */

typedef struct boxes_span {
  bool texts; /* it is a bare dimension of texts */
  int axis; /* the axis of its dimension; not with `texts` */
  int tree; /* its values on the axis; < 0: it is the bare dimension */
  int64_t (*ends)[2]; /* [room] */
  tsr_value (*bounds)[2]; /* [room], with `tree` or `texts`: the ends as SQLite gives them */
} boxes_span;

typedef struct tsx_boxes {
  uint32_t join, count;
  uint64_t room; /* rows */
  boxes_span spans[TSX_SPANS_MAX];
  tsr_query_range ranges[TSX_SPANS_MAX];
  tsr_query_boxes made;
} tsx_boxes;

/* ---- Spans ------------------------------------------------------------------------------------------------------- */

int tsx_boxes_join(const tsx_query *query) {
  for (uint32_t j = 0; j < query->select.join_count; j++)
    if (query->select.joins[j].on.span_count) return (int)j;
  return -1;
}

static const tsx_span *span_of(const tsx_query *query, uint32_t s) {
  return &query->select.joins[query->boxes->join].on.spans[s];
}

static const tsx_column *span_column(const tsx_query *query, uint32_t s) {
  return &query->table->columns[span_of(query, s)->left->field];
}

static int refuse(const tsx_query *query, const tsx_expr *tree, const char *advice, tsr_error *error) {
  return tsx_not_evaluated(&query->select, tree->begin, tree->end, advice, error);
}

bool tsx_boxes_take_texts(const tsx_query *query, const tsx_span *span) {
  const tsx_column *column = &query->table->columns[span->left->field];
  return column->form == TSX_TEXT && column->description->is_dimension &&
         column->description->values_per_cell == TSR_VARIABLE && tsx_expr_meaning(span->left)->kind == TSX_EXPR_NAME;
}

static bool span_keeps_bounds(const boxes_span *span) { return span->texts || span->tree >= 0; }

/* Chooses how the ends of a span are compared. */
static int request_span(tsx_query *query, uint32_t s, tsr_error *error) {
  boxes_span *span = &query->boxes->spans[s];
  const tsx_span *given = span_of(query, s);
  const tsx_column *column = span_column(query, s);
  const tsx_expr *left = tsx_expr_meaning(given->left);
  span->tree = -1;
  span->texts = tsx_boxes_take_texts(query, given);
  if (span->texts) return TSR_OK;
  for (uint32_t a = 0; a < query->axis_count; a++)
    if (query->axes[a].column == given->left->field) span->axis = (int)a;
  const tsx_axis *axis = &query->axes[span->axis];
  if (column->description->datatype == TSR_UINT64 && axis->count == 0 && !axis->usable)
    return refuse(query, given->left, "its dimension has cells above 9223372036854775807", error);
  if (left->kind == TSX_EXPR_NAME && tsx_ranges_possible(column)) return TSR_OK;
  if (tsx_axis_of(query, given->left) < 0)
    return refuse(query, given->left, "its dimension has more than 1048576 coordinates", error);
  span->tree = tsx_axis_request(query, (uint32_t)span->axis, given->left, false, error);
  return span->tree < 0 ? span->tree : TSR_OK;
}

int tsx_boxes_request(tsx_query *query, tsr_error *error) {
  const int j = tsx_boxes_join(query);
  if (j < 0) return TSR_OK;
  tsx_boxes *boxes = query->boxes = tsx_arena_take(&query->select.arena, sizeof *boxes);
  if (!boxes) return tsx_out_of_memory(error);
  boxes->join = (uint32_t)j;
  boxes->count = query->select.joins[j].on.span_count;
  for (uint32_t s = 0; s < boxes->count; s++) TSX_TRY(request_span(query, s, error));
  return TSR_OK;
}

void tsx_boxes_release(tsx_query *query) {
  for (uint32_t s = 0; query->boxes && s < query->boxes->count; s++) {
    sqlite3_free(query->boxes->spans[s].ends);
    sqlite3_free(query->boxes->spans[s].bounds);
  }
  query->boxes = NULL;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

void tsx_boxes_append(tsx_query *query, sqlite3_str *out) {
  for (uint32_t s = 0; s < query->boxes->count; s++)
    for (int e = 0; e < 2; e++) {
      const tsx_expr *end = span_of(query, s)->ends[e];
      sqlite3_str_appendall(out, end ? ", (" : ", NULL");
      if (!end) continue;
      tsx_joined_append(query, end, out);
      sqlite3_str_appendchar(out, 1, ')');
    }
}

uint64_t tsx_boxes_row_size(const tsx_query *query) {
  uint64_t size = 0;
  for (uint32_t s = 0; s < query->boxes->count; s++) {
    const boxes_span *span = &query->boxes->spans[s];
    size += sizeof *span->ends;
    if (span_keeps_bounds(span)) size += sizeof *span->bounds;
    if (span->texts) size += sizeof *span->ends + 2 * sizeof(tsr_text_value); /* finish_texts */
  }
  return size;
}

/* Makes room for one more row. join.c has charged it to the budget. */
static int grow_boxes(tsx_boxes *boxes, uint64_t row, tsr_error *error) {
  if (row < boxes->room) return TSR_OK;
  const uint64_t room = boxes->room ? 2 * boxes->room : 256;
  for (uint32_t s = 0; s < boxes->count; s++) {
    boxes_span *span = &boxes->spans[s];
    void *ends = sqlite3_realloc64(span->ends, room * sizeof *span->ends);
    if (!ends) return tsx_out_of_memory(error);
    span->ends = ends;
    if (!span_keeps_bounds(span)) continue;
    void *bounds = sqlite3_realloc64(span->bounds, room * sizeof *span->bounds);
    if (!bounds) return tsx_out_of_memory(error);
    span->bounds = bounds;
  }
  boxes->room = room;
  return TSR_OK;
}

/* Narrows an interval of coordinates by one end, as the table compares its dimension. Returns 1; 0 if it is empty. */
static int narrow_by_end(tsx_query *query, uint32_t s, int e, sqlite3_value *value, int64_t ends[2], tsr_error *error) {
  const tsx_column *column = span_column(query, s);
  const bool outside = span_of(query, s)->outside[e];
  if (sqlite3_value_type(value) == SQLITE_INTEGER && tsx_form_is_number(column->form)) {
    const int64_t given = sqlite3_value_int64(value);
    if (outside && given == (e ? INT64_MIN : INT64_MAX)) return 0;
    const int64_t end = outside ? given + (e ? -1 : 1) : given;
    if (e ? end < ends[1] : end > ends[0]) ends[e] = end;
    return ends[0] <= ends[1];
  }
  tsr_ranges set;
  const tsx_op op = e ? (outside ? TSX_LT : TSX_LE) : outside ? TSX_GT : TSX_GE;
  TSX_TRY(tsx_bound_ranges(query, column, op, &value, 1, 0, &set, error));
  if (set.count > 1)
    return refuse(query, span_of(query, s)->left, "a range with datetimes that have no ISO text", error);
  return tsx_axis_narrow(column->description, &set, &ends[0], &ends[1]);
}

/* Takes one end of a row. Returns 1; 0 if the row meets no cell. */
static int add_end(tsx_query *query, uint32_t s, int e, uint64_t row, sqlite3_value *value, tsr_error *error) {
  boxes_span *span = &query->boxes->spans[s];
  if (!span_of(query, s)->ends[e]) return 1;
  if (sqlite3_value_type(value) == SQLITE_NULL) return 0;
  if (!span_keeps_bounds(span)) return narrow_by_end(query, s, e, value, span->ends[row], error);
  const int code = tsx_query_copy(query, value, &span->bounds[row][e], error);
  if (code == TSR_MISMATCH) return refuse(query, span_of(query, s)->ends[e], "blobs", error);
  return code < 0 ? code : 1;
}

int tsx_boxes_row(tsx_query *query, uint64_t row, sqlite3_stmt *statement, int first, tsr_error *error) {
  tsx_boxes *boxes = query->boxes;
  TSX_TRY(grow_boxes(boxes, row, error));
  for (uint32_t s = 0; s < boxes->count; s++) {
    boxes_span *span = &boxes->spans[s];
    if (!span->texts) {
      const tsx_axis *axis = &query->axes[span->axis];
      if (axis->count == 0) return 0; /* there are no cells */
      span->ends[row][0] = axis->low;
      span->ends[row][1] = (int64_t)((uint64_t)axis->low + axis->count - 1);
    }
    if (span_keeps_bounds(span)) memset(span->bounds[row], 0, sizeof span->bounds[row]);
    for (int e = 0; e < 2; e++) {
      const int any = add_end(query, s, e, row, sqlite3_column_value(statement, first + 2 * (int)s + e), error);
      if (any <= 0) return any;
    }
  }
  return 1;
}

/* ---- Ranks ------------------------------------------------------------------------------------------------------- */

typedef struct ranking { /* the distinct values of a span on its axis */
  const tsr_value **sorted; /* [count], ascending */
  uint64_t count;
  uint32_t *numbers; /* [the axis's count]: the rank of each coordinate's value, or UINT32_MAX for null */
  bool rises, falls; /* strictly, with the coordinates */
} ranking;

static int compare_ranked(const void *a, const void *b) {
  return tsx_values_compare(*(const tsr_value *const *)a, *(const tsr_value *const *)b);
}

static int rank_values(tsx_query *query, const boxes_span *span, ranking *ranks, tsr_error *error) {
  const tsx_axis *axis = &query->axes[span->axis];
  const tsr_value *values = axis->values[span->tree];
  tsx_arena *arena = &query->select.arena;
  ranks->sorted = tsx_arena_take(arena, (axis->count + 1) * sizeof *ranks->sorted);
  ranks->numbers = tsx_arena_take(arena, (axis->count + 1) * sizeof *ranks->numbers);
  if (!ranks->sorted || !ranks->numbers) return tsx_out_of_memory(error);
  uint64_t n = 0;
  ranks->rises = ranks->falls = true;
  for (uint64_t i = 0; i < axis->count; i++) {
    ranks->numbers[i] = UINT32_MAX;
    if (values[i].type == TSR_VALUE_NULL) ranks->rises = ranks->falls = false;
    else ranks->sorted[n++] = &values[i];
    const int order = i ? tsx_values_compare(&values[i - 1], &values[i]) : 0;
    ranks->rises &= i == 0 || order < 0;
    ranks->falls &= i == 0 || order > 0;
  }
  qsort(ranks->sorted, n, sizeof *ranks->sorted, compare_ranked);
  for (uint64_t i = 0; i < n; i++) {
    const tsr_value *value = ranks->sorted[i];
    if (i == 0 || tsx_values_compare(ranks->sorted[ranks->count - 1], value) != 0)
      ranks->sorted[ranks->count++] = value;
    ranks->numbers[value - values] = (uint32_t)(ranks->count - 1);
  }
  return TSR_OK;
}

/* Returns how many distinct values are below a bound; with `equal`, those that equal it count, too. */
static uint64_t ranks_below(const ranking *ranks, const tsr_value *bound, bool equal) {
  uint64_t low = 0, high = ranks->count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const int order = tsx_values_compare(ranks->sorted[middle], bound);
    if (order < 0 || (equal && order == 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Fails if SQLite would convert one side of a comparison of a text with a number. */
static int check_types(const tsx_query *query, uint32_t s, const ranking *ranks, const tsr_value *bound, int e,
                       tsr_error *error) {
  const bool text = bound->type == TSR_VALUE_TEXT;
  if (text) TSX_TRY(tsx_query_orders_texts(query, span_of(query, s)->left, error));
  bool differ = false;
  if (ranks->count)
    for (int i = 0; i < 2; i++) differ |= (ranks->sorted[i ? ranks->count - 1 : 0]->type == TSR_VALUE_TEXT) != text;
  const tsx_affinity affinity = tsx_slot_affinity(tsx_query_declared(query, span_of(query, s)->ends[e]));
  differ |= text && (affinity == TSX_SLOT_INTEGER || affinity == TSX_SLOT_REAL);
  return differ ? refuse(query, span_of(query, s)->ends[e], "a comparison of a text with a number: CAST one of them",
                         error)
                : TSR_OK;
}

/* Turns the bounds of a row into ranks, or coordinates. */
static int rank_row(const tsx_query *query, uint32_t s, const ranking *ranks, uint64_t row, tsr_error *error) {
  const boxes_span *span = &query->boxes->spans[s];
  const tsx_span *given = span_of(query, s);
  const tsx_axis *axis = &query->axes[span->axis];
  uint64_t low = 0, end = ranks->count;
  for (int e = 0; e < 2; e++)
    if (given->ends[e] && check_types(query, s, ranks, &span->bounds[row][e], e, error) < 0) return error->code;
  if (given->ends[0]) low = ranks_below(ranks, &span->bounds[row][0], given->outside[0]);
  if (given->ends[1]) end = ranks_below(ranks, &span->bounds[row][1], !given->outside[1]);
  int64_t *ends = span->ends[row];
  ends[0] = 1;
  ends[1] = 0;
  if (low >= end) return TSR_OK;
  ends[0] = (int64_t)low;
  ends[1] = (int64_t)end - 1;
  if (ranks->rises) {
    ends[0] = (int64_t)((uint64_t)axis->low + low);
    ends[1] = (int64_t)((uint64_t)axis->low + end - 1);
  } else if (ranks->falls) {
    ends[0] = (int64_t)((uint64_t)axis->low + ranks->count - end);
    ends[1] = (int64_t)((uint64_t)axis->low + ranks->count - 1 - low);
  }
  return TSR_OK;
}

/* ---- What is read ------------------------------------------------------------------------------------------------ */

static int compare_ends(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

static bool ends_meet(const int64_t a[2], const int64_t b[2]) {
  return (a[1] == INT64_MAX || b[0] <= a[1] + 1) && (b[1] == INT64_MAX || a[0] <= b[1] + 1);
}

/* Drops empty intervals, and joins each with the one before it if they meet. Returns how many are left. */
static uint64_t join_neighbours(int64_t (*ends)[2], uint64_t count) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (ends[i][0] > ends[i][1]) continue;
    if (n && ends_meet(ends[n - 1], ends[i])) {
      if (ends[i][0] < ends[n - 1][0]) ends[n - 1][0] = ends[i][0];
      if (ends[i][1] > ends[n - 1][1]) ends[n - 1][1] = ends[i][1];
    } else {
      memmove(ends[n++], ends[i], sizeof *ends);
    }
  }
  return n;
}

/* Sorts intervals and joins those that meet. Returns how many are left. Rows often come in some order, such as the runs
 * of a polygon: so they are joined before there are fewer to sort. */
static uint64_t unite(int64_t (*ends)[2], uint64_t count) {
  uint64_t n = join_neighbours(ends, count);
  qsort(ends, n, sizeof *ends, compare_ends);
  n = join_neighbours(ends, n);
  if (n <= SPAN_UNION_MAX) return n;
  ends[0][1] = ends[n - 1][1];
  return 1;
}

/* Keeps only the coordinates that some row meets, by ranks. */
static int keep_ranks(tsx_query *query, const boxes_span *span, const uint32_t *numbers, int64_t (*united)[2],
                      uint64_t count, tsr_error *error) {
  tsx_axis *axis = &query->axes[span->axis];
  if (!axis->kept) {
    axis->kept = tsx_arena_take(&query->select.arena, axis->count + 1);
    if (!axis->kept) return tsx_out_of_memory(error);
    memset(axis->kept, 1, axis->count);
  }
  for (uint64_t i = 0; i < axis->count; i++) {
    uint64_t low = 0, high = count;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (united[middle][1] < (int64_t)numbers[i]) low = middle + 1;
      else high = middle;
    }
    axis->kept[i] &= numbers[i] != UINT32_MAX && low < count && united[low][0] <= (int64_t)numbers[i];
  }
  return TSR_OK;
}

/* Adds the intervals as bounds of the dimension. They lie within the axis. */
static int bound_dimension(tsx_query *query, const boxes_span *span, int64_t (*united)[2], uint64_t count,
                           tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  tsx_bound_range *bound = tsx_arena_take(arena, sizeof *bound);
  tsr_range *ranges = tsx_arena_take(arena, (count + 1) * sizeof *ranges);
  int64_t(*kept)[2] = tsx_arena_take(arena, (count + 1) * sizeof *kept);
  if (!bound || !ranges || !kept) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < count; i++) {
    memcpy(kept[i], united[i], sizeof *kept);
    ranges[i] = (tsr_range){.low = &kept[i][0], .high = &kept[i][1]};
  }
  *bound = (tsx_bound_range){.next = query->bounds, .column = query->axes[span->axis].column};
  bound->set = (tsr_ranges){.ranges = ranges, .count = count};
  query->bounds = bound;
  return TSR_OK;
}

/* Narrows what is read to the union of the rows' intervals. */
static int narrow_read(tsx_query *query, const boxes_span *span, const uint32_t *numbers, uint64_t rows,
                       tsr_error *error) {
  int64_t(*united)[2] = sqlite3_malloc64((rows + 1) * sizeof *united);
  if (!united) return tsx_out_of_memory(error);
  if (rows) memcpy(united, span->ends, rows * sizeof *united);
  const uint64_t count = unite(united, rows);
  const int code = numbers ? keep_ranks(query, span, numbers, united, count, error)
                           : bound_dimension(query, span, united, count, error);
  sqlite3_free(united);
  return code;
}

/* ---- Texts ------------------------------------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b) {
  const tsr_text_value *x = a, *y = b;
  const uint64_t common = x->size < y->size ? x->size : y->size;
  const int order = common ? memcmp(x->bytes, y->bytes, common) : 0;
  return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* Fails unless the ends of a row are texts, and SQLite would compare them so. */
static int check_texts(const tsx_query *query, uint32_t s, uint64_t row, tsr_error *error) {
  const tsx_span *given = span_of(query, s);
  if (given->ends[0] != given->ends[1]) TSX_TRY(tsx_query_orders_texts(query, given->left, error));
  for (int e = 0; e < 2; e++) {
    if (!given->ends[e]) continue;
    const tsx_affinity affinity = tsx_slot_affinity(tsx_query_declared(query, given->ends[e]));
    if (query->boxes->spans[s].bounds[row][e].type != TSR_VALUE_TEXT || affinity == TSX_SLOT_INTEGER ||
        affinity == TSX_SLOT_REAL)
      return refuse(query, given->ends[e], "a comparison of a text with a number: CAST one of them", error);
  }
  return TSR_OK;
}

/* Lists the distinct texts of the ends of all rows. */
static int list_texts(tsx_query *query, uint32_t s, uint64_t rows, tsr_query_range *range, tsr_error *error) {
  const boxes_span *span = &query->boxes->spans[s];
  tsr_text_value *texts = tsx_arena_take(&query->select.arena, (2 * rows + 1) * sizeof *texts);
  uint64_t all = 0, n = 0;
  if (!texts) return tsx_out_of_memory(error);
  for (uint64_t row = 0; row < rows; row++) {
    TSX_TRY(check_texts(query, s, row, error));
    for (int e = 0; e < 2; e++)
      if (span_of(query, s)->ends[e])
        texts[all++] = (tsr_text_value){span->bounds[row][e].as.text.bytes, span->bounds[row][e].as.text.size};
  }
  qsort(texts, all, sizeof *texts, compare_texts);
  for (uint64_t i = 0; i < all; i++)
    if (n == 0 || compare_texts(&texts[n - 1], &texts[i]) != 0) texts[n++] = texts[i];
  range->texts = texts;
  range->text_count = n;
  return TSR_OK;
}

/* Returns the number of a text of the list: odd, so that there are numbers for what lies between two texts. */
static int64_t number_text(const tsr_query_range *range, const tsr_value *value) {
  const tsr_text_value key = {value->as.text.bytes, value->as.text.size};
  const tsr_text_value *found = bsearch(&key, range->texts, range->text_count, sizeof key, compare_texts);
  return found ? 2 * (found - range->texts) + 1 : 0;
}

/* Narrows what is read of the dimension to the union of the rows' intervals of numbers. */
static int narrow_texts(tsx_query *query, uint32_t s, const tsr_query_range *range, uint64_t rows, tsr_error *error) {
  tsx_arena *arena = &query->select.arena;
  int64_t(*united)[2] = tsx_arena_take(arena, (rows + 1) * sizeof *united);
  tsx_bound_range *bound = tsx_arena_take(arena, sizeof *bound);
  if (!united || !bound) return tsx_out_of_memory(error);
  if (rows) memcpy(united, range->ends, rows * sizeof *united);
  const uint64_t count = unite(united, rows);
  tsr_range *ranges = tsx_arena_take(arena, (count + 1) * sizeof *ranges);
  if (!ranges) return tsx_out_of_memory(error);
  for (uint64_t i = 0; i < count; i++) {
    const int64_t from = united[i][0], to = united[i][1];
    const tsr_text_value *low = from > 0 ? &range->texts[(from - 1) / 2] : NULL;
    const tsr_text_value *high = (uint64_t)to < 2 * range->text_count ? &range->texts[to / 2] : NULL;
    ranges[i] = (tsr_range){.low_exclusive = from % 2 == 0, .high_exclusive = to % 2 == 0};
    if (low) ranges[i].low = low->bytes, ranges[i].low_size = low->size;
    if (high) ranges[i].high = high->bytes, ranges[i].high_size = high->size;
  }
  *bound = (tsx_bound_range){.next = query->bounds, .column = span_of(query, s)->left->field};
  bound->set = (tsr_ranges){.ranges = ranges, .count = count};
  query->bounds = bound;
  return TSR_OK;
}

static int finish_texts(tsx_query *query, uint32_t s, uint64_t rows, tsr_error *error) {
  const boxes_span *span = &query->boxes->spans[s];
  const tsx_span *given = span_of(query, s);
  tsr_query_range *range = &query->boxes->ranges[s];
  TSX_TRY(list_texts(query, s, rows, range, error));
  for (uint64_t row = 0; row < rows; row++) {
    span->ends[row][0] = 0;
    span->ends[row][1] = (int64_t)(2 * range->text_count);
    if (given->ends[0]) span->ends[row][0] = number_text(range, &span->bounds[row][0]) + given->outside[0];
    if (given->ends[1]) span->ends[row][1] = number_text(range, &span->bounds[row][1]) - given->outside[1];
  }
  return narrow_texts(query, s, range, rows, error);
}

static int finish_span(tsx_query *query, uint32_t s, uint64_t rows, tsr_error *error) {
  boxes_span *span = &query->boxes->spans[s];
  tsr_query_range *range = &query->boxes->ranges[s];
  ranking ranks = {0};
  *range = (tsr_query_range){.field = span_column(query, s)->field, .ends = (const int64_t(*)[2])span->ends};
  if (span->texts) return finish_texts(query, s, rows, error);
  if (span->tree >= 0 && rows) {
    TSX_TRY(rank_values(query, span, &ranks, error));
    for (uint64_t row = 0; row < rows; row++) TSX_TRY(rank_row(query, s, &ranks, row, error));
    if (!ranks.rises && !ranks.falls) {
      range->numbers = ranks.numbers;
      range->low = query->axes[span->axis].low;
      range->count = query->axes[span->axis].count;
    }
  }
  return narrow_read(query, span, range->numbers, rows, error);
}

int tsx_boxes_finish(tsx_query *query, uint64_t rows, tsr_error *error) {
  tsx_boxes *boxes = query->boxes;
  for (uint32_t s = 0; s < boxes->count; s++) TSX_TRY(finish_span(query, s, rows, error));
  boxes->made = (tsr_query_boxes){.row_count = rows, .range_count = boxes->count, .ranges = boxes->ranges};
  return TSR_OK;
}

const tsr_query_boxes *tsx_boxes_made(const tsx_query *query) {
  return query->boxes && query->boxes->made.range_count ? &query->boxes->made : NULL;
}
