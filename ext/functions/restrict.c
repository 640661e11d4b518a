/* restrict.c: the SQL function tessera_restrict(directory): from then on the connection opens and makes arrays and
 * groups, and reads key files, only below that directory. A later call can choose a narrower directory; the restriction
 * cannot be undone.
 *
 * The core enforces it (tsr_environment_confine): symbolic links are resolved before paths are compared, and within an
 * array no link is followed.
 */
#include "functions/restrict.h"

#include "connection/errors.h"
#include "connection/sqlite_api.h"
#include "functions/functions.h"

/* Fails if the open transaction changes or creates an array outside of the directory: its commit would be refused. */
static int restrict_check_open(const tsx_connection *connection, const char *directory, tsr_error *error) {
  int code = 1;
  for (const tsx_array *array = connection->arrays.list; array && code > 0; array = array->next) {
    if (array->in_database || (!array->transaction && !array->making.creation)) continue;
    code = tsr_path_lies_below(connection->environment, array->path, directory, error);
    if (code == 0)
      code = tsx_fail(error, TSR_ERROR, "the transaction has rows for %s, or makes it: commit first", array->path);
  }
  return code < 0 ? code : TSR_OK;
}

void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  int code = tsx_arguments_check(count, values, 1, &error);
  const char *path = code == TSR_OK ? (const char *)sqlite3_value_text(values[0]) : "";
  if (code == TSR_OK) code = restrict_check_open(connection, path, &error);
  if (code == TSR_OK) code = tsr_environment_confine(connection->environment, path, &error);
  if (code == TSR_OK) connection->permissions.restrictions++;
  tsx_function_end(context, "tessera_restrict", code, &error);
}
