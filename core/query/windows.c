/* windows.c: windows of a query: for each cell, an aggregate over a box of cells around it (tsr_window).
 *
 * The query is divided into units, boxes of whole tiles of about NEAR_CELLS cells, or of up to UNIT_CELLS if tiles are
 * large or frames long; fewer if memory is short. For a unit, a query of cells of its own reads the arguments of all
 * windows, in the unit and in what the frames reach around it, into dense arrays. Passes along the axes (passes.c), or
 * over listed offsets (offsets.c), turn these into arrays of results. Then the query reads the unit's cells as always,
 * and finds the results by the cells' places.
 *
 * A result depends on the frame's values and its cut, and cuts on the whole axis: not on units, threads or slices. The
 * cells at offsets are added in the order of the list.
 *
 * Sections: checks; units; operands; places; results; the units one by one.
 */
#include "query/query.h"

#include <math.h>
#include <string.h>

#include "base/arithmetic.h"
#include "model/datatype.h"

#define UNIT_CELLS (UINT64_C(1) << 20)
#define NEAR_CELLS (UINT64_C(1) << 16) /* whose arrays stay in a cache: units of whole tiles may be as small */
#define UNIT_SHARE 4 /* a unit takes at most 1 / UNIT_SHARE of the query's memory */

struct query_operand { /* an argument with its filter */
  const tsr_expression *argument, *filter; /* NULL: none */
  uint32_t argument_at, filter_at; /* columns of the query that reads them */
  tsr_value_type type;
  void *values; /* by cell of the unit's box; NULL: no argument */
  uint8_t *known; /* TSR_KNOWN_VALUE and so on; NULL: no window asks */
  tsr_pass_values found;
  bool asked; /* some window asks for `known`: all but aggregates of REAL, whose null is NaN */
};

struct window_result {
  uint32_t operand;
  void *values;
  uint8_t *valid; /* NULL: of REAL */
};

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static bool has_coordinates(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && field->datatype != TSR_UINT64 &&
         (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME);
}

/* Reads a coordinate from a value in its datatype. */
static int64_t coordinate_of(const tsr_field *field, const void *value) {
  return (int64_t)tsr__query_value_of_key(field->datatype, tsr__key(field->datatype, value));
}

/* Writes a coordinate in its datatype. */
static void store_coordinate(const tsr_field *field, int64_t coordinate, uint8_t *bytes) {
  memcpy(bytes, &coordinate, tsr_datatype_size(field->datatype)); /* little-endian */
}

tsr_value_type tsr_window_type(tsr_aggregate_function function, tsr_value_type argument) {
  return tsr__pass_type(function, argument);
}

static int check_axis(const tsr_query_run *run, const tsr_window_axis *axis, tsr_error *error) {
  if (axis->dimension >= run->schema->dimension_count)
    return tsr__fail(error, TSR_ERROR, "a window along dimension %u, which does not exist", axis->dimension);
  for (uint64_t i = 0; i < axis->count; i++) {
    const tsr_window_frame *f = &axis->frames[i], *before = i ? f - 1 : f;
    const bool within = f->first > f->last || (f->first >= 0 && (uint64_t)f->last < axis->count);
    if (!within || f->first < before->first || f->last < before->last)
      return tsr__fail(error, TSR_ERROR, "a window's frames along dimension %u do not ascend within the axis",
                       axis->dimension);
  }
  return TSR_OK;
}

static int check_kernel(const tsr_query_run *run, const tsr_window *window, tsr_error *error) {
  const tsr_window_kernel *kernel = window->kernel;
  bool fits = window->axis_count == 0 && kernel->count <= TSR_KERNEL_OFFSETS;
  for (uint64_t i = 0; fits && i < kernel->count * run->schema->dimension_count; i++)
    fits = kernel->offsets[i] >= -(INT64_C(1) << 31) && kernel->offsets[i] <= INT64_C(1) << 31;
  return fits ? TSR_OK
              : tsr__fail(error, TSR_ERROR, "a window's kernel has axes, more than %u offsets, or an offset above 2^31",
                          TSR_KERNEL_OFFSETS);
}

static int check_dimensions(const tsr_query_run *run, tsr_error *error) {
  for (uint32_t d = 0; d < run->schema->dimension_count; d++)
    if (!has_coordinates(&run->schema->fields[d]))
      return tsr__fail(error, TSR_UNSUPPORTED, "windows of an array with the dimension %s, which has no integers",
                       run->schema->fields[d].name);
  return TSR_OK;
}

static int check_windows(const tsr_query_run *run, const tsr_query_windows *windows, tsr_error *error) {
  if (windows->count > TSR_QUERY_WINDOWS)
    return tsr__fail(error, TSR_TOOBIG, "a query has at most %u windows", TSR_QUERY_WINDOWS);
  if (run->query.boxes) return tsr__fail(error, TSR_UNSUPPORTED, "windows in a query with boxes");
  if (!run->schema->dense && run->schema->allows_duplicates)
    return tsr__fail(error, TSR_UNSUPPORTED, "windows of an array with duplicates");
  TSR_TRY(check_dimensions(run, error));
  for (uint32_t w = 0; w < windows->count; w++) {
    const tsr_window *window = windows->list[w];
    if (window->number != w) return tsr__fail(error, TSR_ERROR, "window %u has another number", w);
    for (uint32_t a = 0; a < window->axis_count; a++) TSR_TRY(check_axis(run, &window->axes[a], error));
    if (window->kernel) TSR_TRY(check_kernel(run, window, error));
  }
  return TSR_OK;
}

/* ---- Units ------------------------------------------------------------------------------------------------------- */

/* Narrows low..high to the hull of ranges. Returns false if nothing is left. */
static bool narrow(const tsr_field *field, const tsr_ranges *ranges, int64_t *low, int64_t *high) {
  for (; ranges; ranges = ranges->also) {
    if (ranges->all) continue;
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (uint64_t i = 0; i < ranges->count; i++) {
      const tsr_range *r = &ranges->ranges[i];
      const int64_t a = r->low ? coordinate_of(field, r->low) : *low,
                    b = r->high ? coordinate_of(field, r->high) : *high;
      if (a > b) continue;
      first = TSR_MIN(first, a);
      last = TSR_MAX(last, b);
    }
    *low = TSR_MAX(*low, first);
    *high = TSR_MIN(*high, last);
  }
  return *low <= *high;
}

