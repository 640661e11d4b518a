/* keys.c: maps cells to groups, for keys that are integer dimensions (plain) or numbered by the caller.
 *
 * If all keys of a query are such, and their ranges are small, the groups form a grid: a group's number is the sum of
 * what each axis (a field) adds for the cell's value. Otherwise the keys become words, and groups.h numbers their
 * tuples. In a dense tile the numbers follow from the cells' positions, without reading coordinates.
 *
 * A key that is a column of the rows with which cells are paired (boxes.c) is numbered, too: before the first cell is
 * read, by the values of the rows.
 *
 * Sections: columns of rows; preparing; cells from columns; cells of a dense tile.
 */
#include "query/query.h"

#include <math.h>
#include <string.h>

#include "base/sort.h"
#include "model/datatype.h"
#include "read/reader.h"

#define GRID_MAX    (UINT64_C(1) << 26)
#define STRETCH_MIN 16u /* with shorter runs, each cell gets its own group number */
#define GRID_ALWAYS (UINT64_C(1) << 22) /* a grid may have so many groups, or as many as there are cells */

/* ---- Columns of rows --------------------------------------------------------------------------------------------- */

static double load_real(const tsr_value_list *list, uint32_t row) {
  return list->datatype == TSR_FLOAT32 ? (double)((const float *)list->values)[row]
                                       : ((const double *)list->values)[row];
}

static uint64_t load_integer(const tsr_value_list *list, uint32_t row) {
  const uint8_t *values = list->values;
  const uint64_t size = tsr_datatype_size(list->datatype);
  uint64_t value = 0;
  if (list->is_identity) return row;
  memcpy(&value, values + row * size, size); /* little-endian */
  const unsigned unused = (unsigned)(64 - 8 * size);
  return list->type == TSR_VALUE_INTEGER && tsr_datatype_kind(list->datatype) != TSR_KIND_UNSIGNED
             ? (uint64_t)((int64_t)(value << unused) >> unused)
             : value;
}

static bool row_is_null(const tsr_value_list *list, uint32_t row) {
  if (list->nulls && list->nulls[row]) return true;
  return list->type == TSR_VALUE_REAL && isnan(load_real(list, row));
}

static int compare_rows(const tsr_value_list *list, uint32_t a, uint32_t b) {
  if (list->type == TSR_VALUE_TEXT) {
    const tsr_text_value *x = (const tsr_text_value *)list->values + a, *y = (const tsr_text_value *)list->values + b;
    return tsr__bytes_compare(x->bytes, x->size, y->bytes, y->size);
  }
  if (list->type == TSR_VALUE_REAL) {
    const double x = load_real(list, a), y = load_real(list, b);
    return (x > y) - (x < y);
  }
  const uint64_t x = load_integer(list, a), y = load_integer(list, b);
  if (list->type == TSR_VALUE_UNSIGNED) return (x > y) - (x < y);
  return ((int64_t)x > (int64_t)y) - ((int64_t)x < (int64_t)y);
}

void tsr__query_row_value(const query_key *key, uint32_t number, tsr_value *value) {
  const uint32_t row = key->row_of[number];
  value->type = key->type;
  if (key->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = ((const tsr_text_value *)key->column->values)[row].bytes;
    value->as.text.size = ((const tsr_text_value *)key->column->values)[row].size;
  } else if (key->type == TSR_VALUE_REAL) {
    value->as.real = load_real(key->column, row) + 0.0; /* no negative zero */
  } else {
    value->as.unsigned_integer = load_integer(key->column, row);
  }
}

static int compare_tied_rows(const void *argument, uint32_t a, uint32_t b) { return compare_rows(argument, a, b); }

/* Sorts rows by their values; `pairs` has room for 2 * count. */
static void sort_rows(const tsr_value_list *list, uint32_t *rows, tsr_pair *pairs, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t word = 0;
    if (list->type == TSR_VALUE_REAL) {
      const double real = load_real(list, rows[i]);
      memcpy(&word, &real, sizeof word);
    } else if (list->type != TSR_VALUE_TEXT) {
      word = load_integer(list, rows[i]);
    }
    const tsr_text_value *text = list->type == TSR_VALUE_TEXT ? (const tsr_text_value *)list->values + rows[i] : NULL;
    pairs[i] = (tsr_pair){tsr__query_sort_key(list->type, word, text), rows[i]};
  }
  tsr__pairs_sort_ties(pairs, pairs + count, count, list->type == TSR_VALUE_TEXT ? compare_tied_rows : NULL, list);
  for (uint64_t i = 0; i < count; i++) rows[i] = pairs[i].cell;
}

