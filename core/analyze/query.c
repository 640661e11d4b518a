/* query.c: runs a columnar query over a snapshot (tessera_query.h): plans it, feeds it with batches, gives results. */
#include <string.h>

#include "array/progress.h"
#include "compute/same.h"
#include "model/datatype.h"
#include "read/subtile.h"
#include "analyze/query_run.h"

#define QUERY_MEMORY (UINT64_C(1) << 30)
#define ALL_ROWS     UINT32_MAX /* in measure_of: the aggregate counts rows */

/* ---- Expressions of the query ------------------------------------------------------------------------------------ */

static int make_program(tsr_query_run *run, const tsr_expression *expression, query_program **program,
                        tsr_error *error) {
  TSR_TRY(tsr__query_program_make(run->snapshot->schema, expression, &run->arena, program, error));
  tsr__query_program_fields(*program, run->fields);
  tsr__query_program_fields(*program, run->evaluated);
  return TSR_OK;
}

static bool same_optional(const tsr_expression *a, const tsr_expression *b) {
  return a && b ? tsr__expressions_same(a, b) : a == b;
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
  const tsr_expression *argument = aggregate->has_argument ? &aggregate->argument : NULL;
  const tsr_expression *filter = aggregate->has_filter ? &aggregate->filter : NULL;
  tsr_measure need = {.type = TSR_VALUE_NULL};
  uint32_t m = 0;
  TSR_TRY(need_of(aggregate, &need, error));
  run->measure_of[a] = ALL_ROWS;
  if (!argument && !filter) return TSR_OK;
  for (; m < run->measure_count; m++) {
    const query_measure *made = &run->measures[m];
    if (made->measure.distinct == need.distinct && same_optional(made->argument_expression, argument) &&
        same_optional(made->filter_expression, filter))
      break;
  }
  query_measure *made = &run->measures[m];
  run->measure_of[a] = m;
  if (m == run->measure_count) {
    *made = (query_measure){.argument_expression = argument, .filter_expression = filter};
    made->measure.type = TSR_VALUE_NULL;
    made->measure.distinct = need.distinct;
    run->measure_count++;
    if (argument) TSR_TRY(make_program(run, argument, &made->argument, error));
    if (filter) TSR_TRY(make_program(run, filter, &made->filter, error));
    if (argument) made->measure.type = tsr__query_program_type(made->argument);
  }
  made->measure.sum |= need.sum;
  made->measure.ends |= need.ends;
  made->measure.moments |= need.moments;
  made->measure.list |= need.list;
  return check_measure(&made->measure, error);
}

static int plan_groups(tsr_query_run *run, tsr_error *error) {
  const tsr_query *query = &run->query;
  if (query->key_count > TSR_QUERY_KEYS || query->aggregate_count > TSR_QUERY_AGGREGATES)
    return tsr__fail(error, TSR_TOOBIG, "a query has at most %u keys and %u aggregates", TSR_QUERY_KEYS,
                     TSR_QUERY_AGGREGATES);
  for (uint32_t k = 0; k < query->key_count; k++) {
    run->keys[k].type = TSR_VALUE_INTEGER;
    if (query->keys[k].numbers) {
      run->fields[query->keys[k].field] = true;
      continue;
    }
    TSR_TRY(make_program(run, &query->keys[k].expression, &run->keys[k].program, error));
    run->keys[k].type = tsr__query_program_type(run->keys[k].program);
    if (run->keys[k].type == TSR_VALUE_OPAQUE || run->keys[k].type == TSR_VALUE_NUMBER)
      return tsr__fail(error, TSR_MISMATCH, "key %u has values that cannot be compared", k);
  }
  for (uint32_t a = 0; a < query->aggregate_count; a++) TSR_TRY(plan_aggregate(run, a, error));
  run->words = 1;
  run->straight = true;
  for (uint32_t m = 0; m < run->measure_count; m++) {
    tsr_measure *measure = &run->measures[m].measure;
    run->words = tsr__measure_place(measure, run->words);
    run->straight &= !measure->list && !measure->distinct && !(measure->ends && measure->type == TSR_VALUE_TEXT);
  }
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->words, &run->blank, error));
  for (uint32_t m = 0; m < run->measure_count; m++) tsr__measure_init(&run->measures[m].measure, run->blank);
  return TSR_OK;
}

static int plan_columns(tsr_query_run *run, tsr_error *error) {
  const tsr_query *query = &run->query;
  if (query->column_count > TSR_QUERY_COLUMNS)
    return tsr__fail(error, TSR_TOOBIG, "a query has at most %u columns", TSR_QUERY_COLUMNS);
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, query->column_count, &run->columns, error));
  for (uint32_t c = 0; c < query->column_count; c++)
    TSR_TRY(make_program(run, &query->columns[c], &run->columns[c], error));
  return TSR_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static bool gives_groups(const tsr_query_run *run) {
  return run->query.key_count > 0 || run->query.aggregate_count > 0;
}

