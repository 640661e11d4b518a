/* downsample.c: shows a box of an array as a grid of places (pixels), each with the mean of the cells in it.
 *
 * A reader gives batches of cells. For each cell, the keys of two coordinates determine its place on the two axes, and
 * its value is added to the sum of that place. Threads share large batches; each has its own table of sums, if the
 * budget has room for several. Memory depends only on the number of places, not on the size of the array.
 *
 * If the request has sides, their runs say which place a coordinate has, and pixels are made of places at the end. A
 * side has one place more, for coordinates between its runs, which no pixel shows.
 *
 * Sections: places; sides; cells of a batch; the request.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "model/datatype.h"
#include "array/array.h"
#include "environment/environment.h"
#include "read/reader.h"

#define DOWNSAMPLE_PART_CELLS     16384u /* least cells of a batch per thread */
#define DOWNSAMPLE_THREADS_MAX    16u
#define CELLS_PER_PLACE           4u /* least cells per place of a table: clearing and merging it take time */
#define MAPPED_MAX                (UINT64_C(1) << 16) /* an axis of up to so many values has precomputed places */
#define NO_PLACE                  UINT32_MAX /* outside the axis */
#define NOWHERE                   UINT64_MAX /* outside the grid */
#define PLACES_MAX                ((uint64_t)NO_PLACE) /* on an axis */
#define DOWNSAMPLE_DEFAULT_MEMORY (UINT64_C(1) << 30)

typedef struct side_run { /* a run of a side, cut with the box */
  uint64_t low, high; /* keys */
  uint64_t coordinates[2]; /* of both; little-endian: their first bytes */
  uint32_t place;
} side_run;

typedef struct downsample_axis {
  uint32_t dimension;
  const tsr_field *field;
  uint64_t places;
  /* integers, datetimes and times */
  uint64_t low, last; /* the lowest key, and the distance of the highest from it */
  unsigned shift; /* makes (last >> shift) * places fit into 64 bits */
  uint32_t *map; /* [distance from low]: the place; or NULL */
  const tsr_downsample_side *side; /* NULL: places are equal parts */
  side_run *runs; /* [run_count], by rising keys; of a side */
  uint64_t run_count;
  /* floats */
  bool real;
  double from, reach; /* half of the low end, and half of the length: halves, so that the length is finite */
} downsample_axis;

typedef struct downsample_place {
  double sum;
  uint64_t count;
} downsample_place;

typedef struct drawing { /* the result; its means overwrite the places of the first table */
  tsr_downsample downsample;
  downsample_place places[];
} drawing;

typedef struct table { /* sums of one thread */
  downsample_place *places;
  double min, max; /* of finite values */
} table;

typedef struct painted { /* the attribute whose means are painted */
  const tsr_field *field;
  uint32_t number;
  tsr_physical_type type;
  uint32_t skip_count; /* how many of the next are used */
  uint8_t skips[2][8]; /* values that count as null: the fill value and NaT */
} painted;

typedef struct painter_batch { /* the current batch, and its columns */
  const tsr_batch *batch;
  const tsr_subtile *subtile; /* if the rows are cells of a dense tile: then columns of coordinates are not needed */
  tsr_column values, rows, columns;
  uint64_t parts; /* number of threads that share it */
} painter_batch;

typedef struct painter {
  tsr_reader *reader;
  tsr_memory memory;
  tsr_arena arena;
  painted painted;
  downsample_axis row, column;
  uint64_t place_count;
  drawing *drawing;
  uint64_t charged; /* bytes charged to `memory` for `drawing`, which is allocated elsewhere */
  unsigned table_max; /* how many tables the budget has room for */
  table tables[DOWNSAMPLE_THREADS_MAX];
  painter_batch now;
} painter;

/* ---- Places ------------------------------------------------------------------------------------------------------ */

/* Returns the place of a key among the runs of a side. */
static uint32_t place_in_runs(const downsample_axis *a, uint64_t key) {
  uint64_t low = 0, high = a->run_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (a->runs[middle].high < key) low = middle + 1;
    else high = middle;
  }
  return low < a->run_count && a->runs[low].low <= key ? a->runs[low].place : a->side->places;
}

