/* query_grid.c: the rows of a columnar query as a grid of numbers.
 *
 * grid_plan finds the column with the numbers and the axes; keys or dimensions that the SELECT lacks are appended to
 * its items. The query then runs, and each row is kept as 64-bit words: one per axis, and one for the number. Once all
 * rows are known, an axis of integers gets its bounds, an axis of reals or texts its sorted distinct values (looked up
 * by binary search), and each number goes to its place. Two rows at one place are an error.
 *
 * If the rows are the cells of a box, by its dimensions, the bounds are known before any row: then blocks of the engine
 * go to their places at once.
 *
 * Sections: columns, rows, places, boxes, the run. */
#include "data/data.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "query/query_internal.h"
#include "table/table.h"

#define GRID_MEMORY       (1ull << 30) /* the limit for the rows, in bytes, if the table has no memory_mb */
#define GRID_CANCEL_EVERY 65536u /* rows between two checks for cancellation */

typedef struct grid_maker {
  tsx_query query;
  tsx_grid *grid;
  uint32_t items[TSR_QUERY_KEYS]; /* by axis: its item in the SELECT */
  uint32_t value; /* the item with the numbers */
  uint64_t *rows; /* [row_count][axis_count + 1]; a TEXT is a pointer to its copy */
  uint8_t *types; /* [row_count]: tsr_value_type of the number */
  uint64_t row_count, room;
  const char *last[TSR_QUERY_KEYS]; /* by axis: the copy of the previous row's text, which equal texts share */
  uint64_t last_size[TSR_QUERY_KEYS];
  bool reals; /* some number is REAL */
  bool placed; /* the numbers of a box are at their places */
} grid_maker;

bool tsx_is_query(sqlite3_value *value) {
  const char *text = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
  while (text && isspace((unsigned char)*text)) text++;
  if (!text || sqlite3_strnicmp(text, "SELECT", 6) != 0 || !text[6]) return false;
  text += 6;
  return isspace((unsigned char)*text) || strchr("(*\"'[`", *text) || !strncmp(text, "/*", 2) ||
         !strncmp(text, "--", 2);
}

/* ---- Columns ----------------------------------------------------------------------------------------------------- */

static char *grid_name(grid_maker *m, const tsx_item *item) {
  tsx_arena *arena = &m->grid->arena;
  const tsx_expr *tree = item->tree;
  if (item->name) return tsx_arena_copy(arena, item->name, strlen(item->name));
  if (tree->kind == TSX_EXPR_NAME) return tsx_arena_copy(arena, tree->name, strlen(tree->name));
  return tsx_arena_copy(arena, tree->begin, (uint64_t)(tree->end - tree->begin));
}

/* Returns the key or, for a query over cells, the dimension that an item names (a label names its dimension); else
 * -1. */
static int grid_key_of(const grid_maker *m, const tsx_item *item) {
  const tsx_expr *tree = tsx_expr_meaning(item->tree);
  if (m->query.over_groups) return tree->kind == TSX_EXPR_AGGREGATE ? -1 : tsx_select_key(&m->query.select, tree);
  if (tree->kind == TSX_EXPR_LABEL) return (int)m->query.table->labels[tree->column].dimension;
  const tsx_column *columns = m->query.table->columns;
  return tree->kind == TSX_EXPR_NAME && columns[tree->column].description->is_dimension
             ? (int)columns[tree->column].field
             : -1;
}

/* Returns true if an item is the one with the numbers, and is a label. */
static bool grid_is_label(const grid_maker *m, uint32_t i) {
  return i == m->value && tsx_expr_meaning(m->query.select.items[i].tree)->kind == TSX_EXPR_LABEL;
}

