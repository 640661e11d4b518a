/* query.c: runs a columnar query over a snapshot (tessera_query.h): plans it, feeds it with batches, gives the results.
 *
 * * Planning numbers the distinct expressions of keys, aggregates and columns, which become one program; merges
 * aggregates with equal arguments and filters into measures; and lays out the words of a group's record. A query of
 * groups then reads all batches (batch.c), sorts its groups by their keys, and keeps the records for
 * tsr_query_aggregate_value. A query of cells reads one batch at a time, in tsr_query_next.
 *
 * * If a coordinate turns out to lie outside the grid of groups that was planned, the query runs again without that
 * grid.
 *
 * * Sections: what is collected; expressions of the query; reading; queries of groups; queries of cells; opening;
 * results. */
#include "query/query.h"

#include <string.h>

#include "base/arithmetic.h"
#include "base/options.h"
#include "base/sort.h"
#include "model/datatype.h"
#include "environment/environment.h"
#include "query/program.h"
#include "read/reader.h"
#include "array/array.h"

#define QUERY_MEMORY (UINT64_C(1) << 30)
#define ALL_ROWS     UINT32_MAX /* in measure_of: the aggregate counts rows */

/* ---- What a query or one of its parts has collected -------------------------------------------------------------- */

int tsr__collected_groups_make(collected_groups *collected, uint32_t measures, tsr_memory *memory, tsr_arena *arena,
                               tsr_error *error) {
  tsr__texts_init(&collected->texts, memory, arena);
  tsr__texts_init(&collected->values, memory, arena);
  collected->records.memory = memory;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, measures, &collected->pairs, error));
  TSR_TRY(TSR_ALLOC_ARRAY(memory, measures, &collected->lists, error));
  collected->measure_count = measures;
  for (uint32_t m = 0; m < measures; m++) {
    tsr__groups_init(&collected->pairs[m], 2, memory);
    collected->lists[m].memory = memory;
  }
  return TSR_OK;
}

void tsr__collected_groups_clear(collected_groups *collected) {
  tsr__groups_clear(&collected->groups);
  tsr__texts_clear(&collected->texts);
  tsr__texts_clear(&collected->values);
  for (uint32_t m = 0; m < collected->measure_count; m++) {
    tsr__groups_clear(&collected->pairs[m]);
    collected->lists[m].size = 0;
  }
  collected->records.size = 0;
}

void tsr__collected_groups_release(collected_groups *collected) {
  for (uint32_t m = 0; m < collected->measure_count; m++) {
    tsr__groups_release(&collected->pairs[m]);
    tsr__buffer_release(&collected->lists[m]);
  }
  tsr__groups_release(&collected->groups);
  tsr__texts_release(&collected->texts);
  tsr__texts_release(&collected->values);
  tsr__buffer_release(&collected->records);
  tsr__free(collected->pairs);
  tsr__free(collected->lists);
}

/* ---- Expressions of the query ------------------------------------------------------------------------------------ */

static bool gives_groups(const tsr_query_run *run) {
  return run->query.key_count > 0 || run->query.aggregate_count > 0;
}

/* Returns the number of an expression in the query's program; equal expressions share one. */
static uint32_t number_expression(tsr_query_run *run, const tsr_expression *expression) {
  for (uint32_t e = 0; e < run->expressions.count; e++)
    if (tsr__expressions_equal(run->expressions.list[e], expression)) return e;
  run->expressions.list[run->expressions.count] = expression;
  return run->expressions.count++;
}

/* Sets in *need what a measure must keep for an aggregate. */
static int set_needs(const tsr_query_aggregate *aggregate, tsr_measure *need, tsr_error *error) {
  switch (aggregate->function) {
  case TSR_AGGREGATE_COUNT: break;
  case TSR_AGGREGATE_SUM:
  case TSR_AGGREGATE_TOTAL:
  case TSR_AGGREGATE_AVG: need->sum = true; break;
  case TSR_AGGREGATE_MIN:
  case TSR_AGGREGATE_MAX: need->ends = true; break;
  case TSR_AGGREGATE_STDDEV:
  case TSR_AGGREGATE_VARIANCE: need->moments = true; break;
  case TSR_AGGREGATE_MEDIAN:
  case TSR_AGGREGATE_PERCENTILE: need->list = true; break;
  default: return tsr__fail(error, TSR_UNSUPPORTED, "this aggregate is not known");
  }
  need->distinct = aggregate->distinct && !need->ends; /* the extremes of distinct values are those of all values */
  return TSR_OK;
}

