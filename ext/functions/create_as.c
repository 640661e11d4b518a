/* create_as.c: tessera_create_as(path, select[, options]): the rows of a SELECT become an array.
 *
 * The SELECT is run once, since it may give other rows the second time. A column that is a column of a tessera table
 * keeps its exact type, its enumeration and its filters; the types of the others come from all of their values.
 */
#include "functions/create_as.h"

#include <string.h>

#include "connection/errors.h"
#include "values/slice.h"
#include "table/module.h"
#include "functions/ingest_call.h"

/* ---- The statement ----------------------------------------------------------------------------------------------- */

static int create_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **statement, tsr_error *error) {
  const char *rest = "";
  const int answer = sqlite3_prepare_v2(db, sql, -1, statement, &rest);
  if (answer != SQLITE_OK) return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(db));
  rest += strspn(rest, " \t\r\n;");
  if (!*statement || sqlite3_column_count(*statement) == 0 || !sqlite3_stmt_readonly(*statement))
    return tsx_fail(error, TSR_ERROR, "expected a SELECT that changes nothing");
  if (*rest) return tsx_fail(error, TSR_ERROR, "expected one statement: another follows at '%.40s'", rest);
  if (sqlite3_bind_parameter_count(*statement))
    return tsx_fail(error, TSR_ERROR, "the SELECT has parameters: write the values into it");
  return TSR_OK;
}

/* Returns the table whose plain column a result column is, or NULL, and sets *column. */
static const tsx_table *create_origin(const tsx_connection *connection, sqlite3_stmt *statement, int i,
                                      const tsx_column **column) {
#ifndef SQLITE_CORE
  if (!sqlite3_api->column_table_name || !sqlite3_api->column_origin_name || !sqlite3_api->column_database_name)
    return NULL; /* SQLite was built without SQLITE_ENABLE_COLUMN_METADATA */
  const char *schema = sqlite3_column_database_name(statement, i), *name = sqlite3_column_table_name(statement, i),
             *origin = sqlite3_column_origin_name(statement, i);
  if (!schema || !name || !origin) return NULL;
  for (const tsx_table *t = connection->tables.arrays; t; t = t->next) {
    if (sqlite3_stricmp(t->schema_name, schema) != 0 || sqlite3_stricmp(t->name, name) != 0) continue;
    for (uint32_t c = 0; t->schema && c < t->column_count; c++) {
      *column = &t->columns[c];
      if (!sqlite3_stricmp((*column)->name, origin)) return t;
    }
  }
#endif
  return NULL;
}

/* Gives a column the type, the labels and the filters of a table's column. */
static int create_exact(const tsx_table *table, const tsx_column *shown, tsr_ingest_column *column, tsr_error *error) {
  const tsr_field *field = &table->schema->fields[shown->field];
  if (field->datatype == TSR_ANY) return TSR_OK;
  if (field->enumeration) {
    const tsr_enumeration *e;
    if (shown->form != TSX_LABEL || table->options.enums_code) return TSR_OK;
    const int code = tsr_array_enumeration(table->array->core, table->schema, field->enumeration, &e, error);
    if (code < 0 || tsr_datatype_kind(e->datatype) != TSR_KIND_TEXT) return code;
    column->labels = true;
    column->enumeration = e;
  }
  column->typed = !field->enumeration;
  column->datatype = field->datatype;
  column->values_per_cell = field->values_per_cell;
  if (field->filters.count) column->filters = &field->filters;
  return TSR_OK;
}

static int create_columns(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  int code = TSR_OK;
  for (uint32_t i = 0; code == TSR_OK && i < call->source_count; i++) {
    const char *name = sqlite3_column_name(statement, (int)i);
    const tsx_column *shown = NULL;
    if (!name) return tsx_out_of_memory(error);
    code = tsx_ingest_name_column(call, i, name, error);
    const tsx_table *table = create_origin(call->connection, statement, (int)i, &shown);
    if (code == TSR_OK && table) code = create_exact(table, shown, &call->columns[i], error);
  }
  return code;
}

/* ---- Rows -------------------------------------------------------------------------------------------------------- */

