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
 * A SELECT from a tessera_query is compiled with the text of the tessera_query in the place of its name
 * (grid_source.c). If that cannot be evaluated over columns, as with groups of groups, SQLite gives the rows.
 *
 * Sections: columns, rows, places, boxes, the run, tables of queries. */
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
  tsx_connection *connection;
  tsx_query query;
  tsx_run *run;
  sqlite3_stmt *statement; /* gives the rows in place of a run; or NULL */
  tsx_grid *grid;
  tsx_grid_column *columns; /* [column_count]: the items of the SELECT as it was given */
  uint32_t column_count;
  bool over_groups; /* rows are groups */
  uint64_t memory_bytes; /* the limit for the rows */
  uint64_t limit; /* the limit for the places */
  uint32_t items[TSR_QUERY_KEYS]; /* by axis: its item in the SELECT */
  uint32_t value; /* the item with the numbers */
  uint64_t *rows; /* [row_count][axis_count + 1]; a TEXT is a pointer to its copy */
  uint8_t *types; /* [row_count]: tsr_value_type of the number */
  uint64_t row_count, room;
  const char *last[TSR_QUERY_KEYS]; /* by axis: the copy of the previous row's text, which equal texts share */
  uint64_t last_size[TSR_QUERY_KEYS];
  bool reals; /* some number is REAL */
  /* the rows are the cells of a box; by dimension: the least coordinate, and what the next one adds to the place */
  bool placed;
  int64_t lows[TSR_QUERY_KEYS];
  uint64_t strides[TSR_QUERY_KEYS];
  tsr_query_grid engine_grid;
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

static char *grid_name(const grid_maker *m, const tsx_item *item) {
  tsx_arena *arena = &m->grid->arena;
  const tsx_expr *tree = item->tree;
  if (item->name) return tsx_arena_copy(arena, item->name, strlen(item->name));
  if (tree->kind == TSX_EXPR_NAME) return tsx_arena_copy(arena, tree->name, strlen(tree->name));
  return tsx_arena_copy(arena, tree->begin, (uint64_t)(tree->end - tree->begin));
}

/* Returns true if an item is the one with the numbers, and is a label. */
static bool grid_is_label(const grid_maker *m, uint32_t i) {
  return i == m->value && !m->statement && tsx_expr_meaning(m->query.select.items[i].tree)->kind == TSX_EXPR_LABEL;
}

static int grid_add_axis(grid_maker *m, uint32_t item, char *name, tsr_error *error) {
  tsx_grid *grid = m->grid;
  if (grid->axis_count == TSR_QUERY_KEYS) return tsx_fail(error, TSR_TOOBIG, "more than %u axes", TSR_QUERY_KEYS);
  m->items[grid->axis_count] = item;
  tsx_grid_axis *axis = &grid->axes[grid->axis_count++];
  axis->type = TSR_VALUE_NULL;
  axis->name = name;
  return axis->name ? TSR_OK : tsx_out_of_memory(error);
}

/* Appends an item to the SELECT, which has room for it, and makes it an axis. */
static int grid_add_item(grid_maker *m, tsx_expr *tree, tsr_error *error) {
  tsx_select *s = &m->query.select;
  s->items[s->item_count] = (tsx_item){.tree = tree, .begin = tree->begin, .end = tree->end};
  char *name = grid_name(m, &s->items[s->item_count]);
  return grid_add_axis(m, s->item_count++, name, error);
}

/* Makes the terms of GROUP BY the axes. */
static int grid_axes_of_groups(grid_maker *m, tsr_error *error) {
  for (uint32_t k = 0; k < m->query.select.group_count; k++) {
    uint32_t i = 0;
    while (i < m->column_count && m->columns[i].key != (int)k) i++;
    TSX_TRY(i < m->column_count ? grid_add_axis(m, i, m->columns[i].name, error)
                                : grid_add_item(m, m->query.select.group[k], error));
  }
  return TSR_OK;
}