static int check_measure(const tsr_measure *m, tsr_error *error) {
  const bool numbers = m->type == TSR_VALUE_INTEGER || m->type == TSR_VALUE_REAL || m->type == TSR_VALUE_NUMBER ||
                       m->type == TSR_VALUE_NULL || m->type == TSR_VALUE_UNSIGNED;
  if ((m->sum || m->moments || m->list) && !numbers)
    return tsr__fail(error, TSR_MISMATCH, "an aggregate of numbers has another argument");
  if (m->ends && m->type == TSR_VALUE_OPAQUE) return tsr__fail(error, TSR_MISMATCH, "the argument has no order");
  return TSR_OK;
}

/* Finds or makes the measure of an aggregate. Aggregates with equal arguments and filters share a measure. */
static int plan_aggregate(tsr_query_run *run, uint32_t a, tsr_error *error) {
  const tsr_query_aggregate *aggregate = &run->query.aggregates[a];
  tsr_measure need = {.type = TSR_VALUE_NULL};
  uint32_t m = 0;
  if (aggregate->function == TSR_AGGREGATE_AT) {
    if (!aggregate->has_argument || aggregate->has_filter || aggregate->distinct)
      return tsr__fail(error, TSR_ERROR, "the value of a row has an argument and nothing else");
    run->extremes.value_of[a] = number_expression(run, &aggregate->argument);
    return TSR_OK;
  }
  TSR_TRY(set_needs(aggregate, &need, error));
  const uint32_t argument = aggregate->has_argument ? number_expression(run, &aggregate->argument) : QUERY_NONE;
  const uint32_t filter = aggregate->has_filter ? number_expression(run, &aggregate->filter) : QUERY_NONE;
  run->layout.measure_of[a] = ALL_ROWS;
  if (argument == QUERY_NONE && filter == QUERY_NONE) return TSR_OK;
  while (m < run->layout.measure_count &&
         (run->layout.measures[m].measure.distinct != need.distinct || run->layout.measures[m].argument != argument ||
          run->layout.measures[m].filter != filter))
    m++;
  query_measure *made = &run->layout.measures[m];
  run->layout.measure_of[a] = m;
  if (m == run->layout.measure_count) *made = (query_measure){.argument = argument, .filter = filter};
  run->layout.measure_count = TSR_MAX(run->layout.measure_count, m + 1);
  made->measure.type = TSR_VALUE_NULL;
  made->measure.distinct = need.distinct;
  made->measure.sum |= need.sum;
  made->measure.ends |= need.ends;
  made->measure.moments |= need.moments;
  made->measure.list |= need.list;
  return TSR_OK;
}

/* Adds the coordinates to the expressions: they break ties between rows with equal extremes. Those of datetimes are the
 * stored integers, which sort alike: an instant out of the range of SQL's text is no error here, since none is
 * shown. */
static int plan_coordinates(tsr_query_run *run, tsr_error *error) {
  const uint32_t count = run->schema->dimension_count;
  tsr_node *nodes;
  tsr_expression *fields;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &run->extremes.coordinates, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &nodes, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &fields, error));
  for (uint32_t d = 0; d < count; d++) {
    nodes[d] = (tsr_node){.operation = TSR_OP_FIELD, .field = d, .as_integer = true};
    fields[d] = (tsr_expression){.nodes = &nodes[d], .count = 1};
    run->extremes.coordinates[d] = number_expression(run, &fields[d]);
  }
  return TSR_OK;
}

/* Prepares key k. Returns true if it needs no expression: its numbers are given, or it is an integer dimension, or a
 * column of the rows that cells are paired with. */
static bool plan_key(tsr_query_run *run, uint32_t k) {
  const tsr_query_key *given = &run->query.keys[k];
  const tsr_node *node = given->expression.nodes;
  query_key *key = &run->grouping.keys[k];
  *key = (query_key){.field = given->field, .type = TSR_VALUE_INTEGER};
  if (given->numbers) return true;
  if (run->query.boxes && given->expression.count == 2 && node[0].operation == TSR_OP_ROW &&
      node[1].operation == TSR_OP_LOOKUP && node[1].list->type != TSR_VALUE_NULL &&
      node[1].list->type != TSR_VALUE_NUMBER) {
    key->column = node[1].list;
    key->type = key->column->type;
    key->field = run->input.field_count;
    return true;
  }
  if (given->expression.count != 1 || node->operation != TSR_OP_FIELD) return false;
  key->field = node->field;
  if (node->field >= run->schema->dimension_count) return false;
  const tsr_kind kind = tsr_datatype_kind(run->schema->fields[node->field].datatype);
  key->plain = kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED;
  if (run->schema->fields[node->field].datatype == TSR_UINT64) key->type = TSR_VALUE_UNSIGNED;
  return key->plain;
}

