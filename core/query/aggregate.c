/* aggregate.c: tsr_aggregate_open: count, sum, minimum and maximum of a field over a box, grouped by the values of
 * dimensions. It is a query with the field as its measure and the dimensions as keys.
 *
 * Its habits differ from those of a query of SQL: datetimes and times are integers, sums of integers may exceed 64 bits
 * without an error, and sums of reals may come from the statistics of tiles. Such a sum is an ordinary sum with
 * rounding errors; if the likely error may show in a result, everything is read again without statistics.
 */
#include "query/query.h"

#include <math.h>
#include <string.h>

#include "array/array.h"
#include "base/options.h"
#include "model/datatype.h"

#define DOUBT_MAX 1e-10 /* tolerated relative error of a sum */

enum { AGGREGATE_SUM_OF, AGGREGATE_LEAST, AGGREGATE_GREATEST, AGGREGATES_OF }; /* the aggregates of the query */

struct tsr_aggregate {
  tsr_query_run *run;
  const tsr_field *field;
  const tsr_field *by[TSR_BY_MAX];
  uint32_t by_count;
  tsr_node value, nodes[TSR_BY_MAX];
  tsr_query_key by_keys[TSR_BY_MAX];
  tsr_query_aggregate of[AGGREGATES_OF];
  uint8_t keys[TSR_BY_MAX][8]; /* of the last row that the caller got */
};

static bool is_numbers(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && kind != TSR_KIND_TEXT && kind != TSR_KIND_BYTES;
}

static int check_request(const tsr_schema *schema, const tsr_aggregate_request *request, tsr_error *error) {
  if (request->by_count > TSR_BY_MAX)
    return tsr__fail(error, TSR_ERROR, "groups by %u dimensions: at most %u are possible", request->by_count,
                     TSR_BY_MAX);
  if (request->field >= schema->dimension_count + schema->attribute_count ||
      !is_numbers(&schema->fields[request->field]))
    return tsr__fail(error, TSR_ERROR, "field %u cannot be summed", request->field);
  for (uint32_t k = 0; k < request->by_count; k++)
    if (request->by[k] >= schema->dimension_count)
      return tsr__fail(error, TSR_ERROR, "field %u is not a dimension", request->by[k]);
  return TSR_OK;
}

static tsr_expression expression_of(tsr_node *node, uint32_t field) {
  *node = (tsr_node){.operation = TSR_OP_FIELD, .field = field};
  return (tsr_expression){.nodes = node, .count = 1};
}

static void make_query(tsr_aggregate *a, const tsr_schema *schema, const tsr_aggregate_request *request,
                       tsr_query *query) {
  static const tsr_aggregate_function functions[AGGREGATES_OF] = {TSR_AGGREGATE_TOTAL, TSR_AGGREGATE_MIN,
                                                                  TSR_AGGREGATE_MAX};
  a->field = &schema->fields[request->field];
  a->by_count = request->by_count;
  for (uint32_t k = 0; k < request->by_count; k++) {
    a->by[k] = &schema->fields[request->by[k]];
    a->by_keys[k] = (tsr_query_key){.expression = expression_of(&a->nodes[k], request->by[k])};
  }
  for (uint32_t i = 0; i < AGGREGATES_OF; i++)
    a->of[i] = (tsr_query_aggregate){
        .function = functions[i], .has_argument = true, .argument = expression_of(&a->value, request->field)};
  *query = (tsr_query){.dimensions = request->dimensions,
                       .key_count = request->by_count,
                       .keys = a->by_keys,
                       .aggregate_count = AGGREGATES_OF,
                       .aggregates = a->of,
                       .read_all = request->read_all,
                       .memory_bytes = request->memory_bytes,
                       .threads = request->threads};
}

static const tsr_measure *measure_of(const tsr_aggregate *a) {
  return &a->run->layout.measures[a->run->layout.measure_of[AGGREGATE_SUM_OF]].measure;
}

/* Returns the sum of a group, rounded to a double; NaN if infinities of both signs are added. */
static double real_sum_of(const tsr_aggregate *a, const uint64_t *record) {
  tsr_value value;
  (void)tsr__measure_value(measure_of(a), TSR_AGGREGATE_TOTAL, record, &value, NULL); /* a total never fails */
  return value.type == TSR_VALUE_REAL ? value.as.real : NAN;
}

