/* sql.c: tessera_sql(text[, value ...]): a statement with the same rows, whose parts over arrays run over columns.
 *
 * The statement that it returns is to be run on this connection: its tables are registered on the connection
 * (connection/registry.h). */
#include "front/front.h"

#include "connection/errors.h"

static int rewrite_call(tsx_connection *connection, int count, sqlite3_value **values, tsx_rewritten *rewritten,
                        tsr_error *error) {
  if (count == 0) return tsx_fail(error, TSR_MISMATCH, "expected a text: a SELECT");
  return tsx_rewrite(connection, values[0], count - 1, values + 1, false, rewritten, error);
}

static void front_sql(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_rewritten rewritten = {0};
  tsr_error error = {0};
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  if (rewrite_call(connection, count, values, &rewritten, &error) < 0)
    tsx_result_error_of(context, "tessera_sql", &error);
  else sqlite3_result_text(context, rewritten.sql, -1, SQLITE_TRANSIENT);
  tsx_rewritten_release(&rewritten);
  tsx_connection_remove_table(connection);
}

int tsx_register_front(tsx_connection *connection) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  int code = sqlite3_create_function_v2(connection->db, "tessera_sql", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, connection,
                                        front_sql, NULL, NULL, tsx_connection_drop);
  if (code == SQLITE_OK) code = tsx_register_select(connection);
  return code == SQLITE_OK ? tsx_register_explain(connection) : code;
}
