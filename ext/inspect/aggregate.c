/* aggregate.c: tessera_aggregate(path, attribute[, slice[, by]]), which shows count, sum, minimum, maximum and mean of
 * an attribute, equal to the results of SQL's functions over the same rows.
 *
 * The core aggregates numbers. All other attributes (texts, datetimes, several values per cell, enumerations) are
 * aggregated by SQLite's own functions; so are numbers whose values or group keys have no common type and order in SQL
 * (is_sqlites). For that an inner statement runs over a second scan of this same table, the cell scan, whose rows are
 * single cells: the value is in the column `min`, beside the group keys. While the inner statement takes its first
 * step, connection->cells_for points to the outer scan; this is how aggregate_open recognizes a cell scan.
 *
 * Sections: arguments, numbers, other attributes, the table. */
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "sql/json.h"
#include "sql/names.h"
#include "sql/statement.h"
#include "values/compare.h"
#include "values/slice.h"
#include "values/value.h"
#include "inspect/inspect.h"
#include "call/function.h"
#include "call/table_function.h"

typedef struct aggregate_label { /* a dimension label that is a key */
  tsr_label_index *index; /* NULL: the key is the dimension itself */
  tsx_column column; /* how SQL shows the label */
} aggregate_label;

typedef struct table_aggregate_state {
  tsx_inside in;
  uint32_t field, by[TSR_BY_MAX], by_count;
  aggregate_label labels[TSR_BY_MAX]; /* by key */
  tsx_slice slice;
  tsr_range *ranges;
  tsr_ranges *dimensions;
  /* if the core aggregates: */
  tsr_aggregate *aggregate;
  tsr_aggregate_row row;
  /* if SQLite aggregates: */
  sqlite3_stmt *statement;
  /* in a cell scan: */
  const struct table_aggregate_state *served; /* the outer scan's state; NULL: this is not a cell scan */
  tsx_column column;
  tsr_reader *reader;
  const tsr_batch *batch;
  uint64_t at; /* the current row of the batch */
  const tsr_column *value, *keys[TSR_BY_MAX]; /* columns of the batch */
} table_aggregate_state;

enum {
  AGGREGATE_KEY1,
  AGGREGATE_KEY2,
  AGGREGATE_KEY3,
  AGGREGATE_COUNT,
  AGGREGATE_SUM,
  AGGREGATE_MIN,
  AGGREGATE_MAX,
  AGGREGATE_MEAN,
  AGGREGATE_NULLS
};

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

/* Adds a label as the next key, and loads its values at the times of the address. */
static int open_by_label(table_aggregate_state *s, uint32_t label, tsr_error *error) {
  const tsx_option_shows shows = {.uint64_signed = s->in.address.uint64_signed};
  aggregate_label *by = &s->labels[s->by_count];
  TSX_TRY(
      tsr_label_open(s->in.address.array->core, s->in.schema, label, s->in.address.memory_bytes, &by->index, error));
  TSX_TRY(tsr_label_read(by->index, s->in.address.since, s->in.address.as_of, error));
  tsx_column_choose(tsr_label_field(by->index), NULL, &shows, &by->column);
  tsx_column_prepare(&by->column);
  s->by[s->by_count++] = s->in.schema->labels[label].dimension;
  return TSR_OK;
}

static int add_by(table_aggregate_state *s, const char *name, tsr_error *error) {
  uint32_t d = 0, label;
  tsr_error ignored = {0};
  if (s->by_count == TSR_BY_MAX) return tsx_fail(error, TSR_ERROR, "at most %d dimensions to group by", TSR_BY_MAX);
  while (name && d < s->in.schema->dimension_count && sqlite3_stricmp(s->in.names[d], name) != 0) d++;
  if (name && d == s->in.schema->dimension_count &&
      tsx_label_named(&s->in.address, s->in.schema, name, &label, &ignored) == TSR_OK)
    return open_by_label(s, label, error);
  if (!name || d == s->in.schema->dimension_count)
    return tsx_names_fail(s->in.names, 0, s->in.schema->dimension_count, error,
                          "the array has no dimension '%.100s' to group by", name ? name : "");
  s->by[s->by_count++] = d;
  return TSR_OK;
}

static int read_by(void *argument, const tsx_json_option *o, tsr_error *error) {
  const char *name = (const char *)sqlite3_value_text(o->value);
  if (!name && strcmp(o->type, "null") != 0) return tsx_out_of_memory(error);
  return add_by(argument, name, error);
}