/* Reads the next batch. Returns 1; 0 at the end. */
int tsr__query_next_batch(tsr_query_run *run, tsr_error *error) {
  const int rc = tsr_reader_next(run->reader, &run->batch, error);
  if (rc <= 0) return rc;
  tsr_batch_iterator *iterator = run->reader->iterator;
  run->subtile = !run->batch->selection && iterator->subtile ? iterator->subtile(iterator) : NULL;
  for (uint32_t a = 0; a < run->axis_count; a++)
    if (!run->snapshot->schema->fields[run->axes[a].field].is_dimension) run->subtile = NULL;
  for (uint32_t f = 0; f < run->field_count; f++) {
    const tsr_column *column;
    query_input *input = &run->inputs[f];
    if (!run->fields[f] || (run->subtile && run->grid && !run->evaluated[f])) continue;
    TSR_TRY(tsr_reader_column(run->reader, f, &column, error));
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
  const tsr_request request = {.dimensions = query->dimensions,
                               .fields = run->fields,
                               .fill_unwritten = query->fill_unwritten,
                               .limit = query->limit,
                               .memory_bytes = run->memory.limit,
                               .threads = query->threads};
  TSR_TRY(tsr_reader_open(run->snapshot, &run->reader, error));
  return tsr_reader_start(run->reader, &request, error);
}

static int compare_groups(const tsr_query_run *run, uint32_t x, uint32_t y) {
  const uint64_t *p = tsr__groups_tuple(&run->groups, x), *q = tsr__groups_tuple(&run->groups, y);
  for (uint32_t k = 0; k < run->query.key_count; k++) {
    const bool p_null = p[0] >> k & 1, q_null = q[0] >> k & 1;
    if (p_null != q_null) return p_null ? -1 : 1;
    if (p_null || p[1 + k] == q[1 + k]) continue;
    const uint64_t a = p[1 + k], b = q[1 + k];
    const struct tsr_text_value *s, *t;
    double u, v;
    switch (run->keys[k].type) {
    case TSR_VALUE_REAL:
      memcpy(&u, &a, sizeof u);
      memcpy(&v, &b, sizeof v);
      return u < v ? -1 : 1;
    case TSR_VALUE_UNSIGNED: return a < b ? -1 : 1;
    case TSR_VALUE_TEXT:
      s = tsr__texts_at(&run->texts, a);
      t = tsr__texts_at(&run->texts, b);
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
  const uint64_t count = run->records.size / (run->words * sizeof(uint64_t));
  TSR_TRY(TSR_ALLOC_RAW(&run->memory, count * (run->grid ? 1 : 2), &run->order, error));
  for (uint64_t g = 0; g < count; g++)
    if (run->query.key_count == 0 || query_record(&run->records, g, run->words)[0] > 0)
      run->order[run->group_count++] = (uint32_t)g;
  if (!run->grid) sort_groups(run, run->order, run->order + count, run->group_count);
  tsr__count(run->snapshot->array->environment, TSR_COUNT_groups_made, run->group_count);
  return TSR_OK;
}

static int make_records(tsr_query_run *run, tsr_error *error) {
  const uint64_t bytes = run->words * sizeof(uint64_t);
  run->records.memory = &run->memory;
  if (!run->grid) return TSR_OK;
  TSR_TRY(tsr__buffer_reserve_exactly(&run->records, run->grid_size * bytes, error));
  for (uint64_t g = 0; g < run->grid_size; g++) memcpy(run->records.data + g * bytes, run->blank, bytes);
  run->records.size = run->grid_size * bytes;
  return TSR_OK;
}

static int run_groups(tsr_query_run *run, tsr_error *error) {
  tsr_environment *environment = run->snapshot->array->environment;
  int rc;
  TSR_TRY(make_records(run, error));
  tsr__work_more(environment, tsr__reader_cells(run->reader));
  while ((rc = tsr__query_next_batch(run, error)) > 0) {
    TSR_TRY(tsr__cancelled(&environment->memory, error));
    TSR_TRY(tsr__query_add_batch(run, error));
    tsr__count(environment, TSR_COUNT_cells_computed, run->batch->count);
    tsr_work_done(environment, run->batch->count);
  }
  TSR_TRY(rc);
  tsr__query_parts_release(run);
  tsr_reader_close(run->reader);
  run->reader = NULL;
  TSR_TRY(tsr__query_lists_sort(run, error));
  return list_groups(run, error);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static int query_plan(tsr_query_run *run, tsr_error *error) {
  const tsr_schema *schema = run->snapshot->schema;
  run->field_count = schema->dimension_count + schema->attribute_count;
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->field_count, &run->fields, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->field_count, &run->evaluated, error));
  TSR_TRY(TSR_ARENA_ARRAY(&run->arena, run->field_count, &run->inputs, error));
  if (run->query.has_where) TSR_TRY(make_program(run, &run->query.where, &run->where, error));
  if (gives_groups(run)) TSR_TRY(plan_groups(run, error));
  else TSR_TRY(plan_columns(run, error));
  return TSR_OK;
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

int tsr_query_open(tsr_snapshot *snapshot, const tsr_query *query, tsr_query_run **run, tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_query_run *made;
  *run = NULL;
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &made, error));
  const uint64_t budget = query->memory_bytes ? query->memory_bytes : QUERY_MEMORY;
  made->snapshot = snapshot;
  made->query = *query;
  tsr__snapshot_hold(snapshot);
  tsr__memory_init(&made->memory, &snapshot->array->memory, budget / 2,
                   "memory_mb"); /* the reader has the other half */
  tsr__arena_init(&made->arena, &made->memory);
  tsr__texts_init(&made->texts, &made->memory, &made->arena);
  tsr__texts_init(&made->values, &made->memory, &made->arena);
  for (uint32_t m = 0; m < TSR_QUERY_AGGREGATES; m++) {
    tsr__groups_init(&made->pairs[m], 2, &made->memory);
    made->lists[m].memory = &made->memory;
  }
  tsr_work work;
  tsr_work_begin(snapshot->array->environment, &work, "query", snapshot->array->path, 0);
  const int rc = query_run(made, error);
  tsr_work_end(snapshot->array->environment, &work);
  *run = made;
  return rc;
}

void tsr_query_close(tsr_query_run *run) {
  if (!run) return;
  tsr_snapshot *snapshot = run->snapshot;
  tsr__query_parts_release(run);
  tsr_reader_close(run->reader);
  for (uint32_t m = 0; m < TSR_QUERY_AGGREGATES; m++) {
    tsr__groups_release(&run->pairs[m]);
    tsr__buffer_release(&run->lists[m]);
  }
  tsr__groups_release(&run->groups);
  tsr__texts_release(&run->texts);
  tsr__texts_release(&run->values);
  tsr__buffer_release(&run->records);
  tsr__free(run->order);
  tsr__free(run->cells);
  tsr__arena_release(&run->arena);
  tsr__free(run);
  tsr_snapshot_close(snapshot);
}

const tsr_expression *tsr_query_fault(const tsr_query_run *run, uint32_t *node) {
  *node = run && run->fault ? run->fault_node : 0;
  return run ? run->fault : NULL;
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

uint64_t tsr_query_groups(const tsr_query_run *run) { return run->group_count; }

void tsr_query_key_value(const tsr_query_run *run, uint64_t group, uint32_t key, tsr_value *value) {
  const query_key *k = &run->keys[key];
  const uint32_t number = run->order[group];
  *value = (tsr_value){.type = k->type};
  if (run->grid) {
    const uint64_t at = number / k->stride % k->extent;
    if (k->has_null && at == 0) value->type = TSR_VALUE_NULL;
    else value->as.integer = (int64_t)(at - k->has_null);
    return;
  }
  const uint64_t *tuple = tsr__groups_tuple(&run->groups, number), word = tuple[1 + key];
  if (!k->program) {
    value->type = word == 0 ? TSR_VALUE_NULL : TSR_VALUE_INTEGER;
    if (word > 0) value->as.integer = (int64_t)word - 1;
  } else if (tuple[0] >> key & 1) {
    value->type = TSR_VALUE_NULL;
  } else if (k->type == TSR_VALUE_TEXT) {
    value->as.text.bytes = tsr__texts_at(&run->texts, word)->bytes;
    value->as.text.size = tsr__texts_at(&run->texts, word)->size;
  } else {
    value->as.unsigned_integer = word;
  }
}

int tsr_query_aggregate_value(const tsr_query_run *run, uint64_t group, uint32_t aggregate, tsr_value *value,
                              tsr_error *error) {
  TSR_OWN_ERROR(error);
  const uint64_t *record = query_record(&run->records, run->order[group], run->words);
  const uint32_t m = run->measure_of[aggregate];
  const tsr_query_aggregate *asked = &run->query.aggregates[aggregate];
  if (m == ALL_ROWS) {
    *value = (tsr_value){.type = TSR_VALUE_INTEGER};
    value->as.integer = (int64_t)record[0];
    return TSR_OK;
  }
  if (asked->function == TSR_AGGREGATE_MEDIAN || asked->function == TSR_AGGREGATE_PERCENTILE) {
    tsr__query_list_value(run, m, run->order[group], asked->function == TSR_AGGREGATE_MEDIAN ? 50 : asked->percent,
                          value);
    return TSR_OK;
  }
  return tsr__measure_value(&run->measures[m].measure, asked->function, record, value, error);
}
