/* query.c: runs a columnar query over a snapshot (tessera_query.h): plans it, feeds it with batches, gives results. */
#include <string.h>

#include "analyze/query_at.h"
#include "analyze/query_cells.h"
#include "analyze/query_keys.h"
#include "analyze/query_lists.h"
#include "analyze/query_part.h"
#include "analyze/query_run.h"
#include "analyze/query_tiles.h"
#include "analyze/query_where.h"
#include "array/progress.h"
#include "compute/same.h"
#include "model/datatype.h"
#include "read/subtile.h"

#define QUERY_MEMORY (UINT64_C(1) << 30)
#define ALL_ROWS     UINT32_MAX /* in measure_of: the aggregate counts rows */

/* ---- Expressions of the query ------------------------------------------------------------------------------------ */

static bool gives_groups(const tsr_query_run *run) {
  return run->query.key_count > 0 || run->query.aggregate_count > 0;
}

/* Gives the number of an expression among those of the query's program. */
static uint32_t number_expression(tsr_query_run *run, const tsr_expression *expression) {
  for (uint32_t e = 0; e < run->expressions.count; e++)
    if (tsr__expressions_same(run->expressions.list[e], expression)) return e;
  run->expressions.list[run->expressions.count] = expression;
  return run->expressions.count++;
}

/* Says what a measure must keep for an aggregate. */
static int need_of(const tsr_query_aggregate *aggregate, tsr_measure *need, tsr_error *error) {
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
  need->distinct = aggregate->distinct && !need->ends; /* extremes of a set are those of the values */
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

/* Finds or makes the measure of an aggregate. */
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
  TSR_TRY(need_of(aggregate, &need, error));
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

/* Adds the coordinates to the expressions: they choose among rows with equal extremes. */
static int plan_coordinates(tsr_query_run *run, tsr_error *error) {
  const uint32_t count = run->schema->dimension_count;
  tsr_node *nodes;
  tsr_expression *fields;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &run->extremes.coordinates, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &nodes, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, count, &fields, error));
  for (uint32_t d = 0; d < count; d++) {
    nodes[d] = (tsr_node){.operation = TSR_OP_FIELD, .field = d};
    fields[d] = (tsr_expression){.nodes = &nodes[d], .count = 1};
    run->extremes.coordinates[d] = number_expression(run, &fields[d]);
  }
  return TSR_OK;
}

/* Returns true if key k needs no expression: its numbers are given, or it is an integer dimension. */
static bool query_plan_key(tsr_query_run *run, uint32_t k) {
  const tsr_query_key *given = &run->query.keys[k];
  const tsr_node *node = given->expression.nodes;
  query_key *key = &run->grouping.keys[k];
  *key = (query_key){.field = given->field, .type = TSR_VALUE_INTEGER};
  if (given->numbers) return true;
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
    run->grouping.keys[k].value =
        query_plan_key(run, k) ? QUERY_NONE : number_expression(run, &query->keys[k].expression);
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

/* Gives each measure its type and its words of a record. */
static int place_measures(tsr_query_run *run, tsr_error *error) {
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
  TSR_TRY(tsr__query_at_make(run, error));
  run->layout.doubt_at = run->habits.stored_reals ? run->layout.words++ : QUERY_NO_WORD;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->layout.words, &run->layout.blank, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->layout.words, &run->layout.known, error));
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    tsr__measure_init(&run->layout.measures[m].measure, run->layout.blank);
  return tsr__query_collected_make(&run->collected, run->layout.measure_count, &run->memory, &run->arena, error);
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

