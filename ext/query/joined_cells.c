/* joined_cells.c: reads the cells of a joined array by the engine: SQLite takes most of the time of reading rows.
 *
 * Only numbers are read in this way, which the engine gives as SQLite would. Texts, datetimes, labels, and arrays with
 * times or with conditions of their own are read as rows.
 */
#include "query/joined_cells.h"

#include <string.h>

#include "connection/errors.h"
#include "query/compile.h"
#include "query/joined_rows.h"

typedef struct cells_bounds { /* the ends of a dimension's range, in its datatype */
  int64_t ends[2];
  tsr_range range;
} cells_bounds;

static bool cells_are_numbers(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  if (field->values_per_cell != 1 || field->enumeration || field->datatype == TSR_UINT64) return false;
  return kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_FLOAT;
}

/* Returns true if the engine can give what the statement would. */
static int cells_suit(const tsx_join *join, const tsx_table *table, sqlite3_stmt *statement, const uint32_t *columns,
                      uint32_t count, tsr_error *error) {
  if (join->on.filter_count > 0 || join->source.times_begin) return 0;
  for (uint32_t i = 0; i < count; i++) {
    if (columns[i] >= table->column_count || !cells_are_numbers(table->columns[columns[i]].description)) return 0;
    const int code = tsx_column_visible(statement, 1 + (int)i, table->columns[columns[i]].name, error);
    if (code <= 0) return code;
  }
  return 1;
}

/* Limits a dimension to the values low to high. Returns false if it has none of them. */
static bool cells_limit(const tsr_field *dimension, int64_t low, int64_t high, cells_bounds *bounds,
                        tsr_ranges *ranges) {
  const unsigned bits = 8 * (unsigned)dimension->cell_size;
  const bool is_signed = tsr_datatype_kind(dimension->datatype) == TSR_KIND_SIGNED;
  const int64_t least = !is_signed ? 0 : bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1));
  const int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
  bounds->ends[0] = low > least ? low : least;
  bounds->ends[1] = high < most ? high : most;
  bounds->range = (tsr_range){.low = &bounds->ends[0], .high = &bounds->ends[1]};
  *ranges = (tsr_ranges){.ranges = &bounds->range, .count = 1};
  return bounds->ends[0] <= bounds->ends[1];
}

/* Limits the dimensions that are bound to dimensions. Returns 1; 0 if no cell can be met. */
static int cells_dimensions(tsx_query *query, uint32_t j, const tsx_table *table, tsr_ranges **ranges,
                            tsr_error *error) {
  const tsx_join_on *on = &query->select.joins[j].on;
  const uint32_t count = table->schema->dimension_count;
  cells_bounds *bounds = tsx_arena_take(&query->select.arena, count * sizeof *bounds);
  *ranges = tsx_arena_take(&query->select.arena, count * sizeof **ranges);
  if (!bounds || !*ranges) return tsx_out_of_memory(error);
  for (uint32_t d = 0; d < count; d++) (*ranges)[d] = (tsr_ranges){.all = true};
  for (uint32_t b = 0; b < on->binding_count; b++) {
    const tsx_column *column = &table->columns[on->bindings[b].column];
    int64_t ends[2];
    if (!tsx_joined_within(query, j, b, ends) || !column->description->is_dimension || !(*ranges)[column->field].all)
      continue;
    if (!cells_limit(column->description, ends[0], ends[1], &bounds[column->field], &(*ranges)[column->field]))
      return 0;
  }
  return 1;
}

static tsr_value cells_value(const tsr_query_column *column, uint64_t r) {
  tsr_value value = {.type = column->nulls && column->nulls[r] ? TSR_VALUE_NULL : column->type};
  if (column->type == TSR_VALUE_REAL) value.as.real = column->as.reals[r];
  else value.as.integer = column->as.integers[r];
  return value;
}

static int cells_take(tsx_query *query, uint32_t j, tsr_query_run *run, uint32_t count, tsr_error *error) {
  tsr_value *values = tsx_arena_take(&query->select.arena, count * sizeof *values);
  tsr_query_block block;
  int code;
  if (!values) return tsx_out_of_memory(error);
  while ((code = tsr_query_next(run, &block, error)) > 0)
    for (uint64_t r = 0; r < block.count; r++) {
      for (uint32_t i = 0; i < count; i++) values[i] = cells_value(&block.columns[i], r);
      if ((code = tsx_joined_take(query, j, values, error)) < 0) return code;
    }
  return code;
}

static int cells_read(tsx_query *query, uint32_t j, tsx_table *table, const tsr_query *request, tsr_error *error) {
  tsx_snapshot *snapshot = NULL;
  tsr_query_run *run = NULL;
  int code = tsx_array_permitted(query->connection, table->array, error);
  if (code == TSR_OK) code = tsx_table_snapshot(table, &snapshot, error);
  if (code == TSR_OK) code = tsr_query_open(snapshot->core, request, &run, error);
  if (code == TSR_OK) code = cells_take(query, j, run, request->column_count, error);
  tsr_query_close(run);
  tsx_snapshot_release(snapshot);
  return code;
}

int tsx_joined_cells(tsx_query *query, uint32_t j, sqlite3_stmt *statement, const uint32_t *columns, uint32_t count,
                     tsr_error *error) {
  const tsx_join *join = &query->select.joins[j];
  tsx_table *table =
      join->is_array ? tsx_table_connected(query->connection, join->source.schema, join->source.table) : NULL;
  tsr_ranges *ranges;
  int code = table ? tsx_table_ready(table, error) : 0;
  if (!table || code < 0 || (code = cells_suit(join, table, statement, columns, count, error)) <= 0) return code;
  tsr_node *nodes = tsx_arena_take(&query->select.arena, count * sizeof *nodes);
  tsr_expression *expressions = tsx_arena_take(&query->select.arena, count * sizeof *expressions);
  if (!nodes || !expressions) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < count; i++) {
    nodes[i] = (tsr_node){.operation = TSR_OP_FIELD, .field = table->columns[columns[i]].field};
    expressions[i] = (tsr_expression){.nodes = &nodes[i], .count = 1};
  }
  code = cells_dimensions(query, j, table, &ranges, error);
  if (code <= 0) return code < 0 ? code : 1;
  const tsr_query request = {.dimensions = ranges,
                             .fill_unwritten = table->options.shows.fill_unwritten,
                             .columns = expressions,
                             .column_count = count,
                             .memory_bytes =
                                 query->memory_bytes ? query->memory_bytes : table->options.limits.memory_bytes,
                             .threads = query->threads ? query->threads : table->options.limits.threads};
  code = cells_read(query, j, table, &request, error);
  return code < 0 ? code : 1;
}
