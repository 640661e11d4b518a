/* ingest_call.c: a call of tessera_create_as or its kin, from the names of the source's columns to the array.
 *
 * A new array in a directory or bucket is prepared under a name that readers do not see, gets its rows and its metadata,
 * and is published by one step. One in the database is made within a savepoint. Rows are appended by one commit.
 */
#include "functions/ingest_call.h"

#include <stdlib.h>
#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/json_in.h"
#include "definition/define.h"
#include "values/json.h"
#include "values/value.h"
#include "table/ddl.h"
#include "functions/ingest_array.h"
#include "functions/ingest_labels.h"
#include "functions/ingest_options.h"

#define INGEST_COLUMNS_MAX 32767
#define INGEST_NAMED       8 /* columns that a message names */

/* ---- Begin ------------------------------------------------------------------------------------------------------- */

int tsx_ingest_begin(tsx_ingest_call *call, const char *path, uint32_t count, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  if (count > INGEST_COLUMNS_MAX)
    return tsx_fail(error, TSR_TOOBIG, "the source has %u columns; an array may have %d", count, INGEST_COLUMNS_MAX);
  call->array.path = path;
  call->source.count = call->options.column_count = count;
  call->columns = tsx_parser_alloc(&p, count * sizeof *call->columns);
  call->source.names = tsx_parser_alloc(&p, count * sizeof *call->source.names);
  call->source.kept = tsx_parser_alloc(&p, count * sizeof *call->source.kept);
  call->dimensions = tsx_parser_alloc(&p, count * sizeof *call->dimensions);
  call->labels.columns = tsx_parser_alloc(&p, count * sizeof *call->labels.columns);
  call->labels.indexes = tsx_parser_alloc(&p, count * sizeof *call->labels.indexes);
  if (!call->columns || !call->source.names || !call->source.kept || !call->dimensions || !call->labels.columns ||
      !call->labels.indexes)
    return tsx_out_of_memory(error);
  call->options.columns = call->columns;
  call->options.dimensions = call->dimensions;
  if (!path) return TSR_OK;
  call->array.address.connection = call->connection;
  call->array.address.given = sqlite3_mprintf("%s", path);
  if (!call->array.address.given) return tsx_out_of_memory(error);
  return tsx_address_path(call->connection, path, &call->array.address.path, error);
}

int tsx_ingest_name_column(tsx_ingest_call *call, uint32_t column, const char *name, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  char *copy = tsx_parser_alloc(&p, strlen(name) + 1);
  if (!copy) return tsx_out_of_memory(error);
  memcpy(copy, name, strlen(name));
  call->source.names[column] = copy;
  call->columns[column].name = copy;
  call->columns[column].nullable = !call->source.is_rows; /* of an array: later rows may have gaps */
  call->source.kept[column] = (int)column;
  return TSR_OK;
}

typedef struct ingest_named {
  const char *name;
  uint32_t column;
} ingest_named;

static int ingest_compare_names(const void *a, const void *b) {
  const ingest_named *x = a, *y = b;
  const int order = sqlite3_stricmp(x->name, y->name);
  return order ? order : x->column < y->column ? -1 : 1;
}

/* Fails if two columns of the source have one name. */
static int ingest_check_names(const tsx_ingest_call *call, tsr_error *error) {
  int code = TSR_OK;
  ingest_named *sorted = sqlite3_malloc64(((uint64_t)call->source.count + 1) * sizeof *sorted);
  if (!sorted) return tsx_out_of_memory(error);
  for (uint32_t i = 0; i < call->source.count; i++) sorted[i] = (ingest_named){call->source.names[i], i};
  qsort(sorted, call->source.count, sizeof *sorted, ingest_compare_names);
  for (uint32_t i = 1; i < call->source.count && code == TSR_OK; i++)
    if (!sqlite3_stricmp(sorted[i - 1].name, sorted[i].name))
      code = tsx_fail(error, TSR_CONSTRAINT, "two columns are called '%.64s'", sorted[i].name);
  sqlite3_free(sorted);
  return code;
}