/* Numbers the values of a key that is a column of rows: 0, 1, ... in their order. */
static int number_rows(tsr_query_run *run, query_key *key, tsr_error *error) {
  const tsr_value_list *list = key->column;
  const uint64_t count = run->boxes.given->row_count;
  tsr_pair *pairs;
  uint64_t n = 0;
  if (list->count < count) return tsr__fail(error, TSR_ERROR, "a column of rows is too short");
  TSR_TRY(TSR_ARENA_RAW(&run->arena, count + 1, &key->row_numbers, error));
  TSR_TRY(TSR_ARENA_RAW(&run->arena, count + 1, &key->row_of, error));
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, 2 * count + 1, &pairs, error));
  for (uint64_t i = 0; i < count; i++) {
    key->row_numbers[i] = UINT32_MAX;
    if (!row_is_null(list, (uint32_t)i)) key->row_of[n++] = (uint32_t)i;
  }
  key->has_null = n < count;
  sort_rows(list, key->row_of, pairs, n);
  tsr__free(pairs);
  uint32_t values = 0;
  for (uint64_t i = 0; i < n; i++) {
    const uint32_t row = key->row_of[i];
    if (i == 0 || compare_rows(list, key->row_of[values - 1], row) != 0) key->row_of[values++] = row;
    key->row_numbers[row] = values - 1;
  }
  key->extent = (uint64_t)values + key->has_null;
  return TSR_OK;
}

/* ---- Preparing --------------------------------------------------------------------------------------------------- */

/* Finds or makes the axis of a numbered or plain key, whose table has `count` values from `low` on. */
static int axis_of(tsr_query_run *run, query_key *key, uint64_t low, uint64_t count, tsr_error *error) {
  const tsr_schema *schema = run->snapshot->schema;
  if (key->field >= run->input.field_count || schema->fields[key->field].values_per_cell != 1 ||
      tsr_datatype_kind(schema->fields[key->field].datatype) == TSR_KIND_FLOAT)
    return tsr__fail(error, TSR_MISMATCH, "field %u has no integers that could be a key", key->field);
  for (key->axis = 0; key->axis < run->grouping.axis_count; ++key->axis) {
    const query_axis *a = &run->grouping.axes[key->axis];
    if (!a->rows && a->field == key->field && (uint64_t)a->low == low && a->count == count && a->plain == key->plain)
      return TSR_OK;
  }
  const tsr_field *field = &schema->fields[key->field];
  query_axis *made = &run->grouping.axes[run->grouping.axis_count++];
  const tsr_physical_type physical = tsr__datatype_physical(field->datatype);
  *made = (query_axis){.field = key->field, .low = (int64_t)low, .count = count, .size = (uint32_t)field->cell_size};
  made->plain = key->plain;
  made->has_null = key->has_null;
  made->is_signed = physical == TSR_PHYSICAL_I8 || physical == TSR_PHYSICAL_I16 || physical == TSR_PHYSICAL_I32 ||
                    physical == TSR_PHYSICAL_I64;
  run->input.fields[key->field] = true;
  return TSR_ARENA_ARRAY(&run->arena, count, &made->numbers, error);
}

/* Finds or makes the axis of rows, and adds the numbers of a key that is a column of them. */
static int axis_of_rows(tsr_query_run *run, query_key *key, tsr_error *error) {
  query_grouping *grouping = &run->grouping;
  for (key->axis = 0; key->axis < grouping->axis_count && !grouping->axes[key->axis].rows;) ++key->axis;
  query_axis *axis = &grouping->axes[key->axis];
  if (key->axis == grouping->axis_count) {
    grouping->axis_count++;
    *axis = (query_axis){.rows = true, .count = run->boxes.given->row_count};
    TSR_TRY(TSR_ARENA_ARRAY(&run->arena, axis->count, &axis->numbers, error));
  }
  for (uint64_t i = 0; i < axis->count; i++) {
    const uint32_t number = key->row_numbers[i];
    axis->numbers[i] += (uint32_t)((number == UINT32_MAX ? 0 : number + key->has_null) * key->stride);
  }
  return TSR_OK;
}