static uint32_t place_of(const downsample_axis *a, uint64_t key) {
  const uint64_t distance = key - a->low;
  if (distance > a->last) return NO_PLACE;
  if (a->side && !a->map) return place_in_runs(a, key);
  return a->map ? a->map[distance] : (uint32_t)((distance >> a->shift) * a->places / ((a->last >> a->shift) + 1));
}

static uint32_t place_of_real(const downsample_axis *a, double value) {
  const double part = (value / 2 - a->from) / a->reach;
  if (!(part >= 0 && part <= 1)) return a->reach > 0 ? NO_PLACE : 0;
  const double at = part * (double)a->places;
  return at >= (double)a->places ? (uint32_t)(a->places - 1) : (uint32_t)at;
}

static double real_of(const downsample_axis *a, const void *value) {
  float narrow;
  double wide;
  if (a->field->cell_size == sizeof narrow) {
    memcpy(&narrow, value, sizeof narrow);
    return (double)narrow;
  }
  memcpy(&wide, value, sizeof wide);
  return wide;
}

/* Makes the map of an axis, if it is short. */
static int map_axis(painter *p, downsample_axis *a, tsr_error *error) {
  uint32_t *map;
  if (a->last >= MAPPED_MAX) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, a->last + 1, &map, error));
  for (uint64_t i = 0; i <= a->last; i++) map[i] = place_of(a, a->low + i);
  a->map = map;
  return TSR_OK;
}

static int open_axis(painter *p, uint32_t dimension, const tsr_interval *box, uint64_t places, downsample_axis *a,
                     tsr_error *error) {
  const tsr_schema *schema = p->reader->snapshot->schema;
  if (dimension >= schema->dimension_count || !schema->fields[dimension].cell_size)
    return tsr__fail(error, TSR_ERROR, "field %u is not a dimension of numbers", dimension);
  *a = (downsample_axis){.dimension = dimension, .field = &schema->fields[dimension]};
  const uint64_t low = tsr__key(a->field->datatype, box[dimension].low);
  const uint64_t high = tsr__key(a->field->datatype, box[dimension].high);
  if (!places || places > PLACES_MAX)
    return tsr__fail(error, TSR_RANGE, "dimension '%s': %llu places", a->field->name, (unsigned long long)places);
  if (low > high)
    return tsr__fail(error, TSR_RANGE, "dimension '%s': its low end is above its high end", a->field->name);
  a->places = places;
  if (tsr_datatype_kind(a->field->datatype) == TSR_KIND_FLOAT) {
    a->real = true;
    a->from = real_of(a, box[dimension].low) / 2;
    a->reach = real_of(a, box[dimension].high) / 2 - a->from;
    if (!isfinite(a->reach))
      return tsr__fail(error, TSR_RANGE, "dimension '%s': the box has no finite ends", a->field->name);
    return TSR_OK;
  }
  a->low = low;
  a->last = high - low;
  if (a->last < places) a->places = a->last + 1;
  uint64_t product;
  while ((a->last >> a->shift) == UINT64_MAX || !tsr__mul((a->last >> a->shift) + 1, a->places, &product)) a->shift++;
  return map_axis(p, a, error);
}

/* Finds the places on an axis of the rows from..from+count-1. */
static void find_places(const painter *p, const downsample_axis *a, const tsr_column *column, uint64_t from,
                        uint64_t count, uint32_t *places) {
  if (a->real) {
    for (uint64_t r = 0; r < count; r++) {
      const uint64_t i = p->now.batch->selection ? p->now.batch->selection[from + r] : p->now.batch->first + from + r;
      const uint8_t *value = (const uint8_t *)column->values + (column->constant ? 0 : i) * column->cell_size;
      places[r] = place_of_real(a, real_of(a, value));
    }
    return;
  }
  uint64_t keys[TSR_KEYS_MAX];
  tsr__batch_keys(p->now.batch, column, a->field->datatype, from, count, keys);
  for (uint64_t r = 0; r < count; r++)
    places[r] = r > 0 && keys[r] == keys[r - 1] ? places[r - 1] : place_of(a, keys[r]);
}