const char *tsx_ingest_row_name(const tsx_ingest_call *call) {
  static const char *const names[] = {"row", "row_number", "tessera_row"};
  size_t n = 0;
  for (bool taken = true; taken && n < 2; n += taken) {
    taken = false;
    for (uint32_t i = 0; i < call->options.column_count; i++) taken |= strcmp(call->columns[i].name, names[n]) == 0;
  }
  return names[n];
}

/* ---- The array to append to -------------------------------------------------------------------------------------- */

static const tsr_field *ingest_field(const tsr_schema *schema, const char *name, uint32_t *number) {
  const uint32_t count = schema->dimension_count + schema->attribute_count;
  for (*number = 0; *number < count; ++*number)
    if (!sqlite3_stricmp(schema->fields[*number].name, name)) return &schema->fields[*number];
  return NULL;
}

/* Gives a column the datatype of the field that has its name. */
static int ingest_take_field(tsx_ingest_call *call, const tsr_schema *schema, uint32_t i, tsr_error *error) {
  tsr_ingest_column *column = &call->columns[i];
  uint32_t number;
  const tsr_field *field = ingest_field(schema, column->name, &number);
  const int taken = field ? 0 : tsx_ingest_take_label(call, schema, i, error);
  if (taken) return taken < 0 ? taken : TSR_OK;
  if (!field)
    return tsx_fail(error, TSR_ERROR, "the array lacks the column '%.64s' of the source: say columns, to leave it out",
                    column->name);
  column->name = field->name;
  column->typed = true;
  column->datatype = field->datatype;
  column->values_per_cell = field->values_per_cell;
  column->refuses_null = !field->is_dimension && !field->nullable;
  column->labels = field->enumeration != NULL;
  if (field->is_dimension) {
    if (call->dimensions[number] != UINT32_MAX)
      return tsx_fail(error, TSR_CONSTRAINT, "column '%s': another column is a label of this dimension", column->name);
    call->dimensions[number] = i;
    column->has_domain = field->has_domain;
    memcpy(column->low, field->low, sizeof column->low);
    memcpy(column->high, field->high, sizeof column->high);
    column->grow = false;
  }
  if (!field->enumeration) return TSR_OK;
  const int code = tsr_array_enumeration(call->array.target.address.array->core, schema, field->enumeration,
                                         &column->enumeration, error);
  if (code < 0) return code;
  column->datatype = column->enumeration->datatype;
  column->values_per_cell = column->enumeration->values_per_label;
  return TSR_OK;
}

/* Fails if the source lacks columns of the array. Rows without the dimension that tessera_create_as makes of row numbers
 * are numbered after the last row. */
static int ingest_check_missing(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  sqlite3_str *list = sqlite3_str_new(NULL);
  uint32_t missing = 0;
  const tsr_kind kind = tsr_datatype_kind(schema->fields[0].datatype);
  const bool numbers = schema->dimension_count == 1 && call->dimensions[0] == UINT32_MAX &&
                       (kind == TSR_KIND_SIGNED || kind == TSR_KIND_UNSIGNED) &&
                       !strcmp(schema->fields[0].name, tsx_ingest_row_name(call));
  for (uint32_t f = numbers; f < schema->dimension_count + schema->attribute_count; f++) {
    bool found = f < schema->dimension_count && call->dimensions[f] != UINT32_MAX; /* a label may stand for it */
    for (uint32_t i = 0; i < call->options.column_count && !found; i++)
      found = !strcmp(call->columns[i].name, schema->fields[f].name);
    if (found) continue;
    if (missing < INGEST_NAMED) sqlite3_str_appendf(list, "%s'%.64s'", missing ? ", " : "", schema->fields[f].name);
    missing++;
  }
  char *names = sqlite3_str_finish(list);
  int code = TSR_OK;
  if (missing)
    code = tsx_fail(error, TSR_MISMATCH, "the source lacks the column%s %s%s of the array", missing > 1 ? "s" : "",
                    names ? names : "", missing > INGEST_NAMED ? ", ..." : "");
  sqlite3_free(names);
  if (!numbers) return code;
  call->options.dimension_count = 0;
  call->options.kind = TSR_INGEST_BY_VALUES;
  return code;
}