/* Finds what the query reads, and what windows may reach. Returns 1; 0 if that is nothing. */
static int find_bounds(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  const tsr_interval *domain = NULL;
  const int rc = tsr_snapshot_non_empty_domain(run->snapshot, &domain, error);
  if (rc <= 0) return rc;
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    const tsr_field *field = &run->snapshot->schema->fields[d];
    query_unit_axis *axis = &w->axes[d];
    axis->low = axis->least = coordinate_of(field, domain[d].low);
    axis->high = axis->most = coordinate_of(field, domain[d].high);
    if (run->query.dimensions && !narrow(field, &run->query.dimensions[d], &axis->low, &axis->high)) return 0;
    if (w->given->dimensions && !narrow(field, &w->given->dimensions[d], &axis->least, &axis->most)) return 0;
    if (!narrow(field, &(tsr_ranges){.all = true}, &axis->low, &axis->high)) return 0;
    axis->low = TSR_MAX(axis->low, axis->least);
    axis->high = TSR_MIN(axis->high, axis->most);
    if (axis->low > axis->high) return 0;
  }
  return 1;
}

/* Widens begin..end by the frames of the coordinates from..to. */
static void widen(const tsr_window_axis *given, query_unit_axis *axis, int64_t from, int64_t to) {
  if (given->count == 0) return;
  from = TSR_MAX(from, given->low);
  to = TSR_MIN(to, (int64_t)((uint64_t)given->low + given->count - 1)); /* the axis may end at INT64_MAX */
  if (from > to) return;
  const uint64_t end = (uint64_t)to - (uint64_t)given->low;
  for (uint64_t i = (uint64_t)from - (uint64_t)given->low; i <= end; i++) {
    const tsr_window_frame *frame = &given->frames[i];
    if (frame->first > frame->last) continue;
    axis->begin = TSR_MIN(axis->begin, given->low + frame->first);
    axis->end = TSR_MAX(axis->end, given->low + frame->last);
  }
}

