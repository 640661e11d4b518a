/* queries.c: the times of columnar queries in the core, over a cube of 365 x 180 x 360 FLOAT32 that the program writes
 * into the directory that is its argument, once. Prints the best of five runs of each query, in ms and ns a cell.
 *
 * Usage: bench_queries DIRECTORY [THREADS [QUERIES]]; QUERIES are letters, such as "ACE".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tessera.h"

#define DAYS  365
#define LATS  180
#define LONS  360
#define CELLS ((uint64_t)DAYS * LATS * LONS)

static tsr_error error;

static void need(int rc) {
  if (rc >= 0) return;
  fprintf(stderr, "%s\n", error.message);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- The array --------------------------------------------------------------------------------------------------- */

static void set_int32(uint8_t *to, int32_t value) { memcpy(to, &value, sizeof value); }

static void write_cube(tsr_environment *environment, const char *path) {
  static const int32_t sizes[3] = {DAYS, LATS, LONS}, extents[3] = {30, LATS, LONS};
  char names[4][2] = {"t", "y", "x", "v"};
  float fill = NAN;
  tsr_field fields[4] = {0};
  tsr_interval box[3] = {0};
  tsr_column columns[4] = {0};
  for (int d = 0; d < 3; d++) {
    fields[d] = (tsr_field){.name = names[d], .is_dimension = true, .datatype = TSR_INT32, .values_per_cell = 1};
    fields[d].cell_size = 4;
    fields[d].has_domain = fields[d].has_extent = true;
    set_int32(fields[d].high, sizes[d] - 1);
    set_int32(fields[d].extent, extents[d]);
    set_int32(box[d].high, sizes[d] - 1);
  }
  fields[3] = (tsr_field){.name = names[3], .datatype = TSR_FLOAT32, .values_per_cell = 1, .cell_size = 4};
  fields[3].fill = (uint8_t *)&fill;
  fields[3].fill_size = 4;
  for (int f = 0; f < 4; f++) fields[f].filters.max_chunk_size = 65536;
  tsr_schema schema = {.version = 22, .dense = true, .capacity = 10000, .dimension_count = 3, .attribute_count = 1};
  schema.fields = fields;
  schema.coords_filters.max_chunk_size = schema.offsets_filters.max_chunk_size = 65536;
  schema.validity_filters.max_chunk_size = 65536;
  if (tsr_array_create(environment, path, &schema, NULL, &error) == TSR_EXISTS) return;
  need(error.code);
  float *values = malloc(CELLS * sizeof *values);
  for (uint64_t i = 0; i < CELLS; i++)
    values[i] =
        (float)(288 + 20 * sin((double)i / 1e5) + 5 * sin((double)i * 0.7) + (double)(i * 2654435761u % 1000) / 100);
  columns[3] = (tsr_column){.values = values, .cell_size = 4};
  tsr_array *array;
  tsr_writer *writer;
  need(tsr_array_open(environment, path, NULL, &array, &error));
  need(tsr_writer_open(array, NULL, &writer, &error));
  need(tsr_writer_append_box(writer, box, false, columns, &error));
  need(tsr_writer_prepare(writer, &error));
  need(tsr_writer_publish(writer, &error));
  tsr_writer_close(writer);
  tsr_array_close(array);
  free(values);
}

/* ---- Queries ----------------------------------------------------------------------------------------------------- */

enum { T, Y, X, V };
static uint32_t numbers[6][DAYS];
static tsr_node nodes[32];
static uint32_t node_count, operands[64], operand_count;
static tsr_query_key keys[3];
static tsr_query_aggregate aggregates[4];
static tsr_query query;
static tsr_range range;
static tsr_ranges ranges[3];
static int32_t low, high;

static uint32_t add_node(tsr_operation operation, uint32_t count, const uint32_t *of) {
  tsr_node *node = &nodes[node_count];
  *node = (tsr_node){.operation = operation, .operand_count = count, .operands = operands + operand_count};
  for (uint32_t i = 0; i < count; i++) operands[operand_count++] = of[i];
  return node_count++;
}

static uint32_t pair(tsr_operation operation, uint32_t a, uint32_t b) {
  return add_node(operation, 2, (uint32_t[]){a, b});
}

static uint32_t value(void) {
  const uint32_t node = add_node(TSR_OP_FIELD, 0, NULL);
  nodes[node].field = V;
  return node;
}

static uint32_t constant(double real) {
  const uint32_t node = add_node(TSR_OP_CONSTANT, 0, NULL);
  nodes[node].value.type = TSR_VALUE_REAL;
  nodes[node].value.as.real = real;
  return node;
}

static uint32_t expression_from;
static tsr_expression finish(void) { /* the nodes since the last one */
  const uint32_t from = expression_from;
  for (uint32_t n = from; n < node_count; n++)
    for (uint32_t i = 0; i < nodes[n].operand_count; i++) operands[nodes[n].operands - operands + i] -= from;
  expression_from = node_count;
  return (tsr_expression){.nodes = nodes + from, .count = node_count - from};
}

static void key(uint32_t field, uint32_t count, uint32_t (*number)(uint32_t)) {
  const uint32_t k = query.key_count++;
  keys[k] = (tsr_query_key){.field = field, .count = count, .numbers = numbers[k]};
  for (uint32_t i = 0; i < count; i++) {
    numbers[k][i] = number(i);
    if (numbers[k][i] >= keys[k].number_count) keys[k].number_count = numbers[k][i] + 1;
  }
}

