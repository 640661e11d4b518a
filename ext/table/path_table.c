/* path_table.c: a path in FROM as a table, which no CREATE has made.
 *
 * The table is registered on the connection (connection/registry.h) for the array's canonical path and its newest
 * schema. So a statement that is compiled later than a schema change gets a table with the new columns. The table is
 * read-only, and otherwise that of CREATE VIRTUAL TABLE ... USING tessera('PATH'). */
#include "table/table.h"

#include <string.h>

#include "connection/errors.h"
#include "connection/registry.h"
#include "database/store_sqlite.h"

/* Finds what is at a path in FROM. Returns 1 if it is an array; 0 if the text is no path. `plain` is the canonical
 * path. */
static int path_look(tsx_connection *connection, const char *path, const char *plain, tsr_error *error) {
  tsr_object_kind kind = TSR_OBJECT_NONE;
  const bool slash = strchr(path, '/') != NULL;
  const int code = tsr_object_find(connection->environment, plain, &kind, error);
  if (code < 0) return slash || code == TSR_NOMEM || code == TSR_INTERRUPT ? code : 0;
  if (kind == TSR_OBJECT_ARRAY) return 1;
  if (kind == TSR_OBJECT_GROUP)
    return tsx_fail(error, TSR_ERROR, "'%s' is a group: name one of its arrays (tessera_members lists them)", path);
  return slash ? tsx_fail(error, TSR_NOT_FOUND, "no table and no array is called '%s'", path) : 0;
}

/* Gives the name of the newest schema of an array, which changes whenever the schema does. From sqlite3_malloc. */
static int path_schema(tsx_connection *connection, const char *plain, char **name, tsr_error *error) {
  uint8_t key[32];
  tsx_array *array = NULL;
  const tsr_schema *schema;
  const bool has_key = tsx_key_find(connection, plain, key);
  int code = tsx_array_open(connection, plain, has_key ? key : NULL, TSX_CACHE_AS_IS, 0, &array, error);
  tsx_wipe(key, sizeof key);
  if (code == TSR_OK) code = tsr_array_schema(array->core, TSR_TIME_NOW, &schema, error);
  if (code == TSR_OK && !(*name = sqlite3_mprintf("%s", schema->name))) code = tsx_out_of_memory(error);
  tsx_array_release(connection, array);
  return code;
}

int tsx_path_table(tsx_connection *connection, const char *home, const char *path, const char **name,
                   tsr_error *error) {
  char *resolved = NULL, *plain = NULL, *schema = NULL;
  const tsx_registered *table;
  if (!*path || tsx_store_is(path)) return 0;
  int code = tsx_path_resolve(connection->db, home, path, &resolved, error);
  if (code == TSR_OK && !(plain = tsx_path_canonical(resolved))) code = tsx_out_of_memory(error);
  if (code == TSR_OK) code = path_look(connection, path, plain, error);
  const bool found = code > 0;
  if (found) code = path_schema(connection, plain, &schema, error);
  if (found && code == TSR_OK) code = tsx_registry_take(connection, tsx_module_path, plain, schema, &table, error);
  if (found && code == TSR_OK) *name = table->name;
  sqlite3_free(resolved);
  sqlite3_free(plain);
  sqlite3_free(schema);
  return code < 0 ? code : found;
}
