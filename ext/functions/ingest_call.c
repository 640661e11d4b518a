/* ingest_call.c: a call of tessera_create_as or its kin, from the names of the source's columns to the array.
 *
 * A new array in a directory or bucket is prepared under a name that readers do not see, gets its rows and its metadata,
 * and is published by one step. One in the database is made within a savepoint. Rows are appended by one commit.
 */
#include "functions/ingest_call.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "text/json_in.h"
#include "definition/define.h"
#include "values/json.h"
#include "values/slice.h"
#include "values/value.h"
#include "database/store_sqlite.h"
#include "table/database.h"
#include "table/ddl.h"
#include "functions/ingest_options.h"

/* ---- Begin ------------------------------------------------------------------------------------------------------- */

int tsx_ingest_begin(tsx_ingest_call *call, const char *path, uint32_t count, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  call->path = path;
  call->source_count = call->options.column_count = count;
  call->columns = tsx_parser_alloc(&p, count * sizeof *call->columns);
  call->names = tsx_parser_alloc(&p, count * sizeof *call->names);
  call->kept = tsx_parser_alloc(&p, count * sizeof *call->kept);
  call->dimensions = tsx_parser_alloc(&p, count * sizeof *call->dimensions);
  if (!call->columns || !call->names || !call->kept || !call->dimensions) return tsx_out_of_memory(error);
  call->options.columns = call->columns;
  call->options.dimensions = call->dimensions;
  call->address.connection = call->connection;
  call->address.given = sqlite3_mprintf("%s", path);
  if (!call->address.given) return tsx_out_of_memory(error);
  return tsx_address_path(call->connection, path, &call->address.path, error);
}

int tsx_ingest_name_column(tsx_ingest_call *call, uint32_t column, const char *name, tsr_error *error) {
  tsx_parser p = {.definition = &call->memory};
  for (uint32_t i = 0; i < column; i++)
    if (!sqlite3_stricmp(call->names[i], name))
      return tsx_fail(error, TSR_CONSTRAINT, "two columns are called '%.64s'", name);
  char *copy = tsx_parser_alloc(&p, strlen(name) + 1);
  if (!copy) return tsx_out_of_memory(error);
  memcpy(copy, name, strlen(name));
  call->names[column] = copy;
  call->columns[column].name = copy;
  call->kept[column] = (int)column;
  return TSR_OK;
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
  if (!field)
    return tsx_fail(error, TSR_ERROR, "the array has no column '%.64s': say columns, to leave it out", column->name);
  column->name = field->name;
  column->typed = true;
  column->datatype = field->datatype;
  column->values_per_cell = field->values_per_cell;
  column->not_null |= !field->is_dimension && !field->nullable;
  column->labels = field->enumeration != NULL;
  if (field->is_dimension) {
    call->dimensions[number] = i;
    column->has_domain = field->has_domain;
    memcpy(column->low, field->low, sizeof column->low);
    memcpy(column->high, field->high, sizeof column->high);
    column->grow = false;
  }
  if (!field->enumeration) return TSR_OK;
  const int code =
      tsr_array_enumeration(call->target.address.array->core, schema, field->enumeration, &column->enumeration, error);
  if (code < 0) return code;
  column->datatype = column->enumeration->datatype;
  column->values_per_cell = column->enumeration->values_per_label;
  return TSR_OK;
}

static int ingest_open_target(tsx_ingest_call *call, sqlite3_value *path, tsr_error *error) {
  const tsr_schema *schema = NULL;
  int code = tsx_target_open(call->connection, path, &call->target, error);
  if (code == TSR_OK && call->target.group)
    code = tsx_fail(error, TSR_EXISTS, "%s is a group, not an array", call->target.address.path);
  if (code == TSR_OK) code = tsr_array_schema(call->target.address.array->core, TSR_TIME_NOW, &schema, error);
  if (code < 0) return code;
  call->append = true;
  call->options.dimension_count = schema->dimension_count;
  call->options.kind = schema->dense ? TSR_INGEST_DENSE : TSR_INGEST_SPARSE;
  if (call->options.column_count < schema->dimension_count + schema->attribute_count)
    return tsx_fail(error, TSR_MISMATCH, "the array has %u columns, the source %u",
                    schema->dimension_count + schema->attribute_count, call->options.column_count);
  for (uint32_t i = 0; code == TSR_OK && i < call->options.column_count; i++)
    code = ingest_take_field(call, schema, i, error);
  return code;
}