/* Opens the array to append to with the key of the call. The connection keeps no key for the calls that follow. */
static int ingest_open_append(tsx_ingest_call *call, sqlite3_value *path, tsr_error *error) {
  const tsx_address *address = &call->array.address;
  uint8_t before[32];
  if (!address->has_key) return tsx_target_open(call->connection, path, &call->array.target, error);
  const bool had = tsx_key_find(call->connection, address->path, before);
  int code = tsx_key_set(call->connection, address->path, address->key, error);
  if (code == TSR_OK) code = tsx_target_open(call->connection, path, &call->array.target, error);
  tsr_error ignored;
  const int restored = tsx_key_set(call->connection, address->path, had ? before : NULL, code < 0 ? &ignored : error);
  tsx_wipe(before, sizeof before);
  return code < 0 ? code : restored;
}

static int ingest_open_target(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error) {
  const tsr_schema *schema = NULL;
  int code = ingest_open_append(call, path, error);
  if (code == TSR_OK && call->array.target.group)
    code = tsx_fail(error, TSR_EXISTS, "%s is a group, not an array", call->array.target.address.path);
  if (code == TSR_OK) code = tsr_array_schema(call->array.target.address.array->core, TSR_TIME_NOW, &schema, error);
  if (code < 0) return code;
  call->array.append = true;
  call->options.dimension_count = schema->dimension_count;
  call->options.kind = schema->dense ? TSR_INGEST_DENSE : TSR_INGEST_SPARSE;
  for (uint32_t d = 0; d < schema->dimension_count; d++) call->dimensions[d] = UINT32_MAX;
  for (uint32_t i = 0; code == TSR_OK && i < call->options.column_count; i++)
    code = ingest_take_field(call, schema, i, error);
  if (code == TSR_OK) code = ingest_check_missing(call, schema, error);
  return code == TSR_OK ? tsx_ingest_options_agree(call, json, schema, error) : code;
}

static int ingest_fail_exists(const tsx_ingest_call *call, tsr_object_kind kind, tsr_error *error) {
  if (kind == TSR_OBJECT_GROUP)
    return tsx_fail(error, TSR_EXISTS,
                    "%s: there is a group already: 'if_exists' is for arrays, take another path, or that of an array "
                    "in the group",
                    call->array.path);
  return tsx_fail(error, TSR_EXISTS,
                  "%s: there is an array already: the option 'if_exists' adds the rows to it (append), or makes a new "
                  "array in its place (replace)",
                  call->array.path);
}

int tsx_ingest_options(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  tsr_environment *environment = call->connection->environment;
  int code = ingest_check_names(call, error);
  if (code == TSR_OK) code = tsx_ingest_options_read(call, json, error);
  if (code == TSR_OK) code = tsr_object_find(environment, call->array.address.path, &kind, error);
  if (code < 0 || kind == TSR_OBJECT_NONE) return code;
  if (call->given.if_exists == TSX_INGEST_FAIL && call->given.explain) return TSR_OK;
  if (call->given.if_exists == TSX_INGEST_FAIL || kind == TSR_OBJECT_GROUP)
    return ingest_fail_exists(call, kind, error);
  if (call->given.if_exists == TSX_INGEST_APPEND) return ingest_open_target(call, path, json, error);
  call->array.replace = true;
  return tsx_ingest_may_replace(call, error);
}

/* Keeps the number of a skipped row, if it is one of the first. Returns whether none before it was skipped so far. */
static bool ingest_skip(tsx_ingest_result *result, uint64_t number) {
  uint64_t place = result->skipped < TSX_INGEST_LINES ? result->skipped : TSX_INGEST_LINES;
  result->skipped++;
  while (place > 0 && result->lines[place - 1] > number) {
    if (place < TSX_INGEST_LINES) result->lines[place] = result->lines[place - 1];
    place--;
  }
  if (place < TSX_INGEST_LINES) result->lines[place] = number;
  return place == 0;
}