static int plan_expressions(tsr_query_run *run, tsr_error *error) {
  const tsr_query *query = &run->query;
  const uint64_t most =
      (uint64_t)query->key_count + 2 * query->aggregate_count + query->column_count + run->schema->dimension_count;
  if (query->key_count > TSR_QUERY_KEYS || query->aggregate_count > TSR_QUERY_AGGREGATES ||
      query->column_count > TSR_QUERY_COLUMNS)
    return tsr__fail(error, TSR_TOOBIG, "a query has at most %u keys, %u aggregates and %u columns", TSR_QUERY_KEYS,
                     TSR_QUERY_AGGREGATES, TSR_QUERY_COLUMNS);
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, most, &run->expressions.list, error));
  for (uint32_t k = 0; k < query->key_count; k++)
    run->grouping.keys[k].value = plan_key(run, k) ? QUERY_NONE : number_expression(run, &query->keys[k].expression);
  for (uint32_t a = 0; a < query->aggregate_count; a++) TSR_TRY(plan_aggregate(run, a, error));
  for (uint32_t a = 0; a < query->aggregate_count && !run->extremes.coordinates; a++)
    if (query->aggregates[a].function == TSR_AGGREGATE_AT) TSR_TRY(plan_coordinates(run, error));
  for (uint32_t c = 0; c < query->column_count && !gives_groups(run); c++)
    run->expressions.list[run->expressions.count++] = &query->columns[c];
  const tsr_expression *where = &query->where;
  const tsr_schema *schema = run->schema;
  if (query->has_where) TSR_TRY(tsr__program_make(schema, &where, 1, &run->arena, &run->expressions.where, error));
  if (run->expressions.count > 0)
    TSR_TRY(tsr__program_make(schema, run->expressions.list, run->expressions.count, &run->arena,
                              &run->expressions.program, error));
  if (run->expressions.where) tsr__program_fields(run->expressions.where, run->input.evaluated);
  if (run->expressions.program) tsr__program_fields(run->expressions.program, run->input.evaluated);
  memcpy(run->input.fields, run->input.evaluated, run->input.field_count * sizeof *run->input.fields);
  return TSR_OK;
}

/* Lays out the record of a group: determines the type of each measure, and which words of the record it gets. */
static int lay_out_record(tsr_query_run *run, tsr_error *error) {
  run->layout.words = 1;
  run->layout.straight = true;
  for (uint32_t m = 0; m < run->layout.measure_count; m++) {
    tsr_measure *measure = &run->layout.measures[m].measure;
    if (run->layout.measures[m].argument != QUERY_NONE) {
      measure->type = tsr__program_type(run->expressions.program, run->layout.measures[m].argument);
      TSR_TRY(check_measure(measure, error));
    }
    run->layout.words = tsr__measure_place(measure, run->layout.words);
    run->layout.straight &= !measure->list && !measure->distinct && !(measure->ends && measure->type == TSR_VALUE_TEXT);
  }
  TSR_TRY(tsr__query_extremes_make(run, error));
  run->layout.doubt_at = run->habits.stored_reals ? run->layout.words++ : QUERY_NO_WORD;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->layout.words, &run->layout.blank, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->layout.words, &run->layout.known, error));
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    tsr__measure_init(&run->layout.measures[m].measure, run->layout.blank);
  return tsr__collected_groups_make(&run->collected, run->layout.measure_count, &run->memory, &run->arena, error);
}

static int plan_keys(tsr_query_run *run, tsr_error *error) {
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    query_key *key = &run->grouping.keys[k];
    if (key->value == QUERY_NONE) {
      if (key->field < run->input.field_count) run->input.fields[key->field] = true;
      continue;
    }
    key->type = tsr__program_type(run->expressions.program, key->value);
    if (key->type == TSR_VALUE_OPAQUE || key->type == TSR_VALUE_NUMBER)
      return tsr__fail(error, TSR_MISMATCH, "key %u has values that cannot be compared", k);
  }
  return TSR_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Finds out which cells of the current batch may satisfy the WHERE. Returns false if none does. */
static bool any_needed(tsr_query_run *run) {
  const tsr_batch *batch = run->input.batch;
  tsr_batch_iterator *iterator = run->input.reader->iterator;
  query_input *input = &run->input;
  input->needed = NULL;
  if (!input->reader->mode.skips || !iterator->needed) return true;
  input->needed = iterator->needed(iterator, &input->needed_origin);
  if (!input->needed) return true;
  for (uint64_t r = 0; batch->selection && r < batch->count; r++)
    if (input->needed[(input->needed_origin + batch->selection[r]) / TSR_NEEDED_CELLS] == TSR_NEEDED_PASS) return true;
  if (batch->selection) return false;
  const uint64_t first = input->needed_origin + batch->first, last = first + batch->count - 1;
  return memchr(input->needed + first / TSR_NEEDED_CELLS, TSR_NEEDED_PASS,
                last / TSR_NEEDED_CELLS - first / TSR_NEEDED_CELLS + 1) != NULL;
}