static int64_t add_offset(int64_t coordinate, int64_t offset) {
  int64_t sum;
  return __builtin_add_overflow(coordinate, offset, &sum) ? (offset < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* Finds the least and the greatest offset of a kernel along a dimension, or 0. */
static void ends_of_kernel(const tsr_query_run *run, const tsr_window_kernel *kernel, uint32_t d, int64_t ends[2]) {
  ends[0] = ends[1] = 0;
  for (uint64_t k = 0; kernel && k < kernel->count; k++) {
    const int64_t offset = kernel->offsets[k * run->schema->dimension_count + d];
    ends[0] = TSR_MIN(ends[0], offset);
    ends[1] = TSR_MAX(ends[1], offset);
  }
}

/* Sets begin..end of an axis for its unit from..to. */
static void reach(const tsr_query_run *run, uint32_t d, query_unit_axis *axis) {
  const tsr_query_windows *given = run->windows.given;
  axis->begin = axis->from;
  axis->end = axis->to;
  for (uint32_t w = 0; w < given->count; w++) {
    int64_t ends[2];
    ends_of_kernel(run, given->list[w]->kernel, d, ends);
    axis->begin = TSR_MIN(axis->begin, add_offset(axis->from, ends[0]));
    axis->end = TSR_MAX(axis->end, add_offset(axis->to, ends[1]));
    for (uint32_t a = 0; a < given->list[w]->axis_count; a++)
      if (given->list[w]->axes[a].dimension == d) widen(&given->list[w]->axes[a], axis, axis->from, axis->to);
  }
  axis->begin = TSR_MAX(axis->begin, axis->least);
  axis->end = TSR_MIN(axis->end, axis->most);
}

/* Returns how far frames reach beyond a unit in both directions together, at most. */
static uint64_t farthest(const tsr_query_run *run, uint32_t d) {
  const tsr_query_windows *given = run->windows.given;
  uint64_t before = 0, behind = 0;
  for (uint32_t w = 0; w < given->count; w++) {
    int64_t ends[2];
    ends_of_kernel(run, given->list[w]->kernel, d, ends);
    before = TSR_MAX(before, (uint64_t)-ends[0]);
    behind = TSR_MAX(behind, (uint64_t)ends[1]);
    for (uint32_t a = 0; a < given->list[w]->axis_count; a++) {
      const tsr_window_axis *axis = &given->list[w]->axes[a];
      for (uint64_t i = 0; i < axis->count && axis->dimension == d; i++) {
        const tsr_window_frame *frame = &axis->frames[i];
        if (frame->first > frame->last) continue;
        if (frame->first < (int64_t)i) before = TSR_MAX(before, i - (uint64_t)frame->first);
        if (frame->last > (int64_t)i) behind = TSR_MAX(behind, (uint64_t)frame->last - i);
      }
    }
  }
  return before + behind;
}

static uint64_t size_of_type(tsr_value_type type) {
  return type == TSR_VALUE_TEXT ? sizeof(tsr_text_value) : sizeof(uint64_t);
}

/* Returns the bytes that the arrays take for each cell. */
static uint64_t bytes_of_cell(const tsr_query_run *run) {
  const query_windows *w = &run->windows;
  uint64_t bytes = 0, partial = 0;
  for (uint32_t o = 0; o < w->operand_count; o++) bytes += size_of_type(w->operands[o].type) + 1;
  for (uint32_t i = 0; i < w->given->count; i++) {
    bytes += size_of_type(w->given->list[i]->type) + 1;
    if (w->given->list[i]->axis_count > 1) partial = 2 * TSR_PASS_PARTS * sizeof(uint64_t);
    else if (w->given->list[i]->kernel) partial = TSR_MAX(partial, sizeof(double)); /* integers as doubles */
  }
  return bytes + partial + sizeof(tsr_frame); /* a line may be the whole box */
}

static uint64_t span_of(const query_unit_axis *axis) { return (uint64_t)axis->high - (uint64_t)axis->low + 1; }

static uint64_t cells_of_unit(const query_windows *w, uint32_t dimensions, const uint64_t *reach_of) {
  uint64_t cells = 1;
  for (uint32_t d = 0; d < dimensions; d++) {
    const uint64_t most = (uint64_t)w->axes[d].most - (uint64_t)w->axes[d].least + 1;
    cells = tsr__mul_sat(cells, TSR_MIN(tsr__add_sat(w->axes[d].extent, reach_of[d]), most));
  }
  return cells;
}

/* Returns the dimension along which to halve units, or `dimensions` if there is none: first those without frames, tile
 * by tile; then those whose frames are shorter than their extent by `times`. */
static uint32_t choose_halved(const tsr_query_run *run, const uint64_t *reach_of, uint32_t round, uint64_t times) {
  const uint32_t dimensions = run->schema->dimension_count;
  const tsr_grid *grid = &run->snapshot->grid;
  uint32_t best = dimensions;
  uint64_t most = 1;
  for (uint32_t d = 0; d < dimensions; d++) {
    const uint64_t extent = run->windows.axes[d].extent, tile = run->schema->dense ? grid->extent[d] : 1;
    const bool framed = reach_of[d] > 0;
    const bool may = round == 0   ? !framed && extent > tile
                     : round == 1 ? framed && extent > tile && extent >= times * reach_of[d]
                     : round == 2 ? !framed && extent > 1
                                  : framed && extent > 1;
    const uint64_t worth = round < 2 ? (extent + tile - 1) / tile : extent;
    if (may && worth > most) best = d, most = worth;
    if (may && round >= 2) break; /* the rows of a tile stay whole for longest */
  }
  return best;
}

/* If `rc` is TSR_BUDGET, says what to do. Returns rc. */
static int fail_memory(const tsr_query_run *run, int rc, tsr_error *error) {
  const uint64_t mib = 2 * run->memory.limit >> 20;
  if (rc != TSR_BUDGET) return rc;
  return tsr__fail(error, TSR_BUDGET,
                   "the frames of the windows do not fit into memory_mb (%llu): shorter frames, or memory_mb=%llu",
                   (unsigned long long)mib, (unsigned long long)TSR_MAX(1, 2 * mib));
}

/* Chooses the extents of units. */
static int choose_units(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  const uint32_t dimensions = run->schema->dimension_count;
  const uint64_t bytes = bytes_of_cell(run);
  const uint64_t fit = run->memory.limit / UNIT_SHARE / bytes, most = TSR_MIN(TSR_MAX(fit, 1), UNIT_CELLS);
  uint64_t *reach_of;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, dimensions, &reach_of, error));
  for (uint32_t d = 0; d < dimensions; d++) {
    w->axes[d].extent = span_of(&w->axes[d]);
    reach_of[d] = farthest(run, d);
  }
  for (uint32_t round = 0; round < 4;) {
    const uint64_t cells = cells_of_unit(w, dimensions, reach_of);
    if (cells <= (round < 2 ? TSR_MIN(most, NEAR_CELLS) : most)) break;
    const uint32_t d = choose_halved(run, reach_of, round, cells <= most ? 64 : 8);
    if (d == dimensions) {
      round++;
      continue;
    }
    const uint64_t tile = round < 2 && run->schema->dense ? run->snapshot->grid.extent[d] : 1;
    w->axes[d].extent = ((w->axes[d].extent + tile - 1) / tile + 1) / 2 * tile;
    round = 0;
  }
  for (uint32_t d = 0; d < dimensions; d++) { /* units begin where tiles do */
    query_unit_axis *axis = &w->axes[d];
    const tsr_datatype datatype = run->snapshot->schema->fields[d].datatype;
    axis->origin = axis->low;
    if (axis->extent < span_of(axis) && run->schema->dense)
      axis->origin = (int64_t)tsr__query_value_of_key(datatype, run->snapshot->grid.low_key[d]);
  }
  const uint64_t cells = cells_of_unit(w, dimensions, reach_of);
  if (cells <= TSR_MAX(fit, 1) && cells < UINT32_MAX) return TSR_OK;
  return fail_memory(run, TSR_BUDGET, error);
}

/* Fails if the boxes of a sparse array have far more places than cells. */
static int check_sparse(const tsr_query_run *run, tsr_error *error) {
  const query_windows *w = &run->windows;
  uint64_t places = 1;
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) places = tsr__mul_sat(places, span_of(&w->axes[d]));
  if (run->schema->dense || places <= 64 * UNIT_CELLS) return TSR_OK;
  return tsr__fail(error, TSR_TOOBIG, "windows over a sparse array with %llu coordinates", (unsigned long long)places);
}

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static bool same_expression(const tsr_expression *a, const tsr_expression *b) {
  return a && b ? tsr__expressions_equal(a, b) : a == b;
}

/* Finds the operand of each window, and the type of its argument. */
static int find_operands(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, w->given->count, &w->operands, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, w->given->count, &w->results, error));
  for (uint32_t i = 0; i < w->given->count; i++) {
    const tsr_window *window = w->given->list[i];
    const tsr_expression *argument = window->has_argument ? &window->argument : NULL;
    const tsr_expression *filter = window->has_filter ? &window->filter : NULL;
    uint32_t o = 0;
    while (o < w->operand_count &&
           !(same_expression(w->operands[o].argument, argument) && same_expression(w->operands[o].filter, filter)))
      o++;
    w->results[i].operand = o;
    query_operand *operand = &w->operands[o];
    if (o == w->operand_count) {
      w->operand_count++;
      *operand = (query_operand){.argument = argument, .filter = filter, .type = TSR_VALUE_NULL};
      if (argument) {
        tsr_value_type *types;
        tsr_expression_fault fault;
        uint32_t node;
        TSR_TRY(TSR_ARENA_ARRAY(&run->arena, argument->count, &types, error));
        TSR_TRY(tsr_expression_types(run->schema, argument, types, &node, &fault, error));
        operand->type = types[argument->count - 1];
      }
    }
    const tsr_pass pass = {.function = window->function, .type = operand->type};
    operand->asked |= operand->type != TSR_VALUE_REAL || tsr__pass_parts(&pass) == 0;
    const tsr_value_type weight = window->kernel ? window->kernel->type : TSR_VALUE_NULL;
    if (window->type == TSR_VALUE_OPAQUE ||
        tsr_window_type(window->function, tsr__pass_product(operand->type, weight)) != window->type)
      return tsr__fail(error, TSR_MISMATCH, "a window's function does not take its argument");
  }
  return TSR_OK;
}