/* Returns the place, on an axis, of the cell at position `at` in the batch's tile. */
static uint32_t place_in_tile(const painter *p, const downsample_axis *a, uint64_t at) {
  const tsr_axis *axis = p->now.subtile->axes;
  while (axis->dimension != a->dimension) axis++;
  const uint64_t ordinal = axis->base + at / axis->stride % axis->extent;
  return place_of(a, p->reader->snapshot->grid.low_key[a->dimension] + ordinal);
}

/* Sets places[r] for `count` consecutive cells along axis `a`, from a key on. The other axis contributes the same
 * `fixed` to all of them; a step on `a` is `step` places. */
static void places_along(const downsample_axis *a, uint64_t key, uint64_t count, uint64_t step, uint64_t fixed,
                         uint64_t *places) {
  const uint64_t distance = key - a->low;
  if (fixed != NOWHERE && a->map && distance <= a->last && a->last - distance >= count - 1) {
    const uint32_t *map = a->map + distance;
    for (uint64_t i = 0; i < count; i++) places[i] = map[i] * step + fixed;
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    const uint32_t place = place_of(a, key + i);
    places[i] = place == NO_PLACE || fixed == NOWHERE ? NOWHERE : place * step + fixed;
  }
}

/* Returns how many of the rows from `row` on, at most `count`, are consecutive in the tile. */
static uint64_t rows_in_line(const tsr_batch *batch, uint64_t row, uint64_t count) {
  if (!batch->selection) return count;
  uint64_t n = 1;
  while (n < count && batch->selection[row + n] == batch->selection[row] + n) n++;
  return n;
}

/* Finds the places of cells of a dense tile. Consecutive cells differ only along the tile's fastest axis. */
static void find_places_of_tile(const painter *p, uint64_t from, uint64_t count, uint64_t *places) {
  const tsr_subtile *s = p->now.subtile;
  const tsr_axis *fast = &s->axes[s->dimensions - 1];
  const uint64_t width = p->column.places, low = p->reader->snapshot->grid.low_key[fast->dimension] + fast->base;
  for (uint64_t r = 0, n; r < count; r += n) {
    const uint64_t at = s->origin + tsr_batch_index(p->now.batch, from + r), key = low + at % fast->extent;
    n = rows_in_line(p->now.batch, from + r, TSR_MIN(count - r, fast->extent - at % fast->extent));
    const uint64_t row = place_in_tile(p, &p->row, at), column = place_in_tile(p, &p->column, at);
    if (fast->dimension == p->column.dimension)
      places_along(&p->column, key, n, 1, row == NO_PLACE ? NOWHERE : row * width, places + r);
    else if (fast->dimension == p->row.dimension)
      places_along(&p->row, key, n, width, column == NO_PLACE ? NOWHERE : column, places + r);
    else
      for (uint64_t i = 0; i < n; i++)
        places[r + i] = row == NO_PLACE || column == NO_PLACE ? NOWHERE : row * width + column;
  }
}

static void find_places_of_cells(const painter *p, uint64_t from, uint64_t count, uint64_t *places) {
  uint32_t rows[TSR_KEYS_MAX], columns[TSR_KEYS_MAX];
  find_places(p, &p->row, &p->now.rows, from, count, rows);
  find_places(p, &p->column, &p->now.columns, from, count, columns);
  for (uint64_t r = 0; r < count; r++)
    places[r] = rows[r] == NO_PLACE || columns[r] == NO_PLACE ? NOWHERE : rows[r] * p->column.places + columns[r];
}

/* ---- Sides ------------------------------------------------------------------------------------------------------- */

static int compare_runs(const void *a, const void *b) {
  const uint64_t x = ((const side_run *)a)->low, y = ((const side_run *)b)->low;
  return x < y ? -1 : x > y;
}