/* Returns true if rounding errors of sums from statistics may show in a result. */
static bool aggregate_is_doubtful(const tsr_aggregate *a) {
  for (uint64_t g = 0; g < tsr_query_groups(a->run); g++) {
    const uint64_t *record = query_result_record(a->run, g);
    double doubt;
    memcpy(&doubt, &record[a->run->layout.doubt_at], sizeof doubt);
    if (doubt > 0 && !(doubt <= DOUBT_MAX * fabs(real_sum_of(a, record)))) return true;
  }
  return false;
}

static int aggregate_run(tsr_aggregate *a, tsr_snapshot *snapshot, const tsr_aggregate_request *request,
                         tsr_error *error) {
  const query_habits habits = {.work = "aggregate", .plain = true, .stored_reals = true};
  tsr_query query;
  TSR_TRY(check_request(snapshot->schema, request, error));
  make_query(a, snapshot->schema, request, &query);
  TSR_TRY(tsr__query_open(snapshot, &query, &habits, &a->run, error));
  if (query.read_all || !aggregate_is_doubtful(a)) return TSR_OK;
  tsr_query_close(a->run);
  query.read_all = true;
  return tsr__query_open(snapshot, &query, &habits, &a->run, error);
}

int tsr_aggregate_open(tsr_snapshot *snapshot, const tsr_aggregate_request *request, tsr_aggregate **aggregate,
                       tsr_error *error) {
  TSR_OWN_ERROR(error);
  tsr_aggregate_request own;
  tsr_aggregate *a;
  TSR_TRY(TSR_TAKE_OPTIONS(tsr_aggregate_request, threads, request, &own, error));
  TSR_TRY(TSR_ALLOC(&snapshot->array->memory, &a, error));
  const int rc = aggregate_run(a, snapshot, &own, error);
  if (rc < 0) {
    tsr_aggregate_close(a);
    return rc;
  }
  *aggregate = a;
  return TSR_OK;
}

void tsr_aggregate_close(tsr_aggregate *aggregate) {
  if (!aggregate) return;
  tsr_query_close(aggregate->run);
  tsr__free(aggregate);
}

uint64_t tsr_aggregate_count(const tsr_aggregate *aggregate) { return tsr_query_groups(aggregate->run); }

/* Writes a number in a field's datatype. */
static void set_number(const tsr_field *field, const tsr_value *value, uint8_t out[8]) {
  const float narrow = value->type == TSR_VALUE_REAL ? (float)value->as.real : 0;
  if (field->datatype == TSR_FLOAT32) memcpy(out, &narrow, sizeof narrow);
  else memcpy(out, &value->as.unsigned_integer, tsr_datatype_size(field->datatype)); /* little-endian */
}

static void set_key(tsr_aggregate *a, uint64_t index, uint32_t k, tsr_aggregate_row *row) {
  tsr_value value;
  tsr_query_key_value(a->run, index, k, &value);
  row->keys[k] = a->keys[k];
  row->key_sizes[k] = a->by[k]->cell_size;
  if (value.type == TSR_VALUE_TEXT) {
    row->keys[k] = value.as.text.bytes;
    row->key_sizes[k] = value.as.text.size;
  } else if (value.type == TSR_VALUE_NULL) { /* a NaN coordinate */
    tsr__key_value(a->by[k]->datatype, UINT64_MAX, a->keys[k]);
  } else {
    set_number(a->by[k], &value, a->keys[k]);
  }
}

void tsr_aggregate_get(tsr_aggregate *aggregate, uint64_t index, tsr_aggregate_row *row) {
  tsr_aggregate *a = aggregate;
  const tsr_measure *m = measure_of(a);
  const uint64_t *record = query_result_record(a->run, index);
  *row = (tsr_aggregate_row){.count = record[m->count_at], .nulls = record[0] - record[m->count_at]};
  row->real_sum = real_sum_of(a, record);
  if (tsr_datatype_kind(a->field->datatype) != TSR_KIND_FLOAT) {
    const uint64_t *sum = record + m->sum_at; /* 128 bits, low half first */
    row->fits = sum[1] == (sum[0] >> 63 ? UINT64_MAX : 0);
    row->sum = row->fits ? (int64_t)sum[0] : 0;
  }
  for (uint32_t i = AGGREGATE_LEAST; row->count > 0 && i <= AGGREGATE_GREATEST; i++) {
    tsr_value value;
    (void)tsr__measure_value(m, a->of[i].function, record, &value, NULL); /* an extreme never fails */
    set_number(a->field, &value, i == AGGREGATE_LEAST ? row->min : row->max);
  }
  for (uint32_t k = 0; k < a->by_count; k++) set_key(a, index, k, row);
}