/* Reads the next batch. Returns 1; 0 at the end. */
int tsr__query_next_batch(tsr_query_run *run, tsr_error *error) {
  const int rc = tsr_reader_next(run->input.reader, &run->input.batch, error);
  if (rc <= 0) return rc;
  tsr_batch_iterator *iterator = run->input.reader->iterator;
  run->input.subtile = !run->input.batch->selection && iterator->subtile ? iterator->subtile(iterator) : NULL;
  for (uint32_t a = 0; a < run->grouping.axis_count; a++)
    if (!run->snapshot->schema->fields[run->grouping.axes[a].field].is_dimension) run->input.subtile = NULL;
  for (uint32_t f = 0; f < run->input.field_count; f++) {
    const tsr_column *column;
    tsr_block_input *input = &run->input.columns[f];
    if (!run->input.fields[f] || (run->input.subtile && run->grouping.grid && !run->input.evaluated[f])) continue;
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
  tsr_request request = {.dimensions = query->dimensions,
                         .fields = run->input.fields,
                         .fill_unwritten = query->fill_unwritten,
                         .limit = query->limit,
                         .memory_bytes = run->memory.limit,
                         .threads = query->threads};
  if (!query->read_all) TSR_TRY(tsr__query_where_predicates(run, &request.predicates, &request.predicate_count, error));
  TSR_TRY(tsr_reader_open(run->snapshot, &run->input.reader, error));
  run->input.reader->request.untested = true;
  tsr__query_tiles_take(run);
  return tsr_reader_start(run->input.reader, &request, error);
}

static int compare_groups(const tsr_query_run *run, uint32_t x, uint32_t y) {
  const uint64_t *p = tsr__groups_tuple(&run->collected.groups, x), *q = tsr__groups_tuple(&run->collected.groups, y);
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const bool p_null = query_key_is_null(run, p, k), q_null = query_key_is_null(run, q, k);
    if (p_null != q_null) return p_null ? -1 : 1;
    if (p_null || p[k] == q[k]) continue;
    const uint64_t a = p[k], b = q[k];
    const struct tsr_text_value *s, *t;
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

/* Sorts groups by their keys: a merge sort, bottom up. */
static void sort_groups(const tsr_query_run *run, uint32_t *groups, uint32_t *room, uint64_t count) {
  uint32_t *from = groups, *to = room;
  for (uint64_t width = 1; width < count; width *= 2) {
    for (uint64_t start = 0; start < count; start += 2 * width) {
      const uint64_t middle = TSR_MIN(start + width, count), end = TSR_MIN(middle + width, count);
      uint64_t i = start, k = middle, n = start;
      while (i < middle && k < end) to[n++] = compare_groups(run, from[i], from[k]) <= 0 ? from[i++] : from[k++];
      while (i < middle) to[n++] = from[i++];
      while (k < end) to[n++] = from[k++];
    }
    uint32_t *other = from;
    from = to;
    to = other;
  }
  if (from != groups) memcpy(groups, from, count * sizeof *groups);
}

/* Lists the groups that have rows, in the order of their keys: a grid has that order. */
static int list_groups(tsr_query_run *run, tsr_error *error) {
  const uint64_t count = run->collected.records.size / (run->layout.words * sizeof(uint64_t));
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, count * (run->grouping.grid ? 1 : 2), &run->result.order, error));
  for (uint64_t g = 0; g < count; g++)
    if (run->query.key_count == 0 || query_record(&run->collected.records, g, run->layout.words)[0] > 0)
      run->result.order[run->result.count++] = (uint32_t)g;
  if (!run->grouping.grid) sort_groups(run, run->result.order, run->result.order + count, run->result.count);
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

int tsr__query_fail_groups(const tsr_query_run *run, int rc, tsr_error *error) {
  const uint64_t mib = 2 * run->memory.limit >> 20;
  if (rc != TSR_BUDGET) return rc;
  if (run->parts.failed)
    return tsr__fail(error, TSR_BUDGET,
                     "too many expressions and aggregates for memory_mb (%llu): several queries, or memory_mb=%llu",
                     (unsigned long long)mib, (unsigned long long)TSR_MAX(1, 2 * mib));
  bool values = false;
  for (uint32_t m = 0; m < run->layout.measure_count; m++)
    values |= run->layout.measures[m].measure.list || run->layout.measures[m].measure.distinct;
  return tsr__fail(error, TSR_BUDGET,
                   "too many groups%s for memory_mb (%llu): a WHERE for a part of it, coarser keys, or memory_mb=%llu",
                   values ? " or values" : "", (unsigned long long)mib, (unsigned long long)TSR_MAX(1, 2 * mib));
}

static int add_batches(tsr_query_run *run, tsr_error *error) {
  tsr_environment *environment = run->snapshot->array->environment;
  int rc;
  while ((rc = tsr__query_next_batch(run, error)) > 0) {
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    rc = tsr__query_add_batch(run, error);
    if (rc < 0) return tsr__query_fail_groups(run, rc, error);
    if (!run->habits.plain) tsr__count(environment, TSR_COUNT_cells_computed, run->input.batch->count);
    tsr_work_done(environment, run->input.batch->count);
  }
  return rc;
}

static int run_groups(tsr_query_run *run, tsr_error *error) {
  int rc = make_records(run, error);
  if (rc < 0) return tsr__query_fail_groups(run, rc, error);
  tsr__work_more(run->snapshot->array->environment, tsr__reader_cells(run->input.reader));
  TSR_TRY(add_batches(run, error));
  tsr__query_parts_release(run);
  tsr_reader_close(run->input.reader);
  run->input.reader = NULL;
  TSR_TRY(tsr__query_lists_sort(run, error));
  rc = list_groups(run, error);
  return rc < 0 ? tsr__query_fail_groups(run, rc, error) : TSR_OK;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

/* Sets run->schema: with habits.plain, datetimes and times are integers. */
static int query_choose_schema(tsr_query_run *run, tsr_error *error) {
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

static int query_plan(tsr_query_run *run, tsr_error *error) {
  const tsr_schema *schema = run->snapshot->schema;
  run->input.field_count = schema->dimension_count + schema->attribute_count;
  TSR_TRY(query_choose_schema(run, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.evaluated, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->input.field_count, &run->input.columns, error));
  TSR_TRY(plan_expressions(run, error));
  TSR_TRY(plan_keys(run, error));
  return place_measures(run, error);
}

static int query_run(tsr_query_run *run, tsr_error *error) {
  TSR_TRY(query_plan(run, error));
  TSR_TRY(start_reader(run, error));
  if (!gives_groups(run)) {
    TSR_TRY(tsr__query_part_make(run, error));
    return tsr__query_cells_make(run, error);
  }
  TSR_TRY(tsr__query_keys_make(run, error));
  return run_groups(run, error);
}

static int query_open_once(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits,
                           bool no_plain_grid, tsr_query_run **run, tsr_error *error) {
  tsr_query_run *made;
  *run = NULL;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &made, error));
  const uint64_t budget = query->memory_bytes ? query->memory_bytes : QUERY_MEMORY;
  made->snapshot = snapshot;
  made->query = *query;
  made->habits = *habits;
  made->grouping.no_plain_grid = no_plain_grid;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&made->memory, &snapshot->array->memory, budget / 2,
                   "memory_mb"); /* the reader has the other half */
  tsr__arena_init(&made->arena, &made->memory);
  tsr_work work;
  tsr_work_begin(snapshot->array->environment, &work, habits->work, snapshot->array->path, 0);
  const int rc = query_run(made, error);
  tsr_work_end(snapshot->array->environment, &work);
  *run = made;
  return rc;
}

