/* sql.c: tessera_sql(text[, value ...]): a statement with the same rows, whose parts over arrays run over columns; and
 * tessera_sql_within(options, text[, value ...]), which bounds what such a part may use.
 *
 * The statement that they return is to be run on this connection: its tables are registered on the connection
 * (connection/registry.h). */
#include "front/front.h"

#include "connection/errors.h"
#include "sql/options.h"

enum { SQL_OPTION_memory_mb, SQL_OPTION_threads };

static int take_option(void *argument, unsigned option, const tsx_option_value *value, tsr_error *error) {
  tsx_front_options *options = argument;
  (void)error;
  if (option == SQL_OPTION_threads) options->threads = (unsigned)value->whole;
  else options->memory_bytes = (uint64_t)value->whole << 20;
  return TSR_OK;
}

static int read_options(tsx_connection *connection, sqlite3_value *json, tsx_front_options *options, tsr_error *error) {
  static const tsx_option_spec specs[] = {
      [SQL_OPTION_memory_mb] = TSX_SPEC_MEMORY_MB, [SQL_OPTION_threads] = TSX_SPEC_THREADS};
  static const tsx_option_list list = TSX_OPTION_LIST(specs);
  return tsx_options_read(connection->db, json, &list, take_option, options, error);
}

/* The first value is options, if there are `within` = 1; then come the text and its values. */
static int rewrite_call(tsx_connection *connection, int within, int count, sqlite3_value **values,
                        tsx_rewritten *rewritten, tsr_error *error) {
  tsx_front_options options = {0};
  if (count <= within)
    return tsx_fail(error, TSR_MISMATCH,
                    within ? "expected options and a text: a SELECT" : "expected a text: a SELECT");
  if (within) TSX_TRY(read_options(connection, values[0], &options, error));
  values += within;
  return tsx_rewrite(connection, &options, values[0], count - within - 1, values + 1, rewritten, error);
}

static void answer(sqlite3_context *context, const char *name, int within, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsx_rewritten rewritten = {0};
  tsr_error error = {0};
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  if (rewrite_call(connection, within, count, values, &rewritten, &error) < 0)
    tsx_result_error_of(context, name, &error);
  else sqlite3_result_text(context, rewritten.sql, -1, SQLITE_TRANSIENT);
  tsx_rewritten_release(&rewritten);
  tsx_connection_remove_table(connection);
}

static void front_sql(sqlite3_context *context, int count, sqlite3_value **values) {
  answer(context, "tessera_sql", 0, count, values);
}

static void front_sql_within(sqlite3_context *context, int count, sqlite3_value **values) {
  answer(context, "tessera_sql_within", 1, count, values);
}

static int register_function(tsx_connection *connection, const char *name,
                             void (*function)(sqlite3_context *, int, sqlite3_value **)) {
  tsx_connection_hold(connection); /* SQLite calls the destructor, which drops it, even if this call fails */
  return sqlite3_create_function_v2(connection->db, name, -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, connection, function,
                                    NULL, NULL, tsx_connection_drop);
}

int tsx_register_front(tsx_connection *connection) {
  int code = register_function(connection, "tessera_sql", front_sql);
  if (code == SQLITE_OK) code = register_function(connection, "tessera_sql_within", front_sql_within);
  if (code == SQLITE_OK) code = tsx_register_select(connection);
  return code == SQLITE_OK ? tsx_register_explain(connection) : code;
}