/* Reads on to the next batch with a cell that may satisfy the WHERE. */
static int next_needed(tsr_query_run *run, tsr_error *error) {
  tsr_environment *environment = run->snapshot->array->environment;
  int rc;
  while ((rc = tsr_reader_next(run->input.reader, &run->input.batch, error)) > 0 && !any_needed(run)) {
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    tsr__count(environment, TSR_COUNT_cells_computed, run->input.batch->count);
    tsr_work_done(environment, run->input.batch->count);
  }
  return rc;
}

int tsr__query_next_batch(tsr_query_run *run, tsr_error *error) {
  const int rc = next_needed(run, error);
  if (rc <= 0) return rc;
  tsr_batch_iterator *iterator = run->input.reader->iterator;
  const tsr_subtile *subtile = iterator->subtile ? iterator->subtile(iterator) : NULL;
  if (run->boxes.given) tsr__query_boxes_period(run, subtile);
  /* With boxes, rows are pairs, which are not in the order of a tile's cells. */
  run->input.subtile = run->input.batch->selection || run->boxes.given ? NULL : subtile;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++)
    if (!run->snapshot->schema->fields[run->grouping.axes[a].field].is_dimension) run->input.subtile = NULL;
  const bool placed = run->input.subtile && (run->grouping.grid || (run->input.placed && run->query.key_count == 0));
  for (uint32_t f = 0; f < run->input.field_count; f++) {
    const tsr_column *column;
    tsr_block_input *input = &run->input.columns[f];
    if (!run->input.fields[f] || (placed && !run->input.evaluated[f])) continue;
    TSR_TRY(tsr_reader_column(run->input.reader, f, &column, error));
    input->column = *column;
    input->null = column->unwritten && !run->query.fill_unwritten;
    if (!column->constant) continue;
    input->null |= column->validity && !column->validity[0];
    input->column.validity = NULL;
  }
  return 1;
}

static int start_reader(tsr_query_run *run, tsr_error *error) {
  const tsr_query *query = &run->query;
  const bool whole = query->read_all || run->windows.given; /* what windows see is not what their results satisfy */
  tsr_request request = {.dimensions = run->windows.given ? run->windows.read : query->dimensions,
                         .fields = run->input.fields,
                         .fill_unwritten = query->fill_unwritten,
                         .limit = query->limit,
                         .memory_bytes = run->memory.limit,
                         .threads = query->threads};
  if (!whole) TSR_TRY(tsr__query_where_predicates(run, &request.predicates, &request.predicate_count, error));
  tsr_reader_mode mode = {.untested = true};
  mode.skips = !whole && !run->boxes.given && !run->habits.places && run->expressions.where &&
               !tsr__program_may_fail(run->expressions.where);
  if (!run->windows.given) tsr__query_tiles_take(run, &mode);
  TSR_TRY(tsr__reader_open_as(run->snapshot, &run->snapshot->array->memory, &mode, &run->input.reader, error));
  return tsr_reader_start(run->input.reader, &request, error);
}

/* Goes on to the next unit of a query with windows. Returns 1; 0 at the end. */
static int next_unit(tsr_query_run *run, tsr_error *error) {
  if (!run->windows.given) return 0;
  tsr_reader_close(run->input.reader);
  run->input.reader = NULL;
  run->input.batch = NULL;
  const int rc = tsr__query_windows_next(run, error);
  if (rc > 0) TSR_TRY(start_reader(run, error));
  return rc;
}

/* ---- Queries of groups ------------------------------------------------------------------------------------------- */

/* Compares two groups by their keys, null first. */
static int compare_groups(const tsr_query_run *run, uint32_t x, uint32_t y) {
  const uint64_t *p = tsr__groups_tuple(&run->collected.groups, x), *q = tsr__groups_tuple(&run->collected.groups, y);
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const bool p_null = query_key_is_null(run, p, k), q_null = query_key_is_null(run, q, k);
    if (p_null != q_null) return p_null ? -1 : 1;
    if (p_null || p[k] == q[k]) continue;
    const uint64_t a = p[k], b = q[k];
    if (run->grouping.keys[k].column) return a < b ? -1 : 1; /* numbers in the order of the values */
    const tsr_text_value *s, *t;
    double u, v;
    switch (run->grouping.keys[k].type) {
    case TSR_VALUE_REAL:
      memcpy(&u, &a, sizeof u);
      memcpy(&v, &b, sizeof v);
      return u < v ? -1 : 1;
    case TSR_VALUE_UNSIGNED: return a < b ? -1 : 1;
    case TSR_VALUE_TEXT:
      s = tsr__texts_at(&run->collected.texts, a);
      t = tsr__texts_at(&run->collected.texts, b);
      return tsr__bytes_compare(s->bytes, s->size, t->bytes, t->size);
    default: return (int64_t)a < (int64_t)b ? -1 : 1;
    }
  }
  return 0;
}