static int grid_add_axis(grid_maker *m, uint32_t item, tsr_error *error) {
  tsx_grid *grid = m->grid;
  if (grid->axis_count == TSR_QUERY_KEYS) return tsx_fail(error, TSR_TOOBIG, "more than %u axes", TSR_QUERY_KEYS);
  m->items[grid->axis_count] = item;
  tsx_grid_axis *axis = &grid->axes[grid->axis_count++];
  axis->type = TSR_VALUE_NULL;
  axis->name = grid_name(m, &m->query.select.items[item]);
  return axis->name ? TSR_OK : tsx_out_of_memory(error);
}

/* Appends an item to the SELECT, which has room for it, and makes it an axis. */
static int grid_add_item(grid_maker *m, tsx_expr *tree, tsr_error *error) {
  tsx_select *s = &m->query.select;
  s->items[s->item_count] = (tsx_item){.tree = tree, .begin = tree->begin, .end = tree->end};
  return grid_add_axis(m, s->item_count++, error);
}

/* Makes the terms of GROUP BY the axes. */
static int grid_axes_of_groups(grid_maker *m, uint32_t given, tsr_error *error) {
  for (uint32_t k = 0; k < m->query.select.group_count; k++) {
    uint32_t i = 0;
    while (i < given && grid_key_of(m, &m->query.select.items[i]) != (int)k) i++;
    TSX_TRY(i < given ? grid_add_axis(m, i, error) : grid_add_item(m, m->query.select.group[k], error));
  }
  return TSR_OK;
}

/* Makes the dimensions that items name the axes, or all dimensions if they name none. The label that supplies the
 * numbers does not count. */
static int grid_axes_of_cells(grid_maker *m, uint32_t given, tsr_error *error) {
  const tsx_table *table = m->query.table;
  tsx_arena *arena = &m->query.select.arena;
  for (uint32_t i = 0; i < given; i++) {
    uint32_t before = 0;
    const tsx_item *items = m->query.select.items;
    const int key = grid_key_of(m, &items[i]);
    while (before < i && (grid_key_of(m, &items[before]) != key || grid_is_label(m, before))) before++;
    if (grid_is_label(m, i)) continue;
    if (key >= 0 && before == i) TSX_TRY(grid_add_axis(m, i, error));
  }
  if (m->grid->axis_count > 0) return TSR_OK;
  for (uint32_t c = 0; c < table->column_count; c++) {
    if (!table->columns[c].description->is_dimension) continue;
    tsx_expr *tree = tsx_arena_take(arena, sizeof *tree);
    char *name = tsx_arena_copy(arena, table->columns[c].name, strlen(table->columns[c].name));
    if (!tree || !name) return tsx_out_of_memory(error);
    *tree = (tsx_expr){.kind = TSX_EXPR_NAME, .name = name, .begin = name, .column = (int)c, .field = (int)c};
    tree->end = name + strlen(name);
    TSX_TRY(grid_add_item(m, tree, error));
  }
  return TSR_OK;
}

/* Finds the column with the numbers: the named one, or the only one that is not a key. */
static int grid_find_value(grid_maker *m, const char *column, uint32_t given, tsr_error *error) {
  uint32_t found = 0;
  char names[200] = "";
  for (uint32_t i = 0; i < given; i++) {
    char *name = grid_name(m, &m->query.select.items[i]);
    if (!name) return tsx_out_of_memory(error);
    const bool is_it = column ? !sqlite3_stricmp(name, column) : grid_key_of(m, &m->query.select.items[i]) < 0;
    if (is_it && found == 0) {
      m->value = i;
      m->grid->name = name;
    }
    found += is_it;
    const size_t size = strlen(names);
    if (is_it || column) sqlite3_snprintf((int)(sizeof names - size), names + size, "%s%s", size ? ", " : "", name);
  }
  if (found == 1) return TSR_OK;
  if (column && found == 0)
    return tsx_fail(error, TSR_ERROR, "the query has no column '%.64s'; it has %s", column, names);
  if (found == 0) return tsx_fail(error, TSR_ERROR, "all columns of the query are keys: no column has the values");
  return tsx_fail(error, TSR_ERROR, "several columns could be the values (%s): name one in the second argument", names);
}