int tsx_ingest_options(tsx_ingest_call *call, sqlite3_value *path, sqlite3_value *json, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  tsr_environment *environment = call->connection->environment;
  int code = tsx_ingest_options_read(call, json, error);
  if (code == TSR_OK) code = tsr_object_find(environment, call->address.path, &kind, error);
  if (code == TSR_OK && kind != TSR_OBJECT_NONE && !call->if_exists_append && !call->explain)
    return tsx_fail(error, TSR_EXISTS, "%s: there is %s already", call->path,
                    kind == TSR_OBJECT_GROUP ? "a group" : "an array");
  if (code == TSR_OK && kind != TSR_OBJECT_NONE && call->if_exists_append) code = ingest_open_target(call, path, error);
  return code;
}

int tsx_ingest_open(tsx_ingest_call *call, tsr_error *error) {
  return tsr_ingest_open(call->connection->environment, &call->options, &call->ingest, error);
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

int tsx_ingest_end_row(tsx_ingest_call *call, int code, const char *what, uint64_t number, tsr_error *error) {
  if (code == TSR_OK) code = tsr_ingest_end_row(call->ingest, error);
  if (code == TSR_OK) return code;
  tsr_error why = *error;
  code = tsx_fail(error, code, "%s %llu: %s", what, (unsigned long long)number, why.message);
  if (!call->skip || (code != TSR_MISMATCH && code != TSR_RANGE && code != TSR_CONSTRAINT)) return code;
  tsr_ingest_drop_row(call->ingest);
  if (call->skipped == 0) call->first = *error;
  if (call->skipped < TSX_INGEST_LINES) call->lines[call->skipped] = number;
  call->skipped++;
  return TSR_OK;
}

/* ---- The array --------------------------------------------------------------------------------------------------- */

static int ingest_put_metadatum(void *argument, const tsx_json_option *o, tsr_error *error) {
  const int type = sqlite3_value_type(o->value);
  const tsr_datatype datatype = type == SQLITE_INTEGER ? TSR_INT64 : type == SQLITE_FLOAT ? TSR_FLOAT64 : TSR_UTF8;
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  int code = type == SQLITE_NULL ? tsx_fail(error, TSR_MISMATCH, "the value is null")
                                 : tsx_bytes_convert(o->value, datatype, &bytes, &size, error);
  const tsr_metadatum entry = {.key = o->key,
                               .key_size = strlen(o->key),
                               .datatype = datatype,
                               .count = size / tsr_datatype_size(datatype),
                               .value = bytes,
                               .value_size = size};
  if (code == TSR_OK) code = tsr_array_set_metadata(argument, &entry, error);
  sqlite3_free(bytes);
  if (code == TSR_OK) return code;
  tsr_error why = *error;
  return tsx_fail(error, code, "'metadata': '%.64s': %s", o->key, why.message);
}

static int ingest_fill(tsx_ingest_call *call, tsr_array *array, tsr_error *error) {
  int code = tsr_ingest_write(call->ingest, array, !call->append, &call->rows, error);
  if (code == TSR_OK && call->metadata)
    code = tsx_options_each(call->connection->db, call->metadata, "'metadata'", ingest_put_metadatum, array, error);
  return code;
}

static int ingest_make_in_database(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_array *array = NULL;
  char *path = NULL;
  int code = tsx_database_create(call->connection, call->path, &call->address, schema, &path, error);
  if (code == TSR_OK) code = tsr_array_open(call->connection->environment, path, NULL, &array, error);
  if (code == TSR_OK) code = ingest_fill(call, array, error);
  tsr_array_close(array);
  sqlite3_free(path);
  return code;
}

static int ingest_make(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  tsr_environment *environment = call->connection->environment;
  tsr_creation *creation = NULL;
  tsr_array *array = NULL;
  if (tsx_store_is(call->address.path)) return ingest_make_in_database(call, schema, error);
  int code = tsr_creation_prepare(environment, call->address.path, schema, NULL, &creation, error);
  const tsr_array_options options = {.creation = creation};
  if (code == TSR_OK) code = tsr_array_open(environment, call->address.path, &options, &array, error);
  if (code == TSR_OK) code = ingest_fill(call, array, error);
  if (code == TSR_OK) code = tsr_creation_publish(creation, error);
  tsr_array_close(array);
  if (code < 0 && creation) (void)tsr_creation_abandon(creation, NULL);
  tsr_creation_close(creation);
  return code;
}

/* Adds the labels that the array's enumerations lack. */
static int ingest_extend(tsx_ingest_call *call, const tsr_schema *schema, tsr_error *error) {
  for (uint32_t i = 0; i < schema->enumeration_count; i++) {
    const tsr_enumeration *all = &schema->enumerations[i];
    const tsr_ingest_column *column = call->columns;
    while (strcmp(column->name, all->name) != 0) column++;
    const uint64_t known = column->enumeration ? column->enumeration->count : 0;
    if (all->count == known) continue;
    tsr_enumeration more = *all;
    more.name = column->enumeration->name;
    more.count = all->count - known;
    more.data = all->data + all->offsets[known];
    more.data_size = all->data_size - all->offsets[known];
    more.offsets = sqlite3_malloc64((more.count + 1) * sizeof *more.offsets);
    if (!more.offsets) return tsx_out_of_memory(error);
    for (uint64_t k = 0; k <= more.count; k++) more.offsets[k] = all->offsets[known + k] - all->offsets[known];
    const int code = tsr_array_extend_enumeration(call->target.address.array->core, &more, error);
    sqlite3_free(more.offsets);
    if (code < 0) return code;
  }
  return TSR_OK;
}

/* Sets the result: the number of rows; with on_error skip a JSON object. */
static void ingest_result(const tsx_ingest_call *call, sqlite3_context *context) {
  if (!call->skip) {
    sqlite3_result_int64(context, (sqlite3_int64)call->rows);
    return;
  }
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  sqlite3_str_appendf(out, "{\"rows\":%llu,\"skipped\":%llu,\"lines\":[", call->rows, call->skipped);
  for (uint64_t i = 0; i < call->skipped && i < TSX_INGEST_LINES; i++)
    sqlite3_str_appendf(out, "%s%llu", i ? "," : "", call->lines[i]);
  sqlite3_str_appendall(out, "],\"first\":");
  if (call->skipped) tsx_json_text(out, call->first.message, strlen(call->first.message));
  else sqlite3_str_appendall(out, "null");
  sqlite3_str_appendchar(out, 1, '}');
  tsx_result_string(context, out);
}

static int ingest_explain(tsx_ingest_call *call, const tsr_schema *schema, sqlite3_context *context, tsr_error *error) {
  sqlite3_str *out = sqlite3_str_new(call->connection->db);
  const int code = tsx_ddl_statement(out, &call->address, schema, error);
  if (code == TSR_OK) tsx_result_string(context, out);
  else sqlite3_free(sqlite3_str_finish(out));
  return code;
}

int tsx_ingest_finish(tsx_ingest_call *call, sqlite3_context *context, tsr_error *error) {
  const tsr_schema *schema;
  int code = tsr_ingest_schema(call->ingest, &schema, error);
  if (code == TSR_OK && call->explain) return ingest_explain(call, schema, context, error);
  if (code == TSR_OK && call->append) {
    code = ingest_extend(call, schema, error);
    if (code == TSR_OK) code = ingest_fill(call, call->target.address.array->core, error);
  } else if (code == TSR_OK) code = ingest_make(call, schema, error);
  if (code == TSR_OK) ingest_result(call, context);
  return code;
}

void tsx_ingest_end(tsx_ingest_call *call) {
  tsr_ingest_close(call->ingest);
  tsx_target_close(&call->target);
  tsx_address_close(&call->address);
  sqlite3_value_free(call->metadata);
  tsx_definition_release(&call->memory);
}