static int compare_tied_groups(const void *argument, uint32_t x, uint32_t y) { return compare_groups(argument, x, y); }

uint64_t tsr__query_sort_key(tsr_value_type type, uint64_t word, const tsr_text_value *text) {
  switch (type) {
  case TSR_VALUE_REAL: return tsr__key(TSR_FLOAT64, &word);
  case TSR_VALUE_UNSIGNED: return word;
  case TSR_VALUE_TEXT: return tsr__text_prefix((const uint8_t *)text->bytes, text->size);
  default: return word ^ UINT64_C(1) << 63;
  }
}

/* Returns a word that sorts as the group's first key does, as far as it goes. */
static uint64_t group_sort_key(const tsr_query_run *run, uint32_t group) {
  const query_key *key = run->grouping.keys;
  const uint64_t *tuple = tsr__groups_tuple(&run->collected.groups, group);
  if (query_key_is_null(run, tuple, 0)) return 0; /* first */
  if (key->column) return tuple[0]; /* numbers in the order of the values */
  return tsr__query_sort_key(key->type, tuple[0],
                             key->type == TSR_VALUE_TEXT ? tsr__texts_at(&run->collected.texts, tuple[0]) : NULL);
}

/* Sorts groups by their keys. */
static int sort_groups(tsr_query_run *run, uint32_t *groups, uint64_t count, tsr_error *error) {
  tsr_pair *pairs;
  if (count < 2) return TSR_OK;
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, 2 * count, &pairs, error));
  for (uint64_t i = 0; i < count; i++) pairs[i] = (tsr_pair){group_sort_key(run, groups[i]), groups[i]};
  tsr__pairs_sort_ties(pairs, pairs + count, count, compare_tied_groups, run);
  for (uint64_t i = 0; i < count; i++) groups[i] = pairs[i].cell;
  tsr__free(pairs);
  return TSR_OK;
}

/* Lists the groups with rows, in the order of their keys. A grid is already in this order. */
static int list_groups(tsr_query_run *run, tsr_error *error) {
  const uint64_t count = run->collected.records.size / (run->layout.words * sizeof(uint64_t));
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, count, &run->result.order, error));
  for (uint64_t g = 0; g < count; g++)
    if (run->query.key_count == 0 || query_record(&run->collected.records, g, run->layout.words)[0] > 0)
      run->result.order[run->result.count++] = (uint32_t)g;
  if (!run->grouping.grid) TSR_TRY(sort_groups(run, run->result.order, run->result.count, error));
  if (!run->habits.plain) tsr__count(run->snapshot->array->environment, TSR_COUNT_groups_made, run->result.count);
  return TSR_OK;
}

static int make_records(tsr_query_run *run, tsr_error *error) {
  const uint64_t bytes = run->layout.words * sizeof(uint64_t);
  if (!run->grouping.grid) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve_exactly(&run->collected.records, run->grouping.grid_size * bytes, error));
  for (uint64_t g = 0; g < run->grouping.grid_size; g++)
    memcpy(run->collected.records.data + g * bytes, run->layout.blank, bytes);
  run->collected.records.size = run->grouping.grid_size * bytes;
  return TSR_OK;
}

/* Estimates how many MiB all values of the query's lists will take: `mib`, the present limit, scaled from the cells
 * that have been read to all cells. 0: unknown, since a WHERE leaves cells out, or the box is read unit by unit. */
static uint64_t wanted_mib(const tsr_query_run *run, uint64_t mib) {
  if (run->expressions.where || run->windows.given || !run->input.reader || !run->input.taken) return 0;
  const uint64_t cells = tsr__reader_cells(run->input.reader);
  return tsr__mul_sat(mib, cells / run->input.taken + (cells % run->input.taken > 0));
}

int tsr__query_fail_groups(const tsr_query_run *run, int rc, tsr_error *error) {
  const uint64_t mib = 2 * run->memory.limit >> 20, twice = TSR_MAX(1, 2 * mib);
  if (rc != TSR_BUDGET) return rc;
  if (run->parts.failed)
    return tsr__fail(error, TSR_BUDGET,
                     "too many expressions and aggregates for memory_mb (%llu): several queries, or memory_mb=%llu",
                     (unsigned long long)mib, (unsigned long long)twice);
  bool lists = false, values = false;
  for (uint32_t m = 0; m < run->layout.measure_count; m++) {
    lists |= run->layout.measures[m].measure.list;
    values |= run->layout.measures[m].measure.list || run->layout.measures[m].measure.distinct;
  }
  const uint64_t wanted = lists ? wanted_mib(run, mib) : 0;
  return tsr__fail(
      error, TSR_BUDGET,
      "too many groups%s for memory_mb (%llu): a WHERE for a part of it, coarser keys, or %smemory_mb=%llu",
      values ? " or values" : "", (unsigned long long)mib, wanted ? "" : "at least ",
      (unsigned long long)TSR_MAX(wanted, twice));
}