static int number_axes(tsr_query_run *run, tsr_error *error) {
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const tsr_query_key *key = &run->query.keys[k];
    query_key *made = &run->grouping.keys[k];
    const uint64_t low = made->plain ? made->low : (uint64_t)key->low, count = made->plain ? made->extent : key->count;
    if (made->column) {
      TSR_TRY(axis_of_rows(run, made, error));
      continue;
    }
    TSR_TRY(axis_of(run, made, low, count, error));
    query_axis *axis = &run->grouping.axes[made->axis];
    for (uint64_t i = 0; i < count; i++) {
      const uint64_t number = made->plain ? i : key->numbers[i];
      if (!made->plain && number >= key->number_count) axis->numbers[i] = QUERY_OUTSIDE;
      else if (axis->numbers[i] < QUERY_OUTSIDE)
        axis->numbers[i] += (uint32_t)((number + made->has_null) * made->stride);
    }
  }
  return TSR_OK;
}

/* Without a grid, an axis only says where the values of its key are; the words of a plain key are its values. */
static int make_axes(tsr_query_run *run, tsr_error *error) {
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const tsr_query_key *key = &run->query.keys[k];
    query_key *made = &run->grouping.keys[k];
    if (made->column) continue;
    if (made->plain) TSR_TRY(axis_of(run, made, 0, 0, error));
    else if (key->numbers) TSR_TRY(axis_of(run, made, (uint64_t)key->low, key->count, error));
  }
  return TSR_OK;
}

/* Finds the range of values, key->low and key->extent, that cells of the started reader can have on the dimension of a
 * plain key. Returns false if it is unknown. */
static bool find_range(const tsr_query_run *run, query_key *key) {
  const tsr_snapshot *snapshot = run->snapshot;
  const tsr_plan *plan = &run->input.reader->plan;
  const tsr_datatype datatype = snapshot->schema->fields[key->field].datatype;
  uint64_t low, high;
  if (run->grouping.no_plain_grid || plan->empty || plan->lossy || !snapshot->domain.exists) return false;
  if (snapshot->schema->dense) {
    if (!plan->selections) return false; /* point.c reads a single cell without a plan */
    const tsr_dimension_selection *selected = &plan->selections[key->field];
    low = snapshot->grid.low_key[key->field] + selected->spans[0].low;
    high = snapshot->grid.low_key[key->field] + selected->spans[selected->count - 1].high;
  } else {
    const tsr_spans *spans = &plan->spans[key->field];
    low = tsr__key(datatype, snapshot->domain.intervals[key->field].low);
    high = tsr__key(datatype, snapshot->domain.intervals[key->field].high);
    if (!spans->all) low = TSR_MAX(low, spans->spans[0].low);
    if (!spans->all) high = TSR_MIN(high, spans->spans[spans->count - 1].high);
  }
  if (high < low) return false;
  key->low = tsr__query_value_of_key(datatype, low);
  key->extent = tsr__add_sat(high - low, 1);
  return true;
}

/* Prepares key `k`, and gives it its stride in the grid of groups, if the groups still form one. */
static int prepare_key(tsr_query_run *run, uint32_t k, tsr_error *error) {
  const tsr_schema *schema = run->snapshot->schema;
  const tsr_query_key *key = &run->query.keys[k];
  query_key *made = &run->grouping.keys[k];
  if (made->value != QUERY_NONE) {
    run->grouping.grid = false;
    run->grouping.has_nulls |= made->type != TSR_VALUE_REAL;
    return TSR_OK;
  }
  if (made->column) {
    TSR_TRY(number_rows(run, made, error));
  } else {
    if (made->field >= run->input.field_count)
      return tsr__fail(error, TSR_MISMATCH, "field %u has no integers that could be a key", made->field);
    made->has_null = !made->plain && (!schema->dense || !schema->fields[key->field].is_dimension);
    if (made->plain) run->grouping.grid = run->grouping.grid && find_range(run, made);
    else made->extent = (uint64_t)key->number_count + made->has_null;
  }
  made->stride = run->grouping.grid_size;
  run->grouping.grid_size = tsr__mul_sat(run->grouping.grid_size, made->extent);
  return TSR_OK;
}