/* ---- Places ------------------------------------------------------------------------------------------------------ */

static uint64_t place_on(const query_unit_axis *axis, int64_t coordinate) {
  return ((uint64_t)coordinate - (uint64_t)axis->begin) * axis->stride;
}

/* Adds rows that follow those before, and whose cells are neighbours from `first` on. */
static void add_run(tsr_cell_runs *places, uint64_t first, uint32_t count) {
  const uint32_t n = places->count, from = n > 1 ? places->ends[n - 2] : 0, end = n > 0 ? places->ends[n - 1] : 0;
  if (n > 0 && first == (uint64_t)places->firsts[n - 1] + (end - from)) {
    places->ends[n - 1] += count;
    return;
  }
  places->firsts[n] = (uint32_t)first;
  places->ends[n] = end + count;
  places->count++;
}

/* The places of rows of a tile: they run along its fastest axis. */
static void places_of_subtile(const tsr_query_run *run, const query_unit_axis *axes, const query_rows *rows,
                              tsr_cell_runs *places) {
  const tsr_subtile *subtile = run->input.subtile;
  const tsr_grid *grid = &run->snapshot->grid;
  const tsr_axis *fast = &subtile->axes[subtile->dimensions - 1];
  const uint64_t step = axes[fast->dimension].stride;
  uint64_t run_from = 0, run_end = 0, run_place = 0; /* cells of the tile in one run, and the place of the first */
  for (uint32_t r = 0, n = 1; r < rows->count; r += n) {
    const uint64_t cell = subtile->origin + (rows->cells ? rows->cells[r] : rows->first + r);
    if (cell < run_from || cell >= run_end) {
      run_place = 0;
      for (uint32_t a = 0; a < subtile->dimensions; a++) {
        const tsr_axis *axis = &subtile->axes[a];
        const uint64_t at = a + 1 == subtile->dimensions ? 0 : cell / axis->stride % axis->extent;
        const uint64_t key = grid->low_key[axis->dimension] + axis->base + at;
        const tsr_datatype datatype = run->snapshot->schema->fields[axis->dimension].datatype;
        run_place += place_on(&axes[axis->dimension], (int64_t)tsr__query_value_of_key(datatype, key));
      }
      run_from = cell / fast->extent * fast->extent;
      run_end = run_from + fast->extent;
    }
    if (!rows->cells && step == 1) n = (uint32_t)TSR_MIN(run_end - cell, rows->count - r);
    add_run(places, run_place + (cell - run_from) * step, n);
  }
}

static int64_t load_coordinate(const tsr_column *column, uint64_t i, bool is_signed) {
  const uint8_t *value = (const uint8_t *)column->values + (column->constant ? 0 : i) * column->cell_size;
  switch (column->cell_size) {
  case 1: return is_signed ? (int64_t)(int8_t)*value : (int64_t)*value;
  case 2: return is_signed ? (int64_t)(int16_t)tsr__load16(value) : (int64_t)tsr__load16(value);
  case 4: return is_signed ? (int64_t)(int32_t)tsr__load32(value) : (int64_t)tsr__load32(value);
  default: return (int64_t)tsr__load64(value);
  }
}

void tsr__query_find_places(const tsr_query_run *run, const query_unit_axis *axes, const query_rows *rows,
                            tsr_cell_runs *places) {
  places->count = 0;
  if (run->input.subtile) {
    places_of_subtile(run, axes, rows, places);
    return;
  }
  for (uint32_t r = 0; r < rows->count; r++) {
    uint64_t place = 0;
    for (uint32_t d = 0; d < run->snapshot->schema->dimension_count; d++) {
      const bool is_signed = tsr_datatype_kind(run->snapshot->schema->fields[d].datatype) != TSR_KIND_UNSIGNED;
      const uint64_t cell = rows->cells ? rows->cells[r] : rows->first + r;
      place += place_on(&axes[d], load_coordinate(&run->input.columns[d].column, cell, is_signed));
    }
    add_run(places, place, 1);
  }
}

void tsr__query_windows_point(query_part *part, const query_rows *rows) {
  const tsr_query_run *run = part->run;
  const query_windows *w = &run->windows;
  tsr__query_find_places(run, w->axes, rows, part->places);
  for (uint32_t i = 0; i < w->given->count; i++) {
    tsr_block_input *input = &part->inputs[run->input.field_count + 1 + i];
    input->column = (tsr_column){.values = w->results[i].values, .validity = w->results[i].valid};
    input->places = part->places;
  }
}

int tsr__query_grid_make(tsr_query_run *run, tsr_error *error) {
  TSR_TRY(check_dimensions(run, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->schema->dimension_count, &run->grid, error));
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) {
    run->grid[d].begin = run->query.grid->lows[d];
    run->grid[d].stride = run->query.grid->strides[d];
  }
  return TSR_OK;
}

/* ---- Reading operands -------------------------------------------------------------------------------------------- */

typedef struct operand_reader { /* one query that reads the operands of a unit */
  query_windows *windows;
  tsr_query_run *run;
} operand_reader;

/* Returns true if a value of a filter is true. */
static bool is_true(const tsr_vector *v, uint32_t r) {
  const uint32_t i = v->constant ? 0 : r;
  if (v->type == TSR_VALUE_NULL || (v->nulls && v->nulls[i])) return false;
  if (v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER) return v->as.reals[i] < 0 || v->as.reals[i] > 0;
  return v->as.integers[i] != 0;
}