static int add_batches(tsr_query_run *run, tsr_error *error) {
  tsr_environment *environment = run->snapshot->array->environment;
  int rc;
  for (;;) {
    rc = tsr__query_next_batch(run, error);
    if (rc == 0 && (rc = next_unit(run, error)) > 0) continue;
    if (rc <= 0) return rc;
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    run->input.taken += run->input.batch->count;
    rc = tsr__query_add_batch(run, error);
    if (rc < 0) return tsr__query_fail_groups(run, rc, error);
    if (!run->habits.plain) tsr__count(environment, TSR_COUNT_cells_computed, run->input.batch->count);
    tsr_work_done(environment, run->input.batch->count);
  }
}

static int run_groups(tsr_query_run *run, tsr_error *error) {
  int rc = make_records(run, error);
  if (rc < 0) return tsr__query_fail_groups(run, rc, error);
  tsr__work_more(run->snapshot->array->environment, tsr__reader_cells(run->input.reader));
  TSR_TRY(add_batches(run, error));
  tsr__query_parts_release(run);
  tsr_reader_close(run->input.reader); /* NULL after the last unit of windows */
  run->input.reader = NULL;
  TSR_TRY(tsr__query_lists_sort(run, run->query.threads ? run->query.threads : run->snapshot->array->threads, error));
  rc = list_groups(run, error);
  return rc < 0 ? tsr__query_fail_groups(run, rc, error) : TSR_OK;
}

/* ---- Queries of cells: the values of the columns, block by block ------------------------------------------------- */

typedef struct cells_column { /* values of a block */
  uint8_t nulls[QUERY_BLOCK], whole[QUERY_BLOCK];
  tsr_text_value values[QUERY_BLOCK]; /* or numbers of 8 bytes */
} cells_column;

struct query_cells {
  uint64_t at; /* the next row of the batch */
  tsr_query_column *given;
  cells_column columns[];
};

/* Prepares a query that gives cells. */
static int make_cells(tsr_query_run *run, tsr_error *error) {
  const uint64_t count = run->query.column_count;
  TSR_TRY(TSR_ALLOC_RAW_BYTES(&run->memory, sizeof(query_cells) + count * sizeof(cells_column), &run->cells, error));
  run->cells->at = 0;
  return TSR_ARENA_ARRAY(&run->arena, count, &run->cells->given, error);
}

/* Makes the column of a block, *given, from a vector; a constant is repeated in `room`. */
static void give_column(const tsr_vector *v, uint32_t count, cells_column *room, tsr_query_column *given) {
  const bool reals = v->type == TSR_VALUE_REAL || v->type == TSR_VALUE_NUMBER;
  const uint32_t step = v->constant ? 0 : 1;
  uint8_t any = 0;
  *given = (tsr_query_column){.type = v->type, .whole = v->whole};
  given->as.texts = v->as.texts;
  if (reals && !v->nulls) {
    for (uint32_t r = 0; r < count; r++) any |= room->nulls[r] = v->as.reals[r * step] != v->as.reals[r * step];
  } else if (v->nulls || v->type == TSR_VALUE_NULL) {
    for (uint32_t r = 0; r < count; r++) {
      const uint32_t i = r * step;
      room->nulls[r] = v->type == TSR_VALUE_NULL || v->nulls[i] || (reals && v->as.reals[i] != v->as.reals[i]);
      any |= room->nulls[r];
    }
  } /* otherwise no value is null */
  if (any) given->nulls = room->nulls;
  if (!v->constant) return;
  uint64_t *words = (uint64_t *)(void *)room->values;
  for (uint32_t r = 0; r < count && v->as.texts; r++) {
    if (v->type == TSR_VALUE_TEXT) room->values[r] = v->as.texts[0];
    else words[r] = v->as.unsigned_integers[0];
  }
  given->as.texts = room->values;
  if (v->whole) given->whole = memset(room->whole, v->whole[0], count);
}