/* Counts a row that was left out, since an earlier row has its coordinates. */
static void ingest_left_out(void *argument, uint64_t number, const char *where) {
  tsx_ingest_call *call = argument;
  if (ingest_skip(&call->result, number))
    (void)tsx_fail(&call->result.first, TSR_CONSTRAINT, "%s %llu: an earlier row has the coordinates %s",
                   call->source.is_csv ? "line" : "row", (unsigned long long)number, where ? where : "");
}

int tsx_ingest_open(tsx_ingest_call *call, tsr_error *error) {
  const bool keeps = call->options.duplicates && call->options.kind != TSR_INGEST_DENSE;
  if (call->given.skip && !call->array.append && !keeps) {
    call->options.left_out = ingest_left_out;
    call->options.left_out_argument = call;
  }
  return tsr_ingest_open(call->connection->environment, &call->options, &call->ingest, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

int tsx_ingest_end_row(tsx_ingest_call *call, int code, const char *what, uint64_t number, tsr_error *error) {
  tsr_ingest_number_row(call->ingest, number);
  if (code == TSR_OK) code = tsr_ingest_end_row(call->ingest, error);
  if (code == TSR_OK) return code;
  tsr_error why = *error;
  code = tsx_fail(error, code, "%s %llu: %s", what, (unsigned long long)number, why.message);
  if (!call->given.skip || (code != TSR_MISMATCH && code != TSR_RANGE && code != TSR_CONSTRAINT)) return code;
  tsr_ingest_drop_row(call->ingest);
  if (ingest_skip(&call->result, number)) call->result.first = *error;
  return TSR_OK;
}

/* ---- The result -------------------------------------------------------------------------------------------------- */

/* Sets the result: the number of rows; with on_error skip a JSON object. */
static void ingest_result(const tsx_ingest_call *call, sqlite3_context *context) {
  if (!call->given.skip) {
    sqlite3_result_int64(context, (sqlite3_int64)call->result.rows);
    return;
  }
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  sqlite3_str_appendf(out, "{\"rows\":%llu,\"skipped\":%llu,\"lines\":[", call->result.rows, call->result.skipped);
  for (uint64_t i = 0; i < call->result.skipped && i < TSX_INGEST_LINES; i++)
    sqlite3_str_appendf(out, "%s%llu", i ? "," : "", call->result.lines[i]);
  sqlite3_str_appendall(out, "],\"first\":");
  if (call->result.skipped) tsx_json_text(out, call->result.first.message, strlen(call->result.first.message));
  else sqlite3_str_appendall(out, "null");
  sqlite3_str_appendchar(out, 1, '}');
  tsx_result_string(context, out);
}

static int ingest_explain(tsx_ingest_call *call, const tsr_schema *schema, sqlite3_context *context, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  const int code = tsx_ddl_statement(out, &call->array.address, schema, error);
  if (code == TSR_OK) tsx_result_string(context, out);
  else sqlite3_free(sqlite3_str_finish(out));
  return code;
}

int tsx_ingest_finish(tsx_ingest_call *call, sqlite3_context *context, tsr_error *error) {
  const tsr_schema *schema;
  int code = tsr_ingest_schema(call->ingest, &schema, error);
  if (code == TSR_OK && call->given.explain) return ingest_explain(call, schema, context, error);
  if (code == TSR_OK)
    code = call->array.append ? tsx_ingest_append(call, schema, error) : tsx_ingest_make(call, schema, error);
  if (code == TSR_OK) ingest_result(call, context);
  return code;
}

void tsx_ingest_end(tsx_ingest_call *call) {
  tsr_ingest_close(call->ingest);
  tsx_ingest_labels_close(call);
  tsx_target_close(&call->array.target);
  tsx_address_close(&call->array.address);
  sqlite3_value_free(call->given.metadata);
  tsx_definition_release(&call->memory);
}