static int put_texts(query_windows *w, const query_operand *o, const tsr_vector *v, uint32_t from, uint64_t first,
                     uint32_t count, tsr_error *error) {
  tsr_text_value *values = (tsr_text_value *)o->values + first;
  for (uint32_t r = 0; r < count; r++) {
    const uint32_t i = v->constant ? 0 : from + r;
    char *copy;
    if (v->nulls && v->nulls[i]) continue;
    TSR_TRY(TSR_ARENA_COPY(&w->texts, v->as.texts[i].bytes, v->as.texts[i].size, &copy, error));
    values[r] = (tsr_text_value){copy, v->as.texts[i].size};
  }
  return TSR_OK;
}

/* Writes the values of the rows from..from+count-1 of a block to places from `first` on. */
static int put_operand(query_windows *w, const query_operand *o, const tsr_vector *vectors, uint32_t from,
                       uint64_t first, uint32_t count, tsr_error *error) {
  const tsr_vector *v = o->argument ? &vectors[o->argument_at] : NULL,
                   *filter = o->filter ? &vectors[o->filter_at] : NULL;
  const bool real = v && (v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER);
  uint8_t *known = o->known ? o->known + first : NULL;
  if (v && v->type == TSR_VALUE_TEXT) {
    TSR_TRY(put_texts(w, o, v, from, first, count, error));
  } else if (v && v->type != TSR_VALUE_NULL) {
    uint64_t *values = (uint64_t *)o->values + first;
    if (!v->constant) memcpy(values, v->as.unsigned_integers + from, count * sizeof *values);
    for (uint32_t r = 0; r < count && v->constant; r++) values[r] = v->as.unsigned_integers[0];
  }
  for (uint32_t r = 0; r < count && known; r++) {
    const uint32_t i = v && v->constant ? 0 : from + r;
    const bool null =
        v && (v->type == TSR_VALUE_NULL || (v->nulls && v->nulls[i]) || (real && v->as.reals[i] != v->as.reals[i]));
    known[r] = null ? TSR_KNOWN_NULL : TSR_KNOWN_VALUE;
  }
  for (uint32_t r = 0; r < count && filter; r++) {
    if (is_true(filter, from + r)) continue;
    if (known) known[r] = TSR_KNOWN_NULL;
    if (real) ((double *)o->values)[first + r] = NAN;
  }
  return TSR_OK;
}

static int put_block(const operand_reader *reader, query_part *part, const query_rows *block, tsr_error *error) {
  query_windows *w = reader->windows;
  tsr_cell_runs *places = part->places;
  query_rows rows;
  TSR_TRY(tsr__query_select(part, block, &rows, error));
  if (rows.count == 0) return TSR_OK;
  TSR_TRY(tsr__query_evaluate(part, &rows, error));
  tsr__query_find_places(reader->run, w->axes, &rows, places);
  for (uint32_t i = 0, from = 0; i < places->count; from = places->ends[i++])
    for (uint32_t o = 0; o < w->operand_count; o++)
      TSR_TRY(put_operand(w, &w->operands[o], part->vectors, from, places->firsts[i], places->ends[i] - from, error));
  return TSR_OK;
}

static int put_part(void *argument, uint64_t index, tsr_error *error) {
  query_part *part = ((query_part **)argument)[index];
  const tsr_query_run *run = part->run;
  const operand_reader *reader = run->habits.reader;
  const tsr_batch *batch = run->input.batch;
  for (uint64_t at = part->from, n; at < part->end; at += n) {
    n = TSR_MIN(part->end - at, QUERY_BLOCK);
    const query_rows block = {.cells = batch->selection ? batch->selection + at : NULL,
                              .first = batch->selection ? 0 : batch->first + at,
                              .count = (uint32_t)n};
    TSR_TRY(put_block(reader, part, &block, error));
  }
  return TSR_OK;
}

/* Marks all cells of the arrays as missing. */
static void clear_operands(const query_windows *w, uint64_t cells) {
  for (uint32_t o = 0; o < w->operand_count; o++) {
    const query_operand *operand = &w->operands[o];
    if (operand->known) memset(operand->known, TSR_KNOWN_MISSING, cells);
    for (uint64_t c = 0; c < cells && operand->type == TSR_VALUE_REAL; c++) ((double *)operand->values)[c] = NAN;
    if (operand->type != TSR_VALUE_REAL && operand->values)
      memset(operand->values, 0, cells * size_of_type(operand->type));
  }
}

static int read_batches(const operand_reader *reader, tsr_error *error) {
  tsr_query_run *run = reader->run;
  int rc;
  while ((rc = tsr__query_next_batch(run, error)) > 0) {
    TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
    TSR_TRY(tsr__query_each_part(run, put_part, error));
    tsr__count(run->snapshot->array->environment, TSR_COUNT_cells_around, run->input.batch->count);
  }
  return rc;
}