static int grid_plan(grid_maker *m, const char *column, tsr_error *error) {
  tsx_select *s = &m->query.select;
  const uint32_t given = s->item_count;
  const uint64_t room = (uint64_t)given + TSR_QUERY_KEYS + 1;
  tsx_item *items = tsx_arena_take(&s->arena, room * sizeof *items);
  if (!items) return tsx_out_of_memory(error);
  memcpy(items, s->items, given * sizeof *items);
  s->items = items;
  TSX_TRY(grid_find_value(m, column, given, error));
  return m->query.over_groups ? grid_axes_of_groups(m, given, error) : grid_axes_of_cells(m, given, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int grid_reserve(grid_maker *m, tsr_error *error) {
  const uint64_t words = m->grid->axis_count + 1, room = m->room ? 2 * m->room : 1024;
  const uint64_t given = m->query.table->options.limits.memory_bytes, most = given ? given : GRID_MEMORY;
  if (m->row_count < m->room) return TSR_OK;
  if (m->row_count * (words * sizeof *m->rows + 1) > most)
    return tsx_fail(error, TSR_TOOBIG, "too many rows for memory_mb (%llu): take a part of them, or coarser keys",
                    (unsigned long long)(most >> 20));
  uint64_t *rows = sqlite3_realloc64(m->rows, room * words * sizeof *rows);
  if (rows) m->rows = rows;
  uint8_t *types = rows ? sqlite3_realloc64(m->types, room) : NULL;
  if (!types) return tsx_out_of_memory(error);
  m->types = types;
  m->room = room;
  return TSR_OK;
}

static int grid_keep_text(grid_maker *m, uint32_t a, const tsr_value *value, uint64_t *word, tsr_error *error) {
  const char *last = m->last[a];
  const uint64_t size = value->as.text.size;
  if (!last || m->last_size[a] != size || memcmp(last, value->as.text.bytes, size) != 0) {
    last = tsx_arena_copy(&m->grid->arena, value->as.text.bytes, size);
    if (!last) return tsx_out_of_memory(error);
    m->last[a] = last;
    m->last_size[a] = size;
  }
  *word = (uint64_t)(uintptr_t)last;
  return TSR_OK;
}

static int grid_keep_key(grid_maker *m, tsx_run *run, uint32_t a, uint64_t *word, tsr_error *error) {
  tsx_grid_axis *axis = &m->grid->axes[a];
  tsr_value value;
  TSX_TRY(tsx_run_value(run, m->items[a], &value, error));
  if (value.type == TSR_VALUE_NULL)
    return tsx_fail(error, TSR_ERROR,
                    "the key '%s' has a NULL, which has no position in the grid: exclude it with WHERE", axis->name);
  if (value.type == TSR_VALUE_UNSIGNED && value.as.unsigned_integer <= INT64_MAX) value.type = TSR_VALUE_INTEGER;
  if (value.type != TSR_VALUE_INTEGER && value.type != TSR_VALUE_REAL && value.type != TSR_VALUE_TEXT)
    return tsx_fail(error, TSR_RANGE, "the key '%s' has a BLOB or a value past the integers of SQL", axis->name);
  if (axis->type == TSR_VALUE_NULL) axis->type = value.type;
  if (axis->type != value.type)
    return tsx_fail(error, TSR_MISMATCH, "the key '%s' has values of several types: CAST it", axis->name);
  if (value.type == TSR_VALUE_TEXT) return grid_keep_text(m, a, &value, word, error);
  if (value.type == TSR_VALUE_REAL) value.as.real += 0.0; /* -0.0 and 0.0 are one value */
  memcpy(word, &value.as, sizeof *word);
  return TSR_OK;
}

static int grid_keep_row(grid_maker *m, tsx_run *run, tsr_error *error) {
  const uint32_t axes = m->grid->axis_count;
  tsr_value value;
  TSX_TRY(grid_reserve(m, error));
  uint64_t *words = m->rows + m->row_count * (axes + 1);
  for (uint32_t a = 0; a < axes; a++) TSX_TRY(grid_keep_key(m, run, a, &words[a], error));
  TSX_TRY(tsx_run_value(run, m->value, &value, error));
  if (value.type == TSR_VALUE_UNSIGNED && value.as.unsigned_integer <= INT64_MAX) value.type = TSR_VALUE_INTEGER;
  if (value.type == TSR_VALUE_UNSIGNED)
    return tsx_fail(error, TSR_RANGE, "'%s' has a value past the integers of SQL", m->grid->name);
  if (value.type != TSR_VALUE_INTEGER && value.type != TSR_VALUE_REAL && value.type != TSR_VALUE_NULL)
    return tsx_fail(error, TSR_MISMATCH, "'%s' is text or bytes: a grid needs numbers", m->grid->name);
  m->reals |= value.type == TSR_VALUE_REAL;
  memcpy(&words[axes], &value.as, sizeof *words);
  m->types[m->row_count++] = (uint8_t)value.type;
  return TSR_OK;
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static int grid_compare_reals(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int grid_compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Collects and sorts the distinct values of an axis of REAL or TEXT. */
static int grid_sort_axis(const grid_maker *m, uint32_t a, tsr_error *error) {
  tsx_grid_axis *axis = &m->grid->axes[a];
  const uint64_t words = m->grid->axis_count + 1;
  const bool text = axis->type == TSR_VALUE_TEXT;
  uint64_t n = 0, different = 0;
  uint64_t *values = tsx_arena_take(&m->grid->arena, (m->row_count + 1) * sizeof *values);
  if (!values) return tsx_out_of_memory(error);
  for (uint64_t r = 0; r < m->row_count; r++)
    if (n == 0 || values[n - 1] != m->rows[r * words + a]) values[n++] = m->rows[r * words + a];
  qsort(values, n, sizeof *values, text ? grid_compare_texts : grid_compare_reals);
  for (uint64_t i = 0; i < n; i++)
    if (i == 0 || (text ? grid_compare_texts : grid_compare_reals)(&values[different - 1], &values[i]) != 0)
      values[different++] = values[i];
  axis->count = different;
  axis->reals = text ? NULL : (const double *)(const void *)values;
  axis->texts = text ? (const char **)(void *)values : NULL;
  return TSR_OK;
}

static int grid_make_axis(const grid_maker *m, uint32_t a, tsr_error *error) {
  tsx_grid_axis *axis = &m->grid->axes[a];
  const uint64_t words = m->grid->axis_count + 1;
  if (axis->type == TSR_VALUE_NULL) axis->type = TSR_VALUE_INTEGER; /* no rows */
  if (axis->type != TSR_VALUE_INTEGER) return grid_sort_axis(m, a, error);
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (uint64_t r = 0; r < m->row_count; r++) {
    const int64_t value = (int64_t)m->rows[r * words + a];
    if (value < low) low = value;
    if (value > high) high = value;
  }
  axis->low = m->row_count ? low : 0;
  axis->count = m->row_count ? (uint64_t)high - (uint64_t)low + 1 : 0; /* 2^64 values overflow to 0, which is refused */
  return TSR_OK;
}

static uint64_t grid_coordinate(const tsx_grid_axis *axis, const uint64_t *word) {
  if (axis->type == TSR_VALUE_INTEGER) return *word - (uint64_t)axis->low;
  const bool text = axis->type == TSR_VALUE_TEXT;
  const char *values = text ? (const char *)axis->texts : (const char *)axis->reals;
  const char *found = bsearch(word, values, axis->count, sizeof *word, text ? grid_compare_texts : grid_compare_reals);
  return (uint64_t)(found - values) / sizeof *word;
}

static int grid_several(const grid_maker *m, tsr_error *error) {
  return m->query.over_groups
             ? tsx_fail(error, TSR_ERROR, "several rows have the same keys")
             : tsx_fail(error, TSR_ERROR, "several rows have the same position: name all dimensions, or use GROUP BY");
}

/* Puts each number at its place. taken[count] is zeroed. */
static int grid_fill(const grid_maker *m, uint8_t *taken, tsr_error *error) {
  tsx_grid *grid = m->grid;
  const uint64_t words = grid->axis_count + 1;
  double *reals = grid->places;
  int64_t *integers = grid->places;
  for (uint64_t i = 0; i < grid->count && !grid->whole; i++) reals[i] = NAN;
  for (uint64_t r = 0; r < m->row_count; r++) {
    const uint64_t *row = m->rows + r * words;
    uint64_t place = 0;
    if (r % GRID_CANCEL_EVERY == 0 && tsx_connection_cancelled(m->query.connection)) return tsx_fail_cancelled(error);
    for (uint32_t a = 0; a < grid->axis_count; a++)
      place = place * grid->axes[a].count + grid_coordinate(&grid->axes[a], &row[a]);
    if (taken[place]) return grid_several(m, error);
    taken[place] = 1;
    if (grid->whole) integers[place] = (int64_t)row[words - 1];
    else if (m->types[r] == TSR_VALUE_INTEGER) reals[place] = (double)(int64_t)row[words - 1];
    else if (m->types[r] == TSR_VALUE_REAL) memcpy(&reals[place], &row[words - 1], sizeof *reals);
  }
  return TSR_OK;
}

/* Multiplies the grid's count by that of an axis. */
static int grid_grow(tsx_grid *grid, const tsx_grid_axis *axis, uint64_t limit, tsr_error *error) {
  if (axis->count == 0 || grid->count > limit / sizeof(double) / axis->count)
    return tsx_fail(error, TSR_TOOBIG, "a grid from the least to the greatest '%s' has more than %llu bytes",
                    axis->name, (unsigned long long)limit);
  grid->count *= axis->count;
  return TSR_OK;
}

static int grid_holes(const tsx_grid *grid, tsr_error *error) {
  return tsx_fail(error, TSR_ERROR,
                  "'%s' is INTEGER, but has NULLs or no row for some keys, and INTEGER has no value for that: use "
                  "ifnull, or CAST it AS REAL to get NaN there",
                  grid->name);
}

static int grid_allocate(tsx_grid *grid, tsr_error *error) {
  const uint64_t size = TSX_GRID_HEAD + (grid->count + 1) * sizeof(double);
  uint8_t *memory = sqlite3_malloc64(size);
  if (!memory) return tsx_out_of_memory(error);
  tsr_memory_advise(memory, size);
  grid->places = memory + TSX_GRID_HEAD;
  return TSR_OK;
}

static int grid_place(const grid_maker *m, uint64_t limit, tsr_error *error) {
  tsx_grid *grid = m->grid;
  uint64_t nulls = 0;
  grid->count = 1;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    int code = grid_make_axis(m, a, error);
    if (code == TSR_OK && m->row_count) code = grid_grow(grid, &grid->axes[a], limit, error);
    else grid->count *= grid->axes[a].count;
    if (code < 0) return code;
  }
  for (uint64_t r = 0; r < m->row_count; r++) nulls += m->types[r] == TSR_VALUE_NULL;
  grid->whole = !m->reals && nulls < m->row_count;
  const bool gaps = grid->whole && (nulls > 0 || m->row_count < grid->count);
  if (gaps && !grid->gaps) return grid_holes(grid, error);
  if (gaps) grid->whole = false;
  TSX_TRY(grid_allocate(grid, error));
  uint8_t *taken = sqlite3_malloc64(grid->count + 1);
  if (!taken) return tsx_out_of_memory(error);
  memset(taken, 0, grid->count + 1);
  const int code = grid_fill(m, taken, error);
  sqlite3_free(taken);
  return code;
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

/* Makes the axes of a box. Returns 1; 0 if its rows need places that only they tell. */
static int box_axes(grid_maker *m, const tsx_run *run, uint64_t limit, tsr_error *error) {
  tsx_grid *grid = m->grid;
  if (!tsx_run_is_box(run)) return 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    tsx_grid_axis *axis = &grid->axes[a];
    if (!tsx_run_axis(run, m->items[a], &axis->low, &axis->count)) return 0;
  }
  uint32_t dimensions = 0;
  for (uint32_t i = 0; i < m->query.axis_count; i++)
    dimensions += m->query.table->columns[m->query.axes[i].column].description->is_dimension;
  if (dimensions != grid->axis_count || dimensions != m->query.table->schema->dimension_count) return 0;
  grid->count = 1;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    grid->axes[a].type = TSR_VALUE_INTEGER;
    const int code = grid_grow(grid, &grid->axes[a], limit, error);
    if (code < 0) return code;
  }
  return 1;
}

/* Finds the places of the rows of a block. */
static void box_places(const grid_maker *m, const tsr_query_block *block, uint64_t *places) {
  for (uint32_t a = 0; a < m->grid->axis_count; a++) {
    const tsx_grid_axis *axis = &m->grid->axes[a];
    const int64_t *coordinates = block->columns[m->items[a]].as.integers;
    const uint64_t low = (uint64_t)axis->low, count = axis->count;
    if (a == 0)
      for (uint64_t r = 0; r < block->count; r++) places[r] = (uint64_t)coordinates[r] - low;
    else
      for (uint64_t r = 0; r < block->count; r++) places[r] = places[r] * count + ((uint64_t)coordinates[r] - low);
  }
}

/* Puts the numbers of a block at their places. Returns how many are null. */
static uint64_t box_put(tsx_grid *grid, const tsr_query_column *column, const uint64_t *places, uint64_t count) {
  uint64_t *words = grid->places, nulls = 0;
  for (uint64_t r = 0; r < count; r++) words[places[r]] = column->as.unsigned_integers[r]; /* a null REAL is NaN */
  for (uint64_t r = 0; r < count && column->nulls; r++) nulls += column->nulls[r];
  return nulls;
}

/* The same of integers, as doubles: places without a number are NaN. */
static void box_put_reals(tsx_grid *grid, const tsr_query_column *column, const uint64_t *places, uint64_t count) {
  double *reals = grid->places;
  for (uint64_t r = 0; r < count; r++)
    reals[places[r]] = column->nulls && column->nulls[r] ? NAN : (double)column->as.integers[r];
}

#define BOX_BLOCK 4096u /* rows of a block, at most */

/* Puts all numbers of a box at their places. */
static int box_fill(grid_maker *m, tsx_run *run, tsr_error *error) {
  tsx_grid *grid = m->grid;
  uint64_t nulls = 0, rows = 0, places[BOX_BLOCK];
  const tsr_query_block *block;
  int code;
  while ((code = tsx_run_block(run, &block, error)) > 0) {
    const tsr_query_column *column = &block->columns[m->value];
    if (block->count > BOX_BLOCK)
      return tsx_fail(error, TSR_ERROR, "a block of %llu rows", (unsigned long long)block->count);
    const bool integers = column->type == TSR_VALUE_INTEGER;
    grid->whole = integers && !grid->gaps;
    box_places(m, block, places);
    if (integers && grid->gaps) box_put_reals(grid, column, places, block->count);
    else nulls += box_put(grid, column, places, block->count);
    rows += block->count;
  }
  if (code == 0 && rows != grid->count) return tsx_fail(error, TSR_ERROR, "a box lacks cells");
  if (code < 0 || !grid->whole || nulls == 0) return code;
  if (nulls < rows) return grid_holes(grid, error);
  grid->whole = false;
  for (uint64_t i = 0; i < grid->count; i++) ((double *)grid->places)[i] = NAN;
  return code;
}

/* Makes the grid of a box. Returns 1; 0 if the rows are no box, or have other numbers. */
static int grid_box(grid_maker *m, tsx_run *run, uint64_t limit, tsr_error *error) {
  const tsr_value_type type = tsx_run_type(run, m->value);
  if (type != TSR_VALUE_INTEGER && type != TSR_VALUE_REAL) return 0;
  const int code = box_axes(m, run, limit, error);
  if (code <= 0) return code;
  TSX_TRY(grid_allocate(m->grid, error));
  m->placed = true;
  return box_fill(m, run, error) < 0 ? error->code : 1;
}

/* ---- The run ----------------------------------------------------------------------------------------------------- */

/* Functions do not see uncommitted rows of the open transaction, so these are refused. */
static int grid_check_table(const tsx_table *table, tsr_error *error) {
  const tsx_transaction *transaction = table->array->transaction;
  if (!transaction || !tsr_writer_changed(transaction->writer)) return TSR_OK;
  return tsx_fail(error, TSR_ERROR, "the transaction has rows for %s: commit first", table->name);
}

static int grid_run(grid_maker *m, uint64_t limit, tsr_error *error) {
  tsx_run *run = NULL;
  int code = tsx_run_open(&m->query, NULL, 0, &run, error);
  if (code == TSR_OK) code = grid_box(m, run, limit, error);
  while (code == TSR_OK && (code = tsx_run_next(run, error)) > 0) code = grid_keep_row(m, run, error);
  tsx_run_close(run);
  return code;
}

char *tsx_statement_copy(const char *text) {
  size_t size = strlen(text);
  while (size > 0 && (isspace((unsigned char)text[size - 1]) || text[size - 1] == ';')) size--;
  return size > INT_MAX ? NULL : sqlite3_mprintf("%.*s", (int)size, text);
}

static int grid_make(grid_maker *m, tsx_connection *connection, const char *statement, const char *column,
                     uint64_t limit, tsr_error *error) {
  TSX_TRY(tsx_query_compile(connection, "temp", statement, &m->query, error));
  TSX_TRY(grid_check_table(m->query.table, error));
  TSX_TRY(grid_plan(m, column, error));
  TSX_TRY(grid_run(m, limit, error));
  return m->placed ? TSR_OK : grid_place(m, limit, error);
}

int tsx_grid_make(tsx_connection *connection, const char *text, const char *column, uint64_t limit, tsx_grid *grid,
                  tsr_error *error) {
  grid_maker m = {.grid = grid};
  char *statement = tsx_statement_copy(text);
  if (!statement) return tsx_out_of_memory(error);
  const int code = grid_make(&m, connection, statement, column, limit, error);
  sqlite3_free(m.rows);
  sqlite3_free(m.types);
  tsx_query_release(&m.query);
  sqlite3_free(statement);
  return code;
}

/* The word before the file has the address of the memory. */
uint8_t *tsx_grid_file(tsx_grid *grid, uint64_t head) {
  uint8_t *places = grid->places, *memory = places - TSX_GRID_HEAD, *file = places - head;
  memcpy(file - sizeof memory, &memory, sizeof memory);
  grid->places = NULL;
  return file;
}

void tsx_grid_file_free(void *file) {
  uint8_t *memory;
  memcpy(&memory, (uint8_t *)file - sizeof memory, sizeof memory);
  sqlite3_free(memory);
}

void tsx_grid_release(tsx_grid *grid) {
  if (grid->places) sqlite3_free((uint8_t *)grid->places - TSX_GRID_HEAD);
  tsx_arena_free(&grid->arena);
  *grid = (tsx_grid){0};
}
