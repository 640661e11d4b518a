/* restrict.c: tessera_restrict(directory): from then on the connection opens and makes arrays and groups, and reads key
 * files, below that directory only. It can be narrowed, and not be undone.
 *
 * Paths are compared as what they lead to: symbolic links and ".." are resolved, of what does not exist yet as far as
 * it does. The core asks before it touches a directory.
 */
#include "functions.h"

#include <stdlib.h>

/* What a path leads to, of sqlite3_malloc: of parts that are not there yet none may be "..". NULL: out of memory, or it
 * cannot be said. */
static char *resolve(const char *path) {
  char *head = sqlite3_mprintf("%s%s", *path == '/' ? "" : "./", path), *result = NULL, *real = NULL;
  size_t size = head ? strlen(head) : 0;
  bool unclear = !head;
  while (!unclear && !(real = realpath(head, NULL))) { /* the last part goes, until the rest is there */
    while (size > 0 && head[size - 1] == '/') size--;
    size_t end = size;
    while (size > 0 && head[size - 1] != '/') size--;
    unclear = size == 0 || (end - size == 2 && !memcmp(head + size, "..", 2));
    head[size] = 0;
  }
  if (real) {
    const char *rest = path + (size - (*path == '/' ? 0 : 2));
    bool whole = size == strlen(path) + (*path == '/' ? 0 : 2);
    result = whole ? sqlite3_mprintf("%s", real) : sqlite3_mprintf("%s/%s", strcmp(real, "/") ? real : "", rest);
  }
  free(real);
  sqlite3_free(head);
  return result;
}

static bool lies_below(const char *path, const char *directory) {
  size_t size = strlen(directory);
  if (!strcmp(directory, "/")) return true;
  return !strncmp(path, directory, size) && (path[size] == '/' || !path[size]);
}

int tsx_restrict_permits(void *argument, const char *path, tsr_error *error) {
  const tsx_connection *connection = argument;
  if (!connection->restricted) return TSR_OK;
  char *resolved = resolve(path);
  int code = TSR_OK;
  if (!resolved || !lies_below(resolved, connection->restricted))
    code = tsx_fail(error, TSR_PERM, "%s is not below %s, to which tessera_restrict has bound this connection", path,
                    connection->restricted);
  sqlite3_free(resolved);
  return code;
}

/* Rows and arrays of the open transaction would go where they were meant to. */
static int check_open(const tsx_connection *connection, const char *directory, tsr_error *error) {
  int code = TSR_OK;
  for (const tsx_array *array = connection->arrays; array && code == TSR_OK; array = array->next) {
    if (array->in_database || (!array->transaction && !array->creation)) continue;
    char *path = resolve(array->path);
    if (!path || !lies_below(path, directory))
      code = tsx_fail(error, TSR_ERROR, "the transaction has rows for %s, or makes it: commit first", array->path);
    sqlite3_free(path);
  }
  return code;
}

/* tessera_restrict(directory) */
void tsx_restrict(sqlite3_context *context, int count, sqlite3_value **values) {
  tsx_connection *connection = sqlite3_user_data(context);
  tsr_error error = {0};
  int code = tsx_arguments_check(count, values, 1, &error);
  const char *path = code == TSR_OK ? (const char *)sqlite3_value_text(values[0]) : "";
  char *real = code == TSR_OK ? realpath(path, NULL) : NULL;
  if (code == TSR_OK && !real) code = tsx_fail(&error, TSR_NOT_FOUND, "no such directory: %s", path);
  if (code == TSR_OK) code = tsx_restrict_permits(connection, real, &error);
  if (code == TSR_OK) code = check_open(connection, real, &error);
  char *copy = code == TSR_OK ? sqlite3_mprintf("%s", real) : NULL;
  if (code == TSR_OK && !copy) code = tsx_out_of_memory(&error);
  if (copy) {
    sqlite3_free(connection->restricted);
    connection->restricted = copy;
  }
  free(real);
  tsx_function_end(context, "tessera_restrict", code, &error);
}