/* Reads the operands of the unit. */
static int read_operands(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  tsr_expression *columns;
  operand_reader reader = {.windows = w};
  uint32_t count = 0;
  bool texts = false;
  TSR_TRY(TSR_ALLOC_ARRAY(&run->memory, 2 * (uint64_t)w->operand_count + 1, &columns, error));
  for (uint32_t o = 0; o < w->operand_count; o++) {
    query_operand *operand = &w->operands[o];
    texts |= operand->type == TSR_VALUE_TEXT;
    if (operand->argument) operand->argument_at = count, columns[count++] = *operand->argument;
    if (operand->filter) operand->filter_at = count, columns[count++] = *operand->filter;
  }
  const tsr_query query = {.dimensions = w->around,
                           .has_where = w->given->has_where,
                           .where = w->given->where,
                           .fill_unwritten = run->query.fill_unwritten,
                           .column_count = count,
                           .columns = columns,
                           .memory_bytes = run->memory.limit,
                           .threads = texts ? 1 : run->query.threads};
  int rc = tsr__query_cells_start(run->snapshot, &query, &reader.run, error);
  if (rc >= 0) {
    reader.run->habits.reader = &reader;
    rc = read_batches(&reader, error);
  }
  if (reader.run && rc < 0) {
    run->fault = reader.run->fault;
    for (uint32_t o = 0; o < w->operand_count; o++) { /* faults are about the query's own expressions */
      const query_operand *operand = &w->operands[o];
      if (operand->argument && run->fault.expression == &columns[operand->argument_at])
        run->fault.expression = operand->argument;
      if (operand->filter && run->fault.expression == &columns[operand->filter_at])
        run->fault.expression = operand->filter;
    }
  }
  tsr_query_close(reader.run);
  tsr__free(columns);
  return rc;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Makes the axis's lines in the box, with its frames. */
static int lines_of(const tsr_query_run *run, uint32_t window, uint32_t a, tsr_lines *lines, tsr_frame **frames,
                    tsr_error *error) {
  const query_windows *w = &run->windows;
  const tsr_window_axis *given = &w->given->list[window]->axes[a];
  const query_unit_axis *axis = &w->axes[given->dimension];
  const int64_t *cuts = w->cuts[window][a];
  *lines = (tsr_lines){.outer = 1, .count = (uint64_t)axis->end - (uint64_t)axis->begin + 1, .inner = axis->stride};
  for (uint32_t d = 0; d < given->dimension; d++)
    lines->outer *= (uint64_t)w->axes[d].end - (uint64_t)w->axes[d].begin + 1;
  lines->from = (uint64_t)axis->from - (uint64_t)axis->begin;
  lines->to = (uint64_t)axis->to - (uint64_t)axis->begin + 1;
  TSR_TRY(TSR_ALLOC_RAW((tsr_memory *)(uintptr_t)&run->memory, lines->count, frames, error));
  for (uint64_t i = lines->from; i < lines->to; i++) {
    const uint64_t at = (uint64_t)axis->begin + i - (uint64_t)given->low;
    tsr_frame frame = {.first = 1, .last = 0};
    if (at < given->count) {
      const int64_t shift = (int64_t)((uint64_t)given->low - (uint64_t)axis->begin);
      frame = (tsr_frame){.first = given->frames[at].first + shift,
                          .last = given->frames[at].last + shift,
                          .cut = cuts[at] == INT64_MIN ? 0 : cuts[at] + shift};
      frame.first = TSR_MAX(frame.first, 0);
      frame.last = TSR_MIN(frame.last, (int64_t)lines->count - 1);
      frame.cut = TSR_MIN(TSR_MAX(frame.cut, frame.first + 1), frame.last + 1);
    }
    (*frames)[i] = frame;
  }
  lines->frames = *frames;
  return TSR_OK;
}

static int run_pass(const tsr_query_run *run, uint32_t window, uint32_t a, tsr_pass *pass, tsr_error *error) {
  tsr_lines lines;
  tsr_frame *frames;
  TSR_TRY(lines_of(run, window, a, &lines, &frames, error));
  const int rc = tsr__pass_run(pass, &lines, run->query.threads ? run->query.threads : run->snapshot->array->threads,
                               (tsr_memory *)(uintptr_t)&run->memory, error);
  tsr__free(frames);
  return rc;
}

/* Computes a window over several axes: a pass for each. */
static int run_passes(const tsr_query_run *run, uint32_t window, tsr_pass *pass, uint64_t cells, tsr_error *error) {
  const uint32_t axes = run->windows.given->list[window]->axis_count, parts = tsr__pass_parts(pass);
  uint64_t *words = NULL;
  if (parts == 0) return tsr__fail(error, TSR_UNSUPPORTED, "this function over several dimensions");
  TSR_TRY(TSR_ALLOC_ARRAY((tsr_memory *)(uintptr_t)&run->memory, 2 * parts * cells, &words, error));
  int rc = TSR_OK;
  for (uint32_t a = 0; a < axes && rc >= 0; a++) {
    pass->first = a == 0;
    pass->last = a + 1 == axes;
    for (uint32_t p = 0; p < parts; p++) {
      pass->partial[p] = words + (a % 2 * parts + p) * cells;
      pass->made[p] = words + ((a + 1) % 2 * parts + p) * cells;
    }
    rc = run_pass(run, window, a, pass, error);
  }
  tsr__free(words);
  return rc;
}

/* Computes a window over listed offsets. */
static int run_offsets(const tsr_query_run *run, const tsr_window_kernel *kernel, tsr_pass *pass, tsr_error *error) {
  const uint32_t dimensions = run->schema->dimension_count;
  const tsr_value_type argument = pass->type;
  uint64_t *ends;
  TSR_TRY(TSR_ALLOC_RAW((tsr_memory *)(uintptr_t)&run->memory, 3 * (uint64_t)dimensions, &ends, error));
  const tsr_offsets offsets = {.dimensions = dimensions,
                               .extents = ends,
                               .from = ends + dimensions,
                               .to = ends + 2 * (uint64_t)dimensions,
                               .kernel = kernel};
  for (uint32_t d = 0; d < dimensions; d++) {
    const query_unit_axis *axis = &run->windows.axes[d];
    ends[d] = (uint64_t)axis->end - (uint64_t)axis->begin + 1;
    ends[dimensions + d] = (uint64_t)axis->from - (uint64_t)axis->begin;
    ends[2 * dimensions + d] = (uint64_t)axis->to - (uint64_t)axis->begin + 1;
  }
  pass->type = tsr__pass_product(argument, kernel->type);
  const int rc = tsr__pass_offsets(pass, argument, &offsets,
                                   run->query.threads ? run->query.threads : run->snapshot->array->threads,
                                   (tsr_memory *)(uintptr_t)&run->memory, error);
  tsr__free(ends);
  return rc;
}

static int make_result(const tsr_query_run *run, uint32_t window, uint64_t cells, tsr_error *error) {
  const tsr_window *given = run->windows.given->list[window];
  const window_result *result = &run->windows.results[window];
  query_operand *operand = &run->windows.operands[result->operand];
  tsr_pass pass = {.function = given->function,
                   .type = operand->type,
                   .percent = given->percent,
                   .nth = given->nth,
                   .from_end = given->from_end,
                   .values = operand->values,
                   .known = operand->known,
                   .found = &operand->found,
                   .first = true,
                   .last = true,
                   .results = result->values,
                   .valid = result->valid};
  if (given->kernel) return run_offsets(run, given->kernel, &pass, error);
  if (run->windows.lists[window].count) return run_offsets(run, &run->windows.lists[window], &pass, error);
  return given->axis_count == 1 ? run_pass(run, window, 0, &pass, error) : run_passes(run, window, &pass, cells, error);
}

/* ---- The units one by one ---------------------------------------------------------------------------------------- */

static void free_arrays(query_windows *w) {
  for (uint32_t o = 0; o < w->operand_count; o++) {
    tsr__free(w->operands[o].values);
    tsr__free(w->operands[o].known);
    w->operands[o].values = NULL;
    w->operands[o].known = NULL;
    w->operands[o].found.measured = false;
  }
  for (uint32_t i = 0; w->results && i < w->given->count; i++) {
    tsr__free(w->results[i].values);
    tsr__free(w->results[i].valid);
    w->results[i].values = NULL;
    w->results[i].valid = NULL;
  }
}

/* Returns true if the query of the operands gives every cell of the box: a dense array, without conditions. */
static bool reads_all(const tsr_query_run *run) {
  const tsr_query_windows *given = run->windows.given;
  bool all = run->schema->dense && !given->has_where;
  for (uint32_t d = 0; d < run->schema->dimension_count && given->dimensions; d++)
    all &= given->dimensions[d].all && !given->dimensions[d].also;
  for (uint32_t o = 0; o < run->windows.operand_count; o++) all &= run->windows.operands[o].type != TSR_VALUE_TEXT;
  return all;
}

static int take_operands(tsr_query_run *run, uint64_t cells, tsr_error *error) {
  query_windows *w = &run->windows;
  for (uint32_t o = 0; o < w->operand_count; o++) {
    query_operand *operand = &w->operands[o];
    uint64_t *words;
    const uint64_t per_cell = size_of_type(operand->type) / sizeof *words;
    if (operand->argument) {
      TSR_TRY(TSR_ALLOC_RAW(&run->memory, tsr__mul_sat(cells, per_cell), &words, error));
      operand->values = words;
    }
    if (operand->asked) TSR_TRY(TSR_ALLOC_RAW(&run->memory, cells, &operand->known, error));
  }
  if (!reads_all(run)) clear_operands(w, cells);
  return TSR_OK;
}

static int take_results(tsr_query_run *run, uint64_t cells, tsr_error *error) {
  query_windows *w = &run->windows;
  for (uint32_t i = 0; i < w->given->count; i++) {
    const tsr_value_type type = w->given->list[i]->type;
    if (type == TSR_VALUE_TEXT) {
      tsr_text_value *texts;
      TSR_TRY(TSR_ALLOC_ARRAY(&run->memory, cells, &texts, error));
      w->results[i].values = texts;
    } else {
      uint64_t *words;
      TSR_TRY(TSR_ALLOC_RAW(&run->memory, cells, &words, error));
      w->results[i].values = words;
    }
    if (type != TSR_VALUE_REAL) TSR_TRY(TSR_ALLOC_ARRAY(&run->memory, cells, &w->results[i].valid, error));
  }
  return TSR_OK;
}

/* Moves to the next unit. Returns false after the last one. */
static bool step_unit(query_windows *w, uint32_t dimensions) {
  uint32_t d = dimensions;
  if (w->started)
    while (d-- > 0) {
      query_unit_axis *axis = &w->axes[d];
      if (axis->to < axis->high) {
        axis->from = axis->to + 1;
        break;
      }
      axis->from = axis->low;
      if (d == 0) return false;
    }
  for (d = 0; d < dimensions; d++) {
    query_unit_axis *axis = &w->axes[d];
    if (!w->started) axis->from = axis->low;
    const uint64_t within = ((uint64_t)axis->from - (uint64_t)axis->origin) % axis->extent;
    const uint64_t left = TSR_MIN(axis->extent - within - 1, (uint64_t)axis->high - (uint64_t)axis->from);
    axis->to = (int64_t)((uint64_t)axis->from + left);
  }
  w->started = true;
  return true;
}

/* Sets the ranges of the unit, and the strides of its box. Returns the number of its cells. */
static uint64_t place_unit(tsr_query_run *run) {
  query_windows *w = &run->windows;
  uint64_t cells = 1;
  for (uint32_t d = run->schema->dimension_count; d-- > 0;) {
    query_unit_axis *axis = &w->axes[d];
    const tsr_field *field = &run->snapshot->schema->fields[d];
    reach(run, d, axis);
    axis->stride = cells;
    cells *= (uint64_t)axis->end - (uint64_t)axis->begin + 1;
    const int64_t ends[4] = {axis->from, axis->to, axis->begin, axis->end};
    for (int i = 0; i < 4; i++) store_coordinate(field, ends[i], axis->bytes[i]);
    axis->range = (tsr_range){.low = axis->bytes[0], .high = axis->bytes[1]};
    axis->reach = (tsr_range){.low = axis->bytes[2], .high = axis->bytes[3]};
    w->read[d] = (tsr_ranges){.ranges = &axis->range, .count = 1};
    w->around[d] = (tsr_ranges){.ranges = &axis->reach, .count = 1};
    if (run->query.dimensions) w->read[d].also = &run->query.dimensions[d];
    if (w->given->dimensions) w->around[d].also = &w->given->dimensions[d];
  }
  return cells;
}

static int compute_unit(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  free_arrays(w);
  tsr__arena_reset(&w->texts);
  const uint64_t cells = place_unit(run);
  TSR_TRY(take_operands(run, cells, error));
  TSR_TRY(read_operands(run, error));
  TSR_TRY(take_results(run, cells, error));
  for (uint32_t i = 0; i < w->given->count; i++) {
    TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
    const int rc = make_result(run, i, cells, error);
    const tsr_expression *argument = &w->given->list[i]->argument;
    if (rc < 0 && argument->count > 0) run->fault = (query_fault){argument, argument->count - 1};
    if (rc < 0) return rc;
  }
  return TSR_OK;
}

int tsr__query_windows_next(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  if (w->ended || !step_unit(w, run->schema->dimension_count)) {
    w->ended = true;
    return 0;
  }
  TSR_TRY(fail_memory(run, compute_unit(run, error), error));
  return 1;
}

static int make_cuts(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, w->given->count, &w->cuts, error));
  for (uint32_t i = 0; i < w->given->count; i++) {
    const tsr_window *window = w->given->list[i];
    TSR_TRY(TSR_ARENA_ARRAY(&run->arena, window->axis_count, &w->cuts[i], error));
    for (uint32_t a = 0; a < window->axis_count; a++) {
      const tsr_window_axis *axis = &window->axes[a];
      TSR_TRY(TSR_ARENA_RAW(&run->arena, axis->count, &w->cuts[i][a], error));
      tsr__frames_cut(axis->frames, axis->count, w->cuts[i][a]);
    }
  }
  return TSR_OK;
}