/* Evaluates the columns for the next rows of the batch. Returns how many rows satisfy the WHERE. */
static int64_t next_rows(tsr_query_run *run, tsr_error *error) {
  const tsr_batch *batch = run->input.batch;
  const uint64_t n = TSR_MIN(batch->count - run->cells->at, QUERY_BLOCK), at = run->cells->at;
  query_rows block = {.cells = batch->selection ? batch->selection + at : NULL,
                      .first = batch->selection ? 0 : batch->first + at,
                      .count = (uint32_t)n};
  query_part *part = run->parts.list[0];
  query_rows rows = {.count = 0};
  run->cells->at += n;
  if (tsr__query_narrow(part, &block)) TSR_TRY(tsr__query_select(part, &block, &rows, error));
  if (rows.count > 0) TSR_TRY(tsr__query_evaluate(part, &rows, error));
  for (uint32_t c = 0; c < run->query.column_count && rows.count > 0; c++)
    give_column(&part->vectors[c], rows.count, &run->cells->columns[c], &run->cells->given[c]);
  if (run->grid && rows.count > 0) tsr__query_find_places(run, run->grid, &rows, part->places);
  tsr__count(run->snapshot->array->environment, TSR_COUNT_cells_computed, n);
  return rows.count;
}

static void give_places(const tsr_cell_runs *places, tsr_query_block *block) {
  block->run_count = places->count;
  block->firsts = places->firsts;
  block->ends = places->ends;
}

int tsr_query_next(tsr_query_run *run, tsr_query_block *block, tsr_error *error) {
  TSR_OWN_ERROR(error);
  if (!run->cells) return tsr__fail(error, TSR_ERROR, "the query gives groups, not cells");
  for (;;) {
    if (!run->input.batch || run->cells->at == run->input.batch->count) {
      TSR_TRY(tsr__cancelled(&run->snapshot->array->environment->memory, error));
      int rc = tsr__query_next_batch(run, error);
      if (rc == 0 && (rc = next_unit(run, error)) > 0) continue;
      if (rc <= 0) return rc;
      run->cells->at = 0;
    }
    const int64_t count = next_rows(run, error);
    if (count < 0) {
      run->fault = run->parts.list[0]->fault;
      return (int)count;
    }
    if (count == 0) continue;
    *block = (tsr_query_block){.count = (uint64_t)count, .columns = run->cells->given};
    if (run->grid) give_places(run->parts.list[0]->places, block);
    return 1;
  }
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Sets run->schema: with habits.plain, datetimes and times become integers. */
static int choose_schema(tsr_query_run *run, tsr_error *error) {
  tsr_schema *made;
  run->schema = run->snapshot->schema;
  if (!run->habits.plain) return TSR_OK;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, 1, &made, error));
  *made = *run->schema;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &made->fields, error));
  memcpy(made->fields, run->schema->fields, run->input.field_count * sizeof *made->fields);
  for (uint32_t f = 0; f < run->input.field_count; f++) {
    const tsr_kind kind = tsr_datatype_kind(made->fields[f].datatype);
    if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) made->fields[f].datatype = TSR_INT64;
  }
  run->schema = made;
  return TSR_OK;
}

static int plan_query(tsr_query_run *run, tsr_error *error) {
  const tsr_schema *schema = run->snapshot->schema;
  run->input.field_count = schema->dimension_count + schema->attribute_count;
  TSR_TRY(choose_schema(run, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.evaluated, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.columns, error));
  TSR_TRY(plan_expressions(run, error));
  TSR_TRY(plan_keys(run, error));
  if (run->query.boxes) TSR_TRY(tsr__query_boxes_make(run, error));
  if (run->query.windows && run->query.windows->count > 0) TSR_TRY(tsr__query_windows_make(run, error));
  if (run->query.grid) TSR_TRY(tsr__query_grid_make(run, error));
  run->input.placed = run->windows.given || run->habits.places || run->grid;
  for (uint32_t d = 0; d < schema->dimension_count && run->input.placed; d++) run->input.fields[d] = true;
  return lay_out_record(run, error);
}

static int run_query(tsr_query_run *run, tsr_error *error) {
  TSR_TRY(plan_query(run, error));
  if (run->windows.given) TSR_TRY(tsr__query_windows_next(run, error));
  TSR_TRY(start_reader(run, error));
  if (!gives_groups(run)) {
    TSR_TRY(tsr__query_part_make(run, error));
    return make_cells(run, error);
  }
  TSR_TRY(tsr__query_keys_make(run, error));
  return run_groups(run, error);
}