/* Sets a value that is not simply a number, text or bytes: a JSON array, an instant that is an integer. */
static int create_set_converted(tsx_ingest_call *call, uint32_t column, sqlite3_value *value, tsr_error *error) {
  const tsr_ingest_column *c = &call->columns[column];
  uint8_t *bytes = NULL;
  uint64_t size = 0;
  sqlite3_value *copy = sqlite3_value_dup(value); /* values of sqlite3_column_value are not protected */
  int code = copy ? tsx_bytes_convert(copy, c->datatype, &bytes, &size, error) : tsx_out_of_memory(error);
  if (code < 0 && code != TSR_NOMEM) {
    tsr_error why = *error;
    code = tsx_fail(error, code, "column '%s': %s", c->name, why.message);
  }
  int64_t instant;
  if (code == TSR_OK && c->values_per_cell == 1 && size == sizeof instant) {
    memcpy(&instant, bytes, sizeof instant);
    code = tsr_ingest_set_integer(call->ingest, column, instant, error);
  } else if (code == TSR_OK) code = tsr_ingest_set_bytes(call->ingest, column, false, bytes, size, error);
  sqlite3_free(bytes);
  sqlite3_value_free(copy);
  return code;
}

static bool create_converts(const tsr_ingest_column *c, int type) {
  if (!c->typed) return false;
  const tsr_kind kind = tsr_datatype_kind(c->datatype);
  if (kind == TSR_KIND_TEXT) return c->datatype > TSR_UTF8 && c->datatype <= TSR_UCS4;
  if (kind == TSR_KIND_DATETIME || kind == TSR_KIND_TIME) return c->values_per_cell != 1 || type == SQLITE_INTEGER;
  return kind != TSR_KIND_BYTES && c->values_per_cell != 1;
}

static int create_set(tsx_ingest_call *call, sqlite3_stmt *statement, int i, tsr_error *error) {
  const int type = sqlite3_column_type(statement, i);
  const uint32_t column = (uint32_t)call->kept[i];
  if (type == SQLITE_NULL) return TSR_OK;
  if (create_converts(&call->columns[column], type))
    return create_set_converted(call, column, sqlite3_column_value(statement, i), error);
  if (type == SQLITE_INTEGER)
    return tsr_ingest_set_integer(call->ingest, column, sqlite3_column_int64(statement, i), error);
  if (type == SQLITE_FLOAT)
    return tsr_ingest_set_real(call->ingest, column, sqlite3_column_double(statement, i), error);
  const void *bytes =
      type == SQLITE_TEXT ? (const void *)sqlite3_column_text(statement, i) : sqlite3_column_blob(statement, i);
  const uint64_t size = (uint64_t)sqlite3_column_bytes(statement, i);
  if (!bytes && size) return tsx_out_of_memory(error);
  return tsr_ingest_set_bytes(call->ingest, column, type == SQLITE_TEXT, bytes ? bytes : "", size, error);
}

static int create_rows(tsx_ingest_call *call, sqlite3_stmt *statement, tsr_error *error) {
  int answer, code = TSR_OK;
  for (uint64_t number = 1; (answer = sqlite3_step(statement)) == SQLITE_ROW; number++) {
    for (uint32_t i = 0; code == TSR_OK && i < call->source_count; i++)
      if (call->kept[i] >= 0) code = create_set(call, statement, (int)i, error);
    code = tsx_ingest_end_row(call, code, "row", number, error);
    if (code < 0) return code;
  }
  if (answer == SQLITE_DONE) return TSR_OK;
  return tsx_fail(error, tsx_core_code(answer), "the SELECT: %s", sqlite3_errmsg(call->connection->db));
}

static int create_call(tsx_ingest_call *call, sqlite3_context *context, int count, sqlite3_value **values,
                       tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  const char *path = (const char *)sqlite3_value_text(values[0]), *sql = (const char *)sqlite3_value_text(values[1]);
  if (!path || !sql) return tsx_out_of_memory(error);
  int code = create_prepare(call->connection->db, sql, &statement, error);
  if (code == TSR_OK) code = tsx_ingest_begin(call, path, (uint32_t)sqlite3_column_count(statement), error);
  if (code == TSR_OK) code = create_columns(call, statement, error);
  if (code == TSR_OK) code = tsx_ingest_options(call, values[0], count > 2 ? values[2] : NULL, error);
  if (code == TSR_OK) code = tsx_ingest_open(call, error);
  if (code == TSR_OK) code = create_rows(call, statement, error);
  if (code == TSR_OK && sqlite3_reset(statement) != SQLITE_OK) code = tsx_fail(error, TSR_ERROR, "the SELECT failed");
  if (code == TSR_OK) code = tsx_ingest_finish(call, context, error);
  sqlite3_finalize(statement);
  return code;
}

void tsx_create_as(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_ingest_call call = {.connection = sqlite3_user_data(context)};
  tsr_error error = {0};
  tsx_connection_add_table(call.connection); /* with a table the core asks the host for interrupts */
  int code = tsx_arguments_check(count, values, 2, &error);
  if (code == TSR_OK) code = create_call(&call, context, count, values, &error);
  tsx_ingest_end(&call);
  tsx_connection_remove_table(call.connection);
  tsx_function_end(context, "tessera_create_as", code, &error);
}