int tsr__query_keys_make(tsr_query_run *run, tsr_error *error) {
  run->grouping.grid = true;
  run->grouping.grid_size = 1;
  for (uint32_t k = run->query.key_count; k-- > 0;) TSR_TRY(prepare_key(run, k, error));
  const uint64_t cells = TSR_MIN(tsr__reader_cells(run->input.reader), GRID_MAX);
  run->grouping.grid =
      run->grouping.grid && run->grouping.grid_size <= TSR_MAX(GRID_ALWAYS, cells) &&
      tsr__mul_sat(run->grouping.grid_size, run->layout.words * sizeof(uint64_t)) <= run->memory.limit / 2;
  run->grouping.width = run->grouping.grid ? 1 : run->query.key_count + run->grouping.has_nulls;
  if (run->grouping.grid) return number_axes(run, error);
  tsr__groups_init(&run->collected.groups, run->grouping.width, &run->memory);
  return make_axes(run, error);
}

/* ---- Cells from columns ------------------------------------------------------------------------------------------ */

/* Sets places[r] to the position of a row's value in the table of an axis. A position of axis->count or more is outside
 * the table; that of a null is UINT64_MAX. */
static void axis_places(const tsr_query_run *run, const query_axis *axis, const query_rows *rows, uint64_t *places) {
  if (axis->rows) {
    for (uint32_t r = 0; r < rows->count; r++) places[r] = rows->joined[r];
    return;
  }
  const tsr_block_input *input = &run->input.columns[axis->field];
  const tsr_column *column = &input->column;
  const uint8_t *values = column->values;
#define PLACES(type)                                                                                                   \
  for (uint32_t r = 0; r < rows->count; r++) {                                                                         \
    const uint64_t i = column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r;                          \
    type v;                                                                                                            \
    memcpy(&v, values + i * sizeof v, sizeof v);                                                                       \
    places[r] = (uint64_t)v - (uint64_t)axis->low;                                                                     \
  }
  switch (axis->size * 2 + axis->is_signed) {
  case 2: PLACES(uint8_t) break;
  case 3: PLACES(int8_t) break;
  case 4: PLACES(uint16_t) break;
  case 5: PLACES(int16_t) break;
  case 8: PLACES(uint32_t) break;
  case 9: PLACES(int32_t) break;
  case 16: PLACES(uint64_t) break;
  default: PLACES(int64_t) break;
  }
#undef PLACES
  for (uint32_t r = 0; r < rows->count && (input->null || column->validity); r++)
    if (input->null || !column->validity[column->constant ? 0 : rows->cells ? rows->cells[r] : rows->first + r])
      places[r] = UINT64_MAX;
}

static int fail_without_key(query_part *part, const query_axis *axis, tsr_error *error) {
  const tsr_query_run *run = part->run;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++)
    part->outside |= run->grouping.grid && run->grouping.axes[a].plain;
  return tsr__fail(error, TSR_ERROR, "%s has a value that its keys do not name",
                   run->snapshot->schema->fields[axis->field].name);
}

int tsr__query_key_words(query_part *part, uint32_t key, const query_rows *rows, uint64_t *words, tsr_error *error) {
  const tsr_query_run *run = part->run;
  const tsr_query_key *numbered = &run->query.keys[key];
  const query_key *made = &run->grouping.keys[key];
  if (made->column) {
    for (uint32_t r = 0; r < rows->count; r++) words[r] = (uint32_t)(made->row_numbers[rows->joined[r]] + 1);
    return TSR_OK;
  }
  const query_axis *axis = &run->grouping.axes[made->axis];
  axis_places(run, axis, rows, words);
  for (uint32_t r = 0; r < rows->count && !run->grouping.keys[key].plain; r++) {
    const bool known = words[r] < numbered->count;
    if (known && numbered->numbers[words[r]] >= numbered->number_count) return fail_without_key(part, axis, error);
    words[r] = known ? (uint64_t)numbered->numbers[words[r]] + 1 : 0;
  }
  return TSR_OK;
}

static bool is_steady(const tsr_query_run *run, const query_axis *axis) {
  return !axis->rows && run->boxes.period && run->boxes.steady[axis->field];
}