/* Keeps the runs of a side that the box has, in the order of their keys. */
static int cut_runs(painter *p, downsample_axis *a, const tsr_interval *box, tsr_error *error) {
  const tsr_downsample_side *side = a->side;
  const uint64_t low = tsr__key(a->field->datatype, box->low), high = tsr__key(a->field->datatype, box->high);
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, side->run_count, &a->runs, error));
  for (uint64_t i = 0; i < side->run_count; i++) {
    side_run run = {.place = side->runs[i].place};
    memcpy(&run.coordinates[0], &side->runs[i].low, 8);
    memcpy(&run.coordinates[1], &side->runs[i].high, 8);
    run.low = tsr__key(a->field->datatype, &run.coordinates[0]);
    run.high = tsr__key(a->field->datatype, &run.coordinates[1]);
    if (run.place >= side->places || run.low > run.high)
      return tsr__fail(error, TSR_RANGE, "dimension '%s': a side has wrong runs", a->field->name);
    if (run.low > high || run.high < low) continue;
    if (run.low < low) {
      run.low = low;
      memcpy(&run.coordinates[0], box->low, a->field->cell_size);
    }
    if (run.high > high) {
      run.high = high;
      memcpy(&run.coordinates[1], box->high, a->field->cell_size);
    }
    a->runs[a->run_count++] = run;
  }
  qsort(a->runs, a->run_count, sizeof *a->runs, compare_runs);
  for (uint64_t i = 1; i < a->run_count; i++)
    if (a->runs[i].low <= a->runs[i - 1].high)
      return tsr__fail(error, TSR_RANGE, "dimension '%s': runs of a side overlap", a->field->name);
  return TSR_OK;
}

/* Opens the axis of a side. */
static int open_side(painter *p, uint32_t dimension, const tsr_interval *box, const tsr_downsample_side *side,
                     downsample_axis *a, tsr_error *error) {
  const tsr_schema *schema = p->reader->snapshot->schema;
  if (dimension >= schema->dimension_count || !schema->fields[dimension].cell_size ||
      tsr_datatype_kind(schema->fields[dimension].datatype) == TSR_KIND_FLOAT)
    return tsr__fail(error, TSR_ERROR, "field %u is not a dimension of integers", dimension);
  *a = (downsample_axis){.dimension = dimension, .field = &schema->fields[dimension], .side = side};
  a->places = (uint64_t)side->places + 1;
  TSR_TRY(cut_runs(p, a, &box[dimension], error));
  if (!a->run_count) return TSR_OK;
  a->low = a->runs[0].low;
  a->last = a->runs[a->run_count - 1].high - a->low;
  return map_axis(p, a, error);
}

/* Reads the ranges of coordinates that the runs of a side have, neighbours together. */
static int read_runs(painter *p, const downsample_axis *a, tsr_ranges *ranges, tsr_error *error) {
  uint64_t count = 0;
  tsr_range *list;
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, a->run_count, &list, error));
  for (uint64_t i = 0; i < a->run_count; i++) {
    if (i > 0 && a->runs[i].low == a->runs[i - 1].high + 1) count--;
    else list[count].low = &a->runs[i].coordinates[0];
    list[count++].high = &a->runs[i].coordinates[1];
  }
  *ranges = (tsr_ranges){.ranges = list, .count = count};
  return TSR_OK;
}

static uint64_t side_from(const tsr_downsample_side *side, uint64_t pixel) { return pixel ? side->ends[pixel - 1] : 0; }

/* Makes the mean of a pixel from the places that it shows. Returns how many cells they have. */
static uint64_t make_pixel(const painter *p, uint64_t y, uint64_t x, double *mean) {
  const tsr_downsample_side *rows = p->row.side, *columns = p->column.side;
  const downsample_place *places = p->tables[0].places;
  downsample_place all = {0};
  for (uint64_t i = side_from(rows, y); i < rows->ends[y]; i++)
    for (uint64_t k = side_from(columns, x); k < columns->ends[x]; k++) {
      const downsample_place *place = &places[rows->shown[i] * p->column.places + columns->shown[k]];
      all.sum += place->sum;
      all.count += place->count;
    }
  *mean = all.sum / (double)(int64_t)all.count; /* 0 / 0 is NaN */
  return all.count;
}