/* Parses the argument `by`: the name of a dimension, or a JSON array of names. */
static int parse_by(sqlite3 *db, table_aggregate_state *s, sqlite3_value *by, tsr_error *error) {
  if (!by || sqlite3_value_type(by) == SQLITE_NULL) return TSR_OK;
  const char *text = (const char *)sqlite3_value_text(by);
  if (!text) return tsx_out_of_memory(error);
  if (text[strspn(text, " \t\r\n")] != '[') return add_by(s, text, error);
  return tsx_elements_each(db, by, "expected a name or a JSON array of names to group by", read_by, s, error);
}

static int parse_arguments(tsx_scan *scan, table_aggregate_state *s, tsr_error *error) {
  sqlite3 *db = scan->connection->db;
  const tsr_schema *schema = s->in.schema;
  const char *name = (const char *)sqlite3_value_text(tsx_scan_argument(scan, 1));
  if (!name) return tsx_out_of_memory(error);
  tsr_error lacking = {0};
  const int code = tsx_attribute_find(schema, s->in.address.given, name, &s->field, &lacking);
  if (code < 0) return tsx_fail(error, code, "tessera_aggregate: %s", lacking.message);
  const tsx_label_source labels = tsx_address_labels(&s->in.address);
  TSX_TRY(
      tsx_slice_parse(db, tsx_scan_argument(scan, 2), schema, &labels, s->in.address.uint64_signed, &s->slice, error));
  TSX_TRY(parse_by(db, s, tsx_scan_argument(scan, 3), error));
  s->ranges = sqlite3_malloc64(schema->dimension_count * sizeof *s->ranges);
  s->dimensions = sqlite3_malloc64(schema->dimension_count * sizeof *s->dimensions);
  if (!s->ranges || !s->dimensions) return tsx_out_of_memory(error);
  tsx_slice_ranges(&s->slice, schema, s->ranges, s->dimensions);
  return TSR_OK;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static bool table_aggregate_is_number(const tsr_field *field) {
  const tsr_kind kind = tsr_datatype_kind(field->datatype);
  return field->values_per_cell == 1 && !field->enumeration &&
         (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED || kind == TSR_KIND_FLOAT || kind == TSR_KIND_BOOLEAN);
}

static int aggregate_numbers(table_aggregate_state *s, tsr_error *error) {
  const tsr_aggregate_request request = {.dimensions = s->dimensions,
                                         .field = s->field,
                                         .by = s->by,
                                         .by_count = s->by_count,
                                         .memory_bytes = s->in.address.memory_bytes};
  const int code = tsr_aggregate_open(s->in.snapshot->core, &request, &s->aggregate, error);
  if (code != TSR_BUDGET || s->by_count == 0) return code;
  return tsx_fail(error, TSR_BUDGET,
                  "%s: too many groups for memory_mb: take a slice at a time, fewer dimensions, or more memory_mb",
                  s->in.address.given);
}

static bool is_past_signed(const void *value) {
  uint64_t number;
  memcpy(&number, value, sizeof number);
  return number > INT64_MAX;
}

/* Returns true if SQL sorts a key differently from the array: a time that has no ISO text and is shown as an integer
 * among texts, or a number above INT64_MAX that is shown as signed. (Shown as text, such numbers sort after all others,
 * as in the array.) */
static bool sorts_differently(const tsr_field *dimension, bool uint64_signed, const void *key) {
  const tsr_kind kind = tsr_datatype_kind(dimension->datatype);
  char text[48];
  int64_t time;
  if (dimension->datatype == TSR_UINT64) return uint64_signed && is_past_signed(key);
  if (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) return false;
  memcpy(&time, key, sizeof time);
  return time != INT64_MIN && tsr_datetime_print(dimension->datatype, time, text) == 0;
}

/* Returns true if SQLite must aggregate after all, because the core's results have a value above INT64_MAX, which is
 * text in SQL, or a key that sorts differently, or a coordinate without a label, since all of these form one group. */
static bool is_sqlites(const table_aggregate_state *s) {
  const tsr_field *fields = s->in.schema->fields;
  bool keys = false;
  for (uint32_t k = 0; k < s->by_count; k++)
    keys |= s->labels[k].index || tsr_datatype_size(fields[s->by[k]].datatype) == 8;
  const bool values = fields[s->field].datatype == TSR_UINT64;
  for (uint64_t i = 0; (keys || values) && i < tsr_aggregate_count(s->aggregate); i++) {
    tsr_aggregate_row row;
    tsr_aggregate_get(s->aggregate, i, &row);
    if (values && row.count > 0 && is_past_signed(row.max)) return true;
    for (uint32_t k = 0; k < s->by_count; k++)
      if (s->labels[k].index) {
        uint64_t cell;
        if (!tsr_label_cell(s->labels[k].index, row.keys[k], &cell)) return true;
      } else if (sorts_differently(&fields[s->by[k]], s->in.address.uint64_signed, row.keys[k])) return true;
  }
  return false;
}

/* Sets the result to key number k, for the coordinate `key`: the coordinate itself or its label. */
static void result_key(sqlite3_context *context, const table_aggregate_state *s, uint32_t k, const void *key,
                       uint64_t size) {
  const tsr_field *dimension = &s->in.schema->fields[s->by[k]];
  const aggregate_label *label = &s->labels[k];
  uint64_t cell;
  if (label->index) {
    if (tsr_label_cell(label->index, key, &cell))
      tsx_column_result(context, &label->column, tsr_label_cells(label->index), cell, false);
    return;
  }
  tsx_value_result(context, tsx_datatype_shown(dimension->datatype, s->in.address.uint64_signed),
                   dimension->values_per_cell, key, size);
}

static int number_column(const table_aggregate_state *s, sqlite3_context *context, int column, tsr_error *error) {
  const tsr_aggregate_row *row = &s->row;
  const tsr_field *field = &s->in.schema->fields[s->field];
  if (column <= AGGREGATE_KEY3) {
    if ((uint32_t)column >= s->by_count) return TSR_OK;
    result_key(context, s, (uint32_t)column, row->keys[column], row->key_sizes[column]);
    return TSR_OK;
  }
  if (column == AGGREGATE_COUNT) tsx_result_unsigned(context, row->count);
  if (column == AGGREGATE_NULLS) tsx_result_unsigned(context, row->nulls);
  if (row->count == 0) return TSR_OK;
  switch (column) {
  case AGGREGATE_SUM:
    if (tsr_datatype_kind(field->datatype) == TSR_KIND_FLOAT) sqlite3_result_double(context, row->real_sum);
    else if (row->fits) sqlite3_result_int64(context, row->sum);
    else return tsx_fail(error, TSR_ERROR, TSR_SUM_OVERFLOW ": '%s': mean * count is a REAL", field->name);
    break;
  case AGGREGATE_MIN: tsx_value_result(context, field->datatype, 1, row->min, field->cell_size); break;
  case AGGREGATE_MAX: tsx_value_result(context, field->datatype, 1, row->max, field->cell_size); break;
  case AGGREGATE_MEAN: sqlite3_result_double(context, row->real_sum / (double)row->count); break;
  default: break;
  }
  return TSR_OK;
}

/* ---- Other attributes -------------------------------------------------------------------------------------------- */

static int aggregate_others(tsx_scan *scan, table_aggregate_state *s, tsr_error *error) {
  static const char *const groups[] = {"", " GROUP BY key1 ORDER BY key1", " GROUP BY key1, key2 ORDER BY key1, key2",
                                       " GROUP BY key1, key2, key3 ORDER BY key1, key2, key3"};
  sqlite3 *db = scan->connection->db;
  char *text =
      sqlite3_mprintf("SELECT key1, key2, key3, count(min), sum(min), min(min), max(min), avg(min), count(*) - "
                      "count(min) FROM tessera_aggregate('', '')%s",
                      groups[s->by_count]);
  TSX_TRY(tsx_core_result(db, tsx_sql_prepare(db, text, &s->statement), error));
  scan->connection->cells_for = scan;
  return TSR_OK;
}

static int step_others(tsx_scan *scan, const table_aggregate_state *s, tsr_error *error) {
  const int step = sqlite3_step(s->statement);
  scan->connection->cells_for = NULL;
  return tsx_core_result(scan->connection->db, step, error);
}

/* Opens a cell scan for the outer scan in connection->cells_for. */
static int open_cells(tsx_scan *scan, table_aggregate_state *s, tsr_error *error) {
  s->served = scan->connection->cells_for->state;
  scan->connection->cells_for = NULL;
  const table_aggregate_state *f = s->served;
  const tsx_option_shows shows = {.uint64_signed = f->in.address.uint64_signed};
  const tsr_schema *schema = f->in.schema;
  const tsr_field *field = &schema->fields[f->field];
  const tsr_enumeration *enumeration = NULL;
  const uint32_t n = schema->dimension_count + schema->attribute_count;
  if (field->enumeration)
    TSX_TRY(tsr_array_enumeration(f->in.address.array->core, schema, field->enumeration, &enumeration, error));
  TSX_TRY(tsx_times_known(schema, field->datatype, field->name, &shows, error));
  tsx_column_choose(field, enumeration, &shows, &s->column);
  TSX_TRY(tsr_reader_open(f->in.snapshot->core, &s->reader, error));
  bool *fields = sqlite3_malloc64(n * sizeof *fields);
  if (!fields) return tsx_out_of_memory(error);
  memset(fields, 0, n * sizeof *fields);
  fields[f->field] = true;
  for (uint32_t k = 0; k < f->by_count; k++) fields[f->by[k]] = true;
  const tsr_request request = {
      .dimensions = f->dimensions, .fields = fields, .memory_bytes = f->in.address.memory_bytes};
  const int code = tsr_reader_start(s->reader, &request, error);
  sqlite3_free(fields);
  return code;
}

static int next_cell(table_aggregate_state *s, tsr_error *error) {
  if (s->batch && ++s->at < s->batch->count) return 1;
  s->at = 0;
  int code = tsr_reader_next(s->reader, &s->batch, error);
  if (code <= 0) return code;
  code = tsr_reader_column(s->reader, s->served->field, &s->value, error);
  for (uint32_t k = 0; code >= 0 && k < s->served->by_count; k++)
    code = tsr_reader_column(s->reader, s->served->by[k], &s->keys[k], error);
  return code < 0 ? code : 1;
}

static void cell_column(const table_aggregate_state *s, sqlite3_context *context, int column) {
  const uint64_t i = s->batch->selection ? s->batch->selection[s->at] : s->batch->first + s->at;
  if (column == AGGREGATE_MIN) tsx_column_result(context, &s->column, s->value, i, false);
  if (column > AGGREGATE_KEY3 || (uint32_t)column >= s->served->by_count) return;
  const uint32_t k = (uint32_t)column;
  const tsr_column *key = s->keys[column];
  const uint64_t at = key->constant ? 0 : i;
  const uint8_t *values = key->values;
  if (key->offsets)
    result_key(context, s->served, k, values + key->offsets[at], key->offsets[at + 1] - key->offsets[at]);
  else result_key(context, s->served, k, values + at * key->cell_size, key->cell_size);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int aggregate_open(tsx_scan *scan, tsr_error *error) {
  table_aggregate_state *s = scan->state;
  if (scan->connection->cells_for) return open_cells(scan, s, error);
  TSX_TRY(tsx_inside_open(scan, true, error));
  TSX_TRY(parse_arguments(scan, s, error));
  if (table_aggregate_is_number(&s->in.schema->fields[s->field])) {
    TSX_TRY(aggregate_numbers(s, error));
    if (!is_sqlites(s)) return TSR_OK;
  }
  tsr_aggregate_close(s->aggregate);
  s->aggregate = NULL;
  return aggregate_others(scan, s, error);
}

static int aggregate_next(tsx_scan *scan, tsr_error *error) {
  table_aggregate_state *s = scan->state;
  if (s->served) return next_cell(s, error);
  if (s->statement) return step_others(scan, s, error);
  if ((uint64_t)scan->row >= tsr_aggregate_count(s->aggregate)) return 0;
  tsr_aggregate_get(s->aggregate, (uint64_t)scan->row, &s->row);
  return 1;
}

static int aggregate_column(tsx_scan *scan, sqlite3_context *context, int column, tsr_error *error) {
  const table_aggregate_state *s = scan->state;
  if (s->served) cell_column(s, context, column);
  else if (s->statement) sqlite3_result_value(context, sqlite3_column_value(s->statement, column));
  else return number_column(s, context, column, error);
  return TSR_OK;
}

static void aggregate_close(tsx_scan *scan) {
  table_aggregate_state *s = scan->state;
  if (scan->connection->cells_for == scan) scan->connection->cells_for = NULL;
  sqlite3_finalize(s->statement);
  tsr_reader_close(s->reader);
  tsr_aggregate_close(s->aggregate);
  tsx_slice_release(&s->slice);
  sqlite3_free(s->ranges);
  sqlite3_free(s->dimensions);
  for (uint32_t k = 0; k < TSR_BY_MAX && !s->served; k++) tsr_label_close(s->labels[k].index);
  if (!s->served) tsx_inside_close(scan);
}

const tsx_about tsx_about_aggregate = {
    .name = "tessera_aggregate",
    .usage = "tessera_aggregate(path, attribute[, slice[, by]])",
    .columns = (const char *const[]){"key1", "key2", "key3", "count INTEGER", "sum", "min", "max", "mean REAL",
                                     "nulls INTEGER", NULL},
    .arguments = (const char *const[]){"array_path", "attribute", "slice", "by", NULL},
    .required = 2,
    .same = -1,
    .rows = 100,
    .state_size = sizeof(table_aggregate_state),
    .open = aggregate_open,
    .next = aggregate_next,
    .column = aggregate_column,
    .close = aggregate_close};