static int open_once(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, bool no_plain_grid,
                     tsr_query_run **run, tsr_error *error) {
  tsr_query_run *made;
  *run = NULL;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &made, error));
  const uint64_t budget = query->memory_bytes ? query->memory_bytes : QUERY_MEMORY;
  made->snapshot = snapshot;
  made->query = *query;
  made->habits = *habits;
  made->grouping.no_plain_grid = no_plain_grid || query->windows; /* a grid has the coordinates of one reader */
  tsr__snapshot_hold(snapshot);
  /* the reader has the other half */
  tsr__memory_init(&made->memory, &snapshot->array->memory, budget / 2, "memory_mb");
  tsr__arena_init(&made->arena, &made->memory);
  tsr_work work;
  tsr_work_begin(snapshot->array->environment, &work, habits->work, snapshot->array->path, 0);
  const int rc = run_query(made, error);
  tsr_work_end(snapshot->array->environment, &work);
  *run = made;
  return rc;
}

int tsr__query_cells_start(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error) {
  return open_once(snapshot, query, &(query_habits){.work = "query", .places = true}, false, run, error);
}

int tsr__query_open(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, tsr_query_run **run,
                    tsr_error *error) {
  const int rc = open_once(snapshot, query, habits, false, run, error);
  if (rc >= 0 || !*run || !(*run)->grouping.outside) return rc;
  tsr_query_close(*run);
  return open_once(snapshot, query, habits, true, run, error);
}

int tsr_query_start(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_query own;
  *run = NULL;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_query, threads, query, &own, error));
  return tsr__query_open(snapshot, &own, &(query_habits){.work = "query"}, run, error);
}

void tsr_environment_count_coordinates(tsr_environment *environment, uint64_t coordinates) {
  tsr__count(environment, TSR_COUNT_coordinates_evaluated, coordinates);
}

void tsr_query_close(tsr_query_run *run) {
  if (!run) return;
  tsr_snapshot *snapshot = run->snapshot;
  tsr__query_parts_release(run);
  tsr_reader_close(run->input.reader);
  tsr__query_windows_release(run);
  tsr__collected_groups_release(&run->collected);
  tsr__free(run->result.order);
  tsr__free(run->cells);
  tsr__arena_release(&run->arena);
  tsr__free(run);
  tsr_snapshot_close(snapshot);
}

const tsr_expression *tsr_query_fault(const tsr_query_run *run, uint32_t *node) {
  *node = run && run->fault.expression ? run->fault.node : 0;
  return run ? run->fault.expression : NULL;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

uint64_t tsr_query_groups(const tsr_query_run *run) { return run->result.count; }

void tsr_query_key_value(const tsr_query_run *run, uint64_t group, uint32_t key, tsr_value *value) {
  const query_key *k = &run->grouping.keys[key];
  const uint32_t number = run->result.order[group];
  *value = (tsr_value){.type = k->type};
  if (run->grouping.grid) {
    const uint64_t at = number / (uint32_t)k->stride % (uint32_t)k->extent; /* group numbers have 32 bits */
    if (k->has_null && at == 0) value->type = TSR_VALUE_NULL;
    else if (k->column) tsr__query_row_value(k, (uint32_t)at - k->has_null, value);
    else value->as.unsigned_integer = k->low + at - k->has_null;
    return;
  }
  const uint64_t *tuple = tsr__groups_tuple(&run->collected.groups, number), word = tuple[key];
  if (query_key_is_null(run, tuple, key)) {
    value->type = TSR_VALUE_NULL;
  } else if (k->column) {
    tsr__query_row_value(k, (uint32_t)word - 1, value);
  } else if (k->value == QUERY_NONE) {
    value->as.unsigned_integer = word - !k->plain;
  } else if (k->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = tsr__texts_at(&run->collected.texts, word)->bytes;
    value->as.text.size = tsr__texts_at(&run->collected.texts, word)->size;
  } else {
    value->as.unsigned_integer = word;
  }
}

int tsr_query_aggregate_value(const tsr_query_run *run, uint64_t group, uint32_t aggregate, tsr_value *value,
                              tsr_error *error) {
  TSR_OWN_ERROR(error);
  const uint64_t *record = query_result_record(run, group);
  const uint32_t m = run->layout.measure_of[aggregate];
  const tsr_query_aggregate *asked = &run->query.aggregates[aggregate];
  if (asked->function == TSR_AGGREGATE_AT) {
    tsr__query_extremes_value(run, aggregate, record, value);
    return TSR_OK;
  }
  if (m == ALL_ROWS) {
    *value = (tsr_value){.type = TSR_VALUE_INTEGER};
    value->as.integer = (int64_t)record[0];
    return TSR_OK;
  }
  if (asked->function == TSR_AGGREGATE_MEDIAN || asked->function == TSR_AGGREGATE_PERCENTILE) {
    tsr__query_list_percentile(run, m, run->result.order[group],
                               asked->function == TSR_AGGREGATE_MEDIAN ? 50 : asked->percent, value);
    return TSR_OK;
  }
  return tsr__measure_value(&run->layout.measures[m].measure, asked->function, record, value, error);
}