/* Makes the means of the pixels, behind the places. */
static void make_pixels(painter *p) {
  tsr_downsample *downsample = &p->drawing->downsample;
  double *means = (double *)(void *)(p->drawing->places + p->place_count);
  downsample->height = p->row.side->pixels;
  downsample->width = p->column.side->pixels;
  downsample->means = means;
  for (uint64_t y = 0; y < downsample->height; y++)
    for (uint64_t x = 0; x < downsample->width; x++) {
      const uint64_t cells = make_pixel(p, y, x, means++);
      downsample->cells += cells;
      downsample->most = TSR_MAX(downsample->most, cells);
    }
}

/* ---- Cells of a batch -------------------------------------------------------------------------------------------- */

typedef struct stretch { /* some rows of a batch, with their places */
  const uint8_t *values, *validity; /* from index 0 on */
  const uint32_t *selection; /* the selection of these rows, or NULL */
  const uint64_t *places; /* [row]: place or NOWHERE */
  uint64_t first, count; /* without a selection, the index of the first row; number of rows */
  bool constant;
} stretch;

#define DEFINE_ADD(name, type)                                                                                         \
  static void add_##name(const painter *p, const stretch *s, table *t) {                                               \
    type skip = 0, skip2 = 0;                                                                                          \
    if (p->painted.skip_count > 0) memcpy(&skip, p->painted.skips[0], sizeof skip);                                    \
    if (p->painted.skip_count > 0) memcpy(&skip2, p->painted.skips[p->painted.skip_count - 1], sizeof skip2);          \
    const bool skips = p->painted.skip_count > 0;                                                                      \
    const uint32_t *selection = s->constant ? NULL : s->selection;                                                     \
    const uint64_t first = s->constant ? 0 : s->first, step = s->constant ? 0 : 1;                                     \
    double min = t->min, max = t->max;                                                                                 \
    for (uint64_t r = 0; r < s->count; r++) {                                                                          \
      const uint64_t i = selection ? selection[r] : first + r * step;                                                  \
      type v;                                                                                                          \
      if (s->places[r] == NOWHERE || (s->validity && !s->validity[i])) continue;                                       \
      memcpy(&v, s->values + i * sizeof v, sizeof v);                                                                  \
      if (v != v || (skips && (v == skip || v == skip2))) continue;                                                    \
      const double value = (double)v;                                                                                  \
      downsample_place *to = &t->places[s->places[r]];                                                                 \
      to->sum += value;                                                                                                \
      to->count++;                                                                                                     \
      if (value < min && value >= -DBL_MAX) min = value;                                                               \
      if (value > max && value <= DBL_MAX) max = value;                                                                \
    }                                                                                                                  \
    t->min = min;                                                                                                      \
    t->max = max;                                                                                                      \
  }
TSR_PHYSICAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

/* Adds `count` consecutive values: value i to the place map[i] in a row of places. */
#define DEFINE_ADD_LINE(name, type)                                                                                    \
  static void add_line_##name(const painter *p, const uint8_t *values, const uint8_t *validity, uint64_t count,        \
                              const uint32_t *map, downsample_place *places, table *t) {                               \
    type skip = 0, skip2 = 0;                                                                                          \
    if (p->painted.skip_count > 0) memcpy(&skip, p->painted.skips[0], sizeof skip);                                    \
    if (p->painted.skip_count > 0) memcpy(&skip2, p->painted.skips[p->painted.skip_count - 1], sizeof skip2);          \
    const bool skips = p->painted.skip_count > 0;                                                                      \
    double min = t->min, max = t->max;                                                                                 \
    for (uint64_t i = 0; i < count; i++) {                                                                             \
      type v;                                                                                                          \
      memcpy(&v, values + i * sizeof v, sizeof v);                                                                     \
      if ((validity && !validity[i]) || v != v || (skips && (v == skip || v == skip2))) continue;                      \
      const double value = (double)v;                                                                                  \
      places[map[i]].sum += value;                                                                                     \
      places[map[i]].count++;                                                                                          \
      if (value < min && value >= -DBL_MAX) min = value;                                                               \
      if (value > max && value <= DBL_MAX) max = value;                                                                \
    }                                                                                                                  \
    t->min = min;                                                                                                      \
    t->max = max;                                                                                                      \
  }