int tsr__query_open(tsr_snapshot *snapshot, const tsr_query *query, const query_habits *habits, tsr_query_run **run,
                    tsr_error *error) {
  const int rc = query_open_once(snapshot, query, habits, false, run, error);
  if (rc >= 0 || !*run || !(*run)->grouping.outside) return rc;
  tsr_query_close(*run);
  return query_open_once(snapshot, query, habits, true, run, error);
}

int tsr_query_open(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return tsr__query_open(snapshot, query, &(query_habits){.work = "query"}, run, error);
}

void tsr_environment_count_coordinates(tsr_environment *environment, uint64_t coordinates) {
  tsr__count(environment, TSR_COUNT_coordinates_evaluated, coordinates);
}

void tsr_query_close(tsr_query_run *run) {
  if (!run) return;
  tsr_snapshot *snapshot = run->snapshot;
  tsr__query_parts_release(run);
  tsr_reader_close(run->input.reader);
  tsr__query_collected_release(&run->collected);
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

const uint64_t *tsr__query_result(const tsr_query_run *run, uint64_t group) {
  return query_record(&run->collected.records, run->result.order[group], run->layout.words);
}

void tsr_query_key_value(const tsr_query_run *run, uint64_t group, uint32_t key, tsr_value *value) {
  const query_key *k = &run->grouping.keys[key];
  const uint32_t number = run->result.order[group];
  *value = (tsr_value){.type = k->type};
  if (run->grouping.grid) {
    const uint64_t at = number / (uint32_t)k->stride % (uint32_t)k->extent; /* a number has 32 bits */
    if (k->has_null && at == 0) value->type = TSR_VALUE_NULL;
    else value->as.unsigned_integer = k->low + at - k->has_null;
    return;
  }
  const uint64_t *tuple = tsr__groups_tuple(&run->collected.groups, number), word = tuple[key];
  if (query_key_is_null(run, tuple, key)) {
    value->type = TSR_VALUE_NULL;
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
  const uint64_t *record = tsr__query_result(run, group);
  const uint32_t m = run->layout.measure_of[aggregate];
  const tsr_query_aggregate *asked = &run->query.aggregates[aggregate];
  if (asked->function == TSR_AGGREGATE_AT) {
    tsr__query_at_value(run, aggregate, record, value);
    return TSR_OK;
  }
  if (m == ALL_ROWS) {
    *value = (tsr_value){.type = TSR_VALUE_INTEGER};
    value->as.integer = (int64_t)record[0];
    return TSR_OK;
  }
  if (asked->function == TSR_AGGREGATE_MEDIAN || asked->function == TSR_AGGREGATE_PERCENTILE) {
    tsr__query_list_value(run, m, run->result.order[group],
                          asked->function == TSR_AGGREGATE_MEDIAN ? 50 : asked->percent, value);
    return TSR_OK;
  }
  return tsr__measure_value(&run->layout.measures[m].measure, asked->function, record, value, error);
}