/* Finds the offsets low..high of an axis whose frames are all those, cut at its ends: an end that is cut in all frames
 * is as far away as cells are. low > high: all frames are empty. Returns false if the frames are not of this kind. */
static bool ends_of_frames(const tsr_window_axis *axis, int64_t ends[2]) {
  const tsr_window_frame *frames = axis->frames;
  const int64_t n = (int64_t)axis->count;
  ends[0] = 1 - n;
  ends[1] = n - 1;
  for (int64_t i = 0; i < n; i++) {
    if (frames[i].first > 0) ends[0] = frames[i].first - i;
    if (frames[i].last < n - 1) ends[1] = frames[i].last - i;
  }
  for (int64_t i = 0; i < n; i++)
    if (frames[i].first != TSR_MAX(i + ends[0], 0) || frames[i].last != TSR_MIN(i + ends[1], n - 1)) return false;
  return n > 0;
}

#define LISTED_CELLS 64 /* of a box that is added cell by cell: passes along axes cost as much */

/* Sums and extremes over small boxes are made cell by cell, and all medians: lists their offsets. */
static int list_box(tsr_query_run *run, uint32_t number, tsr_error *error) {
  const tsr_window *window = run->windows.given->list[number];
  const uint32_t dimensions = run->schema->dimension_count;
  const tsr_aggregate_function function = window->function;
  int64_t(*ends)[2], *offsets;
  uint64_t cells = 1;
  const tsr_value_type type = run->windows.operands[run->windows.results[number].operand].type;
  const bool sum = function == TSR_AGGREGATE_SUM || function == TSR_AGGREGATE_TOTAL || function == TSR_AGGREGATE_AVG;
  const bool extreme = function == TSR_AGGREGATE_MIN || function == TSR_AGGREGATE_MAX;
  const bool listed = function == TSR_AGGREGATE_MEDIAN || function == TSR_AGGREGATE_PERCENTILE;
  const bool whole = type == TSR_VALUE_INTEGER, real = type == TSR_VALUE_REAL;
  if (window->axis_count < 2 || !(((sum || listed) && whole) || ((sum || listed || extreme) && real))) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, dimensions, &ends, error));
  for (uint32_t a = 0; a < window->axis_count; a++) {
    int64_t *of = ends[window->axes[a].dimension];
    if (!ends_of_frames(&window->axes[a], of) || (of[0] > of[1] && !listed)) return TSR_OK;
    if (of[0] > of[1]) of[0] = of[1] = (int64_t)window->axes[a].count; /* of no cell: one that is outside */
    cells = tsr__mul_sat(cells, (uint64_t)(of[1] - of[0]) + 1);
  }
  if (cells > (listed ? TSR_KERNEL_OFFSETS : LISTED_CELLS)) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, cells * dimensions, &offsets, error));
  for (uint64_t c = 0; c < cells; c++) {
    uint64_t left = c;
    for (uint32_t d = dimensions; d-- > 0;) {
      const uint64_t extent = (uint64_t)(ends[d][1] - ends[d][0]) + 1;
      offsets[c * dimensions + d] = ends[d][0] + (int64_t)(left % extent);
      left /= extent;
    }
  }
  run->windows.lists[number] = (tsr_window_kernel){.count = cells, .offsets = offsets, .type = TSR_VALUE_NULL};
  return TSR_OK;
}