TSR_PHYSICAL_TYPES(DEFINE_ADD_LINE)
#undef DEFINE_ADD_LINE

static void add_stretch(const painter *p, const stretch *s, table *t) {
  switch (p->painted.type) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: add_##name(p, s, t); break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
}

/* Adds rows from `from` on that are neighbours in the tile along the horizontal dimension. Returns how many, at most
 * `count`; 0 if they cannot be added in this way. */
static uint64_t add_line(const painter *p, uint64_t from, uint64_t count, table *t) {
  const tsr_subtile *s = p->now.subtile;
  const downsample_axis *column = &p->column;
  if (!s || p->now.values.constant || !column->map) return 0;
  const tsr_axis *fast = &s->axes[s->dimensions - 1];
  if (fast->dimension != column->dimension) return 0;
  const uint64_t index = tsr_batch_index(p->now.batch, from), at = s->origin + index, value = at % fast->extent;
  const uint64_t key = p->reader->snapshot->grid.low_key[fast->dimension] + fast->base + value;
  const uint64_t n = rows_in_line(p->now.batch, from, TSR_MIN(count, fast->extent - value));
  const uint64_t distance = key - column->low;
  const uint32_t row = place_in_tile(p, &p->row, at);
  if (row == NO_PLACE || distance > column->last || column->last - distance < n - 1) return 0;
  const uint8_t *values = (const uint8_t *)p->now.values.values + index * p->painted.field->cell_size;
  const uint8_t *validity = p->now.values.validity ? p->now.values.validity + index : NULL;
  downsample_place *places = t->places + row * column->places;
  switch (p->painted.type) {
#define X(name, type)                                                                                                  \
  case TSR_PHYSICAL_##name: add_line_##name(p, values, validity, n, column->map + distance, places, t); break;
    TSR_PHYSICAL_TYPES(X)
#undef X
  }
  return n;
}

/* Adds one part of the batch, on a worker thread. */
static int add_part(void *argument, uint64_t part, tsr_error *error) {
  painter *p = argument;
  const uint64_t end = p->now.batch->count * (part + 1) / p->now.parts;
  uint64_t places[TSR_KEYS_MAX];
  table *t = &p->tables[part];
  (void)error;
  for (uint64_t n, from = p->now.batch->count * part / p->now.parts; from < end; from += n) {
    n = add_line(p, from, end - from, t);
    if (n) continue;
    n = TSR_MIN(end - from, TSR_KEYS_MAX);
    if (p->now.subtile) find_places_of_tile(p, from, n, places);
    else find_places_of_cells(p, from, n, places);
    const stretch s = {.values = p->now.values.values,
                       .validity = p->now.values.validity,
                       .selection = p->now.batch->selection ? p->now.batch->selection + from : NULL,
                       .places = places,
                       .first = p->now.batch->first + from,
                       .count = n,
                       .constant = p->now.values.constant};
    add_stretch(p, &s, t);
  }
  return TSR_OK;
}

/* Makes the result with the first table, whose places the means later overwrite. */
static int make_drawing(painter *p, tsr_error *error) {
  const uint64_t pixels = p->row.side ? (uint64_t)p->row.side->pixels * p->column.side->pixels : 0;
  const uint64_t size =
      tsr__add_sat(sizeof(drawing), tsr__add_sat(tsr__mul_sat(p->place_count, sizeof(downsample_place)),
                                                 tsr__mul_sat(pixels, sizeof(double))));
  TSR_TRY(tsr__memory_charge(&p->memory, size, error));
  p->charged = size;
  TSR_TRY(TSR_ALLOC_BYTES(&p->reader->snapshot->array->environment->memory, size, &p->drawing, error));
  p->tables[0] = (table){.places = p->drawing->places, .min = INFINITY, .max = -INFINITY};
  return TSR_OK;
}

static int make_table(painter *p, table *t, tsr_error *error) {
  downsample_place *memory;
  if (t->places) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, p->place_count, &memory, error));
  *t = (table){.places = memory, .min = INFINITY, .max = -INFINITY};
  return TSR_OK;
}