/* Makes the keys that items name the axes. The label that supplies the numbers does not count. */
static int grid_axes_named(grid_maker *m, tsr_error *error) {
  for (uint32_t i = 0; i < m->column_count; i++) {
    uint32_t before = 0;
    const int key = m->columns[i].key;
    while (before < i && (m->columns[before].key != key || grid_is_label(m, before))) before++;
    if (key >= 0 && before == i && !grid_is_label(m, i)) TSX_TRY(grid_add_axis(m, i, m->columns[i].name, error));
  }
  return TSR_OK;
}

/* Makes the dimensions that items name the axes, or all dimensions if they name none. */
static int grid_axes_of_cells(grid_maker *m, tsr_error *error) {
  const tsx_table *table = m->query.table;
  tsx_arena *arena = &m->query.select.arena;
  TSX_TRY(grid_axes_named(m, error));
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
static int grid_find_value(grid_maker *m, const char *column, tsr_error *error) {
  uint32_t found = 0;
  char names[200] = "";
  for (uint32_t i = 0; i < m->column_count; i++) {
    char *name = m->columns[i].name;
    const bool is_it = column ? !sqlite3_stricmp(name, column) : m->columns[i].key < 0;
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

/* Takes the names and keys of the items. */
static int grid_columns(grid_maker *m, tsr_error *error) {
  const tsx_select *s = &m->query.select;
  m->columns = tsx_arena_take(&m->grid->arena, s->item_count * sizeof *m->columns);
  if (!m->columns) return tsx_out_of_memory(error);
  m->column_count = s->item_count;
  for (uint32_t i = 0; i < s->item_count; i++) {
    m->columns[i] = (tsx_grid_column){grid_name(m, &s->items[i]), tsx_grid_key(&m->query, &s->items[i]), false};
    if (!m->columns[i].name) return tsx_out_of_memory(error);
  }
  return TSR_OK;
}

static int grid_plan(grid_maker *m, const char *column, tsr_error *error) {
  tsx_select *s = &m->query.select;
  const uint64_t room = (uint64_t)s->item_count + TSR_QUERY_KEYS + 1;
  tsx_item *items = tsx_arena_take(&s->arena, room * sizeof *items);
  if (!items) return tsx_out_of_memory(error);
  memcpy(items, s->items, s->item_count * sizeof *items);
  s->items = items;
  m->over_groups = m->query.over_groups;
  TSX_TRY(grid_columns(m, error));
  TSX_TRY(grid_find_value(m, column, error));
  return m->over_groups ? grid_axes_of_groups(m, error) : grid_axes_of_cells(m, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

static int grid_reserve(grid_maker *m, tsr_error *error) {
  const uint64_t words = m->grid->axis_count + 1, room = m->room ? 2 * m->room : 1024;
  if (m->row_count < m->room) return TSR_OK;
  if (m->row_count * (words * sizeof *m->rows + 1) > m->memory_bytes)
    return tsx_fail(error, TSR_TOOBIG, "too many rows for memory_mb (%llu): take a part of them, or coarser keys",
                    (unsigned long long)(m->memory_bytes >> 20));
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

/* Gives an item of the row, as tsx_run_value does. */
static int grid_value(const grid_maker *m, uint32_t item, tsr_value *value, tsr_error *error) {
  if (!m->statement) return tsx_run_value(m->run, item, value, error);
  return tsx_query_value(sqlite3_column_value(m->statement, (int)item), value, error);
}

static int grid_keep_key(grid_maker *m, uint32_t a, uint64_t *word, tsr_error *error) {
  tsx_grid_axis *axis = &m->grid->axes[a];
  tsr_value value;
  TSX_TRY(grid_value(m, m->items[a], &value, error));
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

static int grid_keep_row(grid_maker *m, tsr_error *error) {
  const uint32_t axes = m->grid->axis_count;
  tsr_value value;
  TSX_TRY(grid_reserve(m, error));
  uint64_t *words = m->rows + m->row_count * (axes + 1);
  for (uint32_t a = 0; a < axes; a++) TSX_TRY(grid_keep_key(m, a, &words[a], error));
  TSX_TRY(grid_value(m, m->value, &value, error));
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
  return m->over_groups
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
    if (r % GRID_CANCEL_EVERY == 0 && tsx_connection_cancelled(m->connection)) return tsx_fail_cancelled(error);
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
static int grid_grow(const grid_maker *m, const tsx_grid_axis *axis, tsr_error *error) {
  tsx_grid *grid = m->grid;
  if (axis->count == 0 || grid->count > m->limit / sizeof(double) / axis->count)
    return tsx_fail(error, TSR_TOOBIG, "a grid from the least to the greatest '%s' has more than %llu bytes%s",
                    axis->name, (unsigned long long)m->limit,
                    m->limit == m->memory_bytes ? ", which is memory_mb: take a part of it, or coarser keys" : "");
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

static int grid_place(const grid_maker *m, tsr_error *error) {
  tsx_grid *grid = m->grid;
  uint64_t nulls = 0;
  grid->count = 1;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    int code = grid_make_axis(m, a, error);
    if (code == TSR_OK && m->row_count) code = grid_grow(m, &grid->axes[a], error);
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

/* Makes the axes of a box, and the lows and strides of its dimensions. Returns 1; 0 if its rows need places that only
 * they tell. */
static int box_axes(grid_maker *m, tsr_error *error) {
  const tsx_run *run = m->run;
  tsx_grid *grid = m->grid;
  uint32_t dimensions[TSR_QUERY_KEYS];
  if (!tsx_run_is_box(run) || grid->axis_count != m->query.table->schema->dimension_count) return 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    tsx_grid_axis *axis = &grid->axes[a];
    if (!tsx_run_axis(run, m->items[a], &dimensions[a], &axis->low, &axis->count)) return 0;
  }
  grid->count = 1;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    grid->axes[a].type = TSR_VALUE_INTEGER;
    const int code = grid_grow(m, &grid->axes[a], error);
    if (code < 0) return code;
  }
  uint64_t stride = 1;
  for (uint32_t a = grid->axis_count; a-- > 0; stride *= grid->axes[a].count) {
    m->lows[dimensions[a]] = grid->axes[a].low;
    m->strides[dimensions[a]] = stride;
  }
  return grid->count <= UINT32_MAX;
}

/* Puts the numbers of a block at their places. Returns how many are null. */
static uint64_t box_put(tsx_grid *grid, const tsr_query_block *block) {
  const tsr_query_column *column = block->columns;
  uint64_t *words = grid->places, nulls = 0;
  for (uint32_t i = 0, from = 0; i < block->run_count; from = block->ends[i++]) /* a null REAL is NaN */
    memcpy(words + block->firsts[i], column->as.unsigned_integers + from, (block->ends[i] - from) * sizeof *words);
  for (uint64_t r = 0; r < block->count && column->nulls; r++) nulls += column->nulls[r];
  return nulls;
}

/* The same of integers, as doubles: places without a number are NaN. */
static void box_put_reals(tsx_grid *grid, const tsr_query_block *block) {
  const tsr_query_column *column = block->columns;
  for (uint32_t i = 0, from = 0; i < block->run_count; from = block->ends[i++]) {
    double *reals = (double *)grid->places + block->firsts[i];
    for (uint32_t r = from; r < block->ends[i]; r++)
      *reals++ = column->nulls && column->nulls[r] ? NAN : (double)column->as.integers[r];
  }
}

/* Returns true if all places of a block are in the grid. */
static bool box_holds(const tsx_grid *grid, const tsr_query_block *block) {
  bool holds = true;
  for (uint32_t i = 0, from = 0; i < block->run_count; from = block->ends[i++])
    holds &= block->firsts[i] + (uint64_t)(block->ends[i] - from) <= grid->count;
  return holds;
}

/* Puts all numbers of a box at their places. */
static int box_fill(grid_maker *m, tsr_error *error) {
  tsx_grid *grid = m->grid;
  uint64_t nulls = 0, rows = 0;
  const tsr_query_block *block;
  int code;
  while ((code = tsx_run_block(m->run, &block, error)) > 0) {
    const bool integers = block->columns->type == TSR_VALUE_INTEGER;
    if (!box_holds(grid, block)) return tsx_fail(error, TSR_ERROR, "a cell is outside of its box");
    grid->whole = integers && !grid->gaps;
    if (integers && grid->gaps) box_put_reals(grid, block);
    else nulls += box_put(grid, block);
    rows += block->count;
  }
  if (code == 0 && rows != grid->count) return tsx_fail(error, TSR_ERROR, "a box lacks cells");
  if (code < 0 || !grid->whole || nulls == 0) return code;
  if (nulls < rows) return grid_holes(grid, error);
  grid->whole = false;
  for (uint64_t i = 0; i < grid->count; i++) ((double *)grid->places)[i] = NAN;
  return code;
}

/* If the rows are a box of numbers, makes its axes, and asks the engine for places. Returns 1; 0 if they are not. */
static int box_ask(grid_maker *m, tsr_error *error) {
  const tsr_value_type type = tsx_run_type(m->run, m->value);
  if (type != TSR_VALUE_INTEGER && type != TSR_VALUE_REAL) return 0;
  const int code = box_axes(m, error);
  if (code <= 0) return code;
  m->engine_grid = (tsr_query_grid){.lows = m->lows, .strides = m->strides};
  tsx_run_place(m->run, m->value, &m->engine_grid);
  m->placed = true;
  return 1;
}

/* ---- The run ----------------------------------------------------------------------------------------------------- */

/* Takes the limits: what is given with the query or its table, or the defaults. */
static void grid_limits(grid_maker *m, uint64_t memory_bytes, uint64_t limit) {
  m->memory_bytes = memory_bytes ? memory_bytes : GRID_MEMORY;
  m->limit = m->grid->within && memory_bytes && memory_bytes < limit ? memory_bytes : limit;
}

static int grid_run(grid_maker *m, tsr_error *error) {
  int code = tsx_run_prepare(&m->query, NULL, 0, &m->run, error);
  if (code == TSR_OK) code = box_ask(m, error);
  if (code >= 0) code = tsx_run_start(m->run, error);
  if (code == TSR_OK && m->placed) code = grid_allocate(m->grid, error);
  if (code == TSR_OK && m->placed) code = box_fill(m, error);
  while (code == TSR_OK && !m->placed && (code = tsx_run_next(m->run, error)) > 0) code = grid_keep_row(m, error);
  tsx_run_close(m->run);
  m->run = NULL;
  return code;
}

/* Makes the grid of a compiled query. */
static int grid_of_query(grid_maker *m, const char *column, uint64_t limit, tsr_error *error) {
  const uint64_t given = m->query.memory_bytes;
  grid_limits(m, given ? given : m->query.table->options.limits.memory_bytes, limit);
  TSX_TRY(tsx_grid_committed(&m->query, error));
  TSX_TRY(grid_plan(m, column, error));
  TSX_TRY(grid_run(m, error));
  return m->placed ? TSR_OK : grid_place(m, error);
}

char *tsx_statement_copy(const char *text) {
  size_t size = strlen(text);
  while (size > 0 && (isspace((unsigned char)text[size - 1]) || text[size - 1] == ';')) size--;
  return size > INT_MAX ? NULL : sqlite3_mprintf("%.*s", (int)size, text);
}

/* ---- Tables of queries ------------------------------------------------------------------------------------------- */

static bool has_aggregate(const tsx_expr *tree) {
  if (tree->kind == TSX_EXPR_AGGREGATE) return true;
  bool found = tree->base && has_aggregate(tree->base);
  for (uint32_t i = 0; i < tree->count && !found; i++) found = has_aggregate(tree->operands[i]);
  return found;
}

/* Returns true if two trees that tsx_expr_equal takes for equal, as it does before names are resolved, have the same
 * names. There is only one table, so qualifiers say nothing. */
static bool rows_same_names(const tsx_expr *a, const tsx_expr *b) {
  bool same = a->kind != TSX_EXPR_NAME || !sqlite3_stricmp(a->name, b->name);
  if (same && a->base) same = rows_same_names(a->base, b->base);
  for (uint32_t i = 0; i < a->count && same; i++) same = rows_same_names(a->operands[i], b->operands[i]);
  return same;
}

/* Returns the first item that a term of GROUP BY means: by its number, its words or, if it names no column of the
 * table, its alias; item_count if none. */
static uint32_t rows_item_of_term(const tsx_select *s, const tsx_expr *term, const tsx_grid_source *source) {
  const bool ordinal = term->kind == TSX_EXPR_LITERAL && isdigit((unsigned char)*term->begin);
  const long number = ordinal ? strtol(term->begin, NULL, 10) : 0;
  if (number >= 1 && number <= (long)s->item_count) return (uint32_t)number - 1;
  for (uint32_t i = 0; i < s->item_count; i++)
    if (tsx_expr_equal(s->items[i].tree, term) && rows_same_names(s->items[i].tree, term)) return i;
  bool alias = term->kind == TSX_EXPR_NAME && !term->table;
  for (uint32_t c = 0; c < source->column_count && alias; c++)
    alias = sqlite3_stricmp(source->columns[c].name, term->name) != 0;
  for (uint32_t i = 0; i < s->item_count && alias; i++)
    if (s->items[i].name && !sqlite3_stricmp(s->items[i].name, term->name)) return i;
  return s->item_count;
}

/* Makes the terms of GROUP BY the keys of the columns. */
static int rows_groups(grid_maker *m, const tsx_select *s, const tsx_grid_source *source, tsr_error *error) {
  for (uint32_t k = 0; k < s->group_count; k++) {
    const uint32_t i = rows_item_of_term(s, s->group[k], source);
    if (i == s->item_count)
      return tsx_fail(error, TSR_ERROR, "'%.*s' in GROUP BY is none of the columns: add it to them",
                      (int)(s->group[k]->end - s->group[k]->begin), s->group[k]->begin);
    if (m->columns[i].key < 0) m->columns[i].key = (int)k;
  }
  return TSR_OK;
}

/* Makes the terms of GROUP BY, in their order, the axes. A term may mean the same column as an earlier one. */
static int rows_axes_of_groups(grid_maker *m, const tsx_select *s, tsr_error *error) {
  for (uint32_t k = 0; k < s->group_count; k++)
    for (uint32_t i = 0; i < m->column_count; i++)
      if (m->columns[i].key == (int)k) TSX_TRY(grid_add_axis(m, i, m->columns[i].name, error));
  return TSR_OK;
}

/* Finds the keys of the tessera_query among the columns. */
static void rows_keys(grid_maker *m, const tsx_select *s, const tsx_grid_source *source) {
  uint32_t c = 0;
  for (uint32_t i = 0; i < s->item_count; i++) {
    const tsx_item *item = &s->items[i];
    if (item->star)
      for (uint32_t k = 0; k < source->column_count && c < m->column_count; k++)
        m->columns[c++].key = source->columns[k].key;
    else
      for (uint32_t k = 0; k < source->column_count && c < m->column_count; k++)
        if (item->tree->kind == TSX_EXPR_NAME && !sqlite3_stricmp(source->columns[k].name, item->tree->name))
          m->columns[c].key = source->columns[k].key;
    c += !item->star;
  }
}

/* Finds the axes and the numbers of a statement. */
static int rows_plan(grid_maker *m, const tsx_select *s, const tsx_grid_source *source, const char *column,
                     tsr_error *error) {
  bool stars = false;
  m->over_groups = s->group_count > 0 || s->distinct;
  for (uint32_t i = 0; i < s->item_count; i++) {
    stars |= s->items[i].star != NULL;
    m->over_groups |= !s->items[i].star && has_aggregate(s->items[i].tree);
  }
  m->column_count = (uint32_t)sqlite3_column_count(m->statement);
  m->columns = tsx_arena_take(&m->grid->arena, m->column_count * sizeof *m->columns);
  if (!m->columns) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < m->column_count; i++) {
    const char *name = sqlite3_column_name(m->statement, (int)i);
    m->columns[i] = (tsx_grid_column){name ? tsx_arena_copy(&m->grid->arena, name, strlen(name)) : NULL, -1, false};
    if (!m->columns[i].name) return tsx_out_of_memory(error);
  }
  if (stars && s->group_count) return tsx_fail(error, TSR_ERROR, "* with GROUP BY: name the columns");
  if (s->group_count) TSX_TRY(rows_groups(m, s, source, error));
  else if (!m->over_groups || s->distinct) rows_keys(m, s, source);
  TSX_TRY(grid_find_value(m, column, error));
  return s->group_count ? rows_axes_of_groups(m, s, error) : grid_axes_named(m, error);
}

/* Takes the rows that SQLite gives. */
static int rows_take(grid_maker *m, tsr_error *error) {
  int code;
  while ((code = sqlite3_step(m->statement)) == SQLITE_ROW) TSX_TRY(grid_keep_row(m, error));
  return tsx_core_result(m->connection->db, code, error);
}

/* Makes the grid of a SELECT from a tessera_query of the rows that SQLite gives. */
static int rows_make(grid_maker *m, const tsx_select *s, const tsx_grid_source *source, const char *column,
                     uint64_t limit, tsr_error *error) {
  if (s->join_count || s->subquery_count || s->inner.begin)
    return tsx_fail(
        error, TSR_ERROR,
        "a grid of the tessera_query %.64s takes neither joins nor subqueries: make a tessera_query of them",
        source->name);
  const int code = sqlite3_prepare_v2(m->connection->db, s->text, -1, &m->statement, NULL);
  TSX_TRY(tsx_core_result(m->connection->db, code, error));
  grid_limits(m, source->memory_bytes, limit);
  TSX_TRY(rows_plan(m, s, source, column, error));
  TSX_TRY(rows_take(m, error));
  return grid_place(m, error);
}

/* Compiles a SELECT from a tessera_query with the text of the latter in the place of its name. Returns 1; 0 if that
 * cannot be evaluated over columns. */
static int within_compile(grid_maker *m, const tsx_select *s, const tsx_grid_source *source, tsr_error *error) {
  tsr_error why = {0};
  char *text = tsx_grid_source_within(s, source);
  if (!text) return tsx_out_of_memory(error);
  int code = tsx_query_compile(m->connection, source->schema, text, &m->query, &why);
  if (code >= 0) code = tsx_run_check(&m->query, &why);
  tsx_query_release(&m->query);
  if (code >= 0) code = tsx_query_compile(m->connection, source->schema, text, &m->query, &why);
  sqlite3_free(text);
  m->query.memory_bytes = source->memory_bytes;
  m->query.threads = source->threads;
  if (code >= 0) return 1;
  tsx_query_release(&m->query);
  if (code != TSR_NOMEM && code != TSR_INTERRUPT) return 0;
  *error = why;
  return code;
}

static int grid_of_source(grid_maker *m, const tsx_select *s, const tsx_grid_source *source, const char *column,
                          uint64_t limit, tsr_error *error) {
  const int code = within_compile(m, s, source, error);
  if (code < 0) return code;
  return code ? grid_of_query(m, column, limit, error) : rows_make(m, s, source, column, limit, error);
}

/* Makes the grid of a SELECT that could not be compiled, if it is one from a tessera_query. Returns 1, or 0. */
static int grid_try_source(grid_maker *m, const char *statement, const char *column, uint64_t limit, tsr_error *error) {
  tsx_select select = {0};
  tsx_grid_source source = {0};
  int code = tsx_grid_source_find(m->connection, statement, &select, &source, error);
  if (code > 0) code = grid_of_source(m, &select, &source, column, limit, error) < 0 ? error->code : 1;
  sqlite3_finalize(m->statement);
  tsx_grid_source_release(&source);
  tsx_select_free(&select);
  return code;
}

static int grid_make(grid_maker *m, const char *statement, const char *column, uint64_t limit, tsr_error *error) {
  tsr_error why = {0};
  int code = tsx_query_compile(m->connection, "temp", statement, &m->query, &why);
  if (code >= 0) return grid_of_query(m, column, limit, error);
  tsx_query_release(&m->query);
  if (code != TSR_NOMEM && code != TSR_INTERRUPT) code = grid_try_source(m, statement, column, limit, error);
  if (code > 0 || error->code) return code;
  *error = why;
  return why.code;
}

int tsx_grid_make(tsx_connection *connection, const char *text, const char *column, uint64_t limit, tsx_grid *grid,
                  tsr_error *error) {
  grid_maker m = {.connection = connection, .grid = grid};
  char *statement = tsx_statement_copy(text);
  if (!statement) return tsx_out_of_memory(error);
  const int code = grid_make(&m, statement, column, limit, error);
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
