/* token.c: tessera_token(path), which names the commits of an array that a reader has seen, for a feed of what is new
 * (table/changes_table.c). */
#include "call/function.h"
#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "inspect/inspect.h"

static int token_of(tsx_address *address, tsr_token **token, tsr_error *error) {
  TSX_TRY(tsx_address_array(address, error));
  if (address->as_of != TSR_TIME_NOW || address->since != TSR_TIME_BEGIN)
    return tsx_fail(error, TSR_ERROR, "%s has the option as_of or since: a token is of the present state",
                    address->given);
  return tsr_token_make(address->array->core, token, error);
}

static int token_make(tsx_connection *connection, sqlite3_value *path, tsr_token **token, tsr_error *error) {
  tsx_address address = {0};
  int code = tsx_address_open(connection, path, NULL, NULL, NULL, &address, error);
  if (code >= 0) code = token_of(&address, token, error);
  tsx_address_close(&address);
  return code;
}

void tsx_token_function(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_token *token = NULL;
  tsr_error error = {0};
  uint64_t size = 0;
  if (sqlite3_value_type(values[0]) == SQLITE_NULL) return;
  tsx_connection_add_table(connection); /* cancellation works only while a table is counted */
  tsx_connection_add_cursor(connection);
  int code = tsx_arguments_check(count, values, 1, &error);
  if (code >= 0) code = token_make(connection, values[0], &token, &error);
  if (code >= 0) {
    const char *text = tsr_token_text(token, &size);
    sqlite3_result_text64(context, text, size, SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  tsr_token_close(token);
  tsx_connection_remove_cursor(connection);
  tsx_function_end(context, "tessera_token", code, &error);
  tsx_connection_remove_table(connection);
}