static int add_batch(painter *p, const tsr_batch *batch, tsr_error *error) {
  const tsr_column *column;
  if (!batch->written) return TSR_OK;
  p->now.batch = batch;
  TSR_TRY(tsr_reader_column(p->reader, p->painted.number, &column, error));
  p->now.values = *column;
  if (column->unwritten) return TSR_OK;
  tsr_batch_iterator *iterator = p->reader->iterator;
  p->now.subtile = iterator->subtile ? iterator->subtile(iterator) : NULL;
  if (!p->now.subtile) {
    TSR_TRY(tsr_reader_column(p->reader, p->row.dimension, &column, error));
    p->now.rows = *column;
    TSR_TRY(tsr_reader_column(p->reader, p->column.dimension, &column, error));
    p->now.columns = *column;
  }
  p->now.parts = TSR_MAX(1, TSR_MIN(TSR_MIN(p->reader->threads, p->table_max), batch->count / DOWNSAMPLE_PART_CELLS));
  for (uint64_t part = 0; part < p->now.parts; part++) TSR_TRY(make_table(p, &p->tables[part], error));
  return tsr__parallel_for(tsr__reader_threads(p->reader), p->now.parts, add_part, p, error);
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

static int choose_field(painter *p, const tsr_downsample_request *request, tsr_error *error) {
  const tsr_schema *schema = p->reader->snapshot->schema;
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  if (request->field < schema->dimension_count || request->field >= n)
    return tsr__fail(error, TSR_ERROR, "field %u is not an attribute", request->field);
  const tsr_field *field = &schema->fields[request->field];
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (field->values_per_cell != 1 || kind == TSR_KIND_TEXT || kind == TSR_KIND_BYTES)
    return tsr__fail(error, TSR_ERROR, "'%s' has no single number in a cell", field->name);
  p->painted.field = field;
  p->painted.number = request->field;
  p->painted.type = tsr__datatype_physical(field->datatype);
  if (request->skip_fill && field->fill)
    memcpy(p->painted.skips[p->painted.skip_count++], field->fill, field->cell_size);
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME)
    tsr__store64(p->painted.skips[p->painted.skip_count++], UINT64_C(1) << 63);
  return TSR_OK;
}

/* Starts to read. Returns 1; 0 if there is nothing to read. */
static int downsample_start(painter *p, const tsr_downsample_request *request, tsr_error *error) {
  const tsr_schema *schema = p->reader->snapshot->schema;
  const uint32_t n = schema->dimension_count;
  tsr_range *range;
  tsr_ranges *ranges;
  TSR_TRY(choose_field(p, request, error));
  if (request->rows) {
    TSR_TRY(open_side(p, request->row, request->box, request->rows, &p->row, error));
    TSR_TRY(open_side(p, request->column, request->box, request->columns, &p->column, error));
  } else {
    TSR_TRY(open_axis(p, request->row, request->box, request->height, &p->row, error));
    TSR_TRY(open_axis(p, request->column, request->box, request->width, &p->column, error));
  }
  p->place_count = tsr__mul_sat(p->row.places, p->column.places);
  TSR_TRY(make_drawing(p, error));
  const uint64_t left = p->memory.limit - TSR_MIN(p->memory.limit, p->memory.used);
  p->table_max = (unsigned)TSR_MIN(DOWNSAMPLE_THREADS_MAX, 1 + left / 2 / (p->place_count * sizeof(downsample_place)));
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, n, &range, error));
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, n, &ranges, error));
  for (uint32_t d = 0; d < n; d++) {
    const tsr_interval *box = &request->box[d];
    const bool text = !schema->fields[d].cell_size;
    range[d] = (tsr_range){.low = text ? (const void *)box->low_text : box->low,
                           .high = text ? (const void *)box->high_text : box->high,
                           .low_size = box->low_size,
                           .high_size = box->high_size};
    ranges[d] = (tsr_ranges){.ranges = &range[d], .count = 1};
  }
  if (request->rows) {
    TSR_TRY(read_runs(p, &p->row, &ranges[request->row], error));
    TSR_TRY(read_runs(p, &p->column, &ranges[request->column], error));
    if (!p->row.run_count || !p->column.run_count) return TSR_OK; /* no cell is to be read */
  }
  bool *fields;
  TSR_TRY(TSR_ARENA_ARRAY(&p->arena, n + schema->attribute_count, &fields, error));
  fields[request->field] = fields[request->row] = fields[request->column] = true;
  const tsr_request reading = {
      .dimensions = ranges, .fields = fields, .memory_bytes = p->memory.limit, .threads = request->threads};
  TSR_TRY(tsr_reader_start(p->reader, &reading, error));
  return 1;
}