int tsr__query_steady_number(query_part *part, const query_rows *rows, uint32_t *number, tsr_error *error) {
  const tsr_query_run *run = part->run;
  const query_rows first = {.cells = rows->cells, .count = 1};
  *number = 0;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const query_axis *axis = &run->grouping.axes[a];
    uint64_t place;
    if (!is_steady(run, axis)) continue;
    axis_places(run, axis, &first, &place);
    const uint32_t added = place < axis->count ? axis->numbers[place] : axis->has_null ? 0 : QUERY_OUTSIDE;
    if (added & QUERY_OUTSIDE) return fail_without_key(part, axis, error);
    *number += added;
  }
  return TSR_OK;
}

static int numbers_of_columns(query_part *part, const query_rows *rows, tsr_error *error) {
  const tsr_query_run *run = part->run;
  uint64_t *places = part->buffers.words[0];
  uint32_t steady = 0;
  if (run->boxes.period) TSR_TRY(tsr__query_steady_number(part, rows, &steady, error)); /* pairs come from one period */
  for (uint32_t r = 0; r < rows->count; r++) part->buffers.numbers[r] = steady;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const query_axis *axis = &run->grouping.axes[a];
    const bool has_null = axis->has_null;
    uint32_t outside = 0;
    if (is_steady(run, axis)) continue;
    axis_places(run, axis, rows, places);
    for (uint32_t r = 0; r < rows->count; r++) {
      const uint32_t number = places[r] < axis->count ? axis->numbers[places[r]] : has_null ? 0 : QUERY_OUTSIDE;
      outside |= number & QUERY_OUTSIDE;
      part->buffers.numbers[r] += number;
    }
    if (outside) return fail_without_key(part, axis, error);
  }
  return TSR_OK;
}

/* ---- Cells of a dense tile --------------------------------------------------------------------------------------- */

/* Returns the axis of the batch's tile for the dimension of a query's axis. */
static const tsr_axis *tile_axis_of(const tsr_query_run *run, const query_axis *axis) {
  const uint32_t n = run->input.subtile->dimensions;
  return &run->input.subtile->axes[run->snapshot->grid.col_major_cells ? n - 1 - axis->field : axis->field];
}

/* Returns the position, in an axis's table, of the coordinate with this ordinal. */
static uint64_t place_of_ordinal(const tsr_query_run *run, const query_axis *axis, uint64_t ordinal) {
  const uint64_t low = run->snapshot->grid.low_key[axis->field];
  return (axis->is_signed ? low ^ UINT64_C(1) << 63 : low) + ordinal - (uint64_t)axis->low;
}

static uint32_t number_of_ordinal(const tsr_query_run *run, const query_axis *axis, uint64_t ordinal) {
  const uint64_t place = place_of_ordinal(run, axis, ordinal);
  return place < axis->count ? axis->numbers[place] : QUERY_OUTSIDE;
}

/* Returns the sum of what the axes add for the cell at `place` in the tile, leaving out axes with a stride below
 * `least`. It is the same for all cells up to the next multiple of the smallest stride included. */
static uint32_t group_of_place(const tsr_query_run *run, uint64_t place, uint64_t least) {
  uint32_t number = 0;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const tsr_axis *axis = tile_axis_of(run, &run->grouping.axes[a]);
    if (axis->stride < least) continue;
    number += number_of_ordinal(run, &run->grouping.axes[a], axis->base + place / axis->stride % axis->extent);
  }
  return number;
}

/* Returns the least stride of an axis in the tile: within a stretch of so many cells the group stays the same. */
static uint64_t stretch_of(const tsr_query_run *run) {
  uint64_t stretch = UINT64_MAX;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++)
    stretch = TSR_MIN(stretch, tile_axis_of(run, &run->grouping.axes[a])->stride);
  return stretch;
}

/* Adds the numbers of axes with stride 1 for `count` consecutive cells. */
static void add_fast_axes(const tsr_query_run *run, uint64_t place, uint64_t count, uint32_t *numbers) {
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const query_axis *axis = &run->grouping.axes[a];
    const tsr_axis *tile = tile_axis_of(run, axis);
    if (tile->stride != 1) continue;
    const uint64_t at = place_of_ordinal(run, axis, tile->base + place % tile->extent);
    if (at < axis->count && axis->count - at >= count)
      for (uint64_t i = 0; i < count; i++) numbers[i] += axis->numbers[at + i];
    else
      for (uint64_t i = 0; i < count; i++) numbers[i] += QUERY_OUTSIDE;
  }
}