static uint32_t month(uint32_t t) { return t * 12 / DAYS; }
static uint32_t same(uint32_t i) { return i; }
static uint32_t quarter(uint32_t i) { return i / 4; }
static uint32_t thirtieth(uint32_t i) { return i / 30; }

static void aggregate(tsr_aggregate_function function, bool argument) {
  tsr_query_aggregate *a = &aggregates[query.aggregate_count++];
  *a = (tsr_query_aggregate){.function = function, .has_argument = argument};
  if (argument) a->argument = finish();
}

static void limit(uint32_t field, int32_t from, int32_t to) {
  low = from;
  high = to;
  range = (tsr_range){.low = from >= 0 ? &low : NULL, .high = to >= 0 ? &high : NULL};
  for (int d = 0; d < 3; d++) ranges[d] = (tsr_ranges){.all = true};
  ranges[field] = (tsr_ranges){.ranges = &range, .count = 1};
  query.dimensions = ranges;
}

static void make_query(char name) {
  node_count = operand_count = expression_from = 0;
  query = (tsr_query){.keys = keys, .aggregates = aggregates};
  switch (name) {
  case 'A':
    key(T, DAYS, thirtieth);
    value(), aggregate(TSR_AGGREGATE_AVG, true);
    aggregate(TSR_AGGREGATE_COUNT, false);
    break;
  case 'B':
    key(T, DAYS, month);
    key(Y, LATS, quarter);
    pair(TSR_OP_SUBTRACT, value(), constant(273.15)), aggregate(TSR_AGGREGATE_AVG, true);
    pair(TSR_OP_GREATER, value(), constant(200));
    query.where = finish();
    query.has_where = true;
    limit(T, 31, -1);
    break;
  case 'C':
    key(T, DAYS, month);
    key(Y, LATS, same);
    key(X, LONS, same);
    value(), aggregate(TSR_AGGREGATE_AVG, true);
    break;
  case 'D': {
    key(Y, LATS, same);
    const uint32_t v = value(), is = pair(TSR_OP_GREATER, v, constant(293.15)), one = constant(1);
    add_node(TSR_OP_CASE, 3, (uint32_t[]){is, one, constant(0)});
    aggregate(TSR_AGGREGATE_AVG, true);
    value(), aggregate(TSR_AGGREGATE_MAX, true);
    value(), aggregate(TSR_AGGREGATE_MIN, true);
    break;
  }
  case 'E':
    key(T, DAYS, same);
    key(Y, LATS, quarter);
    key(X, LONS, quarter);
    value(), aggregate(TSR_AGGREGATE_AVG, true);
    break;
  case 'F': {
    const uint32_t five = constant(5), part = pair(TSR_OP_DIVIDE, value(), five);
    pair(TSR_OP_MULTIPLY, add_node(TSR_OP_FLOOR, 1, &part), five);
    query.key_count = 1;
    keys[0] = (tsr_query_key){.expression = finish()};
    aggregate(TSR_AGGREGATE_COUNT, false);
    break;
  }
  case 'G': {
    const uint32_t v = value();
    pair(TSR_OP_MULTIPLY, v, v), aggregate(TSR_AGGREGATE_SUM, true);
    value(), aggregate(TSR_AGGREGATE_SUM, true);
    aggregate(TSR_AGGREGATE_COUNT, false);
    limit(Y, 30, 60);
    break;
  }
  default: /* Z: the floor */ key(Y, LATS, same); aggregate(TSR_AGGREGATE_COUNT, false);
  }
}

int main(int argc, char **argv) {
  tsr_environment *environment;
  tsr_array *array;
  tsr_snapshot *snapshot;
  char path[1024];
  if (argc < 2) {
    fprintf(stderr, "usage: bench_queries DIRECTORY [THREADS [QUERIES]]\n");
    return 2;
  }
  snprintf(path, sizeof path, "%s/cube", argv[1]);
  need(tsr_environment_open(NULL, &environment, &error));
  write_cube(environment, path);
  const tsr_array_options options = {.cache_bytes = UINT64_C(1) << 30};
  need(tsr_array_open(environment, path, &options, &array, &error));
  need(tsr_snapshot_open(array, NULL, 0, TSR_TIME_NOW, &snapshot, &error));
  for (const char *name = argc > 3 ? argv[3] : "ABCDEFGZ"; *name; name++) {
    double best = INFINITY;
    uint64_t groups = 0;
    tsr_value first = {0};
    make_query(*name);
    query.threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    for (int round = 0; round < 5; round++) {
      tsr_query_run *run;
      const double start = now();
      need(tsr_query_start(snapshot, &query, &run, &error));
      const double took = now() - start;
      if (took < best) best = took;
      groups = tsr_query_groups(run);
      need(tsr_query_aggregate_value(run, groups / 2, 0, &first, &error));
      tsr_query_close(run);
    }
    printf("%c %8.1f ms %6.2f ns a cell %10llu groups, value %.17g\n", *name, best, best * 1e6 / (double)CELLS,
           (unsigned long long)groups, first.type == TSR_VALUE_REAL ? first.as.real : (double)first.as.integer);
  }
  tsr_snapshot_close(snapshot);
  tsr_array_close(array);
  tsr_environment_close(environment);
  return 0;
}