static int paint(painter *p, const tsr_downsample_request *request, tsr_error *error) {
  const tsr_batch *batch;
  int rc;
  if ((rc = downsample_start(p, request, error)) <= 0) return rc;
  const uint64_t cells = tsr__reader_cells(p->reader);
  p->table_max = (unsigned)TSR_MIN(p->table_max, 1 + cells / CELLS_PER_PLACE / p->place_count);
  tsr__work_more(p->reader->snapshot->array->environment, cells);
  while ((rc = tsr_reader_next(p->reader, &batch, error)) > 0) {
    TSR_TRY(add_batch(p, batch, error));
    tsr_work_done(p->reader->snapshot->array->environment, batch->count);
  }
  return rc;
}

/* Merges the tables of all threads into the first one, and computes the means in place: mean k is written after place k
 * has been read, and overlaps no later place. */
static void downsample_finish(painter *p) {
  tsr_downsample *downsample = &p->drawing->downsample;
  double *means = (double *)(void *)p->drawing->places;
  const table *first = &p->tables[0];
  *downsample = (tsr_downsample){
      .height = p->row.places, .width = p->column.places, .means = means, .min = first->min, .max = first->max};
  for (unsigned i = 1; i < DOWNSAMPLE_THREADS_MAX && p->tables[i].places; i++) {
    downsample->min = TSR_MIN(downsample->min, p->tables[i].min);
    downsample->max = TSR_MAX(downsample->max, p->tables[i].max);
    for (uint64_t k = 0; k < p->place_count; k++) {
      first->places[k].sum += p->tables[i].places[k].sum;
      first->places[k].count += p->tables[i].places[k].count;
    }
  }
  if (p->row.side) {
    make_pixels(p);
    return;
  }
  for (uint64_t k = 0; k < p->place_count; k++) {
    const downsample_place from = first->places[k];
    means[k] = from.sum / (double)(int64_t)from.count; /* 0 / 0 is NaN */
    downsample->cells += from.count;
    downsample->most = TSR_MAX(downsample->most, from.count);
  }
}

int tsr_downsample_open(tsr_snapshot *snapshot, const tsr_downsample_request *request, tsr_downsample **downsample,
                        tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_downsample_request own;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_downsample_request, threads, request, &own, error));
  request = &own;
  painter p = {0};
  const uint64_t budget = request->memory_bytes ? request->memory_bytes : DOWNSAMPLE_DEFAULT_MEMORY;
  tsr__memory_init(&p.memory, &snapshot->array->environment->memory, budget / 2,
                   "memory_mb"); /* the reader has the other half */
  tsr__arena_init(&p.arena, &p.memory);
  tsr_work work;
  tsr_work_begin(snapshot->array->environment, &work, "draw", snapshot->array->path, 0);
  const tsr_reader_mode mode = {.written_only = true};
  int rc = tsr__reader_open_as(snapshot, &snapshot->array->memory, &mode, &p.reader, error);
  if (rc >= 0) rc = paint(&p, request, error);
  tsr_work_end(snapshot->array->environment, &work);
  if (rc >= 0) {
    downsample_finish(&p);
    *downsample = &p.drawing->downsample;
  } else {
    tsr__free(p.drawing);
  }
  tsr_reader_close(p.reader);
  tsr__arena_release(&p.arena);
  tsr__memory_release(&p.memory, p.charged);
  return rc < 0 ? rc : TSR_OK;
}

void tsr_downsample_close(tsr_downsample *downsample) { tsr__free(downsample); }