/* Sets the group numbers of `count` cells from `place` in the tile on. */
static void numbers_of_tile(const tsr_query_run *run, uint64_t place, uint64_t count, uint32_t *numbers) {
  const uint64_t stretch = stretch_of(run);
  const tsr_axis *fastest = &run->input.subtile->axes[run->input.subtile->dimensions - 1];
  for (uint64_t r = 0, n; r < count; r += n) {
    const uint64_t length = stretch == 1 ? fastest->extent : stretch, at = place + r;
    n = TSR_MIN(count - r, length - at % length);
    const uint32_t number = group_of_place(run, at, TSR_MAX(stretch, 2));
    for (uint64_t i = 0; i < n; i++) numbers[r + i] = number;
    if (stretch == 1) add_fast_axes(run, at, n, numbers + r);
  }
}

/* Sets the runs of `count` cells from `place` in the tile on. Returns the number of runs. */
static uint32_t runs_of_tile(const query_part *part, uint64_t place, uint64_t count, uint64_t stretch) {
  uint32_t runs = 0;
  for (uint64_t r = 0; r < count;) {
    const uint64_t n = TSR_MIN(count - r, stretch - (place + r) % stretch);
    part->buffers.numbers[runs] = group_of_place(part->run, place + r, 1);
    part->buffers.ends[runs++] = (uint32_t)(r += n);
  }
  return runs;
}

int tsr__query_grid_rows(query_part *part, const query_rows *block, const query_rows *rows, tsr_spread *spread,
                         tsr_error *error) {
  const tsr_query_run *run = part->run;
  uint32_t outside = 0;
  *spread = (tsr_spread){.count = rows->count, .groups = part->buffers.numbers, .ends = part->buffers.ends};
  if (run->grouping.axis_count == 0) {
    part->buffers.numbers[0] = 0;
    part->buffers.ends[0] = rows->count;
    spread->run_count = 1;
    return TSR_OK;
  }
  if (run->input.subtile) {
    const uint64_t place = run->input.subtile->origin + block->first, stretch = stretch_of(run);
    if (stretch >= STRETCH_MIN && rows->count == block->count) {
      spread->run_count = runs_of_tile(part, place, block->count, stretch);
    } else {
      numbers_of_tile(run, place, block->count, part->buffers.numbers);
      for (uint32_t r = 0; r < rows->count && rows->cells; r++)
        part->buffers.numbers[r] = part->buffers.numbers[rows->cells[r] - block->first];
    }
  } else {
    TSR_TRY(numbers_of_columns(part, rows, error));
  }
  const uint32_t known = spread->run_count ? spread->run_count : rows->count;
  for (uint32_t r = 0; r < known; r++) outside |= part->buffers.numbers[r] >= QUERY_OUTSIDE;
  if (outside) return fail_without_key(part, &run->grouping.axes[0], error);
  if (spread->run_count == 0)
    spread->run_count = tsr__runs_of_numbers(part->buffers.numbers, rows->count, part->buffers.ends);
  return TSR_OK;
}

void tsr__query_grid_range(const tsr_query_run *run, uint64_t from, uint64_t end, uint64_t *low, uint64_t *high) {
  const uint64_t first = run->input.subtile->origin + run->input.batch->first + from, last = first + (end - from) - 1;
  *low = *high = 0;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++) {
    const tsr_axis *axis = tile_axis_of(run, &run->grouping.axes[a]);
    const uint64_t round = axis->stride * axis->extent;
    const bool whole = first / round != last / round; /* all coordinates may occur */
    const uint64_t begin = whole ? 0 : first / axis->stride % axis->extent;
    const uint64_t stop = whole ? axis->extent - 1 : last / axis->stride % axis->extent;
    uint32_t least = UINT32_MAX, greatest = 0;
    for (uint64_t i = begin; i <= stop; i++) {
      const uint32_t number = number_of_ordinal(run, &run->grouping.axes[a], axis->base + i);
      if (number < QUERY_OUTSIDE) least = TSR_MIN(least, number), greatest = TSR_MAX(greatest, number);
    }
    *low += least;
    *high += greatest;
  }
}
