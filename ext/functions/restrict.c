/* restrict.c: tessera_restrict(directory): from then on the connection opens and makes arrays and groups, and reads key
 * files, below that directory only. It can be narrowed, and not be undone.
 *
 * The core does it (tsr_environment_confine): paths are compared as what they lead to, and no link is followed within
 * an array.
 */
#include "functions/restrict.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/functions.h"

/* Rows and arrays of the open transaction would go where they were meant to. */
static int restrict_check_open(const tsx_connection *connection, const char *directory, tsr_error *error) {
  int code = 1;
  for (const tsx_array *array = connection->arrays; array && code > 0; array = array->next) {
    if (array->in_database || (!array->transaction && !array->creation)) continue;
    code = tsr_path_lies_below(connection->environment, array->path, directory, error);
    if (code == 0)
      code = tsx_fail(error, TSR_ERROR, "the transaction has rows for %s, or makes it: commit first", array->path);
  }
  return code < 0 ? code : TSR_OK;
}

/* tessera_restrict(directory) */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  int code = tsx_arguments_check(count, values, 1, &error);
  const char *path = code == TSR_OK ? (const char *)sqlite3_value_text(values[0]) : "";
  if (code == TSR_OK) code = restrict_check_open(connection, path, &error);
  if (code == TSR_OK) code = tsr_environment_confine(connection->environment, path, &error);
  if (code == TSR_OK) connection->restricted = true;
  tsx_function_end(context, "tessera_restrict", code, &error);
}