static int list_boxes(tsr_query_run *run, tsr_error *error) {
  const uint32_t count = run->windows.given->count;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &run->windows.lists, error));
  for (uint32_t i = 0; i < count; i++) TSR_TRY(list_box(run, i, error));
  return TSR_OK;
}

/* Without cells, the query reads an empty range. */
static void read_nothing(tsr_query_run *run) {
  query_windows *w = &run->windows;
  w->ended = true;
  for (uint32_t d = 0; d < run->schema->dimension_count; d++) w->read[d] = (tsr_ranges){0};
}

int tsr__query_windows_make(tsr_query_run *run, tsr_error *error) {
  query_windows *w = &run->windows;
  const uint32_t dimensions = run->schema->dimension_count;
  TSR_TRY(check_windows(run, run->query.windows, error));
  tsr__arena_init(&w->texts, &run->memory);
  w->given = run->query.windows;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, dimensions, &w->axes, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, dimensions, &w->read, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, dimensions, &w->around, error));
  TSR_TRY(find_operands(run, error));
  TSR_TRY(fail_memory(run, make_cuts(run, error), error));
  TSR_TRY(fail_memory(run, list_boxes(run, error), error));
  const int any = find_bounds(run, error);
  if (any < 0) return any;
  if (any == 0) {
    read_nothing(run);
    return TSR_OK;
  }
  TSR_TRY(check_sparse(run, error));
  return choose_units(run, error);
}

void tsr__query_windows_release(tsr_query_run *run) {
  if (!run->windows.given) return;
  free_arrays(&run->windows);
  tsr__arena_release(&run->windows.texts);
}
