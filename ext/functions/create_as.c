/* create_as.c: tessera_create_as(path, select[, options]): the rows of a SELECT become an array.
 *
 * The SELECT is run once, since it may give other rows the second time. A column that is a column of a tessera table
 * keeps its exact type, its enumeration and its filters; the types of the others come from all of their values.
 */
#include "functions/create_as.h"

#include "connection/errors.h"
#include "functions/ingest_call.h"
#include "functions/select_rows.h"

static int create_call(tsx_ingest_call *call, sqlite3_context *context, int count, sqlite3_value **values,
                       tsr_error *error) {
  sqlite3_stmt *statement = NULL;
  const char *path = (const char *)sqlite3_value_text(values[0]), *sql = (const char *)sqlite3_value_text(values[1]);
  if (!path || !sql) return tsx_out_of_memory(error);
  int code = tsx_select_prepare(call->connection->db, sql, &statement, error);
  if (code == TSR_OK) code = tsx_ingest_begin(call, path, (uint32_t)sqlite3_column_count(statement), error);
  if (code == TSR_OK) code = tsx_select_columns(call, statement, error);
  if (code == TSR_OK) code = tsx_ingest_options(call, values[0], count > 2 ? values[2] : NULL, error);
  if (code == TSR_OK) code = tsx_ingest_open(call, error);
  if (code == TSR_OK) code = tsx_select_rows(call, statement, error);
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
